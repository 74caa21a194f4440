"""Explanation: cut by position and name, turned into frames, pictures' data and HTML, and never changed."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
from typing import Any

import numpy as np
import pytest
import zoo

from linear_treeshap import Explanation, InputError, MissingDependencyError, TreeExplainer

pd = pytest.importorskip("pandas")

NAMES = ("age", "sex", "bmi")


@pytest.fixture
def single() -> Explanation:
    """Four rows, three features, one output, from pandas with an index of its own."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        rng.normal(size=(4, 3)), columns=list(NAMES), index=pd.Index(list("wxyz"), name="id")
    )
    return Explanation(rng.normal(size=(4, 3)), np.full(4, 0.5), table, NAMES, index=table.index)


@pytest.fixture
def several() -> Explanation:
    """Four rows, three features, two outputs, from an array."""
    rng = np.random.default_rng(1)
    return Explanation(
        rng.normal(size=(4, 3, 2)), rng.normal(size=(4, 2)), rng.normal(size=(4, 3)), NAMES, ("no", "yes")
    )


# -- cutting ------------------------------------------------------------------------------------------


#: Key → the same key for the array of values.
CUTS: list[tuple[Any, Any]] = [
    (0, 0),
    (-1, -1),
    (slice(1, 3), slice(1, 3)),
    ([2, 0], [2, 0]),
    (np.array([True, False, True, False]), [0, 2]),
    ([True, False, True, False], [0, 2]),
    ((slice(None), "bmi"), (slice(None), 2)),
    ((slice(None), ["bmi", "age"]), (slice(None), [2, 0])),
    ((slice(None), -1), (slice(None), 2)),
    ((1, "sex"), (1, 1)),
    ((Ellipsis, "yes"), (Ellipsis, 1)),
    ((slice(None), slice(None), ["yes"]), (slice(None), slice(None), [1])),
    ((0, Ellipsis, "no"), (0, Ellipsis, 0)),
    (([0, 3], ["age", "bmi"], "no"), (np.ix_([0, 3], [0, 2], [0]))),
]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_cut_without_features_keeps_its_rows(library: str) -> None:
    """Although a frame without columns has none."""
    columns = {"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]}
    make = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}[library]
    table = getattr(pytest.importorskip(library), make)(columns)
    e = Explanation(np.ones((3, 2)), base_values=0.0, table=table, feature_names=("a", "b"))
    assert e[:, []].data.shape == e[:, []].values.shape == (3, 0)
    assert e[[2, 0], []].data.shape == (2, 0)
    assert e[0, []].data.shape == (0,)


@pytest.mark.parametrize(("key", "array_key"), CUTS, ids=[str(key) for key, _ in CUTS])
def test_cuts_are_those_of_the_array(several: Explanation, key: Any, array_key: Any) -> None:
    """By position, mask, name and lists of these; lists cut each axis on its own."""
    expected = several.values[array_key]
    cut = several[key]
    np.testing.assert_array_equal(cut.values, expected.reshape(cut.shape))
    assert cut.values.size == expected.size


def test_a_cut_takes_names_data_and_base_values_along(single: Explanation) -> None:
    cut = single[1:3, ["bmi", "age"]]
    assert cut.feature_names == ("bmi", "age")
    assert list(cut.index) == ["x", "y"]
    np.testing.assert_array_equal(cut.data, single.data[1:3][:, [2, 0]])
    assert list(cut.table.columns) == ["bmi", "age"]
    assert cut.base_values.shape == (2,)


def test_one_row_one_feature_one_output_lose_their_dimension(several: Explanation) -> None:
    assert several[0].axes == ("feature", "output")
    assert several[0].data.shape == (3,)
    assert several[0].base_values.shape == (2,)
    assert several[:, "age"].axes == ("row", "output")
    assert several[:, "age"].data.shape == (4,)
    assert several[..., "yes"].axes == ("row", "feature")
    assert several[..., "yes"].output_names == ("yes",)
    assert several[0, "age", "yes"].shape == ()
    np.testing.assert_array_equal(several[..., "yes"].base_values, several.base_values[:, 1])


