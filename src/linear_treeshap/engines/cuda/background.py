"""Values against background rows on a device: the processor's tables, which rows are looked up in there, and
leaves that are in none, where rows meet background rows.

Only single values are computed on the device. Pairs, and leaves of more players than a mask has bits, are the
processor's.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..background import BackgroundEngine
from ..background_rows import Background
from .chunk_stage import THREADS, ChunkStage
from .device import C_NAMES, Device
from .engine import DeviceEngine, Walk
from .ranks import Ranks
from .stage import Cut, Room
from .tables import MAX_PLAYERS, TableLaunch, Tables

__all__ = ["TableEngine"]

_PAIRS = "Pairs against background rows are not computed on a GPU yet: the processor computes them."
_TOO_DEEP = "Paths of so many players do not meet background rows on a GPU: the processor computes them."
#: Background rows that a block meets at once.
_BACKGROUND = 1024
#: What a table, and a background row at a leaf, cost beside a leaf at one point.
_TABLE_WORK, _MEETING_WORK = 16, 0.5


class TableEngine(DeviceEngine):
    """Means over background rows, whose values an absent feature takes, on a device."""

    _processor: BackgroundEngine

    def _not_on_device(self, with_pairs: bool) -> str | None:
        if with_pairs:
            return _PAIRS
        least_shared = 32 * self._tables.least_row_bytes + _scan_bytes(MAX_PLAYERS)
        has_room = least_shared <= self.device.max_shared
        return None if has_room and not self._tables.is_too_deep else _TOO_DEEP

    @cached_property
    def _tables(self) -> Tables:
        return Tables.of(self._processor)

    @cached_property
    def _ranks(self) -> Ranks:
        return Ranks(self._tables.conditions, self.device, self._row_dtype)

    @cached_property
    def _met(self) -> _Met:
        return _Met(self._processor.background, self._ranks, self.device)

    def _new_walk(self, dtype: np.dtype[Any], with_pairs: bool) -> Walk:
        tables = self._tables
        n_limbs = 2 if dtype == np.float64 or tables.is_wild else 1
        stages: list[_TableStage] = []
        work = 0.0
        for launch in tables.launches(dtype):
            if launch.n_players == 0:
                stages.append(_LookUp(launch, self.device, n_limbs))
                work += launch.n_tables * _TABLE_WORK
            else:
                stages.append(_Scan(launch, self.device, n_limbs, self._met, tables.moments))
                work += launch.n_tables * len(self._processor.background.rows) * _MEETING_WORK
        return Walk(
            self.device,
            dtype,
            self._ranks,
            tables.exponents,
            n_limbs,
            self.n_players,
            stages,
            int(work),
        )


def _scan_bytes(n_players: int) -> int:
    """Of shared memory, that weights and masks of background rows take."""
    return _BACKGROUND * (8 + (4 if n_players <= 32 else 8))


class _Met:
    """The ranks and weights of background rows, on a device."""

    def __init__(self, background: Background, ranks: Ranks, device: Device) -> None:
        self.n_rows = len(background.rows)
        self.pitch = -(-self.n_rows // 64) * 64
        rows = device.arrays.asarray(background.rows)
        self.ranks = device.arrays.empty(ranks.n_columns * self.pitch, dtype=np.uint8)
        ranks.write(rows, device.address(self.ranks), self.pitch, few=True)
        weights = np.zeros(self.pitch)
        weights[: self.n_rows] = background.shares
        self.weights = device.arrays.asarray(weights)
        self.addresses = device.address(self.ranks), self.pitch, device.address(self.weights), self.n_rows


class _TableStage(ChunkStage):
    """A `TableLaunch` on a device."""

    def __init__(
        self,
        launch: TableLaunch,
        device: Device,
        file: str,
        name: str,
        defines: dict[str, Any],
        *,
        n_shared: int = 0,  # bytes of shared memory besides those of rows
    ) -> None:
        real = C_NAMES[launch.numbers.dtype]
        kernel = device.kernel(file, name, {"REAL": real, "THREADS": THREADS, **defines})
        super().__init__(device, kernel, launch.group_chunks, launch.row_bytes, n_shared=n_shared)
        tables = (launch.stream, launch.chunks, launch.groups, launch.columns, launch.firsts, launch.gains)
        self._held = [device.arrays.asarray(table) for table in (*tables, launch.numbers)]
        *self._tables, self._numbers = map(device.address, self._held)

    def walk(self, cut: Cut, room: Room) -> None:
        """Add to totals what rows with these ranks get."""
        self._kernel.launch(
            cut.n_blocks,
            cut.n_threads,
            cut.n_shared,
            *self._tables,
            cut.spans,
            cut.n_spans,
            self._numbers,
            *self._more,
            room.ranks,
            room.pitch,
            cut.n_tiles,
            room.totals,
            room.n_outputs * room.n_players * room.pitch,
        )

    #: Parameters of the kernel's own.
    _more: tuple[int, ...] = ()


class _LookUp(_TableStage):
    """Tables that rows are looked up in."""

    def __init__(self, launch: TableLaunch, device: Device, n_limbs: int) -> None:
        super().__init__(launch, device, "look_up.cu", "look_up", {"LIMBS": n_limbs})


class _Scan(_TableStage):
    """Leaves at which rows meet background rows."""

    def __init__(
        self,
        launch: TableLaunch,
        device: Device,
        n_limbs: int,
        met: _Met,
        moments: npt.NDArray[np.float64],
    ) -> None:
        n_players = launch.n_players
        defines = {"LIMBS": n_limbs, "PLAYERS": n_players, "BACKGROUND": _BACKGROUND}
        super().__init__(launch, device, "scan.cu", "scan", defines, n_shared=_scan_bytes(n_players))
        self._moments, self._met = device.arrays.asarray(moments), met
        self._more = device.address(self._moments), moments.shape[1], *met.addresses
