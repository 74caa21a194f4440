"""Arrow tables → a Parquet, Feather or CSV file, which appears when it is complete and not before."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from ..atomic_write import replacing
from ..streams.arrow import require_arrow

__all__ = ["add_arguments", "check_free", "naming", "writing"]

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".csv": "csv",
}


def add_arguments(parser: argparse.ArgumentParser, *, metavar: str, help: str, table: bool) -> None:
    """Where to write to, and whether a file may be replaced."""
    parser.add_argument(
        "-o", "--out", metavar=metavar, type=_table_path if table else Path, required=True, help=help
    )
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")


def _table_path(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() not in _FORMATS:
        raise argparse.ArgumentTypeError(f"{text!r} must end in {', '.join(_FORMATS)}")
    return path


def check_free(out: Path, force: bool, *sources: Path) -> None:
    """Refuse to replace a file that nobody said may be replaced, and always one that is being read."""
    if out.exists():
        if any(source.exists() and out.samefile(source) for source in sources):
            raise FileExistsError(f"{str(out)!r} is a file to read from; choose another name to write to.")
        if not force:
            raise FileExistsError(f"{str(out)!r} exists already; --force replaces it.")


@contextmanager
def writing(out: Path, schema: Any) -> Iterator[Callable[[Any], None]]:
    """A function that adds the rows of an Arrow table of this schema to the file.

    If the block ends in an exception, there is no file, and one that was there before still is.
    """
    with naming(out), replacing(out) as file:
        writer = _open(_FORMATS[out.suffix.lower()], file, schema)
        try:
            yield writer.write_table
        except BaseException:
            with suppress(Exception):  # that it cannot be finished does not matter: it will be removed
                writer.close()
            raise
        writer.close()


def _open(kind: str, file: Any, schema: Any) -> Any:
    if kind == "parquet":
        # Values hardly ever repeat: a dictionary of them would be built, found too large, and thrown away.
        texts = [field.name for field in schema if not require_arrow().types.is_floating(field.type)]
        return import_module("pyarrow.parquet").ParquetWriter(
            file, schema, compression="zstd", use_dictionary=texts or False
        )
    if kind == "feather":
        ipc = import_module("pyarrow.ipc")
        return ipc.new_file(file, schema, options=ipc.IpcWriteOptions(compression="lz4"))
    csv = import_module("pyarrow.csv")
    return csv.CSVWriter(file, schema, write_options=csv.WriteOptions(quoting_style="needed"))


@contextmanager
def naming(out: Path) -> Iterator[None]:
    """Failures to write name the file that was asked for, not the unfinished one beside it."""
    try:
        yield
    except OSError as error:
        if error.strerror and error.errno:
            raise OSError(f"Cannot write {str(out)!r}: {error.strerror}. Nothing was written.") from error
        raise
