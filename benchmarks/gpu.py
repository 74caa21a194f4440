"""How fast values are on a GPU: `python -m benchmarks.gpu write FOLDER` where the libraries of models are,
`… FOLDER` where a GPU is.

The folder carries trained models as saved explainers, rows, and the processor's values of some of them.
Answers are checked before anything is timed. Printed is a table in Markdown: the best of seven calls, in
milliseconds. `… FOLDER others` is about models of other kinds, `… FOLDER background` about background rows,
both beside all cores of the processor.
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
OTHERS = ("random-forest", "lightgbm-255", "catboost-500x6", "20-outputs", "categories")
N_OTHER_ROWS, N_OTHER_TIMED = 2_000, 50_000
#: (depth of the trees, background rows, rows)
BACKGROUNDS = ((6, 100, 10_000), (6, 1_000, 10_000), (12, 100, 1_000))
N_BACKGROUND_TIMED = {6: 100_000, 12: 10_000}
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


def write_others(folder: Path) -> None:
    """Models of other kinds, rows as trees read them, and what is right."""
    from linear_treeshap.rows.rows import read_rows

    for name, (model, X) in _others().items():
        explainer = TreeExplainer(model)
        rows = read_rows(X, explainer.ensemble.row_format)[0:N_OTHER_ROWS]
        explainer.save(folder / f"{name}.lts")
        values = explainer.shap_values(X[:N_CHECKED])
        np.savez_compressed(folder / f"{name}.npz", rows=rows, values=values)


def _others() -> dict[str, tuple[Any, Any]]:
    import lightgbm
    import xgboost
    from sklearn.ensemble import RandomForestRegressor

    from . import cases, data

    conductor, attributes = data.superconductor(), data.adult_attributes()
    forest = RandomForestRegressor(20, max_features=0.3, random_state=0).fit(
        conductor.X[:5000], conductor.y[:5000]
    )
    train = data.generated(20_000)
    classes = np.digitize(train.y, np.quantile(train.y, np.linspace(0, 1, 21)[1:-1]))
    settings = {"objective": "multi:softprob", "num_class": 20, "max_depth": 6, "eta": 0.1}
    of_attribute = np.array([name.split("=")[0] for name in attributes.names])
    columns = [attributes.X[:, of_attribute == name] for name in dict.fromkeys(of_attribute)]
    is_category = [column.shape[1] > 1 for column in columns]
    codes = np.column_stack([c.argmax(axis=1) if c.shape[1] > 1 else c for c in columns])
    coded = lightgbm.LGBMClassifier(n_estimators=100, num_leaves=63, verbose=-1)
    coded.fit(codes, attributes.y, categorical_feature=np.flatnonzero(is_category).tolist())
    return {
        "random-forest": (forest, conductor.X),
        "lightgbm-255": (cases.lightgbm(200, 255).model, train.X),
        "catboost-500x6": (cases.catboost().model, train.X),
        "20-outputs": (xgboost.train(settings, xgboost.DMatrix(train.X, classes), 20), train.X),
        "categories": (coded, codes.astype(np.float64)),
    }


def measure_other(folder: Path, name: str) -> None:
    import cupy

    path = folder / f"{name}.lts"
    saved = np.load(path.with_suffix(".npz"))
    explainer: Any = TreeExplainer.load(path, device="cuda")
    engine, processor = explainer._engine, TreeExplainer.load(path)._engine
    some = saved["rows"]
    rows = np.ascontiguousarray(np.tile(some, (-(-N_OTHER_TIMED // len(some)), 1))[:N_OTHER_TIMED])
    shape = (len(rows), engine.n_players, engine.n_outputs)
    out, there = cupy.empty(shape, dtype=np.float32), cupy.asarray(rows)
    engine.values(there, out)
    expected = saved["values"].reshape(-1, *shape[1:])
    error = np.abs(out[: len(expected)].get() - expected).max(axis=(0, 1)) / np.abs(expected).max(axis=(0, 1))
    assert error.max() <= ALLOWED["float32"]
    best = best_on_gpu(lambda: engine.values(there, out))
    here = np.empty(shape, dtype=np.float32)
    cores = best_here(lambda: processor.values(rows, here), 3)
    walk = engine._walk(np.dtype(np.float32), False)
    held = [array for stage in walk._stages for array in stage._held] + walk._held + walk._ranks.held
    n_leaves = explainer.ensemble.n_leaves
    each = sum(array.nbytes for array in held) / n_leaves
    numbers = f"{n_leaves:,} | {best:.2f} | {cores:.0f} | {cores / best:.0f} | {each:.0f}"
    print(f"| {name} | {numbers} |", flush=True)


def measure_background(folder: Path, depth: int, n_background: int) -> None:
    """Values against background rows, beside all cores of the processor."""
    import cupy

    ensemble = TreeExplainer.load(folder / f"depth-{depth}.lts").ensemble
    background = rows_for(folder, 5_000)[-n_background:]
    explainer: Any = TreeExplainer(ensemble, background, device="cuda")
    engine, n_rows = explainer._engine, N_BACKGROUND_TIMED[depth]
    rows = rows_for(folder, n_rows)
    there, here = cupy.asarray(rows), np.empty((N_CHECKED, N_FEATURES, 1))
    engine._processor.values(rows[:N_CHECKED], here)
    for dtype, allowed in ALLOWED.items():
        out = cupy.empty((n_rows, N_FEATURES, 1), dtype=dtype)
        first = best_here(lambda: (engine.values(there, out), cupy.cuda.Device().synchronize()), 1)  # noqa: B023
        error = np.abs(out[:N_CHECKED].get() - here).max() / np.abs(here).max()
        assert error <= allowed, error
        best = best_on_gpu(lambda: engine.values(there, out))  # noqa: B023
        what = f"depth {depth}, {n_background:,} background rows, {n_rows:,} rows, {dtype}"
        print(f"| {what} | {best:.2f} | first call {first:.0f}, error {error:.1e} |", flush=True)
    few = rows[: n_rows // 10]
    single = np.empty((len(few), N_FEATURES, 1), dtype=np.float32)
    cores = best_here(lambda: engine._processor.values(few, single), 3)
    print(
        f"| depth {depth}, {n_background:,} background rows, {len(few):,} rows, all cores | {cores:.1f} | |"
    )


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
    rows = cupy.asarray(rows_for(folder, 10_000))
    matrices = cupy.empty((10_000, N_FEATURES, N_FEATURES, 1), dtype=np.float32)
    best = best_on_gpu(lambda: engine.pairs(rows, matrices))
    print(f"| depth {depth}, float32 | pairs of 10,000 rows on the GPU | {best:.2f} | |", flush=True)
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
        write_others(Path(arguments[1]))
        return
    if "others" in arguments:
        print("| 50,000 rows | leaves | ms | ms on all cores | ratio | bytes per leaf |")
        print("|---|---|---|---|---|---|")
        for name in OTHERS:
            measure_other(Path(arguments[0]), name)
        return
    if "background" in arguments:
        print("| what | ms | |\n|---|---|---|")
        for depth, n_background, _ in (*BACKGROUNDS, (12, 1_000, 0)):
            measure_background(Path(arguments[0]), depth, n_background)
        return
    print("| model | what | ms | ns per row and tree |\n|---|---|---|---|")
    for depth in DEPTHS:
        measure(Path(arguments[0]), depth)


if __name__ == "__main__":
    main(sys.argv[1:])
