"""Where the time goes on other engines: ``make bench-engines`` → results/engines.json → docs/performance.md.

A million rows of 20 features in 40 Parquet files, 100 trees of depth 6, two cores. The engines take turns,
round after round, so that a clock that wanders meets all of them. Each time one is started and warmed up
first, in a process of its own, and then goes three ways: it reads the rows and hands them to Python, it
explains them as well, and it writes the values too. What a step adds is the difference of the medians. One
process with two threads, without an engine, is what the others are compared with, round by round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from linear_treeshap import TreeExplainer, explain_batches

from .run import RESULTS, circumstances
from .tables import DOCS, short, write_tables

RESULT = RESULTS / "engines.json"
STEPS = ("read", "explain", "write")
LABELS = {
    "one-thread": "one process, one thread",
    "two-threads": "one process, two threads",
    "dask": "Dask, two processes of one thread",
    "spark": "Spark, two tasks at a time",
    "ray": "Ray, two CPUs",
}
N_FILES, N_FEATURES = 40, 20
NAMES = [f"x{number:02d}" for number in range(N_FEATURES)]
#: A run of one step: the folder of rows, and where to write.
Run = Callable[[str, Path, Path], None]


def make_case(folder: Path, n_rows: int) -> None:
    """The rows, a few more to warm up with, and the explainer."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import xgboost

    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, N_FEATURES))
    y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + X[:, 3:].sum(axis=1) / 4 + rng.normal(size=len(X))
    model = xgboost.train(
        {"max_depth": 6, "nthread": 2}, xgboost.DMatrix(X, y, feature_names=NAMES), num_boost_round=100
    )
    TreeExplainer(model).save(folder / "explainer.lts")
    for name, n_files in (("rows", N_FILES), ("few", 4)):
        (folder / name).mkdir()
        for number in range(n_files):
            numbers = rng.normal(size=(N_FEATURES, n_rows // N_FILES))
            keys = np.arange(n_rows // N_FILES) + number * n_rows
            table = pa.table({"id": keys, **dict(zip(NAMES, numbers, strict=True))})
            pq.write_table(table, folder / name / f"{number:03d}.parquet")


# -- engines: each is a context that gives a function of a step, the rows, and where to write --------------


@contextmanager
def _alone(n_jobs: int, explainer: Path) -> Iterator[Run]:
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    ready = TreeExplainer.load(explainer, n_jobs=n_jobs)

    def run(step: str, rows: Path, out: Path) -> None:
        batches = ds.dataset(rows).scanner(batch_size=1 << 16, use_threads=n_jobs > 1).to_reader()
        if step == "read":
            for _ in batches:
                pass
            return
        values = explain_batches(ready, batches, keep=["id"])
        if step == "explain":
            for _ in values:
                pass
            return
        with pq.ParquetWriter(out, values.schema, compression="snappy", use_dictionary=False) as writer:
            for batch in values:
                writer.write_batch(batch)

    yield run


@contextmanager
def _dask(explainer: Path) -> Iterator[Run]:
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    import linear_treeshap.dask as adapter

    ready = TreeExplainer.load(explainer)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):

        def run(step: str, rows: Path, out: Path) -> None:
            frame = dd.read_parquet(rows)
            if step == "read":
                frame.map_partitions(len, meta=("n", int)).compute()
                return
            values = adapter.explain(frame, ready, keep=["id"])
            if step == "explain":
                values.map_partitions(len, meta=("n", int)).compute()
            else:
                values.to_parquet(out, write_index=False, use_dictionary=False)

        yield run


@contextmanager
def _spark(explainer: Path) -> Iterator[Run]:
    from pyspark.sql import SparkSession

    import linear_treeshap.spark as adapter

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    ready = TreeExplainer.load(explainer)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.memory", "2g").getOrCreate()
    session.sparkContext.setLogLevel("OFF")

    def counted(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        yield pa.RecordBatch.from_pydict({"n": [sum(batch.num_rows for batch in batches)]})

    def run(step: str, rows: Path, out: Path) -> None:
        df = session.read.parquet(str(rows))
        if step == "read":
            df.mapInArrow(counted, "n long").collect()
            return
        values = adapter.explain(df, ready, keep=["id"])
        if step == "explain":
            values.write.format("noop").mode("overwrite").save()
        else:
            values.write.parquet(str(out))

    try:
        yield run
    finally:
        session.stop()


@contextmanager
def _ray(explainer: Path) -> Iterator[Run]:
    import ray

    import linear_treeshap.ray as adapter

    ready = TreeExplainer.load(explainer)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False

    def run(step: str, rows: Path, out: Path) -> None:
        ds = ray.data.read_parquet(str(rows))
        if step == "read":
            for _ in ds.iter_batches(batch_format="pyarrow"):
                pass
            return
        values = adapter.explain(ds, ready, keep=["id"])
        if step == "explain":
            values.materialize()
        else:
            values.write_parquet(str(out))

    try:
        yield run
    finally:
        ray.shutdown()


ENGINES: dict[str, Callable[[Path], Any]] = {
    "one-thread": lambda explainer: _alone(1, explainer),
    "two-threads": lambda explainer: _alone(2, explainer),
    "dask": _dask,
    "spark": _spark,
    "ray": _ray,
}


def measure(engine: str, folder: Path) -> dict[str, float]:
    """Seconds of each step, in this process."""
    seconds: dict[str, float] = {}
    with ENGINES[engine](folder / "explainer.lts") as run, tempfile.TemporaryDirectory() as written:
        for rows in ("few", "rows"):  # the first is to warm up
            for step in STEPS:
                start = time.perf_counter()
                run(step, folder / rows, Path(written) / f"{rows}-{step}")
                seconds[step] = time.perf_counter() - start
    return seconds


def table(report: dict[str, Any]) -> str:
    """A line per engine: what each step adds, and how the whole compares with two threads."""
    n_rows, found = report["n_rows"], report["seconds"]
    alone = found["two-threads"]["write"]
    lines = [
        f"{n_rows:,} rows of {N_FEATURES} features, {report['n_leaves']:,} leaves; {report['cpu']}, Python "
        f"{report['python']}, commit `{report['commit']}`, {report['date']}; seconds, the median of "
        f"{len(alone)} rounds.",
        "",
        "| | read and hand over | explain | hand back and write | in all | × two threads | rows per second |",
        "|---|---|---|---|---|---|---|",
    ]
    for engine, seconds in found.items():
        read, explained, written = (median(seconds[step]) for step in STEPS)
        relative = median(one / other for one, other in zip(seconds["write"], alone, strict=True))
        numbers = [read, explained - read, written - explained, written, relative]
        cells = [*(short(max(number, 0.0)) for number in numbers), f"{n_rows / written:,.0f}"]
        lines.append(f"| {LABELS[engine]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engines", nargs="*", default=list(ENGINES), help=f"of {', '.join(ENGINES)}")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--in", dest="folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder is not None:  # the process of one engine
        print(json.dumps(measure(options.engines[0], options.folder)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_case(folder, options.rows)
        n_leaves = TreeExplainer.load(folder / "explainer.lts").ensemble.n_leaves
        found: dict[str, dict[str, list[float]]] = {
            engine: {step: [] for step in STEPS} for engine in options.engines
        }
        report = {**circumstances(), "n_rows": options.rows, "n_leaves": n_leaves, "seconds": found}
        for _ in range(options.rounds):
            for engine, seconds in found.items():
                command = [sys.executable, "-m", "benchmarks.engines", engine, "--in", str(folder)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                for step, one in json.loads(done.stdout.splitlines()[-1]).items():
                    seconds[step].append(one)
                print(engine, {step: short(times[-1]) for step, times in seconds.items()}, flush=True)
    print(table(report))
    if list(options.engines) == list(ENGINES):
        RESULT.write_text(json.dumps(report, indent=1) + "\n")
        write_tables(DOCS / "performance.md", {"engines": table(report)})


if __name__ == "__main__":
    main()
