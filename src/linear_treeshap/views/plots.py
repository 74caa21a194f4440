"""Pictures of explanations: shap's own plots, given what they expect, and a table of pairs.

Every method passes its arguments on, ``show=`` and ``ax=`` among them, and returns what shap returns.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, MissingDependencyError, how_to_install

if TYPE_CHECKING:
    from ..results.explanation import Explanation

__all__ = ["Plots", "require_shap", "shap_or_hint", "sortable", "writable"]

#: Rows that shap puts into order within a second.
_LARGE_HEATMAP = 1000


@dataclass(frozen=True)
class Plots:
    """The pictures of one explanation; get them from ``explanation.plot``.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from linear_treeshap import Explanation
    >>> e = Explanation(np.array([[0.5, -2.0]]), base_values=3.0, feature_names=("age", "smoker"))
    >>> e.plot.bar(show=False).get_xlabel()
    'mean(|SHAP value|)'
    """

    explanation: Explanation

    def bar(self, **options: Any) -> Any:
        """How much each feature matters: ``shap.plots.bar``; several outputs are stacked."""
        if self.explanation.axes == ("row", "feature", "output"):
            return self._stacked_bar(**options)
        return self._draw("bar", ("row", "feature"), ("feature",), **options)

    def _stacked_bar(self, *, max_display: int = 10, show: bool = True, **options: Any) -> Any:
        """Mean absolute values of each output after another: ``shap.summary_plot`` of type "bar"."""
        shap, pyplot = self._libraries()
        e = self.explanation
        shap.summary_plot(
            list(e.full.transpose(2, 0, 1)),
            feature_names=list(e.feature_names),
            class_names=list(e.output_names),
            plot_type="bar",
            max_display=max_display,
            show=False,
            **options,
        )
        return _shown(pyplot.gca(), pyplot, show)

    def pairs(self, *, max_display: int = 10, ax: Any = None, show: bool = True) -> Any:
        """How much pairs of features matter, for interaction values: mean absolute values as a table.

        Off the diagonal are whole interactions, both halves of them; on it what each feature does alone.
        """
        e = self.explanation
        if e.axes != ("row", "feature", "partner"):
            raise InputError(
                f"pairs draws interaction values of one output, explainer(X, interactions=True); this "
                f"explanation has the axes {e.axes}. Choose an output with e[..., 'name']."
            )
        _, pyplot = self._libraries()
        means = np.abs(e.values).mean(axis=0) * (2 - np.eye(e.shape[1]))
        first = np.argsort(-means.sum(axis=1), kind="stable")[:max_display]
        names = [e.feature_names[i] for i in first]
        ax = pyplot.gca() if ax is None else ax
        image = ax.imshow(means[np.ix_(first, first)], cmap="Reds", vmin=0)
        ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
        ax.set_yticks(range(len(names)), names)
        ax.figure.colorbar(image, ax=ax, label="mean(|interaction value|)")
        return _shown(ax, pyplot, show)

    def beeswarm(self, **options: Any) -> Any:
        """Each row as a dot per feature: ``shap.plots.beeswarm``."""
        return self._draw("beeswarm", ("row", "feature"), **options)

    def waterfall(self, **options: Any) -> Any:
        """One row, from the base value to its prediction: ``shap.plots.waterfall``."""
        return self._draw("waterfall", ("feature",), **options)

    def scatter(self, feature: int | str | None = None, **options: Any) -> Any:
        """Values of one feature against its numbers: ``shap.plots.scatter``.

        ``color="name"`` or ``color=position`` colours by another feature, ``color=explanation`` by the
        feature with the strongest apparent interaction.
        """
        chosen = self.explanation if feature is None else self.explanation[:, feature]
        color = options.get("color")
        if isinstance(color, type(self.explanation)):
            options["color"] = color.to_shap()
        elif isinstance(color, int) or color in self.explanation.full_feature_names:
            options["color"] = self.explanation[:, color].to_shap()
        partner = chosen.partner_names
        if not isinstance(partner, str):
            return Plots(chosen)._draw("scatter", ("row",), **options)
        # shap calls every value that of one feature.
        show = options.pop("show", True)
        ax = Plots(chosen)._draw("scatter", ("row",), show=False, **options)
        is_main = partner == chosen.feature_names
        ax.set_ylabel(
            f"Main effect of\n{partner}"
            if is_main
            else f"Interaction of\n{chosen.feature_names} and {partner}"
        )
        return _shown(ax, self._libraries()[1], show)

    def heatmap(self, **options: Any) -> Any:
        """All rows beside each other: ``shap.plots.heatmap``.

        Of more than a thousand rows, shap takes minutes to find an order that puts like beside like; they are
        drawn in the order of their outputs, unless ``instance_order=`` is given.
        """
        e = self.explanation
        if e.axes == ("row", "feature") and len(e) > _LARGE_HEATMAP:
            options.setdefault("instance_order", np.argsort(e.values.sum(axis=1), kind="stable"))
        return self._draw("heatmap", ("row", "feature"), **options)

    def force(self, **options: Any) -> Any:
        """What pushes the prediction up and down: ``shap.plots.force``; ``matplotlib=True`` for one row."""
        if not options.get("matplotlib") and _is_notebook():
            require_shap().initjs()  # each cell is drawn by a script, which must be in the page
        return self._draw("force", ("feature",), ("row", "feature"), **options)

    def _draw(self, name: str, *allowed: tuple[str, ...], **options: Any) -> Any:
        axes = self.explanation.axes
        if axes not in allowed:
            raise InputError(
                f"{name} draws an explanation with the axes {' or '.join(map(str, allowed))}, this one has "
                f"{axes}. Choose a row with e[0], a feature with e[:, 'name'], an output with e[..., 'name']."
            )
        self._libraries()
        return getattr(import_module("shap.plots"), name)(self.explanation.to_shap(), **options)

    def _libraries(self) -> tuple[Any, Any]:
        """shap and matplotlib.pyplot."""
        shap = require_shap()
        if _missing("matplotlib"):
            raise MissingDependencyError(_hint("matplotlib"))
        return shap, import_module("matplotlib.pyplot")


def _shown(ax: Any, pyplot: Any, show: bool) -> Any:
    """As shap's plots do: shown, or given back to be changed."""
    if not show:
        return ax
    pyplot.show()
    return None


