"""A shap.TreeExplainer that computes with our engine: what `patch_shap` puts in place of shap's own.

Whatever we do not support is handed to shap's own code, with a line in the log that says so. This module
needs shap; nothing imports it before `patch_shap` is called.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np
import shap
from shap.explainers._tree import TreeExplainer as ShapTreeExplainer

from ..errors import LinearTreeShapError, UnreadableRowsError
from ..explainer import TreeExplainer as OurExplainer
from ..importers import import_model, importer_of
from ..importers.pipelines.preprocessing import preprocessing_of

__all__ = ["TreeExplainer"]

_LOG = logging.getLogger("linear_treeshap")


class TreeExplainer(ShapTreeExplainer):  # type: ignore[misc]
    """shap's TreeExplainer, faster. Attributes that only shap's has are made when they are asked for."""

    def __init__(
        self,
        model: Any,
        data: Any = None,
        model_output: str = "raw",
        feature_perturbation: str = "auto",
        feature_names: Any = None,
        **options: Any,
    ) -> None:
        # shap.Explainer(model) turns itself into this class: what it has stored must not hide ours.
        self.__dict__.clear()
        self._arguments = {
            "model": model,
            "data": data,
            "model_output": model_output,
            "feature_perturbation": feature_perturbation,
            "feature_names": feature_names,
            **options,
        }
        self._ours = _explainer_or_reason(model, data, model_output, feature_perturbation, feature_names)
        if isinstance(self._ours, str):
            _LOG.info("shap.TreeExplainer(%s) is left to shap: %s", type(model).__name__, self._ours)
            super().__init__(**self._arguments)
            return
        # Of a single output shap has a number where the model's own library explains it, else an array.
        is_number = hasattr(importer_of(model), "own_values")
        expected = self._ours.expected_value
        is_plain = is_number or data is not None
        self.expected_value = expected if is_plain or callable(expected) else np.atleast_1d(expected)
        self.feature_perturbation = self._ours.feature_perturbation
        self.model_output = model_output
        rows = getattr(data, "data", None) if type(data).__module__.startswith("shap.maskers") else data
        self.data = None if rows is None else np.asarray(rows)
        self.data_missing = self.masker = self.output_names = None
        self.feature_names = feature_names
        self.link = shap.links.identity
        self.linearize_link = True
        self.data_feature_names = feature_names

    def shap_values(
        self,
        X: Any,
        y: Any = None,
        tree_limit: int | None = None,
        approximate: bool = False,
        check_additivity: bool = True,
        from_call: bool = False,
    ) -> Any:
        """As ``shap.TreeExplainer.shap_values``, by our engine unless approximate or with a tree_limit."""
        if isinstance(self._ours, str):
            return super().shap_values(X, y, tree_limit, approximate, check_additivity, from_call)
        if approximate:
            _LOG.info("shap_values(approximate=True) is left to shap: our values are exact")
            return self._theirs.shap_values(X, y, tree_limit, approximate, check_additivity, from_call)
        if tree_limit not in (None, 0, -1):
            # Trees or rounds of them, which shap decides by the model's library.
            _LOG.info("shap_values(tree_limit=%s) is left to shap", tree_limit)
            return self._theirs.shap_values(X, y, tree_limit, approximate, check_additivity, from_call)
        try:
            return self._ours.shap_values(X, y, check_additivity=check_additivity)
        except UnreadableRowsError as error:
            _LOG.info("shap_values(%s) is left to shap: %s", type(X).__name__, error)
            return self._theirs.shap_values(X, y, tree_limit, approximate, check_additivity, from_call)

    def shap_interaction_values(self, X: Any, y: Any = None, tree_limit: int | None = None) -> Any:
        """As ``shap.TreeExplainer.shap_interaction_values``, by our engine unless with a tree_limit."""
        if isinstance(self._ours, str):
            return super().shap_interaction_values(X, y, tree_limit)
        if tree_limit not in (None, 0, -1):
            _LOG.info("shap_interaction_values(tree_limit=%s) is left to shap", tree_limit)
            return self._theirs.shap_interaction_values(X, y, tree_limit)
        try:
            return self._ours.shap_interaction_values(X, y)
        except UnreadableRowsError as error:
            _LOG.info("shap_interaction_values(%s) is left to shap: %s", type(X).__name__, error)
            return self._theirs.shap_interaction_values(X, y, tree_limit)

    @staticmethod
    def supports_model_with_masker(model: Any, masker: Any) -> bool:
        """Can a tree explainer explain this model? ``shap.Explainer`` asks before it chooses one."""
        if masker is None:
            try:
                import_model(model)
                return preprocessing_of(model) is None
            except LinearTreeShapError:
                pass  # shap knows models that we do not, and answers for them
        return bool(ShapTreeExplainer.supports_model_with_masker(model, masker))

    @property
    def _theirs(self) -> ShapTreeExplainer:
        """shap's own explainer of the same model, made when it is first needed."""
        if "_shap_explainer" not in self.__dict__:
            self.__dict__["_shap_explainer"] = ShapTreeExplainer(**self._arguments)
        return self.__dict__["_shap_explainer"]

    def __getattr__(self, name: str) -> Any:
        # Only reached for what is not here: shap's own copy of the trees (.model), for one.
        if name.startswith("_") or isinstance(self.__dict__.get("_ours", ""), str):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._theirs, name)


def _explainer_or_reason(
    model: Any, data: Any, model_output: str, feature_perturbation: Any, feature_names: Any
) -> OurExplainer | str:
    """Our explainer, or why there is none."""
    if data is None and feature_perturbation == "interventional":
        warnings.warn(
            "feature_perturbation='interventional' without background data is path-dependent, as in shap.",
            FutureWarning,
            stacklevel=3,
        )
        feature_perturbation = "tree_path_dependent"
    if feature_perturbation not in ("auto", "interventional", "tree_path_dependent"):
        return f"feature_perturbation={feature_perturbation!r} is unknown"
    try:
        if preprocessing_of(model) is not None:
            # shap would put the raw columns beside values of the transformed ones.
            return "a pipeline has raw and transformed columns; use linear_treeshap.TreeExplainer"
        return OurExplainer(model, data, model_output, feature_perturbation, feature_names)
    except (LinearTreeShapError, NotImplementedError) as error:
        return str(error)
