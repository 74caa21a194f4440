"""Every importer: our ensemble predicts what the library predicts, also where routing is hard."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zoo

from linear_treeshap import TreeExplainer, importers
from linear_treeshap.errors import FileFormatError, InputError, ModelError, UnsupportedModelError
from linear_treeshap.importers import import_model, raw_prediction
from linear_treeshap.model.ensemble import TreeEnsemble
from linear_treeshap.model.row_format import RowFormat
from linear_treeshap.rows.rows import read_rows


@pytest.fixture(params=zoo.names())
def model(request: pytest.FixtureRequest) -> zoo.ZooModel:
    return zoo.load(request.param)


def _largest_sum(ensemble: TreeEnsemble) -> float:
    """The base plus the largest leaf of each tree, in absolute numbers: the scale of rounding."""
    size = np.abs(ensemble.value).max(axis=1)
    return float(
        np.abs(ensemble.base_values).max() + np.maximum.reduceat(size, ensemble.tree_offsets[:-1]).sum()
    )


def _assert_same_prediction(model: zoo.ZooModel, rows: npt.NDArray[np.float64]) -> None:
    ensemble = import_model(model.model)
    X = model.to_input(rows)
    read = read_rows(X, ensemble.row_format)
    ours, theirs = ensemble.predict(read[0 : len(read)]), raw_prediction(model.model, X)
    assert ours.shape == theirs.shape, f"{ours.shape[1]} outputs, expected {theirs.shape[1]}"
    error = np.abs(ours - theirs).max(axis=1)
    worst = int(np.argmax(error))
    scale = max(_largest_sum(ensemble), 1e-300)
    assert error[worst] <= model.tolerance * scale, (
        f"row {worst} {rows[worst]}: {ours[worst]} instead of {theirs[worst]}"
    )


def test_prediction_equals_the_library_s_own(model: zoo.ZooModel) -> None:
    """On the rows that the model was trained on."""
    _assert_same_prediction(model, model.rows)


def test_hostile_values_are_routed_as_the_library_does(model: zoo.ZooModel) -> None:
    """Ties, one ulp either side, ±0, huge numbers, NaN, ±inf; unseen, negative, fractional categories."""
    ensemble = import_model(model.model)
    _assert_same_prediction(model, zoo.hostile_rows(model, ensemble, n_rows=400))


# -- finding the importer -----------------------------------------------------------------------------


def _data() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    rows = np.random.default_rng(0).normal(size=(60, 3))
    return rows, rows[:, 0] + rows[:, 1] * rows[:, 2]


def _stump() -> TreeEnsemble:
    return TreeEnsemble(**STUMP_ARRAYS, base_values=np.array([10.0]), row_format=RowFormat(1))


STUMP_ARRAYS: dict[str, Any] = {
    "tree_offsets": np.array([0, 3]),
    "left": np.array([1, -1, -1]),
    "right": np.array([2, -1, -1]),
    "feature": np.array([0, -1, -1]),
    "threshold": np.array([0.5, 0.0, 0.0]),
    "cover": np.array([4.0, 3.0, 1.0]),
    "value": np.array([[0.0], [1.0], [3.0]]),
}


def test_an_ensemble_is_its_own_model() -> None:
    """Whoever has built a TreeEnsemble can pass it on."""
    stump = _stump()
    assert import_model(stump) is stump
    np.testing.assert_array_equal(raw_prediction(stump, [[0.5], [0.6]]), [[11], [13]])


def test_a_class_derived_from_a_supported_one_is_read() -> None:
    """People wrap scikit-learn's classes in their own."""
    tree = pytest.importorskip("sklearn.tree")

    class OurTree(tree.DecisionTreeRegressor):  # type: ignore[misc, name-defined]
        pass

    rows, target = _data()
    model = OurTree(max_depth=3).fit(rows, target)
    np.testing.assert_allclose(import_model(model).predict(rows)[:, 0], model.predict(rows), rtol=1e-12)


