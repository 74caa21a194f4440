"""TreeExplainer: rows of every kind, memory, options, the additivity check, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zoo

import linear_treeshap.players.user_rows as user_rows_module
import linear_treeshap.results.reading as reading_module
from linear_treeshap import (
    AdditivityError,
    Explanation,
    InputError,
    RowFormat,
    TreeEnsemble,
    TreeExplainer,
    UnsupportedModelError,
    explain,
)
from linear_treeshap.engines.program import Program
from linear_treeshap.importers import import_model, raw_prediction
from linear_treeshap.oracle import as_float, shapley_values
from linear_treeshap.rows.rows import read_rows

pd = pytest.importorskip("pandas")

Float64 = npt.NDArray[np.float64]
NAMES = [f"feature {i}" for i in range(5)]


@pytest.fixture
def regressor() -> zoo.ZooModel:
    return zoo.load("sklearn_random_forest_regressor")


@pytest.fixture
def named() -> zoo.ZooModel:
    """A classifier of four classes that was trained on a data frame."""
    return zoo.load("sklearn_random_forest_multiclass")


@pytest.mark.parametrize("name", zoo.names())
def test_every_model_adds_up_to_its_library_s_prediction(name: str) -> None:
    """The check is on by default and within rounding; and the definition's sum is met on hostile rows."""
    model = zoo.load(name)
    explainer = TreeExplainer(model.model)
    hostile = zoo.hostile_rows(model, explainer.ensemble, n_rows=60)
    explanation = explainer(model.to_input(hostile))
    assert explanation.shape[:2] == hostile.shape
    assert np.isfinite(explanation.values).all()


def test_values_are_those_of_the_definition(regressor: zoo.ZooModel) -> None:
    """Additivity alone hides errors: each feature is compared with exact rational arithmetic."""
    ensemble = import_model(regressor.model)
    rows = regressor.rows[:3]
    expected = [as_float(shapley_values(ensemble, row))[:, 0] for row in ensemble.cast_rows(rows)]
    values = TreeExplainer(regressor.model).shap_values(rows)
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-13)


# -- rows ---------------------------------------------------------------------------------------------


def _kinds(rows: Float64) -> dict[str, Any]:
    """The same rows in everything that people keep rows in."""
    pl, pa = (pytest.importorskip(name) for name in ("polars", "pyarrow"))
    frame = pd.DataFrame(rows, columns=NAMES)
    return {
        "array": rows,
        "Fortran array": np.asfortranarray(rows),
        "list": rows.tolist(),
        "pandas": frame,
        "pandas nullable": frame.convert_dtypes(),
        "pandas reversed": frame[NAMES[::-1]],
        "polars": pl.from_pandas(frame),
        "arrow": pa.Table.from_pandas(frame),
        "arrow batch": pa.RecordBatch.from_pandas(frame),
    }


@pytest.mark.parametrize("kind", sorted(_kinds(np.zeros((1, 5)))))
def test_rows_of_every_kind_give_the_same_values(kind: str) -> None:
    """In the order of the columns that were given, with the additivity check on."""
    model = zoo.load("sklearn_gradient_boosting_binary")
    explainer = TreeExplainer(model.model)
    assert explainer.feature_names == tuple(NAMES)
    expected = explainer.shap_values(model.rows)
    X = _kinds(model.rows)[kind]
    values = explainer.shap_values(X)
    np.testing.assert_array_equal(values[:, ::-1] if kind == "pandas reversed" else values, expected)


def test_sparse_rows_are_explained(regressor: zoo.ZooModel) -> None:
    """What is absent is zero for this model."""
    sparse = pytest.importorskip("scipy.sparse")
    rows = np.where(np.abs(regressor.rows) < 0.5, 0.0, regressor.rows)
    explainer = TreeExplainer(regressor.model)
    explanation = explainer(sparse.csr_matrix(rows))
    np.testing.assert_array_equal(explanation.values, explainer.shap_values(rows))
    np.testing.assert_array_equal(explanation[3].data, rows[3])


