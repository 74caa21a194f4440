"""What models do with the sum of their trees: whose ``predict()`` is the raw output, and who bends it how.

Classifiers name classes, and some regressors bend the sum (an exponential for counts, say); where in doubt
the answer is no, or none.
"""

from __future__ import annotations

import json
from typing import Any

from ..model.links import Exponential, Link, Logistic
from . import importer_name
from .pipelines.preprocessing import unwrap

__all__ = ["link_of", "predicts_raw"]

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
        objective = _xgboost_objective(inside)
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


def link_of(model: Any) -> Link | None:
    """The function that turns each raw output into a probability or a mean, on its own; None if there is none
    or it is not known. Softmax is none: it takes all raw outputs at once."""
    inside = unwrap(model)
    importer = importer_name(inside)
    if importer == "xgboost":
        return _XGBOOST.get(_xgboost_objective(inside))
    if importer == "lightgbm":
        name, *options = _lightgbm_objective(getattr(inside, "booster_", inside)) or ("",)
        sigmoid = [float(option.partition(":")[2]) for option in options if option.startswith("sigmoid:")]
        if name in ("binary", "multiclassova"):
            return Logistic(*sigmoid)
        return _LIGHTGBM_LINKS.get(name)
    if importer == "catboost":
        # Defaults are among all parameters only.
        loss = str(inside.get_all_params().get("loss_function")).partition(":")[0]
        is_logistic = loss in ("Logloss", "CrossEntropy", "MultiClassOneVsAll")
        return Logistic() if is_logistic else Exponential() if loss in ("Poisson", "Tweedie") else None
    if importer in ("sklearn_boosting", "sklearn_hist"):
        if hasattr(inside, "classes_"):
            # AdaBoost's loss is that of half the log-odds.
            scale = 2.0 if inside.loss == "exponential" else 1.0
            return Logistic(scale) if len(inside.classes_) == 2 else None
        return Exponential() if inside.loss in ("poisson", "gamma") else None
    return None


#: Objectives with a link; "binary:logitraw" leaves the logistic function to its user.
_XGBOOST: dict[str, Link] = {
    "binary:logistic": Logistic(),
    "binary:logitraw": Logistic(),
    "reg:logistic": Logistic(),
    "count:poisson": Exponential(),
    "reg:gamma": Exponential(),
    "reg:tweedie": Exponential(),
}
_LIGHTGBM_LINKS: dict[str, Link] = {
    "cross_entropy": Logistic(),
    "poisson": Exponential(),
    "gamma": Exponential(),
    "tweedie": Exponential(),
}


def _xgboost_objective(model: Any) -> str:
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    return str(json.loads(booster.save_config())["learner"]["objective"]["name"])


def _lightgbm_objective(booster: Any) -> list[str]:
    """The name of the objective and its options, as the model's text has them; empty if it has none."""
    lines = booster.model_to_string(num_iteration=1).partition("\nTree=")[0].splitlines()
    found = [line.removeprefix("objective=").split() for line in lines if line.startswith("objective=")]
    return found[0] if found else []


def _lightgbm_adds_up(booster: Any) -> bool:
    objective = _lightgbm_objective(booster)
    # A model trained on square roots squares its sum.
    return not objective or (objective[0] in _LIGHTGBM and "sqrt" not in objective)
