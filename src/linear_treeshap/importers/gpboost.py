"""GPBoost's trees, from a Booster, a scikit-learn wrapper, or a model file → TreeEnsemble.

GPBoost adds a Gaussian process, or random effects of groups, to trees that are LightGBM's and are written as
LightGBM writes them. The trees are explained: the fixed effect of ``predict(..., pred_latent=True)``, before
the link of a likelihood that has one. Random effects belong to groups and places, not to columns.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError
from ..model.ensemble import TreeEnsemble
from ..model.links import Link
from . import lightgbm

__all__ = [
    "BEGINNINGS",
    "LIBRARY",
    "is_softmax",
    "link",
    "predicts_raw",
    "raw_prediction",
    "read_file",
    "to_ensemble",
]

LIBRARY = "GPBoost"
#: With random effects; a file without them is LightGBM's. Some releases write a space.
BEGINNINGS = (b'{\n"has_gp_model"', b'{\n "has_gp_model')


def to_ensemble(model: Any) -> TreeEnsemble:
    names = [str(name) for name in getattr(model, "classes_", ())]
    return lightgbm.of_text(_trees(lightgbm.booster_of(model).model_to_string()), names)


def read_file(path: Path) -> TreeEnsemble:
    """Read a model that GPBoost saved; GPBoost itself is not needed."""
    return lightgbm.of_text(_trees(path.read_text(encoding="utf-8", errors="replace")))


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float64]:
    booster = lightgbm.booster_of(model)
    scores = np.asarray(booster.predict(X, ignore_gp_model=True, pred_latent=True), dtype=np.float64)
    return scores.reshape(len(scores), -1)


def predicts_raw(model: Any) -> bool:
    return not _has_effects(model) and lightgbm.predicts_raw(model)


def link(model: Any) -> Link | None:
    """With random effects, the mean is no function of the trees alone."""
    return None if _has_effects(model) else lightgbm.link(model)


def is_softmax(model: Any) -> bool:
    return not _has_effects(model) and lightgbm.is_softmax(model)


def _has_effects(model: Any) -> bool:
    return bool(lightgbm.booster_of(model).has_gp_model)


def _trees(text: str) -> str:
    """The part of a model's text that is LightGBM's."""
    if not text.startswith("{"):
        return text
    try:
        trees = json.loads(text)["booster_str"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileFormatError(f"The GPBoost model is damaged or incomplete: {error!r}.") from error
    if not isinstance(trees, str):
        raise FileFormatError(f"The GPBoost model is damaged: its trees are a {type(trees).__name__}.")
    return trees
