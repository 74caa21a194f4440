"""Writers of model files, for tests that need one which no library would write."""

from __future__ import annotations

import json
import struct
from typing import Any


def to_json(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


def to_ubjson(value: Any) -> bytes:
    """As XGBoost writes it: numbers of a list by type and count, names and texts by length."""
    if isinstance(value, dict):
        members = (_text(name) + to_ubjson(item) for name, item in value.items())
        return b"{" + b"".join(members) + b"}"
    if isinstance(value, list):
        for marker, form, kind in (("l", "i", int), ("d", "f", float)):
            if value and all(type(item) is kind for item in value):
                return f"[${marker}#L".encode() + struct.pack(f">q{len(value)}{form}", len(value), *value)
        return b"[#L" + struct.pack(">q", len(value)) + b"".join(map(to_ubjson, value))
    if isinstance(value, str):
        return b"S" + _text(value)
    if value is None or isinstance(value, bool):
        return {None: b"Z", True: b"T", False: b"F"}[value]
    return b"L" + struct.pack(">q", value) if isinstance(value, int) else b"D" + struct.pack(">d", value)


def _text(text: str) -> bytes:
    return b"L" + struct.pack(">q", len(text.encode())) + text.encode()
