"""Pictures of explanations: shap's own plots, given what they expect.

Every method passes its arguments on, ``show=`` and ``ax=`` among them, and returns what shap returns.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, MissingDependencyError

if TYPE_CHECKING:
    from ..results.explanation import Explanation

__all__ = ["Plots", "require_shap", "sortable"]


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
        """How much each feature matters: ``shap.plots.bar``."""
        return self._draw("bar", ("row", "feature"), ("feature",), **options)

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
        elif isinstance(color, int) or color in self.explanation.feature_names:
            options["color"] = self.explanation[:, color].to_shap()
        return Plots(chosen)._draw("scatter", ("row",), **options)

    def heatmap(self, **options: Any) -> Any:
        """All rows beside each other: ``shap.plots.heatmap``."""
        return self._draw("heatmap", ("row", "feature"), **options)

    def force(self, **options: Any) -> Any:
        """What pushes the prediction up and down: ``shap.plots.force``; ``matplotlib=True`` for one row."""
        return self._draw("force", ("feature",), ("row", "feature"), **options)

    def _draw(self, name: str, *allowed: tuple[str, ...], **options: Any) -> Any:
        axes = self.explanation.axes
        if axes not in allowed:
            raise InputError(
                f"{name} draws an explanation with the axes {' or '.join(map(str, allowed))}, this one has "
                f"{axes}. Choose a row with e[0], a feature with e[:, 'name'], an output with e[..., 'name']."
            )
        require_shap()
        if _missing("matplotlib"):
            raise MissingDependencyError(_hint("matplotlib"))
        return getattr(import_module("shap.plots"), name)(self.explanation.to_shap(), **options)


def sortable(data: Any) -> Any:
    """Rows whose columns can each be sorted, which shap does: next to strings, all else becomes a string."""
    if not isinstance(data, np.ndarray) or data.dtype != object:
        return data
    columns = [column.tolist() for column in data.reshape(len(data), -1).T]
    for column in columns:
        if any(isinstance(value, str) for value in column):
            column[:] = ["missing" if _is_missing(value) else str(value) for value in column]
    made = np.empty((len(columns), len(data)), dtype=object)
    made[:] = columns
    return made.T.reshape(data.shape)


def _is_missing(value: Any) -> bool:
    # pandas' NA has no truth value to compare.
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def require_shap() -> Any:
    """The shap package, or an error that says how to get it."""
    if _missing("shap"):
        raise MissingDependencyError(_hint("shap"))
    return import_module("shap")


def _missing(library: str) -> bool:
    try:
        import_module(library)
    except ImportError:
        return True
    return False


def _hint(library: str) -> str:
    return f"This needs {library}, which is not installed. Run: pip install 'linear-treeshap[plots]'"
