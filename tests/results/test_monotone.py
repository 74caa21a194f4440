"""Monotone constraints: read wherever a model states them, kept, and checked against one reference row."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linear_treeshap import LinearTreeShapError, ModelError, TreeExplainer, import_model, load, save

pd = pytest.importorskip("pandas")

#: The target rises with a and falls with b, whatever the others are.
CONSTRAINTS = {"a": 1, "b": -1}
SIGNS = {0: 1, 1: -1}


@pytest.fixture(scope="module")
def X() -> Any:
    return pd.DataFrame(np.random.default_rng(0).normal(size=(300, 4)), columns=list("abcd"))


@pytest.fixture(scope="module")
def y(X: Any) -> Any:
    noise = np.random.default_rng(1).normal(size=len(X))
    return X.a - X.b + X.c * X.d + noise


def xgboost(X: Any, y: Any, **options: Any) -> Any:
    xgb = pytest.importorskip("xgboost")
    asked = {"monotone_constraints": CONSTRAINTS, **options}
    return xgb.XGBRegressor(n_estimators=20, max_depth=5, n_jobs=1, **asked).fit(X, y)


def xgboost_dart(X: Any, y: Any) -> Any:
    xgb = pytest.importorskip("xgboost")
    asked = {"booster": "dart", "rate_drop": 0.2, "monotone_constraints": "(1,-1)"}
    return xgb.train(asked, xgb.DMatrix(X, y), 10)


def xgboost_classifier(X: Any, y: Any) -> Any:
    xgb = pytest.importorskip("xgboost")
    return xgb.XGBClassifier(n_estimators=20, n_jobs=1, monotone_constraints=(1, -1, 0, 0)).fit(X, y > 0)


def lightgbm(X: Any, y: Any, **options: Any) -> Any:
    lgb = pytest.importorskip("lightgbm")
    asked = {"monotone_constraints": [1, -1, 0, 0], **options}
    return lgb.LGBMRegressor(n_estimators=20, n_jobs=1, verbose=-1, **asked).fit(X, y)


def catboost(X: Any, y: Any) -> Any:
    cat = pytest.importorskip("catboost")
    return cat.CatBoostRegressor(
        iterations=20, monotone_constraints=CONSTRAINTS, verbose=0, thread_count=1, allow_writing_files=False
    ).fit(X, y)


def sklearn_hist(X: Any, y: Any) -> Any:
    ensemble = pytest.importorskip("sklearn.ensemble")
    return ensemble.HistGradientBoostingRegressor(max_iter=20, monotonic_cst=CONSTRAINTS).fit(X, y)


def sklearn_forest(X: Any, y: Any) -> Any:
    ensemble = pytest.importorskip("sklearn.ensemble")
    return ensemble.RandomForestRegressor(10, max_depth=6, monotonic_cst=[1, -1, 0, 0], random_state=0).fit(
        X, y
    )


MODELS: list[Callable[[Any, Any], Any]] = [
    xgboost, xgboost_dart, xgboost_classifier, lightgbm, catboost, sklearn_hist, sklearn_forest,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*booster=dart. is deprecated:UserWarning")
@pytest.mark.parametrize("train", MODELS, ids=lambda train: train.__name__)
def test_constraints_are_read_kept_and_signs_follow(train: Any, X: Any, y: Any, tmp_path: Path) -> None:
    model = train(X, y)
    assert dict(import_model(model).monotone) == SIGNS
    explainer = TreeExplainer(model, X.iloc[[7]], n_jobs=1)
    assert explainer.monotone == CONSTRAINTS
    values = explainer.shap_values(X)  # is checked
    for feature, direction in CONSTRAINTS.items():
        place = list("abcd").index(feature)
        rises = np.sign(X[feature] - X[feature][7]) * direction
        assert (rises * values[:, place] >= -1e-12).all()
        assert np.abs(values[:, place]).max() > 0.1
    explainer.save(tmp_path / "model.lts")
    for copy in (TreeExplainer.load(tmp_path / "model.lts"), pickle.loads(pickle.dumps(explainer))):
        assert copy.monotone == CONSTRAINTS
    save(import_model(model), tmp_path / "trees.lts")
    assert load(tmp_path / "trees.lts").monotone == SIGNS


def test_files_that_state_them(X: Any, y: Any, tmp_path: Path) -> None:
    """LightGBM's and CatBoost's do; XGBoost's do not."""
    for train, name, expected in (
        (lightgbm, "m.txt", SIGNS),
        (catboost, "m.cbm", SIGNS),
        (xgboost, "m.json", {}),
    ):
        model = train(X, y)
        getattr(model, "booster_", model).save_model(str(tmp_path / name))
        assert dict(import_model(tmp_path / name).monotone) == expected


