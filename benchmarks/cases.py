"""The named cases: how a model is trained, which rows it explains, and who is asked to explain them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from linear_treeshap.importers import import_model

from . import data

__all__ = ["CASES", "Case", "Problem", "split"]

#: Everybody who explains any trees, whatever library they were trained with.
ANY_TREES = ("shap", "xgboost", "fasttreeshap-v1", "fasttreeshap-v2", "shapiq", "woodelf", "published")


@dataclass(frozen=True)
class Problem:
    """A trained model and rows to explain; it is pickled, so that each peer gets a process of its own."""

    model: Any
    rows: npt.NDArray[np.float32]
    source: str  # of the data
    background: npt.NDArray[np.float32] | None = None  # for interventional values


@dataclass(frozen=True)
class Case:
    name: str
    title: str
    make: Callable[[], Problem]
    peers: tuple[str, ...] = ANY_TREES


def xgboost(n_trees: int, depth: int, n_rows: int = 10_000) -> Problem:
    import xgboost as xgb

    train = data.generated(20_000)
    settings = {"max_depth": depth, "eta": 0.1, "nthread": 1, "seed": 0}
    model = xgb.train(settings, xgb.DMatrix(train.X, train.y), n_trees)
    return Problem(model, data.generated(n_rows, seed=1).X, train.source)


def lightgbm(n_trees: int, n_leaves: int, n_rows: int = 10_000) -> Problem:
    import lightgbm as lgb

    train = data.generated(20_000)
    settings = {"num_leaves": n_leaves, "num_threads": 1, "seed": 0, "deterministic": True, "verbosity": -1}
    model = lgb.train(settings, lgb.Dataset(train.X, train.y), n_trees)
    return Problem(model, data.generated(n_rows, seed=1).X, train.source)


def catboost() -> Problem:
    import catboost as cb

    train = data.generated(20_000)
    model = cb.CatBoostRegressor(
        iterations=500, depth=6, thread_count=1, random_seed=0, verbose=False, allow_writing_files=False
    )
    model.fit(train.X, train.y)
    return Problem(model, data.generated(10_000, seed=1).X, train.source)


def random_forest(n_rows: int = 500) -> Problem:
    """Unlimited depth: paths that ask some 30 distinct features, where the published form breaks."""
    from sklearn.ensemble import RandomForestRegressor

    conductor = data.superconductor()
    train, test = split(conductor, n_test=4_263)
    model = RandomForestRegressor(100, max_features=0.3, random_state=0, n_jobs=1)
    model.fit(conductor.X[train], conductor.y[train])
    return Problem(model, conductor.X[test][:n_rows], conductor.source)


def forest_of_classes(n_classes: int, n_rows: int = 200) -> Problem:
    """As many classes, of equal size; no limit on the depth, so that leaves are pure."""
    from sklearn.ensemble import RandomForestClassifier

    train = data.generated(20_000)
    classes = np.digitize(train.y, np.quantile(train.y, np.arange(1, n_classes) / n_classes))
    model = RandomForestClassifier(50, random_state=0, n_jobs=1).fit(train.X, classes)
    return Problem(model, data.generated(n_rows, seed=1).X, train.source)


def covertype_forest(n_rows: int = 200) -> Problem:
    """Seven classes of very different size."""
    from sklearn.ensemble import RandomForestClassifier

    covertype = data.covertype()
    train, test = split(covertype, n_rows)
    model = RandomForestClassifier(50, random_state=0, n_jobs=1)
    model.fit(covertype.X[train[:50_000]], covertype.y[train[:50_000]])
    return Problem(model, covertype.X[test], covertype.source)


def big_forest() -> Problem:
    """Millions of nodes, for the memory they take."""
    from sklearn.ensemble import ExtraTreesRegressor

    train = data.generated(20_000)
    model = ExtraTreesRegressor(200, max_features=1, random_state=0, n_jobs=1).fit(train.X, train.y)
    return Problem(model, data.generated(100, seed=1).X, train.source)


def adult_in_groups() -> Problem:
    """108 columns, 102 of them one-hot, of 14 attributes; the names come along with the trees."""
    import xgboost as xgb

    adult = data.adult_attributes()
    if not adult.names:
        raise RuntimeError(adult.source)
    train, test = split(adult, 16_281)
    settings = {"objective": "binary:logistic", "max_depth": 6, "nthread": 1, "seed": 0}
    model = import_model(xgb.train(settings, xgb.DMatrix(adult.X[train], adult.y[train]), 100))
    named = replace(model, row_format=replace(model.row_format, feature_names=adult.names))
    return Problem(named, adult.X[test], adult.source)


def with_background(make: Callable[[], Problem], n_background: int) -> Problem:
    """The same model and rows, beside background rows that are neither these nor those it was trained on."""
    return replace(make(), background=data.generated(n_background, seed=2).X)


def forest_with_background(n_background: int) -> Problem:
    problem = random_forest(n_background + 500)
    return replace(problem, rows=problem.rows[n_background:], background=problem.rows[:n_background])


def split(table: data.Data, n_test: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Rows to train on, and rows to explain."""
    order = np.random.default_rng(0).permutation(len(table.y))
    return order[n_test:], order[:n_test]


