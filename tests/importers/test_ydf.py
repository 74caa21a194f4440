"""YDF's models: directories without YDF, damaged ones, what is refused, covers, rows of every kind."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zoo
from zoo_rows import classes, numeric_rows, target
from zoo_ydf import columns, frame, train

from linear_treeshap import TreeExplainer
from linear_treeshap.cli import main
from linear_treeshap.errors import FileFormatError, InputError, UnsupportedModelError
from linear_treeshap.importers import import_model, importer_of_file, raw_prediction
from linear_treeshap.rows.rows import read_rows

ydf = pytest.importorskip("ydf")

NAMES = zoo.names("ydf_")


# -- directories ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_directory_is_read_without_ydf(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = zoo.load(name).model
    model.save(str(tmp_path / "model"))
    expected = import_model(model)
    monkeypatch.setitem(sys.modules, "ydf", None)
    assert importer_of_file(tmp_path / "model").LIBRARY == "YDF"
    found = import_model(str(tmp_path / "model"))
    zoo.assert_same_trees(found, expected)
    assert found.output_names == expected.output_names


def test_the_command_line_takes_a_directory(tmp_path: Path) -> None:
    """With labels as texts, of which an empty one is missing."""
    model = zoo.load("ydf_forest_table")
    model.model.save(str(tmp_path / "model"))
    model.X[:20].to_csv(tmp_path / "rows.csv", index=False)
    paths = [str(tmp_path / name) for name in ("model", "rows.csv", "values.csv")]
    assert main(["explain", paths[0], paths[1], "--out", paths[2]]) == 0
    found = np.loadtxt(paths[2], delimiter=",", skiprows=1)
    np.testing.assert_allclose(
        found, TreeExplainer(model.model).shap_values(model.X[:20]), rtol=1e-12, atol=1e-12
    )


def test_compressed_nodes_and_names_with_a_prefix_are_read(tmp_path: Path) -> None:
    model = ydf.deserialize_model(zoo.load("ydf_forest").model.serialize())
    model.set_node_format(ydf.NodeFormat.BLOB_SEQUENCE_GZIP)
    options = ydf.ModelIOOptions(file_prefix="some_")
    model.save(str(tmp_path), options)
    zoo.assert_same_trees(import_model(tmp_path), import_model(model))
    model.save(str(tmp_path), ydf.ModelIOOptions(file_prefix="other_"))
    with pytest.raises(FileFormatError, match="it holds 2 models"):
        import_model(tmp_path)


def _damaged(path: Path, whole: dict[str, bytes], name: str, content: bytes) -> None:
    for own, data in whole.items():
        (path / own).write_bytes(content if own == name else data)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ydf") / "model"
    zoo.load("ydf_forest_labels").model.save(str(path))
    return path


def test_a_directory_that_is_cut_short_is_refused(saved: Path, tmp_path: Path) -> None:
    """At every length of the small files, and at many of the nodes' file; a file may also be absent."""
    whole = {path.name: path.read_bytes() for path in saved.iterdir()}
    n_refused = 0
    for name, data in whole.items():
        for length in {*range(min(len(data), 30)), *range(30, len(data), 1 + len(data) // 30)}:
            _damaged(tmp_path, whole, name, data[:length])
            try:
                import_model(tmp_path)
            except (FileFormatError, UnsupportedModelError):
                n_refused += 1
            else:  # what we do not read is at the end of these
                assert name in ("header.pb", "random_forest_header.pb"), (name, length)
    assert n_refused > 100
    for name in set(whole) - {"done"}:
        copy = tmp_path / "copy"
        shutil.copytree(saved, copy)
        (copy / name).unlink()
        with pytest.raises(FileFormatError):
            import_model(copy)
        shutil.rmtree(copy)


def test_a_damaged_directory_is_read_or_refused(saved: Path, tmp_path: Path) -> None:
    """Bytes changed anywhere: an error of ours, or trees that hold together."""
    whole = {path.name: path.read_bytes() for path in saved.iterdir()}
    names = [name for name, data in whole.items() if data]
    rng = np.random.default_rng(0)
    n_refused = 0
    for _ in range(200):
        name = names[rng.integers(len(names))]
        damaged = bytearray(whole[name])
        for at in rng.integers(len(damaged), size=rng.integers(1, 4)).tolist():
            damaged[at] = int(rng.choice([0, 1, 2, 127, 128, 255, int(rng.integers(256))]))
        _damaged(tmp_path, whole, name, bytes(damaged))
        try:
            import_model(tmp_path)
        except (FileFormatError, UnsupportedModelError):
            n_refused += 1
    assert n_refused > 40


# -- what is refused ------------------------------------------------------------------------------------


def test_nodes_of_several_columns_are_refused_with_the_reason() -> None:
    rows = numeric_rows(missing=0.0)
    model = train("RandomForestLearner", columns(rows), target(rows), split_axis="SPARSE_OBLIQUE")
    with pytest.raises(UnsupportedModelError, match=r"weighted sum of several columns.*'AXIS_ALIGNED'"):
        import_model(model)


def test_columns_of_sets_are_refused() -> None:
    rows = numeric_rows(missing=0.0)
    words = [["a", "b"] if x > 0 else ["c"] for x in rows[:, 0]]
    features = [ydf.Feature("words", ydf.Semantic.CATEGORICAL_SET)]
    model = train("RandomForestLearner", {**columns(rows), "words": words}, target(rows), features=features)
    with pytest.raises(
        UnsupportedModelError, match="Column 'words' of this model holds several values in a row"
    ):
        import_model(model)


def test_other_kinds_of_models_are_refused(tmp_path: Path) -> None:
    """Effects of treatments are not what a leaf predicts; isolation forests bend the mean of their depths."""
    rows = numeric_rows(missing=0.0)
    treatment = np.where(rows[:, 3] > 0, "yes", "no")
    options = {"task": "NUMERICAL_UPLIFT", "uplift_treatment": "treatment"}
    model = train("RandomForestLearner", {**columns(rows), "treatment": treatment}, target(rows), **options)
    with pytest.raises(UnsupportedModelError, match="Supported are random forests and gradient boosted"):
        import_model(model)
    isolation = ydf.IsolationForestLearner(num_trees=3).train(columns(rows))
    isolation.save(str(tmp_path))
    with pytest.raises(UnsupportedModelError, match="of the kind 'ISOLATION_FOREST'"):
        import_model(tmp_path)
    with pytest.raises(UnsupportedModelError, match="Cannot read a model of class ydf"):
        import_model(isolation)


# -- covers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["REGRESSION", "CLASSIFICATION"])
@pytest.mark.parametrize("is_pure", [False, True])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("learner", ["RandomForestLearner", "GradientBoostedTreesLearner"])
def test_covers_are_the_training_rows(learner: str, is_weighted: bool, is_pure: bool, task: str) -> None:
    """By their weights, if leaves say so; boosted trees that are made for serving know their number only."""
    rows = numeric_rows(missing=0.0)
    outcome = target(rows) if task == "REGRESSION" else classes(rows, 3)
    weights = np.random.default_rng(0).integers(1, 9, len(rows)).astype(np.float32) / 4
    options: dict[str, Any] = {"task": task, "pure_serving_model": is_pure}
    if learner == "RandomForestLearner":
        options["bootstrap_training_dataset"] = False
    if is_weighted:
        options["weights"] = "weight"
    model = train(
        learner, {**columns(rows), "weight": weights} if is_weighted else columns(rows), outcome, **options
    )
    counts = not is_weighted or (learner == "GradientBoostedTreesLearner" and is_pure)
    counted = TreeExplainer(
        model,
        data=frame(rows),
        data_weights=None if counts else weights,
        feature_perturbation="tree_path_dependent",
    ).ensemble.cover
    # A background's weights are shares of the whole, and a single leaf's cover says nothing.
    ensemble = import_model(model)
    found = ensemble.cover / ensemble.cover[ensemble.tree_offsets[:-1]][ensemble.tree_of_node]
    expected = counted / counted[ensemble.tree_offsets[:-1]][ensemble.tree_of_node]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


# -- rows -----------------------------------------------------------------------------------------------


def test_rows_of_every_kind_are_predicted_as_ydf_predicts_a_frame() -> None:
    """Arrays by position, also those of objects; shuffled columns; Arrow; one row."""
    model = zoo.load("ydf_boosted_labels")
    table = model.X[:30]
    expected = raw_prediction(model.model, table)
    as_objects = table.to_numpy(dtype=object)
    arrow = pytest.importorskip("pyarrow").Table.from_pandas(table)
    polars = pytest.importorskip("polars").from_pandas(table)
    for X in (as_objects, table[table.columns[::-1]], arrow, polars):
        np.testing.assert_array_equal(raw_prediction(model.model, X), expected)
        np.testing.assert_allclose(
            import_model(model.model).predict(read_rows(X, import_model(model.model).row_format)[:]),
            expected,
            atol=1e-5,
        )
    values = TreeExplainer(model.model).shap_values(table)
    np.testing.assert_allclose(
        TreeExplainer(model.model).shap_values(table.iloc[3]), values[3], rtol=0, atol=1e-14
    )


def test_a_column_of_several_numbers_is_several_columns() -> None:
    """YDF takes them in one two-dimensional array, and calls them 'f.0_of_5' and so on."""
    rows = numeric_rows()
    model = train("GradientBoostedTreesLearner", {"f": rows.astype(np.float32)}, target(rows))
    explanation = TreeExplainer(model)(rows[:20])
    theirs = model.predict({"f": rows[:20].astype(np.float32)})
    np.testing.assert_allclose(explanation.values.sum(axis=1) + explanation.base_values, theirs, atol=1e-5)
    assert explanation.feature_names[0] == "f.0_of_5"


def test_a_missing_label_and_one_never_seen_go_their_own_ways() -> None:
    """As in YDF, which takes a missing one for the most frequent; saved and loaded, too."""
    model = zoo.load("ydf_forest_table").model
    table = zoo.load("ydf_forest_table").X[:1]
    table = table.loc[[0] * 4].assign(f0=[None, "", "never seen", "<OOD>"])
    theirs = model.predict(table)
    assert theirs[0] == theirs[1] != theirs[2] == theirs[3]
    np.testing.assert_allclose(raw_prediction(model, table)[:, 0], theirs)
    explanation = TreeExplainer(model)(table)
    np.testing.assert_allclose(explanation.values.sum(axis=1) + explanation.base_values, theirs, atol=1e-6)


def test_a_saved_explainer_still_tells_them_apart(tmp_path: Path) -> None:
    explainer = TreeExplainer(zoo.load("ydf_forest_table").model)
    table = zoo.load("ydf_forest_table").X[:4].assign(f0=[None, "", "never seen", "red"])
    explainer.save(tmp_path / "saved.safetensors")
    assert b'"version":"4"' in (tmp_path / "saved.safetensors").read_bytes()
    loaded = TreeExplainer.load(tmp_path / "saved.safetensors")
    np.testing.assert_array_equal(loaded.shap_values(table), explainer.shap_values(table))
    assert loaded.ensemble.row_format == explainer.ensemble.row_format


def test_missing_truth_values_are_refused_by_ydf_and_explained_by_us() -> None:
    """YDF's Python takes none; its tables do, and its nodes say where they go."""
    model = zoo.load("ydf_forest_whole_numbers")
    table = model.X[:3].astype({"f1": object})
    table.loc[0, "f1"] = None
    with pytest.raises(InputError, match="RandomForestModel itself does not predict these rows"):
        TreeExplainer(model.model).shap_values(table)
    values = TreeExplainer(model.model).shap_values(table, check_additivity=False)
    assert np.isfinite(values).all()


# -- outputs --------------------------------------------------------------------------------------------


def test_probabilities_of_boosted_trees_are_explained_with_a_background() -> None:
    """YDF's own predictions, which a copy of the model with logits leaves as they are."""
    for name in ("ydf_boosted_binary", "ydf_boosted_classes"):
        model = zoo.load(name)
        explainer = TreeExplainer(model.model, data=model.X[:20], model_output="probability")
        explanation = explainer(model.X[:10])
        theirs = model.model.predict(model.X[:10])
        np.testing.assert_allclose(
            (explanation.values.sum(axis=1) + explanation.base_values).reshape(theirs.shape),
            theirs,
            atol=1e-6,
        )
        assert not model.model.output_logits()


def test_the_mean_of_a_poisson_loss_is_explained_with_a_background() -> None:
    model = zoo.load("ydf_boosted_poisson")
    explanation = TreeExplainer(model.model, data=model.X[:20], model_output="predict")(model.X[:10])
    total = (explanation.values.sum(axis=1) + explanation.base_values).ravel()
    np.testing.assert_allclose(total, model.model.predict(model.X[:10]), rtol=1e-5)
