"""Curves of survival forests: the library's own at every time, and what is said where there are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zoo
from zoo_distributions import ROWS, survival_forest, survival_outcome

from linear_treeshap import TreeExplainer, survival_curve
from linear_treeshap.errors import InputError, ModelError, UnsupportedModelError
from linear_treeshap.importers import import_model

pytest.importorskip("sksurv")


@pytest.mark.parametrize("kind", ["survival", "cumulative hazard"])
def test_all_times_are_the_curve_that_the_forest_predicts(kind: Any) -> None:
    """An output for each step, with its time; to the rounding of a mean of five trees."""
    forest = survival_forest()
    curve = survival_curve(forest, kind=kind)
    explanation = TreeExplainer(curve)(ROWS[:5])
    method = f"predict_{kind.replace(' ', '_')}_function"
    theirs = getattr(forest, method)(ROWS[:5], return_array=True)
    assert explanation.values.shape == (5, 5, len(forest.unique_times_))
    np.testing.assert_allclose(
        explanation.values.sum(axis=1) + explanation.base_values, theirs, rtol=0, atol=1e-12 * theirs.max()
    )
    assert explanation.output_names is not None
    times = [float(name.removeprefix(f"{kind} at ")) for name in explanation.output_names]
    np.testing.assert_array_equal(times, forest.unique_times_)


def test_a_time_between_steps_is_read_as_their_step_function_does() -> None:
    """Called with the same times, those before the first step and the last one too."""
    forest = survival_forest()
    steps = forest.unique_times_
    times = [0.0, steps[0] / 2, steps[0], np.nextafter(steps[7], 0), steps[7], steps[7] + 1e-9, steps[-1]]
    theirs = [curve(times) for curve in forest.predict_survival_function(ROWS)]
    ours = import_model(survival_curve(forest, times)).predict(ROWS)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-14)


def test_the_risk_score_is_the_sum_of_the_cumulative_hazard_and_so_are_its_values() -> None:
    """Over the times with events: values are linear."""
    forest = survival_forest()
    events = forest.unique_times_[forest.is_event_time_]
    hazard = TreeExplainer(survival_curve(forest, events, "cumulative hazard")).shap_values(ROWS[:20])
    risk = TreeExplainer(forest).shap_values(ROWS[:20])
    np.testing.assert_allclose(hazard.sum(axis=2), risk, rtol=0, atol=1e-11 * np.abs(risk).max())


@pytest.mark.parametrize("is_search", [False, True])
def test_a_pipeline_stays_one(is_search: bool) -> None:
    """Raw rows, as the pipeline itself takes them; the pipeline is not changed."""
    pipeline = pytest.importorskip("sklearn.pipeline")
    scaler = pytest.importorskip("sklearn.preprocessing").StandardScaler()
    forest = pytest.importorskip("sksurv.ensemble").RandomSurvivalForest(5, max_depth=3, random_state=0)
    model = pipeline.make_pipeline(scaler, forest)
    if is_search:
        search = pytest.importorskip("sklearn.model_selection").GridSearchCV
        model = search(model, {"randomsurvivalforest__max_depth": [2]}, cv=2)
    model.fit(ROWS, survival_outcome())
    best = model.best_estimator_ if is_search else model
    explanation = TreeExplainer(survival_curve(model, times=[2.0]))(ROWS[:10])
    theirs = [curve(2.0) for curve in best.predict_survival_function(ROWS[:10])]
    total = (explanation.values.sum(axis=1) + explanation.base_values).ravel()
    np.testing.assert_allclose(total, theirs, rtol=1e-12)
    assert type(best.steps[-1][1]) is type(forest)


def test_a_saved_explainer_keeps_the_times(tmp_path: Path) -> None:
    model = zoo.load("sksurv_survival_curve")
    explainer = TreeExplainer(model.model)
    explainer.save(tmp_path / "curve.safetensors")
    loaded = TreeExplainer.load(tmp_path / "curve.safetensors")
    assert loaded.output_names == explainer.output_names
    np.testing.assert_array_equal(loaded.shap_values(model.X), explainer.shap_values(model.X))


def test_curves_of_forests_are_averaged() -> None:
    """A list of models is their mean, at the same times."""
    one, other = (survival_forest(name=name) for name in ("RandomSurvivalForest", "ExtraSurvivalTrees"))
    mean = import_model([survival_curve(forest, [1.5, 3]) for forest in (one, other)]).predict(ROWS)
    theirs = [
        [(f(1.5) + g(1.5)) / 2, (f(3.0) + g(3.0)) / 2]
        for f, g in zip(*(forest.predict_survival_function(ROWS) for forest in (one, other)), strict=True)
    ]
    np.testing.assert_allclose(mean, theirs, rtol=1e-12)


@pytest.mark.parametrize("times", [[-1.0], [1e9], [np.nan], [], [[1.0]]])
def test_times_that_were_not_seen_are_refused(times: Any) -> None:
    with pytest.raises(InputError, match=r"times must be numbers from 0 to .*the last time seen"):
        survival_curve(survival_forest(), times)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InputError, match="kind must be one of 'cumulative hazard', 'survival'; got 'hazard'"):
        survival_curve(survival_forest(), kind="hazard")  # type: ignore[arg-type]


def test_models_without_curves_say_so() -> None:
    with pytest.raises(UnsupportedModelError, match="GradientBoostingSurvivalAnalysis has no curves"):
        survival_curve(zoo.load("sksurv_boosting").model)
    with pytest.raises(UnsupportedModelError, match="low_memory=True and has kept no curves"):
        survival_curve(zoo.load("sksurv_survival_tree_low_memory").model)
    with pytest.raises(ModelError, match="not fitted yet"):
        survival_curve(pytest.importorskip("sksurv.ensemble").RandomSurvivalForest())


@pytest.mark.parametrize("kind", ["survival", "cumulative_hazard"])
def test_the_name_of_the_method_as_an_output_says_what_to_write(kind: str) -> None:
    with pytest.raises(InputError, match=rf"survival_curve\(model, .*kind='{kind.replace('_', ' ')}'"):
        TreeExplainer(survival_forest(), model_output=f"predict_{kind}_function")
