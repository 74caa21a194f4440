"""Groups of columns as players: exact values of the game in which a group enters all at once."""

from __future__ import annotations

import copy
import pickle
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from drawn import ensembles
from engines import value_engine
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import chain, random_ensemble, random_rows

from linear_treeshap import (
    FileFormatError,
    InputError,
    RowFormat,
    TreeExplainer,
    explain,
    global_importance,
    load,
    oracle,
)
from linear_treeshap.model.ensemble import TreeEnsemble, first_trees
from linear_treeshap.players.players import Players, group_columns
from linear_treeshap.storage import saved_explainer

Float64 = npt.NDArray[np.float64]


def _players(of_column: Any, n_players: int) -> Players:
    names = tuple(f"column {i}" for i in range(len(of_column)))
    return Players(np.asarray(of_column), tuple(f"player {i}" for i in range(n_players)), names)


def _values(ensemble: TreeEnsemble, players: Players, rows: Float64) -> Float64:
    engine = value_engine(ensemble, players=players)
    out = np.empty((len(rows), players.n_players, ensemble.n_outputs))
    engine.values(ensemble.cast_rows(rows).astype(ensemble.row_format.numpy_dtype), out, n_jobs=1)
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
        value_engine(ensemble, players=_players([0, 0], 1))


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


# -- what users see -----------------------------------------------------------------------------------------


PLACE = {"place": ["lat", "lon"], "city": CITIES}
COLUMNS = ("lat", "age", *CITIES, "lon")


def _forest(**options: Any) -> tuple[TreeEnsemble, Float64]:
    """A forest over one-hot cities and a place, and rows of them."""
    rng = np.random.default_rng(3)
    ensemble = random_ensemble(rng, n_features=6, n_trees=8, categorical=False, **options)
    threshold = np.where(np.isin(ensemble.feature, [2, 3, 4]), 0.5, ensemble.threshold)
    ensemble = replace(ensemble, threshold=threshold, row_format=RowFormat(6, COLUMNS))
    rows = rng.normal(size=(30, 6))
    rows[:, 2:5] = np.eye(4)[rng.integers(4, size=30), :3]
    return ensemble, rows


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_an_explainer_speaks_of_players(n_outputs: int) -> None:
    """Values, names, base values, sums, frames and importance; as the definition has it."""
    ensemble, rows = _forest(n_outputs=n_outputs)
    explainer = TreeExplainer(ensemble, groups=PLACE)
    explanation = explainer(rows)
    assert explanation.feature_names == explainer.feature_names == ("place", "age", "city")
    np.testing.assert_allclose(
        explanation.values.reshape(30, 3, -1), _exact(ensemble, explainer.players, rows), atol=1e-12
    )
    total = explanation.values.sum(axis=1).reshape(30, -1) + ensemble.expected_value
    np.testing.assert_allclose(total, ensemble.predict(rows), atol=1e-12)
    np.testing.assert_array_equal(explainer.shap_values(rows), explanation.values)
    assert set(explanation.importance()["feature"]) == {"place", "age", "city"}
    assert list(explanation.to_frame().columns[-3:]) == ["place", "age", "city"]
    importance = global_importance(explainer, rows)
    assert importance.feature_names == ("place", "age", "city")
    expected = np.abs(explanation.values).mean(axis=0).reshape(3, -1)
    np.testing.assert_allclose(importance.mean_abs, expected, rtol=1e-12)


def test_other_indices_are_of_players_too() -> None:
    """Banzhaf values of groups, as the definition has them."""
    ensemble, rows = _forest()
    explainer = TreeExplainer(ensemble, groups=PLACE, index="banzhaf")
    exact = oracle.shapley_values(
        ensemble,
        rows[0],
        players=explainer.players.of_column.tolist(),
        weight=lambda present, others: Fraction(1, 2**others),
    )
    np.testing.assert_allclose(explainer.shap_values(rows)[0], oracle.as_float(exact)[:, 0], atol=1e-12)


def test_out_is_of_the_shape_of_the_players() -> None:
    ensemble, rows = _forest()
    explainer = TreeExplainer(ensemble, groups=PLACE)
    out = np.empty((30, 3), dtype=np.float32)
    assert explainer.shap_values(rows, out=out) is out
    np.testing.assert_array_equal(out, explainer.shap_values(rows, dtype="float32"))
    with pytest.raises(InputError, match=r"of shape \(30, 3\), got float64 of shape \(30, 6\)"):
        explainer.shap_values(rows, out=np.empty((30, 6)))


def test_thefirst_trees_are_explained_in_players() -> None:
    ensemble, rows = _forest()
    values = TreeExplainer(ensemble, groups=PLACE).shap_values(rows, tree_limit=3)
    first = first_trees(ensemble, 3)
    np.testing.assert_array_equal(values, TreeExplainer(first, groups=PLACE).shap_values(rows))


