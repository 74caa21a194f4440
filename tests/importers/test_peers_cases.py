"""Cases that peers test their own explanations with: LightGBM's contributions, and shapiq's odd trees.

LightGBM's shapes, sparse rows, slices of iterations and stumps; shapiq's constant trees, trees of one
feature, features that nothing uses, rows that lie exactly on thresholds, and base scores of several classes.
What is expected is LightGBM's own contributions, or the definition.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from zoo_lightgbm import LIGHTGBM_PARAMETERS
from zoo_rows import classes, numeric_rows, target

from linear_treeshap import TreeExplainer, import_model, oracle

#: Sums of a few leaves in another order.
RTOL, ATOL = 1e-10, 1e-12

Values = npt.NDArray[np.float64]


def _by_definition(model: Any, rows: Any) -> Values:
    """(n_rows, n_features) for a model of one output."""
    ensemble = import_model(model)
    rows = np.asarray(rows, dtype=ensemble.row_format.numpy_dtype)
    return np.stack(
        [oracle.as_float(oracle.shapley_values(ensemble, row, by="leaves"))[:, 0] for row in rows]
    )


# -- LightGBM --------------------------------------------------------------------------------------------


def _contributions(booster: Any, rows: Any, n_outputs: int = 1, **options: Any) -> Values:
    """(n_rows, n_features + 1, n_outputs), the base value last."""
    found = booster.predict(rows, pred_contrib=True, **options)
    found = np.hstack([part.toarray() for part in found]) if isinstance(found, list) else found
    found = found.toarray() if hasattr(found, "toarray") else np.asarray(found)
    return np.asarray(found.reshape(len(found), n_outputs, -1).transpose(0, 2, 1))


def _trained(n_classes: int, rounds: int = 6, **options: Any) -> tuple[Any, Values]:
    lightgbm = pytest.importorskip("lightgbm")
    rows = np.nan_to_num(numeric_rows(), nan=0.0)
    objective = {1: "regression", 2: "binary"}.get(n_classes, "multiclass")
    y = target(rows) if n_classes == 1 else classes(rows, n_classes)
    parameters = {"objective": objective, "num_threads": 1, "verbose": -1, "num_leaves": 8, **options}
    parameters |= {"num_class": n_classes} if n_classes > 2 else {}
    return lightgbm.train(parameters, lightgbm.Dataset(rows, y), rounds), rows


@pytest.mark.parametrize("n_classes", [1, 2, 3])
@pytest.mark.parametrize("layout", ["dense", "csr_matrix", "csc_matrix", "csr_array", "int64 indices"])
def test_contributions_of_lightgbm_in_every_layout(layout: str, n_classes: int) -> None:
    """A column of nothing but zeros, which a sparse matrix does not hold, counts all the same."""
    sparse = pytest.importorskip("scipy.sparse")
    booster, rows = _trained(n_classes)
    rows = rows[:30].copy()
    rows[:, 2] = 0.0
    n_outputs = n_classes if n_classes > 2 else 1
    theirs = _contributions(booster, rows, n_outputs)
    X = (
        rows
        if layout == "dense"
        else getattr(sparse, layout if layout[:3] in ("csr", "csc") else "csr_matrix")(rows)
    )
    if layout == "int64 indices":
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    explainer = TreeExplainer(booster)
    values = explainer.shap_values(X)
    assert values.shape == ((30, 5) if n_outputs == 1 else (30, 5, n_outputs))
    np.testing.assert_allclose(values.reshape(30, 5, n_outputs), theirs[:, :-1], rtol=RTOL, atol=ATOL)
    np.testing.assert_allclose(np.ravel(explainer.expected_value), theirs[0, -1], rtol=RTOL, atol=ATOL)


@pytest.mark.parametrize("n_classes", [1, 3])
@pytest.mark.parametrize(("start", "stop"), [(0, 1), (0, 4), (2, 5), (5, 6)])
def test_slices_of_iterations_equal_lightgbm(n_classes: int, start: int, stop: int) -> None:
    """As a booster of these iterations, and, from the first one on, by a limit of trees."""
    lightgbm = pytest.importorskip("lightgbm")
    booster, rows = _trained(n_classes)
    rows, n_outputs = rows[:20], max(n_classes, 1)
    theirs = _contributions(booster, rows, n_outputs, start_iteration=start, num_iteration=stop - start)
    text = booster.model_to_string(start_iteration=start, num_iteration=stop - start)
    part = TreeExplainer(lightgbm.Booster(model_str=text))
    values = part.shap_values(rows).reshape(len(rows), 5, n_outputs)
    np.testing.assert_allclose(values, theirs[:, :-1], rtol=RTOL, atol=ATOL)
    if start == 0:
        limited = TreeExplainer(booster).shap_values(rows, tree_limit=stop * n_outputs)
        np.testing.assert_array_equal(limited.reshape(values.shape), values)


def test_stumps_that_never_split_have_no_contributions() -> None:
    """Every tree is one leaf: the prediction is the base value."""
    booster, rows = _trained(1, min_data_in_leaf=10_000)
    explainer = TreeExplainer(booster)
    np.testing.assert_array_equal(explainer.shap_values(rows), np.zeros((len(rows), 5)))
    np.testing.assert_allclose(explainer.expected_value, booster.predict(rows), rtol=1e-14)
    np.testing.assert_allclose(explainer.expected_value, _contributions(booster, rows)[0, -1, 0], rtol=1e-14)


def test_stumps_of_one_split_give_all_to_one_feature() -> None:
    booster, rows = _trained(1, num_leaves=2)
    values = TreeExplainer(booster).shap_values(rows)
    np.testing.assert_allclose(values, _contributions(booster, rows)[:, :-1, 0], rtol=RTOL, atol=ATOL)
    assert (TreeExplainer(booster).interactions(rows[:3]).values[:, 5:] == 0).all()


# -- shapiq ----------------------------------------------------------------------------------------------


def _sklearn(name: str) -> Any:
    module = "sklearn.tree" if "Tree" in name and "Trees" not in name else "sklearn.ensemble"
    return getattr(pytest.importorskip(module), name)


@pytest.mark.parametrize(
    "name", ["DecisionTreeRegressor", "RandomForestRegressor", "GradientBoostingRegressor"]
)
def test_a_constant_tree_explains_nothing(name: str) -> None:
    rows = np.random.default_rng(0).normal(size=(50, 4))
    explainer = TreeExplainer(_sklearn(name)().fit(rows, np.full(50, 7.0)))
    np.testing.assert_array_equal(explainer.shap_values(rows), np.zeros((50, 4)))
    np.testing.assert_array_equal(explainer.shap_interaction_values(rows), np.zeros((50, 4, 4)))
    assert explainer.expected_value == pytest.approx(7.0, rel=1e-15)


def test_constant_trees_among_others_only_move_the_base_value() -> None:
    """Boosting goes on after there is nothing left to split."""
    xgboost = pytest.importorskip("xgboost")
    rows = np.random.default_rng(0).integers(0, 2, size=(40, 3)).astype(np.float64)
    model = xgboost.XGBRegressor(n_estimators=6, max_depth=2, gamma=20.0, n_jobs=1)
    model.fit(rows, 3.0 * rows[:, 0])
    ensemble = import_model(model)
    assert (np.diff(ensemble.tree_offsets) == 1).any()
    assert (np.diff(ensemble.tree_offsets) > 1).any()
    np.testing.assert_allclose(
        TreeExplainer(model).shap_values(rows), _by_definition(model, rows), atol=1e-12
    )


@pytest.mark.parametrize(
    "name", ["DecisionTreeRegressor", "RandomForestRegressor", "HistGradientBoostingRegressor"]
)
def test_one_feature_gets_all_there_is(name: str) -> None:
    rows = np.random.default_rng(0).normal(size=(60, 1))
    model = _sklearn(name)().fit(rows, np.sin(rows[:, 0]))
    explainer = TreeExplainer(model)
    values = explainer.shap_values(rows)[:, 0]
    np.testing.assert_allclose(values + explainer.expected_value, model.predict(rows), rtol=1e-12, atol=1e-12)
    assert explainer.shap_interaction_values(rows).shape == (60, 1, 1)


@pytest.mark.parametrize(
    "name", ["DecisionTreeRegressor", "ExtraTreesRegressor", "GradientBoostingRegressor"]
)
def test_features_that_nothing_uses_get_nothing(name: str) -> None:
    """A target of two columns among six, of which two are constant."""
    rows = np.random.default_rng(0).normal(size=(80, 6))
    rows[:, [0, 5]] = 1.0
    model = _sklearn(name)(max_depth=3, random_state=0).fit(rows, np.sign(rows[:, 2]) * 2.0)
    explainer = TreeExplainer(model)
    used = np.unique(explainer.ensemble.feature[explainer.ensemble.feature >= 0])
    assert not {0, 5} & set(used.tolist())
    idle = np.setdiff1d(np.arange(6), used)
    values, pairs = explainer.shap_values(rows), explainer.shap_interaction_values(rows)
    assert (values[:, idle] == 0).all()
    assert (pairs[:, idle] == 0).all()
    np.testing.assert_allclose(values[:4], _by_definition(model, rows[:4]), rtol=1e-10, atol=1e-12)


def _boosters() -> dict[str, Any]:
    rows = np.round(np.random.default_rng(0).normal(size=(200, 4)), 1)
    y = rows[:, 0] * rows[:, 1] + rows[:, 2]
    small: dict[str, Any] = {"n_estimators": 4, "max_depth": 4}
    made: dict[str, Any] = {
        "DecisionTreeRegressor": lambda: _sklearn("DecisionTreeRegressor")(max_depth=5),
        "RandomForestRegressor": lambda: _sklearn("RandomForestRegressor")(**small, random_state=0),
        "XGBRegressor": lambda: pytest.importorskip("xgboost").XGBRegressor(**small, n_jobs=1),
        "LGBMRegressor": lambda: pytest.importorskip("lightgbm").LGBMRegressor(**LIGHTGBM_PARAMETERS),
        "CatBoostRegressor": lambda: pytest.importorskip("catboost").CatBoostRegressor(
            iterations=4, depth=3, verbose=0, allow_writing_files=False, thread_count=1
        ),
    }
    return {name: lambda make=make: make().fit(rows, y) for name, make in made.items()}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", _boosters())
def test_rows_on_thresholds_go_where_the_library_sends_them(name: str, dtype: str) -> None:
    """Every number is a threshold of its feature, in the type that the rows come in."""
    model = _boosters()[name]()
    explainer = TreeExplainer(model)
    ensemble, rng = explainer.ensemble, np.random.default_rng(0)
    rows = np.zeros((50, 4), dtype=dtype)
    for feature in range(4):
        on = ensemble.threshold[ensemble.feature == feature]
        # XGBoost's own x < t is our x <= t', of which t is the next float32.
        near = np.concatenate([on, np.nextafter(on.astype(np.float32), np.float32(np.inf)), [0.0]])
        rows[:, feature] = rng.choice(near, size=50)
    values = explainer.shap_values(rows)  # compared with the library's own prediction
    np.testing.assert_allclose(values[:5], _by_definition(model, rows[:5]), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("base_score", [None, 0.25])
def test_base_scores_of_several_classes_are_in_the_expected_values(base_score: float | None) -> None:
    xgboost = pytest.importorskip("xgboost")
    rows = numeric_rows()
    options = {} if base_score is None else {"base_score": base_score}
    model = xgboost.XGBClassifier(n_estimators=3, max_depth=3, n_jobs=1, **options).fit(
        rows, classes(rows, 3)
    )
    explainer = TreeExplainer(model)
    margin = model.predict(rows, output_margin=True)
    sums = explainer.shap_values(rows).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(sums, margin, rtol=1e-5, atol=1e-5)  # float32
    theirs = model.get_booster().predict(xgboost.DMatrix(rows), pred_contribs=True)
    np.testing.assert_allclose(explainer.expected_value, theirs[0, :, -1], rtol=1e-5, atol=1e-5)
