"""What the model's own library predicts for a few rows, to compare trees with where the library is not.

The rows are made, not taken: of each column that a tree asks about, the numbers at which the trees decide. So
they are nobody's, and they find what goes wrong when a model is read: thresholds that are `<` and not `<=`,
columns or labels in another order, missing values that go the wrong way, a base score left out.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import AdditivityError, FileFormatError, InputError
from ..importers import raw_prediction
from ..importers.pipelines.preprocessing import unwrap
from ..model.ensemble import TreeEnsemble
from ..model.routing import walk_trees
from ..results.additivity import scale_of
from ..results.reading import compare_with_library
from ..rows.rows import read_rows
from .cells import Cells

__all__ = ["Fingerprint", "check_fingerprint", "take_fingerprint"]

Array = npt.NDArray[Any]
Float64 = npt.NDArray[np.float64]

#: Rows that are compared, unless they are so wide that together they have more than this many numbers.
_ROWS, _MOST_NUMBERS = 64, 1 << 22
#: The share of missing values in half of the rows.
_MISSING = 0.1


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """Rows, by their cells, and the raw predictions that the model's library gave for them."""

    cells: Array  # (n_rows, n_asked)
    predictions: Float64  # (n_rows, n_outputs)


def take_fingerprint(model: Any, ensemble: TreeEnsemble) -> Fingerprint | None:
    """Ask the model's library, and compare the trees with it; None if it predicts no rows that can be made.

    Raises
    ------
    AdditivityError
        The library predicts otherwise.
    """
    cells = Cells(ensemble)
    for missing in (_MISSING, 0.0):
        made = _made_rows(cells, ensemble, missing)
        table = _table(made, ensemble)
        if table is None:
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that rows have no names, or names that they need not have
                predictions = raw_prediction(unwrap(model), table)
        except InputError:
            continue  # it takes no missing values, say
        read = read_rows(table, ensemble.row_format)
        found = Fingerprint(cells.of_rows(read[0 : read.n_rows]), predictions)
        _compare(ensemble, walk_trees(ensemble, cells.rows(found.cells)), predictions)
        return found
    return None


def check_fingerprint(ensemble: TreeEnsemble, fingerprint: Fingerprint) -> None:
    """Raise FileFormatError unless the trees predict what the library did."""
    if fingerprint.predictions.shape != (len(fingerprint.cells), ensemble.n_outputs):
        raise FileFormatError(
            f"its fingerprint has predictions of shape {fingerprint.predictions.shape} for "
            f"{len(fingerprint.cells)} rows and {ensemble.n_outputs} outputs."
        )
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            ours = walk_trees(ensemble, Cells(ensemble).rows(fingerprint.cells))
            _compare(ensemble, ours, fingerprint.predictions)
    except AdditivityError as error:
        raise FileFormatError(
            f"its trees do not predict what the model's own library did when it was saved: {error}"
        ) from error


def _compare(ensemble: TreeEnsemble, ours: Float64, theirs: Float64) -> None:
    compare_with_library(
        ours, theirs, np.arange(len(ours)), n_trees=ensemble.n_trees, scale=scale_of(ensemble)
    )


def _made_rows(cells: Cells, ensemble: TreeEnsemble, missing: float) -> Array:
    """Rows whose cells are drawn at random; half of them have missing values, if there are to be any."""
    rng = np.random.default_rng(0)
    n_rows = int(np.clip(_MOST_NUMBERS // max(1, ensemble.n_columns), 1, _ROWS))
    rows = np.zeros((n_rows, ensemble.n_columns), dtype=ensemble.row_format.numpy_dtype)
    for column, members in zip(cells.columns.tolist(), cells.members, strict=True):
        rows[:, column] = rng.choice(members[np.isfinite(members)], n_rows)
        rows[::2, column] = np.where(rng.random(len(rows[::2])) < missing, np.nan, rows[::2, column])
    return rows


def _table(rows: Array, ensemble: TreeEnsemble) -> Any:
    """The rows as the library takes them: with labels where there are any; None if these are not known."""
    row_format = ensemble.row_format
    if not row_format.labelled:
        return rows
    if row_format.hashes or find_spec("pandas") is None:
        return None
    pandas = import_module("pandas")
    frame = pandas.DataFrame(rows, columns=row_format.feature_names)
    for feature, labels in row_format.categories.items():
        codes = np.where(np.isin(rows[:, feature], np.arange(len(labels))), rows[:, feature], -1)
        found = pandas.Categorical.from_codes(codes.astype(np.int64), categories=pandas.Index(list(labels)))
        frame[frame.columns[feature]] = found
    return frame
