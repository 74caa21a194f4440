"""Time per row against rows per call, and what cores gain: ``python -m benchmarks.rows_per_call [cores]``.

Printed are tables in Markdown for a small and for a large model. By rows: milliseconds of one call, the best
of several, with one thread and with all, beside XGBoost's own with one thread; answers are compared first.
By cores: how many times as fast calls are on 2, 4, 8… threads as on one. Calls of one size are made in
turns, because clocks wander.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from linear_treeshap import TreeExplainer
from linear_treeshap.engines.threads import available_cpus

from .cases import xgboost

DEPTHS = (6, 12)
SIZES = (1, 2, 4, 8, 16, 64, 256, 1_024, 4_096)
#: Of the largest value: XGBoost computes in float32.
ALLOWED = 1e-5
#: Leaves · rows, beyond which XGBoost takes longer than a minute for a line.
MOST_FOR_PEER = 40_000_000
ROUNDS, SECONDS = 3, 0.15
#: By cores: rows of a call, for each depth.
SIZES_BY_CORES = {6: (1_024, 20_000), 12: (1, 256, 4_096)}


def best(call: Callable[[], object]) -> float:
    """The shortest of the calls that fit into some time, and of three at least."""
    found, begin = list[float](), time.perf_counter()
    while len(found) < 3 or time.perf_counter() - begin < SECONDS:
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def lines(depth: int) -> list[str]:
    import xgboost as library

    problem = xgboost(100, depth, max(SIZES))
    booster = problem.model.get_booster() if hasattr(problem.model, "get_booster") else problem.model
    booster.set_param({"nthread": 1})
    one, many = (TreeExplainer(problem.model, n_jobs=n_jobs) for n_jobs in (1, -1))
    n_leaves, found = one.ensemble.n_leaves, list[str]()
    for n_rows in SIZES:
        rows = np.asarray(problem.rows[:n_rows], dtype=np.float32)
        matrix = library.DMatrix(rows)
        calls: dict[str, Callable[[], object]] = {
            "one": lambda rows=rows: one.shap_values(rows, check_additivity=False),  # type: ignore[misc]
            "many": lambda rows=rows: many.shap_values(rows, check_additivity=False),  # type: ignore[misc]
        }
        if n_leaves * n_rows <= MOST_FOR_PEER:
            calls["peer"] = lambda matrix=matrix: booster.predict(matrix, pred_contribs=True)  # type: ignore[misc]
            theirs, ours = booster.predict(matrix, pred_contribs=True)[:, :-1], one.shap_values(rows)
            assert np.abs(theirs - ours).max() <= ALLOWED * np.abs(ours).max()
        took = dict.fromkeys(calls, np.inf)
        for _ in range(ROUNDS):
            for name, call in calls.items():
                took[name] = min(took[name], best(call))
        cells = [f"{n_rows:,}", f"{1e3 * took['one']:.3g}", f"{1e9 * took['one'] / n_leaves / n_rows:.3g}"]
        cells += [f"{1e3 * took['many']:.3g}", f"{took['one'] / took['many']:.1f}"]
        peer = took.get("peer")
        cells += ["", ""] if peer is None else [f"{1e3 * peer:.3g}", f"{peer / took['one']:.1f}"]
        found.append("| " + " | ".join([f"depth {depth}, {n_leaves:,} leaves", *cells]) + " |")
    return found


def gains(calls: dict[int, Callable[[], object]]) -> str:
    """What calls gain on each number of threads, as cells of a table."""
    took = dict.fromkeys(calls, np.inf)
    for _ in range(ROUNDS):
        for n_threads, call in calls.items():
            took[n_threads] = min(took[n_threads], best(call))
    return " | ".join(f"{took[1] / took[n]:.1f}" for n in calls if n > 1)


def by_cores() -> None:
    n_cpus = available_cpus()
    threads = [2**i for i in range(n_cpus.bit_length()) if 2**i <= n_cpus]
    print(f"| | rows | {' | '.join(f'{n} threads' for n in threads[1:])} |")
    print(f"|---|---|{'---|' * (len(threads) - 1)}")
    for depth, sizes in SIZES_BY_CORES.items():
        problem = xgboost(100, depth, max(sizes))
        explainers = {n: TreeExplainer(problem.model, n_jobs=n) for n in threads}
        for n_rows in sizes:
            rows = np.asarray(problem.rows[:n_rows], dtype=np.float32)
            calls: dict[int, Callable[[], object]] = {
                n: lambda rows=rows, one=one: one.shap_values(rows, check_additivity=False)  # type: ignore[misc]
                for n, one in explainers.items()
            }
            print(f"| depth {depth} | {n_rows:,} | {gains(calls)} |", flush=True)


def by_rows() -> None:
    print(f"| | rows | ms | ns per leaf·row | ms, {available_cpus()} threads | gain | XGBoost, ms | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for depth in DEPTHS:
        print("\n".join(lines(depth)), flush=True)


if __name__ == "__main__":
    by_cores() if sys.argv[1:] == ["cores"] else by_rows()
