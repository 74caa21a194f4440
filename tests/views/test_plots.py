"""Pictures: shap's plots accept our results, and ours are shap's."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import zoo

from linear_treeshap import Explanation, InputError, MissingDependencyError, TreeExplainer

shap = pytest.importorskip("shap")
matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _closed_figures() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def single() -> Explanation:
    """A regression on a frame of pandas."""
    pd = pytest.importorskip("pandas")
    model = zoo.load("sklearn_random_forest_regressor")
    X = pd.DataFrame(model.rows[:60], columns=["age", "income", "height", "weight", "distance"])
    return TreeExplainer(model.model)(X)


@pytest.fixture(scope="module")
def several() -> Explanation:
    """A classifier of four classes."""
    model = zoo.load("sklearn_random_forest_multiclass")
    return TreeExplainer(model.model)(model.X.iloc[:60])


def _texts(figure: Any) -> str:
    """Everything that is written in a figure."""
    figure.canvas.draw()
    return " ".join(text.get_text() for text in figure.findobj(matplotlib.text.Text))


#: Name → how to draw it from an explanation of one output with rows and features.
PICTURES: dict[str, Any] = {
    "bar": lambda e: e.plot.bar(show=False),
    "bar of a row": lambda e: e[0].plot.bar(show=False),
    "beeswarm": lambda e: e.plot.beeswarm(show=False),
    "waterfall": lambda e: e[0].plot.waterfall(show=False),
    "scatter": lambda e: e.plot.scatter(0, show=False),
    "scatter, coloured": lambda e: e.plot.scatter(0, color=1, show=False),
    "scatter, coloured by interaction": lambda e: e.plot.scatter(0, color=e, show=False),
    "heatmap": lambda e: e.plot.heatmap(show=False),
    "force": lambda e: e[0].plot.force(matplotlib=True, show=False),
    "summary_plot": lambda e: shap.summary_plot(e.values, e.table, show=False),
    "dependence_plot": lambda e: shap.dependence_plot(0, e.values, e.table, show=False),
    "decision_plot": lambda e: shap.decision_plot(
        float(e.base_values[0]), e.values, feature_names=list(e.feature_names), show=False
    ),
    "force_plot": lambda e: shap.force_plot(
        float(e.base_values[0]), e.values[0], e.table.iloc[0], matplotlib=True, show=False
    ),
}


@pytest.mark.filterwarnings("ignore:The NumPy global RNG was seeded:FutureWarning")  # hypothesis seeds it
@pytest.mark.parametrize("picture", sorted(PICTURES))
def test_pictures_are_drawn_and_name_the_features(single: Explanation, picture: str) -> None:
    """Through the accessor, and through shap's functions that take arrays."""
    PICTURES[picture](single)
    shown = _texts(plt.gcf())
    assert "age" in shown


@pytest.fixture(scope="module")
def raw() -> Explanation:
    """A pipeline in raw columns: texts, some of them missing, beside numbers."""
    pd = pytest.importorskip("pandas")
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    rng = np.random.default_rng(0)
    cities = np.array(["Bern", "Rome", None], dtype=object)
    X = pd.DataFrame({"city": rng.choice(cities, size=60), "age": rng.normal(size=60)})
    columns = ColumnTransformer([("city", OneHotEncoder(), ["city"])], remainder="passthrough")
    forest = RandomForestRegressor(5, random_state=0)
    return TreeExplainer(make_pipeline(columns, forest).fit(X, X["age"] + (X["city"] == "Rome")))(X)


@pytest.mark.filterwarnings("ignore:The NumPy global RNG was seeded:FutureWarning")  # hypothesis seeds it
@pytest.mark.parametrize(
    "picture", ["bar", "beeswarm", "waterfall", "scatter", "scatter, coloured", "heatmap", "force"]
)
def test_raw_columns_of_texts_are_drawn(raw: Explanation, picture: str) -> None:
    """shap itself sorts texts, which fails where one is missing."""
    PICTURES[picture](raw)
    assert "city" in _texts(plt.gcf())


@pytest.mark.filterwarnings("ignore:The NumPy global RNG was seeded:FutureWarning")  # hypothesis seeds it
@pytest.mark.parametrize("picture", ["bar", "beeswarm", "waterfall", "scatter", "heatmap", "force"])
def test_one_output_of_several_is_drawn(several: Explanation, picture: str) -> None:
    PICTURES[picture](several[..., "c"])
    assert "feature 0" in _texts(plt.gcf())


