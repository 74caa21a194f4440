"""treelite models (version 4 or later) → TreeEnsemble.

The output is treelite's ``predict(..., pred_margin=True)``: all classes of all targets one after
another. Rows are cast to the model's threshold type; unlike scikit-learn, treelite does not cast the
rows of a scikit-learn model to float32. Cover is the sum of hessians where the model has it, else the
count of training rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError, MissingDependencyError, UnsupportedModelError
from ..model.ensemble import TreeEnsemble
from ..model.row_format import RowFormat
from ..rows.rows import read_rows
from .assemble import NodeArrays

__all__ = ["BEGINNINGS", "LIBRARY", "raw_prediction", "read_file", "to_ensemble"]

LIBRARY = "treelite"
#: Its major version, as 32 bits; our own files begin with the length of a header, which is larger.
BEGINNINGS = (b"\x03\0\0\0", b"\x04\0\0\0")

_LEAF, _NUMERIC, _CATEGORICAL = 0, 1, 2  # node_type
_LESS, _LESS_EQUAL, _GREATER, _GREATER_EQUAL = 2, 3, 4, 5  # cmp: the row goes left iff x cmp threshold

Array = npt.NDArray[Any]


def to_ensemble(model: Any) -> TreeEnsemble:
    header = model.get_header_accessor()
    trees = [model.get_tree_accessor(tree) for tree in range(model.num_tree)]
    grid = _output_grid(header)
    n_outputs = int(grid.max()) + 1
    spoken_of = _outputs_of_trees(header, grid)
    narrow = all(len(outputs) == 1 for outputs in spoken_of)
    n_speakers = np.ones(n_outputs)
    if header.get_field("average_tree_output")[0]:
        everything = np.concatenate(spoken_of)
        n_speakers = np.bincount(everything[everything >= 0], minlength=n_outputs).astype(np.float64)

    sizes = [int(tree.get_field("num_nodes")[0]) for tree in trees]
    nodes = NodeArrays.empty(sizes, width=1 if narrow else n_outputs)
    category_set = np.full(len(nodes.left), -1, dtype=np.int32)
    codes, set_sizes = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.int64)]
    n_sets = 0
    for index, tree in enumerate(trees):
        here = nodes.nodes_of(index)
        _fill_tree(nodes, here, tree, np.dtype(model.input_type))
        outputs = spoken_of[index]
        exists = outputs >= 0
        columns = np.zeros(1, dtype=np.int64) if narrow else outputs[exists]
        nodes.value[here, columns] = _leaf_values(tree)[:, exists] / n_speakers[outputs[exists]]
        by_set = np.flatnonzero(tree.get_field("node_type") == _CATEGORICAL)
        tree_codes, tree_set_sizes = _category_sets(tree, by_set)
        category_set[here.start + by_set] = n_sets + np.arange(len(by_set))
        codes.append(tree_codes)
        set_sizes.append(tree_set_sizes)
        n_sets += len(by_set)
    return TreeEnsemble(
        **nodes.finish(),
        category_set=category_set,
        category_offsets=np.append(0, np.cumsum(np.concatenate(set_sizes))).astype(np.int64),
        category_codes=np.concatenate(codes),
        base_values=header.get_field("base_scores").astype(np.float64)[grid.ravel() >= 0],
        tree_output=np.array([int(outputs[0]) if narrow else 0 for outputs in spoken_of], dtype=np.int32),
        row_format=RowFormat(int(model.num_feature), dtype=cast(Any, np.dtype(model.input_type).name)),
    )


def read_file(path: Path) -> TreeEnsemble:
    """Read what ``treelite.Model.serialize`` wrote; treelite alone knows how, so it must be installed."""
    try:
        import treelite
    except ImportError as error:
        raise MissingDependencyError(
            f"{str(path)!r} is a model of treelite, which only treelite reads. Run: pip install treelite."
        ) from error
    try:
        model = treelite.Model.deserialize(str(path))
    except treelite.TreeliteError as error:
        raise FileFormatError(f"Cannot read {str(path)!r}: treelite says: {error}") from error
    return to_ensemble(model)


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float64]:
    from treelite import gtil

    grid = _output_grid(model.get_header_accessor())
    rows = read_rows(X, RowFormat(int(model.num_feature), dtype=cast(Any, np.dtype(model.input_type).name)))
    margins = gtil.predict(model, rows[0 : rows.n_rows], nthread=1, pred_margin=True)
    return np.asarray(margins, dtype=np.float64).reshape(rows.n_rows, -1)[:, grid.ravel() >= 0]


def _output_grid(header: Any) -> Array:
    """(n_targets, most classes) the output of each class of each target; -1 beyond a target's classes."""
    n_classes = header.get_field("num_class").astype(np.int64)
    exists = np.arange(n_classes.max()) < n_classes[:, None]
    return np.where(exists, np.cumsum(exists).reshape(exists.shape) - 1, -1)


