"""ONNX models → TreeEnsemble: the one operator of trees in a graph, read without the onnx package.

``TreeEnsembleRegressor``, ``TreeEnsembleClassifier`` and the newer ``TreeEnsemble``, from a file, its bytes
or a loaded ``ModelProto``, as converters of scikit-learn, XGBoost and LightGBM write them. The output is what
the trees add up to, before the operator's ``post_transform``. Numbers are compared in the type that the
operator is given: float32, hardly ever float64. Numbers that are asked to be equal to others are categories.

Converters do not write how many training rows went where. Without covers there are no path-dependent values
until ``data=`` says how rows go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError, ModelError, UnsupportedModelError
from ..model.ensemble import TreeEnsemble, check_n_outputs
from ..model.links import Link, Logistic
from ..model.row_format import Label, RowFormat
from .assemble import NodeArrays
from .protobuf import Message

__all__ = ["BEGINNINGS", "LIBRARY", "is_softmax", "link", "read_file", "to_ensemble"]

LIBRARY = "ONNX"

#: A file begins with the version of its format, and goes on with any of its other fields.
BEGINNINGS = tuple(
    bytes((0x08, version, key))
    for version in range(3, 32)
    for key in (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42, 0x72)
)

_OPERATORS = ("TreeEnsembleRegressor", "TreeEnsembleClassifier", "TreeEnsemble")
#: What may stand between the rows and the trees.
_BEFORE = {"Cast", "Identity"}
#: What may come after the trees: it names classes or arranges numbers, and makes no others of them.
_AFTER = {
    "ArrayFeatureExtractor",
    "ArgMax",
    "Cast",
    "Flatten",
    "Identity",
    "Normalizer",
    "Reshape",
    "Squeeze",
}
_AFTER |= {"Unsqueeze", "ZipMap"}

_FLOAT, _DOUBLE = 1, 11
_TENSOR_TYPES = {1: "<f4", 2: "u1", 6: "<i4", 7: "<i8", 11: "<f8"}

_POST_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
#: Is it this number, is it another, is it one of these?
_BY_CATEGORY = ("BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")

#: Beyond this not every whole number is a float32.
_MOST_CATEGORY = float(1 << 24)

#: A leaf that speaks of one output has room for all. So many numbers are made room for in any file, or so
#: many for each that it has.
_MAX_SPREAD, _SPREAD_PER_WEIGHT = 1 << 24, 1024

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]


def to_ensemble(model: Any) -> TreeEnsemble:
    return _Graph(_bytes_of(model)).ensemble()


def read_file(path: Path) -> TreeEnsemble:
    return _Graph(path.read_bytes()).ensemble()


def link(model: Any) -> Link | None:
    return Logistic() if _Graph(_bytes_of(model)).post_transform == "LOGISTIC" else None


def is_softmax(model: Any) -> bool:
    return _Graph(_bytes_of(model)).post_transform == "SOFTMAX"


def _bytes_of(model: Any) -> bytes:
    return model if isinstance(model, bytes) else model.SerializeToString()


# -- the graph --------------------------------------------------------------------------------------------


class _Node:
    """An operator of the graph, and its attributes by name."""

    def __init__(self, message: Message) -> None:
        self.inputs, self.outputs = message.texts(1), message.texts(2)
        self.operator = message.text(4)
        self._attributes = {attribute.text(1): attribute for attribute in message.messages(5)}

    def integers(self, name: str) -> Int64:
        return np.array(self._attribute(name).integers(8), dtype=np.int64)

    def integer(self, name: str, default: int = 0) -> int:
        return self._attribute(name).number(3) if name in self._attributes else default

    def texts(self, name: str) -> list[str]:
        return self._attribute(name).texts(9)

    def text(self, name: str) -> str:
        return self._attribute(name).text(4)

    def numbers(self, name: str) -> Float64:
        """Floating-point numbers: as a list, as a tensor, or as a tensor under another name."""
        for key in (name, f"{name}_as_tensor"):
            tensor = self._attribute(key).message(5)
            if kind := tensor.number(2):
                return _tensor(tensor, kind).astype(np.float64)
        return self._attribute(name).floats(7).astype(np.float64)

    def _attribute(self, name: str) -> Message:
        return self._attributes.get(name) or Message(b"")


def _tensor(tensor: Message, kind: int) -> npt.NDArray[Any]:
    if kind not in _TENSOR_TYPES:
        raise FileFormatError(f"The ONNX model is damaged: a tensor of its trees has the type {kind}.")
    raw = tensor.floats(9, _TENSOR_TYPES[kind])
    if len(raw):
        return raw
    if kind in (_FLOAT, _DOUBLE):
        return tensor.floats(4) if kind == _FLOAT else tensor.floats(10, "<f8")
    return np.array(tensor.integers(7 if kind == 7 else 5), dtype=np.int64)


class _Graph:
    """The operator of trees in a model, and what leads to it."""

    def __init__(self, data: bytes) -> None:
        graph = Message(data).message(7)
        nodes = [_Node(message) for message in graph.messages(1)]
        self._inputs = {value.text(1): value.message(2).message(1) for value in graph.messages(11)}
        found = [node for node in nodes if node.operator in _OPERATORS]
        if len(found) != 1:
            raise UnsupportedModelError(
                f"An ONNX model is read if its graph has one operator of trees ({', '.join(_OPERATORS)}); "
                f"this one has {len(found)}. Explain the model that it was converted from."
            )
        self.node = found[0]
        self.input, self.input_type = self._path_to_trees({out: n for n in nodes for out in n.outputs})
        others = [node.operator for node in nodes if node.operator not in (*_OPERATORS, *_BEFORE, *_AFTER)]
        if others:
            raise UnsupportedModelError(
                f"This ONNX model goes on with {others[0]} after its trees, or begins with it, so that what "
                f"it says is not what they add up to. Explain the model that it was converted from."
            )

    def _path_to_trees(self, makers: Mapping[str, _Node]) -> tuple[str, int]:
        """The input of the graph that the trees read, and the type in which they do."""
        name, kind = (self.node.inputs or [""])[0], 0
        for _ in range(len(makers) + 1):
            if name in self._inputs:
                return name, kind or self._inputs[name].number(1)
            maker = makers.get(name)
            if maker is None or maker.operator not in _BEFORE or not maker.inputs:
                what = "something that is not in the graph" if maker is None else maker.operator
                raise UnsupportedModelError(
                    f"The trees of this ONNX model do not read its rows but what {what} makes of them. "
                    f"Convert the trees by themselves, and give them rows that are already transformed."
                )
            kind = kind or (maker.integer("to") if maker.operator == "Cast" else 0)
            name = maker.inputs[0]
        raise FileFormatError("The ONNX model is damaged: its graph runs in a circle.")

    @property
    def post_transform(self) -> str:
        if self.node.operator == "TreeEnsemble":
            return _choice(_POST_TRANSFORMS, self.node.integer("post_transform"), "post_transform")
        return self.node.text("post_transform") or "NONE"

    @property
    def dtype(self) -> Any:
        return "float64" if self.input_type == _DOUBLE else "float32"

    def ensemble(self) -> TreeEnsemble:
        try:
            tables = _newer(self.node) if self.node.operator == "TreeEnsemble" else _older(self.node)
            _check_lengths(tables)
            if tables.is_by_category.any():
                tables = _without_chains(tables)
            return _assembled(tables, self._row_format(tables))
        except UnsupportedModelError:
            raise
        except ModelError as error:
            raise FileFormatError(f"The ONNX model is damaged: {error}") from error

    def _row_format(self, tables: _Tables) -> RowFormat:
        used = int(tables.feature.max(initial=-1)) + 1
        sizes = [dimension.number(1) for dimension in self._inputs[self.input].message(2).messages(1)]
        n_features = sizes[-1] if len(sizes) == 2 and sizes[-1] > 0 else None
        labels = _labels(tables)
        return RowFormat(
            n_features or used,
            dtype=self.dtype,
            categories=labels,
            numbers_are_codes=not labels,
            takes_more=n_features is None,
        )


# -- the trees --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Tables:
    """The nodes of all trees, and the weights of their leaves, as the older operators list them."""

    tree: Int64
    node: Int64
    feature: Int64
    split: Float64
    mode: npt.NDArray[np.str_]
    true: Int64
    false: Int64
    tracks_true: npt.NDArray[np.bool_]  # do missing values go where true values go?
    hits: Float64  # empty, or a number for each node
    leaf_tree: Int64
    leaf_node: Int64
    leaf_output: Int64
    leaf_weight: Float64
    base_values: Float64
    n_outputs: int
    output_names: tuple[str, ...] | None = None
    #: The numbers that are asked for by nodes of kind BRANCH_MEMBER.
    sets: Mapping[int, tuple[float, ...]] = field(default_factory=dict)

    @cached_property
    def is_by_category(self) -> npt.NDArray[np.bool_]:
        return np.isin(self.mode, _BY_CATEGORY)

    @cached_property
    def members(self) -> dict[int, tuple[float, ...]]:
        """What each node asks for that asks for categories."""
        rows = np.flatnonzero(self.is_by_category).tolist()
        return {row: self.sets[row] if row in self.sets else (float(self.split[row]),) for row in rows}

    @cached_property
    def is_leaf(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.mode == "LEAF")


def _older(node: _Node) -> _Tables:
    """Of TreeEnsembleRegressor and TreeEnsembleClassifier."""
    labels: list[Any] = []
    prefix, n_outputs = "target", node.integer("n_targets")
    if node.operator == "TreeEnsembleClassifier":
        labels = node.texts("classlabels_strings") or node.integers("classlabels_int64s").tolist()
        prefix, n_outputs = "class", len(labels)
    output, weight = node.integers(f"{prefix}_ids"), node.numbers(f"{prefix}_weights")
    base_values = node.numbers("base_values")
    if n_outputs == 2 and labels and len(np.unique(output)) == 1:
        # Of two classes the trees may give one number, which speaks of the second.
        labels, n_outputs, output, base_values = labels[1:], 1, np.zeros_like(output), base_values[-1:]
    tree = node.integers("nodes_treeids")
    factor = _aggregate(node.text("aggregate_function") or "SUM", len(np.unique(tree)))
    tracks = node.integers("nodes_missing_value_tracks_true")
    return _Tables(
        tree=tree,
        node=node.integers("nodes_nodeids"),
        feature=node.integers("nodes_featureids"),
        split=node.numbers("nodes_values"),
        mode=_modes(node.texts("nodes_modes")),
        true=node.integers("nodes_truenodeids"),
        false=node.integers("nodes_falsenodeids"),
        tracks_true=tracks != 0 if len(tracks) else np.zeros(len(tree), dtype=np.bool_),
        hits=node.numbers("nodes_hitrates"),
        leaf_tree=node.integers(f"{prefix}_treeids"),
        leaf_node=node.integers(f"{prefix}_nodeids"),
        leaf_output=output,
        leaf_weight=weight * factor,
        base_values=base_values,
        n_outputs=n_outputs,
        output_names=tuple(map(str, labels)) or None,
    )


def _modes(names: list[str]) -> npt.NDArray[np.str_]:
    """The kinds of nodes. Each takes the room of the longest: one that is not known is refused first."""
    unknown = next((name for name in names if name not in (*_MODES, "LEAF")), None)
    if unknown is not None:
        raise UnsupportedModelError(
            f"This ONNX model has splits of kind {unknown[:20]}, which are not known. Explain the model that "
            f"it was converted from."
        )
    return np.array(names, dtype=np.str_)


def _check_lengths(tables: _Tables) -> None:
    of_nodes = ("node", "feature", "split", "mode", "true", "false", "tracks_true")
    of_leaves = ("leaf_node", "leaf_output", "leaf_weight")
    for names, one in ((of_nodes, tables.tree), (of_leaves, tables.leaf_tree)):
        if any(len(getattr(tables, name)) != len(one) for name in names):
            raise ModelError("its nodes or leaves are described by lists of different lengths.")
    if len(tables.hits) not in (0, len(tables.tree)):
        raise ModelError("its nodes and their hit rates differ in number.")
    if len(tables.base_values) not in (0, 1, tables.n_outputs):
        raise ModelError(f"it has {len(tables.base_values)} base values for {tables.n_outputs} outputs.")
    if tables.n_outputs < 1:
        raise ModelError("it has no outputs.")


#: Lists of whole numbers that the newer operator has for its inner nodes.
_NEWER = ("featureids", "truenodeids", "falsenodeids", "trueleafs", "falseleafs")


def _newer(node: _Node) -> _Tables:
    """Of TreeEnsemble, whose nodes and leaves are apart: the leaves become nodes of their trees."""
    inner = {name: node.integers(f"nodes_{name}") for name in _NEWER}
    modes, split = node.numbers("nodes_modes"), node.numbers("nodes_splits")
    tracks = node.integers("nodes_missing_value_tracks_true")
    output, weight = node.integers("leaf_targetids"), node.numbers("leaf_weights")
    has_gaps = any(len(column) != len(split) for column in (*inner.values(), modes))
    if has_gaps or len(tracks) not in (0, len(split)) or len(output) != len(weight):
        raise ModelError("its nodes or leaves are described by lists of different lengths.")
    roots = node.integers("tree_roots")
    aggregate = _choice(_AGGREGATES, node.integer("aggregate_function", default=1), "aggregate_function")
    walks: list[list[tuple[int, int, int, int]]] = []
    room = 2 * len(split) + len(roots)  # a node is in one tree
    for root in roots.tolist():
        walks.append(_walk(root, inner, len(output), room))
        room -= len(walks[-1])
    tree = np.repeat(np.arange(len(walks)), [len(walk) for walk in walks])
    rows = np.array([row for walk in walks for row in walk], dtype=np.int64).reshape(-1, 4)
    place, is_leaf, true, false = rows.T
    number = np.concatenate([np.arange(len(walk)) for walk in walks]) if walks else tree
    leaf, at = is_leaf == 1, np.where(is_leaf == 1, 0, place)
    names = np.array([*(_choice(_MODES, int(mode), "mode") for mode in modes), "LEAF"])
    sets = _sets(np.flatnonzero(names == "BRANCH_MEMBER"), node.numbers("membership_values"))
    return _Tables(
        tree=tree,
        node=number,
        feature=np.where(leaf, 0, inner["featureids"][at]),
        split=np.where(leaf, 0.0, split[at]),
        mode=names[np.where(leaf, len(modes), place)],
        true=true,
        false=false,
        tracks_true=~leaf & (tracks[at] != 0) if len(tracks) else np.zeros(len(tree), dtype=np.bool_),
        hits=np.zeros(0),  # those of leaves are not written
        leaf_tree=tree[leaf],
        leaf_node=number[leaf],
        leaf_output=output[place[leaf]],
        leaf_weight=weight[place[leaf]] * _aggregate(aggregate, len(roots)),
        base_values=np.zeros(0),
        n_outputs=node.integer("n_targets") or 1,
        sets={row: sets[place[row]] for row in np.flatnonzero(~leaf).tolist() if place[row] in sets},
    )


def _sets(places: Int64, listed: Float64) -> dict[int, tuple[float, ...]]:
    """The sets that nodes ask for, which are listed in their order with NaN between them."""
    found: list[list[float]] = [[]]
    for number in listed.tolist():
        if number != number:
            found.append([])
        else:
            found[-1].append(number)
    if len(places) and len(found) == len(places) + 1 and not found[-1]:
        found.pop()  # the last of them may end in NaN as well
    if len(places) and len(found) != len(places):
        raise ModelError(f"it has {len(found)} sets of numbers for {len(places)} nodes that ask for one.")
    return dict(zip(places.tolist(), map(tuple, found), strict=False))


def _walk(
    root: int, inner: Mapping[str, Int64], n_leaves: int, n_most: int
) -> list[tuple[int, int, int, int]]:
    """Each node of a tree: its place among nodes or leaves, is it a leaf, and both children's numbers."""
    found: list[tuple[int, int, int, int]] = []
    ahead = [(root, 0)]
    while len(found) < len(ahead):
        place, is_leaf = ahead[len(found)]
        n_places = n_leaves if is_leaf else len(inner["featureids"])
        if not 0 <= place < n_places or len(ahead) > n_most:
            raise ModelError("a tree has a child that is not there or another's, or runs in a circle.")
        if is_leaf:
            found.append((place, 1, 0, 0))
            continue
        found.append((place, 0, len(ahead), len(ahead) + 1))
        for side in ("true", "false"):
            ahead.append((int(inner[f"{side}nodeids"][place]), int(inner[f"{side}leafs"][place] != 0)))
    return found