@pytest.mark.parametrize(("library", "container"), [("xgboost", "DMatrix"), ("catboost", "Pool")])
def test_a_container_of_the_library_is_explained(library: str, container: str) -> None:
    """In XGBoost's, absent means missing."""
    wrap = getattr(pytest.importorskip(library), container)
    model = zoo.load(f"{library}_regressor")
    explainer = TreeExplainer(model.model)
    explanation = explainer(wrap(model.rows))
    np.testing.assert_array_equal(explanation.values, explainer.shap_values(model.rows))
    np.testing.assert_array_equal(explanation[7].data, model.rows[7].astype(np.float32))


def test_a_pandas_series_is_one_row(named: zoo.ZooModel) -> None:
    """With names, in any order."""
    explainer = TreeExplainer(named.model)
    X = named.X
    expected = explainer.shap_values(X[2:3])[0]
    np.testing.assert_array_equal(explainer.shap_values(X.iloc[2]), expected)
    backwards = explainer(X[NAMES[::-1]].iloc[2])
    assert backwards.axes == ("feature", "output")
    np.testing.assert_array_equal(backwards[NAMES].values, expected)


def test_results_follow_the_order_of_the_user_s_columns(named: zoo.ZooModel) -> None:
    """So that values may be read, and plotted, next to the table they came from."""
    explainer = TreeExplainer(named.model)
    X = named.X
    shuffled = X[[NAMES[i] for i in (3, 1, 4, 0, 2)]]
    explanation = explainer(shuffled)
    assert explanation.feature_names == tuple(shuffled.columns)
    np.testing.assert_array_equal(explanation.values, explainer(X).values[:, [3, 1, 4, 0, 2]])
    np.testing.assert_array_equal(explanation.data, shuffled.to_numpy())


def test_no_rows_are_explained_with_the_check_on(regressor: zoo.ZooModel) -> None:
    """Libraries refuse to predict nothing; there is nothing to check either."""
    explanation = TreeExplainer(regressor.model)(np.empty((0, 5)))
    assert explanation.shape == (0, 5)
    assert explanation.base_values.shape == (0,)
    assert (explanation.importance()["importance"] == 0).all()


