"""The zoo's models of scikit-learn, of libraries built on its trees, of treelite, and wrappers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from zoo import Rows, ZooModel, zoo_model


def _data(n_rows: int = 300, n_features: int = 5, seed: int = 0) -> tuple[Rows, npt.NDArray[np.float64]]:
    """Numbers, some of them whole so that ties occur, and a target with interactions."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, n_features))
    rows[:, 1] = rng.integers(-3, 4, size=n_rows)
    target = rows[:, 0] * (rows[:, 1] > 0) + np.sin(3 * rows[:, 2]) + 0.3 * rng.normal(size=n_rows)
    return rows, target


def _with_missing(rows: Rows) -> Rows:
    """Gaps in all columns but the last: there the library must decide without having seen any."""
    gaps = np.random.default_rng(1).random(rows.shape) < 0.15
    gaps[:, -1] = False
    return np.where(gaps, np.nan, rows)


def _classes(target: npt.NDArray[np.float64], n_classes: int) -> npt.NDArray[Any]:
    """Labels 'a', 'b', … by quantiles of the target."""
    edges = np.quantile(target, np.linspace(0, 1, n_classes + 1)[1:-1])
    return np.array(list("abcdefgh"))[np.searchsorted(edges, target)]


def _finite(model: Any, rows: Rows, to_input: Callable[[Rows], Any] | None = None) -> ZooModel:
    """A model of a kind that refuses NaN as well as infinity, which all but histograms refuse."""
    zoo = ZooModel(model, rows, takes_missing=False, takes_infinity=False)
    return zoo if to_input is None else replace(zoo, to_input=to_input)


def _named(rows: Rows) -> Any:
    import pandas as pd

    return pd.DataFrame(rows, columns=[f"feature {i}" for i in range(rows.shape[1])])


# -- trees and forests ---------------------------------------------------------------------------------


@zoo_model
def sklearn_decision_tree_regressor() -> ZooModel:
    tree = pytest.importorskip("sklearn.tree")
    rows, target = _data()
    model = tree.DecisionTreeRegressor(max_depth=5, random_state=0).fit(rows, target)
    return ZooModel(model, rows, takes_infinity=False)


@zoo_model
def sklearn_decision_tree_missing() -> ZooModel:
    tree = pytest.importorskip("sklearn.tree")
    rows, target = _data()
    rows = _with_missing(rows)
    model = tree.DecisionTreeRegressor(max_depth=5, random_state=0).fit(rows, target)
    return ZooModel(model, rows, takes_infinity=False)


@zoo_model
def sklearn_decision_tree_single_leaf() -> ZooModel:
    tree = pytest.importorskip("sklearn.tree")
    rows, _ = _data()
    model = tree.DecisionTreeRegressor(max_depth=5).fit(rows, np.ones(len(rows)))
    return ZooModel(model, rows, takes_infinity=False)


@zoo_model
def sklearn_decision_tree_classifier() -> ZooModel:
    tree = pytest.importorskip("sklearn.tree")
    rows, target = _data()
    weights = np.random.default_rng(2).random(len(rows))
    model = tree.DecisionTreeClassifier(max_depth=5, random_state=0)
    return ZooModel(model.fit(rows, _classes(target, 3), sample_weight=weights), rows, takes_infinity=False)


@zoo_model
def sklearn_extra_tree_regressor() -> ZooModel:
    tree = pytest.importorskip("sklearn.tree")
    rows, target = _data()
    model = tree.ExtraTreeRegressor(max_depth=5, random_state=0).fit(rows, target)
    return _finite(model, rows)


@zoo_model
def sklearn_random_forest_regressor() -> ZooModel:
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _data()
    model = ensemble.RandomForestRegressor(n_estimators=7, max_depth=5, random_state=0).fit(rows, target)
    return ZooModel(model, rows, takes_infinity=False)


@zoo_model
def sklearn_random_forest_deep() -> ZooModel:
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _data(n_features=12)
    model = ensemble.RandomForestRegressor(n_estimators=3, max_features=2, random_state=0).fit(rows, target)
    return ZooModel(model, rows, takes_infinity=False)


@zoo_model
def sklearn_random_forest_multioutput() -> ZooModel:
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _data()
    model = ensemble.RandomForestRegressor(n_estimators=5, max_depth=4, random_state=0)
    return ZooModel(model.fit(rows, np.column_stack([target, rows[:, 3]])), rows, takes_infinity=False)


@zoo_model
def sklearn_random_forest_binary() -> ZooModel:
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _data()
    model = ensemble.RandomForestClassifier(n_estimators=7, max_depth=5, random_state=0)
    return ZooModel(model.fit(rows, target > 0), rows, takes_infinity=False)


