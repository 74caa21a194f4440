"""The user's X → arrays that trees can read, as a model's `RowFormat` says.

Arrays of the right type pass through without a copy; whatever has to be changed or made dense is
done slice by slice, so that memory stays bounded. Data frames are in `frames.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..model.row_format import LIGHTGBM_ZERO, RowFormat
from .columns import Kind, codes_of_numbers, numbers_of_objects, settled
from .frames import frame_to_array, is_frame, is_nameless_series
from .lookups import with_lookups
from .tables import pandas_index, refuse_records

__all__ = ["Rows", "read_rows", "sparse_rows"]

Array = npt.NDArray[Any]


@dataclass(eq=False)  # not frozen, as one is made for every single row that is served
class Rows:
    """The user's rows: ``rows[start:stop]`` is an array of shape (stop - start, n_columns).

    The array is C-contiguous and of the model's dtype, NaN means missing, a categorical feature holds a
    code, and what is looked up comes behind the features. It may be a view of the user's own array: read it,
    do not write to it.
    """

    n_rows: int
    _read: Callable[[int, int], Array]
    #: The data frame the rows came from, if they did; a Series as a frame of one row.
    frame: Any = None
    #: The column of the frame that each feature was found in.
    order: Sequence[int] | None = None
    #: Are the numbers not the user's own, but others that go the same way at every node?
    are_answers: bool = False

    @property
    def row_labels(self) -> Any:
        """The index of a pandas frame or Series, to label results with; None of anything else."""
        return None if self.frame is None else pandas_index(self.frame)

    def __len__(self) -> int:
        return self.n_rows

    def __getitem__(self, some: slice) -> Array:
        start, stop, step = some.indices(self.n_rows)
        if step != 1:
            raise ValueError(f"Rows are read in order, one after another; got a step of {step}.")
        return self._read(start, max(start, stop))


def read_rows(X: Any, row_format: RowFormat) -> Rows:
    """Read rows of any kind: arrays, sparse matrices, data frames, lists, one row.

    Columns of a frame are matched to the model's feature names in any order; those of an array by
    position. One-dimensional input is one row.

    Raises
    ------
    InputError
        The rows do not fit the model; the message says which column and what to do.
    """
    if type(X) is np.ndarray:  # first, because asking about frames takes longer than all of this
        return _dense_rows(X, row_format)
    if is_frame(X):
        array, frame, order = frame_to_array(X, row_format)
        return Rows(len(array), _coded_reader(array, row_format), frame, order)
    if hasattr(X, "tocsr"):
        return sparse_rows(X, row_format)
    return _dense_rows(X.to_numpy() if is_nameless_series(X) else X, row_format)


def _coded_reader(array: Array, row_format: RowFormat) -> Callable[[int, int], Array]:
    """Slices of an array in which labels have been turned into codes, or into hashes, already."""
    if row_format.hashes:
        return lambda start, stop: with_lookups(array[start:stop], row_format)
    return _dense_reader(array, replace(row_format, categories={}, frame_labels=()))


# -- dense -------------------------------------------------------------------------------------------


def _dense_rows(X: Any, row_format: RowFormat) -> Rows:
    """An array, or lists that make one."""
    array = _as_array(X, row_format)
    if array.dtype.kind == "O":
        columns = array.T.tolist()
        if row_format.frame_labels:
            kinds: list[Kind] = [
                "text" if any(isinstance(x, str) for x in column) else "number" for column in columns
            ]
            row_format = settled(row_format, kinds, has_types=False)
        numbers = [numbers_of_objects(column, row_format, f) for f, column in enumerate(columns)]
        array = np.stack(numbers, axis=1) if numbers else np.empty(array.shape)
        return Rows(len(array), _coded_reader(array, row_format))
    return Rows(len(array), _dense_reader(array, row_format))


def _as_array(X: Any, row_format: RowFormat) -> Array:
    """A two-dimensional array of real numbers, or of objects that may stand for numbers."""
    refuse_records(X)
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64), np.nan)
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise InputError(f"X is not a table: its rows differ in length ({error}).") from error
    if array.dtype.kind in "US":
        # NumPy turns every number of a list into a string when there is one string among them.
        array = np.array(X, dtype=object)
    if array.dtype.kind not in "biufO":
        raise InputError(f"X must hold real numbers, got an array of {array.dtype}. Convert it first.")
    is_one_row = array.ndim == 1
    if is_one_row:
        array = array[np.newaxis]
    if array.ndim != 2:
        raise InputError(f"X must have one row per row to explain (two dimensions), got shape {array.shape}.")
    _check_width(array.shape[1], row_format, one_row=is_one_row)
    return array if array.shape[1] == row_format.n_features else array[:, : row_format.n_features]


def _check_width(width: int, row_format: RowFormat, one_row: bool = False) -> None:
    if width == row_format.n_features or (row_format.takes_more and width > row_format.n_features):
        return
    hint = (
        "One-dimensional input is one row; for one column use X.reshape(-1, 1)."
        if one_row
        else "Pass the columns the model was trained on, in the same order."
    )
    raise InputError(f"X has {width} columns but the model was trained on {row_format.n_features}. {hint}")


def _dense_reader(array: Array, row_format: RowFormat) -> Callable[[int, int], Array]:
    """Slices of ``array`` as the format says, without a copy where nothing is to be done."""
    if row_format.hashes:
        return lambda start, stop: with_lookups(_hashed(array[start:stop], row_format), row_format)
    dtype = row_format.numpy_dtype
    changes = row_format.changes_numbers
    if array.dtype == dtype and array.flags.c_contiguous and not changes:
        return lambda start, stop: array[start:stop]

    def read(start: int, stop: int) -> Array:
        with np.errstate(over="ignore"):  # beyond float32 is infinity, as in the libraries
            block = np.ascontiguousarray(array[start:stop], dtype=dtype)
        if changes:
            if block.base is not None or block is array:
                block = block.copy()
            _apply(block, array[start:stop], row_format)
        return block

    return read


def _hashed(numbers: Array, row_format: RowFormat) -> Array:
    """The same rows with hashes for the numbers in columns of categories."""
    rows = numbers.astype(np.float64)
    for feature in row_format.hashes:
        rows[:, feature] = codes_of_numbers(numbers[:, feature], row_format, feature)
    return rows


def _apply(block: Array, original: Array, row_format: RowFormat) -> None:
    """Turn labels into codes and what counts as missing into NaN, in place."""
    if not row_format.numbers_are_codes:
        for feature in row_format.labelled:
            # Labels are compared before they are cast: 16777217 is no float32.
            block[:, feature] = codes_of_numbers(original[:, feature], row_format, feature)
    if not np.isnan(row_format.missing_value):
        block[block == block.dtype.type(row_format.missing_value)] = np.nan
    for feature in row_format.zero_is_missing:
        column = block[:, feature]
        column[np.abs(column) <= LIGHTGBM_ZERO] = np.nan
    for feature in row_format.truncated:
        block[:, feature] = np.trunc(block[:, feature])


# -- sparse -------------------------------------------------------------------------------------------------


def sparse_rows(X: Any, row_format: RowFormat) -> Rows:
    """A SciPy sparse matrix or array; only the slices asked for become dense."""
    if X.dtype.kind not in "biuf":
        raise InputError(f"X must hold real numbers, got a sparse matrix of {X.dtype}.")
    if row_format.absent_is_missing is None:
        raise InputError(
            "An entry that is absent from a sparse matrix is missing to some of the models inside and zero "
            "to others. Pass dense rows, X.toarray(), in which zero is zero to all of them."
        )
    matrix = X.tocsr()
    if matrix.ndim != 2:
        raise InputError(f"X must have two dimensions, got a sparse array of shape {matrix.shape}.")
    _check_width(matrix.shape[1], row_format)
    matrix = matrix if matrix.shape[1] == row_format.n_features else matrix[:, : row_format.n_features]
    absent = np.nan if row_format.absent_is_missing else 0.0

    def read(start: int, stop: int) -> Array:
        stored = matrix[start:stop]
        stored.sum_duplicates()
        dense = np.full(stored.shape, absent)
        dense[np.repeat(np.arange(len(dense)), np.diff(stored.indptr)), stored.indices] = stored.data
        return _dense_reader(dense, row_format)(0, len(dense))

    return Rows(matrix.shape[0], read)
