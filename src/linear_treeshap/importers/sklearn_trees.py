"""scikit-learn trees and forests, and forests of other libraries built of such trees → TreeEnsemble.

A regressor has an output per target. A classifier has one per class: the probabilities of
``predict_proba``, for all targets one after another if there are several. A forest is the mean of
its trees. Rows are cast to float32 and compared (``<=``) with float64 thresholds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ModelError, UnsupportedModelError
from ..model.ensemble import TreeEnsemble
from .assemble import NodeArrays
from .sklearn_rows import monotone_of, predict_as_trained, tree_row_format

__all__ = ["LIBRARY", "fitted", "mean_of_trees", "predicts_raw", "raw_prediction", "splits_of", "to_ensemble"]

LIBRARY = "scikit-learn"

Float64 = npt.NDArray[np.float64]


def to_ensemble(model: Any) -> TreeEnsemble:
    ensemble = mean_of_trees(model)
    if type(model).__module__.partition(".")[0] != "sklearn":
        _require_same_prediction(model, ensemble)
    return ensemble


def mean_of_trees(model: Any) -> TreeEnsemble:
    """A tree, or the mean of the trees in ``model.estimators_``, whatever the model itself predicts."""
    if hasattr(model, "estimators_"):
        trees = [estimator.tree_ for estimator in model.estimators_]
    else:
        trees = [fitted(model, "tree_")]
    columns, names = _outputs(model, trees[0])
    nodes = splits_of(trees, width=len(columns))
    values = (tree.value.reshape(tree.node_count, -1) for tree in trees)
    has_others = len(columns) < trees[0].n_outputs * trees[0].max_n_classes
    nodes.fill("value", (value[:, columns] for value in values) if has_others else values)
    nodes.value[...] /= len(trees)
    return TreeEnsemble(
        **nodes.finish(),
        base_values=np.zeros(len(columns)),
        row_format=tree_row_format(model),
        output_names=names,
        # Of two classes the probability of the second is constrained; that of the first goes the other way.
        monotone={} if len(columns) > 1 else monotone_of(model),
    )


def raw_prediction(model: Any, X: Any) -> Float64:
    predict = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    return predict_as_trained(predict, X, tree_row_format(model))


def predicts_raw(model: Any) -> bool:
    return True


def fitted(model: Any, attribute: str) -> Any:
    """An attribute that only a fitted model has."""
    if not hasattr(model, attribute):
        raise ModelError(f"This {type(model).__name__} is not fitted yet: call its fit method first.")
    return getattr(model, attribute)


def splits_of(trees: Sequence[Any], width: int) -> NodeArrays:
    """Everything but the values of fitted trees, given as their ``tree_``."""
    nodes = NodeArrays.empty([tree.node_count for tree in trees], width)
    nodes.fill("left", (tree.children_left for tree in trees))
    nodes.fill("right", (tree.children_right for tree in trees))
    nodes.fill("feature", (tree.feature for tree in trees))
    nodes.fill("threshold", (tree.threshold for tree in trees))
    nodes.fill("cover", (tree.weighted_n_node_samples for tree in trees))
    nodes.fill("missing_left", (tree.missing_go_to_left for tree in trees))
    leaf = nodes.left < 0
    nodes.feature[leaf], nodes.threshold[leaf] = -1, 0.0
    return nodes


def _outputs(model: Any, tree: Any) -> tuple[Sequence[int], tuple[str, ...] | None]:
    """Which columns of a tree's flattened values are outputs, and what they are called.

    A classifier's values are padded to the largest number of classes among its targets.
    """
    classes = getattr(model, "classes_", None)
    if classes is None:
        return range(tree.n_outputs), None
    if tree.n_outputs == 1:
        return range(len(classes)), tuple(map(str, classes))
    columns, names = [], []
    for target, labels in enumerate(classes):
        columns += [target * tree.max_n_classes + code for code in range(len(labels))]
        names += [f"{target}: {label}" for label in labels]
    return columns, tuple(names)


def _require_same_prediction(model: Any, ensemble: TreeEnsemble) -> None:
    """Other libraries may combine the trees in any way: try some rows made of the thresholds."""
    rng = np.random.default_rng(0)
    inner = ~ensemble.is_leaf
    rows = np.zeros((8, ensemble.n_features), dtype=np.float32)
    for feature in np.unique(ensemble.feature[inner]):
        rows[1:, feature] = rng.choice(ensemble.threshold[inner & (ensemble.feature == feature)], size=7)
    ours, theirs = ensemble.predict(rows), raw_prediction(model, rows).reshape(len(rows), -1)
    if ours.shape != theirs.shape or not np.allclose(ours, theirs):
        raise UnsupportedModelError(
            f"{type(model).__name__} does not predict the mean of its trees, so its prediction is not a sum "
            f"of trees. Explain its trees one by one: model.estimators_."
        )
