"""`python -m fuzz.seeds`: writes fuzz/corpus, small whole files from which coverage-guided fuzzing starts.

A folder for each format, a file for each thing that a format can say: the smaller they are, the more of them
are tried. Beside it, fuzz/dictionaries has the words of each format that its reader knows. Both are kept in
the repository, so that fuzzing needs none of the libraries that write such files.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import linear_treeshap
from linear_treeshap import TreeExplainer, import_model

from .bundles import joined
from .campaign import CORPUS, DICTIONARIES, ROOT
from .cases import as_dictionary

__all__ = ["main"]

_RNG = np.random.default_rng(0)
_ROWS = np.round(_RNG.normal(size=(60, 3)), 1)
_CODES = np.column_stack([_RNG.integers(5, size=60), _ROWS[:, 1:]])
_CLASSES = np.arange(60) % 3
_TARGET = _ROWS[:, 0] * _ROWS[:, 1] + (_CODES[:, 0] == 2)
_MISSING = np.where(_RNG.random(_ROWS.shape) < 0.1, np.nan, _ROWS)


def main() -> None:
    shutil.rmtree(CORPUS, ignore_errors=True)
    for kind, name, content in _files():
        path = CORPUS / kind.replace(" ", "_") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    DICTIONARIES.mkdir(exist_ok=True)
    for folder in CORPUS.iterdir():
        words = _words(b"\n".join(path.read_bytes() for path in folder.iterdir()))
        if words:
            (DICTIONARIES / f"{folder.name}.dict").write_text("".join(f'"{word}"\n' for word in words))


def _words(content: bytes) -> list[str]:
    """The words in files that also stand in the sources of this package: those that make a difference."""
    package = Path(linear_treeshap.__file__).parent
    known: set[bytes] = set()
    for path in package.glob("**/*.py"):
        known.update(re.findall(rb"[A-Za-z_]\w{2,}", path.read_bytes()))
    found = known & set(re.findall(rb"[A-Za-z_]\w{2,}", content))
    return sorted(word.decode() for word in found)


def _files() -> Iterator[tuple[str, str, bytes]]:
    """(format, name, content) of each."""
    yield from _xgboost()
    yield from _lightgbm()
    yield from _catboost()
    yield from _treelite()
    yield from _onnx()
    yield from _gpboost()
    yield from _h2o()
    yield from _ydf()
    yield from _spark()
    yield from _our_own()
    # Strings of bytes are models to the native target: leaves, small trees, and long chains.
    yield "explain", "bushy", _RNG.bytes(300)
    yield "explain", "chains", bytes([3, 0, 0, 0, 1, 4, *([3, 19, 5] * 80)])
    yield "explain", "categories", bytes([4, 3, 1, 1, 0, 3, 2, *_RNG.integers(256, size=120).tolist()])


def _xgboost() -> Iterator[tuple[str, str, bytes]]:
    import pandas
    import xgboost

    labels = pandas.DataFrame(
        {"f0": pandas.Categorical([f"l{int(c)}" for c in _CODES[:, 0]]), "f1": _CODES[:, 1]}
    )

    def trained(rows: Any, outcome: Any, kinds: list[str] | None = None, **parameters: Any) -> Any:
        is_categorical = kinds is not None or rows is labels
        data = xgboost.DMatrix(rows, outcome, feature_types=kinds, enable_categorical=is_categorical)
        return xgboost.train({"max_depth": 2, "verbosity": 0, **parameters}, data, num_boost_round=2)

    models = {
        "regression": trained(_MISSING, _TARGET),
        "classes": trained(_ROWS, _CLASSES, objective="multi:softprob", num_class=3, max_depth=1),
        "binary": trained(_ROWS, _CLASSES > 0, objective="binary:logistic", max_depth=1),
        "categories": trained(_CODES, _TARGET, ["c", "q", "q"], max_cat_to_onehot=1),
        "labels": trained(labels, _TARGET, max_cat_to_onehot=1),
        "dart": trained(_ROWS, _TARGET, booster="dart"),
        "vectors": trained(_ROWS, _ROWS[:, :2], multi_strategy="multi_output_tree", tree_method="hist"),
        "leaf": trained(_ROWS, np.ones(60)),
    }
    for name, model in models.items():
        yield "xgboost json", name, bytes(model.save_raw("json"))
        yield "xgboost ubjson", name, bytes(model.save_raw("ubj"))


def _lightgbm() -> Iterator[tuple[str, str, bytes]]:
    import lightgbm

    def trained(rows: Any, outcome: Any, **parameters: Any) -> Any:
        given = {"num_leaves": 3, "min_data_in_leaf": 1, "verbose": -1, "num_threads": 1, **parameters}
        categorical = [0] if rows is _CODES else []
        settings = {"verbose": -1, "linear_tree": "linear_tree" in parameters}
        data = lightgbm.Dataset(rows, outcome, categorical_feature=categorical, params=settings)
        return lightgbm.train(given, data, num_boost_round=2)

    models = {
        "regression": trained(_MISSING, _TARGET),
        "binary": trained(_ROWS, _CLASSES > 0, objective="binary"),
        "classes": trained(_ROWS, _CLASSES, objective="multiclass", num_class=3),
        "categories": trained(_CODES, _TARGET, max_cat_to_onehot=1, cat_smooth=0, min_data_per_group=1),
        "forest": trained(_ROWS, _TARGET, boosting="rf", bagging_freq=1, bagging_fraction=0.5),
        "zeros": trained(_ROWS, _TARGET, zero_as_missing=True),
        "lines": trained(_ROWS, _TARGET, linear_tree=True),
        "leaf": trained(_ROWS, np.ones(60)),
    }
    for name, model in models.items():
        # Parameters of training are most of a file, and are not read.
        text = model.model_to_string(importance_type="split").partition("\nparameters:")[0]
        yield "lightgbm", name, text.encode() + b"\n"
        if name == "categories":  # of a frame, whose labels come last
            yield (
                "lightgbm",
                "labels",
                text.encode() + b'\n\npandas_categorical:[["a", "b", "c", "d", "e"]]\n',
            )


def _catboost() -> Iterator[tuple[str, str, bytes]]:
    import catboost

    few = {"iterations": 2, "depth": 2, "verbose": False, "allow_writing_files": False, "thread_count": 1}
    codes = [[str(int(row[0])), *row[1:]] for row in _CODES]
    regressor = catboost.CatBoostRegressor
    models = {
        "regression": regressor(**few).fit(_MISSING, _TARGET),
        "classes": catboost.CatBoostClassifier(**few).fit(_ROWS, _CLASSES),
        "leaves": regressor(**few, grow_policy="Lossguide").fit(_ROWS, _TARGET),
        "one_hot": regressor(**few, one_hot_max_size=9).fit(codes, _TARGET, cat_features=[0]),
        "statistics": regressor(**few, one_hot_max_size=2).fit(codes, _TARGET, cat_features=[0]),
        "combinations": regressor(
            **few, one_hot_max_size=2, max_ctr_complexity=2, learning_rate=0.5, boosting_type="Plain"
        ).fit(
            [[row[0], str(i % 4), row[2]] for i, row in enumerate(codes)],
            10 * ((_CODES[:, 0] + np.arange(len(_CODES)) % 4) % 2),
            cat_features=[0, 1],
        ),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, model in models.items():
            path = Path(folder) / name
            model.save_model(str(path))
            yield "catboost", name, path.read_bytes()


def _treelite() -> Iterator[tuple[str, str, bytes]]:
    import sklearn.ensemble as forests
    import treelite

    few = {"n_estimators": 2, "max_depth": 2, "random_state": 0}
    models = {
        "forest": forests.RandomForestRegressor(**few).fit(_ROWS, _TARGET),
        "classes": forests.RandomForestClassifier(**few).fit(_ROWS, _CLASSES),
        "boosting": forests.GradientBoostingRegressor(**few).fit(_ROWS, _TARGET),
        "isolation": forests.IsolationForest(n_estimators=2, max_samples=8, random_state=0).fit(_ROWS),
    }
    for name, model in models.items():
        yield "treelite", name, treelite.sklearn.import_model(model).serialize_bytes()


def _onnx() -> Iterator[tuple[str, str, bytes]]:
    import onnx
    import skl2onnx
    import sklearn.ensemble as forests

    few = {"n_estimators": 2, "max_depth": 2, "random_state": 0}
    models = {
        "forest": forests.RandomForestRegressor(**few).fit(_ROWS, _TARGET),
        "classes": forests.RandomForestClassifier(**few).fit(_ROWS, _CLASSES),
        "boosting": forests.GradientBoostingClassifier(**few).fit(_ROWS, _CLASSES > 0),
    }
    for name, model in models.items():
        converted = skl2onnx.to_onnx(
            model, _ROWS[:1].astype(np.float32), target_opset={"": 15, "ai.onnx.ml": 3}
        )
        yield "onnx", name, converted.SerializeToString()
    tensor, kinds = onnx.helper.make_tensor, onnx.TensorProto
    newer = {
        "tree_roots": [0],
        "nodes_featureids": [1, 2],
        "nodes_splits": tensor("splits", kinds.FLOAT, [2], [0.5, -0.25]),
        "nodes_modes": tensor("modes", kinds.UINT8, [2], [0, 1]),
        "nodes_truenodeids": [0, 1],
        "nodes_trueleafs": [1, 1],
        "nodes_falsenodeids": [1, 2],
        "nodes_falseleafs": [0, 1],
        "leaf_targetids": [0, 1, 0],
        "leaf_weights": tensor("weights", kinds.FLOAT, [3], [1.0, 2.0, 8.0]),
        "n_targets": 2,
        "aggregate_function": 1,
    }
    yield "onnx", "newer", _of_operator("TreeEnsemble", 5, newer)
    sets = {
        "nodes_modes": tensor("modes", kinds.UINT8, [2], [6, 6]),
        "membership_values": tensor("members", kinds.FLOAT, [4], [1.0, 2.0, np.nan, 3.0]),
    }
    yield "onnx", "sets", _of_operator("TreeEnsemble", 5, {**newer, **sets})
    # A set as older operators have it: one question after another, with the same answer.
    chain = {
        "nodes_treeids": [0] * 6,
        "nodes_nodeids": [0, 1, 2, 3, 4, 5],
        "nodes_modes": ["BRANCH_EQ", "BRANCH_EQ", "BRANCH_NEQ", "LEAF", "LEAF", "LEAF"],
        "nodes_featureids": [1, 1, 2, 0, 0, 0],
        "nodes_values": [1.0, 2.0, 3.0, 0.0, 0.0, 0.0],
        "nodes_truenodeids": [3, 3, 4, 0, 0, 0],
        "nodes_falsenodeids": [1, 2, 5, 0, 0, 0],
        "target_treeids": [0, 0, 0],
        "target_nodeids": [3, 4, 5],
        "target_ids": [0, 0, 0],
        "target_weights": [1.0, 2.0, 8.0],
        "n_targets": 1,
    }
    yield "onnx", "categories", _of_operator("TreeEnsembleRegressor", 3, chain)


def _of_operator(name: str, version: int, attributes: dict[str, Any]) -> bytes:
    """A model of ONNX that is one operator."""
    import onnx

    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    node = helper.make_node(name, ["X"], ["Y"], domain="ai.onnx.ml", **attributes)
    rows = helper.make_tensor_value_info("X", kind, [None, 3])
    values = helper.make_tensor_value_info("Y", kind, [None, attributes["n_targets"]])
    graph = helper.make_graph([node], "trees", [rows], [values])
    opsets = [helper.make_opsetid("ai.onnx.ml", version), helper.make_opsetid("", 18)]
    content: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    return content


def _gpboost() -> Iterator[tuple[str, str, bytes]]:
    import gpboost

    groups = np.arange(60) % 4
    for name, rows, categorical in (("groups", _MISSING, []), ("categories", _CODES, [0])):
        effects = gpboost.GPModel(group_data=groups, num_parallel_threads=1)
        data = gpboost.Dataset(rows, _TARGET, categorical_feature=categorical)
        few = {
            "num_leaves": 3,
            "min_data_in_leaf": 1,
            "min_data_per_group": 1,
            "verbose": -1,
            "num_threads": 1,
        }
        model = gpboost.train(few, data, 2, gp_model=effects, categorical_feature=categorical)
        document = json.loads(model.model_to_string())
        # Neither are the random effects read, nor the parameters of training.
        trees = document["booster_str"].partition("\nparameters:")[0] + "\n"
        lines = json.dumps({"has_gp_model": 1, "booster_str": trees})
        yield "gpboost", name, lines.replace("{", "{\n", 1).encode()


def _h2o() -> Iterator[tuple[str, str, bytes]]:
    """Of the MOJOs of the tests, because H2O needs Java: the first round, and nothing that is not read."""
    for path in sorted((ROOT / "tests" / "importers" / "mojos").glob("*.zip")):
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if re.match(r"model|domains|trees/t\d+_000", name)]
            files = {name: archive.read(name) for name in sorted(names)}
        files["model.ini"] = re.sub(rb"(?m)^n_trees = .*", b"n_trees = 1", files["model.ini"])
        yield "h2o", path.stem, joined(files)
    smallest = ROOT / "tests" / "importers" / "mojos" / "one_leaf.zip"
    yield "h2o", "zip", smallest.read_bytes()


def _ydf() -> Iterator[tuple[str, str, bytes]]:
    import ydf

    ydf.verbose(0)
    tasks = ydf.Task
    columns = {f"f{i}": column.astype(np.float32) for i, column in enumerate(_MISSING.T)}
    labels = {**columns, "f0": np.array([f"label {int(code)}" for code in _CODES[:, 0]])}

    def trained(learner: Any, table: Any, outcome: Any, task: Any = tasks.REGRESSION, **options: Any) -> Any:
        few = {"num_trees": 2, "max_depth": 3, "num_threads": 1, **options}
        return learner(label="outcome", task=task, **few).train({**table, "outcome": outcome})

    forest, boosting = ydf.RandomForestLearner, ydf.GradientBoostedTreesLearner
    whole = {"validation_ratio": 0.0}
    models = {
        "forest": trained(forest, columns, _TARGET),
        "votes": trained(forest, columns, _CLASSES, tasks.CLASSIFICATION),
        "shares": trained(forest, columns, _CLASSES, tasks.CLASSIFICATION, winner_take_all=False),
        "labels": trained(forest, labels, _TARGET, min_examples=1),
        "bins": trained(boosting, columns, _TARGET, discretize_numerical_columns=True, **whole),
        "boosting": trained(boosting, labels, _CLASSES, tasks.CLASSIFICATION, **whole),
    }
    read = re.compile(r"header\.pb|data_spec\.pb|\w+_header\.pb|nodes-.*")
    for name, model in models.items():
        with tempfile.TemporaryDirectory() as folder:
            model.save(folder)
            paths = [path for path in sorted(Path(folder).iterdir()) if read.fullmatch(path.name)]
            files = {path.name: path.read_bytes() for path in paths}
            yield "ydf", name, joined(files)
            if name == "forest":
                yield "ydf", "packed", joined({file: _packed(content) for file, content in files.items()})


def _packed(content: bytes) -> bytes:
    """Nodes as YDF compresses them; other files as they are."""
    if content[:2] != b"BS":
        return content
    return b"BS\1\0\1" + content[5:8] + gzip.compress(content[8:], mtime=0)


def _spark() -> Iterator[tuple[str, str, bytes]]:
    """What Spark would write of trees of scikit-learn's, because Spark needs Java."""
    import sklearn.ensemble as forests
    import sklearn.tree as trees

    few = {"max_depth": 2, "random_state": 0}
    forest = forests.RandomForestRegressor(n_estimators=2, **few).fit(_ROWS, _TARGET)
    several = forests.RandomForestClassifier(n_estimators=2, **few).fit(_ROWS, _CLASSES)
    models = {
        "RandomForestRegressionModel": forest.estimators_,
        "RandomForestClassificationModel": several.estimators_,
        "GBTClassificationModel": forest.estimators_,
        "DecisionTreeRegressionModel": [trees.DecisionTreeRegressor(**few).fit(_CODES, _TARGET)],
        "DecisionTreeClassificationModel": [trees.DecisionTreeClassifier(**few).fit(_ROWS, _CLASSES)],
    }
    for name, members in models.items():
        metadata = {"class": f"org.apache.spark.ml.{name}", "numFeatures": 3}
        if name.endswith("ClassificationModel"):
            metadata["numClasses"] = len(_spark_nodes(members[0])[0]["impurityStats"])
        tables = {"data": [line for member in members for line in _spark_nodes(member)]}
        if not name.startswith("DecisionTree"):
            tables["data"] = [
                {"treeID": number, "nodeData": line}
                for number, member in enumerate(members)
                for line in _spark_nodes(member)
            ]
            tables["treesMetadata"] = [
                {"treeID": number, "metadata": "{}", "weights": 1.0} for number in range(len(members))
            ]
        texts = {"metadata/part-00000": json.dumps(metadata)}
        for table, lines in tables.items():
            texts[table] = "\n".join(map(json.dumps, lines))
        yield "spark", name, joined({file: text.encode() for file, text in texts.items()})


