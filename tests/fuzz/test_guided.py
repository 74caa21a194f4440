"""Coverage-guided fuzzing begins with whole files of every format, and what it finds is reported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fuzz import guided, soak
from fuzz.campaign import CORPUS, DICTIONARIES
from fuzz.checksum import with_checksum
from fuzz.files import examine
from linear_treeshap import TreeExplainer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fuzzers run on Linux")


@pytest.mark.parametrize("kind", guided.PYTHON)
def test_every_format_has_seeds_that_are_explained(kind: str) -> None:
    """What begins as a damaged file never gets far."""
    seeds = sorted((CORPUS / kind.replace(" ", "_")).iterdir())
    assert seeds
    for path in seeds:
        tally = examine(path, kind)
        assert not tally.findings
        assert list(tally.checks) == [f"{kind}: explained"], path.name


def test_every_target_has_seeds_and_words_that_its_reader_knows() -> None:
    for target in guided.TARGETS:
        kind = guided.NATIVE.get(target, target.replace(" ", "_"))
        assert any((CORPUS / kind).iterdir())
    assert '"nodes_featureids"\n' in (DICTIONARIES / "onnx.dict").read_text()
    assert '"left_children"\n' in (DICTIONARIES / "xgboost_json.dict").read_text()


def test_a_changed_saved_explainer_gets_its_length_and_checksum_right(tmp_path: Path) -> None:
    """Without that, guided changes of its header would all end at the same two checks."""
    content = (CORPUS / "saved" / "grouped").read_bytes()
    assert with_checksum(content) == content
    renamed = content.replace(rb"\"a\"", rb"\"longer\"")
    assert len(renamed) > len(content)
    path = tmp_path / "renamed"
    path.write_bytes(with_checksum(renamed))
    assert TreeExplainer.load(path).players.column_names[0] == "longer"


def test_a_soak_counts_calls_and_finds_wrong_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    assert soak.main(["--minutes", "0.02", "--threads", "2"]) == 0
    one = soak.Soak()
    name, call, right = one.calls[0]
    one.calls = [(name, call, right * (1 + 1e-12))]
    one.work(0, float("inf"))
    assert one.wrong
    assert one.n_calls == 1


def test_a_soak_finds_what_is_not_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[bytearray] = []
    right = soak.Soak.work

    def work(self: soak.Soak, seed: int, until: float) -> None:
        kept.append(bytearray(1 << 18))
        right(self, seed, until)

    monkeypatch.setattr(soak.Soak, "work", work)
    assert soak.main(["--minutes", "0.02", "--threads", "2"]) == 1
    assert len(kept) == 2 * soak.N_SPELLS


def test_a_target_runs_and_one_that_fails_is_a_finding(tmp_path: Path) -> None:
    """With the real thing, which is there where `make fuzz` has been run."""
    pytest.importorskip("atheris")
    folders = tmp_path, tmp_path / "grown", tmp_path / "findings"
    outcome = guided.run("dictionary", 1, 1, *folders)
    assert outcome.finding == ""
    assert outcome.executions > 10
    assert guided.run("no such target", 1, 1, *folders).finding
