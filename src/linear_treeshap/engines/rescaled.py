"""Outputs that are functions of the raw one, such as probabilities and losses, against background rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..model.joint_links import JointLink
from ..model.links import Link
from .background_rows import Background, merge_alike
from .contract import Sets, Told, Truth, Values
from .program import Program
from .raw import raw_engine
from .sets import Kind

__all__ = ["RescaledEngine", "mean_output", "only_raw"]

Float64 = npt.NDArray[np.float64]

#: Weights of rows and background rows that are in memory at once.
_NUMBERS_AT_ONCE = 1 << 22


class RescaledEngine:
    """Values of a function of the raw output, ``g(f(x))``; see `Engine`.

    For every row x and background row z the values of the raw output are multiplied by the slope
    ``(g(f(x)) - g(f(z))) / (f(x) - f(z))``, so that they add up to the difference of g; then comes the mean
    over z. This costs time in proportion to rows times background rows, of which those that the trees of an
    output do not tell apart count as one. Each output has its own slopes, and so an engine of its own trees.
    """

    float32_error = 0.0

    def __init__(
        self, program: Program, background: Background, link: Link, *, n_jobs: int | None = None
    ) -> None:
        self.program = program
        self.n_players, self.n_outputs = program.n_players, program.n_outputs
        self.link = link
        self._background = background
        self._margins = program.predict(background.rows, n_jobs=n_jobs)
        self._outputs = [
            _Output(program.of_output(output), background, n_jobs) for output in range(self.n_outputs)
        ]

    def base_values(self, y: Truth = None) -> Float64:
        """(n_outputs,) the mean of ``g`` over the background; (n_rows, n_outputs) if it depends on ``y``."""
        return mean_output(self.link, self._margins, self._background, y)

    def values(
        self, rows: Values, out: Values, *, y: Truth = None, n_jobs: int | None = None, progress: Told = None
    ) -> None:
        """Write the values of ``rows`` to ``out``, (n_rows, n_players, n_outputs)."""
        for number, output in enumerate(self._outputs):
            step = max(1, _NUMBERS_AT_ONCE // len(output.position))
            for start in range(0, len(rows), step):
                some = slice(start, min(start + step, len(rows)))
                written = out[some] if self.n_outputs == 1 else np.empty((*out[some].shape[:2], 1), out.dtype)
                output.values(rows[some], written, self.link, None if y is None else y[some, None], n_jobs)
                out[some, :, number] = written[:, :, 0]
                if progress is not None:
                    progress((number + some.stop / len(rows)) / self.n_outputs)

    def pairs(self, rows: Values, out: Values, *, n_jobs: int | None = None, progress: Told = None) -> None:
        """Interactions are those of the raw output only."""
        raise only_raw()

    def sets(self, kind: Kind | None, order: Any) -> Sets:
        """Interactions are those of the raw output only."""
        raise only_raw()


def only_raw() -> InputError:
    """Why there are no interactions of other outputs."""
    return InputError(
        "Interaction values are defined for model_output='raw' only: slopes rescale values, not sets."
    )


def mean_output(
    link: Link | JointLink, margins: Float64, background: Background, y: Float64 | None
) -> Float64:
    """(n_outputs,) the mean of a function over the background; (n_rows, n_outputs) if it depends on ``y``."""
    if y is None:
        return background.mean(link.apply(margins, None))
    distinct, position = np.unique(y, return_inverse=True)
    means = [background.mean(link.apply(margins, np.full((1, 1), one))) for one in distinct]
    return np.asarray(np.array(means)[position.reshape(-1)])


class _Output:
    """The raw values of one output, and the slopes they are multiplied by."""

    def __init__(self, program: Program, background: Background, n_jobs: int | None) -> None:
        self.raw = raw_engine(
            program, merge_alike(background, program.ensemble), n_jobs=n_jobs, scan_only=True
        )
        # Background rows of equal raw output share their slopes.
        self._distinct, self.position = np.unique(self.raw.margins[:, 0], return_inverse=True)
        self._shares = self.raw.background.shares

    def values(self, rows: Values, out: Values, link: Link, y: Float64 | None, n_jobs: int | None) -> None:
        """Write the values of ``rows`` to ``out``, (n_rows, n_players, 1)."""
        margins = self.raw.program.predict(rows, n_jobs=n_jobs)
        slopes = link.slope(margins, self._distinct[None], y)
        weights = np.ascontiguousarray(slopes[:, self.position.reshape(-1)] * self._shares)
        self.raw.weighted_values(rows, out, weights, n_jobs=n_jobs)
