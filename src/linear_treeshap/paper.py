"""Linear TreeShap as published: Yu, Xu, Bifet and Read (2022), arXiv 2209.08192.

In come a TreeEnsemble and rows, out come Shapley values. `linear_tree_shap` is the reference implementation,
in NumPy, to be read beside the paper and named as the paper names things; `LinearTreeShap` is the same in
C++ (``core/paper``), at the speed the paper speaks of. The library's engine runs the same theorem at better
points, because in float64 the published form loses digits as paths meet more features.

Notation. ``R^v`` is the decision rule of leaf v, ``R_∅`` its value when every feature is missing.
An edge e is named by the node at its lower end, the paper's ``h(e)``. ``w_e`` is its share of its own and its
sibling's cover, ``e↑`` the closest edge above it that splits on the same feature. ``p_e`` is the product of
``1/w`` over the edges of e's feature down to e if the row satisfies them all, else 0. ``G_v`` is the
summary polynomial of a node and ``d_e`` the degree of ``G_h(e)``.

A polynomial is an array whose last axis holds either its coefficients, lowest power of y first
(`Coefficients`), or its values at fixed points (`Interpolation`); the algorithms do not care which.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from . import _core
from .engines.program import trees_of
from .errors import AdditivityError, InputError, ModelError
from .model.ensemble import Float64, TreeEnsemble, require_numbers

__all__ = [
    "Coefficients",
    "DecisionRule",
    "Interpolation",
    "LinearTreeShap",
    "Tree",
    "aggregate_shapley",
    "compute_summary_polynomials",
    "decision_rules",
    "floor_divide",
    "linear_tree_shap",
    "multiply",
    "oplus",
    "psi",
    "raise_degree",
    "reciprocal_binomial",
]

#: ``e↑`` of an edge whose feature occurs nowhere above it: the paper's ⊥, with ``p_⊥ = 1``.
BOTTOM = -1

#: Values must add up to the prediction within this, relative to the largest leaf value times trees.
_ADDITIVITY_TOLERANCE = 1e-6

#: Beyond so many features on a path nothing is computed: not a digit has been left for long, and the numbers
#: that ψ needs grow with their square.
_MOST_FEATURES = 1000

#: Rows are explained in blocks of so many numbers per polynomial, which keeps the stack in cache.
_BLOCK_NUMBERS = 2**15


def linear_tree_shap(
    ensemble: TreeEnsemble,
    X: npt.ArrayLike,
    *,
    form: Literal["interpolation", "coefficients"] = "interpolation",
    check_additivity: bool = True,
) -> Float64:
    """(n_rows, n_features, n_outputs) Shapley values by Algorithm 3, LinearTreeSHAP, tree by tree.

    ``X`` holds numbers as `RowFormat` describes them: NaN for missing, codes for categories.
    Along a path over d distinct features that a row satisfies, the interpolation form keeps about 13
    digits at d = 8, 9 at d = 16, 5 at d = 24 and none at d = 32; the coefficient form 9 at d = 32.
    Values that miss the prediction for want of digits raise an AdditivityError.

    Examples
    --------
    >>> from linear_treeshap import RowFormat, TreeEnsemble
    >>> stump = TreeEnsemble(
    ...     tree_offsets=[0, 3], left=[1, -1, -1], right=[2, -1, -1], feature=[0, -1, -1],
    ...     threshold=[0.5, 0, 0], cover=[4, 3, 1], value=[[0], [1], [3]],
    ...     base_values=[10], row_format=RowFormat(n_features=1),
    ... )
    >>> linear_tree_shap(stump, [[0.7]]).round(12)
    array([[[1.5]]])
    """
    if form not in ("interpolation", "coefficients"):
        raise InputError(f"form must be 'interpolation' or 'coefficients', got {form!r}.")
    rows = ensemble.cast_rows(X)
    phi = np.zeros((len(rows), ensemble.n_features, ensemble.n_outputs))
    for index in range(ensemble.n_trees):
        tree = Tree(ensemble, index)
        polynomials = Interpolation(tree.degree) if form == "interpolation" else Coefficients()
        block = max(1, _BLOCK_NUMBERS // (ensemble.width * (tree.degree + 1)))
        for start in range(0, len(rows), block):
            here = slice(start, start + block)
            # What overflows on paths over hundreds of features is for the check of additivity to tell.
            with np.errstate(over="ignore", invalid="ignore"):
                summaries = compute_summary_polynomials(tree, rows[here], polynomials)
                aggregate_shapley(tree, summaries, polynomials, phi[here, :, tree.outputs])
    if check_additivity:
        _check_additivity(ensemble, rows, phi)
    return phi


class LinearTreeShap:
    """The interpolation form of `linear_tree_shap`, compiled: made once of an ensemble, asked many times.

    One row at a time on one core, as in the authors' own implementation, and in O(D² + N) memory a row.
    Digits, checks and limits are those of `linear_tree_shap`.

    Examples
    --------
    >>> from linear_treeshap.model.row_format import RowFormat
    >>> stump = TreeEnsemble(
    ...     tree_offsets=[0, 3], left=[1, -1, -1], right=[2, -1, -1], feature=[0, -1, -1],
    ...     threshold=[0.5, 0, 0], cover=[4, 3, 1], value=[[0], [1], [3]],
    ...     base_values=[10], row_format=RowFormat(n_features=1),
    ... )
    >>> LinearTreeShap(stump).values([[0.7]]).round(12)
    array([[[1.5]]])
    """

    def __init__(self, ensemble: TreeEnsemble) -> None:
        _check_reach(ensemble, slice(None))
        self.ensemble = ensemble
        self._compiled = _core.LinearTreeShap(
            trees_of(ensemble),
            n_features=ensemble.n_features,
            n_outputs=ensemble.n_outputs,
        )
        for index, degree in enumerate(self._compiled.degrees):
            _check_degree(index, degree)

    def values(self, X: npt.ArrayLike, *, check_additivity: bool = True) -> Float64:
        """(n_rows, n_features, n_outputs) Shapley values; ``X`` as for `linear_tree_shap`."""
        rows = np.ascontiguousarray(self.ensemble.cast_rows(X))
        phi = np.zeros((*rows.shape, self.ensemble.n_outputs))
        self._compiled.explain(rows, phi)
        if check_additivity:
            _check_additivity(self.ensemble, rows, phi)
        return phi


# -- polynomials by coefficients -----------------------------------------------------------------


def reciprocal_binomial(d: int) -> Float64:
    """Coefficients of the reciprocal binomial polynomial ``B_d(x) = Σ_i x^i / C(d, i)``.

    >>> reciprocal_binomial(2)
    array([1. , 0.5, 1. ])
    """
    return np.array([1 / comb(d, i) for i in range(d + 1)])


def psi(A: Float64) -> Float64:
    """``ψ(A) = <A, B_d> / (d + 1)`` for polynomials of degree d, one less than the coefficients."""
    d = A.shape[-1] - 1
    return np.asarray(A @ (reciprocal_binomial(d) / (d + 1)))


def multiply(G: Float64, p: Float64) -> Float64:
    """``G · (y + p)``; ``p`` broadcasts against all but the last axis of ``G``."""
    product = np.zeros((*G.shape[:-1], G.shape[-1] + 1))
    product[..., 1:] = G
    product[..., :-1] += G * p[..., None]
    return product


def floor_divide(G: Float64, p: Float64) -> Float64:
    """``⌊G / (y + p)⌋``, the quotient; ``p`` is 0 or about 1 and more.

    Where ``y + p`` divides G this is the quotient. Else the remainder goes to the highest power, not
    to the constant as in Euclid's division, because starting from the constant divides by p where
    the other way multiplies rounding errors by it, again and again. The theorem does not mind: its
    floors come in pairs of one sign each, with equal divisor and degree, whose remainders cancel
    under any rule that is linear in G.
    """
    zero = p == 0
    divisor = np.where(zero, 1.0, p)
    quotient = np.empty((*np.broadcast_shapes(G.shape[:-1], p.shape), G.shape[-1] - 1))
    carried: Float64 = np.zeros(quotient.shape[:-1])
    for power in range(quotient.shape[-1]):
        carried = (G[..., power] - carried) / divisor
        quotient[..., power] = carried
    return np.where(zero[..., None], G[..., 1:], quotient)


def raise_degree(G: Float64, k: int) -> Float64:
    """``G · (1 + y)^k``, which has the same ψ as G."""
    for _ in range(k):
        G = multiply(G, np.ones(()))
    return G


def oplus(G1: Float64, G2: Float64) -> Float64:
    """``G1 ⊕ G2``: the sum after the lower degree has been raised to the higher."""
    short = G2.shape[-1] - G1.shape[-1]
    return raise_degree(G1, max(short, 0)) + raise_degree(G2, max(-short, 0))


# -- the two forms -------------------------------------------------------------------------------


class Polynomials(Protocol):
    """What the algorithms need of a form. Degrees are known from the tree and passed in."""

    def one(self) -> Float64:
        """The polynomial 1."""

    def multiply(self, G: Float64, p: Float64) -> Float64:
        """``G · (y + p)``."""

    def divide(self, G: Float64, p: Float64) -> Float64:
        """``⌊G / (y + p)⌋``."""

    def raise_degree(self, G: Float64, k: int) -> Float64:
        """``G · (1 + y)^k``."""

    def psi(self, G: Float64, d: int) -> Float64:
        """``ψ_d(G)``."""


class Coefficients:
    """Polynomials as coefficients: O(D) numbers, O(D²) to raise a degree; for teaching."""

    multiply = staticmethod(multiply)
    divide = staticmethod(floor_divide)
    raise_degree = staticmethod(raise_degree)

    def one(self) -> Float64:
        return np.ones(1)

    def psi(self, G: Float64, d: int) -> Float64:
        assert G.shape[-1] == d + 1, "the degree of a polynomial is the one its tree says"
        return psi(G)


class Interpolation:
    """Polynomials of degree at most D as values at fixed points Y: every operation is O(D).

    ψ only ever reads quotients, whose degree is below D, so D points do where the paper keeps D + 1;
    a point more costs accuracy (a factor of 40 at D = 24). Y are Chebyshev points of the second kind,
    an even number of them and without the two ends: an odd number has y = 0 in the middle, where
    dividing by ``y + p_e`` fails for an edge that is not satisfied (p = 0); at the end y = -1 it
    fails for an edge that took all the cover (p = 1).
    """

    def __init__(self, D: int) -> None:
        n_points = D + D % 2
        self.Y: Float64 = np.polynomial.chebyshev.chebpts2(n_points + 2)[1:-1]
        C = np.zeros((n_points, D))
        for d in range(D):
            C[: d + 1, d] = reciprocal_binomial(d)
        #: ``values · N[:, d] = <A, B_d>``: with V(Y) the Vandermonde matrix and C_d the coefficients of
        #: B_d, followed by zeros, ``N_d = V(Y)^-1 C_d``.
        self.N: Float64 = np.linalg.solve(np.vander(self.Y, increasing=True).T, C)

    def one(self) -> Float64:
        return np.ones_like(self.Y)

    def multiply(self, G: Float64, p: Float64) -> Float64:
        return G * (self.Y + p[..., None])

    def divide(self, G: Float64, p: Float64) -> Float64:
        # No floor: what is not a polynomial cancels in pairs, as the remainders do in floor_divide.
        return G / (self.Y + p[..., None])

    def raise_degree(self, G: Float64, k: int) -> Float64:
        return G * (1 + self.Y) ** k

    def psi(self, G: Float64, d: int) -> Float64:
        return np.asarray(G @ self.N[:, d]) / (d + 1)


# -- trees and decision rules --------------------------------------------------------------------


class Tree:
    """One tree of an ensemble in the paper's terms. Lists are indexed by node, that is, by edge."""

    def __init__(self, ensemble: TreeEnsemble, index: int) -> None:
        first, end = map(int, ensemble.tree_offsets[index : index + 2])
        nodes = slice(first, end)
        self.ensemble, self.index, self.first = ensemble, index, first
        self.outputs = slice(ensemble.tree_output[index], ensemble.tree_output[index] + ensemble.width)
        self.left: list[int] = ensemble.left[nodes].tolist()
        self.right: list[int] = ensemble.right[nodes].tolist()
        self.w: list[float] = ensemble.cover_ratio[nodes].tolist()  # w_e
        self.above = [BOTTOM] * (end - first)  # e↑
        self.feature = [BOTTOM] * (end - first)  # the feature an edge splits on; ⊥ for the root
        self.d = [0] * (end - first)  # d_e
        _check_reach(ensemble, nodes)
        #: (n_nodes, width) R^v_∅; zero at inner nodes
        self.R_empty: Float64 = ensemble.value[nodes] * ensemble.reach[nodes, None]
        order = self._walk_down()
        for node in reversed(order):
            if not self.is_leaf(node):
                self.d[node] = max(self.d[self.left[node]], self.d[self.right[node]])

    @property
    def degree(self) -> int:
        """The degree of the root's summary polynomial: the most features on a path, at most D."""
        return self.d[0]

    def is_leaf(self, node: int) -> bool:
        return self.left[node] < 0

    def goes_left(self, node: int, rows: Float64) -> npt.NDArray[np.bool_]:
        return self.ensemble.goes_left(self.first + node, rows[:, self.ensemble.feature[self.first + node]])

    def _walk_down(self) -> list[int]:
        """Fill in what depends on the path from the root; return the nodes, parents first."""
        order = []
        pending: list[tuple[int, dict[int, int]]] = [(0, {})]
        while pending:
            node, last_edge = pending.pop()
            order.append(node)
            _check_degree(self.index, len(last_edge))
            if self.is_leaf(node):
                self.d[node] = len(last_edge)
                continue
            feature = int(self.ensemble.feature[self.first + node])
            for child in (self.left[node], self.right[node]):
                self.feature[child], self.above[child] = feature, last_edge.get(feature, BOTTOM)
                pending.append((child, {**last_edge, feature: child}))
        return order


