"""Models of pyspark.ml: our trees predict what Spark predicts, from a fitted model and from its directory."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zoo
from cluster_cases import spark_session, started

from linear_treeshap import FileFormatError, TreeExplainer, UnsupportedModelError, import_model, importers
from linear_treeshap import oracle as definition
from linear_treeshap.importers import raw_prediction
from linear_treeshap.rows.rows import read_rows

pytest.importorskip("pyspark")
pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

pytestmark = pytest.mark.filterwarnings("ignore")

Rows = npt.NDArray[np.float64]
NAMES = ["a", "b", "c", "d", "kind"]
CATEGORICAL = 4


@pytest.fixture(scope="module", autouse=True)
def spark() -> Any:
    return started("Spark", spark_session)


@cache
def data() -> tuple[Any, Rows]:
    """A table of Spark with a Vector column whose last element is a category, and the same rows."""
    from pyspark.ml.feature import VectorAssembler, VectorIndexer

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 5))
    rows[:, CATEGORICAL] = rng.integers(0, 7, size=300)
    y = rows[:, 0] * rows[:, 1] + (rows[:, CATEGORICAL] % 3) - 1
    frame = pd.DataFrame(rows, columns=NAMES).assign(
        y=y, sign=(y > 0).astype(float), three=np.digitize(y, [-0.5, 0.5]).astype(float), w=rng.random(300)
    )
    table = spark_session().createDataFrame(frame)
    table = VectorAssembler(inputCols=NAMES, outputCol="raw").transform(table)
    table = VectorIndexer(inputCol="raw", outputCol="features", maxCategories=8).fit(table).transform(table)
    return table.cache(), rows


@cache
def trained(name: str) -> Any:
    from pyspark.ml import classification, regression

    estimators = {
        "tree classifier": classification.DecisionTreeClassifier(labelCol="three", maxDepth=4),
        "tree regressor": regression.DecisionTreeRegressor(labelCol="y", weightCol="w"),
        "forest classifier": classification.RandomForestClassifier(labelCol="three", numTrees=4, seed=1),
        "forest regressor": regression.RandomForestRegressor(labelCol="y", numTrees=4, seed=1),
        "boosted classifier": classification.GBTClassifier(labelCol="sign", maxIter=5, stepSize=0.3),
        "boosted regressor": regression.GBTRegressor(labelCol="y", maxIter=5, maxDepth=3),
        "single leaf": regression.DecisionTreeRegressor(labelCol="y", maxDepth=0),
    }
    return estimators[name].fit(data()[0])


MODELS = [
    "tree classifier",
    "tree regressor",
    "forest classifier",
    "forest regressor",
    "boosted classifier",
    "boosted regressor",
    "single leaf",
]


def _assert_predicts(model: Any, ensemble: Any, rows: Rows) -> None:
    """Sums of a handful of float64 terms of size 1: within some ulps."""
    read = read_rows(rows, ensemble.row_format)
    np.testing.assert_allclose(ensemble.predict(read[0 : len(read)]), raw_prediction(model, rows), atol=1e-14)


@pytest.mark.parametrize("name", MODELS)
def test_prediction_is_spark_s_own_also_where_routing_is_hard(name: str, tmp_path: Path) -> None:
    """Thresholds, one ulp either side, NaN, infinities; categories never seen, negative, fractional."""
    model, rows = trained(name), data()[1]
    ensemble = import_model(model)
    zoo_model = zoo.ZooModel(model, rows, categorical=frozenset([CATEGORICAL]))
    _assert_predicts(model, ensemble, rows)
    _assert_predicts(model, ensemble, zoo.hostile_rows(zoo_model, ensemble, n_rows=400))
    model.write().save(str(tmp_path / "model"))
    zoo.assert_same_trees(import_model(tmp_path / "model"), ensemble)


def test_categories_and_covers_are_read(tmp_path: Path) -> None:
    """Nodes send fewer and more than half of all categories left; covers are sums of training weights."""
    pq = pytest.importorskip("pyarrow.parquet")
    trained("forest regressor").write().save(str(tmp_path / "model"))
    splits = [line["nodeData"]["split"] for line in pq.read_table(tmp_path / "model" / "data").to_pylist()]
    shares = {
        len(split["leftCategoriesOrThreshold"]) > split["numCategories"] / 2
        for split in splits
        if split["numCategories"] > 0
    }
    assert shares == {False, True}
    assert (import_model(tmp_path / "model").category_set >= 0).any()
    weights = sum(row.w for row in data()[0].select("w").collect())
    weighted = import_model(trained("tree regressor"))
    assert weighted.cover[0] == pytest.approx(weights)
    boosted = import_model(trained("boosted regressor"))
    assert boosted.cover[boosted.tree_offsets[:-1]].tolist() == [300.0] * 5


@pytest.mark.parametrize("name", ["tree classifier", "boosted classifier", "forest regressor"])
def test_values_are_the_definition_s(name: str) -> None:
    """And are checked against Spark's prediction on the way."""
    ensemble, rows = import_model(trained(name)), data()[1][:3]
    values = TreeExplainer(trained(name)).shap_values(rows)
    read = read_rows(rows, ensemble.row_format)[0:3]
    for row, found in zip(read, values.reshape(3, 5, -1), strict=True):
        expected = definition.shapley_values(ensemble, row)
        np.testing.assert_allclose(found, np.array(expected, dtype=np.float64), atol=1e-13)


