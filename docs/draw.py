"""Draw the pictures of docs/how-it-works.md, the paper's tree and an integral that is a short sum; of the
quickstart, shap's plots of its explanation; and of docs/performance.md, its table of rows per call."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

IMAGES = Path(__file__).parent / "images"
INK, FAINT, TAKEN, NEGATIVE, POSITIVE = "#22303c", "#c3ccd4", "#1f77d0", "#1f77d0", "#e5384f"

#: Node → where it is drawn and what it says; then edges: parent, child, condition and share of training rows,
#: satisfied? Laid out as in the paper's figure 1.
NODES = {
    "temperature": (3.0, 4.0),
    "0.5  (D)": (1.0, 3.0),
    "cloudy": (5.0, 3.0),
    "wind speed": (3.4, 2.0),
    "0.7  (A)": (6.8, 2.0),
    "0.4  (C)": (1.8, 1.0),
    "0.6  (B)": (5.0, 1.0),
}
EDGES = [
    ("temperature", "0.5  (D)", "≤ 19,  w = 0.5", False),
    ("temperature", "cloudy", "> 19,  w = 0.5", True),
    ("cloudy", "wind speed", "no,  w = 0.4", True),
    ("cloudy", "0.7  (A)", "yes,  w = 0.6", False),
    ("wind speed", "0.4  (C)", "≤ 8,  w = 0.7", True),
    ("wind speed", "0.6  (B)", "> 8,  w = 0.3", False),
]


def main() -> None:
    matplotlib.use("Agg")
    with plt.rc_context({"font.size": 10, "text.color": INK, "xtick.color": INK, "ytick.color": INK}):
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(10, 3.8), width_ratios=(1.5, 1), layout="constrained"
        )
        _draw_tree(left)
        _draw_values(right)
        figure.savefig(IMAGES / "tree.png", dpi=130)
        plt.close(figure)

        figure, axes = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
        _draw_integral(axes)
        figure.savefig(IMAGES / "integral.png", dpi=130)
        plt.close(figure)
        figure, panels = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True, layout="constrained")
        _draw_rows_per_call(panels)
        figure.savefig(IMAGES / "rows-per-call.png", dpi=130)
        plt.close(figure)
    _draw_quickstart()


def _draw_rows_per_call(panels: np.ndarray) -> None:
    """A panel for each model of the table: microseconds per row against rows per call, of everyone in it."""
    text = (IMAGES.parent / "performance.md").read_text(encoding="utf-8")
    table = text[text.index("| | rows | ns per leaf·row") :].split("\n\n")[0].splitlines()
    header, *lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    colors = dict(zip(header[3:], (TAKEN, "#c9822b", "#7d8b99", "#5b8c5a", "#9467bd"), strict=True))
    models = dict.fromkeys(line[0] for line in lines[1:])
    for axes, model in zip(panels, models, strict=True):
        for column, name in enumerate(header[3:], 3):
            known = [
                (line[1], line[column].split()[0]) for line in lines if line[0] == model and line[column]
            ]
            if not known:
                continue
            n_rows, took = np.array([[float(cell.replace(",", "")) for cell in pair] for pair in known]).T
            label = "linear-treeshap" if name == "ms" else name.removesuffix(", ms")
            axes.loglog(
                n_rows, 1e3 * took / n_rows, color=colors[name], marker="o", markersize=4, label=label
            )
        axes.set(title=model, xlabel="rows per call")
        axes.grid(color=FAINT, linewidth=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("µs per row, one thread")
    panels[0].legend(frameon=False, fontsize=8)


def _draw_quickstart() -> None:
    from sklearn.datasets import load_diabetes
    from sklearn.ensemble import RandomForestRegressor

    from linear_treeshap import TreeExplainer

    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    model = RandomForestRegressor(100, min_samples_leaf=4, random_state=0).fit(X, y)
    explanation = TreeExplainer(model)(X)
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.6))
    plt.sca(left)
    explanation.plot.beeswarm(show=False, plot_size=None, color_bar=False)
    plt.sca(right)
    explanation[7].plot.waterfall(show=False)
    figure.set_size_inches(13, 4.6)
    figure.tight_layout()
    figure.savefig(IMAGES / "quickstart.png", dpi=80)
    plt.close(figure)


def _draw_tree(axes: Axes) -> None:
    """Edges that the day satisfies are blue; each says its condition and its share of the training rows."""
    for parent, child, label, satisfied in EDGES:
        (x0, y0), (x1, y1) = NODES[parent], NODES[child]
        axes.plot(
            [x0, x1], [y0, y1], color=TAKEN if satisfied else FAINT, lw=3 if satisfied else 1.5, zorder=0
        )
        beside = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        middle = ((x0 + x1) / 2, (y0 + y1) / 2)
        axes.text(*middle, label, ha="center", va="center", bbox=beside, fontsize=9)
    for name, (x, y) in NODES.items():
        box = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": INK}
        axes.text(x, y, name, ha="center", va="center", bbox=box)
    axes.set_xlim(0, 8)
    axes.set_ylim(0.6, 4.4)
    axes.axis("off")
    axes.set_title("20 degrees, not cloudy, wind speed 6: satisfied edges are blue", fontsize=10, loc="left")


def _draw_values(axes: Axes) -> None:
    """From what the tree expects of any day to what it predicts for this one; see the page."""
    names, values = ["temperature", "cloudy", "wind speed"], np.array([0.004, -0.123, -0.033])
    ends = 0.552 + np.cumsum(values)
    axes.barh(names, values, left=ends - values, color=np.where(values > 0, POSITIVE, NEGATIVE), height=0.5)
    for name, value, end in zip(names, values, ends, strict=True):
        axes.text(max(end, end - value) + 0.004, name, f"{value:+.3f}", va="center")
    axes.axvline(0.552, color=FAINT, zorder=0)
    axes.axvline(0.4, color=FAINT, zorder=0)
    axes.set_xlim(0.38, 0.62)
    axes.set_xticks([0.4, 0.552], ["0.4\nprediction", "0.552\nexpected"])
    axes.invert_yaxis()
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_title("the values φ", fontsize=10, loc="left")


def _draw_integral(axes: Axes) -> None:
    """The integrand of one leaf with six players: degree 5, so three points are exact."""
    satisfied, absent = np.array([1, 1, 0, 1, 0, 1]), np.array([0.3, 0.6, 0.5, 0.8, 0.9, 0.4])
    t = np.linspace(0, 1, 400)
    points, weights = np.polynomial.legendre.leggauss(3)
    points, weights = (1 + points) / 2, weights / 2

    def integrand(t: np.ndarray) -> np.ndarray:
        u = t[:, np.newaxis] * satisfied[1:] + (1 - t[:, np.newaxis]) * absent[1:]
        return (satisfied[0] - absent[0]) * u.prod(axis=1)

    axes.plot(t, integrand(t), color=INK, lw=1.5)
    starts = np.append(0, np.cumsum(weights)[:-1])
    for start, weight, height, point in zip(starts, weights, integrand(points), points, strict=True):
        axes.bar(start, height, weight, align="edge", color=TAKEN, alpha=0.18, edgecolor="white")
        axes.plot([point], [height], "o", color=TAKEN)
    many_points, many_weights = np.polynomial.legendre.leggauss(40)
    exact = float(many_weights @ integrand((1 + many_points) / 2) / 2)
    assert np.isclose(weights @ integrand(points), exact, rtol=1e-14)
    axes.set_xticks([0, *points, 1], ["0", "t₁", "t₂", "t₃", "1"])
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(
        "three bars of width ω and height at t have exactly the area under the curve", fontsize=10, loc="left"
    )


if __name__ == "__main__":
    main()
