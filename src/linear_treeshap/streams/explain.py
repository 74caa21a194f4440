"""Batches of rows in, batches of values out, in bounded memory: `explain_batches`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..explainer import TreeExplainer
from .arrow import require_arrow, tables_of
from .batch_explainer import BatchExplainer, Options
from .options import with_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["explain_batches"]


@with_options(Options, of=BatchExplainer)
def explain_batches(explainer: TreeExplainer, batches: Any, **options: Unpack[Options]) -> Any:
    """The values of a stream of rows, as a stream: Arrow in, Arrow out, one batch in memory at a time.

    Parameters
    ----------
    explainer
        A `TreeExplainer`: of columns, groups, a pipeline, a background, any index.
    batches
        Whatever speaks Arrow (``__arrow_c_stream__``: a reader or table of pyarrow, a frame of polars, a
        relation of DuckDB), or an iterable of record batches or frames. Columns are matched by name where
        the model knows names, and those that it does not read are left alone. Nulls are missing values.
    output
        "columns": a column per feature, and a line per output where there are several, named in a column
        "output". "struct": one column of structs, of values by name (several outputs: of such structs by
        output), so that there is always one line per row. "long": a line per value. "top": a line for each
        of the ``top`` largest values of a row, by absolute value.
    keep
        Columns that come out again beside the values: keys, dates, whatever identifies a row. Without any,
        lines of "long" and "top" have the number of the row in the stream, from 0.
    prefix
        What the names of the columns of values begin with.
    column
        The name of the column of structs.
    only
        One output of several, by name or number.
    order, index
        With an ``order``, interactions as by `TreeExplainer.interactions`: a column, or a line, per set of
        up to so many features that meet in a tree.
    base_values
        Add a column "base_value" (to structs: a field), with which the values of a row add up.
    dtype
        "float64" or "float32".
    y
        The column of true outcomes, for an explainer of model_output="log_loss".
    check_additivity
        As for `TreeExplainer.shap_values`, for each batch.

    Returns
    -------
    pyarrow.RecordBatchReader
        Its schema is known at once; rows are read, explained and given as they are asked for, in order.

    Raises
    ------
    InputError
        The columns do not fit the model. Where their types show it, nothing is read.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from linear_treeshap import TreeExplainer, explain_batches
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> model = DecisionTreeRegressor(max_depth=1).fit([[0], [0], [0], [1]], [1, 1, 1, 3])
    >>> rows = pa.table({"id": ["a", "b"], "age": [0.0, 1.0]})
    >>> explain_batches(TreeExplainer(model, feature_names=["age"]), rows, keep=["id"]).read_all().to_pylist()
    [{'id': 'a', 'age': -0.5}, {'id': 'b', 'age': 1.5}]
    """
    schema, tables = tables_of(batches)
    explain = BatchExplainer.of(explainer, schema, options)

    def explained() -> Iterator[Any]:
        first_row = 0
        for table in tables:
            for start in range(0, table.num_rows, explain.batch_rows):
                part = table.slice(start, explain.batch_rows)
                yield from explain(part, first_row).to_batches()
                first_row += part.num_rows

    return require_arrow().RecordBatchReader.from_batches(explain.schema, explained())
