"""Values on a device are the processor's: every kind of model, index and shape of trees, wherever the kernels
run.

Besides what all engines promise (`test_contract.py`). How close they are is in `devices.py`.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from typing import Any

import devices
import numpy as np
import pytest
from devices import TOLERANCE, Rows, device_engine, pairs_of, values_of
from plain_device import PlainDevice
from strategies import chain, complete, copies, random_ensemble, random_rows, rows_as_read

from linear_treeshap import InputError, MissingDependencyError, TreeExplainer, oracle
from linear_treeshap.engines.cuda import crowns, gpu, packed, plan
from linear_treeshap.engines.cuda import trees as of_trees
from linear_treeshap.engines.cuda.conditions import Conditions
from linear_treeshap.engines.cuda.device import Device
from linear_treeshap.engines.cuda.packed import Packed
from linear_treeshap.engines.cuda.plan import Launch, Model
from linear_treeshap.engines.cuda.records import STREAM_WORDS, Points, write
from linear_treeshap.engines.cuda.stage import Stream, register_slots
from linear_treeshap.engines.cuda.stems import Stems
from linear_treeshap.engines.cuda.trees import Trees
from linear_treeshap.engines.indices import SHAPLEY, index_of
from linear_treeshap.engines.values import ValueEngine
from linear_treeshap.model.ensemble import TreeEnsemble
from linear_treeshap.model.row_format import RowFormat
from linear_treeshap.players.players import Players


@pytest.fixture(autouse=True)
def no_clumps(monkeypatch: pytest.MonkeyPatch) -> None:
    """All trees are walked here: clumps of leaves have tests of their own, `test_device_clumps.py`."""
    monkeypatch.setattr(plan, "_MAX_PLAYERS_IN_CLUMPS", 0)


def assert_as_the_processor(ensemble: TreeEnsemble, rows: Rows, device: Device, **options: Any) -> None:
    """Values; and pairs, of few rows, because the processor takes its time for them."""
    engine = device_engine(ensemble, device, **options)
    devices.assert_as_the_processor(engine, rows)
    if engine.n_players <= 100:  # matrices of more would be most of the time
        devices.assert_as_the_processor(engine, rows[:20], pairs_of)


@pytest.mark.parametrize("seed", range(6))
def test_random_models(seed: int, device: Device) -> None:
    """Missing values, categories, several outputs, vector leaves, covers that are zero or do not add up."""
    rng = np.random.default_rng(seed)
    ensemble = random_ensemble(
        rng,
        n_features=(5, 12, 40)[seed % 3],
        n_trees=1 + 3 * seed,
        max_leaves=(20, 60, 300)[seed % 3],
        max_depth=(4, 9, 25)[seed % 3],
        n_outputs=1 + seed % 3,
        vector_leaves=seed % 2 == 0,
        zero_cover=seed % 4 == 1,
        dtype="float32" if seed % 2 else "float64",
    )
    assert_as_the_processor(ensemble, rows_as_read(rng, ensemble, 60), device)


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 8])
def test_complete_trees(depth: int, device: Device) -> None:
    """Pairs, twigs and branches of new players, alone and below splits."""
    ensemble = complete(depth, 11)
    assert_as_the_processor(ensemble, random_rows(np.random.default_rng(depth), ensemble, 40), device)


@pytest.mark.parametrize(("depth", "n_features"), [(40, 3), (150, 3), (150, 150), (300, 3)])
def test_chains(depth: int, n_features: int, device: Device) -> None:
    """Splits whose state is in memory, bits in several words, more points than are walked at once; the
    deepest are walked in float64."""
    ensemble = chain([feature % n_features for feature in range(depth)], share=0.9)
    assert_as_the_processor(ensemble, random_rows(np.random.default_rng(0), ensemble, 20), device)


def deep_ensemble(depth: int) -> tuple[TreeEnsemble, Rows]:
    rng = np.random.default_rng(depth)
    ensemble = random_ensemble(
        rng, n_features=60, n_trees=8, max_leaves=200, max_depth=depth, n_outputs=2, zero_cover=True
    )
    return ensemble, rows_as_read(rng, ensemble, 40)


@pytest.mark.parametrize("depth", [12, 60])
def test_stems(depth: int, device: Device) -> None:
    """Deep trees become crowns below stems: of repeated players, of those whose edges a row fails, of ratios
    that are zero, of paths that no row can take, and of several columns of one player."""
    ensemble, rows = deep_ensemble(depth)
    few = replace(ensemble, feature=np.where(ensemble.is_leaf, ensemble.feature, ensemble.feature % 3))
    groups = Players(np.arange(60, dtype=np.int32) % 4, list("abcd"), [f"f{i}" for i in range(60)])
    trees = Model.of(few, np.arange(60, dtype=np.int32), 60, SHAPLEY).outputs
    some_crowns = [
        crowns.in_crowns(replace(some, is_uneven=True), lambda n: n, lambda n: 2) for some in trees
    ]
    stems = [Stems.of(some) for some in some_crowns]
    assert any((np.diff(some.first_condition) > 1).any() for some in stems)
    assert any((some.low > some.high).any() for some in stems)
    assert_as_the_processor(ensemble, rows, device)
    assert_as_the_processor(few, rows, device)
    assert_as_the_processor(ensemble, rows, device, players=groups)


@pytest.mark.parametrize("most", ["MAX_STEM", "_MAX_STEM_SPLITS", "_MAX_STEM_COLUMN"])
def test_stems_that_are_too_large(most: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of them is walked split by split."""
    ensemble, rows = deep_ensemble(12)
    monkeypatch.setattr(of_trees, most, 3)
    assert_as_the_processor(ensemble, rows, PlainDevice())