@dataclass(frozen=True)
class DecisionRule:
    """The rule ``R^v`` of a leaf as rows meet it: ``R_A = R_∅ · Π_{j ∈ A} q_j``."""

    leaf: int  # v
    R_empty: Float64  # (width,)
    q: dict[int, Float64]  # by feature, (n_rows,) each

    @cached_property
    def summary_polynomial(self) -> Float64:
        """(n_rows, width, degree + 1) coefficients of ``G_v = R_∅ · Π_j (q_j + y)``."""
        n_rows = len(next(iter(self.q.values()), np.ones(1)))
        G = np.tile(self.R_empty[None, :, None], (n_rows, 1, 1))
        for q in self.q.values():
            G = multiply(G, q[:, None])
        return G

    def shapley_value(self, feature: int) -> Float64:
        """(n_rows, width) ``φ(R^v, i) = (q_i - 1) · ψ(G_v / (q_i + y))``, for a feature of the rule."""
        q = self.q[feature][:, None]
        return (q - 1) * psi(floor_divide(self.summary_polynomial, q))


def decision_rules(tree: Tree, rows: Float64) -> Iterator[DecisionRule]:
    """The rules whose sum is the tree, one for each leaf."""
    pending: list[tuple[int, dict[int, Float64]]] = [(0, {})]
    while pending:
        node, q = pending.pop()
        if tree.is_leaf(node):
            yield DecisionRule(node, tree.R_empty[node], q)
            continue
        for child, satisfied in _children(tree, node, rows):
            feature = tree.feature[child]
            q_child = np.where(satisfied, q.get(feature, 1.0) / tree.w[child], 0.0)
            pending.append((child, {**q, feature: q_child}))


