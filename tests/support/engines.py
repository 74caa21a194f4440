"""Engines of an ensemble in one call, for tests."""

from __future__ import annotations

from typing import Any

from linear_treeshap.engines.background import BackgroundEngine
from linear_treeshap.engines.background_rows import Background
from linear_treeshap.engines.indices import Index
from linear_treeshap.engines.program import Program
from linear_treeshap.engines.sets import SetEngine
from linear_treeshap.engines.values import ValueEngine
from linear_treeshap.model.ensemble import TreeEnsemble

__all__ = ["background_engine", "set_engine", "value_engine"]


def value_engine(ensemble: TreeEnsemble, **options: Any) -> ValueEngine:
    """``options`` are those of `Program`."""
    return ValueEngine(Program(ensemble, **options))


def set_engine(
    ensemble: TreeEnsemble, kind: Any, order: int, index: Index | None = None, **options: Any
) -> SetEngine:
    options |= {} if index is None else {"index": index}
    return value_engine(ensemble, **options).sets(kind, order)


def background_engine(
    ensemble: TreeEnsemble,
    background: Background,
    *,
    n_jobs: int | None = None,
    scan_only: bool = False,
    **options: Any,
) -> BackgroundEngine:
    return BackgroundEngine(Program(ensemble, **options), background, n_jobs=n_jobs, scan_only=scan_only)
