"""Interactions of sets against background rows: the definition, and what else is promised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engines import background_engine
from set_indices import by_moebius, moebius_of
from settings import assert_equal, settings
from strategies import random_ensemble, random_rows, rows_as_read

from linear_treeshap import InputError, TreeExplainer, global_interactions, oracle
from linear_treeshap.engines.background_rows import Background
from linear_treeshap.engines.indices import index_of
from linear_treeshap.engines.sets import KINDS
from linear_treeshap.players.players import Players

N_FEATURES = 6
SETTINGS = settings("plain", "float32", "zero cover", "stumps", "several outputs", "vector leaves")


def assert_by_definition(
    setting: dict[str, Any], kind: Any, order: int, *, seed: int, share: str = "", **options: Any
) -> None:
    """Two rows of some random trees, with and without weights."""
    rng = np.random.default_rng(seed)
    for case in range(3):
        ensemble = random_ensemble(rng, **{"n_features": N_FEATURES, **setting})
        rows, weights = rows_as_read(rng, ensemble, 2), rng.random(4) if case % 2 else None
        background = Background(rows_as_read(rng, ensemble, 4), weights)
        engine = background_engine(ensemble, background, **options).sets(kind, order)
        assert list(engine.sets) == sorted(engine.sets, key=lambda members: (len(members), members))
        out = np.empty((len(rows), len(engine.sets), ensemble.n_outputs))
        engine.values(rows, out, n_jobs=1)
        given = {
            "background": background.rows,
            "background_weights": None if weights is None else weights.tolist(),
            "players": options["players"].of_column.tolist() if "players" in options else None,
        }
        for found, x in zip(out, rows, strict=True):
            exact = by_moebius(moebius_of(ensemble, x, **given), share or kind, order)
            assert set(exact) <= set(engine.sets)
            zeros = np.zeros(ensemble.n_outputs)
            expected = [
                oracle.as_float(exact[members]) if members in exact else zeros for members in engine.sets
            ]
            assert_equal(found, np.array(expected).reshape(found.shape), ensemble)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_every_index_equals_the_definition(kind: str, order: int) -> None:
    assert_by_definition({}, kind, order, seed=order)


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_kind_of_trees_equals_the_definition(setting: str, order: int) -> None:
    """Rows on and around thresholds, missing values, infinities, unknown categories, on both sides."""
    assert_by_definition(SETTINGS[setting], "k-SII", order, seed=sum(map(ord, setting)))


@pytest.mark.parametrize("order", [2, 3])
def test_groups_and_other_indices_equal_the_definition(order: int) -> None:
    players = Players(np.array([0, 1, 0, 2, 1, 3], dtype=np.int32), tuple("abcd"), tuple("uvwxyz"))
    assert_by_definition({}, "SII", order, seed=7, players=players)
    assert_by_definition({}, None, order, seed=8, share="BII", index=index_of("banzhaf", N_FEATURES))


def test_they_add_up_and_agree_with_pairs() -> None:
    """The sums of every row are checked, of explanations and of sums over rows."""
    rng = np.random.default_rng(3)
    ensemble = random_ensemble(rng, n_features=N_FEATURES, n_trees=8)
    rows, background = random_rows(rng, ensemble, 30), random_rows(rng, ensemble, 200)
    explainer = TreeExplainer(ensemble, background)
    pairs = explainer.interactions(rows)
    np.testing.assert_allclose(pairs.to_dense(), explainer.shap_interaction_values(rows), rtol=0, atol=1e-13)
    for index in ("k-SII", "STII", "FSII"):
        found = explainer.interactions(rows, 3, index=index, check_additivity=1e-12)
        total = found.base_values + found.values.sum(axis=1)
        np.testing.assert_allclose(total, ensemble.predict(rows)[:, 0], rtol=0, atol=1e-12)
    sums = global_interactions(explainer, rows, 3)
    threes = explainer.interactions(rows, 3)
    np.testing.assert_allclose(np.ravel(sums.sum), threes.values.sum(axis=0), rtol=0, atol=1e-12)


def test_progress_reaches_one() -> None:
    rng = np.random.default_rng(4)
    ensemble = random_ensemble(rng, n_features=N_FEATURES)
    shares: list[float] = []
    explainer = TreeExplainer(ensemble, random_rows(rng, ensemble, 5))
    explainer.interactions(random_rows(rng, ensemble, 9), 3, index="STII", progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_only_raw_outputs_have_interactions() -> None:
    """Slopes of a probability rescale values, and say nothing of sets."""
    from sklearn.ensemble import GradientBoostingClassifier

    X = np.random.default_rng(0).normal(size=(60, 3))
    for y in (X[:, 0] > 0, np.digitize(X[:, 1], [-0.5, 0.5])):
        model = GradientBoostingClassifier(n_estimators=3).fit(X, y)
        explainer = TreeExplainer(model, X[:10], "probability")
        for order in (2, 3):
            with pytest.raises(InputError, match="defined for model_output='raw' only"):
                explainer.interactions(X[:2], order)
