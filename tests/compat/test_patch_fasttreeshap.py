"""FastTreeSHAP under `patch_shap`: the same numbers and forms, by our engine.

It wants an old NumPy, so that these tests have an environment of their own: `make test-fasttreeshap`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linear_treeshap
from linear_treeshap import patch_shap

fasttreeshap = pytest.importorskip("fasttreeshap", exc_type=ImportError)
pytest.importorskip("shap")
ensemble = pytest.importorskip("sklearn.ensemble")

#: Not a name of this module by itself: a patch changes these.
FASTTREESHAP = {"TreeExplainer": fasttreeshap.TreeExplainer}


@pytest.fixture(scope="module")
def X() -> Any:
    return np.random.default_rng(0).normal(size=(150, 5))


def models(X: Any) -> dict[str, Any]:
    y = X[:, 0] + X[:, 1] * X[:, 2]
    return {
        "regressor": ensemble.RandomForestRegressor(10, max_depth=5, random_state=0).fit(X, y),
        "two classes": ensemble.RandomForestClassifier(10, max_depth=5, random_state=0).fit(X, y > 0),
        "boosting": ensemble.GradientBoostingRegressor(n_estimators=10, random_state=0).fit(X, y),
    }


def explained(model: Any, X: Any, **options: Any) -> dict[str, Any]:
    """What a program may ask for."""
    explainer = fasttreeshap.TreeExplainer(model, algorithm="v1", n_jobs=1, **options)
    found = {
        "values": explainer.shap_values(X[:20]),
        "one row": explainer.shap_values(X[0]),
        "expected": explainer.expected_value,
        "explanation": explainer(X[:20]).values,
    }
    return found if "data" in options else {**found, "pairs": explainer.shap_interaction_values(X[:5])}


@pytest.mark.parametrize("name", ["regressor", "two classes", "boosting"])
@pytest.mark.parametrize("has_data", [False, True], ids=["paths", "background"])
def test_the_same_in_the_same_forms(
    X: Any, name: str, has_data: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 150 background rows both take the same 100."""
    model = models(X)[name]
    options = {"data": X, "feature_perturbation": "interventional"} if has_data else {}
    plain = explained(model, X, **options)

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("FastTreeSHAP's own code was called")

    with monkeypatch.context() as patched, patch_shap():
        patched.setattr(FASTTREESHAP["TreeExplainer"], "shap_values", never)
        patched.setattr(FASTTREESHAP["TreeExplainer"], "shap_interaction_values", never)
        found = explained(model, X, **options)
        assert issubclass(fasttreeshap.TreeExplainer, FASTTREESHAP["TreeExplainer"])
    for what, expected in plain.items():
        assert isinstance(found[what], list) == isinstance(expected, list), what
        # It rounds rows to float32, which boosting does not.
        np.testing.assert_allclose(
            np.array(found[what]), np.array(expected), rtol=1e-5, atol=1e-6, err_msg=what
        )
    assert fasttreeshap.TreeExplainer is FASTTREESHAP["TreeExplainer"]


def test_what_we_do_not_read_is_left_to_it(X: Any, caplog: pytest.LogCaptureFixture) -> None:
    model = models(X)["regressor"]
    with patch_shap(), caplog.at_level("INFO", logger="linear_treeshap"):
        explainer = fasttreeshap.TreeExplainer(model, shortcut=True)
        found = explainer.shap_values(X[:3])
    assert "left to it: shortcut=True asks" in caplog.text
    np.testing.assert_allclose(found, linear_treeshap.TreeExplainer(model).shap_values(X[:3]), atol=1e-6)
