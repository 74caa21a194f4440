"""A shap.TreeExplainer that computes with our engine: what `patch_shap` puts in place of shap's own.

Numbers, shapes and types are those that shap would give for the same call, exactly where shap is exact.
Whatever we do not support is handed to shap's own code, with a line in the log that says so. This module
needs shap; nothing imports it before `patch_shap` is called."""

from __future__ import annotations

import logging
import pickle
import warnings
from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import shap
from shap.explainers._tree import TreeExplainer as ShapTreeExplainer
from shap.utils._exceptions import ExplainerError

from ..errors import AdditivityError, LinearTreeShapError, UnreadableRowsError
from ..explainer import TreeExplainer as OurExplainer
from ..importers import import_model, raw_prediction
from ..importers.pipelines.preprocessing import preprocessing_of
from ..players.assignment import assign_players
from ..storage.in_memory import from_bytes, to_bytes
from .shap_model import ShapModel, explains_itself, trees_of_limit

try:
    from shap.explainers._gpu_tree import GPUTreeExplainer as ShapGPUTreeExplainer
except ImportError:  # newer releases have one only where shap's own package for a GPU is installed
    ShapGPUTreeExplainer = ShapTreeExplainer

__all__ = ["GPUTreeExplainer", "TreeExplainer"]

_LOG = logging.getLogger("linear_treeshap")

#: What ``shap.Explainer`` has stored before it turns itself into a TreeExplainer.
_OF_EXPLAINER = ("model", "masker", "output_names", "feature_names", "link", "linearize_link")
#: What shap takes an absent feature for, if it is not told; "auto", which releases before 0.47 do not know.
_SHAP_DEFAULT = signature(ShapTreeExplainer).parameters["feature_perturbation"].default
#: Background rows that shap's maskers keep.
_SHAP_KEEPS = 100
#: What a file keeps beside our explainer.
_SAVED = ("expected_value", "data", "feature_names", "data_feature_names")


class ShapAdditivityError(AdditivityError, ExplainerError):  # type: ignore[misc]
    """What programs catch, whether they were written for shap or for this library."""