def _choice(names: tuple[str, ...], number: int, what: str) -> str:
    if not 0 <= number < len(names):
        raise ModelError(f"there is no {what} {number}.")
    return names[number]


def _aggregate(name: str, n_trees: int) -> float:
    """What a leaf counts for."""
    if name not in ("SUM", "AVERAGE"):
        raise UnsupportedModelError(
            f"This ONNX model takes the {name} of its trees, which is no sum. Explain its trees one by one."
        )
    return 1.0 / max(n_trees, 1) if name == "AVERAGE" else 1.0


class _Listing:
    """Where the nodes of all trees are listed, by tree and number."""

    def __init__(self, tree: Int64, node: Int64) -> None:
        self.trees, self.tree = np.unique(tree, return_inverse=True)
        self._span = int(node.max(initial=0)) + 1
        if node.min(initial=0) < 0 or self._span > 1 << 31:
            raise ModelError("a node has a number that no node can have.")
        self._order = np.argsort(self.tree * self._span + node, kind="stable")
        self._keys = (self.tree * self._span + node)[self._order]
        if (np.diff(self._keys) == 0).any():
            raise ModelError("two nodes of a tree have the same number.")

    def rows(self, tree: Int64, node: Int64) -> Int64:
        """Where these nodes are listed."""
        if not len(self._keys):
            raise ModelError("it has leaves, and no trees.")
        place = np.minimum(np.searchsorted(self.trees, tree), len(self.trees) - 1)
        is_possible = (self.trees[place] == tree) & (node >= 0) & (node < self._span)
        keys = place * self._span + np.where(is_possible, node, 0)
        found = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        if not (is_possible & (self._keys[found] == keys)).all():
            raise ModelError("a child or a leaf is not among the nodes of its tree.")
        return np.asarray(self._order[found])


