"""Importing costs little, whether a model has many small trees or a few large ones.

In at most the time that ten objects of Python per node would take, compiling included, on top of what the
library needs to hand its model over; and at its peak at most three times the memory of the arrays that are
kept.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zoo
from engines import value_engine
from model_files import repeated_json, repeated_lightgbm, repeated_ubjson

from linear_treeshap.importers import import_model

#: How deep the trees are → how many of them: some 15,000 nodes each.
SHAPES = {1: 5000, 6: 200, 12: 15}
shapes = pytest.mark.parametrize("depth", SHAPES)


def training_data(depth: int) -> tuple[zoo.Rows, zoo.Rows]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300 if depth == 1 else 8000, 10))
    return X, X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + rng.normal(size=len(X))


@cache
def xgboost_model(depth: int) -> Any:
    xgboost = pytest.importorskip("xgboost")
    parameters = {"max_depth": depth, "eta": 0.01, "nthread": 1, "min_child_weight": 0}
    return xgboost.train(parameters, xgboost.DMatrix(*training_data(depth)), SHAPES[depth])


@cache
def lightgbm_model(depth: int) -> Any:
    lightgbm = pytest.importorskip("lightgbm")
    X, y = training_data(depth)
    parameters = {"num_leaves": min(2**depth, 1000), "num_threads": 1, "min_data_in_leaf": 1, "verbose": -1}
    return lightgbm.train(parameters, lightgbm.Dataset(X, y), SHAPES[depth])


@cache
def catboost_model(depth: int) -> Any:
    catboost = pytest.importorskip("catboost")
    model = catboost.CatBoostRegressor(
        iterations=SHAPES[depth], depth=depth, thread_count=1, verbose=False, allow_writing_files=False
    )
    return model.fit(*training_data(1))


@cache
def sklearn_model(name: str, depth: int) -> Any:
    ensemble = pytest.importorskip("sklearn.ensemble")
    n_trees = {"max_iter" if name.startswith("Hist") else "n_estimators": 2000 if depth == 1 else 10}
    return getattr(ensemble, name)(max_depth=depth, random_state=0, **n_trees).fit(*training_data(depth))


def hand_over_sklearn(model: Any) -> None:
    """scikit-learn makes each array of each tree when it is asked for it."""
    if hasattr(model, "estimators_"):
        for estimator in np.ravel(model.estimators_):
            for name in ("children_left", "children_right", "feature", "threshold", "value", "n_node_samples",
                         "weighted_n_node_samples", "missing_go_to_left"):  # fmt: skip
                getattr(estimator.tree_, name)


def make_an_object_per_node(n_nodes: int) -> list[dict[str, float]]:
    return [{"left": node, "right": node + 1, "value": 0.5 * node} for node in range(n_nodes)]


def seconds(run: Callable[[], object]) -> float:
    """Processor time, the best of three, without whatever other tests left behind for Python to collect."""
    best = float("inf")
    gc.disable()
    try:
        for _ in range(3):
            start = time.process_time()
            run()
            best = min(best, time.process_time() - start)
    finally:
        gc.enable()
    return best


def nothing() -> None:
    """What a file needs in order to hand its model over."""


def assert_quick(run: Callable[[], object], n_nodes: int, hand_over: Callable[[], object] = nothing) -> None:
    """In as little time as this machine, busy as it is, needs for ten objects of Python per node.

    That is a second and a half per million nodes where a model is read in a tenth to a half of one. Work in
    Python for each node or each tree would take from four seconds to fifty. Measured again before it is
    believed, because neighbours come and go; and because handing over may take many times as long, it is
    known to a quarter only.
    """
    for _ in range(3):
        own = seconds(run) - 1.25 * seconds(hand_over)
        objects = own / seconds(lambda: make_an_object_per_node(n_nodes))
        if objects <= 10:
            return
    pytest.fail(f"as long as {objects:.1f} objects of Python per node ({own:.3f} s, {n_nodes} nodes)")


def assert_read_quickly(model: Any, hand_over: Callable[[], object] = nothing) -> None:
    assert_quick(lambda: import_model(model), import_model(model).n_nodes, hand_over)


@shapes
def test_a_booster_of_xgboost_is_read_quickly(depth: int) -> None:
    model = xgboost_model(depth)
    assert_read_quickly(model, lambda: model.save_raw("ubj"))


@shapes
def test_a_booster_of_lightgbm_is_read_quickly(depth: int) -> None:
    model = lightgbm_model(depth)
    assert_read_quickly(model, model.model_to_string)


@shapes
def test_a_file_of_catboost_is_read_quickly(depth: int, tmp_path: Path) -> None:
    path = tmp_path / "model.cbm"
    catboost_model(depth).save_model(str(path))
    assert_read_quickly(path)


SKLEARN = ["ExtraTreesRegressor", "GradientBoostingRegressor", "HistGradientBoostingRegressor"]


@pytest.mark.parametrize("depth", [1, 12])
@pytest.mark.parametrize("name", SKLEARN)
def test_a_model_of_sklearn_is_read_quickly(name: str, depth: int) -> None:
    model = sklearn_model(name, depth)
    assert_read_quickly(model, lambda: hand_over_sklearn(model))


@pytest.mark.parametrize("depth", [1, 12])
@pytest.mark.parametrize("name", SKLEARN)
def test_a_model_of_sklearn_is_read_in_little_memory(name: str, depth: int) -> None:
    model = sklearn_model(name, depth)
    assert zoo.memory_to_read(lambda: import_model(model)) <= 3


def test_bagged_trees_are_not_kept_beside_their_sum() -> None:
    """At most three times the memory of the result, although each tree is read on its own first."""
    X = np.random.default_rng(0).normal(size=(8000, 10))
    bagging = pytest.importorskip("sklearn.ensemble").BaggingRegressor(random_state=0).fit(X, X[:, 0])
    assert zoo.memory_to_read(lambda: import_model(bagging)) <= 3


# The core's own memory is seen by the operating system only, and its peak in a process of its own. The
# file is mapped, not held, so it is not counted.
_PEAK = r"""
import json, os, re, sys
import numpy as np
from linear_treeshap.importers import import_model

