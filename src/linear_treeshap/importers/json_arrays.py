"""JSON bytes → dicts, lists, strings, numbers, and NumPy arrays for lists of numbers.

For the model files of XGBoost and CatBoost: a list of numbers is converted in one go, so a model
costs no Python object per node.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container
from mmap import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError

__all__ = ["parse", "parse_numbers"]

_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SCALAR = re.compile(rb"[-+.0-9A-Za-z]+")
_NUMBERS = re.compile(rb"\[[-+.,0-9A-Za-z \t\r\n]+\]")
_FRACTIONAL = re.compile(rb"[.eEnN]")
_BOOLEANS = re.compile(rb"true|false")


def parse(data: bytes | mmap, skip: Container[str] = ()) -> Any:
    """The value that ``data`` holds; lists of numbers under a name in ``skip`` are left unread."""
    reader = _Reader(data, skip)
    try:
        value = reader.value()
    except RecursionError as error:
        raise reader.damaged("values are nested too deeply") from error
    if reader.peek():
        raise reader.damaged("the value is complete, but more data follows")
    return value


def parse_numbers(text: bytes, separator: str, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The numbers in ``text``, without a Python object for each.

    They are what float() and int() say they are, and the decimal point is a point in every locale.
    """
    if not text.strip():
        return np.zeros(0, dtype)
    n_numbers = text.count(separator.encode()) + 1
    numbers: npt.NDArray[Any] = np.fromstring(text, dtype, n_numbers, sep=separator)
    if len(numbers) != n_numbers:
        raise ValueError(f"expected {n_numbers} numbers, got {len(numbers)}")
    return numbers


class _Reader:
    def __init__(self, data: bytes | mmap, skip: Container[str]) -> None:
        self.data = data
        self.skip = skip
        self.at = 0

    def damaged(self, what: str) -> FileFormatError:
        return FileFormatError(
            f"Not a complete JSON file: {what} (at byte {self.at:,} of {len(self.data):,})."
        )

    def match(self, pattern: re.Pattern[bytes], expected: str) -> bytes:
        """What ``pattern`` matches here; the reader moves behind it."""
        found = pattern.match(self.data, self.at)
        if found is None:
            raise self.damaged(f"expected {expected}")
        self.at = found.end()
        return found[0]

    def peek(self) -> bytes:
        """The next byte that is not space, or nothing at the end."""
        self.match(_SPACE, "space")
        return self.data[self.at : self.at + 1]

    def step(self, closing: bytes) -> bool:
        """Step over the comma or bracket behind an item; is another item to come?"""
        found = self.peek()
        if found not in (b",", closing):
            raise self.damaged(f"expected ',' or {closing.decode()!r}")
        self.at += 1
        return found == b","

    def value(self, name: str = "") -> Any:
        first = self.peek()
        if first == b"{":
            return self.object()
        if first == b"[":
            return self.list(name)
        pattern = _STRING if first == b'"' else _SCALAR
        return self.scalar(self.match(pattern, "a value"))

    def scalar(self, text: bytes) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise self.damaged(f"expected a value, got {text[:40]!r}") from error

    def list(self, name: str) -> Any:
        numbers = _NUMBERS.match(self.data, self.at)
        if numbers is not None:
            self.at = numbers.end()
            return None if name in self.skip else self.numbers(numbers[0][1:-1])
        self.at += 1
        items: list[Any] = []
        more = self.peek() != b"]" or self.step(b"]")
        while more:
            items.append(self.value())
            more = self.step(b"]")
        return items

    def numbers(self, text: bytes) -> npt.NDArray[Any]:
        if _BOOLEANS.match(text):
            text = _BOOLEANS.sub(lambda word: b"1" if word[0] == b"true" else b"0", text)
        dtype = np.float64 if _FRACTIONAL.search(text) else np.int64
        try:
            return parse_numbers(text, ",", dtype)
        except ValueError as error:
            raise self.damaged(f"a list of numbers is broken: {error}") from error

    def object(self) -> dict[str, Any]:
        self.at += 1
        items: dict[str, Any] = {}
        more = self.peek() != b"}" or self.step(b"}")
        while more:
            self.peek()
            name = self.scalar(self.match(_STRING, "a name"))
            if self.peek() != b":":
                raise self.damaged("expected ':'")
            self.at += 1
            items[name] = self.value(name)
            more = self.step(b"}")
        return items
