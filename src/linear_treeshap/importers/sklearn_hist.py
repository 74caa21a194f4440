"""scikit-learn's HistGradientBoosting → TreeEnsemble.

The output is the raw prediction before the link: log-odds for classifiers (one per class if there
are more than two), the log of the prediction for Poisson and gamma losses, else the prediction.
Rows are compared in float64. Labels of categories become codes as the model's own encoder says, and a
label it has not seen is missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..model.ensemble import TreeEnsemble
from ..model.links import Exponential, Link
from ..model.row_format import Label, RowFormat
from . import sklearn_boosting
from .assemble import NodeArrays, pack_bits
from .sklearn_boosting import class_names
from .sklearn_rows import monotone_of, names_of, predict_as_trained
from .sklearn_trees import fitted

__all__ = ["is_softmax", "link", "predicts_raw", "raw_prediction", "to_ensemble"]


def to_ensemble(model: Any) -> TreeEnsemble:
    iterations = fitted(model, "_predictors")  # lists of one predictor per output
    predictors = [predictor for iteration in iterations for predictor in iteration]
    column = _columns(model)
    nodes = NodeArrays.empty([len(predictor.nodes) for predictor in predictors], width=1)
    # Many times quicker than np.concatenate, which compares the types of records field by field.
    theirs = np.frombuffer(b"".join([p.nodes for p in predictors]), predictors[0].nodes.dtype)
    inner = theirs["is_leaf"] == 0
    nodes.left[inner], nodes.right[inner] = theirs["left"][inner], theirs["right"][inner]
    nodes.feature[inner] = column[theirs["feature_idx"][inner]]
    nodes.threshold[inner] = theirs["num_threshold"][inner]
    nodes.cover[...] = theirs["count"]
    nodes.value[:, 0] = theirs["value"]
    nodes.missing_left[...] = theirs["missing_go_to_left"]

    bitsets = [predictor.raw_left_cat_bitsets for predictor in predictors]
    n_sets = np.array([len(sets) for sets in bitsets])
    first_set = np.repeat(np.cumsum(n_sets) - n_sets, np.diff(nodes.tree_offsets))
    by_set = inner & (theirs["is_categorical"] == 1)
    category_set = np.full(len(theirs), -1, dtype=np.int32)
    category_set[by_set] = first_set[by_set] + theirs["bitset_idx"][by_set]
    del theirs, first_set
    category_set.setflags(write=False)
    category_offsets, category_codes = pack_bits(np.concatenate(bitsets))
    base_values = np.asarray(model._baseline_prediction, dtype=np.float64).ravel()
    return TreeEnsemble(
        **nodes.finish(),
        category_set=category_set,
        category_offsets=category_offsets,
        category_codes=category_codes,
        base_values=base_values,
        tree_output=np.tile(np.arange(len(base_values), dtype=np.int32), len(iterations)),
        row_format=_row_format(model),
        output_names=class_names(model, len(base_values)),
        monotone=monotone_of(model),
    )


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float64]:
    return predict_as_trained(model._raw_predict, X, _row_format(model))


def predicts_raw(model: Any) -> bool:
    return model.loss not in ("poisson", "gamma")


def link(model: Any) -> Link | None:
    return Exponential() if model.loss in ("poisson", "gamma") else sklearn_boosting.link(model)


def is_softmax(model: Any) -> bool:
    return sklearn_boosting.is_softmax(model)


def _row_format(model: Any) -> RowFormat:
    return RowFormat(
        int(model.n_features_in_),
        names_of(model),
        dtype="float64",
        categories=_categories(model),
        numbers_are_codes=False,
    )


def _columns(model: Any) -> npt.NDArray[np.int32]:
    """The user's column for each column the trees see: an encoder moves categorical ones to the front."""
    categorical = model.is_categorical_
    if categorical is None:
        return np.arange(model.n_features_in_, dtype=np.int32)
    return np.concatenate([np.flatnonzero(categorical), np.flatnonzero(~categorical)]).astype(np.int32)


def _categories(model: Any) -> dict[int, tuple[Label, ...]]:
    """The labels of each categorical column, in the order of their codes; a missing label has no code."""
    if model.is_categorical_ is None:
        return {}
    encoder = model._preprocessor.named_transformers_["encoder"]
    return {
        int(feature): tuple(label for label in labels.tolist() if label is not None and label == label)
        for feature, labels in zip(np.flatnonzero(model.is_categorical_), encoder.categories_, strict=True)
    }
