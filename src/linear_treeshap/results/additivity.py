"""Do the values of a row, plus the base value, add up to what the model itself predicts?

The tolerance follows from the arithmetic: a sum of ``n`` numbers is off by at most ``n`` half ulps of the
sum of their absolute values, in the type that the model's library adds them in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import AdditivityError, InputError
from ..model.ensemble import TreeEnsemble

__all__ = ["check", "scale_of", "tolerance_of"]

Float64 = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

#: Below this share of the largest possible sum, a difference is rounding, even of sums in float64.
_FLOAT64_TOLERANCE = 1e-10


def tolerance_of(check_additivity: object) -> float | None:
    """The user's own largest difference; None if it is to be derived from the model."""
    if isinstance(check_additivity, (bool, np.bool_)):
        return None
    if not isinstance(check_additivity, (int, float, np.integer, np.floating)) or not check_additivity >= 0:
        raise InputError(
            f"check_additivity must be True, False, or the largest difference allowed; "
            f"got {check_additivity!r}."
        )
    return float(check_additivity)


def check(
    values: Array,
    base_values: Float64,
    prediction: Float64,
    *,
    n_trees: int,
    scale: float,
    tolerance: float | None = None,
    transform: Callable[[Float64], Float64] | None = None,
) -> None:
    """Raise AdditivityError if some row's values do not add up to its prediction.

    ``values`` (n_rows, n_players, n_outputs), ``base_values`` (n_outputs,) or one for each row, and raw
    ``prediction`` (n_rows, n_outputs), of which ``transform`` makes what is explained. ``tolerance`` is the
    largest difference allowed; None derives it from the number of trees and from ``scale``, see `scale_of`.
    """
    if prediction.shape != (len(values), base_values.shape[-1]):
        raise AdditivityError(
            f"The model predicts an array of shape {prediction.shape} for {len(values)} rows and "
            f"{base_values.shape[-1]} outputs. Was the model trained again after the explainer was made?"
        )
    if prediction.size == 0:
        return
    rounding = _rounding(prediction, n_trees)
    if transform is not None:
        prediction = transform(prediction)
    sums = values.sum(axis=1, dtype=np.float64) + base_values
    error = np.abs(sums - prediction)
    allowed: float | Float64
    if tolerance is not None:
        allowed = tolerance
    else:
        allowed = rounding * scale
        if values.dtype == np.float32:
            # Each value was rounded by up to half an ulp of itself.
            allowed = allowed + np.finfo(np.float32).eps * np.abs(values).sum(axis=1, dtype=np.float64)
    bad = ~(error <= allowed)
    if bad.any():
        _complain(np.where(bad, np.nan_to_num(error, nan=np.inf), -1.0), sums, prediction, allowed)


def scale_of(ensemble: TreeEnsemble) -> float:
    """The largest sum of absolute terms that a prediction can be made of."""
    if ensemble.n_trees == 0:
        return float(np.abs(ensemble.base_values).max())
    largest_leaf = np.maximum.reduceat(np.abs(ensemble.value).max(axis=1), ensemble.tree_offsets[:-1])
    return float(np.abs(ensemble.base_values).max() + largest_leaf.sum())


def _rounding(prediction: Float64, n_trees: int) -> float:
    """How far the library's own sum may be from ours by rounding alone, as a share of the scale."""
    with np.errstate(over="ignore"):
        is_float32 = bool((prediction == prediction.astype(np.float32)).all())
    # A library that answers in float32 may have added in float32: XGBoost does.
    half_ulp = float(np.finfo(np.float32 if is_float32 else np.float64).eps) / 2
    # Besides the sum over trees: base score, leaves and answer are rounded once each.
    return max(_FLOAT64_TOLERANCE, half_ulp * (n_trees + 4))


def _complain(error: Float64, sums: Float64, prediction: Float64, allowed: float | Float64) -> None:
    row, output = np.unravel_index(int(np.argmax(error)), error.shape)
    limit = float(np.broadcast_to(allowed, error.shape)[row, output])
    n_bad = int((error.max(axis=1) >= 0).sum())
    raise AdditivityError(
        f"The values do not add up to the model's own prediction in {n_bad} of {len(error)} rows. Worst is "
        f"row {row}{f', output {output}' if error.shape[1] > 1 else ''}: values + expected value = "
        f"{sums[row, output]:.9g}, the model predicts {prediction[row, output]:.9g}; they differ by "
        f"{abs(sums[row, output] - prediction[row, output]):.3g}, more than {limit:.3g}. Likely causes: "
        f"the rows carry a base_margin or init_score; the model was trained on after the explainer was made; "
        f"or the library reads these rows otherwise than this one, which is a bug worth reporting. "
        f"check_additivity=<number> allows a larger difference, check_additivity=False skips the check."
    )
