"""CatBoost models: what `test_importers.py` cannot see in predictions, and files."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zoo
from zoo_catboost import catboost_regressor_on
from zoo_rows import N_ROWS, numeric_rows, target

from linear_treeshap.errors import FileFormatError, InputError, ModelError, UnsupportedModelError
from linear_treeshap.explainer import TreeExplainer
from linear_treeshap.importers.catboost import read_file, to_ensemble
from linear_treeshap.model.ensemble import TreeEnsemble
from linear_treeshap.rows.city_hash import category_hash
from linear_treeshap.rows.rows import read_rows

catboost = pytest.importorskip("catboost")
pandas = pytest.importorskip("pandas")


@pytest.mark.parametrize("name", zoo.names("catboost"))
def test_a_file_gives_the_same_trees_as_the_model(name: str, tmp_path: Path) -> None:
    model = zoo.load(name).model
    path = tmp_path / "model.cbm"
    model.save_model(str(path))
    zoo.assert_same_trees(read_file(path), to_ensemble(model))


def test_leaves_without_training_rows_are_kept() -> None:
    """A symmetric tree of depth 8 has 256 leaves, whatever reached them."""
    model = zoo.load("catboost_zero_cover").model
    ensemble = to_ensemble(model)
    assert ensemble.n_leaves == sum(model.get_tree_leaf_counts())
    assert (ensemble.cover[ensemble.is_leaf] == 0).mean() > 0.5
    assert np.isfinite(ensemble.expected_value).all()


@pytest.mark.parametrize("name", ["catboost_regressor", "catboost_depthwise", "catboost_lossguide"])
def test_covers_are_sums_of_leaf_weights(name: str) -> None:
    """Every training row counts one and reaches the root."""
    ensemble = to_ensemble(zoo.load(name).model)
    np.testing.assert_array_equal(ensemble.cover[ensemble.tree_offsets[:-1]], N_ROWS)


def test_nodes_that_are_leaves_in_one_direction_get_a_leaf_of_their_own() -> None:
    """CatBoost lets a walk end at an inner node; the number of leaves must come out all the same."""
    model = zoo.load("catboost_lossguide").model
    ensemble = to_ensemble(model)
    assert ensemble.n_leaves == sum(model.get_tree_leaf_counts())
    assert ensemble.width == 3


def test_classes_are_named() -> None:
    assert to_ensemble(zoo.load("catboost_multiclass").model).output_names == ("high", "low", "middle")


def test_nan_mode_decides_where_missing_values_go() -> None:
    """Min: below every border, hence left. Max: above every border, hence right."""
    lowest = to_ensemble(zoo.load("catboost_regressor").model)
    highest = to_ensemble(zoo.load("catboost_nan_above_all").model)
    assert lowest.missing_left[~lowest.is_leaf].all()
    assert not highest.missing_left.any()


def test_scale_and_bias_are_in_the_numbers() -> None:
    plain, scaled = (to_ensemble(zoo.load(f"catboost_{name}").model) for name in ("regressor", "scaled"))
    np.testing.assert_allclose(scaled.value, -2.5 * plain.value, rtol=1e-15)
    np.testing.assert_array_equal(scaled.base_values, [7.0])


def test_feature_names_are_kept_where_there_are_any() -> None:
    assert to_ensemble(zoo.load("catboost_one_hot").model).feature_names == ("f0", "f1", "f2", "f3", "f4")
    assert to_ensemble(zoo.load("catboost_regressor").model).feature_names is None


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 7, 8, 9, 16, 17, 32, 33, 64, 65, 127, 128, 129, 300])
def test_hashes_are_those_of_catboost(size: int) -> None:
    """Labels of every length that the hash treats apart: CatBoost finds the category that we find."""
    labels = ["é" * (size // 2) + "x" * (size % 2), "another"]
    rng = np.random.default_rng(0)
    chosen = rng.integers(2, size=N_ROWS)
    frame = pandas.DataFrame({"label": [labels[i] for i in chosen], "noise": rng.normal(size=N_ROWS)})
    model = catboost_regressor_on(frame, chosen * 4.0, cat_features=["label"], one_hot_max_size=5, depth=1)
    known = to_ensemble(model).row_format.hashes[0]
    assert set(known) <= {category_hash(label) for label in labels}
    assert known


def test_a_category_is_known_by_its_text() -> None:
    """7, "7" and True == 1 are what CatBoost takes them for; what it has not seen is in no set."""
    row_format = to_ensemble(zoo.load("catboost_one_hot").model).row_format
    frame = pandas.DataFrame({"f0": ["red", "green", "mauve"], "f1": [20, 10, 777]})
    frame[["f2", "f3", "f4"]] = 0.0
    as_text = frame.assign(f1=frame["f1"].astype(str))
    rows = read_rows(frame, row_format)[0:3]
    np.testing.assert_array_equal(rows, read_rows(as_text, row_format)[0:3])
    assert np.isnan(rows[2, :2]).all()
    assert not np.isnan(rows[0, 0])


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: rng.choice(["v", "w", ""], N_ROWS),
        lambda rng: rng.random(N_ROWS) < 0.5,
        lambda rng: rng.integers(-3, 3, N_ROWS),
        lambda rng: pandas.Categorical(rng.choice([10, 20, 30], N_ROWS)),
        lambda rng: pandas.array(rng.choice(["v", "w"], N_ROWS), dtype="string"),
        lambda rng: rng.choice([2**53 + 1, 2**53, 2**60], N_ROWS),
    ],
    ids=["text", "truth", "whole numbers", "categories", "strings", "beyond float64"],
)
@pytest.mark.parametrize("is_used", [True, False], ids=["used", "unused"])
def test_a_column_of_categories_is_read_whether_trees_use_it_or_not(make: Any, is_used: bool) -> None:
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"a": rng.normal(size=N_ROWS), "s": make(rng), "b": rng.normal(size=N_ROWS)})
    outcome = frame["a"] + 3.0 * is_used * pandas.factorize(frame["s"])[0]
    model = catboost_regressor_on(frame, outcome, cat_features=["s"], one_hot_max_size=10, depth=2)
    own = model.get_feature_importance(catboost.Pool(frame, cat_features=["s"]), type="ShapValues")
    assert is_used == bool(np.abs(own[:, 1]).max() > 1e-3)
    # Sums of a few leaves in another order.
    np.testing.assert_allclose(TreeExplainer(model).shap_values(frame), own[:, :-1], rtol=1e-10, atol=1e-12)


def test_a_fraction_is_no_category() -> None:
    """CatBoost refuses real numbers as categories, and so do we."""
    row_format = to_ensemble(zoo.load("catboost_one_hot").model).row_format
    frame = pandas.DataFrame({"f0": ["red"], "f1": [1.5], "f2": [0.0], "f3": [0.0], "f4": [0.0]})
    with pytest.raises(InputError, match="whole number"):
        read_rows(frame, row_format)


def test_an_unfitted_model_is_refused() -> None:
    with pytest.raises(ModelError, match="not fitted"):
        to_ensemble(catboost.CatBoostRegressor())


def small_file(tmp_path: Path, **parameters: Any) -> tuple[Path, bytes]:
    rows = numeric_rows()
    path = tmp_path / "model.cbm"
    catboost_regressor_on(rows, target(rows), **{"iterations": 2, **parameters}).save_model(str(path))
    return path, path.read_bytes()


def test_a_file_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    path, content = small_file(tmp_path)
    for size in range(0, len(content), 41):
        path.write_bytes(content[:size])
        with pytest.raises(FileFormatError):
            read_file(path)


@pytest.mark.parametrize("grow_policy", ["SymmetricTree", "Lossguide"])
def test_a_damaged_file_never_does_more_than_raise(tmp_path: Path, grow_policy: str) -> None:
    """Changed bytes give a clear error or another well-formed model, never a crash."""
    path, content = small_file(tmp_path, grow_policy=grow_policy)
    rng = np.random.default_rng(0)
    for _ in range(1000):
        damaged = np.frombuffer(content, dtype=np.uint8).copy()
        damaged[rng.integers(len(content), size=rng.integers(1, 40))] = rng.integers(256)
        path.write_bytes(damaged.tobytes())
        with suppress(FileFormatError, ModelError):
            assert isinstance(read_file(path), TreeEnsemble)


def test_a_model_without_leaf_weights_is_refused(tmp_path: Path) -> None:
    """Without them nothing says how much training data reached a leaf."""
    path, content = small_file(tmp_path)
    model = catboost.CatBoost().load_model(str(path))
    weights = model.get_leaf_weights().astype("<f8").tobytes()
    length = (len(weights) // 8).to_bytes(4, "little")
    at = content.index(length + weights)
    path.write_bytes(content[:at] + bytes(4) + content[at + 4 :])
    with pytest.raises(UnsupportedModelError, match="leaf weights"):
        read_file(path)


@pytest.mark.parametrize(
    "growth", [{"depth": 14}, {"grow_policy": "Lossguide", "depth": 16, "max_leaves": 600, "iterations": 20}]
)
def test_reading_needs_little_memory(growth: dict[str, Any], tmp_path: Path) -> None:
    """At most three times what the arrays take."""
    path, _ = small_file(tmp_path, **growth)
    assert zoo.memory_to_read(lambda: read_file(path)) <= 3


@pytest.mark.parametrize("content", [b"CBM1", b"CBM1\x05", b"CBM1\x05\0\0\0", b"CBM1\x05\0\0\0abcd"])
def test_a_file_cut_short_says_how_much_came(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.cbm"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=rf"cut short: \d+ bytes expected, {len(content)} came"):
        read_file(path)
