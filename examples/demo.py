"""Train a random forest on the diabetes data that ships with scikit-learn, explain every patient, show it.

Prints a summary and writes a picture, a table of all values, and the interactive report. Everything in the
picture comes from `Explanation.values`; nothing but matplotlib is needed for that.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

from linear_treeshap import Explanation, TreeExplainer

Floats = npt.NDArray[np.floating]

#: Column of the data → what it is.
NAMES = {
    "age": "age",
    "sex": "sex",
    "bmi": "body mass index",
    "bp": "blood pressure",
    "s1": "total cholesterol",
    "s2": "LDL cholesterol",
    "s3": "HDL cholesterol",
    "s4": "cholesterol / HDL",
    "s5": "log triglycerides",
    "s6": "blood sugar",
}
N_TREES = 500

#: Colours of text and axes, of lines that only guide the eye, of bars.
INK, FAINT, BAR = "#22303c", "#d5dbe1", "#8aa1b4"
LOW_TO_HIGH = LinearSegmentedColormap.from_list("low to high", ["#1f77d0", "#8d7fc7", "#e5384f"])
STYLE: dict[str, Any] = {
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.08,
    "font.size": 10,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--output", type=Path, default=Path("demo"), help="folder to write to (default: demo)"
    )
    folder: Path = parser.parse_args().output

    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X = X.rename(columns=NAMES)
    model = RandomForestRegressor(N_TREES, min_samples_leaf=4, max_features=0.5, random_state=0).fit(X, y)

    start = time.perf_counter()
    explainer = TreeExplainer(model)
    compiled = time.perf_counter()
    # The check against the model's own prediction is made, and shown, below.
    explanation = explainer(X, check_additivity=False)
    done = time.perf_counter()

    prediction = model.predict(X)
    error = np.abs(explanation.base_values + explanation.values.sum(axis=1) - prediction).max()
    print_summary(explainer, explanation, compiled - start, done - compiled, float(error))
    folder.mkdir(parents=True, exist_ok=True)
    write_table(explanation, prediction, folder / "values.csv")
    write_picture(explanation, folder / "explanation.png")
    page = explanation.report(folder / "report.html", title="Progression of diabetes")
    print(f"wrote {page}")
    print(f"\nOpen the report in a browser: {page.resolve().as_uri()}")


def print_summary(
    explainer: TreeExplainer, explanation: Explanation, compiling: float, explaining: float, error: float
) -> None:
    n_rows = len(explanation)
    for label, value in (
        (
            "model",
            f"random forest of {explainer.ensemble.n_trees} trees, {explainer.ensemble.n_leaves:,} leaves",
        ),
        ("rows explained", f"{n_rows:,}"),
        ("reading the model", f"{compiling:.3f} s"),
        ("explaining", f"{explaining:.3f} s, {n_rows / explaining:,.0f} rows per second"),
        ("additivity error", f"{error:.1e} at most"),
    ):
        print(f"{label:<18} {value}")
    print(f"\n{'feature':<18} {'mean |value|':>12}   (points of disease progression)")
    for feature, importance in explanation.importance().itertuples(index=False):
        print(f"{feature:<18} {importance:>12.2f}")
    print()


def write_table(explanation: Explanation, prediction: Floats, path: Path) -> None:
    """A row per patient: base value, the value of every feature, and the prediction they add up to."""
    table: pd.DataFrame = explanation.to_frame()
    table.insert(0, "base value", explanation.base_values)
    table["prediction"] = prediction
    table.to_csv(path, index_label="row", float_format="%.6g")
    print(f"wrote {path}")


def write_picture(explanation: Explanation, path: Path) -> None:
    """Bars of mean absolute values beside the values of every row, the most important feature on top."""
    matplotlib.use("agg")
    importance = np.abs(explanation.values).mean(axis=0)
    order = np.argsort(importance)
    names = np.array(explanation.feature_names)[order]
    values = explanation.values[:, order]
    data = np.asarray(explanation.data, dtype=np.float64)[:, order]

    plt.style.use(STYLE)
    figure, (bars, swarm) = plt.subplots(
        1, 2, figsize=(10, 5.2), sharey=True, width_ratios=[1, 2.6], layout="constrained"
    )
    figure.suptitle(
        f"What moves the predicted progression of diabetes: {len(values)} patients, {N_TREES} trees",
        fontsize=13,
        fontweight="bold",
        x=0.01,
        ha="left",
    )
    draw_bars(bars, importance[order], names)
    draw_swarm(swarm, values, data)
    base_value = explanation.base_values[0]
    swarm.set_xlabel(
        f"Shapley value of each patient: points above or below the base value of {base_value:.0f}"
    )
    scale = figure.colorbar(ScalarMappable(cmap=LOW_TO_HIGH), ax=swarm, ticks=[0, 1], aspect=40, pad=0.02)
    scale.ax.set_yticklabels(["low", "high"])
    scale.set_label("value of the feature", labelpad=-12)
    scale.outline.set_visible(False)
    scale.ax.tick_params(length=0)
    figure.savefig(path, dpi=110, pil_kwargs={"optimize": True})
    plt.close(figure)
    print(f"wrote {path}")


def draw_bars(axes: Axes, importance: Floats, names: npt.NDArray[np.str_]) -> None:
    places = np.arange(len(importance))
    drawn = axes.barh(places, importance, height=0.62, color=BAR)
    axes.bar_label(drawn, fmt="%.1f", padding=3, fontsize=9)
    axes.set_yticks(places, names)
    axes.set_xlabel("mean |value|, points", labelpad=20)
    axes.margins(x=0.18)
    axes.tick_params(length=0)
    axes.set_xticks([])
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def draw_swarm(axes: Axes, values: Floats, data: Floats) -> None:
    """A dot per row and feature, stacked where they are dense, coloured by the feature's value."""
    width = np.ptp(values) / 150  # of a dot
    for place, (column, numbers) in enumerate(zip(values.T, data.T, strict=True)):
        axes.axhline(place, color=FAINT, linewidth=0.6, zorder=0)
        # Colours follow ranks, so that a few extreme numbers do not take all the contrast.
        rank = np.searchsorted(np.sort(numbers), numbers) / (len(numbers) - 1)
        axes.scatter(
            column,
            place + stacked(column, width),
            c=rank / max(rank.max(), 1e-9),
            cmap=LOW_TO_HIGH,
            s=9,
            linewidths=0,
            alpha=0.9,
            zorder=2,
        )
    axes.axvline(0, color=INK, linewidth=0.8, zorder=1)
    axes.set_ylim(-0.6, values.shape[1] - 0.4)
    axes.tick_params(left=False, length=3)
    axes.spines[["top", "right", "left"]].set_visible(False)


def stacked(column: Floats, width: float) -> Floats:
    """How far from its line each dot is drawn: dots of about the same value above and below each other."""
    bins = np.round(column / width).astype(np.int64)
    offset = np.zeros(len(column))
    step = min(0.08, 0.84 / max(np.unique(bins, return_counts=True)[1].tolist()))
    for one in np.unique(bins):
        here = np.flatnonzero(bins == one)
        rank = np.arange(len(here))
        offset[here] = np.where(rank % 2 == 0, rank // 2, -(rank // 2 + 1)) * step
    return offset


if __name__ == "__main__":
    main()
