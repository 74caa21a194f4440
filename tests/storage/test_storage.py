"""Saved ensembles: what is loaded is what was saved, and whatever else is in a file is refused."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import stat
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn import ensembles
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import random_ensemble

from linear_treeshap import TreeEnsemble, import_model
from linear_treeshap.errors import FileFormatError, LinearTreeShapError, ModelError
from linear_treeshap.model.row_format import Label, RowFormat
from linear_treeshap.storage import tensor_file
from linear_treeshap.storage.saved_explainer import load, save

ROW_FORMAT = RowFormat(
    n_features=4,
    feature_names=("age", "größe", 'a "quoted"\n name', "\ud800 is no Unicode"),
    dtype="float32",
    missing_value=-999.0,
    zero_is_missing=frozenset({2, 0}),
    truncated=frozenset({1}),
    hashes={2: (17, 2**64 - 1)},
    absent_is_missing=True,
    categories={1: ("red", "1", ""), 3: (True, 2, 2.5)},
    frame_labels=(("x", 1, True), ()),
    numbers_are_codes=False,
    takes_more=True,
)


def small_ensemble(**changes: Any) -> TreeEnsemble:
    """A stump and a categorical stump, two outputs, every field different from its default."""
    arrays: dict[str, Any] = {
        "tree_offsets": [0, 3, 6],
        "left": [1, -1, -1, 1, -1, -1],
        "right": [2, -1, -1, 2, -1, -1],
        "feature": [0, -1, -1, 1, -1, -1],
        "threshold": [0.1, 0, 0, 0, 0, 0],
        "cover": [4, 3, 1, 8, 2, 6],
        "value": [[0], [1 / 3], [-3], [0], [5e-324], [1e300]],
        "base_values": [0.1, -0.0],
        "row_format": ROW_FORMAT,
        "missing_left": [True, False, False, True, False, False],
        "category_set": [-1, -1, -1, 0, -1, -1],
        "category_offsets": [0, 2],
        "category_codes": [0, 2],
        "tree_output": [0, 1],
        "output_names": ("no", "yes"),
    }
    return TreeEnsemble(**{**arrays, **changes})


def is_same(a: TreeEnsemble, b: TreeEnsemble) -> bool:
    """Equal to the last bit and to the type of every label."""
    for field in dataclasses.fields(TreeEnsemble):
        x, y = getattr(a, field.name), getattr(b, field.name)
        if isinstance(x, np.ndarray):
            if (x.dtype, x.shape, x.tobytes()) != (y.dtype, y.shape, y.tobytes()):
                return False
        elif repr(x) != repr(y):  # NaN differs from itself, but not in print
            return False
    return True


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


# -- what is loaded is what was saved -----------------------------------------------------------------------


def test_every_field_survives(path: Path) -> None:
    """Of the ensemble and of its row format, none of them at its default."""
    ensemble = small_ensemble()
    save(ensemble, path)
    loaded = load(path)
    assert is_same(loaded, ensemble)
    assert loaded.row_format == ensemble.row_format


@given(ensemble=ensembles())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_ensemble_survives(ensemble: TreeEnsemble, path: Path) -> None:
    """Whatever its size, and on top of the one before."""
    save(ensemble, path)
    assert is_same(load(path), ensemble)


def test_an_ensemble_without_trees_survives(path: Path) -> None:
    """Its arrays are empty, of which safetensors has a notion."""
    per_node = ("left", "right", "feature", "threshold", "cover", "missing_left", "category_set")
    empty = small_ensemble(
        **{name: [] for name in per_node}, tree_offsets=[0], tree_output=[], value=np.zeros((0, 2))
    )
    save(empty, path)
    assert is_same(load(path), empty)


LABELS: list[Label] = [
    *(True, False, 1, 0, 1.0, 0.0, -0.0, "1", "true", "", "int:1"),
    *(2**80, -1, 0.1, 5e-324, math.nan, math.inf, -math.inf),
]


def test_labels_keep_their_type(path: Path) -> None:
    """True, 1, 1.0 and "1" are four categories, though Python calls three of them equal."""
    ensemble = small_ensemble(row_format=RowFormat(n_features=4, categories={2: tuple(LABELS)}))
    save(ensemble, path)
    loaded = load(path).row_format.categories[2]
    assert [(type(label), repr(label)) for label in loaded] == [(type(x), repr(x)) for x in LABELS]


@given(labels=st.lists(st.text(st.characters()) | st.integers() | st.floats() | st.booleans()))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_label_survives(labels: list[Label], path: Path) -> None:
    """Any text, half a surrogate pair included, and any number."""
    ensemble = small_ensemble(row_format=RowFormat(n_features=4, categories={0: tuple(labels)}))
    save(ensemble, path)
    assert repr(load(path).row_format.categories[0]) == repr(tuple(labels))


def test_numpy_labels_become_pythons(path: Path) -> None:
    """Libraries hand out NumPy scalars; they equal what is loaded."""
    labels: Any = (np.int64(3), np.float32(0.1), np.str_("a"), np.bool_(True))
    row_format = RowFormat(n_features=4, categories={0: labels})
    save(small_ensemble(row_format=row_format), path)
    loaded = load(path).row_format.categories[0]
    assert loaded == labels
    assert [type(label) for label in loaded] == [int, float, str, bool]


def test_other_labels_are_refused_and_nothing_is_written(path: Path) -> None:
    """A date has no type in the file."""
    labels: Any = (np.datetime64("2020-01-01"),)
    row_format = RowFormat(n_features=4, categories={0: labels})
    with pytest.raises(
        ModelError, match=r"datetime64 and cannot be saved. Labels must be strings, whole numbers"
    ):
        save(small_ensemble(row_format=row_format), path)
    assert list(path.parent.iterdir()) == []


def test_the_same_ensemble_gives_the_same_bytes(path: Path) -> None:
    """So that files can be compared and cached by their content."""
    save(small_ensemble(), path)
    first = path.read_bytes()
    save(load(path), path)
    assert path.read_bytes() == first


def test_only_ensembles_are_saved(path: Path) -> None:
    with pytest.raises(ModelError, match=r"got dict. Use import_model"):
        save({}, path)  # type: ignore[arg-type]


def test_import_model_reads_saved_files(path: Path) -> None:
    """By path, as it reads the files of other libraries."""
    save(small_ensemble(), path)
    assert is_same(import_model(path), small_ensemble())


# -- the format ---------------------------------------------------------------------------------------------


def test_other_readers_of_safetensors_agree(path: Path) -> None:
    """The safetensors library finds the same arrays, aligned, and the metadata of docs/file-format.md."""
    safetensors = pytest.importorskip("safetensors")
    ensemble = random_ensemble(np.random.default_rng(0), n_trees=3, n_outputs=2)
    ensemble = dataclasses.replace(ensemble, output_names=("no", "yes"))
    save(ensemble, path)
    with safetensors.safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    strings = {"format", "version", "crc32", "row_format", "output_names", "players", "explained"}
    assert set(metadata) == strings
    assert (metadata["format"], metadata["version"]) == ("linear-treeshap", "2")
    assert json.loads(metadata["output_names"]) == ["no", "yes"]
    fields = {field.name for field in dataclasses.fields(TreeEnsemble)}
    extra = {"background", "background_weights", "fingerprint", "fingerprint_predictions"}
    assert set(arrays) == fields - {"row_format", "output_names", "monotone", "lines"} | extra
    assert [len(arrays.pop(name)) for name in extra] == [0] * 4
    for name, array in arrays.items():
        expected = getattr(ensemble, name)
        assert array.dtype == expected.dtype, name
        np.testing.assert_array_equal(array, expected, err_msg=name)


def test_the_file_is_what_its_document_says(path: Path) -> None:
    """Header, padding, checksum and row format, taken apart by hand as a stranger would."""
    save(small_ensemble(), path)
    blob = path.read_bytes()
    (length,) = struct.unpack("<Q", blob[:8])
    header = json.loads(blob[8 : 8 + length])
    assert length % 8 == 0
    crc = header["__metadata__"]["crc32"]
    assert f"{zlib.crc32(blob.replace(crc.encode(), b'00000000', 1)):08x}" == crc
    start, end = header["threshold"]["data_offsets"]
    threshold = np.frombuffer(blob[8 + length + start : 8 + length + end], "<f8")
    assert threshold.tolist() == [0.1, 0, 0, 0, 0, 0]
    assert json.loads(header["__metadata__"]["row_format"]) == {
        "n_features": 4,
        "feature_names": ["age", "größe", 'a "quoted"\n name', "\ud800 is no Unicode"],
        "dtype": "float32",
        "missing_value": "-999.0",
        "zero_is_missing": [0, 2],
        "truncated": [1],
        "absent_is_missing": True,
        "categories": {"1": ["str:red", "str:1", "str:"], "3": ["bool:true", "int:2", "float:2.5"]},
        "frame_labels": [["str:x", "int:1", "bool:true"], []],
        "hashes": {"2": ["17", "18446744073709551615"]},
        "numbers_are_codes": False,
        "takes_more": True,
    }


# -- damage -------------------------------------------------------------------------------------------------


def test_every_flipped_byte_is_found(path: Path) -> None:
    """Header, names and numbers are all under the checksum."""
    save(small_ensemble(), path)
    blob = path.read_bytes()
    with path.open("r+b", buffering=0) as file:
        for position, byte in enumerate(blob):
            flip = 0xFF if position % 9 == 8 else 1 << position % 9  # each single bit in turn, or all
            file.seek(position)
            file.write(bytes([byte ^ flip]))
            with pytest.raises(FileFormatError, match=r"^Cannot read '.*model.safetensors': "):
                load(path)
            file.seek(position)
            file.write(bytes([byte]))
    assert is_same(load(path), small_ensemble())


def test_every_truncation_is_found(path: Path) -> None:
    """At every length, down to nothing."""
    save(small_ensemble(), path)
    for length in reversed(range(path.stat().st_size)):
        os.truncate(path, length)
        with pytest.raises(FileFormatError, match=r"^Cannot read '.*model.safetensors': "):
            load(path)


def test_bytes_after_the_end_are_found(path: Path) -> None:
    """Nothing hides behind the numbers."""
    save(small_ensemble(), path)
    with path.open("ab") as file:
        file.write(b"\0")
    with pytest.raises(FileFormatError, match=r"arrays take \d+ bytes, but the file has \d+ for them"):
        load(path)


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_bytes_are_refused(data: st.DataObject, path: Path) -> None:
    """Noise with a header's length before it, so that some of it is read as a header."""
    text = data.draw(
        st.binary(max_size=200) | st.text(alphabet='{}[]":,0123456789ae', max_size=200).map(str.encode)
    )
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(FileFormatError):
        load(path)


