"""What the command line writes is what the library computes, from and to every format."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import cli_files
import numpy as np
import pytest
from cli_files import FEATURES, N_ROWS, read, run, table, target, write

from linear_treeshap import TreeExplainer, global_importance, save
from linear_treeshap.cli import data, models, rows
from linear_treeshap.streams import batch_explainer as streams

pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")

FORMATS = ["parquet", "feather", "csv"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cli_files.boosted(tmp_path_factory.mktemp("model") / "model.json")


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of three classes."""
    xgboost = pytest.importorskip("xgboost")
    path = tmp_path_factory.mktemp("model") / "model.ubj"
    frame = table()
    classifier = xgboost.XGBClassifier(n_estimators=4, max_depth=3, n_jobs=1)
    classifier.fit(frame[FEATURES], np.digitize(target(frame), [-0.5, 0.5])).save_model(path)
    return path


# -- formats ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("wanted", FORMATS)
def test_every_format_leads_to_every_format(source: str, wanted: str, model: Path, tmp_path: Path) -> None:
    """The same values to the last bit, and keys as they were, leading zeros included."""
    frame = table()
    path, out = write(frame, tmp_path / f"rows.{source}"), tmp_path / f"values.{wanted}"
    run("explain", model, path, "-o", out, "--key", "id")
    found = read(out)
    assert list(found.columns) == ["id", *FEATURES]
    assert found["id"].tolist() == frame["id"].tolist()
    expected = TreeExplainer(model).shap_values(frame[FEATURES])
    np.testing.assert_array_equal(found[FEATURES].to_numpy(), expected)


def test_columns_are_matched_by_name(model: Path, tmp_path: Path) -> None:
    """In any order; values are in the order of the file; other columns are left alone."""
    frame = table()
    path = write(frame[["city", "d", "b", "a", "id", "c"]], tmp_path / "rows.csv")
    run("explain", model, path, "-o", tmp_path / "values.parquet")
    found = read(tmp_path / "values.parquet")
    assert list(found.columns) == ["d", "b", "a", "c"]
    expected = TreeExplainer(model).shap_values(frame[FEATURES])
    np.testing.assert_array_equal(found[FEATURES].to_numpy(), expected)


def test_a_model_without_names_reads_columns_by_position(tmp_path: Path) -> None:
    """All that are not keys."""
    tree = pytest.importorskip("sklearn.tree")
    frame = table()
    fitted = tree.DecisionTreeRegressor(max_depth=4).fit(frame[FEATURES].to_numpy(), target(frame))
    TreeExplainer(fitted).save(tmp_path / "model.lts")
    path = write(frame, tmp_path / "rows.csv")
    run("explain", tmp_path / "model.lts", path, "-o", tmp_path / "v.csv", "--key", "id", "--key", "city")
    expected = TreeExplainer(fitted).shap_values(frame[FEATURES].to_numpy())
    np.testing.assert_array_equal(read(tmp_path / "v.csv")[FEATURES].to_numpy(), expected)


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_the_delimiter_of_csv_is_found(delimiter: str, model: Path, tmp_path: Path) -> None:
    """By the first line."""
    frame = table()
    frame.to_csv(tmp_path / "rows.csv", index=False, sep=delimiter)
    run("explain", model, tmp_path / "rows.csv", "-o", tmp_path / "values.csv")
    expected = TreeExplainer(model).shap_values(frame[FEATURES])
    np.testing.assert_array_equal(read(tmp_path / "values.csv").to_numpy(), expected)


def test_compressed_csv_is_read(model: Path, tmp_path: Path) -> None:
    """By its name, .csv.gz."""
    frame = table()
    path = write(frame, tmp_path / "rows.csv.gz")
    run("explain", model, path, "-o", tmp_path / "values.csv")
    assert len(read(tmp_path / "values.csv")) == N_ROWS


