"""LightGBM and the categorical columns of data frames: labels go where LightGBM itself puts them.

The model keeps the labels of these columns and their order, and never says which features they are; at
prediction the categorical columns of the frame decide. Every claim is compared with LightGBM's own
contributions, feature by feature: labels on a wrong column would show there and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from linear_treeshap import TreeExplainer, load
from linear_treeshap.cli.main import main
from linear_treeshap.errors import InputError

lightgbm = pytest.importorskip("lightgbm")
pd = pytest.importorskip("pandas")

N_ROWS = 500
DATA_VARIABLE = "LINEAR_TREESHAP_DATA"
#: Sums of a few dozen leaves in another order.
RTOL, ATOL = 1e-10, 1e-12


def _train(frame: Any, y: Any, categorical_feature: Any = "auto", **options: Any) -> Any:
    parameters = {"n_estimators": 20, "num_leaves": 15, "min_child_samples": 5, "min_data_per_group": 1}
    model = lightgbm.LGBMRegressor(**parameters, **options, cat_smooth=1.0, n_jobs=1, verbose=-1)
    return model.fit(frame, y, categorical_feature=categorical_feature)


def _columns(seed: int = 0) -> dict[str, Any]:
    """A constant category, a category, integers, a number, and a constant."""
    rng = np.random.default_rng(seed)
    return {
        "k": pd.Categorical(["only"] * N_ROWS),
        "c": pd.Categorical(rng.choice(list("xyz"), N_ROWS)),
        "i": rng.integers(0, 3, N_ROWS),
        "a": rng.normal(size=N_ROWS),
        "zero": np.zeros(N_ROWS),
        "o": pd.Categorical(
            rng.choice(["low", "middle", "high"], N_ROWS), ["low", "middle", "high"], ordered=True
        ),
    }


def _outcome(frame: Any) -> npt.NDArray[np.float64]:
    y = np.asarray(frame["a"], dtype=np.float64)
    for weight, name in ((2.0, "c"), (3.0, "o")):
        if name in frame:
            y = y + weight * np.sin(frame[name].cat.codes.to_numpy() * 2.0)
    return y + np.where(frame["i"] == 1, 1.5, 0.0) * y if "i" in frame else y


def _case(*names: str, categorical_feature: Any = "auto") -> tuple[Any, Any]:
    frame = pd.DataFrame({name: _columns()[name] for name in names})
    return _train(frame, _outcome(frame), categorical_feature), frame


CASES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "a dropped category before, integers after": lambda: _case(
        "k", "c", "i", "a", categorical_feature=["k", "c", "i"]
    ),
    "a dropped category after, a dropped number": lambda: _case("a", "zero", "c", "k"),
    "an ordered category beside integers": lambda: _case("a", "o", "i"),
    "integers beside an ordered category": lambda: _case("i", "a", "o"),
    "an ordered category and integers that are split as categories": lambda: _case(
        "i", "o", "a", categorical_feature=["i"]
    ),
    "a category that is split as numbers": lambda: _case("i", "c", "a", categorical_feature=["i"]),
    "a category and integers that are split as categories": lambda: _case(
        "i", "c", "a", categorical_feature=["i", "c"]
    ),
    "everything": lambda: _case("zero", "k", "o", "i", "c", "a"),
}


@cache
def _load(case: str) -> tuple[Any, Any, TreeExplainer]:
    model, frame = CASES[case]()
    return model, frame, TreeExplainer(model)


def _own(model: Any, rows: Any) -> npt.NDArray[np.float64]:
    return np.asarray(model.booster_.predict(rows, pred_contrib=True))[:, :-1]


def _messy(frame: Any) -> Any:
    """Categories in another order, some not seen in training, some missing."""
    messy = frame.copy()
    for position, name in enumerate(name for name in frame if frame[name].dtype == "category"):
        column = frame[name].astype(object)
        column[position::7], column[3 + position :: 11] = "unseen", None
        labels = [*frame[name].cat.categories[::-1], "unseen"]
        messy[name] = pd.Categorical(column, labels, ordered=bool(frame[name].cat.ordered))
    return messy


@pytest.mark.parametrize("case", CASES)
def test_labels_belong_to_the_categorical_columns_of_the_frame(case: str) -> None:
    model, frame, explainer = _load(case)
    for rows in (frame, _messy(frame), frame[frame.columns[::-1]]):
        values = explainer.shap_values(rows)
        in_order = rows[frame.columns]
        position = [list(rows.columns).index(name) for name in frame.columns]
        np.testing.assert_allclose(values[:, position], _own(model, in_order), rtol=RTOL, atol=ATOL)


def _polars(frame: Any) -> Any:
    """Made column by column: polars reads pandas' categories of text only."""
    pl = pytest.importorskip("polars")
    return pl.DataFrame(
        {
            name: pl.Series(_texts(frame)[name].tolist(), dtype=pl.Categorical)
            if frame[name].dtype == "category"
            else frame[name].to_numpy()
            for name in frame
        }
    )


