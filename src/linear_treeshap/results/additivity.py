"""Do the values of a row, plus the base value, add up to what the model itself predicts?

Two comparisons answer that, made slice after slice while a table is explained:

- *Values against trees.* Values and base value of every row against what the compiled trees predict for it.
  Weighted sums over 64 rows are compared first: see `Program.adds_up`.
- *Trees against the library.* Were the trees and the rows read as the model's library reads them? Its own
  prediction of some rows against that of the trees. This needs no values, so it holds for whatever is
  explained: interactions that add up to nothing, background rows, the first trees only. To ask a library for
  a few rows takes longer than to explain them, so small tables are compared now and then: see `Asked`.

The tolerance follows from the arithmetic: a sum of ``n`` numbers is off by at most ``n`` half ulps of the sum
of their absolute values, in the type that the model's library adds them in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..engines.program import Program
from ..errors import AdditivityError, InputError
from ..model.ensemble import TreeEnsemble
from ..model.links import Link, steepness

__all__ = [
    "ALWAYS_ASKED_WORK",
    "SAMPLED_ROWS",
    "Asked",
    "Check",
    "Checks",
    "compare_with_library",
    "scale_of",
    "tolerance_of",
]

Float64 = npt.NDArray[np.float64]
Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]

#: Where the library is asked, it is for all rows of a table of up to so many.
SAMPLED_ROWS = 256
#: Of a larger one, for so many of those that have missing values or infinities; the others are spread evenly.
_ODD_ROWS = 64

#: In a call of so many rows times leaves it is always asked: a sample takes little beside their time.
ALWAYS_ASKED_WORK = 100_000_000

#: Below this share of the largest possible sum, a difference is rounding, even of sums in float64.
_FLOAT64_TOLERANCE = 1e-10
_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


def tolerance_of(check_additivity: object) -> float | None:
    """The user's own largest difference; None if it is to be derived from the model."""
    if isinstance(check_additivity, (bool, np.bool_)):
        return None
    if not isinstance(check_additivity, (int, float, np.integer, np.floating)) or not check_additivity >= 0:
        raise InputError(
            f"check_additivity must be True, False, or the largest difference allowed; "
            f"got {check_additivity!r}."
        )
    return float(check_additivity)


def scale_of(ensemble: TreeEnsemble) -> float:
    """The largest sum of absolute terms that a prediction can be made of."""
    if ensemble.n_trees == 0:
        return float(np.abs(ensemble.base_values).max())
    largest_leaf = np.maximum.reduceat(np.abs(ensemble.value).max(axis=1), ensemble.tree_offsets[:-1])
    return float(np.abs(ensemble.base_values).max() + largest_leaf.sum())


class Asked:
    """When is the library asked about rows? In the first call, and whenever as many rows have been explained
    since as had been before: however small the calls are, its time is soon little beside theirs.

    This is counted for each kind of rows by itself: of another type, or the first with something missing.
    Threads that share an explainer may lose count of a few rows.
    """

    def __init__(self) -> None:
        self._counts: dict[Hashable, tuple[int, int]] = {}  # rows explained, and how many make the next time

    def is_due(self, kind: Hashable) -> bool:
        n_rows, due = self._counts.get(kind, (0, 0))
        return n_rows >= due

    def add(self, kind: Hashable, n_rows: int, *, was_asked: bool) -> None:
        """Rows were explained, and perhaps compared, without complaint."""
        before, due = self._counts.get(kind, (0, 0))
        self._counts[kind] = (before + n_rows, 2 * (before + n_rows) if was_asked else due)


