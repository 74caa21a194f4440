"""One case for each way to explain rows: what every engine promises is tested on all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from devices import DEVICES, device_engine, table_engine
from strategies import copies, random_ensemble, random_rows

from linear_treeshap import oracle
from linear_treeshap.engines.background import BackgroundEngine
from linear_treeshap.engines.background_rows import Background
from linear_treeshap.engines.joint import JointEngine
from linear_treeshap.engines.program import Program
from linear_treeshap.engines.raw import raw_engine
from linear_treeshap.engines.rescaled import RescaledEngine
from linear_treeshap.engines.values import FEW_ROWS, ValueEngine
from linear_treeshap.model.ensemble import TreeEnsemble
from linear_treeshap.model.joint_links import Softmax
from linear_treeshap.model.lines import Lines
from linear_treeshap.model.links import Logistic

__all__ = ["CASES", "Case", "forest_for"]

Rows = npt.NDArray[np.floating]
Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """An engine that is ready, and the shape of what it says about one row."""

    write: Callable[..., None]  # (rows, out, *, n_jobs, progress)
    shape: tuple[int, ...]

    def explain(self, rows: Rows, dtype: npt.DTypeLike = np.float64, **options: Any) -> Rows:
        out = np.full((len(rows), *self.shape), np.nan, dtype=dtype)
        self.write(rows, out, **{"n_jobs": 1, **options})
        return out


@dataclass(frozen=True)
class Kind:
    make: Callable[[TreeEnsemble, Background, str | None], Case]
    #: How deep trees are, and how many background rows there are.
    max_depth: int = 9
    n_background: int = 1
    #: Enough for several chunks, or blocks of a device.
    n_trees: int = 120
    #: Rows that keep it busy for about as long as it goes without looking up, or longer.
    n_long: int = 4_000
    #: Calls of no more rows may add up in another order.
    few_rows: int = 0
    #: Is float32 output the float64 output, rounded? Else it is as close as the engine says.
    rounds_float32: bool = True
    #: (ensemble, row, background) → the same by the definition, in fractions.
    definition: Callable[[TreeEnsemble, Rows, Background], Any] | None = None

    def n_copies_for(self, n_rows: int) -> int:
        """Copies of the trees with which so many rows take ten times as long as `n_long` rows of one."""
        return max(1, min(20, 10 * self.n_long // n_rows))


def _values(ensemble: TreeEnsemble, background: Background, kernel: str | None) -> Case:
    engine = ValueEngine(Program(ensemble, kernel=kernel))
    return Case(engine.values, (engine.n_players, engine.n_outputs))


def _pairs(ensemble: TreeEnsemble, background: Background, kernel: str | None) -> Case:
    engine = ValueEngine(Program(ensemble, kernel=kernel))
    return Case(engine.pairs, (engine.n_players, engine.n_players, engine.n_outputs))


def _sets(ensemble: TreeEnsemble, background: Background, kernel: str | None) -> Case:
    engine = ValueEngine(Program(ensemble, kernel=kernel)).sets("STII", 3)  # of two terms
    return Case(engine.values, (len(engine.sets), engine.n_outputs))


def _background(ensemble: TreeEnsemble, background: Background, kernel: str | None) -> Case:
    engine = BackgroundEngine(Program(ensemble, kernel=kernel), background)
    return Case(engine.values, (engine.n_players, engine.n_outputs))


def _background_pairs(ensemble: TreeEnsemble, background: Background, kernel: str | None) -> Case:
    engine = BackgroundEngine(Program(ensemble, kernel=kernel), background)
    return Case(engine.pairs, (engine.n_players, engine.n_players, engine.n_outputs))


def _lines(ensemble: TreeEnsemble, background: Background, kernel: str | None) -> Case:
    """Every third leaf has two lines. Infinite numbers are refused, and huge ones have no exact sum."""
    rng = np.random.default_rng(0)
    below_a_split = np.diff(ensemble.tree_offsets)[ensemble.tree_of_node] > 1
    leaf = np.repeat(np.flatnonzero(ensemble.is_leaf & below_a_split)[::3], 2)
    column = rng.integers(max(1, ensemble.n_features), size=len(leaf)).astype(np.int32)
    lines = Lines(leaf, column, rng.normal(size=len(leaf)), rng.normal(size=ensemble.n_nodes))
    if len(leaf):
        ensemble = replace(ensemble, lines=lines)

    def tamed(rows: Rows) -> Rows:
        return np.clip(rows, -10, 10)

    engine = raw_engine(Program(ensemble, kernel=kernel), replace(background, rows=tamed(background.rows)))
    return Case(
        lambda rows, out, **options: engine.values(tamed(rows), out, **options),
        (engine.n_players, engine.n_outputs),
    )


def _probabilities(ensemble: TreeEnsemble, background: Background, kernel: str | None) -> Case:
    engine = RescaledEngine(Program(ensemble, kernel=kernel), background, Logistic())
    return Case(engine.values, (engine.n_players, engine.n_outputs))


def _classes(ensemble: TreeEnsemble, background: Background, kernel: str | None) -> Case:
    engine = JointEngine(Program(ensemble, kernel=kernel), background, Softmax())
    return Case(engine.values, (engine.n_players, engine.n_outputs))


def _on_device(name: str, n_axes: int = 1) -> Callable[[TreeEnsemble, Background, str | None], Case]:
    def make(ensemble: TreeEnsemble, background: Background, kernel: str | None) -> Case:
        engine = device_engine(ensemble, DEVICES[name](), kernel=kernel)
        explain = engine.values if n_axes == 1 else engine.pairs
        return Case(explain, (*[engine.n_players] * n_axes, engine.n_outputs))

    return make


def _background_on_device(name: str) -> Callable[[TreeEnsemble, Background, str | None], Case]:
    def make(ensemble: TreeEnsemble, background: Background, kernel: str | None) -> Case:
        engine = table_engine(ensemble, background, DEVICES[name](), kernel=kernel)
        return Case(engine.values, (engine.n_players, engine.n_outputs))

    return make


#: Trees of a case on a device: threads of one without a GPU run one after another, in plain C++.
N_TREES = {name: 120 if name == "gpu" else 40 for name in DEVICES}


def _mean(background: Background) -> dict[str, Any]:
    weights = None if background.weights is None else background.weights.tolist()
    return {"background": background.rows, "background_weights": weights}


def _against_background(ensemble: TreeEnsemble, row: Rows, background: Background) -> Any:
    return oracle.shapley_values(ensemble, row, by="leaves", **_mean(background))


CASES = {
    "values": Kind(
        _values,
        n_long=60_000,
        few_rows=FEW_ROWS,
        definition=lambda e, x, b: oracle.shapley_values(e, x, by="leaves"),
    ),
    "pairs": Kind(
        _pairs, n_long=20_000, definition=lambda e, x, b: oracle.interaction_values(e, x, by="leaves")
    ),
    "sets": Kind(_sets, n_long=16_000),
    "tables": Kind(
        _background,
        max_depth=6,
        n_background=100,
        n_long=60_000,
        definition=_against_background,
    ),
    "scan": Kind(_background, max_depth=20, n_background=100, n_long=40_000, definition=_against_background),
    "background pairs": Kind(
        _background_pairs,
        n_background=40,
        definition=lambda e, x, b: oracle.interaction_values(e, x, by="leaves", **_mean(b)),
    ),
    "lines": Kind(_lines, max_depth=5, n_background=40, n_long=6_000),
    "probabilities": Kind(_probabilities, n_background=40),
    "probabilities of classes": Kind(_classes, n_background=8, n_long=2_000),
    **{
        f"values on {name}": Kind(
            _on_device(name),
            n_trees=N_TREES[name],
            n_long=400_000 if name == "gpu" else 4_000,
            rounds_float32=False,
            definition=lambda e, x, b: oracle.shapley_values(e, x, by="leaves"),
        )
        for name in DEVICES
    },
    **{
        f"pairs on {name}": Kind(
            _on_device(name, 2),
            n_trees=N_TREES[name],
            n_long=100_000 if name == "gpu" else 2_000,
            rounds_float32=False,
            definition=lambda e, x, b: oracle.interaction_values(e, x, by="leaves"),
        )
        for name in DEVICES
    },
    **{
        f"background on {name}": Kind(
            _background_on_device(name),
            max_depth=20,  # tables, and leaves that are in none
            n_background=40,
            n_trees=N_TREES[name],
            n_long=100_000 if name == "gpu" else 2_000,
            rounds_float32=False,
            definition=_against_background,
        )
        for name in DEVICES
    },
}


def forest_for(
    name: str, *, n_trees: int | None = None, n_copies: int = 1, kernel: str | None = None, **options: Any
) -> tuple[Case, Callable[[int], Rows]]:
    """A case of a random forest, and a source of rows for it."""
    kind, rng = CASES[name], np.random.default_rng(1)
    options = {"n_features": 12, "max_leaves": 60, "n_outputs": 2, "max_depth": kind.max_depth, **options}
    ensemble = copies(random_ensemble(rng, n_trees=n_trees or kind.n_trees, **options), n_copies)
    background = Background(random_rows(rng, ensemble, kind.n_background), rng.random(kind.n_background))
    return kind.make(ensemble, background, kernel), lambda n: random_rows(
        np.random.default_rng(2), ensemble, n
    )
