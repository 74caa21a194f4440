"""Interaction indices of sets of players against background rows.

In comes a background engine and the terms of an index; rows become the indices of all sets that meet on a
path of some tree. Those of single players and pairs are found for the whole background at once. Larger sets
are found for one background row after the other: against a single row an absent player goes one way at every
split, as if all training rows had, so that the engine of path-dependent sets gives them. They cost time in
proportion to the background rows, of which those that no split tells apart count as one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ..progress import share_of
from .background import BackgroundEngine
from .background_rows import merge_alike
from .contract import Told, Values
from .sets import SetEngine, Term, Terms

__all__ = ["BackgroundSetEngine"]

Float64 = npt.NDArray[np.float64]

#: Indices that are in memory at once.
_NUMBERS_AT_ONCE = 1 << 22


class BackgroundSetEngine:
    """Means over background rows of the indices of sets; see `Sets`."""

    def __init__(self, engine: BackgroundEngine, terms: Terms) -> None:
        self.n_players, self.n_outputs = engine.n_players, engine.n_outputs
        self._terms = [
            _Pairs(engine, term) if term.max_order <= 2 else _LargerSets(engine, term) for term in terms
        ]
        self.sets = tuple(members for term in self._terms for members in term.sets)

    def values(self, rows: Values, out: Values, *, n_jobs: int | None = None, progress: Told = None) -> None:
        """Write the indices of ``rows`` to ``out``, (n_rows, n_sets, n_outputs)."""
        for some, found in self._blocks(rows, n_jobs, progress):
            with np.errstate(over="ignore"):  # beyond float32 is infinity
                out[some] = found

    def add_up(self, rows: Values, sums: Float64, sums_abs: Float64, *, n_jobs: int | None = None) -> None:
        """Add the indices, and their absolute values, of all ``rows`` to (n_sets, n_outputs)."""
        for _, found in self._blocks(rows, n_jobs, None):
            sums += found.sum(axis=0)
            sums_abs += np.abs(found).sum(axis=0)

    def _blocks(self, rows: Values, n_jobs: int | None, progress: Told) -> Iterator[tuple[slice, Float64]]:
        """The indices of some rows after others."""
        step = max(1, _NUMBERS_AT_ONCE // max(1, len(self.sets) * self.n_outputs))
        for start in range(0, len(rows), step):
            some = slice(start, min(start + step, len(rows)))
            found = np.zeros((some.stop - some.start, len(self.sets), self.n_outputs))
            tell = None if progress is None else share_of(progress, some, len(rows))
            begin = 0
            for done, term in enumerate(self._terms):
                for share in term.add(rows[some], found[:, begin : begin + len(term.sets)], n_jobs):
                    if tell is not None:
                        tell((done + share) / len(self._terms))
                begin += len(term.sets)
            yield some, found


class _Pairs:
    """Single players and pairs, or either, by one measure."""

    def __init__(self, engine: BackgroundEngine, term: Term) -> None:
        program = engine.program.with_index(term.index)
        self._engine = engine if program is engine.program else BackgroundEngine(program, engine.background)
        ensemble, players = program.ensemble, program.players
        asked = ensemble.feature[~ensemble.is_leaf]
        of_splits = asked if players is None else players.of_column[asked]
        self._singles = np.unique(of_splits) if term.min_order == 1 else of_splits[:0]
        pairs = self._engine.players_of_pairs if term.max_order == 2 else []
        self._pairs = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        self._spread = term.spread[1] if len(term.spread) > 1 else 0.0
        self.sets = (*((player,) for player in self._singles.tolist()), *map(tuple, self._pairs.tolist()))

    def add(self, rows: Values, to: Float64, n_jobs: int | None) -> Iterator[float]:
        """Add the indices of ``rows`` to (n_rows, n_sets, n_outputs); yields the share done."""
        n_singles = len(self._singles)
        if n_singles:
            values = np.empty((len(rows), self._engine.n_players, self._engine.n_outputs))
            self._engine.values(rows, values, n_jobs=n_jobs)
            to[:, :n_singles] += values[:, self._singles]
        yield 0.5
        if len(self._pairs):
            found = np.empty((len(rows), len(self._pairs), self._engine.n_outputs))
            self._engine.indices_of_pairs(rows, found, n_jobs=n_jobs)
            to[:, n_singles:] += found
            if self._spread and n_singles:
                for pair, members in enumerate(np.searchsorted(self._singles, self._pairs)):
                    to[:, members] += self._spread * found[:, [pair]]
        yield 1.0


class _LargerSets:
    """Sets of any sizes by one measure, for one background row after the other."""

    def __init__(self, engine: BackgroundEngine, term: Term) -> None:
        self._program, self._terms = engine.program, (term,)
        self._background = merge_alike(engine.background, engine.program.ensemble)
        self.sets = SetEngine(self._program, self._terms).sets

    def add(self, rows: Values, to: Float64, n_jobs: int | None) -> Iterator[float]:
        """Add the indices of ``rows`` to (n_rows, n_sets, n_outputs); yields the share done."""
        found = np.empty(to.shape)
        shares = self._background.shares
        for done, (row, share) in enumerate(zip(self._background.rows, shares, strict=True), start=1):
            SetEngine(self._program.against(row), self._terms).values(rows, found, n_jobs=n_jobs)
            to += share * found
            yield done / len(shares)
