"""Random ensembles and the rows that hurt them.

`random_ensemble` and `random_rows` need a NumPy generator and nothing else; `drawn.ensembles` hands the
same ensembles to hypothesis, with sizes that shrink. `chain` makes the deepest tree there is, `complete` the
bushiest, `copies` many trees of few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from linear_treeshap.model.ensemble import TreeEnsemble
from linear_treeshap.model.row_format import RowFormat

__all__ = [
    "chain",
    "complete",
    "copies",
    "random_ensemble",
    "random_rows",
    "rows_as_read",
    "symmetric_tree",
]

Rows = npt.NDArray[np.float64]

#: Few thresholds, so that a feature meets the same one again; exact in float32, so that ties exist.
THRESHOLDS = (-1.5, -0.25, 0.0, 0.5, 0.625, 2.0)
N_CODES = 6
ROOT_COVER = 1_000_000


@dataclass
class _Nodes:
    """The nodes of one tree while it grows; node 0 is the root."""

    cover: list[float]
    left: list[int] = field(default_factory=lambda: [-1])
    right: list[int] = field(default_factory=lambda: [-1])
    feature: list[int] = field(default_factory=lambda: [-1])
    threshold: list[float] = field(default_factory=lambda: [0.0])
    codes: list[list[int] | None] = field(default_factory=lambda: [None])

    def split(self, node: int, feature: int, left_cover: float, right_cover: float) -> tuple[int, int]:
        left = len(self.left)
        self.feature[node], self.left[node], self.right[node] = feature, left, left + 1
        for cover in (left_cover, right_cover):
            self.cover.append(cover)
            self.left.append(-1)
            self.right.append(-1)
            self.feature.append(-1)
            self.threshold.append(0.0)
            self.codes.append(None)
        return left, left + 1

    def reorder(self, order: npt.NDArray[np.intp]) -> None:
        """Put node ``order[i]`` at place ``i``."""
        place = np.argsort(order).tolist()
        for column in (self.cover, self.left, self.right, self.feature, self.threshold, self.codes):
            column[:] = [column[node] for node in order.tolist()]
        for children in (self.left, self.right):
            children[:] = [place[child] if child >= 0 else -1 for child in children]


def random_ensemble(
    rng: np.random.Generator,
    *,
    n_features: int = 5,
    n_trees: int = 2,
    max_depth: int = 5,
    max_leaves: int = 24,
    n_outputs: int = 1,
    vector_leaves: bool = False,
    categorical: bool = True,
    zero_cover: bool = False,
    dtype: Literal["float32", "float64"] = "float64",
) -> TreeEnsemble:
    """An ensemble with repeated features, very uneven covers and any shape between bush and chain.

    Covers are whole numbers in most ensembles and sums of float32 weights, which do not quite add
    up, in the others. With ``zero_cover`` some children, and all that is below them, have none.
    """
    kinds = rng.random(n_features) < 0.3 if categorical else np.zeros(n_features, dtype=bool)
    # Half of the trees may be as deep as allowed; the rest are shallower, down to a single leaf.
    depths = [max_depth if rng.random() < 0.5 else int(rng.integers(max_depth + 1)) for _ in range(n_trees)]
    trees = [_random_tree(rng, kinds, depth, max_leaves, zero_cover) for depth in depths]
    if rng.random() < 0.3:
        for tree in trees:
            scale = np.float32(rng.uniform(0.01, 0.9))
            tree.cover = [float(np.float32(cover) * scale) for cover in tree.cover]
    width = n_outputs if vector_leaves else 1
    left = np.concatenate([tree.left for tree in trees])
    sets = [codes for tree in trees for codes in tree.codes]
    used = [codes for codes in sets if codes is not None]
    number = iter(range(len(used)))
    value = np.where(left[:, None] < 0, rng.normal(size=(len(left), width)), 0.0)
    return TreeEnsemble(
        tree_offsets=np.cumsum([0, *(len(tree.left) for tree in trees)]),
        left=left,
        right=np.concatenate([tree.right for tree in trees]),
        feature=np.concatenate([tree.feature for tree in trees]),
        threshold=np.concatenate([tree.threshold for tree in trees]),
        cover=np.concatenate([tree.cover for tree in trees]),
        value=value,
        base_values=rng.normal(size=n_outputs),
        row_format=RowFormat(n_features=n_features, dtype=dtype),
        missing_left=rng.random(len(left)) < 0.5,
        category_set=np.array([-1 if codes is None else next(number) for codes in sets]),
        category_offsets=np.cumsum([0, *map(len, used)]),
        category_codes=np.array([code for codes in used for code in codes], dtype=np.int32),
        tree_output=rng.integers(n_outputs - width + 1, size=n_trees, dtype=np.int32),
    )


def _random_tree(
    rng: np.random.Generator, is_categorical: npt.NDArray[np.bool_], depth: int, max_leaves: int, zero: bool
) -> _Nodes:
    """Split a random leaf, or for chain-like trees the newest one, until there are enough leaves."""
    tree = _Nodes(cover=[float(ROOT_COVER)])
    splittable = [(0, 0)]  # (node, its depth)
    n_leaves, target = 1, int(rng.integers(1, max_leaves + 1))
    newest_first = rng.random()
    while splittable and n_leaves < target:
        pick = len(splittable) - 1 if rng.random() < newest_first else int(rng.integers(len(splittable)))
        node, level = splittable.pop(pick)
        if level >= depth or (tree.cover[node] < 2 and not zero):
            continue
        feature = int(rng.integers(len(is_categorical)))
        left_cover = _random_share(rng, int(tree.cover[node]), zero)
        children = tree.split(node, feature, left_cover, tree.cover[node] - left_cover)
        if is_categorical[feature]:
            tree.codes[node] = np.flatnonzero(rng.random(N_CODES) < 0.4).tolist()
        else:
            tree.threshold[node] = _random_threshold(rng)
        splittable += [(child, level + 1) for child in children]
        n_leaves += 1
    if rng.random() < 0.5:  # importers need not put parents before children
        tree.reorder(np.concatenate([[0], 1 + rng.permutation(len(tree.left) - 1)]).astype(np.intp))
    return tree


def _random_share(rng: np.random.Generator, cover: int, zero: bool) -> float:
    if zero and (cover < 2 or rng.random() < 0.25):
        return float(_one_of(rng, [0, cover]))
    uneven = [1, cover - 1, max(1, cover // 1000), cover - cover // 2]
    return float(_one_of(rng, uneven) if rng.random() < 0.4 else rng.integers(1, cover))


def _random_threshold(rng: np.random.Generator) -> float:
    if rng.random() < 0.05:
        return float(_one_of(rng, [-np.inf, np.inf, np.finfo(np.float32).max]))
    return float(_one_of(rng, THRESHOLDS)) if rng.random() < 0.8 else float(rng.normal())


def _one_of(rng: np.random.Generator, options: Sequence[float]) -> float:
    """As ``rng.choice``, which makes an array of them first."""
    return options[int(rng.integers(len(options)))]


def random_rows(rng: np.random.Generator, ensemble: TreeEnsemble, n_rows: int) -> Rows:
    """(n_rows, n_features) rows on thresholds and one ulp of the model's dtype to either side, missing
    values, infinities; known, unknown, fractional and negative category codes."""
    dtype = ensemble.row_format.numpy_dtype
    rows = np.empty((n_rows, ensemble.n_features))
    for feature in range(ensemble.n_features):
        nodes = ensemble.feature == feature
        if (ensemble.category_set[nodes] >= 0).any():
            rows[:, feature] = rng.choice([*range(N_CODES + 1), 1.5, -1, -0.5], size=n_rows)
        else:
            thresholds = np.concatenate([ensemble.threshold[nodes], [0.0]])
            with np.errstate(over="ignore"):
                ties = rng.choice(thresholds, size=n_rows).astype(dtype)
            toward = rng.choice([-np.inf, np.inf], size=n_rows).astype(dtype)
            with np.errstate(over="ignore", under="ignore"):
                near = np.where(rng.random(n_rows) < 0.5, ties, np.nextafter(ties, toward))
            rows[:, feature] = np.where(rng.random(n_rows) < 0.6, near, rng.normal(size=n_rows))
        odd = rng.choice([np.nan, np.nan, np.inf, -np.inf, 1e300, -0.0], size=n_rows)
        rows[:, feature] = np.where(rng.random(n_rows) < 0.15, odd, rows[:, feature])
    return rows


def rows_as_read(rng: np.random.Generator, ensemble: TreeEnsemble, n_rows: int) -> npt.NDArray[np.floating]:
    """The same in the type of number that the model reads."""
    with np.errstate(over="ignore"):  # beyond float32 is infinity
        return random_rows(rng, ensemble, n_rows).astype(ensemble.row_format.numpy_dtype)


def chain(features: Sequence[int], *, share: float | Sequence[float] = 0.5) -> TreeEnsemble:
    """A tree with one leaf hanging to the right of each inner node, which splits on ``features[depth]``.

    ``x[feature] <= 0`` goes on down, with ``share`` of the cover. Leaf values alternate in sign.
    """
    depth = len(features)
    shares = np.broadcast_to(np.asarray(share, dtype=np.float64), depth)
    reach = np.concatenate([[1.0], np.cumprod(shares)])
    # Inner nodes at even places, each followed by its leaf; the last leaf ends the chain.
    left, right, feature = (np.full(2 * depth + 1, -1) for _ in range(3))
    inner = 2 * np.arange(depth)
    left[inner], right[inner], feature[inner] = inner + 2, inner + 1, features
    cover = np.zeros(2 * depth + 1)
    cover[::2] = reach
    cover[1::2] = reach[:-1] * (1 - shares)
    value = np.where(left < 0, np.where(np.arange(2 * depth + 1) % 4 < 2, 1.0, -0.5), 0.0)
    return TreeEnsemble(
        tree_offsets=np.array([0, 2 * depth + 1]),
        left=left,
        right=right,
        feature=feature,
        threshold=np.zeros(2 * depth + 1),
        cover=cover,
        value=value[:, None],
        base_values=np.zeros(1),
        row_format=RowFormat(n_features=max(features, default=-1) + 1),
    )


def complete(depth: int, n_features: int) -> TreeEnsemble:
    """A tree of 2^depth leaves; neighbouring levels ask different features, and so do neighbours."""
    n_inner, n_nodes = 2**depth - 1, 2 ** (depth + 1) - 1
    node = np.arange(n_nodes)
    level = np.log2(node + 1.0).astype(np.int64)
    is_inner = node < n_inner
    return TreeEnsemble(
        tree_offsets=np.array([0, n_nodes]),
        left=np.where(is_inner, 2 * node + 1, -1),
        right=np.where(is_inner, 2 * node + 2, -1),
        feature=np.where(is_inner, (7 * level + node) % n_features, -1),
        threshold=np.zeros(n_nodes),
        cover=np.exp2(depth - level).astype(np.float64),
        value=np.where(is_inner, 0.0, np.sin(node))[:, None],
        base_values=np.zeros(1),
        row_format=RowFormat(n_features=n_features),
    )


def copies(ensemble: TreeEnsemble, times: int) -> TreeEnsemble:
    """All trees, ``times`` over."""
    per_node = ("left", "right", "feature", "threshold", "cover", "missing_left", "category_set")
    arrays: dict[str, Any] = {name: np.tile(getattr(ensemble, name), times) for name in per_node}
    sizes = np.tile(np.diff(ensemble.tree_offsets), times)
    return replace(
        ensemble,
        tree_offsets=np.concatenate([[0], np.cumsum(sizes)]),
        value=np.tile(ensemble.value, (times, 1)),
        tree_output=np.tile(ensemble.tree_output, times),
        **arrays,
    )


def symmetric_tree(rng: np.random.Generator, depth: int, n_features: int, n_outputs: int = 1) -> TreeEnsemble:
    """All nodes of a level ask the same question; many leaves have no cover, as in CatBoost."""
    n_inner, n_nodes = 2**depth - 1, 2 ** (depth + 1) - 1
    node = np.arange(n_nodes)
    level = np.floor(np.log2(node + 1)).astype(int)
    inner = node < n_inner
    question = rng.integers(n_features, size=depth + 1)
    cover = np.zeros(n_nodes)
    cover[n_inner:] = rng.integers(0, 3, size=n_inner + 1)
    for i in range(n_inner - 1, -1, -1):
        cover[i] = cover[2 * i + 1] + cover[2 * i + 2]
    return TreeEnsemble(
        tree_offsets=np.array([0, n_nodes]),
        left=np.where(inner, 2 * node + 1, -1),
        right=np.where(inner, 2 * node + 2, -1),
        feature=np.where(inner, question[level], -1),
        threshold=np.where(inner, rng.normal(size=depth + 1)[level], 0.0),
        cover=cover,
        value=np.where(inner, 0.0, rng.normal(size=(n_outputs, n_nodes))).T,
        base_values=np.zeros(n_outputs),
        row_format=RowFormat(n_features=n_features),
    )
