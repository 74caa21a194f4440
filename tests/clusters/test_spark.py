"""linear_treeshap.spark in a local session of two tasks at a time: the bits of the explainer, for any cut."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cluster_cases import Cut, assert_same_bits, cut, refusal, spark_session, started
from stream_cases import CASES, FEATURES, stream_case

from linear_treeshap import InputError, TreeExplainer, global_importance, global_interactions

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")
ls = pytest.importorskip("linear_treeshap.spark")

# Sockets to the JVM are closed by the garbage collector; and pyspark lags behind pandas and Python.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def spark() -> Any:
    return started("Spark", spark_session)


def _frame(spark: Any, of: Cut, tmp_path: Path) -> Any:
    """A file for each part that has rows, and partitions of none for the others."""
    import pyarrow.parquet as pq

    folder = tmp_path / "rows"
    folder.mkdir()
    schema = of.case.table.schema
    for number, part in enumerate(of.parts):
        pq.write_table(part, folder / f"{number:03d}.parquet")
    sizes = [part.num_rows for part in of.parts]
    whole = spark.read.parquet(str(folder))
    if 0 in sizes:  # Spark makes no partition of an empty file; a filter does
        empty = spark.createDataFrame(of.case.table.slice(0, 1).to_pandas(), whole.schema).filter("false")
        for _ in range(sizes.count(0)):
            whole = whole.unionByName(empty)
    assert set(whole.columns) == set(schema.names)
    return whole


@pytest.mark.parametrize("name", CASES)
def test_every_explainer_gives_its_own_bits(name: str, spark: Any, tmp_path: Path) -> None:
    """Rows shuffled, partitions of none, of one row, and one whose column is all null."""
    of = cut(name, "everything")
    rows = _frame(spark, of, tmp_path)
    found = ls.explain(rows, of.case.explainer, keep=["id"], **of.case.options).toPandas()
    assert_same_bits(found, of.expected())


@pytest.mark.parametrize("how", ["one partition", "many", "one row"])
def test_partitions_do_not_show(how: str, spark: Any, tmp_path: Path) -> None:
    of = cut("boosted", how)
    rows = _frame(spark, of, tmp_path)
    found = ls.explain(rows, of.case.explainer, keep=["id"], base_values=True, prefix="shap_").toPandas()
    assert (found.pop("base_value") == of.case.explainer.expected_value).all()
    assert_same_bits(found.rename(columns=lambda name: name.removeprefix("shap_")), of.expected())


def test_rows_stay_with_their_keys_through_a_shuffle(spark: Any, tmp_path: Path) -> None:
    """Repartitioned before and after, by a key and at random."""
    of = cut("boosted", "many")
    rows = _frame(spark, of, tmp_path).repartition(5, "month").orderBy("d").repartition(4)
    found = ls.explain(rows, of.case.explainer, keep=["id"]).repartition(3).toPandas()
    assert_same_bits(found, of.expected())


@pytest.mark.parametrize("output", ["struct", "long", "top"])
def test_every_layout_names_its_values(output: Any, spark: Any, tmp_path: Path) -> None:
    of = cut("classes", "everything")
    rows = _frame(spark, of, tmp_path)
    found = ls.explain(rows, of.case.explainer, output=output, keep=["id"], top=2, base_values=True).collect()
    explanation = of.case.explainer(of.case.frame)
    place = {key: row for row, key in enumerate(of.case.table["id"].to_pylist())}
    outputs = list(explanation.output_names)
    n_lines = {"struct": 1, "long": 4 * len(outputs), "top": 2 * len(outputs)}[output]
    assert len(found) == 200 * n_lines
    for line in found:
        row = place[line["id"]]
        if output == "struct":
            for number, one in enumerate(line["shap"].asDict().values()):
                values = one.asDict()
                assert values.pop("base_value") == explanation.full_base_values[row, number]
                assert [values[feature] for feature in FEATURES] == explanation.full[row, :, number].tolist()
        else:
            number = outputs.index(line["output"])
            feature = FEATURES.index(line["feature"])
            assert line["value"] == explanation.full[row, feature, number]
            assert line["base_value"] == explanation.full_base_values[row, number]


def test_keys_of_every_type_come_out_as_they_went_in(spark: Any) -> None:
    """Dates, times, decimals, binaries and lists, nulls among them."""
    case = stream_case("boosted")
    rows = spark.createDataFrame(case.table.select(FEATURES).to_pandas()).selectExpr(
        "*",
        "date'2020-01-01' as day",
        "timestamp'2020-01-01 12:00:00' as at",
        "cast(a as decimal(10, 3)) as money",
        "cast('x' as binary) as raw",
        "array(1, 2) as list",
        "named_struct('u', 1) as nested",
    )
    keys = ["day", "at", "money", "raw", "list", "nested"]
    found = ls.explain(rows, case.explainer, keep=keys)
    assert [found.schema[key].dataType for key in keys] == [rows.schema[key].dataType for key in keys]
    assert found.select(*keys).collect() == rows.select(*keys).collect()


# -- importance -------------------------------------------------------------------------------------------


def test_importance_has_the_bits_of_all_rows_at_once(spark: Any, tmp_path: Path) -> None:
    of = cut("classes", "everything")
    rows = _frame(spark, of, tmp_path)
    whole = global_importance(of.case.explainer, of.case.frame)
    found = ls.global_importance(rows, of.case.explainer)
    assert (found.n_rows, found.sum.tobytes(), found.sum_abs.tobytes()) == (
        200,
        whole.sum.tobytes(),
        whole.sum_abs.tobytes(),
    )
    by_month = ls.global_importance(rows, of.case.explainer, by="month")
    months = of.case.table["month"].to_numpy()
    for month in (1, 2, 3):
        alone = global_importance(of.case.explainer, of.case.frame[months == month])
        assert by_month[month].sum.tobytes() == alone.sum.tobytes()


def test_interactions_are_reduced_too(spark: Any, tmp_path: Path) -> None:
    of = cut("boosted", "everything")
    whole = global_interactions(of.case.explainer, of.case.frame)
    found = ls.global_interactions(_frame(spark, of, tmp_path), of.case.explainer)
    assert (found.n_rows, found.sets) == (whole.n_rows, whole.sets)
    np.testing.assert_allclose(found.sum_abs, whole.sum_abs, rtol=1e-12, atol=1e-12)


# -- functions and stages ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["boosted", "groups", "categories", "pipeline"])
def test_a_function_adds_a_column(name: str, spark: Any, tmp_path: Path) -> None:
    """With the columns in another order."""
    from pyspark.sql.functions import struct

    of = cut(name, "everything")
    rows = _frame(spark, of, tmp_path)
    udf = ls.spark_udf(of.case.explainer)
    found = rows.withColumn("shap", udf(struct(*reversed(of.case.names)))).select("id", "shap.*").toPandas()
    expected = of.expected()
    assert_same_bits(found[list(expected.columns)], expected)


def _vectors(rows: Any) -> Any:
    """The same rows with a column of Vectors, named by its metadata, in another order."""
    from pyspark.ml.feature import VectorAssembler

    return VectorAssembler(
        inputCols=["d", "b", "a", "c"], outputCol="features", handleInvalid="keep"
    ).transform(rows)


def test_vectors_are_read_by_the_names_in_their_metadata(spark: Any, tmp_path: Path) -> None:
    of = cut("boosted", "everything")
    rows = _vectors(_frame(spark, of, tmp_path)).select("id", "month", "features")
    found = ls.explain(rows, of.case.explainer, keep=["id"], features="features").toPandas()
    expected = of.expected()
    assert_same_bits(found[list(expected.columns)], expected)
    whole = global_importance(of.case.explainer, of.case.frame)
    total = ls.global_importance(rows, of.case.explainer, features="features", by="month")
    assert sum(one.n_rows for one in total.values()) == 200
    assert (
        ls.global_importance(rows, of.case.explainer, features="features").sum.tobytes()
        == whole.sum.tobytes()
    )


def test_vectors_without_names_are_read_by_position(spark: Any) -> None:
    from pyspark.ml.linalg import Vectors

    case = stream_case("boosted")
    numbers = case.frame.fillna(0.0).to_numpy()
    made: list[Any] = [("none", None)]
    for number, row in enumerate(numbers):
        vector = Vectors.dense(row) if number % 2 else Vectors.sparse(4, range(4), row)
        made.append((str(number), vector))
    rows = spark.createDataFrame(made[::-1], ["id", "features"])
    found = ls.explain(rows, case.explainer, keep=["id"], features="features").toPandas().set_index("id")
    expected = case.explainer.shap_values(numbers)
    np.testing.assert_array_equal(found.loc[[str(i) for i in range(200)]].to_numpy(), expected)
    missing = case.explainer.shap_values(np.full((64, 4), np.nan))[:1]  # as among many
    np.testing.assert_array_equal(found.loc[["none"]].to_numpy(), missing)


@pytest.mark.parametrize("features", ["", "features"])
def test_a_stage_is_saved_and_loaded_with_its_pipeline(features: str, spark: Any, tmp_path: Path) -> None:
    from pyspark.ml import Pipeline, PipelineModel
    from pyspark.ml.feature import VectorAssembler

    of = cut("boosted", "everything")
    rows = _frame(spark, of, tmp_path)
    assemble = VectorAssembler(inputCols=["d", "b", "a", "c"], outputCol="features", handleInvalid="keep")
    stage = ls.ShapTransformer(
        explainer=of.case.explainer, featuresCol=features, outputCol="why", baseValues=True
    )
    fitted = Pipeline(stages=[assemble, stage]).fit(rows)
    fitted.write().save(str(tmp_path / "pipeline"))
    loaded = PipelineModel.load(str(tmp_path / "pipeline"))
    for model in (fitted, loaded):
        out = model.transform(rows)
        assert set(out.columns) == {*rows.columns, "features", "why"}
        found = out.select("id", "why.*").toPandas()
        assert (found.pop("base_value") == of.case.explainer.expected_value).all()
        expected = of.expected()
        assert_same_bits(found[list(expected.columns)], expected)


# -- trouble ----------------------------------------------------------------------------------------------


def test_a_task_that_fails_once_loses_and_doubles_nothing(spark: Any, tmp_path: Path) -> None:
    """Half of its batch has been explained when the process dies; Spark runs the task again."""
    of = cut("boosted", "many")
    flag = str(tmp_path / "killed")

    def once_deadly(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        import signal

        for batch in batches:
            yield batch.slice(0, 5)
            if not os.path.exists(flag):
                open(flag, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch.slice(5)

    rows = _frame(spark, of, tmp_path)
    rows = rows.mapInArrow(once_deadly, rows.schema)
    found = ls.explain(rows, of.case.explainer, keep=["id"]).toPandas()
    assert Path(flag).exists()
    assert_same_bits(found, of.expected())


def test_memory_of_a_worker_is_that_of_its_batches(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two million rows in two tasks, each of 32 MB of numbers and 32 of values: batches of 10,000 rows. What
    counts is how much more the very process that explains has, at its peak, than when it began: Spark takes
    its workers from a pool, and what one of them had for another test is not what it needs here."""
    case = stream_case("boosted")
    columns = [f"randn({seed}) as {name}" for seed, name in enumerate(FEATURES)]
    rows = spark.range(0, 2_000_000, 1, 2).selectExpr("id", *columns)
    map_in_arrow = type(rows).mapInArrow

    def watched(self: Any, explained: Any, schema: Any) -> Any:
        def more(batches: Iterator[Any]) -> Iterator[Any]:
            from pathlib import Path

            def now(name: str) -> int:
                lines = Path("/proc/self/status").read_text().splitlines()
                return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))

            Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
            before, n_rows = now("VmRSS"), 0
            for batch in explained(batches):
                n_rows += batch.num_rows
            yield pa.RecordBatch.from_pydict({"more": [now("VmHWM") - before], "n_rows": [n_rows]})

        return map_in_arrow(self, more, "more long, n_rows long")

    monkeypatch.setattr(type(rows), "mapInArrow", watched)
    found = ls.explain(rows, case.explainer, keep=["id"]).collect()
    assert [line.n_rows for line in found] == [1_000_000, 1_000_000]
    assert max(line.more for line in found) < 40e6, f"{max(line.more for line in found) / 1e6:.0f} MB"


