"""MOJOs of H2O: what H2O's own Java predicts and explains, damaged ones, and what is refused.

`make_mojos.py` has made them, and written what H2O says of hostile rows beside them.
"""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import extended
import numpy as np
import pytest
from definition import values_by_definition
from make_mojos import EXPLAINED, FOLDER, NAMES

from linear_treeshap import TreeExplainer, import_model
from linear_treeshap.cli import main
from linear_treeshap.errors import FileFormatError, UnsupportedModelError
from linear_treeshap.rows.rows import read_rows

pandas = pytest.importorskip("pandas")

COLUMNS = [f"f{i}" for i in range(5)]


def _table(name: str) -> Any:
    """Numbers to the last bit, which not every release of pandas reads."""
    table = pandas.read_csv(FOLDER / f"{name}.csv", dtype=object)
    for column in table.columns.drop(["f0", "f1"]):
        with contextlib.suppress(ValueError):  # names of classes
            table[column] = np.array([float(text) for text in table[column]])
    return table


#: What H2O makes of the sum of trees, and the columns in which it says so.
PREDICTED: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "boosting_binary": (lambda raw: 1 / (1 + np.exp(-raw)), ["yes"]),
    "boosting_classes": (
        lambda raw: np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True),
        ["high", "low", "middle"],
    ),
    "boosting_poisson": (np.exp, ["predict"]),
    "forest_binary": (lambda raw: raw, ["no", "yes"]),
}


@pytest.mark.parametrize("name", NAMES)
def test_hostile_rows_go_where_h2o_sends_them(name: str) -> None:
    """Thresholds and one ulp beside them, missing and unknown labels; to the rounding of float64."""
    table, ensemble = _table(name), import_model(FOLDER / f"{name}.zip")
    bend, columns = PREDICTED.get(name, (lambda raw: raw, ["predict"]))
    raw = ensemble.predict(read_rows(table[COLUMNS], ensemble.row_format)[:])
    np.testing.assert_allclose(bend(raw), table[columns], rtol=1e-14, atol=1e-15)
    if name != "one_leaf":
        assert len(np.unique(raw[:, 0])) > 5  # or little would be compared
    if name in PREDICTED and name != "boosting_poisson":
        assert ensemble.output_names == tuple(columns)


