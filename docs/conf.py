"""How Sphinx makes the site of these pages: `make docs`. Nothing is fetched from a network.

The pages are Markdown that reads well where it lies, and become HTML here; mathematics is written in plain
letters for that reason.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

import linear_treeshap

ROOT = Path(__file__).resolve().parents[1]

project = "linear-treeshap"
author = "the authors of linear-treeshap"
copyright = "the authors of linear-treeshap, MIT licence"
version = release = linear_treeshap.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
exclude_patterns = ["_build"]
html_theme = "furo"
pygments_dark_style = "github-dark"  # furo's own underlines the names of modules as if they were links
html_title = "linear-treeshap"
html_show_sphinx = False
html_static_path: list[str] = []

myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the parameters are described; the types are in the source
autodoc_inherit_docstrings = False
numpydoc_show_class_members = False  # autodoc shows them


def _unlink_files(app: Sphinx, docname: str, source: list[str]) -> None:
    """Files of the repository that are no pages of the site are named, not linked."""
    folder = Path(app.srcdir, docname).parent

    def name(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        is_outside = target.exists() and Path(app.srcdir) not in target.parents
        if not is_outside:
            return link[0]
        path = str(target.relative_to(ROOT))
        return f"`{path}`" if link[1] == path else f"{link[1]} (`{path}`)"

    source[0] = re.sub(r"\[([^\]]+)\]\((\.\./[^)#\s]+)\)", name, source[0])


def setup(app: Sphinx) -> None:
    app.connect("source-read", _unlink_files)