def test_frames_in_any_order_give_the_same_players() -> None:
    """Groups have an order of their own; the rows shown follow it."""
    pd = pytest.importorskip("pandas")
    ensemble, rows = _forest()
    X = pd.DataFrame(rows, columns=COLUMNS, index=np.arange(30) + 100)
    explainer = TreeExplainer(ensemble, groups=PLACE)
    expected, shuffled = explainer(X), explainer(X[sorted(COLUMNS)])
    np.testing.assert_array_equal(shuffled.values, expected.values)
    assert shuffled.feature_names == ("place", "age", "city")
    pd.testing.assert_frame_equal(shuffled.table, expected.table)
    assert list(shuffled.to_frame().index) == list(X.index)


@pytest.mark.parametrize("kind", ["array", "pandas", "polars", "sparse"])
def test_groups_are_shown_as_text_and_families_as_their_category(kind: str) -> None:
    """A column of its own is shown as it is; a family without an active column says so."""
    ensemble, rows = _forest()
    given: Any = rows
    if kind == "sparse":
        given = pytest.importorskip("scipy.sparse").csr_matrix(rows)
    elif kind != "array":
        given = pytest.importorskip(kind).DataFrame(dict(zip(COLUMNS, rows.T, strict=True)))
    explanation = TreeExplainer(ensemble, groups=PLACE)(given)
    assert explanation.data[0].tolist() == [
        f"lat={rows[0, 0]:.4g}, lon={rows[0, 5]:.4g}",
        rows[0, 1],
        {(1, 0, 0): "Bern", (0, 1, 0): "Rome", (0, 0, 1): "Oslo", (0, 0, 0): "(none)"}[tuple(rows[0, 2:5])],
    ]
    assert set(explanation.data[:, 2]) == {"Bern", "Rome", "Oslo", "(none)"}
    assert explanation[3, "place"].data == f"lat={rows[3, 0]:.4g}, lon={rows[3, 5]:.4g}"
    if kind == "polars":
        assert explanation.table["age"].to_list() == rows[:, 1].tolist()


def test_a_family_that_is_not_one_hot_after_all_is_told_in_full() -> None:
    ensemble, rows = _forest()
    rows[0, 2:5] = [1, 1, 0]
    rows[1, 2:5] = [0.5, np.nan, 1]
    explanation = TreeExplainer(ensemble, groups=PLACE)(rows)
    assert explanation.data[:2, 2].tolist() == ["Bern=1, Rome=1, Oslo=0", "Bern=0.5, Rome=nan, Oslo=1"]


def test_no_rows_are_explained_in_players() -> None:
    ensemble, rows = _forest()
    for groups in (PLACE, "onehot"):
        explanation = TreeExplainer(ensemble, groups=groups)(rows[:0])
        assert explanation.values.shape == explanation.data.shape
        assert len(explanation) == 0


def test_wide_models_are_grouped_in_no_time() -> None:
    """In proportion to the columns, not to their square: 100,000 of them in 20,000 groups."""
    names = tuple(f"v{i // 5}_{i % 5}" for i in range(100_000))
    groups = {f"v{i}": [f"v{i}_{j}" for j in range(5)] for i in range(20_000)}
    ensemble = replace(chain([0]), row_format=RowFormat(len(names), names))
    started = time.process_time()
    for wanted in (groups, "onehot"):
        assert TreeExplainer(ensemble, groups=wanted).players.n_players == 20_000
    assert time.process_time() - started < 10  # by the square it would be hours


def test_one_row_is_explained_in_players() -> None:
    ensemble, rows = _forest()
    explainer = TreeExplainer(ensemble, groups=PLACE)
    np.testing.assert_array_equal(explainer(rows[4]).values, explainer(rows[4:5]).values[0])
    assert explainer(rows[4]).data.shape == (3,)


def test_pickles_copies_and_files_keep_the_players(tmp_path: Path) -> None:
    ensemble, rows = _forest()
    explainer = TreeExplainer(ensemble, groups=PLACE)
    explainer.save(tmp_path / "model.lts")
    others = [
        pickle.loads(pickle.dumps(explainer)),
        copy.deepcopy(explainer),
        TreeExplainer.load(tmp_path / "model.lts"),
    ]
    for other in others:
        np.testing.assert_array_equal(other(rows).values, explainer(rows).values)
        assert other.players.members == explainer.players.members
        assert other(rows).data.tolist() == explainer(rows).data.tolist()
    assert load(tmp_path / "model.lts").n_features == 6


ONE_PLAYER = {
    "of_column": [0] * 6,
    "names": ["a"],
    "column_names": list("uvwxyz"),
    "onehot": [],
    "is_guess": False,
}


