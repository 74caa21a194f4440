"""treelite models (version 4 or later), or their files → TreeEnsemble.

Reads the serialized model, the format that treelite documents, so files need no treelite.
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

from ..errors import FileFormatError, ModelError, UnsupportedModelError
from ..model.ensemble import TreeEnsemble
from ..model.row_format import RowFormat
from ..rows.rows import read_rows
from .assemble import NodeArrays
from .treelite_file import Fields, parse

__all__ = ["BEGINNINGS", "LIBRARY", "raw_prediction", "read_file", "to_ensemble"]

LIBRARY = "treelite"
#: Its major version, as 32 bits; our own files begin with the length of a header, which is larger.
BEGINNINGS = (b"\x03\0\0\0", b"\x04\0\0\0")

_LEAF, _NUMERIC, _CATEGORICAL = 0, 1, 2  # node_type
_LESS, _LESS_EQUAL, _GREATER, _GREATER_EQUAL = 2, 3, 4, 5  # cmp: the row goes left iff x cmp threshold

#: Leaf values that are made room for, whatever the size of the file. Where trees of one output stand beside
#: trees of all, every leaf has a number for each output, and more of them than the file has.
_MAX_SPREAD = 1 << 24

Array = npt.NDArray[Any]


def to_ensemble(model: Any) -> TreeEnsemble:
    """Read a ``treelite.Model``."""
    return _build(bytes(model.serialize_bytes()))


def read_file(path: Path) -> TreeEnsemble:
    """Read what ``treelite.Model.serialize`` wrote; treelite itself is not needed."""
    try:
        return _build(path.read_bytes())
    except UnsupportedModelError:
        raise
    except (FileFormatError, ModelError) as error:
        raise FileFormatError(f"Cannot read {str(path)!r}, a model of treelite: {error}") from error


def _build(content: bytes) -> TreeEnsemble:
    model = parse(content)
    header, trees = model.header, model.trees
    grid = _output_grid(header["num_class"], int(header["num_target"][0]), len(header["base_scores"]))
    n_outputs = int(grid.max()) + 1
    spoken_of = _outputs_of_trees(header, grid)
    narrow = all(len(outputs) == 1 for outputs in spoken_of)
    sizes = [len(tree["node_type"]) for tree in trees]
    width = 1 if narrow else n_outputs
    if sum(sizes) * width > max(_MAX_SPREAD, len(content)):
        raise FileFormatError(f"it would take {sum(sizes) * width:,} leaf values, which it does not have.")
    n_speakers = np.ones(n_outputs)
    if header["average_tree_output"][0]:
        everything = np.concatenate([np.zeros(0, dtype=np.int64), *spoken_of])
        n_speakers = np.bincount(everything[everything >= 0], minlength=n_outputs).astype(np.float64)

    nodes = NodeArrays.empty(sizes, width)
    category_set = np.full(len(nodes.left), -1, dtype=np.int32)
    codes, set_sizes = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.int64)]
    n_sets = 0
    for index, tree in enumerate(trees):
        here = nodes.nodes_of(index)
        with np.errstate(invalid="ignore", over="ignore"):  # damaged numbers: TreeEnsemble refuses them
            _fill_tree(nodes, here, tree, model.dtype)
        outputs = spoken_of[index]
        exists = outputs >= 0
        columns = np.zeros(1, dtype=np.int64) if narrow else outputs[exists]
        nodes.value[here, columns] = _leaf_values(tree, len(outputs))[:, exists] / n_speakers[outputs[exists]]
        by_set = np.flatnonzero(tree["node_type"] == _CATEGORICAL)
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
        base_values=header["base_scores"][grid.ravel() >= 0],
        tree_output=np.array([int(outputs[0]) if narrow else 0 for outputs in spoken_of], dtype=np.int32),
        row_format=RowFormat(int(header["num_feature"][0]), dtype=cast(Any, model.dtype.name)),
    )


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float64]:
    from treelite import gtil

    header = model.get_header_accessor()
    fields = [header.get_field(name) for name in ("num_class", "num_target", "base_scores")]
    grid = _output_grid(fields[0], int(fields[1][0]), len(fields[2]))
    rows = read_rows(X, RowFormat(int(model.num_feature), dtype=cast(Any, np.dtype(model.input_type).name)))
    margins = gtil.predict(model, rows[0 : rows.n_rows], nthread=1, pred_margin=True)
    return np.asarray(margins, dtype=np.float64).reshape(rows.n_rows, -1)[:, grid.ravel() >= 0]


def _output_grid(n_classes: Array, n_targets: int, n_scores: int) -> Array:
    """(n_targets, most classes) the output of each class of each target; -1 beyond a target's classes."""
    most = int(n_classes.max(initial=0))
    if len(n_classes) != n_targets or (n_classes < 1).any() or n_targets * most != n_scores or not n_scores:
        raise FileFormatError(
            f"it has {n_scores:,} base scores for {n_targets:,} targets of up to {most:,} classes."
        )
    exists = np.arange(most) < n_classes.astype(np.int64)[:, None]
    return np.where(exists, np.cumsum(exists).reshape(exists.shape) - 1, -1)


