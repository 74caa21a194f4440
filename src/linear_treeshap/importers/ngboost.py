"""NGBoost → TreeEnsemble: an output for each parameter of the predicted distribution.

The parameters are those of ``pred_param``, in which NGBoost adds its trees up: the mean and the logarithm of
the standard deviation of a normal distribution, log-odds against the first class of a classifier. Each stage
has a tree for each of them, and may have seen a choice of columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import UnsupportedModelError
from ..model.ensemble import TreeEnsemble
from ..model.row_format import RowFormat
from ..rows.rows import read_rows
from .sklearn_trees import fitted, splits_of

__all__ = ["LIBRARY", "raw_prediction", "to_ensemble"]

LIBRARY = "NGBoost"


def to_ensemble(model: Any) -> TreeEnsemble:
    start = np.asarray(fitted(model, "init_params"), dtype=np.float64)
    learners = [learner for stage in model.base_models for learner in stage]
    if not all(hasattr(learner, "tree_") for learner in learners):
        raise UnsupportedModelError(
            f"This {type(model).__name__} is made of {type(learners[0]).__name__}, which is no tree. "
            f"Train it with a tree as its Base."
        )
    trees = [learner.tree_ for learner in learners]
    nodes = splits_of(trees, width=1)
    nodes.fill("value", (tree.value[:, 0] for tree in trees))
    scales = np.repeat(model.learning_rate * np.asarray(model.scalings, dtype=np.float64), len(start))
    tree_of = np.repeat(np.arange(len(trees)), np.diff(nodes.tree_offsets))
    nodes.value[:, 0] *= -scales[tree_of]
    inner = nodes.left >= 0
    for tree in range(len(trees)):
        here = nodes.nodes_of(tree)
        columns = np.asarray(model.col_idxs[tree // len(start)])
        nodes.feature[here] = np.where(inner[here], columns[nodes.feature[here]], -1)
    return TreeEnsemble(
        **nodes.finish(),
        base_values=start,
        tree_output=np.tile(np.arange(len(start), dtype=np.int32), len(model.base_models)),
        row_format=_row_format(model),
        output_names=_names(model, len(start)),
    )


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float64]:
    rows = read_rows(X, _row_format(model))
    return np.asarray(model.pred_param(rows[0 : rows.n_rows]), dtype=np.float64)


def _row_format(model: Any) -> RowFormat:
    return RowFormat(int(model.n_features), dtype="float32", numbers_are_codes=False)


def _names(model: Any, n_outputs: int) -> tuple[str, ...] | None:
    """The second and further classes; parameters of other distributions have no names until they are bent."""
    classes = model.Dist.n_params + 1 if hasattr(model, "predict_proba") else 0
    return tuple(str(label) for label in range(1, classes)) if classes == n_outputs + 1 else None
