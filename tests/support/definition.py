"""What the definition says of an explainer's rows, in exact fractions: combinations play, and are divided."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from linear_treeshap import TreeExplainer
from linear_treeshap.oracle import as_float, shapley_values

Values = npt.NDArray[np.float64]


def values_by_definition(explainer: TreeExplainer, rows: Any) -> Values:
    """(n_rows, n_players, n_outputs) of rows that are ready to be read, of path-dependent values."""
    in_trees = explainer._assignment.in_trees
    exact = [_of_row(explainer, in_trees, row) for row in rows]
    return np.array([as_float(divided(values, explainer._assignment.divided)) for values in exact])


def divided(values: Any, combined: tuple[tuple[int, ...], ...]) -> Any:
    """Values without those of combinations, the last of them, which are divided among their players."""
    n_own = len(values) - len(combined)
    shares = values[:n_own].copy()
    for combination, parts in enumerate(combined, start=n_own):
        for part in parts:
            shares[part] = shares[part] + values[combination] / len(parts)
    return shares


def _of_row(explainer: TreeExplainer, in_trees: Any, row: Any) -> Any:
    found = shapley_values(explainer.ensemble, row, players=in_trees.of_column, by="leaves")
    n_unheard = in_trees.n_players - len(found)  # the last players, of whose columns there are none
    return np.concatenate([found, np.full((n_unheard, found.shape[1]), Fraction(0), dtype=object)])