# -- the algorithms ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """An edge with the summary polynomial of the node at its lower end."""

    e: int
    p: Float64  # (n_rows, 1) p_e
    p_above: Float64  # (n_rows, 1) p_e↑
    G: Float64  # (n_rows, width, …) G_h(e)


def compute_summary_polynomials(tree: Tree, rows: Float64, polynomials: Polynomials) -> Iterator[Summary]:
    """Algorithm 1, ComputeSummaryPolynomials: top-down products, bottom-up ⊕.

    Each polynomial is handed out as soon as it is complete and kept no longer than its parent needs
    it. So reading this iterator to its end is the paper's single traversal, in O(D²) memory a row.
    """
    p = {BOTTOM: np.ones((len(rows), 1)), 0: np.ones((len(rows), 1))}
    C = {0: np.tile(polynomials.one(), (len(rows), 1, 1))}  # the product of y + p over the path
    G: dict[int, Float64] = {}
    pending = [(0, False)]
    while pending:
        node, children_done = pending.pop()
        if tree.is_leaf(node):
            G[node] = tree.R_empty[node][:, None] * C.pop(node)
        elif children_done:
            G[node] = np.zeros(())
            for child in (tree.left[node], tree.right[node]):
                G[node] = G[node] + polynomials.raise_degree(G.pop(child), tree.d[node] - tree.d[child])
        else:
            pending.append((node, True))
            product = C.pop(node)
            for child, satisfied in _children(tree, node, rows):
                above = tree.above[child]
                p[child] = np.where(satisfied[:, None], p[above] / tree.w[child], 0.0)
                # The old factor goes before the new one comes: a long product of 1/w would overflow.
                others = product if above == BOTTOM else polynomials.divide(product, p[above])
                C[child] = polynomials.multiply(others, p[child])
                pending.append((child, False))
            continue
        yield Summary(node, p.pop(node), p[tree.above[node]], G[node])


