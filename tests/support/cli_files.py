"""Model files and tables for the tests of the command line, and ways to run it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linear_treeshap.cli import main

FEATURES = ["a", "b", "c", "d"]
N_ROWS = 300


def command() -> list[str]:
    """The installed command; its module where the package is not installed."""
    installed = Path(sys.executable).with_name("linear-treeshap")
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "linear_treeshap"]


def run(*arguments: object) -> None:
    """Run a command in this process; it must succeed."""
    assert main([str(argument) for argument in arguments]) == 0


def fail(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 1) -> str:
    """Run a command in this process; it must fail with one line, which is returned."""
    capsys.readouterr()
    try:
        found = main([str(argument) for argument in arguments])
    except SystemExit as ended:  # argparse's way
        found = int(ended.code or 0)
    said = capsys.readouterr()
    assert found == code, said.err
    assert said.out == ""
    assert said.err.startswith("linear-treeshap")
    assert said.err.count("\n") == 1, said.err
    assert "Traceback" not in said.err
    return said.err


def table(n_rows: int = N_ROWS, seed: int = 0) -> Any:
    """A frame of four features, of text to be a category or not, and of a key."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame(rng.normal(size=(n_rows, 4)), columns=FEATURES)
    frame["city"] = rng.choice(["Oslo", "Rome", "NA", "1"], n_rows)
    frame.insert(0, "id", [f"{number:06d}" for number in range(n_rows)])
    return frame


def target(frame: Any) -> Any:
    return frame["a"] * frame["b"] + frame["c"] + (frame["city"] == "Oslo")


def write(frame: Any, path: Path) -> Path:
    """The frame in the format that the name asks for."""
    if ".csv" in path.suffixes:
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path, index=False, row_group_size=97)
    else:
        frame.to_feather(path, chunksize=97)
    return path


def read(path: Path) -> Any:
    """The frame in a file, keys as text."""
    pandas = pytest.importorskip("pandas")
    if path.suffix == ".csv":
        csv = pytest.importorskip("pyarrow.csv")
        texts = csv.ConvertOptions(column_types={"id": "string"})
        return csv.read_csv(path, convert_options=texts).to_pandas()
    return pandas.read_parquet(path) if path.suffix == ".parquet" else pandas.read_feather(path)


def boosted(path: Path, n_estimators: int = 10) -> Path:
    """A regression model of XGBoost, trained on the four numbers of `table`."""
    xgboost = pytest.importorskip("xgboost")
    frame = table()
    model = xgboost.XGBRegressor(n_estimators=n_estimators, max_depth=4, n_jobs=1)
    model.fit(frame[FEATURES], target(frame)).save_model(path)
    return path
