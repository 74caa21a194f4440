"""Numbers that should be equal, and where they are not: what both comparisons of the check have in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

__all__ = ["FLOAT64_TOLERANCE", "REMEDY", "Difference"]

Float64 = npt.NDArray[np.float64]

#: Below this share of the largest possible sum, a difference is rounding, even of sums in float64.
FLOAT64_TOLERANCE = 1e-10
#: The end of every complaint.
REMEDY = "check_additivity=<number> allows a larger difference, check_additivity=False skips the check."


@dataclass(frozen=True)
class Difference:
    """Where numbers (n_rows, n_outputs) that should be equal differ by more than is allowed."""

    ours: Float64
    theirs: Float64
    allowed: float | Float64

    @cached_property
    def _error(self) -> Float64:
        with np.errstate(invalid="ignore"):
            return np.abs(self.ours - self.theirs)

    @cached_property
    def _bad(self) -> npt.NDArray[np.bool_]:
        return np.asarray(~(self._error <= self.allowed))

    @property
    def is_found(self) -> bool:
        return bool(self._bad.any())

    @property
    def n_rows(self) -> int:
        return int(self._bad.any(axis=1).sum())

    def words(self, numbers: npt.NDArray[np.int64] | None, ours: str, theirs: str) -> str:
        """The worst of them; ``numbers`` are those of the rows in the user's table."""
        worst = np.where(self._bad, np.nan_to_num(self._error, nan=np.inf), -1.0)
        row, output = np.unravel_index(int(np.argmax(worst)), worst.shape)
        limit = float(np.broadcast_to(self.allowed, worst.shape)[row, output])
        a, b = self.ours[row, output], self.theirs[row, output]
        where = "" if numbers is None else f"row {numbers[row]}"
        where += f", output {output}" if worst.shape[1] > 1 else ""
        return (
            f"{where.removeprefix(', ')}: {ours} {a:.9g}, {theirs} {b:.9g}; they differ by {abs(a - b):.3g}, "
            f"more than {limit:.3g}"
        )
