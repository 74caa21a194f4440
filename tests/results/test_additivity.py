"""The check: what is compared with what, that errors of every kind are seen, and what it may cost."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zoo
from strategies import random_ensemble, random_rows, symmetric_tree

import linear_treeshap.results.reading as reading_module
from linear_treeshap import (
    AdditivityError,
    InputError,
    TreeExplainer,
    global_importance,
    global_interactions,
    kernels,
)
from linear_treeshap.engines.program import Program
from linear_treeshap.engines.sets import SetEngine
from linear_treeshap.engines.values import ValueEngine
from linear_treeshap.importers import raw_prediction
from linear_treeshap.results.additivity import Adding
from linear_treeshap.results.reading import ALWAYS_ASKED_WORK, SAMPLED_ROWS

Float64 = npt.NDArray[np.float64]

N_ROWS = 3000


@pytest.fixture
def model() -> Any:
    xgboost = pytest.importorskip("xgboost")
    X = np.random.default_rng(0).normal(size=(500, 4)).astype(np.float32)
    return xgboost.XGBRegressor(n_estimators=8, max_depth=3, n_jobs=1).fit(X, X[:, 0] * X[:, 1] + X[:, 2])


@pytest.fixture
def rows() -> Any:
    return np.random.default_rng(1).normal(size=(N_ROWS, 4)).astype(np.float32)


class _Library:
    """Stands where the model's library is asked: counts the rows, and adds what is wrong to its answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, wrong: Any = lambda X: 0.0) -> None:
        self.asked = 0
        self.wrong = wrong
        monkeypatch.setattr(reading_module, "raw_prediction", self)

    def __call__(self, model: Any, X: Any) -> Float64:
        prediction = raw_prediction(model, X)
        self.asked += len(prediction)
        return np.asarray(prediction + self.wrong(X))


