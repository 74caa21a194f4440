"""The code on our pages runs: README, documents and the demo say what the library does."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    ROOT / "fuzz" / "README.md",
    *sorted((ROOT / "docs").glob("**/*.md")),
]
#: What is not in the environment of the tests.
ENGINES = ("dask", "pyspark", "ray.data")
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
_FILE = re.compile(r"`((?:core|src|tests|benchmarks|examples|docs)/[\w./-]+)`")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def code_blocks(page: Path) -> Iterator[str]:
    """Each after as many empty lines as make the line numbers of a traceback those of the page."""
    text = page.read_text(encoding="utf-8")
    for block in _BLOCK.finditer(text):
        yield "\n" * text.count("\n", 0, block.start(1)) + block[1]


@pytest.mark.parametrize("page", [page for page in PAGES if any(code_blocks(page))], ids=name)
def test_code_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, in one namespace, as a reader would type them; `make test-engines` has all engines."""
    blocks = list(code_blocks(page))
    if any("sklearn" in block for block in blocks):
        for library in ("sklearn", "pandas", "bokeh"):
            pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        if any(engine in block and find_spec(engine.partition(".")[0]) is None for engine in ENGINES):
            continue
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    """Those to files of this repository."""
    targets = _LINK.findall(page.read_text(encoding="utf-8"))
    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_that_are_named_exist(page: Path) -> None:
    """So that whoever moves a file also tells its readers. Recipes call the reader's own file ``name``."""
    named = _FILE.findall(page.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists() and Path(path).stem != "name"] == []


def test_demo_prints_a_summary_and_writes_what_it_shows(tmp_path: Path) -> None:
    """A table of a row per patient, a picture and the report, without a warning."""
    for library in ("sklearn", "matplotlib", "pandas", "bokeh"):
        pytest.importorskip(library)
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "demo.py"), "--output", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for word in ("trees", "rows explained", "rows per second", "additivity error", "body mass index"):
        assert word in done.stdout
    assert len((tmp_path / "values.csv").read_text().splitlines()) == 1 + 442
    assert (tmp_path / "explanation.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")
    assert done.stdout.splitlines()[-1].endswith((tmp_path / "report.html").as_uri())
