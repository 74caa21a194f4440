"""`python -m fuzz.soak`: mixed calls from many threads for a long time, in memory that must not grow.

All threads share a few explainers, path-dependent and with background, and call them in orders of their own:
values of some rows or of one, float32, interactions, files, pickles, and calls that must be refused. Every
answer has the bits of a lone call, or its values if it is of few rows. The exit code is 1 if one has not, or
if more is in use at the end.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import pickle
import re
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
from strategies import random_ensemble, random_rows

from linear_treeshap import InputError, TreeExplainer
from linear_treeshap.engines.values import FEW_ROWS
from linear_treeshap.storage.in_memory import from_bytes, to_bytes

__all__ = ["Soak", "main"]

N_ROWS = 400
#: All threads work, and end, so often: between these spells nothing is under way, and what is in use must be
#: the same after each.
N_SPELLS = 4
#: From the first spell to the last: of memory, and of Python's small objects, of which some thousand come and
#: go with whatever the interpreter remembers.
MAX_GROWTH_MIB, MAX_MORE_OBJECTS = 0.5, 2000


class Soak:
    """Explainers, what they are asked, and the right answers."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.calls: list[tuple[str, Callable[[slice], Any], Any]] = []
        kinds: list[tuple[int, Literal["float32", "float64"]]] = [(1, "float64"), (3, "float32")]
        for n_outputs, dtype in kinds:
            ensemble = random_ensemble(
                rng, n_features=6, n_trees=12, max_depth=7, max_leaves=40, n_outputs=n_outputs, dtype=dtype
            )
            rows = random_rows(rng, ensemble, N_ROWS)
            for data in (None, random_rows(rng, ensemble, 30)):
                self._add(TreeExplainer(ensemble, data, n_jobs=2), rows)
        self.n_calls = 0
        self.wrong: list[str] = []
        self._lock = threading.Lock()

    def _add(self, explainer: TreeExplainer, rows: Any) -> None:
        def add(name: str, call: Callable[[slice], Any]) -> None:
            self.calls.append((name, call, call(slice(None))))

        add("values", lambda some: explainer.shap_values(rows[some]))
        add("pairs", lambda some: explainer.shap_interaction_values(rows[some]))
        add("loaded", lambda some: from_bytes(to_bytes(explainer)).shap_values(rows[some]))
        add("unpickled", lambda some: pickle.loads(pickle.dumps(explainer)).shap_values(rows[some]))
        if explainer.data is None:
            add("triples", lambda some: explainer.interactions(rows[some], order=3).values)
        add("refused", lambda some: _refused(explainer, rows[some]))

    def work(self, seed: int, until: float) -> None:
        rng = np.random.default_rng(seed)
        while time.monotonic() < until and not self.wrong:
            name, call, right = self.calls[int(rng.integers(len(self.calls)))]
            begin, size = int(rng.integers(N_ROWS)), int(rng.choice([1, 1, 7, 64, 200]))
            some = slice(begin, min(begin + size, N_ROWS))
            is_right = _are_same(call(some), right[some])
            with self._lock:
                self.n_calls += 1
                if not is_right:
                    self.wrong.append(f"{name} of rows {some.start} to {some.stop}")


def _are_same(found: Any, right: Any) -> bool:
    """To the last bit; of few rows, which may be added up in another order, to rounding."""
    if len(found) > FEW_ROWS or np.array_equal(found, right, equal_nan=True):
        return np.array_equal(found, right, equal_nan=True)
    return np.allclose(found, right, rtol=0, atol=1e-13 * np.abs(right).max(initial=0.0))


def _refused(explainer: TreeExplainer, rows: Any) -> Any:
    """Nothing is left behind of a call that is refused."""
    try:
        explainer.shap_values(rows[:, :-1])
    except InputError:
        return rows
    raise AssertionError("rows without a column were explained")


def fill_caches() -> None:
    """NumPy keeps up to seven freed buffers of each size below a kilobyte, some megabytes in all, which calls
    of many sizes would fill for an hour: it has them from the beginning."""
    for n_bytes in range(1, 1024):
        _ = [np.empty(n_bytes, dtype=np.uint8) for _ in range(7)]


def resident_mib() -> float:
    """What the process has, also what its allocator holds back: some for every few threads, which grows for
    an hour although nothing more is in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def used_mib() -> float:
    """What the allocator has given away, of all its arenas."""
    library = ctypes.CDLL(None)
    library.fopen.restype = ctypes.c_void_p
    with tempfile.NamedTemporaryFile() as file:
        stream = ctypes.c_void_p(library.fopen(file.name.encode(), b"w"))
        library.malloc_info(0, stream)
        library.fclose(stream)
        everything = Path(file.name).read_text().rpartition("</heap>")[2]
    sizes = {name: int(size) for name, size in re.findall(r'type="(\w+)"[^>]* size="(\d+)"', everything)}
    return (sizes["current"] + sizes["mmap"] - sizes["fast"] - sizes["rest"]) / 2**20


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--threads", type=int, default=16)
    asked = parser.parse_args(arguments)
    fill_caches()
    soak, begin = Soak(), time.monotonic()
    seen: list[float] = []
    used: list[float] = []
    objects: list[int] = []
    for spell in range(N_SPELLS):
        until = begin + 60 * asked.minutes * (spell + 1) / N_SPELLS
        seeds = range(asked.threads * spell, asked.threads * (spell + 1))
        threads = [threading.Thread(target=soak.work, args=(seed, until)) for seed in seeds]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            seen.append(resident_mib())
            time.sleep(0.6 * asked.minutes)
        gc.collect()
        used.append(used_mib())
        objects.append(sys.getallocatedblocks())
    print(
        f"{soak.n_calls:,} calls on {asked.threads} threads in {time.monotonic() - begin:.0f} s, "
        f"{len(soak.wrong)} wrong; between them {used[0]:.2f} MiB and {objects[0]:,} objects are in use, "
        f"{used[-1]:.2f} and {objects[-1]:,} at the end; resident {median(seen):.1f} MiB, at most "
        f"{max(seen):.1f}"
    )
    print("resident MiB over time: " + " ".join(f"{mib:.0f}" for mib in seen[:: max(1, len(seen) // 20)]))
    for wrong in soak.wrong[:5]:
        print(f"WRONG {wrong}")
    grew = used[-1] - used[0] > MAX_GROWTH_MIB or objects[-1] - objects[0] > MAX_MORE_OBJECTS
    return int(bool(soak.wrong) or grew)


if __name__ == "__main__":
    sys.exit(main())
