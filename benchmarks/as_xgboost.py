"""TreeEnsemble → xgboost.Booster, so that XGBoost explains the very trees the others explain.

XGBoost holds thresholds, leaf values and covers in float32, asks ``x < threshold``, and takes for
granted that a right child is the next node after its left sibling.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from linear_treeshap.model.ensemble import TreeEnsemble

__all__ = ["as_xgboost"]

_NO_PARENT = 2**31 - 1


def as_xgboost(ensemble: TreeEnsemble) -> Any:
    import xgboost

    if (ensemble.category_set >= 0).any() or ensemble.n_outputs != 1:
        raise RuntimeError("only numeric splits and one output are loaded into XGBoost")
    n_features, n_trees = str(ensemble.n_features), str(ensemble.n_trees)
    forest = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": n_trees},
        "iteration_indptr": list(range(ensemble.n_trees + 1)),
        "tree_info": [0] * ensemble.n_trees,
        "trees": [_tree(ensemble, index) for index in range(ensemble.n_trees)],
    }
    learner = {
        "attributes": {},
        "feature_names": [],
        "feature_types": [],
        "gradient_booster": {"model": forest, "name": "gbtree"},
        "learner_model_param": {
            "base_score": "0",
            "boost_from_average": "0",
            "num_class": "0",
            "num_feature": n_features,
            "num_target": "1",
        },
        "objective": {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}},
    }
    booster = xgboost.Booster()
    booster.load_model(bytearray(json.dumps({"learner": learner, "version": [3, 0, 0]}), "ascii"))
    return booster


def _tree(ensemble: TreeEnsemble, index: int) -> dict[str, Any]:
    first = int(ensemble.tree_offsets[index])
    order = [0]  # siblings side by side
    for node in order:  # grows while it is read
        if ensemble.left[first + node] >= 0:
            order += [int(ensemble.left[first + node]), int(ensemble.right[first + node])]
    nodes, n = first + np.array(order), len(order)
    leaf = ensemble.left[nodes] < 0
    left = np.full(n, -1)
    left[~leaf] = 1 + 2 * np.arange(np.count_nonzero(~leaf))  # children come in the order of parents
    parents = np.full(n, _NO_PARENT)
    parents[1:] = np.repeat(np.flatnonzero(~leaf), 2)
    value = ensemble.value[nodes, 0]
    return {
        "base_weights": np.where(leaf, value, 0.0).tolist(),
        "categories": [],
        "categories_nodes": [],
        "categories_segments": [],
        "categories_sizes": [],
        "default_left": ensemble.missing_left[nodes].astype(int).tolist(),
        "id": index,
        "left_children": left.tolist(),
        "loss_changes": [0.0] * n,
        "parents": parents.tolist(),
        "right_children": np.where(leaf, -1, left + 1).tolist(),
        "split_conditions": np.where(leaf, value, _below(ensemble.threshold[nodes])).tolist(),
        "split_indices": np.where(leaf, 0, ensemble.feature[nodes]).tolist(),
        "split_type": [0] * n,
        "sum_hessian": ensemble.cover[nodes].tolist(),
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(ensemble.n_features),
            "num_nodes": str(n),
            "size_leaf_vector": "1",
        },
    }


def _below(threshold: Any) -> Any:
    """The float32 number t for which ``x < t`` says what ``x <= threshold`` says of float32 numbers x."""
    rounded = threshold.astype(np.float32)
    down = np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded)
    return np.nextafter(down, np.float32(np.inf)).astype(np.float64)
