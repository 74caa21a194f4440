"""The user's table of rows, as results need it: cut by row and column, and made again in the same library.

A table is an array, a SciPy sparse matrix or a data frame of any library that narwhals reads; it has two
dimensions, and nothing here changes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError, MissingDependencyError
from .frames import as_frame, column_names, is_frame, is_nameless_series

__all__ = [
    "as_table",
    "is_plain_pandas",
    "make_frame",
    "n_categories",
    "named",
    "named_row",
    "pandas_index",
    "refuse_records",
    "take_columns",
    "take_rows",
    "to_array",
    "width_of",
]

Array = npt.NDArray[Any]


def as_table(X: Any) -> tuple[Any, bool]:
    """``X`` in two dimensions, and whether it was a single row in one dimension."""
    if isinstance(X, np.ndarray):  # first: what follows takes longer than explaining a row
        return _of_array(X)
    if is_frame(X):
        return as_frame(X), getattr(X, "ndim", 2) == 1
    refuse_records(X)
    if is_nameless_series(X):
        X = np.array(X.to_numpy())  # a copy, because older scikit-learn refuses polars' read-only memory
    elif isinstance(X, (list, tuple)):
        # NumPy turns every number of a list into a string when there is one string among them.
        try:
            array = np.array(X, dtype=object)
            X = array if any(isinstance(value, str) for value in array.flat) else np.asarray(X)
        except ValueError as error:
            raise InputError(f"X is not a table: its rows differ in length ({error}).") from error
    return _of_array(X) if isinstance(X, np.ndarray) else (X, False)


def _of_array(array: Array) -> tuple[Array, bool]:
    array = _plain(array)
    is_one_row = array.ndim == 1
    return (array[np.newaxis] if is_one_row else array), is_one_row


def named_row(X: Any) -> Any:
    """A dictionary of one row, as a service has it, as a Series of pandas; anything else as it is."""
    if not isinstance(X, Mapping) or find_spec("pandas") is None:
        return X
    if any(isinstance(cell, (list, tuple, dict, np.ndarray)) for cell in X.values()):
        raise InputError(
            "X is a dictionary of columns. Pass a data frame, pandas.DataFrame(X) for instance; a dictionary "
            "of one value per feature is a row."
        )
    return import_module("pandas").Series(dict(X), dtype=object)


def refuse_records(X: Any) -> None:
    """Dictionaries have names but no types: is 20 in a categorical column a label or a code?"""
    if isinstance(X, np.ndarray):  # asked for every single row that is served
        return
    is_list = isinstance(X, (list, tuple)) and len(X) > 0
    if isinstance(X, Mapping) or (is_list and isinstance(X[0], Mapping)):
        what, how = ("list of dictionaries", "X") if is_list else ("dictionary", "[X]")
        raise InputError(
            f"X is a {what}. Pass a data frame whose columns have the types of the training data, "
            f"pandas.DataFrame({how}) for instance."
        )


def width_of(X: Any) -> int | None:
    """How many columns there are, of rows or of one; None if that is not to be seen."""
    table, _ = as_table(X)
    names = column_names(table)
    if names is not None:
        return len(names)
    shape: tuple[int, ...] = getattr(table, "shape", ())
    return int(shape[1]) if len(shape) == 2 else None


def _plain(array: Array) -> Array:
    """The same numbers, so that every library reads them alike when it is asked for its prediction.

    scikit-learn overlooks masks and refuses matrices; XGBoost misreads the other byte order.
    """
    if isinstance(array, np.ma.MaskedArray):
        return np.ma.filled(array.astype(np.float64), np.nan)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return np.asarray(array)


def pandas_index(table: Any) -> Any:
    """The index of a pandas frame; None for any other table."""
    if isinstance(table, np.ndarray):
        return None
    import narwhals.stable.v1 as nw

    return table.index if nw.dependencies.is_pandas_dataframe(table) else None


def is_plain_pandas(table: Any) -> bool:
    """Is this a pandas frame of nothing but NumPy's numbers and categories?"""
    import narwhals.stable.v1 as nw

    if not nw.dependencies.is_pandas_dataframe(table):
        return False
    # A categorical type is no np.dtype, and its kind is that of objects, as is that of text.
    return all(
        dtype.kind in "biuf" if isinstance(dtype, np.dtype) else dtype.name == "category"
        for dtype in table.dtypes
    )


