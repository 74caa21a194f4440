"""CatBoost → TreeEnsemble, from a model or a .cbm file.

Reads the binary model, which is flat arrays and needs no CatBoost: the JSON of the same model takes
50 times as long to write. Symmetric trees are written out in full, leaves without any training row
included. Categories are known by their hashes and met by one-hot splits; splits on statistics of
categories (CTR) look at other rows' labels, are no function of a column's value alone, and are refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import (
    FileFormatError,
    LinearTreeShapError,
    ModelError,
    UnreadableRowsError,
    UnsupportedModelError,
)
from ..model.ensemble import TreeEnsemble, check_n_outputs
from ..model.links import Exponential, Link, Logistic
from ..model.row_format import RowFormat
from ..rows.frames import column_names, match_columns
from ..rows.rows import Rows
from ..rows.rows import read_rows as read_plain_rows
from .assemble import NodeArrays
from .flatbuffers import Table

__all__ = [
    "BEGINNINGS",
    "LIBRARY",
    "is_softmax",
    "link",
    "own_values",
    "predicts_raw",
    "raw_prediction",
    "read_file",
    "read_rows",
    "to_ensemble",
]

Array = npt.NDArray[Any]

LIBRARY = "CatBoost"
BEGINNINGS = (b"CBM1",)

# Positions of the fields in CatBoost's schema.
_MODEL_TREES = 1
_DIMENSION, _TREE_SPLITS, _TREE_SIZES = 0, 1, 2
_CAT_FEATURES, _FLOAT_FEATURES, _ONE_HOT_FEATURES, _CTR_FEATURES = 4, 5, 6, 7
_CTR, _CTR_BASE, _CTR_COMBINATION, _COMBINED_CATEGORIES = 0, 0, 0, 0
_LEAF_VALUES, _LEAF_WEIGHTS, _STEPS, _LEAF_OF_NODE = 8, 9, 10, 11
_ESTIMATED_FEATURES, _SCALE, _BIAS, _BIASES = 13, 14, 15, 16
_FLOAT_COLUMN, _FLOAT_BORDERS, _FLOAT_NAME, _FLOAT_NAN = 2, 3, 4, 5
_CAT_INDEX, _CAT_COLUMN, _CAT_NAME = 0, 1, 2
_ONE_HOT_INDEX, _ONE_HOT_HASHES = 0, 1

_NAN_GOES_RIGHT = 2

#: CatBoost lists all columns but those of text and embeddings, which may lie between the others.
_MAX_UNLISTED = 1 << 16


def to_ensemble(model: Any) -> TreeEnsemble:
    """Read a CatBoost, CatBoostClassifier, CatBoostRegressor or CatBoostRanker."""
    if not model.is_fitted():
        raise ModelError(f"This {type(model).__name__} is not fitted: call fit() first.")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.cbm"
        model.save_model(str(path))
        content = path.read_bytes()
    return _from_bytes(content, tuple(str(name) for name in model.classes_))


def read_file(path: str | os.PathLike[str]) -> TreeEnsemble:
    """Read a model that CatBoost saved in its own format (.cbm); CatBoost itself is not needed."""
    return _from_bytes(Path(path).read_bytes())


def read_rows(X: Any, ensemble: TreeEnsemble) -> Rows:
    """The rows of a Pool, which gives its numbers back only if all of its features are numeric."""
    try:
        features = X.get_features()
    except Exception as error:  # CatBoostError, which need not be imported to be caught
        raise UnreadableRowsError(
            f"The rows cannot be read back from this {type(X).__name__}: {error}. "
            f"Pass the data frame or array that it was made of."
        ) from error
    array, names = np.asarray(features), list(X.get_feature_names())
    if any(names):  # a Pool made of an array has empty names
        array = array[:, match_columns(names, ensemble.row_format)]
    return read_plain_rows(array, ensemble.row_format)


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float64]:
    """(n_rows, n_outputs) CatBoost's own raw formula values."""
    from catboost import CatBoost

    columns = column_names(X)
    if columns is not None:
        X = _as_pandas(X)
        if not set(columns) & set(model.feature_names_):
            X = X.set_axis(model.feature_names_, axis=1)  # matched by position, which CatBoost would refuse
    # By the base class: a ranker's own predict() does not say which output it gives.
    values = np.asarray(CatBoost.predict(model, X, prediction_type="RawFormulaVal"), dtype=np.float64)
    return values.reshape(len(values), -1)


def own_values(path: str) -> tuple[str, Callable[[Array], Any]]:
    """CatBoost's release, and its values of a file's model: ready rows → (n_rows, …), the base value last."""
    import catboost

    model = catboost.CatBoost().load_model(path)

    def explain(rows: Array) -> Any:
        return model.get_feature_importance(catboost.Pool(rows), type="ShapValues", thread_count=1)

    return catboost.__version__, explain


