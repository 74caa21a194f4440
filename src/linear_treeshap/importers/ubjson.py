"""UBJSON bytes → dicts, lists, strings, numbers, and NumPy views for arrays of one number type.

XGBoost's binary model format. An array of numbers is a view of the bytes, so a model costs no
Python object per node. Nothing is allocated that the bytes themselves do not hold.
"""

from __future__ import annotations

import struct
from collections.abc import Container
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError

__all__ = ["parse"]

# Marker → NumPy's name for the number and struct's letter for it. All numbers are big-endian.
_FORMATS = {"i": ("i1", "b"), "U": ("u1", "B"), "I": ("i2", "h"), "l": ("i4", "i"), "L": ("i8", "q"),
            "d": ("f4", "f"), "D": ("f8", "d")}  # fmt: skip
_DTYPES = {ord(marker): np.dtype(f">{name}") for marker, (name, _) in _FORMATS.items()}
_STRUCTS = {ord(marker): struct.Struct(f">{letter}") for marker, (_, letter) in _FORMATS.items()}
_EMPTY = {dtype: np.zeros(0, dtype) for dtype in _DTYPES.values()}
_CONSTANTS = {ord("Z"): None, ord("T"): True, ord("F"): False}
_OBJECT_END = ord("}")


def parse(data: bytes | bytearray, skip: Container[str] = ()) -> Any:
    """The value that ``data`` holds, less the arrays of numbers under a name in ``skip``.

    FileFormatError if the data is cut short or not UBJSON.
    """
    reader = _Reader(data, skip)
    try:
        value = reader.value()
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise reader.damaged("the data ends too early or is damaged") from error
    except RecursionError as error:
        raise reader.damaged("values are nested too deeply") from error
    if reader.at != len(data):
        raise reader.damaged("the value is complete, but more data follows")
    return value


class _Field(NamedTuple):
    """What stands before a value in an object: its name and, for numbers in an array, their type."""

    header: bytes
    name: str
    dtype: np.dtype[Any] | None
    wanted: bool


class _Reader:
    def __init__(self, data: bytes | bytearray, skip: Container[str]) -> None:
        self.data = data
        self.skip = skip
        self.at = 0
        self.size = len(data)
        # Trees look alike: the field that followed this one last time most likely follows it again.
        self.following: dict[bytes, _Field] = {}
        self.previous = b""

    def damaged(self, what: str) -> FileFormatError:
        return FileFormatError(f"Not a complete UBJSON file: {what} (at byte {self.at:,} of {self.size:,}).")

    def marker(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def value(self) -> Any:
        marker = self.marker()
        if marker in _STRUCTS:
            return self.number(marker)
        if marker == ord("S"):
            return str(self.text(), "utf-8")
        if marker == ord("["):
            return self.array()
        if marker == ord("{"):
            return self.object()
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        raise self.damaged(f"unknown marker {chr(marker)!r}")

    def number(self, marker: int) -> Any:
        form = _STRUCTS[marker]
        (number,) = form.unpack_from(self.data, self.at)
        self.at += form.size
        return number

    def count(self, item_size: int) -> int:
        """A count of items that must still fit into the data."""
        marker = self.marker()
        count = self.number(marker) if marker in _STRUCTS else -1
        if not 0 <= count * item_size <= self.size - self.at or count != int(count):
            raise self.damaged(f"a count of {count} does not fit into the data")
        return int(count)

    def text(self) -> bytes:
        size = self.count(1)
        self.at += size
        return bytes(self.data[self.at - size : self.at])

    def array(self) -> Any:
        opening = self.data[self.at]
        if opening == ord("$"):
            return self.numbers(self.number_type(self.at))
        if opening == ord("#"):
            self.at += 1
            return [self.value() for _ in range(self.count(1))]
        items = []
        while self.data[self.at] != ord("]"):
            items.append(self.value())
        self.at += 1
        return items

    def number_type(self, start: int) -> np.dtype[Any]:
        """The type in an array's opening at ``start``, as in ``[$d#``; the reader moves behind it."""
        dtype = _DTYPES.get(self.data[start + 1])
        if dtype is None or self.data[start + 2] != ord("#"):
            raise self.damaged("expected an array of numbers")
        self.at = start + 3
        return dtype

    def numbers(self, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        count = self.count(dtype.itemsize)
        start, self.at = self.at, self.at + count * dtype.itemsize
        return np.frombuffer(self.data, dtype, count, start) if count else _EMPTY[dtype]

    def object(self) -> dict[str, Any]:
        items: dict[str, Any] = {}
        while self.data[self.at] != _OBJECT_END:
            field = self.field()
            if field.dtype is None:
                items[field.name] = self.value()
            elif field.wanted:
                items[field.name] = self.numbers(field.dtype)
            else:
                count = self.count(field.dtype.itemsize)
                self.at += count * field.dtype.itemsize
        self.at += 1
        return items

    def field(self) -> _Field:
        field = self.following.get(self.previous)
        if field is None or not self.data.startswith(field.header, self.at):
            field = self.following[self.previous] = self.new_field()
        else:
            self.at += len(field.header)
        self.previous = field.header
        return field

    def new_field(self) -> _Field:
        start = self.at
        name = str(self.text(), "utf-8")
        dtype = self.number_type(self.at + 1) if self.data[self.at : self.at + 2] == b"[$" else None
        return _Field(bytes(self.data[start : self.at]), name, dtype, name not in self.skip)
