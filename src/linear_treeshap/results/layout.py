"""Named arrays → data frames: wide, long, the largest of each row, and the largest over all rows.

The frames are of the user's own library, see `make_frame`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..rows.tables import make_frame

__all__ = ["NamedArray", "ranked", "ranked_columns", "row_columns", "spread", "whole_number"]

Array = npt.NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class NamedArray:
    """Numbers of rows and items, which are features or sets of them, and what all of these are called."""

    values: Array  # (n_rows, n_items, n_outputs)
    item: str  # the title of a column of items
    names: Sequence[str]  # (n_items,)
    output_names: Sequence[str] | None  # (n_outputs,); None if frames do not name the only output
    row_labels: Any  # (n_rows,) as pandas' index or an array; None if rows are numbered from 0 on
    like: Any  # frames are of the library of this one
    #: Of each item, the cells of its column, which `top` shows; None if there are none.
    data: Sequence[Sequence[Any]] | None = None
    #: Title → (n_rows, n_outputs) numbers that stand beside those of a row.
    beside: Mapping[str, Array] = field(default_factory=dict)

    def frame(self, layout: str) -> Any:
        """One of the two layouts, by its name."""
        if layout == "wide":
            return self.wide()
        if layout == "long":
            return self.long()
        raise InputError(f"layout must be 'wide' or 'long', got {layout!r}.")

    def wide(self) -> Any:
        """A column per item, after one that names the output if there are several, and pandas' index."""
        n_rows, n_items, n_outputs = self.values.shape
        if len(set(self.names)) < n_items:
            twin = next(name for i, name in enumerate(self.names) if name in self.names[:i])
            raise InputError(
                f"Two columns would share a name, {twin!r}, and a wide frame cannot. Use layout='long'."
            )
        columns: dict[str, Any] = {}
        if self.output_names is not None:
            columns[_unused("output", self.names)] = list(self.output_names) * n_rows
        by_output = self.values.transpose(0, 2, 1).reshape(n_rows * n_outputs, n_items)
        columns.update({name: by_output[:, i] for i, name in enumerate(self.names)})
        columns.update(
            {_unused(title, self.names): beside.reshape(-1) for title, beside in self.beside.items()}
        )
        labels = None if self.row_labels is None else self.row_labels.repeat(n_outputs)
        return make_frame(columns, like=self.like, row_labels=labels)

    def long(self) -> Any:
        """A row per value: row, item, output if there are several, value."""
        n_rows, n_items, n_outputs = self.values.shape
        columns = self._labels(np.repeat(np.arange(n_rows), n_items * n_outputs))
        columns[self.item] = _each(self.names, n_outputs) * n_rows
        if self.output_names is not None:
            columns["output"] = list(self.output_names) * (n_rows * n_items)
        beside = {
            title: np.repeat(array, n_items, axis=0).reshape(-1) for title, array in self.beside.items()
        }
        return make_frame({**columns, "value": self.values.reshape(-1), **beside}, like=self.like)

    def top(self, k: int, sign: str | None = None, layout: str = "long") -> Any:
        """The ``k`` largest by absolute value of each row and output: row, output, rank, item, value."""
        k = min(whole_number(k, "k"), self.values.shape[1])
        if sign not in (None, "up", "down") or layout not in ("long", "wide"):
            raise InputError(
                f"sign must be 'up', 'down' or None, layout 'long' or 'wide'; got {sign!r}, {layout!r}."
            )
        n_rows, n_items, n_outputs = self.values.shape
        by_output = self.values.transpose(0, 2, 1).reshape(n_rows * n_outputs, n_items)
        size = np.abs(by_output) if sign is None else by_output * (1 if sign == "up" else -1)
        order = np.argsort(-size, axis=1, kind="stable")[:, :k]
        line, place = np.nonzero(
            np.ones(order.shape, dtype=bool) if sign is None else _taken(size, order) > 0
        )
        item = order[line, place]
        columns: dict[str, Any] = {self.item: [self.names[i] for i in item.tolist()]}
        columns["value"] = by_output[line, item]
        if self.data is not None:
            cells = zip((line // n_outputs).tolist(), item.tolist(), strict=True)
            columns["data"] = [self.data[feature][row] for row, feature in cells]
        if layout == "wide":
            columns = spread(columns, line, place, len(by_output), k)
            line = np.arange(len(by_output))
        else:
            columns = {"rank": place + 1} | columns
        first = self._labels(line // n_outputs)
        if self.output_names is not None:
            first["output"] = [self.output_names[i] for i in (line % n_outputs).tolist()]
        return make_frame(first | columns, like=self.like)

    def _labels(self, rows: npt.NDArray[np.intp]) -> dict[str, Any]:
        return row_columns(self.row_labels, rows)


def row_columns(labels: Any, rows: npt.NDArray[np.intp]) -> dict[str, Any]:
    """The columns that say which rows these are: "row", or one for each level of a MultiIndex of pandas."""
    if labels is None:
        return {"row": rows}
    if getattr(labels, "nlevels", 1) == 1:
        return {"row": labels[rows]}
    titles = [f"row_{i}" if name is None else str(name) for i, name in enumerate(labels.names)]
    return {title: labels.get_level_values(i)[rows] for i, title in enumerate(titles)}


def spread(
    columns: Mapping[str, Any],
    line: npt.NDArray[np.intp],
    place: npt.NDArray[np.intp],
    n_lines: int,
    n_places: int,
) -> dict[str, list[Any]]:
    """Entries of a line beside each other, each in its place: ``value_1``, …; None where there is none."""
    found: dict[str, list[Any]] = {}
    for i in range(n_places):
        here = np.flatnonzero(place == i)
        for title, cells in columns.items():
            is_number = isinstance(cells, np.ndarray)
            column: list[Any] = [np.nan if is_number else None] * n_lines
            for entry in here.tolist():
                column[line[entry]] = cells[entry]
            found[f"{title}_{i + 1}"] = column
    return found


def whole_number(k: Any, name: str) -> int:
    """A number of things to show, which is at least one."""
    if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1:
        raise InputError(f"{name} must be a whole number of at least 1, got {k!r}.")
    return int(k)


def _taken(array: Array, order: npt.NDArray[np.intp]) -> Array:
    return np.take_along_axis(array, order, axis=1)


def ranked(
    item: str,
    names: Sequence[str],
    output_names: Sequence[str] | None,
    numbers: Mapping[str, Array],  # title → (n_items, n_outputs)
    *,
    by: Array,  # (n_items,) the largest comes first
    like: Any,
) -> Any:
    """A row per item and output: item, output if there are several, and its numbers."""
    return ranked_columns({item: names}, output_names, numbers, by=by, like=like)


def ranked_columns(
    items: Mapping[str, Sequence[str]],  # title → (n_items,), as many columns as name an item
    output_names: Sequence[str] | None,
    numbers: Mapping[str, Array],
    *,
    by: Array,
    like: Any,
) -> Any:
    """The same where several columns name an item."""
    order = np.argsort(-by, kind="stable")
    n_outputs = 1 if output_names is None else len(output_names)
    columns: dict[str, Any] = {
        title: _each([names[i] for i in order], n_outputs) for title, names in items.items()
    }
    if output_names is not None:
        columns["output"] = list(output_names) * len(order)
    columns.update({title: array[order].reshape(-1) for title, array in numbers.items()})
    return make_frame(columns, like=like)


def _each(names: Sequence[str], times: int) -> list[str]:
    """Every name that often, before the next one."""
    return [name for name in names for _ in range(times)]


def _unused(name: str, names: Sequence[str]) -> str:
    while name in names:
        name += "_"
    return name
