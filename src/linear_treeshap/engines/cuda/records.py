"""Trees → the stream of records that `walk.cu` walks.

A record is some vectors of four words; a word is as wide as the floating-point type of the walk, and holds
one such number or a whole one. A tree is a root record, with the players of its stem if there is one, and
then its nodes from left to right: a leaf; a pair, twig or branch with all that is below it (`Kind`); or a
split as three records, before its left side, between both sides, and after its right side. A leaf beside a
split has none in uneven trees: the split has two, and the second has its value. What the players of a stem
get comes last. Splits of a player that is new on the path need no numbers but cover ratios; those of a player
that is not have tau and kappa for each point of the rule beside them, one part of the rule after another if
it is walked in parts. Conditions are a column and the last rank that goes left; columns and players are the
bytes from where a row's ranks and values begin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from .stems import Stems
from .trees import MAX_STEM, Kind, Trees

__all__ = [
    "STREAM_WORDS",
    "Filling",
    "Fills",
    "Points",
    "Records",
    "n_knot_slots",
    "n_stem_bits",
    "write",
]

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

#: Of one piece of the stream, which is in shared memory as a whole: as in walk.cu. There is room for the
#: largest knot, five slots of repeated players above 32 branches, with a root and an end.
STREAM_WORDS = 9216 // 4

_VECTOR = 4
_LEAF, _PAIR, _TWIG, _BRANCH, _DOWN = 0, 1, 3, 4, 6  # `Op` of walk.cu; those that follow depend on its slots


@dataclass(frozen=True)
class _Ops:
    """The numbers of those that follow: a walk knows by comparing them where it is."""

    n_register_slots: int

    @property
    def back(self) -> int:
        return _DOWN + 4 * self.n_register_slots

    @property
    def deep(self) -> int:
        return self.back + 6 * self.n_register_slots

    @property
    def partner(self) -> int:
        return self.deep + 1

    @property
    def stem(self) -> int:
        return self.deep + 2

    @property
    def root(self) -> int:
        return self.deep + 3

    @property
    def end(self) -> int:
        return self.deep + 4


@dataclass(frozen=True, eq=False)
class Points:
    """Some points of a rule: those that are walked at once."""

    t: Float64
    absent: Float64  # 1 - t
    weights: Float64

    @property
    def powers(self) -> Float64:
        """(1 + MAX_STEM, n_points) the factor of so many players of a stem whose edges are not satisfied, but
        for their cover ratios."""
        return self.absent ** np.arange(1 + MAX_STEM)[:, None]

    def tau(self, cover: Float64) -> Float64:
        """(n, n_points) the share of a player's factor above that is not due to its covers."""
        return self.t / self.factor(cover)

    def factor(self, cover: Float64) -> Float64:
        """(n, n_points) a player's factor, its edges being satisfied."""
        return self.t + self.absent * cover[:, None]

    def kappa(self, cover: Float64) -> Float64:
        """(n, n_points) what the difference of a player's factor weighs. No factor on the way is beyond the
        numbers there are."""
        one_over_u = 1 / self.factor(cover)
        return cover[:, None] * one_over_u * one_over_u

    def rho(self, cover: Float64) -> Float64:
        """(n, n_points) what a player's factor becomes if it is taken for its difference: present and absent,
        its edges being satisfied."""
        return (1 - cover[:, None]) / self.factor(cover)


class Filling:
    """What numbers follow from a cover, for each point: see fill.cu."""

    TAU, TAU_AND_KAPPA, RHO, NOTHING = range(4)


@dataclass(frozen=True, eq=False)
class Fills:
    """Where a stream has numbers that follow from a cover alone: one part of the rule at a time."""

    word: Int64  # the first one
    cover: Float64
    filling: Int64  # see `Filling`
    part: Int64  # of the rule

    @classmethod
    def joined(cls, fills: list[Fills]) -> Fills:
        """In the order of their words."""
        parts = [np.concatenate([getattr(some, name) for some in fills]) for name in cls.__dataclass_fields__]
        order = np.argsort(parts[0], kind="stable")
        return cls(*(part[order] for part in parts))

    def moved(self, n_words: int | Int64) -> Fills:
        return replace(self, word=self.word + n_words)


