"""scikit-learn's TransformedTargetRegressor → TreeEnsemble.

An affine transform, such as scaling, is undone in the leaves, and the output is that of ``predict``. Any
other, such as a logarithm, leaves the output in transformed units, and ``predict`` is a function of it, which
can be explained with background data. The model inside may be a pipeline.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import UnsupportedModelError
from ..model.ensemble import TreeEnsemble
from ..model.links import Function, Link
from . import import_model, links
from . import raw_prediction as raw_prediction_of
from .assemble import with_outputs
from .sklearn_trees import fitted

__all__ = ["link", "predicts_raw", "raw_prediction", "to_ensemble"]

Float64 = npt.NDArray[np.float64]

#: Numbers at which a transform is compared with a line: none is special to a logarithm, a root or a power.
_PROBES = np.array([-1e5, -37.0, -1.3, -0.4, 0.2, 0.9, 3.1, 250.0, 1e5])


def to_ensemble(model: Any) -> TreeEnsemble:
    regressor = fitted(model, "regressor_")
    ensemble = import_model(regressor)
    if not links.predicts_raw(regressor):
        raise UnsupportedModelError(
            f"The {type(regressor).__name__} inside this {type(model).__name__} predicts a function of what "
            f"its trees add up to, which is then transformed again. Explain it by itself: model.regressor_."
        )
    if (line := _line(model)) is not None:
        matrix, offsets = line
        names = ensemble.output_names if len(matrix) == ensemble.n_outputs else None
        return with_outputs(ensemble, matrix, offsets, names)
    if ensemble.n_outputs > 1:
        raise UnsupportedModelError(
            f"This {type(model).__name__} transforms {ensemble.n_outputs} targets in a way that is not "
            f"affine. Explain the model in the transformed units: model.regressor_."
        )
    return ensemble


def raw_prediction(model: Any, X: Any) -> Float64:
    raw = raw_prediction_of(model.regressor_, X)
    return raw if _line(model) is None else _inverse(model, raw)


def predicts_raw(model: Any) -> bool:
    return _line(model) is not None


def link(model: Any) -> Link | None:
    """What turns transformed units into those of ``predict``; None if a line does."""
    return None if _line(model) is not None else Function(partial(_undo, model.transformer_))


def _undo(transformer: Any, raw: Float64) -> Float64:
    return np.asarray(transformer.inverse_transform(raw.reshape(-1, 1)), dtype=np.float64).reshape(raw.shape)


def _inverse(model: Any, raw: Float64) -> Float64:
    return np.asarray(model.transformer_.inverse_transform(raw), dtype=np.float64)


def _line(model: Any) -> tuple[Float64, Float64] | None:
    """The matrix and the offsets that undo the transform of the targets; None if it is no affine one."""
    n_targets = int(model.transformer_.n_features_in_)
    far = 2.0**20 * np.eye(n_targets)  # far from zero, so that a large offset costs the slope no digits
    with np.errstate(all="ignore"):  # logarithms, roots and powers need not take these numbers
        try:
            offsets = _inverse(model, np.zeros((1, n_targets)))[0]
            matrix = ((_inverse(model, far) - _inverse(model, -far)) / 2.0**21).T
            rows = np.add.outer(_PROBES, np.arange(n_targets) * 0.7)
            found = _inverse(model, rows)
        except ValueError:  # scikit-learn's complaint about numbers that are not finite
            return None
        expected = rows @ matrix.T + offsets
        scale = np.abs(rows) @ np.abs(matrix).T + np.abs(offsets)
        return (matrix, offsets) if (np.abs(found - expected) <= 1e-12 * scale).all() else None
