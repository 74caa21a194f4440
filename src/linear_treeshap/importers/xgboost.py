"""XGBoost → TreeEnsemble, from a Booster, a scikit-learn wrapper, or a .ubj or .json file.

Reads the saved model, the one format XGBoost promises to keep, so files need no XGBoost. A wrapper
is read up to its best iteration, a Booster or a file as a whole: each as its own predict() does.
A ``base_margin`` belongs to the data, not to the model, and is not read.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..ensemble import TreeEnsemble
from ..errors import FileFormatError, LinearTreeShapError, ModelError, UnsupportedModelError
from ..rows import Label, RowFormat
from . import json_arrays, ubjson

__all__ = ["raw_prediction", "read_file", "to_ensemble"]

Array = npt.NDArray[Any]
Tree = dict[str, Any]


def to_ensemble(model: Any) -> TreeEnsemble:
    """Read an ``xgboost.Booster`` or any of XGBoost's scikit-learn wrappers."""
    if not hasattr(model, "get_booster"):
        return _from_document(ubjson.parse(model.save_raw("ubj"), _UNREAD))
    booster = _fitted_booster(model)
    return _from_document(
        ubjson.parse(booster.save_raw("ubj"), _UNREAD),
        n_rounds=_best_rounds(booster),
        missing_value=float(model.missing),
        class_names=[str(name) for name in getattr(model, "classes_", ())],
    )


def read_file(path: str | os.PathLike[str]) -> TreeEnsemble:
    """Read a model that XGBoost saved as UBJSON or JSON; XGBoost itself is not needed."""
    if os.path.getsize(path) < 2:
        raise FileFormatError(f"{os.fspath(path)!r} is empty; expected an XGBoost model in UBJSON or JSON.")
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content[:1] != b"{":
            raise FileFormatError(
                f"{os.fspath(path)!r} is not an XGBoost model in UBJSON or JSON. Load it with the XGBoost "
                f"that wrote it and save it again as .ubj."
            )
        is_json = content[1:2] in b'" \t\r\n}'
        document = json_arrays.parse(content, _UNREAD) if is_json else ubjson.parse(content[:], _UNREAD)
    return _from_document(document)


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float64]:
    """(n_rows, n_outputs) XGBoost's own margins, by the trees that `to_ensemble` reads."""
    import xgboost

    if isinstance(X, xgboost.DMatrix):
        is_wrapper = hasattr(model, "get_booster")
        booster = model.get_booster() if is_wrapper else model
        n_rounds = _best_rounds(booster) if is_wrapper else 0
        margin = booster.predict(X, output_margin=True, iteration_range=(0, n_rounds))
    elif hasattr(model, "get_booster"):
        margin = model.predict(X, output_margin=True)
    elif isinstance(X, np.ndarray):
        # Unlike a DMatrix it takes infinities, and numbers that float32 turns into such.
        margin = model.inplace_predict(X, predict_type="margin")
    else:
        margin = model.predict(xgboost.DMatrix(X, enable_categorical=True), output_margin=True)
    return np.asarray(margin, dtype=np.float64).reshape(len(margin), -1)


def _best_rounds(booster: Any) -> int:
    """How many rounds a wrapper predicts with if training stopped early; 0 means all of them."""
    best = booster.attr("best_iteration")
    return 0 if best is None else int(best) + 1


def _fitted_booster(model: Any) -> Any:
    try:
        return model.get_booster()
    except ValueError as error:
        raise ModelError(f"This {type(model).__name__} is not fitted: call fit() first.") from error


# -- the whole model -------------------------------------------------------------------------------


def _from_document(
    document: Any,
    n_rounds: int = 0,
    missing_value: float = math.nan,
    class_names: Sequence[str] = (),
) -> TreeEnsemble:
    try:
        if "learner" not in document:
            raise FileFormatError("This is no XGBoost model: it has no 'learner'.")
        learner = document["learner"]
        booster = learner["gradient_booster"]
        _refuse_linear(booster["name"])
        # DART kept its tree model one level down, and its weights beside it, until XGBoost 3.3.
        trees = booster["gbtree"]["model"] if "gbtree" in booster else booster["model"]
        weights = booster.get("weight_drop", trees.get("weight_drop"))
        base_values = _base_values(learner, is_trained=len(trees["trees"]) > 0)
        with np.errstate(invalid="ignore"):  # a damaged number may be a NaN that NumPy warns of
            columns = _columns(trees, weights, _n_trees(trees, n_rounds, len(base_values)))
        row_format = _row_format(learner, trees, missing_value)
    except LinearTreeShapError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise FileFormatError(f"The XGBoost model is damaged or incomplete: {error!r}.") from error
    names = tuple(class_names) if len(class_names) == len(base_values) > 1 else None
    return TreeEnsemble(**columns, base_values=base_values, row_format=row_format, output_names=names)


