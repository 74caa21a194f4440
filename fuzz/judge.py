"""Indices of sets of players, from the trees alone: the judge of the differential fuzzer.

In come a TreeEnsemble, rows and perhaps background rows; out come, in `numpy.longdouble`, the indices of all
sets of players that meet in a tree. Nothing of the library's engines is used, nor its way to route a row.

Two roads. `by_coalitions` is the definition: the worth of every coalition, then weighted means of their
differences. `by_leaves` takes each leaf as a product game, which reaches long paths and subtracts nothing: so
the sum of absolute contributions of leaves, its ``scale``, is what an engine's error can fairly be measured
by. Where more than that cancels in an engine, it is the sum of absolute leaves, or what `_Player.taken_back`
says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from linear_treeshap import TreeEnsemble

__all__ = [
    "Answer",
    "Game",
    "Sets",
    "Weight",
    "index_point",
    "index_weight",
    "k_sii",
    "matrices",
    "taylor_weight",
]

Extended = npt.NDArray[Any]  # of numpy.longdouble
Bool = npt.NDArray[np.bool_]

#: (k, n) → the weight of one coalition of k of n other players.
Weight = Callable[[int, int], Any]

_ONE = np.longdouble(1)


@dataclass
class Answer:
    """The index of one set of players."""

    value: Extended  # (n_rows, n_background or 1, n_outputs)
    scale: Extended  # the same, of the absolute contributions of leaves


Sets = dict[tuple[int, ...], Answer]


@dataclass(frozen=True)
class _Player:
    """A player on a path: is it satisfied, what passes where it is absent, and what does not."""

    present: Bool
    absent: Extended
    rest: Extended
    satisfied: Extended  # what passes of its nodes before the first that is not satisfied

    @classmethod
    def at(cls, present: Bool, absent: Extended, rest: Extended) -> _Player:
        """One node."""
        return cls(present, absent, rest, np.where(present, absent, _ONE))

    def followed_by(self, node: _Player) -> _Player:
        """One more node further down."""
        present = self.present & node.present
        return _Player(
            present,
            self.absent * node.absent,
            self.rest + self.absent * node.rest,
            np.where(present, self.satisfied * node.satisfied, self.satisfied),
        )

    @property
    def difference(self) -> Extended:
        """What a leaf gains by the player's presence, as a factor."""
        return np.asarray(np.where(self.present, self.rest, -self.absent))

    def taken_back(self, t: float) -> Extended:
        """The sum of absolute terms of which an engine makes the difference, where others are present with
        probability ``t``.

        With c what passes down to a node and u = t + (1-t)·c, a subtree gets (1-c)/u of its weight, growing
        from one satisfied node to the next. At the first that is not it gets -1/(1-t) instead: all is taken
        back, and 1/((1-t)·u) is subtracted. The weight has the factor (1-t)·c', with c' what passes to the
        leaf, so the terms are c'/u where their sum is c': 1/u times as large, for a small t and a small c.
        """
        c = self.satisfied
        u = t + (1 - t) * c
        terms = ((1 - c) * (1 - t) + 1) * np.divide(
            self.absent, u, out=np.zeros_like(self.absent + u), where=u > 0
        )
        return np.asarray(np.where(self.present, self.rest, terms))


