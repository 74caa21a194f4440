"""Named arrays → data frames: wide, long, the largest of each row, and the largest over all rows.

The frames are of the user's own library, see `make_frame`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..rows.tables import make_frame

__all__ = ["NamedArray", "ranked"]

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
        labels = None if self.row_labels is None else self.row_labels.repeat(n_outputs)
        return make_frame(columns, like=self.like, row_labels=labels)

    def long(self) -> Any:
        """A row per value: row, item, output if there are several, value."""
        n_rows, n_items, n_outputs = self.values.shape
        columns: dict[str, Any] = {
            "row": self._labels(n_items * n_outputs),
            self.item: _each(self.names, n_outputs) * n_rows,
        }
        if self.output_names is not None:
            columns["output"] = list(self.output_names) * (n_rows * n_items)
        return make_frame({**columns, "value": self.values.reshape(-1)}, like=self.like)

    def top(self, k: int) -> Any:
        """The ``k`` largest by absolute value of each row and output: row, output, rank, item, value."""
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1:
            raise InputError(f"k must be a whole number of at least 1, got {k!r}.")
        by_output = self.values.transpose(0, 2, 1)
        n_rows, n_outputs, n_items = by_output.shape
        k = min(int(k), n_items)
        largest = np.argsort(-np.abs(by_output), axis=-1, kind="stable")[..., :k]
        columns: dict[str, Any] = {"row": self._labels(n_outputs * k)}
        if self.output_names is not None:
            columns["output"] = _each(self.output_names, k) * n_rows
        columns["rank"] = np.tile(np.arange(1, k + 1), n_rows * n_outputs)
        columns[self.item] = [self.names[i] for i in largest.reshape(-1).tolist()]
        columns["value"] = np.take_along_axis(by_output, largest, axis=-1).reshape(-1)
        return make_frame(columns, like=self.like)

    def _labels(self, times: int) -> Any:
        """The label of each row, as often as asked."""
        labels = np.arange(len(self.values)) if self.row_labels is None else self.row_labels
        return labels.repeat(times)


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
    order = np.argsort(-by, kind="stable")
    n_outputs = 1 if output_names is None else len(output_names)
    columns: dict[str, Any] = {item: _each([names[i] for i in order], n_outputs)}
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
