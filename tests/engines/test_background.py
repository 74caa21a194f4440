"""Interventional values against the definition, and what the background engine promises besides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from engines import background_engine
from settings import assert_equal, settings
from strategies import chain, copies, random_ensemble, rows_as_read

from linear_treeshap import TreeExplainer, _core, oracle
from linear_treeshap.engines.background import BackgroundEngine
from linear_treeshap.engines.background_rows import Background
from linear_treeshap.engines.indices import index_of
from linear_treeshap.engines.program import Program
from linear_treeshap.model.ensemble import TreeEnsemble
from linear_treeshap.model.row_format import RowFormat
from linear_treeshap.players.players import Players

Float64 = npt.NDArray[np.float64]
Rows = npt.NDArray[np.floating]

N_ENSEMBLES = 20

SETTINGS = {
    **settings(
        "plain", "float32", "one feature", "two features", "stumps", "several outputs", "vector leaves"
    ),
    "deep": {"max_depth": 10, "n_features": 12, "max_leaves": 60},  # of long paths, which are scanned
}


def values(engine: BackgroundEngine, rows: Rows, n_jobs: int = 1) -> Float64:
    out = np.empty((len(rows), engine.n_players, engine.n_outputs))
    engine.values(rows, out, n_jobs=n_jobs)
    return out


def exact(ensemble: TreeEnsemble, rows: Rows, background: Background, **options: Any) -> Float64:
    weights = None if background.weights is None else background.weights.tolist()
    options = {"background": background.rows, "background_weights": weights, "by": "leaves", **options}
    return np.array([oracle.as_float(oracle.shapley_values(ensemble, row, **options)) for row in rows])


# -- the definition ------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("scan_only", [False, True], ids=["tables", "scan"])
def test_equals_the_definition(setting: str, scan_only: bool) -> None:
    """Random trees, rows and backgrounds: ties, missing values, infinities, unknown categories, weights."""
    rng = np.random.default_rng(sum(map(ord, setting)))
    for case in range(N_ENSEMBLES):
        ensemble = random_ensemble(rng, **SETTINGS[setting])
        rows, weights = rows_as_read(rng, ensemble, 3), rng.random(5) if case % 2 else None
        background = Background(rows_as_read(rng, ensemble, 5), weights)
        expected = exact(ensemble, rows, background)
        for kernel in _core.kernels():
            engine = background_engine(ensemble, background, kernel=kernel, scan_only=scan_only)
            assert_equal(values(engine, rows), expected, ensemble, f"({kernel}, case {case})")


@pytest.mark.parametrize("scan_only", [False, True], ids=["tables", "scan"])
def test_groups_and_other_indices_equal_the_definition(scan_only: bool) -> None:
    """Groups of columns as players, and Banzhaf's weights of coalitions, one half for each other player."""
    rng = np.random.default_rng(5)
    for _ in range(N_ENSEMBLES):
        ensemble = random_ensemble(rng, n_features=7, max_depth=7, max_leaves=40)
        rows = rows_as_read(rng, ensemble, 3)
        background = Background(rows_as_read(rng, ensemble, 4), None)
        of_column = np.array([0, 1, 0, 2, 3, 1, 2], dtype=np.int32)
        players = Players(of_column, tuple("abcd"), tuple("abcdefg"))
        for index, weight in (("shapley", oracle.shapley_weight), ("banzhaf", lambda _, n: oracle_half(n))):
            engine = background_engine(
                ensemble, background, players=players, index=index_of(index, 4), scan_only=scan_only
            )
            expected = exact(ensemble, rows, background, players=of_column.tolist(), weight=weight)
            assert_equal(values(engine, rows), expected, ensemble, index)


def oracle_half(others: int) -> Any:
    from fractions import Fraction

    return Fraction(1, 2**others)


@pytest.mark.parametrize("n_players", [9, 16, 31, 33, 64, 70])
def test_long_paths_equal_the_definition(n_players: int) -> None:
    """One path over many features, around every size at which the scan changes its words and vectors."""
    rng = np.random.default_rng(n_players)
    ensemble = chain(rng.permutation(n_players).tolist())
    # Rows and background rows fail a few players each, so that their sets are often disjoint.
    rows, background_rows = (np.where(rng.random((n, n_players)) < 2 / n_players, 1.0, -1.0) for n in (4, 6))
    background = Background(background_rows, None)
    expected = exact(ensemble, rows, background)
    assert np.abs(expected).max() > 0.01
    for kernel in _core.kernels():
        assert_equal(values(background_engine(ensemble, background, kernel=kernel), rows), expected, ensemble)


@pytest.mark.parametrize("n_players", [32, 36])
def test_long_paths_with_bottoms_beside_them_equal_the_definition(n_players: int) -> None:
    """A path with a split beside each of its edges: small subtrees on either side of where a word of a set is
    full, with so many kinds of rows that they need several blocks, and with few."""
    rng = np.random.default_rng(n_players)
    ensemble = comb(rng.permutation(n_players + 1))
    rows, background_rows = (
        np.where(rng.random((n, n_players + 1)) < 2 / n_players, 1.0, -1.0) for n in (200, 70)
    )
    background = Background(background_rows, rng.random(70))
    expected = exact(ensemble, rows[:1], background)
    for kernel in _core.kernels():
        engine = background_engine(ensemble, background, kernel=kernel, scan_only=True)
        assert_equal(values(engine, rows)[:1], expected, ensemble, kernel)


