"""scikit-learn's GradientBoosting → TreeEnsemble.

The output is that of ``decision_function`` (log-odds; one per class if there are more than two) or,
for a regressor, of ``predict``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import UnsupportedModelError
from ..model.ensemble import TreeEnsemble
from ..model.links import Link, Logistic
from .sklearn_rows import predict_as_trained, tree_row_format
from .sklearn_trees import fitted, splits_of

__all__ = ["class_names", "is_softmax", "link", "predicts_raw", "raw_prediction", "to_ensemble"]


def to_ensemble(model: Any) -> TreeEnsemble:
    stages = fitted(model, "estimators_")  # (n_stages, n_outputs)
    trees = [estimator.tree_ for estimator in stages.ravel()]
    nodes = splits_of(trees, width=1)
    nodes.fill("value", (tree.value[:, 0] for tree in trees))
    nodes.value[...] *= model.learning_rate
    n_outputs = stages.shape[1]
    return TreeEnsemble(
        **nodes.finish(),
        base_values=_base_values(model),
        tree_output=np.tile(np.arange(n_outputs, dtype=np.int32), len(stages)),
        row_format=tree_row_format(model),
        output_names=class_names(model, n_outputs),
    )


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float64]:
    predict = model.decision_function if hasattr(model, "decision_function") else model.predict
    return predict_as_trained(predict, X, tree_row_format(model))


def predicts_raw(model: Any) -> bool:
    return True


def link(model: Any) -> Link | None:
    if len(getattr(model, "classes_", ())) != 2:
        return None
    # AdaBoost's loss is that of half the log-odds.
    return Logistic(2.0 if model.loss == "exponential" else 1.0)


def is_softmax(model: Any) -> bool:
    return len(getattr(model, "classes_", ())) > 2


def class_names(model: Any, n_outputs: int) -> tuple[str, ...] | None:
    """The classes the outputs speak of; a single output speaks of the second of two classes."""
    classes = getattr(model, "classes_", None)
    return None if classes is None else tuple(map(str, classes[-n_outputs:]))


def _base_values(model: Any) -> npt.NDArray[np.float64]:
    """What the model predicts before its first tree; it must not depend on the row."""
    start = model.init_
    name = type(start).__name__
    constant = isinstance(start, str) or name in ("DummyClassifier", "DummyRegressor")
    if not constant or getattr(start, "strategy", None) == "stratified":
        raise UnsupportedModelError(
            f"This {type(model).__name__} starts from the predictions of {name} (its init parameter), which "
            f"vary from row to row and are no part of its trees. Train it with init=None or init='zero'."
        )
    row = np.zeros((1, model.n_features_in_), dtype=np.float32)
    return np.asarray(model._raw_predict_init(row), dtype=np.float64).ravel()
