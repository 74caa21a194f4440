"""Pictures: shap's plots accept our results, and ours are shap's."""

from __future__ import annotations

import sys
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


def test_interactive_force_plots_are_html(single: Explanation) -> None:
    assert "age" in single.plot.force().html()


def test_options_are_passed_on(single: Explanation) -> None:
    """ax= and show= among them."""
    _, ax = plt.subplots()
    assert single.plot.bar(ax=ax, show=False, max_display=3) is ax
    assert "Sum of 3 other features" in _texts(ax.figure)


@pytest.mark.parametrize("picture", ["beeswarm", "heatmap", "waterfall"])
def test_what_cannot_be_drawn_says_how_to_cut(several: Explanation, picture: str) -> None:
    with pytest.raises(InputError, match=r"an output with e\[..., 'name'\]"):
        getattr(several.plot, picture)()


@pytest.mark.parametrize("absent", ["shap", "matplotlib"])
def test_without_the_libraries_the_error_names_the_extra(
    single: Explanation, monkeypatch: pytest.MonkeyPatch, absent: str
) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'linear-treeshap\[plots\]'"):
        single.plot.bar()
