"""TreeEnsemble: the one representation of a model.

Importers make it, everything after them reads it, and nothing after them asks where a model came
from. All trees lie one after another in flat arrays; nothing is padded. What always holds is
checked once, on construction:

- a tree's nodes are ``tree_offsets[t]:tree_offsets[t + 1]``, its root is the first of them, every
  other node is the child of exactly one node;
- a row goes left iff its value is ``<= threshold`` (numeric) or its code is in the node's set
  (categorical); a missing value goes left iff ``missing_left``;
- tree ``t`` adds its leaf's ``value`` to outputs ``tree_output[t] : tree_output[t] + width``, and ``lines``,
  if the leaf has any, besides;
- a raw prediction is ``base_values`` plus what the trees add: averaging, learning rates, DART
  weights and base scores are already in the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError, InputError, ModelError, UnsupportedModelError
from ..model.row_format import RowFormat
from .lines import Lines

__all__ = [
    "PER_NODE",
    "TreeEnsemble",
    "check_n_outputs",
    "first_trees",
    "levels",
    "only_output",
    "require_numbers",
    "widened",
]

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

#: Libraries sum covers in float32 and in different orders: XGBoost's parents and children differ by
#: some 1e-6. A child that is off by more than this is a different tree's, or a bug.
_COVER_TOLERANCE = 1e-3

#: A file may claim this many outputs without a word about any of them: memory is asked for on its word.
_MAX_UNSEEN_OUTPUTS = 1 << 16


def check_n_outputs(n_outputs: int, *, n_known: int) -> None:
    """Raise FileFormatError if a file claims more outputs than ``n_known``, of which it has numbers, and than
    an untrained model could have."""
    if not 1 <= n_outputs <= max(n_known, _MAX_UNSEEN_OUTPUTS):
        raise FileFormatError(
            f"The model is damaged: it claims {n_outputs:,} outputs, and has numbers for {n_known:,} at most."
        )


@dataclass(frozen=True, eq=False, repr=False)
class TreeEnsemble:
    """A sum of decision trees as flat arrays.

    Examples
    --------
    One stump: 1.0 up to ``x <= 0.5``, else 3.0, with three training rows out of four on the left.

    >>> stump = TreeEnsemble(
    ...     tree_offsets=[0, 3], left=[1, -1, -1], right=[2, -1, -1], feature=[0, -1, -1],
    ...     threshold=[0.5, 0, 0], cover=[4, 3, 1], value=[[0], [1], [3]],
    ...     base_values=[10], row_format=RowFormat(n_features=1),
    ... )
    >>> stump
    TreeEnsemble(1 tree, 2 leaves, depth 1, 1 feature, 1 output)
    >>> stump.predict([[0.5], [0.6]])
    array([[11.],
           [13.]])
    >>> stump.expected_value
    array([11.5])
    """

    tree_offsets: Int64  # (n_trees + 1,)
    left: Int32  # (n_nodes,) child, counted from the tree's root; -1 at a leaf
    right: Int32  # (n_nodes,)
    feature: Int32  # (n_nodes,) -1 at a leaf
    threshold: Float64  # (n_nodes,) unused at leaves and categorical nodes
    cover: Float64  # (n_nodes,) training weight that reached the node
    value: Float64  # (n_nodes, width) zero at inner nodes
    base_values: Float64  # (n_outputs,)
    row_format: RowFormat
    missing_left: Bool = None  # type: ignore[assignment]  # (n_nodes,) default: all False
    category_set: Int32 = None  # type: ignore[assignment]  # (n_nodes,) index of a set, -1 if numeric
    category_offsets: Int64 = field(default=(0,))  # type: ignore[arg-type]  # (n_sets + 1,)
    category_codes: Int32 = field(default=())  # type: ignore[arg-type]  # sorted within a set
    tree_output: Int32 = None  # type: ignore[assignment]  # (n_trees,) first output it adds to
    output_names: tuple[str, ...] | None = None
    #: Column → 1 or -1: all outputs were trained to rise, or to fall, with it, as far as the model says so.
    monotone: Mapping[int, int] = field(default_factory=dict)
    lines: Lines | None = None  # what leaves add that are linear functions of columns

    def __post_init__(self) -> None:
        def store(name: str, dtype: Any, ndim: int = 1) -> Any:
            array = _frozen_array(name, getattr(self, name), dtype, ndim)
            object.__setattr__(self, name, array)
            return array

        store("tree_offsets", np.int64)
        left = store("left", np.int32)
        if self.missing_left is None:
            object.__setattr__(self, "missing_left", np.zeros(len(left), dtype=np.bool_))
        if self.category_set is None:
            object.__setattr__(self, "category_set", np.full(len(left), -1, dtype=np.int32))
        if self.tree_output is None:
            object.__setattr__(self, "tree_output", np.zeros(self.n_trees, dtype=np.int32))
        for name in ("right", "feature", "category_set", "category_codes", "tree_output"):
            store(name, np.int32)
        for name in ("threshold", "cover", "base_values"):
            store(name, np.float64)
        store("value", np.float64, ndim=2)
        store("missing_left", np.bool_)
        store("category_offsets", np.int64)
        if self.output_names is not None:
            object.__setattr__(self, "output_names", tuple(map(str, self.output_names)))
        _check(self)
        if self.lines is not None:
            self.lines.check(self)

    # -- sizes -----------------------------------------------------------------------------------

    @property
    def n_trees(self) -> int:
        return max(len(self.tree_offsets) - 1, 0)

    @property
    def n_nodes(self) -> int:
        return len(self.left)

    @property
    def n_leaves(self) -> int:
        return int(np.count_nonzero(self.is_leaf))

    @property
    def n_features(self) -> int:
        return self.row_format.n_features

    @property
    def n_columns(self) -> int:
        """How many numbers the trees read of a row: its features, and what is looked up for them."""
        return self.row_format.n_columns

    @property
    def n_outputs(self) -> int:
        return len(self.base_values)

    @property
    def width(self) -> int:
        """How many outputs each leaf adds to: 1, or all of them."""
        return int(self.value.shape[1])

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        return self.row_format.feature_names

    @property
    def is_leaf(self) -> Bool:
        return self.left < 0

    @cached_property
    def tree_of_node(self) -> Int32:
        """(n_nodes,) the tree each node belongs to."""
        return np.repeat(np.arange(self.n_trees, dtype=np.int32), np.diff(self.tree_offsets))

    @cached_property
    def depth(self) -> int:
        """Edges on the longest path from a root to a leaf."""
        return _walk_levels(self)[0]

    # -- meaning ---------------------------------------------------------------------------------

    @cached_property
    def cover_ratio(self) -> Float64:
        """(n_nodes,) share of its parent's training rows that went to this node; 1 at roots.

        Shares are in proportion to the covers of both children, so they add up to 1, which the parent's own
        cover, summed elsewhere and rounded, does not promise. Below a node without any cover both children
        count one half, as in XGBoost.
        """
        ratio = np.ones(self.n_nodes)
        inner = np.flatnonzero(~self.is_leaf)
        root = self.tree_offsets[self.tree_of_node[inner]]
        left, right = root + self.left[inner], root + self.right[inner]
        with np.errstate(over="ignore"):
            scale = np.where(np.isinf(self.cover[left] + self.cover[right]), 0.5, 1.0)
        both = scale * self.cover[left] + scale * self.cover[right]
        for node in (left, right):
            ratio[node] = 0.5
            np.divide(scale * self.cover[node], both, out=(share := ratio[node]), where=both > 0)
            ratio[node] = share
        ratio.setflags(write=False)
        return ratio

    @cached_property
    def reach(self) -> Float64:
        """(n_nodes,) share of the root's cover that arrives here: the product of the ratios down to it."""
        reach = np.ones(self.n_nodes)
        for nodes, parents in levels(self):
            reach[nodes] = reach[parents] * self.cover_ratio[nodes]
        reach.setflags(write=False)
        return reach

    @cached_property
    def expected_value(self) -> Float64:
        """(n_outputs,) the raw prediction when every feature is missing from the coalition."""
        require_numbers(self)
        weighted = np.where(self.is_leaf[:, None], self.value * self.reach[:, None], 0.0)
        expected: Float64 = np.array(self.base_values)
        per_tree = np.zeros((self.n_trees, self.width))
        np.add.at(per_tree, self.tree_of_node, weighted)
        for column in range(self.width):
            np.add.at(expected, self.tree_output + column, per_tree[:, column])
        expected.setflags(write=False)
        return expected

    def category_set_codes(self, index: int) -> Int32:
        """The codes that category set ``index`` sends left."""
        return self.category_codes[self.category_offsets[index] : self.category_offsets[index + 1]]

    def goes_left(self, node: int, x: Float64) -> Bool:
        """(n,) which of the values ``x`` of this node's feature go left."""
        if self.category_set[node] >= 0:
            codes = self.category_set_codes(int(self.category_set[node]))
            # A code is the number without its fraction, and negative numbers are codes of nothing.
            with np.errstate(invalid="ignore"):
                in_set = np.isin(np.trunc(x), codes) & (x >= 0)
        else:
            in_set = x <= self.threshold[node]
        return np.where(np.isnan(x), self.missing_left[node], in_set)

    def cast_rows(self, X: npt.ArrayLike) -> Float64:
        """(n_rows, n_columns) the numbers as trees compare them: rounded to the model's dtype."""
        rows = np.asarray(X)
        if rows.ndim != 2 or rows.shape[1] != self.n_columns:
            raise InputError(f"Rows must be an array of shape (n_rows, {self.n_columns}), got {rows.shape}.")
        with np.errstate(over="ignore"):
            return rows.astype(self.row_format.numpy_dtype).astype(np.float64)

    def predict(self, X: npt.ArrayLike) -> Float64:
        """Raw predictions, slowly and obviously; the yardstick for everything that is fast.

        ``X`` holds numbers as `RowFormat` describes them: NaN for missing, codes for categories.
        Returns an array of shape (n_rows, n_outputs).
        """
        rows = self.cast_rows(X)
        out = np.tile(self.base_values, (len(rows), 1))
        for tree, root in enumerate(self.tree_offsets[:-1]):
            outputs = slice(self.tree_output[tree], self.tree_output[tree] + self.width)
            pending = [(int(root), np.arange(len(rows)))]
            while pending:
                node, here = pending.pop()
                if self.left[node] < 0:
                    out[here, outputs] += self._added(node, rows[here])
                    continue
                goes_left = self.goes_left(node, rows[here, self.feature[node]])
                pending.append((int(root + self.left[node]), here[goes_left]))
                pending.append((int(root + self.right[node]), here[~goes_left]))
        return out

    def _added(self, leaf: int, rows: Float64) -> Float64:
        """(n_rows, width) what a leaf adds for rows that are in it."""
        if self.lines is None:
            return np.broadcast_to(self.value[leaf], (len(rows), self.width))
        return self.lines.values(self.value[:, 0], np.full((len(rows), 1), leaf), rows)

    def __repr__(self) -> str:
        def count(n: int, noun: str, plural: str | None = None) -> str:
            return f"{n:,} {noun if n == 1 else plural or noun + 's'}"

        return (
            f"TreeEnsemble({count(self.n_trees, 'tree')}, {count(self.n_leaves, 'leaf', 'leaves')}, "
            f"depth {self.depth}, {count(self.n_features, 'feature')}, {count(self.n_outputs, 'output')})"
        )

    def __getstate__(self) -> dict[str, Any]:
        # Leave cached properties behind: they are cheap to make again.
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()


