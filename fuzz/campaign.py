"""Many cases on all cores: each core has a process that runs cases one after another and tells of each.

A process that dies, or tells nothing for too long, is itself a finding: that of the case it was in. Another
one goes on with the next case. What comes out is a `Result`, the same for the same seed and number of cases.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from .tally import Check, Finding, Tally
from .worker import keep_input

__all__ = ["CORPUS", "DICTIONARIES", "FUZZERS", "LIMITS", "ROOT", "Plan", "Result", "run"]

ROOT = Path(__file__).parents[1]
#: Format → small whole files, and the words in them that matter (`seeds`).
CORPUS, DICTIONARIES = ROOT / "fuzz" / "corpus", ROOT / "fuzz" / "dictionaries"

#: Name → the function that runs a case, given a random generator.
FUZZERS = {
    "values": "fuzz.values:case",
    "libraries": "fuzz.libraries:case",
    "files": "fuzz.files:case",
}

#: What else a plan has unless it is asked for something else. Files are small: whatever takes long is worth a
#: look. The other fuzzers may make a case smaller that fails.
LIMITS: dict[str, dict[str, Any]] = {"files": {"limit_seconds": 10.0}}

#: Python, the libraries and the corpus of files have to be loaded before the first case.
_START_SECONDS = 300.0
#: Files that live for a few milliseconds need no disk, whose flushing would take most of the time.
_MEMORY = Path("/dev/shm")
#: Of each check.
_KEPT_FINDINGS = 100


@dataclass(frozen=True)
class Plan:
    """What to run."""

    fuzzer: str  # a name in FUZZERS, or "module:function" of one's own
    seed: int
    first: int = 0
    cases: int | None = None  # None: as many as there is time for
    seconds: float = 60.0
    jobs: int = 1
    limit_seconds: float = 120.0  # a case that takes longer hangs
    #: Beyond what a process needs to start.
    memory_bytes: int = 4 << 30
    findings_folder: Path = Path("fuzz-findings")

    @classmethod
    def of(cls, fuzzer: str, seed: int, **options: Any) -> Plan:
        """A plan with the fuzzer's own limits."""
        return cls(fuzzer, seed, **{**LIMITS.get(fuzzer, {}), **options})

    @property
    def function(self) -> str:
        return FUZZERS.get(self.fuzzer, self.fuzzer)

    def command(self, case: int) -> str:
        """The line that repeats one case."""
        return f"python -m fuzz {self.fuzzer} --seed {self.seed} --case {case}"


@dataclass
class Result:
    fuzzer: str
    seed: int
    cases: int = 0
    seconds: float = 0.0
    checks: dict[str, Check] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)  # check → cases that failed it
    findings: list[tuple[int, Finding]] = field(default_factory=list)  # case, what it found: the first ones

    def add(self, case: int, tally: Tally) -> None:
        self.cases += 1
        for name, check in tally.checks.items():
            self.checks.setdefault(name, Check()).add(check)
        # A check that complains of a case twice complains of the same thing.
        for found in {found.check: found for found in reversed(tally.findings)}.values():
            self.counts[found.check] += 1
            if self.counts[found.check] <= _KEPT_FINDINGS:
                self.findings.append((case, found))