def _refuse_linear(booster_name: str) -> None:
    if booster_name not in ("gbtree", "dart"):
        raise UnsupportedModelError(
            f"XGBoost's booster {booster_name!r} has no trees to explain; expected 'gbtree' or 'dart'. "
            f"The coefficients of a linear model are its explanation."
        )


def _n_trees(trees: dict[str, Any], n_rounds: int, n_outputs: int) -> int:
    """How many trees the first ``n_rounds`` rounds grew; 0 means all."""
    n_trees = len(trees["trees"])
    if n_rounds == 0:
        return n_trees
    ends = trees.get("iteration_indptr")
    if ends is None:  # before XGBoost 2.0: every round grew as many trees
        return min(n_trees, n_rounds * n_outputs * int(trees["gbtree_model_param"]["num_parallel_tree"]))
    return int(ends[min(n_rounds, len(ends) - 1)])


# The base score is stored as the objective predicts; margins are what the trees add to.
_LINKS: dict[str, Callable[[Array], Array]] = {
    **dict.fromkeys(("binary:logistic", "reg:logistic"), lambda p: np.log(p / (1.0 - p))),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie", "survival:aft", "survival:cox"), np.log),
}
_WITHOUT_LINK = (
    "binary:hinge", "binary:logitraw", "multi:softmax", "multi:softprob", "rank:map", "rank:ndcg",
    "rank:pairwise", "reg:absoluteerror", "reg:expectileerror", "reg:linear", "reg:pseudohubererror",
    "reg:quantileerror", "reg:squarederror", "reg:squaredlogerror",
)  # fmt: skip