class Game:
    """All trees, the players of their columns, some rows, and what happens where a player is absent."""

    def __init__(
        self,
        ensemble: TreeEnsemble,
        rows: npt.ArrayLike,
        player_of: Sequence[int],
        background: npt.ArrayLike | None = None,
        *,
        cancels: bool = False,
    ) -> None:
        """``cancels`` says that an engine adds numbers larger than the contributions of leaves."""
        self.cancels = cancels
        self.ensemble, self.player_of = ensemble, list(player_of)
        self.rows = np.asarray(rows)
        self.present = _goes_here(ensemble, self.rows)[:, np.newaxis]
        #: (n_rows or 1, n_background or 1, n_nodes): a node's share of its parent, and what is left of it.
        self.absent, self.rest = _cover_shares(ensemble)
        if background is not None:
            taken = _goes_here(ensemble, np.asarray(background))[np.newaxis]
            self.absent, self.rest = taken.astype(np.longdouble), (~taken).astype(np.longdouble)
        self.shape = (len(self.rows), self.absent.shape[1])

    def raw(self, rows: npt.ArrayLike) -> Extended:
        """(n_rows, n_outputs) the raw prediction."""
        taken = _goes_here(self.ensemble, np.asarray(rows)).astype(np.longdouble)
        out = np.tile(self.ensemble.base_values.astype(np.longdouble), (len(taken), 1))
        for root, outputs in self._trees():
            for leaf, path in self._paths(root):
                out[:, outputs] += np.prod(taken[:, path], axis=1)[:, None] * self.ensemble.value[leaf]
        return out

    def expected(self) -> Answer:
        """(1, n_background or 1, n_outputs) what is predicted when nobody is present."""
        shape = (1, self.shape[1], self.ensemble.n_outputs)
        base = np.broadcast_to(self.ensemble.base_values.astype(np.longdouble), shape)
        answer = Answer(base.copy(), np.abs(base))
        for root, outputs in self._trees():
            for leaf, path in self._paths(root):
                part = np.prod(self.absent[..., path], axis=-1)[..., None] * self.ensemble.value[leaf]
                answer.value[..., outputs] += part
                answer.scale[..., outputs] += np.abs(part)
        return answer

    @property
    def most_players(self) -> int:
        """Of a tree."""
        return max((len(self._tree_players(root)) for root, _ in self._trees()), default=0)

    def by_coalitions(self, orders: Sequence[int], weight: Weight) -> Sets:
        """By the definition: 2 to the power of a tree's players. Without scales: those are zero."""
        sets: Sets = {}
        for root, outputs in self._trees():
            players = self._tree_players(root)
            worth = self._worth(root, {player: place for place, player in enumerate(players)})
            for order in orders:
                for members in combinations(range(len(players)), order):
                    found = self._room(sets, tuple(players[i] for i in members))
                    found.value[..., outputs] += _mean_difference(worth, len(players), members, weight)
        return sets

    def by_leaves(self, orders: Sequence[int], weight: Weight, point: float | None = None) -> Sets:
        """By leaves: the contribution of each is a product of differences and a mean of products.

        ``point`` is the probability with which others are present, for a weight that is made of one.
        """
        sets: Sets = {}
        for root, outputs in self._trees():
            for leaf, path in self._paths(root):
                own = self._players_of(path)
                for order in orders:
                    for members in combinations(sorted(own), order):
                        value = self.ensemble.value[leaf]
                        mean = _mean_of_others(own, members, weight)
                        found = self._room(sets, members)
                        part = _product(own[member].difference for member in members) * mean
                        found.value[..., outputs] += part[..., None] * value
                        if point is not None:
                            part = _product(own[member].taken_back(point) for member in members) * mean
                        terms = np.abs(value if self.cancels else part[..., None] * value)
                        found.scale[..., outputs] += terms
        return sets

    # -- inside ----------------------------------------------------------------------------------------

    def _room(self, sets: Sets, members: tuple[int, ...]) -> Answer:
        shape = (*self.shape, self.ensemble.n_outputs)
        if members not in sets:
            sets[members] = Answer(np.zeros(shape, np.longdouble), np.zeros(shape, np.longdouble))
        return sets[members]

    def _trees(self) -> Iterator[tuple[int, slice]]:
        """The root of each tree, and the outputs it adds to."""
        e = self.ensemble
        for root, first in zip(e.tree_offsets[:-1].tolist(), e.tree_output.tolist(), strict=True):
            yield root, slice(first, first + e.value.shape[1])

    def _children(self, root: int, node: int) -> tuple[int, int]:
        return root + int(self.ensemble.left[node]), root + int(self.ensemble.right[node])

    def _paths(self, root: int) -> Iterator[tuple[int, list[int]]]:
        """Every leaf, and the nodes that lead to it, without the root."""
        pending: list[tuple[int, list[int]]] = [(root, [])]
        while pending:
            node, path = pending.pop()
            if self.ensemble.left[node] < 0:
                yield node, path
            else:
                pending += [(child, [*path, child]) for child in self._children(root, node)]

    def _tree_players(self, root: int) -> list[int]:
        pending, players = [root], set()
        while pending:
            node = pending.pop()
            if self.ensemble.left[node] >= 0:
                players.add(self.player_of[int(self.ensemble.feature[node])])
                pending += self._children(root, node)
        return sorted(players)

    def _players_of(self, path: list[int]) -> dict[int, _Player]:
        asked_at = self._parent_features
        own: dict[int, _Player] = {}
        for node in path:
            player = self.player_of[asked_at[node]]
            here = _Player.at(self.present[..., node], self.absent[..., node], self.rest[..., node])
            own[player] = own[player].followed_by(here) if player in own else here
        return own

    @property
    def _parent_features(self) -> dict[int, int]:
        """Node → the feature that its parent asks."""
        if not hasattr(self, "_asked_at"):
            e = self.ensemble
            inner = np.flatnonzero(e.left >= 0)
            roots = e.tree_offsets[np.searchsorted(e.tree_offsets, inner, side="right") - 1]
            self._asked_at = {
                int(root + side[node]): int(e.feature[node])
                for root, node in zip(roots, inner, strict=True)
                for side in (e.left, e.right)
            }
        return self._asked_at

    def _worth(self, root: int, place: dict[int, int]) -> Extended:
        """(n_rows, n_background or 1, 2, ..., 2, width): what a coalition is worth; an axis per player."""
        axes = (2,) * len(place)

        def of(node: int) -> Any:
            if self.ensemble.left[node] < 0:
                return self.ensemble.value[node].astype(np.longdouble).reshape(1, 1, *(1,) * len(axes), -1)
            player = place[self.player_of[int(self.ensemble.feature[node])]]
            is_in = np.array([False, True]).reshape([2 if i == player else 1 for i in range(len(axes))])[
                ..., None
            ]
            total: Any = 0
            for child in self._children(root, node):
                present, absent = (
                    share[..., child].reshape(*share.shape[:2], *(1,) * len(axes), 1)
                    for share in (self.present, self.absent)
                )
                total = total + np.where(is_in, present, absent) * of(child)
            return total

        return np.broadcast_to(of(root), (*self.shape, *axes, self.ensemble.value.shape[1]))


