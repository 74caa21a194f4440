"""How many threads to use: the user's ``n_jobs``, within what this process is allowed."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np

from ..errors import InputError

__all__ = ["available_cpus", "n_threads"]


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
