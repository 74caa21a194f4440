"""What a compiled model and a call take of memory, as a process of its own is told by the system."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")

#: So many nodes, or outputs, that all else does not count.
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
def test_a_compiled_model_takes_60_bytes_per_node_and_a_thread_64_megabytes(shape: str) -> None:
    """Beside the leaf values of the model, and the rows and values of the call. Chains of a thousand splits
    of the same few players, and trees that are one table, take most; what was freed while compiling counts
    as well."""
    command = [sys.executable, "-c", MEASURE, str(Path(__file__).parents[1] / "support"), SHAPES[shape]]
    done = subprocess.run(command, capture_output=True, check=True)
    n_nodes, compiled, scratch = json.loads(done.stdout)
    assert n_nodes > 100_000
    assert 15 * n_nodes < compiled * 2**20 < 60 * n_nodes
    assert scratch < 2 * 64


COUNT = """
import ctypes, json, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from strategies import chain, copies, random_ensemble
from engines import value_engine

class Counts(ctypes.Structure):
    _fields_ = [(f"count{i}", ctypes.c_size_t) for i in range(10)]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Counts

def used():
    counts = libc.mallinfo2()
    return counts.count7 + counts.count4  # in arenas, and mapped

rng = np.random.default_rng(0)
value_engine(chain([0]))
ensemble = eval(sys.argv[2])
ensemble.cover_ratio
before = used()
engine = value_engine(ensemble)
compiled = used() - before
sizes = np.diff(ensemble.tree_offsets)
print(json.dumps([int((sizes[sizes > 1] + 1).sum() // 2), compiled]))
"""


@pytest.mark.skipif(
    sys.platform == "linux" and not hasattr(ctypes.CDLL(None), "mallinfo2"),
    reason="glibc counts what is allocated",
)
@pytest.mark.parametrize("shape", ["depth 6", "depth 20", "stumps"])
def test_a_leaf_takes_64_bytes_its_value_included(shape: str) -> None:
    command = [sys.executable, "-c", COUNT, str(Path(__file__).parents[1] / "support"), SHAPES[shape]]
    done = subprocess.run(command, capture_output=True, check=True)
    n_leaves, compiled = json.loads(done.stdout)
    assert n_leaves > 100_000
    assert 32 * n_leaves < compiled < 64 * n_leaves


#: Where a thread would need more, if it kept all it could: values of every chunk, values in double on their
#: way to float, every level of a deep one.
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


CAPPED = """
import ctypes, resource, sys
from functools import cache
import numpy as np
sys.path.insert(0, sys.argv[1])
from strategies import copies, random_ensemble, random_rows
from linear_treeshap import TreeExplainer

rng = np.random.default_rng(0)
ensemble = random_ensemble(rng, n_features=12, n_trees=20, max_depth=6, max_leaves=40, n_outputs=2)
some, path = random_rows(rng, ensemble, 500), sys.argv[3]
rows, two = np.tile(some, (400, 1)), some[:2]
explainer = cache(lambda: TreeExplainer(ensemble, n_jobs=2))
against = cache(lambda: TreeExplainer(ensemble, some[:50], n_jobs=2))

@cache
def large():
    return random_ensemble(rng, n_features=12, n_trees=300, max_depth=8, max_leaves=200, n_outputs=2)

@cache
def saved():
    TreeExplainer(large()).save(path)
    TreeExplainer(copies(large(), 8)).save(path + " of more trees")
    return path

# What they need beforehand is made by the first call, which has all the memory it wants.
calls = {
    "values": lambda n: explainer().shap_values(rows[:n]),
    "pairs": lambda n: explainer().shap_interaction_values(rows[: n // 8]),
    "triples": lambda n: explainer().interactions(rows[: n // 8], order=3).values,
    "background": lambda n: against().shap_values(rows[:n]),
    "background pairs": lambda n: against().shap_interaction_values(rows[: n // 8]),
    "making": lambda n: TreeExplainer(copies(large(), 1 + n // 20_000), n_jobs=2).shap_values(two),
    "making with background": lambda n: TreeExplainer(large(), rows[: n // 10], n_jobs=2).shap_values(two),
    "loading": lambda n: TreeExplainer.load(saved() + " of more trees" * (n > 100)).shap_values(two),
}
call = calls[sys.argv[2]]
right = call(100)

def allowed(more):
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more, resource.RLIM_INFINITY))

def is_done(n, more):
    allowed(more)
    try:
        call(n)
    except MemoryError:
        return False
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert np.array_equal(call(100), right, equal_nan=True)
    return True

if sys.argv[4] == "few rows":
    print([is_done(n, 0) for n in (1_000, 2_000, 4_000, 16_000)])
else:
    more, refused = 0, 0
    while not is_done(len(rows), more):
        more, refused = max(1 << 20, int(1.5 * more)), refused + 1
    print(refused)
"""


CALLS = (
    *("values", "pairs", "triples", "background", "background pairs", "making", "making with background"),
    "loading",
)


def capped(call: str, rows: str, folder: Path, **environment: str) -> str:
    """What a process says that calls in less memory than it wants."""
    support = str(Path(__file__).parents[1] / "support")
    arguments = [sys.executable, "-c", CAPPED, support, call, str(folder / "explainer.lts"), rows]
    environment = {**os.environ, **environment}
    ended = subprocess.run(
        arguments, capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("call", CALLS)
def test_memory_that_cannot_be_had_is_an_error_and_the_next_call_works(call: str, tmp_path: Path) -> None:
    """Nothing at all, a megabyte more, and half as much again until it is enough: whichever allocation is the
    one that fails, in whichever thread, Python hears of it."""
    # Every further arena of the allocator would have 64 MiB in reserve.
    refused = int(capped(call, "many rows", tmp_path, MALLOC_ARENA_MAX="1"))
    assert refused >= 3, "so much was free that nothing was refused"


@pytest.mark.parametrize("call", CALLS)
def test_threads_that_find_no_memory_do_not_end_the_process(call: str, tmp_path: Path) -> None:
    """They can be started, on stacks that were used before, and then have nothing left for themselves."""
    assert capped(call, "few rows", tmp_path)