@zoo_model
def sklearn_random_forest_multiclass() -> ZooModel:
    ensemble = pytest.importorskip("sklearn.ensemble")
    pytest.importorskip("pandas")
    rows, target = _data()
    rows = _with_missing(rows)
    model = ensemble.RandomForestClassifier(n_estimators=7, max_depth=5, random_state=0)
    return ZooModel(model.fit(_named(rows), _classes(target, 4)), rows, to_input=_named, takes_infinity=False)


@zoo_model
def sklearn_random_forest_multioutput_classifier() -> ZooModel:
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _data()
    labels = np.column_stack([_classes(target, 3), _classes(rows[:, 3], 2)])
    model = ensemble.RandomForestClassifier(n_estimators=5, max_depth=4, random_state=0).fit(rows, labels)
    return ZooModel(model, rows, takes_infinity=False)


@zoo_model
def sklearn_extra_trees_classifier() -> ZooModel:
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _data()
    model = ensemble.ExtraTreesClassifier(n_estimators=7, max_depth=5, random_state=0)
    return _finite(model.fit(rows, _classes(target, 3)), rows)


@zoo_model
def sklearn_extra_trees_regressor() -> ZooModel:
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _data()
    model = ensemble.ExtraTreesRegressor(n_estimators=7, max_depth=5, random_state=0).fit(rows, target)
    return _finite(model, rows)


@zoo_model
def sklearn_extra_trees_missing() -> ZooModel:
    pytest.importorskip("sklearn", minversion="1.6", reason="takes missing values since 1.6")
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _data()
    rows = _with_missing(rows)
    model = ensemble.ExtraTreesRegressor(n_estimators=7, max_depth=5, random_state=0).fit(rows, target)
    return ZooModel(model, rows, takes_infinity=False)


# -- boosting --------------------------------------------------------------------------------------------


@zoo_model
def sklearn_gradient_boosting_regressor() -> ZooModel:
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _data()
    model = ensemble.GradientBoostingRegressor(n_estimators=20, random_state=0).fit(rows, target)
    return _finite(model, rows)


@zoo_model
def sklearn_gradient_boosting_quantile() -> ZooModel:
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _data()
    model = ensemble.GradientBoostingRegressor(loss="quantile", alpha=0.8, n_estimators=10, subsample=0.7)
    return _finite(model.set_params(random_state=0).fit(rows, target), rows)


@zoo_model
def sklearn_gradient_boosting_zero_init() -> ZooModel:
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _data()
    model = ensemble.GradientBoostingClassifier(init="zero", n_estimators=10, random_state=0)
    return _finite(model.fit(rows, _classes(target, 3)), rows)


@zoo_model
def sklearn_gradient_boosting_binary() -> ZooModel:
    ensemble = pytest.importorskip("sklearn.ensemble")
    pytest.importorskip("pandas")
    rows, target = _data()
    model = ensemble.GradientBoostingClassifier(n_estimators=20, random_state=0)
    return _finite(model.fit(_named(rows), target > 0.5), rows, to_input=_named)


@zoo_model
def sklearn_gradient_boosting_multiclass() -> ZooModel:
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _data()
    model = ensemble.GradientBoostingClassifier(n_estimators=10, n_iter_no_change=3, random_state=0)
    return _finite(model.fit(rows, _classes(target, 3)), rows)


@zoo_model
def sklearn_hist_regressor() -> ZooModel:
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _data()
    rows = _with_missing(rows)
    model = ensemble.HistGradientBoostingRegressor(max_iter=15, random_state=0).fit(rows, target)
    return ZooModel(model, rows)


@zoo_model
def sklearn_hist_poisson() -> ZooModel:
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _data()
    model = ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=15).fit(rows, np.exp(target))
    return ZooModel(model, rows)


@zoo_model
def sklearn_hist_multiclass() -> ZooModel:
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _data()
    model = ensemble.HistGradientBoostingClassifier(max_iter=8).fit(rows, _classes(target, 3))
    return ZooModel(model, rows)


def _categorical_data() -> tuple[Rows, npt.NDArray[np.float64]]:
    """Columns 1 and 3 hold codes of categories, of which column 3 has more than 32."""
    rows, target = _data(n_rows=600)
    rng = np.random.default_rng(3)
    rows[:, 1] = rng.integers(0, 7, size=len(rows))
    rows[:, 3] = rng.integers(0, 40, size=len(rows))
    target = target + np.isin(rows[:, 1], (1, 4)) * 2 + np.isin(rows[:, 3] % 5, (0, 3)) * rows[:, 0]
    return np.where(rng.random(rows.shape) < 0.05, np.nan, rows), target


