"""The paper's algorithms against the oracle, and its lemmas and propositions one by one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interrupts import interrupt
from strategies import chain, copies, random_ensemble, random_rows

from linear_treeshap import TreeExplainer, oracle, paper
from linear_treeshap.errors import AdditivityError, InputError, ModelError
from linear_treeshap.importers import import_model
from linear_treeshap.model.ensemble import TreeEnsemble
from linear_treeshap.model.row_format import RowFormat

Float64 = npt.NDArray[np.float64]
Form = Literal["interpolation", "coefficients", "compiled"]
FORMS: tuple[Form, ...] = ("interpolation", "coefficients", "compiled")

coefficients = st.lists(st.floats(-10, 10), min_size=1, max_size=9).map(np.array)
#: p of an edge: 0 if the row does not satisfy it, else a product of 1/w.
edge_products = st.one_of(st.just(0.0), st.floats(1, 1e6))


def published(
    ensemble: TreeEnsemble, rows: npt.ArrayLike, form: Form, *, check_additivity: bool = True
) -> Float64:
    """By NumPy in one of its two forms, or compiled."""
    if form == "compiled":
        return paper.LinearTreeShap(ensemble).values(rows, check_additivity=check_additivity)
    return paper.linear_tree_shap(ensemble, rows, form=form, check_additivity=check_additivity)


def exact_values(ensemble: TreeEnsemble, rows: Float64) -> Float64:
    return np.array([oracle.as_float(oracle.shapley_values(ensemble, x, by="leaves")) for x in rows])


def weather() -> TreeEnsemble:
    """The paper's worked example, figure 1: temperature, then cloudy, then wind speed, a chain.

    Up to 19 degrees is leaf D, 0.5 of rain, with half the cover. Warmer and cloudy is leaf A, 0.7, with 0.6
    of the rest. Not cloudy asks the wind: up to 8 is leaf C, 0.4, with 0.7; above is leaf B, 0.6, with 0.3.
    """
    return TreeEnsemble(
        tree_offsets=np.array([0, 7]),
        left=np.array([1, -1, 3, 5, -1, -1, -1], dtype=np.int32),
        right=np.array([2, -1, 4, 6, -1, -1, -1], dtype=np.int32),
        feature=np.array([0, -1, 1, 2, -1, -1, -1], dtype=np.int32),
        threshold=np.array([19, 0, 0.5, 8, 0, 0, 0], dtype=np.float64),
        cover=np.array([100, 50, 50, 20, 30, 14, 6], dtype=np.float64),
        value=np.array([[0], [0.5], [0], [0], [0.7], [0.4], [0.6]]),
        base_values=np.zeros(1),
        row_format=RowFormat(n_features=3, feature_names=("temperature", "cloudy", "wind speed")),
    )


class TestWorkedExample:
    """x = (20 degrees, not cloudy, wind 6) reaches leaf C; what the paper says on the way."""

    x = (20.0, 0.0, 6.0)
    TEMPERATURE, CLOUDY, WIND = range(3)
    #: The float64 numbers nearest to the leaf values, which are what the tree holds.
    A, B, C, D = map(Fraction, (0.7, 0.6, 0.4, 0.5))
    #: Leaf → R_∅ and q of each feature of its rule.
    RULES: ClassVar[dict[str, tuple[float, dict[int, float]]]] = {
        "A": (0.7 * 0.5 * 0.6, {TEMPERATURE: 1 / 0.5, CLOUDY: 0}),
        "B": (0.6 * 0.5 * 0.4 * 0.3, {TEMPERATURE: 1 / 0.5, CLOUDY: 1 / 0.4, WIND: 0}),
        "C": (0.4 * 0.5 * 0.4 * 0.7, {TEMPERATURE: 1 / 0.5, CLOUDY: 1 / 0.4, WIND: 1 / 0.7}),
        "D": (0.5 * 0.5, {TEMPERATURE: 0}),
    }

    def f(self, known: Collection[int]) -> Fraction:
        """By hand, in fractions: a node that splits on an unknown feature sends the row both ways."""
        wind = self.C if self.WIND in known else Fraction(7, 10) * self.C + Fraction(3, 10) * self.B
        cloudy = wind if self.CLOUDY in known else Fraction(2, 5) * wind + Fraction(3, 5) * self.A
        return cloudy if self.TEMPERATURE in known else (self.D + cloudy) / 2

    def expected(self) -> list[Fraction]:
        """The paper's first equation, for temperature, cloudy and wind speed."""
        values = []
        for i in range(3):
            j, k = (feature for feature in range(3) if feature != i)
            alone, last = self.f({i}) - self.f({}), self.f({i, j, k}) - self.f({j, k})
            between = self.f({i, j}) - self.f({j}) + self.f({i, k}) - self.f({k})
            values.append((last + between / 2 + alone) / 3)
        return values

    def rules(self) -> dict[str, paper.DecisionRule]:
        """By the letter of the leaf, which is its value."""
        letter = {0.7: "A", 0.6: "B", 0.4: "C", 0.5: "D"}
        tree = paper.Tree(weather(), 0)
        return {
            letter[float(tree.ensemble.value[rule.leaf, 0])]: rule
            for rule in paper.decision_rules(tree, np.array([self.x]))
        }

    @pytest.mark.parametrize(
        ("known", "value"),
        [
            ((), 0.552),
            ((TEMPERATURE,), 0.604),
            ((CLOUDY,), 0.48),
            ((WIND,), 0.54),
            ((TEMPERATURE, CLOUDY), 0.46),
            ((TEMPERATURE, WIND), 0.58),
            ((CLOUDY, WIND), 0.45),  # the paper's 0.5·D + 0.5·C
            ((TEMPERATURE, CLOUDY, WIND), 0.4),
        ],
        ids=str,
    )
    def test_every_coalition_by_hand_by_the_oracle_and_by_the_rules(
        self, known: tuple[int, ...], value: float
    ) -> None:
        """f_S is the sum over the rules of R_∅ times q of the known features.

        0.7, 0.6 and 0.4 are no float64 numbers: what is made of the nearest ones is off by up to 2e-16.
        """
        exact = self.f(known)
        assert float(exact) == pytest.approx(value, abs=2e-16)
        assert oracle.coalition_value(weather(), self.x, known).tolist() == [exact]
        by_rules = sum(
            R_empty * float(np.prod([q.get(feature, 1) for feature in known]))
            for R_empty, q in self.RULES.values()
        )
        assert by_rules == pytest.approx(value, abs=2e-16)

    def test_without_the_temperature_it_is_half_d_and_half_c(self) -> None:
        """In the paper's words: f({cloudy, wind speed}) = 0.5·D + 0.5·C."""
        assert self.f({self.CLOUDY, self.WIND}) == Fraction(1, 2) * self.D + Fraction(1, 2) * self.C

    def test_the_tree_is_four_rules(self) -> None:
        """R^A to R^D as the paper lists them: their conditions, and their values without any feature."""
        rules = self.rules()
        assert rules.keys() == self.RULES.keys()
        for letter, (R_empty, q) in self.RULES.items():
            np.testing.assert_allclose(rules[letter].R_empty, [R_empty], rtol=1e-15)
            assert rules[letter].q.keys() == q.keys()
            for feature, factor in q.items():
                np.testing.assert_allclose(rules[letter].q[feature], [factor], rtol=1e-15)

    def test_summary_polynomials_of_degree_one_two_and_three(self) -> None:
        """G_C = 0.056·(2 + y)(5/2 + y)(10/7 + y), and so on; a feature not satisfied is a factor y."""
        G = {letter: rule.summary_polynomial[0, 0] for letter, rule in self.rules().items()}
        np.testing.assert_allclose(G["D"], [0, 0.25], rtol=1e-15)
        np.testing.assert_allclose(G["A"], [0, 0.42, 0.21], rtol=1e-15)
        np.testing.assert_allclose(G["B"], [0, 0.18, 0.162, 0.036], rtol=1e-14)
        np.testing.assert_allclose(G["C"], [0.4, 0.64, 0.332, 0.056], rtol=1e-14)

    def test_circled_sums_bring_them_to_one_degree(self) -> None:
        """C ⊕ B is a plain sum; A is raised by 1 + y, D by (1 + y)², to degree 3 of the root.

        At y = 0 a summary polynomial is the prediction (everybody known), and its highest coefficient is
        what is expected when nobody is.
        """
        G = {letter: rule.summary_polynomial[0, 0] for letter, rule in self.rules().items()}
        below_wind = paper.oplus(G["C"], G["B"])
        np.testing.assert_array_equal(below_wind, G["C"] + G["B"])
        below_cloudy = paper.oplus(below_wind, G["A"])
        np.testing.assert_allclose(below_cloudy, below_wind + np.array([0, 0.42, 0.63, 0.21]), rtol=1e-15)
        root = paper.oplus(below_cloudy, G["D"])
        np.testing.assert_allclose(root, below_cloudy + np.array([0, 0.25, 0.5, 0.25]), rtol=1e-15)
        np.testing.assert_allclose(root[[0, -1]], [0.4, 0.552], rtol=1e-15)
        *_, summary = paper.compute_summary_polynomials(
            paper.Tree(weather(), 0), np.array([self.x]), paper.Coefficients()
        )
        np.testing.assert_allclose(summary.G[0, 0], root, rtol=1e-15)

    def test_oracle_gives_the_fractions(self) -> None:
        """Both roads, without any rounding."""
        for by in ("definition", "leaves"):
            assert oracle.shapley_values(weather(), self.x, by=by)[:, 0].tolist() == self.expected()

    def test_values_are_the_decimals_on_paper(self) -> None:
        """0.004, -0.123 and -0.033 are what 0.4 - 0.552 is made of."""
        assert [round(float(value), 15) for value in self.expected()] == [0.004, -0.123, -0.033]
        assert weather().expected_value == pytest.approx([0.552], abs=2e-16)
        assert weather().predict([self.x]).tolist() == [[0.4]]

    @pytest.mark.parametrize("form", FORMS)
    def test_all_forms_agree_to_the_last_digit(self, form: Form) -> None:
        """Within four roundings of the largest leaf value, of 1.1e-16 each."""
        values = published(weather(), [self.x], form)[0, :, 0]
        np.testing.assert_allclose(values, [0.004, -0.123, -0.033], rtol=0, atol=4.5e-16)


