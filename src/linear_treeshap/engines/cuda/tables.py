"""The tables of a background engine → what the kernels are given: launches, each with a stream and numbers.

A table has questions, whose answers are the bits of a row's state, and for each state what its players get
(`look_up.cu`). Leaves that are in no table have questions, too, one for each player of their path, and there
rows meet background rows (`scan.cu`). A question is whether a row is in some intervals of ranks: what a path
asks of one column is one interval, however often it asks.

Numbers are summed in a floating-point type within a chunk of some tables, and added to totals after it.
Chunks depend neither on the rows nor on the device, so bits do not either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..background import BackgroundEngine
from .conditions import Conditions
from .tile import GAINS_AT_ONCE, row_bytes

__all__ = ["MAX_PLAYERS", "TableLaunch", "Tables"]

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

#: Players of a leaf that is in no table, at most: those of a mask.
MAX_PLAYERS = 64
#: For how many players of a leaf kernels are compiled.
_PLAYERS = (16, 32, MAX_PLAYERS)
#: Bytes of shared memory that the values and ranks of one row may take, so that a block has rows enough.
_ROW_BYTES = 1024
#: Tables, or leaves, of a chunk: as many numbers are added up for a player before they go to its total.
_CHUNK = 64
#: Numbers of an entry are whole multiples of this, as C++ writes them.
_LANES = 8
#: Numbers that are this much larger than what is predicted.
_WILD = 2.0**24
#: Bits of a total below the sum of the largest number of each table.
_TOTAL_BITS = 58
#: A word of questions.h that every row answers with yes, and that ends no bit.
_ALWAYS = 255 << 24


@dataclass(frozen=True, eq=False)
class TableLaunch:
    """What one launch goes through."""

    stream: npt.NDArray[np.uint32]  # (n, 4), see look_up.cu and scan.cu
    chunks: Int64  # (n_chunks + 1,) where each begins in the stream
    groups: npt.NDArray[np.int32]  # (n_groups, 4) `Group` of tile.h
    group_chunks: Int64  # (n_groups + 1,) the first chunk of each group
    columns: npt.NDArray[np.int32]
    firsts: Int64  # (n_chunks + 1,) the first of `gains` of each chunk
    gains: npt.NDArray[np.int32]  # (n_gains, 2) `Gain` of tile.h
    numbers: npt.NDArray[np.floating]  # of tables, or of leaves
    row_bytes: int
    n_tables: int
    n_players: int = 0  # of a leaf, at most, as kernels are compiled; 0 for tables


@dataclass(frozen=True, eq=False)
class Tables:
    """Tables one after another, and leaves that are in none, as C++ lists them (table_lists.hpp)."""

    conditions: Conditions
    n_players: int
    n_outputs: int
    first_bit: Int64  # (n_tables + 1,)
    first_question: Int64  # (n_bits + 1,)
    column: Int64  # (n_questions,)
    low: Int64  # (n_questions,) the first rank that is inside, and the last one
    high: Int64
    first_lane: Int64  # (n_tables + 1,)
    slot: Int64  # (n_lanes,) output · n_players + player
    is_scanned: npt.NDArray[np.bool_]
    first_number: Int64  # (n_tables + 1,)
    number: Float64
    moments: Float64  # M(k, l) at [l + 1][k + 1]
    leaf_exponents: Int64  # (n_outputs,) powers of two that leaves were divided by before
    spread: Float64  # (n_outputs,) how far predictions are from their mean, in the mean, divided likewise

    @classmethod
    def of(cls, processor: BackgroundEngine) -> Tables:
        program, lists, n_players = processor.program, processor.table_lists(), processor.n_players
        ensemble, exponents = program.ensemble, program.exponents
        conditions = Conditions.of(ensemble)
        column, last = conditions.of_splits(
            ensemble, *(lists[name] for name in ("feature", "missing_left", "category_set", "threshold"))
        )
        return cls(
            conditions,
            n_players,
            ensemble.n_outputs,
            lists["first_bit"],
            *_questions(lists["condition"], lists["first_condition"], column, last),
            lists["first_lane"],
            lists["output"].astype(np.int64) * n_players + lists["player"],
            lists["is_scanned"].astype(np.bool_),
            lists["first_number"],
            lists["number"],
            lists["moments"].reshape(-1, max(1, lists["n_moments"])),
            exponents,
            np.ldexp(
                processor.background.mean(np.abs(processor.margins - processor.base_values())), -exponents
            ),
        )

    @cached_property
    def is_too_deep(self) -> bool:
        """Are there leaves in no table with more players than a mask has bits?"""
        return bool((np.diff(self.first_bit)[self.is_scanned] > MAX_PLAYERS).any())

    @cached_property
    def least_row_bytes(self) -> int:
        """Of shared memory, which the table with the most players, outputs and columns takes for a row."""
        n_lanes, n_questions = (np.diff(first) for first in (self.first_lane, self._first_of_questions))
        return row_bytes(int(n_lanes.max(initial=0)), int(n_questions.max(initial=0)), 8)

    @cached_property
    def _bounds(self) -> Float64:
        """(n_outputs,) the sum over tables of the largest number that each may add to a player."""
        if not len(self.is_scanned):
            return np.zeros(self.n_outputs)
        largest = np.maximum.reduceat(np.abs(self.number), self.first_number[:-1])
        largest *= np.where(self.is_scanned, np.abs(self.moments).max(), 1.0)
        table = np.repeat(np.arange(len(largest)), np.diff(self.first_lane))
        pairs = np.unique(np.stack([table, self.slot // self.n_players]), axis=1)
        return np.asarray(
            np.bincount(pairs[1], largest[pairs[0]], minlength=self.n_outputs), dtype=np.float64
        )

    @property
    def is_wild(self) -> bool:
        """Are there leaves so huge beside what is predicted that one limb has no digits for the others?"""
        return bool((self.spread * _WILD < self._bounds).any())

    @cached_property
    def _number_exponents(self) -> Int64:
        return np.frexp(self._bounds)[1].astype(np.int64)

    @property
    def exponents(self) -> Int64:
        """(n_outputs,) totals are values divided by two to these."""
        return self._number_exponents + self.leaf_exponents - _TOTAL_BITS

    def launches(self, dtype: np.dtype[Any]) -> Iterator[TableLaunch]:
        """Of tables in this type, and of leaves in float64."""
        tables = np.flatnonzero(~self.is_scanned)
        if tables.size:
            yield self._launch(tables, dtype, 0)
        leaves = np.flatnonzero(self.is_scanned)
        n_players = np.diff(self.first_bit)[leaves]
        for least, most in zip((0, *_PLAYERS), _PLAYERS, strict=False):
            some = leaves[(least < n_players) & (n_players <= most)]
            if some.size:
                yield self._launch(some, np.dtype(np.float64), most)

    # -- one launch ------------------------------------------------------------------------------------------

    def _launch(self, tables: Int64, dtype: np.dtype[Any], n_players: int) -> TableLaunch:
        item = dtype.itemsize
        shift = (_TOTAL_BITS - self._number_exponents).astype(np.int32)
        groups: list[tuple[int, int, int, int]] = []
        streams: list[npt.NDArray[np.uint32]] = []
        columns: list[Int64] = []
        gains: list[Int64] = []
        chunks, firsts = [np.zeros(1, dtype=np.int64)], [np.zeros(1, dtype=np.int64)]
        group_chunks, most_row_bytes = [0], 0
        numbers = _Numbers(self, tables, shift, dtype, is_leaves=n_players > 0)
        for some in self._groups(tables, item):
            own_columns = np.unique(self.column[_members(self._first_of_questions, some)[0]])
            own_slots = np.unique(self.slot[_members(self.first_lane, some)[0]])
            groups.append((len(own_slots), sum(map(len, columns)), len(own_columns), 0))
            columns.append(own_columns)
            own_bytes = row_bytes(len(own_slots), len(own_columns), item)
            most_row_bytes = max(most_row_bytes, own_bytes)
            stream, begins = self._stream(some, own_columns, own_slots, item, numbers, n_players > 0)
            ends = np.append(begins[_CHUNK::_CHUNK], len(stream))
            streams.append(stream)
            chunks.append(chunks[-1][-1] + ends)
            group_chunks.append(group_chunks[-1] + len(ends))
            first, gain = self._gains(some, own_slots, item)
            firsts.append(firsts[-1][-1] + first[1:])
            gains.append(gain)
        return TableLaunch(
            np.concatenate(streams),
            np.concatenate(chunks),
            np.array(groups, dtype=np.int32),
            np.array(group_chunks, dtype=np.int64),
            np.concatenate(columns).astype(np.int32),
            np.concatenate(firsts),
            np.concatenate(gains).astype(np.int32),
            numbers.numbers,
            most_row_bytes,
            len(tables),
            n_players,
        )

    @cached_property
    def _first_of_questions(self) -> Int64:
        """(n_tables + 1,) the first question of each table."""
        return self.first_question[self.first_bit]

    @cached_property
    def _ends_bit(self) -> npt.NDArray[np.bool_]:
        """(n_questions,) is it the last one of its bit?"""
        ends = np.zeros(len(self.column), dtype=np.bool_)
        ends[self.first_question[1:] - 1] = True
        return ends

    def _groups(self, tables: Int64, item: int) -> Iterator[Int64]:
        """Tables one after another, as long as their players and columns have room beside each other."""
        columns, slots = set[int](), set[int]()
        all_slots = np.unique(self.slot[_members(self.first_lane, tables)[0]])
        all_columns = np.unique(self.column[_members(self._first_of_questions, tables)[0]])
        if row_bytes(len(all_slots), len(all_columns), item) <= _ROW_BYTES:
            yield tables
            return
        begin = 0
        for place, table in enumerate(tables.tolist()):
            questions = slice(self._first_of_questions[table], self._first_of_questions[table + 1])
            lanes = slice(self.first_lane[table], self.first_lane[table + 1])
            more_columns = columns.union(self.column[questions].tolist())
            more_slots = slots.union(self.slot[lanes].tolist())
            if place > begin and row_bytes(len(more_slots), len(more_columns), item) > _ROW_BYTES:
                yield tables[begin:place]
                begin = place
                more_columns, more_slots = (
                    set(self.column[questions].tolist()),
                    set(self.slot[lanes].tolist()),
                )
            columns, slots = more_columns, more_slots
        yield tables[begin:]

    def _stream(
        self,
        tables: Int64,
        columns: Int64,
        slots: Int64,
        item: int,
        numbers: _Numbers,
        is_leaves: bool,
    ) -> tuple[npt.NDArray[np.uint32], Int64]:
        """Records of tables that share columns and slots, and where each begins."""
        question, of_question = _members(self._first_of_questions, tables)
        lane, of_lane = _members(self.first_lane, tables)
        n_questions = np.diff(self._first_of_questions)[tables]
        n_lanes, n_bits = np.diff(self.first_lane)[tables], np.diff(self.first_bit)[tables]
        n_vectors, n_lane_vectors = -(-n_questions // 4), -(-n_lanes // 4)
        begins = np.concatenate([[0], np.cumsum(1 + n_vectors + n_lane_vectors)])
        stream = np.full((begins[-1], 4), _ALWAYS, dtype=np.uint32)
        begins, flat = begins[:-1], stream.reshape(-1)
        first = numbers.first[tables]
        stream[begins, 0] = n_vectors
        if is_leaves:
            stream[begins, 1], stream[begins, 2], stream[begins, 3] = n_bits, n_lanes // n_bits, first
        else:
            vector = first // 4
            stream[begins, 1], stream[begins, 2], stream[begins, 3] = (
                n_lane_vectors,
                vector & 0xFFFFFFFF,
                vector >> 32,
            )
        # Where a table's first question and first lane are, as words.
        at = 4 * (begins + 1)
        place = question - self._first_of_questions[tables][of_question]
        flat[at[of_question] + place] = (
            np.searchsorted(columns, self.column[question])
            | self._ends_bit[question].astype(np.int64) << 15
            | self.low[question] << 16
            | (self.high - self.low)[question] << 24
        )
        at += 4 * n_vectors
        for rest in range(4):  # lanes up to a whole vector are nobody's
            padded = np.minimum(4 * n_lane_vectors - 1, n_lanes + rest)
            flat[at + padded] = len(slots) * item
        place = lane - self.first_lane[tables][of_lane]
        flat[at[of_lane] + place] = np.searchsorted(slots, self.slot[lane]) * item
        return stream, begins

    def _gains(self, tables: Int64, slots: Int64, item: int) -> tuple[Int64, Int64]:
        """Players that get something in each chunk of tables: whole numbers of those that are added at once,
        the rest being nobody's, who gets nothing."""
        lane, of_lane = _members(self.first_lane, tables)
        n_chunks = -(-len(tables) // _CHUNK)
        pairs = np.unique(of_lane // _CHUNK * len(slots) + np.searchsorted(slots, self.slot[lane]))
        chunk, own = pairs // len(slots), pairs % len(slots)
        n_own = np.bincount(chunk, minlength=n_chunks)
        firsts = np.concatenate([[0], np.cumsum(-(-n_own // GAINS_AT_ONCE) * GAINS_AT_ONCE)])
        gains = np.empty((firsts[-1], 2), dtype=np.int64)
        gains[:] = len(slots) * item, slots[0]
        place = firsts[chunk] + np.arange(len(own)) - (np.cumsum(n_own) - n_own)[chunk]
        gains[place] = np.stack([own * item, slots[own]], axis=1)
        return firsts, gains


class _Numbers:
    """The numbers of some tables one after another, multiplied by a power of two for each output."""

    def __init__(
        self,
        tables: Tables,
        some: Int64,
        shift: npt.NDArray[np.int32],
        dtype: np.dtype[Any],
        *,
        is_leaves: bool,
    ) -> None:
        sizes = np.diff(tables.first_number)
        self.first = np.zeros(len(sizes), dtype=np.int64)  # by table
        self.first[some] = np.cumsum(sizes[some]) - sizes[some]
        chosen = np.zeros(len(sizes), dtype=np.bool_)
        chosen[some] = True
        numbers = tables.number[np.repeat(chosen, sizes)]
        output = tables.slot // tables.n_players
        least, most = (of.reduceat(output, tables.first_lane[:-1])[some] for of in (np.minimum, np.maximum))
        is_mixed = least != most
        numbers *= np.repeat(np.where(is_mixed, 1.0, np.ldexp(1.0, shift[least])), sizes[some])
        for table in some[is_mixed].tolist():
            n_lanes = int(tables.first_lane[table + 1] - tables.first_lane[table])
            width = int(sizes[table]) if is_leaves else -(-n_lanes // _LANES) * _LANES
            factor = np.ones(width)  # of one entry, or of the outputs of a leaf
            lanes = tables.first_lane[table] + np.arange(min(width, n_lanes))
            factor[: len(lanes)] = np.ldexp(1.0, shift[output[lanes]])
            here = slice(self.first[table], self.first[table] + sizes[table])
            numbers[here] = (numbers[here].reshape(-1, width) * factor).reshape(-1)
        self.numbers: npt.NDArray[np.floating] = numbers.astype(dtype)


def _members(first: Int64, tables: Int64) -> tuple[Int64, Int64]:
    """The numbers of all that belongs to some tables, and the place of each one's table among them."""
    n = np.diff(first)[tables]
    of = np.repeat(np.arange(len(tables)), n)
    return first[tables][of] + np.arange(len(of)) - (np.cumsum(n) - n)[of], of


def _questions(
    condition: npt.NDArray[np.int32], first_condition: Int64, split_column: Int64, split_last: Int64
) -> tuple[Int64, Int64, Int64, Int64]:
    """The first question of each bit, and (column, first rank, last rank) of each: what a bit asks of one
    column is one interval, or two that nobody is in if these do not overlap."""
    n_bits = len(first_condition) - 1
    bit = np.repeat(np.arange(n_bits), np.diff(first_condition))
    split, is_right = condition >> 1, (condition & 1).astype(np.bool_)
    column, last = split_column[split], split_last[split]
    low, high = np.where(is_right, last + 1, 0), np.where(is_right, 255, last)
    order = np.lexsort((column, bit))
    bit, column, low, high = (of[order] for of in (bit, column, low, high))
    is_new = np.append(True, (np.diff(bit) != 0) | (np.diff(column) != 0))[: len(bit)]
    begin = np.flatnonzero(is_new)
    if begin.size:
        bit, column = bit[begin], column[begin]
        low, high = np.maximum.reduceat(low, begin), np.minimum.reduceat(high, begin)
        twice = np.where(low > high, 2, 1)
        is_second = np.append(False, np.diff(np.repeat(np.arange(len(bit)), twice)) == 0)
        is_empty = np.repeat(low > high, twice)
        bit, column, low, high = (np.repeat(of, twice) for of in (bit, column, low, high))
        low, high = np.where(is_empty & is_second, 0, low), np.where(is_empty & ~is_second, 255, high)
    first = np.concatenate([[0], np.cumsum(np.bincount(bit, minlength=n_bits))]).astype(np.int64)
    return first, column, low, high
