"""A model file's Shapley values by the library that wrote it, on one thread: what ``bench`` compares with."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import MissingDependencyError, UnsupportedModelError
from ..model.ensemble import TreeEnsemble
from .models import Model

__all__ = ["peer_of"]

Array = npt.NDArray[Any]


def peer_of(model: Model, ensemble: TreeEnsemble) -> tuple[str, Callable[[Array], Array]]:
    """The library's name with its release, and its values (n_rows, n_features, n_outputs) of ready rows."""
    peers = {
        "XGBoost": ("xgboost", _xgboost),
        "LightGBM": ("lightgbm", _lightgbm),
        "CatBoost": ("catboost", _catboost),
    }
    if model.library not in peers:
        raise UnsupportedModelError(
            "only XGBoost, LightGBM and CatBoost compute Shapley values of their files."
        )
    package, open_model = peers[model.library]
    try:
        library = import_module(package)
    except ImportError as error:
        raise MissingDependencyError(f"{package} is not installed.") from error
    explain = open_model(library, str(model.path))

    def values(rows: Array) -> Array:
        # With the base value last; several outputs one after another, or in a dimension of their own.
        found = np.asarray(explain(rows)).reshape(len(rows), ensemble.n_outputs, ensemble.n_features + 1)
        return np.moveaxis(found[:, :, :-1], 1, 2)

    return f"{model.library} {library.__version__}", values


def _xgboost(library: Any, path: str) -> Callable[[Array], Any]:
    booster = library.Booster(model_file=path)
    booster.set_param({"nthread": 1})

    def explain(rows: Array) -> Any:
        types = {"feature_types": booster.feature_types, "feature_names": booster.feature_names}
        matrix = library.DMatrix(rows, nthread=1, enable_categorical=True, **types)
        return booster.predict(matrix, pred_contribs=True)

    return explain


def _lightgbm(library: Any, path: str) -> Callable[[Array], Any]:
    booster = library.Booster(model_file=path)
    return lambda rows: booster.predict(rows, pred_contrib=True, num_threads=1)


def _catboost(library: Any, path: str) -> Callable[[Array], Any]:
    model = library.CatBoost().load_model(path)
    return lambda rows: model.get_feature_importance(library.Pool(rows), type="ShapValues", thread_count=1)