def _base_values(learner: dict[str, Any], is_trained: bool) -> npt.NDArray[np.float64]:
    """(n_outputs,) the base score as a margin."""
    params, objective = learner["learner_model_param"], learner["objective"]["name"]
    n_outputs = max(int(params["num_class"]), int(params.get("num_target", 1)), 1)
    # One number, or since XGBoost 3.1 a list with one per output; either as text.
    text = str(params["base_score"])
    stored = [float(score) for score in text.strip("[]").split(",")]
    scores = np.broadcast_to(np.array(stored, dtype=np.float32).astype(np.float64), n_outputs)
    # Since then, a score that the first round is to estimate is a margin as long as there was no round.
    awaits_estimate = text.startswith("[") and params.get("boost_from_average") == "1" and not is_trained
    if objective in _WITHOUT_LINK or awaits_estimate:
        return np.array(scores)
    if objective not in _LINKS:
        raise UnsupportedModelError(
            f"XGBoost's objective {objective!r} is not known here, so its base score cannot be read. Known "
            f"are: {', '.join(sorted((*_LINKS, *_WITHOUT_LINK)))}."
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        margins: npt.NDArray[np.float64] = _LINKS[objective](scores)
    return margins


def _row_format(learner: dict[str, Any], trees: dict[str, Any], missing_value: float) -> RowFormat:
    n_features = int(learner["learner_model_param"]["num_feature"])
    names = tuple(learner.get("feature_names", ()))
    encoders = trees.get("cats", {}).get("enc", ())
    labels = {feature: _labels(encoder) for feature, encoder in enumerate(encoders)}
    return RowFormat(
        n_features=n_features,
        feature_names=names if len(names) == n_features else None,
        dtype="float32",
        missing_value=missing_value,
        absent_is_missing=True,
        categories={feature: found for feature, found in labels.items() if found},
    )


def _labels(encoder: dict[str, Any]) -> tuple[Label, ...]:
    """The categories of a data frame's column, in the order of their codes."""
    values = np.asarray(encoder["values"])
    if "offsets" not in encoder:
        return tuple(values.tolist())
    text = values.astype(np.uint8).tobytes()
    offsets = np.asarray(encoder["offsets"], dtype=np.int64).tolist()
    return tuple(text[start:end].decode() for start, end in pairwise(offsets))


# -- the trees -------------------------------------------------------------------------------------

#: Arrays of a tree that we do not need.
_UNREAD = frozenset({"base_weights", "categories_segments", "loss_changes", "parents", "split_type"})


def _columns(model: dict[str, Any], weights: Any, n_trees: int) -> dict[str, Any]:
    """The trees as the arrays of a TreeEnsemble."""
    trees: list[Tree] = model["trees"][:n_trees]
    sizes = np.array([len(tree["left_children"]) for tree in trees], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    cover = _covers(trees, sizes)
    left = _column(trees, "left_children", np.int32, sizes)
    right = _column(trees, "right_children", np.int32, sizes)
    leaf = left < 0
    missing_left = _column(trees, "default_left", np.bool_, sizes) & ~leaf
    condition = _column(trees, "split_conditions", np.float32, sizes)
    value = _leaf_values(trees, sizes, leaf, condition, right)
    right[leaf] = -1
    if weights is not None and len(weights):
        value *= np.repeat(np.asarray(weights, dtype=np.float32)[:n_trees], sizes)[:, None]

    category_set, category_offsets, category_codes = _category_sets(trees, offsets)
    # XGBoost sends the categories of a set right, and everything else left.
    swapped = category_set >= 0
    left[swapped], right[swapped] = right[swapped], left[swapped]
    missing_left[swapped] = ~missing_left[swapped]
    columns: dict[str, Any] = {
        "left": left,
        "right": right,
        "feature": np.where(leaf, np.int32(-1), _column(trees, "split_indices", np.int32, sizes)),
        # x < t is x <= (the float32 before t), because x is a float32 too.
        "threshold": np.where(leaf | swapped, np.float64(0), np.nextafter(condition, np.float32(-np.inf))),
        "cover": cover,
        "value": value,
        "missing_left": missing_left,
        "category_set": category_set,
    }
    if any(int(tree["tree_param"]["num_deleted"]) for tree in trees):
        offsets = _drop_deleted(columns, offsets)
    for column in columns.values():
        column.setflags(write=False)  # so that it need not be copied
    return {
        **columns,
        "tree_offsets": offsets,
        "category_offsets": category_offsets,
        "category_codes": category_codes,
        "tree_output": np.asarray(model["tree_info"], dtype=np.int32)[:n_trees],
    }


def _column(trees: Sequence[Tree], name: str, dtype: Any, sizes: Array, width: int = 1) -> Array:
    """One array of every tree, end to end. It is taken out: the last array to go frees the file's bytes."""
    parts = [np.asarray(tree.pop(name)) for tree in trees]
    if [len(part) for part in parts] != (sizes * width).tolist():
        raise FileFormatError(f"The XGBoost model is damaged: {name!r} is not as long as its tree.")
    return np.concatenate([np.zeros(0, dtype), *parts], dtype=dtype, casting="unsafe")


def _leaf_values(trees: Sequence[Tree], sizes: Array, leaf: Array, condition: Array, right: Array) -> Array:
    """(n_nodes, width) what each leaf adds; zero at inner nodes."""
    width = max((int(tree["tree_param"]["size_leaf_vector"]) for tree in trees), default=1)
    if width <= 1:  # a leaf's value is stored as its split condition (and older files say width 0)
        return np.where(leaf, condition, np.float64(0))[:, None]
    # A leaf's right child is the number of its vector.
    n_leaves = np.array([len(tree["leaf_weights"]) for tree in trees], dtype=np.int64) // width
    vectors = _column(trees, "leaf_weights", np.float32, n_leaves, width).reshape(-1, width)
    first = np.repeat(np.cumsum(n_leaves) - n_leaves, sizes)
    value = np.zeros((len(leaf), width))
    value[leaf] = vectors[(first + right)[leaf]]
    return value


def _covers(trees: Sequence[Tree], sizes: Array) -> Array:
    if trees and "sum_hessian" not in trees[0]:
        raise UnsupportedModelError(
            "This XGBoost model does not say how much training data reached each node (vector leaves "
            "before XGBoost 3.2 do not). Train it with XGBoost 3.2 or later, or with "
            "multi_strategy='one_output_per_tree'."
        )
    return _column(trees, "sum_hessian", np.float32, sizes).astype(np.float64)


def _category_sets(trees: Sequence[Tree], tree_offsets: Array) -> tuple[Array, Array, Array]:
    """Which set each node asks for, where each set begins, and the codes of all sets."""
    category_set = np.full(int(tree_offsets[-1]), -1, dtype=np.int32)
    categorical = [i for i, tree in enumerate(trees) if len(tree.get("categories_nodes", ()))]
    nodes, sizes, codes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    for i in categorical:
        tree = trees[i]
        nodes.append(tree_offsets[i] + np.asarray(tree.pop("categories_nodes")))
        sizes.append(np.asarray(tree.pop("categories_sizes")))
        codes.append(np.asarray(tree.pop("categories")))
    category_set[np.concatenate(nodes)] = np.arange(sum(map(len, nodes)), dtype=np.int32)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    return category_set, offsets, np.concatenate(codes).astype(np.int32)


def _drop_deleted(columns: dict[str, Any], offsets: Array) -> Array:
    """Take out the nodes that pruning left behind; returns the new tree offsets."""
    left, right = columns["left"], columns["right"]
    root = np.repeat(offsets[:-1], np.diff(offsets))
    kept = np.zeros(len(left), dtype=np.bool_)
    level = offsets[:-1]
    while level.size:
        kept[level] = True
        inner = level[left[level] >= 0]
        level = np.concatenate([root[inner] + left[inner], root[inner] + right[inner]])
        level = level[~kept[level]]
    position = np.concatenate([[0], np.cumsum(kept)])
    for child in (left, right):
        inner = child >= 0
        child[inner] = position[(root + child)[inner]] - position[root[inner]]
    for name in columns:
        columns[name] = columns[name][kept]
    return position[offsets]
