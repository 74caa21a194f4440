"""Shapley values by their definition, in exact rational arithmetic: the truth that tests compare with.

In comes a TreeEnsemble and one row, out come `fractions.Fraction` numbers without any rounding. Two
roads lead to every number: ``by="definition"`` sums over all coalitions of players, which can be
believed at sight and costs ``2 ** players`` per tree; ``by="leaves"`` expands one small polynomial
per leaf, which reaches deep trees. Slow on purpose; for tests and documentation only.

The game: with the players of a set present, a row starts at the root. Where a tree splits on a
present player's column, the row goes where its value sends it. Where it splits on an absent
player's, it goes to both children, in proportion to their covers - or, with background rows, to
where a background row goes, averaged over all of those.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from itertools import combinations
from math import factorial, lcm, prod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .errors import InputError
from .model.ensemble import TreeEnsemble

__all__ = [
    "as_float",
    "coalition_value",
    "interaction_index",
    "interaction_values",
    "shapley_values",
    "shapley_weight",
]

#: An array of `Fraction`, or of 0 and 1. All arrays of this file are of this kind.
Exact = npt.NDArray[np.object_]

#: (present, others) -> what the coalitions of this size count for; see `shapley_weight`.
Weight = Callable[[int, int], Fraction]

Road = Literal["definition", "leaves"]


def shapley_weight(present: int, others: int) -> Fraction:
    """The weight of one coalition of ``present`` out of ``others`` players: ``∫ t^k (1-t)^(n-k) dt``.

    >>> shapley_weight(1, 2)
    Fraction(1, 6)
    """
    return Fraction(factorial(present) * factorial(others - present), factorial(others + 1))


def as_float(exact: Exact) -> npt.NDArray[np.float64]:
    """The nearest float64 numbers: rounded once, at the very end."""
    return exact.astype(np.float64)


def shapley_values(ensemble: TreeEnsemble, x: npt.ArrayLike, **options: Any) -> Exact:
    """(n_players, n_outputs) the Shapley value of every player; options as for `interaction_index`.

    >>> from linear_treeshap import RowFormat, TreeEnsemble
    >>> stump = TreeEnsemble(
    ...     tree_offsets=[0, 3], left=[1, -1, -1], right=[2, -1, -1], feature=[0, -1, -1],
    ...     threshold=[0.5, 0, 0], cover=[4, 3, 1], value=[[0], [1], [3]],
    ...     base_values=[10], row_format=RowFormat(n_features=1),
    ... )
    >>> shapley_values(stump, [0.7])  # 3, where 1.5 was expected
    array([[Fraction(3, 2)]], dtype=object)
    """
    n_players = max(_player_of_column(ensemble, options.get("players")), default=-1) + 1
    values = _zeros(n_players, ensemble.n_outputs)
    for (player,), value in interaction_index(ensemble, x, 1, **options).items():
        values[player] = value
    return values


def interaction_values(ensemble: TreeEnsemble, x: npt.ArrayLike, **options: Any) -> Exact:
    """(n_players, n_players, n_outputs) interaction values as the shap library lays them out.

    A pair's interaction is split half and half over ``[i, j]`` and ``[j, i]``; the diagonal holds
    what is left of each player's own value, so that every row adds up to `shapley_values`.
    """
    own = shapley_values(ensemble, x, **options)
    values = _zeros(len(own), len(own), ensemble.n_outputs)
    for (i, j), value in interaction_index(ensemble, x, 2, **options).items():
        values[i, j] = values[j, i] = value / 2
    for i in range(len(own)):
        values[i, i] = own[i] - values[i].sum(axis=0)
    return values


def interaction_index(
    ensemble: TreeEnsemble,
    x: npt.ArrayLike,
    order: int,
    *,
    players: Sequence[int] | None = None,
    background: npt.ArrayLike | None = None,
    background_weights: Sequence[float] | None = None,
    weight: Weight = shapley_weight,
    by: Road = "definition",
) -> dict[tuple[int, ...], Exact]:
    """The interaction index of every set of ``order`` players that meet in a tree; order 1: values.

    A set that is not in the answer has index 0. ``players[column]`` is the player a column belongs
    to; by default each column is its own. ``weight`` names the semivalue.
    """
    index: dict[tuple[int, ...], Exact] = {}
    player_of = _player_of_column(ensemble, players)
    present = _paths(ensemble, np.asarray(x)[None])[0]
    for absent, probability in _absences(ensemble, background, background_weights):
        for tree in range(ensemble.n_trees):
            game = _Game(ensemble, tree, player_of, present, absent)
            parts: Iterator[Any] = iter([game]) if by == "definition" else game.leaves()
            of_tree: dict[tuple[int, ...], Any] = {}
            for part in parts:
                for members in combinations(sorted(part.players), order):
                    of_tree[members] = of_tree.get(members, 0) + part.index(members, weight)
            for members, value in of_tree.items():
                found = index.setdefault(members, _zeros(ensemble.n_outputs))
                found[game.outputs] += probability * value
    return index


def coalition_value(
    ensemble: TreeEnsemble,
    x: npt.ArrayLike,
    coalition: Collection[int],
    *,
    players: Sequence[int] | None = None,
    background: npt.ArrayLike | None = None,
    background_weights: Sequence[float] | None = None,
) -> Exact:
    """(n_outputs,) the raw prediction expected when only these players are present."""
    total = _exact(ensemble.base_values)
    player_of = _player_of_column(ensemble, players)
    present = _paths(ensemble, np.asarray(x)[None])[0]
    for absent, probability in _absences(ensemble, background, background_weights):
        for tree in range(ensemble.n_trees):
            game = _Game(ensemble, tree, player_of, present, absent)
            total[game.outputs] += probability * game.value(frozenset(coalition))
    return total


class _Game:
    """One tree, one row, and one way to be absent: a value for every coalition."""

    def __init__(
        self, ensemble: TreeEnsemble, tree: int, player_of: Sequence[int], present: Exact, absent: Exact
    ) -> None:
        first, end = map(int, ensemble.tree_offsets[tree : tree + 2])
        nodes = slice(first, end)
        self.children = list(zip(ensemble.left[nodes].tolist(), ensemble.right[nodes].tolist(), strict=True))
        #: Per node, the player it splits on; None at a leaf.
        self.splits_on = [player_of[f] if f >= 0 else None for f in ensemble.feature[nodes].tolist()]
        self.leaf_value = _leaf_values(ensemble)[nodes]
        #: Per node, the share of its parent's rows that it gets when the parent's player is present
        #: (1 or 0), and when it is absent.
        self.present, self.absent = present[nodes], absent[nodes]
        self.outputs = slice(ensemble.tree_output[tree], ensemble.tree_output[tree] + ensemble.width)
        self.players = frozenset(player for player in self.splits_on if player is not None)
        self.value = cache(self._value)

    def _value(self, coalition: frozenset[int]) -> Exact:
        """(width,) what the tree is expected to add when only these players are present."""
        total = _zeros(self.leaf_value.shape[1])
        pending = [(0, Fraction(1))]
        while pending:
            node, reach = pending.pop()
            if self.splits_on[node] is None:
                total += reach * self.leaf_value[node]
            elif reach:
                share = self.present if self.splits_on[node] in coalition else self.absent
                pending += [(child, reach * share[child]) for child in self.children[node]]
        return total

    def index(self, members: tuple[int, ...], weight: Weight) -> Exact:
        """The weighted mean, over coalitions of the others, of what the members add jointly.

        For one member this is the Shapley value. Players the tree does not ask change nothing.
        """
        others = self.players.difference(members)
        total = _zeros(self.leaf_value.shape[1])
        for coalition in _subsets(others):
            for joined in _subsets(members):
                sign = (-1) ** (len(members) - len(joined))
                total += sign * weight(len(coalition), len(others)) * self.value(coalition | joined)
        return total

    def leaves(self) -> Iterator[_Leaf]:
        """The tree as a sum of leaves, each a game of its own. One that no coalition reaches is left out."""
        pending: list[tuple[int, dict[int, tuple[int, Fraction]]]] = [(0, {})]
        while pending:
            node, path = pending.pop()
            player = self.splits_on[node]
            if player is None:
                yield _Leaf(self.leaf_value[node], path)
                continue
            a, c = path.get(player, (1, Fraction(1)))
            for child in self.children[node]:
                step = (a * self.present[child], c * self.absent[child])
                if any(step):
                    pending.append((child, {**path, player: step}))


@dataclass(frozen=True)
class _Leaf:
    """A leaf's share of the game: coalition A is worth ``value · Π_{in A} a · Π_{not in A} c``."""

    value: Exact  # (width,)
    players: dict[int, tuple[int, Fraction]]  # (a, c) of each player on the path; a is 0 or 1

    def index(self, members: tuple[int, ...], weight: Weight) -> Exact | Literal[0]:
        """As `_Game.index`, which for a product is ``value · Π_members (a - c) · Σ_k weight(k) · P_k``.

        ``P_k`` sums over the coalitions of k others: it is the coefficient of ``z^k`` in the product
        of ``a·z + c`` over the others. Players with a = 0 bring a plain factor: ``c``, or ``-c`` for
        a member. Players with a = 1 and ``c = p / q`` bring ``q·z + p``, or ``q - p`` for a member,
        and all of them a factor ``1 / q``. So they form a polynomial of whole numbers, from which a
        member's factor is taken out again, and fractions are reduced once, at the end.
        """
        satisfied = [c for a, c in map(self.players.__getitem__, members) if a]
        factor = prod(c.denominator - c.numerator for c in satisfied)
        if not factor:
            return 0
        polynomial = self.satisfied_polynomial
        for c in satisfied:
            polynomial = _divide(polynomial, c)
        weights, denominator = _whole_weights(weight, len(self.players) - len(members))
        total = sum(p * w for p, w in zip(polynomial, weights, strict=False))  # of its degree, at most
        sign = (-1) ** (len(members) - len(satisfied))
        index: Exact = self.value_of_all * Fraction(sign * factor * total, denominator)
        return index

    @cached_property
    def value_of_all(self) -> Exact:
        """(width,) the value times what every player brings, a member or not."""
        factors = (Fraction(1, c.denominator) if a else c for a, c in self.players.values())
        value: Exact = self.value * prod(factors, start=Fraction(1))
        return value

    @cached_property
    def satisfied_polynomial(self) -> list[int]:
        """Coefficients, lowest first, of the product of ``q·z + p`` over the players with a = 1."""
        polynomial = [1]
        for a, c in self.players.values():
            if a:
                times_z = [0, *(c.denominator * k for k in polynomial)]
                times_1 = [*(c.numerator * k for k in polynomial), 0]
                polynomial = [s + t for s, t in zip(times_z, times_1, strict=True)]
        return polynomial