@zoo_model
def sklearn_hist_number_categories() -> ZooModel:
    """Categories that are numbers: not from zero, and with gaps."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _categorical_data()

    def to_input(codes: Rows) -> Rows:
        X = np.array(codes)
        X[:, [1, 3]] = 3 * codes[:, [1, 3]] + 10
        return X

    model = ensemble.HistGradientBoostingRegressor(categorical_features=[1, 3], max_iter=15, random_state=0)
    return ZooModel(model.fit(to_input(rows), target), rows, to_input, categorical=frozenset({1, 3}))


def _frame_with_labels(codes: Rows) -> Any:
    """Columns in another order than their categories' codes would be: labels sort as text."""
    import pandas as pd

    frame = _named(codes)
    for feature, word in ((1, "colour"), (3, "city")):
        labels = [None if np.isnan(code) else f"{word} {code:g}" for code in codes[:, feature]]
        frame[f"feature {feature}"] = pd.Categorical(labels)
    return frame


def _text_codes(n_categories: int) -> npt.NDArray[np.float64]:
    """The place of '<word> 0', '<word> 1', … when sorted as text."""
    return np.argsort(np.argsort([f"{code:g}" for code in range(n_categories)])).astype(np.float64)


@zoo_model
def sklearn_hist_from_dtype() -> ZooModel:
    ensemble = pytest.importorskip("sklearn.ensemble")
    pytest.importorskip("pandas")
    rows, target = _categorical_data()
    model = ensemble.HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=15)
    model.fit(_frame_with_labels(rows), target > 1)
    return ZooModel(model, rows, _frame_with_labels, categorical=frozenset({1, 3}))


@zoo_model
def sklearn_hist_text_categories() -> ZooModel:
    """Categories as plain text, named by column."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    pytest.importorskip("pandas")
    rows, target = _categorical_data()

    def to_input(codes: Rows) -> Any:
        frame = _frame_with_labels(codes)
        return frame.astype({"feature 1": object, "feature 3": object})

    model = ensemble.HistGradientBoostingRegressor(
        categorical_features=["feature 1", "feature 3"], max_iter=15, random_state=0
    )
    return ZooModel(model.fit(to_input(rows), target), rows, to_input, categorical=frozenset({1, 3}))


# -- isolation forests and bagging -------------------------------------------------------------------------


@zoo_model
def sklearn_isolation_forest() -> ZooModel:
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, _ = _data()
    model = ensemble.IsolationForest(n_estimators=10, random_state=0).fit(rows)
    return _finite(model, rows)


@zoo_model
def sklearn_isolation_forest_some_features() -> ZooModel:
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, _ = _data()
    model = ensemble.IsolationForest(n_estimators=10, max_features=0.5, max_samples=50, random_state=0)
    return _finite(model.fit(rows), rows)


@zoo_model
def sklearn_isolation_forest_missing() -> ZooModel:
    pytest.importorskip("sklearn", minversion="1.6", reason="takes missing values since 1.6")
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, _ = _data()
    rows = _with_missing(rows)
    model = ensemble.IsolationForest(n_estimators=10, random_state=0).fit(rows)
    return ZooModel(model, rows, takes_infinity=False)


@zoo_model
def sklearn_bagging_regressor() -> ZooModel:
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _data()
    model = ensemble.BaggingRegressor(n_estimators=5, max_features=0.6, random_state=0).fit(rows, target)
    return ZooModel(model, rows, takes_infinity=False)


@zoo_model
def sklearn_bagging_classifier() -> ZooModel:
    """So few rows per tree that some trees see only some of the classes."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _data()
    forest = ensemble.RandomForestClassifier(n_estimators=2, bootstrap=False, random_state=0)
    model = ensemble.BaggingClassifier(forest, n_estimators=8, max_samples=5, max_features=3, random_state=0)
    return ZooModel(model.fit(rows, _classes(target, 5)), rows, takes_infinity=False)


# -- wrappers ----------------------------------------------------------------------------------------------


@zoo_model
def sklearn_grid_search() -> ZooModel:
    selection = pytest.importorskip("sklearn.model_selection")
    tree = pytest.importorskip("sklearn.tree")
    rows, target = _data()
    model = selection.GridSearchCV(tree.DecisionTreeRegressor(random_state=0), {"max_depth": [2, 4]}, cv=2)
    return ZooModel(model.fit(rows, target), rows, takes_infinity=False)


