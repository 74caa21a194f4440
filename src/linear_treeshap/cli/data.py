"""A table in a file → Arrow tables of some rows each, read as they are needed.

Parquet and Feather are known by their first bytes, CSV by its name. Memory is that of a batch, whatever the
size of the file and of its row groups.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import FileFormatError
from ..streams.arrow import require_arrow

__all__ = ["NULLS", "DataFile", "open_data"]

#: Text that stands for a missing value in a CSV file: what pandas takes for one.
NULLS = ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>"]
NULLS += ["N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"]

#: CSV is parsed in pieces of this many bytes, or of this many lines as long as the first if that is more: a
#: line must fit into a piece. Arrow reads some thirty pieces ahead.
_CSV_BLOCK, _CSV_LINES = 1 << 20, 64
#: A first line that is longer than this is no header.
_MAX_LINE = 1 << 24
#: The end of a file's name → what compressed it, as Arrow and Python's standard library call it.
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2"}
#: Parquet is read in pieces of this size, not in whole row groups, which can be as large as the file.
_PARQUET_BUFFER = 1 << 20


class DataFile(ABC):
    """A table in a file: its Arrow schema and its batches."""

    schema: Any
    #: Does the file itself say which columns are numbers, and which cells are missing?
    has_types = True

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    def typed(self, columns: Sequence[str], texts: Collection[str], numbers: Collection[str]) -> Any:
        """The schema of these columns as `batches` gives them."""
        return require_arrow().schema([self.schema.field(name) for name in columns])

    def batches(
        self, columns: Sequence[str], n_rows: int, *, texts: Collection[str], numbers: Collection[str]
    ) -> Iterator[tuple[Any, float]]:
        """Arrow tables of at most ``n_rows`` rows of ``columns``, and the share of the file read so far.

        A CSV file has no types of its own: ``texts`` come as they are written, what is no number in a column
        of ``numbers`` is an error, and the rest is guessed.
        """
        arrow = require_arrow()
        parts = self._parts(columns, n_rows, texts, numbers)
        pending, share = None, 0.0  # parts that do not make a batch yet
        while True:
            before = share
            try:
                batch, share = next(parts)
            except StopIteration:
                break
            except (arrow.ArrowException, OSError) as error:
                raise FileFormatError(f"Cannot read {str(self.path)!r}: {error}") from error
            part = arrow.Table.from_batches([batch]).select(list(columns))
            pending = part if pending is None else arrow.concat_tables([pending, part])
            while pending.num_rows >= n_rows:
                table, pending = pending.slice(0, n_rows), pending.slice(n_rows)
                left = min(pending.num_rows / part.num_rows, 1.0)
                yield _joined(table), share - (share - before) * left
        if pending is not None and pending.num_rows:
            yield _joined(pending), 1.0

    @abstractmethod
    def _parts(
        self, columns: Sequence[str], n_rows: int, texts: Collection[str], numbers: Collection[str]
    ) -> Iterator[tuple[Any, float]]:
        """Record batches with these columns at least, and the share of the file read when each is done."""


def _joined(table: Any) -> Any:
    """A table of one piece, in which a category has one code."""
    return table.unify_dictionaries().combine_chunks()


def open_data(path: Path) -> DataFile:
    """Open a file by what it is; a FileFormatError says why that is not possible."""
    arrow = require_arrow()
    if str(path) == "-" or path.is_fifo() or path.is_char_device() or path.is_socket():
        raise FileFormatError(
            f"{str(path)!r} is not a file but a stream, and rows are read from their place in a file, CSV "
            f"twice. Save the rows to a file first."
        )
    if not path.is_file():
        raise FileFormatError(f"There is no file {str(path)!r}.")
    with path.open("rb") as file:
        head = file.read(8)
    kind = _kind(path, head)
    try:
        data = kind(path)
        _ = data.names  # which are decoded here
        return data
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise FileFormatError(f"Cannot read {str(path)!r}: {error}") from error


def _kind(path: Path, head: bytes) -> type[DataFile]:
    if head.startswith(b"PAR1"):
        return _Parquet
    if head.startswith(b"ARROW1"):
        return _Feather
    suffixes = {suffix.lower() for suffix in path.suffixes}
    if suffixes & {".csv", ".tsv", ".txt"}:
        return _Csv
    said = "is empty" if not head else f"begins with {head!r}"
    raise FileFormatError(
        f"{str(path)!r} {said}, which is neither Parquet nor Feather, and its name is not that of a CSV file "
        f"(.csv, .tsv, .txt). Pass rows in one of these formats."
    )


class _Parquet(DataFile):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        parquet = import_module("pyarrow.parquet")
        self._file = parquet.ParquetFile(path, buffer_size=_PARQUET_BUFFER, pre_buffer=False)
        self.schema = self._file.schema_arrow

    def _parts(
        self, columns: Sequence[str], n_rows: int, texts: Collection[str], numbers: Collection[str]
    ) -> Iterator[tuple[Any, float]]:
        n_read = 0
        for batch in self._file.iter_batches(batch_size=n_rows, columns=list(columns)):
            n_read += batch.num_rows
            yield batch, n_read / max(self._file.metadata.num_rows, 1)


class _Feather(DataFile):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        arrow, ipc = require_arrow(), import_module("pyarrow.ipc")
        self._file = ipc.open_file(arrow.memory_map(str(path)))
        self.schema = self._file.schema

    def _parts(
        self, columns: Sequence[str], n_rows: int, texts: Collection[str], numbers: Collection[str]
    ) -> Iterator[tuple[Any, float]]:
        n_batches = self._file.num_record_batches
        for index in range(n_batches):
            yield self._file.get_batch(index), (index + 1) / n_batches


class _Csv(DataFile):
    """Text: types are guessed from the first piece, and all numbers are read as float64."""

    has_types = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._size = path.stat().st_size
        line = _first_line(path)
        # Of comma, semicolon, tab and bar, the one that is most frequent in the first line.
        self._delimiter = max(",;\t|", key=line.decode("utf-8", errors="replace").count)
        self._block = max(_CSV_BLOCK, _CSV_LINES * len(line))
        with path.open("rb") as file, self._reader(file) as reader:
            self.schema = reader.schema

    def _parts(
        self, columns: Sequence[str], n_rows: int, texts: Collection[str], numbers: Collection[str]
    ) -> Iterator[tuple[Any, float]]:
        schema = self.typed(columns, texts, numbers)
        types = dict(zip(schema.names, schema.types, strict=True))
        with self.path.open("rb") as file, self._reader(file, types) as reader:
            for batch in reader:
                yield batch, min(file.tell() / max(self._size, 1), 1.0)

    def typed(self, columns: Sequence[str], texts: Collection[str], numbers: Collection[str]) -> Any:
        arrow = require_arrow()
        types = {}
        for name in columns:
            guessed = self.schema.field(name).type
            is_number = arrow.types.is_integer(guessed) or arrow.types.is_null(guessed)
            if name in texts:
                types[name] = arrow.string()
            elif is_number or (name in numbers and not arrow.types.is_boolean(guessed)):
                types[name] = arrow.float64()
            else:
                types[name] = guessed
        return arrow.schema(list(types.items()))

    def _reader(self, file: BinaryIO, types: dict[str, Any] | None = None) -> Any:
        arrow, csv = require_arrow(), import_module("pyarrow.csv")
        return csv.open_csv(
            arrow.input_stream(file, compression=_COMPRESSIONS.get(self.path.suffix.lower())),
            read_options=csv.ReadOptions(block_size=self._block),
            parse_options=csv.ParseOptions(delimiter=self._delimiter),
            convert_options=csv.ConvertOptions(
                column_types=types,
                include_columns=None if types is None else list(types),
                null_values=NULLS,
                strings_can_be_null=False,
            ),
        )


def _first_line(path: Path) -> bytes:
    module = _COMPRESSIONS.get(path.suffix.lower())
    with import_module(module).open(path) if module else path.open("rb") as file:
        line: bytes = file.readline(_MAX_LINE)
    return line
