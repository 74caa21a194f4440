"""How time and memory grow with rows S, leaves L, depth D and columns N: the paper's table 1, measured.

Trees are made, not trained, so that one size can change while the others stay. A *brush* is a full binary
tree down to some height, and below each of its ends a chain with a leaf off to the side of every question;
every level asks another feature. Times are seconds of a call; memory is what a call with one row takes from
the heap at its peak, to the byte (``heap.c``), in a process of its own: ``python -m benchmarks.growth PEER``.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linear_treeshap.model.ensemble import TreeEnsemble
from linear_treeshap.model.row_format import RowFormat

from .peers import PEERS, Peer, Rows

__all__ = ["brush", "fit", "measure_memory", "measure_time"]

ROOT = Path(__file__).parent.parent

#: Sizes of the sweeps. The deepest trees keep the published form's error below its tolerance.
S_SIZES = (250, 500, 1000, 2000)
BRUSHES = tuple((height, depth) for height in (1, 3, 5) for depth in (8, 11, 14, 17, 20))
#: Fast TreeShap v2 makes a table of L · 2^D numbers in each call.
V2_BRUSHES = tuple((height, depth) for height in (1, 3, 5) for depth in (8, 10, 12, 14))
MEMORY_DEPTHS = (16, 32, 64, 128)
V2_MEMORY_DEPTHS = (8, 10, 12, 14)
MEMORY_HEIGHTS = (0, 2, 4, 6)
MEMORY_COLUMNS = (4000, 8000, 16000, 32000)


def brush(height: int, depth: int, n_features: int = 0) -> TreeEnsemble:
    """Full down to ``height``, chains from there to ``depth``: 2^height · (depth - height + 1) leaves."""
    rng = np.random.default_rng(0)
    left, right, level, cover = [-1], [-1], [0], [1.0]
    ends = [0]
    while ends:
        node = ends.pop()
        if level[node] == depth:
            continue
        first = len(left)
        left[node], right[node] = first, first + 1
        share = rng.uniform(0.6, 0.9)
        for part in (share, 1 - share):
            left.append(-1)
            right.append(-1)
            level.append(level[node] + 1)
            cover.append(cover[node] * part)
        ends.append(first)
        if level[node] < height:
            ends.append(first + 1)
    is_leaf = np.array(left) < 0
    return TreeEnsemble(
        tree_offsets=np.array([0, len(left)]),
        left=np.array(left),
        right=np.array(right),
        feature=np.where(is_leaf, -1, level),
        threshold=np.zeros(len(left)),
        cover=np.array(cover),
        value=np.where(is_leaf, rng.normal(size=len(left)), 0.0)[:, None],
        base_values=np.zeros(1),
        row_format=RowFormat(n_features=max(depth, n_features), dtype="float32"),
    )


def rows_for(ensemble: TreeEnsemble, n_rows: int) -> Rows:
    """Numbers that go on down a chain four times out of five."""
    rng = np.random.default_rng(1)
    return (rng.random((n_rows, ensemble.n_features)) - 0.8).astype(np.float32)


def mean_depth(ensemble: TreeEnsemble) -> float:
    """Of a leaf."""
    level = np.zeros(ensemble.n_nodes)
    for node in np.flatnonzero(~ensemble.is_leaf):  # parents come first in a brush
        level[[ensemble.left[node], ensemble.right[node]]] = level[node] + 1
    return float(level[ensemble.is_leaf].mean())


def fit(seconds: npt.ArrayLike, *sizes: npt.ArrayLike) -> list[float]:
    """Exponents: ``seconds ≈ constant · Π size^exponent``, by least squares of the logarithms."""
    logarithms = np.log(np.asarray(seconds, dtype=np.float64))
    design = np.column_stack([np.log(np.array(sizes, dtype=np.float64)).T, np.ones(len(logarithms))])
    return [float(exponent) for exponent in np.linalg.lstsq(design, logarithms, rcond=None)[0][:-1]]


def measure_time(name: str, *, shortest: float = 0.05) -> dict[str, float]:
    """Exponents of S, L and D, D being the mean depth of a leaf; for v2 also the factor of one level more.

    The table of v2 is taken off by the difference of two calls, so that its exponents are those of a row.
    """
    is_v2 = name == "fasttreeshap-v2"
    ensemble = brush(3, 12)
    seconds = [_seconds(_made(name, ensemble), rows_for(ensemble, n), shortest) for n in S_SIZES]
    exponents = {"S": fit(seconds, S_SIZES)[0]}
    per_row, tables, leaves, depths = [], [], [], []
    for height, depth in V2_BRUSHES if is_v2 else BRUSHES:
        ensemble = brush(height, depth)
        peer, few, many = _made(name, ensemble), rows_for(ensemble, 1), rows_for(ensemble, 257)
        table = _seconds(peer, few, shortest) if is_v2 else 0.0
        per_row.append(max(_seconds(peer, many, shortest) - table, 1e-9) / len(many))
        tables.append(table)
        leaves.append(ensemble.n_leaves)
        depths.append(mean_depth(ensemble))
    exponents["L"], exponents["D"] = fit(per_row, leaves, depths)
    if is_v2:
        per_leaf = np.array(tables) / np.array(leaves)
        levels = [depth for _, depth in V2_BRUSHES]
        exponents["table, per level"] = float(np.exp(np.polyfit(levels, np.log(per_leaf), 1)[0]))
    return exponents


def _seconds(peer: Peer, rows: Rows, shortest: float) -> float:
    """The smallest of five, each of at least ``shortest`` seconds."""
    peer(rows)
    found: list[float] = []
    number = 1
    while len(found) < 5:
        started = time.perf_counter()
        for _ in range(number):
            peer(rows)
        took = time.perf_counter() - started
        if took < shortest:
            number = max(2 * number, int(number * shortest / max(took, 1e-6)))
        else:
            found.append(took / number)
    return min(found)


def _made(name: str, ensemble: TreeEnsemble) -> Peer:
    return PEERS[name](ensemble, ensemble)


# -- memory --------------------------------------------------------------------------------------


def measure_memory(name: str) -> dict[str, Any] | None:
    """Bytes of a call with one row, against D, L and N, and exponents; None without glibc or a compiler.

    For D, that of a tree of depth 2 with as many columns is taken off, so that what is left is the walk's.
    Ours keeps its working memory from call to call, so a call takes none: None for it, too.
    """
    if name == "ours":
        return None
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "heap.so"
        source = Path(__file__).with_name("heap.c")
        build = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", str(library), str(source)]
        try:
            subprocess.run(build, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.growth", name],
            cwd=ROOT,
            env={**os.environ, "LD_PRELOAD": str(library)},
            check=True,
            capture_output=True,
            text=True,
        )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    by_depth = {int(depth): size - found["depth 2"] for depth, size in found["D"].items()}
    if name == "fasttreeshap-v2":
        slope = np.polyfit(list(by_depth), np.log(list(by_depth.values())), 1)[0]
        found["D, per level"] = float(np.exp(slope))
    else:
        found["D, exponent"] = fit(list(by_depth.values()), list(by_depth))[0]
    for size in ("L", "N"):
        numbers = {int(number): bytes_ for number, bytes_ in found[size].items()}
        found[f"{size}, exponent"] = fit(list(numbers.values()), list(numbers))[0]
    return found


def main(name: str) -> None:
    """In a process with ``heap.c`` loaded: bytes, by what changes."""
    heap = ctypes.CDLL(None)
    heap.heap_peak.restype = ctypes.c_long

    def peak(ensemble: TreeEnsemble) -> int:
        peer, rows = _made(name, ensemble), rows_for(ensemble, 1)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # of numbers that have no digits left; only their memory counts here
            peer(rows)
            heap.heap_start()
            peer(rows)
        return int(heap.heap_peak())

    is_v2 = name == "fasttreeshap-v2"
    depths = V2_MEMORY_DEPTHS if is_v2 else MEMORY_DEPTHS
    widest = max(MEMORY_DEPTHS)
    leafy = [brush(height, 10 if is_v2 else 32, widest) for height in MEMORY_HEIGHTS]
    found = {
        "depth 2": peak(brush(0, 2, widest)),
        "D": {depth: peak(brush(0, depth, widest)) for depth in depths},
        "L": {ensemble.n_leaves: peak(ensemble) for ensemble in leafy},
        "N": {n: peak(brush(0, 4, n)) for n in MEMORY_COLUMNS},
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
