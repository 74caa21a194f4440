"""How far a long call has come, for those who asked: a bar, a line of text, or their own function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

__all__ = ["Progress", "report", "share_of"]

#: False for silence, True for a bar, or a function that is given the share done, from 0 to 1.
Progress = bool | Callable[[float], object]


@contextmanager
def report(progress: Progress) -> Iterator[Callable[[float], object]]:
    """A function to be told the share done, whether or not somebody wants to know."""
    if callable(progress):
        yield progress
    elif not progress:
        yield lambda share: None
    elif find_spec("tqdm") is not None:
        from tqdm.auto import tqdm

        with tqdm(total=1.0, bar_format="{l_bar}{bar}| {elapsed}<{remaining}", file=sys.stderr) as bar:
            yield lambda share: bar.update(share - bar.n)
    else:
        yield _line
        sys.stderr.write("\n")


def share_of(tell: Callable[[float], object], some: slice, n_rows: int) -> Callable[[float], object]:
    """Who is told the share of some rows, if ``tell`` wants that of all."""
    return lambda share: tell((some.start + share * (some.stop - some.start)) / n_rows)


def _line(share: float) -> None:
    """Write over the line that is there already."""
    sys.stderr.write(f"\rexplaining: {share:4.0%}")
    sys.stderr.flush()
