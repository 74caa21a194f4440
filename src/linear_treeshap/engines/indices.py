"""The name of an index → the quadrature rule that the engine runs.

Every index here is a semivalue: the mean of what a player adds to coalitions of the others, where each other
player is present with probability ``t``, and ``t`` is drawn from a measure on [0, 1]. Shapley's is uniform,
Banzhaf's is the point 1/2. Of a player on a path with ``n`` players that is the integral of a polynomial of
degree ``n - 1``, so a rule of a few points and weights gives it exactly: nothing is approximated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb, inf, isfinite
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import InputError

__all__ = [
    "SHAPLEY",
    "Atoms",
    "Beta",
    "Faithful",
    "Index",
    "Rule",
    "SizeWeights",
    "index_of",
    "known_by",
    "rule_inside",
]

Float64 = npt.NDArray[np.float64]

#: Points, one minus the points (which loses no digits near 1), and weights.
Rule = tuple[Float64, Float64, Float64]

#: At t = 0 and t = 1 the recurrence would divide by zero, so points keep away from both ends. An index moves
#: by this distance times the players of a path, as a share of the leaves: 2^-256 is nothing beside any that
#: counts, and its square can still be divided by. The index of a set is found from a product that has it as a
#: factor for each player, which must not underflow; leaves are compiled as numbers near one (`Program`).
_LEAST_BITS, _MOST_BITS, _BITS_OF_A_SET = 64, 256, 768

#: Weights per coalition size that no measure has make rules whose weights cancel; up to this sum of absolute
#: weights that costs three digits.
_MAX_ABSOLUTE_WEIGHT = 1e3


class Index(Protocol):
    """A semivalue."""

    @property
    def is_efficient(self) -> bool:
        """Do values add up to the prediction? Only Shapley's do."""

    def rule(self, n_players: int) -> Rule:
        """A rule that is exact for paths with up to ``n_players`` players; never of fewer than one point.

        Its points may be 0 and 1; `rule_inside` is what an engine runs."""


