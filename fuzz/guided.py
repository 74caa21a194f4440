"""`python -m fuzz.guided`: coverage-guided fuzzing of every reader of files, and of whole models.

libFuzzer starts from the files in fuzz/corpus and keeps what reaches something new in build/fuzz-corpus,
where the next run goes on. Readers in C++, and all engines on any model, are native programs under
AddressSanitizer and UndefinedBehaviorSanitizer (fuzz/native); readers in Python run under Atheris (`target`).
Whatever ends a program is a finding: its input is kept in fuzz-findings, with the line that repeats it. The
exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from .campaign import CORPUS, DICTIONARIES, ROOT
from .worker import SCRATCH

__all__ = ["TARGETS", "Outcome", "main", "run"]

#: Target → the format that it reads, which has seeds and a dictionary.
NATIVE = {
    "explain": "explain",
    "read_json": "xgboost_json",
    "read_ubjson": "xgboost_ubjson",
    "read_lightgbm": "lightgbm",
}
PYTHON = (
    "saved",
    "dictionary",
    "xgboost json",
    "xgboost ubjson",
    "lightgbm",
    "catboost",
    "treelite",
    "onnx",
    "gpboost",
    "h2o",
    "ydf",
    "spark",
)
TARGETS = (*NATIVE, *PYTHON)
READERS = tuple(target for target in TARGETS if target != "explain")

#: A file is small, so whatever takes long, or much memory, is worth a look; sanitizers take a share of both.
_PATIENCE_SECONDS = 300.0  # to start, and to end after its time
_LIMITS = (
    *("-timeout=20", "-rss_limit_mb=4096", "-malloc_limit_mb=2048"),
    *("-print_final_stats=1", "-reload=1"),
)


@dataclass(frozen=True)
class Outcome:
    target: str
    executions: int
    features: int  # what libFuzzer counts as covered: places, how often, and comparisons
    seconds: float
    finding: str  # what ended it, and how to repeat that; empty if nothing did


def command(target: str, native: Path) -> list[str]:
    """What runs a target; files, or libFuzzer's own arguments, are to follow."""
    return [str(native / target)] if target in NATIVE else [sys.executable, "-m", "fuzz.target", target]


def run(target: str, seconds: float, seed: int, native: Path, grown: Path, findings: Path) -> Outcome:
    """Fuzz one target in one process for some time, or until something is found."""
    own = grown / target.replace(" ", "_")
    own.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={max(1, round(seconds))}",
        f"-seed={seed}",
        f"-artifact_prefix={findings.resolve()}/{own.name}-",
    ]
    begin = time.monotonic()
    line = [*command(target, native), *_LIMITS, *options, *_beginning(target, own)]
    code, said = _ended(line, seconds + _PATIENCE_SECONDS)
    finding = "" if code == 0 else _finding(target, said, command(target, native))
    return Outcome(
        target,
        max([int(n) for n in re.findall(r"(?m)(?:^#|number_of_executed_units: )(\d+)", said)], default=0),
        max([int(n) for n in re.findall(r" ft: (\d+)", said)], default=0),
        time.monotonic() - begin,
        f"{finding} (it did not end)" if code is None else finding,
    )


def _beginning(target: str, own: Path) -> list[str]:
    """Words, inputs that were kept, and seeds."""
    kind = NATIVE.get(target, target.replace(" ", "_"))
    dictionary = DICTIONARIES / f"{kind}.dict"
    words = [f"-dict={dictionary}"] if dictionary.exists() else []
    return [*words, str(own.resolve()), str(CORPUS / kind)]


def _ended(line: list[str], patience: float) -> tuple[int | None, str]:
    """The exit code of a program, None if it had to be killed, and what it said."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch, (Path(scratch) / "said").open("w+b") as log:
        environment = {
            **os.environ,
            SCRATCH: scratch,
            "OMP_NUM_THREADS": "1",
            "UBSAN_OPTIONS": "print_stacktrace=1",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
        }
        process = subprocess.Popen(line, stdout=log, stderr=log, env=environment)
        code: int | None
        try:
            code = process.wait(patience)
        except subprocess.TimeoutExpired:  # the alarm of Atheris can get stuck in the allocator
            process.kill()
            process.wait()
            code = None
        log.seek(0)
        return code, log.read().decode(errors="replace")


def _finding(target: str, said: str, repeat: list[str]) -> str:
    """The line that says what is wrong, and the one that repeats it."""
    signs = (
        r"ERROR: \w+Sanitizer|runtime error|ERROR: libFuzzer|Uncaught Python exception|, expected |\w+Error: "
    )
    lines = [line.strip() for line in said.splitlines() if re.search(signs, line)]
    kept = re.search(r"Test unit written to (\S+)", said)
    what = "; ".join(lines[:3]) if lines else " ".join(said.split()[-40:])
    words = " ".join(f"'{word}'" if " " in word else word for word in repeat)
    return f"{target}: {what[:600]}\n      {words} {kept.group(1) if kept else '(no input was kept)'}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.guided", description=__doc__)
    parser.add_argument("targets", nargs="*", help=f"some of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--readers", action="store_true", help="all targets that read files")
    parser.add_argument("--minutes", type=float, default=3.0, help="for all targets together (default 3)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    parser.add_argument("--native", type=Path, default=Path("build/fuzz"), help="where native targets are")
    parser.add_argument(
        "--grown", type=Path, default=Path("build/fuzz-corpus"), help="for inputs that were kept"
    )
    parser.add_argument("--folder", type=Path, default=Path("fuzz-findings"), help="for inputs that failed")
    asked = parser.parse_args(arguments)
    unknown = set(asked.targets) - set(TARGETS)
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    targets = asked.targets or [
        target for target in (READERS if asked.readers else TARGETS) if _can_run(target)
    ]
    copies = max(1, asked.jobs // len(targets))
    seconds = 60 * asked.minutes * asked.jobs / (len(targets) * copies)
    with ThreadPoolExecutor(asked.jobs) as pool:
        runs = [
            pool.submit(run, target, seconds, copy + 1, asked.native, asked.grown, asked.folder)
            for copy in range(copies)
            for target in targets
        ]
        outcomes = [one.result() for one in runs]
    print(_report(outcomes), flush=True)
    return int(any(outcome.finding for outcome in outcomes))


def _can_run(target: str) -> bool:
    """Spark's tables are pyarrow's to write and to read."""
    can = target != "spark" or find_spec("pyarrow") is not None
    if not can:
        print(f"{target}: left out, because pyarrow is not installed", flush=True)
    return can


def _report(outcomes: list[Outcome]) -> str:
    lines = [f"{'target':16} {'executions':>12} {'features':>9} {'seconds':>8} {'findings':>8}"]
    for target in dict.fromkeys(outcome.target for outcome in outcomes):
        own = [outcome for outcome in outcomes if outcome.target == target]
        lines.append(
            f"{target:16} {sum(one.executions for one in own):>12,} {max(one.features for one in own):>9,} "
            f"{sum(one.seconds for one in own):>8.0f} {sum(bool(one.finding) for one in own):>8}"
        )
    return "\n".join([*lines, *(f"FOUND {one.finding}" for one in outcomes if one.finding)])


if __name__ == "__main__":
    sys.exit(main())
