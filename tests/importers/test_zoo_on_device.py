"""Every model of the zoo on a device: the processor's values, for rows on which routing goes wrong."""

from __future__ import annotations

import numpy as np
import pytest
import zoo
from devices import DEVICES, device_engine

from linear_treeshap import TreeExplainer
from linear_treeshap.engines.values import ValueEngine
from linear_treeshap.rows.rows import read_rows


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", zoo.names())
def test_values_of_hostile_rows_are_the_processor_s(name: str, device: str) -> None:
    """To 1e-12 of the largest value of a row's output in float64, and 1e-6 of that of all rows in float32:
    where the values of a row nearly cancel, float32 has no more digits."""
    model = zoo.load(name)
    ensemble = TreeExplainer(model.model).ensemble
    X = model.to_input(zoo.hostile_rows(model, ensemble, n_rows=100))
    rows = read_rows(X, ensemble.row_format)[0:100]
    engine = device_engine(ensemble, DEVICES[device]())
    expected, found = (np.empty((100, ensemble.n_columns, ensemble.n_outputs)) for _ in range(2))
    ValueEngine(engine.program).values(rows, expected)
    largest = np.abs(expected).max(axis=1, keepdims=True, initial=0)
    engine.values(rows, found)
    assert (np.abs(found - expected) <= 1e-12 * largest).all()
    single = np.empty(found.shape, dtype=np.float32)
    engine.values(rows, single)
    assert (np.abs(single - expected) <= 1e-6 * largest.max(axis=0)).all()
