"""Trees whose leaves hold a value for each of several outputs → trees of one output each, cut short.

Leaves of deep classification trees are nearly pure: below most nodes, an output has the same value in every
leaf, mostly zero. Nothing depends on the splits there, and cover ratios of a split add up to 1, so such a
node becomes a leaf and no Shapley value changes. What is left of a tree for an output is little more than the
way to its own leaves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .ensemble import PER_NODE, TreeEnsemble, first_trees, levels

__all__ = ["by_output", "cut_short"]

Nodes = npt.NDArray[np.int64]

#: What is left must be at most this share of all leaves times outputs: trees of one output are walked by
#: themselves, where those of several share half of the work.
_MAX_SHARE = 0.4
#: So many trees show what the others will be like.
_TRIED_TREES = 4


def by_output(ensemble: TreeEnsemble) -> TreeEnsemble | None:
    """The same function as trees of one output each, those of the first output first; None if that would be
    more to walk than the trees as they are."""
    if ensemble.width == 1 or ensemble.n_nodes == ensemble.n_leaves:  # there is no split to cut off
        return None
    few = _Cutter(first_trees(ensemble, _TRIED_TREES))
    n_left = sum(few.cut(output).n_leaves for output in range(ensemble.width))
    if n_left > _MAX_SHARE * ensemble.width * few.ensemble.n_leaves:
        return None
    cutter = _Cutter(ensemble)
    cuts = [cutter.cut(output) for output in range(ensemble.width)]
    columns: dict[str, Any] = {name: np.concatenate([cut.columns[name] for cut in cuts]) for name in PER_NODE}
    return replace(
        ensemble,
        tree_offsets=np.concatenate([[0], np.cumsum(np.concatenate([cut.tree_sizes for cut in cuts]))]),
        tree_output=np.repeat(np.arange(ensemble.width, dtype=np.int32), ensemble.n_trees),
        value=np.concatenate([cut.value for cut in cuts])[:, None],
        **columns,
    )


def cut_short(ensemble: TreeEnsemble) -> TreeEnsemble:
    """The same function without splits on which nothing depends, for leaves of one value each."""
    cut = _Cutter(ensemble).cut(0)
    columns: dict[str, Any] = cut.columns
    return replace(
        ensemble,
        tree_offsets=np.concatenate([[0], np.cumsum(cut.tree_sizes)]),
        value=cut.value[:, None],
        **columns,
    )


@dataclass(frozen=True)
class _Cut:
    """The trees of one output, node by node."""

    tree_sizes: Nodes  # (n_trees,) nodes
    value: npt.NDArray[np.float64]  # (n_nodes,)
    columns: dict[str, npt.NDArray[Any]]  # the other arrays of an ensemble

    @property
    def n_leaves(self) -> int:
        return int(np.count_nonzero(self.columns["left"] < 0))


class _Cutter:
    """Cuts the trees of an ensemble for one output after another."""

    def __init__(self, ensemble: TreeEnsemble) -> None:
        self.ensemble = ensemble
        self._roots = ensemble.tree_offsets[:-1]
        #: From the top down: inner nodes, and their children on either side.
        self._levels = [
            (parents[: len(parents) // 2], *np.split(nodes, 2)) for nodes, parents in levels(ensemble)
        ]

    def cut(self, output: int) -> _Cut:
        ensemble, roots = self.ensemble, self._roots
        value, is_same = ensemble.value[:, output].copy(), ensemble.is_leaf.copy()
        for inner, left, right in reversed(self._levels):
            equal = is_same[left] & is_same[right] & (value[left] == value[right])
            is_same[inner[equal]], value[inner[equal]] = True, value[left[equal]]
        is_left, place = np.zeros(ensemble.n_nodes, dtype=np.bool_), np.zeros((2, ensemble.n_nodes), np.int64)
        is_left[roots] = True
        for inner, left, right in self._levels:
            split = is_left[inner] & ~is_same[inner]
            is_left[left[split]] = is_left[right[split]] = True
            place[:, inner] = left, right
        nodes = np.flatnonzero(is_left)
        number, leaf, tree = np.cumsum(is_left) - 1, is_same[nodes], ensemble.tree_of_node[nodes]
        columns = {name: getattr(ensemble, name)[nodes] for name in PER_NODE}
        columns["left"], columns["right"] = np.where(
            leaf, -1, number[place[:, nodes]] - number[roots[tree]]
        ).astype(np.int32)
        for name in ("feature", "category_set"):
            columns[name][leaf] = -1
        sizes = np.bincount(tree, minlength=ensemble.n_trees)
        return _Cut(sizes, np.where(leaf, value[nodes], 0.0), columns)
