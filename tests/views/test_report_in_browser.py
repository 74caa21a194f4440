"""The page in a real browser: what people see, click and type, on large screens and small ones."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import browser
import numpy as np
import pytest
import report_cases as cases

from linear_treeshap import Explanation
from linear_treeshap.model.links import Logistic
from linear_treeshap.results.about import About

pytest.importorskip("bokeh")
pd = pytest.importorskip("pandas")
Image = pytest.importorskip("PIL.Image")

#: Of the middle of a part of the page: (r, g, b) of each pixel.
Pixels = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def page() -> Iterator[browser.Page]:
    with browser.started() as one:
        yield one


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of every kind."""
    folder = tmp_path_factory.mktemp("reports")
    return {name: make().report(folder / f"{name}.html") for name, make in cases.KINDS.items()}


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


def pixels_of(page: browser.Page, selector: str) -> Pixels:
    """A part of the page as it looks now."""
    left, top, right, bottom = page.evaluate(
        f"(() => {{ const it = document.querySelector({json.dumps(selector)}); "
        "it.scrollIntoView({block: 'center', behavior: 'instant'}); const box = it.getBoundingClientRect(); "
        "return [box.left, box.top, box.right, Math.min(box.bottom, innerHeight)].map(Math.round); })()"
    )
    shown = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"), dtype=np.int32)
    return shown[max(0, top) : bottom, left:right].reshape(-1, 3)


def count_coloured(pixels: Pixels) -> tuple[int, int]:
    """How many pixels are clearly red, and how many clearly blue."""
    red, _, blue = pixels.T
    return int((red - blue > 60).sum()), int((blue - red > 60).sum())


# -- opening ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", cases.KINDS)
def test_every_kind_opens_on_a_phone(page: browser.Page, reports: dict[str, Path], kind: str) -> None:
    """Without an error, a request to any network, or sideways scrolling."""
    page.open(reports[kind], width=360, height=740)
    assert page.errors == []
    assert page.requests == [reports[kind].as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_dots_are_drawn_in_red_and_blue(page: browser.Page, reports: dict[str, Path]) -> None:
    """Pixels, not promises: high numbers are red, low ones blue, in both pictures."""
    page.open(reports["plain"])
    for picture in ("#swarm", "#dependence"):
        red, blue = count_coloured(pixels_of(page, picture))
        assert red > 100
        assert blue > 100


def test_ten_thousand_rows_of_fifty_features_open_and_say_what_is_drawn(
    page: browser.Page, tmp_path: Path
) -> None:
    """Sampled for the dots, all there in the table. The bound is for the busiest of machines."""
    big = Explanation(cases.values_of(10_000, 50), 0.0, cases.numbers_of(10_000, 50))
    page.open(big.report(tmp_path / "page.html"))
    assert int(page.evaluate("document.documentElement.dataset.ready")) < 30_000  # milliseconds
    assert page.text("#swarm-note") == "Dots: 2,000 of 10,000 rows, chosen at random. Bars: all rows."
    assert page.text("#page-note").startswith("10,000 rows, page 1 of")
    page.choose("#shown", "50")
    page.until("document.querySelectorAll('#features button').length === 50")
    assert page.errors == []


def test_a_sample_of_rows_is_announced(page: browser.Page, tmp_path: Path) -> None:
    page.open(cases.plain(300).report(tmp_path / "page.html", max_rows=50))
    assert "50 of them on this page" in page.text("#tiles")
    assert page.text("#rows-note").startswith("50 of 300 rows, chosen at random.")
    assert page.text("#swarm-note") == "Dots: 50 of 300 rows, chosen at random. Bars: all rows."


# -- names and values stay text -----------------------------------------------------------------------------


def test_hostile_names_and_values_stay_text(page: browser.Page, tmp_path: Path) -> None:
    """In headings, lists, tables, choices, tooltips and pictures, whatever is chosen."""
    explanation = cases.hostile()
    page.open(explanation.report(tmp_path / "page.html", title=cases.HOSTILE))
    features = page.evaluate("document.querySelectorAll('#feature option').length")
    for output in ("0", "1"):
        page.choose("#output", output)
        for feature in range(features):
            page.choose("#feature", str(feature))
            page.choose("#partner", str((feature + 1) % features))
            page.click("#dependence", 0.3, 0.5)
            page.hover("#swarm", 0.5, 0.3)
    assert page.evaluate("document.title") == page.text("h1") == cases.HOSTILE
    assert set(page.texts("#features b")) == set(explanation.feature_names or ())
    assert cases.HOSTILE in page.texts("tbody td:first-child")
    assert cases.HOSTILE in page.texts("tbody td:nth-child(n + 3)")
    assert page.evaluate("window.broken") is None
    assert (
        page.evaluate("document.querySelectorAll('img, u u, s, em em, [onerror], a:not(.skip)').length") == 0
    )
    assert page.errors == []


def test_scripts_that_get_in_anyway_are_not_run(page: browser.Page, reports: dict[str, Path]) -> None:
    """The page's policy is the second lock; it is tried with markup that the page itself never writes."""
    page.open(reports["plain"])
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.broken=1\">')")
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'broken=1'}))")
    page.until("document.images.length === 1 && document.images[0].complete")
    assert page.evaluate("window.broken") is None
    assert any("Content Security Policy" in error for error in page.errors)


