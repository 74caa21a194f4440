"""Sums over rows are exact: the same bits for any order, any batches, any merging; and by segment."""

from __future__ import annotations

import math
import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zoo
from hypothesis import given
from hypothesis import strategies as st

from linear_treeshap import InputError, TreeExplainer, global_importance, global_interactions
from linear_treeshap.results.exact_sum import ExactSum
from linear_treeshap.results.sums import BySegment

pd = pytest.importorskip("pandas")

Rows = npt.NDArray[np.float64]


def _bits(array: Any) -> bytes:
    return np.ascontiguousarray(array).tobytes()


numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(numbers, max_size=40), st.lists(st.integers(0, 40), max_size=3))
def test_a_sum_is_rounded_once(values: list[float], cuts: list[int]) -> None:
    """As by `math.fsum`, from the smallest to the largest numbers there are; in parts, and merged."""
    try:
        expected = math.fsum(values)
    except OverflowError:
        return
    parts = np.split(np.array(values).reshape(-1, 1), sorted(cuts))
    sums = []
    for part in parts:
        one = ExactSum((1,))
        one.add(part)
        sums.append(one)
    together = ExactSum((1,))
    for one in reversed(sums):
        together = one + together
    assert pickle.loads(pickle.dumps(together)).rounded()[0] == expected


def test_many_additions_do_not_overflow() -> None:
    """Ten thousand merges, each of the largest digit that a slice can leave."""
    one = ExactSum((2,))
    one.add(np.full((100, 2), np.ldexp(1.0, 32) - 1) * [1, -1])
    total = one
    for _ in range(20):  # a million slices
        total = total + total
    expected = float(2**20 * 100 * (2**32 - 1))
    assert total.rounded().tolist() == [expected, -expected]


def test_infinities_and_nan_are_kept() -> None:
    one, absolute = ExactSum((3,)), ExactSum((3,))
    one.add(np.array([[np.inf, 1.0, np.nan], [1.0, -np.inf, 0.0]]), absolute)
    np.testing.assert_array_equal(one.rounded(), [np.inf, -np.inf, np.nan])
    np.testing.assert_array_equal(absolute.rounded(), [np.inf, np.inf, np.nan])


@pytest.fixture(scope="module")
def model() -> zoo.ZooModel:
    return zoo.load("sklearn_random_forest_multiclass")


@pytest.mark.parametrize("seed", range(3))
def test_importance_has_the_same_bits_for_any_batches_in_any_order(model: zoo.ZooModel, seed: int) -> None:
    rng = np.random.default_rng(seed)
    explainer = TreeExplainer(model.model)
    whole = global_importance(explainer, model.X)
    cuts = np.sort(rng.integers(0, 300, size=7))
    bounds = [0, *cuts.tolist(), 300]
    parts = [model.X.iloc[a:b] for a, b in pairwise(bounds)]
    rng.shuffle(parts)
    at_once = global_importance(explainer, parts)
    merged = global_importance(explainer, [])
    for part in parts:
        merged = global_importance(explainer, part) + merged
    for found in (at_once, merged):
        assert _bits(found.sum) == _bits(whole.sum)
        assert _bits(found.sum_abs) == _bits(whole.sum_abs)
    values = explainer.shap_values(model.X)
    exact = [math.fsum(column) for column in values.reshape(300, -1).T]
    assert _bits(whole.sum) == _bits(np.array(exact))


def test_interactions_of_the_same_batches_have_the_same_bits_in_any_order(model: zoo.ZooModel) -> None:
    explainer = TreeExplainer(model.model)
    parts = [global_interactions(explainer, model.X.iloc[a : a + 60]) for a in range(0, 300, 60)]
    forwards, backwards = sum(parts[1:], parts[0]), sum(parts[-2::-1], parts[-1])
    assert _bits(forwards.sum) == _bits(backwards.sum)
    assert _bits(forwards.sum_abs) == _bits(backwards.sum_abs)


@pytest.mark.parametrize("make", [global_importance, global_interactions])
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_segments_are_those_of_their_rows(make: Any, library: str, model: zoo.ZooModel) -> None:
    """Each has what its rows alone would give; a missing label is a segment of its own."""
    explainer = TreeExplainer(model.model)
    labels = np.array(["May", "June", None], dtype=object)[np.arange(300) % 3]
    frame = model.X.assign(month=labels)
    batches = [frame.iloc[:130], frame.iloc[130:131], frame.iloc[131:]]
    if library == "polars":
        batches = [pytest.importorskip("polars").from_pandas(part) for part in batches]
    elif library == "pyarrow":
        arrow = pytest.importorskip("pyarrow")
        batches = [arrow.Table.from_pandas(part, preserve_index=False) for part in batches]
    found = make(explainer, batches, by="month")
    assert list(found) == [None, "June", "May"]
    for label, sums in found.items():
        alone = make(explainer, model.X[[one == label for one in labels]])
        assert sums.n_rows == alone.n_rows == 100
        np.testing.assert_allclose(sums.mean, alone.mean, atol=1e-15)
        np.testing.assert_allclose(sums.mean_abs, alone.mean_abs, atol=1e-15)
    merged = make(explainer, batches[2:], by="month") + make(explainer, batches[:2], by="month")
    for label in found:
        assert _bits(merged[label].sum) == _bits(found[label].sum)
    shown = found.to_frame()
    assert shown.columns[:2].tolist() == ["month", "n_rows"]
    assert len(shown) == 3 * len(found["May"].to_frame())


def test_a_feature_may_be_the_segment(model: zoo.ZooModel) -> None:
    X = model.X.copy()
    name = X.columns[0]
    X[name] = np.arange(300) % 2
    found = global_importance(model.model, X, by=name)
    assert [(label, sums.n_rows) for label, sums in found.items()] == [(0, 150), (1, 150)]
    assert repr(found).startswith("BySegment(")


def test_segments_that_cannot_be_are_refused(model: zoo.ZooModel) -> None:
    with pytest.raises(InputError, match="an array has no names"):
        global_importance(model.model, model.rows, by="month")
    with pytest.raises(InputError, match="must be a column of every batch; it has"):
        global_importance(model.model, model.X, by="month")
    one = BySegment("month", {"May": global_importance(model.model, model.X)})
    with pytest.raises(InputError, match="by 'month' and by 'year'"):
        one + BySegment("year", {})
    with pytest.raises(TypeError):
        one + 1  # type: ignore[operator]
    assert list(global_importance(model.model, [], by="month")) == []
