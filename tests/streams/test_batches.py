"""explain_batches: whatever speaks Arrow in, the values of the explainer out, whatever the batches."""

from __future__ import annotations

import pickle
import sys
import tracemalloc
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stream_cases import CASES, FEATURES, frame_of, stream_case

from linear_treeshap import InputError, MissingDependencyError, TreeExplainer, explain_batches
from linear_treeshap.streams.batch_explainer import BatchExplainer
from linear_treeshap.streams.columns import ModelColumns

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")


def _cut(table: Any, sizes: list[int]) -> Iterator[Any]:
    """Tables of these sizes, and of whatever is left."""
    start = 0
    for size in sizes:
        yield table.slice(start, size)
        start += size
    yield table.slice(start)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sizes", [[], [1, 0, 57], [199, 0], [0]], ids=str)
def test_values_are_those_of_the_explainer(name: str, sizes: list[int]) -> None:
    """To the last bit, with their keys, for any cuts: none, one row, no rows."""
    case = stream_case(name)
    found = explain_batches(case.explainer, _cut(case.table, sizes), keep=["id"], **case.options).read_all()
    expected = case.expected()
    assert found.column_names == ["id", *expected.columns]
    assert found["id"].to_pylist() == np.repeat(case.table["id"].to_pylist(), case.lines_per_row).tolist()
    for column in expected.columns:
        np.testing.assert_array_equal(found[column].to_numpy(), expected[column].to_numpy())


@pytest.mark.parametrize("output", ["columns", "struct", "long", "top"])
@pytest.mark.parametrize("name", ["boosted", "classes"])
def test_every_layout_has_every_value_at_its_place(name: str, output: Any) -> None:
    """Each cell is looked up by its names in the explanation; base values too."""
    case = stream_case(name)
    reader = explain_batches(
        case.explainer, case.table, output=output, keep=["id"], base_values=True, top=2, column="why"
    )
    explanation = case.explainer(case.frame)
    outputs = list(explanation.output_names)
    place = {key: row for row, key in enumerate(case.table["id"].to_pylist())}
    lines = reader.read_all().to_pylist()
    seen = set()

    def look(row: int, feature: str, output_name: str, value: float) -> None:
        seen.add((row, feature, output_name))
        where = (row, explanation.feature_names.index(feature), outputs.index(output_name))
        assert value == explanation.full[where]

    for line in lines:
        row, named = place[line["id"]], line.get("output", outputs[0])
        if output == "columns":
            assert line["base_value"] == explanation.full_base_values[row, outputs.index(named)]
            for feature in FEATURES:
                look(row, feature, named, line[feature])
        elif output == "struct":
            structs = line["why"] if len(outputs) > 1 else {outputs[0]: line["why"]}
            for named, values in structs.items():
                assert values.pop("base_value") == explanation.full_base_values[row, outputs.index(named)]
                for feature, value in values.items():
                    look(row, feature, named, value)
        else:
            assert line["base_value"] == explanation.full_base_values[row, outputs.index(named)]
            look(row, line["feature"], named, line["value"])
    per_row = 2 if output == "top" else len(FEATURES)
    assert len(seen) == len(place) * per_row * len(outputs)


@pytest.mark.parametrize("output", ["columns", "struct", "long", "top"])
def test_a_model_that_reads_no_column_has_no_values(output: Any) -> None:
    """Rows are still there, but where there is a line for each value."""
    leaf = {"children_left": [-1], "children_right": [-1], "features": [-1], "thresholds": [0.0]}
    trees = [{**leaf, "values": [[2.0]], "node_sample_weight": [1.0]}]
    explainer = TreeExplainer({"trees": trees, "num_features": 0})
    rows = pa.table({"id": ["a", "b"]})
    found = explain_batches(explainer, rows, keep=["id"], output=output, base_values=True).read_all()
    assert found["id"].to_pylist() == ([] if output in ("long", "top") else ["a", "b"])


def test_rows_are_numbered_through_where_nothing_else_tells_them_apart() -> None:
    case = stream_case("boosted")
    found = explain_batches(case.explainer, _cut(case.table, [7, 100]), output="long").read_all()
    assert found["row"].to_pylist() == np.repeat(np.arange(200), len(FEATURES)).tolist()


