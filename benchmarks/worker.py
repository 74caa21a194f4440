"""One peer on one problem, in a process of its own: ``python -m benchmarks.worker REQUEST``.

REQUEST is a JSON file that names the pickled problem, the peer and the limits; the answer, a `Result`,
is written beside it. The peer's answers are compared with ours before any clock is started. Then ours
and the peer's repetitions alternate, so that both meet the same weather on the machine.
"""

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from linear_treeshap.importers import import_model, raw_prediction
from linear_treeshap.model.ensemble import TreeEnsemble

from .cases import Problem
from .peers import PEERS, Ours, OursOnATenth, Peer, Rows, Values

PeerKind = TypeVar("PeerKind", bound=Peer)

__all__ = ["Request", "Result", "compare", "row_errors"]

#: Rows on which answers are compared, fewer where they take too long.
CHECK_ROWS = 32
#: A share of rows that may be wrong, which is then told beside the time.
FORGIVEN = 1e-3
#: Up to this error, relative to the largest value, a peer is inexact rather than wrong: it computes the same
#: thing with fewer digits, which no plot shows. It is timed, and its error is told beside the time. How many
#: digits are lost is a matter of the model: shap's algorithm for background rows loses 3e-4 on a forest of
#: unlimited depth, and none to speak of on trees of depth 6.
INEXACT = 1e-3
#: A call that is quicker than this is repeated, and the mean counts as one measurement.
SHORTEST = 0.02


@dataclass(frozen=True)
class Request:
    problem: str  # a pickled Problem
    peer: str  # a name in PEERS
    repetitions: int = 5
    budget: float = 20.0  # seconds for all repetitions of the peer, kept by explaining fewer rows
    memory_rows: int | None = None  # measure memory instead of time, explaining so many rows


@dataclass(frozen=True)
class Result:
    """``status`` is "ok", "inexact", "wrong", "refused", "missing" or "stopped"; ``reason`` says why."""

    peer: str
    status: str
    reason: str = ""
    version: str | None = None
    error: float | None = None  # largest error of any value, relative to the largest value
    tolerance: float | None = None
    n_rows: int = 0
    seconds: tuple[float, ...] = ()  # of each repetition
    ours_rows: int = 0
    ours_seconds: tuple[float, ...] = ()  # of ours, in turns with the peer's
    import_seconds: float | None = None
    compile_seconds: float | None = None
    peak_mib: float | None = None  # on top of the model, to compile and to explain n_rows


def compare(problem: Problem, name: str, request: Request) -> Result:
    """Check the peer's answers, then time it in turns with ours."""
    kind = PEERS[name]
    try:
        import_module(kind.module)
    except ImportError as error:
        return Result(name, "missing", f"cannot be imported here: {error}")
    result = Result(
        name,
        "ok",
        version=_version(kind.package),
        tolerance=kind.tolerance,
        import_seconds=_import_seconds(kind.module),
    )
    ensemble, rows = import_model(problem.model), problem.rows
    ours = _made(kind.beside or Ours, problem, ensemble)
    try:
        started = time.perf_counter()
        peer = _made(kind, problem, ensemble)
        result = replace(result, compile_seconds=time.perf_counter() - started)
        checked = rows if kind.all_rows else rows[:1]
        started = time.perf_counter()
        values = peer(checked)
        affordable = int(request.budget / (time.perf_counter() - started))
        if not kind.all_rows and affordable > 1:
            checked = rows[: min(affordable, CHECK_ROWS)]
            values = peer(checked)
        if type(peer) is Ours or not peer.is_in_columns:
            errors, tolerance = _additivity_errors(problem, ours, checked, values), 1e-4  # float32 sums
        else:
            errors, tolerance = row_errors(values, ours(checked)), peer.tolerance
    except Exception as error:  # whatever a peer raises is its answer
        return replace(result, status="refused", reason=f"{type(error).__name__}: {error}"[:300])
    result = _judge(replace(result, tolerance=tolerance), errors)
    if result.status == "wrong":
        return result
    return _time(result, peer, ours, rows, len(checked), request)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "source"


