"""Groups of columns as players: exact values of the game in which a group enters all at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import ensembles, random_ensemble, random_rows

from linear_treeshap import InputError, oracle
from linear_treeshap.engine import Engine
from linear_treeshap.ensemble import TreeEnsemble
from linear_treeshap.players import Players, group_columns

Float64 = npt.NDArray[np.float64]


def _players(of_column: Any, n_players: int) -> Players:
    names = tuple(f"column {i}" for i in range(len(of_column)))
    return Players(np.asarray(of_column), tuple(f"player {i}" for i in range(n_players)), names)


def _values(ensemble: TreeEnsemble, players: Players, rows: Float64) -> Float64:
    engine = Engine(ensemble, players=players)
    out = np.empty((len(rows), players.n_players, ensemble.n_outputs))
    engine.values(ensemble.cast_rows(rows).astype(engine.row_dtype), out, n_jobs=1)
    return out


def _exact(ensemble: TreeEnsemble, players: Players, rows: Float64) -> Float64:
    """By the definition; the oracle counts players up to the last that has a column."""
    out = np.zeros((len(rows), players.n_players, ensemble.n_outputs))
    for row, x in enumerate(rows):
        exact = oracle.shapley_values(ensemble, x, players=players.of_column.tolist(), by="leaves")
        out[row, : len(exact)] = oracle.as_float(exact)
    return out


@settings(max_examples=60, deadline=None)
@given(ensembles(max_features=7), st.integers(0, 2**32 - 1))
def test_values_of_groups_are_those_of_the_definition(ensemble: TreeEnsemble, seed: int) -> None:
    """Any grouping: missing values, categories, repeated features, zero cover, several outputs."""
    rng = np.random.default_rng(seed)
    n_players = int(rng.integers(1, ensemble.n_features + 2))  # some have no column
    players = _players(rng.integers(n_players, size=ensemble.n_features), n_players)
    rows = random_rows(rng, ensemble, 4)
    # Leaf values are normal numbers, a handful per path: this is rounding in the last digits.
    np.testing.assert_allclose(
        _values(ensemble, players, rows), _exact(ensemble, players, rows), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("seed", range(3))
def test_values_of_groups_on_deep_trees_are_those_of_the_definition(seed: int) -> None:
    """Paths on which a group comes again and again, through other columns of its own."""
    rng = np.random.default_rng(seed)
    ensemble = random_ensemble(rng, n_features=24, n_trees=3, max_depth=14, max_leaves=80, n_outputs=2)
    players = _players(rng.integers(6, size=24), 6)
    rows = random_rows(rng, ensemble, 20)
    np.testing.assert_allclose(
        _values(ensemble, players, rows), _exact(ensemble, players, rows), rtol=1e-12, atol=1e-12
    )


def test_one_group_of_everything_gets_the_whole_difference() -> None:
    """With a single player there is one way to enter."""
    rng = np.random.default_rng(4)
    ensemble = random_ensemble(rng, n_features=5, n_trees=4)
    rows = random_rows(rng, ensemble, 10)
    expected = ensemble.predict(rows) - ensemble.expected_value
    np.testing.assert_allclose(_values(ensemble, _players([0] * 5, 1), rows)[:, 0], expected, atol=1e-12)


def test_players_of_other_columns_are_refused() -> None:
    ensemble = random_ensemble(np.random.default_rng(0), n_features=5)
    with pytest.raises(InputError, match="Players of 2 columns were given for a model of 5"):
        Engine(ensemble, players=_players([0, 0], 1))


NAMES = ("age", "city_Bern", "city_Rome", "income", "city_Oslo")
CITIES = ["city_Bern", "city_Rome", "city_Oslo"]


@pytest.mark.parametrize(
    "groups",
    [
        {"city": CITIES},
        {"city": [1, 2, 4]},
        {"city": ("city_Oslo", 1, np.int64(2))},
        {"age": "age", "city": np.array(CITIES)},
        [None, "city", "city", None, "city"],
        np.array(["age", "city", "city", "income", "city"]),
    ],
    ids=["names", "positions", "mixed", "a single column", "labels", "array of labels"],
)
def test_groups_are_given_by_name_position_or_label(groups: Any) -> None:
    """Players come in the order of their first columns."""
    players = group_columns(groups, NAMES)
    assert players.names == ("age", "city", "income")
    assert players.of_column.tolist() == [0, 1, 1, 2, 1]
    assert players.members == {"age": ("age",), "city": tuple(CITIES), "income": ("income",)}


@pytest.mark.parametrize(
    ("groups", "complaint"),
    [
        ({"city": ["city_Paris"]}, "'city' has the column 'city_Paris', which the model does not have"),
        ({"city": [5]}, "has the column 5, but there are 5 columns"),
        ({"city": [-1]}, "has the column -1, but there are 5 columns"),
        ({"city": [1.5]}, "has the column 1.5; columns are given by name or position"),
        ({"city": [True]}, "has the column True; columns are given by name or position"),
        ({"a": ["age"], "b": ["age"]}, "'age' is in group 'a' and again in group 'b'"),
        ({"a": ["age", 0]}, "'age' is in group 'a' and again in group 'a'"),
        ({"city": []}, "'city' has no columns"),
        ({"age": CITIES}, "'age' has the name of a column that is not in it"),
        ({1: ["age"], "1": ["income"]}, "Two groups are called the same"),
        (["a", "b"], "2 labels, but there are 5 columns"),
        ([["age"], CITIES, [], [], []], "To list columns, pass a dictionary"),
        ("families", "must be a dictionary of group → columns, a label for each column, 'onehot'"),
        (3, "must be a dictionary of group → columns"),
    ],
)
def test_groups_that_cannot_be_are_refused(groups: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        group_columns(groups, NAMES)


def test_names_of_columns_need_a_model_that_knows_them() -> None:
    with pytest.raises(InputError, match="Pass feature_names=, or give the columns by position"):
        group_columns({"a": ["Feature 0"]}, ("Feature 0", "Feature 1"), named=False)


def test_columns_that_share_a_name_are_given_by_position() -> None:
    assert group_columns({"b": [0, 1]}, ("a", "a")).names == ("b",)
    with pytest.raises(InputError, match=r"Several columns are called 'a'\. Give them by position"):
        group_columns({"b": ["a"]}, ("a", "a"))