def test_cuts_of_cuts(several: Explanation) -> None:
    """Dimensions that are gone are not counted again."""
    row = several[2]
    np.testing.assert_array_equal(row["bmi"].values, several.values[2, 2])
    np.testing.assert_array_equal(row[..., "yes"].values, several.values[2, :, 1])
    np.testing.assert_array_equal(several[..., "yes"][1:, "sex"].values, several.values[1:, 1, 1])


def test_a_slice_of_values_is_a_view(several: Explanation) -> None:
    """Cutting a large explanation copies nothing."""
    assert np.shares_memory(several[1:3].values, several.values)


@pytest.mark.parametrize(
    ("key", "error", "words"),
    [
        ((slice(None), "weight"), InputError, "no feature 'weight'. There are: 'age', 'sex', 'bmi'"),
        ((Ellipsis, "maybe"), InputError, "no output 'maybe'"),
        ("age", InputError, "Rows are chosen by position or mask"),
        (9, IndexError, "There are 4 rows; row 9"),
        ([0, 9], IndexError, "There are 4 rows; row 9"),
        ([-9, 0], IndexError, "There are 4 rows; row -9"),
        ((slice(None), None), InputError, "Choose features by"),
        ((slice(None), 0.5), InputError, "Choose features by"),
        ((slice(None), slice("age", "bmi")), InputError, "A slice is of positions"),
        (np.array([True, False]), InputError, r"mask of rows must be of shape \(4,\)"),
        ((0, 0, 0, 0), InputError, "Too many indices"),
        (([0.5],), InputError, "Choose rows by"),
    ],
    ids=str,
)
def test_a_wrong_cut_says_what_there_is(
    several: Explanation, key: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        several[key]


def test_polars_and_arrow_tables_are_cut_too() -> None:
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    table = {"age": [1.0, 2.0, 3.0], "sex": ["f", "m", "f"]}
    for frame in (pl.DataFrame(table), pa.table(table)):
        e = Explanation(np.arange(6.0).reshape(3, 2), 0.0, frame, ("age", "sex"))
        assert e[[2, 0], "sex"].data.tolist() == ["f", "f"]
        assert e[1].data.tolist() == [2.0, "m"]
        assert type(e[:2].table) is type(frame)


# -- being an array and a value -----------------------------------------------------------------------


def test_it_can_be_read_as_an_array(several: Explanation) -> None:
    assert np.asarray(several) is several.values
    assert len(several) == 4
    assert several.shape == (4, 3, 2)
    copied = np.array(several, copy=True)
    assert not np.shares_memory(copied, several.values)


def test_it_cannot_be_changed(single: Explanation) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        single.values = np.zeros(3)  # type: ignore[misc]


def test_it_survives_pickling(several: Explanation) -> None:
    again = pickle.loads(pickle.dumps(several))
    np.testing.assert_array_equal(again.values, several.values)
    assert again.output_names == several.output_names


def test_names_are_made_up_where_there_are_none() -> None:
    e = Explanation(np.zeros((2, 3, 2)), 0.0)
    assert e.feature_names == ("Feature 0", "Feature 1", "Feature 2")
    assert e.output_names == ("Output 0", "Output 1")
    assert e.data is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"feature_names": ("a",)}, "1 feature names were given for 3"),
        ({"output_names": ("a", "b")}, "2 output names were given for 1"),
        ({"base_values": np.zeros(7)}, "base_values must be of shape"),
        ({"axes": ("row",)}, "2 dimensions for the axes"),
    ],
    ids=str,
)
def test_parts_that_do_not_fit_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Explanation(**{"values": np.zeros((2, 3)), "base_values": 0.0, **options})


# -- frames -------------------------------------------------------------------------------------------


def test_the_wide_frame_has_the_user_s_columns_and_index(single: Explanation) -> None:
    frame = single.to_frame()
    assert list(frame.columns) == list(NAMES)
    assert frame.index.equals(single.index)
    np.testing.assert_array_equal(frame.to_numpy(), single.values)


