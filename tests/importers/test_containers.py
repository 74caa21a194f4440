"""Rows inside the containers of XGBoost and CatBoost: read as the library reads them, or not at all."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zoo

from linear_treeshap import TreeExplainer, import_model
from linear_treeshap.errors import InputError, UnreadableRowsError
from linear_treeshap.importers import read_rows

pd = pytest.importorskip("pandas")

N_ROWS = 300
#: XGBoost adds up in float32; values are of the order of one.
RTOL, ATOL = 1e-4, 2e-5


def _xgboost(at_least: str = "0") -> Any:
    xgboost = pytest.importorskip("xgboost")
    release = tuple(int(part) for part in xgboost.__version__.split(".")[:2])
    if release < tuple(int(part) for part in at_least.split(".")):
        pytest.skip(f"XGBoost {at_least} or later re-codes categories")
    return xgboost


# -- XGBoost ---------------------------------------------------------------------------------------------


def test_a_dmatrix_is_read_back() -> None:
    """Absent entries of a DMatrix are missing; its names are matched like those of a frame."""
    xgboost = _xgboost()
    X = np.array([[1.0, math.nan, 0.0]])
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 3)), columns=["age", "size", "rank"])
    ensemble = import_model(xgboost.XGBRegressor(n_estimators=1).fit(frame, frame["age"]))
    named = xgboost.DMatrix(X, feature_names=["rank", "age", "size"])
    np.testing.assert_array_equal(read_rows(named, ensemble)[0:1], [[math.nan, 0, 1]])
    np.testing.assert_array_equal(read_rows(xgboost.DMatrix(X), ensemble)[0:1], X)


def _labelled(order: str, numbers: list[int], seed: int = 0) -> Any:
    """Two categorical columns around a number, with categories in an order of their own; some missing."""
    rng = np.random.default_rng(seed)
    word = rng.choice(list("abcde"), N_ROWS).astype(object)
    number = rng.choice([10, 20, 30], N_ROWS).astype(object)
    word[rng.random(N_ROWS) < 0.1] = None
    return pd.DataFrame(
        {
            "word": pd.Categorical(word, list(order)),
            "x": rng.normal(size=N_ROWS),
            "number": pd.Categorical(number, numbers),
        }
    )


def _trained(frame: Any, **options: Any) -> Any:
    xgboost = _xgboost()
    y = np.sin(2.0 * frame["word"].cat.codes) + frame["number"].cat.codes * np.where(
        frame["x"] > 0, 1.0, -0.5
    )
    data = xgboost.DMatrix(frame, y, enable_categorical=True)
    return xgboost.train({"max_depth": 4, "nthread": 1, **options}, data, 8)


CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "pandas": lambda frame: frame,
    "DMatrix": lambda frame: _xgboost().DMatrix(frame, enable_categorical=True),
    "QuantileDMatrix": lambda frame: _xgboost().QuantileDMatrix(frame, enable_categorical=True),
}


def _close(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=RTOL, atol=ATOL)


@pytest.mark.parametrize("options", [{}, {"max_cat_to_onehot": 1}], ids=["one category", "sets"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_categories_in_another_order_are_coded_again(container: str, options: dict[str, Any]) -> None:
    """Everything that reads rows: values, interactions, the background, with and without the check."""
    xgboost = _xgboost("3.1")
    booster = _trained(_labelled("abcde", [10, 20, 30]), **options)
    again = _labelled("ecdab", [30, 10, 20], seed=0)
    rows = CONTAINERS[container](again)
    own = booster.predict(xgboost.DMatrix(again, enable_categorical=True), pred_contribs=True)
    plain = xgboost.DMatrix(_labelled("abcde", [10, 20, 30]), enable_categorical=True)
    _close(own, booster.predict(plain, pred_contribs=True))
    explainer = TreeExplainer(booster)
    _close(explainer.shap_values(rows), own[:, :-1])
    _close(explainer.shap_values(rows, check_additivity=False), own[:, :-1])
    pairs = booster.predict(plain, pred_interactions=True)[:, :-1, :-1]
    _close(explainer.shap_interaction_values(rows), pairs)
    sums = explainer.interactions(rows).values.sum(axis=1) + explainer.expected_value
    _close(sums, booster.predict(plain))
    background = TreeExplainer(booster, data=rows)
    _close(background.expected_value, booster.predict(plain).mean())


def test_columns_in_another_order_are_coded_again_too() -> None:
    xgboost = _xgboost("3.1")
    frame = _labelled("abcde", [10, 20, 30])
    booster = _trained(frame)
    again = _labelled("ecdab", [30, 10, 20])[["number", "x", "word"]]
    values = TreeExplainer(booster).shap_values(
        xgboost.DMatrix(again, enable_categorical=True), check_additivity=False
    )
    own = booster.predict(xgboost.DMatrix(frame, enable_categorical=True), pred_contribs=True)
    _close(values, own[:, :-1])


def test_fewer_and_other_labels_keep_their_meaning() -> None:
    """A DMatrix of some rows has the categories of these rows only."""
    xgboost = _xgboost("3.1")
    frame = _labelled("abcde", [10, 20, 30])
    booster = _trained(frame)
    some = frame[frame["word"].isin(["d", "b"])].copy()
    some["word"] = some["word"].cat.remove_unused_categories()
    explainer = TreeExplainer(booster)
    values = explainer.shap_values(xgboost.DMatrix(some, enable_categorical=True))
    np.testing.assert_array_equal(values, explainer.shap_values(some))


def test_codes_stay_codes_where_one_side_has_no_labels() -> None:
    """A model or a DMatrix of an array knows codes only, and XGBoost reads codes as codes then."""
    xgboost = _xgboost()
    frame = _labelled("abcde", [10, 20, 30])
    codes = np.column_stack([frame["word"].cat.codes, frame["x"], frame["number"].cat.codes]).astype(float)
    codes[codes == -1] = np.nan
    types = {"feature_types": ["c", "q", "c"], "feature_names": list(frame)}
    nameless = xgboost.DMatrix(codes, np.nan_to_num(codes).sum(axis=1), enable_categorical=True, **types)
    by_labels, by_codes = _trained(frame), xgboost.train({"max_depth": 4}, nameless, 4)
    labelled = xgboost.DMatrix(_labelled("ecdab", [30, 10, 20]), enable_categorical=True)
    for booster, rows in ((by_labels, nameless), (by_codes, labelled)):
        _close(TreeExplainer(booster).shap_values(rows), booster.predict(rows, pred_contribs=True)[:, :-1])


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_frames_of_other_libraries_go_by_their_labels(library: str) -> None:
    _xgboost("3.1")  # which keeps labels
    frame = _labelled("abcde", [10, 20, 30])
    booster = _trained(frame.assign(number=frame["number"].astype(str).astype("category")))
    again = _labelled("ecdab", [30, 10, 20])
    again["number"] = again["number"].astype(str).astype("category")
    if library == "polars":
        pl = pytest.importorskip("polars")
        words = {name: again[name].astype(object).where(again[name].notna(), None).tolist() for name in again}
        rows = pl.DataFrame(
            words, schema_overrides={"word": pl.Categorical, "number": pl.Enum(["30", "10", "20"])}
        )
    else:
        rows = pytest.importorskip("pyarrow").Table.from_pandas(again)
    values = TreeExplainer(booster).shap_values(rows)
    expected = TreeExplainer(booster).shap_values(
        frame.assign(number=frame["number"].astype(str).astype("category"))
    )
    np.testing.assert_array_equal(values, expected)


def _binned(max_bin: int, n_rows: int = 2000) -> tuple[Any, npt.NDArray[np.float32], Any]:
    xgboost = _xgboost()
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n_rows, 3)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    data = xgboost.QuantileDMatrix(X, np.nan_to_num(X[:, 0] * X[:, 1] + X[:, 2]), max_bin=max_bin)
    return xgboost.train({"max_depth": 5, "max_bin": max_bin, "nthread": 1}, data, 10), X, data


def test_bins_of_the_training_data_say_all_that_trees_ask() -> None:
    """A QuantileDMatrix keeps bins, and every threshold of a model trained on it is the edge of a bin."""
    xgboost = _xgboost()
    booster, X, data = _binned(max_bin=16)
    explainer = TreeExplainer(booster)
    expected = explainer.shap_values(X)
    np.testing.assert_array_equal(explainer.shap_values(data), expected)
    others = X[::-1][:100]
    like = xgboost.QuantileDMatrix(others, ref=data, max_bin=16)
    np.testing.assert_array_equal(explainer.shap_values(like), expected[::-1][:100])


def test_bins_that_thresholds_cut_are_refused() -> None:
    """Which side of the threshold a number of such a bin is on is lost; XGBoost answers something."""
    xgboost = _xgboost()
    booster, X, _ = _binned(max_bin=64)
    coarse = xgboost.QuantileDMatrix(X, max_bin=4)
    with pytest.raises(UnreadableRowsError, match="keeps the bins of its numbers only, and in column 0"):
        TreeExplainer(booster).shap_values(coarse, check_additivity=False)


# -- CatBoost --------------------------------------------------------------------------------------------


def test_a_pool_is_read_back() -> None:
    """CatBoost's Pool of numeric features."""
    catboost = pytest.importorskip("catboost")
    model = zoo.load("catboost_regressor")
    pool = catboost.Pool(model.rows)
    ensemble = import_model(model.model)
    np.testing.assert_array_equal(
        read_rows(pool, ensemble)[0 : len(model.rows)], model.rows.astype(np.float32)
    )


def _one_hot() -> tuple[Any, Any]:
    catboost = pytest.importorskip("catboost")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=N_ROWS), "k": rng.choice(list("uvw"), N_ROWS)})
    model = catboost.CatBoostRegressor(
        iterations=10, cat_features=["k"], one_hot_max_size=10, verbose=0, allow_writing_files=False
    )
    return model.fit(frame, frame["a"] + (frame["k"] == "u")), frame


def test_a_pool_with_categories_is_read_by_the_leaves_of_its_rows(tmp_path: Path) -> None:
    """CatBoost does not give categories back, but says where they go: as long as it is there to be asked."""
    model, frame = _one_hot()
    pool = pytest.importorskip("catboost").Pool(frame, cat_features=["k"])
    explainer = TreeExplainer(model)
    np.testing.assert_array_equal(explainer.shap_values(pool), explainer.shap_values(frame))
    explainer.save(tmp_path / "explainer.lts")
    with pytest.raises(InputError, match="Pass the data frame or array"):
        TreeExplainer.load(tmp_path / "explainer.lts").shap_values(pool)
