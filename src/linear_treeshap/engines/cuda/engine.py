"""Values on a device, behind the contract of all engines, and path-dependent ones.

float64 values are walked in float64. float32 values are walked in float32 and summed as whole numbers every
few trees: within 1e-6 of the largest value that an output has in any row. Bits depend neither on how rows are
cut nor on where they come from, unless calls are of fewer than 32,768 rows. Interactions of pairs are walked
with the values. What the device does not do is done by the processor, and the log says so once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..background import BackgroundEngine
from ..contract import Sets, Told, Truth, Values
from ..sets import Kind
from ..values import ValueEngine
from .arrays import on_host
from .clump_records import ClumpLaunch
from .clump_stage import ClumpStage
from .device import C_NAMES, Device
from .plan import Model
from .ranks import Ranks
from .stage import AnyStage, Room, Stage, register_slots

__all__ = ["DeviceEngine", "PathEngine", "Walk"]

_LOG = logging.getLogger("linear_treeshap")

Float64 = npt.NDArray[np.float64]

_SETS = "Interactions of sets are not computed on a GPU yet: the processor computes them."
_PAIRS = "Pairs of so many players, or by this index, are not computed on a GPU: the processor computes them."
#: Of more players, the table of pairs would not be small.
_MAX_PLAYERS_OF_PAIRS = 4096
#: Totals of pairs that are added to at once, in bytes: as many as are fast to reach.
_PAIR_MEMORY = 1 << 26
#: With fewer rows, a call is cut into smaller parts, so that no processor of a device is idle.
_MANY_ROWS = 1 << 15
#: Rows and columns of values that one block transposes.
_TILE = 32


class DeviceEngine:
    """What a processor's engine explains, on a device; see `Engine`.

    ``processor`` does what the device does not, and rows in ordinary memory that are fewer than ``min_work``,
    which is rows times leaves: for these the device would take longer.
    """

    #: Sums over trees are exact, so this does not grow with them.
    float32_error = 1e-6

    def __init__(
        self, processor: ValueEngine | BackgroundEngine, device: Device, *, min_work: int = 0
    ) -> None:
        self.program, self.device = processor.program, device
        self.n_players, self.n_outputs = processor.n_players, processor.n_outputs
        self._processor, self._min_work, self._has_said_so = processor, min_work, set[str]()
        self._n_leaves = self.program.ensemble.n_leaves
        self._row_dtype = self.program.ensemble.row_format.numpy_dtype
        self._walks: dict[tuple[np.dtype[Any], bool], Walk] = {}
        self._lock = threading.Lock()

    def base_values(self, y: Truth = None) -> Float64:
        """(n_outputs,) what values are added to."""
        return self._processor.base_values(y)

    def values(
        self, rows: Values, out: Values, *, y: Truth = None, n_jobs: int | None = None, progress: Told = None
    ) -> None:
        """Write the values of ``rows`` to ``out``, (n_rows, n_players, n_outputs). Both may be on the
        device."""
        self._write(rows, out, self._processor.values, False, n_jobs, progress)

    def pairs(self, rows: Values, out: Values, *, n_jobs: int | None = None, progress: Told = None) -> None:
        """Write (n_rows, n_players, n_players, n_outputs), pairs split in half. Both may be on the device."""
        self._write(rows, out, self._processor.pairs, True, n_jobs, progress)

    def sets(self, kind: Kind | None, order: Any) -> Sets:
        """The engine of an interaction index for sets of up to ``order`` players."""
        self._say(_SETS)
        return self._processor.sets(kind, order)

    def _write(
        self,
        rows: Values,
        out: Values,
        on_processor: Callable[..., None],
        with_pairs: bool,
        n_jobs: int | None,
        progress: Told,
    ) -> None:
        if rows.dtype != self._row_dtype:
            raise TypeError(f"Rows must be {self._row_dtype}, got {rows.dtype}.")
        if not len(rows) or not out.size:
            return
        if len(rows) * self._n_leaves < self._min_work and isinstance(out, np.ndarray):
            self._say("These rows are too few to be worth a GPU: the processor explains them.")
            on_processor(rows, out, n_jobs=n_jobs, progress=progress)
        elif (reason := self._not_on_device(with_pairs)) is not None:
            self._say(reason)
            found = np.empty(out.shape, dtype=out.dtype)
            on_processor(on_host(rows), found, n_jobs=n_jobs, progress=progress)
            out[...] = found if isinstance(out, np.ndarray) else self.device.arrays.asarray(found)
        else:
            self._explain(
                rows, out, few=with_pairs or len(rows) < _MANY_ROWS, with_pairs=with_pairs, progress=progress
            )

    def _explain(self, rows: Values, out: Values, few: bool, with_pairs: bool, progress: Told) -> None:
        device = self.device
        with device.in_use():
            walk = self._walk(out.dtype, with_pairs)
            n_at_once = walk.rows_at_once(len(rows))
            explain = partial(walk.explain, few=few)
            if not device.is_here(rows) or not device.is_here(out):
                device.in_blocks(rows, out, n_at_once, explain, progress)
                return
            if n_at_once >= len(rows) and progress is None:
                explain(rows, out)
                return
            for start in range(0, len(rows), n_at_once):
                explain(rows[start : start + n_at_once], out[start : start + n_at_once])
                if progress is not None:
                    progress(min(1.0, (start + n_at_once) / len(rows)))

    def _walk(self, dtype: np.dtype[Any], with_pairs: bool) -> Walk:
        walk = self._walks.get((dtype, with_pairs))
        if walk is None:
            # The lock is held by those who compile only: a child that forks meanwhile may explain.
            with self._lock:
                walk = self._walks.get((dtype, with_pairs)) or self._new_walk(dtype, with_pairs)
                self._walks[dtype, with_pairs] = walk
        return walk

    def _say(self, what: str) -> None:
        if what not in self._has_said_so:
            self._has_said_so.add(what)
            _LOG.info(what)

    # -- what an engine has of its own -----------------------------------------------------------------------

    def _not_on_device(self, with_pairs: bool) -> str | None:
        """Why values, or pairs, are left to the processor; None if they are not."""
        raise NotImplementedError

    def _new_walk(self, dtype: np.dtype[Any], with_pairs: bool) -> Walk:
        """What explains rows, in this type."""
        raise NotImplementedError


class PathEngine(DeviceEngine):
    """Path-dependent values on a device, and pairs."""

    def _not_on_device(self, with_pairs: bool) -> str | None:
        if with_pairs and (self.n_players > _MAX_PLAYERS_OF_PAIRS or not self._model.can_divide):
            return _PAIRS
        return None

    @cached_property
    def _model(self) -> Model:
        program, ensemble = self.program, self.program.ensemble
        player = np.arange(ensemble.n_columns, dtype=np.int32)
        if program.players is not None:
            player = program.players.of_column
        return Model.of(ensemble, player, self.n_players, program.index)

    @cached_property
    def _ranks(self) -> Ranks:
        return Ranks(self._model.conditions, self.device, self._row_dtype)

    def _new_walk(self, dtype: np.dtype[Any], with_pairs: bool) -> Walk:
        model = self._model
        n_limbs = 2 if dtype == np.float64 or model.is_wild else 1
        bits = model.total_bits
        launches = model.launches(dtype, register_slots, with_pairs=with_pairs)
        return Walk(
            self.device,
            dtype,
            self._ranks,
            np.array([trees.exponent for trees in model.outputs], dtype=np.int64) - bits,
            n_limbs,
            self.n_players,
            [
                ClumpStage(launch, self.device, n_limbs, bits)
                if isinstance(launch, ClumpLaunch)
                else Stage(launch, self.device, n_limbs, bits, with_pairs)
                for launch in launches
            ],
            sum(launch.work for launch in launches),
            model.pairs if with_pairs else None,
        )


class Walk:
    """How rows on the device become values there: ranks, what the stages of a model add to totals, and values
    of these. All in one floating-point type."""

    def __init__(
        self,
        device: Device,
        dtype: np.dtype[Any],
        ranks: Ranks,
        exponents: npt.NDArray[np.int64],  # (n_outputs,) totals are values divided by two to these
        n_limbs: int,
        n_players: int,
        stages: Sequence[AnyStage],
        work: int,  # of one row, in leaves times points
        pairs: npt.NDArray[np.int64]
        | None = None,  # (n_players, n_players) their numbers, if they are asked for
    ) -> None:
        self.device, self.dtype, self.n_limbs = device, dtype, n_limbs
        self._n_players, self._n_outputs, self._work = n_players, len(exponents), work
        self._stages, self.with_pairs = stages, pairs is not None
        self._ranks, self._n_columns = ranks, ranks.n_columns
        halves = np.stack([exponents // 2, exponents - exponents // 2], axis=1)
        pairs = np.empty(0, dtype=np.int64) if pairs is None else pairs
        self._n_pairs = int(pairs.max(initial=-1)) + 1
        tables = (np.ldexp(1.0, halves), pairs.astype(np.int32))
        self._held = [device.arrays.asarray(table) for table in tables]
        self._scales, self._pairs = map(device.address, self._held)
        file, name = ("pairs.cu", "pairs_to_values") if self.with_pairs else ("totals.cu", "totals_to_values")
        self._finish = device.kernel(file, name, {"VALUE": C_NAMES[dtype], "LIMBS": n_limbs})

    def rows_at_once(self, n_rows: int) -> int:
        n_players, n_outputs = self._n_players, self._n_outputs
        width = n_players * n_outputs
        row_bytes = self._n_columns + width * (8 * self.n_limbs + self.dtype.itemsize)
        if not self.with_pairs:
            return self.device.rows_at_once(n_rows, row_bytes, self._work)
        pair_bytes = 8 * self.n_limbs * n_outputs * self._n_pairs
        row_bytes += pair_bytes + width * n_players * self.dtype.itemsize
        n_fast = max(64, _PAIR_MEMORY // max(1, pair_bytes) // 64 * 64)
        return min(self.device.rows_at_once(n_rows, row_bytes, self._work), n_fast)

    def explain(self, rows: Any, values: Any, few: bool) -> None:
        """Write the values of rows on the device to an array there; they are of a call of few, or of
        many."""
        device, n_rows = self.device, len(rows)
        cuts = [stage.cut(n_rows, few) for stage in self._stages]
        shape = self.n_limbs, self._n_outputs, self._n_players, self._n_pairs
        room = Room(n_rows, cuts, shape, self._n_columns)
        memory = device.arrays.empty(room.n_bytes, dtype=np.uint8)
        room.put_at(device.address(memory))
        self._ranks.write(rows, room.ranks, room.pitch, few, room.totals, room.n_totals)
        for stage, cut in zip(self._stages, cuts, strict=True):
            stage.walk(cut, room)
        self._write(n_rows, room, device.address(values))

    def _write(self, n_rows: int, room: Room, out: int) -> None:
        """Totals as values, or as matrices of pairs."""
        n_players, n_outputs, n_across = room.n_players, room.n_outputs, -(-n_rows // _TILE)
        shape = _TILE * 8, _TILE * (_TILE + 1) * self.dtype.itemsize  # threads, and bytes of shared memory
        if self.with_pairs:
            n_blocks = n_across * -(-n_players // _TILE) * n_players * n_outputs
            totals = room.totals, room.pairs, self._pairs
            numbers = n_rows, n_players, n_outputs, room.n_pairs, room.pitch
            self._finish.launch(n_blocks, *shape, *totals, *numbers, self._scales, out)
        else:
            n_blocks = n_across * -(-n_players * n_outputs // _TILE)
            of_rows = n_rows, n_players, n_outputs, room.pitch
            self._finish.launch(n_blocks, *shape, room.totals, *of_rows, self._scales, out)