def _outputs_of_trees(header: Any, grid: Array) -> list[Array]:
    """The outputs that each entry of a tree's leaves adds to; -1 is padding.

    Where the model says target -1 or class -1, it means all of them.
    """
    outputs = []
    for target, label in zip(header.get_field("target_id"), header.get_field("class_id"), strict=True):
        rows = slice(None) if target < 0 else slice(target, target + 1)
        columns = slice(None) if label < 0 else slice(label, label + 1)
        outputs.append(grid[rows, columns].ravel())
    return outputs


def _fill_tree(nodes: NodeArrays, here: slice, tree: Any, dtype: np.dtype[Any]) -> None:
    """Copy a tree's splits, turned so that ``x <= threshold``, or a code in the set, goes left."""
    kind, compare = tree.get_field("node_type"), tree.get_field("cmp")
    numeric, inner = kind == _NUMERIC, kind != _LEAF
    unknown = numeric & ~np.isin(compare, (_LESS, _LESS_EQUAL, _GREATER, _GREATER_EQUAL))
    if unknown.any():
        raise UnsupportedModelError(
            "This treelite model tests whether a number equals another; not supported."
        )
    left, right = tree.get_field("cleft"), tree.get_field("cright")
    missing_left = tree.get_field("default_left").astype(bool)
    set_goes_right = tree.get_field("category_list_right_child").astype(bool)
    turned = np.where(numeric, np.isin(compare, (_GREATER, _GREATER_EQUAL)), set_goes_right)
    threshold = tree.get_field("threshold").astype(dtype)
    # x < t is x <= the number before t; x >= t is its opposite.
    strict = np.isin(compare, (_LESS, _GREATER_EQUAL))
    threshold = np.where(strict, np.nextafter(threshold, dtype.type(-np.inf)), threshold)
    nodes.left[here] = np.where(inner, np.where(turned, right, left), -1)
    nodes.right[here] = np.where(inner, np.where(turned, left, right), -1)
    nodes.missing_left[here] = inner & (missing_left ^ turned)
    nodes.feature[here] = np.where(inner, tree.get_field("split_index"), -1)
    nodes.threshold[here] = np.where(numeric, threshold, 0.0)
    nodes.cover[here] = _cover(tree)


def _cover(tree: Any) -> Array:
    for name in ("sum_hess", "data_count"):
        present = tree.get_field(f"{name}_present")
        if present.size and present.all():
            return cast(Array, tree.get_field(name).astype(np.float64))
    raise UnsupportedModelError(
        "This treelite model does not say how much training data reached each node (sum_hess or data_count), "
        "which values without background data rest on. Explain the original model instead."
    )


def _leaf_values(tree: Any) -> Array:
    """(n_nodes, length of a leaf's vector) the values of a tree's leaves; zero at inner nodes."""
    kind = tree.get_field("node_type")
    vectors = tree.get_field("leaf_vector")
    if not vectors.size:
        return np.where(kind == _LEAF, tree.get_field("leaf_value"), 0.0)[:, None]
    leaves = np.flatnonzero(kind == _LEAF)
    begin, end = tree.get_field("leaf_vector_begin")[leaves], tree.get_field("leaf_vector_end")[leaves]
    length = int(end[0] - begin[0])
    values = np.zeros((len(kind), length))
    values[leaves] = vectors[begin.astype(np.int64)[:, None] + np.arange(length)]
    return values


def _category_sets(tree: Any, nodes: Array) -> tuple[Array, Array]:
    """The sorted codes of the sets of these nodes, one after another, and the sizes of the sets."""
    listed = tree.get_field("category_list")
    begin = tree.get_field("category_list_begin").astype(np.int64)[nodes]
    sizes = tree.get_field("category_list_end").astype(np.int64)[nodes] - begin
    owner = np.repeat(np.arange(len(nodes)), sizes)
    position = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + begin[owner]
    codes = listed[position].astype(np.int64)
    return codes[np.lexsort((codes, owner))], sizes
