"""Shapley values and interactions leaf by leaf in extended precision: the judge where exact fractions would
take too long.

Nothing of the kernel's recurrences is used: a leaf is the players of its path with their ``a`` and ``c``, and
the integral of their product is taken at Gauss-Legendre points in `numpy.longdouble`, which has 64 bits of
mantissa or more on most machines. Beside each value stands its scale: the sum of absolute leaf contributions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from linear_treeshap.model.ensemble import TreeEnsemble

__all__ = ["Reference", "gauss_legendre", "interactions", "shapley_values"]

Extended = npt.NDArray[Any]  # of numpy.longdouble
Bool = npt.NDArray[np.bool_]


class Reference(NamedTuple):
    values: Extended  # (n_rows, n_players or n_sets, n_outputs)
    scale: Extended  # the same, of absolute leaf contributions


class _Leaf(NamedTuple):
    tree: int
    node: int
    players: list[int]
    satisfied: Bool  # (n_rows, players of the path)
    absent: Extended  # (players of the path,) c
    rest: Extended  # (players of the path,) 1 - c, from the covers: where c is near 1 its digits would cancel


def shapley_values(
    ensemble: TreeEnsemble, rows: npt.ArrayLike, players: Sequence[int] | None = None
) -> Reference:
    """``players[column]`` is the player a column belongs to; by default each column is its own."""
    player_of = list(range(ensemble.n_columns)) if players is None else list(map(int, players))
    x = ensemble.cast_rows(rows)
    shape = (len(x), max(player_of, default=-1) + 1, ensemble.n_outputs)
    values, scale = (np.zeros(shape, dtype=np.longdouble) for _ in range(2))
    for leaf in _leaves(ensemble, x, player_of):
        if not leaf.players:
            continue
        share = _shares(leaf)[..., None] * ensemble.value[leaf.node]
        first = int(ensemble.tree_output[leaf.tree])
        to = (slice(None), leaf.players, slice(first, first + ensemble.width))
        values[to] += share
        scale[to] += np.abs(share)
    return Reference(values, scale)


def interactions(ensemble: TreeEnsemble, rows: npt.ArrayLike, sets: Sequence[Sequence[int]]) -> Reference:
    """The Shapley interaction index of ``sets`` of columns, each its own player."""
    x = ensemble.cast_rows(rows)
    number = {tuple(players): i for i, players in enumerate(sets)}
    shape = (len(x), len(sets), ensemble.n_outputs)
    values, scale = (np.zeros(shape, dtype=np.longdouble) for _ in range(2))
    for leaf in _leaves(ensemble, x, list(range(ensemble.n_columns))):
        first = int(ensemble.tree_output[leaf.tree])
        for order in sorted({len(players) for players in number}):
            for places in combinations(range(len(leaf.players)), order):
                place = number.get(tuple(sorted(leaf.players[i] for i in places)))
                if place is None:
                    continue
                share = _share_of_set(leaf, places)[:, None] * ensemble.value[leaf.node]
                to = (slice(None), place, slice(first, first + ensemble.width))
                values[to] += share
                scale[to] += np.abs(share)
    return Reference(values, scale)


def _share_of_set(leaf: _Leaf, places: Sequence[int]) -> Extended:
    """(n_rows,) the product of the set's (a - c), times the integral of the product of the others' u."""
    t, one_less, weight = gauss_legendre((len(leaf.absent) + 1) // 2)
    others = np.delete(np.arange(len(leaf.absent)), places)
    u = (
        np.where(leaf.satisfied[:, others], t[:, None, None], 0)
        + one_less[:, None, None] * leaf.absent[others]
    )
    own = np.where(leaf.satisfied, leaf.rest, -leaf.absent)[:, list(places)].prod(axis=1)
    share: Extended = own * (weight @ u.prod(axis=2))
    return share


def _shares(leaf: _Leaf) -> Extended:
    """(n_rows, players) of each player, the integral of (a - c) times the product of the others' u."""
    t, one_less, weight = gauss_legendre((len(leaf.absent) + 1) // 2)
    # (point, row, player)
    u = np.where(leaf.satisfied, t[:, None, None], 0) + one_less[:, None, None] * leaf.absent
    one = np.ones((*u.shape[:2], 1), dtype=np.longdouble)
    before = np.cumprod(np.concatenate([one, u[..., :-1]], axis=2), axis=2)
    after = np.cumprod(np.concatenate([one, u[..., :0:-1]], axis=2), axis=2)[..., ::-1]
    own = np.where(leaf.satisfied, leaf.rest, -leaf.absent)
    shares: Extended = own * np.einsum("k,krp->rp", weight, before * after)
    return shares


def _leaves(ensemble: TreeEnsemble, x: npt.NDArray[np.float64], player_of: list[int]) -> Iterator[_Leaf]:
    one, cover = np.longdouble(1), ensemble.cover.astype(np.longdouble)
    for tree in range(ensemble.n_trees):
        root = int(ensemble.tree_offsets[tree])
        pending: list[tuple[int, dict[int, tuple[Any, Any, Any]]]] = [(root, {})]
        while pending:
            node, path = pending.pop()
            if ensemble.left[node] < 0:
                satisfied = np.array([a for a, _, _ in path.values()], dtype=np.bool_)
                absent, rest = (np.array([p[i] for p in path.values()], dtype=np.longdouble) for i in (1, 2))
                yield _Leaf(tree, node, list(path), satisfied.reshape(len(path), len(x)).T, absent, rest)
                continue
            feature = int(ensemble.feature[node])
            goes_left = ensemble.goes_left(node, x[:, feature])
            a, c, rest = path.get(player_of[feature], (True, one, 0 * one))
            left, right = root + int(ensemble.left[node]), root + int(ensemble.right[node])
            both = cover[left] + cover[right]
            for at, other, goes in ((left, right, goes_left), (right, left, ~goes_left)):
                w, lost = (cover[at] / both, cover[other] / both) if both else (one / 2, one / 2)
                pending.append((at, {**path, player_of[feature]: (a & goes, c * w, rest + c * lost)}))


@cache
def gauss_legendre(n: int) -> tuple[Extended, Extended, Extended]:
    """Points on (0, 1), one less the points, and weights: NumPy's points, improved by Newton's method."""
    z = np.polynomial.legendre.leggauss(n)[0].astype(np.longdouble)
    for _ in range(3):
        p, previous = np.ones_like(z), np.zeros_like(z)
        for j in range(n):
            p, previous = ((2 * j + 1) * z * p - j * previous) / np.longdouble(j + 1), p
        slope = n * (z * p - previous) / (z * z - 1)
        z = z - p / slope
    return (1 + z) / 2, (1 - z) / 2, 1 / ((1 - z * z) * slope * slope)
