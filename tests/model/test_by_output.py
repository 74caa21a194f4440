"""Trees of one output each, cut where their leaves agree: the same function and the same values."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import zoo
from strategies import random_ensemble, random_rows, rows_as_read

from linear_treeshap import TreeExplainer, import_model, oracle
from linear_treeshap.engines.program import Program
from linear_treeshap.engines.values import ValueEngine
from linear_treeshap.model import by_output as module
from linear_treeshap.model.by_output import by_output
from linear_treeshap.model.ensemble import PER_NODE, TreeEnsemble


def pure(rng: np.random.Generator, **settings: Any) -> TreeEnsemble:
    """Vector leaves that are mostly zero, some of them equal by chance."""
    ensemble = random_ensemble(rng, n_outputs=4, vector_leaves=True, **settings)
    leaf = ensemble.is_leaf[:, None]
    value = np.where(
        leaf & (rng.random(ensemble.value.shape) < 0.2), rng.integers(1, 4, ensemble.value.shape), 0
    )
    value[:, 3] = np.where(leaf[:, 0], 7, 0)  # an output that depends on nothing
    return replace(ensemble, value=value.astype(np.float64))


@pytest.mark.parametrize("n_trees", [0, 2])
def test_nothing_is_cut_where_nothing_splits(n_trees: int) -> None:
    """A small file may claim many outputs and no trees: an ensemble for each of them would take seconds."""
    several = pure(np.random.default_rng(0), max_depth=0, n_trees=max(1, n_trees))
    nothing = {name: getattr(several, name)[:0] for name in (*PER_NODE, "value", "tree_output")}
    empty = replace(several, tree_offsets=np.zeros(1, dtype=np.int64), **nothing)
    assert by_output(several if n_trees else empty) is None


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_are_those_of_the_definition(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ties, missing values, categories, repeated features and nodes without cover."""
    monkeypatch.setattr(module, "_MAX_SHARE", 1.0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        ensemble = pure(rng, n_features=6, n_trees=5, max_depth=6, max_leaves=12, dtype=dtype)
        cut = by_output(ensemble)
        assert cut is not None
        assert cut.n_trees == 4 * ensemble.n_trees
        assert cut.n_leaves < 3 * ensemble.n_leaves
        assert (np.diff(cut.tree_offsets)[cut.tree_output == 3] == 1).all()
        rows = rows_as_read(rng, ensemble, 9)
        np.testing.assert_array_equal(cut.predict(rows), ensemble.predict(rows))
        np.testing.assert_allclose(cut.expected_value, ensemble.expected_value, rtol=1e-14, atol=1e-14)
        exact = [oracle.shapley_values(ensemble, x, by="leaves") for x in rows]
        expected = np.array([oracle.as_float(values) for values in exact])
        engine = ValueEngine(Program(ensemble))
        assert engine._walked.ensemble.width == 1
        found = np.empty((len(rows), 6, 4))
        engine.values(rows, found)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
        np.testing.assert_array_equal(found[..., 3], 0)


@cache
def forest_of_digits() -> tuple[TreeEnsemble, Any]:
    datasets, ensembles = pytest.importorskip("sklearn.datasets"), pytest.importorskip("sklearn.ensemble")
    X, y = datasets.load_digits(return_X_y=True)
    return import_model(ensembles.RandomForestClassifier(12, random_state=0).fit(X, y)), X


@pytest.mark.parametrize("n_rows", [1, 9, 200])
def test_a_deep_forest_of_many_classes_is_cut(n_rows: int) -> None:
    """Ten digits: a fifth of the leaves times outputs is left, and values are those of the whole trees."""
    ensemble, X = forest_of_digits()
    rows = np.ascontiguousarray(X[:n_rows], dtype=np.float32)
    explainer = TreeExplainer(ensemble)
    assert explainer._engine._walked.ensemble.n_leaves < 0.4 * 10 * ensemble.n_leaves  # type: ignore[attr-defined]
    whole = np.zeros((n_rows, 64, 10))
    for output in range(10):
        single = replace(
            ensemble, value=ensemble.value[:, [output]], base_values=np.zeros(1), output_names=None
        )
        whole[..., output] = TreeExplainer(single).shap_values(rows)
    np.testing.assert_allclose(explainer.shap_values(rows), whole, rtol=0, atol=1e-14)


def test_trees_that_would_be_more_to_walk_stay_whole() -> None:
    rng = np.random.default_rng(1)
    assert by_output(random_ensemble(rng)) is None
    assert by_output(random_ensemble(rng, n_outputs=3, vector_leaves=True, n_trees=8)) is None
    binary = import_model(zoo.load("sklearn_random_forest_binary").model)
    assert by_output(binary) is None


def test_a_single_leaf_and_no_trees() -> None:
    rng = np.random.default_rng(2)
    alone = random_ensemble(rng, n_outputs=3, vector_leaves=True, n_trees=2, max_depth=0)
    rows = random_rows(rng, alone, 4)
    found = TreeExplainer(alone).shap_values(rows)
    np.testing.assert_array_equal(found, np.zeros((4, alone.n_features, 3)))
