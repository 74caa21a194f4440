"""Combinations that are looked up for mixed rows: the game of columns alone, by what CatBoost predicts."""

from __future__ import annotations

import itertools
import pickle
from functools import cache
from math import factorial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from strategies import random_ensemble, random_rows
from zoo_catboost import CATBOOST_PARAMETERS

from linear_treeshap import InputError, TreeExplainer
from linear_treeshap.engines.background import BackgroundEngine
from linear_treeshap.engines.background_rows import Background
from linear_treeshap.engines.indices import index_of
from linear_treeshap.engines.mixed import MixedEngine
from linear_treeshap.engines.program import Program

catboost = pytest.importorskip("catboost")
pandas = pytest.importorskip("pandas")

Values = npt.NDArray[np.float64]
CATEGORIES = ["city", "size", "kind"]


def frame(n_rows: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return pandas.DataFrame(
        {
            "city": rng.choice([f"city {i}" for i in range(12)], n_rows),
            "price": rng.normal(size=n_rows),
            "size": rng.integers(-2, 4, n_rows),
            "kind": rng.choice(["a", "b"], n_rows),
            "age": np.where(rng.random(n_rows) < 0.1, np.nan, rng.normal(size=n_rows)),
        }
    )


def outcome(X: Any) -> Values:
    of_city = X["city"].str[-1].astype(int).to_numpy()
    both = (of_city + X["size"].to_numpy()) % 3
    of_kind = (X["kind"] == "b") * np.nan_to_num(X["age"])
    return np.asarray(both * 2.0 + (of_city % 2) * (X["price"] > 0) + of_kind)


@cache
def _model(kind: str) -> Any:
    X = frame(400, 0)
    options = {
        **CATBOOST_PARAMETERS,
        "iterations": 25,
        "depth": 4,
        "max_ctr_complexity": 4,
        "cat_features": CATEGORIES,
    }
    if kind == "classes":
        return catboost.CatBoostClassifier(**options).fit(X, np.digitize(outcome(X), [1, 3]))
    if kind == "binary":
        return catboost.CatBoostClassifier(**options).fit(X, outcome(X) > 2)
    if kind == "lopsided":
        options |= {"grow_policy": "Lossguide"}
    return catboost.CatBoostRegressor(**options).fit(X, outcome(X))


ROWS = pandas.concat([frame(4, 1), frame(1, 2).assign(city="nowhere")], ignore_index=True)
BACKGROUND = frame(5, 3)


def _mixtures(model: Any, row: int, background: Any) -> dict[tuple[bool, ...], Values]:
    """What CatBoost predicts, on the mean, for each coalition of the columns of a row."""
    found = {}
    for present in itertools.product((False, True), repeat=5):
        mixed = background.copy()
        for column, is_present in zip(mixed.columns, present, strict=True):
            if is_present:
                mixed[column] = [ROWS[column].iloc[row]] * len(mixed)
        raw = catboost.CatBoost.predict(model, mixed, prediction_type="RawFormulaVal")
        found[present] = np.asarray(raw).reshape(len(mixed), -1).mean(axis=0)
    return found


def _index(game: dict[tuple[bool, ...], Values], members: tuple[int, ...]) -> Values:
    """The Shapley (interaction) index of some columns."""
    n_others = 5 - len(members)
    total = np.zeros_like(game[(True,) * 5])
    for present, value in game.items():
        size = sum(here for i, here in enumerate(present) if i not in members)
        weight = factorial(size) * factorial(n_others - size) / factorial(n_others + 1)
        total += weight * (-1) ** sum(not present[i] for i in members) * value
    return total


def test_the_model_has_combinations() -> None:
    names = TreeExplainer(_model("regressor"), groups="combinations").players.names
    assert any(name.count("&") >= 1 for name in names)


@pytest.mark.parametrize("kind", ["regressor", "lopsided", "classes"])
def test_values_are_those_of_all_mixtures(kind: str) -> None:
    """To rounding, which for CatBoost is that of sums of trees."""
    model = _model(kind)
    explainer = TreeExplainer(model, BACKGROUND, groups="mixed")
    values = explainer.shap_values(ROWS).reshape(len(ROWS), 5, -1)
    assert tuple(explainer.players.names) == tuple(ROWS.columns)
    for row, found in enumerate(values):
        game = _mixtures(model, row, BACKGROUND)
        expected = [_index(game, (column,)) for column in range(5)]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_pairs_are_those_of_all_mixtures() -> None:
    model = _model("regressor")
    explainer = TreeExplainer(model, BACKGROUND, groups="mixed")
    game = _mixtures(model, 0, BACKGROUND)
    found = explainer.shap_interaction_values(ROWS.iloc[:1])[0]
    for i, j in itertools.combinations(range(5), 2):
        np.testing.assert_allclose(
            [found[i, j], found[j, i]], _index(game, (i, j))[0] / 2, rtol=0, atol=1e-12
        )
    np.testing.assert_allclose(found.sum(axis=1), explainer.shap_values(ROWS)[0], rtol=0, atol=1e-12)


def test_it_is_another_game_than_that_of_combinations() -> None:
    """Which divides what a combination gets equally among its columns."""
    mixed, divided = (TreeExplainer(_model("regressor"), BACKGROUND, groups=g) for g in ("mixed", None))
    assert np.abs(mixed.shap_values(ROWS) - divided.shap_values(ROWS)).max() > 0.01


def test_weights_probabilities_and_sums() -> None:
    """A row that counts twice is two rows; slopes are those of pairs; values of a sum are sums of values."""
    model = _model("regressor")
    weighted = TreeExplainer(model, BACKGROUND, data_weights=[1, 2, 1, 0, 0], groups="mixed")
    twice = TreeExplainer(model, BACKGROUND.iloc[[0, 1, 1, 2]], groups="mixed")
    np.testing.assert_allclose(weighted.shap_values(ROWS), twice.shap_values(ROWS), rtol=0, atol=1e-12)
    binary = _model("binary")
    explainer = TreeExplainer(binary, BACKGROUND, "probability", groups="mixed")
    sums = explainer.shap_values(ROWS).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(sums, binary.predict_proba(ROWS)[:, 1], rtol=0, atol=1e-12)
    parts = [
        TreeExplainer(one, BACKGROUND, groups="mixed").shap_values(ROWS)
        for one in (model, _model("lopsided"))
    ]
    both = TreeExplainer([model, _model("lopsided")], BACKGROUND, groups="mixed").shap_values(ROWS)
    np.testing.assert_allclose(both, (parts[0] + parts[1]) / 2, rtol=0, atol=1e-12)


@pytest.mark.parametrize("index", ["shapley", "banzhaf"])
def test_without_combinations_it_is_the_game_of_all_other_models(index: str) -> None:
    """As the engine of background rows plays it: values and pairs, also in float32, however rows are cut."""
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_trees=3, n_outputs=2, vector_leaves=True, max_depth=4)
    background = Background(random_rows(rng, ensemble, 5), rng.random(5))
    rows = random_rows(rng, ensemble, 4)
    program = Program(ensemble, index=index_of(index, ensemble.n_features))
    mixed, plain = MixedEngine(program, background), BackgroundEngine(program, background)
    for name, n_axes in (("values", 1), ("pairs", 2)):
        shape = (len(rows), *[ensemble.n_features] * n_axes, 2)
        found, expected = np.empty(shape), np.empty(shape)
        getattr(mixed, name)(rows, found)
        getattr(plain, name)(rows, expected)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
        cut, narrow = np.empty(shape), np.empty(shape, dtype=np.float32)
        for some in (slice(0, 1), slice(1, 4), slice(4, 4)):
            getattr(mixed, name)(rows[some], cut[some])
        getattr(mixed, name)(rows, narrow)
        np.testing.assert_array_equal(cut, found)
        np.testing.assert_array_equal(narrow, found.astype(np.float32))
    np.testing.assert_allclose(mixed.base_values(), plain.base_values(), rtol=0, atol=1e-14)


def test_it_is_pickled_but_not_saved(tmp_path: Path) -> None:
    explainer = TreeExplainer(_model("regressor"), BACKGROUND, groups="mixed")
    copy = pickle.loads(pickle.dumps(explainer))
    np.testing.assert_array_equal(copy.shap_values(ROWS), explainer.shap_values(ROWS))
    with pytest.raises(InputError, match="Pickle the explainer"):
        explainer.save(tmp_path / "model.lts")


def test_what_cannot_be_mixed_is_refused() -> None:
    """Without background rows, without combinations, of rows whose categories are lost."""
    with pytest.raises(InputError, match="pass data="):
        TreeExplainer(_model("regressor"), groups="mixed")
    numbers = catboost.CatBoostRegressor(**CATBOOST_PARAMETERS).fit(ROWS[["price"]], [1, 2, 3, 4, 5])
    with pytest.raises(InputError, match="this model has none"):
        TreeExplainer(numbers, ROWS[["price"]], groups="mixed")
    pool = catboost.Pool(ROWS, cat_features=CATEGORIES)
    with pytest.raises(InputError, match="frame or array that it was made of"):
        TreeExplainer(_model("regressor"), BACKGROUND, groups="mixed").shap_values(pool)
