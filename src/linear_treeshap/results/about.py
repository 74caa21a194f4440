"""About: what made an explanation, for the views that tell it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..importers.links import link_of
from ..importers.model_output import is_distribution
from ..model.ensemble import TreeEnsemble
from ..model.links import Logistic
from ..model.saved_model import SavedModel

__all__ = ["About"]


@dataclass(frozen=True)
class About:
    """The model behind an explanation, and how it was asked.

    Examples
    --------
    >>> from linear_treeshap import TreeExplainer
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> model = DecisionTreeRegressor(max_depth=1).fit([[0], [0], [0], [1]], [1, 1, 1, 3])
    >>> about = TreeExplainer(model)([[0.0]]).about
    >>> about.model, about.n_leaves, about.checked_with
    ('DecisionTreeRegressor', 2, 'model')
    """

    model: str
    n_trees: int
    n_leaves: int
    model_output: str
    feature_perturbation: str
    index: str = "shapley"
    #: Do values and base value add up to the output? Not of some features only, nor of most other indices.
    adds_up: bool = True
    #: What the sums were compared with: "trees", what these predict; "model", the same and, for some of the
    #: rows that the explainer was given, that with the model's own prediction; or "nothing".
    checked_with: str = "nothing"
    #: "log-odds" or "probability", where the output is known to be one.
    unit: str | None = None
    #: What turns log-odds into a probability.
    link: Logistic | None = None

    @classmethod
    def of(
        cls, model: object, ensemble: TreeEnsemble, *, model_output: object, index: object, **asked: Any
    ) -> About:
        """Of the model that was given: an object is called by its class, a file by its name."""
        if isinstance(model, SavedModel):
            name = model.name
        elif isinstance(model, (str, os.PathLike)):
            name = os.path.basename(model)
        else:
            name = type(model).__name__
        return cls(
            name,
            ensemble.n_trees,
            ensemble.n_leaves,
            _in_words(model_output),
            index=_in_words(index),
            **_meaning(model, ensemble, model_output),
            **asked,
        )

    def probability(self, output: float) -> float | None:
        """Of an output in log-odds; None if it is in anything else."""
        if self.link is None or not self.adds_up:
            return None
        return float(self.link.apply(np.array([output]), None)[0])


def _meaning(model: object, ensemble: TreeEnsemble, model_output: object) -> dict[str, Any]:
    """The unit of the output, if it has a name."""
    if model_output == "probability" or (model_output == "raw" and is_distribution(ensemble)):
        return {"unit": "probability"}
    is_model = not isinstance(model, (TreeEnsemble, str, os.PathLike, Mapping))
    link = link_of(model) if is_model and model_output == "raw" else None
    return {"unit": "log-odds", "link": link} if isinstance(link, Logistic) else {}


def _in_words(asked: object) -> str:
    """What a user asked for: a name, a tuple of a name and numbers, or a function of their own."""
    return asked if isinstance(asked, str) else str(getattr(asked, "__name__", asked))
