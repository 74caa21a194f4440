"""What only a GPU has: rows that are there already, streams, memory. Skipped where there is none (`make
test-gpu`)."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices import device_engine, has_gpu
from strategies import copies, random_ensemble, random_rows

from linear_treeshap import InputError, TreeExplainer
from linear_treeshap.engines.cuda.gpu import find_gpu
from linear_treeshap.model.ensemble import TreeEnsemble

pytestmark = pytest.mark.skipif(not has_gpu(), reason="there is no GPU")

#: Where `tests/support/zoo_files.py` wrote the zoo, if it did.
ZOO = Path(os.environ.get("LINEAR_TREESHAP_ZOO", "build/zoo"))


@pytest.fixture(scope="module")
def cupy() -> Any:
    return pytest.importorskip("cupy")


@pytest.fixture(scope="module")
def ensemble() -> TreeEnsemble:
    return random_ensemble(np.random.default_rng(0), n_features=9, n_trees=60, max_depth=7, n_outputs=2)


@pytest.fixture(scope="module")
def explainer(ensemble: TreeEnsemble) -> Any:
    return TreeExplainer(ensemble, device="cuda")


def rows_for(ensemble: TreeEnsemble, n_rows: int) -> Any:
    few = random_rows(np.random.default_rng(1), ensemble, min(n_rows, 500))
    return np.tile(few, (-(-n_rows // len(few)), 1))[:n_rows]


@pytest.mark.parametrize("method", ["shap_values", "shap_interaction_values"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_stay_where_the_rows_are(explainer: Any, cupy: Any, dtype: str, method: str) -> None:
    X = rows_for(explainer.ensemble, 3000)
    here = getattr(explainer, method)(X, dtype=dtype)
    there = getattr(explainer, method)(cupy.asarray(X), dtype=dtype)
    assert isinstance(here, np.ndarray)
    assert isinstance(there, cupy.ndarray)
    assert there.get().tobytes() == here.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_against_a_background_stay_where_the_rows_are(cupy: Any, dtype: str) -> None:
    """Tables and leaves that are in none, from NumPy in blocks and from the GPU, on a stream of the caller's;
    pairs, which the processor computes, as well."""
    ensemble = random_ensemble(np.random.default_rng(0), n_features=30, n_trees=20, max_depth=20)
    X = rows_for(ensemble, 20_000)
    explainer: Any = TreeExplainer(ensemble, X[:50], device="cuda")
    assert explainer._engine._tables.is_scanned.any()
    here = explainer.shap_values(X, dtype=dtype)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        there = explainer.shap_values(cupy.asarray(X), dtype=dtype)
        stream.synchronize()
    assert there.get().tobytes() == here.tobytes()
    expected = TreeExplainer(ensemble, X[:50]).shap_values(X[:500])
    tolerance = {"float32": 1e-6, "float64": 1e-12}[dtype] * np.abs(expected).max()
    np.testing.assert_allclose(here[:500], expected, rtol=0, atol=tolerance)
    pairs = explainer.shap_interaction_values(cupy.asarray(X[:5]), dtype=dtype)
    assert pairs.get().tobytes() == explainer.shap_interaction_values(X[:5], dtype=dtype).tobytes()


def test_pairs_that_the_processor_computes_stay_where_the_rows_are(cupy: Any) -> None:
    ensemble = random_ensemble(np.random.default_rng(0), n_features=5, n_trees=3)
    explainer: Any = TreeExplainer(ensemble, index=("weighted_banzhaf", 1), device="cuda")
    X = rows_for(ensemble, 20)
    there = explainer.shap_interaction_values(cupy.asarray(X))
    assert there.get().tobytes() == explainer.shap_interaction_values(X).tobytes()


def test_rows_of_pytorch(explainer: Any) -> None:
    torch = pytest.importorskip("torch")
    X = rows_for(explainer.ensemble, 100)
    tensor = torch.from_numpy(X).cuda().requires_grad_()
    assert explainer.shap_values(tensor).get().tobytes() == explainer.shap_values(X).tobytes()
    assert isinstance(explainer.shap_values(tensor.cpu().detach().numpy()), np.ndarray)


def test_rows_in_another_order_of_memory_or_type(explainer: Any, cupy: Any) -> None:
    X = rows_for(explainer.ensemble, 100)
    there = cupy.asarray(X)
    expected = explainer.shap_values(X).tobytes()
    assert explainer.shap_values(cupy.asfortranarray(there)).get().tobytes() == expected
    whole = np.nan_to_num(X, nan=0, posinf=9, neginf=-9).clip(-9, 9).astype(np.int32)
    found = explainer.shap_values(cupy.asarray(whole)).get()
    assert found.tobytes() == explainer.shap_values(whole).tobytes()


def test_rows_that_do_not_fit_are_refused(explainer: Any, cupy: Any) -> None:
    with pytest.raises(InputError, match="shape"):
        explainer.shap_values(cupy.zeros((5, 3)))
    with pytest.raises(InputError, match="real numbers"):
        explainer.shap_values(cupy.zeros((5, 9), dtype=complex))
    with pytest.raises(InputError, match="count from 0"):
        TreeExplainer(explainer.ensemble, device="cuda:99")


def test_values_go_elsewhere_if_asked(explainer: Any, cupy: Any) -> None:
    X = rows_for(explainer.ensemble, 100)
    out, shares = np.empty((100, 9, 2)), list[float]()
    assert explainer.shap_values(cupy.asarray(X), out=out) is out
    assert out.tobytes() == explainer.shap_values(X).tobytes()
    told = explainer.shap_values(cupy.asarray(X), progress=shares.append)
    assert told.get().tobytes() == out.tobytes()
    assert shares[-1] == 1
    with pytest.raises(InputError, match="float16"):
        explainer.shap_values(cupy.asarray(X), dtype="float16")


def test_explanations_of_rows_on_a_gpu(explainer: Any, cupy: Any) -> None:
    X = rows_for(explainer.ensemble, 20)
    np.testing.assert_array_equal(explainer(cupy.asarray(X)).values, explainer(X).values)


def test_work_is_on_the_callers_stream(explainer: Any, cupy: Any) -> None:
    X = rows_for(explainer.ensemble, 3000)
    expected = explainer.shap_values(X).tobytes()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        there = cupy.empty(X.shape)
        there.set(X, stream=stream)
        values = explainer.shap_values(there, check_additivity=False)
        there.fill(0)  # after the values were computed, in the order of the stream
    stream.synchronize()
    assert values.get().tobytes() == expected


def test_threads_with_streams_of_their_own(explainer: Any, cupy: Any) -> None:
    X = rows_for(explainer.ensemble, 3000)
    expected = explainer.shap_values(X).tobytes()

    def explain(number: int) -> bytes:
        with cupy.cuda.Device(0), cupy.cuda.Stream(non_blocking=True) as stream:
            values = explainer.shap_values(cupy.asarray(X) if number % 2 else X)
            stream.synchronize()
            return bytes((values.get() if number % 2 else values).tobytes())

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(explain, range(18))) == {expected}


@pytest.mark.parametrize("n_rows", [1, 100, 70_000, 200_000])
def test_pinned_memory_and_blocks(explainer: Any, cupy: Any, n_rows: int) -> None:
    import cupyx

    X = rows_for(explainer.ensemble, n_rows)
    pinned, out = cupyx.empty_pinned(X.shape), cupyx.empty_pinned((n_rows, 9, 2))
    pinned[:] = X
    explainer._engine.values(pinned, out)
    first = out[:500].copy()
    assert all(np.array_equal(out[i : i + 500], first[: n_rows - i]) for i in range(0, n_rows, 500))
    # A call of few rows is cut into other chunks.
    few = explainer.shap_values(X[:500])
    np.testing.assert_allclose(first, few, rtol=0, atol=1e-14 * np.abs(few).max())
    assert explainer.shap_values(X, check_additivity=False).tobytes() == out.tobytes()


def test_memory_is_bounded_and_given_back(cupy: Any) -> None:
    """Of many rows and outputs a small part of the card, and nothing of it after the call."""
    ensemble = copies(random_ensemble(np.random.default_rng(0), n_features=60, n_trees=6, n_outputs=3), 5)
    engine = device_engine(ensemble, find_gpu("cuda"))
    rows = cupy.asarray(rows_for(ensemble, 300_000))
    out = cupy.empty((len(rows), 60, 3), dtype=np.float32)
    pool = cupy.get_default_memory_pool()
    engine.values(rows, out)  # what is kept between calls is there now
    pool.free_all_blocks()
    before, total = pool.used_bytes(), pool.total_bytes()
    engine.values(rows, out)
    cupy.cuda.Device().synchronize()
    assert pool.used_bytes() == before
    assert pool.total_bytes() - total < 2 << 30


@pytest.mark.skipif(not ZOO.exists(), reason="tests/support/zoo_files.py did not write the zoo")
def test_the_zoo() -> None:
    """To 1e-12 of the largest value of a row's output in float64, and 1e-6 of that of all rows in float32."""
    wrong = []
    for path in sorted(ZOO.glob("*.lts")):
        saved = np.load(path.with_suffix(".npz"))
        ensemble, rows, expected = TreeExplainer.load(path).ensemble, saved["rows"], saved["values"]
        engine = device_engine(ensemble, find_gpu("cuda"))
        largest = np.abs(expected).max(axis=1, keepdims=True, initial=0)
        found, single = np.empty(expected.shape), np.empty(expected.shape, dtype=np.float32)
        engine.values(rows, found)
        engine.values(rows, single)
        is_right = (np.abs(found - expected) <= 1e-12 * largest).all()
        is_right &= (np.abs(single - expected) <= 1e-6 * largest.max(axis=0)).all()
        wrong += [] if is_right else [path.stem]
    assert not wrong
