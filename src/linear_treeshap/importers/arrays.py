"""A dictionary of arrays → TreeEnsemble: the way in for any model that nobody else reads.

::

    {
        "trees": [
            {
                "children_left": [1, -1, -1],      # -1 at a leaf
                "children_right": [2, -1, -1],
                "children_default": [1, -1, -1],   # where missing values go; optional: right
                "features": [0, -1, -1],
                "thresholds": [0.5, 0, 0],         # left iff x <= threshold
                "values": [[0], [1], [3]],         # (n_nodes,) or (n_nodes, n_outputs)
                "node_sample_weight": [4, 3, 1],   # training weight that reached the node
            },
        ],
        "base_offset": 10.0,                       # optional: 0; one number, or one per output
        "input_dtype": "float32",                  # optional: float64; what rows are cast to
        "num_features": 1,                         # optional: as many as the trees use
        "feature_names": ["age"],                  # optional
        "output_names": ["price"],                 # optional
    }

The names inside a tree may also be those of scikit-learn: ``feature``, ``threshold``, ``value``,
``weighted_n_node_samples``. A raw prediction is the base offset plus the sum of the trees.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..errors import ModelError
from ..model.ensemble import TreeEnsemble
from ..model.row_format import RowFormat
from .assemble import NodeArrays

__all__ = ["to_ensemble"]

#: Each array of a tree, and other names it goes by.
_TREE_ARRAYS: dict[str, tuple[str, ...]] = {
    "children_left": (),
    "children_right": (),
    "children_default": (),
    "features": ("feature",),
    "thresholds": ("threshold",),
    "values": ("value",),
    "node_sample_weight": ("weighted_n_node_samples",),
}
#: What explainers that take the same dictionary read beside the trees and the sum does not need.
_IGNORED = {"internal_dtype", "objective", "tree_output", "tree_limit"}
_TOP_LEVEL = {"trees", "base_offset", "input_dtype", "num_features", "feature_names", "output_names"}


def to_ensemble(model: Mapping[str, Any]) -> TreeEnsemble:
    unknown = sorted(set(model) - _TOP_LEVEL - _IGNORED)
    if "trees" not in model or unknown:
        problem = f"does not know {unknown}" if unknown else "needs 'trees'"
        raise ModelError(f"A dictionary of arrays {problem}; it may have {sorted(_TOP_LEVEL)}.")
    trees = [_tree(index, tree) for index, tree in enumerate(model["trees"])]
    base = np.atleast_1d(np.asarray(model.get("base_offset", 0.0), dtype=np.float64)).ravel()
    width = max([len(base), *(tree["values"].shape[1] for tree in trees)])
    nodes = NodeArrays.empty([len(tree["children_left"]) for tree in trees], width)
    for index, tree in enumerate(trees):
        here = nodes.nodes_of(index)
        leaf = tree["children_left"] < 0
        nodes.left[here] = np.where(leaf, -1, tree["children_left"])
        nodes.right[here] = np.where(leaf, -1, tree["children_right"])
        nodes.feature[here] = np.where(leaf, -1, tree["features"])
        nodes.threshold[here] = np.where(leaf, 0.0, tree["thresholds"])
        nodes.cover[here] = tree["node_sample_weight"]
        if tree["values"].shape[1] != width:
            raise ModelError(f"Tree {index} has {tree['values'].shape[1]} values per node, expected {width}.")
        nodes.value[here] = tree["values"]
        nodes.missing_left[here] = ~leaf & (tree["children_default"] == tree["children_left"])
    return TreeEnsemble(
        **nodes.finish(),
        base_values=np.broadcast_to(base, (width,)),
        row_format=_row_format(model, nodes.feature),
        output_names=model.get("output_names"),
    )


def _tree(index: int, tree: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """The arrays of one tree under their first names, of equal length."""
    arrays = {}
    for name, others in _TREE_ARRAYS.items():
        given = [key for key in (name, *others) if key in tree]
        if not given and name == "children_default":
            given = ["children_right"]
        if not given:
            raise ModelError(f"Tree {index} lacks {name!r}; a tree needs {sorted(_TREE_ARRAYS)}.")
        arrays[name] = np.asarray(tree[given[0]])
    n = len(arrays["children_left"])
    values = arrays["values"]
    arrays["values"] = values.reshape(len(values), -1)
    for name, array in arrays.items():
        if len(array) != n or (array.ndim != 1 and name != "values"):
            raise ModelError(f"Tree {index}: {name} has shape {array.shape} for {n} nodes.")
    inner = arrays["children_left"] >= 0
    default = arrays["children_default"]
    if (inner & (default != arrays["children_left"]) & (default != arrays["children_right"])).any():
        raise ModelError(f"Tree {index}: children_default must be one of the two children of its node.")
    return arrays


def _row_format(model: Mapping[str, Any], feature: npt.NDArray[np.int32]) -> RowFormat:
    names = model.get("feature_names")
    used = int(np.max(feature, initial=-1)) + 1
    n_features = int(model.get("num_features", used if names is None else len(names)))
    dtype = np.dtype(model.get("input_dtype", np.float64)).name
    return RowFormat(n_features, None if names is None else tuple(map(str, names)), dtype=cast(Any, dtype))
