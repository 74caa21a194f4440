"""Explanation: the values of some rows, with everything needed to read them.

It is made by an explainer, is cut like an array but by names too, and turns into data frames and pictures. It
never changes. Where shap is loaded it passes for a ``shap.Explanation``: shap's plots draw it, and what only
shap's has (``abs``, ``mean``, ``cohorts`` and others) is shap's answer for the same values.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..players.onehot import with_onehot
from ..players.player_table import table_of_players
from ..players.players import Players, group_columns
from ..rows.columns import is_missing
from ..rows.frames import is_frame
from ..rows.tables import make_frame, take_columns, take_rows, to_array
from .axes import ALL_AXES, AXES, Axis, Places, is_all, key_of_axes, names_of, places
from .layout import NamedArray, ranked, row_columns, whole_number
from .reasons import Reasons

if TYPE_CHECKING:
    from ..views.plots import Plots
    from .about import About

__all__ = ["Explanation"]

Array = npt.NDArray[Any]

#: What shap's Explanation has and ours has not: asked of `Explanation.to_shap`.
_OF_SHAP = frozenset(
    {
        "abs", "argsort", "clustering", "cohorts", "compute_time", "display_data", "error_std", "flip",
        "hclust", "hierarchical_values", "hstack", "identity", "instance_names", "lower_bounds",
        "main_effects", "max", "mean", "min", "op_history", "output_indexes", "percentile", "sample", "sum",
        "upper_bounds",
    }
)  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Shapley values with their names, base values and rows.

    ``explanation[rows, features, outputs]`` cuts it: rows by position or mask, features and outputs by
    position, name, or a list of either. A single row, feature or output drops its dimension. Interaction
    values have another dimension of features, the partners, after the first.

    Examples
    --------
    >>> import numpy as np
    >>> from linear_treeshap import Explanation
    >>> e = Explanation(np.array([[0.5, -2.0], [0.25, 1.0]]), base_values=np.array([3.0, 3.0]),
    ...                 table=np.array([[30, 1], [40, 0]]), feature_names=("age", "smoker"))
    >>> e
    Explanation(2 rows, 2 features: smoker 1.5, age 0.375)
    >>> e[:, "age"].values
    array([0.5 , 0.25])
    >>> e[0]
    Explanation(1 row, 2 features: smoker -2, age +0.5)
    >>> e.importance()
      feature  importance
    0  smoker       1.500
    1     age       0.375
    """

    values: npt.NDArray[np.floating]  # one dimension per axis
    base_values: Any  # an array with one dimension per axis but "feature"; less is broadcast
    #: The rows as the user gave them, with the columns of ``feature_names``; `data` is their array.
    table: Any = None
    #: Default: "Feature 0", …; where a single feature was chosen, its name, as in shap.
    feature_names: Any = None
    output_names: tuple[str, ...] = None  # type: ignore[assignment]  # default: "Output 0", …
    #: The labels of the rows, if they came from pandas.
    index: Any = None
    #: What the dimensions of ``values`` are: of "row", "feature", "partner" (of interactions) and "output",
    #: those not cut away.
    axes: tuple[Axis, ...] = ()
    #: Of interaction values. Default: feature_names; where a single partner was chosen, its name.
    partner_names: Any = None
    #: The model behind it, if an explainer made it.
    about: About | None = None

    def __post_init__(self) -> None:
        def store(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        store("values", np.asarray(self.values))
        axes = tuple(self.axes) or (AXES[: self.values.ndim] if self.values.ndim < 4 else ALL_AXES)
        if self.values.ndim != len(axes):
            raise InputError(f"values have {self.values.ndim} dimensions for the axes {axes}.")
        store("axes", axes)
        _, n_features, n_partners, n_outputs = self._all.shape
        shape = zip(self.values.shape, axes, strict=True)
        n_rest = tuple(n for n, axis in shape if axis in ("row", "output"))
        try:
            store("base_values", np.broadcast_to(self.base_values, n_rest)[()])  # a number for one
        except ValueError as error:
            raise InputError(
                f"base_values must be of shape {n_rest}, got {np.shape(self.base_values)}."
            ) from error
        names = self.feature_names
        names = names_of((names,) if isinstance(names, str) else names, "Feature", n_features)
        store("feature_names", names if "feature" in axes else names[0])
        store("output_names", names_of(self.output_names, "Output", n_outputs))
        if "partner" in axes:
            partners = self.full_feature_names if self.partner_names is None else self.partner_names
            store("partner_names", names_of(partners, "Partner", n_partners))

    @classmethod
    def of_rows(
        cls,
        values: npt.NDArray[np.floating],
        base_values: npt.NDArray[np.floating],
        *,
        table: Any,
        feature_names: Sequence[str] | None,
        output_names: Sequence[str] | None,
        row_labels: Any,
        about: About | None = None,
    ) -> Explanation:
        """From (n_rows, n_features[, n_partners], n_outputs) values; a single output drops its dimension."""
        single = values.shape[-1] == 1
        axes = AXES if values.ndim == 3 else ALL_AXES
        return cls(
            values[..., 0] if single else values,
            base_values[:, 0] if single else base_values,
            table,
            names_of(feature_names, "Feature", values.shape[1]),
            names_of(output_names, "Output", values.shape[-1]),
            row_labels,
            axes[:-1] if single else axes,
            about=about,
        )

    # -- like an array --------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of ``values``."""
        return self.values.shape

    @cached_property
    def data(self) -> Any:
        """The explained rows as an array of the shape of ``values``, less outputs; sparse stays sparse."""
        n_rows, n_features = self._all.shape[:2]
        # A frame without columns has no rows either.
        no_columns = n_features == 0 and self.table is not None and is_frame(self.table)
        array = np.empty((n_rows, 0)) if no_columns else to_array(self.table)
        if array is None or {"row", "feature"} <= set(self.axes):
            return array
        dense = array.toarray() if hasattr(array, "toarray") else np.asarray(array)
        keep = tuple(slice(None) if axis in self.axes else 0 for axis in ("row", "feature"))
        return dense[keep]

    def __len__(self) -> int:
        if not self.axes:
            raise TypeError("An explanation of a single value has no length.")
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.values, dtype=dtype) if copy else np.asarray(self.values, dtype=dtype)

    def __getitem__(self, key: Any) -> Explanation:
        keys = key_of_axes(key, self.axes)
        names = (None, self.full_feature_names, self.partner_names, self.output_names)
        asked = {
            axis: places(keys[axis], length, own, axis)
            for axis, length, own in zip(ALL_AXES, self._all.shape, names, strict=True)
        }
        rows, features, partners, outputs = map(_several, asked.values())
        axes = tuple(axis for axis in self.axes if not isinstance(asked[axis], int))
        kept = tuple(slice(None) if axis in axes else 0 for axis in ALL_AXES)
        table = self.table if is_all(rows) else take_rows(self.table, rows)
        if not is_all(features):
            table = take_columns(table, np.arange(self._all.shape[1])[features].tolist())
        about = self.about
        if about is not None and not (is_all(features) and is_all(partners)):
            about = replace(about, adds_up=False)
        return Explanation(
            # One axis after another, so that slices stay views and lists do not pair up.
            self._all[rows][:, features][:, :, partners][..., outputs][kept],
            self.full_base_values[rows][:, outputs][(kept[0], kept[3])],
            table,
            _chosen(self.full_feature_names, features),
            _chosen(self.output_names, outputs),
            None if self.index is None else self.index[rows],
            axes,
            self._partners_at(partners, asked["partner"]),
            about,
        )

    # -- views ------------------------------------------------------------------------------------------

    def to_frame(self, layout: Literal["wide", "long"] = "wide", *, base_values: bool = False) -> Any:
        """The values as a data frame in the library of the explained rows, with pandas' index kept.

        "wide" has a column per feature and a row per row; with several outputs a row per row and output,
        named in a first column "output". "long" has a row per value: row, feature, output if there are
        several, and value. Rows that came as an array become a frame of pandas, or else of polars.
        ``base_values=True`` adds the base value and what the values add up to from there, as columns
        "base_value" and "prediction".

        Examples
        --------
        >>> import numpy as np
        >>> from linear_treeshap import Explanation
        >>> e = Explanation(np.array([[0.5, -2.0]]), base_values=3.0, feature_names=("age", "smoker"))
        >>> e.to_frame()
           age  smoker
        0  0.5    -2.0
        >>> e.to_frame("long")
           row feature  value
        0    0     age    0.5
        1    0  smoker   -2.0
        >>> e.to_frame(base_values=True)
           age  smoker  base_value  prediction
        0  0.5    -2.0         3.0         1.5
        """
        if not base_values:
            return self._named.frame(layout)
        base = self.full_base_values
        beside = {"base_value": base, "prediction": base + self.full.sum(axis=1)}
        return replace(self._named, beside=beside).frame(layout)

    def importance(self) -> Any:
        """The mean absolute value of each feature, largest first, as a data frame.

        Several outputs are added up, as shap's bar plot stacks them; ``e[..., "name"]`` chooses one.
        """
        found = self.importances
        names = self.full_feature_names
        return ranked("feature", names, None, {"importance": found}, by=found, like=self.table)

    def top(
        self,
        k: int = 5,
        *,
        sign: Literal["up", "down"] | None = None,
        layout: Literal["long", "wide"] = "long",
    ) -> Any:
        """The ``k`` features of the largest absolute value for each row and output, as a data frame.

        Its columns are row (or one for each level of a MultiIndex), output if there are several, rank from 1,
        feature, value, and data, what the row has in that column. ``sign`` keeps only what pushes the output
        up, or down. "wide" has one row for each row: feature_1, value_1, data_1, feature_2, …

        Examples
        --------
        >>> import numpy as np
        >>> from linear_treeshap import Explanation
        >>> e = Explanation(np.array([[0.5, -2.0]]), base_values=3.0, table=np.array([[30, 1]]),
        ...                 feature_names=("age", "smoker"))
        >>> e.top(1)
           row  rank feature  value  data
        0    0     1  smoker   -2.0     1
        >>> e.top(2, sign="up", layout="wide")
           row feature_1  value_1  data_1 feature_2  value_2 data_2
        0    0       age      0.5      30      None      NaN   None
        """
        return replace(self._named, data=self.cells).top(k, sign, layout)

    def reasons(
        self,
        top: int = 4,
        *,
        toward: str,
        codes: Mapping[str, Any] | None = None,
        exclude: Collection[str] = (),
        minimum: float = 0.0,
        threshold: float | None = None,
        layout: Literal["long", "wide"] = "long",
    ) -> Any:
        """The main reasons why the output of each row is high, or low, as a data frame.

        The page docs/examples/reasons.md shows them at work.

        Parameters
        ----------
        top
            How many reasons a row has at most; only what pushes in the direction asked for is one.
        toward
            "up" or "down"; of several outputs the name of one, whose rise is explained.
        codes
            Feature → a code, or a pair of a code and a text. Features that share a code are explained as one
            player: ``TreeExplainer(model, groups=…)``.
        exclude
            Features that are never named. What they contribute is in the column "undisclosed".
        minimum
            The least share that a reason must have.
        threshold
            Where a decision is made. Shares are then of the distance from it to the row's output, and rows on
            its other side have no reasons; without one they are of the distance from the base value.
        layout
            "long", a row per reason: row, rank, code and text if there are codes, feature, value, data,
            share, margin (by how much it exceeds the largest that is not named: how sure it is to be among
            these), and undisclosed. "wide", a row for each row: code_1, feature_1, …

        Examples
        --------
        >>> import numpy as np
        >>> from linear_treeshap import Explanation
        >>> e = Explanation(np.array([[0.5, 2.0, 1.0, -0.5]]), base_values=-1.0,
        ...                 table=np.array([[30, 48, 1, 7]]),
        ...                 feature_names=("age", "months", "loans", "salary"))
        >>> e.reasons(1, toward="up", codes={"months": "R02", "loans": "R03"}, exclude=["age"])
           row  rank code feature  value  data     share  margin  undisclosed
        0    0     1  R02  months    2.0    48  0.666667     1.0          0.5
        """
        top = whole_number(top, "top")
        found = Reasons.of(self, top, toward, exclude=exclude, minimum=minimum, threshold=threshold)
        columns = found.columns(self.full_feature_names, codes, self.cells)
        if layout == "wide":
            rows = np.arange(found.n_rows)
            columns = found.wide(columns, top)
        elif layout == "long":
            rows = found.row
        else:
            raise InputError(f"layout must be 'long' or 'wide', got {layout!r}.")
        return make_frame(row_columns(self.index, rows) | columns, like=self.table)

    def sum_groups(self, groups: Any) -> Explanation:
        """The values of the features of each group added up; features not named stay as they are.

        A sum is not the Shapley value of the group as one player, which `TreeExplainer` computes with
        ``groups=``; docs/groups.md shows where they differ.

        Parameters
        ----------
        groups
            A dictionary of group → features (names or positions), a label for each feature, or the
            ``players`` of an explainer.

        Examples
        --------
        >>> import numpy as np
        >>> from linear_treeshap import Explanation
        >>> e = Explanation(np.array([[0.5, -2.0, 0.25]]), base_values=3.0,
        ...                 table=np.array([[30, 1, 0]]), feature_names=("age", "city_Rome", "city_Oslo"))
        >>> summed = e.sum_groups({"city": ["city_Rome", "city_Oslo"]})
        >>> summed
        Explanation(1 row, 2 features: city -1.75, age +0.5)
        >>> summed.data
        array([[30, 'Rome']], dtype=object)
        """
        if "feature" not in self.axes:
            raise InputError("This explanation is of a single feature: there is nothing to add up.")
        if isinstance(groups, Players):
            groups = {name: columns for name, columns in groups.members.items() if len(columns) > 1}
        players = with_onehot(group_columns(groups, self.feature_names))
        sums = [self.full[:, columns].sum(axis=1) for columns in players.columns]
        values = np.stack(sums, axis=1) if sums else self.full
        kept = tuple(slice(None) if axis in self.axes else 0 for axis in AXES)
        return replace(
            self,
            values=values[kept],
            table=table_of_players(self.table, players),
            feature_names=tuple(players.names),
        )

    def to_shap(self) -> Any:
        """A real ``shap.Explanation``, for shap's plots and whatever else asks for one."""
        from ..views.plots import require_shap, sortable, writable

        shap = require_shap()
        base_values = self.base_values
        is_plain = base_values.ndim == 0
        return shap.Explanation(
            self.values,
            base_values=float(base_values) if is_plain else np.array(base_values),
            data=sortable(self.data) if "row" in self.axes else writable(self.data),
            feature_names=self.feature_names if "feature" not in self.axes else list(self.feature_names),
            output_names=list(self.output_names) if "output" in self.axes else None,
        )

    @property
    def plot(self) -> Plots:
        """shap's pictures: ``explanation.plot.beeswarm()``, ``.bar()``, ``.waterfall()`` and others."""
        from ..views.plots import Plots

        return Plots(self)

    def report(
        self, path: str | os.PathLike[str], *, title: str | None = None, max_rows: int | None = None
    ) -> Path:
        """Write one interactive page that opens in any browser, without a network; return its path.

        It shows which features matter, the value of each for every row, a feature against its values, a
        table of the rows, and the steps from the base value to the output of a chosen row. All outputs
        are on it. Of very many rows a random sample is, and the page says so; ``max_rows`` sets its size.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> from linear_treeshap import Explanation
        >>> e = Explanation(np.array([[0.5, -2.0]]), base_values=3.0, feature_names=("age", "smoker"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     e.report(f"{folder}/report.html", title="Two patients").name
        'report.html'
        """
        from ..views.report import write_report

        return write_report(self, path, title=title, max_rows=max_rows)

    def __repr__(self) -> str:
        if "partner" in self.axes:
            return f"Explanation(interaction values of shape {self.shape}: {', '.join(self.axes)})"
        n_rows, n_features, n_outputs = self.full.shape
        counts = [(n_rows, "row"), (n_features, "feature")] + (
            [(n_outputs, "output")] if n_outputs > 1 else []
        )
        size = ", ".join(f"{n:,} {noun}{'' if n == 1 else 's'}" for n, noun in counts)
        signed = n_rows == 1 and n_outputs == 1
        shown = self.full[0, :, 0] if signed else self.importances
        order = np.argsort(-np.abs(shown), kind="stable")
        number = "{:+.3g}" if signed else "{:.3g}"
        largest = [f"{self.full_feature_names[i]} {number.format(shown[i])}" for i in order[:5]]
        return f"Explanation({size}: {', '.join(largest)}{', …' if n_features > 5 else ''})"

    def _repr_html_(self) -> str:
        if "partner" in self.axes:
            return f"<pre>{self!r}</pre>"
        from ..views.notebook import explanation_table

        return explanation_table(self)

    # -- for views, in the same shape whatever was cut away --------------------------------------------

    @property
    def full(self) -> npt.NDArray[np.floating]:
        """(n_rows, n_features, n_outputs) the values, with a dimension of 1 for what was cut away."""
        if "partner" in self.axes:
            raise InputError(
                "This needs a value per feature, and these are interaction values: choose a partner, as in "
                "explanation[:, :, 'age'], or use explainer.interactions(X), which lists pairs."
            )
        return self._all[:, :, 0]

    @property
    def full_feature_names(self) -> tuple[str, ...]:
        """(n_features,) the names, also where a single feature was chosen."""
        return (self.feature_names,) if isinstance(self.feature_names, str) else self.feature_names

    @property
    def full_base_values(self) -> npt.NDArray[np.floating]:
        """(n_rows, n_outputs) the base values, with a dimension of 1 for what was cut away."""
        missing = tuple(i for i, axis in enumerate(("row", "output")) if axis not in self.axes)
        return np.asarray(np.expand_dims(self.base_values, missing))

    @property
    def cells(self) -> list[Any] | None:
        """The cells of each column, as Python has them: numbers, texts, and None where one is missing."""
        if self.table is None:
            return None
        data = self.data.toarray() if hasattr(self.data, "toarray") else np.asarray(self.data)
        columns = data.reshape(self.full.shape[:2]).T
        if data.dtype != object:
            return [column.tolist() for column in columns]
        return [[None if is_missing(cell) else _plain(cell) for cell in column] for column in columns]

    @property
    def importances(self) -> npt.NDArray[np.float64]:
        """(n_features,) the mean absolute value of each feature, outputs added up."""
        full = self.full
        if len(full) == 0:
            return np.zeros(full.shape[1])
        return np.asarray(np.abs(full).sum(axis=(0, 2), dtype=np.float64) / len(full))

    # -- as shap's own -----------------------------------------------------------------------------------

    @property
    def __class__(self) -> Any:
        """shap asks ``isinstance(e, shap.Explanation)``, which looks here after the type."""
        theirs = getattr(sys.modules.get("shap"), "Explanation", None)
        return Explanation if theirs is None else _passing_for(theirs)

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise AttributeError("An Explanation never changes.")

    def __getattr__(self, name: str) -> Any:
        if name not in _OF_SHAP:
            raise AttributeError(f"'Explanation' object has no attribute {name!r}")
        from ..views.plots import shap_or_hint

        if isinstance(found := shap_or_hint(), str):
            raise AttributeError(f"{name!r} is shap's. {found}")
        return getattr(self.to_shap(), name)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        # np.mean(e) is that of the values, as it is of an array; NumPy would call shap's e.mean().
        return function(*map(_as_array, arguments), **{name: _as_array(x) for name, x in options.items()})

    def __reduce__(self) -> Any:
        # pickle compares __class__ with the type.
        return Explanation, tuple(getattr(self, field.name) for field in fields(Explanation))

    # -- inside -------------------------------------------------------------------------------------------

    def _partners_at(self, partners: Any, asked: Places) -> Any:
        if self.partner_names is None or isinstance(self.partner_names, str):
            return self.partner_names
        chosen = _chosen(self.partner_names, partners)
        return chosen[0] if isinstance(asked, int) else chosen

    @property
    def _all(self) -> npt.NDArray[np.floating]:
        """The values with all four dimensions."""
        return np.expand_dims(
            self.values, tuple(i for i, axis in enumerate(ALL_AXES) if axis not in self.axes)
        )

    @property
    def _named(self) -> NamedArray:
        outputs = self.output_names if "output" in self.axes else None
        return NamedArray(self.full, "feature", self.full_feature_names, outputs, self.index, self.table)


def _several(asked: Places) -> slice | npt.NDArray[np.intp]:
    """A single place as a slice of one, so that no dimension is lost yet."""
    return slice(asked, asked + 1) if isinstance(asked, int) else asked


def _plain(cell: Any) -> Any:
    return cell.item() if isinstance(cell, np.generic) else cell


@cache
def _passing_for(theirs: type) -> type:
    """A class derived from shap's; what it is asked to make, by ``dataclasses.replace`` for one, is ours."""

    class Passing(theirs):  # type: ignore[misc]
        def __new__(cls, *arguments: Any, **options: Any) -> Any:
            return Explanation(*arguments, **options)

    return Passing


def _as_array(given: Any) -> Any:
    if isinstance(given, (list, tuple)):
        return type(given)(map(_as_array, given))
    return given.values if isinstance(given, Explanation) else given


def _chosen(names: tuple[str, ...], chosen: slice | npt.NDArray[np.intp]) -> tuple[str, ...]:
    return tuple(np.array(names, dtype=object)[chosen])
