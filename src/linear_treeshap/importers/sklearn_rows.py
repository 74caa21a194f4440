"""What scikit-learn models expect of a row, and the user's rows as scikit-learn itself takes them.

We take more kinds of rows than scikit-learn does: shuffled columns, one row, Arrow tables. To ask a
model for its own prediction, such rows are put into a shape that it takes, with names iff it was
trained with names: it warns about any other, and warnings cannot be silenced in one thread alone.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from ..model.ensemble import monotone_columns
from ..model.row_format import RowFormat
from ..rows.rows import read_rows
from ..rows.tables import named

__all__ = ["monotone_of", "names_of", "predict_as_trained", "tree_row_format"]


def tree_row_format(model: Any) -> RowFormat:
    """The format of all models made of ``tree_``: they cast rows to float32 and know no categories."""
    return RowFormat(int(model.n_features_in_), names_of(model), "float32", numbers_are_codes=False)


def names_of(model: Any) -> tuple[str, ...] | None:
    """``feature_names_in_``, if the model was trained on a data frame."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(map(str, names))


def monotone_of(model: Any) -> dict[int, int]:
    """The columns with which the model was trained to rise or fall: ``monotonic_cst``."""
    asked = getattr(model, "monotonic_cst", None)
    if asked is None:
        return {}
    if isinstance(asked, dict):
        asked = [asked.get(name, 0) for name in names_of(model) or ()]
    return monotone_columns(asked)


def predict_as_trained(
    predict: Callable[[Any], Any], X: Any, row_format: RowFormat
) -> npt.NDArray[np.float64]:
    """Call a prediction method of a scikit-learn model on rows of any kind.

    Several arrays, one per target, are put side by side.
    """
    prediction = predict(_as_trained(X, row_format))
    if isinstance(prediction, list):
        prediction = np.hstack(prediction)
    return np.asarray(prediction, dtype=np.float64)


def _as_trained(X: Any, row_format: RowFormat) -> Any:
    import narwhals.stable.v1 as nw

    names = row_format.feature_names
    if hasattr(X, "tocsr"):
        if names is None and row_format.dtype == "float32":
            return X
        X = X.toarray()  # histograms take no sparse rows, and sparse rows take no names
    if isinstance(X, np.ndarray) and X.ndim == 2:
        return X if names is None else named(X, names)
    if nw.dependencies.is_pandas_dataframe(X) or nw.dependencies.is_polars_dataframe(X):
        if names is None and row_format.categories:
            return X.to_numpy()
        if names is not None and set(names) == set(X.columns):
            return X[list(names)]
    rows = read_rows(X, row_format)
    numbers = rows[0 : rows.n_rows]
    if row_format.categories:
        return _with_labels(numbers, row_format)
    return numbers if names is None else named(numbers, names)


def _with_labels(numbers: npt.NDArray[Any], row_format: RowFormat) -> Any:
    """A data frame in which the categories are labels again; unknown ones are missing."""
    pd = import_module("pandas")
    names = row_format.feature_names or range(row_format.n_features)
    columns: dict[Any, Any] = {}
    for feature, name in enumerate(names):
        column = numbers[:, feature]
        if feature in row_format.categories:
            codes = np.where(np.isnan(column), -1, column).astype(np.int64)
            column = pd.Categorical.from_codes(codes, list(row_format.categories[feature]))
        columns[name] = column
    return pd.DataFrame(columns)