class _ForestOfOthers:
    """A forest of an unknown library: it has estimators_, and combines them as it likes."""

    def __init__(self, trees: list[Any], combine: Callable[[Any], Any]) -> None:
        self.estimators_ = trees
        self.n_features_in_ = trees[0].n_features_in_
        self._combine = combine

    def predict(self, X: Any) -> Any:
        return self._combine(np.stack([tree.predict(X) for tree in self.estimators_]))


def _forest_of_others(combine: Callable[[Any], Any]) -> _ForestOfOthers:
    tree = pytest.importorskip("sklearn.tree")
    rows, target = _data()
    trees = [tree.ExtraTreeRegressor(max_depth=3, random_state=seed).fit(rows, target) for seed in range(5)]
    return _ForestOfOthers(trees, combine)


def test_an_unknown_forest_of_scikit_learn_trees_is_read_if_it_is_their_mean() -> None:
    """Duck typing, checked against the model's own prediction."""
    rows, _ = _data()
    model = _forest_of_others(lambda predictions: predictions.mean(axis=0))
    np.testing.assert_allclose(import_model(model).predict(rows)[:, 0], model.predict(rows), rtol=1e-12)


def test_an_unknown_forest_that_is_not_the_mean_of_its_trees_is_refused() -> None:
    """A median of trees is not a sum of trees."""
    model = _forest_of_others(lambda predictions: np.median(predictions, axis=0))
    with pytest.raises(UnsupportedModelError, match="does not predict the mean of its trees"):
        import_model(model)


def _make(path: str, *arguments: Any, **options: Any) -> Any:
    """An estimator of scikit-learn by its path, such as tree.DecisionTreeRegressor; not fitted."""
    module, name = path.split(".")
    return getattr(pytest.importorskip(f"sklearn.{module}"), name)(*arguments, **options)


def _tree() -> Any:
    return _make("tree.DecisionTreeClassifier", max_depth=2)


def _fitted(model: Any) -> Any:
    rows, target = _data()
    return model.fit(rows, target > 0)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "AdaBoostClassifier": (lambda: _make("ensemble.AdaBoostClassifier"), "lets its trees vote"),
    "AdaBoostRegressor": (lambda: _make("ensemble.AdaBoostRegressor"), "weighted median"),
    "ClassifierChain": (lambda: _make("multioutput.ClassifierChain", _tree()), "feeds the predictions"),
    "CVBooster": (lambda: pytest.importorskip("lightgbm").CVBooster(), "TreeExplainer.model.boosters."),
    "RegressorChain": (lambda: _make("multioutput.RegressorChain", _tree()), "feeds the predictions"),
    "OneVsRestClassifier": (lambda: _make("multiclass.OneVsRestClassifier", _tree()), "by their sum"),
    "RandomTreesEmbedding": (lambda: _make("ensemble.RandomTreesEmbedding"), "predicts nothing"),
    "bagged boosting": (
        lambda: _fitted(_make("ensemble.BaggingClassifier", _make("ensemble.GradientBoostingClassifier"), 2)),
        "this one is made of GradientBoostingClassifier",
    ),
    "boosting from another model": (
        lambda: _fitted(_make("ensemble.GradientBoostingClassifier", init=_tree())),
        "starts from the predictions of DecisionTreeClassifier",
    ),
    "boosting from chance": (
        lambda: _fitted(
            _make(
                "ensemble.GradientBoostingClassifier",
                init=_make("dummy.DummyClassifier", strategy="stratified"),
            )
        ),
        "Train it with init=None",
    ),
    "linear model": (
        lambda: _make("linear_model.LogisticRegression"),
        "LogisticRegression. Supported are: catboost.CatBoost, .*XGBModel",
    ),
    "class": (lambda: type(_tree()), "the class DecisionTreeClassifier itself"),
    "number": (lambda: 3, "Cannot read a model of class builtins.int"),
}


def test_every_refused_class_is_tested() -> None:
    """A class that joins the table of refusals joins the test below; those of Spark are tested on Spark."""
    names = [name.split(".") for name in importers.REFUSED]
    assert {name for package, name in names if package != "pyspark"} <= set(REFUSED)


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_a_sum_of_trees_is_refused_with_advice(case: str) -> None:
    """A sentence that says why and what to do instead."""
    make, message = REFUSED[case]
    with pytest.raises(UnsupportedModelError, match=message):
        import_model(make())


