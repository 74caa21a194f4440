"""Values of some rows → an Arrow table of one of four layouts, whose schema is known before the first row.

- "columns": a column per feature; a line per row, and per output if there are several;
- "struct": one column, in which each row has its values by name; several outputs are structs in it;
- "long": a line per value;
- "top": a line for each of the largest values of a row.

What comes beside the values (keys, base values) comes first, and no two columns share a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..results.layout import NamedArray
from .arrow import plain_type, require_arrow

__all__ = ["Layout", "Output"]

Output = Literal["columns", "struct", "long", "top"]
Array = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Layout:
    """How values are laid out, with the names of all there is: it can be sent to where the rows are."""

    output: Output
    keys: Sequence[Any]  # Arrow fields of the columns that identify a row
    item: str  # "feature", or "features" of sets of them
    names: Sequence[str]
    outputs: Sequence[str] | None  # None if the only output needs no name
    dtype: str = "float64"
    prefix: str = ""  # of the columns of values
    column: str = "shap"  # that structs are in
    top: int = 5
    base_values: bool = False
    numbers_rows: bool = True  # does the number of a row say which one it is, where there are no keys?
    schema: Any = field(init=False)

    def __post_init__(self) -> None:
        if self.output not in get_args(Output):
            raise InputError(f"output must be one of {', '.join(get_args(Output))}, got {self.output!r}.")
        if self.dtype not in ("float64", "float32"):
            raise InputError(f"dtype must be 'float64' or 'float32', got {self.dtype!r}.")
        if self.prefix and self.output != "columns":
            raise InputError(f"prefix is for the columns of output='columns', got {self.output!r}.")
        if self.output in ("long", "top") and not self.keys and not self.numbers_rows:
            raise InputError(
                f"output={self.output!r} has several lines for a row, and nothing here numbers rows. Say "
                f"which columns tell them apart: keep=['id'], for instance."
            )
        fields = self._fields()
        names = [one.name for one in fields]
        twice = [name for place, name in enumerate(names) if name in names[:place]]
        if twice:
            raise InputError(
                f"The output would have two columns of the name {twice[0]!r}. Rename the one in the data, or "
                f"choose {'a prefix' if self.output == 'columns' else 'another layout'}."
            )
        object.__setattr__(self, "schema", require_arrow().schema(fields))

    @property
    def lines_per_row(self) -> int:
        """How many lines a row has."""
        n_outputs = 1 if self.outputs is None else len(self.outputs)
        n_items = {"long": len(self.names), "top": min(self.top, len(self.names))}
        return 1 if self.output == "struct" else n_outputs * n_items.get(self.output, 1)

    def table(self, values: Array, base_values: Array, keys: Any, first_row: int) -> Any:
        """The lines of (n_rows, n_items, n_outputs) values, whose rows are numbered from ``first_row`` on."""
        arrow = require_arrow()
        n_rows = len(values)
        values, base_values = (x.astype(self.dtype, copy=False) for x in (values, base_values))
        if self.output == "struct":
            lines = [self._structs(values, base_values)]
        else:
            lines = self._lines(values, first_row).columns
            if self.base_values:
                lines = [arrow.array(self._base_of_lines(base_values)), *lines]
        kept = [keys.column(one.name) for one in self.keys]
        if self.lines_per_row != 1:
            of_line = arrow.array(np.repeat(np.arange(n_rows), self.lines_per_row))
            kept = [column.take(of_line) for column in kept]
        columns = [*kept, *lines]
        casts = zip(columns, self.schema, strict=True)
        return arrow.table([column.cast(one.type) for column, one in casts], schema=self.schema)

    def _lines(self, values: Array, first_row: int) -> Any:
        """What `results.layout` makes of the values, less the number of the row where keys say it."""
        numbers = first_row + np.arange(len(values))
        like = require_arrow().table({"": []})
        named = NamedArray(values, self.item, self.names, self.outputs, numbers, like)
        if self.output == "columns":
            return named.wide()
        table = named.top(self.top) if self.output == "top" else named.long()
        return table.drop_columns(["row"]) if self.keys else table

    def _structs(self, values: Array, base_values: Array) -> Any:
        arrow = require_arrow()
        of_outputs = []
        for output in range(values.shape[2]):
            columns = [arrow.array(np.ascontiguousarray(column)) for column in values[:, :, output].T]
            if self.base_values:
                columns.append(arrow.array(np.ascontiguousarray(base_values[:, output])))
            of_outputs.append(arrow.StructArray.from_arrays(columns, fields=list(self._struct_of_values)))
        if self.outputs is None:
            return of_outputs[0]
        return arrow.StructArray.from_arrays(of_outputs, names=list(self.outputs))

    def _base_of_lines(self, base_values: Array) -> Array:
        """Lines go by row and output (columns), row, item, output (long), or row, output, rank (top)."""
        times = self.lines_per_row // base_values.shape[1]
        axis = 2 if self.output == "top" else 1
        return np.repeat(np.expand_dims(base_values, axis), times, axis=axis).reshape(-1)

    def _fields(self) -> list[Any]:
        arrow = require_arrow()
        number, text = arrow.float32() if self.dtype == "float32" else arrow.float64(), arrow.string()
        keys = [arrow.field(one.name, plain_type(one.type)) for one in self.keys]
        if self.output == "struct":
            kind = arrow.struct(self._struct_of_values)
            if self.outputs is not None:
                kind = arrow.struct([(name, kind) for name in self.outputs])
            return [*keys, arrow.field(self.column, kind)]
        lines = [("base_value", number)] if self.base_values else []
        output = [] if self.outputs is None else ["output"]
        if self.output == "columns":
            while output and output[0] in self.names:  # as `results.layout` calls it
                output = [f"{output[0]}_"]
            lines += [*((name, text) for name in output), *((self.prefix + n, number) for n in self.names)]
        else:
            lines += [] if self.keys else [("row", arrow.int64())]
            lines += [(self.item, text)] if self.output == "long" else []
            lines += [(name, text) for name in output]
            lines += [("rank", arrow.int64()), (self.item, text)] if self.output == "top" else []
            lines += [("value", number)]
        return [*keys, *(arrow.field(*line) for line in lines)]

    @property
    def _struct_of_values(self) -> Any:
        arrow = require_arrow()
        number = arrow.float32() if self.dtype == "float32" else arrow.float64()
        names = [*self.names, *(["base_value"] if self.base_values else [])]
        return arrow.struct([(name, number) for name in names])
