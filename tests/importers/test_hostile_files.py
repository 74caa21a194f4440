"""Small files that claim much: they cost memory in proportion to the file, or are refused."""

from __future__ import annotations

import gzip
import json
import re
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from linear_treeshap import RowFormat, TreeEnsemble, TreeExplainer, import_model
from linear_treeshap.errors import FileFormatError, ModelError
from linear_treeshap.importers import protobuf

#: Far more than reading these files takes (some 100 KB), far less than what they claim (gigabytes).
FEW_BYTES = 20_000_000
#: Of a model with four million columns: a number or two per column, but no name (some 80 bytes each).
BYTES_PER_COLUMN = 30


def peak(call: Callable[[], Any]) -> int:
    """Bytes that Python and NumPy held at most during a call."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refused(path: Path, *, match: str) -> None:
    """Reading the file is an error of ours, and takes little memory."""

    def read() -> None:
        with pytest.raises((FileFormatError, ModelError), match=match):
            TreeExplainer(path)

    read()  # once before, so that imports are not counted
    assert peak(read) < FEW_BYTES


def stump(n_features: int) -> TreeEnsemble:
    return TreeEnsemble(
        tree_offsets=np.array([0, 3]),
        left=np.array([1, -1, -1], dtype=np.int32),
        right=np.array([2, -1, -1], dtype=np.int32),
        feature=np.array([n_features - 1, -1, -1], dtype=np.int32),
        threshold=np.array([0.5, 0, 0]),
        cover=np.array([4.0, 3, 1]),
        value=np.array([[0.0], [1], [3]]),
        base_values=np.array([10.0]),
        row_format=RowFormat(n_features),
    )


def _field(number: int, content: bytes | int) -> bytes:
    """A field of Protocol Buffers."""
    if isinstance(content, bytes):
        return _varint(number << 3 | 2) + _varint(len(content)) + content
    return _varint(number << 3) + _varint(content)


def _varint(number: int) -> bytes:
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + _varint(rest) if rest else bytes([low])


# -- outputs ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def xgboost_model() -> Any:
    """The JSON of a small model of three classes, as a dictionary."""
    xgboost = pytest.importorskip("xgboost")
    X = np.arange(60.0).reshape(30, 2)
    data = xgboost.DMatrix(X, np.arange(30) % 3)
    options = {"objective": "multi:softprob", "num_class": 3, "max_depth": 2}
    return json.loads(xgboost.train(options, data, 2).save_raw("json"))


@pytest.mark.parametrize("claimed", [70_000, 100_000_000, 2_000_000_000, 2**62])
@pytest.mark.parametrize("name", ["num_class", "num_target"])
def test_xgboost_s_outputs_are_not_believed(
    name: str, claimed: int, xgboost_model: Any, tmp_path: Path
) -> None:
    """Each output has a tree or a base score, or there are not very many of them."""
    document = json.loads(json.dumps(xgboost_model))
    document["learner"]["learner_model_param"][name] = str(claimed)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    refused(path, match=rf"{claimed:,} outputs")


def test_xgboost_s_vectors_are_not_believed(xgboost_model: Any, tmp_path: Path) -> None:
    """Leaves of a thousand million numbers, none of which is there."""
    document = json.loads(json.dumps(xgboost_model))
    for tree in document["learner"]["gradient_booster"]["model"]["trees"]:
        tree["tree_param"]["size_leaf_vector"] = "1000000000"
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    refused(path, match="leaf_weights")


def test_xgboost_s_labels_do_not_share_their_letters(xgboost_model: Any, tmp_path: Path) -> None:
    """A thousand labels that are all of the text."""
    path = tmp_path / "model.json"
    document = json.loads(json.dumps(xgboost_model))
    model = document["learner"]["gradient_booster"]["model"]
    model["cats"] = {"enc": [{"values": [97, 98, 99], "offsets": [0, 1, 3]}]}
    path.write_text(json.dumps(document))
    assert import_model(path).row_format.categories == {0: ("a", "bc")}
    model["cats"] = {"enc": [{"values": [97] * 30_000, "offsets": [0, 30_000] * 1000}]}
    path.write_text(json.dumps(document))
    refused(path, match="lie on others")


def test_untrained_models_of_many_outputs_are_read() -> None:
    """XGBoost and LightGBM know the number of classes before there is a tree of any."""
    xgboost = pytest.importorskip("xgboost")
    data = xgboost.DMatrix(np.zeros((10, 2)), np.arange(10))
    booster = xgboost.train({"objective": "multi:softprob", "num_class": 1000}, data, 0)
    assert import_model(booster).n_outputs == 1000


@pytest.fixture(scope="module")
def lightgbm_text() -> str:
    lightgbm = pytest.importorskip("lightgbm")
    X = np.arange(120.0).reshape(60, 2)
    options = {"objective": "multiclass", "num_class": 3, "min_data_in_leaf": 1, "verbose": -1}
    return str(lightgbm.train(options, lightgbm.Dataset(X, np.arange(60) % 3), 2).model_to_string())


@pytest.mark.parametrize("claimed", [0, -3, 70_000, 2_147_483_648, 2**62])
def test_lightgbm_s_outputs_are_not_believed(claimed: int, lightgbm_text: str, tmp_path: Path) -> None:
    """Each output has a tree in each round."""
    path = tmp_path / "model.txt"
    path.write_text(lightgbm_text.replace("num_tree_per_iteration=3", f"num_tree_per_iteration={claimed}"))
    refused(path, match=rf"{claimed:,} outputs")


def test_lightgbm_s_linear_leaves_are_not_believed(tmp_path: Path) -> None:
    """A leaf that claims to read millions of features, and names one."""
    lightgbm = pytest.importorskip("lightgbm")
    X = np.arange(120.0).reshape(60, 2)
    options = {"objective": "regression", "linear_tree": True, "min_data_in_leaf": 5, "verbose": -1}
    text = lightgbm.train(options, lightgbm.Dataset(X, np.sin(X[:, 0])), 1).model_to_string()
    claims = re.sub(r"num_features=\d+", "num_features=20000000", text)
    assert claims != text
    path = tmp_path / "model.txt"
    path.write_text(claims)
    refused(path, match="'leaf_features' has the wrong length")


def test_lightgbm_s_labels_may_not_nest_for_ever(lightgbm_text: str, tmp_path: Path) -> None:
    """Python's reader of JSON gives up by an exception of its own."""
    path = tmp_path / "model.txt"
    text = lightgbm_text.replace("pandas_categorical:null", "pandas_categorical:" + "[" * 100_000)
    assert len(text) > 100_000
    path.write_text(text)
    refused(path, match="damaged or incomplete")


