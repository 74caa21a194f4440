"""Which raw columns are behind a transformed one: what transformers say is what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from linear_treeshap.importers.pipelines.column_sources import trace

pytest.importorskip("sklearn")
pd = pytest.importorskip("pandas")
from sklearn.base import BaseEstimator, TransformerMixin  # noqa: E402
from sklearn.compose import ColumnTransformer, make_column_selector  # noqa: E402
from sklearn.decomposition import PCA  # noqa: E402
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer  # noqa: E402
from sklearn.feature_selection import (  # noqa: E402
    RFE,
    SelectFromModel,
    SelectKBest,
    SelectPercentile,
    VarianceThreshold,
    f_regression,
)
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer  # noqa: E402
from sklearn.linear_model import LinearRegression  # noqa: E402
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union  # noqa: E402
from sklearn.preprocessing import (  # noqa: E402
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeRegressor  # noqa: E402

N_ROWS = 200


def _table(kind: str) -> Any:
    """Columns of one kind, of different spread and with different numbers of categories."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(N_ROWS, 3)) * [1.0, 10.0, 0.1]
    labels = {
        "city": rng.choice(["Bern", "Oslo", "Rome", "Paris"], p=[0.4, 0.4, 0.15, 0.05], size=N_ROWS),
        "sex": rng.choice(["f", "m"], size=N_ROWS),
        "job": rng.choice(["cook", "clerk", "smith"], size=N_ROWS),
    }
    if kind == "labels":
        return pd.DataFrame(labels)
    if kind == "missing":
        numbers[rng.random(numbers.shape) < [0.2, 0.0, 0.3]] = np.nan
    if kind == "empty":
        numbers[:, 1] = np.nan
    frame = pd.DataFrame(numbers, columns=["age", "income", "height"])
    return frame.assign(**labels) if kind == "mixed" else frame


def _numbers_and_labels(**options: Any) -> Any:
    transformers = [("label", OneHotEncoder(), ["city", "sex"]), ("number", StandardScaler(), ["income"])]
    return ColumnTransformer(transformers, sparse_threshold=0, **options)


def _double(X: Any) -> Any:
    return X * 2


def _row_sums(X: Any) -> Any:
    return np.asarray(X).sum(axis=1, keepdims=True)


class _Scaler(StandardScaler):  # type: ignore[misc]
    """A scaler of the user's own, which mixes columns."""

    def transform(self, X: Any) -> Any:
        scaled = super().transform(X)
        return scaled + scaled.mean(axis=1, keepdims=True)


