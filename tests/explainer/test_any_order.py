"""Whatever is done with an explainer, in whatever order: the next call gives what the first one gave.

Hypothesis chooses what comes next: explaining some rows, cutting explanations, saving and loading, pickling,
copying, forking, asking for something that is refused, calling shap with and without a patch.
"""

from __future__ import annotations

import copy
import os
import pickle
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zoo
from few_rows import assert_same_values
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from linear_treeshap import InputError, TreeExplainer, patch_shap

shap = pytest.importorskip("shap")
#: In a dictionary: a patch reaches the names of modules.
SHAP = {"TreeExplainer": shap.TreeExplainer}

N_ROWS = 70
Values = npt.NDArray[np.floating[Any]]


def _explainers() -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    """Name → model, rows, options: each kind of engine."""
    binary, several = zoo.load("sklearn_gradient_boosting_binary"), zoo.load("lightgbm_multiclass")
    data = binary.rows[100:120]
    return {
        "path": (several.model, several.rows, {}),
        "banzhaf": (binary.model, binary.rows, {"index": "banzhaf"}),
        "groups": (binary.model, binary.rows, {"groups": [0, 0, 1, 1, 2]}),
        "background": (several.model, several.rows, {"data": several.rows[100:120]}),
        "probability": (binary.model, binary.rows, {"data": data, "model_output": "probability"}),
    }


KINDS = ("path", "banzhaf", "groups", "background", "probability")
PLACES = st.integers(min_value=0, max_value=N_ROWS - 1)


class AnyOrder(RuleBasedStateMachine):
    explainers = Bundle("explainers")
    patches = Bundle("patches")

    @initialize(target=explainers, kind=st.sampled_from(KINDS))
    def make(self, kind: str) -> TreeExplainer:
        self.model, rows, self.options = _explainers()[kind]
        self.rows = rows[:N_ROWS]
        self.in_force: list[Any] = []
        explainer = TreeExplainer(self.model, **self.options, n_jobs=2)
        self.right: Values = explainer.shap_values(self.rows)
        self.has_pairs = kind != "probability"
        self.right_pairs = explainer.shap_interaction_values(self.rows) if self.has_pairs else None
        return explainer

    @rule(explainer=explainers, one=PLACES, other=PLACES)
    def explain_some(self, explainer: TreeExplainer, one: int, other: int) -> None:
        some = slice(min(one, other), max(one, other))
        assert_same_values(explainer.shap_values(self.rows[some]), self.right[some])

    @rule(explainer=explainers, row=PLACES)
    def explain_one(self, explainer: TreeExplainer, row: int) -> None:
        assert_same_values(explainer.shap_values(self.rows[[row]]), self.right[[row]])

    @rule(explainer=explainers, first=PLACES)
    def explain_pairs(self, explainer: TreeExplainer, first: int) -> None:
        if self.right_pairs is None:
            with pytest.raises(InputError):
                explainer.shap_interaction_values(self.rows)
            return
        found = explainer.shap_interaction_values(self.rows[first:])
        np.testing.assert_array_equal(found, self.right_pairs[first:])

    @rule(explainer=explainers, first=PLACES, step=st.integers(min_value=1, max_value=9))
    def cut_an_explanation(self, explainer: TreeExplainer, first: int, step: int) -> None:
        some = explainer(self.rows)[first::step]
        np.testing.assert_array_equal(some.values, self.right[first::step])
        np.testing.assert_array_equal(some[:, ::-1].values, self.right[first::step, ::-1])

    @rule(explainer=explainers)
    def be_refused(self, explainer: TreeExplainer) -> None:
        with pytest.raises(InputError):
            explainer.shap_values(self.rows[:, :-1])

    @rule(target=explainers, explainer=explainers)
    def save_and_load(self, explainer: TreeExplainer) -> TreeExplainer:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "explainer.lts"
            explainer.save(path)
            return TreeExplainer.load(path, n_jobs=1)

    @rule(target=explainers, explainer=explainers, again=st.sampled_from(["pickle", "copy", "deepcopy"]))
    def duplicate(self, explainer: TreeExplainer, again: str) -> TreeExplainer:
        if again == "pickle":
            duplicate: TreeExplainer = pickle.loads(pickle.dumps(explainer))
            return duplicate
        return getattr(copy, again)(explainer)  # type: ignore[no-any-return]

    @rule(explainer=explainers)
    def fork(self, explainer: TreeExplainer) -> None:
        """The library is not asked there: its own threads need not survive."""
        if not hasattr(os, "fork"):
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # there may be threads, which is the point
            child = os.fork()
        if child == 0:
            try:
                values = explainer.shap_values(self.rows, check_additivity=False)
                os._exit(0 if np.array_equal(values, self.right) else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    @rule(target=patches)
    def patch(self) -> Any:
        patch = patch_shap()
        self.in_force.append(patch)
        return patch

    @rule(patch=patches)
    def undo(self, patch: Any) -> None:
        patch.undo()
        if patch in self.in_force:
            self.in_force.remove(patch)

    @rule(row=PLACES)
    def ask_shap(self, row: int) -> None:
        if self.in_force and set(self.options) <= {"data"}:
            explainer = shap.TreeExplainer(self.model, **self.options)
            assert_same_values(explainer.shap_values(self.rows[[row]]), self.right[[row]])

    @invariant()
    def shap_is_patched_or_itself(self) -> None:
        if hasattr(self, "in_force"):
            assert (shap.TreeExplainer is SHAP["TreeExplainer"]) == (not self.in_force)

    def teardown(self) -> None:
        for patch in getattr(self, "in_force", []):
            patch.undo()


AnyOrder.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=12,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.filterwarnings("ignore::UserWarning")
class TestAnyOrder(AnyOrder.TestCase):  # type: ignore[misc, valid-type]
    pass
