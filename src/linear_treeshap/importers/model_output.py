"""Which outputs of a model can be explained: the raw one, and functions of it where there is a background."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..model.ensemble import TreeEnsemble
from ..model.joint_links import JointLink, Mixture, Softmax, SoftmaxLoss
from ..model.links import Exponential, Function, Link, Logistic, LogLoss, SquaredError
from ..model.saved_model import SavedModel
from .links import advice_for, is_softmax, link_of, mixture_of, predicts_raw

__all__ = ["is_distribution", "link_for", "methods_of", "outcomes", "saved_model_of"]

#: A function of one raw output, or of all of them.
AnyLink = Link | JointLink

#: What shap calls outputs; the name of any prediction method is allowed besides.
_CHOICES = ("raw", "probability", "log_loss")
_PREFIXES = ("predict", "decision_function", "score_samples")

_SOFTMAX = (
    "Softmax takes all classes at once, and no slope of one raw output explains it. Use "
    "model_output='probability', or model_output='raw', whose differences between classes are log-odds."
)


def link_for(
    model_output: Any, model: Any, ensemble: TreeEnsemble, *, has_background: bool
) -> AnyLink | None:
    """The function of the raw output that ``model_output`` names; None if it is the raw output itself.

    Raises
    ------
    InputError
        There is no such output, the model does not have it, or there is no background.
    """
    link = _link(model_output, model, ensemble)
    if link is not None and not has_background:
        raise InputError(
            f"model_output={model_output!r} is not the raw output of this model. Other outputs transform the "
            f"sum of the trees, and are explained for pairs of a row and a background row: pass data=, with "
            f"feature_perturbation='interventional'."
            + ("" if isinstance(link, Mixture) else " Or use model_output='raw'.")
        )
    return link


def _link(model_output: Any, model: Any, ensemble: TreeEnsemble) -> AnyLink | None:
    mixture = mixture_of(model)
    if mixture is not None:
        if model_output in ("probability", "predict_proba"):
            return mixture
        raise InputError(
            f"A {type(model).__name__} is a mean of functions of what the trees of several models add up to, "
            f"and has no other output: model_output={model_output!r} cannot be explained. Pass background "
            f"rows as data=, and model_output='probability'."
        )
    if callable(model_output):
        if ensemble.n_outputs > 1 and is_softmax(model) and _is_logistic(model_output):
            raise InputError(
                f"The logistic function of one raw output is no probability of this model, which has "
                f"{ensemble.n_outputs} classes. {_SOFTMAX}"
            )
        return Function(model_output)
    if model_output == "raw":
        return None
    choices = (*_CHOICES, *methods_of(model))
    if model_output not in choices:
        raise InputError(
            f"model_output must be one of {', '.join(map(repr, choices))}, or a function; "
            f"got {model_output!r}."
        )
    if model_output in ("probability", "predict_proba") and is_distribution(ensemble):
        return None
    is_raw = predicts_raw(model)
    if model_output == "predict" and is_raw:
        return None
    link = link_of(model)
    if model_output == "probability" and isinstance(link, Logistic):
        return link
    if model_output == "predict" and isinstance(link, (Exponential, Function)):
        return link
    if model_output == "log_loss" and isinstance(link, Logistic) and ensemble.n_outputs == 1:
        return LogLoss(link.scale)
    if model_output == "log_loss" and is_raw and ensemble.n_outputs == 1:
        return SquaredError()
    if ensemble.n_outputs > 1 and is_softmax(model) and model_output != "predict":
        if model_output in ("probability", "predict_proba"):
            return Softmax()
        if model_output == "log_loss":
            return SoftmaxLoss()
        raise InputError(f"model_output={model_output!r} cannot be explained for this model. {_SOFTMAX}")
    if (advice := advice_for(model_output, model)) is not None:
        raise InputError(f"model_output={model_output!r} is not made of the raw output. {advice}")
    example = "scipy.special.expit" if ensemble.n_outputs == 1 else "numpy.exp"
    raise InputError(
        f"model_output={model_output!r} is not known to be a function of a single raw output of this model. "
        f"Use model_output='raw', or pass the function of a raw output that you want explained, "
        f"model_output={example} for instance."
    )


def outcomes(y: Any, n_rows: int, model_output: Any) -> npt.NDArray[np.float64]:
    """(n_rows,) the true outcomes that ``model_output`` depends on."""
    if y is None:
        raise InputError(f"model_output={model_output!r} needs the true outcome of each row: pass y=.")
    found = np.asarray(y, dtype=np.float64).reshape(-1)
    if len(found) != n_rows or not np.isfinite(found).all():
        raise InputError(f"y must have one finite number for each of the {n_rows} rows, got {len(found)}.")
    return found


def methods_of(model: Any) -> tuple[str, ...]:
    """The names of its prediction methods."""
    if isinstance(model, SavedModel):
        return model.methods
    # The class is asked, because scikit-learn's dir(model) fails where an attribute does (scikit-survival).
    names = [name for name in dir(type(model)) if name.startswith(_PREFIXES)]
    return tuple(name for name in names if callable(getattr(model, name, None)))


def saved_model_of(model: Any, ensemble: TreeEnsemble) -> SavedModel:
    """What a file keeps of a model; of trees without one, nothing is known but that they add up."""
    if isinstance(model, SavedModel):
        return model
    if isinstance(model, (TreeEnsemble, str, os.PathLike, Mapping)):
        return SavedModel(ensemble, type(model).__name__)
    link = link_of(model)
    return SavedModel(
        ensemble,
        type(model).__name__,
        None if isinstance(link, Function) else link,  # code, which is not kept
        predicts_raw(model),
        methods_of(model),
        is_softmax(model),
    )


def _is_logistic(function: Any) -> bool:
    """Is this the logistic function, whoever wrote it?"""
    raw = np.array([[-3.0], [-0.5], [0.0], [0.25], [2.0]])
    return bool(np.allclose(Function(function).apply(raw, None), Logistic().apply(raw, None), atol=1e-6))


def is_distribution(ensemble: TreeEnsemble) -> bool:
    """Is every prediction a list of probabilities that add up to one?"""
    if ensemble.n_outputs < 2 or ensemble.width != ensemble.n_outputs or ensemble.base_values.any():
        return False
    sums = ensemble.value.sum(axis=1)[ensemble.is_leaf]
    tree = ensemble.tree_of_node[ensemble.is_leaf]
    # Trees may count for more or less, but each of them for the same in all of its leaves.
    share = np.zeros(ensemble.n_trees)
    share[tree] = sums
    is_even = np.allclose(sums, share[tree], rtol=1e-6, atol=0)
    return bool(is_even and (ensemble.value >= 0).all() and np.isclose(share.sum(), 1.0, rtol=0, atol=1e-6))
