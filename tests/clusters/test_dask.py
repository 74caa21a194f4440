"""linear_treeshap.dask on two worker processes: the bits of the explainer, for any partitions."""

from __future__ import annotations

import doctest
import os
import pickle
import resource
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cluster_cases import CUTS, Cut, assert_same_bits, by_key, cut, refusal, started
from stream_cases import CASES, FEATURES, stream_case

from linear_treeshap import InputError, TreeExplainer, global_importance, global_interactions
from linear_treeshap.results.sums import GlobalImportance

pytest.importorskip("distributed")
dd = pytest.importorskip("dask.dataframe")
dask = pytest.importorskip("dask")
ld = pytest.importorskip("linear_treeshap.dask")
pd = pytest.importorskip("pandas")

# Dask's event loops and sockets outlive the tests that are told of them.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two processes of one thread each."""
    from distributed import Client, LocalCluster

    def start() -> Any:
        return LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
        )

    with started("Dask", start) as cluster, Client(cluster) as client:
        yield client


def _frame(of: Cut) -> Any:
    """A partition for each part, whose index is the key."""
    parts = [dask.delayed(part.to_pandas().set_index("id")) for part in of.parts]
    return dd.from_delayed(parts, meta=of.case.table.to_pandas().set_index("id").iloc[:0], verify_meta=False)


@pytest.mark.parametrize("name", CASES)
def test_every_explainer_gives_its_own_bits(name: str, client: Any) -> None:
    """Rows shuffled, partitions of none, of one row, and one whose column is all null."""
    of = cut(name, "everything")
    found = ld.explain(_frame(of), of.case.explainer, **of.case.options)
    assert found.npartitions == len(of.parts)
    assert_same_bits(found.compute().reset_index(), of.expected())


@pytest.mark.parametrize("how", CUTS)
def test_partitions_do_not_show(how: str, client: Any) -> None:
    of = cut("boosted", how)
    found = ld.explain(_frame(of), of.case.explainer, base_values=True).compute().reset_index()
    assert (found.pop("base_value") == of.case.explainer.expected_value).all()
    assert_same_bits(found, of.expected())


def test_divisions_and_index_are_kept(client: Any) -> None:
    """Known divisions stay known, and nothing is computed before it is asked for."""
    case = stream_case("boosted")
    rows = dd.from_pandas(case.table.to_pandas().set_index("id").sort_index(), npartitions=3)
    found = ld.explain(rows, case.explainer)
    assert found.known_divisions
    assert found.divisions == rows.divisions
    assert found.compute().index.tolist() == rows.compute().index.tolist()
    repartitioned = ld.explain(rows.repartition(npartitions=7), case.explainer).compute()
    pd.testing.assert_frame_equal(repartitioned, found.compute(), check_exact=True)


@pytest.mark.parametrize("output", ["struct", "long", "top"])
@pytest.mark.parametrize("name", ["boosted", "classes"])
def test_every_layout_is_as_promised(name: str, output: Any, client: Any) -> None:
    """The types that were promised are those that come, and labels are repeated with their lines."""
    of = cut(name, "everything")
    lazy = ld.explain(_frame(of), of.case.explainer, output=output, top=2, base_values=True)
    found = lazy.compute()
    assert found.dtypes.astype(str).tolist() == lazy.dtypes.astype(str).tolist()
    lines = {"struct": 1, "long": 4 * of.case.lines_per_row, "top": 2 * of.case.lines_per_row}[output]
    assert found.index.tolist() == np.repeat(of.case.table["id"].to_pylist(), lines).tolist()
    explanation = of.case.explainer(of.case.frame)
    if output == "struct":
        shap = found["shap"].tolist()
        if name == "classes":
            shap = [one["1"] for one in shap]
            explanation = explanation[..., 1]
        for feature in FEATURES:
            assert [one[feature] for one in shap] == explanation[:, feature].values.tolist()
    else:
        expected = explanation.to_frame("long") if output == "long" else explanation.top(2)
        np.testing.assert_array_equal(found["value"].to_numpy(), expected["value"].to_numpy())
        assert found["feature"].tolist() == expected["feature"].tolist()


@pytest.mark.parametrize("name", ["boosted", "classes", "groups", "background"])
def test_arrays_keep_their_chunks(name: str, client: Any) -> None:
    """Of rows; columns may be cut too."""
    case = stream_case(name)
    rows = case.frame.to_numpy()
    array = dask.array.from_array(rows, chunks=(70, 3))
    found = ld.explain(array, case.explainer, dtype="float32")
    expected = case.explainer.shap_values(rows, dtype="float32")
    assert found.chunks[0] == array.chunks[0]
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(found.compute(), expected)
    total = ld.global_importance(array, case.explainer).compute()
    assert total.sum.tobytes() == global_importance(case.explainer, rows).sum.tobytes()
    if name == "classes":
        one = ld.explain(array, case.explainer, only=2).compute()
        np.testing.assert_array_equal(one, case.explainer.shap_values(rows)[..., 2])


@pytest.mark.parametrize("how", ["everything", "many"])
def test_importance_has_the_bits_of_all_rows_at_once(how: str, client: Any) -> None:
    of = cut("classes", how)
    whole = global_importance(of.case.explainer, of.case.frame)
    found = ld.global_importance(_frame(of), of.case.explainer).compute()
    assert isinstance(found, GlobalImportance)
    assert (found.n_rows, found.sum.tobytes(), found.sum_abs.tobytes()) == (
        200,
        whole.sum.tobytes(),
        whole.sum_abs.tobytes(),
    )
    by_month = ld.global_importance(_frame(of), of.case.explainer, by="month").compute()
    months = of.case.table["month"].to_numpy()
    for month in (1, 2, 3):
        alone = global_importance(of.case.explainer, of.case.frame[months == month])
        assert by_month[month].sum.tobytes() == alone.sum.tobytes()


