"""Which raw columns each column behind some fitted transformers is made of.

What a transformer of scikit-learn keeps about its fit says so: categories, bins, supports. One that is not
known here may mix, so each of its columns counts as made of all of its inputs; that is never too few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from inspect import getattr_static
from typing import Any

import numpy as np

__all__ = ["Origins", "trace"]

#: The raw columns behind each of some columns.
Sources = list[frozenset[int]]


@dataclass(frozen=True)
class Origins:
    """Raw columns, and which of them are behind each transformed column."""

    n_raw: int
    raw_names: tuple[str, ...] | None
    sources: tuple[frozenset[int], ...]


def trace(steps: Sequence[Any], n_columns: int) -> Origins | None:
    """From the raw columns through all steps to ``n_columns``; None where the steps do not say enough."""
    n_raw = getattr(steps[0], "n_features_in_", None)
    if n_raw is None:
        return None
    names = getattr(steps[0], "feature_names_in_", None)
    try:
        sources = _chain(steps, [frozenset([column]) for column in range(n_raw)], n_columns)
    except _UnknownWidthError:
        return None
    if len(sources) != n_columns:
        return None
    return Origins(int(n_raw), None if names is None else tuple(map(str, names)), tuple(sources))


class _UnknownWidthError(Exception):
    """A transformer does not say how many columns it makes."""


def _chain(steps: Sequence[Any], inputs: Sources, n_outputs: int | None) -> Sources:
    widths = [getattr(step, "n_features_in_", None) for step in steps[1:]]
    for step, width in zip(steps, [*widths, n_outputs], strict=True):
        inputs = _through(step, inputs, width)
    return inputs


def _through(step: Any, inputs: Sources, n_outputs: int | None = None) -> Sources:
    """The raw columns behind each output of a fitted transformer, from those behind each input."""
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return inputs
    rule = _rule_of(step)
    if rule is not None and len(inputs) == getattr(step, "n_features_in_", len(inputs)):
        outputs = rule(step, inputs)
        if outputs is not None and n_outputs in (None, len(outputs)):
            return outputs
    return [frozenset[int]().union(*inputs)] * (_width(step) if n_outputs is None else n_outputs)


def _width(step: Any) -> int:
    try:
        return len(step.get_feature_names_out())
    except (AttributeError, ValueError, TypeError) as error:
        raise _UnknownWidthError from error


def _rule_of(step: Any) -> Callable[[Any, Sources], Sources | None] | None:
    """The rule of the first known class, unless a class derived from it transforms in its own way."""
    transform = getattr_static(type(step), "transform", None)
    for base in type(step).__mro__:
        rule = _RULES.get(f"{base.__module__.partition('.')[0]}.{base.__qualname__}")
        if rule is not None:
            return rule if getattr_static(base, "transform", None) is transform else None
    return None


# -- one rule for each kind of transformer ---------------------------------------------------------------


def _one_to_one(step: Any, inputs: Sources) -> Sources:
    return inputs


def _function(step: Any, inputs: Sources) -> Sources | None:
    """A function may do anything, unless there is none or the user says that columns stay what they are."""
    is_plain = step.func is None or (
        isinstance(step.feature_names_out, str) and step.feature_names_out == "one-to-one"
    )
    return inputs if is_plain else None


def _one_hot(step: Any, inputs: Sources) -> Sources:
    nothing = [None] * len(inputs)
    infrequent = getattr(step, "infrequent_categories_", nothing)
    dropped = nothing if step.drop_idx_ is None else step.drop_idx_
    outputs: Sources = []
    for source, categories, rare, drop in zip(inputs, step.categories_, infrequent, dropped, strict=True):
        n_rare = 0 if rare is None else len(rare) - 1  # rare categories share a column
        outputs += [source] * (len(categories) - n_rare - (drop is not None))
    return outputs


def _bins(step: Any, inputs: Sources) -> Sources:
    n_columns = [1] * len(inputs) if step.encode == "ordinal" else step.n_bins_
    return _repeat(inputs, n_columns)


def _splines(step: Any, inputs: Sources) -> Sources:
    return _repeat(inputs, [step.n_features_out_ // len(inputs)] * len(inputs))


def _target_means(step: Any, inputs: Sources) -> Sources:
    n_columns = len(step.classes_) if step.target_type_ == "multiclass" else 1
    return _repeat(inputs, [n_columns] * len(inputs))


def _repeat(inputs: Sources, n_columns: Sequence[int]) -> Sources:
    return [source for source, times in zip(inputs, n_columns, strict=True) for _ in range(times)]


def _imputed(step: Any, inputs: Sources) -> Sources:
    """A column that was empty in training has NaN to put in, and is dropped unless it is to be kept."""
    outputs = [
        source
        for source, statistic in zip(inputs, step.statistics_, strict=True)
        if step.keep_empty_features or statistic == statistic
    ]
    return outputs + ([] if step.indicator_ is None else _missing(step.indicator_, inputs))


def _missing(step: Any, inputs: Sources) -> Sources:
    return [inputs[column] for column in step.features_]


def _selected(step: Any, inputs: Sources) -> Sources:
    return [source for source, is_kept in zip(inputs, step.get_support(), strict=True) if is_kept]


def _powers(step: Any, inputs: Sources) -> Sources:
    return [frozenset().union(*(inputs[i] for i in np.flatnonzero(powers))) for powers in step.powers_]


def _columns(step: Any, inputs: Sources) -> Sources:
    """Each transformer of a ColumnTransformer reads some columns and writes to a slice of the outputs."""
    slices = step.output_indices_
    outputs: Sources = [frozenset()] * max((part.stop for part in slices.values()), default=0)
    names = getattr(step, "feature_names_in_", None)
    for name, transformer, columns in step.transformers_:
        part = slices[name]
        if part.stop > part.start:  # else it is dropped, or has no columns
            chosen = [inputs[column] for column in _positions(columns, names, len(inputs))]
            outputs[part] = _through(transformer, chosen, part.stop - part.start)
    return outputs


def _positions(columns: Any, names: Any, n_columns: int) -> Iterator[int]:
    """What ColumnTransformer takes for columns: names or positions, one or many, slices and masks."""

    def position(column: Any) -> int:
        return list(names).index(column) if isinstance(column, str) else int(column) % n_columns

    if isinstance(columns, slice):
        start, stop = columns.start, columns.stop
        if isinstance(start, str) or isinstance(stop, str):  # by names, the last one included
            start = None if start is None else position(start)
            stop = None if stop is None else position(stop) + 1
        yield from range(*slice(start, stop, columns.step).indices(n_columns))
    elif np.ndim(columns) == 0:
        yield position(columns)
    elif all(isinstance(column, (bool, np.bool_)) for column in columns):
        yield from np.flatnonzero(list(columns)).tolist()
    else:
        yield from map(position, columns)


def _answers(step: Any, inputs: Sources) -> Sources:
    """A model that reads rows itself says which features are behind each column."""
    return [frozenset[int]().union(*(inputs[feature] for feature in features)) for features in step.sources]


def _union(step: Any, inputs: Sources) -> Sources:
    outputs: Sources = []
    for _, transformer in step.transformer_list:
        if not (isinstance(transformer, str) and transformer == "drop"):
            outputs += _through(transformer, inputs)
    return outputs


def _pipeline(step: Any, inputs: Sources) -> Sources:
    return _chain([one for _, one in step.steps], inputs, None)


_RULES: dict[str, Callable[[Any, Sources], Sources | None]] = {
    "linear_treeshap.LeafReader": _answers,
    **dict.fromkeys(
        (
            "sklearn.Binarizer",
            "sklearn.MaxAbsScaler",
            "sklearn.MinMaxScaler",
            "sklearn.OrdinalEncoder",
            "sklearn.PowerTransformer",
            "sklearn.QuantileTransformer",
            "sklearn.RobustScaler",
            "sklearn.StandardScaler",
        ),
        _one_to_one,
    ),
    "sklearn.ColumnTransformer": _columns,
    "sklearn.FeatureUnion": _union,
    "sklearn.FunctionTransformer": _function,
    "sklearn.KBinsDiscretizer": _bins,
    "sklearn.MissingIndicator": _missing,
    "sklearn.OneHotEncoder": _one_hot,
    "sklearn.Pipeline": _pipeline,
    "sklearn.PolynomialFeatures": _powers,
    "sklearn.SelectorMixin": _selected,
    "sklearn.SimpleImputer": _imputed,
    "sklearn.SplineTransformer": _splines,
    "sklearn.TargetEncoder": _target_means,
}
