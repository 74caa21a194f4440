"""The directory of a model of YDF → TreeEnsemble, without YDF.

It has Protocol Buffers: a header, the columns of the training table, and a message for each node, of all
trees and each before those below it. YDF asks ``x >= threshold``, or for a category among some, and says at
each node where missing values go.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError, UnsupportedModelError
from ..model.ensemble import TreeEnsemble
from .assemble import NodeArrays
from .packed import unpacked
from .protobuf import Message, Messages, packed_integers
from .ydf_columns import SPEC, Column, Columns

__all__ = ["read_directory"]

Array = npt.NDArray[Any]

#: The kind of model, as its header has it → the file with the rest of the header.
_HEADERS = {
    "RANDOM_FOREST": "random_forest_header.pb",
    "GRADIENT_BOOSTED_TREES": "gradient_boosted_trees_header.pb",
}
#: Tasks; the others are of uplift, of anomalies, and of survival, for which YDF has no Python yet.
_CLASSIFICATION, _REGRESSION, _RANKING = 1, 2, 3
#: Kinds of conditions, by their fields.
_IS_MISSING, _HIGHER, _IS_TRUE, _IN_LIST, _IN_BITMAP, _HIGHER_BIN, _OBLIQUE = range(1, 8)
_CONDITIONS = (_IS_MISSING, _HIGHER, _IS_TRUE, _IN_LIST, _IN_BITMAP, _HIGHER_BIN)

#: Votes of leaves that are made room for, whatever the size of the file; it counts rows for each of them.
_MAX_SPREAD = 1 << 24
#: Categories of a node take four bytes each, and a node that names one category may speak of all the others:
#: there is room for so many in any file, or for so many for each of its bytes.
_MAX_CODES, _CODES_PER_BYTE = 1 << 25, 256
#: Nodes that are made room for in any file; else each of them takes a byte of it, packed or not.
_MAX_NODES = 1 << 20


def read_directory(path: Path) -> TreeEnsemble:
    (spec_path, *others) = sorted(path.glob(f"*{SPEC}"))
    if others:
        raise FileFormatError(f"it holds {1 + len(others)} models. Pass a directory of one.")
    prefix = spec_path.name.removesuffix(SPEC)
    header = Message((path / f"{prefix}header.pb").read_bytes())
    kind, task = header.text(1), header.number(2)
    if kind not in _HEADERS or task not in (_CLASSIFICATION, _REGRESSION, _RANKING):
        raise UnsupportedModelError(
            f"This model of YDF is of the kind {kind!r}, for task {task}. Supported are random forests and "
            f"gradient boosted trees that classify, rank, or predict a number."
        )
    table = Message(spec_path.read_bytes())
    columns = Columns.of(table, header.integers(5))
    own = Message((path / f"{prefix}{_HEADERS[kind]}").read_bytes())
    nodes = _Nodes(*_blobs(path, f"{prefix}nodes", own.number(1)), own.number(2))
    names = (
        tuple(map(str, Columns.of(table, [header.number(3)]).read[0].labels))
        if task == _CLASSIFICATION
        else ()
    )
    if kind == "RANDOM_FOREST":
        values = nodes.votes(len(names), bool(own.number(3, absent=1))) if names else nodes.numbers()
        return nodes.ensemble(
            columns, values / max(1, nodes.n_trees), np.zeros(values.shape[1]), names or None
        )
    start = own.floats(4).astype(np.float64)
    n_outputs = own.number(5, absent=1)
    if len(start) != n_outputs or nodes.n_trees % max(1, n_outputs):
        raise FileFormatError(
            f"it has {nodes.n_trees} trees and {len(start)} initial predictions for {n_outputs} outputs."
        )
    return nodes.ensemble(columns, nodes.numbers(), start, names[-n_outputs:] if names else None)


def _blobs(path: Path, name: str, n_shards: int) -> tuple[Array, Array, Array]:
    """The bytes of all nodes, one after another, and where each begins and ends."""
    parts: list[bytes] = []
    start: list[int] = []
    end: list[int] = []
    at = n_packed = 0
    for shard in range(n_shards):
        content = (path / f"{name}-{shard:05d}-of-{n_shards:05d}").read_bytes()
        n_packed += len(content)
        if content[:2] != b"BS" or content[2:4] not in (b"\0\0", b"\1\0"):
            raise UnsupportedModelError(
                "The nodes of this model are not in YDF's own format. Load it with YDF and save it again."
            )
        try:
            body = unpacked(content[8:]) if content[2:5] == b"\1\0\1" else content[8:]
        except (EOFError, zlib.error) as error:
            raise FileFormatError(f"its nodes are damaged ({error}).") from error
        here, most = 0, max(_MAX_NODES, n_packed)
        while here < len(body):
            if len(start) == most:
                raise FileFormatError(f"{n_packed:,} bytes of it claim more than {most:,} nodes.")
            size = int.from_bytes(body[here : here + 4], "little")
            start.append(at + here + 4)
            here += 4 + size
            end.append(at + here)
        if here != len(body):
            raise FileFormatError("its last node is cut short.")
        parts.append(body)
        at += len(body)
    return np.frombuffer(b"".join(parts), np.uint8), np.array(start, np.int64), np.array(end, np.int64)


@dataclass(frozen=True)
class _Set:
    """The categories that are remembered of a node, and what they say: those that YDF does not know say the
    other, as they do in YDF, to which they are the first."""

    codes: Array
    says_yes: bool

    @classmethod
    def of(cls, yes: set[int], column: Column, missing_says_yes: bool) -> _Set:
        says_yes = 0 not in yes
        n_labels = len(column.labels)
        codes = np.array(sorted(code - 1 for code in yes if 1 <= code <= n_labels), dtype=np.int32)
        if not says_yes:
            codes = np.delete(np.arange(n_labels, dtype=np.int32), codes)
        if column.has_texts and missing_says_yes == says_yes:
            codes = np.append(codes, np.int32(n_labels))  # the empty text
        return cls(codes, says_yes)


class _Nodes:
    """The nodes of all trees, each before those below it: first of the branch "no", then of "yes"."""

    def __init__(self, data: Array, start: Array, end: Array, n_trees: int) -> None:
        self._nodes, self._n_bytes = Messages(data, start, end), len(data)
        self._split = self._nodes.inside(3)
        self._kinds = self._split.inside(3)
        self.is_inner = self._nodes.has(3)
        self._missing_says_yes = (self._split.integers(1) != 0) | self._kinds.has(_IS_MISSING)
        n_nodes = len(self.is_inner)
        # Nodes that are begun and not ended, before each node: a tree ends where that falls below its start,
        # and the second branch of a node begins where it is first again what it was before the node.
        open_ = np.append(0, np.cumsum(np.where(self.is_inner, 1, -1)))
        order = np.argsort(open_, kind="stable")
        following = np.full(n_nodes + 1, -1)
        same = open_[order[:-1]] == open_[order[1:]]
        following[order[:-1][same]] = order[1:][same]
        self.roots = np.append(0, np.flatnonzero(open_[1:] < np.minimum.accumulate(open_)[:-1]) + 1)
        if n_trees != len(self.roots) - 1 or self.roots[-1] != n_nodes:
            raise FileFormatError(f"its nodes are not those of {n_trees} whole trees.")
        self.n_trees = n_trees
        self.tree = np.repeat(np.arange(n_trees), np.diff(self.roots))
        root = self.roots[:-1][self.tree]
        self.no = np.where(self.is_inner, np.arange(n_nodes) + 1 - root, -1)
        self.yes = np.where(self.is_inner, following[:-1] - root, -1)

    def numbers(self) -> Array:
        """(n_nodes, 1) what a leaf predicts."""
        return self._nodes.inside(2).floats(1, "<f4").astype(np.float64)[:, None]

    def votes(self, n_classes: int, winner_takes_all: bool) -> Array:
        """(n_nodes, n_classes) the probability of each class in a leaf, or a vote for one."""
        leaves, output = np.flatnonzero(~self.is_inner), self._nodes.inside(1)
        if len(self.is_inner) * n_classes > max(_MAX_SPREAD, self._n_bytes):
            raise FileFormatError(f"it would take {len(leaves) * n_classes:,} votes, which it does not have.")
        votes = np.zeros((len(self.is_inner), n_classes))
        if winner_takes_all:
            top = output.integers(1)[leaves]
            if not ((top >= 1) & (top <= n_classes)).all():
                raise FileFormatError(f"a leaf predicts a class that is none of {n_classes}.")
            votes[leaves, top - 1] = 1.0
            return votes
        distribution = output.inside(2)
        total = distribution.floats(2, "<f8")
        for leaf in leaves.tolist():
            counts = distribution.content(1, leaf)
            if len(counts) != 8 * (n_classes + 1) or not total[leaf] > 0:
                raise FileFormatError(f"a leaf does not count {n_classes} classes.")
            votes[leaf] = counts.view("<f8")[1:] / total[leaf]
        return votes

    def ensemble(
        self, columns: Columns, values: Array, start: Array, output_names: tuple[str, ...] | None
    ) -> TreeEnsemble:
        nodes = NodeArrays.empty(np.diff(self.roots).tolist(), values.shape[1])
        nodes.value[...], nodes.cover[...] = values, self._covers()
        nodes.feature[...] = feature = self._features(columns)
        sets = self._sets(columns, feature)
        # "No" is left, but for sets of categories that say yes.
        is_swapped = np.zeros(len(feature), dtype=np.bool_)
        is_swapped[[node for node, one in sets.items() if one.says_yes]] = True
        nodes.left[...] = np.where(is_swapped, self.yes, self.no)
        nodes.right[...] = np.where(is_swapped, self.no, self.yes)
        nodes.missing_left[...] = self.is_inner & (self._missing_says_yes == is_swapped)
        nodes.threshold[...] = self._thresholds(columns, feature)
        category_set = np.full(len(feature), -1, dtype=np.int32)
        category_set[list(sets)] = np.arange(len(sets))
        codes = [one.codes for one in sets.values()]
        outputs = np.arange(self.n_trees) % (len(start) if values.shape[1] == 1 else 1)
        return TreeEnsemble(
            **nodes.finish(),
            category_set=category_set,
            category_offsets=np.cumsum([0, *map(len, codes)]),
            category_codes=np.concatenate([np.zeros(0, np.int32), *codes]).astype(np.int32),
            base_values=start,
            tree_output=outputs.astype(np.int32),
            row_format=columns.row_format(),
            output_names=output_names,
        )

    def _features(self, columns: Columns) -> Array:
        attribute = np.where(self.is_inner, self._split.integers(2), 0)
        if self._kinds.has(_OBLIQUE).any():
            raise UnsupportedModelError(
                "Some nodes of this model compare a weighted sum of several columns, whose value cannot be "
                "divided among them by which way a row goes (split_axis='SPARSE_OBLIQUE'). Train it with "
                "split_axis='AXIS_ALIGNED'."
            )
        known = sum(self._kinds.has(kind) for kind in _CONDITIONS)
        is_damaged = self.is_inner & ((known != 1) | (attribute < 0) | (attribute >= len(columns.place)))
        if is_damaged.any() or (columns.place[attribute[self.is_inner]] < 0).any():
            raise FileFormatError(
                "a node asks about a column that the model does not read, or in an unknown way."
            )
        return np.where(self.is_inner, columns.place[attribute], -1)

    def _sets(self, columns: Columns, feature: Array) -> dict[int, _Set]:
        """The categories that nodes ask about, by the number of the node."""
        lists, bitmaps = self._kinds.inside(_IN_LIST), self._kinds.inside(_IN_BITMAP)
        sets = {}
        room = max(_MAX_CODES, _CODES_PER_BYTE * self._n_bytes)
        for node in np.flatnonzero(self._kinds.has(_IN_LIST) | self._kinds.has(_IN_BITMAP)).tolist():
            bits = np.unpackbits(bitmaps.content(1, node), bitorder="little")
            listed = packed_integers(lists.content(1, node))
            column = columns.read[feature[node]]
            sets[node] = _Set.of(
                {*np.flatnonzero(bits).tolist(), *listed}, column, self._missing_says_yes[node]
            )
            room -= len(sets[node].codes)
            if room < 0:
                raise FileFormatError("its nodes ask for far more categories than they name.")
        return sets

    def _covers(self) -> Array:
        """Training rows by their weights, which leaves know; else their number, which only inner nodes do.

        What YDF calls the weight of the rows that say yes at a node is their number.
        """
        inner, root = np.flatnonzero(self.is_inner), self.roots[:-1][self.tree]
        by_class, numbers = self._nodes.inside(1).inside(2), self._nodes.inside(2).inside(2)
        if (by_class.has(2) | numbers.has(3))[~self.is_inner].all():
            cover = by_class.floats(2, "<f8") + numbers.floats(3, "<f8")
            cover[inner] = self._split.floats(5, "<f8")[inner]
            return np.asarray(cover)
        cover = np.zeros(len(self.is_inner))
        every, yes = self._split.integers(4)[inner], self._split.integers(7)[inner]
        cover[(root + self.yes)[inner]], cover[(root + self.no)[inner]] = yes, every - yes
        cover[inner] = every
        return cover

    def _thresholds(self, columns: Columns, feature: Array) -> Array:
        """The largest number that says no."""
        kinds = self._kinds
        threshold = np.zeros(len(self.is_inner), np.float32)
        higher = kinds.has(_HIGHER)
        threshold[higher] = kinds.inside(_HIGHER).floats(1, "<f4")[higher]
        bins = kinds.inside(_HIGHER_BIN).integers(1)
        for node in np.flatnonzero(kinds.has(_HIGHER_BIN)).tolist():
            bounds, number = columns.read[feature[node]].bounds, int(bins[node])
            if not 1 <= number <= len(bounds):
                raise FileFormatError(f"a node asks for bin {number} of {len(bounds) + 1}.")
            threshold[node] = bounds[number - 1]
        threshold[kinds.has(_IS_TRUE)] = 0.5
        before = np.nextafter(threshold, np.float32(-np.inf)).astype(np.float64)
        return np.where(kinds.has(_IS_MISSING), np.inf, np.where(self.is_inner, before, 0.0))