@dataclass(frozen=True, eq=False)
class Records:
    """The stream of some trees."""

    words: npt.NDArray[Any]  # uint32 or uint64
    fills: Fills
    starts: Int64  # the word at which each record begins, unless it is within a knot; and the number of words
    tree_starts: Int64  # (n_trees + 1,) the word at which each tree begins
    end: int  # what a piece ends with

    def in_pieces(self, trees: list[int]) -> tuple[npt.NDArray[Any], Fills, Int64, Int64]:
        """Words and their fills, the word at which each piece begins, and the first piece of each chunk, with
        the ends of all.

        A chunk ends before each of these ``trees``. A piece ends with a record that says so.
        """
        most = STREAM_WORDS - _VECTOR
        cuts, chunks = [0], [0]
        for tree in trees:
            end = int(self.tree_starts[tree])
            while cuts[-1] < end:
                last = np.searchsorted(self.starts, min(cuts[-1] + most, end), side="right") - 1
                assert self.starts[last] > cuts[-1], "a record is larger than a piece"
                cuts.append(int(self.starts[last]))
            chunks.append(len(cuts) - 1)
        inner = np.repeat(np.array(cuts[1:], dtype=np.int64), _VECTOR)
        words = np.insert(self.words, inner, self.end)
        fills = self.fills.moved(_VECTOR * np.searchsorted(cuts[1:], self.fills.word, side="right"))
        return words, fills, np.array(cuts) + _VECTOR * np.arange(len(cuts)), np.array(chunks)


def n_knot_slots(n_register_slots: int, with_pairs: bool) -> int:
    """Splits of so many slots are walked with all that is below them, in one piece: what pairs get has no
    bound."""
    return 1 if with_pairs else n_register_slots


def n_stem_bits(is_uneven: bool) -> int:
    """Bits of a row's path that are those of the stem, and come before those of splits."""
    return MAX_STEM if is_uneven else 0


def write(
    trees: Trees,
    player: Int64,
    column: Int64,
    n_players: int,
    parts: list[Points],
    *,
    n_register_slots: int,
    dtype: npt.DTypeLike,
    pairs: Int64 | None = None,
) -> Records:
    """The records of ``trees``, which number ``n_players`` players and their columns as ``player`` and
    ``column`` say. All ``parts`` of a rule have as many points as each other.

    With the numbers of ``pairs`` of players (their own numbers), also records of what pairs get.
    """
    ops = _Ops(n_register_slots)
    repeated = trees.above >= 0
    n_points = len(parts[0].t)
    tau_words, both_words, beside_words = (
        len(parts) * _whole_vectors(n) for n in (n_points, 2 * n_points, 1 + 2 * n_points)
    )
    beside_leaf = trees.is_beside_leaf
    down_size = 4 + np.where(repeated, tau_words, 0)
    middle_size = np.where(repeated, len(parts) * _whole_vectors(2 + n_points), 4)
    middle_size[beside_leaf] = 0
    up_size = 4 + np.where(
        beside_leaf, np.where(repeated, beside_words, 4), np.where(repeated, both_words, 0)
    )
    size = np.zeros(len(trees.left), dtype=np.int64)  # of all records of a node and of those below it
    size[trees.kind == Kind.LEAF] = 4
    size[trees.right[beside_leaf]] = 0
    size[trees.kind == Kind.PAIR] = 4 + up_size[trees.kind == Kind.PAIR]
    size[trees.kind == Kind.TWIG] = 20
    size[trees.kind == Kind.BRANCH] = 44
    partner_words = _VECTOR + tau_words
    n_partners = np.zeros(len(trees.left), dtype=np.int64)
    if pairs is not None:
        n_partners += np.bincount(trees.partners[0], minlength=len(trees.left))
    tail = partner_words * n_partners  # after the last record of a split
    splits_by_level = [nodes[trees.kind[nodes] == Kind.SPLIT] for nodes in trees.levels]
    for nodes in reversed(splits_by_level):
        below = size[trees.left[nodes]] + size[trees.right[nodes]]
        own = down_size[nodes] + middle_size[nodes] + up_size[nodes]
        size[nodes] = own + below + tail[nodes]
    stems = Stems.of(trees)
    n_stem = np.diff(stems.first)
    n_conditions = np.diff(stems.first_condition[stems.first])
    root_size = _VECTOR + _whole_vectors(n_conditions) + _whole_vectors(n_stem)
    gain_words = len(parts) * _whole_vectors(1 + n_points)
    gains_size = np.where(n_stem > 0, _VECTOR + gain_words * n_stem, 0)
    tree_size = root_size + size[trees.crown] + gains_size
    tree_starts = np.concatenate([[0], np.cumsum(tree_size)]).astype(np.int64)
    start = np.zeros(len(trees.left), dtype=np.int64)
    start[trees.crown] = tree_starts[:-1] + root_size
    for nodes in splits_by_level:
        left = start[nodes] + down_size[nodes]
        start[trees.left[nodes]] = left
        start[trees.right[nodes]] = left + size[trees.left[nodes]] + middle_size[nodes]
    page = _Page(trees, stems, player, column, n_players, parts, dtype, int(tree_starts[-1]))
    page.roots(tree_starts[:-1], ops)
    with_stem, gains = np.flatnonzero(n_stem), tree_starts[1:] - gains_size
    page.stems(tree_starts[:-1], gains, ops)
    page.bottoms(start)
    up = start + size - up_size - tail
    middle = start[trees.right] - middle_size
    page.splits(start, middle, up, ops)
    # What is below a split of a knot is walked with it.
    n_slots = n_knot_slots(n_register_slots, with_pairs=pairs is not None)
    slot_above = np.where(trees.parent >= 0, trees.slot[trees.parent], -1)
    in_knot = (slot_above >= 0) & (slot_above < n_slots)
    alone = (size > 0) & ~in_knot
    starts = [tree_starts, gains[with_stem], start[alone]]
    rest = np.flatnonzero(trees.slot >= n_slots)
    starts += [middle[rest], up[rest]]
    if pairs is not None:
        splits = trees.partners[0]
        number = np.arange(len(splits)) - np.searchsorted(splits, splits)  # of a split's partners
        places = up[splits] + up_size[splits] + partner_words * number
        page.partners(places, pairs, ops)
        starts.append(places)
    fills = Fills.joined(page.fills)
    return Records(page.words, fills, np.unique(np.concatenate(starts)), tree_starts, ops.end)


