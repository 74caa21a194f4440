"""An explanation as a small table for notebooks: names, numbers and bars, no scripts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..results.explanation import Explanation

__all__ = ["explanation_table"]

#: Features shown; the rest is counted.
_SHOWN = 10
_UP, _DOWN = "#ff0051", "#008bfb"


def explanation_table(explanation: Explanation) -> str:
    """The largest features first: the values of one row, or the mean absolute values of many."""
    full = explanation.full
    n_rows, n_features, n_outputs = full.shape
    one = n_rows == 1 and n_outputs == 1
    shown = full[0, :, 0] if one else explanation.importances
    order = np.argsort(-np.abs(shown), kind="stable")[:_SHOWN]
    largest = float(np.abs(shown).max(initial=0.0)) or 1.0
    data = _data_of_row(explanation) if one else None
    lines = [
        _line(
            explanation.full_feature_names[i],
            None if data is None else data[i],
            float(shown[i]),
            largest,
            signed=one,
        )
        for i in order
    ]
    rest = n_features - len(order)
    more = f"<tr><td colspan='4'>… and {rest:,} more features</td></tr>" if rest else ""
    size = f"{n_rows:,} row{'s' * (n_rows != 1)}, {n_features:,} feature{'s' * (n_features != 1)}"
    size += f", {n_outputs:,} outputs" if n_outputs > 1 else ""
    if one:
        base = float(explanation.full_base_values[0, 0])
        title = f"base value {base:.4g}, {_output(explanation, base + float(full.sum()))}"
    else:
        title = "mean |value|"
    return (
        # No caption, which would be as narrow as the table, or make it as wide as itself.
        f"<p style='margin:0'>Explanation of {size}: {title}</p>"
        f"<table><tbody>{''.join(lines)}{more}</tbody></table>"
    )


def _output(explanation: Explanation, output: float) -> str:
    """What values and base value add up to, in its unit, and as a probability if that is another."""
    about = explanation.about
    unit = "prediction" if about is None or about.unit is None else about.unit
    probability = None if about is None else about.probability(output)
    beside = "" if probability is None else f" (a probability of {_percent(probability)})"
    return f"{unit} {output:.4g}{beside}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _data_of_row(explanation: Explanation) -> Any:
    return None if explanation.table is None else np.atleast_1d(_dense(explanation.data)).reshape(-1)


def _dense(data: Any) -> Any:
    return data.toarray() if hasattr(data, "toarray") else data


def _line(name: str, datum: Any, value: float, largest: float, *, signed: bool) -> str:
    width = round(100 * abs(value) / largest)
    color = _DOWN if signed and value < 0 else _UP
    shown = "" if datum is None else f"{datum:.4g}" if isinstance(datum, (float, np.floating)) else str(datum)
    number = f"{value:+.4g}" if signed else f"{value:.4g}"
    return (
        f"<tr><td>{escape(name)}</td><td>{escape(shown)}</td><td style='text-align:right'>{number}</td>"
        f"<td style='text-align:left;width:8em'>"
        f"<div style='background:{color};height:0.8em;width:{width}%'></div></td></tr>"
    )
