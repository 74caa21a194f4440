"""Beside shap itself: the same shapes, expected values and values, for every model of the zoo it can read.

Both are run and every feature is compared. shap hands XGBoost, LightGBM and CatBoost models to those
libraries' own code, so these are compared too. What shap cannot do, or does wrongly, is named here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import zoo
from shap_refuses import UNREADABLE

from linear_treeshap import Explanation, InputError, TreeExplainer
from linear_treeshap.results.additivity import scale_of

shap = pytest.importorskip("shap")

#: Models that shap refuses to read, or cannot explain.
REFUSED = {
    **UNREADABLE,
    "catboost_scaled": "a scale",
}

#: Models that shap reads, but whose values do not add up to the model's prediction, or are not given to all
#: columns that it reads.
WRONG = {
    "catboost_depthwise": "CatBoost's own values of trees that are not symmetric do not add up",
    "catboost_lossguide": "as catboost_depthwise",
    "catboost_statistics": "CatBoost gives nothing to what is asked about numbers in a combination",
    "catboost_statistics_lossguide": "as catboost_depthwise",
    "catboost_statistics_multiclass": "as catboost_statistics",
    "lightgbm_random_forest": "LightGBM's own values are those of the sum of the trees, not of their mean",
    "sklearn_hist_number_categories": "categories are compared as numbers",
    "sklearn_random_forest_multioutput_classifier": "targets of fewer classes are padded with empty outputs",
}


def _comparable() -> list[str]:
    return [
        name
        for name in zoo.names()
        if name not in REFUSED and name not in WRONG and not name.startswith("treelite_")
    ]


def _rows(model: zoo.ZooModel, n_rows: int = 40) -> Any:
    return model.to_input(model.rows[:n_rows])


def _tolerance(values: Any) -> float:
    """Relative to the largest sum of leaves.

    XGBoost's own code works in float32 (an ulp is 1.2e-7), all others in float64.
    """
    return 2e-6 if values.dtype == np.float32 else 1e-12


@pytest.fixture(params=_comparable())
def model(request: pytest.FixtureRequest) -> zoo.ZooModel:
    return zoo.load(request.param)


@pytest.mark.filterwarnings("ignore:LightGBM binary classifier:UserWarning")  # shap tells of its own past
def test_values_and_expected_value_equal_shap_s(model: zoo.ZooModel) -> None:
    """Feature by feature and output by output, in the same shape."""
    X = _rows(model)
    theirs = shap.TreeExplainer(model.model)
    their_values = theirs.shap_values(X, check_additivity=False)
    ours = TreeExplainer(model.model)
    values = ours.shap_values(X)
    scale = scale_of(ours.ensemble) * _tolerance(their_values)
    assert values.shape == their_values.shape
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, their_values, rtol=0, atol=scale)
    # Single numbers come as arrays of one, as lists or as numbers from shap: only numbers count here.
    assert np.size(ours.expected_value) == np.size(theirs.expected_value)
    np.testing.assert_allclose(np.ravel(ours.expected_value), np.ravel(theirs.expected_value), atol=scale)


@pytest.mark.parametrize("name", [name for name in zoo.names() if name in REFUSED])
def test_models_that_shap_refuses_are_explained(name: str) -> None:
    """And their values add up: the check is on."""
    model = zoo.load(name)
    explanation = TreeExplainer(model.model)(_rows(model))
    assert np.isfinite(explanation.values).all()


@pytest.mark.parametrize("name", [name for name in zoo.names() if name in WRONG])
def test_models_that_shap_gets_wrong_add_up(name: str) -> None:
    """Within rounding of the library's own prediction: the check is on."""
    model = zoo.load(name)
    explanation = TreeExplainer(model.model)(_rows(model))
    assert np.isfinite(explanation.values).all()


