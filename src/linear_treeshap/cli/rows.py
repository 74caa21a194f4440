"""A model and a data file → batches of rows that the model's explainer takes, with their keys.

Columns are matched by name wherever the model knows names; others in the file are left alone. Text means in a
CSV or Parquet file what it means in a data frame: a category, if the model has labels for that column.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError, LinearTreeShapError
from ..explainer import TreeExplainer
from ..model.row_format import RowFormat
from ..rows.columns import Kind, codes_of_labels, labels_are_numbers, settled
from ..rows.frames import match_columns
from .data import NULLS, DataFile, open_data, require_arrow
from .models import Model

__all__ = ["Batch", "RowReader", "add_arguments"]

#: A batch has about this many numbers, of rows or of values: 16 MB. Within these bounds, in rows.
_NUMBERS_PER_BATCH = 1 << 21
_MIN_ROWS, _MAX_ROWS = 1 << 10, 1 << 16


@dataclass(frozen=True)
class Batch:
    """Some rows of a file."""

    first_row: int  # counted from 0
    rows: Any  # what TreeExplainer takes
    keys: Any  # an Arrow table of the key columns
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

    def __init__(self, model: Model, explainer: TreeExplainer, path: Path, keys: Sequence[str]) -> None:
        self.data: DataFile = open_data(path)
        self.keys = tuple(dict.fromkeys(keys))
        self._is_object = model.is_object
        self._transforms = _reads_raw_rows(explainer)
        self._columns = _columns_of(model, explainer, self.data, self.keys)
        self._row_format = explainer.ensemble.row_format
        if not self._transforms:
            self._row_format = _settled(self._row_format, self._columns, self.data)
        self._labelled = {} if self._transforms else _labelled_columns(self._columns, self._row_format)
        width = max(len(self._columns), explainer.players.n_players * explainer.ensemble.n_outputs, 1)
        self.batch_rows = min(max(_NUMBERS_PER_BATCH // width, _MIN_ROWS), _MAX_ROWS)

    def __iter__(self) -> Iterator[Batch]:
        """At least one batch, which is empty if the file has no rows."""
        first_row = 0
        for table, share in self._tables():
            yield self._batch(table, first_row, share)
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
        return self._batch(table, 0, 1.0), positions, n_read

    def _tables(self) -> Iterator[tuple[Any, float]]:
        """Arrow tables of keys and features, at least one, and the share of the file read so far."""
        wanted = list(dict.fromkeys([*self.keys, *self._columns]))
        labelled = self._labelled.items()
        texts = {name for name, feature in labelled if _labels_are_texts(self._row_format, feature)}
        texts.update(key for key in self.keys if key not in self._columns)
        numbers = set() if self._transforms else {*self._columns} - {*self._labelled}
        is_empty = True
        for table_and_share in self.data.batches(wanted, self.batch_rows, texts=texts, numbers=numbers):
            is_empty = False
            yield table_and_share
        if is_empty:
            yield self.data.schema.empty_table().select(wanted), 1.0

    def _batch(self, table: Any, first_row: int, share: float) -> Batch:
        keys = _plain(table.select(list(self.keys)))
        return Batch(first_row, self._rows(table.select(self._columns)), keys, share)

    def named(self, error: Exception, first_row: int) -> Exception:
        """The same error with the place in the file, of which errors about a batch know nothing."""
        where = f"{str(self.data.path)!r}, rows from {first_row:,} on"
        if isinstance(error, LinearTreeShapError):
            return error if str(self.data.path) in str(error) else type(error)(f"{where}: {error}")
        if self._transforms:  # with the user's own steps, which may say anything
            return InputError(f"{where}: the model itself does not take these rows: {error}")
        return error

    def _holds_labels(self, name: str) -> bool:
        """Are the numbers of this column labels? In a file without types they are no codes."""
        is_known = labels_are_numbers(self._row_format, self._labelled[name])
        return is_known and self._row_format.numbers_are_codes and not self.data.has_types

    def _rows(self, table: Any) -> Any:
        """What the explainer takes: Arrow, or pandas where a library wants to see the rows too."""
        arrow = require_arrow()
        for position, name in enumerate(table.column_names):
            column = table.column(position)
            is_text = arrow.types.is_string(column.type) or arrow.types.is_large_string(column.type)
            if is_text and not self.data.has_types:
                column = _without_nulls(column, self._row_format, self._labelled.get(name))
            if name in self._labelled:
                if (is_text and self._is_object) or self._holds_labels(name):
                    column = column.dictionary_encode()  # libraries know categories by this type
            elif arrow.types.is_dictionary(column.type) and not self._transforms:
                # Without known labels their order would decide, and that differs from file to file.
                column = column.cast(column.type.value_type)
            elif arrow.types.is_null(column.type):
                column = column.cast(arrow.float64())
            table = table.set_column(position, name, column)
        if not self._is_object or find_spec("pandas") is None:
            return table
        frame = table.to_pandas()
        if not self.data.has_types:
            # A missing text is None to Arrow and older pandas, but NaN where pandas reads CSV itself.
            for name in (name for name in frame.columns if frame[name].dtype.name == "object"):
                frame[name] = frame[name].where(frame[name].notna(), np.nan)
        return frame


def _reads_raw_rows(explainer: TreeExplainer) -> bool:
    """Is the model a pipeline, which transforms rows before its trees read them?"""
    from ..importers.pipelines.preprocessing import preprocessing_of

    return preprocessing_of(explainer.model) is not None


def _columns_of(model: Model, explainer: TreeExplainer, data: DataFile, keys: Sequence[str]) -> list[str]:
    """The columns of the file that the model reads, in the order of the file."""
    absent = [key for key in keys if key not in data.names]
    if absent:
        raise InputError(f"{str(data.path)!r} has no column {absent[0]!r} to be a key. {_names(data)}")
    raw = _reads_raw_rows(explainer)
    names = getattr(model.content, "feature_names_in_", None) if raw else explainer.ensemble.feature_names
    known = set() if names is None else set(names)
    knows = known.__contains__ if raw else explainer.ensemble.row_format.knows
    matched = [name for name in data.names if knows(name)]
    chosen = matched or [name for name in data.names if name not in keys]
    if raw:
        missing = [name for name in ([] if names is None else names) if name not in chosen]
        if missing:
            raise InputError(
                f"{str(data.path)!r} has no column {missing[0]!r}, which the model reads. {_names(data)}"
            )
        return chosen
    try:
        match_columns(chosen, explainer.ensemble.row_format)
    except InputError as error:
        hint = "" if matched else " Columns named with --key are not features."
        raise InputError(f"{str(data.path)!r} does not fit the model: {error}{hint}") from error
    return chosen


def _names(data: DataFile) -> str:
    shown = ", ".join(map(repr, data.names[:10]))
    return f"It has: {shown}{', …' if len(data.names) > 10 else ''}."


def _settled(row_format: RowFormat, columns: Sequence[str], data: DataFile) -> RowFormat:
    """The format with its labels where they belong, by the types that the columns have in the file."""
    types = require_arrow().types

    def kind(name: str) -> Kind:
        found = data.schema.field(name).type
        if types.is_dictionary(found):
            return "category"
        return "text" if types.is_string(found) or types.is_large_string(found) else "number"

    if not row_format.frame_labels:
        return row_format
    order = match_columns(columns, row_format)
    return settled(row_format, [kind(columns[at]) for at in order], has_types=data.has_types)


def _labelled_columns(columns: Sequence[str], row_format: RowFormat) -> dict[str, int]:
    """The columns whose categories the model knows by label, and the feature that each is."""
    order = match_columns(columns, row_format)
    return {columns[order[feature]]: feature for feature in sorted(row_format.labelled)}


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


def _plain(table: Any) -> Any:
    """Key columns without dictionaries, which may differ from batch to batch."""
    arrow = require_arrow()
    for position, field in enumerate(table.schema):
        if arrow.types.is_dictionary(field.type):
            table = table.set_column(position, field.name, table.column(position).cast(field.type.value_type))
    return table
