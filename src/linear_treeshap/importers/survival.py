"""scikit-survival's trees and forests → TreeEnsemble of their risk score.

The risk score is that of ``predict``: the cumulative hazard summed over the times at which events were
seen, which is a sum of trees. Survival curves are not explained.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..model.ensemble import TreeEnsemble
from .sklearn_rows import predict_as_trained, tree_row_format
from .sklearn_trees import fitted, splits_of

__all__ = ["LIBRARY", "predicts_raw", "raw_prediction", "to_ensemble"]

LIBRARY = "scikit-survival"


def to_ensemble(model: Any) -> TreeEnsemble:
    estimators = model.estimators_ if hasattr(model, "estimators_") else [model]
    trees = [fitted(estimator, "tree_") for estimator in estimators]
    nodes = splits_of(trees, width=1)
    nodes.fill("value", (_risk(*pair)[:, None] for pair in zip(estimators, trees, strict=True)))
    nodes.value[...] /= len(trees)
    return TreeEnsemble(
        **nodes.finish(),
        base_values=np.zeros(1),
        row_format=tree_row_format(model),
        output_names=("risk",),
    )


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float64]:
    return predict_as_trained(model.predict, X, tree_row_format(model))


def predicts_raw(model: Any) -> bool:
    return True


def _risk(estimator: Any, tree: Any) -> npt.NDArray[np.float64]:
    """(n_nodes,) the risk score of each node."""
    if tree.value.shape[1:] == (1, 1):
        # Trained with low_memory=True: the tree keeps the score and no curves.
        return np.asarray(tree.value[:, 0, 0])
    hazard = tree.value[:, :, 0]  # (n_nodes, n_times); the last axis is hazard, survival
    return np.asarray(hazard[:, estimator.is_event_time_].sum(axis=1))
