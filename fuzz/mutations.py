"""Bytes of a model file → bytes that are wrong: some bits, some numbers, some fields.

Blind mutations cut, copy and overwrite. Others know the format and come further: they edit fields of JSON and
UBJSON, lines of LightGBM's text, and the header of a saved explainer, whose checksum they make right again.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from model_files import to_ubjson

__all__ = ["mutate"]

#: Numbers on which readers go wrong: ends of types, and claims that a file is too small for.
NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 7, 63, 64, 100, 255, 1000, 65_536, 4_194_304, 4_194_305, 20_000_000, 100_000_000),
    *(2**31 - 1, 2**31, -(2**31), 2**32, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**30),
    *(0.5, -0.0, 1e-320, 1e-30, 1e30, 1e308, -1e308, float("nan"), float("inf"), float("-inf")),
)
VALUES: tuple[Any, ...] = (
    *NUMBERS,
    None,
    True,
    False,
    "",
    "x",
    "\ud800",
    "NaN",
    "1e400",
    "-1",
    [],
    {},
    [[]],
    [0],
    {"a": 1},
    "9" * 5000,
)

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def mutate(rng: np.random.Generator, kind: str, data: bytes, other: bytes) -> tuple[bytes, str]:
    """One to four mutations of a file of a format; ``other`` is a second file of it. And what was done."""
    known = FIELDS.get(kind)
    done = []
    for _ in range(int(rng.choice([1, 1, 1, 2, 4]))):
        if known is not None and rng.random() < 0.6:
            try:
                data, what = known(rng, data)
            except _NOTHING_TO_EDIT:
                continue
        else:
            change = BLIND[int(rng.integers(len(BLIND)))]
            data, what = change(rng, data, other), change.__name__[1:]
        done.append(what)
    return data, ", ".join(done) or "nothing"


def _choice(rng: np.random.Generator, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]


# -- blind ---------------------------------------------------------------------------------------------


def _span(rng: np.random.Generator, n: int) -> tuple[int, int]:
    begin = int(rng.integers(n + 1))
    return begin, min(n, begin + int(2 ** rng.uniform(0, 12)))


def _flip_bits(rng: np.random.Generator, data: bytes, other: bytes) -> bytes:
    out = bytearray(data)
    for at in rng.integers(max(1, len(out)), size=int(rng.integers(1, 9))).tolist() if out else ():
        out[at] ^= 1 << int(rng.integers(8))
    return bytes(out)


def _truncate(rng: np.random.Generator, data: bytes, other: bytes) -> bytes:
    return data[: int(rng.integers(len(data) + 1))]


def _splice(rng: np.random.Generator, data: bytes, other: bytes) -> bytes:
    return data[: int(rng.integers(len(data) + 1))] + other[int(rng.integers(len(other) + 1)) :]


def _delete(rng: np.random.Generator, data: bytes, other: bytes) -> bytes:
    begin, end = _span(rng, len(data))
    return data[:begin] + data[end:]


def _repeat(rng: np.random.Generator, data: bytes, other: bytes) -> bytes:
    begin, end = _span(rng, len(data))
    return data[:end] + data[begin:end] * int(rng.integers(1, 4)) + data[end:]


def _overwrite(rng: np.random.Generator, data: bytes, other: bytes) -> bytes:
    """A number in binary, of either order of bytes, at any place or a multiple of four."""
    form = str(_choice(rng, ("<i", "<q", "<f", "<d", ">i", ">q", ">f", ">d", "<b", "<H")))
    number = _choice(rng, NUMBERS)
    try:
        packed = struct.pack(form, number if form[1] in "fd" else int(number))
    except (struct.error, OverflowError, ValueError):
        packed = b"\xff" * struct.calcsize(form)
    at = int(rng.integers(max(1, len(data) - len(packed) + 1)))
    at -= at % 4 * int(rng.integers(2))
    return data[:at] + packed + data[at + len(packed) :]


def _replace_number(rng: np.random.Generator, data: bytes, other: bytes) -> bytes:
    """A number in digits."""
    found = list(_NUMBER.finditer(data))
    if not found:
        return data
    match = _choice(rng, found)
    return data[: match.start()] + repr(_choice(rng, NUMBERS)).encode() + data[match.end() :]


BLIND: tuple[Callable[[np.random.Generator, bytes, bytes], bytes], ...] = (
    _flip_bits,
    _truncate,
    _splice,
    _delete,
    _repeat,
    _overwrite,
    _replace_number,
)


# -- fields --------------------------------------------------------------------------------------------


def _edit(rng: np.random.Generator, document: Any) -> str:
    """Change one thing somewhere inside of a document, which is changed; say what."""
    path: list[Any] = []
    while True:
        keys: list[Any] = list(document) if isinstance(document, dict) else list(range(len(document)))
        key = _choice(rng, keys)
        path.append(key)
        inner = document[key]
        # Large lists are reached sooner or later; their ends are where claims are.
        if isinstance(inner, (dict, list)) and inner and rng.random() < 0.85:
            document = inner
            continue
        break
    where = ".".join(map(str, path))
    action = rng.random()
    if action < 0.15:
        del document[key]
        return f"delete {where}"
    if action < 0.3 and isinstance(document, list):
        document.insert(int(rng.integers(len(document) + 1)), inner)
        return f"repeat {where}"
    value = _choice(rng, VALUES)
    if isinstance(inner, str) and rng.random() < 0.6 and not isinstance(value, (list, dict)):
        value = str(value)  # XGBoost writes its numbers as text
    document[key] = value
    return f"{where} = {str(value)[:40]!r}"


def _json(rng: np.random.Generator, data: bytes) -> tuple[bytes, str]:
    document = json.loads(data)
    what = _edit(rng, document)
    return json.dumps(document).encode(), what


def _lines(rng: np.random.Generator, data: bytes) -> tuple[bytes, str]:
    """LightGBM's text: a name, and numbers or words with blanks between them."""
    lines = data.split(b"\n")
    at = _choice(rng, [i for i, line in enumerate(lines) if b"=" in line or b": " in line])
    name, mark, rest = lines[at].partition(b"=" if b"=" in lines[at] else b": ")
    words = rest.split(b" ")
    action, place = rng.random(), int(rng.integers(len(words)))
    if action < 0.1:
        del lines[at]
        return b"\n".join(lines), f"delete {name.decode(errors='replace')}"
    if action < 0.2:
        del words[place]
    elif action < 0.3:
        words.insert(place, words[place])
    else:
        words[place] = str(_choice(rng, NUMBERS)).encode()
    lines[at] = name + mark + b" ".join(words)
    return b"\n".join(lines), f"{lines[at][:60].decode(errors='replace')}"


