"""Every importer: our ensemble predicts what the library predicts, also where routing is hard."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import zoo

from linear_treeshap.ensemble import TreeEnsemble
from linear_treeshap.importers import import_model, raw_prediction
from linear_treeshap.rows import read_rows


@pytest.fixture(params=zoo.names())
def model(request: pytest.FixtureRequest) -> zoo.ZooModel:
    return zoo.load(request.param)


def _largest_sum(ensemble: TreeEnsemble) -> float:
    """The base plus the largest leaf of each tree, in absolute numbers: the scale of rounding."""
    size = np.abs(ensemble.value).max(axis=1)
    return float(
        np.abs(ensemble.base_values).max() + np.maximum.reduceat(size, ensemble.tree_offsets[:-1]).sum()
    )


def _assert_same_prediction(model: zoo.ZooModel, rows: npt.NDArray[np.float64]) -> None:
    ensemble = import_model(model.model)
    X = model.to_input(rows)
    read = read_rows(X, ensemble.row_format)
    ours, theirs = ensemble.predict(read[0 : len(read)]), raw_prediction(model.model, X)
    assert ours.shape == theirs.shape, f"{ours.shape[1]} outputs, expected {theirs.shape[1]}"
    error = np.abs(ours - theirs).max(axis=1)
    worst = int(np.argmax(error))
    scale = max(_largest_sum(ensemble), 1e-300)
    assert error[worst] <= model.tolerance * scale, (
        f"row {worst} {rows[worst]}: {ours[worst]} instead of {theirs[worst]}"
    )


def test_prediction_equals_the_library_s_own(model: zoo.ZooModel) -> None:
    """On the rows that the model was trained on."""
    _assert_same_prediction(model, model.rows)


def test_hostile_values_are_routed_as_the_library_does(model: zoo.ZooModel) -> None:
    """Ties, one ulp either side, ±0, huge numbers, NaN, ±inf; unseen, negative, fractional categories."""
    ensemble = import_model(model.model)
    _assert_same_prediction(model, zoo.hostile_rows(model, ensemble, n_rows=400))
