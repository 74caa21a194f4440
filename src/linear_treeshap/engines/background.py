"""Background rows: an absent feature takes the values of each of them, and values are means over them.

In come the rows and weights a user gives as ``data``; out come engines with the contract of `Engine`. Reading
the background costs one pass over it; after that a row costs the same however many background rows there are,
except for the leaves of deep trees and for outputs that are not raw (see docs/background.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import InputError
from ..importers.pipelines.preprocessing import Preprocessing
from ..model.ensemble import TreeEnsemble
from ..model.links import Link
from ..model.routing import visited_nodes
from ..players.assignment import Roles
from ..players.players import Players
from ..players.user_rows import Given
from .indices import SHAPLEY, Index
from .threads import n_threads
from .values import Engine

__all__ = ["Background", "BackgroundEngine", "RescaledEngine", "read_background", "with_covers_of"]

Array = npt.NDArray[Any]
Float64 = npt.NDArray[np.float64]

#: Pairs of a row and a background row whose weights are in memory at once.
_PAIRS_AT_ONCE = 1 << 22


@dataclass(frozen=True, eq=False)
class Background:
    """Background rows as the trees read them."""

    rows: Array  # (n_rows, n_columns), C-contiguous, of the model's dtype
    weights: Float64 | None  # (n_rows,) None if all count the same

    def mean(self, numbers: Float64) -> Float64:
        """The mean over the background of (n_rows, ...) numbers."""
        return np.asarray(np.average(numbers, axis=0, weights=self.weights), dtype=np.float64)

    @property
    def shares(self) -> Float64:
        """(n_rows,) what each row counts for; they add up to one."""
        if self.weights is None:
            return np.full(len(self.rows), 1.0 / len(self.rows))
        return np.asarray(self.weights / self.weights.sum())


def read_background(
    data: Any, weights: Any, ensemble: TreeEnsemble, preprocessing: Preprocessing | None, roles: Roles
) -> Background:
    """Read ``data`` as rows to explain are read; one of shap's maskers stands for the rows it holds."""
    if type(data).__module__.startswith("shap.maskers"):
        if not hasattr(data, "data"):
            raise InputError(
                f"A {type(data).__name__} masker has no background rows. Pass the rows themselves."
            )
        data = data.data
    try:
        given = Given.of(data, ensemble, preprocessing, roles)
    except InputError as error:
        raise InputError(f"The background data does not fit the model: {error}") from error
    if given.rows.n_rows == 0:
        raise InputError("The background data has no rows. Pass at least one, or leave data out.")
    rows = given.rows[0 : given.rows.n_rows]
    # The engine reads it for as long as it lives, and the user may change what is theirs.
    return Background(rows.copy(), _read_weights(weights, len(rows)))


def _read_weights(weights: Any, n_rows: int) -> Float64 | None:
    if weights is None:
        return None
    try:
        array = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"data_weights must be a number for each background row: {error}.") from error
    if array.shape != (n_rows,):
        raise InputError(
            f"data_weights must have one number for each of the {n_rows} background rows, got an array of "
            f"shape {array.shape}."
        )
    if not (np.isfinite(array).all() and (array >= 0).all() and array.sum() > 0):
        raise InputError("data_weights must be finite, not negative, and not all zero.")
    return array


def with_covers_of(ensemble: TreeEnsemble, background: Background) -> TreeEnsemble:
    """The same trees with the covers that this data has in them, as shap does for path-dependent values.

    Below a node that none of it reaches, both children count one half.
    """
    cover = np.zeros(ensemble.n_nodes)
    weights = np.ones(len(background.rows)) if background.weights is None else background.weights
    for nodes, rows in visited_nodes(ensemble, background.rows):
        cover += np.bincount(nodes, weights=weights[rows], minlength=ensemble.n_nodes)
    return replace(ensemble, cover=cover)


def _constants(ensemble: TreeEnsemble) -> Float64:
    """(n_outputs,) base values, and trees of a single leaf, which the compiled model does without."""
    total = np.array(ensemble.base_values)
    alone = np.flatnonzero(np.diff(ensemble.tree_offsets) == 1)
    for column in range(ensemble.width):
        np.add.at(
            total, ensemble.tree_output[alone] + column, ensemble.value[ensemble.tree_offsets[alone], column]
        )
    return total


