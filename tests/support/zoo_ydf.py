"""Small YDF models for the zoo."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import pytest
from zoo import Rows, ZooModel, zoo_model
from zoo_rows import classes, coded_rows, coded_target, numeric_rows, target

#: YDF adds in float32.
_TOLERANCE = 1e-6

#: Labels of the first two columns of `coded_rows`, by their codes.
WORDS = {0: ["red", "green", "a rather long name, with a comma"], 1: [f"city {code}" for code in range(12)]}


def train(learner: str, table: Any, outcome: Any, **options: Any) -> Any:
    ydf = pytest.importorskip("ydf")
    ydf.verbose(0)
    small: dict[str, Any] = {"max_depth": 4, **({} if learner == "CartLearner" else {"num_trees": 6})}
    if learner == "GradientBoostedTreesLearner":
        small["validation_ratio"] = 0.0
    task = options.pop("task", "REGRESSION")
    options = {"task": getattr(ydf.Task, task), "num_threads": 1, "random_seed": 0, **small, **options}
    data = table if isinstance(table, str) else {**table, "outcome": outcome}
    return getattr(ydf, learner)(label="outcome", **options).train(data)


def columns(rows: Rows) -> dict[str, Any]:
    """Numbers as YDF takes them: columns by name."""
    return {f"f{i}": column.astype(np.float32) for i, column in enumerate(rows.T)}


def frame(rows: Rows) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(columns(rows))


def _numeric(learner: str, outcome: Any, *, missing: float = 0.1, **options: Any) -> ZooModel:
    rows = numeric_rows(missing=missing)
    return ZooModel(
        train(learner, columns(rows), outcome(rows), **options), rows, frame, tolerance=_TOLERANCE
    )


@zoo_model
def ydf_forest() -> ZooModel:
    return _numeric("RandomForestLearner", target)


@zoo_model
def ydf_forest_votes() -> ZooModel:
    """Each tree votes for one of two classes, which is what YDF's forests do by default."""
    return _numeric("RandomForestLearner", lambda rows: classes(rows, 2), task="CLASSIFICATION")


@zoo_model
def ydf_forest_classes() -> ZooModel:
    return _numeric(
        "RandomForestLearner", lambda rows: classes(rows, 3), task="CLASSIFICATION", winner_take_all=False
    )


@zoo_model
def ydf_forest_weights() -> ZooModel:
    """Rows that count for more or less, and trees of some of them."""
    rows = numeric_rows()
    weights = np.random.default_rng(0).random(len(rows)).astype(np.float32)
    table = {**columns(rows), "weight": weights}
    return ZooModel(
        train("RandomForestLearner", table, target(rows), weights="weight", bootstrap_size_ratio=0.7),
        rows,
        frame,
        tolerance=_TOLERANCE,
    )


@zoo_model
def ydf_cart() -> ZooModel:
    return _numeric("CartLearner", target)


@zoo_model
def ydf_forest_local_imputation() -> ZooModel:
    return _numeric("RandomForestLearner", target, missing_value_policy="LOCAL_IMPUTATION")


@zoo_model
def ydf_forest_random_imputation() -> ZooModel:
    return _numeric("RandomForestLearner", target, missing_value_policy="RANDOM_LOCAL_IMPUTATION")


@zoo_model
def ydf_forest_missing_conditions() -> ZooModel:
    """Some nodes ask whether a value is missing."""
    return _numeric("RandomForestLearner", _by_gaps, missing=0.3, allow_na_conditions=True)


def _by_gaps(rows: Rows) -> Rows:
    return np.asarray(target(rows) + 3 * np.isnan(rows[:, 1]))


@zoo_model
def ydf_boosted() -> ZooModel:
    return _numeric("GradientBoostedTreesLearner", target)


@zoo_model
def ydf_boosted_bins() -> ZooModel:
    """Numbers cut into bins beforehand."""
    return _numeric(
        "GradientBoostedTreesLearner",
        target,
        discretize_numerical_columns=True,
        num_discretized_numerical_bins=20,
    )


@zoo_model
def ydf_boosted_early_stopped() -> ZooModel:
    return _numeric("GradientBoostedTreesLearner", target, validation_ratio=0.2, num_trees=60, shrinkage=0.5)


@zoo_model
def ydf_boosted_binary() -> ZooModel:
    return _numeric("GradientBoostedTreesLearner", lambda rows: classes(rows, 2), task="CLASSIFICATION")


@zoo_model
def ydf_boosted_classes() -> ZooModel:
    return _numeric("GradientBoostedTreesLearner", lambda rows: classes(rows, 3), task="CLASSIFICATION")


@zoo_model
def ydf_boosted_poisson() -> ZooModel:
    return _numeric(
        "GradientBoostedTreesLearner", lambda rows: np.round(np.exp(target(rows))), loss="POISSON"
    )


