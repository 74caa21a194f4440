"""ONNX models, as converters write them and by hand: our trees say what onnxruntime says."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import extended
import numpy as np
import numpy.typing as npt
import pytest
import zoo
from zoo_rows import classes, numeric_rows, target

from linear_treeshap import TreeExplainer
from linear_treeshap.engines.background_rows import Background, with_covers_of
from linear_treeshap.errors import FileFormatError, InputError, UnsupportedModelError
from linear_treeshap.importers import import_model
from linear_treeshap.oracle import as_float, shapley_values
from linear_treeshap.rows.rows import read_rows

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = [
    # Of the libraries' own making, and not to be mended here.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

ROWS = numeric_rows(4)
FULL = np.nan_to_num(ROWS)


def _sklearn(path: str, y: Any, kind: Any = np.float32, **options: Any) -> Any:
    skl2onnx = pytest.importorskip("skl2onnx")
    module, name = path.split(".")
    model = getattr(pytest.importorskip(f"sklearn.{module}"), name)(random_state=0, **options).fit(FULL, y)
    return skl2onnx.to_onnx(model, FULL[:1].astype(kind), target_opset={"": 15, "ai.onnx.ml": 3})


def _boosted(library: str, model: Any, y: Any) -> Any:
    onnxmltools = pytest.importorskip("onnxmltools")
    types = pytest.importorskip("onnxmltools.convert.common.data_types")
    inputs = [("input", types.FloatTensorType([None, ROWS.shape[1]]))]
    return getattr(onnxmltools, f"convert_{library}")(model.fit(ROWS, y), initial_types=inputs)


def _xgboost(name: str, y: Any) -> Any:
    xgboost = pytest.importorskip("xgboost")
    return _boosted("xgboost", getattr(xgboost, name)(n_estimators=4, max_depth=3), y)


def _lightgbm(name: str, y: Any) -> Any:
    lightgbm = pytest.importorskip("lightgbm")
    return _boosted("lightgbm", getattr(lightgbm, name)(n_estimators=4, num_leaves=8, verbose=-1), y)


def _graph(node: Any, version: int, n_features: int | None = 3) -> Any:
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [node],
        "trees",
        [helper.make_tensor_value_info("X", kind, [None, n_features])],
        [helper.make_tensor_value_info("Y", kind, [None, None])],
    )
    opsets = [helper.make_opsetid("ai.onnx.ml", version), helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def _older(mode: str = "BRANCH_LEQ", tracks: int = 1, **attributes: Any) -> Any:
    """Two trees, of which the second is a leaf; their numbers have gaps, and come in any order."""
    given = {
        "nodes_treeids": [7, 7, 7, 7, 7, 9],
        "nodes_nodeids": [2, 0, 1, 5, 4, 0],
        "nodes_featureids": [1, 0, 0, 2, 0, 0],
        "nodes_values": [0.5, 0.0, 0.0, -0.25, 0.0, 0.0],
        "nodes_modes": [mode, "LEAF", "LEAF", mode, "LEAF", "LEAF"],
        "nodes_truenodeids": [0, 0, 0, 1, 0, 0],
        "nodes_falsenodeids": [5, 0, 0, 4, 0, 0],
        "nodes_missing_value_tracks_true": [tracks, 0, 0, tracks, 0, 0],
        "target_treeids": [7, 7, 7, 7, 9, 9],
        "target_nodeids": [0, 1, 1, 4, 0, 0],
        "target_ids": [0, 1, 0, 1, 0, 1],
        "target_weights": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0],
        "base_values": [0.5, -0.5],
        "n_targets": 2,
    }
    node = onnx.helper.make_node(
        "TreeEnsembleRegressor", ["X"], ["Y"], domain="ai.onnx.ml", **{**given, **attributes}
    )
    return _graph(node, version=3)


def _newer(mode: int = 0, tracks: int = 1, aggregate: int = 1, **attributes: Any) -> Any:
    """Two trees, of which the second is a leaf: both branches of a node lead to it."""
    tensor, kinds = onnx.helper.make_tensor, onnx.TensorProto
    given = {
        "tree_roots": [0, 2],
        "nodes_featureids": [1, 2, 0],
        "nodes_splits": tensor("splits", kinds.FLOAT, [3], [0.5, -0.25, 0.0]),
        "nodes_modes": tensor("modes", kinds.UINT8, [3], [mode, mode, 0]),
        "nodes_truenodeids": [0, 1, 3],
        "nodes_trueleafs": [1, 1, 1],
        "nodes_falsenodeids": [1, 2, 3],
        "nodes_falseleafs": [0, 1, 1],
        "nodes_missing_value_tracks_true": [tracks, tracks, 0],
        "leaf_targetids": [0, 1, 1, 0],
        "leaf_weights": tensor("weights", kinds.FLOAT, [4], [1.0, 2.0, 8.0, 16.0]),
        "n_targets": 2,
        "aggregate_function": aggregate,
    }
    node = onnx.helper.make_node("TreeEnsemble", ["X"], ["Y"], domain="ai.onnx.ml", **{**given, **attributes})
    return _graph(node, version=5)


#: A question about a category and one about a number.
_MIXED = ["BRANCH_EQ", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"]


def _categories(mode: str, tracks: int = 0, **attributes: Any) -> Any:
    """The older operator, asking whether features are certain categories."""
    return _older(mode, tracks, **{"nodes_values": [2.0, 0.0, 0.0, 3.0, 0.0, 0.0], **attributes})


def _newer_categories(mode: int, tracks: int = 0, members: tuple[float, ...] = (), **attributes: Any) -> Any:
    """The newer operator; ``members`` are those of sets, with NaN between them."""
    tensor, kind = onnx.helper.make_tensor, onnx.TensorProto.FLOAT
    given = {"nodes_splits": tensor("splits", kind, [3], [2.0, 3.0, 0.0])}
    if members:
        given["membership_values"] = tensor("members", kind, [len(members)], members)
    return _newer(mode, tracks, **{**given, **attributes})


def _lightgbm_categories() -> Any:
    """By a converter that writes a chain of questions for each set of categories."""
    lightgbm = pytest.importorskip("lightgbm")
    onnxmltools = pytest.importorskip("onnxmltools")
    types = pytest.importorskip("onnxmltools.convert.common.data_types")
    rows = FULL.copy()
    rows[:, 1] = np.clip(np.abs(np.round(3 * rows[:, 1])), 0, 7)
    y = rows[:, 0] + 2 * np.isin(rows[:, 1], [1, 4, 6]) + (rows[:, 1] == 3) * rows[:, 2]
    options = {"n_estimators": 5, "num_leaves": 8, "min_data_per_group": 5, "cat_smooth": 1, "verbose": -1}
    model = lightgbm.LGBMRegressor(**options).fit(rows, y, categorical_feature=[1])
    inputs = [("input", types.FloatTensorType([None, rows.shape[1]]))]
    return onnxmltools.convert_lightgbm(model.booster_, initial_types=inputs)


TARGET = target(FULL)
MODELS: dict[str, Callable[[], Any]] = {
    "tree": lambda: _sklearn("tree.DecisionTreeRegressor", TARGET, max_depth=4),
    "forest": lambda: _sklearn("ensemble.RandomForestRegressor", TARGET, n_estimators=4, max_depth=4),
    "forest of targets": lambda: _sklearn(
        "ensemble.ExtraTreesRegressor", FULL[:, :2], n_estimators=3, max_depth=4
    ),
    "binary forest": lambda: _sklearn(
        "ensemble.RandomForestClassifier", TARGET > 0, n_estimators=4, max_depth=4
    ),
    "forest of classes": lambda: _sklearn(
        "ensemble.RandomForestClassifier", classes(FULL, 3), n_estimators=4, max_depth=4
    ),
    "float64": lambda: _sklearn(
        "ensemble.RandomForestClassifier", classes(FULL, 3), kind=np.float64, n_estimators=4, max_depth=4
    ),
    "binary boosting": lambda: _sklearn("ensemble.GradientBoostingClassifier", TARGET > 0, n_estimators=4),
    "boosting of classes": lambda: _sklearn(
        "ensemble.GradientBoostingClassifier", np.array(list("abc"))[classes(FULL, 3)], n_estimators=3
    ),
    "xgboost": lambda: _xgboost("XGBRegressor", TARGET),
    "xgboost binary": lambda: _xgboost("XGBClassifier", TARGET > 0),
    "xgboost classes": lambda: _xgboost("XGBClassifier", classes(FULL, 3)),
    "lightgbm": lambda: _lightgbm("LGBMRegressor", TARGET),
    "lightgbm binary": lambda: _lightgbm("LGBMClassifier", classes(FULL, 2)),
    "lightgbm classes": lambda: _lightgbm("LGBMClassifier", classes(FULL, 3)),
    "a mean": lambda: _older(aggregate_function="AVERAGE"),
    "a newer mean": lambda: _newer(aggregate=0),
    "BRANCH_EQ": lambda: _categories("BRANCH_EQ"),
    "BRANCH_NEQ": lambda: _categories("BRANCH_NEQ"),
    "BRANCH_NEQ 1": lambda: _categories("BRANCH_NEQ", tracks=1),
    "newer BRANCH_EQ": lambda: _newer_categories(4),
    "newer BRANCH_NEQ": lambda: _newer_categories(5),
    "BRANCH_MEMBER": lambda: _newer_categories(6, members=(1.0, 3.0, 7.0, np.nan, 2.0, 5.0)),
    "lightgbm categories": _lightgbm_categories,
}
for _number, _mode in enumerate(("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT")):
    for _tracks in (0, 1):
        MODELS[f"{_mode} {_tracks}"] = lambda mode=_mode, tracks=_tracks: _older(mode, tracks)  # type: ignore[misc]
        MODELS[f"newer {_mode} {_tracks}"] = lambda mode=_number, tracks=_tracks: _newer(mode, tracks)  # type: ignore[misc]


@cache
def _load(name: str) -> Any:
    return MODELS[name]()


def _of_runtime(model: Any, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """What the trees add up to, by onnxruntime: the same model without its post_transform."""
    raw = onnx.ModelProto.FromString(model.SerializeToString())
    (node,) = [node for node in raw.graph.node if node.op_type.startswith("TreeEnsemble")]
    for attribute in node.attribute:
        if attribute.name == "post_transform":
            if node.op_type == "TreeEnsemble":
                attribute.i = 0
            else:
                attribute.s = b"NONE"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(raw.SerializeToString(), options)
    kind = np.float64 if "double" in session.get_inputs()[0].type else np.float32
    found = session.run(None, {session.get_inputs()[0].name: rows.astype(kind)})[-1]
    if isinstance(found, list):
        found = [list(of_classes.values()) for of_classes in found]
    return np.asarray(found, dtype=np.float64).reshape(len(rows), -1)


def _hostile(model: Any) -> npt.NDArray[np.float64]:
    ensemble = import_model(model)
    rows = ROWS[:, : ensemble.n_features].copy()
    categorical = frozenset(ensemble.row_format.categories)
    rows[:, sorted(categorical)] = np.abs(np.round(2 * rows[:, sorted(categorical)]))
    made = zoo.ZooModel(model, rows, categorical=categorical)
    return zoo.hostile_rows(made, ensemble, n_rows=400)


@pytest.mark.parametrize("name", MODELS)
def test_hostile_rows_go_where_onnxruntime_sends_them(name: str) -> None:
    """Ties, one ulp either side, NaN and infinities; it adds in float32, so sums agree to some 1e-6."""
    model = _load(name)
    rows = _hostile(model)
    ensemble = import_model(model)
    ours, theirs = (
        ensemble.predict(read_rows(rows, ensemble.row_format)[0 : len(rows)]),
        _of_runtime(model, rows),
    )
    if ours.shape[1] == 1:
        theirs = theirs[:, -1:]  # of two classes with one number it speaks of the second
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6 * (1 + np.abs(theirs).max()))


@pytest.mark.parametrize("name", ["forest", "xgboost classes", "lightgbm binary", "BRANCH_GT 1"])
def test_values_are_those_of_the_definition_with_covers_by_data(name: str) -> None:
    """The data is counted in the trees."""
    model = _load(name)
    rows = _hostile(model).astype(np.float32)
    explainer = TreeExplainer(model, rows[5:], feature_perturbation="tree_path_dependent")
    values = explainer.shap_values(rows[:5])
    counted = with_covers_of(import_model(model), Background(rows[5:], None))
    exact = np.array([as_float(shapley_values(counted, row, by="leaves")) for row in rows[:5]])
    scale = extended.shapley_values(counted, rows[:5].astype(np.float64)).scale
    assert (np.abs(values.reshape(exact.shape) - exact) <= 1e-13 * scale).all()


def test_without_covers_and_data_an_error_says_what_to_pass() -> None:
    """Not one half for each side, in silence."""
    with pytest.raises(InputError, match=r"ONNX models do not.*Pass data="):
        TreeExplainer(_load("forest"))
    explainer = TreeExplainer(_load("forest"), FULL[:50])
    sums = explainer.shap_values(FULL).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(sums, import_model(_load("forest")).predict(FULL)[:, 0])


def test_hit_rates_are_covers_if_they_add_up() -> None:
    """Where somebody wrote them."""
    model = _older(nodes_hitrates=[10.0, 3.0, 2.0, 7.0, 5.0, 10.0])
    assert import_model(model).cover.tolist() == [10.0, 3.0, 2.0, 7.0, 5.0, 10.0]
    TreeExplainer(model)


def test_probabilities_of_a_converted_classifier_are_explained_with_data() -> None:
    """The logistic function is the operator's post_transform."""
    model = _load("xgboost binary")
    explainer = TreeExplainer(model, FULL[:30], model_output="probability")
    sums = explainer.shap_values(FULL).sum(axis=1) + explainer.expected_value
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected = session.run(None, {"input": FULL.astype(np.float32)})[-1][:, 1]
    np.testing.assert_allclose(sums, expected, atol=1e-6)


