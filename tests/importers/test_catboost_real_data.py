"""CatBoost as people use it, on real data: default settings, columns of text as categories."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linear_treeshap import TreeExplainer, import_model
from linear_treeshap.engines.program import Program
from linear_treeshap.rows.rows import read_rows

catboost = pytest.importorskip("catboost")
pandas = pytest.importorskip("pandas")

DATA_VARIABLE = "LINEAR_TREESHAP_DATA"

#: Data set → its target, columns that are no features, and trees: all that are trained by default, or fewer.
DATA = {
    "adult": ("income", ["split"], 200),
    "ames_housing": ("SalePrice", [], 1000),
    "bank_marketing_full": ("y", [], 200),
    "titanic3": ("survived", [], 1000),
}


def _read(name: str) -> tuple[Any, Any, list[str]]:
    """The frame, the target, and the categories, in which what is missing is a category, for CatBoost."""
    target, others, _ = DATA[name]
    frame = pandas.read_parquet(Path(os.environ[DATA_VARIABLE]) / f"{name}.parquet").drop(columns=others)
    y = frame.pop(target)
    categories = [column for column in frame if not pandas.api.types.is_numeric_dtype(frame[column])]
    text = {column: frame[column].astype(object).fillna("missing").astype(str) for column in categories}
    return frame.assign(**text), y, categories


@pytest.mark.skipif(DATA_VARIABLE not in os.environ, reason=f"{DATA_VARIABLE} names no folder of data sets")
@pytest.mark.parametrize("name", DATA)
def test_predictions_and_values_are_catboost_s(name: str) -> None:
    X, y, categories = _read(name)
    kind = catboost.CatBoostRegressor if y.nunique() > 10 else catboost.CatBoostClassifier
    settings = {"verbose": 0, "allow_writing_files": False, "random_seed": 0, "iterations": DATA[name][2]}
    model = kind(**settings).fit(X, y, cat_features=categories)
    ensemble = import_model(model)
    assert any(len(lookup.columns) > 1 for lookup in ensemble.row_format.lookups)
    rows = read_rows(X, ensemble.row_format)
    ours = Program(ensemble).predict(rows[0 : len(X)])[:, 0]
    theirs = model.predict(X, prediction_type="RawFormulaVal")
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-13 * np.abs(theirs).max())
    some = X[:2000]
    own = model.get_feature_importance(catboost.Pool(some, cat_features=categories), type="ShapValues")
    values = TreeExplainer(model).shap_values(some)
    np.testing.assert_allclose(values, own[:, :-1], rtol=0, atol=1e-12 * np.abs(own).max())
