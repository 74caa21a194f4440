"""Kinds of random trees that engines are compared with the definition on, and how close they must come."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from linear_treeshap.model.ensemble import TreeEnsemble

__all__ = ["SETTINGS", "assert_equal", "settings"]

Float64 = npt.NDArray[np.float64]

#: Options of `random_ensemble`.
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "float32": {"dtype": "float32"},
    "one feature": {"n_features": 1, "max_depth": 6},
    "two features": {"n_features": 2, "max_depth": 8, "max_leaves": 40},
    "zero cover": {"zero_cover": True},
    "stumps": {"max_depth": 1},
    "deep": {"max_depth": 8, "n_features": 9, "max_leaves": 30},
    "many conditions": {"n_features": 3, "max_leaves": 60, "max_depth": 8},
    "numeric only": {"categorical": False},
    "several outputs": {"n_outputs": 3, "n_trees": 3},
    "vector leaves": {"n_outputs": 3, "vector_leaves": True, "dtype": "float32"},
    "more outputs than are walked at once": {"n_outputs": 17, "vector_leaves": True, "max_leaves": 8},
}


def settings(*names: str) -> dict[str, dict[str, Any]]:
    """Some of them, where all would take too long."""
    return {name: SETTINGS[name] for name in names}


def assert_equal(ours: Float64, expected: Float64, ensemble: TreeEnsemble, message: str = "") -> None:
    """Equal to 1e-12 of the largest leaf value, which is what rounding may cost these small trees."""
    scale = max(1e-300, float(np.abs(ensemble.value).max()))
    worst = float(np.abs(ours - expected).max(initial=0.0))
    assert worst <= 1e-12 * scale, f"off by {worst / scale:.1e} of the largest leaf value {message}"
