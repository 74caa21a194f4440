"""LightGBM models: what `test_importers.py` cannot see in predictions, and files."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zoo
from zoo_lightgbm import lightgbm_regressor_on
from zoo_rows import N_ROWS, coded_rows, coded_target, labelled_frame, numeric_rows, target

from linear_treeshap.errors import FileFormatError, InputError, ModelError, UnsupportedModelError
from linear_treeshap.explainer import TreeExplainer
from linear_treeshap.importers.lightgbm import raw_prediction, read_file, to_ensemble
from linear_treeshap.model.ensemble import TreeEnsemble

lightgbm = pytest.importorskip("lightgbm")


def booster_of(model: Any) -> Any:
    return getattr(model, "booster_", model)


@pytest.mark.parametrize("name", zoo.names("lightgbm"))
def test_a_file_gives_the_same_trees_as_the_model(name: str, tmp_path: Path) -> None:
    """The file ends at the best iteration too, unless it is asked not to."""
    model = zoo.load(name).model
    path = tmp_path / "model.txt"
    booster_of(model).save_model(path)
    zoo.assert_same_trees(read_file(path), to_ensemble(model))


def test_a_random_forest_averages_its_trees() -> None:
    """predict() does; only with raw_score=True LightGBM forgets to, and we do not follow it there."""
    rows = numeric_rows()
    model = lightgbm_regressor_on(rows, target(rows), boosting_type="rf", subsample=0.5, subsample_freq=1)
    np.testing.assert_allclose(to_ensemble(model).predict(rows)[:, 0], model.predict(rows), rtol=1e-12)
    np.testing.assert_allclose(raw_prediction(model, rows)[:, 0], model.predict(rows), rtol=1e-12)


def test_columns_with_spaces_in_their_names_are_found() -> None:
    """LightGBM writes underscores instead; the explanation speaks of the user's own names."""
    frame = pytest.importorskip("pandas").DataFrame(numeric_rows(), columns=["a b", "c", "d e f", "g_h", "i"])
    model = lightgbm_regressor_on(frame, target(frame.to_numpy()))
    explainer = TreeExplainer(model)
    assert explainer(frame).feature_names == tuple(frame.columns)
    shuffled = frame[frame.columns[::-1]]
    np.testing.assert_array_equal(explainer.shap_values(shuffled)[:, ::-1], explainer.shap_values(frame))
    with pytest.raises(InputError, match="Missing: 'a_b'"):
        explainer(frame.rename(columns={"a b": "a-b"}))


def test_an_early_stopped_model_is_read_up_to_its_best_round() -> None:
    """As predict() does; a Booster may hold more rounds than that, a wrapper throws them away."""
    rows = numeric_rows()
    data, noise = lightgbm.Dataset(rows, target(rows)), np.random.default_rng(0).normal(size=N_ROWS)
    model = lightgbm.train(
        {"num_threads": 1, "verbose": -1, "learning_rate": 0.9},
        data,
        50,
        valid_sets=[data.create_valid(rows, target(rows) + noise)],
        callbacks=[lightgbm.early_stopping(5, verbose=False)],
        keep_training_booster=True,
    )
    assert 0 < model.best_iteration < model.current_iteration()
    assert to_ensemble(model).n_trees == model.best_iteration
    np.testing.assert_allclose(to_ensemble(model).predict(rows), raw_prediction(model, rows), rtol=1e-12)


def test_classes_take_turns_and_are_named() -> None:
    ensemble = to_ensemble(zoo.load("lightgbm_multiclass").model)
    assert ensemble.tree_output[:4].tolist() == [0, 1, 2, 0]
    assert ensemble.output_names == ("high", "low", "middle")


def test_missing_types_become_directions() -> None:
    """None: NaN goes where zero goes. Zero: zeros become missing rows. NaN: the default direction."""
    never = to_ensemble(zoo.load("lightgbm_never_missing").model)
    inner = ~never.is_leaf
    np.testing.assert_array_equal(never.missing_left[inner], never.threshold[inner] >= 0)
    assert to_ensemble(zoo.load("lightgbm_zero_as_missing").model).row_format.zero_is_missing
    assert not to_ensemble(zoo.load("lightgbm_regressor").model).row_format.zero_is_missing


def test_zero_and_nan_told_apart_by_some_trees_only_is_refused() -> None:
    """Training that goes on with another zero_as_missing leaves trees that read one row in two ways."""
    rows = numeric_rows(n_features=3)
    rows[::7] = 0.0
    parameters = {"num_threads": 1, "verbose": -1, "num_leaves": 12, "min_data_in_leaf": 5}

    def train(zero_as_missing: bool, init_model: Any = None) -> Any:
        data = lightgbm.Dataset(rows, target(rows), params={"zero_as_missing": zero_as_missing})
        settings = {**parameters, "zero_as_missing": zero_as_missing}
        return lightgbm.train(settings, data, 5, init_model=init_model)

    with pytest.raises(UnsupportedModelError, match="zero_as_missing"):
        to_ensemble(train(True, init_model=train(False)))


