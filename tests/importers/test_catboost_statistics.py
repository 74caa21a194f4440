"""CatBoost's statistics of categories: read from the model to the bit, and explained by whom they read."""

from __future__ import annotations

import pickle
from contextlib import suppress
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zoo
from definition import values_by_definition
from zoo_catboost import CATBOOST_PARAMETERS, catboost_frame, catboost_regressor_on

from linear_treeshap import TreeExplainer, import_model
from linear_treeshap.errors import FileFormatError, InputError, ModelError, UnsupportedModelError
from linear_treeshap.model.ensemble import TreeEnsemble
from linear_treeshap.rows.rows import read_rows

catboost = pytest.importorskip("catboost")
pandas = pytest.importorskip("pandas")

N_ROWS = 600
CATEGORIES = ["city", "size", "is_new"]
Values = npt.NDArray[np.float64]


def frame(n_rows: int = N_ROWS, seed: int = 0) -> Any:
    """Text, whole numbers and truth values, and two columns of numbers."""
    rng = np.random.default_rng(seed)
    return pandas.DataFrame(
        {
            "city": rng.choice([f"city {i}" for i in range(30)], n_rows),
            "price": rng.normal(size=n_rows),
            "size": rng.integers(-2, 4, n_rows),
            "is_new": rng.random(n_rows) < 0.5,
            "age": rng.normal(size=n_rows),
        }
    )


def outcome(X: Any) -> Values:
    """Which says most in combinations: of two categories, and of a category and a number."""
    of_city = X["city"].str.len().to_numpy() + X["city"].str[-1].astype(int).to_numpy()
    both = (of_city + X["size"].to_numpy()) % 3
    return np.asarray(both * 2.0 + (of_city % 2) * (X["price"] > 0) + X["is_new"] * X["age"])


def trained(**parameters: Any) -> Any:
    X = frame()
    settings = {"iterations": 150, "depth": 5, "max_ctr_complexity": 4, **parameters}
    return catboost_regressor_on(X, outcome(X), cat_features=CATEGORIES, **settings)


@pytest.fixture(scope="module")
def model() -> Any:
    return trained()


@pytest.fixture(scope="module")
def explainer(model: Any) -> TreeExplainer:
    return TreeExplainer(model)


def own_values(model: Any, X: Any) -> Values:
    pool = catboost.Pool(X, cat_features=CATEGORIES)
    return np.asarray(model.get_feature_importance(pool, type="ShapValues"))


def test_the_model_has_what_is_to_be_tested(explainer: TreeExplainer) -> None:
    """Statistics of one column, of several, and of a column and conditions on numbers."""
    lookups = explainer.ensemble.row_format.lookups
    assert any(len(lookup.columns) == 1 for lookup in lookups)
    assert any(len(lookup.categories) > 1 for lookup in lookups)
    assert any(lookup.above for lookup in lookups)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"one_hot_max_size": 6},
        {"grow_policy": "Lossguide"},
        {"grow_policy": "Depthwise", "nan_mode": "Max"},
        {"simple_ctr": ["Buckets:TargetBorderCount=4:Prior=0.3", "Counter", "BinarizedTargetMeanValue"]},
        {"counter_calc_method": "Full", "has_time": True, "iterations": 20},
    ],
    ids=str,
)
def test_predictions_are_catboost_s_to_the_last_bits(parameters: dict[str, Any]) -> None:
    """Rows that it has seen, categories that it has not, and new combinations of those that it has."""
    model = trained(**{"combinations_ctr": ["Borders", "Counter"], **parameters})
    X = pandas.concat([frame(), frame(seed=1), frame(seed=2).assign(city="nowhere", size=99)])
    X.loc[::7, "price"] = np.nan
    ensemble = import_model(model)
    assert ensemble.row_format.lookups
    rows = read_rows(X, ensemble.row_format)
    # A statistic that is off by one rounding would send some row elsewhere; sums are in another order.
    np.testing.assert_allclose(ensemble.predict(rows[0 : len(X)])[:, 0], model.predict(X), rtol=0, atol=1e-13)


