"""XGBoost models: what `test_importers.py` cannot see in predictions, objectives, and files."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zoo
from zoo_rows import N_ROWS, classes, numeric_rows, target
from zoo_xgboost import dart_parameters

from linear_treeshap import TreeExplainer
from linear_treeshap.errors import FileFormatError, ModelError, UnsupportedModelError
from linear_treeshap.importers.xgboost import raw_prediction, read_file, to_ensemble
from linear_treeshap.model.ensemble import TreeEnsemble

xgboost = pytest.importorskip("xgboost")


def train(rows: zoo.Rows, labels: Any, n_rounds: int = 4, **parameters: Any) -> Any:
    return xgboost.train(
        {"nthread": 1, "max_depth": 3, **parameters}, xgboost.DMatrix(rows, labels), n_rounds
    )


@pytest.mark.parametrize("suffix", ["ubj", "json"])
@pytest.mark.parametrize("name", zoo.names("xgboost"))
def test_a_file_gives_the_same_trees_as_the_booster(name: str, suffix: str, tmp_path: Path) -> None:
    """JSON writes a float32 so that it reads back unchanged, hence the trees are equal to the last bit."""
    model = zoo.load(name).model
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    path = tmp_path / f"model.{suffix}"
    booster.save_model(path)
    zoo.assert_same_trees(read_file(path), to_ensemble(booster))


OBJECTIVES: dict[str, dict[str, Any]] = {
    "binary:hinge": {},
    "binary:logistic": {},
    "binary:logitraw": {},
    "count:poisson": {},
    "multi:softmax": {"num_class": 2},
    "multi:softprob": {"num_class": 2},
    "rank:map": {},
    "rank:ndcg": {},
    "rank:pairwise": {},
    "reg:absoluteerror": {},
    "reg:gamma": {},
    "reg:logistic": {},
    "reg:pseudohubererror": {},
    "reg:quantileerror": {"quantile_alpha": [0.2, 0.5, 0.8]},
    "reg:squarederror": {},
    "reg:squaredlogerror": {},
    "reg:tweedie": {},
    "survival:aft": {},
    "survival:cox": {},
}


@pytest.mark.parametrize("base_score", [None, 0.25])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_base_score_of_every_objective_becomes_a_margin(objective: str, base_score: float | None) -> None:
    """It is stored as the objective predicts: a probability, a rate, a number; one, or one per output."""
    rows = numeric_rows()
    labels = classes(rows, 2) + (objective == "reg:gamma")
    data = xgboost.DMatrix(rows, labels)
    if objective.startswith("rank:"):
        data.set_group([N_ROWS // 4] * 4)
    if objective == "survival:aft":
        data.set_float_info("label_lower_bound", labels + 1.0)
        data.set_float_info("label_upper_bound", labels + 2.0)
    parameters = {"objective": objective, "nthread": 1, "max_depth": 3, **OBJECTIVES[objective]}
    if base_score is not None:
        parameters["base_score"] = base_score
    model = xgboost.train(parameters, data, 3)
    # float32 sums of four terms, each rounded at most to half an ulp of the largest partial sum
    np.testing.assert_allclose(
        to_ensemble(model).predict(rows), raw_prediction(model, rows), rtol=2e-6, atol=2e-6
    )


@pytest.mark.parametrize("base_score", [None, 0.25])
@pytest.mark.parametrize("objective", ["binary:logistic", "count:poisson", "reg:squarederror"])
def test_base_score_of_a_model_without_rounds(objective: str, base_score: float | None) -> None:
    """XGBoost 3 takes a score that it has not estimated yet, but not one that was given, for a margin."""
    rows = numeric_rows()
    parameters = {} if base_score is None else {"base_score": base_score}
    model = train(rows, classes(rows, 2), n_rounds=0, objective=objective, **parameters)
    np.testing.assert_allclose(to_ensemble(model).predict(rows), raw_prediction(model, rows), rtol=2e-6)


@pytest.mark.parametrize("objective", ["binary:logistic", "count:poisson"])
def test_a_base_score_near_no_margin_is_rounded_as_xgboost_rounds_it(objective: str) -> None:
    """Its odds are float32, hence off by 6e-8 however small the margin itself is."""
    rows = numeric_rows()
    labels = classes(rows, 2)
    centre = 0.5 if objective == "binary:logistic" else 1.0
    for base_score in centre + np.random.default_rng(0).normal(scale=1e-3, size=20):
        model = train(rows, labels, 1, objective=objective, base_score=float(base_score), eta=0.0)
        (margin,) = np.unique(raw_prediction(model, rows))
        assert abs(margin) < 0.02
        # one ulp, because the C library may round its logarithm otherwise
        np.testing.assert_allclose(to_ensemble(model).base_values, margin, rtol=1.2e-7)


def test_an_unknown_objective_is_refused(tmp_path: Path) -> None:
    """Without its link the base score would be a guess."""
    path = saved_with(tmp_path, lambda learner: learner["objective"].update(name="reg:mystery"))
    with pytest.raises(UnsupportedModelError, match="reg:mystery"):
        read_file(path)


def saved_with(tmp_path: Path, change: Any, **parameters: Any) -> Path:
    """A JSON file of a small model after ``change`` was made to its learner."""
    rows = numeric_rows()
    document = json.loads(train(rows, classes(rows, 2), **parameters).save_raw("json"))
    change(document["learner"])
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    return path


def test_base_score_may_be_one_plain_number(tmp_path: Path) -> None:
    """Until XGBoost 3.0 it was a number, since then it is a list; both are text."""

    def write_as_number(learner: dict[str, Any]) -> None:
        learner["learner_model_param"]["base_score"] = "2.5E-1"

    path = saved_with(tmp_path, write_as_number, objective="binary:logistic")
    np.testing.assert_allclose(read_file(path).base_values, [np.log(0.25 / 0.75)])


@pytest.mark.parametrize("nested", [True, False])
def test_dart_weights_are_read_from_both_layouts(tmp_path: Path, nested: bool) -> None:
    """Beside a nested tree model until 3.2, inside the tree model since."""

    def rearrange(learner: dict[str, Any]) -> None:
        booster = learner["gradient_booster"]
        model = booster["gbtree"]["model"] if "gbtree" in booster else booster["model"]
        weights = booster.pop("weight_drop", None) or model.pop("weight_drop")
        assert len(set(weights)) > 1, "this model does not put the weights to the test"
        if nested:
            booster = {"name": "dart", "gbtree": {"name": "gbtree", "model": model}, "weight_drop": weights}
        else:
            booster = {"name": "gbtree", "model": {**model, "weight_drop": weights}}
        learner["gradient_booster"] = booster

    parameters = {**dart_parameters(), "n_rounds": 8}
    rows = numeric_rows()
    original = to_ensemble(train(rows, classes(rows, 2), **parameters))
    zoo.assert_same_trees(read_file(saved_with(tmp_path, rearrange, **parameters)), original)


def test_an_early_stopped_wrapper_is_read_up_to_its_best_round_and_its_booster_as_a_whole() -> None:
    """Exactly as their own predict() methods do."""
    model = zoo.load("xgboost_early_stopped").model
    n_rounds = model.get_booster().num_boosted_rounds()
    assert model.best_iteration + 1 < n_rounds
    assert to_ensemble(model).n_trees == model.best_iteration + 1
    assert to_ensemble(model.get_booster()).n_trees == n_rounds


def test_raw_prediction_of_a_dmatrix_uses_the_trees_that_were_read() -> None:
    """A wrapper's predict() refuses a DMatrix; its best iteration must hold all the same."""
    model = zoo.load("xgboost_early_stopped")
    data = xgboost.DMatrix(model.rows)
    np.testing.assert_array_equal(raw_prediction(model.model, data), raw_prediction(model.model, model.rows))


