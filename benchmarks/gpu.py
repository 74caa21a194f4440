"""How fast values are on a GPU: `python -m benchmarks.gpu write FOLDER` where XGBoost is, `… FOLDER` where a
GPU is.

The folder carries trained models as saved explainers, rows, and the processor's values of some of them.
Answers are checked before anything is timed. Printed is a table in Markdown: the best of seven calls, in
milliseconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linear_treeshap import TreeExplainer

DEPTHS = (6, 8, 12)
N_TREES, N_FEATURES, N_CHECKED = 100, 80, 500
ALLOWED = {"float32": 1e-6, "float64": 1e-12}


def write(folder: Path) -> None:
    """Train the models, and ask the processor for what is right."""
    import xgboost

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, N_FEATURES)).astype(np.float32)
    y = (X[:, :20] ** 2).sum(1) * X[:, 20] + X[:, 21:40] @ rng.normal(size=19) + np.sin(X[:, 40:60]).sum(1)
    np.save(folder / "rows.npy", X[:5000])
    for depth in DEPTHS:
        model = xgboost.train({"max_depth": depth, "eta": 0.1}, xgboost.DMatrix(X, y), N_TREES)
        explainer = TreeExplainer(model)
        explainer.save(folder / f"depth-{depth}.lts")
        np.save(folder / f"depth-{depth}.npy", explainer.shap_values(X[:N_CHECKED]))


def rows_for(folder: Path, n_rows: int) -> npt.NDArray[np.float32]:
    """As many rows as wanted: beyond the first 5,000, columns of two rows each."""
    few = np.load(folder / "rows.npy")
    rows: npt.NDArray[np.float32] = np.tile(few, (-(-n_rows // len(few)), 1))[:n_rows]
    rows[len(few) :, ::2] = np.roll(rows[len(few) :, ::2], 7919, axis=0)
    return rows


def best_on_gpu(call: Callable[[], object], n_calls: int = 7) -> float:
    """Milliseconds, by the clock of the GPU."""
    import cupy

    times = []
    for _ in range(n_calls):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        cupy.cuda.Device().synchronize()
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end))
    return float(min(times))


def best_here(call: Callable[[], object], n_calls: int = 5) -> float:
    """Milliseconds, by the clock of this machine."""
    times = []
    for _ in range(n_calls):
        begin = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - begin))
    return min(times)


def measure(folder: Path, depth: int) -> None:
    import cupy
    import cupyx

    path = folder / f"depth-{depth}.lts"
    explainer: Any = TreeExplainer.load(path, device="cuda")
    engine, expected = explainer._engine, np.load(folder / f"depth-{depth}.npy")
    for dtype, allowed in ALLOWED.items():
        few = cupy.asarray(rows_for(folder, N_CHECKED))
        first = best_here(lambda: explainer.shap_values(few, dtype=dtype, check_additivity=False), 1)  # noqa: B023
        found = explainer.shap_values(few, dtype=dtype).get()
        assert np.abs(found - expected).max() <= allowed * np.abs(expected).max()
        print(f"| depth {depth}, {dtype} | first call | {first:.0f} | |", flush=True)
        for n_rows in (1_000, 10_000, 100_000):
            rows = cupy.asarray(rows_for(folder, n_rows))
            out = cupy.empty((n_rows, N_FEATURES, 1), dtype=dtype)
            best = best_on_gpu(lambda: engine.values(rows, out))  # noqa: B023
            each = 1e6 * best / n_rows / N_TREES
            print(
                f"| depth {depth}, {dtype} | {n_rows:,} rows on the GPU | {best:.3f} | {each:.4f} |",
                flush=True,
            )
    if depth != DEPTHS[0]:
        return
    pinned = cupyx.empty_pinned((100_000, N_FEATURES), dtype=np.float32)
    pinned[:] = rows_for(folder, 100_000)
    there = cupyx.empty_pinned((100_000, N_FEATURES, 1), dtype=np.float32)
    best = best_here(lambda: engine.values(pinned, there))
    print(f"| depth {depth}, float32 | 100,000 rows in pinned memory | {best:.2f} | |", flush=True)
    X = rows_for(folder, 1_000_000)
    best = best_here(lambda: engine.values(X, np.empty((len(X), N_FEATURES, 1), dtype=np.float32)), 3)
    print(f"| depth {depth}, float32 | 1,000,000 rows in ordinary memory | {best:.0f} | |", flush=True)
    processor = TreeExplainer.load(path)
    best = best_here(lambda: processor.shap_values(X[:100_000], check_additivity=False, dtype="float32"), 3)
    print(f"| depth {depth}, processor | 100,000 rows, all cores | {best:.0f} | |", flush=True)


def main(arguments: list[str]) -> None:
    if arguments[0] == "write":
        write(Path(arguments[1]))
        return
    print("| model | what | ms | ns per row and tree |\n|---|---|---|---|")
    for depth in DEPTHS:
        measure(Path(arguments[0]), depth)


if __name__ == "__main__":
    main(sys.argv[1:])
