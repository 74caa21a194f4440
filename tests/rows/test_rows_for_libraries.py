"""We take more kinds of rows than the libraries do: each kind is explained, and checked, with all of them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zoo
from few_rows import assert_same_values

from linear_treeshap import InputError, TreeExplainer

pd = pytest.importorskip("pandas")

NAMES = list("abcd")
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "xgboost": ("xgboost", "XGBRegressor", {"n_estimators": 4, "n_jobs": 1}),
    "lightgbm": ("lightgbm", "LGBMRegressor", {"n_estimators": 4, "n_jobs": 1, "verbose": -1}),
    "catboost": (
        "catboost",
        "CatBoostRegressor",
        {"n_estimators": 4, "thread_count": 1, "verbose": 0, "allow_writing_files": False},
    ),
    "forest": ("sklearn.ensemble", "RandomForestRegressor", {"n_estimators": 4, "random_state": 0}),
    "histogram": ("sklearn.ensemble", "HistGradientBoostingRegressor", {"max_iter": 4}),
}


def _numbers() -> npt.NDArray[np.float64]:
    """Whole numbers, so that every type holds them, none of them zero, so that sparse is dense."""
    return np.random.default_rng(0).integers(1, 50, size=(60, 4)).astype(np.float64)


def _frame() -> Any:
    return pd.DataFrame(_numbers(), columns=NAMES)


def _polars() -> Any:
    return pytest.importorskip("polars").from_pandas(_frame())


def _arrow() -> Any:
    return pytest.importorskip("pyarrow").Table.from_pandas(_frame())


def _sparse(layout: str) -> Any:
    return getattr(pytest.importorskip("scipy.sparse"), layout)(_numbers())


KINDS: dict[str, Callable[[], Any]] = {
    "float16": lambda: _numbers().astype(np.float16),
    "float32": lambda: _numbers().astype(np.float32),
    "int8": lambda: _numbers().astype(np.int8),
    "Fortran order": lambda: np.asfortranarray(_numbers()),
    "every other column": lambda: np.repeat(_numbers(), 2, axis=1)[:, ::2],
    "lists": lambda: _numbers().tolist(),
    "CSR": lambda: _sparse("csr_matrix"),
    "CSC": lambda: _sparse("csc_array"),
    "COO": lambda: _sparse("coo_array"),
    "pandas": _frame,
    "pandas Int64": lambda: _frame().astype("Int64"),
    "pandas Arrow": lambda: _frame().astype("double[pyarrow]"),
    "pandas objects": lambda: _frame().astype(object),
    "pandas decimals": lambda: _frame().map(Decimal),
    "pandas sparse": lambda: _frame().astype(pd.SparseDtype(float, 1.0)),
    "pandas with dates for an index": lambda: _frame().set_axis(pd.date_range("2024-01-01", periods=60)),
    "pandas numbered": lambda: _frame().astype("Float64").set_axis(range(4), axis=1),
    "polars": _polars,
    "polars lazy": lambda: _polars().lazy(),
    "Arrow table": _arrow,
    "Arrow batch": lambda: _arrow().to_batches()[0],
}
ROWS: dict[str, Callable[[], Any]] = {
    "array": lambda: _numbers()[0],
    "list": lambda: _numbers()[0].tolist(),
    "pandas Series": lambda: _frame().iloc[0],
    "dictionary": lambda: _frame().iloc[0].to_dict(),
    "polars Series": lambda: pytest.importorskip("polars").Series(_numbers()[0]),
}


@cache
def _explainer(name: str, with_names: bool) -> TreeExplainer:
    library, regressor, options = MODELS[name]
    X, y = _frame() if with_names else _numbers(), _numbers() @ [1.0, -2.0, 0.5, 0.0]
    return TreeExplainer(getattr(pytest.importorskip(library), regressor)(**options).fit(X, y))


@pytest.mark.parametrize("with_names", [True, False], ids=["named", "nameless"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_rows_gives_the_same_values(name: str, kind: str, with_names: bool) -> None:
    """Without a warning, and checked against the library, whether it takes such rows itself or not."""
    explainer = _explainer(name, with_names)
    values = explainer.shap_values(KINDS[kind]())
    np.testing.assert_array_equal(values, explainer.shap_values(_numbers(), check_additivity=False))


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("name", MODELS)
def test_one_row_of_every_kind_gives_the_same_values(name: str, kind: str) -> None:
    explainer = _explainer(name, True)
    values = explainer.shap_values(_numbers()[:1], check_additivity=False)
    np.testing.assert_array_equal(explainer.shap_values(ROWS[kind]()), values[0])


@pytest.mark.parametrize("with_names", [True, False], ids=["named", "nameless"])
@pytest.mark.parametrize("name", MODELS)
def test_missing_values_of_pandas_are_missing(name: str, with_names: bool) -> None:
    """Nullable columns say NA where arrays say NaN."""
    numbers = _numbers()
    numbers[numbers > 40] = np.nan
    library, regressor, options = MODELS[name]
    X = pd.DataFrame(numbers, columns=NAMES) if with_names else numbers
    model = getattr(pytest.importorskip(library), regressor)(**options).fit(X, _numbers()[:, 0])
    explainer = TreeExplainer(model)
    nullable = pd.DataFrame(numbers, columns=NAMES).astype("Float64")
    assert nullable.isna().any(axis=None)
    expected = explainer.shap_values(numbers, check_additivity=False)
    np.testing.assert_array_equal(explainer.shap_values(nullable), expected)


def _require_labels_of_xgboost() -> None:
    if not hasattr(pytest.importorskip("xgboost").DMatrix, "get_categories"):
        pytest.skip("XGBoost before 3.1 keeps no labels, and such a row is refused")


CATEGORICAL = ["xgboost_categorical_frame", "lightgbm_categorical_frame"]


@pytest.mark.parametrize("as_row", [lambda row: row, lambda row: row.tolist()], ids=["Series", "list"])
@pytest.mark.parametrize("name", CATEGORICAL)
def test_one_row_of_a_categorical_frame_is_read_as_in_the_frame(name: str, as_row: Any) -> None:
    """It has lost the types of its columns: a number among its labels is a label, not a code."""
    if name.startswith("xgboost"):
        _require_labels_of_xgboost()
    frame = zoo.load(name).X
    assert (frame.dtypes == "category").sum() == 2
    explainer = TreeExplainer(zoo.load(name).model)
    for row in range(20):
        values = explainer.shap_values(as_row(frame.iloc[row]))
        np.testing.assert_array_equal(values, explainer.shap_values(frame[row : row + 1])[0])


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_one_row_of_a_frame_whose_labels_are_all_numbers_is_read_as_in_the_frame(name: str) -> None:
    """pandas makes such a row an array of floats."""
    if name == "xgboost":
        _require_labels_of_xgboost()
    frame = _frame().astype({"a": int}).astype({"a": "category"})
    library, regressor, options = MODELS[name]
    options = {**options, "enable_categorical": True} if name == "xgboost" else options
    model = getattr(pytest.importorskip(library), regressor)(**options).fit(frame, np.sin(_numbers()[:, 0]))
    explainer = TreeExplainer(model)
    assert frame.iloc[0].dtype == np.float64
    assert_same_values(explainer.shap_values(frame.iloc[0])[None], explainer.shap_values(frame)[:1])


def test_one_row_without_types_is_refused_where_the_model_knows_no_labels() -> None:
    """As XGBoost before 3.1 never does, and later ones do not of arrays: 30 could be a label or a code."""
    xgboost = pytest.importorskip("xgboost")
    codes = np.stack([np.arange(60) % 4, np.linspace(0, 1, 60)], axis=1)
    matrix = xgboost.DMatrix(codes, np.sin(codes[:, 0]), feature_names=["a", "b"], feature_types=["c", "q"])
    explainer = TreeExplainer(xgboost.train({"max_depth": 2, "nthread": 1}, matrix, 3))
    frame = pd.DataFrame({"a": pd.Categorical.from_codes(codes[:, 0].astype(int), [10, 20, 30, 40])})
    frame["b"] = codes[:, 1]
    expected = explainer.shap_values(matrix)
    np.testing.assert_array_equal(explainer.shap_values(frame.iloc[[2]])[0], expected[2])
    np.testing.assert_array_equal(explainer.shap_values(codes[2]), expected[2])
    for row in (frame.iloc[2], frame.iloc[2].astype(object), {"a": 30, "b": codes[2, 1]}):
        with pytest.raises(InputError, match=r"categories in column 'a' and does not know their labels"):
            explainer.shap_values(row)
    with pytest.raises(InputError, match="could be a label or a code"):
        TreeExplainer(explainer.ensemble, data=frame.iloc[2])
