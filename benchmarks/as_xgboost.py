"""TreeEnsemble → xgboost.Booster, so that XGBoost explains the very trees the others explain.

XGBoost holds thresholds, leaf values and covers in float32 and asks ``x < threshold``.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from linear_treeshap.ensemble import TreeEnsemble

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
    nodes = slice(ensemble.tree_offsets[index], ensemble.tree_offsets[index + 1])
    left, right, leaf = ensemble.left[nodes], ensemble.right[nodes], ensemble.left[nodes] < 0
    n = len(left)
    parents = np.full(n, _NO_PARENT)
    for children in (left, right):
        parents[children[~leaf]] = np.flatnonzero(~leaf)
    value = ensemble.value[nodes, 0]
    condition = np.where(leaf, value, _below(ensemble.threshold[nodes]))
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
        "right_children": right.tolist(),
        "split_conditions": condition.tolist(),
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
