"""What happens to a batch of rows, wherever it is: `BatchExplainer`, and the options it has everywhere.

It is made where the schema of the rows is known, so that what does not fit is said there; it can be pickled,
and sent to wherever the rows are.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, TypedDict

import numpy as np

from ..engines.sets import Kind
from ..engines.values import as_among_many
from ..errors import InputError
from ..explainer import TreeExplainer
from ..results.axes import names_of
from ..results.interactions import in_order, set_names
from .columns import ModelColumns
from .layout import Layout, Output

__all__ = ["BatchExplainer", "Options", "output_position", "rows_per_batch", "used_beside"]

#: A batch has about this many numbers, of rows or of values: 16 MB. Within these bounds, in rows.
_NUMBERS_PER_BATCH = 1 << 21
_MIN_ROWS, _MAX_ROWS = 1 << 10, 1 << 16


class Options(TypedDict, total=False):
    """What can be asked of everything that explains batches; the defaults are those of `BatchExplainer`."""

    output: Output
    keep: Sequence[str]
    prefix: str
    column: str
    top: int
    only: str | int | None
    order: int | None
    index: Kind | None
    base_values: bool
    dtype: str
    y: str | None
    check_additivity: bool | float


class BatchExplainer:
    """A table of rows in, a table of their values out; what the options mean is said by `explain_batches`."""

    def __init__(
        self,
        columns: ModelColumns,
        schema: Any,  # of the tables that come
        *,
        output: Output = "columns",
        keep: Sequence[str] = (),
        prefix: str = "",
        column: str = "shap",
        top: int = 5,
        only: str | int | None = None,
        order: int | None = None,
        index: Kind | None = None,
        base_values: bool = False,
        dtype: str = "float64",
        y: str | None = None,
        check_additivity: bool | float = True,
        numbers_rows: bool = True,  # do rows come in an order that means something?
    ) -> None:
        self.columns = columns
        self.explainer = explainer = columns.explainer
        self.keep = tuple(used_beside(keep))
        self._y = y
        needs_y = explainer._link is not None and explainer._link.needs_y
        if needs_y != (y is not None):
            raise InputError(_about_y(explainer, y))
        self._order, self._index = order, index
        self._check_additivity = check_additivity
        self._only = output_position(only, explainer)
        outputs = names_of(explainer.output_names, "Output", explainer.n_outputs)
        item, names = self._items()
        self.layout = Layout(
            output,
            [schema.field(name) for name in self.keep],
            item,
            names,
            outputs if len(outputs) > 1 and self._only is None else None,
            dtype,
            prefix,
            column,
            top,
            base_values,
            numbers_rows,
        )
        self.batch_rows = rows_per_batch(explainer, columns, len(names))

    @classmethod
    def of(
        cls,
        explainer: TreeExplainer,
        schema: Any,
        options: Options,
        *,
        source: str = "The table",
        numbers_rows: bool = True,
    ) -> BatchExplainer:
        """That of an explainer, whose columns are looked for in tables of this schema."""
        beside = used_beside(options.get("keep", ()), options.get("y"))
        columns = ModelColumns(explainer, schema, beside, source=source)
        return cls(columns, schema, **options, numbers_rows=numbers_rows)

    @property
    def schema(self) -> Any:
        """That of every table that comes out."""
        return self.layout.schema

    @property
    def reads(self) -> list[str]:
        """The columns that a table must have: all others may be left out."""
        return list(dict.fromkeys([*used_beside(self.keep, self._y), *self.columns.names]))

    def keeping_types(self, schema: Any) -> BatchExplainer:
        """The same for tables whose keys have the types of this schema, where they were not known before."""
        other = copy(self)
        other.layout = replace(self.layout, keys=[schema.field(name) for name in self.keep])
        return other

    def __call__(self, table: Any, first_row: int = 0) -> Any:
        """The values of the rows of an Arrow table, the first of which has this number."""
        return self.of_rows(self.columns.rows(table) if table.num_rows else None, table, first_row)

    def of_rows(self, rows: Any, table: Any, first_row: int = 0) -> Any:
        """The values of ``rows``, which are those of the table as the explainer takes them."""
        if table.num_rows == 0:  # which a pipeline need not take
            return self.schema.empty_table()
        y = None if self._y is None else table.column(self._y).to_numpy()
        values, base_values = self._values(rows, y)
        if self._only is not None:
            values, base_values = values[:, :, [self._only]], base_values[:, [self._only]]
        return self.layout.table(values, base_values, table, first_row)

    def _values(self, rows: Any, y: Any) -> tuple[Any, Any]:
        """(n_rows, n_items, n_outputs) in the order of the layout's names, and (n_rows, n_outputs)."""
        if self._order is None:
            with as_among_many():
                found = self.explainer(rows, y, check_additivity=self._check_additivity)
            if found.feature_names != tuple(self.layout.names):
                raise InputError(
                    f"The pipeline gave the columns {', '.join(found.feature_names[:10])}, where it had said "
                    f"{', '.join(self.layout.names[:10])}."
                )
            return found.full, found.full_base_values
        sets = self.explainer.interactions(
            rows, self._order, index=self._index, check_additivity=self._check_additivity
        )
        values = sets.values if sets.values.ndim == 3 else sets.values[:, :, np.newaxis]
        return values, np.broadcast_to(sets.base_values, (len(values), len(sets.base_values)))

    def _items(self) -> tuple[str, tuple[str, ...]]:
        """What values are given to, and the names of all of these."""
        names = self.columns.player_names
        if self._order is None:
            return "feature", names
        _, engine = self.explainer._set_engine(self._index, self._order)
        sets, _ = in_order(engine.sets, np.empty((0, len(engine.sets), 1)), self.columns.player_order)
        return "features", set_names(sets, names)


def rows_per_batch(explainer: TreeExplainer, columns: ModelColumns, n_items: int = 0) -> int:
    """How many rows are explained at a time: a batch is that large, whatever the model."""
    n_items = max(n_items, explainer.players.n_players)
    width = max(len(columns.names), n_items * explainer.n_outputs, 1)
    return min(max(_NUMBERS_PER_BATCH // width, _MIN_ROWS), _MAX_ROWS)


def used_beside(keep: str | Sequence[str], y: str | None = None) -> list[str]:
    """The columns that are used beside those of the model, each once."""
    kept = [keep] if isinstance(keep, str) else keep
    return list(dict.fromkeys([*kept, *([] if y is None else [y])]))


def output_position(only: str | int | None, explainer: TreeExplainer) -> int | None:
    """Which output was asked for; None for all, and where there is but one."""
    if only is None:
        return None
    names = explainer.output_names or tuple(map(str, range(explainer.n_outputs)))
    numbers = [str(number) for number in range(explainer.n_outputs)]
    asked = str(only)
    if asked not in names and asked not in numbers:
        raise InputError(f"The model has no output {asked!r}. It has: {', '.join(map(repr, names[:20]))}.")
    position = names.index(asked) if asked in names else numbers.index(asked)
    return position if explainer.n_outputs > 1 else None


def _about_y(explainer: TreeExplainer, y: str | None) -> str:
    what = f"model_output={explainer.model_output!r}"
    if y is None:
        return f"{what} needs the true outcome of each row: name its column, y=."
    return f"y={y!r} names true outcomes, which {what} does not need."
