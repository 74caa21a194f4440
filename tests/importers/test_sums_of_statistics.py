"""Sums of CatBoost models, each with tables of its own and with hashes that the others may not know."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from zoo_catboost import CATBOOST_PARAMETERS, catboost_regressor_on

from linear_treeshap import TreeExplainer, import_model
from linear_treeshap.errors import UnsupportedModelError

catboost = pytest.importorskip("catboost")
pandas = pytest.importorskip("pandas")

CATEGORIES = ["city", "size", "kind"]
Values = npt.NDArray[np.float64]


def frame(n_rows: int, seed: int, cities: int = 30, kinds: str = "abc") -> Any:
    rng = np.random.default_rng(seed)
    return pandas.DataFrame(
        {
            "city": rng.choice([f"city {i}" for i in range(cities)], n_rows),
            "price": rng.normal(size=n_rows),
            "size": rng.integers(-2, 4, n_rows),
            "kind": rng.choice(list(kinds), n_rows),
            "age": rng.normal(size=n_rows),
        }
    )


def outcome(X: Any) -> Values:
    of_city = X["city"].str.len().to_numpy() + X["city"].str[-1].astype(int).to_numpy()
    both = (of_city + X["size"].to_numpy()) % 3
    return np.asarray(both * 2.0 + (of_city % 2) * (X["price"] > 0) + X["kind"].isin(["b", "d"]) * X["age"])


@cache
def _folds() -> list[Any]:
    """Of three folds: cities that others have not seen, and kinds that others do not know apart."""
    folds = [frame(300, 0), frame(300, 1, cities=12, kinds="bcd"), frame(300, 2, kinds="be")]
    settings = {"iterations": 25, "depth": 4, "max_ctr_complexity": 3, "one_hot_max_size": 3}
    return [
        catboost_regressor_on(X, outcome(X), cat_features=CATEGORIES, **settings, random_seed=seed)
        for seed, X in enumerate(folds)
    ]


#: Everything that any fold has seen, and what none has.
ROWS = pandas.concat([frame(200, 5, kinds="abcdef"), frame(20, 6).assign(city="nowhere", size=99)])


def test_the_folds_are_different() -> None:
    formats = [import_model(model).row_format for model in _folds()]
    assert all(row_format.lookups and row_format.hashes for row_format in formats)
    assert formats[0].lookups != formats[1].lookups
    assert len({row_format.hashes[3] for row_format in formats}) == 3
    assert set(formats[1].hashes[3]) - set(formats[0].hashes[3])


def test_values_of_a_sum_are_sums_of_values() -> None:
    """To rounding, and additive to what CatBoost predicts, which is compared with by itself."""
    weights = [0.5, -0.25, 2.0]
    explainer = TreeExplainer(list(zip(weights, _folds(), strict=True)))
    parts = [
        weight * TreeExplainer(model).shap_values(ROWS)
        for weight, model in zip(weights, _folds(), strict=True)
    ]
    np.testing.assert_allclose(explainer.shap_values(ROWS), sum(parts), rtol=0, atol=1e-12)
    expected = sum(weight * model.predict(ROWS) for weight, model in zip(weights, _folds(), strict=True))
    sums = explainer.shap_values(ROWS).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(sums, expected, rtol=0, atol=1e-10)


def test_with_background_and_combinations() -> None:
    """Combinations that several models know are one player."""
    background = frame(10, 7)
    explainer = TreeExplainer(_folds(), background, groups="combinations")
    names = explainer.players.names
    assert len(set(names)) == len(names)
    found = dict(zip(names, explainer.shap_values(ROWS).T, strict=True))
    for model in _folds():
        part = TreeExplainer(model, background, groups="combinations")
        for name, values in zip(part.players.names, part.shap_values(ROWS).T, strict=True):
            found[name] = found[name] - values / 3
    np.testing.assert_allclose(list(found.values()), 0.0, rtol=0, atol=1e-12)


def test_it_is_saved(tmp_path: Path) -> None:
    explainer = TreeExplainer(_folds())
    explainer.save(tmp_path / "model.lts")
    loaded = TreeExplainer.load(tmp_path / "model.lts")
    np.testing.assert_array_equal(loaded.shap_values(ROWS), explainer.shap_values(ROWS))


def test_files_and_votes(tmp_path: Path) -> None:
    """Lists of files, and scikit-learn's own mean, of classifiers too."""
    paths = [tmp_path / f"{number}.cbm" for number in range(3)]
    for path, model in zip(paths, _folds(), strict=True):
        model.save_model(str(path))
    expected = TreeExplainer(_folds()).shap_values(ROWS)
    np.testing.assert_allclose(TreeExplainer(paths).shap_values(ROWS), expected, rtol=0, atol=1e-12)
    ensemble, frozen = pytest.importorskip("sklearn.ensemble"), pytest.importorskip("sklearn.frozen")
    X = frame(300, 0)
    options = {**CATBOOST_PARAMETERS, "iterations": 8, "cat_features": CATEGORIES}
    models = [catboost.CatBoostClassifier(**(options | {"depth": depth})) for depth in (2, 3)]
    # scikit-learn cannot copy a CatBoost model that was told its categories, so they are trained before.
    parts = [(str(i), frozen.FrozenEstimator(one.fit(X, outcome(X) > 2))) for i, one in enumerate(models)]
    votes = ensemble.VotingClassifier(parts, voting="soft").fit(X, outcome(X) > 2)
    explainer = TreeExplainer(votes, X[:10], "probability")
    sums = explainer.shap_values(X[50:90]).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(sums, votes.predict_proba(X[50:90])[:, 1], rtol=0, atol=1e-9)


def test_categories_of_one_model_that_are_numbers_of_another_are_refused() -> None:
    X = frame(300, 0).drop(columns=["city", "kind"])
    models = [
        catboost_regressor_on(X, outcome(frame(300, 0)), cat_features=cats, iterations=5)
        for cats in (["size"], [])
    ]
    with pytest.raises(UnsupportedModelError, match="they differ in the categories"):
        TreeExplainer(models)
