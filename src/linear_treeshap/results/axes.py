"""The axes of a result: what they are called, and which of their places a user asks for.

Names and keys come in, as users write them; positions go out, or an error that says what there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import InputError

__all__ = ["ALL_AXES", "AXES", "Axis", "Places", "is_all", "key_of_axes", "names_of", "places", "position"]

Axis = Literal["row", "feature", "partner", "output"]
#: Where on an axis: one place, which drops the axis, or several.
Places = int | slice | npt.NDArray[np.intp]

#: Of plain values, and of interaction values, where a feature has a partner.
AXES: tuple[Axis, ...] = ("row", "feature", "output")
ALL_AXES: tuple[Axis, ...] = ("row", "feature", "partner", "output")


def names_of(given: Sequence[str] | None, noun: str, count: int) -> tuple[str, ...]:
    """The names that were given; if there are none, "Feature 0" and so on."""
    if given is None:
        return tuple(f"{noun} {i}" for i in range(count))
    names = tuple(map(str, given))
    if len(names) != count:
        raise InputError(f"{len(names)} {noun.lower()} names were given for {count} {noun.lower()}s.")
    return names


def key_of_axes(key: Any, axes: tuple[Axis, ...]) -> dict[Axis, Any]:
    """What ``array[key]`` asks of each axis: everything where it asks nothing."""
    keys = list(key) if isinstance(key, tuple) else [key]
    dots = [i for i, one in enumerate(keys) if one is Ellipsis]
    if len(keys) - len(dots) > len(axes) or len(dots) > 1:
        raise InputError(f"Too many indices: this explanation has the axes {', '.join(axes)}.")
    if dots:
        keys[dots[0] : dots[0] + 1] = [slice(None)] * (len(axes) - len(keys) + 1)
    asked = dict(zip(axes, keys, strict=False))
    return {axis: asked.get(axis, slice(None)) for axis in ALL_AXES}


def position(key: Any, names: Sequence[str], noun: str) -> int:
    """The place of one feature or output, by name or position."""
    if isinstance(key, str):
        return _position_of_name(key, names, noun)
    if _is_number(key) and -len(names) <= key < len(names):
        return int(key) % len(names)
    raise InputError(f"Choose {noun}s by name or by position below {len(names)}; got {key!r}.")


def places(key: Any, length: int, names: Sequence[str] | None, noun: str) -> Places:
    """The places of an axis by position, name, slice, mask, or a list of these. Rows have no ``names``."""
    if isinstance(key, slice):
        if any(isinstance(end, str) for end in (key.start, key.stop)):
            raise InputError(f"A slice is of positions; choose {noun}s by name with a list of names.")
        return key
    if isinstance(key, str):
        return _position_of_name(key, names, noun)
    if _is_number(key):
        if not -length <= key < length:
            raise IndexError(f"There are {length} {noun}s; {noun} {key} is out of range.")
        return int(key) % length
    if names is not None and isinstance(key, Iterable) and not isinstance(key, np.ndarray):
        key = [_position_of_name(one, names, noun) if isinstance(one, str) else one for one in key]
    chosen = np.asarray(key)
    if chosen.dtype == np.bool_:
        if chosen.shape != (length,):
            raise InputError(f"A mask of {noun}s must be of shape ({length},), got {chosen.shape}.")
        return np.flatnonzero(chosen)
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
        raise InputError(f"Choose {noun}s by position, name, slice, mask or a list of these; got {key!r}.")
    outside = chosen[(chosen < -length) | (chosen >= length)]
    if outside.size:
        raise IndexError(f"There are {length} {noun}s; {noun} {outside[0]} is out of range.")
    return chosen.astype(np.intp) % max(length, 1)


def is_all(chosen: Places) -> bool:
    """Is nothing left out, and nothing moved?"""
    return isinstance(chosen, slice) and chosen == slice(None)


def _is_number(key: Any) -> bool:
    return isinstance(key, (int, np.integer)) and not isinstance(key, (bool, np.bool_))


def _position_of_name(name: str, names: Sequence[str] | None, noun: str) -> int:
    if names is None:
        raise InputError(f"Rows are chosen by position or mask, not by name; got {name!r}.")
    if name not in names:
        raise InputError(f"There is no {noun} {name!r}. There are: {', '.join(map(repr, names[:20]))}.")
    return names.index(name)
