"""Interactions as users meet them: beside shap and XGBoost, in the user's order of columns, and as frames."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pytest
import zoo
from strategies import chain, random_ensemble, random_rows

from linear_treeshap import (
    Explanation,
    GlobalInteractions,
    InputError,
    Interactions,
    RowFormat,
    TreeEnsemble,
    TreeExplainer,
    global_interactions,
)
from linear_treeshap.results.additivity import scale_of

shap = pytest.importorskip("shap")

NAMES = tuple("abcde")


@pytest.fixture(scope="module")
def ensemble() -> TreeEnsemble:
    return random_ensemble(
        np.random.default_rng(11), n_trees=6, n_outputs=2, max_leaves=20, vector_leaves=True
    )


@pytest.fixture(scope="module")
def rows(ensemble: TreeEnsemble) -> npt.NDArray[np.float64]:
    return random_rows(np.random.default_rng(12), ensemble, 30)


@pytest.mark.parametrize(
    "name",
    [
        "sklearn_random_forest_regressor",
        "sklearn_extra_trees_classifier",
        "sklearn_gradient_boosting_regressor",
        "sklearn_extra_trees_regressor",
        "xgboost_regressor",
        "xgboost_multiclass",
        "xgboost_dart",
        "lightgbm_regressor",
    ],
)
def test_equal_to_shap(name: str) -> None:
    """shap hands XGBoost models to XGBoost's own ``pred_interactions``, which works in float32."""
    model = zoo.load(name)
    X = model.to_input(model.rows[:25])
    ours = TreeExplainer(model.model)
    theirs = np.asarray(shap.TreeExplainer(model.model).shap_interaction_values(X))
    found = ours.shap_interaction_values(X)
    assert found.shape == theirs.shape
    tolerance = 2e-6 if theirs.dtype == np.float32 or name.startswith("xgboost") else 1e-11
    np.testing.assert_allclose(found, theirs, rtol=0, atol=tolerance * scale_of(ours.ensemble))
    np.testing.assert_allclose(found.sum(axis=2), ours.shap_values(X), rtol=0, atol=1e-11)


def test_columns_in_the_users_order(ensemble: TreeEnsemble, rows: npt.NDArray[np.float64]) -> None:
    """A frame whose columns stand elsewhere: matrices, sets and names follow them."""
    explainer = TreeExplainer(chain([0, 1, 2, 1]), feature_names=("a", "b", "c"))
    named = TreeExplainer(_named(explainer.ensemble, ("a", "b", "c")))
    X = pd.DataFrame(rows[:, :3], columns=["a", "b", "c"])
    straight, moved = named.shap_interaction_values(X), named.shap_interaction_values(X[["c", "a", "b"]])
    order = [2, 0, 1]
    np.testing.assert_array_equal(moved, straight[:, order][:, :, order])
    sets = named.interactions(X[["c", "a", "b"]], order=3)
    assert sets.feature_names == ("c", "a", "b")
    assert sets.sets == ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))
    np.testing.assert_array_equal(sets["c", "b"], named.interactions(X, order=3)["b", "c"])
    called = named(X[["c", "a", "b"]], interactions=True)
    np.testing.assert_array_equal(called[:, "c", "b"].values, straight[:, 2, 1])


def _named(ensemble: TreeEnsemble, names: tuple[str, ...]) -> TreeEnsemble:
    return replace(ensemble, row_format=replace(ensemble.row_format, feature_names=names))


def test_shapes_out_and_dtype(ensemble: TreeEnsemble, rows: npt.NDArray[np.float64]) -> None:
    explainer = TreeExplainer(ensemble)
    found = explainer.shap_interaction_values(rows)
    assert found.shape == (30, 5, 5, 2)
    assert explainer.shap_interaction_values(rows[0]).shape == (5, 5, 2)
    assert TreeExplainer(chain([0, 1])).shap_interaction_values([[0.0, 1.0]]).shape == (1, 2, 2)
    out = np.empty_like(found)
    assert explainer.shap_interaction_values(rows, out=out) is out
    np.testing.assert_array_equal(out, found)
    single = explainer.shap_interaction_values(rows, dtype="float32")
    assert single.dtype == np.float32
    np.testing.assert_array_equal(single, found.astype(np.float32))
    with pytest.raises(InputError, match=r"shape \(30, 5, 5, 2\), got float64 of shape \(30, 5\)"):
        explainer.shap_interaction_values(rows, out=np.empty((30, 5)))
    with pytest.raises(InputError, match="dtype must be"):
        explainer.interactions(rows, dtype="int32")


def test_tree_limit(ensemble: TreeEnsemble, rows: npt.NDArray[np.float64]) -> None:
    explainer = TreeExplainer(ensemble)
    found = explainer.shap_interaction_values(rows, tree_limit=3)
    np.testing.assert_allclose(
        found.sum(axis=2), explainer.shap_values(rows, tree_limit=3), rtol=0, atol=1e-12
    )


