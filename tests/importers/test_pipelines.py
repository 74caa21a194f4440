"""Pipelines are explained from raw rows, in raw columns wherever each transformed column comes from one."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from linear_treeshap import (
    AdditivityError,
    InputError,
    ModelError,
    TreeExplainer,
    UnsupportedModelError,
    global_importance,
    import_model,
)

pytest.importorskip("sklearn")
pd = pytest.importorskip("pandas")
from sklearn.base import BaseEstimator, TransformerMixin  # noqa: E402
from sklearn.compose import ColumnTransformer  # noqa: E402
from sklearn.decomposition import PCA  # noqa: E402
from sklearn.ensemble import (  # noqa: E402
    BaggingRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestRegressor,
)
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer  # noqa: E402
from sklearn.feature_selection import SelectKBest, f_regression  # noqa: E402
from sklearn.impute import SimpleImputer  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.multioutput import MultiOutputRegressor  # noqa: E402
from sklearn.pipeline import Pipeline, make_pipeline  # noqa: E402
from sklearn.preprocessing import (  # noqa: E402
    FunctionTransformer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)
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
RAW = ("age", "city", "income")
#: The raw column behind each transformed one.
BEHIND = ["city", "city", "city", "age", "income"]


def _trained(sparse: bool = False) -> Any:
    model = make_pipeline(_columns(sparse), RandomForestRegressor(8, max_depth=5, random_state=0))
    X = _frame()
    return model.fit(X, _target(X))


def _assert_explains(model: Any, X: Any, explanation: Any, groups: Any = None) -> None:
    """The values are the last step's for transformed rows, and add up to what the pipeline predicts."""
    last, transformed = model[-1], model[:-1].transform(X)
    expected = TreeExplainer(last, groups=groups)(transformed)
    if groups is not None:
        expected = expected[:, list(explanation.feature_names)]
    np.testing.assert_array_equal(explanation.values, expected.values)
    total = explanation.base_values + explanation.values.sum(axis=1)
    np.testing.assert_allclose(total, model.predict(X), rtol=1e-12)


def test_raw_rows_are_explained_in_raw_columns() -> None:
    """By the exact values of the groups of columns that the trees read; the rows are shown as they came."""
    model, X = _trained(), _frame()
    explanation = TreeExplainer(model)(X)
    _assert_explains(model, X, explanation, BEHIND)
    assert explanation.feature_names == RAW
    assert explanation.table is X
    assert explanation.data[0].tolist() == X.iloc[0].tolist()


def test_whoever_wants_transformed_columns_explains_the_last_step() -> None:
    model, X = _trained(), _frame()
    explainer = TreeExplainer(model[-1], feature_names=model[:-1].get_feature_names_out())
    assert explainer(model[:-1].transform(X)).feature_names == TRANSFORMED


@pytest.mark.parametrize("library", ["sklearn", "xgboost"])
def test_missing_numbers_and_categories_are_explained_in_raw_columns(library: str) -> None:
    """Imputers, indicators and encoders, under histogram boosting and XGBoost, add up to the raw output."""
    X = _frame()
    X.loc[X.index[::7], "income"] = np.nan
    X.loc[X.index[::11], "city"] = None
    cities = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="nowhere"), OneHotEncoder(handle_unknown="ignore")
    )
    columns = ColumnTransformer(
        [("city", cities, ["city"]), ("number", SimpleImputer(add_indicator=True), ["age", "income"])],
        sparse_threshold=0,
    )
    if library == "sklearn":
        last: Any = HistGradientBoostingClassifier(max_iter=20, min_samples_leaf=5)
    else:
        last = pytest.importorskip("xgboost").XGBClassifier(n_estimators=20, n_jobs=1)
    y = (X["age"] > 50) ^ (X["city"] == "Rome") ^ X["income"].isna()
    model = make_pipeline(columns, last).fit(X, y)
    unseen = X.assign(city=["Paris", *X["city"][1:]])
    explanation = TreeExplainer(model)(unseen)
    assert explanation.feature_names == RAW
    total = explanation.base_values + explanation.values.sum(axis=1)
    if library == "sklearn":
        np.testing.assert_allclose(total, model.decision_function(unseen), rtol=1e-12, atol=1e-12)
    else:  # XGBoost adds in float32
        raw = model[-1].predict(model[:-1].transform(unseen), output_margin=True)
        np.testing.assert_allclose(total, raw, rtol=1e-5, atol=1e-5)
    assert explanation.values.any(axis=0).all()