# -- hostility: files whose checksum is right ---------------------------------------------------------------

Header = dict[str, Any]


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("genuine") / "model.safetensors"
    save(small_ensemble(), path)
    return path.read_bytes()


def unpacked(blob: bytes) -> tuple[Header, bytes]:
    """The header, with zeros for the checksum, and the data."""
    (length,) = struct.unpack("<Q", blob[:8])
    header = json.loads(blob[8 : 8 + length])
    header["__metadata__"]["crc32"] = "00000000"
    return header, blob[8 + length :]


def packed(header: Header | str, data: bytes) -> bytes:
    """A file with the right checksum in place of the zeros, whatever else is wrong."""
    text = header if isinstance(header, str) else json.dumps(header)
    body = struct.pack("<Q", len(text)) + text.encode() + data
    return body.replace(b'"00000000"', f'"{zlib.crc32(body):08x}"'.encode(), 1)


def set_entry(name: str, **changes: Any) -> Callable[[Header], None]:
    return lambda header: header[name].update(changes)


def set_row_format(**changes: Any) -> Callable[[Header], None]:
    def change(header: Header) -> None:
        row_format = json.loads(header["__metadata__"]["row_format"])
        header["__metadata__"]["row_format"] = json.dumps({**row_format, **changes})

    return change


