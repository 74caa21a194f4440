"""The compiled kernels against the definition: every feature of every row, on every instruction set."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from engines import value_engine
from few_rows import FEW_ROWS
from settings import SETTINGS, assert_equal
from strategies import chain, random_ensemble, random_rows, rows_as_read, symmetric_tree

from linear_treeshap import _core, oracle, paper
from linear_treeshap.model.ensemble import TreeEnsemble
from linear_treeshap.model.row_format import RowFormat

Float64 = npt.NDArray[np.float64]

KERNELS = _core.kernels()

#: One to three trees each: a dozen settings of these make well over 1,000 trees per run.
N_ENSEMBLES = 60


def explain(ensemble: TreeEnsemble, rows: npt.ArrayLike, kernel: str | None = None) -> Float64:
    X = np.ascontiguousarray(np.asarray(rows), dtype=ensemble.row_format.numpy_dtype)
    out = np.empty((len(X), ensemble.n_features, ensemble.n_outputs))
    value_engine(ensemble, kernel=kernel).values(X, out, n_jobs=1)
    return out


def exact(ensemble: TreeEnsemble, rows: npt.ArrayLike) -> Float64:
    values = [oracle.shapley_values(ensemble, x, by="leaves") for x in np.asarray(rows)]
    return np.array([oracle.as_float(exact_values) for exact_values in values])


@pytest.mark.parametrize("setting", SETTINGS)
def test_equals_the_definition(setting: str) -> None:
    """Random trees, rows on and around thresholds, missing values, infinities, unknown categories."""
    rng = np.random.default_rng(sum(map(ord, setting)))
    for case in range(N_ENSEMBLES):
        ensemble = random_ensemble(rng, **{"n_trees": int(rng.integers(1, 4)), **SETTINGS[setting]})
        rows = rows_as_read(rng, ensemble, 3)
        expected = exact(ensemble, rows)
        for kernel in KERNELS:
            for n_rows in (1, len(rows), FEW_ROWS + 1):  # one by one, in lanes and in blocks
                found = explain(ensemble, np.resize(rows, (n_rows, ensemble.n_features)), kernel)
                right = np.resize(expected, (n_rows, *expected.shape[1:]))
                assert_equal(found, right, ensemble, f"({kernel}, case {case}, {n_rows} rows)")


@pytest.mark.parametrize("setting", [{}, {"n_outputs": 3, "vector_leaves": True}, {"zero_cover": True}])
def test_leaves_that_are_walked_to_apart_equal_the_definition(setting: dict[str, Any]) -> None:
    """Where some paths have a few players and others thirty, blocks of rows walk a tree more than once."""
    rng = np.random.default_rng(11)
    for case in range(8):
        ensemble = random_ensemble(rng, n_features=40, n_trees=1, max_depth=40, max_leaves=150, **setting)
        rows = rows_as_read(rng, ensemble, 2)
        right = np.resize(exact(ensemble, rows), (FEW_ROWS + 1, ensemble.n_features, ensemble.n_outputs))
        for kernel in KERNELS:
            found = explain(ensemble, np.resize(rows, (FEW_ROWS + 1, ensemble.n_features)), kernel)
            assert_equal(found, right, ensemble, f"({kernel}, case {case})")


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("n_features", [8, 100])
def test_longest_paths_of_every_length(n_features: int, n_outputs: int) -> None:
    """Of an odd and of an even number of players, which are all new, or some of them repeated: blocks of rows
    take as many points for both, where leading coefficients give the rest."""
    rng = np.random.default_rng(13)
    for depth in range(1, 15):
        ensemble = random_ensemble(
            rng,
            n_features=n_features,
            n_trees=3,
            max_depth=depth,
            max_leaves=100,
            n_outputs=n_outputs,
            vector_leaves=True,
        )
        rows = rows_as_read(rng, ensemble, 2)
        right = np.resize(exact(ensemble, rows), (FEW_ROWS + 1, ensemble.n_features, ensemble.n_outputs))
        for kernel in KERNELS:
            found = explain(ensemble, np.resize(rows, (FEW_ROWS + 1, ensemble.n_features)), kernel)
            assert_equal(found, right, ensemble, f"({kernel}, depth {depth})")


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("features", [[0, 1, 0, 2], [0, 0, 1, 0], [0, 0, 0, 0, 1]])
@pytest.mark.parametrize("share", [1e-11, 1e-13, 1e-30, 1e-46, 1e-60])
def test_hardly_any_cover_above_a_repeated_player(features: list[int], share: float, kernel: str) -> None:
    """At 0 there is a division by its share, which must not be too small."""
    ensemble = chain(features, share=share)
    rows = np.array(list(itertools.product([-1.0, 1.0], repeat=ensemble.n_features)))
    right = exact(ensemble, rows)
    found = explain(ensemble, np.resize(rows, (FEW_ROWS + 1, ensemble.n_features)), kernel)
    assert_equal(found, np.resize(right, found.shape), ensemble)


@pytest.mark.parametrize("kernel", KERNELS)
def test_parts_of_a_large_tree_are_walked_to_apart(kernel: str) -> None:
    """Where another part begins is a leaf of no value, whatever walk meets it; few rows walk but once."""
    rng = np.random.default_rng(12)
    ensemble = random_ensemble(rng, n_features=40, n_trees=1, max_depth=60, max_leaves=40_000)
    assert ensemble.n_leaves > 8_192
    rows = random_rows(rng, ensemble, FEW_ROWS + 1)
    alone = np.concatenate([explain(ensemble, row[None], kernel) for row in rows])
    assert np.abs(explain(ensemble, rows, kernel) - alone).max() <= 1e-14 * np.abs(ensemble.value).max()


@pytest.mark.parametrize("form", ["interpolation", "coefficients"])
def test_equals_the_papers_algorithm(form: Any) -> None:
    """The engine runs the paper's theorem at other points, so it must give the paper's numbers."""
    rng = np.random.default_rng(7)
    for _ in range(40):
        ensemble = random_ensemble(rng, n_trees=3, max_depth=6)
        rows = random_rows(rng, ensemble, 100)
        published = paper.linear_tree_shap(ensemble, rows, form=form)
        # The published form itself loses a digit or two where covers are very uneven.
        scale = np.abs(ensemble.value).max()
        assert np.abs(explain(ensemble, rows) - published).max() <= 1e-10 * scale


def test_kernels_agree() -> None:
    """All instruction sets give the same values to 1e-12 on trees of every shape, for 200 rows."""
    rng = np.random.default_rng(3)
    for dtype in ("float32", "float64"):
        ensemble = random_ensemble(
            rng, n_features=12, n_trees=30, max_depth=14, max_leaves=200, n_outputs=2, dtype=dtype
        )
        rows = random_rows(rng, ensemble, 200)
        with np.errstate(over="ignore"):
            answers = [explain(ensemble, rows.astype(dtype), kernel) for kernel in KERNELS]
        for answer in answers[1:]:
            assert_equal(answer, answers[0], ensemble)


@pytest.mark.parametrize("features", [range(1000), [0] * 1000, [i % 7 for i in range(1000)]])
def test_a_chain_of_depth_1000_is_additive(features: Any) -> None:
    """No recursion, no overflow: a thousand players on a path, or one asked a thousand times."""
    ensemble = chain(list(features), share=0.99)
    rows = np.where(np.random.default_rng(0).random((9, ensemble.n_features)) < 0.99, -1.0, 1.0)
    values = explain(ensemble, rows)
    assert np.isfinite(values).all()
    assert np.abs(values.sum(axis=1) + ensemble.expected_value - ensemble.predict(rows)).max() < 1e-9


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_few_rows_have_the_values_they_have_among_many(setting: str, kernel: str) -> None:
    """They are walked in ways of their own, to 1e-14 of the largest leaf value for each tree; and with the
    same bits beside others."""
    rng = np.random.default_rng(7)
    larger = {"n_features": 9, "n_trees": 20, "max_depth": 12, "max_leaves": 80}
    ensembles = [random_ensemble(rng, **{**larger, **SETTINGS[setting]})]
    ensembles.append(symmetric_tree(rng, 7, 7))
    for ensemble in ensembles:
        rows = rows_as_read(rng, ensemble, 20)
        alone = np.concatenate([explain(ensemble, row[None], kernel) for row in rows])
        scale = ensemble.n_trees * np.abs(ensemble.value).max()
        many, few = explain(ensemble, rows, kernel), explain(ensemble, rows[:FEW_ROWS], kernel)
        assert np.abs(alone - many).max() <= 1e-14 * scale
        assert np.abs(few - many[:FEW_ROWS]).max() <= 1e-14 * scale
        assert explain(ensemble, rows[2:FEW_ROWS], kernel).tobytes() == few[2:].tobytes()


#: At the ends of words, of what a register holds (256, 512), of what is kept as bits (2^20), of what float32
#: tells apart (2^24), and of all codes.
CODES = [
    0,
    1,
    31,
    32,
    255,
    256,
    511,
    512,
    2**20 - 1,
    2**20,
    2**20 + 1,
    2**24 - 1,
    2**24,
    2**24 + 1,
    2**31 - 2,
    2**31 - 1,
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("largest", [32, 255, 256, 511, 512, 2**20, 2**20 + 1, 2**31 - 1])
def test_category_codes_of_any_size(largest: int, dtype: Literal["float32", "float64"]) -> None:
    """Sets are bits or sorted lists; what is no code is in no set, however large."""
    codes = [code for code in CODES[::2] + CODES[-1:] if code <= largest]
    ensemble = replace(
        chain([0, 1, 0]),
        category_set=np.array([0, -1, 1, -1, 2, -1, -1]),
        category_offsets=np.array([0, len(codes), len(codes) + 1, len(codes) + 1]),  # the last one is empty
        category_codes=np.array([*codes, largest], dtype=np.int32),
        missing_left=np.array([True, False, False, False, True, False, False]),
        row_format=RowFormat(n_features=2, dtype=dtype),
    )
    numbers = np.array(
        [*CODES, -1, -0.5, -0.0, 0.5, 31.9, 255.5, 511.9, 2**31, 2**32, 2**63, 1e30, np.inf, -np.inf, np.nan]
    )
    rows = np.stack([numbers, numbers[::-1]], axis=1).astype(dtype)
    expected = exact(ensemble, rows)
    for kernel in KERNELS:
        assert_equal(explain(ensemble, rows, kernel), expected, ensemble, kernel)
        alone = np.concatenate([explain(ensemble, row[None], kernel) for row in rows])
        assert_equal(alone, expected, ensemble, kernel)


def test_symmetric_trees_become_tables() -> None:
    """Trees with few distinct conditions take another road; it must lead to the same place."""
    rng = np.random.default_rng(5)
    for depth, n_features in ((6, 6), (6, 3), (7, 7), (8, 8), (8, 4)):
        ensemble = symmetric_tree(rng, depth, n_features)
        rows = rng.normal(size=(2, n_features))
        for kernel in KERNELS:
            assert_equal(explain(ensemble, rows, kernel), exact(ensemble, rows), ensemble, f"({kernel})")
