"""Do the values of a row, plus the base value, add up to what the model itself predicts?

The tolerance follows from the arithmetic: a sum of ``n`` numbers is off by at most ``n`` half ulps of the
sum of their absolute values, in the type that the model's library adds them in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .ensemble import TreeEnsemble
from .errors import AdditivityError, InputError

__all__ = ["check", "scale_of", "tolerance_of", "visited_nodes", "walk_trees"]

Float64 = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

#: Below this share of the largest possible sum, a difference is rounding, even of sums in float64.
_FLOAT64_TOLERANCE = 1e-10

#: Rows times trees that are walked at once: some 50 MB of temporary arrays.
_WALKED_AT_ONCE = 1 << 20


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


def walk_trees(ensemble: TreeEnsemble, rows: Array) -> Float64:
    """Raw predictions (n_rows, n_outputs) of rows that are ready to be read, all trees at once.

    The same as `TreeEnsemble.predict`, but a row visits one node per level instead of all nodes.
    """
    out = np.tile(ensemble.base_values, (len(rows), 1))
    at_once = max(1, _WALKED_AT_ONCE // max(1, ensemble.n_trees))
    for start in range(0, len(rows), at_once):
        part = rows[start : start + at_once]
        leaves = _leaves(ensemble, part)
        for column in range(ensemble.width):
            added = ensemble.value[leaves, column]
            for output in np.unique(ensemble.tree_output):
                chosen = ensemble.tree_output == output
                out[start : start + at_once, output + column] += added[:, chosen].sum(axis=1)
    return out


def _leaves(ensemble: TreeEnsemble, rows: Array) -> Array:
    """(n_rows, n_trees) the leaf in which each row ends."""
    leaves = np.empty((len(rows), ensemble.n_trees), dtype=np.int64)
    for nodes, visitors in _levels(ensemble, rows):
        leaves[visitors, ensemble.tree_of_node[nodes]] = nodes
    return leaves


def visited_nodes(ensemble: TreeEnsemble, rows: Array) -> Iterator[tuple[Array, Array]]:
    """All nodes that the rows come by, as (nodes, numbers of the rows), a slice and a level at a time."""
    at_once = max(1, _WALKED_AT_ONCE // max(1, ensemble.n_trees))
    for start in range(0, len(rows), at_once):
        for nodes, visitors in _levels(ensemble, rows[start : start + at_once]):
            yield nodes, visitors + start


def _levels(ensemble: TreeEnsemble, rows: Array) -> Iterator[tuple[Array, Array]]:
    """The nodes of each level, from the roots down, and the rows that are there."""
    root = ensemble.tree_offsets[:-1]
    node = np.tile(root, len(rows))
    row = np.repeat(np.arange(len(rows)), len(root))
    while node.size:
        yield node, row
        inner = ensemble.left[node] >= 0
        node, row = node[inner], row[inner]
        x = rows[row, ensemble.feature[node]].astype(np.float64)
        left = np.where(np.isnan(x), ensemble.missing_left[node], x <= ensemble.threshold[node])
        categorical = ensemble.category_set[node] >= 0
        if categorical.any():
            left[categorical] = _in_set(ensemble, node[categorical], x[categorical])
        child = np.where(left, ensemble.left[node], ensemble.right[node])
        node = ensemble.tree_offsets[ensemble.tree_of_node[node]] + child


def _in_set(ensemble: TreeEnsemble, nodes: npt.NDArray[np.int64], x: Float64) -> npt.NDArray[np.bool_]:
    """Which values go left at these categorical nodes."""
    # One sorted list of (set, code), each packed into an integer, answers for all sets at once.
    sets = np.repeat(np.arange(len(ensemble.category_offsets) - 1), np.diff(ensemble.category_offsets))
    members = (sets << 32) | ensemble.category_codes
    is_code = (x >= 0) & (x < 2**31)
    code = np.where(is_code, x, 0.0).astype(np.int64)
    wanted = (ensemble.category_set[nodes].astype(np.int64) << 32) | code
    place = np.minimum(np.searchsorted(members, wanted), max(len(members) - 1, 0))
    found = is_code & (members[place] == wanted) if len(members) else np.zeros(len(x), dtype=np.bool_)
    return np.where(np.isnan(x), ensemble.missing_left[nodes], found)
