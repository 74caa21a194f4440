"""PyOD's IForest → TreeEnsemble: path lengths in the isolation forest of scikit-learn that is inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..model.ensemble import TreeEnsemble
from . import isolation_forest
from .sklearn_trees import fitted

__all__ = ["LIBRARY", "raw_prediction", "to_ensemble"]

LIBRARY = "PyOD"


def to_ensemble(model: Any) -> TreeEnsemble:
    return isolation_forest.to_ensemble(fitted(model, "detector_"))


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float64]:
    return isolation_forest.raw_prediction(model.detector_, X)