def test_values_are_catboost_s(model: Any) -> None:
    """Which give nothing to a number that is asked about in a combination."""
    X = frame(200, seed=3)
    theirs = own_values(model, X)
    explainer = TreeExplainer(model)
    np.testing.assert_allclose(
        explainer.shap_values(X), theirs[:, :-1], rtol=0, atol=1e-12 * np.abs(theirs).max()
    )
    np.testing.assert_allclose(explainer.expected_value, theirs[0, -1], rtol=1e-12)


@pytest.mark.parametrize("loss", ["RMSE", "MultiClass"])
def test_all_columns_of_a_combination_are_its_categories_where_it_asks_for_no_numbers(loss: str) -> None:
    """Then both rules are CatBoost's."""
    columns = ["city", "size"]
    X = frame()[columns].assign(city=lambda X: X["city"].str[-1])
    odd = (X["city"].astype(int) + X["size"]) % 2
    y = odd * 3.0 + X["size"] if loss == "RMSE" else odd + (X["size"] > 2)
    settings = {**CATBOOST_PARAMETERS, "loss_function": loss, "iterations": 60, "max_ctr_complexity": 2}
    model = catboost.CatBoost(settings).fit(X, y, cat_features=columns)
    assert any(len(lookup.columns) > 1 for lookup in import_model(model).row_format.lookups)
    pool = catboost.Pool(X, cat_features=columns)
    theirs = model.get_feature_importance(pool, type="ShapValues")[..., :-1]
    theirs = theirs if theirs.ndim == 2 else theirs.transpose(0, 2, 1)
    for groups in (None, "columns"):
        ours = TreeExplainer(model, groups=groups).shap_values(X)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12 * np.abs(theirs).max())


def test_values_are_those_of_the_definition(explainer: TreeExplainer) -> None:
    X = frame(3, seed=4)
    rows = read_rows(X, explainer.ensemble.row_format)[0:3]
    exact = values_by_definition(explainer, rows)[..., 0]
    np.testing.assert_allclose(explainer.shap_values(X), exact, rtol=0, atol=1e-12 * np.abs(exact).max())


def test_combinations_can_be_seen(model: Any) -> None:
    X = frame(50, seed=5)
    apart = TreeExplainer(model, groups="combinations")
    players = apart.players
    assert players.names[:5] == tuple(X.columns)
    assert {"city & size", "city & price"} <= set(players.names)
    assert players.members["city & size"] == ("city", "size")
    explanation = apart(X)
    assert str(np.asarray(explanation.data)[0, players.names.index("city & size")]).startswith("city=city ")
    divided = explanation.values[:, :5].copy()
    for place, name in enumerate(players.names[5:], start=5):
        members = [list(X.columns).index(member) for member in players.members[name]]
        divided[:, members] += explanation.values[:, [place]] / len(members)
    among_columns = TreeExplainer(model, groups="columns").shap_values(X)
    np.testing.assert_allclose(among_columns, divided, rtol=0, atol=1e-12)
    assert np.abs(TreeExplainer(model).shap_values(X) - divided).max() > 1e-3  # numbers have their share


def test_a_group_of_all_columns_of_a_combination_is_exact(model: Any) -> None:
    """Then there is nothing to divide."""
    explainer = TreeExplainer(model, groups={"all of them": ["city", "price", "size", "is_new", "age"]})
    assert explainer._assignment.divided == ()
    X = frame(20, seed=6)
    np.testing.assert_allclose(
        explainer.shap_values(X)[:, 0] + explainer.expected_value, model.predict(X), rtol=1e-10
    )