def _mean_difference(worth: Extended, n: int, members: tuple[int, ...], weight: Weight) -> Extended:
    """(rows, background, width) the weighted mean, over coalitions of others, of what members add jointly."""
    for member in members:
        worth = np.diff(worth, axis=2 + member)
    others = n - len(members)
    sizes = np.indices((2,) * others).sum(axis=0) if others else np.zeros((), dtype=int)
    weights = np.array([weight(k, others) for k in range(others + 1)], dtype=np.longdouble)[sizes]
    flat = worth.reshape(*worth.shape[:2], -1, worth.shape[-1])
    return np.asarray((flat * weights.reshape(-1, 1)).sum(axis=2))


def _product(factors: Iterable[Extended]) -> Any:
    product: Any = _ONE
    for factor in factors:
        product = product * factor
    return product


def _mean_of_others(own: dict[int, _Player], members: tuple[int, ...], weight: Weight) -> Extended:
    """(rows, background) what the others let pass, a product of their shares, in the mean over coalitions."""
    others = [own[player] for player in own if player not in members]
    shape = np.broadcast_shapes(*(np.broadcast(p.present, p.absent).shape for p in own.values()))
    sums = np.zeros((len(others) + 1, *shape), dtype=np.longdouble)  # over coalitions of each size
    sums[0] = 1
    for player in others:
        sums[1:] = sums[1:] * player.absent + sums[:-1] * player.present
        sums[0] *= player.absent
    weights = np.array([weight(k, len(others)) for k in range(len(others) + 1)], dtype=np.longdouble)
    return np.asarray(np.tensordot(weights, sums, axes=1))


def k_sii(sets: Sets, order: int) -> Sets:
    """k-SII of SII: a set also takes its share of all sets around it, by Bernoulli numbers."""
    bernoulli = [_ONE, -_ONE / 2, _ONE / 6, 0 * _ONE, -_ONE / 30][: order + 1]
    answers = {members: Answer(0 * found.value, 0 * found.scale) for members, found in sets.items()}
    for members, found in sets.items():
        for size in range(1, len(members) + 1):
            for inner in combinations(members, size):
                share = bernoulli[len(members) - size]
                answers[inner].value += share * found.value
                answers[inner].scale += abs(share) * found.scale
    return answers


def matrices(sets: Sets, n_players: int, shape: tuple[int, ...]) -> Answer:
    """(n_rows, n_background or 1, n_players, n_players, n_outputs) values and pairs, as shap has them."""
    full = (*shape[:2], n_players, n_players, shape[2])
    answer = Answer(np.zeros(full, np.longdouble), np.zeros(full, np.longdouble))
    for members, found in k_sii(sets, 2).items():
        i, j = members[0], members[-1]
        for to, numbers in ((answer.value, found.value), (answer.scale, found.scale)):
            to[:, :, i, j] = to[:, :, j, i] = numbers / len(members)
    return answer