@pytest.mark.parametrize(
    ("players", "complaint"),
    [
        ({**ONE_PLAYER, "of_column": [0, 0]}, "each of the 6 columns"),
        ({**ONE_PLAYER, "column_names": ["u"]}, "each of the 6 columns"),
        ({**ONE_PLAYER, "column_names": None}, "each of the 6 columns"),
        ({**ONE_PLAYER, "of_column": [9] * 6}, "one of the 1 players"),
        ({**ONE_PLAYER, "onehot": [1]}, "one of the 1 players"),
        ({**ONE_PLAYER, "of_column": [0.5] * 6}, "0.5 is not expected"),
        ({**ONE_PLAYER, "names": [1]}, "must be a list of strings"),
        ({**ONE_PLAYER, "is_guess": True}, "one-hot player must have two columns or more"),
        ({**ONE_PLAYER, "names": ["a", "b"], "onehot": [1]}, "one-hot player must have two columns or more"),
        ({**ONE_PLAYER, "names": ["a", "a"]}, "called the same"),
        ({**ONE_PLAYER, "is_guess": 1}, "players must have"),
        ({"of_column": [0] * 6, "names": ["a"]}, "players must have"),
        ([], "players must have"),
    ],
)
def test_files_with_players_that_cannot_be_are_refused(tmp_path: Path, players: Any, complaint: str) -> None:
    ensemble, _ = _forest()
    path = tmp_path / "model.lts"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved_explainer, "_plain_players", lambda _: players)
        TreeExplainer(ensemble, groups=PLACE).save(path)
    with pytest.raises(FileFormatError, match=complaint):
        TreeExplainer.load(path)


def test_players_without_columns_are_read(tmp_path: Path) -> None:
    """Raw columns that a pipeline drops have values, which are zero, and nothing to be shown."""
    ensemble, rows = _forest()
    path = tmp_path / "model.lts"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved_explainer, "_plain_players", lambda _: {**ONE_PLAYER, "names": ["a", "b"]})
        TreeExplainer(ensemble, groups=PLACE).save(path)
    pd = pytest.importorskip("pandas")
    for table in (rows, pd.DataFrame(rows)):
        values = TreeExplainer.load(path)(table)
        assert values.feature_names == ("a", "b")
        assert values.values[:, 0].any()
        assert not values.values[:, 1:].any()
        assert np.asarray(values.data)[:, 1].tolist() == [None] * len(rows)


def test_the_number_of_players_is_told() -> None:
    ensemble, _ = _forest()
    assert repr(TreeExplainer(ensemble, groups=PLACE)).endswith("6 features, 1 output, 3 players)")
    players = TreeExplainer(ensemble, groups=PLACE).players
    assert repr(players) == "Players(3 players of 6 columns: place (2 columns), age, city (3 columns))"


def test_players_of_an_explainer_are_groups_of_another() -> None:
    ensemble, rows = _forest()
    explainer = TreeExplainer(ensemble, groups=PLACE)
    again = TreeExplainer(ensemble, groups=explainer.players)
    np.testing.assert_array_equal(again(rows).values, explainer(rows).values)
    with pytest.raises(InputError, match="groups has 6 columns, the model has 5"):
        TreeExplainer(random_ensemble(np.random.default_rng(0), n_features=5), groups=explainer.players)


def test_an_explanation_in_one_line_takes_groups() -> None:
    ensemble, rows = _forest()
    assert explain(ensemble, rows, groups=PLACE).feature_names == ("place", "age", "city")


# -- sums ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_sums_are_of_the_members_and_are_not_the_value_of_the_group(n_outputs: int) -> None:
    ensemble, rows = _forest(n_outputs=n_outputs)
    columns, groups = TreeExplainer(ensemble)(rows), TreeExplainer(ensemble, groups=PLACE)
    summed = columns.sum_groups(PLACE)
    assert summed.feature_names == ("place", "age", "city")
    np.testing.assert_array_equal(summed[:, "place"].values, columns.values[:, 0] + columns.values[:, 5])
    np.testing.assert_array_equal(summed[:, "age"].values, columns[:, "age"].values)
    assert np.abs(summed.values - groups(rows).values).max() > 0.01
    np.testing.assert_allclose(summed.values.sum(axis=1), groups(rows).values.sum(axis=1), atol=1e-12)
    assert summed.data.tolist() == groups(rows).data.tolist()
    np.testing.assert_array_equal(columns.sum_groups(groups.players).values, summed.values)
    np.testing.assert_array_equal(columns[2].sum_groups(PLACE).values, summed.values[2])


def test_a_single_feature_cannot_be_summed() -> None:
    ensemble, rows = _forest()
    with pytest.raises(InputError, match="of a single feature"):
        TreeExplainer(ensemble)(rows)[:, "age"].sum_groups(PLACE)
