"""patch_shap: code written for shap gets our engine, shap's own objects, and shap's code for the rest."""

from __future__ import annotations

import io
import logging
import pickle
import sys
import types
import warnings
from collections.abc import Iterator
from inspect import signature
from typing import Any

import numpy as np
import pytest
import zoo

import linear_treeshap
from linear_treeshap import Explanation, patch_shap
from linear_treeshap.importers import raw_prediction

shap = pytest.importorskip("shap")

#: Not a name of this module by itself: a patch changes these.
SHAP = {"TreeExplainer": shap.TreeExplainer}


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
        assert shap.TreeExplainer is not SHAP["TreeExplainer"]
        assert shap.explainers.TreeExplainer is shap.explainers.Tree is shap.TreeExplainer
    assert (
        shap.TreeExplainer is shap.explainers.TreeExplainer is shap.explainers.Tree is SHAP["TreeExplainer"]
    )


def test_the_patch_is_undone_by_a_call_and_after_an_error() -> None:
    patch = patch_shap()
    patch.undo()
    patch.undo()
    assert shap.TreeExplainer is SHAP["TreeExplainer"]
    with pytest.raises(RuntimeError), patch_shap():
        raise RuntimeError
    assert shap.TreeExplainer is SHAP["TreeExplainer"]


def test_patches_may_be_nested() -> None:
    with patch_shap():
        with patch_shap():
            pass
        assert shap.TreeExplainer is not SHAP["TreeExplainer"]
    assert shap.TreeExplainer is SHAP["TreeExplainer"]


def test_patches_may_be_undone_in_any_order() -> None:
    """Two libraries may each patch and undo on their own."""
    first, second = patch_shap(), patch_shap()
    first.undo()
    assert shap.TreeExplainer is not SHAP["TreeExplainer"]
    second.undo()
    assert shap.TreeExplainer is SHAP["TreeExplainer"]


@pytest.mark.parametrize(
    "name", ["sklearn_random_forest_regressor", "sklearn_random_forest_multiclass", "lightgbm_regressor"]
)
def test_the_expected_value_has_shap_s_shape(name: str) -> None:
    """Code that says expected_value[0] of a scikit-learn model, as shap has it, keeps working."""
    model = zoo.load(name)
    with patch_shap():
        ours = shap.TreeExplainer(model.model)
    theirs = SHAP["TreeExplainer"](model.model)
    theirs.shap_values(model.rows)  # shap changes its mind about LightGBM here
    assert np.shape(ours.expected_value) == np.shape(theirs.expected_value)


@pytest.mark.usefixtures("patched")
def test_explainers_are_shap_s_own_kind(forest: zoo.ZooModel) -> None:
    explainer = shap.TreeExplainer(forest.model)
    assert isinstance(explainer, SHAP["TreeExplainer"])
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
    theirs = SHAP["TreeExplainer"](model.model)(model.X)
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
    original = SHAP["TreeExplainer"](model.model, background, model_output=model_output)
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
def test_interactions_are_ours(caplog: pytest.LogCaptureFixture) -> None:
    model = zoo.load("sklearn_gradient_boosting_regressor")
    X = model.rows[:5]
    explainer, original = shap.TreeExplainer(model.model), SHAP["TreeExplainer"](model.model)
    with caplog.at_level(logging.INFO, logger="linear_treeshap"):
        interactions = explainer.shap_interaction_values(X)
        called = explainer(X, interactions=True)
    np.testing.assert_allclose(interactions, original.shap_interaction_values(X), rtol=0, atol=1e-10)
    np.testing.assert_array_equal(called.values, interactions)
    assert "left to shap" not in caplog.text


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("name", ["sklearn_gradient_boosting_regressor", "lightgbm_regressor"])
def test_approximations_are_exact_and_logged(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Also where shap has none: it refuses LightGBM's."""
    model = zoo.load(name)
    explainer = shap.TreeExplainer(model.model)
    with caplog.at_level(logging.INFO, logger="linear_treeshap"):
        values = explainer.shap_values(model.rows, approximate=True)
        called = explainer(model.rows, approximate=True)
    np.testing.assert_array_equal(values, explainer.shap_values(model.rows))
    np.testing.assert_array_equal(called.values, values)
    assert "approximate=True) gives exact values" in caplog.text


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 1000])
@pytest.mark.parametrize(
    "name",
    [
        "sklearn_random_forest_multiclass",
        "sklearn_gradient_boosting_regressor",
        "sklearn_hist_multiclass",
        "xgboost_binary",
        "xgboost_multiclass",
        "xgboost_boosted_forest",
        "xgboost_early_stopped",
        "lightgbm_regressor",
        "lightgbm_multiclass",
        "lightgbm_random_forest",
    ],
)
def test_a_tree_limit_means_what_it_does_in_shap(name: str, limit: int) -> None:
    """XGBoost counts trees but cuts whole rounds of a tree per class, LightGBM counts rounds, scikit-learn
    trees."""
    model = zoo.load(name)
    original = SHAP["TreeExplainer"](model.model)
    try:
        expected = original.shap_values(model.rows, tree_limit=limit, check_additivity=False)
    except Exception as error:  # more rounds than XGBoost has
        with patch_shap(), pytest.raises(type(error)):
            shap.TreeExplainer(model.model).shap_values(model.rows, tree_limit=limit, check_additivity=False)
        return
    with patch_shap():
        explainer = shap.TreeExplainer(model.model)
        values = explainer.shap_values(model.rows, tree_limit=limit, check_additivity=False)
        assert _is_ours(explainer)
    np.testing.assert_allclose(values, expected, rtol=0, atol=2e-5)
    if "sklearn" not in name and "_shap_explainer" not in explainer.__dict__:
        np.testing.assert_allclose(explainer.expected_value, original.expected_value, atol=2e-5)


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
    """Gradient boosting with several classes, for one. What shap's call reads is not asked of shap's own
    explainer, which cannot be made: shap 0.46 reads `approximate`."""
    model = zoo.load("sklearn_gradient_boosting_multiclass")
    explainer = shap.TreeExplainer(model.model)
    assert explainer(model.X).values.ndim == 3
    assert explainer.approximate is False


