"""TreeExplainer with background data: beside shap, by the definition, and what users may give."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zoo
from shap_refuses import UNREADABLE
from strategies import random_ensemble, random_rows

from linear_treeshap import InputError, TreeExplainer, oracle
from linear_treeshap.engines.background import BackgroundEngine
from linear_treeshap.engines.background_rows import Background, merge_alike
from linear_treeshap.importers import raw_prediction
from linear_treeshap.model.ensemble import TreeEnsemble, only_output
from linear_treeshap.results.additivity import scale_of

shap = pytest.importorskip("shap")

Float64 = npt.NDArray[np.float64]

#: shap works in float32 here: leaf values and weights have an error of 6e-8 of the largest of them.
FLOAT32 = 1e-6

#: Models that shap refuses with background data, or cannot read.
REFUSED = {
    **UNREADABLE,
    "catboost_depthwise": "trees that are not symmetric",
    "catboost_lossguide": "trees that are not symmetric",
    "catboost_multi_output": "explains the first output only",
    "catboost_multiclass": "its own code ends the process",
    "catboost_one_hot": "categories",
    "catboost_one_hot_lossguide": "categories",
    "catboost_ranker": "unknown class",
    "catboost_statistics": "categories",
    "catboost_statistics_lossguide": "categories",
    "catboost_statistics_multiclass": "categories",
    "lightgbm_categorical_frame": "categories",
    "lightgbm_single_leaves": "models without splits",
    "sklearn_random_forest_multioutput_classifier": "targets of fewer classes are padded with empty outputs",
    "xgboost_boosted_forest": "several trees per round",
    "xgboost_categorical": "categories",
    "xgboost_categorical_frame": "categories",
    "xgboost_forest_classifier": "several trees per round",
    "xgboost_forest_regressor": "several trees per round",
}

#: Models that shap reads otherwise than they are: its values and expected value miss the model's prediction.
WRONG = {
    "catboost_nan_above_all": "missing values are above all others",
    "catboost_scaled": "a scale",
    "lightgbm_categorical": "categories are compared as numbers",
    "lightgbm_random_forest": "the sum of the trees, not their mean",
    "lightgbm_zero_as_missing": "zeros are missing",
    "sklearn_hist_multiclass": "missing values",
    "sklearn_hist_number_categories": "categories are compared as numbers",
    "sklearn_hist_poisson": "missing values",
    "sklearn_hist_regressor": "missing values",
    "sklearn_isolation_forest_missing": "missing values",
    "xgboost_dart": "weights of trees",
    "xgboost_own_missing_value": "a number that stands for missing values",
}

NAMES = [name for name in zoo.names() if not name.startswith("treelite_")]


def _rows_and_background(model: zoo.ZooModel) -> tuple[Any, Any]:
    return model.to_input(model.rows[:30]), model.to_input(model.rows[30:90])


@pytest.mark.parametrize("name", [name for name in NAMES if name not in REFUSED and name not in WRONG])
@pytest.mark.filterwarnings("ignore:LightGBM binary classifier:UserWarning")
def test_values_and_expected_value_equal_shap_s(name: str) -> None:
    """Feature by feature and output by output, in the same shape; expected is the model's own mean."""
    model = zoo.load(name)
    X, background = _rows_and_background(model)
    ours, theirs = TreeExplainer(model.model, background), shap.TreeExplainer(model.model, background)
    assert ours.feature_perturbation == theirs.feature_perturbation == "interventional"
    their_values = theirs.shap_values(X, check_additivity=False)
    tolerance = FLOAT32 * scale_of(ours.ensemble)
    np.testing.assert_allclose(ours.shap_values(X), their_values, rtol=0, atol=tolerance)
    # shap forgets the bias of CatBoost's regressors here, and older releases XGBoost's base score per class.
    mean = raw_prediction(model.model, background).mean(axis=0)
    assert np.shape(ours.expected_value) == np.shape(theirs.expected_value)
    np.testing.assert_allclose(np.ravel(ours.expected_value), mean, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", [name for name in NAMES if name in REFUSED])
def test_models_that_shap_refuses_are_explained(name: str) -> None:
    """And their values add up to the model's own prediction: the check is on."""
    model = zoo.load(name)
    X, background = _rows_and_background(model)
    explainer = TreeExplainer(model.model, background)
    assert np.isfinite(explainer.shap_values(X)).all()
    mean = raw_prediction(model.model, background).mean(axis=0)
    np.testing.assert_allclose(np.ravel(explainer.expected_value), mean, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in NAMES if name in WRONG])
