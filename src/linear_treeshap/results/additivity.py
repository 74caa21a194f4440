"""Do the values of a row, plus the base value, add up to what the trees predict?

Weighted sums over 64 rows are compared first, natively: see `Program.adds_up`. Whether the trees predict what
the model does is another question, see `reading`.

The tolerance follows from the arithmetic: a sum of ``n`` numbers is off by at most ``n`` half ulps of the sum
of their absolute values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..engines.contract import Engine, Truth
from ..errors import AdditivityError
from ..model.ensemble import TreeEnsemble
from ..model.joint_links import JointLink
from ..model.lines import lines_scale
from ..model.links import Link, steepness
from .difference import FLOAT64_TOLERANCE, REMEDY, Difference

__all__ = ["Adding", "scale_of"]

Float64 = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


def scale_of(ensemble: TreeEnsemble) -> float:
    """The largest sum of absolute terms that a prediction can be made of."""
    if ensemble.n_trees == 0:
        return float(np.abs(ensemble.base_values).max())
    largest_leaf = np.maximum.reduceat(np.abs(ensemble.value).max(axis=1), ensemble.tree_offsets[:-1])
    return float(np.abs(ensemble.base_values).max() + largest_leaf.sum())


@dataclass(eq=False)
class Adding:
    """The sums that an engine's values are compared with; each comparison raises AdditivityError."""

    engine: Engine
    link: Link | JointLink | None = None  # what values add up to is this function of the raw prediction
    n_jobs: int | None = None
    scale: float = field(init=False)

    def __post_init__(self) -> None:
        self.scale = scale_of(self.engine.program.ensemble)

    def sums(
        self, part: slice, block: Array, values: Array, tolerance: float | None = None, y: Truth = None
    ) -> None:
        """Do ``values``, (n_rows, …, n_outputs) of the rows ``block``, add up to what the trees predict?

        The rows are ``part`` of a table; ``y`` is what the link needs of each; ``tolerance`` is the largest
        difference allowed, or None to derive it from the scale.
        """
        if values.dtype == np.float32 and self.scale > _LARGEST_FLOAT32:
            return  # values beyond float32 are infinite there
        trees, base_values = self.engine.program, self.engine.base_values(y)
        scale = self.scale + lines_scale(trees.ensemble, block)
        flat = values if values.ndim == 3 else _flat(values)
        rounding = FLOAT64_TOLERANCE * self.scale
        is_raw = self.link is None and tolerance is None
        if is_raw and trees.adds_up(block, flat, base_values, rounding, n_jobs=self.n_jobs):
            return
        sums = np.einsum("ijk->ik", flat, dtype=np.float64, casting="safe") + base_values
        raw = trees.predict(block, n_jobs=self.n_jobs)
        expected = raw if self.link is None else self.link.apply(raw, None if y is None else y[:, None])
        allowed = self._rounding(flat, raw, expected, y, scale) if tolerance is None else tolerance
        difference = Difference(sums, expected, allowed)
        if difference.is_found:
            numbers = np.arange(part.start, part.stop)
            raise AdditivityError(
                f"The values do not add up to the prediction in {difference.n_rows} of {len(sums)} rows. "
                f"Worst is {difference.words(numbers, 'values + expected value =', 'the trees give')}. This "
                f"is a bug worth reporting. {REMEDY}"
            )

    def _rounding(self, flat: Array, raw: Float64, expected: Float64, y: Truth, scale: Any) -> Float64:
        """(n_rows, n_outputs) how far sums may be from ``expected``, which is what is made of ``raw``."""
        # Softmax and its logarithm are flatter than their raw outputs.
        if self.link is not None and not isinstance(self.link, JointLink):
            scale = scale * steepness(self.link, raw, float(np.max(scale, initial=0.0)), y)
        # Each value was rounded by up to half an ulp of itself, or to the next number above zero that its
        # type has, and so was each sum on the way.
        numbers = np.finfo(flat.dtype)
        allowed = FLOAT64_TOLERANCE * scale + flat.shape[1] * float(numbers.smallest_subnormal)
        allowed = allowed + float(numbers.eps) * np.abs(flat).sum(axis=1, dtype=np.float64)
        if flat.dtype == np.float32:  # no value is larger than all largest leaves together
            allowed = allowed + self.engine.float32_error * self.scale
        # Where leaves are tiny, a function of their sum is not: base value and sum are rounded as it is.
        return np.asarray(allowed + 8 * np.finfo(np.float64).eps * np.abs(expected))

    def total(self, block: Array, total: Float64, tolerance: float | None = None) -> None:
        """Does ``total``, (n_outputs,) a sum over all rows of ``block``, add up to their predictions?"""
        trees = self.engine.program
        expected = trees.predict(block, n_jobs=self.n_jobs).sum(axis=0)
        scale = self.scale + float(np.max(lines_scale(trees.ensemble, block), initial=0.0))
        allowed = len(block) * (FLOAT64_TOLERANCE * scale if tolerance is None else tolerance)
        sums = total + len(block) * self.engine.base_values()
        difference = Difference(sums[None], expected[None], allowed)
        if difference.is_found:
            raise AdditivityError(
                f"The interactions of {len(block)} rows do not add up to the predictions: "
                f"{difference.words(None, 'they give', 'the trees give')}. This is a bug worth reporting. "
                f"{REMEDY}"
            )


def _flat(values: Array) -> Array:
    """(n_rows, n, n_outputs) of a matrix for each row."""
    return values.reshape(len(values), math.prod(values.shape[1:-1]), values.shape[-1])
