"""Sums of values over rows: what is left of them where there is no memory for those of each row.

Sums of different batches, processes or machines add up, exactly: in any order they give the same bits.
`linear_treeshap.importance` makes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..rows.tables import make_frame
from .exact_sum import ExactSum
from .interactions import Sets, set_names, summary
from .layout import ranked, ranked_columns

__all__ = ["BySegment", "GlobalImportance", "GlobalInteractions"]

Float64 = npt.NDArray[np.float64]


class _Sums:
    """What follows from the sums, whether they are of features or of sets of them."""

    n_rows: int
    absolute: ExactSum
    total: ExactSum
    output_names: tuple[str, ...]

    @cached_property
    def sum_abs(self) -> Float64:
        """The sum of absolute values: of all, rounded once."""
        return self.absolute.rounded()

    @cached_property
    def sum(self) -> Float64:
        """The sum of values: of all, rounded once."""
        return self.total.rounded()

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


@dataclass(frozen=True, eq=False, repr=False)
class GlobalImportance(_Sums):
    """Sums of values over rows. ``a + b`` is the importance over the rows of both."""

    n_rows: int
    absolute: ExactSum  # (n_features, n_outputs)
    total: ExactSum  # (n_features, n_outputs)
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

    def __repr__(self) -> str:
        means = self.mean_abs.sum(axis=1)
        best = np.argsort(-means, kind="stable")[:5]
        largest = ", ".join(f"{self.feature_names[i]} {means[i]:.3g}" for i in best)
        rows, more = "row" if self.n_rows == 1 else "rows", ", …" if len(means) > 5 else ""
        return f"GlobalImportance({self.n_rows:,} {rows}, {len(means):,} features: {largest}{more})"


@dataclass(frozen=True, eq=False, repr=False)
class GlobalInteractions(_Sums):
    """Sums of interaction indices over rows. ``a + b`` is that over the rows of both."""

    n_rows: int
    sets: Sets
    absolute: ExactSum  # (n_sets, n_outputs)
    total: ExactSum  # (n_sets, n_outputs)
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

    def to_frame(self, *, order: int | None = None, like: Any = None) -> Any:
        """A row per set and output, the most important set first, in the library of the frame ``like``.

        ``order`` keeps the sets of so many features, which then have a column each: feature_1, feature_2, …
        """
        if order is None:
            return self._frame("features", self.set_names, like)
        chosen = [i for i, members in enumerate(self.sets) if len(members) == order]
        names = [[self.feature_names[self.sets[i][place]] for i in chosen] for place in range(order)]
        columns = {f"feature_{place + 1}": of_place for place, of_place in enumerate(names)}
        outputs = self.output_names if len(self.output_names) > 1 else None
        by = self.sum_abs[chosen].sum(axis=1)
        numbers = {"mean_abs": self.mean_abs[chosen], "mean": self.mean[chosen]}
        return ranked_columns(columns, outputs, numbers, by=by, like=like)

    def to_matrix(self) -> Float64:
        """(n_features, n_features, n_outputs) mean absolute interactions of pairs, 0 where they never meet.

        The diagonal is what features do alone, and off it are whole interactions, the same on both sides.
        """
        n = len(self.feature_names)
        matrix = np.zeros((n, n, self.sum_abs.shape[1]))
        for place, members in enumerate(self.sets):
            if len(members) <= 2:
                i, j = members[0], members[-1]
                matrix[i, j] = matrix[j, i] = self.mean_abs[place]
        return matrix

    def __repr__(self) -> str:
        means = self.mean_abs.sum(axis=1)
        return f"GlobalInteractions({summary(self.n_rows, self.sets, self.kind, self.set_names, means)})"


def _added(one: _Sums, other: _Sums) -> dict[str, Any]:
    return {name: getattr(one, name) + getattr(other, name) for name in ("n_rows", "absolute", "total")}


Sums = TypeVar("Sums", GlobalImportance, GlobalInteractions)


class BySegment(Mapping[Any, Sums], Generic[Sums]):
    """Sums over the rows of each segment, by the label that a column gives it. ``a + b`` is that of both.

    Examples
    --------
    >>> import pandas as pd
    >>> from linear_treeshap import global_importance
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> rows = pd.DataFrame({"age": [0.0, 0.0, 0.0, 1.0], "month": ["May", "May", "June", "June"]})
    >>> model = DecisionTreeRegressor(max_depth=1).fit(rows[["age"]], [1, 1, 1, 3])
    >>> found = global_importance(model, rows, by="month")
    >>> found["May"].n_rows
    2
    >>> found.to_frame()
      month  n_rows feature  mean_abs  mean
    0  June       2     age       1.0   0.5
    1   May       2     age       0.5  -0.5
    """

    def __init__(self, by: str, segments: Mapping[Any, Sums]) -> None:
        self.by = by
        labels = [label for label in segments if segments[label].n_rows]
        self._segments: dict[Any, Sums] = {label: segments[label] for label in sorted(labels, key=_in_order)}

    def __getitem__(self, label: Any) -> Sums:
        return self._segments[label]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __add__(self, other: BySegment[Sums]) -> BySegment[Sums]:
        if not isinstance(other, BySegment):
            return NotImplemented
        if self.by != other.by:
            raise InputError(f"Segments by {self.by!r} and by {other.by!r} cannot be added.")
        both = dict(self._segments)
        for label, sums in other.items():
            both[label] = both[label] + sums if label in both else sums
        return BySegment(self.by, both)

    def to_frame(self, *, like: Any = None) -> Any:
        """A row per segment, feature and output: the segment, its number of rows, and its means."""
        import narwhals.stable.v1 as nw

        columns: dict[str, list[Any]] = {self.by: [], "n_rows": []}
        for label, sums in self.items():
            frame = nw.from_native(sums.to_frame(like=like), eager_only=True)
            columns[self.by] += [label] * len(frame)
            columns["n_rows"] += [sums.n_rows] * len(frame)
            for name in frame.columns:
                columns.setdefault(name, []).extend(frame[name].to_list())
        return make_frame(columns, like=like)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{label!r}: {sums.n_rows:,} rows" for label, sums in list(self.items())[:5])
        return f"BySegment({self.by!r}: {sizes}{', …' if len(self) > 5 else ''})"


def _in_order(label: Any) -> tuple[str, Any]:
    """Labels of one type by themselves, those of several type by type; None comes first."""
    return ("", 0) if label is None else (type(label).__name__, label)
