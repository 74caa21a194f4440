"""Many threads of Python share explainers, with the global lock and without it."""

from __future__ import annotations

import sys
import sysconfig
import threading

import numpy as np
import pytest
from strategies import random_ensemble

from linear_treeshap import TreeExplainer

IS_FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
N_THREADS, N_CALLS = 8, 2


@pytest.mark.skipif(not IS_FREE_THREADED, reason="needs an interpreter without a global lock")
def test_importing_leaves_the_lock_off() -> None:
    """A module that does not say that it can do without would turn it on, for everybody."""
    is_enabled = getattr(sys, "_is_gil_enabled")  # noqa: B009 - older interpreters do not have it
    assert not is_enabled()


def test_explainers_are_shared_by_threads() -> None:
    """Values, pairs and background rows, and explainers made meanwhile: the same bits as alone."""
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=8, n_trees=30, max_depth=7, max_leaves=40)
    X = rng.normal(size=(80, 8))
    explainer, against = TreeExplainer(ensemble, n_jobs=2), TreeExplainer(ensemble, X[:30], n_jobs=2)

    def explain() -> list[np.ndarray]:
        new = TreeExplainer(ensemble, X[:5], n_jobs=1)
        calls = (explainer.shap_values, against.shap_values, new.shap_values)
        return [*(call(X[:80]) for call in calls), explainer.shap_interaction_values(X[:20])]

    alone = explain()
    wrong: list[int] = []
    done: list[bool] = []
    started = threading.Barrier(N_THREADS)

    def work() -> None:
        started.wait()
        for _ in range(N_CALLS):
            found = explain()
            wrong.extend(i for i, one in enumerate(alone) if not np.array_equal(one, found[i]))
        done.append(True)

    threads = [threading.Thread(target=work) for _ in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == N_THREADS
    assert not wrong
