"""Clumps on a device: their tables are made in the memory of each call, and rows go through them."""

from __future__ import annotations

import numpy as np

from .chunk_stage import THREADS, ChunkStage
from .clump_records import PIECE_WORDS, ClumpLaunch
from .device import C_NAMES, Device
from .stage import Cut, Room

__all__ = ["ClumpStage"]


class ClumpStage(ChunkStage):
    """A `ClumpLaunch` on a device, with totals of so many limbs, multiplied by two to ``total_bits``."""

    def __init__(self, launch: ClumpLaunch, device: Device, n_limbs: int, total_bits: int) -> None:
        self.launch, points, item = launch, launch.points, launch.dtype.itemsize
        defines = {
            "REAL": C_NAMES[launch.dtype],
            "POINTS": len(points.t),
            "LIMBS": n_limbs,
            "THREADS": THREADS,
            "PIECE_WORDS": PIECE_WORDS,
        }
        self._expand = device.kernel("clumps.cu", "expand", defines)
        super().__init__(
            device,
            device.kernel("clumps.cu", "explain", defines),
            launch.group_chunks,
            launch.row_bytes,
            n_shared=2 * PIECE_WORDS * item,
            n_bytes=launch.n_words * item,
        )
        rule = np.concatenate([-1 / points.absent, [2.0**total_bits]]).astype(launch.dtype)
        of_tables = np.concatenate([points.weights, points.t, points.absent])
        self._held = list(map(device.arrays.asarray, [*launch.held, of_tables, rule]))
        *places, at_points, at_rule = map(device.address, self._held)
        n_parts = len(launch.made_of)
        self._parts, self._tables = [*places[:n_parts], at_points], [*places[n_parts:], at_rule]

    def walk(self, cut: Cut, room: Room) -> None:
        """Add to totals what rows with these ranks get."""
        clumps, *parts = self._parts
        n_clumps, stream = self.launch.n_clumps, room.states
        self._expand.launch(n_clumps, THREADS, 0, clumps, n_clumps, *parts, stream)
        self._kernel.launch(
            cut.n_blocks,
            cut.n_threads,
            cut.n_shared,
            *self._tables,
            stream,
            cut.spans,
            cut.n_spans,
            room.ranks,
            room.pitch,
            cut.n_tiles,
            room.totals,
            room.n_players,
            room.n_outputs * room.n_players * room.pitch,
        )
