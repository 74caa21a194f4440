"""Importance over more rows than there is memory for values.

Rows come in batches and leave only sums behind; sums of different batches, processes or machines add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .engines.sets import adds_up
from .errors import InputError
from .explainer import TreeExplainer
from .results.interactions import Sets, set_names, summary
from .rows.frames import is_frame
from .rows.tables import make_frame

__all__ = ["GlobalImportance", "GlobalInteractions", "global_importance", "global_interactions"]

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GlobalImportance:
    """Sums of values over rows. ``a + b`` is the importance over the rows of both."""

    n_rows: int
    sum_abs: Float64  # (n_features, n_outputs)
    sum: Float64  # (n_features, n_outputs)
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]

    @property
    def mean_abs(self) -> Float64:
        """(n_features, n_outputs) the mean absolute value: how much a feature matters."""
        return self.sum_abs / max(self.n_rows, 1)

    @property
    def mean(self) -> Float64:
        """(n_features, n_outputs) the mean value: which way a feature pushes on the whole."""
        return self.sum / max(self.n_rows, 1)

    def __add__(self, other: GlobalImportance) -> GlobalImportance:
        if not isinstance(other, GlobalImportance):
            return NotImplemented
        if (self.feature_names, self.output_names) != (other.feature_names, other.output_names):
            raise InputError("Importances of different features or outputs cannot be added.")
        return GlobalImportance(
            self.n_rows + other.n_rows,
            self.sum_abs + other.sum_abs,
            self.sum + other.sum,
            self.feature_names,
            self.output_names,
        )

    def to_frame(self, *, like: Any = None) -> Any:
        """A row per feature and output, the most important feature first.

        The frame is of the library of ``like``; without it of pandas, or else polars.
        """
        order = np.argsort(-self.sum_abs.sum(axis=1), kind="stable")
        n_outputs = len(self.output_names)
        columns: dict[str, Any] = {
            "feature": [self.feature_names[i] for i in order for _ in range(n_outputs)]
        }
        if n_outputs > 1:
            columns["output"] = list(self.output_names) * len(order)
        columns["mean_abs"] = self.mean_abs[order].reshape(-1)
        columns["mean"] = self.mean[order].reshape(-1)
        return make_frame(columns, like=like)


@dataclass(frozen=True, eq=False, repr=False)
class GlobalInteractions:
    """Sums of interaction indices over rows. ``a + b`` is that over the rows of both."""

    n_rows: int
    sets: Sets
    sum_abs: Float64  # (n_sets, n_outputs)
    sum: Float64  # (n_sets, n_outputs)
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    kind: str

    @property
    def mean_abs(self) -> Float64:
        """(n_sets, n_outputs) the mean absolute index: how much a set matters."""
        return self.sum_abs / max(self.n_rows, 1)

    @property
    def mean(self) -> Float64:
        """(n_sets, n_outputs) the mean index."""
        return self.sum / max(self.n_rows, 1)

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
        n_rows, sum_abs, total = (
            self.n_rows + other.n_rows,
            self.sum_abs + other.sum_abs,
            self.sum + other.sum,
        )
        return GlobalInteractions(
            n_rows, self.sets, sum_abs, total, self.feature_names, self.output_names, self.kind
        )

    def to_frame(self, *, like: Any = None) -> Any:
        """A row per set and output, the most important set first, in the library of the frame ``like``."""
        order = np.argsort(-self.sum_abs.sum(axis=1), kind="stable")
        n_outputs, names = len(self.output_names), self.set_names
        columns: dict[str, Any] = {"features": [names[i] for i in order for _ in range(n_outputs)]}
        if n_outputs > 1:
            columns["output"] = list(self.output_names) * len(order)
        columns["mean_abs"] = self.mean_abs[order].reshape(-1)
        columns["mean"] = self.mean[order].reshape(-1)
        return make_frame(columns, like=like)

    def __repr__(self) -> str:
        means = self.mean_abs.sum(axis=1)
        return f"GlobalInteractions({summary(self.n_rows, self.sets, self.kind, self.set_names, means)})"


def global_importance(
    model: Any, batches: Any, *, n_jobs: int | None = None, check_additivity: bool | float = True
) -> GlobalImportance:
    """Mean absolute and mean values over all rows of all batches, without keeping any values.

    Parameters
    ----------
    model
        A model, or a `TreeExplainer` of one.
    batches
        An iterable of tables (arrays, data frames, sparse matrices), or a single table.
    check_additivity
        As for `TreeExplainer.shap_values`, for each batch.

    Examples
    --------
    >>> import numpy as np
    >>> from linear_treeshap import global_importance
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> model = DecisionTreeRegressor(max_depth=1).fit([[0], [0], [0], [1]], [1, 1, 1, 3])
    >>> importance = global_importance(model, (np.full((1000, 1), x) for x in (0.0, 0.0, 1.0)))
    >>> importance.n_rows
    3000
    >>> importance.to_frame()
         feature  mean_abs      mean
    0  Feature 0  0.833333  0.166667
    """
    explainer = model if isinstance(model, TreeExplainer) else TreeExplainer(model)
    shape = (explainer.players.n_players, explainer.ensemble.n_outputs)
    n_rows, sum_abs, total = 0, np.zeros(shape), np.zeros(shape)
    for batch in _batches(batches):
        for values in explainer.iter_values(batch, n_jobs=n_jobs, check_additivity=check_additivity):
            n_rows += len(values)
            total += values.sum(axis=0)
            sum_abs += np.abs(values, out=values).sum(axis=0)
    outputs = explainer.ensemble.output_names or tuple(f"Output {i}" for i in range(shape[1]))
    return GlobalImportance(n_rows, sum_abs, total, tuple(explainer.players.names), outputs)


def global_interactions(
    model: Any,
    batches: Any,
    order: int = 2,
    *,
    index: Literal["k-SII", "SII", "STII", "BII"] | None = None,
    n_jobs: int | None = None,
    check_additivity: bool | float = True,
) -> GlobalInteractions:
    """Mean absolute and mean interactions over all rows of all batches, without keeping those of any row.

    Memory depends on the sets of features that meet in a tree, not on the number of rows.

    Parameters
    ----------
    model
        A model, or a `TreeExplainer` of one.
    batches
        An iterable of tables (arrays, data frames, sparse matrices), or a single table.
    order, index, check_additivity
        As for `TreeExplainer.interactions`; sums are compared batch by batch.

    Examples
    --------
    >>> import numpy as np
    >>> from linear_treeshap import global_interactions
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> model = DecisionTreeRegressor().fit([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 0, 0, 8])
    >>> global_interactions(model, np.ones((1000, 2))).to_frame()
                    features  mean_abs  mean
    0              Feature 0       2.0   2.0
    1              Feature 1       2.0   2.0
    2  Feature 0 × Feature 1       2.0   2.0
    """
    explainer = model if isinstance(model, TreeExplainer) else TreeExplainer(model)
    kind, engine = explainer._set_engine(index, order)
    n_jobs = explainer.n_jobs if n_jobs is None else n_jobs
    shape = (len(engine.sets), engine.n_outputs)
    n_rows, sum_abs, total = 0, np.zeros(shape), np.zeros(shape)
    for batch in _batches(batches):
        for rows, check in explainer._slices(batch, check_additivity, adds_up(kind, order)):
            before = total.sum(axis=0)
            n_rows += len(rows)
            engine.add_up(rows, total, sum_abs, n_jobs=n_jobs)
            check(total.sum(axis=0) - before)
    outputs = explainer.ensemble.output_names or tuple(f"Output {i}" for i in range(shape[1]))
    names = tuple(explainer.players.names)
    return GlobalInteractions(n_rows, engine.sets, sum_abs, total, names, outputs, kind)


def _batches(batches: Any) -> Iterator[Any]:
    """The tables one by one; a single table is a batch of its own."""
    is_table = is_frame(batches) or isinstance(batches, np.ndarray) or hasattr(batches, "tocsr")
    if is_table or not isinstance(batches, Iterable):
        yield batches
    else:
        yield from batches
