"""A GPU of NVIDIA's, through CuPy, which compiles the kernels when they are first needed and keeps them on
disk.

Work goes to the caller's current stream. Rows in ordinary memory come in blocks through memory that the GPU
reads by itself, so that copying, both ways, goes on while other blocks are computed.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from ...errors import InputError, MissingDependencyError, how_to_install
from ..contract import Told, Values
from ..threads import available_cpus
from .device import Explain, Kernel, source_of

__all__ = ["Gpu", "find_gpu"]

#: Bytes of a block of rows from ordinary memory, with its values, at least and at most; blocks that are on
#: their way at once; and into how many a call is cut if these bytes allow: the first one has to come before
#: anything is computed.
_MIN_BLOCK, _MAX_BLOCK, _N_LANES, _N_BLOCKS = 1 << 23, 1 << 25, 3, 4
#: What the rows that are explained at once may take.
_MEMORY = 1 << 30
#: What they may take without asking for how much is free.
_SMALL_MEMORY = 1 << 25
#: Leaves times points times rows that take a fraction of a second.
_WORK = 1 << 37
#: Threads that copy rows and values: more do not make memory faster.
_COPY_THREADS = 8


def _gpu_number(device: str) -> int | None:
    """The number of a GPU that was asked for as "cuda" or "cuda:1"; None for the current one."""
    match = re.fullmatch(r"cuda(?::(\d+))?", device)
    if match is None:
        raise InputError(
            f"device must be 'cpu', 'cuda', 'cuda:1' or another number, or 'auto', got {device!r}."
        )
    return None if match[1] is None else int(match[1])


def find_gpu(device: str) -> Gpu:
    """The GPU of this name, or an error that says what is missing."""
    number = _gpu_number(device)
    cupy = _cupy(device)
    try:
        n_gpus = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise MissingDependencyError(
            f"device={device!r} needs a GPU of NVIDIA's and its driver, and CuPy finds none: {error}. Use "
            f"device='cpu', or 'auto' for a GPU where there is one."
        ) from error
    number = cupy.cuda.Device().id if number is None else number
    if number >= n_gpus:
        raise InputError(f"device={device!r} was asked for, and there are {n_gpus} GPUs: count from 0.")
    return _gpu(number)


def _cupy(device: str) -> Any:
    try:
        import cupy
    except ImportError as error:
        raise MissingDependencyError(
            f"device={device!r} needs CuPy, which is not installed. {how_to_install('cuda13')} (or "
            f"'.[cuda12]' where the driver knows CUDA 12 and not 13: nvidia-smi says which)"
        ) from error
    return cupy


@cache
def _gpu(number: int) -> Gpu:
    return Gpu(number)


class Gpu:
    """One GPU, by its number. See `Device`."""

    def __init__(self, number: int) -> None:
        import cupy

        self.number = number
        self.arrays: Any = cupy
        with self.in_use():
            self._device = cupy.cuda.Device(number)
            self.attributes: dict[str, int] = self._device.attributes
        self.max_shared = self.attributes["MaxSharedMemoryPerBlockOptin"]
        self._kernels: dict[Any, _GpuKernel] = {}
        self._lock = threading.Lock()

    def in_use(self) -> AbstractContextManager[Any]:
        return self.arrays.cuda.Device(self.number)  # type: ignore[no-any-return]

    def kernel(self, file: str, name: str, defines: Mapping[str, Any]) -> Kernel:
        key = (file, name, *defines.items())
        with self._lock:
            if key not in self._kernels:
                self._kernels[key] = _GpuKernel(self, file, name, defines)
            return self._kernels[key]

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def rows_at_once(self, n_rows: int, row_bytes: int, row_work: int) -> int:
        if n_rows * row_bytes <= _SMALL_MEMORY and n_rows * row_work <= _WORK:
            return n_rows  # how much memory is free takes a while to say
        free = self.arrays.cuda.runtime.memGetInfo()[0] + self.arrays.get_default_memory_pool().free_bytes()
        most = min(min(_MEMORY, free // 4) // max(1, row_bytes), _WORK // max(1, row_work), 1 << 17)
        return int(max(64, most // 512 * 512))

    def is_here(self, array: Any) -> bool:
        return isinstance(array, self.arrays.ndarray) and array.device.id == self.number

    def in_blocks(self, rows: Values, out: Values, n_at_once: int, explain: Explain, tell: Told) -> None:
        n_rows, row_bytes = len(rows), max(1, rows[0].nbytes + out[0].nbytes)
        wanted = int(np.clip(-(-n_rows // _N_BLOCKS), _MIN_BLOCK // row_bytes, _MAX_BLOCK // row_bytes))
        n_at_once = max(1, min(n_at_once, wanted))
        n_threads = min(_COPY_THREADS, available_cpus()) if n_rows > n_at_once else 1
        with ThreadPoolExecutor(n_threads) as pool:
            copy = _Copy(pool, n_threads)
            lanes = [
                _Lane(self, rows, out, n_at_once, copy) for _ in range(min(_N_LANES, -(-n_rows // n_at_once)))
            ]
            try:
                for number, start in enumerate(range(0, n_rows, n_at_once)):
                    lanes[number % len(lanes)].take(start, explain)
                    if tell is not None:
                        tell(start / n_rows)
                for number in range(len(lanes)):
                    lanes[(number + 1) % len(lanes)].give()
            finally:
                for lane in lanes:  # memory must not go while a copy is under way
                    lane.stream.synchronize()
        if tell is not None:
            tell(1.0)


class _Copy:
    """Copies between arrays of ordinary memory, by several threads."""

    def __init__(self, pool: ThreadPoolExecutor, n_threads: int) -> None:
        self._pool, self._n_threads = pool, n_threads

    def __call__(self, to: Any, source: Any) -> None:
        if self._n_threads == 1:
            np.copyto(to, source)
            return
        edges = np.linspace(0, len(to), self._n_threads + 1).astype(int)
        parts = [slice(a, b) for a, b in pairwise(edges)]
        list(self._pool.map(lambda part: np.copyto(to[part], source[part]), parts))


class _Lane:
    """A stream, and the memory of one block of rows and of its values, here and there."""

    def __init__(self, gpu: Gpu, rows: Any, out: Any, n_rows: int, copy: _Copy) -> None:
        cupy = gpu.arrays
        self._gpu, self._runtime, self._copy = gpu, cupy.cuda.runtime, copy
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.stream.wait_event(cupy.cuda.get_current_stream().record())  # what is there may be on its way
        self._rows, self._out = rows, out
        self._start, self._n = 0, 0  # the block under way
        with self.stream:
            self._rows_there = cupy.empty((n_rows, *rows.shape[1:]), dtype=rows.dtype)
            self._values_there = cupy.empty((n_rows, *out.shape[1:]), dtype=out.dtype)
        self._rows_here = None if self._is_direct(rows) else _pinned(cupy, self._rows_there)
        self._values_here = None if self._is_direct(out) else _pinned(cupy, self._values_there)

    def take(self, start: int, explain: Explain) -> None:
        """Finish the block before, and begin this one."""
        self.give()
        source = self._rows[start : start + len(self._rows_there)]
        n = len(source)
        rows, values = self._rows_there[:n], self._values_there[:n]
        if self._rows_here is not None:
            self._copy(self._rows_here[:n], source)
            source = self._rows_here[:n]
        with self.stream:
            self._move(rows, source)
            explain(rows, values)
            target = self._out[start : start + n] if self._values_here is None else self._values_here[:n]
            self._move(target, values)
        self._start, self._n = start, n

    def give(self) -> None:
        """Wait for the block under way, and put its values where they belong."""
        self.stream.synchronize()
        if self._n and self._values_here is not None:
            self._copy(self._out[self._start : self._start + self._n], self._values_here[: self._n])
        self._n = 0

    def _is_direct(self, array: Any) -> bool:
        """Can the GPU read and write it by itself?"""
        if not isinstance(array, np.ndarray):
            return True
        return (
            bool(array.flags.c_contiguous) and self._runtime.pointerGetAttributes(array.ctypes.data).type == 1
        )

    def _move(self, to: Any, source: Any) -> None:
        def address(array: Any) -> int:
            return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)

        kind = self._runtime.memcpyDefault
        self._runtime.memcpyAsync(address(to), address(source), to.nbytes, kind, self.stream.ptr)


def _pinned(cupy: Any, like: Any) -> Any:
    """An array of ordinary memory that the GPU reads by itself; CuPy keeps such memory for the next call."""
    memory = cupy.cuda.alloc_pinned_memory(max(1, like.nbytes))
    return np.frombuffer(memory, like.dtype, like.size).reshape(like.shape)


class _GpuKernel:
    """A kernel as CuPy compiled it."""

    def __init__(self, gpu: Gpu, file: str, name: str, defines: Mapping[str, Any]) -> None:
        self._gpu = gpu
        options = ("--std=c++17", "--fmad=false", *(f"-D{key}={value}" for key, value in defines.items()))
        self._kernel = gpu.arrays.RawModule(code=source_of(file), options=options).get_function(name)
        self._kernel.max_dynamic_shared_size_bytes = gpu.max_shared - self._kernel.shared_size_bytes
        self._blocks: dict[tuple[int, int], int] = {}

    def blocks_at_once(self, n_threads: int, n_shared: int) -> int:
        if (n_threads, n_shared) not in self._blocks:
            have, n_registers = self._gpu.attributes, -(-self._kernel.num_regs // 8) * 8
            of_processor = min(
                have["MaxRegistersPerMultiprocessor"] // (n_registers * n_threads),
                have["MaxSharedMemoryPerMultiprocessor"] // (n_shared + 1024),
                have["MaxThreadsPerMultiProcessor"] // n_threads,
            )
            self._blocks[n_threads, n_shared] = max(1, of_processor) * have["MultiProcessorCount"]
        return self._blocks[n_threads, n_shared]

    def launch(self, n_blocks: int, n_threads: int, n_shared: int, *parameters: int) -> None:
        self._kernel((n_blocks,), (n_threads,), parameters, shared_mem=n_shared)
