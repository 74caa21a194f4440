"""Credit risk: a pipeline of one-hot columns and boosted trees, explained in the variables of an application.

Prints which variables matter, exactly and by the usual sum over one-hot columns, and the reasons for one
refusal; draws both. The data is the German credit data (Hofmann 1994) from the folder that
LINEAR_TREESHAP_DATA names, or from OpenML with --openml; without either, applications are generated.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder

from linear_treeshap import Explanation, TreeExplainer

#: What the codes of the original file stand for, by their number.
LABELS = {
    "checking_status": {11: "overdrawn", 12: "below 200", 13: "200 or salary", 14: "none"},
    "credit_history": {30: "none", 31: "all paid here", 32: "paid till now", 33: "delays", 34: "critical"},
    "purpose": {40: "new car", 41: "used car", 42: "furniture", 43: "radio or TV", 44: "appliances"}
    | {45: "repairs", 46: "education", 48: "retraining", 49: "business", 410: "others"},
    "savings_status": {61: "below 100", 62: "below 500", 63: "below 1000", 64: "more", 65: "unknown"},
    "employment": {71: "unemployed", 72: "< 1 year", 73: "< 4 years", 74: "< 7 years", 75: "longer"},
    "other_parties": {101: "none", 102: "co-applicant", 103: "guarantor"},
    "property_magnitude": {121: "real estate", 122: "life insurance", 123: "car", 124: "unknown"},
    "other_payment_plans": {141: "bank", 142: "stores", 143: "none"},
    "housing": {151: "rent", 152: "own", 153: "for free"},
    "job": {171: "unskilled, abroad", 172: "unskilled", 173: "skilled", 174: "management"},
    "own_telephone": {191: "none", 192: "yes"},
}
#: Not for a lender to decide by.
LEFT_OUT = ["personal_status", "foreign_worker"]

INK, FAINT, GOOD, BAD = "#22303c", "#d5dbe1", "#1f77d0", "#e5384f"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--openml", action="store_true", help="fetch the data from OpenML")
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder for the picture")
    args = parser.parse_args()

    X, is_bad, source = load(args.openml)
    X_train, X_test, y_train, y_test = train_test_split(
        X, is_bad, test_size=0.3, random_state=0, stratify=is_bad
    )
    model = train(X_train, y_train)
    auc = roc_auc_score(y_test, model.predict_proba(X_test)[:, 1])
    print(f"{source}; AUC on {len(X_test)} held-out applications {auc:.3f}\n")

    explainer = TreeExplainer(model)  # the pipeline as a whole: raw rows in, raw columns out
    explanation = explainer(X_test)
    by_columns = summed_over_columns(model, X_test)
    print_importance(explanation, by_columns)
    applicant = print_reasons(explanation, by_columns)

    args.output.mkdir(parents=True, exist_ok=True)
    draw(explanation, by_columns, applicant, args.output / "credit-risk.png")


# -- data and model ---------------------------------------------------------------------------------------


def load(openml: bool) -> tuple[pd.DataFrame, pd.Series, str]:
    """Applications, whether they went bad, and where they came from."""
    folder = os.environ.get("LINEAR_TREESHAP_DATA")
    if folder is not None:
        frame = pd.read_parquet(Path(folder) / "german_credit.parquet")
        for column, labels in LABELS.items():
            frame[column] = frame[column].str.removeprefix("A").astype(int).map(labels)
        frame["class"], source = frame["class"] == 2, "German credit data (UCI)"
    elif openml:
        from sklearn.datasets import fetch_openml

        frame = fetch_openml("credit-g", version=1, as_frame=True).frame
        frame["class"], source = frame["class"] == "bad", "German credit data (OpenML)"
    else:
        frame, source = generated(), "generated applications"
    X = frame.drop(columns=["class", *LEFT_OUT], errors="ignore")
    return X, frame["class"], f"{source}, {len(X):,} × {X.shape[1]}"


def generated(n_rows: int = 1000) -> pd.DataFrame:
    """Applications with the labels above, whose risk depends on the account, the purpose and the amount."""
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {
        name: rng.choice([*labels.values()], n_rows) for name, labels in LABELS.items()
    }
    columns["duration"] = rng.integers(4, 72, n_rows)
    columns["credit_amount"] = np.exp(rng.normal(7.8, 0.8, n_rows)).round()
    columns["age"] = rng.integers(19, 75, n_rows)
    frame = pd.DataFrame(columns)
    risk = frame["duration"] / 20 + (frame["checking_status"] == "overdrawn") * 2 + rng.normal(size=n_rows)
    risk += (frame["purpose"] == "new car") * frame["credit_amount"] / 3000
    frame["class"] = risk > np.quantile(risk, 0.7)
    return frame


def train(X: pd.DataFrame, is_bad: pd.Series) -> Pipeline:
    texts = [name for name in X.columns if not pd.api.types.is_numeric_dtype(X[name])]
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = make_column_transformer((one_hot, texts), remainder="passthrough")
    trees = GradientBoostingClassifier(n_estimators=120, max_depth=4, subsample=0.7, random_state=0)
    return make_pipeline(columns, trees).fit(X, is_bad)


def summed_over_columns(model: Pipeline, X: pd.DataFrame) -> Explanation:
    """The usual way: explain every one-hot column, then add up those of a variable."""
    transformer, trees = model[0], model[-1]
    names = [name.partition("__")[2] for name in transformer.get_feature_names_out()]
    columns = TreeExplainer(trees, feature_names=names)(transformer.transform(X))
    of_variable = {
        raw: [name for name in names if name == raw or name.startswith(f"{raw}_")] for raw in X.columns
    }
    # In the order of the raw columns, to be compared with the exact values.
    return columns.sum_groups(of_variable)[:, list(X.columns)]


# -- what there is to see ---------------------------------------------------------------------------------


def print_importance(explanation: Explanation, by_columns: Explanation) -> None:
    print(f"{'variable':<24}{'exact':>8}{'summed':>8}   largest difference for one applicant")
    exact, summed = np.abs(explanation.values).mean(axis=0), np.abs(by_columns.values).mean(axis=0)
    gap = np.abs(explanation.values - by_columns.values).max(axis=0)
    for i in np.argsort(-exact)[:8]:
        print(f"{explanation.feature_names[i]:<24}{exact[i]:>8.3f}{summed[i]:>8.3f}{gap[i]:>12.3f}")


def print_reasons(explanation: Explanation, by_columns: Explanation) -> int:
    """Why the riskiest application would be refused; its row."""
    log_odds = explanation.base_values + explanation.values.sum(axis=1)
    row = int(np.argmax(log_odds))
    print(f"\nthe riskiest application: a risk of {1 / (1 + np.exp(-log_odds[row])):.0%}, because of")
    reasons = explanation[row].top(5)
    for feature, value in zip(reasons["feature"], reasons["value"], strict=True):
        print(f"  {feature:<24}{explanation.table[feature].iloc[row]!s:<18}{value:+.2f} log-odds")
    exact, summed = (np.argsort(-e.values, axis=1)[:, :3] for e in (explanation, by_columns))
    changed = (np.sort(exact) != np.sort(summed)).any(axis=1).mean()
    print(f"\nwith sums, the three main reasons against an applicant are others for {changed:.0%} of them")
    return row


def draw(explanation: Explanation, by_columns: Explanation, row: int, path: Path) -> None:
    matplotlib.use("Agg")
    style = {
        "axes.edgecolor": FAINT,
        "font.size": 10,
        "text.color": INK,
        "ytick.color": INK,
        "xtick.color": INK,
    }
    with plt.rc_context(style):
        figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
        _draw_importance(left, explanation, by_columns)
        _draw_reasons(right, explanation, row)
        for axes in (left, right):
            axes.spines[["top", "right", "left"]].set_visible(False)
            axes.tick_params(axis="y", length=0)
        figure.savefig(path, dpi=130)
        plt.close(figure)


def _draw_importance(axes: Axes, explanation: Explanation, by_columns: Explanation) -> None:
    exact, summed = np.abs(explanation.values).mean(axis=0), np.abs(by_columns.values).mean(axis=0)
    order = np.argsort(exact)[-10:]
    names = [explanation.feature_names[i].replace("_", " ") for i in order]
    axes.barh(names, exact[order], color=GOOD, height=0.6, label="exact value of the variable")
    axes.plot(summed[order], names, "o", color=BAD, markersize=6, label="sum of its one-hot columns")
    axes.set_title("mean |value|, log-odds", loc="left", fontsize=11)
    axes.legend(frameon=False, loc="lower right")


def _draw_reasons(axes: Axes, explanation: Explanation, row: int) -> None:
    """From the base value to the prediction, the largest steps first."""
    values = explanation.values[row]
    order = np.argsort(-np.abs(values))
    shown, rest = order[:8], values[order[8:]].sum()
    steps = np.append(values[shown], rest)
    ends = explanation.base_values[row] + np.cumsum(steps)
    names = [
        f"{explanation.feature_names[i].replace('_', ' ')}: {explanation.table.iloc[row, i]}" for i in shown
    ]
    names.append("all others")
    axes.barh(names, steps, left=ends - steps, color=np.where(steps > 0, BAD, GOOD), height=0.6)
    axes.axvline(explanation.base_values[row], color=FAINT, zorder=0)
    axes.margins(x=0.04)
    axes.invert_yaxis()
    axes.set_title("the riskiest application, log-odds", loc="left", fontsize=11)


if __name__ == "__main__":
    main()
