"""What a user gave to be explained: a table whose columns may be in any order, read slice by slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..importers import read_rows
from ..importers.pipelines.preprocessing import Preprocessing
from ..model.ensemble import TreeEnsemble
from ..model.row_format import RowFormat
from ..rows.frames import column_names, is_frame
from ..rows.rows import Rows
from ..rows.tables import (
    as_table,
    is_plain_pandas,
    make_frame,
    n_categories,
    named_row,
    pandas_index,
    take_columns,
    take_rows,
)
from .assignment import Assignment
from .onehot import check_rows
from .player_table import table_of_players
from .players import Players

__all__ = ["UserRows"]

Numbers = npt.NDArray[np.int64]

#: Rows that have to be copied or made dense are read in slices of about this many bytes.
_SLICE_BYTES = 1 << 26
#: Are these really one-hot? That many rows are looked at.
_CHECKED_ROWS = 1024
#: Fewer rows than this at once would leave threads and lanes idle.
_MIN_SLICE_ROWS = 1024


@dataclass(eq=False)  # not frozen, as one is made for every single row that is served
class UserRows:
    """The user's rows, as numbers for the trees to read and as a table of the players to show."""

    rows: Rows
    raw: Any  # two-dimensional, as it came
    table: Any  # two-dimensional, the columns that the trees read, in the model's order
    shown: Any  # the columns that players are made of; in the user's order where each is a player
    order: list[int] | None  # the user's column for each of the model's; None if they are the same
    names: tuple[str, ...] | None  # of the players, if they have any
    is_one_row: bool  # of one dimension
    n_columns: int  # that the trees read
    groups: Players | None = None  # where columns are not the players
    predicted: npt.NDArray[np.float64] | None = None  # by the model's own library, once it was asked for all

    @classmethod
    def of(
        cls,
        X: Any,
        ensemble: TreeEnsemble,
        preprocessing: Preprocessing | None,
        assignment: Assignment,
        model: Any = None,
    ) -> UserRows:
        """Match the columns of ``X`` with the model's; an InputError says what does not fit.

        The ``model``, where it is at hand, reads containers of its library that we cannot.
        """
        takes_strings = preprocessing is not None and preprocessing.takes_strings
        X = named_row(X)
        raw, is_one_row = (_strings(X), False) if takes_strings else as_table(X)
        if preprocessing is None:
            X, raw = _without_others(X, raw, ensemble.row_format)
        shown = raw if preprocessing is None else preprocessing.transform(raw)
        names = column_names(shown)
        # One row is read as such: a column given by mistake is told from a row, and a row of a frame has lost
        # the types of its columns.
        is_itself = is_one_row and preprocessing is None
        rows = read_rows(_one_row(X, raw) if is_itself else shown, ensemble, model)
        order = None if rows.order is None else list(rows.order)
        if order is not None and order == list(range(ensemble.n_features)):
            order = None
        table = shown if rows.frame is None else rows.frame
        table = table if order is None else take_columns(table, order)
        if names is None and not isinstance(shown, np.ndarray) and not hasattr(shown, "tocsr"):
            shown = None if rows.are_answers else rows[0 : rows.n_rows]  # a DMatrix or Pool cannot be cut
        user_rows = cls(rows, raw, table, shown, order, names, is_one_row, ensemble.n_columns)
        user_rows = user_rows._in_raw_columns(assignment) if assignment.is_raw else user_rows
        return user_rows if assignment.of_rows.are_columns else user_rows._in_groups(assignment.of_rows)

    def _in_raw_columns(self, assignment: Assignment) -> UserRows:
        """As `of` finds it for other models: columns as the user has them, if they are all there."""
        names, trained = column_names(self.raw), assignment.raw_names
        if names is None or trained is None:
            return replace(self, shown=None if self.is_container else self.raw, order=None, names=names)
        if set(names) != set(trained) or len(names) != len(trained):
            # A ColumnTransformer does without columns that it drops, and does not mind others.
            return replace(self, shown=_columns_named(self.raw, names, trained), order=None, names=trained)
        position = {name: place for place, name in enumerate(names)}
        order = None if names == trained else [position[name] for name in trained]
        return replace(self, shown=self.raw, order=order, names=names)

    def _in_groups(self, players: Players) -> UserRows:
        """The order and the names of groups are their own, whatever those of the columns."""
        if players.is_guess:
            check_rows(players, self.rows[:_CHECKED_ROWS])
        in_order = self.shown if self.order is None else take_columns(self.shown, self.order)
        return replace(self, shown=in_order, order=None, names=tuple(players.names), groups=players)

    @property
    def n_rows(self) -> int:
        return self.rows.n_rows

    @property
    def row_labels(self) -> Any:
        """The labels of the rows, if they came from pandas."""
        return pandas_index(self.raw) if self.rows.row_labels is None else self.rows.row_labels

    def for_library(self, row_format: RowFormat, rows: Numbers | None = None) -> Any:
        """The table, or only these of its rows, in a shape that the model's own library takes: we take more
        kinds than they do."""
        table = self.table if rows is None else take_rows(self.table, rows)
        n_labelled = len(row_format.frame_labels or row_format.labelled)
        numbers_suffice = row_format.numbers_are_codes or not n_labelled
        if isinstance(table, np.ndarray):
            if table.dtype != object or not n_labelled or not numbers_suffice:
                return table if table.flags.forc else table.copy()  # LightGBM warns of slices
        elif (
            not numbers_suffice
            or not is_frame(table)
            or (is_plain_pandas(table) and n_labelled in (0, n_categories(table)))
        ):
            return table
        if rows is None:
            return self.rows[0 : self.rows.n_rows]
        return np.concatenate([self.rows[row : row + 1] for row in rows.tolist()])

    @property
    def is_container(self) -> bool:
        """Is the table a DMatrix or Pool, which a library predicts as a whole?"""
        # A list is of strings, for a pipeline that counts words.
        is_table = isinstance(self.raw, (np.ndarray, list)) or hasattr(self.raw, "tocsr")
        return not is_table and not is_frame(self.raw)

    def to_show(self, feature_names: Sequence[str] | None) -> Any:
        """A column per player. What a pipeline made of a frame becomes a frame of that library."""
        if self.groups is not None:
            return table_of_players(self.shown, self.groups)
        if feature_names is None or not is_frame(self.raw) or not isinstance(self.shown, np.ndarray):
            return self.shown
        columns = dict(zip(feature_names, self.shown.T, strict=True))
        return make_frame(columns, like=self.raw, row_labels=self.row_labels)

    def slices(self, *, beside: int = 0) -> Iterator[slice]:
        """All rows in slices that fit into memory next to what is there already.

        A row is so many numbers as the model has columns, or as the caller keeps ``beside`` it. Slices are
        of equal size: a few rows at the end would be added up in another order than the others.
        """
        most = max(_MIN_SLICE_ROWS, _SLICE_BYTES // (8 * max(1, self.n_columns, beside)))
        n_rows = self.rows.n_rows
        n_slices = -(-n_rows // most)
        for i in range(n_slices):
            yield slice(n_rows * i // n_slices, n_rows * (i + 1) // n_slices)


def _without_others(X: Any, table: Any, row_format: RowFormat) -> tuple[Any, Any]:
    """The rows without columns that the model does not know, if all that it knows are there."""
    if row_format.feature_names is None or not is_frame(table):
        return X, table
    names = column_names(table) or ()
    if len(names) <= row_format.n_features:
        return X, table
    known = [place for place, name in enumerate(names) if row_format.knows(name)]
    if len(known) != row_format.n_features:
        return X, table  # what is missing, or there twice, is said where columns are matched
    return (X.iloc[known] if getattr(X, "ndim", 2) == 1 else X), take_columns(table, known)


def _one_row(X: Any, table: Any) -> Any:
    """A single row in one dimension, as it came or as an array."""
    return table[0] if isinstance(table, np.ndarray) else X


def _strings(X: Any) -> list[Any]:
    """A row is a string."""
    if isinstance(X, str) or np.ndim(X) > 1:
        raise InputError(
            "The pipeline reads strings. Pass a list, an array or a Series of them, one for each row."
        )
    return list(X)


def _columns_named(table: Any, names: Sequence[str], wanted: Sequence[str]) -> Any:
    """The columns ``wanted`` of a frame; one that it does not have is empty."""
    import narwhals.stable.v1 as nw

    frame = nw.from_native(table, eager_only=True)
    empty = [None] * len(frame)
    columns = {name: frame[:, names.index(name)] if name in names else empty for name in wanted}
    return make_frame(columns, like=table, row_labels=pandas_index(table))