@pytest.mark.parametrize("name", EXPLAINED)
def test_values_are_h2o_s_own_contributions(name: str) -> None:
    """Which H2O computes in float32, by the covers of its nodes."""
    table = _table(name)
    explanation = TreeExplainer(FOLDER / f"{name}.zip")(table[COLUMNS])
    theirs = table[[f"value of {column}" for column in COLUMNS]].to_numpy()
    scale = np.abs(theirs).max()
    np.testing.assert_allclose(explanation.values.reshape(theirs.shape), theirs, rtol=0, atol=1e-6 * scale)
    np.testing.assert_allclose(explanation.base_values.ravel(), table["value of BiasTerm"], rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_the_definition(name: str) -> None:
    """Each to 1e-13 of the sum of its absolute leaf contributions; the definition is in exact fractions."""
    X = _table(name)[COLUMNS][:5]
    explainer = TreeExplainer(FOLDER / f"{name}.zip")
    rows = read_rows(X, explainer.ensemble.row_format)[:]
    exact = values_by_definition(explainer, rows)
    players = explainer._assignment.in_trees.of_column.tolist()
    scale = np.asarray(extended.shapley_values(explainer.ensemble, rows, players).scale)
    values = explainer.shap_values(X).reshape(exact.shape)
    assert (np.abs(values - exact) <= 1e-13 * scale.reshape(exact.shape)).all()


def test_a_saved_explainer_says_the_same(tmp_path: Path) -> None:
    X = _table("forest_binary")[COLUMNS]
    explainer = TreeExplainer(FOLDER / "forest_binary.zip")
    explainer.save(tmp_path / "saved.safetensors")
    loaded = TreeExplainer.load(tmp_path / "saved.safetensors")
    np.testing.assert_array_equal(loaded.shap_values(X), explainer.shap_values(X))
    assert loaded.output_names == ("no", "yes")


def test_the_command_line_takes_a_mojo(tmp_path: Path) -> None:
    X = _table("boosting")[COLUMNS]
    X.to_csv(tmp_path / "rows.csv", index=False)
    model, out = FOLDER / "boosting.zip", tmp_path / "values.csv"
    assert main(["explain", str(model), str(tmp_path / "rows.csv"), "--out", str(out)]) == 0
    found = np.loadtxt(out, delimiter=",", skiprows=1)
    np.testing.assert_allclose(found, TreeExplainer(model).shap_values(X), rtol=1e-12, atol=1e-12)


# -- changed MOJOs --------------------------------------------------------------------------------------


def _changed(path: Path, change: Callable[[bytes], bytes], name: str = "model.ini") -> Path:
    """A copy of a MOJO with another content of one of its files."""
    with zipfile.ZipFile(FOLDER / "boosting.zip") as whole, zipfile.ZipFile(path, "w") as copy:
        for member in whole.namelist():
            content = whole.read(member)
            copy.writestr(member, change(content) if member == name else content)
    return path


def _with_info(**info: str) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        first, *lines = content.decode().split("\n")
        changed = [f"{key} = {value}" for key, value in info.items()]
        return "\n".join([first, *changed, *(x for x in lines if x.split(" ")[0] not in info)]).encode()

    return change


REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "another algorithm": ({"algo": "isolationforest"}, "Supported are gradient boosting and random forests"),
    "anomalies": ({"category": "AnomalyDetection"}, "MOJO is of another kind"),
    "an old one": ({"mojo_version": "1.10"}, r"version 1\.10"),
    "a forest of classes": ({"algo": "drf", "category": "Multinomial"}, "divides by the sum"),
    "two trees": ({"algo": "drf", "binomial_double_trees": "true"}, "binomial_double_trees=False"),
    "balanced": ({"balance_classes": "true"}, "balance_classes=True"),
    "softmax of two": ({"category": "Binomial", "distribution": "multinomial"}, "distribution='bernoulli'"),
    "other columns": ({"_genmodel_encoding": "OneHotExplicit"}, "categorical_encoding='enum'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_sum_of_trees_is_refused_with_the_reason(case: str, tmp_path: Path) -> None:
    info, message = REFUSED[case]
    with pytest.raises(UnsupportedModelError, match=message):
        import_model(_changed(tmp_path / "model.zip", _with_info(**info)))


def test_another_zip_is_no_mojo(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("something.txt", "else")
    with pytest.raises(FileFormatError, match=r"as a MOJO of H2O: .*model\.ini"):
        import_model(tmp_path / "other.zip")


def test_labels_with_line_breaks_are_read_as_h2o_writes_them(tmp_path: Path) -> None:
    r"""As \n, and a backslash as two."""
    text = b"a\\nb\n\\\\n\nred\n"
    ensemble = import_model(_changed(tmp_path / "model.zip", lambda _: text, "domains/d000.txt"))
    assert ensemble.row_format.categories[0] == ("a\nb", "\\n", "red")


@pytest.mark.parametrize("n_bytes", [0, 1, 7, 20, -1])
def test_a_tree_that_is_cut_short_is_refused(n_bytes: int, tmp_path: Path) -> None:
    for name in ("trees/t00_001.bin", "trees/t00_001_aux.bin"):
        path = _changed(tmp_path / "model.zip", lambda content: content[:n_bytes], name)
        with pytest.raises(FileFormatError, match="a tree is damaged or cut short"):
            import_model(path)


def test_a_damaged_mojo_is_read_or_refused(tmp_path: Path) -> None:
    """Bytes changed in its files, or in the zip itself: an error of ours, or trees that hold together."""
    rng = np.random.default_rng(0)
    whole, path = (FOLDER / "boosting.zip").read_bytes(), tmp_path / "model.zip"
    members = [name for name in zipfile.ZipFile(FOLDER / "boosting.zip").namelist() if "exper" not in name]
    n_refused = 0
    for trial in range(300):
        if trial % 3:
            chosen = members[rng.integers(len(members))]
            _changed(path, lambda content: _spoilt(content, rng), chosen)
        else:
            path.write_bytes(_spoilt(whole, rng))
        try:
            import_model(path)
        except (FileFormatError, UnsupportedModelError):
            n_refused += 1
    assert n_refused > 100


def _spoilt(data: bytes, rng: np.random.Generator) -> bytes:
    damaged = bytearray(data)
    for at in rng.integers(len(damaged), size=rng.integers(1, 4)).tolist():
        damaged[at] = int(rng.choice([0, 1, 127, 128, 255, int(rng.integers(256))]))
    return bytes(damaged)
