"""GPUTreeShap beside values on a GPU: `GPUTREESHAP=DIR python -m benchmarks.gputreeshap FOLDER`.

DIR is a copy of its repository, which is not ours; nvcc compiles it with `gputreeshap.cu`, our side of it.
FOLDER is what `python -m benchmarks.gpu write` wrote. Answers are compared before anything is timed. Printed
is a table in Markdown: the best of several calls of each, in milliseconds by the clock of the GPU, from rows
on the GPU to values on the GPU. Our model is compiled before; GPUTreeShap prepares its paths in every call,
and has no other.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linear_treeshap import TreeExplainer
from linear_treeshap.model.ensemble import TreeEnsemble

from .gpu import DEPTHS, N_CHECKED, N_FEATURES, N_TREES, best_on_gpu, rows_for

#: Of the largest value: it computes in float32.
ALLOWED = 1e-5
N_CALLS = 5


def compiled(folder: Path) -> ctypes.CDLL:
    """GPUTreeShap as a library of functions."""
    target = folder / "gputreeshap.so"
    include = Path(os.environ["GPUTREESHAP"]) / "GPUTreeShap"
    source = Path(__file__).with_suffix(".cu")
    command = [
        "nvcc",
        "-O3",
        "-std=c++17",
        "-arch=native",
        "--extended-lambda",
        "--shared",
        "-Xcompiler=-fPIC",
    ]
    subprocess.run([*command, f"-I{include}", str(source), "-o", str(target)], check=True)
    library = ctypes.CDLL(str(target))
    library.values.restype = library.interactions.restype = ctypes.c_double
    return library


def paths_of(ensemble: TreeEnsemble) -> tuple[npt.NDArray[Any], ...]:
    """(path, feature, output, lower, upper, cover ratio, leaf value) of all edges, leaf by leaf."""
    n_nodes = ensemble.n_nodes
    inner = np.flatnonzero(~ensemble.is_leaf)
    root = ensemble.tree_offsets[ensemble.tree_of_node]
    parent, is_right = np.full(n_nodes, -1), np.zeros(n_nodes, dtype=np.bool_)
    for side, children in enumerate((ensemble.left, ensemble.right)):
        child = root[inner] + children[inner]
        parent[child], is_right[child] = inner, bool(side)
    leaves = np.flatnonzero(ensemble.is_leaf)
    value, at, path = ensemble.value[leaves, 0], leaves, np.arange(len(leaves))
    parts = []
    while at.size:
        above = parent[at]
        is_root = above < 0
        threshold = np.where(is_root, np.inf, ensemble.threshold[above])
        parts.append(
            (
                path,
                np.where(is_root, -1, ensemble.feature[above]),
                ensemble.tree_output[ensemble.tree_of_node[at]],
                np.where(is_right[at] & ~is_root, threshold, -np.inf),
                np.where(is_right[at] | is_root, np.inf, threshold),
                np.where(is_root, 1.0, ensemble.cover_ratio[at]),
                value[path],
            )
        )
        path, at = path[~is_root], above[~is_root]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    types = (np.int64, np.int64, np.int32, np.float32, np.float32, np.float64, np.float32)
    return tuple(column[order].astype(dtype) for column, dtype in zip(columns, types, strict=True))


class Peer:
    """GPUTreeShap with the paths of one model."""

    def __init__(self, library: ctypes.CDLL, ensemble: TreeEnsemble) -> None:
        self._library, self._n_outputs = library, ensemble.n_outputs
        columns = paths_of(ensemble)
        pointers = [ctypes.c_void_p(column.ctypes.data) for column in columns]
        library.set_paths(*pointers, ctypes.c_longlong(len(columns[0])))

    def call(self, name: str, rows: Any, out: Any) -> float:
        """Milliseconds of one call, which adds to ``out``."""
        pointers = ctypes.c_void_p(rows.data.ptr), ctypes.c_void_p(out.data.ptr)
        shape = [ctypes.c_longlong(n) for n in rows.shape]
        time = getattr(self._library, name)(pointers[0], *shape, self._n_outputs, pointers[1])
        assert time > 0, "GPUTreeShap failed"
        return float(time)

    def best(self, name: str, rows: Any, out: Any) -> float:
        return min(self.call(name, rows, out) for _ in range(N_CALLS))


def compare(what: str, ours: Callable[[], object], theirs: Callable[[], float], n_rows: int) -> None:
    mine, other = best_on_gpu(ours), theirs()
    each = 1e6 * other / n_rows / N_TREES
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


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as built:
        library = compiled(Path(built))
        print("| float32, ms | ours | GPUTreeShap | its ns per row and tree | ratio |\n|---|---|---|---|---|")
        for depth in DEPTHS:
            measure(library, folder, depth)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
