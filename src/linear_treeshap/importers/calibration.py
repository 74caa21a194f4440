"""scikit-learn's CalibratedClassifierCV of two classes → TreeEnsemble of the raw outputs of its models.

There is one for each fold, side by side. The probability is the mean over folds of a function of each: what
its calibrator makes of the log-odds or of the probability that the model gives it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import UnsupportedModelError
from ..model.ensemble import TreeEnsemble
from ..model.joint_links import Block, Mixture
from ..model.links import Curve, Link, Logistic
from . import raw_prediction as raw_prediction_of
from .sklearn_trees import fitted
from .sums import as_exact_as, probabilities_of, read_inside, side_by_side

__all__ = ["mixture", "raw_prediction", "to_ensemble"]

Float64 = npt.NDArray[np.float64]


def to_ensemble(model: Any) -> TreeEnsemble:
    return side_by_side([read_inside(model, one) for one in _inside(model)])


def raw_prediction(model: Any, X: Any) -> Float64:
    parts = [raw_prediction_of(one, X) for one in _inside(model)]
    return as_exact_as(parts, np.hstack(parts))


def mixture(model: Any) -> Mixture:
    inside = _inside(model)
    blocks, first = [], 0
    for one, calibrated in zip(inside, model.calibrated_classifiers_, strict=True):
        bend, n_raw = probabilities_of(model, one)
        # A calibrator is given log-odds where the model has them under this name, and else a probability.
        response = None if hasattr(one, "decision_function") else bend
        assert response is None or isinstance(response, Logistic)
        curve = Curve(_Calibrated(calibrated, response, takes_odds=hasattr(one, "decision_function")))
        blocks.append(Block(1.0 / len(inside), (first + n_raw - 1,), curve))
        first += n_raw
    return Mixture(tuple(blocks), (str(model.classes_[1]),))


@dataclass(frozen=True)
class _Calibrated:
    """A raw output → the probability of the second class, by the calibrator of one fold."""

    calibrated: Any
    response: Link | None  # what makes a probability of the raw output, if the calibrator wants one
    takes_odds: bool

    def __call__(self, raw: Float64) -> Float64:
        given = raw.reshape(-1)
        if self.response is not None:
            given = self.response.apply(given, None)
        calibrator = self.calibrated.calibrators[0]
        if self.calibrated.method != "temperature":
            found = np.asarray(calibrator.predict(given), dtype=np.float64)
            return np.minimum(found, 1.0).reshape(raw.shape)
        table = given[:, None] if self.takes_odds else np.column_stack([1 - given, given])
        return np.asarray(calibrator.predict(table)[:, 1], dtype=np.float64).reshape(raw.shape)


def _inside(model: Any) -> list[Any]:
    """The models of all folds; one that was trained before is wrapped, so that it is not trained again."""
    calibrated = fitted(model, "calibrated_classifiers_")
    if len(model.classes_) != 2:
        raise UnsupportedModelError(
            f"This {type(model).__name__} has {len(model.classes_)} classes, whose calibrated probabilities "
            f"are divided by their sum: that is explained for two classes only. Explain the models before "
            f"calibration: model.calibrated_classifiers_[i].estimator."
        )
    models = [one.estimator for one in calibrated]
    return [one.estimator if type(one).__name__ == "FrozenEstimator" else one for one in models]
