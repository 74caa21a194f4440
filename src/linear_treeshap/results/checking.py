"""What is compared while a table is explained, slice after slice; or nothing.

- *Values against trees*, of every row: see `additivity`.
- *Trees against the library*, of some rows, if the model's library is there to be asked: see `reading`.
- *Signs of values*, against one reference row, of columns with a monotone constraint: see `monotone`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..engines.contract import Engine, Truth
from ..errors import InputError
from ..importers import has_library
from ..importers.pipelines.preprocessing import Preprocessing
from ..model.joint_links import JointLink
from ..model.links import Link
from ..players.user_rows import UserRows
from .additivity import Adding
from .monotone import Signs
from .reading import Library

__all__ = ["Checking", "Checks", "is_off"]

Array = npt.NDArray[Any]


class Checking:
    """What an explainer compares. It is made once: a single row is explained in microseconds."""

    def __init__(
        self,
        model: Any,
        engine: Engine,
        *,
        link: Link | JointLink | None = None,
        index: Any = "shapley",  # as the user says it
        preprocessing: Preprocessing | None = None,
        background: Callable[[], UserRows] | None = None,
        signs: Callable[[float], Signs | None] = lambda scale: None,
        n_jobs: int | None = None,
    ) -> None:
        self._engine, self._link, self._index, self._n_jobs = engine, link, index, n_jobs
        self._adding = Adding(engine, link, n_jobs)
        self._signs = signs(self._adding.scale)
        self._library = None
        self._background = background
        #: Is there more than trees: a library to ask for a prediction?
        self.has_library = has_library(model)
        if self.has_library:
            self._library = Library(model, engine.program, self._adding.scale, preprocessing, n_jobs)

    def of(
        self,
        table: UserRows,
        engine: Engine,
        check_additivity: object,
        *,
        adds_up: bool,
        has_signs: bool = False,
    ) -> Checks:
        """What is compared while a table is explained; the values of ``engine`` may add up, or not, and they
        are of players, or of sets, whose signs say nothing."""
        if is_off(check_additivity):
            return NO_CHECKS
        tolerance = _tolerance(check_additivity)
        if tolerance is not None and not adds_up:
            raise InputError(
                f"check_additivity={check_additivity!r} has nothing to compare: values of "
                f"index={self._index!r} do not add up to the prediction. Leave check_additivity out."
            )
        background = self._background  # looked at once: another thread may have just checked it
        if background is not None and self._library is not None:
            self._check_background(self._library, background(), tolerance)
        adding = None
        if adds_up:
            adding = self._adding if engine is self._engine else Adding(engine, self._link, self._n_jobs)
        return Checks(table, self._library, adding, self._signs if has_signs else None, tolerance)

    def _check_background(self, library: Library, table: UserRows, tolerance: float | None) -> None:
        """Was the background read as the model's library reads it? This is asked once."""
        for some in table.slices():
            library.compare(table, some, table.rows[some], tolerance)
        self._background = None

    def compared_with(self, check_additivity: object, *, adds_up: bool) -> str:
        """What sums are compared with, in the words of `About`."""
        if is_off(check_additivity) or not adds_up:
            return "nothing"
        return "model" if self.has_library else "trees"


class Checks:
    """The comparisons of one table; what is None is not compared. Each raises AdditivityError, or, of signs,
    ModelError."""

    __slots__ = ("_adding", "_library", "_signs", "_table", "_tolerance")

    def __init__(
        self,
        table: UserRows | None,
        library: Library | None,
        adding: Adding | None,
        signs: Signs | None,
        tolerance: float | None,
    ) -> None:
        self._table, self._library, self._adding, self._tolerance = table, library, adding, tolerance
        self._signs = signs

    def __call__(self, part: slice, block: Array, values: Array, y: Truth = None) -> None:
        """Check the rows ``part``, read as ``block``, and their values."""
        self._read(part, block)
        if self._adding is not None and values.size:
            self._adding.sums(part, block, values, self._tolerance, y)
        if self._signs is not None:
            self._signs.check(part, block, values)

    def total(self, part: slice, block: Array, total: npt.NDArray[np.float64]) -> None:
        """The same where only a sum over all rows and sets is known, (n_outputs,)."""
        self._read(part, block)
        if self._adding is not None:
            self._adding.total(block, total, self._tolerance)

    def _read(self, part: slice, block: Array) -> None:
        library, table = self._library, self._table
        if library is None or table is None or not len(block):
            return
        if library.is_always_asked(table):
            library.compare(table, part, block, self._tolerance)
            return
        is_odd = not np.isfinite(block).all()
        kind = (type(table.raw), getattr(table.raw, "dtype", None), self._tolerance, is_odd)
        is_due = library.asked.is_due(kind)
        if is_due:
            library.compare(table, part, block, self._tolerance)
        library.asked.add(kind, len(block), was_asked=is_due)


NO_CHECKS = Checks(None, None, None, None, None)


def is_off(check_additivity: object) -> bool:
    return isinstance(check_additivity, (bool, np.bool_)) and not check_additivity


def _tolerance(check_additivity: object) -> float | None:
    """The user's own largest difference; None if it is to be derived from the model."""
    if isinstance(check_additivity, (bool, np.bool_)):
        return None
    if not isinstance(check_additivity, (int, float, np.integer, np.floating)) or not check_additivity >= 0:
        raise InputError(
            f"check_additivity must be True, False, or the largest difference allowed; "
            f"got {check_additivity!r}."
        )
    return float(check_additivity)
