"""Rows whose categories are hashes → rows as the trees read them: codes, and the numbers of lookups behind.

The hash of a category is a whole number of 32 bits with a sign; NaN stands for a category that is missing. A
table is asked once for every key that rows could have, where these are fewer than the rows: a model may have
hundreds of tables, and rows have few different categories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ..model.lookups import Above, Equal, Lookup
from ..model.row_format import RowFormat

__all__ = ["hashes_in", "looked_up", "with_lookups"]

Array = npt.NDArray[Any]
Hashes = Mapping[int, npt.NDArray[np.floating]]

#: CatBoost's, by which a key takes in one more part.
_MULTIPLIER = np.uint64(0x4906BA494954CB65)

#: Rows of so many bytes fit into the fastest memory: they are turned from columns into rows together.
_BLOCK_ROWS = 128

#: Half of a hash's bits are a float32, and no hash of 32 bits is.
_HALF = 65536.0

_NO_OR_YES = np.array([0, 1], dtype=np.uint64)
_BOTH_KNOWN = np.array([True, True])


def with_lookups(numbers: Array, hashes: Hashes, row_format: RowFormat) -> Array:
    """(n_rows, n_columns) of the model's dtype, from (n_rows, n_features) and the hashes of some of these."""
    n_rows, n_features = len(numbers), row_format.n_features
    columns = np.empty((row_format.n_columns, n_rows), dtype=row_format.numpy_dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # beyond float32 is infinity, as in the libraries
        columns[:n_features] = numbers.T
    parts = _Parts(columns, hashes)
    at = n_features
    for lookup in row_format.lookups:
        parts.look_up(lookup, columns[at : at + lookup.n_numbers])
        at += lookup.n_numbers
    for feature, known in row_format.hashes.items():  # last, as a hash is no float32
        columns[feature] = _codes(hashes[feature], known)
        if row_format.keeps_hashes:
            columns[at], columns[at + 1] = np.divmod(hashes[feature], _HALF)
            at += 2
    block = np.empty((n_rows, row_format.n_columns), dtype=row_format.numpy_dtype)
    for start in range(0, n_rows, _BLOCK_ROWS):
        block[start : start + _BLOCK_ROWS] = columns[:, start : start + _BLOCK_ROWS].T
    return block


def hashes_in(rows: Array, row_format: RowFormat) -> dict[int, npt.NDArray[np.float64]]:
    """The hashes that rows have kept, by feature."""
    at = row_format.n_columns - 2 * len(row_format.hashes)
    halves = rows[:, at:].astype(np.float64)
    return {
        feature: halves[:, 2 * i] * _HALF + halves[:, 2 * i + 1]
        for i, feature in enumerate(row_format.hashes)
    }


def looked_up(lookup: Lookup, numbers: Mapping[int, Array], hashes: Hashes) -> npt.NDArray[np.float32]:
    """(n_numbers, n_rows) what a table has for rows, of which the columns that it reads are given."""
    n_rows = len(next(iter(numbers.values())))
    out = np.empty((lookup.n_numbers, n_rows), dtype=np.float32)
    _Parts(numbers, hashes).look_up(lookup, out)
    return out


def _codes(hashes: Array, known: tuple[int, ...]) -> Array:
    """The place of each hash among those known; NaN if it is not."""
    if not known:
        return np.full(len(hashes), np.nan)
    order = np.argsort(known)
    sorted_hashes = np.array(known, dtype=np.float64)[order]
    place = np.minimum(np.searchsorted(sorted_hashes, hashes), len(known) - 1)
    return np.where(sorted_hashes[place] == hashes, order[place], np.nan)


@dataclass(frozen=True)
class _Part:
    """What one category, or one answer, adds to a key."""

    values: npt.NDArray[np.uint64]  # those that occur
    is_known: npt.NDArray[np.bool_]  # a row without a category has no key
    of_row: npt.NDArray[np.intp]  # (n_rows,) which of them


@dataclass
class _Parts:
    """The parts of the keys of some rows, each made when it is first asked for."""

    columns: Array | Mapping[int, Array]  # (n_columns, n_rows)
    hashes: Hashes
    _made: dict[Any, _Part] = field(default_factory=dict)

    def look_up(self, lookup: Lookup, out: Array) -> None:
        """Write (n_numbers, n_rows) what the table has for each row."""
        asked: tuple[int | Above | Equal, ...] = (*lookup.categories, *lookup.above, *lookup.equal)
        parts = [self._part(one) for one in asked]
        numbers = lookup.numbers.astype(out.dtype, copy=False)  # which is wider beside models of float64
        if prod(len(part.values) for part in parts) <= max(out.shape[1], 1):
            keys, known = _keys([(part.values, part.is_known) for part in parts], is_grid=True)
            of_row = parts[0].of_row
            for part in parts[1:]:
                of_row = of_row * len(part.values) + part.of_row
            table = np.ascontiguousarray(numbers[_places(lookup, keys, known)].T)
            np.take(table, of_row, axis=1, out=out, mode="clip")  # "raise" would make a copy first
        else:
            by_row = [(part.values[part.of_row], part.is_known[part.of_row]) for part in parts]
            out[...] = numbers[_places(lookup, *_keys(by_row, is_grid=False))].T

    def _part(self, asked: int | Above | Equal) -> _Part:
        if asked not in self._made:
            self._made[asked] = self._category(asked) if isinstance(asked, int) else self._answer(asked)
        return self._made[asked]

    def _category(self, column: int) -> _Part:
        found, of_row = np.unique(self.hashes[column], return_inverse=True)
        is_known = ~np.isnan(found)
        values = np.where(is_known, found, 0).astype(np.int64).view(np.uint64)
        return _Part(values, is_known, of_row.reshape(-1))

    def _answer(self, asked: Above | Equal) -> _Part:
        if isinstance(asked, Equal):
            is_so = self.hashes[asked.column] == asked.hash
        else:
            x = self.columns[asked.column]
            is_so = np.where(np.isnan(x), asked.if_missing, x > asked.border)
        return _Part(_NO_OR_YES, _BOTH_KNOWN, is_so.astype(np.intp))


def _keys(parts: Sequence[tuple[Array, Array]], *, is_grid: bool) -> tuple[Array, Array]:
    """Keys, and which of them there are, of the parts' values one by one, or of each with each."""
    key, has_key = np.zeros(1, dtype=np.uint64), np.ones(1, dtype=np.bool_)
    for values, is_known in parts:
        if is_grid:
            key, has_key = key[:, np.newaxis], has_key[:, np.newaxis]
        key = (_MULTIPLIER * (key + _MULTIPLIER * values)).reshape(-1)
        has_key = (has_key & is_known).reshape(-1)
    return key, has_key


def _places(lookup: Lookup, key: Array, has_key: Array) -> Array:
    """The row of the table for each key; the last for those that are not there."""
    n_keys = len(lookup.keys)
    place = np.searchsorted(lookup.keys, key)
    is_there = has_key & (place < n_keys)
    is_there[is_there] = lookup.keys[place[is_there]] == key[is_there]
    return np.where(is_there, place, n_keys)
