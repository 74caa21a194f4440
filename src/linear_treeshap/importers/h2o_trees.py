"""The bytes of a tree in a MOJO of H2O → its nodes.

A node has a byte of flags, its column, where missing values go, a threshold or a set of categories, and then
its left and its right branch, each of which is a number or a node. So nodes come one after another, each
before those below it. What training knew of a node is in other bytes, by the number that its parent says.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError

__all__ = ["Tree", "parse_tree"]

#: The column of a tree that is one leaf.
_NO_COLUMN = 65535
#: Flags: how many bytes the size of the left branch takes, kinds of comparison, which branches are numbers.
_LEFT_SIZE, _COMPARISON, _LEFT_IS_LEAF, _RIGHT_IS_LEAF = 3, 12, 16, 64
_WITH_NUMBER, _WITH_SMALL_SET = 0, 8
#: Where missing values go: right, while all others go left; or left.
_MISSING_ALONE, _MISSING_LEFT = 1, (2, 4)


@dataclass
class Tree:
    """A number for each node, or a few."""

    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)  # the largest number that goes left
    missing_left: list[bool] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    cover: list[float] = field(default_factory=list)
    #: Node → the categories that go left, where it asks for categories.
    sets: dict[int, npt.NDArray[Any]] = field(default_factory=dict)
    #: How many categories the columns have that these nodes ask about, all together.
    n_asked: int = 0

    def add(self, cover: float) -> int:
        """One more node, a leaf so far; returns its number."""
        self.left.append(-1)
        self.right.append(-1)
        self.feature.append(-1)
        self.threshold.append(0.0)
        self.missing_left.append(False)
        self.value.append(0.0)
        self.cover.append(cover)
        return len(self.left) - 1


class _Branch(NamedTuple):
    """What is still to be read."""

    parent: int
    side: str
    is_leaf: bool
    n_skipped: int  # bytes that say how large it is
    number: int  # by which training knows it
    cover: float


def parse_tree(content: bytes, known: bytes, domain_sizes: Sequence[int], order: str, most: int) -> Tree:
    """Parse a tree: ``order`` is that of the bytes of a number; columns of numbers have domains of size 0.

    A node of a few bytes may ask about all categories of its column; ``most`` is for how many there is room.
    """
    try:
        return _Reader(content, known, domain_sizes, order, most).read()
    except (struct.error, IndexError, KeyError, ValueError) as error:
        raise FileFormatError(f"a tree is damaged or cut short: {error!r}.") from error


class _Reader:
    def __init__(
        self, content: bytes, known: bytes, domain_sizes: Sequence[int], order: str, most: int
    ) -> None:
        self._content, self._order, self._domain_sizes, self._most = content, order, domain_sizes, most
        self._at, self._tree = 0, Tree()
        # Its number, something else, the weights of its branches, four numbers, the numbers of its branches.
        records = struct.iter_unpack(f"{order}ii2f4f2i", known)
        self._known = {record[0]: (record[2:4], record[8:10]) for record in records}

    def read(self) -> Tree:
        tree = self._tree
        if struct.unpack_from(f"{self._order}xH", self._content) == (_NO_COLUMN,):
            tree.value[tree.add(0.0)] = self._take("xHf")[1]
            return tree
        waiting: list[_Branch] = []
        weights, _ = self._known[0]
        self._node(tree.add(sum(weights)), 0, waiting)
        while waiting:
            branch = waiting.pop()
            self._at += branch.n_skipped
            node = tree.add(branch.cover)
            getattr(tree, branch.side)[branch.parent] = node
            if branch.is_leaf:
                (tree.value[node],) = self._take("f")
            else:
                self._node(node, branch.number, waiting)
        if self._at != len(self._content):
            raise ValueError(f"{len(self._content) - self._at} bytes follow after its end")
        return tree

    def _node(self, node: int, number: int, waiting: list[_Branch]) -> None:
        """Read what a node asks, and put its branches where they wait; the last is the next."""
        tree = self._tree
        flags, tree.feature[node], direction = self._take("BHB")
        tree.missing_left[node] = direction in _MISSING_LEFT
        if direction == _MISSING_ALONE:
            tree.threshold[node] = np.inf
        elif flags & _COMPARISON == _WITH_NUMBER:
            (threshold,) = self._take("f")
            tree.threshold[node] = float(np.nextafter(threshold, -np.inf))
        else:
            tree.sets[node] = self._set(node, flags & _COMPARISON == _WITH_SMALL_SET)
        weights, numbers = self._known[number]
        # In forests the first split has counted all rows, and those below it the ones of the tree's sample.
        total = sum(weights)
        left, right = (tree.cover[node] * (w / total if total > 0 else 0.5) for w in weights)
        is_leaf = bool(flags & _RIGHT_IS_LEAF)
        waiting.append(_Branch(node, "right", is_leaf, 0, numbers[1], right))
        is_leaf = bool(flags & _LEFT_IS_LEAF)
        n_skipped = 0 if is_leaf else 1 + (flags & _LEFT_SIZE)
        waiting.append(_Branch(node, "left", is_leaf, n_skipped, numbers[0], left))

    def _set(self, node: int, is_small: bool) -> npt.NDArray[Any]:
        """The categories that go left: those not in the set, and beyond what it says, with missing values."""
        first, n_bits = (0, 32) if is_small else self._take("Hi")
        n_bytes = (n_bits + 7) // 8
        if not 0 <= n_bytes <= len(self._content) - self._at:
            raise ValueError(f"a set of {n_bits} categories")
        octets = np.frombuffer(self._content, np.uint8, n_bytes, self._at)
        self._at += n_bytes
        goes_right = np.unpackbits(octets, bitorder="little")[:n_bits].astype(np.bool_)
        domain_size = self._domain_sizes[self._tree.feature[node]]
        self._tree.n_asked += domain_size
        if self._tree.n_asked > self._most:
            raise FileFormatError("its nodes ask about far more categories than they name.")
        goes_left = np.full(domain_size, self._tree.missing_left[node])
        inside = goes_left[first : first + n_bits]
        inside[...] = ~goes_right[: len(inside)]
        return np.flatnonzero(goes_left).astype(np.int32)

    def _take(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(self._order + form, self._content, self._at)
        self._at += struct.calcsize(self._order + form)
        return found
