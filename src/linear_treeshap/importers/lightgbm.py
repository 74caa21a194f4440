"""LightGBM → TreeEnsemble, from a Booster, a scikit-learn wrapper, or a model file.

Reads the model string, the one format LightGBM promises to keep, so files need no LightGBM. The
string ends at the best iteration where training stopped early, exactly as predict() does.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import FileFormatError, LinearTreeShapError, ModelError, UnsupportedModelError
from ..model.ensemble import TreeEnsemble, check_n_outputs, monotone_columns
from ..model.lines import Lines
from ..model.links import Exponential, Link, Logistic
from ..model.row_format import LIGHTGBM_ZERO, Label, RowFormat
from .records import Columns

__all__ = [
    "BEGINNINGS",
    "LIBRARY",
    "booster_of",
    "is_softmax",
    "link",
    "of_text",
    "own_values",
    "predicts_raw",
    "raw_prediction",
    "read_file",
    "to_ensemble",
    "trees_of_limit",
]

Array = npt.NDArray[Any]

LIBRARY = "LightGBM"
BEGINNINGS = (b"tree",)

# Bits of decision_type; the missing type is in the two bits above them.
_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_MISSING_IS_ZERO, _MISSING_IS_NAN = 1, 2


def to_ensemble(model: Any) -> TreeEnsemble:
    """Read a ``lightgbm.Booster`` or any of LightGBM's scikit-learn wrappers."""
    class_names = [str(name) for name in getattr(model, "classes_", ())]
    return of_text(booster_of(model).model_to_string(), class_names)


def of_text(text: str, class_names: Sequence[str] = ()) -> TreeEnsemble:
    """Read the text of a model."""
    with _damage_explained():
        return _build(*_parse(np.frombuffer(text.encode(), np.uint8)), class_names)


def read_file(path: str | os.PathLike[str]) -> TreeEnsemble:
    """Read a model that LightGBM saved; LightGBM itself is not needed."""
    with _damage_explained():
        return _build(*_parse(np.memmap(path, np.uint8, mode="r")))


def raw_prediction(model: Any, X: Any) -> npt.NDArray[np.float64]:
    """(n_rows, n_outputs) LightGBM's own raw scores; of a random forest averaged, as predict() does.

    With ``raw_score=True`` LightGBM itself leaves the averaging out.
    """
    # The wrapper predicts the same, but warns if it was trained with names and the rows have none.
    booster = booster_of(model)
    scores = np.asarray(booster.predict(X, raw_score=True), dtype=np.float64)
    if "average_output" in _header(booster.model_to_string(num_iteration=1)):
        scores /= booster.best_iteration if booster.best_iteration > 0 else booster.current_iteration()
    return scores.reshape(len(scores), -1)


def own_values(path: str) -> tuple[str, Callable[[Array], Any]]:
    """LightGBM's release, and its values of a file's model: ready rows → (n_rows, …), the base value last."""
    import lightgbm

    booster = lightgbm.Booster(model_file=path)
    return lightgbm.__version__, lambda rows: booster.predict(rows, pred_contrib=True, num_threads=1)


def trees_of_limit(model: Any, ensemble: TreeEnsemble, limit: int) -> int | None:
    """How many trees shap's tree_limit means, which are rounds here; None beyond those of the ensemble, and
    for a random forest, which is averaged over fewer trees."""
    booster = booster_of(model)
    n_trees = limit * booster.num_model_per_iteration()
    is_average = "average_output" in _header(booster.model_to_string(num_iteration=1))
    return None if is_average or n_trees > ensemble.n_trees else n_trees


def predicts_raw(model: Any) -> bool:
    objective = _objective(model)
    # A model trained on square roots squares its sum.
    return not objective or (objective[0] in _WITHOUT_LINK and "sqrt" not in objective)


def link(model: Any) -> Link | None:
    name, *options = _objective(model) or ("",)
    if name in ("binary", "multiclassova"):
        return Logistic(*(float(o.partition(":")[2]) for o in options if o.startswith("sigmoid:")))
    return _LINKS.get(name)


def is_softmax(model: Any) -> bool:
    return _objective(model)[:1] == ["multiclass"]