@zoo_model
def ydf_boosted_ranking() -> ZooModel:
    rows = numeric_rows()
    group = np.repeat(np.arange(20), len(rows) // 20).astype(np.bytes_)
    table = {**columns(rows), "group": group}
    outcome = classes(rows, 4).astype(np.float32)
    model = train("GradientBoostedTreesLearner", table, outcome, task="RANKING", ranking_group="group")
    return ZooModel(model, rows, frame, tolerance=_TOLERANCE)


def labelled(rows: Rows) -> Any:
    """Two columns of words, some of them missing or never seen, and numbers."""
    pandas = pytest.importorskip("pandas")
    table = columns(rows)
    for feature, words in WORDS.items():
        codes = rows[:, feature]
        known = [words[int(code)] if code in range(len(words)) else "never seen" for code in codes]
        table[f"f{feature}"] = pandas.Series(known, dtype=object).where(~np.isnan(codes), None)
    return pandas.DataFrame(table)


def _labelled(learner: str, outcome: Any, **options: Any) -> ZooModel:
    ydf, rows = pytest.importorskip("ydf"), coded_rows((3, 12))
    features = [
        ydf.Column(f"f{feature}", ydf.Semantic.CATEGORICAL, vocabulary=words)
        for feature, words in WORDS.items()
    ]
    table = {name: column.to_numpy() for name, column in labelled(rows).items()}
    for feature in WORDS:
        table[f"f{feature}"] = np.array([word or "" for word in table[f"f{feature}"]])
    model = train(learner, table, outcome(rows), features=features, include_all_columns=True, **options)
    return ZooModel(model, rows, labelled, frozenset(WORDS), tolerance=_TOLERANCE)


@zoo_model
def ydf_forest_table() -> ZooModel:
    """Trained on a file: a missing label is then taken for the most frequent, unlike one never seen."""
    rows = coded_rows((3, 12))
    for column in rows.T[:2]:  # YDF numbers labels by how often they occur
        found, counts = np.unique(column[~np.isnan(column)].astype(int), return_counts=True)
        place = np.empty(len(found))
        place[found[np.argsort(-counts, kind="stable")]] = np.arange(len(found))
        column[~np.isnan(column)] = place[column[~np.isnan(column)].astype(int)]
    with tempfile.TemporaryDirectory() as directory:
        table = labelled(rows).assign(outcome=coded_target(rows))
        table.to_csv(f"{directory}/table.csv", index=False)
        model = train("RandomForestLearner", f"csv:{directory}/table.csv", None, min_vocab_frequency=1)
    return ZooModel(model, rows, labelled, frozenset(WORDS), tolerance=_TOLERANCE)


@zoo_model
def ydf_boosted_labels() -> ZooModel:
    return _labelled("GradientBoostedTreesLearner", coded_target, num_trees=20)


@zoo_model
def ydf_forest_labels() -> ZooModel:
    """Sets that were drawn at random, in which labels that are not known may be as well."""
    return _labelled(
        "RandomForestLearner",
        lambda rows: (coded_target(rows) > 0).astype(int),
        task="CLASSIFICATION",
        categorical_algorithm="RANDOM",
    )


@zoo_model
def ydf_forest_codes() -> ZooModel:
    """Categories that are whole numbers from zero, as YDF's own tools and TensorFlow's make them."""
    rows = coded_rows((6,))
    rows[:, 0] = np.nan_to_num(rows[:, 0])
    features = [pytest.importorskip("ydf").Column("f0", pytest.importorskip("ydf").Semantic.CATEGORICAL)]
    with tempfile.TemporaryDirectory() as directory:
        frame(rows).assign(
            f0=rows[:, 0].astype(int), outcome=target(rows[:, 1:]) + np.sin(2 * rows[:, 0])
        ).to_csv(f"{directory}/table.csv", index=False)
        path = f"csv:{directory}/table.csv"
        spec = train(
            "RandomForestLearner", path, None, features=features, include_all_columns=True
        ).data_spec()
        (column,) = (column for column in spec.columns if column.name == "f0")
        column.categorical.ClearField("items")
        column.categorical.is_already_integerized, column.categorical.number_of_unique_values = True, 6
        model = train("RandomForestLearner", path, None, data_spec=spec)
    return ZooModel(
        model,
        rows,
        lambda rows: frame(rows).assign(f0=rows[:, 0].astype(int)),
        frozenset({0}),
        takes_missing=False,
        takes_unknown_categories=False,
        tolerance=_TOLERANCE,
    )


def whole(rows: Rows) -> Any:
    """A column of whole numbers that are labels, one of truth values, and numbers."""
    pandas = pytest.importorskip("pandas")
    table = columns(rows)
    table["f0"] = np.where(np.isin(rows[:, 0], range(3)), 100 + rows[:, 0], 7).astype(np.int64)
    table["f1"] = rows[:, 1] > 0
    return pandas.DataFrame(table)


@zoo_model
def ydf_forest_whole_numbers() -> ZooModel:
    """Of categories and of truth values, none of which may be missing."""
    ydf, rows = pytest.importorskip("ydf"), np.nan_to_num(coded_rows((3, 2)))
    table = {name: column.to_numpy() for name, column in whole(rows).items()}
    labels = ydf.Column("f0", ydf.Semantic.CATEGORICAL, vocabulary=["100", "101", "102"])
    features = {"features": [labels], "include_all_columns": True}
    model = train("RandomForestLearner", table, coded_target(rows), **features)
    return ZooModel(model, rows, whole, frozenset({0, 1}), takes_missing=False, tolerance=_TOLERANCE)
