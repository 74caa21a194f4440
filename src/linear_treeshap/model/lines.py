"""Lines: leaves whose value is a linear function of some columns (LightGBM's ``linear_tree``).

Such a leaf adds its ``value`` and ``slope · x`` for each of its columns; if a row misses one of these
columns, it adds ``if_missing`` and nothing else. `line_terms` has the ordinary ensembles that one with lines
is the sum of.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import ModelError

if TYPE_CHECKING:
    from .ensemble import TreeEnsemble

__all__ = ["Lines", "joined_lines", "lines_scale"]

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Lines:
    """What leaves add besides their values, term by term."""

    node: Int64  # (n_terms,) the leaf, in increasing order
    column: Int32  # (n_terms,)
    slope: Float64  # (n_terms,)
    if_missing: Float64  # (n_nodes,) what a leaf adds where one of its columns is missing; unused elsewhere

    def __post_init__(self) -> None:
        for array in (self.node, self.column, self.slope, self.if_missing):
            array.setflags(write=False)

    def check(self, ensemble: TreeEnsemble) -> None:
        """Raise ModelError unless these can be the lines of this ensemble."""
        sizes = {len(self.node), len(self.column), len(self.slope)}
        if len(sizes) > 1 or len(self.if_missing) != ensemble.n_nodes:
            raise ModelError("Lines must have a leaf, a column and a slope for each term, and fit the nodes.")
        if ensemble.width != 1:
            raise ModelError("Leaves with lines hold one value each.")
        if (np.diff(self.node) < 0).any():
            raise ModelError("The terms of lines must be in the order of their leaves.")
        if (
            not ((self.node >= 0) & (self.node < ensemble.n_nodes)).all()
            or not ensemble.is_leaf[self.node].all()
        ):
            raise ModelError("A line belongs to a node that is no leaf.")
        if not ((self.column >= 0) & (self.column < ensemble.n_columns)).all():
            raise ModelError(f"A line reads a column that is not one of {ensemble.n_columns}.")
        if not (np.isfinite(self.slope).all() and np.isfinite(self.if_missing).all()):
            raise ModelError("Slopes, and values of leaves for missing columns, must be finite.")

    @cached_property
    def columns(self) -> Int32:
        """The columns that some leaf reads, in increasing order."""
        return np.unique(self.column)

    @cached_property
    def n_terms(self) -> Int64:
        """(n_nodes,) how many terms each leaf has."""
        return np.bincount(self.node, minlength=len(self.if_missing))

    @cached_property
    def first_term(self) -> Int64:
        """(n_nodes,) where the terms of each leaf begin."""
        return np.cumsum(self.n_terms) - self.n_terms

    def values(self, value: Float64, leaves: Int64, rows: npt.NDArray[Any]) -> Float64:
        """(n_rows, n) what the leaves (n_rows, n) add for the rows, if ``value`` (n_nodes,) is constant."""
        total, is_missing = value[leaves], np.zeros(leaves.shape, dtype=np.bool_)
        for k in range(int(self.n_terms.max(initial=0))):
            row, place = np.nonzero(self.n_terms[leaves] > k)
            term = self.first_term[leaves[row, place]] + k
            x = rows[row, self.column[term]].astype(np.float64)
            is_missing[row, place] |= np.isnan(x)
            with np.errstate(invalid="ignore"):  # infinities of both signs: LightGBM says NaN, too
                total[row, place] += self.slope[term] * x
        return np.where(is_missing, self.if_missing[leaves], total)

    def taken(self, nodes: Int64) -> Lines:
        """The lines of some nodes, which are numbered anew from 0 in this order, an increasing one."""
        number = np.full(len(self.if_missing), -1, dtype=np.int64)
        number[nodes] = np.arange(len(nodes))
        kept = number[self.node] >= 0
        return Lines(number[self.node[kept]], self.column[kept], self.slope[kept], self.if_missing[nodes])

    def scaled(self, factor: Float64) -> Lines:
        """The lines of leaves that count for more or less: ``factor`` is that of each node."""
        return Lines(self.node, self.column, self.slope * factor[self.node], self.if_missing * factor)


def joined_lines(parts: list[tuple[Lines | None, int]]) -> Lines | None:
    """The lines of ensembles of so many nodes each, one after another; None if none has any."""
    if all(lines is None for lines, _ in parts):
        return None
    empty = np.zeros(0)
    found = [
        Lines(empty.astype(np.int64), empty.astype(np.int32), empty, np.zeros(n)) if lines is None else lines
        for lines, n in parts
    ]
    starts = np.cumsum([0] + [n for _, n in parts])
    return Lines(
        np.concatenate([lines.node + start for lines, start in zip(found, starts, strict=False)]),
        np.concatenate([lines.column for lines in found]),
        np.concatenate([lines.slope for lines in found]),
        np.concatenate([lines.if_missing for lines in found]),
    )


def lines_scale(ensemble: TreeEnsemble, rows: npt.NDArray[Any]) -> Float64 | float:
    """(n_rows, 1) the largest sum of absolute terms that lines can add to a prediction; 0 without lines."""
    lines = ensemble.lines
    if lines is None:
        return 0.0
    total = np.zeros(len(rows))
    for column in lines.columns:
        of_column = lines.column == column
        steepest = np.zeros(ensemble.n_trees)
        np.maximum.at(steepest, ensemble.tree_of_node[lines.node[of_column]], np.abs(lines.slope[of_column]))
        total += np.nan_to_num(np.abs(rows[:, column].astype(np.float64)), nan=0.0) * steepest.sum()
    return total[:, None]