@pytest.fixture(scope="module")
def catboost_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    catboost = pytest.importorskip("catboost")
    X = np.arange(60.0).reshape(30, 2)
    model = catboost.CatBoostRegressor(iterations=2, depth=2, verbose=0, allow_writing_files=False)
    path = tmp_path_factory.mktemp("catboost") / "model.cbm"
    pandas = pytest.importorskip("pandas")
    model.fit(pandas.DataFrame(X, columns=["first", "second"]), X[:, 0]).save_model(str(path))
    return path.read_bytes()


def test_catboost_s_columns_are_not_believed(catboost_bytes: bytes, tmp_path: Path) -> None:
    """It lists every column but those of texts: names are not made up for millions in between."""
    path = tmp_path / "model.cbm"
    path.write_bytes(catboost_bytes)
    assert import_model(path).feature_names == ("first", "second")
    claimed = 4_000_000
    # The second feature's place among all columns is 1, and so is its place among the numeric ones.
    forged = bytearray(catboost_bytes)
    places = [at for at in range(8, len(forged) - 3) if forged[at : at + 4] == b"\1\0\0\0"]
    for at in places:
        forged[at : at + 4] = struct.pack("<i", claimed)
        path.write_bytes(forged)
        try:
            import_model(path)
        except FileFormatError as error:
            if f"{claimed + 1:,} columns" in str(error):
                refused(path, match=f"{claimed + 1:,} columns, but lists 2")
                break
        except ModelError:
            pass
        forged[at : at + 4] = b"\1\0\0\0"
    else:
        pytest.fail(f"none of the {len(places)} ones in the file was the column's number")


