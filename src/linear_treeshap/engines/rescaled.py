"""Outputs that are functions of the raw one, such as probabilities and losses, against background rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..model.links import Link
from .background import BackgroundEngine
from .background_rows import Background
from .contract import Tell, Values
from .program import Program
from .sets import SetEngine

__all__ = ["RescaledEngine"]

Float64 = npt.NDArray[np.float64]

#: Weights of rows and background rows that are in memory at once.
_NUMBERS_AT_ONCE = 1 << 22


class RescaledEngine:
    """Values of a function of the raw output, ``g(f(x))``; see `Engine`.

    For every row x and background row z the values of the raw output are multiplied by the slope
    ``(g(f(x)) - g(f(z))) / (f(x) - f(z))``, so that they add up to the difference of g; then comes the mean
    over z. This costs time in proportion to rows times background rows.
    """

    def __init__(
        self, program: Program, background: Background, link: Link, *, n_jobs: int | None = None
    ) -> None:
        self._raw = BackgroundEngine(program, background, n_jobs=n_jobs, scan_only=True)
        self.program = program
        self.n_players, self.n_outputs = program.n_players, program.n_outputs
        self.link = link

    def base_values(self, y: Float64 | None = None) -> Float64:
        """(n_outputs,) the mean of ``g`` over the background; (n_rows, n_outputs) if it depends on ``y``."""
        mean, margins = self._raw.background.mean, self._raw.margins
        if y is None:
            return mean(self.link.apply(margins, None))
        distinct, position = np.unique(y, return_inverse=True)
        means = [mean(self.link.apply(margins, np.full((1, 1), one))) for one in distinct]
        return np.asarray(np.array(means)[position.reshape(-1)])

    def values(
        self,
        rows: Values,
        out: Values,
        *,
        y: Float64 | None = None,
        n_jobs: int | None = None,
        progress: Tell | None = None,
    ) -> None:
        """Write the values of ``rows`` to ``out``, (n_rows, n_players, n_outputs)."""
        margins = self.program.predict(rows, n_jobs=n_jobs)
        step = max(1, _NUMBERS_AT_ONCE // len(self._raw.margins))
        scratch = out if self.n_outputs == 1 else np.empty((min(step, len(rows)), *out.shape[1:]), out.dtype)
        for start in range(0, len(rows), step):
            some = slice(start, min(start + step, len(rows)))
            for output in range(self.n_outputs):
                slopes = self.link.slope(
                    margins[some, output, None],
                    self._raw.margins[None, :, output],
                    None if y is None else y[some, None],
                )
                written = out[some] if self.n_outputs == 1 else scratch[: some.stop - some.start]
                weights = np.ascontiguousarray(slopes * self._raw.background.shares)
                self._raw.weighted_values(rows[some], written, weights, n_jobs=n_jobs)
                if self.n_outputs > 1:
                    out[some, :, output] = written[:, :, output]
            if progress is not None:
                progress(some.stop / len(rows))

    def pairs(
        self, rows: Values, out: Values, *, n_jobs: int | None = None, progress: Tell | None = None
    ) -> None:
        """Interactions are those of the raw output only."""
        raise InputError(
            "Interaction values are defined for model_output='raw': a product of slopes explains no pair."
        )

    def sets(self, kind: str | None, order: Any) -> SetEngine:
        """Interactions are those of the raw output only, and of pairs."""
        return self._raw.sets(kind, order)