def index_weight(index: Any, n_players: int) -> Weight:
    """The weight of a coalition by the index's own definition; ``n_players`` are all players there are."""
    name, *numbers = index if isinstance(index, tuple) else (index,)
    if name == "shapley":
        return lambda k, n: _ratio(Fraction(1, (n + 1) * comb(n, k)))
    if name in ("banzhaf", "weighted_banzhaf"):
        p = np.longdouble(numbers[0] if numbers else 0.5)
        return lambda k, n: p**k * (1 - p) ** (n - k)
    if name == "measure":
        points, weights = (np.asarray(x, dtype=np.longdouble) for x in numbers)
        return lambda k, n: (weights * points**k * (1 - points) ** (n - k)).sum()
    if name == "beta":
        alpha, beta = map(np.longdouble, numbers)
        return lambda k, n: _rising(beta, k) * _rising(alpha, n - k) / _rising(alpha + beta, n)
    assert name == "sizes"
    sizes = [Fraction(w) for w in numbers[0]]

    def of_some(k: int, n: int) -> Any:
        """Players outside of the game are in the coalition or not."""
        outside = n_players - 1 - n
        return _ratio(sum((comb(outside, j) * sizes[k + j] for j in range(outside + 1)), Fraction(0)))

    return of_some


def index_point(index: Any) -> float | None:
    """The probability with which others are present, if the index has one."""
    name, *numbers = index if isinstance(index, tuple) else (index,)
    return {"banzhaf": 0.5, "weighted_banzhaf": numbers[0] if numbers else None}.get(name)


def taylor_weight(order: int, k: int, n: int) -> Any:
    """Shapley-Taylor's weight of a coalition of k of n others, for a set of the highest order."""
    return _ratio(Fraction(order, (n + order) * comb(n + order - 1, k)))


def _ratio(exact: Fraction) -> Any:
    return np.longdouble(exact.numerator) / np.longdouble(exact.denominator)


def _rising(x: Any, n: int) -> Any:
    product = _ONE
    for i in range(n):
        product = product * (x + i)
    return product


def _goes_here(e: TreeEnsemble, rows: npt.NDArray[Any]) -> Bool:
    """(n_rows, n_nodes) would the row, standing at the node's parent, go to the node?"""
    with np.errstate(over="ignore"):
        x = rows.astype(e.row_format.dtype).astype(np.float64)
    here = np.ones((len(x), len(e.left)), dtype=np.bool_)
    for root, end in zip(e.tree_offsets[:-1].tolist(), e.tree_offsets[1:].tolist(), strict=True):
        for node in range(root, end):
            if e.left[node] < 0:
                continue
            column = x[:, e.feature[node]]
            if e.category_set[node] >= 0:
                first, last = e.category_offsets[e.category_set[node] : e.category_set[node] + 2]
                codes = set(e.category_codes[first:last].tolist())
                left = [v >= 0 and v < 2**31 and int(v) in codes for v in column.tolist()]
            else:
                left = (column <= e.threshold[node]).tolist()
            goes = np.where(np.isnan(column), e.missing_left[node], np.array(left, dtype=np.bool_))
            here[:, root + e.left[node]], here[:, root + e.right[node]] = goes, ~goes
    return here


def _cover_shares(e: TreeEnsemble) -> tuple[Extended, Extended]:
    """Each node's share of its own and its sibling's cover, and one less that; halves if they have none."""
    share, rest = (np.full((1, 1, len(e.left)), x, dtype=np.longdouble) for x in (1, 0))
    cover = e.cover.astype(np.longdouble)
    for root, end in zip(e.tree_offsets[:-1].tolist(), e.tree_offsets[1:].tolist(), strict=True):
        for node in range(root, end):
            if e.left[node] < 0:
                continue
            left, right = root + int(e.left[node]), root + int(e.right[node])
            both = cover[left] + cover[right]
            for at, other in ((left, right), (right, left)):
                share[..., at] = cover[at] / both if both else _ONE / 2
                rest[..., at] = cover[other] / both if both else _ONE / 2
    return share, rest
