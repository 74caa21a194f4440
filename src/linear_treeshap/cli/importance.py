"""Rank features by how much they matter over all rows of a file."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from ..importance import global_importance
from ..progress import report
from ..results.sums import GlobalImportance
from . import models, rows
from .arguments import add_check_and_progress, add_inputs, command
from .numbers import count

__all__ = ["add_to"]

_EXAMPLES = """\
examples:
  linear-treeshap importance model.json rows.parquet
  linear-treeshap importance model.txt rows.csv --key customer --top 5
  linear-treeshap importance model.cbm rows.feather --json > importance.json

The importance of a feature is the mean of its absolute values; "mean" says which way it
pushes on the whole. Rows are read batch by batch and no values are kept, so that a file may
be larger than memory.
"""


def add_to(subparsers: Any) -> argparse.ArgumentParser:
    parser = command(subparsers, "importance", run, "rank features over all rows", __doc__, _EXAMPLES)
    add_inputs(parser)
    parser.add_argument("--top", metavar="K", type=count, help="only the K most important features")
    add_check_and_progress(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def run(args: argparse.Namespace) -> None:
    model = models.read(args.model, trust=args.trust, allow_pickle=args.allow_pickle)
    explainer = model.explainer(groups=models.read_groups(args.groups), n_jobs=args.n_jobs)
    reader = rows.RowReader(explainer, args.data, args.key)
    show = rows.shows_progress(args)
    first_row = 0
    with report(show) as tell:

        def batches() -> Iterator[Any]:
            nonlocal first_row
            for batch in reader:
                first_row = batch.first_row
                yield batch.rows
                tell(batch.share)

        try:
            found = global_importance(explainer, batches(), check_additivity=args.check)
        except Exception as error:
            raise reader.named(error, first_row) from error
    ranked = _ranked(found, args.top)
    if args.json:
        print(json.dumps({"rows": found.n_rows, "importance": ranked}))
    else:
        _print_table(found.n_rows, ranked)


def _ranked(found: GlobalImportance, top: int | None) -> list[dict[str, Any]]:
    """The rows of `GlobalImportance.to_frame`, as plain Python."""
    import pyarrow

    frame = found.to_frame(like=pyarrow.table({"": []}))
    lines: list[dict[str, Any]] = frame.to_pylist()
    return lines if top is None else lines[: top * len(found.output_names)]


def _print_table(n_rows: int, ranked: list[dict[str, Any]]) -> None:
    has_outputs = bool(ranked) and "output" in ranked[0]
    name_width = max([len("feature"), *(len(line["feature"]) for line in ranked)])
    output_width = max([len("output"), *(len(line["output"]) for line in ranked)]) if has_outputs else 0
    heading = f"{'feature':<{name_width}}  " + (f"{'output':<{output_width}}  " if has_outputs else "")
    print(f"{heading}{'mean |value|':>12}  {'mean':>12}   ({n_rows:,} rows)")
    for line in ranked:
        output = f"{line['output']:<{output_width}}  " if has_outputs else ""
        print(f"{line['feature']:<{name_width}}  {output}{line['mean_abs']:>12.6g}  {line['mean']:>12.6g}")