@pytest.mark.parametrize("name", ["forest", "lightgbm classes", "newer BRANCH_LT 1"])
def test_a_file_and_its_bytes_are_the_model(name: str, tmp_path: Path) -> None:
    """The first bytes decide, not the name."""
    model = _load(name)
    path = tmp_path / "model.bin"
    path.write_bytes(model.SerializeToString())
    for one in (path, str(path), path.read_bytes()):
        zoo.assert_same_trees(import_model(one), import_model(model))


def _scaled() -> Any:
    skl2onnx = pytest.importorskip("skl2onnx")
    pipeline = pytest.importorskip("sklearn.pipeline")
    scaler = pytest.importorskip("sklearn.preprocessing").StandardScaler()
    tree = pytest.importorskip("sklearn.tree").DecisionTreeRegressor(max_depth=2)
    model = pipeline.make_pipeline(scaler, tree).fit(FULL, TARGET)
    return skl2onnx.to_onnx(model, FULL[:1].astype(np.float32))


def _isolation() -> Any:
    return _sklearn("ensemble.IsolationForest", None, n_estimators=3)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a scaler": (_scaled, "what Scaler makes of them"),
    "several operators": (_isolation, "this one has 3"),
    "numbers that are no categories": (
        lambda: _older("BRANCH_EQ", 0),
        "feature 1 is a certain number, and not",
    ),
    "a category that is a number": (
        lambda: _categories("BRANCH_EQ", nodes_featureids=[1, 0, 0, 1, 0, 0], nodes_modes=_MIXED),
        "feature 1 as a category and as a number",
    ),
    "missing values that are a category": (
        lambda: _categories("BRANCH_EQ", tracks=1),
        "missing values the way of certain categories",
    ),
    "the least": (lambda: _older(aggregate_function="MIN"), "takes the MIN of its trees"),
    "the most": (lambda: _newer(aggregate=3), "takes the MAX of its trees"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_a_sum_of_trees_over_columns_is_refused(case: str) -> None:
    """With the reason."""
    make, message = REFUSED[case]
    with pytest.raises(UnsupportedModelError, match=message):
        import_model(make())


DAMAGED: dict[str, tuple[Callable[[], Any], str]] = {
    "no such child": (lambda: _older(nodes_truenodeids=[0, 0, 0, 44, 0, 0]), "not among the nodes"),
    "no such leaf": (lambda: _older(target_nodeids=[0, 1, 1, 4, 0, 1]), "not among the nodes"),
    "two of a number": (lambda: _older(nodes_nodeids=[2, 0, 0, 5, 4, 0]), "the same number"),
    "lists of two lengths": (lambda: _older(nodes_featureids=[0]), "different lengths"),
    "no such output": (lambda: _older(target_ids=[0, 1, 0, 1, 0, 2]), "an output that is not there"),
    "a circle": (lambda: _newer(nodes_falsenodeids=[0, 2, 3]), "runs in a circle"),
    "no such node": (lambda: _newer(tree_roots=[0, 5]), "a child that is not there"),
    "a set too few": (lambda: _newer_categories(6, members=(1.0, 2.0)), "1 sets of numbers for 2 nodes"),
    "no such mode": (lambda: _newer(99), "there is no mode 99"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_model_is_refused(case: str) -> None:
    """In one sentence that says what is wrong."""
    make, message = DAMAGED[case]
    with pytest.raises(FileFormatError, match=message):
        import_model(make())


@pytest.mark.parametrize("name", ["forest of classes", "newer BRANCH_GTE 1"])
def test_damaged_bytes_are_read_or_refused(name: str) -> None:
    """Cut anywhere, and with bytes replaced."""
    whole = _load(name).SerializeToString()
    rng = np.random.default_rng(0)
    n_refused = 0
    for trial in range(400):
        damaged = bytearray(whole[: rng.integers(3, len(whole))] if trial % 2 else whole)
        for _ in range(rng.integers(1, 4)):
            damaged[rng.integers(len(damaged))] = rng.integers(256)
        try:
            import_model(bytes(damaged))
        except (FileFormatError, UnsupportedModelError):
            n_refused += 1
    assert n_refused > 200
