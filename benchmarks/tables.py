"""JSON results → the tables of the docs: ``python -m benchmarks.tables``.

Results of several interpreters are merged: a peer's ratio is always to ours in the same run. Tables go
between two comment lines of the page, ``<!-- table: NAME -->`` and ``<!-- end -->``; the text around
them is written by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

from .cases import CASES
from .run import RESULTS

__all__ = ["LABELS", "load", "main", "ns_per_leaf_row", "peer_name", "short", "write_tables"]

DOCS = Path(__file__).parent.parent / "docs"
LABELS = {
    "ours": "linear-treeshap",
    "ours-groups": "in groups",
    "ours-pairs": "interaction values",
    "ours-sparse-pairs": "interaction values, only pairs that meet",
    "ours-tenth": "a tenth of the rows",
    "ours-2-threads": "two threads",
    "ours-avx2": "AVX2",
    "ours-baseline": "x86-64 baseline",
    "paper": "Linear TreeShap as published (NumPy)",
    "published": "Linear TreeShap as published",
    "shap": "shap's C code",
    "fasttreeshap-v1": "FastTreeSHAP v1",
    "fasttreeshap-v2": "FastTreeSHAP v2",
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
    "catboost": "CatBoost",
    "shapiq": "shapiq's kernel",
    "shap-pairs": "shap's C code (× our interaction values)",
    "xgboost-pairs": "XGBoost (× our interaction values)",
    "shapiq-pairs": "shapiq, order 2 (× our interaction values)",
    "woodelf": "WOODELF",
}
Report = dict[str, Any]


def load(folder: Path = RESULTS) -> list[Report]:
    """All results, in the order of the cases, newest Python first."""
    reports = [json.loads(path.read_text()) for path in folder.glob("*-py*.json")]
    order = list(CASES)
    python = {r["python"]: tuple(map(int, re.findall(r"\d+", r["python"])[:2])) for r in reports}
    return sorted(
        (r for r in reports if r["case"] in CASES),
        key=lambda r: (order.index(r["case"]), *(-number for number in python[r["python"]])),
    )


def ns_per_leaf_row(report: Report, result: dict[str, Any], who: str = "") -> list[float]:
    """Of each repetition; ``who`` is "" for the peer, "ours_" for ours in the same run."""
    rows = result["ours_rows" if who else "n_rows"]
    return [1e9 * seconds / rows / report["n_leaves"] for seconds in result[who + "seconds"]]


def _unique(reports: Iterable[Report]) -> list[tuple[Report, dict[str, Any]]]:
    """One entry for each peer and version, an answer before an excuse."""
    found: dict[tuple[str, str | None], tuple[Report, dict[str, Any]]] = {}
    for report in reports:
        for result in report["results"]:
            found.setdefault((result["peer"], result["version"]), (report, result))
    present = {peer for peer, version in found if version is not None}
    return [entry for (peer, version), entry in found.items() if version is not None or peer not in present]


def case_table(reports: list[Report]) -> str:
    """One case: every peer with its time, its ratio to ours and its error, or the reason it has none."""
    first = reports[0]
    lines = [
        f"**{first['title']}**: {first['n_leaves']:,} leaves, depth {first['depth']}, "
        f"{first['n_features']} features, {first['n_rows']:,} rows; {first['data']}.",
        "",
        "| | ns per leaf·row | min – max | × ours | error | rows | import | compile | memory |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for report, result in _unique(reports):
        name, note, error = peer_name(result), _one_line(result["reason"]), _error(result)
        if not result["seconds"]:
            lines.append(f"| {name} | {result['status']}: {note} | | | {error} | | | | |")
            continue
        ns, ours = ns_per_leaf_row(report, result), ns_per_leaf_row(report, result, "ours_")
        cells = [
            f"{name} ({note})" if note else name,
            short(median(ns)),
            f"{short(min(ns))} – {short(max(ns))}",
            short(median(ns) / median(ours)),
            error,
            f"{result['n_rows']:,}",
            _seconds(result["import_seconds"]),
            _seconds(result["compile_seconds"]),
            _mib(result["peak_mib"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def cases(reports: list[Report]) -> str:
    names = dict.fromkeys(r["case"] for r in reports)
    return "\n\n".join(case_table([r for r in reports if r["case"] == name]) for name in names)


def latency(reports: list[Report]) -> str:
    lines = ["| | µs per call |", "|---|---|"]
    for _, result in _unique(r for r in reports if r["case"] == "one-row"):
        if result["seconds"]:
            lines.append(f"| {peer_name(result)} | {short(1e6 * median(result['seconds']))} |")
    return "\n".join(lines)


def machine(reports: list[Report]) -> str:
    facts = dict.fromkeys(
        f"- {r['cpu']}, Python {r['python']}, commit `{r['commit']}`, {r['date']}" for r in reports
    )
    return "\n".join(facts)


TABLES: dict[str, Callable[[list[Report]], str]] = {
    "machine": machine,
    "cases": cases,
    "latency": latency,
}


def write_tables(page: Path, tables: dict[str, str]) -> None:
    """Replace what stands between the marks of each table on the page."""
    text = page.read_text()
    for name, table in tables.items():
        marked = re.compile(rf"(<!-- table: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = marked.sub(lambda mark, table=table: f"{mark[1]}\n{table}\n\n{mark[2]}", text)  # type: ignore[misc]
    page.write_text(text)


def main() -> None:
    from . import paper_tables

    reports = load()
    write_tables(DOCS / "performance.md", {name: make(reports) for name, make in TABLES.items()})
    if paper_tables.RESULT.exists():
        report = json.loads(paper_tables.RESULT.read_text())
        write_tables(
            DOCS / "performance.md", {name: make(report) for name, make in paper_tables.TABLES.items()}
        )


def peer_name(result: dict[str, Any]) -> str:
    version = "" if result["version"] in (None, "source") else f" {result['version']}"
    return LABELS[result["peer"]] + version


def short(number: float) -> str:
    """Three digits, and no exponent: 0.0123, 1.23, 123, 12,300."""
    return f"{number:.3g}" if number < 1000 else f"{float(f'{number:.3g}'):,.0f}"


def _error(result: dict[str, Any]) -> str:
    return "" if result["error"] is None else f"{result['error']:.0e}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{short(value)} s"


def _mib(value: float | None) -> str:
    return "" if value is None else f"{short(value)} MiB"


def _one_line(text: str) -> str:
    return " ".join(text.replace("|", "/").split())


if __name__ == "__main__":
    main()
