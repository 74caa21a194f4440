"""Reason codes: which features pushed a row in the direction that somebody asks about, and how surely.

An explanation comes in; a few named contributions per row go out, largest first. What is excluded is never
named, and its contribution is told as a sum. Nothing is drawn at random, and of equal contributions that of
the first column is named first, so the same explanation always gives the same reasons.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .layout import spread

if TYPE_CHECKING:
    from .explanation import Explanation

__all__ = ["Reasons", "Stability", "stability"]

Float64 = npt.NDArray[np.float64]
#: Feature → its code, or its code and a text.
Codes = Mapping[str, Any]

_DIRECTIONS = {"up": 1.0, "down": -1.0}


@dataclass(frozen=True)
class Reasons:
    """The reasons of some rows: an entry for each, rows in their order, the largest reason of a row first."""

    row: npt.NDArray[np.intp]  # the position of the row
    rank: npt.NDArray[np.intp]  # from 1
    feature: npt.NDArray[np.intp]  # its position
    value: Float64  # the contribution, positive whatever the direction is
    share: Float64  # of the distance to the base value, or to the threshold
    margin: Float64  # over the largest contribution that is not named
    undisclosed: Float64  # what the excluded features contribute to this row
    n_rows: int

    @classmethod
    def of(
        cls,
        explanation: Explanation,
        top: int,
        toward: str,
        *,
        exclude: Collection[str] = (),
        minimum: float = 0.0,
        threshold: float | None = None,
    ) -> Reasons:
        """Those of every row; see `Explanation.reasons`."""
        pushes, sign, chosen = _pushes(explanation, toward)
        names = explanation.full_feature_names
        hidden = np.isin(names, _known(exclude, names, "exclude"))
        outputs = pushes.sum(axis=1)
        distance = outputs
        if threshold is not None:
            base = chosen.full_base_values[:, 0]
            distance = outputs + sign * (base - threshold)
        candidates = np.where(hidden, -np.inf, pushes)
        order = np.argsort(-candidates, axis=1, kind="stable")
        ranked = np.take_along_axis(candidates, order, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(distance[:, None] > 0, ranked / distance[:, None], np.nan)
        is_named = (ranked > 0) & (np.arange(ranked.shape[1]) < top)
        if minimum > 0:
            is_named &= shares >= minimum
        if threshold is not None:
            is_named &= distance[:, None] > 0
        row, place = np.nonzero(is_named)
        n_named = is_named.sum(axis=1)
        padded = np.concatenate([np.maximum(ranked, 0.0), np.zeros((len(ranked), 1))], axis=1)
        first_left = np.take_along_axis(padded, n_named[:, None], axis=1)[:, 0]
        return cls(
            row,
            place + 1,
            order[row, place],
            ranked[row, place],
            shares[row, place],
            ranked[row, place] - first_left[row],
            np.where(hidden, pushes, 0.0).sum(axis=1)[row],
            len(pushes),
        )

    def columns(
        self, names: Sequence[str], codes: Codes | None, data: Sequence[Any] | None
    ) -> dict[str, Any]:
        """Titles → entries: all there is but the row."""
        features = [names[i] for i in self.feature.tolist()]
        found: dict[str, Any] = {"rank": self.rank}
        if codes is not None:
            found |= _coded(codes, names, features)
        found |= {"feature": features, "value": self.value}
        if data is not None:
            cells = zip(self.row.tolist(), self.feature.tolist(), strict=True)
            found["data"] = [data[feature][row] for row, feature in cells]
        return found | {"share": self.share, "margin": self.margin, "undisclosed": self.undisclosed}

    def wide(self, columns: Mapping[str, Any], top: int) -> dict[str, list[Any]]:
        """The same with a line for each row: ``feature_1``, …; what a row has once is there once."""
        many = {title: cells for title, cells in columns.items() if title not in ("rank", "undisclosed")}
        return spread(many, self.row, self.rank - 1, self.n_rows, top)


def _pushes(explanation: Explanation, toward: str) -> tuple[Float64, float, Explanation]:
    """(n_rows, n_features) contributions in the direction asked for, its sign, and the output it is of."""
    n_outputs = explanation.full.shape[2]
    if toward in _DIRECTIONS and n_outputs == 1:
        return (
            _DIRECTIONS[toward] * explanation.full[:, :, 0].astype(np.float64),
            _DIRECTIONS[toward],
            explanation,
        )
    if n_outputs > 1 and toward in explanation.output_names:
        chosen = explanation[..., toward]
        return chosen.full[:, :, 0].astype(np.float64), 1.0, chosen
    if n_outputs > 1:
        raise InputError(
            f"toward must name one of the outputs {', '.join(map(repr, explanation.output_names[:10]))}, "
            f"whose rise is to be explained; got {toward!r}. e[..., 'name'] chooses one for 'up' or 'down'."
        )
    raise InputError(f"toward must be 'up' or 'down', the direction that is to be explained; got {toward!r}.")


def _known(asked: Collection[str], names: Sequence[str], what: str) -> list[str]:
    """The names of features that were given, all of which there must be."""
    asked = [asked] if isinstance(asked, str) else list(asked)
    unknown = [name for name in asked if name not in names]
    if unknown:
        raise InputError(
            f"{what} names {', '.join(map(repr, unknown[:5]))}, which are no features. There are: "
            f"{', '.join(map(repr, names[:20]))}."
        )
    return asked


def _coded(codes: Codes, names: Sequence[str], features: Sequence[str]) -> dict[str, list[Any]]:
    """The code of each reason, and its text where one was given."""
    _known(codes, names, "codes")
    pairs = {name: (code, None) if isinstance(code, str) else tuple(code) for name, code in codes.items()}
    sharing: dict[str, list[str]] = {}
    for name, (code, _) in pairs.items():
        sharing.setdefault(code, []).append(name)
    twins = next((found for found in sharing.items() if len(found[1]) > 1), None)
    if twins is not None:
        code, members = twins
        raise InputError(
            f"The features {', '.join(map(repr, members))} share the code {code!r}, and the sum of their "
            f"values is not what they contribute together. Explain them as one: TreeExplainer(model, "
            f"groups={{{code!r}: {members!r}}}), and give that group the code."
        )
    found: dict[str, list[Any]] = {"code": [pairs.get(name, (None, None))[0] for name in features]}
    if any(text is not None for _, text in pairs.values()):
        found["text"] = [pairs.get(name, (None, None))[1] for name in features]
    return found


@dataclass(frozen=True)
class Stability:
    """How much of the reasons is the same whichever of several models gives them.

    Examples
    --------
    >>> import numpy as np
    >>> from linear_treeshap import Explanation, stability
    >>> one = Explanation(np.array([[5.0, 2.0, 1.0], [1.0, 2.0, 4.0]]), base_values=0.0)
    >>> other = Explanation(np.array([[5.0, 1.0, 3.0], [1.0, 2.0, 4.0]]), base_values=0.0)
    >>> stability([one, other], top=2, toward="up")
    Stability(2 models, 2 rows: 0.75 of the top 2 in common, 1.00 with the same first; Kendall's W 0.75)
    """

    n_models: int
    top: int
    #: (n_rows,) the share of the first ``top`` reasons that two models have in common, mean over pairs.
    overlap: Float64
    #: (n_rows,) the share of pairs of models that agree on the first reason.
    same_first: Float64
    #: Kendall's coefficient of concordance of the features' importances: 1 for one order, 0 for none.
    kendall_w: float

    def __repr__(self) -> str:
        overlap, first = (float(x.mean()) if len(x) else np.nan for x in (self.overlap, self.same_first))
        return (
            f"Stability({self.n_models} models, {len(self.overlap):,} rows: {overlap:.2f} of the top "
            f"{self.top} in common, {first:.2f} with the same first; Kendall's W {self.kendall_w:.2f})"
        )


def stability(explanations: Sequence[Explanation], *, toward: str, top: int = 4) -> Stability:
    """Compare the reasons that several models, refits of one for instance, give for the same rows.

    Parameters
    ----------
    explanations
        One of each model, of the same rows and features.
    toward, top
        As for `Explanation.reasons`.

    Examples
    --------
    >>> import numpy as np
    >>> from linear_treeshap import Explanation, stability
    >>> one = Explanation(np.array([[3.0, 2.0, -1.0]]), base_values=0.0)
    >>> other = Explanation(np.array([[3.0, -2.0, 1.0]]), base_values=0.0)
    >>> stability([one, other], top=2, toward="up").overlap
    array([0.5])
    """
    shapes = {(e.full.shape[0], e.full_feature_names) for e in explanations}
    if len(explanations) < 2 or len(shapes) > 1:
        raise InputError(
            f"stability compares at least two explanations of the same rows and features; got "
            f"{len(explanations)} of {len(shapes)} kinds."
        )
    pushes = np.stack([_pushes(e, toward)[0] for e in explanations])
    n_models, n_rows, n_features = pushes.shape
    order = np.argsort(-pushes, axis=2, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(n_features), order.shape), axis=2)
    is_named = (ranks < top) & (pushes > 0)
    is_first = (ranks == 0) & is_named
    pairs = list(combinations(range(n_models), 2))
    overlap, same = np.zeros(n_rows), np.zeros(n_rows)
    for i, j in pairs:
        larger = np.maximum(is_named[i].sum(axis=1), is_named[j].sum(axis=1))
        common = (is_named[i] & is_named[j]).sum(axis=1)
        overlap += np.where(larger > 0, common / np.maximum(larger, 1), 1.0)
        same += (is_first[i] == is_first[j]).all(axis=1)
    return Stability(n_models, top, overlap / len(pairs), same / len(pairs), _kendall_w(explanations))


def _kendall_w(explanations: Sequence[Explanation]) -> float:
    """Of the order of importances; equal ones share their mean rank."""
    importances = np.stack([e.importances for e in explanations])
    n_models, n_features = importances.shape
    below = (importances[:, :, None] > importances[:, None]).sum(axis=2)
    equal = (importances[:, :, None] == importances[:, None]).sum(axis=2)
    ranks = below + (equal + 1) / 2
    spread_of_sums = float(((ranks.sum(axis=0) - n_models * (n_features + 1) / 2) ** 2).sum())
    ties = float((equal**2 - 1).sum())  # over members of groups of t equal ones: t (t² - 1) in all
    largest = n_models**2 * (n_features**3 - n_features) / 12 - n_models * ties / 12
    return spread_of_sums / largest if largest > 0 else 1.0