def test_slices_do_not_change_the_values(regressor: zoo.ZooModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows read up to forty at a time, also into columns of another order: no slice is of few rows."""
    named = zoo.load("sklearn_gradient_boosting_binary")
    whole = TreeExplainer(regressor.model).shap_values(regressor.rows)
    whole_named = TreeExplainer(named.model).shap_values(named.X[NAMES[::-1]])
    monkeypatch.setattr(user_rows_module, "_SLICE_BYTES", 1)
    monkeypatch.setattr(user_rows_module, "_MIN_SLICE_ROWS", 40)
    for model, X, expected in (
        (regressor.model, regressor.rows, whole),
        (named.model, named.X[NAMES[::-1]], whole_named),
    ):
        np.testing.assert_array_equal(TreeExplainer(model).shap_values(X), expected)


def test_wrong_columns_are_named(named: zoo.ZooModel) -> None:
    explainer = TreeExplainer(named.model)
    with pytest.raises(InputError, match="Missing: 'feature 1'"):
        explainer(named.X.rename(columns={"feature 1": "other"}))


def test_rows_of_different_lengths_are_no_table(regressor: zoo.ZooModel) -> None:
    with pytest.raises(InputError, match="its rows differ in length"):
        TreeExplainer(regressor.model)([[1.0, 2.0], [1.0]])


def test_a_column_that_looks_like_a_row_is_told_how_to_be_one(regressor: zoo.ZooModel) -> None:
    with pytest.raises(InputError, match=r"for one column use X.reshape\(-1, 1\)"):
        TreeExplainer(regressor.model)(regressor.rows[:, 0])


def test_very_many_columns_are_explained() -> None:
    """90,000 of them, of which one tree looks at two."""
    wide = TreeEnsemble(
        tree_offsets=[0, 5],  # type: ignore[arg-type]
        left=[1, 3, -1, -1, -1],  # type: ignore[arg-type]
        right=[2, 4, -1, -1, -1],  # type: ignore[arg-type]
        feature=[89_999, 0, -1, -1, -1],  # type: ignore[arg-type]
        threshold=[0, 0, 0, 0, 0],  # type: ignore[arg-type]
        cover=[4, 2, 2, 1, 1],  # type: ignore[arg-type]
        value=[[0], [0], [8], [0], [4]],  # type: ignore[arg-type]
        base_values=[0],  # type: ignore[arg-type]
        row_format=RowFormat(90_000),
    )
    values = TreeExplainer(wide).shap_values(np.full((3, 90_000), 1.0))
    np.testing.assert_allclose(values[:, [0, 89_999]].sum(axis=1), 8 - 5)
    assert np.count_nonzero(values) == 6


# -- options ------------------------------------------------------------------------------------------


def test_float32_on_request_is_the_rounded_float64(regressor: zoo.ZooModel) -> None:
    """Sums are float64 either way, so rounding happens once."""
    explainer = TreeExplainer(regressor.model)
    values = explainer.shap_values(regressor.rows)
    single = explainer.shap_values(regressor.rows, dtype="float32")
    assert single.dtype == np.float32
    np.testing.assert_array_equal(single, values.astype(np.float32))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_are_written_to_out(named: zoo.ZooModel, dtype: str) -> None:
    explainer = TreeExplainer(named.model)
    out = np.full((300, 5, 4), np.nan, dtype=dtype)
    assert explainer.shap_values(named.X, out=out) is out
    np.testing.assert_array_equal(out, explainer.shap_values(named.X, dtype=dtype))


def test_out_of_one_row(regressor: zoo.ZooModel) -> None:
    explainer = TreeExplainer(regressor.model)
    out = np.empty(5)
    explainer.shap_values(regressor.rows[0], out=out)
    np.testing.assert_array_equal(out, explainer.shap_values(regressor.rows[0]))


@pytest.mark.parametrize(
    "out",
    [np.empty((300, 4)), np.empty((300, 5), dtype=np.int64), np.empty((5, 300)).T, [[0.0] * 5] * 300],
    ids=["shape", "integers", "not contiguous", "a list"],
)
def test_an_unfit_out_is_refused(regressor: zoo.ZooModel, out: Any) -> None:
    with pytest.raises(InputError, match="out must be"):
        TreeExplainer(regressor.model).shap_values(regressor.rows, out=out)


def test_out_must_not_lie_where_the_rows_are(regressor: zoo.ZooModel) -> None:
    """Rows are read while values are written, and the model would be asked about overwritten rows."""
    rows = regressor.rows.astype(np.float64)
    with pytest.raises(InputError, match="out shares memory with X"):
        TreeExplainer(regressor.model).shap_values(rows, out=rows)


def test_an_unknown_dtype_is_refused(regressor: zoo.ZooModel) -> None:
    for dtype in ("int32", "float16", "no such type"):
        with pytest.raises(InputError, match="dtype must be 'float64' or 'float32'"):
            TreeExplainer(regressor.model).shap_values(regressor.rows, dtype=dtype)


def test_progress_is_told_to_a_function(regressor: zoo.ZooModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """It hears shares that never fall, from 0 to 1."""
    monkeypatch.setattr(user_rows_module, "_SLICE_BYTES", 1)
    monkeypatch.setattr(user_rows_module, "_MIN_SLICE_ROWS", 50)
    shares: list[float] = []
    TreeExplainer(regressor.model, n_jobs=1).shap_values(regressor.rows, progress=shares.append)
    assert shares == sorted(shares)
    assert all(0.0 <= share <= 1.0 for share in shares)
    assert shares[-1] == 1.0


def test_nothing_is_printed_unless_asked(regressor: zoo.ZooModel, capfd: pytest.CaptureFixture[str]) -> None:
    TreeExplainer(regressor.model)(regressor.rows)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("tqdm_installed", [True, False])
def test_progress_true_shows_something_on_stderr(
    regressor: zoo.ZooModel,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tqdm_installed: bool,
) -> None:
    """A bar if tqdm is there, else a line of text; never on stdout."""
    if tqdm_installed:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setattr("linear_treeshap.progress.find_spec", lambda name: None)
    TreeExplainer(regressor.model).shap_values(regressor.rows, progress=True)
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "100%" in shown.err


@pytest.mark.parametrize("n_jobs", [1, 2, -1, None])
def test_the_number_of_threads_does_not_change_the_values(
    regressor: zoo.ZooModel, n_jobs: int | None
) -> None:
    one = TreeExplainer(regressor.model, n_jobs=1).shap_values(regressor.rows)
    values = TreeExplainer(regressor.model, n_jobs=n_jobs).shap_values(regressor.rows)
    np.testing.assert_array_equal(values, one)


@pytest.mark.parametrize("n_jobs", [0, True, 2.0, 10**12])
def test_an_unfit_number_of_threads_is_refused(regressor: zoo.ZooModel, n_jobs: Any) -> None:
    with pytest.raises(InputError, match="n_jobs must be"):
        TreeExplainer(regressor.model, n_jobs=n_jobs)


def test_feature_names_label_rows_without_names(regressor: zoo.ZooModel) -> None:
    explainer = TreeExplainer(regressor.model, feature_names=list("abcde"))
    assert explainer(regressor.rows).feature_names == tuple("abcde")
    frame = pd.DataFrame(regressor.rows, columns=list("vwxyz"))
    assert explainer(frame).feature_names == tuple("vwxyz")
    with pytest.raises(InputError, match="2 feature names"):
        TreeExplainer(regressor.model, feature_names=["a", "b"])


@pytest.mark.parametrize("tree_limit", [-2, 1.5, True])
def test_an_unfit_tree_limit_is_refused(regressor: zoo.ZooModel, tree_limit: Any) -> None:
    with pytest.raises(InputError, match="tree_limit must be"):
        TreeExplainer(regressor.model).shap_values(regressor.rows, tree_limit=tree_limit)


def test_a_tree_limit_explains_the_first_trees(regressor: zoo.ZooModel) -> None:
    """The parts add up to the whole, since values are linear in trees."""
    explainer = TreeExplainer(regressor.model)
    parts = [explainer.shap_values(regressor.rows, tree_limit=n) for n in range(1, 8)]
    np.testing.assert_array_equal(parts[-1], explainer.shap_values(regressor.rows))
    steps = np.diff(np.stack(parts), axis=0)
    assert (np.abs(steps).max(axis=(1, 2)) > 0).all()


# -- what can be explained ----------------------------------------------------------------------------


def test_probability_is_the_raw_output_of_forests(named: zoo.ZooModel) -> None:
    for name in ("probability", "predict_proba"):
        explainer = TreeExplainer(named.model, model_output=name)
        assert explainer.model_output == name
        prediction = explainer(named.X).values.sum(axis=1) + explainer.expected_value
        np.testing.assert_allclose(prediction, named.model.predict_proba(named.X), atol=1e-12)


@pytest.mark.parametrize("model_output", ["probability", "log_loss", "predict_proba", "predict"])
def test_bent_outputs_are_refused_with_the_reason(model_output: str) -> None:
    model = zoo.load("sklearn_gradient_boosting_binary").model
    with pytest.raises(InputError, match=r"pass data=|not known to be a function of a single raw output"):
        TreeExplainer(model, model_output=model_output)


@pytest.mark.parametrize(
    "name", [name for name in zoo.names() if not name.startswith(("several", "treelite", "gpboost"))]
)
def test_predict_is_explained_where_it_is_the_raw_output(name: str) -> None:
    """For regressors that do not bend their sum, and for nobody else; the models themselves are asked.

    Those of GPBoost predict nothing without the groups of their rows.
    """
    zoo_model = zoo.load(name)
    model, X = zoo_model.model, zoo_model.X
    raw = raw_prediction(model, X)
    if type(model).__module__ == "xgboost.core":
        prediction = model.predict(pytest.importorskip("xgboost").DMatrix(X), validate_features=False)
    else:
        prediction = np.asarray(model.predict(X))
    prediction = prediction.reshape(len(X), -1)
    is_raw = prediction.shape == raw.shape and prediction.dtype.kind == "f" and np.allclose(prediction, raw)
    if is_raw:
        assert TreeExplainer(model, model_output="predict").model_output == "predict"
    else:
        with pytest.raises(InputError, match=r"'predict' is not (the raw output|known to be a function)"):
            TreeExplainer(model, model_output="predict")


@pytest.mark.parametrize(
    ("library", "regressor_class", "bent"),
    [
        ("xgboost", "XGBRegressor", {"objective": "count:poisson"}),
        ("xgboost", "XGBRegressor", {"objective": "reg:gamma"}),
        ("lightgbm", "LGBMRegressor", {"objective": "poisson"}),
        ("lightgbm", "LGBMRegressor", {"objective": "regression", "reg_sqrt": True}),
        ("catboost", "CatBoostRegressor", {"loss_function": "Poisson"}),
    ],
)
def test_predict_of_regressors_that_bend_their_sum_is_refused(
    library: str, regressor_class: str, bent: dict[str, Any]
) -> None:
    """The same class with its usual objective is explained."""
    quiet = {"lightgbm": {"verbose": -1}, "catboost": {"verbose": 0, "allow_writing_files": False}}
    make = getattr(pytest.importorskip(library), regressor_class)
    X = np.random.default_rng(0).normal(size=(100, 3))

    def trained(options: dict[str, Any]) -> Any:
        return make(n_estimators=3, **quiet.get(library, {}), **options).fit(X, np.exp(X[:, 0]))

    assert TreeExplainer(trained({}), model_output="predict").model_output == "predict"
    with pytest.raises(InputError, match="se model_output='raw'"):
        TreeExplainer(trained(bent), model_output="predict")


def test_an_unknown_output_lists_the_choices(regressor: zoo.ZooModel) -> None:
    with pytest.raises(
        InputError, match="'raw', 'probability', 'log_loss', 'predict', or a function; got 'margin'"
    ):
        TreeExplainer(regressor.model, model_output="margin")


def test_a_class_is_no_model() -> None:
    ensemble = pytest.importorskip("sklearn.ensemble")
    with pytest.raises(UnsupportedModelError, match="class RandomForestRegressor itself"):
        TreeExplainer(ensemble.RandomForestRegressor)


def test_attributes_follow_shap(regressor: zoo.ZooModel) -> None:
    explainer = TreeExplainer(regressor.model)
    assert explainer.feature_perturbation == "tree_path_dependent"
    assert explainer.model_output == "raw"
    assert explainer.data is None
    assert isinstance(explainer.expected_value, float)


def test_a_call_changes_nothing(named: zoo.ZooModel) -> None:
    """shap's expected_value, for one, changes with the first call for some models."""
    explainer = TreeExplainer(named.model)
    before = dict(explainer.__dict__)
    explainer(named.X)
    explainer.shap_values(named.X, tree_limit=2)
    assert explainer.__dict__ == before
    explainer.expected_value[:] = 0
    assert explainer.expected_value.any()


def test_the_repr_is_one_line(named: zoo.ZooModel) -> None:
    shown = repr(TreeExplainer(named.model))
    assert shown.startswith("TreeExplainer(7 trees")
    assert len(shown) < 100


def test_explain_is_the_short_way(named: zoo.ZooModel) -> None:
    explanation = explain(named.model, named.X, n_jobs=1)
    assert isinstance(explanation, Explanation)
    np.testing.assert_array_equal(explanation.values, TreeExplainer(named.model).shap_values(named.X))


# -- the additivity check -----------------------------------------------------------------------------


class _Shifted:
    """A model that predicts otherwise than its trees."""

    def __init__(self, model: Any, row: int, by: float) -> None:
        self.model, self.row, self.by = model, row, by

    def predict(self, X: Any) -> Float64:
        prediction: Float64 = self.model.predict(X).copy()
        prediction[self.row] += self.by
        return prediction


def _explainer_of_liar(model: Any, monkeypatch: pytest.MonkeyPatch, row: int, by: float) -> TreeExplainer:
    liar = _Shifted(model, row, by)
    monkeypatch.setattr(
        reading_module, "raw_prediction", lambda model, X: np.asarray(liar.predict(X)).reshape(-1, 1)
    )
    return TreeExplainer(model)


def test_a_false_prediction_is_noticed_and_named(
    regressor: zoo.ZooModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A difference of 1e-8 in one row of 200; shap's tolerance is 1e-2."""
    explainer = _explainer_of_liar(regressor.model, monkeypatch, row=17, by=1e-8)
    with pytest.raises(
        AdditivityError, match=r"in 1 of 200 rows compared. Worst is row 17: .* differ by 1e-08"
    ):
        explainer(regressor.rows[:200])


def test_the_check_can_be_loosened_and_switched_off(
    regressor: zoo.ZooModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    explainer = _explainer_of_liar(regressor.model, monkeypatch, row=17, by=1e-8)
    explainer(regressor.rows, check_additivity=1e-7)
    explainer(regressor.rows, check_additivity=False)
    explainer(regressor.rows, check_additivity=np.bool_(False))  # type: ignore[arg-type]
    with pytest.raises(AdditivityError):
        explainer(regressor.rows, check_additivity=1e-9)


@pytest.mark.parametrize("wish", ["yes", -1.0, float("nan")])
def test_an_unfit_tolerance_is_refused(regressor: zoo.ZooModel, wish: Any) -> None:
    with pytest.raises(InputError, match="check_additivity must be"):
        TreeExplainer(regressor.model)(regressor.rows, check_additivity=wish)


def test_a_prediction_of_nan_is_noticed(regressor: zoo.ZooModel, monkeypatch: pytest.MonkeyPatch) -> None:
    explainer = _explainer_of_liar(regressor.model, monkeypatch, row=4, by=float("nan"))
    with pytest.raises(AdditivityError, match="row 4"):
        explainer(regressor.rows[:200])


def test_a_model_trained_again_is_noticed() -> None:
    """The explainer holds the trees of before."""
    tree = pytest.importorskip("sklearn.tree")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    model = tree.DecisionTreeRegressor(max_depth=3).fit(X, X[:, 0])
    explainer = TreeExplainer(model)
    model.fit(X, X[:, 1])
    with pytest.raises(AdditivityError, match="trained on after"):
        explainer(X)


def test_a_base_margin_is_noticed() -> None:
    """XGBoost adds what rows bring along; no tree explains that."""
    xgboost = pytest.importorskip("xgboost")
    model = zoo.load("xgboost_regressor")
    rows = xgboost.DMatrix(model.rows, base_margin=np.full(len(model.rows), 3.0))
    with pytest.raises(AdditivityError, match="base_margin"):
        TreeExplainer(model.model)(rows)


@pytest.mark.parametrize("name", zoo.names())
def test_compiled_trees_predict_as_node_by_node(name: str) -> None:
    """The check's own prediction, against `TreeEnsemble.predict`, where routing is hard."""
    model = zoo.load(name)
    ensemble: TreeEnsemble = import_model(model.model)
    rows = read_rows(model.to_input(zoo.hostile_rows(model, ensemble, n_rows=50)), ensemble.row_format)[0:50]
    # Both add the same leaves, in different orders.
    program, expected = Program(ensemble), ensemble.predict(rows)
    np.testing.assert_allclose(program.predict(rows), expected, rtol=1e-12, atol=1e-12)
    one_by_one = np.concatenate([program.predict(rows[i : i + 1]) for i in range(len(rows))])
    np.testing.assert_array_equal(one_by_one, program.predict(rows))


def test_arguments_of_shap_s_that_change_nothing_are_accepted() -> None:
    """In its order: X, y, tree_limit, approximate, check_additivity."""
    model = zoo.load("sklearn_random_forest_regressor")
    plain = TreeExplainer(model.model)
    explainer = TreeExplainer(model.model, link=None, linearize_link=True)
    expected = plain.shap_values(model.rows)
    np.testing.assert_array_equal(explainer.shap_values(model.rows, None, None, True, False), expected)
    np.testing.assert_array_equal(explainer(model.rows, approximate=True).values, expected)


# -- rows as people have them --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_names() -> tuple[Any, Any]:
    """A model of a frame with names, and the frame."""
    pd, ensemble = pytest.importorskip("pandas"), pytest.importorskip("sklearn.ensemble")
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 3)), columns=["age", "bmi", "bp"])
    return ensemble.RandomForestRegressor(3, random_state=0).fit(X, X["age"] * X["bmi"]), X