def aggregate_shapley(
    tree: Tree, summaries: Iterator[Summary], polynomials: Polynomials, phi: Float64
) -> None:
    """Algorithm 2, AggregateShapley: add the main theorem's two terms for every edge.

    ``phi``, of shape (n_rows, n_features, width), receives
    ``φ(f, i) = Σ_e (p_e - 1) ψ(⌊G / (y + p_e)⌋) - (p_e↑ - 1) ψ(⌊G (y + 1)^(d_e↑ - d_e) / (y + p_e↑)⌋)``
    over the edges e of feature i, with ``G = G_h(e)``.
    """
    for s in summaries:
        e, above = s.e, tree.above[s.e]
        if tree.feature[e] == BOTTOM:  # the root is below no edge
            continue
        quotient = polynomials.divide(s.G, s.p)
        phi[:, tree.feature[e]] += (s.p - 1) * polynomials.psi(quotient, tree.d[e] - 1)
        if above != BOTTOM:  # else p_e↑ - 1 = 0
            G = polynomials.raise_degree(s.G, tree.d[above] - tree.d[e])
            quotient = polynomials.divide(G, s.p_above)
            phi[:, tree.feature[e]] -= (s.p_above - 1) * polynomials.psi(quotient, tree.d[above] - 1)


def _children(tree: Tree, node: int, rows: Float64) -> list[tuple[int, npt.NDArray[np.bool_]]]:
    goes_left = tree.goes_left(node, rows)
    return [(tree.left[node], goes_left), (tree.right[node], ~goes_left)]


