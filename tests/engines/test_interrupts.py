"""Ctrl-C is heard within a second, whatever a call is doing: planning, compiling, or one endless path."""

from __future__ import annotations

import pytest
from interrupts import interrupt

#: What is made beforehand, and the long call.
LONG_CALLS = {
    "planning sets": (
        "explainer = TreeExplainer(copies(complete(10, 40), 100))",
        "explainer.interactions(np.zeros((1, 40)), order=4)",
    ),
    "compiling two million leaves": ("ensemble = copies(complete(18, 40), 8)", "TreeExplainer(ensemble)"),
    "planning and filling tables": (
        "ensemble, background = copies(complete(10, 40), 400), rng.normal(size=(20_000, 40))",
        "TreeExplainer(ensemble, background, n_jobs=1)",
    ),
    "planning and filling tables of pairs": (
        "explainer = TreeExplainer(copies(complete(8, 40), 200), rng.normal(size=(20_000, 40)), n_jobs=1)",
        "explainer.shap_interaction_values(np.zeros((1, 40)))",
    ),
    "pairs of one long path": (
        "explainer = TreeExplainer(chain(rng.integers(600, size=5000)), n_jobs=1)",
        "explainer.shap_interaction_values(np.zeros((2, 600)))",
    ),
    "background of one long path": (
        "explainer = TreeExplainer(chain(rng.integers(2000, size=6000)), np.ones((2000, 2000)), n_jobs=1)",
        "explainer.shap_values(np.zeros((64, 2000)), check_additivity=False)",
    ),
}

BEFORE = """
from strategies import chain, complete, copies
from linear_treeshap import TreeExplainer
rng = np.random.default_rng(0)
"""


@pytest.mark.parametrize("name", LONG_CALLS)
def test_ctrl_c_is_heard(name: str) -> None:
    prepare, call = LONG_CALLS[name]
    interrupt(BEFORE + prepare, call)
