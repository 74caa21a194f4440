"""Columns → players: who is given a Shapley value.

A player is one column or a group of them, which enters a coalition with all of its columns at once. Every
column belongs to exactly one player; players are in the order of their first columns. Behind them are
combinations, of which a model knows more than of their players one by one (`combinations.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError

__all__ = ["Players", "group_columns", "players_of_groups"]

Int32 = npt.NDArray[np.int32]

#: How many names a message shows.
_SHOWN = 8


@dataclass(frozen=True, eq=False, repr=False)
class Players:
    """Which player each column belongs to; get it from ``explainer.players``.

    Examples
    --------
    >>> from linear_treeshap.players.players import group_columns
    >>> players = group_columns({"place": ["latitude", "longitude"]}, ("latitude", "rooms", "longitude"))
    >>> players
    Players(2 players of 3 columns: place (2 columns), rooms)
    >>> players.members["place"]
    ('latitude', 'longitude')
    """

    of_column: Int32  # (n_columns,) a column's player
    names: Sequence[str]  # (n_players,)
    column_names: Sequence[str]  # (n_columns,)
    #: Players known to be one-hot: in a row, at most one of their columns is 1 and the others are 0.
    onehot: frozenset[int] = frozenset()
    #: Were the one-hot players found by name? Rows are checked then.
    is_guess: bool = False
    #: The players that each combination is of; combinations are the last players, and may have no column.
    combined: tuple[tuple[int, ...], ...] = ()
    #: Is the value of a combination divided among its players?
    is_divided: bool = False
    #: Why values are not given to what one would expect; empty if they are.
    note: str = ""

    def __post_init__(self) -> None:
        of_column = np.array(self.of_column, dtype=np.int32)
        of_column.setflags(write=False)
        object.__setattr__(self, "of_column", of_column)
        assert len(self.column_names) == len(of_column)
        assert np.all((of_column >= 0) & (of_column < len(self.names)))

    @classmethod
    def each(cls, column_names: Sequence[str], note: str = "") -> Players:
        """Every column is a player of its own."""
        own = np.arange(len(column_names), dtype=np.int32)
        return cls(own, column_names, column_names, note=note)

    @property
    def n_players(self) -> int:
        return len(self.names)

    @cached_property
    def are_columns(self) -> bool:
        """Is every column a player of its own?"""
        return np.array_equal(self.of_column, np.arange(self.n_players))

    @cached_property
    def columns(self) -> tuple[Int32, ...]:
        """(n_players,) the columns of each player."""
        order = np.argsort(self.of_column, kind="stable").astype(np.int32)
        counts = np.bincount(self.of_column, minlength=self.n_players)
        return tuple(np.split(order, np.cumsum(counts)[:-1])) if self.n_players else ()

    @cached_property
    def shown_columns(self) -> tuple[Int32, ...]:
        """(n_players,) the columns that a player is shown by: its own, or those of the players combined."""
        n_own = self.n_players - len(self.combined)
        combined = (np.concatenate([self.columns[part] for part in parts]) for parts in self.combined)
        return (*self.columns[:n_own], *combined)

    @property
    def members(self) -> dict[str, tuple[str, ...]]:
        """The names of each player's columns."""
        return {
            name: tuple(self.column_names[column] for column in columns)
            for name, columns in zip(self.names, self.shown_columns, strict=True)
        }

    def __repr__(self) -> str:
        # Without a list of columns for each of what may be millions of players.
        n_columns_of = np.bincount(self.of_column, minlength=self.n_players)
        for combination, parts in enumerate(self.combined, start=self.n_players - len(self.combined)):
            n_columns_of[combination] = n_columns_of[list(parts)].sum()

        def title(player: int) -> str:
            n_columns = int(n_columns_of[player])
            return self.names[player] + (f" ({n_columns} columns)" if n_columns != 1 else "")

        shown = [title(player) for player in range(min(self.n_players, _SHOWN))]
        shown += ["…"] if self.n_players > _SHOWN else []
        size = f"{_count(self.n_players, 'player')} of {_count(len(self.column_names), 'column')}"
        return f"Players({size}: {', '.join(shown)}{f'; {self.note}' if self.note else ''})"


