"""Small XGBoost, LightGBM and CatBoost models for the zoo."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from zoo import Rows, ZooModel, zoo_model

N_ROWS = 400

# XGBoost adds float32 leaves in float32: each of the up to 30 additions rounds by at most half an
# ulp (6e-8) of a partial sum, which the sum of absolute leaves bounds.
XGBOOST_TOLERANCE = 2e-6
#: One thread, and no more trees than a test needs.
XGBOOST_PARAMETERS = {"n_estimators": 8, "max_depth": 4, "n_jobs": 1, "random_state": 0}


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


def labelled_frame(rows: Rows, labels: dict[int, Sequence[Any]], reverse: bool = False) -> Any:
    """A data frame with columns f0, f1, …, those in ``labels`` of pandas' categorical type."""
    pandas = pytest.importorskip("pandas")
    columns: dict[str, Any] = {f"f{i}": column for i, column in enumerate(rows.T)}
    for feature, names in labels.items():
        codes = np.nan_to_num(rows[:, feature], nan=-1).astype(int)
        column = pandas.Categorical.from_codes(codes, categories=list(names))
        columns[f"f{feature}"] = column.set_categories(list(names)[::-1]) if reverse else column
    return pandas.DataFrame(columns)


# -- XGBoost ---------------------------------------------------------------------------------------


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
    labels: dict[int, Sequence[Any]] = {0: ["red", "green", "blue"], 1: [10 * code for code in range(12)]}
    model = xgboost.XGBRegressor(**XGBOOST_PARAMETERS, enable_categorical=True)
    model.fit(labelled_frame(rows, labels), coded_target(rows))
    return ZooModel(
        model,
        rows,
        to_input=lambda rows: labelled_frame(rows, labels, reverse=True),
        categorical=frozenset(labels),
        takes_unknown_categories=False,
        tolerance=XGBOOST_TOLERANCE,
    )


# -- LightGBM --------------------------------------------------------------------------------------

#: One thread, and categories that are split however few rows they have.
LIGHTGBM_PARAMETERS = {
    "n_estimators": 8,
    "num_leaves": 12,
    "min_child_samples": 5,
    "min_data_per_group": 1,
    "cat_smooth": 1.0,
    "n_jobs": 1,
    "verbose": -1,
    "random_state": 0,
}


def lightgbm_regressor_on(rows: Rows, outcome: Rows, **parameters: Any) -> Any:
    lightgbm = pytest.importorskip("lightgbm")
    fitting = {"categorical_feature": parameters.pop("categorical_feature", "auto")}
    return lightgbm.LGBMRegressor(**{**LIGHTGBM_PARAMETERS, **parameters}).fit(rows, outcome, **fitting)


@zoo_model
def lightgbm_regressor() -> ZooModel:
    rows = numeric_rows()
    return ZooModel(lightgbm_regressor_on(rows, target(rows)), rows)


@zoo_model
def lightgbm_booster() -> ZooModel:
    lightgbm = pytest.importorskip("lightgbm")
    rows = numeric_rows()
    data = lightgbm.Dataset(rows, classes(rows, 2), feature_name=list("abcde"))
    parameters = {"objective": "binary", "num_threads": 1, "verbose": -1, "num_leaves": 8}
    return ZooModel(lightgbm.train(parameters, data, 10), rows)


@zoo_model
def lightgbm_binary() -> ZooModel:
    lightgbm = pytest.importorskip("lightgbm")
    rows = numeric_rows()
    return ZooModel(lightgbm.LGBMClassifier(**LIGHTGBM_PARAMETERS).fit(rows, classes(rows, 2)), rows)


@zoo_model
def lightgbm_multiclass() -> ZooModel:
    lightgbm = pytest.importorskip("lightgbm")
    rows = numeric_rows()
    names = np.array(["low", "middle", "high"])[classes(rows, 3)]
    return ZooModel(lightgbm.LGBMClassifier(**LIGHTGBM_PARAMETERS).fit(rows, names), rows)