def test_models_that_shap_gets_wrong_add_up_here(name: str) -> None:
    """shap's sum of values and expected value, or the latter, is not the model's; ours are."""
    model = zoo.load(name)
    X, background = _rows_and_background(model)
    ours, theirs = TreeExplainer(model.model, background), shap.TreeExplainer(model.model, background)
    raw, mean = raw_prediction(model.model, X), raw_prediction(model.model, background).mean(axis=0)
    their_values = np.asarray(theirs.shap_values(X, check_additivity=False)).reshape(len(raw), 5, -1)
    their_sums = their_values.sum(axis=1) + np.ravel(theirs.expected_value)
    scale = scale_of(ours.ensemble)
    miss = max(np.abs(their_sums - raw).max(), np.abs(np.ravel(theirs.expected_value) - mean).max())
    assert miss > 100 * FLOAT32 * scale
    sums = ours.shap_values(X).reshape(len(raw), 5, -1).sum(axis=1) + np.ravel(ours.expected_value)
    np.testing.assert_allclose(sums, raw, rtol=0, atol=FLOAT32 * scale)
    np.testing.assert_allclose(np.ravel(ours.expected_value), mean, rtol=0, atol=FLOAT32 * scale)


# -- other outputs -------------------------------------------------------------------------------------

#: shap knows the losses of these; of CatBoost and scikit-learn it knows no objective.
WITH_LOSS = ["lightgbm_binary", "xgboost_binary"]


def assert_adds_up(explainer: TreeExplainer, X: Any, y: Any, output: Float64) -> None:
    explanation = explainer(X, y)
    sums = explanation.values.sum(axis=1) + explanation.base_values
    np.testing.assert_allclose(sums, output, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [*WITH_LOSS, "sklearn_gradient_boosting_binary"])
@pytest.mark.filterwarnings("ignore:LightGBM binary classifier:UserWarning")
def test_probabilities_equal_shap_s(name: str) -> None:
    model = zoo.load(name)
    X, background = _rows_and_background(model)
    ours, theirs = (
        kind(model.model, background, "probability") for kind in (TreeExplainer, shap.TreeExplainer)
    )
    np.testing.assert_allclose(ours.shap_values(X), theirs.shap_values(X), rtol=0, atol=FLOAT32)
    np.testing.assert_allclose(ours.expected_value, theirs.expected_value, rtol=FLOAT32)


@pytest.mark.parametrize(
    "name",
    ["catboost_binary", "lightgbm_binary", "sklearn_gradient_boosting_binary", "xgboost_binary"],
)
def test_probabilities_add_up_to_those_of_the_model(name: str) -> None:
    model = zoo.load(name)
    X, background = _rows_and_background(model)
    explainer = TreeExplainer(model.model, background, "probability")
    assert_adds_up(explainer, X, None, model.model.predict_proba(X)[:, 1])


@pytest.mark.parametrize("name", WITH_LOSS)
@pytest.mark.filterwarnings("ignore:LightGBM binary classifier:UserWarning")
def test_losses_equal_shap_s(name: str) -> None:
    model = zoo.load(name)
    X, background = _rows_and_background(model)
    y = np.arange(30) % 2
    ours, theirs = (kind(model.model, background, "log_loss") for kind in (TreeExplainer, shap.TreeExplainer))
    tolerance = FLOAT32 * scale_of(ours.ensemble)
    np.testing.assert_allclose(ours.shap_values(X, y), theirs.shap_values(X, y), rtol=0, atol=tolerance)
    for truth in (0, 1):
        np.testing.assert_allclose(ours.expected_value(truth), theirs.expected_value(truth), atol=tolerance)
    p = model.model.predict_proba(X)[:, 1].astype(np.float64)
    assert_adds_up(ours, X, y, -np.log(np.where(y == 1, p, 1 - p)))


