"""Interactions of every order against the definition in exact fractions, and what else is promised."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from engines import set_engine, value_engine
from interrupts import interrupt
from set_indices import SHARE, by_moebius, moebius_of
from settings import assert_equal, settings
from strategies import chain, random_ensemble, random_rows, rows_as_read

from linear_treeshap import TreeExplainer, _core, oracle
from linear_treeshap.engines.indices import SHAPLEY, Faithful, Index, index_of
from linear_treeshap.engines.sets import KINDS, interaction_kind
from linear_treeshap.engines.values import ValueEngine
from linear_treeshap.errors import InputError
from linear_treeshap.model.ensemble import TreeEnsemble
from linear_treeshap.players.players import Players

Float64 = npt.NDArray[np.float64]
Exact = dict[tuple[int, ...], npt.NDArray[np.object_]]
Weight = Callable[[int, int], Fraction]

KERNELS = _core.kernels()
N_FEATURES = 6

SETTINGS = settings(
    "plain", "float32", "two features", "zero cover", "stumps", "deep", "several outputs", "vector leaves"
)


def case(rng: np.random.Generator, n_rows: int = 3, **options: Any) -> tuple[TreeEnsemble, npt.NDArray[Any]]:
    ensemble = random_ensemble(rng, **{"n_features": N_FEATURES, **options})
    return ensemble, rows_as_read(rng, ensemble, n_rows)


def by_set(
    ensemble: TreeEnsemble,
    rows: npt.NDArray[Any],
    kind: str | None,
    order: int,
    *,
    index: Index = SHAPLEY,
    **options: Any,
) -> list[dict[tuple[int, ...], Float64]]:
    """For each row, set → (n_outputs,) by the engine."""
    engine = set_engine(ensemble, kind, order, index, **options)
    out = np.empty((len(rows), len(engine.sets), ensemble.n_outputs))
    engine.values(rows, out, n_jobs=1)
    return [dict(zip(engine.sets, row, strict=True)) for row in out]


def assert_equal_sets(found: dict[tuple[int, ...], Float64], exact: Exact, ensemble: TreeEnsemble) -> None:
    """A set that one of them does not know is zero."""
    for members in {*found, *exact}:
        expected = oracle.as_float(exact[members]) if members in exact else np.zeros(1)
        assert_equal(found.get(members, np.zeros(1)), expected, ensemble, str(members))


def all_orders(ensemble: TreeEnsemble, x: Any, order: int, weight: Weight, **options: Any) -> Exact:
    exact: Exact = {}
    for size in range(1, order + 1):
        exact.update(oracle.interaction_index(ensemble, x, size, weight=weight, by="leaves", **options))
    return exact


@pytest.mark.parametrize("setting", SETTINGS)
def test_orders_one_to_four_equal_the_definition(setting: str) -> None:
    """Random trees, rows on and around thresholds, missing values, infinities, unknown categories."""
    rng = np.random.default_rng(sum(map(ord, setting)))
    for number in range(12):
        ensemble, rows = case(rng, **SETTINGS[setting])
        exact = [all_orders(ensemble, x, 4, oracle.shapley_weight) for x in rows]
        for kernel in KERNELS if number < 4 else KERNELS[:1]:
            found = by_set(ensemble, rows, "SII", 4, kernel=kernel)
            for f, e in zip(found, exact, strict=True):
                assert_equal_sets(f, e, ensemble)


BANZHAF: Weight = lambda k, n: Fraction(1, 2**n)  # noqa: E731
FIRST: Weight = lambda k, n: Fraction(int(k == 0))  # noqa: E731
LAST: Weight = lambda k, n: Fraction(int(k == n))  # noqa: E731


@pytest.mark.parametrize(
    ("index", "weight"),
    [
        ("banzhaf", BANZHAF),
        (("weighted_banzhaf", 0.0), FIRST),
        (("weighted_banzhaf", 1.0), LAST),
        (("beta", 2, 1), lambda k, n: Fraction(2, (n + 1) * (n + 2)) * (n + 1 - k) / comb(n, k)),
        (("sizes", [oracle.shapley_weight(k, 5) for k in range(6)]), oracle.shapley_weight),
    ],
)
def test_every_index_has_interactions(index: Any, weight: Weight) -> None:
    rng = np.random.default_rng(1)
    for zero_cover in (False, True):
        for _ in range(4):
            ensemble, rows = case(rng, zero_cover=zero_cover, max_depth=6)
            found = by_set(ensemble, rows, None, 4, index=index_of(index, N_FEATURES))
            for f, x in zip(found, rows, strict=True):
                assert_equal_sets(f, all_orders(ensemble, x, 4, weight), ensemble)


def test_banzhaf_by_its_name() -> None:
    ensemble, rows = case(np.random.default_rng(2))
    for f, x in zip(by_set(ensemble, rows, "BII", 3), rows, strict=True):
        assert_equal_sets(f, all_orders(ensemble, x, 3, BANZHAF), ensemble)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_shapley_taylor(order: int) -> None:
    """Below the highest order what a set adds to nobody; at the highest the mean over orders of arrival.

    Its weight is ``k/n · 1/C(n-1, size)`` among n players. All sets add up to the prediction.
    """
    rng = np.random.default_rng(order)
    for _ in range(6):
        ensemble, rows = case(rng, max_depth=6)

        def top(size: int, others: int) -> Fraction:
            n = others + order
            return Fraction(order, n) / comb(n - 1, size)

        for f, x in zip(by_set(ensemble, rows, "STII", order), rows, strict=True):
            exact = oracle.interaction_index(ensemble, x, order, weight=top, by="leaves")
            for size in range(1, order):
                exact.update(oracle.interaction_index(ensemble, x, size, weight=FIRST, by="leaves"))
            assert_equal_sets(f, exact, ensemble)
            total = ensemble.expected_value + sum(f.values())
            np.testing.assert_allclose(total, ensemble.predict(x[None])[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_k_sii_is_sii_with_larger_sets_taken_off(order: int) -> None:
    """Each set S keeps SII(S) + Σ B_r · SII(S ∪ R) over the sets R of r others, B being Bernoulli's."""
    bernoulli = [Fraction(1), Fraction(-1, 2), Fraction(1, 6), Fraction(0)]
    rng = np.random.default_rng(order)
    for _ in range(6):
        ensemble, rows = case(rng, max_depth=6, n_outputs=2, vector_leaves=True)
        for f, x in zip(by_set(ensemble, rows, "k-SII", order), rows, strict=True):
            sii = all_orders(ensemble, x, order, oracle.shapley_weight)
            exact = {members: value.copy() for members, value in sii.items()}
            for larger, value in sii.items():
                for size in range(1, len(larger)):
                    for members in combinations(larger, size):
                        exact[members] = exact[members] + bernoulli[len(larger) - size] * value
            assert_equal_sets(f, exact, ensemble)
            total = ensemble.expected_value + sum(f.values())
            np.testing.assert_allclose(total, ensemble.predict(x[None])[0], rtol=0, atol=1e-12)


