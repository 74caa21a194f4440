"""The readers of model files: JSON, UBJSON and LightGBM's text → columns of numbers, and what is left.

They meet whatever people feed them, so most of this is damage. Run under sanitizers too.
"""

from __future__ import annotations

import json
import locale
import math
import platform
import signal
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from model_files import to_json, to_ubjson

from linear_treeshap import _core
from linear_treeshap.errors import FileFormatError
from linear_treeshap.importers.records import Columns

Columned = dict[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]]
NO_NUMBERS = [math.nan, -math.inf]
FIELDS = ["size", "left", "weight"]
DOCUMENT = {
    "version": [3, 4, 0],
    "model": {
        "trees": [
            {
                "id": 0,
                "left": [1, -1, -1],
                "weight": [0.5, 0.125, -2.5],
                "gain": [1.5, 0.0],
                "param": {"size": "3"},
            },
            {"param": {"size": "1", "deep": {"er": []}}, "left": [], "weight": [math.inf]},
        ],
        "names": ["a", 'b"\\\n\x01é'],
    },
    "attributes": {"trees": "many", "none": None, "yes": True},
}
TEXT = """tree
version=v4
tree_sizes=10 20

Tree=0
left=1 -1 -1
gain=1.5 0
weight=0.5 0.125 -2.5
size=3


Tree=1
size=1
left=
weight=inf

end of trees

parameters:
"""


def read_json(data: bytes) -> tuple[bytes, Columned]:
    return _core.read_json(np.frombuffer(data, np.uint8), "trees", FIELDS)


def read_ubjson(data: bytes) -> tuple[bytes, Columned]:
    return _core.read_ubjson(np.frombuffer(data, np.uint8), "trees", FIELDS)


def read_lightgbm(data: bytes) -> tuple[bytes, Columned]:
    return _core.read_lightgbm(np.frombuffer(data, np.uint8), FIELDS)


Read = Callable[[bytes], tuple[bytes, Columned]]
READERS: dict[str, tuple[Read, bytes]] = {
    "json": (read_json, to_json(DOCUMENT)),
    "ubjson": (read_ubjson, to_ubjson(DOCUMENT)),
    "lightgbm": (read_lightgbm, TEXT.encode()),
}
every_reader = pytest.mark.parametrize(("read", "data"), READERS.values(), ids=READERS.keys())
json_and_ubjson = pytest.mark.parametrize(
    ("read", "write"), [(read_json, to_json), (read_ubjson, to_ubjson)], ids=["json", "ubjson"]
)


@every_reader
def test_a_field_becomes_one_column_over_all_trees(read: Read, data: bytes) -> None:
    """Where a tree does not have it, or has an empty list, it has no numbers there."""
    columns = read(data)[1]
    assert {name: (numbers.tolist(), lengths.tolist()) for name, (numbers, lengths) in columns.items()} == {
        "size": ([3.0, 1.0], [1, 1]),
        "left": ([1.0, -1.0, -1.0], [3, 0]),
        "weight": ([0.5, 0.125, -2.5, math.inf], [3, 1]),
    }


@json_and_ubjson
def test_the_rest_of_a_document_keeps_the_number_of_trees(read: Read, write: Callable[[Any], bytes]) -> None:
    """Only a list is taken for the trees: the attribute of that name stays."""
    rest = read(write(DOCUMENT))[0]
    assert json.loads(rest.decode()) == {**DOCUMENT, "model": {**DOCUMENT["model"], "trees": 2}}  # type: ignore[dict-item]


def test_the_rest_of_lightgbms_text_is_what_stands_around_the_trees() -> None:
    rest = read_lightgbm(TEXT.encode())[0].decode()
    assert rest == TEXT[: TEXT.index("\nTree=0")] + TEXT[TEXT.index("\nend of trees") :]


@pytest.mark.parametrize(
    ("marker", "form", "numbers"),
    [
        ("i", "b", [-128, 127]),
        ("U", "B", [0, 255]),
        ("I", "h", [-(2**15), 2**15 - 1]),
        ("l", "i", [-(2**31), 2**31 - 1]),
        ("L", "q", [-(2**63), 2**63 - 1]),
        ("d", "f", [0.10000000149011612, 3.0]),
        ("D", "d", [0.1, -5e-324]),
    ],
)
def test_every_type_of_ubjsons_numbers_is_read(marker: str, form: str, numbers: list[float]) -> None:
    """Outside the trees to the last digit, integers as integers and floats as floats; inside as doubles."""
    array = f"[${marker}#i\x02".encode() + struct.pack(f">2{form}", *numbers)
    data = b"{i\x06beside" + array + b"i\x05trees[#i\x01{i\x04left" + array + b"}}"
    rest, columns = read_ubjson(data)
    beside = json.loads(rest)["beside"]
    assert beside == numbers
    assert {type(number) for number in beside} == {type(number) for number in numbers}
    assert columns["left"][0].tolist() == [float(number) for number in numbers]


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (read_json, b'{"beside":[NaN,-Infinity],"trees":[{"left":[NaN,-Infinity]}]}'),
        (
            read_ubjson,
            to_ubjson({"beside": [math.nan, -math.inf], "trees": [{"left": [math.nan, -math.inf]}]}),
        ),
    ],
)
def test_numbers_that_are_none_are_kept(read: Read, data: bytes) -> None:
    rest, columns = read(data)
    np.testing.assert_array_equal(json.loads(rest)["beside"], NO_NUMBERS)
    np.testing.assert_array_equal(columns["left"][0], NO_NUMBERS)