def test_the_wide_frame_of_several_outputs_has_a_row_for_each(several: Explanation) -> None:
    frame = several.to_frame()
    assert list(frame.columns) == ["output", *NAMES]
    assert frame["output"].tolist() == ["no", "yes"] * 4
    np.testing.assert_array_equal(frame[list(NAMES)].to_numpy()[1::2], several.values[:, :, 1])


def test_the_long_frame_has_a_row_for_each_value(single: Explanation, several: Explanation) -> None:
    frame = single.to_frame("long")
    assert list(frame.columns) == ["row", "feature", "value"]
    assert frame["row"].tolist()[:4] == ["w", "w", "w", "x"]
    np.testing.assert_array_equal(frame["value"], single.values.reshape(-1))
    frame = several.to_frame("long")
    chosen = frame[(frame["row"] == 2) & (frame["feature"] == "bmi") & (frame["output"] == "yes")]
    assert chosen["value"].tolist() == [several.values[2, 2, 1]]


def test_rows_keep_labels_of_any_kind() -> None:
    """Times and pairs, for two."""
    for index in (
        pd.date_range("2024-01-01", periods=2, tz="UTC"),
        pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]),
    ):
        e = Explanation(np.eye(2), 0.0, pd.DataFrame(np.eye(2), index=index), index=index)
        assert e.to_frame().index.equals(index)
        if index.nlevels == 1:
            assert e.to_frame("long")["row"].tolist() == list(index.repeat(2))
            assert e.top(1)["row"].tolist() == list(index)
        else:  # each level is a column, which can be joined
            assert e.to_frame("long")[["row_0", "row_1"]].to_numpy().tolist() == [
                ["a", 1], ["a", 1], ["b", 2], ["b", 2]
            ]  # fmt: skip
            assert e.top(1)[["row_0", "row_1"]].to_numpy().tolist() == [["a", 1], ["b", 2]]
        assert e[1].to_frame().index.equals(index[1:])


def test_a_wide_frame_never_loses_a_feature_that_shares_its_name() -> None:
    """A frame has no two columns of one name; the long layout has a place for both."""
    twins = Explanation(np.ones((2, 2)), base_values=0.0, feature_names=("age", "age"))
    with pytest.raises(InputError, match="share a name"):
        twins.to_frame()
    assert len(twins.to_frame("long")) == 4


def test_an_unknown_layout_is_refused(single: Explanation) -> None:
    with pytest.raises(InputError, match="layout must be"):
        single.to_frame("tall")  # type: ignore[arg-type]


def test_frames_come_in_the_user_s_own_library() -> None:
    """polars in, polars out; Arrow in, Arrow out."""
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    table = {"age": [1.0, 2.0], "sex": [0, 1]}
    for frame in (pl.DataFrame(table), pa.table(table)):
        e = Explanation(np.eye(2), 0.0, frame, ("age", "sex"))
        for made in (e.to_frame(), e.to_frame("long"), e.importance(), e.top(1)):
            assert type(made) is type(frame)


def test_an_array_gives_frames_of_polars_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    pl = pytest.importorskip("polars")
    monkeypatch.setattr("linear_treeshap.rows.tables.find_spec", lambda name: name == "polars" or None)
    assert isinstance(Explanation(np.eye(2), 0.0).to_frame(), pl.DataFrame)


def test_without_any_library_for_frames_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linear_treeshap.rows.tables.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match="pip install pandas"):
        Explanation(np.eye(2), 0.0).to_frame()


def test_importance_is_the_mean_absolute_value_sorted(single: Explanation, several: Explanation) -> None:
    frame = single.importance()
    assert frame["importance"].is_monotonic_decreasing
    expected = dict(zip(NAMES, np.abs(single.values).mean(axis=0), strict=True))
    assert frame.set_index("feature")["importance"].to_dict() == pytest.approx(expected)
    total = several.importance()["importance"].sum()
    assert total == pytest.approx(np.abs(several.values).mean(axis=0).sum())


