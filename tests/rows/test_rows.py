"""Rows of every kind become the same numbers, and rows that do not fit say why."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from decimal import Decimal
from itertools import product
from typing import Any, Literal

import numpy as np
import pytest

from linear_treeshap import TreeExplainer
from linear_treeshap.errors import InputError
from linear_treeshap.model.lookups import Above, Equal, Lookup
from linear_treeshap.model.row_format import Label, RowFormat
from linear_treeshap.rows.frames import is_numbering, match_columns
from linear_treeshap.rows.lookups import with_lookups
from linear_treeshap.rows.rows import Rows, read_rows

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
sparse = pytest.importorskip("scipy.sparse")

NAMES = ("age", "size", "rank")
NAMED = RowFormat(3, NAMES)
NUMBERS = np.array([[1.5, 0.0, 3.0], [4.0, -5.25, 6.0]])
COLUMNS = dict(zip(NAMES, NUMBERS.T.tolist(), strict=True))
SHUFFLED = {name: COLUMNS[name] for name in ("rank", "age", "size")}


def everything(rows: Rows) -> Any:
    return rows[0 : rows.n_rows]


@pytest.mark.parametrize("gaps", [False, True], ids=["full", "with nulls"])
@pytest.mark.parametrize("make", ["pandas", "polars", "Arrow", "Arrow batch"])
def test_integers_beyond_float64_are_rounded_as_numpy_rounds_them(make: str, gaps: bool) -> None:
    """Arrow refuses such a cast unless it is told to; the others round, and so do the libraries."""
    values = [2**53 + 1, -(2**60) - 1, None if gaps else 5]
    if make == "pandas":
        table = pd.DataFrame({"id": pd.array(values, dtype="Int64")})
    elif make == "polars":
        table = pl.DataFrame({"id": values})
    else:
        table = pa.table({"id": pa.array(values, pa.int64())})
        table = table.to_batches()[0] if make == "Arrow batch" else table
    expected = [[float(2**53)], [float(-(2**60))], [math.nan if gaps else 5.0]]
    np.testing.assert_array_equal(everything(read_rows(table, RowFormat(1, ("id",)))), expected)


def test_a_column_whose_labels_were_all_missing_knows_none() -> None:
    """Every number is a category that was not seen."""
    format_ = RowFormat(1, categories={0: ()}, numbers_are_codes=False)
    np.testing.assert_array_equal(everything(read_rows([[1.0], [math.nan]], format_)), [[math.nan]] * 2)


# -- every kind of table -------------------------------------------------------------------------------

TABLES: dict[str, Callable[[], Any]] = {
    "float64": lambda: NUMBERS,
    "float32": lambda: NUMBERS.astype(np.float32),
    "float16": lambda: NUMBERS.astype(np.float16),
    "Fortran order": lambda: np.asfortranarray(NUMBERS),
    "every second row": lambda: np.repeat(NUMBERS, 2, axis=0)[::2],
    "read-only": lambda: np.broadcast_to(NUMBERS, (1, 2, 3))[0],
    "objects": lambda: NUMBERS.astype(object),
    "decimals": lambda: np.array([[Decimal(str(x)) for x in row] for row in NUMBERS], dtype=object),
    "list of lists": lambda: NUMBERS.tolist(),
    "list of arrays": lambda: list(NUMBERS),
    "masked": lambda: np.ma.masked_array(NUMBERS),
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas shuffled": lambda: pd.DataFrame(SHUFFLED),
    "pandas without names": lambda: pd.DataFrame(NUMBERS),
    "pandas mixed": lambda: pd.DataFrame(SHUFFLED).astype({"age": "float32", "rank": int}),
    "pandas nullable": lambda: pd.DataFrame(SHUFFLED).astype({"age": "Float64", "rank": "Int64"}),
    "pandas Arrow": lambda: pd.DataFrame(SHUFFLED).astype("double[pyarrow]"),
    "pandas objects": lambda: pd.DataFrame(SHUFFLED).astype(object),
    "pandas sparse": lambda: pd.DataFrame(SHUFFLED).astype(pd.SparseDtype(float)),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "polars shuffled": lambda: pl.DataFrame(SHUFFLED).with_columns(pl.col("rank").cast(pl.Int8)),
    "Arrow table": lambda: pa.table(SHUFFLED),
    "Arrow batch": lambda: pa.RecordBatch.from_pydict(SHUFFLED),
    "CSR": lambda: sparse.csr_matrix(NUMBERS),
    "CSC": lambda: sparse.csc_matrix(NUMBERS),
    "COO": lambda: sparse.coo_array(NUMBERS),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_of_table_gives_the_same_numbers(kind: str, dtype: Any) -> None:
    """C-contiguous, of the model's type, columns in the model's order."""
    rows = read_rows(TABLES[kind](), RowFormat(3, NAMES, dtype=dtype))
    assert len(rows) == 2
    array = everything(rows)
    assert array.dtype == dtype
    assert array.flags.c_contiguous
    np.testing.assert_array_equal(array, NUMBERS)
    np.testing.assert_array_equal(rows[1:2], NUMBERS[1:])


ONE_ROW: dict[str, Callable[[], Any]] = {
    "array": lambda: NUMBERS[0],
    "list": lambda: NUMBERS[0].tolist(),
    "tuple": lambda: tuple(NUMBERS[0]),
    "pandas Series": lambda: pd.Series(NUMBERS[0], index=NAMES),
    "pandas Series shuffled": lambda: pd.DataFrame(SHUFFLED).iloc[0],
    "pandas Series of objects": lambda: pd.Series(NUMBERS[0], index=NAMES, dtype=object),
    "polars Series": lambda: pl.Series(NUMBERS[0]),
    "Arrow array": lambda: pa.chunked_array([NUMBERS[0]]),
}


@pytest.mark.parametrize("kind", ONE_ROW)
def test_one_dimension_is_one_row(kind: str) -> None:
    """A Series is matched by name where it has names."""
    np.testing.assert_array_equal(everything(read_rows(ONE_ROW[kind](), NAMED)), NUMBERS[:1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_ready_array_is_not_copied(dtype: Any) -> None:
    """The common case costs nothing."""
    ready = NUMBERS.astype(dtype)
    assert np.shares_memory(everything(read_rows(ready, RowFormat(3, dtype=dtype))), ready)


@pytest.mark.parametrize("kind", ["float64", "pandas", "polars", "CSR"])
def test_no_rows_are_fine(kind: str) -> None:
    """Zero rows give an array of shape (0, n_features)."""
    table = TABLES[kind]()
    assert everything(read_rows(table[:0], NAMED)).shape == (0, 3)


def test_the_index_of_a_pandas_frame_is_kept() -> None:
    """Results can be labelled like the input."""
    frame = pd.DataFrame(COLUMNS, index=["x", "y"])
    rows = read_rows(frame, NAMED)
    assert list(rows.row_labels) == ["x", "y"]
    assert rows.frame is frame
    assert list(read_rows(frame.loc["y"], NAMED).row_labels) == ["y"]
    assert read_rows(NUMBERS, NAMED).row_labels is None


def test_made_up_names_are_matched_by_position() -> None:
    """A model trained on an array may call its columns f0, f1, …; a frame's names then do not matter."""
    made_up = RowFormat(3, ("Column_0", "Column_1", "Column_2"))
    np.testing.assert_array_equal(everything(read_rows(pd.DataFrame(COLUMNS), made_up)), NUMBERS)