@zoo_model
def sklearn_multioutput_regressor() -> ZooModel:
    multioutput = pytest.importorskip("sklearn.multioutput")
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _data()
    model = multioutput.MultiOutputRegressor(ensemble.HistGradientBoostingRegressor(max_iter=5))
    return ZooModel(model.fit(rows, np.column_stack([target, rows[:, 3]])), rows)


@zoo_model
def sklearn_multioutput_classifier() -> ZooModel:
    multioutput = pytest.importorskip("sklearn.multioutput")
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _data()
    forest = ensemble.RandomForestClassifier(n_estimators=4, max_depth=3, random_state=0)
    model = multioutput.MultiOutputClassifier(forest)
    labels = np.column_stack([_classes(target, 3), _classes(rows[:, 3], 2)])
    return ZooModel(model.fit(rows, labels), rows, takes_infinity=False)


# -- libraries built on scikit-learn's trees ---------------------------------------------------------------


@zoo_model
def quantile_forest_mean() -> ZooModel:
    quantile_forest = pytest.importorskip("quantile_forest")
    rows, target = _data()
    model = quantile_forest.RandomForestQuantileRegressor(n_estimators=5, max_depth=4, random_state=0)
    return ZooModel(model.fit(rows, target), rows, takes_infinity=False)


@zoo_model
def imblearn_balanced_forest() -> ZooModel:
    imblearn = pytest.importorskip("imblearn.ensemble")
    rows, target = _data()
    model = imblearn.BalancedRandomForestClassifier(
        n_estimators=5,
        max_depth=4,
        random_state=0,
        sampling_strategy="all",
        replacement=True,
        bootstrap=False,
    )
    return ZooModel(model.fit(rows, target > 1), rows, takes_infinity=False)


@zoo_model
def imblearn_balanced_bagging() -> ZooModel:
    imblearn = pytest.importorskip("imblearn.ensemble")
    rows, target = _data()
    model = imblearn.BalancedBaggingClassifier(n_estimators=5, random_state=0).fit(rows, target > 1)
    return _finite(model, rows)


# -- treelite ------------------------------------------------------------------------------------------------


@zoo_model
def treelite_sklearn_classifier() -> ZooModel:
    treelite = pytest.importorskip("treelite")
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _data()
    labels = np.column_stack([_classes(target, 3), _classes(rows[:, 3], 2)])
    model = ensemble.RandomForestClassifier(n_estimators=5, max_depth=4, random_state=0).fit(rows, labels)
    return ZooModel(treelite.sklearn.import_model(model), rows)


@zoo_model
def treelite_sklearn_boosting() -> ZooModel:
    treelite = pytest.importorskip("treelite")
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, target = _data()
    model = ensemble.GradientBoostingClassifier(n_estimators=5, random_state=0).fit(rows, _classes(target, 3))
    return ZooModel(treelite.sklearn.import_model(model), rows)


@zoo_model
def treelite_isolation_forest() -> ZooModel:
    treelite = pytest.importorskip("treelite")
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows, _ = _data()
    model = ensemble.IsolationForest(n_estimators=5, random_state=0).fit(rows)
    return ZooModel(treelite.sklearn.import_model(model), rows)


@zoo_model
def treelite_lightgbm_categories() -> ZooModel:
    treelite = pytest.importorskip("treelite")
    lightgbm = pytest.importorskip("lightgbm")
    rows, target = _categorical_data()
    data = lightgbm.Dataset(rows, target, categorical_feature=[1, 3], params={"verbose": -1})
    booster = lightgbm.train(
        {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 5}, data, num_boost_round=8
    )
    model = treelite.frontend.from_lightgbm(booster)
    return ZooModel(model, rows, categorical=frozenset({1, 3}))


@zoo_model
def treelite_xgboost() -> ZooModel:
    """XGBoost compares with <, in float32, and its categories of a set go right."""
    treelite = pytest.importorskip("treelite")
    xgboost = pytest.importorskip("xgboost")
    rows, target = _categorical_data()
    types = ["c" if feature in (1, 3) else "q" for feature in range(rows.shape[1])]
    data = xgboost.DMatrix(rows, target, feature_types=types, enable_categorical=True)
    booster = xgboost.train({"max_depth": 4, "nthread": 1, "max_cat_to_onehot": 2}, data, num_boost_round=8)
    # treelite sums in float32 here.
    model = treelite.frontend.from_xgboost(booster)
    return ZooModel(model, rows, categorical=frozenset({1, 3}), tolerance=1e-6)