def test_columns_that_the_model_does_not_know_are_left_alone(with_names: tuple[Any, Any]) -> None:
    """As on the command line; one that is missing is still an error, and says so."""
    model, X = with_names
    explainer = TreeExplainer(model)
    expected = explainer.shap_values(X)
    for place in (0, 2, 3):
        wider = X.copy()
        wider.insert(place, "id", "text")
        np.testing.assert_array_equal(explainer.shap_values(wider), expected)
        explanation = explainer(wider)
        assert explanation.feature_names == ("age", "bmi", "bp")
        assert list(explanation.table.columns) == ["age", "bmi", "bp"]
        one = explainer.shap_values(X[:1])[0]
        np.testing.assert_array_equal(explainer.shap_values(wider.iloc[0]), one)
    shuffled = X[["bp", "age", "bmi"]].assign(id=1)
    assert explainer(shuffled).feature_names == ("bp", "age", "bmi")
    np.testing.assert_array_equal(explainer(shuffled)[:, "bmi"].values, expected[:, 1])
    with pytest.raises(InputError, match=r"Missing: 'bp'\. Unexpected: 'id', 'no'"):
        explainer.shap_values(X.drop(columns="bp").assign(id=1, no=2))


def test_a_dictionary_is_a_row(with_names: tuple[Any, Any]) -> None:
    """In any order, with something missing, and with what is not a feature."""
    model, X = with_names
    explainer = TreeExplainer(model)
    row = {"id": "x", **dict(reversed(X.iloc[0].to_dict().items()))}
    values = explainer(row)
    assert values.axes == ("feature",)
    by_name = dict(zip(values.feature_names, values.values, strict=True))
    np.testing.assert_array_equal([by_name[name] for name in X.columns], explainer.shap_values(X[:1])[0])
    with pytest.raises(InputError, match="a dictionary of columns"):
        explainer.shap_values({name: list(X[name]) for name in X.columns})


