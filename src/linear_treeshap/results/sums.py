"""Sums of values over rows: what is left of them where there is no memory for those of each row.

Sums of different batches, processes or machines add up; `linear_treeshap.importance` makes them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .interactions import Sets, set_names, summary
from .layout import ranked

__all__ = ["GlobalImportance", "GlobalInteractions"]

Float64 = npt.NDArray[np.float64]


class _Sums:
    """What follows from the sums, whether they are of features or of sets of them."""

    n_rows: int
    sum_abs: Float64
    sum: Float64
    output_names: tuple[str, ...]

    @property
    def mean_abs(self) -> Float64:
        """The mean absolute value, in the shape of ``sum_abs``: how much a feature, or a set, matters."""
        return self.sum_abs / max(self.n_rows, 1)

    @property
    def mean(self) -> Float64:
        """The mean value, in the shape of ``sum``: which way a feature, or a set, pushes on the whole."""
        return self.sum / max(self.n_rows, 1)

    def _frame(self, item: str, names: tuple[str, ...], like: Any) -> Any:
        outputs = self.output_names if len(self.output_names) > 1 else None
        numbers = {"mean_abs": self.mean_abs, "mean": self.mean}
        return ranked(item, names, outputs, numbers, by=self.sum_abs.sum(axis=1), like=like)


@dataclass(frozen=True, eq=False)
class GlobalImportance(_Sums):
    """Sums of values over rows. ``a + b`` is the importance over the rows of both."""

    n_rows: int
    sum_abs: Float64  # (n_features, n_outputs)
    sum: Float64  # (n_features, n_outputs)
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]

    def __add__(self, other: GlobalImportance) -> GlobalImportance:
        if not isinstance(other, GlobalImportance):
            return NotImplemented
        if (self.feature_names, self.output_names) != (other.feature_names, other.output_names):
            raise InputError("Importances of different features or outputs cannot be added.")
        return replace(self, **_added(self, other))

    def to_frame(self, *, like: Any = None) -> Any:
        """A row per feature and output, the most important feature first.

        The frame is of the library of ``like``; without it of pandas, or else polars.
        """
        return self._frame("feature", self.feature_names, like)


@dataclass(frozen=True, eq=False, repr=False)
class GlobalInteractions(_Sums):
    """Sums of interaction indices over rows. ``a + b`` is that over the rows of both."""

    n_rows: int
    sets: Sets
    sum_abs: Float64  # (n_sets, n_outputs)
    sum: Float64  # (n_sets, n_outputs)
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    kind: str

    @property
    def set_names(self) -> tuple[str, ...]:
        """The sets in words: "age", "age × bmi"."""
        return set_names(self.sets, self.feature_names)

    def __add__(self, other: GlobalInteractions) -> GlobalInteractions:
        if not isinstance(other, GlobalInteractions):
            return NotImplemented
        mine, theirs = ((x.sets, x.feature_names, x.output_names, x.kind) for x in (self, other))
        if mine != theirs:
            raise InputError("Interactions of different features, outputs or kinds cannot be added.")
        return replace(self, **_added(self, other))

    def to_frame(self, *, like: Any = None) -> Any:
        """A row per set and output, the most important set first, in the library of the frame ``like``."""
        return self._frame("features", self.set_names, like)

    def __repr__(self) -> str:
        means = self.mean_abs.sum(axis=1)
        return f"GlobalInteractions({summary(self.n_rows, self.sets, self.kind, self.set_names, means)})"


def _added(one: _Sums, other: _Sums) -> dict[str, Any]:
    return {name: getattr(one, name) + getattr(other, name) for name in ("n_rows", "sum_abs", "sum")}
