"""Interactions: the indices of sets of features for some rows, of any order, without the zeros in between."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .axes import position
from .layout import NamedArray

__all__ = ["Interactions", "Sets", "in_order", "set_names", "summary"]

Sets = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Interaction indices of some rows; only sets of features that meet in a tree are kept, all others are 0.

    ``interactions["age", "bmi"]`` is the index of a set for every row, by names or positions in any order.

    Examples
    --------
    >>> from linear_treeshap import TreeExplainer
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> model = DecisionTreeRegressor().fit([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 0, 0, 8])
    >>> explainer = TreeExplainer(model, feature_names=["left", "right"])
    >>> found = explainer.interactions([[1.0, 1.0], [0.0, 1.0]])
    >>> found
    Interactions(2 rows, 3 sets of up to 2 features, k-SII: left 2, right 2, left × right 2)
    >>> found.sets
    ((0,), (1,), (0, 1))
    >>> found["right", "left"]
    array([ 2., -2.])
    >>> found.top(1)
       row  rank features  value
    0    0     1     left    2.0
    1    1     1     left   -2.0
    """

    sets: Sets  # positions of features, increasing; smaller sets first
    values: npt.NDArray[np.floating]  # (n_rows, n_sets), or (n_rows, n_sets, n_outputs)
    base_values: npt.NDArray[np.float64]  # (n_outputs,): with k-SII, STII and FSII of a row, the prediction
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    kind: str  # "k-SII", "SII" and so on, or the index of the explainer
    #: The labels of the rows, if they came from pandas.
    index: Any = None
    #: A frame of the library in which results are given, if the rows came in one.
    like: Any = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def order(self) -> int:
        """The size of the largest set."""
        return max(map(len, self.sets), default=0)

    @property
    def set_names(self) -> tuple[str, ...]:
        """The sets in words: "age", "age × bmi"."""
        return set_names(self.sets, self.feature_names)

    def __getitem__(self, features: Any) -> npt.NDArray[np.floating]:
        """The index of one set for every row; zeros if its features never meet."""
        wanted = features if isinstance(features, tuple) else (features,)
        members = tuple(sorted(position(feature, self.feature_names, "feature") for feature in wanted))
        if len(set(members)) < len(members):
            raise InputError(f"A set has each feature once, got {features!r}.")
        if members not in self.sets:
            return np.zeros((len(self.values), *self.values.shape[2:]), dtype=self.values.dtype)
        return self.values[:, self.sets.index(members)]

    def to_dense(self) -> npt.NDArray[np.floating]:
        """(n_rows, n_features, n_features[, n_outputs]): features on the diagonal, pairs half and half.

        Of k-SII of order 2 that is what `shap_interaction_values` gives. Larger sets have no place in it.
        """
        n, m = len(self.values), len(self.feature_names)
        dense = np.zeros((n, m, m, *self.values.shape[2:]), dtype=self.values.dtype)
        for place, members in enumerate(self.sets):
            if len(members) > 2:
                raise InputError(f"Sets of {len(members)} features do not fit into a matrix. Use order=2.")
            i, j = members[0], members[-1]
            dense[:, i, j] = dense[:, j, i] = self.values[:, place] / len(members)
        return dense

    def top(self, k: int = 5, *, order: int | None = None) -> Any:
        """The ``k`` sets of the largest absolute index for each row and output, as a data frame.

        Its columns are row, output if there are several, rank from 1, features and value. ``order`` is the
        size of the sets to choose from; None for all.
        """
        return self._named(order).top(k)

    def to_frame(self, layout: Literal["wide", "long"] = "wide") -> Any:
        """A data frame: "wide" has a column per set, "long" a row per value; as `Explanation.to_frame`."""
        return self._named().frame(layout)

    def __repr__(self) -> str:
        means = np.abs(self._full).sum(axis=(0, 2)) / max(len(self.values), 1)
        return f"Interactions({summary(len(self.values), self.sets, self.kind, self.set_names, means)})"

    @property
    def _full(self) -> npt.NDArray[np.floating]:
        return self.values if self.values.ndim == 3 else self.values[:, :, np.newaxis]

    def _named(self, order: int | None = None) -> NamedArray:
        """The sets of this size, or all."""
        chosen = [i for i, members in enumerate(self.sets) if order is None or len(members) == order]
        names = set_names([self.sets[i] for i in chosen], self.feature_names)
        outputs = self.output_names if len(self.output_names) > 1 else None
        values = self._full if order is None else self._full[:, chosen]
        return NamedArray(values, "features", names, outputs, self.index, self.like)


def in_order(
    sets: Sets, values: npt.NDArray[np.floating], order: Sequence[int] | None
) -> tuple[Sets, npt.NDArray[np.floating]]:
    """The same sets and values, with feature ``i`` in the place ``order[i]``."""
    if order is None:
        return sets, values
    moved = [tuple(sorted(order[i] for i in members)) for members in sets]
    places = sorted(range(len(moved)), key=lambda place: (len(moved[place]), moved[place]))
    return tuple(moved[place] for place in places), values[:, places]


def summary(n_rows: int, sets: Sets, kind: str, names: Sequence[str], means: npt.NDArray[np.floating]) -> str:
    """Sizes, and the sets of the largest means."""
    best = np.argsort(-means, kind="stable")[:5]
    largest = [f"{names[i]} {means[i]:.3g}" for i in best]
    rows, more = "row" if n_rows == 1 else "rows", ", …" if len(sets) > 5 else ""
    order = max(map(len, sets), default=0)
    size = f"{n_rows:,} {rows}, {len(sets):,} sets of up to {order} features"
    return f"{size}, {kind}: {', '.join(largest)}{more}"


def set_names(sets: Iterable[Sequence[int]], feature_names: Sequence[str]) -> tuple[str, ...]:
    """The sets in words."""
    return tuple(" × ".join(feature_names[i] for i in members) for members in sets)
