"""RowFormat: what a model expects of a row.

It is the half of a model that concerns its input: column names, number type, what counts as
missing, how categories are coded. It travels with the trees in a `TreeEnsemble`, and `rows.py`
reads the user's rows by it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np

from .. import _core
from ..errors import ModelError
from .lookups import Lookup, key_tables

__all__ = ["LIGHTGBM_ZERO", "MAX_FEATURES", "Label", "RowFormat", "check_n_features"]

#: LightGBM reads every number this close to zero as zero.
LIGHTGBM_ZERO = float(np.float32(1e-35))

#: Names and values are made for every column, so a damaged file must not claim any number of them.
MAX_FEATURES = 1 << 22

#: A category as the user wrote it.
Label = str | int | float | bool


def _other_names(name: str) -> Iterator[str]:
    yield name.replace(" ", "_")
    if name.startswith("("):  # the levels of a column, as Python writes a tuple
        try:
            yield " ".join(map(str, ast.literal_eval(name)))
        except (SyntaxError, TypeError, ValueError):
            return


def check_n_features(n_features: int) -> None:
    """Raise ModelError unless this is a possible number of columns."""
    if not 0 <= n_features <= MAX_FEATURES:
        raise ModelError(f"n_features must be a number from 0 to {MAX_FEATURES:,}, got {n_features:,}.")


@dataclass(frozen=True)
class RowFormat:
    """How a row must look before a tree may read it.

    A row becomes a vector of `dtype` numbers, one per feature, and behind them those of ``lookups``. NaN
    means missing. A categorical feature holds its category's code; whatever the model does not know is NaN,
    or a code that is in no set.
    """

    n_features: int
    feature_names: tuple[str, ...] | None = None
    #: Numbers are cast to this type before they meet a threshold.
    dtype: Literal["float32", "float64"] = "float64"
    #: This value means missing, as NaN always does (XGBoost's ``missing=``).
    missing_value: float = math.nan
    #: Features for which zero (within 1e-35 of it) means missing: LightGBM's ``zero_as_missing``.
    zero_is_missing: frozenset[int] = frozenset()
    #: Features whose numbers lose their fraction first: LightGBM's categories, where -0.5 is category 0.
    truncated: frozenset[int] = frozenset()
    #: What an entry absent from a sparse matrix means: missing (XGBoost) or zero (all others). None where
    #: models of both kinds are added up: then rows must not be sparse.
    absent_is_missing: bool | None = False
    #: Labels of the categorical features that have any: ``categories[feature][code]``.
    categories: dict[int, tuple[Label, ...]] = field(default_factory=dict)
    #: Labels of the categorical columns of the training frame, in the order of these columns, where the model
    #: does not say for certain which features they are (LightGBM): then the categorical columns of a frame
    #: decide, and ``categories`` is what is likely of rows whose columns have no types.
    frame_labels: tuple[tuple[Label, ...], ...] = ()
    #: Hashes of the labels, where the model knows no more of them (CatBoost): ``hashes[feature][code]``.
    hashes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    #: Is a number found in a labelled column a code (LightGBM, XGBoost) or a label (the others)? And
    #: is a pandas categorical column without known labels its codes, or the labels themselves?
    numbers_are_codes: bool = True
    #: Is a label that the model does not know missing, or a category of its own, which is in no set (YDF)?
    unknown_is_missing: bool = True
    #: Tables in which numbers are looked up for what some features hold together (CatBoost's statistics of
    #: categories); each number is a column behind the features.
    lookups: tuple[Lookup, ...] = ()
    #: Does a row keep the hashes of its categories, in two columns each behind all others? Then numbers can
    #: be looked up for what is mixed of several rows.
    keeps_hashes: bool = False
    #: May there be more columns, which no tree reads? So it is where a model does not say how many it has.
    takes_more: bool = False

    def __post_init__(self) -> None:
        check_n_features(self.n_features)
        if self.feature_names is not None and len(self.feature_names) != self.n_features:
            raise ModelError(
                f"{len(self.feature_names)} feature names were given for {self.n_features} features."
            )
        if self.dtype not in ("float32", "float64"):
            raise ModelError(f"dtype must be 'float32' or 'float64', got {self.dtype!r}.")
        named = {*self.zero_is_missing, *self.truncated, *self.labelled}
        stray = [f for f in named if not 0 <= f < self.n_features]
        if stray:
            raise ModelError(f"Feature {stray[0]} is out of range: there are {self.n_features} features.")
        for lookup in self.lookups:
            by_hash = {*lookup.categories, *(match.column for match in lookup.equal)}
            if (
                not by_hash <= self.hashes.keys()
                or not 0 <= lookup.columns[0] <= lookup.columns[-1] < self.n_features
            ):
                raise ModelError(
                    f"A lookup reads the features {lookup.columns}; there are {self.n_features}, and hashes "
                    f"of {sorted(self.hashes)}."
                )
        check_n_features(self.n_columns)

    def __eq__(self, other: object) -> bool:
        # By hand, because a missing_value of NaN is the same as another NaN.
        if not isinstance(other, RowFormat):
            return NotImplemented
        rest = [f.name for f in fields(self) if f.name != "missing_value"]
        same_missing = np.array_equal(self.missing_value, other.missing_value, equal_nan=True)
        return same_missing and all(getattr(self, name) == getattr(other, name) for name in rest)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "key_tables"}

    @cached_property
    def key_tables(self) -> _core.KeyTables:
        """The lookups, ready to be asked for rows."""
        return key_tables(self.lookups, self.hashes)

    @property
    def n_columns(self) -> int:
        """How many numbers a row has for the trees: its features, what is looked up for them, and hashes."""
        n_numbers = self.n_features + sum(lookup.n_numbers for lookup in self.lookups)
        return n_numbers + (2 * len(self.hashes) if self.keeps_hashes else 0)

    @cached_property
    def sources(self) -> tuple[tuple[int, ...], ...]:
        """The features behind each of the columns that are looked up."""
        return tuple(lookup.columns for lookup in self.lookups for _ in range(lookup.n_numbers))

    def known_name(self, name: str) -> str:
        """The name by which the model knows a column: LightGBM writes underscores for spaces, and XGBoost
        spaces between the levels of a MultiIndex."""
        if name in self._names:
            return name
        return next((other for other in _other_names(name) if other in self._names), name)

    def knows(self, name: str) -> bool:
        """Does the model have a column of this name?"""
        return self.known_name(name) in self._names

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.feature_names or ())

    @property
    def labelled(self) -> frozenset[int]:
        """The features whose categories have labels."""
        return frozenset({*self.categories, *self.hashes})

    @cached_property
    def numpy_dtype(self) -> np.dtype[np.floating]:
        return np.dtype(self.dtype)

    @cached_property
    def changes_numbers(self) -> bool:
        """Are there numbers that a tree reads as something else: labels, or marks of missing values?"""
        labels = self.labelled and not self.numbers_are_codes
        return bool(labels or not math.isnan(self.missing_value) or self.zero_is_missing or self.truncated)
