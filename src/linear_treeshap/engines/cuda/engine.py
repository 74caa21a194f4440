"""Path-dependent values on a device, behind the contract of all engines.

float64 values are walked in float64. float32 values are walked in float32 and summed as whole numbers every
few trees: within 1e-6 of the largest value that an output has in any row. Bits depend neither on how rows are
cut nor on where they come from. What the device does not do, interactions, is done by the processor, and the
log says so once.
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
from .device import C_NAMES, Device
from .plan import Model
from .stage import Stage, register_slots

__all__ = ["DeviceEngine"]

_LOG = logging.getLogger("linear_treeshap")

Float64 = npt.NDArray[np.float64]

_INTERACTIONS = "Interactions are not computed on a GPU yet: the processor computes them."
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
        self._walks: dict[np.dtype[Any], _Walk] = {}
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
        device = self.device
        if not len(rows) or not out.size:
            return
        if len(rows) * self._n_leaves < self._min_work and isinstance(out, np.ndarray):
            self._say("These rows are too few to be worth a GPU: the processor explains them.")
            self._processor.values(rows, out, n_jobs=n_jobs, progress=progress)
            return
        with device.in_use():
            walk = self._walk(out.dtype)
            n_at_once = walk.rows_at_once(len(rows))
            explain = partial(walk.explain, few=len(rows) < _MANY_ROWS)
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

    def pairs(self, rows: Values, out: Values, *, n_jobs: int | None = None, progress: Told = None) -> None:
        """Write (n_rows, n_players, n_players, n_outputs), pairs split in half."""
        self._say(_INTERACTIONS)
        self._processor.pairs(rows, out, n_jobs=n_jobs, progress=progress)

    def sets(self, kind: Kind | None, order: Any) -> SetEngine:
        """The engine of an interaction index for sets of up to ``order`` players."""
        self._say(_INTERACTIONS)
        return self._processor.sets(kind, order)


class _Walk:
    """All launches of a model for one floating-point type, on the device."""

    def __init__(self, model: Model, device: Device, dtype: np.dtype[Any], row_dtype: np.dtype[Any]) -> None:
        self.model, self.device, self.dtype = model, device, dtype
        self.n_limbs = 2 if dtype == np.float64 or model.is_wild else 1
        conditions = model.conditions
        self._n_columns = len(conditions.columns)
        bits = model.total_bits
        exponents = np.array([trees.exponent for trees in model.outputs]) - bits
        halves = np.stack([exponents // 2, exponents - exponents // 2], axis=1)
        tables = (conditions.columns.view(np.uint8), conditions.keys, np.ldexp(1.0, halves))
        self._held = [device.arrays.asarray(table) for table in tables]
        self._columns, self._keys, self._scales = map(device.address, self._held)
        self._ranks = device.kernel("ranks.cu", "ranks", {"ROW": C_NAMES[row_dtype]})
        self._finish = device.kernel(
            "totals.cu", "totals_to_values", {"VALUE": C_NAMES[dtype], "LIMBS": self.n_limbs}
        )
        launches = model.launches(dtype, register_slots)
        self._stages = [Stage(launch, device, self.n_limbs, bits) for launch in launches]
        self._work = sum(len(launch.words) * len(launch.points.t) for launch in launches) // 16

    def rows_at_once(self, n_rows: int) -> int:
        width = self.model.n_players * len(self.model.outputs)
        row_bytes = self._n_columns + width * (8 * self.n_limbs + self.dtype.itemsize)
        return self.device.rows_at_once(n_rows, row_bytes, self._work)

    def explain(self, rows: Any, values: Any, few: bool) -> None:
        """Write the values of rows on the device to an array there; they are of a call of few, or of
        many."""
        device = self.device
        n_rows, n_features = rows.shape
        n_players, n_outputs = self.model.n_players, len(self.model.outputs)
        cuts = [stage.cut(n_rows, few) for stage in self._stages]
        pitch = -(-max([n_rows, *(cut.n_tiles * cut.n_threads for cut in cuts)]) // 64) * 64
        n_limb = n_outputs * n_players * pitch
        n_totals, n_ranks = self.n_limbs * n_limb, self._n_columns * pitch  # whole multiples of 64
        n_bytes = 8 * n_totals + n_ranks + max((cut.n_bytes for cut in cuts), default=0)
        memory = device.arrays.empty(n_bytes, dtype=np.uint8)
        totals = device.address(memory)
        ranks = totals + 8 * n_totals
        n_at_once = _RANK_COLUMNS[few]
        self._ranks.launch(
            -(-pitch // _RANK_ROWS) * max(1, -(-self._n_columns // n_at_once)),
            _RANK_ROWS,
            0,
            device.address(rows),
            n_rows,
            n_features,
            self._columns,
            self._n_columns,
            n_at_once,
            self._keys,
            ranks,
            pitch,
            totals,
            n_totals,
        )
        for stage, cut in zip(self._stages, cuts, strict=True):
            stage.walk(cut, ranks, totals, ranks + n_ranks, n_players, n_limb, pitch)
        n_blocks = -(-n_rows // _TILE) * -(-(n_players * n_outputs) // _TILE)
        n_shared = _TILE * (_TILE + 1) * self.dtype.itemsize
        out = device.address(values)
        self._finish.launch(
            n_blocks, _TILE * 8, n_shared, totals, n_rows, n_players, n_outputs, pitch, self._scales, out
        )
