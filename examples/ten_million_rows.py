"""Ten million rows of a Parquet file, explained in a fraction of their size in memory: by command, in Python.

Makes the file and a model, runs `linear-treeshap explain` on them, then does the same from Python, batch by
batch, and prints how long it took and how much memory at most. --rows chooses the size.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.ensemble import HistGradientBoostingRegressor

from linear_treeshap import TreeExplainer, global_importance

FEATURES = [f"x{number:02d}" for number in range(20)]
#: Rows that are in memory at once.
BATCH = 1 << 16


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, default=Path("demo"), help="where the files go (some 4 GB)")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    rows, model = args.folder / "rows.parquet", args.folder / "model.lts"

    write_rows(rows, args.rows)
    explainer = train()
    explainer.save(model)
    print(f"{args.rows:,} rows × {len(FEATURES)} features, {size(rows)}; {explainer!r}\n")

    by_command(model, rows, args.folder / "values.parquet")
    in_python(model, rows, args.folder / "values-python.parquet")
    importance(model, rows)


def made(n_rows: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=n_rows) for name in FEATURES}


def write_rows(path: Path, n_rows: int) -> None:
    """Normal numbers, and a key, written batch by batch."""
    schema = pa.schema([("id", pa.int64()), *((name, pa.float64()) for name in FEATURES)])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, n_rows, BATCH):
            ids = np.arange(start, min(start + BATCH, n_rows))
            writer.write_table(pa.table({"id": ids, **made(len(ids), seed=start)}, schema=schema))


def train() -> TreeExplainer:
    columns = made(20_000, seed=-1 % 2**32)
    X = np.stack([*columns.values()], axis=1)
    y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + X[:, 3:8].sum(axis=1)
    model = HistGradientBoostingRegressor(max_iter=100, max_depth=6, random_state=0).fit(X, y)
    return TreeExplainer(model, feature_names=FEATURES)


def by_command(model: Path, rows: Path, out: Path) -> None:
    """``linear-treeshap explain``; its memory is the largest of any process that was started here."""
    command = [sys.executable, "-m", "linear_treeshap", "explain", str(model), str(rows), "-o", str(out)]
    print(f"$ linear-treeshap {' '.join(command[3:])} --key id --force")
    start = time.perf_counter()
    subprocess.run([*command, "--key", "id", "--force", "--no-progress"], check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"  {time.perf_counter() - start:.1f} s, at most {peak:.0f} MiB of memory, {size(out)} written\n")


def in_python(model: Path, rows: Path, out: Path) -> None:
    """The same values as float32, in an array that is used again for every batch."""
    explainer = TreeExplainer.load(model)
    values = np.empty((BATCH, len(FEATURES)), dtype=np.float32)
    schema = pa.schema([("id", pa.int64()), *((name, pa.float32()) for name in FEATURES)])
    start = time.perf_counter()
    with pq.ParquetWriter(out, schema, compression="zstd", use_dictionary=False) as writer:
        for batch in batches(rows, ["id", *FEATURES]):
            part = explainer.shap_values(batch.select(FEATURES), out=values[: len(batch)])
            writer.write_table(pa.table([batch["id"], *part.T], schema=schema))
    print(f"in Python, values as float32: {time.perf_counter() - start:.1f} s, {size(out)} written")


def importance(model: Path, rows: Path) -> None:
    """No values are kept at all."""
    start = time.perf_counter()
    found = global_importance(TreeExplainer.load(model), batches(rows, FEATURES))
    order = np.argsort(-found.mean_abs[:, 0])[:3]
    first = ", ".join(f"{found.feature_names[i]} {found.mean_abs[i, 0]:.3f}" for i in order)
    print(f"in Python, importance only: {time.perf_counter() - start:.1f} s; {first}")


def batches(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    yield from pq.ParquetFile(path).iter_batches(BATCH, columns=columns)


def size(path: Path) -> str:
    return f"{path.stat().st_size / 2**20:,.0f} MiB"


if __name__ == "__main__":
    main()
