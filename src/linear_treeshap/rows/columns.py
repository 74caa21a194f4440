"""One column of the user's values → numbers.

Labels of categories become codes or hashes, None and its like become NaN, and whatever is not a number is an
InputError that names the column and the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..model.row_format import Label, RowFormat
from .city_hash import category_hash

__all__ = [
    "codes_of_labels",
    "codes_of_numbers",
    "has_labels",
    "is_missing",
    "labels_are_numbers",
    "numbers_of_objects",
    "settled",
    "title",
]

Float64 = npt.NDArray[np.float64]

#: What a column is made of: a type for categories, text, or anything else.
Kind = Literal["category", "text", "number"]


def title(row_format: RowFormat, feature: int) -> str:
    """What to call a column in a message: its name if it has one, and its position."""
    if row_format.feature_names is None:
        return f"column {feature}"
    return f"column {row_format.feature_names[feature]!r}"


def has_labels(row_format: RowFormat, feature: int) -> bool:
    """Does the model know the labels of this column's categories?"""
    return feature in row_format.labelled


def labels_are_numbers(row_format: RowFormat, feature: int) -> bool:
    """Could a number be one of this column's labels?"""
    return any(isinstance(label, Real) for label in row_format.categories.get(feature, ()))


def settled(row_format: RowFormat, kinds: Sequence[Kind], *, has_types: bool = True) -> RowFormat:
    """The same format with the labels where they belong, if features are in columns of these kinds.

    As LightGBM does, labels are given to categorical columns in their order. Text is as good a sign where
    there are too few of these. A column without either holds codes, unless columns have lost their types.
    """
    waiting = row_format.frame_labels
    if not waiting:
        return row_format
    categorical = [feature for feature, kind in enumerate(kinds) if kind == "category"]
    with_text = [feature for feature, kind in enumerate(kinds) if kind != "number"]
    for features in (categorical, with_text):
        if len(features) == len(waiting):
            return replace(row_format, categories=dict(zip(features, waiting, strict=True)), frame_labels=())
    may_be_codes = has_types or not any(isinstance(label, Real) for labels in waiting for label in labels)
    if row_format.categories or (not with_text and may_be_codes):
        return replace(row_format, frame_labels=())
    raise InputError(
        f"The model was trained on {len(waiting)} categorical columns and does not say which of its features "
        f"they are; X has {len(with_text)} such columns. Pass a data frame whose columns have the types of "
        f"the training data, or all columns as codes."
    )


def codes_of_labels(labels: Sequence[Any], row_format: RowFormat, feature: int) -> Float64:
    """The code of each label, in the model's order; one that it does not know becomes NaN, or a code beyond.

    Where the model knows hashes of labels only, it is the hash: codes are found when rows are read.
    """
    try:
        if feature in row_format.hashes:
            return _hashes(labels, row_format, feature)
        code_of: dict[Label, float] = {
            label: float(code) for code, label in enumerate(row_format.categories[feature])
        }
        if row_format.unknown_is_missing:
            return np.array([code_of.get(label, np.nan) for label in labels], dtype=np.float64)
        beyond = float(len(code_of))
        return np.array(
            [np.nan if is_missing(label) else code_of.get(label, beyond) for label in labels], np.float64
        )
    except TypeError as error:
        raise InputError(
            f"In {title(row_format, feature)}, a category must be text or a number: {error}."
        ) from error


def codes_of_numbers(numbers: npt.NDArray[Any], row_format: RowFormat, feature: int) -> Float64:
    """As `codes_of_labels`, for an array of numbers that are labels; NaN stays NaN."""
    if feature in row_format.hashes:
        return _hashes([None if x != x else x for x in numbers.tolist()], row_format, feature)
    known = row_format.categories[feature]
    numbers = numbers.astype(np.float64)
    pairs = sorted((float(label), code) for code, label in enumerate(known) if isinstance(label, Real))
    if not pairs:
        stray = numbers[~np.isnan(numbers)]
        if stray.size and known:
            raise InputError(
                f"In {title(row_format, feature)} the model knows categories such as {known[0]!r}, got the "
                f"number {stray[0]}. Pass the labels the model was trained on."
            )
        return np.full(len(numbers), np.nan)
    labels, codes = np.array(pairs).T
    place = np.minimum(np.searchsorted(labels, numbers), len(labels) - 1)
    unknown = np.nan if row_format.unknown_is_missing else np.where(np.isnan(numbers), np.nan, len(known))
    return np.where(labels[place] == numbers, codes[place], unknown)


def _hashes(labels: Sequence[Any], row_format: RowFormat, feature: int) -> Float64:
    """The hash of each label; None, NaN and NA become NaN."""
    hash_of: dict[Any, float] = {}
    for label in set(labels):
        if is_missing(label):
            hash_of[label] = np.nan
            continue
        is_whole = isinstance(label, Real) and label % 1 == 0  # false of infinity
        if not isinstance(label, str) and not is_whole:
            raise InputError(
                f"In {title(row_format, feature)}, a category must be text or a whole number, got {label!r}."
            )
        hash_of[label] = category_hash(label if isinstance(label, str) else str(int(label)))
    return np.array([hash_of[label] for label in labels], dtype=np.float64)


def numbers_of_objects(values: Sequence[Any], row_format: RowFormat, feature: int) -> Float64:
    """Python objects, one by one: numbers, labels where the model has them, None, NaN and NA.

    A number is a label, and not a code, if the labels are numbers: a categorical column that loses its type,
    as in one row of a frame, becomes objects.
    """
    if feature in row_format.hashes:
        return codes_of_labels(values, row_format, feature)
    if has_labels(row_format, feature) and (
        not row_format.numbers_are_codes
        or labels_are_numbers(row_format, feature)
        or any(isinstance(value, str) for value in values)
    ):
        return codes_of_labels([None if is_missing(v) else v for v in values], row_format, feature)
    numbers = np.full(len(values), np.nan)
    for row, value in enumerate(values):
        if is_missing(value):
            continue
        try:
            if isinstance(value, (str, bytes, np.datetime64, np.timedelta64)):
                raise TypeError  # NumPy would make numbers of them
            numbers[row] = value
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                f"In {title(row_format, feature)}, row {row}, a number was expected, got {value!r} "
                f"({type(value).__name__}). {_remedy(value)}"
            ) from None
    return numbers


def _remedy(value: Any) -> str:
    try:
        float(value if isinstance(value, str) else "")
    except ValueError:
        return "Encode the column as it was when the model was trained."
    return "Text is not taken for a number here: convert the column, by astype(float) for instance."


def is_missing(value: Any) -> bool:
    """None, NaN, and pandas' NA and NaT, which alone are not equal to themselves."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(value != value)
