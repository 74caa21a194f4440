"""scikit-survival's trees and forests → TreeEnsemble of their risk score.

The risk score is that of ``predict``: the cumulative hazard summed over the times at which events were
seen, which is a sum of trees. So are the curves themselves at each time: `survival_curves.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..model.ensemble import TreeEnsemble
from .sklearn_rows import predict_as_trained, tree_row_format
from .sklearn_trees import fitted, splits_of

__all__ = ["LIBRARY", "advice", "mean_of_trees", "predicts_raw", "raw_prediction", "to_ensemble"]

LIBRARY = "scikit-survival"


def to_ensemble(model: Any) -> TreeEnsemble:
    return mean_of_trees(model, _risk, ("risk",))


def mean_of_trees(
    model: Any, values: Callable[[Any, Any], npt.NDArray[np.float64]], names: tuple[str, ...]
) -> TreeEnsemble:
    """A tree, or the mean of those of a forest; ``values(estimator, tree)`` has a line for each node."""
    estimators = model.estimators_ if hasattr(model, "estimators_") else [model]
    trees = [fitted(estimator, "tree_") for estimator in estimators]
    nodes = splits_of(trees, width=len(names))
    nodes.fill("value", (values(*pair) for pair in zip(estimators, trees, strict=True)))
    nodes.value[...] /= len(trees)
    return TreeEnsemble(
        **nodes.finish(),
        base_values=np.zeros(len(names)),
        row_format=tree_row_format(model),
        output_names=names,
    )


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float64]:
    return predict_as_trained(model.predict, X, tree_row_format(model))


def predicts_raw(model: Any) -> bool:
    return True


def advice(model: Any, method: str) -> str | None:
    kinds = {
        "predict_survival_function": "survival",
        "predict_cumulative_hazard_function": "cumulative hazard",
    }
    if method not in kinds:
        return None
    curve = f"survival_curve(model, times=[...], kind={kinds[method]!r})"
    return f"Explain the curve itself: TreeExplainer({curve})."


def _risk(estimator: Any, tree: Any) -> npt.NDArray[np.float64]:
    """(n_nodes, 1) the risk score of each node."""
    if tree.value.shape[1:] == (1, 1):
        # Trained with low_memory=True: the tree keeps the score and no curves.
        return np.asarray(tree.value[:, 0])
    hazard = tree.value[:, :, 0]  # (n_nodes, n_times); the last axis is hazard, survival
    return np.asarray(hazard[:, estimator.is_event_time_].sum(axis=1, keepdims=True))
