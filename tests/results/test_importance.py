"""global_importance: the same numbers as from all values at once, from batches of any kind and size."""

from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pytest
import zoo

from linear_treeshap import GlobalImportance, InputError, TreeExplainer, global_importance

pd = pytest.importorskip("pandas")


@pytest.fixture
def model() -> zoo.ZooModel:
    """A classifier of four classes that was trained on a data frame."""
    return zoo.load("sklearn_random_forest_multiclass")


def _assert_equal(a: GlobalImportance, b: GlobalImportance) -> None:
    """Sums of 300 numbers below 1 in different orders: some ulps apart."""
    assert (a.n_rows, a.feature_names, a.output_names) == (b.n_rows, b.feature_names, b.output_names)
    np.testing.assert_allclose(a.sum_abs, b.sum_abs, atol=1e-12)
    np.testing.assert_allclose(a.sum, b.sum, atol=1e-12)


def test_batches_give_the_numbers_of_all_values_at_once(model: zoo.ZooModel) -> None:
    X = model.X
    importance = global_importance(model.model, (X.iloc[start : start + 70] for start in range(0, 300, 70)))
    values = TreeExplainer(model.model).shap_values(X)
    assert importance.n_rows == 300
    np.testing.assert_allclose(importance.mean_abs, np.abs(values).mean(axis=0), atol=1e-14)
    np.testing.assert_allclose(importance.mean, values.mean(axis=0), atol=1e-14)
    assert importance.output_names == ("a", "b", "c", "d")


def test_a_single_table_is_a_batch(model: zoo.ZooModel) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    explainer = TreeExplainer(model.model)
    whole = global_importance(explainer, model.X)
    _assert_equal(whole, global_importance(explainer, model.rows))
    _assert_equal(whole, global_importance(explainer, [sparse.csr_matrix(model.rows)]))


def test_columns_in_another_order_are_matched_by_name(model: zoo.ZooModel) -> None:
    """Batches may differ in the order of their columns."""
    X = model.X
    shuffled = global_importance(model.model, [X[:100], X[100:][X.columns[::-1]]])
    _assert_equal(shuffled, global_importance(model.model, X))


def test_importances_of_parts_add_up(model: zoo.ZooModel) -> None:
    X = model.X
    parts = [global_importance(model.model, part) for part in (X[:90], X[90:100], X[100:])]
    _assert_equal(sum(parts[1:], parts[0]), global_importance(model.model, X))


def test_importances_of_different_models_do_not_add_up(model: zoo.ZooModel) -> None:
    other = zoo.load("sklearn_random_forest_regressor")
    with pytest.raises(InputError, match="different features or outputs"):
        global_importance(model.model, model.X) + global_importance(other.model, other.X)
    with pytest.raises(TypeError):
        global_importance(model.model, model.X) + 1  # type: ignore[operator]


def test_no_rows_are_of_no_importance(model: zoo.ZooModel) -> None:
    nothing = global_importance(model.model, [])
    assert nothing.n_rows == 0
    assert not nothing.mean_abs.any()


def test_the_frame_is_sorted_and_in_the_library_of_choice(model: zoo.ZooModel) -> None:
    pl = pytest.importorskip("polars")
    importance = global_importance(model.model, model.X)
    frame = importance.to_frame()
    assert list(frame.columns) == ["feature", "output", "mean_abs", "mean"]
    assert len(frame) == 5 * 4
    totals = frame.groupby("feature", sort=False)["mean_abs"].sum()
    assert totals.is_monotonic_decreasing
    assert isinstance(importance.to_frame(like=pl.DataFrame()), pl.DataFrame)


def test_memory_does_not_grow_with_the_rows() -> None:
    """200 batches of 1,000 rows; all values at once would take 19 MB."""
    model = zoo.load("sklearn_random_forest_deep")
    explainer = TreeExplainer(model.model)
    batch = np.resize(model.rows, (1000, 12))
    tracemalloc.start()
    try:
        importance = global_importance(explainer, (batch for _ in range(200)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert importance.n_rows == 200_000
    assert peak < 2_000_000


def test_importance_says_what_it_is() -> None:
    model = zoo.load("sklearn_random_forest_regressor")
    shown = repr(global_importance(model.model, model.rows))
    assert re.fullmatch(rf"GlobalImportance\({len(model.rows):,} rows, 5 features: Feature \d .*\)", shown)
    assert "array" not in shown
