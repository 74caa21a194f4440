"""Does a tag name the version that is released? `python -m release.version v1.2.3`.

The version stands in three files; the changelog has its section, which is no longer called unreleased.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

__all__ = ["mistakes"]

ROOT = Path(__file__).parents[1]
PLACES = {
    "pyproject.toml": r'^version = "(.+)"$',
    "CITATION.cff": r"^version: (.+)$",
    "CHANGELOG.md": r"^## \[?(\d[^\]\s]*)",
}


def mistakes(tag: str) -> list[str]:
    """What does not agree with it; nothing, if all is well."""
    out = []
    for name, pattern in PLACES.items():
        found = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
        version = found[1] if found else "no version"
        if f"v{version}" != tag:
            out.append(f"{name} has {version}, and the tag is {tag}")
    return out


if __name__ == "__main__":
    sys.exit("\n".join(mistakes(sys.argv[1])) or None)