def test_other_indices_add_up_to_their_own_values(
    ensemble: TreeEnsemble, rows: npt.NDArray[np.float64]
) -> None:
    explainer = TreeExplainer(ensemble, index="banzhaf")
    found = explainer.shap_interaction_values(rows)
    np.testing.assert_allclose(found.sum(axis=2), explainer.shap_values(rows), rtol=0, atol=1e-12)
    own, named = explainer.interactions(rows), TreeExplainer(ensemble).interactions(rows, index="BII")
    np.testing.assert_array_equal(own.values, named.values)
    assert (own.kind, named.kind) == ("banzhaf", "BII")


def test_groups_interact(ensemble: TreeEnsemble, rows: npt.NDArray[np.float64]) -> None:
    groups = {"first": [0, 1], "rest": [2, 3, 4]}
    explainer = TreeExplainer(ensemble, groups=groups)
    found = explainer.interactions(rows)
    assert found.set_names == ("first", "rest", "first × rest")
    matrices = explainer.shap_interaction_values(rows)
    np.testing.assert_allclose(matrices.sum(axis=2), explainer.shap_values(rows), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(matrices[:, 0, 1], found["rest", "first"] / 2)


def test_explanation_of_interactions(ensemble: TreeEnsemble, rows: npt.NDArray[np.float64]) -> None:
    explainer = TreeExplainer(ensemble, feature_names=NAMES)
    explanation = explainer(rows, interactions=True)
    assert isinstance(explanation, Explanation)
    assert explanation.axes == ("row", "feature", "partner", "output")
    np.testing.assert_array_equal(explanation.values, explainer.shap_interaction_values(rows))
    assert explanation.base_values.shape == (30, 2)
    np.testing.assert_array_equal(explanation[:, "b", "d", 1].values, explanation.values[:, 1, 3, 1])
    part = explanation[:5, ["a", "b"], ["c", "d"]]
    assert part.shape == (5, 2, 2, 2)
    np.testing.assert_array_equal(part[:, "b", "d"].values, explanation.values[:5, 1, 3])
    with_one = explanation[..., "c", 0]
    assert with_one.axes == ("row", "feature")
    assert with_one.to_frame().shape == (30, 5)
    with pytest.raises(InputError, match="choose a partner"):
        explanation.to_frame()
    assert explanation[0].axes == ("feature", "partner", "output")
    assert explanation[:, :, []][0].shape == (5, 0, 2)
    assert explainer(rows[0], interactions=True).shape == (5, 5, 2)
    assert repr(explanation) == (
        "Explanation(interaction values of shape (30, 5, 5, 2): row, feature, partner, output)"
    )
    assert explanation._repr_html_() == f"<pre>{explanation!r}</pre>"


def test_explanation_of_interactions_as_shap_s_own() -> None:
    model = zoo.load("sklearn_gradient_boosting_regressor")
    X = pd.DataFrame(model.rows[:10]).add_prefix("x")
    ours = TreeExplainer(model.model, feature_names=X.columns)(X.to_numpy(), interactions=True).to_shap()
    theirs = shap.TreeExplainer(model.model)(X, interactions=True)
    np.testing.assert_allclose(ours.values, theirs.values, rtol=0, atol=1e-10)
    np.testing.assert_allclose(ours[:, 0, 1].values, theirs[:, 0, 1].values, rtol=0, atol=1e-10)


def test_sets_by_name_position_and_in_a_matrix(ensemble: TreeEnsemble, rows: npt.NDArray[np.float64]) -> None:
    explainer = TreeExplainer(ensemble, feature_names=NAMES)
    found = explainer.interactions(rows)
    assert isinstance(found, Interactions)
    assert (len(found), found.order, found.kind) == (30, 2, "k-SII")
    np.testing.assert_array_equal(found.to_dense(), explainer.shap_interaction_values(rows))
    np.testing.assert_array_equal(found["b", "a"], found[0, 1])
    np.testing.assert_array_equal(found["e"], found[-1])
    total = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(total, ensemble.predict(rows), rtol=0, atol=1e-12)
    for features, message in {"z": "no feature 'z'", ("a", "a"): "each feature once", 9: "below 5"}.items():
        with pytest.raises(InputError, match=message):
            found[features]
    with pytest.raises(InputError, match="do not fit into a matrix"):
        explainer.interactions(rows, order=3).to_dense()
    with pytest.raises(InputError, match="index must be one of 'k-SII'"):
        explainer.interactions(rows, index="JointSV")  # type: ignore[arg-type]


def test_sets_that_never_meet_are_zero() -> None:
    two = TreeExplainer(_two_stumps())
    found = two.interactions([[0.0, 0.0]])
    assert found.sets == ((0,), (1,))
    assert found[0, 1].tolist() == [0.0]


def _two_stumps() -> TreeEnsemble:
    stump: dict[str, Any] = {"tree_offsets": [0, 3, 6], "left": [1, -1, -1] * 2, "right": [2, -1, -1] * 2}
    return TreeEnsemble(
        **stump,
        feature=[0, -1, -1, 1, -1, -1],  # type: ignore[arg-type]
        threshold=[0.0] * 6,  # type: ignore[arg-type]
        cover=[4, 3, 1] * 2,  # type: ignore[arg-type]
        value=[[0], [1], [3]] * 2,  # type: ignore[arg-type]
        base_values=[0],  # type: ignore[arg-type]
        row_format=RowFormat(n_features=2),
    )


def test_frames(ensemble: TreeEnsemble, rows: npt.NDArray[np.float64]) -> None:
    """In the library of the rows, with pandas' index; several outputs get a column."""
    explainer = TreeExplainer(_named(ensemble, NAMES))
    X = pd.DataFrame(rows[:3], columns=NAMES, index=["x", "y", "z"])
    found = explainer.interactions(X)
    wide = found.to_frame()
    assert list(wide.columns) == ["output", *found.set_names]
    assert list(wide.index) == ["x", "x", "y", "y", "z", "z"]
    np.testing.assert_array_equal(wide["a × b"].to_numpy().reshape(3, 2), found["a", "b"])
    long = found.to_frame("long")
    assert list(long.columns) == ["row", "features", "output", "value"]
    np.testing.assert_array_equal(long["value"], found.values.reshape(-1))
    best = found.top(2, order=2)
    assert list(best.columns) == ["row", "output", "rank", "features", "value"]
    pairs = [i for i, members in enumerate(found.sets) if len(members) == 2]
    largest = np.abs(found.values[:, pairs]).max(axis=1).reshape(-1)
    np.testing.assert_array_equal(best[best["rank"] == 1]["value"].abs(), largest)
    assert isinstance(explainer.interactions(pl.from_pandas(X)).top(1), pl.DataFrame)
    with pytest.raises(InputError, match="k must be"):
        found.top(0)
    with pytest.raises(InputError, match="layout must be"):
        found.to_frame("tall")  # type: ignore[arg-type]


@pytest.mark.parametrize("index", ["k-SII", "STII", None])
def test_global_interactions_are_means_over_rows(
    ensemble: TreeEnsemble, rows: npt.NDArray[np.float64], index: Any
) -> None:
    explainer = TreeExplainer(ensemble, feature_names=NAMES)
    found = explainer.interactions(rows, order=3, index=index)
    whole = global_interactions(explainer, rows, order=3, index=index)
    assert isinstance(whole, GlobalInteractions)
    assert (whole.n_rows, whole.sets, whole.kind) == (30, found.sets, found.kind)
    np.testing.assert_allclose(whole.mean_abs, np.abs(found.values).mean(axis=0), rtol=0, atol=1e-14)
    np.testing.assert_allclose(whole.mean, found.values.mean(axis=0), rtol=0, atol=1e-14)
    parts = global_interactions(explainer, [rows[:7], rows[7:]], order=3, index=index)
    np.testing.assert_allclose(parts.sum_abs, whole.sum_abs, rtol=0, atol=1e-12)
    both = global_interactions(explainer, rows[:7], 3, index=index) + global_interactions(
        explainer, rows[7:], 3, index=index
    )
    np.testing.assert_allclose(both.sum, whole.sum, rtol=0, atol=1e-12)
    frame = whole.to_frame()
    assert frame["features"][0] == whole.set_names[int(np.argmax(whole.sum_abs.sum(axis=1)))]
    with pytest.raises(InputError, match="cannot be added"):
        whole + global_interactions(explainer, rows, order=2, index=index)
    with pytest.raises(TypeError):
        whole + 1  # type: ignore[operator]
    assert repr(whole).startswith("GlobalInteractions(30 rows,")


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_a_feature_may_be_called_output(n_outputs: int) -> None:
    """The column that names the output makes way, as it does in frames of values."""
    ensemble = random_ensemble(np.random.default_rng(0), n_features=2, n_trees=2, n_outputs=n_outputs)
    names = ("output", "age")
    frame = TreeExplainer(ensemble, feature_names=names).interactions(np.zeros((3, 2))).to_frame()
    before = ["output_"] * (n_outputs > 1)
    assert [name for name in frame.columns if "×" not in name] == [*before, "output", "age"]


def test_global_pairs_have_a_column_for_each_feature_and_a_matrix() -> None:
    model = zoo.load("sklearn_random_forest_regressor")
    explainer = TreeExplainer(model.model, feature_names=list("vwxyz"))
    found = global_interactions(explainer, model.rows)
    pairs = found.to_frame(order=2)
    assert list(pairs.columns) == ["feature_1", "feature_2", "mean_abs", "mean"]
    assert len(pairs) == sum(len(members) == 2 for members in found.sets)
    assert pairs["mean_abs"].is_monotonic_decreasing
    first = pairs.iloc[0]
    i, j = "vwxyz".index(first["feature_1"]), "vwxyz".index(first["feature_2"])
    matrix = found.to_matrix()
    assert matrix[i, j, 0] == matrix[j, i, 0] == first["mean_abs"]
    dense = explainer.shap_interaction_values(model.rows)
    np.testing.assert_allclose(matrix[i, j, 0], 2 * np.abs(dense[:, i, j]).mean())