def monotone_columns(directions: Iterable[int]) -> dict[int, int]:
    """``monotone`` of a direction for each column, which is 0 for those that have none."""
    return {column: int(direction) for column, direction in enumerate(directions) if direction}


def require_numbers(ensemble: TreeEnsemble) -> None:
    """Raise UnsupportedModelError if leaves are functions of columns, where they must be numbers."""
    if ensemble.lines is not None:
        raise UnsupportedModelError(
            "The leaves of this model are linear functions of columns (linear_tree=True), and what such a "
            "function gives for a column that is absent is not in the model: path-dependent values, which "
            "know shares of rows only, are not defined. Pass background rows as data=, with "
            "feature_perturbation='interventional': then an absent column has theirs, and values are exact."
        )


def first_trees(ensemble: TreeEnsemble, n_trees: int | None) -> TreeEnsemble:
    """The ensemble of the first trees only; the same one if that is all of them."""
    if n_trees is None or n_trees in (0, -1):
        return ensemble
    if isinstance(n_trees, bool) or not isinstance(n_trees, (int, np.integer)) or n_trees < 0:
        raise InputError(f"tree_limit must be a number of trees, or None, 0 or -1 for all; got {n_trees!r}.")
    if n_trees >= ensemble.n_trees:
        return ensemble
    nodes = slice(0, int(ensemble.tree_offsets[n_trees]))
    return replace(
        ensemble,
        tree_offsets=ensemble.tree_offsets[: n_trees + 1],
        tree_output=ensemble.tree_output[:n_trees],
        value=ensemble.value[nodes],
        lines=None if ensemble.lines is None else ensemble.lines.taken(np.arange(nodes.stop)),
        **{name: getattr(ensemble, name)[nodes] for name in PER_NODE},
    )