#: Objectives without a link; "custom" is a function of the user's own.
_WITHOUT_LINK = (
    "custom", "fair", "huber", "lambdarank", "mape", "quantile", "rank_xendcg", "regression", "regression_l1",
)  # fmt: skip
_LINKS: dict[str, Link] = {
    "cross_entropy": Logistic(),
    "poisson": Exponential(),
    "gamma": Exponential(),
    "tweedie": Exponential(),
}


def _objective(model: Any) -> list[str]:
    """The name of the objective and its options, as the model's text has them; empty if it has none."""
    return _header(booster_of(model).model_to_string(num_iteration=1)).get("objective", "").split()


def booster_of(model: Any) -> Any:
    """The Booster itself, or that of a scikit-learn wrapper."""
    if not hasattr(model, "booster_") and hasattr(model, "fit"):
        raise ModelError(f"This {type(model).__name__} is not fitted: call fit() first.")
    return getattr(model, "booster_", model)


# -- the text --------------------------------------------------------------------------------------

#: What we read of a tree; anything else it says is passed over.
_FIELDS = (
    "num_leaves", "num_cat", "is_linear",
    "split_feature", "threshold", "decision_type", "left_child", "right_child", "internal_count",
    "leaf_value", "leaf_count",
    "leaf_const", "num_features", "leaf_features", "leaf_coeff",
    "cat_boundaries", "cat_threshold",
)  # fmt: skip


@contextmanager
def _damage_explained() -> Iterator[None]:
    """Whatever goes wrong inside is damage to the model, unless it says better."""
    try:
        yield
    except LinearTreeShapError:
        raise
    except (KeyError, ValueError, IndexError, TypeError, OverflowError, RecursionError) as error:
        raise FileFormatError(f"The LightGBM model is damaged or incomplete: {error!r}.") from error


def _parse(text: npt.NDArray[np.uint8]) -> tuple[dict[str, str], _Categorical, Columns]:
    """The header, what it says of categories, and the trees."""
    if bytes(text[:4]) != b"tree":
        raise FileFormatError(f"A LightGBM model begins with 'tree', this one with {bytes(text[:20])!r}.")
    rest, fields = _core.read_lightgbm(text, _FIELDS)
    header, columns = _header(rest.decode()), Columns(fields)
    if "tree_sizes" in header and len(header["tree_sizes"].split()) != columns.n_trees:
        raise FileFormatError("The LightGBM model is incomplete: it has fewer trees than it says.")
    return header, _categorical(rest.decode()), columns


def _header(text: str) -> dict[str, str]:
    """The lines up to the end of the trees, by name."""
    lines = text.partition("\nend of trees")[0].split("\n")
    return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}


@dataclass(frozen=True)
class _Categorical:
    """What a model says of categories, besides its trees."""

    #: The labels of a data frame's categorical columns, in the order of these columns.
    labels: list[list[Label]]
    #: The features that were split as categories, dropped ones too; None if it is not said.
    features: list[int] | None


def _categorical(text: str) -> _Categorical:
    found = text.rfind("\npandas_categorical:")
    labels = json.loads(text[found:].partition(":")[2]) if found >= 0 else None
    named = re.search(r"^\[categorical_feature: ([\d,]*)\]$", text, flags=re.MULTILINE)
    features = None if named is None else sorted(int(feature) for feature in named[1].split(",") if feature)
    return _Categorical(labels or [], features)


# -- the whole model -------------------------------------------------------------------------------


def _build(
    header: dict[str, str], said: _Categorical, columns: Columns, class_names: Sequence[str] = ()
) -> TreeEnsemble:
    n_outputs = int(header["num_tree_per_iteration"])
    check_n_outputs(n_outputs, n_known=columns.n_trees)
    n_leaves = columns.take("num_leaves", np.ones(columns.n_trees), np.int64)
    if (n_leaves < 1).any():
        raise FileFormatError("The LightGBM model is damaged: a tree has no leaves.")
    # Random forests average their rounds.
    share = n_outputs / max(1, len(n_leaves)) if "average_output" in header else 1.0
    value = share * columns.take("leaf_value", n_leaves)
    terms = _linear_terms(columns, n_leaves, value, share)
    arrays, zero_is_missing = _trees(columns, n_leaves, value if terms is None else terms.constant)
    lines = (
        None
        if terms is None or not len(terms.leaf)
        else _lines(terms, arrays["left"] < 0, value, zero_is_missing)
    )
    categorical = np.unique(arrays["feature"][arrays["category_set"] >= 0]).tolist()
    row_format = _row_format(header, said, zero_is_missing, frozenset(categorical))
    return TreeEnsemble(
        **arrays,
        lines=lines,
        base_values=np.zeros(n_outputs),
        row_format=row_format,
        tree_output=np.arange(len(n_leaves), dtype=np.int32) % n_outputs,
        output_names=tuple(class_names) if len(class_names) == n_outputs > 1 else None,
        monotone=monotone_columns(map(int, header.get("monotone_constraints", "").split())),
    )


