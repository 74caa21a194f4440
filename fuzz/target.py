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

__all__ = ["main"]


def main() -> None:
    kind = sys.argv.pop(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    # Importers are imported when they are needed, which is now.
    with atheris.instrument_imports(include=["linear_treeshap"], enable_loader_override=False):
        from .replay import read

        for path in (CORPUS / kind.replace(" ", "_")).iterdir():
            read(path.read_bytes(), kind)

    def judge(data: bytes) -> None:
        for found in read(data, kind).findings:
            raise RuntimeError(f"{found.check}: {found.what}")

    atheris.Setup(sys.argv, judge)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
