"""The fuzzers find nothing in a few seconds - and do find what is wrong, when something is made wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wrong_fuzzers
from model_files import to_ubjson
from strategies import chain, random_ensemble, random_rows

from fuzz import files, judge, libraries, mutations, values
from fuzz.__main__ import main
from fuzz.campaign import FUZZERS, Plan, run
from fuzz.cases import Case
from fuzz.tally import Tally
from fuzz.worker import generator, run_case
from linear_treeshap import LinearTreeShapError, TreeEnsemble, TreeExplainer, oracle

#: Processes are limited and watched as Linux does it; libraries say this and that while models are trained.
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the fuzzers run on Linux"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINEAR_TREESHAP_FUZZ_SCRATCH", str(tmp_path))


# -- right --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fuzzer", "cases"), [("values", 60), ("libraries", 12), ("files", 150)])
def test_a_short_run_finds_nothing(fuzzer: str, cases: int, tmp_path: Path) -> None:
    plan = Plan.of(fuzzer, seed=13, cases=cases, seconds=600, jobs=2, findings_folder=tmp_path)
    result = run(plan)
    assert result.cases == cases
    assert [(plan.command(case), found) for case, found in result.findings] == []


@pytest.mark.parametrize("order", [1, 2, 3])
def test_both_roads_of_the_judge_lead_to_the_exact_index(order: int) -> None:
    """Fractions of the oracle, which share no code with it; 1e-17 is some rounding of 64 bits of mantissa."""
    rng = np.random.default_rng(order)
    for _ in range(6):
        ensemble = random_ensemble(rng, n_features=4, n_outputs=2, max_leaves=12, zero_cover=True)
        rows, background = random_rows(rng, ensemble, 2), random_rows(rng, ensemble, 3)
        for data in (None, background):
            game = judge.Game(ensemble, rows, range(4), data)
            weight = judge.index_weight("shapley", 4)
            for sets in (game.by_coalitions([order], weight), game.by_leaves([order], weight)):
                for i, row in enumerate(rows):
                    exact = oracle.interaction_index(ensemble, row, order, background=data)
                    for members, found in exact.items():
                        answer = sets[members].value[i].mean(axis=0) if members in sets else np.zeros(2)
                        np.testing.assert_allclose(
                            answer.astype(float), found.astype(float), rtol=0, atol=1e-15
                        )


def test_the_judge_reaches_long_paths() -> None:
    ensemble = chain([i % 15 for i in range(40)], share=0.9)
    row = np.zeros((1, 15))
    sets = judge.Game(ensemble, row, range(15)).by_leaves([1], judge.index_weight("shapley", 15))
    exact = oracle.shapley_values(ensemble, row[0], by="leaves")
    found = np.array([sets[player,].value[0, 0, 0] for player in range(15)])
    np.testing.assert_allclose(found.astype(float), exact[:, 0].astype(float), rtol=1e-15)


# -- wrong, on purpose --------------------------------------------------------------------------------


def findings(case: Callable[[np.random.Generator], Tally], n_cases: int) -> list[str]:
    """The checks that complain in the first cases."""
    return [found.check for i in range(n_cases) for found in case(generator("test", 1, i)).findings]


def tampered(monkeypatch: pytest.MonkeyPatch, name: str, tamper: Callable[[Any], Any]) -> None:
    """Let a method of TreeExplainer give something else."""
    right = getattr(TreeExplainer, name)
    monkeypatch.setattr(TreeExplainer, name, lambda *args, **options: tamper(right(*args, **options)))


def slightly_larger(found: Any) -> Any:
    return found * (1 + 1e-11)


def fail(*args: Any, **options: Any) -> Any:
    raise KeyError("a name that is not ours")


@pytest.mark.parametrize(
    ("method", "check"), [("shap_values", "values, "), ("shap_interaction_values", "pairs, ")]
)
def test_wrong_digits_are_found(monkeypatch: pytest.MonkeyPatch, method: str, check: str) -> None:
    monkeypatch.setattr(values, "_MAX_SHRUNK", 0)
    assert not [found for found in findings(values.case, 4) if found.startswith(f"{check}background")]
    tampered(monkeypatch, method, slightly_larger)
    assert [found for found in findings(values.case, 4) if found.startswith(check)]


def test_wrong_sets_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_MAX_SHRUNK", 0)

    def without_the_first(found: Any) -> Any:
        found.values[:, :1] = 0
        return found

    tampered(monkeypatch, "interactions", without_the_first)
    assert [found for found in findings(values.case, 4) if found.startswith("sets, ")]


def test_other_bits_of_one_row_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_MAX_SHRUNK", 0)
    tampered(monkeypatch, "shap_values", lambda found: found + 1e-18 if len(found) == 1 else found)
    assert "same bits: values, one row" in findings(values.case, 4)


def test_a_wrong_case_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is in every tree and row, so one of each is left."""
    tampered(monkeypatch, "shap_values", slightly_larger)
    found = values.case(generator("test", 1, 0)).findings[0]
    assert "smallest case: 1 trees of" in found.what
    assert ", 1 rows of" in found.what


