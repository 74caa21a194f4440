"""Tables cut into partitions in every way that engines cut them, and what must come out of all of them.

Engines start slowly, so each is started once. Where one cannot start, its tests are skipped and say why;
`make test-engines` sets ENGINES_MUST_START, and then they fail.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
import pytest
from stream_cases import StreamCase, stream_case

from linear_treeshap import InputError


@dataclass(frozen=True)
class Cut:
    """A case whose table has been cut; its rows may have been moved and changed first."""

    case: StreamCase
    parts: list[Any]  # Arrow tables

    def expected(self) -> Any:
        """What the explainer itself says, with the key of each line, in the order of the keys."""
        frame = self.case.expected().reset_index(drop=True)
        keys = np.repeat(self.case.table["id"].to_pylist(), self.case.lines_per_row)
        frame.insert(0, "id", keys)
        return by_key(frame)


def by_key(frame: Any) -> Any:
    """The lines in the order of their keys; those of one key stay in theirs."""
    return frame.sort_values("id", kind="stable").reset_index(drop=True)


def assert_same_bits(found: Any, expected: Any) -> None:
    """The same columns, keys and cells, whatever the types of text."""
    found = by_key(found)
    assert list(found.columns) == list(expected.columns)
    for name in expected.columns:
        if expected[name].dtype.kind == "f":
            cells = np.asarray(found[name], dtype=np.float64)
            np.testing.assert_array_equal(cells, expected[name].to_numpy(), err_msg=name)
        else:
            assert found[name].astype(str).tolist() == expected[name].astype(str).tolist(), name


def refusal(explain: Callable[..., Any], rows: Any, explainer: Any = None, **options: Any) -> str:
    """What is said, in one line, where these rows cannot be explained."""
    with pytest.raises(InputError) as error:
        explain(rows, explainer or stream_case("boosted").explainer, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def _pieces(table: Any, sizes: list[int]) -> list[Any]:
    bounds = np.cumsum([0, *sizes, table.num_rows - sum(sizes)]).tolist()
    return [table.slice(a, b - a) for a, b in pairwise(bounds)]


def _shuffled(table: Any) -> Any:
    return table.take(np.random.default_rng(1).permutation(table.num_rows))


#: How rows are moved → the sizes of partitions, the last of which has what is left; and one that is emptied.
CUTS: dict[str, tuple[bool, list[int], int | None]] = {
    "one partition": (False, [], None),
    "many": (False, [20] * 9, None),
    "shuffled": (True, [63, 2, 100], None),
    "empty ones": (False, [0, 80, 0], None),
    "one row": (False, [199], None),
    "all null": (False, [50, 50], 1),
    "everything": (True, [0, 1, 57, 0, 40], 4),
}


@cache
def cut(name: str, how: str) -> Cut:
    pa = pytest.importorskip("pyarrow")
    case = stream_case(name)
    is_shuffled, sizes, emptied = CUTS[how]
    table = _shuffled(case.table) if is_shuffled else case.table
    parts = _pieces(table, sizes)
    if emptied is not None:
        part = parts[emptied]
        column = part.column_names.index("a")
        parts[emptied] = part.set_column(column, "a", pa.nulls(part.num_rows, pa.float64()))
        table = pa.concat_tables(parts)
    return Cut(replace(case, table=table), parts)


@cache
def spark_session() -> Any:
    """Two tasks at a time, in a process of their own; and a task that fails is tried again."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2,4]").appName("linear-treeshap")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def started(engine: str, start: Callable[[], Any]) -> Any:
    """A running engine; or the test does not run, and says which engine did not start and why."""
    try:
        return start()
    except Exception as error:
        _cannot_start(f"{engine} cannot start here: {type(error).__name__}: {error}")


def _cannot_start(why: str) -> NoReturn:
    if os.environ.get("ENGINES_MUST_START"):
        pytest.fail(why)
    pytest.skip(why)