@cache
def cases_with_moebius(seed: int) -> list[tuple[TreeEnsemble, npt.NDArray[Any], list[Exact]]]:
    """With the coefficients of every row, which are the same for all indices."""
    rng, found = np.random.default_rng(seed), []
    for zero_cover in (False, False, True):
        ensemble, rows = case(rng, max_depth=7, n_outputs=2, vector_leaves=True, zero_cover=zero_cover)
        found.append((ensemble, rows, [moebius_of(ensemble, x) for x in rows]))
    return found


@pytest.mark.parametrize("order", [1, 2, 3, 4, N_FEATURES])
@pytest.mark.parametrize("kind", KINDS)
def test_indices_by_their_moebius_coefficients(kind: str, order: int) -> None:
    """Each as a sum over the coefficients of larger sets, in fractions."""
    for ensemble, rows, coefficients in cases_with_moebius(order):
        for f, moebius in zip(by_set(ensemble, rows, kind, order), coefficients, strict=True):
            assert_equal_sets(f, by_moebius(moebius, kind, order), ensemble)


@pytest.mark.parametrize(("kind", "weights"), [("FSII", "shapley"), ("FBII", "banzhaf")])
def test_faithful_indices_are_the_best_approximation(kind: str, weights: str) -> None:
    """Least squares over all coalitions. Shapley's weights are infinite for nobody and for everybody, where
    the approximation has to be exact: here they are 1e7 times the largest of the others."""
    ensemble, rows = case(np.random.default_rng(8), n_rows=1, max_depth=6)
    order, n = 2, N_FEATURES
    coalitions = [set(c) for size in range(n + 1) for c in combinations(range(n), size)]
    game = [oracle.as_float(oracle.coalition_value(ensemble, rows[0], c))[0] for c in coalitions]
    sets = [set(c) for size in range(order + 1) for c in combinations(range(n), size)]
    contains = np.array([[float(s <= c) for s in sets] for c in coalitions])
    weight = np.ones(len(coalitions))
    if weights == "shapley":
        inner = [len(c) for c in coalitions[1:-1]]
        weight[1:-1] = [1 / (comb(n - 2, k - 1) * (n - 1)) for k in inner]
        weight[[0, -1]] = 1e7
    root = np.sqrt(weight)
    best = np.linalg.lstsq(contains * root[:, None], np.array(game) * root, rcond=None)[0]
    found = by_set(ensemble, rows, kind, order)[0]
    for members, value in zip(sets[1:], best[1:], strict=True):
        # Weights of 1e7 instead of infinity are off by 1e-7.
        assert abs(found.get(tuple(sorted(members)), np.zeros(1))[0] - value) <= 1e-5


