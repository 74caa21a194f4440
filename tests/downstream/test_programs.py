"""Programs that call shap, in their ordinary use: the same numbers with patch_shap, and by our engine.

Each is run as it is, and then patched, where shap's own computation is switched off: what it gives is ours.
`make test-downstream` installs them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linear_treeshap
from linear_treeshap import patch_shap

shap = pytest.importorskip("shap")
pd = pytest.importorskip("pandas")
ensemble = pytest.importorskip("sklearn.ensemble")

#: Not a name of this module by itself: a patch changes these.
SHAP = {"TreeExplainer": shap.TreeExplainer}


@pytest.fixture(autouse=True)
def _their_warnings() -> Iterator[None]:
    """Of packages that are older than the libraries they use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="module")
def table() -> Any:
    return pd.DataFrame(np.random.default_rng(0).normal(size=(200, 5)), columns=list("vwxyz"))


@pytest.fixture(scope="module")
def target(table: Any) -> Any:
    return table["v"] + table["w"] * table["x"]


@pytest.fixture(scope="module")
def regressor(table: Any, target: Any) -> Any:
    return ensemble.RandomForestRegressor(10, max_depth=4, random_state=0).fit(table, target)


@pytest.fixture(scope="module")
def classifier(table: Any, target: Any) -> Any:
    return ensemble.RandomForestClassifier(10, max_depth=4, random_state=0).fit(
        table, (target > 0).astype(int)
    )


def program(name: str) -> Any:
    """A package, which `make test-downstream` has."""
    return import_module(name) if "DOWNSTREAM_MUST_BE_THERE" in os.environ else pytest.importorskip(name)


