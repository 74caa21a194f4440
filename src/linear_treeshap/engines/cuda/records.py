"""Trees → the stream of records that `walk.cu` walks.

A record is some vectors of four words; a word is as wide as the floating-point type of the walk, and holds
one such number or a whole one. A tree is a root record and then its nodes from left to right: a leaf; a pair,
twig or branch with all that is below it (`Kind`); or a split as three records, before its left side, between
both sides, and after its right side. Splits of a player that is new on the path need no numbers but cover
ratios; those of a player that is not have tau for each point of the rule beside them. Conditions are a column
and the last rank that goes left; columns and players are the bytes from where a row's ranks and values begin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .trees import Kind, Trees

__all__ = ["STREAM_BYTES", "Points", "Records", "write"]

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

#: Of one piece of the stream, which is in shared memory as a whole: as in walk.cu.
STREAM_BYTES = 8192

_VECTOR = 4
_END, _ROOT, _DEEP, _PARTNER, _LEAF = 0, 1, 2, 4, 6  # `Op` of walk.cu
_PAIR, _TWIG, _BRANCH, _SLOTS = 8, 10, 12, 14
_N_SPLIT_OPS = 6


@dataclass(frozen=True, eq=False)
class Points:
    """Some points of a rule: those that are walked at once."""

    t: Float64
    absent: Float64  # 1 - t
    weights: Float64

    def tau(self, cover: Float64) -> Float64:
        """(n, n_points) the share of a player's factor above that is not due to its covers."""
        return self.t / (self.t + self.absent * cover[:, None])

    def rho(self, cover: Float64) -> Float64:
        """(n, n_points) what a player's factor becomes if it is taken for its difference: present and absent,
        its edges being satisfied."""
        return (1 - cover[:, None]) / (self.t + self.absent * cover[:, None])


@dataclass(frozen=True, eq=False)
class Records:
    """The stream of some trees."""

    words: npt.NDArray[Any]  # uint32 or uint64
    starts: Int64  # the word at which each record begins, unless it is within a fork; and the number of words
    tree_starts: Int64  # (n_trees + 1,) the word at which each tree begins

    def in_pieces(self, trees: list[int]) -> tuple[npt.NDArray[Any], Int64, Int64]:
        """Words, the word at which each piece begins, and the first piece of each chunk, with the ends of
        all.

        A chunk ends before each of these ``trees``. A piece ends with a record that says so.
        """
        most = STREAM_BYTES // self.words.itemsize - _VECTOR
        cuts, chunks = [0], [0]
        for tree in trees:
            end = int(self.tree_starts[tree])
            while cuts[-1] < end:
                last = np.searchsorted(self.starts, min(cuts[-1] + most, end), side="right") - 1
                cuts.append(int(self.starts[last]))
            chunks.append(len(cuts) - 1)
        inner = np.repeat(np.array(cuts[1:], dtype=np.int64), _VECTOR)
        words = np.insert(self.words, inner, _END)
        return words, np.array(cuts) + _VECTOR * np.arange(len(cuts)), np.array(chunks)


