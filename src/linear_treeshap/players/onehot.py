"""One-hot families: which columns are the categories of one variable, by their names and by the trees.

Names such as ``city_Rome`` and ``city=Rome`` are a hint, and trees can refute it: a column of zeros and ones
is split between them and nowhere else. What is left open is an error rather than a guess, and rows that
turn out not to be one-hot are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..model.ensemble import TreeEnsemble
from .players import Players, players_of_groups

__all__ = ["category_labels", "check_rows", "find_families", "with_onehot"]

#: Where XGBoost splits a column that holds only ones, below and above them, to tell them from missing ones:
#: a rounding step, 1e-5 or 1e-6, off these.
_BELOW_ONES, _ABOVE_ONES = 0.0, 2.0


def find_families(names: Sequence[str], ensemble: TreeEnsemble) -> Players:
    """Players of ``groups="onehot"``: columns that share what is before the separator, two at least.

    The separator is the first "=", or else the last "_". A single column whose name only begins like a
    family belongs to it too: ``job_blue_collar`` beside ``job_clerk`` and ``job_cook``.

    Raises
    ------
    InputError
        Names do not say whether some columns are one family or two.
    """
    can_be = _can_be_zero_or_one(ensemble)
    prefix_of = {
        column: prefix
        for column, name in enumerate(names)
        if can_be[column] and (prefix := _prefix(name)) is not None
    }
    members: dict[str, list[int]] = {}
    for column, prefix in prefix_of.items():
        members.setdefault(prefix, []).append(column)
    families = {prefix: columns for prefix, columns in members.items() if len(columns) > 1}
    group_of: dict[int, str] = {}
    for column, prefix in prefix_of.items():
        outer = [shorter for shorter in _shorter(prefix) if shorter in families]
        if outer and prefix in families:
            raise InputError(
                f"Their names do not say whether {names[families[prefix][0]]!r} and the others "
                f"that begin with {prefix!r} are categories of {outer[0]!r} or of {prefix!r}. Pass groups as "
                f"a dictionary of group → columns, or the fitted encoder: groups=encoder."
            )
        if outer or prefix in families:
            group_of[column] = outer[0] if outer else prefix
    players = players_of_groups(group_of, names, onehot=set(group_of.values()))
    return replace(players, is_guess=bool(group_of))


def with_onehot(players: Players, ensemble: TreeEnsemble | None = None) -> Players:
    """The players, with those marked that are one-hot by the names of their columns and by the trees."""
    can_be = np.full(len(players.of_column), True) if ensemble is None else _can_be_zero_or_one(ensemble)
    onehot = frozenset(
        player
        for player, columns in enumerate(players.columns)
        if len(columns) > 1
        and can_be[columns].all()
        and category_labels([players.column_names[column] for column in columns]) is not None
    )
    return replace(players, onehot=onehot)


def category_labels(names: Sequence[str]) -> list[str] | None:
    """What is left of the names of a family without what they all begin with; None if they do not."""
    for prefix in _shorter(names[0]):
        if all(name.startswith((f"{prefix}_", f"{prefix}=")) for name in names):
            return [name[len(prefix) + 1 :] for name in names]
    return None


def check_rows(players: Players, rows: npt.NDArray[Any]) -> None:
    """Raise InputError if rows show that a family found by name is not one-hot."""
    families = sorted(players.onehot)
    columns = np.concatenate([players.columns[player] for player in families])
    starts = np.cumsum([0, *(len(players.columns[player]) for player in families[:-1])])
    block = rows[:, columns]
    is_one = block == 1
    n_ones = np.add.reduceat(is_one, starts, axis=1, dtype=np.int32)
    is_odd = np.logical_or.reduceat(~(is_one | (block == 0) | np.isnan(block)), starts, axis=1)
    if (bad := (n_ones > 1) | is_odd).any():
        row, family = (int(place) for place in np.argwhere(bad)[0])
        members = players.columns[families[family]]
        found = {players.column_names[c]: float(rows[row, c]) for c in members if rows[row, c] != 0}
        raise InputError(
            f"groups='onehot' took {', '.join(players.column_names[c] for c in members[:3])} … for the "
            f"categories of {players.names[families[family]]!r}, but row {row} has {found}. Pass groups as a "
            f"dictionary of group → columns."
        )


def _prefix(name: str) -> str | None:
    """What is before the separator."""
    before, separator, _ = name.partition("=")
    if not separator:
        before, separator, _ = name.rpartition("_")
    return before if before and separator else None


def _shorter(name: str) -> Iterator[str]:
    """What is before each of the separators, the longest first."""
    while (prefix := _prefix(name)) is not None:
        yield prefix
        name = prefix


def _can_be_zero_or_one(ensemble: TreeEnsemble) -> npt.NDArray[np.bool_]:
    """(n_columns,) can a column hold nothing but 0 and 1, as far as its splits tell?"""
    threshold, missing_left = ensemble.threshold, ensemble.missing_left
    between = (threshold >= 0) & (threshold < 1)
    # Or a split that tells missing from known numbers: zeros that were left out of a sparse matrix.
    above = (threshold > _ABOVE_ONES) & (threshold < _ABOVE_ONES + 1e-4) & ~missing_left
    below = (threshold < _BELOW_ONES) & (threshold > _BELOW_ONES - 1e-4) & missing_left
    fits = (between | above | below) & (ensemble.category_set < 0)
    can_be = np.ones(ensemble.n_columns, dtype=np.bool_)
    can_be[ensemble.feature[~ensemble.is_leaf & ~fits]] = False
    return can_be