def _row_format(
    header: dict[str, str],
    said: _Categorical,
    zero_is_missing: frozenset[int],
    categorical: frozenset[int],
) -> RowFormat:
    n_features = int(header["max_feature_idx"]) + 1
    names = tuple(header["feature_names"].split())
    # What LightGBM calls the columns of an array.
    is_numbering = len(names) == n_features and names == tuple(f"Column_{i}" for i in range(n_features))
    categories, frame_labels = _place_labels(header["feature_infos"].split(), said.features, said.labels)
    return RowFormat(
        n_features=n_features,
        feature_names=None if is_numbering else names,
        zero_is_missing=zero_is_missing,
        truncated=categorical,
        categories=categories,
        frame_labels=frame_labels,
    )


def _place_labels(
    infos: Sequence[str], named: Sequence[int] | None, labels: Sequence[Sequence[Label]]
) -> tuple[dict[int, tuple[Label, ...]], tuple[tuple[Label, ...], ...]]:
    """Which features the labels belong to, and the labels again if that is not certain.

    LightGBM says in which order the labels come, and at prediction gives them to the categorical columns of
    the frame, in their order. Which columns these were it does not write: ``named`` are the features that are
    split as categories, without columns of an ordered type, and with numbers that the user named.
    """
    found = tuple(tuple(one) for one in labels)
    sizes = [len(one) for one in found]
    first = _first_places(infos, sizes)
    last = [len(infos) - 1 - place for place in _first_places(infos[::-1], sizes[::-1])[::-1]]
    if len(found) == len(first) and first == last:
        return dict(zip(first, found, strict=True)), ()
    if named is None:  # models of old do not say
        named = [feature for feature, info in enumerate(infos) if not info.startswith("[") and info != "none"]
    fits = len(named) == len(found) and all(
        _could_be_codes(infos[feature], len(one)) for feature, one in zip(named, found, strict=True)
    )
    return dict(zip(named, found, strict=True)) if fits else {}, found


def _first_places(infos: Sequence[str], n_labels: Sequence[int]) -> list[int]:
    """The first features, one after another, that could have so many labels each."""
    places: list[int] = []
    for feature, info in enumerate(infos):
        if len(places) < len(n_labels) and _could_be_codes(info, n_labels[len(places)]):
            places.append(feature)
    return places


def _could_be_codes(info: str, n_labels: int) -> bool:
    """Could a feature of this info hold the codes of that many labels?

    An info is ``[lowest:highest]``, or the codes of categories joined by colons (-1 is none of them), or
    ``none`` if the feature hardly varied.
    """
    if info == "none":
        return True
    codes = [float(code) for code in info.strip("[]").split(":")]
    lowest = 0 if info.startswith("[") else -1
    return all(code.is_integer() for code in codes) and lowest <= min(codes) and max(codes) < n_labels


# -- the trees -------------------------------------------------------------------------------------


