"""The seam to C++ (core/module.cpp)."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
# What a file says outside its records, and {field: (numbers of all records, how many each record has)}.
Records = tuple[bytes, dict[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]]]

class Engine:
    def explain(
        self,
        rows: npt.NDArray[np.floating],  # (n_rows, n_columns)
        out: npt.NDArray[np.floating],  # (n_rows, n_players, n_outputs), written
        *,
        n_threads: int,
        progress: Callable[[float], object] | None,
    ) -> None: ...
    def interactions(
        self,
        *,
        rule: Callable[[int], tuple[Numbers, Numbers, Numbers]],
        min_order: int,
        max_order: int,
        spread: list[float],  # by how many players a subset lacks; empty for none
    ) -> Interactions: ...
    @property
    def kernel(self) -> str: ...

class Interactions:
    @property
    def sets(self) -> list[list[int]]: ...  # players, increasing; smaller sets first
    def explain(
        self,
        rows: npt.NDArray[np.floating],  # (n_rows, n_columns)
        out: npt.NDArray[np.floating],  # (n_rows, n_sets, n_outputs), written
        *,
        n_threads: int,
        progress: Callable[[float], object] | None,
    ) -> None: ...
    def explain_dense(
        self,
        rows: npt.NDArray[np.floating],  # (n_rows, n_columns)
        out: npt.NDArray[np.floating],  # (n_rows, n_players, n_players, n_outputs), written
        *,
        n_threads: int,
        progress: Callable[[float], object] | None,
    ) -> None: ...
    def add_up(
        self,
        rows: npt.NDArray[np.floating],  # (n_rows, n_columns)
        sum: Numbers,  # (n_sets, n_outputs), added to
        sum_abs: Numbers,  # (n_sets, n_outputs), added to
        *,
        n_threads: int,
        progress: Callable[[float], object] | None,
    ) -> None: ...

# All three raise ValueError if the file is damaged.
def read_json(data: npt.NDArray[np.uint8], list_name: str, fields: Sequence[str]) -> Records: ...
def read_ubjson(data: npt.NDArray[np.uint8], list_name: str, fields: Sequence[str]) -> Records: ...
def read_lightgbm(data: npt.NDArray[np.uint8], fields: Sequence[str]) -> Records: ...
def kernels() -> list[str]: ...
def gauss_legendre(n_points: int) -> tuple[Numbers, Numbers, Numbers]: ...
def compile(
    *,
    tree_offsets: npt.NDArray[np.int64],
    left: npt.NDArray[np.int32],
    right: npt.NDArray[np.int32],
    feature: npt.NDArray[np.int32],
    threshold: npt.NDArray[np.float64],
    missing_left: npt.NDArray[np.bool_],
    category_set: npt.NDArray[np.int32],
    category_offsets: npt.NDArray[np.int64],
    category_codes: npt.NDArray[np.int32],
    cover: npt.NDArray[np.float64],
    value: npt.NDArray[np.float64],
    tree_output: npt.NDArray[np.int32],
    player: npt.NDArray[np.int32],
    n_outputs: int,
    n_players: int,
    is_float32: bool,
    rule: Callable[[int], tuple[Numbers, Numbers, Numbers]],  # players → points, 1 - points, weights
    kernel: str | None,
) -> Engine: ...

class BackgroundEngine:
    couples: list[list[int]]  # the players of each item, if the engine is one of couples
    def explain(
        self,
        rows: npt.NDArray[np.floating],  # (n_rows, n_columns)
        out: npt.NDArray[np.floating],  # (n_rows, n_players or n_couples, n_outputs), written
        *,
        pair_weights: npt.NDArray[np.float64] | None,  # (n_rows, n_background_rows)
        n_threads: int,
        progress: Callable[[float], object] | None,
    ) -> None: ...

def with_background(
    engine: Engine,
    rows: npt.NDArray[np.floating],  # (n_background_rows, n_columns)
    weights: npt.NDArray[np.float64],  # (n_background_rows,) or empty
    *,
    only_pairs: bool,
    of_couples: bool,
    n_threads: int,
    progress: Callable[[float], object] | None,
) -> BackgroundEngine: ...
def predict(
    engine: Engine,
    rows: npt.NDArray[np.floating],  # (n_rows, n_columns)
    out: npt.NDArray[np.float64],  # (n_rows, n_outputs), written
    *,
    n_threads: int,
) -> None: ...
