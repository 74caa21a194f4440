"""The trees of a model file as columns: one array per field, over all trees.

The core reads a file in one pass, so that a model costs no Python object per node, nor per tree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError

__all__ = ["Columns"]

Array = npt.NDArray[Any]


class Columns:
    """The numbers of each field, of all trees end to end, until they are taken."""

    def __init__(self, columns: dict[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]]) -> None:
        self._columns = columns
        self.n_trees = len(next(iter(columns.values()))[1])

    def lengths(self, name: str) -> npt.NDArray[np.int64]:
        """(n_trees,) how many numbers each tree has of this field; none if it does not have the field."""
        return self._columns[name][1].astype(np.int64)

    def head(self, n_trees: int) -> Columns:
        """The first ``n_trees`` trees."""
        if not 0 <= n_trees <= self.n_trees:
            raise FileFormatError(f"The model is damaged: it has {self.n_trees} trees, but says {n_trees}.")
        return Columns(
            {
                name: (numbers[: lengths[:n_trees].sum()], lengths[:n_trees])
                for name, (numbers, lengths) in self._columns.items()
            }
        )

    def take(self, name: str, lengths: Array, dtype: type[np.generic] = np.float64) -> Array:
        """The numbers of a field, if each tree has as many as ``lengths`` says.

        They are given away, so that they need not stay in memory beside what is made of them.
        """
        found = self.lengths(name)
        numbers, _ = self._columns.pop(name)
        if not np.array_equal(found, lengths):
            raise FileFormatError(f"The model is damaged: a tree's {name!r} has the wrong length.")
        with np.errstate(invalid="ignore", over="ignore"):  # looked into below, or infinite as a float32
            converted = numbers.astype(dtype, copy=False)
        if not issubclass(dtype, np.floating) and not np.array_equal(converted, numbers):
            raise FileFormatError(
                f"The model is damaged: {name!r} holds numbers that are no {np.dtype(dtype)}."
            )
        return converted
