"""Whatever goes wrong on the command line: one clear line, the right exit code, nothing lost or left."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import cli_files
import numpy as np
import pytest
from cli_files import FEATURES, command, fail, run, table, write

from linear_treeshap import TreeExplainer, __version__
from linear_treeshap.atomic_write import replacing
from linear_treeshap.cli.main import main, make_parser
from linear_treeshap.streams.batch_explainer import BatchExplainer

pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")

#: Commands, each with words for the model, the data and what follows.
COMMANDS = {
    "explain": ["-o", "out.csv"],
    "importance": [],
    "report": ["-o", "page.html"],
    "bench": ["--rows", "20"],
    "info": [],
}
WITH_DATA = [name for name in COMMANDS if name != "info"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, rows, and files that are neither."""
    folder = tmp_path_factory.mktemp("made")
    model, rows = cli_files.boosted(folder / "model.json", n_estimators=3), folder / "rows.parquet"
    write(table(), rows)
    write(table(), folder / "rows.csv")
    write(table().drop(columns=["c", "d"]), folder / "narrow.csv")
    TreeExplainer(model).save(folder / "cut.lts")
    for name, content in {
        "rows.bin": b"\x00\x01\x02\x03 no table",
        "empty": b"",
        "cut.lts": (folder / "cut.lts").read_bytes()[:-10],
        "broken.parquet": rows.read_bytes()[:-100],
        "broken.json": model.read_bytes()[:2000],
        "broken.skops": b"PK\x03\x04 no archive",
        "list.json": b"[1, 2]",
        "strangers.json": b'{"group": ["nobody"]}',
        "model.pkl": b"\x80\x04K\x01.",
        "latin.csv": "größe,b,c,d\n1,2,3,4\n".encode("latin-1"),
        "header.csv": b"a,b,c,d\n",
        "twice.json": b'{"group": ["a"], "group": ["b"]}',
        "nested.json": b"[" * 100_000,
    }.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder, to be in."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(name: str, model: str, data: str) -> list[str]:
    return [name, model, *([data] if name in WITH_DATA else []), *COMMANDS[name]]


def _files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path().iterdir()}


