"""Linear TreeSHAP: exact Shapley values for decision trees, fast.

The names below are the public ones. What is rarely needed is imported when it is first used, so that
importing the package costs little more than NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .engine import kernels
from .ensemble import TreeEnsemble
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
from .explanation import Explanation
from .importers import import_model
from .interactions import Interactions
from .row_format import RowFormat

if TYPE_CHECKING:
    from . import paper
    from .importance import GlobalImportance, GlobalInteractions, global_importance, global_interactions
    from .patch import patch_shap
    from .storage import load, save

__all__ = [
    "AdditivityError",
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
    "TreeEnsemble",
    "TreeExplainer",
    "UnsupportedModelError",
    "__version__",
    "explain",
    "global_importance",
    "global_interactions",
    "import_model",
    "kernels",
    "load",
    "paper",
    "patch_shap",
    "save",
]

__version__ = "0.1.0"

#: Name → the module that has it.
_LATER = {
    "GlobalImportance": "importance",
    "GlobalInteractions": "importance",
    "global_importance": "importance",
    "global_interactions": "importance",
    "load": "storage",
    "patch_shap": "patch",
    "save": "storage",
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
