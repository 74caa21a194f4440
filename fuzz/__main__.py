"""The command line: `python -m fuzz`, all fuzzers in turn; exit code 1 if any of them found something."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .campaign import FUZZERS, Plan, Result, run

__all__ = ["main"]

#: Of each check, so many findings are printed.
_SHOWN = 3


def main(arguments: list[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    seed = time.time_ns() % 2**32 if asked.seed is None else asked.seed
    names = [asked.fuzzer] if asked.fuzzer else list(FUZZERS)
    print(f"seed {seed}", flush=True)
    results = []
    for name in names:
        one = asked.case is not None
        plan = Plan.of(
            name,
            seed,
            first=asked.case if one else 0,
            cases=1 if one else asked.cases,
            seconds=float("inf") if one or asked.cases is not None else 60 * asked.minutes / len(names),
            jobs=1 if one else asked.jobs,
            findings_folder=asked.folder,
        )
        results.append(run(plan))
        print(_report(results[-1], plan), flush=True)
    if asked.json is not None:
        asked.json.write_text(json.dumps([_document(result) for result in results], indent=2) + "\n")
    return int(any(result.findings for result in results))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument(
        "fuzzer", nargs="?", choices=list(FUZZERS), help="one of them; all in turn by default"
    )
    parser.add_argument("--minutes", type=float, default=3.0, help="for all fuzzers together (default 3)")
    parser.add_argument("--seed", type=int, help="that of an earlier run, to repeat it")
    parser.add_argument("--cases", type=int, help="run so many cases, however long that takes")
    parser.add_argument("--case", type=int, help="run this case only")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    parser.add_argument("--folder", type=Path, default=Path("fuzz-findings"), help="for files that failed")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser


def _report(result: Result, plan: Plan) -> str:
    width = max([len(name) for name in result.checks], default=0)
    shown: Counter[str] = Counter()
    lines = []
    for case, found in result.findings:
        shown[found.check] += 1
        if shown[found.check] <= _SHOWN:
            lines += [f"FOUND {found.check}: {found.what}", f"      {plan.command(case)}"]
    table = [
        f"  {name:{width}}  {check.count:>9,}  {check.numbers:>12,}  {check.worst:>8.1e}  "
        f"{result.counts[name]:>8,}"
        for name, check in sorted(result.checks.items())
    ]
    head = f"  {'check':{width}}  {'times':>9}  {'numbers':>12}  {'worst':>8}  {'findings':>8}"
    title = f"{result.fuzzer}: {result.cases:,} cases in {result.seconds:.0f} s, seed {result.seed}"
    return "\n".join(
        [title, head, *table, *lines, f"{result.fuzzer}: {result.counts.total():,} findings", ""]
    )


def _document(result: Result) -> dict[str, Any]:
    return {
        "fuzzer": result.fuzzer,
        "seed": result.seed,
        "cases": result.cases,
        "seconds": result.seconds,
        "checks": {
            name: {**asdict(check), "findings": result.counts[name]} for name, check in result.checks.items()
        },
        "findings": [{"case": case, **asdict(found)} for case, found in result.findings],
    }


if __name__ == "__main__":
    sys.exit(main())
