"""Rounding: in every kernel, values and interactions err by at most 1e-13 of the sum of their absolute leaf
contributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import extended
import numpy as np
import numpy.typing as npt
import pytest
from engines import value_engine
from strategies import chain, copies, random_ensemble, random_rows

from linear_treeshap import TreeExplainer, _core, oracle
from linear_treeshap.engines.program import KERNEL_VARIABLE
from linear_treeshap.model.ensemble import TreeEnsemble
from linear_treeshap.players.players import Players

Float64 = npt.NDArray[np.float64]

KERNELS = _core.kernels()
BOUND = 1e-13

KINDS = ["asked once", "asked twice", "pairs of columns"]
SHARES = [1e-6, 0.5, 0.9, 0.9, 1 - 1e-6]  # of the cover, that go on along a path

#: Rows that are judged, of as many as fill several vectors.
N_JUDGED, N_ROWS = 3, 40


def explain(
    ensemble: TreeEnsemble, rows: Float64, kernel: str, players: Sequence[int] | None = None
) -> Float64:
    names = tuple(map(str, range(ensemble.n_features)))
    grouped = (
        None
        if players is None
        else Players(np.array(players, dtype=np.int32), names[: max(players) + 1], names)
    )
    engine = value_engine(ensemble, players=grouped, kernel=kernel)
    out = np.empty((len(rows), engine.n_players, engine.n_outputs))
    engine.values(np.ascontiguousarray(rows, dtype=ensemble.row_format.numpy_dtype), out, n_jobs=1)
    return out


def assert_close(
    ensemble: TreeEnsemble, rows: Float64, players: Sequence[int] | None, reference: extended.Reference
) -> None:
    """Among many rows, and each judged row alone: that is a kernel of its own."""
    assert reference.scale.max() > 0
    for kernel in KERNELS:
        among = explain(ensemble, rows, kernel, players)[:N_JUDGED]
        alone = np.concatenate([explain(ensemble, row[None], kernel, players) for row in rows[:N_JUDGED]])
        for found in (among, alone):
            excess = np.abs(found - reference.values) - BOUND * reference.scale
            assert (excess <= 0).all(), f"{kernel}: beyond the bound by {float(np.max(excess)):.1e}"


def rows_along(ensemble: TreeEnsemble, seed: int) -> Float64:
    """One row to the end of a chain, others that leave it here and there."""
    rng = np.random.default_rng(seed)
    rows = np.where(rng.random((N_ROWS, ensemble.n_features)) < 0.97, -1.0, 1.0)
    rows[0] = -1.0
    return rows


@pytest.mark.parametrize("kind", ["each its own player", "groups of columns"])
def test_the_judge_agrees_with_exact_fractions(kind: str) -> None:
    """To the one rounding that fractions suffer on their way to a float64."""
    rng = np.random.default_rng(2)
    rounding = 2.0**-53 + 100 * float(np.finfo(np.longdouble).eps)
    for case in range(20):
        ensemble = random_ensemble(
            rng, n_features=6, max_depth=8, n_outputs=2, vector_leaves=case % 2 == 0, zero_cover=case % 3 == 0
        )
        players = None if kind == "each its own player" else [0, 1, 0, 2, 1, 2]
        rows = random_rows(rng, ensemble, 2)
        found = extended.shapley_values(ensemble, rows, players)
        for row, values, scale in zip(rows, *found, strict=True):
            exact = oracle.as_float(oracle.shapley_values(ensemble, row, players=players, by="leaves"))
            assert (np.abs(values - exact) <= rounding * scale).all()


def path(n_players: int, kind: str) -> tuple[TreeEnsemble, list[int] | None]:
    """One long path that meets ``n_players`` players, and the players of its columns."""
    rng = np.random.default_rng(n_players)
    n_columns = 2 * n_players if kind == "pairs of columns" else n_players
    n_edges = n_players if kind == "asked once" else 2 * n_players
    features = rng.permutation(np.arange(n_edges) % n_columns)
    ensemble = chain(features.tolist(), share=rng.choice(SHARES, size=n_edges).tolist())
    return ensemble, (np.arange(n_columns) // 2).tolist() if kind == "pairs of columns" else None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_players", [1, 2, 8, 16, 24, 32, 48, 64, 100, 200])
def test_long_paths(n_players: int, kind: str) -> None:
    """Also where features repeat, and where players are pairs of columns."""
    ensemble, players = path(n_players, kind)
    rows = rows_along(ensemble, seed=n_players)
    reference = extended.shapley_values(ensemble, rows[:N_JUDGED], players)
    assert_close(ensemble, rows, players, reference)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_trees", [1, 1000])
def test_errors_do_not_grow_with_the_number_of_trees(n_trees: int, kind: str) -> None:
    """Each errs in the same direction, because all are the same tree."""
    one, players = path(8, kind)
    rows = rows_along(one, seed=n_trees)
    reference = extended.shapley_values(one, rows[:N_JUDGED], players)
    expected = extended.Reference(n_trees * reference.values, n_trees * reference.scale)
    assert_close(copies(one, n_trees), rows, players, expected)


SETTINGS: dict[str, dict[str, Any]] = {
    "numbers": {"categorical": False},
    "a thousand trees": {"n_trees": 1000, "max_depth": 4},
    "float32": {"dtype": "float32"},
    "no cover": {"zero_cover": True},
    "an output per tree": {"n_outputs": 5},
    "17 outputs per leaf": {"n_outputs": 17, "vector_leaves": True},
    "few features": {"n_features": 2, "max_leaves": 60},
    "deep": {"n_features": 40, "max_depth": 60, "max_leaves": 200, "n_trees": 2, "zero_cover": True},
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_uneven_covers(setting: str) -> None:
    """Where nearly all of the cover goes one way a value is small, and no digit of it is lost."""
    rng = np.random.default_rng(3)
    for _ in range(3):
        ensemble = random_ensemble(
            rng, **{"n_features": 8, "n_trees": 8, "max_depth": 8, **SETTINGS[setting]}
        )
        with np.errstate(over="ignore"):  # beyond float32 is infinity
            rows = random_rows(rng, ensemble, N_ROWS).astype(ensemble.row_format.numpy_dtype)
        reference = extended.shapley_values(ensemble, rows[:N_JUDGED])
        assert_close(ensemble, rows, None, reference)


@pytest.mark.parametrize("shape", ["bush", "with a long trunk", "two outputs"])
def test_trees_so_large_that_they_are_cut(shape: str) -> None:
    """A tree of over 8,192 leaves is compiled as several that share its leaves."""
    rng = np.random.default_rng(5)
    outputs = 2 if shape == "two outputs" else 1
    ensemble = random_ensemble(
        rng,
        n_features=12,
        n_trees=3,
        max_depth=400 if shape == "with a long trunk" else 30,
        max_leaves=20_000,
        n_outputs=outputs,
        vector_leaves=True,
    )
    assert (
        np.bincount(np.searchsorted(ensemble.tree_offsets, np.flatnonzero(ensemble.left < 0), "right")).max()
        > 8192
    )
    rows = random_rows(rng, ensemble, N_ROWS)
    assert_close(ensemble, rows, None, extended.shapley_values(ensemble, rows[:N_JUDGED], None))


# -- interactions --------------------------------------------------------------------------------------


def assert_sets_close(
    ensemble: TreeEnsemble, rows: Float64, order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sets of up to so many players; among many rows, and each judged row alone."""
    reference = None
    for kernel in KERNELS:
        monkeypatch.setenv(KERNEL_VARIABLE, kernel)
        explainer = TreeExplainer(ensemble, n_jobs=1)
        found = explainer.interactions(rows, order, index="SII")
        if reference is None:
            reference = extended.interactions(ensemble, rows[:N_JUDGED], found.sets)
            assert reference.scale.max() > 0
        alone = [explainer.interactions(row[None], order, index="SII").values for row in rows[:N_JUDGED]]
        for values in (found.values[:N_JUDGED], np.concatenate(alone)):
            excess = (
                np.abs(values.reshape(reference.values.shape) - reference.values) - BOUND * reference.scale
            )
            assert (excess <= 0).all(), f"{kernel}: beyond the bound by {float(np.max(excess)):.1e}"


