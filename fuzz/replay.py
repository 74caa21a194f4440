"""`python -m fuzz.replay [FORMAT …]`: every seed and every input that was kept is read once more.

That tells what is reached to whoever counts it, such as `coverage run`, and whether something that was mended
stays so. The exit code is 1 if anything is found.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from pathlib import Path

from .campaign import CORPUS
from .checksum import with_checksum
from .files import examine
from .guided import PYTHON
from .tally import Tally
from .worker import input_path

__all__ = ["main", "read"]


def read(data: bytes, kind: str) -> Tally:
    """Judge bytes as a file of this format."""
    path = input_path()
    path.write_bytes(with_checksum(data) if kind == "saved" else data)
    return examine(path, kind)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.replay", description=__doc__)
    parser.add_argument("formats", nargs="*", help=f"some of {', '.join(PYTHON)}; all by default")
    parser.add_argument("--grown", type=Path, default=Path("build/fuzz-corpus"), help="inputs that were kept")
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    is_found = False
    for kind in asked.formats or PYTHON:
        name = kind.replace(" ", "_")
        paths = sorted([*(CORPUS / name).glob("*"), *(asked.grown / name).glob("*")])
        tallies = [read(path.read_bytes(), kind) for path in paths]
        n_explained = sum(f"{kind}: explained" in tally.checks for tally in tallies)
        print(f"{kind:16} {len(paths):>7,} inputs, {n_explained:,} of them explained", flush=True)
        for path, tally in zip(paths, tallies, strict=True):
            for found in tally.findings:
                print(f"FOUND {found.check}: {found.what}\n      {path}")
                is_found = True
    return int(is_found)


if __name__ == "__main__":
    sys.exit(main())
