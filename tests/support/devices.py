"""The devices that engines are tested on, plain C++ everywhere and a GPU where there is one, and how close
their engines are to the processor's.

In float64 to 1e-12 of the largest value of a row's output, in float32 to 1e-6 of that of all rows, as the
documentation says: several times what is found.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
from plain_device import PlainDevice

from linear_treeshap.engines.background import BackgroundEngine
from linear_treeshap.engines.background_rows import Background
from linear_treeshap.engines.cuda.background import TableEngine
from linear_treeshap.engines.cuda.device import Device
from linear_treeshap.engines.cuda.engine import DeviceEngine, PathEngine
from linear_treeshap.engines.cuda.gpu import find_gpu
from linear_treeshap.engines.program import Program
from linear_treeshap.engines.values import ValueEngine
from linear_treeshap.errors import MissingDependencyError
from linear_treeshap.model.ensemble import TreeEnsemble

__all__ = [
    "DEVICES",
    "TOLERANCE",
    "Rows",
    "assert_as_the_processor",
    "device_engine",
    "has_gpu",
    "pairs_of",
    "table_engine",
    "values_of",
]

Rows = npt.NDArray[np.floating]

TOLERANCE = {"float64": 1e-12, "float32": 1e-6}


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


def values_of(engine: Any, rows: Rows, dtype: str = "float64") -> Rows:
    out = np.full((len(rows), engine.n_players, engine.n_outputs), np.nan, dtype=dtype)
    engine.values(rows, out)
    return out


def pairs_of(engine: Any, rows: Rows, dtype: str = "float64") -> Rows:
    shape = (len(rows), engine.n_players, engine.n_players, engine.n_outputs)
    out = np.full(shape, np.nan, dtype=dtype)
    engine.pairs(rows, out)
    return out


def assert_as_the_processor(
    engine: DeviceEngine, rows: Rows, explain: Callable[..., Rows] = values_of
) -> None:
    """``explain`` is `values_of` or `pairs_of`."""
    expected = explain(engine._processor, rows)
    largest = np.abs(expected).max(axis=tuple(range(1, expected.ndim - 1)), keepdims=True, initial=0)
    # A row may have no value but those that are beside nothing in any leaf.
    least = 1e-18 * np.abs(engine.program.ensemble.value).max()
    for dtype, tolerance in TOLERANCE.items():
        error = np.abs(explain(engine, rows, dtype) - expected)
        scale = largest if dtype == "float64" else largest.max(axis=0)
        assert (error <= tolerance * scale + least).all(), (explain.__name__, dtype)
