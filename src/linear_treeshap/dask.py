"""Dask collections in, Dask collections out, lazily: partitions, index and chunks stay as they are.

What is sent to workers is the explainer's pickle, once. A task has one thread, as is Dask's custom.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .engines.sets import Kind
from .errors import InputError, MissingDependencyError
from .explainer import TreeExplainer
from .importance import importance_of, interactions_of
from .streams.arrow import plain_texts, require_arrow
from .streams.columns import ModelColumns
from .streams.explain import BatchExplainer, output_position, used_beside
from .streams.layout import Output
from .streams.sums import BatchSums, Found
from .streams.travel import travelling

try:
    import dask
    import dask.array
    import dask.dataframe
    import pandas
except ImportError as missing:
    raise MissingDependencyError(
        "linear_treeshap.dask runs on Dask, which is not installed. Run: pip install 'linear-treeshap[dask]'."
    ) from missing

__all__ = ["explain", "global_importance", "global_interactions"]

#: So many sums are added up by one task.
_SPLIT_EVERY = 8


def explain(
    rows: Any,
    explainer: TreeExplainer,
    *,
    output: Output = "columns",
    keep: Sequence[str] = (),
    prefix: str = "",
    column: str = "shap",
    top: int = 5,
    only: str | int | None = None,
    order: int | None = None,
    index: Kind | None = None,
    base_values: bool = False,
    dtype: str = "float64",
    y: str | None = None,
    check_additivity: bool | float = True,
) -> Any:
    """The values of the rows of a Dask data frame or array, as one of these, computed when that is.

    Parameters
    ----------
    rows
        A ``dask.dataframe.DataFrame``, whose columns are matched by name, or a ``dask.array.Array``.
    explainer
        A `TreeExplainer`.
    output, keep, prefix, column, top, only, order, index, base_values, dtype, y, check_additivity
        As for `linear_treeshap.explain_batches`. For an array only ``only``, ``dtype`` and
        ``check_additivity`` mean something.

    Returns
    -------
    dask.dataframe.DataFrame or dask.array.Array
        Of a frame, one with the same partitions, divisions and index; where a row has several lines, its
        label is there as often. Of an array, (n_rows, n_players) or (n_rows, n_players, n_outputs), with the
        same chunks of rows.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> import pandas as pd
    >>> from linear_treeshap import TreeExplainer
    >>> from linear_treeshap.dask import explain
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> rows = pd.DataFrame({"age": [0.0, 0.0, 0.0, 1.0]}, index=["a", "b", "c", "d"])
    >>> model = DecisionTreeRegressor(max_depth=1).fit(rows, [1, 1, 1, 3])
    >>> explain(dd.from_pandas(rows, npartitions=2), TreeExplainer(model)).compute()
       age
    a -0.5
    b -0.5
    c -0.5
    d  1.5
    """
    sent = travelling(explainer)
    if isinstance(rows, dask.array.Array):
        asked = {
            "output": output != "columns",
            "keep": bool(keep),
            "prefix": bool(prefix),
            "order": order is not None,
            "base_values": base_values,
            "y": y is not None,
        }
        unfit = [name for name, is_asked in asked.items() if is_asked]
        if unfit:
            raise InputError(
                f"{unfit[0]}= is for data frames, and this is an array, whose columns have no names. Pass a "
                f"dask.dataframe."
            )
        return _explain_array(rows, sent, only, dtype, check_additivity)
    meta = _meta(rows)
    schema = _table(meta).schema
    explain_table = BatchExplainer(
        ModelColumns(sent, schema, used_beside(keep, y), source="The data frame"),
        schema,
        output=output,
        keep=keep,
        prefix=prefix,
        column=column,
        top=top,
        only=only,
        order=order,
        index=index,
        base_values=base_values,
        dtype=dtype,
        y=y,
        check_additivity=check_additivity,
    )
    return rows[explain_table.reads].map_partitions(
        _explain_partition,
        dask.delayed(explain_table, pure=True),
        meta=_explain_partition(meta.iloc[:0][explain_table.reads], explain_table),
    )


def global_importance(
    rows: Any, explainer: TreeExplainer, *, by: str | None = None, check_additivity: bool | float = True
) -> Any:
    """As `linear_treeshap.global_importance`, over the rows of a Dask data frame or array.

    Returns
    -------
    dask.delayed.Delayed
        ``.compute()`` gives the `GlobalImportance`, or with ``by`` a dictionary of them. Each partition is
        summed up where it is, sums are added up in a tree, and the bits do not depend on the partitions.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> import pandas as pd
    >>> from linear_treeshap import TreeExplainer
    >>> from linear_treeshap.dask import global_importance
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> rows = pd.DataFrame({"age": [0.0, 0.0, 0.0, 1.0]})
    >>> model = DecisionTreeRegressor(max_depth=1).fit(rows, [1, 1, 1, 3])
    >>> global_importance(dd.from_pandas(rows, npartitions=2), TreeExplainer(model)).compute().to_frame()
      feature  mean_abs  mean
    0     age      0.75   0.0
    """
    return _reduced(rows, explainer, by, None, None, check_additivity)


def global_interactions(
    rows: Any,
    explainer: TreeExplainer,
    order: int = 2,
    *,
    index: Kind | None = None,
    by: str | None = None,
    check_additivity: bool | float = True,
) -> Any:
    """As `linear_treeshap.global_interactions`, over the rows of a Dask data frame or array, lazily."""
    return _reduced(rows, explainer, by, order, index, check_additivity)


def _explain_partition(frame: Any, explain_table: BatchExplainer) -> Any:
    """One partition: a frame with the labels of its rows."""
    arrow = require_arrow()
    table = _table(frame)
    parts = [explain_table.schema.empty_table()]
    for start in range(0, table.num_rows, explain_table.batch_rows):
        parts.append(explain_table(table.slice(start, explain_table.batch_rows)))
    lines = arrow.concat_tables(parts)
    if not explain_table.keep and explain_table.layout.output in ("long", "top"):
        lines = lines.drop_columns(["row"])  # the index says it
    structs = {field.type: pandas.ArrowDtype(field.type) for field in lines.schema if field.type.num_fields}
    found = lines.to_pandas(types_mapper=structs.get)
    found.index = frame.index.repeat(explain_table.layout.lines_per_row)
    return found


def _explain_array(rows: Any, explainer: TreeExplainer, only: Any, dtype: Any, check: bool | float) -> Any:
    """Chunks of rows stay as they are; a row is in one chunk."""
    if rows.ndim != 2:
        raise InputError(f"rows must be an array of two dimensions, got {rows.ndim}.")
    chosen = output_position(only, explainer.ensemble)
    n_outputs = explainer.ensemble.n_outputs if chosen is None else 1
    shape: tuple[int, ...] = (explainer.players.n_players, n_outputs)[: 1 if n_outputs == 1 else 2]
    whole = rows.rechunk({1: -1})
    return whole.map_blocks(
        _explain_block,
        dask.delayed(explainer, pure=True),
        chosen,
        dtype,
        check,
        dtype=np.dtype(dtype),
        chunks=(whole.chunks[0], *((n,) for n in shape)),
        drop_axis=1,
        new_axis=list(range(1, 1 + len(shape))),
        meta=np.empty((0,) * (1 + len(shape)), dtype=dtype),
    )


def _explain_block(
    block: Any, explainer: TreeExplainer, chosen: int | None, dtype: Any, check: bool | float
) -> Any:
    values = explainer.shap_values(block, dtype=dtype, check_additivity=check)
    return values if chosen is None else values[..., chosen]


def _reduced(
    rows: Any,
    explainer: TreeExplainer,
    by: str | None,
    order: int | None,
    index: Kind | None,
    check_additivity: bool | float,
) -> Any:
    sent = travelling(explainer)
    if isinstance(rows, dask.array.Array):
        if by is not None:
            raise InputError("by= names a column, and columns of an array have no names.")
        parts = rows.rechunk({1: -1}).to_delayed().reshape(-1)
        explainer_once = dask.delayed(sent, pure=True)
        sums = [_SUM_BLOCK(part, explainer_once, order, index, check_additivity) for part in parts]
    else:
        meta = _meta(rows)
        columns = ModelColumns(sent, _table(meta).schema, used_beside([], by), source="The data frame")
        batch_sums = BatchSums(columns, by=by, order=order, index=index, check_additivity=check_additivity)
        once = dask.delayed(batch_sums, pure=True)
        sums = [_SUM_PARTITION(part, once) for part in rows[batch_sums.reads].to_delayed()]
    while len(sums) > 1:
        sums = [_ADD(sums[start : start + _SPLIT_EVERY]) for start in range(0, len(sums), _SPLIT_EVERY)]
    return sums[0]


def _sum_partition(frame: Any, batch_sums: BatchSums) -> Found:
    return batch_sums([_table(frame)])


def _sum_block(block: Any, explainer: TreeExplainer, order: Any, index: Any, check: bool | float) -> Found:
    if order is None:
        return importance_of(explainer, [(block, None)], check_additivity=check)[None]
    return interactions_of(explainer, [(block, None)], order, index=index, check_additivity=check)[None]


def _add(sums: list[Any]) -> Any:
    total = sums[0]
    for one in sums[1:]:
        total = total + one
    return total


_SUM_PARTITION = dask.delayed(_sum_partition, pure=True)
_SUM_BLOCK = dask.delayed(_sum_block, pure=True)
_ADD = dask.delayed(_add, pure=True)


def _meta(rows: Any) -> Any:
    """A frame of a row or two of made-up cells, which have the types of the columns."""
    if not isinstance(rows, dask.dataframe.DataFrame):
        raise InputError(
            f"rows must be a data frame or an array of Dask, got {type(rows).__name__}. Explain pandas and "
            f"NumPy with the explainer itself."
        )
    return rows._meta_nonempty


def _table(frame: Any) -> Any:
    return plain_texts(require_arrow().Table.from_pandas(frame, preserve_index=False))