def test_a_column_that_is_not_used_is_worth_nothing() -> None:
    """Dropped or deselected; it keeps its place among the raw columns."""
    X = _frame()
    selected = make_pipeline(_columns(), SelectKBest(f_regression, k=1), DecisionTreeRegressor(max_depth=4))
    dropped = make_pipeline(
        ColumnTransformer([("number", "passthrough", ["age"])]), DecisionTreeRegressor(max_depth=4)
    )
    for model in (selected, dropped):
        explanation = TreeExplainer(model.fit(X, X["age"] ** 2))(X)
        assert explanation.feature_names == RAW
        assert explanation[:, "age"].values.any()
        assert not explanation[:, ["city", "income"]].values.any()


def test_groups_are_groups_of_raw_columns() -> None:
    model, X = _trained(), _frame()
    explainer = TreeExplainer(model, groups={"person": ["age", "city"]})
    explanation = explainer(X[["income", "city", "age"]])
    _assert_explains(model, X, explanation, ["person"] * 4 + ["income"])
    assert explanation.feature_names == ("person", "income")
    assert explanation.data[0, 0] == f"age={X['age'].iloc[0]:.4g}, city={X['city'].iloc[0]}"
    assert explainer.players.members == {"person": ("age", "city"), "income": ("income",)}


def test_raw_columns_that_are_mixed_can_be_one_group() -> None:
    """Together they are the one source of what is made of them; apart they are refused."""
    X = _frame()
    mixing = ColumnTransformer([("mix", PCA(2), ["age", "income"]), ("city", OneHotEncoder(), ["city"])])
    model = make_pipeline(mixing, DecisionTreeRegressor(max_depth=5)).fit(X, _target(X))
    explanation = TreeExplainer(model, groups={"numbers": ["age", "income"]})(X)
    _assert_explains(model, X, explanation, ["numbers"] * 2 + ["city"] * 3)
    with pytest.raises(
        InputError, match=r"'mix__pca0' is made of the raw columns age, income, which are not"
    ):
        TreeExplainer(model, groups={"some": ["age", "city"]})


def test_groups_name_transformed_columns_where_raw_ones_are_mixed() -> None:
    X = _numbers()
    model = make_pipeline(StandardScaler(), PCA(2), DecisionTreeRegressor(max_depth=4)).fit(X, X[:, 0])
    assert TreeExplainer(model, groups={"both": ["pca0", "pca1"]})(X).feature_names == ("both",)


def test_one_hot_groups_of_a_pipeline_are_its_raw_columns() -> None:
    """Its encoders say so; names are not read."""
    model, X = _trained(), _frame()
    explanation = TreeExplainer(model, groups="onehot")(X)
    _assert_explains(model, X, explanation, BEHIND)


def test_texts_are_explained_as_one_raw_column() -> None:
    """Every word comes from the same column."""
    X = _frame()
    X["text"] = np.where(X["age"] > 50, "old and wise", "young and " + X["city"])
    words = ColumnTransformer([("words", CountVectorizer(), "text"), ("rest", "passthrough", ["income"])])
    model = make_pipeline(words, DecisionTreeRegressor(max_depth=5)).fit(X, _target(X))
    explanation = TreeExplainer(model)(X)
    assert explanation.feature_names == (*RAW, "text")
    assert explanation[:, "text"].values.any()
    total = explanation.base_values + explanation.values.sum(axis=1)
    np.testing.assert_allclose(total, model.predict(X), rtol=1e-12)