def _import_seconds(module: str) -> float:
    """In a fresh process: this one has imported too much already."""
    code = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def row_errors(values: Values, expected: Values) -> Values:
    """(n_rows,) the largest error of any feature, relative to the largest expected value of all rows."""
    assert values.shape == expected.shape, f"expected values of shape {expected.shape}, got {values.shape}"
    scale = max(float(np.abs(expected).max()), np.finfo(np.float64).tiny)
    errors: Values = np.where(np.isfinite(values), np.abs(values - expected) / scale, np.inf)
    return np.asarray(errors.reshape(len(errors), -1).max(axis=1))


def _made(kind: type[PeerKind], problem: Problem, ensemble: TreeEnsemble) -> PeerKind:
    if problem.background is None:
        return kind(problem.model, ensemble)
    return kind(problem.model, ensemble, problem.background)


def _additivity_errors(problem: Problem, ours: Ours, rows: Rows, values: Values) -> Values:
    """How far ours miss the model's own prediction; the peers check them feature by feature."""
    prediction = raw_prediction(problem.model, rows)
    sums = values.sum(axis=1).reshape(prediction.shape) + ours.explainer.expected_value
    return row_errors(sums, prediction)


def _judge(result: Result, errors: Values) -> Result:
    """Wrong, unless hardly any row is, for a peer may misread a value that lies on a threshold, or all are
    nearly right."""
    assert result.tolerance is not None
    worst, n_wrong = float(errors.max()), int(np.count_nonzero(~(errors <= result.tolerance)))
    result = replace(result, error=worst if math.isfinite(worst) else None)
    if n_wrong == 0:
        return result
    how = f"off by up to {worst:.1e} of the largest value" if math.isfinite(worst) else "not finite"
    reason = f"{n_wrong:,} of {len(errors):,} rows are {how}"
    if n_wrong <= FORGIVEN * len(errors):
        return replace(result, reason=reason)
    if worst <= INEXACT:
        return replace(result, status="inexact", reason=f"inexact: {reason}")
    return replace(result, status="wrong", reason=reason)


def _time(result: Result, peer: Peer, ours: Ours, rows: Rows, n_warm: int, request: Request) -> Result:
    """Explain as many rows as the budget allows, guessing the cost from ``n_warm`` rows."""
    once = _clock(lambda: peer(rows[:n_warm]), 1)
    affordable = int(request.budget / request.repetitions / once * n_warm)
    repetitions = request.repetitions
    if isinstance(peer, OursOnATenth):
        peer_rows = rows[: len(rows) // 10]
    elif peer.all_rows:
        peer_rows = rows
        repetitions = min(repetitions, max(1, repetitions * affordable // len(rows)))
    else:
        peer_rows = rows[: max(affordable, 1)]
        once = _clock(lambda: peer(peer_rows), 1)
    peer_number, ours_number = _number(once), _number(_clock(lambda: ours(rows), 1))
    seconds, ours_seconds = [], []
    for _ in range(repetitions):
        ours_seconds.append(_clock(lambda: ours(rows), ours_number))
        seconds.append(_clock(lambda: peer(peer_rows), peer_number))
    return replace(
        result,
        n_rows=len(peer_rows),
        seconds=tuple(seconds),
        ours_rows=len(rows),
        ours_seconds=tuple(ours_seconds),
    )


def _number(once: float) -> int:
    """How many calls make one measurement."""
    return max(1, math.ceil(SHORTEST / once))


def _clock(call: Callable[[], object], number: int) -> float:
    started = time.perf_counter()
    for _ in range(number):
        call()
    return (time.perf_counter() - started) / number


def peak_mib(problem: Problem, name: str, n_rows: int) -> float | None:
    """Memory on top of the loaded model that compiling and explaining take at their peak (Linux only)."""
    status, clear = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not clear.exists():
        return None
    import_module(PEERS[name].module)
    ensemble = import_model(problem.model)
    clear.write_text("5")  # resets the peak to what is in use now
    before = _kib(status, "VmRSS")
    _made(PEERS[name], problem, ensemble)(problem.rows[:n_rows])
    return (_kib(status, "VmHWM") - before) / 1024


def _kib(status: Path, key: str) -> int:
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith(key))


def main(path: str) -> None:
    request = Request(**json.loads(Path(path).read_text()))
    with open(request.problem, "rb") as file:
        problem = pickle.load(file)
    answer: Any
    if request.memory_rows is not None:
        answer = peak_mib(problem, request.peer, request.memory_rows)
    else:
        answer = asdict(compare(problem, request.peer, request))
    Path(path).with_suffix(".answer").write_text(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1])
