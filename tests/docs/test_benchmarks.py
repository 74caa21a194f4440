"""The benchmarks run, and they do not time a peer whose answers are wrong."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import data, growth, paper, paper_tables
from benchmarks.as_xgboost import as_xgboost
from benchmarks.cases import Case, Problem
from benchmarks.figures import accuracy_figure, paper_figure, speed_ups
from benchmarks.peers import PEERS, V2_MEMORY, Ours, Rows, Values
from benchmarks.run import circumstances, run_case
from benchmarks.tables import TABLES, case_table, write_tables
from benchmarks.worker import Request, Result, compare
from linear_treeshap.importers import import_model


def tiny_problem(depth: int = 3) -> Problem:
    tree = pytest.importorskip("sklearn.tree")
    made = data.generated(200, n_features=12)
    model = tree.DecisionTreeRegressor(max_depth=depth, random_state=0).fit(made.X, made.y)
    return Problem(model, made.X[:8], made.source)


class WrongInTheThirdFeature(Ours):
    """Its values add up as they should; only the second and third feature are mixed up."""

    def __call__(self, rows: Rows) -> Values:
        values = super().__call__(rows)
        used = np.argsort(-np.abs(values).max(axis=0))[:2]
        values[:, used] = values[:, used[::-1]]
        return values


class Refusing(Ours):
    def __init__(self, model: Any, ensemble: Any) -> None:
        raise NotImplementedError("no trees today")


class NotInstalled(Ours):
    module = "a_library_that_does_not_exist"


def ask(peer: type[Ours], monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.setitem(PEERS, "tried", peer)
    return compare(tiny_problem(), "tried", Request("", "tried", repetitions=1, budget=0.1))


def test_a_peer_with_wrong_answers_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that add up are not enough: each feature is compared."""
    result = ask(WrongInTheThirdFeature, monkeypatch)
    assert result.status == "wrong"
    assert result.error is not None
    assert result.error > 1e-3
    assert not result.seconds


