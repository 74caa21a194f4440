"""`python -m fuzz.soak`: mixed calls from many threads for a long time, in memory that must not grow.

All threads share a few explainers, path-dependent and with background, and call them in orders of their own:
values of some rows or of one, float32, interactions, files, pickles, and calls that must be refused. Every
answer has the bits of a lone call. The exit code is 1 if one has not, or if the process has grown.
"""

from __future__ import annotations

import argparse
import ctypes
import pickle
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
from strategies import random_ensemble, random_rows

from linear_treeshap import InputError, TreeExplainer
from linear_treeshap.storage.in_memory import from_bytes, to_bytes

__all__ = ["Soak", "main"]

N_ROWS = 400
#: Between the second quarter of the time and the last: before, threads still take memory that they keep. What
#: is under way when it is measured goes up and down by some.
MAX_GROWTH_MIB = 8.0


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
            is_right = np.array_equal(call(some), right[some], equal_nan=True)
            with self._lock:
                self.n_calls += 1
                if not is_right:
                    self.wrong.append(f"{name} of rows {some.start} to {some.stop}")


def _refused(explainer: TreeExplainer, rows: Any) -> Any:
    """Nothing is left behind of a call that is refused."""
    try:
        explainer.shap_values(rows[:, :-1])
    except InputError:
        return rows
    raise AssertionError("rows without a column were explained")


def resident_mib() -> float:
    """What the process has, without what its allocator holds back: there is an arena for every few threads,
    and each would take minutes to be as large as it ever becomes."""
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--threads", type=int, default=16)
    asked = parser.parse_args(arguments)
    soak = Soak()
    begin, seconds = time.monotonic(), 60 * asked.minutes
    threads = [
        threading.Thread(target=soak.work, args=(seed, begin + seconds)) for seed in range(asked.threads)
    ]
    for thread in threads:
        thread.start()
    seen: list[float] = []
    while any(thread.is_alive() for thread in threads):
        seen.append(resident_mib())
        time.sleep(seconds / 100)
    quarter = len(seen) // 4
    early, late = median(seen[quarter : 2 * quarter] or seen), median(seen[-quarter:] or seen)
    print(
        f"{soak.n_calls:,} calls on {asked.threads} threads in {time.monotonic() - begin:.0f} s, "
        f"{len(soak.wrong)} wrong; memory {early:.1f} MiB in the second quarter, {late:.1f} in the last, "
        f"at most {max(seen):.1f}"
    )
    print("MiB over time: " + " ".join(f"{mib:.0f}" for mib in seen[:: max(1, len(seen) // 20)]))
    for wrong in soak.wrong[:5]:
        print(f"WRONG {wrong}")
    return int(bool(soak.wrong) or late - early > MAX_GROWTH_MIB)


if __name__ == "__main__":
    sys.exit(main())
