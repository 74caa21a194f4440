"""Where values are written: an array of the user's or a new one, filled slice after slice of the rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..engines.contract import Told, Values
from ..errors import InputError
from ..players.user_rows import UserRows
from ..progress import Progress, report, share_of
from .checking import Checks

__all__ = ["OutputArray"]


@dataclass(eq=False)  # not frozen, as one is made for every single row that is served
class OutputArray:
    """Where values go, in which type, and who is told how far they are."""

    out: Values | None = None
    dtype: npt.DTypeLike = "float64"
    progress: Progress = False

    def filled(
        self,
        user_rows: UserRows,
        explain: Callable[..., None],
        shape_of_row: tuple[int, ...],
        *,
        player_axes: int,
        check: Checks,
        n_jobs: int | None,
        y: npt.NDArray[np.float64] | None = None,
    ) -> Values:
        """(n_rows, *shape_of_row) what ``explain``, a method of an `Engine`, says of all rows, checked.

        So many of the axes of a row are of players: an engine has them in the model's order, and what is
        returned has them in that of the user's columns.
        """
        values = self._room_for(user_rows, shape_of_row)
        order = user_rows.order if player_axes else None
        moved: Any = None if order is None else (slice(None), *np.ix_(*[order] * player_axes))

        def write(some: slice, tell: Told) -> None:
            target = values[some]
            written = target if moved is None else np.empty_like(target)
            block, of_rows = user_rows.rows[some], {} if y is None else {"y": y[some]}
            explain(block, written, n_jobs=n_jobs, progress=tell, **of_rows)
            check(some, block, written, **of_rows)
            if moved is not None:
                target[moved] = written

        slices = user_rows.slices(beside=0 if moved is None else math.prod(shape_of_row))
        if not self.progress:  # the engine does not report at all, which a single row is grateful for
            for some in slices:
                write(some, None)
            return values
        with report(self.progress) as tell:
            for some in slices:
                write(some, share_of(tell, some, user_rows.n_rows))
            tell(1.0)
        return values

    @property
    def checked_dtype(self) -> npt.DTypeLike:
        """The type of values in a new array."""
        if self.dtype not in ("float64", "float32", np.float64, np.float32):
            raise InputError(f"dtype must be 'float64' or 'float32', got {self.dtype!r}.")
        return self.dtype

    def returned(self, values: Values, user_rows: UserRows) -> Values:
        """What the user gets: their own array, or values without the dimensions of a single row or output."""
        if self.out is not None:
            return self.out
        values = values[..., 0] if values.shape[-1] == 1 else values
        return values[0] if user_rows.is_one_row else values

    def _room_for(self, user_rows: UserRows, shape_of_row: tuple[int, ...]) -> Values:
        """The array to write to, with outputs as its last dimension: the user's own if there is one."""
        shape, out = (user_rows.n_rows, *shape_of_row), self.out
        if out is None:
            return np.empty(shape, dtype=self.checked_dtype)
        expected: tuple[int, ...] = shape[:-1] if shape[-1] == 1 else shape
        expected = expected[1:] if user_rows.is_one_row else expected
        is_array = isinstance(out, np.ndarray) and out.dtype in (np.float64, np.float32)
        if not is_array or out.shape != expected or not (out.flags.c_contiguous and out.flags.writeable):
            got = f"{out.dtype} of shape {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
            raise InputError(
                f"out must be a writable C-contiguous array of float64 or float32 of shape {expected}, got "
                f"{got}."
            )
        if isinstance(user_rows.table, np.ndarray) and np.may_share_memory(out, user_rows.table):
            raise InputError(
                "out shares memory with X, which is still read while out is written. Pass a new array."
            )
        return np.asarray(out).reshape(shape)
