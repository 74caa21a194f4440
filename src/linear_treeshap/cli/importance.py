"""Rank features by how much they matter over all rows of a file, or over those of each segment."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..importance import Labelled, importance_of
from ..progress import report
from ..results.sums import BySegment, GlobalImportance
from . import models, rows
from .arguments import add_check_and_progress, add_inputs, command
from .numbers import count

__all__ = ["add_to"]

_EXAMPLES = """\
examples:
  linear-treeshap importance model.json rows.parquet
  linear-treeshap importance model.txt rows.csv --key customer --top 5
  linear-treeshap importance model.cbm rows.feather --json > importance.json
  linear-treeshap importance model.json rows.parquet --by month --top 3

The importance of a feature is the mean of its absolute values; "mean" says which way it
pushes on the whole. Rows are read batch by batch and no values are kept, so that a file may
be larger than memory.
"""


def add_to(subparsers: Any) -> argparse.ArgumentParser:
    parser = command(subparsers, "importance", run, "rank features over all rows", __doc__, _EXAMPLES)
    add_inputs(parser)
    parser.add_argument("--top", metavar="K", type=count, help="only the K most important features")
    parser.add_argument(
        "--by",
        metavar="COLUMN",
        help="a ranking for each label of this column, which may be a feature or not",
    )
    add_check_and_progress(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def run(args: argparse.Namespace) -> None:
    model = models.read(args.model, trust=args.trust, allow_pickle=args.allow_pickle)
    explainer = model.explainer(groups=models.read_groups(args.groups), n_jobs=args.n_jobs)
    reader = rows.RowReader(explainer, args.data, args.key if args.by is None else [*args.key, args.by])
    show = rows.shows_progress(args)
    first_row = 0
    with report(show) as tell:

        def batches() -> Iterator[Labelled]:
            nonlocal first_row
            for batch in reader:
                first_row = batch.first_row
                yield batch.rows, _labels(batch.table, args.by)
                tell(batch.share)

        try:
            found = importance_of(explainer, batches(), check_additivity=args.check)
        except Exception as error:
            raise reader.named(error, first_row) from error
    segments = found if args.by is None else BySegment(args.by, found)
    ranked = {label: _ranked(one, args.top) for label, one in segments.items()}
    if args.json:
        said = [{"rows": segments[label].n_rows, "importance": lines} for label, lines in ranked.items()]
        by_label = [{args.by: label, **one} for label, one in zip(ranked, said, strict=True)]
        print(json.dumps(said[0] if args.by is None else by_label, default=str))
        return
    for number, (label, lines) in enumerate(ranked.items()):
        if args.by is not None:
            print(f"{chr(10) if number else ''}{args.by} = {label}")
        _print_table(segments[label].n_rows, lines)


def _labels(table: Any, by: str | None) -> Any:
    """The label of each row's segment; None if all are of one."""
    if by is None:
        return None
    labels = np.empty(table.num_rows, dtype=object)
    labels[:] = table.column(by).to_pylist()
    return labels


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
