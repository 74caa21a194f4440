"""Every model of the zoo: the compiled engine's values are those of the definition, feature by feature."""

from __future__ import annotations

import numpy as np
import pytest
import zoo

from linear_treeshap import TreeEnsemble, TreeExplainer
from linear_treeshap.oracle import as_float, shapley_values
from linear_treeshap.rows import read_rows

N_ROWS = 5


def _largest_sum(ensemble: TreeEnsemble) -> float:
    """The largest leaf of each tree, in absolute numbers: the scale of rounding."""
    size = np.abs(ensemble.value).max(axis=1)
    return float(np.maximum.reduceat(size, ensemble.tree_offsets[:-1]).sum()) if ensemble.n_trees else 0.0


@pytest.mark.parametrize("name", zoo.names())
def test_values_of_hostile_rows_are_those_of_the_definition(name: str) -> None:
    """Within some hundred roundings of the largest sum; the definition is evaluated in exact fractions."""
    model = zoo.load(name)
    explainer = TreeExplainer(model.model)
    ensemble = explainer.ensemble
    X = model.to_input(zoo.hostile_rows(model, ensemble, n_rows=N_ROWS))
    values = explainer.shap_values(X).reshape(N_ROWS, ensemble.n_features, ensemble.n_outputs)
    rows = read_rows(X, ensemble.row_format)[0:N_ROWS]
    for row, ours in zip(rows, values, strict=True):
        exact = as_float(shapley_values(ensemble, row, by="leaves"))
        np.testing.assert_allclose(ours, exact, rtol=0, atol=1e-13 * _largest_sum(ensemble), err_msg=f"{row}")
