"""Importance over more rows than there is memory for values.

Rows come in batches and leave only sums behind; sums of different batches, processes or machines add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .engines.sets import Kind
from .explainer import AskedSets, TreeExplainer
from .results.axes import names_of
from .results.sums import GlobalImportance, GlobalInteractions
from .rows.frames import is_frame

__all__ = ["global_importance", "global_interactions"]


def global_importance(
    model: Any, batches: Any, *, n_jobs: int | None = None, check_additivity: bool | float = True
) -> GlobalImportance:
    """Mean absolute and mean values over all rows of all batches, without keeping any values.

    Parameters
    ----------
    model
        A model, or a `TreeExplainer` of one.
    batches
        An iterable of tables (arrays, data frames, sparse matrices), or a single table.
    n_jobs
        Threads; None for those of the explainer.
    check_additivity
        As for `TreeExplainer.shap_values`, for each batch.

    Examples
    --------
    >>> import numpy as np
    >>> from linear_treeshap import global_importance
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> model = DecisionTreeRegressor(max_depth=1).fit([[0], [0], [0], [1]], [1, 1, 1, 3])
    >>> importance = global_importance(model, (np.full((1000, 1), x) for x in (0.0, 0.0, 1.0)))
    >>> importance.n_rows
    3000
    >>> importance.to_frame()
         feature  mean_abs      mean
    0  Feature 0  0.833333  0.166667
    """
    explainer = model if isinstance(model, TreeExplainer) else TreeExplainer(model)
    shape = (explainer.players.n_players, explainer.ensemble.n_outputs)
    n_rows, sum_abs, total = 0, np.zeros(shape), np.zeros(shape)
    for batch in _batches(batches):
        for values in explainer.iter_values(batch, n_jobs=n_jobs, check_additivity=check_additivity):
            n_rows += len(values)
            total += values.sum(axis=0)
            sum_abs += np.abs(values, out=values).sum(axis=0)
    outputs = names_of(explainer.ensemble.output_names, "Output", shape[1])
    return GlobalImportance(n_rows, sum_abs, total, tuple(explainer.players.names), outputs)


def global_interactions(
    model: Any,
    batches: Any,
    order: int = 2,
    *,
    index: Kind | None = None,
    n_jobs: int | None = None,
    check_additivity: bool | float = True,
) -> GlobalInteractions:
    """Mean absolute and mean interactions over all rows of all batches, without keeping those of any row.

    Memory depends on the sets of features that meet in a tree, not on the number of rows.

    Parameters
    ----------
    model, batches, n_jobs
        As for `global_importance`.
    order, index, check_additivity
        As for `TreeExplainer.interactions`; sums are compared batch by batch.

    Examples
    --------
    >>> import numpy as np
    >>> from linear_treeshap import global_interactions
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> model = DecisionTreeRegressor().fit([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 0, 0, 8])
    >>> global_interactions(model, np.ones((1000, 2))).to_frame()
                    features  mean_abs  mean
    0              Feature 0       2.0   2.0
    1              Feature 1       2.0   2.0
    2  Feature 0 × Feature 1       2.0   2.0
    """
    explainer = model if isinstance(model, TreeExplainer) else TreeExplainer(model)
    asked = AskedSets.of(explainer, order, index)
    engine = asked.engine
    n_jobs = explainer.n_jobs if n_jobs is None else n_jobs
    shape = (len(engine.sets), engine.n_outputs)
    n_rows, sum_abs, total = 0, np.zeros(shape), np.zeros(shape)
    for batch in _batches(batches):
        for rows, check in asked.slices(batch, check_additivity):
            before = total.sum(axis=0)
            n_rows += len(rows)
            engine.add_up(rows, total, sum_abs, n_jobs=n_jobs)
            check(total.sum(axis=0) - before)
    outputs = names_of(explainer.ensemble.output_names, "Output", shape[1])
    names = tuple(explainer.players.names)
    return GlobalInteractions(n_rows, engine.sets, sum_abs, total, names, outputs, asked.kind)


def _batches(batches: Any) -> Iterator[Any]:
    """The tables one by one; a single table is a batch of its own."""
    is_table = is_frame(batches) or isinstance(batches, np.ndarray) or hasattr(batches, "tocsr")
    if is_table or not isinstance(batches, Iterable):
        yield batches
    else:
        yield from batches