#: shap's own functions, given our explanation as it is.
BY_SHAP: dict[str, Any] = {
    "bar": lambda e: shap.plots.bar(e, show=False),
    "bar of a row": lambda e: shap.plots.bar(e[0], show=False),
    "beeswarm": lambda e: shap.plots.beeswarm(e, show=False, group_remaining_features=False),
    "waterfall": lambda e: shap.plots.waterfall(e[0], show=False),
    "scatter": lambda e: shap.plots.scatter(e[:, "age"], show=False),
    "scatter of several": lambda e: shap.plots.scatter(e[:, ["age", "income"]], show=False),
    "scatter, coloured": lambda e: shap.plots.scatter(e[:, "age"], color=e[:, "income"], show=False),
    "scatter, coloured by interaction": lambda e: shap.plots.scatter(e[:, "age"], color=e, show=False),
    "heatmap": lambda e: shap.plots.heatmap(e, show=False),
    "violin": lambda e: shap.plots.violin(e, show=False),
    "force": lambda e: shap.plots.force(e[0], matplotlib=True, show=False),
    "means": lambda e: shap.plots.bar(e.abs.mean(0), show=False),
    "cohorts": lambda e: shap.plots.bar(e.cohorts(2).abs.mean(0), show=False),
    "sample": lambda e: shap.plots.beeswarm(e.sample(20), show=False),
    "order": lambda e: shap.plots.beeswarm(e, order=shap.Explanation.abs.max(0), show=False),
}


def _pixels(draw: Any, explanation: Any) -> Any:
    np.random.seed(0)  # noqa: NPY002
    plt.close("all")
    draw(explanation)
    figure = plt.gcf()
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba()).copy()


@pytest.mark.filterwarnings("ignore:The NumPy global RNG was seeded:FutureWarning")
@pytest.mark.parametrize("picture", sorted(BY_SHAP))
def test_shap_s_plots_draw_our_explanation_as_their_own(single: Explanation, picture: str) -> None:
    ours, theirs = (_pixels(BY_SHAP[picture], e) for e in (single, single.to_shap()))
    np.testing.assert_array_equal(ours, theirs)
    assert (ours != 255).any()


@pytest.mark.filterwarnings("ignore:The NumPy global RNG was seeded:FutureWarning")
def test_several_outputs_are_stacked(several: Explanation) -> None:
    ax = several.plot.bar(show=False)
    assert {text.get_text() for text in ax.get_legend().get_texts()} == set(several.output_names)
    widths = sum(patch.get_width() for patch in ax.patches)
    assert widths == pytest.approx(several.importances.sum())
    assert "feature 0" in _texts(ax.figure)


def test_pairs_are_drawn(single: Explanation) -> None:
    model = zoo.load("sklearn_random_forest_regressor")
    e = TreeExplainer(model.model, feature_names=list("vwxyz"))(model.rows[:20], interactions=True)
    ax = e.plot.pairs(show=False, max_display=3)
    drawn = ax.get_images()[0].get_array()
    assert drawn.shape == (3, 3)
    names = [label.get_text() for label in ax.get_yticklabels()]
    i, j = (list("vwxyz").index(name) for name in names[:2])
    assert drawn[0, 1] == pytest.approx(2 * np.abs(e.values[:, i, j]).mean())
    assert drawn[0, 0] == pytest.approx(np.abs(e.values[:, i, i]).mean())
    with pytest.raises(InputError, match="interaction values"):
        single.plot.pairs()


def test_the_axis_of_an_interaction_says_so() -> None:
    model = zoo.load("sklearn_random_forest_regressor")
    e = TreeExplainer(model.model, feature_names=list("vwxyz"))(model.rows[:20], interactions=True)
    assert e[:, "v", "w"].plot.scatter(show=False).get_ylabel() == "Interaction of\nv and w"
    assert e[:, "v", "v"].plot.scatter(show=False).get_ylabel() == "Main effect of\nv"


def test_a_large_heatmap_is_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """shap's own order takes ten times as long for twice as many rows."""
    rng = np.random.default_rng(0)
    e = Explanation(rng.normal(size=(2930, 5)), base_values=0.0, table=rng.normal(size=(2930, 5)))
    monkeypatch.setattr("shap._explanation.hclust_ordering", None)
    e.plot.heatmap(show=False)
    assert "Feature 0" in _texts(plt.gcf())


def test_force_brings_its_script_to_a_notebook(single: Explanation, monkeypatch: pytest.MonkeyPatch) -> None:
    displayed: list[bool] = []
    monkeypatch.setattr(shap, "initjs", lambda: displayed.append(True))
    single[0].plot.force()
    assert displayed == []
    notebook = types.ModuleType("IPython")
    notebook.get_ipython = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    single[0].plot.force()
    assert displayed == [True]


def test_interactive_force_plots_are_html(single: Explanation) -> None:
    assert "age" in single.plot.force().html()


def test_options_are_passed_on(single: Explanation) -> None:
    """ax= and show= among them."""
    _, ax = plt.subplots()
    assert single.plot.bar(ax=ax, show=False, max_display=3) is ax
    assert "Sum of 3 other features" in _texts(ax.figure)


@pytest.mark.parametrize("picture", ["beeswarm", "heatmap", "waterfall", "pairs"])
def test_what_cannot_be_drawn_says_how_to_cut(several: Explanation, picture: str) -> None:
    with pytest.raises(InputError, match=r"an output with e\[..., 'name'\]"):
        getattr(several.plot, picture)()


@pytest.mark.parametrize("absent", ["shap", "matplotlib"])
def test_without_the_libraries_the_error_names_the_extra(
    single: Explanation, monkeypatch: pytest.MonkeyPatch, absent: str
) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(MissingDependencyError, match=r"pip install '\.\[plots\]'"):
        single.plot.bar()
