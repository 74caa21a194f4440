"""Clumps → what the kernels of `clumps.cu` are given.

Clumps follow each other in a stream, in pieces that are in shared memory as a whole. Those that share a table
of players and columns are a group, some pieces of a group are a chunk; after each, values that were summed in
the type of the stream are added to the totals. None of this depends on the rows or on the device, so bits do
not either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .clumps import Made, n_words_of_entry
from .records import Points
from .tile import GAINS_AT_ONCE, row_bytes

__all__ = ["PIECE_WORDS", "ClumpDraft", "ClumpLaunch"]

Int64 = npt.NDArray[np.int64]

#: Where a clump's own begins in parts of what all are made of: the numbers of these.
_FIRSTS = {
    "first_condition": 1,
    "first_stem": 2,
    "first_crown": 4,
    "first_column": 5,
    "first_number": 6,
    "first_range": 7,
}
#: `Clump` of clumps.cu.
_CLUMP = np.dtype(
    [
        *((name, np.uint32) for name in ("first_word", *_FIRSTS)),
        *((name, np.uint16) for name in ("next", "n_entries", "n_leaves")),
        *((name, np.uint8) for name in ("n_stem_conditions", "n_crown_conditions", "n_single", "n_stem")),
        *((name, np.uint8) for name in ("n_crown", "n_columns")),
    ]
)
#: Of a piece of the stream, at most. The largest clump has room in it: 32 players and 64 conditions of its
#: stem, for eight points, and a table.
PIECE_WORDS = 1536
#: Bytes of shared memory that the values and ranks of one row take, by the bytes of a number: a block has
#: more rows if they are few. One clump may take more.
_ROW_BYTES = {4: 160, 8: 320}
#: Clumps of a chunk, at most: as many numbers are added up for a player before they go to its total.
_CHUNK = 32


@dataclass(frozen=True, eq=False)
class ClumpLaunch:
    """Clumps of as many points each."""

    points: Points
    dtype: np.dtype[Any]
    made_of: list[npt.NDArray[Any]]  # in the order of the parameters of `expand`
    cuts: Int64  # (n_pieces + 1,) words
    pieces: Int64  # (n_chunks + 1,) the first piece of each chunk
    groups: npt.NDArray[np.int32]  # (n_groups, 4) `Group` of tile.h
    group_chunks: Int64  # (n_groups + 1,) the first chunk of each group
    columns: npt.NDArray[np.int32]
    firsts: Int64  # (n_chunks + 1,) the first of `gains` of each chunk
    gains: npt.NDArray[np.int32]  # (n_gains, 2) `Gain` of tile.h
    row_bytes: int

    @property
    def n_clumps(self) -> int:
        return len(self.made_of[0])

    @property
    def held(self) -> list[npt.NDArray[Any]]:
        """What is on the device between calls."""
        tables = self.cuts, self.pieces, self.groups, self.columns, self.firsts, self.gains
        return [*self.made_of, *tables]

    @property
    def work(self) -> int:
        """Of one row, in leaves times points."""
        return self.n_clumps * len(self.points.t)

    @property
    def n_words(self) -> int:
        """Of the stream."""
        return int(self.cuts[-1])


class ClumpDraft:
    """A launch while clumps are added to it."""

    def __init__(self, points: Points, dtype: np.dtype[Any]) -> None:
        self.points, self.dtype = points, dtype
        self._parts: list[list[npt.NDArray[Any]]] = [[] for _ in range(8)]
        self._cuts, self._pieces, self._group_chunks, self._firsts = [0], [0], [0], [0]
        self._groups: list[tuple[int, int, int, int]] = []
        self._columns: list[int] = []
        self._gains: list[tuple[int, int]] = []
        self._row_bytes = 0

    def add(self, output: int, made: Made) -> None:
        """Add the clumps of an output, in as few groups as there is room for."""
        columns = _sets(made.first_condition, made.conditions.column)
        stems, crowns = _sets(made.first_stem, made.stem), _sets(made.first_crown, made.crown)
        players = [stem | crown for stem, crown in zip(stems, crowns, strict=True)]
        n_clumps, item = len(columns), self.dtype.itemsize
        begin, own_columns, own_players = 0, set[int](), set[int]()
        for clump in range(n_clumps + 1):
            if clump < n_clumps:
                more_columns, more_players = own_columns | columns[clump], own_players | players[clump]
                n_bytes = row_bytes(len(more_players), len(more_columns), item)
                if clump == begin or n_bytes <= _ROW_BYTES[item]:
                    own_columns, own_players = more_columns, more_players
                    continue
            self._add_group(output, made, begin, clump, sorted(own_columns), sorted(own_players), players)
            if clump < n_clumps:
                begin, own_columns, own_players = clump, columns[clump], players[clump]

    def _add_group(
        self,
        output: int,
        made: Made,
        begin: int,
        end: int,
        columns: list[int],
        players: list[int],
        of_clumps: list[set[int]],
    ) -> None:
        item = self.dtype.itemsize
        self._row_bytes = max(self._row_bytes, row_bytes(len(players), len(columns), item))
        self._groups.append((len(players), len(self._columns), len(columns), output))
        self._columns += columns
        n_words = self._n_words(made)[begin:end].tolist()
        first_word, following, in_chunk = list[int](), list[int](), set[int]()
        place, piece = self._cuts[-1], self._cuts[-1]
        n_chunks = -(-len(n_words) // _CHUNK)
        ends = {begin + len(n_words) * (i + 1) // n_chunks for i in range(n_chunks)}
        for clump, words in enumerate(n_words, begin):
            is_full = clump in ends
            if first_word and clump > begin and (is_full or place + words - piece > PIECE_WORDS):
                following[-1] = 0
                self._cuts.append(place)
                piece = place
                if is_full:
                    self._end_chunk(in_chunk, players)
                    in_chunk = set()
            first_word.append(place)
            following.append(words)
            in_chunk |= of_clumps[clump]
            place += words
        following[-1] = 0
        self._cuts.append(place)
        self._end_chunk(in_chunk, players)
        self._group_chunks.append(len(self._pieces) - 1)
        self._write(made, begin, end, np.array(columns), np.array(players), first_word, following)

    def _end_chunk(self, in_chunk: set[int], players: list[int]) -> None:
        self._pieces.append(len(self._cuts) - 1)
        item = self.dtype.itemsize
        own = [(players.index(player) * item, player) for player in sorted(in_chunk)]
        # Whole numbers of those that are added at once, the rest being nobody's, who gets nothing.
        own += [(len(players) * item, players[0])] * (-len(own) % GAINS_AT_ONCE)
        self._gains += own
        self._firsts.append(len(self._gains))

    def _n_words(self, made: Made) -> Int64:
        """Of each clump's record, as in clumps.cu."""
        n_points, n_factors = made.n_points, -(-made.n_points // 4)
        n_stem, n_crown = np.diff(made.first_stem), np.diff(made.first_crown)
        n_crown_conditions = np.diff(made.first_condition) - made.n_stem_conditions
        n_vectors = 1 + n_factors + made.n_stem_conditions + n_stem * (n_factors + -(-(2 + n_points) // 4))
        n_vectors += -(-n_crown_conditions // 2) * 2 + -(-n_crown // 4)
        table = made.n_entries * np.asarray(n_words_of_entry(n_crown, n_points))
        return np.asarray(4 * (n_vectors + -(-table // 4)))

    def _write(
        self,
        made: Made,
        begin: int,
        end: int,
        columns: Int64,
        players: Int64,
        first_word: list[int],
        following: list[int],
    ) -> None:
        item, parts = self.dtype.itemsize, self._parts

        def here(first: Int64) -> slice:
            return slice(int(first[begin]), int(first[end]))

        def moved(first: Int64, part: int) -> Int64:
            """Where each clump's own begins among all that was written."""
            return np.asarray(first[begin:end] - first[begin] + sum(map(len, parts[part])))

        clumps = np.zeros(end - begin, dtype=_CLUMP)
        clumps["first_word"], clumps["next"] = first_word, following
        for name, part in _FIRSTS.items():
            clumps[name] = moved(getattr(made, name), part)
        for name, numbers in {
            "n_entries": made.n_entries,
            "n_leaves": made.n_leaves,
            "n_stem_conditions": made.n_stem_conditions,
            "n_crown_conditions": np.diff(made.first_condition) - made.n_stem_conditions,
            "n_single": made.n_single,
            "n_stem": np.diff(made.first_stem),
            "n_crown": np.diff(made.first_crown),
            "n_columns": np.diff(made.first_column),
        }.items():
            clumps[name] = numbers[begin:end]
        conditions = here(made.first_condition)
        parts_of_group: tuple[npt.NDArray[Any], ...] = (
            clumps,
            np.stack(
                [
                    np.searchsorted(columns, made.conditions.column[conditions]),
                    made.conditions.low[conditions],
                    made.conditions.width[conditions],
                    made.conditions.more[conditions],
                ],
                axis=1,
            ).astype(np.uint16),
            made.cover[here(made.first_stem)].astype(self.dtype),
            (np.searchsorted(players, made.stem[here(made.first_stem)]) * item).astype(np.uint16),
            (np.searchsorted(players, made.crown[here(made.first_crown)]) * item).astype(np.uint16),
            np.stack([made.n_outcomes, made.of_player], axis=1)[here(made.first_column)].astype(np.uint8),
            made.number[here(made.first_number)].astype(self.dtype),
            made.outcomes[here(made.first_range)].astype(np.uint8),
        )
        for all_parts, some in zip(parts, parts_of_group, strict=True):
            all_parts.append(some)

    def launch(self) -> ClumpLaunch:
        return ClumpLaunch(
            self.points,
            self.dtype,
            [np.concatenate(part) for part in self._parts],
            np.array(self._cuts, dtype=np.int64),
            np.array(self._pieces, dtype=np.int64),
            np.array(self._groups, dtype=np.int32),
            np.array(self._group_chunks, dtype=np.int64),
            np.array(self._columns, dtype=np.int32),
            np.array(self._firsts, dtype=np.int64),
            np.array(self._gains, dtype=np.int32),
            self._row_bytes,
        )


def _sets(first: Int64, members: Int64) -> list[set[int]]:
    every = members.tolist()
    return [set(every[begin:end]) for begin, end in zip(first[:-1].tolist(), first[1:].tolist(), strict=True)]
