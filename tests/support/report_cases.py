"""Explanations of every odd kind, for the tests of the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from linear_treeshap import Explanation

#: Breaks out of scripts, attributes and text wherever it is not escaped.
HOSTILE = "</script><img src=x onerror=\"window.broken='yes'\">"
NAMES = ("age", "income", "height", "weight")


def values_of(n_rows: int, n_features: int, n_outputs: int | None = None) -> np.ndarray[Any, Any]:
    """Features of falling importance."""
    shape = (n_rows, n_features) if n_outputs is None else (n_rows, n_features, n_outputs)
    weight = np.exp(-0.1 * np.arange(n_features)).reshape((1, -1) if n_outputs is None else (1, -1, 1))
    return np.asarray(np.random.default_rng(0).normal(size=shape) * weight)


def numbers_of(n_rows: int, n_features: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).normal(size=(n_rows, n_features))


def plain(n_rows: int = 60) -> Explanation:
    """Named features and rows."""
    index = pd.Index([f"patient {i}" for i in range(n_rows)])
    table = pd.DataFrame(numbers_of(n_rows, 4), columns=list(NAMES), index=index)
    return Explanation(values_of(n_rows, 4), 10.0, table, NAMES, index=index)


def hostile() -> Explanation:
    """Names and values that try to be markup, script, and TeX."""
    names = (
        HOSTILE,
        "<b>bold</b>",
        '<a href="javascript:window.broken=1">x</a>',
        "$$\\frac{1}{2}$$",
        "__proto__",
    )
    index = pd.Index([HOSTILE, "<i>1</i>", "$$2$$", "&lt;3", "4"])
    columns: list[Any] = [
        [1.0, 2.0, np.nan, 4.0, 5.0],
        [HOSTILE, "<u>u</u>", None, "$$x^2$$", "&amp;"],
        pd.Categorical(["<s>", "t", "<s>", None, "t"]),
        [True, False, True, True, False],
        [3, 3, 3, 3, 3],
    ]
    table = pd.DataFrame(dict(zip(names, columns, strict=True)), index=index)
    return Explanation(values_of(5, 5, 2), [1.0, 2.0], table, names, (HOSTILE, "<em>k</em>"), index)


def odd_numbers() -> Explanation:
    """Missing values, infinities, a constant, whole numbers beyond float64, tiny and huge numbers."""
    n_rows = 40
    table = numbers_of(n_rows, 7)
    table[::5, 0] = np.nan
    table[1::7, 0], table[2::7, 0] = np.inf, -np.inf
    table[:, 1] = np.nan
    table[:, 2] = 7.0
    table[:, 3] *= 1e-12
    table[:, 4] *= 1e20
    frame = pd.DataFrame(table, columns=list("abcdefg"))
    frame["f"] = 2**60 + np.arange(n_rows)
    frame["g"] = pd.array([None, *range(n_rows - 1)], dtype="Int64")
    return Explanation(values_of(n_rows, 7), 0.0, frame, tuple("abcdefg"))


def texts() -> Explanation:
    """A column of few strings, one of many, one of booleans."""
    n_rows = 80
    table = pd.DataFrame(
        {
            "city": np.array(["Rome", "Oslo", "Lima"])[np.arange(n_rows) % 3],
            "id": [f"customer {i}" for i in range(n_rows)],
            "member": np.arange(n_rows) % 2 == 0,
        }
    )
    return Explanation(values_of(n_rows, 3), 0.5, table, tuple(table.columns))


def sparse() -> Explanation:
    from scipy.sparse import csr_matrix

    return Explanation(values_of(30, 4), 0.0, csr_matrix(np.eye(30, 4)), NAMES)


KINDS: dict[str, Callable[[], Explanation]] = {
    "plain": plain,
    "hostile": hostile,
    "odd numbers": odd_numbers,
    "texts": texts,
    "sparse": sparse,
    "one row": lambda: plain()[0],
    "one feature": lambda: plain()[:, "income"],
    "one number": lambda: Explanation(np.array([[0.0]]), 0.0, np.array([[1.0]])),
    "500 features": lambda: Explanation(values_of(50, 500), 0.0, numbers_of(50, 500)),
    "without data": lambda: Explanation(values_of(50, 4), 0.0, feature_names=NAMES),
    "three outputs": lambda: Explanation(
        values_of(50, 4, 3), [1.0, 2.0, 3.0], numbers_of(50, 4), NAMES, ("a", "b", "c")
    ),
    "a base value per row": lambda: Explanation(values_of(50, 4), np.arange(50.0), numbers_of(50, 4), NAMES),
    "no values but zero": lambda: Explanation(np.zeros((20, 3)), 5.0, numbers_of(20, 3)),
}
