"""Rows whose categories are hashes → rows as the trees read them: codes, and the numbers of lookups behind.

The hash of a category is a whole number of 32 bits with a sign; NaN stands for a category that is missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..model.row_format import RowFormat

__all__ = ["looked_up", "with_hashes", "with_lookups"]

Array = npt.NDArray[Any]
Float64 = npt.NDArray[np.float64]

#: Half of a hash's bits are a float32, and no hash of 32 bits is.
_HALF = 65536.0


def with_lookups(rows: Array, row_format: RowFormat) -> Array:
    """(n_rows, n_columns) of the model's dtype, from (n_rows, n_features) of numbers and hashes."""
    rows = np.asarray(rows, dtype=np.float64)
    block = np.empty((len(rows), row_format.n_columns), dtype=row_format.numpy_dtype)
    row_format.key_tables.fill(rows, block)
    if row_format.keeps_hashes:
        at = row_format.n_columns - 2 * len(row_format.hashes)
        block[:, at::2], block[:, at + 1 :: 2] = np.divmod(rows[:, list(row_format.hashes)], _HALF)
    return block


def with_hashes(block: Array, row_format: RowFormat) -> Float64:
    """(n_rows, n_features) numbers and hashes of rows that have kept these: what `with_lookups` was given."""
    at = row_format.n_columns - 2 * len(row_format.hashes)
    rows = block[:, : row_format.n_features].astype(np.float64)
    halves = block[:, at:].astype(np.float64)
    rows[:, list(row_format.hashes)] = halves[:, ::2] * _HALF + halves[:, 1::2]
    return rows


def looked_up(rows: Float64, row_format: RowFormat, lookup: int) -> Array:
    """(n_rows, n_numbers) what one of the lookups has for rows of numbers and hashes."""
    out = np.empty((len(rows), row_format.lookups[lookup].n_numbers), dtype=row_format.numpy_dtype)
    row_format.key_tables.look_up(lookup, rows, out)
    return out