@pytest.mark.parametrize("name", ["DecisionTreeRegressor", "ExtraTreeClassifier"])
def test_an_unfitted_tree_says_so(name: str) -> None:
    """A forgotten fit is the commonest mistake."""
    model = _make(f"tree.{name}")
    with pytest.raises(ModelError, match=f"This {name} is not fitted yet"):
        import_model(model)


@pytest.mark.parametrize(
    "name",
    [
        "RandomForestRegressor",
        "GradientBoostingClassifier",
        "HistGradientBoostingRegressor",
        "IsolationForest",
        "BaggingRegressor",
    ],
)
def test_an_unfitted_ensemble_says_so(name: str) -> None:
    """As for a single tree."""
    model = _make(f"ensemble.{name}")
    with pytest.raises(ModelError, match=f"This {name} is not fitted yet"):
        import_model(model)


def test_a_search_without_refit_says_so() -> None:
    """There is no best estimator to explain then."""
    selection = pytest.importorskip("sklearn.model_selection")
    tree = pytest.importorskip("sklearn.tree").DecisionTreeRegressor()
    search = selection.GridSearchCV(tree, {"max_depth": [1]}, cv=2, refit=False).fit(*_data())
    with pytest.raises(ModelError, match="refit=True"):
        import_model(search)


def test_a_pipeline_stands_for_its_last_step() -> None:
    """The trees read the rows that the last step sees; the pipeline's own prediction is of raw ones."""
    pipeline = pytest.importorskip("sklearn.pipeline")
    rows, target = _data()
    steps = [_make("preprocessing.StandardScaler"), _make("tree.DecisionTreeRegressor", max_depth=3)]
    model = pipeline.make_pipeline(*steps).fit(rows, target)
    scaled = model[:-1].transform(rows)
    ours = import_model(model).predict(scaled)
    np.testing.assert_allclose(ours[:, 0], model.predict(rows), rtol=1e-12)
    np.testing.assert_array_equal(raw_prediction(model, rows), ours)


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    """A path that leads nowhere."""
    with pytest.raises(FileFormatError, match="There is no file"):
        import_model(tmp_path / "model.json")


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_labels_of_a_data_frame_are_kept_in_the_order_of_their_codes(library: str) -> None:
    """The categories that a model was trained on are in it, so a frame in another order can be re-coded."""
    row_format = import_model(zoo.load(f"{library}_categorical_frame").model).row_format
    assert row_format.feature_names == ("f0", "f1", "f2", "f3", "f4")
    assert row_format.categories == {0: ("red", "green", "blue"), 1: tuple(range(0, 120, 10))}
    assert row_format.numbers_are_codes


@pytest.mark.parametrize(
    ("name", "file_name"),
    [
        ("xgboost_binary", "model.json"),
        ("xgboost_binary", "model.ubj"),
        ("lightgbm_booster", "model.txt"),
        ("catboost_regressor", "model.cbm"),
        ("treelite_sklearn_boosting", "model.tl"),
    ],
)
def test_a_file_is_read_by_its_content(name: str, file_name: str, tmp_path: Path) -> None:
    """The first bytes decide, not the name; the path may be text."""
    model = zoo.load(name)
    path = tmp_path / file_name
    write = getattr(model.model, "save_model", None) or model.model.serialize
    write(str(path))
    expected = import_model(model.model).predict(model.rows)
    np.testing.assert_array_equal(import_model(str(path)).predict(model.rows), expected)
    np.testing.assert_array_equal(raw_prediction(path, model.rows), expected)


TREELITE = [name for name in zoo.names() if name.startswith("treelite_")]


