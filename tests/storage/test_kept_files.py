"""Files of earlier releases explain what they did: those in `files/<version>` stay there for ever."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pandas")

from kept_files import CASES, FOLDER, Kept, read_kept

import linear_treeshap

DESCRIPTIONS = sorted(FOLDER.glob("*/*.json"))


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.fixture(params=DESCRIPTIONS, ids=name_of)
def kept(request: pytest.FixtureRequest) -> Kept:
    return read_kept(request.param)


def near(kept: Kept, found: Any, expected: Any) -> None:
    """Kernels of other machines round otherwise: some units in the last place of the largest number."""
    scale = float(np.abs(kept.values).max() + np.abs(kept.base_values).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * scale)


def test_a_file_is_the_one_that_was_written(kept: Kept) -> None:
    """One that was written again would not be what users have."""
    assert hashlib.sha256(kept.path.read_bytes()).hexdigest() == kept.sha256


def test_a_file_explains_as_it_did(kept: Kept) -> None:
    explainer = kept.load()
    explanation = explainer(kept.rows, **kept.options)
    assert tuple(explanation.feature_names) == kept.feature_names
    near(kept, explanation.values, kept.values)
    near(kept, explanation.base_values, kept.base_values)
    if kept.pairs is not None:
        near(kept, explainer.shap_interaction_values(kept.rows), kept.pairs)


def test_every_kind_of_file_is_kept() -> None:
    """Of this version, all; `python tests/support/kept_files.py` writes those of a new one."""
    here = {path.stem for path in (FOLDER / linear_treeshap.__version__).glob("*.lts")}
    assert here == set(CASES)
    assert {path.with_suffix(".lts") for path in DESCRIPTIONS} == set(FOLDER.glob("*/*.lts"))


def test_values_are_not_all_the_same() -> None:
    """That the comparisons compare something."""
    for description in DESCRIPTIONS:
        kept = read_kept(description)
        assert len(np.unique(kept.values)) > 10
        assert kept.values.shape[:2] == (len(kept.rows), len(kept.feature_names))
