"""What a service that explains one row takes: ``python -m benchmarks.serving``, a line per figure.

An XGBoost model is saved by its explainer, and served without XGBoost: what must be installed for that, and
what need not; the time from starting Python to the first explained row; and the latency of
`examples/serving.py` in a process of its own, one client on the same machine, one connection, random rows.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import numpy as np

import linear_treeshap
from linear_treeshap import TreeExplainer

from . import data

SERVICE = Path(__file__).parents[1] / "examples" / "serving.py"
NEEDED, SPARED = ("numpy", "narwhals", "linear-treeshap"), ("xgboost", "scipy", "scikit-learn", "pandas")
FIRST_ROW = """\
import sys, numpy
from linear_treeshap import TreeExplainer
explainer = TreeExplainer.load(sys.argv[1], n_jobs=1)
explainer.shap_values(numpy.zeros(explainer.ensemble.n_features), check_additivity=False)
assert "xgboost" not in sys.modules
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--starts", type=int, default=20)
    asked = parser.parse_args()
    print(f"must be installed   {listed(NEEDED)}")
    print(f"need not be         {listed(SPARED)}")
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.lts"
        explainer = save(model)
        print(f"model               {explainer!r}, a file of {model.stat().st_size / 1e6:.1f} MB")
        wall, processor, memory = zip(*(start(model) for _ in range(asked.starts)), strict=True)
        print(
            f"to the first row    {np.median(wall):.2f} s, {np.median(processor):.2f} s of processor time, "
            f"{max(memory) / 1e6:.0f} MB of memory"
        )
        times = latencies(model, asked.requests)
        p50, p99 = np.quantile(times, [0.5, 0.99]) * 1e6
        print(f"one row, HTTP       p50 {p50:.0f} µs, p99 {p99:.0f} µs, of {len(times):,} requests")


def save(path: Path) -> TreeExplainer:
    """An XGBoost model of 200 trees of depth 6, as its explainer saves it."""
    import xgboost

    train = data.generated(20_000, 20)
    names = [f"x{i}" for i in range(train.X.shape[1])]
    model = xgboost.XGBRegressor(n_estimators=200, max_depth=6).fit(train.X, train.y)
    explainer = TreeExplainer(model, feature_names=names)
    explainer.save(path)
    return explainer


def listed(packages: tuple[str, ...]) -> str:
    """The sizes of packages as they are installed here."""
    return ", ".join(f"{package} {size}" for package in packages if (size := installed_size(package)))


def installed_size(package: str) -> str:
    """In megabytes, with the libraries that come beside it; nothing if it is not installed."""
    try:
        found = files(package) or []
    except PackageNotFoundError:
        found = []
    size = sum(path.stat().st_size for file in found if (path := Path(str(file.locate()))).is_file())
    if package == "linear-treeshap" and not size:  # run from its sources
        size = sum(p.stat().st_size for p in Path(linear_treeshap.__file__).parent.rglob("*") if p.is_file())
    return f"{size / 1e6:.0f} MB" if size else ""


def start(model: Path) -> tuple[float, float, float]:
    """Seconds from starting Python to the first row, those of the processor, and the most bytes in use.

    The process says the last itself: the system counts this one too, which it was forked from."""
    before = os.times()
    begin = time.perf_counter()
    command = [sys.executable, "-c", FIRST_ROW, str(model)]
    kilobytes = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    wall, after = time.perf_counter() - begin, os.times()
    processor = after.children_user - before.children_user + after.children_system - before.children_system
    return wall, processor, 1024.0 * int(kilobytes)


def latencies(model: Path, n_requests: int) -> list[float]:
    """Seconds from request to answer."""
    command = [sys.executable, "-u", str(SERVICE), "--model", str(model), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        try:
            assert service.stdout is not None
            address = service.stdout.readline().split()[-1]  # it says where it listens
            port = int(address.rpartition(":")[2].partition("/")[0])
            rows = data.generated(n_requests, 20, seed=1).X
            return ask(port, [{f"x{i}": float(x) for i, x in enumerate(row)} for row in rows])
        finally:
            service.terminate()


def ask(port: int, rows: list[dict[str, float]]) -> list[float]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    times = []
    for row in rows:
        body = json.dumps(row)
        begin = time.perf_counter()
        connection.request("POST", "/explain", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        times.append(time.perf_counter() - begin)
        assert response.status == 200, answer
    connection.close()
    return times


if __name__ == "__main__":
    main()