def test_background_rows_are_looked_up_too() -> None:
    """A combination is a player, whole: it takes the statistics of a background row, or those of the row."""
    explainer = TreeExplainer(trained(iterations=12), frame(4, seed=8), groups="combinations")
    in_trees, ensemble = explainer._assignment.in_trees, explainer.ensemble
    X = frame(2, seed=7)
    rows, others = (read_rows(some, ensemble.row_format)[0:9] for some in (X, frame(4, seed=8)))
    asked = np.unique(in_trees.of_column[ensemble.feature[~ensemble.is_leaf]])
    assert in_trees.combined
    assert len(asked) <= 12, "too many players for their coalitions to be enumerated"
    for row, values in zip(rows, explainer.shap_values(X), strict=True):
        coalitions = range(1 << len(asked))
        bits = np.array(coalitions)[:, None] >> np.arange(len(asked)) & 1 == 1
        present = np.array([np.isin(in_trees.of_column, asked[some]) for some in bits])
        hybrids = np.where(present[:, None], row, others)  # of every coalition with every background row
        outputs = ensemble.predict(hybrids.reshape(-1, len(row))).reshape(hybrids.shape[:2]).mean(axis=1)
        exact = np.zeros(in_trees.n_players)
        for place, player in enumerate(asked):
            for coalition in (c for c in coalitions if not c >> place & 1):
                weight = 1 / (len(asked) * comb(len(asked) - 1, coalition.bit_count()))
                exact[player] += weight * (outputs[coalition | 1 << place] - outputs[coalition])
        np.testing.assert_allclose(values, exact, rtol=0, atol=1e-12)


def test_rows_and_columns_of_pairs_add_up_to_values(explainer: TreeExplainer) -> None:
    X = frame(20, seed=9)
    pairs, values = explainer.shap_interaction_values(X), explainer.shap_values(X)
    np.testing.assert_allclose(pairs.sum(axis=2), values, rtol=0, atol=1e-11)
    np.testing.assert_allclose(pairs.sum(axis=1), values, rtol=0, atol=1e-11)


def test_sets_of_divided_combinations_are_refused(explainer: TreeExplainer, model: Any) -> None:
    X = frame(5)
    with pytest.raises(InputError, match="groups='combinations'"):
        explainer.interactions(X)
    assert TreeExplainer(model, groups="combinations").interactions(X).order == 2


@pytest.mark.parametrize("groups", [None, "combinations", "columns", {"place": ["city", "size"]}], ids=str)
@pytest.mark.parametrize("has_background", [False, True])
def test_a_saved_explainer_gives_the_same_bits(
    groups: Any, has_background: bool, model: Any, tmp_path: Path
) -> None:
    X = frame(40, seed=10)
    explainer = TreeExplainer(model, frame(20, seed=11) if has_background else None, groups=groups)
    values = explainer.shap_values(X)
    explainer.save(tmp_path / "explainer.lts")
    for other in (TreeExplainer.load(tmp_path / "explainer.lts"), pickle.loads(pickle.dumps(explainer))):
        np.testing.assert_array_equal(other.shap_values(X), values)
        assert other.ensemble.row_format == explainer.ensemble.row_format
        assert repr(other.players) == repr(explainer.players)


def test_a_file_of_statistics_is_of_version_3_and_others_are_not(model: Any, tmp_path: Path) -> None:
    """Older releases read what they can."""
    path = tmp_path / "explainer.lts"
    for name, version in (("catboost_statistics", b'"3"'), ("catboost_one_hot", b'"2"')):
        TreeExplainer(zoo.load(name).model).save(path)
        assert b'"version":' + version in path.read_bytes()


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "objects", "text", "pool", "shuffled"])
def test_rows_of_any_kind(library: str, explainer: TreeExplainer) -> None:
    X = frame(300, seed=12)  # more than are compared with CatBoost's predictions at once
    expected = explainer.shap_values(X)
    rows: Any = X
    if library in ("polars", "pyarrow"):
        module = pytest.importorskip(library)
        rows = module.from_pandas(X) if library == "polars" else module.Table.from_pandas(X)
    elif library == "objects":
        rows = X.to_numpy(dtype=object)
    elif library == "text":
        rows = X.assign(
            size=X["size"].astype(str), is_new=X["is_new"].astype(int), city=X["city"].astype("category")
        )
    elif library == "pool":
        rows = catboost.Pool(X, cat_features=CATEGORIES)
    elif library == "shuffled":
        rows, expected = X[X.columns[::-1]], expected[:, ::-1]
    np.testing.assert_array_equal(explainer.shap_values(rows), expected)


