"""Players of columns that are made of several others at once.

A number that is looked up for what several features hold together is a function of all of them. Where they
belong to one player, so does it; else it belongs to the combination of their players, which is a player of
its own: "sex & cabin".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ..model.row_format import RowFormat
from .players import Players

__all__ = ["Features", "combined_players", "of_features", "players_of_mixed_rows", "sources_of"]

#: The features behind a column.
Features = tuple[int, ...]


def sources_of(row_format: RowFormat, *, of_categories: bool = False) -> tuple[Features, ...]:
    """The features behind each column that the trees read.

    ``of_categories`` counts only the categories in a combination, and leaves out what is asked about other
    columns.
    """
    own = tuple((feature,) for feature in range(row_format.n_features))
    looked_up = (
        lookup.categories if of_categories and lookup.categories else lookup.columns
        for lookup in row_format.lookups
        for _ in range(lookup.n_numbers)
    )
    return (*own, *looked_up)


def combined_players(players: Players, sources: Sequence[Features], *, is_divided: bool) -> Players:
    """The players of columns that are made of others, from those of the others; combinations come last.

    ``is_divided`` says that the value of a combination is divided among its players.
    """
    combinations: dict[Features, int] = {}
    of_column: list[int] = []
    for features in sources:
        # A column made of nothing is a constant, which no tree can split: whose it is does not matter.
        parts = tuple(sorted({int(players.of_column[feature]) for feature in features})) or (0,)
        is_one = len(parts) == 1
        player = parts[0] if is_one else combinations.setdefault(parts, players.n_players + len(combinations))
        of_column.append(player)
    return replace(
        players,
        of_column=np.array(of_column, dtype=np.int32),
        names=(*players.names, *(_title(players.names[part] for part in parts) for parts in combinations)),
        column_names=tuple(_title(players.column_names[feature] for feature in row) for row in sources),
        combined=tuple(combinations),
        is_divided=is_divided and bool(combinations),
    )


def players_of_mixed_rows(players: Players, row_format: RowFormat) -> Players:
    """The players of all columns where combinations are looked up for mixed rows: they are nobody's own, and
    who is named for their columns does not matter."""
    first = [
        *(features[0] for features in row_format.sources),
        *(f for f in row_format.hashes for _ in range(2)),
    ]
    return replace(
        players,
        of_column=np.append(players.of_column, players.of_column[first]),
        column_names=(*players.column_names, *(players.column_names[feature] for feature in first)),
    )


def of_features(players: Players, n_features: int) -> Players:
    """The players of a user's columns, from those of all columns that the trees read: a combination that is
    divided is none of them."""
    n_shown = players.n_players - (len(players.combined) if players.is_divided else 0)
    return replace(
        players,
        of_column=players.of_column[:n_features],
        names=players.names[:n_shown],
        column_names=players.column_names[:n_features],
        combined=() if players.is_divided else players.combined,
        is_divided=False,
    )


def _title(names: Iterable[str]) -> str:
    return " & ".join(names)
