"""Functions in steps: their matrices are means of derivatives, and take differences to differences."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from linear_treeshap.model.joint_links import JointLink, Softmax
from linear_treeshap.model.links import Exponential, Logistic
from linear_treeshap.model.steps import EachClass, LogSoftmax, Shares, Steps

Float64 = npt.NDArray[np.float64]

RNG = np.random.default_rng(0)
#: Sums from 1e-300 to 1e3, some nearly the same, some zero.
SUMS = np.array([1e-300, 1e-9, 0.3, 0.3 + 1e-12, 0.32, 1.0, 1.0, 2.5, 1e3, 0.0, 0.0])
POSITIVE: Float64 = SUMS[:, None] * RNG.dirichlet([1, 1, 1, 1], size=len(SUMS))

LINKS: dict[str, tuple[JointLink, Float64]] = {
    "shares": (Shares(), POSITIVE),
    "shares of two": (Shares(), POSITIVE[:, :2]),
    "sharpened softmax": (Softmax(2.5), RNG.normal(scale=3, size=(6, 3))),
    "logarithm of softmax": (LogSoftmax(1e-3), RNG.normal(scale=5, size=(6, 3))),
    "each": (EachClass((Logistic(), Exponential())), RNG.normal(size=(6, 2))),
    "steps": (Steps((Softmax(), EachClass((Logistic(), Exponential())), Shares())), RNG.normal(size=(6, 2))),
}


@pytest.mark.parametrize("name", LINKS)
def test_matrices_take_differences_to_differences(name: str) -> None:
    """To rounding, of terms that are as large as a matrix times a difference of what it is given."""
    link, raw = LINKS[name]
    matrix = link.matrix(raw, raw, None)
    step = raw[:, None] - raw[None]
    found = (matrix @ step[..., None])[..., 0]
    value = link.apply(raw, None)
    scale = 1 + (np.abs(matrix) @ np.abs(step)[..., None])[..., 0]
    assert np.isfinite(matrix).all()
    assert (np.abs(found - (value[:, None] - value[None])) < 1e-14 * scale).all()
    assert link.n_outputs(raw.shape[1]) == value.shape[1]


@pytest.mark.parametrize("name", ["shares", "sharpened softmax", "logarithm of softmax"])
def test_matrices_are_means_of_derivatives_on_a_line(name: str) -> None:
    """By central differences in 200 points, whose error is some 1e-9 of the derivative."""
    link, raw = LINKS[name]
    raw = raw[(raw.sum(axis=1) > 0.2) & (raw.sum(axis=1) < 10)] if name == "shares" else raw
    points, weights = np.polynomial.legendre.leggauss(200)
    matrix = link.matrix(raw, raw, None)
    expected = np.zeros_like(matrix)
    for point, weight in zip(points, weights, strict=True):
        at = (raw[None] + (point + 1) / 2 * (raw[:, None] - raw[None])).reshape(-1, raw.shape[1])
        for j, step in enumerate(1e-5 * np.eye(raw.shape[1])):
            derivative = (link.apply(at + step, None) - link.apply(at - step, None)) / 2e-5
            expected[..., j] += weight / 2 * derivative.reshape(len(raw), len(raw), -1)
    np.testing.assert_allclose(matrix, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


def test_the_jump_to_equal_shares_goes_to_classes_by_what_they_add_to_the_sum() -> None:
    """Where all numbers are zero, shares are equal: 1/2 of (0, 0), and of (0.2, 0.6) they are 1/4 and 3/4."""
    some, none = np.array([[0.2, 0.6]]), np.zeros((1, 2))
    slopes = np.array([[0.25 - 0.5], [0.75 - 0.5]]) / 0.8 * np.ones(2)
    np.testing.assert_allclose(Shares().matrix(some, none, None)[0, 0], slopes, rtol=1e-15)
    np.testing.assert_allclose(Shares().matrix(none, some, None)[0, 0], slopes, rtol=1e-15)
    np.testing.assert_array_equal(Shares().matrix(none, none, None)[0, 0], 0.0)
