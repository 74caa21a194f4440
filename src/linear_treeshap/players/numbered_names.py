"""Names for columns that have none: "Feature 0", "Feature 1" and so on, each made when it is asked for.

A model may have millions of columns on the word of a small file, and hardly anybody looks at their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

__all__ = ["NumberedNames"]


class NumberedNames(Sequence[str]):
    """As good as the tuple of these names, and equal to it.

    Examples
    --------
    >>> names = NumberedNames(4_000_000)
    >>> names[-1], len(names), names[:2]
    ('Feature 3999999', 4000000, ('Feature 0', 'Feature 1'))
    """

    def __init__(self, n_names: int) -> None:
        self._numbers = range(n_names)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, which: int) -> str: ...
    @overload
    def __getitem__(self, which: slice) -> tuple[str, ...]: ...
    def __getitem__(self, which: int | slice) -> str | tuple[str, ...]:
        if isinstance(which, slice):
            return tuple(f"Feature {number}" for number in self._numbers[which])
        return f"Feature {self._numbers[which]}"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NumberedNames):
            return len(self) == len(other)
        return isinstance(other, tuple) and len(self) == len(other) and self[:] == other

    def __hash__(self) -> int:
        return hash(self[:])

    def __repr__(self) -> str:
        return repr(self[:])
