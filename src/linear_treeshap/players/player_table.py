"""The rows that an explanation shows beside its values: a column for each player.

A column that is its own player is shown as it came. A one-hot family is shown as the name of its category,
and any other group as its columns one after another: ``latitude=37.9, longitude=-122``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..rows.frames import is_frame
from ..rows.tables import make_frame, pandas_index
from .onehot import category_labels
from .players import Players

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
        for player, columns in enumerate(players.shown_columns):
            if not len(columns):
                continue  # nothing to show of a raw column that a pipeline drops: None
            shown[:, player] = (
                array[:, columns[0]] if len(columns) == 1 else _shown(players, player, array[:, columns])
            )
        return shown
    import narwhals.stable.v1 as nw

    frame = nw.from_native(table, eager_only=True)
    made: dict[str, Any] = {}
    for player, columns in enumerate(players.shown_columns):
        own = [frame[:, int(column)] for column in columns]
        if len(own) > 1:
            block = np.stack([column.to_numpy().astype(object) for column in own], axis=1)
            made[players.names[player]] = _shown(players, player, block).tolist()
        else:
            made[players.names[player]] = own[0] if own else [None] * len(frame)
    return make_frame(made, like=table, row_labels=pandas_index(table))


def _shown(players: Players, player: int, block: Array) -> Array:
    """(n_rows,) objects, from the (n_rows, n_columns) entries of a group."""
    names = [players.column_names[column] for column in players.shown_columns[player]]
    if player not in players.onehot:
        return _as_text(names, block)
    labels = category_labels(names) or names
    numbers = block.astype(np.float64 if block.dtype == object else block.dtype, copy=False)
    is_one = numbers == 1
    # The number of ones, and the place of the one, from 1: a product is quicker than a search.
    weights = np.array([np.ones(len(names)), np.arange(1, len(names) + 1)], dtype=np.float32)
    n_ones, place = weights @ is_one.T.astype(np.float32)
    # Whatever is not one-hot after all is shown in full. A zero left out of a sparse matrix is missing.
    is_other = ~(is_one | (numbers == 0) | (numbers != numbers))
    odd = (n_ones > 1) | (is_other.any(axis=1) if is_other.any() else False)
    shown = np.array([_NONE, *labels], dtype=object)[np.where(odd, 0, place).astype(np.intp)]
    shown[odd] = _as_text(labels, block[odd])
    return shown


def _as_text(names: Sequence[str], block: Array) -> Array:
    entries = [
        [f"{name}={_brief(value)}" for value in column.tolist()]
        for name, column in zip(names, block.T, strict=True)
    ]
    shown = np.empty(len(block), dtype=object)
    shown[:] = [", ".join(row) for row in zip(*entries, strict=True)]
    return shown


def _brief(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
