"""TreeEnsemble → compiled engine → values: the Python side of the seam to C++.

Compiling is done once, explaining many times and from any number of threads: the engine never
changes after it is made.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import InputError
from ..model.ensemble import TreeEnsemble
from ..players.players import Players
from .indices import SHAPLEY, Index
from .threads import n_threads

__all__ = ["KERNEL_VARIABLE", "Engine", "kernels"]

#: Set this environment variable to one of `linear_treeshap.kernels()` to force an instruction set.
KERNEL_VARIABLE = "LINEAR_TREESHAP_KERNEL"


class Engine:
    """A compiled ensemble. ``values`` writes the values of rows that are ready to be read.

    ``players`` are those of the ensemble's columns; by default each column is its own.
    """

    def __init__(
        self,
        ensemble: TreeEnsemble,
        *,
        players: Players | None = None,
        index: Index = SHAPLEY,
        kernel: str | None = None,
    ) -> None:
        if players is not None and len(players.of_column) != ensemble.n_features:
            raise InputError(
                f"Players of {len(players.of_column)} columns were given for a model of "
                f"{ensemble.n_features} columns."
            )
        columns = np.arange(ensemble.n_features, dtype=np.int32)
        self.n_features = ensemble.n_features
        self.n_players = ensemble.n_features if players is None else players.n_players
        self.n_outputs = ensemble.n_outputs
        self.row_dtype = ensemble.row_format.numpy_dtype
        self._ensemble = ensemble
        kernel = kernel or os.environ.get(KERNEL_VARIABLE) or None
        if kernel is not None and kernel not in _core.kernels():
            raise InputError(
                f"Kernel {kernel!r} cannot run on this machine; it has {', '.join(_core.kernels())}. "
                f"Unset {KERNEL_VARIABLE} to use the best one."
            )
        self._compiled = _core.compile(
            tree_offsets=ensemble.tree_offsets,
            left=ensemble.left,
            right=ensemble.right,
            feature=ensemble.feature,
            threshold=ensemble.threshold,
            missing_left=ensemble.missing_left,
            category_set=ensemble.category_set,
            category_offsets=ensemble.category_offsets,
            category_codes=ensemble.category_codes,
            cover=ensemble.cover,
            value=ensemble.value,
            tree_output=ensemble.tree_output,
            player=columns if players is None else players.of_column,
            n_outputs=ensemble.n_outputs,
            n_players=self.n_players,
            is_float32=ensemble.row_format.dtype == "float32",
            rule=index.rule,
            kernel=kernel,
        )

        self.interactions = self._compiled.interactions
        #: Engines for interactions that were asked for before; see `set_engine`.
        self.set_engines: dict[Any, Any] = {}

    @property
    def kernel(self) -> str:
        """The instruction set in use: "avx512", "avx2", or "baseline": what any machine has (SSE2, NEON)."""
        return self._compiled.kernel

    @property
    def expected_value(self) -> npt.NDArray[np.float64]:
        """(n_outputs,) what the values of a row are added to."""
        return self._ensemble.expected_value

    def values(
        self,
        rows: npt.NDArray[np.floating],
        out: npt.NDArray[np.floating],
        *,
        n_jobs: int | None = None,
        progress: Callable[[float], object] | None = None,
    ) -> None:
        """Write the values of ``rows`` to ``out``, (n_rows, n_players, n_outputs).

        ``rows`` is C-contiguous and of the ensemble's row type; ``out`` is C-contiguous, float64 or
        float32. Sums are float64 either way.
        """
        self._compiled.explain(rows, out, n_threads=n_threads(n_jobs), progress=progress)


def kernels() -> list[str]:
    """The instruction sets that this machine can run, the best first, which is the one in use.

    >>> import linear_treeshap
    >>> linear_treeshap.kernels()[-1]
    'baseline'
    """
    return _core.kernels()