def test_whole_numbers_may_be_followed_by_others(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first piece of a CSV file looks like does not decide what may come after it."""
    monkeypatch.setattr(data, "_CSV_BLOCK", 1024)
    monkeypatch.setattr(data, "_CSV_LINES", 1)
    frame = table()
    frame.loc[: N_ROWS // 2, "a"] = 1
    lines = frame.to_csv(index=False).replace(",1.0,", ",1,")
    (tmp_path / "rows.csv").write_text(lines)
    run("explain", model, tmp_path / "rows.csv", "-o", tmp_path / "values.csv")
    expected = TreeExplainer(model).shap_values(frame[FEATURES])
    np.testing.assert_array_equal(read(tmp_path / "values.csv").to_numpy(), expected)


@pytest.mark.parametrize("source", FORMATS)
def test_batches_are_as_large_as_asked(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the pieces that a file is written or parsed in; and shares of the file rise to one."""
    monkeypatch.setattr(data, "_CSV_BLOCK", 1024)
    monkeypatch.setattr(data, "_CSV_LINES", 1)
    frame = table().astype({"city": "category"})
    opened = data.open_data(write(frame, tmp_path / f"rows.{source}"))
    read_ = [*opened.batches(["id", "city", "a"], 70, texts=["id"], numbers=["a"])]
    assert [batch.num_rows for batch, _ in read_] == [70, 70, 70, 70, 20]
    shares = [share for _, share in read_]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    for name in ("id", "city", "a"):
        found = [cell for batch, _ in read_ for cell in batch.column(name).to_pylist()]
        assert found == frame[name].tolist()


@pytest.mark.parametrize("source", FORMATS)
def test_missing_values_are_missing(source: str, model: Path, tmp_path: Path) -> None:
    """An empty cell of CSV, a null of the others."""
    frame = table()
    frame.loc[::3, "a"] = np.nan
    path = write(frame, tmp_path / f"rows.{source}")
    run("explain", model, path, "-o", tmp_path / "values.csv")
    expected = TreeExplainer(model).shap_values(frame[FEATURES])
    np.testing.assert_array_equal(read(tmp_path / "values.csv").to_numpy(), expected)


@pytest.mark.parametrize("source", FORMATS)
def test_no_rows_make_an_empty_table(source: str, model: Path, tmp_path: Path) -> None:
    """With its columns."""
    path = write(table().iloc[:0], tmp_path / f"rows.{source}")
    run("explain", model, path, "-o", tmp_path / "values.parquet", "--key", "id", "--base-values")
    found = read(tmp_path / "values.parquet")
    assert (list(found.columns), len(found)) == (["id", "base_value", *FEATURES], 0)


# -- shapes -----------------------------------------------------------------------------------------------


def test_batches_do_not_show(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are numbered through, whatever the size of a batch."""
    path = write(table(), tmp_path / "rows.feather")
    for name, most in (("one", 1 << 16), ("many", 64)):
        monkeypatch.setattr(streams, "_MIN_ROWS", 1)
        monkeypatch.setattr(streams, "_MAX_ROWS", most)
        run("explain", model, path, "-o", tmp_path / f"{name}.csv", "--layout", "long")
    found = read(tmp_path / "many.csv")
    pandas.testing.assert_frame_equal(found, read(tmp_path / "one.csv"))
    assert found["row"].tolist() == np.repeat(np.arange(N_ROWS), len(FEATURES)).tolist()


@pytest.mark.parametrize("shape", [["--layout", "wide"], ["--layout", "long"], ["--top", "2"]])
def test_every_layout_names_its_output_and_base_value(
    shape: list[str], classes: Path, tmp_path: Path
) -> None:
    """Three outputs; each line is checked against the explanation it came from."""
    frame = table()
    path = write(frame, tmp_path / "rows.parquet")
    run("explain", classes, path, "-o", tmp_path / "values.csv", "--key", "id", "--base-values", *shape)
    found = read(tmp_path / "values.csv")
    explanation = TreeExplainer(classes)(frame[FEATURES])
    names = list(explanation.output_names or ())
    row, output = found["id"].astype(int).to_numpy(), found["output"].map(names.index).to_numpy()
    np.testing.assert_array_equal(found["base_value"], explanation.base_values[row, output])
    if shape == ["--layout", "wide"]:
        assert list(found.columns) == ["id", "base_value", "output", *FEATURES]
        np.testing.assert_array_equal(found[FEATURES].to_numpy(), explanation.values[row, :, output])
    else:
        feature = found["feature"].map(FEATURES.index).to_numpy()
        np.testing.assert_array_equal(found["value"], explanation.values[row, feature, output])
        n_features = 2 if "--top" in shape else len(FEATURES)
        assert len(found) == N_ROWS * n_features * len(names)


@pytest.mark.parametrize("asked", ["1", "Output 1"])
def test_one_output_of_several(asked: str, classes: Path, tmp_path: Path) -> None:
    """By number; and by name where there is one, which XGBoost's files do not have."""
    frame = table()
    path = write(frame, tmp_path / "rows.parquet")
    explainer = TreeExplainer(classes)
    if asked != "1":
        classes = tmp_path / "named.lts"
        save(replace(explainer.ensemble, output_names=("Output 0", "Output 1", "Output 2")), classes)
    run("explain", classes, path, "-o", tmp_path / "values.csv", "--only", asked)
    expected = explainer.shap_values(frame[FEATURES])[:, :, 1]
    np.testing.assert_array_equal(read(tmp_path / "values.csv").to_numpy(), expected)


def test_float32_halves_the_values(model: Path, tmp_path: Path) -> None:
    """Each is rounded once."""
    frame = table()
    path = write(frame, tmp_path / "rows.parquet")
    run("explain", model, path, "-o", tmp_path / "values.parquet", "--float32")
    found = read(tmp_path / "values.parquet")
    assert set(found.dtypes) == {np.dtype(np.float32)}
    expected = TreeExplainer(model).shap_values(frame[FEATURES]).astype(np.float32)
    np.testing.assert_array_equal(found.to_numpy(), expected)


@pytest.mark.parametrize("given", ["file", "saved"])
def test_groups_of_columns_are_explained_together(given: str, model: Path, tmp_path: Path) -> None:
    """As a JSON file says, or as the explainer was saved."""
    groups = {"first": ["a", "b"]}
    frame = table()
    path = write(frame, tmp_path / "rows.parquet")
    explainer = TreeExplainer(model, groups=groups)
    if given == "file":
        (tmp_path / "groups.json").write_text(json.dumps(groups))
        arguments: list[object] = [model, path, "--groups", tmp_path / "groups.json"]
    else:
        explainer.save(tmp_path / "model.lts")
        arguments = [tmp_path / "model.lts", path]
    run("explain", *arguments, "-o", tmp_path / "values.csv")
    found = read(tmp_path / "values.csv")
    assert list(found.columns) == ["first", "c", "d"]
    np.testing.assert_array_equal(found.to_numpy(), explainer.shap_values(frame[FEATURES]))


@pytest.mark.parametrize("groups", [None, {"first": ["a", "b"]}])
def test_a_saved_explainer_is_explained_as_it_was_saved(
    groups: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its background and its output, and other groups if there are to be any."""
    pytest.importorskip("xgboost")
    from xgboost import XGBClassifier

    frame = table()
    fitted = XGBClassifier(n_estimators=5).fit(frame[FEATURES], frame["a"] > frame["b"])
    TreeExplainer(fitted, frame[FEATURES][:50], "probability").save(tmp_path / "model.lts")
    (tmp_path / "groups.json").write_text(json.dumps(groups))
    arguments: list[object] = [tmp_path / "model.lts", write(frame, tmp_path / "rows.parquet")]
    arguments += [] if groups is None else ["--groups", tmp_path / "groups.json"]
    run("explain", *arguments, "-o", tmp_path / "values.csv", "--base-values")
    explainer = TreeExplainer(fitted, frame[FEATURES][:50], "probability", groups=groups)
    found = read(tmp_path / "values.csv")
    assert (found.pop("base_value") == explainer.expected_value).all()
    np.testing.assert_array_equal(found.to_numpy(), explainer.shap_values(frame[FEATURES]))
    capsys.readouterr()
    run("info", tmp_path / "model.lts", "--json")
    facts = json.loads(capsys.readouterr().out)
    assert facts["explained"] == "probability"
    assert facts["background_rows"] == 50
    assert facts["base_values"] == [explainer.expected_value]


# -- categories -------------------------------------------------------------------------------------------


def _with_categories(library: str, folder: Path) -> tuple[Path, Any]:
    """A model file, and the frame that it was trained on."""
    frame = table()
    y = target(frame)
    if library == "catboost":
        catboost = pytest.importorskip("catboost")
        model = catboost.CatBoostRegressor(
            n_estimators=5, depth=3, one_hot_max_size=9, thread_count=1, allow_writing_files=False
        )
        X = frame[[*FEATURES, "city"]]
        model.fit(X, y, cat_features=["city"], verbose=False).save_model(str(folder / "model.cbm"))
        return folder / "model.cbm", X
    X = frame[[*FEATURES, "city"]].astype({"city": "category"})
    if library == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm")
        model = lightgbm.LGBMRegressor(n_estimators=5, min_data_per_group=1, n_jobs=1, verbose=-1).fit(X, y)
        model.booster_.save_model(folder / "model.txt")
        return folder / "model.txt", X
    ensemble = pytest.importorskip("sklearn.ensemble")
    model = ensemble.HistGradientBoostingRegressor(max_iter=5, categorical_features="from_dtype").fit(X, y)
    (folder / "model.pkl").write_bytes(pickle.dumps(model))
    return folder / "model.pkl", X


@pytest.mark.parametrize("source", [*FORMATS, "dictionary.parquet", "polars.parquet"])
@pytest.mark.parametrize("library", ["catboost", "lightgbm", "sklearn"])
def test_text_is_a_category(library: str, source: str, tmp_path: Path) -> None:
    """Also the category "NA", which would be a missing value if the model did not know it, and "1"."""
    path, X = _with_categories(library, tmp_path)
    rows_ = X.astype({"city": "category"}) if "dictionary" in source else X.astype({"city": "object"})
    file = tmp_path / f"rows.{source}"
    if "polars" in source:  # which writes another type of text
        columns = {name: rows_[name].tolist() for name in rows_.columns}
        pytest.importorskip("polars").DataFrame(columns).write_parquet(file)
    else:
        write(rows_, file)
    run("explain", path, file, "-o", tmp_path / "values.csv", "--allow-pickle")
    model = pickle.loads(path.read_bytes()) if path.suffix == ".pkl" else path
    expected = TreeExplainer(model).shap_values(X)
    assert np.abs(expected[:, 4]).max() > 0.1
    np.testing.assert_array_equal(read(tmp_path / "values.csv").to_numpy(), expected)


def test_a_label_that_the_model_does_not_know_is_as_in_pandas(tmp_path: Path) -> None:
    """And so is an empty cell."""
    path, X = _with_categories("lightgbm", tmp_path)
    X = X.astype({"city": "object"})
    X.loc[::2, "city"] = "Atlantis"
    X.loc[::3, "city"] = None
    run("explain", path, write(X, tmp_path / "rows.csv"), "-o", tmp_path / "values.csv")
    np.testing.assert_array_equal(
        read(tmp_path / "values.csv").to_numpy(),
        TreeExplainer(path).shap_values(X.astype({"city": "category"})),
    )


# -- models that are more than numbers --------------------------------------------------------------------


@pytest.mark.parametrize("source", ["parquet", "csv"])
def test_a_pipeline_is_explained_from_raw_columns(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a pickle, which needs permission and gets a warning that says why."""
    pytest.importorskip("sklearn")
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = table().assign(extra=1)
    frame.loc[frame["city"] == "NA", "city"] = None
    path = write(frame, tmp_path / f"rows.{source}")
    X = getattr(pandas, f"read_{source}")(path)[[*FEATURES, "city"]]  # missing as pandas has it
    steps = make_column_transformer((OneHotEncoder(sparse_output=False), ["city"]), remainder="passthrough")
    model = make_pipeline(steps, RandomForestRegressor(5, max_depth=4, random_state=0)).fit(X, target(frame))
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(model))
    run("explain", tmp_path / "model.pkl", path, "-o", tmp_path / "values.csv", "--allow-pickle")
    assert "runs whatever code its writer put there" in capsys.readouterr().err
    expected = TreeExplainer(model)(X).to_frame()
    found = read(tmp_path / "values.csv")
    assert list(found.columns) == list(expected.columns)
    np.testing.assert_array_equal(found.to_numpy(), expected.to_numpy())


def test_skops_needs_trust_for_types_that_it_does_not_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error lists them, and says what to add; with that it works."""
    skops_io = pytest.importorskip("skops.io")
    ensemble = pytest.importorskip("sklearn.ensemble")
    frame = table()
    model = ensemble.RandomForestRegressor(3, max_depth=3, random_state=0).fit(frame[FEATURES], target(frame))
    skops_io.dump(model, tmp_path / "model.skops")
    path = write(frame, tmp_path / "rows.csv")
    arguments = ["explain", tmp_path / "model.skops", path, "-o", tmp_path / "values.csv"]
    trust = []
    if unknown := skops_io.get_untrusted_types(file=tmp_path / "model.skops"):
        said = cli_files.fail(capsys, *arguments)
        trust = [part for name in unknown for part in ("--trust", name)]
        assert " ".join(trust) in said
    run(*arguments, *trust)
    expected = TreeExplainer(model).shap_values(frame[FEATURES])
    np.testing.assert_array_equal(read(tmp_path / "values.csv").to_numpy(), expected)


# -- the other commands -----------------------------------------------------------------------------------


def test_importance_is_the_mean_over_all_rows(
    classes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As JSON in full, as a table in few digits."""
    frame = table()
    path = write(frame, tmp_path / "rows.parquet")
    run("importance", classes, path, "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == N_ROWS
    values = TreeExplainer(classes).shap_values(frame[FEATURES])
    for line in found["importance"]:
        of_line = values[:, FEATURES.index(line["feature"]), int(line["output"][-1])]
        # Sums in another order.
        np.testing.assert_allclose(line["mean_abs"], np.abs(of_line).mean(), rtol=1e-12)
        np.testing.assert_allclose(line["mean"], of_line.mean(), rtol=1e-9, atol=1e-12)
    run("importance", classes, path, "--top", "1")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 3
    assert f"{found['importance'][0]['mean_abs']:.6g}" in lines[1]


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_importance_by_segment(
    form: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a column that is no feature, of which some labels are missing, and by one that is."""
    frame = table().assign(month=[["May", "June", None][i % 3] for i in range(N_ROWS)])
    frame["a"] = [float(i % 2) for i in range(N_ROWS)]
    path = write(frame, tmp_path / f"rows.{form}")
    run("importance", model, path, "--by", "month", "--json")
    found = {one["month"]: one for one in json.loads(capsys.readouterr().out)}
    expected = global_importance(TreeExplainer(model), frame[[*FEATURES, "month"]], by="month")
    assert len(found) == len(expected) == 3
    for label, one in expected.items():
        said = found[label if label in found else ""]  # a CSV file has no other word for it
        assert said["rows"] == one.n_rows
        means = dict(zip(one.feature_names, one.mean_abs.ravel().tolist(), strict=True))
        assert {line["feature"]: line["mean_abs"] for line in said["importance"]} == means
    run("importance", model, path, "--by", "month", "--top", "1")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 * 3 + 2
    assert lines[0].startswith("month = ")
    run("importance", model, path, "--by", "a", "--top", "1")
    assert len(capsys.readouterr().out.splitlines()) == 2 * 3 + 1
    assert "'nothing'" in cli_files.fail(capsys, "importance", model, path, "--by", "nothing")


def test_a_report_is_of_rows_drawn_from_the_whole_file(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page and the command say how many of how many, and rows go by their keys."""
    pytest.importorskip("bokeh")
    monkeypatch.setattr(streams, "_MIN_ROWS", 1)
    monkeypatch.setattr(streams, "_MAX_ROWS", 64)
    path = write(table(), tmp_path / "rows.csv")
    run("report", model, path, "-o", tmp_path / "page.html", "--key", "id", "--rows", "30")
    assert "30 of 300 rows, drawn at random" in capsys.readouterr().err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "model.json: 30 of 300 rows, drawn at random, of rows.csv" in page
    shown = {number for number in range(N_ROWS) if f'"{number:06d}"' in page}
    assert len(shown) == 30
    assert min(shown) < 64
    assert max(shown) >= 256


def test_drawn_rows_are_those_of_the_file(model: Path, tmp_path: Path) -> None:
    """Each with its own key and place, and every row of a small file."""
    frame = table()
    path = write(frame, tmp_path / "rows.feather")
    opened = models.read(model)
    reader = rows.RowReader(opened.explainer(), path, ["id"])
    for n_rows in (30, 1000):
        sample, positions, n_all = reader.sample(n_rows)
        assert (n_all, len(positions)) == (N_ROWS, min(n_rows, N_ROWS))
        assert sample.table.column("id").to_pylist() == frame["id"].iloc[positions].tolist()
        for name in FEATURES:
            assert sample.rows.column(name).to_pylist() == frame[name].iloc[positions].tolist()


def test_info_says_what_is_in_the_file(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON, and for people."""
    run("info", model, "--json")
    facts = json.loads(capsys.readouterr().out)
    ensemble = TreeExplainer(model).ensemble
    expected = {"library": "XGBoost", "trees": 10, "leaves": ensemble.n_leaves, "depth": 4, "features": 4}
    assert facts.items() >= expected.items()
    assert facts["feature_names"] == FEATURES
    assert facts["base_values"] == ensemble.expected_value.tolist()
    run("info", model)
    assert "XGBoost" in capsys.readouterr().out


@pytest.mark.parametrize("given", ["nothing", "model", "rows"])
def test_bench_measures_and_compares(
    given: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every kernel; and the model's own library, whose answer is the same within float32."""
    path = write(table(), tmp_path / "rows.csv")
    arguments = {"nothing": [], "model": [model], "rows": [model, path]}[given]
    run("bench", *arguments, "--rows", "50", "--json")
    found = json.loads(capsys.readouterr().out)
    assert all(line["ns_per_leaf_row"] > 0 for line in found["measured"])
    if given != "nothing":
        assert found["measured"][-1]["name"].startswith("XGBoost")
        # float32, and XGBoost's fixed rule of eight points.
        assert found["measured"][-1]["difference"] < 1e-5
    run("bench", *arguments, "--rows", "50")
    assert "ns per leaf·row" in capsys.readouterr().out


def test_memory_does_not_grow_with_the_file(model: Path, tmp_path: Path) -> None:
    """Ten times the rows, 25 MiB more at most, although all of them are in one row group."""
    if not Path("/proc/self/status").exists():
        pytest.skip("the system does not say how much memory a process had at most")
    code = (
        "import sys; from linear_treeshap.cli import main; assert main(sys.argv[1:]) == 0; "
        "print(*(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    peaks = []
    for n_rows in (100_000, 1_000_000):
        rng = np.random.default_rng(0)
        frame = pandas.DataFrame({name: rng.normal(size=n_rows) for name in FEATURES})
        frame.to_parquet(tmp_path / "rows.parquet", row_group_size=n_rows)
        arguments = ["explain", str(model), str(tmp_path / "rows.parquet"), "-o", str(tmp_path / "v.parquet")]
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments, "--force", "--n-jobs", "1"],
            capture_output=True,
            text=True,
            check=True,
        )
        peaks.append(int(done.stdout) / 1024)
    assert peaks[1] - peaks[0] < 25
