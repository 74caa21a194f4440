"""The rows that an explanation shows beside its values: a column for each player.

A column that is its own player is shown as it came. A one-hot family is shown as the name of its category,
and any other group as its columns one after another: ``latitude=37.9, longitude=-122``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .frames import is_frame
from .onehot import category_labels
from .players import Players
from .tables import make_frame, pandas_index

__all__ = ["table_of_players"]

Array = npt.NDArray[Any]

#: Shown for a family none of whose columns is 1: a category that was dropped, or is not known.
_NONE = "(none)"


def table_of_players(table: Any, players: Players) -> Any:
    """From a table of the columns, in their order: a frame of the same library, or an array of objects."""
    if table is None or players.are_columns:
        return table
    if not is_frame(table):
        array = table.toarray() if hasattr(table, "toarray") else np.asarray(table)
        shown = np.empty((len(array), players.n_players), dtype=object)
        for player, columns in enumerate(players.columns):
            shown[:, player] = _shown(players, player, [array[:, column] for column in columns], len(array))
        return shown
    import narwhals.stable.v1 as nw

    frame = nw.from_native(table, eager_only=True)
    made: dict[str, Any] = {}
    for player, columns in enumerate(players.columns):
        if len(columns) == 1:
            made[players.names[player]] = frame[:, int(columns[0])]
        else:
            arrays = [frame[:, int(column)].to_numpy() for column in columns]
            made[players.names[player]] = _shown(players, player, arrays, len(frame)).tolist()
    return make_frame(made, like=table, index=pandas_index(table))


def _shown(players: Players, player: int, columns: Sequence[Array], n_rows: int) -> Array:
    """(n_rows,) objects."""
    if len(columns) == 1:
        return columns[0].astype(object)
    names = [players.column_names[column] for column in players.columns[player]]
    shown = np.empty(n_rows, dtype=object)
    if player not in players.onehot:
        shown[:] = _as_text(names, columns)
        return shown
    labels = category_labels(names) or names
    block = np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)
    is_one = block == 1
    shown[:] = np.array([*labels, _NONE], dtype=object)[
        np.where(is_one.any(axis=1), is_one.argmax(axis=1), len(labels))
    ]
    # Whatever is not one-hot after all is told in full. A zero left out of a sparse matrix is missing.
    odd = (is_one.sum(axis=1) > 1) | ~(is_one | (block == 0) | np.isnan(block)).all(axis=1)
    if odd.any():
        shown[odd] = _as_text(labels, [column[odd] for column in columns])
    return shown


def _as_text(names: Sequence[str], columns: Sequence[Array]) -> list[str]:
    texts = [
        [f"{name}={_brief(value)}" for value in column.tolist()]
        for name, column in zip(names, columns, strict=True)
    ]
    return [", ".join(row) for row in zip(*texts, strict=True)]


def _brief(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