def test_what_is_left_to_shap_is_asked_as_shap_is(forest: zoo.ZooModel) -> None:
    """By default as by its own default, which is "auto" since 0.47."""
    default = signature(SHAP["TreeExplainer"]).parameters["feature_perturbation"].default
    with patch_shap():
        explainer = shap.TreeExplainer(forest.model)
    assert explainer._arguments["feature_perturbation"] == default


def test_interventional_without_data_warns_in_shap_s_words(forest: zoo.ZooModel) -> None:
    with pytest.warns(FutureWarning) as theirs:
        SHAP["TreeExplainer"](forest.model, feature_perturbation="interventional")
    with patch_shap(), pytest.warns(FutureWarning) as ours:
        explainer = shap.TreeExplainer(forest.model, feature_perturbation="interventional")
    assert str(ours[0].message) == str(theirs[0].message)
    assert explainer.feature_perturbation == "tree_path_dependent"


def test_a_large_background_warns_of_nothing(forest: zoo.ZooModel, recwarn: pytest.WarningsRecorder) -> None:
    """shap 0.46 warned of slow runtimes, and no release since does; here they are not slow."""
    rows = np.tile(forest.rows, (1500 // len(forest.rows) + 1, 1))
    with patch_shap():
        explainer = shap.TreeExplainer(forest.model, shap.maskers.Independent(rows, max_samples=len(rows)))
    assert len(explainer.data) > 1000
    assert not [warning for warning in recwarn if "background" in str(warning.message)]


def test_an_init_that_cannot_be_explained_gets_shap_s_words() -> None:
    ensemble, linear = pytest.importorskip("sklearn.ensemble"), pytest.importorskip("sklearn.linear_model")
    X = np.random.default_rng(0).normal(size=(50, 2))
    model = ensemble.GradientBoostingRegressor(n_estimators=2, init=linear.LinearRegression()).fit(X, X[:, 0])
    with pytest.raises(Exception) as theirs:  # noqa: PT011
        SHAP["TreeExplainer"](model)
    with patch_shap(), pytest.raises(type(theirs.value)) as ours:
        shap.TreeExplainer(model)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.usefixtures("patched")
def test_attributes_of_shap_s_explainer_are_there(forest: zoo.ZooModel) -> None:
    """What only shap has is made on demand; what nobody has is still an AttributeError."""
    explainer = shap.TreeExplainer(forest.model, feature_names=list("abcde"))
    original = SHAP["TreeExplainer"](forest.model)
    np.testing.assert_allclose(explainer.expected_value, original.expected_value)
    assert explainer.data is None
    assert explainer.model_output == "raw"
    assert explainer(forest.X.to_numpy()).feature_names == list("abcde")
    assert not hasattr(explainer, "no_such_attribute")
    assert explainer.model.values.shape == original.model.values.shape


@pytest.mark.parametrize(
    "name",
    ["sklearn_random_forest_multiclass", "sklearn_gradient_boosting_binary", "xgboost_binary",
     "xgboost_multiclass", "lightgbm_regressor", "lightgbm_multiclass"],
)  # fmt: skip
def test_the_model_says_what_shap_s_copy_says_without_making_one(name: str) -> None:
    model = zoo.load(name)
    original = SHAP["TreeExplainer"](model.model).model
    with patch_shap():
        explainer = shap.TreeExplainer(model.model)
    ours = explainer.model
    for attribute in ("num_outputs", "model_type", "model_output", "input_dtype"):
        assert getattr(ours, attribute) == getattr(original, attribute), attribute
    if ours.tree_output is not None and original.tree_output is not None:
        assert ours.tree_output == original.tree_output
    assert (
        type(ours.original_model).__name__ == type(getattr(original, "original_model", model.model)).__name__
    )
    theirs = original.predict(model.rows)  # of several classes in XGBoost it is off by their base scores
    expected = raw_prediction(model.model, model.rows).reshape(theirs.shape)
    np.testing.assert_allclose(ours.predict(model.rows), expected, atol=2e-5)
    one = ours.predict(model.rows[0])
    assert np.shape(one) == np.shape(original.predict(model.rows[0]))
    np.testing.assert_array_equal(np.ravel(one), np.ravel(ours.predict(model.rows)[:1]))
    assert not hasattr(ours, "inner_model")
    assert "_shap_explainer" not in explainer.__dict__


def test_the_model_predicts_what_is_explained() -> None:
    model = zoo.load("xgboost_binary")
    original = SHAP["TreeExplainer"](model.model, model.X[:20], model_output="probability")
    with patch_shap():
        explainer = shap.TreeExplainer(model.model, model.X[:20], model_output="probability")
    expected = original.model.predict(model.rows)
    np.testing.assert_allclose(explainer.model.predict(model.rows), expected, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"model_output": "probability"}, {"model_output": "log_loss"}])