@pytest.mark.parametrize("name", ["lightgbm_regressor", "xgboost_regressor"])
def test_squared_errors_equal_shap_s(name: str) -> None:
    """shap calls the squared error of a regressor "log_loss"."""
    model = zoo.load(name)
    X, background = _rows_and_background(model)
    raw = raw_prediction(model.model, X)[:, 0]
    y = raw + np.linspace(-1, 1, 30)
    ours, theirs = (kind(model.model, background, "log_loss") for kind in (TreeExplainer, shap.TreeExplainer))
    tolerance = FLOAT32 * scale_of(ours.ensemble) ** 2
    np.testing.assert_allclose(ours.shap_values(X, y), theirs.shap_values(X, y), rtol=0, atol=tolerance)
    assert_adds_up(ours, X, y, (y - raw) ** 2)


def test_other_outputs_equal_the_definition() -> None:
    """The mean over background rows z of the values beside z, times the slope of the function from f(z)."""
    rng = np.random.default_rng(4)
    for _ in range(10):
        ensemble = random_ensemble(rng, n_features=6, n_trees=3, max_depth=6)
        rows, background = random_rows(rng, ensemble, 3), random_rows(rng, ensemble, 4)
        weights = rng.random(4)
        explainer = TreeExplainer(ensemble, background, np.tanh, data_weights=weights)
        f, f_z = ensemble.predict(rows)[:, 0], ensemble.predict(background)[:, 0]
        expected = np.zeros((3, 6))
        for row in range(3):
            for z in range(4):
                beside = oracle.shapley_values(
                    ensemble, rows[row], background=background[z : z + 1], by="leaves"
                )
                same = f[row] == f_z[z]
                slope = 1.0 if same else (np.tanh(f[row]) - np.tanh(f_z[z])) / (f[row] - f_z[z])
                assert not same or not np.any(beside)
                expected[row] += weights[z] / weights.sum() * slope * oracle.as_float(beside)[:, 0]
        np.testing.assert_allclose(explainer.shap_values(rows), expected, rtol=0, atol=1e-9)
        mean = np.average(np.tanh(f_z), weights=weights)
        np.testing.assert_allclose(explainer.expected_value, mean, rtol=1e-12)


@pytest.mark.parametrize("vector_leaves", [False, True])
def test_functions_of_several_outputs_are_those_of_each_by_itself(vector_leaves: bool) -> None:
    """The definition is tested for one output above."""
    rng = np.random.default_rng(5)
    for _ in range(5):
        ensemble = random_ensemble(
            rng, n_features=6, n_trees=6, max_depth=6, n_outputs=3, vector_leaves=vector_leaves
        )
        rows, background = random_rows(rng, ensemble, 20), random_rows(rng, ensemble, 15)
        together = TreeExplainer(ensemble, background, np.tanh)
        for output in range(3):
            alone = TreeExplainer(only_output(ensemble, output), background, np.tanh)
            values = together.shap_values(rows)[:, :, output]
            np.testing.assert_array_equal(values, alone.shap_values(rows))
            assert together.expected_value[output] == pytest.approx(alone.expected_value, rel=1e-14)


