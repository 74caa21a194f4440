"""patch_shap: code that calls shap.TreeExplainer gets our engine without a change."""

from __future__ import annotations

from importlib import import_module
from types import TracebackType
from typing import Any

from .plots import require_shap

__all__ = ["Patch", "patch_shap"]

#: Where shap and its users look the class up.
_PLACES = (
    ("shap", "TreeExplainer"),
    ("shap.explainers", "TreeExplainer"),
    ("shap.explainers", "Tree"),
)


class Patch:
    """What `patch_shap` did; ``undo()``, or the end of a ``with`` block, takes it back."""

    def __init__(self) -> None:
        require_shap()
        from .shap_explainer import TreeExplainer

        self._before: list[tuple[Any, str, Any]] = []
        for module_name, name in _PLACES:
            module = import_module(module_name)
            self._before.append((module, name, getattr(module, name)))
            setattr(module, name, TreeExplainer)

    def undo(self) -> None:
        """Put back what was there before; a second call does nothing."""
        while self._before:
            module, name, original = self._before.pop()
            setattr(module, name, original)

    def __enter__(self) -> Patch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()


def patch_shap() -> Patch:
    """Make ``shap.TreeExplainer`` and ``shap.Explainer(tree_model)`` use this library.

    Results are shap's own objects and shapes. What is not supported here (background data, interactions,
    other outputs than the raw one, unknown models) is left to shap, and the logger "linear_treeshap" says
    so at level INFO. Call it before other libraries do ``from shap import TreeExplainer``.

    Examples
    --------
    For the rest of the program:

    >>> import linear_treeshap, shap
    >>> patch = linear_treeshap.patch_shap()
    >>> patch.undo()

    For a block:

    >>> with linear_treeshap.patch_shap():
    ...     shap.TreeExplainer.__module__
    'linear_treeshap.shap_explainer'
    >>> shap.TreeExplainer.__module__
    'shap.explainers._tree'
    """
    return Patch()
