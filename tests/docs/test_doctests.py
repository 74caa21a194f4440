"""Every example in the library's docstrings does what it says."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module
from types import ModuleType

import pytest

import linear_treeshap

#: Extension modules hold no docstrings with examples.
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(linear_treeshap.__path__, "linear_treeshap.")
    if not module.name.endswith("._core")
)


def _load(name: str) -> ModuleType:
    try:
        return import_module(name)
    except (ModuleNotFoundError, linear_treeshap.MissingDependencyError) as error:
        pytest.skip(f"{name}: {error}")


@pytest.mark.parametrize("name", ["linear_treeshap", *MODULES])
def test_examples_in_docstrings_hold(name: str) -> None:
    for library in ("matplotlib", "pandas", "shap", "sklearn"):
        pytest.importorskip(library)
    failed, _ = doctest.testmod(_load(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0, "see the captured output"