def test_workers_need_no_model_library(spark: Any) -> None:
    case = stream_case("boosted")

    def loaded(batches: Iterator[Any]) -> Iterator[Any]:
        import sys

        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"loaded": ["xgboost" in sys.modules]})

    rows = spark.createDataFrame(case.table.select(FEATURES).to_pandas())
    found = ls.explain(rows, case.explainer).mapInArrow(loaded, "loaded boolean").collect()
    assert {line.loaded for line in found} == {False}


def test_a_task_has_one_thread(spark: Any) -> None:
    """Unless spark.task.cpus says more."""
    assert (
        ls._Source(
            spark.range(3).selectExpr("id as a"), TreeExplainer(_stump()), [], None
        ).columns.explainer.n_jobs
        == 1
    )


def _stump() -> Any:
    from sklearn.tree import DecisionTreeRegressor

    return DecisionTreeRegressor(max_depth=1).fit([[0], [0], [0], [1]], [1, 1, 1, 3])


_wrong = partial(refusal, ls.explain)


def test_wrong_use_is_one_clear_line_on_the_driver(spark: Any) -> None:
    """Nothing is run: an error in a task would be another exception."""
    rows = spark.createDataFrame(stream_case("boosted").table.to_pandas())
    assert "Missing: 'b'" in _wrong(rows.drop("b"))
    assert "in column 'b' numbers were expected, got string" in _wrong(rows.withColumn("b", rows.id))
    for kind in ("timestamp", "array<double>", "binary", "map<string,double>"):
        odd = rows.drop("b").selectExpr("*", f"cast(null as {kind}) as b")
        assert "in column 'b' numbers were expected" in _wrong(odd)
    assert "must be a column of Vectors, got double" in _wrong(rows, features="a")
    assert "has no column 'key'" in _wrong(rows, keep=["key"])
    assert "keep=['id']" in _wrong(rows, output="top")
    assert "must be a data frame of Spark, got str" in _wrong("rows")
    assert "must be a TreeExplainer, got str" in _wrong(rows, "model")
    assert "needs the true outcome" in _wrong(rows, stream_case("log_loss").explainer)
    with pytest.raises(InputError, match="outputs, and a column of values is of one"):
        ls.spark_udf(stream_case("classes").explainer)
    with pytest.raises(InputError, match="cannot be a stage"):
        ls.ShapTransformer(explainer=stream_case("pipeline").explainer)
