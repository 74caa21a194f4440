"""Trees → clumps: leaves that a row is explained at once by, and what their tables are made of.

Values are sums over leaves, so a tree may be explained as several sets of its leaves. All leaves of a clump
are below one node; the players that split them apart from there on are its crown, the others on the way to it
its stem. What the crown gives depends on few answers of a row, and is looked up in a table by them; edges of
one player are one factor, however many there are (`clumps.cu`). Clumps grow from the leaves up, as long as
their tables stay small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from .trees import Trees

__all__ = ["Clumps", "Made", "fit_into_clumps", "n_words_of_entry"]

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

#: Words of a table and its conditions, at most, and players and columns of a crown, as in clumps.cu.
_MAX_TABLE, _MAX_CROWN = 512, 8
#: Leaves of a clump, at most: there are more than entries where no row comes.
_MAX_LEAVES = 1024
#: Points, players and splits of a path, at most: each player of a stem has a bit, and a clump has room in a
#: piece of the stream.
_MAX_POINTS, _MAX_PLAYERS, _MAX_SPLITS = 8, 32, 64
#: Ranks are bytes.
_HIGHEST = 255
#: Where no rank is.
_NOWHERE = 256


@dataclass(frozen=True, eq=False)
class Clumps:
    """Leaves of some trees, in clumps."""

    trees: Trees
    top: Int64  # (n_clumps,) the node that all leaves are below, or the only leaf
    of_leaf: Int64  # (n_nodes,) the clump of each leaf; -1 of other nodes, and of leaves that are empty
    n_points: Callable[[int], int]

    @classmethod
    def of(cls, trees: Trees, n_points: Callable[[int], int]) -> Clumps:
        """``n_points`` says with how many a path of some players is explained."""
        top, of_leaf = list[int](), np.full(len(trees.left), -1, dtype=np.int64)
        for tree in range(trees.n_trees):
            for clump in _Grower(trees, tree, n_points).clumps():
                of_leaf[clump.leaves] = len(top)
                top.append(clump.top)
        return cls(trees, np.array(top, dtype=np.int64), of_leaf, n_points)

    @cached_property
    def n_players(self) -> Int64:
        """(n_clumps,) on one path, at most."""
        most = np.ones(len(self.top), dtype=np.int64)
        leaves = np.flatnonzero(self.of_leaf >= 0)
        np.maximum.at(most, self.of_leaf[leaves], self.trees.n_players_above[leaves])
        return most

    def made(self, clumps: Int64) -> Made:
        """What some of them, of as many points each, are made of."""
        return Made.of(self, clumps, self.n_points(int(self.n_players[clumps[0]])))


def fit_into_clumps(trees: Trees, n_points: Callable[[int], int]) -> Bool:
    """(n_trees,) are no paths too long?"""
    n_players = trees.n_path_players
    fit = np.isin(n_players, [n for n in np.unique(n_players) if n_points(int(n)) <= _MAX_POINTS])
    n_splits = np.zeros(trees.n_trees, dtype=np.int64)
    np.maximum.at(n_splits, trees.tree, trees.level)
    return np.asarray(fit & (n_players <= _MAX_PLAYERS) & (n_splits <= _MAX_SPLITS))


def n_words_of_entry(n_crown: int | Int64, n_points: int) -> int | Int64:
    """Pairs of numbers: an odd number of them, so that rows with different entries read different banks."""
    return 2 * ((1 + n_crown) * (-(-n_points // 2)) | 1)


# -- which leaves -------------------------------------------------------------------------------------------


@dataclass
class _Clump:
    """Leaves below a node, while it grows. Sets are bits of whole numbers."""

    top: int
    leaves: list[int]
    n_players: int  # on the longest path
    questions: int = 0  # that splits below the top ask
    above: int = 0  # those of splits between the top and the node that is looked at


class _Grower:
    """Clumps of one tree."""

    def __init__(self, trees: Trees, tree: int, n_points: Callable[[int], int]) -> None:
        self._trees, self._n_points = trees, n_points
        nodes = slice(int(trees.first[tree]), int(trees.first[tree + 1]))
        self._first = nodes.start
        self._is_leaf = trees.is_leaf[nodes].tolist()
        inner = ~trees.is_leaf[nodes]
        # Questions of one column are beside each other, and so are columns of one player.
        keys = np.stack([trees.player[nodes], trees.column[nodes], trees.last[nodes]], axis=1)[inner]
        questions, number = np.unique(keys, axis=0, return_inverse=True)
        columns, of_question = np.unique(questions[:, :2], axis=0, return_inverse=True)
        _, of_column = np.unique(columns[:, 0], return_inverse=True)
        of_question, of_column = of_question.reshape(-1), of_column.reshape(-1)
        self._question, self._column = (np.zeros(len(inner), dtype=np.int64) for _ in range(2))
        self._question[inner], self._column[inner] = number.reshape(-1), of_question[number.reshape(-1)]
        self._of_column = [_bits(np.flatnonzero(of_question == c)) for c in range(len(columns))]
        self._player = of_column.tolist()
        self._of_player = [_bits(np.flatnonzero(of_column == p)) for p in range(int(of_column.max()) + 1)]

    def clumps(self) -> Iterator[_Clump]:
        """From the leaves up: both sides of a split become one clump, unless its table would be too large;
        then one side is done, and the other one goes on."""
        trees, first = self._trees, self._first
        left, right = (of[first : first + len(self._is_leaf)] - first for of in (trees.left, trees.right))
        n_players = trees.n_players_above[first : first + len(self._is_leaf)].tolist()
        is_empty = trees.is_empty[first : first + len(self._is_leaf)].tolist()
        columns, order = [0] * len(self._is_leaf), []  # of splits above each node
        pending = [0]
        while pending:
            node = pending.pop()
            order.append(node)
            if not self._is_leaf[node]:
                for child in (int(left[node]), int(right[node])):
                    columns[child] = columns[node] | 1 << int(self._column[node])
                    pending.append(child)
        growing: dict[int, _Clump | None] = {}
        for node in reversed(order):
            if self._is_leaf[node]:
                leaf = _Clump(node + first, [node + first], max(1, n_players[node]))
                growing[node] = None if is_empty[node] else leaf
                continue
            sides = [growing.pop(int(left[node])), growing.pop(int(right[node]))]
            own = 1 << int(self._question[node])
            some = [side for side in sides if side is not None]
            if len(some) == 2:
                both = _Clump(
                    node + first,
                    some[0].leaves + some[1].leaves,
                    max(some[0].n_players, some[1].n_players),
                    own | some[0].questions | some[1].questions | some[0].above | some[1].above,
                )
                if self._fits(both, columns[node]):
                    growing[node] = both
                    continue
                some.sort(key=lambda side: len(side.leaves))
                yield some.pop()
            if some:
                some[0].above |= own
            growing[node] = some[0] if some else None
        if (last := growing[0]) is not None:
            yield last

    def _fits(self, clump: _Clump, columns_above: int) -> bool:
        """Is its table small enough?"""
        players, columns, n_entries, n_conditions = 0, 0, 1, 0
        rest = clump.questions
        while rest:
            column = self._column_of(rest)
            own = self._of_column[column]
            n_own = (clump.questions & own).bit_count() + (columns_above >> column & 1)
            n_entries *= 1 + n_own
            n_conditions += n_own
            players |= 1 << self._player[column]
            columns |= 1 << column
            rest &= ~own
        n_crown = players.bit_count()
        while players:
            player = players.bit_length() - 1
            players ^= 1 << player
            # What is asked above only, of a player who is asked below as well.
            n_more = (self._of_player[player] & columns_above & ~columns).bit_count()
            n_entries <<= n_more
            n_conditions += n_more
            columns |= self._of_player[player] & columns_above
        if max(n_crown, columns.bit_count()) > _MAX_CROWN or len(clump.leaves) > _MAX_LEAVES:
            return False
        n_words = n_entries * n_words_of_entry(n_crown, self._n_points(clump.n_players)) + 4 * n_conditions
        return bool(n_words <= _MAX_TABLE)

    def _column_of(self, questions: int) -> int:
        """The column of the highest one."""
        highest = questions.bit_length() - 1
        return int(self._columns_of_questions[highest])

    @cached_property
    def _columns_of_questions(self) -> list[int]:
        out = [0] * sum(mask.bit_count() for mask in self._of_column)
        for column, mask in enumerate(self._of_column):
            while mask:
                question = mask.bit_length() - 1
                out[question] = column
                mask ^= 1 << question
        return out


def _bits(places: Int64) -> int:
    return sum(1 << int(place) for place in places)


# -- what they are made of ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Made:
    """What tables and stems of clumps are made of, one clump after another: see clumps.cu."""

    n_points: int
    first_condition: Int64  # (n_clumps + 1,) those of the stem come before those of the crown
    n_stem_conditions: Int64
    conditions: _Conditions
    first_stem: Int64  # (n_clumps + 1,) players: first those of a single condition
    n_single: Int64  # how many these are
    stem: Int64
    cover: Float64
    first_crown: Int64  # (n_clumps + 1,) players
    crown: Int64
    first_column: Int64  # (n_clumps + 1,) columns of the crown
    n_outcomes: Int64
    n_entries: Int64  # (n_clumps,) of the table: one for all outcomes of its columns together
    of_player: Int64  # the number of each column's player in its crown
    n_leaves: Int64
    first_number: Int64  # (n_clumps + 1,) of each leaf its value, and its covers of all players of the crown
    number: Float64
    first_range: Int64  # (n_clumps + 1,) of each leaf the outcomes of all columns of the crown
    outcomes: Int64  # (n_ranges, 2) the first and the last one

    @classmethod
    def of(cls, clumps: Clumps, some: Int64, n_points: int) -> Made:
        trees, n_clumps = clumps.trees, len(some)
        number_of = np.full(len(clumps.top) + 1, -1, dtype=np.int64)
        number_of[some] = np.arange(n_clumps)
        clump = number_of[clumps.of_leaf]  # of each node; the last number is for those that are in none
        leaves = np.flatnonzero(clump >= 0)
        leaves = leaves[np.argsort(clump[leaves], kind="stable")]
        clump = clump[leaves]
        n_leaves = np.bincount(clump, minlength=n_clumps)
        first_leaf = np.cumsum(n_leaves) - n_leaves
        edges = _Edges.above(trees, leaves, clump)
        is_below = trees.level[edges.split] >= trees.level[clumps.top[some]][edges.clump]
        is_first = edges.leaf == first_leaf[edges.clump]  # what is above is the same for all of its leaves
        crown = _Sets.of(edges.clump[is_below], edges.player[is_below], n_clumps)
        in_crown = crown.number(edges.clump, edges.player) >= 0
        stem = _Stem.of(edges.some(~in_crown & is_first), n_clumps)
        columns = _Columns.of(edges.some(in_crown), is_below[in_crown], is_first[in_crown], crown)
        # Of each leaf its value and covers of the crown's players, and the outcomes of the crown's columns.
        of_clump = np.arange(len(leaves)) - first_leaf[clump]
        n_crown, n_columns = np.diff(crown.first), np.diff(columns.sets.first)
        first_number = _firsts(n_leaves * (1 + n_crown))
        number = np.ones(first_number[-1])
        place = first_number[clump] + of_clump * (1 + n_crown[clump])
        number[place] = trees.value[leaves]
        edges = edges.some(in_crown)
        own = crown.number(edges.clump, edges.player) - crown.first[edges.clump]
        np.multiply.at(number, place[edges.leaf] + 1 + own, edges.ratio)
        first_range = _firsts(n_leaves * n_columns)
        outcomes = np.tile([0, _HIGHEST], (first_range[-1], 1))
        leaf, column, low, high = edges.intervals(edges.leaf)
        column = columns.sets.number(clump[leaf], column)
        place = first_range[clump[leaf]] + of_clump[leaf] * n_columns[clump[leaf]]
        place += column - columns.sets.first[clump[leaf]]
        outcomes[place, 0] = np.where(low > high, 1, columns.outcome(column, low))
        outcomes[place, 1] = np.where(low > high, 0, columns.outcome(column, high))
        entry = np.asarray(n_words_of_entry(n_crown, n_points)) // 2
        conditions = stem.conditions.and_then(columns.conditions(entry))
        n_conditions = np.bincount(conditions.clump, minlength=n_clumps)
        return cls(
            n_points,
            _firsts(n_conditions),
            np.bincount(stem.conditions.clump, minlength=n_clumps),
            conditions,
            stem.first,
            stem.n_single,
            stem.player,
            stem.cover,
            crown.first,
            crown.member,
            columns.sets.first,
            columns.n_outcomes,
            _products(columns.n_outcomes, columns.sets.first),
            columns.player - crown.first[columns.sets.clump],
            n_leaves,
            first_number,
            number,
            first_range,
            outcomes,
        )


@dataclass(frozen=True, eq=False)
class _Conditions:
    """Intervals of ranks: `Condition` of clumps.cu."""

    clump: Int64
    column: Int64
    low: Int64
    width: Int64
    more: Int64

    def and_then(self, others: _Conditions) -> _Conditions:
        """Those of each clump, and after them its others."""
        order = np.argsort(np.concatenate([self.clump, others.clump]), kind="stable")
        names = self.__dataclass_fields__
        return _Conditions(
            *(np.concatenate([getattr(self, name), getattr(others, name)])[order] for name in names)
        )


@dataclass(frozen=True, eq=False)
class _Stem:
    """The players of stems, first those of a single condition, and what they ask of a row."""

    first: Int64  # (n_clumps + 1,)
    n_single: Int64
    player: Int64
    cover: Float64  # the product of the player's cover ratios
    conditions: _Conditions

    @classmethod
    def of(cls, edges: _Edges, n_clumps: int) -> _Stem:
        players = _Sets.of(edges.clump, edges.player, n_clumps)
        of_edge = players.number(edges.clump, edges.player)
        cover = np.ones(len(players.member))
        np.multiply.at(cover, of_edge, edges.ratio)
        player, column, low, high = edges.intervals(of_edge)
        is_single = np.bincount(player, minlength=len(cover)) == 1
        order = np.lexsort((~is_single, players.clump))
        number = np.empty(len(order), dtype=np.int64)  # of each player in its clump
        number[order] = np.arange(len(order)) - players.first[players.clump]
        by_number = np.lexsort((number[player], players.clump[player]))
        player, column, low, high = (of[by_number] for of in (player, column, low, high))
        is_last = np.append(np.diff(player) != 0, True)[: len(player)]
        is_nowhere = low > high
        conditions = _Conditions(
            players.clump[player],
            column,
            np.where(is_nowhere, _NOWHERE, low),
            np.where(is_nowhere, 0, high - low),
            2 * number[player] + is_last,
        )
        n_single = np.bincount(players.clump[is_single], minlength=n_clumps)
        return cls(players.first, n_single, players.member[order], cover[order], conditions)


@dataclass(frozen=True, eq=False)
class _Columns:
    """The columns of crowns: the interval that edges above leave of each, and where splits below cut it. A
    row's outcome is 0 outside, if there are edges above, and else how many cuts are at most its rank."""

    sets: _Sets
    player: Int64  # by its number among all of crowns
    low: Int64
    high: Int64
    has_above: Bool
    cut_column: Int64
    cut: Int64  # the first rank that goes right

    @classmethod
    def of(cls, edges: _Edges, is_below: Bool, is_first: Bool, crown: _Sets) -> _Columns:
        sets = _Sets.of(edges.clump, edges.column, len(crown.first) - 1)
        column = sets.number(edges.clump, edges.column)
        n_columns = len(sets.member)
        player = np.zeros(n_columns, dtype=np.int64)
        player[column] = crown.number(edges.clump, edges.player)
        low, high = np.zeros(n_columns, dtype=np.int64), np.full(n_columns, _HIGHEST)
        above = ~is_below & is_first
        np.maximum.at(low, column[above], edges.low[above])
        np.minimum.at(high, column[above], edges.high[above])
        has_above = np.zeros(n_columns, dtype=np.bool_)
        has_above[column[above]] = True
        first_right = np.where(edges.is_right, edges.low, edges.high + 1)
        cut_column, cut = np.unique(np.stack([column, first_right])[:, is_below], axis=1)
        is_inside = (low[cut_column] < cut) & (cut <= high[cut_column])
        return cls(sets, player, low, high, has_above, cut_column[is_inside], cut[is_inside])

    @cached_property
    def n_cuts(self) -> Int64:
        return np.bincount(self.cut_column, minlength=len(self.low))

    @property
    def n_outcomes(self) -> Int64:
        return np.asarray(self.n_cuts + 1 + self.has_above)

    def outcome(self, column: Int64, rank: Int64) -> Int64:
        """Of ranks inside."""
        base = _HIGHEST + 2
        n_before = np.searchsorted(self.cut_column * base + self.cut, column * base + rank, side="right")
        return np.asarray(n_before - (np.cumsum(self.n_cuts) - self.n_cuts)[column] + self.has_above[column])

    def conditions(self, entry: Int64) -> _Conditions:
        """The outcome of a column is how many of these intervals a row is in; ``entry`` is the size of an
        entry of each clump."""
        above = np.flatnonzero(self.has_above)
        column = np.concatenate([above, self.cut_column])
        low = np.concatenate([self.low[above], self.cut])
        stride = _products_before(self.n_outcomes, self.sets.first) * entry[self.sets.clump]
        return _Conditions(
            self.sets.clump[column], self.sets.member[column], low, self.high[column] - low, stride[column]
        )


