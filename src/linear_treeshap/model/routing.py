"""Where rows go in the trees of an ensemble: all trees at once, a level at a time, in NumPy.

In come rows that are ready to be read; out come the nodes they visit, the ways they would go at all nodes, or
raw predictions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .ensemble import TreeEnsemble

__all__ = ["visited_nodes", "walk_trees", "ways_of"]

Float64 = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

#: Rows times trees that are walked at once: some 50 MB of temporary arrays.
_WALKED_AT_ONCE = 1 << 20


def walk_trees(ensemble: TreeEnsemble, rows: Array) -> Float64:
    """Raw predictions (n_rows, n_outputs) of rows that are ready to be read, all trees at once.

    The same as `TreeEnsemble.predict`, but a row visits one node per level instead of all nodes.
    """
    out = np.tile(ensemble.base_values, (len(rows), 1))
    at_once = max(1, _WALKED_AT_ONCE // max(1, ensemble.n_trees))
    for start in range(0, len(rows), at_once):
        block = rows[start : start + at_once]
        leaves = _leaves(ensemble, block)
        for column in range(ensemble.width):
            added = ensemble.value[leaves, column]
            if ensemble.lines is not None:
                added = ensemble.lines.values(ensemble.value[:, 0], leaves, block)
            for output in np.unique(ensemble.tree_output):
                chosen = ensemble.tree_output == output
                out[start : start + at_once, output + column] += added[:, chosen].sum(axis=1)
    return out


def _leaves(ensemble: TreeEnsemble, rows: Array) -> Array:
    """(n_rows, n_trees) the leaf in which each row ends."""
    leaves = np.empty((len(rows), ensemble.n_trees), dtype=np.int64)
    for nodes, visitors in _levels(ensemble, rows):
        leaves[visitors, ensemble.tree_of_node[nodes]] = nodes
    return leaves


def visited_nodes(ensemble: TreeEnsemble, rows: Array) -> Iterator[tuple[Array, Array]]:
    """All nodes that the rows come by, as (nodes, numbers of the rows), a slice and a level at a time."""
    at_once = max(1, _WALKED_AT_ONCE // max(1, ensemble.n_trees))
    for start in range(0, len(rows), at_once):
        for nodes, visitors in _levels(ensemble, rows[start : start + at_once]):
            yield nodes, visitors + start


def _levels(ensemble: TreeEnsemble, rows: Array) -> Iterator[tuple[Array, Array]]:
    """The nodes of each level, from the roots down, and the rows that are there."""
    root = ensemble.tree_offsets[:-1]
    node = np.tile(root, len(rows))
    row = np.repeat(np.arange(len(rows)), len(root))
    while node.size:
        yield node, row
        inner = ensemble.left[node] >= 0
        node, row = node[inner], row[inner]
        left = _goes_left(ensemble, node, rows[row, ensemble.feature[node]])
        child = np.where(left, ensemble.left[node], ensemble.right[node])
        node = ensemble.tree_offsets[ensemble.tree_of_node[node]] + child


def ways_of(ensemble: TreeEnsemble, row: Array) -> Float64:
    """(n_nodes,) 1 at the child that a row would go to from its parent, if it came there, and 0 at the other;
    1 at roots."""
    inner = np.flatnonzero(~ensemble.is_leaf)
    left = _goes_left(ensemble, inner, row[ensemble.feature[inner]])
    root = ensemble.tree_offsets[ensemble.tree_of_node[inner]]
    ways = np.ones(ensemble.n_nodes)
    ways[root + ensemble.left[inner]], ways[root + ensemble.right[inner]] = left, ~left
    return ways


def _goes_left(ensemble: TreeEnsemble, nodes: npt.NDArray[np.int64], numbers: Array) -> npt.NDArray[np.bool_]:
    """Does each of these numbers go left at its node?"""
    x = numbers.astype(np.float64)
    left = np.where(np.isnan(x), ensemble.missing_left[nodes], x <= ensemble.threshold[nodes])
    categorical = ensemble.category_set[nodes] >= 0
    if categorical.any():
        left[categorical] = _in_set(ensemble, nodes[categorical], x[categorical])
    return left


def _in_set(ensemble: TreeEnsemble, nodes: npt.NDArray[np.int64], x: Float64) -> npt.NDArray[np.bool_]:
    """Which values go left at these categorical nodes."""
    # One sorted list of (set, code), each packed into an integer, answers for all sets at once.
    sets = np.repeat(np.arange(len(ensemble.category_offsets) - 1), np.diff(ensemble.category_offsets))
    members = (sets << 32) | ensemble.category_codes
    is_code = (x >= 0) & (x < 2**31)
    code = np.where(is_code, x, 0.0).astype(np.int64)
    wanted = (ensemble.category_set[nodes].astype(np.int64) << 32) | code
    place = np.minimum(np.searchsorted(members, wanted), max(len(members) - 1, 0))
    found = is_code & (members[place] == wanted) if len(members) else np.zeros(len(x), dtype=np.bool_)
    return np.where(np.isnan(x), ensemble.missing_left[nodes], found)
