"""The name of an interaction index → a compiled engine that gives indices to sets of players.

Only sets that meet on a path of some tree have an index other than zero, and only those exist here. Smaller
sets come first, then they are ordered by their players.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import InputError
from .contract import Told, Values
from .indices import SHAPLEY, Atoms, Beta, Faithful, Index, rule_inside
from .program import Program
from .threads import n_threads

__all__ = [
    "KINDS",
    "MAX_ORDER",
    "Kind",
    "SetEngine",
    "Term",
    "adds_up",
    "interaction_kind",
    "pair_terms",
    "terms_of",
]

#: The interaction indices that users can ask for.
Kind = Literal["k-SII", "SII", "STII", "FSII", "BII", "FBII", "CHII", "Moebius", "Co-Moebius"]

#: What else they are called, in small letters; of values, which are indices of single players.
_SYNONYMS: dict[str, Kind] = {"n-sii": "k-SII", "möbius": "Moebius", "co-möbius": "Co-Moebius"}
_OF_SINGLES: dict[str, Kind] = {"sv": "SII", "bv": "BII"}

#: Larger sets would need more digits than float64 has; see `indices`.
MAX_ORDER = 16


@dataclass(frozen=True)
class Term:
    """Sets of some orders, by one measure; what a subset gets of a set's index, by the players it lacks."""

    index: Index
    min_order: int
    max_order: int
    spread: tuple[float, ...] = ()


Terms = tuple[Term, ...]

#: The others are absent, or each is present with probability one half.
_NOBODY, _HALF = Atoms((0.0,), (1.0,)), Atoms((0.5,), (1.0,))


def _shapley_taylor(order: int) -> Terms:
    """Below the highest order: what a set adds to nobody. At the highest: the mean over arrivals of what it
    adds to those who come before its first player; the density of that is k·(1-t)^(k-1)."""
    if order == 1:
        return (Term(SHAPLEY, 1, 1),)
    return (Term(_NOBODY, 1, order - 1), Term(Beta(order, 1), order, order))


def _bernoulli(order: int) -> tuple[float, ...]:
    """Bernoulli's numbers 0 … order - 1, with -1/2: the shares by which SII becomes k-SII."""
    numbers: list[Fraction] = []
    for n in range(order):
        rest = sum((comb(n + 1, k) * b for k, b in enumerate(numbers)), Fraction(0))
        numbers.append((1 if n == 0 else 0) - rest / (n + 1))
    return tuple(map(float, numbers))


#: Interaction index → what it is made of, by the largest order.
KINDS: dict[Kind, Callable[[int], Terms]] = {
    "k-SII": lambda order: (Term(SHAPLEY, 1, order, _bernoulli(order)),),
    "SII": lambda order: (Term(SHAPLEY, 1, order),),
    "STII": _shapley_taylor,
    "FSII": lambda order: tuple(Term(Faithful(size, order), size, size) for size in range(1, order + 1)),
    "BII": lambda order: (Term(_HALF, 1, order),),
    # In terms of x - 1/2, which is how Banzhaf's indices are coefficients, the best approximation leaves out
    # what is beyond the order; in terms of x, a product of them is one of every subset as well.
    "FBII": lambda order: (Term(_HALF, 1, order, tuple((-0.5) ** lacking for lacking in range(order))),),
    # What a set adds to those who come before its last player: density k·t^(k-1).
    "CHII": lambda order: tuple(Term(Beta(1, size), size, size) for size in range(1, order + 1)),
    "Moebius": lambda order: (Term(_NOBODY, 1, order),),
    "Co-Moebius": lambda order: (Term(Atoms((1.0,), (1.0,)), 1, order),),
}


def interaction_kind(asked: Any, index: Index, order: Any) -> Kind | None:
    """The interaction index that was asked for; None for that of the explainer's own index."""
    if asked is None:
        return "k-SII" if index.is_efficient else None
    named = {**{kind.lower(): kind for kind in KINDS}, **_SYNONYMS, **_OF_SINGLES}
    kind = named.get(asked.lower()) if isinstance(asked, str) else None
    if kind is None:
        raise InputError(f"index must be one of {', '.join(map(repr, KINDS))}, or None; got {asked!r}.")
    if asked.lower() in _OF_SINGLES and order != 1:
        raise InputError(
            f"{asked!r} is an index of single features: ask for order=1, or for one of sets: "
            f"{', '.join(map(repr, KINDS))}."
        )
    return kind


