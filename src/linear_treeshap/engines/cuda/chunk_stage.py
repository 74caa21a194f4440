"""A stage whose chunks are all alike, whatever the number of rows: how rows and chunks are cut into blocks.

A block takes a tile of rows through a span of chunks (`tile.h`). Cutting changes no bits.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from .device import Device, Kernel
from .stage import Cut

__all__ = ["THREADS", "ChunkStage"]

#: Threads of a block, at most and at least.
THREADS, _MIN_THREADS = 256, 64
#: Blocks for each that runs at the same time, so that none is idle for long at the end.
_WAVES = 4


class ChunkStage:
    """``group_chunks`` are the first chunk of each group, and their number; a row takes ``row_bytes`` of
    shared memory, a block ``n_shared`` besides, and a call ``n_bytes`` of the memory of its states."""

    def __init__(
        self,
        device: Device,
        kernel: Kernel,
        group_chunks: npt.NDArray[np.int64],
        row_bytes: int,
        *,
        n_shared: int = 0,
        n_bytes: int = 0,
    ) -> None:
        self.device, self._kernel, self._group_chunks = device, kernel, group_chunks
        self._row_bytes, self._n_shared, self._n_bytes = row_bytes, n_shared, n_bytes
        self._spans: dict[int, Any] = {}

    def cut(self, n_rows: int, few: bool) -> Cut:
        """How so many rows are cut."""
        n_chunks = int(self._group_chunks[-1])
        room = self.device.max_shared - self._n_shared
        n_threads = min(THREADS, room // self._row_bytes // 32 * 32)
        while n_threads > _MIN_THREADS and -(-n_rows // n_threads) * n_chunks < self._at_once(n_threads):
            n_threads = n_threads // 2 // 32 * 32
        n_tiles, at_once = -(-n_rows // n_threads), self._at_once(n_threads)
        spans = self._spans_for(int(np.clip(-(-_WAVES * at_once // n_tiles), 1, n_chunks)))
        n_blocks = n_tiles * len(spans)  # the device begins one where another one has ended
        n_shared = self._n_shared + n_threads * self._row_bytes
        address = self.device.address(spans)
        return Cut(n_threads, n_shared, n_tiles, n_blocks, few, address, len(spans), self._n_bytes, 0)

    def _at_once(self, n_threads: int) -> int:
        return self._kernel.blocks_at_once(n_threads, self._n_shared + n_threads * self._row_bytes)

    def _edges(self, n_spans: int) -> npt.NDArray[np.int64]:
        """The first chunk of each span, and the number of chunks: spans of about as many each, and none of
        two groups."""
        edges, n_chunks = [0], int(self._group_chunks[-1])
        for begin, end in pairwise(self._group_chunks.tolist()):
            n_own = int(np.clip(round((end - begin) * n_spans / n_chunks), 1, end - begin))
            edges += np.linspace(begin, end, n_own + 1).astype(np.int64)[1:].tolist()
        return np.array(edges, dtype=np.int64)

    def _spans_for(self, n_spans: int) -> Any:
        """(n_spans, 3) `Span` of tile.h."""
        if n_spans not in self._spans:
            edges = self._edges(n_spans)
            group = np.searchsorted(self._group_chunks, edges[:-1], side="right") - 1
            spans = np.stack([group, edges[:-1], edges[1:]], axis=1).astype(np.int32)
            self._spans[n_spans] = self.device.arrays.asarray(spans)
        return self._spans[n_spans]