class TestPsi:
    """Section 3: the inner product with reciprocal binomials."""

    @settings(deadline=None, derandomize=True)
    @given(coefficients, st.floats(-10, 10), st.integers(0, 2**32 - 1))
    def test_is_additive_at_equal_degree(self, A: Float64, scale: float, seed: int) -> None:
        """ψ(sA + B) = sψ(A) + ψ(B)."""
        B = np.random.default_rng(seed).normal(size=len(A))
        together = paper.psi(scale * A + B)
        assert together == pytest.approx(scale * paper.psi(A) + paper.psi(B), abs=1e-12)

    @settings(deadline=None, derandomize=True)
    @given(coefficients, st.integers(0, 6))
    def test_is_invariant_to_factors_of_one_plus_y(self, A: Float64, k: int) -> None:
        """ψ(A·(1 + y)^k) = ψ(A): a feature that changes nothing changes nothing."""
        assert paper.psi(paper.raise_degree(A, k)) == pytest.approx(paper.psi(A), abs=1e-12)

    @settings(deadline=None, derandomize=True)
    @given(coefficients, coefficients)
    def test_of_a_circled_sum_is_the_sum(self, A: Float64, B: Float64) -> None:
        """ψ(A ⊕ B) = ψ(A) + ψ(B) at any two degrees."""
        assert paper.psi(paper.oplus(A, B)) == pytest.approx(paper.psi(A) + paper.psi(B), abs=1e-12)

    def test_holds_the_weights_of_the_shapley_value(self) -> None:
        """The coefficient of y^k in ψ_d is the weight of a coalition of d - k out of d players."""
        for d in range(12):
            weights = [float(oracle.shapley_weight(d - k, d)) for k in range(d + 1)]
            np.testing.assert_allclose(paper.reciprocal_binomial(d) / (d + 1), weights, rtol=1e-15)

    @settings(deadline=None, derandomize=True)
    @given(coefficients)
    def test_by_points_is_psi_by_coefficients(self, A: Float64) -> None:
        """N_d reads ψ from values; it loses about four bits at degree 8, hence 1e-12."""
        points = paper.Interpolation(len(A))
        values = np.vander(points.Y, len(A), increasing=True) @ A
        assert points.psi(values, len(A) - 1) == pytest.approx(paper.psi(A), abs=1e-12)


