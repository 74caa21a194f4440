"""FlatBuffers bytes → tables whose fields are read by position; arrays are NumPy views.

The wire format of CatBoost's model files. Only what lies inside the bytes is ever read: damage
gives a FileFormatError, and nothing is allocated that the bytes do not hold.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError

__all__ = ["Table", "arrays", "texts"]


class Table:
    """A table of a FlatBuffers message; a field's ``slot`` is its position in the schema."""

    def __init__(self, data: bytes | memoryview, position: int) -> None:
        self._data = data
        self._position = position
        directory = position - self._number("<i", position)
        size = self._number("<H", directory)
        self._slots = self._view(directory + 4, np.dtype("<u2"), max(size // 2 - 2, 0))

    @classmethod
    def root(cls, data: bytes | memoryview) -> Table:
        """The table that a message begins with."""
        return cls(data, _number(data, "<I", 0))

    def number(self, slot: int, form: str, default: Any) -> Any:
        """A number, in struct's notation (``"<i"``, ``"<d"``)."""
        at = self._field(slot)
        return default if at is None else self._number(form, at)

    @property
    def n_bytes(self) -> int:
        """Of the whole message."""
        return len(self._data)

    def array(self, slot: int, dtype: Any) -> npt.NDArray[Any]:
        """A vector of numbers or of plain structs; empty if the field is absent."""
        at = self._field(slot)
        if at is None:
            return np.zeros(0, dtype)
        start = self._target(at)
        return self._view(start + 4, np.dtype(dtype), self._number("<I", start))

    def table(self, slot: int) -> Table:
        at = self._field(slot)
        if at is None:
            raise _damaged("a part is missing")
        return Table(self._data, self._target(at))

    def tables(self, slot: int) -> list[Table]:
        """A vector of tables; empty if the field is absent."""
        at = self._field(slot)
        if at is None:
            return []
        start = self._target(at)
        distances = self._view(start + 4, np.dtype("<u4"), self._number("<I", start)).tolist()
        return [Table(self._data, start + 4 + 4 * i + distance) for i, distance in enumerate(distances)]

    def _field(self, slot: int) -> int | None:
        distance = int(self._slots[slot]) if slot < len(self._slots) else 0
        return self._position + distance if distance else None

    def _target(self, at: int) -> int:
        return at + int(self._number("<I", at))

    def _number(self, form: str, at: int) -> Any:
        return _number(self._data, form, at)

    def _view(self, start: int, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
        if count == 0:
            return np.zeros(0, dtype)
        if not 0 <= start <= len(self._data) - count * dtype.itemsize:
            raise _damaged(f"{count} items do not fit into it")
        return np.frombuffer(self._data, dtype, count, start)


def arrays(tables: Sequence[Table], slot: int, dtype: Any) -> list[npt.NDArray[Any]]:
    """The same field of many tables. These may lie in the same place, and claim more than there is."""
    found = [table.array(slot, dtype) for table in tables]
    if found and sum(array.nbytes for array in found) > tables[0].n_bytes:
        raise _damaged("parts of it lie on others")
    return found


def texts(tables: Sequence[Table], slot: int) -> list[str]:
    """The same, of texts."""
    try:
        return [array.tobytes().decode() for array in arrays(tables, slot, np.dtype("u1"))]
    except UnicodeDecodeError as error:
        raise _damaged(f"a name is not text ({error})") from error


def _number(data: bytes | memoryview, form: str, at: int) -> Any:
    if not 0 <= at <= len(data) - struct.calcsize(form):
        raise _damaged("it points beyond its end")
    return struct.unpack_from(form, data, at)[0]


def _damaged(what: str) -> FileFormatError:
    return FileFormatError(f"The model file is damaged or cut short: {what}.")
