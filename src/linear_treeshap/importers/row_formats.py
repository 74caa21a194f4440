"""Models side by side → the one row format in which all of them can be read, and their trees in it.

Models of several libraries that were trained on the same columns read the same rows, but one may cast
numbers to float32 where another does not. A number that is cast goes left exactly if the number itself is at
most some other threshold, so trees that cast become trees that do not, and no row goes another way.

Models that know their categories by hashes may know different ones, and have tables of their own in which
numbers are looked up for them: all hashes and all tables together serve each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import UnsupportedModelError
from ..model.ensemble import TreeEnsemble
from ..model.row_format import RowFormat

__all__ = ["in_one_format"]

Float64 = npt.NDArray[np.float64]

#: What changes the meaning of a row → the fields of `RowFormat` that say it.
_MUST_AGREE = {
    "the number that means missing": ("missing_value",),
    "whether zero is missing": ("zero_is_missing",),
    "columns of categories": ("truncated",),
    "the categories": ("categories", "frame_labels", "hashes", "unknown_is_missing", "lookups"),
}


def in_one_format(ensembles: Sequence[TreeEnsemble]) -> list[TreeEnsemble]:
    """The same ensembles, all of one row format.

    Raises
    ------
    UnsupportedModelError
        A row means one thing to one of them and something else to another.
    """
    if _are_same(ensembles):
        return list(ensembles)
    if len({frozenset(ensemble.row_format.hashes) for ensemble in ensembles}) == 1:
        ensembles = _with_all_hashes(ensembles)
        if _are_same(ensembles):
            return list(ensembles)
    common = _common([ensemble.row_format for ensemble in ensembles])
    if any((ensemble.category_set >= 0).any() for ensemble in ensembles):
        raise _refusal("they read categories each in its own way")
    return [_read_by(ensemble, common) for ensemble in ensembles]


def _are_same(ensembles: Sequence[TreeEnsemble]) -> bool:
    return all(ensemble.row_format == ensembles[0].row_format for ensemble in ensembles)


def _with_all_hashes(ensembles: Sequence[TreeEnsemble]) -> list[TreeEnsemble]:
    """The same ensembles, for rows with the codes of all hashes that some of them knows, and behind the
    features the numbers of all lookups, those of the first ensemble first."""
    formats = [ensemble.row_format for ensemble in ensembles]
    hashes = {
        feature: tuple(dict.fromkeys(one for row_format in formats for one in row_format.hashes[feature]))
        for feature in formats[0].hashes
    }
    lookups = tuple(lookup for row_format in formats for lookup in row_format.lookups)
    out, shift = [], 0
    for ensemble, row_format in zip(ensembles, formats, strict=True):
        feature = ensemble.feature + np.where(ensemble.feature >= row_format.n_features, shift, 0)
        shift += row_format.n_columns - row_format.n_features
        wider = replace(row_format, hashes=hashes, lookups=lookups)
        sets = _recoded_sets(ensemble, hashes) if hashes else {}
        out.append(replace(ensemble, feature=feature, row_format=wider, **sets))
    return out


def _recoded_sets(ensemble: TreeEnsemble, hashes: Mapping[int, tuple[int, ...]]) -> dict[str, Any]:
    """The category sets of an ensemble by the codes that its hashes have among these, each for one feature.

    A hash that the ensemble does not know was missing, and is now a code that is in none of its sets.
    """
    nodes = np.flatnonzero(ensemble.category_set >= 0)
    if ensemble.missing_left[nodes].any():
        raise _refusal("an unknown category is not sent the way of all others")
    own = ensemble.row_format.hashes
    codes = {feature: {one: code for code, one in enumerate(known)} for feature, known in hashes.items()}
    asked = np.stack([ensemble.category_set[nodes], ensemble.feature[nodes]], axis=1)
    found, number = np.unique(asked, axis=0, return_inverse=True)
    sets = [
        sorted(codes[feature][own[feature][code]] for code in ensemble.category_set_codes(index).tolist())
        for index, feature in found.tolist()
    ]
    category_set = ensemble.category_set.copy()
    category_set[nodes] = number.reshape(-1)
    return {
        "category_set": category_set,
        "category_offsets": np.cumsum([0, *map(len, sets)]),
        "category_codes": np.array([code for some in sets for code in some], dtype=np.int32),
    }


def _common(formats: Sequence[RowFormat]) -> RowFormat:
    """The format of all of them; what they disagree on must not matter, or be refused."""
    first = formats[0]
    widths = sorted({row_format.n_features for row_format in formats})
    if len(widths) > 1:
        raise _refusal(f"they have {' and '.join(map(str, widths))} columns")
    names = {row_format.feature_names for row_format in formats} - {None}
    if len(names) > 1:
        raise _refusal("their columns have different names, or come in another order")
    for what, fields in _MUST_AGREE.items():
        # A format compares its fields by meaning: one NaN is as good as another.
        if any(replace(first, **{f: getattr(other, f) for f in fields}) != first for other in formats):
            raise _refusal(f"they differ in {what}")
    absent = {row_format.absent_is_missing for row_format in formats}
    return replace(
        first,
        feature_names=names.pop() if names else None,
        dtype="float32" if all(row_format.dtype == "float32" for row_format in formats) else "float64",
        absent_is_missing=absent.pop() if len(absent) == 1 else None,
        numbers_are_codes=all(row_format.numbers_are_codes for row_format in formats),
        takes_more=all(row_format.takes_more for row_format in formats),
    )


def _read_by(ensemble: TreeEnsemble, common: RowFormat) -> TreeEnsemble:
    """The same trees, for rows of another format."""
    threshold = np.array(ensemble.threshold)
    if ensemble.row_format.dtype != common.dtype:
        inner = ~ensemble.is_leaf
        threshold[inner] = _uncast(threshold[inner])
    return replace(ensemble, threshold=threshold, row_format=common)


def _uncast(threshold: Float64) -> Float64:
    """The largest float64 numbers that float32 rounds to at most ``threshold``."""
    with np.errstate(over="ignore"):
        below = threshold.astype(np.float32)
        below = np.where(below > threshold, np.nextafter(below, np.float32(-np.inf)), below)
        above = np.nextafter(below, np.float32(np.inf))
    # Rounding takes the nearer of the two, and from halfway the one whose last bit is zero. Infinity begins
    # halfway to the number that would come next.
    low, high = (end.astype(np.float64) for end in (below, above))
    low, high = (np.where(np.isinf(end), np.copysign(2.0**128, end), end) for end in (low, high))
    halfway = low / 2 + high / 2
    stays_below = (below.view(np.uint32) & 1) == 0
    uncast = np.where(stays_below, halfway, np.nextafter(halfway, -np.inf))
    return np.where(threshold == np.inf, np.inf, uncast)


def _refusal(reason: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"The models inside do not read the same rows: {reason}. Train them on the same columns in the same "
        f"way, or explain them one by one."
    )