def _is_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    return ipython is not None and ipython.get_ipython() is not None


def sortable(data: Any) -> Any:
    """Rows whose columns can each be sorted, which shap does: next to strings, all else becomes a string."""
    if not isinstance(data, np.ndarray) or data.dtype != object:
        return data
    columns = [column.tolist() for column in data.reshape(len(data), -1).T]
    for column in columns:
        if any(isinstance(value, str) for value in column):
            column[:] = ["missing" if _is_missing(value) else str(value) for value in column]
        else:
            column[:] = [np.nan if _is_missing(value) else value for value in column]
    made = np.empty((len(columns), len(data)), dtype=object)
    made[:] = columns
    return made.T.reshape(data.shape)


def writable(row: Any) -> Any:
    """One row whose cells shap can write beside their names, which it cannot with None."""
    if not isinstance(row, np.ndarray) or row.dtype != object:
        return row
    cells = [np.nan if _is_missing(value) else value for value in row.reshape(-1).tolist()]
    return np.array(cells, dtype=object).reshape(row.shape)


def _is_missing(value: Any) -> bool:
    # pandas' NA has no truth value to compare.
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def require_shap() -> Any:
    """The shap package, or an error that says how to get it."""
    found = shap_or_hint()
    if isinstance(found, str):
        raise MissingDependencyError(found)
    return found


def shap_or_hint() -> Any:
    """The shap package, or how to get it."""
    return _hint("shap") if _missing("shap") else import_module("shap")


def _missing(library: str) -> bool:
    try:
        import_module(library)
    except ImportError:
        return True
    return False


def _hint(library: str) -> str:
    return f"This needs {library}, which is not installed. {how_to_install('plots')}"
