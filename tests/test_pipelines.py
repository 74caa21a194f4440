"""Pipelines are explained from raw rows: their own steps transform them before the trees read them."""

from __future__ import annotations

import copy
import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from linear_treeshap import (
    AdditivityError,
    ModelError,
    TreeExplainer,
    UnsupportedModelError,
    global_importance,
    import_model,
    patch_shap,
)

pytest.importorskip("sklearn")
pd = pytest.importorskip("pandas")
from sklearn.base import BaseEstimator, TransformerMixin  # noqa: E402
from sklearn.compose import ColumnTransformer  # noqa: E402
from sklearn.decomposition import PCA  # noqa: E402
from sklearn.ensemble import BaggingRegressor, GradientBoostingClassifier, RandomForestRegressor  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.multioutput import MultiOutputRegressor  # noqa: E402
from sklearn.pipeline import Pipeline, make_pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler  # noqa: E402
from sklearn.tree import DecisionTreeRegressor  # noqa: E402

N_ROWS = 120
CITIES = np.array(["Oslo", "Rome", "Bern"])


def _frame() -> Any:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 80, size=N_ROWS).astype(float),
            "city": CITIES[rng.integers(3, size=N_ROWS)],
            "income": rng.normal(50, 20, size=N_ROWS),
        },
        index=pd.Index([f"row {i}" for i in range(N_ROWS)]),
    )


def _target(X: Any) -> npt.NDArray[np.float64]:
    return np.asarray(X["age"] / 10 + (X["city"] == "Rome") * 3.0 + (X["income"] > 50))


def _numbers() -> npt.NDArray[np.float64]:
    return np.asarray(_frame()[["age", "income"]].to_numpy())


def _columns(sparse: bool = False) -> Any:
    encoder = OneHotEncoder(sparse_output=sparse)
    return ColumnTransformer(
        [("city", encoder, ["city"]), ("number", StandardScaler(), ["age", "income"])],
        sparse_threshold=1.0 if sparse else 0.0,
    )


TRANSFORMED = ("city__city_Bern", "city__city_Oslo", "city__city_Rome", "number__age", "number__income")


def _trained(sparse: bool = False) -> Any:
    model = make_pipeline(_columns(sparse), RandomForestRegressor(8, max_depth=5, random_state=0))
    X = _frame()
    return model.fit(X, _target(X))


def _assert_explains(model: Any, X: Any, explanation: Any) -> None:
    """The values are the last step's for transformed rows, and add up to what the pipeline predicts."""
    last, transformed = model[-1], model[:-1].transform(X)
    np.testing.assert_array_equal(explanation.values, TreeExplainer(last).shap_values(transformed))
    total = explanation.base_values + explanation.values.sum(axis=1)
    np.testing.assert_allclose(total, model.predict(X), rtol=1e-12)


def test_raw_rows_are_transformed() -> None:
    """By every step before the last; the names are those of the columns that the trees read."""
    model, X = _trained(), _frame()
    explanation = TreeExplainer(model)(X)
    _assert_explains(model, X, explanation)
    assert explanation.feature_names == TRANSFORMED
    np.testing.assert_array_equal(explanation.data, model[:-1].transform(X))


def test_the_frame_of_values_has_the_index_of_the_raw_rows() -> None:
    values = TreeExplainer(_trained())(_frame()).to_frame()
    assert list(values.columns) == list(TRANSFORMED)
    assert list(values.index) == list(_frame().index)


def test_polars_in_polars_out() -> None:
    polars = pytest.importorskip("polars")
    explanation = TreeExplainer(_trained())(polars.from_pandas(_frame()))
    assert isinstance(explanation.to_frame(), polars.DataFrame)
    _assert_explains(_trained(), _frame(), explanation)


def test_sparse_output_of_a_transformer_is_explained() -> None:
    model, X = _trained(sparse=True), _frame()
    assert hasattr(model[:-1].transform(X), "tocsr")
    explanation = TreeExplainer(model)(X)
    _assert_explains(model, X, explanation)
    assert list(explanation.to_frame().index) == list(X.index)