def _trees(columns: Columns, n_leaves: Array, leaf_value: Array) -> tuple[dict[str, Any], frozenset[int]]:
    """The arrays of a TreeEnsemble, and the features whose zeros mean missing.

    A tree's inner nodes come first, then its leaves: LightGBM numbers the two apart, and writes
    leaf ``i`` as the child ``~i``.
    """
    n_inner = n_leaves - 1
    sizes = n_inner + n_leaves
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    # Inner nodes and leaves alternate, tree by tree.
    leaf = np.repeat(np.tile([False, True], len(n_leaves)), np.column_stack([n_inner, n_leaves]).ravel())
    n_nodes = len(leaf)

    def spread(of_inner: Array, of_leaves: Any, dtype: Any) -> Array:
        column = np.empty(n_nodes, dtype=dtype)
        column[~leaf], column[leaf] = of_inner, of_leaves
        column.setflags(write=False)  # so that it need not be copied
        return column

    def child(name: str) -> Array:
        number = columns.take(name, n_inner, np.int32)
        return spread(np.where(number >= 0, number, np.repeat(n_inner, n_inner) + ~number), -1, np.int32)

    decision = columns.take("decision_type", n_inner, np.uint8)
    threshold = columns.take("threshold", n_inner)
    feature = columns.take("split_feature", n_inner, np.int32)
    category_set, category_offsets, category_codes = _category_sets(columns, decision, threshold, n_inner)
    missing_left, zero_is_missing = _missing_values(decision, threshold, feature)
    arrays = {
        "tree_offsets": offsets,
        "left": child("left_child"),
        "right": child("right_child"),
        "feature": spread(feature, -1, np.int32),
        "threshold": spread(np.where(category_set < 0, _clear_of_zero(threshold), 0.0), 0.0, np.float64),
        "missing_left": spread(missing_left, False, np.bool_),
        "category_set": spread(category_set, -1, np.int32),
        "category_offsets": category_offsets,
        "category_codes": category_codes,
        "cover": spread(columns.take("internal_count", n_inner), _leaf_counts(columns, n_leaves), np.float64),
        "value": spread(np.zeros(1), leaf_value, np.float64)[:, None],
    }
    return arrays, zero_is_missing


@dataclass(frozen=True)
class _LinearTerms:
    """What leaves add that are linear functions, leaf by leaf."""

    constant: Array  # (n_leaves,) of all trees, the value itself where a leaf is a number
    leaf: Array  # (n_terms,)
    feature: Array  # (n_terms,)
    coefficient: Array  # (n_terms,)


def _linear_terms(columns: Columns, n_leaves: Array, value: Array, share: float) -> _LinearTerms | None:
    """None if all leaves are numbers; ``value`` are these, or what stands for a leaf where a feature that it
    reads is missing."""
    if not columns.take("is_linear", columns.lengths("is_linear")).any():
        return None
    # Trees that went before, without linear_tree, say nothing of this.
    is_linear = columns.lengths("leaf_const") > 0
    of_tree = np.where(is_linear, n_leaves, 0)
    constant = value.copy()
    constant[np.repeat(is_linear, n_leaves)] = share * columns.take("leaf_const", of_tree)
    n_terms = np.zeros(len(value), dtype=np.int64)
    n_terms[np.repeat(is_linear, n_leaves)] = columns.take("num_features", of_tree, np.int64)
    tree = np.repeat(np.arange(len(n_leaves)), n_leaves)
    if (n_terms < 0).any():
        raise FileFormatError("The LightGBM model is damaged: a leaf has a negative number of features.")
    terms_of_tree = np.bincount(tree, weights=n_terms, minlength=len(n_leaves)).astype(np.int64)
    # Before room is made for what they claim.
    feature = columns.take("leaf_features", terms_of_tree, np.int32)
    coefficient = share * columns.take("leaf_coeff", terms_of_tree)
    return _LinearTerms(constant, np.repeat(np.arange(len(value)), n_terms), feature, coefficient)


def _lines(terms: _LinearTerms, is_leaf: Array, value: Array, zero_is_missing: frozenset[int]) -> Lines:
    """The same by nodes; leaves are in the order of the model among these."""
    torn = sorted(zero_is_missing & set(terms.feature.tolist()))
    if torn:
        raise UnsupportedModelError(
            f"This LightGBM model reads zero as missing in feature {torn[0]}, of which its leaves are linear "
            f"functions that do not. Train it with zero_as_missing=False."
        )
    if_missing = np.zeros(len(is_leaf))
    if_missing[is_leaf] = value
    return Lines(np.flatnonzero(is_leaf)[terms.leaf], terms.feature, terms.coefficient, if_missing)


def _leaf_counts(columns: Columns, n_leaves: Array) -> Array:
    """How many rows reached each leaf.

    A tree of a single leaf used not to say that. It makes no difference, so it counts none.
    """
    silent = (columns.lengths("leaf_count") == 0) & (n_leaves == 1)
    said = np.where(silent, 0, n_leaves)
    counts = columns.take("leaf_count", said)
    return np.insert(counts, (np.cumsum(said) - said)[silent], 0) if silent.any() else counts


