"""Explain every row of a file: its Shapley values, written to a file."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from ..progress import report
from ..streams.batch_explainer import BatchExplainer
from . import models, output, rows
from .arguments import add_check_and_progress, add_inputs, command
from .numbers import count

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
    parser = command(subparsers, "explain", run, "write the values of every row", __doc__, _EXAMPLES)
    add_inputs(parser)
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
    add_check_and_progress(parser)
    parser.add_argument("--json", action="store_true", help="print what was done, as JSON")
    return parser


def run(args: argparse.Namespace) -> None:
    start = time.perf_counter()
    output.check_free(args.out, args.force, args.model, args.data)
    model = models.read(args.model, trust=args.trust, allow_pickle=args.allow_pickle)
    explainer = model.explainer(groups=models.read_groups(args.groups), n_jobs=args.n_jobs)
    reader = rows.RowReader(explainer, args.data, args.key)
    explain = BatchExplainer(
        reader.columns,
        reader.schema,
        output="top" if args.top else "long" if args.layout == "long" else "columns",
        keep=reader.keys,
        top=args.top or 1,
        only=args.only,
        base_values=args.base_values,
        dtype="float32" if args.float32 else "float64",
        check_additivity=args.check,
    )
    show = rows.shows_progress(args)
    n_rows = 0
    with output.writing(args.out, explain.schema) as write, report(show) as tell:
        for batch in reader:
            try:
                values = explain.of_rows(batch.rows, batch.table, batch.first_row)
            except Exception as error:
                raise reader.named(error, batch.first_row) from error
            write(values)
            n_rows += batch.table.num_rows
            tell(batch.share)
    seconds = time.perf_counter() - start
    if args.json:
        print(json.dumps({"rows": n_rows, "seconds": round(seconds, 3), "out": str(args.out)}))
    elif show:
        print(f"Explained {n_rows:,} rows in {seconds:.1f} s: {args.out}", file=sys.stderr)