@pytest.mark.parametrize("order", [1, 2, 5, 16])
def test_faithful_rules_on_long_paths(order: int) -> None:
    """Every moment that a path of 60 players asks for; terms that cancel are added in fractions, so that
    digits are lost only as far as the absolute weights add up to more than one: three, of sets of 16."""
    for size in range(1, order + 1):
        t, _, weight = Faithful(size, order).rule(60)
        for more in range(60 - size + 1):
            expected = float(SHARE["FSII"](order, size, size + more))
            assert abs(weight @ t**more - expected) <= 1e-14 * np.abs(weight).sum()
        assert np.abs(weight).sum() <= 500


def test_synonyms() -> None:
    ensemble, _ = case(np.random.default_rng(2))
    assert interaction_kind("SV", SHAPLEY, 1) == interaction_kind("sii", SHAPLEY, 2) == "SII"
    assert interaction_kind("BV", SHAPLEY, 1) == "BII"
    assert interaction_kind("Möbius", SHAPLEY, 3) == interaction_kind("moebius", SHAPLEY, 3) == "Moebius"
    assert interaction_kind("n-SII", SHAPLEY, 3) == "k-SII"
    with pytest.raises(InputError, match="'SV' is an index of single features: ask for order=1"):
        TreeExplainer(ensemble).interactions(np.zeros((1, N_FEATURES)), index="SV")  # type: ignore[arg-type]
    for unknown in ("JointSV", ["SII"], 3):
        with pytest.raises(InputError, match="index must be one of 'k-SII', 'SII'"):
            interaction_kind(unknown, SHAPLEY, 2)


def test_players_are_groups_of_columns() -> None:
    rng = np.random.default_rng(3)
    players = Players(np.array([0, 1, 0, 2, 1, 3], dtype=np.int32), tuple("abcd"), tuple("uvwxyz"))
    for _ in range(6):
        ensemble, rows = case(rng, max_depth=7)
        found = by_set(ensemble, rows, "SII", 4, players=players)
        for f, x in zip(found, rows, strict=True):
            exact = all_orders(ensemble, x, 4, oracle.shapley_weight, players=players.of_column.tolist())
            assert_equal_sets(f, exact, ensemble)


def dense(ensemble: TreeEnsemble, rows: npt.NDArray[Any], dtype: Any = np.float64, **options: Any) -> Any:
    out = np.full(
        (len(rows), ensemble.n_features, ensemble.n_features, ensemble.n_outputs), np.nan, dtype=dtype
    )
    value_engine(ensemble).pairs(rows, out, **options)
    return out


@pytest.mark.parametrize("setting", ["plain", "vector leaves", "several outputs"])
def test_matrices_equal_the_definition(setting: str) -> None:
    rng = np.random.default_rng(4)
    for _ in range(6):
        ensemble, rows = case(rng, **SETTINGS[setting])
        expected = [oracle.as_float(oracle.interaction_values(ensemble, x, by="leaves")) for x in rows]
        error = np.abs(dense(ensemble, rows) - np.array(expected)).max()
        assert error <= 1e-12 * np.abs(ensemble.value).max()


@pytest.fixture(scope="module")
def forest() -> TreeEnsemble:
    return random_ensemble(
        np.random.default_rng(5), n_features=25, n_trees=150, max_depth=9, max_leaves=70, n_outputs=2
    )


@pytest.fixture(scope="module")
def many_rows(forest: TreeEnsemble) -> Float64:
    return random_rows(np.random.default_rng(6), forest, 400)


def sparse(
    engine: ValueEngine, rows: npt.NDArray[Any], order: int = 2, n_jobs: int = 1, dtype: Any = np.float64
) -> Any:
    sets = engine.sets("k-SII", order)
    out = np.full((len(rows), len(sets.sets), engine.n_outputs), np.nan, dtype=dtype)
    sets.values(rows, out, n_jobs=n_jobs)
    return out


def test_matrices_are_symmetric_and_add_up_to_the_values(forest: TreeEnsemble, many_rows: Float64) -> None:
    found = dense(forest, many_rows)
    assert (found == found.transpose(0, 2, 1, 3)).all()
    values = np.empty((len(many_rows), forest.n_features, forest.n_outputs))
    value_engine(forest).values(many_rows, values)
    # Sums over 150 trees in another order.
    np.testing.assert_allclose(found.sum(axis=2), values, rtol=0, atol=1e-12)


def test_matrices_have_the_bits_of_sets() -> None:
    rng = np.random.default_rng(8)
    large = random_ensemble(rng, n_features=12, n_trees=60, max_depth=30, max_leaves=900)
    rows = random_rows(rng, large, 40)
    together = sparse(value_engine(large), rows)
    matrices = dense(large, rows)[..., 0]
    sets = set_engine(large, "k-SII", 2).sets
    for place, members in enumerate(sets):
        i, j = members[0], members[-1]
        np.testing.assert_array_equal(matrices[:, i, j], together[:, place, 0] / len(members))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("share", [1e-3, 1e-9])