# -- one line, and nothing changes ------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("missing.json", "There is no file 'missing.json'"),
        ("rows.bin", "'rows.bin' is no model file"),
        ("empty", "'empty' is no model file"),
        ("cut.lts", "Cannot read 'cut.lts'"),
        ("broken.json", "'broken.json'"),
        ("broken.skops", "Cannot read 'broken.skops' as a skops file"),
        ("model.pkl", "add --allow-pickle"),
        (".", "There is no file '.'"),
    ],
)
def test_an_unreadable_model_is_named(
    name: str, model: str, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By every command."""
    if "skops" in model:
        pytest.importorskip("skops")
    before = _files()
    assert words in fail(capsys, *_run(name, model, "rows.csv"))
    assert _files() == before


@pytest.mark.parametrize("name", WITH_DATA)
@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("missing.csv", "There is no file 'missing.csv'"),
        ("rows.bin", "neither Parquet nor Feather"),
        ("broken.parquet", "Cannot read 'broken.parquet'"),
        ("narrow.csv", "'narrow.csv' does not fit the model: X has 2 columns"),
        ("latin.csv", "Cannot read 'latin.csv': 'utf-8' codec can't decode byte"),
        ("-", "'-' is not a file but a stream"),
        ("pipe", "'pipe' is not a file but a stream"),
    ],
)
def test_unreadable_data_is_named(
    name: str, data: str, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By every command that reads some."""
    before = _files()
    if data == "pipe":
        os.mkfifo("pipe")
    assert words in fail(capsys, *_run(name, "model.json", data))
    Path("pipe").unlink(missing_ok=True)
    assert _files() == before


def test_a_model_may_not_come_through_a_pipe(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which is waited for by nobody."""
    os.mkfifo("pipe")
    assert "'pipe' is not a file but a stream" in fail(capsys, "info", "pipe")


def test_nothing_to_measure_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "'header.csv' has no rows to explain" in fail(capsys, "bench", "model.json", "header.csv")


def test_rows_of_millions_of_columns_are_few(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two thousand of them would take 64 GB."""
    document = json.loads(Path("model.json").read_text())
    document["learner"]["learner_model_param"]["num_feature"] = "4000000"
    document["learner"]["feature_names"] = []
    Path("wide.json").write_text(json.dumps(document))
    run("bench", "wide.json", "--json")
    assert json.loads(capsys.readouterr().out)["rows"] == 4


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_text_among_numbers_is_named(kind: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where it stands, and nothing is written although rows before it were fine."""
    frame = table().astype({"b": "object"})
    frame.loc[200, "b"] = "many"
    frame = frame.astype({"b": str})
    said = fail(capsys, "explain", "model.json", write(frame, Path(f"rows.{kind}")), "-o", "out.csv")
    assert f"rows.{kind}" in said
    assert ("many" if kind == "csv" else "'b'") in said
    assert not Path("out.csv").exists()


def test_an_existing_output_is_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unless it may be replaced; and then it is still kept until the new one is complete."""
    Path("out.csv").write_text("precious")
    assert "--force replaces it" in fail(capsys, "explain", "model.json", "rows.csv", "-o", "out.csv")
    said = fail(capsys, "explain", "model.json", "broken.parquet", "-o", "out.csv", "--force")
    assert "broken.parquet" in said
    assert Path("out.csv").read_text() == "precious"
    run("explain", "model.json", "rows.csv", "-o", "out.csv", "--force")
    assert Path("out.csv").read_text() != "precious"


def test_a_file_that_is_read_is_never_replaced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not even by force, or by another name."""
    before = _files()
    Path("link.csv").symlink_to("rows.csv")
    for out in ("rows.csv", "link.csv"):
        said = fail(capsys, "explain", "model.json", "rows.csv", "-o", out, "--force")
        assert "choose another name" in said
    Path("link.csv").unlink()
    assert _files() == before


def test_an_existing_page_is_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As any other output."""
    Path("page.html").write_text("precious")
    assert "--force replaces it" in fail(capsys, "report", "model.json", "rows.csv", "-o", "page.html")
    assert Path("page.html").read_text() == "precious"


def test_a_folder_that_is_not_there_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is explained."""
    assert "there is no folder" in fail(capsys, "explain", "model.json", "rows.csv", "-o", "no/where.csv")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--key", "nobody"], "no column 'nobody'"),
        (["--key", "a"], "two columns of the name 'a'"),
        (["--only", "7"], "no output '7'"),
        (["--groups", "families"], "there is no file 'families'"),
        (["--groups", "rows.csv"], "Cannot read 'rows.csv' as JSON"),
        (["--groups", "list.json"], "'list.json' must hold an object"),
        (["--groups", "strangers.json"], "nobody"),
        (["--groups", "twice.json"], "the group 'group' is there twice"),
        (["--groups", "nested.json"], "Cannot read 'nested.json' as JSON"),
    ],
)
def test_what_is_not_there_is_named(
    arguments: list[str], words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys, outputs and groups."""
    assert words in fail(capsys, "explain", "model.json", "rows.csv", "-o", "out.csv", *arguments)
    assert not Path("out.csv").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["explode"],
        ["explain", "model.json", "rows.csv"],
        ["explain", "model.json", "rows.csv", "-o", "out.xyz"],
        ["explain", "model.json", "rows.csv", "-o", "out.csv", "--top", "0"],
        ["explain", "model.json", "rows.csv", "-o", "out.csv", "--top", "2", "--layout", "wide"],
        ["explain", "model.json", "rows.csv", "-o", "out.csv", "--n-jobs", "0"],
        ["explain", "model.json", "rows.csv", "-o", "out.csv", "--forc"],
    ],
)
def test_wrong_usage_is_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """In one line, which leads to the help."""
    assert "--help" in fail(capsys, *arguments, code=2)


def test_categories_without_known_labels_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The order of a file's dictionary means nothing to a model that was trained on another."""
    frame = table().astype({"a": str}).astype({"a": "category"})
    said = fail(capsys, "explain", "model.json", write(frame, Path("rows.feather")), "-o", "out.csv")
    assert "column 'a'" in said


def test_a_pipeline_s_own_complaint_is_about_the_rows(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its steps are not ours, but the rows are the user's."""
    pytest.importorskip("sklearn")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeRegressor

    frame = table()
    model = make_pipeline(StandardScaler(), DecisionTreeRegressor()).fit(frame[FEATURES], frame["a"])
    Path("steps.pkl").write_bytes(pickle.dumps(model))
    write(frame.assign(b="text"), Path("rows.csv"))
    capsys.readouterr()
    assert main(["importance", "steps.pkl", "rows.csv", "--allow-pickle"]) == 1
    warning, error = capsys.readouterr().err.splitlines()
    assert "warning: unpickling 'steps.pkl'" in warning
    assert "'rows.csv', rows from 0 on: the model itself does not take these rows" in error


def test_what_was_not_foreseen_is_one_line_too(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And all of it for those who ask."""

    def broken(*_: Any) -> Any:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(BatchExplainer, "of_rows", broken)
    arguments = ["explain", "model.json", "rows.csv", "-o", "out.csv"]
    assert "RuntimeError: two lines" in fail(capsys, *arguments)
    with pytest.raises(RuntimeError):
        main([*arguments, "--traceback"])
    assert not Path("out.csv").exists()


def test_a_missing_pyarrow_says_how_to_get_it(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an extra."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = fail(capsys, "explain", "model.json", "rows.csv", "-o", "out.csv")
    assert "pip install '.[cli]'" in said


# -- in a process of its own ------------------------------------------------------------------------------


def _process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command(), *arguments], capture_output=True, text=True, check=False, **options)


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather", "html"])
def test_a_full_disk_leaves_nothing(kind: str, folder: Path) -> None:
    """The limit on a file's size stands in for it: the system refuses to write on, in the same way."""
    resource = pytest.importorskip("resource")
    if kind == "html":
        pytest.importorskip("bokeh")
    frame = pandas.DataFrame(np.random.default_rng(0).normal(size=(5000, 4)), columns=FEATURES)
    write(frame, Path("many.feather"))
    before = _files()
    done = _process(
        *["report" if kind == "html" else "explain", "model.json", "many.feather", "-o", f"out.{kind}"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000)),
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"linear-treeshap: error: Cannot write 'out.{kind}'")
    assert done.stderr.count("\n") == 1, done.stderr
    assert _files() == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_leaves_nothing_and_says_so(number: int, code: int, folder: Path) -> None:
    """The signal comes when some of the output has been written."""
    frame = pandas.DataFrame(np.random.default_rng(0).normal(size=(400_000, 4)), columns=FEATURES)
    frame.to_parquet("many.parquet")
    cli_files.boosted(Path("large.json"), n_estimators=300)
    before = _files()
    arguments = ["explain", "large.json", "many.parquet", "-o", "out.csv", "--n-jobs", "1", "--no-check"]
    process = subprocess.Popen([*command(), *arguments], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size for path in Path().glob(".*.tmp")):
        assert process.poll() is None, "it ended too early"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert said.endswith("Nothing was written to 'out.csv'.\n")
    assert said.count("\n") == 1
    assert _files() == before


def test_what_a_killed_run_left_is_removed_by_the_next(folder: Path) -> None:
    """And only that: neither what another run is writing, nor files of others."""
    others = [".mine.tmp", ".0123456789abcdef.tmp", f".{'0' * 8}.{'0' * 16}.tmp"]
    for name in others:
        Path(name).write_text("precious")
    before = _files()
    with replacing(Path("out.csv")):  # a run that goes on meanwhile
        left = multiprocessing.get_context("fork").Process(target=_killed_while_writing)
        left.start()
        left.join()
        assert left.exitcode == -signal.SIGKILL
        assert len(_files()) == len(before) + 2
        run("explain", "model.json", "rows.csv", "-o", "out.csv")
        assert len(_files()) == len(before) + 2  # the output, and what is being written
    Path("out.csv").unlink()
    assert _files() == before


def _killed_while_writing() -> None:
    with replacing(Path("out.csv")) as file:
        file.write(b"half")
        os.kill(os.getpid(), signal.SIGKILL)


def test_the_installed_command_works(folder: Path) -> None:
    """Progress on stderr, JSON on stdout, and the version."""
    done = _process("explain", "model.json", "rows.csv", "-o", "out.csv", "--progress", "--json")
    assert (done.returncode, "100%" in done.stderr) == (0, True)
    assert '"rows": 300' in done.stdout
    assert _process("--version").stdout == f"linear-treeshap {__version__}\n"


def test_a_reader_that_has_had_enough_is_no_error(folder: Path) -> None:
    """As in ``linear-treeshap importance … | head -1``."""
    process = subprocess.Popen(
        [*command(), "importance", "model.json", "rows.csv"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, b"")


# -- help -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_the_examples_of_the_help_are_right(name: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    """Every line that begins with the command's name is parsed."""
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"] if name else ["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out.replace("\\\n", " ")
    examples = [line.strip().split("|")[0].split(">")[0] for line in text.splitlines()]
    examples = [line for line in examples if line.startswith("linear-treeshap ")]
    assert len(examples) >= 2
    for example in examples:
        make_parser().parse_args(shlex.split(example)[1:])
