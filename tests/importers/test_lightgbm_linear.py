"""LightGBM's linear_tree: leaves that are linear functions, explained with background rows."""

from __future__ import annotations

import itertools
import pickle
from functools import cache
from math import factorial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from linear_treeshap import AdditivityError, InputError, TreeExplainer, import_model, oracle, paper
from linear_treeshap.errors import FileFormatError, ModelError, UnsupportedModelError
from linear_treeshap.model.ensemble import first_trees
from linear_treeshap.model.lines import Lines

lightgbm = pytest.importorskip("lightgbm")

Float64 = npt.NDArray[np.float64]

RNG = np.random.default_rng(0)
WHOLE: Float64 = np.round(RNG.normal(size=(600, 5)), 1)
HOLES: Float64 = np.where(RNG.random(WHOLE.shape) < 0.1, np.nan, WHOLE)


def _target(rows: Float64) -> Float64:
    rows = np.nan_to_num(rows)
    return np.asarray(rows.sum(axis=1) + rows[:, 0] * rows[:, 1])


@cache
def _model(kind: str, holes: bool = False) -> Any:
    rows = HOLES if holes else WHOLE
    options: dict[str, Any] = {"linear_tree": True, "num_leaves": 7, "n_estimators": 8, "verbose": -1}
    if kind == "classes":
        model = lightgbm.LGBMClassifier(**options)
        return model.fit(rows, np.digitize(_target(rows), [-1, 1]))
    if kind == "binary":
        return lightgbm.LGBMClassifier(**options).fit(rows, _target(rows) > 0)
    if kind == "categories":
        codes = rows.copy()
        codes[:, 4] = np.clip(np.nan_to_num(codes[:, 4] * 2).astype(int), 0, 3)
        model = lightgbm.LGBMRegressor(**options, min_data_per_group=5)
        return model.fit(codes, _target(rows) + (codes[:, 4] == 2), categorical_feature=[4])
    if kind == "forest":
        options |= {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}
    return lightgbm.LGBMRegressor(**options).fit(rows, _target(rows))


def _raw(model: Any, rows: Float64) -> Float64:
    """LightGBM's own raw scores; it does not average those of a forest."""
    scores = np.asarray(model.predict(rows, raw_score=True)).reshape(len(rows), -1)
    return scores / (model.booster_.num_trees() if model.boosting_type == "rf" else 1)


def _by_enumeration(model: Any, row: Float64, background: Float64) -> Float64:
    """(n_features, n_outputs) Shapley values of what LightGBM predicts for all mixtures of rows."""
    n = len(row)
    coalitions = list(itertools.product((False, True), repeat=n))
    mixtures = np.where(np.array(coalitions)[:, None], row, background)  # each with every background row
    raw = _raw(model, mixtures.reshape(-1, n)).reshape(*mixtures.shape[:2], -1)
    game = dict(zip(coalitions, raw.mean(axis=1), strict=True))
    out = np.zeros((n, len(game[(True,) * n])))
    for present, value in game.items():
        for player in range(n):
            if not present[player]:
                size = sum(present)
                joined = (*present[:player], True, *present[player + 1 :])
                weight = factorial(size) * factorial(n - size - 1) / factorial(n)
                out[player] += weight * (game[joined] - value)
    return out


