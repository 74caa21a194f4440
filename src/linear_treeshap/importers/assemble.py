"""Flat arrays for a TreeEnsemble: filled array by array or tree by tree, or made of several ensembles.

Importers write into arrays that are allocated once, so that reading a model takes little more memory than
the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import UnsupportedModelError
from ..model.ensemble import TreeEnsemble
from ..model.lines import Lines, joined_lines
from ..model.row_format import RowFormat

__all__ = ["NodeArrays", "Part", "combine", "pack_bits", "with_outputs"]

Int32 = npt.NDArray[np.int32]


@dataclass(frozen=True)
class NodeArrays:
    """The per-node arrays of a TreeEnsemble, to be filled in; all nodes begin as leaves of value 0."""

    tree_offsets: npt.NDArray[np.int64]
    left: Int32
    right: Int32
    feature: Int32
    threshold: npt.NDArray[np.float64]
    cover: npt.NDArray[np.float64]
    value: npt.NDArray[np.float64]
    missing_left: npt.NDArray[np.bool_]

    @classmethod
    def empty(cls, tree_sizes: Sequence[int], width: int) -> NodeArrays:
        """Arrays for trees of these numbers of nodes, with ``width`` values per leaf."""
        offsets = np.concatenate([[0], np.cumsum(tree_sizes, dtype=np.int64)]).astype(np.int64)
        n = int(offsets[-1])
        return cls(
            tree_offsets=offsets,
            left=np.full(n, -1, dtype=np.int32),
            right=np.full(n, -1, dtype=np.int32),
            feature=np.full(n, -1, dtype=np.int32),
            threshold=np.zeros(n),
            cover=np.zeros(n),
            value=np.zeros((n, width)),
            missing_left=np.zeros(n, dtype=np.bool_),
        )

    def nodes_of(self, tree: int) -> slice:
        """Where the nodes of ``tree`` lie."""
        return slice(int(self.tree_offsets[tree]), int(self.tree_offsets[tree + 1]))

    def fill(self, name: str, of_trees: Iterable[npt.NDArray[Any]]) -> None:
        """Write one array of all nodes, given tree by tree: much quicker than a slice for each tree."""
        column = getattr(self, name)
        np.concatenate([column[:0], *of_trees], out=column, casting="unsafe")

    def finish(self) -> dict[str, Any]:
        """Keyword arguments for TreeEnsemble; the arrays are given away and become read-only.

        TreeEnsemble copies arrays that somebody could still write to.
        """
        inner = self.left >= 0
        self.value[inner] = 0.0
        for array in vars(self).values():
            array.setflags(write=False)
        return dict(vars(self))


@dataclass(frozen=True)
class Part:
    """An ensemble that is one term of a weighted sum of ensembles."""

    ensemble: TreeEnsemble
    #: Output ``i`` of the part adds to output ``outputs[i]`` of the whole.
    outputs: Sequence[int]
    weight: float = 1.0
    #: Feature ``j`` of the part is feature ``features[j]`` of the whole; None: the same.
    features: Sequence[int] | None = None


def combine(
    parts: list[Part],
    n_outputs: int,
    row_format: RowFormat | None = None,
    output_names: Sequence[str] | None = None,
) -> TreeEnsemble:
    """The weighted sum of ``parts`` as one ensemble; its row format is that of the parts unless given.

    The parts are given away: the list is empty afterwards, so that they need not stay in memory.
    """
    columns, row_format = _joined_columns(parts, n_outputs, row_format)
    parts.clear()
    for column in columns.values():
        if isinstance(column, np.ndarray):
            column.setflags(write=False)  # so that it need not be copied
    return TreeEnsemble(
        **columns,
        row_format=row_format,
        output_names=None if output_names is None else tuple(output_names),
    )


def _joined_columns(
    parts: Sequence[Part], n_outputs: int, row_format: RowFormat | None
) -> tuple[dict[str, Any], RowFormat]:
    """The arrays of all parts end to end, and the rows that they read."""
    ensembles = [part.ensemble for part in parts]
    if row_format is None:
        row_format = ensembles[0].row_format
        if any(e.row_format != row_format for e in ensembles):
            raise UnsupportedModelError(
                "The models inside were trained on different columns, number types or categories. "
                "Explain them one by one: model.estimators_."
            )
    base_values = np.zeros(n_outputs)
    for part in parts:
        np.add.at(base_values, np.asarray(part.outputs), part.weight * part.ensemble.base_values)
    narrow = all(e.width == 1 for e in ensembles)
    set_shifts = np.cumsum([0] + [len(e.category_offsets) - 1 for e in ensembles])

    def joined(name: str) -> npt.NDArray[Any]:
        return np.concatenate([getattr(e, name) for e in ensembles])

    columns = {
        "tree_offsets": _chained([e.tree_offsets for e in ensembles]),
        "left": joined("left"),
        "right": joined("right"),
        "feature": np.concatenate([_renumbered(part) for part in parts]),
        "threshold": joined("threshold"),
        "cover": joined("cover"),
        "missing_left": joined("missing_left"),
        "value": np.concatenate([_spread(part, narrow, n_outputs) for part in parts]),
        "base_values": base_values,
        "lines": joined_lines([(_weighted_lines(part), part.ensemble.n_nodes) for part in parts]),
        "category_set": np.concatenate(
            [
                np.where(e.category_set >= 0, e.category_set + np.int32(shift), np.int32(-1))
                for e, shift in zip(ensembles, set_shifts[:-1], strict=True)
            ]
        ),
        "category_offsets": _chained([e.category_offsets for e in ensembles]),
        "category_codes": joined("category_codes"),
        "tree_output": np.concatenate(
            [
                np.asarray(part.outputs, dtype=np.int32)[part.ensemble.tree_output]
                if narrow
                else np.zeros(part.ensemble.n_trees, dtype=np.int32)
                for part in parts
            ]
        ),
    }
    return columns, row_format


def _chained(offsets: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """The offsets of several parts, as offsets of all of them one after another."""
    sizes = np.concatenate([np.diff(part) for part in offsets])
    return np.append(0, np.cumsum(sizes)).astype(np.int64)


def _renumbered(part: Part) -> Int32:
    """The part's features by their numbers in the whole."""
    feature = part.ensemble.feature
    if part.features is None:
        return feature
    # A leaf's -1 picks the last entry, which keeps it -1.
    return np.append(np.asarray(part.features), -1).astype(np.int32)[feature]