def test_top_names_the_largest_features_of_each_row(several: Explanation) -> None:
    frame = several.top(2)
    assert list(frame.columns) == ["row", "output", "rank", "feature", "value", "data"]
    assert len(frame) == 4 * 2 * 2
    chosen = frame[(frame["row"] == 1) & (frame["output"] == "yes")]
    order = np.argsort(-np.abs(several.values[1, :, 1]))[:2]
    assert chosen["feature"].tolist() == [NAMES[i] for i in order]
    assert chosen["value"].tolist() == several.values[1, order, 1].tolist()
    assert len(several.top(99)) == 4 * 2 * 3
    for nonsense in (0, 1.5, "x"):
        with pytest.raises(InputError, match="k must be a whole number of at least 1"):
            several.top(nonsense)  # type: ignore[arg-type]


def test_a_feature_called_output_keeps_its_name() -> None:
    frame = Explanation(np.zeros((1, 1, 2)), 0.0, feature_names=("output",)).to_frame()
    assert list(frame.columns) == ["output_", "output"]


# -- being shown --------------------------------------------------------------------------------------


def test_the_repr_names_the_largest_features(single: Explanation, several: Explanation) -> None:
    assert repr(single).startswith("Explanation(4 rows, 3 features: ")
    assert repr(several).startswith("Explanation(4 rows, 3 features, 2 outputs: ")
    assert repr(single[0]).count("+") + repr(single[0]).count("-") == 3
    assert repr(Explanation(np.zeros((1, 9)), 0.0)).endswith(", …)")


def test_html_is_a_small_escaped_table(single: Explanation) -> None:
    """Names come from data: they must not become markup. No scripts."""
    e = Explanation(np.ones((1, 20)), 2.0, feature_names=("<b>bold</b>", *(f"f{i}" for i in range(19))))
    shown = e._repr_html_()
    assert "<b>" not in shown
    assert "&lt;b&gt;bold" in shown
    assert "<script" not in shown
    assert "and 10 more features" in shown
    assert "prediction 22" in shown
    assert len(shown) < 5_000
    assert "mean |value|" in single._repr_html_()


def test_html_shows_the_data_of_one_row() -> None:
    table = pd.DataFrame({"age": [41.5], "town": ["<Ulm>"]})
    shown = Explanation(np.ones((1, 2)), 0.0, table, ("age", "town"))[0]._repr_html_()
    assert "41.5" in shown
    assert "&lt;Ulm&gt;" in shown


# -- shap ---------------------------------------------------------------------------------------------


def test_to_shap_is_shap_s_own_object(single: Explanation, several: Explanation) -> None:
    shap = pytest.importorskip("shap")
    for e in (single, several, single[0], single[:, "age"], several[..., "yes"]):
        theirs = e.to_shap()
        assert isinstance(theirs, shap.Explanation)
        np.testing.assert_array_equal(theirs.values, e.values)
        np.testing.assert_array_equal(theirs.base_values, e.base_values)
        np.testing.assert_array_equal(theirs.data, e.data)
    assert several.to_shap().output_names == ["no", "yes"]


#: The six lines of the README, for every library, and the outputs that it names.
SIX_LINES = [
    "xgboost_regressor",
    "xgboost_binary",
    "xgboost_multiclass",
    "lightgbm_regressor",
    "lightgbm_binary",
    "lightgbm_multiclass",
    "catboost_regressor",
    "catboost_binary",
    "catboost_multiclass",
    "sklearn_random_forest_regressor",
    "sklearn_random_forest_binary",
    "sklearn_hist_multiclass",
]


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("name", [name for name in SIX_LINES if name in zoo.names()])
def test_six_lines_from_a_model_to_a_frame(name: str, library: str) -> None:
    """Every library, pandas and polars, regression, two classes and several."""
    frames = pytest.importorskip(library)
    model = zoo.load(name)
    X = frames.DataFrame({f"f{i}": column for i, column in enumerate(model.rows.T)})
    explainer = TreeExplainer(model.model)
    explanation = explainer(X)
    for e in (explanation, explanation[0], explanation[:, 0]):
        assert isinstance(e.to_frame(), frames.DataFrame)
    assert len(explanation.importance()) == model.rows.shape[1]


