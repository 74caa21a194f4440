"""The trees of a CatBoost model → nodes, and the number of the condition that each of them asks.

Symmetric trees are written out in full, leaves without any training row included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError, UnsupportedModelError
from .assemble import NodeArrays
from .flatbuffers import Table

__all__ = ["Splits", "read_nodes", "read_splits"]

Array = npt.NDArray[Any]

# Positions of the fields in CatBoost's schema.
_TREE_SPLITS, _TREE_SIZES = 1, 2
_LEAF_VALUES, _LEAF_WEIGHTS, _STEPS, _LEAF_OF_NODE, _SCALE = 8, 9, 10, 11, 14


@dataclass(frozen=True)
class Splits:
    """Where the conditions of symmetric trees are: bit ``level`` of the number of a row's leaf in ``tree``
    answers ``condition``."""

    condition: Array
    tree: Array
    level: Array


def read_splits(model: Table) -> Splits | None:
    """The conditions of all trees; None if these are not symmetric."""
    if len(model.array(_STEPS, "<u4")):
        return None
    depths = model.array(_TREE_SIZES, "<i4").astype(np.int64)
    level = np.arange(depths.sum()) - np.repeat(np.cumsum(depths) - depths, depths)
    return Splits(model.array(_TREE_SPLITS, "<i4"), np.repeat(np.arange(len(depths)), depths), level)


def read_nodes(model: Table, dimension: int) -> tuple[NodeArrays, Array]:
    """All nodes, and the condition of each (-1 at leaves). A condition that holds sends a row right."""
    leaves = _read_leaves(model, dimension)
    grown = len(model.array(_STEPS, "<u4")) > 0
    return _grown_trees(model, leaves) if grown else _symmetric_trees(model, leaves)


@dataclass(frozen=True)
class _Leaves:
    """All leaves of all trees, end to end."""

    value: Array  # (n_leaves, dimension)
    weight: Array  # (n_leaves,)


def _read_leaves(model: Table, dimension: int) -> _Leaves:
    value = model.array(_LEAF_VALUES, "<f8").reshape(-1, dimension) * model.number(_SCALE, "<d", 1.0)
    weight = model.array(_LEAF_WEIGHTS, "<f8")
    if len(weight) != len(value):
        raise UnsupportedModelError(
            f"This CatBoost model has {len(weight)} leaf weights for {len(value)} leaves. Without them "
            f"nothing says how much training data reached a leaf. Save the model as it was trained."
        )
    return _Leaves(value, weight)


def _symmetric_trees(model: Table, leaves: _Leaves) -> tuple[NodeArrays, Array]:
    """Nodes of trees that ask one condition per level, and each node's condition (-1 at leaves).

    Bit ``i`` of a leaf's number answers condition ``i``. The last condition comes first, at the root:
    so the leaves below any node are neighbours, and CatBoost's own Shapley values assume the same.
    """
    depths = model.array(_TREE_SIZES, "<i4").astype(np.int64)
    if ((depths < 0) | (depths > 30)).any():
        raise FileFormatError(f"The CatBoost model is damaged: a tree is {np.max(depths)} levels deep.")
    n_leaves = np.int64(1) << depths
    if n_leaves.sum() != len(leaves.value):
        raise FileFormatError("The CatBoost model is damaged: its leaves do not fit its trees.")
    conditions = model.array(_TREE_SPLITS, "<i4")
    first_condition, first_leaf = np.cumsum(depths) - depths, np.cumsum(n_leaves) - n_leaves
    nodes = NodeArrays.empty((2 * n_leaves - 1).tolist(), leaves.value.shape[1])
    split = np.full(len(nodes.left), -1, dtype=np.int32)
    for depth in np.unique(depths).tolist():
        trees = np.flatnonzero(depths == depth)
        root = nodes.tree_offsets[trees][:, None]
        weight = leaves.weight[first_leaf[trees][:, None] + np.arange(1 << depth)]
        for level in range(depth):
            # The nodes of a level are 2**level - 1 and those that follow, as in a heap.
            number = np.arange((1 << level) - 1, (2 << level) - 1)
            here = root + number
            nodes.left[here], nodes.right[here] = 2 * number + 1, 2 * number + 2
            split[here] = conditions[first_condition[trees] + depth - 1 - level][:, None]
            nodes.cover[here] = weight.reshape(len(trees), 1 << level, -1).sum(axis=2)
        here = root + np.arange((1 << depth) - 1, (2 << depth) - 1)
        nodes.cover[here] = weight
        nodes.value[here] = leaves.value[first_leaf[trees][:, None] + np.arange(1 << depth)]
    return nodes, split


def _grown_trees(model: Table, leaves: _Leaves) -> tuple[NodeArrays, Array]:
    """Nodes of trees that were grown node by node, and each node's condition (-1 at leaves).

    A node holds how many nodes further its two children are. Zero means that the walk ends: at a
    leaf both ways, and one way at a node that is an inner node and a leaf in one. That leaf becomes a
    node of its own, behind the others of its tree.
    """
    steps = model.array(_STEPS, np.dtype([("left", "<u2"), ("right", "<u2")]))
    sizes = model.array(_TREE_SIZES, "<i4").astype(np.int64)
    if sizes.sum() != len(steps) or (sizes < 1).any():
        raise FileFormatError("The CatBoost model is damaged: its nodes do not fit its trees.")
    left, right = steps["left"].astype(np.int32), steps["right"].astype(np.int32)
    tree = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    leaf, half = (left == 0) & (right == 0), (left == 0) != (right == 0)
    n_half = np.bincount(tree[half], minlength=len(sizes))
    nodes = NodeArrays.empty((sizes + n_half).tolist(), leaves.value.shape[1])

    position = np.arange(len(steps)) - (np.cumsum(sizes) - sizes)[tree]
    number = position.astype(np.int32)  # within the tree
    position += nodes.tree_offsets[tree]
    spare = np.zeros(len(steps), dtype=np.int32)  # the number of a half node's own leaf
    spare[half] = sizes[tree[half]] + np.arange(n_half.sum()) - (np.cumsum(n_half) - n_half)[tree[half]]
    for child, step in ((nodes.left, left), (nodes.right, right)):
        child[position] = np.where(leaf, -1, np.where(step > 0, number + step, spare))

    ends = leaf | half
    at = np.where(half, nodes.tree_offsets[tree] + spare, position)[ends]
    leaf_number = model.array(_LEAF_OF_NODE, "<u4")[ends] // leaves.value.shape[1]
    nodes.value[at], nodes.cover[at] = leaves.value[leaf_number], leaves.weight[leaf_number]
    split = np.full(len(nodes.left), -1, dtype=np.int32)
    split[position[~leaf]] = model.array(_TREE_SPLITS, "<i4")[~leaf]
    _sum_covers(nodes)
    return nodes, split


def _sum_covers(nodes: NodeArrays) -> None:
    """Give inner nodes the cover of the leaves below them, a level at a time, from the bottom up."""
    root = np.repeat(nodes.tree_offsets[:-1], np.diff(nodes.tree_offsets))
    levels = [nodes.tree_offsets[:-1]]
    n_seen = 0
    while (inner := levels[-1][nodes.left[levels[-1]] >= 0]).size:
        n_seen += len(inner)
        if n_seen > len(root):
            raise FileFormatError("The CatBoost model is damaged: two nodes share a child.")
        levels[-1] = inner
        levels.append(np.concatenate([root[inner] + nodes.left[inner], root[inner] + nodes.right[inner]]))
    for inner in reversed(levels[:-1]):
        nodes.cover[inner] = (
            nodes.cover[root[inner] + nodes.left[inner]] + nodes.cover[root[inner] + nodes.right[inner]]
        )
