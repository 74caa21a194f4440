"""The columns of an Arrow table that a model reads → what its explainer takes.

Columns are matched by name wherever the model knows names; others are left alone. Text means what it means in
a data frame: a category, if the model has labels for that column. What does not fit is said as soon as the
schema is known, before any row is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from ..errors import InputError
from ..explainer import TreeExplainer
from ..rows.columns import Kind, settled
from ..rows.frames import match_columns
from .arrow import is_text, plain_type, require_arrow

__all__ = ["ModelColumns"]


class ModelColumns:
    """Which columns of a schema a model reads, and how the explainer is given them."""

    def __init__(
        self,
        explainer: TreeExplainer,
        schema: Any,
        keys: Sequence[str] = (),
        *,
        has_types: bool = True,  # does the schema say which columns are numbers, or is that a guess?
        source: str = "The table",
    ) -> None:
        self._schema = schema
        self._source = source
        self.explainer = explainer
        #: Is the model a pipeline, which transforms rows before its trees read them?
        self.transforms = explainer._preprocessing is not None
        self._wants_pandas = self.transforms or explainer._has_library
        self.names = self._chosen(keys)
        self.row_format = explainer.ensemble.row_format
        #: The columns whose categories the model knows by label, and the feature that each is.
        self.labelled: dict[str, int] = {}
        if not self.transforms:
            order = match_columns(self.names, self.row_format)
            kinds = [self._kind(self.names[at]) for at in order]
            self.row_format = settled(self.row_format, kinds, has_types=has_types)
            self.labelled = {self.names[order[f]]: f for f in sorted(self.row_format.labelled)}
            if has_types:
                self._check_types()

    @property
    def player_names(self) -> tuple[str, ...]:
        """What the values of these rows are called, in the order in which they come."""
        assignment = self.explainer._assignment
        if not assignment.of_rows.are_columns:
            return tuple(assignment.of_rows.names)
        if not self.transforms:
            return tuple(self.names)
        trained = assignment.raw_names
        if assignment.is_raw and (trained is None or set(trained) == set(self.names)):
            return tuple(self.names)
        return tuple(assignment.of_rows.names) if trained is None else trained

    @property
    def player_order(self) -> list[int] | None:
        """Where each of the explainer's players is among ``player_names``; None if in their own order."""
        assignment = self.explainer._assignment
        if not assignment.of_rows.are_columns or (self.transforms and not assignment.is_raw):
            return None
        if not self.transforms:
            order = match_columns(self.names, self.row_format)
        elif assignment.raw_names is None or set(assignment.raw_names) != set(self.names):
            return None
        else:
            order = [self.names.index(name) for name in assignment.raw_names]
        return None if order == list(range(len(order))) else order

    def rows(self, table: Any) -> Any:
        """What the explainer takes: Arrow, or pandas where a library wants to see the rows too."""
        arrow = require_arrow()
        table = table.select(self.names).unify_dictionaries()
        for position, name in enumerate(self.names):
            column = table.column(position)
            if name in self.labelled:
                if is_text(column.type) and self._wants_pandas:
                    column = column.dictionary_encode()  # libraries know categories by this type
            elif arrow.types.is_dictionary(column.type) and not self.transforms:
                # Without known labels their order would decide, and that differs from table to table.
                column = column.cast(column.type.value_type)
            elif arrow.types.is_null(column.type):
                column = column.cast(arrow.float64())
            table = table.set_column(position, name, column)
        return table.to_pandas() if self._wants_pandas and find_spec("pandas") is not None else table

    def _chosen(self, keys: Sequence[str]) -> list[str]:
        """The columns that the model reads, in the order of the table."""
        found = list(self._schema.names)
        absent = [key for key in keys if key not in found]
        if absent:
            raise InputError(f"{self._source} has no column {absent[0]!r} to be a key. {self._there_are()}")
        if self.transforms:
            return self._raw_columns(keys)
        row_format = self.explainer.ensemble.row_format
        matched = [name for name in found if row_format.knows(name)]
        chosen = matched or [name for name in found if name not in keys]
        try:
            match_columns(chosen, row_format)
        except InputError as error:
            hint = "" if matched else " Columns that are keys are not features."
            raise InputError(f"{self._source} does not fit the model: {error}{hint}") from error
        return chosen

    def _raw_columns(self, keys: Sequence[str]) -> list[str]:
        """Those that a pipeline was trained on, as far as it knows their names."""
        preprocessing = self.explainer._preprocessing
        assert preprocessing is not None
        if preprocessing.takes_strings:
            raise InputError(
                "The pipeline reads texts, not tables: explain a list of them with the explainer itself."
            )
        trained = getattr(preprocessing.steps[0], "feature_names_in_", None)
        if trained is None:
            return [name for name in self._schema.names if name not in keys]
        missing = [name for name in trained if name not in self._schema.names]
        if missing:
            raise InputError(
                f"{self._source} has no column {missing[0]!r}, which the model reads. {self._there_are()}"
            )
        known = set(trained)
        return [name for name in self._schema.names if name in known]

    def _kind(self, name: str) -> Kind:
        found = self._schema.field(name).type
        if require_arrow().types.is_dictionary(found):
            return "category"
        return "text" if is_text(found) else "number"

    def _check_types(self) -> None:
        """Refuse what can be no number, whatever the rows hold."""
        types = require_arrow().types
        for name in self.names:
            kind = plain_type(self._schema.field(name).type)
            is_number = (
                types.is_integer(kind)
                or types.is_floating(kind)
                or types.is_boolean(kind)
                or types.is_decimal(kind)
                or types.is_null(kind)
            )
            if not is_number and not (name in self.labelled and is_text(kind)):
                raise InputError(
                    f"{self._source} does not fit the model: in column {name!r} numbers were expected, got "
                    f"{kind}. Encode the column as it was when the model was trained."
                )

    def _there_are(self) -> str:
        names = self._schema.names
        return f"It has: {', '.join(map(repr, names[:10]))}{', …' if len(names) > 10 else ''}."
