"""xgboost-distribution → TreeEnsemble: an output for each parameter of the predicted distribution.

The trees are XGBoost's; what they start from is kept beside them. Parameters are those that the trees add up
to: the logarithm of a scale, for one, whose exponential ``predict`` gives.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from ..model.ensemble import TreeEnsemble
from . import xgboost

__all__ = ["LIBRARY", "raw_prediction", "to_ensemble"]

LIBRARY = "xgboost-distribution"


def to_ensemble(model: Any) -> TreeEnsemble:
    ensemble = xgboost.to_ensemble(model)
    start = model._starting_params
    base_values = ensemble.base_values + np.asarray(start, dtype=np.float64)
    return replace(ensemble, base_values=base_values, output_names=tuple(start._fields))


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float64]:
    plain = import_module("xgboost_distribution").XGBDistribution.__base__  # its own predict bends parameters
    margin = plain.predict(model, X, output_margin=True, base_margin=model._get_base_margin(X.shape[0]))
    return np.asarray(margin, dtype=np.float64)
