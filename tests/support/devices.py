"""The devices that engines are tested on: plain C++ everywhere, and a GPU where there is one."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from plain_device import PlainDevice

from linear_treeshap.engines.background import BackgroundEngine
from linear_treeshap.engines.background_rows import Background
from linear_treeshap.engines.cuda.background import TableEngine
from linear_treeshap.engines.cuda.device import Device
from linear_treeshap.engines.cuda.engine import PathEngine
from linear_treeshap.engines.cuda.gpu import find_gpu
from linear_treeshap.engines.program import Program
from linear_treeshap.engines.values import ValueEngine
from linear_treeshap.errors import MissingDependencyError
from linear_treeshap.model.ensemble import TreeEnsemble

__all__ = ["DEVICES", "device_engine", "has_gpu", "table_engine"]


def has_gpu() -> bool:
    """Is there a GPU, and all that it needs?"""
    if find_spec("cupy") is None:
        return False
    try:
        find_gpu("cuda")
    except MissingDependencyError:
        return False
    return True


DEVICES: dict[str, Callable[[], Device]] = {"plain": PlainDevice}
if has_gpu():
    DEVICES["gpu"] = lambda: find_gpu("cuda")


def device_engine(ensemble: TreeEnsemble, device: Device | None = None, **options: Any) -> PathEngine:
    """``options`` are those of `Program`."""
    return PathEngine(ValueEngine(Program(ensemble, **options)), device or PlainDevice())


def table_engine(
    ensemble: TreeEnsemble, background: Background, device: Device | None = None, **options: Any
) -> TableEngine:
    """``options`` are those of `Program`."""
    return TableEngine(BackgroundEngine(Program(ensemble, **options), background), device or PlainDevice())
