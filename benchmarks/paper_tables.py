"""The paper's experiment as tables: its seconds beside the authors', and how time and memory grow.

In comes the report of `benchmarks.paper`, out come Markdown tables for docs/performance.md, which
``python -m benchmarks.tables`` writes.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean, stdev
from typing import Any

from .paper import ALGORITHMS, PUBLISHED_SECONDS, RESULT
from .tables import short

__all__ = ["NAMES", "RESULT", "TABLES", "growth", "seconds", "setting"]

Report = dict[str, Any]
#: As the paper calls them.
NAMES = {
    "shap": "TreeShap",
    "fasttreeshap-v1": "Fast TreeShap v1",
    "fasttreeshap-v2": "Fast TreeShap v2",
    "published": "Linear TreeShap",
    "ours": "linear-treeshap (ours)",
}
#: The paper's table 1.
CLAIMS = {
    "shap": ("S·L·D²", "D² + N"),
    "fasttreeshap-v1": ("S·L·D²", "D² + N"),
    "fasttreeshap-v2": ("L·2^D·D + S·L·D", "L·2^D"),
    "published": ("S·L·D", "D² + N"),
}


def setting(report: Report) -> str:
    """Where, when and with what; and how to do it again."""
    algorithms = next(iter(next(iter(report["data"].values()))["depths"].values()))["algorithms"]
    versions = {"shap": "shap", "fasttreeshap-v1": "FastTreeSHAP"}
    packages = [f"{versions[name]} {algorithms[name]['version']}" for name in versions if name in algorithms]
    data = [
        f"{name} ({here['source']}, {here['n_features']} columns)" for name, here in report["data"].items()
    ]
    return (
        f"{report['cpu']}, one core; Python {report['python']}, NumPy {report['numpy']}, "
        f"{', '.join(packages)}; commit `{report['commit']}`, {report['date']}; {' and '.join(data)}; "
        f"`{report['command']}`."
    )


def seconds(report: Report) -> str:
    """Mean seconds for the whole test set and their standard deviation, and the authors' where known."""
    return "\n\n".join(_seconds_of(name, here) for name, here in report["data"].items())


def _seconds_of(name: str, here: Report) -> str:
    depths = {int(depth): measured for depth, measured in here["depths"].items()}
    n_rows = next(iter(depths.values()))["n_rows"]
    lines = [
        f"**{name}**, seconds for {n_rows:,} rows",
        "",
        f"| depth | {' | '.join(map(str, depths))} |",
        "|---" * (len(depths) + 1) + "|",
        f"| leaves | {' | '.join(format(measured['n_leaves'], ',') for measured in depths.values())} |",
    ]
    for algorithm in ALGORITHMS:
        cells = [_cell(measured["algorithms"].get(algorithm)) for measured in depths.values()]
        lines.append(f"| {NAMES[algorithm]} | {' | '.join(cells)} |")
        published = PUBLISHED_SECONDS[name].get(algorithm, {})
        if published:
            cells = [short(published[depth]) if depth in published else "" for depth in depths]
            lines.append(f"| *as the paper has it* | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(entry: Report | None) -> str:
    if entry is None:
        return "–"
    spread = f" ± {short(stdev(entry['seconds']))}" if len(entry["seconds"]) > 1 else ""
    return f"{short(mean(entry['seconds']))}{spread}{' (v1)' if entry['fell_back'] else ''}"


def growth(report: Report) -> str:
    """Fitted exponents beside the paper's table 1."""
    lines = [
        "| | time, the paper | S | L | D | memory, the paper | D | L | N | bytes at D = 128 |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, found in report["growth"].items():
        time, memory = found["time"], found["memory"]
        claimed_time, claimed_memory = CLAIMS.get(name, ("", ""))
        by_depth = f"{time['D']:.2f}"
        if "table, per level" in time:
            by_depth += f"; its table × {time['table, per level']:.2f} a level"
        cells = [NAMES[name], claimed_time, f"{time['S']:.2f}", f"{time['L']:.2f}", by_depth, claimed_memory]
        if memory is None:
            cells += ["", "", "", ""]
        else:
            is_table = "D, per level" in memory
            cells += [
                f"× {memory['D, per level']:.2f} a level" if is_table else f"{memory['D, exponent']:.2f}",
                f"{memory['L, exponent']:.2f}",
                f"{memory['N, exponent']:.2f}",
                "" if is_table else f"{memory['D']['128']:,}",
            ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


TABLES: dict[str, Callable[[Report], str]] = {
    "paper-setting": setting,
    "paper-seconds": seconds,
    "paper-growth": growth,
}