def test_catboost_s_outputs_are_not_believed() -> None:
    """A model without trees has one bias for all of its outputs."""
    from linear_treeshap.importers.catboost_file import CatBoostFile

    # The smallest file there is: a root table whose second field is a table whose first field is a number.
    body = bytearray(40)
    struct.pack_into("<I", body, 0, 12)  # root table at 12
    struct.pack_into("<HHHH", body, 4, 8, 8, 0, 4)  # its vtable: fields 0 (absent) and 1 (at 4)
    struct.pack_into("<iI", body, 12, 8, 12)  # root: vtable 8 back; field 1 → table at 16 + 12
    struct.pack_into("<HHH", body, 20, 6, 8, 4)  # vtable of the trees: field 0 at 4
    struct.pack_into("<ii", body, 28, 8, 2_000_000_000)  # trees: vtable 8 back; the number of outputs
    content = b"CBM1" + struct.pack("<I", len(body)) + bytes(body)

    def read() -> None:
        with pytest.raises(FileFormatError, match="2,000,000,000 outputs"):
            CatBoostFile(content).ensemble()

    read()
    assert peak(read) < FEW_BYTES


# -- columns ------------------------------------------------------------------------------------------------


def test_millions_of_columns_have_names_only_when_asked(tmp_path: Path) -> None:
    """Wide sparse data is fine, so a small file may claim it: but then it must cost little."""
    n_features = 4_000_000
    path = tmp_path / "wide.lts"
    explainer = TreeExplainer(stump(n_features))
    explainer.save(path)
    assert path.stat().st_size < 4_000
    assert peak(lambda: TreeExplainer.load(path)) < BYTES_PER_COLUMN * n_features
    assert peak(lambda: repr(explainer.players)) < BYTES_PER_COLUMN * n_features
    assert explainer.players.names[n_features - 1] == f"Feature {n_features - 1}"


def test_a_million_sparse_columns_are_explained() -> None:
    """By names that nobody made."""
    sparse = pytest.importorskip("scipy.sparse")
    n_features = 1_000_000
    rows = sparse.csr_matrix(([1.0], ([1], [n_features - 1])), shape=(2, n_features))
    values = TreeExplainer(stump(n_features)).shap_values(rows)
    assert values[:, :-1].any() == np.False_
    assert values[:, -1].tolist() == [-0.5, 1.5]


# -- categories ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "claimed", "message"),
    [
        (list(range(50)), 1 << 20, "claim to have 52,428,800 categories"),
        ([0], 1 << 40, "categories"),
        ([0] * 1000, 1000, "reads a column twice"),
    ],
)
def test_ydf_s_categories_are_not_believed(
    inputs: list[int], claimed: int, message: str, tmp_path: Path
) -> None:
    """Columns of whole numbers say how many categories they have, and nothing of each."""
    column = _field(1, 4) + _field(2, b"x") + _field(6, _field(2, claimed) + _field(5, 1))
    header = _field(1, b"RANDOM_FOREST") + _field(2, 2) + b"".join(_field(5, index) for index in inputs)
    (tmp_path / "data_spec.pb").write_bytes(_field(1, column) * 50)
    (tmp_path / "header.pb").write_bytes(header)
    refused(tmp_path, match=message)


def test_a_mojo_s_labels_are_not_counted_for_every_column_again(tmp_path: Path) -> None:
    """A thousand columns that share a file of labels."""
    labels = "".join(f"label {i}\n" for i in range(5000))
    lines = "".join(f"{column}: 5000 d000.txt\n" for column in range(1000))
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.ini", f"[info]\nn_columns = 1000\n\n[domains]\n{lines}")
        archive.writestr("domains/d000.txt", labels)
    refused(path, match="claim to have more than 1,048,576 labels")


# -- what is there once, and counted often ------------------------------------------------------------------