# -- as shap's own -----------------------------------------------------------------------------------


def _plain() -> Explanation:
    return Explanation(np.array([[0.5, -2.0], [0.25, 1.0]]), base_values=3.0, feature_names=("age", "smoker"))


def test_an_explanation_passes_for_shap_s_and_for_ours() -> None:
    shap = pytest.importorskip("shap")
    e = _plain()
    assert isinstance(e, shap.Explanation)
    assert isinstance(e, Explanation)
    assert type(e) is Explanation


def test_what_only_shap_s_has_is_shap_s() -> None:
    shap = pytest.importorskip("shap")
    e = _plain()
    assert type(e.abs) is shap.Explanation
    np.testing.assert_array_equal(e.abs.mean(0).values, [0.375, 1.5])
    assert e.display_data is None
    assert len(e.sample(1)) == 1
    assert set(e.cohorts(["x", "y"]).cohorts) == {"x", "y"}
    assert not hasattr(e, "no_such_attribute")


def test_a_single_feature_has_a_name_as_in_shap() -> None:
    assert _plain()[:, "age"].feature_names == "age"
    assert _plain()[:, ["age"]].feature_names == ("age",)
    assert _plain()[:, "age"].importance()["feature"].tolist() == ["age"]
    assert _plain()[0, "age"].to_frame("long")["feature"].tolist() == ["age"]


def test_without_shap_an_explanation_is_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shap", None)
    assert _plain().__class__ is Explanation
    with pytest.raises(AttributeError, match=r"'mean' is shap's.*'\.\[plots\]'"):
        _plain().mean(0)


def test_copies_and_pickles_are_whole_whether_shap_is_there_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("shap")
    for _ in range(2):
        for again in (pickle.loads(pickle.dumps(_plain())), copy.copy(_plain()), copy.deepcopy(_plain())):
            assert type(again) is Explanation
            np.testing.assert_array_equal(again.values, _plain().values)
            assert again.feature_names == ("age", "smoker")
        assert type(dataclasses.replace(_plain(), base_values=1.0)) is Explanation
        monkeypatch.setitem(sys.modules, "shap", None)


def test_numpy_s_functions_see_the_values() -> None:
    """They would call shap's methods of the same names."""
    e = _plain()
    assert np.mean(e) == e.values.mean()
    np.testing.assert_array_equal(np.max(e, axis=0), [0.5, 1.0])
    np.testing.assert_array_equal(np.abs(e), np.abs(e.values))
    assert np.stack([e, e]).shape == (2, 2, 2)


# -- units ---------------------------------------------------------------------------------------------


def test_log_odds_are_called_so_and_have_a_probability_beside_them() -> None:
    model = zoo.load("xgboost_binary")
    explanation = TreeExplainer(model.model)(model.X)
    shown = explanation[0]._repr_html_()
    log_odds = float(explanation.base_values[0] + explanation.values[0].sum())
    assert f"log-odds {log_odds:.4g} (a probability of " in shown
    probability = float(model.model.predict_proba(model.X)[0, 1])
    assert explanation.about is not None
    assert explanation.about.probability(log_odds) == pytest.approx(probability, abs=1e-6)
    some = explanation[:, :2].about
    assert some is not None
    assert some.probability(log_odds) is None  # some features add up to nothing


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("sklearn_random_forest_binary", "probability"),
        ("lightgbm_binary", "log-odds"),
        ("sklearn_gradient_boosting_binary", "log-odds"),
        ("sklearn_random_forest_regressor", None),
        ("xgboost_regressor", None),
    ],
)
def test_units_are_those_of_the_output(name: str, unit: str | None) -> None:
    model = zoo.load(name)
    explanation = TreeExplainer(model.model)(model.rows)
    again = pickle.loads(pickle.dumps(TreeExplainer(model.model)))(model.rows)
    for about in (explanation.about, again.about):
        assert about is not None
        assert about.unit == unit
