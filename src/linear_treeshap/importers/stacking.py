"""scikit-learn's Stacking with a linear final model → TreeEnsemble: a weighted sum of the models inside.

The final model must be linear in what the others predict, and what these predict must be what their trees add
up to: predictions of regressors, probabilities of forests, the decision functions of boosters. A regressor's
output is that of ``predict``, a classifier's that of ``decision_function``: log-odds, if the final model is a
logistic regression.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import UnsupportedModelError
from ..model.ensemble import TreeEnsemble
from ..model.joint_links import Softmax
from ..model.links import Link, Logistic
from . import links
from . import raw_prediction as raw_prediction_of
from .model_output import is_distribution
from .sklearn_boosting import class_names
from .sklearn_trees import fitted
from .sums import Term, as_exact_as, read_inside, weighted_sum

__all__ = ["is_softmax", "link", "predicts_raw", "raw_prediction", "to_ensemble"]

Float64 = npt.NDArray[np.float64]


def to_ensemble(model: Any) -> TreeEnsemble:
    final = fitted(model, "final_estimator_")
    if model.passthrough:
        raise _refusal(model, "passthrough=True hands the columns themselves to its final model as well")
    matrix, offsets = _linear(model, final)
    terms, taken = [], 0
    for one, method in zip(model.estimators_, model.stack_method_, strict=True):
        ensemble = read_inside(model, one)
        _require_raw(model, one, method, ensemble)
        n_taken = 1 if _drops_first(model, method) else ensemble.n_outputs
        weight = np.zeros((len(matrix), ensemble.n_outputs))
        weight[:, ensemble.n_outputs - n_taken :] = matrix[:, taken : taken + n_taken]
        terms.append(Term(ensemble, weight))
        taken += n_taken
    return weighted_sum(terms, len(matrix), offsets, class_names(model, len(matrix)))


def raw_prediction(model: Any, X: Any) -> Float64:
    parts = [raw_prediction_of(one, X) for one in model.estimators_]
    taken = [
        part[:, 1:] if _drops_first(model, method) else part
        for part, method in zip(parts, model.stack_method_, strict=True)
    ]
    final = model.final_estimator_
    predict = final.decision_function if hasattr(model, "classes_") else final.predict
    return as_exact_as(parts, np.asarray(predict(np.hstack(taken)), dtype=np.float64))


def predicts_raw(model: Any) -> bool:
    return True


def link(model: Any) -> Link | None:
    """The logistic function, where that is what the final model does with its sum."""
    if len(getattr(model, "classes_", ())) != 2:
        return None
    return Logistic() if _agrees(model.final_estimator_, Logistic()) else None


def is_softmax(model: Any) -> bool:
    return len(getattr(model, "classes_", ())) > 2 and _agrees(model.final_estimator_, Softmax())


def _agrees(final: Any, bend: Logistic | Softmax) -> bool:
    """Are the probabilities of the final model this function of its raw outputs?"""
    if not hasattr(final, "predict_proba") or not hasattr(final, "decision_function"):
        return False
    rows = _probes(final)
    expected = bend.apply(np.asarray(final.decision_function(rows)).reshape(len(rows), -1), None)
    return bool(np.allclose(final.predict_proba(rows)[:, -expected.shape[1] :], expected))


def _linear(model: Any, final: Any) -> tuple[Float64, Float64]:
    """The coefficients (outputs × columns) and intercepts of the final model; it is tried, not believed."""
    predict = getattr(final, "decision_function", None) if hasattr(model, "classes_") else final.predict
    if predict is not None and hasattr(final, "coef_") and hasattr(final, "intercept_"):
        matrix = np.atleast_2d(np.asarray(final.coef_, dtype=np.float64))
        offsets = np.broadcast_to(np.asarray(final.intercept_, dtype=np.float64), (len(matrix),))
        rows = _probes(final)
        found = np.asarray(predict(rows)).reshape(len(rows), -1)
        if found.shape[1] == len(matrix) and np.allclose(found, rows @ matrix.T + offsets):
            return matrix, offsets
    raise _refusal(model, f"its final model, {type(final).__name__}, is not linear in what they predict")


def _probes(final: Any) -> Float64:
    return np.random.default_rng(0).normal(size=(16, int(final.n_features_in_)))


def _require_raw(model: Any, one: Any, method: str, ensemble: TreeEnsemble) -> None:
    """What the final model reads of this one must be what its trees add up to."""
    is_raw = {
        "predict": lambda: links.predicts_raw(one),
        "predict_proba": lambda: is_distribution(ensemble),
        "decision_function": lambda: hasattr(one, "decision_function") and not is_distribution(ensemble),
    }[method]()
    if not is_raw:
        remedy = ""
        if method == "predict_proba" and hasattr(one, "decision_function"):
            remedy = " Train it with stack_method='decision_function', whose sum can be explained."
        raise _refusal(
            model, f"{method} of {type(one).__name__} is not what its trees add up to", remedy=remedy
        )


def _drops_first(model: Any, method: str) -> bool:
    """Of two probabilities the final model is given the second."""
    return method == "predict_proba" and len(model.classes_) == 2


def _refusal(model: Any, reason: str, *, remedy: str = "") -> UnsupportedModelError:
    return UnsupportedModelError(
        f"This {type(model).__name__} is not a weighted sum of tree models: {reason}.{remedy} Or explain its "
        f"parts one by one: model.estimators_."
    )
