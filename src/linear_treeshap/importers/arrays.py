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
        "num_features": 1,                         # optional: those the trees use, and any that follow
        "feature_names": ["age"],                  # optional
        "output_names": ["price"],                 # optional
    }

The names inside a tree may also be those of scikit-learn: ``feature``, ``threshold``, ``value``,
``weighted_n_node_samples``. A raw prediction is the base offset plus the sum of the trees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
#: Those that hold numbers of nodes and features.
_WHOLE = ("children_left", "children_right", "children_default", "features")
#: What explainers that take the same dictionary read beside the trees and the sum does not need.
_IGNORED = {"internal_dtype", "objective", "tree_output", "tree_limit"}
_TOP_LEVEL = {"trees", "base_offset", "input_dtype", "num_features", "feature_names", "output_names"}


def to_ensemble(model: Mapping[str, Any]) -> TreeEnsemble:
    unknown = sorted(str(key) for key in set(model) - _TOP_LEVEL - _IGNORED)
    if "trees" not in model or unknown:
        problem = f"does not know {unknown}" if unknown else "needs 'trees'"
        raise ModelError(f"A dictionary of arrays {problem}; it may have {sorted(_TOP_LEVEL)}.")
    if not isinstance(model["trees"], Sequence) or isinstance(model["trees"], (str, bytes)):
        raise ModelError(f"trees must be a list of dictionaries, one per tree; got {_brief(model['trees'])}.")
    trees = [_tree(index, tree) for index, tree in enumerate(model["trees"])]
    base = _numbers("base_offset", model.get("base_offset", 0.0)).astype(np.float64).ravel()
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
    if len(base) not in (1, width):
        raise ModelError(f"base_offset has {len(base)} numbers for {width} outputs; expected 1 or {width}.")
    return TreeEnsemble(
        **nodes.finish(),
        base_values=np.broadcast_to(base, (width,)),
        row_format=_row_format(model, nodes.feature),
        output_names=_names("output_names", model.get("output_names")),
    )


def _tree(index: int, tree: Any) -> dict[str, npt.NDArray[Any]]:
    """The arrays of one tree under their first names, of equal length."""
    if not isinstance(tree, Mapping):
        raise ModelError(f"Tree {index} must be a dictionary of arrays, got {_brief(tree)}.")
    arrays = {}
    for name, others in _TREE_ARRAYS.items():
        given = [key for key in (name, *others) if key in tree]
        if not given and name == "children_default":
            given = ["children_right"]
        if not given:
            raise ModelError(f"Tree {index} lacks {name!r}; a tree needs {sorted(_TREE_ARRAYS)}.")
        arrays[name] = _numbers(f"Tree {index}: {name}", tree[given[0]], whole=name in _WHOLE)
    n = arrays["children_left"].size
    for name, array in arrays.items():
        if array.shape[:1] != (n,) or n == 0 or (array.ndim != 1 and name != "values"):
            raise ModelError(f"Tree {index}: {name} has shape {array.shape} for {n} nodes.")
    arrays["values"] = arrays["values"].reshape(n, -1)
    inner = arrays["children_left"] >= 0
    default = arrays["children_default"]
    if (inner & (default != arrays["children_left"]) & (default != arrays["children_right"])).any():
        raise ModelError(f"Tree {index}: children_default must be one of the two children of its node.")
    return arrays


def _numbers(what: str, given: Any, *, whole: bool = False) -> npt.NDArray[Any]:
    """An array of numbers; of whole ones that fit into 32 bits, if they are to be."""
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise ModelError(f"{what} must be an array of numbers; its rows differ in length.") from error
    if array.dtype.kind not in "biuf" and array.size:
        raise ModelError(f"{what} must be numbers, got {_brief(given)}.")
    if whole:
        with np.errstate(invalid="ignore"):
            if not np.array_equal(array, array.astype(np.int32)):
                raise ModelError(f"{what} must be whole numbers of 32 bits, got {_brief(given)}.")
    return array


def _row_format(model: Mapping[str, Any], feature: npt.NDArray[np.int32]) -> RowFormat:
    names = _names("feature_names", model.get("feature_names"))
    used = int(np.max(feature, initial=-1)) + 1
    n_features = model.get("num_features", used if names is None else len(names))
    if isinstance(n_features, bool) or not isinstance(n_features, (int, np.integer)):
        raise ModelError(f"num_features must be a whole number, got {_brief(n_features)}.")
    try:
        dtype = np.dtype(model.get("input_dtype", np.float64)).name
    except (TypeError, ValueError, OverflowError, SyntaxError) as error:  # NumPy may evaluate a text
        raise ModelError(
            f"input_dtype must be 'float32' or 'float64', got {_brief(model['input_dtype'])}."
        ) from error
    is_open = names is None and "num_features" not in model
    return RowFormat(int(n_features), names, dtype=cast(Any, dtype), takes_more=is_open)


def _names(what: str, given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    if not isinstance(given, (Sequence, np.ndarray)) or isinstance(given, (str, bytes)):
        raise ModelError(f"{what} must be a list of names, got {_brief(given)}.")
    return tuple(map(str, given))


def _brief(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 80 else f"{text[:77]}…"
