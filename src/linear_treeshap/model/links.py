"""Functions of the raw output that can be explained with background data: probabilities, losses, any other.

Each gives its values and its slopes, ``(g(a) - g(b)) / (a - b)``, without losing digits where a and b are
close; the slope at a = b is the derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import InputError

__all__ = ["Curve", "Exponential", "Function", "Link", "LogLoss", "Logistic", "SquaredError", "steepness"]

Float64 = npt.NDArray[np.float64]


class Link(Protocol):
    """A function of the raw output, and perhaps of ``y``."""

    @property
    def needs_y(self) -> bool: ...

    def apply(self, raw: Float64, y: Float64 | None) -> Float64:
        """The function of raw outputs; ``y`` is broadcast against them."""

    def slope(self, a: Float64, b: Float64, y: Float64 | None) -> Float64:
        """Its slopes between raw outputs a and b, which are broadcast against each other."""


def steepness(link: Link, raw: Float64, largest: float, y: Float64 | None) -> float:
    """By how much an error of a raw output can grow: the steepest slope from these to either end of their
    range, but not less than one."""
    truth = None if y is None else y[:, None]
    ends = (np.full((1, 1), -largest), np.full((1, 1), largest))
    return max(1.0, *(float(np.abs(link.slope(end, raw, truth)).max()) for end in ends))


def _expit(x: Float64) -> Float64:
    with np.errstate(over="ignore"):  # 1 / inf is the answer there
        return np.asarray(1.0 / (1.0 + np.exp(-x)))


def _mean_exponential(step: Float64) -> Float64:
    """``(1 - exp(-step)) / step`` for steps that are not negative; 1 at 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(step == 0, 1.0, -np.expm1(-step) / step)


@dataclass(frozen=True)
class Logistic:
    """Log-odds, or that divided by ``scale`` → probability."""

    scale: float = 1.0
    needs_y: ClassVar[bool] = False

    def apply(self, raw: Float64, y: Float64 | None) -> Float64:
        return _expit(self.scale * raw)

    def slope(self, a: Float64, b: Float64, y: Float64 | None) -> Float64:
        high, low = self.scale * np.maximum(a, b), self.scale * np.minimum(a, b)
        # p(high) - p(low) = p(high) · (1 - p(low)) · (1 - exp(low - high))
        return self.scale * _expit(high) * _expit(-low) * _mean_exponential(high - low)


@dataclass(frozen=True)
class Exponential:
    """Logarithm of a mean → mean."""

    needs_y: ClassVar[bool] = False

    def apply(self, raw: Float64, y: Float64 | None) -> Float64:
        return np.exp(raw)

    def slope(self, a: Float64, b: Float64, y: Float64 | None) -> Float64:
        high, low = np.maximum(a, b), np.minimum(a, b)
        return np.asarray(np.exp(high) * _mean_exponential(high - low))


@dataclass(frozen=True)
class LogLoss:
    """Log-odds (divided by ``scale``) and the true class, 0 or 1 → the negative log-likelihood."""

    scale: float = 1.0
    needs_y: ClassVar[bool] = True

    def apply(self, raw: Float64, y: Float64 | None) -> Float64:
        assert y is not None
        return np.asarray(np.logaddexp(0.0, self.scale * raw) - y * (self.scale * raw))

    def slope(self, a: Float64, b: Float64, y: Float64 | None) -> Float64:
        high, low = self.scale * np.maximum(a, b), self.scale * np.minimum(a, b)
        step = high - low
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            near = np.log1p(_expit(low) * np.expm1(np.minimum(step, 1.0))) / step
            far = (np.logaddexp(0.0, high) - np.logaddexp(0.0, low)) / step
        softplus = np.where(step == 0, _expit(low), np.where(step < 1, near, far))
        return np.asarray(self.scale * (softplus - y))


@dataclass(frozen=True)
class SquaredError:
    """A predicted number and the true one → the square of their difference."""

    needs_y: ClassVar[bool] = True

    def apply(self, raw: Float64, y: Float64 | None) -> Float64:
        assert y is not None
        return np.asarray((raw - y) ** 2)

    def slope(self, a: Float64, b: Float64, y: Float64 | None) -> Float64:
        assert y is not None
        return np.asarray((a - y) + (b - y))


@dataclass(frozen=True)
class Function:
    """Any function that takes an array of raw outputs and gives one of the same shape."""

    function: Callable[[Any], Any]
    needs_y: ClassVar[bool] = False

    def apply(self, raw: Float64, y: Float64 | None) -> Float64:
        out = np.asarray(self.function(raw), dtype=np.float64)
        if out.shape != raw.shape or not np.isfinite(out).all():
            raise InputError(
                f"The function given as model_output must turn an array of raw outputs into finite numbers "
                f"of the same shape; of shape {raw.shape} it made {out.shape}."
            )
        return out

    def slope(self, a: Float64, b: Float64, y: Float64 | None) -> Float64:
        a, b = np.broadcast_arrays(a, b)
        # Closer than this the difference of two values has lost more digits than a wider step would cost.
        least = 1e-5 * np.maximum(1.0, np.abs(a))
        middle, half = (a + b) / 2, np.maximum(np.abs(a - b), least) / 2
        high, low = middle + half, middle - half
        return np.asarray((self.apply(high, y) - self.apply(low, y)) / (high - low))


@dataclass(frozen=True)
class Curve(Function):
    """A function that may have corners and steep steps, such as one that was fitted to data: its slope is
    that of the two points themselves, unless they are all but the same."""

    def slope(self, a: Float64, b: Float64, y: Float64 | None) -> Float64:
        step = np.asarray(a - b)
        is_near = np.abs(step) <= 1e-9 * np.maximum(1.0, np.abs(a))
        with np.errstate(invalid="ignore", divide="ignore"):
            slope = (self.apply(a, y) - self.apply(b, y)) / step
        if is_near.any():
            near_a, near_b = (np.broadcast_to(ends, step.shape)[is_near] for ends in (a, b))
            slope[is_near] = super().slope(near_a, near_b, y)
        return np.asarray(slope)
