"""Numbers that are looked up for what several columns hold together, against background rows, by columns.

The players are the columns, and nothing else: with some of them present, a combination is looked up for the
row that is mixed of the row and a background row, as the model itself would. What a tree gives then depends
on a pair of rows and on all columns that it reads at once, so each tree is asked for all coalitions of its
columns: exact, and in time that grows with the background and doubles with each column of a tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..model.ensemble import TreeEnsemble
from ..model.row_format import RowFormat
from ..rows.lookups import looked_up, with_hashes
from .background_rows import Background
from .contract import Sets, Told, Truth, Values
from .indices import Index
from .program import Program
from .sets import Kind

__all__ = ["MixedEngine"]

Array = npt.NDArray[Any]
Float64 = npt.NDArray[np.float64]

#: A tree of more columns than this has too many coalitions.
_MOST_COLUMNS = 16
#: Coalitions times background rows that are in memory at once.
_NUMBERS_AT_ONCE = 1 << 20


class MixedEngine:
    """Values are means over background rows, and combinations are looked up for mixed rows; see `Engine`."""

    float32_error = 0.0

    def __init__(
        self, program: Program, background: Background, *, n_jobs: int | None = None, scan_only: bool = False
    ) -> None:
        self.program, self.background = program, background
        self.n_players, self.n_outputs = program.n_players, program.n_outputs
        self._questions = _Questions(program.ensemble)
        self._trees = [
            _Tree(self._questions, tree, program.index) for tree in range(program.ensemble.n_trees)
        ]
        #: (n_background_rows, n_outputs) raw predictions of the background rows
        self.margins = program.predict(background.rows, n_jobs=n_jobs)

    def base_values(self, y: Truth = None) -> Float64:
        """(n_outputs,) the mean raw prediction over the background."""
        return self.background.mean(self.margins)

    def values(
        self, rows: Values, out: Values, *, y: Truth = None, n_jobs: int | None = None, progress: Told = None
    ) -> None:
        """Write the values of ``rows`` to ``out``, (n_rows, n_players, n_outputs)."""
        shares = np.broadcast_to(self.background.shares, (len(rows), len(self.background.rows)))
        self.weighted_values(rows, out, shares, progress=progress)

    def weighted_values(
        self, rows: Values, out: Values, weights: Float64, *, n_jobs: int | None = None, progress: Told = None
    ) -> None:
        """Write sums over the background with weights (n_rows, n_background_rows) for every pair."""
        for number, games in self._games(rows, weights, progress):
            total = np.zeros((self.n_players, self.n_outputs))
            for tree, game in games:
                total[tree.columns, tree.outputs] += tree.of_columns @ game
            _write(out[number], total)

    def pairs(self, rows: Values, out: Values, *, n_jobs: int | None = None, progress: Told = None) -> None:
        """Write (n_rows, n_players, n_players, n_outputs): half of each pair's index in two places, and on
        the diagonal what is left of each player's value."""
        shares = np.broadcast_to(self.background.shares, (len(rows), len(self.background.rows)))
        diagonal = np.arange(self.n_players)
        for number, games in self._games(rows, shares, progress):
            matrix = np.zeros((self.n_players, self.n_players, self.n_outputs))
            own = np.zeros((self.n_players, self.n_outputs))
            for tree, game in games:
                own[tree.columns, tree.outputs] += tree.of_columns @ game
                for (one, other), found in zip(tree.pairs, tree.of_pairs @ game / 2, strict=True):
                    matrix[one, other, tree.outputs] += found
                    matrix[other, one, tree.outputs] += found
            matrix[diagonal, diagonal] = own - matrix.sum(axis=1)
            _write(out[number], matrix)

    def sets(self, kind: Kind | None, order: Any) -> Sets:
        """There are only pairs."""
        raise InputError(
            "Interactions with groups='mixed' are known for pairs only: shap_interaction_values gives them."
        )

    def _games(
        self, rows: Values, weights: Float64, progress: Told
    ) -> Iterator[tuple[int, Iterator[tuple[_Tree, Float64]]]]:
        """For each row, its number and what each tree gives to coalitions of its columns."""
        for number, row in enumerate(rows):
            answers = self._questions.answers(row, self.background.rows)
            yield (
                number,
                ((tree, tree.game(answers, weights[number])) for tree in self._trees if tree.columns),
            )
            if progress is not None:
                progress((number + 1) / len(rows))


class _Questions:
    """What the trees ask, each question once, and the features behind it."""

    def __init__(self, ensemble: TreeEnsemble) -> None:
        self.ensemble = e = ensemble
        self._row_format = e.row_format
        inner = np.flatnonzero(~e.is_leaf)
        asked = np.stack(
            [e.feature[inner], e.threshold[inner], e.missing_left[inner], e.category_set[inner]], axis=1
        )
        _, first, number = np.unique(asked, axis=0, return_index=True, return_inverse=True)
        self._node = inner[first]  # one that asks it
        self.of_node = np.full(e.n_nodes, -1)
        self.of_node[inner] = number.reshape(-1)
        sources = _sources(e.row_format)
        self.features = [sources[column] for column in e.feature[self._node].tolist()]

    def answers(self, row: Array, background: Array) -> list[npt.NDArray[np.bool_]]:
        """For each question (2 ** n_features, n_background_rows): does the mixed row go left? Bit i of the
        first index says whether feature i of the question is present."""
        numbers = self._numbers(row, background)
        column = self.ensemble.feature[self._node].tolist()
        return [
            np.asarray(self.ensemble.goes_left(int(node), numbers[of].astype(np.float64)))
            for node, of in zip(self._node.tolist(), column, strict=True)
        ]

    def _numbers(self, row: Array, background: Array) -> dict[int, Array]:
        """Column → (2 ** n_features, n_background_rows) its numbers in mixed rows."""
        row_format, asked = self._row_format, set(self.ensemble.feature[self._node].tolist())
        n = len(background)
        out: dict[int, Array] = {
            column: np.stack([background[:, column], np.full(n, row[column])])
            for column in asked
            if column < row_format.n_features
        }
        theirs, own = with_hashes(background, row_format), with_hashes(row[None], row_format)
        at = row_format.n_features
        for number, lookup in enumerate(row_format.lookups):
            columns = range(at, at + lookup.n_numbers)
            at += lookup.n_numbers
            if asked.isdisjoint(columns):
                continue
            found = []
            for coalition in range(1 << len(lookup.columns)):
                here = [f for i, f in enumerate(lookup.columns) if coalition >> i & 1]
                mixed = theirs.copy()
                mixed[:, here] = own[:, here]
                found.append(looked_up(mixed, row_format, number))
            out |= {column: np.stack([one[:, i] for one in found]) for i, column in enumerate(columns)}
        return out