@json_and_ubjson
def test_truth_is_a_number(read: Read, write: Callable[[Any], bytes]) -> None:
    """Older releases of XGBoost write where missing values go as true and false."""
    assert read(write({"trees": [{"left": [True, False]}]}))[1]["left"][0].tolist() == [1.0, 0.0]


@every_reader
def test_a_file_cut_short_anywhere_is_refused(read: Read, data: bytes) -> None:
    """At every single byte; LightGBM's text may lose what stands behind its trees."""
    end = data.find(b"\nend of trees") + len(b"\nend of trees")
    for size in range(end if data.startswith(b"tree\n") else len(data)):
        with pytest.raises(ValueError, match=r"\w"):
            read(data[:size])


@every_reader
def test_damage_is_refused_or_gives_other_columns(read: Read, data: bytes) -> None:
    """Never a crash, and never lengths that do not fit the numbers."""
    rng = np.random.default_rng(0)
    content = np.frombuffer(data, np.uint8)
    n_refused = 0
    for attempt in range(1000):
        damaged = content.copy()
        where = rng.integers(len(content), size=rng.integers(1, 4))
        # Random bytes are mostly nonsense; bytes of the file itself get further.
        damaged[where] = (
            rng.integers(256, size=len(where)) if attempt % 2 else rng.choice(content, len(where))
        )
        try:
            columns = read(damaged.tobytes())[1]
        except ValueError:
            n_refused += 1
            continue
        for numbers, lengths in columns.values():
            assert len(lengths) == len(columns["left"][1])
            assert lengths.sum() == len(numbers)
            assert (lengths >= 0).all()
    assert 0 < n_refused < 1000


@pytest.mark.parametrize(
    "text",
    [
        b"", b" ", b"{", b"[1 2]", b"[1,]", b"[,1]", b"[1", b"{1:2}", b'{"a" 1}', b'{"a":}', b'{"a":1,}',
        b'{"a":1', b'{"a', b'"a\\', b'"a\\"', b"[1]]", b"{} {}", b"[1}", b"?", b"\xff", b"\x00",
        b'{"trees":[1]}', b'{"trees":[[1]]}', b'{"trees":[{"left":[1e999]}]}',
        b'{"trees":[{"left":[1.2.3]}]}', b'{"trees":[{"left":["one"]}]}',
        b'{"trees":[{"left":[null]}]}', b'{"trees":[{"left":[0x10]}]}',
    ],
)  # fmt: skip
def test_broken_json_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_json(text)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"?", b"{", b"[", b"[$", b"[$d", b"[$d#", b"[$dU\x00", b"[$Z#U\x05", b"[$[#U\x01", b"S", b"Si",
        b"Si\x02a", b"Si\xffa", b"Sd\x00\x00\x00\x00", b"i", b"D\x00", b"{i\x01a}", b"[]]",
        b"{i\x05trees[$U#U\x01\x01}", b"{i\x05trees[i\x01]}", b"{i\x05trees[[]]}",
        b"{i\x05trees[{i\x04leftSi\x03one}]}",
    ],
)  # fmt: skip
def test_broken_ubjson_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_ubjson(data)


@pytest.mark.parametrize("opening", [b"[$D#L", b"[#L", b"SL", b"{L"])
@pytest.mark.parametrize("count", [-1, 101, 2**31, 2**60, 2**61 + 1, 2**63 - 1])
def test_a_count_beyond_the_data_is_refused_before_memory_is_asked_for(opening: bytes, count: int) -> None:
    with pytest.raises(ValueError, match=f"a count of {count} does not fit"):
        read_ubjson(opening + struct.pack(">q", count) + bytes(100))


