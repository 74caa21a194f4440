"""Values by clumps of leaves are the processor's, for every kind of model, and clumps stay within their
bounds.

Besides `test_device.py`: most models there are explained by other kernels. Here every tree that fits is in
clumps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import devices
import numpy as np
import pytest
from devices import Rows, device_engine, values_of
from plain_device import PlainDevice
from strategies import chain, complete, random_ensemble, random_rows, rows_as_read

from linear_treeshap import oracle
from linear_treeshap.engines.cuda import clumps as of_clumps
from linear_treeshap.engines.cuda import plan
from linear_treeshap.engines.cuda.clump_records import PIECE_WORDS, ClumpLaunch
from linear_treeshap.engines.cuda.clumps import Clumps
from linear_treeshap.engines.cuda.device import Device
from linear_treeshap.engines.cuda.plan import Launch, Model
from linear_treeshap.engines.cuda.stage import register_slots
from linear_treeshap.engines.indices import SHAPLEY, index_of
from linear_treeshap.model.ensemble import TreeEnsemble
from linear_treeshap.players.players import Players


@pytest.fixture
def in_clumps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees are explained by clumps, whether that is faster or not."""
    monkeypatch.setattr(plan, "_is_uneven", lambda trees: not trees.is_flat)
    monkeypatch.setattr(plan, "_MAX_PLAYERS_IN_CLUMPS", 99)
    monkeypatch.setattr(plan, "_MIN_LEAVES_OF_CLUMP", 0)


def launches_of(ensemble: TreeEnsemble, dtype: str = "float32") -> list[Launch | ClumpLaunch]:
    player = np.arange(ensemble.n_features, dtype=np.int32)
    return Model.of(ensemble, player, ensemble.n_features, SHAPLEY).launches(dtype, register_slots)


def assert_as_the_processor(ensemble: TreeEnsemble, rows: Rows, device: Device, **options: Any) -> None:
    engine = device_engine(ensemble, device, **options)
    devices.assert_as_the_processor(engine, rows)
    walk = engine._walk(np.dtype(np.float64), False)
    assert any(isinstance(stage.launch, ClumpLaunch) for stage in walk._stages)  # type: ignore[attr-defined]


@pytest.mark.usefixtures("in_clumps")
@pytest.mark.parametrize("seed", range(6))
def test_random_models(seed: int, device: Device) -> None:
    """Missing values, categories, several outputs, vector leaves, covers that are zero or do not add up."""
    rng = np.random.default_rng(seed)
    ensemble = random_ensemble(
        rng,
        n_features=(3, 8, 14)[seed % 3],
        n_trees=1 + 3 * seed,
        max_leaves=(20, 60, 200)[seed % 3],
        max_depth=(4, 9, 25)[seed % 3],
        n_outputs=1 + seed % 3,
        vector_leaves=seed % 2 == 0,
        zero_cover=seed % 4 == 1,
        dtype="float32" if seed % 2 else "float64",
    )
    assert_as_the_processor(ensemble, rows_as_read(rng, ensemble, 60), device)


@pytest.mark.usefixtures("in_clumps")
@pytest.mark.parametrize("asked", ["banzhaf", ("weighted_banzhaf", 0.3), ("beta", 16, 1)])
def test_every_index(asked: Any, device: Device) -> None:
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=7, n_trees=12, max_leaves=40, max_depth=9, zero_cover=True)
    assert_as_the_processor(ensemble, random_rows(rng, ensemble, 40), device, index=index_of(asked, 7))


@pytest.mark.usefixtures("in_clumps")
def test_groups(device: Device) -> None:
    """Players of several columns, in crowns and in stems."""
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=20, n_trees=12, max_leaves=60, max_depth=12)
    names = [f"f{i}" for i in range(20)]
    players = Players(np.arange(20, dtype=np.int32) % 5, names[:5], names)
    assert_as_the_processor(ensemble, random_rows(rng, ensemble, 40), device, players=players)


@pytest.mark.usefixtures("in_clumps")
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_complete_trees(depth: int, device: Device) -> None:
    ensemble = complete(depth, 4)
    assert_as_the_processor(ensemble, random_rows(np.random.default_rng(depth), ensemble, 40), device)


@pytest.mark.usefixtures("in_clumps")
@pytest.mark.parametrize("n_features", [1, 3, 16])
def test_chains(n_features: int, device: Device) -> None:
    """Long paths of few players, thresholds that cut nothing, and leaves that no row comes to."""
    ensemble = chain([feature % n_features for feature in range(64)], share=0.9)
    rng = np.random.default_rng(0)
    thresholds = np.where(ensemble.is_leaf, ensemble.threshold, rng.integers(0, 4, ensemble.n_nodes))
    rows = random_rows(rng, ensemble, 20)
    assert_as_the_processor(ensemble, rows, device)
    assert_as_the_processor(replace(ensemble, threshold=thresholds), 2 * rows, device)


