"""The definition, on our ensembles, gives the values that shap gives: covers and base values are right.

Predictions alone do not show this: they do not depend on the covers.
"""

from __future__ import annotations

import numpy as np
import pytest
import zoo

from linear_treeshap import oracle
from linear_treeshap.importers import import_model

shap = pytest.importorskip("shap")

#: What shap reads of scikit-learn, and reads right: it ignores categories of histograms, more than two
#: classes of gradient boosting are beyond it, and it adds the padding of multi-output classifiers.
COMPARED = [
    "sklearn_decision_tree_classifier",
    "sklearn_decision_tree_missing",
    "sklearn_decision_tree_regressor",
    "sklearn_extra_tree_regressor",
    "sklearn_extra_trees_classifier",
    "sklearn_extra_trees_regressor",
    "sklearn_gradient_boosting_binary",
    "sklearn_gradient_boosting_quantile",
    "sklearn_gradient_boosting_regressor",
    "sklearn_hist_multiclass",
    "sklearn_hist_poisson",
    "sklearn_hist_regressor",
    "sklearn_isolation_forest_some_features",
    "sklearn_random_forest_binary",
    "sklearn_random_forest_multiclass",
    "sklearn_random_forest_multioutput",
    "sklearn_random_forest_regressor",
]


@pytest.mark.parametrize("name", COMPARED)
def test_values_by_definition_equal_those_of_shap(name: str) -> None:
    """Per feature and output, and the expected value; shap computes in float64 as well."""
    model = zoo.load(name)
    ensemble = import_model(model.model)
    theirs = shap.TreeExplainer(model.model, feature_perturbation="tree_path_dependent")
    values = np.asarray(theirs.shap_values(model.X[:3], check_additivity=False))
    exact = [oracle.as_float(oracle.shapley_values(ensemble, row, by="leaves")) for row in model.rows[:3]]
    ours = np.stack(exact)
    # shap rounds at every step of a path: some 1e-15 of the largest value.
    np.testing.assert_allclose(values.reshape(ours.shape), ours, rtol=0, atol=1e-12 * np.abs(ours).max())
    np.testing.assert_allclose(
        np.ravel(theirs.expected_value), ensemble.expected_value, rtol=1e-12, atol=1e-14
    )