@pytest.mark.parametrize(
    ("read", "opening", "closing"),
    [
        (read_json, b"[", b"]"),
        (read_json, b'{"a":', b"}"),
        (read_ubjson, b"[", b"]"),
        (read_ubjson, b"{i\x01a", b"}"),
    ],
)
def test_deep_nesting_is_refused(read: Read, opening: bytes, closing: bytes) -> None:
    """Outside the trees and inside; a hundred levels are far more than any model has."""
    inner = b"i\x01" if read is read_ubjson else b"1"
    read(opening * 100 + inner + closing * 100)
    tree = b"{i\x05trees[{i\x04left" if read is read_ubjson else b'{"trees":[{"left":'
    for start in (b"", tree):
        with pytest.raises(ValueError, match="too deeply"):
            read(start + opening * 1_000_000)


def test_a_broken_number_in_lightgbms_text_is_named() -> None:
    with pytest.raises(ValueError, match="'weight'"):
        read_lightgbm(TEXT.replace("0.125", "0.I25").encode())


def test_columns_are_given_once_and_only_as_long_as_the_trees() -> None:
    columns = Columns(read_json(to_json(DOCUMENT))[1])
    with pytest.raises(FileFormatError, match="'left' has the wrong length"):
        columns.take("left", np.array([3, 1]))
    assert columns.take("weight", columns.lengths("weight")).tolist() == [0.5, 0.125, -2.5, math.inf]
    with pytest.raises(KeyError):
        columns.take("weight", np.array([3, 1]))


@pytest.mark.parametrize("number", [0.5, 2.0**31, -1e300, math.nan, math.inf])
def test_a_number_that_is_no_index_is_refused(number: float) -> None:
    columns = Columns({"left": (np.array([number]), np.array([1], np.int32))})
    with pytest.raises(FileFormatError, match="'left' holds numbers that are no int32"):
        columns.take("left", np.ones(1), np.int32)


def test_only_trees_that_are_there_can_be_taken() -> None:
    columns = Columns(read_json(to_json(DOCUMENT))[1])
    assert columns.head(1).lengths("weight").tolist() == [3]
    with pytest.raises(FileFormatError, match="has 2 trees, but says 3"):
        columns.head(3)


@pytest.fixture
def decimal_comma(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A locale with a decimal comma, made here, because hardly any machine has one installed."""
    # glibc keeps LC_NUMERIC as strings: decimal point, thousands separator, grouping, the first two
    # again as wide characters, and the character set.
    wide = [struct.pack("I", ord(character)) for character in ",."]
    strings = [b",\0", b".\0", b"\x7f\0\0\0", *wide, b"UTF-8\0"]
    offsets = np.cumsum([8 + 4 * len(strings)] + [len(string) for string in strings[:-1]])
    head = struct.pack(f"II{len(strings)}I", 0x20031115 ^ locale.LC_NUMERIC, len(strings), *offsets)
    (tmp_path / "comma").mkdir()
    (tmp_path / "comma" / "LC_NUMERIC").write_bytes(head + b"".join(strings))
    monkeypatch.setenv("LOCPATH", str(tmp_path))
    before = locale.setlocale(locale.LC_NUMERIC)
    locale.setlocale(locale.LC_NUMERIC, "comma")
    yield
    locale.setlocale(locale.LC_NUMERIC, before)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="locales have another format here")
@every_reader
@pytest.mark.usefixtures("decimal_comma")
def test_the_decimal_point_is_a_point_in_every_locale(read: Read, data: bytes) -> None:
    """0.125 must not become 0."""
    assert locale.localeconv()["decimal_point"] == ","
    assert read(data)[1]["weight"][0][1] == 0.125


def long_file(kind: str, n_numbers: int) -> bytes:
    """One tree of so many numbers."""
    if kind == "ubjson":
        return b"{i\x05trees[{i\x04left[" + b"Si\x040.25" * n_numbers + b"]}]}"
    if kind == "json":
        return b'{"trees":[{"left":[0' + b",0.25" * (n_numbers - 1) + b"]}]}"
    return b"tree\n\nTree=0\nleft=" + b"0.25 " * n_numbers + b"\nend of trees\n"


@pytest.mark.parametrize("kind", READERS)
def test_signals_are_heard_while_a_long_file_is_read(kind: str) -> None:
    """A reader that does not listen hears all of them at once, when it is done."""
    heard = 0

    def hear(*_: object) -> None:
        nonlocal heard
        heard += 1

    read = READERS[kind][0]
    before = signal.signal(signal.SIGALRM, hear)
    try:
        n_numbers, lasted = 1 << 20, 0.0
        while lasted < 0.3:  # six times as long as a reader may be deaf, however busy the machine is
            data, n_numbers, heard = long_file(kind, n_numbers), 2 * n_numbers, 0
            signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
            start = time.process_time()
            found = read(data)  # kept: to let go of it would take long enough for another signal
            lasted = time.process_time() - start
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert len(found[1]["left"][0]) == n_numbers // 2
    finally:
        signal.signal(signal.SIGALRM, before)
    assert heard >= 4