def test_probabilities_of_a_boosted_classifier_are_explained() -> None:
    """They are the logistic function of twice the margin."""
    model, (table, rows) = trained("boosted classifier"), data()
    explanation = TreeExplainer(model, rows[:20], "probability")(rows[:50])
    theirs = [line.probability[1] for line in model.transform(table.limit(50)).collect()]
    np.testing.assert_allclose(explanation.base_values + explanation.values.sum(axis=1), theirs, atol=1e-12)


def test_a_model_of_spark_explains_a_table_of_spark(tmp_path: Path) -> None:
    """By the Vector column that it was trained on; and again from a saved explainer."""
    ls = pytest.importorskip("linear_treeshap.spark")
    table, rows = data()
    explainer = TreeExplainer(trained("boosted classifier"), feature_names=NAMES)
    expected = explainer.shap_values(rows)
    explainer.save(tmp_path / "model.lts")
    for one in (explainer, TreeExplainer.load(tmp_path / "model.lts")):
        found = ls.explain(table, one, features="features", keep=["y"]).toPandas()
        assert list(found.columns) == ["y", *NAMES]
        order = {y: row for row, y in enumerate(table.select("y").toPandas()["y"])}
        np.testing.assert_array_equal(found[NAMES].to_numpy(), expected[[order[y] for y in found["y"]]])


def test_a_directory_is_read_without_spark(tmp_path: Path) -> None:
    """In a process that imports no pyspark and starts no JVM; by the command line too."""
    trained("forest classifier").write().save(str(tmp_path / "model"))
    code = (
        "import sys; from linear_treeshap import import_model; print(import_model(sys.argv[1])); "
        "assert 'pyspark' not in sys.modules; from linear_treeshap.cli import main; "
        "sys.exit(main(['info', sys.argv[1], '--json']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model")], capture_output=True, text=True, check=True
    )
    shown, facts = done.stdout.splitlines()
    assert shown.startswith("TreeEnsemble(4 trees")
    assert json.loads(facts)["library"] == "Spark ML"


def test_every_refused_class_of_spark_says_what_to_explain_instead() -> None:
    from pyspark.ml import PipelineModel, tuning

    tree = trained("single leaf")
    made = [PipelineModel([tree]), tuning.CrossValidatorModel(tree), tuning.TrainValidationSplitModel(tree)]
    refused = {name for name in importers.REFUSED if name.startswith("pyspark.")}
    assert {f"pyspark.{type(model).__name__}" for model in made} == refused
    for model in made:
        with pytest.raises(UnsupportedModelError, match=r"model\.(stages\[-1\]|bestModel)"):
            import_model(model)


def test_what_is_no_such_model_is_refused(tmp_path: Path) -> None:
    from pyspark.ml import Pipeline, regression

    table, _ = data()
    pipeline = Pipeline(stages=[regression.DecisionTreeRegressor(labelCol="y")]).fit(table)
    with pytest.raises(UnsupportedModelError, match="last stage"):
        import_model(pipeline)
    pipeline.write().save(str(tmp_path / "pipeline"))
    with pytest.raises(FileFormatError, match="directory of its last stage"):
        import_model(tmp_path / "pipeline")
    (stage,) = (tmp_path / "pipeline" / "stages").iterdir()
    assert import_model(stage).n_trees == 1
    with pytest.raises(FileFormatError, match="There is no file"):
        import_model(tmp_path)
    for part in ("metadata", "data"):
        broken = tmp_path / part
        shutil.copytree(stage, broken)
        for file in (broken / part).glob("part-*"):
            file.write_bytes(file.read_bytes()[:20])
        with pytest.raises(FileFormatError, match="Cannot read"):
            import_model(broken)
