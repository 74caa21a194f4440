"""Small LightGBM models for the zoo."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from zoo import Rows, ZooModel, zoo_model
from zoo_rows import (
    N_ROWS,
    classes,
    coded_rows,
    coded_target,
    labelled_frame,
    labelled_model,
    numeric_rows,
    target,
)

#: One thread, and categories that are split however few rows they have.
LIGHTGBM_PARAMETERS = {
    "n_estimators": 8,
    "num_leaves": 12,
    "min_child_samples": 5,
    "min_data_per_group": 1,
    "cat_smooth": 1.0,
    "n_jobs": 1,
    "verbose": -1,
    "random_state": 0,
}


def lightgbm_regressor_on(rows: Rows, outcome: Rows, **parameters: Any) -> Any:
    lightgbm = pytest.importorskip("lightgbm")
    fitting = {"categorical_feature": parameters.pop("categorical_feature", "auto")}
    return lightgbm.LGBMRegressor(**{**LIGHTGBM_PARAMETERS, **parameters}).fit(rows, outcome, **fitting)


@zoo_model
def lightgbm_regressor() -> ZooModel:
    rows = numeric_rows()
    return ZooModel(lightgbm_regressor_on(rows, target(rows)), rows)


@zoo_model
def lightgbm_booster() -> ZooModel:
    lightgbm = pytest.importorskip("lightgbm")
    rows = numeric_rows()
    data = lightgbm.Dataset(rows, classes(rows, 2), feature_name=list("abcde"))
    parameters = {"objective": "binary", "num_threads": 1, "verbose": -1, "num_leaves": 8}
    return ZooModel(lightgbm.train(parameters, data, 10), rows)


@zoo_model
def lightgbm_binary() -> ZooModel:
    lightgbm = pytest.importorskip("lightgbm")
    rows = numeric_rows()
    return ZooModel(lightgbm.LGBMClassifier(**LIGHTGBM_PARAMETERS).fit(rows, classes(rows, 2)), rows)


@zoo_model
def lightgbm_multiclass() -> ZooModel:
    lightgbm = pytest.importorskip("lightgbm")
    rows = numeric_rows()
    names = np.array(["low", "middle", "high"])[classes(rows, 3)]
    return ZooModel(lightgbm.LGBMClassifier(**LIGHTGBM_PARAMETERS).fit(rows, names), rows)


@zoo_model
def lightgbm_ranker() -> ZooModel:
    lightgbm = pytest.importorskip("lightgbm")
    rows = numeric_rows()
    model = lightgbm.LGBMRanker(**LIGHTGBM_PARAMETERS).fit(rows, classes(rows, 4), group=[N_ROWS // 20] * 20)
    return ZooModel(model, rows)


@zoo_model
def lightgbm_random_forest() -> ZooModel:
    """Random forest mode averages, here three classes of several trees each."""
    lightgbm = pytest.importorskip("lightgbm")
    rows = numeric_rows()
    forest = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1}
    return ZooModel(
        lightgbm.LGBMClassifier(**LIGHTGBM_PARAMETERS, **forest).fit(rows, classes(rows, 3)), rows
    )


@zoo_model
def lightgbm_dart() -> ZooModel:
    rows = numeric_rows()
    return ZooModel(lightgbm_regressor_on(rows, target(rows), boosting_type="dart", drop_rate=0.5), rows)


@zoo_model
def lightgbm_early_stopped() -> ZooModel:
    """Stopped long after its best round; predict() uses the best one."""
    lightgbm = pytest.importorskip("lightgbm")
    rows = numeric_rows()
    noise = np.random.default_rng(0).normal(size=N_ROWS)
    model = lightgbm.LGBMRegressor(**{**LIGHTGBM_PARAMETERS, "n_estimators": 60}, learning_rate=0.5)
    held_out: dict[str, Any] = {"eval_X": rows, "eval_y": target(rows) - noise}
    if "eval_X" not in inspect.signature(model.fit).parameters:  # before LightGBM 4.7
        held_out = {"eval_set": [(rows, target(rows) - noise)]}
    stop = lightgbm.early_stopping(5, verbose=False)
    return ZooModel(model.fit(rows, target(rows) + noise, callbacks=[stop], **held_out), rows)


@zoo_model
def lightgbm_never_missing() -> ZooModel:
    """Trained without missing values: missing_type None, so NaN behaves as zero."""
    rows = numeric_rows(missing=0.0)
    return ZooModel(lightgbm_regressor_on(rows, target(rows)), rows)


@zoo_model
def lightgbm_zero_as_missing() -> ZooModel:
    """Zero is the most frequent value, and means missing."""
    rows = numeric_rows()
    rows[np.random.default_rng(3).random(rows.shape) < 0.2] = 0.0
    model = lightgbm_regressor_on(rows, target(rows), zero_as_missing=True)
    return ZooModel(model, rows)


@zoo_model
def lightgbm_single_leaves() -> ZooModel:
    """Too few rows for a split: every tree is one leaf."""
    rows = numeric_rows()
    return ZooModel(lightgbm_regressor_on(rows, target(rows) + 5, min_child_samples=N_ROWS), rows)


@zoo_model
def lightgbm_categorical() -> ZooModel:
    """Codes in an array; the second column needs more than one word of bits."""
    rows = coded_rows((3, 70))
    model = lightgbm_regressor_on(rows, coded_target(rows), categorical_feature=[0, 1])
    return ZooModel(model, rows, categorical=frozenset({0, 1}))


@zoo_model
def lightgbm_categorical_frame() -> ZooModel:
    """Words and numbers as categories; explained on a frame whose categories come in another order."""
    rows = coded_rows()
    return labelled_model(lightgbm_regressor_on(labelled_frame(rows), coded_target(rows)), rows)
