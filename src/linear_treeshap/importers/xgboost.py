"""XGBoost → TreeEnsemble, from a Booster, a scikit-learn wrapper, or a .ubj or .json file.

Reads the saved model, the one format XGBoost promises to keep, so files need no XGBoost. A wrapper
is read up to its best iteration, a Booster or a file as a whole: each as its own predict() does.
A ``base_margin`` belongs to the data, not to the model, and is not read.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import (
    FileFormatError,
    LinearTreeShapError,
    MissingDependencyError,
    ModelError,
    UnreadableRowsError,
    UnsupportedModelError,
)
from ..model.ensemble import TreeEnsemble, check_n_outputs, monotone_columns
from ..model.links import Exponential, Link, Logistic
from ..model.row_format import Label, RowFormat
from ..rows.columns import codes_of_labels, title
from ..rows.frames import match_columns
from ..rows.rows import Rows, sparse_rows
from .records import Columns

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
    "to_ensemble",
    "trees_of_limit",
]

Array = npt.NDArray[Any]

LIBRARY = "XGBoost"
#: How its files begin, be they JSON or UBJSON.
BEGINNINGS = (b"{",)


def to_ensemble(model: Any) -> TreeEnsemble:
    """Read an ``xgboost.Booster`` or any of XGBoost's scikit-learn wrappers."""
    if not hasattr(model, "get_booster"):
        return _build(*_parse(np.frombuffer(model.save_raw("ubj"), np.uint8)), monotone=_monotone(model))
    booster = _fitted_booster(model)
    return _build(
        *_parse(np.frombuffer(booster.save_raw("ubj"), np.uint8)),
        monotone=_monotone(booster),
        n_rounds=_best_rounds(booster),
        missing_value=float(model.missing),
        class_names=[str(name) for name in getattr(model, "classes_", ())],
    )


def read_file(path: str | os.PathLike[str]) -> TreeEnsemble:
    """Read a model that XGBoost saved as UBJSON or JSON; XGBoost itself is not needed."""
    if os.path.getsize(path) < 2:
        raise FileFormatError(f"{os.fspath(path)!r} is empty; expected an XGBoost model in UBJSON or JSON.")
    return _build(*_parse(np.memmap(path, np.uint8, mode="r")))


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


def own_values(path: str) -> tuple[str, Callable[[Array], Any]]:
    """XGBoost's release, and its values of a file's model: ready rows → (n_rows, …), the base value last."""
    import xgboost

    booster = xgboost.Booster(model_file=path)
    booster.set_param({"nthread": 1})

    def explain(rows: Array) -> Any:
        types = {"feature_types": booster.feature_types, "feature_names": booster.feature_names}
        matrix = xgboost.DMatrix(rows, nthread=1, enable_categorical=True, **types)
        return booster.predict(matrix, pred_contribs=True)

    return xgboost.__version__, explain