def widened(ensemble: TreeEnsemble, n_features: int) -> TreeEnsemble:
    """The same trees over more columns, and no others."""
    row_format = replace(ensemble.row_format, n_features=n_features, takes_more=False)
    return replace(ensemble, row_format=row_format)


def only_output(ensemble: TreeEnsemble, output: int) -> TreeEnsemble:
    """The ensemble of one output: the trees that speak of it, and of vector leaves its own column."""
    if ensemble.n_outputs == 1:
        return ensemble
    is_used = (ensemble.tree_output <= output) & (output < ensemble.tree_output + ensemble.width)
    nodes = is_used[ensemble.tree_of_node]
    column = output - ensemble.tree_output[ensemble.tree_of_node[nodes]]
    return replace(
        ensemble,
        tree_offsets=np.concatenate([[0], np.cumsum(np.diff(ensemble.tree_offsets)[is_used])]),
        tree_output=np.zeros(int(is_used.sum()), dtype=np.int32),
        value=ensemble.value[nodes, column][:, None],
        base_values=ensemble.base_values[[output]],
        output_names=None if ensemble.output_names is None else (ensemble.output_names[output],),
        lines=None if ensemble.lines is None else ensemble.lines.taken(np.flatnonzero(nodes)),
        **{name: getattr(ensemble, name)[nodes] for name in PER_NODE},
    )