def comb(features: npt.NDArray[np.int64]) -> TreeEnsemble:
    """A chain over all features but the last; each of its leaves is a split on the next feature."""
    path = chain(features[:-1].tolist())
    left, right, feature = path.left.copy(), path.right.copy(), path.feature.copy()
    teeth = np.arange(1, len(left), 2)
    left[teeth] = len(left) + 2 * np.arange(len(teeth))
    right[teeth], feature[teeth] = left[teeth] + 1, features[1:]
    n_new = 2 * len(teeth)
    none = np.full(n_new, -1)
    return replace(
        path,
        tree_offsets=np.array([0, len(left) + n_new]),
        left=np.concatenate([left, none]),
        right=np.concatenate([right, none]),
        feature=np.concatenate([feature, none]),
        threshold=np.zeros(len(left) + n_new),
        missing_left=np.zeros(len(left) + n_new, dtype=bool),
        category_set=np.full(len(left) + n_new, -1),
        cover=np.concatenate([path.cover, np.repeat(path.cover[teeth] / 2, 2)]),
        value=np.concatenate([path.value, np.arange(1.0, n_new + 1)[:, None]]),
        row_format=RowFormat(n_features=len(features)),
    )


def test_tables_and_scan_agree_on_blocks_of_rows() -> None:
    """More rows and background rows than a block of 64 holds, of every remainder that matters."""
    rng = np.random.default_rng(3)
    for n_rows, n_background in ((1, 200), (65, 64), (130, 65), (200, 1), (64, 1100), (1100, 70)):
        ensemble = random_ensemble(rng, n_features=9, max_depth=9, max_leaves=80, n_outputs=2)
        background = Background(rows_as_read(rng, ensemble, n_background), rng.random(n_background))
        rows = rows_as_read(rng, ensemble, n_rows)
        tables, scan = (
            values(background_engine(ensemble, background, scan_only=scan_only), rows)
            for scan_only in (False, True)
        )
        assert_equal(tables, scan, ensemble, f"({n_rows} rows, {n_background} background rows)")


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("scan_only", [False, True], ids=["tables", "scan"])
def test_pairs_equal_the_definition(setting: str, scan_only: bool) -> None:
    """Interaction values as shap lays them out, of columns and of groups, with and without weights."""
    rng = np.random.default_rng(sum(map(ord, setting)) + 1)
    for case in range(8):
        ensemble = random_ensemble(rng, **SETTINGS[setting])
        rows, weights = rows_as_read(rng, ensemble, 2), rng.random(4) if case % 2 else None
        background = Background(rows_as_read(rng, ensemble, 4), weights)
        of_column = np.arange(ensemble.n_features, dtype=np.int32) // (1 if case % 4 < 2 else 2)
        names = tuple(map(str, range(int(of_column[-1]) + 1)))
        players = Players(of_column, names, tuple(map(str, range(ensemble.n_features))))
        engine = background_engine(ensemble, background, players=players, scan_only=scan_only)
        out = np.empty((len(rows), engine.n_players, engine.n_players, engine.n_outputs))
        engine.pairs(rows, out, n_jobs=1)
        options: dict[str, Any] = {
            "background": background.rows,
            "background_weights": None if weights is None else weights.tolist(),
            "players": of_column.tolist(),
            "by": "leaves",
        }
        expected = [oracle.as_float(oracle.interaction_values(ensemble, row, **options)) for row in rows]
        assert_equal(out, np.array(expected), ensemble, f"(case {case})")


@pytest.mark.parametrize("n_players", [9, 33, 40])
def test_pairs_of_long_paths_equal_the_definition(n_players: int) -> None:
    rng = np.random.default_rng(n_players)
    ensemble = chain(rng.permutation(n_players).tolist())
    rows, background = (np.where(rng.random((n, n_players)) < 2 / n_players, 1.0, -1.0) for n in (2, 3))
    engine = background_engine(ensemble, Background(background, None))
    out = np.empty((2, n_players, n_players, 1))
    engine.pairs(rows, out)
    values_by_definition = [
        oracle.as_float(oracle.interaction_values(ensemble, row, background=background, by="leaves"))
        for row in rows
    ]
    assert_equal(out, np.array(values_by_definition), ensemble)


# -- the background ------------------------------------------------------------------------------------


