"""What a file keeps of an explainer, and the arguments that make the explainer again.

`keep` is given the attributes of an explainer; `arguments_of` a `SavedExplainer` and what the user wants
otherwise, which takes the place of what was saved.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..engines.background_rows import Background
from ..errors import InputError
from ..importers.links import link_of, mixture_of
from ..importers.model_output import saved_model_of
from ..importers.pipelines.preprocessing import Preprocessing
from ..model.ensemble import TreeEnsemble
from ..model.links import Function
from ..players.assignment import Assignment
from .fingerprint import Fingerprint
from .saved_explainer import Explained, SavedExplainer

__all__ = ["arguments_of", "keep"]


def keep(
    model: Any,
    ensemble: TreeEnsemble,
    assignment: Assignment,
    preprocessing: Preprocessing | None,
    *,
    model_output: Any,
    feature_perturbation: str,
    index: Any,
    background: Background | None,
    fingerprint: Fingerprint | None,
) -> SavedExplainer:
    """All that a file holds of an explainer with these attributes."""
    if mixture_of(model) is not None:
        raise InputError(
            f"The functions that a {type(model).__name__} is made of cannot be held by a file. Save "
            f"explainers of the models inside, or pickle this one."
        )
    if model_output == "predict" and isinstance(link_of(model), Function):
        raise InputError(
            f"model_output='predict' of this {type(model).__name__} is a function of its own, which a "
            f"file cannot hold. Save an explainer of model_output='raw', and give the function to "
            f"TreeExplainer.load."
        )
    if preprocessing is not None and preprocessing.needs_model:
        raise InputError(
            "The model reads texts or embeddings, which only its own library can turn into numbers: a file "
            "without it could read no rows. Pickle the explainer, which keeps the model for that."
        )
    if ensemble.feature_names is None and preprocessing is not None and assignment.tree_names:
        # The names that the pipeline gives its columns. Those a user gives are labels: they need not be the
        # names of the columns in a frame.
        named = replace(ensemble.row_format, feature_names=assignment.tree_names)
        ensemble = replace(ensemble, row_format=named)
    players = assignment.in_trees
    is_plain = players.are_columns and assignment.names in (None, ensemble.feature_names)
    return SavedExplainer(
        ensemble,
        None if is_plain else players,
        Explained(saved_model_of(model, ensemble), model_output, feature_perturbation, index),
        None if background is None else background.rows,
        None if background is None else background.weights,
        fingerprint,
    )


def arguments_of(
    saved: SavedExplainer,
    *,
    data: Any,
    data_weights: Any,
    model_output: Any,
    feature_perturbation: str | None,
    index: Any,
    groups: Any,
) -> dict[str, Any]:
    """What to make a TreeExplainer of; None stands for what was saved."""
    was = saved.explained
    if data is None and data_weights is not None:
        raise InputError("data_weights are weights of background rows: pass these as data=.")
    if data is None and was is not None and feature_perturbation in (None, was.feature_perturbation):
        feature_perturbation = was.feature_perturbation
        if saved.background_rows is not None:
            data = Background(saved.background_rows, saved.background_weights)
    names = None
    if groups is None and saved.players is not None and saved.players.are_columns:
        names = saved.players.names
    elif groups is None:
        groups = saved.players
    return {
        "model": saved.ensemble if was is None else was.model,
        "data": data,
        "data_weights": data_weights,
        "model_output": (was.model_output if was else "raw") if model_output is None else model_output,
        "feature_perturbation": feature_perturbation or "auto",
        "feature_names": names,
        "index": (was.index if was else "shapley") if index is None else index,
        "groups": groups,
    }
