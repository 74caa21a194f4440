"""Reasons: the largest contributions in one direction, the same ones each time, and how sure they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from linear_treeshap import Explanation, InputError, TreeExplainer, stability

pd = pytest.importorskip("pandas")

NAMES = ("age", "months", "loans", "salary", "city")


def _explained(values: Any, base: float = -1.0, **options: Any) -> Explanation:
    values = np.atleast_2d(np.asarray(values, dtype=float))
    table = pd.DataFrame(np.arange(values.size).reshape(values.shape), columns=list(NAMES[: values.shape[1]]))
    return Explanation(values, base, table, tuple(table.columns), **options)


def _texts(column: Any) -> list[Any]:
    """What is missing is None, whichever way pandas has it."""
    return [None if pd.isna(text) else text for text in column]


def test_reasons_push_in_the_direction_asked_for_largest_first() -> None:
    e = _explained([[0.5, 2.0, -3.0, 1.0, 0.0], [-1.0, -2.0, -3.0, 0.0, 4.0]])
    up = e.reasons(toward="up")
    assert up["row"].tolist() == [0, 0, 0, 1]
    assert up["feature"].tolist() == ["months", "salary", "age", "city"]
    assert up["rank"].tolist() == [1, 2, 3, 1]
    assert up["data"].tolist() == [1, 3, 0, 9]
    down = e.reasons(2, toward="down")
    assert down["feature"].tolist() == ["loans", "loans", "months"]
    assert down["value"].tolist() == [3.0, 3.0, 2.0]


def test_shares_are_of_the_distance_to_the_base_value_or_to_a_threshold() -> None:
    e = _explained([[3.0, 1.0], [0.5, -1.0]], base=-1.0)  # outputs 3 and -1.5
    assert e.reasons(toward="up")["share"].tolist()[:2] == [0.75, 0.25]
    assert np.isnan(e.reasons(toward="up")["share"].tolist()[2])  # below the base value: nothing to share
    beyond = e.reasons(toward="up", threshold=1.0)
    assert beyond["row"].tolist() == [0, 0]  # the other row is not beyond it
    assert beyond["share"].tolist() == [1.5, 0.5]
    below = e.reasons(toward="down", threshold=0.0)
    assert (below["row"].tolist(), below["share"].tolist()) == ([1], [1.0 / 1.5])


def test_a_minimum_is_a_share() -> None:
    e = _explained([[6.0, 3.0, 1.0]])
    assert e.reasons(toward="up", minimum=0.3)["feature"].tolist() == ["age", "months"]
    assert e.reasons(toward="up", minimum=0.3)["margin"].tolist() == [5.0, 2.0]


def test_what_is_excluded_is_never_named_and_told_as_a_sum() -> None:
    e = _explained([[5.0, 2.0, -0.5, 1.0]])
    found = e.reasons(1, toward="up", exclude=["age", "loans"])
    assert found["feature"].tolist() == ["months"]
    assert found["undisclosed"].tolist() == [4.5]
    assert found["margin"].tolist() == [1.0]  # over the salary, not over what is hidden
    assert found["share"].tolist() == [2.0 / 7.5]  # its value stays in the sum


def test_the_margin_is_the_lead_over_the_first_that_is_not_named() -> None:
    e = _explained([[4.0, 3.0, 2.5, -9.0]])
    assert e.reasons(2, toward="up")["margin"].tolist() == [1.5, 0.5]
    assert e.reasons(3, toward="up")["margin"].tolist() == [4.0, 3.0, 2.5]  # all others push the other way


def test_equal_contributions_are_named_in_the_order_of_the_columns() -> None:
    rng = np.random.default_rng(0)
    e = _explained(rng.integers(0, 2, size=(200, 5)).astype(float) + 1)
    for _, group in e.reasons(5, toward="up").groupby("row"):
        for value in (1.0, 2.0):
            places = [NAMES.index(name) for name in group[group["value"] == value]["feature"]]
            assert places == sorted(places)


def test_codes_and_texts_stand_beside_the_features() -> None:
    e = _explained([[4.0, 3.0, 2.0]])
    found = e.reasons(toward="up", codes={"age": ("R1", "years of life"), "loans": "R3"})
    assert _texts(found["code"]) == ["R1", None, "R3"]
    assert _texts(found["text"]) == ["years of life", None, None]
    assert "text" not in e.reasons(toward="up", codes={"age": "R1"}).columns


def test_features_that_share_a_code_must_be_one_player() -> None:
    with pytest.raises(InputError, match=r"groups=\{'R1': \['age', 'loans'\]\}"):
        _explained([[4.0, 3.0, 2.0]]).reasons(toward="up", codes={"age": "R1", "loans": "R1"})


def test_one_line_for_each_row() -> None:
    e = _explained([[4.0, 3.0], [-1.0, -2.0]])
    wide = e.reasons(2, toward="up", codes={"age": "R1"}, layout="wide")
    assert wide["row"].tolist() == [0, 1]
    assert _texts(wide["feature_1"]) == ["age", None]
    assert _texts(wide["code_1"]) == ["R1", None]
    assert wide["value_2"].fillna(0).tolist() == [3.0, 0.0]


def test_numbers_stay_numbers_beside_categories() -> None:
    table = pd.DataFrame({"city": pd.Categorical(["Rome", None]), "age": [30, 40], "share": [0.5, np.nan]})
    table["own"] = [True, False]
    e = Explanation(np.array([[4.0, 3.0, 2.0, 1.0]] * 2), 0.0, table, tuple(table.columns))
    assert e.reasons(toward="up")["data"].tolist() == ["Rome", 30, 0.5, True, None, 40, None, False]
    assert e.top(2, layout="wide")["data_2"].tolist() == [30, 40]
    assert e.top(2, layout="wide")["data_2"].dtype == np.int64


def test_frames_of_polars_and_texts_among_numbers() -> None:
    """A column of polars has one type: where numbers and texts meet, it is text."""
    pl = pytest.importorskip("polars")
    table = pl.DataFrame({"city": ["Rome", None], "age": [30, 40]})
    e = Explanation(np.array([[2.0, 1.0], [2.0, 1.0]]), 0.0, table, ("city", "age"))
    found = e.reasons(toward="up")
    assert isinstance(found, pl.DataFrame)
    assert found["data"].to_list() == ["Rome", "30", None, "40"]
    assert e.top(1)["data"].to_list() == ["Rome", None]
    numbers = table.select("age", share=pl.Series([0.5, None]), city="city")
    e = Explanation(np.array([[2.0, 1.0, 0.0]] * 2), 0.0, numbers, tuple(numbers.columns))
    assert e.top(2)["data"].to_list() == [30.0, 0.5, 40.0, None]
    assert e.reasons(3, toward="up", layout="wide")["feature_3"].to_list() == [None, None]


def test_the_rise_of_one_output_of_several() -> None:
    e = Explanation(np.arange(12.0).reshape(1, 2, 6)[:, :, :3], 0.0, output_names=("a", "b", "c"))
    assert e.reasons(toward="b")["value"].tolist() == [7.0, 1.0]
    with pytest.raises(InputError, match="name one of the outputs 'a', 'b', 'c'"):
        e.reasons(toward="up")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"toward": "sideways"}, "'up' or 'down'"),
        ({"toward": "up", "exclude": ["height"]}, "exclude names 'height'"),
        ({"toward": "up", "codes": {"height": "R1"}}, "codes names 'height'"),
        ({"toward": "up", "top": 0}, "top must be a whole number"),
        ({"toward": "up", "layout": "tall"}, "layout must be"),
    ],
)
def test_nonsense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _explained([[4.0, 3.0]]).reasons(**options)


def test_a_monotone_model_s_values_have_the_right_sign_against_one_row() -> None:
    """Every marginal contribution has it; path-dependent values need not."""
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    X[:, 1] = 0.9 * X[:, 0] + 0.1 * X[:, 1]
    y = X[:, 0] - X[:, 1] + X[:, 2] * X[:, 3] + rng.normal(size=500)
    model = xgboost.XGBRegressor(n_estimators=50, monotone_constraints=(1, -1, 0, 0), n_jobs=1).fit(X, y)
    reference = X[:1]
    values = TreeExplainer(model, data=reference).shap_values(X)
    scale = 1e-12 * np.abs(values).max()
    assert ((values[:, 0] * np.sign(X[:, 0] - reference[0, 0])) >= -scale).all()
    assert ((values[:, 1] * np.sign(X[:, 1] - reference[0, 1])) <= scale).all()
    path_dependent = TreeExplainer(model).shap_values(X)
    order = np.argsort(X[:, 0])
    assert (np.diff(path_dependent[order, 0]) < 0).any()


# -- stability ---------------------------------------------------------------------------------------


def test_the_same_model_twice_is_stable() -> None:
    e = _explained(np.random.default_rng(0).normal(size=(20, 5)))
    found = stability([e, e, e], toward="up", top=3)
    assert (found.overlap == 1).all()
    assert (found.same_first == 1).all()
    assert found.kendall_w == pytest.approx(1.0)


def test_kendall_s_w_is_that_of_spearman_s_correlations() -> None:
    """W = (1 + (m - 1) r) / m, r the mean of the correlations of all pairs, where nothing is equal."""
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    several = [_explained(rng.normal(size=(20, 5))) for _ in range(4)]
    ranks = [stats.rankdata(e.importances) for e in several]
    r = np.mean([stats.spearmanr(ranks[i], ranks[j])[0] for i in range(4) for j in range(i)])
    assert stability(several, toward="up").kendall_w == pytest.approx((1 + 3 * r) / 4)


def test_what_cannot_be_compared_is_refused() -> None:
    one = _explained([[1.0, 2.0]])
    with pytest.raises(InputError, match="at least two explanations of the same rows"):
        stability([one], toward="up")
    with pytest.raises(InputError, match="of 2 kinds"):
        stability([one, _explained([[1.0, 2.0, 3.0]])], toward="up")


# -- the largest, of any sign --------------------------------------------------------------------------


def test_top_keeps_one_sign_and_lies_in_one_line_where_asked() -> None:
    e = _explained([[0.5, 2.0, -3.0], [-1.0, -2.0, -3.0]])
    up = e.top(2, sign="up")
    assert (up["row"].tolist(), up["feature"].tolist()) == ([0, 0], ["months", "age"])
    down = e.top(1, sign="down", layout="wide")
    assert down.to_dict("list") == {
        "row": [0, 1], "feature_1": ["loans", "loans"], "value_1": [-3.0, -3.0], "data_1": [2, 5]
    }  # fmt: skip


def test_frames_have_base_value_and_prediction_where_asked() -> None:
    e = _explained([[0.5, 2.0], [-1.0, -2.0]], base=3.0)
    wide, long = e.to_frame(base_values=True), e.to_frame("long", base_values=True)
    assert wide["prediction"].tolist() == [5.5, 0.0]
    assert long["base_value"].tolist() == [3.0] * 4
    assert long["prediction"].tolist() == [5.5, 5.5, 0.0, 0.0]