def test_beyond_float32_is_infinity_without_a_warning() -> None:
    """As the libraries' own casts do."""
    array = everything(read_rows([[1e300, -1e300, 1e-300]], RowFormat(3, dtype="float32")))
    np.testing.assert_array_equal(array, [[np.inf, -np.inf, 0]])


# -- missing values ------------------------------------------------------------------------------------

GAPS: dict[str, Callable[[], Any]] = {
    "NaN": lambda: [[math.nan, 1.0, True]],
    "None": lambda: [[None, 1, True]],
    "pandas NA": lambda: np.array([[pd.NA, 1, True]], dtype=object),
    "masked": lambda: np.ma.masked_array([[7, 1, 1]], mask=[[True, False, False]]),
    "pandas object": lambda: pd.DataFrame([[None, 1, True]], columns=NAMES, dtype=object),
    "pandas nullable": lambda: pd.DataFrame([[None, 1, True]], columns=NAMES).astype(
        {"age": "Int64", "rank": "boolean"}
    ),
    "pandas Arrow": lambda: pd.DataFrame([[None, 1, 1]], columns=NAMES).astype("int64[pyarrow]"),
    "polars": lambda: pl.DataFrame([[None, 1, True]], schema=NAMES, orient="row"),
    "Arrow": lambda: pa.table({"age": pa.array([None], pa.int32()), "size": [1], "rank": [True]}),
}


