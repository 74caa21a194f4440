"""Leaves that are linear functions of columns, against background rows.

For a row x and a background row z, a column of the mixed row is x's if its player is present and else z's, in
the lines of leaves as in the questions of trees. Counted from an origin o, which is the least of z's,

    mixed[j] · T_j(mixed) = o · T_j + (x[j] - o) · [j is present] T_j + (z[j] - o) · [j is absent] T_j.

Presence is a question about one more column, of the same player, which is 1 in rows and 0 in background rows;
x[j] - o is a factor of the row's values, and z[j] - o, which is not negative, a weight of the background row.
So values are sums of those of ordinary trees: exact, and in time that does not grow with the background.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..model.ensemble import TreeEnsemble
from ..model.line_terms import constants, slopes
from ..players.players import Players
from ..progress import share_of
from .background import BackgroundEngine
from .background_rows import Background
from .contract import Sets, Told, Truth, Values
from .program import Program
from .sets import Kind

__all__ = ["LinesEngine"]

Float64 = npt.NDArray[np.float64]

#: Numbers of values that are in memory at once.
_NUMBERS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class _Term:
    """Ordinary trees whose values count for something else in each row, or background row."""

    engine: BackgroundEngine
    column: int | None = None  # values are multiplied by this column of the row, less the origin
    factor: float = 1.0
    weights: Float64 | None = None  # (n_background_rows,) what the weights of pairs are multiplied by


class LinesEngine:
    """Values are means over background rows, of leaves that are linear functions; see `Engine`."""

    float32_error = 0.0

    def __init__(
        self, program: Program, background: Background, *, n_jobs: int | None = None, scan_only: bool = False
    ) -> None:
        """``scan_only`` is for callers who have weights for every row and background row."""
        lines = program.ensemble.lines
        assert lines is not None
        self.program, self.background = program, background
        self.n_players, self.n_outputs = program.n_players, program.n_outputs
        self._scan_only, self._n_jobs, self._columns = scan_only, n_jobs, lines.columns
        numbers = self._numbers(background.rows, "A background row")
        self._may_miss = bool(np.isnan(numbers).any())
        self._origin = np.zeros(program.ensemble.n_columns)
        self._origin[self._columns] = np.where(np.isnan(numbers), np.inf, numbers).min(axis=0, initial=np.inf)
        self._origin[np.isinf(self._origin)] = 0.0  # of a column that all background rows miss
        self._terms: dict[bool, list[_Term]] = {}  # made when first asked for
        #: (n_background_rows, n_outputs) raw predictions of the background rows
        self.margins = program.predict(background.rows, n_jobs=n_jobs)

    def base_values(self, y: Truth = None) -> Float64:
        """(n_outputs,) the mean raw prediction over the background."""
        return self.background.mean(self.margins)

    def values(
        self, rows: Values, out: Values, *, y: Truth = None, n_jobs: int | None = None, progress: Told = None
    ) -> None:
        """Write the values of ``rows`` to ``out``, (n_rows, n_players, n_outputs)."""
        self._write(BackgroundEngine.values, rows, out, n_jobs, progress)

    def pairs(self, rows: Values, out: Values, *, n_jobs: int | None = None, progress: Told = None) -> None:
        """Write (n_rows, n_players, n_players, n_outputs): half of each pair's index in two places, and on
        the diagonal what is left of each player's value."""
        self._write(BackgroundEngine.pairs, rows, out, n_jobs, progress)

    def weighted_values(
        self, rows: Values, out: Values, weights: Float64, *, n_jobs: int | None = None, progress: Told = None
    ) -> None:
        """Write sums over the background with weights (n_rows, n_background_rows) for every pair."""
        assert self._scan_only
        self._write(BackgroundEngine.weighted_values, rows, out, n_jobs, progress, weights)

    def sets(self, kind: Kind | None, order: Any) -> Sets:
        """There are only pairs."""
        raise InputError(
            "Interactions of a model whose leaves are linear functions are known for pairs only: "
            "shap_interaction_values gives them."
        )

    def _write(
        self,
        explain: Any,
        rows: Values,
        out: Values,
        n_jobs: int | None,
        progress: Told,
        weights: Float64 | None = None,
    ) -> None:
        """Add up what terms give for ``rows``; those with something missing take more questions."""
        numbers = self._numbers(rows, "A row")
        may_miss = np.isnan(numbers).any(axis=1) | self._may_miss
        step = max(1, _NUMBERS_AT_ONCE // max(1, int(np.prod(out.shape[1:]))))
        for start in range(0, len(rows), step):
            some = slice(start, min(start + step, len(rows)))
            for asks in np.unique(may_miss[some]).tolist():
                here = start + np.flatnonzero(may_miss[some] == asks)
                pairs = None if weights is None else weights[here]
                total = self._total(explain, self._terms_for(asks), rows[here], out.shape[1:], n_jobs, pairs)
                with np.errstate(over="ignore"):  # beyond float32 is infinity
                    out[here] = total
            if progress is not None:
                share_of(progress, some, len(rows))(1.0)

    def _total(
        self,
        explain: Any,
        terms: list[_Term],
        rows: Values,
        shape: tuple[int, ...],
        n_jobs: int | None,
        weights: Float64 | None,
    ) -> Float64:
        present = _with_presence(rows, 1.0)
        total, part = np.zeros((len(rows), *shape)), np.empty((len(rows), *shape))
        for term in terms:
            if weights is None:
                explain(term.engine, present, part, n_jobs=n_jobs)
            else:
                pairs = weights if term.weights is None else weights * term.weights
                explain(term.engine, present, part, np.ascontiguousarray(pairs), n_jobs=n_jobs)
            factor: Any = term.factor
            if term.column is not None:
                # Where it is missing, no leaf that reads it has a slope.
                x = np.nan_to_num(
                    rows[:, term.column].astype(np.float64) - self._origin[term.column], nan=0.0
                )
                factor = x.reshape(-1, *[1] * len(shape))
            total += factor * part
        return total

    def _terms_for(self, may_miss: bool) -> list[_Term]:
        """``may_miss`` says that columns of lines may be missing, in the row or in background rows."""
        if may_miss not in self._terms:
            self._terms[may_miss] = list(self._made(may_miss))
        return self._terms[may_miss]

    def _made(self, may_miss: bool) -> Iterator[_Term]:
        whole = self.program.ensemble
        background = Background(_with_presence(self.background.rows, 0.0), self.background.weights)
        yield self._term(constants(whole, self._origin, may_miss=may_miss), None, background)
        for column in self._columns.tolist():
            trees = slopes(whole, column, if_present=True, may_miss=may_miss)
            if trees.n_trees == 0:
                continue
            yield self._term(trees, column, background, column=column)
            above = np.nan_to_num(self.background.rows[:, column] - self._origin[column], nan=0.0)
            if not above.any():
                continue
            trees = slopes(whole, column, if_present=False, may_miss=may_miss)
            if self._scan_only:
                yield self._term(trees, column, background, weights=above)
            else:
                weighted = Background(background.rows, above * self.background.shares)
                factor = float(np.sum(above * self.background.shares))
                yield self._term(trees, column, weighted, factor=factor)

    def _term(self, trees: TreeEnsemble, owner: int | None, background: Background, **options: Any) -> _Term:
        """``owner`` is the column whose player the presence column belongs to; None if no tree asks."""
        whole = self.program
        players = whole.players or Players.each([""] * whole.n_players)
        of_column = np.append(players.of_column, players.of_column[0 if owner is None else owner])
        names = (*players.column_names, "")
        program = Program(
            trees,
            players=replace(players, of_column=of_column, column_names=names),
            index=whole.index,
            kernel=whole.kernel,
        )
        engine = BackgroundEngine(program, background, n_jobs=self._n_jobs, scan_only=self._scan_only)
        return _Term(engine, **options)

    def _numbers(self, rows: Values, whose: str) -> npt.NDArray[np.floating]:
        """(n_rows, n) the columns that lines read."""
        numbers = rows[:, self._columns]
        if np.isinf(numbers).any():
            column = int(self._columns[np.flatnonzero(np.isinf(numbers).any(axis=0))[0]])
            raise InputError(
                f"{whose} has an infinite number in column {column}, of which leaves are linear functions: "
                f"the prediction is infinite, and cannot be divided. Pass finite numbers, or NaN for missing."
            )
        return numbers


def _with_presence(rows: Values, presence: float) -> Values:
    """Rows with one more column, which says whether a player is present."""
    out = np.empty((len(rows), rows.shape[1] + 1), dtype=rows.dtype)
    out[:, :-1], out[:, -1] = rows, presence
    return out