def test_trees_add_to_the_class_that_the_model_names() -> None:
    """With several trees per round and class, tree i is not class i % 3."""
    ensemble = to_ensemble(zoo.load("xgboost_boosted_forest").model)
    assert ensemble.tree_output[:6].tolist() == [0, 0, 1, 1, 2, 2]
    assert ensemble.output_names == ("0", "1", "2")


def test_both_kinds_of_category_splits_are_met() -> None:
    """One category against the rest, and one set against another."""
    ensemble = to_ensemble(zoo.load("xgboost_categorical").model)
    sizes = np.diff(ensemble.category_offsets)
    assert sizes.min() == 1
    assert sizes.max() > 1


def test_what_a_row_must_look_like() -> None:
    """float32, entries absent from sparse rows are missing, and so is the wrapper's own marker."""
    row_format = to_ensemble(zoo.load("xgboost_own_missing_value").model).row_format
    assert (row_format.dtype, row_format.absent_is_missing, row_format.missing_value) == (
        "float32",
        True,
        -999.0,
    )


def test_deleted_nodes_are_taken_out() -> None:
    """Pruned nodes stay in XGBoost's arrays, out of reach."""
    model = zoo.load("xgboost_pruned").model
    trees = json.loads(model.get_booster().save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    deleted = sum(int(tree["tree_param"]["num_deleted"]) for tree in trees)
    assert deleted > 0
    assert to_ensemble(model).n_nodes == sum(len(tree["left_children"]) for tree in trees) - deleted


def test_covers_are_sums_of_hessians() -> None:
    """For squared error every row counts one, whatever path it takes."""
    ensemble = to_ensemble(zoo.load("xgboost_regressor").model)
    np.testing.assert_array_equal(ensemble.cover[ensemble.tree_offsets[:-1]], N_ROWS)


@pytest.mark.filterwarnings("ignore:.*gblinear:UserWarning")  # deprecated since 3.3
def test_a_linear_booster_is_refused() -> None:
    rows = numeric_rows(missing=0.0)
    with pytest.raises(UnsupportedModelError, match="gblinear"):
        to_ensemble(train(rows, target(rows), booster="gblinear", max_depth=None))


def test_an_unfitted_wrapper_is_refused() -> None:
    with pytest.raises(ModelError, match="not fitted"):
        to_ensemble(xgboost.XGBRegressor())


@pytest.mark.parametrize("suffix", ["ubj", "json"])
def test_a_file_cut_short_anywhere_is_refused(tmp_path: Path, suffix: str) -> None:
    """Every prefix raises the one error for damaged files."""
    rows = numeric_rows()
    content = bytes(train(rows, classes(rows, 2), 1).save_raw(suffix))
    path = tmp_path / f"model.{suffix}"
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(FileFormatError):
            read_file(path)


@pytest.mark.parametrize("suffix", ["ubj", "json"])
def test_a_damaged_file_never_does_more_than_raise(tmp_path: Path, suffix: str) -> None:
    """Flipped bytes give a clear error or another well-formed model, never a crash."""
    rows = numeric_rows()
    content = np.frombuffer(train(rows, classes(rows, 2), 1).save_raw(suffix), dtype=np.uint8)
    rng = np.random.default_rng(0)
    path = tmp_path / f"model.{suffix}"
    for _ in range(500):
        damaged = content.copy()
        damaged[rng.integers(len(content), size=rng.integers(1, 4))] = rng.integers(256)
        path.write_bytes(damaged.tobytes())
        with suppress(FileFormatError, ModelError):
            assert isinstance(read_file(path), TreeEnsemble)


def test_other_json_is_no_xgboost_model(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text('{"oblivious_trees": []}')
    with pytest.raises(FileFormatError, match="no XGBoost model"):
        read_file(path)


def test_a_hostile_count_allocates_nothing(tmp_path: Path) -> None:
    """An array that claims 2**60 numbers is refused before any memory is asked for."""
    path = tmp_path / "model.ubj"
    path.write_bytes(b"{i\x01a[$D#L" + (2**60).to_bytes(8, "big") + bytes(100))
    with pytest.raises(FileFormatError, match="does not fit"):
        read_file(path)


def test_a_hostile_number_of_features_is_refused(tmp_path: Path) -> None:
    """Before a name is made up for each of them."""

    def claim(learner: dict[str, Any]) -> None:
        learner["learner_model_param"]["num_feature"] = str(2**31 - 1)

    with pytest.raises(ModelError, match="n_features must be a number from 0 to 4,194,304"):
        read_file(saved_with(tmp_path, claim))


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b"{i\x01a"])
def test_deep_nesting_is_refused(tmp_path: Path, opening: bytes) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"{" + opening * 200_000)
    with pytest.raises(FileFormatError):
        read_file(path)


