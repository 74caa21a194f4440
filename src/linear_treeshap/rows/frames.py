"""A data frame → one array of numbers: pandas, polars, PyArrow, and whatever else narwhals reads.

Columns are matched by name, each is turned into numbers on its own, and text where numbers are
expected is an error that names the column.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..model.row_format import RowFormat
from .columns import (
    Kind,
    codes_of_labels,
    codes_of_numbers,
    has_labels,
    labels_are_numbers,
    numbers_of_objects,
    settled,
    title,
)

__all__ = [
    "as_frame",
    "column_names",
    "frame_to_array",
    "is_frame",
    "is_nameless_series",
    "is_numbering",
    "match_columns",
]

Array = npt.NDArray[Any]

#: A name that a library made up, around the number of the column.
_MADE_UP = re.compile(r"(?:f|x|Column_|feature_|column_)?([0-9]+)")
#: How many column names a message shows.
_SHOWN = 5


def is_frame(X: Any) -> bool:
    """Is this a data frame, or a pandas Series, which stands for one row with names?"""
    if isinstance(X, np.ndarray):
        return False  # asked for every single row that is served: narwhals takes 30 µs to say so
    import narwhals.stable.v1 as nw

    return (
        nw.dependencies.is_into_dataframe(X)
        or nw.dependencies.is_pandas_series(X)
        or nw.dependencies.is_polars_lazyframe(X)
        or _is_record_batch(X)
    )


def is_nameless_series(X: Any) -> bool:
    """Is this a Series of polars or PyArrow? It stands for one row without names."""
    if isinstance(X, np.ndarray):
        return False
    import narwhals.stable.v1 as nw

    return bool(nw.dependencies.is_into_series(X)) and not nw.dependencies.is_pandas_series(X)


def column_names(table: Any) -> tuple[str, ...] | None:
    """The names of a frame's columns; None for tables without names."""
    if not is_frame(table):
        return None
    # Arrow alone calls its columns' data columns. Asking narwhals takes longer than explaining a row.
    names = table.schema.names if type(table).__module__.startswith("pyarrow") else table.columns
    return tuple(map(str, names))


def frame_to_array(X: Any, row_format: RowFormat) -> tuple[Array, Any, list[int]]:
    """The frame's numbers (n_rows, n_features) float32 or float64, the frame, and each feature's column.

    Categories that the model knows by their hashes are these hashes.
    """
    import narwhals.stable.v1 as nw

    native = as_frame(X)
    order = match_columns(column_names(native) or (), row_format)
    is_row = nw.dependencies.is_pandas_series(X)
    frame = nw.from_native(native, eager_only=True)
    if row_format.frame_labels:
        row_format = settled(row_format, [_kind(frame[:, at]) for at in order], has_types=not is_row)
    if is_row:
        native = _row_of_labels(native, row_format, order)
        frame = nw.from_native(native, eager_only=True)
    with np.errstate(over="ignore"):  # beyond float32 is infinity, as in the libraries
        if nw.dependencies.is_pandas_dataframe(native) and _is_plain(native, row_format):
            chosen = native if order == list(range(native.shape[1])) else native.iloc[:, order]
            array = np.ascontiguousarray(chosen.to_numpy(dtype=row_format.numpy_dtype))
        else:
            # A hash is no float32, and lookups are made column by column.
            dtype = np.dtype(np.float64) if row_format.hashes else row_format.numpy_dtype
            shape = (len(frame), row_format.n_features)
            array = np.empty(shape, dtype=dtype, order="F" if row_format.hashes else "C")
            columns = list(frame.iter_columns())
            for feature, position in enumerate(order):
                array[:, feature] = _numbers(columns[position], row_format, feature)
    return array, native, order


def _kind(column: Any) -> Kind:
    """What a column, a narwhals Series, is made of."""
    import narwhals.stable.v1 as nw

    if column.dtype in (nw.Categorical, nw.Enum):
        return "category"
    if column.dtype == nw.String:
        return "text"
    is_text = column.dtype == nw.Object and any(isinstance(value, str) for value in column.to_list())
    return "text" if is_text else "number"


def match_columns(columns: Sequence[str], row_format: RowFormat) -> list[int]:
    """For each feature of the model, the position of its column.

    Where the model or the table has no names, or only numbers for names, position decides.
    """
    position = {name: index for index, name in enumerate(columns)}
    if len(position) < len(columns):
        twice = [name for name, count in Counter(columns).items() if count > 1]
        raise InputError(f"X has more than one column of the name {_some(twice)}. Rename or drop them.")
    names = row_format.feature_names
    if names is None or (not set(names) & set(columns) and (is_numbering(names) or is_numbering(columns))):
        n_more = len(columns) - row_format.n_features
        if n_more < 0 or (n_more and not row_format.takes_more):
            raise InputError(
                f"X has {len(columns)} columns but the model was trained on {row_format.n_features}. "
                f"Pass the columns the model was trained on, in the same order."
            )
        return list(range(row_format.n_features))
    known = {row_format.known_name(name): index for name, index in position.items()}
    position = known if len(known) == len(position) else position
    missing = [name for name in names if name not in position]
    unexpected = sorted(position.keys() - set(names), key=position.__getitem__)
    if missing or unexpected:
        parts = [f"Missing: {_some(missing)}."] if missing else []
        parts += [f"Unexpected: {_some(unexpected)}."] if unexpected else []
        raise InputError(
            f"X has {len(columns)} columns but the model was trained on {len(names)}. {' '.join(parts)} "
            f"Pass the columns the model was trained on, in any order."
        )
    return [position[name] for name in names]