def test_a_path_of_more_players_than_shared_memory_holds() -> None:
    """A kernel of its own, which keeps what belongs there in other memory."""
    ensemble = chain(range(120), share=0.9)
    rows = random_rows(np.random.default_rng(0), ensemble, 70)
    assert_as_the_processor(ensemble, rows, PlainDevice(max_shared=40_000))


def test_trees_of_many_features_are_cut(device: Device) -> None:
    """A tree whose players do not find room beside each other becomes several, and so do trees of many
    leaves."""
    rng = np.random.default_rng(0)
    wide = random_ensemble(rng, n_features=700, n_trees=4, max_leaves=900, max_depth=14, n_outputs=2)
    model = Model.of(wide, np.arange(700, dtype=np.int32), 700, SHAPLEY)
    launches = model.launches(np.float32, lambda n, item: 2)
    assert max(launch.row_bytes for launch in launches) <= 416
    assert sum(len(launch.groups) for launch in launches) > 2 * len(launches)
    assert_as_the_processor(wide, rows_as_read(rng, wide, 30), device)


def test_more_thresholds_than_a_byte_counts(device: Device) -> None:
    """Also at the thresholds, and one step either side of them."""
    rng = np.random.default_rng(0)
    stumps = copies(complete(2, 2), 400)
    thresholds = rng.normal(size=stumps.n_nodes)
    ensemble = replace(
        stumps, threshold=np.where(stumps.is_leaf, 0.0, thresholds), value=rng.normal(size=stumps.value.shape)
    )
    assert len(Conditions.of(ensemble).columns) > 2
    on = thresholds[~stumps.is_leaf][:60].reshape(30, 2)
    rows = np.concatenate([on, np.nextafter(on, np.inf), np.nextafter(on, -np.inf)])
    assert_as_the_processor(ensemble, rows, device)


def test_the_smallest_numbers_are_not_zero(device: Device) -> None:
    """Devices may compare them as if they were; thresholds and codes are met exactly all the same."""
    tiny = np.float32(1e-45)
    ensemble = replace(complete(1, 1), row_format=RowFormat(n_features=1, dtype="float32"))
    rows = np.array([[tiny], [-tiny], [0.0], [-0.0]], dtype=np.float32)
    assert_as_the_processor(ensemble, rows, device)
    of_zero: Any = {"category_set": [0, -1, -1], "category_offsets": [0, 1], "category_codes": [0]}
    coded = replace(ensemble, **of_zero)
    assert_as_the_processor(coded, rows, device)