def test_a_row_without_a_category_has_no_statistic(explainer: TreeExplainer) -> None:
    """CatBoost refuses it; here it is as good as a category that was never seen."""
    X = frame(30, seed=13)
    missing, unseen = X.assign(city=None), X.assign(city="nowhere")
    np.testing.assert_array_equal(
        explainer.shap_values(missing, check_additivity=False), explainer.shap_values(unseen)
    )


def test_a_pool_of_trees_that_are_not_symmetric_is_refused() -> None:
    """Their leaves do not answer every condition."""
    explainer = TreeExplainer(trained(grow_policy="Lossguide", iterations=5))
    with pytest.raises(InputError, match="frame or array that it was made of"):
        explainer.shap_values(catboost.Pool(frame(5), cat_features=CATEGORIES))


def test_a_pool_is_not_shown_as_numbers_that_it_does_not_have(explainer: TreeExplainer) -> None:
    explanation = explainer(catboost.Pool(frame(5), cat_features=CATEGORIES))
    assert explanation.data is None


def test_many_different_categories_are_found_one_by_one() -> None:
    """Where rows could have more keys than there are rows, each row is asked for its own."""
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"a": rng.integers(200, size=500).astype(str), "b": rng.integers(200, size=500)})
    model = catboost_regressor_on(X, rng.normal(size=500), cat_features=["a", "b"], max_ctr_complexity=2)
    ensemble = import_model(model)
    assert any(len(lookup.columns) == 2 for lookup in ensemble.row_format.lookups)
    rows = read_rows(X, ensemble.row_format)
    np.testing.assert_allclose(ensemble.predict(rows[0:500])[:, 0], model.predict(X), rtol=0, atol=1e-13)
    np.testing.assert_array_equal(np.concatenate([rows[i : i + 1] for i in range(500)]), rows[0:500])


def small_file(tmp_path: Path) -> tuple[Path, bytes]:
    path = tmp_path / "model.cbm"
    zoo.load("catboost_statistics").model.save_model(str(path))
    return path, path.read_bytes()


def test_a_file_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    path, content = small_file(tmp_path)
    for size in range(0, len(content), 211):
        path.write_bytes(content[:size])
        with pytest.raises((FileFormatError, UnsupportedModelError)):
            import_model(path)


def test_a_damaged_file_never_does_more_than_raise(tmp_path: Path) -> None:
    """Changed bytes give a clear error or another well-formed model, never a crash."""
    path, content = small_file(tmp_path)
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = np.frombuffer(content, dtype=np.uint8).copy()
        damaged[rng.integers(len(content), size=rng.integers(1, 40))] = rng.integers(256)
        path.write_bytes(damaged.tobytes())
        with suppress(FileFormatError, ModelError):
            ensemble = import_model(path)
            assert isinstance(ensemble, TreeEnsemble)
            read_rows(catboost_frame(zoo.load("catboost_statistics").rows[:3]), ensemble.row_format)[0:3]


def test_a_model_without_its_statistics_is_refused(tmp_path: Path) -> None:
    path, content = small_file(tmp_path)
    path.write_bytes(content[: 8 + int.from_bytes(content[4:8], "little")])
    with pytest.raises(UnsupportedModelError, match="without the statistics"):
        import_model(path)
