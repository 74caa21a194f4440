"""Models of several files as one string of bytes, which fuzzers change, and back to what is read.

A line before each file has its name: bytes that come or go move no others out of place, and no checksum has
to be right. A MOJO of H2O is zipped again; a model of YDF is a directory, and so is one of Spark, whose
tables are lines of JSON here: Parquet is pyarrow's to read.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["KINDS", "joined", "separated", "unbundled"]

#: Formats whose models are several files.
KINDS = ("h2o", "ydf", "spark")

_NAME_LINE = re.compile(rb"\n?==> ([^\n]*) <==\n")
#: What may be a file in a directory of ours, and nowhere else.
_PLAIN = re.compile(r"(?:[\w-][\w.-]*/)?[\w-][\w.-]*", re.ASCII)


def joined(files: Mapping[str, bytes]) -> bytes:
    return b"\n".join(b"==> " + name.encode() + b" <==\n" + content for name, content in files.items())


def separated(data: bytes) -> dict[str, bytes]:
    """The files of a string of bytes, of which what comes before the first name is none."""
    _, *parts = _NAME_LINE.split(data)
    names = [name.decode(errors="replace") for name in parts[::2]]
    return dict(zip(names, parts[1::2], strict=True))


def unbundled(path: Path, kind: str, target: Path) -> Path | None:
    """The zip or the directory that a file stands for, at ``target``; None if there is none any more."""
    data = path.read_bytes()
    if kind == "h2o":
        target.write_bytes(data if data.startswith(b"PK") else _zipped(separated(data)))
        return target
    shutil.rmtree(target, ignore_errors=True)
    for name, content in separated(data).items():
        file = target / name
        if not _PLAIN.fullmatch(name) or file.exists() or file.parent.is_file():
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        if kind == "ydf" or name.startswith("metadata/"):
            file.write_bytes(content)
        elif not _write_table(content, file):
            return None
    return target if target.is_dir() else None


def _zipped(files: Mapping[str, bytes]) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return memory.getvalue()


def _write_table(lines: bytes, path: Path) -> bool:
    """Lines of JSON as a table of Parquet, if they still are one."""
    import pyarrow
    import pyarrow.parquet

    try:
        rows: list[Any] = [json.loads(line) for line in lines.splitlines()]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError, pyarrow.ArrowException):
        return False
    return True