def predicts_raw(model: Any) -> bool:
    return not str(model.get_param("loss_function")).startswith(("Poisson", "Tweedie", "RMSEWithUncertainty"))


def link(model: Any) -> Link | None:
    loss = _loss(model)
    if loss in ("Logloss", "CrossEntropy", "MultiClassOneVsAll"):
        return Logistic()
    return Exponential() if loss in ("Poisson", "Tweedie") else None


def is_softmax(model: Any) -> bool:
    return _loss(model) == "MultiClass"


def _loss(model: Any) -> str:
    """The name of the loss; a default is among all parameters only."""
    return str(model.get_all_params().get("loss_function")).partition(":")[0]


def _as_pandas(X: Any) -> Any:
    """CatBoost reads no Arrow tables, and polars' categorical columns end the process (1.2.10)."""
    import narwhals.stable.v1 as nw

    if nw.dependencies.is_pandas_dataframe(X):
        return X
    columns = nw.from_native(X, eager_only=True).iter_columns()
    by_name = {c.name: c.to_numpy() if c.dtype.is_numeric() else c.to_list() for c in columns}
    return import_module("pandas").DataFrame(by_name)


# -- the whole model -------------------------------------------------------------------------------


def _from_bytes(content: bytes, class_names: tuple[str, ...] = ()) -> TreeEnsemble:
    if content[:4] != b"CBM1":
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
            return _build(Table.root(memoryview(content)[8 : 8 + size]).table(_MODEL_TREES), class_names)
    except LinearTreeShapError:
        raise
    except (ValueError, IndexError, OverflowError, MemoryError) as error:
        raise FileFormatError(f"The CatBoost model is damaged: {error!r}.") from error


def _build(model: Table, class_names: tuple[str, ...]) -> TreeEnsemble:
    dimension = max(int(model.number(_DIMENSION, "<i", 1)), 1)
    check_n_outputs(dimension, n_known=len(model.array(_LEAF_VALUES, "<f8")))
    splits, row_format = _read_features(model)
    nodes, category_set = _read_trees(model, dimension, splits)
    return TreeEnsemble(
        **nodes.finish(),
        category_set=category_set,
        category_offsets=np.arange(len(splits.code) + 1),
        category_codes=splits.code,
        base_values=_biases(model, dimension),
        row_format=row_format,
        output_names=class_names if len(class_names) == dimension > 1 else None,
    )


def _read_trees(model: Table, dimension: int, splits: _Splits) -> tuple[NodeArrays, Array]:
    """All nodes, and the category set that each of them asks for (-1 if none)."""
    leaves = _read_leaves(model, dimension)
    if len(model.array(_STEPS, "<u4")):
        nodes, split = _grown_trees(model, leaves)
        _sum_covers(nodes)
    else:
        nodes, split = _symmetric_trees(model, leaves)
    if len(split) and split.max() >= len(splits.feature):
        raise UnsupportedModelError(
            f"This CatBoost model splits on statistics of categories (CTR), which depend on the training "
            f"labels and mix features{_statistics_of(model)}. Train it with one_hot_max_size above the "
            f"largest number of categories, or encode the categories as numbers before training."
        )

    inner = split >= 0
    chosen = split[inner]
    nodes.feature[inner] = splits.feature[chosen]
    nodes.threshold[inner] = splits.border[chosen]
    nodes.missing_left[inner] = splits.missing_left[chosen]
    category_set = np.full(len(split), -1, dtype=np.int32)
    category_set[inner] = splits.category_set[chosen]
    # CatBoost sends the category that a node asks for right, and everything else left.
    swapped = category_set >= 0
    nodes.left[swapped], nodes.right[swapped] = nodes.right[swapped], nodes.left[swapped]
    category_set.setflags(write=False)
    return nodes, category_set


def _statistics_of(model: Table) -> str:
    """The features whose statistics the model keeps, for a message."""
    names = {int(t.number(_CAT_INDEX, "<i", -1)): t.text(_CAT_NAME) for t in model.tables(_CAT_FEATURES)}
    found: list[int] = []
    for feature in model.tables(_CTR_FEATURES):
        combination = feature.table(_CTR).table(_CTR_BASE).table(_CTR_COMBINATION)
        found += combination.array(_COMBINED_CATEGORIES, "<i4").tolist()
    shown = [repr(names.get(number) or number) for number in dict.fromkeys(found)]
    return f": of {', '.join(shown[:8])}{', …' if len(shown) > 8 else ''}" if shown else ""


