"""Named arrays and strings ↔ a safetensors file with a checksum; it knows nothing of trees.

Reading believes nothing: every length is compared with the size of the file before memory is asked for,
and whatever is wrong is a FileFormatError. Writing is all or nothing.
"""

from __future__ import annotations

import json
import os
import re
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ..atomic_write import replacing
from ..errors import FileFormatError, ModelError

__all__ = ["REMEDY", "from_json", "read", "some", "to_json", "write"]

Array = npt.NDArray[Any]
#: Name → safetensors type, or several of which one will do ("U8|U16"), and number of dimensions.
Layout = Mapping[str, tuple[str, int]]

REMEDY = "Copy the file again, or save the model again."

_DTYPES: dict[str, np.dtype[Any]] = {
    "I64": np.dtype("<i8"),
    "U64": np.dtype("<u8"),
    "F64": np.dtype("<f8"),
    "I32": np.dtype("<i4"),
    "F32": np.dtype("<f4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("|u1"),
    "BOOL": np.dtype("|b1"),
}

#: No array is that long. One of no rows takes no bytes, whatever it claims its columns to be.
_MOST = 1 << 48

#: A file begins with the length of its header; safetensors readers refuse headers longer than this.
_LENGTH = struct.Struct("<Q")
_MAX_HEADER_BYTES = 100_000_000

#: The checksum is taken of a file that has these digits in its place.
_NO_CRC = "00000000"
_CRC = re.compile("[0-9a-f]{8}")


def write(path: Path, layout: Layout, arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Write the arrays, the widest types first, with ``metadata`` and a checksum."""
    layout = _as_written(layout, arrays)
    blank = _header(layout, arrays, {**metadata, "crc32": _NO_CRC})
    if len(blank) - _LENGTH.size > _MAX_HEADER_BYTES:
        raise ModelError(
            f"The names and category labels of this model take {len(blank):,} bytes; a file holds up to "
            f"{_MAX_HEADER_BYTES:,}. Use shorter names or fewer labels."
        )
    crc = zlib.crc32(blank)
    for name, (dtype, _) in layout.items():
        crc = zlib.crc32(_bytes_of(arrays[name], dtype), crc)
    with replacing(path) as file:
        file.write(_header(layout, arrays, {**metadata, "crc32": f"{crc:08x}"}))
        for name, (dtype, _) in layout.items():
            file.write(_bytes_of(arrays[name], dtype))


def read(
    path: Path, check_metadata: Callable[[Any], tuple[dict[str, str], Layout]]
) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays, which cannot be written to, and the metadata.

    ``check_metadata`` gets the metadata, whatever it is, before anything else is looked at: a file of
    another kind or version deserves an error that says so. It says which arrays there must be.
    """
    if not path.is_file():  # opening a pipe or a device could wait for ever
        raise FileFormatError("there is no such file.")
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        raw_header, header = _read_header(file, size)
        metadata, layout = check_metadata(header.pop("__metadata__", None))
        if not _CRC.fullmatch(metadata["crc32"]):
            raise FileFormatError(f"its crc32 must be eight hexadecimal digits. {REMEDY}")
        places = _checked_places(header, layout, size - len(raw_header))
        # The quotes make it the one such place: inside the header's strings they are escaped.
        crc = zlib.crc32(raw_header.replace(f'"{metadata["crc32"]}"'.encode(), f'"{_NO_CRC}"'.encode(), 1))
        arrays = {}
        for place in places:
            arrays[place.name], crc = _read_array(file, place, crc)
    if metadata["crc32"] != f"{crc:08x}":
        raise FileFormatError(
            f"the file is damaged: its checksum is {crc:08x}, it should be {metadata['crc32']}. {REMEDY}"
        )
    return arrays, metadata


# -- JSON ---------------------------------------------------------------------------------------------------


def to_json(plain: Any) -> str:
    # ASCII only: \u escapes carry any Python string, even one that is not valid Unicode.
    return json.dumps(plain, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def from_json(text: bytes | str, what: str) -> Any:
    """JSON with no other numbers than small whole ones, and without repeated keys."""

    def refuse(found: str) -> Any:
        raise ValueError(f"the number {found[:20]} is not expected here")

    def whole(digits: str) -> int:
        return int(digits) if len(digits) < 20 else refuse(digits)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key occurs twice")
        return dict(pairs)

    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        return json.loads(
            text, parse_int=whole, parse_float=refuse, parse_constant=refuse, object_pairs_hook=unique
        )
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"its {what} is not the JSON we expect ({error}). {REMEDY}") from error


def some(names: Any) -> str:
    """A few names for a message; a hostile file may have a million."""
    if not isinstance(names, (dict, set)):
        return type(names).__name__
    return ", ".join(sorted(map(repr, names)))[:200] or "none"


# -- writing ------------------------------------------------------------------------------------------------


def _as_written(layout: Layout, arrays: Mapping[str, Array]) -> Layout:
    """Each array with its own type, in an order in which each begins at a multiple of its width."""
    chosen = {}
    for name, (dtypes, n_dimensions) in layout.items():
        fitting = [dtype for dtype in dtypes.split("|") if _DTYPES[dtype] == arrays[name].dtype]
        chosen[name] = (fitting[0] if fitting else dtypes, n_dimensions)
    return dict(sorted(chosen.items(), key=lambda item: -_DTYPES[item[1][0]].itemsize))


def _header(layout: Layout, arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    """Everything before the numbers: the header's length and the header."""
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, (dtype, _) in layout.items():
        start, end = end, end + arrays[name].nbytes
        header[name] = {"dtype": dtype, "shape": arrays[name].shape, "data_offsets": (start, end)}
    text = to_json(header).encode("ascii")
    # The numbers begin at a multiple of eight. The first byte of the file is one too, so it is none of the
    # letters "{", "t" and "C" by which the model files of other libraries are told apart.
    text += b" " * (-len(text) % 8)
    return _LENGTH.pack(len(text)) + text


def _bytes_of(array: Array, dtype: str) -> memoryview:
    """The bytes of an array as they stand in the file, without a copy on most machines."""
    little_endian = array.astype(_DTYPES[dtype], copy=False)
    return little_endian.reshape(-1).view(np.uint8).data


# -- reading ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """Where an array lies in the file, counted from the first byte after the header."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    end: int


def _read_header(file: BinaryIO, size: int) -> tuple[bytes, dict[str, Any]]:
    """The header's bytes, its length included, and what they say."""
    prefix = file.read(_LENGTH.size)
    if len(prefix) < _LENGTH.size:
        raise FileFormatError(f"the file has {size} bytes and is no saved model, or was cut off. {REMEDY}")
    (length,) = _LENGTH.unpack(prefix)
    if length > min(size - _LENGTH.size, _MAX_HEADER_BYTES):
        raise FileFormatError(
            f"its header claims {length:,} bytes, but the file has {size:,}: "
            f"this is no saved model, or it was cut off. {REMEDY}"
        )
    text = file.read(length)
    header = from_json(text, "header")
    if len(text) < length or not isinstance(header, dict):
        raise FileFormatError(f"its header is not a JSON object. {REMEDY}")
    return prefix + text, header


def _checked_places(header: Mapping[str, Any], layout: Layout, data_size: int) -> list[_Place]:
    """The arrays in the order of the file; together they cover it without gap or overlap."""
    if set(header) != set(layout):
        missing, stray = set(layout) - set(header), set(header) - set(layout)
        raise FileFormatError(
            f"it does not hold the arrays of a model; missing: {some(missing)}, not expected: {some(stray)}. "
            f"{REMEDY}"
        )
    places = [_place(name, header[name], *layout[name]) for name in layout]
    places.sort(key=lambda place: (place.start, place.end))
    end = 0
    for place in places:
        if place.start != end:
            raise FileFormatError(f"{place.name} begins at byte {place.start:,} instead of {end:,}. {REMEDY}")
        end = place.end
    if end != data_size:
        raise FileFormatError(
            f"its arrays take {end:,} bytes, but the file has {data_size:,} for them. {REMEDY}"
        )
    return places


def _place(name: str, entry: Any, dtype: str, n_dimensions: int) -> _Place:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise FileFormatError(f"{name} must have dtype, shape and data_offsets. {REMEDY}")
    if not isinstance(entry["dtype"], str) or entry["dtype"] not in dtype.split("|"):
        expected = dtype.replace("|", " or ")
        raise FileFormatError(
            f"{name} must be of type {expected}, got {str(entry['dtype'])[:20]!r}. {REMEDY}"
        )
    dtype = entry["dtype"]
    shape, offsets = entry["shape"], entry["data_offsets"]
    for what, found, length in (("shape", shape, n_dimensions), ("data_offsets", offsets, 2)):
        is_list = isinstance(found, list) and len(found) == length
        if not is_list or not all(type(count) is int and count >= 0 for count in found):
            raise FileFormatError(f"{what} of {name} must be {length} whole number(s). {REMEDY}")
    # Python's whole numbers do not overflow, however large a shape claims to be.
    n_bytes = _DTYPES[dtype].itemsize
    for count in shape:
        n_bytes *= count
    if offsets[1] - offsets[0] != n_bytes:
        raise FileFormatError(
            f"{name} of shape {tuple(shape)} takes {n_bytes:,} bytes, "
            f"but its place in the file has {offsets[1] - offsets[0]:,}. {REMEDY}"
        )
    if max(shape, default=0) >= _MOST:
        raise FileFormatError(f"{name} has the impossible shape {tuple(shape)}. {REMEDY}")
    return _Place(name, _DTYPES[dtype], tuple(shape), *offsets)


def _read_array(file: BinaryIO, place: _Place, crc: int) -> tuple[Array, int]:
    """The array, and the checksum of everything up to its end."""
    is_bool = place.dtype.kind == "b"
    array = np.empty(place.shape, dtype="u1" if is_bool else place.dtype)
    rest = array.reshape(-1).view(np.uint8).data
    while rest:  # the system reads some 2 GB at a time
        n_read = file.readinto(rest)  # type: ignore[attr-defined]
        if not n_read:
            raise FileFormatError(f"the file ends inside {place.name}. {REMEDY}")
        crc = zlib.crc32(rest[:n_read], crc)
        rest = rest[n_read:]
    if is_bool:
        if array.size and array.max() > 1:
            raise FileFormatError(f"{place.name} holds {array.max()}; booleans are 0 or 1. {REMEDY}")
        array = array.astype(np.bool_)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    array.setflags(write=False)
    return array, crc
