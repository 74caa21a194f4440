"""Models that hold other models → TreeEnsemble of what is inside.

A pipeline stands for its last step, a search for its best estimator, a frozen model for itself; multi-output
wrappers put the outputs of their models side by side. The trees of a pipeline read what comes out of the
steps before the last; the rows of its own prediction are raw.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ModelError, UnsupportedModelError
from ..model.ensemble import TreeEnsemble
from . import import_model, links
from . import raw_prediction as raw_prediction_of
from .assemble import Part, combine
from .pipelines.preprocessing import preprocessing_of, unwrap

__all__ = ["predicts_raw", "raw_prediction", "refuse_preprocessing", "to_ensemble"]


def to_ensemble(model: Any) -> TreeEnsemble:
    inside = _models_inside(model)
    if len(inside) == 1:
        return import_model(inside[0])
    parts: list[Part] = []
    n_outputs = 0
    for one in inside:
        ensemble = import_model(one)
        parts.append(Part(ensemble, range(n_outputs, n_outputs + ensemble.n_outputs)))
        n_outputs += ensemble.n_outputs
    return combine(parts, n_outputs, output_names=_output_names(parts))


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float64]:
    preprocessing = preprocessing_of(model)
    rows = X if preprocessing is None else preprocessing.transform(X)
    return np.hstack([raw_prediction_of(one, rows) for one in _models_inside(model)])


def predicts_raw(model: Any) -> bool:
    return all(links.predicts_raw(one) for one in model.estimators_)


def refuse_preprocessing(model: Any, inside: Any) -> None:
    """Models side by side must read the same rows, which pipelines of their own need not."""
    if preprocessing_of(inside) is None:
        return
    name = type(model).__name__
    remedy = f"Put the transformers before it, make_pipeline(transformer, {name}(...)), or explain"
    raise UnsupportedModelError(
        f"A model inside this {name} is a pipeline that transforms rows for itself. "
        f"{remedy if hasattr(model, 'fit') else 'Explain'} the models inside one by one."
    )


def _models_inside(model: Any) -> list[Any]:
    inside = unwrap(model)
    if inside is None or isinstance(inside, str):
        raise ModelError(
            f"This {type(model).__name__} ends in {inside!r}; expected a model as its last step."
        )
    if inside is not model:
        return [inside]
    if hasattr(model, "estimators_"):
        for one in model.estimators_:
            refuse_preprocessing(model, one)
        return list(model.estimators_)
    raise ModelError(
        f"This {type(model).__name__} holds no fitted model. Fit it first; a search needs refit=True."
    )


def _output_names(parts: list[Part]) -> list[str] | None:
    """The names of the outputs of all targets, each after its target's number."""
    if any(part.ensemble.output_names is None for part in parts):
        return None
    return [
        f"{target}: {name}" for target, part in enumerate(parts) for name in part.ensemble.output_names or ()
    ]
