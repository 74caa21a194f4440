"""Weighted sums and means of models → one TreeEnsemble: values of a sum are sums of values, exactly.

- A list of models stands for the mean of their raw outputs, such as that of the models of cross-validation.
- A list of (weight, model) pairs stands for their weighted sum; weights are taken as they are.
- ``VotingRegressor`` is the mean of predictions, and ``VotingClassifier`` with soft voting that of
  probabilities. Those of forests are sums of trees. Those of boosters are not: then the raw outputs of all
  models stand side by side, and `mixture` says what is made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ModelError, UnsupportedModelError
from ..model.ensemble import TreeEnsemble
from ..model.joint_links import Block, JointLink, Mixture, Softmax
from ..model.links import Link, Logistic
from . import import_model, links
from . import raw_prediction as raw_prediction_of
from .assemble import Part, combine, with_outputs
from .model_output import is_distribution
from .row_formats import in_one_format
from .sklearn_trees import fitted
from .wrappers import refuse_preprocessing

__all__ = [
    "Term",
    "as_exact_as",
    "mixture",
    "predicts_raw",
    "probabilities_of",
    "raw_prediction",
    "read_inside",
    "side_by_side",
    "to_ensemble",
    "weighted_sum",
]

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Term:
    """Something that is added up."""

    ensemble: TreeEnsemble
    #: What its outputs count for: a number, or a matrix (outputs of the sum × outputs of the term).
    weight: float | Float64


def to_ensemble(model: Any) -> TreeEnsemble:
    pairs = _pairs(model)
    if mixture(model) is not None:
        return side_by_side([read_inside(model, one) for _, one in pairs])
    terms = [Term(_part(model, one), weight) for weight, one in pairs]
    n_outputs = sorted({term.ensemble.n_outputs for term in terms})
    if len(n_outputs) > 1:
        raise UnsupportedModelError(
            f"The models inside have {' and '.join(map(str, n_outputs))} outputs, which cannot be added up."
        )
    classes = getattr(model, "classes_", None)
    names = {term.ensemble.output_names for term in terms} if classes is None else {tuple(map(str, classes))}
    return weighted_sum(terms, n_outputs[0], output_names=names.pop() if len(names) == 1 else None)


def raw_prediction(model: Any, X: Any) -> Float64:
    pairs = _pairs(model)
    parts = [raw_prediction_of(one, X) for _, one in pairs]
    if mixture(model) is not None:
        return as_exact_as(parts, np.hstack(parts))
    total = sum(weight * part for (weight, _), part in zip(pairs, parts, strict=True))
    return as_exact_as(parts, np.asarray(total))


def mixture(model: Any) -> Mixture | None:
    """The mean of probabilities that voting is, if some of them are not what trees add up to."""
    if isinstance(model, (list, tuple)) or not hasattr(model, "predict_proba"):
        return None
    pairs = _pairs(model)
    bends = [probabilities_of(model, one) for _, one in pairs]
    if all(bend is None for bend, _ in bends):
        return None
    is_binary = len(model.classes_) == 2
    blocks, first = [], 0
    for (weight, _), (bend, n_raw) in zip(pairs, bends, strict=True):
        columns = range(first, first + n_raw)
        if is_binary and not isinstance(bend, JointLink):
            columns = columns[-1:]  # of two classes the second is explained, as a booster does
        blocks.append(Block(weight, tuple(columns), bend))
        first += n_raw
    return Mixture(tuple(blocks), tuple(map(str, model.classes_[-1:] if is_binary else model.classes_)))


def probabilities_of(model: Any, one: Any) -> tuple[Link | JointLink | None, int]:
    """What makes probabilities of the raw outputs of a model inside, None if they are that; and how many."""
    ensemble = read_inside(model, one)
    nested = links.mixture_of(one)
    if nested is not None:
        return nested, ensemble.n_outputs
    if is_distribution(ensemble):
        return None, ensemble.n_outputs
    found = links.link_of(one)
    if isinstance(found, Logistic) and ensemble.n_outputs == 1:
        return found, 1
    if links.is_softmax(one):
        return Softmax(), ensemble.n_outputs
    raise UnsupportedModelError(
        f"This {type(model).__name__} is a mean of probabilities, and it is not known what those of the "
        f"{type(one).__name__} inside are of what its trees add up to. Explain its parts one by one: "
        f"model.estimators_."
    )


def side_by_side(ensembles: Sequence[TreeEnsemble]) -> TreeEnsemble:
    """All outputs of all of them, one after another."""
    parts: list[Part] = []
    n_outputs = 0
    for ensemble in in_one_format(ensembles):
        parts.append(Part(ensemble, range(n_outputs, n_outputs + ensemble.n_outputs)))
        n_outputs += ensemble.n_outputs
    return combine(parts, n_outputs)


def predicts_raw(model: Any) -> bool:
    return True


def read_inside(model: Any, one: Any) -> TreeEnsemble:
    """The trees of a model that is a part of another."""
    refuse_preprocessing(model, one)
    try:
        return import_model(one)
    except UnsupportedModelError as error:
        raise UnsupportedModelError(
            f"A part of this {type(model).__name__} cannot be read, and so neither can the sum: {error}"
        ) from error


def as_exact_as(parts: Sequence[Float64], total: Float64) -> Float64:
    """A sum of predictions with the digits that it has: those of float32, if a library adds in float32."""
    with np.errstate(over="ignore"):
        is_rounded = any((part == part.astype(np.float32)).all() for part in parts)
        return total.astype(np.float32).astype(np.float64) if is_rounded else total


def weighted_sum(
    terms: Sequence[Term],
    n_outputs: int,
    offsets: Float64 | float = 0.0,
    output_names: Sequence[str] | None = None,
) -> TreeEnsemble:
    """Everything added up, plus ``offsets``."""
    parts = []
    ensembles = in_one_format([term.ensemble for term in terms])
    for ensemble, term in zip(ensembles, terms, strict=True):
        matrix = term.weight if isinstance(term.weight, np.ndarray) else term.weight * np.eye(n_outputs)
        parts.append(Part(with_outputs(ensemble, matrix), range(n_outputs)))
    total = combine(parts, n_outputs)
    return with_outputs(total, np.eye(n_outputs), offsets, output_names)


def _pairs(model: Any) -> list[tuple[float, Any]]:
    """The models inside with their weights."""
    if isinstance(model, (list, tuple)):
        return _listed(model)
    if getattr(model, "voting", None) == "hard":
        raise UnsupportedModelError(
            "With voting='hard' models vote for classes, which is no sum of what they predict. Explain its "
            "parts one by one, model.estimators_, or train it with voting='soft'."
        )
    inside = fitted(model, "estimators_")
    weights = model._weights_not_none
    shares = np.ones(len(inside)) if weights is None else np.asarray(weights, dtype=np.float64)
    return list(zip((shares / shares.sum()).tolist(), inside, strict=True))


def _listed(models: Sequence[Any]) -> list[tuple[float, Any]]:
    if not models:
        raise ModelError("The list of models is empty; expected fitted models, or (weight, model) pairs.")
    are_pairs = [isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], Real) for one in models]
    if not any(are_pairs):
        return [(1.0 / len(models), one) for one in models]
    if not all(are_pairs) or not all(np.isfinite(float(weight)) for weight, _ in models):
        raise ModelError(
            "A list must hold fitted models, whose mean is explained, or (weight, model) pairs with finite "
            "weights, whose weighted sum is; this one holds something else as well."
        )
    return [(float(weight), one) for weight, one in models]


def _part(model: Any, one: Any) -> TreeEnsemble:
    """The trees of a model inside, if what they add up to is what is averaged."""
    ensemble = read_inside(model, one)
    if isinstance(model, (list, tuple)):
        return ensemble
    if not hasattr(model, "predict_proba") and not links.predicts_raw(one):
        raise UnsupportedModelError(
            f"This {type(model).__name__} is a mean of predictions, and those of the {type(one).__name__} "
            f"inside are not what its trees add up to. Explain its parts one by one: model.estimators_."
        )
    return ensemble
