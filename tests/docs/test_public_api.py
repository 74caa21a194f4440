"""What the package offers, and what importing it costs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import linear_treeshap

PUBLIC = [
    "AdditivityError",
    "BySegment",
    "Explanation",
    "FileFormatError",
    "GlobalImportance",
    "GlobalInteractions",
    "InputError",
    "Interactions",
    "LinearTreeShapError",
    "MissingDependencyError",
    "ModelError",
    "RowFormat",
    "Stability",
    "TreeEnsemble",
    "TreeExplainer",
    "UnsupportedModelError",
    "__version__",
    "explain",
    "explain_batches",
    "global_importance",
    "global_interactions",
    "import_model",
    "kernels",
    "load",
    "paper",
    "patch_shap",
    "save",
    "stability",
    "survival_curve",
]


def _in_new_process(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr == ""
    return result.stdout


def test_the_public_names_are_these() -> None:
    """A new name is added here, in the docs and in the changelog."""
    assert linear_treeshap.__all__ == PUBLIC


def test_every_public_name_exists_and_is_listed() -> None:
    for name in PUBLIC:
        assert getattr(linear_treeshap, name) is not None
        assert name in dir(linear_treeshap)


def test_everything_public_says_what_it_is() -> None:
    """Functions show an example too, which the doctests run; that of `save` loads as well."""
    for name in PUBLIC:
        public = getattr(linear_treeshap, name)
        assert name == "__version__" or public.__doc__, name
        if isinstance(public, FunctionType) and name != "load":
            assert ">>>" in str(public.__doc__), name


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(linear_treeshap, "no_such_name")


def test_the_version_is_that_of_the_distribution() -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{linear_treeshap.__version__}"\n' in project


def test_importing_loads_nothing_that_is_optional() -> None:
    """Only NumPy, the standard library and ourselves; narwhals waits for the first data frame."""
    code = (
        "import sys, numpy, json; before = set(sys.modules); import linear_treeshap; "
        "print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))"
    )
    loaded = set(json.loads(_in_new_process(code))) - set(sys.stdlib_module_names)
    assert loaded == {"linear_treeshap", "numpy"}


def test_importing_is_quick() -> None:
    """About as quick as importing NumPy, in CPU time and the best of five, so that neither a busy nor a slow
    machine counts."""
    code = "import time; a = time.process_time(); import numpy; b = time.process_time(); "
    code += "import linear_treeshap; print((time.process_time() - b) / (b - a))"
    assert min(float(_in_new_process(code)) for _ in range(5)) < 1.3