def adds_up(kind: str | None, order: int) -> bool:
    """Do all sets of a row, of up to ``order`` players, add up to its prediction?"""
    return kind in ("k-SII", "STII", "FSII") or (kind in ("SII", "CHII") and order == 1)


def terms_of(kind: Kind | None, order: Any, index: Index) -> Terms:
    """What an interaction index is made of, for sets of up to ``order`` players; None for ``index``'s own."""
    is_number = isinstance(order, (int, np.integer)) and not isinstance(order, bool)
    if not is_number or not 1 <= order <= MAX_ORDER:
        raise InputError(f"order must be a whole number from 1 to {MAX_ORDER}, got {order!r}.")
    return (Term(index, 1, int(order)),) if kind is None else KINDS[kind](int(order))


def pair_terms(index: Index) -> Terms:
    """Values and pairs, with half of each pair taken off both of its players: rows add up to the values."""
    return (Term(index, 1, 2, _bernoulli(2)),)


class SetEngine:
    """Indices of all sets of up to some number of players."""

    def __init__(self, program: Program, terms: Terms) -> None:
        self.n_players, self.n_outputs = program.n_players, program.n_outputs
        self._rescaled = program.rescaled
        self._terms = [_compiled(program, term) for term in terms]
        self._sizes = [len(term.sets) for term in self._terms]
        self.sets = tuple(tuple(players) for term in self._terms for players in term.sets)

    def values(self, rows: Values, out: Values, *, n_jobs: int | None = None, progress: Told = None) -> None:
        """Write the indices of ``rows`` to ``out``, (n_rows, n_sets, n_outputs)."""
        begin = 0
        for done, (term, size) in enumerate(zip(self._terms, self._sizes, strict=True)):
            target = out[:, begin : begin + size]
            written = target if target.flags.c_contiguous else np.empty_like(target, order="C")
            with self._rescaled(written) as found:
                term.explain(rows, found, n_threads=n_threads(n_jobs), progress=self._share(progress, done))
            if written is not target:
                target[...] = written
            begin += size

    def matrices(
        self, rows: Values, out: Values, *, n_jobs: int | None = None, progress: Told = None
    ) -> None:
        """Write orders 1 and 2 to ``out``, (n_rows, n_players, n_players, n_outputs), pairs split in half."""
        (term,) = self._terms
        with self._rescaled(out) as found:
            term.explain_dense(rows, found, n_threads=n_threads(n_jobs), progress=progress)

    def add_up(
        self,
        rows: Values,
        sums: npt.NDArray[np.float64],
        sums_abs: npt.NDArray[np.float64],
        *,
        n_jobs: int | None = None,
    ) -> None:
        """Add the indices, and their absolute values, of all ``rows`` to (n_sets, n_outputs)."""
        begin = 0
        for term, size in zip(self._terms, self._sizes, strict=True):
            here = slice(begin, begin + size)
            here_sums, here_abs = np.zeros_like(sums[here]), np.zeros_like(sums[here])
            with self._rescaled(here_sums) as found, self._rescaled(here_abs) as found_abs:
                term.add_up(rows, found, found_abs, n_threads=n_threads(n_jobs), progress=None)
            sums[here] += here_sums
            sums_abs[here] += here_abs
            begin += size

    def _share(self, progress: Told, done: int) -> Told:
        """The share of one term as a share of all."""
        if progress is None:
            return None
        n_terms = len(self._terms)
        return lambda share: progress((done + share) / n_terms)


def _compiled(program: Program, term: Term) -> _core.SetEngine:
    try:
        return _core.SetEngine(
            program.compiled,
            rule=rule_inside(term.index, term.max_order),
            min_order=term.min_order,
            max_order=term.max_order,
            spread=list(term.spread),
        )
    except _core.TooManySets as error:
        raise InputError(
            f"Sets of up to {term.max_order} players meet more than 100 million times on the paths of these "
            f"trees. Ask for a lower order."
        ) from error
