"""Bytes that were packed: so that a small file from anyone cannot fill the memory.

Trees are numbers, which do not shrink a hundredfold when they are packed; a file that claims so was made to.
"""

from __future__ import annotations

import zipfile
import zlib

from ..errors import FileFormatError

__all__ = ["require_modest", "unpacked"]

_RATIO, _SPARE = 100, 64 << 20


def unpacked(content: bytes) -> bytes:
    """A gzip stream, unpacked; zlib.error or EOFError if it is damaged."""
    reader = zlib.decompressobj(wbits=31)
    found = reader.decompress(content, _most(len(content)))
    if reader.unconsumed_tail:
        raise _bomb(len(content))
    if not reader.eof:
        raise EOFError("it ends too soon")
    return found


def require_modest(archive: zipfile.ZipFile) -> None:
    """Raise FileFormatError if a zip holds far more than its size; zipfile reads no more than it says."""
    entries = archive.infolist()
    n_packed = sum(entry.compress_size for entry in entries)
    if sum(entry.file_size for entry in entries) > _most(n_packed):
        raise _bomb(n_packed)


def _most(n_packed: int) -> int:
    return _SPARE + _RATIO * n_packed


def _bomb(n_packed: int) -> FileFormatError:
    return FileFormatError(f"{n_packed:,} bytes of it unpack to more than {_most(n_packed):,}.")
