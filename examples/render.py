"""Run the examples, and put what they print into their pages.

A page in docs/ marks the place with the command that fills it. Figures are of the machine that ran it last.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "examples"
BLOCK = re.compile(r"<!-- output of: (?P<command>.+?) -->\n.*?<!-- end -->", re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pages", nargs="*", default=["*"], help="pages to fill (default: all)")
    for pattern in parser.parse_args().pages:
        for page in sorted(PAGES.glob(f"{pattern}.md")):
            page.write_text(BLOCK.sub(filled, page.read_text(encoding="utf-8")), encoding="utf-8")


def filled(block: re.Match[str]) -> str:
    """The block with what its command prints now."""
    command = shlex.split(block["command"])
    assert command[0] == "python", f"not a Python script: {block['command']}"
    done = subprocess.run(
        [sys.executable, *command[1:]], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    return f"<!-- output of: {block['command']} -->\n\n```text\n{done.stdout.rstrip()}\n```\n\n<!-- end -->"


if __name__ == "__main__":
    main()