def drop(*keys: str) -> Callable[[Header], None]:
    def change(header: Header) -> None:
        for key in keys[:-1]:
            header = header[key]
        del header[keys[-1]]

    return change


HOSTILE: list[tuple[Callable[[Header], Any], str]] = [
    # another kind of file, another version
    (
        drop("__metadata__"),
        r"does not hold a model of linear-treeshap. Pass a file that linear_treeshap.save",
    ),
    (set_entry("__metadata__", format="pt"), r"does not hold a model of linear-treeshap"),
    (
        set_entry("__metadata__", version="5"),
        r"version '5'; this release reads versions 1 to 4. Install the release",
    ),
    (set_entry("__metadata__", version=1.5), r"its header is not the JSON we expect \(the number 1.5"),
    (
        set_entry("__metadata__", crc32="deadbeef"),
        r"its checksum is \w+, it should be deadbeef. Copy the file",
    ),
    (set_entry("__metadata__", crc32="\ud800"), r"its crc32 must be eight hexadecimal digits"),
    (set_entry("__metadata__", crc32="DEADBEEF"), r"its crc32 must be eight hexadecimal digits"),
    (set_entry("__metadata__", crc32=""), r"its crc32 must be eight hexadecimal digits"),
    (set_entry("__metadata__", more="x"), r"__metadata__ must have the strings"),
    (set_entry("__metadata__", output_names=[]), r"__metadata__ must have the strings"),
    # arrays
    (drop("cover"), r"missing: 'cover', not expected: none"),
    (lambda h: h.update(extra=h["cover"]), r"missing: none, not expected: 'extra'"),
    (set_entry("cover", dtype="F32"), r"cover must be of type F64, got 'F32'"),
    (set_entry("cover", dtype=["F64"]), r"cover must be of type F64"),
    (drop("cover", "dtype"), r"cover must have dtype, shape and data_offsets"),
    (lambda h: h.update(cover=[]), r"cover must have dtype, shape and data_offsets"),
    (set_entry("cover", shape=[2**62]), r"cover of shape .* takes 36,893,488,147,419,103,232 bytes"),
    (set_entry("value", shape=[2**32, 2**32]), r"value of shape .* takes 147,573,952,589,676,412,928 bytes"),
    (set_entry("value", shape=[6]), r"shape of value must be 2 whole number"),
    (set_entry("cover", shape=[-6]), r"shape of cover must be 1 whole number"),
    (set_entry("cover", shape=[True]), r"shape of cover must be 1 whole number"),
    (set_entry("cover", shape=[10**30]), r"the number 10000000000000000000 is not expected"),
    (set_entry("cover", data_offsets=[8, 56]), r"\w+ begins at byte"),
    (set_entry("cover", data_offsets=[0, 48]), r"\w+ begins at byte"),
    (
        set_entry("missing_left", data_offsets=[10**12, 10**12 + 6]),
        r"\w+ begins at byte",
    ),
    (set_entry("cover", data_offsets=[48, 0]), r"but its place in the file has -48"),
    (set_entry("background", shape=[0, 1 << 63]), r"background has the impossible shape"),
    # the row format
    (set_entry("__metadata__", row_format="[" * 100_000), r"its row_format is not the JSON we expect"),
    (set_entry("__metadata__", row_format="7"), r"row_format must have .*, got int"),
    (set_row_format(more=1), r"row_format must have"),
    (set_row_format(n_features=10**12), r"n_features must be whole numbers from 0 to 2,147,483,647"),
    (
        set_row_format(n_features=2**31 - 1, feature_names=None),
        r"n_features must be .* 0 to 4,194,304, got 2,1",
    ),
    (set_row_format(n_features="4"), r"n_features must be whole numbers"),
    (set_row_format(n_features=1, feature_names=None), r"Feature \d is out of range: there are 1 features"),
    (set_row_format(feature_names=["a"]), r"1 feature names were given for 4 features"),
    (set_row_format(feature_names="abcd"), r"feature_names must be a list of strings"),
    (set_row_format(feature_names=[1, 2, 3, 4]), r"feature_names must be a list of strings"),
    (set_row_format(dtype="float16"), r"dtype must be 'float32' or 'float64', got 'float16'"),
    (set_row_format(dtype=[]), r"dtype must be 'float32' or 'float64'"),
    (set_row_format(missing_value="x"), r"a number was expected, got 'x'"),
    (set_row_format(missing_value=7), r"a number was expected, got '7'"),
    (set_row_format(zero_is_missing=3), r"zero_is_missing must be whole numbers"),
    (set_row_format(truncated=[-1]), r"truncated must be whole numbers"),
    (set_row_format(absent_is_missing=1), r"absent_is_missing must be true or false, got 1"),
    (set_row_format(takes_more="x"), r"takes_more must be true or false, got x"),
    (set_row_format(categories=[]), r"categories must be a JSON object"),
    (set_row_format(categories={"x": []}), r"a number was expected, got 'x'"),
    (set_row_format(categories={"9": []}), r"Feature 9 is out of range"),
    (set_row_format(categories={"1": [1]}), r"categories must be a list of strings"),
    (set_row_format(categories={"1": ["list:1"]}), r"label 'list:1' is neither str, int, float nor bool"),
    (set_row_format(categories={"1": ["bool:1"]}), r"label 'bool:1' is neither"),
    (set_row_format(categories={"1": ["int:1.5"]}), r"a number was expected, got '1.5'"),
    (set_row_format(categories={"1": ["int:" + "9" * 10**6]}), r"a number was expected, got '999"),
    (set_row_format(categories={"1": ["int:" + "9" * 400]}), r"label 'int:999.* is neither"),
    (set_row_format(hashes={"2": ["18446744073709551616"]}), r"the hash '18446744073709551616' takes more"),
    (set_row_format(hashes={"2": ["-9223372036854775809"]}), r"the hash '-9223372036854775809' takes more"),
    # names
    (set_entry("__metadata__", output_names="[1, 2]"), r"output_names must be a list of strings"),
    (set_entry("__metadata__", output_names='["a"]'), r"1 output names were given for 2 outputs"),
]