@pytest.mark.parametrize("holes", [False, True], ids=["whole", "holes"])
@pytest.mark.parametrize("kind", ["regressor", "classes", "forest", "categories"])
def test_trees_predict_what_lightgbm_does(kind: str, holes: bool) -> None:
    """On rows with missing numbers, which take other leaf values, whether the model knew any or not."""
    model = _model(kind, holes)
    rows = np.vstack([WHOLE, HOLES, np.full((1, 5), np.nan)])
    if kind == "categories":  # codes, as they are when rows have been read
        rows[:, 4] = np.abs(np.trunc(rows[:, 4]))
    expected = _raw(model, rows)
    np.testing.assert_allclose(import_model(model).predict(rows), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("holes", [False, True], ids=["whole", "holes"])
@pytest.mark.parametrize("kind", ["regressor", "classes", "forest", "categories"])
def test_values_are_those_of_all_mixtures(kind: str, holes: bool) -> None:
    """As LightGBM itself predicts them, to rounding; rows with missing numbers beside rows without."""
    model = _model(kind, holes)
    background, rows = (HOLES if holes else WHOLE)[:6], np.vstack([WHOLE[50:52], HOLES[50:54]])
    found = TreeExplainer(model, background).shap_values(rows).reshape(len(rows), 5, -1)
    for row, values in zip(rows, found, strict=True):
        np.testing.assert_allclose(values, _by_enumeration(model, row, background), rtol=0, atol=1e-13)


def test_weights_and_groups() -> None:
    """A weight of two is the same row twice; of a group, both columns come and go at once."""
    model = _model("regressor")
    twice = TreeExplainer(model, WHOLE[[0, 1, 1, 2]])
    weighted = TreeExplainer(model, WHOLE[:3], data_weights=[1, 2, 1])
    np.testing.assert_allclose(
        weighted.shap_values(WHOLE[50:]), twice.shap_values(WHOLE[50:]), rtol=0, atol=1e-14
    )
    names = list("abcde")
    explainer = TreeExplainer(model, WHOLE[:1], feature_names=names, groups={"ab": ["a", "b"]})
    game = [
        _raw(model, np.where(np.array(present)[None], WHOLE[50], WHOLE[:1]))[0, 0]
        for present in ([False] * 5, [True, True, False, False, False])
    ]
    alone = TreeExplainer(model, np.where([False, False, True, True, True], WHOLE[50], WHOLE[:1]))
    both = alone.shap_values(WHOLE[50:51])[0, :2].sum() + game[1] - game[0]
    pairs = explainer.shap_interaction_values(WHOLE[50:51])[0]
    # With two players, the group and all others, the value is the mean of the two orders.
    two = TreeExplainer(
        model, WHOLE[:1], feature_names=names, groups={"ab": ["a", "b"], "rest": ["c", "d", "e"]}
    )
    np.testing.assert_allclose(two.shap_values(WHOLE[50:51])[0, 0], both / 2, rtol=0, atol=1e-13)
    np.testing.assert_allclose(pairs.sum(axis=1), explainer.shap_values(WHOLE[50:51])[0], rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", ["binary", "classes"])
def test_probabilities_add_up(kind: str) -> None:
    """Through the slopes, or matrices, of each row and background row; background rows that only their
    numbers in leaves tell apart are not merged."""
    model = _model(kind)
    explainer = TreeExplainer(model, WHOLE[:20], "probability")
    own = model.predict_proba(HOLES[50:90])
    sums = explainer.shap_values(HOLES[50:90]).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(sums, own if kind == "classes" else own[:, 1], rtol=0, atol=1e-12)


def test_probabilities_are_slopes_times_values() -> None:
    model = _model("binary")
    row, background = WHOLE[50], WHOLE[:4]
    expected = np.zeros(5)
    for other in background:
        a, b = _raw(model, np.array([row, other]))[:, 0]
        p, q = model.predict_proba(np.array([row, other]))[:, 1]
        expected += _by_enumeration(model, row, other[None])[:, 0] * (p - q) / (a - b) / len(background)
    found = TreeExplainer(model, background, "probability").shap_values(row)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_sums_files_and_first_trees(tmp_path: Path) -> None:
    """What is done to ensembles is done to lines as well."""
    model, other = _model("regressor"), _model("forest")
    explainer = TreeExplainer([(0.25, model), (2.0, other)], WHOLE[:5])
    parts = [TreeExplainer(one, WHOLE[:5]).shap_values(HOLES[:9]) for one in (model, other)]
    np.testing.assert_allclose(
        explainer.shap_values(HOLES[:9]), 0.25 * parts[0] + 2.0 * parts[1], rtol=0, atol=1e-12
    )
    model.booster_.save_model(tmp_path / "model.txt")
    from_file = TreeExplainer(tmp_path / "model.txt", WHOLE[:5]).shap_values(HOLES[:9])
    np.testing.assert_array_equal(from_file, parts[0])
    few = first_trees(import_model(model), 3).predict(HOLES)[:, 0]
    own = model.predict(HOLES, num_iteration=3)
    np.testing.assert_allclose(few, own, rtol=0, atol=1e-14)


def test_without_background_it_is_refused_with_the_reason() -> None:
    """Nothing says what an absent column is in a line."""
    model = _model("regressor")
    asked: list[dict[str, Any]] = [{}, {"data": WHOLE[:5], "feature_perturbation": "tree_path_dependent"}]
    for options in asked:
        with pytest.raises(UnsupportedModelError, match=r"absent is not in the model.*Pass background rows"):
            TreeExplainer(model, **options)
    trees = import_model(model)
    with pytest.raises(UnsupportedModelError, match="linear_tree"):
        _ = trees.expected_value
    with pytest.raises(InputError, match="leaves that are numbers"):
        oracle.shapley_values(trees, WHOLE[0])
    with pytest.raises(UnsupportedModelError, match="linear_tree"):
        paper.LinearTreeShap(trees)


def test_it_is_pickled_but_not_saved(tmp_path: Path) -> None:
    """A file keeps no numbers of background rows."""
    explainer = TreeExplainer(_model("regressor"), WHOLE[:5])
    copy = pickle.loads(pickle.dumps(explainer))
    np.testing.assert_array_equal(copy.shap_values(HOLES), explainer.shap_values(HOLES))
    with pytest.raises(InputError, match="Pickle the explainer"):
        explainer.save(tmp_path / "model.lts")


def test_infinite_numbers_are_refused() -> None:
    """The prediction would be infinite."""
    row = WHOLE[0].copy()
    row[0] = np.inf
    with pytest.raises(InputError, match="A row has an infinite number in column 0"):
        TreeExplainer(_model("regressor"), WHOLE[:5]).shap_values(row, check_additivity=False)
    with pytest.raises(InputError, match="A background row has an infinite number in column 0"):
        TreeExplainer(_model("regressor"), row[None])


def test_the_check_knows_how_large_lines_are() -> None:
    """Rows far beyond the training data are no bug; a value that is off by a millionth is one."""
    explainer = TreeExplainer(_model("regressor"), WHOLE[:5])
    explainer.shap_values(1e12 * WHOLE)
    values = explainer.shap_values(WHOLE)
    values[7, 2] += 1e-6
    with pytest.raises(AdditivityError, match="row 7"):
        explainer._check(explainer._read(WHOLE), explainer._engine, True)(
            slice(0, 600), WHOLE, values[..., None]
        )


def test_damaged_lines_are_refused(tmp_path: Path) -> None:
    """As any other damage."""
    text = _model("regressor").booster_.model_to_string()
    path = tmp_path / "model.txt"
    for old, new, message in [
        ("leaf_coeff=", "leaf_coeff=1 ", "leaf_coeff"),
        ("leaf_features=", "leaf_features=99 ", "leaf_features"),
        ("num_features=", "num_features=-", "negative"),
        ("leaf_const=", "leaf_const=nan ", "leaf_const"),
    ]:
        head, _, tail = text.partition("Tree=2")
        path.write_text(f"{head}Tree=2{tail.replace(old, new, 1)}")
        with pytest.raises(FileFormatError, match=message):
            import_model(path)
    trees = import_model(_model("regressor"))
    assert trees.lines is not None
    with pytest.raises(ModelError, match="no leaf"):
        Lines(trees.lines.node * 0, trees.lines.column, trees.lines.slope, trees.lines.if_missing).check(
            trees
        )
