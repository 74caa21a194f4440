"""Imports go one way through the rooms of the house: what CONTRIBUTING.md draws is what the code does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "linear_treeshap"

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
    {"storage"},
    {"views"},
    {"compat"},
    {"__init__"},
    {"cli"},
    {"__main__"},
)


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