def _arrow(frame: Any) -> Any:
    return pytest.importorskip("pyarrow").Table.from_pandas(frame)


def _texts(frame: Any) -> Any:
    """Objects, None where a category is missing."""
    texts = frame.astype({name: object for name in frame if frame[name].dtype == "category"})
    return texts.where(texts.notna(), None)


def _codes(frame: Any, labels_of: Any) -> Any:
    """What LightGBM makes of the frame."""
    columns = {}
    for name in frame:
        if frame[name].dtype == "category":
            codes = frame[name].cat.set_categories(labels_of[name].cat.categories).cat.codes
            columns[name] = codes.astype(np.float64).where(codes >= 0, np.nan)
        else:
            columns[name] = frame[name]
    return pd.DataFrame(columns)


KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "polars": lambda frame, _: _polars(frame),
    "Arrow": lambda frame, _: _arrow(frame),
    "text": lambda frame, _: _texts(frame),
    "an array of objects": lambda frame, _: _texts(frame).to_numpy(dtype=object),
    "lists": lambda frame, _: _texts(frame).to_numpy(dtype=object).tolist(),
    "an array of codes": lambda frame, trained: _codes(frame, trained).to_numpy(dtype=np.float64),
    "a frame of codes": _codes,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_whatever_the_rows_are_in(case: str, kind: str) -> None:
    model, frame, explainer = _load(case)
    rows = _messy(frame)
    values = explainer.shap_values(KINDS[kind](rows, frame))
    np.testing.assert_allclose(values, _own(model, rows), rtol=RTOL, atol=ATOL)


@pytest.mark.parametrize("case", CASES)
def test_one_row_and_one_row_that_lost_its_types(case: str) -> None:
    model, frame, explainer = _load(case)
    expected = _own(model, frame)
    for row in range(5):
        np.testing.assert_allclose(
            explainer.shap_values(frame.iloc[[row]])[0], expected[row], rtol=RTOL, atol=ATOL
        )
        np.testing.assert_allclose(
            explainer.shap_values(frame.iloc[row]), expected[row], rtol=RTOL, atol=ATOL
        )


@pytest.mark.parametrize("case", CASES)
def test_files_keep_what_is_known(case: str, tmp_path: Path) -> None:
    """LightGBM's text and our own file: neither has a frame to look at."""
    model, frame, explainer = _load(case)
    text, saved = tmp_path / "model.txt", tmp_path / "model.lts"
    model.booster_.save_model(text)
    explainer.save(saved)
    assert load(saved).row_format == explainer.ensemble.row_format
    rows = _messy(frame)
    for again in (TreeExplainer(text), TreeExplainer.load(saved)):
        np.testing.assert_allclose(again.shap_values(rows), _own(model, rows), rtol=RTOL, atol=ATOL)
        np.testing.assert_allclose(again.shap_values(_arrow(rows)), _own(model, rows), rtol=RTOL, atol=ATOL)


@pytest.mark.parametrize("case", CASES)
def test_interactions_and_backgrounds_read_rows_the_same_way(case: str) -> None:
    model, frame, explainer = _load(case)
    rows = _messy(frame)[:40]
    pairs = explainer.shap_interaction_values(rows)
    np.testing.assert_allclose(pairs.sum(axis=2), _own(model, rows), rtol=1e-9, atol=1e-10)
    background = TreeExplainer(model, data=rows)
    assert background.expected_value == pytest.approx(model.predict(rows).mean(), rel=1e-12)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("case", CASES)