def test_interactions_are_reduced_too(client: Any) -> None:
    """Within rounding of all rows at once, whose sums are rounded row by row."""
    of = cut("boosted", "everything")
    whole = global_interactions(of.case.explainer, of.case.frame)
    found = ld.global_interactions(_frame(of), of.case.explainer).compute()
    assert (found.n_rows, found.sets) == (whole.n_rows, whole.sets)
    np.testing.assert_allclose(found.sum_abs, whole.sum_abs, rtol=1e-12, atol=1e-12)
    assert ld.global_interactions(_frame(of), of.case.explainer, by="city").compute()["Rome"].n_rows > 0


def test_a_worker_that_is_killed_loses_and_doubles_nothing(client: Any, tmp_path: Path) -> None:
    """In the middle of the work, once: the task that is running there is run again elsewhere."""
    of = cut("boosted", "many")
    flag = tmp_path / "killed"

    def once_deadly(part: Any) -> Any:
        if not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return part

    rows = _frame(of)
    rows = rows.map_partitions(once_deadly, meta=rows._meta)
    found = ld.explain(rows, of.case.explainer).compute().reset_index()
    assert flag.exists()
    assert_same_bits(found, of.expected())


def _peak(_: Any = None) -> int:
    """The most memory this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_memory_of_a_worker_is_that_of_its_partitions(client: Any, tmp_path: Path) -> None:
    """Two million rows, 64 MB of numbers and as much of values, written as they come: 40 partitions."""
    case = stream_case("boosted")

    def made(seed: int) -> Any:
        numbers = np.random.default_rng(seed).normal(size=(50_000, len(FEATURES)))
        return pd.DataFrame(numbers, columns=FEATURES)

    meta = pd.DataFrame({name: np.empty(0) for name in FEATURES})
    client.wait_for_workers(2)  # one may have been killed
    few = dd.from_map(made, range(8), meta=meta)
    ld.explain(few, case.explainer).to_parquet(tmp_path / "few")  # all that is imported is there
    before = client.run(_peak)
    many = dd.from_map(made, range(40), meta=meta)
    ld.explain(many, case.explainer).to_parquet(tmp_path / "many")
    after = client.run(_peak)
    assert len(dd.read_parquet(tmp_path / "many")) == 2_000_000
    assert set(after) == set(before)
    grown = max(after[worker] - before[worker] for worker in after)
    assert grown < 60e6, f"{grown / 1e6:.0f} MB"  # the whole would take 128


def test_what_is_sent_needs_no_model_library(client: Any) -> None:
    """Workers explain a model of XGBoost without importing it."""
    case = stream_case("boosted")
    client.restart()
    rows = dd.from_pandas(case.table.to_pandas().set_index("id"), npartitions=4)
    ld.explain(rows, case.explainer).compute()
    loaded = client.run(lambda: "xgboost" in sys.modules)
    assert set(loaded.values()) == {False}


# -- wrong use --------------------------------------------------------------------------------------------


_wrong = partial(refusal, ld.explain)


def test_wrong_use_is_one_clear_line_before_anything_runs() -> None:
    """Without a cluster: nothing is computed."""
    frame = stream_case("boosted").table.to_pandas()
    rows = dd.from_pandas(frame, npartitions=2)
    assert "Missing: 'b'" in _wrong(rows.drop(columns="b"))
    text = dd.from_pandas(frame.assign(b="text"), npartitions=2)
    assert "in column 'b' numbers were expected, got" in _wrong(text)
    dates = dd.from_pandas(frame.assign(b=pd.Timestamp("2020-01-01")), npartitions=2)
    assert "in column 'b' numbers were expected, got timestamp" in _wrong(dates)
    assert "got DataFrame. Explain pandas" in _wrong(frame)
    assert "must be a TreeExplainer, got str" in _wrong(rows, "model")
    array = dask.array.zeros((3, 4))
    assert "keep= is for data frames" in _wrong(array, keep=["id"])
    assert "two dimensions, got 1" in _wrong(dask.array.zeros(3))
    with pytest.raises(InputError, match="by= names a column"):
        ld.global_importance(array, stream_case("boosted").explainer, by="month")
    with pytest.raises(InputError, match="Means of losses"):
        ld.global_importance(rows, stream_case("log_loss").explainer)


def test_an_explainer_that_cannot_travel_says_so() -> None:
    case = stream_case("probability")
    explainer = TreeExplainer(case.explainer.model, case.frame[:5], lambda raw: raw)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(explainer)
    rows = dd.from_pandas(case.table.to_pandas(), npartitions=2)
    assert "cannot be sent to workers" in _wrong(rows, explainer)


def test_the_examples_of_the_docstrings_hold() -> None:
    assert doctest.testmod(ld, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


def test_rows_stay_with_their_keys_through_a_shuffle(client: Any) -> None:
    of = cut("boosted", "many")
    rows = _frame(of).reset_index().shuffle("month")
    found = ld.explain(rows, of.case.explainer, keep=["id"]).compute()
    assert_same_bits(by_key(found), of.expected())
