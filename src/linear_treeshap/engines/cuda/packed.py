"""A stream of records → the same without the numbers that follow from covers, if that is much shorter.

Records of players who are repeated on their paths have several numbers for each point of the rule, all of
which follow from one cover. Where many are, they are the larger part of a model; so they are left out of what
lies on the device, and each call fills them in (`fill.cu`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .records import Filling, Fills, Points

__all__ = ["FILLS_OF_BLOCK", "Packed", "packed"]

#: Fills that one block does, as in fill.cu.
FILLS_OF_BLOCK = 256
#: Where nothing is filled for so many words, a fill of nothing is, so that copying them is shared out.
_LONGEST_COPY = 64
#: A code is a word, and above these bits what is filled, and the part of the rule.
_WORD_BITS = 28
#: Streams of fewer bytes for each leaf are left as they are: filling takes a moment of each call.
_MANY_BYTES = 80
#: Covers that are smaller would be zeros, or nearly, in float32.
_LEAST_COVER = 1e-30


@dataclass(frozen=True, eq=False)
class Packed:
    """What is left of a stream."""

    words: npt.NDArray[Any]
    codes: npt.NDArray[np.uint32]  # (n_fills,) in the order of their words
    covers: npt.NDArray[np.floating[Any]]
    bases: npt.NDArray[np.uint32]  # for each block of fills, how many words are filled before
    n_words: int  # of the whole stream


def packed(
    words: npt.NDArray[Any], fills: Fills, parts: list[Points], dtype: np.dtype[Any], n_leaves: int
) -> Packed | None:
    """None if the stream is short enough as it is, or cannot be packed."""
    smallest = float(fills.cover[fills.cover > 0].min(initial=1.0))
    if words.nbytes < _MANY_BYTES * n_leaves or len(words) >> _WORD_BITS or smallest < _LEAST_COVER:
        return None
    size = _sizes(fills, parts)
    # Words that are copied after each fill, and before the first one.
    begin = np.concatenate([[0], fills.word + size])
    n_more = (np.append(fills.word, len(words)) - begin) // _LONGEST_COPY
    more = np.repeat(begin, n_more) + _LONGEST_COPY * (
        1 + np.arange(n_more.sum()) - np.repeat(np.cumsum(n_more) - n_more, n_more)
    )
    more = np.concatenate([[0], more])
    nothing = np.full(len(more), Filling.NOTHING)
    every = Fills.joined([Fills(more, np.ones(len(more)), nothing, np.zeros_like(nothing)), fills])
    size = _sizes(every, parts)
    is_filled = np.zeros(len(words) + 1, dtype=np.int64)
    np.add.at(is_filled, every.word, np.sign(size))
    np.add.at(is_filled, every.word + size, -np.sign(size))
    return Packed(
        words[np.cumsum(is_filled[:-1]) == 0],
        (every.word | (every.filling | every.part << 2) << _WORD_BITS).astype(np.uint32),
        every.cover.astype(dtype),
        (np.cumsum(size) - size)[::FILLS_OF_BLOCK].astype(np.uint32),
        len(words),
    )


def _sizes(fills: Fills, parts: list[Points]) -> npt.NDArray[np.int64]:
    """How many words each fills."""
    n_times = np.array([1, 2, 1, 0])[fills.filling]  # by `Filling`
    return np.asarray(n_times * len(parts[0].t), dtype=np.int64)