def _spark_nodes(member: Any) -> list[dict[str, Any]]:
    """A line for each node; the first column has categories, of which some go left."""
    tree = member.tree_
    shares = tree.value[:, 0] * tree.weighted_n_node_samples[:, None]
    lines = []
    for node, (left, column) in enumerate(zip(tree.children_left, tree.feature, strict=True)):
        is_leaf, is_category = left < 0, column == 0
        bounds = [0.0, 2.0] if is_category else [float(tree.threshold[node])]
        split = {
            "featureIndex": -1 if is_leaf else int(column),
            "leftCategoriesOrThreshold": [] if is_leaf else bounds,
            "numCategories": 5 if is_category and not is_leaf else -1,
        }
        # Of a regressor: how many, their sum, and that of their squares, which is not read.
        stats = (
            shares[node] if shares.shape[1] > 1 else [tree.weighted_n_node_samples[node], shares[node, 0], 0]
        )
        lines.append(
            {
                "id": node,
                "prediction": float(tree.value[node, 0, 0]),
                "impurityStats": list(map(float, stats)),
                "leftChild": int(left),
                "rightChild": int(tree.children_right[node]),
                "split": split,
            }
        )
    return lines


def _our_own() -> Iterator[tuple[str, str, bytes]]:
    """Saved explainers, and dictionaries of arrays."""
    import xgboost
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(n_estimators=2, max_depth=2, random_state=0).fit(_ROWS, _CLASSES)
    arrays = as_dictionary(import_model(forest))
    yield "dictionary", "forest", json.dumps(arrays, default=np.ndarray.tolist).encode()
    boosted = xgboost.XGBClassifier(n_estimators=2, max_depth=2).fit(_ROWS, _CLASSES > 0)
    names = ["city_Rome", "city_Oslo", "age"]
    explainers = {
        "plain": TreeExplainer(forest),
        "grouped": TreeExplainer(forest, groups=[0, 0, 1], feature_names=["a", "b", "c"]),
        "onehot": TreeExplainer(boosted, groups="onehot", feature_names=names),
        "background": TreeExplainer(forest, _ROWS[:5]),
        "probability": TreeExplainer(boosted, _ROWS[:5], "probability", data_weights=np.arange(1.0, 6.0)),
        "measure": TreeExplainer(forest, index=("measure", [0.25, 0.75], [0.5, 0.5])),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, explainer in explainers.items():
            path = Path(folder) / name
            explainer.save(path)
            yield "saved", name, path.read_bytes()
        for _, name, content in (*_catboost(), *_xgboost()):
            if name in ("statistics", "combinations", "one_hot", "labels"):
                (path := Path(folder) / "model").write_bytes(content)
                TreeExplainer(path).save(Path(folder) / name)
                yield "saved", name, (Path(folder) / name).read_bytes()


if __name__ == "__main__":
    main()