def test_one_output_float32_and_a_prefix() -> None:
    case = stream_case("classes")
    found = explain_batches(case.explainer, case.table, only=1, dtype="float32", prefix="shap_").read_all()
    assert found.column_names == [f"shap_{name}" for name in FEATURES]
    expected = case.explainer.shap_values(case.frame)[:, :, 1].astype(np.float32)
    np.testing.assert_array_equal(np.stack([column.to_numpy() for column in found.columns], axis=1), expected)


def test_the_schema_is_known_before_anything_is_read() -> None:
    """And nothing is read before it is asked for."""
    case = stream_case("boosted")

    def rows() -> Iterator[Any]:
        yield from case.table.to_batches()[:1]
        raise RuntimeError("the second batch was asked for")

    schema = case.table.schema
    reader = explain_batches(case.explainer, pa.RecordBatchReader.from_batches(schema, rows()), keep=["id"])
    assert reader.schema.names == ["id", *FEATURES]
    assert reader.read_next_batch().num_rows == 200
    with pytest.raises(RuntimeError, match="second batch"):
        reader.read_next_batch()


def test_an_explainer_of_a_batch_travels() -> None:
    """It pickles without the model, whose library need not be there."""
    case = stream_case("boosted")
    columns = ModelColumns(case.explainer, case.table.schema, ["id"])
    sent = pickle.dumps(BatchExplainer(columns, case.table.schema, keep=["id"]))
    assert b"xgboost" not in sent
    here = explain_batches(case.explainer, case.table, keep=["id"]).read_all()
    assert pickle.loads(sent)(case.table).equals(here)


def test_losses_are_explained_with_the_column_of_outcomes() -> None:
    case = stream_case("log_loss")
    found = explain_batches(case.explainer, case.table, **case.options).read_all()
    y = case.table["y"].to_numpy()
    np.testing.assert_array_equal(found["a"].to_numpy(), case.explainer.shap_values(case.frame, y)[:, 0])


# -- who speaks Arrow -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["reader", "batches", "polars", "polars frames", "duckdb"])
def test_all_who_speak_arrow_are_understood(kind: str) -> None:
    """Text of polars comes as views, which is text all the same."""
    case = stream_case("categories")
    table = case.table
    if kind == "reader":
        rows: Any = table.to_reader(max_chunksize=50)
    elif kind == "batches":
        rows = table.to_batches(max_chunksize=50)
    elif kind.startswith("polars"):
        frame = pytest.importorskip("polars").from_arrow(table)
        rows = frame if kind == "polars" else (frame[start : start + 50] for start in range(0, 200, 50))
    else:
        rows = pytest.importorskip("duckdb").arrow(table)
    found = explain_batches(case.explainer, rows, keep=["id"]).read_all()
    expected = explain_batches(case.explainer, table, keep=["id"]).read_all()
    assert found.to_pylist() == expected.to_pylist()
    assert np.abs(found["city"].to_numpy()).max() > 0.1


def test_a_column_that_is_null_in_some_batches_is_missing_there() -> None:
    case = stream_case("boosted")
    empty = case.table.set_column(case.table.column_names.index("a"), "a", pa.nulls(200))
    frame = case.frame.assign(a=np.nan)
    found = explain_batches(case.explainer, [case.table, empty]).read_all()
    expected = case.explainer.shap_values(frame)
    np.testing.assert_array_equal(found["a"].to_numpy()[200:], expected[:, 0])


def test_memory_is_that_of_a_batch() -> None:
    """A million rows of one table: 32 MB of rows, as much again of values; at most a few batches are held."""
    case = stream_case("boosted")
    numbers = np.random.default_rng(0).normal(size=(4, 1_000_000))
    table = pa.table(dict(zip(FEATURES, numbers, strict=True)))
    before, most, n_rows = pa.total_allocated_bytes(), 0, 0
    tracemalloc.start()
    try:
        for batch in explain_batches(case.explainer, table, check_additivity=False):
            most = max(most, pa.total_allocated_bytes() - before)
            n_rows += batch.num_rows
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert n_rows == 1_000_000
    assert most + peak < 16_000_000


# -- what does not fit ------------------------------------------------------------------------------------