def test_sets_span_several_words_of_bits() -> None:
    """A column of 70 categories needs three words; codes beyond the first 32 and 64 must come out right."""
    ensemble = to_ensemble(zoo.load("lightgbm_categorical").model)
    assert max(ensemble.category_codes) >= 64
    assert np.diff(ensemble.category_offsets).max() > 1


def test_labels_of_an_ordered_column_find_their_feature() -> None:
    """LightGBM codes ordered categories but splits them as numbers, and never says which column it was."""
    rows = coded_rows()
    frame = labelled_frame(rows, {0: ["low", "middle", "high"], 1: list("abcdefghijkl")})
    frame["f0"] = frame["f0"].cat.as_ordered()
    ensemble = to_ensemble(lightgbm_regressor_on(frame, coded_target(rows)))
    assert ensemble.row_format.categories == {0: ("low", "middle", "high"), 1: tuple("abcdefghijkl")}


def test_labels_that_could_belong_to_several_features_wait_for_a_frame() -> None:
    """Better no answer than labels on the wrong column; test_lightgbm_categories.py has what comes of it."""
    rows = coded_rows()
    frame = labelled_frame(rows, {1: list("abcdefghijkl")})
    model = lightgbm_regressor_on(frame, coded_target(rows), categorical_feature=[0, 1])
    row_format = to_ensemble(model).row_format
    assert (row_format.categories, row_format.frame_labels) == ({}, (tuple("abcdefghijkl"),))


def test_columns_of_an_array_have_no_names() -> None:
    """LightGBM calls them Column_0, Column_1, …, which is nothing to match a data frame against."""
    assert to_ensemble(zoo.load("lightgbm_regressor").model).feature_names is None
    assert to_ensemble(zoo.load("lightgbm_booster").model).feature_names == tuple("abcde")


def test_covers_are_counts_of_training_rows() -> None:
    ensemble = to_ensemble(zoo.load("lightgbm_binary").model)
    np.testing.assert_array_equal(ensemble.cover[ensemble.tree_offsets[:-1]], N_ROWS)


def test_an_unfitted_wrapper_is_refused() -> None:
    with pytest.raises(ModelError, match="not fitted"):
        to_ensemble(lightgbm.LGBMRegressor())


@pytest.fixture
def small_model_text() -> str:
    rows = coded_rows()
    small = {"n_estimators": 2, "num_leaves": 5, "categorical_feature": [0, 1]}
    return str(lightgbm_regressor_on(rows, coded_target(rows), **small).booster_.model_to_string())


def test_a_file_cut_short_anywhere_in_its_trees_is_refused(tmp_path: Path, small_model_text: str) -> None:
    path = tmp_path / "model.txt"
    for size in range(small_model_text.index("end of trees")):
        path.write_text(small_model_text[:size])
        with pytest.raises(FileFormatError):
            read_file(path)


def test_an_average_of_no_trees_is_read(tmp_path: Path, small_model_text: str) -> None:
    """Whatever it means, nothing is divided by their number."""
    head, trees = small_model_text.split("Tree=0", 1)
    head = head[: head.index("tree_sizes=")] + "tree_sizes=\n"
    path = tmp_path / "model.txt"
    path.write_text(f"{head}average_output\n\n{trees[trees.index('end of trees') :]}")
    assert read_file(path).n_trees == 0


def test_a_damaged_file_never_does_more_than_raise(tmp_path: Path, small_model_text: str) -> None:
    """Changed bytes give a clear error or another well-formed model, never a crash."""
    content = np.frombuffer(small_model_text.encode(), dtype=np.uint8)
    rng = np.random.default_rng(0)
    path = tmp_path / "model.txt"
    for _ in range(500):
        damaged = content.copy()
        where = rng.integers(content.tobytes().index(b"end of trees"), size=rng.integers(1, 4))
        damaged[where] = rng.choice(content)
        path.write_bytes(damaged.tobytes())
        with suppress(FileFormatError, ModelError):
            assert isinstance(read_file(path), TreeEnsemble)


def test_a_hostile_number_of_features_is_refused(tmp_path: Path, small_model_text: str) -> None:
    """Before a name is made up for each of them."""
    path = tmp_path / "model.txt"
    path.write_text(small_model_text.replace("max_feature_idx=4", f"max_feature_idx={2**31 - 2}"))
    with pytest.raises(ModelError, match="n_features must be a number from 0 to 4,194,304"):
        read_file(path)


def test_something_else_is_no_lightgbm_model(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    path.write_bytes(b"\xff\xfe\x00 not text")
    with pytest.raises(FileFormatError, match="begins with"):
        read_file(path)
