"""Small XGBoost models for the zoo."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from zoo import Rows, ZooModel, zoo_model
from zoo_rows import (
    N_ROWS,
    classes,
    coded_rows,
    coded_target,
    labelled_frame,
    labelled_model,
    numeric_rows,
    target,
)

# XGBoost adds float32 leaves in float32: each of the up to 30 additions rounds by at most half an
# ulp (6e-8) of a partial sum, which the sum of absolute leaves bounds.
XGBOOST_TOLERANCE = 2e-6
#: One thread, and no more trees than a test needs.
XGBOOST_PARAMETERS = {"n_estimators": 8, "max_depth": 4, "n_jobs": 1, "random_state": 0}


@zoo_model
def xgboost_regressor() -> ZooModel:
    xgboost = pytest.importorskip("xgboost")
    rows = numeric_rows()
    return ZooModel(
        xgboost.XGBRegressor(**XGBOOST_PARAMETERS).fit(rows, target(rows)), rows, tolerance=XGBOOST_TOLERANCE
    )


@zoo_model
def xgboost_booster() -> ZooModel:
    xgboost = pytest.importorskip("xgboost")
    rows = numeric_rows()
    data = xgboost.DMatrix(rows, classes(rows, 2), feature_names=list("abcde"))
    model = xgboost.train({"objective": "binary:logistic", "nthread": 1, "max_depth": 5}, data, 12)
    return ZooModel(model, rows, tolerance=XGBOOST_TOLERANCE)


@zoo_model
def xgboost_binary() -> ZooModel:
    xgboost = pytest.importorskip("xgboost")
    rows = numeric_rows()
    model = xgboost.XGBClassifier(**XGBOOST_PARAMETERS, base_score=0.3).fit(rows, classes(rows, 2))
    return ZooModel(model, rows, tolerance=XGBOOST_TOLERANCE)


@zoo_model
def xgboost_multiclass() -> ZooModel:
    xgboost = pytest.importorskip("xgboost")
    rows = numeric_rows()
    names = np.array(["low", "middle", "high"])[classes(rows, 3)]
    codes = np.unique(names, return_inverse=True)[1]
    return ZooModel(
        xgboost.XGBClassifier(**XGBOOST_PARAMETERS).fit(rows, codes), rows, tolerance=XGBOOST_TOLERANCE
    )


@zoo_model
def xgboost_boosted_forest() -> ZooModel:
    """Three classes, and two trees per class and round: tree_info is not i % 3."""
    xgboost = pytest.importorskip("xgboost")
    rows = numeric_rows()
    model = xgboost.XGBClassifier(
        **{**XGBOOST_PARAMETERS, "n_estimators": 4}, num_parallel_tree=2, subsample=0.6
    )
    return ZooModel(model.fit(rows, classes(rows, 3)), rows, tolerance=XGBOOST_TOLERANCE)


def xgboost_forest(name: str) -> Any:
    """XGBRFClassifier and XGBRFRegressor are deprecated since 3.4, but people still hold them."""
    xgboost = pytest.importorskip("xgboost")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*deprecated", category=FutureWarning)
        return getattr(xgboost, name)(**XGBOOST_PARAMETERS)


@zoo_model
def xgboost_forest_classifier() -> ZooModel:
    rows = numeric_rows()
    return ZooModel(
        xgboost_forest("XGBRFClassifier").fit(rows, classes(rows, 2)), rows, tolerance=XGBOOST_TOLERANCE
    )


@zoo_model
def xgboost_forest_regressor() -> ZooModel:
    rows = numeric_rows()
    return ZooModel(
        xgboost_forest("XGBRFRegressor").fit(rows, target(rows)), rows, tolerance=XGBOOST_TOLERANCE
    )


@zoo_model
def xgboost_ranker() -> ZooModel:
    xgboost = pytest.importorskip("xgboost")
    rows = numeric_rows()
    model = xgboost.XGBRanker(**XGBOOST_PARAMETERS)
    model.fit(rows, classes(rows, 4), qid=np.repeat(np.arange(20), N_ROWS // 20))
    return ZooModel(model, rows, tolerance=XGBOOST_TOLERANCE)


def xgboost_version() -> tuple[int, ...]:
    xgboost = pytest.importorskip("xgboost")
    return tuple(map(int, xgboost.__version__.split(".")[:2]))


def dart_parameters() -> dict[str, Any]:
    """From 3.3 on dropout alone asks for DART, and its weights are saved elsewhere."""
    return {"rate_drop": 0.5, **({"booster": "dart"} if xgboost_version() < (3, 3) else {})}


@zoo_model
def xgboost_dart() -> ZooModel:
    xgboost = pytest.importorskip("xgboost")
    rows = numeric_rows()
    model = xgboost.XGBRegressor(**XGBOOST_PARAMETERS, **dart_parameters())
    return ZooModel(model.fit(rows, target(rows)), rows, tolerance=XGBOOST_TOLERANCE)


@zoo_model
def xgboost_one_tree_per_output() -> ZooModel:
    xgboost = pytest.importorskip("xgboost")
    rows = numeric_rows()
    outputs = np.column_stack([target(rows), 3 - target(rows[:, ::-1])])
    return ZooModel(
        xgboost.XGBRegressor(**XGBOOST_PARAMETERS).fit(rows, outputs), rows, tolerance=XGBOOST_TOLERANCE
    )


@zoo_model
def xgboost_vector_leaves() -> ZooModel:
    xgboost = pytest.importorskip("xgboost")
    if xgboost_version() < (3, 2):
        pytest.skip("XGBoost stores the covers of vector leaves since 3.2")
    rows = numeric_rows()
    outputs = np.column_stack([target(rows), 3 - target(rows[:, ::-1])])
    model = xgboost.XGBRegressor(**XGBOOST_PARAMETERS, multi_strategy="multi_output_tree")
    return ZooModel(model.fit(rows, outputs), rows, tolerance=XGBOOST_TOLERANCE)


@zoo_model
def xgboost_early_stopped() -> ZooModel:
    """Stopped long after its best round; the wrapper predicts with the best one."""
    xgboost = pytest.importorskip("xgboost")
    rows = numeric_rows()
    noise = np.random.default_rng(0).normal(size=N_ROWS)
    model = xgboost.XGBRegressor(
        **{**XGBOOST_PARAMETERS, "n_estimators": 60}, early_stopping_rounds=5, learning_rate=0.5
    )
    model.fit(rows, target(rows) + noise, eval_set=[(rows, target(rows) - noise)], verbose=False)
    return ZooModel(model, rows, tolerance=XGBOOST_TOLERANCE)


@zoo_model
def xgboost_own_missing_value() -> ZooModel:
    xgboost = pytest.importorskip("xgboost")
    rows = numeric_rows()

    def with_marker(rows: Rows) -> Rows:
        return np.where(np.isnan(rows), -999.0, rows)

    model = xgboost.XGBRegressor(**XGBOOST_PARAMETERS, missing=-999.0)
    return ZooModel(
        model.fit(with_marker(rows), target(rows)), rows, to_input=with_marker, tolerance=XGBOOST_TOLERANCE
    )


@zoo_model
def xgboost_pruned() -> ZooModel:
    """Pruning leaves deleted nodes in the arrays."""
    xgboost = pytest.importorskip("xgboost")
    rows = numeric_rows()
    model = xgboost.XGBRegressor(**XGBOOST_PARAMETERS, tree_method="exact", gamma=8.0)
    return ZooModel(model.fit(rows, target(rows)), rows, tolerance=XGBOOST_TOLERANCE)


@zoo_model
def xgboost_single_leaves() -> ZooModel:
    """Too much regularisation for a split: every tree is one leaf."""
    xgboost = pytest.importorskip("xgboost")
    rows = numeric_rows()
    model = xgboost.XGBRegressor(**XGBOOST_PARAMETERS, gamma=1e6, base_score=2.0)
    return ZooModel(model.fit(rows, target(rows)), rows, tolerance=XGBOOST_TOLERANCE)


@zoo_model
def xgboost_no_trees() -> ZooModel:
    xgboost = pytest.importorskip("xgboost")
    rows = numeric_rows()
    model = xgboost.train({"nthread": 1, "base_score": 0.25}, xgboost.DMatrix(rows, target(rows)), 0)
    return ZooModel(model, rows, tolerance=XGBOOST_TOLERANCE)


@zoo_model
def xgboost_categorical() -> ZooModel:
    """Codes in an array; one column splits one category off, the other in two sets."""
    xgboost = pytest.importorskip("xgboost")
    rows = coded_rows()
    model = xgboost.XGBRegressor(
        **XGBOOST_PARAMETERS,
        enable_categorical=True,
        feature_types=["c", "c", "q", "q", "q"],
        max_cat_to_onehot=4,
    )
    model.fit(rows, coded_target(rows))
    return ZooModel(model, rows, categorical=frozenset({0, 1}), tolerance=XGBOOST_TOLERANCE)


@zoo_model
def xgboost_categorical_frame() -> ZooModel:
    """Words and numbers as categories; explained on a frame whose categories come in another order."""
    xgboost = pytest.importorskip("xgboost")
    if xgboost_version() < (3, 2):
        pytest.skip(
            "XGBoost keeps the labels of pandas' categories since 3.1, of its string columns since 3.2"
        )
    rows = coded_rows()
    model = xgboost.XGBRegressor(**XGBOOST_PARAMETERS, enable_categorical=True)
    model.fit(labelled_frame(rows), coded_target(rows))
    return labelled_model(model, rows, tolerance=XGBOOST_TOLERANCE)
