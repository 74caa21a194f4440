"""Values in which a combination of players is divided equally among them.

The game is played with combinations as players of their own; what each of them gets is divided afterwards,
which is CatBoost's rule. Values still add up to what they did, and rows of pairs to values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..progress import share_of
from .contract import Engine, Sets, Told, Truth, Values
from .program import Program
from .sets import Kind

__all__ = ["DividedEngine"]

Float64 = npt.NDArray[np.float64]

#: Numbers of players and combinations that are in memory at once.
_NUMBERS_AT_ONCE = 1 << 22
#: Fewer rows than this at once would leave threads and lanes idle.
_MIN_ROWS = 1024


class DividedEngine:
    """Another engine, the last of whose players are combinations of others; see `Engine`."""

    float32_error = 0.0  # the other one writes float64

    def __init__(self, engine: Engine, combined: tuple[tuple[int, ...], ...]) -> None:
        """``combined`` are the players that each combination is divided among."""
        self._engine = engine
        self._combined = combined
        self.n_players, self.n_outputs = engine.n_players - len(combined), engine.n_outputs

    @property
    def program(self) -> Program:
        return self._engine.program

    def base_values(self, y: Truth = None) -> Float64:
        """As they are: nobody is given these."""
        return self._engine.base_values(y)

    def values(
        self, rows: Values, out: Values, *, y: Truth = None, n_jobs: int | None = None, progress: Told = None
    ) -> None:
        """Write the values of ``rows`` to ``out``, (n_rows, n_players, n_outputs)."""
        for some, tell in _blocks(len(rows), self._engine.n_players * self.n_outputs, _MIN_ROWS, progress):
            whole = np.empty((some.stop - some.start, self._engine.n_players, self.n_outputs))
            of_rows = {} if y is None else {"y": y[some]}
            self._engine.values(rows[some], whole, n_jobs=n_jobs, progress=tell, **of_rows)
            _write(out[some], self._divided(whole, axis=1))

    def pairs(self, rows: Values, out: Values, *, n_jobs: int | None = None, progress: Told = None) -> None:
        """Write (n_rows, n_players, n_players, n_outputs): of a pair of combinations, each two of their
        players get the same; what a combination keeps for itself is among the pairs of its own players."""
        n_whole = self._engine.n_players
        for some, tell in _blocks(len(rows), n_whole**2 * self.n_outputs, 1, progress):
            whole = np.empty((some.stop - some.start, n_whole, n_whole, self.n_outputs))
            self._engine.pairs(rows[some], whole, n_jobs=n_jobs, progress=tell)
            _write(out[some], self._divided(self._divided(whole, axis=1), axis=2))

    def sets(self, kind: Kind | None, order: Any) -> Sets:
        """There is no rule for what a combination in a set would leave to its players."""
        raise InputError(
            "The model reads combinations of columns, and there is no rule by which the index of a set is "
            "divided among them. Pass groups='combinations' to see combinations as players of their own, or "
            "groups in which the columns of each combination are one player."
        )

    def _divided(self, whole: Float64, axis: int) -> Float64:
        """Without the combinations along an axis: their shares are added to those of their players."""
        moved = np.moveaxis(whole, axis, 0)
        divided = moved[: self.n_players].copy()
        for combination, players in enumerate(self._combined, start=self.n_players):
            share = moved[combination] / len(players)
            for player in players:
                divided[player] += share
        return np.moveaxis(divided, 0, axis)


def _blocks(n_rows: int, numbers_of_row: int, min_rows: int, progress: Told) -> Iterator[tuple[slice, Told]]:
    """Rows that are in memory at once, and who is told of their share."""
    step = max(min_rows, _NUMBERS_AT_ONCE // max(1, numbers_of_row))
    for start in range(0, n_rows, step):
        some = slice(start, min(start + step, n_rows))
        yield some, None if progress is None else share_of(progress, some, n_rows)


def _write(out: Values, values: Float64) -> None:
    with np.errstate(over="ignore"):  # beyond float32 is infinity
        out[...] = values