# -- looking ------------------------------------------------------------------------------------------------


def test_features_come_in_the_order_of_their_importance(page: browser.Page, reports: dict[str, Path]) -> None:
    page.open(reports["plain"])
    importance = np.abs(cases.plain().values).mean(axis=0)
    expected = [cases.NAMES[i] for i in np.argsort(-importance)]
    assert page.texts("#features b") == expected
    shown = [number(text) for text in page.texts("#features span")]
    np.testing.assert_allclose(shown, np.sort(importance)[::-1], rtol=5e-3)  # three digits are shown


def test_steps_of_a_row_lead_from_the_base_value_to_the_output(
    page: browser.Page, reports: dict[str, Path]
) -> None:
    """More features than steps are added up in one; the numbers are rounded to some digits of the largest."""
    page.open(reports["500 features"])
    base, *steps, output = [number(text) for text in page.texts("#waterfall .number")]
    explanation = cases.KINDS["500 features"]()
    assert len(steps) == 11
    assert "490 other features" in page.text("#waterfall")
    assert base == 0.0
    assert output == pytest.approx(explanation.values[0].sum(), abs=0.01)
    assert sum(steps) == pytest.approx(output, abs=0.02)


def test_another_output_changes_all_of_it(page: browser.Page, reports: dict[str, Path]) -> None:
    page.open(reports["three outputs"])
    before = (page.text("#features"), page.text("#waterfall"), page.text("tbody"))
    page.choose("#output", "2")
    after = (page.text("#features"), page.text("#waterfall"), page.text("tbody"))
    assert all(one != other for one, other in zip(before, after, strict=True))
    explanation = cases.KINDS["three outputs"]()
    output = explanation.base_values[0, 2] + explanation.values[0, :, 2].sum()
    assert number(page.texts("#waterfall .number")[-1]) == pytest.approx(output, abs=0.01)
    assert "“c”" in page.text("#row-lead")


def test_one_output_offers_no_choice(page: browser.Page, reports: dict[str, Path]) -> None:
    page.open(reports["plain"])
    assert page.evaluate("document.querySelector('#output-choice').offsetParent") is None


def test_without_data_the_page_says_so(page: browser.Page, reports: dict[str, Path]) -> None:
    page.open(reports["without data"])
    assert "came without the values of features" in page.text("#swarm-note")
    assert page.evaluate("document.querySelector('#dependence').offsetParent") is None
    assert page.texts("#cells option") == ["values"]


def test_thousands_are_set_apart_in_a_whole_column_or_not_at_all(page: browser.Page, tmp_path: Path) -> None:
    """2024 may be a year; beside 12,500 it is an amount."""
    table = pd.DataFrame({"year": [2024, 1999], "amount": [12500, 2024]})
    explanation = Explanation(np.array([[2.0, 1.0], [2.0, 1.0]]), 0.0, table, ("year", "amount"))
    page.open(explanation.report(tmp_path / "report.html"))
    cells = page.texts("tbody td")
    assert {"2024", "1999", "12,500", "2,024"} <= set(cells), cells


def test_rows_without_a_number_are_counted(page: browser.Page, reports: dict[str, Path]) -> None:
    page.open(reports["odd numbers"])
    page.choose("#feature", "0")
    odd = int((~np.isfinite(cases.odd_numbers().table["a"])).sum())
    assert page.text("#dependence-note") == f"{odd} rows without a finite number at the edge."


# -- clicking -----------------------------------------------------------------------------------------------


