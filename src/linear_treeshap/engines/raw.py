"""Which engine explains raw outputs against background rows: what leaves and columns are decides."""

from __future__ import annotations

from .background import BackgroundEngine
from .background_rows import Background
from .lines import LinesEngine
from .mixed import MixedEngine
from .program import Program

__all__ = ["raw_engine"]


def raw_engine(
    program: Program, background: Background, *, n_jobs: int | None = None, scan_only: bool = False
) -> BackgroundEngine | LinesEngine | MixedEngine:
    """``scan_only`` is for callers who have weights for every row and background row."""
    ensemble = program.ensemble
    if ensemble.row_format.keeps_hashes:
        return MixedEngine(program, background, n_jobs=n_jobs, scan_only=scan_only)
    if ensemble.lines is not None:
        return LinesEngine(program, background, n_jobs=n_jobs, scan_only=scan_only)
    return BackgroundEngine(program, background, n_jobs=n_jobs, scan_only=scan_only)
