"""The paper's experiment, whole: ``python -m benchmarks.paper`` → ``results/paper.json``.

One regression tree for each depth on adult and on conductor, explained by TreeShap (shap's C code), Fast
TreeShap v1 and v2, Linear TreeShap as published (`linear_treeshap.paper.LinearTreeShap`, compiled) and ours,
on one core and in one process. Values are compared before any clock is started. Then five rounds are run, in
each of which every algorithm explains its rows once, so that all meet the same weather on the machine.

Seconds are those of the whole test set. Where an algorithm's runs over all of it would take longer than
``--budget`` seconds, it explains the first rows, and its time is extrapolated in proportion to the rows,
whose exponent is measured, too, but for the table that v2 makes in each call, which is timed by itself. v2
falls back to v1 where that table would exceed V2_MEMORY, as in the paper; such points are marked.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from linear_treeshap.importers import import_model
from linear_treeshap.model.ensemble import TreeEnsemble

from . import data, growth
from .cases import Problem, split
from .peers import PEERS, V2_MEMORY, Peer, Rows, Values
from .run import ONE_THREAD, RESULTS, circumstances
from .worker import row_errors

__all__ = ["ALGORITHMS", "DATA", "DEPTHS", "PUBLISHED_SECONDS", "RESULT", "main", "measure", "single_tree"]

RESULT = RESULTS / "paper.json"
DEPTHS = tuple(range(2, 19, 2))
#: Name → how to load it, and the rows of its test set.
DATA: dict[str, tuple[Callable[[], data.Data], int]] = {
    "adult": (data.adult, 16_281),
    "conductor": (data.superconductor, 10_631),
}
#: In the order of the paper's legend; the first is what the others are compared with.
ALGORITHMS = ("shap", "fasttreeshap-v1", "fasttreeshap-v2", "published", "ours")
#: The authors' mean seconds on one core of an i7-9750H: data → algorithm → depth.
PUBLISHED_SECONDS = {
    "adult": {
        "shap": {8: 0.363, 12: 2.69, 16: 10.67},
        "fasttreeshap-v1": {8: 0.271, 12: 1.76, 16: 6.38},
        "fasttreeshap-v2": {8: 0.156, 12: 0.860, 16: 3.44},
        "published": {8: 0.139, 12: 0.772, 16: 2.60},
    },
    "conductor": {
        "shap": {8: 0.467, 12: 5.78, 16: 25.7},
        "fasttreeshap-v1": {8: 0.289, 12: 3.13, 16: 13.1},
        "fasttreeshap-v2": {8: 0.174, 12: 1.70, 16: 13.6},
        "published": {8: 0.146, 12: 1.24, 16: 4.43},
    },
}
CHECK_ROWS = 16


def single_tree(load: Callable[[], data.Data], n_test: int, depth: int) -> Problem:
    """The paper's models: one regression tree for each depth."""
    from sklearn.tree import DecisionTreeRegressor

    table = load()
    train, test = split(table, n_test)
    model = DecisionTreeRegressor(max_depth=depth, random_state=0).fit(table.X[train], table.y[train])
    return Problem(model, table.X[test], table.source)


def measure(problem: Problem, algorithms: Sequence[str], *, runs: int, budget: float) -> dict[str, Any]:
    """Seconds of every run of every algorithm, in turns, after a comparison of their values."""
    ensemble = import_model(problem.model)
    expected = PEERS["ours"](problem.model, ensemble)(problem.rows[:CHECK_ROWS])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "There may exist memory issue")
        turns = [_begin(name, problem, ensemble, expected, budget / runs) for name in algorithms]
        for _ in range(runs):
            for turn in turns:
                turn.run()
    return {
        "n_leaves": ensemble.n_leaves,
        "depth": ensemble.depth,
        "n_rows": len(problem.rows),
        "algorithms": {turn.name: turn.report() for turn in turns},
    }


