"""What calls of few rows have in common with larger ones: their values, to rounding."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from linear_treeshap.engines.values import FEW_ROWS

__all__ = ["FEW_ROWS", "assert_same_values"]


def assert_same_values(found: npt.ArrayLike, expected: npt.ArrayLike) -> None:
    """To the last bit; of few rows, which may be added up in another order, to 1e-14 of the largest value."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    if len(found) > FEW_ROWS:
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14 * np.abs(expected).max(initial=0.0))