@pytest.mark.parametrize("kind", ["asked once", "asked twice"])
@pytest.mark.parametrize(("n_players", "order"), [(2, 2), (8, 2), (8, 3), (12, 3), (24, 2), (32, 2)])
def test_pairs_and_threes_on_long_paths(
    n_players: int, order: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensemble, _ = path(n_players, kind)
    assert_sets_close(ensemble, rows_along(ensemble, seed=n_players), order, monkeypatch)


@pytest.mark.parametrize("setting", [name for name in SETTINGS if name not in ("a thousand trees", "deep")])
def test_pairs_and_threes_with_uneven_covers(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    options = {"n_features": 8, "n_trees": 4, "max_depth": 8, **SETTINGS[setting]}
    ensemble = random_ensemble(rng, **options)
    with np.errstate(over="ignore"):  # beyond float32 is infinity
        rows = random_rows(rng, ensemble, N_ROWS).astype(ensemble.row_format.numpy_dtype)
    assert_sets_close(ensemble, rows, 3, monkeypatch)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("cover", [1e6, 3e9, 3e12, 3e15])
@pytest.mark.parametrize("features", [[0, 1], [0, 1, 0, 1, 2]])
def test_pairs_keep_their_own_digits_where_nearly_all_rows_go_one_way(
    features: list[int], cover: float, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row of the training data leaves the path at each split, so 1 - c may be a billionth; its digits all
    come from the covers."""
    monkeypatch.setenv(KERNEL_VARIABLE, kernel)
    depth = len(features)
    covers = np.ones(2 * depth + 1)
    covers[::2] = cover - np.arange(depth + 1)
    ensemble = replace(chain(features), cover=covers)
    rows = np.where(np.random.default_rng(0).random((N_ROWS, ensemble.n_features)) < 0.5, -1.0, 1.0)
    rows[0] = -1.0
    found = TreeExplainer(ensemble, n_jobs=1).interactions(rows, 3, index="SII")
    expected = extended.interactions(ensemble, rows, found.sets)
    values, scale = expected.values[..., 0], expected.scale[..., 0]
    error = np.abs(found.values - values)
    assert (error <= BOUND * scale).all()
    # On the path itself nothing cancels in a pair: it is held to its own size.
    pairs = [len(players) > 1 for players in found.sets]
    assert (error[0, pairs] <= BOUND * np.abs(values[0, pairs])).all()