class BackgroundEngine(Engine):
    """An ensemble compiled together with its background. ``values`` are means over the background rows."""

    def __init__(
        self,
        ensemble: TreeEnsemble,
        background: Background,
        *,
        players: Players | None = None,
        index: Index = SHAPLEY,
        kernel: str | None = None,
        n_jobs: int | None = None,
        only_pairs: bool = False,
    ) -> None:
        super().__init__(ensemble, players=players, index=index, kernel=kernel)
        self.background = background
        self._only_pairs = only_pairs
        self._constants = _constants(ensemble)
        self._tables = self._with_background(n_jobs, of_couples=False)
        self._couples: _core.BackgroundEngine | None = None  # made when first asked for
        self._margins = self.predict(background.rows, n_jobs=n_jobs)

    def _with_background(self, n_jobs: int | None, *, of_couples: bool) -> _core.BackgroundEngine:
        weights = self.background.weights
        return _core.with_background(
            self._compiled,
            self.background.rows,
            np.empty(0) if weights is None else weights,
            only_pairs=self._only_pairs,
            of_couples=of_couples,
            n_threads=n_threads(n_jobs),
            progress=None,
        )

    @property
    def expected_value(self) -> Float64:
        """(n_outputs,) the mean raw prediction over the background."""
        return self.background.mean(self._margins)

    def predict(self, rows: Array, *, n_jobs: int | None = None) -> Float64:
        """(n_rows, n_outputs) raw predictions."""
        out = np.empty((len(rows), self.n_outputs))
        _core.predict(self._compiled, rows, out, n_threads=n_threads(n_jobs))
        return out + self._constants

    def values(
        self,
        rows: npt.NDArray[np.floating],
        out: npt.NDArray[np.floating],
        *,
        n_jobs: int | None = None,
        progress: Callable[[float], object] | None = None,
    ) -> None:
        """As `Engine.values`."""
        self._tables.explain(rows, out, pair_weights=None, n_threads=n_threads(n_jobs), progress=progress)

    def matrices(
        self,
        rows: npt.NDArray[np.floating],
        out: npt.NDArray[np.floating],
        *,
        n_jobs: int | None = None,
        progress: Callable[[float], object] | None = None,
    ) -> None:
        """Write (n_rows, n_players, n_players, n_outputs): half of each pair's index in two places, and on
        the diagonal what is left of each player's value."""
        if self._couples is None:
            self._couples = self._with_background(n_jobs, of_couples=True)
        couples = np.array(self._couples.couples, dtype=np.int64).reshape(-1, 2)
        own = np.empty((len(rows), self.n_players, self.n_outputs), dtype=out.dtype)
        self.values(rows, own, n_jobs=n_jobs)
        out[...] = 0.0
        step = max(1, _PAIRS_AT_ONCE // max(1, len(couples) * self.n_outputs))
        diagonal = np.arange(self.n_players)
        for start in range(0, len(rows), step):
            part = slice(start, min(start + step, len(rows)))
            found = np.empty((part.stop - part.start, len(couples), self.n_outputs))
            self._couples.explain(
                rows[part], found, pair_weights=None, n_threads=n_threads(n_jobs), progress=None
            )
            out[part, couples[:, 0], couples[:, 1]] = out[part, couples[:, 1], couples[:, 0]] = found / 2
            out[part, diagonal, diagonal] = own[part] - out[part].sum(axis=2)
            if progress is not None:
                progress(part.stop / len(rows))


class RescaledEngine(BackgroundEngine):
    """Values of a function of the raw output, ``g(f(x))``.

    For every row x and background row z the values of the raw output are multiplied by the slope
    ``(g(f(x)) - g(f(z))) / (f(x) - f(z))``, so that they add up to the difference of g; then comes the mean
    over z. This costs time in proportion to rows times background rows.
    """

    def __init__(self, ensemble: TreeEnsemble, background: Background, link: Link, **options: Any) -> None:
        super().__init__(ensemble, background, only_pairs=True, **options)
        self.link = link

    def matrices(self, *arguments: Any, **options: Any) -> None:
        """Interactions are those of the raw output only."""
        raise InputError(
            "Interaction values are defined for model_output='raw': a product of slopes explains no pair."
        )

    @property
    def expected_value(self) -> Float64:
        """(n_outputs,) the mean of ``g`` over the background, if it needs no ``y``."""
        return self.background.mean(self.link.apply(self._margins, None))

    def expected_values(self, y: Float64) -> Float64:
        """(n_rows, n_outputs) the mean of ``g`` over the background, for the ``y`` of each row."""
        means = [
            self.background.mean(self.link.apply(self._margins, np.full((1, 1), one))) for one in np.unique(y)
        ]
        return np.asarray(np.array(means)[np.unique(y, return_inverse=True)[1].reshape(-1)])

    def values(
        self,
        rows: npt.NDArray[np.floating],
        out: npt.NDArray[np.floating],
        *,
        n_jobs: int | None = None,
        progress: Callable[[float], object] | None = None,
        y: Float64 | None = None,  # (n_rows,) for links that need it
    ) -> None:
        """As `Engine.values`."""
        margins = self.predict(rows, n_jobs=n_jobs)
        step = max(1, _PAIRS_AT_ONCE // len(self._margins))
        scratch = out if self.n_outputs == 1 else np.empty((min(step, len(rows)), *out.shape[1:]), out.dtype)
        for start in range(0, len(rows), step):
            part = slice(start, min(start + step, len(rows)))
            for output in range(self.n_outputs):
                slopes = self.link.slope(
                    margins[part, output, None],
                    self._margins[None, :, output],
                    None if y is None else y[part, None],
                )
                written = out[part] if self.n_outputs == 1 else scratch[: part.stop - part.start]
                self._tables.explain(
                    rows[part],
                    written,
                    pair_weights=np.ascontiguousarray(slopes * self.background.shares),
                    n_threads=n_threads(n_jobs),
                    progress=None,
                )
                if self.n_outputs > 1:
                    out[part, :, output] = written[:, :, output]
            if progress is not None:
                progress(part.stop / len(rows))
