"""A row's values have the same bits whatever threads, cuts and neighbours it is explained with.

But for calls of very few rows, which are rounded in another order.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from engines import value_engine
from few_rows import FEW_ROWS
from strategies import chain, copies, random_ensemble, rows_as_read, symmetric_tree

from linear_treeshap import _core, oracle
from linear_treeshap.engines.values import ValueEngine, as_among_many
from linear_treeshap.model.ensemble import TreeEnsemble

Values = npt.NDArray[np.floating]

LARGE = "larger than a near cache"
#: Threads are called at 50,000 leaves · rows each, so most of these models have tens of thousands of leaves.
MODELS: dict[str, Callable[[np.random.Generator], TreeEnsemble]] = {
    "plain": lambda rng: copies(random_ensemble(rng, n_features=12, n_trees=20, max_leaves=60), 60),
    "float32": lambda rng: copies(random_ensemble(rng, n_features=9, n_trees=20, dtype="float32"), 100),
    "stumps": lambda rng: copies(random_ensemble(rng, n_trees=50, max_depth=1), 120),
    "single leaves": lambda rng: random_ensemble(rng, n_trees=7, max_depth=0),
    "few conditions": lambda rng: copies(random_ensemble(rng, n_features=2, n_trees=8, max_leaves=60), 80),
    "deep": lambda rng: copies(
        random_ensemble(rng, n_features=90, n_trees=8, max_depth=99, max_leaves=300, zero_cover=True), 12
    ),
    "wide": lambda rng: copies(random_ensemble(rng, n_features=2000, n_trees=20, max_leaves=60), 40),
    "an output per tree": lambda rng: copies(random_ensemble(rng, n_trees=20, n_outputs=7), 80),
    "19 outputs per leaf": lambda rng: copies(
        random_ensemble(rng, n_features=8, n_trees=20, n_outputs=19, vector_leaves=True), 15
    ),
    LARGE: lambda rng: copies(
        random_ensemble(rng, n_features=40, n_trees=20, max_depth=25, max_leaves=900), 8
    ),
}
#: 512 rows walk together; so many make two such walks, and the last one is not full.
MANY_ROWS = 600


def values(engine: ValueEngine, rows: Values, n_jobs: int, dtype: npt.DTypeLike = np.float64) -> Values:
    out = np.full((len(rows), engine.n_players, engine.n_outputs), np.nan, dtype=dtype)
    engine.values(rows, out, n_jobs=n_jobs)
    return out


def cut(rng: np.random.Generator, n_rows: int, least: int = 1) -> list[slice]:
    """Slices that make up all rows, some of them of as few rows as is allowed."""
    inner = rng.integers(n_rows // least, size=3) * least
    at = np.unique(np.concatenate([[0], inner, inner + least]))
    at = np.append(at[at + least <= n_rows], n_rows).tolist()
    return [slice(begin, end) for begin, end in pairwise(at)]


@pytest.mark.parametrize("kernel", _core.kernels())
@pytest.mark.parametrize("model", MODELS)
def test_bits_do_not_depend_on_threads_or_cuts(model: str, kernel: str) -> None:
    """Six to 600 rows, in one call or several, on one to eight threads, to float64 or float32."""
    rng = np.random.default_rng(len(model))
    ensemble = MODELS[model](rng)
    engine = value_engine(ensemble, kernel=kernel)
    least, most = FEW_ROWS + 1, MANY_ROWS
    all_rows = rows_as_read(rng, ensemble, most)
    whole = values(engine, all_rows, n_jobs=1)
    for n_rows in (most, least + int(rng.integers(20, 200)), least + int(rng.integers(1, 20)), least):
        first = int(rng.integers(most + 1 - n_rows))
        rows, expected = (a[first : first + n_rows] for a in (all_rows, whole))
        n_jobs = int(rng.integers(2, 9))
        assert values(engine, rows, n_jobs).tobytes() == expected.tobytes(), f"{n_jobs} threads"
        pieces = [values(engine, rows[part], int(rng.integers(1, 9))) for part in cut(rng, n_rows, least)]
        assert np.concatenate(pieces).tobytes() == expected.tobytes()
        single = values(engine, rows, n_jobs, np.float32)
        assert single.tobytes() == expected.astype(np.float32).tobytes()


@pytest.mark.parametrize("kernel", _core.kernels())
@pytest.mark.parametrize("model", MODELS)
def test_bits_of_batches_do_not_depend_on_cuts(model: str, kernel: str) -> None:
    """One row or hundreds, among those that are to have the bits of many."""
    rng = np.random.default_rng(len(model))
    ensemble = MODELS[model](rng)
    engine = value_engine(ensemble, kernel=kernel)
    rows = rows_as_read(rng, ensemble, MANY_ROWS)
    whole = values(engine, rows, n_jobs=1)
    with as_among_many():
        assert values(engine, rows, n_jobs=2).tobytes() == whole.tobytes()
        for n_rows in (1, FEW_ROWS, FEW_ROWS + 1, 70, 256):
            assert values(engine, rows[:n_rows], n_jobs=2).tobytes() == whole[:n_rows].tobytes()


@pytest.mark.parametrize("kernel", _core.kernels())
def test_very_deep_trees_take_any_number_of_blocks(kernel: str) -> None:
    """What is kept of their levels leaves room for a part of the rows that could walk together."""
    engine = value_engine(chain([i % 30 for i in range(400)], share=0.99), kernel=kernel)
    rows = np.random.default_rng(0).normal(size=(512, 30))
    whole = values(engine, rows, n_jobs=1)
    for n_rows in range(64, 512, 64):
        assert values(engine, rows[:n_rows], n_jobs=1).tobytes() == whole[:n_rows].tobytes()


@pytest.mark.parametrize("kernel", _core.kernels())
def test_bits_of_few_rows_do_not_depend_on_threads_or_cuts(kernel: str) -> None:
    """From 33 rows on; some calls leave a single row to the last block or to a thread."""
    rng = np.random.default_rng(len(kernel))
    ensemble = MODELS[LARGE](rng)
    engine = value_engine(ensemble, kernel=kernel)
    rows = rows_as_read(rng, ensemble, MANY_ROWS)
    whole = values(engine, rows, n_jobs=1)
    for n_rows in (FEW_ROWS + 1, 65, 129, 256, 257):
        for n_jobs in (1, 5):
            assert values(engine, rows[:n_rows], n_jobs).tobytes() == whole[:n_rows].tobytes()
    pieces = [
        values(engine, rows[part], int(rng.integers(1, 9))) for part in cut(rng, MANY_ROWS, FEW_ROWS + 1)
    ]
    assert np.concatenate(pieces).tobytes() == whole.tobytes()


@pytest.mark.parametrize("kernel", _core.kernels())
@pytest.mark.parametrize("model", MODELS)
def test_bits_of_very_few_rows_do_not_depend_on_threads_or_cuts(model: str, kernel: str) -> None:
    """Calls of few rows go one by one, more of them in lanes; and their values are those of many rows."""
    rng = np.random.default_rng(len(model))
    ensemble = MODELS[model](rng)
    engine = value_engine(ensemble, kernel=kernel)
    rows = rows_as_read(rng, ensemble, FEW_ROWS + 1)
    alone, in_lanes = (
        np.concatenate([values(engine, rows[i : i + n], n_jobs=1) for i in range(0, FEW_ROWS, n)])
        for n in (1, 8)
    )
    in_blocks = values(engine, rows, n_jobs=1)
    ways, most = [alone, in_lanes, in_blocks], 0
    for n_rows in range(1, FEW_ROWS + 1):
        found = values(engine, rows[:n_rows], n_jobs=1).tobytes()
        # Up to how many, depends on machine and model; and some models have the same bits in every way.
        taken = [way for way, few in enumerate(ways) if few[:n_rows].tobytes() == found and way >= most]
        assert taken, f"{n_rows} rows"
        most = taken[0]
        assert values(engine, rows[:n_rows], n_jobs=n_rows + 1).tobytes() == found
    for few in (alone, in_lanes):
        np.testing.assert_allclose(
            few, in_blocks[: len(few)], rtol=0, atol=1e-14 * np.abs(ensemble.value).max() * ensemble.n_trees
        )


@pytest.mark.parametrize("kernel", _core.kernels())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_few_rows_of_a_large_model_equal_the_definition(
    n_outputs: int, dtype: Literal["float32", "float64"], kernel: str
) -> None:
    """Missing values, categories, repeated players, splits without cover; on any number of threads."""
    rng = np.random.default_rng([n_outputs, len(kernel)])
    vectors: Any = {"n_outputs": n_outputs, "vector_leaves": n_outputs > 1}
    small = random_ensemble(
        rng, n_features=7, n_trees=4, max_depth=9, dtype=dtype, zero_cover=True, **vectors
    )
    times = 1_500_000 // (small.n_nodes * n_outputs)
    engine = value_engine(copies(small, times), kernel=kernel)
    rows = rows_as_read(rng, small, FEW_ROWS + 4)
    expected = times * np.array(
        [oracle.as_float(oracle.shapley_values(small, row, by="leaves")) for row in rows]
    )
    found = values(engine, rows, n_jobs=1)
    np.testing.assert_allclose(
        found, expected.reshape(found.shape), rtol=0, atol=1e-12 * np.abs(expected).max()
    )
    for n_jobs in (2, 5):
        assert values(engine, rows, n_jobs).tobytes() == found.tobytes()
    alone = np.concatenate([values(engine, rows[i : i + 1], n_jobs=1 + i % 2) for i in range(len(rows))])
    n_times = MANY_ROWS // len(rows)
    many = values(engine, np.repeat(rows, n_times, axis=0), n_jobs=1)[::n_times]
    assert many.tobytes() == found.tobytes()
    assert alone.tobytes() != found.tobytes(), "the model may be too small"
    in_lanes = values(engine, rows[:FEW_ROWS], n_jobs=2)
    for few in (alone, in_lanes):
        np.testing.assert_allclose(few, found[: len(few)], rtol=0, atol=1e-13 * np.abs(found).max())


@pytest.mark.parametrize("kernel", _core.kernels())
def test_tables_too_large_to_keep_are_walked_by_few_rows_and_made_for_others(kernel: str) -> None:
    """Trees of 128 outcomes each; both ways give what the definition says."""
    rng = np.random.default_rng(5)
    small, times = symmetric_tree(rng, 7, 7), 5_000
    engine = value_engine(copies(small, times), kernel=kernel)
    rows = rows_as_read(rng, small, 8)
    expected = np.array([oracle.as_float(oracle.shapley_values(small, row, by="leaves")) for row in rows])
    expected = times * expected.reshape(len(rows), small.n_features, 1)
    n_times = MANY_ROWS // len(rows)
    for found in (
        values(engine, rows[:1], n_jobs=1),
        values(engine, rows, n_jobs=2),
        values(engine, np.repeat(rows, n_times, axis=0), n_jobs=2)[::n_times],
    ):
        np.testing.assert_allclose(found, expected[: len(found)], rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("kernel", _core.kernels())
@pytest.mark.parametrize("features", [[0, 1, 0, 2, 1, 0], [0, 1, 2]])
def test_a_large_model_keeps_its_digits_where_rare_leaves_are_huge(features: list[int], kernel: str) -> None:
    """Players with an absent weight of 1e-9, repeated or in a clean bottom; leaves as huge as rare."""
    small = chain(features, share=1e-3)
    rare = dataclasses.replace(small, value=small.value / np.maximum(small.reach, 1e-30)[:, None])
    times = 150_000
    engine = value_engine(copies(rare, times), kernel=kernel)
    rows = np.array(list(itertools.product([-1.0, 1.0], repeat=3)))
    exact = [oracle.as_float(oracle.shapley_values(rare, row)) for row in rows]
    expected = np.array(exact).reshape(len(rows), -1)
    rows, expected = np.tile(rows, (3, 1)), np.tile(expected, (3, 1))
    for n_rows in (1, FEW_ROWS, len(rows)):
        found = values(engine, rows[:n_rows], n_jobs=1)[:, :, 0] / times
        np.testing.assert_allclose(found, expected[:n_rows], rtol=0, atol=1e-13 * np.abs(expected).max())
