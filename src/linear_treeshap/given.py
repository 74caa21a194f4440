"""What a user gave to be explained: a table whose columns may be in any order, read slice by slice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .ensemble import TreeEnsemble
from .frames import column_names, match_columns
from .rows import Rows, read_rows
from .tables import as_table, take_columns

__all__ = ["Given"]

#: Rows that have to be copied or made dense are read in slices of about this many bytes.
_SLICE_BYTES = 1 << 26
#: Fewer rows than this at once would leave threads and lanes idle.
_MIN_SLICE_ROWS = 1024


@dataclass(frozen=True)
class Given:
    """The user's rows, as a table of the model's columns and as numbers to read."""

    rows: Rows
    table: Any  # two-dimensional, columns in the model's order
    shown: Any  # the same with columns in the user's order, or the numbers of a library's own container
    order: list[int] | None  # the user's column for each feature; None if they are the same
    names: tuple[str, ...] | None  # of the user's columns
    is_one_row: bool  # of one dimension

    @classmethod
    def of(cls, X: Any, ensemble: TreeEnsemble) -> Given:
        """Match the columns of ``X`` with the model's; an InputError says what does not fit."""
        shown, is_one_row = as_table(X)
        names = column_names(shown)
        order = None if names is None else match_columns(names, ensemble.row_format)
        if order == list(range(ensemble.n_features)):
            order = None
        table = shown if order is None else take_columns(shown, order)
        rows = read_rows(table, ensemble.row_format)
        if names is None and not isinstance(shown, np.ndarray) and not hasattr(shown, "tocsr"):
            shown = rows[0 : rows.n_rows]  # a DMatrix or Pool cannot be cut or shown
        return cls(rows, table, shown, order, names, is_one_row)

    def slices(self, *, numbers_per_row: int) -> Iterator[slice]:
        """All rows in slices that fit into memory next to what is there already."""
        step = max(_MIN_SLICE_ROWS, _SLICE_BYTES // (8 * max(1, numbers_per_row)))
        for start in range(0, self.rows.n_rows, step):
            yield slice(start, min(start + step, self.rows.n_rows))
