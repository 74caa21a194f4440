"""Lookup: numbers that a model keeps for what some columns of a row hold together.

A row's key is made of the hashes of categories and of answers to questions about other columns; a table has
numbers for each key that was seen in training, and for all others. Each of these numbers is one more column
for the trees to read, a function of the columns that make the key and of nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import ModelError

__all__ = ["Above", "Equal", "Lookup", "key_tables"]


@dataclass(frozen=True)
class Above:
    """Is the number in a column above a border? ``if_missing`` answers for NaN."""

    column: int
    border: float
    if_missing: bool


@dataclass(frozen=True)
class Equal:
    """Is the category in a column the one of this hash?"""

    column: int
    hash: int


#: What makes a key: the category in a column, or an answer.
_Part = int | Above | Equal


@dataclass(frozen=True, eq=False)
class Lookup:
    """A table of numbers, and what makes the key of a row: categories, then answers, in this order."""

    categories: tuple[int, ...]  # columns
    above: tuple[Above, ...]
    equal: tuple[Equal, ...]
    keys: npt.NDArray[np.uint64]  # (n_keys,) sorted, distinct
    numbers: npt.NDArray[np.float32]  # (n_keys + 1, n_numbers) the last row for keys that are not there

    def __post_init__(self) -> None:
        if self.numbers.ndim != 2 or self.numbers.shape[0] != len(self.keys) + 1:
            raise ModelError(
                f"A lookup of {len(self.keys)} keys must have numbers for each of them and for all others, "
                f"got an array of shape {self.numbers.shape}."
            )
        if (self.keys[1:] <= self.keys[:-1]).any():
            raise ModelError("The keys of a lookup must be sorted and distinct.")
        if not self.columns:
            raise ModelError("A lookup must have a column.")
        for array in (self.keys, self.numbers):
            array.setflags(write=False)

    @property
    def n_numbers(self) -> int:
        return int(self.numbers.shape[1])

    @property
    def parts(self) -> tuple[_Part, ...]:
        """What makes a key, in the order in which it is made."""
        return (*self.categories, *self.above, *self.equal)

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """The columns that the key is made of, in increasing order."""
        above, equal = (asked.column for asked in self.above), (asked.column for asked in self.equal)
        return tuple(sorted({*self.categories, *above, *equal}))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Lookup):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    __hash__ = None  # type: ignore[assignment]  # arrays have none


def _same(one: Any, other: Any) -> bool:
    return (
        np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
        if isinstance(one, np.ndarray)
        else one == other
    )


def key_tables(lookups: Sequence[Lookup], hashes: Mapping[int, Sequence[int]]) -> _core.KeyTables:
    """The lookups as C++ takes them, with the hashes that columns have codes for."""
    number_of: dict[_Part, int] = {}  # hundreds of lookups share what they ask
    parts = [[number_of.setdefault(part, len(number_of)) for part in one.parts] for one in lookups]
    asked = [_described(part) for part in number_of]
    return _core.KeyTables(
        kind=np.array([kind for kind, *_ in asked], dtype=np.uint8),
        column=np.array([column for _, column, *_ in asked], dtype=np.int32),
        operand=np.array([operand for *_, operand, _ in asked], dtype=np.float64),
        if_missing=np.array([if_missing for *_, if_missing in asked], dtype=np.bool_),
        table_parts=np.array([part for some in parts for part in some], dtype=np.int32),
        part_offsets=_offsets(map(len, parts)),
        keys=np.concatenate([np.zeros(0, dtype=np.uint64), *(one.keys for one in lookups)]),
        key_offsets=_offsets(len(one.keys) for one in lookups),
        numbers=np.concatenate([np.zeros(0, dtype=np.float32), *(one.numbers.ravel() for one in lookups)]),
        number_offsets=_offsets(one.numbers.size for one in lookups),
        hashed=np.array(list(hashes), dtype=np.int32),
        known=np.array([label for known in hashes.values() for label in known], dtype=np.float64),
        known_offsets=_offsets(map(len, hashes.values())),
    )


def _described(part: _Part) -> tuple[int, int, float, bool]:
    """Kind, column, border or hash, and the answer for NaN."""
    if isinstance(part, Above):
        return 1, part.column, part.border, part.if_missing
    return (2, part.column, float(part.hash), False) if isinstance(part, Equal) else (0, part, 0.0, False)


def _offsets(sizes: Iterable[int]) -> npt.NDArray[np.int64]:
    return np.array([0, *accumulate(sizes)], dtype=np.int64)