@pytest.mark.parametrize("train", [xgboost, lightgbm])
def test_without_constraints_there_are_none(train: Any, X: Any, y: Any) -> None:
    assert not import_model(train(X, y, monotone_constraints=None)).monotone


def test_trees_that_contradict_them_are_refused(X: Any, y: Any) -> None:
    """A model that was trained without constraints, and says that it had some; whatever asks for values."""
    free = import_model(lightgbm(X, -y, monotone_constraints=None))
    broken = replace(free, monotone=SIGNS)
    explainer = TreeExplainer(broken, X.iloc[[7]], n_jobs=1)
    message = "its output can only rise with 'a', and row [0-9]+ contradicts it"
    for ask in (explainer.shap_values, explainer, lambda rows: list(explainer.iter_values(rows))):
        with pytest.raises(ModelError, match=message):
            ask(X)
    expected = TreeExplainer(free, X.iloc[[7]]).shap_values(X)
    np.testing.assert_array_equal(explainer.shap_values(X, check_additivity=False), expected)
    explainer.shap_interaction_values(X[:5])  # signs of pairs say nothing
    explainer.interactions(X[:5], 1)


def test_nothing_is_promised_against_several_rows_by_paths_or_of_groups(X: Any, y: Any) -> None:
    broken = replace(import_model(lightgbm(X, -y, monotone_constraints=None)), monotone=SIGNS)
    TreeExplainer(broken, X[:2]).shap_values(X)
    TreeExplainer(broken).shap_values(X)
    TreeExplainer(broken, X[:1], groups={"ab": ["a", "b"]}).shap_values(X)
    missing = X.assign(a=np.nan, b=np.nan)
    TreeExplainer(broken, X[:1]).shap_values(missing)


def test_probabilities_have_the_signs_of_log_odds(X: Any, y: Any) -> None:
    model = xgboost_classifier(X, y)
    values = TreeExplainer(model, X[:1], "probability").shap_values(X)
    assert ((X.a > X.a[0]) <= (values[:, 0] >= -1e-12)).all()


def test_in_a_pipeline_numbers_are_compared_as_the_trees_read_them(X: Any, y: Any) -> None:
    """Scaled numbers are in the order of raw ones, and are what the reference is read as, too."""
    pytest.importorskip("sklearn")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    ensemble = pytest.importorskip("sklearn.ensemble")
    boosting = ensemble.HistGradientBoostingRegressor(max_iter=10, monotonic_cst=[1, -1, 0, 0])
    model = make_pipeline(StandardScaler(), boosting).fit(X, y)
    explainer = TreeExplainer(model, X[:1])
    assert explainer.monotone == CONSTRAINTS
    values = explainer.shap_values(X)
    assert ((X.a > X.a[0]) <= (values[:, 0] >= -1e-12)).all()


@pytest.mark.parametrize("monotone", [{9: 1}, {0: 2}, {-1: 1}])
def test_constraints_of_no_column_are_refused(monotone: Any, X: Any, y: Any) -> None:
    with pytest.raises(ModelError, match="monotone must map columns to 1 or -1"):
        replace(import_model(lightgbm(X, y)), monotone=monotone)


def test_damaged_files_are_refused(X: Any, y: Any, tmp_path: Path) -> None:
    text = lightgbm(X, y).booster_.model_to_string()
    for wrong in ("1 x 0 0", "1 -1 0 0 0 0 7", "3 0 0 0"):
        path = tmp_path / "model.txt"
        path.write_text(text.replace("monotone_constraints=1 -1 0 0", f"monotone_constraints={wrong}"))
        with pytest.raises(LinearTreeShapError, match=r"damaged|monotone must map"):
            import_model(path)
