"""The steps of a pipeline before its model: raw rows → the rows that the trees read.

Searches and pipelines are followed as deep as they are nested. The steps are the user's own, already
fitted; nothing here changes them. A model whose rows only its own library can read is a step more.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

from ...errors import UnsupportedModelError
from ...rows.frames import column_names
from ...rows.tables import take_columns
from .. import IMPORTERS, class_names, importer_of

__all__ = ["Preprocessing", "preprocessing_of", "unwrap"]


@dataclass(frozen=True)
class Preprocessing:
    """Fitted transformers, to be called one after another."""

    steps: tuple[Any, ...]

    @property
    def takes_strings(self) -> bool:
        """Does the first step count words, so that a row is a string and not a row of columns?"""
        return hasattr(self.steps[0], "build_analyzer")

    @property
    def needs_model(self) -> bool:
        """Is the model itself needed to read rows, so that a file without it could read none?"""
        return any(getattr(step, "needs_model", False) for step in self.steps)

    def transform(self, table: Any) -> Any:
        """The table after all steps; columns of a frame may come in any order."""
        for step in self.steps:
            table = step.transform(_as_trained(table, step))
        return table

    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the columns after all steps; None if a step does not know its own."""
        names = None
        for step in self.steps:
            try:
                names = step.get_feature_names_out(names)
            except (AttributeError, ValueError):
                return None
        return None if names is None else tuple(map(str, names))


def preprocessing_of(model: Any) -> Preprocessing | None:
    """What a model does to its rows before its trees read them; None if that is nothing.

    Raises
    ------
    UnsupportedModelError
        A step before the last cannot transform rows.
    """
    steps = [step for layer in _layers(model) for step in _transformers(layer)]
    inside = unwrap(model)
    if _is_of_a_library(inside) and hasattr(importer := importer_of(inside), "reader"):
        steps += [found] if (found := importer.reader(inside)) is not None else []
    return Preprocessing(tuple(steps)) if steps else None


def unwrap(model: Any) -> Any:
    """The model inside a pipeline, a search or a FrozenEstimator, however deep; any other as it is.

    A model that transforms its target and has a pipeline inside becomes one without: it transforms what the
    last step predicts.
    """
    *_, inside = _layers(model)
    return inside


def _is_of_a_library(model: Any) -> bool:
    """Is this a model of a class that some module of ours reads, and no file or ensemble?"""
    return any(name in IMPORTERS for name in class_names(model))


def _layers(model: Any) -> Iterator[Any]:
    """The model, what is inside it, and so on to the one that is no pipeline and no search."""
    yield (model := _thawed(model))
    while hasattr(model, "steps") or hasattr(model, "best_estimator_"):
        yield (model := _thawed(model.steps[-1][1] if hasattr(model, "steps") else model.best_estimator_))
    if hasattr(model, "regressor_") and hasattr(model, "transformer_"):
        *layers, inside = _layers(model.regressor_)
        if layers:
            yield from layers
            bare = copy(model)
            bare.regressor_ = inside
            yield bare


def _thawed(model: Any) -> Any:
    """The model in a wrapper that keeps it from being trained again, and passes for it otherwise."""
    while "sklearn.FrozenEstimator" in class_names(model):
        model = model.estimator
    return model


def _transformers(model: Any) -> Iterator[Any]:
    for name, step in getattr(model, "steps", ())[:-1]:
        if step is None or step == "passthrough":
            continue
        if hasattr(step, "transform"):
            yield step
        elif not hasattr(step, "fit_resample"):  # imbalanced-learn's samplers only work in training
            raise UnsupportedModelError(
                f"Step {name!r} of the {type(model).__name__}, a {type(step).__name__}, has no transform(), "
                f"so rows cannot be brought to its model. Explain the last step with rows of its own: "
                f"TreeExplainer(model[-1])."
            )


def _as_trained(table: Any, step: Any) -> Any:
    """The columns in the order in which the step was trained, if they are the same columns."""
    names, trained = column_names(table), getattr(step, "feature_names_in_", None)
    if names is None or trained is None or names == tuple(trained) or set(names) != set(trained):
        return table
    position = {name: index for index, name in enumerate(names)}
    return take_columns(table, [position[name] for name in trained])