class TreeExplainer(ShapTreeExplainer):  # type: ignore[misc]
    """shap's TreeExplainer, faster. Attributes that only shap's has are made when they are asked for."""

    _shap_class = ShapTreeExplainer
    _device = "cpu"
    _ours: Any  # our explainer, or why there is none

    def __init__(
        self,
        model: Any,
        data: Any = None,
        model_output: str = "raw",
        feature_perturbation: str = _SHAP_DEFAULT,
        feature_names: Any = None,
        **options: Any,
    ) -> None:
        for name in _OF_EXPLAINER:  # must not hide ours
            self.__dict__.pop(name, None)
        if isinstance(model, _Loaded):
            loaded = model.explainer
            self._ours, self._arguments = loaded, {"model": loaded.model}
            self.__dict__.update({"expected_value": loaded.expected_value, **model.beside})
            self._set_rest()
            return
        self._arguments = {
            "model": model,
            "data": data,
            "model_output": model_output,
            "feature_perturbation": feature_perturbation,
            "feature_names": feature_names,
            **options,
        }
        data = _sampled(data)
        self._ours = _explainer_or_reason(
            model, data, model_output, feature_perturbation, feature_names, self._device
        )
        if isinstance(self._ours, str):
            _LOG.info("shap.TreeExplainer(%s) is left to shap: %s", type(model).__name__, self._ours)
            super().__init__(**self._arguments)
            return
        self.expected_value = self._shap_s(self._ours.expected_value, has_data=data is not None)
        rows = data.data if isinstance(data, shap.maskers.Masker) else data
        self.data = rows if rows is None or hasattr(rows, "tocsr") else np.asarray(rows)
        self.data_feature_names = list(data.columns) if hasattr(data, "columns") else None
        if feature_names is not None:
            self.data_feature_names = feature_names
        self.feature_names = feature_names
        self._set_rest()

    def _set_rest(self) -> None:
        """What follows from the rest."""
        self.feature_perturbation, self.model_output = (
            self._ours.feature_perturbation,
            self._ours.model_output,
        )
        self.data_missing = None if self.data is None else _is_missing(self.data)
        self.masker = self.output_names = None
        self.approximate = False  # exact values take no longer
        self.link, self.linearize_link = shap.links.identity, True
        self.model = self._shap_model()

    def _shap_model(self) -> ShapModel:
        return ShapModel(self._ours, self._arguments["model"], lambda: self._theirs.model)

    def _shap_s(self, expected: Any, *, has_data: bool) -> Any:
        """The expected value in the type that shap has: of the model's own library a number, or a list of
        several; of shap's own code an array, or a number where there is background data."""
        if callable(expected):
            return expected
        by_library = not has_data and explains_itself(self._arguments["model"])
        if np.ndim(expected):
            return list(expected) if by_library else expected
        return np.float64(expected) if has_data or by_library else np.atleast_1d(expected)

    def shap_values(
        self,
        X: Any,
        y: Any = None,
        tree_limit: int | None = None,
        approximate: bool = False,
        check_additivity: bool = True,
        from_call: bool = False,
    ) -> Any:
        """As ``shap.TreeExplainer.shap_values``. With ``approximate=True`` values are as exact as without."""
        if isinstance(self._ours, str):
            return super().shap_values(X, y, tree_limit, approximate, check_additivity, from_call)
        if approximate:
            _LOG.info("shap_values(approximate=True) gives exact values: approximate ones take no less time")
        try:
            n_trees = self._n_trees(tree_limit)
            values = self._checked(X, y, n_trees, check_additivity)
        except (UnreadableRowsError, _OtherTreesError) as error:
            _LOG.info("shap_values(%s) is left to shap: %s", type(X).__name__, error)
            return self._theirs.shap_values(X, y, tree_limit, approximate, check_additivity, from_call)
        if n_trees is not None and explains_itself(self._arguments["model"]) and self.data is None:
            # As shap: what its libraries gave last, of as many trees, is the expected value.
            base = self._ours._first_trees(n_trees).base_values()
            self.expected_value = self._shap_s(base if len(base) > 1 else float(base[0]), has_data=False)
        return values

    def shap_interaction_values(self, X: Any, y: Any = None, tree_limit: int | None = None) -> Any:
        """As ``shap.TreeExplainer.shap_interaction_values``."""
        if isinstance(self._ours, str):
            return super().shap_interaction_values(X, y, tree_limit)
        try:
            return self._ours.shap_interaction_values(X, y, self._n_trees(tree_limit))
        except (UnreadableRowsError, _OtherTreesError) as error:
            _LOG.info("shap_interaction_values(%s) is left to shap: %s", type(X).__name__, error)
            return self._theirs.shap_interaction_values(X, y, tree_limit)
        except AdditivityError as error:
            raise ShapAdditivityError(str(error)) from error

    @staticmethod
    def supports_model_with_masker(model: Any, masker: Any) -> bool:
        """Can a tree explainer explain this model? ``shap.Explainer`` asks before it chooses one."""
        if masker is None or type(masker) is shap.maskers.Independent:
            try:
                import_model(model)
                return _keeps_columns(model)
            except LinearTreeShapError:
                pass  # shap knows models that we do not, and answers for them
        return bool(ShapTreeExplainer.supports_model_with_masker(model, masker))

    def save(self, out_file: BinaryIO, model_saver: Any = ".save", masker_saver: Any = ".save") -> None:
        """Write the explainer as this library does, inside what ``shap.Explainer.load`` expects: the model
        and its library are not needed to read it."""
        if isinstance(self._ours, str):
            super().save(out_file, model_saver, masker_saver)
            return
        content = to_bytes(self._ours)
        beside = {name: value for name, value in self.__dict__.items() if name in _SAVED}
        if callable(beside["expected_value"]):  # of a loss: made again
            del beside["expected_value"]
        pickle.dump(type(self), out_file)
        pickle.dump((content, beside), out_file)

    @classmethod
    def load(
        cls,
        in_file: BinaryIO,
        model_loader: Any = None,
        masker_loader: Any = None,
        instantiate: bool = True,
    ) -> Any:
        """Read what `save` wrote. There is no model in it, so there is none to be loaded."""
        if instantiate:
            return cls._instantiated_load(in_file, model_loader=model_loader, masker_loader=masker_loader)
        content, beside = pickle.load(in_file)
        return {"model": _Loaded(from_bytes(content), beside)}

    def _n_trees(self, tree_limit: int | None) -> int | None:
        """How many trees are meant; None for all."""
        if tree_limit is None or tree_limit <= 0:
            return None
        found = trees_of_limit(self._arguments["model"], self._ours.ensemble, int(tree_limit))
        if found is None:
            raise _OtherTreesError(f"tree_limit={tree_limit} means other trees than were read")
        return found or None

    def _checked(self, X: Any, y: Any, n_trees: int | None, check_additivity: bool) -> Any:
        """Values that add up within our tolerance, or, where our own check fails, within shap's."""
        try:
            return self._ours.shap_values(X, y, n_trees, check_additivity=check_additivity)
        except AdditivityError as error:
            values = self._ours.shap_values(X, y, n_trees, check_additivity=False)
            if n_trees is None and self._adds_up_for_shap(values, X):
                _LOG.warning("Values are off by more than rounding, but by less than shap allows: %s", error)
                return values
            raise ShapAdditivityError(str(error)) from error

    def _adds_up_for_shap(self, values: Any, X: Any) -> bool:
        if self._ours.model_output != "raw":
            return False
        try:
            predicted = raw_prediction(self._arguments["model"], X)
        except Exception:
            return False  # whatever the library says of these rows, that they do not add up was said before
        sums = values.sum(axis=1).reshape(len(predicted), -1) + np.reshape(self.expected_value, (1, -1))
        return bool(np.allclose(sums, predicted, rtol=1e-2, atol=1e-2))

    @property
    def _theirs(self) -> ShapTreeExplainer:
        """shap's own explainer of the same model, made when it is first needed."""
        if "_shap_explainer" not in self.__dict__:
            self.__dict__["_shap_explainer"] = self._shap_class(**self._arguments)
        return self.__dict__["_shap_explainer"]

    def __getattr__(self, name: str) -> Any:
        # Only reached for what is not here.
        if name.startswith("_") or isinstance(self.__dict__.get("_ours", ""), str):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._theirs, name)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not isinstance(value, ShapModel)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if not isinstance(self._ours, str) and "model" not in state:
            self.model = self._shap_model()


