"""Packed bytes that claim too much are refused before they are unpacked."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib

import pytest

from linear_treeshap.errors import FileFormatError
from linear_treeshap.importers.packed import require_modest, unpacked

#: Zeros shrink a thousandfold.
BOMB = bytes(200 << 20)


def test_a_stream_is_unpacked() -> None:
    content = bytes(range(256)) * 100
    assert unpacked(gzip.compress(content)) == content


def test_a_stream_that_claims_too_much_is_refused() -> None:
    with pytest.raises(FileFormatError, match=r"bytes of it unpack to more than \d\d,\d\d\d,\d\d\d\."):
        unpacked(gzip.compress(BOMB))


def test_a_damaged_stream_is_no_other_error() -> None:
    packed = gzip.compress(bytes(range(256)))
    with pytest.raises(EOFError):
        unpacked(packed[:-9])
    with pytest.raises(zlib.error):
        unpacked(b"no gzip")


def test_a_zip_that_claims_too_much_is_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("modest", bytes(1000))
        require_modest(archive)
        archive.writestr("bomb", BOMB)
        with pytest.raises(FileFormatError, match="unpack to more than"):
            require_modest(archive)