def test_a_dot_says_what_it_is_and_selects_its_row(page: browser.Page, reports: dict[str, Path]) -> None:
    page.open(reports["plain"])
    explanation = cases.plain()
    feature, x, y = _middle_dot(page, explanation)
    page.hover("#swarm", x, y)
    page.until("!document.querySelector('#tip').hidden")
    label, datum, rest = page.text("#tip").split("\n")
    row = int(label.removeprefix("Row patient "))
    assert datum == f"{feature} = {explanation.table[feature].iloc[row]:.5g}".replace("-", "−")
    value = re.match(r"value ([+−0-9.]+), ", rest)
    assert value is not None
    assert number(value[1]) == pytest.approx(explanation[row, feature].values, rel=1e-3)
    page.click("#swarm", x, y)
    page.until(f"document.querySelector('#row-title').innerText === 'Row patient {row}'")
    assert page.text("tr[aria-selected='true'] td") == f"patient {row}"
    output = 10.0 + explanation.values[row].sum()
    assert number(page.texts("#waterfall .number")[-1]) == pytest.approx(output, abs=0.01)


def _middle_dot(page: browser.Page, explanation: Explanation) -> tuple[str, float, float]:
    """The first feature, and where in the picture its median value is."""
    feature = page.texts("#features b")[0]
    values = explanation.values
    low, high = min(0.0, float(np.min(values))), max(0.0, float(np.max(values)))
    margin = 0.03 * (high - low)
    x = (np.sort(explanation[:, feature].values)[30] - low + margin) / (high - low + 2 * margin)
    height = page.evaluate("document.querySelector('#swarm').clientHeight")
    return feature, float(x), 18 / height  # half a line


def test_a_row_of_the_table_shows_its_steps(page: browser.Page, reports: dict[str, Path]) -> None:
    page.open(reports["plain"])
    page.click("tbody tr:nth-child(4)")
    assert page.text("#row-title") == "Row patient 3"
    page.click("#next")
    assert page.text("#row-title") == "Row patient 4"
    page.click("#previous")
    assert page.text("#row-title") == "Row patient 3"


def test_a_feature_of_the_list_is_shown_closely(page: browser.Page, reports: dict[str, Path]) -> None:
    page.open(reports["plain"])
    page.click("#features li:nth-child(3) button")
    name = page.texts("#features b")[2]
    assert page.text("#dependence-axis") == name
    assert page.evaluate("document.querySelector('#features li:nth-child(3) button').ariaPressed") == "true"
    assert page.evaluate("document.querySelector('#feature').selectedOptions[0].text") == name


def test_columns_sort_both_ways_with_missing_ones_last(page: browser.Page, reports: dict[str, Path]) -> None:
    page.open(reports["odd numbers"])
    for direction in ("descending", "ascending"):
        page.click("th button[data-column='0']")
        column = page.evaluate("document.querySelector('[data-column=\"0\"]').closest('th').cellIndex") + 1
        assert page.evaluate(f"document.querySelector('th:nth-child({column})').ariaSort") == direction
        shown = [cell.replace("∞", "inf") for cell in page.texts(f"tbody td:nth-child({column})")]
        numbers = [number(text) for text in shown if text != "missing"]
        assert numbers == sorted(numbers, reverse=direction == "descending")
    page.click("#page-on")
    page.click("#page-on")
    assert page.texts(f"tbody td:nth-child({column})")[-1] == "missing"


def test_texts_sort_by_the_alphabet_with_missing_ones_last(
    page: browser.Page, reports: dict[str, Path]
) -> None:
    page.open(reports["hostile"])
    column = page.evaluate("document.querySelector('[data-column=\"1\"]').closest('th').cellIndex") + 1
    texts = sorted(["$$x^2$$", "&amp;", cases.HOSTILE, "<u>u</u>"])
    for expected in (texts[::-1], texts):
        page.click("th button[data-column='1']")
        assert page.texts(f"tbody td:nth-child({column})") == [*expected, "missing"]


def test_values_that_do_not_add_up_are_called_a_sum(page: browser.Page, tmp_path: Path) -> None:
    about = About("a model", 1, 2, "raw", "tree_path_dependent", "banzhaf", adds_up=False)
    page.open(replace(cases.plain(), about=about).report(tmp_path / "page.html"))
    assert page.texts("#waterfall .name")[-1] == "base + values"
    assert page.texts("thead button")[1] == "Base + values"
    assert "output" not in page.text("#sum")
    assert page.text("#meaning").startswith("The values on this page do not add up")