def test_pipelines_of_texts_are_explained_in_words() -> None:
    """A row is a text then, and there is no raw column but the text itself."""
    texts = ["a good film", "a bad film", "good", "bad bad film"] * 10
    model = make_pipeline(TfidfVectorizer(), DecisionTreeRegressor(max_depth=4)).fit(texts, np.arange(40))
    explainer = TreeExplainer(model)
    for given in (texts, np.array(texts), pd.Series(texts)):
        explanation = explainer(given)
        assert explanation.feature_names == ("bad", "film", "good")
        total = explanation.base_values + explanation.values.sum(axis=1)
        np.testing.assert_allclose(total, model.predict(texts), rtol=1e-12)
    with pytest.raises(InputError, match="Pass a list, an array or a Series of them"):
        explainer("a good film")


def test_raw_columns_may_be_absent_or_too_many_where_the_pipeline_allows_it() -> None:
    """A ColumnTransformer needs no column that it drops, and ignores others."""
    X = _frame()
    columns = ColumnTransformer([("number", StandardScaler(), ["age", "income"])])
    model = make_pipeline(columns, DecisionTreeRegressor(max_depth=4)).fit(X, _target(X))
    explainer = TreeExplainer(model)
    other = X[["income", "age"]].assign(extra=1.0)
    explanation = explainer(other)
    assert explanation.feature_names == RAW
    np.testing.assert_array_equal(explanation.values, explainer(X).values)
    assert explanation.table["city"].isna().all()
    assert list(explanation.table["age"]) == list(X["age"])


def test_the_frame_of_values_has_the_index_of_the_raw_rows() -> None:
    values = TreeExplainer(_trained())(_frame()).to_frame()
    assert list(values.columns) == list(RAW)
    assert list(values.index) == list(_frame().index)


def test_polars_in_polars_out() -> None:
    polars = pytest.importorskip("polars")
    explanation = TreeExplainer(_trained())(polars.from_pandas(_frame()))
    assert isinstance(explanation.to_frame(), polars.DataFrame)
    _assert_explains(_trained(), _frame(), explanation, BEHIND)


def test_sparse_output_of_a_transformer_is_explained() -> None:
    model, X = _trained(sparse=True), _frame()
    assert hasattr(model[:-1].transform(X), "tocsr")
    explanation = TreeExplainer(model)(X)
    _assert_explains(model, X, explanation, BEHIND)
    assert list(explanation.to_frame().index) == list(X.index)


def test_frames_between_the_steps_are_explained() -> None:
    """`set_output` makes transformers pass frames on, and the model is trained with names."""
    model = make_pipeline(_columns(), DecisionTreeRegressor(max_depth=4)).set_output(transform="pandas")
    X = _frame()
    explanation = TreeExplainer(model.fit(X, _target(X)))(X)
    _assert_explains(model, X, explanation, BEHIND)
    assert explanation.feature_names == RAW


def test_raw_columns_may_come_in_any_order() -> None:
    """As for any other model, values follow the columns; scikit-learn's scaler by itself would refuse."""
    X = _frame()[["age", "income"]]
    model = make_pipeline(StandardScaler(), DecisionTreeRegressor(max_depth=4)).fit(X, X["age"])
    explainer = TreeExplainer(model)
    swapped = explainer(X[["income", "age"]])
    assert swapped.feature_names == ("income", "age")
    assert list(swapped.table.columns) == ["income", "age"]
    np.testing.assert_array_equal(swapped.values[:, ::-1], explainer.shap_values(X))


def test_one_raw_row_is_explained() -> None:
    explainer, X = TreeExplainer(_trained()), _frame()
    np.testing.assert_array_equal(explainer(X.iloc[3]).values, explainer(X[3:4]).values[0])