def test_frames_between_the_steps_are_explained() -> None:
    """`set_output` makes transformers pass frames on, and the model is trained with names."""
    model = make_pipeline(_columns(), DecisionTreeRegressor(max_depth=4)).set_output(transform="pandas")
    X = _frame()
    explanation = TreeExplainer(model.fit(X, _target(X)))(X)
    _assert_explains(model, X, explanation)
    assert explanation.feature_names == TRANSFORMED


def test_raw_columns_may_come_in_any_order() -> None:
    """As for any other model; scikit-learn's scaler by itself would refuse."""
    X = _frame()[["age", "income"]]
    model = make_pipeline(StandardScaler(), DecisionTreeRegressor(max_depth=4)).fit(X, X["age"])
    explainer = TreeExplainer(model)
    np.testing.assert_array_equal(explainer.shap_values(X[["income", "age"]]), explainer.shap_values(X))


def test_one_raw_row_is_explained() -> None:
    explainer, X = TreeExplainer(_trained()), _frame()
    np.testing.assert_array_equal(explainer(X.iloc[3]).values, explainer(X).values[3])


def test_arrays_are_transformed_too() -> None:
    X = _numbers()
    model = make_pipeline(StandardScaler(), PCA(2), DecisionTreeRegressor(max_depth=4)).fit(X, X[:, 0])
    explanation = TreeExplainer(model)(X)
    _assert_explains(model, X, explanation)
    assert explanation.feature_names == ("pca0", "pca1")


def test_steps_without_names_leave_features_numbered() -> None:
    X = _numbers()
    model = make_pipeline(FunctionTransformer(np.square), DecisionTreeRegressor(max_depth=4)).fit(X, X[:, 0])
    explanation = TreeExplainer(model)(X)
    _assert_explains(model, X, explanation)
    assert explanation.feature_names == ("Feature 0", "Feature 1")


def test_a_classifier_adds_up_to_the_log_odds_of_the_pipeline() -> None:
    X = _frame()
    model = make_pipeline(_columns(), GradientBoostingClassifier(n_estimators=8)).fit(X, X["city"] == "Rome")
    explanation = TreeExplainer(model)(X)
    total = explanation.base_values + explanation.values.sum(axis=1)
    np.testing.assert_allclose(total, model.decision_function(X), rtol=1e-12)


def test_names_of_columns_replace_the_numbers_that_a_library_makes_up() -> None:
    """LightGBM calls the columns of an array Column_0 and so on."""
    lightgbm = pytest.importorskip("lightgbm")
    X = _frame()
    last = lightgbm.LGBMRegressor(n_estimators=3, n_jobs=1, verbose=-1)
    explanation = TreeExplainer(make_pipeline(_columns(), last).fit(X, _target(X)))(X)
    assert explanation.feature_names == TRANSFORMED


@pytest.mark.parametrize("skipped", [[], [("a", "passthrough"), ("b", None)]], ids=["one step", "nothing"])
def test_pipelines_that_transform_nothing_are_explained(skipped: list[tuple[str, Any]]) -> None:
    X = _numbers()
    model = Pipeline([*skipped, ("tree", DecisionTreeRegressor(max_depth=4))]).fit(X, X[:, 0])
    np.testing.assert_array_equal(
        TreeExplainer(model).shap_values(X), TreeExplainer(model[-1]).shap_values(X)
    )


def test_a_search_over_pipelines_is_explained_from_raw_rows() -> None:
    """And a search inside a pipeline, and a pipeline inside a pipeline."""
    X = _frame()
    inner = make_pipeline(StandardScaler(), DecisionTreeRegressor())
    search = GridSearchCV(inner, {"decisiontreeregressor__max_depth": [2, 3]}, cv=2)
    model = GridSearchCV(make_pipeline(_columns(), search), {}, cv=2).fit(X, _target(X))
    explanation = TreeExplainer(model)(X)
    total = explanation.base_values + explanation.values.sum(axis=1)
    np.testing.assert_allclose(total, model.predict(X), rtol=1e-12)
    assert explanation.feature_names == TRANSFORMED


