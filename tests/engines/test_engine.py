"""What the engine of values promises besides what all engines do: large models, threads, the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from engines import value_engine
from interrupts import interrupt
from strategies import chain, random_ensemble, random_rows

from linear_treeshap.engines.program import KERNEL_VARIABLE, Program
from linear_treeshap.engines.threads import _cgroup_cpus, available_cpus, n_threads
from linear_treeshap.engines.values import ValueEngine
from linear_treeshap.errors import InputError
from linear_treeshap.model.ensemble import TreeEnsemble

Float64 = npt.NDArray[np.float64]
SUPPORT = Path(__file__).parents[1] / "support"


def values(engine: ValueEngine, rows: npt.NDArray[np.floating], n_jobs: int = 1) -> Float64:
    out = np.empty((len(rows), engine.n_players, engine.n_outputs))
    engine.values(rows, out, n_jobs=n_jobs)
    return out


@pytest.fixture(scope="module")
def forest() -> TreeEnsemble:
    """Enough leaves for several chunks, so that trees are split over threads when rows are few."""
    return random_ensemble(
        np.random.default_rng(1), n_features=20, n_trees=600, max_depth=9, max_leaves=90, n_outputs=2
    )


@pytest.fixture(scope="module")
def rows(forest: TreeEnsemble) -> Float64:
    return random_rows(np.random.default_rng(2), forest, 1500)


def test_a_model_of_many_chunks_gives_what_its_trees_give() -> None:
    """One by one, and added up."""
    rng = np.random.default_rng(8)
    large = random_ensemble(rng, n_features=30, n_trees=150, max_depth=30, max_leaves=900)
    X = random_rows(rng, large, 70)
    together = values(value_engine(large), X)
    apart = np.zeros_like(together)
    for tree in range(large.n_trees):
        nodes = slice(large.tree_offsets[tree], large.tree_offsets[tree + 1])
        one = TreeEnsemble(
            tree_offsets=np.array([0, nodes.stop - nodes.start]),
            left=large.left[nodes],
            right=large.right[nodes],
            feature=large.feature[nodes],
            threshold=large.threshold[nodes],
            cover=large.cover[nodes],
            value=large.value[nodes],
            base_values=np.zeros(1),
            row_format=large.row_format,
            missing_left=large.missing_left[nodes],
            category_set=large.category_set[nodes],
            category_offsets=large.category_offsets,
            category_codes=large.category_codes,
        )
        apart += values(value_engine(one), X)
    # Only the order of summation differs.
    assert np.abs(together - apart).max() <= 1e-12 * np.abs(large.value).sum() / 100


def test_a_hundred_thousand_columns_of_which_few_are_used() -> None:
    """Working memory depends on the columns a model uses, not on those it was trained with."""
    ensemble = chain([99_999, 5, 70_000])
    X = np.full((3, ensemble.n_features), -1.0)
    used = np.flatnonzero(values(value_engine(ensemble), X)[0, :, 0])
    assert used.tolist() == [5, 70_000, 99_999]


MANY_ROWS = """
from strategies import copies, random_ensemble
from engines import value_engine
ensemble = copies(random_ensemble(np.random.default_rng(1), n_features=40, {trees}), {n_copies})
engine, rows = value_engine(ensemble), np.zeros((200_000, 40))
out = np.empty((200_000, 40, ensemble.n_outputs))
"""


def test_ctrl_c_interrupts_deep_trees_of_many_outputs() -> None:
    """Each of their leaves is a hundred times the work of another's."""
    trees = "n_trees=2, max_depth=60, max_leaves=40_000, n_outputs=16, vector_leaves=True"
    interrupt(
        MANY_ROWS.format(trees=trees, n_copies=2),
        "engine.values(rows, out, n_jobs=1)",
        "engine.values(rows[:10], out[:10], n_jobs=1)",
    )


AMONG_OTHERS = """
import threading
def work():
    while True:
        engine.values(rows[:200], np.empty((200, 40, 1)), n_jobs=1)
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
"""


def test_ctrl_c_interrupts_while_other_threads_explain() -> None:
    """Those go on: Python hands signals to its main thread."""
    many_rows = MANY_ROWS.format(trees="n_trees=20, max_depth=12, max_leaves=400", n_copies=100)
    interrupt(
        many_rows + AMONG_OTHERS,
        "engine.values(rows, out, n_jobs=2)",
        "engine.values(rows[:10], out[:10], n_jobs=2)",
    )