@pytest.mark.parametrize("features", [[0, 1, 2], [0, 1, 0, 2, 1, 0]])
def test_digits_stay_where_rare_leaves_are_huge(features: list[int], share: float, kernel: str) -> None:
    """Leaves as huge as rare, below players that repeat or do not."""
    tree = chain(features, share=share)
    rare = dataclasses.replace(tree, value=tree.value / np.maximum(tree.reach, 1e-30)[:, None])
    rows = np.array(list(product([-1.0, 1.0], repeat=3)))
    expected = np.array([oracle.as_float(oracle.interaction_values(rare, row)) for row in rows])
    rows, expected = np.tile(rows, (9, 1)), np.tile(expected, (9, 1, 1, 1))
    for n_rows in (1, 10, len(rows)):
        found = np.empty((n_rows, 3, 3, 1))
        value_engine(rare, kernel=kernel).pairs(rows[:n_rows], found)
        scale = np.abs(expected[:n_rows]).max(axis=(1, 2, 3), keepdims=True)
        assert (np.abs(found - expected[:n_rows]) <= 1e-13 * scale).all()


def test_kernels_agree(forest: TreeEnsemble, many_rows: Float64) -> None:
    answers = [sparse(value_engine(forest, kernel=kernel), many_rows, 3) for kernel in KERNELS]
    for answer in answers[1:]:
        np.testing.assert_allclose(answer, answers[0], rtol=0, atol=1e-12)


def test_sums_over_rows(forest: TreeEnsemble, many_rows: Float64) -> None:
    """Any number of threads gives the same bits, and the sums are those of the values."""
    engine = set_engine(forest, "k-SII", 2)
    values = sparse(value_engine(forest), many_rows)
    sums = []
    for n_jobs in (1, 4):
        total, total_abs = np.zeros((2, len(engine.sets), forest.n_outputs))
        engine.add_up(many_rows, total, total_abs, n_jobs=n_jobs)
        np.testing.assert_allclose(total, values.sum(axis=0), rtol=0, atol=1e-10)
        np.testing.assert_allclose(total_abs, np.abs(values).sum(axis=0), rtol=0, atol=1e-10)
        sums.append(total_abs.tobytes())
    assert sums[0] == sums[1]


def test_models_without_splits_have_no_sets() -> None:
    leaf = chain([])
    assert set_engine(leaf, "SII", 3).sets == ()
    assert dense(leaf, np.empty((5, 0))).shape == (5, 0, 0, 1)


def test_long_paths() -> None:
    """The pairs of 60 players on one path are as many as there can be; each row adds up."""
    rng = np.random.default_rng(9)
    ensemble = chain(rng.permutation(60).tolist(), share=0.9)
    rows = np.where(rng.random((20, 60)) < 0.95, -1.0, 1.0)
    assert len(set_engine(ensemble, "SII", 2).sets) == 60 + comb(60, 2)
    values = np.empty((20, 60, 1))
    value_engine(ensemble).values(rows, values)
    np.testing.assert_allclose(dense(ensemble, rows).sum(axis=2), values, rtol=0, atol=1e-13)


def test_too_many_sets_are_refused() -> None:
    with pytest.raises(InputError, match="Ask for a lower order"):
        set_engine(chain(list(range(100))), "SII", 8)


@pytest.mark.parametrize("order", [0, 17, 2.0, True, "2", None])
def test_an_order_that_is_none_is_refused(order: Any) -> None:
    with pytest.raises(InputError, match="order must be a whole number from 1 to 16"):
        set_engine(chain([0, 1]), "SII", order)


MANY_ROWS = """
from strategies import random_ensemble
from engines import set_engine
ensemble = random_ensemble(np.random.default_rng(0), n_features=12, n_trees=200, max_depth=10, max_leaves=100)
engine = set_engine(ensemble, "SII", 3)
rows, sums = np.zeros((1_000_000, 12)), np.zeros((2, len(engine.sets), 1))
"""


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_interrupts_within_a_second(n_jobs: int) -> None:
    interrupt(MANY_ROWS, f"engine.add_up(rows, sums[0], sums[1], n_jobs={n_jobs})")


def test_progress_reaches_one(forest: TreeEnsemble, many_rows: Float64) -> None:
    """Both parts of Shapley-Taylor are shares of one whole."""
    engine = set_engine(forest, "STII", 3)
    out = np.empty((len(many_rows), len(engine.sets), forest.n_outputs))
    shares: list[float] = []
    engine.values(many_rows, out, n_jobs=1, progress=shares.append)
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)
