"""What every engine promises besides right numbers: the same bits always, and good behaviour."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from engine_cases import CASES, Case, Rows, forest_for
from interrupts import interrupt
from strategies import chain, random_ensemble, random_rows

from linear_treeshap import _core, oracle
from linear_treeshap.engines.background_rows import Background
from linear_treeshap.model.ensemble import TreeEnsemble
from linear_treeshap.model.row_format import RowFormat

kernels = pytest.mark.parametrize("kernel", _core.kernels())

#: Seconds, as in core/run/control.hpp.
LOOKS_UP_EVERY = 0.05

Explained = tuple[Case, Callable[[int], Rows]]


@pytest.fixture(scope="module", params=list(CASES))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def explained(name: str) -> Explained:
    """Enough leaves for several chunks, so that trees are split over threads when rows are few."""
    return forest_for(name)


@pytest.fixture(scope="module")
def many(name: str, explained: Explained) -> Rows:
    """Rows for a call that looks up from its work more than once, on however quick a machine.

    Every 500 of them are the same.
    """
    case, rows = explained
    found = np.tile(rows(500), (CASES[name].n_long // 500, 1))
    while True:
        begin = time.perf_counter()
        case.explain(found, n_jobs=2)
        if time.perf_counter() - begin > 3 * LOOKS_UP_EVERY:
            return found
        found = np.concatenate([found, found])


@kernels
@pytest.mark.parametrize("name", [name for name, kind in CASES.items() if kind.definition is not None])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equals_the_definition(name: str, dtype: Literal["float32", "float64"], kernel: str) -> None:
    """To 1e-12 of the largest leaf value, which is what rounding may cost these small trees."""
    kind, rng = CASES[name], np.random.default_rng(len(name))
    assert kind.definition is not None
    for _ in range(5):
        ensemble = random_ensemble(rng, n_features=5, n_trees=2, max_leaves=20, n_outputs=2, dtype=dtype)
        with np.errstate(over="ignore"):  # beyond float32 is infinity
            rows, background = (random_rows(rng, ensemble, n).astype(dtype) for n in (2, 3))
        drawn = Background(background, rng.integers(1, 5, size=3).astype(np.float64))
        expected = [oracle.as_float(kind.definition(ensemble, row, drawn)) for row in rows]
        error = np.abs(kind.make(ensemble, drawn, kernel).explain(rows) - np.array(expected)).max()
        assert error <= 1e-12 * np.abs(ensemble.value).max()


def test_bits_do_not_depend_on_threads(explained: Explained) -> None:
    case, rows = explained
    for n in (1, 3, 40, 300):
        assert case.explain(rows(n), n_jobs=4).tobytes() == case.explain(rows(n)).tobytes()


def test_bits_do_not_depend_on_how_rows_are_cut(name: str, explained: Explained) -> None:
    case, rows = explained
    X = rows(300)
    whole = case.explain(X)
    for size in (1 + CASES[name].few_rows, 7 + CASES[name].few_rows, 64, 100):
        parts = [X[i : i + size] for i in range(0, min(len(X), 10 * size), size)]
        cut = np.concatenate([case.explain(part) for part in parts if len(part) > CASES[name].few_rows])
        assert cut.tobytes() == whole[: len(cut)].tobytes(), f"in calls of {size} rows"


def test_float32_output_is_the_rounded_float64_output(name: str, explained: Explained) -> None:
    """Or within 1e-6 of the largest value of an output, of engines that compute in float32."""
    case, rows = explained
    X = rows(150)
    single, double = case.explain(X, np.float32, n_jobs=2), case.explain(X)
    if CASES[name].rounds_float32:
        np.testing.assert_array_equal(single, double.astype(np.float32))
    else:
        assert (np.abs(single - double) <= 1e-6 * np.abs(double).max(axis=(0, 1))).all()


@pytest.mark.parametrize("n_rows", [0, 1, 8, 9, 16, 17, 32, 33, 63, 64, 65])
def test_any_number_of_rows(name: str, explained: Explained, n_rows: int) -> None:
    case, rows = explained
    X = rows(70)
    found, expected = case.explain(X[:n_rows]), case.explain(X)[:n_rows]
    if n_rows <= CASES[name].few_rows:
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14 * np.abs(expected).max(initial=0.0))
    else:
        assert found.tobytes() == expected.tobytes()


def test_models_without_splits_say_nothing(name: str) -> None:
    leaf = TreeEnsemble(
        tree_offsets=[0, 1, 2],  # type: ignore[arg-type]
        left=[-1, -1],  # type: ignore[arg-type]
        right=[-1, -1],  # type: ignore[arg-type]
        feature=[-1, -1],  # type: ignore[arg-type]
        threshold=[0, 0],  # type: ignore[arg-type]
        cover=[1, 1],  # type: ignore[arg-type]
        value=[[1], [2]],  # type: ignore[arg-type]
        base_values=[0],  # type: ignore[arg-type]
        row_format=RowFormat(n_features=3),
    )
    case = CASES[name].make(leaf, Background(np.zeros((4, 3)), None), None)
    for n_rows in (0, 5):
        assert not case.explain(np.ones((n_rows, 3))).any()


def test_models_without_columns_say_nothing(name: str) -> None:
    case = CASES[name].make(chain([]), Background(np.zeros((4, 0)), None), None)
    assert case.explain(np.empty((5, 0))).size == 0


def test_many_threads_share_an_engine(explained: Explained) -> None:
    case, rows = explained
    X = rows(200)
    expected = case.explain(X).tobytes()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: case.explain(X, n_jobs=2).tobytes(), range(16)))
    assert set(answers) == {expected}


def test_python_goes_on_while_rows_are_explained(explained: Explained, many: Rows) -> None:
    """The lock of the interpreter is not held: a call that holds it would leave time for one breath."""
    case, breaths = explained[0], 0
    call = threading.Thread(target=case.explain, args=(many,))
    call.start()
    while call.is_alive():
        breaths += 1
        call.join(timeout=0.001)
    assert breaths > 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_works_after_a_fork_in_the_midst_of_other_threads_work(name: str, explained: Explained) -> None:
    """A child has only the thread that forked; nothing it needs may be held by the others."""
    if name.endswith("on gpu"):
        pytest.skip("a child cannot use the GPU of its parent: CUDA itself says so")
    case, rows = explained
    X = rows(100)
    expected = case.explain(X).tobytes()
    context = multiprocessing.get_context("fork")
    done = threading.Event()

    def work() -> bool:
        answers = {case.explain(X, n_jobs=2).tobytes()}
        while not done.is_set():
            answers.add(case.explain(X, n_jobs=2).tobytes())
        return answers == {expected}

    def child() -> None:
        os._exit(0 if case.explain(X, n_jobs=3).tobytes() == expected else 1)

    with ThreadPoolExecutor(2) as pool:
        others = [pool.submit(work) for _ in range(2)]
        children = [context.Process(target=child) for _ in range(3)]
        for process in children:
            process.start()
            process.join(timeout=60)
        done.set()
    assert [process.exitcode for process in children] == [0] * 3
    assert all(other.result() for other in others)


#: Copies of the trees, so that a call takes many seconds: few of them where rows take long.
LONG_CASE = """
from engine_cases import CASES, forest_for
case, rows = forest_for({name!r}, n_copies=CASES[{name!r}].n_copies_for(20_000))
X = np.tile(rows(1000), ({times}, 1))
out = np.empty((len(X), *case.shape))
"""


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_interrupts_within_a_second(name: str, n_jobs: int) -> None:
    interrupt(
        LONG_CASE.format(name=name, times=2_000 if name == "values on gpu" else 60),
        f"case.write(X, out, n_jobs={n_jobs})",
        f"case.explain(X[:10], n_jobs={n_jobs})",
    )


def test_progress_is_reported_and_its_errors_stop_the_work(explained: Explained, many: Rows) -> None:
    case, shares = explained[0], list[float]()
    case.explain(many, progress=shares.append)
    assert shares
    assert all(0 <= a <= b <= 1 for a, b in pairwise(shares))

    def refuse(share: float) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        case.explain(many, n_jobs=2, progress=refuse)


def test_progress_may_explain_other_rows_meanwhile(explained: Explained, many: Rows) -> None:
    """On the very thread whose working memory the long call uses."""
    case, rows = explained
    few, meanwhile = rows(50), set[bytes]()
    expected = case.explain(few).tobytes()
    found = case.explain(
        many, n_jobs=2, progress=lambda share: meanwhile.add(case.explain(few, n_jobs=2).tobytes())
    )
    assert meanwhile == {expected}
    assert found.tobytes() == case.explain(many, n_jobs=2).tobytes()
    assert all(np.array_equal(found[i : i + 500], found[:500]) for i in range(0, len(many), 500))


def threads_of_this_process() -> int:
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="this system does not list threads")
@pytest.mark.filterwarnings("error")  # Python warns of a fork beside threads
def test_threads_wait_for_the_next_call_and_leave_before_a_fork(explained: Explained, many: Rows) -> None:
    """After calls that end well and one that a callback stops, there are no more than one call needs."""
    case = explained[0]
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)
    before = threads_of_this_process()

    def refuse(share: float) -> None:
        raise RuntimeError("enough")

    for _ in range(3):
        case.explain(many[:500], n_jobs=6)
    with pytest.raises(RuntimeError, match="enough"):
        case.explain(
            np.concatenate([many] * 5), n_jobs=6, progress=refuse
        )  # six cores are done with many soon
    assert threads_of_this_process() <= before + 5
    if (child := os.fork()) == 0:
        os._exit(threads_of_this_process() - 1)
    assert threads_of_this_process() == before
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    case.explain(many[:500], n_jobs=6)