@pytest.mark.parametrize("score", [0.0, 1.0, 1e-8, 0.9999999, 2e-6, 0.3])
def test_base_scores_near_the_ends_are_those_of_the_release(score: float) -> None:
    """Labels of one class have a base score of 0 or 1: refused before XGBoost 3.2, and rounded since."""
    X = np.random.default_rng(0).normal(size=(20, 2))
    matrix = xgboost.DMatrix(X, X[:, 0] > 0)
    parameters = {"objective": "binary:logistic", "base_score": score, "max_depth": 1, "nthread": 1}
    try:
        booster = xgboost.train(parameters, matrix, 1)
    except xgboost.core.XGBoostError:
        pytest.skip("this release refuses the base score")
    margin = booster.predict(matrix, pred_contribs=True)[:, -1]
    ours = to_ensemble(booster)
    expected = TreeExplainer(ours).expected_value
    np.testing.assert_allclose(expected, margin[0], rtol=1e-6)  # float32


def test_labels_that_are_all_zero_have_no_margin() -> None:
    """XGBoost predicts minus infinity for every row, or NaN."""
    X = np.random.default_rng(0).normal(size=(20, 2))
    model = xgboost.XGBRegressor(objective="count:poisson", base_score=0.0, n_estimators=1, n_jobs=1)
    with pytest.raises(ModelError, match="no finite margin under the objective 'count:poisson'"):
        to_ensemble(model.fit(X, np.zeros(20)))
