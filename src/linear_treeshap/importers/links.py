"""Whose ``predict()`` is the raw output: models whose last act is to add up their trees.

Classifiers name classes, and some regressors bend the sum (an exponential for counts, say); where in doubt
the answer is no.
"""

from __future__ import annotations

import json
from typing import Any

from . import importer_name
from .preprocessing import unwrap

__all__ = ["predicts_raw"]

#: LightGBM's objectives without a link; "custom" is a function of the user's own.
_LIGHTGBM = frozenset(
    {
        "custom",
        "fair",
        "huber",
        "lambdarank",
        "mape",
        "quantile",
        "rank_xendcg",
        "regression",
        "regression_l1",
    }
)
#: Those of XGBoost's objectives that begin with "reg:" or "rank:" and have a link.
_XGBOOST_LINKS = ("reg:logistic", "reg:gamma", "reg:tweedie")
#: CatBoost's losses whose ``predict()`` is not the raw output, by the beginnings of their names.
_CATBOOST_LINKS = ("Poisson", "Tweedie", "RMSEWithUncertainty")


def predicts_raw(model: Any) -> bool:
    """Does ``model.predict(X)`` give what `raw_prediction` gives?"""
    inside = unwrap(model)
    if not hasattr(inside, "predict") or hasattr(inside, "predict_proba"):
        return False
    importer = importer_name(inside)
    if importer == "xgboost":
        booster = inside.get_booster() if hasattr(inside, "get_booster") else inside
        objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
        return objective.startswith(("reg:", "rank:")) and objective not in _XGBOOST_LINKS
    if importer == "lightgbm":
        return _lightgbm_adds_up(getattr(inside, "booster_", inside))
    if importer == "catboost":
        return not str(inside.get_param("loss_function")).startswith(_CATBOOST_LINKS)
    if importer == "sklearn_hist":
        return inside.loss not in ("poisson", "gamma")
    if importer == "wrappers":
        return all(predicts_raw(one) for one in inside.estimators_)
    return importer in ("bagging", "sklearn_boosting", "sklearn_trees", "survival")


def _lightgbm_adds_up(booster: Any) -> bool:
    lines = booster.model_to_string(num_iteration=1).partition("\nTree=")[0].splitlines()
    objective = [line.removeprefix("objective=").split() for line in lines if line.startswith("objective=")]
    # A model trained on square roots squares its sum.
    return not objective or (objective[0][0] in _LIGHTGBM and "sqrt" not in objective[0])
