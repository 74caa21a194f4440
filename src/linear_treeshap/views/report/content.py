"""Explanation → what its page shows, in the types of JSON.

Arrays travel as base64 of little-endian numbers: a fifth of the size of decimal text, and read at once.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...rows.frames import is_frame
from ...rows.tables import take_rows

if TYPE_CHECKING:
    from ...results.explanation import Explanation

__all__ = ["page_content"]

Array = npt.NDArray[Any]

#: Rows on a page unless the user says otherwise: as many as keep it below some 10 MB and quick to open.
_MAX_ROWS = 10_000
_MAX_NUMBERS = 2_000_000

#: Rows that are drawn as dots. More would be slower and hide each other.
_DRAWN = 2_000

#: Whole numbers beyond this are not all float64 numbers, and a browser would show others in their place.
_EXACT = 2**53

_CHECKS = {
    "model": "the trees' prediction, all rows, and that with the model's own, some: equal within rounding",
    "trees": "the trees' prediction, all rows: equal within rounding",
    "nothing": "nothing: the check was switched off, or there is nothing to compare",
}


def page_content(explanation: Explanation, max_rows: int | None) -> dict[str, Any]:
    """Everything on the page but its title; ``max_rows`` None chooses by size."""
    n_rows, n_features, n_outputs = explanation.full.shape
    rows = _some_rows(n_rows, _row_limit(max_rows, n_features * n_outputs))
    importance = np.abs(explanation.full).mean(axis=0, dtype=np.float64)
    values = np.asarray(explanation.full[rows], dtype=np.float64)
    bases = np.asarray(explanation.full_base_values[rows], dtype=np.float64)
    return {
        "features": list(explanation.full_feature_names),
        "output_names": list(explanation.output_names),
        "n_rows_explained": n_rows,
        "n_rows": len(rows),
        "labels": _labels(explanation, rows),
        "importance": importance.T.tolist(),
        "values": [_packed(values[:, :, k].T, "<f4") for k in range(n_outputs)],
        "outputs": [_packed((values.sum(axis=1) + bases)[:, k], "<f8") for k in range(n_outputs)],
        "bases": [_packed(_one_if_equal(bases[:, k]), "<f8") for k in range(n_outputs)],
        "columns": _columns(explanation, rows),
        "pictured": _packed(_some_rows(len(rows), _DRAWN), "<i4"),
        "adds_up": explanation.about is None or explanation.about.adds_up,
        "unit": None if explanation.about is None else explanation.about.unit,
        "logistic_scale": _logistic_scale(explanation),
        "facts": _facts(explanation),
    }


def _logistic_scale(explanation: Explanation) -> float | None:
    """What the page multiplies log-odds by before it shows their probability."""
    about = explanation.about
    return about.link.scale if about is not None and about.link is not None and about.adds_up else None


def _row_limit(max_rows: int | None, numbers_per_row: int) -> int:
    if max_rows is None:
        return min(_MAX_ROWS, max(1, _MAX_NUMBERS // numbers_per_row))
    if isinstance(max_rows, bool) or not isinstance(max_rows, (int, np.integer)) or max_rows < 1:
        raise InputError(f"max_rows must be a whole number of at least 1, got {max_rows!r}.")
    return int(max_rows)


def _some_rows(n_rows: int, limit: int) -> npt.NDArray[np.intp]:
    """All rows, or ``limit`` of them chosen at random, the same ones each time."""
    if n_rows <= limit:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, limit, replace=False))


def _labels(explanation: Explanation, rows: npt.NDArray[np.intp]) -> list[str] | None:
    """The names of rows; None if they are numbered from 0 on."""
    if explanation.index is not None:
        return [str(label) for label in explanation.index[rows]]
    return None if len(rows) == len(explanation.full) else list(map(str, rows.tolist()))


def _columns(explanation: Explanation, rows: npt.NDArray[np.intp]) -> list[dict[str, Any]] | None:
    """What the rows have in each feature."""
    if explanation.table is None:
        return None
    n_rows, n_features, _ = explanation.full.shape
    columns = _arrays(explanation.table if len(rows) == n_rows else take_rows(explanation.table, rows))
    if len(columns) != n_features or any(len(column) != len(rows) for column in columns):
        raise InputError(
            f"The table of this explanation has {len(columns)} columns for {n_features} features, or not a "
            f"row for each of {n_rows} rows. Pass table=None, or a table with a column for each feature."
        )
    return [_column(column) for column in columns]


def _arrays(table: Any) -> list[Array]:
    """The columns of a table, each of its own type: together, NumPy makes numbers of booleans."""
    if not is_frame(table):
        dense = table.toarray() if hasattr(table, "toarray") else np.asarray(table)
        return list(np.atleast_2d(dense).T)
    import narwhals.stable.v1 as nw

    return [column.to_numpy() for column in nw.from_native(table, eager_only=True).iter_columns()]


def _column(column: Array) -> dict[str, Any]:
    """Numbers as they are; anything else as codes of its sorted strings, -1 where missing."""
    numbers = _numbers(column)
    if numbers is None:
        return _strings(column)
    with np.errstate(over="ignore"):
        narrow = numbers.astype(np.float32)
    fits = np.array_equal(narrow.astype(np.float64), numbers, equal_nan=True)
    return {"kind": "f4" if fits else "f8", "data": _packed(numbers, "<f4" if fits else "<f8")}


def _numbers(column: Array) -> npt.NDArray[np.float64] | None:
    """A column as float64 with NaN for what is missing; None if that would change what it says."""
    if column.dtype.kind == "O":
        missing = _is_missing(column)
        kept = column[~missing]
        if not all(isinstance(x, Real) and not isinstance(x, (bool, np.bool_)) for x in kept):
            return None
        too_long = any(isinstance(x, Integral) and abs(int(x)) > _EXACT for x in kept)
        return None if too_long else np.where(missing, np.nan, column).astype(np.float64)
    if column.dtype.kind not in "iuf":
        return None
    too_long = column.dtype.kind in "iu" and bool(((column > _EXACT) | (column < -_EXACT)).any())
    return None if too_long else column.astype(np.float64)


def _strings(column: Array) -> dict[str, Any]:
    missing = _is_missing(column)
    labels, codes = np.unique([str(x) for x in column[~missing]], return_inverse=True)
    packed = np.full(len(column), -1, dtype=np.int32)
    packed[~missing] = codes
    return {"kind": "i4", "data": _packed(packed, "<i4"), "labels": labels.tolist()}


def _is_missing(column: Iterable[Any]) -> npt.NDArray[np.bool_]:
    """None, NaN, and the markers of pandas, which compare to nothing."""
    names = ("NAType", "NaTType")
    return np.array([x is None or type(x).__name__ in names or _is_nan(x) for x in column], dtype=np.bool_)


def _is_nan(x: Any) -> bool:
    return isinstance(x, (float, np.floating, np.datetime64)) and bool(x != x)


def _one_if_equal(numbers: Array) -> Array:
    return numbers[:1] if (numbers == numbers[0]).all() else numbers


def _packed(numbers: Array, dtype: str) -> str:
    return b64encode(np.ascontiguousarray(numbers, dtype=dtype).tobytes()).decode("ascii")


def _facts(explanation: Explanation) -> list[tuple[str, str]]:
    """What is known of the model and the run, in words."""
    from ... import __version__

    n_rows, n_features, n_outputs = explanation.full.shape
    facts = [("Rows", f"{n_rows:,}"), ("Features", f"{n_features:,}"), ("Outputs", f"{n_outputs:,}")]
    about = explanation.about
    if about is not None:
        facts += [
            ("Model", about.model),
            ("Trees", f"{about.n_trees:,}"),
            ("Leaves", f"{about.n_leaves:,}"),
            ("Output explained", f"{about.model_output}{f', {about.unit}' if about.unit else ''}"),
            ("Feature perturbation", about.feature_perturbation.replace("_", " ")),
            ("Index", about.index),
            ("Sums compared with", _CHECKS[about.checked_with]),
        ]
    return [*facts, ("Computed by", f"linear-treeshap {__version__}")]
