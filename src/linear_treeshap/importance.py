"""Importance over more rows than there is memory for values.

Rows come in batches and leave only sums behind; sums of different batches, processes or machines add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import InputError
from .explainer import TreeExplainer
from .frames import is_frame
from .tables import make_frame

__all__ = ["GlobalImportance", "global_importance"]

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


def global_importance(model: Any, batches: Any, *, n_jobs: int | None = None) -> GlobalImportance:
    """Mean absolute and mean values over all rows of all batches, without keeping any values.

    Parameters
    ----------
    model
        A model, or a `TreeExplainer` of one.
    batches
        An iterable of tables (arrays, data frames, sparse matrices), or a single table.

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
        for values in explainer.iter_values(batch, n_jobs=n_jobs):
            n_rows += len(values)
            total += values.sum(axis=0)
            sum_abs += np.abs(values, out=values).sum(axis=0)
    outputs = explainer.ensemble.output_names or tuple(f"Output {i}" for i in range(shape[1]))
    return GlobalImportance(n_rows, sum_abs, total, explainer.players.names, outputs)


def _batches(batches: Any) -> Iterator[Any]:
    """The tables one by one; a single table is a batch of its own."""
    is_table = is_frame(batches) or isinstance(batches, np.ndarray) or hasattr(batches, "tocsr")
    if is_table or not isinstance(batches, Iterable):
        yield batches
    else:
        yield from batches
