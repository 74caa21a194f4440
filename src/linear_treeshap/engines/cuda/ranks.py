"""Rows on a device → their ranks there, see `conditions.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .conditions import Conditions
from .device import C_NAMES, Device

__all__ = ["Ranks"]

#: Rows whose ranks one block makes, and columns: of many rows, and of few.
_ROWS, _COLUMNS = 128, (16, 2)


class Ranks:
    """Conditions on a device, for rows of one type."""

    def __init__(self, conditions: Conditions, device: Device, row_dtype: np.dtype[Any]) -> None:
        self._device, self.n_columns = device, len(conditions.columns)
        tables = (conditions.columns.view(np.uint8), conditions.keys)
        self.held = [device.arrays.asarray(table) for table in tables]
        self._columns, self._keys = map(device.address, self.held)
        self._kernel = device.kernel("ranks.cu", "ranks", {"ROW": C_NAMES[row_dtype]})

    def write(self, rows: Any, out: int, pitch: int, few: bool, totals: int = 0, n_totals: int = 0) -> None:
        """Write (n_columns, pitch) ranks of rows on the device, which are of a call of few or of many, and so
        many zeros to totals."""
        n_at_once = _COLUMNS[few]
        self._kernel.launch(
            -(-pitch // _ROWS) * max(1, -(-self.n_columns // n_at_once)),
            _ROWS,
            0,
            self._device.address(rows),
            len(rows),
            rows.shape[1],
            self._columns,
            self.n_columns,
            n_at_once,
            self._keys,
            out,
            pitch,
            totals,
            n_totals,
        )