def test_save_and_load_need_no_model(options: dict[str, str]) -> None:
    """shap's own file holds the model, and shap cannot read it back; this one is as shap.Explainer.load wants
    it."""
    model = zoo.load("xgboost_binary")
    data = model.X[:20] if options else None
    y = np.arange(len(model.X)) % 2
    file = io.BytesIO()
    with patch_shap():
        explainer = shap.TreeExplainer(model.model, data, **options)
        explainer.save(file, model_saver=False)
    file.seek(0)
    loaded = shap.Explainer.load(file, model_loader=lambda _: model.model)
    assert isinstance(loaded, SHAP["TreeExplainer"])
    np.testing.assert_array_equal(loaded.shap_values(model.X, y), explainer.shap_values(model.X, y))
    if options != {"model_output": "log_loss"}:
        assert loaded.expected_value == explainer.expected_value
        assert type(loaded.expected_value) is type(explainer.expected_value)
        np.testing.assert_array_equal(loaded(model.X).base_values, explainer(model.X).base_values)


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
                monkey.setattr(SHAP["TreeExplainer"], "shap_values", None)  # shap's own code must not run
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
    expected = SHAP["TreeExplainer"](model).shap_values(rows)
    pairs = SHAP["TreeExplainer"](model).shap_interaction_values(rows)
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


# -- who imported shap's class earlier ----------------------------------------------------------------


def test_modules_that_imported_the_class_earlier_are_reached() -> None:
    module = types.ModuleType("imported_earlier")
    module.__dict__.update(TreeExplainer=shap.TreeExplainer, Named=shap.TreeExplainer, other=shap)
    sys.modules["imported_earlier"] = module
    try:
        with patch_shap():
            assert module.TreeExplainer is module.Named is shap.TreeExplainer is not SHAP["TreeExplainer"]
        assert module.TreeExplainer is module.Named is SHAP["TreeExplainer"]
    finally:
        del sys.modules["imported_earlier"]