def test_arrays_are_transformed_too() -> None:
    X = _numbers()
    model = make_pipeline(StandardScaler(), DecisionTreeRegressor(max_depth=4)).fit(X, X[:, 0])
    explanation = TreeExplainer(model, feature_names=["age", "income"])(X)
    _assert_explains(model, X, explanation)
    assert explanation.feature_names == ("age", "income")
    np.testing.assert_array_equal(explanation.data, X)


def test_raw_columns_that_are_mixed_are_explained_after_the_transformers() -> None:
    """And the explainer says why."""
    X = _numbers()
    model = make_pipeline(StandardScaler(), PCA(2), DecisionTreeRegressor(max_depth=4)).fit(X, X[:, 0])
    explainer = TreeExplainer(model)
    explanation = explainer(X)
    _assert_explains(model, X, explanation)
    assert explanation.feature_names == ("pca0", "pca1")
    why = "in transformed columns, because transformed column 'pca0' is made of several raw columns (0, 1)"
    assert explainer.players.note == why
    assert why in repr(explainer)


def test_names_are_counted_in_the_columns_that_are_explained() -> None:
    with pytest.raises(InputError, match=r"5 feature names .* of 3 features \(a pipeline explained in raw"):
        TreeExplainer(_trained(), feature_names=TRANSFORMED)


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
    mixed = make_pipeline(_columns(), PolynomialFeatures(2, include_bias=False), last)
    explanation = TreeExplainer(mixed.fit(X, _target(X)))(X)
    assert explanation.feature_names is not None
    assert explanation.feature_names[:5] == TRANSFORMED


@pytest.mark.parametrize("skipped", [[], [("a", "passthrough"), ("b", None)]], ids=["one step", "nothing"])
def test_pipelines_that_transform_nothing_are_explained(skipped: list[tuple[str, Any]]) -> None:
    X = _numbers()
    model = Pipeline([*skipped, ("tree", DecisionTreeRegressor(max_depth=4))]).fit(X, X[:, 0])
    np.testing.assert_array_equal(
        TreeExplainer(model).shap_values(X), TreeExplainer(model[-1]).shap_values(X)
    )


def test_a_frozen_pipeline_is_explained_as_the_pipeline() -> None:
    """The wrapper that keeps a model from being trained again has all attributes of what is inside; rows are
    transformed once all the same."""
    frozen = pytest.importorskip("sklearn.frozen")
    X = _frame()
    model = make_pipeline(_columns(), DecisionTreeRegressor(max_depth=3)).fit(X, _target(X))
    expected = TreeExplainer(model).shap_values(X)
    np.testing.assert_array_equal(TreeExplainer(frozen.FrozenEstimator(model)).shap_values(X), expected)


def test_a_search_over_pipelines_is_explained_from_raw_rows() -> None:
    """And a search inside a pipeline, and a pipeline inside a pipeline."""
    X = _frame()
    inner = make_pipeline(StandardScaler(), DecisionTreeRegressor())
    search = GridSearchCV(inner, {"decisiontreeregressor__max_depth": [2, 3]}, cv=2)
    model = GridSearchCV(make_pipeline(_columns(), search), {}, cv=2).fit(X, _target(X))
    explanation = TreeExplainer(model)(X)
    total = explanation.base_values + explanation.values.sum(axis=1)
    np.testing.assert_allclose(total, model.predict(X), rtol=1e-12)
    assert explanation.feature_names == RAW


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
    """The file holds the trees and the players, not the pipeline; a category is shown as such."""
    model, X = _trained(), _frame()
    TreeExplainer(model).save(tmp_path / "model.lts")
    loaded = TreeExplainer.load(tmp_path / "model.lts")
    explanation = loaded(model[:-1].transform(X))
    assert explanation.feature_names == RAW
    assert loaded.players.members["city"] == TRANSFORMED[:3]
    assert list(explanation.data[:, 1]) == list(X["city"])
    _assert_explains(model, X, explanation, BEHIND)


def test_global_importance_takes_raw_batches() -> None:
    model, X = _trained(), _frame()
    importance = global_importance(model, [X.iloc[:50], X.iloc[50:]])
    assert importance.feature_names == RAW
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
