"""CatBoost's models, Pools and predictions; how its files become a TreeEnsemble is in `catboost_file.py`.

A model is read through the binary file that it writes: the JSON of the same model takes 50 times as long.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ModelError, UnreadableRowsError, UnsupportedModelError
from ..model.ensemble import TreeEnsemble
from ..model.links import Exponential, Link, Logistic
from ..rows.frames import match_columns
from ..rows.rows import Rows
from ..rows.rows import read_rows as read_plain_rows
from .catboost_file import BEGINNING, CatBoostFile
from .catboost_leaves import LeafReader, as_catboost_takes

__all__ = [
    "BEGINNINGS",
    "LIBRARY",
    "is_softmax",
    "link",
    "own_values",
    "predicts_raw",
    "raw_prediction",
    "read_file",
    "read_rows",
    "reader",
    "to_ensemble",
]

Array = npt.NDArray[Any]

LIBRARY = "CatBoost"
BEGINNINGS = (BEGINNING,)


def to_ensemble(model: Any) -> TreeEnsemble:
    """Read a CatBoost, CatBoostClassifier, CatBoostRegressor or CatBoostRanker."""
    if not model.is_fitted():
        raise ModelError(f"This {type(model).__name__} is not fitted: call fit() first.")
    return _file_of(model).ensemble(tuple(str(name) for name in model.classes_))


def read_file(path: str | os.PathLike[str]) -> TreeEnsemble:
    """Read a model that CatBoost saved in its own format (.cbm); CatBoost itself is not needed."""
    file = CatBoostFile(Path(path).read_bytes())
    if file.reads_texts:
        raise UnsupportedModelError(
            "This CatBoost model reads texts or embeddings, which only CatBoost can turn into numbers. "
            "Load it with CatBoost, and explain the model: CatBoost().load_model(path)."
        )
    return file.ensemble()


def reader(model: Any) -> LeafReader | None:
    """What turns rows into those that the trees read, where only CatBoost can: texts and embeddings."""
    if not model.is_fitted():
        return None
    if not (model.get_text_feature_indices() or model.get_embedding_feature_indices()):
        return None
    return LeafReader(model, _file_of(model))


def read_rows(X: Any, ensemble: TreeEnsemble, model: Any = None) -> Rows:
    """The rows of a Pool. It gives its numbers back only if all of its features are numeric; else the leaves
    that they are in, if the ``model`` is at hand and symmetric, say all that its trees ask."""
    try:
        features = X.get_features()
    except Exception as error:  # CatBoostError, which need not be imported to be caught
        file = None if model is None else _file_of(model)
        if file is None or file.splits is None or ensemble.row_format.keeps_hashes:
            raise UnreadableRowsError(
                f"The rows cannot be read back from this {type(X).__name__}: {error}. "
                f"Pass the data frame or array that it was made of."
            ) from error
        answers = LeafReader(model, file).transform(X)
        return Rows(len(answers), lambda start, stop: answers[start:stop], are_answers=True)
    array, names = np.asarray(features), list(X.get_feature_names())
    if any(names):  # a Pool made of an array has empty names
        array = array[:, match_columns(names, ensemble.row_format)]
    return read_plain_rows(array, ensemble.row_format)


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float64]:
    """(n_rows, n_outputs) CatBoost's own raw formula values."""
    from catboost import CatBoost

    X = as_catboost_takes(model, X)
    # By the base class: a ranker's own predict() does not say which output it gives.
    values = np.asarray(CatBoost.predict(model, X, prediction_type="RawFormulaVal"), dtype=np.float64)
    return values.reshape(len(values), -1)


def own_values(path: str) -> tuple[str, Callable[[Array], Any]]:
    """CatBoost's release, and its values of a file's model: ready rows → (n_rows, …), the base value last."""
    import catboost

    model = catboost.CatBoost().load_model(path)

    def explain(rows: Array) -> Any:
        return model.get_feature_importance(catboost.Pool(rows), type="ShapValues", thread_count=1)

    return catboost.__version__, explain


def predicts_raw(model: Any) -> bool:
    return not str(model.get_param("loss_function")).startswith(("Poisson", "Tweedie", "RMSEWithUncertainty"))


def link(model: Any) -> Link | None:
    loss = _loss(model)
    if loss in ("Logloss", "CrossEntropy", "MultiClassOneVsAll"):
        return Logistic()
    return Exponential() if loss in ("Poisson", "Tweedie") else None


def is_softmax(model: Any) -> bool:
    return _loss(model) == "MultiClass"


def _file_of(model: Any) -> CatBoostFile:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.cbm"
        model.save_model(str(path))
        return CatBoostFile(path.read_bytes())


def _loss(model: Any) -> str:
    """The name of the loss; a default is among all parameters only."""
    return str(model.get_all_params().get("loss_function")).partition(":")[0]
