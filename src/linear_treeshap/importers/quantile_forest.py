"""Forests of the quantile-forest library → TreeEnsemble of their mean.

A quantile is not a sum of trees. The mean of the trees is, and that is what is explained: what a
plain random forest of the same trees would predict.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from ..model.ensemble import TreeEnsemble
from .sklearn_rows import predict_as_trained, tree_row_format
from .sklearn_trees import mean_of_trees

__all__ = ["LIBRARY", "raw_prediction", "to_ensemble"]

LIBRARY = "quantile-forest"


def to_ensemble(model: Any) -> TreeEnsemble:
    return mean_of_trees(model)


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float64]:
    plain_forest = import_module("sklearn.ensemble").RandomForestRegressor
    # Their predict answers with quantiles, and with a mean that weighs rows, not trees; the one
    # that they override is the mean of the trees.
    return predict_as_trained(partial(plain_forest.predict, model), X, tree_row_format(model))
