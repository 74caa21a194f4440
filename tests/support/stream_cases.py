"""Explainers of every kind with an Arrow table to explain, for the streams and for all engines that use them.

A case knows what a table of values by "columns" must hold, from the explainer itself: the engines must give
the same bits, wherever the rows were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest

from linear_treeshap import TreeExplainer

FEATURES = ["a", "b", "c", "d"]
N_ROWS = 200


@dataclass(frozen=True)
class StreamCase:
    """An explainer, rows with keys, and options of `explain_batches`."""

    explainer: TreeExplainer
    table: Any  # with a column "id", and others that no model reads
    names: Sequence[str]  # of the columns that the explainer reads
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def frame(self) -> Any:
        """The rows as the explainer itself is given them."""
        return frame_of(self.table, self.names)

    @property
    def lines_per_row(self) -> int:
        return self.explainer.ensemble.n_outputs

    def expected(self) -> Any:
        """A frame of what "columns" holds, less the keys."""
        if "order" in self.options:
            return self.explainer.interactions(self.frame, self.options["order"]).to_frame()
        y = self.table["y"].to_numpy() if "y" in self.options else None
        return self.explainer(self.frame, y).to_frame()


def frame_of(table: Any, names: Sequence[str]) -> Any:
    frame = table.select(list(names)).to_pandas()
    return frame.astype({"city": "category"}) if "city" in names else frame


@cache
def table(n_rows: int = N_ROWS, seed: int = 0) -> Any:
    """Numbers with missing values, text, true or false outcomes, and keys that are no row numbers."""
    pa = pytest.importorskip("pyarrow")
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {"id": [f"{key:07d}" for key in rng.permutation(10 * n_rows)[:n_rows]]}
    for name in FEATURES:
        numbers = rng.normal(size=n_rows)
        columns[name] = pa.array(numbers, mask=rng.random(n_rows) < 0.1)
    columns["city"] = rng.choice(["Oslo", "Rome", "Bonn"], n_rows)
    columns["month"] = rng.integers(1, 4, n_rows)
    columns["y"] = rng.integers(0, 2, n_rows).astype(float)
    return pa.table(columns)


def target(rows: Any) -> Any:
    a, b, c = (np.nan_to_num(rows[name].to_numpy(zero_copy_only=False)) for name in "abc")
    return a * b + c + (np.array(rows["city"].to_pylist()) == "Oslo")


def _boosted(**options: Any) -> Any:
    xgboost = pytest.importorskip("xgboost")
    return xgboost.XGBRegressor(n_estimators=10, max_depth=4, n_jobs=1, **options)


def _classifier(y: Any) -> Any:
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(n_estimators=4, max_depth=3, n_jobs=1)
    return model.fit(frame_of(table(), FEATURES), y)


def _pipeline() -> Any:
    pytest.importorskip("sklearn")
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    encode = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
    model = make_pipeline(encode, RandomForestRegressor(n_estimators=5, max_depth=4, random_state=0))
    frame = table().select([*FEATURES, "city"]).to_pandas()
    return model.fit(frame, target(table()))


@cache
def stream_case(name: str) -> StreamCase:
    rows = table()
    X, y = frame_of(rows, FEATURES), target(rows)
    if name == "classes":
        return StreamCase(TreeExplainer(_classifier(np.digitize(y, [-0.5, 0.5]))), rows, FEATURES)
    if name == "probability":
        return StreamCase(TreeExplainer(_classifier(y > 0), X[:50], "probability"), rows, FEATURES)
    if name == "log_loss":
        explainer = TreeExplainer(_classifier(y > 0), X[:20], "log_loss")
        return StreamCase(explainer, rows, FEATURES, {"y": "y"})
    if name == "categories":
        lightgbm = pytest.importorskip("lightgbm")
        names = [*FEATURES, "city"]
        model = lightgbm.LGBMRegressor(n_estimators=5, min_data_per_group=1, n_jobs=1, verbose=-1)
        return StreamCase(TreeExplainer(model.fit(frame_of(rows, names), y)), rows, names)
    if name == "pipeline":
        return StreamCase(TreeExplainer(_pipeline()), rows, [*FEATURES, "city"])
    model = _boosted().fit(X, y)
    options: dict[str, dict[str, Any]] = {
        "boosted": {},
        "background": {"data": X[:30]},
        "groups": {"groups": {"first": ["a", "b"]}},
        "banzhaf": {"index": "banzhaf"},
        "pairs": {},
    }
    beside = {"order": 2} if name == "pairs" else {}
    return StreamCase(TreeExplainer(model, **options[name]), rows, FEATURES, beside)


#: One of each kind: they must come out of every stream and every engine as they come out of the explainer.
CASES = (
    "boosted",
    "classes",
    "background",
    "probability",
    "log_loss",
    "categories",
    "pipeline",
    "groups",
    "banzhaf",
    "pairs",
)