_ALL = (
    Case("xgboost-100x6", "XGBoost, 100 trees of depth 6", partial(xgboost, 100, 6)),
    Case("xgboost-100x8", "XGBoost, 100 trees of depth 8", partial(xgboost, 100, 8)),
    Case("xgboost-100x12", "XGBoost, 100 trees of depth 12", partial(xgboost, 100, 12, 2_000)),
    Case("xgboost-500x8", "XGBoost, 500 trees of depth 8", partial(xgboost, 500, 8)),
    Case(
        "lightgbm-200x31",
        "LightGBM, 200 trees of 31 leaves",
        partial(lightgbm, 200, 31),
        ("lightgbm", *ANY_TREES),
    ),
    Case(
        "lightgbm-200x255",
        "LightGBM, 200 trees of 255 leaves",
        partial(lightgbm, 200, 255, 2_000),
        ("lightgbm", *ANY_TREES),
    ),
    Case("catboost-500x6", "CatBoost, 500 trees of depth 6", catboost, ("catboost", *ANY_TREES)),
    Case("random-forest", "random forest, 100 trees of unlimited depth", random_forest),
    Case("forest-classes", "random forest, 50 trees, 21 classes", partial(forest_of_classes, 21), ("shap",)),
    Case("forest-covertype", "random forest, 50 trees, 7 classes", covertype_forest, ("shap",)),
    Case("one-row", "one row, 100 trees of depth 6", partial(xgboost, 100, 6, 1)),
    Case(
        "ten-times-the-rows",
        "100,000 rows, 100 trees of depth 6",
        partial(xgboost, 100, 6, 100_000),
        ("ours-tenth", "woodelf"),
    ),
    Case("two-threads", "two threads, 100 trees of depth 6", partial(xgboost, 100, 6), ("ours-2-threads",)),
    Case(
        "kernels",
        "other instruction sets, 100 trees of depth 6",
        partial(xgboost, 100, 6),
        ("ours-avx2", "ours-baseline"),
    ),
    Case(
        "groups-adult",
        "adult in its 14 attributes, 100 trees of depth 6",
        adult_in_groups,
        ("ours-groups",),
    ),
    Case(
        "pairs-100x6",
        "interaction values, 100 trees of depth 6",
        partial(xgboost, 100, 6, 1_000),
        ("ours-pairs", "ours-sparse-pairs", "xgboost-pairs", "shap-pairs", "shapiq-pairs"),
    ),
    Case("big-forest", "extra trees, 200 trees of 20,000 leaves", big_forest, ("shap", "shapiq")),
    *(
        Case(
            f"background-100x6-{n}",
            f"{n:,} background rows, 100 trees of depth 6",
            partial(with_background, partial(xgboost, 100, 6, 1_000), n),
            ("shap", "shapiq", "woodelf"),
        )
        for n in (100, 1_000, 10_000)
    ),
    Case(
        "background-100x6-100000",
        "100,000 rows, 100,000 background rows, 100 trees of depth 6",
        partial(with_background, partial(xgboost, 100, 6, 100_000), 100_000),
        ("woodelf",),
    ),
    Case(
        "background-100x12",
        "100 background rows, 100 trees of depth 12",
        partial(with_background, partial(xgboost, 100, 12, 1_000), 100),
        ("shap", "shapiq", "woodelf"),
    ),
    Case(
        "background-100x12-1000",
        "1,000 background rows, 100 trees of depth 12",
        partial(with_background, partial(xgboost, 100, 12, 1_000), 1_000),
        ("shap", "shapiq"),
    ),
    Case(
        "background-forest",
        "100 background rows, a random forest of unlimited depth",
        partial(forest_with_background, 100),
        ("shap", "shapiq"),
    ),
    Case(
        "background-forest-1000",
        "1,000 background rows, a random forest of unlimited depth",
        partial(forest_with_background, 1_000),
        ("shap", "shapiq"),
    ),
)
CASES = {case.name: case for case in _ALL}
