"""An explainer and a data file → batches of rows that the explainer takes, with their keys.

Which columns are read, and what their text means, is as in any other stream. A file without types is given
them here: what is missing, what is a number, and which numbers are labels.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError, LinearTreeShapError
from ..explainer import TreeExplainer
from ..model.row_format import RowFormat
from ..rows.columns import codes_of_labels, labels_are_numbers
from ..streams.arrow import is_text, require_arrow
from ..streams.batch_explainer import rows_per_batch
from ..streams.columns import ModelColumns
from .data import NULLS, DataFile, open_data

__all__ = ["Batch", "RowReader", "add_arguments"]


@dataclass(frozen=True)
class Batch:
    """Some rows of a file."""

    first_row: int  # counted from 0
    rows: Any  # what TreeExplainer takes
    table: Any  # the Arrow table of the same rows, with their keys
    share: float  # of the file that has been read when this batch is done


def add_arguments(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """The rows, and which columns are not features."""
    parser.add_argument(
        "data",
        metavar="DATA",
        type=Path,
        nargs="?" if optional else None,
        help="rows: Parquet, Feather or CSV; columns are matched by name, and those that the model does not "
        "read are left alone",
    )
    parser.add_argument(
        "--key",
        metavar="COLUMN",
        action="append",
        default=[],
        help="a column that is no feature and identifies a row; may be given several times",
    )


def add_check_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-check",
        dest="check",
        action="store_false",
        help="do not compare the sums of values with predictions",
    )


def add_progress_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="show a progress bar (default: on a terminal)",
    )


def shows_progress(args: argparse.Namespace) -> bool:
    return sys.stderr.isatty() if args.progress is None else bool(args.progress)


class RowReader:
    """The rows of a file, batch after batch. What does not fit is said before the first one is read."""

    def __init__(self, explainer: TreeExplainer, path: Path, keys: Sequence[str]) -> None:
        self.data: DataFile = open_data(path)
        self.keys = tuple(dict.fromkeys(keys))
        self.columns = ModelColumns(
            explainer, self.data.schema, self.keys, has_types=self.data.has_types, source=repr(str(path))
        )
        self.batch_rows = rows_per_batch(explainer, self.columns)

    @property
    def schema(self) -> Any:
        """That of the tables that are read: keys and features."""
        return self.data.typed(*self._asked())

    def __iter__(self) -> Iterator[Batch]:
        """At least one batch, which is empty if the file has no rows."""
        first_row = 0
        for table, share in self._tables():
            yield Batch(first_row, self._rows(table), table, share)
            first_row += table.num_rows

    def sample(self, n_rows: int) -> tuple[Batch, npt.NDArray[np.int64], int]:
        """As many rows, drawn at random from the whole file, in its order; where they were; how many it has.

        Every row draws a number, and those of the smallest stay. The numbers are the same each time.
        """
        arrow, draw = require_arrow(), np.random.default_rng(0).random
        drawn, positions, kept = np.empty(0), np.empty(0, dtype=np.int64), []
        n_read = 0
        for table, _ in self._tables():
            drawn = np.append(drawn, draw(table.num_rows))
            positions = np.append(positions, n_read + np.arange(table.num_rows))
            kept.append(table)
            n_read += table.num_rows
            if len(drawn) > n_rows:
                smallest = np.sort(np.argpartition(drawn, n_rows)[:n_rows])
                drawn, positions = drawn[smallest], positions[smallest]
                # Of categories only the labels are the same in all batches.
                kept = [arrow.concat_tables(kept).unify_dictionaries().take(smallest)]
        table = arrow.concat_tables(kept).unify_dictionaries().combine_chunks()
        return Batch(0, self._rows(table), table, 1.0), positions, n_read

    def _asked(self) -> tuple[list[str], set[str], set[str]]:
        """The columns to read, and of a file without types, which hold text and which hold numbers."""
        columns = self.columns
        labelled = columns.labelled.items()
        texts = {name for name, feature in labelled if _labels_are_texts(columns.row_format, feature)}
        texts.update(key for key in self.keys if key not in columns.names)
        numbers = set() if columns.transforms else {*columns.names} - {*columns.labelled}
        return list(dict.fromkeys([*self.keys, *columns.names])), texts, numbers

    def _tables(self) -> Iterator[tuple[Any, float]]:
        """Arrow tables of keys and features, at least one, and the share of the file read so far."""
        wanted, texts, numbers = self._asked()
        is_empty = True
        for table_and_share in self.data.batches(wanted, self.batch_rows, texts=texts, numbers=numbers):
            is_empty = False
            yield table_and_share
        if is_empty:
            yield self.schema.empty_table(), 1.0

    def named(self, error: Exception, first_row: int) -> Exception:
        """The same error with the place in the file, of which errors about a batch know nothing."""
        where = f"{str(self.data.path)!r}, rows from {first_row:,} on"
        if isinstance(error, LinearTreeShapError):
            return error if str(self.data.path) in str(error) else type(error)(f"{where}: {error}")
        if self.columns.transforms:  # with the user's own steps, which may say anything
            return InputError(f"{where}: the model itself does not take these rows: {error}")
        return error

    def _rows(self, table: Any) -> Any:
        """What the explainer takes."""
        if self.data.has_types:
            return self.columns.rows(table)
        row_format, labelled = self.columns.row_format, self.columns.labelled
        for name in self.columns.names:
            column = table.column(name)
            if is_text(column.type):
                column = _without_nulls(column, row_format, labelled.get(name))
            if name in labelled and _holds_labels(row_format, labelled[name]):
                column = column.dictionary_encode()  # libraries know categories by this type
            table = table.set_column(table.column_names.index(name), name, column)
        rows = self.columns.rows(table)
        if not isinstance(rows, require_arrow().Table):
            # A missing text is None to Arrow and older pandas, but NaN where pandas reads CSV itself.
            for name in (name for name in rows.columns if rows[name].dtype.name == "object"):
                rows[name] = rows[name].where(rows[name].notna(), np.nan)
        return rows


def _holds_labels(row_format: RowFormat, feature: int) -> bool:
    """Are the numbers of this column labels? In a file without types they are no codes."""
    return labels_are_numbers(row_format, feature) and row_format.numbers_are_codes


def _labels_are_texts(row_format: RowFormat, feature: int) -> bool:
    """Of hashed labels nothing is known but that they were text when they were hashed."""
    return all(isinstance(label, str) for label in row_format.categories.get(feature, ()))


def _without_nulls(column: Any, row_format: RowFormat, feature: int | None) -> Any:
    """Text that stands for a missing value becomes one, unless it is a category that the model knows."""
    import pyarrow.compute

    arrow = require_arrow()
    nulls = NULLS
    if feature is not None:
        is_known = ~np.isnan(codes_of_labels(NULLS, row_format, feature))
        nulls = [text for text, known in zip(NULLS, is_known, strict=True) if not known]
    is_null = pyarrow.compute.is_in(column, value_set=arrow.array(nulls, arrow.string()))
    return pyarrow.compute.if_else(is_null, arrow.scalar(None, arrow.string()), column)
