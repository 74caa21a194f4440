"""Path-dependent values on a device, behind the contract of all engines.

float64 values are walked in float64. float32 values are walked in float32 and summed as whole numbers every
few trees: within 1e-6 of the largest value that an output has in any row. Bits depend neither on how rows are
cut nor on where they come from, unless calls are of fewer than 32,768 rows. Interactions of pairs are walked
with the values. What the device does not do, larger sets, is done by the processor, and the log says so once.
"""

from __future__ import annotations

import logging
import threading
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..contract import Told, Truth, Values
from ..sets import Kind, SetEngine
from ..values import ValueEngine
from .arrays import on_host
from .device import C_NAMES, Device
from .plan import Model
from .stage import Room, Stage, register_slots

__all__ = ["DeviceEngine"]

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
#: Rows whose ranks one block makes, and columns: of many rows, and of few.
_RANK_ROWS, _RANK_COLUMNS = 128, (16, 2)
#: Rows and columns of values that one block transposes.
_TILE = 32


class DeviceEngine:
    """The values of a program's index on a device; see `Engine`.

    ``processor`` explains the same on this machine. It does what the device does not, and rows in ordinary
    memory that are fewer than ``min_work``, which is rows times leaves: for these the device would take
    longer.
    """

    #: Sums over trees are exact, so this does not grow with them.
    float32_error = 1e-6

    def __init__(self, processor: ValueEngine, device: Device, *, min_work: int = 0) -> None:
        self.program, self.device = processor.program, device
        self.n_players, self.n_outputs = processor.n_players, processor.n_outputs
        self._processor, self._min_work, self._has_said_so = processor, min_work, set[str]()
        self._n_leaves = self.program.ensemble.n_leaves
        self._row_dtype = self.program.ensemble.row_format.numpy_dtype
        self._walks: dict[tuple[np.dtype[Any], bool], _Walk] = {}
        self._lock = threading.Lock()

    def base_values(self, y: Truth = None) -> Float64:
        """(n_outputs,) the mean prediction of the training rows."""
        return self.program.ensemble.expected_value

    def values(
        self, rows: Values, out: Values, *, y: Truth = None, n_jobs: int | None = None, progress: Told = None
    ) -> None:
        """Write the values of ``rows`` to ``out``, (n_rows, n_players, n_outputs). Both may be on the
        device."""
        if rows.dtype != self._row_dtype:
            raise TypeError(f"Rows must be {self._row_dtype}, got {rows.dtype}.")
        if not len(rows) or not out.size:
            return
        if self._is_too_few(rows, out):
            self._processor.values(rows, out, n_jobs=n_jobs, progress=progress)
            return
        self._explain(rows, out, few=len(rows) < _MANY_ROWS, with_pairs=False, progress=progress)

    def pairs(self, rows: Values, out: Values, *, n_jobs: int | None = None, progress: Told = None) -> None:
        """Write (n_rows, n_players, n_players, n_outputs), pairs split in half. Both may be on the device."""
        if rows.dtype != self._row_dtype:
            raise TypeError(f"Rows must be {self._row_dtype}, got {rows.dtype}.")
        if not len(rows) or not out.size:
            return
        if self.n_players > _MAX_PLAYERS_OF_PAIRS or not self._model.can_divide:
            self._say(_PAIRS)
            found = np.empty(out.shape, dtype=out.dtype)
            self._processor.pairs(on_host(rows), found, n_jobs=n_jobs, progress=progress)
            out[...] = found if isinstance(out, np.ndarray) else self.device.arrays.asarray(found)
        elif self._is_too_few(rows, out):
            self._processor.pairs(rows, out, n_jobs=n_jobs, progress=progress)
        else:
            self._explain(rows, out, few=True, with_pairs=True, progress=progress)

    def _is_too_few(self, rows: Values, out: Values) -> bool:
        is_few = len(rows) * self._n_leaves < self._min_work and isinstance(out, np.ndarray)
        if is_few:
            self._say("These rows are too few to be worth a GPU: the processor explains them.")
        return is_few

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

    @cached_property
    def _model(self) -> Model:
        program, ensemble = self.program, self.program.ensemble
        player = np.arange(ensemble.n_columns, dtype=np.int32)
        if program.players is not None:
            player = program.players.of_column
        return Model.of(ensemble, player, self.n_players, program.index)

    def _walk(self, dtype: np.dtype[Any], with_pairs: bool) -> _Walk:
        walk = self._walks.get((dtype, with_pairs))
        if walk is None:
            # The lock is held by those who compile only: a child that forks meanwhile may explain.
            with self._lock:
                walk = self._walks.get((dtype, with_pairs))
                walk = walk or _Walk(self._model, self.device, dtype, self._row_dtype, with_pairs)
                self._walks[dtype, with_pairs] = walk
        return walk

    # -- what the processor does -----------------------------------------------------------------------------

    def _say(self, what: str) -> None:
        if what not in self._has_said_so:
            self._has_said_so.add(what)
            _LOG.info(what)

    def sets(self, kind: Kind | None, order: Any) -> SetEngine:
        """The engine of an interaction index for sets of up to ``order`` players."""
        self._say(_SETS)
        return self._processor.sets(kind, order)