@dataclass  # not frozen: that takes longer to make than to compare a row
class Check:
    """The comparisons of one table; each raises AdditivityError."""

    trees: Program
    n_rows: int
    n_trees: int
    scale: float
    tolerance: float | None = None  # the largest difference allowed; None to derive it from the scale
    link: Link | None = None  # what values add up to is this function of the raw prediction
    #: (n_rows, n_outputs) the library's own raw prediction of the rows with these numbers, if there is one.
    library: Callable[[Numbers], Float64] | None = None
    asked: Asked | None = None  # None: the library is asked whatever happened before
    kind: Hashable = None  # of the rows
    n_jobs: int | None = None
    float32_error: float = 0.0  # of the engine, see `Engine`

    @cached_property
    def _spread(self) -> Numbers:
        """Rows that are compared with the library, whatever is in them; the first and the last among them."""
        n = min(self.n_rows, SAMPLED_ROWS if self.n_rows <= SAMPLED_ROWS else SAMPLED_ROWS - _ODD_ROWS)
        return _spread(self.n_rows, n)

    def rows(self, part: slice, block: Array) -> None:
        """Are the rows ``part`` of the table, read as ``block``, what the library takes them for?"""
        if self.library is None or not len(block):
            return
        is_odd = not np.isfinite(block).all()
        kind = (self.kind, self.tolerance, is_odd)
        is_due = self.asked is None or self.asked.is_due(kind)
        if is_due:
            self._ask(self.library, part, block, self._sampled(part, block) if is_odd else self._in(part))
        if self.asked is not None:
            self.asked.add(kind, len(block), was_asked=is_due)

    def _ask(
        self, library: Callable[[Numbers], Float64], part: slice, block: Array, numbers: Numbers
    ) -> None:
        if len(numbers):
            ours = self.trees.predict(np.ascontiguousarray(block[numbers - part.start]), n_jobs=self.n_jobs)
            compare_with_library(
                ours,
                library(numbers),
                numbers,
                n_trees=self.n_trees,
                scale=self.scale,
                tolerance=self.tolerance,
            )

    def _in(self, part: slice) -> Numbers:
        """The rows of the spread sample that are in a part of the table."""
        return np.asarray(self._spread[(self._spread >= part.start) & (self._spread < part.stop)])

    def _sampled(self, part: slice, block: Array) -> Numbers:
        """The same and some of the rows that have something missing."""
        spread = self._in(part)
        if self.n_rows <= SAMPLED_ROWS:
            return spread
        odd = np.flatnonzero(~np.isfinite(block).all(axis=1))
        n_odd = min(len(odd), -(-_ODD_ROWS * len(block) // self.n_rows))
        return np.asarray(np.union1d(spread, odd[_spread(len(odd), n_odd)] + part.start))

    def sums(
        self, part: slice, block: Array, values: Array, base_values: Float64, y: Float64 | None = None
    ) -> None:
        """Do ``values``, (n_rows, …, n_outputs) of the rows ``block``, add up to what the trees predict?

        ``base_values`` is (n_outputs,), or one for each row; ``y`` is what the link needs of each row.
        """
        if not values.size and not self.n_trees:
            return
        if values.dtype == np.float32 and self.scale > _LARGEST_FLOAT32:
            return  # values beyond float32 are infinite there
        flat = values.reshape(len(values), math.prod(values.shape[1:-1]), values.shape[-1])
        if self.link is None and self.tolerance is None and flat.size:
            rounding = _FLOAT64_TOLERANCE * self.scale
            if self.trees.adds_up(block, flat, base_values, rounding, n_jobs=self.n_jobs):
                return
        sums = np.einsum("ijk->ik", flat, dtype=np.float64, casting="safe") + base_values
        raw = self.trees.predict(block, n_jobs=self.n_jobs)
        expected, scale = raw, self.scale
        if self.link is not None:
            expected = self.link.apply(raw, None if y is None else y[:, None])
            scale = scale * steepness(self.link, raw, scale, y)
        allowed: Any = self.tolerance
        if allowed is None:
            # Each value was rounded by up to half an ulp of itself, or to the next number above zero that its
            # type has, and so was each sum on the way.
            numbers = np.finfo(values.dtype)
            allowed = _FLOAT64_TOLERANCE * scale + flat.shape[1] * float(numbers.smallest_subnormal)
            allowed = allowed + float(numbers.eps) * np.abs(flat).sum(axis=1, dtype=np.float64)
            if values.dtype == np.float32:  # no value is larger than all largest leaves together
                allowed = allowed + self.float32_error * self.scale
            # Where leaves are tiny, a function of their sum is not: base value and sum are rounded as it is.
            allowed = allowed + 8 * np.finfo(np.float64).eps * np.abs(expected)
        difference = _Difference(sums, expected, allowed)
        if difference.is_found:
            numbers = np.arange(part.start, part.stop)
            raise AdditivityError(
                f"The values do not add up to the prediction in {difference.n_rows} of {len(sums)} rows. "
                f"Worst is {difference.words(numbers, 'values + expected value =', 'the trees give')}. This "
                f"is a bug worth reporting. {_REMEDY}"
            )

    def total(self, block: Array, total: Float64, base_values: Float64) -> None:
        """Does ``total``, (n_outputs,) a sum over all rows of ``block``, add up to their predictions?"""
        expected = self.trees.predict(block, n_jobs=self.n_jobs).sum(axis=0)
        allowed = len(block) * (_FLOAT64_TOLERANCE * self.scale if self.tolerance is None else self.tolerance)
        difference = _Difference((total + len(block) * base_values)[None], expected[None], allowed)
        if difference.is_found:
            raise AdditivityError(
                f"The interactions of {len(block)} rows do not add up to the predictions: "
                f"{difference.words(None, 'they give', 'the trees give')}. This is a bug worth reporting. "
                f"{_REMEDY}"
            )


@dataclass
class Checks:
    """Both comparisons of a table, or none: what is None is not compared."""

    reading: Check | None = None
    adding: Check | None = None
    base_values: Callable[[Float64 | None], Float64] | None = None  # of the rows' y

    def __call__(self, part: slice, block: Array, values: Array, y: Float64 | None = None) -> None:
        """Check the rows ``part``, read as ``block``, and their values."""
        if self.reading is not None:
            self.reading.rows(part, block)
        if self.adding is not None and self.base_values is not None and values.size:
            self.adding.sums(part, block, values, self.base_values(y), y)

    def total(self, part: slice, block: Array, total: Float64) -> None:
        """The same where only a sum over all rows and sets is known, (n_outputs,)."""
        if self.reading is not None:
            self.reading.rows(part, block)
        if self.adding is not None and self.base_values is not None:
            self.adding.total(block, total, self.base_values(None))


def compare_with_library(
    ours: Float64,
    theirs: Float64,
    numbers: Numbers,
    *,
    n_trees: int,
    scale: float,
    tolerance: float | None = None,
) -> None:
    """Raise AdditivityError unless the trees predict what the library does, for rows with these numbers."""
    if theirs.shape != ours.shape:
        raise AdditivityError(
            f"The model predicts an array of shape {theirs.shape} for {ours.shape[0]} rows and "
            f"{ours.shape[1]} outputs. Was the model trained again after the explainer was made?"
        )
    rounding = _rounding(theirs, n_trees) * scale
    difference = _Difference(ours, theirs, rounding if tolerance is None else tolerance)
    if difference.is_found:
        raise AdditivityError(
            f"Values cannot add up to the model's own prediction: its trees, as they were read, predict "
            f"otherwise in {difference.n_rows} of {len(ours)} rows compared. Worst is "
            f"{difference.words(numbers, 'the trees give', 'the model predicts')}. Likely causes: the "
            f"rows carry a base_margin or init_score; the model was trained on after the explainer was "
            f"made; or the library reads these rows otherwise than this one, which is a bug worth "
            f"reporting. {_REMEDY}"
        )


def _spread(n: int, n_chosen: int) -> Numbers:
    """Numbers below ``n``, evenly spread, the first and the last among them."""
    return np.asarray(np.linspace(0, max(n - 1, 0), n_chosen).round(), dtype=np.int64)


_REMEDY = "check_additivity=<number> allows a larger difference, check_additivity=False skips the check."


# -- differences ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Difference:
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

    def words(self, numbers: Numbers | None, ours: str, theirs: str) -> str:
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


def _rounding(prediction: Float64, n_trees: int) -> float:
    """How far the library's own sum may be from ours by rounding alone, as a share of the scale."""
    with np.errstate(over="ignore"):
        is_float32 = bool((prediction == prediction.astype(np.float32)).all())
    # A library that answers in float32 may have added in float32: XGBoost does.
    half_ulp = float(np.finfo(np.float32 if is_float32 else np.float64).eps) / 2
    # Besides the sum over trees: base score, leaves and answer are rounded once each.
    return max(_FLOAT64_TOLERANCE, half_ulp * (n_trees + 4))