def _check_reach(ensemble: TreeEnsemble, nodes: slice) -> None:
    require_numbers(ensemble)
    unreached = ensemble.reach[nodes] < np.finfo(np.float64).tiny
    if unreached.any():
        node = (nodes.start or 0) + int(np.argmax(unreached))
        tree = ensemble.tree_of_node[node]
        raise ModelError(
            f"Tree {tree}, node {node - ensemble.tree_offsets[tree]}: {ensemble.reach[node]} of the cover "
            f"arrives here, and the published form of Linear TreeShap divides by this number. TreeExplainer "
            f"handles such trees."
        )


def _check_degree(tree: int, degree: int) -> None:
    if degree > _MOST_FEATURES:
        raise ModelError(
            f"Tree {tree} has a path that asks more than {_MOST_FEATURES:,} features, where nothing is left "
            f"of the digits of the published form of Linear TreeShap. TreeExplainer handles such trees."
        )


def _check_additivity(ensemble: TreeEnsemble, rows: Float64, phi: Float64) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        gap = np.abs(phi.sum(axis=1) + ensemble.expected_value - ensemble.predict(rows)).max(axis=1)
    allowed = _ADDITIVITY_TOLERANCE * ensemble.n_trees * float(np.abs(ensemble.value).max(initial=0))
    if not (gap <= allowed).all():  # written so that NaN is caught, too
        row = int(np.argmax(~(gap <= allowed)))
        raise AdditivityError(
            f"The values of row {row} miss its prediction by {gap[row]:.1e}: the published form has run "
            f"out of digits, as it does where a path meets many features. Use TreeExplainer, or pass "
            f"check_additivity=False to see the values all the same."
        )
