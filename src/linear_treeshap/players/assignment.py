"""What the user asks for and what the model says of its columns → the players of an explainer.

There are two tables of columns: the one that a user's rows have, and the one that the trees read. They differ
for a pipeline that is explained in raw columns, and for a model that looks numbers up for what several
columns hold together. The players are the same, but for combinations whose values are divided among others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..importers.pipelines.column_sources import Origins, trace
from ..importers.pipelines.preprocessing import Preprocessing
from ..model.ensemble import TreeEnsemble
from ..rows.frames import is_numbering
from .combinations import Features, combined_players, of_features, players_of_mixed_rows, sources_of
from .numbered_names import NumberedNames
from .onehot import find_families, with_onehot
from .players import Players, group_columns

__all__ = ["Assignment", "assign_players", "widened_assignment"]


@dataclass(frozen=True)
class Assignment:
    """The players, in terms of both tables."""

    of_rows: Players  # by the columns of the user's rows
    in_trees: Players  # by the columns that the trees read
    #: Are the user's columns raw, and transformed before the trees read them?
    is_raw: bool
    #: Are the names of the user's columns known, or made up?
    is_named: bool
    #: The names under which a pipeline's raw columns were given in training, if they had any.
    raw_names: tuple[str, ...] | None
    #: Names of the columns that the trees read.
    tree_names: tuple[str, ...] | None

    @property
    def divided(self) -> tuple[tuple[int, ...], ...]:
        """The players among whom the value of each combination is divided; none if all are shown."""
        return self.in_trees.combined if self.in_trees.is_divided else ()

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the players; None if they are made up."""
        return tuple(self.of_rows.names) if self.is_named or not self.of_rows.are_columns else None


def assign_players(
    groups: Any,
    feature_names: Sequence[str] | None,
    ensemble: TreeEnsemble,
    preprocessing: Preprocessing | None,
) -> Assignment:
    """Raw columns where each transformed one comes from one of them (or from one group), else transformed."""
    if preprocessing is None:
        return _in_tree_columns(groups, _names(feature_names, ensemble.n_features), ensemble)
    tree_names = preprocessing.feature_names()
    origins = trace(preprocessing.steps, ensemble.n_features)
    if origins is not None and preprocessing.needs_model:
        return _in_raw_columns(groups, feature_names, ensemble, origins, tree_names, may_combine=True)
    if origins is None:
        why = "a step of the pipeline does not say which columns it takes or makes"
    else:
        mixed = _mixed(origins, np.arange(origins.n_raw))
        if mixed is None or _names_raw_columns(groups, origins, tree_names):
            return _in_raw_columns(groups, feature_names, ensemble, origins, tree_names)
        why = f"{_title(mixed, tree_names)} is made of several raw columns ({_raw_titles(mixed, origins)})"
    note = f"in transformed columns, because {why}"
    names = _names(feature_names, ensemble.n_features, note)
    return _in_tree_columns(groups, tree_names if names is None else names, ensemble, note)


def _in_tree_columns(
    groups: Any, names: tuple[str, ...] | None, ensemble: TreeEnsemble, note: str = ""
) -> Assignment:
    """The trees read the user's columns, or what a pipeline makes of them."""
    names = ensemble.feature_names if names is None else names
    columns = NumberedNames(ensemble.n_features) if names is None else names
    players = replace(_grouped(groups, columns, ensemble, named=names is not None), note=note)
    if not ensemble.row_format.lookups:
        return Assignment(players, players, False, names is not None, None, names)
    in_trees = players
    if ensemble.row_format.keeps_hashes:
        in_trees = players_of_mixed_rows(players, ensemble.row_format)
    elif not isinstance(groups, Players):
        in_trees = combined_players(players, _sources(groups, ensemble), is_divided=_is_divided(groups))
    of_rows = of_features(in_trees, ensemble.n_features)
    return Assignment(of_rows, in_trees, False, names is not None, None, names)


def widened_assignment(assignment: Assignment, n_columns: int) -> Assignment:
    """The same over more columns, each of which is a player of its own. None of them is raw."""
    players = assignment.of_rows
    if not assignment.is_named and players.are_columns:
        wider = Players.each(NumberedNames(n_columns))
    else:
        more = NumberedNames(n_columns)[len(players.of_column) :]
        own = players.n_players + np.arange(len(more), dtype=np.int32)
        wider = replace(
            players,
            of_column=np.concatenate([players.of_column, own]),
            names=(*players.names, *more),
            column_names=(*players.column_names, *more),
        )
    return replace(assignment, of_rows=wider, in_trees=wider)


def _is_about_combinations(groups: Any) -> bool:
    """Does it say what becomes of combinations, while columns are their own players?"""
    return isinstance(groups, str) and groups in ("combinations", "columns", "mixed")


def _is_divided(groups: Any) -> bool:
    """Are the values of combinations divided among their players, or shown?"""
    return not (_is_about_combinations(groups) and groups == "combinations")


def _sources(groups: Any, ensemble: TreeEnsemble) -> tuple[Features, ...]:
    """The features behind each column that the trees read: as CatBoost counts them, if nothing is asked."""
    return sources_of(ensemble.row_format, of_categories=groups is None)


