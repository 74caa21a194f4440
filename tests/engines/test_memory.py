"""What a compiled model and a call take of memory, as a process of its own is told by the system."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")

#: So many nodes, or outputs, that constants are not kept expanded, or are so small that they do not count.
SHAPES = {
    "depth 6": "copies(random_ensemble(rng, n_features=30, n_trees=20, max_depth=6, max_leaves=60), 1_200)",
    "depth 20": "copies(random_ensemble(rng, n_features=30, max_depth=20, max_leaves=8_000), 40)",
    "chains": "copies(chain([i % 8 for i in range(1000)]), 300)",
    "stumps": "copies(chain([0]), 300_000)",
    "tables": "copies(chain([0] * 6), 50_000)",
    "five outputs": "copies(random_ensemble(rng, n_trees=20, n_outputs=5, vector_leaves=True), 2_000)",
    "40 outputs": "copies(random_ensemble(rng, n_trees=20, n_outputs=40, vector_leaves=True), 600)",
    "100 outputs": "copies(random_ensemble(rng, n_trees=20, n_outputs=100, vector_leaves=True), 400)",
    "4,000 columns": "copies(random_ensemble(rng, n_features=4_000, max_depth=12, max_leaves=4_000, "
    "n_outputs=20, vector_leaves=True, categorical=False), 50)",
}

MEASURE = """
import ctypes, json, re, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from strategies import chain, copies, random_ensemble
from engines import value_engine

def megabytes(name):
    return int(re.search(name + r":\\s*(\\d+) kB", open("/proc/self/status").read())[1]) / 1024

rng = np.random.default_rng(0)
value_engine(chain([0]))
ensemble = eval(sys.argv[2])
ensemble.cover_ratio
if hasattr(ctypes.CDLL(None), "malloc_trim"):
    ctypes.CDLL(None).malloc_trim(0)  # or the model would be put where something else has been
before = megabytes("VmRSS")
engine = value_engine(ensemble)
compiled = megabytes("VmRSS") - before
rows = np.zeros((300, ensemble.n_features))
out = np.ones((300, engine.n_players, engine.n_outputs))
open("/proc/self/clear_refs", "w").write("5")  # peaks are counted from here
before = megabytes("VmHWM")
engine.values(rows, out, n_jobs=2)
scratch = megabytes("VmHWM") - before
sizes = np.diff(ensemble.tree_offsets)
n_leaves = (sizes[sizes > 1] + 1).sum() // 2  # a tree that is one leaf says nothing
leaf_values = int(n_leaves) * ensemble.width * 8 / 2**20
print(json.dumps([ensemble.n_nodes, compiled - leaf_values, scratch]))
"""


@pytest.mark.parametrize("shape", SHAPES)
def test_a_compiled_model_takes_100_bytes_per_node_and_a_thread_64_megabytes(shape: str) -> None:
    """Beside the leaf values of the model, and the rows and values of the call."""
    command = [sys.executable, "-c", MEASURE, str(Path(__file__).parents[1] / "support"), SHAPES[shape]]
    done = subprocess.run(command, capture_output=True, check=True)
    n_nodes, compiled, scratch = json.loads(done.stdout)
    assert n_nodes > 100_000
    assert 40 * n_nodes < compiled * 2**20 < 100 * n_nodes
    assert scratch < 2 * 64


#: Where a thread would need more, if it kept all it could: values of every chunk, values in double on their
#: way to float, the constants of a whole tree, every level of a deep one.
LARGE = {
    "wide, many outputs": (
        "copies(random_ensemble(rng, n_features=2000, n_trees=9, max_depth=12, max_leaves=400, "
        "n_outputs=20, vector_leaves=True), 50)",
        {"300": "64"},
    ),
    "very wide": (
        "random_ensemble(rng, n_features=90_000, n_trees=3)",
        {"n_outputs))": "n_outputs), 'float32')"},
    ),
    "large trees of many outputs": (
        "random_ensemble(rng, n_trees=2, max_depth=40, max_leaves=70_000, n_outputs=16, vector_leaves=True)",
        {},
    ),
    "very deep": ("chain([i % 30 for i in range(50_000)], share=0.999)", {}),
}


@pytest.mark.parametrize("shape", LARGE)
def test_a_thread_takes_64_megabytes_whatever_the_model(shape: str) -> None:
    model, changes = LARGE[shape]
    code = MEASURE
    for old, new in changes.items():
        assert old in code
        code = code.replace(old, new)
    command = [sys.executable, "-c", code, str(Path(__file__).parents[1] / "support"), model]
    done = subprocess.run(command, capture_output=True, check=True)
    _, _, scratch = json.loads(done.stdout)
    assert scratch < 2 * 64
