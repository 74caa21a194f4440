"""The devices that engines are tested on: plain C++ everywhere, and a GPU where there is one."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from plain_device import PlainDevice

from linear_treeshap.engines.cuda.device import Device
from linear_treeshap.engines.cuda.engine import DeviceEngine
from linear_treeshap.engines.cuda.gpu import find_gpu
from linear_treeshap.engines.program import Program
from linear_treeshap.engines.values import ValueEngine
from linear_treeshap.errors import MissingDependencyError
from linear_treeshap.model.ensemble import TreeEnsemble

__all__ = ["DEVICES", "device_engine", "has_gpu"]


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


def device_engine(ensemble: TreeEnsemble, device: Device | None = None, **options: Any) -> DeviceEngine:
    """``options`` are those of `Program`."""
    return DeviceEngine(ValueEngine(Program(ensemble, **options)), device or PlainDevice())
