"""What a model of YDF was trained on → RowFormat, and rows back into the types that YDF takes.

Numbers are cast to float32. A category has the number of its label; number 0 is every label that YDF does not
know, which is a category like others and not missing. An empty text is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError, UnsupportedModelError
from ..model.row_format import Label, RowFormat
from ..rows.columns import is_missing
from .protobuf import Message

__all__ = ["SPEC", "Column", "Columns", "texts_of"]

Array = npt.NDArray[Any]

#: The file that says it.
SPEC = "data_spec.pb"

#: Types of columns; all others hold several values in a row.
_NUMERICAL, _CATEGORICAL, _BOOLEAN, _DISCRETIZED = 1, 4, 7, 9
#: Types that the labels of a column had in training.
_INTEGERS, _BOOLEANS = range(1, 9), 12

#: Categories without labels of all columns together, of which a file has no more than their number.
_MAX_CODES = 1 << 20


@dataclass(frozen=True)
class Column:
    """A column that the model was trained on."""

    name: str
    kind: int
    #: Where numbers are cut into bins.
    bounds: Array
    #: The labels of its categories, but for the unknown one, which is the first to YDF.
    labels: tuple[Label, ...]
    #: Are there no labels, but whole numbers, of which the first is the unknown category?
    has_codes: bool

    @classmethod
    def of(cls, column: Message) -> Column:
        categorical = column.message(6)
        n_labels = max(0, categorical.number(2) - 1)
        has_codes = bool(categorical.number(5))
        if has_codes:
            labels: Sequence[Label] = range(1, n_labels + 1)
        else:
            entries = [(entry.message(2).number(1), entry.text(1)) for entry in categorical.messages(7)]
            known = sorted((code, text) for code, text in entries if code > 0)
            if len(known) != n_labels or any(code != i for i, (code, _) in enumerate(known, 1)):
                raise FileFormatError(f"column {column.text(2)!r} does not have a label for each category.")
            labels = _labels([text for _, text in known], column.number(12))
        return cls(column.text(2), column.number(1), column.message(8).floats(1), tuple(labels), has_codes)

    @property
    def has_labels(self) -> bool:
        return self.kind == _CATEGORICAL and not self.has_codes

    @cached_property
    def has_texts(self) -> bool:
        return self.has_labels and all(isinstance(label, str) for label in self.labels)

    def values(self, numbers: Array) -> Array:
        """Numbers as a tree reads them → what YDF takes; it takes no truth values that are missing."""
        if self.has_codes:
            codes = np.where(numbers < len(self.labels), numbers + 1, 0)
            return np.where(np.isnan(numbers), -1, codes).astype(np.int64)
        if self.has_labels:
            known = dict(enumerate(self.labels))
            texts = texts_of([known.get(code, "a label that is not known") for code in numbers.tolist()])
            missing = np.isnan(numbers) | (numbers == len(self.labels)) & self.has_texts
            return np.where(missing, "", texts)
        if self.kind == _BOOLEAN:
            return numbers if np.isnan(numbers).any() else np.asarray(numbers >= 0.5)
        return numbers.astype(np.float32)


def _n_codes(column: Message) -> int:
    """How many categories without labels a column claims to have."""
    categorical = column.message(6)
    return max(0, categorical.number(2)) if categorical.number(5) else 0


def texts_of(labels: Sequence[Any]) -> Array:
    """Labels as texts, which YDF takes for any of them; an empty one is missing."""
    return np.array([_text(label) for label in labels], dtype=np.str_)


def _text(label: Any) -> str:
    if is_missing(label):
        return ""
    if isinstance(label, (bool, np.bool_)):
        return "true" if label else "false"
    is_whole = isinstance(label, (float, np.floating)) and label % 1 == 0
    return str(int(label)) if is_whole else str(label)


def _labels(texts: Sequence[str], dtype: int) -> Sequence[Label]:
    """Labels of the type that they had in training."""
    if dtype == _BOOLEANS:
        return [text == "true" for text in texts]
    try:
        return [int(text) for text in texts] if dtype in _INTEGERS else texts
    except ValueError as error:
        raise FileFormatError(f"a label is no whole number ({error}).") from error


@dataclass(frozen=True)
class Columns:
    """The columns that the trees may ask about."""

    read: tuple[Column, ...]
    #: Where each column of the training table is among them; -1 if it is not.
    place: Array

    @classmethod
    def of(cls, spec: Message, inputs: Sequence[int]) -> Columns:
        table = spec.messages(1)
        place = np.full(len(table), -1)
        if any(not 0 <= index < len(table) for index in inputs):
            raise FileFormatError(f"it reads a column that its table of {len(table)} does not have.")
        if len(set(inputs)) != len(inputs):
            raise FileFormatError("it reads a column twice.")
        place[list(inputs)] = np.arange(len(inputs))
        n_codes = sum(_n_codes(table[index]) for index in inputs)
        if n_codes > _MAX_CODES:
            raise FileFormatError(f"its columns claim to have {n_codes:,} categories.")
        columns = tuple(Column.of(table[index]) for index in inputs)
        for column in columns:
            if column.kind not in (_NUMERICAL, _CATEGORICAL, _BOOLEAN, _DISCRETIZED):
                raise UnsupportedModelError(
                    f"Column {column.name!r} of this model holds several values in a row (a set, a "
                    f"sequence, words). Supported are numbers, truth values, and one category in each row."
                )
        return cls(columns, place)

    def row_format(self) -> RowFormat:
        """An empty text is a category, which goes where missing values go."""
        return RowFormat(
            len(self.read),
            tuple(column.name for column in self.read),
            "float32",
            categories={
                feature: (*column.labels, "") if column.has_texts else column.labels
                for feature, column in enumerate(self.read)
                if column.kind == _CATEGORICAL
            },
            numbers_are_codes=False,
            unknown_is_missing=False,
        )
