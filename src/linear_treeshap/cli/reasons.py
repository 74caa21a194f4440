"""Write the main reasons for the output of every row, for letters and case files."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ..errors import FileFormatError, InputError
from ..progress import report
from ..results.explanation import Explanation
from ..results.reasons import Reasons
from ..streams.arrow import require_arrow
from . import models, output, rows
from .arguments import add_check_and_progress, add_inputs, command
from .numbers import count

__all__ = ["add_to"]

_EXAMPLES = """\
examples:
  four reasons why an application is risky, with their codes:
    linear-treeshap reasons model.json rows.parquet -o reasons.csv --key application \\
      --toward up --codes codes.json
  only for those that were declined, and never the age:
    linear-treeshap reasons model.txt rows.csv -o reasons.csv --key application \\
      --toward up --threshold 0.4 --exclude age
  a line for each application:
    linear-treeshap reasons model.json rows.parquet -o reasons.csv --toward up --wide

A file of codes is JSON: {"duration": "R02", "credit_amount": ["R07", "amount requested"]}.
Outputs, thresholds and values are the model's raw ones, log-odds for boosted classifiers. A
reason's share is of the distance from the threshold (or the base value) to the output, its
margin the lead over the largest contribution that is not named.
"""

_NUMBERS = ("value", "share", "margin", "undisclosed")


def add_to(subparsers: Any) -> argparse.ArgumentParser:
    parser = command(
        subparsers,
        "reasons",
        run,
        help="write the main reasons of every row",
        about=__doc__,
        examples=_EXAMPLES,
    )
    add_inputs(parser)
    output.add_arguments(parser, metavar="OUT", help="file to write: .parquet, .feather or .csv", table=True)
    parser.add_argument(
        "--toward",
        metavar="WAY",
        required=True,
        help="what is to be explained: 'up', 'down', or one output of several by name, whose rise is",
    )
    parser.add_argument("--top", metavar="K", type=count, default=4, help="reasons of a row (default: 4)")
    parser.add_argument("--codes", metavar="JSON", type=Path, help="a file of codes, by feature")
    parser.add_argument(
        "--exclude", metavar="FEATURE", action="append", default=[], help="never name it; may be repeated"
    )
    parser.add_argument("--minimum", metavar="SHARE", type=float, default=0.0, help="the least share")
    parser.add_argument("--threshold", metavar="X", type=float, help="only rows whose output is beyond it")
    parser.add_argument("--wide", action="store_true", help="a line for each row instead of each reason")
    add_check_and_progress(parser)
    return parser


def run(args: argparse.Namespace) -> None:
    output.check_free(args.out, args.force, args.model, args.data)
    codes = None if args.codes is None else _read_codes(args.codes)
    model = models.read(args.model, trust=args.trust, allow_pickle=args.allow_pickle)
    explainer = model.explainer(groups=models.read_groups(args.groups), n_jobs=args.n_jobs)
    reader = rows.RowReader(explainer, args.data, args.key)
    schema = _schema(args, codes, reader)
    with output.writing(args.out, schema) as write, report(rows.shows_progress(args)) as tell:
        for batch in reader:
            try:
                explanation = explainer(batch.rows, check_additivity=args.check)
                table = _table(explanation, args, codes, batch, reader.keys, schema)
            except Exception as error:
                raise reader.named(error, batch.first_row) from error
            write(table)
            tell(batch.share)
    if rows.shows_progress(args):
        print(f"Wrote {args.out}.", file=sys.stderr)


def _table(
    explanation: Explanation,
    args: argparse.Namespace,
    codes: dict[str, Any] | None,
    batch: rows.Batch,
    keys: tuple[str, ...],
    schema: Any,
) -> Any:
    """The reasons of a batch: its keys, or the number of each row, before them."""
    arrow = require_arrow()
    found = Reasons.of(
        explanation,
        args.top,
        args.toward,
        exclude=args.exclude,
        minimum=args.minimum,
        threshold=args.threshold,
    )
    texts = [[None if cell is None else str(cell) for cell in column] for column in explanation.cells or ()]
    columns = found.columns(explanation.full_feature_names, codes, texts)
    at = list(range(found.n_rows)) if args.wide else found.row.tolist()
    if args.wide:
        columns = found.wide(columns, args.top)
    first = {key: batch.table.column(key).take(arrow.array(at, arrow.int64())) for key in keys}
    if not keys:
        first = {"row": [batch.first_row + row for row in at]}
    return arrow.table({**first, **columns}, schema=schema)


def _schema(args: argparse.Namespace, codes: dict[str, Any] | None, reader: rows.RowReader) -> Any:
    arrow = require_arrow()
    has_texts = codes is not None and any(not isinstance(code, str) for code in codes.values())
    titles = [*(["code"] if codes is not None else []), *(["text"] if has_texts else []), "feature"]
    titles += ["value", "data", "share", "margin"]
    types = {title: arrow.float64() if title in _NUMBERS else arrow.string() for title in titles}
    if args.wide:
        fields = [(f"{title}_{i + 1}", types[title]) for i in range(args.top) for title in titles]
    else:
        fields = [("rank", arrow.int64()), *types.items(), ("undisclosed", arrow.float64())]
    first = [(key, reader.schema.field(key).type) for key in reader.keys] or [("row", arrow.int64())]
    return arrow.schema([*first, *fields])


def _read_codes(path: Path) -> dict[str, Any]:
    """Feature → code, or a pair of a code and a text."""
    try:
        codes = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"There is no file {str(path)!r} of codes.") from error
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"Cannot read {str(path)!r} as JSON: {error}.") from error
    pairs = codes.values() if isinstance(codes, dict) else [None]
    if not all(isinstance(code, str) or _is_pair(code) for code in pairs):
        raise FileFormatError(
            f"{str(path)!r} must hold an object such as "
            f'{{"duration": "R02", "amount": ["R07", "amount asked"]}}.'
        )
    return dict(codes)


def _is_pair(code: Any) -> bool:
    return isinstance(code, list) and len(code) == 2 and all(isinstance(text, str) for text in code)