def test_a_forged_file_would_load_if_nothing_were_wrong(genuine: bytes, path: Path) -> None:
    """Or else the tests below would prove nothing."""
    path.write_bytes(packed(*unpacked(genuine)))
    assert is_same(load(path), small_ensemble())


@pytest.mark.parametrize(("change", "message"), HOSTILE, ids=[message for _, message in HOSTILE])
def test_hostile_headers_are_refused(
    change: Callable[[Header], Any], message: str, genuine: bytes, path: Path
) -> None:
    """Each by an error that says what is wrong."""
    header, data = unpacked(genuine)
    change(header)
    path.write_bytes(packed(header, data))
    with pytest.raises(FileFormatError, match=message):
        load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "is not the JSON we expect"),
        ('{"a":' * 100_000, "is not the JSON we expect"),
        ('{"cover": 1, "cover": 2}', "a key occurs twice"),
        ("[]", "is not a JSON object"),
        ("", "is not the JSON we expect"),
        ('{"a": NaN}', "the number NaN is not expected here"),
        ("9" * 1_000_000, "the number 99999999999999999999 is not expected here"),
    ],
    ids=lambda text: text[:20],
)
def test_hostile_json_is_refused(text: str, message: str, path: Path) -> None:
    """Nesting that would exhaust the stack, keys that hide each other, numbers that take hours to read."""
    path.write_bytes(packed(text, b""))
    with pytest.raises(FileFormatError, match=message):
        load(path)


