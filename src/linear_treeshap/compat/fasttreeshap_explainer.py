"""A fasttreeshap.TreeExplainer that computes with our engine: what `patch_shap` puts in place of its own.

FastTreeSHAP is an early shap with a faster kernel, and answers as shap did then: several outputs are a list
of arrays. Rows and options go to our shap.TreeExplainer; what it gives comes back in that form. What it would
leave to shap is left to FastTreeSHAP. This module needs both; nothing imports it before `patch_shap` is
called, and then only where fasttreeshap is installed."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pandas as pd
from fasttreeshap.explainers._tree import Tree as FastTreeExplainer
from fasttreeshap.utils import sample

from .shap_explainer import TreeExplainer as OurShapExplainer

__all__ = ["TreeExplainer"]

_LOG = logging.getLogger("linear_treeshap")


class TreeExplainer(FastTreeExplainer):  # type: ignore[misc]
    """FastTreeSHAP's TreeExplainer, faster. ``algorithm``, ``n_jobs`` and ``memory_tolerance`` choose among
    kernels of its own, and change nothing here."""

    _their_class = FastTreeExplainer

    def __init__(
        self,
        model: Any,
        data: Any = None,
        model_output: str = "raw",
        feature_perturbation: str = "tree_path_dependent",
        algorithm: str = "auto",
        n_jobs: int = -1,
        memory_tolerance: float = -1,
        feature_names: Any = None,
        approximate: bool = False,
        shortcut: bool = False,
        **deprecated_options: Any,
    ) -> None:
        self.algorithm, self.n_jobs, self.memory_tolerance = algorithm, n_jobs, memory_tolerance
        self.approximate, self.shortcut = approximate, shortcut
        if data is None:
            feature_perturbation = "tree_path_dependent"
        self._inside: Any = None
        if shortcut or deprecated_options:
            reason: Any = (
                "shortcut=True asks the model's own library" if shortcut else "old options were given"
            )
        else:
            is_table = isinstance(data, (np.ndarray, pd.DataFrame))
            rows = sample(data) if is_table else data  # 100 of them, chosen otherwise than by shap
            self._inside = OurShapExplainer(model, rows, model_output, feature_perturbation, feature_names)
            reason = self._inside._ours
        if isinstance(reason, str):
            self._inside = None
            _LOG.info("fasttreeshap.TreeExplainer(%s) is left to it: %s", type(model).__name__, reason)
            super().__init__(
                model,
                data,
                model_output,
                feature_perturbation,
                algorithm,
                n_jobs,
                memory_tolerance,
                feature_names,
                approximate,
                shortcut,
                **deprecated_options,
            )
            return
        self.model, self.masker = self._inside.model, None
        self.data, self.data_missing = self._inside.data, self._inside.data_missing
        self.data_feature_names = self._inside.data_feature_names
        self.feature_names, self.model_output = feature_names, model_output
        self.feature_perturbation = self._inside.feature_perturbation
        expected = self._inside.expected_value
        self.expected_value = expected[0] if np.size(expected) == 1 and np.ndim(expected) else expected

    def shap_values(
        self,
        X: Any,
        y: Any = None,
        tree_limit: int | None = None,
        approximate: bool = False,
        check_additivity: bool = True,
        from_call: bool = False,
    ) -> Any:
        """As ``fasttreeshap.TreeExplainer.shap_values``: a list of arrays where there are several outputs.
        With ``approximate=True`` values are as exact as without."""
        if self._inside is None:
            return super().shap_values(X, y, tree_limit, approximate, check_additivity, from_call)
        return self._by_output(self._inside.shap_values(X, y, tree_limit, approximate, check_additivity))

    def shap_interaction_values(self, X: Any, y: Any = None, tree_limit: int | None = None) -> Any:
        """As ``fasttreeshap.TreeExplainer.shap_interaction_values``."""
        if self._inside is None:
            return super().shap_interaction_values(X, y, tree_limit)
        return self._by_output(self._inside.shap_interaction_values(X, y, tree_limit))

    def _by_output(self, values: Any) -> Any:
        """A list of arrays, one for each of several outputs, which are the last axis here."""
        return list(np.moveaxis(values, -1, 0)) if self._inside._ours.n_outputs > 1 else values
