"""Protocol Buffers bytes → messages whose fields are read by number; arrays of numbers are NumPy arrays.

The wire format of ONNX files. Only what lies inside the bytes is ever read: damage gives a FileFormatError,
and nothing is allocated that the bytes do not hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError

__all__ = ["Message"]

#: Wire types: a number of up to ten bytes, 64 bits, bytes with their length before them, 32 bits.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Message:
    """A message, or nothing at all; a field that is absent is empty or zero, as the format has it."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self._fields: dict[int, list[tuple[int, Any]]] = {}
        at = 0
        while at < len(self._data):
            key, at = self._varint(at)
            kind, found = key & 7, self._fields.setdefault(key >> 3, [])
            value: Any
            if kind == _VARINT:
                value, at = self._varint(at)
            elif kind in (_BYTES, _FIXED32, _FIXED64):
                size = {_FIXED32: 4, _FIXED64: 8}.get(kind)
                if size is None:
                    size, at = self._varint(at)
                if size > len(self._data) - at:
                    raise _damaged("a field ends after the end")
                value, at = self._data[at : at + size], at + size
            else:
                raise _damaged(f"there is no wire type {kind}")
            found.append((kind, value))
            if len(found) > 1 and kind in (_VARINT, _FIXED32):
                at = self._run(at, key, found)

    def message(self, field: int) -> Message:
        return Message(self._bytes(field)[-1] if self._bytes(field) else b"")

    def messages(self, field: int) -> list[Message]:
        return [Message(data) for data in self._bytes(field)]

    def texts(self, field: int) -> list[str]:
        try:
            return [bytes(data).decode() for data in self._bytes(field)]
        except UnicodeDecodeError as error:
            raise _damaged(f"a name is not text ({error})") from error

    def text(self, field: int) -> str:
        return (self.texts(field) or [""])[-1]

    def number(self, field: int) -> int:
        """A whole number of 64 bits, with its sign."""
        return int((self.integers(field)[-1:] or [0])[0])

    def integers(self, field: int) -> list[int]:
        """Whole numbers of 64 bits, one after another or packed."""
        found: list[int] = []
        for kind, value in self._fields.get(field, ()):
            if kind == _VARINT:
                found.append(value)
            elif kind == _BYTES:
                numbers, ends = _varints(value)
                if len(value) and (not len(ends) or ends[-1] != len(value)):
                    raise _damaged("a number does not end")
                found += numbers.tolist()
        return [number - (1 << 64) if number >> 63 else number for number in found]

    def floats(self, field: int, dtype: str = "<f4") -> npt.NDArray[Any]:
        """Floating-point numbers, one after another or packed."""
        data = b"".join(bytes(value) for kind, value in self._fields.get(field, ()) if kind != _VARINT)
        if len(data) % np.dtype(dtype).itemsize:
            raise _damaged("a list of numbers ends within a number")
        return np.frombuffer(data, dtype)

    def _bytes(self, field: int) -> list[memoryview]:
        return [value for kind, value in self._fields.get(field, ()) if kind == _BYTES]

    def _run(self, at: int, key: int, found: list[tuple[int, Any]]) -> int:
        """Numbers of a list that are written one by one, all at once; returns where the next field begins."""
        if key >= 128:
            return at
        if key & 7 == _FIXED32:
            rest = np.frombuffer(self._data[at:], np.uint8)
            records = rest[: len(rest) // 5 * 5].reshape(-1, 5)
            n_found = int(np.argmin(np.append(records[:, 0] == key, False)))
            found.append((_BYTES, memoryview(np.ascontiguousarray(records[:n_found, 1:]).tobytes())))
            return at + 5 * n_found
        numbers, ends = _varints(self._data[at:])
        pairs = numbers[: len(numbers) // 2 * 2].reshape(-1, 2)
        n_found = int(np.argmin(np.append(pairs[:, 0] == key, False)))
        found += [(_VARINT, number) for number in pairs[:n_found, 1].tolist()]
        return at + (int(ends[2 * n_found - 1]) if n_found else 0)

    def _varint(self, at: int) -> tuple[int, int]:
        numbers, ends = _varints(self._data[at : at + 10])
        if not len(ends):
            raise _damaged("a number does not end")
        return int(numbers[0]), at + int(ends[0])


def _varints(data: memoryview) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """All numbers that end in ``data``, seven bits in a byte and the lowest first, and where each ends."""
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets < 128) + 1
    if not len(ends):
        return np.zeros(0, np.uint64), ends
    starts = np.append(0, ends[:-1])
    place = np.arange(ends[-1]) - np.repeat(starts, ends - starts)
    bits = (octets[: ends[-1]] & 127).astype(np.uint64) << (7 * np.minimum(place, 9)).astype(np.uint64)
    return np.add.reduceat(bits, starts), ends


def _damaged(what: str) -> FileFormatError:
    return FileFormatError(f"The model file is damaged or cut short: {what}.")
