"""The seam to C++ (core/bindings/)."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
Values = npt.NDArray[np.floating]
Progress = Callable[[float], object] | None
# Players on a path → points, 1 - points, weights.
RuleFor = Callable[[int], tuple[Numbers, Numbers, Numbers]]
# What a file says outside its records, and {field: (numbers of all records, how many each record has)}.
Records = tuple[bytes, dict[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]]]

# All three raise ValueError if the file is damaged.
def read_json(data: npt.NDArray[np.uint8], list_name: str, fields: Sequence[str]) -> Records: ...
def read_ubjson(data: npt.NDArray[np.uint8], list_name: str, fields: Sequence[str]) -> Records: ...
def read_lightgbm(data: npt.NDArray[np.uint8], fields: Sequence[str]) -> Records: ...
def kernels() -> list[str]: ...
def gauss_legendre(n_points: int) -> tuple[Numbers, Numbers, Numbers]: ...

# The trees of a TreeEnsemble, as it has them.
class Trees:
    def __init__(
        self,
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
    ) -> None: ...

class Program:
    @property
    def kernel(self) -> str: ...
    # rows (n_rows, n_columns), out (n_rows, n_outputs), written
    def predict(self, rows: Values, out: Numbers, *, n_threads: int) -> None: ...
    # rows (n_rows, n_columns), values (n_rows, n, n_outputs), base (n_outputs,)
    def adds_up(
        self, rows: Values, values: Values, base: Numbers, tolerance: float, *, n_threads: int
    ) -> bool: ...

def compile(
    trees: Trees,
    *,
    player: npt.NDArray[np.int32],
    n_outputs: int,
    n_players: int,
    is_float32: bool,
    rule: RuleFor | None,  # None: Shapley's
    kernel: str | None,
) -> Program: ...

class ValueEngine:
    def __init__(self, program: Program) -> None: ...
    # rows (n_rows, n_columns), out (n_rows, n_players, n_outputs), written
    def explain(
        self, rows: Values, out: Values, *, n_threads: int, progress: Progress, among_many: bool
    ) -> None: ...

class TooManySets(Exception): ...

class SetEngine:
    def __init__(
        self,
        program: Program,
        *,
        rule: RuleFor,
        min_order: int,
        max_order: int,
        spread: list[float],  # by how many players a subset lacks; empty for none
    ) -> None: ...
    @property
    def sets(self) -> list[list[int]]: ...  # players, increasing; smaller sets first
    # out (n_rows, n_sets, n_outputs), written
    def explain(self, rows: Values, out: Values, *, n_threads: int, progress: Progress) -> None: ...
    # out (n_rows, n_players, n_players, n_outputs), written
    def explain_dense(self, rows: Values, out: Values, *, n_threads: int, progress: Progress) -> None: ...
    # sum and sum_abs (n_sets, n_outputs), added to
    def add_up(
        self, rows: Values, sum: Numbers, sum_abs: Numbers, *, n_threads: int, progress: Progress
    ) -> None: ...

class BackgroundEngine:
    def __init__(
        self,
        program: Program,
        rows: Values,  # (n_background_rows, n_columns)
        weights: Numbers,  # (n_background_rows,) or empty
        *,
        scan_only: bool,
        of_pairs: bool,
        n_threads: int,
        progress: Progress,
    ) -> None: ...
    @property
    def pairs(self) -> list[list[int]]: ...  # the players of each item, if the engine is one of pairs
    def table_lists(self) -> dict[str, Any]: ...  # see cuda/tables.py
    def explain(
        self,
        rows: Values,
        out: Values,  # (n_rows, n_players or n_pairs, n_outputs), written
        *,
        row_pair_weights: Numbers | None,  # (n_rows, n_background_rows)
        n_threads: int,
        progress: Progress,
    ) -> None: ...

# Lookups, see lookups.py: what makes keys, one question after the other; the tables; columns of hashes,
# and the hashes that they have codes for.
class KeyTables:
    def __init__(
        self,
        *,
        kind: npt.NDArray[np.uint8],  # 0: a category, 1: above, 2: equal
        column: npt.NDArray[np.int32],
        operand: Numbers,  # a border, or a hash
        if_missing: npt.NDArray[np.bool_],
        table_parts: npt.NDArray[np.int32],
        part_offsets: npt.NDArray[np.int64],
        keys: npt.NDArray[np.uint64],
        key_offsets: npt.NDArray[np.int64],
        numbers: npt.NDArray[np.float32],
        number_offsets: npt.NDArray[np.int64],
        hashed: npt.NDArray[np.int32],
        known: Numbers,
        known_offsets: npt.NDArray[np.int64],
    ) -> None: ...
    # rows (n_rows, n_features), out (n_rows, n_columns), of which features and lookups are written
    def fill(self, rows: Numbers, out: Values) -> None: ...
    # out (n_rows, n_numbers), written
    def look_up(self, table: int, rows: Numbers, out: Values) -> None: ...

class LinearTreeShap:
    def __init__(self, trees: Trees, *, n_features: int, n_outputs: int) -> None: ...
    @property
    def degrees(self) -> list[int]: ...  # (n_trees,) the most features on a path
    # rows (n_rows, n_features), phi (n_rows, n_features, n_outputs), added to
    def explain(self, rows: Numbers, phi: Numbers) -> None: ...
