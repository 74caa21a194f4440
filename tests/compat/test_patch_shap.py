"""patch_shap: code written for shap gets our engine, shap's own objects, and shap's code for the rest."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import zoo

import linear_treeshap
from linear_treeshap import Explanation, patch_shap

shap = pytest.importorskip("shap")

ORIGINAL = shap.TreeExplainer


@pytest.fixture
def patched() -> Iterator[None]:
    with patch_shap():
        yield


@pytest.fixture
def forest() -> zoo.ZooModel:
    return zoo.load("sklearn_random_forest_multiclass")


def _is_ours(explainer: Any) -> bool:
    return isinstance(getattr(explainer, "_ours", None), linear_treeshap.TreeExplainer)


def test_the_patch_is_undone_at_the_end_of_the_block() -> None:
    with patch_shap():
        assert shap.TreeExplainer is not ORIGINAL
        assert shap.explainers.TreeExplainer is shap.explainers.Tree is shap.TreeExplainer
    assert shap.TreeExplainer is shap.explainers.TreeExplainer is shap.explainers.Tree is ORIGINAL


def test_the_patch_is_undone_by_a_call_and_after_an_error() -> None:
    patch = patch_shap()
    patch.undo()
    patch.undo()
    assert shap.TreeExplainer is ORIGINAL
    with pytest.raises(RuntimeError), patch_shap():
        raise RuntimeError
    assert shap.TreeExplainer is ORIGINAL


def test_patches_may_be_nested() -> None:
    with patch_shap():
        with patch_shap():
            pass
        assert shap.TreeExplainer is not ORIGINAL
    assert shap.TreeExplainer is ORIGINAL


def test_patches_may_be_undone_in_any_order() -> None:
    """Two libraries may each patch and undo on their own."""
    first, second = patch_shap(), patch_shap()
    first.undo()
    assert shap.TreeExplainer is not ORIGINAL
    second.undo()
    assert shap.TreeExplainer is ORIGINAL


@pytest.mark.parametrize(
    "name", ["sklearn_random_forest_regressor", "sklearn_random_forest_multiclass", "lightgbm_regressor"]
)
def test_the_expected_value_has_shap_s_shape(name: str) -> None:
    """Code that says expected_value[0] of a scikit-learn model, as shap has it, keeps working."""
    model = zoo.load(name)
    with patch_shap():
        ours = shap.TreeExplainer(model.model)
    theirs = ORIGINAL(model.model)
    theirs.shap_values(model.rows)  # shap changes its mind about LightGBM here
    assert np.shape(ours.expected_value) == np.shape(theirs.expected_value)


@pytest.mark.usefixtures("patched")
def test_explainers_are_shap_s_own_kind(forest: zoo.ZooModel) -> None:
    explainer = shap.TreeExplainer(forest.model)
    assert isinstance(explainer, ORIGINAL)
    assert isinstance(explainer, shap.Explainer)
    assert _is_ours(explainer)


@pytest.mark.parametrize(
    "name",
    [
        "sklearn_random_forest_regressor",
        "sklearn_random_forest_multiclass",
        "sklearn_gradient_boosting_binary",
        "xgboost_binary",
        "xgboost_multiclass",
        "lightgbm_multiclass",
    ],
)
def test_results_are_shap_s_own_objects_and_numbers(name: str) -> None:
    """Values, base values, data, names and shapes; XGBoost's own are float32, hence the tolerance."""
    model = zoo.load(name)
    theirs = ORIGINAL(model.model)(model.X)
    with patch_shap():
        explainer = shap.TreeExplainer(model.model)
        ours = explainer(model.X)
        assert _is_ours(explainer)
    assert type(ours) is shap.Explanation
    assert ours.values.shape == theirs.values.shape
    assert ours.base_values.shape == theirs.base_values.shape
    np.testing.assert_allclose(ours.values, theirs.values, atol=2e-5)
    np.testing.assert_allclose(ours.base_values, theirs.base_values, atol=2e-5)
    np.testing.assert_array_equal(ours.data, theirs.data)
    assert ours.feature_names == theirs.feature_names


@pytest.mark.usefixtures("patched")
def test_the_general_explainer_chooses_ours_for_trees(forest: zoo.ZooModel) -> None:
    explainer = shap.Explainer(forest.model)
    assert type(explainer) is shap.TreeExplainer
    assert _is_ours(explainer)
    expected = linear_treeshap.TreeExplainer(forest.model).shap_values(forest.X)
    np.testing.assert_array_equal(explainer(forest.X).values, expected)


