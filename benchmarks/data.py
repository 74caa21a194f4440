"""The data behind the cases: rows, a target, and a sentence that says where they came from.

Real data is read from the folder of Parquet files that LINEAR_TREESHAP_DATA names, else fetched from
OpenML, else replaced by generated data of the same shape. Which of the three it was goes into every
result.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["DATA_VARIABLE", "Data", "adult", "adult_attributes", "covertype", "generated", "superconductor"]

DATA_VARIABLE = "LINEAR_TREESHAP_DATA"


@dataclass(frozen=True)
class Data:
    X: npt.NDArray[np.float32]  # (n, m)
    y: npt.NDArray[np.float64]  # (n,)
    source: str
    names: tuple[str, ...] = ()  # of the columns, where they are known


def generated(n_rows: int, n_features: int = 80, seed: int = 0) -> Data:
    """Normal columns; a target with main effects, products and a wave, so that trees use them all."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    y = 0.3 * (X @ rng.normal(size=n_features)) + np.sin(2 * X[:, 0] * X[:, 1]) + X[:, 2] * X[:, 3]
    y = y + np.abs(X[:, 4:10]).sum(axis=1) + 0.5 * rng.normal(size=n_rows)
    return Data(X, y.astype(np.float64), f"generated: {n_rows:,} × {n_features}, seed {seed}")


def superconductor() -> Data:
    """Hamidieh (2018), 21,263 × 81; the paper's "conductor"."""

    def read(frame: Any) -> tuple[Any, Any]:
        return frame.drop(columns="critical_temp"), frame["critical_temp"]

    return _load("superconductivity", 43174, read, (21_263, 81))


def adult() -> Data:
    """Becker and Kohavi (1996), 48,842 rows, one-hot.

    The paper says 64 columns and not which. All categories but the country's, with age, capital gain
    and loss, and hours, are 64.
    """
    numbers = ["age", "capital-gain", "capital-loss", "hours-per-week"]
    unused = ["fnlwgt", "education-num", "native-country", "split"]

    def read(frame: Any) -> tuple[Any, Any]:
        import pandas as pd

        frame = frame.rename(columns={"class": "income"})  # its name on OpenML
        target = frame["income"].astype(str).str.strip().eq(">50K")
        frame = frame.drop(columns=["income", *unused], errors="ignore")
        categories = [name for name in frame.columns if name not in numbers]
        # OpenML leaves unknown entries empty where the original files have a "?".
        frame[categories] = frame[categories].astype(object).fillna("?")
        return pd.get_dummies(frame, columns=categories), target

    return _load("adult", 1590, read, (48_842, 64))


def adult_attributes() -> Data:
    """The same with all of its 14 attributes, as 108 columns: ``age``, ``workclass=Private`` and so on."""

    def read(frame: Any) -> tuple[Any, Any]:
        import pandas as pd

        frame = frame.rename(columns={"class": "income"})
        target = frame["income"].astype(str).str.strip().eq(">50K")
        frame = frame.drop(columns=["income", "split"], errors="ignore")
        categories = [name for name in frame.columns if frame[name].dtype.kind not in "iuf"]
        frame[categories] = frame[categories].astype(object).fillna("?")
        return pd.get_dummies(frame, columns=categories, prefix_sep="="), target

    return _load("adult", 1590, read, (48_842, 108))


def covertype() -> Data:
    """Blackard (1998), 581,012 × 54, seven classes of forest."""

    def read(frame: Any) -> tuple[Any, Any]:
        frame = frame.rename(columns={"class": "Cover_Type"})  # its name on OpenML
        return frame.drop(columns="Cover_Type"), frame["Cover_Type"].astype(int)

    return _load("covertype", 1596, read, (581_012, 54))


def _load(name: str, openml_id: int, read: Callable[[Any], tuple[Any, Any]], shape: tuple[int, int]) -> Data:
    """Read or fetch the data set; generate one of the same shape where there is no network."""
    import pandas as pd

    folder = os.environ.get(DATA_VARIABLE)
    if folder:
        frame, source = pd.read_parquet(Path(folder) / f"{name}.parquet"), f"{name}.parquet"
    else:
        from sklearn.datasets import fetch_openml

        try:
            frame = fetch_openml(data_id=openml_id, as_frame=True, parser="auto").frame
        except OSError as error:
            made = generated(*shape)
            note = f"{name} could not be fetched ({type(error).__name__}), so {made.source}"
            return Data(made.X, made.y, note)
        source = f"OpenML {openml_id} ({name})"
    X, y = read(frame)
    return Data(X.to_numpy(dtype=np.float32), y.to_numpy(dtype=np.float64), source, tuple(X.columns))
