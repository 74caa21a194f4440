"""The rows and weights that a user gives as ``data`` → background rows as the trees read them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..importers.pipelines.preprocessing import Preprocessing
from ..model.ensemble import TreeEnsemble, require_numbers
from ..model.routing import visited_nodes
from ..players.assignment import Assignment
from ..players.user_rows import UserRows

__all__ = [
    "Background",
    "Perturbation",
    "merge_alike",
    "perturbation_of",
    "read_background",
    "require_covers",
    "user_background",
    "with_covers_of",
]

Array = npt.NDArray[Any]
Float64 = npt.NDArray[np.float64]

#: What an absent feature is taken for.
Perturbation = Literal["auto", "interventional", "tree_path_dependent"]

#: Weights are scaled if the largest is beyond this power of two, or below its inverse.
_MAX_WEIGHT_BITS = 64


@dataclass(frozen=True, eq=False)
class Background:
    """Background rows as the trees read them."""

    rows: Array  # (n_rows, n_columns), C-contiguous, of the model's dtype
    weights: Float64 | None  # (n_rows,) None if all count the same

    def mean(self, numbers: Float64) -> Float64:
        """The mean over the background of (n_rows, ...) numbers."""
        return np.asarray(np.average(numbers, axis=0, weights=self.weights), dtype=np.float64)

    def widened(self, n_columns: int) -> Background:
        """The same rows with more columns, which no tree reads."""
        rows = np.zeros((len(self.rows), n_columns), dtype=self.rows.dtype)
        rows[:, : self.rows.shape[1]] = self.rows
        return Background(rows, self.weights)

    @property
    def shares(self) -> Float64:
        """(n_rows,) what each row counts for; they add up to one."""
        if self.weights is None:
            return np.full(len(self.rows), 1.0 / len(self.rows))
        return np.asarray(self.weights / self.weights.sum())


def perturbation_of(asked: str, data: Any, data_weights: Any) -> str:
    """Which of the two was asked for; an InputError says what does not fit it."""
    if asked not in ("auto", "interventional", "tree_path_dependent"):
        raise InputError(
            f"feature_perturbation must be 'auto', 'interventional' or 'tree_path_dependent', got {asked!r}."
        )
    if data is None and data_weights is not None:
        raise InputError("data_weights are weights of background rows: pass these as data=.")
    if data is None and asked == "interventional":
        raise InputError(
            "feature_perturbation='interventional' needs background rows: pass data=. Without them, "
            "'tree_path_dependent' uses the shares of training rows that the trees remember."
        )
    if asked == "auto":
        return "tree_path_dependent" if data is None else "interventional"
    return asked


def user_background(
    data: Any,
    ensemble: TreeEnsemble,
    preprocessing: Preprocessing | None,
    assignment: Assignment,
    model: Any,
) -> UserRows:
    """``data`` as rows to explain are given; one of shap's maskers stands for the rows it holds."""
    if type(data).__module__.startswith("shap.maskers"):
        if not hasattr(data, "data"):
            raise InputError(
                f"A {type(data).__name__} masker has no background rows. Pass the rows themselves."
            )
        data = data.data
    try:
        return UserRows.of(data, ensemble, preprocessing, assignment, model)
    except InputError as error:
        raise InputError(f"The background data does not fit the model: {error}") from error


def read_background(
    data: Any,
    weights: Any,
    ensemble: TreeEnsemble,
    preprocessing: Preprocessing | None,
    assignment: Assignment,
    model: Any = None,
) -> Background:
    """Read the rows that a user gives as ``data``, and their weights."""
    if isinstance(data, Background):  # read from a file
        return data
    user_rows = user_background(data, ensemble, preprocessing, assignment, model)
    if user_rows.n_rows == 0:
        raise InputError("The background data has no rows. Pass at least one, or leave data out.")
    rows = user_rows.rows[0 : user_rows.n_rows]
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
    if not (np.isfinite(array).all() and (array >= 0).all() and array.any()):
        raise InputError("data_weights must be finite, not negative, and not all zero.")
    # Only ratios count. A power of two changes none, and their sum stays far from overflow and underflow.
    exponent = int(np.frexp(array.max())[1])
    return np.asarray(np.ldexp(array, -exponent)) if abs(exponent) > _MAX_WEIGHT_BITS else array


def merge_alike(background: Background, ensemble: TreeEnsemble) -> Background:
    """The same background with one row, of all their weight, for rows that no split tells apart."""
    if ensemble.row_format.keeps_hashes:
        return background  # a combination may tell apart, for a mixed row, what no split does
    columns = np.unique(ensemble.feature[~ensemble.is_leaf])
    if ensemble.lines is not None:
        columns = np.union1d(columns, ensemble.lines.columns)
    codes = [_codes(ensemble, column, background.rows[:, column]) for column in columns]
    table = np.stack([*codes, np.zeros(len(background.rows), dtype=np.int64)], axis=1)
    _, first, position = np.unique(table, axis=0, return_index=True, return_inverse=True)
    if len(first) == len(table):
        return background
    # In the order in which they come; `bincount` adds their weights up.
    order = np.argsort(first)
    weights = np.bincount(position.reshape(-1), weights=background.weights)[order]
    return Background(np.ascontiguousarray(background.rows[first[order]]), weights.astype(np.float64))


def _codes(ensemble: TreeEnsemble, column: int, x: Array) -> npt.NDArray[np.int64]:
    """Numbers that are equal where no split on this column tells two values apart."""
    nodes = ensemble.feature == column
    is_line = ensemble.lines is not None and column in ensemble.lines.columns
    if is_line or (ensemble.category_set[nodes] >= 0).any():
        return np.unique(x, return_inverse=True)[1].reshape(-1).astype(np.int64)
    place = np.searchsorted(np.unique(ensemble.threshold[nodes]), x.astype(np.float64), side="left")
    return np.where(np.isnan(x), -1, place)


def with_covers_of(ensemble: TreeEnsemble, background: Background) -> TreeEnsemble:
    """The same trees with the covers that this data has in them, as shap does for path-dependent values.

    Below a node that none of it reaches, both children count one half.
    """
    require_numbers(ensemble)
    cover = np.zeros(ensemble.n_nodes)
    weights = np.ones(len(background.rows)) if background.weights is None else background.weights
    for nodes, rows in visited_nodes(ensemble, background.rows):
        cover += np.bincount(nodes, weights=weights[rows], minlength=ensemble.n_nodes)
    return replace(ensemble, cover=cover)


def require_covers(ensemble: TreeEnsemble) -> None:
    """Raise InputError if the trees do not say how training rows went: files of some formats do not."""
    require_numbers(ensemble)
    if not ensemble.cover.any() and not ensemble.is_leaf.all():
        raise InputError(
            "These trees do not say how many training rows went left and right (ONNX models do not), and "
            "path-dependent values are weighted by that. Pass data=: with "
            "feature_perturbation='tree_path_dependent' its rows are counted in the trees, else they are the "
            "background."
        )