@pytest.mark.usefixtures("patched")
def test_the_general_explainer_still_explains_other_models(forest: zoo.ZooModel) -> None:
    explainer = shap.Explainer(forest.model.predict_proba, forest.X.fillna(0.0).to_numpy())
    assert not isinstance(explainer, shap.TreeExplainer)


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("model_output", ["raw", "probability", "log_loss"])
def test_background_data_is_ours(model_output: str) -> None:
    """In the shapes of shap, whose own code works in float32 here."""
    model = zoo.load("xgboost_binary")
    X, background = model.X[20:25], model.X[:20]
    y = np.arange(5) % 2 if model_output == "log_loss" else None
    explainer = shap.TreeExplainer(model.model, background, model_output=model_output)
    original = ORIGINAL(model.model, background, model_output=model_output)
    assert _is_ours(explainer)
    values = explainer.shap_values(X, y)
    np.testing.assert_allclose(values, original.shap_values(X, y), rtol=0, atol=1e-6)
    if y is None:
        assert np.shape(explainer.expected_value) == np.shape(original.expected_value)
        np.testing.assert_allclose(explainer.expected_value, original.expected_value, rtol=1e-6)
    else:
        np.testing.assert_allclose(explainer.expected_value(1), original.expected_value(1), rtol=1e-6)
    np.testing.assert_array_equal(explainer.data, original.data)