@zoo_model
def lightgbm_ranker() -> ZooModel:
    lightgbm = pytest.importorskip("lightgbm")
    rows = numeric_rows()
    model = lightgbm.LGBMRanker(**LIGHTGBM_PARAMETERS).fit(rows, classes(rows, 4), group=[N_ROWS // 20] * 20)
    return ZooModel(model, rows)


@zoo_model
def lightgbm_random_forest() -> ZooModel:
    """Random forest mode averages, here three classes of several trees each."""
    lightgbm = pytest.importorskip("lightgbm")
    rows = numeric_rows()
    forest = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1}
    return ZooModel(
        lightgbm.LGBMClassifier(**LIGHTGBM_PARAMETERS, **forest).fit(rows, classes(rows, 3)), rows
    )


@zoo_model
def lightgbm_dart() -> ZooModel:
    rows = numeric_rows()
    return ZooModel(lightgbm_regressor_on(rows, target(rows), boosting_type="dart", drop_rate=0.5), rows)


@zoo_model
def lightgbm_early_stopped() -> ZooModel:
    """Stopped long after its best round; predict() uses the best one."""
    lightgbm = pytest.importorskip("lightgbm")
    rows = numeric_rows()
    noise = np.random.default_rng(0).normal(size=N_ROWS)
    model = lightgbm.LGBMRegressor(**{**LIGHTGBM_PARAMETERS, "n_estimators": 60}, learning_rate=0.5)
    held_out: dict[str, Any] = {"eval_X": rows, "eval_y": target(rows) - noise}
    if "eval_X" not in inspect.signature(model.fit).parameters:  # before LightGBM 4.7
        held_out = {"eval_set": [(rows, target(rows) - noise)]}
    stop = lightgbm.early_stopping(5, verbose=False)
    return ZooModel(model.fit(rows, target(rows) + noise, callbacks=[stop], **held_out), rows)


@zoo_model
def lightgbm_never_missing() -> ZooModel:
    """Trained without missing values: missing_type None, so NaN behaves as zero."""
    rows = numeric_rows(missing=0.0)
    return ZooModel(lightgbm_regressor_on(rows, target(rows)), rows)


@zoo_model
def lightgbm_zero_as_missing() -> ZooModel:
    """Zero is the most frequent value, and means missing."""
    rows = numeric_rows()
    rows[np.random.default_rng(3).random(rows.shape) < 0.2] = 0.0
    model = lightgbm_regressor_on(rows, target(rows), zero_as_missing=True)
    return ZooModel(model, rows)


@zoo_model
def lightgbm_single_leaves() -> ZooModel:
    """Too few rows for a split: every tree is one leaf."""
    rows = numeric_rows()
    return ZooModel(lightgbm_regressor_on(rows, target(rows) + 5, min_child_samples=N_ROWS), rows)


@zoo_model
def lightgbm_categorical() -> ZooModel:
    """Codes in an array; the second column needs more than one word of bits."""
    rows = coded_rows((3, 70))
    model = lightgbm_regressor_on(rows, coded_target(rows), categorical_feature=[0, 1])
    return ZooModel(model, rows, categorical=frozenset({0, 1}))


@zoo_model
def lightgbm_categorical_frame() -> ZooModel:
    """Words and numbers as categories; explained on a frame whose categories come in another order."""
    rows = coded_rows()
    labels: dict[int, Sequence[Any]] = {0: ["red", "green", "blue"], 1: [10 * code for code in range(12)]}
    model = lightgbm_regressor_on(labelled_frame(rows, labels), coded_target(rows))
    return ZooModel(
        model,
        rows,
        to_input=lambda rows: labelled_frame(rows, labels, reverse=True),
        categorical=frozenset(labels),
        takes_unknown_categories=False,
    )


# -- CatBoost --------------------------------------------------------------------------------------

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
