"""What the engine needs of a device, whatever it is: arrays, kernels, and rows that come and go.

`gpu.py` is a GPU, through CuPy. Tests have one more, on which the same sources run as plain C++.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..contract import Told, Values

__all__ = ["C_NAMES", "SOURCES", "Device", "Explain", "Kernel", "source_of"]

#: Rows of the device in, their values written to another array there.
Explain = Callable[[Any, Any], None]

#: Floating-point types as kernels call them.
C_NAMES = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
#: Where the sources of the kernels are.
SOURCES = Path(__file__).parent


def source_of(file: str) -> str:
    """The text of a kernel's source with its headers in it, each once: what compilers and those who keep what
    was compiled know it by."""
    seen = set[str]()

    def text(name: str) -> str:
        if name in seen:
            return ""
        seen.add(name)
        whole = (SOURCES / name).read_text().replace("#pragma once\n", "")
        return re.sub(r'#include "(\w+\.h)"\n', lambda found: text(found[1]), whole)

    return text(file)


class Kernel(Protocol):
    """A compiled kernel."""

    def blocks_at_once(self, n_threads: int, n_shared: int) -> int:
        """How many blocks of so many threads and bytes of shared memory the device runs at the same time."""

    def launch(self, n_blocks: int, n_threads: int, n_shared: int, *parameters: int) -> None:
        """Addresses on the device, and whole numbers."""


class Device(Protocol):
    """Where kernels run."""

    @property
    def arrays(self) -> Any:
        """The module of its arrays: cupy, or numpy."""

    @property
    def max_shared(self) -> int:
        """Bytes of shared memory that a block may have."""

    def in_use(self) -> AbstractContextManager[Any]:
        """All that follows is about this device."""

    def kernel(self, file: str, name: str, defines: Mapping[str, Any]) -> Kernel:
        """Compiled when it is first asked for, and kept."""

    def address(self, array: Any) -> int:
        """Of an array of the device."""

    def rows_at_once(self, n_rows: int, row_bytes: int, row_work: int) -> int:
        """How many of some rows to explain at once, if each takes so many bytes, and so many leaves times
        points: within the memory, and so that a call can be interrupted."""

    def is_here(self, array: Any) -> bool:
        """Is this an array of the device?"""

    def in_blocks(self, rows: Values, out: Values, n_at_once: int, explain: Explain, tell: Told) -> None:
        """Bring rows that are not here, so many at a time, to ``explain``, and take the values it writes
        back."""
