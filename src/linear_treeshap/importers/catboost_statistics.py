"""Statistics of categories (CTR) in a CatBoost model → lookups.

CatBoost reads a category by numbers that training rows had: how often it came, what their mean outcome was.
So it does with combinations: of several categories, and of answers to conditions on other columns. What was
counted is in the model, behind its trees, so at prediction time a statistic is a function of the columns in
its combination and of nothing else. It is computed in float32, as CatBoost does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError, UnsupportedModelError
from ..model.lookups import Above, Equal, Lookup
from .flatbuffers import Table, arrays

__all__ = ["Columns", "Statistics", "read_statistics"]

Array = npt.NDArray[Any]

# Positions of the fields in CatBoost's schema: of the model, of a feature, of a statistic, of what it is
# based on, of a combination, and of a table.
_CTR_FEATURES = 7
_STATISTIC, _BORDERS = 0, 1
_BASE, _CLASS, _PRIOR, _PRIOR_COUNT, _SHIFT, _SCALE = 0, 1, 2, 3, 4, 5
_COMBINATION, _KIND, _TARGET = 0, 1, 2
_CATEGORIES, _FLOAT_SPLITS, _ONE_HOT_SPLITS = 0, 1, 2
_TABLE_BASE, _INDEX, _COUNTS, _N_ROWS, _N_CLASSES = 0, 1, 2, 3, 4

# Kinds of statistics: the share of rows whose outcome is above a border or in a bucket, the mean of outcomes,
# the share of rows that have the category.
_ABOVE_BORDER, _IN_BUCKET, _MEAN, _FLOAT_MEAN, _COUNT, _FREQUENCY = range(6)

_FLOAT_SPLIT = np.dtype([("index", "<i4"), ("border", "<f4")])
_ONE_HOT_SPLIT = np.dtype([("index", "<i4"), ("hash", "<i4")])
_BUCKET = np.dtype([("key", "<u8"), ("place", "<u4")])
_NO_KEY = np.uint64(0xFFFFFFFFFFFFFFFF)
_SUM_AND_COUNT = np.dtype([("sum", "<f4"), ("count", "<i4")])

Float32 = npt.NDArray[np.float32]

#: A key takes 12 bytes at least, and a few more for each class; there are some statistics for each class.
_MAX_NUMBERS_PER_BYTE = 4


@dataclass(frozen=True)
class Columns:
    """The columns of features that CatBoost numbers kind by kind."""

    of_float: Mapping[int, int]
    of_category: Mapping[int, int]
    nan_is_above: Mapping[int, bool]  # by column


@dataclass(frozen=True)
class Statistics:
    """Lookups, and the conditions on what they find."""

    lookups: tuple[Lookup, ...]
    number: npt.NDArray[np.int64]  # (n_conditions,) which of the numbers of all lookups is asked
    border: npt.NDArray[np.float64]  # (n_conditions,)


#: What a table of counts is for: categories, conditions, and what was counted.
_Base = tuple[tuple[int, ...], tuple[Above, ...], tuple[Equal, ...], int, int]


def read_statistics(model: Table, rest: memoryview, columns: Columns) -> Statistics:
    """All statistics that trees may ask for; ``rest`` is what follows the trees in the file."""
    features = model.tables(_CTR_FEATURES)
    if not features:
        return Statistics((), np.zeros(0, dtype=np.int64), np.zeros(0))
    counts = _read_counts(rest, columns)
    statistics = [feature.table(_STATISTIC) for feature in features]
    based_on = [statistic.table(_BASE) for statistic in statistics]
    combinations = [base.table(_COMBINATION) for base in based_on]
    for slot, dtype in (
        (_CATEGORIES, "<i4"),
        (_FLOAT_SPLITS, _FLOAT_SPLIT),
        (_ONE_HOT_SPLITS, _ONE_HOT_SPLIT),
    ):
        arrays(combinations, slot, dtype)  # before anything is made of them
    bases = [_base(base, columns) for base in based_on]
    number_of: dict[int, int] = {}  # of each feature
    lookups: list[Lookup] = []
    room = _MAX_NUMBERS_PER_BYTE * len(rest)
    for base in dict.fromkeys(bases):
        if base not in counts:
            raise UnsupportedModelError(
                "This CatBoost model was saved without the statistics of its categories, and cannot predict. "
                "Train it without final_ctr_computation_mode='Skip'."
            )
        own = [feature for feature, other in enumerate(bases) if other == base]
        number_of |= {feature: len(number_of) + place for place, feature in enumerate(own)}
        room -= len(own) * (len(counts[base].keys) + 1)
        if room < 0:
            raise FileFormatError(
                "The CatBoost model is damaged: it has more statistics of its categories than it has counted."
            )
        numbers = [counts[base].numbers(statistics[feature]) for feature in own]
        lookups.append(Lookup(*base[:3], counts[base].keys, np.stack(numbers, axis=1)))
    borders = arrays(features, _BORDERS, "<f4")
    number = np.array([number_of[feature] for feature in range(len(features))], dtype=np.int64)
    return Statistics(
        tuple(lookups),
        np.repeat(number, [len(some) for some in borders]),
        np.concatenate(borders).astype(np.float64),
    )


def _base(base: Table, columns: Columns) -> _Base:
    combination = base.table(_COMBINATION)
    try:
        return (
            tuple(columns.of_category[index] for index in combination.array(_CATEGORIES, "<i4").tolist()),
            tuple(
                Above(columns.of_float[index], border, columns.nan_is_above[columns.of_float[index]])
                for index, border in combination.array(_FLOAT_SPLITS, _FLOAT_SPLIT).tolist()
            ),
            tuple(
                Equal(columns.of_category[index], number)
                for index, number in combination.array(_ONE_HOT_SPLITS, _ONE_HOT_SPLIT).tolist()
            ),
            int(base.number(_KIND, "<b", 0)),
            int(base.number(_TARGET, "<i", 0)),
        )
    except KeyError as error:
        raise FileFormatError(
            f"The CatBoost model is damaged: a statistic is of a feature {error} that it does not have."
        ) from error


# -- the tables of counts ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Counts:
    """What was counted in training, for each key."""

    keys: npt.NDArray[np.uint64]  # sorted
    kind: int
    counts: Array  # (n_keys, …) in the order of the keys
    n_rows: int

    def numbers(self, statistic: Table) -> Float32:
        """(n_keys + 1,) a statistic for each key, and for those that are not there."""
        hits, total = self._hits(int(statistic.number(_CLASS, "<i", 0)))
        nothing = np.zeros(1, dtype=np.float32)
        of_nothing = nothing + np.float32(self.n_rows) if self.kind in (_COUNT, _FREQUENCY) else nothing
        hits, total = np.append(hits, nothing), np.append(total, of_nothing)
        prior, prior_count, shift, scale = (
            np.float32(statistic.number(slot, "<f", default))
            for slot, default in ((_PRIOR, 0.0), (_PRIOR_COUNT, 1.0), (_SHIFT, 0.0), (_SCALE, 1.0))
        )
        with np.errstate(all="ignore"):  # of a damaged file
            found: Float32 = ((hits + prior) / (total + prior_count) + shift) * scale
        return found

    def _hits(self, target_class: int) -> tuple[Float32, Float32]:
        """How many rows, or what sum, and of how many."""
        counts = self.counts
        if self.kind in (_MEAN, _FLOAT_MEAN):
            return counts["sum"].astype(np.float32), counts["count"].astype(np.float32)
        if self.kind in (_COUNT, _FREQUENCY):
            return counts.astype(np.float32), np.full(len(counts), self.n_rows, dtype=np.float32)
        if not 0 <= target_class < counts.shape[1]:
            raise FileFormatError(
                f"The CatBoost model is damaged: it has no class {target_class} of outcomes."
            )
        is_bucket = self.kind == _IN_BUCKET
        hits = counts[:, target_class] if is_bucket else counts[:, target_class + 1 :].sum(axis=1)
        return hits.astype(np.float32), counts.sum(axis=1).astype(np.float32)


def _read_counts(rest: memoryview, columns: Columns) -> dict[_Base, _Counts]:
    """The tables behind the trees: their number, then each of them after its size."""
    found: dict[_Base, _Counts] = {}
    if not len(rest):
        return found
    n_tables, rest = _size(rest)
    for _ in range(n_tables):
        size, rest = _size(rest)
        table = Table.root(rest[:size])
        rest = rest[size:]
        base = _base(table.table(_TABLE_BASE), columns)
        found[base] = _one_table(table, base[3])
    return found


def _one_table(table: Table, kind: int) -> _Counts:
    buckets = table.array(_INDEX, np.uint8)
    buckets = np.frombuffer(buckets[: len(buckets) // _BUCKET.itemsize * _BUCKET.itemsize].tobytes(), _BUCKET)
    buckets = buckets[buckets["key"] != _NO_KEY]
    keys, first = np.unique(buckets["key"], return_index=True)
    dtype = _SUM_AND_COUNT if kind in (_MEAN, _FLOAT_MEAN) else np.dtype("<i4")
    raw = table.array(_COUNTS, np.uint8).tobytes()
    counts = np.frombuffer(raw, dtype, len(raw) // dtype.itemsize)
    if kind in (_ABOVE_BORDER, _IN_BUCKET):
        n_classes = int(table.number(_N_CLASSES, "<i", 0))
        counts = counts.reshape(-1, max(n_classes, 2 if kind == _ABOVE_BORDER else 1))
    elif not _MEAN <= kind <= _FREQUENCY:
        raise FileFormatError(
            f"The CatBoost model is damaged, or newer: statistics of kind {kind} are unknown."
        )
    return _Counts(keys, kind, counts[buckets["place"][first]], int(table.number(_N_ROWS, "<i", 0)))


def _size(rest: memoryview) -> tuple[int, memoryview]:
    """A size, and what follows it: four bytes, or eight more if these are all ones."""
    size, used = int.from_bytes(rest[:4], "little"), 4
    if size == 0xFFFFFFFF:
        size, used = int.from_bytes(rest[4:12], "little"), 12
    if len(rest) < used or size > len(rest) - used:
        raise FileFormatError("The CatBoost model is cut short: statistics of its categories are missing.")
    return size, rest[used:]
