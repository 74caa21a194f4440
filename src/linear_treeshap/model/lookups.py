"""Lookup: numbers that a model keeps for what some columns of a row hold together.

A row's key is made of the hashes of categories and of answers to questions about other columns; a table has
numbers for each key that was seen in training, and for all others. Each of these numbers is one more column
for the trees to read, a function of the columns that make the key and of nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ModelError

__all__ = ["Above", "Equal", "Lookup"]


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
