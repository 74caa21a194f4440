"""Ensembles that hypothesis draws, apart from `strategies`: processes that tests start would be twice as long
about their imports with it."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from strategies import random_ensemble

from linear_treeshap.model.ensemble import TreeEnsemble

__all__ = ["ensembles"]


@st.composite
def ensembles(draw: st.DrawFn, *, max_features: int = 5, max_depth: int = 8) -> TreeEnsemble:
    """What `random_ensemble` makes, of every kind; hypothesis shrinks the sizes."""
    n_outputs = draw(st.integers(1, 3))
    return random_ensemble(
        np.random.default_rng(draw(st.integers(0, 2**32 - 1))),
        n_features=draw(st.integers(1, max_features)),
        n_trees=draw(st.integers(1, 3)),
        max_depth=draw(st.integers(0, max_depth)),
        n_outputs=n_outputs,
        vector_leaves=draw(st.booleans()),
        zero_cover=draw(st.booleans()),
        dtype=draw(st.sampled_from(["float32", "float64"])),
    )
