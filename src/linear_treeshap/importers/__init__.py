"""Any model people have → TreeEnsemble.

A table says which module of this package reads which class. It is looked up by the name of the
class and of its bases, so a library is imported only when a model of that library is at hand.
Such a module has all that is special about a library. Every one offers

- ``to_ensemble(model)`` and, where there is a library that predicts, ``raw_prediction(model, X)``;

and those of which there is something to say

- ``predicts_raw(model)``, ``link(model)``, ``is_softmax(model)``: what it does with the sum (`links.py`);
- ``mixture(model)``: the mean of functions of several sums that its probabilities are;
- ``advice(model, method)``: how to explain a prediction method that has trees of its own;
- ``LIBRARY``: its name, for people to read;
- ``BEGINNINGS`` and ``read_file(path)``: how its files begin, and what is in them;
- ``is_file_of_model(path)``: where files of others begin in the same way;
- ``is_directory_of_model(path)``: where models are directories;
- ``read_rows(X, ensemble, model)``: the rows in the library's own containers; the model is None if it is not
  at hand;
- ``reader(model)``: what turns rows into those that the trees read, where only the library can; or None;
- ``own_values(path)``: its release and its own Shapley values of a file's model, to be compared with;
- ``trees_of_limit(model, ensemble, limit)``: the trees of shap's tree_limit, where that counts others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError, InputError, LinearTreeShapError, UnsupportedModelError
from ..model.ensemble import TreeEnsemble
from ..model.saved_model import SavedModel
from ..rows.columns import title
from ..rows.rows import Rows
from ..rows.rows import read_rows as read_plain_rows

__all__ = [
    "IMPORTERS",
    "REFUSED",
    "class_names",
    "file_importers",
    "has_library",
    "import_model",
    "importer_name",
    "importer_of",
    "importer_of_file",
    "library_of",
    "raw_prediction",
    "read_rows",
]

#: "package.Class" → the module of this package that reads it. The package is the first part of the
#: module's name only: libraries move their classes between files, hardly ever between packages.
IMPORTERS: dict[str, str] = {
    "sklearn.DecisionTreeClassifier": "sklearn_trees",
    "sklearn.DecisionTreeRegressor": "sklearn_trees",
    "sklearn.ExtraTreeClassifier": "sklearn_trees",
    "sklearn.ExtraTreeRegressor": "sklearn_trees",
    "sklearn.RandomForestClassifier": "sklearn_trees",
    "sklearn.RandomForestRegressor": "sklearn_trees",
    "sklearn.ExtraTreesClassifier": "sklearn_trees",
    "sklearn.ExtraTreesRegressor": "sklearn_trees",
    "sklearn.GradientBoostingClassifier": "sklearn_boosting",
    "sklearn.GradientBoostingRegressor": "sklearn_boosting",
    "sklearn.HistGradientBoostingClassifier": "sklearn_hist",
    "sklearn.HistGradientBoostingRegressor": "sklearn_hist",
    "sklearn.IsolationForest": "isolation_forest",
    "sklearn.BaggingClassifier": "bagging",
    "sklearn.BaggingRegressor": "bagging",
    "sklearn.CalibratedClassifierCV": "calibration",
    "sklearn.VotingClassifier": "sums",
    "sklearn.VotingRegressor": "sums",
    "sklearn.StackingClassifier": "stacking",
    "sklearn.StackingRegressor": "stacking",
    "sklearn.TransformedTargetRegressor": "target_transforms",
    "sklearn.FrozenEstimator": "wrappers",
    "sklearn.Pipeline": "wrappers",
    "sklearn.BaseSearchCV": "wrappers",
    "sklearn.MultiOutputClassifier": "wrappers",
    "sklearn.MultiOutputRegressor": "wrappers",
    "quantile_forest.BaseForestQuantileRegressor": "quantile_forest",
    "sksurv.RandomSurvivalForest": "survival",
    "sksurv.ExtraSurvivalTrees": "survival",
    "sksurv.SurvivalTree": "survival",
    "sksurv.GradientBoostingSurvivalAnalysis": "survival_boosting",
    "linear_treeshap.SurvivalCurve": "survival_curves",
    "ngboost.NGBoost": "ngboost",
    "pyod.IForest": "pyod",
    "xgboost_distribution.XGBDistribution": "xgboost_distribution",
    "gpboost.Booster": "gpboost",  # before XGBoost, whose files also begin with a brace
    "gpboost.GPBoostModel": "gpboost",
    "xgboost.Booster": "xgboost",
    "xgboost.XGBModel": "xgboost",
    "lightgbm.Booster": "lightgbm",
    "lightgbm.LGBMModel": "lightgbm",
    "catboost.CatBoost": "catboost",
    "ydf.RandomForestModel": "ydf",
    "ydf.GradientBoostedTreesModel": "ydf",
    "h2o.H2OGradientBoostingEstimator": "h2o",
    "h2o.H2ORandomForestEstimator": "h2o",
    "treelite.Model": "treelite",
    "onnx.ModelProto": "onnx",
    "builtins.bytes": "onnx",
    "pyspark.DecisionTreeClassificationModel": "spark_ml",
    "pyspark.DecisionTreeRegressionModel": "spark_ml",
    "pyspark.RandomForestClassificationModel": "spark_ml",
    "pyspark.RandomForestRegressionModel": "spark_ml",
    "pyspark.GBTClassificationModel": "spark_ml",
    "pyspark.GBTRegressionModel": "spark_ml",
}

#: "package.Class" → why it is not a sum of trees, and what to do.
REFUSED: dict[str, str] = {
    "lightgbm.CVBooster": (
        "It holds a model of each fold. Explain their mean, TreeExplainer(model.boosters), or one of them."
    ),
    "pyspark.PipelineModel": (
        "A pipeline of Spark transforms whole tables, not rows. Explain its last stage, model.stages[-1], "
        "with the Vector column that it reads."
    ),
    "pyspark.CrossValidatorModel": "It holds several models. Explain the best: model.bestModel.",
    "pyspark.TrainValidationSplitModel": "It holds several models. Explain the best: model.bestModel.",
    "sklearn.AdaBoostClassifier": (
        "AdaBoost lets its trees vote, which is not a sum of what the trees predict. Explain its "
        "trees one by one (model.estimators_), or train a gradient boosting model."
    ),
    "sklearn.AdaBoostRegressor": (
        "AdaBoost takes the weighted median of its trees, which is not a sum. Explain its trees one "
        "by one (model.estimators_), or train a gradient boosting model."
    ),
    "sklearn.ClassifierChain": (
        "A chain feeds the predictions of one model to the next, so the result is not a sum of trees. "
        "Explain its models one by one: model.estimators_."
    ),
    "sklearn.RegressorChain": (
        "A chain feeds the predictions of one model to the next, so the result is not a sum of trees. "
        "Explain its models one by one: model.estimators_."
    ),
    "sklearn.OneVsRestClassifier": (
        "One-vs-rest divides the probabilities of its models by their sum, so the result is not a sum "
        "of trees. Explain the models of single classes: model.estimators_[i]."
    ),
    "sklearn.RandomTreesEmbedding": (
        "RandomTreesEmbedding turns rows into leaf numbers and predicts nothing. Explain the model "
        "that is trained on its output."
    ),
}


def import_model(model: Any) -> TreeEnsemble:
    """Read a trained model, whatever library it came from.

    Parameters
    ----------
    model
        A fitted model of a supported class, a `TreeEnsemble`, a dictionary of arrays, a list of models
        (their mean) or of (weight, model) pairs (their weighted sum), or the path of a file: XGBoost's JSON
        or UBJSON, LightGBM's or GPBoost's text, CatBoost's or treelite's own format, ONNX, a MOJO of H2O, the
        directory of a model of YDF or pyspark.ml, or one that `linear_treeshap.save` wrote.

    Raises
    ------
    UnsupportedModelError
        The class is unknown, or the model is not a sum of trees.

    Notes
    -----
    A pipeline becomes the trees of its last step, which read transformed rows.

    Examples
    --------
    >>> from linear_treeshap import import_model
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> import_model(DecisionTreeRegressor(max_depth=1).fit([[0], [0], [0], [1]], [1, 1, 1, 3]))
    TreeEnsemble(1 tree, 2 leaves, depth 1, 1 feature, 1 output)
    """
    if isinstance(model, TreeEnsemble):
        return model
    if isinstance(model, SavedModel):
        return model.ensemble
    if isinstance(model, (str, os.PathLike)):
        return _read_file(Path(model))
    ensemble = importer_of(model).to_ensemble(model)
    assert isinstance(ensemble, TreeEnsemble)
    return ensemble


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float64]:
    """The model's own raw prediction of the rows ``X``, computed by the library it came from.

    Returns an array of shape (n_rows, n_outputs), with the outputs that `import_model` gives. ``X`` is what
    the model itself takes: raw rows for a pipeline, whose `TreeEnsemble` reads transformed ones. A
    `TreeEnsemble`, a dictionary and a file have no library behind them: there it is what
    `TreeEnsemble.predict` says.
    """
    if not has_library(model):
        ensemble = import_model(model)
        rows = read_rows(X, ensemble)
        return ensemble.predict(rows[0 : rows.n_rows])
    if hasattr(X, "tocsr"):
        # The one kind of sparse matrix they all read.
        X = import_module("scipy.sparse").csr_matrix(X, dtype=X.dtype if X.dtype.kind == "f" else np.float64)
    try:
        prediction = np.asarray(importer_of(model).raw_prediction(model, X), dtype=np.float64)
    except (LinearTreeShapError, MemoryError):
        raise
    except Exception as error:  # whatever the library raises
        raise InputError(
            f"{type(model).__name__} itself does not predict these rows, so nothing can be compared with it: "
            f"{error} Pass rows that it predicts, or skip the comparison with check_additivity=False."
        ) from error
    return prediction.reshape(len(prediction), -1)


def has_library(model: Any) -> bool:
    """Is there a library that can be asked what the model predicts? Not where there are trees only."""
    if isinstance(model, (TreeEnsemble, SavedModel, str, os.PathLike)):
        return False
    return hasattr(importer_of(model), "raw_prediction")


def read_rows(X: Any, ensemble: TreeEnsemble, model: Any = None) -> Rows:
    """Read rows of any kind for these trees, those in a library's own container (a DMatrix, a Pool) too.

    The ``model`` that the trees are of, if it is at hand, can read what they cannot.
    """
    if type(X) is not np.ndarray:  # asked for every single row that is served
        package = type(X).__module__.partition(".")[0]
        importer = _importer_of_package(package)
        if hasattr(importer, "read_rows"):
            is_own = any(base.__module__.partition(".")[0] == package for base in type(model).__mro__)
            rows = importer.read_rows(X, ensemble, model if is_own else None)
            assert isinstance(rows, Rows)
            return rows
        _refuse_lost_types(X, ensemble)
    return read_plain_rows(X, ensemble.row_format)


def _refuse_lost_types(X: Any, ensemble: TreeEnsemble) -> None:
    """One row of a frame has lost the types of its columns: without labels, is 20 a label or a code?

    XGBoost before 3.1 keeps no labels. LightGBM, whose numbers are truncated, keeps those of every frame.
    """
    import narwhals.stable.v1 as nw

    row_format = ensemble.row_format
    if not row_format.numbers_are_codes or not nw.dependencies.is_pandas_series(X):
        return
    asked = set(ensemble.feature[ensemble.category_set >= 0].tolist())
    unknown = sorted(asked - row_format.labelled - row_format.truncated)
    if unknown:
        raise InputError(
            f"The model has categories in {title(row_format, unknown[0])} and does not know their labels. A "
            f"Series or a dictionary has no types: a number there could be a label or a code. Pass a frame "
            f"of this one row, frame.iloc[[i]], with the types of the training data, or an array of codes."
        )


def class_names(model: Any) -> Iterator[str]:
    """The class of a model and its bases, as `IMPORTERS` names them."""
    for base in type(model).__mro__:
        yield f"{base.__module__.partition('.')[0]}.{base.__qualname__}"


def importer_of(model: Any) -> Any:
    """The module of this package that reads ``model``."""
    return _module(importer_name(model))


def importer_name(model: Any) -> str:
    """The name of the module of this package that reads ``model``: fitted, a dictionary or a list."""
    if isinstance(model, Mapping):
        return "arrays"
    if isinstance(model, (list, tuple)):
        return "sums"
    if isinstance(model, type):
        raise UnsupportedModelError(f"Expected a fitted model, got the class {model.__name__} itself.")
    for name in class_names(model):
        if name in REFUSED:
            raise UnsupportedModelError(f"{type(model).__name__} cannot be explained. {REFUSED[name]}")
        if name in IMPORTERS:
            return IMPORTERS[name]
    trees = getattr(model, "estimators_", None)
    if isinstance(trees, list) and trees and all(hasattr(tree, "tree_") for tree in trees):
        # Forests of other libraries that are built of scikit-learn's trees.
        return "sklearn_trees"
    classes = sorted(name for name in IMPORTERS if name != "builtins.bytes")
    raise UnsupportedModelError(
        f"Cannot read a model of class {type(model).__module__}.{type(model).__qualname__}. Supported are: "
        f"{', '.join(classes)}, classes derived from these, forests whose estimators_ are scikit-learn "
        f"trees, a dictionary of arrays, a TreeEnsemble, lists of models, and files of "
        f"{', '.join(module.LIBRARY for module in file_importers())}."
    )


def importer_of_file(path: Path) -> Any:
    """The module of this package that reads a file, by its first bytes; None if it can only be our own.

    A directory is told by what is in it, and so is a file whose first bytes are those of others, too.
    """
    if path.is_dir():
        for module in file_importers():
            if hasattr(module, "is_directory_of_model") and module.is_directory_of_model(path):
                return module
    if not path.is_file():
        if path.exists() and not path.is_dir():
            raise FileFormatError(
                f"{str(path)!r} is not a file but a stream. Save the model to a file first."
            )
        raise FileFormatError(f"There is no file {str(path)!r}.")
    with path.open("rb") as file:
        head = file.read(16)
    for module in file_importers():
        is_sure = getattr(module, "is_file_of_model", lambda path: True)
        if head.startswith(module.BEGINNINGS) and is_sure(path):
            return module
    return None


def file_importers() -> list[Any]:
    """The modules that read files."""
    return [
        module for module in map(_module, dict.fromkeys(IMPORTERS.values())) if hasattr(module, "BEGINNINGS")
    ]


def library_of(model: Any) -> str:
    """The library that a model's class is from, for people to read."""
    package = type(model).__module__.partition(".")[0]
    return getattr(_importer_of_package(package), "LIBRARY", package)


def _importer_of_package(package: str) -> Any:
    """The first module that reads classes of a package; None if there is none."""
    name = next((module for name, module in IMPORTERS.items() if name.startswith(f"{package}.")), None)
    return None if name is None else _module(name)


def _module(name: str) -> Any:
    return import_module(f".{name}", __name__)


def _read_file(path: Path) -> TreeEnsemble:
    """Read a model file, whoever wrote it."""
    importer = importer_of_file(path)
    if importer is None:
        ensemble = import_module("..storage.saved_explainer", __name__).load(path)
    else:
        ensemble = importer.read_file(path)
    assert isinstance(ensemble, TreeEnsemble)
    return ensemble