def test_text_that_is_not_utf8_is_refused(path: Path) -> None:
    """With the position of the byte."""
    path.write_bytes(struct.pack("<Q", 4) + b'{"\xff"')
    with pytest.raises(FileFormatError, match="can't decode byte 0xff in position 2"):
        load(path)


@pytest.mark.parametrize("length", [1, 2**31, 2**63, 2**64 - 1])
def test_a_header_longer_than_the_file_is_refused(length: int, path: Path) -> None:
    """Before any memory is asked for."""
    path.write_bytes(struct.pack("<Q", length))
    with pytest.raises(FileFormatError, match=f"header claims {length:,} bytes, but the file has 8"):
        load(path)


def test_bytes_that_are_no_booleans_are_refused(genuine: bytes, path: Path) -> None:
    """Two is neither true nor false; NumPy would let it pass."""
    header, data = unpacked(genuine)
    path.write_bytes(packed(header, data[:-1] + b"\2"))
    with pytest.raises(FileFormatError, match="missing_left holds 2; booleans are 0 or 1"):
        load(path)


def test_trees_that_are_none_are_refused(genuine: bytes, path: Path) -> None:
    """By the checks of TreeEnsemble, which name tree and node."""
    header, data = unpacked(genuine)
    start, _ = header["left"]["data_offsets"]
    path.write_bytes(packed(header, data[:start] + struct.pack("<i", 7) + data[start + 4 :]))
    with pytest.raises(FileFormatError, match=r"Cannot read .*: Tree 0, node 0: left child is out of range"):
        load(path)


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_forged_numbers_crash(data: st.DataObject, genuine: bytes, path: Path) -> None:
    """Any bytes under a right checksum are an ensemble or an error, and an ensemble predicts."""
    header, numbers = unpacked(genuine)
    changed = bytearray(numbers)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed) // 4 - 1)) * 4
        size = data.draw(st.sampled_from([1, 4, 8]))
        word = data.draw(st.sampled_from([0, 1, 2, 127, 2**31, 2**31 - 1, 2**63, 2**63 - 1, 2**64 - 1]))
        changed[at : at + size] = struct.pack("<Q", word)[:size]
    path.write_bytes(packed(header, bytes(changed[: len(numbers)])))
    try:
        loaded = load(path)
    except FileFormatError:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        assert loaded.predict(np.zeros((2, 4))).shape == (2, 2)


