"""Small GPBoost models for the zoo: trees beside the random effects of groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from zoo import ZooModel, zoo_model
from zoo_rows import (
    N_ROWS,
    classes,
    coded_rows,
    coded_target,
    labelled_frame,
    labelled_model,
    numeric_rows,
    target,
)

#: One thread, and categories that are split however few rows they have.
PARAMETERS = {
    "num_leaves": 8,
    "min_data_in_leaf": 5,
    "min_data_per_group": 1,
    "cat_smooth": 1.0,
    "num_threads": 1,
    "verbose": -1,
    "seed": 0,
}

GROUPS = np.repeat(np.arange(20), N_ROWS // 20)


def train(rows: Any, outcome: Any, likelihood: str | None = "gaussian", **options: Any) -> Any:
    """With random effects of groups, unless there is no likelihood."""
    gpboost = pytest.importorskip("gpboost")
    effects: dict[str, Any] = {}
    if likelihood is not None:
        effects["gp_model"] = gpboost.GPModel(
            group_data=GROUPS, likelihood=likelihood, num_parallel_threads=1
        )
    # Said twice, because it warns if either is silent.
    effects["categorical_feature"] = categorical = options.pop("categorical_feature", "auto")
    return gpboost.train(
        {**PARAMETERS, **options},
        gpboost.Dataset(rows, outcome, categorical_feature=categorical),
        num_boost_round=8,
        **effects,
    )


@zoo_model
def gpboost_groups() -> ZooModel:
    rows = numeric_rows()
    return ZooModel(train(rows, target(rows) + np.sin(GROUPS)), rows)


@zoo_model
def gpboost_counts() -> ZooModel:
    """On the scale of the logarithm, with codes of categories."""
    rows = coded_rows()
    outcome = np.round(np.exp(0.3 * coded_target(rows)))
    model = train(rows, outcome, "poisson", categorical_feature=[0, 1])
    return ZooModel(model, rows, categorical=frozenset({0, 1}))


@zoo_model
def gpboost_labels() -> ZooModel:
    rows = coded_rows()
    return labelled_model(train(labelled_frame(rows), coded_target(rows)), rows)


@zoo_model
def gpboost_classifier() -> ZooModel:
    """Through scikit-learn's interface."""
    gpboost = pytest.importorskip("gpboost")
    rows = numeric_rows()
    effects = gpboost.GPModel(group_data=GROUPS, likelihood="bernoulli_logit", num_parallel_threads=1)
    model = gpboost.GPBoostClassifier(n_estimators=8, num_leaves=8, n_jobs=1, silent=True)
    return ZooModel(model.fit(rows, classes(rows, 2), gp_model=effects), rows)


@zoo_model
def gpboost_without_effects() -> ZooModel:
    rows = numeric_rows()
    return ZooModel(train(rows, classes(rows, 2), None, objective="binary"), rows)
