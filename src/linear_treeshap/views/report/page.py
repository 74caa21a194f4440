"""The page around its content: one HTML file that needs no other, and may load none.

Text of the user's enters as JSON in a block that is not a script, or escaped. The page's policy allows
the two scripts below by their hashes and no network, so that a name that looks like code stays a name.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any

from ...errors import MissingDependencyError, how_to_install

__all__ = ["render"]

_ASSETS = Path(__file__).parent / "assets"

#: In this order they are one program.
_SCRIPTS = ("content.js", "elements.js", "pictures.js", "swarm.js", "dependence.js", "rows.js", "page.js")


def render(title: str, content: Mapping[str, Any]) -> str:
    """The whole page."""
    library, script = _inert(_library()), _inert(_program())
    return Template(_file("template.html")).substitute(
        title=escape(title),
        policy=_policy(library, script),
        style=_file("style.css"),
        content=_json(content),
        library=library,
        script=script,
    )


def _file(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _program() -> str:
    """Our own scripts, closed off from the library's."""
    return '(() => {\n"use strict";\n' + "\n".join(map(_file, _SCRIPTS)) + "})();"


def _library() -> str:
    """The plotting library's JavaScript, from the Python package that carries it."""
    # Looked up rather than imported: the files are all we need, and importing bokeh takes half a second.
    found = find_spec("bokeh")
    if found is None or found.origin is None:
        raise MissingDependencyError(
            f"The report needs bokeh, which is not installed. {how_to_install('report')}"
        )
    folder = Path(found.origin).parent / "server" / "static" / "js"
    return "\n".join(
        (folder / name).read_text(encoding="utf-8") for name in ("bokeh.min.js", "bokeh-api.min.js")
    )


def _inert(script: str) -> str:
    """The same program, with nothing in it that a browser takes for the end of a script."""
    return script.replace("\r\n", "\n").replace("</script", r"<\/script").replace("<!--", r"<\!--")


def _json(content: Mapping[str, Any]) -> str:
    """JSON in ASCII without a "<": it cannot end the block it stands in, whatever the names are."""
    return json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":")).replace(
        "<", r"\u003c"
    )


def _policy(*scripts: str) -> str:
    hashes = (b64encode(sha256(script.encode("utf-8")).digest()).decode("ascii") for script in scripts)
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        f"base-uri 'none'; form-action 'none'"
    )
