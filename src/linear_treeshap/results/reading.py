"""Were the trees and these rows read as the model's own library reads them?

Its prediction of some rows is compared with that of the trees. This needs no values, so it holds for whatever
is explained: interactions that add up to nothing, background rows, the first trees only. To ask a library for
a few rows takes longer than to explain them, so small tables are compared now and then: see `Asked`.

The tolerance follows from the arithmetic: a sum of ``n`` numbers is off by at most ``n`` half ulps of the sum
of their absolute values, in the type that the library adds them in.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..engines.program import Program
from ..errors import AdditivityError
from ..importers import raw_prediction
from ..importers.pipelines.preprocessing import Preprocessing
from ..model.lines import lines_scale
from ..players.user_rows import UserRows
from ..rows.frames import is_frame
from ..rows.tables import take_rows
from .difference import FLOAT64_TOLERANCE, REMEDY, Difference

__all__ = ["ALWAYS_ASKED_WORK", "SAMPLED_ROWS", "Asked", "Library", "compare_with_library", "spread"]

Float64 = npt.NDArray[np.float64]
Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]

#: Where the library is asked, it is for all rows of a table of up to so many.
SAMPLED_ROWS = 256
#: Of a larger one, for so many of those that have missing values or infinities; the others are spread evenly.
_ODD_ROWS = 64

#: In a call of so many rows times leaves it is always asked: a sample takes little beside their time.
ALWAYS_ASKED_WORK = 100_000_000


class Asked:
    """When is the library asked about rows? In the first call, and whenever three times as many have been
    explained since as had been before: however small the calls are, its time is soon little beside theirs.

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
        self._counts[kind] = (before + n_rows, 4 * (before + n_rows) if was_asked else due)


class Library:
    """The model's own library, for as long as there is one to ask."""

    def __init__(
        self,
        model: Any,
        program: Program,
        scale: float,  # see `scale_of`
        preprocessing: Preprocessing | None,
        n_jobs: int | None = None,
    ) -> None:
        self._model, self._preprocessing, self._n_jobs = model, preprocessing, n_jobs
        self._program, self._scale, ensemble = program, scale, program.ensemble
        self._n_trees, self._n_leaves = ensemble.n_trees, ensemble.n_leaves
        self._row_format = row_format = ensemble.row_format
        self._has_labels = bool(row_format.categories or row_format.hashes or row_format.frame_labels)
        self.asked = Asked()

    def is_always_asked(self, table: UserRows) -> bool:
        """A large table is always compared, and so are rows whose labels, or whose container, may be
        otherwise each time."""
        if table.n_rows * self._n_leaves >= ALWAYS_ASKED_WORK or table.is_container:
            return True
        return self._has_labels and is_frame(table.table)

    def compare(self, table: UserRows, part: slice, block: Array, tolerance: float | None) -> None:
        """Are the rows ``part`` of the table, read as ``block``, what the library takes them for?"""
        # What is looked up for features is always a number.
        numbers = _sampled(table.n_rows, part, block[:, : self._row_format.n_features])
        if len(numbers):
            rows = np.ascontiguousarray(block[numbers - part.start])
            ours = self._program.predict(rows, n_jobs=self._n_jobs)
            theirs = self._predict(table, numbers)
            scale = self._scale + lines_scale(self._program.ensemble, rows)
            compare_with_library(
                ours, theirs, numbers, n_trees=self._n_trees, scale=scale, tolerance=tolerance
            )

    def _predict(self, table: UserRows, numbers: Numbers) -> Float64:
        """(n_rows, n_outputs) the library's own raw prediction of the rows with these numbers."""
        if table.n_rows > SAMPLED_ROWS and not table.is_container:
            return self._raw(table, numbers)
        if table.predicted is None:  # few rows are predicted as they came, and so is what cannot be cut
            table.predicted = self._raw(table, None)
        whole = table.predicted
        return whole[numbers] if len(whole) == table.n_rows else whole

    def _raw(self, table: UserRows, numbers: Numbers | None) -> Float64:
        if self._preprocessing is None:
            return raw_prediction(self._model, table.for_library(self._row_format, numbers))
        return raw_prediction(self._model, table.raw if numbers is None else take_rows(table.raw, numbers))


def compare_with_library(
    ours: Float64,
    theirs: Float64,
    numbers: Numbers,
    *,
    n_trees: int,
    scale: float | Float64,
    tolerance: float | None = None,
) -> None:
    """Raise AdditivityError unless the trees predict what the library does, for rows with these numbers."""
    if theirs.shape != ours.shape:
        raise AdditivityError(
            f"The model predicts an array of shape {theirs.shape} for {ours.shape[0]} rows and "
            f"{ours.shape[1]} outputs. Was the model trained again after the explainer was made?"
        )
    rounding = _rounding(theirs, n_trees) * scale
    difference = Difference(ours, theirs, rounding if tolerance is None else tolerance)
    if difference.is_found:
        raise AdditivityError(
            f"Values cannot add up to the model's own prediction: its trees, as they were read, predict "
            f"otherwise in {difference.n_rows} of {len(ours)} rows compared. Worst is "
            f"{difference.words(numbers, 'the trees give', 'the model predicts')}. Likely causes: the "
            f"rows carry a base_margin or init_score; the model was trained on after the explainer was "
            f"made; or the library reads these rows otherwise than this one, which is a bug worth "
            f"reporting. {REMEDY}"
        )


def _sampled(n_rows: int, part: slice, block: Array) -> Numbers:
    """The rows of a part of a table of so many that are compared: the same for any cut into parts, but that
    the odd ones, with something missing, are chosen in each part for its share."""
    is_small = n_rows <= SAMPLED_ROWS
    chosen = spread(n_rows, min(n_rows, SAMPLED_ROWS if is_small else SAMPLED_ROWS - _ODD_ROWS))
    chosen = chosen[(chosen >= part.start) & (chosen < part.stop)]
    if is_small:
        return np.asarray(chosen)
    odd = np.flatnonzero(~np.isfinite(block).all(axis=1))
    n_odd = min(len(odd), -(-_ODD_ROWS * len(block) // n_rows))
    return np.asarray(np.union1d(chosen, odd[spread(len(odd), n_odd)] + part.start))


def spread(n: int, n_chosen: int) -> Numbers:
    """Numbers below ``n``, evenly spread, the first and the last among them."""
    return np.asarray(np.linspace(0, max(n - 1, 0), n_chosen).round(), dtype=np.int64)


def _rounding(prediction: Float64, n_trees: int) -> float:
    """How far the library's own sum may be from ours by rounding alone, as a share of the scale."""
    with np.errstate(over="ignore"):
        is_float32 = bool((prediction == prediction.astype(np.float32)).all())
    # A library that answers in float32 may have added in float32: XGBoost does.
    half_ulp = float(np.finfo(np.float32 if is_float32 else np.float64).eps) / 2
    # Besides the sum over trees: base score, leaves and answer are rounded once each.
    return max(FLOAT64_TOLERANCE, half_ulp * (n_trees + 4))
