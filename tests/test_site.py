"""The documentation site is complete: every page, every command, every public name."""

from __future__ import annotations

import re
from pathlib import Path

import command_line_page

import linear_treeshap

DOCS = Path(__file__).parents[1] / "docs"


def test_the_page_of_the_command_line_is_current() -> None:
    """It is made from the commands' own help."""
    written = command_line_page.PAGE.read_text(encoding="utf-8")
    assert written == command_line_page.render(), "run: python tests/command_line_page.py"


def test_every_page_is_on_the_site() -> None:
    """In one of the lists of its front page; and nothing else is."""
    listed = re.findall(r"^([\w/-]+)$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md")}
    assert set(listed) == pages - {"index"} | {"api"}, "docs/index.md lists the pages"


def test_every_public_name_is_in_the_reference() -> None:
    """`__version__` aside; the errors come from their module, all of them."""
    page = (DOCS / "api.rst").read_text(encoding="utf-8")
    errors = {name for name in linear_treeshap.__all__ if name.endswith("Error")}
    missing = {name for name in linear_treeshap.__all__ if f"linear_treeshap.{name}\n" not in page}
    assert missing - errors == {"__version__"}