class _Walk:
    """All launches of a model for one floating-point type, on the device."""

    def __init__(
        self,
        model: Model,
        device: Device,
        dtype: np.dtype[Any],
        row_dtype: np.dtype[Any],
        with_pairs: bool,
    ) -> None:
        self.model, self.device, self.dtype, self.with_pairs = model, device, dtype, with_pairs
        self.n_limbs = 2 if dtype == np.float64 or model.is_wild else 1
        conditions = model.conditions
        self._n_columns = len(conditions.columns)
        bits = model.total_bits
        exponents = np.array([trees.exponent for trees in model.outputs]) - bits
        halves = np.stack([exponents // 2, exponents - exponents // 2], axis=1)
        pairs = model.pairs if with_pairs else np.empty(0, dtype=np.int64)
        self._n_pairs = int(pairs.max(initial=-1)) + 1
        tables = (
            conditions.columns.view(np.uint8),
            conditions.keys,
            np.ldexp(1.0, halves),
            pairs.astype(np.int32),
        )
        self._held = [device.arrays.asarray(table) for table in tables]
        self._columns, self._keys, self._scales, self._pairs = map(device.address, self._held)
        self._ranks = device.kernel("ranks.cu", "ranks", {"ROW": C_NAMES[row_dtype]})
        file, name = ("pairs.cu", "pairs_to_values") if with_pairs else ("totals.cu", "totals_to_values")
        self._finish = device.kernel(file, name, {"VALUE": C_NAMES[dtype], "LIMBS": self.n_limbs})
        launches = model.launches(dtype, register_slots, with_pairs=with_pairs)
        self._stages = [Stage(launch, device, self.n_limbs, bits, with_pairs) for launch in launches]
        self._work = sum(len(launch.words) * launch.n_points * len(launch.parts) for launch in launches) // 16

    def rows_at_once(self, n_rows: int) -> int:
        n_players, n_outputs = self.model.n_players, len(self.model.outputs)
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
        shape = self.n_limbs, len(self.model.outputs), self.model.n_players, self._n_pairs
        room = Room(n_rows, cuts, shape, self._n_columns)
        memory = device.arrays.empty(room.n_bytes, dtype=np.uint8)
        room.put_at(device.address(memory))
        n_at_once = _RANK_COLUMNS[few]
        self._ranks.launch(
            -(-room.pitch // _RANK_ROWS) * max(1, -(-self._n_columns // n_at_once)),
            _RANK_ROWS,
            0,
            device.address(rows),
            n_rows,
            rows.shape[1],
            self._columns,
            self._n_columns,
            n_at_once,
            self._keys,
            room.ranks,
            room.pitch,
            room.totals,
            room.n_totals,
        )
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
