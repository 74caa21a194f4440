"""Run cases and write one JSON file for each: ``python -m benchmarks.run [CASE…]``.

Each case is made once and pickled; each peer explains it in a process of its own, with every library
held to one thread, so that one that crashes or never ends takes nothing with it. Results are written
after each peer, so a run may be stopped and taken up again with ``--missing``.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from linear_treeshap.importers import import_model

from .cases import CASES, Case
from .data import DATA_VARIABLE
from .worker import Request, Result

__all__ = ["ONE_THREAD", "RESULTS", "circumstances", "main", "run_case"]

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    if options.data:
        os.environ[DATA_VARIABLE] = os.path.abspath(options.data)
    if options.python:  # the same command again, under that interpreter
        named = ("--python", options.python, f"--python={options.python}")
        command = [argument for argument in (arguments or sys.argv[1:]) if argument not in named]
        subprocess.run([options.python, "-m", "benchmarks.run", *command], cwd=ROOT, check=True)
        return
    failures = []
    for name in _chosen(options.cases):
        path = options.out / f"{name}-py{sys.version_info[0]}{sys.version_info[1]}.json"
        if options.missing and path.exists() and json.loads(path.read_text())["complete"]:
            continue
        case = CASES[name]
        if options.peers:
            case = replace(case, peers=tuple(options.peers.split(",")))
        try:
            run_case(case, path, repetitions=options.repetitions, budget=options.budget, limit=options.limit)
        except Exception as error:  # a case without its library is no reason to lose the others
            failures.append(f"{name}: {type(error).__name__}: {error}")
    if failures:
        raise SystemExit("\n".join(["These cases could not be made:", *failures]))


def run_case(
    case: Case, path: Path, *, repetitions: int = 5, budget: float = 20.0, limit: float = 300.0
) -> dict[str, Any]:
    """Measure every peer of the case; ``limit`` is the time after which one is stopped, in seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        problem = case.make()
        ensemble = import_model(problem.model)
        pickled = Path(folder) / "problem.pickle"
        pickled.write_bytes(pickle.dumps(problem))
        report: dict[str, Any] = {
            "case": case.name,
            "title": case.title,
            "data": problem.source,
            "n_rows": len(problem.rows),
            "n_trees": ensemble.n_trees,
            "n_leaves": ensemble.n_leaves,
            "depth": ensemble.depth,
            "n_features": ensemble.n_features,
            **circumstances(),
            "results": [],
            "complete": False,
        }
        del problem, ensemble
        for peer in ("ours", *case.peers):
            request = Request(str(pickled), peer, repetitions, budget)
            result = _measure(request, Path(folder), limit)
            report["results"].append(asdict(result))
            report["complete"] = peer == ("ours", *case.peers)[-1]
            path.write_text(json.dumps(report, indent=1) + "\n")
            print(f"{case.name}: {peer}: {result.status} {result.reason}", flush=True)
    return report


def _measure(request: Request, folder: Path, limit: float) -> Result:
    try:
        result = Result(**_ask(request, folder, limit))
        if result.seconds:
            request = replace(request, memory_rows=result.n_rows)
            result = replace(result, peak_mib=_ask(request, folder, limit))
    except subprocess.TimeoutExpired:
        return Result(request.peer, "stopped", f"not done after {limit:.0f} s")
    except subprocess.CalledProcessError as error:
        last_words = (error.stderr or "").strip().splitlines()[-1:] or ["no message"]
        return Result(request.peer, "refused", f"exit code {error.returncode}: {last_words[0]}"[:300])
    return result


def _ask(request: Request, folder: Path, limit: float) -> Any:
    path = folder / "request.json"
    path.write_text(json.dumps(asdict(request)))
    subprocess.run(
        [sys.executable, "-m", "benchmarks.worker", str(path)],
        cwd=ROOT, env={**os.environ, **ONE_THREAD}, timeout=limit, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return json.loads(path.with_suffix(".answer").read_text())


def circumstances(module: str = "benchmarks.run") -> dict[str, Any]:
    """When, where and with what."""
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=ROOT, capture_output=True, text=True
    )
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": _cpu(),
        "python": platform.python_version(),
        "commit": git.stdout.strip() or "unknown",
        "command": " ".join([f"python -m {module}", *sys.argv[1:]]),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _chosen(patterns: Sequence[str]) -> list[str]:
    if not patterns:
        return list(CASES)
    chosen = [name for name in CASES if any(fnmatch(name, pattern) for pattern in patterns)]
    if not chosen:
        raise SystemExit(f"No case is called {' or '.join(patterns)}. There are: {', '.join(CASES)}.")
    return chosen


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("cases", nargs="*", help="names or patterns (xgboost-*); default: all")
    parser.add_argument("--peers", help="comma-separated; default: those of the case")
    parser.add_argument("--python", help="interpreter to run under; its peers are others")
    parser.add_argument("--data", help=f"folder of Parquet files; default: ${DATA_VARIABLE}, else OpenML")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds for a peer's repetitions")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which a peer is stopped")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--missing", action="store_true", help="skip cases that have a complete result")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
