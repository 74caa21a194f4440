"""Trees and forests of pyspark.ml, fitted or as the directory that ``model.save`` wrote → TreeEnsemble.

The directory is read without Spark: JSON and Parquet. A fitted model is saved to Spark's own file system,
read back by Spark and removed again, because the directory is what Spark promises to keep.

A regressor is explained by its prediction. A tree or forest that classifies has an output per class, the
probability, which is the mean of the trees' shares. `GBTClassifier` has one output: the weighted sum of its
trees, half the log-odds, which is the second of its ``rawPrediction``. Rows are float64, ``<=`` goes left,
and categories are the indices that Spark's own indexers make; NaN and indices never seen go where Spark sends
them.
"""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError, MissingDependencyError, ModelError, how_to_install
from ..model.ensemble import TreeEnsemble
from ..model.links import Link, Logistic
from ..model.row_format import Label, RowFormat
from ..rows.rows import read_rows
from .assemble import NodeArrays

__all__ = [
    "BEGINNINGS",
    "LIBRARY",
    "is_directory_of_model",
    "link",
    "predicts_raw",
    "raw_prediction",
    "read_file",
    "to_ensemble",
]

LIBRARY = "Spark ML"
#: A model is a directory, not a file.
BEGINNINGS = ()

Array = npt.NDArray[Any]

#: Categories that are made room for, because a node says no more of them than their number.
_MAX_CODES = 1 << 20

_CLASSES = {
    "DecisionTreeClassificationModel",
    "DecisionTreeRegressionModel",
    "RandomForestClassificationModel",
    "RandomForestRegressionModel",
    "GBTClassificationModel",
    "GBTRegressionModel",
}


def to_ensemble(model: Any) -> TreeEnsemble:
    with _saved(model) as (session, path):
        metadata = json.loads(session.read.text(f"{path}/metadata").first()[0])
        nodes = _lines(session.read.parquet(f"{path}/data"))
        weights = None
        if _is_ensemble(metadata):
            weights = _lines(session.read.parquet(f"{path}/treesMetadata"))
    return _ensemble(metadata, nodes, weights)


def read_file(path: Path) -> TreeEnsemble:
    """Read a directory that ``model.save`` wrote."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingDependencyError(
            f"{str(path)!r} is a model of Spark, whose trees are in Parquet, and pyarrow is not installed. "
            f"{how_to_install('cli')}"
        ) from error
    metadata = _metadata(path)
    name = str(metadata.get("class", "")).rpartition(".")[2]
    if name not in _CLASSES:
        raise FileFormatError(
            f"{str(path)!r} is a saved {name or 'object'} of Spark, which is none of "
            f"{', '.join(sorted(_CLASSES))}. Of a pipeline, pass the directory of its last stage, in "
            f"{str(path / 'stages')!r}."
        )
    try:
        nodes = pyarrow.parquet.read_table(path / "data")
        is_ensemble = _is_ensemble(metadata)
        weights = pyarrow.parquet.read_table(path / "treesMetadata") if is_ensemble else None
        return _ensemble(metadata, nodes, weights)
    except (OSError, KeyError, FileFormatError, ModelError, pyarrow.ArrowException) as error:
        raise FileFormatError(f"Cannot read {str(path)!r} as a model of Spark: {error}") from error


def is_directory_of_model(path: Path) -> bool:
    """Did Spark write this directory?"""
    return path.is_dir() and (path / "metadata").is_dir()


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float64]:
    """Spark's own: of probabilities, margins or predictions, whichever is explained."""
    from pyspark.ml.linalg import Vectors
    from pyspark.sql import SparkSession

    rows = read_rows(X, RowFormat(int(model.numFeatures)))
    numbers = np.asarray(rows[0 : rows.n_rows], dtype=np.float64)
    session = SparkSession.builder.getOrCreate()
    column = model.getOrDefault(model.featuresCol)
    made = [(number, Vectors.dense(row)) for number, row in enumerate(numbers)]
    if not made:
        return np.empty((0, 1))
    name = type(model).__name__
    if name == "GBTClassificationModel":
        asked = model.getOrDefault(model.rawPredictionCol)
    elif name.endswith("ClassificationModel"):
        asked = model.getOrDefault(model.probabilityCol)
    else:
        asked = model.getOrDefault(model.predictionCol)
    lines = model.transform(session.createDataFrame(made, ["row", column])).select("row", asked).collect()
    found = [value for _, value in sorted((line[0], line[1]) for line in lines)]
    if name == "GBTClassificationModel":
        return np.array([[vector[1]] for vector in found])
    if name.endswith("ClassificationModel"):
        return np.array([vector.toArray() for vector in found])
    return np.array(found, dtype=np.float64).reshape(-1, 1)


def predicts_raw(model: Any) -> bool:
    return type(model).__name__.endswith("RegressionModel")


