"""The worked examples do what their pages say, on small data."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linear_treeshap import TreeExplainer

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "examples").glob("*.md"))


def _run(name: str, *arguments: object) -> str:
    """What an example prints; a warning is an error."""
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_shows_what_its_command_printed(page: Path) -> None:
    """The block is filled, and the script that filled it is there."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(
        r"<!-- output of: python (\S+).*? -->\n\n```text\n(.+?)\n```\n\n<!-- end -->", text, re.DOTALL
    )
    assert len(blocks) == 1
    assert (ROOT / blocks[0][0]).exists()


def test_credit_risk_prints_reasons_and_draws_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of generated applications, which anybody has."""
    for library in ("sklearn", "matplotlib", "pandas"):
        pytest.importorskip(library)
    monkeypatch.delenv("LINEAR_TREESHAP_DATA", raising=False)
    printed = _run("credit_risk.py", "--output", tmp_path)
    for words in ("generated applications", "checking_status", "the riskiest application", "log-odds"):
        assert words in printed
    assert (tmp_path / "credit-risk.png").read_bytes().startswith(b"\x89PNG")


def test_reasons_are_printed_with_their_margins(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("sklearn", "matplotlib", "pandas"):
        pytest.importorskip(library)
    monkeypatch.delenv("LINEAR_TREESHAP_DATA", raising=False)
    printed = _run("reasons.py")
    for words in (
        "applications are declined",
        "of the distance, margin",
        "not disclosed",
        "Stability(10 models",
    ):
        assert words in printed


def test_ten_million_rows_are_few_here(tmp_path: Path) -> None:
    """The command and the loop write the same values, one of them as float32."""
    pytest.importorskip("sklearn")
    parquet = pytest.importorskip("pyarrow.parquet")
    printed = _run("ten_million_rows.py", "--rows", 3000, "--folder", tmp_path)
    assert "MiB of memory" in printed
    by_command = parquet.read_table(tmp_path / "values.parquet")
    in_python = parquet.read_table(tmp_path / "values-python.parquet")
    assert by_command.column_names == in_python.column_names
    assert by_command.column("id").equals(in_python.column("id"))
    for name in by_command.column_names[1:]:
        as_float32 = by_command.column(name).to_numpy().astype(np.float32)
        np.testing.assert_array_equal(in_python.column(name).to_numpy(), as_float32)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Any]:
    """The service of the example, answering on a port of its own."""
    pytest.importorskip("sklearn")
    spec = spec_from_file_location("serving", ROOT / "examples" / "serving.py")
    assert spec is not None
    assert spec.loader is not None
    serving = module_from_spec(spec)
    spec.loader.exec_module(serving)
    with serving.Endpoint(("127.0.0.1", 0), TreeExplainer(serving.trained(), n_jobs=1)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def _post(endpoint: Any, body: str, path: str = "/explain") -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", endpoint.server_port, timeout=30)
    connection.request("POST", path, body)
    response = connection.getresponse()
    answer = response.status, json.loads(response.read())
    connection.close()
    return answer


ROW = {
    "age": 59,
    "sex": 2,
    "bmi": 32.1,
    "bp": 101,
    "s1": 157,
    "s2": 93.2,
    "s3": 38,
    "s4": 4,
    "s5": 4.86,
    "s6": None,
}


def test_the_service_explains_a_row(endpoint: Any) -> None:
    """A real request: the prediction is the model's own, and the reasons are its largest values."""
    status, answer = _post(endpoint, json.dumps(ROW))
    assert status == 200
    row = np.array([[np.nan if x is None else x for x in ROW.values()]])
    values = endpoint.explainer.shap_values(row)[0]
    np.testing.assert_allclose(
        answer["prediction"], endpoint.explainer.ensemble.predict(row)[0, 0], rtol=1e-12
    )
    assert [reason["effect"] for reason in answer["reasons"]] == sorted(values, key=abs, reverse=True)[:3]


@pytest.mark.parametrize("body", ["", "no JSON", "[1, 2]", '{"age": 59}', json.dumps({**ROW, "age": "old"})])
def test_the_service_refuses_what_is_no_row(body: str, endpoint: Any) -> None:
    """With status 400 and a sentence."""
    status, answer = _post(endpoint, body)
    assert (status, bool(answer["error"])) == (400, True)


def test_the_service_has_one_path(endpoint: Any) -> None:
    """Others are not found."""
    assert _post(endpoint, "{}", path="/")[0] == 404


def test_the_service_explains_what_was_saved(tmp_path: Path) -> None:
    """A file of an explainer with its own names, a background and probabilities, in a process of its own."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    X = np.random.default_rng(0).normal(size=(100, 2))
    model = ensemble.GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, X[:, 0] > 0)
    explainer = TreeExplainer(model, X[:20], "probability", feature_names=["one", "two"])
    explainer.save(tmp_path / "model.lts")
    script = [str(ROOT / "examples" / "serving.py"), "--model", str(tmp_path / "model.lts"), "--port", "0"]
    with subprocess.Popen([sys.executable, "-u", *script], stdout=subprocess.PIPE, text=True) as service:
        try:
            assert service.stdout is not None
            port = int(service.stdout.readline().rpartition(":")[2].partition("/")[0])
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("POST", "/explain", json.dumps({"one": 1.0, "two": 0.5}))
            answer = json.loads(connection.getresponse().read())
            connection.close()
        finally:
            service.terminate()
    assert answer["prediction"] == pytest.approx(model.predict_proba([[1.0, 0.5]])[0, 1], abs=1e-12)
    assert {reason["feature"] for reason in answer["reasons"]} == {"one", "two"}


def test_the_service_measures_itself() -> None:
    """In microseconds."""
    pytest.importorskip("sklearn")
    assert "request to answer, HTTP" in _run("serving.py", "--measure", 20)
