"""Rows that only CatBoost can read → rows that go the same way in our trees: texts, embeddings, Pools.

A row's leaf in a symmetric tree has a number whose bits answer all conditions of the tree, whatever they ask
about. So the leaves in all trees say, for every column that the trees read, between which borders it lies,
and a number from between them does as well as the one that CatBoost has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError, UnsupportedModelError
from ..rows.frames import column_names
from ..rows.tables import take_rows
from .catboost_file import CatBoostFile

__all__ = ["LeafReader", "as_catboost_takes"]

Array = npt.NDArray[Any]

#: Numbers of leaves that are in memory at once.
_NUMBERS_AT_ONCE = 1 << 24


@dataclass(frozen=True)
class _Question:
    """What the trees ask about a column, and which bits answer."""

    column: int
    tree: Array
    level: Array
    answers: Array  # numbers from between the borders; of categories their codes, and NaN for all others
    is_number: bool

    def numbers(self, leaves: Array) -> Array:
        bits = (leaves[:, self.tree] >> self.level) & 1
        if self.is_number:  # above so many of the borders, which are in increasing order
            place = bits.sum(axis=1)
        else:
            place = np.where(bits.any(axis=1), bits.argmax(axis=1), len(self.tree))
        return np.asarray(self.answers[place])


class LeafReader:
    """A transformer of the user's rows, in the manner of scikit-learn, by a model that keeps its leaves."""

    #: Such rows cannot be read without the model.
    needs_model = True

    def __init__(self, model: Any, file: CatBoostFile) -> None:
        splits = file.splits
        if splits is None:
            raise UnsupportedModelError(
                "This CatBoost model reads texts or embeddings in trees that are not symmetric, whose leaves "
                "do not say how a row answers every condition. Train it with grow_policy='SymmetricTree'."
            )
        self.sources = file.sources
        self.n_features_in_ = file.row_format.n_features
        if file.row_format.feature_names is not None:
            self.feature_names_in_ = file.row_format.feature_names
        self._model = model
        self._n_trees = int(splits.tree[-1]) + 1 if len(splits.tree) else 1
        self._questions = tuple(_questions(file))

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """(n_rows, n_columns) that go where the rows go."""
        rows = as_catboost_takes(self._model, X)
        n_rows = int(rows.num_row()) if hasattr(rows, "num_row") else len(rows)
        found = np.zeros((n_rows, len(self.sources)), dtype=np.float32)
        step = max(1, _NUMBERS_AT_ONCE // self._n_trees)
        for start in range(0, n_rows, step):
            some = slice(start, min(start + step, n_rows))
            leaves = self._leaves(rows if some == slice(0, n_rows) else _cut(rows, some))
            for question in self._questions:
                found[some, question.column] = question.numbers(leaves)
        return found

    def _leaves(self, rows: Any) -> Array:
        try:
            return np.asarray(self._model.calc_leaf_indexes(rows))
        except Exception as error:  # CatBoostError, which need not be imported to be caught
            raise InputError(f"CatBoost itself does not read these rows: {error}") from error


def _questions(file: CatBoostFile) -> Iterator[_Question]:
    """One for each column that some tree asks about."""
    conditions, splits = file.conditions, file.splits
    assert splits is not None
    asked, place = np.unique(splits.condition, return_index=True)  # once is enough
    for column in np.unique(conditions.column[asked]).tolist():
        own = conditions.column[asked] == column
        border, sets = conditions.border[asked[own]], conditions.category_set[asked[own]]
        order = np.argsort(border, kind="stable")
        is_number = bool(len(sets) and sets[0] < 0)
        if is_number:
            border = border[order].astype(np.float32)
            answers = np.append(border, np.nextafter(border[-1], np.float32(np.inf)))
        else:
            answers = np.append(conditions.code[sets[order]].astype(np.float32), np.float32(np.nan))
        at = place[own][order]
        yield _Question(column, splits.tree[at], splits.level[at].astype(np.uint32), answers, is_number)


def _cut(rows: Any, some: slice) -> Any:
    """Some rows, also of a Pool."""
    return (
        rows.slice(list(range(some.start, some.stop))) if hasattr(rows, "num_row") else take_rows(rows, some)
    )


def as_catboost_takes(model: Any, X: Any) -> Any:
    """The rows in a container that CatBoost reads, with columns under the names that it knows."""
    columns = column_names(X)
    if columns is None:
        return X
    X = _as_pandas(X)
    if not set(columns) & set(model.feature_names_):
        return X.set_axis(model.feature_names_, axis=1)  # matched by position, which CatBoost would refuse
    return X


def _as_pandas(X: Any) -> Any:
    """CatBoost reads no Arrow tables, and polars' categorical columns end the process (1.2.10)."""
    import narwhals.stable.v1 as nw

    if nw.dependencies.is_pandas_dataframe(X):
        return X
    columns = nw.from_native(X, eager_only=True).iter_columns()
    by_name = {c.name: c.to_numpy() if c.dtype.is_numeric() else c.to_list() for c in columns}
    return import_module("pandas").DataFrame(by_name)