#: Model, shape of its values for 40 rows, shape of its expected value: the table that users are promised.
SHAPES = [
    ("sklearn_random_forest_regressor", (40, 5), ()),
    ("sklearn_random_forest_binary", (40, 5, 2), (2,)),
    ("sklearn_random_forest_multiclass", (40, 5, 4), (4,)),
    ("sklearn_random_forest_multioutput", (40, 5, 2), (2,)),
    ("sklearn_gradient_boosting_binary", (40, 5), ()),
    ("sklearn_hist_multiclass", (40, 5, 3), (3,)),
    ("sklearn_isolation_forest", (40, 5), ()),
    ("xgboost_regressor", (40, 5), ()),
    ("xgboost_binary", (40, 5), ()),
    ("xgboost_multiclass", (40, 5, 3), (3,)),
    ("lightgbm_regressor", (40, 5), ()),
    ("lightgbm_binary", (40, 5), ()),
    ("lightgbm_multiclass", (40, 5, 3), (3,)),
    ("catboost_regressor", (40, 5), ()),
    ("catboost_binary", (40, 5), ()),
    ("catboost_multiclass", (40, 5, 3), (3,)),
]


@pytest.mark.parametrize(
    ("name", "shape", "expected_shape"), [case for case in SHAPES if case[0] in zoo.names()]
)
def test_shapes_are_those_that_users_know(
    name: str, shape: tuple[int, ...], expected_shape: tuple[int, ...]
) -> None:
    """Binary classifiers have two outputs in scikit-learn's forests and one in boosting."""
    model = zoo.load(name)
    X = _rows(model)
    explainer = TreeExplainer(model.model)
    assert explainer.shap_values(X).shape == shape
    assert np.shape(explainer.expected_value) == expected_shape
    explanation = explainer(X)
    assert explanation.values.shape == shape
    assert explanation.base_values.shape == shape[:1] + shape[2:]


@pytest.mark.parametrize("name", ["sklearn_random_forest_regressor", "sklearn_random_forest_binary"])
def test_one_row_in_one_dimension_loses_it_in_the_result_too(name: str) -> None:
    """As in shap: (m,) in, (m,) or (m, k) out."""
    model = zoo.load(name)
    row = model.rows[3]
    theirs = shap.TreeExplainer(model.model).shap_values(row)
    ours = TreeExplainer(model.model).shap_values(row)
    assert ours.shape == np.shape(theirs)
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_explanations_have_the_fields_of_shap_s() -> None:
    """values, base_values, data and feature_names are equal to those of shap.Explanation."""
    model = zoo.load("sklearn_random_forest_multiclass")
    X = _rows(model)
    theirs, ours = shap.TreeExplainer(model.model)(X), TreeExplainer(model.model)(X)
    assert isinstance(ours, Explanation)
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-12)
    np.testing.assert_allclose(ours.base_values, theirs.base_values, atol=1e-12)
    np.testing.assert_array_equal(ours.data, theirs.data)
    assert list(ours.feature_names or ()) == list(theirs.feature_names)


@pytest.mark.parametrize("tree_limit", [None, -1, 1, 3, 1000])
def test_tree_limit_counts_trees(tree_limit: int | None) -> None:
    """None and -1 are all trees; a limit beyond them is no limit."""
    model = zoo.load("sklearn_gradient_boosting_regressor")
    X = _rows(model)
    theirs = shap.TreeExplainer(model.model).shap_values(X, tree_limit=tree_limit, check_additivity=False)
    ours = TreeExplainer(model.model).shap_values(X, tree_limit=tree_limit)
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_unknown_perturbations_are_refused_by_both() -> None:
    """shap's error and ours are both a ValueError."""
    model = zoo.load("sklearn_random_forest_regressor").model
    explainers: list[Any] = [shap.TreeExplainer, TreeExplainer]
    for explainer in explainers:
        with pytest.raises(ValueError, match="feature_perturbation must be"):
            explainer(model, feature_perturbation="bogus")


def test_outputs_that_need_background_data_are_refused_by_both() -> None:
    """Neither answers in other units."""
    model = zoo.load("sklearn_gradient_boosting_binary").model
    for explainer, says in ((shap.TreeExplainer, "raw"), (TreeExplainer, "pass data=")):
        with pytest.raises(ValueError, match=says):
            explainer(model, model_output="probability")


def test_interventional_without_data_is_an_error_here() -> None:
    """shap only warns that it will be one, and explains something else."""
    model = zoo.load("sklearn_random_forest_regressor").model
    with pytest.warns(FutureWarning, match="will raise an error"):
        shap.TreeExplainer(model, feature_perturbation="interventional")
    with pytest.raises(InputError, match="pass data="):
        TreeExplainer(model, feature_perturbation="interventional")