def peak():
    return int(re.search(r"VmHWM:\s*(\d+) kB", open("/proc/self/status").read())[1]) * 1024

small, large = sys.argv[1:]
import_model(small)
before = peak()
ensemble = import_model(large)
arrays = sum(array.nbytes for array in vars(ensemble).values() if isinstance(array, np.ndarray))
print(json.dumps([ensemble.n_nodes, (peak() - before - os.path.getsize(large)) / arrays]))
"""


@pytest.fixture(scope="module")
def large_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], tuple[Path, Path]]:
    """A file of half a million nodes, one real tree over and over again, and one of that tree alone."""

    @cache
    def write(form: str, depth: int) -> tuple[Path, Path]:
        folder = tmp_path_factory.mktemp("models")
        small, large = folder / f"small.{form}", folder / f"large.{form}"
        model = lightgbm_model(depth) if form == "txt" else xgboost_model(depth)
        repeat = {"ubj": repeated_ubjson, "json": repeated_json, "txt": repeated_lightgbm}[form]
        small.write_bytes(repeat(model, 1))
        large.write_bytes(repeat(model, 500_000 // import_model(small).n_nodes))
        return small, large

    return write


@shapes
@pytest.mark.parametrize("form", ["ubj", "json", "txt"])
def test_a_file_is_read_quickly(form: str, depth: int, large_file: Any) -> None:
    assert_read_quickly(large_file(form, depth)[1])


@shapes
def test_what_was_read_is_compiled_quickly(depth: int, large_file: Any) -> None:
    ensemble = import_model(large_file("ubj", depth)[1])
    assert_quick(lambda: value_engine(ensemble), ensemble.n_nodes)


@pytest.mark.skipif(sys.platform != "linux", reason="peaks of memory are read from /proc")
@shapes
@pytest.mark.parametrize("form", ["ubj", "json", "txt"])
def test_a_file_is_read_in_little_memory(form: str, depth: int, large_file: Any) -> None:
    command = [sys.executable, "-c", _PEAK, *map(str, large_file(form, depth))]
    n_nodes, ratio = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert n_nodes > 400_000
    assert 1 <= ratio <= 3