def _biases(model: Table, dimension: int) -> Array:
    biases = model.array(_BIASES, "<f8")  # older models have a single one
    return np.array(np.broadcast_to(biases if len(biases) else model.number(_BIAS, "<d", 0.0), dimension))


# -- the features ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Splits:
    """All conditions that the trees may ask for, by number: borders first, then categories."""

    feature: Array
    border: Array
    missing_left: Array
    category_set: Array
    code: Array  # the one code in each category set


def _read_features(model: Table) -> tuple[_Splits, RowFormat]:
    floats, categories = model.tables(_FLOAT_FEATURES), model.tables(_CAT_FEATURES)
    if model.tables(_ESTIMATED_FEATURES):
        raise UnsupportedModelError(
            "This CatBoost model uses text or embedding features, whose splits are no function of a column's "
            "value alone. Train it on numbers and categories."
        )
    borders = [table.array(_FLOAT_BORDERS, "<f4") for table in floats]
    columns = [int(table.number(_FLOAT_COLUMN, "<i", -1)) for table in floats]
    # NaN is above no border, unless the model was trained with nan_mode="Max".
    nan_left = [table.number(_FLOAT_NAN, "<b", 0) != _NAN_GOES_RIGHT for table in floats]

    column_of = {
        int(t.number(_CAT_INDEX, "<i", -1)): int(t.number(_CAT_COLUMN, "<i", -1)) for t in categories
    }
    hashes: dict[int, tuple[int, ...]] = {}
    for table in model.tables(_ONE_HOT_FEATURES):
        found = tuple(table.array(_ONE_HOT_HASHES, "<i4").tolist())
        hashes[column_of.get(int(table.number(_ONE_HOT_INDEX, "<i", -1)), -1)] = found
    hashes |= {column: () for column in column_of.values() if column not in hashes}  # no tree reads these

    n_borders = [len(found) for found in borders]
    n_hashes = [len(found) for found in hashes.values()]
    n_numeric, n_sets = sum(n_borders), sum(n_hashes)
    splits = _Splits(
        feature=np.repeat([*columns, *hashes], [*n_borders, *n_hashes]).astype(np.int32),
        border=np.concatenate([np.zeros(0), *borders, np.zeros(n_sets)]),
        missing_left=np.append(
            np.repeat(np.array(nan_left, dtype=np.bool_), n_borders), np.zeros(n_sets, np.bool_)
        ),
        category_set=np.append(np.full(n_numeric, -1), np.arange(n_sets)).astype(np.int32),
        code=np.concatenate([np.zeros(0, np.int32), *(np.arange(n, dtype=np.int32) for n in n_hashes)]),
    )
    names = {int(t.number(_FLOAT_COLUMN, "<i", -1)): t.text(_FLOAT_NAME) for t in floats}
    names |= {int(t.number(_CAT_COLUMN, "<i", -1)): t.text(_CAT_NAME) for t in categories}
    n_features = max(names, default=-1) + 1
    if n_features > len(names) + _MAX_UNLISTED:  # before names are made up for them
        raise FileFormatError(
            f"The CatBoost model is damaged: it has {n_features:,} columns, but lists {len(names):,}."
        )
    return splits, RowFormat(
        n_features=n_features,
        feature_names=tuple(names.get(i, str(i)) for i in range(n_features)) if any(names.values()) else None,
        dtype="float32",
        hashes=hashes,
        numbers_are_codes=False,
    )


# -- the trees -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Leaves:
    """All leaves of all trees, end to end."""

    value: Array  # (n_leaves, dimension)
    weight: Array  # (n_leaves,)


def _read_leaves(model: Table, dimension: int) -> _Leaves:
    value = model.array(_LEAF_VALUES, "<f8").reshape(-1, dimension) * model.number(_SCALE, "<d", 1.0)
    weight = model.array(_LEAF_WEIGHTS, "<f8")
    if len(weight) != len(value):
        raise UnsupportedModelError(
            f"This CatBoost model has {len(weight)} leaf weights for {len(value)} leaves. Without them "
            f"nothing says how much training data reached a leaf. Save the model as it was trained."
        )
    return _Leaves(value, weight)


