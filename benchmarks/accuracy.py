"""Error against players per path, measured with exact rational arithmetic: ``python -m benchmarks.accuracy``.

A tree is a chain: each inner node asks another feature and hangs one leaf off to the side, so that the
longest path meets every player. Rows satisfy all of it or random parts of it.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from linear_treeshap import oracle
from linear_treeshap.model.ensemble import TreeEnsemble
from linear_treeshap.model.row_format import RowFormat

from .peers import PEERS
from .run import RESULTS
from .tables import DOCS, LABELS, write_tables

__all__ = ["PLAYERS", "RESULT", "chain", "main", "measure"]

PLAYERS = (2, 4, 8, 12, 16, 24, 32, 48, 64, 100)
ASKED = ("paper", "shap", "xgboost", "ours")
RESULT = RESULTS / "accuracy.json"


def chain(n_players: int, seed: int = 0) -> TreeEnsemble:
    """A leaf hangs off to the right at each depth; one to nine training rows are in each leaf."""
    rng = np.random.default_rng(seed)
    inner, leaf = 2 * np.arange(n_players), 2 * np.arange(n_players) + 1
    n_nodes = 2 * n_players + 1
    left, right, feature = (np.full(n_nodes, -1) for _ in range(3))
    left[inner], right[inner], feature[inner] = inner + 2, leaf, np.arange(n_players)
    cover = np.zeros(n_nodes)
    cover[np.append(leaf, n_nodes - 1)] = rng.integers(1, 10, size=n_players + 1)
    cover[inner] = np.cumsum(cover[::-1])[::-1][inner]  # all that is in a leaf from here on
    value = np.zeros((n_nodes, 1))
    value[np.append(leaf, n_nodes - 1), 0] = rng.normal(size=n_players + 1)
    return TreeEnsemble(
        tree_offsets=np.array([0, n_nodes]),
        left=left,
        right=right,
        feature=feature,
        threshold=np.zeros(n_nodes),
        cover=cover,
        value=value,
        base_values=np.zeros(1),
        row_format=RowFormat(n_features=n_players, dtype="float32"),
    )


def rows_of(n_players: int, seed: int = 1) -> Any:
    """(4, n_players) all conditions satisfied, and random parts of them."""
    rng = np.random.default_rng(seed)
    satisfied = np.stack([np.ones(n_players, dtype=np.bool_), *(rng.random((3, n_players)) < 0.9)])
    return np.where(satisfied, -1.0, 1.0).astype(np.float32)


@lru_cache
def exact_values(n_players: int) -> Any:
    """(n_rows, n_players) rounded to float64 once, at the very end."""
    ensemble = chain(n_players)
    exact = [oracle.shapley_values(ensemble, row, by="leaves") for row in rows_of(n_players)]
    return np.stack([oracle.as_float(values)[:, 0] for values in exact])


def measure(name: str, n_players: int) -> float | None:
    """The peer's largest error, relative to the largest value; None if there is no number to compare."""
    ensemble, rows, exact = chain(n_players), rows_of(n_players), exact_values(n_players)
    with np.errstate(all="ignore"):
        values = PEERS[name](ensemble, ensemble)(rows)
        error = np.abs(values - exact).max() / np.abs(exact).max()
    return float(error) if np.isfinite(error) else None


def main() -> None:
    report: dict[str, Any] = {"players": PLAYERS, "errors": {}}
    for name in ASKED:
        try:
            label = f"{LABELS[name]} {version(PEERS[name].package)}"
        except PackageNotFoundError:
            label = LABELS[name]
        report["errors"][label] = [measure(name, n_players) for n_players in PLAYERS]
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(report, indent=1) + "\n")
    head = (
        "| players per path | " + " | ".join(map(str, PLAYERS)) + " |\n" + "|---" * (len(PLAYERS) + 1) + "|\n"
    )
    rows = [
        f"| {label} | " + " | ".join("not a number" if e is None else f"{e:.0e}" for e in errors) + " |"
        for label, errors in report["errors"].items()
    ]
    write_tables(DOCS / "accuracy.md", {"accuracy": head + "\n".join(rows)})


if __name__ == "__main__":
    main()
