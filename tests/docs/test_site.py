"""The documentation site is complete: every page, every command, every public name."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import command_line_page

import linear_treeshap
from linear_treeshap.cli.main import make_parser

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_the_command_line_is_current() -> None:
    """It is made from the commands' own help."""
    written = command_line_page.PAGE.read_text(encoding="utf-8")
    assert written == command_line_page.render(), "run: python tests/support/command_line_page.py"


def test_every_command_on_a_page_can_be_given() -> None:
    """Those of the README too; what follows a bar or an arrow is the shell's."""
    found = 0
    for page in [DOCS.parent / "README.md", *DOCS.rglob("*.md")]:
        lines = page.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
        for line in (line.strip().removeprefix("$ ") for line in lines):
            if line.startswith("linear-treeshap "):
                make_parser().parse_args(shlex.split(re.split(r"[|>]", line)[0], comments=True)[1:])
                found += 1
    assert found > 10


def test_every_page_is_on_the_site() -> None:
    """In one of the lists of its front page; and nothing else is."""
    listed = re.findall(r"^([\w/-]+)$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md")}
    assert set(listed) == pages - {"index"} | {"api"}, "docs/index.md lists the pages"


def test_every_public_name_is_in_the_reference() -> None:
    """`__version__` aside; the errors come from their module, all of them."""
    page = "".join(part.read_text(encoding="utf-8") for part in sorted((DOCS / "api").glob("*.rst")))
    errors = {name for name in linear_treeshap.__all__ if name.endswith("Error")}
    missing = {name for name in linear_treeshap.__all__ if f"linear_treeshap.{name}\n" not in page}
    assert missing - errors == {"__version__"}
