"""A script may end while a daemon thread of it explains: quietly, and with its own exit status.

CPython up to 3.13 ends such a thread when it next asks for the interpreter, wherever it is. That depends on
the moment, so every script is run several times, with two threads that explain and workers of theirs.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

N_RUNS = 10

SCRIPT = """
import sys, threading, time
import numpy as np
sys.path.insert(0, {support!r})
from strategies import random_ensemble
from linear_treeshap import TreeExplainer

rng = np.random.default_rng(0)
ensemble = random_ensemble(rng, n_features=10, n_trees=60, max_depth=8, max_leaves=60)
X, started = rng.normal(size=(4000, 10)), threading.Barrier(3)
explainer = TreeExplainer(ensemble, {background}, n_jobs=2)

def work():
    started.wait()
    while True:
        {call}

for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
started.wait()
time.sleep({moment})
sys.exit(3)
"""

CALLS = {
    "values": ("None", "explainer.shap_values(X, check_additivity=False)"),
    "one row": ("None", "explainer.shap_values(X[:1], check_additivity=False)"),
    "progress": (
        "None",
        "explainer.shap_values(X, check_additivity=False, progress=lambda share: sum(range(20_000)))",
    ),
    "pairs": ("None", "explainer.shap_interaction_values(X[:500])"),
    "background": ("X[:300]", "explainer.shap_values(X, check_additivity=False)"),
    "compile": ("None", "TreeExplainer(ensemble, X[:300], n_jobs=2)"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_daemon_thread_that_explains_does_not_disturb_the_end(name: str) -> None:
    background, call = CALLS[name]
    support = str(Path(__file__).parents[1] / "support")
    scripts = [
        SCRIPT.format(support=support, background=background, call=call, moment=0.05 + 0.013 * run)
        for run in range(N_RUNS)
    ]
    runs = [
        subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
        for script in scripts
    ]
    ends = [(run.communicate(timeout=120)[1], run.returncode) for run in runs]
    assert ends == [("", 3)] * N_RUNS
