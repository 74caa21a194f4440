"""A row's values have the same bits whatever threads, cuts and neighbours it is explained with."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from engines import value_engine
from strategies import copies, random_ensemble, rows_as_read

from linear_treeshap import _core
from linear_treeshap.engines.values import ValueEngine
from linear_treeshap.model.ensemble import TreeEnsemble

Values = npt.NDArray[np.floating]

#: Threads start at 200,000 leaves · rows each, so most of these models have tens of thousands of leaves.
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
    "too large to keep expanded": lambda rng: copies(
        random_ensemble(rng, n_features=40, n_trees=20, max_depth=25, max_leaves=900), 8
    ),
}


def values(engine: ValueEngine, rows: Values, n_jobs: int, dtype: npt.DTypeLike = np.float64) -> Values:
    out = np.full((len(rows), engine.n_players, engine.n_outputs), np.nan, dtype=dtype)
    engine.values(rows, out, n_jobs=n_jobs)
    return out


def cut(rng: np.random.Generator, n_rows: int) -> list[slice]:
    """Slices that make up all rows, some of a single row."""
    inner = rng.integers(n_rows, size=3)
    at = np.unique(np.concatenate([[0, n_rows], inner, np.minimum(inner + 1, n_rows)])).tolist()
    return [slice(begin, end) for begin, end in pairwise(at)]


@pytest.mark.parametrize("kernel", _core.kernels())
@pytest.mark.parametrize("model", MODELS)
def test_bits_do_not_depend_on_threads_or_cuts(model: str, kernel: str) -> None:
    """One to 300 rows, in one call or several, on one to eight threads, to float64 or float32."""
    rng = np.random.default_rng(len(model))
    ensemble = MODELS[model](rng)
    engine = value_engine(ensemble, kernel=kernel)
    all_rows = rows_as_read(rng, ensemble, 300)
    whole = values(engine, all_rows, n_jobs=1)
    for n_rows in (300, int(rng.integers(20, 200)), int(rng.integers(2, 20)), 1):
        first = int(rng.integers(301 - n_rows))
        rows, expected = (a[first : first + n_rows] for a in (all_rows, whole))
        n_jobs = int(rng.integers(2, 9))
        assert values(engine, rows, n_jobs).tobytes() == expected.tobytes(), f"{n_jobs} threads"
        pieces = [values(engine, rows[part], int(rng.integers(1, 9))) for part in cut(rng, n_rows)]
        assert np.concatenate(pieces).tobytes() == expected.tobytes()
        single = values(engine, rows, n_jobs, np.float32)
        assert single.tobytes() == expected.astype(np.float32).tobytes()
