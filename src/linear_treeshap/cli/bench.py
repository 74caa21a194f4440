"""How fast this machine explains a model, and how fast the model's own library does."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..engines.program import Program, kernels
from ..engines.threads import available_cpus
from ..engines.values import ValueEngine
from ..errors import InputError
from ..importers.pipelines.preprocessing import preprocessing_of
from ..model.ensemble import TreeEnsemble
from ..model.row_format import RowFormat
from ..rows.rows import read_rows
from . import models, rows
from .arguments import command
from .numbers import count
from .peers import peer_of

__all__ = ["add_to"]

Array = npt.NDArray[Any]

_EXAMPLES = """\
examples:
  linear-treeshap bench
  linear-treeshap bench model.json
  linear-treeshap bench model.json rows.parquet --rows 10000 --json

Without rows, some are made from the model's own thresholds; without a model, one of 100
complete trees of depth 6 is made. The unit is nanoseconds per leaf and row: the time, divided
by the number of leaves of all trees and by the number of rows. If the model's own library is
installed, it explains some of the rows too, on one thread, and the difference of its answer
to ours is shown. Reading files, preparing rows and the additivity check are not timed.
"""

#: Rows that are made have at most this many numbers together: 128 MB.
_MADE_NUMBERS = 1 << 24
#: Each figure is the median of this many runs.
_RUNS = 5


def add_to(subparsers: Any) -> argparse.ArgumentParser:
    parser = command(subparsers, "bench", run, "measure the speed on this machine", __doc__, _EXAMPLES)
    models.add_arguments(parser, optional=True)
    rows.add_arguments(parser, optional=True)
    parser.add_argument(
        "--rows", metavar="N", type=count, default=2_000, help="rows to explain at most (default: 2,000)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def run(args: argparse.Namespace) -> None:
    model = None
    if args.model is None:
        ensemble = _made_model()
    else:
        model = models.read(args.model, trust=args.trust, allow_pickle=args.allow_pickle)
        ensemble = model.explainer().ensemble
    if model is None or args.data is None:
        ready = _made_rows(ensemble, args.rows)
    else:
        ready = _given_rows(model, args)
    found, values = _ours(ensemble, ready)
    if model is not None:
        found.append(_theirs(model, ensemble, ready, values))
    if args.json:
        size = {"trees": ensemble.n_trees, "leaves": ensemble.n_leaves, "rows": len(ready)}
        print(json.dumps({**size, "measured": found}))
    else:
        print(f"{ensemble!r}, {len(ready):,} rows\n")
        print(f"{'':<28} {'threads':>7} {'ns per leaf·row':>16} {'rows per second':>16}")
        for line in found:
            _print_line(line)


def _ours(ensemble: TreeEnsemble, ready: Array) -> tuple[list[dict[str, Any]], Array]:
    """Every kernel on one thread, then the best one on all; and the values."""
    found = []
    values = np.empty((len(ready), ensemble.n_columns, ensemble.n_outputs))
    cases = [(kernel, 1) for kernel in reversed(kernels())]
    if available_cpus() > 1:
        cases.append((kernels()[0], available_cpus()))
    for kernel, threads in cases:
        engine = ValueEngine(Program(ensemble, kernel=kernel))
        seconds = _seconds(partial(engine.values, ready, values, n_jobs=threads))
        found.append(_line(f"linear-treeshap, {kernel}", threads, seconds, len(ready), ensemble))
    return found, values


def _theirs(model: models.Model, ensemble: TreeEnsemble, ready: Array, values: Array) -> dict[str, Any]:
    """The model's own library on one thread, on as many rows as take it about a second."""
    try:
        name, explain = peer_of(model, ensemble)
        few = ready[: max(1, len(ready) // 100)]
        once = _seconds(lambda: explain(few), runs=1)
        some = ready[: min(len(ready), max(len(few), int(len(few) / max(once, 1e-9))))]
        theirs = explain(some)
        difference = np.abs(theirs - values[: len(some)]).max(initial=0.0)
        seconds = _seconds(lambda: explain(some), runs=3)
    except Exception as error:  # whatever the library says; ours has been measured all the same
        return {"name": model.library, "error": " ".join(str(error).split())}
    line = _line(name, 1, seconds, len(some), ensemble)
    return {**line, "rows": len(some), "difference": float(difference / max(np.abs(values).max(), 1e-300))}


def _seconds(call: Callable[[], object], runs: int = _RUNS) -> float:
    """The median time of a call."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def _line(name: str, threads: int, seconds: float, n_rows: int, ensemble: TreeEnsemble) -> dict[str, Any]:
    return {
        "name": name,
        "threads": threads,
        "ns_per_leaf_row": seconds * 1e9 / max(n_rows * ensemble.n_leaves, 1),
        "rows_per_second": n_rows / max(seconds, 1e-9),
    }


def _print_line(line: dict[str, Any]) -> None:
    if "error" in line:
        print(f"{line['name']}: not compared: {line['error']}")
        return
    print(
        f"{line['name']:<28} {line['threads']:>7} {line['ns_per_leaf_row']:>16.3g} "
        f"{line['rows_per_second']:>16,.0f}"
    )
    if "difference" in line:
        print(f"  {line['rows']:,} rows; differs from our values by {line['difference']:.1e} of the largest")


# -- what to explain ----------------------------------------------------------------------------------------


def _given_rows(model: models.Model, args: argparse.Namespace) -> Array:
    """Some rows of the user's file, as the trees read them."""
    explainer = model.explainer()
    ensemble = explainer.ensemble
    reader = rows.RowReader(explainer, args.data, args.key)
    sample, _, _ = reader.sample(args.rows)
    steps = preprocessing_of(model.content)
    if not len(sample.rows):
        raise InputError(f"{str(args.data)!r} has no rows to explain.")
    ready = read_rows(sample.rows if steps is None else steps.transform(sample.rows), ensemble.row_format)
    return ready[0 : ready.n_rows]


def _made_rows(ensemble: TreeEnsemble, n_rows: int) -> Array:
    """Rows that go both ways everywhere: of each column, its own thresholds and codes, each a little off."""
    rng = np.random.default_rng(0)
    n_rows = max(1, min(n_rows, _MADE_NUMBERS // max(1, ensemble.n_columns)))
    made = rng.normal(size=(n_rows, ensemble.n_columns))
    for feature in np.unique(ensemble.feature[~ensemble.is_leaf]).tolist():
        nodes = ensemble.feature == feature
        codes = np.flatnonzero(nodes & (ensemble.category_set >= 0))
        if len(codes):
            made[:, feature] = rng.integers(0, int(np.max(ensemble.category_codes, initial=0)) + 1, n_rows)
        else:
            thresholds = ensemble.threshold[nodes]
            spread = float(np.ptp(thresholds)) or 1.0
            made[:, feature] = rng.choice(thresholds, n_rows) + rng.normal(scale=0.1 * spread, size=n_rows)
    return np.ascontiguousarray(made, dtype=ensemble.row_format.numpy_dtype)


def _made_model(n_trees: int = 100, depth: int = 6, n_features: int = 20) -> TreeEnsemble:
    """Complete trees that ask a random feature for a random threshold at each node."""
    rng = np.random.default_rng(0)
    n_inner, n_nodes = 2**depth - 1, 2 ** (depth + 1) - 1
    inner = np.arange(n_nodes) < n_inner
    cover = np.exp2(-np.floor(np.log2(np.arange(n_nodes) + 1)))
    size = n_trees * n_nodes
    return TreeEnsemble(
        tree_offsets=np.arange(n_trees + 1) * n_nodes,
        left=np.tile(np.where(inner, 2 * np.arange(n_nodes) + 1, -1), n_trees),
        right=np.tile(np.where(inner, 2 * np.arange(n_nodes) + 2, -1), n_trees),
        feature=np.where(np.tile(inner, n_trees), rng.integers(0, n_features, size), -1),
        threshold=rng.normal(size=size),
        cover=np.tile(cover, n_trees),
        value=np.where(np.tile(inner, n_trees), 0.0, rng.normal(size=size))[:, np.newaxis],
        base_values=np.zeros(1),
        row_format=RowFormat(n_features),
    )
