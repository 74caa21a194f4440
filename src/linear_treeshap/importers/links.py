"""What models do with the sum of their trees: whose ``predict()`` is the raw output, and who bends it how.

Each importer answers for its models; where it does not, the answer is no, or none.
"""

from __future__ import annotations

import os
from typing import Any

from ..model.ensemble import TreeEnsemble
from ..model.joint_links import Mixture
from ..model.links import Link
from ..model.saved_model import SavedModel
from . import importer_of
from .pipelines.preprocessing import unwrap

__all__ = ["advice_for", "is_softmax", "link_of", "mixture_of", "predicts_raw"]


def predicts_raw(model: Any) -> bool:
    """Does ``model.predict(X)`` give what `raw_prediction` gives? Classifiers name classes."""
    if isinstance(model, SavedModel):
        return model.predicts_raw
    inside = unwrap(model)
    if not hasattr(inside, "predict") or hasattr(inside, "predict_proba"):
        return False
    return bool(_answer("predicts_raw", inside))


def link_of(model: Any) -> Link | None:
    """The function that turns each raw output into a probability or a mean, on its own; None if there is none
    or it is not known. Softmax is none: it takes all raw outputs at once."""
    if isinstance(model, SavedModel):
        return model.link
    link: Link | None = _answer("link", unwrap(model))
    return link


def is_softmax(model: Any) -> bool:
    """Are the probabilities of this model known to be a softmax of all raw outputs at once?"""
    if isinstance(model, SavedModel):
        return model.is_softmax
    return bool(_answer("is_softmax", unwrap(model)))


def mixture_of(model: Any) -> Mixture | None:
    """The functions of several raw outputs whose mean the probabilities of this model are; None if it has raw
    outputs of its own."""
    if isinstance(model, SavedModel):
        return None
    mixture: Mixture | None = _answer("mixture", unwrap(model))
    return mixture


def advice_for(method: str, model: Any) -> str | None:
    """How to explain what a prediction method gives, where that has trees of its own; None if it has not."""
    if isinstance(model, SavedModel):
        return None
    advice: str | None = _answer("advice", unwrap(model), method)
    return advice


def _answer(question: str, model: Any, *details: Any) -> Any:
    """What the model's importer says; None if it says nothing, or there are trees without their library."""
    if isinstance(model, (TreeEnsemble, str, os.PathLike)):
        return None
    answer = getattr(importer_of(model), question, None)
    return None if answer is None else answer(model, *details)