def test_samplers_of_imbalanced_learn_are_for_training_only() -> None:
    pytest.importorskip("imblearn")
    from imblearn.pipeline import Pipeline as ImblearnPipeline
    from imblearn.under_sampling import RandomUnderSampler

    X = _numbers()
    steps = [
        ("scale", StandardScaler()),
        ("sample", RandomUnderSampler(random_state=0)),
        ("trees", GradientBoostingClassifier(n_estimators=5)),
    ]
    model = ImblearnPipeline(steps).fit(X, X[:, 0] > 60)
    explanation = TreeExplainer(model)(X)
    total = explanation.base_values + explanation.values.sum(axis=1)
    np.testing.assert_allclose(total, model.decision_function(X), rtol=1e-12)


class _Noise(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Transforms the same rows differently each time."""

    calls = 0

    def fit(self, X: Any, y: Any = None) -> _Noise:
        return self

    def transform(self, X: Any) -> Any:
        self.calls += 1
        return X + 10 * self.calls


def test_sums_are_checked_against_the_whole_pipeline() -> None:
    """Raw rows go through the pipeline a second time, so a transformer that changes its mind is noticed."""
    X = _numbers()
    model = make_pipeline(_Noise(), DecisionTreeRegressor(max_depth=6)).fit(X, X[:, 0])
    with pytest.raises(AdditivityError):
        TreeExplainer(model)(X)


def test_pickles_and_copies_still_take_raw_rows() -> None:
    explainer, X = TreeExplainer(_trained()), _frame()
    expected = explainer(X).values
    for other in (pickle.loads(pickle.dumps(explainer)), copy.copy(explainer), copy.deepcopy(explainer)):
        np.testing.assert_array_equal(other(X).values, expected)


def test_a_saved_explainer_takes_transformed_rows(tmp_path: Path) -> None:
    """The file holds the trees, not the pipeline."""
    model, X = _trained(), _frame()
    TreeExplainer(model).save(tmp_path / "model.lts")
    loaded = TreeExplainer.load(tmp_path / "model.lts")
    explanation = loaded(model[:-1].transform(X))
    assert explanation.feature_names == TRANSFORMED
    _assert_explains(model, X, explanation)


def test_global_importance_takes_raw_batches() -> None:
    model, X = _trained(), _frame()
    importance = global_importance(model, [X.iloc[:50], X.iloc[50:]])
    assert importance.feature_names == TRANSFORMED
    expected = np.abs(TreeExplainer(model)(X).values).mean(axis=0)
    np.testing.assert_allclose(importance.mean_abs[:, 0], expected, rtol=1e-12)


def test_a_step_that_cannot_transform_is_named() -> None:
    X = _numbers()
    tree = DecisionTreeRegressor().fit(X, X[:, 0])
    model = Pipeline([("odd", tree), ("tree", tree)])
    with pytest.raises(UnsupportedModelError, match=r"Step 'odd' .* has no transform\(\)"):
        TreeExplainer(model)


@pytest.mark.parametrize("last", ["passthrough", None])
def test_a_pipeline_without_a_model_says_so(last: Any) -> None:
    with pytest.raises(ModelError, match="expected a model as its last step"):
        import_model(Pipeline([("scale", StandardScaler()), ("nothing", last)]))


@pytest.mark.parametrize("wrapper", [BaggingRegressor, MultiOutputRegressor])
def test_models_that_each_transform_for_themselves_are_refused(wrapper: Any) -> None:
    """Their trees do not read the same rows."""
    X = _numbers()
    model = wrapper(make_pipeline(StandardScaler(), DecisionTreeRegressor(max_depth=2))).fit(X, X)
    with pytest.raises(UnsupportedModelError, match="Put the transformers before it"):
        TreeExplainer(model)


def test_patched_shap_leaves_pipelines_to_shap(caplog: pytest.LogCaptureFixture) -> None:
    """It refuses them: its explanations would put raw columns beside values of transformed ones."""
    shap = pytest.importorskip("shap")
    with (
        patch_shap(),
        caplog.at_level(logging.INFO, "linear_treeshap"),
        pytest.raises(Exception, match="not yet supported"),
    ):
        shap.TreeExplainer(_trained())
    assert "use linear_treeshap.TreeExplainer" in caplog.text
