"""What `linear-treeshap reasons` writes is what Explanation.reasons gives."""

from __future__ import annotations

import json
from pathlib import Path

import cli_files
import numpy as np
import pytest
from cli_files import FEATURES, fail, read, run, table, write

from linear_treeshap import TreeExplainer

pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cli_files.boosted(tmp_path_factory.mktemp("model") / "model.json")


@pytest.mark.parametrize("suffix", ["parquet", "feather", "csv"])
def test_reasons_with_keys_and_codes(model: Path, tmp_path: Path, suffix: str) -> None:
    frame = table()
    codes = tmp_path / "codes.json"
    codes.write_text(json.dumps({"a": "R1", "b": ["R2", "the second"]}))
    rows, out = write(frame, tmp_path / f"rows.{suffix}"), tmp_path / f"reasons.{suffix}"
    run("reasons", model, rows, "-o", out, "--key", "id", "--toward", "down", "--top", 2,
        "--codes", codes, "--exclude", "d", "--threshold", 0.1, "--minimum", 0.05)  # fmt: skip
    found = read(out)
    expected = TreeExplainer(model)(frame[FEATURES]).reasons(
        2,
        toward="down",
        codes={"a": "R1", "b": ("R2", "the second")},
        exclude=["d"],
        threshold=0.1,
        minimum=0.05,
    )
    assert found["id"].tolist() == frame["id"].iloc[expected["row"]].tolist()
    assert list(found.columns[1:]) == list(expected.columns[1:])
    for name in ("rank", "value", "share", "margin", "undisclosed"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12)
    assert found["feature"].tolist() == expected["feature"].tolist()
    np.testing.assert_allclose(found["data"].astype(float), expected["data"])
    assert found["code"].fillna("").tolist() == expected["code"].fillna("").tolist()


def test_a_line_for_each_row(model: Path, tmp_path: Path) -> None:
    frame, out = table(), tmp_path / "reasons.parquet"
    run(
        "reasons",
        model,
        write(frame, tmp_path / "rows.csv"),
        "-o",
        out,
        "--toward",
        "up",
        "--wide",
        "--top",
        3,
    )
    found = read(out)
    expected = TreeExplainer(model)(frame[FEATURES]).reasons(3, toward="up", layout="wide")
    assert list(found.columns) == list(expected.columns)
    assert found["row"].tolist() == list(range(len(frame)))
    np.testing.assert_allclose(found["value_2"], expected["value_2"])


def test_wrong_usage_is_one_line(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, out = write(table(), tmp_path / "rows.csv"), tmp_path / "reasons.csv"
    wrong = tmp_path / "codes.json"
    wrong.write_text('["R1"]')
    assert "--toward" in fail(capsys, "reasons", model, rows, "-o", out, code=2)
    assert "'up' or 'down'" in fail(capsys, "reasons", model, rows, "-o", out, "--toward", "left")
    assert "no features" in fail(
        capsys, "reasons", model, rows, "-o", out, "--toward", "up", "--exclude", "x"
    )
    assert "must hold an object" in fail(
        capsys, "reasons", model, rows, "-o", out, "--toward", "up", "--codes", wrong
    )
    assert not out.exists()