@pytest.mark.parametrize("n_outputs", [1, 4])
def test_each_output_is_explained_once(n_outputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own leaves only, whatever the number of outputs."""
    ensemble = random_ensemble(np.random.default_rng(3), n_trees=8, n_outputs=n_outputs, vector_leaves=True)
    rows = random_rows(np.random.default_rng(4), ensemble, 30)
    explainer = TreeExplainer(ensemble, rows, np.tanh)
    n_leaves: list[int] = []
    exact = BackgroundEngine.weighted_values

    def counting(self: BackgroundEngine, *arguments: Any, **options: Any) -> None:
        n_leaves.append(self.program.ensemble.n_leaves * self.program.n_outputs)
        exact(self, *arguments, **options)

    monkeypatch.setattr(BackgroundEngine, "weighted_values", counting)
    explainer.shap_values(rows)
    assert sum(n_leaves) == ensemble.n_leaves * n_outputs


def test_background_rows_that_no_split_tells_apart_are_merged() -> None:
    """Thresholds, missing values and categories; the weights of merged rows add up."""
    rng = np.random.default_rng(6)
    dtypes: list[Any] = ["float32", "float64"]
    for dtype in dtypes:
        ensemble = random_ensemble(rng, n_trees=3, dtype=dtype)
        with np.errstate(over="ignore"):
            few = random_rows(rng, ensemble, 40).astype(dtype)
        rows = few[rng.integers(40, size=1000)]
        used = np.unique(ensemble.feature[ensemble.feature >= 0])
        others = np.setdiff1d(np.arange(5), used)
        rows[:, others] = rng.normal(size=(1000, len(others)))
        weights = rng.random(1000)
        background = Background(np.ascontiguousarray(rows), weights)
        merged = merge_alike(background, ensemble)
        assert len(merged.rows) <= 40
        assert merged.weights is not None
        assert merged.weights.sum() == pytest.approx(weights.sum())
        np.testing.assert_allclose(
            merged.mean(ensemble.predict(merged.rows)), background.mean(ensemble.predict(rows)), rtol=1e-12
        )
        apart = {tuple(path) for path in visited(ensemble, rows)}
        assert len(merged.rows) == len(apart)


def visited(ensemble: TreeEnsemble, rows: Any) -> Any:
    """(n_rows, n_inner_nodes) whether each row would go left, wherever it stands."""
    inner = np.flatnonzero(~ensemble.is_leaf)
    return np.stack(
        [ensemble.goes_left(node, rows[:, ensemble.feature[node]]) for node in inner.tolist()], axis=1
    )


@pytest.mark.parametrize("name", ["sklearn_hist_poisson"])
def test_predict_is_explained_where_it_is_a_function_of_the_raw_output(name: str) -> None:
    model = zoo.load(name)
    X, background = _rows_and_background(model)
    explainer = TreeExplainer(model.model, background, "predict")
    sums = explainer.shap_values(X).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(sums, model.model.predict(X), rtol=1e-9)


@pytest.mark.parametrize(
    "name", [name for name in zoo.names() if name.endswith("_multiclass") and "forest" not in name]
)
def test_the_logistic_function_of_softmax_models_is_refused_with_the_reason(name: str) -> None:
    """It is no probability of theirs; the advice is never a function of one raw output."""
    model = zoo.load(name)
    background = model.to_input(model.rows[:9])
    with pytest.raises(InputError, match="Softmax takes all classes at once") as refusal:
        TreeExplainer(model.model, background, _logistic)
    assert "model_output='probability', or model_output='raw'" in str(refusal.value)
    assert "expit" not in str(refusal.value)


def _logistic(raw: Float64) -> Float64:
    return np.asarray(1 / (1 + np.exp(-raw)))


def test_trees_alone_have_no_probability_but_any_function() -> None:
    """Nobody knows whether there is a softmax behind them."""
    ensemble = random_ensemble(np.random.default_rng(0), n_outputs=3)
    rows = random_rows(np.random.default_rng(1), ensemble, 9)
    with pytest.raises(InputError, match="not known to be a function of a single raw output"):
        TreeExplainer(ensemble, rows, "probability")
    explainer = TreeExplainer(ensemble, rows, _logistic)
    assert_adds_up(explainer, rows, None, _logistic(ensemble.predict(rows)))


def test_other_functions_of_softmax_models_explain_each_raw_output_by_itself() -> None:
    model = zoo.load("xgboost_multiclass")
    X, background = _rows_and_background(model)
    explainer = TreeExplainer(model.model, background, np.exp)
    sums = explainer.shap_values(X).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(sums, np.exp(raw_prediction(model.model, X)), rtol=1e-5)


@pytest.mark.parametrize("kind", ["lightgbm", "catboost"])
def test_one_versus_all_is_a_logistic_function_of_each_raw_output(kind: str) -> None:
    library = pytest.importorskip(kind)
    X = np.random.default_rng(0).normal(size=(200, 4))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
    if kind == "lightgbm":
        model = library.LGBMClassifier(n_estimators=5, objective="multiclassova", verbose=-1).fit(X, y)
    else:
        model = library.CatBoostClassifier(
            iterations=5, loss_function="MultiClassOneVsAll", verbose=0, allow_writing_files=False
        ).fit(X, y)
    for asked in ("probability", _logistic):
        explainer = TreeExplainer(model, X[:50], asked)
        assert_adds_up(explainer, X[50:80], None, model.predict_proba(X[50:80]))


def test_a_loss_needs_the_truth() -> None:
    model = zoo.load("xgboost_binary")
    explainer = TreeExplainer(model.model, model.rows[:9], "log_loss")
    with pytest.raises(InputError, match="needs the true outcome of each row: pass y="):
        explainer.shap_values(model.rows[:5])
    with pytest.raises(InputError, match="one finite number for each of the 5 rows, got 4"):
        explainer(model.rows[:5], np.ones(4))
    with pytest.raises(InputError, match="pass y="):
        next(explainer.iter_values(model.rows[:5]))
    with pytest.raises(InputError, match="Interaction values are defined for model_output='raw'"):
        explainer.shap_interaction_values(model.rows[:5], np.ones(5))


# -- covers by data ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["xgboost.XGBRegressor", "sklearn.ensemble.GradientBoostingRegressor"])
def test_path_dependent_values_with_data_have_its_covers(name: str) -> None:
    """As in shap, for trees whose every split is reached by data: elsewhere shap counts a millionth of a row
    on either side, which is twice what came in."""
    package, _, kind = name.rpartition(".")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)).astype(np.float32)
    model = getattr(pytest.importorskip(package), kind)(n_estimators=20, max_depth=2)
    model.fit(X, X[:, 0] * X[:, 1] + X[:, 2])
    background = np.concatenate([X, np.repeat(X[X[:, 0] > 0], 3, axis=0)])  # not as the training rows are
    ours, theirs = (
        one(model, shap.maskers.Independent(background, 1000), feature_perturbation="tree_path_dependent")
        for one in (TreeExplainer, shap.TreeExplainer)
    )
    assert (ours.ensemble.cover[~ours.ensemble.is_leaf] > 0).all()
    scale = scale_of(ours.ensemble)
    values = ours.shap_values(X)
    np.testing.assert_allclose(
        values, theirs.shap_values(X, check_additivity=False), rtol=0, atol=1e-6 * scale
    )
    np.testing.assert_allclose(ours.expected_value, theirs.expected_value, rtol=0, atol=1e-6 * scale)
    assert np.abs(values - TreeExplainer(model).shap_values(X)).max() > 1e-3 * scale


def test_covers_are_weights_of_data() -> None:
    rng = np.random.default_rng(2)
    ensemble = random_ensemble(rng, n_trees=3)
    background, counts = random_rows(rng, ensemble, 6), np.array([2, 1, 3, 0, 1, 1])
    options: dict[str, Any] = {"feature_perturbation": "tree_path_dependent"}
    weighted = TreeExplainer(ensemble, background, data_weights=counts, **options).ensemble.cover
    repeated = TreeExplainer(ensemble, np.repeat(background, counts, axis=0), **options).ensemble.cover
    np.testing.assert_array_equal(weighted, repeated)
    np.testing.assert_array_equal(weighted[ensemble.tree_offsets[:-1]], 8)


# -- what users may give -------------------------------------------------------------------------------


def test_a_background_may_be_anything_that_can_be_explained() -> None:
    pd = pytest.importorskip("pandas")
    model = zoo.load("xgboost_regressor")
    X, background = model.rows[:5], model.rows[5:25]
    expected = TreeExplainer(model.model, background).shap_values(X)
    masker = shap.maskers.Independent(background)
    for given in (background.tolist(), masker, np.asfortranarray(background)):
        np.testing.assert_array_equal(TreeExplainer(model.model, given).shap_values(X), expected)
    named = zoo.load("sklearn_random_forest_multiclass")
    frame = named.X
    assert isinstance(frame, pd.DataFrame)
    turned = TreeExplainer(named.model, frame.iloc[:20, ::-1]).shap_values(frame[20:25])
    np.testing.assert_array_equal(turned, TreeExplainer(named.model, frame[:20]).shap_values(frame[20:25]))


def test_one_row_is_a_baseline() -> None:
    model = zoo.load("xgboost_regressor")
    one = TreeExplainer(model.model, model.rows[3])
    np.testing.assert_array_equal(
        one.shap_values(model.rows[:5]),
        TreeExplainer(model.model, model.rows[3:4]).shap_values(model.rows[:5]),
    )
    assert not one.shap_values(model.rows[3]).any()


def test_a_large_background_is_not_sampled() -> None:
    rng = np.random.default_rng(3)
    ensemble = random_ensemble(rng, n_trees=2)
    background = np.repeat(random_rows(rng, ensemble, 50), 4000, axis=0)
    rows = random_rows(rng, ensemble, 5)
    large, small = TreeExplainer(ensemble, background), TreeExplainer(ensemble, background[::4000])
    np.testing.assert_allclose(large.shap_values(rows), small.shap_values(rows), rtol=0, atol=1e-13)


def test_a_background_that_changes_later_changes_nothing() -> None:
    model = zoo.load("xgboost_regressor")
    background = model.rows[:20].astype(np.float32)
    explainer = TreeExplainer(model.model, background)
    before = explainer.shap_values(model.rows[:5])
    background[...] = 0
    np.testing.assert_array_equal(explainer.shap_values(model.rows[:5]), before)


def test_pickles_and_copies_keep_the_background(tmp_path: Path) -> None:
    model = zoo.load("xgboost_binary")
    for model_output in ("raw", "probability"):
        explainer = TreeExplainer(model.model, model.rows[:20], model_output)
        expected = explainer.shap_values(model.rows[20:25])
        for other in (pickle.loads(pickle.dumps(explainer)), copy.deepcopy(explainer)):
            np.testing.assert_array_equal(other.shap_values(model.rows[20:25]), expected)
            assert other.expected_value == explainer.expected_value
    TreeExplainer(model.model, model.rows[:20]).save(tmp_path / "model.lts")
    loaded = TreeExplainer.load(tmp_path / "model.lts", model.rows[:20])
    raw = TreeExplainer(model.model, model.rows[:20]).shap_values(model.rows[20:25])
    np.testing.assert_array_equal(loaded.shap_values(model.rows[20:25]), raw)


def test_tree_limit_limits_the_expected_value_too() -> None:
    """The check is on: values of the first trees add up to what these give beyond their own mean."""
    model = zoo.load("xgboost_regressor")
    explainer = TreeExplainer(model.model, model.rows[:20])
    few = explainer.shap_values(model.rows[20:40], tree_limit=2)
    assert np.abs(few - explainer.shap_values(model.rows[20:40])).max() > 0


def test_interactions_add_up_to_values_where_shap_has_zeros() -> None:
    model = zoo.load("sklearn_random_forest_multiclass")
    X, background = model.X[:10], model.X[10:40]
    explainer = TreeExplainer(model.model, background)
    matrices = explainer.shap_interaction_values(X)
    np.testing.assert_allclose(matrices.sum(axis=2), explainer.shap_values(X), rtol=0, atol=1e-13)
    np.testing.assert_array_equal(matrices, matrices.swapaxes(1, 2))
    assert np.abs(matrices[:, 0, 1]).max() > 1e-3
    np.testing.assert_allclose(explainer.interactions(X).to_dense(), matrices, rtol=0, atol=1e-13)


def test_groups_are_players_with_a_background_too() -> None:
    model = zoo.load("xgboost_regressor")
    explainer = TreeExplainer(model.model, model.rows[:20], groups=["a", "a", "b", "b", None])
    values = explainer.shap_values(model.rows[20:30])
    expected = [
        oracle.as_float(
            oracle.shapley_values(
                explainer.ensemble, row, background=model.rows[:20], players=[0, 0, 1, 1, 2], by="leaves"
            )
        )[:, 0]
        for row in model.rows[20:30]
    ]
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12 * scale_of(explainer.ensemble))


def test_pipelines_take_raw_background_rows() -> None:
    pipeline, preprocessing = (
        pytest.importorskip("sklearn.pipeline"),
        pytest.importorskip("sklearn.preprocessing"),
    )
    forest = pytest.importorskip("sklearn.ensemble").RandomForestRegressor(5, random_state=0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    model = pipeline.make_pipeline(preprocessing.StandardScaler(), forest).fit(X, X[:, 0] * X[:, 1])
    values = TreeExplainer(model, X[:20]).shap_values(X[20:30])
    transformed = model[0].transform(X)
    direct = TreeExplainer(forest, transformed[:20]).shap_values(transformed[20:30])
    np.testing.assert_array_equal(values, direct)


@pytest.mark.parametrize(
    ("extreme", "plain"),
    [
        ([1e308, 1e308, 1e308], [1, 1, 1]),
        ([5e-324, 0, 0], [1, 0, 0]),
        ([5e-324, 1e-323, 1.5e-323], [1, 2, 3]),
        ([1e308, 5e307, 0], [2, 1, 0]),
    ],
)
@pytest.mark.parametrize(
    ("model_output", "perturbation"),
    [("raw", "interventional"), (np.tanh, "interventional"), ("raw", "tree_path_dependent")],
)
def test_only_ratios_of_data_weights_count(
    extreme: list[float], plain: list[float], model_output: Any, perturbation: Any
) -> None:
    """However large or small they are: neither their sum nor its inverse overflows. The ratios are exact."""
    rng = np.random.default_rng(8)
    ensemble = random_ensemble(rng, n_trees=3)
    background, rows = random_rows(rng, ensemble, 3), random_rows(rng, ensemble, 5)
    found, expected = (
        TreeExplainer(ensemble, background, model_output, perturbation, data_weights=weights)
        for weights in (extreme, plain)
    )
    np.testing.assert_allclose(found.expected_value, expected.expected_value, rtol=1e-14)
    np.testing.assert_allclose(found.shap_values(rows), expected.shap_values(rows), rtol=0, atol=1e-14)


@pytest.mark.filterwarnings("error")
def test_pairs_in_float32_are_those_in_float64_rounded_once() -> None:
    """On the diagonal too, which is a sum over a row; beyond the range of float32 they are infinite."""
    rng = np.random.default_rng(9)
    for scale in (1.0, 1e300):
        ensemble = random_ensemble(rng, n_features=7, n_trees=4, max_depth=6)
        ensemble = replace(ensemble, value=ensemble.value * scale)
        explainer = TreeExplainer(ensemble, random_rows(rng, ensemble, 20))
        rows = random_rows(rng, ensemble, 100)
        found = explainer.shap_interaction_values(rows, dtype="float32", check_additivity=False)
        with np.errstate(over="ignore"):
            expected = explainer.shap_interaction_values(rows, check_additivity=False).astype(np.float32)
        np.testing.assert_array_equal(found, expected)
    assert np.isinf(found).any()


BAD = [
    (lambda m: TreeExplainer(m, np.zeros((0, 5))), "has no rows"),
    (lambda m: TreeExplainer(m, np.zeros((4, 3))), "background data does not fit the model: X has 3 columns"),
    (lambda m: TreeExplainer(m, np.zeros((4, 5)), data_weights=[1, 2]), "each of the 4 background rows"),
    (lambda m: TreeExplainer(m, np.zeros((2, 5)), data_weights=[1, -2]), "not negative, and not all zero"),
    (
        lambda m: TreeExplainer(m, np.zeros((2, 5)), data_weights=["a", "b"]),
        "a number for each background row",
    ),
    (lambda m: TreeExplainer(m, data_weights=[1, 2]), "pass these as data="),
    (lambda m: TreeExplainer(m, np.zeros((2, 5)), np.tanh, index="banzhaf"), "Shapley values only"),
    (lambda m: TreeExplainer(m, np.zeros((2, 5)), lambda raw: raw[0]), "finite numbers of the same shape"),
]


@pytest.mark.parametrize(("make", "message"), BAD)
def test_bad_backgrounds_are_refused_with_a_reason(make: Any, message: str) -> None:
    model = zoo.load("xgboost_regressor")
    with pytest.raises(InputError, match=message):
        make(model.model).shap_values(model.rows[:3])