def both(run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """What a program gives as it is, and patched: by our engine, and not by shap's."""
    plain = run()
    calls = []
    ours = linear_treeshap.TreeExplainer.shap_values

    def counted(self: Any, *arguments: Any, **options: Any) -> Any:
        calls.append(self)
        return ours(self, *arguments, **options)

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("shap's own code was called")

    with monkeypatch.context() as patched, patch_shap():
        patched.setattr(linear_treeshap.TreeExplainer, "shap_values", counted)
        patched.setattr(SHAP["TreeExplainer"], "shap_values", never)
        found = run()
    assert calls, "our engine was not called"
    return plain, found


def test_shapash(regressor: Any, table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shapash = program("shapash")

    def run() -> Any:
        smart = shapash.SmartExplainer(model=regressor)
        smart.compile(x=table, y_pred=pd.Series(regressor.predict(table), index=table.index, name="y"))
        return smart.to_pandas(max_contrib=2)

    plain, patched = both(run, monkeypatch)
    pd.testing.assert_frame_equal(patched, plain, atol=1e-10)


def test_explainerdashboard(
    classifier: Any, table: Any, target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    explainers = program("explainerdashboard")

    def run() -> Any:
        explainer = explainers.ClassifierExplainer(classifier, table.copy(), (target > 0).astype(int))
        return explainer.get_shap_values_df().to_numpy(), explainer.shap_base_value()

    plain, patched = both(run, monkeypatch)
    np.testing.assert_allclose(patched[0], plain[0], atol=1e-10)
    np.testing.assert_allclose(patched[1], plain[1])


def test_probatus(regressor: Any, table: Any, target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    elimination = program("probatus.feature_elimination")
    model = ensemble.RandomForestClassifier(5, max_depth=3, random_state=0)

    def run() -> Any:
        search = elimination.ShapRFECV(model, step=2, cv=2, scoring="accuracy", n_jobs=1, random_state=0)
        return search.fit_compute(table, (target > 0).astype(int), check_additivity=False)

    plain, patched = both(run, monkeypatch)
    pd.testing.assert_frame_equal(patched, plain)


def test_probatus_asks_for_approximations(table: Any, target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Because shap is slow; patched they are the exact values."""
    helpers = program("probatus.utils.shap_helpers")
    model = ensemble.RandomForestClassifier(5, max_depth=3, random_state=0).fit(table, target > 0)

    def run(approximate: bool = True) -> Any:
        return helpers.shap_calc(
            model, table, approximate=approximate, check_additivity=False, random_state=0
        )

    _, patched = both(run, monkeypatch)
    np.testing.assert_allclose(patched, run(approximate=False), atol=1e-6)  # shap rounds rows to float32


def test_shap_hypetune(table: Any, target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It imported the class long before the patch."""
    hypetune, lightgbm = program("shaphypetune"), program("lightgbm")

    def run() -> Any:
        model = lightgbm.LGBMRegressor(n_estimators=10, random_state=0, n_jobs=1, verbose=-1)
        search = hypetune.BoostRFE(model, min_features_to_select=2, importance_type="shap_importances")
        return search.fit(table.to_numpy(), target.to_numpy()).ranking_

    plain, patched = both(run, monkeypatch)
    np.testing.assert_array_equal(patched, plain)


def test_arfs(table: Any, target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    selection, lightgbm = program("arfs.feature_selection.allrelevant"), program("lightgbm")

    def run() -> Any:
        model = lightgbm.LGBMRegressor(n_estimators=10, random_state=0, n_jobs=1, verbose=-1)
        search = selection.Leshy(model, n_estimators=10, max_iter=5, random_state=0, importance="shap")
        found = search.fit(table, target)
        return found.ranking_, found.imp_real_hist

    plain, patched = both(run, monkeypatch)
    np.testing.assert_array_equal(patched[0], plain[0])
    np.testing.assert_allclose(patched[1], plain[1], rtol=1e-9)


def test_shap_select(table: Any, target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    select, lightgbm = program("shap_select"), program("lightgbm")
    model = lightgbm.LGBMRegressor(n_estimators=10, random_state=0, n_jobs=1, verbose=-1).fit(table, target)

    def run() -> Any:
        return select.shap_select(model, table, target, task="regression")

    plain, patched = both(run, monkeypatch)
    pd.testing.assert_frame_equal(patched, plain, rtol=1e-6)


def test_dalex(regressor: Any, table: Any, target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives the table as background, of which shap takes 100 rows."""
    dalex = program("dalex")

    def run() -> Any:
        explainer = dalex.Explainer(regressor, table[:90], target[:90], verbose=False)
        parts = explainer.predict_parts(table.iloc[[0]], type="shap_wrapper", check_additivity=False)
        return np.asarray(parts.result)

    plain, patched = both(run, monkeypatch)
    np.testing.assert_allclose(np.ravel(patched), np.ravel(plain), atol=1e-6)  # shap rounds rows to float32


def test_interpret(classifier: Any, table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """200 background rows: shap takes 100 of them, and so does the patch."""
    greybox = program("interpret.greybox")

    def run() -> Any:
        explained = greybox.ShapTree(classifier, table).explain_local(table[:10])
        return [explained.data(i)["scores"] for i in range(10)]

    plain, patched = both(run, monkeypatch)
    np.testing.assert_allclose(patched, plain, atol=1e-6)


def test_mlflow_keeps_an_explainer(regressor: Any, table: Any, tmp_path: Path) -> None:
    """Loaded by a program without the patch; shap's own file cannot be read back (mlflow #6771)."""
    mlflow = program("mlflow.shap")
    with patch_shap():
        explainer = shap.TreeExplainer(regressor)
        mlflow.save_explainer(explainer, tmp_path / "explainer", serialize_model_using_mlflow=False)
    loaded = mlflow.load_explainer(str(tmp_path / "explainer"))
    np.testing.assert_array_equal(loaded.shap_values(table), explainer.shap_values(table))


def test_mlflow_serves_an_explainer(regressor: Any, table: Any, tmp_path: Path) -> None:
    """As a model of its own, whose requirements do not name the model's library."""
    pyfunc = program("mlflow.pyfunc")
    from linear_treeshap.mlflow import save_model

    explainer = linear_treeshap.TreeExplainer(regressor)
    save_model(tmp_path / "model", explainer, table[:3])
    served = pyfunc.load_model(str(tmp_path / "model"))
    expected = explainer(table).to_frame(base_values=True)
    pd.testing.assert_frame_equal(served.predict(table), expected)
    assert served.metadata.get_output_schema().input_names() == list(expected.columns)
    assert "scikit-learn" not in (tmp_path / "model" / "requirements.txt").read_text()


def test_mlflow_explains_one_of_several_outputs(classifier: Any, table: Any, tmp_path: Path) -> None:
    pyfunc = program("mlflow.pyfunc")
    from linear_treeshap.mlflow import save_model

    explainer = linear_treeshap.TreeExplainer(classifier)
    with pytest.raises(linear_treeshap.InputError, match="only=…, of '0', '1'"):
        save_model(tmp_path / "model", explainer, table[:3])
    save_model(tmp_path / "model", explainer, table[:3], only="1")
    found = pyfunc.load_model(str(tmp_path / "model")).predict(table)
    np.testing.assert_array_equal(found[list("vwxyz")], explainer(table)[..., "1"].values)
