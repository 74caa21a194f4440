"""Values against background rows on a device are the processor's, wherever the kernels run.

Besides what all engines promise (`test_contract.py`). How close they are is in `devices.py`.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import devices
import numpy as np
import pytest
from devices import TOLERANCE, Rows, table_engine, values_of
from plain_device import PlainDevice
from strategies import chain, complete, copies, random_ensemble, random_rows, rows_as_read

from linear_treeshap import TreeExplainer
from linear_treeshap.engines.background_rows import Background
from linear_treeshap.engines.cuda import gpu
from linear_treeshap.engines.cuda.device import Device
from linear_treeshap.engines.indices import index_of
from linear_treeshap.model.ensemble import TreeEnsemble
from linear_treeshap.players.players import Players


def drawn(rng: np.random.Generator, ensemble: TreeEnsemble, n_rows: int) -> Background:
    return Background(rows_as_read(rng, ensemble, n_rows), rng.random(n_rows))


def assert_as_the_processor(
    ensemble: TreeEnsemble, background: Background, rows: Rows, device: Device, **options: Any
) -> Any:
    engine = table_engine(ensemble, background, device, **options)
    devices.assert_as_the_processor(engine, rows)
    return engine._tables


@pytest.mark.parametrize("seed", range(6))
def test_random_models(seed: int, device: Device) -> None:
    """Missing values, categories, several outputs, vector leaves; tables, and leaves that are in none."""
    rng = np.random.default_rng(seed)
    ensemble = random_ensemble(
        rng,
        n_features=(5, 12, 40)[seed % 3],
        n_trees=2 + 2 * seed,
        max_leaves=(20, 60, 150)[seed % 3],
        max_depth=(4, 9, 25)[seed % 3],
        n_outputs=1 + seed % 3,
        vector_leaves=seed % 2 == 0,
        dtype="float32" if seed % 2 else "float64",
    )
    background = drawn(rng, ensemble, (1, 200, 20)[seed % 3])
    tables = assert_as_the_processor(ensemble, background, rows_as_read(rng, ensemble, 60), device)
    assert tables.is_scanned.any() == (seed % 3 == 2)
    assert not tables.is_scanned.all()


@pytest.mark.parametrize(("n_players", "n_background"), [(12, 30), (30, 1100), (60, 30)])
def test_leaves_of_many_players(n_players: int, n_background: int, device: Device) -> None:
    """Masks of one word and of two, every number of players that kernels are compiled for, and more
    background rows than are met at once."""
    rng = np.random.default_rng(n_players)
    ensemble = copies(chain(range(n_players), share=0.9), 2)
    background = drawn(rng, ensemble, n_background)
    assert_as_the_processor(ensemble, background, random_rows(rng, ensemble, 20), device)


def test_longer_paths_are_left_to_the_processor(device: Device, caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(0)
    ensemble = chain(range(70), share=0.9)
    engine = table_engine(ensemble, drawn(rng, ensemble, 5), device)
    rows = random_rows(rng, ensemble, 10)
    with caplog.at_level(logging.INFO, logger="linear_treeshap"):
        for _ in range(2):
            assert values_of(engine, rows).tobytes() == values_of(engine._processor, rows).tobytes()
    assert [record.message for record in caplog.records] == [
        "Paths of so many players do not meet background rows on a GPU: the processor computes them."
    ]


@pytest.mark.parametrize(
    "asked", ["banzhaf", ("weighted_banzhaf", 0), ("weighted_banzhaf", 1), ("beta", 16, 1)]
)
def test_every_index(asked: Any, device: Device) -> None:
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=14, n_trees=5, max_leaves=60, max_depth=14)
    options = {"index": index_of(asked, 14)}
    rows = random_rows(rng, ensemble, 40)
    tables = assert_as_the_processor(ensemble, drawn(rng, ensemble, 20), rows, device, **options)
    assert tables.is_scanned.any()


def test_groups_of_columns(device: Device) -> None:
    """A player's conditions are on several columns, so that a bit asks several questions."""
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=24, n_trees=6, max_leaves=100, max_depth=20)
    names = [f"f{i}" for i in range(24)]
    players = Players(np.arange(24, dtype=np.int32) % 11, names[:11], names)
    rows = random_rows(rng, ensemble, 40)
    tables = assert_as_the_processor(ensemble, drawn(rng, ensemble, 20), rows, device, players=players)
    assert np.diff(tables.first_question).max() > 2


def test_trees_of_many_features_are_in_groups(device: Device) -> None:
    rng = np.random.default_rng(0)
    wide = random_ensemble(rng, n_features=700, n_trees=20, max_leaves=300, max_depth=14, n_outputs=2)
    tables = assert_as_the_processor(wide, drawn(rng, wide, 20), rows_as_read(rng, wide, 30), device)
    for launch in tables.launches(np.dtype(np.float32)):
        assert launch.row_bytes <= 1024
        assert len(launch.groups) > 1


