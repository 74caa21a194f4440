"""A model file's Shapley values by the library that wrote it, on one thread: what ``bench`` compares with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import MissingDependencyError, UnsupportedModelError
from ..importers import file_importers, importer_of_file
from ..model.ensemble import TreeEnsemble
from .models import Model

__all__ = ["peer_of"]

Array = npt.NDArray[Any]


def peer_of(model: Model, ensemble: TreeEnsemble) -> tuple[str, Callable[[Array], Array]]:
    """The library's name with its release, and its values (n_rows, n_features, n_outputs) of ready rows."""
    importer: Any = None if model.is_object else importer_of_file(model.path)
    if not hasattr(importer, "own_values"):
        able = [module.LIBRARY for module in file_importers() if hasattr(module, "own_values")]
        raise UnsupportedModelError(f"only {', '.join(able)} compute Shapley values of their files.")
    try:
        release, explain = importer.own_values(str(model.path))
    except ImportError as error:
        raise MissingDependencyError(f"{importer.LIBRARY} is not installed.") from error

    def values(rows: Array) -> Array:
        # With the base value last; several outputs one after another, or in a dimension of their own.
        found = np.asarray(explain(rows)).reshape(len(rows), ensemble.n_outputs, ensemble.n_features + 1)
        return np.moveaxis(found[:, :, :-1], 1, 2)

    return f"{importer.LIBRARY} {release}", values
