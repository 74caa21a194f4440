"""patch_shap: code that calls shap.TreeExplainer gets our engine without a change."""

from __future__ import annotations

from importlib import import_module
from types import TracebackType
from typing import Any

from ..views.plots import require_shap

__all__ = ["Patch", "patch_shap"]

#: Where shap and its users look the class up.
_PLACES = (
    ("shap", "TreeExplainer"),
    ("shap.explainers", "TreeExplainer"),
    ("shap.explainers", "Tree"),
)


#: The patches in force, and what was there before the first of them.
_in_force: list[Patch] = []
_before: list[tuple[Any, str, Any]] = []


class Patch:
    """What `patch_shap` did; ``undo()``, or the end of a ``with`` block, takes it back.

    Patches may be undone in any order: shap is itself again after the last one.
    """

    def __init__(self) -> None:
        require_shap()
        from .shap_explainer import TreeExplainer

        if not _in_force:
            for module_name, name in _PLACES:
                module = import_module(module_name)
                _before.append((module, name, getattr(module, name)))
                setattr(module, name, TreeExplainer)
        _in_force.append(self)

    def undo(self) -> None:
        """Put back what was there before, unless another patch needs it; a second call does nothing."""
        if self not in _in_force:
            return
        _in_force.remove(self)
        while _before and not _in_force:
            module, name, original = _before.pop()
            setattr(module, name, original)

    def __enter__(self) -> Patch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()


def patch_shap() -> Patch:
    """Make ``shap.TreeExplainer`` and ``shap.Explainer(tree_model)`` use this library.

    Results are shap's own objects and shapes. What is not supported here (tree_limit, outputs
    that are no function of one raw output, unknown models) is left to shap, and the logger
    "linear_treeshap" says so at level INFO. Call it before other libraries do
    ``from shap import TreeExplainer``.

    Examples
    --------
    For the rest of the program:

    >>> import linear_treeshap, shap
    >>> patch = linear_treeshap.patch_shap()
    >>> patch.undo()

    For a block:

    >>> with linear_treeshap.patch_shap():
    ...     shap.TreeExplainer.__module__
    'linear_treeshap.compat.shap_explainer'
    >>> shap.TreeExplainer.__module__
    'shap.explainers._tree'
    """
    return Patch()
