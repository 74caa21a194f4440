"""Spark tables in, Spark tables out: rows are explained by the tasks that have them, a batch at a time.

What is sent to workers is the explainer's pickle, once for each (a broadcast). What does not fit is said on
the driver, by the schema, before any task runs. A task has as many threads as ``spark.task.cpus`` gives it.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import InputError, MissingDependencyError, how_to_install
from .explainer import TreeExplainer
from .storage.in_memory import from_bytes, to_bytes
from .streams.arrow import plain_texts, require_arrow
from .streams.batch_explainer import BatchExplainer, Options, used_beside
from .streams.columns import ModelColumns
from .streams.options import with_options
from .streams.sums import BatchSums, ImportanceOptions, InteractionOptions
from .streams.travel import travelling

if TYPE_CHECKING:
    from typing_extensions import Unpack

try:
    import pandas
    import pyspark.sql.functions
    import pyspark.sql.types
    from pyspark import keyword_only
    from pyspark.ml import Transformer
    from pyspark.ml.param import Param, Params, TypeConverters
    from pyspark.ml.param.shared import HasOutputCol
    from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.types import to_arrow_type
except ImportError as missing:
    raise MissingDependencyError(
        f"linear_treeshap.spark runs on Spark, and pyspark is not installed. {how_to_install('spark')}"
    ) from missing

__all__ = ["ShapTransformer", "explain", "global_importance", "global_interactions", "spark_udf"]


@with_options(Options, of=BatchExplainer)
def explain(
    df: DataFrame, explainer: TreeExplainer, *, features: str | None = None, **options: Unpack[Options]
) -> DataFrame:
    """The values of the rows of a Spark table, as one; it runs when that is asked for.

    Parameters
    ----------
    df
        A data frame of Spark. Columns are matched by name.
    explainer
        A `TreeExplainer`.
    options
        As for `linear_treeshap.explain_batches`. Rows of Spark have no number, so that "long" and "top" need
        columns to ``keep``.
    features
        A column of Vectors, as pyspark.ml makes them, to read instead of columns by name. Its elements are
        matched by the names in its metadata (``ml_attr``), or by position where there are none.

    Examples
    --------
    >>> from linear_treeshap.spark import explain  # doctest: +SKIP
    >>> explain(df, explainer, keep=["id"], prefix="shap_").write.parquet("values")  # doctest: +SKIP
    """
    beside = used_beside(options.get("keep", ()), options.get("y"))
    source = _Source(df, explainer, beside, features)
    explain_table = BatchExplainer(source.columns, source.schema, **options, numbers_rows=False)
    kept = [df.schema[name] for name in explain_table.keep]
    added = [
        pyspark.sql.types.StructField(field.name, _spark_type(field.type))
        for field in list(explain_table.schema)[len(kept) :]
    ]
    sent, expand = source.broadcast(explain_table), source.expand

    def explained(batches: Iterator[Any]) -> Iterator[Any]:
        for table in map(expand, batches):
            explain_batch = sent.value.keeping_types(table.schema)
            for start in range(0, table.num_rows, explain_batch.batch_rows):
                yield from explain_batch(table.slice(start, explain_batch.batch_rows)).to_batches()

    schema = pyspark.sql.types.StructType([*kept, *added])
    return source.select(explain_table.reads).mapInArrow(explained, schema)


@with_options(ImportanceOptions, of=BatchSums)
def global_importance(
    df: DataFrame,
    explainer: TreeExplainer,
    *,
    features: str | None = None,
    **options: Unpack[ImportanceOptions],
) -> Any:
    """As `linear_treeshap.global_importance`, over the rows of a Spark table: a job, and its result.

    Each task sums up its rows and sends the sums alone. They are exact: partitions do not show in the bits.
    """
    return _reduced(df, explainer, features, **options)


@with_options(InteractionOptions, of=BatchSums)
def global_interactions(
    df: DataFrame,
    explainer: TreeExplainer,
    order: int = 2,
    *,
    features: str | None = None,
    **options: Unpack[InteractionOptions],
) -> Any:
    """As `linear_treeshap.global_interactions`, over the rows of a Spark table: a job, and its result."""
    return _reduced(df, explainer, features, order=order, **options)


def spark_udf(
    explainer: TreeExplainer,
    *,
    only: str | int | None = None,
    base_values: bool = False,
    dtype: str = "float64",
    check_additivity: bool | float = True,
) -> Any:
    """A function for ``withColumn``: a struct of columns in, a struct of values by name out.

    Parameters
    ----------
    explainer
        A `TreeExplainer`.
    only, base_values, dtype, check_additivity
        As for `linear_treeshap.explain_batches`. A function has one line per row: of several outputs,
        ``only`` says which.

    Examples
    --------
    >>> from pyspark.sql.functions import struct  # doctest: +SKIP
    >>> from linear_treeshap.spark import spark_udf  # doctest: +SKIP
    >>> df.withColumn("shap", spark_udf(explainer)(struct("age", "bmi")))  # doctest: +SKIP
    """
    session = _active_session()
    sent = travelling(explainer, _task_cpus(session))
    return _udf(session, sent, only, base_values, dtype, check_additivity)


class ShapTransformer(Transformer, HasOutputCol, DefaultParamsReadable, DefaultParamsWritable):
    """A stage of a pyspark.ml pipeline that adds a column of values: a struct, by name.

    It is saved and loaded with its pipeline, as the file of `TreeExplainer.save` in its parameters: no code
    is run by loading it.

    Parameters
    ----------
    explainer
        A `TreeExplainer`; not one of a scikit-learn pipeline, whose steps such a file does not hold.
    featuresCol
        A column of Vectors to read; without it, the columns that the model knows by name.
    outputCol
        The column to add.
    baseValues
        Add a field "base_value" to the structs.
    only
        One output of several, by name or number.

    Examples
    --------
    >>> from linear_treeshap.spark import ShapTransformer  # doctest: +SKIP
    >>> ShapTransformer(explainer=explainer, featuresCol="features").transform(df)  # doctest: +SKIP
    """

    explainer: Any = Param(
        Params._dummy(), "explainer", "the file of a TreeExplainer, base64", TypeConverters.toString
    )
    featuresCol: Any = Param(
        Params._dummy(), "featuresCol", "a column of Vectors; '' for columns by name", TypeConverters.toString
    )
    baseValues: Any = Param(
        Params._dummy(), "baseValues", "add a field of base values", TypeConverters.toBoolean
    )
    only: Any = Param(Params._dummy(), "only", "one output of several; '' for all", TypeConverters.toString)

    @keyword_only
    def __init__(
        self,
        *,
        explainer: TreeExplainer | None = None,
        featuresCol: str = "",
        outputCol: str = "shap",
        baseValues: bool = False,
        only: str = "",
    ) -> None:
        super().__init__()
        given = {**self._input_kwargs}
        if explainer is not None:
            given["explainer"] = _packed(explainer)
        self._setDefault(featuresCol="", outputCol="shap", baseValues=False, only="")
        self._set(**given)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        features = self.getOrDefault(self.featuresCol) or None
        source = _Source(dataset, _unpacked(self.getOrDefault(self.explainer)), [], features)
        udf = _udf(
            source.session,
            source.columns.explainer,
            self.getOrDefault(self.only) or None,
            self.getOrDefault(self.baseValues),
            "float64",
            True,
            source.expand_frame,
        )
        taken = pyspark.sql.functions.struct(*source.taken(source.columns.names))
        return dataset.withColumn(self.getOutputCol(), udf(taken))


# -- inside -----------------------------------------------------------------------------------------------


class _Source:
    """A table, as the schema of what tasks are given; Vectors are elements by name there."""

    def __init__(
        self, df: DataFrame, explainer: TreeExplainer, beside: Sequence[str], features: str | None
    ) -> None:
        if not isinstance(df, DataFrame):
            raise InputError(f"df must be a data frame of Spark, got {type(df).__name__}.")
        self.session = df.sparkSession
        if "connect" in type(df).__module__:
            raise InputError(
                "This is a session of Spark Connect, which has no broadcasts to send an explainer with. Run "
                "it where the driver is."
            )
        self._df, self._features = df, features
        sent = travelling(explainer, _task_cpus(self.session))
        absent = [name for name in [*beside, *([features] if features else [])] if name not in df.columns]
        if absent:
            raise InputError(f"The table has no column {absent[0]!r}. It has: {', '.join(df.columns[:10])}.")
        arrow = require_arrow()
        fields = [df.schema[name] for name in beside] if features else list(df.schema)
        self.schema = arrow.schema([(field.name, _arrow_type(field)) for field in fields])
        self._elements: list[str] = []
        if features:
            self._elements = _element_names(df.schema[features], sent)
            for name in self._elements:
                self.schema = self.schema.append(arrow.field(name, arrow.float64()))
        self.columns = ModelColumns(sent, self.schema, beside, source="The table")

    def taken(self, reads: Sequence[str]) -> list[Any]:
        """The columns of the table to send to tasks: Vectors as arrays."""
        from pyspark.ml.functions import vector_to_array

        names = [name for name in reads if name not in self._elements]
        taken = [pyspark.sql.functions.col(f"`{name}`") for name in names]
        if self._features:
            vector = pyspark.sql.functions.col(f"`{self._features}`")
            # Null is a row of missing values, and no argument for the function that makes arrays.
            arrays = pyspark.sql.functions.when(vector.isNotNull(), vector_to_array(vector))
            taken.append(arrays.alias(self._features))
        return taken

    def select(self, reads: Sequence[str]) -> DataFrame:
        return self._df.select(*self.taken(reads))

    @property
    def expand(self) -> Callable[[Any], Any]:
        """What turns a batch in a task into a table of the schema."""
        return _Expansion(self._features, tuple(self._elements))

    @property
    def expand_frame(self) -> Callable[[Any], Any]:
        """The same for a frame of pandas."""
        expand = self.expand

        def expanded(frame: Any) -> Any:
            return expand(require_arrow().RecordBatch.from_pandas(frame, preserve_index=False))

        return expanded

    def broadcast(self, sent: Any) -> Any:
        return self.session.sparkContext.broadcast(sent)


class _Expansion:
    """A batch of a task → a table in which the elements of Vectors are columns."""

    def __init__(self, features: str | None, elements: tuple[str, ...]) -> None:
        self._features, self._elements = features, elements

    def __call__(self, batch: Any) -> Any:
        arrow = require_arrow()
        table = plain_texts(arrow.Table.from_batches([batch]))
        if self._features is None:
            return table
        place = table.column_names.index(self._features)
        arrays = table.column(place).combine_chunks()
        arrays = arrays if isinstance(arrays, arrow.Array) else arrow.concat_arrays(arrays.chunks)
        lengths = arrays.value_lengths().drop_null().to_numpy(zero_copy_only=False)
        if (lengths != len(self._elements)).any():
            raise InputError(
                f"Vectors of {self._features!r} have {len(self._elements)} elements, got one of "
                f"{lengths[lengths != len(self._elements)][0]}."
            )
        numbers = np.full((table.num_rows, len(self._elements)), np.nan)
        numbers[arrays.is_valid().to_numpy(zero_copy_only=False)] = (
            arrays.flatten().to_numpy(zero_copy_only=False).reshape(-1, len(self._elements))
        )
        table = table.remove_column(place)
        for name, column in zip(self._elements, numbers.T, strict=True):
            table = table.append_column(name, arrow.array(column))
        return table


def _element_names(field: Any, explainer: TreeExplainer) -> list[str]:
    """What the elements of a column of Vectors are called: as its metadata says, or as the model does."""
    if field.dataType.typeName() != "vectorudt":
        raise InputError(
            f"features={field.name!r} must be a column of Vectors, got {field.dataType.simpleString()}. "
            f"Leave features out to read columns by name."
        )
    attributes = (field.metadata or {}).get("ml_attr", {})
    groups = attributes.get("attrs", {})
    named = {one["idx"]: one["name"] for group in groups.values() for one in group if "name" in one}
    if named and sorted(named) == list(range(len(named))):
        return [named[place] for place in range(len(named))]
    known = explainer.ensemble.feature_names
    if known is not None:
        return list(known)
    return [f"Feature {place}" for place in range(explainer.ensemble.n_features)]


def _udf(
    session: Any,
    explainer: TreeExplainer,
    only: str | int | None,
    base_values: bool,
    dtype: str,
    check_additivity: bool | float,
    expand: Callable[[Any], Any] | None = None,
) -> Any:
    """A function of one struct of columns, whose names are those of the model, or in its order."""
    if explainer.n_outputs > 1 and only is None:
        raise InputError(
            f"The model has {explainer.n_outputs} outputs, and a column of values is of one: say "
            f"which, only=. Or use linear_treeshap.spark.explain with output='struct'."
        )
    names = [*(["base_value"] if base_values else []), *explainer.players.names]
    number = pyspark.sql.types.FloatType() if dtype == "float32" else pyspark.sql.types.DoubleType()
    kind = pyspark.sql.types.StructType([pyspark.sql.types.StructField(name, number) for name in names])
    sent = session.sparkContext.broadcast(explainer)
    options: dict[str, Any] = {
        "only": only,
        "base_values": base_values,
        "dtype": dtype,
        "check_additivity": check_additivity,
    }

    def explained(frames: Iterator[Any]) -> Iterator[Any]:
        arrow = require_arrow()
        for frame in frames:
            table = expand(frame) if expand else arrow.Table.from_pandas(frame, preserve_index=False)
            table = plain_texts(table)
            columns = ModelColumns(sent.value, table.schema, source="The struct")
            found = BatchExplainer(columns, table.schema, **options)(table)
            by_name = set(names) == set(found.column_names)
            yield (found.select(names) if by_name else found.rename_columns(names)).to_pandas()

    explained.__annotations__ = {
        "frames": Iterator[pandas.DataFrame],
        "return": Iterator[pandas.DataFrame],
    }
    return pyspark.sql.functions.pandas_udf(explained, kind)


def _reduced(df: DataFrame, explainer: TreeExplainer, features: str | None, **asked: Any) -> Any:
    source = _Source(df, explainer, used_beside([], asked.get("by")), features)
    batch_sums = BatchSums(source.columns, **asked)
    sent, expand = source.broadcast(batch_sums), source.expand

    def summed(batches: Iterator[Any]) -> Iterator[Any]:
        arrow = require_arrow()
        sums = pickle.dumps(sent.value(map(expand, batches)))
        yield arrow.RecordBatch.from_arrays([arrow.array([sums], arrow.binary())], names=["sums"])

    total = batch_sums([])
    for row in source.select(batch_sums.reads).mapInArrow(summed, "sums binary").toLocalIterator():
        total = total + pickle.loads(row.sums)
    return total


def _arrow_type(field: Any) -> Any:
    """The Arrow type that tells whether a column can hold numbers: of keys, tasks see the real one."""
    arrow = require_arrow()
    is_time = isinstance(field.dataType, pyspark.sql.types.TimestampType)
    try:
        return arrow.timestamp("us", "UTC") if is_time else to_arrow_type(field.dataType)
    except Exception:  # Vectors, intervals, variants: whoever reads such a column as numbers is told
        return arrow.struct([(field.dataType.simpleString(), arrow.null())])


def _spark_type(kind: Any) -> Any:
    """The Spark type of one of the columns that a layout adds."""
    types = require_arrow().types
    if types.is_struct(kind):
        fields = [
            pyspark.sql.types.StructField(kind.field(i).name, _spark_type(kind.field(i).type))
            for i in range(kind.num_fields)
        ]
        return pyspark.sql.types.StructType(fields)
    if types.is_string(kind):
        return pyspark.sql.types.StringType()
    if types.is_int64(kind):
        return pyspark.sql.types.LongType()
    return pyspark.sql.types.FloatType() if types.is_float32(kind) else pyspark.sql.types.DoubleType()


def _active_session() -> Any:
    session = pyspark.sql.SparkSession.getActiveSession()
    if session is None:
        raise InputError("There is no Spark session: SparkSession.builder.getOrCreate() makes one.")
    return session


def _task_cpus(session: Any) -> int:
    return int(session.sparkContext.getConf().get("spark.task.cpus", "1"))


def _packed(explainer: TreeExplainer) -> str:
    """The file of an explainer as text."""
    if explainer._preprocessing is not None:
        raise InputError(
            "An explainer of a scikit-learn pipeline cannot be a stage, which is saved without code: use "
            "linear_treeshap.spark.explain, or explain the last step with transformed columns."
        )
    return base64.b64encode(to_bytes(explainer)).decode("ascii")


def _unpacked(text: str) -> TreeExplainer:
    return from_bytes(base64.b64decode(text))