def _outputs_of_trees(header: Fields, grid: Array) -> list[Array]:
    """The outputs that each entry of a tree's leaves adds to; -1 is padding.

    Where the model says target -1 or class -1, it means all of them.
    """
    outputs = []
    for target, label in zip(header["target_id"].tolist(), header["class_id"].tolist(), strict=True):
        rows = slice(None) if target < 0 else slice(target, target + 1)
        columns = slice(None) if label < 0 else slice(label, label + 1)
        found = grid[rows, columns].ravel()
        if not (found >= 0).any():
            raise FileFormatError(f"it has a tree for class {label} of target {target}, which it has not.")
        outputs.append(found)
    return outputs


def _fill_tree(nodes: NodeArrays, here: slice, tree: Fields, dtype: np.dtype[Any]) -> None:
    """Copy a tree's splits, turned so that ``x <= threshold``, or a code in the set, goes left."""
    kind, compare = tree["node_type"], tree["cmp"]
    if not np.isin(kind, (_LEAF, _NUMERIC, _CATEGORICAL)).all():
        raise FileFormatError("a node is neither a leaf nor a test of a number or a category.")
    numeric, inner = kind == _NUMERIC, kind != _LEAF
    unknown = numeric & ~np.isin(compare, (_LESS, _LESS_EQUAL, _GREATER, _GREATER_EQUAL))
    if unknown.any():
        raise UnsupportedModelError(
            "This treelite model tests whether a number equals another; not supported."
        )
    left, right = tree["cleft"], tree["cright"]
    missing_left = tree["default_left"].astype(bool)
    set_goes_right = tree["category_list_right_child"].astype(bool)
    turned = np.where(numeric, np.isin(compare, (_GREATER, _GREATER_EQUAL)), set_goes_right)
    threshold = tree["threshold"].astype(dtype)
    # x < t is x <= the number before t; x >= t is its opposite.
    strict = np.isin(compare, (_LESS, _GREATER_EQUAL))
    threshold = np.where(strict, np.nextafter(threshold, dtype.type(-np.inf)), threshold)
    nodes.left[here] = np.where(inner, np.where(turned, right, left), -1)
    nodes.right[here] = np.where(inner, np.where(turned, left, right), -1)
    nodes.missing_left[here] = inner & (missing_left ^ turned)
    nodes.feature[here] = np.where(inner, tree["split_index"], -1)
    nodes.threshold[here] = np.where(numeric, threshold, 0.0)
    nodes.cover[here] = _cover(tree)


def _cover(tree: Fields) -> Array:
    for name in ("sum_hess", "data_count"):
        present = tree[f"{name}_present"]
        if present.size and present.all() and tree[name].size:
            return tree[name].astype(np.float64)
    raise UnsupportedModelError(
        "This treelite model does not say how much training data reached each node (sum_hess or data_count), "
        "which values without background data rest on. Explain the original model instead."
    )


def _leaf_values(tree: Fields, length: int) -> Array:
    """(n_nodes, length of a leaf's vector) the values of a tree's leaves; zero at inner nodes."""
    kind, vectors = tree["node_type"], tree["leaf_vector"]
    leaves = np.flatnonzero(kind == _LEAF)
    if not vectors.size:
        if length != 1:
            raise FileFormatError(f"a tree adds to {length:,} outputs, but its leaves hold one number each.")
        return np.where(kind == _LEAF, tree["leaf_value"], 0.0)[:, None]
    begin, sizes = _segments(tree, "leaf_vector", leaves)
    if (sizes != length).any():
        raise FileFormatError(f"a tree adds to {length:,} outputs, but a leaf of it holds another number.")
    values = np.zeros((len(kind), length))
    values[leaves] = vectors[begin[:, None] + np.arange(length)]
    return values


def _category_sets(tree: Fields, nodes: Array) -> tuple[Array, Array]:
    """The sorted codes of the sets of these nodes, one after another, and the sizes of the sets."""
    begin, sizes = _segments(tree, "category_list", nodes)
    owner = np.repeat(np.arange(len(nodes)), sizes)
    position = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + begin[owner]
    codes = tree["category_list"][position].astype(np.int64)
    return codes[np.lexsort((codes, owner))], sizes


def _segments(tree: Fields, name: str, nodes: Array) -> tuple[Array, Array]:
    """Where the parts of these nodes begin in an array, and their sizes; together not more than there is."""
    begin, end = tree[f"{name}_begin"][nodes], tree[f"{name}_end"][nodes]
    n = len(tree[name])
    if ((begin > end) | (end > n)).any() or int((end - begin).sum()) > n:
        raise FileFormatError(f"a node's part of {name} lies outside of it, or on another's.")
    return begin.astype(np.int64), (end - begin).astype(np.int64)
