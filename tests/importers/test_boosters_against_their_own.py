"""The definition, on our ensembles, gives the values that XGBoost, LightGBM and CatBoost give.

Predictions alone do not show this: they do not depend on the covers, nor on the order of conditions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zoo
from definition import values_by_definition
from zoo_catboost import catboost_regressor_on
from zoo_rows import numeric_rows, target

from linear_treeshap import TreeExplainer
from linear_treeshap.rows.rows import read_rows

N_COMPARED = 4

Values = npt.NDArray[np.float64]


def values_and_expected(model: Any, X: Any) -> Values:
    """(n_rows, n_features + 1, n_outputs) by the definition, the expected value last."""
    explainer = TreeExplainer(model)
    ensemble = explainer.ensemble
    rows = read_rows(X, ensemble.row_format)
    values = values_by_definition(explainer, rows[0 : rows.n_rows])
    expected = np.broadcast_to(ensemble.expected_value, (len(values), 1, ensemble.n_outputs))
    return np.concatenate([values, expected], axis=1)


def assert_equal_values(theirs: Any, ours: Values, tolerance: float) -> None:
    """Libraries give the features of the first output, then those of the second and so on."""
    theirs = np.asarray(theirs, dtype=np.float64).reshape(len(ours), ours.shape[2], -1).transpose(0, 2, 1)
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=tolerance * np.abs(ours).max())


#: XGBoost has no values of its own for vector leaves.
@pytest.mark.parametrize("name", [n for n in zoo.names("xgboost") if n != "xgboost_vector_leaves"])
def test_values_equal_those_of_xgboost(name: str) -> None:
    """XGBoost works in float32 (6e-8), and adds dozens of numbers per tree that way."""
    xgboost = pytest.importorskip("xgboost")
    model = zoo.load(name)
    X = model.to_input(model.rows[:N_COMPARED])
    booster, n_rounds, settings = model.model, 0, {}
    if hasattr(model.model, "get_booster"):
        booster, settings = model.model.get_booster(), {"missing": model.model.missing}
        n_rounds = int(booster.attr("best_iteration") or -1) + 1
    types = getattr(model.model, "feature_types", None)
    names = None if hasattr(X, "columns") else booster.feature_names
    data = xgboost.DMatrix(X, enable_categorical=True, feature_names=names, feature_types=types, **settings)
    theirs = booster.predict(data, pred_contribs=True, iteration_range=(0, n_rounds))
    assert_equal_values(theirs, values_and_expected(model.model, X), 1e-5)


@pytest.mark.parametrize("name", zoo.names("lightgbm"))
def test_values_equal_those_of_lightgbm(name: str) -> None:
    """LightGBM works in float64; some 1e-16 per step of a path."""
    model = zoo.load(name)
    X = model.to_input(model.rows[:N_COMPARED])
    theirs = model.model.predict(X, pred_contrib=True)
    if name == "lightgbm_random_forest":
        theirs = theirs / 8  # rounds; LightGBM forgets to average here, as it does with raw_score=True
    assert_equal_values(theirs, values_and_expected(model.model, X), 1e-12)


#: CatBoost refuses a scale, crashes on single leaves, and its values of trees that are not symmetric do
#: not add up to its predictions when a leaf saw no training row.
UNFIT = {
    "catboost_scaled",
    "catboost_single_leaves",
    "catboost_depthwise",
    "catboost_lossguide",
    "catboost_one_hot_lossguide",
    "catboost_statistics_lossguide",
}


@pytest.mark.parametrize("name", [name for name in zoo.names("catboost") if name not in UNFIT])
def test_values_equal_those_of_catboost(name: str) -> None:
    """CatBoost works in float64 too. It asks the last condition of a symmetric tree first, as we do, and of
    what a combination reads it counts only the categories."""
    catboost = pytest.importorskip("catboost")
    model = zoo.load(name)
    X = model.to_input(model.rows[:N_COMPARED])
    pool = catboost.Pool(X, cat_features=model.model.get_cat_feature_indices())
    theirs = model.model.get_feature_importance(pool, "ShapValues")
    assert_equal_values(theirs, values_and_expected(model.model, X), 1e-12)


@pytest.mark.parametrize("grow_policy", ["Depthwise", "Lossguide"])
def test_values_of_a_grown_tree_equal_those_of_catboost(grow_policy: str) -> None:
    """One tree in which every leaf that these rows meet saw training rows."""
    catboost = pytest.importorskip("catboost")
    rows = numeric_rows()
    model = catboost_regressor_on(rows, target(rows), iterations=1, grow_policy=grow_policy)
    theirs = model.get_feature_importance(catboost.Pool(rows[:N_COMPARED]), "ShapValues")
    assert_equal_values(theirs, values_and_expected(model, rows[:N_COMPARED]), 1e-12)