def test_the_environment_chooses_the_kernel(forest: TreeEnsemble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KERNEL_VARIABLE, "baseline")
    assert Program(forest).kernel == "baseline"
    monkeypatch.setenv(KERNEL_VARIABLE, "sse9")
    with pytest.raises(InputError, match="'sse9' cannot run on this machine"):
        Program(forest)


@pytest.mark.skipif(sys.platform != "linux", reason="limits are set as Linux has them")
def test_work_goes_on_where_threads_cannot_be_had() -> None:
    """With room for a few stacks of a gigabyte, most of the 64 threads cannot be started."""
    import resource

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_STACK, (2**30, resource.getrlimit(resource.RLIMIT_STACK)[1]))
        resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))

    code = (
        f"import sys; sys.path.insert(0, {str(SUPPORT)!r})\n"
        "import numpy as np\n"
        "from strategies import random_ensemble\n"
        "from engines import value_engine\n"
        "engine = value_engine(random_ensemble(np.random.default_rng(0), n_trees=50, max_leaves=60))\n"
        "rows, out, again = np.zeros((20_000, 5)), np.empty((20_000, 5, 1)), np.empty((20_000, 5, 1))\n"
        "engine.values(rows, out, n_jobs=1)\n"
        "engine.values(rows, again, n_jobs=64)\n"
        "print((out == again).all())\n"
    )
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, preexec_fn=limit, env=env
    )
    assert done.stdout == "True\n", done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="this system does not list threads")
def test_threads_leave_when_nobody_needs_them() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(SUPPORT)!r})\n"
        "import os, time\n"
        "import numpy as np\n"
        "from strategies import random_ensemble\n"
        "from engines import value_engine\n"
        "engine = value_engine(random_ensemble(np.random.default_rng(0), n_trees=50, max_leaves=60))\n"
        "rows, out = np.zeros((20_000, 5)), np.empty((20_000, 5, 1))\n"
        "threads = lambda: len(os.listdir('/proc/self/task'))\n"
        "before, end = threads(), time.monotonic() + 60\n"
        "engine.values(rows, out, n_jobs=4)\n"
        "first = threads()\n"
        "engine.values(rows, out, n_jobs=4)\n"
        "assert before < threads() <= first == before + 3, 'those who wait are called'\n"
        "busy = time.process_time()\n"
        "while threads() > before and time.monotonic() < end: time.sleep(0.5)\n"
        "print(threads() == before, time.process_time() - busy < 0.5)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True True\n", done.stderr


def test_n_jobs_is_counted_as_joblib_does() -> None:
    cpus = available_cpus()
    assert n_threads(None) == n_threads(-1) == cpus
    assert n_threads(3) == 3
    assert n_threads(-1000) == 1
    for nonsense in (0, 1.5, "2", True):
        with pytest.raises(InputError, match="n_jobs must be"):
            n_threads(nonsense)  # type: ignore[arg-type]


def test_container_limits_are_respected(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert _cgroup_cpus(tmp_path, "0::/\n") == 2
    assert _cgroup_cpus(tmp_path, "0::/a/group/not/to/be/seen/from/here\n") == 2
    assert _cgroup_cpus(tmp_path, "0::/../outside\n") == 2
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert _cgroup_cpus(tmp_path, "0::/\n") is None
    assert _cgroup_cpus(tmp_path / "absent", "0::/\n") is None


def test_the_tightest_of_nested_limits_counts(tmp_path: Path) -> None:
    """A service, or a job of a cluster, has its quota on a group below the root."""
    for folder, quota in (("", "max"), ("system", "300000"), ("system/job", "500000")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "cpu.max").write_text(f"{quota} 100000\n")
    assert _cgroup_cpus(tmp_path, "0::/system/job\n") == 3
    (tmp_path / "system/job/cpu.max").write_text("100000 100000\n")
    assert _cgroup_cpus(tmp_path, "0::/system/job\n") == 1


def test_limits_of_the_first_version_are_respected(tmp_path: Path) -> None:
    folder = tmp_path / "cpu,cpuacct/job"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text("50000\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    assert _cgroup_cpus(tmp_path, "5:memory:/\n4:cpu,cpuacct:/job\n1:name=systemd:/\n0::/\n") == 1
    assert _cgroup_cpus(tmp_path, "4:cpu,cpuacct:/\n") is None


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_affinity_is_respected() -> None:
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
    code += "from linear_treeshap.engines.threads import available_cpus; print(available_cpus())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