@pytest.mark.parametrize("kind", GAPS)
def test_whatever_stands_for_missing_becomes_nan(kind: str) -> None:
    """None, NA, null and masked entries, among whole numbers and truth values."""
    np.testing.assert_array_equal(everything(read_rows(GAPS[kind](), NAMED)), [[math.nan, 1, 1]])


@pytest.mark.parametrize("to_table", [np.asarray, pd.DataFrame, sparse.csr_matrix])
def test_the_model_says_what_counts_as_missing(to_table: Callable[[Any], Any]) -> None:
    """A chosen number everywhere, and zero in chosen columns; the user's own array stays as it was."""
    given = np.array([[-999.0, 0.0, 0.0], [1.0, 1e-36, 1e-30]])
    format_ = RowFormat(3, missing_value=-999.0, zero_is_missing=frozenset({1}))
    before = given.copy()
    expected = [[math.nan, math.nan, 0], [1, math.nan, 1e-30]]
    np.testing.assert_array_equal(everything(read_rows(to_table(given), format_)), expected)
    np.testing.assert_array_equal(given, before)


@pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix, sparse.csr_array])
def test_absent_entries_mean_zero_or_missing(make: Callable[..., Any]) -> None:
    """What is stored is a value, also a stored zero; what is not stored is what the library says."""
    matrix = make((np.array([5.0, 0.0, 7.0]), (np.array([0, 0, 1]), np.array([0, 1, 2]))), shape=(2, 3))
    assert matrix.nnz == 3, "the stored zero must be stored"
    np.testing.assert_array_equal(everything(read_rows(matrix, RowFormat(3))), [[5, 0, 0], [0, 0, 7]])
    nan = math.nan
    absent = RowFormat(3, absent_is_missing=True)
    np.testing.assert_array_equal(everything(read_rows(matrix, absent)), [[5, 0, nan], [nan, nan, 7]])


