"""Functions of all raw outputs at once, softmax above all, that can be explained with background data.

Where a function of one raw output has a slope between two of them, a function of several has a matrix: the
mean of its Jacobian on the straight line between two lists of raw outputs a and b, so that it takes a - b to
the difference of the function's values. For one output that is the slope. It is a convention, as the slope
is: another path would divide that difference otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .links import Link

__all__ = ["Block", "JointLink", "Mixture", "OfClasses", "Softmax", "SoftmaxLoss", "mean_on_line"]

Float64 = npt.NDArray[np.float64]

#: Softmax has no pole closer to the line than π over the range of a - b. On panels on which that range is at
#: most this, 16 points of Gauss and Legendre leave an error of (π/2 + √(1 + π²/4))⁻³², which is below 1e-16.
_RANGE_OF_PANEL = 4.0
_POINTS, _WEIGHTS = (np.asarray(found) for found in np.polynomial.legendre.leggauss(16))
#: With more panels than this, softmax is a choice of the largest for all that float64 can say.
_MOST_PANELS = 1 << 12


@runtime_checkable
class JointLink(Protocol):
    """A function of all raw outputs, and perhaps of ``y``."""

    @property
    def needs_y(self) -> bool: ...

    def n_outputs(self, n_raw: int) -> int:
        """How many numbers it makes of so many raw outputs."""

    def output_names(self, raw: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """What these are called, if raw outputs are called so."""

    def apply(self, raw: Float64, y: Float64 | None) -> Float64:
        """(n, n_outputs) of raw outputs (n, n_raw) and ``y``, (n, 1) or (1, 1)."""

    def matrix(self, a: Float64, b: Float64, y: Float64 | None) -> Float64:
        """(n, m, n_outputs, n_raw) for all raw outputs a (n, n_raw) and b (m, n_raw); ``y`` is (n, 1)."""


class OfClasses:
    """What a function has in common with others that give a number for each class, of one for each."""

    needs_y: ClassVar[bool] = False

    def n_outputs(self, n_raw: int) -> int:
        return n_raw

    def output_names(self, raw: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return raw


@dataclass(frozen=True)
class Softmax(OfClasses):
    """Raw outputs of all classes, times ``scale`` → their probabilities."""

    scale: float = 1.0

    def apply(self, raw: Float64, y: Float64 | None) -> Float64:
        shares = np.exp(self.scale * (raw - raw.max(axis=-1, keepdims=True)))
        return np.asarray(shares / shares.sum(axis=-1, keepdims=True))

    def matrix(self, a: Float64, b: Float64, y: Float64 | None) -> Float64:
        def jacobian(scaled: Float64) -> Float64:
            p = Softmax().apply(scaled, None)
            return np.asarray(p[..., :, None] * (np.eye(p.shape[-1]) - p[..., None, :]))

        return self.scale * mean_on_line(jacobian, self.scale * a, self.scale * b)


@dataclass(frozen=True)
class SoftmaxLoss:
    """Raw outputs of all classes and the number of the true one → the negative log-likelihood."""

    needs_y: ClassVar[bool] = True

    def n_outputs(self, n_raw: int) -> int:
        return 1

    def output_names(self, raw: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None

    def apply(self, raw: Float64, y: Float64 | None) -> Float64:
        largest = raw.max(axis=1, keepdims=True)
        total = largest + np.log(np.exp(raw - largest).sum(axis=1, keepdims=True))
        return np.asarray(total - (raw * _is_class(y, raw.shape[1])).sum(axis=1, keepdims=True))

    def matrix(self, a: Float64, b: Float64, y: Float64 | None) -> Float64:
        p = mean_on_line(lambda raw: Softmax().apply(raw, None)[..., None, :], a, b)
        return np.asarray(p - _is_class(y, a.shape[1])[:, None, None, :])


@dataclass(frozen=True)
class Block:
    """A term of a mixture: a function of some of the raw outputs, which nobody else reads."""

    weight: float
    #: Which raw outputs it takes.
    columns: tuple[int, ...]
    #: What it makes of them: one output of one, all outputs of all, or, if it is None, themselves.
    link: Link | JointLink | None


@dataclass(frozen=True)
class Mixture:
    """Raw outputs of several models → the weighted sum of functions of them, such as their probabilities."""

    blocks: tuple[Block, ...]
    names: tuple[str, ...]
    needs_y: ClassVar[bool] = False

    def n_outputs(self, n_raw: int) -> int:
        return len(self.names)

    def output_names(self, raw: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return self.names

    def apply(self, raw: Float64, y: Float64 | None) -> Float64:
        total = np.zeros((len(raw), len(self.names)))
        for block in self.blocks:
            taken = raw[:, list(block.columns)]
            total += block.weight * (taken if block.link is None else block.link.apply(taken, None))
        return total

    def matrix(self, a: Float64, b: Float64, y: Float64 | None) -> Float64:
        out = np.zeros((len(a), len(b), len(self.names), a.shape[1]))
        for block in self.blocks:
            columns = list(block.columns)
            if block.link is None:
                out[:, :, range(len(columns)), columns] = block.weight
            elif isinstance(block.link, JointLink):
                out[..., columns] = block.weight * block.link.matrix(a[:, columns], b[:, columns], None)
            else:
                slope = block.link.slope(a[:, columns], b[:, columns].T, None)
                out[:, :, 0, columns[0]] = block.weight * slope
        return out


def _is_class(y: Float64 | None, n_classes: int) -> Float64:
    """(n, n_classes) ones where the class is the true one."""
    assert y is not None
    if not np.isin(y, np.arange(n_classes)).all():
        raise InputError(
            f"y must be the number of the true class of each row, from 0 to {n_classes - 1}; "
            f"got {y.ravel()[~np.isin(y.ravel(), np.arange(n_classes))][0]:g}."
        )
    return np.asarray(y == np.arange(n_classes), dtype=np.float64)


def mean_on_line(function: Any, a: Float64, b: Float64) -> Float64:
    """(n, m, …) the mean of a function of raw outputs between each a and each b.

    How many points it takes depends on the pair alone, so that no pair's numbers depend on its neighbours.
    """
    start, step = np.broadcast_to(b[None], (len(a), *b.shape)), a[:, None] - b[None]
    ranges = np.ptp(step, axis=-1)
    panels = 2 ** np.ceil(np.log2(np.maximum(ranges / _RANGE_OF_PANEL, 1.0))).astype(np.int64)
    if panels.max(initial=1) > _MOST_PANELS:
        raise InputError(
            f"The raw outputs of two rows differ by {ranges.max():.3g} more in one class than in another, "
            f"and the probabilities between them cannot be told from 0 and 1. Use model_output='raw'."
        )
    out: Float64 | None = None
    for n_panels in np.unique(panels).tolist():
        here = panels == n_panels
        total: Any = 0.0
        for panel in range(n_panels):
            for point, weight in zip(_POINTS, _WEIGHTS, strict=True):
                t = (panel + (point + 1) / 2) / n_panels
                total = total + weight / (2 * n_panels) * function(start[here] + t * step[here])
        if out is None:
            out = np.empty((*panels.shape, *total.shape[1:]))
        out[here] = total
    assert out is not None
    return out
