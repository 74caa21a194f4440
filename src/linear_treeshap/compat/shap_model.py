"""The ``.model`` of a patched explainer: what programs ask of shap's copy of the trees, without making one.

In comes our explainer and the model that was given to shap; what goes out has shap's names and meanings.
Arrays of nodes, which hardly anyone reads, are those of shap's own copy, made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import UnsupportedModelError
from ..explainer import TreeExplainer
from ..importers import importer_of
from ..importers.links import link_of, predicts_raw
from ..importers.model_output import is_distribution
from ..importers.pipelines.preprocessing import unwrap
from ..model.ensemble import TreeEnsemble
from ..model.links import Logistic

__all__ = ["ShapModel", "explains_itself", "trees_of_limit"]

#: What only shap's own copy has.
_ARRAYS = frozenset(
    {
        "base_offset", "cat_feature_indices", "children_default", "children_left", "children_right",
        "features", "fully_defined_weighting", "get_transform", "internal_dtype", "max_depth",
        "node_sample_weight", "num_nodes", "num_stacked_models", "threshold_types", "thresholds",
        "tree_limit", "trees", "values",
    }
)  # fmt: skip


def explains_itself(model: Any) -> bool:
    """Does shap ask the model's own library for values?"""
    return hasattr(_importer(model), "own_values")


def trees_of_limit(model: Any, ensemble: TreeEnsemble, limit: int) -> int | None:
    """How many of the first trees shap's ``tree_limit`` means; None if that is best left to shap."""
    counted = getattr(_importer(model), "trees_of_limit", None)
    return limit if counted is None else counted(unwrap(model), ensemble, limit)


def _importer(model: Any) -> Any:
    """The module that knows the model's library; None of trees without one."""
    try:
        return importer_of(unwrap(model))
    except UnsupportedModelError:
        return None


class ShapModel:
    """What ``shap.TreeExplainer(model).model`` says of a model."""

    def __init__(self, ours: TreeExplainer, model: Any, theirs: Callable[[], Any]) -> None:
        self._ours, self._theirs = ours, theirs
        self.model_output = ours.model_output
        self.num_outputs = ours.ensemble.n_outputs
        inside = unwrap(model)
        is_library = explains_itself(model)
        self.model_type = _importer(inside).__name__.rpartition(".")[2] if is_library else "internal"
        self.original_model = _booster_of(inside) if is_library else inside
        self.input_dtype = ours.ensemble.row_format.numpy_dtype.type
        self.tree_output, self.objective = _meaning(model, ours)

    def predict(self, X: Any, y: Any = None, output: str | None = None, tree_limit: int | None = None) -> Any:
        """What is explained, for these rows: (n_rows,), or (n_rows, n_outputs) for several; of one, a
        number."""
        ours = self._ours
        engine = ours._first_trees(tree_limit)
        rows = ours._read(X)
        blocks = [engine.program.predict(rows.rows[some], n_jobs=ours.n_jobs) for some in rows.slices()]
        found = np.concatenate(blocks) if blocks else np.zeros((0, engine.n_outputs))
        if ours._link is not None and output != "raw":
            truth = ours._truth(y, rows)
            found = ours._link.apply(found, None if truth is None else truth[:, None])
        if engine.n_outputs > 1:
            return found
        return found[0, 0] if rows.is_one_row else found[:, 0]

    def __getattr__(self, name: str) -> Any:
        if name not in _ARRAYS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._theirs(), name)


def _booster_of(model: Any) -> Any:
    """shap keeps what is inside of a library's wrapper for scikit-learn."""
    return model.get_booster() if hasattr(model, "get_booster") else getattr(model, "booster_", model)


def _meaning(model: Any, ours: TreeExplainer) -> tuple[str | None, str | None]:
    """In shap's words: what the trees add up to, and what they were trained for; None where it is not
    known."""
    if is_distribution(ours.ensemble):
        return "probability", "binary_crossentropy"
    if isinstance(link_of(model), Logistic):
        return "log_odds", "binary_crossentropy"
    return ("raw_value", "squared_error") if predicts_raw(model) else (None, None)
