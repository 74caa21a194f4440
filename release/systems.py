"""The core on other systems: `python -m release.systems [NAME …]`, all of them by default.

In come the sources; compilers, headers and libraries of other systems come with the package `ziglang`. For
each system the core and its check (core/check) are compiled, warnings being errors; the check is run where
the machine, or an emulator at hand, can run it. A line for each says which: "run" or "only compiled".
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SYSTEMS", "System", "check"]

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "systems"


@dataclass(frozen=True)
class System:
    """One to compile for; ``runs_with`` are programs that can run it, of which the first at hand does."""

    target: str  # as zig calls it
    cmake_name: str
    processor: str
    runs_with: tuple[str, ...] | None  # None: nothing here does; (): this machine does

    def runner(self) -> list[str] | None:
        if self.runs_with is None or not self.runs_with:
            return None if self.runs_with is None else []
        found = next(filter(None, map(shutil.which, self.runs_with)), None)
        return [found] if found else None


#: Linked with musl, a program needs nothing of the system it runs on: an emulator of the processor will do.
SYSTEMS = {
    "linux-arm-musl": System("aarch64-linux-musl", "Linux", "aarch64", ("qemu-aarch64",)),
    "windows": System("x86_64-windows-gnu", "Windows", "AMD64", ("wine64", "wine", "/usr/lib/wine/wine64")),
    "linux-musl": System("x86_64-linux-musl", "Linux", "x86_64", ()),
    "linux-arm": System("aarch64-linux-gnu.2.28", "Linux", "aarch64", None),
    "macos-arm": System("aarch64-macos", "Darwin", "arm64", None),
    "macos-intel": System("x86_64-macos", "Darwin", "x86_64", None),
}


def check(name: str) -> str:
    """Compiles, runs where that can be, and says which; CalledProcessError where anything is wrong."""
    system, folder = SYSTEMS[name], BUILD / name
    folder.mkdir(parents=True, exist_ok=True)
    compiler = folder / "compiler"  # CMake wants one word
    compiler.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang c++ -target {system.target} "$@"\n')
    compiler.chmod(0o755)
    configure = [
        "cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", "-DLTS_CHECK=ON", "-DLTS_WERROR=ON",
        "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_CXX_COMPILER={compiler}",
        f"-DCMAKE_SYSTEM_NAME={system.cmake_name}", f"-DCMAKE_SYSTEM_PROCESSOR={system.processor}",
    ]  # fmt: skip
    _quietly([*configure, "--log-level=WARNING"])
    _quietly(["cmake", "--build", str(folder), "--parallel", str(os.cpu_count() or 1)])
    program = next(path for path in (folder / "check.exe", folder / "check") if path.exists())
    runner = system.runner()
    if runner is None:
        return f"{name} ({system.target}): only compiled"
    said = _quietly([*runner, str(program)]).strip().splitlines()[-1]
    return f"{name} ({system.target}): run{f' by {Path(runner[0]).name}' if runner else ''}: {said}"


def _quietly(command: list[str]) -> str:
    """What it says, if it fails; what it returns is its output."""
    environment = os.environ | {"WINEDEBUG": "-all"}
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment
    )
    if result.returncode != 0:
        print(result.stdout + result.stderr, file=sys.stderr)
        result.check_returncode()
    return result.stdout


if __name__ == "__main__":
    for chosen in sys.argv[1:] or SYSTEMS:
        print(check(chosen), flush=True)
