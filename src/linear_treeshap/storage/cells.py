"""Rows as the trees read them ↔ the cells of each column that the trees can tell apart.

A tree asks whether a number is at most a threshold, in a set of categories, or missing. The thresholds of all
trees cut a column into cells, and two numbers of one cell go the same way everywhere. So a row is as good as
the numbers of its cells, in the columns that some tree asks about: that is a byte or two each, and less than
the row says of whoever it belongs to.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError, InputError
from ..model.ensemble import TreeEnsemble

__all__ = ["Cells"]

Array = npt.NDArray[Any]
Float64 = npt.NDArray[np.float64]


class Cells:
    """The cells of an ensemble.

    Examples
    --------
    >>> import numpy as np
    >>> from linear_treeshap import import_model
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> tree = import_model(DecisionTreeRegressor().fit([[0, 7], [1, 7], [2, 7]], [0.0, 1, 2]))
    >>> cells = Cells(tree)  # the tree asks about the first column only, at 0.5 and 1.5
    >>> numbers = cells.of_rows(np.array([[0.1, 3], [1.2, 4], [9.0, 5], [np.nan, 6]], dtype=np.float32))
    >>> numbers.ravel().tolist()
    [0, 1, 2, 3]
    >>> cells.rows(numbers).tolist()
    [[0.5, 0.0], [1.5, 0.0], [1.5000001192092896, 0.0], [nan, 0.0]]
    """

    def __init__(self, ensemble: TreeEnsemble) -> None:
        if ensemble.lines is not None:
            raise InputError(
                "The leaves of this model are linear functions of columns (linear_tree=True), which need the "
                "numbers of background rows; a file keeps only which way these go in the trees. Pickle the "
                "explainer, which keeps the rows."
            )
        if ensemble.row_format.keeps_hashes:
            raise InputError(
                "groups='mixed' looks combinations up for rows that are mixed with background rows, which "
                "needs the categories of these; a file keeps only which way they go in the trees. Pickle the "
                "explainer, which keeps the rows."
            )
        self._ensemble = ensemble
        self._dtype = ensemble.row_format.numpy_dtype

    @cached_property
    def columns(self) -> Array:
        """(n_asked,) the columns that some tree asks about."""
        return np.unique(self._ensemble.feature[~self._ensemble.is_leaf])

    @cached_property
    def cuts(self) -> list[Float64]:
        """(n_asked,) where each column is cut: a cell reaches from above a cut up to the next, included."""
        e = self._ensemble
        numeric = np.flatnonzero(~e.is_leaf & (e.category_set < 0))
        by_set = np.flatnonzero(~e.is_leaf & (e.category_set >= 0))
        sizes = np.diff(e.category_offsets)[e.category_set[by_set]]
        first = e.category_offsets[:-1][e.category_set[by_set]]
        place = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes) + np.repeat(first, sizes)
        codes = e.category_codes[place].astype(np.float64)
        # A code stands for the numbers from itself up to, not including, the next.
        asked = np.concatenate([e.feature[numeric], *[np.repeat(e.feature[by_set], sizes)] * 2])
        at = np.concatenate(
            [e.threshold[numeric], _below(codes, self._dtype), _below(codes + 1, self._dtype)]
        )
        order = np.lexsort((at, asked))
        asked, at = asked[order], at[order]
        bounds = np.searchsorted(asked, np.append(self.columns, np.iinfo(np.int32).max))
        # A column that is asked about by sets without codes has no cuts.
        return [np.unique(at[start:end]) for start, end in pairwise(bounds.tolist())]

    @cached_property
    def members(self) -> list[Array]:
        """(n_asked,) a number of each cell of a column; the last two are that above all cuts, and missing."""
        categorical = set(self._ensemble.feature[self._ensemble.category_set >= 0].tolist())
        return [
            _members(cuts, self._dtype, whole=column in categorical)
            for column, cuts in zip(self.columns.tolist(), self.cuts, strict=True)
        ]

    def of_rows(self, rows: Array) -> Array:
        """(n_rows, n_asked) the number of each cell, in the smallest type that holds them all."""
        largest = max((len(members) for members in self.members), default=0)
        dtype = np.uint8 if largest <= 1 << 8 else np.uint16 if largest <= 1 << 16 else np.int32
        numbers = np.empty((len(rows), len(self.columns)), dtype=dtype)
        for place, (column, cuts) in enumerate(zip(self.columns.tolist(), self.cuts, strict=True)):
            x = rows[:, column].astype(np.float64)
            numbers[:, place] = np.where(np.isnan(x), len(cuts) + 1, np.searchsorted(cuts, x))
        return numbers

    def rows(self, numbers: Array) -> Array:
        """(n_rows, n_columns) rows of these cells, with zeros in the columns that no tree asks about.

        Raises
        ------
        FileFormatError
            There are no such cells.
        """
        if numbers.ndim != 2 or numbers.shape[1] != len(self.columns):
            raise FileFormatError(
                f"rows of cells have {numbers.shape[-1]} columns; the trees ask about {len(self.columns)}."
            )
        try:
            rows = np.zeros((len(numbers), self._ensemble.n_columns), dtype=self._dtype)
        except (MemoryError, ValueError) as error:
            raise FileFormatError(
                f"{len(numbers):,} rows of {self._ensemble.n_columns:,} columns do not fit into memory."
            ) from error
        for place, (column, members) in enumerate(zip(self.columns.tolist(), self.members, strict=True)):
            found = numbers[:, place]
            if found.size and not 0 <= int(found.min()) <= int(found.max()) < len(members):
                raise FileFormatError(f"a row is in a cell of column {column} that there is not.")
            rows[:, column] = members[found]
        return rows


def _below(numbers: Float64, dtype: np.dtype[Any]) -> Float64:
    """The largest number of a type that is less than each of these."""
    rounded = numbers.astype(dtype)
    below = np.nextafter(rounded, dtype.type(-np.inf))
    return np.where(rounded.astype(np.float64) >= numbers, below, rounded).astype(np.float64)


def _members(cuts: Float64, dtype: np.dtype[Any], *, whole: bool) -> Array:
    """The cut that a cell ends at, as a number of the rows' own type; of categories, their codes."""
    with np.errstate(over="ignore"):
        ends = cuts.astype(dtype)
        # Rounded down: a cell ends at its cut. If that leaves the cell, no row is in it.
        ends = np.where(ends.astype(np.float64) > cuts, np.nextafter(ends, dtype.type(-np.inf)), ends)
        if len(ends) and cuts[-1] == np.inf:  # of a node that tells known numbers from missing ones
            ends[-1] = np.nextafter(ends[-2], dtype.type(np.inf)) if len(ends) > 1 else 0
        above = np.nextafter(ends[-1], dtype.type(np.inf)) if len(ends) else dtype.type(0)
        if whole:
            before = np.concatenate([[-np.inf], cuts[:-1]])
            ends = np.where(np.floor(ends) > before, np.floor(ends), ends)
            above = np.maximum(np.ceil(above), above)
    return np.concatenate([ends, [above, np.nan]]).astype(dtype)
