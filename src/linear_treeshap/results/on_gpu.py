"""Rows that are on a GPU in, their values on the same one out.

Predictions are made by the processor, so some of the rows are brought back to be checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from ..players.user_rows import UserRows
from .checking import Checks
from .reading import SAMPLED_ROWS, spread

if TYPE_CHECKING:
    from ..engines.cuda.engine import DeviceEngine  # not for those who have no use for it

__all__ = ["values_on_gpu"]


def values_on_gpu(
    rows: Any,
    engine: DeviceEngine,
    dtype: npt.DTypeLike,
    read: Callable[[Any], UserRows],
    check: Callable[[UserRows], Checks] | None,
    *,
    of_pairs: bool = False,
) -> Any:
    """(n_rows, n_players, n_outputs) of ``rows`` that kernels can read, or a matrix of pairs for each; None
    checks nothing."""
    shape = (len(rows), *[engine.n_players] * (2 if of_pairs else 1), engine.n_outputs)
    values = engine.device.arrays.empty(shape, dtype=dtype)
    (engine.pairs if of_pairs else engine.values)(rows, values)
    if check is not None and len(rows):
        some = spread(len(rows), min(len(rows), SAMPLED_ROWS))
        table = read(rows[some].get())
        check(table)(slice(0, len(some)), table.rows[0 : len(some)], values[some].get())
    return values
