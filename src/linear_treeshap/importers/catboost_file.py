"""The bytes of a CatBoost model (.cbm) → TreeEnsemble; CatBoost itself is not needed.

A condition of a tree asks whether a number is above a border, whether something that was computed of a text
or an embedding is, whether a category is a certain one, or whether a statistic of categories
(`catboost_statistics.py`) is above a border. Conditions are numbered in this order; categories are known by
their hashes. The trees read the features, behind them statistics, and behind these what is computed of texts
and embeddings: only CatBoost knows that, and `catboost_leaves.py` asks it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError, LinearTreeShapError
from ..model.ensemble import TreeEnsemble, check_n_outputs
from ..model.row_format import RowFormat
from .catboost_statistics import Columns, read_statistics
from .catboost_trees import Splits, read_nodes, read_splits
from .flatbuffers import Table, arrays, texts

__all__ = ["BEGINNING", "CatBoostFile", "Conditions"]

Array = npt.NDArray[Any]

BEGINNING = b"CBM1"

# Positions of the fields in CatBoost's schema.
_MODEL_TREES, _INFO = 1, 2
_INFO_KEY, _INFO_TEXT = 0, 1
_DIMENSION, _CAT_FEATURES, _FLOAT_FEATURES, _ONE_HOT_FEATURES, _LEAF_VALUES = 0, 4, 5, 6, 8
_TEXT_FEATURES, _ESTIMATED_FEATURES, _BIAS, _BIASES, _EMBEDDING_FEATURES = 12, 13, 15, 16, 18
_FLOAT_INDEX, _FLOAT_COLUMN, _FLOAT_BORDERS, _FLOAT_NAME, _FLOAT_NAN = 1, 2, 3, 4, 5
_OTHER_INDEX, _OTHER_COLUMN, _OTHER_NAME = 0, 1, 2  # of categories, texts and embeddings
_ONE_HOT_INDEX, _ONE_HOT_HASHES = 0, 1
_ESTIMATED_SOURCE, _ESTIMATED_BORDERS, _ESTIMATED_KIND = 0, 3, 4

_NAN_GOES_RIGHT = 2

#: Older CatBoost lists all columns but those of text and embeddings, which may lie between the others.
_MAX_UNLISTED = 1 << 16


@dataclass(frozen=True)
class Conditions:
    """All conditions that the trees may ask for, by number."""

    column: Array  # that the trees read
    border: Array
    missing_left: Array
    category_set: Array  # -1 if a number is asked for
    code: Array  # the one code in each category set


class CatBoostFile:
    """What is in a file; FileFormatError says what is wrong with it."""

    def __init__(self, content: bytes) -> None:
        if content[:4] != BEGINNING:
            raise FileFormatError(
                "A CatBoost model file begins with 'CBM1', this one does not. Save it with format='cbm'."
            )
        size = int.from_bytes(content[4:8], "little")  # of what follows
        if len(content) < 8 + size:
            raise FileFormatError(
                f"The CatBoost model is cut short: {8 + size:,} bytes expected, {len(content):,} came."
            )
        try:
            with np.errstate(invalid="ignore"):  # a damaged border may be a NaN that NumPy warns of
                self._read(memoryview(content)[8 : 8 + size], memoryview(content)[8 + size :])
        except LinearTreeShapError:
            raise
        except (ValueError, IndexError, OverflowError, MemoryError) as error:
            raise FileFormatError(f"The CatBoost model is damaged: {error!r}.") from error

    def _read(self, core: memoryview, rest: memoryview) -> None:
        self._trees = model = Table.root(core).table(_MODEL_TREES)
        self._floats, self._categories = model.tables(_FLOAT_FEATURES), model.tables(_CAT_FEATURES)
        self._texts, self._embeddings = model.tables(_TEXT_FEATURES), model.tables(_EMBEDDING_FEATURES)
        self._computed, self._one_hot = model.tables(_ESTIMATED_FEATURES), model.tables(_ONE_HOT_FEATURES)
        self._columns = Columns(
            of_float=_by_index(self._floats, _FLOAT_INDEX, _FLOAT_COLUMN),
            of_category=_by_index(self._categories, _OTHER_INDEX, _OTHER_COLUMN),
            # NaN is above no border, unless the model was trained with nan_mode="Max".
            nan_is_above={
                int(t.number(_FLOAT_COLUMN, "<i", -1)): t.number(_FLOAT_NAN, "<b", 0) == _NAN_GOES_RIGHT
                for t in self._floats
            },
        )
        self._statistics = read_statistics(model, rest, self._columns)
        info = Table.root(core).tables(_INFO)
        self._info = dict(zip(texts(info, _INFO_KEY), texts(info, _INFO_TEXT), strict=True))

    @property
    def reads_texts(self) -> bool:
        """Are there columns of text or embeddings, which only CatBoost can read?"""
        return bool(self._texts or self._embeddings or self._computed)

    @cached_property
    def row_format(self) -> RowFormat:
        """What a row must be like, but for texts and embeddings."""
        others = (*self._categories, *self._texts, *self._embeddings)
        names = _by_column(self._floats, _FLOAT_COLUMN, _FLOAT_NAME)
        names |= _by_column(others, _OTHER_COLUMN, _OTHER_NAME)
        n_features = max(names, default=-1) + 1
        if n_features > len(names) + _MAX_UNLISTED:  # before names are made up for them
            raise FileFormatError(
                f"The CatBoost model is damaged: it has {n_features:,} columns, but lists {len(names):,}."
            )
        hashes: dict[int, tuple[int, ...]] = dict.fromkeys(self._columns.of_category.values(), ())
        for table, own in zip(self._one_hot, arrays(self._one_hot, _ONE_HOT_HASHES, "<i4"), strict=True):
            hashes[self._one_hot_column(table)] = tuple(own.tolist())
        is_named = any(names.values())
        return RowFormat(
            n_features=n_features,
            feature_names=tuple(names.get(i, str(i)) for i in range(n_features)) if is_named else None,
            dtype="float32",
            hashes=hashes,
            numbers_are_codes=False,
            lookups=self._statistics.lookups,
        )

    @cached_property
    def sources(self) -> tuple[tuple[int, ...], ...]:
        """The features behind each column that the trees read."""
        of_text = _by_index(self._texts, _OTHER_INDEX, _OTHER_COLUMN)
        of_embedding = _by_index(self._embeddings, _OTHER_INDEX, _OTHER_COLUMN)
        computed = [
            (of_embedding if t.number(_ESTIMATED_KIND, "<b", 0) else of_text).get(
                int(t.number(_ESTIMATED_SOURCE, "<i", -1)), -1
            )
            for t in self._computed
        ]
        if -1 in computed:
            raise FileFormatError(
                "The CatBoost model is damaged: a text is of a feature that it does not have."
            )
        own = ((feature,) for feature in range(self.row_format.n_features))
        return (*own, *self.row_format.sources, *((column,) for column in computed))

    @cached_property
    def conditions(self) -> Conditions:
        floats = [int(table.number(_FLOAT_COLUMN, "<i", -1)) for table in self._floats]
        nan_left = [not self._columns.nan_is_above[column] for column in floats]
        borders = arrays(self._floats, _FLOAT_BORDERS, "<f4")
        computed = self.row_format.n_columns + np.arange(len(self._computed))
        of_computed = arrays(self._computed, _ESTIMATED_BORDERS, "<f4")
        hashes = arrays(self._one_hot, _ONE_HOT_HASHES, "<i4")
        n_above, n_computed, n_sets, n_statistics = (
            sum(map(len, borders)),
            sum(map(len, of_computed)),
            sum(map(len, hashes)),
            len(self._statistics.border),
        )
        columns = [
            _repeated(floats, borders),
            _repeated(computed, of_computed),
            _repeated([self._one_hot_column(table) for table in self._one_hot], hashes),
            self.row_format.n_features + self._statistics.number,
        ]
        return Conditions(
            column=np.concatenate(columns).astype(np.int32),
            border=np.concatenate(
                [np.zeros(0), *borders, *of_computed, np.zeros(n_sets), self._statistics.border]
            ),
            missing_left=np.append(
                _repeated(nan_left, borders).astype(np.bool_),
                np.zeros(n_computed + n_sets + n_statistics, dtype=np.bool_),
            ),
            category_set=np.concatenate(
                [np.full(n_above + n_computed, -1), np.arange(n_sets), np.full(n_statistics, -1)]
            ).astype(np.int32),
            code=np.concatenate(
                [np.zeros(0, np.int32), *(np.arange(len(h), dtype=np.int32) for h in hashes)]
            ),
        )

    @cached_property
    def splits(self) -> Splits | None:
        """The conditions of symmetric trees; None if trees are others."""
        return read_splits(self._trees)

    def ensemble(self, class_names: tuple[str, ...] = ()) -> TreeEnsemble:
        """The trees. Where there are texts, they read nothing but columns that CatBoost answers for."""
        try:
            with np.errstate(invalid="ignore"):
                return self._build(class_names)
        except LinearTreeShapError:
            raise
        except (ValueError, IndexError, OverflowError, MemoryError) as error:
            raise FileFormatError(f"The CatBoost model is damaged: {error!r}.") from error

    def _build(self, class_names: tuple[str, ...]) -> TreeEnsemble:
        dimension = max(int(self._trees.number(_DIMENSION, "<i", 1)), 1)
        check_n_outputs(dimension, n_known=len(self._trees.array(_LEAF_VALUES, "<f8")))
        conditions = self.conditions
        nodes, condition = read_nodes(self._trees, dimension)
        if len(condition) and condition.max() >= len(conditions.column):
            raise FileFormatError("The CatBoost model is damaged: it asks a condition that it does not have.")
        inner = condition >= 0
        chosen = condition[inner]
        nodes.feature[inner] = conditions.column[chosen]
        nodes.threshold[inner] = conditions.border[chosen]
        nodes.missing_left[inner] = conditions.missing_left[chosen]
        category_set = np.full(len(condition), -1, dtype=np.int32)
        category_set[inner] = conditions.category_set[chosen]
        # CatBoost sends the category that a node asks for right, and everything else left.
        swapped = category_set >= 0
        nodes.left[swapped], nodes.right[swapped] = nodes.right[swapped], nodes.left[swapped]
        category_set.setflags(write=False)
        answered = RowFormat(len(self.sources), dtype="float32") if self.reads_texts else None
        return TreeEnsemble(
            **nodes.finish(),
            category_set=category_set,
            category_offsets=np.arange(len(conditions.code) + 1),
            category_codes=conditions.code,
            base_values=_biases(self._trees, dimension),
            row_format=answered or self.row_format,
            output_names=class_names if len(class_names) == dimension > 1 else None,
            monotone={} if self.reads_texts else self._monotone(),
        )

    def _monotone(self) -> dict[int, int]:
        """The constraints it was trained with, by column, which are among its parameters."""
        try:
            params = json.loads(self._info.get("params", "{}"))
            asked = params.get("tree_learner_options", {}).get("monotone_constraints", {})
            return {int(column): int(direction) for column, direction in asked.items() if direction}
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise FileFormatError(f"The parameters of the CatBoost model are damaged: {error!r}.") from error

    def _one_hot_column(self, table: Table) -> int:
        return self._columns.of_category.get(int(table.number(_ONE_HOT_INDEX, "<i", -1)), -1)


def _by_index(tables: Sequence[Table], index: int, column: int) -> dict[int, int]:
    """CatBoost numbers each kind of features apart: such a number → the column."""
    return {int(t.number(index, "<i", -1)): int(t.number(column, "<i", -1)) for t in tables}


def _by_column(tables: Sequence[Table], column: int, name: int) -> dict[int, str]:
    """The names of features, by their columns."""
    columns = (int(t.number(column, "<i", -1)) for t in tables)
    return dict(zip(columns, texts(tables, name), strict=True))


def _repeated(each: Any, times: Sequence[Array]) -> Array:
    """Each of some numbers as often as there are borders, or hashes, of it."""
    return np.repeat(np.array(each, dtype=np.int64), [len(found) for found in times])


def _biases(model: Table, dimension: int) -> Array:
    biases = model.array(_BIASES, "<f8")  # older models have a single one
    return np.array(np.broadcast_to(biases if len(biases) else model.number(_BIAS, "<d", 0.0), dimension))