class GPUTreeExplainer(TreeExplainer, ShapGPUTreeExplainer):  # type: ignore[misc]
    """shap's GPUTreeExplainer, on a GPU where there is one and else on the CPU."""

    _shap_class = ShapGPUTreeExplainer
    _device = "auto"


class _OtherTreesError(Exception):
    """A tree_limit that is shap's business."""


@dataclass(frozen=True)
class _Loaded:
    """What a file has: our explainer, and what is beside it."""

    explainer: OurExplainer
    beside: dict[str, Any]


def _explainer_or_reason(
    model: Any, data: Any, model_output: str, feature_perturbation: Any, feature_names: Any, device: str
) -> OurExplainer | str:
    """Our explainer, or why there is none."""
    if data is None and feature_perturbation == "interventional":
        if _SHAP_DEFAULT == "interventional":  # which means the other without data
            return _explainer_or_reason(model, None, model_output, "auto", feature_names, device)
        # The words are shap's, for programs that look for them.
        warnings.warn(
            "In the future, passing feature_perturbation='interventional' without providing a background "
            "dataset will raise an error. Please provide a background dataset to continue using the "
            "interventional approach or set feature_perturbation='auto' to automatically switch approaches.",
            FutureWarning,
            stacklevel=3,
        )
        feature_perturbation = "tree_path_dependent"
    if feature_perturbation not in ("auto", "interventional", "tree_path_dependent"):
        return f"feature_perturbation={feature_perturbation!r} is unknown"
    try:
        if not _keeps_columns(model):
            # shap would put the raw columns beside values of the transformed ones.
            return "values would be of transformed columns; use linear_treeshap.TreeExplainer"
        return OurExplainer(model, data, model_output, feature_perturbation, feature_names, device=device)
    except (LinearTreeShapError, NotImplementedError) as error:
        return str(error)


def _keeps_columns(model: Any) -> bool:
    """Does a value belong to each column of the rows? Not in pipelines that mix columns."""
    preprocessing = preprocessing_of(model)
    return preprocessing is None or assign_players(None, None, import_model(model), preprocessing).is_raw


def _sampled(data: Any) -> Any:
    """As many background rows as shap keeps, and the same ones; what it does not cut is left as it is."""
    is_table = isinstance(data, (np.ndarray, pd.DataFrame)) or hasattr(data, "tocsr")
    if not is_table or data.ndim != 2 or data.shape[0] <= _SHAP_KEEPS:
        return data
    _say_sampled(data.shape[0])
    return shap.utils.sample(data, _SHAP_KEEPS)


@cache
def _say_sampled(n_rows: int) -> None:
    """Once for each size, for programs that explain in a loop."""
    _LOG.info(
        "Of %d background rows, %d are used, as shap does. For all of them pass shap.maskers.Independent(X, "
        "max_samples=len(X)), or use linear_treeshap.TreeExplainer.",
        n_rows,
        _SHAP_KEEPS,
    )


def _is_missing(rows: Any) -> Any:
    return pd.isna(rows.toarray() if hasattr(rows, "toarray") else rows)
