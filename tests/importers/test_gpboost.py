"""GPBoost's trees: the fixed effects of its predictions, from models and files."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import zoo
from zoo_gpboost import GROUPS
from zoo_rows import numeric_rows, target

from linear_treeshap import TreeExplainer
from linear_treeshap.errors import FileFormatError, InputError
from linear_treeshap.importers import import_model, importer_of_file

pytest.importorskip("gpboost")


@pytest.mark.parametrize("name", ["gpboost_groups", "gpboost_counts", "gpboost_labels"])
def test_values_add_up_to_the_fixed_effect(name: str) -> None:
    """That of a prediction with random effects, before the link of the likelihood."""
    model = zoo.load(name)
    explanation = TreeExplainer(model.model)(model.X)
    theirs = model.model.predict(data=model.X, group_data_pred=GROUPS, pred_latent=True)["fixed_effect"]
    total = (explanation.values.sum(axis=1) + explanation.base_values).ravel()
    np.testing.assert_allclose(total, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", zoo.names("gpboost_"))
def test_a_file_is_read_without_gpboost(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without random effects is LightGBM's own."""
    model = zoo.load(name).model
    expected, booster = import_model(model), getattr(model, "booster_", model)
    path = tmp_path / "model.json"
    booster.save_model(str(path))
    monkeypatch.setitem(sys.modules, "gpboost", None)
    library = importer_of_file(path).LIBRARY
    assert library == ("GPBoost" if booster.has_gp_model else "LightGBM")
    zoo.assert_same_trees(import_model(path), expected)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    zoo.load("gpboost_groups").model.save_model(str(path))
    whole = path.read_text()
    for damaged in (whole[:200], whole[:-5], whole.replace("booster_str", "trees"), '{\n"has_gp_model": 1}'):
        path.write_text(damaged)
        with pytest.raises(FileFormatError, match="GPBoost model is damaged"):
            import_model(path)
    path.write_text('{\n"has_gp_model": 1, "booster_str": 5}')
    with pytest.raises(FileFormatError, match="its trees are a int"):
        import_model(path)


def test_the_mean_is_no_function_of_the_trees_alone() -> None:
    """It depends on the random effects as well."""
    model = zoo.load("gpboost_classifier")
    with pytest.raises(InputError, match="not known to be a function of a single raw output"):
        TreeExplainer(model.model, data=model.X[:10], model_output="probability")


def test_without_random_effects_probabilities_are_explained() -> None:
    model = zoo.load("gpboost_without_effects")
    explanation = TreeExplainer(model.model, data=model.X[:10], model_output="probability")(model.X[:10])
    total = (explanation.values.sum(axis=1) + explanation.base_values).ravel()
    np.testing.assert_allclose(total, model.model.predict(model.X[:10]), rtol=1e-10)


def test_training_that_stopped_early_is_explained_up_to_the_best_round() -> None:
    """As far as predict() goes."""
    gpboost = pytest.importorskip("gpboost")
    rows = numeric_rows()
    noise = np.random.default_rng(0).normal(size=len(rows))
    data = gpboost.Dataset(rows[:200], target(rows[:200]) + 3 * noise[:200])
    valid = gpboost.Dataset(rows[200:], target(rows[200:]) + 3 * noise[200:], reference=data)
    options = {"objective": "regression", "num_threads": 1, "verbose": -1, "learning_rate": 0.5}
    model = gpboost.train(options, data, 50, valid_sets=[valid], early_stopping_rounds=3, verbose_eval=False)
    assert 0 < model.best_iteration < 50
    assert import_model(model).n_trees == model.best_iteration
    TreeExplainer(model).shap_values(rows)