def test_log_odds_are_called_so_and_have_a_probability_beside_them(
    page: browser.Page, tmp_path: Path
) -> None:
    about = About("a model", 1, 2, "raw", "tree_path_dependent", unit="log-odds", link=Logistic())
    e = replace(cases.plain(), about=about)
    page.open(e.report(tmp_path / "page.html"))
    assert page.texts("#waterfall .name")[-1] == "log-odds"
    log_odds = float(e.full_base_values[0, 0] + e.full[0].sum())
    shown = page.text("#sum").partition("a probability of ")[2]
    assert float(shown.removesuffix("\u00a0%")) == pytest.approx(100 / (1 + np.exp(-log_odds)), rel=1e-2)


def test_a_search_finds_labels_and_texts(page: browser.Page, reports: dict[str, Path]) -> None:
    page.open(reports["texts"])
    page.choose("#search", "oslo")
    assert page.text("#page-note").startswith("27 rows,")
    page.choose("#search", "customer 17")
    assert page.texts("tbody td:first-child") == ["17"]
    page.choose("#search", "nobody")
    assert page.text("#page-note") == "No row matches."


# -- typing -------------------------------------------------------------------------------------------------


def test_keys_move_through_the_table(page: browser.Page, reports: dict[str, Path]) -> None:
    """The row they reach is selected, shown, focused and announced."""
    page.open(reports["plain"])
    page.evaluate("document.querySelector('tbody tr').focus()")
    for key, row in [
        ("ArrowDown", 1),
        ("ArrowDown", 2),
        ("ArrowUp", 1),
        ("PageDown", 16),
        ("PageUp", 1),
        ("End", 59),
        ("Home", 0),
    ]:
        page.press(key)
        assert page.text("#row-title") == f"Row patient {row}", key
        assert page.evaluate("document.activeElement.dataset.row") == str(row), key
        assert page.text("#spoken").startswith(f"Row patient {row}, output "), key


def test_everything_is_reached_by_tab_and_has_a_name(page: browser.Page, reports: dict[str, Path]) -> None:
    """In the order of the page, with a visible focus, and a name for those who listen."""
    page.open(reports["three outputs"])
    reached, names = [], []
    for _ in range(60):
        page.press("Tab")
        place = page.evaluate(
            "(({ id, className, dataset, tagName }) => "
            "id || className || Object.keys(dataset).concat(tagName)[0])(document.activeElement)"
        )
        if place == "BODY":  # the end of the page
            break
        reached.append(place)
        names.append(page.focused_name())
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", place
    once = list(dict.fromkeys(reached))  # four features and six columns count as one place each
    first, second = once[: once.index("next") + 1], once[once.index("next") + 1 :]
    assert first == ["skip", "output", "theme", "member", "feature", "partner", "previous", "next"]
    assert second == ["cells", "search", "column", "row", "page-on"]
    assert all(names), list(zip(reached, names, strict=True))


def test_a_heading_is_sorted_by_the_enter_key(page: browser.Page, reports: dict[str, Path]) -> None:
    page.open(reports["plain"])
    page.evaluate("document.querySelector('[data-column=output]').focus()")
    page.press("Enter")
    assert page.evaluate("document.querySelector('th:nth-child(2)').ariaSort") == "descending"
    assert page.evaluate("document.activeElement.dataset.column") == "output"
    shown = [number(text) for text in page.texts("tbody td:nth-child(2)")]
    assert shown == sorted(shown, reverse=True)


# -- light and dark -----------------------------------------------------------------------------------------


def test_the_page_follows_the_system_and_the_button(page: browser.Page, reports: dict[str, Path]) -> None:
    """Judged by what is seen: most of a dark page is dark, and its dots keep their colours."""
    page.open(reports["plain"], dark=True)
    assert np.median(pixels_of(page, "#swarm")) < 60
    red, blue = count_coloured(pixels_of(page, "#swarm"))
    assert min(red, blue) > 100
    page.click("#theme")
    assert np.median(pixels_of(page, "#swarm")) > 220
    page.open(reports["plain"])
    assert np.median(pixels_of(page, "#swarm")) > 220
    page.prefer(dark=True)
    page.until("document.documentElement.dataset.theme === 'dark'")
    assert np.median(pixels_of(page, "#swarm")) < 60
    assert page.errors == []