def _onnx(operator: str, attributes: dict[str, bytes]) -> bytes:
    """A model of one operator; attributes are the fields behind their names."""
    listed = b"".join(_field(5, _field(1, name.encode()) + content) for name, content in attributes.items())
    graph = _field(1, _field(1, b"X") + _field(4, operator.encode()) + listed) + _field(11, _field(1, b"X"))
    return _field(1, 9) + _field(7, graph)


def _integers(numbers: Iterable[int]) -> bytes:
    return _field(8, b"".join(map(_varint, numbers)))


def _tensor(numbers: npt.NDArray[Any]) -> bytes:
    kind = {"f": 1, "B": 2}[numbers.dtype.char]
    return _field(5, _field(2, kind) + _field(9, numbers.tobytes()))


def test_a_long_kind_of_split_does_not_make_all_of_them_long(tmp_path: Path) -> None:
    """Texts in an array have the room of the longest."""
    path = tmp_path / "model.onnx"
    modes = _field(9, b"BRANCH_" + b"X" * 20_000) + _field(9, b"LEAF") * 2000
    path.write_bytes(_onnx("TreeEnsembleRegressor", {"nodes_modes": modes, "n_targets": _field(3, 1)}))
    refused(path, match="splits of kind BRANCH_X")


def test_a_tree_is_not_read_again_for_every_root(tmp_path: Path) -> None:
    """A thousand trees that are one."""
    n_nodes, n_roots = 300, 1000
    path = tmp_path / "model.onnx"
    below = [*range(1, n_nodes), 0]
    attributes = {
        "nodes_featureids": _integers([0] * n_nodes),
        "nodes_truenodeids": _integers(below),
        "nodes_falsenodeids": _integers([0] * n_nodes),
        "nodes_trueleafs": _integers([0] * (n_nodes - 1) + [1]),
        "nodes_falseleafs": _integers([1] * n_nodes),
        "nodes_modes": _tensor(np.zeros(n_nodes, np.uint8)),
        "nodes_splits": _tensor(np.zeros(n_nodes, np.float32)),
        "leaf_targetids": _integers([0]),
        "leaf_weights": _tensor(np.ones(1, np.float32)),
        "tree_roots": _integers([0]),
    }
    path.write_bytes(_onnx("TreeEnsemble", attributes))
    assert import_model(path).n_trees == 1
    path.write_bytes(_onnx("TreeEnsemble", {**attributes, "tree_roots": _integers([0] * n_roots)}))
    refused(path, match="child that is not there or another's")


def test_a_leaf_of_one_output_does_not_take_the_room_of_all_for_nothing(tmp_path: Path) -> None:
    """Hundreds of leaves with a number each, of tens of thousands of outputs."""
    n_inner, n_outputs = 300, 60_000
    n_nodes, path = 2 * n_inner + 1, tmp_path / "model.onnx"
    leaves = range(n_inner, n_nodes)
    attributes = {
        "nodes_modes": _field(9, b"BRANCH_LEQ") * n_inner + _field(9, b"LEAF") * (n_inner + 1),
        "nodes_treeids": _integers([0] * n_nodes),
        "nodes_nodeids": _integers(range(n_nodes)),
        "nodes_featureids": _integers([0] * n_nodes),
        "nodes_values": _tensor(np.zeros(n_nodes, np.float32)),
        "nodes_truenodeids": _integers([*range(1, n_inner), 2 * n_inner, *[0] * len(leaves)]),
        "nodes_falsenodeids": _integers([*range(n_inner, 2 * n_inner), *[0] * len(leaves)]),
        "target_treeids": _integers([0] * len(leaves)),
        "target_nodeids": _integers(leaves),
        "target_ids": _integers(range(len(leaves))),
        "target_weights": _tensor(np.ones(len(leaves), np.float32)),
    }
    path.write_bytes(_onnx("TreeEnsembleRegressor", {**attributes, "n_targets": _field(3, 1000)}))
    assert import_model(path).value.shape == (n_nodes, 1000)
    path.write_bytes(_onnx("TreeEnsembleRegressor", {**attributes, "n_targets": _field(3, n_outputs)}))
    refused(path, match="36,060,000 leaf values, and has 301")