@dataclass(frozen=True, eq=False)
class _Edges:
    """Edges on the ways to some leaves, each being an interval of ranks of a column."""

    leaf: Int64  # by its place among them
    clump: Int64
    split: Int64
    is_right: Bool
    player: Int64
    column: Int64
    low: Int64
    high: Int64
    ratio: Float64

    @classmethod
    def above(cls, trees: Trees, leaves: Int64, clump: Int64) -> _Edges:
        leaf, at = np.arange(len(leaves)), leaves
        all_leaves, splits, sides = [leaf[:0]], [leaf[:0]], [np.zeros(0, dtype=np.bool_)]
        while leaf.size:
            goes_on = trees.parent[at] >= 0
            leaf, side, at = leaf[goes_on], trees.is_right[at[goes_on]], trees.parent[at[goes_on]]
            all_leaves.append(leaf)
            splits.append(at)
            sides.append(side)
        leaf, split, is_right = np.concatenate(all_leaves), np.concatenate(splits), np.concatenate(sides)
        return cls(
            leaf,
            clump[leaf],
            split,
            is_right,
            trees.player[split],
            trees.column[split],
            np.where(is_right, trees.last[split] + 1, 0),
            np.where(is_right, _HIGHEST, trees.last[split]),
            np.where(is_right, trees.w_right[split], trees.w_left[split]),
        )

    def some(self, edges: Bool) -> _Edges:
        return _Edges(*(getattr(self, name)[edges] for name in self.__dataclass_fields__))

    def intervals(self, key: Int64) -> tuple[Int64, Int64, Int64, Int64]:
        """(key, column, lowest, highest rank) for each key and column that there are: what all its edges
        leave."""
        order = np.lexsort((self.column, key))
        key, column = key[order], self.column[order]
        begin = np.flatnonzero(np.append(True, (np.diff(key) != 0) | (np.diff(column) != 0))[: len(key)])
        if not begin.size:
            return key, column, key, key
        low = np.maximum.reduceat(self.low[order], begin)
        high = np.minimum.reduceat(self.high[order], begin)
        return key[begin], column[begin], low, high


