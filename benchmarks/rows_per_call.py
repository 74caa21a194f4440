"""Time per row against rows per call, and what cores gain: ``python -m benchmarks.rows_per_call [cores]``.

Printed are tables in Markdown for a small and for a large model. By rows: milliseconds of one call, the best
of several, with one thread, beside every peer at hand; answers are compared first. By cores: how many times
as fast calls are on 2, 4, 8… threads as on one, and how many times a loop is that needs nothing but its core.
Calls of one size are made in turns, because clocks wander.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import numpy as np

from linear_treeshap import TreeExplainer
from linear_treeshap.engines.threads import available_cpus

from .cases import Problem, xgboost
from .peers import PEERS, Ours, Peer

#: Peers for each depth. WOODELF, whose time hardly depends on rows, takes more than a minute for the large
#: model.
PEERS_BY_DEPTH = {6: ("xgboost", "shap", "shapiq", "woodelf"), 12: ("xgboost", "shap", "shapiq")}
SIZES = (1, 2, 4, 8, 16, 64, 256, 1_024, 4_096)
#: A call that would take longer is not made.
MOST_SECONDS = 4.0
ROUNDS, SECONDS = 3, 0.15
#: By cores: rows of a call, for each depth.
SIZES_BY_CORES = {6: (1_024, 4_096, 20_000, 100_000), 12: (1, 256, 1_024, 4_096, 20_000)}
#: Rounds of the loop that is shared out to threads: a tenth of a second or so.
LOOP = 320_000


def best(call: Callable[[], object], at_least: int = 3) -> float:
    """The shortest of the calls that fit into some time, and of a few at least."""
    found, begin = list[float](), time.perf_counter()
    while len(found) < at_least or time.perf_counter() - begin < SECONDS:
        start = time.perf_counter()
        values = call()
        found.append(time.perf_counter() - start)
        del values  # to give memory back takes time, too
    return min(found)


def peers_of(problem: Problem, depth: int, ours: Ours) -> dict[str, Peer]:
    """Those at hand, each of which has given the right answer."""
    found: dict[str, Peer] = {}
    rows = np.asarray(problem.rows[:4], dtype=np.float32)
    expected = ours(rows)
    for name in PEERS_BY_DEPTH[depth]:
        try:
            peer = PEERS[name](problem.model, ours.explainer.ensemble)
            error = np.abs(peer(rows) - expected).max() / np.abs(expected).max()
        except (ImportError, RuntimeError) as reason:
            print(f"{name} is left out: {reason}", file=sys.stderr)
            continue
        assert error <= peer.tolerance, f"{name} is off by {error:.1e} of the largest value"
        found[name] = peer
    return found


def lines(depth: int) -> list[str]:
    problem = xgboost(100, depth, max(SIZES))
    ours = Ours(problem.model, None)  # type: ignore[arg-type]  # which it does not look at
    everyone: dict[str, Peer] = {"ours": ours, **peers_of(problem, depth, ours)}
    n_leaves, found, last = ours.explainer.ensemble.n_leaves, list[str](), dict.fromkeys(everyone, 0.0)
    for i, n_rows in enumerate(SIZES):
        rows = np.asarray(problem.rows[:n_rows], dtype=np.float32)
        growth = n_rows / SIZES[max(0, i - 1)]
        calls = {
            name: peer
            for name, peer in everyone.items()
            if (1 if peer.all_rows else growth) * last[name] <= MOST_SECONDS
        }
        took = dict.fromkeys(calls, np.inf)
        for _ in range(ROUNDS):
            for name, peer in calls.items():
                at_least = 3 if last[name] < MOST_SECONDS / 10 else 1
                took[name] = min(took[name], best(lambda peer=peer, rows=rows: peer(rows), at_least))  # type: ignore[misc]
        last.update({name: took.get(name, np.inf) for name in everyone})
        cells = [f"{n_rows:,}", f"{1e9 * took['ours'] / n_leaves / n_rows:.3g}", _digits(1e3 * took["ours"])]
        for name in PEERS_BY_DEPTH[min(PEERS_BY_DEPTH)]:
            peer_took = took.get(name)
            cells.append(
                ""
                if peer_took is None
                else f"{_digits(1e3 * peer_took)} ({_digits(peer_took / took['ours'])} ×)"
            )
        found.append("| " + " | ".join([f"depth {depth}, {n_leaves:,} leaves", *cells]) + " |")
    return found


def by_rows() -> None:
    names = [
        f"{PEERS[name].module} {_version(PEERS[name])}, ms" for name in PEERS_BY_DEPTH[min(PEERS_BY_DEPTH)]
    ]
    print(f"| | rows | ns per leaf·row | ms | {' | '.join(names)} |")
    print("|---" * (4 + len(names)) + "|")
    for depth in PEERS_BY_DEPTH:
        print("\n".join(lines(depth)), flush=True)


def _digits(number: float) -> str:
    """Three of them, or all before the point."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _version(peer: type[Peer]) -> str:
    try:
        return version(peer.package)
    except ImportError:
        return "not here"


def gains(calls: dict[int, Callable[[], object]]) -> str:
    """What calls gain on each number of threads, as cells of a table."""
    took = dict.fromkeys(calls, np.inf)
    for _ in range(ROUNDS):
        for n_threads, call in calls.items():
            took[n_threads] = min(took[n_threads], best(call))
    return " | ".join(f"{took[1] / took[n]:.1f}" for n in calls if n > 1)


def plain_loop(n_threads: int) -> Callable[[], object]:
    """Arithmetic in registers, each step of which needs the one before; Python's lock is not held."""
    pool, n_rounds = ThreadPoolExecutor(n_threads), LOOP // n_threads

    def share(_: int) -> bytes:
        return hashlib.pbkdf2_hmac("sha256", b"", b"", n_rounds)

    return lambda: list(pool.map(share, range(n_threads)))


def by_cores() -> None:
    n_cpus = available_cpus()
    threads = [2**i for i in range(n_cpus.bit_length()) if 2**i <= n_cpus]
    print(f"| | rows | {' | '.join(f'{n} threads' for n in threads[1:])} |")
    print(f"|---|---|{'---|' * (len(threads) - 1)}")
    print(f"| a plain loop | | {gains({n: plain_loop(n) for n in threads})} |", flush=True)
    for depth, sizes in SIZES_BY_CORES.items():
        problem = xgboost(100, depth, max(sizes))
        explainers = {n: TreeExplainer(problem.model, n_jobs=n) for n in threads}
        for n_rows in sizes:
            rows = np.asarray(problem.rows[:n_rows], dtype=np.float32)
            calls: dict[int, Callable[[], object]] = {
                n: lambda rows=rows, one=one: one.shap_values(rows, check_additivity=False)  # type: ignore[misc]
                for n, one in explainers.items()
            }
            print(f"| depth {depth} | {n_rows:,} | {gains(calls)} |", flush=True)


if __name__ == "__main__":
    by_cores() if sys.argv[1:] == ["cores"] else by_rows()
