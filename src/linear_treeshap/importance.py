"""Importance over more rows than there is memory for values.

Rows come in batches and leave only sums behind; sums of different batches, processes or machines add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from .engines.sets import Kind
from .engines.values import as_among_many
from .errors import InputError
from .explainer import AskedSets, TreeExplainer
from .results.axes import names_of
from .results.exact_sum import ExactSum
from .results.sums import BySegment, GlobalImportance, GlobalInteractions
from .rows.columns import is_missing
from .rows.frames import as_frame, column_names, is_frame
from .rows.tables import take_columns

__all__ = ["global_importance", "global_interactions", "importance_of", "interactions_of"]

#: Rows, and the label of each row's segment; None if all are of one.
Labelled = tuple[Any, npt.NDArray[Any] | None]


@overload
def global_importance(
    model: Any,
    batches: Any,
    *,
    by: None = None,
    n_jobs: int | None = None,
    check_additivity: bool | float = True,
) -> GlobalImportance: ...


@overload
def global_importance(
    model: Any, batches: Any, *, by: str, n_jobs: int | None = None, check_additivity: bool | float = True
) -> BySegment[GlobalImportance]: ...


def global_importance(
    model: Any,
    batches: Any,
    *,
    by: str | None = None,
    n_jobs: int | None = None,
    check_additivity: bool | float = True,
) -> GlobalImportance | BySegment[GlobalImportance]:
    """Mean absolute and mean values over all rows of all batches, without keeping any values.

    Parameters
    ----------
    model
        A model, or a `TreeExplainer` of one.
    batches
        An iterable of tables (arrays, data frames, sparse matrices), or a single table.
    by
        A column of the frames that says which segment a row is of: a month, a region. Sums are then kept for
        each, in a dictionary by label. It may be a column that the model does not read.
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
    found = importance_of(
        explainer, _labelled(batches, by, explainer), n_jobs=n_jobs, check_additivity=check_additivity
    )
    return found[None] if by is None else BySegment(by, found)


@overload
def global_interactions(
    model: Any,
    batches: Any,
    order: int = 2,
    *,
    index: Kind | None = None,
    by: None = None,
    n_jobs: int | None = None,
    check_additivity: bool | float = True,
) -> GlobalInteractions: ...


@overload
def global_interactions(
    model: Any,
    batches: Any,
    order: int = 2,
    *,
    index: Kind | None = None,
    by: str,
    n_jobs: int | None = None,
    check_additivity: bool | float = True,
) -> BySegment[GlobalInteractions]: ...


