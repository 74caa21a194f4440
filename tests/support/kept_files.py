"""Files of saved explainers that later releases must read: `python tests/support/kept_files.py` writes them.

In come small models of several libraries; out come, in `tests/storage/files/<version>`, a file of each kind
of explainer, and beside it, as JSON, rows, what they are explained with, and the values of that release.
What is there is never written again: files that users have do not change either.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import linear_treeshap
from linear_treeshap import TreeExplainer, import_model, load, save

__all__ = ["FOLDER", "Kept", "frame_of", "read_kept"]

FOLDER = Path(__file__).parents[1] / "storage" / "files"
N_ROWS = 8


@dataclass(frozen=True)
class Kept:
    """A file, rows for it, and what it said of them when it was written."""

    path: Path
    sha256: str
    is_explainer: bool
    rows: pd.DataFrame
    options: dict[str, Any]
    feature_names: tuple[str, ...]
    values: npt.NDArray[np.float64]
    base_values: npt.NDArray[np.float64]
    pairs: npt.NDArray[np.float64] | None

    def load(self) -> TreeExplainer:
        """As users do; trees alone are explained as they are."""
        return TreeExplainer.load(self.path) if self.is_explainer else TreeExplainer(load(self.path))


@dataclass(frozen=True)
class Case:
    """What is saved: an explainer, or the trees of a model alone."""

    explainer: TreeExplainer
    rows: pd.DataFrame
    options: dict[str, Any] = field(default_factory=dict)
    trees: Any = None
    has_pairs: bool = False


def read_kept(description: Path) -> Kept:
    found = json.loads(description.read_text(encoding="utf-8"))
    numbers = {
        name: None if found[name] is None else np.array(found[name], dtype=np.float64)
        for name in ("values", "base_values", "pairs")
    }
    assert numbers["values"] is not None
    assert numbers["base_values"] is not None
    return Kept(
        path=description.with_suffix(".lts"),
        sha256=found["sha256"],
        is_explainer=found["is_explainer"],
        rows=frame_of(found["rows"]),
        options=found["options"],
        feature_names=tuple(found["feature_names"]),
        values=numbers["values"],
        base_values=numbers["base_values"],
        pairs=numbers["pairs"],
    )


def frame_of(columns: list[dict[str, Any]]) -> pd.DataFrame:
    """Columns of numbers, in which null is missing, of texts, or of categories."""
    out = {}
    for column in columns:
        if column["kind"] == "number":
            out[column["name"]] = pd.Series(np.array(column["values"], dtype=np.float64))
        elif column["kind"] == "category":
            out[column["name"]] = pd.Series(pd.Categorical(column["values"]))
        else:
            out[column["name"]] = pd.Series(column["values"], dtype=object)
    frame: pd.DataFrame = pd.DataFrame(out)
    return frame


def _plain_frame(frame: pd.DataFrame) -> list[dict[str, Any]]:
    def kind(column: Any) -> str:
        if isinstance(column.dtype, pd.CategoricalDtype):
            return "category"
        return "text" if column.dtype == object else "number"

    return [
        {
            "name": name,
            "kind": kind(column),
            "values": [None if pd.isna(entry) else entry for entry in column.tolist()],
        }
        for name, column in frame.items()
    ]


# -- the cases ----------------------------------------------------------------------------------------------


def _data(n: int = 200) -> tuple[pd.DataFrame, npt.NDArray[np.float64]]:
    """Numbers that float32 holds, some of them missing, and a target."""
    rng = np.random.default_rng(0)
    X = rng.integers(-40, 40, size=(n, 4)) / 8
    y = X[:, 0] * X[:, 1] + np.abs(X[:, 2])
    X[rng.random(X.shape) < 0.1] = np.nan
    return pd.DataFrame(X, columns=["age", "income", "größe", "days"]), y


def _with_categories() -> tuple[pd.DataFrame, npt.NDArray[np.float64]]:
    X, y = _data()
    rng = np.random.default_rng(1)
    colour, place = rng.integers(0, 4, len(X)), rng.integers(0, 6, len(X))
    colours, places = np.array(["red", "green", "blue", "grey"]), np.array(list("pqrstu"))
    texts = pd.DataFrame({"colour": colours[colour], "place": places[place]}, dtype=object)
    return pd.concat([texts, X], axis=1), y + 3.0 * (colour == 1) - 2.0 * (place % 3 == colour)


def _xgboost(**options: Any) -> Any:
    import xgboost

    X, y = _data()
    options = {"n_estimators": 6, "max_depth": 3, "n_jobs": 1, **options}
    if "objective" in options:
        return xgboost.XGBClassifier(**options).fit(X, np.digitize(y, np.quantile(y, [1 / 3, 2 / 3])))
    return xgboost.XGBRegressor(**options).fit(X, y)


def _lightgbm_binary() -> Any:
    import lightgbm

    X, y = _data()
    return lightgbm.LGBMClassifier(n_estimators=6, num_leaves=6, n_jobs=1, verbose=-1).fit(X, y > 0)


def _values() -> Case:
    return Case(TreeExplainer(_xgboost()), _data()[0], has_pairs=True)


def _trees() -> Case:
    from sklearn.ensemble import GradientBoostingRegressor

    X, y = _data()
    X = X.fillna(0.0)
    trees = import_model(GradientBoostingRegressor(n_estimators=5, random_state=0).fit(X, y))
    return Case(TreeExplainer(trees), X, trees=trees)


def _background() -> Case:
    X = _data()[0]
    explainer = TreeExplainer(_lightgbm_binary(), X[50:70], data_weights=np.arange(1.0, 21.0))
    return Case(explainer, X, has_pairs=True)


def _probability() -> Case:
    X = _data()[0]
    return Case(TreeExplainer(_lightgbm_binary(), X[50:70], model_output="probability"), X)


def _loss() -> Case:
    X, y = _data()
    explainer = TreeExplainer(_lightgbm_binary(), X[50:70], model_output="log_loss")
    return Case(explainer, X, options={"y": [int(above) for above in (y > 0)[:N_ROWS]]})


def _groups() -> Case:
    groups = {"money": ["income", "days"]}
    return Case(TreeExplainer(_xgboost(), groups=groups, index="banzhaf"), _data()[0])


def _classes() -> Case:
    from sklearn.ensemble import RandomForestClassifier

    X, y = _data()
    X = X.fillna(-9.0)
    labels = np.array(["low", "middle", "high"])[np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))]
    forest = RandomForestClassifier(n_estimators=4, max_depth=4, random_state=0).fit(X, labels)
    return Case(TreeExplainer(forest), X)


def _softmax() -> Case:
    X = _data()[0]
    model = _xgboost(objective="multi:softprob")
    return Case(TreeExplainer(model, X[50:60], model_output="probability"), X)


def _categories() -> Case:
    import lightgbm

    X, y = _with_categories()
    X = X.astype({"colour": "category", "place": "category"})
    model = lightgbm.LGBMRegressor(
        n_estimators=6, num_leaves=6, n_jobs=1, verbose=-1, min_data_per_group=5, max_cat_to_onehot=1
    )
    return Case(TreeExplainer(model.fit(X, y)), X)


def _lookups() -> Case:
    import catboost

    X, y = _with_categories()
    model = catboost.CatBoostRegressor(
        iterations=6, depth=3, thread_count=1, one_hot_max_size=2, max_ctr_complexity=2, random_seed=0,
        verbose=False, allow_writing_files=False, cat_features=["colour", "place"],
    )  # fmt: skip
    return Case(TreeExplainer(model.fit(X, y)), X)


CASES: dict[str, Callable[[], Case]] = {
    "values": _values,
    "trees": _trees,
    "background": _background,
    "probability": _probability,
    "loss": _loss,
    "groups": _groups,
    "classes": _classes,
    "softmax": _softmax,
    "categories": _categories,
    "lookups": _lookups,
}


def write_kept(folder: Path, name: str) -> None:
    case, path = CASES[name](), folder / f"{name}.lts"
    if case.trees is None:
        case.explainer.save(path)
    else:
        save(case.trees, path)
    rows = case.rows[:N_ROWS]
    explanation = case.explainer(rows, **case.options)
    pairs = case.explainer.shap_interaction_values(rows) if case.has_pairs else None
    description = {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "is_explainer": case.trees is None,
        "rows": _plain_frame(rows),
        "options": case.options,
        "feature_names": list(explanation.feature_names),
        "values": explanation.values.tolist(),
        "base_values": np.asarray(explanation.base_values).tolist(),
        "pairs": None if pairs is None else np.asarray(pairs).tolist(),
    }
    text = json.dumps(description, ensure_ascii=False, separators=(",", ":"))
    path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    folder = FOLDER / linear_treeshap.__version__
    folder.mkdir(parents=True)
    for case_name in CASES:
        write_kept(folder, case_name)