def test_foreign_exceptions_and_refusals_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_MAX_SHRUNK", 0)
    monkeypatch.setattr(TreeExplainer, "shap_values", fail)
    assert set(findings(values.case, 2)) == {"foreign exception"}


def test_contributions_of_the_wrong_column_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums are right, so predictions alone would not tell."""
    tampered(monkeypatch, "shap_values", lambda found: found[:, ::-1])
    found = findings(libraries.case, 12)
    assert {"xgboost: values", "hist gradient boosting: background, all mixtures"} <= set(found)


@pytest.mark.parametrize(
    ("wrong", "check"),
    [
        (fail, "foreign exception"),
        (lambda *args, **options: np.ones(1 << 48), "MemoryError"),
        (lambda explainer, rows, **options: np.full(rows.shape, np.nan), "inconsistent"),
    ],
)
def test_a_reader_that_fails_is_found(monkeypatch: pytest.MonkeyPatch, wrong: Any, check: str) -> None:
    path = Path(__file__).parents[2] / "fuzz" / "README.md"
    monkeypatch.setattr(TreeExplainer, "shap_values", wrong)
    monkeypatch.setattr(files, "import_model", lambda path: stump())
    (found,) = files.examine(path, "lightgbm", "as it is").findings
    assert found.check == f"lightgbm: {check}"


def stump() -> TreeEnsemble:
    return chain([0])


def test_edits_come_past_the_checksum_and_the_encoding(tmp_path: Path) -> None:
    """Some numbers of a saved file may be any others; a document comes back from UBJSON as it was."""
    TreeExplainer(random_ensemble(np.random.default_rng(0))).save(tmp_path / "whole")
    whole, rng = (tmp_path / "whole").read_bytes(), np.random.default_rng(1)
    n_read = 0
    for _ in range(200):
        data, what = mutations.FIELDS["saved"](rng, whole)
        (tmp_path / "edited").write_bytes(data)
        if what == "a number of an array":
            with suppress(LinearTreeShapError):
                TreeExplainer.load(tmp_path / "edited")
                n_read += data != whole
    assert n_read > 0
    document = {"a": [1, 2], "b": {"c": "text", "d": [None, True, 1.5]}, "e": []}
    assert mutations._from_ubjson(to_ubjson(document)) == document


def test_errors_are_measured_by_what_is_added_and_taken_back() -> None:
    """A player that a path meets twice, satisfied and then not: at t = 0 the terms that cancel lack the first
    cover, and an engine loses digits; at t = 1, and for a player met once, none is lost."""
    twice, once = chain([0, 0], share=[1e-6, 0.5]), chain([0], share=[0.5])
    above = judge.Game(replace(twice, threshold=np.array([2.0, 0, 0, 0, 0])), [[1.0]], [0])
    weight = judge.index_weight("banzhaf", 0)
    found = {t: above.by_leaves([1], weight, t)[0,] for t in (0.0, 1.0)}
    plain = above.by_leaves([1], weight)[0,]
    assert all((answer.value == plain.value).all() for answer in found.values())
    assert found[1.0].scale == pytest.approx(plain.scale, rel=1e-5)
    # The deepest leaf has 1e-6 · 0.5 where it is absent; 0.5 + 0.5 are added and taken back.
    lost = float((found[0.0].scale - plain.scale).item())
    assert lost == pytest.approx(float(np.abs(twice.value[4, 0])), rel=1e-5)
    game = judge.Game(once, [[1.0]], [0])
    assert (game.by_leaves([1], weight, 0.0)[0,].scale == game.by_leaves([1], weight)[0,].scale).all()


def test_trees_of_many_players_are_not_judged_by_coalitions() -> None:
    """Thirty of them would take minutes."""
    ensemble = chain(range(30))
    case = Case(ensemble, np.zeros((1, 30)))
    assert judge.Game(ensemble, case.rows, case.player_of).most_players == 30
    tally = values.examine(case)
    assert tally.findings == []
    assert "the judge's two roads" not in tally.checks


# -- processes ----------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_cases_on_any_number_of_processes(tmp_path: Path) -> None:
    results = [
        run(Plan("wrong_fuzzers:quiet", seed, cases=20, seconds=600, jobs=jobs, findings_folder=tmp_path))
        for seed, jobs in ((1, 1), (1, 3), (2, 3))
    ]
    worst = [result.checks["quiet"].worst for result in results]
    assert worst[0] == worst[1] != worst[2]
    assert all(result.checks["quiet"].numbers == 20 for result in results)


def test_a_dead_process_is_a_finding_and_the_next_case_is_run(tmp_path: Path) -> None:
    """Each case is what it is when it is run alone."""
    plan = Plan("wrong_fuzzers:now_and_then", 4, cases=12, seconds=600, jobs=2, findings_folder=tmp_path)
    result = run(plan)
    kinds = [int(generator(plan.function, 4, case).integers(3)) for case in range(12)]
    assert result.cases == 12
    assert {case for case, found in result.findings if found.check == "crash"} == _places(kinds, 0)
    assert {case for case, found in result.findings if found.check == "wrong"} == _places(kinds, 1)
    assert all("SIGABRT" in found.what for _, found in result.findings if found.check == "crash")
    kept = {int(path.name.partition("-")[2]) for path in tmp_path.iterdir() if path.is_file()}
    assert kept == _places(kinds, 0)
    assert all(path.read_bytes() == wrong_fuzzers.INPUT for path in tmp_path.iterdir() if path.is_file())


def _places(kinds: list[int], kind: int) -> set[int]:
    return {case for case, found in enumerate(kinds) if found == kind}


def test_a_hang_and_a_hungry_case_are_findings(tmp_path: Path) -> None:
    options: dict[str, Any] = {"seed": 1, "cases": 1, "seconds": 600, "findings_folder": tmp_path}
    (found,) = run(Plan("wrong_fuzzers:hanging", limit_seconds=1, **options)).findings
    assert found[1].check == "hang"
    assert "wrong_fuzzers.py" in found[1].what  # where it was
    (found,) = run(Plan("wrong_fuzzers:hungry", memory_bytes=4 << 30, **options)).findings
    assert "MemoryError" in found[1].what


def test_the_command_line_repeats_a_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line under a finding; the exit code; the figures as JSON."""
    monkeypatch.setitem(FUZZERS, "values", "wrong_fuzzers:now_and_then")
    kinds = [int(generator(FUZZERS["values"], 4, case).integers(3)) for case in range(12)]
    figures = tmp_path / "figures.json"
    for case, code in ((kinds.index(1), 1), (kinds.index(2), 0)):
        line = Plan("values", 4).command(case).split()[3:]
        assert main([*line, "--json", str(figures), "--folder", str(tmp_path)]) == code
        assert f"seed {4}" in capsys.readouterr().out
        (document,) = json.loads(figures.read_text())
        assert [found["case"] for found in document["findings"]] == [case] * code


def test_a_case_is_repeated_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_MAX_SHRUNK", 0)  # which is done for the first ones only
    one, other = (run_case("fuzz.values:case", 3, 1) for _ in range(2))
    assert one == other
