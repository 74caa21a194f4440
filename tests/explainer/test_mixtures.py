"""Calibrated and voting classifiers: means of functions of raw outputs, each with its own slopes."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from linear_treeshap import InputError, TreeExplainer, oracle
from linear_treeshap.errors import UnsupportedModelError
from linear_treeshap.importers import import_model
from linear_treeshap.importers.links import mixture_of
from linear_treeshap.model.joint_links import Softmax

calibration = pytest.importorskip("sklearn.calibration")
ensemble = pytest.importorskip("sklearn.ensemble")

Float64 = npt.NDArray[np.float64]

RNG = np.random.default_rng(0)
ROWS: Float64 = np.round(RNG.normal(size=(200, 4)), 1)
SCORE: Float64 = ROWS[:, 0] + ROWS[:, 1] * ROWS[:, 2]
BINARY, THREE = SCORE > 0, np.array(list("abc"))[np.digitize(SCORE, [-0.5, 0.5])]


def _base(name: str) -> Any:
    if name == "forest":
        return ensemble.RandomForestClassifier(n_estimators=4, max_depth=4, random_state=0)
    if name == "boosted":
        return ensemble.GradientBoostingClassifier(n_estimators=5, random_state=0)
    if name == "lightgbm":
        return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=5, num_leaves=8, verbose=-1)
    if name == "catboost":
        options = {"iterations": 5, "depth": 3, "verbose": False, "allow_writing_files": False}
        return pytest.importorskip("catboost").CatBoostClassifier(**options)
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=5, max_depth=3)


def _calibrated(base: Any, y: Any = BINARY, **options: Any) -> Any:
    if options.get("method") == "temperature":
        pytest.importorskip("sklearn", minversion="1.8", reason="knows it since 1.8")
    return calibration.CalibratedClassifierCV(base, cv=3, **options).fit(ROWS, y)


def _voting(y: Any, *names: str) -> Any:
    models = [(name, _base(name)) for name in names]
    return ensemble.VotingClassifier(models, voting="soft", weights=range(1, len(names) + 1)).fit(ROWS, y)


def _assert_adds_up(model: Any, tolerance: float = 1e-9) -> None:
    explainer = TreeExplainer(model, ROWS[:20], model_output="probability")
    sums = explainer.shap_values(ROWS).sum(axis=1) + explainer.expected_value
    own = model.predict_proba(ROWS)
    np.testing.assert_allclose(sums, own if sums.ndim == 2 else own[:, 1], rtol=0, atol=tolerance)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
@pytest.mark.parametrize("base", ["forest", "boosted", "lightgbm"])
@pytest.mark.parametrize("several", [False, True])
def test_calibrated_values_add_up_to_predict_proba(base: str, method: str, several: bool) -> None:
    """To 1e-9, with a model of each fold or with one."""
    _assert_adds_up(_calibrated(_base(base), method=method, ensemble=several))


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
@pytest.mark.parametrize("base", ["forest", "boosted", "catboost"])
def test_calibrated_values_of_classes_add_up_to_predict_proba(base: str, method: str) -> None:
    """What the calibrators of three classes say is divided by its sum, or softmax is taken of it; to 1e-9."""
    model = _calibrated(_base(base), THREE, method=method)
    _assert_adds_up(model)
    assert TreeExplainer(model, ROWS[:5], "probability").output_names == ("a", "b", "c")


def test_calibrated_xgboost_adds_up_in_float32() -> None:
    """XGBoost adds up and bends in float32, which isotonic steps can make larger."""
    _assert_adds_up(_calibrated(_base("xgboost"), method="sigmoid"), 1e-6)


def test_a_model_that_was_trained_before_is_calibrated_as_it_is() -> None:
    """In the wrapper that keeps it from being trained again."""
    frozen = pytest.importorskip("sklearn.frozen")
    model = calibration.CalibratedClassifierCV(frozen.FrozenEstimator(_base("boosted").fit(ROWS, BINARY)))
    _assert_adds_up(model.fit(ROWS, BINARY))


@pytest.mark.parametrize("y", [BINARY, THREE], ids=["two classes", "three classes"])
def test_votes_of_boosters_add_up_to_predict_proba(y: Any) -> None:
    """With a forest among them, whose probabilities are sums of trees already."""
    _assert_adds_up(_voting(y, "boosted", "forest", "lightgbm"))
    explainer = TreeExplainer(_voting(y, "boosted", "forest"), ROWS[:5], "probability")
    assert explainer.output_names == tuple(map(str, np.unique(y)))[-explainer.n_outputs :]


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("base", ["forest", "boosted", "lightgbm"])
def test_calibrated_values_are_those_of_the_convention(base: str, method: str) -> None:
    """Fold by fold and row by row: raw values of the definition times the slope of the fold's probability,
    which scikit-learn is asked for; to 1e-9. No two of these rows have the same raw output."""
    model = _calibrated(_base(base), method=method)
    order = np.argsort(SCORE)
    rows, background = ROWS[order[-3:]], ROWS[order[:4]]
    expected: Any = np.zeros(rows.shape)
    for fold in model.calibrated_classifiers_:
        trees = import_model(fold.estimator)
        raw = [trees.predict(some)[:, -1] for some in (rows, background)]
        p = [fold.predict_proba(some)[:, 1] for some in (rows, background)]
        for i, row in enumerate(rows):
            for z, other in enumerate(background):
                exact = oracle.shapley_values(trees, row, background=[other], by="leaves")
                values = oracle.as_float(exact)[:, -1]
                assert raw[0][i] != raw[1][z]
                expected[i] += values * (p[0][i] - p[1][z]) / (raw[0][i] - raw[1][z])
    expected /= len(model.calibrated_classifiers_) * len(background)
    found = TreeExplainer(model, background, "probability").shap_values(rows)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
@pytest.mark.parametrize("base", ["forest", "boosted", "catboost"])
def test_calibrated_values_of_classes_are_those_of_the_convention(base: str, method: str) -> None:
    """Fold by fold: raw values of the definition times the matrices of all steps, each a mean of numerical
    derivatives on a line, or the slopes of what scikit-learn's calibrators say; to 1e-7, which is what
    numerical derivatives leave of float64."""
    model = _calibrated(_base(base), THREE, method=method)
    row, background = _apart(model)
    expected: Any = np.zeros((4, 3))
    for fold, other in itertools.product(model.calibrated_classifiers_, background):
        trees = import_model(fold.estimator)
        values = oracle.as_float(oracle.shapley_values(trees, row, background=[other], by="leaves"))
        a, b = trees.predict(np.array([row, other]))
        matrix = np.eye(3)
        for is_of_each, step in _steps(fold, base):
            next_a, next_b = step(a), step(b)
            slopes = np.diag((next_a - next_b) / (a - b)) if is_of_each else _mean_jacobian(step, a, b)
            matrix, a, b = slopes @ matrix, next_a, next_b
        expected += values @ matrix.T / len(model.calibrated_classifiers_) / len(background)
    found = TreeExplainer(model, background, "probability").shap_values(row)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)


def _apart(model: Any) -> tuple[Float64, Float64]:
    """A row and a background of three that no model inside gives the same raw output of any class."""
    raw = [import_model(fold.estimator).predict(ROWS) for fold in model.calibrated_classifiers_]
    for row in range(len(ROWS)):
        is_apart = np.all([np.abs(one - one[row]).min(axis=1) > 1e-3 for one in raw], axis=0)
        if is_apart.sum() >= 3:
            return ROWS[row], ROWS[is_apart][:3]
    raise AssertionError("no such rows")


def _steps(fold: Any, base: str) -> list[tuple[bool, Any]]:
    """Is it a function of each class by itself? and the function, for all that is done to raw outputs."""
    special = pytest.importorskip("scipy.special")
    if fold.method == "temperature":
        # CatBoost gives probabilities. Softmax of logarithms of softmax is softmax, however sharpened: what
        # is added to a probability before its logarithm is taken is less than the tolerance.
        logarithm = [(True, lambda p: np.log(p + 1e-12))] if base == "forest" else []
        return [*logarithm, (False, lambda raw: special.softmax(fold.calibrators[0].beta_ * raw))]
    return [
        *([(False, special.softmax)] if base == "catboost" else []),
        (
            True,
            lambda given: np.array([c.predict([x])[0] for c, x in zip(fold.calibrators, given, strict=True)]),
        ),
        (False, lambda found: found / found.sum()),
    ]


def _mean_jacobian(function: Any, a: Float64, b: Float64) -> Float64:
    """By central differences in 200 points of Gauss and Legendre."""
    points, weights = np.polynomial.legendre.leggauss(200)
    total = np.zeros((len(a), len(a)))
    for point, weight in zip(points, weights, strict=True):
        at = b + (point + 1) / 2 * (a - b)
        width = 1e-5 * np.maximum(np.abs(at), 1e-3)
        for j, step in enumerate(np.diag(width)):
            total[:, j] += weight / 2 * (function(at + step) - function(at - step)) / (2 * width[j])
    return total


def test_votes_of_classes_are_those_of_the_convention() -> None:
    """Model by model: values of the raw outputs times softmax's matrix, and those of a forest as they are."""
    model = _voting(THREE, "boosted", "forest")
    rows, background = ROWS[:3], ROWS[50:54]
    values = TreeExplainer(model, background, "probability").shap_values(rows)
    boosted, forest = (import_model(one) for one in model.estimators_)
    expected = np.zeros(values.shape)
    matrix = Softmax().matrix(boosted.predict(rows), boosted.predict(background), None)
    for i, row in enumerate(rows):
        for z, other in enumerate(background):
            found = [
                oracle.as_float(oracle.shapley_values(e, row, background=[other], by="leaves"))
                for e in (boosted, forest)
            ]
            expected[i] += (found[0] @ matrix[i, z].T + 2 * found[1]) / 3 / len(background)
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)


