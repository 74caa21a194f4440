"""A launch on the device: its tables, the kernel that walks it, and how rows and trees are cut into blocks.

In come ranks and totals that are there; out come totals with what these trees add. Cutting changes no bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .device import C_NAMES, Device
from .packed import FILLS_OF_BLOCK, Packed
from .plan import Chunks, Launch
from .records import STREAM_WORDS, n_knot_slots, n_stem_bits

__all__ = ["AnyStage", "Cut", "Room", "Stage", "Stream", "register_slots"]

#: Threads of a block, by the bytes of a number: more would have too few registers for what they know.
_MAX_THREADS = {4: 512, 8: 256}
#: Registers of a thread that hold the states of splits.
_STATE_REGISTERS = {4: 48, 8: 96}
#: What states of splits that are not in registers, and tiles that are not in shared memory, may take.
_MEMORY = 1 << 28
#: Numbers of rows for which the cut is remembered.
_N_REMEMBERED = 256


def register_slots(n_points: int, item: int) -> int:
    """How many splits have their state in registers, for so many points and bytes of a number."""
    return int(np.clip(_STATE_REGISTERS[item] // (2 * n_points * item // 4), 1, 5))


@dataclass(frozen=True, eq=False)
class Cut:
    """Tiles of rows times spans of trees, and the blocks that take them one after another."""

    n_threads: int
    n_shared: int
    n_tiles: int
    n_blocks: int
    few: bool  # rows: so that chunks are small
    spans: int  # where (n_spans, 3) are, `Span` of walk.cu
    n_spans: int
    deep_bytes: int  # of the states of splits that are in memory
    room_bytes: int  # of a block whose tile is not in shared memory
    stream_bytes: int = 0  # of a stream that is made in each call

    @property
    def n_bytes(self) -> int:
        """Of the memory that it takes."""
        return self.stream_bytes + self.deep_bytes + self.n_blocks * self.room_bytes


class Room:
    """The memory of one call: totals, those of pairs, ranks, and states of splits, one after another."""

    def __init__(
        self, n_rows: int, cuts: list[Cut], shape: tuple[int, int, int, int], n_columns: int
    ) -> None:
        """``shape`` is (n_limbs, n_outputs, n_players, n_pairs)."""
        n_limbs, self.n_outputs, self.n_players, self.n_pairs = shape
        self.pitch = -(-max([n_rows, *(cut.n_tiles * cut.n_threads for cut in cuts)]) // 64) * 64
        self.n_of_players = n_limbs * self.n_outputs * self.n_players * self.pitch
        self.n_totals = self.n_of_players + n_limbs * self.n_outputs * self.n_pairs * self.pitch
        self.n_ranks = n_columns * self.pitch
        self.n_bytes = 8 * self.n_totals + self.n_ranks + max((cut.n_bytes for cut in cuts), default=0)

    def put_at(self, address: int) -> None:
        """Where it is on the device."""
        self.totals, self.pairs = address, address + 8 * self.n_of_players
        self.ranks = address + 8 * self.n_totals
        self.states = self.ranks + self.n_ranks


class AnyStage(Protocol):
    """A part of a model, on a device."""

    def cut(self, n_rows: int, few: bool) -> Cut:
        """How so many rows are cut, of a call of few or of many."""

    def walk(self, cut: Cut, room: Room) -> None:
        """Add to totals what rows with these ranks get."""


class Stream:
    """The words of a launch on a device: those that are there, or if they are packed, in the memory of a
    call."""

    def __init__(self, launch: Launch, device: Device) -> None:
        self._device, words = device, launch.words
        self.n_bytes = 0
        if not isinstance(words, Packed):
            self.held = [device.arrays.asarray(words)]
            return
        points = np.concatenate([np.concatenate([part.t, part.absent]) for part in launch.parts])
        parts = (words.codes, words.covers, words.bases, words.words, points)
        self.held = [device.arrays.asarray(part) for part in parts]
        self._packed = words
        self.n_bytes = -(-words.n_words * launch.dtype.itemsize // 64) * 64
        defines = {
            "REAL": C_NAMES[launch.dtype],
            "POINTS": launch.n_points,
            "THREADS": FILLS_OF_BLOCK,
        }
        self._fill = device.kernel("fill.cu", "fill", defines)

    def at(self, room: int) -> int:
        """Where the words are; in the memory of a call, they are made there."""
        places = list(map(self._device.address, self.held))
        if self.n_bytes == 0:
            return places[0]
        codes, covers, bases, words, points = places
        n_fills, n_words = len(self._packed.codes), self._packed.n_words
        n_blocks = len(self._packed.bases)
        numbers = codes, covers, n_fills, bases, words, points
        self._fill.launch(n_blocks, FILLS_OF_BLOCK, 4 * FILLS_OF_BLOCK, *numbers, room, n_words)
        return room


class Stage:
    """A `Launch` on a device, with totals of so many limbs, multiplied by two to ``total_bits``."""

    def __init__(
        self, launch: Launch, device: Device, n_limbs: int, total_bits: int, with_pairs: bool
    ) -> None:
        self.launch, self.device = launch, device
        n_points, item = launch.n_points, launch.dtype.itemsize
        self._max_threads = _MAX_THREADS[item]
        self._stream_bytes = 2 * STREAM_WORDS * item
        self._is_spilled = 32 * launch.row_bytes + self._stream_bytes > device.max_shared
        self._n_deep = max(0, launch.n_slots - register_slots(n_points, item))
        self._kernel = device.kernel(
            "walk.cu",
            "walk",
            {
                "REAL": C_NAMES[launch.dtype],
                "POINTS": n_points,
                "REGISTER_SLOTS": register_slots(n_points, item),
                "KNOT_SLOTS": n_knot_slots(register_slots(n_points, item), with_pairs),
                "PARTS": len(launch.parts),
                "MASKS": 1
                << max(0, (n_stem_bits(launch.is_uneven) + 2 * launch.n_slots - 1) // 64).bit_length(),
                "LIMBS": n_limbs,
                "SPILLED": int(self._is_spilled),
                "THREADS": self._max_threads,
                "UNEVEN": int(launch.is_uneven),
                "PAIRS": int(with_pairs),
            },
        )
        scale = [2.0**total_bits]
        rules = [
            np.concatenate([part.weights, part.t, -1 / part.absent, scale, part.powers.ravel()]).astype(
                launch.dtype
            )
            for part in launch.parts
        ]
        tables = (launch.cuts, launch.groups, launch.columns, launch.pieces)
        large, small = ((some.firsts, some.gains) for some in (launch.large, launch.small))
        self._held = [device.arrays.asarray(table) for table in (*tables, *large, *small, *rules)]
        places = list(map(device.address, self._held))
        self._tables, self._chunk_tables, self._rules = places[:4], (places[4:6], places[6:8]), places[8:]
        self._stream = Stream(launch, device)
        self._held += self._stream.held
        self._cuts: dict[tuple[int, bool], Cut] = {}  # by the number of rows
        self._spans: dict[tuple[int, bool], Any] = {}  # by how many are wanted

    def _chunks(self, few: bool) -> Chunks:
        return self.launch.small if few else self.launch.large

    def walk(self, cut: Cut, room: Room) -> None:
        """Add to totals what rows with these ranks get."""
        stream, states = self._stream.at(room.states), room.states + cut.stream_bytes
        for part, rule in enumerate(self._rules):
            self._kernel.launch(
                cut.n_blocks,
                cut.n_threads,
                cut.n_shared,
                stream,
                *self._tables,
                *self._chunk_tables[cut.few],
                cut.spans,
                cut.n_spans,
                rule,
                part,
                room.ranks,
                room.pitch,
                cut.n_tiles,
                room.totals,
                room.n_players,
                room.n_outputs * room.n_players * room.pitch,
                room.pairs,
                room.n_pairs,
                states,
                states + cut.deep_bytes,
                cut.room_bytes,
            )

    def cut(self, n_rows: int, few: bool) -> Cut:
        """How so many rows are cut, of a call of few or of many."""
        if (n_rows, few) not in self._cuts:
            if len(self._cuts) >= _N_REMEMBERED:
                self._cuts.clear()
            self._cuts[n_rows, few] = self._cut(n_rows, few)
        return self._cuts[n_rows, few]

    def _cut(self, n_rows: int, few: bool) -> Cut:
        launch = self.launch
        n_threads = self._n_threads(n_rows, self._chunks(few).n_sums)
        n_tiles, n_shared = -(-n_rows // n_threads), self._n_shared(n_threads)
        at_once = self._kernel.blocks_at_once(n_threads, n_shared)
        spans = self._spans_for(n_tiles, at_once, few)
        room_bytes = -(-n_threads * launch.row_bytes // 16) * 16 if self._is_spilled else 0
        deep_bytes = self._n_deep * (2 * launch.n_points + 2) * n_threads * launch.dtype.itemsize
        n_blocks = min(n_tiles * len(spans), at_once, max(1, _MEMORY // max(1, deep_bytes + room_bytes)))
        return Cut(
            n_threads,
            n_shared,
            n_tiles,
            n_blocks,
            few,
            self.device.address(spans),
            len(spans),
            n_blocks * deep_bytes,
            room_bytes,
            self._stream.n_bytes,
        )

    def _n_shared(self, n_threads: int) -> int:
        return self._stream_bytes + (0 if self._is_spilled else n_threads * self.launch.row_bytes)

    def _n_threads(self, n_rows: int, n_sums: int) -> int:
        """Tiles as large as there is room for, but for few rows, which should not leave the device idle."""
        n_threads = self._max_threads
        if not self._is_spilled:
            room = self.device.max_shared - self._stream_bytes
            n_threads = min(n_threads, room // self.launch.row_bytes // 32 * 32)
        while n_threads > 64:
            n_items = -(-n_rows // n_threads) * n_sums
            if n_items >= self._kernel.blocks_at_once(n_threads, self._n_shared(n_threads)):
                break
            n_threads = n_threads // 2 // 32 * 32
        return n_threads

    def _spans_for(self, n_tiles: int, at_once: int, few: bool) -> Any:
        """Sums of chunks that go to one block: as many spans as keep all blocks of the device busy."""
        n_sums, n_chunks = self._chunks(few).n_sums, len(self.launch.pieces) - 1
        # A span costs its share of the chunks, and a tenth of one more for the ranks that it reads.
        n_spans = min(
            range(1, min(n_sums, 256) + 1),
            key=lambda n: -(-n_tiles * n // at_once) * (1 / n + 0.1 / n_chunks),
        )
        if (n_spans, few) not in self._spans:
            spans = _spans(self.launch, self._chunks(few), n_spans)
            self._spans[n_spans, few] = self.device.arrays.asarray(spans)
        return self._spans[n_spans, few]


def _spans(launch: Launch, chunks: Chunks, n_spans: int) -> npt.NDArray[np.int32]:
    """Sums one after another, cut where their words come closest to equal shares, and where groups end."""
    ends = launch.cuts[launch.pieces[chunks.sums]]
    shares = np.linspace(0, ends[-1], n_spans + 1)
    after = np.clip(np.searchsorted(ends, shares), 1, len(ends) - 1)
    edges = np.where(shares - ends[after - 1] < ends[after] - shares, after - 1, after)
    if n_spans == chunks.n_sums:
        edges = np.arange(n_spans + 1)  # however unequal they are
    edges = np.unique(np.concatenate([chunks.sums[edges], launch.group_chunks]))
    group = np.searchsorted(launch.group_chunks, edges[:-1], side="right") - 1
    return np.stack([group, edges[:-1], edges[1:]], axis=1).astype(np.int32)
