"""Rows that a model's own library refuses or misreads: values stay right, and errors stay ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import zoo
from zoo_catboost import catboost_regressor_on

from linear_treeshap import InputError, TreeExplainer

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
sparse = pytest.importorskip("scipy.sparse")

MODELS = [
    "sklearn_random_forest_regressor",
    "xgboost_regressor",
    "lightgbm_regressor",
    "catboost_regressor",
]

KINDS: dict[str, Callable[[Any], Any]] = {
    "other byte order": lambda rows: rows.astype(rows.dtype.newbyteorder()),
    "matrix": lambda rows: rows.view(np.matrix),
    "nothing masked": np.ma.masked_array,
    "sparse csr array": sparse.csr_array,
    "sparse csc array": sparse.csc_array,
    "sparse coo": sparse.coo_matrix,
    "sparse lil": sparse.lil_matrix,
    "polars": pl.DataFrame,
    "arrow": lambda rows: pa.table(list(rows.T), names=[f"f{i}" for i in range(rows.shape[1])]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_rows_a_library_would_not_take_are_explained_and_checked(name: str, kind: str) -> None:
    """LightGBM reads no csc_array, CatBoost no Arrow, scikit-learn no matrix; XGBoost ignores byte orders."""
    model = zoo.load(name)
    rows = np.where(model.rows == 0, 1.0, model.rows)  # zeros of sparse rows are missing for XGBoost
    explainer = TreeExplainer(model.model)
    np.testing.assert_array_equal(explainer.shap_values(KINDS[kind](rows)), explainer.shap_values(rows))


@pytest.mark.parametrize("name", ["xgboost_regressor", "lightgbm_regressor", "catboost_regressor"])
def test_masked_numbers_are_missing_in_the_check_too(name: str) -> None:
    """Libraries look through a mask at the numbers beneath."""
    model = zoo.load(name)
    mask = model.rows > 0.5
    explainer = TreeExplainer(model.model)
    np.testing.assert_array_equal(
        explainer.shap_values(np.ma.masked_array(model.rows, mask)),
        explainer.shap_values(np.where(mask, np.nan, model.rows)),
    )


def test_sparse_whole_numbers_are_checked_too() -> None:
    """LightGBM takes sparse rows of floating point only."""
    model = zoo.load("lightgbm_regressor")
    rows = sparse.csr_matrix(np.trunc(np.nan_to_num(model.rows)))
    explainer = TreeExplainer(model.model)
    values = explainer.shap_values(rows.astype(np.int64))
    np.testing.assert_array_equal(values, explainer.shap_values(rows))


def test_a_refusal_by_the_library_says_that_it_is_the_check_s() -> None:
    """scikit-learn's trees predict no infinities; without the check they can be explained."""
    model = zoo.load("sklearn_random_forest_regressor")
    rows = np.full_like(model.rows, np.inf)
    explainer = TreeExplainer(model.model)
    with pytest.raises(InputError, match=r"itself does not predict these rows.*check_additivity=False"):
        explainer.shap_values(rows)
    assert np.isfinite(explainer.shap_values(rows, check_additivity=False)).all()


def test_categories_in_polars_do_not_end_the_process() -> None:
    """CatBoost 1.2.10 dies of a polars categorical column."""
    labels = np.array(["red", "green", "blue"])[np.arange(60) % 3]
    frame = pd.DataFrame({"color": labels, "size": np.linspace(0.0, 1.0, 60)})
    model = catboost_regressor_on(
        frame, (labels == "red") + frame["size"], cat_features=[0], one_hot_max_size=5
    )
    explainer = TreeExplainer(model)
    polars = pl.DataFrame({"color": labels, "size": frame["size"].to_numpy()})
    np.testing.assert_array_equal(
        explainer.shap_values(polars.with_columns(pl.col("color").cast(pl.Categorical))),
        explainer.shap_values(frame),
    )


def test_rows_of_different_lengths_are_no_table() -> None:
    with pytest.raises(InputError, match="rows differ in length"):
        TreeExplainer(zoo.load("sklearn_random_forest_regressor").model).shap_values([[1.0, 2.0], [3.0]])


def test_columns_with_levels_are_known_by_the_names_that_xgboost_gives_them() -> None:
    """It joins the levels of a MultiIndex by spaces; one row of them has the same names."""
    xgboost = pytest.importorskip("xgboost")
    columns = pd.MultiIndex.from_tuples([("size", "width"), ("size", 1), ("colour", "(red)")])
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 3)), columns=columns)
    model = xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit(frame, frame.iloc[:, 1])
    explainer = TreeExplainer(model)
    values = explainer.shap_values(frame)
    np.testing.assert_array_equal(values, explainer.shap_values(frame.to_numpy()))
    np.testing.assert_array_equal(explainer.shap_values(frame.iloc[3]), explainer.shap_values(frame[3:4])[0])
    np.testing.assert_array_equal(explainer.shap_values(frame[frame.columns[::-1]]), values[:, ::-1])


def test_columns_that_the_model_does_not_read_may_share_a_name() -> None:
    """As after a join; those that it reads may not."""
    xgboost = pytest.importorskip("xgboost")
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["f1", "f2"])
    explainer = TreeExplainer(xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit(frame, frame["f1"]))
    joined = pd.concat([frame, frame.assign(note="x")[["note"]], frame.assign(note="y")[["note"]]], axis=1)
    np.testing.assert_array_equal(explainer.shap_values(joined), explainer.shap_values(frame))
    np.testing.assert_array_equal(explainer.shap_values(joined.iloc[0]), explainer.shap_values(frame[:1])[0])
    with pytest.raises(InputError, match="more than one column of the name 'f1'"):
        explainer.shap_values(pd.concat([joined, frame[["f1"]]], axis=1))
