"""scikit-learn's IsolationForest → TreeEnsemble.

An anomaly score is not a sum of trees, but the mean path length it is made of is: the mean over the
trees of the number of splits a row passes, plus the expected number of further splits, c(n), that it
would take to isolate it from the n training rows in its leaf. Short paths mean anomalies, so as with
``score_samples``, which is ``-2 ** (-path length / c(max_samples_))``, low values are anomalous.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..model.ensemble import TreeEnsemble
from .assemble import NodeArrays
from .sklearn_rows import predict_as_trained, tree_row_format
from .sklearn_trees import fitted, splits_of

__all__ = ["raw_prediction", "to_ensemble"]

Float64 = npt.NDArray[np.float64]


def to_ensemble(model: Any) -> TreeEnsemble:
    trees = [estimator.tree_ for estimator in fitted(model, "estimators_")]
    nodes = splits_of(trees, width=1)
    # With max_features < 1 each tree sees its own choice of columns.
    tree_of = np.repeat(np.arange(len(trees)), np.diff(nodes.tree_offsets))
    inner = nodes.left >= 0
    nodes.feature[inner] = np.asarray(model.estimators_features_)[tree_of[inner], nodes.feature[inner]]
    nodes.fill("value", (expected_path_length(tree.n_node_samples)[:, None] for tree in trees))
    nodes.value[:, 0] += _depths(nodes)
    nodes.value[...] /= len(trees)
    return TreeEnsemble(
        **nodes.finish(),
        base_values=np.zeros(1),
        row_format=tree_row_format(model),
        output_names=("path length",),
    )


def raw_prediction(model: Any, X: Any) -> Float64:
    scores = predict_as_trained(model.score_samples, X, tree_row_format(model))
    return -np.log2(-scores) * expected_path_length(np.array([model.max_samples_]))


def expected_path_length(n_rows: npt.NDArray[Any]) -> Float64:
    """c(n) of the isolation forest paper: mean depth of a row in a random binary tree of n rows."""
    n = np.maximum(np.asarray(n_rows, dtype=np.float64), 2.0)
    # For three rows or more; the harmonic number is approximated by log + gamma, as in the library.
    length = 2.0 * (np.log(np.maximum(n - 1.0, 1.0)) + np.euler_gamma) - 2.0 * (n - 1.0) / n
    return np.where(n_rows <= 1, 0.0, np.where(n_rows == 2, 1.0, length))


def _depths(nodes: NodeArrays) -> npt.NDArray[np.int64]:
    """The number of edges from the root to each node."""
    root = np.repeat(nodes.tree_offsets[:-1], np.diff(nodes.tree_offsets))
    depth = np.zeros(len(root), dtype=np.int64)
    level = nodes.tree_offsets[:-1]
    while (parents := level[nodes.left[level] >= 0]).size:
        level = np.concatenate([root[parents] + nodes.left[parents], root[parents] + nodes.right[parents]])
        depth[level] = np.tile(depth[parents] + 1, 2)
    return depth
