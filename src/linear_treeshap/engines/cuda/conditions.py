"""Ensemble → condition columns: what a split asks of a row, as "is the rank of this column at most that?".

A column has the sorted thresholds of one feature, 255 at most, or the codes of one set of categories. A row's
rank is how many thresholds are below its value, or 0 in the set and 1 outside, and fits into a byte. Splits
that send missing values to different sides have different columns: missing values rank lowest in one and
highest in the other. So ties, NaN, infinities and categories are settled when ranks are made (`ranks.cu`),
exactly, and a split is one comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...model.ensemble import TreeEnsemble

__all__ = ["COLUMN", "Conditions"]

#: `Column` of ranks.cu.
COLUMN = np.dtype(
    [
        ("feature", np.int32),
        ("n_keys", np.int32),
        ("missing", np.int32),
        ("is_categories", np.int32),
        ("first", np.int64),
    ]
)

#: The largest number of thresholds whose ranks fit into a byte.
_MAX_THRESHOLDS = 255


@dataclass(frozen=True, eq=False)
class Conditions:
    """The columns of an ensemble, and the condition of each of its nodes."""

    columns: npt.NDArray[np.void]  # (n_columns,) of COLUMN
    keys: npt.NDArray[np.signedinteger[Any]]  # thresholds and codes, as wide as the numbers of the rows
    column: npt.NDArray[np.int64]  # (n_nodes,) a node's column; 0 at leaves
    last: npt.NDArray[np.int64]  # (n_nodes,) the last rank that goes left

    @classmethod
    def of(cls, ensemble: TreeEnsemble) -> Conditions:
        dtype = ensemble.row_format.numpy_dtype
        column = np.zeros(ensemble.n_nodes, dtype=np.int64)
        last = np.zeros(ensemble.n_nodes, dtype=np.int64)
        columns: list[tuple[int, int, int, int, int]] = []
        keys: list[npt.NDArray[Any]] = []
        n_keys = 0

        def add(feature: int, held: npt.NDArray[Any], missing: int, is_categories: bool) -> int:
            nonlocal n_keys
            columns.append((feature, len(held), missing, is_categories, n_keys))
            keys.append(held)
            n_keys += len(held)
            return len(columns) - 1

        inner = np.flatnonzero(~ensemble.is_leaf)
        # One number for each feature and side of missing values, and for each set of categories.
        is_set = ensemble.category_set[inner] >= 0
        key = ensemble.feature[inner] * 2 + ensemble.missing_left[inner]
        key = np.where(is_set, -1 - (ensemble.category_set[inner].astype(np.int64) * 2 + key % 2), key)
        order = np.lexsort((ensemble.feature[inner], key))
        same = (np.diff(key[order]) == 0) & (np.diff(ensemble.feature[inner][order]) == 0)
        for nodes in np.split(inner[order], np.flatnonzero(~same) + 1) if inner.size else ():
            first = int(nodes[0])
            feature, missing_left = int(ensemble.feature[first]), bool(ensemble.missing_left[first])
            if ensemble.category_set[first] >= 0:
                codes = ensemble.category_set_codes(int(ensemble.category_set[first]))
                column[nodes] = add(feature, codes, 0 if missing_left else 1, True)
                continue
            thresholds = _rounded_down(ensemble.threshold[nodes], dtype)
            sorted_keys, place = np.unique(_keys(thresholds), return_inverse=True)
            for start in range(0, len(sorted_keys), _MAX_THRESHOLDS):
                held = sorted_keys[start : start + _MAX_THRESHOLDS]
                here = (place >= start) & (place < start + len(held))
                column[nodes[here]] = add(feature, held, 0 if missing_left else len(held), False)
                last[nodes[here]] = place[here] - start
        return cls(
            np.array(columns, dtype=COLUMN),
            np.concatenate(keys or [np.empty(0)]).astype(f"i{dtype.itemsize}"),
            column,
            last,
        )

    def of_splits(
        self,
        ensemble: TreeEnsemble,
        feature: npt.NDArray[Any],
        missing_left: npt.NDArray[Any],
        category_set: npt.NDArray[Any],
        threshold: npt.NDArray[np.float64],
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The column, and the last rank that goes left, of splits that ask what nodes of the ensemble ask."""
        dtype = ensemble.row_format.numpy_dtype

        def asked(*of_splits: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
            place, side, codes, numbers = of_splits
            keys = np.where(codes >= 0, 0, _keys(_rounded_down(numbers, dtype)))
            return np.stack([place, side, codes, keys], axis=1).astype(np.int64)

        inner = np.flatnonzero(~ensemble.is_leaf)
        e = ensemble
        known = asked(*(of[inner] for of in (e.feature, e.missing_left, e.category_set, e.threshold)))
        wanted = asked(feature, missing_left, category_set, threshold)
        _, first, which = np.unique(
            np.concatenate([known, wanted]), axis=0, return_index=True, return_inverse=True
        )
        nodes = inner[first[which.reshape(-1)[len(inner) :]]]
        return self.column[nodes], self.last[nodes]


def _rounded_down(
    thresholds: npt.NDArray[np.float64], dtype: np.dtype[np.floating]
) -> npt.NDArray[np.floating]:
    """The largest numbers of the rows' type that are not above: ``x <= threshold`` is the same for all
    rows."""
    with np.errstate(over="ignore"):
        rounded = thresholds.astype(dtype)
        return np.where(rounded > thresholds, np.nextafter(rounded, dtype.type(-np.inf)), rounded)


def _keys(numbers: npt.NDArray[np.floating]) -> npt.NDArray[Any]:
    """Whole numbers in the same order, as ranks.cu has them; both zeros are the greater one."""
    bits = (numbers + 0.0).view(f"i{numbers.dtype.itemsize}")
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