def test_without_data_or_name_an_error_says_what_to_pass() -> None:
    """There is no raw output of the whole."""
    model = _calibrated(_base("boosted"))
    for options in ({}, {"data": ROWS[:5]}, {"data": ROWS[:5], "model_output": np.exp}):
        with pytest.raises(
            InputError, match=r"Pass background rows as data=, and model_output='probability'"
        ):
            TreeExplainer(model, **options)
    with pytest.raises(InputError, match=r"pass data=.*'interventional'\.$"):
        TreeExplainer(model, model_output="probability")


def test_a_fold_without_a_class_is_refused() -> None:
    """Its model has no raw output for it."""
    is_first = THREE == "a"
    folds = [
        (np.flatnonzero(~is_first | (ROWS[:, 0] > -1)), np.arange(200)),
        (np.flatnonzero(~is_first), np.arange(200)),
    ]
    model = calibration.CalibratedClassifierCV(_base("forest"), cv=folds).fit(ROWS, THREE)
    with pytest.raises(
        UnsupportedModelError, match="has 3 classes, and the model of fold 1 was trained without"
    ):
        TreeExplainer(model, ROWS[:5], "probability")


def test_models_that_are_mixtures_themselves_can_be_parts() -> None:
    """Votes of calibrated models, and calibrated votes."""
    for y in (BINARY, THREE):
        calibrated = calibration.CalibratedClassifierCV(_base("boosted"), cv=2)
        votes = ensemble.VotingClassifier([("c", calibrated), ("f", _base("forest"))], voting="soft").fit(
            ROWS, y
        )
        _assert_adds_up(votes)
        boosters = ensemble.VotingClassifier(
            [("b", _base("boosted")), ("l", _base("lightgbm"))], voting="soft"
        )
        for method in ("sigmoid", "isotonic"):
            _assert_adds_up(_calibrated(boosters, y, method=method))


def test_the_slope_at_a_probability_of_zero_is_that_of_probabilities() -> None:
    """It is asked for numbers just below zero, which scikit-learn would not take for probabilities."""
    model = _calibrated(_base("forest"), method="temperature")
    mixture = mixture_of(model)
    assert mixture is not None
    link: Any = mixture.blocks[0].link
    zero = np.zeros((1, 1))
    step = link.apply(zero + 5e-6, None) - link.apply(zero, None)
    np.testing.assert_allclose(link.slope(zero, zero, None), step / 1e-5, rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_it_is_pickled_but_not_saved(n_classes: int, tmp_path: Path) -> None:
    """A file holds no code, and calibrators are."""
    y = THREE if n_classes == 3 else BINARY
    explainer = TreeExplainer(_calibrated(_base("boosted"), y, method="isotonic"), ROWS[:5], "probability")
    copy = pickle.loads(pickle.dumps(explainer))
    np.testing.assert_array_equal(copy.shap_values(ROWS), explainer.shap_values(ROWS))
    with pytest.raises(InputError, match="cannot be held by a file"):
        explainer.save(tmp_path / "model.lts")