def test_values_add_up_to_the_difference_from_the_mean_prediction() -> None:
    rng = np.random.default_rng(8)
    ensemble = random_ensemble(rng, n_features=8, n_trees=20, max_depth=8, max_leaves=100, n_outputs=2)
    rows, background = (
        rows_as_read(rng, ensemble, 50),
        Background(rows_as_read(rng, ensemble, 300), rng.random(300)),
    )
    engine = background_engine(ensemble, background)
    mean = np.average(ensemble.predict(background.rows), axis=0, weights=background.weights)
    np.testing.assert_allclose(engine.base_values(), mean, rtol=1e-12)
    sums = values(engine, rows).sum(axis=1) + engine.base_values()
    np.testing.assert_allclose(
        sums, ensemble.predict(rows), rtol=0, atol=1e-12 * np.abs(ensemble.value).sum()
    )


@pytest.mark.parametrize("max_depth", [5, 14])
def test_a_weight_of_two_is_a_row_twice(max_depth: int) -> None:
    rng = np.random.default_rng(9)
    ensemble = random_ensemble(rng, n_features=15, n_trees=5, max_depth=max_depth, max_leaves=60)
    rows, background = rows_as_read(rng, ensemble, 20), rows_as_read(rng, ensemble, 7)
    counts = np.array([2, 1, 0, 3, 1, 1, 4])
    weighted = background_engine(ensemble, Background(background, counts * 0.25))
    repeated = background_engine(ensemble, Background(np.repeat(background, counts, axis=0), None))
    assert_equal(values(weighted, rows), values(repeated, rows), ensemble)


def test_a_row_beside_itself_has_no_values() -> None:
    """Exactly zero, not nearly: counts are whole numbers."""
    rng = np.random.default_rng(10)
    ensemble = random_ensemble(rng, n_features=12, n_trees=5, max_depth=12, max_leaves=60)
    row = rows_as_read(rng, ensemble, 1)
    assert not values(background_engine(ensemble, Background(row, None)), row).any()


def test_unused_features_have_exactly_no_value() -> None:
    rng = np.random.default_rng(11)
    ensemble = random_ensemble(rng, n_features=6, n_trees=3)
    rows, background = rows_as_read(rng, ensemble, 30), rows_as_read(rng, ensemble, 40)
    background[:, 2] = rows[:, 2] = 0.5  # and so has a feature that never differs
    assert not values(background_engine(ensemble, Background(background, None)), rows)[:, 2].any()


# -- promises ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[6, 20], ids=["tables", "scan"])
def engine_and_rows(request: pytest.FixtureRequest) -> tuple[BackgroundEngine, Rows]:
    rng = np.random.default_rng(1)
    ensemble = random_ensemble(
        rng, n_features=20, n_trees=150, max_depth=request.param, max_leaves=90, n_outputs=2
    )
    background = Background(rows_as_read(rng, ensemble, 100), rng.random(100))
    return background_engine(ensemble, background), rows_as_read(rng, ensemble, 700)


def test_bits_do_not_depend_on_threads_that_read_the_background(
    engine_and_rows: tuple[BackgroundEngine, Rows],
) -> None:
    engine, rows = engine_and_rows
    again = background_engine(engine.program.ensemble, engine.background, n_jobs=3)
    assert values(again, rows[:50]).tobytes() == values(engine, rows[:50]).tobytes()


@pytest.mark.parametrize("n_features", [10, 40])
def test_bits_do_not_depend_on_how_many_kinds_of_rows_there_are(n_features: int) -> None:
    """Few rows before a bottom are paid one by one, many together; of few features, players repeat in it."""
    rng = np.random.default_rng(n_features)
    ensemble = random_ensemble(rng, n_features=n_features, n_trees=3, max_depth=12, max_leaves=300)
    background = Background(rows_as_read(rng, ensemble, 90), rng.random(90))
    rows = rows_as_read(rng, ensemble, 600)
    for kernel in _core.kernels():
        engine = background_engine(ensemble, background, kernel=kernel, scan_only=True)
        in_pieces = [values(engine, rows[first : first + 7]) for first in range(0, 70, 7)]
        np.testing.assert_array_equal(values(engine, rows)[:70], np.concatenate(in_pieces))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_stumps_have_no_pairs(dtype: str) -> None:
    """In so many trees and so few rows, threads share trees; there is nothing to divide among them."""
    stumps = copies(chain([0]), 5000)
    feature = np.where(stumps.left >= 0, np.arange(len(stumps.left)) // 3 % 20, -1)
    ensemble = replace(stumps, feature=feature, row_format=RowFormat(n_features=20))
    rows = np.random.default_rng(0).normal(size=(64, 20))
    explainer = TreeExplainer(ensemble, rows[:30], n_jobs=2)
    pairs = explainer.shap_interaction_values(rows, dtype=dtype)
    single = explainer.shap_values(rows, dtype=dtype)
    np.testing.assert_array_equal(pairs, single[:, :, None] * np.eye(20, dtype=dtype))
    of_pairs = _core.BackgroundEngine(
        Program(ensemble).compiled,
        rows,
        np.empty(0),
        scan_only=False,
        of_pairs=True,
        n_threads=2,
        progress=None,
    )
    nothing = np.empty((64, 0, 1), dtype=dtype)
    of_pairs.explain(rows, nothing, row_pair_weights=None, n_threads=2, progress=None)
