"""Where values are written: an array of the user's or a new one, filled slice after slice of the rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..players.user_rows import Given
from ..progress import Progress, report

__all__ = ["fill", "float_type", "room_for"]

Values = npt.NDArray[np.floating]
Tell = Callable[[float], object]


def fill(
    values: Values,
    given: Given,
    write: Callable[[slice, Values, Tell | None], None],
    *,
    numbers_per_row: int,
    progress: Progress,
) -> None:
    """Call ``write(part, values[part], tell)`` for slices that make up all rows, and tell how far it is."""
    slices = given.slices(numbers_per_row=numbers_per_row)
    if not progress:  # the engine does not report at all, which a single row is grateful for
        for part in slices:
            write(part, values[part], None)
        return
    with report(progress) as tell:
        for part in slices:
            write(part, values[part], _share(tell, part, given.rows.n_rows))
        tell(1.0)


def _share(tell: Tell, part: slice, n_rows: int) -> Tell:
    """The share of a slice as a share of all rows."""
    return lambda share: tell((part.start + share * (part.stop - part.start)) / n_rows)


def float_type(dtype: npt.DTypeLike) -> npt.DTypeLike:
    if dtype not in ("float64", "float32", np.float64, np.float32):
        raise InputError(f"dtype must be 'float64' or 'float32', got {dtype!r}.")
    return dtype


def room_for(
    given: Given,
    shape_of_row: tuple[int, ...],
    n_outputs: int,
    out: Values | None,
    dtype: npt.DTypeLike,
) -> Values:
    """The array to write to, with outputs as its last dimension: the user's own if there is one."""
    shape = (given.rows.n_rows, *shape_of_row, n_outputs)
    if out is None:
        return np.empty(shape, dtype=float_type(dtype))
    expected: tuple[int, ...] = shape[:-1] if n_outputs == 1 else shape
    expected = expected[1:] if given.is_one_row else expected
    is_array = isinstance(out, np.ndarray) and out.dtype in (np.float64, np.float32)
    if not is_array or out.shape != expected or not (out.flags.c_contiguous and out.flags.writeable):
        got = f"{out.dtype} of shape {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        raise InputError(
            f"out must be a writable C-contiguous array of float64 or float32 of shape {expected}, got {got}."
        )
    if isinstance(given.table, np.ndarray) and np.may_share_memory(out, given.table):
        raise InputError(
            "out shares memory with X, which is still read while out is written. Pass a new array."
        )
    return np.asarray(out).reshape(shape)
