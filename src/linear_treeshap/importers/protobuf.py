"""Protocol Buffers bytes → messages whose fields are read by number; arrays of numbers are NumPy arrays.

The wire format of ONNX and YDF files. A message is read by itself, or many of one kind at once (YDF has one
for each node), which costs no Python object for any of them. Only what lies inside the bytes is ever read:
damage gives a FileFormatError, and nothing is allocated that the bytes do not hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError

__all__ = ["Message", "Messages", "packed_integers"]

#: Wire types: a number of up to ten bytes, 64 bits, bytes with their length before them, 32 bits.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

#: Of many messages each field takes room in all of them; those that anybody asks for have smaller numbers.
_MAX_FIELD = 15
#: Bytes in which the next number of a list is, if there is one.
_LOOK_AHEAD = 64


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

    def number(self, field: int, absent: int = 0) -> int:
        """A whole number of 64 bits, with its sign."""
        return int((self.integers(field)[-1:] or [absent])[0])

    def integers(self, field: int) -> list[int]:
        """Whole numbers of 64 bits, one after another or packed."""
        found: list[int] = []
        for kind, value in self._fields.get(field, ()):
            if kind == _VARINT:
                found.append(value)
            elif kind == _BYTES:
                found += packed_integers(value)
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
        """Numbers of a list that are written one by one, many at once; returns where the next field begins.

        It looks ahead twice as far each time, and no further where the list ends: there may be many lists.
        """
        width, goes_on = _LOOK_AHEAD, key < 128
        while goes_on:
            ahead, width = self._data[at : at + width], 2 * width
            n_bytes, goes_on = self._some(ahead, key, found)
            at += n_bytes
        return at

    def _some(self, ahead: memoryview, key: int, found: list[tuple[int, Any]]) -> tuple[int, bool]:
        """Those of them at the beginning of ``ahead``: how many bytes they take, and may there be more?"""
        if key & 7 == _FIXED32:
            octets = np.frombuffer(ahead, np.uint8)
            records = octets[: len(octets) // 5 * 5].reshape(-1, 5)
            n_found = int(np.argmin(np.append(records[:, 0] == key, False)))
            found.append((_BYTES, memoryview(np.ascontiguousarray(records[:n_found, 1:]).tobytes())))
            return 5 * n_found, 0 < n_found == len(records)
        numbers, ends = _varints(ahead)
        pairs = numbers[: len(numbers) // 2 * 2].reshape(-1, 2)
        n_found = int(np.argmin(np.append(pairs[:, 0] == key, False)))
        found += [(_VARINT, number) for number in pairs[:n_found, 1].tolist()]
        return int(ends[2 * n_found - 1]) if n_found else 0, 0 < n_found == len(pairs)

    def _varint(self, at: int) -> tuple[int, int]:
        numbers, ends = _varints(self._data[at : at + 10])
        if not len(ends):
            raise _damaged("a number does not end")
        return int(numbers[0]), at + int(ends[0])


class Messages:
    """Many messages of one kind, some of them empty; a field of all of them is an array.

    Where a message has a field more than once, the last counts, as the format has it.
    """

    def __init__(
        self, data: npt.NDArray[np.uint8], start: npt.NDArray[np.int64], end: npt.NDArray[np.int64]
    ) -> None:
        self._data, self._n = data, len(start)
        #: Field → the number in it, or where its bytes begin, and where they end; -1 and -1 if it is absent.
        self._fields: dict[int, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = {}
        at, which = start.copy(), np.flatnonzero(start < end)
        while len(which):
            key, here = self._varints(at[which])
            kind, field = key & 7, key >> 3
            value, size = here.copy(), np.select([kind == _FIXED32, kind == _FIXED64], [4, 8], 0)
            for with_number in (_VARINT, _BYTES):
                found = kind == with_number
                number, here[found] = self._varints(here[found])
                value[found], size[found] = (number, 0) if with_number == _VARINT else (here[found], number)
            if not np.isin(kind, (_VARINT, _FIXED64, _BYTES, _FIXED32)).all():
                raise _damaged("there is a field of no known wire type")
            if ((size < 0) | (size > end[which] - here)).any():
                raise _damaged("a field ends after the end")
            for number in np.unique(field[(field >= 0) & (field <= _MAX_FIELD)]).tolist():
                is_it = field == number
                values, ends = self._field(number, create=True)
                values[which[is_it]], ends[which[is_it]] = value[is_it], (here + size)[is_it]
            at[which] = here + size
            which = which[at[which] < end[which]]

    def has(self, field: int) -> npt.NDArray[np.bool_]:
        """Which messages have it?"""
        return np.asarray(self._field(field)[1] >= 0)

    def integers(self, field: int) -> npt.NDArray[np.int64]:
        """Whole numbers; 0 where there is none."""
        values, ends = self._field(field)
        return np.where(ends >= 0, values, 0)

    def floats(self, field: int, dtype: str) -> npt.NDArray[Any]:
        """Floating-point numbers of this type; 0 where there is none."""
        values, ends = self._field(field)
        there, width = np.flatnonzero(ends >= 0), np.dtype(dtype).itemsize
        if (ends[there] - values[there] != width).any():
            raise _damaged(f"a number of field {field} is not of {width} bytes")
        found = np.zeros(self._n, dtype)
        found[there] = self._data[values[there, None] + np.arange(width)].view(dtype)[:, 0]
        return found

    def inside(self, field: int) -> Messages:
        """The messages in a field, which are empty where there is none."""
        values, ends = self._field(field)
        return Messages(self._data, values, ends)

    def content(self, field: int, message: int) -> npt.NDArray[np.uint8]:
        """The bytes in a field of one message."""
        values, ends = self._field(field)
        return self._data[values[message] : ends[message]] if ends[message] >= 0 else self._data[:0]

    def _field(
        self, field: int, *, create: bool = False
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        if field in self._fields:
            return self._fields[field]
        absent = np.full(self._n, -1), np.full(self._n, -1)
        if create:
            self._fields[field] = absent
        return absent

    def _varints(self, at: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The numbers that begin at these places, and where they end."""
        value, end, going = np.zeros(len(at), np.int64), at.copy(), np.arange(len(at))
        for place in range(10):
            if not len(going):
                return value, end
            if end[going].max() >= len(self._data):
                break
            octet = self._data[end[going]].astype(np.int64)
            value[going] |= (octet & 127) << np.int64(7 * place)
            end[going] += 1
            going = going[octet >= 128]
        if len(going):
            raise _damaged("a number does not end")
        return value, end


def packed_integers(data: memoryview | npt.NDArray[np.uint8]) -> list[int]:
    """Whole numbers one after another, without their signs."""
    numbers, ends = _varints(data)
    if len(data) and (not len(ends) or ends[-1] != len(data)):
        raise _damaged("a number does not end")
    found: list[int] = numbers.tolist()
    return found


def _varints(
    data: memoryview | npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
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