def test_the_command_line_reads_text_as_categories(case: str, suffix: str, tmp_path: Path) -> None:
    model, frame, _ = _load(case)
    rows = _messy(frame)[:50]
    model.booster_.save_model(tmp_path / "model.txt")
    if suffix == ".csv":
        rows.to_csv(tmp_path / "rows.csv", index=False)
    else:
        rows.to_parquet(tmp_path / "rows.parquet")
    out = tmp_path / "values.parquet"
    assert (
        main(["explain", str(tmp_path / "model.txt"), str(tmp_path / f"rows{suffix}"), "-o", str(out)]) == 0
    )
    values = pd.read_parquet(out)[list(frame.columns)].to_numpy()
    np.testing.assert_allclose(values, _own(model, rows), rtol=RTOL, atol=ATOL)


def test_numbers_of_a_file_without_types_are_labels(tmp_path: Path) -> None:
    """A CSV file has no type for categories; 20 in a column of the labels 10, 20, 30 is no code."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"year": pd.Categorical(rng.choice([30, 10, 20], N_ROWS)), "a": rng.normal(size=N_ROWS)}
    )
    model = _train(frame, np.sin(frame["year"].astype(int)) + frame["a"])
    model.booster_.save_model(tmp_path / "model.txt")
    frame[:50].to_csv(tmp_path / "rows.csv", index=False)
    out = tmp_path / "values.parquet"
    assert main(["explain", str(tmp_path / "model.txt"), str(tmp_path / "rows.csv"), "-o", str(out)]) == 0
    values = pd.read_parquet(out)[["year", "a"]].to_numpy()
    np.testing.assert_allclose(values, _own(model, frame[:50]), rtol=RTOL, atol=ATOL)


def test_what_nothing_decides_is_refused_with_a_word() -> None:
    """One text column for two categorical ones, and which two is not written anywhere."""
    _, frame, explainer = _load("everything")
    rows = _texts(frame).assign(o=frame["o"].cat.codes)
    with pytest.raises(InputError, match=r"trained on 3 categorical columns .* X has 2 such columns"):
        explainer.shap_values(rows)


def _many_columns() -> tuple[Any, Any]:
    """Dozens of categories, some of which hardly vary, beside small integers and constants."""
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {}
    for number in range(40):
        n_labels = int(rng.integers(2, 8))
        share = 0.001 if number % 10 == 0 else 0.5
        codes = np.where(rng.random(N_ROWS) < share, rng.integers(n_labels, size=N_ROWS), 0)
        columns[f"c{number}"] = pd.Categorical.from_codes(codes, [f"v{label}" for label in range(n_labels)])
        columns[f"n{number}"] = (
            np.zeros(N_ROWS) if number % 8 == 3 else rng.integers(0, 5, N_ROWS).astype(np.float64)
        )
    frame = pd.DataFrame(columns)
    y = sum(rng.normal() * frame[f"c{i}"].cat.codes * (1 + frame[f"n{i}"]) for i in range(40))
    return frame, y


def test_many_categorical_columns_of_which_some_are_dropped() -> None:
    frame, y = _many_columns()
    model = _train(frame, y)
    text = model.booster_.model_to_string()
    assert text.partition("feature_infos=")[2].split("\n")[0].split().count("none") >= 5
    explainer = TreeExplainer(model)
    for rows in (frame, _messy(frame)):
        np.testing.assert_allclose(explainer.shap_values(rows), _own(model, rows), rtol=RTOL, atol=ATOL)
        # One missing text is enough for columns to be counted wrong: the model's parameters tell then.
        np.testing.assert_allclose(
            explainer.shap_values(_texts(rows).iloc[4]), _own(model, rows)[4], rtol=RTOL, atol=ATOL
        )


@pytest.mark.skipif(DATA_VARIABLE not in os.environ, reason=f"{DATA_VARIABLE} names no folder of data sets")
def test_ames_housing() -> None:
    """43 categorical columns of 79, one of which LightGBM drops, as it does a number."""
    frame = pd.read_parquet(Path(os.environ[DATA_VARIABLE]) / "ames_housing.parquet")
    y = frame.pop("SalePrice")
    frame = frame.drop(columns=[name for name in ("Order", "PID") if name in frame])
    frame = frame.astype({name: "category" for name in frame if frame[name].dtype.kind == "O"})
    model = lightgbm.LGBMRegressor(n_jobs=1, verbose=-1).fit(frame, y)
    explainer = TreeExplainer(model)
    for rows in (frame, _messy(frame)):
        # Dollars, of which a leaf may have a hundred thousand.
        np.testing.assert_allclose(explainer.shap_values(rows), _own(model, rows), rtol=1e-9, atol=1e-6)