class TestPolynomials:
    """The operations ⊕, multiplication and ⌊division⌋."""

    @settings(deadline=None, derandomize=True)
    @given(coefficients, coefficients, coefficients)
    def test_circled_sum_is_associative_and_commutative(self, A: Float64, B: Float64, C: Float64) -> None:
        """So that the order in which leaves are gathered does not matter."""
        np.testing.assert_allclose(paper.oplus(A, B), paper.oplus(B, A), rtol=0, atol=0)
        left, right = paper.oplus(paper.oplus(A, B), C), paper.oplus(A, paper.oplus(B, C))
        # Binomials up to C(8, 4) = 70 times coefficients up to 10, times three.
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-12)

    @settings(deadline=None, derandomize=True)
    @given(coefficients, edge_products)
    def test_division_undoes_multiplication(self, A: Float64, p: float) -> None:
        """Whatever p is: 0, 1, or a million."""
        product = paper.multiply(A, np.array(p))
        np.testing.assert_allclose(paper.floor_divide(product, np.array(p)), A, rtol=0, atol=1e-12)

    @settings(deadline=None, derandomize=True)
    @given(coefficients, st.integers(0, 2**32 - 1), edge_products)
    def test_division_is_linear_where_it_leaves_a_remainder(self, A: Float64, seed: int, p: float) -> None:
        """⌊A / (y + p)⌋ + ⌊B / (y + p)⌋ = ⌊(A + B) / (y + p)⌋: all that the main theorem asks of it."""
        B = np.random.default_rng(seed).normal(size=len(A))
        apart = paper.floor_divide(A, np.array(p)) + paper.floor_divide(B, np.array(p))
        np.testing.assert_allclose(apart, paper.floor_divide(A + B, np.array(p)), rtol=0, atol=1e-12)

    @pytest.mark.parametrize("D", range(1, 40))
    def test_points_avoid_the_roots(self, D: int) -> None:
        """No point is 0 or -1, the roots of y + p for p = 0 and p = 1, and there are at least D."""
        Y = paper.Interpolation(D).Y
        assert len(Y) >= D
        assert (np.abs(Y) > 0.01).all()
        assert (Y > -1).all()


