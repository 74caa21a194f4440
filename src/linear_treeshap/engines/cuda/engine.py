"""Path-dependent values on a device, behind the contract of all engines.

float64 values are walked in float64. float32 values are walked in float32 and summed as whole numbers every
few trees: within 1e-6 of the largest value that an output has in any row. Bits depend neither on how rows are
cut nor on where they come from. What the device does not do, interactions, is done by the processor, and the
log says so once.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..contract import Tell, Values
from ..sets import Kind, SetEngine
from ..values import ValueEngine
from .device import Device, Kernel
from .plan import Launch, Model
from .records import STREAM_BYTES

__all__ = ["DeviceEngine"]

_LOG = logging.getLogger("linear_treeshap")

Float64 = npt.NDArray[np.float64]

_INTERACTIONS = "Interactions are not computed on a GPU yet: the processor computes them."
_C_NAMES = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
#: Rows whose ranks one block makes, and columns: few of them if there are few rows, so that no processor is
#: idle.
_RANK_ROWS, _RANK_COLUMNS, _MANY_ROWS = 128, (2, 16), 1 << 15
#: Rows and columns of values that one block transposes.
_TILE = 32
#: Threads of a block, by the bytes of a number: more have too few registers for what they know.
_MAX_THREADS = {4: 512, 8: 256}
#: What the states of splits that are not in registers may take.
_DEEP_BYTES = 1 << 28


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
        self._walks: dict[np.dtype[Any], _Walk] = {}
        self._lock = threading.Lock()

    def base_values(self, y: Float64 | None = None) -> Float64:
        """(n_outputs,) the mean prediction of the training rows."""
        return self.program.ensemble.expected_value

    def values(
        self,
        rows: Values,
        out: Values,
        *,
        y: Float64 | None = None,
        n_jobs: int | None = None,
        progress: Tell | None = None,
    ) -> None:
        """Write the values of ``rows`` to ``out``, (n_rows, n_players, n_outputs). Both may be on the
        device."""
        if rows.dtype != self._row_dtype:
            raise TypeError(f"Rows must be {self._row_dtype}, got {rows.dtype}.")
        device = self.device
        if not len(rows) or not out.size:
            return
        if len(rows) * self._n_leaves < self._min_work and isinstance(out, np.ndarray):
            self._say("These rows are too few to be worth a GPU: the processor explains them.")
            self._processor.values(rows, out, n_jobs=n_jobs, progress=progress)
            return
        with device.in_use():
            walk = self._walk(out.dtype)
            n_at_once = walk.rows_at_once(rows.dtype)
            if not device.is_here(rows) or not device.is_here(out):
                device.in_blocks(rows, out, n_at_once, walk.explain, progress)
                return
            for start in range(0, len(rows), n_at_once):
                walk.explain(rows[start : start + n_at_once], out[start : start + n_at_once])
                if progress is not None:
                    progress(min(1.0, (start + n_at_once) / len(rows)))

    @cached_property
    def _model(self) -> Model:
        program, ensemble = self.program, self.program.ensemble
        player = np.arange(ensemble.n_features, dtype=np.int32)
        if program.players is not None:
            player = program.players.of_column
        return Model.of(ensemble, player, self.n_players, program.index)

    def _walk(self, dtype: np.dtype[Any]) -> _Walk:
        walk = self._walks.get(dtype)
        if (
            walk is None
        ):  # the lock is held by those who compile only: a child that forks meanwhile may explain
            with self._lock:
                walk = self._walks.get(dtype) or _Walk(self._model, self.device, dtype, self._row_dtype)
                self._walks[dtype] = walk
        return walk

    # -- what the processor does -----------------------------------------------------------------------------

    def _say(self, what: str) -> None:
        if what not in self._has_said_so:
            self._has_said_so.add(what)
            _LOG.info(what)

    def pairs(
        self, rows: Values, out: Values, *, n_jobs: int | None = None, progress: Tell | None = None
    ) -> None:
        """Write (n_rows, n_players, n_players, n_outputs), pairs split in half."""
        self._say(_INTERACTIONS)
        self._processor.pairs(rows, out, n_jobs=n_jobs, progress=progress)

    def sets(self, kind: Kind | None, order: Any) -> SetEngine:
        """The engine of an interaction index for sets of up to ``order`` players."""
        self._say(_INTERACTIONS)
        return self._processor.sets(kind, order)


@dataclass(frozen=True)
class _Shape:
    """How a launch is cut into blocks."""

    n_threads: int
    n_shared: int
    room_bytes: int  # of a block whose tile is not in shared memory


@dataclass(eq=False)
class _Stage:
    """A launch on the device, with the kernel that walks it."""

    launch: Launch
    max_threads: int
    is_spilled: bool
    n_register_slots: int
    kernel: Kernel
    tables: tuple[Any, ...]  # stream, cuts, pieces, groups
    places: tuple[Any, ...]  # players, columns, rule
    spans: dict[int, Any] = field(default_factory=dict)  # by how many there are wanted


class _Walk:
    """All launches of a model for one floating-point type, on the device."""

    def __init__(self, model: Model, device: Device, dtype: np.dtype[Any], row_dtype: np.dtype[Any]) -> None:
        self.model, self.device, self.dtype = model, device, dtype
        self.n_limbs = 2 if dtype == np.float64 or model.is_wild else 1
        put = device.arrays.asarray
        conditions = model.conditions
        self._columns = put(conditions.columns.view(np.uint8))
        self._n_columns = len(conditions.columns)
        self._keys = put(conditions.keys)
        bits = model.total_bits
        exponents = np.array([trees.exponent for trees in model.outputs]) - bits
        halves = np.stack([exponents // 2, exponents - exponents // 2], axis=1)
        self._scales = put(np.ldexp(1.0, halves))
        self._ranks = device.kernel("ranks.cu", "ranks", {"ROW": _C_NAMES[row_dtype]})
        self._finish = device.kernel(
            "totals.cu", "totals_to_values", {"VALUE": _C_NAMES[dtype], "LIMBS": self.n_limbs}
        )
        self._stages = [self._stage(launch) for launch in model.launches(dtype, _register_slots)]
        self._work = sum(len(stage.launch.words) * len(stage.launch.points.t) for stage in self._stages) // 16

    def rows_at_once(self, row_dtype: np.dtype[Any]) -> int:
        width = self.model.n_players * len(self.model.outputs)
        n_bytes = self._n_columns + width * (8 * self.n_limbs + self.dtype.itemsize)
        return self.device.rows_at_once(n_bytes, self._work)

    def explain(self, rows: Any, values: Any) -> None:
        """Write the values of rows on the device to an array there."""
        xp = self.device.arrays
        n_rows, n_features = rows.shape
        n_players, n_outputs = self.model.n_players, len(self.model.outputs)
        shapes = [self._shape(stage, n_rows) for stage in self._stages]
        tiles = [shape.n_threads for shape in shapes]
        pitch = -(-max([n_rows, *(-(-n_rows // tile) * tile for tile in tiles)]) // 64) * 64
        ranks = xp.empty((self._n_columns, pitch), dtype=np.uint8)
        totals = xp.zeros((self.n_limbs, n_outputs, n_players, pitch), dtype=np.int64)
        n_at_once = _RANK_COLUMNS[pitch >= _MANY_ROWS]
        n_blocks = -(-pitch // _RANK_ROWS) * -(-self._n_columns // n_at_once)
        if self._stages:
            self._ranks.launch(
                n_blocks,
                _RANK_ROWS,
                0,
                rows,
                n_rows,
                n_features,
                self._columns,
                self._n_columns,
                n_at_once,
                self._keys,
                ranks,
                pitch,
            )
        for stage, shape, tile in zip(self._stages, shapes, tiles, strict=True):
            self._launch(stage, shape, -(-n_rows // tile), ranks, pitch, totals)
        n_blocks = -(-n_rows // _TILE) * -(-(n_players * n_outputs) // _TILE)
        n_shared = _TILE * (_TILE + 1) * self.dtype.itemsize
        self._finish.launch(
            n_blocks, _TILE * 8, n_shared, totals, n_rows, n_players, n_outputs, pitch, self._scales, values
        )

    def _stage(self, launch: Launch) -> _Stage:
        n_points, item = len(launch.points.t), launch.dtype.itemsize
        max_threads = _MAX_THREADS[item]
        is_spilled = 32 * launch.row_bytes + 2 * STREAM_BYTES > self.device.max_shared
        n_register_slots = _register_slots(n_points, item)
        kernel = self.device.kernel(
            "walk.cu",
            "walk",
            {
                "REAL": _C_NAMES[launch.dtype],
                "POINTS": n_points,
                "REGISTER_SLOTS": n_register_slots,
                "MASKS": 1 << max(0, (launch.n_slots - 1) // 32).bit_length(),
                "LIMBS": self.n_limbs,
                "SPILLED": int(is_spilled),
                "THREADS": max_threads,
            },
        )
        put = self.device.arrays.asarray
        points = launch.points
        scale = [2.0**self.model.total_bits]
        rule = np.concatenate([points.weights, points.t, 1 / points.t, scale]).astype(launch.dtype)
        return _Stage(
            launch,
            max_threads,
            is_spilled,
            n_register_slots,
            kernel,
            (put(launch.words), put(launch.cuts), put(launch.pieces), put(launch.groups)),
            (put(launch.players), put(launch.columns), put(rule)),
        )

    def _shape(self, stage: _Stage, n_rows: int) -> _Shape:
        """Tiles as large as there is room for, but for few rows, which should not leave the device idle."""
        row_bytes = stage.launch.row_bytes
        n_threads = stage.max_threads
        if not stage.is_spilled:
            room = self.device.max_shared - 2 * STREAM_BYTES
            n_threads = min(n_threads, room // row_bytes // 32 * 32)
        n_chunks = len(stage.launch.pieces) - 1
        while n_threads > 64:
            n_tiles = -(-n_rows // n_threads)
            n_bytes = n_threads * row_bytes + 2 * STREAM_BYTES
            n_blocks = stage.kernel.blocks_at_once(n_threads, 0 if stage.is_spilled else n_bytes)
            if n_tiles * n_chunks >= n_blocks:
                break
            n_threads = n_threads // 2 // 32 * 32
        n_bytes = n_threads * row_bytes
        if stage.is_spilled:
            return _Shape(n_threads, 2 * STREAM_BYTES, -(-n_bytes // 16) * 16)
        return _Shape(n_threads, 2 * STREAM_BYTES + n_bytes, 0)

    def _launch(
        self, stage: _Stage, shape: _Shape, n_tiles: int, ranks: Any, pitch: int, totals: Any
    ) -> None:
        xp, launch = self.device.arrays, stage.launch
        at_once = stage.kernel.blocks_at_once(shape.n_threads, shape.n_shared)
        spans = self._spans(stage, n_tiles, at_once)
        n_deep = max(0, launch.n_slots - stage.n_register_slots)
        per_block = n_deep * 2 * len(launch.points.t) * shape.n_threads
        n_blocks = min(n_tiles * len(spans), at_once)
        if per_block or shape.room_bytes:
            n_blocks = max(
                1, min(n_blocks, _DEEP_BYTES // (per_block * launch.dtype.itemsize + shape.room_bytes))
            )
        deep = xp.empty(max(1, n_blocks * per_block), dtype=launch.dtype)
        room = xp.empty(max(1, n_blocks * shape.room_bytes), dtype=np.uint8)
        stage.kernel.launch(
            n_blocks,
            shape.n_threads,
            shape.n_shared,
            *stage.tables,
            spans,
            len(spans),
            *stage.places,
            ranks,
            pitch,
            n_tiles,
            totals,
            self.model.n_players,
            totals[0].size,
            deep,
            room,
            shape.room_bytes,
        )

    def _spans(self, stage: _Stage, n_tiles: int, at_once: int) -> Any:
        """(n_spans, 3) chunks that go to one block: as many spans as keep all blocks of the device busy."""
        n_chunks = len(stage.launch.pieces) - 1
        # A span costs its share of the chunks, and about one tree more for the ranks that it reads.
        n_spans = min(
            range(1, min(n_chunks, 256) + 1),
            key=lambda n: -(-n_tiles * n // at_once) * (1 / n + 0.1 / n_chunks),
        )
        if n_spans not in stage.spans:
            stage.spans[n_spans] = self.device.arrays.asarray(_cut_spans(stage.launch, n_spans))
        return stage.spans[n_spans]


def _cut_spans(launch: Launch, n_spans: int) -> npt.NDArray[np.int32]:
    """Chunks one after another, cut where their words come closest to equal shares, and where groups end."""
    ends = launch.cuts[launch.pieces]
    shares = np.linspace(0, ends[-1], n_spans + 1)
    after = np.clip(np.searchsorted(ends, shares), 1, len(ends) - 1)
    closest = np.where(shares - ends[after - 1] < ends[after] - shares, after - 1, after)
    edges = np.unique(np.concatenate([closest, launch.chunks]))
    group = np.searchsorted(launch.chunks, edges[:-1], side="right") - 1
    return np.stack([group, edges[:-1], edges[1:]], axis=1).astype(np.int32)


def _register_slots(n_points: int, item: int) -> int:
    """How many splits have their state in registers, of which a thread has a share."""
    n_registers = {4: 48, 8: 96}[item]
    return int(np.clip(n_registers // (2 * n_points * item // 4), 1, 5))