#: The arrays of an ensemble that have an entry for each node, besides its values.
PER_NODE = ("left", "right", "feature", "threshold", "cover", "missing_left", "category_set")


def _frozen_array(name: str, given: Any, dtype: Any, ndim: int) -> npt.NDArray[Any]:
    """The array to store: of the right type, contiguous, read-only, and not the caller's to change."""
    try:
        array = np.asarray(given)
        if array.size and not np.can_cast(array.dtype, dtype, "safe"):
            # Doubles may round to the nearest float64; integers must survive unchanged.
            with np.errstate(invalid="ignore"):
                exact = np.issubdtype(dtype, np.floating) or np.array_equal(array, array.astype(dtype))
            if array.dtype.kind not in "iuf" or not exact:
                raise TypeError(f"cannot turn {array.dtype} into {np.dtype(dtype)} without loss")
        # A read-only view is still the caller's to change, through the array below it.
        shared = array.flags.writeable or isinstance(array.base, np.ndarray)
        array = (np.array if shared else np.asarray)(array, dtype=dtype, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"{name} must be an array of {np.dtype(dtype)}: {error}.") from error
    if array.ndim != ndim:
        raise ModelError(f"{name} must have {ndim} dimension(s), got shape {array.shape}.")
    array.setflags(write=False)
    return array


def levels(ensemble: TreeEnsemble) -> Iterator[tuple[Int64, Int64]]:
    """All non-root nodes from the top down, a level at a time, with their parents; left children come first.

    Only for an ensemble whose child indices are in range; a cycle never ends here, so `_check`
    counts parents first.
    """
    parents = ensemble.tree_offsets[:-1].copy()
    parents = parents[ensemble.left[parents] >= 0]
    while parents.size:
        root = ensemble.tree_offsets[ensemble.tree_of_node[parents]]
        nodes = np.concatenate([root + ensemble.left[parents], root + ensemble.right[parents]])
        yield nodes, np.concatenate([parents, parents])
        parents = nodes[ensemble.left[nodes] >= 0]


def _walk_levels(ensemble: TreeEnsemble) -> tuple[int, int]:
    """Depth of the deepest tree, and how many nodes can be reached from the roots."""
    sizes = [len(nodes) for nodes, _ in levels(ensemble)]
    return len(sizes), ensemble.n_trees + sum(sizes)


