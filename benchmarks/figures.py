"""JSON results → pictures of the docs: ``python -m benchmarks.figures``.

Draws the paper's figure, speed-up over TreeSHAP (shap's C code) against depth with the spread of the
runs, and the picture of errors against players per path, from whatever results there are.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from .accuracy import RESULT as ACCURACY
from .cases import PAPER_DEPTHS
from .tables import DOCS, Report, load, peer_name

__all__ = ["accuracy_figure", "main", "paper_figure", "speed_ups"]

#: Depth → (mean, standard deviation) over the runs.
Curve = dict[int, tuple[float, float]]


def speed_ups(reports: list[Report], data: str) -> dict[str, Curve]:
    """For each peer and version, how many times faster per row than shap in results of the same Python."""
    curves: dict[str, Curve] = {}
    for report in reports:
        if not report["case"].startswith(f"paper-{data}-"):
            continue
        depth = report["depth"]
        done = {r["peer"]: r for r in report["results"] if r["seconds"]}
        if "shap" not in done:
            continue
        tree_shap = median(done["shap"]["seconds"]) / done["shap"]["n_rows"]
        for result in done.values():
            ratios = [tree_shap * result["n_rows"] / seconds for seconds in result["seconds"]]
            spread = stdev(ratios) if len(ratios) > 1 else 0.0
            curve = curves.setdefault(peer_name(result), {})
            curve.setdefault(depth, (mean(ratios), spread))
    return curves


def paper_figure(reports: list[Report], path: Path) -> None:
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    measured = {data: curves for data in ("adult", "conductor") if (curves := speed_ups(reports, data))}
    labels = list(dict.fromkeys(label for curves in measured.values() for label in curves))
    figure = Figure(figsize=(4 + 3.5 * len(measured), 5), layout="constrained")
    lines = {}
    pictures = figure.subplots(1, len(measured), sharey=True, squeeze=False)[0]
    for axes, (data, curves) in zip(pictures, measured.items(), strict=True):
        for label, curve in curves.items():
            depths = sorted(curve)
            means, spreads = zip(*(curve[depth] for depth in depths), strict=True)
            color = colormaps["tab20"](labels.index(label))  # the same in all pictures
            lines[label] = axes.errorbar(
                depths, means, spreads, marker="o", markersize=3, capsize=2, color=color
            )
        axes.set(title=data, xlabel="depth of the tree", xticks=PAPER_DEPTHS, yscale="log")
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("speed-up over TreeSHAP (shap's C code), one core")
    figure.legend(lines.values(), lines.keys(), fontsize="small", loc="outside right upper")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


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
    reports = load()
    if any(report["case"].startswith("paper-") for report in reports):
        paper_figure(reports, DOCS / "images" / "paper.png")
    if ACCURACY.exists():
        accuracy_figure(json.loads(ACCURACY.read_text()), DOCS / "images" / "accuracy.png")


if __name__ == "__main__":
    main()
