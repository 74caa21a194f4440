"""The life of an explainer: in threads, pickled, copied, forked, interrupted, saved, loaded elsewhere."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import pickle
import signal
import subprocess
import sys
import textwrap
import time
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zoo

from linear_treeshap import AdditivityError, FileFormatError, TreeExplainer
from linear_treeshap.model.saved_model import SavedModel


@pytest.fixture
def model() -> zoo.ZooModel:
    """A classifier of four classes that was trained on a data frame."""
    return zoo.load("sklearn_random_forest_multiclass")


def test_eight_threads_share_one_explainer(model: zoo.ZooModel) -> None:
    """Each asks for other rows, many times; all get what one thread gets."""
    explainer = TreeExplainer(model.model, n_jobs=2)
    X = model.X
    parts = [X.iloc[start : start + 37] for start in range(0, 296, 37)]
    expected = [explainer.shap_values(part) for part in parts]

    def work(part: int) -> bool:
        return all(np.array_equal(explainer.shap_values(parts[part]), expected[part]) for _ in range(10))

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(8)))


def test_checks_in_threads_neither_warn_nor_change_the_filters() -> None:
    """scikit-learn warns about rows without names; silencing that is no business of a thread.

    Its forests change the filters themselves, so boosting is asked.
    """
    model = zoo.load("sklearn_gradient_boosting_binary")
    explainer = TreeExplainer(model.model, n_jobs=1)
    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(explainer.shap_values, [model.rows[:20]] * 80))
    assert list(warnings.filters) == before


@pytest.mark.parametrize(
    "kind", ["path", "background", "probability", "classes", "groups", "loaded", "unpickled"]
)
def test_an_explainer_that_nobody_holds_is_gone_at_once(kind: str, tmp_path: Path) -> None:
    """It may be large, and the garbage collector counts objects: it would come late to a few large ones."""
    binary, several = (
        zoo.load("sklearn_gradient_boosting_binary"),
        zoo.load("sklearn_random_forest_multiclass"),
    )
    joint = zoo.load("xgboost_multiclass")
    makers: dict[str, Any] = {
        "path": lambda: TreeExplainer(several.model),
        "background": lambda: TreeExplainer(several.model, several.X.iloc[:9]),
        "probability": lambda: TreeExplainer(binary.model, binary.rows[:9], "probability"),
        "classes": lambda: TreeExplainer(joint.model, joint.rows[:9], "probability"),
        "groups": lambda: TreeExplainer(binary.model, binary.rows[:9], groups=[0] * binary.rows.shape[1]),
        "loaded": lambda: saved_and_loaded(TreeExplainer(binary.model, binary.rows[:9]), tmp_path),
        "unpickled": lambda: pickle.loads(pickle.dumps(TreeExplainer(several.model, several.X.iloc[:9]))),
    }
    rows = several.X.iloc[:5] if kind in ("path", "background", "unpickled") else binary.rows[:5]
    explainer = makers[kind]()
    explainer.shap_values(rows)
    held = weakref.ref(explainer)
    gc.disable()
    try:
        del explainer
        assert held() is None
    finally:
        gc.enable()


def saved_and_loaded(explainer: TreeExplainer, folder: Path) -> TreeExplainer:
    explainer.save(folder / "explainer.lts")
    return TreeExplainer.load(folder / "explainer.lts")


def test_a_background_that_another_thread_has_just_checked_is_not_checked_again() -> None:
    """It is checked once, by whoever is first, and then forgotten: between any two looks at it."""
    model = zoo.load("sklearn_gradient_boosting_binary")
    explainer = TreeExplainer(model.model, model.rows[:9])
    expected = explainer.shap_values(model.rows[:5])

    class Raced(type(explainer._checking)):  # type: ignore[misc]
        n_looks = 0

        @property
        def _background(self) -> Any:
            self.n_looks += 1
            return background if self.n_looks == 1 else None

        @_background.setter
        def _background(self, given: Any) -> None:
            pass

    fresh = TreeExplainer(model.model, model.rows[:9])
    background = fresh._checking._background
    assert background is not None
    checking: Any = fresh._checking
    checking.__class__ = Raced
    np.testing.assert_array_equal(fresh.shap_values(model.rows[:5]), expected)
    assert checking.n_looks == 1


@pytest.mark.parametrize("again", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
def test_copies_give_the_same_bits(model: zoo.ZooModel, again: Any) -> None:
    explainer = TreeExplainer(model.model, feature_names=list("abcde"), n_jobs=1)
    twin = again(explainer)
    np.testing.assert_array_equal(twin.shap_values(model.X), explainer.shap_values(model.X))
    np.testing.assert_array_equal(twin.expected_value, explainer.expected_value)
    assert (twin.feature_names, twin.n_jobs, repr(twin)) == (tuple("abcde"), 1, repr(explainer))


def test_a_pickle_holds_the_trees_and_not_the_model(model: zoo.ZooModel) -> None:
    """It is read in processes that have no such library; its check asks the trees."""
    explainer = TreeExplainer(model.model)
    assert b"sklearn" not in pickle.dumps(explainer)
    twin = pickle.loads(pickle.dumps(explainer))
    assert isinstance(twin.model, SavedModel)
    with pytest.raises(AdditivityError):
        twin.shap_values(model.X, check_additivity=0.0)  # the last digit differs somewhere


def _explain_in_child(explainer: TreeExplainer, X: Any, results: Any) -> None:
    results.put(explainer.shap_values(X, check_additivity=False))


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")  # the very point
def test_an_explainer_survives_forking(model: zoo.ZooModel) -> None:
    """Also after it has run threads of its own."""
    explainer = TreeExplainer(model.model, n_jobs=2)
    expected = explainer.shap_values(model.X)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_explain_in_child, args=(explainer, model.X, results))
    child.start()
    np.testing.assert_array_equal(results.get(timeout=30), expected)
    child.join(timeout=30)
    assert child.exitcode == 0


INTERRUPTED = """
    import sys, time
    import numpy as np
    from linear_treeshap import TreeExplainer
    explainer = TreeExplainer.load(sys.argv[1], n_jobs=2)
    rows = np.random.default_rng(0).normal(size=(200_000, explainer.ensemble.n_features))
    few = explainer.shap_values(rows[:100])
    print("ready", flush=True)
    try:
        while True:
            explainer.shap_values(rows, check_additivity=False)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    assert np.array_equal(explainer.shap_values(rows[:100]), few)
    print("usable", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent otherwise there")
def test_an_interrupt_ends_a_long_call_within_a_second(tmp_path: Path) -> None:
    """And leaves the explainer usable."""
    model = zoo.load("sklearn_random_forest_deep")
    path = tmp_path / "model.lts"
    TreeExplainer(model.model).save(path)
    program = [sys.executable, "-c", textwrap.dedent(INTERRUPTED), str(path)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.5)
            sent = time.perf_counter()
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "interrupted\n"
            assert time.perf_counter() - sent < 1.0
            assert process.stdout.readline() == "usable\n"
        finally:
            process.kill()


ELSEWHERE = """
    import sys
    forbidden = {"sklearn", "pandas", "xgboost", "lightgbm", "catboost", "scipy"}
    class Absent:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in forbidden:
                raise ModuleNotFoundError(name)
    sys.meta_path.insert(0, Absent())
    import numpy as np
    from linear_treeshap import TreeExplainer
    explainer = TreeExplainer.load(sys.argv[1])
    np.save(sys.argv[3], explainer(np.load(sys.argv[2])).values)
    assert not forbidden & set(sys.modules)
"""


@pytest.mark.parametrize(
    "name",
    [
        "sklearn_random_forest_regressor",
        "xgboost_multiclass",
        "lightgbm_binary",
        "lightgbm_categorical",
        "catboost_multiclass",
    ],
)
def test_a_saved_explainer_needs_no_other_library(name: str, tmp_path: Path) -> None:
    """Neither the model's nor pandas; and gives the same bits."""
    model = zoo.load(name)
    explainer = TreeExplainer(model.model)
    files = [tmp_path / "model.lts", tmp_path / "rows.npy", tmp_path / "values.npy"]
    explainer.save(files[0])
    np.save(files[1], model.rows)
    subprocess.run([sys.executable, "-c", textwrap.dedent(ELSEWHERE), *map(str, files)], check=True)
    np.testing.assert_array_equal(np.load(files[2]), explainer.shap_values(model.rows))


def test_a_saved_explainer_keeps_names(tmp_path: Path) -> None:
    """Those of the model, or else those that were given to the explainer."""
    named, nameless = (
        zoo.load(f"sklearn_random_forest_{kind}").model for kind in ("multiclass", "regressor")
    )
    TreeExplainer(named).save(tmp_path / "named")
    loaded = TreeExplainer.load(tmp_path / "named", n_jobs=1)
    assert loaded.feature_names == tuple(f"feature {i}" for i in range(5))
    assert loaded.ensemble.output_names == ("a", "b", "c", "d")
    TreeExplainer(nameless, feature_names=list("vwxyz")).save(tmp_path / "nameless")
    assert TreeExplainer.load(tmp_path / "nameless").feature_names == tuple("vwxyz")


@pytest.mark.parametrize("groups", [None, {"first two": [0, 1]}])
def test_names_given_to_an_explainer_are_labels_after_saving_too(tmp_path: Path, groups: Any) -> None:
    """A frame need not have them for its columns, before or after."""
    pandas = pytest.importorskip("pandas")
    forest = zoo.load("sklearn_random_forest_regressor")
    frame = pandas.DataFrame(forest.rows, columns=list("abcde"))
    explainer = TreeExplainer(forest.model, feature_names=list("vwxyz"), groups=groups)
    explainer.save(tmp_path / "saved")
    loaded = TreeExplainer.load(tmp_path / "saved")
    assert loaded.ensemble.feature_names is None
    assert loaded.feature_names == explainer.feature_names
    assert loaded.players.members == explainer.players.members
    for X in (forest.rows, frame):
        np.testing.assert_array_equal(loaded(X).values, explainer(X).values)
        assert loaded(X).feature_names == explainer(X).feature_names


def test_names_given_instead_of_the_models_own_are_kept(tmp_path: Path) -> None:
    model = zoo.load("sklearn_random_forest_multiclass").model
    TreeExplainer(model, feature_names=list("vwxyz")).save(tmp_path / "saved")
    loaded = TreeExplainer.load(tmp_path / "saved")
    assert loaded.feature_names == tuple("vwxyz")
    assert loaded.ensemble.feature_names == tuple(f"feature {i}" for i in range(5))


@pytest.mark.parametrize("damage", ["truncated", "changed", "empty", "missing"])
def test_a_damaged_file_is_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "model.lts"
    TreeExplainer(zoo.load("sklearn_random_forest_regressor").model).save(path)
    content = path.read_bytes()
    if damage == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "changed":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 0xFF]))
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        path.unlink()
    with pytest.raises((FileFormatError, FileNotFoundError)):
        TreeExplainer.load(path)
