"""Outputs that are functions of all raw ones at once, such as probabilities of classes, against background
rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..model.joint_links import JointLink
from .background_rows import Background, merge_alike
from .contract import Sets, Told, Truth, Values
from .program import Program
from .raw import raw_engine
from .rescaled import mean_output, only_raw
from .sets import Kind

__all__ = ["JointEngine"]

Float64 = npt.NDArray[np.float64]

#: Weights of rows, background rows and pairs of outputs that are in memory at once.
_NUMBERS_AT_ONCE = 1 << 22


class JointEngine:
    """Values of a function of all raw outputs, ``g(f(x))``; see `Engine`.

    For every row x and background row z the values of the raw outputs are multiplied by the mean of g's
    Jacobian on the line from f(z) to f(x), so that they add up to the difference of g; then comes the mean
    over z. Each pair of a raw output and an output of g is explained by itself.
    """

    float32_error = 0.0

    def __init__(
        self, program: Program, background: Background, link: JointLink, *, n_jobs: int | None = None
    ) -> None:
        self.program = program
        self.n_players, self.n_outputs = program.n_players, link.n_outputs(program.n_outputs)
        self.link = link
        self._background = merge_alike(background, program.ensemble)
        self._margins = program.predict(self._background.rows, n_jobs=n_jobs)
        self._raw = [
            raw_engine(program.of_output(output), self._background, n_jobs=n_jobs, scan_only=True)
            for output in range(program.n_outputs)
        ]

    def base_values(self, y: Truth = None) -> Float64:
        """(n_outputs,) the mean of ``g`` over the background; (n_rows, n_outputs) if it depends on ``y``."""
        return mean_output(self.link, self._margins, self._background, y)

    def values(
        self, rows: Values, out: Values, *, y: Truth = None, n_jobs: int | None = None, progress: Told = None
    ) -> None:
        """Write the values of ``rows`` to ``out``, (n_rows, n_players, n_outputs)."""
        n_pairs = len(self._margins) * self.n_outputs * len(self._raw)
        step = max(1, _NUMBERS_AT_ONCE // n_pairs)
        for start in range(0, len(rows), step):
            some = slice(start, min(start + step, len(rows)))
            self._write(rows[some], out[some], None if y is None else y[some, None], n_jobs)
            if progress is not None:
                progress(some.stop / len(rows))

    def _write(self, rows: Values, out: Values, y: Float64 | None, n_jobs: int | None) -> None:
        margins = self.program.predict(rows, n_jobs=n_jobs)
        matrix = self.link.matrix(margins, self._margins, y) * self._background.shares[:, None, None]
        total = np.zeros((len(rows), self.n_players, self.n_outputs))
        part = np.empty((len(rows), self.n_players, 1))
        for number, raw in enumerate(self._raw):
            for output in range(self.n_outputs):
                weights = np.ascontiguousarray(matrix[:, :, output, number])
                if weights.any():
                    raw.weighted_values(rows, part, weights, n_jobs=n_jobs)
                    total[:, :, output] += part[:, :, 0]
        out[...] = total

    def pairs(self, rows: Values, out: Values, *, n_jobs: int | None = None, progress: Told = None) -> None:
        """Interactions are those of the raw output only."""
        raise only_raw()

    def sets(self, kind: Kind | None, order: Any) -> Sets:
        """Interactions are those of the raw output only."""
        raise only_raw()