def test_sparse_entries_stored_twice_add_up() -> None:
    """SciPy defines an entry that is stored twice as the sum."""
    matrix = sparse.csr_matrix((np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    absent = RowFormat(3, absent_is_missing=True)
    np.testing.assert_array_equal(everything(read_rows(matrix, absent)), [[math.nan, 3, math.nan]])


# -- categories ----------------------------------------------------------------------------------------

COLOURS = RowFormat(2, ("colour", "age"), categories={0: ("red", "green", "blue")})
PAINTED = ["blue", "red", None, "mauve"]

LABELS: dict[str, Callable[[], Any]] = {
    "pandas categorical": lambda: pd.DataFrame({"colour": pd.Categorical(PAINTED), "age": 1.0}),
    "pandas text": lambda: pd.DataFrame({"age": 1.0, "colour": pd.array(PAINTED, dtype="string")}),
    "pandas object": lambda: pd.DataFrame({"colour": pd.Series(PAINTED, dtype=object), "age": 1.0}),
    "polars text": lambda: pl.DataFrame({"colour": PAINTED, "age": [1.0] * 4}),
    "polars categorical": lambda: pl.DataFrame(
        {"colour": PAINTED, "age": [1.0] * 4}, schema_overrides={"colour": pl.Categorical}
    ),
    "Arrow dictionary": lambda: pa.table({"colour": pa.array(PAINTED).dictionary_encode(), "age": [1.0] * 4}),
    "list of lists": lambda: [[label, 1.0] for label in PAINTED],
}


@pytest.mark.parametrize("kind", ["pandas categories", "text", "polars", "objects"])
def test_a_label_that_is_not_known_may_be_a_category_of_its_own(kind: str) -> None:
    """Its code is in no set then, and what is missing stays missing; of labels that are numbers as well."""
    words = ["green", None, "pink", "red"]
    tables: dict[str, Any] = {
        "pandas categories": pd.DataFrame({"colour": pd.Categorical(words)}),
        "text": pd.DataFrame({"colour": pd.Series(words, dtype=object)}),
        "polars": pl.DataFrame({"colour": words}),
        "objects": np.array(words, dtype=object)[:, None],
    }
    X = tables[kind]
    format_ = RowFormat(
        1, ("colour",), categories={0: ("red", "green")}, numbers_are_codes=False, unknown_is_missing=False
    )
    np.testing.assert_array_equal(everything(read_rows(X, format_)), [[1], [np.nan], [2], [0]])
    years = RowFormat(1, categories={0: (1990, 2000)}, numbers_are_codes=False, unknown_is_missing=False)
    found = everything(read_rows(np.array([[2000], [np.nan], [1995]]), years))
    np.testing.assert_array_equal(found, [[1], [np.nan], [2]])


@pytest.mark.parametrize("numbers_are_codes", [True, False])
@pytest.mark.parametrize("kind", LABELS)
def test_labels_become_the_models_codes(kind: str, numbers_are_codes: bool) -> None:
    """Whatever order the frame's own categories are in; a label the model has not seen is missing."""
    format_ = RowFormat(
        2, COLOURS.feature_names, categories=COLOURS.categories, numbers_are_codes=numbers_are_codes
    )
    array = everything(read_rows(LABELS[kind](), format_))
    np.testing.assert_array_equal(array, [[2, 1], [0, 1], [math.nan, 1], [math.nan, 1]])


def test_numbers_in_a_labelled_column_are_codes_or_labels_as_the_library_has_it() -> None:
    """LightGBM and XGBoost take codes; HistGradientBoosting knows the numbers themselves as labels."""
    years: dict[int, tuple[Label, ...]] = {0: (1999, 2024, 2001.0)}
    X = [[2024.0], [2001.0], [1.5], [math.nan]]
    labels = everything(read_rows(X, RowFormat(1, categories=years, numbers_are_codes=False)))
    np.testing.assert_array_equal(labels, [[1], [2], [math.nan], [math.nan]])
    codes = everything(read_rows(X, RowFormat(1, categories=years, numbers_are_codes=True)))
    np.testing.assert_array_equal(codes, X)


def test_truth_values_may_be_labels() -> None:
    """A column of booleans that was trained on as categories."""
    format_ = RowFormat(1, ("flag",), categories={0: (False, True)}, numbers_are_codes=False)
    np.testing.assert_array_equal(
        everything(read_rows(pd.DataFrame({"flag": [True, False]}), format_)), [[1], [0]]
    )


def test_a_categorical_column_without_known_labels_is_what_the_library_sees() -> None:
    """XGBoost and LightGBM see the codes, scikit-learn the labels."""
    frame = pd.DataFrame({"a": pd.Categorical([30, 10, None])})
    codes = everything(read_rows(frame, RowFormat(1, ("a",))))
    np.testing.assert_array_equal(codes, [[1], [0], [math.nan]])
    labels = everything(read_rows(frame, RowFormat(1, ("a",), numbers_are_codes=False)))
    np.testing.assert_array_equal(labels, [[30], [10], [math.nan]])


# -- errors --------------------------------------------------------------------------------------------

WIDE = RowFormat(8, tuple("abcdefgh"))

REFUSED: dict[str, tuple[Callable[[], Any], RowFormat, str]] = {
    "too wide": (lambda: np.zeros((2, 4)), NAMED, "has 4 columns but the model was trained on 3"),
    "one column as one row": (lambda: np.zeros(4), NAMED, "for one column use X.reshape"),
    "wide sparse": (lambda: sparse.csr_matrix((2, 4)), NAMED, "has 4 columns"),
    "wide frame without names": (lambda: pd.DataFrame(np.zeros((2, 4))), RowFormat(3), "has 4 columns"),
    "three dimensions": (lambda: np.zeros((2, 3, 1)), NAMED, r"got shape \(2, 3, 1\)"),
    "a number": (lambda: 3.0, NAMED, r"got shape \(\)"),
    "ragged": (lambda: [[1, 2, 3], [1, 2]], NAMED, "rows differ in length"),
    "complex": (lambda: np.zeros((2, 3), dtype=complex), NAMED, "got an array of complex128"),
    "complex sparse": (
        lambda: sparse.csr_matrix((2, 3), dtype=complex),
        NAMED,
        "sparse matrix of complex128",
    ),
    "dates": (lambda: np.zeros((2, 3), dtype="M8[s]"), NAMED, "got an array of datetime64"),
    "records": (lambda: np.zeros(2, dtype=[("a", float)]), NAMED, "real numbers"),
    "text": (lambda: [[1, 2, "tall"]], NAMED, "column 'rank', row 0, a number was expected, got 'tall'"),
    "text that looks like a number": (lambda: np.array([["1", "2", "3"]]), NAMED, "got '1'.*astype"),
    "text without names": (lambda: [[1, 2, "tall"]], RowFormat(3), "In column 2, row 0"),
    "a whole number beyond floats": (lambda: [[1, 2, 10**400]], NAMED, "column 'rank', row 0, a number"),
    "date object": (lambda: np.array([[1, 2, np.datetime64("2020")]], dtype=object), NAMED, "datetime64"),
    "complex object": (lambda: np.array([[1, 2, 3j]], dtype=object), NAMED, "got 3j"),
    "missing column": (lambda: pd.DataFrame(COLUMNS).drop(columns="age"), NAMED, "Missing: 'age'."),
    "renamed column": (
        lambda: pl.DataFrame(COLUMNS).rename({"age": "years"}),
        NAMED,
        "Missing: 'age'. Unexpected: 'years'.",
    ),
    "many missing columns": (
        lambda: pd.DataFrame({"a": [1], "z": [2]}),
        WIDE,
        r"Missing: 'b', 'c', 'd', 'e', 'f', … \(7 in all\)",
    ),
    "column twice": (
        lambda: pd.DataFrame([[1, 2, 3]], columns=["age", "age", "rank"]),
        NAMED,
        "more than one column of the name 'age'",
    ),
    "arrow column twice": (
        lambda: pa.table([[1], [2], [3]], names=["age", "age", "rank"]),
        NAMED,
        "more than one column of the name 'age'",
    ),
    "text column": (lambda: pd.DataFrame(COLUMNS | {"size": ["a", "b"]}), NAMED, "column 'size'.*got 'a'"),
    "polars text column": (
        lambda: pl.DataFrame(COLUMNS | {"size": ["a", "b"]}),
        NAMED,
        "column 'size'.*got 'a'",
    ),
    "text categories": (
        lambda: pd.DataFrame(COLUMNS | {"size": pd.Categorical(["a", "b"])}),
        RowFormat(3, NAMES, numbers_are_codes=False),
        "column 'size'.*got 'a'",
    ),
    "date column": (
        lambda: pd.DataFrame(COLUMNS | {"size": pd.to_datetime(["2020-01-01"] * 2)}),
        NAMED,
        "column 'size' numbers were expected, got Datetime",
    ),
    "list column": (lambda: pl.DataFrame(COLUMNS | {"size": [[1], [2]]}), NAMED, "got List"),
    "polars categories without labels": (
        lambda: pl.DataFrame(COLUMNS | {"size": ["a", "b"]}, schema_overrides={"size": pl.Categorical}),
        NAMED,
        "does not know labels",
    ),
    "a list of dictionaries": (
        lambda: [dict.fromkeys(NAMES, 1.0)] * 2,
        NAMED,
        r"X is a list of dictionaries.*DataFrame\(X\)",
    ),
    "infinity for a hashed label": (
        lambda: [[np.inf]],
        RowFormat(1, hashes={0: (7,)}, numbers_are_codes=False),
        "got inf",
    ),
    "a list for a hashed label": (
        lambda: pd.DataFrame({"a": [[1]]}, dtype=object),
        RowFormat(1, hashes={0: (7,)}, numbers_are_codes=False),
        "category must be text or a number",
    ),
    "numbers for text labels": (
        lambda: [[1.0, 2.0]],
        RowFormat(2, categories={0: ("red",)}, numbers_are_codes=False),
        "column 0 the model knows categories such as 'red', got the number 1.0",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_rows_that_do_not_fit_say_why(case: str) -> None:
    """What was expected, what came, and in which column."""
    make, row_format, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        everything(read_rows(make(), row_format))


# -- names -----------------------------------------------------------------------------------------------


class CountedName(str):
    """A name that counts how often names are compared or hashed."""

    __slots__ = ()
    uses = 0

    def __eq__(self, other: object) -> bool:
        CountedName.uses += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        CountedName.uses += 1
        return str.__hash__(self)


@pytest.mark.parametrize("prefix", ["f", "Column_", "", "name"])
def test_matching_names_takes_a_few_steps_for_each_column(prefix: str) -> None:
    """Whether they are the model's, made up, or in another order."""
    n = 2000
    names = [f"{prefix}{i}" for i in range(n)]
    for columns in (names, names[::-1], [f"x{i}" for i in range(n)] if prefix != "name" else names):
        row_format = RowFormat(n, tuple(map(CountedName, names)))
        CountedName.uses = 0
        match_columns([CountedName(name) for name in columns], row_format)
        assert CountedName.uses <= 30 * n


def test_names_are_matched_once_however_rows_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame, a frame in another order, and one row of it."""
    calls = []

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return match_columns(*arguments)

    frame = pd.DataFrame(COLUMNS)
    model = pytest.importorskip("sklearn.tree").DecisionTreeRegressor().fit(frame[list(NAMES)], [1.0, 2.0])
    explainer = TreeExplainer(model)
    monkeypatch.setattr("linear_treeshap.rows.frames.match_columns", counted)
    for X in (frame, frame[frame.columns[::-1]], frame.iloc[0], pl.DataFrame(COLUMNS), pa.table(COLUMNS)):
        calls.clear()
        explainer.shap_values(X, check_additivity=False)
        assert len(calls) == 1


def test_made_up_names_are_numbers_in_their_order() -> None:
    assert is_numbering(["f0", "Column_1", "2", "feature_3", "x4", "column_5"])
    for names in (["f1", "f0"], ["f0", "f01"], ["f0", "g1"], ["f0", "f1 "], ["f\u0660"]):
        assert not is_numbering(names)


def test_many_columns_of_one_name_are_refused_at_once() -> None:
    """Not by counting each of them anew."""
    names = [f"c{i % 50_000}" for i in range(100_000)]
    start = time.process_time()
    with pytest.raises(InputError, match=r"more than one column of the name 'c0'.*50000 in all"):
        match_columns(names, RowFormat(100_000))
    assert time.process_time() - start < 5.0  # takes 0.1; counting each took minutes


@pytest.mark.parametrize("number", [2**53 + 1, 2**63 - 1])
def test_whole_numbers_of_arrow_are_rounded_as_all_others(number: int) -> None:
    """Arrow itself refuses to round them."""
    table = pa.table({"a": pa.array([number, None], pa.int64())})
    (first, second) = everything(read_rows(table, RowFormat(1, ("a",))))[:, 0]
    assert (first, math.isnan(second)) == (float(number), True)


DTYPES: tuple[Literal["float32", "float64"], ...] = ("float32", "float64")


def test_numbers_are_looked_up_for_models_of_either_dtype() -> None:
    """Tables are float32; a sum with a model of float64 has that dtype."""
    numbers = np.arange(6, dtype=np.float32).reshape(3, 2)
    lookup = Lookup((0,), (), (), np.array([3, 7], dtype=np.uint64), numbers)
    for n_rows in (2, 40):  # a table of what occurs, or row by row
        rows = np.resize(np.array([3.0, 9.0]), (n_rows, 1))
        formats = [RowFormat(1, dtype=dtype, hashes={0: (3, 9)}, lookups=(lookup,)) for dtype in DTYPES]
        narrow, wide = (with_lookups(rows, one) for one in formats)
        assert [one.dtype for one in (narrow, wide)] == [np.float32, np.float64]
        np.testing.assert_array_equal(narrow, wide)


def test_numbers_are_those_of_each_row_s_key() -> None:
    """By its definition, row by row. Many rows are looked up by all keys that they could have."""
    rng = np.random.default_rng(0)
    above, equal = Above(1, 0.5, True), Equal(2, -3)
    parts = {0: (0, 2), 1: (0,), 2: (2,)}  # by lookup, categories
    lookups = tuple(_lookup(rng, parts[i], (above,) * (i < 2), (equal,) * (i != 1)) for i in range(3))
    known = {0: (5, -7, 2**31 - 1), 2: (-3, 11)}
    for dtype in DTYPES:
        row_format = RowFormat(3, dtype=dtype, hashes=known, lookups=lookups)
        for n_rows in (0, 1, 5, 300):
            rows = np.stack(
                [
                    rng.choice([5.0, -7.0, 2.0**31 - 1, 8.0, np.nan], n_rows),
                    rng.choice([0.0, 0.5, 1.0, np.nan, np.inf, 1e300], n_rows),
                    rng.choice([-3.0, 11.0, np.nan], n_rows),
                ],
                axis=1,
            )
            expected = np.array([_row_by_key(row, row_format) for row in rows])
            for order in ("C", "F"):  # as arrays lie in memory, and as columns of frames
                found = with_lookups(np.array(rows, order=order), row_format)
                assert (found.dtype, found.flags.c_contiguous) == (row_format.numpy_dtype, True)
                if n_rows:
                    np.testing.assert_array_equal(found, expected.astype(dtype))


_MULTIPLIER = 0x4906BA494954CB65


def _key(parts: list[int]) -> int:
    key = 0
    for part in parts:
        key = _MULTIPLIER * (key + _MULTIPLIER * part) % 2**64
    return key


def _lookup(rng: np.random.Generator, categories: Any, above: Any, equal: Any) -> Lookup:
    """A table of two thirds of the keys that rows can have."""
    values = [[5, -7, 2**31 - 1, 8] if column == 0 else [-3, 11] for column in categories]
    keys = [_key(list(one)) for one in product(*values, *[[0, 1]] * (len(above) + len(equal)))]
    kept = np.sort(rng.choice(np.array(keys, dtype=np.uint64), len(keys) * 2 // 3, replace=False))
    return Lookup(categories, above, equal, kept, rng.normal(size=(len(kept) + 1, 2)).astype(np.float32))


def _row_by_key(row: Any, row_format: RowFormat) -> list[float]:
    """Codes, numbers, and what is looked up for them."""
    with np.errstate(over="ignore"):
        number = row.astype(row_format.dtype)
    out = [
        row_format.hashes[f].index(int(row[f]))
        if f in row_format.hashes and row[f] in row_format.hashes[f]
        else (np.nan if f in row_format.hashes else number[f])
        for f in range(3)
    ]
    for lookup in row_format.lookups:
        categories = [row[column] for column in lookup.categories]
        answers = [
            a.if_missing if np.isnan(row[a.column]) else number[a.column] > a.border for a in lookup.above
        ]
        answers += [row[e.column] == e.hash for e in lookup.equal]
        place = len(lookup.keys)
        if not np.isnan(categories).any():
            key = _key([*map(int, categories), *map(int, answers)])
            place = lookup.keys.tolist().index(key) if key in lookup.keys.tolist() else place
        out += lookup.numbers[place].tolist()
    return out