@pytest.mark.parametrize(
    "asked",
    [
        "banzhaf",
        ("weighted_banzhaf", 0),
        ("weighted_banzhaf", 0.3),
        ("weighted_banzhaf", 1),
        ("beta", 16, 1),
        ("measure", np.linspace(0, 1, 33).tolist(), np.full(33, 1 / 33).tolist()),
        ("sizes", [0, 0, 1 / 30, 1 / 40, 0, 0, 0]),
    ],
)
def test_every_index(asked: Any, device: Device) -> None:
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=7, n_trees=12, max_leaves=40, max_depth=9, zero_cover=True)
    assert_as_the_processor(ensemble, random_rows(rng, ensemble, 40), device, index=index_of(asked, 7))


def test_pairs_are_left_to_the_processor_where_factors_are_zero(caplog: pytest.LogCaptureFixture) -> None:
    """All others are present always, so those who fail their edges have a factor of zero."""
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=7, n_trees=5)
    engine = device_engine(ensemble, index=index_of(("weighted_banzhaf", 1), 7))
    rows = random_rows(rng, ensemble, 5)
    with caplog.at_level(logging.INFO, logger="linear_treeshap"):
        np.testing.assert_array_equal(pairs_of(engine, rows), pairs_of(ValueEngine(engine.program), rows))
    assert "the processor computes them" in caplog.text


def test_groups(device: Device) -> None:
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=12, n_trees=12, max_leaves=60, max_depth=9)
    names = [f"f{i}" for i in range(12)]
    players = Players(np.arange(12, dtype=np.int32) % 5, names[:5], names)
    assert_as_the_processor(ensemble, random_rows(rng, ensemble, 40), device, players=players)


@pytest.mark.parametrize("ratio", [1e-3, 1e-6, 1e-9])
def test_rare_leaves_that_are_huge(ratio: float, device: Device) -> None:
    """The right side of a split is not what the left side leaves: relative to the row's own largest value, by
    the definition in fractions, to 1e-13 in float64 and 1e-6 in float32."""
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


@pytest.mark.parametrize("exponent", [-1060, -300, 300, 1000])
def test_leaves_of_any_size(exponent: int, device: Device) -> None:
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_trees=5)
    rows = random_rows(rng, ensemble, 20)
    scaled = replace(ensemble, value=np.ldexp(ensemble.value, exponent))
    found = values_of(device_engine(scaled, device), rows)
    expected = values_of(ValueEngine(device_engine(scaled).program), rows)
    largest = np.abs(expected).max(axis=1, keepdims=True)
    assert (np.abs(found - expected) <= 1e-12 * largest + 2 * np.finfo(float).smallest_subnormal).all()


def test_leaves_around_a_large_mean(device: Device) -> None:
    """What all leaves of a tree have in common is nobody's, and takes no digits from float32."""
    plain = complete(6, 9)
    plain = replace(plain, value=np.round(plain.value * 1024) / 1024)
    shifted = replace(plain, value=np.where(plain.is_leaf[:, None], 2.0**20 + plain.value, 0.0))
    rows = random_rows(np.random.default_rng(0), plain, 40)
    expected = values_of(ValueEngine(device_engine(plain).program), rows)
    for dtype, tolerance in TOLERANCE.items():
        found = values_of(device_engine(shifted, device), rows, dtype)
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def test_bits_depend_on_no_shape_of_the_device() -> None:
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=12, n_trees=60, max_leaves=60, max_depth=9, n_outputs=2)
    rows = random_rows(rng, ensemble, 300)
    shapes = [PlainDevice(n_blocks=1), PlainDevice(n_blocks=50), PlainDevice(max_shared=18_000)]
    shapes += [PlainDevice(n_rows=37), PlainDevice(max_shared=16_400)]
    for dtype in TOLERANCE:
        for explain in (values_of, pairs_of):
            found = {explain(device_engine(ensemble, shape), rows, dtype).tobytes() for shape in shapes}
            assert len(found) == 1


