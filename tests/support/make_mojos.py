"""Trains the MOJOs in tests/importers/mojos and writes what H2O itself says of them beside them.

Run ``python tests/support/make_mojos.py`` where H2O is installed, of a release that writes MOJOs without a
licence (3.46.0.6 does), and Java. No other test needs either. Each model gets a table of hostile rows, H2O's
predictions of them by its own Java, and, where it has them, its contributions.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import zoo
from zoo_rows import classes, coded_rows, coded_target

from linear_treeshap import import_model

FOLDER = Path(__file__).parents[1] / "importers" / "mojos"

#: Labels of the two columns of categories; of the first, H2O writes sets of up to 32 in a shorter way.
LABELS = {0: ["blue", "green", "red"], 1: [f"city {code:02d}" for code in range(60)]}


def rows() -> zoo.Rows:
    return coded_rows((3, 60))


def table(rows: zoo.Rows) -> Any:
    """Labels, of which some are missing or were never seen, and numbers."""
    import pandas

    columns: dict[str, Any] = {f"f{i}": column for i, column in enumerate(rows.T)}
    for feature, labels in LABELS.items():
        known = [labels[int(x)] if x in range(len(labels)) else "never seen" for x in rows[:, feature]]
        columns[f"f{feature}"] = pandas.Series(known, dtype=object).where(~np.isnan(rows[:, feature]), None)
    return pandas.DataFrame(columns)


def _train(h2o: Any, name: str, frame: Any) -> Any:
    boosting, forest = h2o.estimators.H2OGradientBoostingEstimator, h2o.estimators.H2ORandomForestEstimator
    models: dict[str, tuple[Any, str, dict[str, Any]]] = {
        "boosting": (boosting, "y", {"weights_column": "weight"}),
        "boosting_binary": (boosting, "two", {}),
        "boosting_classes": (boosting, "three", {}),
        "boosting_poisson": (boosting, "count", {"distribution": "poisson"}),
        "boosting_sorted": (boosting, "y", {"categorical_encoding": "sort_by_response"}),
        "forest": (forest, "y", {}),
        "forest_binary": (forest, "two", {}),
        "one_leaf": (boosting, "y", {"min_split_improvement": 1e9}),
    }
    made, outcome, options = models[name]
    model = made(**{"ntrees": 3, "max_depth": 4, "min_rows": 3, "seed": 1, **options})
    model.train(x=[f"f{i}" for i in range(5)], y=outcome, training_frame=frame)
    return model


NAMES = (
    "boosting",
    "boosting_binary",
    "boosting_classes",
    "boosting_poisson",
    "boosting_sorted",
    "forest",
    "forest_binary",
    "one_leaf",
)
#: H2O does not explain several classes, and its weights of rows in forests do not add up.
EXPLAINED = ("boosting", "boosting_binary", "boosting_poisson", "boosting_sorted")


def main() -> None:
    import h2o
    import pandas

    h2o.init(nthreads=1, max_mem_size="1g", port=54521)
    data, outcome = rows(), coded_target(rows())
    training = table(data).assign(
        y=outcome,
        two=np.array(["no", "yes"])[(outcome > 1).astype(int)],
        three=np.array(["high", "low", "middle"])[classes(data[:, 2:], 3)],
        count=np.round(np.exp(0.3 * outcome)),
        weight=np.random.default_rng(0).integers(1, 5, len(data)) / 2,
    )
    kinds = dict.fromkeys(("f0", "f1", "two", "three"), "enum")
    frame = h2o.H2OFrame(training, column_types=kinds, na_strings=[""])
    FOLDER.mkdir(exist_ok=True)
    for name in NAMES:
        model, path = _train(h2o, name, frame), FOLDER / f"{name}.zip"
        with tempfile.TemporaryDirectory() as folder:
            Path(model.download_mojo(folder, get_genmodel_jar=True)).replace(path)
            like = zoo.ZooModel(None, data, categorical=frozenset(LABELS), takes_infinity=False)
            hostile = table(zoo.hostile_rows(like, import_model(path), n_rows=80))
            options = {"mojo_zip_path": str(path), "genmodel_jar_path": f"{folder}/h2o-genmodel.jar"}
            said = [hostile, h2o.mojo_predict_pandas(hostile, **options)]
            if name in EXPLAINED:
                found = h2o.mojo_predict_pandas(hostile, **options, predict_contributions=True)
                said.append(found.add_prefix("value of "))
        pandas.concat(said, axis=1).to_csv(FOLDER / f"{name}.csv", index=False)
    h2o.cluster().shutdown()


if __name__ == "__main__":
    main()
