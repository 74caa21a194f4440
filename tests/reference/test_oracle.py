"""The oracle against other ways to say the same thing; every comparison is exact."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from math import factorial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from drawn import ensembles
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import chain, random_ensemble, random_rows

from linear_treeshap import oracle
from linear_treeshap.errors import InputError
from linear_treeshap.model.ensemble import TreeEnsemble
from linear_treeshap.model.row_format import RowFormat

Exact = npt.NDArray[np.object_]


def by_permutations(ensemble: TreeEnsemble, x: Any, n_players: int, **options: Any) -> Exact:
    """Shapley values as what each player adds on arrival, averaged over all orders of arrival."""
    total = np.full((n_players, ensemble.n_outputs), Fraction(0), dtype=object)
    for order in permutations(range(n_players)):
        for k, player in enumerate(order):
            total[player] += oracle.coalition_value(ensemble, x, order[: k + 1], **options)
            total[player] -= oracle.coalition_value(ensemble, x, order[:k], **options)
    mean: Exact = total * Fraction(1, factorial(n_players))
    return mean


def some_case(seed: int, **options: Any) -> tuple[TreeEnsemble, npt.NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    ensemble = random_ensemble(rng, zero_cover=bool(seed % 2), max_leaves=12, **options)
    return ensemble, random_rows(rng, ensemble, 4)


def test_two_features_by_hand() -> None:
    """x0 <= 0 (3 of 4 rows) gives 8; else x1 <= 0 (half of the rest) gives 16, else 0."""
    ensemble = TreeEnsemble(
        tree_offsets=np.array([0, 5]),
        left=np.array([1, -1, 3, -1, -1], dtype=np.int32),
        right=np.array([2, -1, 4, -1, -1], dtype=np.int32),
        feature=np.array([0, -1, 1, -1, -1], dtype=np.int32),
        threshold=np.zeros(5),
        cover=np.array([8.0, 6.0, 2.0, 1.0, 1.0]),
        value=np.array([[0.0], [8.0], [0.0], [16.0], [0.0]]),
        base_values=np.zeros(1),
        row_format=RowFormat(n_features=2),
    )
    # v() = 8, v(0) = 8, v(1) = 6 + 4 = 10, v(0, 1) = 16: 0 brings 0 or 6, 1 brings 2 or 8.
    x = [1.0, -1.0]
    assert oracle.shapley_values(ensemble, x).tolist() == [[3], [5]]
    assert oracle.interaction_values(ensemble, x)[..., 0].tolist() == [[0, 3], [3, 2]]


@pytest.mark.parametrize("seed", range(12))
def test_coalitions_and_orders_of_arrival_agree(seed: int) -> None:
    """Subsets with Shapley's weights are the mean over all orders of arrival."""
    ensemble, rows = some_case(seed, n_features=4)
    assert (oracle.shapley_values(ensemble, rows[0]) == by_permutations(ensemble, rows[0], 4)).all()


@pytest.mark.parametrize("seed", range(12))
def test_groups_of_columns_are_players(seed: int) -> None:
    """A player of several columns arrives with all of them at once, by either road."""
    ensemble, rows = some_case(seed, n_features=5)
    players = [0, 1, 0, 2, 1]
    expected = by_permutations(ensemble, rows[0], 3, players=players)
    for by in ("definition", "leaves"):
        assert (oracle.shapley_values(ensemble, rows[0], players=players, by=by) == expected).all()


@settings(max_examples=150, deadline=None, derandomize=True)
@given(ensembles(), st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 3]))
def test_both_roads_lead_to_the_same_numbers(ensemble: TreeEnsemble, seed: int, order: int) -> None:
    """Leaves by polynomials and trees by coalitions give equal fractions, at every order."""
    (x,) = random_rows(np.random.default_rng(seed), ensemble, 1)
    by_definition = oracle.interaction_index(ensemble, x, order)
    by_leaves = oracle.interaction_index(ensemble, x, order, by="leaves")
    assert by_leaves.keys() <= by_definition.keys()
    for members, value in by_definition.items():
        assert (value == by_leaves.get(members, 0)).all()


@pytest.mark.parametrize("seed", range(12))
def test_both_roads_agree_on_background_data(seed: int) -> None:
    """Also with background rows, weights, groups and another semivalue."""
    ensemble, rows = some_case(seed, n_features=5, n_outputs=2)
    options: dict[str, Any] = {
        "background": rows[1:],
        "background_weights": [0.5, 2.0, 0.0],
        "players": [0, 1, 2, 1, 3],
        "weight": lambda present, others: Fraction(1, 2**others),
    }
    by_definition = oracle.interaction_values(ensemble, rows[0], **options)
    assert (oracle.interaction_values(ensemble, rows[0], by="leaves", **options) == by_definition).all()


