"""An explanation as one page to look at: offline, interactive, in one HTML file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...atomic_write import replacing
from ...errors import InputError
from .content import page_content
from .page import render

if TYPE_CHECKING:
    from ...results.explanation import Explanation

__all__ = ["write_report"]


def write_report(
    explanation: Explanation, path: str | os.PathLike[str], *, title: str | None, max_rows: int | None
) -> Path:
    """Write the page, all of it or nothing, and say where it is; see `Explanation.report`."""
    n_rows, n_features, _ = explanation.full.shape
    if n_rows == 0 or n_features == 0:
        raise InputError(
            f"There is nothing to report: the explanation has {n_rows} rows and {n_features} features."
        )
    if not np.isfinite(explanation.values).all() or not np.isfinite(explanation.base_values).all():
        raise InputError(
            "Some values or base values are not finite, and cannot be drawn. Leave out their rows."
        )
    if title is None:
        title = f"Explanation of {n_rows:,} row{'' if n_rows == 1 else 's'}"
    page = render(title, page_content(explanation, max_rows))
    target = Path(path)
    with replacing(target) as file:
        file.write(page.encode("utf-8", "xmlcharrefreplace"))  # a title may hold half a character
    return target
