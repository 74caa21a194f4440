"""Every index against its definition in exact fractions: the mean over coalitions, with its weights."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import comb, factorial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from engines import value_engine
from settings import assert_equal, settings
from strategies import chain, random_ensemble, random_rows, rows_as_read

from linear_treeshap import InputError, TreeExplainer, global_interactions, kernels, oracle
from linear_treeshap.engines.indices import Beta, index_of
from linear_treeshap.model.ensemble import TreeEnsemble

Float64 = npt.NDArray[np.float64]
Weight = Callable[[int, int], Fraction]

N_FEATURES = 7


def beta_function(a: int, b: int) -> Fraction:
    return Fraction(factorial(a - 1) * factorial(b - 1), factorial(a + b - 1))


def beta_weight(alpha: int, beta: int) -> Weight:
    return lambda k, n: beta_function(k + beta, n - k + alpha) / beta_function(alpha, beta)


def atoms_weight(points: list[float], weights: list[float]) -> Weight:
    atoms = [(Fraction(t), Fraction(w)) for t, w in zip(points, weights, strict=True)]
    return lambda k, n: sum((w * t**k * (1 - t) ** (n - k) for t, w in atoms), Fraction(0))


def sizes_weight(weights: list[Fraction]) -> Weight:
    """The weights that those of all players leave for fewer: one more player is either in or out."""
    n_all = len(weights) - 1
    return lambda k, n: sum(
        (comb(n_all - n, j) * weights[k + j] for j in range(n_all - n + 1)), start=Fraction(0)
    )


MANY_POINTS = np.linspace(0, 1, 33).tolist()
#: Only coalitions of 2 or 3 others count, which no measure on [0, 1] can say.
MIDDLE_SIZES = [Fraction(0)] * 2 + [Fraction(1, 2 * comb(6, s)) for s in (2, 3)] + [Fraction(0)] * 3
SHAPLEY_SIZES = [oracle.shapley_weight(s, N_FEATURES - 1) for s in range(N_FEATURES)]

INDICES: dict[str, tuple[Any, Weight]] = {
    "shapley": ("shapley", oracle.shapley_weight),
    "banzhaf": ("banzhaf", lambda k, n: Fraction(1, 2**n)),
    "weighted banzhaf": (("weighted_banzhaf", 0.3), atoms_weight([0.3], [1.0])),
    "first in": (("weighted_banzhaf", 0), lambda k, n: Fraction(int(k == 0))),
    "last in": (("weighted_banzhaf", 1.0), lambda k, n: Fraction(int(k == n))),
    "beta 16, 1": (("beta", 16, 1), beta_weight(16, 1)),
    "beta 2, 5": (("beta", 2, 5.0), beta_weight(2, 5)),
    "beta 1, 1": (("beta", 1, 1), oracle.shapley_weight),
    "measure": (("measure", [0, 0.25, 1], [0.5, 0.25, 0.25]), atoms_weight([0, 0.25, 1], [0.5, 0.25, 0.25])),
    "measure of many points": (
        ("measure", np.array(MANY_POINTS), [1 / 33] * 33),
        atoms_weight(MANY_POINTS, [1 / 33] * 33),
    ),
    "sizes": (("sizes", SHAPLEY_SIZES), oracle.shapley_weight),
    "sizes without a measure": (("sizes", MIDDLE_SIZES), sizes_weight(MIDDLE_SIZES)),
}

SETTINGS = {**settings("zero cover", "vector leaves"), "long paths": {"max_depth": 8, "max_leaves": 40}}


def values(ensemble: TreeEnsemble, rows: npt.ArrayLike, index: Any, kernel: str | None = None) -> Float64:
    X = np.ascontiguousarray(rows, dtype=ensemble.row_format.numpy_dtype)
    out = np.empty((len(X), ensemble.n_features, ensemble.n_outputs))
    value_engine(ensemble, index=index_of(index, ensemble.n_features), kernel=kernel).values(X, out, n_jobs=1)
    return out


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", INDICES)
def test_equals_the_definition(name: str, setting: str) -> None:
    """In every kernel."""
    rng = np.random.default_rng(sum(map(ord, name + setting)))
    index, weight = INDICES[name]
    for _ in range(8):
        ensemble = random_ensemble(rng, n_features=N_FEATURES, **SETTINGS[setting])
        rows = rows_as_read(rng, ensemble, 3)
        exact = [oracle.shapley_values(ensemble, x, weight=weight, by="leaves") for x in rows]
        expected = np.array([oracle.as_float(e) for e in exact])
        for kernel in kernels():
            assert_equal(values(ensemble, rows, index, kernel), expected, ensemble, kernel)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e-300, 1e-298, 1e298, 1e300])
@pytest.mark.parametrize("name", ["shapley", "first in", "last in", "measure"])
def test_leaves_of_any_size_keep_their_digits(name: str, size: float) -> None:
    """At the end points, where the recurrence divides by 2^-64, as elsewhere; covers are skewed or zero."""
    rng = np.random.default_rng(11)
    index, weight = INDICES[name]
    for _ in range(10):
        ensemble = random_ensemble(rng, n_features=N_FEATURES, n_trees=1, max_leaves=12, zero_cover=True)
        ensemble = replace(ensemble, value=ensemble.value * size / 4, base_values=np.zeros(1))
        rows = random_rows(rng, ensemble, 3)
        exact = [oracle.shapley_values(ensemble, x, weight=weight, by="leaves") for x in rows]
        error = np.abs(values(ensemble, rows, index) - np.array([oracle.as_float(e) for e in exact]))
        assert error.max() <= 1e-12 * np.abs(ensemble.value).max()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_shapley_taylor_keeps_the_digits_of_leaves_of_any_size(size: float) -> None:
    """Its smaller sets are measured at the end point 0. A power of two more or less changes no digit."""
    rng = np.random.default_rng(12)
    ensemble = random_ensemble(rng, n_features=N_FEATURES, n_outputs=2, n_trees=4, zero_cover=True)
    scale = 2.0 ** int(np.log2(size))
    other = replace(ensemble, value=ensemble.value * scale, base_values=ensemble.base_values * scale)
    rows = random_rows(rng, ensemble, 20)
    for ask in (
        lambda e: e.interactions(rows, 3, index="STII").values,
        lambda e: e.shap_interaction_values(rows),
        lambda e: e.shap_values(rows),
        lambda e: global_interactions(e, rows, 2, index="STII").sum,
    ):
        np.testing.assert_allclose(
            ask(TreeExplainer(other)) / scale, ask(TreeExplainer(ensemble)), rtol=0, atol=1e-14
        )
        with_data = (TreeExplainer(e, rows[:5]) for e in (other, ensemble))
    found, expected = (e.shap_interaction_values(rows) for e in with_data)
    np.testing.assert_allclose(found / scale, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ["first in", "last in"])
def test_end_points_are_not_missed_by_what_counts_beside_small_covers(name: str) -> None:
    """A point that is off its end by e changes these by e / 1e-12 each; leaves differ in size as well."""
    rng = np.random.default_rng(14)
    index, weight = INDICES[name]
    ensemble = chain(range(N_FEATURES), share=(10.0 ** -rng.uniform(9, 12, N_FEATURES)).tolist())
    ensemble = replace(ensemble, value=ensemble.value * 10.0 ** rng.uniform(-15, 15, ensemble.value.shape))
    rows = np.concatenate(
        [random_rows(rng, ensemble, 20), np.zeros((1, N_FEATURES)), np.ones((1, N_FEATURES))]
    )
    exact = [oracle.shapley_values(ensemble, x, weight=weight, by="leaves") for x in rows]
    expected = np.array([oracle.as_float(e) for e in exact])
    # Players are on a path once, and leaves differ too much in size to cancel. Points are off by 2^-256.
    atol = N_FEATURES * np.abs(ensemble.value).sum() * 2.0**-256
    for kernel in kernels():
        np.testing.assert_allclose(values(ensemble, rows, index, kernel), expected, rtol=1e-12, atol=atol)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e-300, 1e-90, 1e-42, 1e90, 1e300])
def test_float32_is_float64_rounded_for_leaves_of_any_size(size: float) -> None:
    """Beyond 3.4e38 is infinity, below 1e-45 zero, and in between what float32 has: those of 1e-42 have few
    digits. Outputs of other sizes stand beside them, which share an array."""
    rng = np.random.default_rng(13)
    ensemble = random_ensemble(rng, n_features=N_FEATURES, n_outputs=2, vector_leaves=True, n_trees=3)
    sizes = np.array([size, 1e-80])
    ensemble = replace(ensemble, value=ensemble.value * sizes, base_values=ensemble.base_values * sizes)
    rows = random_rows(rng, ensemble, 20)
    asked: list[Callable[[TreeExplainer, Any], Any]] = [
        lambda e, dtype: e.shap_values(rows, dtype=dtype),
        lambda e, dtype: e.shap_interaction_values(rows, dtype=dtype),
        lambda e, dtype: e.interactions(rows, 2, index="STII", dtype=dtype).values,
    ]
    for explainer, ways in ((TreeExplainer(ensemble), asked), (TreeExplainer(ensemble, rows[:5]), asked[:2])):
        for ask in ways:
            with np.errstate(over="ignore", under="ignore"):
                expected = ask(explainer, "float64").astype(np.float32)
            np.testing.assert_array_equal(ask(explainer, "float32"), expected)
            assert size < 1e38 or np.isinf(expected).any()


@pytest.mark.parametrize("n_players", [1, 2, 7, 40, 200])
@pytest.mark.parametrize(("alpha", "beta"), [(16, 1), (1, 4), (3, 2), (40, 40), (1, 1)])
def test_beta_rules_give_all_moments(n_players: int, alpha: int, beta: int) -> None:
    """The mean of t^k, and of (1-t)^k, for every power that a path of so many players can have."""
    t, absent, weight = Beta(alpha, beta).rule(n_players)
    assert len(t) == (n_players + 1) // 2
    assert (weight > 0).all()
    for k in range(n_players):
        upper = float(beta_weight(alpha, beta)(k, k))
        lower = float(beta_weight(alpha, beta)(0, k))
        assert abs(weight @ t**k - upper) <= 1e-14
        assert abs(weight @ absent**k - lower) <= 1e-14


@pytest.mark.parametrize("parameter", [0.001, 0.5, 1.5])
def test_beta_may_be_fractional(parameter: float) -> None:
    """The mean of t^k is a product of ratios; alpha + beta = 1 and 2 are limits of the recurrence."""
    for alpha, beta in ((parameter, parameter), (parameter, 2 - parameter), (parameter, 1.0)):
        t, _, weight = Beta(alpha, beta).rule(12)
        moment = 1.0
        for k in range(12):
            assert abs(weight @ t**k - moment) <= 1e-14
            moment *= (beta + k) / (alpha + beta + k)


def test_banzhaf_takes_one_point() -> None:
    """Which is why it is faster."""
    assert all(len(index_of("banzhaf", 5).rule(n)[0]) == 1 for n in (1, 12, 60))


def test_long_paths() -> None:
    """40 players on a path, where the weights of the sizes differ by 11 orders of magnitude."""
    n = 40
    ensemble = chain(list(range(n)), share=0.9)
    rows = np.where(np.random.default_rng(0).random((1, n)) < 0.9, -1.0, 1.0)
    for index, weight in (("banzhaf", INDICES["banzhaf"][1]), (("beta", 4, 2), beta_weight(4, 2))):
        exact = [oracle.shapley_values(ensemble, x, weight=weight, by="leaves") for x in rows]
        expected = np.array([oracle.as_float(e) for e in exact])
        assert np.abs(values(ensemble, rows, index) - expected).max() <= 1e-13


def test_weights_that_no_rule_can_follow_are_refused() -> None:
    """All weight on one size of 40, and a path with all of the players."""
    weights = [Fraction(0)] * 40
    weights[20] = Fraction(1, comb(39, 20))
    with pytest.raises(InputError, match="too far from those of any measure"):
        value_engine(chain(list(range(40))), index=index_of(("sizes", weights), 40))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("shaply", "index must be 'shapley', 'banzhaf'"),
        ("FSII", "such as 'SII' and 'FSII', are given to explainer.interactions"),
        (None, "index must be"),
        ((), "index must be"),
        (("banzhaf", 0.5), "takes 0 arguments, got 1"),
        ("beta", "takes 2 arguments, got 0"),
        (("weighted_banzhaf", 1.5), r"a number from 0 to 1, got 1\.5"),
        (("weighted_banzhaf", float("nan")), "got nan"),
        (("beta", 0, 1), r"at least 0\.001"),
        (("beta", "1", 1), "must be a number"),
        (("measure", [0.5], [0.5, 0.5]), "1 points, 2 weights"),
        (("measure", [], []), "0 points"),
        (("measure", [0.5, 2], [0.5, 0.5]), r"from 0 to 1, got 2"),
        (("measure", [0.1, 0.5], [-0.5, 1.5]), "of at least 0, got -0.5"),
        (("measure", [0.1, 0.5], [0.5, 0.6]), r"add up to 1, got 1\.1"),
        (("measure", 0.5, 1.0), "must be a list of numbers"),
        (("sizes", [0.5, 0.5]), "from 0 to 2: 3 numbers, got 2"),
        (("sizes", [0.5, 0.5, 0.5]), r"add up to 1, got 2"),
    ],
)
def test_an_index_that_is_none_is_refused(index: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TreeExplainer(chain([0, 1, 2]), index=index)


def test_only_shapley_values_are_checked_for_additivity() -> None:
    """Others add up to nothing: True has nothing to check, a tolerance cannot be met and is refused."""
    explainer = TreeExplainer(chain([0, 1, 2]), index="banzhaf")
    rows = np.full((2, 3), -1.0)
    found = explainer.shap_values(rows)
    sums = found.sum(axis=1) + explainer.expected_value
    assert np.abs(sums - explainer.ensemble.predict(rows)[:, 0]).min() > 0.01
    assert (explainer(rows).values == found).all()
    with pytest.raises(InputError, match="index='banzhaf' do not add up"):
        explainer.shap_values(rows, check_additivity=1e-6)
    shapley, same = (TreeExplainer(chain([0, 1, 2]), index=index) for index in ("shapley", ("beta", 1, 1)))
    assert (same.shap_values(rows, check_additivity=1e-12) == shapley.shap_values(rows)).all()


@pytest.mark.parametrize(("synonym", "name"), [("SV", "shapley"), ("BV", "banzhaf"), ("sv", "shapley")])
def test_other_names_of_an_index(synonym: str, name: str) -> None:
    """The explainer says the name that is used here, and so does a file of it."""
    one, other = (TreeExplainer(chain([0, 1, 2]), index=index) for index in (synonym, name))
    assert one.index == name
    rows = np.full((2, 3), -1.0)
    np.testing.assert_array_equal(one.shap_values(rows), other.shap_values(rows))


def test_copies_and_fewer_trees_keep_the_index() -> None:
    rng = np.random.default_rng(6)
    ensemble = random_ensemble(rng, n_trees=3)
    rows = random_rows(rng, ensemble, 10)
    explainer = TreeExplainer(ensemble, index=("weighted_banzhaf", 0.25))
    copy = pickle.loads(pickle.dumps(explainer))
    assert copy.index == ("weighted_banzhaf", 0.25)
    assert (copy.shap_values(rows) == explainer.shap_values(rows)).all()
    first = explainer.shap_values(rows, tree_limit=2)
    assert not np.allclose(first, TreeExplainer(ensemble).shap_values(rows, tree_limit=2))