@dataclass(eq=False)
class _Tree:
    """A tree, as a game of the columns behind its questions."""

    questions: _Questions
    tree: int
    index: Index

    @cached_property
    def _nodes(self) -> slice:
        offsets = self.questions.ensemble.tree_offsets
        return slice(int(offsets[self.tree]), int(offsets[self.tree + 1]))

    @cached_property
    def columns(self) -> list[int]:
        """The features that it reads, of which players are numbered as they are."""
        asked = self.questions.of_node[self._nodes]
        found = sorted(
            {f for question in set(asked[asked >= 0].tolist()) for f in self.questions.features[question]}
        )
        if len(found) > _MOST_COLUMNS:
            raise InputError(
                f"A tree of this model reads {len(found)} columns, and groups='mixed' asks it for all "
                f"coalitions of them: {_MOST_COLUMNS} are the most. Leave it out: then combinations are "
                f"players, whose values are divided among their columns."
            )
        return found

    @property
    def outputs(self) -> slice:
        ensemble = self.questions.ensemble
        first = int(ensemble.tree_output[self.tree])
        return slice(first, first + ensemble.width)

    def game(self, answers: list[npt.NDArray[np.bool_]], weights: Float64) -> Float64:
        """(n_coalitions, width) the sum over background rows of what it gives to mixed rows."""
        places = {question: self._place(question) for question in self._asked}
        n_coalitions = 1 << len(self.columns)
        total = np.zeros((n_coalitions, self.questions.ensemble.width))
        step = max(1, _NUMBERS_AT_ONCE // n_coalitions)
        for start in range(0, len(weights), step):
            some = slice(start, start + step)
            here = {question: answers[question][place, some] for question, place in places.items()}
            found = self._walk(self._nodes.start, here)
            total += np.einsum("smw,m->sw", found, weights[some])
        return total

    @cached_property
    def _asked(self) -> list[int]:
        asked = self.questions.of_node[self._nodes]
        return sorted(set(asked[asked >= 0].tolist()))

    def _place(self, question: int) -> npt.NDArray[np.int64]:
        """(n_coalitions,) the coalition of the question's own features for each of the tree's."""
        coalitions = np.arange(1 << len(self.columns))
        place = np.zeros_like(coalitions)
        for i, feature in enumerate(self.questions.features[question]):
            place |= (coalitions >> self.columns.index(feature) & 1) << i
        return place

    def _walk(self, node: int, answers: dict[int, npt.NDArray[np.bool_]]) -> Float64:
        """(n_coalitions, n_background_rows, width) what is below a node; of a leaf, (1, 1, width)."""
        ensemble, root = self.questions.ensemble, self._nodes.start
        if ensemble.left[node] < 0:
            return np.asarray(ensemble.value[node])[None, None]
        left, right = (
            self._walk(root + int(side[node]), answers) for side in (ensemble.left, ensemble.right)
        )
        return np.asarray(np.where(answers[int(self.questions.of_node[node])][..., None], left, right))

    @cached_property
    def of_columns(self) -> Float64:
        """(n_columns, n_coalitions) what turns a game into the values of its columns."""
        return np.stack([self._difference([i]) for i in range(len(self.columns))])

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        return [(one, other) for i, one in enumerate(self.columns) for other in self.columns[:i]]

    @cached_property
    def of_pairs(self) -> Float64:
        """(n_pairs, n_coalitions) what turns a game into the indices of pairs of its columns."""
        n = len(self.columns)
        return np.array([self._difference([i, j]) for i in range(n) for j in range(i)]).reshape(-1, 1 << n)

    def _difference(self, members: list[int]) -> Float64:
        """(n_coalitions,) the mean over coalitions of the others of what members change together."""
        n = len(self.columns)
        coalitions = np.arange(1 << n)
        size, n_members = np.zeros(1 << n, dtype=np.int64), np.zeros(1 << n, dtype=np.int64)
        for i in range(n):
            (n_members if i in members else size)[...] += coalitions >> i & 1
        points, absent, weights = self.index.rule(n)
        n_others = n - len(members)
        of_size = [float(weights @ (points**s * absent ** (n_others - s))) for s in range(n_others + 1)]
        return np.asarray(np.array(of_size)[size] * (-1.0) ** (len(members) - n_members))


def _sources(row_format: RowFormat) -> list[tuple[int, ...]]:
    """The features behind each column that trees can ask about."""
    return [*((feature,) for feature in range(row_format.n_features)), *row_format.sources]


def _write(out: Values, values: Float64) -> None:
    with np.errstate(over="ignore"):  # beyond float32 is infinity
        out[...] = values
