"""patch_shap: code that calls shap.TreeExplainer gets our engine without a change."""

from __future__ import annotations

import logging
import sys
from importlib.util import find_spec
from types import ModuleType, TracebackType
from typing import Any

from ..errors import MissingDependencyError
from ..views.plots import require_shap

__all__ = ["Patch", "patch_shap"]

_LOG = logging.getLogger("linear_treeshap")

#: Until then shap gave lists of arrays where there are several outputs, which are not what we return.
_OLDEST = (0, 45)
#: Modules that must keep shap's own classes: where these are defined, which is where pickles look for them.
_KEEP = ("shap.explainers._tree", "shap.explainers._gpu_tree", "fasttreeshap.explainers._tree")

#: The patches in force, and what was there before the first of them.
_in_force: list[Patch] = []
_before: list[tuple[Any, str, Any]] = []
_ABSENT = object()


class Patch:
    """What `patch_shap` did; ``undo()``, or the end of a ``with`` block, takes it back.

    Patches may be undone in any order: shap is itself again after the last one.
    """

    def __init__(self) -> None:
        shap = require_shap()
        _require_new(shap.__version__)
        from .shap_explainer import GPUTreeExplainer, TreeExplainer

        if not _in_force:
            _put_in_place(TreeExplainer, TreeExplainer._shap_class)
            if GPUTreeExplainer._shap_class is not TreeExplainer._shap_class:
                _put_in_place(GPUTreeExplainer, GPUTreeExplainer._shap_class)
            else:  # shap has none, and says so when it is asked for
                for module in (shap, shap.explainers):
                    _set(module, "GPUTreeExplainer", GPUTreeExplainer)
                    _set(module, "GPUTree", GPUTreeExplainer)
            _patch_fasttreeshap()
        _in_force.append(self)

    def undo(self) -> None:
        """Put back what was there before, unless another patch needs it; a second call does nothing."""
        if self not in _in_force:
            return
        _in_force.remove(self)
        while _before and not _in_force:
            owner, name, original = _before.pop()
            if original is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, original)

    def __enter__(self) -> Patch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()


def patch_shap() -> Patch:
    """Make ``shap.TreeExplainer`` and ``shap.Explainer(tree_model)`` use this library.

    So do modules that did ``from shap import TreeExplainer`` earlier, classes that were derived from it, and
    ``shap.GPUTreeExplainer``, which uses a GPU where there is one; ``fasttreeshap.TreeExplainer`` does where
    that is installed, and goes on giving lists for several outputs. Results are shap's own objects, shapes
    and numbers; that includes its choice of 100 background rows where more are given. ``approximate=True``
    gives exact values. ``save`` and ``shap.Explainer.load`` write and read a file of this library's. What is
    not supported here (outputs that are no function of one raw output, unknown models, rows in a container
    that does not give them back) is left to shap. The logger "linear_treeshap" says at level INFO what was
    left to shap, and when rows were chosen.

    Raises
    ------
    MissingDependencyError
        shap is not installed, or older than 0.45, whose results had other shapes.

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


def _patch_fasttreeshap() -> None:
    """The same for FastTreeSHAP, where it is installed and can be imported: it wants an old NumPy."""
    if find_spec("fasttreeshap") is None:
        return
    try:
        from .fasttreeshap_explainer import TreeExplainer
    except Exception as error:
        _LOG.info("fasttreeshap is installed, and is not patched: it cannot be imported: %s", error)
        return
    _put_in_place(TreeExplainer, TreeExplainer._their_class)


def _require_new(version: str) -> None:
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < _OLDEST:
        raise MissingDependencyError(
            f"patch_shap needs shap 0.45 or newer, and {version} is installed: until then results had other "
            f"shapes, which programs written for it expect. Run: pip install 'shap>=0.45', or use "
            f"linear_treeshap.TreeExplainer itself."
        )


def _put_in_place(ours: type, original: type) -> None:
    """Wherever a module has shap's class, and wherever a class is derived from it, is ours from now on."""
    for name, module in list(sys.modules.items()):
        if not isinstance(module, ModuleType) or name in _KEEP or name == ours.__module__:
            continue
        for key, value in list(module.__dict__.items()):
            if value is original:
                _set(module, key, ours)
    derived: Any
    for derived in original.__subclasses__():
        if derived.__module__ not in (*_KEEP, ours.__module__):
            bases = tuple(ours if base is original else base for base in derived.__bases__)
            _set(derived, "__bases__", bases)


def _set(owner: Any, name: str, value: Any) -> None:
    is_there = name in vars(owner) or isinstance(owner, type)
    _before.append((owner, name, getattr(owner, name) if is_there else _ABSENT))
    setattr(owner, name, value)