@overload
def _whole_vectors(n_words: int) -> int: ...
@overload
def _whole_vectors(n_words: Int64) -> Int64: ...
def _whole_vectors(n_words: int | Int64) -> int | Int64:
    return -(-n_words // _VECTOR) * _VECTOR


class _Page:
    """The words of a stream while they are written, all records of a kind at once."""

    def __init__(
        self,
        trees: Trees,
        stems: Stems,
        player: Int64,
        column: Int64,
        n_players: int,
        parts: list[Points],
        dtype: npt.DTypeLike,
        n_words: int,
    ) -> None:
        self.trees, self.of_stems, self.parts = trees, stems, parts
        self.real = np.dtype(dtype)
        self.words = np.zeros(n_words, dtype=np.uint32 if self.real.itemsize == 4 else np.uint64)
        nothing = np.empty(0, dtype=np.int64)
        self.fills = [Fills(nothing, np.empty(0), nothing, nothing)]
        # Leaves stand for splits where something is smaller than its record: all their numbers are zeros
        # then, and the player is none.
        self.first_edge = n_stem_bits(trees.is_uneven)
        self.place_of, self.of_column = player * self.real.itemsize, column
        self.player = np.where(trees.is_leaf, n_players * self.real.itemsize, self.place_of[trees.player])
        self.column = np.where(trees.is_leaf, 0, column[trees.column])
        self.left_of_mean = trees.mean[trees.left] - trees.mean
        self.right_of_mean = trees.mean[trees.right] - trees.mean

    def roots(self, starts: Int64, ops: _Ops) -> None:
        self._whole(starts, np.full(len(starts), ops.root))

    def stems(self, roots: Int64, gains: Int64, ops: _Ops) -> None:
        """What roots of trees with a stem have besides, and what its players get."""
        stems, slot = self.of_stems, self.trees.slot[self.trees.crown]
        n_players = np.diff(stems.first)
        tree = np.repeat(np.arange(self.trees.n_trees), n_players)  # of each player
        number = np.arange(len(tree)) - stems.first[tree]
        first_condition = stems.first_condition[stems.first]
        n_conditions = np.diff(first_condition)
        self._whole(roots + 1, n_conditions, n_players)
        conditions = roots + _VECTOR
        covers = conditions + _whole_vectors(n_conditions)
        filled = np.flatnonzero(n_players)
        for before in range(1, 1 + _VECTOR):
            # What fills the last vectors is satisfied by all rows, and of no player.
            self._whole(covers[filled] - before, np.full(len(filled), 255 << 24))
            self._real((covers + _whole_vectors(n_players))[filled] - before, np.ones(len(filled)))
        condition = np.arange(len(stems.column))
        player = np.repeat(np.arange(len(tree)), np.diff(stems.first_condition))
        is_last = condition + 1 == stems.first_condition[1:][player]
        asked = self.of_column[stems.column] | is_last << 15 | stems.low << 16 | stems.high << 24
        self._whole((conditions - first_condition[:-1])[tree[player]] + condition, asked)
        self._real(covers[tree] + number, stems.cover)
        self._whole(gains[filled], np.full(len(filled), ops.stem), n_players[filled], slot[filled] + 1)
        n_words = _whole_vectors(1 + len(self.parts[0].t))
        for part in range(len(self.parts)):
            place = gains[tree] + _VECTOR + (number * len(self.parts) + part) * n_words
            self._whole(place, self.place_of[stems.player])
            self._fill(place + 1, stems.cover, Filling.RHO, part)

    def bottoms(self, start: Int64) -> None:
        """Leaves, pairs, twigs and branches."""
        trees = self.trees
        leaves, pairs, twigs, branches = (
            np.flatnonzero(trees.kind == kind) for kind in (Kind.LEAF, Kind.PAIR, Kind.TWIG, Kind.BRANCH)
        )
        leaves = np.setdiff1d(leaves, trees.right[trees.is_beside_leaf])
        self._whole(start[leaves], np.full(len(leaves), _LEAF))
        self._real(start[leaves] + 1, trees.value[leaves])
        repeated = trees.above[pairs] >= 0
        at = start[pairs]
        self._whole(at, _PAIR + repeated, self.column[pairs], self.player[pairs])
        self._real(at + 3, trees.mean[pairs], self.left_of_mean[pairs], self.right_of_mean[pairs])
        self._whole(at + 6, self._last_and_edge(pairs))
        self._tau_and_kappa(at[repeated] + 8, pairs[repeated])
        at = start[twigs]
        self._whole(at, np.full(len(at), _TWIG))
        self._real(at + 1, trees.mean[twigs])
        self._twigs(at + 4, twigs, at + 2)
        at, left, right = start[branches], trees.left[branches], trees.right[branches]
        self._whole(at, _BRANCH + self._share_players(left, right))
        self._real(at + 1, trees.mean[branches])
        self._ratios(at + 4, branches)
        self._twigs(at + 12, left, at + 2)
        self._twigs(at + 28, right, at + 3)

    def splits(self, down: Int64, middle: Int64, up: Int64, ops: _Ops) -> None:
        trees = self.trees
        nodes = np.flatnonzero(trees.kind == Kind.SPLIT)
        down, middle, up = down[nodes], middle[nodes], up[nodes]
        slot, repeated = trees.slot[nodes], trees.above[nodes] >= 0

        def head(which: int, kind: npt.NDArray[Any]) -> Int64:
            in_registers = _DOWN + 4 * slot if which == 0 else ops.back + 6 * slot + 2 * (which - 1)
            deep = ops.deep | (kind | which << 2) << 8 | slot << 12
            return np.where(slot < ops.n_register_slots, in_registers + kind, deep)

        self._whole(down, head(0, repeated + 2 * trees.asks_opposite[nodes]), self.column[nodes])
        self._real(down + 2, trees.w_left[nodes])
        self._whole(down + 3, self._last_and_edge(nodes))
        self._tau(down[repeated] + 4, nodes[repeated])
        beside, both = trees.is_beside_leaf[nodes], ~trees.is_beside_leaf[nodes]
        self._whole(middle[both], head(1, repeated)[both])
        self._real(middle[both] + 1, trees.w_right[nodes[both]])
        self._whole(up, np.where(beside, head(3, repeated), head(2, repeated)), self.player[nodes])
        share = trees.w_right * trees.value[trees.right]  # of a leaf on the right
        self._real(up + 2, trees.w_left[nodes], np.where(beside, share[nodes], trees.w_right[nodes]))
        again = both & repeated
        for part, points in enumerate(self.parts):
            place = middle[again] + part * _whole_vectors(2 + len(points.t))
            self._real(place + 1, trees.w_right[nodes[again]])
            self._fill(place + 2, trees.cover_above[nodes[again]], Filling.TAU, part)
        self._tau_and_kappa(up[again] + 4, nodes[again])
        rest = (1 - trees.w_right[nodes[beside]]) * trees.value[trees.right[nodes[beside]]]
        self._real(up[beside] + 4, rest)
        again = beside & repeated
        rest = rest[repeated[beside]]
        self._tau_and_kappa(up[again] + 4, nodes[again], rest)

    def partners(self, start: Int64, pairs: Int64, ops: _Ops) -> None:
        trees = self.trees
        split, above, is_right = trees.partners
        number = pairs[trees.player[split], trees.player[above]]
        ratio = np.where(is_right, trees.w_right[above], trees.w_left[above])
        self._whole(start, np.full(len(start), ops.partner), number, self._edge(above, is_right))
        self._of_parts(start + _VECTOR, trees.cover_above[above] * ratio, Filling.RHO)

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
        """Do these twigs, side by side, have several splits of one player?"""
        splits = [split for at in twigs for split in (at, self.trees.left[at], self.trees.right[at])]
        # Each leaf that stands for a split has a player of its own.
        players = [np.where(self.trees.is_leaf[at], -1 - i, self.player[at]) for i, at in enumerate(splits)]
        ordered = np.sort(np.stack(players), axis=0)
        return np.asarray((ordered[1:] == ordered[:-1]).any(axis=0))

    def _last_and_edge(self, nodes: Int64) -> Int64:
        """The last rank that goes left; and for a repeated player the bit of the closest edge above: of the
        slot of its split and its side, or of the stem."""
        trees = self.trees
        above = trees.above[nodes]
        of_split = self._edge(above, trees.above_is_right[nodes])
        edge = np.where(trees.is_stem[above], MAX_STEM - 1 - self.of_stems.number[above], of_split)
        return np.where(above >= 0, edge << 8, 0) | trees.last[nodes]

    def _edge(self, split: Int64, is_right: npt.NDArray[np.bool_]) -> Int64:
        """The bit of an edge: the first ones are those of the stem."""
        return self.first_edge + 2 * self.trees.slot[split] + is_right

    def _tau(self, start: Int64, nodes: Int64) -> None:
        self._of_parts(start, self.trees.cover_above[nodes], Filling.TAU)

    def _tau_and_kappa(self, start: Int64, nodes: Int64, *before: Float64) -> None:
        """And numbers before them."""
        self._of_parts(start, self.trees.cover_above[nodes], Filling.TAU_AND_KAPPA, *before)

    def _of_parts(self, start: Int64, cover: Float64, filling: int, *before: Float64) -> None:
        """For each part of the rule some numbers, and those that follow from covers, in whole vectors."""
        for part, points in enumerate(self.parts):
            n_words = len(before) + len(points.t) * (2 if filling == Filling.TAU_AND_KAPPA else 1)
            place = start + part * _whole_vectors(n_words)
            self._real(place, *before)
            self._fill(place + len(before), cover, filling, part)

    def _fill(self, start: Int64, cover: Float64, filling: int, part: int) -> None:
        points = self.parts[part]
        numbers = {
            Filling.TAU: (points.tau,),
            Filling.TAU_AND_KAPPA: (points.tau, points.kappa),
            Filling.RHO: (points.rho,),
        }[filling]
        for i, number in enumerate(numbers):
            self._real(start + i * len(points.t), *number(cover).T)
        self.fills.append(Fills(start, cover, np.full(len(start), filling), np.full(len(start), part)))

    def _whole(self, start: Int64, *columns: Any) -> None:
        for i, column in enumerate(columns):
            self.words[start + i] = column

    def _real(self, start: Int64, *columns: Float64) -> None:
        for i, column in enumerate(columns):
            self.words[start + i] = column.astype(self.real).view(self.words.dtype)
