"""Functions of several raw outputs that are made in steps, such as calibrated probabilities of classes.

Each step has its matrix between two lists of what it is given, and the matrix of all is their product: it
takes the difference of the raw outputs to that of the first step's results, this to that of the second's, and
so on, so that it adds up exactly whatever the steps are, with corners or without. For one output that is the
slope of the whole. A step moves on the straight line between what it is given at the two ends: that is the
convention.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from .joint_links import JointLink, OfClasses, Softmax, mean_on_line
from .links import Link

__all__ = ["EachClass", "LogSoftmax", "Shares", "Steps"]

Float64 = npt.NDArray[np.float64]

#: (1 + r) log(1 + r) - r is Σ r² (-r)ᵏ / ((k + 1) (k + 2)); for |r| below this so many terms are all of it.
_SMALL, _TERMS = 0.1, 16
_SERIES = np.array([(-1) ** k / ((k + 1) * (k + 2)) for k in range(_TERMS)])


@dataclass(frozen=True)
class Steps:
    """One function after another."""

    steps: tuple[JointLink, ...]
    needs_y: ClassVar[bool] = False

    def n_outputs(self, n_raw: int) -> int:
        return reduce(lambda n, step: step.n_outputs(n), self.steps, n_raw)

    def output_names(self, raw: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return reduce(lambda names, step: step.output_names(names), self.steps, raw)

    def apply(self, raw: Float64, y: Float64 | None) -> Float64:
        return reduce(lambda given, step: step.apply(given, None), self.steps, raw)

    def matrix(self, a: Float64, b: Float64, y: Float64 | None) -> Float64:
        product: Float64 | None = None
        for step in self.steps:
            matrix = step.matrix(a, b, None)
            product = matrix if product is None else matrix @ product
            a, b = step.apply(a, None), step.apply(b, None)
        assert product is not None
        return product


@dataclass(frozen=True)
class EachClass(OfClasses):
    """A function of its own for each class, of what is given for that class alone."""

    links: tuple[Link, ...]

    def apply(self, raw: Float64, y: Float64 | None) -> Float64:
        return np.stack([link.apply(raw[..., k], None) for k, link in enumerate(self.links)], axis=-1)

    def matrix(self, a: Float64, b: Float64, y: Float64 | None) -> Float64:
        out = np.zeros((len(a), len(b), len(self.links), len(self.links)))
        for k, link in enumerate(self.links):
            out[:, :, k, k] = link.slope(a[:, k, None], b[None, :, k], None)
        return out


@dataclass(frozen=True)
class Shares(OfClasses):
    """Numbers that are not negative → what each is of their sum; where all are zero, each the same."""

    def apply(self, raw: Float64, y: Float64 | None) -> Float64:
        total = raw.sum(axis=-1, keepdims=True)
        same = np.full(raw.shape, 1.0 / raw.shape[-1])
        return np.asarray(np.divide(raw, total, out=same, where=total != 0))

    def matrix(self, a: Float64, b: Float64, y: Float64 | None) -> Float64:
        """The mean of (1[k = j] - share of k) / sum on the line, in closed form.

        Between two ends of which one is all zero the shares are those of the other, and jump there: that
        difference goes to each class in proportion to what it adds to the difference of sums.
        """
        total_a, total_b = a.sum(axis=1)[:, None], b.sum(axis=1)[None]
        p_a, p_b = self.apply(a, None)[:, None], self.apply(b, None)[None]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            # ∫ (1 - t) S(b) / S² and ∫ t S(a) / S², whose sum is the mean of 1 / S.
            of_b, of_a = _moment(total_b / total_a) / total_a, _moment(total_a / total_b) / total_b
            jump = (p_a - p_b) / (total_a - total_b)[..., None]
        mean_share = of_b[..., None] * p_b + of_a[..., None] * p_a
        out = (of_a + of_b)[..., None, None] * np.eye(a.shape[1]) - mean_share[..., None]
        is_zero = (total_a == 0) | (total_b == 0)
        out[is_zero] = jump[is_zero][:, :, None]
        out[(total_a == 0) & (total_b == 0)] = 0.0
        return np.asarray(out)


@dataclass(frozen=True)
class LogSoftmax(OfClasses):
    """Raw outputs of all classes → logarithms of their probabilities, each with ``least`` added to it."""

    least: float

    def apply(self, raw: Float64, y: Float64 | None) -> Float64:
        return np.log(Softmax().apply(raw, None) + self.least)

    def matrix(self, a: Float64, b: Float64, y: Float64 | None) -> Float64:
        def jacobian(raw: Float64) -> Float64:
            p = Softmax().apply(raw, None)
            return np.asarray((p / (p + self.least))[..., :, None] * (np.eye(p.shape[-1]) - p[..., None, :]))

        return mean_on_line(jacobian, a, b)


def _moment(ratio: Float64) -> Float64:
    """``ratio`` ∫ t / (1 + r t)² dt from 0 to 1, with r = ``ratio`` - 1: ((1 + r) log(1 + r) - r) / r²."""
    r = ratio - 1.0
    with np.errstate(invalid="ignore", divide="ignore"):
        far = (np.where(ratio > 0, ratio * np.log(ratio), 0.0) / r - 1.0) / r
    near = np.polynomial.polynomial.polyval(np.where(np.abs(r) < _SMALL, r, 0.0), _SERIES)
    return np.where(np.abs(r) < _SMALL, near, far)