#: Everything that explains rows, with the check on.
CALLS: dict[str, Any] = {
    "call": lambda e, X: e(X),
    "shap_values": lambda e, X: e.shap_values(X),
    "float32": lambda e, X: e.shap_values(X, dtype="float32"),
    "tree_limit": lambda e, X: e.shap_values(X, tree_limit=3),
    "shap_interaction_values": lambda e, X: e.shap_interaction_values(X),
    "call for interactions": lambda e, X: e(X, interactions=True),
    "interactions": lambda e, X: e.interactions(X),
    "interactions that add up to nothing": lambda e, X: e.interactions(X, index="BII"),
    "iter_values": lambda e, X: list(e.iter_values(X)),
    "global_importance": lambda e, X: global_importance(e, X),
    "global_interactions": lambda e, X: global_interactions(e, X),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_bounded_sample_of_rows_is_compared_with_the_library(
    call: str, model: Any, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = _Library(monkeypatch)
    CALLS[call](TreeExplainer(model), rows)
    assert 100 < library.asked <= SAMPLED_ROWS


@pytest.mark.parametrize("call", CALLS)
def test_rows_that_the_library_reads_otherwise_are_noticed(
    call: str, model: Any, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is explained: values, interactions of every kind, sums over rows."""
    _Library(monkeypatch, wrong=lambda X: 1e-3)
    with pytest.raises(AdditivityError, match=r"the trees give .*, the model predicts"):
        CALLS[call](TreeExplainer(model), rows)


@pytest.mark.parametrize(
    "call",
    [
        "call",
        "shap_values",
        "tree_limit",
        "shap_interaction_values",
        "interactions",
        "iter_values",
        "global_importance",
    ],
)
def test_what_does_not_add_up_is_noticed(
    call: str, model: Any, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single number of a row that is in no sample is off by 1e-6."""

    def off(exact: Any) -> Any:
        def write(self: Any, X: Any, out: Any, **options: Any) -> None:
            exact(self, X, out, **options)
            if len(X) == N_ROWS:
                out[1].flat[0] += 1e-6

        return write

    for engine, name in ((ValueEngine, "values"), (SetEngine, "matrices"), (SetEngine, "values")):
        monkeypatch.setattr(engine, name, off(getattr(engine, name)))
    with pytest.raises(AdditivityError, match=r"in 1 of 3000 rows.*row 1:.*a bug worth reporting"):
        CALLS[call](TreeExplainer(model), rows)


def test_the_total_of_interactions_is_compared(
    model: Any, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = Program.predict
    monkeypatch.setattr(
        Program, "predict", lambda self, X, **options: exact(self, X, **options) + (len(X) == N_ROWS) * 1e-6
    )
    with pytest.raises(AdditivityError, match="interactions of 3000 rows do not add up"):
        global_interactions(TreeExplainer(model), rows)


def test_the_check_can_be_switched_off_everywhere(
    model: Any, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = _Library(monkeypatch, wrong=lambda X: 1.0)
    off: dict[str, Any] = {"check_additivity": False}
    e, X = TreeExplainer(model), rows[:400]
    e(X, **off), e(X, interactions=True, **off), e.shap_values(X, **off)
    e.shap_interaction_values(X, **off), e.interactions(X, **off), list(e.iter_values(X, **off))
    global_importance(e, X, **off), global_interactions(e, X, **off)
    assert library.asked == 0


def test_background_rows_are_compared_once(model: Any, rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    library = _Library(monkeypatch)
    perturbations: list[Any] = ["interventional", "tree_path_dependent"]
    for perturbation in perturbations:
        explainer = TreeExplainer(model, rows, feature_perturbation=perturbation)
        assert library.asked == 0
        explainer.shap_values(rows[:10])
        assert 100 < library.asked <= SAMPLED_ROWS + 10
        library.asked = 0
        explainer.shap_values(rows[:10])
        assert library.asked == 0


def test_background_rows_that_the_library_reads_otherwise_are_noticed(
    model: Any, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _Library(monkeypatch, wrong=lambda X: 1e-3 * (len(X) > 10))
    explainer = TreeExplainer(model, rows[:50])
    explainer.shap_values(rows[:10], check_additivity=False)
    for _ in range(2):
        with pytest.raises(AdditivityError, match="of 50 rows compared"):
            explainer.shap_values(rows[:10])


def test_small_calls_ask_the_library_now_and_then(
    model: Any, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the first, and when three times as many rows have come since as before."""
    library = _Library(monkeypatch)
    explainer = TreeExplainer(model)
    asked_in = []
    for call in range(1, 65):
        before = library.asked
        explainer.shap_values(rows[call : call + 1])
        if library.asked > before:
            asked_in.append(call)
    assert asked_in == [1, 5, 21]
    assert library.asked == len(asked_in)
    # Whatever is asked for, the rows are read in the same way.
    explainer.shap_interaction_values(rows[:1])
    assert library.asked == len(asked_in)


def test_every_kind_of_rows_is_compared_when_it_first_comes(
    model: Any, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pd = pytest.importorskip("pandas")
    missing = rows.copy()
    missing[:, 2] = np.nan
    library = _Library(monkeypatch)
    explainer = TreeExplainer(model)
    for number, table in enumerate((rows, rows.astype(np.float64), missing, pd.DataFrame(rows)), start=1):
        explainer.shap_values(table[:50])
        explainer.shap_values(table[:50])
        assert library.asked == number * 50


def test_a_complaint_is_repeated_until_there_is_no_reason_for_it(
    model: Any, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A larger tolerance that lets rows pass says nothing of the default."""
    library = _Library(monkeypatch, wrong=lambda X: 1e-3)
    explainer = TreeExplainer(model)
    explainer.shap_values(rows[:1], check_additivity=0.1)
    for _ in range(3):
        with pytest.raises(AdditivityError, match="the model predicts"):
            explainer.shap_values(rows[:1])
    library.wrong = lambda X: 0.0
    explainer.shap_values(rows[:1])


def test_large_calls_always_ask_the_library(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_module, "ALWAYS_ASKED_WORK", 300_000)
    assert ALWAYS_ASKED_WORK > 300_000  # which would take a while here
    library = _Library(monkeypatch)
    explainer = TreeExplainer(model)
    large = np.zeros((300_000 // explainer.ensemble.n_leaves + 1, 4), dtype=np.float32)
    for _ in range(4):
        library.asked = 0
        explainer.shap_values(large)
        assert 100 < library.asked <= SAMPLED_ROWS


def test_labels_are_always_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each frame may number its categories in its own way."""
    pd, xgboost = pytest.importorskip("pandas"), pytest.importorskip("xgboost")
    frame = pd.DataFrame({"c": pd.Categorical(list("abca") * 20), "x": np.arange(80.0)})
    model = xgboost.XGBRegressor(n_estimators=3, enable_categorical=True, tree_method="hist", n_jobs=1)
    explainer = TreeExplainer(model.fit(frame, np.arange(80) % 4))
    library = _Library(monkeypatch)
    for _ in range(3):
        explainer.shap_values(frame[:10])
    assert library.asked == 30


def test_first_last_and_odd_rows_are_in_the_sample(
    model: Any, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three rows of 3,000 with something missing; the others are spread evenly."""
    odd = [101, 1503, 2999]
    rows[odd, 1] = np.nan
    seen: list[Any] = []
    library = _Library(monkeypatch, wrong=lambda X: seen.append(X) or 0.0)  # type: ignore[func-returns-value]
    TreeExplainer(model).shap_values(rows)
    asked = np.concatenate(seen)
    assert library.asked == len(asked)
    assert np.isnan(asked).any(axis=1).sum() == len(odd)
    assert (asked[0] == rows[0]).all()
    number = [int(np.flatnonzero((rows == row).all(axis=1))[0]) for row in asked if not np.isnan(row).any()]
    assert max(np.diff(number)) <= 2 * N_ROWS // 192


def test_every_kind_of_table_can_be_sampled(model: Any, rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A DMatrix is predicted as a whole: it cannot be cut without losing what it says of its columns."""
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    sparse, xgboost = pytest.importorskip("scipy.sparse"), pytest.importorskip("xgboost")
    names = list("abcd")
    kinds = {
        "numpy": rows,
        "fortran": np.asfortranarray(rows),
        "objects": rows.astype(object),
        "pandas": pd.DataFrame(rows, columns=names, index=np.arange(N_ROWS) * 7),
        "polars": pl.DataFrame(rows, schema=names),
        "arrow": pa.table({name: rows[:, i] for i, name in enumerate(names)}),
        "csr": sparse.csr_matrix(rows),
        "coo": sparse.coo_matrix(rows),
    }
    expected = TreeExplainer(model).shap_values(rows)
    for kind, table in kinds.items():
        library = _Library(monkeypatch)
        np.testing.assert_array_equal(TreeExplainer(model).shap_values(table), expected, err_msg=kind)
        assert 100 < library.asked <= SAMPLED_ROWS, kind
    library = _Library(monkeypatch)
    TreeExplainer(model).shap_values(xgboost.DMatrix(rows))
    assert library.asked == N_ROWS


def test_raw_rows_of_pipelines_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, text = (
        pytest.importorskip("sklearn.pipeline"),
        pytest.importorskip("sklearn.feature_extraction.text"),
    )
    trees = pytest.importorskip("sklearn.tree")
    texts = [f"red {i % 3} blue {i % 7}" for i in range(600)]
    model = pipeline.make_pipeline(
        text.CountVectorizer(token_pattern=r"\w+"), trees.DecisionTreeRegressor(max_depth=4, random_state=0)
    ).fit(texts, np.arange(600) % 7)
    library = _Library(monkeypatch)
    TreeExplainer(model).shap_values(texts)
    assert 100 < library.asked <= SAMPLED_ROWS


def test_without_a_library_sums_are_still_compared(
    model: Any, rows: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of all rows, by the trees: a model trained on since is not seen any more."""
    explainer = TreeExplainer(model)
    explainer.save(tmp_path / "model.lts")
    library = _Library(monkeypatch, wrong=lambda X: 1.0)
    for twin in (pickle.loads(pickle.dumps(explainer)), TreeExplainer.load(tmp_path / "model.lts")):
        about = twin(rows).about
        assert about is not None
        assert about.checked_with == "trees"
        with pytest.raises(AdditivityError, match="a bug worth reporting"):
            twin.shap_values(rows, check_additivity=0.0)  # the last digit differs somewhere
    assert library.asked == 0


def test_a_tolerance_needs_something_that_adds_up(model: Any, rows: Any) -> None:
    explainer = TreeExplainer(model)
    explainer.interactions(rows[:300], index="STII", check_additivity=1e-5)
    explainer.interactions(rows[:300], order=1, index="SII", check_additivity=1e-5)
    with pytest.raises(InputError, match="has nothing to compare"):
        explainer.interactions(rows[:300], index="SII", check_additivity=1e-5)


# -- predictions of the trees ----------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", kernels())
@pytest.mark.parametrize("n_rows", [1, 7, 8, 63, 64, 65, 1025])
def test_predictions_equal_those_node_by_node(kernel: str, n_rows: int) -> None:
    """Row by row and in blocks; on thresholds, missing values and categories. Sums see any row."""
    rng = np.random.default_rng(n_rows)
    settings_of: list[dict[str, Any]] = [
        {},
        {"dtype": "float32", "n_outputs": 3},
        {"n_outputs": 3, "vector_leaves": True},
        {"max_depth": 12, "max_leaves": 900, "n_features": 9},  # too large for blocks
        {"max_depth": 0},
    ]
    ensembles = [random_ensemble(rng, **settings) for settings in settings_of]
    ensembles += [symmetric_tree(rng, 6, 4), symmetric_tree(rng, 8, 8, n_outputs=3)]  # tables of outcomes
    for ensemble in ensembles:
        with np.errstate(over="ignore"):
            rows = random_rows(rng, ensemble, n_rows).astype(ensemble.row_format.numpy_dtype)
        program = Program(ensemble, kernel=kernel)
        expected = ensemble.predict(rows)
        found = program.predict(rows, n_jobs=2)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
        for dtype in (np.float64, np.float32):
            values = np.repeat(expected[:, None], 11, axis=1).astype(dtype) / dtype(11)
            base, one = np.arange(ensemble.n_outputs) / 8.0, rng.integers(n_rows)
            values[:, 0] -= base
            assert program.adds_up(rows, values, base, 1e-6, n_jobs=2)
            values[one, rng.integers(11), rng.integers(ensemble.n_outputs)] += 1e-2
            assert not program.adds_up(rows, values, base, 1e-6, n_jobs=2)
            values[one] = np.nan
            assert not program.adds_up(rows, values, base, 1e-6, n_jobs=2)


def test_weights_of_a_block_tell_rows_apart() -> None:
    """Exchange two of 64 rows: they are of other weight in most cases, at any distance from each other."""
    ensemble = random_ensemble(np.random.default_rng(0), n_features=1, n_trees=1, max_depth=0)
    ensemble = replace(ensemble, value=np.zeros_like(ensemble.value), base_values=np.zeros(1))
    program, rows = Program(ensemble), np.zeros((64, 1), dtype=ensemble.row_format.numpy_dtype)
    for distance in range(1, 60):
        seen = 0
        for first in range(64 - distance):
            values = np.zeros((64, 1, 1))
            values[first], values[first + distance] = 1.0, -1.0
            seen += not program.adds_up(rows, values, np.zeros(1), 1e-9)
        assert seen > 0.4 * (64 - distance)


def test_exchanged_rows_are_noticed_in_sums_over_blocks() -> None:
    """No row's sum is off by more than others' predictions are: two of each block have changed places."""
    model = zoo.load("xgboost_regressor")
    explainer = TreeExplainer(model.model)
    rows = np.ascontiguousarray(model.rows[np.arange(1000) % len(model.rows)], dtype=np.float32)
    values = np.empty((1000, 5, 1))
    explainer._engine.values(rows, values)
    adding = Adding(explainer._engine)
    adding.sums(slice(0, 1000), rows, values)
    values[[0, 1]] = values[[1, 0]]
    with pytest.raises(AdditivityError, match=r"in 2 of 1000 rows\. Worst is row [01]:"):
        adding.sums(slice(0, 1000), rows, values)


def test_a_function_of_tiny_leaves_is_rounded_as_what_it_gives() -> None:
    """The logistic function of 1e-9 is a half, whose rounding is more than all leaves together."""
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_trees=3)
    tiny = replace(ensemble, value=ensemble.value * 1e-12, base_values=np.array([1e-12]))
    rows, background = random_rows(rng, tiny, 50), random_rows(rng, tiny, 30)
    TreeExplainer(tiny, background, model_output=lambda raw: 1 / (1 + np.exp(-raw))).shap_values(rows)
