"""What `tile.h` is about, as plans have to know it."""

from __future__ import annotations

__all__ = ["GAINS_AT_ONCE", "row_bytes"]

#: Players whose values are added to totals at once.
GAINS_AT_ONCE = 8


def row_bytes(n_players: int, n_columns: int, item: int) -> int:
    """Of shared memory, that a row takes: values, one more for those who get nothing, and ranks."""
    return (n_players + 1 | 1) * item + 4 * (-(-n_columns // 4) | 1)
