"""Lookups in a file: what was written is read, and whatever else is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import zoo

from linear_treeshap import import_model
from linear_treeshap.errors import FileFormatError, ModelError
from linear_treeshap.model.lookups import Above, Equal, Lookup
from linear_treeshap.storage.saved_lookups import arrays_of, plain_lookups, read_combined, read_lookups


def two_lookups() -> tuple[Lookup, ...]:
    keys = np.array([3, 7, 2**64 - 2], dtype=np.uint64)
    numbers = np.arange(8, dtype=np.float32).reshape(4, 2)
    return (
        Lookup((0,), (), (), keys, numbers),
        Lookup(
            (1, 0),
            (Above(2, float(np.float32(0.1)), True),),
            (Equal(1, -5),),
            keys[:1],
            numbers[:2, :1].copy(),
        ),
    )


def plain() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(json.dumps(plain_lookups(two_lookups())))
    return found


def test_what_was_written_is_read() -> None:
    assert read_lookups(plain(), arrays_of(two_lookups())) == two_lookups()
    model = import_model(zoo.load("catboost_statistics_multiclass").model)
    lookups = model.row_format.lookups
    assert read_lookups(json.loads(json.dumps(plain_lookups(lookups))), arrays_of(lookups)) == lookups


@pytest.mark.parametrize(
    ("key", "entry"),
    [
        ("n_keys", 5),
        ("n_keys", 2),
        ("n_keys", -1),
        ("n_keys", True),
        ("n_numbers", 0),
        ("n_numbers", 1),
        ("n_numbers", 2**31),
        ("categories", [-1]),
        ("categories", "0"),
        ("above", [[2, "0.1"]]),
        ("above", [[2, 0.1, True]]),
        ("above", [[2, "0.1", 1]]),
        ("equal", [[1, "five"]]),
        ("equal", [[1, -5]]),
        ("more", 1),
    ],
    ids=str,
)
def test_other_lookups_are_refused(key: str, entry: Any) -> None:
    damaged = plain()
    damaged[0][key] = entry
    with pytest.raises(FileFormatError):
        read_lookups(damaged, arrays_of(two_lookups()))


def test_keys_and_numbers_that_belong_to_no_lookup_are_refused() -> None:
    with pytest.raises(FileFormatError, match="fewer keys"):
        read_lookups(plain()[:1], arrays_of(two_lookups()))
    with pytest.raises(FileFormatError, match="must be a list"):
        read_lookups(None, arrays_of(two_lookups()))


@pytest.mark.parametrize(
    "combined", [[[0]], [[1, 0]], [[0, 3]], [[0, 0]], [[0, "1"]], [0], {}, [[0, 1]] * 5], ids=str
)
def test_other_combinations_are_refused(combined: Any) -> None:
    """Of four players, each combination being one."""
    with pytest.raises(FileFormatError):
        read_combined(combined, 4)
    assert read_combined([[0, 2]], 4) == ((0, 2),)


def test_a_lookup_that_cannot_be_read_is_refused() -> None:
    lookup = two_lookups()[0]
    for keys, numbers, categories in (
        (lookup.keys[::-1], lookup.numbers, (0,)),
        (lookup.keys[:2], lookup.numbers, (0,)),
        (lookup.keys, lookup.numbers, ()),
    ):
        with pytest.raises(ModelError):
            Lookup(categories, (), (), keys.copy(), numbers.copy())
