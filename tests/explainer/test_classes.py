"""Probabilities and losses of several classes: means of softmax's Jacobian, by brute force."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zoo
from strategies import random_ensemble, random_rows

from linear_treeshap import InputError, TreeExplainer, oracle
from linear_treeshap.model.joint_links import Softmax, SoftmaxLoss
from linear_treeshap.model.links import Logistic
from linear_treeshap.model.saved_model import SavedModel

integrate = pytest.importorskip("scipy.integrate")

Float64 = npt.NDArray[np.float64]

MULTICLASS = [
    "catboost_multiclass",
    "lightgbm_multiclass",
    "sklearn_gradient_boosting_multiclass",
    "sklearn_hist_multiclass",
    "sklearn_stacking_multiclass",
    "xgboost_multiclass",
]


def _softmax(raw: Float64) -> Float64:
    shares = np.exp(raw - raw.max())
    return np.asarray(shares / shares.sum())


def _jacobian(raw: Float64) -> Float64:
    p = _softmax(raw)
    return np.asarray(np.diag(p) - np.outer(p, p))


def _integral(a: Float64, b: Float64) -> Float64:
    """The mean of the Jacobian between b and a, by adaptive quadrature."""
    found = integrate.quad_vec(
        lambda t: _jacobian(b + t * (a - b)), 0, 1, epsabs=1e-14, epsrel=0, limit=5_000
    )
    return np.asarray(found[0])


def _softmax_model(seed: int, scale: float = 1.0) -> SavedModel:
    rng = np.random.default_rng(seed)
    made = random_ensemble(rng, n_trees=6, n_features=4, n_outputs=3, max_leaves=8)
    ensemble = replace(made, value=made.value * scale, base_values=made.base_values * scale)
    return SavedModel(ensemble, "model", is_softmax=True, methods=("predict_proba",))


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_values_are_those_of_the_convention_by_brute_force(scale: float) -> None:
    """The raw values of the definition, in fractions, times integrals by another quadrature; to 1e-12.

    With large raw outputs probabilities jump on the way from one row to the other.
    """
    model = _softmax_model(0, scale)
    rng = np.random.default_rng(1)
    rows, background = (random_rows(rng, model.ensemble, n) for n in (3, 4))
    weights = np.array([1.0, 2.0, 0.5, 3.0])
    explainer = TreeExplainer(model, background, "probability", data_weights=weights)
    expected = np.zeros((3, 4, 3))
    raw_rows, raw_background = model.ensemble.predict(rows), model.ensemble.predict(background)
    for i, row in enumerate(rows):
        for z, other in enumerate(background):
            raw = oracle.as_float(oracle.shapley_values(model.ensemble, row, background=[other]))
            expected[i] += weights[z] / weights.sum() * raw @ _integral(raw_rows[i], raw_background[z]).T
    np.testing.assert_allclose(explainer.shap_values(rows), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("distance", [0.0, 1e-9, 0.3, 4.0, 60.0, 700.0])
def test_the_matrix_is_the_integral_and_takes_differences_to_differences(distance: float) -> None:
    """From no distance to where all but one probability are gone; to 1e-13."""
    rng = np.random.default_rng(0)
    a, b = distance * rng.normal(size=(3, 4)), rng.normal(size=(2, 4))
    matrix = Softmax().matrix(a, b, None)
    for i in range(len(a)):
        for j in range(len(b)):
            np.testing.assert_allclose(matrix[i, j], _integral(a[i], b[j]), rtol=0, atol=1e-13)
            np.testing.assert_allclose(
                matrix[i, j] @ (a[i] - b[j]), _softmax(a[i]) - _softmax(b[j]), rtol=0, atol=1e-12
            )


def test_of_two_classes_it_is_the_slope_of_the_logistic_function() -> None:
    """So that one rule holds for any number of classes."""
    rng = np.random.default_rng(0)
    a, b = 5 * rng.normal(size=(6, 1)), 5 * rng.normal(size=(7, 1))
    pair = Softmax().matrix(np.hstack([np.zeros_like(a), a]), np.hstack([np.zeros_like(b), b]), None)
    slope = Logistic().slope(a, b.T, None)
    np.testing.assert_allclose(pair[:, :, 1, 1], slope, rtol=1e-13)
    np.testing.assert_allclose(pair[:, :, 0, 1], -slope, rtol=1e-13)


def test_the_loss_adds_up_to_the_difference_of_losses() -> None:
    """For each true class."""
    rng = np.random.default_rng(0)
    a, b, y = 9 * rng.normal(size=(6, 3)), 9 * rng.normal(size=(4, 3)), np.arange(6.0)[:, None] % 3
    matrix, link = SoftmaxLoss().matrix(a, b, y), SoftmaxLoss()
    for i in range(len(a)):
        found = [matrix[i, j, 0] @ (a[i] - b[j]) for j in range(len(b))]
        expected = link.apply(a[i : i + 1], y[i : i + 1]) - link.apply(b, y[i : i + 1])
        np.testing.assert_allclose(found, expected[:, 0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", MULTICLASS)
def test_sums_are_the_model_s_own_probabilities_and_losses(name: str) -> None:
    """To 1e-12 of probabilities of our trees; libraries that add in float32 are asked to 1e-6."""
    model = zoo.load(name)
    X, background = model.to_input(model.rows[:40]), model.to_input(model.rows[40:60])
    explainer = TreeExplainer(model.model, background, "probability")
    sums = explainer.shap_values(X).sum(axis=1) + explainer.expected_value
    own = np.asarray(model.model.predict_proba(X), dtype=np.float64)
    np.testing.assert_allclose(
        sums, own, rtol=0, atol=1e-9 if name.startswith(("sk", "light", "cat")) else 1e-6
    )
    np.testing.assert_allclose(sums.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    y = np.arange(40) % own.shape[1]
    loss = TreeExplainer(model.model, background, "log_loss")
    sums = loss.shap_values(X, y).sum(axis=1) + loss.expected_value(y)
    np.testing.assert_allclose(sums, -np.log(own[np.arange(40), y]), rtol=1e-5)
    assert loss(X, y).values.shape == (40, loss.players.n_players)


def test_an_explainer_of_probabilities_is_saved_and_loaded(tmp_path: Path) -> None:
    """The file says that there is a softmax."""
    model = zoo.load("sklearn_gradient_boosting_multiclass")
    explainer = TreeExplainer(model.model, model.rows[:20], "probability")
    explainer.save(tmp_path / "model.lts")
    loaded = TreeExplainer.load(tmp_path / "model.lts")
    np.testing.assert_array_equal(loaded.shap_values(model.rows), explainer.shap_values(model.rows))


def _explainer(asked: str) -> Any:
    model = zoo.load("sklearn_gradient_boosting_multiclass")
    return TreeExplainer(model.model, model.rows[:20], asked), model.rows


def test_what_does_not_fit_is_refused() -> None:
    """A class that is not there, no class at all, interactions, no background, rows that are worlds apart."""
    explainer, rows = _explainer("log_loss")
    with pytest.raises(InputError, match=r"number of the true class of each row, from 0 to 2; got 3"):
        explainer.shap_values(rows[:2], [0, 3])
    with pytest.raises(InputError, match="pass y="):
        explainer.shap_values(rows[:2])
    explainer, rows = _explainer("probability")
    with pytest.raises(InputError, match="model_output='raw' only"):
        explainer.shap_interaction_values(rows[:2])
    with pytest.raises(InputError, match="pass data="):
        TreeExplainer(explainer.model, model_output="probability")
    with pytest.raises(InputError, match="cannot be told from 0 and 1"):
        Softmax().matrix(np.array([[1e6, 0.0]]), np.zeros((1, 2)), None)