@pytest.mark.parametrize(("first", "message"), [(1, "share a child"), (0, "runs in a circle")])
def test_questions_for_categories_follow_one_another_once(first: int, message: str, tmp_path: Path) -> None:
    """Half of the nodes go on with the same chain of the other half, or the chain goes on with itself."""
    n_nodes = 3000
    path = tmp_path / "model.onnx"
    number, last = np.arange(n_nodes), n_nodes
    false = np.where(number < n_nodes // 2, n_nodes // 2, number + 1) if first else (number + 1) % n_nodes
    modes = _field(9, b"BRANCH_EQ") * n_nodes + _field(9, b"LEAF") * 2
    attributes = {
        "nodes_modes": modes,
        "nodes_treeids": _integers([0] * (n_nodes + 2)),
        "nodes_nodeids": _integers(range(n_nodes + 2)),
        "nodes_featureids": _integers([0] * (n_nodes + 2)),
        "nodes_values": _tensor(np.arange(n_nodes + 2, dtype=np.float32)),
        "nodes_truenodeids": _integers([last + 1] * n_nodes + [0, 0]),
        "nodes_falsenodeids": _integers([*false.tolist(), 0, 0]),
        "target_treeids": _integers([0, 0]),
        "target_nodeids": _integers([last, last + 1]),
        "target_ids": _integers([0, 0]),
        "target_weights": _tensor(np.ones(2, np.float32)),
        "n_targets": _field(3, 1),
    }
    path.write_bytes(_onnx("TreeEnsembleRegressor", attributes))
    refused(path, match=message)


def test_lists_of_numbers_are_not_looked_for_in_the_whole_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two fields in turns: to read such a message took the square of its length."""
    n_looked_at = 0
    varints = protobuf._varints

    def counted(data: Any) -> Any:
        nonlocal n_looked_at
        n_looked_at += len(data)
        return varints(data)

    monkeypatch.setattr(protobuf, "_varints", counted)
    content = (_field(1, 3) * 2 + _field(2, 1 << 40) * 2) * 500
    found = protobuf.Message(content)
    assert found.integers(1) == [3] * 1000
    assert found.integers(2) == [1 << 40] * 1000
    assert n_looked_at < 50 * len(content)
    n_looked_at = 0
    content = _field(1, 3) * 10_000
    assert protobuf.Message(content).integers(1) == [3] * 10_000
    assert n_looked_at < 3 * len(content)


@pytest.mark.parametrize("n", [1, 2, 3, 14, 15, 16, 1000])
def test_lists_of_any_length_are_read_as_they_are_written(n: int) -> None:
    """However far it looks ahead; numbers of one to ten bytes, and floating-point numbers."""
    numbers = [(1 << 7 * (i % 9)) + i for i in range(n)]
    floats = np.arange(n, dtype="<f4")
    content = b"".join(_field(2, number) for number in numbers)
    content += b"".join(_varint(3 << 3 | 5) + number.tobytes() for number in floats) + _field(4, b"end")
    found = protobuf.Message(content)
    assert found.integers(2) == numbers
    assert found.floats(3).tolist() == floats.tolist()
    assert found.text(4) == "end"


def _ydf(folder: Path, column: bytes, nodes: Sequence[bytes]) -> Path:
    """A forest of one column, and of one tree if that is what the nodes are."""
    blobs = b"".join(struct.pack("<I", len(node)) + node for node in nodes)
    (folder / "data_spec.pb").write_bytes(_field(1, column))
    (folder / "header.pb").write_bytes(_field(1, b"RANDOM_FOREST") + _field(2, 2) + _field(5, 0))
    (folder / "random_forest_header.pb").write_bytes(_field(1, 1) + _field(2, 1))
    (folder / "nodes-00000-of-00001").write_bytes(b"BS\0\0\0\0\0\0" + blobs)
    return folder


def test_ydf_s_fields_take_no_room_in_every_node(tmp_path: Path) -> None:
    """One node has a thousand fields that nobody knows, and a thousand nodes have none."""
    unknown = b"".join(_field(number, 0) for number in range(100, 1600))
    refused(_ydf(tmp_path, _field(1, 1), [unknown, *[b""] * 3000]), match="not those of 1 whole trees")


def test_ydf_s_nodes_are_not_packed_to_nothing(tmp_path: Path) -> None:
    """Two million empty nodes in eight kilobytes; a million could be."""
    path = _ydf(tmp_path, _field(1, 1), []) / "nodes-00000-of-00001"
    path.write_bytes(b"BS\1\0\1\0\0\0" + gzip.compress(bytes(8 << 20)))
    assert path.stat().st_size < 10_000
    with pytest.raises(FileFormatError, match="claim more than 1,048,576 nodes"):
        import_model(tmp_path)


def test_ydf_s_nodes_do_not_list_all_categories_but_one(tmp_path: Path) -> None:
    """To name category 1 is to speak of one; to name category 0 is to speak of a million others."""
    column = _field(1, 4) + _field(2, b"x") + _field(6, _field(2, 1 << 20) + _field(5, 1))
    one, others = (
        _field(3, _field(2, 0) + _field(3, _field(4, _field(1, _varint(code))))) for code in (1, 0)
    )
    assert import_model(_ydf(tmp_path, column, [one] * 40 + [b""] * 41)).category_codes.tolist() == [0] * 40
    with pytest.raises(FileFormatError, match="far more categories than they name"):
        import_model(_ydf(tmp_path, column, [others] * 40 + [b""] * 41))


def test_a_mojo_s_nodes_do_not_ask_about_millions_of_labels_each(tmp_path: Path) -> None:
    """A node of ten bytes that sends a million labels left, many times."""
    n_labels, n_nodes = 1 << 20, 40
    node = struct.pack("<BHBHi", 4 | 16, 0, 2, 0, 0) + struct.pack("<f", 0.0)  # its left branch is a number
    tree = node * n_nodes
    tree = tree[: -len(node)] + struct.pack("<BHBHi", 4 | 16 | 64, 0, 2, 0, 0) + struct.pack("<ff", 0.0, 0.0)
    known = struct.pack("<ii2f4f2i", 0, 0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0, 0)
    info = "algo = gbm\ncategory = Regression\nmojo_version = 1.4\nn_columns = 2\nn_features = 1\n"
    info += "n_trees = 1\ninit_f = 0.0\nendianness = LITTLE_ENDIAN\n"
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "model.ini", f"[info]\n{info}\n[columns]\nx\ny\n\n[domains]\n0: {n_labels} d000.txt\n"
        )
        archive.writestr("domains/d000.txt", "\n" * n_labels)
        archive.writestr("trees/t00_000.bin", tree)
        archive.writestr("trees/t00_000_aux.bin", known)
    assert path.stat().st_size < 5000
    with pytest.raises(FileFormatError, match="far more categories than they name"):
        import_model(path)


def test_catboost_s_features_do_not_share_their_borders(tmp_path: Path) -> None:
    """Thousands of features that are one, of thousands of borders."""
    n_features = n_borders = 3000
    head = struct.pack("<I", 12) + struct.pack("<4H", 8, 8, 0, 4)  # root table at 12, its fields
    head += struct.pack("<iI", 8, 20)  # root: fields 8 back; the trees at 16 + 20
    head += struct.pack("<8H", 16, 8, 0, 0, 0, 0, 0, 4)  # fields of the trees: the sixth
    head += struct.pack("<iI", 16, 4) + struct.pack("<I", n_features)  # trees; what follows is at 48
    feature = 48 + 4 * n_features + 12
    features = struct.pack(f"<{n_features}I", *(feature - 48 - 4 * i for i in range(n_features)))
    features += struct.pack("<6H", 12, 12, 0, 0, 8, 4)  # fields of a feature: its column and its borders
    features += struct.pack("<iIi", 12, 8, 0) + struct.pack("<I", n_borders) + bytes(4 * n_borders)
    body = head + features
    path = tmp_path / "model.cbm"
    path.write_bytes(b"CBM1" + struct.pack("<I", len(body)) + body)
    refused(path, match="parts of it lie on others")
