"""Frames as people have them: constant, empty, unused, ordered, rare and missing columns, codes in disorder.

Random columns and a random target that reads some of them, so that libraries drop others. Each library is
compared with its own contributions where it has any, and always with its own predictions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from linear_treeshap import TreeExplainer

pd = pytest.importorskip("pandas")

N_ROWS = 300
SEEDS = range(8)
Frame = Any
Random = np.random.Generator


def _with_gaps(values: Any, rng: Random, share: float = 0.1) -> Any:
    values = np.asarray(values, dtype=object)
    values[rng.random(N_ROWS) < share] = None
    return values


#: A column of each kind; each is in a frame or not.
COLUMNS: dict[str, Callable[[Random], Any]] = {
    "number": lambda rng: np.where(rng.random(N_ROWS) < 0.1, np.nan, rng.normal(size=N_ROWS)),
    "constant": lambda rng: np.full(N_ROWS, 3.0),
    "empty": lambda rng: np.full(N_ROWS, np.nan),
    "whole": lambda rng: rng.integers(-1, 4, N_ROWS),
    "truth": lambda rng: rng.random(N_ROWS) < 0.5,
    "few zeros": lambda rng: np.where(rng.random(N_ROWS) < 0.01, 1.0, 0.0),
    "word": lambda rng: pd.Categorical(_with_gaps(rng.choice(["red", "green", "blue"], N_ROWS), rng)),
    "size": lambda rng: pd.Categorical(
        _with_gaps(rng.choice(["S", "M", "L"], N_ROWS), rng), ["S", "M", "L"], ordered=True
    ),
    "year": lambda rng: pd.Categorical(_with_gaps(rng.choice([2024, 1999, 2001], N_ROWS), rng)),
    "one word": lambda rng: pd.Categorical(["only"] * N_ROWS, ["never", "only"]),
    "no word": lambda rng: pd.Categorical([None] * N_ROWS, ["never"]),
    "rare": lambda rng: pd.Categorical(rng.choice([f"v{i}" for i in range(40)], N_ROWS)),
    "noise": lambda rng: rng.normal(size=N_ROWS),
}


def _frame(seed: int) -> tuple[Frame, npt.NDArray[np.float64], Random]:
    rng = np.random.default_rng(seed)
    chosen = [name for name in COLUMNS if rng.random() < 0.7] or ["number"]
    rng.shuffle(chosen)
    frame = pd.DataFrame({name: COLUMNS[name](rng) for name in chosen})
    y = 0.1 * rng.normal(size=N_ROWS)
    for name in chosen:
        if rng.random() < 0.6:
            y += rng.normal() * np.sin(2.0 * pd.factorize(frame[name])[0]) * (1 + 0.5 * np.sign(y))
    return frame, y, rng


def _recoded(frame: Frame, rng: Random, *, unseen: bool) -> Frame:
    """Categories in another order, with some that training never saw; columns in another order too."""
    changed = frame.copy()
    for name in frame:
        if frame[name].dtype == "category":
            labels = list(rng.permutation(np.array(frame[name].cat.categories, dtype=object)))
            values = frame[name].astype(object)
            if unseen:
                extra = 7 if isinstance(labels[0], int) else "unseen"
                values[rng.random(N_ROWS) < 0.1] = extra
                labels.append(extra)
            changed[name] = pd.Categorical(values, labels, ordered=bool(frame[name].cat.ordered))
    return changed[list(rng.permutation(frame.columns))]


def _check(explainer: TreeExplainer, frame: Frame, rows: Frame, own: Any, tolerance: float) -> None:
    """Values and their pairs, for rows whose columns are in any order; ``own`` is in that of training."""
    position = [list(rows.columns).index(name) for name in frame.columns]
    values = explainer.shap_values(rows)  # compared with the library's predictions
    if own is not None:
        np.testing.assert_allclose(values[:, position], own, rtol=tolerance, atol=tolerance)
    pairs = explainer.shap_interaction_values(rows)
    np.testing.assert_allclose(pairs.sum(axis=2), values, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_xgboost(seed: int) -> None:
    xgboost = pytest.importorskip("xgboost")
    frame, y, rng = _frame(seed)
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=4, enable_categorical=True, n_jobs=1).fit(frame, y)
    explainer = TreeExplainer(model)
    rows = _recoded(frame, rng, unseen=False) if hasattr(xgboost.DMatrix, "get_categories") else frame
    for X in (frame, rows):
        data = xgboost.DMatrix(X[frame.columns], enable_categorical=True)
        own = model.get_booster().predict(data, pred_contribs=True)[:, :-1]
        _check(explainer, frame, X, own, 2e-5)  # float32
        np.testing.assert_array_equal(explainer.shap_values(data), explainer.shap_values(X[frame.columns]))


@pytest.mark.parametrize("seed", SEEDS)
def test_lightgbm(seed: int) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    frame, y, rng = _frame(seed)
    options = {"min_data_per_group": 1, "cat_smooth": 1.0, "min_child_samples": 3}
    frame.columns = frame.columns.str.replace(" ", "_")
    model = lightgbm.LGBMRegressor(n_estimators=5, num_leaves=12, n_jobs=1, verbose=-1, **options).fit(
        frame, y
    )
    explainer = TreeExplainer(model)
    for X in (frame, _recoded(frame, rng, unseen=True)):
        own = model.booster_.predict(X[frame.columns], pred_contrib=True)[:, :-1]
        _check(explainer, frame, X, own, 1e-10)


@pytest.mark.parametrize("seed", SEEDS)
def test_catboost(seed: int) -> None:
    """Its categories are text, whole numbers or truth values; a missing one is a text of the user's own."""
    catboost = pytest.importorskip("catboost")
    frame, y, _ = _frame(seed)
    for name in frame:
        if frame[name].dtype == "category":
            frame[name] = frame[name].astype(object).where(frame[name].notna(), "?")
    named = ("word", "size", "year", "one word", "no word", "rare", "truth", "whole")
    categorical = [name for name in frame if name in named]
    options = {"one_hot_max_size": 255, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
    if not set(frame) - {"constant", "empty", "one word", "no word"}:
        pytest.skip("CatBoost refuses frames in which nothing varies")
    model = catboost.CatBoostRegressor(iterations=5, depth=3, cat_features=categorical, **options).fit(
        frame, y
    )
    own = model.get_feature_importance(catboost.Pool(frame, cat_features=categorical), type="ShapValues")
    _check(TreeExplainer(model), frame, frame, own[:, :-1], 1e-10)
    _check(TreeExplainer(model), frame, frame[frame.columns[::-1]], own[:, :-1], 1e-10)


@pytest.mark.parametrize("seed", SEEDS)
def test_hist_gradient_boosting(seed: int) -> None:
    ensemble = pytest.importorskip("sklearn.ensemble")
    frame, y, rng = _frame(seed)
    frame = frame.drop(columns="empty", errors="ignore")  # which it cannot be trained on
    model = ensemble.HistGradientBoostingRegressor(max_iter=5, max_leaf_nodes=12, min_samples_leaf=3)
    explainer = TreeExplainer(model.fit(frame, y))
    for X in (frame, _recoded(frame, rng, unseen=True)):
        _check(explainer, frame, X, None, 0.0)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["RandomForestRegressor", "ExtraTreesRegressor"])
def test_forests(name: str, seed: int) -> None:
    """They know no categories: codes, of which -1 is missing."""
    frame, y, rng = _frame(seed)
    for column in frame:
        if frame[column].dtype == "category":
            frame[column] = frame[column].cat.codes
    frame = frame.drop(columns=[column for column in frame if frame[column].isna().all()])
    if frame.empty:
        pytest.skip("no column is left")
    forest = getattr(pytest.importorskip("sklearn.ensemble"), name)(
        n_estimators=5, max_depth=5, random_state=0
    )
    if name.startswith("Extra"):
        frame = frame.fillna(-9.0)  # its missing values are another test's
    explainer = TreeExplainer(forest.fit(frame, y))
    _check(explainer, frame, frame, None, 0.0)
    _check(explainer, frame, frame[list(rng.permutation(frame.columns))], None, 0.0)
