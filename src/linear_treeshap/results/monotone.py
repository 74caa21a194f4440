"""Do values have the signs that a model's monotone constraints promise?

Against one reference row every coalition changes a feature from the reference's number to the row's. If the
model rises with that feature, whatever the others are, then so does each of these changes, and so does their
mean: a value is not negative where the row's number is above the reference's, and not positive where it is
below. That holds of all indices, whose weights are not negative, and of increasing functions of the raw
output. Against several background rows, or by covers, it need not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..engines.background_rows import Background
from ..errors import ModelError
from ..model.ensemble import TreeEnsemble
from ..model.joint_links import JointLink
from ..model.links import Exponential, Link, Logistic
from ..players.assignment import Assignment
from .difference import FLOAT64_TOLERANCE

__all__ = ["Signs"]

Array = npt.NDArray[Any]


class Signs:
    """The signs that values must have, of players that are one constrained column each."""

    def __init__(
        self, columns: Array, players: Array, directions: Array, reference: Array, names: Any, scale: float
    ) -> None:
        self._columns, self._players, self._directions = columns, players, directions
        self._reference, self._names, self._scale = reference, names, scale

    @classmethod
    def of(
        cls,
        ensemble: TreeEnsemble,
        assignment: Assignment,
        background: Background | None,
        link: Link | JointLink | None,
        scale: float,
    ) -> Signs | None:
        """None if nothing is promised."""
        is_increasing = link is None or isinstance(link, (Logistic, Exponential))
        if background is None or len(background.rows) != 1 or not is_increasing or assignment.divided:
            return None
        of_column = assignment.in_trees.of_column
        sizes = np.bincount(of_column)
        columns = np.array([c for c in sorted(ensemble.monotone) if sizes[of_column[c]] == 1], dtype=np.int64)
        if not len(columns):
            return None
        directions = np.array([ensemble.monotone[c] for c in columns.tolist()], dtype=np.float64)
        names = [assignment.in_trees.names[player] for player in of_column[columns]]
        return cls(columns, of_column[columns], directions, background.rows[0, columns], names, scale)

    def check(self, part: slice, block: Array, values: Array) -> None:
        """Raise ModelError if a value of the rows ``part``, read as ``block``, has the wrong sign.

        ``values`` are (n_rows, n_players, n_outputs). Where a number is missing nothing is promised."""
        with np.errstate(invalid="ignore"):
            rises = np.sign(block[:, self._columns] - self._reference) * self._directions
        wrong = (rises[:, :, None] * values[:, self._players] < -FLOAT64_TOLERANCE * self._scale).any(axis=2)
        if not wrong.any():
            return
        row, place = map(int, np.argwhere(wrong)[0])
        found = values[row, self._players[place]]
        way = "rise" if self._directions[place] > 0 else "fall"
        raise ModelError(
            f"The model says that its output can only {way} with {self._names[place]!r}, and row "
            f"{part.start + row} contradicts it: its number is {block[row, self._columns[place]]:g}, the "
            f"reference's is {self._reference[place]:g}, and its value "
            f"{found[np.argmax(np.abs(found))]:.6g}. Either training did not keep the constraint, or the "
            f"trees were changed afterwards; reasons must not rest on it. check_additivity=False gives the "
            f"values all the same."
        )
