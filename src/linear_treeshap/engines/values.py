"""Path-dependent values: an absent feature sends a row both ways, weighted as the training rows were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from .contract import Told, Truth, Values
from .program import Program
from .sets import Kind, SetEngine, pair_terms, terms_of
from .threads import n_threads

__all__ = ["FEW_ROWS", "ValueEngine", "as_among_many"]

Float64 = npt.NDArray[np.float64]

#: Calls of no more rows may be added up in other orders than larger ones, see core/values/value_engine.cpp:
#: their values are the same to rounding then, not to the last bit.
FEW_ROWS = 32

_AMONG_MANY = ContextVar("_AMONG_MANY", default=False)


@contextmanager
def as_among_many() -> Iterator[None]:
    """Rows have the bits here that they have among many: batches, say, whose cuts should mean nothing."""
    token = _AMONG_MANY.set(True)
    try:
        yield
    finally:
        _AMONG_MANY.reset(token)


class ValueEngine:
    """The values of a program's index, and the interactions of its players; see `Engine`."""

    float32_error = 0.0

    def __init__(self, program: Program) -> None:
        self.program = program
        self.n_players, self.n_outputs = program.n_players, program.n_outputs
        self._walked = program.for_values()
        self._native = _core.ValueEngine(self._walked.compiled)
        self._sets: dict[Any, SetEngine] = {}  # those that were asked for before

    def base_values(self, y: Truth = None) -> Float64:
        """(n_outputs,) the mean prediction of the training rows."""
        return self.program.ensemble.expected_value

    def values(
        self, rows: Values, out: Values, *, y: Truth = None, n_jobs: int | None = None, progress: Told = None
    ) -> None:
        """Write the values of ``rows`` to ``out``, (n_rows, n_players, n_outputs)."""
        with self._walked.rescaled(out) as found:
            self._native.explain(
                rows,
                found,
                n_threads=n_threads(n_jobs),
                progress=progress,
                among_many=_AMONG_MANY.get(),
            )

    def pairs(self, rows: Values, out: Values, *, n_jobs: int | None = None, progress: Told = None) -> None:
        """Write (n_rows, n_players, n_players, n_outputs), pairs split in half."""
        self._set_engine(pair_terms(self.program.index)).matrices(rows, out, n_jobs=n_jobs, progress=progress)

    def sets(self, kind: Kind | None, order: Any) -> SetEngine:
        """The engine of an interaction index for sets of up to ``order`` players."""
        return self._set_engine(terms_of(kind, order, self.program.index))

    def _set_engine(self, terms: Any) -> SetEngine:
        if terms not in self._sets:
            self._sets[terms] = SetEngine(self.program, terms)
        return self._sets[terms]
