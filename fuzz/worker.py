"""A process that runs cases, one after another, until it is told to stop: its standard input ends.

It writes a line of JSON when it is ready, and one for each case: ``{"case", "checks", "findings"}``. A case
that reads a file leaves it at `input_path`: if it fails, or the process dies, that file is kept.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import shutil
import sys
import tempfile
import warnings
import zlib
from dataclasses import asdict, astuple
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from .tally import Finding, Tally

__all__ = ["generator", "input_path", "keep_input", "main", "run_case", "scratch_folder"]

#: The variable that names the folder.
SCRATCH = "LINEAR_TREESHAP_FUZZ_SCRATCH"


def generator(function: str, seed: int, case: int) -> np.random.Generator:
    """All randomness of a case: the same for the same fuzzer, seed and number, wherever it is run."""
    return np.random.default_rng([zlib.crc32(function.encode()), seed, case])


def run_case(function: str, seed: int, case: int) -> Tally:
    module, _, name = function.partition(":")
    tally: Tally = getattr(import_module(module), name)(generator(function, seed, case))
    return tally


def scratch_folder() -> Path:
    """A folder that all processes of a campaign share."""
    return Path(os.environ.get(SCRATCH) or tempfile.gettempdir())


def input_path() -> Path:
    """Where a case puts the file it reads."""
    return scratch_folder() / str(os.getpid())


def keep_input(path: Path, folder: Path, seed: int, case: int) -> Path | None:
    """Move the file a case has read, if it has, to where somebody will look at it."""
    if not path.is_file():
        return None
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.move(path, folder / f"{seed}-{case}"))


def main() -> None:
    task = json.loads(sys.argv[1])
    faulthandler.enable()
    # What libraries say does not belong between our lines.
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    os.environ[SCRATCH] = task["scratch"]
    module = import_module(task["function"].partition(":")[0])
    if hasattr(module, "prepare"):  # what takes long, and is not a case's fault
        module.prepare()
    _limit_memory(task["memory_bytes"])
    _tell(told, {"ready": True})
    case = task["first"]
    while (task["end"] is None or case < task["end"]) and not _is_told_to_stop():
        input_path().unlink(missing_ok=True)
        tally = run_case(task["function"], task["seed"], case)
        if tally.findings:
            kept = keep_input(input_path(), Path(task["findings_folder"]), task["seed"], case)
            also = f"; input {kept}" if kept else ""
            tally.findings = [Finding(found.check, found.what + also) for found in tally.findings]
        checks = {name: astuple(check) for name, check in tally.checks.items()}
        _tell(told, {"case": case, "checks": checks, "findings": list(map(asdict, tally.findings))})
        case += task["step"]


def _tell(told: Any, what: dict[str, Any]) -> None:
    told.write(json.dumps(what) + "\n")
    told.flush()


def _is_told_to_stop() -> bool:
    """Nothing is ever written to standard input, so there is something to read only at its end."""
    return bool(select.select([0], [], [], 0)[0])


def _limit_memory(more: int) -> None:
    """Let this process take ``more`` bytes than it has now."""
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
