"""Tables of rows in, sums of their values out, by segment if asked: what workers send back for a global view.

Sums are exact, so they add up to the same bits in any order, and importances for any cut of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypedDict

import numpy as np

from ..engines.sets import Kind
from ..errors import InputError
from ..explainer import TreeExplainer
from ..importance import Labelled, importance_of, interactions_of
from ..results.sums import BySegment, GlobalImportance, GlobalInteractions
from .batch_explainer import rows_per_batch, used_beside
from .columns import ModelColumns

__all__ = ["BatchSums", "Found", "ImportanceOptions", "InteractionOptions"]

Found = GlobalImportance | GlobalInteractions | BySegment[Any]


class ImportanceOptions(TypedDict, total=False):
    """What can be asked of a global importance; the defaults are those of `BatchSums`."""

    by: str | None
    check_additivity: bool | float


class InteractionOptions(TypedDict, total=False):
    """The same of global interactions."""

    index: Kind | None
    by: str | None
    check_additivity: bool | float


class BatchSums:
    """What is summed up over tables of one schema; it can be pickled, and sent to where the rows are."""

    def __init__(
        self,
        columns: ModelColumns,
        *,
        by: str | None = None,
        order: int | None = None,  # of interactions; None for importance
        index: Kind | None = None,
        check_additivity: bool | float = True,
    ) -> None:
        link = columns.explainer._link
        if link is not None and link.needs_y:
            raise InputError(
                "Means of losses are taken of values by row: explain rows with y=, and average these."
            )
        self.columns = columns
        self._by = by
        self._order, self._index = order, index
        self._check_additivity = check_additivity
        self._batch_rows = rows_per_batch(columns.explainer, columns)

    @classmethod
    def of(cls, explainer: TreeExplainer, schema: Any, *, source: str, **asked: Any) -> BatchSums:
        """Those of an explainer, whose columns are looked for in tables of this schema."""
        columns = ModelColumns(explainer, schema, used_beside([], asked.get("by")), source=source)
        return cls(columns, **asked)

    @property
    def reads(self) -> list[str]:
        """The columns that a table must have: all others may be left out."""
        return list(dict.fromkeys([*used_beside([], self._by), *self.columns.names]))

    def __call__(self, tables: Iterable[Any]) -> Found:
        """The sums over all rows of these Arrow tables, of which there may be none."""
        explainer, check = self.columns.explainer, self._check_additivity
        found: dict[Any, Any]
        if self._order is None:
            found = importance_of(explainer, self._labelled(tables), check_additivity=check)
        else:
            found = interactions_of(
                explainer, self._labelled(tables), self._order, index=self._index, check_additivity=check
            )
        return found[None] if self._by is None else BySegment(self._by, found)

    def _labelled(self, tables: Iterable[Any]) -> Iterator[Labelled]:
        for table in tables:
            for start in range(0, table.num_rows, self._batch_rows):
                part = table.slice(start, self._batch_rows)
                labels = None
                if self._by is not None:
                    labels = np.empty(part.num_rows, dtype=object)
                    labels[:] = part.column(self._by).to_pylist()
                yield self.columns.rows(part), labels