def trees_of_limit(model: Any, ensemble: TreeEnsemble, limit: int) -> int | None:
    """How many trees shap's tree_limit means: whole rounds, none of which is all of them; None beyond
    these."""
    booster = _fitted_booster(model) if hasattr(model, "get_booster") else model
    n_rounds = _best_rounds(booster) if hasattr(model, "get_booster") else 0
    per_round = max(ensemble.n_trees // max(n_rounds or booster.num_boosted_rounds(), 1), 1)
    n_trees = limit // per_round * per_round
    return n_trees if n_trees <= ensemble.n_trees else None


def predicts_raw(model: Any) -> bool:
    objective = _objective(model)
    return objective.startswith(("reg:", "rank:")) and objective not in _OUTPUT_LINKS


def link(model: Any) -> Link | None:
    return _OUTPUT_LINKS.get(_objective(model))


def is_softmax(model: Any) -> bool:
    return _objective(model).startswith("multi:")


#: Objectives with a link; "binary:logitraw" leaves the logistic function to its user.
_OUTPUT_LINKS: dict[str, Link] = {
    "binary:logistic": Logistic(),
    "binary:logitraw": Logistic(),
    "reg:logistic": Logistic(),
    "count:poisson": Exponential(),
    "reg:gamma": Exponential(),
    "reg:tweedie": Exponential(),
}


def _objective(model: Any) -> str:
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    return str(json.loads(booster.save_config())["learner"]["objective"]["name"])


def _monotone(booster: Any) -> dict[int, int]:
    """The constraints it was trained with, which are in its configuration, and in no file of its trees."""
    trained = json.loads(booster.save_config())["learner"]["gradient_booster"]
    trained = trained.get("gbtree", trained)  # inside of DART
    text = trained.get("tree_train_param", {}).get("monotone_constraints", "")
    return monotone_columns(int(number) for number in text.strip("()").split(",") if number.strip())


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


def _parse(content: npt.NDArray[np.uint8]) -> tuple[Any, Columns]:
    """The model without its trees, of which it keeps the number, and the trees."""
    if content[0] != ord("{"):
        raise FileFormatError(
            "This is not an XGBoost model in UBJSON or JSON. Load it with the XGBoost that wrote it and "
            "save it again as .ubj."
        )
    is_json = content[1] in b'" \t\r\n}'
    try:
        rest, columns = (_core.read_json if is_json else _core.read_ubjson)(content, "trees", _FIELDS)
        return json.loads(rest.decode()), Columns(columns)
    except ValueError as error:
        form = "JSON" if is_json else "UBJSON"
        raise FileFormatError(f"The XGBoost model is not complete {form}: {error}.") from error


def _build(
    document: Any,
    columns: Columns,
    n_rounds: int = 0,
    missing_value: float = math.nan,
    class_names: Sequence[str] = (),
    monotone: Mapping[int, int] | None = None,
) -> TreeEnsemble:
    try:
        if "learner" not in document:
            raise FileFormatError("This is no XGBoost model: it has no 'learner'.")
        learner = document["learner"]
        booster = learner["gradient_booster"]
        _refuse_linear(booster["name"])
        # DART kept its tree model one level down, and its weights beside it, until XGBoost 3.3.
        model = booster["gbtree"]["model"] if "gbtree" in booster else booster["model"]
        weights = booster.get("weight_drop", model.get("weight_drop"))
        version = tuple(map(int, document.get("version", ())))
        base_values = _base_values(learner, n_trees=model["trees"], version=version)
        row_format = _row_format(learner, model, missing_value)
        n_trees = _n_trees(model, n_rounds, len(base_values))
        columns = columns.head(n_trees)
        with np.errstate(invalid="ignore", over="ignore"):  # damaged numbers: TreeEnsemble refuses them
            arrays = _arrays(columns, weights)
        tree_output = np.asarray(model["tree_info"], dtype=np.int32)[:n_trees]
    except LinearTreeShapError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise FileFormatError(f"The XGBoost model is damaged or incomplete: {error!r}.") from error
    names = tuple(class_names) if len(class_names) == len(base_values) > 1 else None
    return TreeEnsemble(
        **arrays,
        base_values=base_values,
        row_format=row_format,
        tree_output=tree_output,
        output_names=names,
        monotone=monotone or {},
    )


def _refuse_linear(booster_name: str) -> None:
    if booster_name not in ("gbtree", "dart"):
        raise UnsupportedModelError(
            f"XGBoost's booster {booster_name!r} has no trees to explain; expected 'gbtree' or 'dart'. "
            f"The coefficients of a linear model are its explanation."
        )


def _n_trees(model: dict[str, Any], n_rounds: int, n_outputs: int) -> int:
    """How many trees the first ``n_rounds`` rounds grew; 0 means all."""
    n_trees = int(model["trees"])
    if n_rounds == 0:
        return n_trees
    ends = model.get("iteration_indptr")
    if ends is None:  # before XGBoost 2.0: every round grew as many trees
        return min(n_trees, n_rounds * n_outputs * int(model["gbtree_model_param"]["num_parallel_tree"]))
    return int(ends[min(n_rounds, len(ends) - 1)])


def _log(x: Array) -> Array:
    """The logarithm of a float32, rounded to float32 once: NumPy's own is off by a few ulps."""
    return np.log(x.astype(np.float64)).astype(np.float32)


# The base score is stored as the objective predicts; margins are what the trees add to. XGBoost works in
# float32: the odds are rounded before their logarithm is taken, which near p = 1/2 is all there is to see.
_LOGISTIC = ("binary:logistic", "reg:logistic")
_LINKS: dict[str, Callable[[Array], Array]] = {
    **dict.fromkeys(_LOGISTIC, lambda p: -_log(np.float32(1) / p - np.float32(1))),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie", "survival:aft", "survival:cox"), _log),
}
#: From this release on, a share that is closer than this to 0 or 1, as where all labels are of one class, is
#: taken for one that is not; before, 0 and 1 were refused.
_CLIPS_SHARES = (3, 2)
_SMALLEST_SHARE = np.float32(1e-6)
_WITHOUT_LINK = (
    "binary:hinge", "binary:logitraw", "multi:softmax", "multi:softprob", "rank:map", "rank:ndcg",
    "rank:pairwise", "reg:absoluteerror", "reg:expectileerror", "reg:linear", "reg:pseudohubererror",
    "reg:quantileerror", "reg:squarederror", "reg:squaredlogerror",
)  # fmt: skip


def _base_values(learner: dict[str, Any], n_trees: int, version: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """(n_outputs,) the base score as a margin, as the XGBoost of this version takes it."""
    params, objective = learner["learner_model_param"], learner["objective"]["name"]
    n_outputs = max(int(params["num_class"]), int(params.get("num_target", 1)), 1)
    # One number, or since XGBoost 3.1 a list with one per output; either as text.
    text = str(params["base_score"])
    stored = [float(score) for score in text.strip("[]").split(",")]
    check_n_outputs(n_outputs, n_known=max(n_trees, len(stored)))
    scores = np.broadcast_to(np.array(stored, dtype=np.float32), n_outputs)
    # Since then, a score that the first round is to estimate is a margin as long as there was no round.
    awaits_estimate = text.startswith("[") and params.get("boost_from_average") == "1" and n_trees == 0
    if objective in _WITHOUT_LINK or awaits_estimate:
        return scores.astype(np.float64)
    if objective not in _LINKS:
        raise UnsupportedModelError(
            f"XGBoost's objective {objective!r} is not known here, so its base score cannot be read. Known "
            f"are: {', '.join(sorted((*_LINKS, *_WITHOUT_LINK)))}."
        )
    if objective in _LOGISTIC and version >= _CLIPS_SHARES:
        scores = np.clip(scores, _SMALLEST_SHARE, np.float32(1) - _SMALLEST_SHARE)
    with np.errstate(divide="ignore", invalid="ignore"):
        margins = _LINKS[objective](scores).astype(np.float64)
    if not np.isfinite(margins).all():
        raise ModelError(
            f"XGBoost's base score is {text}, which has no finite margin under the objective {objective!r}: "
            f"the model predicts no number. Were all of its labels zero?"
        )
    return margins


def _row_format(learner: dict[str, Any], model: dict[str, Any], missing_value: float) -> RowFormat:
    n_features = int(learner["learner_model_param"]["num_feature"])
    names = tuple(learner.get("feature_names", ()))
    encoders = model.get("cats", {}).get("enc", ())
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
    offsets = np.asarray(encoder["offsets"], dtype=np.int64)
    if (np.diff(offsets, prepend=0, append=len(text)) < 0).any():
        raise FileFormatError("The XGBoost model is damaged: labels of its categories lie on others.")
    return tuple(text[start:end].decode() for start, end in pairwise(offsets.tolist()))


# -- the trees -------------------------------------------------------------------------------------

#: What we read of a tree; anything else it says is passed over.
_FIELDS = (
    "num_deleted", "size_leaf_vector",
    "left_children", "right_children", "default_left", "split_indices", "split_conditions", "sum_hessian",
    "leaf_weights",
    "categories_nodes", "categories_sizes", "categories",
)  # fmt: skip


def _arrays(columns: Columns, weights: Any) -> dict[str, Any]:
    """The trees as the arrays of a TreeEnsemble."""
    sizes = columns.lengths("left_children")
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    cover = _covers(columns, sizes)
    left = columns.take("left_children", sizes, np.int32)
    right = columns.take("right_children", sizes, np.int32)
    leaf = left < 0
    missing_left = columns.take("default_left", sizes, np.bool_) & ~leaf
    condition = columns.take("split_conditions", sizes, np.float32)
    value = _leaf_values(columns, sizes, leaf, condition, right)
    right[leaf] = -1
    if weights is not None and len(weights):
        value *= np.repeat(np.asarray(weights, dtype=np.float32)[: len(sizes)], sizes)[:, None]

    category_set, category_offsets, category_codes = _category_sets(columns, offsets)
    # XGBoost sends the categories of a set right, and everything else left.
    swapped = category_set >= 0
    left[swapped], right[swapped] = right[swapped], left[swapped]
    missing_left[swapped] = ~missing_left[swapped]
    arrays: dict[str, Any] = {
        "left": left,
        "right": right,
        "feature": np.where(leaf, np.int32(-1), columns.take("split_indices", sizes, np.int32)),
        # x < t is x <= (the float32 before t), because x is a float32 too.
        "threshold": np.where(leaf | swapped, np.float64(0), np.nextafter(condition, np.float32(-np.inf))),
        "cover": cover,
        "value": value,
        "missing_left": missing_left,
        "category_set": category_set,
    }
    if columns.take("num_deleted", np.ones_like(sizes)).any():
        offsets = _drop_deleted(arrays, offsets)
    for array in arrays.values():
        array.setflags(write=False)  # so that it need not be copied
    return {
        **arrays,
        "tree_offsets": offsets,
        "category_offsets": category_offsets,
        "category_codes": category_codes,
    }


def _leaf_values(columns: Columns, sizes: Array, leaf: Array, condition: Array, right: Array) -> Array:
    """(n_nodes, width) what each leaf adds; zero at inner nodes."""
    width = int(columns.take("size_leaf_vector", np.ones_like(sizes), np.int32).max(initial=0))
    if width <= 1:  # a leaf's value is stored as its split condition (and older files say width 0)
        return np.where(leaf, condition, np.float64(0))[:, None]
    # A leaf's right child is the number of its vector.
    n_weights = columns.lengths("leaf_weights")
    if (n_weights < width).any():
        raise FileFormatError(f"The model is damaged: a tree has no 'leaf_weights' of length {width:,}.")
    n_leaves = n_weights // width
    vectors = columns.take("leaf_weights", n_leaves * width, np.float32).reshape(-1, width)
    first = np.repeat(np.cumsum(n_leaves) - n_leaves, sizes)
    value = np.zeros((len(leaf), width))
    value[leaf] = vectors[(first + right)[leaf]]
    return value


def _covers(columns: Columns, sizes: Array) -> Array:
    if sizes.any() and not columns.lengths("sum_hessian").any():
        raise UnsupportedModelError(
            "This XGBoost model does not say how much training data reached each node (vector leaves "
            "before XGBoost 3.2 do not). Train it with XGBoost 3.2 or later, or with "
            "multi_strategy='one_output_per_tree'."
        )
    return columns.take("sum_hessian", sizes, np.float32).astype(np.float64)


def _category_sets(columns: Columns, tree_offsets: Array) -> tuple[Array, Array, Array]:
    """Which set each node asks for, where each set begins, and the codes of all sets."""
    n_sets = columns.lengths("categories_nodes")
    nodes = columns.take("categories_nodes", n_sets, np.int64) + np.repeat(tree_offsets[:-1], n_sets)
    category_set = np.full(int(tree_offsets[-1]), -1, dtype=np.int32)
    category_set[nodes] = np.arange(len(nodes), dtype=np.int32)
    sizes = columns.take("categories_sizes", n_sets, np.int64)
    codes = columns.take("categories", columns.lengths("categories"), np.int32)
    return category_set, np.concatenate([[0], np.cumsum(sizes)]), codes


def _drop_deleted(arrays: dict[str, Any], offsets: Array) -> Array:
    """Take out the nodes that pruning left behind; returns the new tree offsets."""
    left, right = arrays["left"], arrays["right"]
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
    for name in arrays:
        arrays[name] = arrays[name][kept]
    return position[offsets]


# -- rows in a DMatrix -----------------------------------------------------------------------------


def read_rows(X: Any, ensemble: TreeEnsemble, model: Any = None) -> Rows:
    """The rows of a DMatrix: a sparse matrix in which absent means missing.

    Its categories may have other codes than the model's: XGBoost (3.1 or later) goes by the labels, if both
    have any.
    """
    row_format = ensemble.row_format
    names = X.feature_names
    order = list(range(X.num_col())) if names is None else match_columns(list(names), row_format)
    try:
        matrix = X.get_data()
        if type(X).__name__ != "DMatrix":
            ends, cuts = X.get_quantile_cut()
            _require_edges(ends, cuts, order, ensemble)
    except UnreadableRowsError:
        raise
    except Exception as error:  # XGBoostError, which need not be imported to be caught
        raise UnreadableRowsError(
            f"The rows cannot be read back from this {type(X).__name__}: {error} Pass what it was made of."
        ) from error
    matrix = matrix if order == list(range(matrix.shape[1])) else matrix[:, order]
    labels = _labels_of_columns(X) if row_format.categories else {}
    of_features = {f: labels[order[f]] for f in row_format.categories if order[f] in labels}
    return sparse_rows(_recoded(matrix, of_features, row_format), replace(row_format, absent_is_missing=True))


def _require_edges(ends: Array, cuts: Array, order: Sequence[int], ensemble: TreeEnsemble) -> None:
    """A QuantileDMatrix keeps bins, not numbers: every threshold must be the edge of one.

    Then any number of a bin is on the same side of it, and the one that XGBoost gives stands for them all.
    """
    numeric = (ensemble.feature >= 0) & (ensemble.category_set < 0)
    for feature in np.unique(ensemble.feature[numeric]).tolist():
        below = ensemble.threshold[numeric & (ensemble.feature == feature)].astype(np.float32)
        edges = cuts[int(ends[order[feature]]) : int(ends[order[feature] + 1])]
        if not np.isin(np.nextafter(below, np.float32(np.inf)), edges).all():
            raise UnreadableRowsError(
                f"A QuantileDMatrix keeps the bins of its numbers only, and in "
                f"{title(ensemble.row_format, feature)} the model splits inside of a bin. Pass what it was "
                f"made of, or make it with ref=, the QuantileDMatrix of the training data."
            )


def _labels_of_columns(X: Any) -> dict[int, tuple[Label, ...]]:
    """The labels of a DMatrix's categorical columns; before XGBoost 3.1 it kept none."""
    if not hasattr(X, "get_categories") or X.get_categories().empty():
        return {}
    try:
        columns = X.get_categories(export_to_arrow=True).to_arrow()
    except ImportError as error:
        raise MissingDependencyError(
            "XGBoost gives the categories of a DMatrix through pyarrow, which is not installed. "
            "Run: pip install pyarrow. Or pass the data frame that the DMatrix was made of."
        ) from error
    found = enumerate(labels for _, labels in columns)
    return {position: tuple(labels.to_pylist()) for position, labels in found if labels is not None}


def _recoded(matrix: Any, labels: dict[int, tuple[Label, ...]], row_format: RowFormat) -> Any:
    """The sparse matrix with the model's codes for these labels, whose places are the codes it has now."""
    moved = {feature: found for feature, found in labels.items() if found != row_format.categories[feature]}
    matrix = matrix.tocsc() if moved else matrix
    for feature, found in moved.items():
        here = slice(matrix.indptr[feature], matrix.indptr[feature + 1])
        codes = codes_of_labels(found, row_format, feature)
        matrix.data[here] = codes[matrix.data[here].astype(np.int64)]
    return matrix
