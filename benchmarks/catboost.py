"""CatBoost with columns of categories, beside CatBoost's own values: ``python -m benchmarks.catboost``.

Models of default settings (1,000 trees of depth 6) on four data sets with columns of text, which are found in
LINEAR_TREESHAP_DATA; 10,000 rows, repeated where there are fewer, as a pandas frame. Printed is a table in
Markdown: seconds of processor time of a call on one thread, the best of several in turns, from the frame to
an array, with and without the default check, beside CatBoost's from its Pool. Answers are compared first.
Training takes minutes: ``--models FOLDER`` keeps the models there, and reads those that are there.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from linear_treeshap import TreeExplainer

from .data import DATA_VARIABLE

#: Data set → its target, and columns that are no features.
DATA = {
    "adult": ("income", ["split"]),
    "ames_housing": ("SalePrice", []),
    "bank_marketing_full": ("y", []),
    "titanic3": ("survived", []),
}
N_ROWS, ROUNDS = 10_000, 5
#: Of the largest value: both are sums of some thousands of float64.
ALLOWED = 1e-12


def read(name: str) -> tuple[Any, Any, list[str]]:
    """The frame, the target, and the columns of categories, in which what is missing is one more."""
    import pandas as pd

    target, others = DATA[name]
    frame = pd.read_parquet(Path(os.environ[DATA_VARIABLE]) / f"{name}.parquet").drop(columns=others)
    y = frame.pop(target)
    categories = [column for column in frame if not pd.api.types.is_numeric_dtype(frame[column])]
    text = {column: frame[column].astype(object).fillna("missing").astype(str) for column in categories}
    return frame.assign(**text), y, categories


def trained(name: str, folder: Path, frame: Any, y: Any, categories: list[str]) -> Any:
    import catboost as library

    kind = library.CatBoostRegressor if y.nunique() > 10 else library.CatBoostClassifier
    model = kind(verbose=0, allow_writing_files=False, random_seed=0)
    path = folder / f"{name}.cbm"
    if path.exists():
        return model.load_model(str(path))
    model.fit(frame, y, cat_features=categories)
    model.save_model(str(path))
    return model


def seconds(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The least processor time of each call, of several in turns."""
    took: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.process_time()
            call()
            took[name].append(time.process_time() - start)
    return {name: min(times) for name, times in took.items()}


def line(name: str, folder: Path) -> str:
    import catboost as library

    frame, y, categories = read(name)
    model = trained(name, folder, frame, y, categories)
    rows = frame.iloc[np.arange(N_ROWS) % len(frame)].reset_index(drop=True)
    pool = library.Pool(rows, cat_features=categories)
    explainer = TreeExplainer(model, n_jobs=1)

    def theirs() -> Any:
        return model.get_feature_importance(pool, type="ShapValues", thread_count=1)

    own = theirs()
    ours = explainer.shap_values(rows)
    error = float(np.abs(ours - own[:, :-1]).max() / np.abs(own).max())
    assert error <= ALLOWED, f"{name}: values differ by {error:.1e} of the largest"
    took = seconds(
        {
            "unchecked": lambda: explainer.shap_values(rows, check_additivity=False),
            "checked": lambda: explainer.shap_values(rows),
            "theirs": theirs,
        }
    )
    cells = [name, f"{rows.shape[1]} ({len(categories)})", f"{took['theirs']:.3g}"]
    for ours_took in (took["unchecked"], took["checked"]):
        cells += [f"{ours_took:.3g}", f"{took['theirs'] / ours_took:.1f}"]
    return "| " + " | ".join([*cells, f"{error:.0e}"]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", default=list(DATA), help=f"of {', '.join(DATA)}")
    parser.add_argument("--models", type=Path, help="a folder for trained models")
    asked = parser.parse_args()
    print("| | columns (of text) | CatBoost, s | s | ratio | s with the check | ratio | error |")
    print("|---|---|---|---|---|---|---|---|")
    with TemporaryDirectory() as folder:
        models = asked.models or Path(folder)
        models.mkdir(parents=True, exist_ok=True)
        for name in asked.names:
            print(line(name, models), flush=True)


if __name__ == "__main__":
    main()