def _saved(rng: np.random.Generator, data: bytes) -> tuple[bytes, str]:
    """The header of a saved explainer, texts in it that are JSON again, or its numbers; checksum right."""
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    texts = header["__metadata__"]
    checksum = texts["crc32"]
    inside = [name for name, text in texts.items() if text[:1] in ("{", "[")]
    kind = rng.random()
    if kind < 0.4:
        body, what = _overwrite(rng, body, body), "a number of an array"
    elif kind < 0.8 and inside:
        name = str(_choice(rng, inside))
        plain = json.loads(texts[name])
        what = f"{name}: {_edit(rng, plain)}"
        texts[name] = json.dumps(plain)
    elif kind < 0.85:
        texts["crc32"] = str(_choice(rng, VALUES))
        what = f"crc32 = {texts['crc32'][:40]!r}"
    else:
        what = _edit(rng, header)
    if texts.get("crc32") == checksum:
        texts["crc32"] = "00000000"
        texts["crc32"] = f"{zlib.crc32(body, zlib.crc32(_packed(header))):08x}"
    return _packed(header) + body, what


def _packed(header: Any) -> bytes:
    """The length of a header, and the header."""
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _ubjson(rng: np.random.Generator, data: bytes) -> tuple[bytes, str]:
    """As JSON, written as UBJSON; only of what is still whole."""
    document = _from_ubjson(data)
    what = _edit(rng, document)
    return to_ubjson(document), what


def _from_ubjson(data: bytes) -> Any:
    """What XGBoost writes, and `to_ubjson`; ValueError or struct.error for anything else."""
    forms = {b"i": ">b", b"U": ">B", b"I": ">h", b"l": ">i", b"L": ">q", b"d": ">f", b"D": ">d"}
    at = 0

    def take(n: int) -> bytes:
        nonlocal at
        if n < 0 or at + n > len(data):
            raise ValueError("the end")
        at += n
        return data[at - n : at]

    def number(marker: bytes) -> Any:
        if marker not in forms:
            raise ValueError(f"no number: {marker!r}")
        return struct.unpack(forms[marker], take(struct.calcsize(forms[marker])))[0]

    def text() -> str:
        return take(number(take(1))).decode("utf-8", "replace")

    def value(marker: bytes) -> Any:
        if marker in (b"Z", b"T", b"F"):
            return {b"Z": None, b"T": True, b"F": False}[marker]
        if marker == b"S":
            return text()
        if marker == b"{":
            found = {}
            while data[at : at + 1] != b"}":
                name = text()
                found[name] = value(take(1))
            take(1)
            return found
        return array() if marker == b"[" else number(marker)

    def array() -> list[Any]:
        kind = None
        if data[at : at + 1] == b"$":
            kind = take(2)[1:]
        if data[at : at + 1] == b"#":
            take(1)
            count = number(take(1))
            if kind in forms:
                return list(
                    struct.unpack(f">{count}{forms[kind][1]}", take(count * struct.calcsize(forms[kind])))
                )
            return [value(take(1)) for _ in range(count)]
        items = []
        while data[at : at + 1] != b"]":
            items.append(value(take(1)))
        take(1)
        return items

    return value(take(1))


#: What an edit raises where mutations have left nothing to edit, or a number that the format has no room for.
_NOTHING_TO_EDIT = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    RecursionError,
    OverflowError,
    struct.error,
)

#: Format → an edit that knows it.
FIELDS: dict[str, Callable[[np.random.Generator, bytes], tuple[bytes, str]]] = {
    "dictionary": _json,
    "saved": _saved,
    "xgboost json": _json,
    "xgboost ubjson": _ubjson,
    "lightgbm": _lines,
}
