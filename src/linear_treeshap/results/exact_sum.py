"""ExactSum: sums of float64 numbers without any rounding, so that neither order nor batches show.

A sum is a whole number of 2**-1088, written in digits of 32 bits. Numbers are cut at the same places whatever
they are added to, and whole numbers add up exactly; what comes out is the sum rounded once.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ExactSum"]

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

_BITS = 32
#: Digits from here on are carried. A block adds less than 2**47 to one, and a slice has few hundred blocks.
_GROWN = 1 << 40
#: So many numbers are cut at a time that they stay in the cache; and 2**21 digits add up exactly in float64.
_NUMBERS_AT_ONCE = 1 << 15


class ExactSum:
    """The sum of arrays of one shape, to be rounded when it is asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from linear_treeshap.results.exact_sum import ExactSum
    >>> total = ExactSum((1,))
    >>> total.add(np.array([[1e16], [1.0], [-1e16]]))
    >>> total.rounded()
    array([1.])
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        #: Place → the digits of all entries there, signed, each below 2**55.
        self._digits: dict[int, Int64] = {}
        #: Infinities and NaN, which have no digits.
        self._odd = np.zeros(shape)

    def add(self, values: Float64, absolute: ExactSum | None = None) -> None:
        """Add up ``values`` (n, *shape) over their first axis; and their absolute values to ``absolute``."""
        flat = values.reshape(len(values), math.prod(self.shape))
        step = max(1, _NUMBERS_AT_ONCE // max(flat.shape[1], 1))
        for start in range(0, len(flat), step):
            self._add_some(flat[start : start + step].copy(), absolute)
        self._carry()
        if absolute is not None:
            absolute._carry()

    def _add_some(self, rest: Float64, absolute: ExactSum | None) -> None:
        if not np.isfinite(rest).all():
            odd = np.where(np.isfinite(rest), 0.0, rest)
            self._odd += odd.sum(axis=0).reshape(self.shape)
            if absolute is not None:
                absolute._odd += np.abs(odd).sum(axis=0).reshape(self.shape)
            rest[~np.isfinite(rest)] = 0.0
        while (largest := max(rest.max(initial=0.0), -rest.min(initial=0.0))) > 0:
            place = (int(np.frexp(largest)[1]) - 1) // _BITS
            digits = _scaled(rest, -_BITS * place)
            np.trunc(digits, out=digits)
            self._add_digits(place, digits.sum(axis=0))
            rest -= _scaled(digits, _BITS * place)  # what is left is below the place: nothing is rounded
            if absolute is not None:
                absolute._add_digits(place, np.abs(digits, out=digits).sum(axis=0))

    def _add_digits(self, place: int, digits: npt.NDArray[Any]) -> None:
        whole = digits.astype(np.int64).reshape(self.shape)
        self._digits[place] = self._digits[place] + whole if place in self._digits else whole

    def _carry(self) -> None:
        """Hand what digits have grown beyond their place to the next one, long before int64 overflows."""
        if self._digits:
            for place in range(min(self._digits), max(self._digits) + 1):
                digits = self._digits.get(place)
                if digits is not None and np.abs(digits).max(initial=0) >= _GROWN:
                    over = digits >> _BITS
                    self._digits[place] = digits - (over << _BITS)
                    self._add_digits(place + 1, over)

    def __add__(self, other: ExactSum) -> ExactSum:
        both = ExactSum(self.shape)
        for one in (self, other):
            both._odd = both._odd + one._odd
            for place, digits in one._digits.items():
                both._add_digits(place, digits)
        both._carry()
        return both

    def rounded(self) -> Float64:
        """The sum as float64, each entry the nearest number to it."""
        lowest = min(self._digits, default=0)
        terms = [
            digits.astype(object) << (_BITS * (place - lowest)) for place, digits in self._digits.items()
        ]
        whole: Any = reduce(np.add, terms, np.zeros(self.shape, dtype=object))
        # Python divides whole numbers, and turns them into floats, with one rounding.
        whole = whole / (1 << -_BITS * lowest) if lowest < 0 else whole << _BITS * lowest
        return np.asarray(whole, dtype=np.float64) + self._odd


def _scaled(numbers: Float64, exponent: int) -> Float64:
    """Times a power of two, which is no rounding; ldexp is ten times slower, but reaches further."""
    return numbers * 2.0**exponent if abs(exponent) < 1000 else np.ldexp(numbers, exponent)