def _some(names: Sequence[Any]) -> str:
    """The first few names, and how many there are if there are more."""
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown}, … ({len(names)} in all)"


def is_numbering(names: Sequence[str]) -> bool:
    """Are these the names that libraries make up: f0, Column_0, feature_0, 0 and so on?"""
    numbers = map(_MADE_UP.fullmatch, names)
    return all(found is not None and found[1] == str(i) for i, found in enumerate(numbers))


def _is_record_batch(X: Any) -> bool:
    return f"{type(X).__module__}.{type(X).__name__}" == "pyarrow.lib.RecordBatch"


def as_frame(X: Any) -> Any:
    """An eager data frame; a pandas Series becomes a frame of one row, and what is lazy is collected."""
    import narwhals.stable.v1 as nw

    if nw.dependencies.is_polars_lazyframe(X):
        return X.collect()
    if nw.dependencies.is_pandas_series(X):
        return X.to_frame().T.infer_objects()
    if _is_record_batch(X):
        return import_module("pyarrow").Table.from_batches([X])
    return X


def _row_of_labels(row: Any, row_format: RowFormat, order: Sequence[int]) -> Any:
    """A frame made of a pandas Series, whose numbers are labels wherever the model's labels are numbers.

    A row cut from a frame has lost the types of its columns: 20 in a categorical column is the label 20.
    """
    if not row_format.numbers_are_codes:
        return row
    columns = [row.columns[order[f]] for f in row_format.categories if labels_are_numbers(row_format, f)]
    return row.astype(dict.fromkeys(columns, object)) if columns else row


def _is_plain(frame: Any, row_format: RowFormat) -> bool:
    """Does a pandas frame hold NumPy numbers only, and no labels among them?"""
    if row_format.labelled and not row_format.numbers_are_codes:
        return False
    return all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in frame.dtypes)


def _numbers(column: Any, row_format: RowFormat, feature: int) -> Array:
    """One column, a narwhals Series, as numbers and codes."""
    import narwhals.stable.v1 as nw

    dtype = column.dtype
    if dtype in (nw.Categorical, nw.Enum):
        return _numbers_of_categories(column, row_format, feature)
    if feature in row_format.hashes and dtype.is_integer():
        return _numbers_of_labels(column, row_format, feature)  # float64 would round large ones
    if dtype.is_numeric() or dtype == nw.Boolean:
        numbers = _floats(column)
        if has_labels(row_format, feature) and not row_format.numbers_are_codes:
            return codes_of_numbers(numbers, row_format, feature)
        return numbers
    if dtype.is_temporal() or dtype.is_nested() or dtype == nw.Binary:
        raise InputError(
            f"In {title(row_format, feature)} numbers were expected, got {dtype}. "
            f"Encode the column as it was when the model was trained."
        )
    return _numbers_of_labels(column, row_format, feature)


def _numbers_of_labels(column: Any, row_format: RowFormat, feature: int) -> Array:
    """Objects, text, or whole numbers that are labels; where these are hashed, each different one is once."""
    import narwhals.stable.v1 as nw

    native = nw.to_native(column)
    if feature not in row_format.hashes or not nw.dependencies.is_pandas_series(native):
        return numbers_of_objects(column.to_list(), row_format, feature)
    try:
        codes, labels = native.factorize()
    except TypeError as error:  # lists have no hash
        raise InputError(
            f"In {title(row_format, feature)}, a category must be text or a number: {error}."
        ) from error
    # Code -1 is pandas' missing value: it picks the last entry.
    padded = np.append(codes_of_labels(labels.tolist(), row_format, feature), np.nan)
    return np.asarray(padded[codes])


def _floats(column: Any) -> Array:
    """A column of numbers or truth values as float64, null and NA as NaN."""
    import narwhals.stable.v1 as nw

    native = nw.to_native(column)
    if nw.dependencies.is_pandas_series(native):
        # Older pandas leaves NA in what narwhals makes of its Arrow columns.
        return np.asarray(native.to_numpy(dtype=np.float64, na_value=np.nan))
    if nw.dependencies.is_pyarrow_chunked_array(native):
        # Arrow's own cast refuses to round whole numbers, which all others do.
        return np.asarray(native.cast("float64", safe=False).to_numpy())
    return np.asarray(column.cast(nw.Float64).to_numpy())


def _numbers_of_categories(column: Any, row_format: RowFormat, feature: int) -> Array:
    """A categorical column: by its labels if the model knows them, else as the library would take it."""
    import narwhals.stable.v1 as nw

    native = nw.to_native(column)
    if nw.dependencies.is_pandas_series(native):
        codes: Array = native.cat.codes.to_numpy()
        labels = native.cat.categories.to_list()
        if has_labels(row_format, feature):
            number_of_code = codes_of_labels(labels, row_format, feature)
        elif row_format.numbers_are_codes:
            number_of_code = np.arange(len(labels), dtype=np.float64)
        else:
            number_of_code = numbers_of_objects(labels, row_format, feature)
        # Code -1 is pandas' missing value: it picks the last entry.
        padded: Array = np.append(number_of_code, np.nan)
        return padded[codes]
    if has_labels(row_format, feature):
        return codes_of_labels(column.to_list(), row_format, feature)
    if not row_format.numbers_are_codes:
        return numbers_of_objects(column.to_list(), row_format, feature)
    raise InputError(
        f"In {title(row_format, feature)} there are labels such as {column.drop_nulls().to_list()[:1]}, "
        f"but the model does not know labels for it. Pass the codes it was trained on as numbers."
    )
