"""Small CatBoost models for the zoo."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from zoo import Rows, ZooModel, zoo_model
from zoo_rows import N_ROWS, classes, coded_rows, coded_target, numeric_rows, target

#: One thread, no files left behind, and no more trees than a test needs.
CATBOOST_PARAMETERS = {
    "iterations": 8,
    "depth": 4,
    "learning_rate": 0.3,
    "verbose": 0,
    "thread_count": 1,
    "allow_writing_files": False,
    "random_seed": 0,
}


def catboost_regressor_on(rows: Any, outcome: Any, **parameters: Any) -> Any:
    catboost = pytest.importorskip("catboost")
    return catboost.CatBoostRegressor(**{**CATBOOST_PARAMETERS, **parameters}).fit(rows, outcome)


@zoo_model
def catboost_regressor() -> ZooModel:
    rows = numeric_rows()
    return ZooModel(catboost_regressor_on(rows, target(rows)), rows)


@zoo_model
def catboost_zero_cover() -> ZooModel:
    """Deep symmetric trees on few distinct values: most leaves saw no training row."""
    rows = np.round(numeric_rows(n_features=2))
    model = catboost_regressor_on(rows, target(numeric_rows()), depth=8, iterations=4)
    return ZooModel(model, rows)


@zoo_model
def catboost_binary() -> ZooModel:
    catboost = pytest.importorskip("catboost")
    rows = numeric_rows()
    return ZooModel(catboost.CatBoostClassifier(**CATBOOST_PARAMETERS).fit(rows, classes(rows, 2)), rows)


@zoo_model
def catboost_multiclass() -> ZooModel:
    catboost = pytest.importorskip("catboost")
    rows = numeric_rows()
    names = np.array(["low", "middle", "high"])[classes(rows, 3)]
    return ZooModel(catboost.CatBoostClassifier(**CATBOOST_PARAMETERS).fit(rows, names), rows)


@zoo_model
def catboost_ranker() -> ZooModel:
    catboost = pytest.importorskip("catboost")
    rows = numeric_rows()
    model = catboost.CatBoostRanker(**CATBOOST_PARAMETERS, loss_function="YetiRank")
    model.fit(rows, classes(rows, 4), group_id=np.repeat(np.arange(20), N_ROWS // 20))
    return ZooModel(model, rows)


@zoo_model
def catboost_multi_output() -> ZooModel:
    rows = numeric_rows()
    outputs = np.column_stack([target(rows), 3 - target(rows[:, ::-1])])
    return ZooModel(catboost_regressor_on(rows, outputs, loss_function="MultiRMSE"), rows)


@zoo_model
def catboost_depthwise() -> ZooModel:
    rows = numeric_rows()
    return ZooModel(catboost_regressor_on(rows, target(rows), grow_policy="Depthwise"), rows)


@zoo_model
def catboost_lossguide() -> ZooModel:
    """Uneven trees with vectors at their leaves."""
    catboost = pytest.importorskip("catboost")
    rows = numeric_rows()
    model = catboost.CatBoostClassifier(**CATBOOST_PARAMETERS, grow_policy="Lossguide", max_leaves=7)
    return ZooModel(model.fit(rows, classes(rows, 3)), rows)


@zoo_model
def catboost_nan_above_all() -> ZooModel:
    rows = numeric_rows(missing=0.2)
    return ZooModel(catboost_regressor_on(rows, target(rows), nan_mode="Max"), rows)


@zoo_model
def catboost_never_missing() -> ZooModel:
    """Trained without missing values, and then given some."""
    rows = numeric_rows(missing=0.0)
    return ZooModel(catboost_regressor_on(rows, target(rows)), rows)


@zoo_model
def catboost_scaled() -> ZooModel:
    rows = numeric_rows()
    model = catboost_regressor_on(rows, target(rows))
    model.set_scale_and_bias(-2.5, 7.0)
    return ZooModel(model, rows)


@zoo_model
def catboost_single_leaves() -> ZooModel:
    """Too few rows for a split: every tree is one leaf."""
    rows = numeric_rows()
    small = {"grow_policy": "Depthwise", "min_data_in_leaf": N_ROWS}
    return ZooModel(catboost_regressor_on(rows, target(rows), **small), rows)


def catboost_frame(rows: Rows) -> Any:
    """Codes 0, 1, 2 as words, the second column as whole numbers, the others as they are."""
    pandas = pytest.importorskip("pandas")
    words = ["red", "green", "a rather long name for a category, longer than sixty-four letters in all"]
    columns: dict[str, Any] = {f"f{i}": column for i, column in enumerate(rows.T)}
    columns["f0"] = [words[int(code)] if 0 <= code < 3 else "never seen" for code in rows[:, 0]]
    columns["f1"] = [10 * int(code) for code in rows[:, 1]]
    return pandas.DataFrame(columns)


@zoo_model
def catboost_one_hot() -> ZooModel:
    """Categories as words and as whole numbers, each split off on its own."""
    rows = np.nan_to_num(coded_rows((3, 12)))
    model = catboost_regressor_on(
        catboost_frame(rows), coded_target(rows), one_hot_max_size=20, cat_features=["f0", "f1"]
    )
    return ZooModel(model, rows, to_input=catboost_frame, categorical=frozenset({0, 1}), takes_missing=False)


@zoo_model
def catboost_one_hot_lossguide() -> ZooModel:
    rows = np.nan_to_num(coded_rows((3, 12)))
    model = catboost_regressor_on(
        catboost_frame(rows),
        coded_target(rows),
        one_hot_max_size=20,
        cat_features=["f0", "f1"],
        grow_policy="Lossguide",
    )
    return ZooModel(model, rows, to_input=catboost_frame, categorical=frozenset({0, 1}), takes_missing=False)


def statistics_rows() -> Rows:
    """Two columns of categories whose combination says what neither of them does, then numbers."""
    rows = np.nan_to_num(coded_rows((3, 12)))
    rows[:, 2:] = numeric_rows(3)
    return rows


def statistics_target(rows: Rows) -> Rows:
    x = np.nan_to_num(rows[:, 2:], nan=0.7)
    return np.asarray(np.where((rows[:, 0] + rows[:, 1]) % 2, 3.0, -1.0) * (1 + (x[:, 0] > 0)) + x[:, 1])


def statistics_model(train: Any, outcome: Any, **parameters: Any) -> ZooModel:
    """Categories by the statistics of their outcomes and by those of combinations."""
    rows = statistics_rows()
    model = train(**{**CATBOOST_PARAMETERS, "iterations": 30, "max_ctr_complexity": 3, **parameters})
    model.fit(catboost_frame(rows), outcome(rows), cat_features=["f0", "f1"])
    return ZooModel(model, rows, to_input=catboost_frame, categorical=frozenset({0, 1}), takes_missing=False)


@zoo_model
def catboost_statistics() -> ZooModel:
    catboost = pytest.importorskip("catboost")
    return statistics_model(catboost.CatBoostRegressor, statistics_target)


@zoo_model
def catboost_statistics_lossguide() -> ZooModel:
    catboost = pytest.importorskip("catboost")
    return statistics_model(catboost.CatBoostRegressor, statistics_target, grow_policy="Lossguide")


@zoo_model
def catboost_statistics_multiclass() -> ZooModel:
    """One statistic for each class, some categories one by one, and NaN above all borders."""
    catboost = pytest.importorskip("catboost")

    def outcome(rows: Rows) -> Any:
        return np.digitize(statistics_target(rows), [-1.5, 0.0, 3.0])

    kinds = ["Borders", "Buckets", "Counter"]
    return statistics_model(
        catboost.CatBoostClassifier,
        outcome,
        one_hot_max_size=3,
        nan_mode="Max",
        simple_ctr=kinds,
        combinations_ctr=kinds,
    )
