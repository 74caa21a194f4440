"""Ensembles that an ensemble with lines is the sum of: ordinary ones, whose leaves are numbers.

A prediction is ``C(row) + Σ_j row[j] · T_j(row)``, with the constants C of the leaves and, for each column j,
their slopes T_j. A leaf that reads a missing column has another constant and no slopes, which is a question
about the row as any other: is this column missing?
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .by_output import cut_short
from .ensemble import PER_NODE, TreeEnsemble
from .row_format import RowFormat

__all__ = ["constants", "slopes"]

Float64 = npt.NDArray[np.float64]


def constants(ensemble: TreeEnsemble, origin: Float64, *, may_miss: bool) -> TreeEnsemble:
    """C + Σ_j origin[j] · T_j: all that is left if columns are counted from ``origin``, (n_columns,).

    ``may_miss`` says that columns of lines may be missing in rows. The answer has one column more.
    """
    lines = ensemble.lines
    assert lines is not None
    value = ensemble.value[:, 0].copy()
    np.add.at(value, lines.node, lines.slope * origin[lines.column])
    return _with_a_column(_asking(ensemble, value, lines.if_missing if may_miss else None))


def slopes(ensemble: TreeEnsemble, column: int, *, if_present: bool, may_miss: bool) -> TreeEnsemble:
    """T_j of a column, for rows that have 1 in a column behind all others, or for those that have 0; nothing
    for the rest. There may be no trees in it."""
    lines = ensemble.lines
    assert lines is not None
    value, is_of = np.zeros(ensemble.n_nodes), lines.column == column
    np.add.at(value, lines.node[is_of], lines.slope[is_of])
    nothing = np.zeros(ensemble.n_nodes) if may_miss else None
    asking = replace(_asking(ensemble, value, nothing), base_values=np.zeros(ensemble.n_outputs))
    return _below_a_split(_with_a_column(cut_short(asking)), if_present=if_present)


def _asking(ensemble: TreeEnsemble, value: Float64, if_missing: Float64 | None) -> TreeEnsemble:
    """The trees with these values of leaves; those of leaves whose columns are missing, if they are given,
    take a question for each column of a leaf.

    The leaf becomes the question about its first column. On the right of a question is a leaf for rows that
    miss the column, on the left the next question, or at last the leaf for rows that miss none.
    """
    if if_missing is None:
        return replace(ensemble, value=value[:, None], lines=None)
    lines = ensemble.lines
    assert lines is not None
    n_terms = np.bincount(ensemble.tree_of_node[lines.node], minlength=ensemble.n_trees)
    old_sizes = np.diff(ensemble.tree_offsets)
    offsets = np.concatenate([[0], np.cumsum(old_sizes + 2 * n_terms)])
    tree = ensemble.tree_of_node[lines.node]
    place = np.arange(ensemble.n_nodes) + (offsets[:-1] - ensemble.tree_offsets[:-1])[ensemble.tree_of_node]
    first_of_tree = np.cumsum(n_terms) - n_terms
    following = offsets[tree] + old_sizes[tree] + 2 * (np.arange(len(tree)) - first_of_tree[tree])
    is_first = lines.first_term[lines.node] == np.arange(len(tree))
    question = np.where(is_first, place[lines.node], np.roll(following, 1))
    leaf_cover = ensemble.cover[lines.node]

    def spread(name: str, of_question: Any, of_following: Any, of_missing: Any) -> npt.NDArray[Any]:
        old = getattr(ensemble, name)
        out = np.zeros(int(offsets[-1]), dtype=old.dtype)
        out[place] = old
        out[following], out[following + 1] = of_following, of_missing
        out[question] = of_question
        return out

    root = offsets[tree]
    # What follows a question is a leaf, unless another question of the same leaf takes its place.
    new = np.zeros(int(offsets[-1]))
    new[place] = value
    new[following], new[following + 1] = value[lines.node], if_missing[lines.node]
    new[question] = 0.0
    return replace(
        ensemble,
        tree_offsets=offsets,
        left=spread("left", following - root, -1, -1),
        right=spread("right", following + 1 - root, -1, -1),
        feature=spread("feature", lines.column, -1, -1),
        threshold=spread("threshold", np.inf, 0.0, 0.0),
        cover=spread("cover", leaf_cover, leaf_cover, 0.0),
        missing_left=spread("missing_left", False, False, False),
        category_set=spread("category_set", -1, -1, -1),
        value=new[:, None],
        lines=None,
    )


def _with_a_column(ensemble: TreeEnsemble) -> TreeEnsemble:
    """The same for rows with one column more, which are ready to be read."""
    row_format = ensemble.row_format
    return replace(ensemble, row_format=RowFormat(row_format.n_columns + 1, dtype=row_format.dtype))


def _below_a_split(ensemble: TreeEnsemble, *, if_present: bool) -> TreeEnsemble:
    """Trees that give nothing unless the last column is 1, or unless it is 0; those that give nothing anyway
    are left out."""
    is_used = np.zeros(ensemble.n_trees, dtype=np.bool_)
    is_used[ensemble.tree_of_node[ensemble.value[:, 0] != 0]] = True
    kept = is_used[ensemble.tree_of_node]
    sizes = np.diff(ensemble.tree_offsets)[is_used]
    # A tree gets a root and an empty leaf before its nodes.
    at = np.cumsum(sizes) - sizes
    here = {name: getattr(ensemble, name)[kept] for name in (*PER_NODE, "value")}
    root_cover = here["cover"][at]
    for name in ("left", "right"):
        here[name] = np.where(here[name] >= 0, here[name] + 2, -1)
    tree, empty = np.full(len(at), 2), np.full(len(at), 1)
    tops: dict[str, tuple[Any, Any]] = {
        "left": (empty if if_present else tree, -1),
        "right": (tree if if_present else empty, -1),
        "feature": (ensemble.n_columns - 1, -1),
        "threshold": (0.5, 0.0),
        "cover": (root_cover, 0.0),
        "missing_left": (False, False),
        "category_set": (-1, -1),
        "value": (0.0, 0.0),
    }
    grown: dict[str, Any] = {}
    for name, (of_root, of_empty) in tops.items():
        pair = np.stack([np.broadcast_to(of_root, len(at)), np.broadcast_to(of_empty, len(at))], axis=1)
        column = here[name][:, 0] if name == "value" else here[name]
        grown[name] = np.insert(column, np.repeat(at, 2), pair.ravel().astype(column.dtype))
    grown["value"] = grown["value"][:, None]
    return replace(
        ensemble,
        tree_offsets=np.concatenate([[0], np.cumsum(sizes + 2)]),
        tree_output=ensemble.tree_output[is_used],
        **grown,
    )