@pytest.mark.usefixtures("patched")
def test_other_outputs_are_left_to_shap_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Which refuses them, too."""
    model = zoo.load("xgboost_multiclass")
    with (
        caplog.at_level(logging.INFO, logger="linear_treeshap"),
        pytest.raises(Exception, match="known objective"),
    ):
        shap.TreeExplainer(model.model, model.X[:20], model_output="predict")
    assert "left to shap" in caplog.text


@pytest.mark.usefixtures("patched")
def test_interactions_are_ours_and_approximations_are_left_to_shap_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = zoo.load("sklearn_gradient_boosting_regressor")
    X = model.rows[:5]
    explainer, original = shap.TreeExplainer(model.model), ORIGINAL(model.model)
    with caplog.at_level(logging.INFO, logger="linear_treeshap"):
        interactions = explainer.shap_interaction_values(X)
        called = explainer(X, interactions=True)
        rough = explainer.shap_values(X, approximate=True)
    np.testing.assert_allclose(interactions, original.shap_interaction_values(X), rtol=0, atol=1e-10)
    np.testing.assert_array_equal(called.values, interactions)
    np.testing.assert_array_equal(rough, original.shap_values(X, approximate=True))
    assert "shap_interaction_values" not in caplog.text
    assert "approximate=True) is left to shap" in caplog.text


@pytest.mark.usefixtures("patched")
def test_a_tree_limit_is_shap_s(caplog: pytest.LogCaptureFixture) -> None:
    """XGBoost counts rounds of a tree per class, scikit-learn trees."""
    model = zoo.load("xgboost_multiclass")
    with caplog.at_level(logging.INFO, "linear_treeshap"):
        values = shap.TreeExplainer(model.model).shap_values(model.rows, tree_limit=2)
    assert "tree_limit=2" in caplog.text
    np.testing.assert_array_equal(values, ORIGINAL(model.model).shap_values(model.rows, tree_limit=2))


@pytest.mark.usefixtures("patched")
def test_what_neither_can_read_gets_shap_s_error(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.INFO, logger="linear_treeshap"),
        pytest.raises(Exception, match="Model type not yet supported by TreeExplainer"),
    ):
        shap.TreeExplainer(object())
    assert "left to shap: Cannot read a model of class builtins.object" in caplog.text


@pytest.mark.usefixtures("patched")
def test_models_that_only_we_read_are_explained() -> None:
    """Gradient boosting with several classes, for one."""
    model = zoo.load("sklearn_gradient_boosting_multiclass")
    assert shap.TreeExplainer(model.model)(model.X).values.ndim == 3


@pytest.mark.usefixtures("patched")
def test_interventional_without_data_warns_as_shap_does(forest: zoo.ZooModel) -> None:
    with pytest.warns(FutureWarning, match="without background data"):
        explainer = shap.TreeExplainer(forest.model, feature_perturbation="interventional")
    assert explainer.feature_perturbation == "tree_path_dependent"


@pytest.mark.usefixtures("patched")
def test_attributes_of_shap_s_explainer_are_there(forest: zoo.ZooModel) -> None:
    """What only shap has is made on demand; what nobody has is still an AttributeError."""
    explainer = shap.TreeExplainer(forest.model, feature_names=list("abcde"))
    original = ORIGINAL(forest.model)
    np.testing.assert_allclose(explainer.expected_value, original.expected_value)
    assert explainer.model.num_outputs == original.model.num_outputs == 4
    assert explainer.data is None
    assert explainer.model_output == "raw"
    assert explainer(forest.X.to_numpy()).feature_names == list("abcde")
    assert not hasattr(explainer, "no_such_attribute")


@pytest.mark.usefixtures("patched")
def test_patched_explainers_survive_pickling(forest: zoo.ZooModel) -> None:
    explainer = shap.TreeExplainer(forest.model)
    again = pickle.loads(pickle.dumps(explainer))
    np.testing.assert_array_equal(again.shap_values(forest.X), explainer.shap_values(forest.X))


@pytest.mark.parametrize("name", ["sklearn_random_forest_regressor", "sklearn_random_forest_binary"])
def test_shapash_works_as_usual(name: str) -> None:
    """Its SmartExplainer, from compile to the table of contributions, by our engine."""
    shapash = pytest.importorskip("shapash")
    pd = pytest.importorskip("pandas")
    model = zoo.load(name)
    X = pd.DataFrame(model.rows, columns=[f"f{i}" for i in range(5)])
    fitted = type(model.model)(n_estimators=5, max_depth=3, random_state=0)
    fitted.fit(X, model.model.predict(model.rows) * 1)
    tables = []
    for patch in (False, True):
        with pytest.MonkeyPatch.context() as monkey:
            if patch:
                undo = patch_shap()
                monkey.setattr(ORIGINAL, "shap_values", None)  # shap's own code must not run
            smart = shapash.SmartExplainer(model=fitted)
            smart.compile(x=X, y_pred=pd.Series(fitted.predict(X), index=X.index, name="prediction"))
            tables.append(smart.to_pandas(max_contrib=2))
        if patch:
            undo.undo()
    pd.testing.assert_frame_equal(tables[0], tables[1], atol=1e-12)


def test_our_own_explanation_is_not_touched(forest: zoo.ZooModel) -> None:
    with patch_shap():
        assert isinstance(linear_treeshap.explain(forest.model, forest.X), Explanation)


def _frame_of_categories() -> tuple[Any, Any]:
    catboost, pd = pytest.importorskip("catboost"), pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=100), "k": rng.choice(list("uvw"), 100)})
    options = {"one_hot_max_size": 10, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
    # The leaves of symmetric trees would say all that there is to be asked.
    model = catboost.CatBoostRegressor(
        iterations=5, cat_features=["k"], grow_policy="Depthwise", depth=2, **options
    )
    return model.fit(frame, frame["a"] + (frame["k"] == "u")), catboost.Pool(frame, cat_features=["k"])


def _bins_of_other_data() -> tuple[Any, Any]:
    xgboost = pytest.importorskip("xgboost")
    X = np.random.default_rng(0).normal(size=(500, 3))
    model = xgboost.XGBRegressor(n_estimators=5, n_jobs=1).fit(X, X[:, 0] * X[:, 1])
    return model, xgboost.QuantileDMatrix(X, max_bin=4)


@pytest.mark.parametrize("make", [_frame_of_categories, _bins_of_other_data])
def test_rows_that_cannot_be_read_are_left_to_shap(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Containers that do not give their rows back: shap hands them to the library they came from."""
    model, rows = make()
    expected = ORIGINAL(model).shap_values(rows)
    pairs = ORIGINAL(model).shap_interaction_values(rows)
    with patch_shap(), caplog.at_level(logging.INFO, "linear_treeshap"):
        explainer = shap.TreeExplainer(model)
        np.testing.assert_array_equal(explainer.shap_values(rows), expected)
        np.testing.assert_array_equal(explainer.shap_interaction_values(rows), pairs)
        np.testing.assert_array_equal(explainer(rows).values, expected)
    assert _is_ours(explainer)
    assert caplog.text.count("is left to shap") == 3


def test_rows_that_do_not_fit_are_not_left_to_shap(patched: None, forest: zoo.ZooModel) -> None:
    """What is wrong with them is said."""
    with pytest.raises(linear_treeshap.InputError, match="columns"):
        shap.TreeExplainer(forest.model).shap_values(forest.rows[:, :2])
