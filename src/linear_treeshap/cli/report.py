"""Write a page that shows which features matter, and why each row got its prediction."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from . import models, output, rows
from .arguments import add_inputs, command
from .numbers import count

__all__ = ["add_to"]

_EXAMPLES = """\
examples:
  linear-treeshap report model.json rows.parquet -o report.html
  linear-treeshap report model.txt rows.csv -o report.html --key customer --rows 2000

The page works offline and holds its rows. Of a larger file, rows are drawn at random, the
same ones each time, and the page says how many of how many.
"""


def add_to(subparsers: Any) -> argparse.ArgumentParser:
    parser = command(subparsers, "report", run, "write a page to look at", __doc__, _EXAMPLES)
    add_inputs(parser)
    output.add_arguments(parser, metavar="PAGE", help="page to write, such as report.html", table=False)
    parser.add_argument(
        "--rows", metavar="N", type=count, default=10_000, help="rows on the page at most (default: 10,000)"
    )
    parser.add_argument("--title", metavar="TEXT", help="heading of the page (default: names and numbers)")
    return parser


def run(args: argparse.Namespace) -> None:
    output.check_free(args.out, args.force, args.model, args.data)
    model = models.read(args.model, trust=args.trust, allow_pickle=args.allow_pickle)
    explainer = model.explainer(groups=models.read_groups(args.groups), n_jobs=args.n_jobs)
    reader = rows.RowReader(explainer, args.data, args.key)
    sample, positions, n_rows = reader.sample(args.rows)
    try:
        explanation = explainer(sample.rows)
    except Exception as error:
        raise reader.named(error, 0) from error
    n_shown = len(positions)
    shown = f"{n_rows:,} rows" if n_shown == n_rows else f"{n_shown:,} of {n_rows:,} rows, drawn at random"
    title = args.title or f"{args.model.name}: {shown}, of {args.data.name}"
    labelled = replace(explanation, index=_labels(reader.keys, sample, positions))
    with output.naming(args.out):
        labelled.report(args.out, title=title, max_rows=args.rows)
    print(f"Wrote {args.out}: {shown}.", file=sys.stderr)


def _labels(keys: Sequence[str], sample: rows.Batch, positions: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """What to call each row: its keys, or its number in the file."""
    if not keys:
        return positions
    cells = zip(*(sample.table.column(key).to_pylist() for key in keys), strict=True)
    return np.array([", ".join(map(str, key)) for key in cells], dtype=object)
