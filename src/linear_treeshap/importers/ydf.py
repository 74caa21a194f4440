"""Random forests and gradient boosted trees of YDF, trained or saved → TreeEnsemble.

The directory that ``model.save`` writes is read without YDF. A model at hand is saved and read back, because
the directory is what YDF promises to keep.

A forest is the mean of its trees: of predictions, or of each class's probability (votes if the winner takes
all). Boosted trees add up, with the initial predictions: to log-odds in a classifier, to the logarithm of the
mean with a Poisson loss. Rows are frames or arrays of the columns that the model was trained on.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError, ModelError, UnsupportedModelError
from ..model.ensemble import TreeEnsemble
from ..model.links import Exponential, Link, Logistic
from ..rows.rows import read_rows
from .protobuf import Message
from .ydf_columns import SPEC, Columns, texts_of
from .ydf_file import read_directory

__all__ = [
    "BEGINNINGS",
    "LIBRARY",
    "is_directory_of_model",
    "is_softmax",
    "link",
    "predicts_raw",
    "raw_prediction",
    "read_file",
    "to_ensemble",
]

LIBRARY = "YDF"
#: A model is a directory, not a file.
BEGINNINGS = ()

#: Losses of boosted trees, by YDF's numbers: of log-odds of two classes, and of several; of a logarithm.
_LOGISTIC_LOSSES, _SOFTMAX_LOSS, _POISSON_LOSS = (1, 6), 3, 7


def to_ensemble(model: Any) -> TreeEnsemble:
    with tempfile.TemporaryDirectory() as directory:
        model.save(directory)
        return read_directory(Path(directory))


def read_file(path: Path) -> TreeEnsemble:
    """Read a directory that ``model.save`` wrote; YDF itself is not needed."""
    try:
        return read_directory(path)
    except UnsupportedModelError:
        raise
    except (FileFormatError, ModelError, OSError) as error:
        raise FileFormatError(f"Cannot read {str(path)!r}, a model of YDF: {error}") from error


def is_directory_of_model(path: Path) -> bool:
    """Did YDF write this directory? Names may have a prefix, as in the assets of a model of TensorFlow."""
    return any(path.glob(f"*{SPEC}"))


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float32]:
    """YDF's own: of log-odds where that is the sum of the trees, of probabilities in forests."""
    # In float32, as YDF computes: so much rounding is allowed for.
    prediction = np.asarray(_with_logits(model).predict(_as_trained(model, X)), dtype=np.float32)
    if _loss(model) == _POISSON_LOSS:
        return np.asarray(np.log(prediction))
    if _is_classifier(model) and _loss(model) is None and prediction.ndim == 1:  # of two classes, the second
        return np.column_stack([1 - prediction, prediction])
    return prediction


def predicts_raw(model: Any) -> bool:
    """Of two classes, a forest predicts the second alone."""
    if _is_classifier(model):
        return _loss(model) is None and len(model.label_classes()) > 2
    return _loss(model) != _POISSON_LOSS


def link(model: Any) -> Link | None:
    if _loss(model) == _POISSON_LOSS:
        return Exponential()
    return Logistic() if _loss(model) in _LOGISTIC_LOSSES else None


def is_softmax(model: Any) -> bool:
    return _loss(model) == _SOFTMAX_LOSS


# -- the model at hand --------------------------------------------------------------------------------------


def _is_classifier(model: Any) -> bool:
    return str(model.task()).endswith("CLASSIFICATION")


def _loss(model: Any) -> int | None:
    """What the trees were boosted for; None of a forest. YDF has no other way to ask."""
    return int(model._model.loss()) if hasattr(model, "initial_predictions") else None


def _with_logits(model: Any) -> Any:
    """The same model, or a copy of it that predicts what its trees add up to."""
    if _loss(model) not in (*_LOGISTIC_LOSSES, _SOFTMAX_LOSS) or model.output_logits():
        return model
    import ydf

    copy = ydf.deserialize_model(model.serialize())
    copy.set_output_logits(True)
    return copy


def _as_trained(model: Any, X: Any) -> dict[str, Any]:
    """Columns of the types that YDF wants: it takes frames, but none with categorical types or nulls."""
    import narwhals.stable.v1 as nw

    inputs = [feature.column_idx for feature in model.input_features()]
    columns = Columns.of(Message(model.data_spec().SerializeToString()), inputs)
    rows = read_rows(X, columns.row_format())
    numbers = rows[0 : rows.n_rows].T
    table = {column.name: column.values(own) for column, own in zip(columns.read, numbers, strict=True)}
    if rows.frame is not None:  # the labels as they came, not as we have read them
        frame = nw.from_native(rows.frame, eager_only=True)
        for place, column in zip(rows.order or (), columns.read, strict=True):
            if column.has_labels:
                table[column.name] = texts_of(frame[:, place].to_list())
    return table