def _without_chains(tables: _Tables) -> _Tables:
    """A question for each category of a set, one after another and all with the same answer, → one question.

    So converters write sets for operators that know none; what follows the answer is there only once.
    """
    listing = _Listing(tables.tree, tables.node)
    rows = np.flatnonzero(np.isin(tables.mode, ("BRANCH_EQ", "BRANCH_MEMBER")))
    true, false = (listing.rows(tables.tree[rows], side[rows]) for side in (tables.true, tables.false))
    asked = {
        row: (int(tables.feature[row]), bool(tables.tracks_true[row]), answer)
        for row, answer in zip(rows.tolist(), true.tolist(), strict=True)
    }
    goes_on = {
        row: other
        for row, other in zip(rows.tolist(), false.tolist(), strict=True)
        if other in asked and asked[row] == asked[other]
    }
    later = set(goes_on.values())
    if len(later) < len(goes_on):
        raise ModelError("two nodes share a child.")
    members, sides, modes = dict(tables.members), tables.false.copy(), tables.mode.astype(object)
    n_passed = 0
    for first in goes_on.keys() - later:
        row, asked_for = first, list(members[first])
        while row in goes_on:
            row, n_passed = goes_on[row], n_passed + 1
            asked_for += tables.members[row]
        members[first] = tuple(asked_for)
        sides[first], modes[first] = tables.false[row], "BRANCH_MEMBER"
    if n_passed < len(goes_on):
        raise ModelError("a tree runs in a circle.")
    kept = np.flatnonzero(~np.isin(np.arange(len(tables.tree)), list(later)))
    names = ("tree", "node", "feature", "split", "true", "tracks_true")
    return replace(
        tables,
        **{name: getattr(tables, name)[kept] for name in names},
        false=sides[kept],
        mode=modes[kept].astype(np.str_),
        hits=tables.hits[kept] if len(tables.hits) else tables.hits,
        sets={new: members[row] for new, row in enumerate(kept.tolist()) if row in members},
    )