def _symmetric_trees(model: Table, leaves: _Leaves) -> tuple[NodeArrays, Array]:
    """Nodes of trees that ask one condition per level, and each node's condition (-1 at leaves).

    Bit ``i`` of a leaf's number answers condition ``i``. The last condition comes first, at the root:
    so the leaves below any node are neighbours, and CatBoost's own Shapley values assume the same.
    """
    depths = model.array(_TREE_SIZES, "<i4").astype(np.int64)
    if ((depths < 0) | (depths > 30)).any():
        raise FileFormatError(f"The CatBoost model is damaged: a tree is {np.max(depths)} levels deep.")
    n_leaves = np.int64(1) << depths
    if n_leaves.sum() != len(leaves.value):
        raise FileFormatError("The CatBoost model is damaged: its leaves do not fit its trees.")
    conditions = model.array(_TREE_SPLITS, "<i4")
    first_condition, first_leaf = np.cumsum(depths) - depths, np.cumsum(n_leaves) - n_leaves
    nodes = NodeArrays.empty((2 * n_leaves - 1).tolist(), leaves.value.shape[1])
    split = np.full(len(nodes.left), -1, dtype=np.int32)
    for depth in np.unique(depths).tolist():
        trees = np.flatnonzero(depths == depth)
        root = nodes.tree_offsets[trees][:, None]
        weight = leaves.weight[first_leaf[trees][:, None] + np.arange(1 << depth)]
        for level in range(depth):
            # The nodes of a level are 2**level - 1 and those that follow, as in a heap.
            number = np.arange((1 << level) - 1, (2 << level) - 1)
            here = root + number
            nodes.left[here], nodes.right[here] = 2 * number + 1, 2 * number + 2
            split[here] = conditions[first_condition[trees] + depth - 1 - level][:, None]
            nodes.cover[here] = weight.reshape(len(trees), 1 << level, -1).sum(axis=2)
        here = root + np.arange((1 << depth) - 1, (2 << depth) - 1)
        nodes.cover[here] = weight
        nodes.value[here] = leaves.value[first_leaf[trees][:, None] + np.arange(1 << depth)]
    return nodes, split


def _grown_trees(model: Table, leaves: _Leaves) -> tuple[NodeArrays, Array]:
    """Nodes of trees that were grown node by node, and each node's condition (-1 at leaves).

    A node holds how many nodes further its two children are. Zero means that the walk ends: at a
    leaf both ways, and one way at a node that is an inner node and a leaf in one. That leaf becomes a
    node of its own, behind the others of its tree.
    """
    steps = model.array(_STEPS, np.dtype([("left", "<u2"), ("right", "<u2")]))
    sizes = model.array(_TREE_SIZES, "<i4").astype(np.int64)
    if sizes.sum() != len(steps) or (sizes < 1).any():
        raise FileFormatError("The CatBoost model is damaged: its nodes do not fit its trees.")
    left, right = steps["left"].astype(np.int32), steps["right"].astype(np.int32)
    tree = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    leaf, half = (left == 0) & (right == 0), (left == 0) != (right == 0)
    n_half = np.bincount(tree[half], minlength=len(sizes))
    nodes = NodeArrays.empty((sizes + n_half).tolist(), leaves.value.shape[1])

    position = np.arange(len(steps)) - (np.cumsum(sizes) - sizes)[tree]
    number = position.astype(np.int32)  # within the tree
    position += nodes.tree_offsets[tree]
    spare = np.zeros(len(steps), dtype=np.int32)  # the number of a half node's own leaf
    spare[half] = sizes[tree[half]] + np.arange(n_half.sum()) - (np.cumsum(n_half) - n_half)[tree[half]]
    for child, step in ((nodes.left, left), (nodes.right, right)):
        child[position] = np.where(leaf, -1, np.where(step > 0, number + step, spare))

    ends = leaf | half
    at = np.where(half, nodes.tree_offsets[tree] + spare, position)[ends]
    leaf_number = model.array(_LEAF_OF_NODE, "<u4")[ends] // leaves.value.shape[1]
    nodes.value[at], nodes.cover[at] = leaves.value[leaf_number], leaves.weight[leaf_number]
    split = np.full(len(nodes.left), -1, dtype=np.int32)
    split[position[~leaf]] = model.array(_TREE_SPLITS, "<i4")[~leaf]
    return nodes, split


def _sum_covers(nodes: NodeArrays) -> None:
    """Give inner nodes the cover of the leaves below them, a level at a time, from the bottom up."""
    root = np.repeat(nodes.tree_offsets[:-1], np.diff(nodes.tree_offsets))
    levels = [nodes.tree_offsets[:-1]]
    n_seen = 0
    while (inner := levels[-1][nodes.left[levels[-1]] >= 0]).size:
        n_seen += len(inner)
        if n_seen > len(root):
            raise FileFormatError("The CatBoost model is damaged: two nodes share a child.")
        levels[-1] = inner
        levels.append(np.concatenate([root[inner] + nodes.left[inner], root[inner] + nodes.right[inner]]))
    for inner in reversed(levels[:-1]):
        nodes.cover[inner] = (
            nodes.cover[root[inner] + nodes.left[inner]] + nodes.cover[root[inner] + nodes.right[inner]]
        )
