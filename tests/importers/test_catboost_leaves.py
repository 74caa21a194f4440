"""CatBoost's texts and embeddings: CatBoost says where rows go, and values are those of the raw columns."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from zoo_catboost import CATBOOST_PARAMETERS

from linear_treeshap import TreeExplainer
from linear_treeshap.errors import InputError, UnsupportedModelError

catboost = pytest.importorskip("catboost")
pandas = pytest.importorskip("pandas")

N_ROWS = 500
WORDS = np.array(["good", "bad", "fine", "poor", "great", "awful", "nice", "sad", "happy", "boring"])


def texts(n_rows: int = N_ROWS, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return pandas.DataFrame(
        {
            "price": np.round(rng.normal(size=n_rows), 1),
            "review": [" ".join(rng.choice(WORDS, 6)) for _ in range(n_rows)],
            "age": rng.normal(size=n_rows),
        }
    )


def is_liked(X: Any) -> Any:
    good, bad = X["review"].str.count("good|great"), X["review"].str.count("awful")
    return good - bad + X["price"] + X["age"] > 0.5


def vectors(n_rows: int = N_ROWS, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    embeddings = list(rng.normal(size=(n_rows, 4)))
    return pandas.DataFrame({"price": rng.normal(size=n_rows), "vector": embeddings})


def trained(X: Any, y: Any, parameters: dict[str, Any] | None = None, **options: Any) -> Any:
    settings = {**CATBOOST_PARAMETERS, "iterations": 25, "depth": 5, **(parameters or {})}
    return catboost.CatBoostClassifier(**settings).fit(X, y, **options)


@pytest.fixture(scope="module")
def model() -> Any:
    return trained(texts(), is_liked(texts()), text_features=["review"])


def test_values_of_texts_are_catboost_s(model: Any) -> None:
    X = texts(300, seed=1)
    theirs = model.get_feature_importance(catboost.Pool(X, text_features=["review"]), type="ShapValues")
    explainer = TreeExplainer(model)
    assert np.abs(theirs[:, 1]).max() > 0.1
    np.testing.assert_allclose(
        explainer.shap_values(X), theirs[:, :-1], rtol=0, atol=1e-12 * np.abs(theirs).max()
    )
    assert explainer(X).feature_names == ("price", "review", "age")


def test_values_of_embeddings_are_catboost_s() -> None:
    X = vectors()
    y = np.stack(X["vector"])[:, 0] + X["price"] > 0
    model = trained(X, y, embedding_features=["vector"])
    pool = catboost.Pool(X, embedding_features=["vector"])
    theirs = model.get_feature_importance(pool, type="ShapValues")
    assert np.abs(theirs[:, 1]).max() > 0.1
    np.testing.assert_allclose(
        TreeExplainer(model).shap_values(X), theirs[:, :-1], rtol=0, atol=1e-12 * np.abs(theirs).max()
    )


@pytest.fixture(scope="module")
def mixed() -> tuple[Any, Any]:
    """A model of texts, numbers, categories and their combination, and its rows."""
    rng = np.random.default_rng(2)
    X = texts().assign(city=rng.choice(list("abcde"), N_ROWS), size=rng.integers(6, size=N_ROWS))
    is_odd = (X["city"].map(ord) + X["size"]) % 2 == 1
    y = is_odd | (X["review"].str.count("good") > 1)
    model = trained(X, y, {"max_ctr_complexity": 2}, text_features=["review"], cat_features=["city", "size"])
    return model, X


def test_texts_beside_combinations_of_categories(mixed: tuple[Any, Any]) -> None:
    model, X = mixed
    explainer = TreeExplainer(model)
    sums = explainer.shap_values(X).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(sums, model.predict(X, prediction_type="RawFormulaVal"), rtol=0, atol=1e-10)
    assert "city & size" in TreeExplainer(model, groups="combinations").players.names


def test_a_column_changes_what_it_is_said_to_be_behind_and_nothing_else(mixed: tuple[Any, Any]) -> None:
    """CatBoost's own values (1.2.10) count conditions in another order than its trees where there are texts
    beside categories, and give them to other columns; predictions would not show that."""
    model, X = mixed
    reader = TreeExplainer(model)._preprocessing.steps[-1]  # type: ignore[union-attr]
    before = reader.transform(X)
    for place, name in enumerate(X.columns):
        other = X.assign(**{name: X[name].to_numpy()[::-1]})
        has_changed = (reader.transform(other) != before).any(axis=0)
        is_behind = np.array([place in features for features in reader.sources])
        assert has_changed.any()
        assert not (has_changed & ~is_behind).any(), name


def test_other_rows_give_the_same_values(model: Any) -> None:
    X = texts(300, seed=3)
    explainer = TreeExplainer(model)
    values = explainer.shap_values(X)
    pool = catboost.Pool(X, text_features=["review"])
    np.testing.assert_array_equal(explainer.shap_values(pool), values)
    np.testing.assert_array_equal(explainer.shap_values(X.to_numpy(dtype=object)), values)
    np.testing.assert_array_equal(explainer.shap_values(X[X.columns[::-1]])[:, ::-1], values)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(explainer)).shap_values(X), values)
    assert explainer(pool).data is None


def test_groups_background_and_pairs(model: Any) -> None:
    X = texts(50, seed=4)
    predictions = model.predict(X, prediction_type="RawFormulaVal")
    for explainer in (
        TreeExplainer(model, groups={"numbers": ["price", "age"]}),
        TreeExplainer(model, texts(20, seed=5)),
    ):
        values = explainer.shap_values(X)
        np.testing.assert_allclose(
            values.sum(axis=1) + explainer.expected_value, predictions, rtol=0, atol=1e-10
        )
        pairs = explainer.shap_interaction_values(X)
        np.testing.assert_allclose(pairs.sum(axis=2), values, rtol=0, atol=1e-10)


def test_a_file_is_refused_that_could_read_no_rows(model: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Pickle the explainer"):
        TreeExplainer(model).save(tmp_path / "explainer.lts")
    model.save_model(str(tmp_path / "model.cbm"))
    with pytest.raises(UnsupportedModelError, match="only CatBoost can turn into numbers"):
        TreeExplainer(tmp_path / "model.cbm")


def test_trees_that_are_not_symmetric_are_refused() -> None:
    model = trained(texts(), is_liked(texts()), {"grow_policy": "Lossguide"}, text_features=["review"])
    with pytest.raises(UnsupportedModelError, match="SymmetricTree"):
        TreeExplainer(model)


def test_rows_that_catboost_does_not_read_are_refused(model: Any) -> None:
    with pytest.raises(InputError, match="CatBoost itself does not read these rows"):
        TreeExplainer(model).shap_values(texts(5).assign(review=1.5))