def _check(e: TreeEnsemble) -> None:
    """Raise ModelError, naming tree, node and value, unless ``e`` is a well-formed ensemble."""

    def refuse(bad: Any, complaint: str, values: Any = None) -> None:
        """Complain about the first node for which ``bad`` holds."""
        if not np.any(bad):
            return
        node = int(np.argmax(bad))
        tree = int(np.searchsorted(e.tree_offsets, node, side="right")) - 1
        shown = "" if values is None else f" (got {values[node]})"
        raise ModelError(f"Tree {tree}, node {node - e.tree_offsets[tree]}: {complaint}{shown}.")

    offsets, n_nodes = e.tree_offsets, e.n_nodes
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != n_nodes:
        raise ModelError(f"tree_offsets must run from 0 to the number of nodes, {n_nodes}.")
    # Not by differences: those of hostile numbers wrap around and look harmless.
    empty = np.flatnonzero(offsets[1:] <= offsets[:-1])
    if empty.size:
        raise ModelError(f"Tree {empty[0]} has no nodes: tree_offsets must increase.")
    per_node = ("right", "feature", "threshold", "cover", "value", "missing_left", "category_set")
    for name in per_node:
        if len(getattr(e, name)) != n_nodes:
            raise ModelError(f"{name} has {len(getattr(e, name))} entries for {n_nodes} nodes.")

    size = np.diff(offsets)[e.tree_of_node]
    leaf = e.is_leaf
    refuse(leaf != (e.right < 0), "a node has either two children or none")
    for side, child in (("left", e.left), ("right", e.right)):
        refuse(~leaf & ((child < 1) | (child >= size)), f"{side} child is out of range", child)
    root = offsets[e.tree_of_node]
    parents = np.bincount((root + e.left)[~leaf], minlength=n_nodes) + np.bincount(
        (root + e.right)[~leaf], minlength=n_nodes
    )
    refuse(parents > 1, "a node is the child of more than one node (a cycle, or a shared subtree)")
    if _walk_levels(e)[1] != n_nodes:
        seen = np.zeros(n_nodes, dtype=np.bool_)
        seen[offsets[:-1]] = True
        for nodes, _ in levels(e):
            seen[nodes] = True
        refuse(~seen, "the node cannot be reached from the root")

    refuse(~leaf & ((e.feature < 0) | (e.feature >= e.n_columns)), "feature is out of range", e.feature)
    refuse(~leaf & np.isnan(e.threshold) & (e.category_set < 0), "the threshold is NaN")
    refuse(leaf & ~np.isfinite(e.value).all(axis=1), "a leaf value is not finite", e.value)
    refuse(~np.isfinite(e.cover) | (e.cover < 0), "cover must be finite and not negative", e.cover)
    inner = np.flatnonzero(~leaf)
    gap = np.zeros(n_nodes)
    cover = 0.5 * e.cover  # the sum of two halves cannot overflow
    children = cover[(root + e.left)[inner]] + cover[(root + e.right)[inner]]
    gap[inner] = np.abs(children - cover[inner]) / np.maximum(np.maximum(children, cover[inner]), 1e-300)
    refuse(gap > _COVER_TOLERANCE, "the children's covers do not add up to the node's cover", e.cover)
    for column, direction in e.monotone.items():
        if not (0 <= column < e.n_columns and direction in (1, -1)):
            raise ModelError(f"monotone must map columns to 1 or -1, got {column!r}: {direction!r}.")
    _check_categories(e, refuse)
    _check_outputs(e)


def _check_categories(e: TreeEnsemble, refuse: Any) -> None:
    offsets = e.category_offsets
    if (
        len(offsets) == 0
        or offsets[0] != 0
        or offsets[-1] != len(e.category_codes)
        or (offsets[1:] < offsets[:-1]).any()
    ):
        raise ModelError(
            f"category_offsets must rise from 0 to the number of category codes, {len(e.category_codes)}."
        )
    refuse(
        (e.category_set < -1) | (e.category_set >= len(offsets) - 1), "no such category set", e.category_set
    )
    if (e.category_codes < 0).any():
        raise ModelError(f"Category codes must not be negative, got {np.min(e.category_codes)}.")
    rising = np.ones(len(e.category_codes), dtype=np.bool_)
    rising[1:] = np.diff(e.category_codes) > 0
    rising[offsets[:-1][offsets[:-1] < len(rising)]] = True
    if not rising.all():
        raise ModelError("The codes of a category set must be sorted and distinct.")


def _check_outputs(e: TreeEnsemble) -> None:
    if e.n_outputs == 0:
        raise ModelError("A model needs at least one output: base_values is empty.")
    if not np.isfinite(e.base_values).all():
        raise ModelError(f"base_values must be finite, got {e.base_values}.")
    if e.width not in (1, e.n_outputs):
        raise ModelError(f"Leaves hold {e.width} values; expected 1 or {e.n_outputs}, one per output.")
    if len(e.tree_output) != e.n_trees:
        raise ModelError(f"tree_output has {len(e.tree_output)} entries for {e.n_trees} trees.")
    beyond = (e.tree_output < 0) | (e.tree_output > e.n_outputs - e.width)
    if beyond.any():
        tree = int(np.argmax(beyond))
        raise ModelError(
            f"Tree {tree} adds to output {e.tree_output[tree]}, but there are {e.n_outputs} outputs."
        )
    if e.output_names is not None and len(e.output_names) != e.n_outputs:
        raise ModelError(f"{len(e.output_names)} output names were given for {e.n_outputs} outputs.")