def n_categories(frame: Any) -> int:
    """How many columns of a pandas frame are categorical."""
    return sum(dtype.name == "category" for dtype in frame.dtypes)


def take_rows(table: Any, rows: slice | Array) -> Any:
    """Some rows, chosen by a slice or by their positions."""
    if isinstance(table, list) and not isinstance(rows, slice):  # of strings
        return [table[row] for row in rows.tolist()]
    if hasattr(table, "tocsr"):
        return table.tocsr()[rows]
    if table is None or not is_frame(table):
        return None if table is None else table[rows]
    import narwhals.stable.v1 as nw

    frame = nw.from_native(table, eager_only=True)
    return nw.to_native(frame[rows] if isinstance(rows, slice) else frame[rows.tolist(), :])


def take_columns(table: Any, columns: Sequence[int]) -> Any:
    """Some columns, chosen by their positions, in that order."""
    if table is None or not is_frame(table):
        return None if table is None else table[:, list(columns)]
    import narwhals.stable.v1 as nw

    if nw.dependencies.is_pandas_dataframe(table):
        return table.iloc[:, list(columns)]  # narwhals refuses names that are there twice, also of the others
    return nw.to_native(nw.from_native(table, eager_only=True)[:, list(columns)])


def to_array(table: Any) -> Any:
    """The table as an array, of objects if its columns are of different kinds; sparse stays sparse."""
    if table is None or not is_frame(table):
        return table
    import narwhals.stable.v1 as nw

    return nw.from_native(table, eager_only=True).to_numpy()


def make_frame(columns: Mapping[str, Any], *, like: Any = None, row_labels: Any = None) -> Any:
    """A data frame of ``columns`` in the library of the frame ``like``; for pandas with ``row_labels``.

    Without a frame to follow it is pandas' if that is installed, else polars'. Cells of different kinds in
    one list, numbers and texts for instance, stay what they are in pandas; with others a column has one type,
    which is then text.
    """
    import narwhals.stable.v1 as nw

    if like is not None and is_frame(like):
        library = nw.get_native_namespace(nw.from_native(like))
    else:
        library = _installed_library()
    if library is None:
        raise MissingDependencyError(
            "A data frame was asked for, and neither pandas nor polars is installed. "
            "Run: pip install pandas (or: pip install polars). The numbers themselves are in .values."
        )
    if library.__name__ != "pandas":
        columns = {title: _of_one_kind(cells) for title, cells in columns.items()}
    frame = nw.to_native(nw.from_dict(dict(columns), native_namespace=library))
    if row_labels is not None and nw.dependencies.is_pandas_dataframe(frame):
        frame.index = row_labels
    return frame


def _of_one_kind(cells: Any) -> Any:
    """A list whose cells have one type: all numbers as float, else as texts."""
    kinds = {type(cell) for cell in cells} - {type(None)} if isinstance(cells, list) else set()
    if len(kinds) < 2:
        return cells
    common = float if kinds == {int, float} else str
    return [None if cell is None else common(cell) for cell in cells]


def named(array: Array, names: Sequence[str]) -> Any:
    """A frame of an array with names; the array itself if there is no library for frames."""
    import narwhals.stable.v1 as nw

    library = _installed_library()
    if library is None:
        return array
    return nw.to_native(nw.from_numpy(array, schema=list(names), native_namespace=library))


def _installed_library() -> Any:
    """pandas, or else polars, or else None."""
    for name in ("pandas", "polars"):
        if find_spec(name) is not None:
            return import_module(name)
    return None
