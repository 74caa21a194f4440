"""Every model of the zoo: the compiled engine's values are those of the definition, feature by feature."""

from __future__ import annotations

import extended
import numpy as np
import pytest
import zoo
from definition import divided, values_by_definition

from linear_treeshap import TreeExplainer, kernels
from linear_treeshap.engines.program import KERNEL_VARIABLE
from linear_treeshap.rows.rows import read_rows

N_ROWS = 5


@pytest.mark.parametrize("name", zoo.names())
def test_values_of_hostile_rows_are_those_of_the_definition(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each to 1e-13 of the sum of its absolute leaf contributions, on every instruction set; so these agree.

    The definition is evaluated in exact fractions.
    """
    model = zoo.load(name)
    explainer = TreeExplainer(model.model)
    ensemble, assignment = explainer.ensemble, explainer._assignment
    X = model.to_input(zoo.hostile_rows(model, ensemble, n_rows=N_ROWS))
    rows = read_rows(X, ensemble.row_format)[0:N_ROWS]
    exact = values_by_definition(explainer, rows)
    scales = extended.shapley_values(ensemble, rows, assignment.in_trees.of_column.tolist()).scale
    scale = np.array([divided(of_row, assignment.divided) for of_row in scales])
    for kernel in kernels():
        monkeypatch.setenv(KERNEL_VARIABLE, kernel)
        values = TreeExplainer(model.model).shap_values(X).reshape(exact.shape)
        off = np.abs(values - exact) > 1e-13 * scale
        assert not off.any(), f"{kernel}: row, feature and output {np.argwhere(off)[0]}"