def link(model: Any) -> Link | None:
    """The logistic loss of Spark is of labels -1 and 1: probability is that of twice the margin."""
    return Logistic(2.0) if type(model).__name__ == "GBTClassificationModel" else None


# -- inside -----------------------------------------------------------------------------------------------


@contextmanager
def _saved(model: Any) -> Iterator[tuple[Any, str]]:
    """A directory of a fitted model where Spark can read it, for as long as it is needed."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    path = f"{tempfile.gettempdir()}/linear-treeshap-{uuid.uuid4().hex}"
    model.write().save(path)
    try:
        yield session, path
    finally:
        context: Any = session.sparkContext
        directory = context._jvm.org.apache.hadoop.fs.Path(path)
        directory.getFileSystem(context._jsc.hadoopConfiguration()).delete(directory, True)


def _lines(frame: Any) -> Any:
    """A small table of Spark as one of Arrow; JSON keeps every digit, in all releases."""
    import pyarrow

    return pyarrow.Table.from_pylist([json.loads(line) for line in frame.toJSON().collect()])


def _metadata(path: Path) -> dict[str, Any]:
    parts = sorted((path / "metadata").glob("part-*"))
    try:
        text = "".join(part.read_text(encoding="utf-8") for part in parts)
        metadata = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise FileFormatError(f"Cannot read {str(path)!r} as a model of Spark: {error}") from error
    if not isinstance(metadata, dict):
        raise FileFormatError(
            f"Cannot read {str(path)!r} as a model of Spark: its metadata is no JSON object."
        )
    return metadata


def _is_ensemble(metadata: dict[str, Any]) -> bool:
    return not str(metadata["class"]).rpartition(".")[2].startswith("DecisionTree")


def _ensemble(metadata: dict[str, Any], table: Any, weights: Any) -> TreeEnsemble:
    """The trees of a saved model: lines of nodes, and the weight of each tree."""
    name = str(metadata["class"]).rpartition(".")[2]
    columns = _Columns(table)
    n_trees = len(columns.sizes)
    of_tree = np.ones(n_trees) if weights is None else _weights(weights, n_trees)
    if not name.startswith("GBT"):
        of_tree = of_tree / n_trees  # forests are means
    is_classifier = name in ("DecisionTreeClassificationModel", "RandomForestClassificationModel")
    n_outputs = _count(metadata, "numClasses") if is_classifier else 1
    stats = columns.stats
    if is_classifier and stats.shape[1] != n_outputs:
        raise FileFormatError(f"its nodes count {stats.shape[1]:,} classes, of {n_outputs:,}.")
    nodes = NodeArrays.empty(columns.sizes, n_outputs)
    nodes.left[...], nodes.right[...] = columns.left, columns.right
    inner = columns.left >= 0
    nodes.feature[inner] = columns.feature[inner]
    if is_classifier:
        nodes.cover[...] = stats.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            nodes.value[...] = np.nan_to_num(stats / nodes.cover[:, np.newaxis])
    else:
        nodes.cover[...] = stats[:, 0]  # the sum of weights, beside sums of labels and of their squares
        nodes.value[:, 0] = columns.prediction
    nodes.value[...] *= np.repeat(of_tree, columns.sizes)[:, np.newaxis]
    is_category = inner & (columns.n_categories >= 0)
    is_number = inner & ~is_category
    nodes.threshold[is_number] = columns.first_bound[is_number]
    at_sets = np.flatnonzero(is_category)
    sets = [_Set.of(columns.bounds(node), int(columns.n_categories[node])) for node in at_sets.tolist()]
    swapped = at_sets[np.array([one.is_swapped for one in sets], dtype=np.bool_)]
    nodes.left[swapped], nodes.right[swapped] = nodes.right[swapped].copy(), nodes.left[swapped].copy()
    category_set = np.full(len(inner), -1, dtype=np.int32)
    category_set[is_category] = np.arange(len(sets))
    codes = [one.codes for one in sets]
    return TreeEnsemble(
        **nodes.finish(),
        category_set=category_set,
        category_offsets=np.cumsum([0, *map(len, codes)]),
        category_codes=np.concatenate([*codes, np.empty(0, dtype=np.int32)]).astype(np.int32),
        base_values=np.zeros(n_outputs),
        row_format=_row_format(_count(metadata, "numFeatures"), columns, is_category),
        output_names=tuple(map(str, range(n_outputs))) if is_classifier else None,
    )


def _count(metadata: dict[str, Any], name: str) -> int:
    number = metadata[name]
    if not isinstance(number, int):
        raise FileFormatError(f"its {name} is {number!r}, which is no whole number.")
    return number


def _weights(table: Any, n_trees: int) -> npt.NDArray[np.float64]:
    """The weight of each tree: lines of a number, what is known of the tree, and its weight.

    The names of these columns differ by release.
    """
    if table.num_columns < 3:
        raise FileFormatError("it does not say the weights of its trees.")
    number, _, weight = table.column_names[:3]
    numbers, found = _numbers(table, number, "int64"), _numbers(table, weight, "float64")
    order = np.argsort(numbers, kind="stable")
    if not np.array_equal(numbers[order], np.arange(n_trees)):
        raise FileFormatError(f"it does not have a weight for each of {n_trees} trees.")
    return np.asarray(found[order], dtype=np.float64)


def _numbers(table: Any, name: str, kind: str) -> Array:
    """A column, of this type and whole; ArrowException if it holds anything else."""
    column = table.column(name).cast(kind)
    if column.null_count:
        raise FileFormatError(f"{name} is absent from some lines.")
    return np.asarray(column.to_numpy())


def _lists(table: Any, name: str) -> tuple[Array, Array]:
    """A column of lists of numbers: how many each line has, and all of them."""
    import pyarrow

    column = table.column(name).cast(pyarrow.list_(pyarrow.float64())).combine_chunks()
    inside = column.flatten()
    if column.null_count or inside.null_count:
        raise FileFormatError(f"{name} is absent from some lines.")
    return np.asarray(column.value_lengths(), dtype=np.int64), np.asarray(inside, dtype=np.float64)


class _Columns:
    """The nodes of all trees, one after another, in the order of their numbers."""

    def __init__(self, table: Any) -> None:
        import pyarrow.compute

        if not table.num_rows:
            raise FileFormatError("it has no nodes.")
        if "nodeData" in table.column_names:
            trees = _numbers(table, "treeID", "int64")
            table = table.select(["nodeData"]).flatten()
            table = table.rename_columns([name.partition(".")[2] for name in table.column_names])
        else:
            trees = np.zeros(table.num_rows, dtype=np.int64)
        order = np.lexsort((_numbers(table, "id", "int64"), trees))
        table = table.take(pyarrow.array(order)).combine_chunks()
        known, sizes = np.unique(trees, return_counts=True)
        place = np.concatenate([np.arange(size) for size in sizes])
        if known[0] != 0 or known[-1] != len(known) - 1 or (_numbers(table, "id", "int64") != place).any():
            raise FileFormatError("its trees, or nodes of one, are not numbered from 0 on.")
        self.sizes = sizes.tolist()
        self.left, self.right = _numbers(table, "leftChild", "int32"), _numbers(table, "rightChild", "int32")
        self.prediction = _numbers(table, "prediction", "float64")
        lengths, stats = _lists(table, "impurityStats")
        if not lengths[0] or (lengths != lengths[0]).any():
            raise FileFormatError("its nodes do not all count the same.")
        self.stats = stats.reshape(table.num_rows, -1)
        split = table.select(["split"]).flatten()
        self.feature = _numbers(split, "split.featureIndex", "int32")
        self.n_categories = _numbers(split, "split.numCategories", "int32")
        lengths, bounds = _lists(split, "split.leftCategoriesOrThreshold")
        self._offsets, self._bounds = np.append(0, np.cumsum(lengths)), np.append(bounds, 0.0)
        self.first_bound = self._bounds[self._offsets[:-1]]

    def bounds(self, node: int) -> npt.NDArray[np.float64]:
        """The categories that go left at a node, or its threshold."""
        found: npt.NDArray[np.float64] = self._bounds[self._offsets[node] : self._offsets[node + 1]]
        return found


class _Set:
    """The categories of a node that are remembered by Spark, which is the smaller half of them.

    All others, also those never seen, go the other way.
    """

    def __init__(self, codes: Sequence[int], is_swapped: bool) -> None:
        self.codes = np.array(sorted(codes), dtype=np.int32)
        self.is_swapped = is_swapped

    @classmethod
    def of(cls, left: npt.NDArray[np.float64], n_categories: int) -> _Set:
        if not ((left >= 0) & (left < n_categories) & (left % 1 == 0)).all():
            raise FileFormatError(f"a node has categories that are none of {n_categories:,}.")
        to_left = {int(code) for code in left}
        if len(to_left) <= n_categories / 2:
            return cls(list(to_left), False)
        return cls([code for code in range(n_categories) if code not in to_left], True)


def _row_format(n_features: int, columns: _Columns, is_category: Array) -> RowFormat:
    """Categories are whole numbers from 0: any other number is none of them."""
    known = np.unique([columns.feature[is_category], columns.n_categories[is_category]], axis=1)
    features, counts = known.tolist()
    if len(set(features)) != len(features) or sum(counts) > _MAX_CODES:
        raise FileFormatError(
            "its nodes disagree on how many categories there are, or claim too many of them."
        )
    labels: dict[int, tuple[Label, ...]] = {
        feature: tuple(map(float, range(count))) for feature, count in zip(features, counts, strict=True)
    }
    return RowFormat(n_features, categories=labels, numbers_are_codes=False)