def test_classes_derived_earlier_are_reached(forest: zoo.ZooModel) -> None:
    class Derived(shap.TreeExplainer):  # type: ignore[misc, name-defined]
        def __init__(self, model: Any) -> None:
            self.mine = "kept"
            super().__init__(model)

        def shap_values(self, X: Any, *arguments: Any, **options: Any) -> Any:
            return 2 * super().shap_values(X, *arguments, **options)

    with patch_shap():
        explainer = Derived(forest.model)
        values = explainer.shap_values(forest.X)
        assert _is_ours(explainer)
        assert explainer.mine == "kept"
    assert Derived.__bases__ == (SHAP["TreeExplainer"],)
    expected = linear_treeshap.TreeExplainer(forest.model).shap_values(forest.X)
    np.testing.assert_array_equal(values, 2 * expected)


def test_pickles_of_shap_s_own_explainer_can_still_be_made(patched: None, forest: zoo.ZooModel) -> None:
    """A pickle names the module that defines a class, which therefore keeps it."""
    original = SHAP["TreeExplainer"](forest.model)
    assert type(pickle.loads(pickle.dumps(original))) is SHAP["TreeExplainer"]


def test_the_gpu_explainer_is_ours_and_works_without_a_gpu(patched: None, forest: zoo.ZooModel) -> None:
    explainer = shap.GPUTreeExplainer(forest.model)
    assert isinstance(explainer, shap.TreeExplainer)
    assert isinstance(explainer, SHAP["TreeExplainer"])
    assert shap.explainers.GPUTree is shap.GPUTreeExplainer
    expected = shap.TreeExplainer(forest.model).shap_values(forest.X)
    np.testing.assert_allclose(explainer.shap_values(forest.X), expected, rtol=0, atol=1e-12)


def test_the_gpu_explainer_is_shap_s_own_again() -> None:
    """Newer releases have one only beside a package of shap's own, and say so."""

    def asked_for() -> Any:
        try:
            return shap.GPUTreeExplainer
        except ImportError as error:
            return str(error)

    before = asked_for()
    with patch_shap():
        assert asked_for().__module__ == "linear_treeshap.compat.shap_explainer"
    assert asked_for() == before


