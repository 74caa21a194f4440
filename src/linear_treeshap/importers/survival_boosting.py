"""scikit-survival's gradient boosting of trees → TreeEnsemble of its risk score.

For the loss of Cox's model that is the logarithm of the hazard ratio, which is what ``predict`` gives. The
other losses have the logarithm of a time, and ``predict`` gives the time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..model.ensemble import TreeEnsemble
from ..model.links import Exponential, Link
from .sklearn_rows import predict_as_trained, tree_row_format
from .sklearn_trees import fitted, splits_of

__all__ = ["link", "predicts_raw", "raw_prediction", "to_ensemble"]


def to_ensemble(model: Any) -> TreeEnsemble:
    trees = [estimator.tree_ for estimator in fitted(model, "estimators_").ravel()]
    nodes = splits_of(trees, width=1)
    nodes.fill("value", (tree.value[:, 0] for tree in trees))
    # Where trees were dropped in training, each has a weight of its own.
    scales = np.asarray(getattr(model, "_scale", np.ones(len(trees))))[: len(trees)]
    nodes.value[:, 0] *= model.learning_rate * np.repeat(scales, np.diff(nodes.tree_offsets))
    row = np.zeros((1, model.n_features_in_), dtype=np.float32)
    return TreeEnsemble(
        **nodes.finish(),
        base_values=np.asarray(model._raw_predict_init(row), dtype=np.float64).ravel(),
        row_format=tree_row_format(model),
        output_names=("risk" if predicts_raw(model) else "log of time",),
    )


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float64]:
    prediction = predict_as_trained(model.predict, X, tree_row_format(model))
    return prediction if predicts_raw(model) else np.log(prediction)


def predicts_raw(model: Any) -> bool:
    return bool(model.loss == "coxph")


def link(model: Any) -> Link | None:
    return None if predicts_raw(model) else Exponential()