def _divide(polynomial: list[int], c: Fraction) -> list[int]:
    """The polynomial without its factor ``q·z + p``, where ``c = p / q``, from the top down.

    Nothing is left over at any step: p and q have no common divisor, so the quotient has whole numbers.
    """
    quotient, p, q = [polynomial[-1] // c.denominator], c.numerator, c.denominator
    for coefficient in polynomial[-2:0:-1]:
        quotient.append((coefficient - p * quotient[-1]) // q)
    return quotient[::-1]


@lru_cache(maxsize=1000)
def _whole_weights(weight: Weight, others: int) -> tuple[list[int], int]:
    """The weights of coalitions of every size, as whole numbers over a common denominator."""
    weights = [weight(present, others) for present in range(others + 1)]
    denominator = lcm(*(w.denominator for w in weights))
    return [w.numerator * (denominator // w.denominator) for w in weights], denominator


def _subsets(players: Collection[int]) -> Iterator[frozenset[int]]:
    for size in range(len(players) + 1):
        yield from map(frozenset, combinations(players, size))


def _player_of_column(ensemble: TreeEnsemble, players: Sequence[int] | None) -> list[int]:
    if players is None:
        return list(range(ensemble.n_columns))
    if len(players) != ensemble.n_columns:
        raise InputError(
            f"players must name the player of each of the {ensemble.n_columns} columns, "
            f"got {len(players)} entries."
        )
    return [int(player) for player in players]


def _require_numbers(ensemble: TreeEnsemble) -> None:
    if ensemble.lines is not None:
        raise InputError("The definition is written for leaves that are numbers, not linear functions.")


def _paths(ensemble: TreeEnsemble, rows: npt.ArrayLike) -> Exact:
    """(n_rows, n_nodes) 1 where the row, standing at the node's parent, would go to the node, else 0."""
    _require_numbers(ensemble)
    numbers = ensemble.cast_rows(rows)
    paths = np.full((len(numbers), ensemble.n_nodes), 1, dtype=object)
    for node in np.flatnonzero(~ensemble.is_leaf).tolist():
        left, right = _children(ensemble, node)
        goes_left = ensemble.goes_left(node, numbers[:, ensemble.feature[node]])
        paths[:, left], paths[:, right] = goes_left.astype(int), 1 - goes_left.astype(int)
    return paths


def _absences(
    ensemble: TreeEnsemble, background: npt.ArrayLike | None, weights: Sequence[float] | None
) -> Iterator[tuple[Exact, Fraction]]:
    """The ways to be absent, with their probabilities: by cover, or as one of the background rows."""
    if background is None:
        yield _cover_shares(ensemble), Fraction(1)
        return
    paths = _paths(ensemble, background)
    exact_weights = [Fraction(w) for w in ([1] * len(paths) if weights is None else weights)]
    if len(exact_weights) != len(paths) or not sum(exact_weights) > 0:
        raise InputError(
            f"Background data needs one weight per row and a positive sum, "
            f"got {len(exact_weights)} weights for {len(paths)} rows."
        )
    for path, row_weight in zip(paths, exact_weights, strict=True):
        yield path, row_weight / sum(exact_weights)


@lru_cache(maxsize=4)
def _cover_shares(ensemble: TreeEnsemble) -> Exact:
    """(n_nodes,) each node's share of its own and its sibling's cover; one half if they have none."""
    shares = np.full(ensemble.n_nodes, Fraction(1), dtype=object)
    cover = _exact(ensemble.cover)
    for node in np.flatnonzero(~ensemble.is_leaf).tolist():
        children = _children(ensemble, node)
        both = sum(cover[list(children)])
        for child in children:
            shares[child] = cover[child] / both if both else Fraction(1, 2)
    return shares


def _children(ensemble: TreeEnsemble, node: int) -> tuple[int, int]:
    root = ensemble.tree_offsets[ensemble.tree_of_node[node]]
    return int(root + ensemble.left[node]), int(root + ensemble.right[node])


@lru_cache(maxsize=4)
def _leaf_values(ensemble: TreeEnsemble) -> Exact:
    """(n_nodes, width) kept, with shares of covers, for the next row of the same trees."""
    return _exact(ensemble.value)


def _exact(numbers: npt.NDArray[np.float64]) -> Exact:
    fractions = [Fraction(number) for number in numbers.ravel().tolist()]
    return np.array(fractions, dtype=object).reshape(numbers.shape)


def _zeros(*shape: int) -> Exact:
    return np.full(shape, Fraction(0), dtype=object)
