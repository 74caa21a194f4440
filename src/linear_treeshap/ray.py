"""Datasets of Ray in, datasets out: blocks are explained by the actors that have them, a batch at a time.

What is sent to workers is the explainer's pickle, once, through Ray's object store. An actor has one thread.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from .errors import InputError, MissingDependencyError, how_to_install
from .explainer import TreeExplainer
from .streams.arrow import plain_texts, require_arrow
from .streams.batch_explainer import BatchExplainer, Options, used_beside
from .streams.columns import ModelColumns
from .streams.options import with_options
from .streams.sums import BatchSums, ImportanceOptions, InteractionOptions
from .streams.travel import travelling

if TYPE_CHECKING:
    from typing_extensions import Unpack

try:
    import ray
    import ray.data
    from ray.data.aggregate import AggregateFn
except ImportError as missing:
    raise MissingDependencyError(
        f"linear_treeshap.ray runs on Ray Data, which is not installed. {how_to_install('ray')}"
    ) from missing

__all__ = ["Explain", "explain", "global_importance", "global_interactions"]

#: How many actors, or the fewest and the most; None for as many as there is room for.
Concurrency = int | tuple[int, int] | None


class Explain:
    """What `ray.data.Dataset.map_batches` calls: a batch of rows in, a batch of values out.

    For those who choose actors and batches themselves; `explain` does it for you, and looks at the schema
    before anything runs.

    Parameters
    ----------
    explainer
        A `TreeExplainer`.
    options
        As for `explain`.

    Examples
    --------
    >>> ds.map_batches(Explain, fn_constructor_args=(explainer,), fn_constructor_kwargs={"keep": ["id"]},
    ...                batch_format="pyarrow", concurrency=8)  # doctest: +SKIP
    """

    def __init__(self, explainer: Any, **options: Unpack[Options]) -> None:
        ready = ray.get(explainer) if isinstance(explainer, ray.ObjectRef) else explainer
        self._ready: BatchExplainer | None = ready if isinstance(ready, BatchExplainer) else None
        self._explainer = None if self._ready else travelling(ready)
        self._options = options

    def __call__(self, batch: Any) -> Any:
        table = plain_texts(batch)
        if self._ready is None:
            assert self._explainer is not None
            self._ready = _batch_explainer(self._explainer, table.schema, self._options)
        if table.num_rows == 0:
            return self._ready.schema.empty_table()
        step = self._ready.batch_rows
        ready = self._ready.keeping_types(table.schema)
        parts = [ready(table.slice(start, step)) for start in range(0, table.num_rows, step)]
        return require_arrow().concat_tables(parts)


@with_options(Options, of=BatchExplainer)
def explain(
    ds: Any,
    explainer: TreeExplainer,
    *,
    concurrency: Concurrency = None,
    **options: Unpack[Options],
) -> Any:
    """The values of the rows of a dataset of Ray, as a dataset, computed when that is.

    Parameters
    ----------
    ds
        A ``ray.data.Dataset``, whose columns are matched by name.
    explainer
        A `TreeExplainer`.
    options
        As for `linear_treeshap.explain_batches`. Ray does not keep rows in order, so that "long" and "top"
        need columns to ``keep``.
    concurrency
        How many actors explain, as for ``map_batches``: a number, or the fewest and the most. Each holds a
        CPU, and what reads the rows needs others. None for at least one, and more as there is room.

    Examples
    --------
    >>> from linear_treeshap.ray import explain  # doctest: +SKIP
    >>> values = explain(ray.data.read_parquet("rows"), explainer, keep=["id"])  # doctest: +SKIP
    >>> values.write_parquet("values")  # doctest: +SKIP
    """
    ready = _batch_explainer(travelling(explainer), _schema(ds), options)
    return _mapped(ds.select_columns(ready.reads), Explain, ray.put(ready), ready.batch_rows, concurrency)


@with_options(ImportanceOptions, of=BatchSums)
def global_importance(
    ds: Any,
    explainer: TreeExplainer,
    *,
    concurrency: Concurrency = None,
    **options: Unpack[ImportanceOptions],
) -> Any:
    """As `linear_treeshap.global_importance`, over a dataset of Ray: it runs, and its result.

    Actors sum up their batches, and Ray aggregates the sums. They are exact: blocks do not show in the bits.
    """
    return _reduced(ds, explainer, concurrency, **options)


@with_options(InteractionOptions, of=BatchSums)
def global_interactions(
    ds: Any,
    explainer: TreeExplainer,
    order: int = 2,
    *,
    concurrency: Concurrency = None,
    **options: Unpack[InteractionOptions],
) -> Any:
    """As `linear_treeshap.global_interactions`, over a dataset of Ray: it runs, and its result."""
    return _reduced(ds, explainer, concurrency, order=order, **options)


class _Sum:
    """A batch of rows in, one line of their sums out."""

    def __init__(self, batch_sums: Any) -> None:
        self._batch_sums: BatchSums = ray.get(batch_sums)

    def __call__(self, batch: Any) -> Any:
        sums = pickle.dumps(self._batch_sums([plain_texts(batch)]))
        arrow = require_arrow()
        return arrow.table({"sums": arrow.array([sums], arrow.binary())})


def _reduced(ds: Any, explainer: TreeExplainer, concurrency: Any, **asked: Any) -> Any:
    columns = ModelColumns(
        travelling(explainer), _schema(ds), used_beside([], asked.get("by")), source="The dataset"
    )
    batch_sums = BatchSums(columns, **asked)
    nothing = pickle.dumps(batch_sums([]))
    sums = _mapped(ds.select_columns(batch_sums.reads), _Sum, ray.put(batch_sums), None, concurrency)
    total = AggregateFn(
        init=lambda _: nothing,
        accumulate_row=lambda so_far, row: _added(so_far, row["sums"]),
        merge=_added,
        name="total",
    )
    return pickle.loads(sums.aggregate(total)["total"])


def _added(one: bytes, other: bytes) -> bytes:
    return pickle.dumps(pickle.loads(one) + pickle.loads(other))


def _mapped(ds: Any, worker: type, ref: Any, batch_rows: int | None, concurrency: Any) -> Any:
    return ds.map_batches(
        worker,
        fn_constructor_args=(ref,),
        batch_format="pyarrow",
        batch_size=batch_rows,
        concurrency=concurrency or (1, max(1, int(ray.cluster_resources().get("CPU", 1)))),
    )


def _batch_explainer(explainer: TreeExplainer, schema: Any, options: Options) -> BatchExplainer:
    return BatchExplainer.of(explainer, schema, options, source="The dataset", numbers_rows=False)


def _schema(ds: Any) -> Any:
    """The Arrow schema of a dataset; for one that is read lazily, Ray looks at the first rows."""
    if not isinstance(ds, ray.data.Dataset):
        raise InputError(f"ds must be a dataset of Ray, got {type(ds).__name__}.")
    arrow = require_arrow()
    schema = ds.schema()
    if schema is None:
        raise InputError("The dataset has no rows and no columns, so there is nothing to explain.")
    found = schema.base_schema
    if not isinstance(found, arrow.Schema):  # blocks of pandas
        found = arrow.schema(list(zip(schema.names, schema.types, strict=True)))
    return plain_texts(found.empty_table()).schema