def group_columns(
    groups: Any,
    column_names: Sequence[str],
    *,
    named: bool = True,
    known_name: Callable[[str], str] = str,
) -> Players:
    """The players that a user's ``groups`` make of some columns; a column that is not named is its own.

    Parameters
    ----------
    groups
        A dictionary of group → columns, by name or position; or a label for each column, where columns of
        the same label are a group, and one of the label None is its own player.
    named
        False if the names are made up, so that columns are to be given by position.
    known_name
        The name by which the model knows a column (`RowFormat.known_name`).

    Raises
    ------
    InputError
        A column is unknown or in two groups, a group is empty, labels are too few or too many, or two
        players share a name.
    """
    if isinstance(groups, Mapping):
        group_of = _group_of_column(groups, _Columns(tuple(column_names), named, known_name))
    elif isinstance(groups, Iterable) and not isinstance(groups, (str, bytes)):
        group_of = _group_of_label(list(groups), len(column_names))
    else:
        raise InputError(
            f"groups must be a dictionary of group → columns, a label for each column, 'onehot', "
            f"'combinations', 'columns', 'mixed', or a fitted transformer; got {groups!r}."
        )
    return players_of_groups(group_of, column_names)


def players_of_groups(
    group_of: Mapping[int, str], column_names: Sequence[str], onehot: Iterable[str] = ()
) -> Players:
    """Players in the order of their first columns, from the group of each column that is in one."""
    player_of_group: dict[str, int] = {}
    of_column: list[int] = []
    names: list[str] = []
    for column, column_name in enumerate(column_names):
        group = group_of.get(column)
        if group is None or group not in player_of_group:
            if group is not None:
                player_of_group[group] = len(names)
            of_column.append(len(names))
            names.append(column_name if group is None else group)
        else:
            of_column.append(player_of_group[group])
    own = {name for column, name in enumerate(column_names) if column not in group_of}
    clash = sorted(own & set(player_of_group))
    if clash:
        raise InputError(
            f"The group {clash[0]!r} has the name of a column that is not in it, and both would be players. "
            f"Choose another name for the group, or put the column into it."
        )
    known = frozenset(player_of_group[group] for group in onehot)
    return Players(np.array(of_column, dtype=np.int32), tuple(names), tuple(column_names), known)


@dataclass(frozen=True)
class _Columns:
    """Columns to be found by name or position."""

    names: tuple[str, ...]
    named: bool
    known_name: Callable[[str], str]

    @cached_property
    def positions(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for position, name in enumerate(self.names):
            found.setdefault(name, []).append(position)
        return found

    def position(self, key: Any, group: str) -> int:
        if isinstance(key, (int, np.integer)) and not isinstance(key, (bool, np.bool_)):
            if not 0 <= key < len(self.names):
                raise InputError(
                    f"Group {group!r} has the column {key}, but there are {len(self.names)} columns, "
                    f"numbered from 0."
                )
            return int(key)
        if not isinstance(key, str):
            raise InputError(
                f"Group {group!r} has the column {key!r}; columns are given by name or position."
            )
        if not self.named:
            raise InputError(
                f"Group {group!r} has the column {key!r}, but the model does not know the names of its "
                f"columns. Pass feature_names=, or give the columns by position."
            )
        found = self.positions.get(key) or self.positions.get(self.known_name(key)) or []
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(f"Several columns are called {key!r}. Give them by position.")
        raise InputError(
            f"Group {group!r} has the column {key!r}, which the model does not have. It has: "
            f"{_some(self.names)}."
        )


def _group_of_column(groups: Mapping[Any, Any], columns: _Columns) -> dict[int, str]:
    group_of: dict[int, str] = {}
    for key, members in groups.items():
        group = str(key)
        keys = [members] if isinstance(members, (str, int, np.integer)) else list(members)
        if not keys:
            raise InputError(f"Group {group!r} has no columns. Leave it out, or name its columns.")
        for member in keys:
            column = columns.position(member, group)
            if column in group_of:
                raise InputError(
                    f"Column {columns.names[column]!r} is in group {group_of[column]!r} and again in group "
                    f"{group!r}. A column belongs to one player."
                )
            group_of[column] = group
    if len({str(key) for key in groups}) < len(groups):
        raise InputError(f"Two groups are called the same: {_some([str(key) for key in groups])}.")
    return group_of


def _group_of_label(labels: list[Any], n_columns: int) -> dict[int, str]:
    if len(labels) != n_columns:
        raise InputError(
            f"groups has {len(labels)} labels, but there are {n_columns} columns. Pass a label for each "
            f"column, None for a column that is its own player, or a dictionary of group → columns."
        )
    if any(np.ndim(label) for label in labels):
        raise InputError("A column's label must be a string or a number. To list columns, pass a dictionary.")
    # A missing label of pandas is not equal to itself.
    return {column: str(label) for column, label in enumerate(labels) if label is not None and label == label}


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown}, … ({len(names)} in all)"