def test_few_rows_and_many_are_cut_into_chunks_of_other_sizes() -> None:
    """So their bits may differ, and no more than these; they do not depend on the rows beside them."""
    rng = np.random.default_rng(0)
    ensemble = copies(random_ensemble(rng, n_features=4, n_trees=6, max_leaves=6, max_depth=3), 4)
    rows = np.tile(random_rows(rng, ensemble, 100), (400, 1))
    engine = device_engine(ensemble, PlainDevice(n_rows=10_000))
    for dtype, tolerance in TOLERANCE.items():
        few, many = values_of(engine, rows[:100], dtype), values_of(engine, rows, dtype)
        assert many.tobytes() == np.tile(many[:100], (400, 1, 1)).tobytes()
        assert np.abs(many[:100] - few).max() <= tolerance * np.abs(few).max()


@pytest.mark.parametrize("shape", ["complete", "random", "repeated", "mixed"])
def test_a_leaf_takes_few_bytes(shape: str) -> None:
    """Less than 100 on the device, in float32, also where rules are walked in parts."""
    n_features = {"repeated": 6, "mixed": 20}.get(shape, 40)
    ensemble = copies(complete(8, 30), 10)
    if shape != "complete":
        rng = np.random.default_rng(0)
        ensemble = random_ensemble(
            rng, n_features=n_features, n_trees=10, max_leaves=1000, max_depth=40, categorical=False
        )
    model = Model.of(ensemble, np.arange(n_features, dtype=np.int32), n_features, SHAPLEY)
    launches = [some for some in model.launches(np.float32, register_slots) if isinstance(some, Launch)]
    if shape == "random":
        assert max(len(launch.parts) for launch in launches) > 1
    held = [getattr(launch, name) for launch in launches for name in ("cuts", "columns")]
    held += [some.gains for launch in launches for some in (launch.small, launch.large)]
    held += [array for launch in launches for array in Stream(launch, PlainDevice()).held]
    assert sum(array.nbytes for array in held) < 100 * ensemble.n_leaves


