"""Background rows: an absent feature takes the values of each of them, and values are means over them.

Making the engine costs one pass over the background; after that a row costs the same however many background
rows there are, except for the leaves of deep trees (see docs/background.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from .background_rows import Background
from .contract import Sets, Told, Truth, Values
from .program import Program
from .sets import Kind, terms_of
from .threads import n_threads

__all__ = ["BackgroundEngine"]

Float64 = npt.NDArray[np.float64]

#: Indices of pairs that are in memory at once.
_NUMBERS_AT_ONCE = 1 << 22


class BackgroundEngine:
    """Values are means over background rows, whose values an absent feature takes; see `Engine`."""

    float32_error = 0.0

    def __init__(
        self,
        program: Program,
        background: Background,
        *,
        n_jobs: int | None = None,
        scan_only: bool = False,
    ) -> None:
        """``scan_only`` makes no tables, for callers who have weights for every row and background row."""
        self.program = program
        self.background = background
        self.n_players, self.n_outputs = program.n_players, program.n_outputs
        self._scan_only = scan_only
        self._of_players = self._native(n_jobs, of_pairs=False)
        self._of_pairs: _core.BackgroundEngine | None = None  # made when first asked for
        self._sets: dict[Any, Sets] = {}
        #: (n_background_rows, n_outputs) raw predictions of the background rows
        self.margins = program.predict(background.rows, n_jobs=n_jobs)

    def _native(self, n_jobs: int | None, *, of_pairs: bool) -> _core.BackgroundEngine:
        weights = self.background.weights
        return _core.BackgroundEngine(
            self.program.compiled,
            self.background.rows,
            np.empty(0) if weights is None else weights,
            scan_only=self._scan_only,
            of_pairs=of_pairs,
            n_threads=n_threads(n_jobs),
            progress=None,
        )

    def base_values(self, y: Truth = None) -> Float64:
        """(n_outputs,) the mean raw prediction over the background."""
        return self.background.mean(self.margins)

    def values(
        self, rows: Values, out: Values, *, y: Truth = None, n_jobs: int | None = None, progress: Told = None
    ) -> None:
        """Write the values of ``rows`` to ``out``, (n_rows, n_players, n_outputs)."""
        self.weighted_values(rows, out, None, n_jobs=n_jobs, progress=progress)

    def weighted_values(
        self,
        rows: Values,
        out: Values,
        weights: Float64 | None,  # (n_rows, n_background_rows)
        *,
        n_jobs: int | None = None,
        progress: Told = None,
    ) -> None:
        """Write sums over the background with weights for every row and background row; None for means."""
        with self.program.rescaled(out) as found:
            self._of_players.explain(
                rows, found, row_pair_weights=weights, n_threads=n_threads(n_jobs), progress=progress
            )

    def pairs(self, rows: Values, out: Values, *, n_jobs: int | None = None, progress: Told = None) -> None:
        """Write (n_rows, n_players, n_players, n_outputs): half of each pair's index in two places, and on
        the diagonal what is left of each player's value."""
        pairs = np.array(self.players_of_pairs, dtype=np.int64).reshape(-1, 2)
        step = max(1, _NUMBERS_AT_ONCE // max(1, self.n_players**2 * self.n_outputs))
        diagonal = np.arange(self.n_players)
        for start in range(0, len(rows), step):
            some = slice(start, min(start + step, len(rows)))
            matrix = np.zeros((some.stop - some.start, *out.shape[1:]))  # sums are float64, whatever `out` is
            own = np.empty((len(matrix), self.n_players, self.n_outputs))
            self.values(rows[some], own, n_jobs=n_jobs)
            found = np.empty((len(matrix), len(pairs), self.n_outputs))
            self.indices_of_pairs(rows[some], found, n_jobs=n_jobs)
            matrix[:, pairs[:, 0], pairs[:, 1]] = matrix[:, pairs[:, 1], pairs[:, 0]] = found / 2
            matrix[:, diagonal, diagonal] = own - matrix.sum(axis=2)
            with np.errstate(over="ignore"):  # beyond float32 is infinity
                out[some] = matrix
            if progress is not None:
                progress(some.stop / len(rows))

    @property
    def players_of_pairs(self) -> list[list[int]]:
        """The pairs of players that meet on a path of some tree."""
        return self._pairs_engine(None).pairs

    def indices_of_pairs(self, rows: Values, out: Values, *, n_jobs: int | None = None) -> None:
        """Write (n_rows, n_pairs, n_outputs), the interaction index of each pair."""
        with self.program.rescaled(out) as found:
            self._pairs_engine(n_jobs).explain(
                rows, found, row_pair_weights=None, n_threads=n_threads(n_jobs), progress=None
            )

    def table_lists(self) -> dict[str, Any]:
        """The tables of players as other devices read them (table_lists.hpp)."""
        return self._of_players.table_lists()

    def sets(self, kind: Kind | None, order: Any) -> Sets:
        """The engine of an interaction index for sets of up to ``order`` players."""
        from .background_sets import BackgroundSetEngine  # which is made of engines like this one

        terms = terms_of(kind, order, self.program.index)
        if terms not in self._sets:
            self._sets[terms] = BackgroundSetEngine(self, terms)
        return self._sets[terms]

    def _pairs_engine(self, n_jobs: int | None) -> _core.BackgroundEngine:
        if self._of_pairs is None:
            self._of_pairs = self._native(n_jobs, of_pairs=True)
        return self._of_pairs
