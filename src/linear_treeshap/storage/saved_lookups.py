"""Lookups and combinations of players ↔ what a file holds of them, since version 3 (docs/file-format.md).

What is read has the right types and lengths here; what it means is checked by `Lookup` and `RowFormat`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError
from ..model.lookups import Above, Equal, Lookup
from .tensor_file import REMEDY, some

__all__ = ["ARRAYS", "arrays_of", "plain_lookups", "read_combined", "read_lookups"]

Array = npt.NDArray[Any]

#: Their keys, and their numbers key by key, one lookup after another.
ARRAYS = {"lookup_keys": ("U64", 1), "lookup_numbers": ("F32", 1)}

_LARGEST = np.iinfo(np.int32).max


def plain_lookups(lookups: Sequence[Lookup]) -> list[dict[str, Any]]:
    """What the keys are made of, in the types of JSON."""
    return [
        {
            "categories": list(lookup.categories),
            "above": [[q.column, repr(float(q.border)), q.if_missing] for q in lookup.above],
            "equal": [[match.column, str(match.hash)] for match in lookup.equal],
            "n_keys": len(lookup.keys),
            "n_numbers": lookup.n_numbers,
        }
        for lookup in lookups
    ]


def arrays_of(lookups: Sequence[Lookup]) -> dict[str, Array]:
    """The arrays of `ARRAYS`."""
    keys = [lookup.keys for lookup in lookups]
    numbers = [lookup.numbers.reshape(-1) for lookup in lookups]
    return {
        "lookup_keys": np.concatenate([np.zeros(0, dtype=np.uint64), *keys]),
        "lookup_numbers": np.concatenate([np.zeros(0, dtype=np.float32), *numbers]),
    }


def read_lookups(plain: Any, arrays: Mapping[str, Array]) -> tuple[Lookup, ...]:
    """The lookups that `plain_lookups` and `arrays_of` wrote."""
    if not isinstance(plain, list):
        raise FileFormatError(f"lookups must be a list. {REMEDY}")
    keys, numbers = arrays["lookup_keys"], arrays["lookup_numbers"]
    expected = {"categories", "above", "equal", "n_keys", "n_numbers"}
    lookups: list[Lookup] = []
    n_keys = n_numbers = 0
    for entry in plain:
        if not isinstance(entry, dict) or set(entry) != expected:
            raise FileFormatError(f"a lookup must have {some(expected)}, got {some(entry)}. {REMEDY}")
        own_keys = keys[n_keys : n_keys + _count(entry["n_keys"])]
        n_keys += len(own_keys)
        size = (entry["n_keys"] + 1) * _count(entry["n_numbers"])
        own_numbers = numbers[n_numbers : n_numbers + size]
        n_numbers += len(own_numbers)
        if len(own_keys) != entry["n_keys"] or len(own_numbers) != size:
            raise FileFormatError(f"lookups have more keys or numbers than there are. {REMEDY}")
        lookups.append(
            Lookup(
                tuple(_count(column) for column in _list(entry["categories"])),
                tuple(_above(question) for question in _list(entry["above"])),
                tuple(_equal(match) for match in _list(entry["equal"])),
                own_keys.copy(),
                own_numbers.reshape(entry["n_keys"] + 1, entry["n_numbers"]).copy(),
            )
        )
    if n_keys != len(keys) or n_numbers != len(numbers):
        raise FileFormatError(f"lookups have fewer keys or numbers than there are. {REMEDY}")
    return tuple(lookups)


def read_combined(plain: Any, n_players: int) -> tuple[tuple[int, ...], ...]:
    """The players of each combination, which are two or more of those that are none."""
    combined = tuple(tuple(_count(part) for part in _list(parts)) for parts in _list(plain))
    n_own = n_players - len(combined)
    if any(len(parts) < 2 or max(parts) >= n_own or list(parts) != sorted(set(parts)) for parts in combined):
        raise FileFormatError(
            f"a combination must be of two or more of the {max(n_own, 0)} players. {REMEDY}"
        )
    return combined


def _above(plain: Any) -> Above:
    column, border, if_missing = _list(plain, 3)
    if not isinstance(if_missing, bool):
        raise FileFormatError(f"a question of a lookup must end with true or false. {REMEDY}")
    return Above(_count(column), _number(border, float), if_missing)


def _equal(plain: Any) -> Equal:
    column, number = _list(plain, 2)
    return Equal(_count(column), _number(number, int))


def _list(plain: Any, length: int | None = None) -> list[Any]:
    if not isinstance(plain, list) or length not in (None, len(plain)):
        raise FileFormatError(f"a list was expected, got {str(plain)[:80]!r}. {REMEDY}")
    return plain


def _count(plain: Any) -> int:
    if type(plain) is not int or not 0 <= plain <= _LARGEST:
        raise FileFormatError(f"a whole number was expected, got {str(plain)[:80]!r}. {REMEDY}")
    return plain


def _number(text: Any, kind: type[int] | type[float]) -> Any:
    if isinstance(text, str) and len(text) <= 40:
        try:
            return kind(text)
        except ValueError:
            pass
    raise FileFormatError(f"a number was expected, got {str(text)[:80]!r}. {REMEDY}")
