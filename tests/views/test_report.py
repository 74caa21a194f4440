"""The page as a file: what is on it, what is refused, and that it is written whole or not at all."""

from __future__ import annotations

import base64
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import report_cases as cases

from linear_treeshap import Explanation, InputError, MissingDependencyError, TreeExplainer

pytest.importorskip("bokeh")

TYPES = {"f4": "<f4", "f8": "<f8", "i4": "<i4"}


def content_of(path: Path) -> dict[str, Any]:
    """The block of JSON on a page."""
    block = re.search(r'<script type="application/json" id="content">(.*?)</script>', path.read_text("utf-8"))
    assert block is not None
    found: dict[str, Any] = json.loads(block[1])
    return found


def unpacked(text: str, dtype: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(base64.b64decode(text), dtype=dtype)


def datum(column: dict[str, Any], row: int) -> Any:
    """What the page knows of a row in a column."""
    found = unpacked(column["data"], TYPES[column["kind"]])[row]
    if "labels" in column:
        return None if found < 0 else column["labels"][found]
    return float(found)


# -- what is on it ------------------------------------------------------------------------------------------


def test_values_outputs_and_importance_are_those_of_the_explanation(tmp_path: Path) -> None:
    """Values to float32, because they are drawn; sums and means to float64, because they are read."""
    explanation = cases.KINDS["three outputs"]()
    content = content_of(explanation.report(tmp_path / "page.html"))
    for k in range(3):
        values = unpacked(content["values"][k], "<f4").reshape(4, 50).T
        np.testing.assert_array_equal(values, explanation.values[:, :, k].astype(np.float32))
        np.testing.assert_allclose(
            unpacked(content["outputs"][k], "<f8"),
            explanation.base_values[:, k] + explanation.values[:, :, k].sum(axis=1),
            rtol=1e-14,
        )
        np.testing.assert_allclose(
            content["importance"][k], np.abs(explanation.values[:, :, k]).mean(axis=0), rtol=1e-14
        )
    assert [unpacked(text, "<f8").tolist() for text in content["bases"]] == [[1.0], [2.0], [3.0]]


def test_numbers_and_texts_of_rows_arrive_as_they_were(tmp_path: Path) -> None:
    """Missing ones as NaN or no text; whole numbers that float64 cannot hold as text."""
    page = content_of(cases.odd_numbers().report(tmp_path / "numbers.html"))
    table = cases.odd_numbers().table
    for name, column in zip("abcde", page["columns"], strict=False):
        np.testing.assert_array_equal([datum(column, row) for row in range(40)], table[name])
    assert [datum(page["columns"][5], row) for row in (0, 1)] == [str(2**60), str(2**60 + 1)]
    assert np.isnan(datum(page["columns"][6], 0))
    assert datum(page["columns"][6], 3) == 2.0
    hostile = content_of(cases.hostile().report(tmp_path / "texts.html"))["columns"]
    assert [datum(hostile[1], row) for row in range(5)] == [
        cases.HOSTILE,
        "<u>u</u>",
        None,
        "$$x^2$$",
        "&amp;",
    ]
    assert [datum(hostile[2], row) for row in range(5)] == ["<s>", "t", "<s>", None, "t"]
    assert [datum(hostile[3], row) for row in range(2)] == ["True", "False"]


def test_rows_keep_their_labels(tmp_path: Path) -> None:
    content = content_of(cases.plain().report(tmp_path / "page.html"))
    assert content["labels"] == [f"patient {i}" for i in range(60)]


def test_a_sample_keeps_rows_together_with_their_labels_and_numbers(tmp_path: Path) -> None:
    """Importance stays that of all rows."""
    explanation = cases.plain(500)
    content = content_of(explanation.report(tmp_path / "page.html", max_rows=100))
    rows = [int(label.removeprefix("patient ")) for label in content["labels"]]
    assert content["n_rows"] == len(set(rows)) == 100
    assert content["n_rows_explained"] == 500
    values = unpacked(content["values"][0], "<f4").reshape(4, 100).T
    np.testing.assert_array_equal(values, explanation.values[rows].astype(np.float32))
    ages = [datum(content["columns"][0], i) for i in range(100)]
    np.testing.assert_array_equal(ages, explanation.table["age"].to_numpy()[rows])
    np.testing.assert_allclose(content["importance"][0], np.abs(explanation.values).mean(axis=0), rtol=1e-14)


def test_rows_of_an_array_are_sampled_under_their_numbers(tmp_path: Path) -> None:
    explanation = Explanation(cases.values_of(30, 2), 0.0, cases.numbers_of(30, 2))
    content = content_of(explanation.report(tmp_path / "page.html", max_rows=5))
    rows = list(map(int, content["labels"]))
    first = [datum(content["columns"][0], i) for i in range(5)]
    np.testing.assert_array_equal(first, explanation.table[rows, 0])


def test_pages_stay_small_however_many_outputs_there_are(tmp_path: Path) -> None:
    """Rows are left out instead, and the page knows of how many."""
    explanation = Explanation(cases.values_of(3000, 10, 100), np.zeros(100))
    path = explanation.report(tmp_path / "page.html")
    content = content_of(path)
    assert content["n_rows"] < content["n_rows_explained"] == 3000
    assert path.stat().st_size < 25e6


def test_the_same_explanation_makes_the_same_page(tmp_path: Path) -> None:
    pages = [cases.plain().report(tmp_path / f"{i}.html").read_bytes() for i in range(2)]
    assert pages[0] == pages[1]


def test_facts_name_the_model_and_the_check(tmp_path: Path) -> None:
    tree = pytest.importorskip("sklearn.tree").DecisionTreeRegressor(max_depth=1)
    model = tree.fit([[0], [0], [0], [1]], [1, 1, 1, 3])
    explanation = TreeExplainer(model)([[0.0], [1.0]])
    facts = dict(content_of(explanation.report(tmp_path / "page.html"))["facts"])
    assert facts["Model"] == "DecisionTreeRegressor"
    assert facts["Leaves"] == "2"
    assert "the model's own" in facts["Sums compared with"]
    unchecked = TreeExplainer(model)([[0.0]], check_additivity=False)
    facts = dict(content_of(unchecked.report(tmp_path / "page.html"))["facts"])
    assert facts["Sums compared with"].startswith("nothing")


def test_facts_name_an_output_that_is_a_function_of_one_s_own(tmp_path: Path) -> None:
    from sklearn.tree import DecisionTreeRegressor

    X = np.random.default_rng(0).normal(size=(30, 2))
    model = DecisionTreeRegressor(max_depth=2).fit(X, X[:, 0])
    explanation = TreeExplainer(model, X, model_output=np.exp)(X)
    facts = dict(content_of(explanation.report(tmp_path / "page.html"))["facts"])
    assert facts["Output explained"] == "exp"
    assert facts["Feature perturbation"] == "interventional"


def test_a_page_loads_nothing_and_runs_two_scripts_only(tmp_path: Path) -> None:
    """Its policy names them by their hashes; no other address is in the page around them."""
    page = cases.hostile().report(tmp_path / "page.html", title=cases.HOSTILE).read_text("utf-8")
    around = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert page.count("<script>") == 2
    assert "://" not in around
    assert re.search(r"default-src 'none'; script-src 'sha256-[^ ]+' 'sha256-[^ ]+';", around)
    assert cases.HOSTILE not in page


def test_values_that_do_not_add_up_are_not_called_an_output(tmp_path: Path) -> None:
    """Those of all features do, by Shapley's index; else the page shows the sum, under that name."""
    tree = pytest.importorskip("sklearn.tree").DecisionTreeRegressor(max_depth=1)
    model = tree.fit([[0], [0], [0], [1]], [1, 1, 1, 3])
    for index, adds_up in (("shapley", True), ("banzhaf", False)):
        content = content_of(TreeExplainer(model, index=index)([[0.0]]).report(tmp_path / "page.html"))
        assert content["adds_up"] is adds_up
        assert dict(content["facts"])["Index"] == index
    model.fit([[0, 1], [0, 1], [0, 2], [1, 2]], [1, 1, 1, 3])
    cut = TreeExplainer(model)([[0.0, 1.0]])[:, [0]]
    assert content_of(cut.report(tmp_path / "page.html"))["adds_up"] is False


# -- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("explanation", "options", "complaint"),
    [
        (Explanation(np.zeros((0, 3)), 0.0), {}, "nothing to report: the explanation has 0 rows"),
        (Explanation(np.array([[1.0, np.nan]]), 0.0), {}, "not finite"),
        (Explanation(np.zeros((2, 3)), np.inf), {}, "not finite"),
        (
            Explanation(np.zeros((2, 3)), 0.0, np.zeros((2, 4))),
            {},
            "has 4 columns for 3 features",
        ),
        (Explanation(np.zeros((2, 3)), 0.0), {"max_rows": 0}, "max_rows must be a whole number"),
        (Explanation(np.zeros((2, 3)), 0.0), {"max_rows": 2.5}, "max_rows must be a whole number"),
    ],
)
def test_what_cannot_be_shown_is_refused(
    tmp_path: Path, explanation: Explanation, options: dict[str, Any], complaint: str
) -> None:
    """And no file appears."""
    with pytest.raises(InputError, match=complaint):
        explanation.report(tmp_path / "page.html", **options)
    assert list(tmp_path.iterdir()) == []


