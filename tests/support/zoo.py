"""The zoo: small trained models by name, for every test that needs a real model.

`zoo_sklearn.py`, `zoo_xgboost.py` and their like hold the functions that train them. A model is trained
when a test first asks for it and is kept; asking for a model whose library is not installed skips the test.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from linear_treeshap.model.ensemble import TreeEnsemble

Rows = npt.NDArray[np.float64]

_KEEPERS = (
    "zoo_catboost",
    "zoo_gpboost",
    "zoo_lightgbm",
    "zoo_distributions",
    "zoo_sklearn",
    "zoo_wrapped",
    "zoo_xgboost",
    "zoo_ydf",
)
_TRAINERS: dict[str, Callable[[], ZooModel]] = {}


def _same(rows: Rows) -> Any:
    return rows


@dataclass(frozen=True, eq=False)
class ZooModel:
    """A trained model with rows to try it on."""

    model: Any
    rows: Rows  # (n_rows, n_features) as a TreeEnsemble reads them: categories as codes, NaN missing
    #: The same rows as the model's own library wants them (a data frame with labels, say).
    to_input: Callable[[Rows], Any] = _same
    #: Features whose hostile values are codes of categories rather than thresholds.
    categorical: frozenset[int] = frozenset()
    #: Can the library be given NaN, infinities, and numbers that are no known category?
    takes_missing: bool = True
    takes_infinity: bool = True
    takes_unknown_categories: bool = True
    #: How far our float64 sum may be from the library's own, relative to the sum of absolute terms.
    tolerance: float = 1e-12
    name: str = ""  # filled in by `load`

    @property
    def X(self) -> Any:
        """The rows as the model's own library wants them."""
        return self.to_input(self.rows)


def zoo_model(train: Callable[[], ZooModel]) -> Callable[[], ZooModel]:
    """Register a function that trains a model; the function's name is the model's."""
    assert train.__name__ not in _TRAINERS, f"two models are called {train.__name__}"
    _TRAINERS[train.__name__] = train
    return train


def names(prefix: str = "") -> list[str]:
    """The names of all models, or of those that begin with ``prefix`` (a library)."""
    for keeper in _KEEPERS:
        import_module(keeper)
    return sorted(name for name in _TRAINERS if name.startswith(prefix))


@cache
def load(name: str) -> ZooModel:
    """The model of that name, trained at most once per test run."""
    assert name in names(), f"no model is called {name}"
    return replace(_TRAINERS[name](), name=name)


def hostile_rows(zoo: ZooModel, ensemble: TreeEnsemble, n_rows: int = 200, seed: int = 0) -> Rows:
    """The model's rows, with values replaced by those on which importers go wrong.

    Each replaced value is a threshold of its feature, one ulp (of the type the model reads) above
    or below one, ±0, huge, or, where the library takes them, NaN and ±inf; for a categorical
    feature known codes and, where taken, unseen, negative and fractional ones.
    """
    rng = np.random.default_rng(seed)
    rows: Rows = zoo.rows[rng.integers(len(zoo.rows), size=n_rows)].copy()
    for feature in range(rows.shape[1]):
        values = _hostile_values(zoo, ensemble, feature)
        if values.size:
            replaced = rng.random(n_rows) < 0.5
            rows[replaced, feature] = rng.choice(values, size=int(replaced.sum()))
    return rows


def _hostile_values(zoo: ZooModel, ensemble: TreeEnsemble, feature: int) -> Rows:
    values = [np.array([np.nan] if zoo.takes_missing else [])]
    if feature in zoo.categorical:
        values.append(np.unique(zoo.rows[:, feature]))
        if zoo.takes_unknown_categories:
            values.append(np.array([-1.0, -0.5, 0.7, 1.5, 63.0, 64.0, 1000.0]))
        return np.concatenate(values)
    numeric = (ensemble.feature == feature) & (ensemble.category_set < 0)
    dtype = ensemble.row_format.numpy_dtype
    with np.errstate(over="ignore"):
        on = ensemble.threshold[numeric].astype(dtype)
        for near in (on, np.nextafter(on, dtype.type(np.inf)), np.nextafter(on, dtype.type(-np.inf))):
            values.append(near[np.isfinite(near)].astype(np.float64))
    values.append(np.array([0.0, -0.0, 1e30, -1e30]))
    if zoo.takes_infinity:
        values.append(np.array([np.inf, -np.inf]))
    return np.concatenate(values)


def assert_same_trees(one: TreeEnsemble, other: TreeEnsemble) -> None:
    """Equal to the last bit, and in what they expect of a row."""
    for field in fields(TreeEnsemble):
        if field.name not in ("row_format", "output_names"):
            np.testing.assert_array_equal(
                getattr(one, field.name), getattr(other, field.name), err_msg=field.name
            )
    assert one.row_format == other.row_format


def memory_to_read(read: Callable[[], TreeEnsemble]) -> float:
    """The peak of memory while a model is read, in multiples of what the arrays of its ensemble take."""
    read()  # what it imports is not counted
    tracemalloc.start()
    try:
        ensemble = read()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return peak / sum(array.nbytes for array in vars(ensemble).values() if isinstance(array, np.ndarray))
