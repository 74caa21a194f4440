"""Random cases of the differential fuzzer: a model, rows, and how they are to be explained.

The trees are those of the tests (`strategies`), made worse: cover ratios from 1e-12 to 1 - 1e-12, leaves that
are huge, tiny, zero, or all of these. A case can shrink: `smaller` gives cases with less in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import comb
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from strategies import chain, copies, random_ensemble, random_rows

from linear_treeshap import TreeEnsemble, kernels

__all__ = ["OUTPUTS", "Case", "as_dictionary", "large_case", "long_case", "repeated", "small_case"]

Rows = npt.NDArray[np.floating]

#: Functions of the raw output that a user might explain; finite for every raw output up to a million.
OUTPUTS: dict[str, Callable[[Any], Any]] = {
    "tanh": np.tanh,
    "square": np.square,
    "logistic": lambda raw: 1 / (1 + np.exp(-np.clip(raw, -700, 700))),
}
Kind = Literal["k-SII", "SII", "STII", "BII"] | None
KINDS: tuple[Kind, ...] = ("k-SII", "SII", "STII", "BII", None)
MAX_ORDER = 4


@dataclass(frozen=True)
class Case:
    ensemble: TreeEnsemble
    rows: Rows
    background: Rows | None = None
    weights: npt.NDArray[np.float64] | None = None  # of background rows
    index: Any = "shapley"
    labels: tuple[int, ...] | None = None  # the group of each column
    order: int = 2  # of sets
    kind: Kind = None  # of interactions
    output: str | None = None  # a name in OUTPUTS; None for the raw output
    is_dictionary: bool = False
    kernel: str = "baseline"
    times: int = 1  # how often the trees are there: the engine gets all of them, the judge one

    @property
    def player_of(self) -> list[int]:
        """The player of each column: groups are in the order of their first columns."""
        labels = range(self.ensemble.n_features) if self.labels is None else self.labels
        order = list(dict.fromkeys(labels))
        return [order.index(label) for label in labels]

    @property
    def n_players(self) -> int:
        return max(self.player_of, default=-1) + 1

    @property
    def groups(self) -> list[str] | None:
        return None if self.labels is None else [f"group {label}" for label in self.labels]

    def __str__(self) -> str:
        e = self.ensemble
        parts = [
            f"{e.n_trees} trees of {e.n_leaves} leaves, depth {e.depth}",
            f"{self.times} times" if self.times > 1 else "",
            f"{e.n_outputs} outputs" + (" per leaf" if e.width > 1 else "") if e.n_outputs > 1 else "",
            f"{len(self.rows)} rows of {e.n_features} {e.row_format.dtype} features",
            "categories" if (e.category_set >= 0).any() else "",
            f"{len(self.background)} background rows" if self.background is not None else "",
            "weights" if self.weights is not None else "",
            f"groups {self.player_of}" if self.labels is not None else "",
            f"index {self.index!r}" if self.index != "shapley" else "",
            f"{self.kind} of order {self.order}",
            f"output {self.output}" if self.output else "",
            "as a dictionary" if self.is_dictionary else "",
            self.kernel,
        ]
        return ", ".join(part for part in parts if part)

    def smaller(self) -> Iterator[Case]:
        """Cases with less in them, the boldest first."""
        for rows in _parts(len(self.rows)):
            yield replace(self, rows=self.rows[rows])
        for trees in _parts(self.ensemble.n_trees):
            yield replace(self, ensemble=_some_trees(self.ensemble, trees))
        if self.background is not None:
            for rows in _parts(len(self.background)):
                weights = None if self.weights is None else self.weights[rows]
                if weights is None or weights.sum() > 0:
                    yield replace(self, background=self.background[rows], weights=weights)
        if self.weights is not None:
            yield replace(self, weights=None)
        if self.labels is not None and self.index[0] != "sizes":  # whose weights are of so many players
            yield replace(self, labels=None)
        if self.is_dictionary:
            yield replace(self, is_dictionary=False)
        if self.index != "shapley":
            yield replace(self, index="shapley")


def small_case(rng: np.random.Generator) -> Case:
    """Few players: by all coalitions, of every kind."""
    n_outputs = int(rng.integers(1, 4)) if rng.random() < 0.3 else 1
    is_dictionary = rng.random() < 0.15
    ensemble = random_ensemble(
        rng,
        n_features=int(rng.integers(1, 7)),
        n_trees=int(rng.integers(1, 4)),
        max_depth=int(rng.integers(0, 7)),
        max_leaves=int(rng.integers(1, 14)),
        n_outputs=n_outputs,
        vector_leaves=is_dictionary or rng.random() < 0.5,
        categorical=not is_dictionary and rng.random() < 0.5,
        zero_cover=rng.random() < 0.25,
        dtype=_dtype(rng),
    )
    ensemble = _with_leaves(rng, _with_covers(rng, ensemble))
    return _options(rng, replace(_bare(rng, ensemble, 5), is_dictionary=is_dictionary))


def long_case(rng: np.random.Generator) -> Case:
    """Paths of up to 45 nodes and 39 players, and chains; sets of more than two players would be too many."""
    if rng.random() < 0.3:
        depth = int(rng.integers(8, 46))
        features = rng.integers(0, int(rng.integers(4, 40)), size=depth).tolist()
        ensemble = chain(features, share=_ratios(rng, depth).tolist())
    else:
        ensemble = random_ensemble(
            rng,
            n_features=int(rng.integers(5, 40)),
            n_trees=1,
            max_depth=int(rng.integers(8, 46)),
            max_leaves=int(rng.integers(10, 40)),
            n_outputs=int(rng.integers(1, 3)),
            vector_leaves=bool(rng.random() < 0.5),
            zero_cover=bool(rng.random() < 0.25),
            dtype=_dtype(rng),
        )
        ensemble = _with_covers(rng, ensemble)
    case = _options(rng, _bare(rng, _with_leaves(rng, ensemble), 3))
    return replace(case, order=min(case.order, 2))


def large_case(rng: np.random.Generator) -> Case:
    """The same few trees many times over, so that threads start and calls take long enough to be watched."""
    shape = rng.choice(["stumps", "trees", "paths"])
    n_trees, depth, n_leaves = {"stumps": (20, 1, 2), "trees": (5, 7, 40), "paths": (1, 30, 60)}[str(shape)]
    ensemble = random_ensemble(
        rng,
        n_features=20 if shape == "paths" else 7,
        n_trees=n_trees,
        max_depth=depth,
        max_leaves=n_leaves,
        dtype=_dtype(rng),
    )
    times = max(1, int(rng.integers(4_000, 14_000)) // max(1, ensemble.n_leaves))
    case = _options(rng, _bare(rng, ensemble, 80))
    return replace(case, times=times, order=2, output=None)


def repeated(case: Case) -> TreeEnsemble:
    """The trees that the engine gets."""
    return copies(case.ensemble, case.times) if case.times > 1 else case.ensemble


def as_dictionary(e: TreeEnsemble) -> dict[str, Any]:
    """The model as a dictionary of arrays; without categories, which those do not know."""
    trees = []
    for begin, end in zip(e.tree_offsets[:-1].tolist(), e.tree_offsets[1:].tolist(), strict=True):
        left, right = e.left[begin:end], e.right[begin:end]
        trees.append(
            {
                "children_left": left,
                "children_right": right,
                "children_default": np.where(e.missing_left[begin:end], left, right),
                "features": e.feature[begin:end],
                "thresholds": e.threshold[begin:end],
                "values": e.value[begin:end],
                "node_sample_weight": e.cover[begin:end],
            }
        )
    return {
        "trees": trees,
        "base_offset": e.base_values,
        "input_dtype": e.row_format.dtype,
        "num_features": e.n_features,
    }


def _bare(rng: np.random.Generator, ensemble: TreeEnsemble, max_rows: int) -> Case:
    rows = _typed(rng, random_rows(rng, ensemble, int(rng.integers(1, max_rows + 1))))
    return Case(ensemble, rows, kernel=str(rng.choice(kernels())))


def _options(rng: np.random.Generator, case: Case) -> Case:
    n = case.ensemble.n_features
    if rng.random() < 0.3:
        case = replace(case, labels=tuple(rng.integers(max(1, n // 2), size=n).tolist()))
    if rng.random() < 0.4:
        background = _typed(rng, random_rows(rng, case.ensemble, int(rng.integers(1, 6))))
        case = replace(case, background=background)
        if rng.random() < 0.4:
            weights = rng.random(len(background)) * 10.0 ** float(rng.choice([0, 0, 0, -300, 300]))
            case = replace(case, weights=weights * (rng.random(len(background)) < 0.8) + weights.max() / 2)
    largest = max(np.abs(case.ensemble.value).max(), np.abs(case.ensemble.base_values).max())
    if case.background is not None and rng.random() < 0.2 and largest < 1e6:
        return replace(case, output=str(rng.choice(list(OUTPUTS))))
    index = "shapley" if rng.random() < 0.4 else _index(rng, case.n_players)
    kind = KINDS[int(rng.integers(len(KINDS)))]
    return replace(case, index=index, order=int(rng.integers(1, MAX_ORDER + 1)), kind=kind)


def _index(rng: np.random.Generator, n_players: int) -> Any:
    name = str(rng.choice(["banzhaf", "weighted_banzhaf", "beta", "measure", "sizes"]))
    if name == "weighted_banzhaf":
        return (name, float(rng.choice([0.0, 1.0, 1e-3, rng.random(), rng.random()])))
    if name == "beta":
        found = (name, *(float(rng.choice([1, 2, 4, 16, 0.5, rng.uniform(0.3, 20)])) for _ in range(2)))
        return "shapley" if found == ("beta", 1.0, 1.0) else found  # which has interactions of its own
    points = rng.choice([0.0, 1.0, 0.5, *rng.random(4)], size=int(rng.integers(1, 5)))
    weights = rng.dirichlet(np.ones(len(points)))
    if name == "measure":
        return (name, points.tolist(), weights.tolist())
    if name == "sizes":
        n = n_players - 1
        sizes = [float((weights * points**k * (1 - points) ** (n - k)).sum()) for k in range(n + 1)]
        total = sum(comb(n, k) * w for k, w in enumerate(sizes))
        return (name, [w / total for w in sizes])
    return name


def _dtype(rng: np.random.Generator) -> Literal["float32", "float64"]:
    return "float32" if rng.random() < 0.5 else "float64"


def _typed(rng: np.random.Generator, rows: npt.NDArray[np.float64]) -> Rows:
    """As a user might hold them: of either precision, with rows or columns side by side."""
    with np.errstate(over="ignore"):
        typed = rows.astype(np.float32) if rng.random() < 0.3 else rows
    return np.asfortranarray(typed) if rng.random() < 0.2 else typed


def _ratios(rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
    """Shares of cover, most of them ordinary, some next to 0 or to 1."""
    small = 10.0 ** rng.uniform(-12, 0, size=n) * 0.999
    return np.choose(rng.integers(4, size=n), [rng.uniform(0.05, 0.95, size=n), small, 1 - small, 0.5])


def _with_covers(rng: np.random.Generator, e: TreeEnsemble) -> TreeEnsemble:
    """In half of the cases, covers of extreme ratios in place of those the trees have."""
    if rng.random() < 0.5 or (e.cover == 0).any():
        return e
    cover, ratio = e.cover.copy(), _ratios(rng, e.n_nodes)
    for root in e.tree_offsets[:-1].tolist():
        pending = [root]
        while pending:
            node = pending.pop()
            if e.left[node] < 0:
                continue
            left, right = root + int(e.left[node]), root + int(e.right[node])
            cover[left] = cover[node] * ratio[node]
            cover[right] = cover[node] - cover[left]
            pending += [left, right]
    return replace(e, cover=cover)


def _with_leaves(rng: np.random.Generator, e: TreeEnsemble) -> TreeEnsemble:
    """In some cases, leaves of another size: all huge, all tiny, or each of its own."""
    kind = rng.random()
    if kind < 0.6:
        return e
    power = rng.choice([-300.0, -30.0, -10.0, 10.0, 30.0, 300.0])
    if kind < 0.75:
        power = rng.uniform(-15, 15, size=e.value.shape)
    value = np.where(rng.random(e.value.shape) < 0.05, 0.0, e.value * 10.0**power)
    return replace(e, value=value, base_values=e.base_values * 10.0 ** float(np.mean(power)))


def _parts(n: int) -> Iterator[slice]:
    """Slices of ``n`` things that leave some of them out, but never all."""
    size = n // 2
    while size:
        for begin in range(0, n, size):
            if end := min(begin + size, n):
                yield slice(begin, end)
        size //= 2


def _some_trees(e: TreeEnsemble, trees: slice) -> TreeEnsemble:
    begin, end = int(e.tree_offsets[trees.start]), int(e.tree_offsets[trees.stop])
    per_node = ("left", "right", "feature", "threshold", "cover", "value", "missing_left", "category_set")
    arrays: dict[str, Any] = {name: getattr(e, name)[begin:end] for name in per_node}
    offsets = e.tree_offsets[trees.start : trees.stop + 1] - begin
    return replace(e, tree_offsets=offsets, tree_output=e.tree_output[trees], **arrays)