def _assembled(tables: _Tables, row_format: RowFormat) -> TreeEnsemble:
    listing = _Listing(tables.tree, tables.node)
    inner = ~tables.is_leaf
    children = [listing.rows(tables.tree[inner], side[inner]) for side in (tables.true, tables.false)]
    # A tree begins with its root, which is nobody's child.
    is_child = np.isin(np.arange(len(inner)), np.concatenate(children))
    place = np.empty(len(inner), dtype=np.int64)
    place[np.lexsort((is_child, listing.tree))] = np.arange(len(inner))
    leaf = listing.rows(tables.leaf_tree, tables.leaf_node)
    check_n_outputs(tables.n_outputs, n_known=len(leaf))
    if not ((tables.leaf_output >= 0) & (tables.leaf_output < tables.n_outputs)).all():
        raise ModelError("a leaf adds to an output that is not there.")
    # Leaves are narrow if each tree speaks of one output.
    tree_output = np.zeros(len(listing.trees), dtype=np.int32)
    tree_output[listing.tree[leaf]] = tables.leaf_output
    is_narrow = bool((tree_output[listing.tree[leaf]] == tables.leaf_output).all())
    sizes = np.bincount(listing.tree, minlength=len(listing.trees))
    n_values = len(inner) * (1 if is_narrow else tables.n_outputs)
    if n_values > max(_MAX_SPREAD, _SPREAD_PER_WEIGHT * len(leaf)):
        raise ModelError(f"it would take {n_values:,} leaf values, and has {len(leaf):,}.")
    nodes = NodeArrays.empty(sizes.tolist(), 1 if is_narrow else tables.n_outputs)
    at, start = place[inner], nodes.tree_offsets[listing.tree[inner]]
    # Small numbers go left, whether the operator says that of them or the contrary.
    is_up = np.isin(tables.mode[inner], ("BRANCH_GTE", "BRANCH_GT"))
    mode = tables.mode[inner]
    # So do numbers of a set; those that are to be another number than one are not in its set.
    is_up |= mode == "BRANCH_NEQ"
    nodes.left[at] = place[np.where(is_up, children[1], children[0])] - start
    nodes.right[at] = place[np.where(is_up, children[0], children[1])] - start
    nodes.feature[at] = tables.feature[inner]
    by_category = tables.is_by_category[inner]
    nodes.threshold[at] = np.where(by_category, 0.0, _thresholds(mode, tables.split[inner], row_format))
    nodes.missing_left[at] = (tables.tracks_true[inner] != is_up) & (mode != "BRANCH_NEQ")
    if len(np.unique(tables.hits)) > 1:  # else they are ones, and say nothing
        nodes.cover[place] = tables.hits
    output = np.zeros_like(tables.leaf_output) if is_narrow else tables.leaf_output
    np.add.at(nodes.value, (place[leaf], output), tables.leaf_weight)
    base_values = np.zeros(tables.n_outputs)
    if len(tables.base_values):
        base_values += tables.base_values
    return TreeEnsemble(
        **nodes.finish(),
        **_category_sets(tables, place, row_format),
        base_values=base_values,
        tree_output=tree_output if is_narrow else np.zeros_like(tree_output),
        row_format=row_format,
        output_names=tables.output_names,
    )


