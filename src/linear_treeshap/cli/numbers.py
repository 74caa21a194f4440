"""Numbers that users type, checked: what is no number of that kind is wrong usage."""

from __future__ import annotations

import argparse

__all__ = ["count", "threads"]


def count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def threads(text: str) -> int:
    """A number of threads as joblib counts them: 4 is four, -1 is all, -2 is all but one."""
    digits = text.removeprefix("-")
    if not digits.isdecimal() or int(digits) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of threads, or -1 for all")
    return int(text)
