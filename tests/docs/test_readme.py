"""The lines of the README work for every library, every kind of frame and every task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_docs import ROOT, code_blocks

import linear_treeshap
from linear_treeshap.importers import raw_prediction

NAMES = ["age", "bmi", "blood pressure", "glucose"]
MODELS = {
    "xgboost": ("XGBRegressor", "XGBClassifier", {"n_estimators": 5, "n_jobs": 1}),
    "lightgbm": ("LGBMRegressor", "LGBMClassifier", {"n_estimators": 5, "n_jobs": 1, "verbose": -1}),
    "catboost": (
        "CatBoostRegressor",
        "CatBoostClassifier",
        {"n_estimators": 5, "thread_count": 1, "verbose": 0, "allow_writing_files": False},
    ),
    "sklearn.ensemble": (
        "RandomForestRegressor",
        "RandomForestClassifier",
        {"n_estimators": 5, "random_state": 0},
    ),
}


def _lines_after_training() -> str:
    """What the README does with a model and its rows."""
    (block,) = code_blocks(ROOT / "README.md")
    return block[block.index("explanation = ") :]


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
@pytest.mark.parametrize("frames", ["pandas", "polars"])
@pytest.mark.parametrize("library", MODELS)
def test_the_example_works_for_every_library_frame_and_task(
    library: str, frames: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frames of the same library come out, with every feature, and values that add up to the prediction."""
    pytest.importorskip("bokeh")
    monkeypatch.chdir(tmp_path)
    frame_library = pytest.importorskip(frames)
    regressor, classifier, options = MODELS[library]
    name = regressor if task == "regression" else classifier
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(90, len(NAMES)))
    score = numbers[:, 0] * numbers[:, 1] + numbers[:, 2]
    y = {"regression": score, "binary": score > 0, "multiclass": np.digitize(score, [-0.5, 0.5])}[task]
    columns = dict(zip(NAMES, numbers.T, strict=True))
    # Trained on pandas: not every release of every library can be trained on polars.
    rows = pytest.importorskip("pandas").DataFrame(columns)
    model = getattr(pytest.importorskip(library), name)(**options).fit(rows, y)
    X = frame_library.DataFrame(columns)

    namespace: dict[str, Any] = {"model": model, "X": X, "TreeExplainer": linear_treeshap.TreeExplainer}
    exec(_lines_after_training(), namespace)

    explanation = namespace["explanation"]
    total = explanation.base_values + explanation.values.sum(axis=1)
    # float32 rounding of a handful of terms
    np.testing.assert_allclose(total.reshape(len(X), -1), raw_prediction(model, rows), rtol=2e-6, atol=2e-6)
    importance, values = explanation.importance(), explanation.to_frame()
    assert isinstance(importance, frame_library.DataFrame)
    assert set(importance["feature"]) == set(NAMES)
    assert isinstance(values, frame_library.DataFrame)
    assert set(NAMES) <= set(values.columns)