@pytest.mark.parametrize("name", TREELITE)
def test_a_truncated_file_of_treelite_is_refused(name: str, tmp_path: Path) -> None:
    """At every length that ends inside of its header, and at many others: treelite itself reads on."""
    path = tmp_path / "model.tl"
    whole = bytes(zoo.load(name).model.serialize_bytes())
    for length in {*range(4, 300), *range(300, len(whole), 1 + len(whole) // 300), len(whole) - 1}:
        path.write_bytes(whole[:length])
        with pytest.raises(FileFormatError, match="a model of treelite: "):
            import_model(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(FileFormatError, match="1 bytes follow after its end"):
        import_model(path)


@pytest.mark.parametrize("name", TREELITE)
def test_a_damaged_file_of_treelite_is_read_or_refused(name: str, tmp_path: Path) -> None:
    """treelite's own reader ends or hangs the process on some of these."""
    path = tmp_path / "model.tl"
    whole = bytes(zoo.load(name).model.serialize_bytes())
    rng = np.random.default_rng(0)
    n_refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(4, min(len(whole), 4000) - 8))
            size = int(rng.choice([1, 4, 8]))
            word = int(rng.choice([0, 1, 2, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1]))
            damaged[at : at + size] = word.to_bytes(8, "little")[:size]
        path.write_bytes(damaged)
        try:
            import_model(path)
        except (FileFormatError, UnsupportedModelError):
            n_refused += 1
    assert n_refused > 50  # most of the rest changed a value or a gain


def test_an_old_file_of_treelite_says_what_to_do(tmp_path: Path) -> None:
    """Version 3 has another format, which treelite 4 converts."""
    path = tmp_path / "model.tl"
    path.write_bytes(b"\3\0\0\0\x09\0\0\0\0\0\0\0" + bytes(100))
    with pytest.raises(FileFormatError, match=r"treelite 3.9.0.*treelite.Model.deserialize"):
        import_model(path)


# -- names and rows -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "outputs"),
    [
        ("sklearn_random_forest_binary", ("False", "True")),
        ("sklearn_random_forest_multiclass", ("a", "b", "c", "d")),
        ("sklearn_random_forest_multioutput_classifier", ("0: a", "0: b", "0: c", "1: a", "1: b")),
        ("sklearn_gradient_boosting_binary", ("True",)),
        ("sklearn_hist_multiclass", ("a", "b", "c")),
        ("sklearn_multioutput_classifier", ("0: a", "0: b", "0: c", "1: a", "1: b")),
        ("sklearn_random_forest_regressor", None),
    ],
)
def test_outputs_are_named_after_classes(name: str, outputs: tuple[str, ...] | None) -> None:
    """A single log-odds output speaks of the second class."""
    assert import_model(zoo.load(name).model).output_names == outputs


@pytest.mark.parametrize("name", ["sklearn_random_forest_multiclass", "sklearn_hist_from_dtype"])
@pytest.mark.parametrize("kind", ["pandas", "shuffled", "polars", "Arrow", "one row"])
def test_a_model_s_own_prediction_takes_every_kind_of_rows(name: str, kind: str) -> None:
    """We read more kinds of rows than scikit-learn does; the check against its prediction must too."""
    model = zoo.load(name)
    frame = model.X[:20]
    convert: dict[str, Callable[[], Any]] = {
        "pandas": lambda: frame,
        "shuffled": lambda: frame[frame.columns[::-1]],
        "polars": lambda: pytest.importorskip("polars").from_pandas(frame),
        "Arrow": lambda: pytest.importorskip("pyarrow").Table.from_pandas(frame),
        "one row": lambda: frame.iloc[0],
    }
    X = convert[kind]()
    ensemble = import_model(model.model)
    rows = read_rows(X, ensemble.row_format)
    np.testing.assert_allclose(raw_prediction(model.model, X), ensemble.predict(rows[:]), rtol=1e-12)


def test_isolation_forests_give_anomalies_short_paths() -> None:
    """The sign is that of score_samples: low is anomalous."""
    model = zoo.load("sklearn_isolation_forest")
    paths = import_model(model.model).predict(model.rows)[:, 0]
    by_path, by_score = np.argsort(paths), np.argsort(model.model.score_samples(model.rows))
    np.testing.assert_array_equal(by_path[:10], by_score[:10])


# -- dictionaries of arrays ---------------------------------------------------------------------------

STUMP: dict[str, Any] = {
    "children_left": [1, -1, -1],
    "children_right": [2, -1, -1],
    "children_default": [1, -1, -1],
    "features": [0, -2, -2],
    "thresholds": [0.5, -2, -2],
    "values": [[7], [1], [3]],
    "node_sample_weight": [4, 3, 1],
}


def test_a_dictionary_of_arrays_is_a_model() -> None:
    """x <= threshold goes left, missing goes to children_default, the base offset is added."""
    model = {"trees": [STUMP, STUMP], "base_offset": 10, "feature_names": ["age"], "output_names": ["y"]}
    np.testing.assert_array_equal(raw_prediction(model, [[0.5], [0.6], [np.nan]]), [[12], [16], [12]])
    ensemble = import_model(model)
    assert ensemble.feature_names == ("age",)
    assert ensemble.output_names == ("y",)
    np.testing.assert_array_equal(ensemble.expected_value, [13])


def test_a_dictionary_may_use_the_names_of_scikit_learn() -> None:
    """feature, threshold, value, weighted_n_node_samples; values of any trailing shape; float32 rows."""
    tree = {
        "children_left": STUMP["children_left"],
        "children_right": STUMP["children_right"],
        "feature": STUMP["features"],
        "threshold": STUMP["thresholds"],
        "value": np.array([[[0, 0]], [[1, 2]], [[3, 4]]]),
        "weighted_n_node_samples": STUMP["node_sample_weight"],
    }
    model = {"trees": [tree], "base_offset": [0.0, 10.0], "input_dtype": np.float32, "num_features": 2}
    ensemble = import_model(model)
    assert ensemble.row_format == RowFormat(2, dtype="float32")
    # In float32 this is 0.5; without children_default, missing goes right.
    np.testing.assert_array_equal(ensemble.predict([[0.5 + 1e-12, 0], [np.nan, 0]]), [[1, 12], [3, 14]])


LEAF = {name: values[1:2] for name, values in STUMP.items()}


@pytest.mark.parametrize("kind", ["array", "frame", "sparse", "one row"])
@pytest.mark.parametrize("options", ["plain", "background", "groups", "names"])
def test_a_dictionary_that_does_not_say_its_width_takes_any(kind: str, options: str) -> None:
    """As shap does: columns that no tree asks about have the value 0, of a single leaf all of them."""
    pandas, sparse = pytest.importorskip("pandas"), pytest.importorskip("scipy.sparse")
    rows = np.random.default_rng(0).normal(size=(1 if kind == "one row" else 6, 4))
    X = {"frame": pandas.DataFrame, "sparse": sparse.csr_matrix, "one row": lambda x: x[0]}.get(
        kind, np.array
    )(rows)
    choices: dict[str, dict[str, Any]] = {
        "plain": {},
        "background": {"data": rows},
        "groups": {"groups": {"only": [0]}},
        "names": {"feature_names": ["a"]},
    }
    given = choices[options]
    for tree in (STUMP, LEAF):
        if tree is LEAF and options in ("groups", "names"):
            continue  # which has no column to name
        model = {"trees": [tree], "base_offset": 1.0}
        explainer = TreeExplainer(model, **given)
        if options == "names":  # then it is said
            with pytest.raises(InputError, match="4 columns but the model was trained on 1"):
                explainer(X)
            continue
        wide = TreeExplainer({**model, "num_features": 4}, **given)
        explanation, expected = explainer(X), wide(X)
        np.testing.assert_array_equal(explanation.values, expected.values)
        assert explanation.feature_names == expected.feature_names
        np.testing.assert_array_equal(explainer.shap_values(X), wide.shap_values(X))
        pairs = explainer.shap_interaction_values(X)
        np.testing.assert_array_equal(pairs, wide.shap_interaction_values(X))
        np.testing.assert_array_equal(
            raw_prediction(model, X), raw_prediction({**model, "num_features": 4}, X)
        )
        for other in (pickle.loads(pickle.dumps(explainer)), explainer):
            np.testing.assert_array_equal(other.shap_values(X), wide.shap_values(X))


def test_a_dictionary_takes_no_rows_that_are_too_narrow() -> None:
    model = {"trees": [{**STUMP, "features": [2, -1, -1]}]}
    with pytest.raises(InputError, match="2 columns but the model was trained on 3"):
        TreeExplainer(model).shap_values(np.zeros((1, 2)))
    assert TreeExplainer(model).shap_values(np.zeros((1, 3))).shape == (1, 3)
    named = TreeExplainer(model, feature_names=list("abcde"))
    assert named(np.zeros((2, 5))).feature_names == tuple("abcde")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trees": [{**STUMP, "values": [1, 2]}]}, r"Tree 0: values has shape \(2,\) for 3 nodes"),
        ({"trees": [{k: v for k, v in STUMP.items() if k != "features"}]}, "Tree 0 lacks 'features'"),
        ({"trees": [STUMP, {**STUMP, "values": [[1, 2]] * 3}]}, "Tree 0 has 1 values per node, expected 2"),
        ({"trees": [{**STUMP, "children_default": [0, -1, -1]}]}, "one of the two children"),
        ({"trees": [{**STUMP, "children_right": [5, -1, -1], "children_default": [1] * 3}]}, "out of range"),
        ({"trees": [STUMP], "learning_rate": 0.1}, r"does not know \['learning_rate'\]"),
        ({}, "needs 'trees'"),
        ({"trees": None}, "trees must be a list of dictionaries, one per tree; got None"),
        ({"trees": "stump"}, "trees must be a list of dictionaries"),
        ({"trees": [None]}, "Tree 0 must be a dictionary of arrays, got None"),
        ({"trees": [{**STUMP, "values": [[1], [2, 3], [4]]}]}, "Tree 0: values must be an array of numbers"),
        ({"trees": [{**STUMP, "values": [None] * 3}]}, "Tree 0: values must be numbers, got"),
        ({"trees": [{**STUMP, "thresholds": ["a"] * 3}]}, r"Tree 0: thresholds must be numbers, got \['a'"),
        ({"trees": [{**STUMP, "children_left": [1.5, -1, -1]}]}, "children_left must be whole numbers"),
        ({"trees": [{**STUMP, "features": [np.nan, -1, -1]}]}, "features must be whole numbers"),
        ({"trees": [{**STUMP, "features": [2**40, -1, -1]}]}, "features must be whole numbers of 32 bits"),
        ({"trees": [{**STUMP, "node_sample_weight": 4}]}, r"node_sample_weight has shape \(\) for 3 nodes"),
        ({"trees": [{name: [] for name in STUMP}]}, r"children_left has shape \(0,\) for 0 nodes"),
        ({"trees": [STUMP], "num_features": "x"}, "num_features must be a whole number, got 'x'"),
        ({"trees": [STUMP], "num_features": 1.5}, "num_features must be a whole number, got 1.5"),
        ({"trees": [STUMP], "num_features": 0}, "feature is out of range"),
        ({"trees": [STUMP], "base_offset": "x"}, "base_offset must be numbers, got 'x'"),
        ({"trees": [{**STUMP, "values": [[1] * 3] * 3}], "base_offset": [1, 2]}, "2 numbers for 3 outputs"),
        ({"trees": [STUMP], "input_dtype": "junk"}, "input_dtype must be 'float32' or 'float64', got 'junk'"),
        ({"trees": [STUMP], "input_dtype": "1e+30"}, "input_dtype must be 'float32' or 'float64'"),
        ({"trees": [STUMP], "input_dtype": "9" * 5000}, "input_dtype must be 'float32' or 'float64'"),
        ({"trees": [STUMP], "input_dtype": int}, "dtype must be 'float32' or 'float64', got 'int64'"),
        ({"trees": [STUMP], "feature_names": "a"}, "feature_names must be a list of names, got 'a'"),
        ({"trees": [STUMP], "output_names": 7}, "output_names must be a list of names, got 7"),
        ({"trees": [STUMP], 7: 8}, r"does not know \['7'\]"),
    ],
)
def test_a_broken_dictionary_says_what_is_wrong(change: dict[str, Any], message: str) -> None:
    """Which tree, which array."""
    with pytest.raises(ModelError, match=message):
        import_model(change)