@pytest.mark.parametrize("version", ["0.43.0", "0.44.1"])
def test_old_releases_of_shap_are_refused(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They give a list of arrays for several outputs, and their callers slice that."""
    monkeypatch.setattr(shap, "__version__", version)
    with pytest.raises(linear_treeshap.MissingDependencyError, match=r"0\.45 or newer"):
        patch_shap()


# -- the same numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_frame", [False, True])
def test_both_entrances_take_the_background_rows_that_shap_takes(
    as_frame: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """shap keeps 100 of them. Its own code rounds them to float32, hence the tolerance."""
    sklearn = pytest.importorskip("sklearn.ensemble")
    pd = pytest.importorskip("pandas")
    X = np.random.default_rng(0).normal(size=(307, 3)).astype(np.float32).astype(np.float64)
    model = sklearn.RandomForestRegressor(5, random_state=0).fit(X, X[:, 0] * X[:, 1])
    rows = pd.DataFrame(X, columns=list("abc")) if as_frame else X
    expected = SHAP["TreeExplainer"](model, rows)
    with warnings.catch_warnings(), patch_shap(), caplog.at_level(logging.INFO, "linear_treeshap"):
        warnings.simplefilter("ignore")  # scikit-learn misses names
        one, other = shap.TreeExplainer(model, rows), shap.Explainer(model, rows)
        all_rows = shap.TreeExplainer(model, shap.maskers.Independent(rows, max_samples=307))
        for explainer in (one, other):
            assert _is_ours(explainer)
            np.testing.assert_array_equal(explainer.data, expected.data)
            np.testing.assert_allclose(explainer.expected_value, expected.expected_value)
            values = explainer.shap_values(rows[:20])
            np.testing.assert_allclose(values, expected.shap_values(rows[:20]), atol=1e-6)
        assert len(all_rows.data) == 307
    n_said = caplog.text.count("Of 307 background rows, 100 are used")
    assert n_said == (0 if as_frame else 1)  # once in a program
    assert "max_samples=len(X)" in caplog.text or as_frame


def test_a_masker_does_not_keep_a_model_that_only_we_read_from_us() -> None:
    """shap.Explainer(model, X) asks with a masker; shap has no answer for several classes of scikit-learn."""
    model = zoo.load("sklearn_gradient_boosting_multiclass")
    with patch_shap():
        assert _is_ours(shap.Explainer(model.model, model.rows[:20]))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("xgboost_multiclass", list), ("lightgbm_multiclass", list), ("xgboost_binary", np.floating)],
)
def test_the_expected_value_is_of_shap_s_type(name: str, kind: type) -> None:
    model = zoo.load(name)
    theirs = SHAP["TreeExplainer"](model.model)
    theirs.shap_values(model.rows)
    with patch_shap():
        ours = shap.TreeExplainer(model.model)
    assert isinstance(theirs.expected_value, kind)
    assert isinstance(ours.expected_value, kind)


# -- errors ------------------------------------------------------------------------------------------------


def test_errors_are_also_shap_s(patched: None) -> None:
    """A model that was trained on since: both libraries refuse, and both errors can be caught."""
    xgboost = pytest.importorskip("xgboost")
    X = np.random.default_rng(0).normal(size=(100, 3))
    booster = xgboost.train({"max_depth": 2, "nthread": 1}, xgboost.DMatrix(X, X[:, 0]), 3)
    explainer = shap.TreeExplainer(booster)
    booster.update(xgboost.DMatrix(X, X[:, 0]), 3)
    for kind in (shap.utils._exceptions.ExplainerError, linear_treeshap.AdditivityError):
        with pytest.raises(kind, match="add up"):
            explainer.shap_values(X)
        with pytest.raises(kind, match="add up"):
            explainer.shap_interaction_values(X)


def test_what_shap_lets_pass_passes(patched: None, caplog: pytest.LogCaptureFixture) -> None:
    """Differences below its tolerance, 1e-2, are above ours: a patch must not stop a program that ran."""
    sklearn = pytest.importorskip("sklearn.ensemble")
    X = np.random.default_rng(0).normal(size=(100, 3))
    model = sklearn.RandomForestRegressor(3, random_state=0).fit(X, X[:, 0])
    explainer = shap.TreeExplainer(model)
    inside = model.predict
    model.predict = lambda rows: inside(rows) + 5e-3
    with caplog.at_level(logging.WARNING, "linear_treeshap"):
        assert explainer.shap_values(X).shape == X.shape
    assert "less than shap allows" in caplog.text
    model.predict = lambda rows: inside(rows) + 1.0
    with pytest.raises(shap.utils._exceptions.ExplainerError):
        explainer.shap_values(X)


# -- pipelines ---------------------------------------------------------------------------------------------


def test_pipelines_are_explained_in_their_raw_columns(patched: None) -> None:
    """Which shap refuses altogether."""
    pd, compose = pytest.importorskip("pandas"), pytest.importorskip("sklearn.compose")
    pipeline, ensemble = pytest.importorskip("sklearn.pipeline"), pytest.importorskip("sklearn.ensemble")
    encoders = pytest.importorskip("sklearn.preprocessing")
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"city": rng.choice(["Oslo", "Rome", "Bonn"], 200), "age": rng.normal(size=200)})
    columns = compose.ColumnTransformer(
        [("city", encoders.OneHotEncoder(), ["city"]), ("age", encoders.StandardScaler(), ["age"])]
    )
    model = pipeline.make_pipeline(columns, ensemble.RandomForestRegressor(5, random_state=0))
    model.fit(rows, rows["age"] + (rows["city"] == "Rome"))
    for explainer in (shap.TreeExplainer(model), shap.Explainer(model)):
        assert _is_ours(explainer)
        explanation = explainer(rows)
        assert explanation.feature_names == ["city", "age"]
        sums = explanation.values.sum(axis=1) + explanation.base_values
        np.testing.assert_allclose(sums, model.predict(rows))


def test_pipelines_that_mix_columns_are_left_to_shap(patched: None, caplog: pytest.LogCaptureFixture) -> None:
    """Its explanations would put raw columns beside values of transformed ones."""
    pipeline, ensemble = pytest.importorskip("sklearn.pipeline"), pytest.importorskip("sklearn.ensemble")
    decomposition = pytest.importorskip("sklearn.decomposition")
    X = np.random.default_rng(0).normal(size=(100, 3))
    model = pipeline.make_pipeline(decomposition.PCA(2), ensemble.RandomForestRegressor(3)).fit(X, X[:, 0])
    with (
        caplog.at_level(logging.INFO, "linear_treeshap"),
        pytest.raises(Exception, match="not yet supported"),
    ):
        shap.TreeExplainer(model)
    assert "transformed columns" in caplog.text
