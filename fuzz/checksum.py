"""A saved explainer that was changed → the same with its right length and checksum.

Without that nothing that is changed would come further; the file fuzzer damages these two.
"""

from __future__ import annotations

import re
import struct
import zlib

__all__ = ["with_checksum"]


def with_checksum(data: bytes) -> bytes:
    """The header ends where the last of its arrays does; of a file without such an end nothing is kept."""
    end = data.rfind(b"]}}") + len(b"]}}")
    while data[end : end + 1] == b" ":
        end += 1
    header, body = data[8:end], data[end:]
    blank = re.sub(rb'"crc32":"[^"]*"', b'"crc32":"00000000"', header, count=1)
    crc = zlib.crc32(body, zlib.crc32(struct.pack("<Q", len(blank)) + blank))
    right = blank.replace(b'"crc32":"00000000"', b'"crc32":"%08x"' % crc, 1)
    return struct.pack("<Q", len(right)) + right + body
