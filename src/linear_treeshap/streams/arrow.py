"""Whatever speaks Arrow → a schema and tables of some rows each, in order, one after another.

Categories come as they are; text is one of Arrow's two plain kinds, whatever the sender prefers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import chain
from typing import Any

from ..errors import InputError, MissingDependencyError, how_to_install

__all__ = ["is_text", "plain_texts", "plain_type", "require_arrow", "tables_of"]


def require_arrow() -> Any:
    """pyarrow, or an error that says how to get it."""
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise MissingDependencyError(
            "Data files and record batches are read and written by pyarrow, which is not installed. "
            f"{how_to_install('cli')}"
        ) from error


def tables_of(batches: Any) -> tuple[Any, Iterator[Any]]:
    """The schema, and the tables as they come; of an iterable, its first table says what the schema is."""
    arrow = require_arrow()
    if hasattr(batches, "__arrow_c_stream__"):
        # Through the C interface, a reader of Python's own would forget the type of an exception.
        is_reader = isinstance(batches, arrow.RecordBatchReader)
        reader = batches if is_reader else arrow.RecordBatchReader.from_stream(batches)
        tables = (plain_texts(arrow.Table.from_batches([batch])) for batch in reader)
        return plain_texts(reader.schema.empty_table()).schema, tables
    if not isinstance(batches, Iterable):
        raise InputError(
            f"batches must speak Arrow (__arrow_c_stream__, as pyarrow, polars and DuckDB do) or be an "
            f"iterable of such tables, got {type(batches).__name__}."
        )
    tables = (plain_texts(_table(batch)) for batch in batches)
    first = next(tables, None)
    if first is None:
        raise InputError(
            "There are no batches, so nothing says which columns there are. Pass a reader with a schema."
        )
    return first.schema, chain([first], tables)


def _table(batch: Any) -> Any:
    """One item of an iterable: a record batch, or a frame of a library that speaks Arrow."""
    if not hasattr(batch, "__arrow_c_stream__") and not hasattr(batch, "__arrow_c_array__"):
        raise InputError(
            f"A batch must speak Arrow, as those of pyarrow and polars do; got {type(batch).__name__}."
        )
    return require_arrow().table(batch)


def plain_texts(table: Any) -> Any:
    """The same table with every view of text as text: neither casts nor files know views everywhere."""
    arrow = require_arrow()
    for position, field in enumerate(table.schema):
        if "string_view" in str(field.type):
            kind = arrow.large_string()
            if arrow.types.is_dictionary(field.type):
                kind = arrow.dictionary(field.type.index_type, kind)
            table = table.set_column(position, field.name, table.column(position).cast(kind))
    return table


def plain_type(kind: Any) -> Any:
    """The type of what a dictionary holds; any other type is itself."""
    return kind.value_type if require_arrow().types.is_dictionary(kind) else kind


def is_text(kind: Any) -> bool:
    types = require_arrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind))
