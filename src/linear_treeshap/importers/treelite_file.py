"""The bytes of a treelite model (format 4) → its fields by name, as arrays.

treelite documents the format: little-endian numbers one after another, arrays with their length before them.
Only what lies inside the bytes is ever read, and nothing is allocated that they do not hold: damage gives a
FileFormatError, where treelite's own reader may end the process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError

__all__ = ["Fields", "TreeliteModel", "parse"]

Array = npt.NDArray[Any]
Fields = dict[str, Array]

#: What a file says of its number types.
_FLOATS: dict[int, np.dtype[Any]] = {2: np.dtype("<f4"), 3: np.dtype("<f8")}

#: The fields in their order. A number is an array of one; "threshold" and "leaf" are what the header says.
_NUMBER, _ARRAY = True, False
_HEADER = (
    ("num_feature", "<i4", _NUMBER),
    ("task_type", "u1", _NUMBER),
    ("average_tree_output", "?", _NUMBER),
    ("num_target", "<i4", _NUMBER),
    ("num_class", "<i4", _ARRAY),
    ("leaf_vector_shape", "<i4", _ARRAY),
    ("target_id", "<i4", _ARRAY),
    ("class_id", "<i4", _ARRAY),
    ("postprocessor", "u1", _ARRAY),
    ("sigmoid_alpha", "<f4", _NUMBER),
    ("ratio_c", "<f4", _NUMBER),
    ("base_scores", "<f8", _ARRAY),
    ("attributes", "u1", _ARRAY),
)
_TREE = (
    ("num_nodes", "<i4", _NUMBER),
    ("has_categorical_split", "?", _NUMBER),
    ("node_type", "i1", _ARRAY),
    ("cleft", "<i4", _ARRAY),
    ("cright", "<i4", _ARRAY),
    ("split_index", "<i4", _ARRAY),
    ("default_left", "?", _ARRAY),
    ("leaf_value", "leaf", _ARRAY),
    ("threshold", "threshold", _ARRAY),
    ("cmp", "i1", _ARRAY),
    ("category_list_right_child", "?", _ARRAY),
    ("leaf_vector", "leaf", _ARRAY),
    ("leaf_vector_begin", "<u8", _ARRAY),
    ("leaf_vector_end", "<u8", _ARRAY),
    ("category_list", "<u4", _ARRAY),
    ("category_list_begin", "<u8", _ARRAY),
    ("category_list_end", "<u8", _ARRAY),
    ("data_count", "<u8", _ARRAY),
    ("data_count_present", "?", _ARRAY),
    ("sum_hess", "<f8", _ARRAY),
    ("sum_hess_present", "?", _ARRAY),
    ("gain", "<f8", _ARRAY),
    ("gain_present", "?", _ARRAY),
)
#: Arrays with an entry for each node of a tree; those in brackets may also be empty.
_PER_NODE = (
    *("node_type", "cleft", "cright", "split_index", "default_left", "leaf_value", "threshold", "cmp"),
    *("category_list_right_child", "leaf_vector_begin", "leaf_vector_end"),
    *("category_list_begin", "category_list_end"),
)
_PER_NODE_OR_EMPTY = ("data_count", "data_count_present", "sum_hess", "sum_hess_present")


@dataclass(frozen=True)
class TreeliteModel:
    """What a file says, its lengths in agreement with each other and its values unchecked."""

    header: Fields
    trees: list[Fields]
    dtype: np.dtype[Any]  # of thresholds: rows are cast to it


def parse(content: bytes) -> TreeliteModel:
    """Read a whole model; a FileFormatError says why that is not possible."""
    reader = _Reader(content)
    version = tuple(int(part) for part in reader.numbers("<i4", 3))
    if version[0] != 4:
        raise FileFormatError(
            f"it is of treelite {'.'.join(map(str, version))}; its format is read from treelite 4 on. Load "
            f"it with treelite 4 (treelite.Model.deserialize) and serialize it again."
        )
    types = [_FLOATS.get(int(kind)) for kind in reader.numbers("u1", 2)]
    threshold, leaf = types
    if threshold is None or leaf is None:
        raise FileFormatError("its number types are neither float32 nor float64.")
    n_trees = int(reader.numbers("<u8", 1)[0])
    header = {name: reader.field(dtype, is_number) for name, dtype, is_number in _HEADER}
    reader.skip_optional_fields()
    for name in ("target_id", "class_id"):
        if len(header[name]) != n_trees:
            raise FileFormatError(f"it has {n_trees:,} trees, but {name} for {len(header[name]):,}.")
    named = {"threshold": threshold, "leaf": leaf}
    trees = [_tree(reader, index, named) for index in range(n_trees)]
    if reader.n_left:
        raise FileFormatError(f"{reader.n_left:,} bytes follow after its end.")
    return TreeliteModel(header, trees, threshold.newbyteorder("="))


def _tree(reader: _Reader, index: int, types: dict[str, np.dtype[Any]]) -> Fields:
    tree = {name: reader.field(types.get(dtype, dtype), is_number) for name, dtype, is_number in _TREE}
    reader.skip_optional_fields()  # of the tree
    reader.skip_optional_fields()  # of its nodes
    n_nodes = int(tree["num_nodes"][0])
    for name in (*_PER_NODE, *_PER_NODE_OR_EMPTY):
        if len(tree[name]) != n_nodes and not (name in _PER_NODE_OR_EMPTY and not len(tree[name])):
            raise FileFormatError(
                f"tree {index} has {n_nodes:,} nodes, but {name} has {len(tree[name]):,} entries."
            )
    return tree


class _Reader:
    """A place in the bytes, which moves on with everything that is read."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    @property
    def n_left(self) -> int:
        return len(self._content) - self._at

    def numbers(self, dtype: Any, n: int) -> Array:
        """The next ``n`` numbers, a view of the bytes in the machine's own order."""
        kind = np.dtype(dtype)
        if n * kind.itemsize > self.n_left:
            raise FileFormatError(
                f"it is cut off or damaged: {n:,} numbers were expected at byte {self._at:,}, and "
                f"{self.n_left:,} bytes are left."
            )
        stored = np.dtype("u1") if kind.kind == "b" else kind
        array = np.frombuffer(self._content, stored, n, self._at)
        self._at += n * kind.itemsize
        if kind.kind == "b":
            if n and array.max() > 1:
                raise FileFormatError(f"it is damaged: {array.max()} is neither true nor false.")
            return array.astype(np.bool_)
        return array.astype(kind.newbyteorder("="), copy=False)

    def field(self, dtype: Any, is_number: bool) -> Array:
        return self.numbers(dtype, 1 if is_number else int(self.numbers("<u8", 1)[0]))

    def skip_optional_fields(self) -> None:
        """Pass over what a later treelite may have added: a name, a size, a count, and the bytes."""
        for _ in range(int(self.numbers("<i4", 1)[0])):
            self.field("u1", is_number=False)
            size, count = (int(number) for number in self.numbers("<u8", 2))
            self.numbers("u1", size * count)