def test_interactions_are_refused_with_what_to_do(tmp_path: Path) -> None:
    """They have no value per feature; `explainer.interactions` lists them."""
    tree = pytest.importorskip("sklearn.tree").DecisionTreeRegressor(max_depth=1)
    model = tree.fit([[0, 1], [0, 1], [0, 2], [1, 2]], [1, 1, 1, 3])
    pairs = TreeExplainer(model)([[0.0, 1.0], [1.0, 2.0]], interactions=True)
    with pytest.raises(InputError, match="needs a value per feature"):
        pairs.report(tmp_path / "page.html")
    content = content_of(pairs[:, :, 0].report(tmp_path / "page.html"))
    assert content["adds_up"] is False


def test_without_bokeh_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bokeh", None)
    with pytest.raises(MissingDependencyError, match=r"pip install '\.\[report\]'"):
        cases.plain().report(tmp_path / "page.html")


def test_a_folder_or_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="it exists and is not a file"):
        cases.plain().report(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        cases.plain().report(tmp_path / "no" / "page.html")


def test_a_page_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk leaves the old page and nothing else."""
    path = tmp_path / "page.html"
    path.write_text("the old page")

    def full(handle: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        cases.plain().report(path)
    assert path.read_text() == "the old page"
    assert list(tmp_path.iterdir()) == [path]
