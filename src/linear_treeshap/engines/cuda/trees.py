"""Ensemble → the trees of one output, and what the walk has to know about each of their nodes.

In come trees, players and conditions; out come flat arrays over nodes. Leaf values are divided by a power of
two, so that those of all trees together stay within one; trees of a single leaf are left out, because nobody
gets anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ...model.ensemble import TreeEnsemble
from .conditions import Conditions

__all__ = ["MAX_STEM", "NUMBERS", "Kind", "Trees"]

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
Float64 = npt.NDArray[np.float64]

#: Cover ratios whose sum is this close to one do add up: they are rounded quotients of whole numbers.
_EXACT = 1e-15


#: Players of a stem, at most: each has a bit, as in walk.cu.
MAX_STEM = 32
#: Splits of a stem, at most, so that all their conditions are in one piece of the stream; and columns that
#: such a condition can name.
_MAX_STEM_SPLITS, _MAX_STEM_COLUMN = 1 << 10, 1 << 15


class Kind:
    """What a node is to the walk. Pairs, twigs and branches are walked with all that is below them."""

    NONE, LEAF, PAIR, TWIG, BRANCH, SPLIT = range(6)


@dataclass(frozen=True, eq=False)
class Trees:
    """Nodes of trees, one after another. At a leaf both children are the leaf itself, and weigh a half
    each."""

    first: Int64  # (n_trees + 1,) each tree's root, and the number of nodes
    left: Int64
    right: Int64
    parent: Int64  # -1 at roots
    is_right: Bool  # of its parent
    player: Int64
    column: Int64
    last: Int64
    w_left: Float64
    w_right: Float64
    value: Float64
    asks_opposite: Bool  # a rank above the last one goes left
    exponent: int = 0  # values are those of the leaves divided by two to this
    is_flat: bool = False  # every split is walked alone, which pairs of players need
    is_uneven: bool = False  # stems, and splits beside a leaf, are walked in their own ways

    @classmethod
    def of_output(
        cls, ensemble: TreeEnsemble, output: int, player: npt.NDArray[np.int32], conditions: Conditions
    ) -> Trees:
        """The trees that add to an output; ``player`` is the player of each column of the rows."""
        of_tree = (ensemble.tree_output <= output) & (output < ensemble.tree_output + ensemble.width)
        of_tree &= np.diff(ensemble.tree_offsets) > 1
        kept = np.flatnonzero(of_tree[ensemble.tree_of_node])
        tree = ensemble.tree_of_node[kept]
        moved = np.full(ensemble.n_nodes + 1, -1, dtype=np.int64)
        moved[kept] = np.arange(len(kept))
        root = ensemble.tree_offsets[tree]
        leaf = ensemble.is_leaf[kept]
        own = np.arange(len(kept))
        left = np.where(leaf, own, moved[np.where(leaf, -1, root + ensemble.left[kept])])
        right = np.where(leaf, own, moved[np.where(leaf, -1, root + ensemble.right[kept])])
        parent, is_right = np.full(len(kept), -1, dtype=np.int64), np.zeros(len(kept), dtype=np.bool_)
        inner = own[~leaf]
        parent[left[inner]] = parent[right[inner]] = inner
        is_right[right[inner]] = True
        ratio = ensemble.cover_ratio[kept]
        trees = cls(
            np.concatenate([[0], np.cumsum(np.diff(ensemble.tree_offsets)[of_tree])]).astype(np.int64),
            left,
            right,
            parent,
            is_right,
            np.where(leaf, -1, player[np.where(leaf, 0, ensemble.feature[kept])] if len(player) else -1),
            conditions.column[kept],
            conditions.last[kept],
            np.where(leaf, 0.5, ratio[left]),
            np.where(leaf, 0.5, ratio[right]),
            ensemble.value[kept, output - ensemble.tree_output[tree]],
            np.zeros(len(kept), dtype=np.bool_),
        )
        return trees._in_range()

    @property
    def n_trees(self) -> int:
        return len(self.first) - 1

    @cached_property
    def tree(self) -> Int64:
        """(n_nodes,) the tree of each node."""
        return np.repeat(np.arange(self.n_trees), np.diff(self.first))

    @cached_property
    def is_leaf(self) -> Bool:
        return np.asarray(self.left == np.arange(len(self.left)))

    @cached_property
    def n_leaves(self) -> Int64:
        """(n_trees,)"""
        return np.bincount(self.tree[self.is_leaf], minlength=self.n_trees)

    @cached_property
    def levels(self) -> list[Int64]:
        """The nodes of each level, from the roots down."""
        levels, nodes = [], self.first[:-1]
        while nodes.size:
            levels.append(nodes)
            inner = nodes[~self.is_leaf[nodes]]
            nodes = np.concatenate([self.left[inner], self.right[inner]])
        return levels

    @cached_property
    def level(self) -> Int64:
        """(n_nodes,) how many splits are above."""
        level = np.zeros(len(self.left), dtype=np.int64)
        for number, nodes in enumerate(self.levels):
            level[nodes] = number
        return level

    def splits_upwards(self) -> Iterator[Int64]:
        """The splits of each level, from the lowest up."""
        for nodes in reversed(self.levels):
            yield nodes[~self.is_leaf[nodes]]

    @cached_property
    def mean(self) -> Float64:
        """(n_nodes,) of the leaves below, as the training rows were."""
        mean: Float64 = self.value.copy()
        for nodes in self.splits_upwards():
            left, right = self.left[nodes], self.right[nodes]
            mean[nodes] = self.w_left[nodes] * mean[left] + self.w_right[nodes] * mean[right]
        return mean

    # -- players on paths ------------------------------------------------------------------------------------

    @cached_property
    def above(self) -> Int64:
        """(n_nodes,) the closest split above of the same player; -1 if there is none, and at leaves."""
        return self._above[0]

    @cached_property
    def above_is_right(self) -> Bool:
        """(n_nodes,) is the node on the right of that split?"""
        return self._above[1]

    @cached_property
    def _above(self) -> tuple[Int64, Bool]:
        found = np.full(len(self.left), -1, dtype=np.int64)
        side = np.zeros(len(self.left), dtype=np.bool_)
        nodes = np.flatnonzero(~self.is_leaf & (self.parent >= 0))
        below, at = nodes, self.parent[nodes]
        while nodes.size:
            same = self.player[at] == self.player[nodes]
            found[nodes[same]], side[nodes[same]] = at[same], self.is_right[below[same]]
            on = ~same & (self.parent[at] >= 0)
            nodes, below, at = nodes[on], at[on], self.parent[at[on]]
        return found, side

    @cached_property
    def cover_above(self) -> Float64:
        """(n_nodes,) c: the product of the cover ratios of the player's edges above; 1 if there are none."""
        product = np.ones(len(self.left))
        for nodes in self.levels:
            nodes = nodes[self.above[nodes] >= 0]
            above = self.above[nodes]
            ratio = np.where(self.above_is_right[nodes], self.w_right[above], self.w_left[above])
            product[nodes] = product[above] * ratio
        return product

    @cached_property
    def n_players_above(self) -> Int64:
        """(n_nodes,) how many players have splits above."""
        seen = np.zeros(len(self.left), dtype=np.int64)
        for nodes in self.levels:
            inner = nodes[~self.is_leaf[nodes]]
            for child in (self.left[inner], self.right[inner]):
                seen[child] = seen[inner] + (self.above[inner] < 0)
        return seen

    @cached_property
    def n_path_players(self) -> Int64:
        """(n_trees,) how many players meet on one path, at most."""
        most = np.zeros(self.n_trees, dtype=np.int64)
        np.maximum.at(most, self.tree, self.n_players_above)
        return most

    @cached_property
    def partners(self) -> tuple[Int64, Int64, Bool]:
        """Each split, and for each other player above it the closest split of that player, and whether this
        one is on its right."""
        split = above = np.empty(0, dtype=np.int64)
        side = np.empty(0, dtype=np.bool_)
        splits, closest, sides = [split], [above], [side]
        for nodes in self.levels:
            other = self.player[above] != self.player[split]
            split, above, side = split[other], above[other], side[other]
            splits.append(split)
            closest.append(above)
            sides.append(side)
            # What is above a node is above its children, and so is the node itself.
            inner = nodes[~self.is_leaf[nodes]]
            children = (self.left, self.right)
            below = [child[split] for child in children] + [child[inner] for child in children]
            keep = ~self.is_leaf[np.concatenate(below)]
            split = np.concatenate(below)[keep]
            above = np.concatenate([above, above, inner, inner])[keep]
            on_left, on_right = np.zeros(len(inner), dtype=np.bool_), np.ones(len(inner), dtype=np.bool_)
            side = np.concatenate([side, side, on_left, on_right])[keep]
        split = np.concatenate(splits)
        order = np.argsort(split, kind="stable")
        return split[order], np.concatenate(closest)[order], np.concatenate(sides)[order]

    # -- what is walked at once ------------------------------------------------------------------------------

    @cached_property
    def whole_kind(self) -> npt.NDArray[np.int8]:
        """(n_nodes,) see `Kind`: of a node that is not inside of what is walked at once."""
        height = np.zeros(len(self.left), dtype=np.int64)
        all_new = np.ones(len(self.left), dtype=np.bool_)
        for nodes in self.splits_upwards():
            left, right = self.left[nodes], self.right[nodes]
            height[nodes] = 1 + np.maximum(height[left], height[right])
            all_new[nodes] = (self.above[nodes] < 0) & all_new[left] & all_new[right]
        whole = np.full(len(self.left), Kind.SPLIT, dtype=np.int8)
        whole[height == 0] = Kind.LEAF
        if not self.is_flat:
            whole[height == 1] = Kind.PAIR
            whole[(height == 2) & all_new] = Kind.TWIG
            whole[(height == 3) & all_new] = Kind.BRANCH
        return whole

    @cached_property
    def kind(self) -> npt.NDArray[np.int8]:
        """(n_nodes,) see `Kind`; NONE in stems, and inside of what is walked at once."""
        kind = np.full(len(self.left), Kind.NONE, dtype=np.int8)
        nodes = self.crown
        while nodes.size:
            kind[nodes] = self.whole_kind[nodes]
            splits = nodes[kind[nodes] == Kind.SPLIT]
            nodes = np.concatenate([self.left[splits], self.right[splits]])
        return kind

    @cached_property
    def slot(self) -> Int64:
        """(n_nodes,) where a split keeps its state: no other split on a path has the same, the lowest have
        the smallest. -1 at all that is no split."""
        slot = np.full(len(self.left), -1, dtype=np.int64)
        for nodes in self.splits_upwards():
            nodes = nodes[self.kind[nodes] == Kind.SPLIT]
            slot[nodes] = 1 + np.maximum(slot[self.left[nodes]], slot[self.right[nodes]])
        return slot

    @cached_property
    def is_beside_leaf(self) -> Bool:
        """(n_nodes,) is it a split whose right side, and no other, is a leaf? The leaf has no record then."""
        leaf = self.kind == Kind.LEAF
        return np.asarray((self.kind == Kind.SPLIT) & leaf[self.right] & ~leaf[self.left] & self.is_uneven)

    # -- stems -----------------------------------------------------------------------------------------------

    @cached_property
    def is_empty(self) -> Bool:
        """(n_nodes,) is it a leaf that gives nobody anything?"""
        return np.asarray(self.is_leaf & (self.value == 0))

    @cached_property
    def crown(self) -> Int64:
        """(n_trees,) the node in which each tree's stem ends: the root, if it has none."""
        return self._crown_and_stem[0]

    @cached_property
    def is_stem(self) -> Bool:
        """(n_nodes,) is it a split of its tree's stem? One side of these is empty."""
        return self._crown_and_stem[1]

    @cached_property
    def _crown_and_stem(self) -> tuple[Int64, Bool]:
        crown, is_stem = self.first[:-1].copy(), np.zeros(len(self.left), dtype=np.bool_)
        trees = np.arange(self.n_trees if self.is_uneven else 0)
        while trees.size:
            at = crown[trees]
            left_is_empty, right_is_empty = self.is_empty[self.left[at]], self.is_empty[self.right[at]]
            n_players = self.n_players_above[at] + (self.above[at] < 0)
            goes_on = ~self.is_leaf[at] & (left_is_empty != right_is_empty)
            goes_on &= (n_players <= MAX_STEM) & (self.column[at] < _MAX_STEM_COLUMN)
            goes_on &= self.level[at] < _MAX_STEM_SPLITS
            is_stem[at[goes_on]] = True
            trees = trees[goes_on]
            crown[trees] = np.where(left_is_empty, self.right[at], self.left[at])[goes_on]
        return crown, is_stem

    # -- other trees of the same values ----------------------------------------------------------------------

    def some(self, trees: npt.ArrayLike) -> Trees:
        """Only these trees."""
        return self._kept(np.isin(self.tree, trees))

    def span(self, begin: int, end: int) -> Trees:
        """Only the trees from one to before another, which costs nothing for all others."""
        start = int(self.first[begin])
        nodes = slice(start, int(self.first[end]))
        parent = self.parent[nodes]
        return Trees(
            self.first[begin : end + 1] - start,
            self.left[nodes] - start,
            self.right[nodes] - start,
            np.where(parent < 0, -1, parent - start),
            self.is_right[nodes],
            **self.settings(),
            **{name: getattr(self, name)[nodes] for name in NUMBERS},
        )

    def cut(self, is_too_large: Callable[[Trees, int], bool]) -> Trees:
        """Trees that are too large become several, each with some of the leaves' values and zeros for the
        others: values are sums over leaves. ``is_too_large`` is asked about one of some trees, by
        its number.
        """
        parts: list[Trees] = []
        small = []
        for tree in range(self.n_trees):
            if not is_too_large(self, tree):
                small.append(tree)
                continue
            alone = self.span(tree, tree + 1)
            ordered = alone._leaves_in_order()
            pending = [(0, len(ordered))]
            while pending:
                begin, end = pending.pop()
                part = alone._with_leaves(ordered[begin:end])
                if end - begin > 1 and is_too_large(part, 0):
                    middle = (begin + end) // 2
                    pending += [(middle, end), (begin, middle)]
                else:
                    parts.append(part)
        return _joined([self.some(small), *parts]) if parts else self

    def with_leaves_right(self) -> Trees:
        """Splits with a leaf on the left alone ask the opposite, so that it is on the right, if trees are
        uneven."""
        if not self.is_uneven:
            return self
        leaf = self.kind == Kind.LEAF
        swapped = (self.kind == Kind.SPLIT) & leaf[self.left] & ~leaf[self.right]
        return replace(
            self,
            left=np.where(swapped, self.right, self.left),
            right=np.where(swapped, self.left, self.right),
            is_right=self.is_right ^ ((self.parent >= 0) & swapped[self.parent]),
            w_left=np.where(swapped, self.w_right, self.w_left),
            w_right=np.where(swapped, self.w_left, self.w_right),
            asks_opposite=swapped,
        )

    def settings(self) -> dict[str, Any]:
        """What all trees have in common."""
        return {"exponent": self.exponent, "is_flat": self.is_flat, "is_uneven": self.is_uneven}

    def _leaves_in_order(self) -> Int64:
        """The leaves from left to right."""
        n_below = self.is_leaf.astype(np.int64)
        for nodes in self.splits_upwards():
            n_below[nodes] = n_below[self.left[nodes]] + n_below[self.right[nodes]]
        begin = np.zeros(len(self.left), dtype=np.int64)
        for nodes in self.levels:
            inner = nodes[~self.is_leaf[nodes]]
            begin[self.left[inner]] = begin[inner]
            begin[self.right[inner]] = begin[inner] + n_below[self.left[inner]]
        leaves = np.flatnonzero(self.is_leaf)
        return leaves[np.argsort(begin[leaves])]

    def _with_leaves(self, leaves: Int64) -> Trees:
        """A single tree with the values of these leaves; where there are none below, a leaf of value zero."""
        wanted = np.zeros(len(self.left), dtype=np.bool_)
        nodes = leaves
        while nodes.size:
            wanted[nodes] = True
            nodes = np.unique(self.parent[nodes])
            nodes = nodes[nodes >= 0]
            nodes = nodes[~wanted[nodes]]
        kept = wanted.copy()
        inner = np.flatnonzero(wanted & ~self.is_leaf)
        kept[self.left[inner]] = kept[self.right[inner]] = True
        stub = kept & ~wanted
        return self.emptied(stub)._kept(kept)

    def emptied(self, nodes: Bool) -> Trees:
        """The same trees, these nodes being empty leaves."""
        own = np.arange(len(self.left))
        return replace(
            self,
            left=np.where(nodes, own, self.left),
            right=np.where(nodes, own, self.right),
            player=np.where(nodes, -1, self.player),
            column=np.where(nodes, 0, self.column),
            last=np.where(nodes, 0, self.last),
            w_left=np.where(nodes, 0.5, self.w_left),
            w_right=np.where(nodes, 0.5, self.w_right),
            value=np.where(nodes, 0.0, self.value),
        )

    def _kept(self, kept: Bool) -> Trees:
        """Only these nodes: whole trees, or what is left of them."""
        moved = np.cumsum(kept) - 1
        sizes = np.bincount(self.tree[kept], minlength=self.n_trees)
        parent = self.parent[kept]
        return Trees(
            np.concatenate([[0], np.cumsum(sizes[sizes > 0])]).astype(np.int64),
            moved[self.left[kept]],
            moved[self.right[kept]],
            np.where(parent < 0, -1, moved[parent]),
            self.is_right[kept],
            **self.settings(),
            **{name: getattr(self, name)[kept] for name in NUMBERS},
        )

    def _in_range(self) -> Trees:
        """The same trees, their values around zero where that changes nothing, and of a size near one in
        all."""
        if self.n_trees == 0:
            return self
        shifted = self.value.copy()
        _, most = np.frexp(np.abs(shifted).max())
        shifted = np.ldexp(shifted, -int(most))  # so that sums do not overflow
        gap = np.zeros(self.n_trees)
        np.maximum.at(gap, self.tree, np.abs(self.w_left + self.w_right - 1))
        # What is added to all leaves of a tree is nobody's, if its cover ratios add up. Rounding is relative
        # to what is left then.
        middle = replace(self, value=shifted).mean[self.first[:-1]]
        shifted -= np.where(self.is_leaf & (gap <= _EXACT)[self.tree], middle[self.tree], 0.0)
        largest = np.zeros(self.n_trees)
        np.maximum.at(largest, self.tree, np.abs(shifted))
        exponent = int(np.frexp(largest.sum())[1])
        return replace(self, value=np.ldexp(shifted, -exponent), exponent=exponent + int(most))


#: What each node has of its own.
NUMBERS = ("player", "column", "last", "w_left", "w_right", "value", "asks_opposite")


def _joined(trees: list[Trees]) -> Trees:
    starts = np.cumsum([0, *(len(some.left) for some in trees)])

    def moved(name: str) -> Int64:
        parts = [getattr(some, name) for some in trees]
        return np.concatenate(
            [np.where(part < 0, -1, part + start) for part, start in zip(parts, starts[:-1], strict=True)]
        )

    firsts = [some.first[:-1] + start for some, start in zip(trees, starts[:-1], strict=True)]
    numbers: dict[str, Any] = {
        name: np.concatenate([getattr(some, name) for some in trees]) for name in NUMBERS
    }
    return Trees(
        np.concatenate([*firsts, starts[-1:]]).astype(np.int64),
        moved("left"),
        moved("right"),
        moved("parent"),
        np.concatenate([some.is_right for some in trees]),
        **trees[0].settings(),
        **numbers,
    )
