"""Linear TreeSHAP: exact Shapley values for decision trees, fast.

The names below are the public ones. What is rarely needed is imported when it is first used, so that
importing the package costs little more than NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .engines.program import kernels
from .errors import (
    AdditivityError,
    FileFormatError,
    InputError,
    LinearTreeShapError,
    MissingDependencyError,
    ModelError,
    UnsupportedModelError,
)
from .explainer import TreeExplainer, explain
from .importers import import_model
from .model.ensemble import TreeEnsemble
from .model.row_format import RowFormat
from .results.explanation import Explanation
from .results.interactions import Interactions

if TYPE_CHECKING:
    from . import paper
    from .compat.patch import patch_shap
    from .importance import global_importance, global_interactions
    from .importers.survival_curves import survival_curve
    from .results.reasons import Stability, stability
    from .results.sums import BySegment, GlobalImportance, GlobalInteractions
    from .storage.saved_explainer import load, save
    from .streams.explain import explain_batches

__all__ = [
    "AdditivityError",
    "BySegment",
    "Explanation",
    "FileFormatError",
    "GlobalImportance",
    "GlobalInteractions",
    "InputError",
    "Interactions",
    "LinearTreeShapError",
    "MissingDependencyError",
    "ModelError",
    "RowFormat",
    "Stability",
    "TreeEnsemble",
    "TreeExplainer",
    "UnsupportedModelError",
    "__version__",
    "explain",
    "explain_batches",
    "global_importance",
    "global_interactions",
    "import_model",
    "kernels",
    "load",
    "paper",
    "patch_shap",
    "save",
    "stability",
    "survival_curve",
]

__version__ = "0.1.0"

#: Name → the module that has it.
_LATER = {
    "BySegment": "results.sums",
    "GlobalImportance": "results.sums",
    "GlobalInteractions": "results.sums",
    "Stability": "results.reasons",
    "explain_batches": "streams.explain",
    "global_importance": "importance",
    "global_interactions": "importance",
    "load": "storage.saved_explainer",
    "patch_shap": "compat.patch",
    "save": "storage.saved_explainer",
    "stability": "results.reasons",
    "survival_curve": "importers.survival_curves",
}


def __getattr__(name: str) -> Any:
    if name == "paper":
        return import_module(".paper", __name__)
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{_LATER[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
