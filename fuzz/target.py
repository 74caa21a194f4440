"""`python -m fuzz.target FORMAT …`: a coverage-guided target for one format; the rest is for libFuzzer.

Bytes are read as a file of that format and explained, and judged as the file fuzzer judges them
(`files.examine`). Atheris instruments this package, so that libFuzzer sees what is reached and compared.
"""

from __future__ import annotations

import logging
import sys
import warnings

import atheris

from .campaign import CORPUS
from .checksum import with_checksum
from .worker import input_path

__all__ = ["main"]


def main() -> None:
    kind = sys.argv.pop(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    # Importers are imported when they are needed, which is now.
    with atheris.instrument_imports(include=["linear_treeshap"], enable_loader_override=False):
        from .files import examine

        for path in (CORPUS / kind.replace(" ", "_")).iterdir():
            examine(path, kind)

    def read(data: bytes) -> None:
        path = input_path()
        path.write_bytes(with_checksum(data) if kind == "saved" else data)
        for found in examine(path, kind).findings:
            raise RuntimeError(f"{found.check}: {found.what}")

    atheris.Setup(sys.argv, read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