def _wrong(**options: Any) -> str:
    """What is said before a row is read."""
    case = stream_case("boosted")
    table = options.pop("table", case.table)

    def rows() -> Iterator[Any]:
        pytest.fail("a row was read")
        yield

    with pytest.raises(InputError) as error:
        explain_batches(case.explainer, pa.RecordBatchReader.from_batches(table.schema, rows()), **options)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (pa.string(), "in column 'b' numbers were expected, got string"),
        (pa.dictionary(pa.int8(), pa.string()), "in column 'b' numbers were expected, got string"),
        (pa.timestamp("us"), "in column 'b' numbers were expected, got timestamp"),
        (pa.list_(pa.float64()), "in column 'b' numbers were expected, got list"),
        (pa.binary(), "in column 'b' numbers were expected, got binary"),
    ],
    ids=str,
)
def test_a_type_that_is_no_number_is_refused_by_the_schema(kind: Any, words: str) -> None:
    table = stream_case("boosted").table
    assert words in _wrong(table=table.set_column(table.column_names.index("b"), "b", pa.nulls(200, kind)))


def test_columns_that_are_not_there_are_named() -> None:
    table = stream_case("boosted").table
    assert "Missing: 'b'" in _wrong(table=table.drop_columns(["b"]))
    assert "no column 'key' to be a key" in _wrong(keep=["key"])


def test_options_that_make_no_sense_are_refused() -> None:
    assert "output must be one of columns, struct, long, top, got 'wide'" in _wrong(output="wide")
    assert "dtype must be" in _wrong(dtype="float16")
    assert "prefix is for the columns" in _wrong(output="long", prefix="shap_")
    assert "has no output '3'" in _wrong(only=3)
    assert "two columns of the name 'a'" in _wrong(keep=["a"])
    assert "names true outcomes" in _wrong(y="id")


def test_an_outcome_that_is_needed_is_asked_for() -> None:
    case = stream_case("log_loss")
    with pytest.raises(InputError, match="name its column, y="):
        explain_batches(case.explainer, case.table)


def test_what_does_not_speak_arrow_is_refused() -> None:
    explainer = stream_case("boosted").explainer
    with pytest.raises(InputError, match="must speak Arrow"):
        explain_batches(explainer, 1)
    with pytest.raises(InputError, match="A batch must speak Arrow"):
        explain_batches(explainer, [np.zeros((2, 4))])
    with pytest.raises(InputError, match="no batches"):
        explain_batches(explainer, [])


def test_a_pipeline_of_texts_is_refused() -> None:
    pytest.importorskip("sklearn")
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.tree import DecisionTreeRegressor

    model = make_pipeline(CountVectorizer(), DecisionTreeRegressor()).fit(["a word", "another"], [0, 1])
    with pytest.raises(InputError, match="reads texts, not tables"):
        explain_batches(TreeExplainer(model), pa.table({"text": ["a word"]}))


def test_a_saved_explainer_reads_a_stream(tmp_path: Path) -> None:
    case = stream_case("boosted")
    case.explainer.save(tmp_path / "model.lts")
    found = explain_batches(TreeExplainer.load(tmp_path / "model.lts"), case.table).read_all()
    np.testing.assert_array_equal(found["a"].to_numpy(), case.explainer.shap_values(case.frame)[:, 0])


def test_columns_in_any_order_keep_the_order_of_the_stream() -> None:
    """Values are found by name, sets of features too."""
    case = stream_case("boosted")
    turned = case.table.select(["d", "id", "b", "a", "c"])
    found = explain_batches(case.explainer, turned).read_all()
    assert found.column_names == ["d", "b", "a", "c"]
    np.testing.assert_array_equal(found["b"].to_numpy(), case.explainer.shap_values(case.frame)[:, 1])
    pairs = explain_batches(case.explainer, turned, order=2).read_all()
    expected = case.explainer.interactions(frame_of(turned, ["d", "b", "a", "c"])).to_frame()
    assert pairs.column_names == list(expected.columns)
    for name in pairs.column_names:
        np.testing.assert_array_equal(pairs[name].to_numpy(), expected[name].to_numpy())


@pytest.mark.parametrize(
    ("adapter", "engine"),
    [("dask", "dask"), ("spark", "pyspark"), ("ray", "ray")],
    ids=["dask", "spark", "ray"],
)
def test_an_engine_that_is_not_installed_says_how_to_get_it(
    adapter: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line, when the adapter is imported."""
    for name in [name for name in sys.modules if name.partition(".")[0] == engine]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, engine, None)
    monkeypatch.delitem(sys.modules, f"linear_treeshap.{adapter}", raising=False)
    with pytest.raises(MissingDependencyError) as error:
        import_module(f"linear_treeshap.{adapter}")
    assert f"pip install '.[{adapter}]'" in str(error.value)
    assert "\n" not in str(error.value)