def _grouped(groups: Any, columns: Sequence[str], ensemble: TreeEnsemble, *, named: bool) -> Players:
    if groups is None or _is_about_combinations(groups):
        return Players.each(columns)
    if isinstance(groups, Players):  # read from a file
        if len(groups.of_column) != ensemble.n_columns:
            raise InputError(
                f"groups has {len(groups.of_column)} columns, the model has {ensemble.n_columns}."
            )
        return groups
    if isinstance(groups, str) and groups == "onehot":
        if not named or is_numbering(columns):
            raise InputError(
                "groups='onehot' reads the names of columns, and the model does not know them. Pass "
                "feature_names=, the fitted encoder (groups=encoder), or a dictionary of group → columns."
            )
        return find_families(columns, ensemble)
    if hasattr(groups, "transform"):
        return with_onehot(_behind_transformer(groups, columns), ensemble)
    known_name = ensemble.row_format.known_name
    return with_onehot(group_columns(groups, columns, named=named, known_name=known_name), ensemble)


def _behind_transformer(transformer: Any, columns: Sequence[str]) -> Players:
    """The raw columns of the fitted transformer that made the model's columns."""
    name = type(transformer).__name__
    if not hasattr(transformer, "n_features_in_"):
        raise InputError(
            f"groups is a {name} that is not fitted. Pass the one that made the model's columns."
        )
    origins = trace([transformer], len(columns))
    if origins is None:
        raise InputError(
            f"The {name} given as groups does not make the {len(columns)} columns that the model reads."
        )
    raw = Players.each(origins.raw_names or NumberedNames(origins.n_raw))
    mixed = _mixed(origins, raw.of_column)
    if mixed is not None:
        raise InputError(
            f"The {name} given as groups makes column {columns[mixed]!r} of several raw columns "
            f"({_raw_titles(mixed, origins)}), so it has no player. Pass a dictionary of group → columns."
        )
    return _composed(origins, raw, columns)


def _in_raw_columns(
    groups: Any,
    feature_names: Sequence[str] | None,
    ensemble: TreeEnsemble,
    origins: Origins,
    tree_names: tuple[str, ...] | None,
    *,
    may_combine: bool = False,
) -> Assignment:
    """``may_combine`` says that a column made of several players' columns belongs to their combination."""
    names = _names(feature_names, origins.n_raw, "in raw columns") or origins.raw_names
    columns = NumberedNames(origins.n_raw) if names is None else names
    if groups is None or (isinstance(groups, str) and groups == "onehot") or _is_about_combinations(groups):
        of_rows = Players.each(columns)  # the fitted encoders say what is one-hot
    elif hasattr(groups, "transform"):
        raise InputError(
            "The pipeline has its own transformers. Pass groups as a dictionary of group → raw columns."
        )
    else:
        of_rows = group_columns(groups, columns, named=names is not None)
    mixed = _mixed(origins, of_rows.of_column)
    if mixed is not None and not may_combine:
        raise InputError(
            f"{_title(mixed, tree_names)} is made of the raw columns {_raw_titles(mixed, origins)}, which "
            f"are not all in one group. Put them into one, or name the columns that the last step reads."
        )
    known = tree_names or ensemble.feature_names
    sources = [
        tuple(sorted(frozenset().union(*(origins.sources[feature] for feature in features))))
        for features in _sources(groups, ensemble)
    ]
    in_trees = combined_players(of_rows, sources, is_divided=_is_divided(groups))
    looked_up = in_trees.column_names[ensemble.n_features :]
    column_names = (*(known or NumberedNames(ensemble.n_features)), *looked_up)
    in_trees = with_onehot(replace(in_trees, column_names=column_names), ensemble)
    if not in_trees.is_divided:
        of_rows = replace(of_rows, names=in_trees.names, combined=in_trees.combined)
    return Assignment(of_rows, in_trees, True, names is not None, origins.raw_names, known)


def _composed(origins: Origins, raw: Players, columns: Sequence[str]) -> Players:
    """The players of transformed columns, from those of the raw columns behind them."""
    # A column made of nothing is a constant, which no tree can split: whose it is does not matter.
    of_column = [int(raw.of_column[min(sources)]) if sources else 0 for sources in origins.sources]
    return Players(np.array(of_column, dtype=np.int32), raw.names, columns)


def _mixed(origins: Origins, of_raw: Any) -> int | None:
    """The first transformed column that is made of raw columns of several players."""
    for column, sources in enumerate(origins.sources):
        if len({int(of_raw[source]) for source in sources}) > 1:
            return column
    return None


def _names_raw_columns(groups: Any, origins: Origins, tree_names: tuple[str, ...] | None) -> bool:
    """Does a dictionary speak of raw columns, and not of transformed ones?"""
    if not isinstance(groups, Mapping) or origins.raw_names is None:
        return False
    named = {
        name for members in groups.values() for name in ([members] if np.ndim(members) == 0 else members)
    }
    return named <= set(origins.raw_names) and not named <= set(tree_names or ())


def _names(given: Sequence[str] | None, n_columns: int, context: str = "") -> tuple[str, ...] | None:
    """The user's own names for the columns."""
    if given is None:
        return None
    names = tuple(map(str, given))
    if len(names) != n_columns:
        raise InputError(
            f"{len(names)} feature names were given for a model of {n_columns} features"
            f"{f' (a pipeline explained {context})' if context else ''}."
        )
    return names


def _title(column: int, names: tuple[str, ...] | None) -> str:
    return f"transformed column {column if names is None else repr(names[column])}"


def _raw_titles(column: int, origins: Origins) -> str:
    sources = sorted(origins.sources[column])
    shown = [
        str(source if origins.raw_names is None else origins.raw_names[source]) for source in sources[:3]
    ]
    return ", ".join(shown) + (", …" if len(sources) > 3 else "")
