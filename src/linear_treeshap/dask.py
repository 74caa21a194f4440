"""Dask collections in, Dask collections out, lazily: partitions, index and chunks stay as they are.

What is sent to workers is the explainer's pickle, once. A task has one thread, as is Dask's custom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .engines.values import as_among_many
from .errors import InputError, MissingDependencyError, how_to_install
from .explainer import TreeExplainer
from .importance import importance_of, interactions_of
from .streams.arrow import plain_texts, require_arrow
from .streams.batch_explainer import BatchExplainer, Options, output_position, used_beside
from .streams.columns import ModelColumns
from .streams.options import with_options
from .streams.sums import BatchSums, Found, ImportanceOptions, InteractionOptions
from .streams.travel import travelling

if TYPE_CHECKING:
    from typing_extensions import Unpack

try:
    import dask
    import dask.array
    import dask.dataframe
    import pandas
except ImportError as missing:
    raise MissingDependencyError(
        f"linear_treeshap.dask runs on Dask, which is not installed. {how_to_install('dask')}"
    ) from missing

__all__ = ["explain", "global_importance", "global_interactions"]

#: So many sums are added up by one task.
_SPLIT_EVERY = 8


@with_options(Options, of=BatchExplainer)
def explain(rows: Any, explainer: TreeExplainer, **options: Unpack[Options]) -> Any:
    """The values of the rows of a Dask data frame or array, as one of these, computed when that is.

    Parameters
    ----------
    rows
        A ``dask.dataframe.DataFrame``, whose columns are matched by name, or a ``dask.array.Array``.
    explainer
        A `TreeExplainer`.
    options
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
        return _explain_array(rows, sent, options)
    meta = _meta(rows)
    explain_table = BatchExplainer.of(sent, _table(meta).schema, options, source="The data frame")
    return rows[explain_table.reads].map_partitions(
        _explain_partition,
        dask.delayed(explain_table, pure=True),
        meta=_explain_partition(meta.iloc[:0][explain_table.reads], explain_table),
    )


@with_options(ImportanceOptions, of=BatchSums)
def global_importance(rows: Any, explainer: TreeExplainer, **options: Unpack[ImportanceOptions]) -> Any:
    """As `linear_treeshap.global_importance`, over the rows of a Dask data frame or array.

    Returns
    -------
    dask.delayed.Delayed
        ``.compute()`` gives the `GlobalImportance`, or with ``by`` a dictionary of them. Each partition is
        summed up where it is, sums are added up in a tree, and the bits do not depend on the partitions.

    Examples
    --------
    >>> import dask.array as da
    >>> from linear_treeshap import TreeExplainer
    >>> from linear_treeshap.dask import global_importance
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> explainer = TreeExplainer(DecisionTreeRegressor(max_depth=1).fit([[0], [0], [0], [1]], [1, 1, 1, 3]))
    >>> global_importance(da.zeros((1000, 1), chunks=(100, 1)), explainer).compute().mean_abs
    array([[0.5]])
    """
    return _reduced(rows, explainer, **options)


@with_options(InteractionOptions, of=BatchSums)
def global_interactions(
    rows: Any, explainer: TreeExplainer, order: int = 2, **options: Unpack[InteractionOptions]
) -> Any:
    """As `linear_treeshap.global_interactions`, over the rows of a Dask data frame or array, lazily."""
    return _reduced(rows, explainer, order=order, **options)


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


#: What can be asked of an array; other options are about columns and lines.
_OF_ARRAYS = {"only", "dtype", "check_additivity"}


def _explain_array(rows: Any, explainer: TreeExplainer, options: Options) -> Any:
    """Chunks of rows stay as they are; a row is in one chunk."""
    unfit = sorted(set(options) - _OF_ARRAYS)
    if unfit:
        raise InputError(
            f"{unfit[0]}= is for data frames, and this is an array, whose columns have no names. Pass a "
            f"dask.dataframe."
        )
    if rows.ndim != 2:
        raise InputError(f"rows must be an array of two dimensions, got {rows.ndim}.")
    dtype, check = options.get("dtype", "float64"), options.get("check_additivity", True)
    chosen = output_position(options.get("only"), explainer)
    n_outputs = explainer.n_outputs if chosen is None else 1
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
    with as_among_many():
        values = explainer.shap_values(block, dtype=dtype, check_additivity=check)
    return values if chosen is None else values[..., chosen]


def _reduced(rows: Any, explainer: TreeExplainer, **asked: Any) -> Any:
    sent = travelling(explainer)
    if isinstance(rows, dask.array.Array):
        if asked.pop("by", None) is not None:
            raise InputError("by= names a column, and columns of an array have no names.")
        parts = rows.rechunk({1: -1}).to_delayed().reshape(-1)
        explainer_once = dask.delayed(sent, pure=True)
        sums = [_SUM_BLOCK(part, explainer_once, asked) for part in parts]
    else:
        meta = _meta(rows)
        columns = ModelColumns(
            sent, _table(meta).schema, used_beside([], asked.get("by")), source="The data frame"
        )
        batch_sums = BatchSums(columns, **asked)
        once = dask.delayed(batch_sums, pure=True)
        sums = [_SUM_PARTITION(part, once) for part in rows[batch_sums.reads].to_delayed()]
    while len(sums) > 1:
        sums = [_ADD(sums[start : start + _SPLIT_EVERY]) for start in range(0, len(sums), _SPLIT_EVERY)]
    return sums[0]


def _sum_partition(frame: Any, batch_sums: BatchSums) -> Found:
    return batch_sums([_table(frame)])


def _sum_block(block: Any, explainer: TreeExplainer, asked: dict[str, Any]) -> Found:
    sums_of = interactions_of if "order" in asked else importance_of
    return sums_of(explainer, [(block, None)], **asked)[None]


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