@pytest.mark.parametrize("depth", [12, 60])
def test_streams_that_are_packed(depth: int, device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers that follow from covers are filled in by each call: in float64 they are the same to the bit,
    also those of stems, and where a rule is walked in parts."""
    ensemble, rows = deep_ensemble(depth)
    monkeypatch.setattr(packed, "_MANY_BYTES", 1e9)
    whole = device_engine(ensemble, device)
    expected = values_of(whole, rows)
    monkeypatch.setattr(packed, "_MANY_BYTES", 0)
    engine = device_engine(ensemble, device)
    assert values_of(engine, rows).tobytes() == expected.tobytes()
    assert_as_the_processor(ensemble, rows, device)
    stages: list[Any] = [some._walk(np.dtype(np.float64), False)._stages for some in (engine, whole)]
    assert all(isinstance(stage.launch.words, Packed) for stage in stages[0])
    assert max(len(stage.launch.parts) for stage in stages[0]) > 1 or depth == 12
    small, large = (sum(array.nbytes for stage in some for array in stage._held) for some in stages)
    assert small < large


def test_covers_that_float32_has_no_number_for_are_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "_MANY_BYTES", 0)
    for share, is_packed in ((0.9, True), (1e-9, False)):
        ensemble = chain([0, 1, 2] * 5, share=share)
        model = Model.of(ensemble, np.arange(3, dtype=np.int32), 3, SHAPLEY)
        for launch in model.launches(np.float32, register_slots):
            assert isinstance(launch, Launch)
            assert isinstance(launch.words, Packed) == is_packed


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_largest_knot_finds_room_in_a_piece(dtype: str) -> None:
    """Repeated players above, and branches of new ones below, for all numbers of points and of parts that
    there are."""
    depth, item = 8, np.dtype(dtype).itemsize
    level = np.floor(np.log2(np.arange(1, 2 ** (depth + 1)))).astype(int)
    tree = complete(depth, 4)
    tree = replace(tree, feature=np.where(tree.is_leaf, tree.feature, np.maximum(0, level - 4)))
    trees = Trees.of_output(tree, 0, np.arange(4, dtype=np.int32), Conditions.of(tree))
    shapes = [(n, 1) for n in range(1, 9)] + [(5, 2), (6, 2), *((8, n) for n in (2, 3, 4))]
    for n_points, n_parts in shapes:
        t = np.full(n_points, 0.5)
        slots = register_slots(n_points, item)
        records = write(
            trees,
            np.arange(4),
            np.arange(4),
            4,
            [Points(t, t, t)] * n_parts,
            n_register_slots=slots,
            dtype=dtype,
        )
        _, _, cuts, _ = records.in_pieces([1])
        assert np.diff(cuts).max() <= STREAM_WORDS
        if slots == depth - 3:
            assert len(cuts) == 2  # it is one knot


# -- from outside
# --------------------------------------------------------------------------------------------------


@pytest.fixture
def plain_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels run as plain C++ where a GPU is asked for."""
    monkeypatch.setattr(gpu, "find_gpu", lambda device: PlainDevice())


@pytest.mark.usefixtures("plain_gpu")
def test_an_explainer_on_a_device_explains_the_same(caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=6, n_trees=30)
    X = random_rows(rng, ensemble, 50)
    here, there = TreeExplainer(ensemble), TreeExplainer(ensemble, device="cuda")
    values = here.shap_values(X)
    np.testing.assert_allclose(there.shap_values(X), values, rtol=0, atol=1e-12 * np.abs(values).max())
    single = there.shap_values(X, dtype="float32")
    np.testing.assert_allclose(single, values, rtol=0, atol=1e-6 * np.abs(values).max())
    np.testing.assert_array_equal(there(X).base_values, here(X).base_values)
    with caplog.at_level(logging.INFO, logger="linear_treeshap"):
        pairs = here.shap_interaction_values(X)
        found = there.shap_interaction_values(X)
        np.testing.assert_allclose(found, pairs, rtol=0, atol=1e-12 * np.abs(pairs).max())
        assert not caplog.records
        for _ in range(2):
            np.testing.assert_array_equal(there.interactions(X).values, here.interactions(X).values)
        assert [record.message for record in caplog.records] == [
            "Interactions of sets are not computed on a GPU yet: the processor computes them."
        ]


@pytest.mark.usefixtures("plain_gpu")
def test_auto_takes_few_rows_to_the_processor(caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_trees=10)
    explainer = TreeExplainer(ensemble, device="auto")
    X = random_rows(rng, ensemble, 10)
    with caplog.at_level(logging.INFO, logger="linear_treeshap"):
        np.testing.assert_array_equal(explainer.shap_values(X), TreeExplainer(ensemble).shap_values(X))
    assert "too few to be worth a GPU" in caplog.text


def test_a_gpu_that_is_not_there_is_an_error_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    ensemble = complete(2, 2)
    with pytest.raises(MissingDependencyError, match=r"pip install '\.\[cuda13\]'"):
        TreeExplainer(ensemble, device="cuda")
    with pytest.raises(MissingDependencyError, match="CuPy"):
        TreeExplainer(ensemble, np.zeros((3, 2)), device="cuda:1")
    with caplog.at_level(logging.INFO, logger="linear_treeshap"):
        explainer = TreeExplainer(ensemble, device="auto")
    assert "device='auto' is the processor" in caplog.text
    assert explainer.shap_values(np.zeros((1, 2))).shape == (1, 2)


@pytest.mark.parametrize("asked", ["gpu", "cuda:", "cuda:x", "CUDA", "", "cuda:-1"])
def test_a_device_that_nobody_knows_is_refused(asked: str) -> None:
    with pytest.raises(InputError, match="device must be 'cpu'"):
        TreeExplainer(complete(2, 2), device=asked)


def test_a_device_engine_refuses_rows_of_another_type() -> None:
    engine = device_engine(complete(2, 2))
    with pytest.raises(TypeError, match="float64"):
        values_of(engine, np.zeros((3, 2), dtype=np.float32))