def test_more_thresholds_than_a_byte_counts(device: Device) -> None:
    """Conditions of one feature are on several columns then; also at the thresholds, and a step beside."""
    rng = np.random.default_rng(0)
    stumps = copies(complete(3, 2), 150)
    thresholds = rng.normal(size=stumps.n_nodes)
    ensemble = replace(
        stumps, threshold=np.where(stumps.is_leaf, 0.0, thresholds), value=rng.normal(size=stumps.value.shape)
    )
    on = thresholds[~stumps.is_leaf][:60].reshape(30, 2)
    rows = np.concatenate([on, np.nextafter(on, np.inf), np.nextafter(on, -np.inf)])
    tables = assert_as_the_processor(ensemble, Background(on, None), rows, device)
    assert len(tables.conditions.columns) > 2


@pytest.mark.parametrize("exponent", [-1060, -300, 300, 1000])
def test_leaves_of_any_size(exponent: int, device: Device) -> None:
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=14, n_trees=4, max_leaves=60, max_depth=14, n_outputs=2)
    rows, background = random_rows(rng, ensemble, 20), drawn(rng, ensemble, 10)
    scaled = replace(ensemble, value=np.ldexp(ensemble.value, exponent))
    engine = table_engine(scaled, background, device)
    found, expected = values_of(engine, rows), values_of(engine._processor, rows)
    largest = np.abs(expected).max(axis=1, keepdims=True)
    assert (np.abs(found - expected) <= 1e-12 * largest + 2 * np.finfo(float).smallest_subnormal).all()


def test_a_huge_leaf_takes_no_digits_from_others(device: Device) -> None:
    """No row at hand reaches it, though one could: values of the others are as right as without it."""
    plain = copies(complete(4, 9), 6)
    value = plain.value.copy()
    value[np.flatnonzero(plain.is_leaf)[-1]] = 1e15
    low = -np.abs(np.random.default_rng(0).normal(size=(40, 9)))  # to the left, always
    high = np.where(np.arange(9) == 8, -low[:20], low[:20])
    background = Background(np.concatenate([low, high]), None)
    rows = np.concatenate([high[::-1], low])
    expected = values_of(table_engine(plain, background)._processor, rows)
    engine = table_engine(replace(plain, value=value), background, device)
    assert engine._tables.is_wild
    for dtype, tolerance in TOLERANCE.items():
        error = np.abs(values_of(engine, rows, dtype) - expected)
        assert error.max() <= tolerance * np.abs(expected).max()


def test_bits_depend_on_no_shape_of_the_device() -> None:
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=30, n_trees=10, max_leaves=60, max_depth=20, n_outputs=2)
    rows, background = random_rows(rng, ensemble, 300), drawn(rng, ensemble, 40)
    shapes = [PlainDevice(n_blocks=1), PlainDevice(n_blocks=50), PlainDevice(max_shared=30_000)]
    shapes += [PlainDevice(n_rows=37)]
    for dtype in TOLERANCE:
        found = {values_of(table_engine(ensemble, background, at), rows, dtype).tobytes() for at in shapes}
        assert len(found) == 1


# -- from outside
# --------------------------------------------------------------------------------------------------


def test_an_explainer_with_a_background_explains_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is not on the device is the processor's, and the log says so once."""
    monkeypatch.setattr(gpu, "find_gpu", lambda device: PlainDevice())
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=6, n_trees=20)
    X = random_rows(rng, ensemble, 50)
    here, there = TreeExplainer(ensemble, X[:9]), TreeExplainer(ensemble, X[:9], device="cuda")
    with caplog.at_level(logging.INFO, logger="linear_treeshap"):
        values = here.shap_values(X)
        np.testing.assert_allclose(there.shap_values(X), values, rtol=0, atol=1e-12 * np.abs(values).max())
        single = there.shap_values(X, dtype="float32")
        np.testing.assert_allclose(single, values, rtol=0, atol=1e-6 * np.abs(values).max())
        np.testing.assert_array_equal(there(X).base_values, here(X).base_values)
        assert not caplog.records
        for _ in range(2):
            pairs = there.shap_interaction_values(X)
        np.testing.assert_array_equal(pairs, here.shap_interaction_values(X))
        TreeExplainer(ensemble, X[:9], model_output=np.exp, device="cuda")
    assert [record.message for record in caplog.records] == [
        "Pairs against background rows are not computed on a GPU yet: the processor computes them.",
        "Functions of outputs against background rows are not computed on a GPU yet: the processor does.",
    ]


def test_auto_takes_few_rows_to_the_processor(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gpu, "find_gpu", lambda device: PlainDevice())
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_trees=10)
    X = random_rows(rng, ensemble, 10)
    explainer = TreeExplainer(ensemble, X, device="auto")
    with caplog.at_level(logging.INFO, logger="linear_treeshap"):
        np.testing.assert_array_equal(explainer.shap_values(X), TreeExplainer(ensemble, X).shap_values(X))
    assert "too few to be worth a GPU" in caplog.text
