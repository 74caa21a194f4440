"""Trees → the players of their stems, and what these ask of a row.

A stem is the splits from a root down, as long as nothing but an empty leaf is beside them. A row satisfies
all edges of one player there, or it does not: they are one factor, and the thresholds of one column are one
range of ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .trees import Trees

__all__ = ["Stems"]

Int64 = npt.NDArray[np.int64]

#: Ranks are bytes.
_HIGHEST = 255


@dataclass(frozen=True, eq=False)
class Stems:
    """The players of each tree's stem, with their conditions: ranks of columns, from one to another."""

    first: Int64  # (n_trees + 1,) each tree's first player
    player: Int64
    cover: npt.NDArray[np.float64]  # the product of the player's cover ratios in the stem
    first_condition: Int64  # (n_players + 1,) each player's
    column: Int64
    low: Int64
    high: Int64
    number: Int64  # (n_nodes,) of the player of a split of the stem, within its tree; -1 elsewhere

    @classmethod
    def of(cls, trees: Trees) -> Stems:
        nodes = np.flatnonzero(trees.is_stem)
        goes_right = trees.is_empty[trees.left[nodes]]
        players, player = _unique(trees.tree[nodes], trees.player[nodes])
        cover = np.ones(len(players))
        np.multiply.at(cover, player, np.where(goes_right, trees.w_right[nodes], trees.w_left[nodes]))
        conditions, condition = _unique(player, trees.column[nodes])
        low, high = np.zeros(len(conditions), dtype=np.int64), np.full(len(conditions), _HIGHEST)
        np.maximum.at(low, condition, np.where(goes_right, trees.last[nodes] + 1, 0))
        np.minimum.at(high, condition, np.where(goes_right, _HIGHEST, trees.last[nodes]))
        first = np.searchsorted(players[:, 0], np.arange(trees.n_trees + 1))
        number = np.full(len(trees.left), -1, dtype=np.int64)
        number[nodes] = player - first[trees.tree[nodes]]
        first_condition = np.searchsorted(conditions[:, 0], np.arange(len(players) + 1))
        return cls(first, players[:, 1], cover, first_condition, conditions[:, 1], low, high, number)


def _unique(first: Int64, second: Int64) -> tuple[Int64, Int64]:
    """(n, 2) pairs that there are, in order, and the number of each one that was given."""
    base = int(second.max(initial=0)) + 1
    pairs, number = np.unique(first * base + second, return_inverse=True)
    return np.stack([pairs // base, pairs % base], axis=1), number.reshape(-1)
