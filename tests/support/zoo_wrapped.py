"""The zoo's models that are made of other models: means, weighted sums, stacks, transformed targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from zoo import Rows, ZooModel, zoo_model
from zoo_rows import classes, numeric_rows, target

#: XGBoost and CatBoost compare, and some add, in float32.
FLOAT32 = 1e-6


def _data() -> tuple[Rows, npt.NDArray[np.float64]]:
    rows = np.nan_to_num(numeric_rows(5))
    return rows, target(rows)


def _sklearn(path: str, *arguments: Any, **options: Any) -> Any:
    module, name = path.split(".")
    return getattr(pytest.importorskip(f"sklearn.{module}"), name)(*arguments, **options)


def _forest(**options: Any) -> Any:
    return _sklearn("ensemble.RandomForestRegressor", n_estimators=4, max_depth=4, random_state=0, **options)


def _forest_classifier(seed: int = 0) -> Any:
    return _sklearn("ensemble.RandomForestClassifier", n_estimators=4, max_depth=4, random_state=seed)


def _extra_classifier() -> Any:
    return _sklearn("ensemble.ExtraTreesClassifier", n_estimators=3, max_depth=5, random_state=0)


def _boosted(**options: Any) -> Any:
    return _sklearn("ensemble.GradientBoostingRegressor", n_estimators=6, random_state=0, **options)


def _hist() -> Any:
    return _sklearn("ensemble.HistGradientBoostingRegressor", max_iter=6, random_state=0)


def _finite(model: Any, rows: Rows, **options: Any) -> ZooModel:
    return ZooModel(model, rows, takes_missing=False, takes_infinity=False, **options)


# -- lists -------------------------------------------------------------------------------------------------


@zoo_model
def several_folds() -> ZooModel:
    """The models of cross-validation: each has its own thresholds."""
    selection = pytest.importorskip("sklearn.model_selection")
    rows, y = _data()
    found = selection.cross_validate(_boosted(), rows, y, cv=3, return_estimator=True)
    return _finite(list(found["estimator"]), rows)


@zoo_model
def several_libraries() -> ZooModel:
    """A weighted sum of models that compare in float32 and in float64, with missing values."""
    xgboost, lightgbm = pytest.importorskip("xgboost"), pytest.importorskip("lightgbm")
    rows = numeric_rows(5)
    y = target(rows)
    models = [
        xgboost.XGBRegressor(n_estimators=5, max_depth=4).fit(rows, y),
        lightgbm.LGBMRegressor(n_estimators=5, verbose=-1).fit(rows, y),
        _hist().fit(rows, y),
    ]
    pairs = list(zip([0.5, -0.25, 2.0], models, strict=True))
    return ZooModel(pairs, rows, tolerance=FLOAT32)


@zoo_model
def several_multiclass_boosters() -> ZooModel:
    """Means of three raw outputs each."""
    lightgbm = pytest.importorskip("lightgbm")
    rows = numeric_rows(5)
    models = [
        lightgbm.LGBMClassifier(n_estimators=4, verbose=-1, random_state=seed, max_depth=3 + seed)
        for seed in (0, 1)
    ]
    return ZooModel([model.fit(rows, classes(rows, 3)) for model in models], rows)


# -- voting and stacking -----------------------------------------------------------------------------------


@zoo_model
def sklearn_voting_regressor() -> ZooModel:
    rows, y = _data()
    models = [("forest", _forest()), ("boosted", _boosted()), ("hist", _hist()), ("none", "drop")]
    model = _sklearn("ensemble.VotingRegressor", models, weights=[1, 3, 2, 5])
    return _finite(model.fit(rows, y), rows)


@zoo_model
def sklearn_voting_classifier() -> ZooModel:
    rows, _ = _data()
    models = [("forest", _forest_classifier()), ("extra", _extra_classifier())]
    model = _sklearn("ensemble.VotingClassifier", models, voting="soft", weights=[1, 2])
    return _finite(model.fit(rows, np.array(["low", "middle", "high"])[classes(rows, 3)]), rows)


@zoo_model
def sklearn_stacking_regressor() -> ZooModel:
    rows, y = _data()
    model = _sklearn("ensemble.StackingRegressor", [("forest", _forest()), ("hist", _hist())], cv=3)
    return ZooModel(model.fit(rows, y), rows, takes_infinity=False)


@zoo_model
def sklearn_stacking_binary() -> ZooModel:
    """A forest gives the second of its two probabilities, a booster its log-odds."""
    rows, _ = _data()
    booster = _sklearn("ensemble.GradientBoostingClassifier", n_estimators=5, random_state=0)
    model = _sklearn(
        "ensemble.StackingClassifier",
        [("boosted", booster), ("boosted too", booster)],
        stack_method="decision_function",
        cv=3,
    )
    return _finite(model.fit(rows, classes(rows, 2)), rows)


@zoo_model
def sklearn_stacking_forests() -> ZooModel:
    rows, _ = _data()
    models = [("forest", _forest_classifier()), ("extra", _extra_classifier())]
    return _finite(_sklearn("ensemble.StackingClassifier", models, cv=3).fit(rows, classes(rows, 2)), rows)


@zoo_model
def sklearn_stacking_multiclass() -> ZooModel:
    rows, _ = _data()
    models = [("forest", _forest_classifier()), ("extra", _extra_classifier())]
    return _finite(_sklearn("ensemble.StackingClassifier", models, cv=3).fit(rows, classes(rows, 3)), rows)


# -- transformed targets -----------------------------------------------------------------------------------


@zoo_model
def sklearn_scaled_target() -> ZooModel:
    rows, y = _data()
    scaler = _sklearn("preprocessing.StandardScaler")
    model = _sklearn("compose.TransformedTargetRegressor", _boosted(), transformer=scaler)
    return _finite(model.fit(rows, 50 * y + 1000), rows)


@zoo_model
def sklearn_scaled_targets() -> ZooModel:
    rows, y = _data()
    scaler = _sklearn("preprocessing.MinMaxScaler")
    model = _sklearn("compose.TransformedTargetRegressor", _forest(), transformer=scaler)
    return ZooModel(model.fit(rows, np.column_stack([y, 7 * rows[:, 3]])), rows, takes_infinity=False)


@zoo_model
def sklearn_logarithm_of_target() -> ZooModel:
    rows, y = _data()
    model = _sklearn(
        "compose.TransformedTargetRegressor",
        _boosted(),
        func=np.log,
        inverse_func=np.exp,
        check_inverse=False,
    )
    return _finite(model.fit(rows, np.exp(y)), rows)
