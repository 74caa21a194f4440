"""GPUTreeShap beside values on a GPU: `GPUTREESHAP=DIR python -m benchmarks.gputreeshap FOLDER`.

DIR is a copy of its repository, which is not ours; nvcc compiles it with `gputreeshap.cu`, our side of it,
and what comes out is kept there. FOLDER is what `python -m benchmarks.gpu write` wrote. Answers are compared
before anything is timed. Printed is a table in Markdown: the best of several calls of each, in milliseconds
by the clock of the GPU, from rows on the GPU to values on the GPU. Our model is compiled before; GPUTreeShap
prepares its paths in every call, and has no other.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linear_treeshap import TreeExplainer
from linear_treeshap.model.ensemble import TreeEnsemble

from .gpu import (
    BACKGROUNDS,
    DEPTHS,
    N_CHECKED,
    N_FEATURES,
    N_OTHER_TIMED,
    N_TREES,
    OTHERS,
    best_on_gpu,
    rows_for,
)

#: Of the largest value: it computes in float32.
ALLOWED = 1e-5
N_CALLS = 5


def compiled() -> ctypes.CDLL:
    """GPUTreeShap as a library of functions, kept beside its sources."""
    folder, source = Path(os.environ["GPUTREESHAP"]), Path(__file__).with_suffix(".cu")
    target = folder / "gputreeshap.so"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        command = [
            "nvcc",
            "-O3",
            "-std=c++17",
            "-arch=native",
            "--extended-lambda",
            "--shared",
            "-Xcompiler=-fPIC",
        ]
        include = f"-I{folder / 'GPUTreeShap'}"
        subprocess.run([*command, include, str(source), "-o", str(target)], check=True)
    library = ctypes.CDLL(str(target))
    for name in ("values", "interactions", "against"):
        getattr(library, name).restype = ctypes.c_double
    return library


def paths_of(ensemble: TreeEnsemble) -> tuple[npt.NDArray[Any] | None, ...]:
    """(path, feature, output, lower, upper, codes, cover ratio, leaf value) of all edges, leaf by leaf; codes
    are bits of those that go this way, None in a model without categories."""
    n_nodes = ensemble.n_nodes
    inner = np.flatnonzero(~ensemble.is_leaf)
    root = ensemble.tree_offsets[ensemble.tree_of_node]
    parent, is_right = np.full(n_nodes, -1), np.zeros(n_nodes, dtype=np.bool_)
    for side, children in enumerate((ensemble.left, ensemble.right)):
        child = root[inner] + children[inner]
        parent[child], is_right[child] = inner, bool(side)
    leaves = np.flatnonzero(ensemble.is_leaf)
    value, at, path = ensemble.value[leaves, 0], leaves, np.arange(len(leaves))
    codes = _codes_that_go_left(ensemble)
    parts = []
    while at.size:
        above = parent[at]
        is_root = above < 0
        is_number = ~is_root & (ensemble.category_set[above] < 0)
        threshold = np.where(is_number, ensemble.threshold[above], np.inf)
        bits = np.where(is_right[at], ~codes[above], codes[above])
        parts.append(
            (
                path,
                np.where(is_root, -1, ensemble.feature[above]),
                ensemble.tree_output[ensemble.tree_of_node[at]],
                np.where(is_right[at] & is_number, threshold, -np.inf),
                np.where(is_right[at] | ~is_number, np.inf, threshold),
                np.where(is_root | is_number, np.uint64(2**64 - 1), bits),
                np.where(is_root, 1.0, ensemble.cover_ratio[at]),
                value[path],
            )
        )
        path, at = path[~is_root], above[~is_root]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    types = (np.int64, np.int64, np.int32, None, None, np.uint64, np.float64, np.float32)
    ordered: list[npt.NDArray[Any] | None] = [
        _rounded_down(column[order]) if dtype is None else column[order].astype(dtype)
        for column, dtype in zip(columns, types, strict=True)
    ]
    if not (ensemble.category_set >= 0).any():
        ordered[5] = None
    return tuple(ordered)


def _codes_that_go_left(ensemble: TreeEnsemble) -> npt.NDArray[np.uint64]:
    """(n_nodes,) a bit for each code, of which there may be 64."""
    of_set = [0] * (len(ensemble.category_offsets) - 1)
    for number in range(len(of_set)):
        for code in ensemble.category_set_codes(number).tolist():
            assert code < 64, "GPUTreeShap is given one word of codes"
            of_set[number] |= 1 << code
    return np.array([*of_set, 0], dtype=np.uint64)[ensemble.category_set]


def _rounded_down(thresholds: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """So that rows of float32 go the same ways."""
    rounded = thresholds.astype(np.float32)
    return np.where(rounded > thresholds, np.nextafter(rounded, np.float32(-np.inf)), rounded)


class Peer:
    """GPUTreeShap with the paths of one model."""

    def __init__(self, library: ctypes.CDLL, ensemble: TreeEnsemble) -> None:
        self._library, self._n_outputs = library, ensemble.n_outputs
        columns = paths_of(ensemble)
        pointers = [None if c is None else ctypes.c_void_p(c.ctypes.data) for c in columns]
        assert columns[0] is not None
        library.set_paths(*pointers, ctypes.c_longlong(len(columns[0])))

    def call(self, name: str, rows: Any, out: Any, background: Any = None) -> float:
        """Milliseconds of one call, which adds to ``out``; below zero if it refuses."""
        pointers = ctypes.c_void_p(rows.data.ptr), ctypes.c_void_p(out.data.ptr)
        shape = [ctypes.c_longlong(n) for n in rows.shape]
        more: list[Any] = []
        if background is not None:
            more = [ctypes.c_void_p(background.data.ptr), ctypes.c_longlong(len(background))]
        return float(getattr(self._library, name)(pointers[0], *shape, self._n_outputs, pointers[1], *more))

    def best(self, name: str, rows: Any, out: Any, background: Any = None) -> float:
        return min(self.call(name, rows, out, background) for _ in range(N_CALLS))


def compare(
    what: str,
    ours: Callable[[], object],
    theirs: Callable[[], float],
    n_rows: int,
    n_trees: int = N_TREES,
) -> None:
    mine, other = best_on_gpu(ours), theirs()
    each = 1e6 * other / n_rows / n_trees
    print(f"| {what} | {mine:.3f} | {other:.2f} | {each:.2f} | {other / mine:.0f} |", flush=True)


def measure(library: ctypes.CDLL, folder: Path, depth: int) -> None:
    import cupy

    explainer: Any = TreeExplainer.load(folder / f"depth-{depth}.lts", device="cuda")
    engine, expected = explainer._engine, np.load(folder / f"depth-{depth}.npy")
    peer = Peer(library, explainer.ensemble)
    few = cupy.asarray(rows_for(folder, N_CHECKED))
    out = cupy.zeros((N_CHECKED, N_FEATURES + 1), dtype=np.float32)
    peer.call("values", few, out)
    error = np.abs(out.get()[:, :-1] - expected.reshape(N_CHECKED, N_FEATURES)).max()
    assert error <= ALLOWED * np.abs(expected).max(), error
    for n_rows in (1_000, 10_000, 100_000):
        rows = cupy.asarray(rows_for(folder, n_rows))
        ours = cupy.empty((n_rows, N_FEATURES, 1), dtype=np.float32)
        theirs = cupy.zeros((n_rows, N_FEATURES + 1), dtype=np.float32)
        compare(
            f"depth {depth}, {n_rows:,} rows",
            lambda: engine.values(rows, ours),  # noqa: B023
            lambda: peer.best("values", rows, theirs),  # noqa: B023
            n_rows,
        )
    if depth == DEPTHS[0]:
        compare_pairs(peer, engine, folder)


def compare_pairs(peer: Peer, engine: Any, folder: Path, n_rows: int = 10_000) -> None:
    import cupy

    rows = cupy.asarray(rows_for(folder, n_rows))
    ours = cupy.empty((n_rows, N_FEATURES, N_FEATURES, 1), dtype=np.float32)
    theirs = cupy.zeros((n_rows, N_FEATURES + 1, N_FEATURES + 1), dtype=np.float32)
    engine.pairs(rows, ours)
    peer.call("interactions", rows, theirs)
    error = cupy.abs(ours[..., 0] - theirs[:, :-1, :-1]).max() / cupy.abs(ours).max()
    assert error <= ALLOWED, error
    compare(
        f"pairs, depth {DEPTHS[0]}, {n_rows:,} rows",
        lambda: engine.pairs(rows, ours),
        lambda: peer.best("interactions", rows, theirs),
        n_rows,
    )


def measure_other(library: ctypes.CDLL, folder: Path, name: str) -> None:
    """Models of other kinds, with rows of float32, which is what GPUTreeShap reads."""
    import cupy

    explainer: Any = TreeExplainer.load(folder / f"{name}.lts", device="cuda")
    engine, peer = explainer._engine, Peer(library, explainer.ensemble)
    some = np.load(folder / f"{name}.npz")["rows"].astype(np.float32)
    rows = cupy.asarray(np.tile(some, (-(-N_OTHER_TIMED // len(some)), 1))[:N_OTHER_TIMED])
    own = rows.astype(explainer.ensemble.row_format.numpy_dtype)
    ours = cupy.empty((len(rows), engine.n_players, engine.n_outputs), dtype=np.float32)
    theirs = cupy.zeros((len(rows), engine.n_outputs, engine.n_players + 1), dtype=np.float32)
    engine.values(own, ours)
    is_refused = peer.call("values", rows, theirs) < 0
    error = cupy.abs(ours - theirs[:, :, :-1].transpose(0, 2, 1)).max(axis=(0, 1))
    error = float((error / cupy.abs(ours).max(axis=(0, 1))).max())
    if is_refused or not error <= ALLOWED:
        answer = "refuses" if is_refused else f"wrong: off by {error:.0e} of the largest value"
        best = best_on_gpu(lambda: engine.values(own, ours))
        print(f"| {name}, {len(rows):,} rows | {best:.3f} | {answer} | | |", flush=True)
        return
    compare(
        f"{name}, {len(rows):,} rows",
        lambda: engine.values(own, ours),
        lambda: peer.best("values", rows, theirs),
        len(rows),
        len(explainer.ensemble.tree_offsets) - 1,
    )


def measure_background(
    library: ctypes.CDLL, folder: Path, depth: int, n_background: int, n_rows: int
) -> None:
    """Values against background rows."""
    import cupy

    saved: Any = TreeExplainer.load(folder / f"depth-{depth}.lts")
    background = rows_for(folder, 5_000)[-n_background:]
    explainer: Any = TreeExplainer(saved.ensemble, background, device="cuda")
    engine, peer = explainer._engine, Peer(library, explainer.ensemble)
    rows, there = cupy.asarray(rows_for(folder, n_rows)), cupy.asarray(background)
    ours = cupy.empty((n_rows, N_FEATURES, 1), dtype=np.float32)
    theirs = cupy.zeros((n_rows, N_FEATURES + 1), dtype=np.float32)
    engine.values(rows, ours)
    peer.call("against", rows, theirs, there)
    error = cupy.abs(ours[:, :, 0] - theirs[:, :-1]).max() / cupy.abs(ours).max()
    assert error <= ALLOWED, error
    compare(
        f"{n_background:,} background rows, depth {depth}, {n_rows:,} rows",
        lambda: engine.values(rows, ours),
        lambda: peer.call("against", rows, theirs, there),
        n_rows,
    )


def main(folder: Path) -> None:
    library = compiled()
    print("| float32, ms | ours | GPUTreeShap | its ns per row and tree | ratio |\n|---|---|---|---|---|")
    for depth in DEPTHS:
        measure(library, folder, depth)
    for name in OTHERS:
        measure_other(library, folder, name)
    for depth, n_background, n_rows in BACKGROUNDS:
        measure_background(library, folder, depth, n_background, n_rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