def _clear_of_zero(threshold: Array) -> Array:
    """Thresholds that send all numbers which LightGBM reads as zero the way of zero."""
    moved = np.where(threshold >= 0, LIGHTGBM_ZERO, np.nextafter(-LIGHTGBM_ZERO, -np.inf))
    return np.where(np.abs(threshold) <= LIGHTGBM_ZERO, moved, threshold)


def _missing_values(decision: Array, threshold: Array, feature: Array) -> tuple[Array, frozenset[int]]:
    """Where each node sends missing values, and the features whose zeros mean missing."""
    missing_type = (decision >> 2) & 3
    numeric = (decision & _CATEGORICAL) == 0
    default_left = (decision & _DEFAULT_LEFT) != 0
    # Without a missing type LightGBM reads NaN as zero. Categorical nodes send NaN right.
    zero_goes_left = threshold >= 0
    stands_for_itself = (missing_type == _MISSING_IS_ZERO) | (missing_type == _MISSING_IS_NAN)
    missing_left = np.where(stands_for_itself, default_left, zero_goes_left) & numeric

    zero_features = np.unique(feature[numeric & (missing_type == _MISSING_IS_ZERO)])
    if zero_features.size:
        # Once zero is NaN, a node that tells the two apart cannot be served any more.
        tells_apart = numeric & (missing_type == _MISSING_IS_NAN) & (default_left != zero_goes_left)
        torn = np.intersect1d(feature[tells_apart], zero_features)
        if torn.size:
            raise UnsupportedModelError(
                f"Some trees of this LightGBM model read zero as missing in feature {torn[0]} and others do "
                f"not (training went on with another zero_as_missing). Train it with one setting."
            )
    return missing_left, frozenset(zero_features.tolist())


def _category_sets(
    columns: Columns, decision: Array, threshold: Array, n_inner: Array
) -> tuple[Array, Array, Array]:
    """Which set each inner node asks for, where each set begins, and the codes of all sets.

    Each tree has ``num_cat`` sets, one bit per code: the words of set ``i`` are
    ``cat_threshold[cat_boundaries[i] : cat_boundaries[i + 1]]``. A categorical node has threshold ``i``.
    """
    ones = np.ones(len(n_inner), dtype=np.int64)
    n_sets = columns.take("num_cat", ones, np.int64)
    # Trees without sets write no boundaries, the others one more than they have sets.
    n_boundaries = np.where(n_sets > 0, n_sets + 1, 0)
    boundaries = columns.take("cat_boundaries", n_boundaries, np.int64)
    ends = np.cumsum(n_boundaries)
    n_words = np.zeros(len(n_sets), dtype=np.int64)
    n_words[n_sets > 0] = boundaries[ends[n_sets > 0] - 1]
    words = columns.take("cat_threshold", n_words, np.int64).astype("<u4")

    first_set = np.repeat(np.cumsum(n_sets) - n_sets, n_inner)
    categorical = (decision & _CATEGORICAL) != 0
    number = np.where(categorical, threshold, 0).astype(np.int64)
    if (number[categorical] >= np.repeat(n_sets, n_inner)[categorical]).any():
        raise FileFormatError(
            "The LightGBM model is damaged: a node asks for a category set that is not there."
        )
    category_set = np.where(categorical, first_set + number, -1).astype(np.int32)

    # Boundaries of all sets, counted over the words of all trees.
    last = np.zeros(len(boundaries), dtype=np.bool_)
    last[ends[n_sets > 0] - 1] = True
    begins = (boundaries + np.repeat(np.cumsum(n_words) - n_words, n_boundaries))[~last]
    word, bit = np.nonzero(np.unpackbits(words.view(np.uint8), bitorder="little").reshape(-1, 32))
    set_of_word = np.searchsorted(begins, np.arange(len(words)), side="right") - 1
    codes = (word - begins[set_of_word[word]]) * 32 + bit
    sizes = np.bincount(set_of_word[word], minlength=len(begins))
    return category_set, np.concatenate([[0], np.cumsum(sizes)]), codes.astype(np.int32)
