"""SavedModel: the trees of a model, and what is known of it once its library is no longer at hand."""

from __future__ import annotations

from dataclasses import dataclass

from .ensemble import TreeEnsemble
from .links import Link

__all__ = ["SavedModel"]


@dataclass(frozen=True)
class SavedModel:
    """What a file keeps of a model: enough to explain every output that the model itself has."""

    ensemble: TreeEnsemble
    #: The name of its class.
    name: str
    #: What turns each raw output into a probability or a mean; None if nothing does, or it is not known.
    link: Link | None = None
    #: Is ``predict()`` the raw output?
    predicts_raw: bool = False
    #: The names of its prediction methods, which are names of outputs.
    methods: tuple[str, ...] = ()
    #: Are its probabilities a softmax of all raw outputs at once?
    is_softmax: bool = False