def run(plan: Plan) -> Result:
    """Run a plan; cases are dealt to processes like cards, so each number is run once."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as scratch:
        return _run(plan, Path(scratch))


def _run(plan: Plan, scratch: Path) -> Result:
    result, begin = Result(plan.fuzzer, plan.seed), time.monotonic()
    n_jobs = plan.jobs if plan.cases is None else max(1, min(plan.jobs, plan.cases))
    workers = [_Worker(plan, scratch, plan.first + i, n_jobs) for i in range(n_jobs)]
    selector = selectors.DefaultSelector()
    try:
        for worker in workers:
            worker.start(selector)
        while any(worker.is_alive for worker in workers):
            for key, _ in selector.select(timeout=0.2):
                key.data.read(selector, result)
            for worker in workers:
                worker.watch(selector, result)
            if time.monotonic() - begin > plan.seconds:
                for worker in workers:
                    worker.ask_to_stop()
    finally:
        for worker in workers:
            worker.kill()
        selector.close()
    result.seconds = time.monotonic() - begin
    result.findings.sort(key=lambda found: found[0])
    return result


class _Worker:
    """A process that runs every ``step``-th case from some number on, and the next one where it dies."""

    def __init__(self, plan: Plan, scratch: Path, first: int, step: int) -> None:
        self.plan, self.scratch, self.case, self.step = plan, scratch, first, step
        self.process: subprocess.Popen[bytes] | None = None
        self.errors: IO[bytes] | None = None
        self.deadline = 0.0
        self.buffer = b""
        self.is_stopping = False

    @property
    def is_alive(self) -> bool:
        return self.process is not None

    def start(self, selector: selectors.BaseSelector) -> None:
        end = None if self.plan.cases is None else self.plan.first + self.plan.cases
        if self.is_stopping or (end is not None and self.case >= end):
            return
        task = {
            "function": self.plan.function,
            "seed": self.plan.seed,
            "first": self.case,
            "step": self.step,
            "end": end,
            "memory_bytes": self.plan.memory_bytes,
            "scratch": str(self.scratch),
            "findings_folder": str(self.plan.findings_folder),
        }
        paths = [str(ROOT), str(ROOT / "tests" / "support"), os.environ.get("PYTHONPATH", "")]
        # A case is one thread's work; libraries that start a thread per core would only stand in the way.
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "OMP_NUM_THREADS": "1",
        }
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `_ended`
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.worker", json.dumps(task)],
            stdout=subprocess.PIPE,
            stdin=subprocess.PIPE,
            stderr=self.errors,
            env=environment,
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        selector.register(self.process.stdout, selectors.EVENT_READ, self)
        self.deadline = time.monotonic() + _START_SECONDS

    def read(self, selector: selectors.BaseSelector, result: Result) -> None:
        """Take what the process has told; at the end of that, see how it ended."""
        assert self.process is not None
        assert self.process.stdout is not None
        told = self.process.stdout.read()
        if told:
            *lines, self.buffer = (self.buffer + told).split(b"\n")
            for line in lines:
                self._hear(json.loads(line), result)
        elif told == b"":
            self._ended(selector, result)

    def watch(self, selector: selectors.BaseSelector, result: Result) -> None:
        if self.process is not None and time.monotonic() > self.deadline:
            # A process that is aborted says where it was.
            self.process.send_signal(signal.SIGABRT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(2)
            self.kill()
            self._ended(selector, result, is_late=True)

    def ask_to_stop(self) -> None:
        """After the case that is under way."""
        self.is_stopping = True
        if self.process is not None and self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def _hear(self, told: dict[str, Any], result: Result) -> None:
        self.deadline = time.monotonic() + self.plan.limit_seconds
        if "checks" not in told:  # ready, or a case begins
            return
        tally = Tally(
            {name: Check(*numbers) for name, numbers in told["checks"].items()},
            [Finding(**found) for found in told["findings"]],
        )
        result.add(told["case"], tally)
        self.case = told["case"] + self.step

    def _ended(self, selector: selectors.BaseSelector, result: Result, *, is_late: bool = False) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        assert self.errors is not None
        selector.unregister(self.process.stdout)
        code = self.process.wait()
        self.errors.seek(0)
        words = self.errors.read().decode(errors="replace").strip().splitlines()
        self.process.stdout.close()
        self.errors.close()
        if self.process.stdin is not None:
            self.process.stdin.close()
        pid, self.process, self.buffer = self.process.pid, None, b""
        if code == 0:
            return
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        why = f"no answer within {self.plan.limit_seconds:g} s" if is_late else f"ended with {name}"
        # Of a signal, the innermost line of Python; else the exception.
        frames = [line.strip() for line in words if line.strip().startswith("File")]
        why += f": {frames[0] if frames and code < 0 else words[-1] if words else 'silently'}"
        if kept := keep_input(self.scratch / str(pid), self.plan.findings_folder, self.plan.seed, self.case):
            why += f"; input {kept}"
        tally = Tally()
        tally.complain("hang" if is_late else "crash", why)
        result.add(self.case, tally)
        self.case += self.step
        self.start(selector)