@pytest.mark.parametrize("seed", range(12))
def test_background_rows_fill_the_absent_columns(seed: int) -> None:
    """An absent player's columns are the background row's: the mean prediction of such hybrids."""
    ensemble, rows = some_case(seed, n_features=4)
    x, background, weights = rows[0], rows[1:], [1.0, 2.0, 5.0]
    for coalition in ((), (0,), (1, 3), (0, 1, 2, 3)):
        hybrids = np.where(np.isin(range(4), coalition), x, background)
        expected = np.average(ensemble.predict(hybrids), axis=0, weights=weights)
        value = oracle.coalition_value(
            ensemble, x, coalition, background=background, background_weights=weights
        )
        # predict() adds trees in float64; the oracle does not round.
        assert oracle.as_float(value) == pytest.approx(expected, abs=1e-13)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(ensembles(), st.integers(0, 2**32 - 1))
def test_values_add_up_to_the_prediction(ensemble: TreeEnsemble, seed: int) -> None:
    """Exactly to the value of the full coalition, which is predict() up to its rounding."""
    (x,) = random_rows(np.random.default_rng(seed), ensemble, 1)
    everyone = oracle.coalition_value(ensemble, x, range(ensemble.n_features))
    nobody = oracle.coalition_value(ensemble, x, ())
    assert (oracle.shapley_values(ensemble, x, by="leaves").sum(axis=0) == everyone - nobody).all()
    assert oracle.as_float(everyone) == pytest.approx(ensemble.predict([x])[0], abs=1e-13)


@pytest.mark.parametrize("seed", range(12))
def test_interactions_add_up_to_the_values(seed: int) -> None:
    """Each row of the symmetric matrix adds up to the player's own value."""
    ensemble, rows = some_case(seed, n_outputs=3, vector_leaves=True)
    values = oracle.interaction_values(ensemble, rows[0])
    assert (values == values.transpose(1, 0, 2)).all()
    assert (values.sum(axis=1) == oracle.shapley_values(ensemble, rows[0])).all()


def test_a_column_nobody_asks_gets_nothing() -> None:
    """The null player axiom."""
    values = oracle.shapley_values(chain([0, 2]), [-1.0, -1.0, -1.0])
    assert values[1] == [0]
    assert (values[[0, 2]] != 0).all()


def test_below_a_node_without_cover_both_children_count_half() -> None:
    """A parent of zero cover has no ratios of its own."""
    ensemble = chain([0, 1], share=[0.0, 0.5])
    # x0 <= 0 leads where no cover went: 0 is needed to get there, then x1 splits -0.5 and 1 evenly.
    assert oracle.coalition_value(ensemble, [-1.0, -1.0], [0]).tolist() == [Fraction(1, 4)]
    assert oracle.coalition_value(ensemble, [-1.0, -1.0], []).tolist() == [1]


@pytest.mark.parametrize("depth", [12, 30])
def test_deep_chains_are_within_reach(depth: int) -> None:
    """By leaves, a path of 30 players is no matter; one of 12 agrees with the definition."""
    ensemble, x = chain(range(depth), share=0.75), np.where(np.arange(depth) % 5 == 3, 1.0, -1.0)
    values = oracle.shapley_values(ensemble, x, by="leaves")
    everyone = oracle.coalition_value(ensemble, x, range(depth))
    assert values.sum() == (everyone - oracle.coalition_value(ensemble, x, ()))[0]
    if depth == 12:
        assert (values == oracle.shapley_values(ensemble, x)).all()


def test_a_chain_of_a_thousand_nodes_needs_no_recursion() -> None:
    """One feature, asked a thousand times, is one player."""
    ensemble = chain([0] * 1000)
    for by in ("definition", "leaves"):
        values = oracle.shapley_values(ensemble, [-1.0], by=by)
        assert oracle.as_float(values) == pytest.approx(
            ensemble.predict([[-1.0]]) - ensemble.expected_value, abs=1e-13
        )


def test_wrong_arguments_are_named() -> None:
    """Rows, players and background weights of the wrong length."""
    ensemble = chain([0, 1])
    with pytest.raises(InputError, match=r"shape \(n_rows, 2\), got \(1, 1\)"):
        oracle.shapley_values(ensemble, [1.0])
    with pytest.raises(InputError, match="each of the 2 columns, got 1"):
        oracle.shapley_values(ensemble, [1.0, 1.0], players=[0])
    with pytest.raises(InputError, match="got 2 weights for 1 rows"):
        oracle.shapley_values(ensemble, [1.0, 1.0], background=[[0.0, 0.0]], background_weights=[1.0, 1.0])
