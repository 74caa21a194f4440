"""Curves of scikit-survival's trees and forests → TreeEnsemble with an output for each time.

A leaf holds two curves, the cumulative hazard and the probability to survive, as steps at the times that were
seen in training, and a forest averages them: at every time a curve is a sum of trees. `survival_curve` makes
a model of them, to be explained as any other. Its raw output is what ``predict_survival_function`` or
``predict_cumulative_hazard_function`` gives at the times.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import InputError, UnsupportedModelError
from ..model.ensemble import TreeEnsemble
from . import importer_name
from .pipelines.preprocessing import unwrap
from .sklearn_rows import predict_as_trained, tree_row_format
from .sklearn_trees import fitted
from .survival import mean_of_trees

__all__ = ["SurvivalCurve", "predicts_raw", "raw_prediction", "survival_curve", "to_ensemble"]

Kind = Literal["survival", "cumulative hazard"]
Float64 = npt.NDArray[np.float64]

#: What is explained → where it lies in a leaf, and the method that predicts it.
_KINDS: dict[str, tuple[int, str]] = {
    "cumulative hazard": (0, "predict_cumulative_hazard_function"),
    "survival": (1, "predict_survival_function"),
}


@dataclass(frozen=True, eq=False)
class SurvivalCurve:
    """A fitted tree or forest whose output is its curve at some times: see `survival_curve`."""

    model: Any
    kind: Kind
    times: Float64

    def predict(self, X: Any) -> Float64:
        """(n_rows, n_times) the curves as the model itself predicts them."""
        _, method = _KINDS[self.kind]
        return np.asarray(getattr(self.model, method)(X, return_array=True)[:, _steps(self)])


def survival_curve(model: Any, times: Sequence[float] | None = None, kind: Kind = "survival") -> Any:
    """A model whose outputs are the curve of scikit-survival's forest, or tree, at some times.

    Parameters
    ----------
    model
        A fitted ``RandomSurvivalForest``, ``ExtraSurvivalTrees`` or ``SurvivalTree``, or a pipeline that ends
        in one. By itself it stands for its risk score, which is what ``predict`` gives.
    times
        An output for each of these; by default the times seen in training, which are many.
    kind
        "survival", the probability to live longer, or "cumulative hazard".

    Returns
    -------
    model
        Something to be given to `TreeExplainer`; a pipeline if ``model`` is one.

    Raises
    ------
    UnsupportedModelError
        The model has no such curves.
    InputError
        A time lies beyond those of training, or there is no such kind.

    Examples
    --------
    >>> import numpy as np
    >>> from linear_treeshap import TreeExplainer, survival_curve
    >>> from sksurv.tree import SurvivalTree
    >>> from sksurv.util import Surv
    >>> outcome = Surv.from_arrays([True, True, True, True], [1.0, 2.0, 3.0, 4.0])
    >>> tree = SurvivalTree(min_samples_split=2, min_samples_leaf=2)
    >>> tree = tree.fit(np.array([[0.0], [0.0], [1.0], [1.0]]), outcome)
    >>> explainer = TreeExplainer(survival_curve(tree, times=[1, 3]))
    >>> explainer.output_names
    ('survival at 1', 'survival at 3')
    >>> explainer.expected_value
    array([0.75, 0.25])
    >>> explainer.shap_values(np.array([[1.0]]))
    array([[[0.25, 0.25]]])
    """
    if kind not in _KINDS:
        raise InputError(f"kind must be one of {', '.join(map(repr, _KINDS))}; got {kind!r}.")
    inside = unwrap(model)
    if importer_name(inside) != "survival":
        raise UnsupportedModelError(
            f"{type(inside).__name__} has no curves at its leaves: those of scikit-survival's "
            f"RandomSurvivalForest, ExtraSurvivalTrees and SurvivalTree are sums of trees."
        )
    grid = np.asarray(fitted(inside, "unique_times_"), dtype=np.float64)
    if inside.low_memory:
        raise UnsupportedModelError(
            f"This {type(inside).__name__} was trained with low_memory=True and has kept no curves. Explain "
            f"its risk score, TreeExplainer(model), or train it with low_memory=False."
        )
    curve = SurvivalCurve(inside, kind, grid if times is None else _checked(times, grid))
    return curve if inside is model else _with_last_step(model, curve)


def to_ensemble(model: SurvivalCurve) -> TreeEnsemble:
    place, _ = _KINDS[model.kind]
    steps = _steps(model)
    names = (f"{model.kind} at {np.format_float_positional(time, trim='-')}" for time in model.times)
    return mean_of_trees(model.model, lambda _, tree: tree.value[:, steps, place], tuple(names))


def raw_prediction(model: SurvivalCurve, X: Any) -> Float64:
    return predict_as_trained(model.predict, X, tree_row_format(model.model))


def predicts_raw(model: SurvivalCurve) -> bool:
    return True


def _steps(model: SurvivalCurve) -> npt.NDArray[np.int64]:
    """The step that each time is on; before the first it is the first, as in scikit-survival."""
    return np.maximum(np.searchsorted(model.model.unique_times_, model.times, side="right") - 1, 0)


def _checked(times: Sequence[float], grid: Float64) -> Float64:
    found = np.array(times, dtype=np.float64, ndmin=1)
    if found.ndim != 1 or not found.size or not ((found >= 0) & (found <= grid[-1])).all():
        raise InputError(
            f"times must be numbers from 0 to {grid[-1]:g}, the last time seen in training; got {times!r}."
        )
    return found


def _with_last_step(model: Any, curve: SurvivalCurve) -> Any:
    """The same pipeline, or the best one of a search, ending in the curve."""
    if not hasattr(model, "steps"):
        model = model.best_estimator_
    if not hasattr(model, "steps"):
        return curve
    name, last = model.steps[-1]
    changed = copy(model)
    changed.steps = [
        *model.steps[:-1],
        (name, curve if last is curve.model else _with_last_step(last, curve)),
    ]
    return changed
