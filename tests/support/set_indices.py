"""Interaction indices by their definition: sums over the Möbius coefficients of larger sets, in fractions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from linear_treeshap import oracle
from linear_treeshap.model.ensemble import TreeEnsemble

__all__ = ["SHARE", "by_moebius", "moebius_of"]

Exact = dict[tuple[int, ...], npt.NDArray[np.object_]]


def moebius_of(ensemble: TreeEnsemble, x: Any, **options: Any) -> Exact:
    """Of sets of all sizes: what a set adds to nobody. ``options`` are the oracle's."""
    exact: Exact = {}
    for size in range(1, ensemble.n_features + 1):
        options |= {"weight": lambda present, others: Fraction(int(present == 0)), "by": "leaves"}
        exact.update(oracle.interaction_index(ensemble, x, size, **options))
    return exact


def by_moebius(coefficients: Exact, kind: str, order: int) -> Exact:
    """Σ share(|S|, |T|) · m(T) over all T that contain S, for every S of up to ``order`` players."""
    found: Exact = {}
    for larger, value in coefficients.items():
        for size in range(1, min(order, len(larger)) + 1):
            share = SHARE[kind](order, size, len(larger))
            for members in combinations(larger, size):
                found[members] = found.get(members, 0 * value) + share * value
    return found


def _k_sii(k: int, s: int, t: int) -> Fraction:
    """Sets keep what Bernoulli's numbers leave them of their supersets within the order."""
    bernoulli = (1, Fraction(-1, 2), Fraction(1, 6), 0, Fraction(-1, 30), 0)
    return sum(
        (comb(t - s, r) * bernoulli[r] * Fraction(1, t - s - r + 1) for r in range(min(k, t) - s + 1)),
        start=Fraction(0),
    )


def _faithful_shapley(k: int, s: int, t: int) -> Fraction:
    """Tsai, Yeh and Ravikumar, "Faith-Shap" (2023)."""
    if t <= k:
        return Fraction(int(s == t))
    share = Fraction(s * comb(k, s) * comb(t - 1, k), (k + s) * comb(t + k - 1, k + s))
    return -share if (k - s) % 2 else share


def _faithful_banzhaf(k: int, s: int, t: int) -> Fraction:
    """The same paper."""
    if t <= k:
        return Fraction(int(s == t))
    share = Fraction(comb(t - s - 1, k - s), 2 ** (t - s))
    return -share if (k - s) % 2 else share


#: Interaction index → what a set of s players has of the coefficient of one of t that contains it, where sets
#: of up to k players have indices.
SHARE: dict[str, Callable[[int, int, int], Fraction]] = {
    "k-SII": _k_sii,
    "SII": lambda k, s, t: Fraction(1, t - s + 1),
    "STII": lambda k, s, t: Fraction(1, comb(t, k)) if s == k else Fraction(int(s == t)),
    "FSII": _faithful_shapley,
    "BII": lambda k, s, t: Fraction(1, 2 ** (t - s)),
    "FBII": _faithful_banzhaf,
    "CHII": lambda k, s, t: Fraction(s, t),
    "Moebius": lambda k, s, t: Fraction(int(s == t)),
    "Co-Moebius": lambda k, s, t: Fraction(1),
}
