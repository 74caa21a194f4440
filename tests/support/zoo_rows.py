"""Rows and outcomes to train the models of the zoo on, seeded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from zoo import Rows, ZooModel

N_ROWS = 400


def numeric_rows(n_features: int = 5, missing: float = 0.1, seed: int = 0) -> Rows:
    """Rows of few distinct values, so that ties happen, with some missing."""
    rng = np.random.default_rng(seed)
    rows = np.round(rng.normal(size=(N_ROWS, n_features)), 1)
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows


def target(rows: Rows) -> Rows:
    """Something with interactions to learn, around zero."""
    x = np.nan_to_num(rows, nan=0.7)
    return np.asarray(x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + 0.5 * x[:, -1])


def classes(rows: Rows, n_classes: int) -> npt.NDArray[np.int64]:
    ranks: npt.NDArray[np.int64] = np.argsort(np.argsort(target(rows)))
    return ranks * n_classes // len(rows)


def coded_rows(n_codes: tuple[int, ...] = (3, 12), seed: int = 1) -> Rows:
    """Columns of category codes, then three numeric columns."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(n, size=N_ROWS).astype(np.float64) for n in n_codes]
    for code in codes:
        code[rng.random(N_ROWS) < 0.05] = np.nan
    return np.column_stack([*codes, numeric_rows(3, seed=seed)])


def coded_target(rows: Rows) -> Rows:
    few, many = np.nan_to_num(rows[:, 0], nan=1.0), np.nan_to_num(rows[:, 1], nan=4.0)
    return np.asarray((few == 0) * 2.0 + np.sin(3 * many) + target(rows[:, 2:]) * (1 + (many % 3 == 0)))


#: Words and numbers as labels of the first two columns of `coded_rows`.
LABELS: dict[int, Sequence[Any]] = {0: ["red", "green", "blue"], 1: [10 * code for code in range(12)]}


def labelled_frame(rows: Rows, labels: Mapping[int, Sequence[Any]] = LABELS, *, reverse: bool = False) -> Any:
    """A data frame with columns f0, f1, …, those in ``labels`` of pandas' categorical type."""
    pandas = pytest.importorskip("pandas")
    columns: dict[str, Any] = {f"f{i}": column for i, column in enumerate(rows.T)}
    for feature, names in labels.items():
        codes = np.nan_to_num(rows[:, feature], nan=-1).astype(int)
        column = pandas.Categorical.from_codes(codes, categories=list(names))
        columns[f"f{feature}"] = column.set_categories(list(names)[::-1]) if reverse else column
    return pandas.DataFrame(columns)


def labelled_model(model: Any, rows: Rows, **options: Any) -> ZooModel:
    """A model of `labelled_frame`, to be explained on one whose categories come in another order."""
    return ZooModel(
        model,
        rows,
        to_input=lambda rows: labelled_frame(rows, reverse=True),
        categorical=frozenset(LABELS),
        takes_unknown_categories=False,
        **options,
    )
