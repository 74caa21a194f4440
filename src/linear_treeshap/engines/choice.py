"""Which engine explains what: the one place where one is chosen."""

from __future__ import annotations

from ..model.ensemble import TreeEnsemble
from ..model.links import Link
from ..players.players import Players
from .background import BackgroundEngine
from .background_rows import Background
from .contract import Engine
from .indices import Index
from .program import Program
from .rescaled import RescaledEngine
from .values import ValueEngine

__all__ = ["engine_for"]


def engine_for(
    ensemble: TreeEnsemble,
    players: Players,
    index: Index,
    *,
    background: Background | None,
    link: Link | None,
    n_jobs: int | None,
) -> Engine:
    """Path-dependent values without a ``background``, those of raw outputs without a ``link``."""
    program = Program(ensemble, players=players, index=index)
    if background is None:
        return ValueEngine(program)
    if link is None:
        return BackgroundEngine(program, background, n_jobs=n_jobs)
    return RescaledEngine(program, background, link, n_jobs=n_jobs)
