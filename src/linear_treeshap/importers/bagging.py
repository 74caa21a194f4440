"""scikit-learn's Bagging over trees and forests → TreeEnsemble: the mean of the models inside.

Each of them may have been trained on a choice of columns and may have seen some classes only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import UnsupportedModelError
from ..model.ensemble import TreeEnsemble
from . import IMPORTERS
from .assemble import Part, combine
from .pipelines.preprocessing import unwrap
from .sklearn_rows import predict_as_trained, tree_row_format
from .sklearn_trees import fitted, mean_of_trees
from .wrappers import refuse_preprocessing

__all__ = ["predicts_raw", "raw_prediction", "to_ensemble"]


def to_ensemble(model: Any) -> TreeEnsemble:
    for estimator in fitted(model, "estimators_"):
        refuse_preprocessing(model, estimator)
    estimators = [unwrap(estimator) for estimator in model.estimators_]
    classes = getattr(model, "classes_", None)
    parts = []
    for estimator, features in zip(estimators, model.estimators_features_, strict=True):
        _require_tree(estimator)
        ensemble = mean_of_trees(estimator)
        # The models inside are trained on the numbers of the classes: these are our outputs.
        outputs = range(ensemble.n_outputs) if classes is None else [int(code) for code in estimator.classes_]
        parts.append(Part(ensemble, outputs, 1.0 / len(estimators), [int(feature) for feature in features]))
    return combine(
        parts,
        n_outputs=parts[0].ensemble.n_outputs if classes is None else len(classes),
        row_format=tree_row_format(model),
        output_names=None if classes is None else [str(label) for label in classes],
    )


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float64]:
    predict = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    return predict_as_trained(predict, X, tree_row_format(model))


def predicts_raw(model: Any) -> bool:
    return True


def _require_tree(estimator: Any) -> None:
    """Boosted classifiers, for one, are sums of log-odds, but bagging averages probabilities."""
    names = [f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in type(estimator).__mro__]
    if not any(IMPORTERS.get(name) == "sklearn_trees" for name in names):
        raise UnsupportedModelError(
            f"Bagging is explained over scikit-learn's trees and forests only; this one is made of "
            f"{type(estimator).__name__}. Explain the models inside one by one: model.estimators_."
        )
