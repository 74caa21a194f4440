"""Explain every row of a file: its Shapley values, written to a file."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..model.ensemble import TreeEnsemble
from ..progress import report
from ..results.explanation import Explanation
from . import models, output, rows
from .data import require_arrow
from .numbers import count, threads

__all__ = ["add_to"]

_EXAMPLES = """\
examples:
  a column of values per feature, in the order of the rows:
    linear-treeshap explain model.json rows.parquet -o values.parquet
  with the customer's number beside the values, and what they add up from:
    linear-treeshap explain model.txt rows.csv -o values.csv --key customer --base-values
  the three features that matter most for each row:
    linear-treeshap explain model.cbm rows.csv -o reasons.csv --key customer --top 3
  one class of several, a row per value, in half the bytes:
    linear-treeshap explain model.ubj rows.feather -o values.feather --only setosa \\
      --layout long --float32
  a value for each variable rather than for each of its one-hot columns:
    linear-treeshap explain model.json rows.parquet -o values.parquet --groups onehot
  a scikit-learn model that was saved by skops:
    linear-treeshap explain model.skops rows.csv -o values.csv --trust sklearn.tree._tree.Tree

The values of a row and the base value add up to the model's raw prediction, which is
log-odds for boosted classifiers. Rows are read, explained and written batch by batch, so
that a file may be larger than memory. The output appears when it is complete; an interrupted
or failed run leaves none. Keys of a CSV file are carried as text, as they are written there.
"""


def add_to(subparsers: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "explain", help="write the values of every row", description=__doc__, epilog=_EXAMPLES
    )
    models.add_arguments(parser)
    rows.add_arguments(parser)
    models.add_groups_argument(parser)
    output.add_arguments(parser, metavar="OUT", help="file to write: .parquet, .feather or .csv", table=True)
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument(
        "--layout",
        choices=["wide", "long"],
        help="a column per feature (wide, the default), or a row per value (long)",
    )
    shape.add_argument("--top", metavar="K", type=count, help="only the K largest values of each row, ranked")
    parser.add_argument("--only", metavar="OUTPUT", help="one output of several, by name or number")
    parser.add_argument("--base-values", action="store_true", help="add a column of base values")
    parser.add_argument("--float32", action="store_true", help="write values as float32")
    parser.add_argument("--n-jobs", metavar="N", type=threads, help="threads (default: all CPUs)")
    rows.add_check_argument(parser)
    rows.add_progress_argument(parser)
    parser.add_argument("--json", action="store_true", help="print what was done, as JSON")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> None:
    start = time.perf_counter()
    output.check_free(args.out, args.force, args.model, args.data)
    model = models.read(args.model, trust=args.trust, allow_pickle=args.allow_pickle)
    explainer = model.explainer(groups=models.read_groups(args.groups), n_jobs=args.n_jobs)
    reader = rows.RowReader(model, explainer, args.data, args.key)
    only = _position(args.only, explainer.ensemble)
    show = rows.shows_progress(args)
    n_rows = 0
    with output.writing(args.out) as write, report(show) as tell:
        for batch in reader:
            try:
                explanation = explainer(batch.rows, check_additivity=args.check)
            except Exception as error:
                raise reader.named(error, batch.first_row) from error
            write(_table(explanation if only is None else explanation[..., only], batch, args))
            n_rows += len(explanation)
            tell(batch.share)
    seconds = time.perf_counter() - start
    if args.json:
        print(json.dumps({"rows": n_rows, "seconds": round(seconds, 3), "out": str(args.out)}))
    elif show:
        print(f"Explained {n_rows:,} rows in {seconds:.1f} s: {args.out}", file=sys.stderr)


def _position(only: str | None, ensemble: TreeEnsemble) -> int | None:
    """Which output was asked for; None for all, and where there is but one."""
    if only is None:
        return None
    names = ensemble.output_names or tuple(map(str, range(ensemble.n_outputs)))
    numbers = [str(number) for number in range(ensemble.n_outputs)]
    if only not in names and only not in numbers:
        raise InputError(f"The model has no output {only!r}. It has: {', '.join(map(repr, names[:20]))}.")
    position = names.index(only) if only in names else numbers.index(only)
    return position if ensemble.n_outputs > 1 else None


def _table(explanation: Explanation, batch: rows.Batch, args: argparse.Namespace) -> Any:
    """The Arrow table of a batch: keys, base values if wanted, then what `Explanation` makes of values."""
    arrow = require_arrow()
    values = explanation.values.astype(np.float32) if args.float32 else explanation.values
    n_rows = len(values)
    explanation = replace(explanation, values=values, index=batch.first_row + np.arange(n_rows))
    frame = explanation.top(args.top) if args.top else explanation.to_frame(args.layout or "wide")
    table = frame if isinstance(frame, arrow.Table) else arrow.Table.from_pandas(frame, preserve_index=False)
    if args.top or args.layout == "long":
        table = table.drop_columns(["row"]) if batch.keys.num_columns else table
    first: dict[str, Any] = {}
    of_row = np.repeat(np.arange(n_rows), table.num_rows // n_rows if n_rows else 0)
    for name in batch.keys.column_names:
        first[name] = batch.keys.column(name).take(arrow.array(of_row))
    if args.base_values:
        first["base_value"] = _base_values(explanation, table)
    clash = [name for name in first if name in table.column_names]
    if clash:
        raise InputError(
            f"The output would have two columns of the name {clash[0]!r}. Rename the one in the data, or use "
            f"--layout long."
        )
    for position, (name, column) in enumerate(first.items()):
        table = table.add_column(position, name, column)
    return table


def _base_values(explanation: Explanation, table: Any) -> Any:
    """The base value of each line of the table.

    Lines go by row and output (wide), by row, feature and output (long), or by row, output and rank (top).
    """
    base = np.asarray(explanation.base_values, dtype=explanation.values.dtype)
    base = base if base.ndim == 2 else base[:, np.newaxis]
    times = table.num_rows // max(base.size, 1)
    axis = 2 if "rank" in table.column_names else 1
    return require_arrow().array(np.repeat(np.expand_dims(base, axis), times, axis=axis).reshape(-1))
