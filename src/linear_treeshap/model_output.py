"""Which outputs of a model can be explained: the raw one, and names that mean the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from .ensemble import TreeEnsemble
from .errors import InputError
from .importers.links import predicts_raw

__all__ = ["is_distribution", "require_raw"]

#: What shap calls outputs; the name of any prediction method is allowed besides.
_CHOICES = ("raw", "probability", "log_loss")
_PREFIXES = ("predict", "decision_function", "score_samples")


def require_raw(model_output: str, model: Any, ensemble: TreeEnsemble) -> None:
    """Accept "raw" and what equals it for this model; explain the refusal of anything else."""
    if model_output == "raw":
        return
    # The class is asked, because scikit-learn's dir(model) fails where an attribute does (scikit-survival).
    names = [name for name in dir(type(model)) if name.startswith(_PREFIXES)]
    methods = [name for name in names if callable(getattr(model, name, None))]
    choices = (*_CHOICES, *methods)
    if model_output not in choices:
        raise InputError(
            f"model_output must be one of {', '.join(map(repr, choices))}; got {model_output!r}."
        )
    if model_output in ("probability", "predict_proba") and is_distribution(ensemble):
        return
    if model_output == "predict" and predicts_raw(model):
        return
    raise NotImplementedError(
        f"model_output={model_output!r} is not the raw output of this model. Other outputs bend the sum "
        f"of the trees, and Shapley values of a bent sum are exact only with background data, which is not "
        f"supported yet. Use model_output='raw'."
    )


def is_distribution(ensemble: TreeEnsemble) -> bool:
    """Is every prediction a list of probabilities that add up to one?"""
    if ensemble.n_outputs < 2 or ensemble.width != ensemble.n_outputs or ensemble.base_values.any():
        return False
    leaves = ensemble.value[ensemble.is_leaf]
    per_tree = leaves.sum(axis=1)
    return bool((leaves >= 0).all() and np.allclose(per_tree * ensemble.n_trees, 1.0, rtol=0, atol=1e-6))
