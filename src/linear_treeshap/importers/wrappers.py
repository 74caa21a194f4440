"""Models that hold other models → TreeEnsemble of what is inside.

A pipeline stands for its last step, a search for its best estimator; multi-output wrappers put the
outputs of their models side by side. Rows are rows of the model inside: for a pipeline, what comes out
of the steps before the last.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..ensemble import TreeEnsemble
from ..errors import ModelError
from . import import_model
from . import raw_prediction as raw_prediction_of
from .assemble import Part, combine

__all__ = ["to_ensemble", "unwrap"]


def to_ensemble(model: Any) -> TreeEnsemble:
    inside = _models_inside(model)
    if len(inside) == 1:
        return import_model(inside[0])
    ensembles = [import_model(one) for one in inside]
    ends = np.cumsum([0] + [ensemble.n_outputs for ensemble in ensembles])
    parts = [Part(ensemble, range(int(ends[i]), int(ends[i + 1]))) for i, ensemble in enumerate(ensembles)]
    return combine(parts, int(ends[-1]), output_names=_output_names(ensembles))


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float64]:
    return np.hstack([raw_prediction_of(one, X) for one in _models_inside(model)])


def unwrap(model: Any) -> Any:
    """The model inside a pipeline or a search, however deep; any other model is returned as it is."""
    while hasattr(model, "steps") or hasattr(model, "best_estimator_"):
        model = model.steps[-1][1] if hasattr(model, "steps") else model.best_estimator_
    return model


def _models_inside(model: Any) -> list[Any]:
    inside = unwrap(model)
    if inside is not model:
        return [inside]
    if hasattr(model, "estimators_"):
        return list(model.estimators_)
    raise ModelError(
        f"This {type(model).__name__} holds no fitted model. Fit it first; a search needs refit=True."
    )


def _output_names(ensembles: list[TreeEnsemble]) -> list[str] | None:
    """The names of the outputs of all targets, each after its target's number."""
    if any(ensemble.output_names is None for ensemble in ensembles):
        return None
    return [
        f"{target}: {name}"
        for target, ensemble in enumerate(ensembles)
        for name in ensemble.output_names or ()
    ]