def test_lazy_frames_are_collected(with_names: tuple[Any, Any]) -> None:
    pl = pytest.importorskip("polars")
    model, X = with_names
    lazy = pl.DataFrame({name: X[name].to_numpy() for name in X.columns}).lazy()
    explainer = TreeExplainer(model)
    np.testing.assert_array_equal(explainer.shap_values(lazy), explainer.shap_values(X))
    assert isinstance(explainer(lazy).to_frame(), pl.DataFrame)


def test_outputs_have_the_names_that_were_given(tmp_path: Path) -> None:
    model = zoo.load("xgboost_multiclass")
    explainer = TreeExplainer(model.model, output_names=["red", "green", "blue"])
    assert explainer(model.X)[..., "green"].shape == (len(model.X), model.X.shape[1])
    explainer.save(tmp_path / "model.lts")
    assert TreeExplainer.load(tmp_path / "model.lts")(model.X).output_names == ("red", "green", "blue")
    with pytest.raises(InputError, match="2 output names were given for 3 outputs"):
        TreeExplainer(model.model, output_names=["red", "green"])


def test_saving_a_pipeline_says_that_it_wants_transformed_rows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline, ensemble = pytest.importorskip("sklearn.pipeline"), pytest.importorskip("sklearn.ensemble")
    scalers = pytest.importorskip("sklearn.preprocessing")
    X = np.random.default_rng(0).normal(size=(50, 2))
    model = pipeline.make_pipeline(scalers.StandardScaler(), ensemble.RandomForestRegressor(2)).fit(
        X, X[:, 0]
    )
    TreeExplainer(model).save(tmp_path / "model.lts")
    assert "wants transformed rows" in caplog.text
