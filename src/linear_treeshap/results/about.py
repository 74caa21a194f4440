"""About: what made an explanation, for the views that tell it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ..model.ensemble import TreeEnsemble
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
            **asked,
        )


def _in_words(asked: object) -> str:
    """What a user asked for: a name, a tuple of a name and numbers, or a function of their own."""
    return asked if isinstance(asked, str) else str(getattr(asked, "__name__", asked))
