"""Imports go one way through the rooms of the house: what CONTRIBUTING.md draws is what the code does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from linear_treeshap.importers import IMPORTERS

PACKAGE = Path(__file__).parents[2] / "src" / "linear_treeshap"
CORE = Path(__file__).parents[2] / "core"

#: A room may import its own modules and the rooms before it, when it is itself imported. What a function
#: imports when it is called (a view, for one who asks for it) is not an arrow.
ROOMS = (
    {"errors", "progress", "atomic_write", "_core"},
    {"model"},
    {"rows"},
    {"importers"},
    {"players"},
    {"engines"},
    {"oracle", "paper"},
    {"results"},
    {"explainer", "importance"},
    {"streams"},
    {"storage"},
    {"views"},
    {"compat"},
    {"__init__"},
    {"cli"},
    {"__main__"},
    {"dask", "mlflow", "ray", "spark"},
)
#: Adapters to other engines, which nobody imports but their users.
LEAVES = ROOMS[-1]


def _place(room: str) -> int:
    return next(place for place, names in enumerate(ROOMS) if room in names)


def _imports(path: Path) -> Iterator[str]:
    """The rooms that a module imports when it is imported."""
    package = path.relative_to(PACKAGE).parts[:-1]
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.level > 0:
            base = package[: len(package) - (node.level - 1)]
            parts = (*base, *(node.module or "").split(".")) if node.module else base
            for alias in node.names:
                yield (*parts, alias.name)[0]


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.name)
def test_nobody_imports_an_adapter(path: Path) -> None:
    """Not even when a function is called."""
    names = {
        f"{node.module or ''}.{alias.name}".strip(".").partition(".")[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level > 0
        for alias in node.names
    }
    assert not names & LEAVES


#: What an importer is for: everything that is special about a library is in it, and nowhere else.
LIBRARIES = {name.partition(".")[0] for name in IMPORTERS} - {"linear_treeshap"}

MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def test_every_module_has_a_room() -> None:
    assert {path.parts[0].removesuffix(".py") for path in MODULES} <= set().union(*ROOMS)


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_imports_point_one_way(path: Path) -> None:
    own = path.parts[0].removesuffix(".py")
    names = [room for room in _imports(PACKAGE / path) if any(room in names for names in ROOMS)]
    assert [room for room in names if _place(room) > _place(own)] == []
    beside = {room for room in names if _place(room) == _place(own)} - {own}
    assert own not in {"model", "rows", "importers", "players", "engines", "results"} or not beside


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_no_library_is_asked_for_by_its_name_outside_of_its_importer(path: Path) -> None:
    """A text that is nothing but the name of a library is there to be compared with, or looked up by."""
    tree = ast.parse((PACKAGE / path).read_text(encoding="utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    named = {text.lower() for text in texts if isinstance(text, str)} & LIBRARIES
    read = [name for name, module in IMPORTERS.items() if path.parts == ("importers", f"{module}.py")]
    mine = {name.partition(".")[0] for name in read}
    is_table = path.parts == ("importers", "__init__.py")
    assert is_table or named <= mine


@pytest.mark.parametrize("module", sorted(set(IMPORTERS.values())))
def test_every_importer_keeps_the_contract(module: str) -> None:
    """What CONTRIBUTING.md asks of one, and nothing that nobody would find."""
    importer = import_module(f"linear_treeshap.importers.{module}")
    is_format = module in ("onnx", "h2o")  # which nobody is asked about
    asked = {"to_ensemble"} if is_format else {"to_ensemble", "raw_prediction"}
    assert asked <= set(importer.__all__)
    assert hasattr(importer, "BEGINNINGS") == hasattr(importer, "read_file")
    assert hasattr(importer, "LIBRARY") or not hasattr(importer, "BEGINNINGS")


# -- the core ------------------------------------------------------------------------------------------

#: A folder may include its own files and those of the folders before it; folders side by side do not know
#: each other.
FOLDERS = (
    {"model"},
    {"run"},
    {"compile"},
    {"kernels"},
    {"values", "sets", "background"},
    {"paper", "readers", "rows"},
    {"bindings", "check"},
)

SOURCES = sorted(path.relative_to(CORE) for path in CORE.rglob("*.[ch]pp"))


def _floor(folder: str) -> int:
    return next(floor for floor, folders in enumerate(FOLDERS) if folder in folders)


@pytest.mark.skipif(not CORE.exists(), reason="this is not a checkout")
def test_every_source_of_the_core_has_a_folder() -> None:
    assert {path.parts[0] for path in SOURCES} == set().union(*FOLDERS)


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_includes_point_one_way(path: Path) -> None:
    own = path.parts[0]
    text = (CORE / path).read_text(encoding="utf-8")
    included = [file.split("/")[0] for file in re.findall(r'^#include "(.+)"', text, re.MULTILINE)]
    assert [folder for folder in included if folder != own and _floor(folder) >= _floor(own)] == []
