"""One-hot families: found by name where the trees agree, told apart or refused where they cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from linear_treeshap import InputError, RowFormat, TreeEnsemble, TreeExplainer
from linear_treeshap.players.onehot import category_labels, find_families

NAMES = ("age", "city_Bern", "city_Oslo", "city_Rome", "sex=f", "sex=m", "income_net")


def _stumps(
    names: tuple[str, ...],
    thresholds: dict[str, float] | None = None,
    missing_left: bool = False,
    **arrays: Any,
) -> TreeEnsemble:
    """A stump for each column: at the threshold given, or between 0 and 1."""
    n = len(names)
    threshold = np.zeros((n, 3))
    threshold[:, 0] = [(thresholds or {}).get(name, 0.5) for name in names]
    return TreeEnsemble(
        tree_offsets=np.arange(0, 3 * n + 1, 3),
        left=np.tile([1, -1, -1], n),
        right=np.tile([2, -1, -1], n),
        feature=np.stack([np.arange(n), np.full(n, -1), np.full(n, -1)], axis=1).ravel(),
        threshold=threshold.ravel(),
        cover=np.tile([4.0, 3.0, 1.0], n),
        value=np.tile([[0.0], [1.0], [3.0]], (n, 1)),
        base_values=np.zeros(1),
        row_format=RowFormat(n, names),
        missing_left=np.full(3 * n, missing_left),
        **arrays,
    )


def _families(ensemble: TreeEnsemble) -> dict[str, tuple[str, ...]]:
    members = TreeExplainer(ensemble, groups="onehot").players.members
    return {name: columns for name, columns in members.items() if len(columns) > 1}


def test_families_share_what_is_before_the_separator() -> None:
    explainer = TreeExplainer(_stumps(NAMES), groups="onehot")
    assert explainer.players.names == ("age", "city", "sex", "income_net")
    assert explainer.players.members["city"] == ("city_Bern", "city_Oslo", "city_Rome")
    assert explainer.players.members["sex"] == ("sex=f", "sex=m")


def test_a_column_that_is_split_elsewhere_is_no_category() -> None:
    """A column of zeros and ones has its thresholds between them."""
    names = ("size_width", "size_height", "size_depth")
    assert _families(_stumps(names)) == {"size": names}
    assert _families(_stumps(names, {"size_height": 37.5, "size_depth": -2.0})) == {}
    assert _families(_stumps(names, {"size_height": 1.0})) == {"size": ("size_width", "size_depth")}


def test_splits_that_tell_missing_from_known_are_no_objection() -> None:
    """XGBoost sees only the ones of a sparse matrix, and splits just outside of them."""
    names = ("city_Bern", "city_Oslo")
    assert _families(_stumps(names, {"city_Bern": 2.00001})) == {"city": names}
    assert _families(_stumps(names, {"city_Bern": -1e-5}, missing_left=True)) == {"city": names}
    assert _families(_stumps(names, {"city_Bern": -1e-5})) == {}


def test_a_column_with_categories_of_its_own_is_no_category() -> None:
    names = ("city_Bern", "city_Oslo")
    sets: dict[str, Any] = {
        "category_set": np.array([0, -1, -1] + [-1] * 3),
        "category_offsets": [0, 1],
        "category_codes": [2],
    }
    assert _families(_stumps(names, **sets)) == {}


def test_categories_may_contain_the_separator() -> None:
    """A single column that begins like a family belongs to it."""
    names = ("job_cook", "job_clerk", "job_blue_collar", "job_white_collar")
    assert _families(_stumps(names)) == {"job": names}


def test_two_readings_of_the_names_are_an_error() -> None:
    """job_level_1 and job_level_2: of the variable job, or of job_level?"""
    names = ("job_cook", "job_clerk", "job_level_1", "job_level_2")
    with pytest.raises(InputError, match="'job_level' are categories of 'job' or of 'job_level'"):
        find_families(names, _stumps(names))


def test_names_that_libraries_make_up_are_not_read() -> None:
    names = ("Column_0", "Column_1")
    with pytest.raises(InputError, match="reads the names of columns, and the model does not know them"):
        TreeExplainer(_stumps(names), groups="onehot")


@pytest.mark.parametrize(
    ("row", "found"),
    [([0.0, 1.0, 1.0], "{'has_car': 1.0, 'has_house': 1.0}"), ([0.0, 0.25, 0.0], "{'has_car': 0.25}")],
    ids=["two at once", "neither 0 nor 1"],
)
def test_rows_that_are_not_one_hot_are_refused(row: list[float], found: str) -> None:
    """Flags share a prefix, too; the first row with two of them says so."""
    names = ("age", "has_car", "has_house")
    explainer = TreeExplainer(_stumps(names), groups="onehot")
    fine = np.array([[50.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, np.nan, 0.0]])
    assert explainer.shap_values(fine).shape == (3, 2)
    with pytest.raises(InputError, match="took has_car, has_house … for the categories of 'has'") as error:
        explainer(np.vstack([fine, [row]]))
    assert f"row 3 has {found}" in str(error.value)
    with pytest.raises(InputError, match="Pass groups as a dictionary"):
        list(explainer.iter_values(np.array([row])))
    TreeExplainer(_stumps(names), groups={"has": ["has_car", "has_house"]})(np.array([row]))  # as you say


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["city_Bern", "city_Rome"], ["Bern", "Rome"]),
        (["city__city_Bern", "city__city_New_York"], ["Bern", "New_York"]),
        (["sex=f", "sex=m"], ["f", "m"]),
        (["a_b", "c_d"], None),
        (["latitude", "longitude"], None),
    ],
)
def test_labels_are_what_names_do_not_share(names: list[str], labels: list[str] | None) -> None:
    assert category_labels(names) == labels


def test_a_fitted_encoder_says_what_is_one_hot() -> None:
    """Whatever the names; the model reads what the encoder made."""
    pytest.importorskip("sklearn")
    pd = pytest.importorskip("pandas")
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import OneHotEncoder
    from sklearn.tree import DecisionTreeRegressor

    X = pd.DataFrame({"job": ["a_b", "a_c", "d"] * 4, "job_a": ["x", "y"] * 6})
    encoder = OneHotEncoder(sparse_output=False).fit(X)
    encoded = encoder.transform(X)
    tree = DecisionTreeRegressor().fit(encoded, np.arange(12))
    names = encoder.get_feature_names_out()
    explainer = TreeExplainer(tree, feature_names=names, groups=encoder)
    assert explainer.players.members == {"job": tuple(names[:3]), "job_a": tuple(names[3:])}
    assert explainer(encoded[:2]).data.tolist() == [["a_b", "x"], ["a_c", "y"]]
    with pytest.raises(InputError, match="OneHotEncoder that is not fitted"):
        TreeExplainer(tree, groups=OneHotEncoder())
    with pytest.raises(InputError, match="PCA given as groups makes column 'Feature 0' of several"):
        TreeExplainer(tree, groups=PCA(5).fit(np.random.default_rng(0).normal(size=(20, 6))))


@pytest.mark.parametrize("method", ["hist", "approx", "exact"])
def test_families_are_found_in_models_of_sparse_matrices(method: str) -> None:
    """XGBoost never sees their zeros."""
    xgboost = pytest.importorskip("xgboost")
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(0)
    rows = np.eye(4)[rng.integers(4, size=300)]
    rows[:, 3] = rng.integers(3, size=300)  # a number: 0, 1 or 2
    names = ["city_Bern", "city_Oslo", "city_Rome", "city_size"]
    settings = {"tree_method": method, "max_depth": 3, "nthread": 1}
    train = xgboost.DMatrix(
        sparse.csr_matrix(rows), rows @ [1, 2, 3, 5] + rng.normal(size=300), feature_names=names
    )
    explainer = TreeExplainer(xgboost.train(settings, train, 20), groups="onehot")
    assert explainer.players.members == {"city": tuple(names[:3]), "city_size": ("city_size",)}
    assert explainer(train).data[:, 0].tolist() == [
        names[int(row[:3].argmax())][5:] if row[:3].any() else "(none)" for row in rows
    ]