@pytest.mark.parametrize("what", ["nothing", "a folder", "a pipe"])
def test_what_is_no_file_is_refused(what: str, path: Path) -> None:
    """At once: a pipe without a writer would wait for ever."""
    if what == "a folder":
        path.mkdir()
    elif what == "a pipe":
        if not hasattr(os, "mkfifo"):
            pytest.skip("this system has no named pipes")
        os.mkfifo(path)
    with pytest.raises(FileFormatError, match=r"Cannot read '.*model.safetensors': there is no such file"):
        load(path)


# -- writing ------------------------------------------------------------------------------------------------


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        save(small_ensemble(), tmp_path / "absent" / "model.safetensors")


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    failing: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, for example."""

    def fail(*_: Any) -> None:
        raise OSError("No space left on device")

    save(small_ensemble(), path)
    before = path.read_bytes()
    other = small_ensemble(output_names=("other", "names"))
    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match="No space left"):
        save(other, path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_permissions_are_those_of_the_umask_or_of_the_old_file(path: Path) -> None:
    """As if the file had been opened for writing."""
    umask = os.umask(0o027)
    try:
        save(small_ensemble(), path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        save(small_ensemble(), path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
    finally:
        os.umask(umask)


@pytest.mark.skipif(os.name != "posix", reason="links need no privilege on POSIX only")
def test_a_link_stays_a_link(path: Path) -> None:
    """The file it points to is replaced."""
    link = path.with_name("link")
    link.symlink_to(path)
    save(small_ensemble(), link)
    assert link.is_symlink()
    assert is_same(load(path), small_ensemble())


def test_folders_and_devices_are_not_replaced(path: Path) -> None:
    """Saving to /dev/null as root must not end /dev/null."""
    path.mkdir()
    with pytest.raises(OSError, match="exists and is not a file"):
        save(small_ensemble(), path)
    assert list(path.parent.iterdir()) == [path]


def test_names_beyond_the_limit_of_safetensors_are_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other reader would open such a file. The limit is lowered here: 100 MB of names take seconds."""
    monkeypatch.setattr(tensor_file, "_MAX_HEADER_BYTES", 1000)
    with pytest.raises(ModelError, match=r"names and category labels .* bytes; a file holds up to 1,000"):
        save(small_ensemble(), path)


def test_loading_takes_little_more_memory_than_the_ensemble(path: Path) -> None:
    """The arrays are read into place, once; what comes on top is for the checks of TreeEnsemble."""
    n_trees = 100_000
    stumps = TreeEnsemble(
        tree_offsets=3 * np.arange(n_trees + 1),
        left=np.tile([1, -1, -1], n_trees),
        right=np.tile([2, -1, -1], n_trees),
        feature=np.tile([0, -1, -1], n_trees),
        threshold=np.zeros(3 * n_trees),
        cover=np.tile([2.0, 1.0, 1.0], n_trees),
        value=np.ones((3 * n_trees, 1)),
        base_values=np.zeros(1),
        row_format=RowFormat(n_features=1),
    )
    tracemalloc.start()
    try:
        save(stumps, path)
        saving = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        load(path)
        loading = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    size = path.stat().st_size
    assert size > 10_000_000
    assert saving < 0.1 * size
    assert loading < 2.5 * size


def test_errors_are_catchable_by_their_base() -> None:
    """As all of this library's are."""
    with pytest.raises(LinearTreeShapError):
        load("no such file")