@dataclass(frozen=True)
class Beta:
    """Beta Shapley: the density of ``t`` is proportional to ``t^(beta-1) · (1-t)^(alpha-1)``."""

    alpha: float = 1.0
    beta: float = 1.0

    @property
    def is_efficient(self) -> bool:
        return self.alpha == self.beta == 1

    def rule(self, n_players: int) -> Rule:
        n_points = max(1, (n_players + 1) // 2)
        return _core.gauss_legendre(n_points) if self.is_efficient else self._gauss_jacobi(n_points)

    def _gauss_jacobi(self, n_points: int) -> Rule:
        """Points are the zeros of the last of the orthonormal polynomials, found as eigenvalues and refined
        by Newton's method in extended precision where the machine has it; weights follow from the others."""
        a, b = np.longdouble(self.alpha - 1), np.longdouble(self.beta - 1)
        n = np.arange(n_points + 1, dtype=np.longdouble)
        s = 2 * n + a + b
        with np.errstate(divide="ignore", invalid="ignore"):
            middle = (1 + (b * b - a * a) / (s * (s + 2))) / 2
            squared = n * (n + a) * (n + b) * (n + a + b) / (s * s * (s + 1) * (s - 1))
        # Where numerator and denominator both vanish, as for a + b = 0 or -1, these are the limits.
        middle[0] = (b + 1) / (a + b + 2)
        squared[1] = (a + 1) * (b + 1) / ((a + b + 2) ** 2 * (a + b + 3))
        step = np.sqrt(squared[1:])
        diagonal, beside = middle[:-1].astype(np.float64), step[:-1].astype(np.float64)
        matrix = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
        t = np.linalg.eigvalsh(matrix).astype(np.longdouble)
        for _ in range(4):
            p, before = np.ones_like(t), np.zeros_like(t)
            slope, slope_before = np.zeros_like(t), np.zeros_like(t)
            total = np.zeros_like(t)
            for k in range(n_points):
                total += p * p
                back = step[k - 1] if k else np.longdouble(0)
                p_next = ((t - middle[k]) * p - back * before) / step[k]
                slope_next = ((t - middle[k]) * slope + p - back * slope_before) / step[k]
                p, before, slope, slope_before = p_next, p, slope_next, slope
            t = t - p / slope
        return _rule(t, 1 - t, 1 / total)


SHAPLEY = Beta()


@dataclass(frozen=True)
class Faithful:
    """What sets of ``size`` players have in the best approximation of a game by sets of up to ``order``, in
    Shapley's weights (FSII): the density of ``t`` is that of Beta(size, size) times a polynomial, and is not
    positive everywhere.

    The index is a sum over the Möbius coefficients m(T) of all larger sets T, which approximation takes off
    as far as they are within the order, and spreads beyond it. A measure gives m(T) the mean of t^r, of the r
    players that T has more. So the polynomial, of degree order - size, has mean 1, is orthogonal to t, t², …
    up to its degree, and is thereby Jacobi's for the weight t · t^(size-1) (1-t)^(size-1); that its means of
    higher powers are those of FSII follows by integrating by parts.
    """

    size: int
    order: int

    @property
    def is_efficient(self) -> bool:
        return self.order == 1

    def rule(self, n_players: int) -> Rule:
        degree = self.order - self.size
        t, absent, weights = Beta(self.size, self.size).rule(n_players + degree)
        factors = [self._polynomial(Fraction(x)) for x in t.tolist()]  # in fractions: its terms cancel
        return _rule(t, absent, weights * np.array([float(x) for x in factors]))

    def _polynomial(self, t: Fraction) -> Fraction:
        """Of mean 1: the hypergeometric series 2F1(-degree, degree + 2 size; size + 1; t) over its mean."""
        degree, total, mean = self.order - self.size, Fraction(0), Fraction(0)
        coefficient, power, moment = Fraction(1), Fraction(1), Fraction(1)
        for i in range(degree + 1):
            total += coefficient * power
            mean += coefficient * moment
            coefficient *= Fraction(
                (i - degree) * (degree + 2 * self.size + i), (self.size + 1 + i) * (i + 1)
            )
            power *= t
            moment *= Fraction(self.size + i, 2 * self.size + i)
        return total / mean


@dataclass(frozen=True)
class Atoms:
    """A measure that sits on some points."""

    points: tuple[float, ...]
    weights: tuple[float, ...]

    @property
    def is_efficient(self) -> bool:
        return False

    def rule(self, n_players: int) -> Rule:
        points, weights = np.array(self.points), np.array(self.weights)
        if len(points) <= max(1, n_players):
            return _rule(points, 1 - points, weights)
        # More points than needed: the same integrals of all polynomials of degree n_players - 1, from their
        # values at Gauss-Legendre points. The weights stay small: they are means of Lagrange polynomials.
        t, absent, _ = _core.gauss_legendre(max(1, n_players))
        return _rule(t, absent, _lagrange(t, points) @ weights)


@dataclass(frozen=True)
class SizeWeights:
    """The weight of one coalition of the others, by its size: 0, 1, … up to all of them."""

    weights: tuple[Fraction, ...]

    @property
    def is_efficient(self) -> bool:
        return False

    def rule(self, n_players: int) -> Rule:
        """Weights at Gauss-Legendre points that reproduce the weights of coalitions exactly, in fractions."""
        n = min(max(1, n_players), len(self.weights))
        outside = len(self.weights) - n  # players that are not on the path are in the coalition or not
        wanted = [
            sum((comb(outside, j) * self.weights[size + j] for j in range(outside + 1)), Fraction(0))
            for size in range(n)
        ]
        t, absent, _ = _core.gauss_legendre(n)
        weights = _solve([Fraction(x) for x in t.tolist()], wanted)
        if sum(map(abs, weights)) > _MAX_ABSOLUTE_WEIGHT:
            raise InputError(
                f"These weights per coalition size are too far from those of any measure on [0, 1] to be "
                f"computed accurately on paths with {n} features. Use weights that change smoothly with the "
                f"size, or give the measure of a semivalue: index=('measure', points, weights)."
            )
        return _rule(t, absent, np.array([float(w) for w in weights]))


#: What others call these, in small letters.
_SYNONYMS = {"sv": "shapley", "bv": "banzhaf"}


def known_by(asked: Any) -> Any:
    """What a user asks for, by the name that is used here."""
    return _SYNONYMS.get(asked.lower(), asked) if isinstance(asked, str) else asked


def index_of(asked: Any, n_players: int) -> Index:
    """The index of a name, or of a tuple of a name and its numbers; see `TreeExplainer`."""
    name, *numbers = asked if isinstance(asked, (tuple, list)) and asked else (asked,)
    makers = {
        "shapley": (0, lambda: SHAPLEY),
        "banzhaf": (0, lambda: Atoms((0.5,), (1.0,))),
        "weighted_banzhaf": (1, _weighted_banzhaf),
        "beta": (2, _beta),
        "measure": (2, _measure),
        "sizes": (1, lambda weights: _sizes(weights, n_players)),
    }
    if not isinstance(name, str) or name not in makers:
        raise InputError(
            f"index must be 'shapley', 'banzhaf', ('weighted_banzhaf', p), ('beta', alpha, beta), "
            f"('measure', points, weights) or ('sizes', weights), got {asked!r}. Those of sets of features, "
            f"such as 'SII' and 'FSII', are given to explainer.interactions."
        )
    n_numbers, make = makers[name]
    if len(numbers) != n_numbers:
        raise InputError(f"The index {name!r} takes {n_numbers} arguments, got {len(numbers)}: {asked!r}.")
    index: Index = make(*numbers)  # type: ignore[operator]
    return index


def _weighted_banzhaf(p: Any) -> Index:
    probability = _number(p, "the probability of index ('weighted_banzhaf', p)", 0.0, 1.0)
    return Atoms((probability,), (1.0,))


def _beta(alpha: Any, beta: Any) -> Index:
    what = "each parameter of index ('beta', alpha, beta)"
    a, b = _number(alpha, what, 0.0, 1e4), _number(beta, what, 0.0, 1e4)
    if not min(a, b) >= 1e-3:
        raise InputError(f"{what[0].upper()}{what[1:]} must be at least 0.001, got {alpha!r} and {beta!r}.")
    return Beta(a, b)


def _measure(points: Any, weights: Any) -> Index:
    t, w = _sequence(points, "points"), _sequence(weights, "weights")
    if len(t) != len(w) or not len(t):
        raise InputError(f"A measure needs as many weights as points, got {len(t)} points, {len(w)} weights.")
    for x in t:
        _number(x, "each point of index ('measure', points, weights)", 0.0, 1.0)
    for x in w:
        _number(x, "each weight of index ('measure', points, weights)", 0.0, inf)
    _require_one(float(sum(w)), "The weights of a measure")
    return Atoms(tuple(map(float, t)), tuple(map(float, w)))


def _sizes(weights: Any, n_players: int) -> Index:
    w = _sequence(weights, "weights")
    if len(w) != n_players:
        raise InputError(
            f"index=('sizes', weights) needs a weight for each size of a coalition of the others, from 0 to "
            f"{n_players - 1}: {n_players} numbers, got {len(w)}."
        )
    for x in w:
        _number(x, "each weight of index ('sizes', weights)", 0.0, inf)
    exact = tuple(map(Fraction, w))
    total = sum((comb(n_players - 1, size) * x for size, x in enumerate(exact)), Fraction(0))
    _require_one(float(total), "The weights of all coalitions, each size as often as it has coalitions,")
    return SizeWeights(exact)


def _require_one(total: float, what: str) -> None:
    if not abs(total - 1) <= 1e-9:
        raise InputError(f"{what} must add up to 1, got {total:.12g}.")


def _number(given: Any, what: str, least: float, most: float) -> float:
    is_number = isinstance(given, (int, float, Fraction, np.integer, np.floating))
    if not is_number or isinstance(given, bool) or not isfinite(given) or not least <= given <= most:
        limits = f"from {least:g} to {most:g}" if isfinite(most) else f"of at least {least:g}"
        raise InputError(f"{what[0].upper()}{what[1:]} must be a number {limits}, got {given!r}.")
    return float(given)


def _sequence(given: Any, what: str) -> Sequence[Any]:
    if isinstance(given, np.ndarray) and given.ndim == 1:
        return list(given.tolist())
    if isinstance(given, (list, tuple)):
        return given
    raise InputError(f"The {what} of an index must be a list of numbers, got {given!r}.")


def rule_inside(index: Index, order: int) -> Callable[[int], Rule]:
    """The rules of an index, their points inside of (0, 1), for sets of up to ``order`` players."""
    end = 2.0 ** -max(_LEAST_BITS, min(_MOST_BITS, _BITS_OF_A_SET // order))

    def rule(n_players: int) -> Rule:
        points, absent, weights = index.rule(n_players)
        return np.maximum(points, end), np.maximum(absent, end), weights

    return rule


def _rule(points: npt.ArrayLike, absent: npt.ArrayLike, weights: npt.ArrayLike) -> Rule:
    """The rule in float64."""
    t, a, w = (np.ascontiguousarray(x, dtype=np.float64) for x in (points, absent, weights))
    return t, a, w


def _lagrange(nodes: Float64, at: Float64) -> Float64:
    """(nodes, points) the Lagrange polynomials of the nodes, each as its product of linear factors."""
    out = np.ones((len(nodes), len(at)))
    for k, node in enumerate(nodes):
        for other in np.delete(nodes, k):
            out[k] *= (at - other) / (node - other)
    return out


def _solve(points: list[Fraction], wanted: list[Fraction]) -> list[Fraction]:
    """Weights w with ``Σ_k w_k · t_k^s · (1 - t_k)^(n-1-s) = wanted[s]`` for every size s, exactly.

    With ``r = t / (1 - t)`` the unknowns ``w · (1 - t)^(n-1)`` solve a Vandermonde system, whose inverse
    has the coefficients of the Lagrange polynomials in ``r``: that of ``r_k`` is the product of all
    ``r - r_j``, divided by ``r - r_k`` and by its own value there.
    """
    n = len(points)
    ratios = [t / (1 - t) for t in points]
    product = [Fraction(1)]  # coefficients, lowest first
    for r in ratios:
        shifted = [Fraction(0), *product]
        product = [a - r * b for a, b in zip(shifted, [*product, Fraction(0)], strict=True)]
    weights = []
    for t, r in zip(points, ratios, strict=True):
        quotient = [product[-1]]
        for coefficient in product[-2:0:-1]:
            quotient.append(coefficient + r * quotient[-1])
        quotient.reverse()
        slope = sum((q * r**s for s, q in enumerate(quotient)), Fraction(0))
        found = sum((q * p for q, p in zip(quotient, wanted, strict=True)), Fraction(0)) / slope
        weights.append(found / (1 - t) ** (n - 1))
    return weights
