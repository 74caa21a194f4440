"""A device without a GPU: the sources of the kernels, compiled as plain C++, threads and blocks one after
another."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from linear_treeshap.engines.contract import Told, Values
from linear_treeshap.engines.cuda.device import SOURCES, Explain, source_of

__all__ = ["PlainDevice"]

#: The linker of sanitized Python finds their library already loaded.
_SANITIZERS = (
    ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    if "libasan" in os.environ.get("LD_PRELOAD", "")
    else []
)
_FLAGS = ["-std=c++20", "-O1", "-fPIC", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", *_SANITIZERS]
_LOCK = threading.Lock()


@cache
def _folder() -> Path:
    """Where compiled kernels are kept: by their sources, for all processes of this user."""
    folder = Path(tempfile.gettempdir()) / f"linear-treeshap-kernels-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    return folder


def _command() -> list[str]:
    return [os.environ.get("CXX", "c++"), *_FLAGS]


def _key(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:20]


def _run(command: list[str]) -> None:
    """Not under sanitizers: a compiler whose own memory is checked takes twice as long."""
    env = {name: text for name, text in os.environ.items() if name != "LD_PRELOAD"}
    subprocess.run(command, check=True, stderr=sys.stderr, env=env)


@cache
def _standard_headers() -> Path:
    """A header of all standard headers that kernels include, with its compiled form beside it: reading them
    would be a quarter of the time that a kernel takes to compile."""
    included = re.findall(r"^#include <.+>$", source_of("portable.h"), re.MULTILINE)
    target = _folder() / f"standard-{_key(*included, *_command())}"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=_folder()) as folder:
            header = Path(folder) / "built" / "standard.h"
            header.parent.mkdir()
            header.write_text("\n".join([*included, ""]))
            _run([*_command(), "-x", "c++-header", str(header), "-o", f"{header}.gch"])
            with suppress(OSError):  # another process was quicker
                header.parent.rename(target)
    return target / "standard.h"


@cache
def _library(file: str, defines: tuple[str, ...]) -> ctypes.CDLL:
    command = [*_command(), *defines]
    target = _folder() / f"{Path(file).stem}-{_key(source_of(file), *command)}.so"
    if not target.exists():
        built = target.with_suffix(f".{os.getpid()}")
        headers = ["-include", str(_standard_headers())]
        _run([*command, "-shared", *headers, "-x", "c++", str(SOURCES / file), "-o", str(built)])
        built.rename(target)
    return ctypes.CDLL(str(target))


class _PlainKernel:
    def __init__(self, function: Any, n_blocks: int) -> None:
        self._function, self._n_blocks = function, n_blocks
        function.argtypes = [ctypes.c_uint, ctypes.c_uint, ctypes.c_longlong, ctypes.c_void_p]
        function.restype = None

    def blocks_at_once(self, n_threads: int, n_shared: int) -> int:
        return self._n_blocks

    def launch(self, n_blocks: int, n_threads: int, n_shared: int, *parameters: int) -> None:
        self._function(n_blocks, n_threads, n_shared, (ctypes.c_longlong * len(parameters))(*parameters))


class PlainDevice:
    """``n_blocks`` that run at the same time, as the host code believes, and bytes of shared memory."""

    arrays = np

    def __init__(self, *, n_blocks: int = 3, max_shared: int = 100_000, n_rows: int | None = None) -> None:
        self.n_blocks, self.max_shared, self.n_rows = n_blocks, max_shared, n_rows

    def in_use(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def kernel(self, file: str, name: str, defines: Mapping[str, Any]) -> _PlainKernel:
        with _LOCK:
            library = _library(file, tuple(f"-D{key}={value}" for key, value in defines.items()))
        return _PlainKernel(getattr(library, name), self.n_blocks)

    def address(self, array: Any) -> int:
        return int(array.ctypes.data)

    def rows_at_once(self, n_rows: int, row_bytes: int, row_work: int) -> int:
        return self.n_rows or max(1, (1 << 22) // (row_work + 1))

    def is_here(self, array: Any) -> bool:
        return False

    def in_blocks(self, rows: Values, out: Values, n_at_once: int, explain: Explain, tell: Told) -> None:
        for start in range(0, len(rows), n_at_once):
            explain(rows[start : start + n_at_once], out[start : start + n_at_once])
            if tell is not None:
                tell(min(1.0, (start + n_at_once) / len(rows)))
