"""TreeEnsemble → compiled engine → values: the Python side of the seam to C++.

Compiling is done once, explaining many times and from any number of threads: the engine never
changes after it is made.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from .ensemble import TreeEnsemble
from .errors import InputError
from .indices import SHAPLEY, Index
from .players import Players

__all__ = ["KERNEL_VARIABLE", "Engine", "available_cpus", "kernels", "n_threads"]

#: Set this environment variable to one of `linear_treeshap.kernels()` to force an instruction set.
KERNEL_VARIABLE = "LINEAR_TREESHAP_KERNEL"


class Engine:
    """A compiled ensemble. ``values`` writes the values of rows that are ready to be read.

    ``players`` are those of the ensemble's columns; by default each column is its own.
    """

    def __init__(
        self,
        ensemble: TreeEnsemble,
        *,
        players: Players | None = None,
        index: Index = SHAPLEY,
        kernel: str | None = None,
    ) -> None:
        if players is not None and len(players.of_column) != ensemble.n_features:
            raise InputError(
                f"Players of {len(players.of_column)} columns were given for a model of "
                f"{ensemble.n_features} columns."
            )
        columns = np.arange(ensemble.n_features, dtype=np.int32)
        self.n_features = ensemble.n_features
        self.n_players = ensemble.n_features if players is None else players.n_players
        self.n_outputs = ensemble.n_outputs
        self.row_dtype = ensemble.row_format.numpy_dtype
        self._ensemble = ensemble
        kernel = kernel or os.environ.get(KERNEL_VARIABLE) or None
        if kernel is not None and kernel not in _core.kernels():
            raise InputError(
                f"Kernel {kernel!r} cannot run on this machine; it has {', '.join(_core.kernels())}. "
                f"Unset {KERNEL_VARIABLE} to use the best one."
            )
        self._compiled = _core.compile(
            tree_offsets=ensemble.tree_offsets,
            left=ensemble.left,
            right=ensemble.right,
            feature=ensemble.feature,
            threshold=ensemble.threshold,
            missing_left=ensemble.missing_left,
            category_set=ensemble.category_set,
            category_offsets=ensemble.category_offsets,
            category_codes=ensemble.category_codes,
            cover=ensemble.cover,
            value=ensemble.value,
            tree_output=ensemble.tree_output,
            player=columns if players is None else players.of_column,
            n_outputs=ensemble.n_outputs,
            n_players=self.n_players,
            is_float32=ensemble.row_format.dtype == "float32",
            rule=index.rule,
            kernel=kernel,
        )

        self.interactions = self._compiled.interactions
        #: Engines for interactions that were asked for before; see `set_engine`.
        self.set_engines: dict[Any, Any] = {}

    @property
    def kernel(self) -> str:
        """The instruction set in use: "avx512", "avx2", or "baseline": what any machine has (SSE2, NEON)."""
        return self._compiled.kernel

    @property
    def expected_value(self) -> npt.NDArray[np.float64]:
        """(n_outputs,) what the values of a row are added to."""
        return self._ensemble.expected_value

    def values(
        self,
        rows: npt.NDArray[np.floating],
        out: npt.NDArray[np.floating],
        *,
        n_jobs: int | None = None,
        progress: Callable[[float], object] | None = None,
    ) -> None:
        """Write the values of ``rows`` to ``out``, (n_rows, n_players, n_outputs).

        ``rows`` is C-contiguous and of the ensemble's row type; ``out`` is C-contiguous, float64 or
        float32. Sums are float64 either way.
        """
        self._compiled.explain(rows, out, n_threads=n_threads(n_jobs), progress=progress)


def kernels() -> list[str]:
    """The instruction sets that this machine can run, the best first, which is the one in use.

    >>> import linear_treeshap
    >>> linear_treeshap.kernels()[-1]
    'baseline'
    """
    return _core.kernels()


def n_threads(n_jobs: int | None) -> int:
    """Threads for ``n_jobs`` as joblib counts them: None for all, -1 for all, -2 for all but one."""
    if n_jobs is None:
        return available_cpus()
    is_number = isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool)
    if not is_number or n_jobs == 0 or n_jobs >= 2**31:
        raise InputError(f"n_jobs must be a positive number of threads, -1 for all, or None; got {n_jobs!r}.")
    return int(n_jobs) if n_jobs > 0 else max(1, available_cpus() + 1 + int(n_jobs))


def available_cpus() -> int:
    """CPUs this process may use: its affinity, within the limit of its control group."""
    try:
        cpus = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        cpus = os.cpu_count() or 1
    return max(1, min(cpus, _container_cpus() or cpus))


@cache
def _container_cpus() -> int | None:
    """The limit of this process's container; read once, because that takes as long as explaining a row."""
    try:
        groups = Path("/proc/self/cgroup").read_text()
    except OSError:  # not on Linux
        return None
    return _cgroup_cpus(Path("/sys/fs/cgroup"), groups)


def _cgroup_cpus(root: Path, groups: str) -> int | None:
    """The smallest CPU quota of this process's groups and those around them, rounded up; None without one.

    ``groups`` are lines of hierarchy, controllers and path; the second version of the interface has one
    hierarchy, with no controllers named.
    """
    limits = []
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = root / controllers if controllers else root
        group = top / path.lstrip("/")
        for folder in (group, *group.parents):
            limits.append(_cpu_quota(folder))
            if folder == top:
                break
    return min((limit for limit in limits if limit is not None), default=None)


def _cpu_quota(folder: Path) -> int | None:
    try:
        quota, period = (folder / "cpu.max").read_text().split()  # version 2
    except (OSError, ValueError):
        try:
            quota = (folder / "cpu.cfs_quota_us").read_text().strip()  # version 1
            period = (folder / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    try:
        return -(-int(quota) // int(period)) if int(quota) > 0 else None
    except (ValueError, ZeroDivisionError):  # "max": no limit
        return None