def _thresholds(mode: npt.NDArray[np.str_], split: Float64, row_format: RowFormat) -> Float64:
    """The largest numbers that go left."""
    numbers = split.astype(row_format.numpy_dtype)
    is_open = np.isin(mode, ("BRANCH_LT", "BRANCH_GTE"))
    below = np.nextafter(numbers, row_format.numpy_dtype.type(-np.inf))
    return np.where(is_open, below, numbers).astype(np.float64)


def _labels(tables: _Tables) -> dict[int, tuple[Label, ...]]:
    """The categories of each feature that trees ask for; a category's code is its place among them."""
    by_number = set(tables.feature[~tables.is_leaf & ~tables.is_by_category].tolist())
    asked: dict[int, set[float]] = {}
    for row, members in tables.members.items():
        asked.setdefault(int(tables.feature[row]), set()).update(members)
    for feature, numbers in asked.items():
        if feature in by_number:
            raise UnsupportedModelError(
                f"This ONNX model asks about feature {feature} as a category and as a number. Explain the "
                f"model that it was converted from."
            )
        if not all(number.is_integer() and abs(number) <= _MOST_CATEGORY for number in numbers):
            raise UnsupportedModelError(
                f"This ONNX model asks whether feature {feature} is a certain number, and not a whole one: "
                f"that is no category. Explain the model that it was converted from."
            )
    return {feature: tuple(sorted(map(int, numbers))) for feature, numbers in asked.items()}


def _category_sets(tables: _Tables, place: Int64, row_format: RowFormat) -> dict[str, Any]:
    """The sets of codes of nodes that ask for categories.

    A number that no node asks for is missing to the trees. So it goes the way of one that is missing, which
    must be that of all numbers outside of the set.
    """
    rows = np.flatnonzero(tables.is_by_category)
    if (tables.tracks_true[rows] & (tables.mode[rows] != "BRANCH_NEQ")).any():
        raise UnsupportedModelError(
            "This ONNX model sends missing values the way of certain categories, and unknown categories the "
            "other way, which cannot be told apart here. Explain the model that it was converted from."
        )
    places = {
        feature: {label: code for code, label in enumerate(labels)}
        for feature, labels in row_format.categories.items()
    }
    codes = [
        sorted({places[int(tables.feature[row])][int(number)] for number in tables.members[row]})
        for row in rows.tolist()
    ]
    category_set = np.full(len(place), -1, dtype=np.int32)
    category_set[place[rows]] = np.arange(len(rows))
    return {
        "category_set": category_set,
        "category_offsets": np.cumsum([0, *map(len, codes)]),
        "category_codes": np.concatenate([np.zeros(0, dtype=np.int64), *codes]),
    }