def generated(seed: int, n_rows: int = 2) -> tuple[TreeEnsemble, Float64]:
    rng = np.random.default_rng(seed)
    ensemble = random_ensemble(
        rng,
        n_features=int(rng.integers(1, 9)),
        max_depth=8,
        n_outputs=int(rng.integers(1, 4)),
        vector_leaves=bool(rng.integers(2)),
        dtype="float32" if seed % 2 else "float64",
    )
    return ensemble, random_rows(rng, ensemble, n_rows)


@pytest.mark.parametrize("seeds", [range(start, start + 50) for start in range(0, 500, 50)], ids=str)
def test_all_forms_equal_the_definition(seeds: range) -> None:
    """The main theorem: 1e-12 of the largest leaf value on trees of depth up to 8; 1e-14 was measured."""
    for seed in seeds:
        ensemble, rows = generated(seed)
        expected = exact_values(ensemble, rows)
        for form in FORMS:
            values = published(ensemble, rows, form)
            error = np.abs(values - expected).max() / np.abs(ensemble.value).max()
            assert error < 1e-12, f"{form}, seed {seed}: {error:.1e}"


@pytest.mark.parametrize("seed", range(20))
def test_a_tree_is_the_sum_of_its_rules(seed: int) -> None:
    """φ(R, i) = (q - 1)·ψ(G / (q + y)), summed over the leaves, is the tree's Shapley value."""
    ensemble, rows = generated(seed)
    values = np.zeros((len(rows), ensemble.n_features, ensemble.n_outputs))
    for index in range(ensemble.n_trees):
        tree = paper.Tree(ensemble, index)
        for rule in paper.decision_rules(tree, ensemble.cast_rows(rows)):
            for feature in rule.q:
                values[:, feature, tree.outputs] += rule.shapley_value(feature)
    np.testing.assert_allclose(values, exact_values(ensemble, rows), rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_a_rule_of_the_present_features_is_the_product_of_their_q(seed: int) -> None:
    """With everybody present, R_∅·Π q over all rules is the prediction; with nobody, R_∅ alone."""
    ensemble, rows = generated(seed)
    numbers = ensemble.cast_rows(rows)
    present, absent = np.tile(ensemble.base_values, (2, len(rows), 1))
    for index in range(ensemble.n_trees):
        tree = paper.Tree(ensemble, index)
        for rule in paper.decision_rules(tree, numbers):
            factor = np.prod([np.ones(len(rows)), *rule.q.values()], axis=0)
            present[:, tree.outputs] += rule.R_empty * factor[:, None]
            absent[:, tree.outputs] += rule.R_empty
    np.testing.assert_allclose(present, ensemble.predict(rows), rtol=0, atol=1e-12)
    np.testing.assert_allclose(absent[0], ensemble.expected_value, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_the_root_summarises_all_rules(seed: int) -> None:
    """G_root is the ⊕ of the leaves' polynomials, whatever order Algorithm 1 gathers them in."""
    ensemble, rows = generated(seed, n_rows=3)
    numbers = ensemble.cast_rows(rows)
    for index in range(ensemble.n_trees):
        tree = paper.Tree(ensemble, index)
        *_, root = paper.compute_summary_polynomials(tree, numbers, paper.Coefficients())
        expected = np.zeros((len(rows), ensemble.width, 1))
        for rule in paper.decision_rules(tree, numbers):
            expected = paper.oplus(expected, rule.summary_polynomial)
        assert root.G.shape == expected.shape == (len(rows), ensemble.width, tree.degree + 1)
        np.testing.assert_allclose(root.G, expected, rtol=0, atol=1e-10)


def test_blocks_of_rows_do_not_show() -> None:
    """More rows than fit in a block are explained as if one by one."""
    ensemble, rows = generated(1, n_rows=20_000)
    together = paper.linear_tree_shap(ensemble, rows)
    some = [0, 1, 9_999, 19_999]
    np.testing.assert_allclose(
        together[some], paper.linear_tree_shap(ensemble, rows[some]), rtol=0, atol=1e-14
    )


#: Largest error, against exact values, on a chain of d features of which the row satisfies all but
#: the last. Leaf values are 1 and -0.5, so an error of 1 means that no digit is left.
LOST_DIGITS: dict[int, dict[Form, float]] = {
    8: {"interpolation": 4e-14, "coefficients": 1e-16, "compiled": 1e-14},
    16: {"interpolation": 5e-10, "coefficients": 5e-16, "compiled": 6e-11},
    24: {"interpolation": 2e-6, "coefficients": 5e-14, "compiled": 9e-7},
    32: {"interpolation": 8e-2, "coefficients": 3e-12, "compiled": 3e-2},
    48: {"interpolation": 2e8, "coefficients": 2e-8, "compiled": 1e8},
    60: {"interpolation": 1e13, "coefficients": 1e-5, "compiled": 4e14},
}


@pytest.mark.parametrize("d", LOST_DIGITS)
def test_published_form_loses_digits_as_paths_meet_more_features(d: int) -> None:
    """The reason for the quadrature form: at 32 features a path, nothing is left of 16 digits.

    A factor of 1,000 either way leaves room for another linear solver. Should a form get better than
    that, the figures deserve to be told.
    """
    ensemble, x = chain(range(d), share=0.75), np.append(np.full(d - 1, -1.0), 1.0)[None]
    expected = exact_values(ensemble, x)
    for form, figure in LOST_DIGITS[d].items():
        values = published(ensemble, x, form, check_additivity=False)
        error = max(np.abs(values - expected).max(), 1e-17)
        assert figure / 1000 < error < figure * 1000, f"{form}: {error:.1e}"


@pytest.mark.parametrize(
    ("form", "d", "share"),
    [
        ("interpolation", 32, 0.5),
        ("compiled", 32, 0.5),
        ("coefficients", 100, 0.5),
        ("interpolation", 305, 0.1),
        ("compiled", 305, 0.1),
    ],
    ids=str,
)
def test_values_without_digits_are_refused(form: Form, d: int, share: float) -> None:
    """Rather than returned in silence, be they wrong, infinite or, at 305 features, not a number."""
    with pytest.raises(AdditivityError, match="row 0 miss its prediction by"):
        published(chain(range(d), share=share), -np.ones((1, d)), form)


@pytest.mark.parametrize("form", FORMS)
def test_a_thousand_questions_about_one_feature(form: Form) -> None:
    """Depth alone does no harm, nor does it meet a recursion limit: the degree is 1."""
    ensemble = chain([0] * 1000)
    rows = np.array([[-1.0], [1.0], [np.nan]])
    values = published(ensemble, rows, form)
    expected = ensemble.predict(rows) - ensemble.expected_value
    np.testing.assert_allclose(values[:, 0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_a_single_leaf_explains_nothing(form: Form) -> None:
    """A tree without a question gives every feature 0, in the right shape."""
    ensemble = random_ensemble(np.random.default_rng(0), n_features=3, max_depth=0, n_outputs=2)
    assert (published(ensemble, np.zeros((4, 3)), form) == np.zeros((4, 3, 2))).all()
    assert published(ensemble, np.zeros((0, 3)), form).shape == (0, 3, 2)
    no_columns = replace(ensemble, row_format=RowFormat(n_features=0))
    assert published(no_columns, np.zeros((4, 0)), form).shape == (4, 0, 2)


@pytest.mark.parametrize("form", FORMS)
def test_an_edge_without_cover_is_refused_by_name(form: Form) -> None:
    """The published form divides by w; the engine does not. Named is the tree, here the second."""
    chains = copies(chain([0, 1], share=[0.5, 0.25]), 2)
    emptied = replace(chains, cover=np.append(chains.cover[:-2], [0.5, 0]))
    with pytest.raises(ModelError, match=r"Tree 1, node 4: 0.0 of the cover arrives here.*TreeExplainer"):
        published(emptied, [[0.0, 0.0]], form)


@pytest.mark.parametrize("form", FORMS)
def test_below_a_root_without_cover_both_children_count_one_half(form: Form) -> None:
    """As everywhere else: some cover arrives at every node, so nothing is divided by zero."""
    stump = replace(chain([0]), cover=np.zeros(3))
    expected = exact_values(stump, np.array([[-1.0]]))
    np.testing.assert_allclose(published(stump, [[-1.0]], form), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("form", FORMS)
def test_a_path_of_more_than_a_thousand_features_is_refused(form: Form) -> None:
    """Before anything is computed: what ψ needs for 100,000 of them would not fit into memory."""
    with pytest.raises(ModelError, match=r"Tree 0 has a path .* more than 1,000 features.*TreeExplainer"):
        published(chain(range(1001), share=1 - 1e-9), -np.ones((1, 1001)), form)


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_any_layout_are_read_alike(form: Form) -> None:
    """Fortran's order, every second row, float32, lists."""
    ensemble, rows = generated(3, n_rows=6)
    expected = published(ensemble, rows, form)
    assert (published(ensemble, np.asfortranarray(rows), form) == expected).all()
    assert (published(ensemble, rows[::2], form) == expected[::2]).all()
    assert (published(ensemble, rows.tolist(), form) == expected).all()
    with np.errstate(over="ignore"):  # the model rounds them all the same
        narrow = rows.astype(ensemble.row_format.numpy_dtype)
    assert narrow.dtype == np.float32
    assert (published(ensemble, narrow, form) == expected).all()


@pytest.mark.parametrize("form", FORMS)
def test_wrong_rows_are_named(form: Form) -> None:
    with pytest.raises(InputError, match=r"shape \(n_rows, 1\), got \(1, 2\)"):
        published(chain([0]), [[0.0, 1.0]], form)
    with pytest.raises(InputError, match=r"shape \(n_rows, 1\), got \(1,\)"):
        published(chain([0]), [0.0], form)


def test_a_wrong_form_is_named() -> None:
    with pytest.raises(InputError, match="'interpolation' or 'coefficients', got 'fast'"):
        paper.linear_tree_shap(chain([0]), [[0.0]], form="fast")  # type: ignore[arg-type]


class TestCompiled:
    """What is special about the compiled form; all of the above is asked of it, too."""

    @pytest.mark.parametrize("seed", range(40))
    def test_gives_the_numbers_of_the_text(self, seed: int) -> None:
        """Both are off by what N_d loses at degree 8, some 1e-14 of the largest leaf value."""
        ensemble, rows = generated(seed, n_rows=30)
        values = paper.LinearTreeShap(ensemble).values(rows)
        text = paper.linear_tree_shap(ensemble, rows)
        np.testing.assert_allclose(values, text, rtol=0, atol=1e-12 * np.abs(ensemble.value).max())

    def test_keeps_the_digits_it_promises_on_a_trained_tree(self) -> None:
        """Nine at d = 16, on the paper's kind of tree; the coefficient form is off by 1e-15 there."""
        tree = pytest.importorskip("sklearn.tree")
        rng = np.random.default_rng(0)
        X = rng.normal(size=(4000, 40)).astype(np.float32)
        y = X @ rng.normal(size=40) + np.abs(X[:, :8]).sum(axis=1)
        ensemble = import_model(tree.DecisionTreeRegressor(max_depth=16, random_state=0).fit(X, y))
        forest, rows = paper.LinearTreeShap(ensemble), X[:20]
        assert forest._compiled.degrees == [paper.Tree(ensemble, 0).degree] == [16]
        expected = paper.linear_tree_shap(ensemble, rows, form="coefficients")
        assert np.abs(forest.values(rows) - expected).max() < 1e-8 * np.abs(expected).max()

    def test_rows_do_not_know_of_each_other(self) -> None:
        """The same bits alone as among others, and asked twice: nothing stays of the row before."""
        ensemble, rows = generated(1, n_rows=50)
        forest = paper.LinearTreeShap(ensemble)
        together = forest.values(rows)
        assert (forest.values(rows) == together).all()
        for row in (0, 7, 49):
            assert (forest.values(rows[row : row + 1]) == together[row : row + 1]).all()

    def test_a_chain_of_200_000_questions_needs_no_recursion(self) -> None:
        ensemble = chain([0, 1] * 100_000, share=1 - 1e-9)
        rows = np.array([[-1.0, -1.0], [-1.0, 1.0], [np.nan, 1.0]])
        values = paper.LinearTreeShap(ensemble).values(rows, check_additivity=False)
        expected = TreeExplainer(ensemble).shap_values(rows, check_additivity=False)[:, :, None]
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-9)

    def test_arrays_of_another_shape_do_not_pass_the_seam(self) -> None:
        """Python makes them right; should it ever not, nothing is written beyond their end."""
        compiled = paper.LinearTreeShap(chain([0, 1]))._compiled
        for rows, phi in [((2, 3), (2, 3, 1)), ((2, 2), (1, 2, 1)), ((2, 2), (2, 1, 1)), ((2, 2), (2, 2, 2))]:
            with pytest.raises(ValueError, match="wrong shape"):
                compiled.explain(np.zeros(rows), np.zeros(phi))

    def test_ctrl_c_interrupts(self) -> None:
        interrupt(
            LONG_FOREST,
            "forest.values(np.zeros((20_000, 20)), check_additivity=False)",
            "assert forest.values(np.zeros((1, 20))).shape == (1, 20, 1)",
        )


LONG_FOREST = """
from strategies import chain, copies
from linear_treeshap import paper
forest = paper.LinearTreeShap(copies(chain(range(20), share=0.9), 2000))
"""