def write(
    trees: Trees,
    player: Int64,
    column: Int64,
    points: Points,
    *,
    n_register_slots: int,
    dtype: npt.DTypeLike,
    pairs: Int64 | None = None,
) -> Records:
    """The records of ``trees``, which number players and columns as ``player`` and ``column`` say.

    With the numbers of ``pairs`` of players (their own numbers), also records of what pairs get.
    """
    tau_words = _VECTOR * -(-len(points.t) // _VECTOR)
    repeated = trees.above >= 0
    more = np.where(repeated, tau_words, 0)
    size = np.zeros(len(trees.left), dtype=np.int64)  # of all records of a node and of those below it
    size[trees.kind == Kind.LEAF] = 4
    size[trees.kind == Kind.PAIR] = 8 + more[trees.kind == Kind.PAIR]
    size[trees.kind == Kind.TWIG] = 20
    size[trees.kind == Kind.BRANCH] = 44
    up_size = np.where(repeated, 8, 4) + more
    partner_words = _VECTOR + tau_words
    n_partners = np.zeros(len(trees.left), dtype=np.int64)
    if pairs is not None:
        n_partners += np.bincount(trees.partners[0], minlength=len(trees.left))
    tail = partner_words * n_partners  # after the last record of a split
    splits_by_level = [nodes[trees.kind[nodes] == Kind.SPLIT] for nodes in trees.levels]
    for nodes in reversed(splits_by_level):
        below = size[trees.left[nodes]] + size[trees.right[nodes]]
        size[nodes] = 8 + 2 * more[nodes] + up_size[nodes] + below + tail[nodes]
    roots = trees.first[:-1]
    tree_starts = np.concatenate([[0], np.cumsum(_VECTOR + size[roots])]).astype(np.int64)
    start = np.zeros(len(trees.left), dtype=np.int64)
    start[roots] = tree_starts[:-1] + _VECTOR
    for nodes in splits_by_level:
        start[trees.left[nodes]] = start[nodes] + 4 + more[nodes]
        start[trees.right[nodes]] = start[trees.left[nodes]] + size[trees.left[nodes]] + 4 + more[nodes]
    page = _Page(trees, player, column, points, dtype, int(tree_starts[-1]))
    page.roots(tree_starts[:-1])
    page.bottoms(start)
    up = start + size - up_size - tail
    page.splits(start, up, more, n_register_slots)
    # A split of two bottoms is walked at once.
    in_fork = np.zeros(len(trees.left), dtype=np.bool_)
    forks = np.flatnonzero(trees.slot == 0)
    in_fork[trees.left[forks]] = in_fork[trees.right[forks]] = True
    alone = (trees.kind != Kind.NONE) & ~in_fork
    starts = [tree_starts, start[alone]]
    rest = np.flatnonzero(trees.slot > 0)
    starts += [start[trees.right[rest]] - 4 - more[rest], up[rest]]
    if pairs is not None:
        splits = trees.partners[0]
        number = np.arange(len(splits)) - np.searchsorted(splits, splits)  # of a split's partners
        places = up[splits] + up_size[splits] + partner_words * number
        page.partners(places, pairs)
        starts.append(places)
    return Records(page.words, np.unique(np.concatenate(starts)), tree_starts)


class _Page:
    """The words of a stream while they are written, all records of a kind at once."""

    def __init__(
        self,
        trees: Trees,
        player: Int64,
        column: Int64,
        points: Points,
        dtype: npt.DTypeLike,
        n_words: int,
    ) -> None:
        self.trees, self.points = trees, points
        self.real = np.dtype(dtype)
        self.words = np.zeros(n_words, dtype=np.uint32 if self.real.itemsize == 4 else np.uint64)
        # Leaves stand for splits where something is smaller than its record: all their numbers are zeros
        # then.
        self.player = np.where(trees.is_leaf, 0, player[trees.player]) * self.real.itemsize
        self.column = np.where(trees.is_leaf, 0, column[trees.column])
        self.left_of_mean = trees.mean[trees.left] - trees.mean
        self.right_of_mean = trees.mean[trees.right] - trees.mean

    def roots(self, starts: Int64) -> None:
        self._whole(starts, np.full(len(starts), _ROOT))

    def bottoms(self, start: Int64) -> None:
        """Leaves, pairs, twigs and branches."""
        trees = self.trees
        leaves, pairs, twigs, branches = (
            np.flatnonzero(trees.kind == kind) for kind in (Kind.LEAF, Kind.PAIR, Kind.TWIG, Kind.BRANCH)
        )
        self._whole(start[leaves], np.full(len(leaves), _LEAF))
        self._real(start[leaves] + 1, trees.value[leaves])
        repeated = trees.above[pairs] >= 0
        at = start[pairs]
        self._whole(at, _PAIR + repeated, self.column[pairs], self.player[pairs])
        self._real(at + 3, trees.mean[pairs], self.left_of_mean[pairs], self.right_of_mean[pairs])
        self._whole(at + 6, self._last_and_edge(pairs))
        self._real(at[repeated] + 7, trees.cover_above[pairs[repeated]])
        self._tau(at[repeated] + 8, pairs[repeated])
        at = start[twigs]
        self._whole(at, _TWIG + self._share_players(twigs))
        self._real(at + 1, trees.mean[twigs])
        self._twigs(at + 4, twigs, at + 2)
        at, left, right = start[branches], trees.left[branches], trees.right[branches]
        self._whole(at, _BRANCH + self._share_players(left, right))
        self._real(at + 1, trees.mean[branches])
        self._ratios(at + 4, branches)
        self._twigs(at + 12, left, at + 2)
        self._twigs(at + 28, right, at + 3)

    def splits(self, start: Int64, up: Int64, more: Int64, n_register_slots: int) -> None:
        trees = self.trees
        nodes = np.flatnonzero(trees.kind == Kind.SPLIT)
        down = start[nodes]
        middle = start[trees.right[nodes]] - 4 - more[nodes]
        up = up[nodes]
        slot, repeated = trees.slot[nodes], trees.above[nodes] >= 0

        def head(which: int) -> Int64:
            number = which + repeated
            deep = _DEEP | number << 8 | slot << 11
            return np.where(slot < n_register_slots, _SLOTS + _N_SPLIT_OPS * slot + number, deep)

        self._whole(down, head(0), self.column[nodes])
        self._real(down + 2, trees.w_left[nodes])
        self._whole(down + 3, self._last_and_edge(nodes))
        self._whole(middle, head(2))
        self._real(middle + 2, trees.w_right[nodes])
        self._whole(up, head(4), self.player[nodes])
        self._real(up + 2, trees.w_left[nodes], trees.w_right[nodes])
        again = nodes[repeated]
        self._real(up[repeated] + 4, trees.cover_above[again])
        for place in (down + 4, middle + 4, up + 8):
            self._tau(place[repeated], again)

    def partners(self, start: Int64, pairs: Int64) -> None:
        trees = self.trees
        split, above, is_right = trees.partners
        number = pairs[trees.player[split], trees.player[above]]
        ratio = np.where(is_right, trees.w_right[above], trees.w_left[above])
        self._whole(start, np.full(len(start), _PARTNER), number, trees.slot[above] << 1 | is_right)
        for k, rho in enumerate(self.points.rho(trees.cover_above[above] * ratio).T):
            self._real(start + _VECTOR + k, rho)

    def _twigs(self, start: Int64, nodes: Int64, last_of_right: Int64) -> None:
        trees = self.trees
        left, right = trees.left[nodes], trees.right[nodes]
        self._ratios(start, nodes)
        self._whole(start + 7, trees.last[left])
        self._whole(last_of_right, trees.last[right])
        for place, pair in ((start + 8, left), (start + 12, right)):
            self._whole(place, self.column[pair], self.player[pair])
            self._real(place + 2, self.left_of_mean[pair], self.right_of_mean[pair])

    def _ratios(self, start: Int64, nodes: Int64) -> None:
        """A split, but for one word: its condition, its player, and numbers."""
        trees = self.trees
        self._whole(start, self.column[nodes], trees.last[nodes], self.player[nodes])
        self._real(start + 3, self.left_of_mean[nodes], self.right_of_mean[nodes])
        self._real(start + 5, trees.w_left[nodes], trees.w_right[nodes])

    def _share_players(self, *twigs: Int64) -> npt.NDArray[np.bool_]:
        """Do these twigs, side by side, have several splits of one player, leaves standing for splits?"""
        splits = [split for at in twigs for split in (at, self.trees.left[at], self.trees.right[at])]
        players = np.sort(np.stack([self.player[at] for at in splits]), axis=0)
        return np.asarray((players[1:] == players[:-1]).any(axis=0))

    def _last_and_edge(self, nodes: Int64) -> Int64:
        """The last rank that goes left; and for a repeated player the closest edge above, as the slot of its
        split and its side."""
        trees = self.trees
        edge = trees.slot[trees.above[nodes]] << 1 | trees.above_is_right[nodes]
        return np.where(trees.above[nodes] >= 0, edge << 8, 0) | trees.last[nodes]

    def _tau(self, start: Int64, nodes: Int64) -> None:
        for k, tau in enumerate(self.points.tau(self.trees.cover_above[nodes]).T):
            self._real(start + k, tau)

    def _whole(self, start: Int64, *columns: Any) -> None:
        for i, column in enumerate(columns):
            self.words[start + i] = column

    def _real(self, start: Int64, *columns: Float64) -> None:
        for i, column in enumerate(columns):
            self.words[start + i] = column.astype(self.real).view(self.words.dtype)