def _weighted_lines(part: Part) -> Lines | None:
    """The part's lines, its columns by their numbers in the whole."""
    lines = part.ensemble.lines
    if lines is None:
        return None
    column = (
        lines.column if part.features is None else np.asarray(part.features, dtype=np.int32)[lines.column]
    )
    return replace(lines.scaled(np.full(part.ensemble.n_nodes, part.weight)), column=column)


def _spread(part: Part, narrow: bool, n_outputs: int) -> npt.NDArray[np.float64]:
    """The part's weighted leaf values: one column if all parts are narrow, else one per output."""
    e = part.ensemble
    if narrow:
        return e.value * part.weight
    spread = np.zeros((e.n_nodes, n_outputs))
    outputs = np.asarray(part.outputs)
    for column in range(e.width):
        target = outputs[e.tree_output[e.tree_of_node] + column]
        spread[np.arange(e.n_nodes), target] = e.value[:, column] * part.weight
    return spread


def with_outputs(
    ensemble: TreeEnsemble,
    matrix: npt.NDArray[np.float64],
    offsets: npt.NDArray[np.float64] | float = 0.0,
    output_names: Sequence[str] | None = None,
) -> TreeEnsemble:
    """The ensemble whose outputs are ``matrix`` times the outputs of this one, plus ``offsets``."""
    value, tree_output, lines = ensemble.value, ensemble.tree_output, ensemble.lines
    if ensemble.width > 1:
        value = value @ matrix.T
        tree_output = np.zeros(ensemble.n_trees, dtype=np.int32)
    else:
        output = tree_output[ensemble.tree_of_node]
        if (np.count_nonzero(matrix, axis=0) <= 1).all():
            # Each output goes to one other, and leaves stay as narrow as they are.
            target = np.abs(matrix).argmax(axis=0).astype(np.int32)
            factor = matrix[target, np.arange(len(target))]
            value, tree_output = value * factor[output][:, None], target[tree_output]
            lines = None if lines is None else lines.scaled(factor[output])
        elif lines is not None:
            raise UnsupportedModelError(
                "A weighted sum in which an output of a model with linear leaves (linear_tree=True) counts "
                "for several others cannot be explained. Explain its parts one by one: model.estimators_."
            )
        else:
            value = value * matrix.T[output]
            tree_output = np.zeros(ensemble.n_trees, dtype=np.int32)
    return replace(
        ensemble,
        value=value,
        tree_output=tree_output,
        base_values=matrix @ ensemble.base_values + offsets,
        lines=lines,
        output_names=None if output_names is None else tuple(output_names),
    )


def pack_bits(bitsets: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.int64], Int32]:
    """Sets given as rows of 32-bit words, lowest bit first → (category_offsets, category_codes)."""
    words = np.ascontiguousarray(bitsets, dtype="<u4")
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    sets, codes = np.nonzero(bits)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(sets, minlength=len(words)))])
    return offsets.astype(np.int64), codes.astype(np.int32)