@pytest.mark.usefixtures("in_clumps")
@pytest.mark.parametrize("ratio", [1e-3, 1e-6, 1e-9])
def test_rare_leaves_that_are_huge(ratio: float, device: Device) -> None:
    """As in test_device.py: by the definition in fractions, relative to the row's own largest value."""
    rng = np.random.default_rng(0)
    tree = complete(5, 3)
    is_rare = np.arange(tree.n_nodes) % 2 == 0  # the right children
    cover = np.ones(tree.n_nodes)
    for node in np.flatnonzero(~tree.is_leaf):
        cover[2 * node + 1], cover[2 * node + 2] = cover[node] * (1 - ratio), cover[node] * ratio
    value = np.where(tree.is_leaf, rng.normal(size=tree.n_nodes), 0.0) * np.where(is_rare, 1 / ratio, 1.0)
    ensemble = replace(tree, cover=cover, value=value[:, None])
    rows = np.concatenate([-np.ones((1, 3)), random_rows(rng, ensemble, 4)])
    expected = np.array([oracle.as_float(oracle.shapley_values(ensemble, row, by="leaves")) for row in rows])
    largest = np.abs(expected).max(axis=1, keepdims=True)
    for dtype, tolerance in {"float64": 1e-13, "float32": 1e-6}.items():
        found = values_of(device_engine(ensemble, device), rows, dtype)
        assert (np.abs(found - expected) <= tolerance * largest).all(), dtype


@pytest.mark.usefixtures("in_clumps")
def test_bits_depend_on_no_shape_of_the_device() -> None:
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=12, n_trees=60, max_leaves=60, max_depth=9, n_outputs=2)
    rows = random_rows(rng, ensemble, 300)
    shapes = [PlainDevice(n_blocks=1), PlainDevice(n_blocks=500), PlainDevice(n_rows=37)]
    shapes += [PlainDevice(max_shared=35_000)]
    for dtype in devices.TOLERANCE:
        found = {values_of(device_engine(ensemble, shape), rows, dtype).tobytes() for shape in shapes}
        assert len(found) == 1


# -- clumps themselves
# ---------------------------------------------------------------------------------------------


def test_every_leaf_is_in_one_clump_below_its_top() -> None:
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=9, n_trees=20, max_leaves=100, max_depth=12)
    trees = Model.of(ensemble, np.arange(9, dtype=np.int32), 9, SHAPLEY).outputs[0]
    clumps = Clumps.of(trees, lambda n: n)
    assert (clumps.of_leaf[trees.is_leaf & (trees.value != 0)] >= 0).all()
    assert (clumps.of_leaf[~trees.is_leaf] == -1).all()
    assert set(clumps.of_leaf) - {-1} == set(range(len(clumps.top)))
    for leaf in np.flatnonzero(clumps.of_leaf >= 0):
        at, top = leaf, clumps.top[clumps.of_leaf[leaf]]
        while at != top:
            at = trees.parent[at]
            assert at >= 0


@pytest.mark.usefixtures("in_clumps")
@pytest.mark.parametrize("asked", ["shapley", "banzhaf"])
def test_the_largest_clump_finds_room_in_a_piece(asked: str) -> None:
    """Stems of as many players and conditions as there may be, above crowns that fill their tables."""
    chains = [chain(range(32), share=0.9), chain([f % 32 for f in range(64)]), chain([0] * 64, share=0.9)]
    for ensemble in (*chains, complete(9, 4), complete(7, 16)):
        n_features = ensemble.n_features
        player = np.arange(n_features, dtype=np.int32)
        for own in (player, player // 2):  # two columns of each player
            model = Model.of(ensemble, own, n_features, index_of(asked, n_features))
            for launch in model.launches("float64", register_slots):
                if isinstance(launch, ClumpLaunch):
                    assert np.diff(launch.cuts).max() <= PIECE_WORDS


def test_one_question_that_is_asked_again_and_again() -> None:
    """Its table has two entries, however many leaves there are: a clump is bounded by these, too."""
    tree = complete(12, 1)
    asked = replace(tree, threshold=np.where(tree.is_leaf, tree.threshold, 0.0))
    trees = Model.of(asked, np.zeros(1, dtype=np.int32), 1, SHAPLEY).outputs[0]
    clumps = Clumps.of(trees, lambda n: n)
    sizes = np.bincount(clumps.of_leaf[clumps.of_leaf >= 0])
    assert of_clumps._MAX_LEAVES / 2 < sizes.max() <= of_clumps._MAX_LEAVES


@pytest.mark.parametrize("n_features", [6, 12])
def test_a_leaf_takes_few_bytes(n_features: int) -> None:
    """Less than 100 on the device, in float32."""
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=n_features, n_trees=100, max_leaves=63, max_depth=14)
    launches = launches_of(ensemble)
    assert all(isinstance(launch, ClumpLaunch) for launch in launches)
    held = [array for launch in launches if isinstance(launch, ClumpLaunch) for array in launch.held]
    assert sum(array.nbytes for array in held) < 100 * ensemble.n_leaves


@pytest.mark.parametrize("why", ["many players", "small clumps", "many leaves", "long paths"])
def test_trees_that_are_not_for_clumps(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    n_features, max_leaves, max_depth = (80, 300, 40) if why == "many players" else (6, 63, 14)
    if why == "small clumps":
        monkeypatch.setattr(of_clumps, "_MAX_TABLE", 16)
    if why == "many leaves":
        monkeypatch.setattr(plan, "_MAX_LEAVES_IN_CLUMPS", 100)
    ensemble = random_ensemble(
        rng, n_features=n_features, n_trees=6, max_leaves=max_leaves, max_depth=max_depth, categorical=False
    )
    if why == "long paths":
        ensemble = chain([0, 1, 2] * 22, share=0.9)
    assert any(isinstance(launch, Launch) for launch in launches_of(ensemble))