class _Silent(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Knows nothing about its columns."""

    def fit(self, X: Any, y: Any = None) -> _Silent:
        return self

    def transform(self, X: Any) -> Any:
        return np.asarray(X)[:, :2]


#: Name → the kind of table, and a transformer whose columns each come from one raw column.
ONE_SOURCE: dict[str, tuple[str, Callable[[], Any]]] = {
    "StandardScaler": ("numbers", StandardScaler),
    "MinMaxScaler": ("numbers", MinMaxScaler),
    "RobustScaler": ("numbers", RobustScaler),
    "MaxAbsScaler": ("numbers", MaxAbsScaler),
    "QuantileTransformer": ("numbers", lambda: QuantileTransformer(n_quantiles=20)),
    "PowerTransformer": ("numbers", PowerTransformer),
    "Binarizer": ("numbers", Binarizer),
    "KBinsDiscretizer": ("numbers", lambda: KBinsDiscretizer(4)),
    "KBinsDiscretizer, dense": ("numbers", lambda: KBinsDiscretizer([2, 4, 3], encode="onehot-dense")),
    "KBinsDiscretizer, ordinal": ("numbers", lambda: KBinsDiscretizer(4, encode="ordinal")),
    "SplineTransformer": ("numbers", lambda: SplineTransformer(4)),
    "SplineTransformer, less one": ("numbers", lambda: SplineTransformer(4, include_bias=False)),
    "PolynomialFeatures of degree 1": ("numbers", lambda: PolynomialFeatures(1, include_bias=False)),
    "FunctionTransformer": ("numbers", lambda: FunctionTransformer(_double, feature_names_out="one-to-one")),
    "FunctionTransformer of nothing": ("numbers", FunctionTransformer),
    "OneHotEncoder": ("labels", OneHotEncoder),
    "OneHotEncoder, drop first": ("labels", lambda: OneHotEncoder(drop="first")),
    "OneHotEncoder, drop if binary": ("labels", lambda: OneHotEncoder(drop="if_binary")),
    "OneHotEncoder, drop named": ("labels", lambda: OneHotEncoder(drop=["Rome", "m", "cook"])),
    "OneHotEncoder, infrequent": ("labels", lambda: OneHotEncoder(min_frequency=40)),
    "OneHotEncoder, infrequent and drop": ("labels", lambda: OneHotEncoder(max_categories=2, drop="first")),
    "OneHotEncoder, unknown ignored": ("labels", lambda: OneHotEncoder(handle_unknown="ignore")),
    "OneHotEncoder, missing": ("missing labels", OneHotEncoder),
    "OrdinalEncoder": ("labels", OrdinalEncoder),
    "OrdinalEncoder, unknown": (
        "labels",
        lambda: OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    ),
    "TargetEncoder": ("labels", lambda: TargetEncoder(target_type="continuous", random_state=0)),
    "TargetEncoder, classes": ("labels", lambda: TargetEncoder(target_type="multiclass", random_state=0)),
    "SimpleImputer": ("missing", SimpleImputer),
    "SimpleImputer, indicator": ("missing", lambda: SimpleImputer(add_indicator=True)),
    "SimpleImputer, constant": ("missing", lambda: SimpleImputer(strategy="constant", fill_value=0)),
    "SimpleImputer, kept empty": ("empty", lambda: SimpleImputer(keep_empty_features=True)),
    "SimpleImputer, labels": ("missing labels", lambda: SimpleImputer(strategy="most_frequent")),
    "MissingIndicator": ("missing", MissingIndicator),
    "MissingIndicator, all": ("missing", lambda: MissingIndicator(features="all")),
    "SelectKBest": ("numbers", lambda: SelectKBest(f_regression, k=2)),
    "SelectPercentile": ("numbers", lambda: SelectPercentile(f_regression, percentile=40)),
    "VarianceThreshold": ("numbers", lambda: VarianceThreshold(0.5)),
    "SelectFromModel": ("numbers", lambda: SelectFromModel(DecisionTreeRegressor(random_state=0))),
    "RFE": ("numbers", lambda: RFE(LinearRegression(), n_features_to_select=1)),
    "ColumnTransformer": ("mixed", _numbers_and_labels),
    "ColumnTransformer, remainder kept": ("mixed", lambda: _numbers_and_labels(remainder=OrdinalEncoder())),
    "ColumnTransformer, frames": (
        "mixed",
        lambda: ColumnTransformer(
            [("label", OrdinalEncoder(), ["job", "city"]), ("number", StandardScaler(), ["height"])],
            verbose_feature_names_out=False,
        ).set_output(transform="pandas"),
    ),
    "ColumnTransformer, remainder passed through": (
        "mixed",
        lambda: ColumnTransformer([("label", OrdinalEncoder(), ["job", "city"])], remainder="passthrough"),
    ),
    "ColumnTransformer by position": (
        "mixed",
        lambda: ColumnTransformer(
            [
                ("drop", "drop", [0]),
                ("same", "passthrough", slice(1, 3)),
                ("mask", OrdinalEncoder(), [False, False, False, True, False, False]),
                ("last", OneHotEncoder(), [-1]),
            ],
            sparse_threshold=0,
        ),
    ),
    "ColumnTransformer by slice of names": (
        "mixed",
        lambda: ColumnTransformer(
            [("a", StandardScaler(), slice("age", "income")), ("b", "drop", ["height"])]
        ),
    ),
    "ColumnTransformer by selector": (
        "mixed",
        lambda: ColumnTransformer(
            [
                ("number", MinMaxScaler(), make_column_selector(dtype_include="number")),
                ("label", OneHotEncoder(), lambda X: ["sex", "city"]),
            ],
            sparse_threshold=0,
        ),
    ),
    "ColumnTransformer of no columns": (
        "mixed",
        lambda: ColumnTransformer([("none", StandardScaler(), []), ("some", StandardScaler(), ["age"])]),
    ),
    "ColumnTransformer of texts": (
        "mixed",
        lambda: ColumnTransformer([("words", CountVectorizer(), "city"), ("tf", TfidfVectorizer(), "job")]),
    ),
    "ColumnTransformer of unknown transformers": (
        "mixed",
        lambda: ColumnTransformer([("a", FunctionTransformer(_double), ["age"]), ("b", PCA(1), ["income"])]),
    ),
    "nested": (
        "mixed",
        lambda: ColumnTransformer(
            [
                ("inner", _numbers_and_labels(remainder="drop"), ["sex", "income", "city"]),
                ("steps", make_pipeline(KBinsDiscretizer(3), MaxAbsScaler(), "passthrough"), ["height"]),
            ],
            sparse_threshold=0,
        ),
    ),
    "Pipeline": (
        "mixed",
        lambda: make_pipeline(_numbers_and_labels(), VarianceThreshold(0.1), SelectKBest(f_regression, k=4)),
    ),
    "FeatureUnion": (
        "missing",
        lambda: FeatureUnion(
            [("a", SimpleImputer()), ("b", MissingIndicator()), ("c", "drop"), ("d", "passthrough")]
        ),
    ),
}


def _fitted(kind: str, make: Callable[[], Any]) -> tuple[Any, Any]:
    X = _table(kind.replace("missing labels", "labels"))
    if kind == "missing labels":
        X.iloc[::9, 0] = np.nan
        X.iloc[::7, 1] = np.nan
    transformer = make()
    y = np.random.default_rng(1).normal(size=N_ROWS)
    has_classes = "multiclass" in repr(transformer)
    return transformer.fit(X, np.digitize(y, [-0.5, 0.5]) if has_classes else y), X


def _entries(transformer: Any, X: Any) -> Any:
    """What it makes of the rows, as an array of objects: numbers and labels."""
    made = transformer.transform(X)
    return np.asarray(made.toarray() if hasattr(made, "toarray") else made, dtype=object)


def _differs(before: Any, after: Any) -> Any:
    """NaN is the same as another NaN, though not equal to it."""
    return (before != after) & ~((before != before) & (after != after))


def _changed_by(transformer: Any, X: Any, column: int) -> set[int]:
    """The transformed columns that are others when the rows swap their entries of a raw column."""
    other = X.copy()
    other.iloc[:, column] = np.roll(X.iloc[:, column].to_numpy(), 3)
    changed = _differs(_entries(transformer, X), _entries(transformer, other)).any(axis=0)
    return set(np.flatnonzero(changed).tolist())


@pytest.mark.parametrize("name", ONE_SOURCE)
def test_each_transformed_column_has_the_source_that_changes_it(name: str) -> None:
    """Exactly one, found from what the transformer keeps of its fit."""
    transformer, X = _fitted(*ONE_SOURCE[name])
    transformed = _entries(transformer, X)
    origins = trace([transformer], transformed.shape[1])
    assert origins is not None
    assert origins.raw_names == tuple(X.columns)
    assert all(len(sources) == 1 for sources in origins.sources), origins.sources
    varies = set(np.flatnonzero(_differs(transformed, transformed[:1]).any(axis=0)).tolist())
    assert varies
    for raw in range(X.shape[1]):
        claimed = {c for c, sources in enumerate(origins.sources) if raw in sources}
        assert _changed_by(transformer, X, raw) == claimed & varies


@pytest.mark.filterwarnings("ignore:Skipping features without any observed values:UserWarning")
def test_an_imputer_drops_columns_without_any_number() -> None:
    transformer, X = _fitted("empty", SimpleImputer)
    origins = trace([transformer], transformer.transform(X).shape[1])
    assert origins is not None
    assert origins.sources == (frozenset([0]), frozenset([2]))


#: Name → the kind of table, and a transformer that makes a column of several.
MIXING: dict[str, tuple[str, Callable[[], Any]]] = {
    "PCA": ("numbers", lambda: PCA(2)),
    "PolynomialFeatures": ("numbers", lambda: PolynomialFeatures(2)),
    "Normalizer": ("numbers", Normalizer),
    "KNNImputer": ("missing", KNNImputer),
    "FunctionTransformer": ("numbers", lambda: FunctionTransformer(_row_sums)),
    "a class derived from a known one": ("numbers", _Scaler),
    "a union with one that mixes": ("numbers", lambda: make_union(StandardScaler(), PCA(2))),
    "a step that mixes": ("mixed", lambda: make_pipeline(_numbers_and_labels(), PCA(2), StandardScaler())),
    "a column transformer with one that mixes": (
        "mixed",
        lambda: ColumnTransformer([("a", PCA(2), ["age", "height"]), ("b", OneHotEncoder(), ["sex"])]),
    ),
}


@pytest.mark.parametrize("name", MIXING)
def test_sources_are_never_too_few(name: str) -> None:
    """What a raw column changes is among what it is said to be behind; some columns have several sources."""
    transformer, X = _fitted(*MIXING[name])
    origins = trace([transformer], transformer.transform(X).shape[1])
    assert origins is not None
    assert any(len(sources) > 1 for sources in origins.sources)
    for raw in range(X.shape[1]):
        claimed = {c for c, sources in enumerate(origins.sources) if raw in sources}
        assert _changed_by(transformer, X, raw) <= claimed


def test_polynomials_know_their_sources() -> None:
    transformer, _ = _fitted("numbers", lambda: PolynomialFeatures(2, interaction_only=True))
    origins = trace([transformer], 7)
    assert origins is not None
    assert [sorted(sources) for sources in origins.sources] == [[], [0], [1], [2], [0, 1], [0, 2], [1, 2]]


def test_transformers_that_say_nothing_cannot_be_traced() -> None:
    X = _table("numbers")
    assert trace([_Silent().fit(X)], 2) is None  # which columns does it take?
    silent_inside = Pipeline([("scale", StandardScaler()), ("odd", _Silent()), ("also", _Silent())]).fit(X)
    assert trace([silent_inside], 2) is None  # how many columns are between the last two?


def test_a_wrong_number_of_columns_is_no_trace() -> None:
    transformer, _ = _fitted("numbers", StandardScaler)
    origins = trace([transformer], 5)
    assert origins is not None
    assert set(origins.sources) == {frozenset([0, 1, 2])}
