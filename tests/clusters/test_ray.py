"""linear_treeshap.ray on a local Ray of two CPUs: the bits of the explainer, for any blocks."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cluster_cases import Cut, assert_same_bits, cut, refusal, started
from stream_cases import CASES, FEATURES, stream_case

from linear_treeshap import global_importance, global_interactions

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")
pa = pytest.importorskip("pyarrow")
lr = pytest.importorskip("linear_treeshap.ray")

# Ray's own processes and sockets outlive the tests that are told of them.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Any]:
    """Two CPUs, no dashboard, nothing sent home."""

    def start() -> Any:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        paths = os.pathsep.join(path for path in sys.path if path)
        return ray.init(
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=200 * 1024**2,
            runtime_env={"env_vars": {"PYTHONPATH": paths}},
        )

    started("Ray", start)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


def _dataset(of: Cut) -> Any:
    """A block for each part."""
    return ray.data.from_arrow(of.parts)


@pytest.mark.parametrize("name", CASES)
def test_every_explainer_gives_its_own_bits(name: str) -> None:
    """Rows shuffled, blocks of none, of one row, and one whose column is all null."""
    of = cut(name, "everything")
    found = lr.explain(_dataset(of), of.case.explainer, keep=["id"], concurrency=1, **of.case.options)
    assert_same_bits(found.to_pandas(), of.expected())


@pytest.mark.parametrize("how", ["one partition", "many", "one row"])
def test_blocks_do_not_show(how: str) -> None:
    of = cut("boosted", how)
    found = lr.explain(_dataset(of), of.case.explainer, keep=["id"], base_values=True).to_pandas()
    assert (found.pop("base_value") == of.case.explainer.expected_value).all()
    assert_same_bits(found, of.expected())


def test_rows_stay_with_their_keys_through_a_shuffle() -> None:
    of = cut("boosted", "many")
    rows = _dataset(of).random_shuffle(seed=0).repartition(7)
    found = lr.explain(rows, of.case.explainer, keep=["id"]).random_shuffle(seed=1).to_pandas()
    assert_same_bits(found, of.expected())


@pytest.mark.parametrize("output", ["struct", "long", "top"])
def test_every_layout_names_its_values(output: Any) -> None:
    of = cut("classes", "everything")
    found = lr.explain(
        _dataset(of), of.case.explainer, output=output, keep=["id"], top=2, base_values=True, concurrency=1
    ).take_all()
    explanation = of.case.explainer(of.case.frame)
    place = {key: row for row, key in enumerate(of.case.table["id"].to_pylist())}
    assert len(found) == 200 * {"struct": 1, "long": 12, "top": 6}[output]
    for line in found:
        row = place[line["id"]]
        if output == "struct":
            for number, values in enumerate(line["shap"].values()):
                assert values["base_value"] == explanation.base_values[row, number]
                assert [values[name] for name in FEATURES] == explanation.values[row, :, number].tolist()
        else:
            number = explanation.output_names.index(line["output"])
            feature = FEATURES.index(line["feature"])
            assert line["value"] == explanation.values[row, feature, number]


def test_actors_leave_a_cpu_to_those_who_read(tmp_path: Path) -> None:
    """Rows from files: were all CPUs held by actors, they would wait forever for rows."""
    pq = pytest.importorskip("pyarrow.parquet")
    of = cut("boosted", "many")
    for number, part in enumerate(of.parts):
        pq.write_table(part, tmp_path / f"{number}.parquet")
    found = lr.explain(ray.data.read_parquet(str(tmp_path)), of.case.explainer, keep=["id"])
    assert_same_bits(found.to_pandas(), of.expected())


def test_a_callable_class_for_those_who_map_themselves() -> None:
    """It learns the schema from its first batch."""
    of = cut("boosted", "everything")
    found = _dataset(of).map_batches(
        lr.Explain,
        fn_constructor_args=(of.case.explainer,),
        fn_constructor_kwargs={"keep": ["id"]},
        batch_format="pyarrow",
        concurrency=2,
    )
    assert_same_bits(found.to_pandas(), of.expected())


def test_importance_has_the_bits_of_all_rows_at_once() -> None:
    of = cut("classes", "everything")
    whole = global_importance(of.case.explainer, of.case.frame)
    found = lr.global_importance(_dataset(of), of.case.explainer)
    assert (found.n_rows, found.sum.tobytes(), found.sum_abs.tobytes()) == (
        200,
        whole.sum.tobytes(),
        whole.sum_abs.tobytes(),
    )
    by_month = lr.global_importance(_dataset(of), of.case.explainer, by="month")
    months = of.case.table["month"].to_numpy()
    for month in (1, 2, 3):
        alone = global_importance(of.case.explainer, of.case.frame[months == month])
        assert by_month[month].sum.tobytes() == alone.sum.tobytes()


def test_interactions_are_reduced_too() -> None:
    of = cut("boosted", "everything")
    whole = global_interactions(of.case.explainer, of.case.frame)
    found = lr.global_interactions(_dataset(of), of.case.explainer)
    assert (found.n_rows, found.sets) == (whole.n_rows, whole.sets)
    np.testing.assert_allclose(found.sum_abs, whole.sum_abs, rtol=1e-12, atol=1e-12)


def test_a_worker_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """The task that makes the rows dies once, in the middle of the work."""
    of = cut("boosted", "many")
    flag = str(tmp_path / "killed")

    def once_deadly(table: Any) -> Any:
        if not os.path.exists(flag):
            open(flag, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return table

    rows = _dataset(of).map_batches(once_deadly, batch_format="pyarrow")
    found = lr.explain(rows, of.case.explainer, keep=["id"], concurrency=1).to_pandas()
    assert os.path.exists(flag)
    assert_same_bits(found, of.expected())


def test_memory_of_a_worker_is_that_of_its_batches() -> None:
    """Two million rows in 40 blocks, 64 MB of numbers and 64 of values, in one actor."""
    case = stream_case("boosted")

    def made(table: Any) -> Any:
        n_rows = 50_000
        rng = np.random.default_rng(table["id"][0].as_py())
        return pa.table({name: rng.normal(size=n_rows) for name in FEATURES})

    class Measured(lr.Explain):  # type: ignore[misc, name-defined]
        def __call__(self, batch: Any) -> Any:
            import resource

            values = super().__call__(batch)
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            return pa.table({"peak": [most], "n_rows": [values.num_rows]})

    lines = (
        ray.data.range(40, override_num_blocks=40)
        .map_batches(made, batch_format="pyarrow", batch_size=1)
        .map_batches(Measured, fn_constructor_args=(case.explainer,), batch_format="pyarrow", concurrency=1)
        .take_all()
    )
    assert sum(line["n_rows"] for line in lines) == 2_000_000
    peaks = sorted(line["peak"] for line in lines)
    assert peaks[-1] - peaks[1] < 60e6, f"{(peaks[-1] - peaks[1]) / 1e6:.0f} MB"


_wrong = partial(refusal, lr.explain)


def test_wrong_use_is_one_clear_line_before_anything_runs() -> None:
    table = stream_case("boosted").table
    rows = ray.data.from_arrow(table)
    assert "Missing: 'b'" in _wrong(ray.data.from_arrow(table.drop_columns(["b"])))
    place = table.column_names.index("b")
    text = table.set_column(place, "b", table["id"])
    assert "in column 'b' numbers were expected, got string" in _wrong(ray.data.from_arrow(text))
    times = table.set_column(place, "b", pa.array(range(200), pa.timestamp("us")))
    assert "numbers were expected, got timestamp" in _wrong(ray.data.from_arrow(times))
    assert "keep=['id']" in _wrong(rows, output="long")
    assert "must be a dataset of Ray, got Table" in _wrong(table)
    assert "must be a TreeExplainer, got str" in _wrong(rows, "model")