def global_interactions(
    model: Any,
    batches: Any,
    order: int = 2,
    *,
    index: Kind | None = None,
    by: str | None = None,
    n_jobs: int | None = None,
    check_additivity: bool | float = True,
) -> GlobalInteractions | BySegment[GlobalInteractions]:
    """Mean absolute and mean interactions over all rows of all batches, without keeping those of any row.

    Memory depends on the sets of features that meet in a tree, not on the number of rows.

    Parameters
    ----------
    model, batches, by, n_jobs
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
    found = interactions_of(
        explainer,
        _labelled(batches, by, explainer),
        order,
        index=index,
        n_jobs=n_jobs,
        check_additivity=check_additivity,
    )
    return found[None] if by is None else BySegment(by, found)


def importance_of(
    explainer: TreeExplainer,
    batches: Iterable[Labelled],
    *,
    n_jobs: int | None = None,
    check_additivity: bool | float = True,
) -> dict[Any, GlobalImportance]:
    """Label → the importance over its rows; that of None, if there are no rows, is of no rows."""
    shape = (explainer.players.n_players, explainer.n_outputs)
    sums = _Segments(shape)
    for rows, labels in batches:
        first = 0
        with as_among_many():
            for values in explainer.iter_values(rows, n_jobs=n_jobs, check_additivity=check_additivity):
                for some, of_segment in sums.parts(labels, first, len(values)):
                    chosen = values if some is None else values[some]
                    of_segment.n_rows += len(chosen)
                    of_segment.total.add(chosen, of_segment.absolute)
                first += len(values)
    names = tuple(explainer.players.names)
    outputs = names_of(explainer.output_names, "Output", shape[1])
    return {
        label: GlobalImportance(one.n_rows, one.absolute, one.total, names, outputs)
        for label, one in sums.found()
    }


def interactions_of(
    explainer: TreeExplainer,
    batches: Iterable[Labelled],
    order: int,
    *,
    index: Kind | None = None,
    n_jobs: int | None = None,
    check_additivity: bool | float = True,
) -> dict[Any, GlobalInteractions]:
    """Label → the interactions over its rows, as `importance_of`."""
    asked = AskedSets.of(explainer, order, index)
    kind, engine = asked.kind, asked.engine
    n_jobs = explainer.n_jobs if n_jobs is None else n_jobs
    shape = (len(engine.sets), engine.n_outputs)
    sums = _Segments(shape)
    for rows, labels in batches:
        first = 0
        for block, check in asked.slices(rows, check_additivity):
            of_slice = np.zeros(engine.n_outputs)
            for some, of_segment in sums.parts(labels, first, len(block)):
                chosen = block if some is None else block[some]
                total, sum_abs = np.zeros(shape), np.zeros(shape)
                engine.add_up(chosen, total, sum_abs, n_jobs=n_jobs)
                of_segment.n_rows += len(chosen)
                of_segment.total.add(total[np.newaxis])
                of_segment.absolute.add(sum_abs[np.newaxis])
                of_slice += total.sum(axis=0)
            check(of_slice)
            first += len(block)
    names = tuple(explainer.players.names)
    outputs = names_of(explainer.output_names, "Output", shape[1])
    return {
        label: GlobalInteractions(one.n_rows, engine.sets, one.absolute, one.total, names, outputs, kind)
        for label, one in sums.found()
    }


class _Segment:
    """What is summed of the rows of one segment."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.n_rows, self.total, self.absolute = 0, ExactSum(shape), ExactSum(shape)


class _Segments:
    """Sums by label; there is one for None, of all rows, where rows have no labels."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._segments: dict[Any, _Segment] = {}

    def parts(
        self, labels: npt.NDArray[Any] | None, first: int, n_rows: int
    ) -> Iterator[tuple[npt.NDArray[np.intp] | None, _Segment]]:
        """Which of these rows belong to which segment; None for all of them."""
        if labels is None:
            yield None, self._of(None)
            return
        places: dict[Any, list[int]] = {}
        for row, label in enumerate(labels[first : first + n_rows].tolist()):
            places.setdefault(None if is_missing(label) else label, []).append(row)
        for label, rows in places.items():
            yield np.array(rows, dtype=np.intp), self._of(label)

    def _of(self, label: Any) -> _Segment:
        if label not in self._segments:
            self._segments[label] = _Segment(self._shape)
        return self._segments[label]

    def found(self) -> Iterable[tuple[Any, _Segment]]:
        return self._segments.items() or [(None, _Segment(self._shape))]


def _labelled(batches: Any, by: str | None, explainer: TreeExplainer) -> Iterator[Labelled]:
    """The tables one by one with the labels of their rows, whose column is taken off if it is no feature."""
    for batch in _batches(batches):
        if by is None:
            yield batch, None
            continue
        names = column_names(batch)
        if names is None or by not in names:
            said = "an array has no names" if names is None else f"it has: {', '.join(map(repr, names[:10]))}"
            raise InputError(f"by={by!r} must be a column of every batch; {said}.")
        frame, place = as_frame(batch), names.index(by)
        labels = np.empty(len(frame), dtype=object)
        labels[:] = _column(frame, place)
        is_feature = explainer.ensemble.row_format.knows(by) or by in (explainer._assignment.raw_names or ())
        others = [other for other in range(len(names)) if other != place]
        yield frame if is_feature else take_columns(frame, others), labels


def _column(frame: Any, place: int) -> list[Any]:
    import narwhals.stable.v1 as nw

    found: list[Any] = nw.from_native(frame, eager_only=True)[:, place].to_list()
    return found


def _batches(batches: Any) -> Iterator[Any]:
    """The tables one by one; a single table is a batch of its own."""
    is_table = is_frame(batches) or isinstance(batches, np.ndarray) or hasattr(batches, "tocsr")
    if is_table or not isinstance(batches, Iterable):
        yield batches
    else:
        yield from batches
