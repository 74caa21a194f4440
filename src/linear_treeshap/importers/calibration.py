"""scikit-learn's CalibratedClassifierCV → TreeEnsemble of the raw outputs of its models.

There is one model for each fold, side by side. The probability is the mean over folds of a function of each:
what its calibrators make of the log-odds or of the probabilities that the model gives them. Of three and more
classes each has a calibrator of its own, and what these say is divided by its sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import UnsupportedModelError
from ..model.ensemble import TreeEnsemble
from ..model.joint_links import Block, JointLink, Mixture, Softmax
from ..model.links import Curve, Link
from ..model.steps import EachClass, LogSoftmax, Shares, Steps
from . import raw_prediction as raw_prediction_of
from .sklearn_trees import fitted
from .sums import as_exact_as, probabilities_of, read_inside, side_by_side

__all__ = ["mixture", "raw_prediction", "to_ensemble"]

Float64 = npt.NDArray[np.float64]

#: What scikit-learn adds to probabilities before it takes their logarithms.
_LEAST = 1e-12


def to_ensemble(model: Any) -> TreeEnsemble:
    return side_by_side([read_inside(model, one) for one in _inside(model)])


def raw_prediction(model: Any, X: Any) -> Float64:
    parts = [raw_prediction_of(one, X) for one in _inside(model)]
    return as_exact_as(parts, np.hstack(parts))


def mixture(model: Any) -> Mixture:
    inside = _inside(model)
    is_binary = len(model.classes_) == 2
    blocks, first = [], 0
    for one, calibrated in zip(inside, model.calibrated_classifiers_, strict=True):
        bend, n_raw = probabilities_of(model, one)
        # A calibrator is given log-odds where the model has them under this name, and else probabilities.
        takes_odds = hasattr(one, "decision_function")
        response = None if takes_odds else bend
        columns = range(first, first + n_raw)
        link: Link | JointLink
        if not is_binary:
            link = Steps(_steps(calibrated, response, takes_odds=takes_odds))
        elif isinstance(response, JointLink):
            link = Steps((response, EachClass((Curve(_OfTwo(calibrated, None, takes_odds)),))))
        else:
            # The second class is explained, and everything is a function of its raw output.
            columns = columns[-1:]
            link = Curve(_OfTwo(calibrated, response, takes_odds))
        blocks.append(Block(1.0 / len(inside), tuple(columns), link))
        first += n_raw
    return Mixture(tuple(blocks), tuple(map(str, model.classes_[1:] if is_binary else model.classes_)))


@dataclass(frozen=True)
class _OfTwo:
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
        if not self.takes_odds:
            # A slope may be asked for just outside, where numbers are no longer taken for probabilities.
            given = np.clip(given, 0.0, 1.0)
        table = given[:, None] if self.takes_odds else np.column_stack([1 - given, given])
        return np.asarray(calibrator.predict(table)[:, 1], dtype=np.float64).reshape(raw.shape)


def _steps(calibrated: Any, response: Any, *, takes_odds: bool) -> tuple[JointLink, ...]:
    """Raw outputs of all classes → their probabilities, by the calibrators of one fold."""
    given = () if response is None else (response,)
    if calibrated.method != "temperature":
        curves = EachClass(tuple(Curve(_OfOne(calibrator)) for calibrator in calibrated.calibrators))
        return (*given, curves, Shares())
    sharpened = Softmax(float(calibrated.calibrators[0].beta_))
    if takes_odds:
        return (sharpened,)
    if isinstance(response, Softmax):
        return (LogSoftmax(_LEAST), sharpened)
    return (*given, EachClass((Curve(_logarithm),) * len(calibrated.classes)), sharpened)


@dataclass(frozen=True)
class _OfOne:
    """What a model gives for a class → what the calibrator of that class makes of it."""

    calibrator: Any

    def __call__(self, given: Float64) -> Float64:
        found = np.asarray(self.calibrator.predict(given.reshape(-1)), dtype=np.float64)
        return found.reshape(given.shape)


def _logarithm(probability: Float64) -> Float64:
    """A slope may be asked for just below zero."""
    return np.log(np.maximum(probability, 0.0) + _LEAST)


def _inside(model: Any) -> list[Any]:
    """The models of all folds."""
    inside = [one.estimator for one in fitted(model, "calibrated_classifiers_")]
    for number, one in enumerate(inside):
        if len(one.classes_) != len(model.classes_):
            raise UnsupportedModelError(
                f"This {type(model).__name__} has {len(model.classes_)} classes, and the model of fold "
                f"{number} was trained without some of them. Train it with folds that have rows of every "
                f"class, or explain models before calibration: model.calibrated_classifiers_[i].estimator."
            )
    return inside
