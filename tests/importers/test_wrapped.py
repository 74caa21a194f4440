"""Models made of models: sums, stacks and transformed targets are what they say, or are refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zoo

from linear_treeshap import TreeExplainer
from linear_treeshap.errors import InputError, ModelError, UnsupportedModelError
from linear_treeshap.importers import import_model, raw_prediction
from linear_treeshap.importers.row_formats import _uncast

compose = pytest.importorskip("sklearn.compose")
ensemble = pytest.importorskip("sklearn.ensemble")
linear_model = pytest.importorskip("sklearn.linear_model")
pipeline = pytest.importorskip("sklearn.pipeline")
preprocessing = pytest.importorskip("sklearn.preprocessing")
tree = pytest.importorskip("sklearn.tree")

Float64 = npt.NDArray[np.float64]

RNG = np.random.default_rng(0)
ROWS: Float64 = np.round(RNG.normal(size=(120, 3)), 1)
TARGET: Float64 = ROWS[:, 0] + ROWS[:, 1] * ROWS[:, 2]


def _tree(**options: Any) -> Any:
    return tree.DecisionTreeRegressor(max_depth=3, random_state=0, **options)


def _boosted(**options: Any) -> Any:
    return ensemble.GradientBoostingClassifier(n_estimators=3, random_state=0, **options)


def _forest() -> Any:
    return ensemble.RandomForestClassifier(n_estimators=3, max_depth=3, random_state=0)


# -- what they are ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("sklearn_voting_regressor", "predict"),
        ("sklearn_voting_classifier", "predict_proba"),
        ("sklearn_stacking_regressor", "predict"),
        ("sklearn_stacking_binary", "decision_function"),
        ("sklearn_stacking_forests", "decision_function"),
        ("sklearn_stacking_multiclass", "decision_function"),
        ("sklearn_scaled_target", "predict"),
        ("sklearn_scaled_targets", "predict"),
    ],
)
def test_values_add_up_to_what_the_whole_model_says(name: str, method: str) -> None:
    """The zoo compares with the predictions of parts; this one with that of the model itself."""
    model = zoo.load(name)
    explainer = TreeExplainer(model.model)
    sums = explainer.shap_values(model.rows).sum(axis=1) + explainer.expected_value
    expected = getattr(model.model, method)(model.rows)
    np.testing.assert_allclose(sums, expected, rtol=0, atol=1e-12 * (1 + np.abs(expected).max()))


def test_a_list_is_a_mean_and_pairs_are_a_sum() -> None:
    """Weights are taken as they are, and need not add up to one."""
    models = [_tree(max_features=n).fit(ROWS, TARGET) for n in (1, 2, 3)]
    predictions = np.stack([model.predict(ROWS) for model in models])
    np.testing.assert_allclose(import_model(models).predict(ROWS)[:, 0], predictions.mean(axis=0))
    pairs = list(zip((2, -1.0, np.float32(0.5)), models, strict=True))
    found = import_model(pairs).predict(ROWS)[:, 0]
    np.testing.assert_allclose(found, 2 * predictions[0] - predictions[1] + 0.5 * predictions[2])


def test_values_of_a_sum_are_the_sum_of_values() -> None:
    """Model by model, with libraries that cast rows to float32 and others that do not."""
    pairs = zoo.load("several_libraries").model
    rows = zoo.load("several_libraries").rows
    together = TreeExplainer(pairs).shap_values(rows)
    apart = sum(weight * TreeExplainer(model).shap_values(rows) for weight, model in pairs)
    np.testing.assert_allclose(together, apart, rtol=0, atol=1e-13)


def test_a_list_of_models_is_saved_and_loaded(tmp_path: Path) -> None:
    """With the format of rows that none of its parts has by itself."""
    model = zoo.load("several_libraries")
    explainer = TreeExplainer(model.model)
    explainer.save(tmp_path / "model.lts")
    loaded = TreeExplainer.load(tmp_path / "model.lts")
    np.testing.assert_array_equal(loaded.shap_values(model.rows), explainer.shap_values(model.rows))
    assert loaded.ensemble.row_format == explainer.ensemble.row_format


def test_sparse_rows_that_mean_two_things_are_refused() -> None:
    """What is absent is missing to XGBoost and zero to LightGBM."""
    sparse = pytest.importorskip("scipy.sparse")
    explainer = TreeExplainer(zoo.load("several_libraries").model)
    with pytest.raises(InputError, match="missing to some of the models inside and zero to others"):
        explainer.shap_values(sparse.csr_matrix(np.eye(5)))


def test_a_threshold_for_numbers_that_are_not_cast_sends_all_of_them_the_same_way() -> None:
    """Around every threshold, to the last bit of float64, and where float32 ends."""
    top = float(np.finfo(np.float32).max)
    plain = [*RNG.normal(size=500), *(RNG.normal(size=500) * 10.0 ** RNG.integers(-46, 39, size=500))]
    odd = [0.0, -0.0, 1e-46, -1e-46, 1e300, -1e300, top, -top, top * (1 + 2**-25), np.inf, -np.inf]
    thresholds = np.array([*plain, *np.array(plain, dtype=np.float32), *odd])
    uncast = _uncast(thresholds)
    with np.errstate(over="ignore"):
        casts = np.stack([thresholds.astype(np.float32), uncast.astype(np.float32)]).astype(np.float64)
        near = np.concatenate(
            [casts, thresholds[None], uncast[None], -casts, [np.full(len(thresholds), np.inf)]]
        )
        near = np.concatenate([near, np.nextafter(near, np.inf), np.nextafter(near, -np.inf)])
        goes_left = near.astype(np.float32).astype(np.float64) <= thresholds
    np.testing.assert_array_equal(near <= uncast, goes_left)


# -- transformed targets ----------------------------------------------------------------------------------


def _log_target() -> Any:
    model = compose.TransformedTargetRegressor(_tree(), func=np.log1p, inverse_func=np.expm1)
    return model.fit(ROWS, np.exp(TARGET))


def test_a_bent_target_is_explained_in_its_units_and_with_data_in_those_of_predict() -> None:
    """As the logarithm of a mean is in Poisson regression."""
    model = _log_target()
    explainer = TreeExplainer(model)
    sums = explainer.shap_values(ROWS).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(np.expm1(sums), model.predict(ROWS))
    explainer = TreeExplainer(model, ROWS[:20], model_output="predict")
    sums = explainer.shap_values(ROWS).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(sums, model.predict(ROWS), rtol=1e-9)
    copy = pickle.loads(pickle.dumps(explainer))
    np.testing.assert_array_equal(copy.shap_values(ROWS), explainer.shap_values(ROWS))


def test_a_bent_target_without_data_says_what_to_pass() -> None:
    """Predictions in the units of the target are functions of a sum of trees."""
    with pytest.raises(InputError, match="pass data="):
        TreeExplainer(_log_target(), model_output="predict")


def test_a_function_of_the_model_s_own_is_not_saved(tmp_path: Path) -> None:
    """A file holds no code."""
    with pytest.raises(InputError, match="which a file cannot hold"):
        TreeExplainer(_log_target(), ROWS[:5], model_output="predict").save(tmp_path / "model.lts")
    TreeExplainer(_log_target()).save(tmp_path / "model.lts")


@pytest.mark.parametrize("outer", [False, True])
def test_a_pipeline_inside_a_transformed_target_reads_raw_rows(outer: bool) -> None:
    """And so do pipelines around it, and both at once."""
    inside = pipeline.make_pipeline(preprocessing.StandardScaler(), _tree())
    model = compose.TransformedTargetRegressor(inside, transformer=preprocessing.StandardScaler())
    if outer:
        model = pipeline.make_pipeline(preprocessing.RobustScaler(), model)
    model.fit(ROWS, 1e6 + TARGET)
    explainer = TreeExplainer(model)
    sums = explainer.shap_values(ROWS).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(sums, model.predict(ROWS), rtol=1e-14)
    np.testing.assert_allclose(raw_prediction(model, ROWS)[:, 0], model.predict(ROWS), rtol=1e-14)


# -- what they are not ------------------------------------------------------------------------------------


def _voting(*models: Any, **options: Any) -> Any:
    kind = ensemble.VotingClassifier if options else ensemble.VotingRegressor
    named = [(str(number), model) for number, model in enumerate(models)]
    return kind(named, **options).fit(ROWS, TARGET > 0 if options else np.exp(TARGET))


def _stack(final: Any = None, **options: Any) -> Any:
    model = ensemble.StackingRegressor([("a", _tree())], final_estimator=final, cv=2, **options)
    return model.fit(ROWS, np.exp(TARGET))


def _named(order: list[str]) -> Any:
    pandas = pytest.importorskip("pandas")
    return _tree().fit(pandas.DataFrame(ROWS, columns=list("abc"))[order], TARGET)


def _scaled(model: Any) -> Any:
    return pipeline.make_pipeline(preprocessing.StandardScaler(), model).fit(ROWS, TARGET)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "hard votes": (lambda: _voting(_forest(), voting="hard"), "train it with voting='soft'"),
    "a linear part": (
        lambda: _voting(_tree(), linear_model.LinearRegression()),
        "A part of this VotingRegressor cannot be read.*LinearRegression",
    ),
    "a part with a link": (
        lambda: _voting(ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=2)),
        "is a mean of predictions, and those of the HistGradientBoostingRegressor inside are not",
    ),
    "a pipeline in a vote": (lambda: _voting(_scaled(_tree())), "Put the transformers before it"),
    "a pipeline in a list": (lambda: [_scaled(_tree())], "Explain the models inside one by one"),
    "columns as well": (lambda: _stack(passthrough=True), "passthrough=True hands the columns themselves"),
    "a final tree": (lambda: _stack(_tree()), "its final model, DecisionTreeRegressor, is not linear"),
    "a final logarithm": (lambda: _stack(linear_model.PoissonRegressor()), "PoissonRegressor, is not linear"),
    "a stack of probabilities": (
        lambda: ensemble.StackingClassifier([("a", _boosted())], cv=2).fit(ROWS, TARGET > 0),
        "Train it with stack_method='decision_function'",
    ),
    "a link under a transform": (
        lambda: compose.TransformedTargetRegressor(
            ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=2),
            transformer=preprocessing.StandardScaler(with_mean=False),
        ).fit(ROWS, np.exp(TARGET)),
        "which is then transformed again",
    ),
    "several bent targets": (
        lambda: compose.TransformedTargetRegressor(_tree(), func=np.log, inverse_func=np.exp).fit(
            ROWS, np.exp(ROWS[:, :2])
        ),
        "2 targets in a way that is not affine",
    ),
    "other columns": (
        lambda: [_tree().fit(ROWS, TARGET), _tree().fit(ROWS[:, :2], TARGET)],
        "they have 2 and 3 columns",
    ),
    "another order": (lambda: [_named(list("abc")), _named(list("bca"))], "come in another order"),
    "other outputs": (
        lambda: [_tree().fit(ROWS, TARGET), _tree().fit(ROWS, ROWS)],
        "have 1 and 3 outputs",
    ),
    "other missing values": (
        lambda: [
            pytest.importorskip("xgboost").XGBRegressor(n_estimators=2, missing=mark).fit(ROWS, TARGET)
            for mark in (np.nan, -1.0)
        ],
        "the number that means missing",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_sum_is_refused_with_the_reason(case: str) -> None:
    """And with what can be done instead."""
    make, message = REFUSED[case]
    with pytest.raises(UnsupportedModelError, match=message):
        import_model(make())


@pytest.mark.parametrize("case", [[], [(1.0, None), _tree()], [(np.nan, _tree())]])
def test_a_list_of_something_else_is_refused(case: list[Any]) -> None:
    """An empty one, one that mixes both kinds, one with weights that are no numbers."""
    with pytest.raises(ModelError, match=r"expected fitted models|must hold fitted models"):
        import_model(case)


@pytest.mark.parametrize(
    "model",
    [
        ensemble.VotingRegressor([("a", _tree())]),
        ensemble.StackingRegressor([("a", _tree())]),
        compose.TransformedTargetRegressor(_tree()),
    ],
    ids=lambda model: type(model).__name__,
)
def test_an_unfitted_one_says_so(model: Any) -> None:
    """As for a single tree."""
    with pytest.raises(ModelError, match="is not fitted yet"):
        import_model(model)
