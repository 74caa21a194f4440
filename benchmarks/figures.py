"""JSON results → pictures of the docs: ``python -m benchmarks.figures``.

Draws the paper's figure, speed-up over TreeShap (shap's C code) against depth with the spread of the runs,
and the picture of errors against players per path, from whatever results there are.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from .accuracy import RESULT as ACCURACY
from .paper import RESULT as PAPER
from .paper_tables import NAMES
from .tables import DOCS

__all__ = ["accuracy_figure", "main", "paper_figure", "speed_ups"]

#: Depth → (mean, standard deviation) over the runs.
Curve = dict[int, tuple[float, float]]
COLORS = {
    "shap": "#7f7f7f",
    "fasttreeshap-v1": "#2ca02c",
    "fasttreeshap-v2": "#ff7f0e",
    "published": "#1f77b4",
    "ours": "#d62728",
}


def speed_ups(depths: dict[str, Any]) -> dict[str, Curve]:
    """For each algorithm, how many times faster than TreeShap in the same round."""
    curves: dict[str, Curve] = {}
    for depth, measured in depths.items():
        tree_shap = measured["algorithms"]["shap"]["seconds"]
        for name, entry in measured["algorithms"].items():
            ratios = [theirs / own for theirs, own in zip(tree_shap, entry["seconds"], strict=True)]
            spread = stdev(ratios) if len(ratios) > 1 else 0.0
            curves.setdefault(name, {})[int(depth)] = (mean(ratios), spread)
    return curves


def paper_figure(report: dict[str, Any], path: Path) -> None:
    """Above, as the paper has it; below, with ours, on a logarithmic axis. Hollow: v2 fell back to v1."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 7.5), layout="constrained")
    pictures = figure.subplots(2, len(report["data"]), sharex=True, sharey="row", squeeze=False)
    for column, (data, here) in enumerate(report["data"].items()):
        curves = speed_ups(here["depths"])
        theirs = [name for name in curves if name != "ours"]
        for axes, names in zip(pictures[:, column], (theirs, list(curves)), strict=True):
            for name in names:
                fallen = [int(d) for d, m in here["depths"].items() if m["algorithms"][name]["fell_back"]]
                _draw_curve(axes, curves[name], name, fallen)
            axes.grid(alpha=0.3)
            axes.set_xticks(sorted(curves["shap"]))
        pictures[0, column].set(title=data, ylim=(0, None))
        pictures[1, column].set(xlabel="depth of the tree", yscale="log")
    for axes in pictures[:, 0]:
        axes.set_ylabel("speed-up over TreeShap")
    lines, names = pictures[1, 0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside upper center", ncols=len(names), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def _draw_curve(axes: Any, curve: Curve, name: str, hollow: list[int]) -> None:
    depths = sorted(curve)
    means, spreads = zip(*(curve[depth] for depth in depths), strict=True)
    axes.errorbar(
        depths, means, spreads, marker="o", markersize=4, capsize=3, color=COLORS[name], label=NAMES[name]
    )
    heights = [curve[depth][0] for depth in hollow]
    axes.plot(hollow, heights, "o", markersize=5, color=COLORS[name], markerfacecolor="white", zorder=3)


def accuracy_figure(report: dict[str, Any], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for label, errors in report["errors"].items():
        # What is not a number, or larger than anything sensible, is drawn at the upper edge.
        heights = [min(e, 1e6) if e is not None else 1e6 for e in errors]
        axes.plot(report["players"], [max(h, 1e-17) for h in heights], marker="o", markersize=3, label=label)
    axes.set(xscale="log", yscale="log", xlabel="distinct players on a path")
    axes.set_ylabel("largest error / largest value")
    axes.set_xticks(report["players"], [str(d) for d in report["players"]])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main() -> None:
    if PAPER.exists():
        paper_figure(json.loads(PAPER.read_text()), DOCS / "images" / "paper.png")
    if ACCURACY.exists():
        accuracy_figure(json.loads(ACCURACY.read_text()), DOCS / "images" / "accuracy.png")


if __name__ == "__main__":
    main()