def _begin(name: str, problem: Problem, ensemble: TreeEnsemble, expected: Values, seconds: float) -> Turn:
    """An algorithm whose values are right; it says so itself when it falls back."""
    peer = PEERS[name](problem.model, ensemble)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        values = peer(problem.rows[:CHECK_ROWS])
    error = float(row_errors(values, expected).max())
    if error > peer.tolerance:
        raise RuntimeError(f"{name} is off by {error:.1e} of the largest value, so not timed.")
    fell_back = any("Switched to algorithm v1" in str(warning.message) for warning in said)
    return Turn(name, peer, problem.rows, error, fell_back, seconds)


class Turn:
    """One algorithm on one tree: how many rows it explains in a run, and what its runs took."""

    def __init__(
        self, name: str, peer: Peer, rows: Rows, error: float, fell_back: bool, seconds: float
    ) -> None:
        self.name, self.peer, self.error, self.fell_back = name, peer, error, fell_back
        #: Rows of a call that is timed by itself, because it makes a table.
        self.n_apart = 1 if name == "fasttreeshap-v2" and not fell_back else 0
        self.rows, self.seconds = rows, list[float]()
        some = rows[:CHECK_ROWS]
        per_row = (self._clock(some) - self._apart()) / (len(some) - self.n_apart)
        self.n_explained = min(len(rows), max(len(some), int(seconds / max(per_row, 1e-9))))

    def run(self) -> None:
        taken = self._clock(self.rows[: self.n_explained])
        if self.n_explained < len(self.rows):
            apart = self._apart()
            share = (len(self.rows) - self.n_apart) / (self.n_explained - self.n_apart)
            taken = apart + (taken - apart) * share
        self.seconds.append(taken)

    def _apart(self) -> float:
        return self._clock(self.rows[:1]) if self.n_apart else 0.0

    def _clock(self, rows: Rows) -> float:
        started = time.perf_counter()
        self.peer(rows)
        return time.perf_counter() - started

    def report(self) -> dict[str, Any]:
        return {
            "version": _version(self.peer),
            "error": self.error,
            "fell_back": self.fell_back,
            "n_explained": self.n_explained,
            "seconds": self.seconds,  # of the whole test set
        }


def _version(peer: Peer) -> str:
    return "" if peer.package == "linear-treeshap" else version(peer.package)


def measured_growth(algorithms: Sequence[str]) -> dict[str, Any]:
    found = {}
    for name in algorithms:
        found[name] = {"time": growth.measure_time(name), "memory": growth.measure_memory(name)}
        print(f"growth: {name}", flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    if options.data:
        os.environ[data.DATA_VARIABLE] = os.path.abspath(options.data)
    os.environ.update(ONE_THREAD)
    algorithms = options.algorithms.split(",")
    report: dict[str, Any] = {
        **circumstances("benchmarks.paper"),
        "v2_memory_gib": V2_MEMORY,
        "numpy": np.__version__,
        "data": {},
        "growth": {},
    }
    for name, (load, n_test) in DATA.items():
        here: dict[str, Any] = {"depths": {}}
        report["data"][name] = here
        for depth in options.depths or DEPTHS:
            started = time.perf_counter()
            problem = single_tree(load, n_test, depth)
            here["source"], here["n_features"] = problem.source, problem.rows.shape[1]
            here["depths"][depth] = measure(problem, algorithms, runs=options.runs, budget=options.budget)
            _write(options.out, report)  # what is done is not lost if the rest is stopped
            print(f"{name}, depth {depth}: {time.perf_counter() - started:.0f} s", flush=True)
    report["growth"] = measured_growth(algorithms)
    _write(options.out, report)


def _write(path: Path, report: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__.splitlines()[0])
    parser.add_argument("--data", help=f"folder of Parquet files; default: ${data.DATA_VARIABLE} or OpenML")
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS), help="comma-separated names of peers")
    parser.add_argument("--depths", type=int, nargs="*", help="default: 2, 4, …, 18")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--budget", type=float, default=15.0, help="seconds for the runs of an algorithm on a tree"
    )
    parser.add_argument("--out", type=Path, default=RESULT)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
