"""What one case found: how often each check was made, its worst error, and what it complains about.

Errors are given as shares of a scale, that of the numbers that were added up; a check complains about an
error beyond its tolerance, and about numbers that are not finite where the right ones are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Check", "Finding", "Tally"]

#: Below this an error is that of numbers too small for float64 to have all its digits.
_TINY = 1e-306


@dataclass
class Check:
    """What all comparisons of one kind came to."""

    count: int = 0  # calls
    numbers: int = 0
    worst: float = 0.0

    def add(self, other: Check) -> None:
        self.count += other.count
        self.numbers += other.numbers
        self.worst = max(self.worst, other.worst)


@dataclass(frozen=True)
class Finding:
    check: str
    what: str


@dataclass
class Tally:
    checks: dict[str, Check] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def done(self, check: str, numbers: int = 0, worst: float = 0.0) -> None:
        """A check was made."""
        self.checks.setdefault(check, Check()).add(Check(1, numbers, worst))

    def complain(self, check: str, what: str) -> None:
        self.done(check)
        self.findings.append(Finding(check, what))

    def close(self, check: str, found: Any, expected: Any, scale: Any, tolerance: float) -> None:
        """Are the numbers within ``tolerance`` of the ``scale``, which is broadcast to them?"""
        got, right = np.asarray(found, dtype=np.longdouble), np.asarray(expected, dtype=np.longdouble)
        if got.shape != right.shape:
            self.complain(check, f"shape {got.shape}, expected {right.shape}")
            return
        scale = np.broadcast_to(np.asarray(scale, dtype=np.longdouble), got.shape)
        with np.errstate(all="ignore"):
            gap = np.abs(got - right)
            error = np.where(gap <= _TINY, 0, gap / scale)
            error = np.where(np.isnan(gap), np.inf, error)
        worst = float(np.max(error, initial=0.0))
        self.done(check, got.size, worst if worst <= tolerance else 0.0)
        if not worst <= tolerance:
            at = np.unravel_index(int(np.argmax(error)), error.shape)
            self.findings.append(
                Finding(
                    check,
                    f"{float(got[at])!r}, expected {float(right[at])!r}: off by {float(gap[at]):.2g}, "
                    f"{worst:.2g} of its scale, at {tuple(map(int, at))} of {got.shape}",
                )
            )

    def same_bits(self, check: str, found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> None:
        """Are the arrays equal bit for bit?"""
        if found.shape != expected.shape or found.dtype != expected.dtype:
            self.complain(check, f"{found.dtype} {found.shape}, expected {expected.dtype} {expected.shape}")
            return
        self.done(check, found.size)
        differ = found != expected
        differ &= ~(np.isnan(found) & np.isnan(expected))
        if differ.any():
            at = tuple(map(int, np.argwhere(differ)[0]))
            self.findings.append(
                Finding(
                    check,
                    f"{int(differ.sum())} of {differ.size} numbers differ: "
                    f"{found[at]!r}, expected {expected[at]!r} at {at}",
                )
            )