@dataclass(frozen=True, eq=False)
class _Sets:
    """A set of numbers for each clump, one after another."""

    first: Int64  # (n_clumps + 1,)
    clump: Int64
    member: Int64

    @classmethod
    def of(cls, clump: Int64, member: Int64, n_clumps: int) -> _Sets:
        pairs = np.unique(clump << 32 | member)
        return cls(np.searchsorted(pairs >> 32, np.arange(n_clumps + 1)), pairs >> 32, pairs & 0xFFFFFFFF)

    def number(self, clump: Int64, member: Int64) -> Int64:
        """Where members are among all; -1 of those that are in no set."""
        own, wanted = self.clump << 32 | self.member, clump << 32 | member
        if not own.size:
            return np.full(len(wanted), -1, dtype=np.int64)
        found = np.minimum(np.searchsorted(own, wanted), len(own) - 1)
        return np.where(own[found] == wanted, found, -1)


def _firsts(sizes: Int64) -> Int64:
    """Where things of these sizes begin, one after another, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _products_before(numbers: Int64, first: Int64) -> Int64:
    """The product of those before each one of its clump."""
    out = np.ones(len(numbers), dtype=np.int64)
    n = np.diff(first)
    for place in range(1, int(n.max(initial=0))):
        at = first[:-1][n > place] + place
        out[at] = out[at - 1] * numbers[at - 1]
    return out


def _products(numbers: Int64, first: Int64) -> Int64:
    """Of those of each clump."""
    out = np.ones(len(first) - 1, dtype=np.int64)
    np.multiply.at(out, np.repeat(np.arange(len(out)), np.diff(first)), numbers)
    return out
