"""Trees → trees of the same values that take less time: crowns, each with its stem.

Values are sums over leaves, so a tree may become several that have some of its leaves each. One that has all
leaves below a node needs no walk of what is above: the splits on the way there are its *stem*, whose edges of
one player are one factor, and what is below is its *crown*. A crown is low, so its state is in registers; it
needs no more points than its own paths do; but each has to begin with its stem. What is cheapest is found
from the leaves up, by what the walk does at each node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .trees import MAX_STEM, NUMBERS, Kind, Trees

__all__ = ["in_crowns"]

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

#: Instructions of a walk, as (some, and some more for each point), by the kind of a node; those of repeated
#: players apart.
_COST = {
    Kind.LEAF: (0, 0),
    Kind.PAIR: (18, 2),
    Kind.TWIG: (50, 4),
    Kind.BRANCH: (100, 6),
    Kind.SPLIT: (36, 8),
}
_COST_REPEATED = {Kind.PAIR: (24, 4), Kind.SPLIT: (50, 9)}
#: Of a split less, if one side is a leaf.
_COST_BESIDE_LEAF = (10, 3)
#: Of a split whose state is in memory, besides.
_COST_DEEP = (0, 30)
#: Of a stem, and of each of its players.
_COST_STEM, _COST_STEM_PLAYER = (25, 3), (30, 3)


def in_crowns(trees: Trees, n_points: Callable[[int], int], n_register_slots: Callable[[int], int]) -> Trees:
    """``n_points`` says how many a path of some players needs, ``n_register_slots`` how many splits have
    their state in registers with so many points."""
    players = trees.n_players_above.copy()  # on the longest path through a node
    for nodes in trees.splits_upwards():
        players[nodes] = np.maximum(players[trees.left[nodes]], players[trees.right[nodes]])
    points_of = np.array([n_points(max(1, n)) for n in range(int(players.max(initial=0)) + 1)])
    slots_of = np.array([n_register_slots(int(n)) for n in points_of])
    points = points_of[players].astype(np.float64)
    walk = _walk(trees, points, slots_of[players])
    n_above = trees.n_players_above
    stem = np.where(n_above > 0, _of_points(_COST_STEM, points), 0.0)
    stem += n_above * _of_points(_COST_STEM_PLAYER, points)
    stem[n_above > MAX_STEM] = np.inf
    best = np.where(trees.is_empty, 0.0, walk + stem)
    is_cut = np.zeros(len(trees.left), dtype=np.bool_)
    for nodes in trees.splits_upwards():
        nodes = nodes[trees.whole_kind[nodes] == Kind.SPLIT]
        apart = best[trees.left[nodes]] + best[trees.right[nodes]]
        is_cut[nodes] = apart < best[nodes]
        best[nodes] = np.minimum(apart, best[nodes])
    crowns, nodes = [], trees.first[:-1]
    while nodes.size:
        crowns.append(nodes[~is_cut[nodes] & ~trees.is_empty[nodes]])
        cut = nodes[is_cut[nodes]]
        nodes = np.concatenate([trees.left[cut], trees.right[cut]])
    return _below(trees, np.sort(np.concatenate(crowns)))


def _walk(trees: Trees, points: Float64, n_register_slots: Int64) -> Float64:
    """(n_nodes,) what it costs to walk a node and all that is below it, with so many points, and so many
    slots in registers."""
    cost = np.zeros((len(trees.left), 2))
    for of_kind, is_repeated in ((_COST, False), (_COST_REPEATED, True)):
        for kind, numbers in of_kind.items():
            cost[(trees.whole_kind == kind) & ((trees.above >= 0) >= is_repeated)] = numbers
    leaf = trees.whole_kind == Kind.LEAF
    cost[(trees.whole_kind == Kind.SPLIT) & (leaf[trees.left] | leaf[trees.right])] -= _COST_BESIDE_LEAF
    # How many splits have at least each slot.
    slots = np.arange(int(n_register_slots.max()) + 1)
    n_higher = (trees.slot[:, None] >= slots).astype(np.float64)
    n_higher[trees.whole_kind != Kind.SPLIT] = 0
    for nodes in trees.splits_upwards():
        nodes = nodes[trees.whole_kind[nodes] == Kind.SPLIT]
        for child in (trees.left[nodes], trees.right[nodes]):
            cost[nodes] += cost[child]
            n_higher[nodes] += n_higher[child]
    n_deep = n_higher[np.arange(len(points)), n_register_slots]
    return np.asarray(cost[:, 0] + points * cost[:, 1] + n_deep * _of_points(_COST_DEEP, points))


def _of_points(cost: tuple[int, int], points: Float64) -> Float64:
    return np.asarray(cost[0] + cost[1] * points)


def _below(trees: Trees, nodes: Int64) -> Trees:
    """For each of these nodes a tree with the values of the leaves below it: the splits above it, which
    are its stem, with empty leaves beside them, and all that is below it."""
    own = np.arange(len(nodes))
    parts, places, stubs = [own], [nodes], [np.zeros(len(nodes), dtype=np.bool_)]

    def add(part: Int64, place: Int64, is_stub: bool) -> None:
        parts.append(part)
        places.append(place)
        stubs.append(np.full(len(part), is_stub))

    part, at = own, nodes
    while part.size:
        is_root = trees.parent[at] < 0
        part, beside_right, at = part[~is_root], trees.is_right[at[~is_root]], trees.parent[at[~is_root]]
        add(part, at, False)
        add(part, np.where(beside_right, trees.left[at], trees.right[at]), True)
    part, at = own, nodes
    while part.size:
        inner = ~trees.is_leaf[at]
        part, at = np.tile(part[inner], 2), np.concatenate([trees.left[at[inner]], trees.right[at[inner]]])
        add(part, at, False)
    of_part, node, is_stub = np.concatenate(parts), np.concatenate(places), np.concatenate(stubs)
    order = np.lexsort((node, trees.level[node], of_part))  # the root of each tree is its first node
    of_part, node, is_stub = of_part[order], node[order], is_stub[order]
    place = np.arange(len(node))
    by_key = np.argsort(of_part * len(trees.left) + node)
    keys = (of_part * len(trees.left) + node)[by_key]

    def moved(target: Int64) -> Int64:
        found = np.searchsorted(keys, of_part * len(trees.left) + target)
        return np.asarray(by_key[np.minimum(found, len(keys) - 1)])

    leaf, parent = trees.is_leaf[node], trees.parent[node]
    numbers: dict[str, Any] = {name: getattr(trees, name)[node] for name in NUMBERS}
    return Trees(
        np.searchsorted(of_part, np.arange(len(nodes) + 1)),
        np.where(leaf, place, moved(trees.left[node])),
        np.where(leaf, place, moved(trees.right[node])),
        np.where(parent < 0, -1, moved(parent)),
        trees.is_right[node],
        **trees.settings(),
        **numbers,
    ).emptied(is_stub)
