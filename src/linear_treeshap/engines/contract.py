"""What every engine promises, whatever it explains and wherever it runs.

Rows that are ready to be read go in, values come out in an array of the caller's. An engine never changes
after it is made, so threads may share it; bits depend neither on the number of threads nor on how rows are
cut into calls, unless calls are of so few rows that another walk is quicker; sums are float64 or better,
whatever ``out`` is. A call can be interrupted, and ``progress`` may explain other rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from .program import Program
    from .sets import Kind

__all__ = ["Engine", "Sets", "Tell", "Told", "Truth", "Values"]

#: Rows and values: float64 or float32, C-contiguous.
Values = npt.NDArray[np.floating]
#: Is told the share done, from 0 to 1.
Tell = Callable[[float], object]
Told = Tell | None
#: (n_rows,) outcomes, for engines whose values depend on them.
Truth = npt.NDArray[np.float64] | None


class Sets(Protocol):
    """An interaction index of a model's players, ready to be found for rows."""

    @property
    def n_players(self) -> int: ...

    @property
    def n_outputs(self) -> int: ...

    @property
    def sets(self) -> tuple[tuple[int, ...], ...]:
        """The sets that meet on a path of some tree, smaller ones first, then by their players."""

    def values(self, rows: Values, out: Values, *, n_jobs: int | None = None, progress: Told = None) -> None:
        """Write the indices of ``rows`` to ``out``, (n_rows, n_sets, n_outputs)."""

    def add_up(
        self,
        rows: Values,
        sums: npt.NDArray[np.float64],
        sums_abs: npt.NDArray[np.float64],
        *,
        n_jobs: int | None = None,
    ) -> None:
        """Add the indices, and their absolute values, of all ``rows`` to (n_sets, n_outputs)."""


class Engine(Protocol):
    """A model, players and an index, ready to explain rows."""

    @property
    def program(self) -> Program:
        """The trees that values add up to."""

    @property
    def float32_error(self) -> float:
        """How far values may be off if ``out`` is float32, besides being rounded to it, as a share of the
        largest value that an output has in any row."""

    @property
    def n_players(self) -> int: ...

    @property
    def n_outputs(self) -> int: ...

    def base_values(self, y: Truth = None) -> npt.NDArray[np.float64]:
        """(n_outputs,) what values are added to; (n_rows, n_outputs) if it depends on the outcomes ``y``."""

    def values(
        self, rows: Values, out: Values, *, y: Truth = None, n_jobs: int | None = None, progress: Told = None
    ) -> None:
        """Write the values of ``rows`` to ``out``, (n_rows, n_players, n_outputs).

        ``y`` (n_rows,) are outcomes, for engines whose values depend on them.
        """

    def pairs(self, rows: Values, out: Values, *, n_jobs: int | None = None, progress: Told = None) -> None:
        """Write (n_rows, n_players, n_players, n_outputs): half of each pair's index in two places, and on
        the diagonal what is left of each player's value."""

    def sets(self, kind: Kind | None, order: Any) -> Sets:
        """The engine of an interaction index, see `sets.KINDS`, for sets of up to ``order`` players.

        An engine that has none raises InputError, as it does for ``pairs``.
        """
