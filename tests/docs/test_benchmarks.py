"""The benchmarks run, and they do not time a peer whose answers are wrong."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import data
from benchmarks.as_xgboost import as_xgboost
from benchmarks.cases import Case, Problem
from benchmarks.figures import accuracy_figure, paper_figure, speed_ups
from benchmarks.peers import PEERS, Ours, Rows, Values
from benchmarks.run import run_case
from benchmarks.tables import TABLES, write_tables
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


def test_a_peer_that_refuses_is_reported_with_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    result = ask(Refusing, monkeypatch)
    assert (result.status, result.reason) == ("refused", "NotImplementedError: no trees today")


def test_a_peer_that_is_not_installed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(NotInstalled, monkeypatch).status == "missing"


def test_a_case_runs_from_training_to_the_page(tmp_path: Path) -> None:
    """Workers are real processes here; what they say ends up in the table."""
    case = Case("paper-adult-02", "a tiny tree", partial(tiny_problem, 2), peers=("paper",))
    path = tmp_path / "result.json"
    run_case(case, path, repetitions=2, budget=0.2)
    report = json.loads(path.read_text())
    assert report["complete"]
    assert [(result["peer"], result["status"]) for result in report["results"]] == [
        ("ours", "ok"),
        ("paper", "ok"),
    ]
    page = tmp_path / "page.md"
    page.write_text("Before.\n<!-- table: paper -->\nold\n<!-- end -->\nAfter.\n")
    write_tables(page, {"paper": TABLES["paper"]([report])})
    text = page.read_text()
    assert "| linear-treeshap" in text
    assert "old" not in text
    assert text.startswith("Before.")
    assert text.endswith("After.\n")


def test_the_figures_are_drawn(tmp_path: Path) -> None:
    """The speed-up is shap's time per row over the peer's; an error that is no number is drawn, too."""
    pytest.importorskip("matplotlib")
    results = [
        {"peer": "shap", "version": "1", "n_rows": 10, "seconds": [4.0, 4.0]},
        {"peer": "ours", "version": "1", "n_rows": 20, "seconds": [2.0, 1.0]},
    ]
    reports = [
        {"case": f"paper-{name}-02", "depth": 2, "results": results} for name in ("adult", "conductor")
    ]
    assert speed_ups(reports, "adult")["linear-treeshap 1"][2][0] == pytest.approx(6)  # 4 and 8 times
    paper_figure(reports, tmp_path / "paper.png")
    accuracy_figure({"players": [2, 4], "errors": {"ours": [1e-16, None]}}, tmp_path / "accuracy.png")
    assert (tmp_path / "paper.png").stat().st_size > 0


def test_trees_of_other_libraries_survive_the_way_into_xgboost() -> None:
    """Deep enough that XGBoost leaves the part of the tree it lays out in an array of its own."""
    xgboost = pytest.importorskip("xgboost")
    problem = tiny_problem(depth=10)
    booster = as_xgboost(import_model(problem.model))
    # Leaf values are rounded to float32 on the way.
    expected = problem.model.predict(problem.rows)
    np.testing.assert_allclose(booster.predict(xgboost.DMatrix(problem.rows)), expected, rtol=1e-6)