@pytest.mark.parametrize(("off", "status"), [(1e-12, "ok"), (5e-4, "inexact"), (2e-3, "wrong")])
def test_a_peer_that_is_nearly_right_is_timed_and_called_inexact(
    off: float, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error is in the table, beside its time and by its name; beyond a thousandth it has no time."""

    class Off(Ours):
        def __call__(self, rows: Rows) -> Values:
            values = super().__call__(rows)
            return np.asarray(values + off * np.abs(values).max())

    result = ask(Off, monkeypatch)
    assert (result.status, bool(result.seconds)) == (status, status != "wrong")
    assert result.error == pytest.approx(off, rel=0.1)
    report = {"title": "", "n_leaves": 8, "depth": 3, "n_features": 12, "n_rows": 8, "data": ""}
    line = case_table([{**report, "results": [{**asdict(result), "peer": "shap"}]}]).splitlines()[-1]
    assert f"| {off:.0e} |" in line
    assert status == "ok" or f"{status}: 8 of 8 rows are off by" in line


def test_a_peer_that_refuses_is_reported_with_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    result = ask(Refusing, monkeypatch)
    assert (result.status, result.reason) == ("refused", "NotImplementedError: no trees today")


def test_a_peer_that_is_not_installed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(NotInstalled, monkeypatch).status == "missing"


def test_a_case_runs_from_training_to_the_page(tmp_path: Path) -> None:
    """Workers are real processes here; what they say ends up in the table."""
    case = Case("xgboost-100x6", "a tiny tree", partial(tiny_problem, 2), peers=("published",))
    path = tmp_path / "result.json"
    run_case(case, path, repetitions=2, budget=0.2)
    report = json.loads(path.read_text())
    assert report["complete"]
    assert [(result["peer"], result["status"]) for result in report["results"]] == [
        ("ours", "ok"),
        ("published", "ok"),
    ]
    page = tmp_path / "page.md"
    page.write_text("Before.\n<!-- table: cases -->\nold\n<!-- end -->\nAfter.\n")
    write_tables(page, {"cases": TABLES["cases"]([report])})
    text = page.read_text()
    assert "| linear-treeshap" in text
    assert "old" not in text
    assert text.startswith("Before.")
    assert text.endswith("After.\n")


ALGORITHMS = ("shap", "published", "ours")


@pytest.fixture(scope="module")
def experiment() -> dict[str, Any]:
    """The paper's, tiny and without Fast TreeShap, which needs an environment of its own."""
    pytest.importorskip("shap")
    measured = paper.measure(tiny_problem(), ALGORITHMS, runs=2, budget=0.01)
    here = {"source": "made", "n_features": 12, "depths": {"4": measured}}
    return {
        **circumstances("benchmarks.paper"),
        "numpy": np.__version__,
        "v2_memory_gib": V2_MEMORY,
        "data": {"adult": here, "conductor": here},
    }


def test_the_papers_experiment_is_measured(experiment: dict[str, Any]) -> None:
    """As many seconds as runs; the sampled ones explain no more rows than there are."""
    measured = experiment["data"]["adult"]["depths"]["4"]
    assert measured["algorithms"].keys() == set(ALGORITHMS)
    for entry in measured["algorithms"].values():
        assert len(entry["seconds"]) == 2
        assert entry["n_explained"] == 8
        assert entry["error"] < 1e-12


class WithATable(Ours):
    """A tenth of a second to begin with, and a hundredth a row."""

    def __call__(self, rows: Rows) -> Values:
        time.sleep(0.1 + 0.01 * len(rows))
        return super().__call__(rows)


def test_seconds_of_a_sample_are_those_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 rows take 1.1 s, of which the table is counted once; sleeping is never too short."""
    monkeypatch.setitem(PEERS, "fasttreeshap-v2", WithATable)
    problem = tiny_problem()
    problem = replace(problem, rows=np.repeat(problem.rows, 13, axis=0)[:100])
    measured = paper.measure(problem, ("fasttreeshap-v2",), runs=1, budget=0.25)
    (entry,) = measured["algorithms"].values()
    assert 16 <= entry["n_explained"] < 50
    assert 0.9 < entry["seconds"][0] < 3  # not 100/25 times 0.35 s either, and a busy machine adds to it


def test_the_papers_experiment_stops_at_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PEERS, "published", WrongInTheThirdFeature)
    with pytest.raises(RuntimeError, match="published is off by"):
        paper.measure(tiny_problem(), ("published",), runs=1, budget=0.01)


def test_the_papers_tables_say_what_was_measured(experiment: dict[str, Any]) -> None:
    """Mean and spread of the runs, beside the authors' mean; a fallback is marked."""
    entry = {"seconds": [2.0, 6.0], "fell_back": True, "version": ""}
    algorithms = {"shap": {**entry, "fell_back": False, "version": "1"}, "fasttreeshap-v2": entry}
    measured = {"n_leaves": 5, "n_rows": 20, "algorithms": algorithms}
    report = {
        **experiment,
        "data": {"adult": {"source": "a file", "n_features": 64, "depths": {"8": measured}}},
    }
    table = paper_tables.seconds(report)
    assert "| TreeShap | 4 ± 2.83 |" in table
    assert "| Fast TreeShap v2 | 4 ± 2.83 (v1) |" in table
    assert "| *as the paper has it* | 0.363 |" in table
    assert "shap 1" in paper_tables.setting(report)
    memory = {"D": {"128": 4096}, "D, exponent": 2.0, "L, exponent": 0.0, "N, exponent": 1.0}
    report["growth"] = {"published": {"time": {"S": 1.0, "L": 1.0, "D": 1.1}, "memory": memory}}
    assert "| S·L·D | 1.00 | 1.00 | 1.10 | D² + N | 2.00 | 0.00 | 1.00 | 4,096 |" in paper_tables.growth(
        report
    )
    report["growth"] = {"published": {"time": {"S": 1.0, "L": 1.0, "D": 1.1}, "memory": None}}
    assert "| D² + N |  |  |  |  |" in paper_tables.growth(report)


def test_the_figures_are_drawn(tmp_path: Path, experiment: dict[str, Any]) -> None:
    """The speed-up is TreeShap's time over the other's; an error that is no number is drawn, too."""
    pytest.importorskip("matplotlib")
    depths = {
        "2": {
            "algorithms": {
                "shap": {"seconds": [8.0, 8.0], "fell_back": False},
                "ours": {"seconds": [2.0, 1.0], "fell_back": False},
            }
        }
    }
    assert speed_ups(depths)["ours"][2][0] == pytest.approx(6)  # 4 and 8 times
    paper_figure(experiment, tmp_path / "paper.png")
    accuracy_figure({"players": [2, 4], "errors": {"ours": [1e-16, None]}}, tmp_path / "accuracy.png")
    assert (tmp_path / "paper.png").stat().st_size > 0


class TestGrowth:
    """The paper's table 1, measured."""

    @pytest.mark.parametrize(("height", "depth"), [(0, 5), (3, 3), (2, 6)], ids=str)
    def test_a_brush_has_the_leaves_and_the_depth_it_should(self, height: int, depth: int) -> None:
        ensemble = growth.brush(height, depth)
        assert ensemble.n_leaves == 2**height * (depth - height + 1)
        assert ensemble.depth == depth
        assert ensemble.n_features == depth

    def test_exponents_are_found(self) -> None:
        rows, depths = np.array([1.0, 2, 4, 8]), np.array([3.0, 1, 5, 2])
        assert growth.fit(7 * rows * depths**2, rows, depths) == pytest.approx([1, 2])

    def test_memory_of_the_published_form_grows_with_the_square_of_depth_and_not_with_leaves(self) -> None:
        """Counted to the byte. Terms of first order leave 1.96 of the 2 at depths up to 128."""
        found = growth.measure_memory("published")
        if found is None:
            pytest.skip("needs glibc and a C compiler")
        assert 1.9 < found["D, exponent"] < 2.05
        assert abs(found["L, exponent"]) < 0.01
        assert 0.9 < found["N, exponent"] < 1.1


def test_trees_of_other_libraries_survive_the_way_into_xgboost() -> None:
    """Deep enough that XGBoost leaves the part of the tree it lays out in an array of its own."""
    xgboost = pytest.importorskip("xgboost")
    problem = tiny_problem(depth=10)
    booster = as_xgboost(import_model(problem.model))
    # Leaf values are rounded to float32 on the way.
    expected = problem.model.predict(problem.rows)
    np.testing.assert_allclose(booster.predict(xgboost.DMatrix(problem.rows)), expected, rtol=1e-6)
