"""The name of an interaction index → a compiled engine that gives indices to sets of players.

Only sets that meet on a path of some tree have an index other than zero, and only those exist here. Smaller
sets come first, then they are ordered by their players.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import InputError
from .indices import SHAPLEY, Atoms, Beta, Index
from .threads import n_threads
from .values import Engine

__all__ = ["MAX_ORDER", "SetEngine", "interaction_kind", "pair_engine", "set_engine"]

Progress = Callable[[float], object] | None

#: Larger sets would need more digits than float64 has; see `indices`.
MAX_ORDER = 16

KINDS = ("k-SII", "SII", "STII", "BII")


@dataclass(frozen=True)
class _Part:
    """Sets of some orders, by one measure; what a subset gets of a set's index, by the players it lacks."""

    index: Index
    min_order: int
    max_order: int
    spread: tuple[float, ...] = ()


class SetEngine:
    """Indices of all sets of up to some number of players."""

    def __init__(self, engine: Engine, parts: list[_Part]) -> None:
        self.n_players, self.n_outputs = engine.n_players, engine.n_outputs
        self._parts = [_compiled(engine, part) for part in parts]
        self._sizes = [len(part.sets) for part in self._parts]
        self.sets = tuple(tuple(players) for part in self._parts for players in part.sets)

    def values(
        self,
        rows: npt.NDArray[np.floating],
        out: npt.NDArray[np.floating],
        *,
        n_jobs: int | None = None,
        progress: Progress = None,
    ) -> None:
        """Write the indices of ``rows`` to ``out``, (n_rows, n_sets, n_outputs)."""
        begin = 0
        for done, (part, size) in enumerate(zip(self._parts, self._sizes, strict=True)):
            target = out[:, begin : begin + size]
            written = target if target.flags.c_contiguous else np.empty_like(target, order="C")
            part.explain(rows, written, n_threads=n_threads(n_jobs), progress=self._share(progress, done))
            if written is not target:
                target[...] = written
            begin += size

    def matrices(
        self,
        rows: npt.NDArray[np.floating],
        out: npt.NDArray[np.floating],
        *,
        n_jobs: int | None = None,
        progress: Progress = None,
    ) -> None:
        """Write orders 1 and 2 to ``out``, (n_rows, n_players, n_players, n_outputs), pairs split in half."""
        (part,) = self._parts
        part.explain_dense(rows, out, n_threads=n_threads(n_jobs), progress=progress)

    def add_up(
        self,
        rows: npt.NDArray[np.floating],
        sums: npt.NDArray[np.float64],
        sums_abs: npt.NDArray[np.float64],
        *,
        n_jobs: int | None = None,
    ) -> None:
        """Add the indices, and their absolute values, of all ``rows`` to (n_sets, n_outputs)."""
        begin = 0
        for part, size in zip(self._parts, self._sizes, strict=True):
            here = slice(begin, begin + size)
            part.add_up(rows, sums[here], sums_abs[here], n_threads=n_threads(n_jobs), progress=None)
            begin += size

    def _share(self, progress: Progress, done: int) -> Progress:
        """The share of one part as a share of all."""
        if progress is None:
            return None
        n_parts = len(self._parts)
        return lambda share: progress((done + share) / n_parts)


def interaction_kind(asked: Any, index: Index) -> str | None:
    """The name of the interaction index; None for that of the explainer's own index."""
    if asked is None:
        return "k-SII" if index.is_efficient else None
    if asked not in KINDS:
        raise InputError(f"index must be one of {', '.join(map(repr, KINDS))}, or None; got {asked!r}.")
    return str(asked)


def set_engine(engine: Engine, kind: str | None, order: Any, index: Index) -> SetEngine:
    """The engine of an interaction index for sets of up to ``order`` players, made once per `Engine`."""
    is_number = isinstance(order, (int, np.integer)) and not isinstance(order, bool)
    if not is_number or not 1 <= order <= MAX_ORDER:
        raise InputError(f"order must be a whole number from 1 to {MAX_ORDER}, got {order!r}.")
    order = int(order)
    if kind == "STII" and order > 1:
        # Below the highest order: what a set adds to nobody. At the highest: the mean over arrivals, in
        # which the set's last player comes; its density is k·(1-t)^(k-1).
        parts = [_Part(Atoms((0.0,), (1.0,)), 1, order - 1), _Part(Beta(order, 1), order, order)]
    elif kind == "BII":
        parts = [_Part(Atoms((0.5,), (1.0,)), 1, order)]
    elif kind == "k-SII":
        parts = [_Part(SHAPLEY, 1, order, _bernoulli(order))]
    else:
        parts = [_Part(SHAPLEY if kind in ("SII", "STII") else index, 1, order)]
    return _cached(engine, parts)


def pair_engine(engine: Engine, index: Index) -> SetEngine:
    """Values and pairs, with half of each pair taken off both of its players: rows add up to the values."""
    return _cached(engine, [_Part(index, 1, 2, _bernoulli(2))])


def _cached(engine: Engine, parts: list[_Part]) -> SetEngine:
    key = tuple(parts)
    if key not in engine.set_engines:
        engine.set_engines[key] = SetEngine(engine, parts)
    found: SetEngine = engine.set_engines[key]
    return found


def _compiled(engine: Engine, part: _Part) -> _core.Interactions:
    try:
        return engine.interactions(
            rule=part.index.rule,
            min_order=part.min_order,
            max_order=part.max_order,
            spread=list(part.spread),
        )
    except ValueError as error:
        if "too many sets" not in str(error):
            raise
        raise InputError(
            f"Sets of up to {part.max_order} players meet more than 100 million times on the paths of these "
            f"trees. Ask for a lower order."
        ) from error


def _bernoulli(order: int) -> tuple[float, ...]:
    """Bernoulli's numbers 0 … order - 1, with -1/2: the shares by which SII becomes k-SII."""
    numbers: list[Fraction] = []
    for n in range(order):
        rest = sum((comb(n + 1, k) * b for k, b in enumerate(numbers)), Fraction(0))
        numbers.append((1 if n == 0 else 0) - rest / (n + 1))
    return tuple(map(float, numbers))
