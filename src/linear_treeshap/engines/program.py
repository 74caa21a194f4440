"""TreeEnsemble → Program: the Python side of the seam to C++.

A program is an ensemble compiled for some players and an index: what the engines of this machine walk. It
never changes after it is made.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import InputError
from ..model.by_output import by_output
from ..model.ensemble import TreeEnsemble, only_output
from ..model.routing import walk_trees, ways_of
from ..players.players import Players
from .contract import Values
from .indices import SHAPLEY, Index, rule_inside
from .threads import n_threads

__all__ = ["KERNEL_VARIABLE", "Program", "kernels", "trees_of"]

Float64 = npt.NDArray[np.float64]

#: Set this environment variable to one of `linear_treeshap.kernels()` to force an instruction set.
KERNEL_VARIABLE = "LINEAR_TREESHAP_KERNEL"


class Program:
    """A compiled ensemble. ``players`` are those of its columns; by default each column is its own."""

    def __init__(
        self,
        ensemble: TreeEnsemble,
        *,
        players: Players | None = None,
        index: Index = SHAPLEY,
        kernel: str | None = None,
        ways: Float64 | None = None,
    ) -> None:
        """``ways`` (n_nodes,), see `ways_of`, sends an absent player where one background row goes."""
        if players is not None and len(players.of_column) != ensemble.n_columns:
            raise InputError(
                f"Players of {len(players.of_column)} columns were given for a model of "
                f"{ensemble.n_columns} columns."
            )
        kernel = kernel or os.environ.get(KERNEL_VARIABLE) or None
        if kernel is not None and kernel not in _core.kernels():
            raise InputError(
                f"Kernel {kernel!r} cannot run on this machine; it has {', '.join(_core.kernels())}. "
                f"Unset {KERNEL_VARIABLE} to use the best one."
            )
        self.ensemble = ensemble
        self.players = players
        self._constants = _constants(ensemble)
        self._exponents = _exponents(ensemble)
        self.index = index
        self.n_players = ensemble.n_columns if players is None else players.n_players
        self.n_outputs = ensemble.n_outputs
        self.compiled = _core.compile(
            trees_of(ensemble, value=_in_range(ensemble, self._exponents), cover=ways),
            player=np.arange(ensemble.n_columns, dtype=np.int32) if players is None else players.of_column,
            n_outputs=ensemble.n_outputs,
            n_players=self.n_players,
            is_float32=ensemble.row_format.dtype == "float32",
            rule=None if index == SHAPLEY else rule_inside(index, order=1),
            kernel=kernel,
        )

    @property
    def kernel(self) -> str:
        """The instruction set in use: "avx512", "avx2", or "baseline": what any machine has (SSE2, NEON)."""
        return self.compiled.kernel

    def of_output(self, output: int) -> Program:
        """The same of one output only; itself if there are no others."""
        if self.n_outputs == 1:
            return self
        ensemble = only_output(self.ensemble, output)
        return Program(ensemble, players=self.players, index=self.index, kernel=self.kernel)

    def with_index(self, index: Index) -> Program:
        """The same for another index."""
        if index == self.index:
            return self
        return Program(self.ensemble, players=self.players, index=index, kernel=self.kernel)

    def against(self, row: Values) -> Program:
        """The same against one background row, to which an absent player owes its values."""
        ways = ways_of(self.ensemble, row)
        return Program(self.ensemble, players=self.players, index=self.index, kernel=self.kernel, ways=ways)

    def for_values(self) -> Program:
        """The same as trees of one output each, if these are less to walk; else itself."""
        ensemble = by_output(self.ensemble)
        if ensemble is None:
            return self
        return Program(ensemble, players=self.players, index=self.index, kernel=self.kernel)

    def predict(self, rows: Values, *, n_jobs: int | None = None) -> Float64:
        """(n_rows, n_outputs) raw predictions of rows that are ready to be read."""
        if self.ensemble.lines is not None:  # the compiled trees know the constants of leaves only
            return walk_trees(self.ensemble, rows)
        out = np.empty((len(rows), self.n_outputs))
        with self.rescaled(out) as found:
            self.compiled.predict(rows, found, n_threads=n_threads(n_jobs))
        return out + self._constants

    @property
    def exponents(self) -> npt.NDArray[np.int64]:
        """(n_outputs,) the powers of two by which the compiled leaves were divided."""
        none = np.zeros(self.n_outputs, dtype=np.int64)
        return none if self._exponents is None else self._exponents.astype(np.int64)

    def rescaled(self, out: Values) -> AbstractContextManager[Any]:
        """Where to write what the compiled model finds, so that ``out``, (…, n_outputs), gets it in the size
        that the leaves have. Rounding to float32 comes last: only what is beyond it then is infinity."""
        return nullcontext(out) if self._exponents is None else _with_exponents(out, self._exponents)

    def adds_up(
        self,
        rows: Values,
        values: Values,  # (n_rows, n, n_outputs)
        base_values: Float64,  # (n_outputs,)
        tolerance: float,
        *,
        n_jobs: int | None = None,
    ) -> bool:
        """Do values and base values add up to the predictions? Weighted sums over 64 rows are compared, which
        takes a fraction of the time; where they are not equal, predictions say which row it is."""
        if self._exponents is not None or self.ensemble.lines is not None:
            return False
        base = base_values - self._constants
        return self.compiled.adds_up(rows, values, base, tolerance, n_threads=n_threads(n_jobs))


@contextmanager
def _with_exponents(out: Values, exponents: npt.NDArray[np.int32]) -> Iterator[Any]:
    found = out if out.dtype == np.float64 else np.empty(out.shape)
    yield found
    with np.errstate(over="ignore", under="ignore"):
        np.ldexp(found, exponents, out=found)
        if found is not out:
            out[...] = found


def trees_of(
    ensemble: TreeEnsemble, *, value: Float64 | None = None, cover: Float64 | None = None
) -> _core.Trees:
    """The trees as C++ takes them; with another ``value`` or ``cover`` for each node, if one is given."""
    e = ensemble
    return _core.Trees(
        tree_offsets=e.tree_offsets,
        left=e.left,
        right=e.right,
        feature=e.feature,
        threshold=e.threshold,
        missing_left=e.missing_left,
        category_set=e.category_set,
        category_offsets=e.category_offsets,
        category_codes=e.category_codes,
        cover=e.cover if cover is None else cover,
        value=e.value if value is None else value,
        tree_output=e.tree_output,
    )


def _constants(ensemble: TreeEnsemble) -> Float64:
    """(n_outputs,) base values, and trees of a single leaf, which the compiled model does without."""
    total = np.array(ensemble.base_values)
    alone = np.flatnonzero(np.diff(ensemble.tree_offsets) == 1)
    for column in range(ensemble.width):
        np.add.at(
            total, ensemble.tree_output[alone] + column, ensemble.value[ensemble.tree_offsets[alone], column]
        )
    return total


#: Leaves whose largest is beyond this power of two, or below its inverse, are compiled with another exponent:
#: the walk multiplies them by covers, and by 2^-256 to 2^-1024 at the end points of indices (`rule_inside`).
_MAX_EXPONENT = 64


def _exponents(ensemble: TreeEnsemble) -> npt.NDArray[np.int32] | None:
    """(n_outputs,) the powers of two by which the leaves of each output are divided; mostly none are."""
    largest = np.zeros(ensemble.n_outputs)
    for column in range(ensemble.width):
        of_node = ensemble.tree_output[ensemble.tree_of_node] + column
        np.maximum.at(largest, of_node, np.abs(ensemble.value[:, column]))
    exponents = np.frexp(largest)[1].astype(np.int32)
    is_far = (largest > 0) & (np.abs(exponents) > _MAX_EXPONENT)
    return np.where(is_far, exponents, 0).astype(np.int32) if is_far.any() else None


def _in_range(ensemble: TreeEnsemble, exponents: npt.NDArray[np.int32] | None) -> Float64:
    """The leaf values without these exponents: exact but for leaves that do not count beside others."""
    if exponents is None:
        return ensemble.value
    columns = ensemble.tree_output[ensemble.tree_of_node][:, None] + np.arange(ensemble.width)
    return np.asarray(np.ldexp(ensemble.value, -exponents[columns]))


def kernels() -> list[str]:
    """The instruction sets that this machine can run, the best first, which is the one in use.

    >>> import linear_treeshap
    >>> linear_treeshap.kernels()[-1]
    'baseline'
    """
    return _core.kernels()
