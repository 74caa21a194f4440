"""Ensemble, players and index → what the kernels are given: launches, each with a stream and its tables.

Trees that need as many points of the rule as each other are walked by one launch; rules of many points are
walked in parts, because values are sums over points. Within a launch, trees that share a table of players and
columns are a group. A chunk is some trees; after each, values that were summed in the walk's own
floating-point type are added to the totals: all of them for calls of few rows, which find work for a whole
device so, and for the others only those of players who had many splits since, and all of them where a sum of
several chunks ends. None of this depends on the rows or on the device, so bits do not either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ...model.ensemble import TreeEnsemble
from ..indices import Index, Rule
from .clump_records import ClumpDraft, ClumpLaunch
from .clumps import Clumps, fit_into_clumps
from .conditions import Conditions
from .crowns import in_crowns
from .packed import Packed, packed
from .records import Fills, Points, write
from .tile import GAINS_AT_ONCE, row_bytes
from .trees import Kind, Trees

__all__ = ["Chunks", "Launch", "Model"]

#: Points lie inside of (0, 1), so far that a float32 walk has numbers for them.
_END = 2.0**-64
#: The sum of w / (1 - t) over the points of a rule: what a rounding of a factor becomes in pairs. It is below
#: 10 for the Shapley value of a hundred players.
_MAX_QUOTIENT = 1024

Int64 = npt.NDArray[np.int64]

#: Bytes of shared memory that the values and ranks of one row may take, by the bytes of a number, so that a
#: block has as many rows as there are registers for. Trees that need more are cut in parts; a path that does
#: has its own launch.
_ROW_BYTES = {4: 416, 8: 744}
#: Leaves of one tree, so that few rows find work for many blocks.
_TREE_LEAVES = 4096
#: Trees and leaves of a chunk, at most.
_CHUNK = (4, 512)
#: Trees and leaves of a sum of chunks, for calls of many rows.
_SUM = (32, 16384)
#: Splits of a player whose values are summed in the type of the walk before they are added to totals, by the
#: bytes of a number, unless they are those of one chunk. In float32, values of trees of depth 6 and 8 were
#: seen to be off by 6e-7 of a row's largest with 64, and by 1.2e-6 with no bound.
_MAX_SPLITS = {4: 64, 8: 1024}
#: Trees that are deeper are walked in float64: each split of a path rounds, and so many would be seen in
#: float32 (up to 150 levels, errors are below 4e-7).
_MAX_FLOAT32_SLOTS = 256
#: Points that are walked at once: beyond these their state is not in registers.
_MAX_POINTS = 8
#: Parts of a rule that share a stream: more would not find room in a piece of it.
_MAX_PARTS = 4
#: Trees with fewer leaves than this share of all are walked with some points more than they need.
_FEW_LEAVES = 0.25
#: Trees of which more than this share of the leaves are beside splits are uneven.
_UNEVEN = 0.1
#: Trees on whose paths are more players, in the mean over leaves, are faster in crowns; so are those whose
#: clumps have fewer leaves, in the mean over the first of them.
_MAX_PLAYERS_IN_CLUMPS, _MIN_LEAVES_OF_CLUMP, _SAMPLED_LEAVES = 9, 2.5, 2048
#: Leaves of a model whose tables take little memory: some 400 bytes each in float32, while a call lasts.
_MAX_LEAVES_IN_CLUMPS = 1 << 18
#: Leaves whose largest is this much larger than their mean are rare and huge: one limb has no digits for the
#: others.
_WILD = 2.0**24
#: Bits of a total below the sum of the largest leaf of each tree, and some above it: a pair may get four
#: times that.
_TOTAL_BITS = 58


@dataclass(frozen=True, eq=False)
class Chunks:
    """What is added to totals after each chunk of a launch."""

    sums: Int64  # (n_sums + 1,) the first chunk of each: all values are added at its end
    firsts: Int64  # (n_chunks + 1,) the first of `gains` of each
    gains: npt.NDArray[np.int32]  # (n_gains, 2) `Gain` of walk.cu: players whose values are added

    @property
    def n_sums(self) -> int:
        return len(self.sums) - 1


@dataclass(frozen=True, eq=False)
class Launch:
    """What one launch walks."""

    parts: list[Points]  # of the rule, of as many points each: all are walked one after another
    dtype: np.dtype[Any]  # of the walk
    words: npt.NDArray[Any] | Packed
    cuts: Int64  # (n_pieces + 1,) words
    pieces: Int64  # (n_chunks + 1,) the first piece of each chunk
    group_chunks: Int64  # (n_groups + 1,) the first chunk of each group
    small: Chunks  # for few rows
    large: Chunks
    groups: npt.NDArray[np.int32]  # (n_groups, 4): `Group` of walk.cu
    columns: npt.NDArray[np.int32]
    n_slots: int  # of the highest split
    row_bytes: int  # that a row takes in the memory of a block
    is_uneven: bool

    @property
    def n_points(self) -> int:
        """That are walked at once."""
        return len(self.parts[0].t)

    @property
    def work(self) -> int:
        """Of one row, in leaves times points."""
        return int(self.cuts[-1]) * self.n_points * len(self.parts) // 16


@dataclass(frozen=True, eq=False)
class Model:
    """An ensemble as the kernels see it, but for the floating-point type of the walk."""

    conditions: Conditions
    outputs: list[Trees]
    index: Index
    n_players: int
    is_wild: bool

    @classmethod
    def of(cls, ensemble: TreeEnsemble, player: npt.NDArray[np.int32], n_players: int, index: Index) -> Model:
        conditions = Conditions.of(ensemble)
        outputs = [Trees.of_output(ensemble, o, player, conditions) for o in range(ensemble.n_outputs)]
        return cls(conditions, outputs, index, n_players, any(map(_is_wild, outputs)))

    @cached_property
    def pairs(self) -> Int64:
        """(n_players, n_players) the number of each pair that meets on a path; -1 for the others."""
        table = np.full((self.n_players, self.n_players), -1, dtype=np.int64)
        for trees in self.outputs:
            split, above, _ = trees.partners
            table[trees.player[split], trees.player[above]] = 0
        first, second = np.nonzero(np.triu(np.maximum(table, table.T) >= 0))
        table[first, second] = table[second, first] = np.arange(len(first))
        return table

    @cached_property
    def _longest_rule(self) -> Rule:
        return self.index.rule(max((int(t.n_path_players.max(initial=1)) for t in self.outputs), default=1))

    def _n_points(self, n_players: int) -> int:
        return _rounded(len(self.index.rule(n_players)[0]))

    @property
    def can_divide(self) -> bool:
        """Is no factor so small that pairs would be zero divided by zero? It is at t = 1, where players that
        are present and fail their edges are worth nothing; rules of Gauss stay away from that."""
        _, absent, weights = self._longest_rule
        return bool((np.abs(weights) / np.maximum(absent, _END)).sum() < _MAX_QUOTIENT)

    @property
    def total_bits(self) -> int:
        """The power of two that totals are multiplied by: fewer if the weights of the rule do not add up to
        one."""
        weights = self._longest_rule[2]
        return _TOTAL_BITS - max(0, int(np.ceil(np.log2(max(np.abs(weights).sum(), 1.0)))))

    def launches(
        self, dtype: npt.DTypeLike, n_register_slots: Callable[[int, int], int], *, with_pairs: bool = False
    ) -> list[Launch | ClumpLaunch]:
        """``n_register_slots`` says how many for a number of points, and the bytes of a number."""
        pairs = self.pairs if with_pairs else None
        drafts: dict[tuple[bytes, int, bool], _Draft] = {}
        clump_drafts: dict[bytes, ClumpDraft] = {}
        for output, trees in enumerate(self.outputs):
            for some, real in _by_type(replace(trees, is_flat=with_pairs), np.dtype(dtype)):
                item = real.itemsize
                if self.can_divide and _is_uneven(some):
                    some = self._clumped(some, output, real, clump_drafts)
                    if not some.n_trees:
                        continue
                    some = in_crowns(
                        replace(some, is_uneven=True), self._n_points, partial(_slots, n_register_slots, item)
                    )
                small = some.cut(partial(_is_too_large, item)).with_leaves_right()
                for points, members in _classes(small.n_path_players, small.n_leaves, self.index):
                    for parts in _parts(points):
                        rule = b"".join(part.t.tobytes() + part.weights.tobytes() for part in parts)
                        key = rule, item, small.is_uneven
                        if key not in drafts:
                            n_slots = n_register_slots(len(parts[0].t), item)
                            drafts[key] = _Draft(parts, n_slots, real, small.is_uneven, pairs)
                        drafts[key].add(output, small.some(members))
        walks = [draft.launch() for draft in drafts.values()]
        return [*walks, *(draft.launch() for draft in clump_drafts.values())]

    def _clumped(
        self, trees: Trees, output: int, dtype: np.dtype[Any], drafts: dict[bytes, ClumpDraft]
    ) -> Trees:
        """Trees that are explained by clumps of leaves are added to drafts; the others are left."""
        fit = np.flatnonzero(fit_into_clumps(trees, self._n_points))
        some = trees.some(fit)
        n_leaves = sum(int(of_output.is_leaf.sum()) for of_output in self.outputs)
        if n_leaves > _MAX_LEAVES_IN_CLUMPS or not _are_for_clumps(some, self._n_points):
            return trees
        n_players = some.n_players_above[some.is_leaf]
        classes = list(_classes(n_players, np.ones_like(n_players), self.index))
        points_of = {n: points for points, members in classes for n in n_players[members].tolist()}
        clumps = Clumps.of(some, lambda n: len(points_of[n].t))
        for points, _ in classes:
            members = [i for i, n in enumerate(clumps.n_players.tolist()) if points_of[n] is points]
            key = points.t.tobytes() + points.weights.tobytes() + dtype.char.encode()
            if members:
                drafts.setdefault(key, ClumpDraft(points, dtype)).add(output, clumps.made(np.array(members)))
        return trees.some(np.setdiff1d(np.arange(trees.n_trees), fit))


def _are_for_clumps(trees: Trees, n_points: Callable[[int], int]) -> bool:
    """Are these faster by clumps of leaves than in crowns? The first of them show how large clumps become."""
    if trees.n_trees == 0 or trees.n_players_above[trees.is_leaf].mean() > _MAX_PLAYERS_IN_CLUMPS:
        return False
    some = trees.span(0, 1 + int(np.searchsorted(np.cumsum(trees.n_leaves)[:-1], _SAMPLED_LEAVES)))
    n_clumps = len(Clumps.of(some, n_points).top)
    return bool(some.n_leaves.sum() >= _MIN_LEAVES_OF_CLUMP * n_clumps)


def _is_wild(trees: Trees) -> bool:
    if trees.n_trees == 0:
        return False
    reach = np.ones(len(trees.left))
    for nodes in trees.levels:
        inner = nodes[~trees.is_leaf[nodes]]
        reach[trees.left[inner]] = reach[inner] * trees.w_left[inner]
        reach[trees.right[inner]] = reach[inner] * trees.w_right[inner]
    typical = float((reach * np.abs(trees.value))[trees.is_leaf].sum())
    return not _WILD * typical >= 1


def _is_uneven(trees: Trees) -> bool:
    """Have many splits a leaf on one side and more on the other? Elsewhere crowns save little, and a kernel
    that knows of no stem is faster."""
    if trees.is_flat:
        return False
    n_beside = int((trees.kind == Kind.LEAF).sum())
    return n_beside > _UNEVEN * int(trees.n_leaves.sum())


def _by_type(trees: Trees, dtype: np.dtype[Any]) -> Iterator[tuple[Trees, np.dtype[Any]]]:
    """Trees, and the type in which they are walked."""
    deep = np.unique(trees.tree[trees.slot >= _MAX_FLOAT32_SLOTS])
    if dtype == np.float64 or not deep.size:
        yield trees, dtype
        return
    yield trees.some(deep), np.dtype(np.float64)
    if deep.size < trees.n_trees:
        yield trees.some(np.setdiff1d(np.arange(trees.n_trees), deep)), dtype


def _is_too_large(item: int, trees: Trees, tree: int) -> bool:
    nodes = np.arange(trees.first[tree], trees.first[tree + 1])
    inner = nodes[~trees.is_leaf[nodes]]
    n_bytes = row_bytes(len(np.unique(trees.player[inner])), len(np.unique(trees.column[inner])), item)
    # A path cannot be cut: parts of about its size would all be that path over and over again.
    n_players = int(trees.n_path_players[tree])
    room = max(_ROW_BYTES[item], 2 * row_bytes(n_players, n_players, item))
    return n_bytes > room or len(nodes) > 2 * _TREE_LEAVES


def _classes(n_players: Int64, n_leaves: Int64, index: Index) -> Iterator[tuple[Points, Int64]]:
    """A rule, and the trees for which it has as many points as they need, or hardly more. In come the players
    of their longest path, and their leaves."""
    n_points = {n: len(index.rule(int(n))[0]) for n in np.unique(n_players)}
    needed = np.array([_rounded(n_points[n]) for n in n_players.tolist()], dtype=np.int64)
    for n, more in zip(*(np.unique(needed)[part] for part in (slice(None, -1), slice(1, None))), strict=True):
        few = n_leaves[needed == n].sum() < _FEW_LEAVES * n_leaves.sum()
        if few and more <= _MAX_POINTS:
            needed[needed == n] = more
    for n in np.unique(needed):
        members = np.flatnonzero(needed == n)
        t, absent, weights = index.rule(int(n_players[members].max()))
        t, absent = np.maximum(t, _END), np.maximum(absent, _END)
        idle = int(n) - len(t)
        yield (
            Points(
                np.append(t, np.full(idle, 0.5)),
                np.append(absent, np.full(idle, 0.5)),
                np.append(weights, np.zeros(idle)),
            ),
            members,
        )


def _rounded(n_points: int) -> int:
    """Few numbers of points, so that few kernels are compiled: 1 to 6, 8, 10, 12, and whole parts of
    eight."""
    if n_points <= 6:
        return n_points
    if n_points in (9, 10, 11, 12):
        return n_points + n_points % 2
    return -(-n_points // _MAX_POINTS) * _MAX_POINTS


def _slots(n_register_slots: Callable[[int, int], int], item: int, n_points: int) -> int:
    """Of splits whose state is in registers, where so many points are walked, in parts if need be."""
    return n_register_slots(-(-n_points // -(-n_points // _MAX_POINTS)), item)


def _parts(points: Points) -> Iterator[list[Points]]:
    """The parts of a rule that share a stream."""
    n_parts = -(-len(points.t) // _MAX_POINTS)
    parts = [
        Points(points.t[part::n_parts], points.absent[part::n_parts], points.weights[part::n_parts])
        for part in range(n_parts)
    ]
    for first in range(0, n_parts, _MAX_PARTS):
        yield parts[first : first + _MAX_PARTS]


def _gains(n_splits: Int64, sums: list[int], max_splits: int) -> Iterator[Int64]:
    """For each chunk the players whose values are added after it. ``n_splits`` is (n_chunks, n_players); a
    sum ends before each of these chunks."""
    waiting = np.zeros(n_splits.shape[1], dtype=np.int64)  # splits whose values are not added yet
    coming, ends = np.append(n_splits[1:], n_splits[:1] * 0, axis=0), set(sums)
    for chunk, (some, more) in enumerate(zip(n_splits, coming, strict=True), 1):
        waiting += some
        is_due = (chunk in ends) | (waiting + more > max_splits)
        own = np.flatnonzero((waiting > 0) & is_due)
        waiting[own] = 0
        yield own


class _ChunkDraft:
    """See `Chunks`."""

    def __init__(self) -> None:
        self.sums, self.firsts = [0], [0]
        self.gains: list[Int64] = []

    def add(self, sums: list[int], gains: Iterator[Int64], players: Int64, item: int) -> None:
        """The chunks of a group: a sum ends before each of these, and these of its players get something."""
        n_chunks = len(self.firsts) - 1
        self.sums += [n_chunks + end for end in sums]
        for own in gains:
            # Whole numbers of those that are added at once, the rest being nobody's, who gets nothing.
            own = np.append(own, np.full(-len(own) % GAINS_AT_ONCE, len(players)))
            self.gains.append(np.stack([own * item, np.append(players, players[0])[own]], axis=1))
            self.firsts.append(self.firsts[-1] + len(own))

    def chunks(self) -> Chunks:
        sums, firsts = (np.array(numbers, dtype=np.int64) for numbers in (self.sums, self.firsts))
        return Chunks(sums, firsts, np.concatenate(self.gains).astype(np.int32))


class _Draft:
    """A launch while groups are added to it."""

    def __init__(
        self,
        parts: list[Points],
        n_register_slots: int,
        dtype: np.dtype[Any],
        is_uneven: bool,
        pairs: Int64 | None,
    ) -> None:
        self.parts, self.n_register_slots, self.dtype, self.pairs = parts, n_register_slots, dtype, pairs
        self.is_uneven = is_uneven
        self.words: list[npt.NDArray[Any]] = []
        self.fills: list[Fills] = []
        self.n_leaves = 0
        self.cuts: list[int] = [0]
        self.groups: list[tuple[int, int, int, int]] = []
        self.pieces, self.group_chunks = [0], [0]
        self.small, self.large = _ChunkDraft(), _ChunkDraft()
        self.columns: list[Int64] = []
        self.n_slots, self.row_bytes = 0, 0

    def add(self, output: int, trees: Trees) -> None:
        """Add the trees of an output, in as few groups as there is room for."""
        for begin, end in self._groups(trees):
            some = trees.span(begin, end)
            inner = ~some.is_leaf
            players, columns = np.unique(some.player[inner]), np.unique(some.column[inner])
            self.groups.append((len(players), sum(map(len, self.columns)), len(columns), output))
            self.columns.append(columns)
            self.n_slots = max(self.n_slots, int(some.slot.max()) + 1)
            self.row_bytes = max(self.row_bytes, row_bytes(len(players), len(columns), self.dtype.itemsize))
            local_player, local_column = (
                np.zeros(int(used.max()) + 1, dtype=np.int64) for used in (players, columns)
            )
            local_player[players] = np.arange(len(players))
            local_column[columns] = np.arange(len(columns))
            self._write(some, players, local_player, local_column)

    def _groups(self, trees: Trees) -> Iterator[tuple[int, int]]:
        """Trees one after another, as long as their players and columns have room beside each other."""
        inner = ~trees.is_leaf
        everything = row_bytes(
            len(np.unique(trees.player[inner])), len(np.unique(trees.column[inner])), self.dtype.itemsize
        )
        if everything <= _ROW_BYTES[self.dtype.itemsize] or trees.n_trees == 1:
            yield 0, trees.n_trees
            return
        players, columns, begin = set[int](), set[int](), 0
        for tree in range(trees.n_trees):
            nodes = slice(trees.first[tree], trees.first[tree + 1])
            own = inner[nodes]
            its_players = set(trees.player[nodes][own].tolist())
            its_columns = set(trees.column[nodes][own].tolist())
            n_bytes = row_bytes(len(players | its_players), len(columns | its_columns), self.dtype.itemsize)
            if tree > begin and n_bytes > _ROW_BYTES[self.dtype.itemsize]:
                yield begin, tree
                players, columns, begin = set(), set(), tree
            players |= its_players
            columns |= its_columns
        yield begin, trees.n_trees

    def _write(self, trees: Trees, players: Int64, player: Int64, column: Int64) -> None:
        records = write(
            trees,
            player,
            column,
            len(players),
            self.parts,
            n_register_slots=self.n_register_slots,
            dtype=self.dtype,
            pairs=self.pairs,
        )
        # What has a stem is a part of a tree.
        n_trees = (trees.crown == trees.first[:-1]).astype(np.int64)
        ends = list(_ends(n_trees, trees.n_leaves, *_CHUNK))
        words, fills, cuts, pieces = records.in_pieces(ends)
        self.fills.append(fills.moved(self.cuts[-1]))
        self.n_leaves += int((trees.is_leaf & ~trees.is_empty).sum())
        self.pieces += (pieces[1:] + len(self.cuts) - 1).tolist()
        self.group_chunks.append(len(self.pieces) - 1)
        self.cuts += (cuts[1:] + self.cuts[-1]).tolist()
        self.words.append(words)
        inner = ~trees.is_leaf
        chunk = np.searchsorted(ends, trees.tree[inner], side="right")
        n_splits = np.zeros((len(ends), len(players)), dtype=np.int64)
        np.add.at(n_splits, (chunk, player[trees.player[inner]]), 1)
        item = self.dtype.itemsize
        each = list(range(1, len(ends) + 1))
        self.small.add(each, _gains(n_splits, each, 0), players, item)
        trees_of, leaves_of = (np.add.reduceat(some, [0, *ends[:-1]]) for some in (n_trees, trees.n_leaves))
        sums = _equal_ends(trees_of, leaves_of, *_SUM)
        self.large.add(sums, _gains(n_splits, sums, _MAX_SPLITS[item]), players, item)

    def launch(self) -> Launch:
        words, fills = np.concatenate(self.words), Fills.joined(self.fills)
        return Launch(
            self.parts,
            self.dtype,
            packed(words, fills, self.parts, self.dtype, self.n_leaves) or words,
            np.array(self.cuts, dtype=np.int64),
            np.array(self.pieces, dtype=np.int64),
            np.array(self.group_chunks, dtype=np.int64),
            self.small.chunks(),
            self.large.chunks(),
            np.array(self.groups, dtype=np.int32),
            np.concatenate(self.columns).astype(np.int32),
            self.n_slots,
            self.row_bytes,
            self.is_uneven,
        )


def _ends(n_trees: Int64, n_leaves: Int64, max_trees: int, max_leaves: int) -> Iterator[int]:
    """Of things one after another, each with so many trees and leaves: chunks end before these."""
    trees, leaves = 0, 0
    for i, (more_trees, more_leaves) in enumerate(zip(n_trees.tolist(), n_leaves.tolist(), strict=True)):
        if leaves and (trees + more_trees > max_trees or leaves + more_leaves > max_leaves):
            yield i
            trees, leaves = 0, 0
        trees, leaves = trees + more_trees, leaves + more_leaves
    if leaves:
        yield len(n_trees)


def _equal_ends(n_trees: Int64, n_leaves: Int64, max_trees: int, max_leaves: int) -> list[int]:
    """The same in parts of about as many leaves each: four, eight … of them, for two or four blocks."""
    n_parts = max(-(-int(n_trees.sum()) // max_trees), -(-int(n_leaves.sum()) // max_leaves))
    n_parts = min(-(-n_parts // 4) * 4, len(n_trees))
    shares = np.cumsum(n_leaves) * n_parts / n_leaves.sum()
    ends = np.searchsorted(shares, np.arange(1, n_parts) - 0.5 / len(n_trees)) + 1
    return sorted({*ends.tolist(), len(n_trees)})
