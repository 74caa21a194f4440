"""The zoo's models that predict distributions, risks over time and anomalies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from zoo import ZooModel, zoo_model
from zoo_rows import classes, numeric_rows, target

from linear_treeshap import survival_curve

ROWS = np.nan_to_num(numeric_rows(5))


def _finite(model: Any, **options: Any) -> ZooModel:
    return ZooModel(model, ROWS, takes_missing=False, takes_infinity=False, **options)


@zoo_model
def ngboost_normal() -> ZooModel:
    """Mean and logarithm of the standard deviation, from stages that see some of the columns."""
    ngboost = pytest.importorskip("ngboost")
    model = ngboost.NGBRegressor(n_estimators=6, col_sample=0.6, verbose=False, random_state=0)
    return _finite(model.fit(ROWS, target(ROWS)))


@zoo_model
def ngboost_classes() -> ZooModel:
    ngboost = pytest.importorskip("ngboost")
    distribution = pytest.importorskip("ngboost.distns").k_categorical(3)
    model = ngboost.NGBClassifier(Dist=distribution, n_estimators=4, verbose=False, random_state=0)
    return _finite(model.fit(ROWS, classes(ROWS, 3)))


@zoo_model
def pyod_isolation_forest() -> ZooModel:
    iforest = pytest.importorskip("pyod.models.iforest")
    return _finite(iforest.IForest(n_estimators=6, max_samples=64, random_state=0).fit(ROWS))


@zoo_model
def xgbdist_normal() -> ZooModel:
    """Its trees start from what it keeps beside them."""
    module = pytest.importorskip("xgboost_distribution")
    model = module.XGBDistribution(distribution="normal", n_estimators=6, max_depth=3)
    return ZooModel(model.fit(ROWS, 3 + target(ROWS)), ROWS, takes_infinity=False, tolerance=1e-6)


def survival_outcome() -> Any:
    """Times of events, and of people who were lost sight of."""
    util = pytest.importorskip("sksurv.util")
    return util.Surv.from_arrays(ROWS[:, 3] > -0.5, 1 + np.exp(target(ROWS)))


def survival_forest(rows: Any = ROWS, name: str = "RandomSurvivalForest") -> Any:
    forest = getattr(pytest.importorskip("sksurv.ensemble"), name)
    return forest(n_estimators=5, max_depth=4, random_state=0).fit(rows, survival_outcome())


@zoo_model
def sksurv_survival_forest() -> ZooModel:
    return _finite(survival_forest())


@zoo_model
def sksurv_survival_forest_missing() -> ZooModel:
    rows = numeric_rows(5)
    return ZooModel(survival_forest(rows), rows, takes_infinity=False)


@zoo_model
def sksurv_survival_tree_low_memory() -> ZooModel:
    tree = pytest.importorskip("sksurv.tree")
    model = tree.SurvivalTree(max_depth=4, low_memory=True, random_state=0).fit(ROWS, survival_outcome())
    return _finite(model)


@zoo_model
def sksurv_survival_curve() -> ZooModel:
    """Before the first step, on one, between two, and on the last."""
    forest = survival_forest()
    steps = forest.unique_times_
    return _finite(survival_curve(forest, times=[0.0, steps[20], (steps[90] + steps[91]) / 2, steps[-1]]))


@zoo_model
def sksurv_cumulative_hazard() -> ZooModel:
    return _finite(survival_curve(survival_forest(name="ExtraSurvivalTrees"), [1.5, 4], "cumulative hazard"))


def _boosted_survival(**options: Any) -> ZooModel:
    ensemble = pytest.importorskip("sksurv.ensemble")
    model = ensemble.GradientBoostingSurvivalAnalysis(n_estimators=6, random_state=0, **options)
    return _finite(model.fit(ROWS, survival_outcome()))


@zoo_model
def sksurv_boosting() -> ZooModel:
    return _boosted_survival()


@zoo_model
def sksurv_boosting_dropout() -> ZooModel:
    return _boosted_survival(dropout_rate=0.3)


@zoo_model
def sksurv_boosting_of_times() -> ZooModel:
    return _boosted_survival(loss="ipcwls")
