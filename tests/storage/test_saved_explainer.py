"""A saved explainer explains what was explained: the same output, background, index, players, to the bit."""

from __future__ import annotations

import json
import pickle
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zoo
from drawn import ensembles
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from linear_treeshap import TreeEnsemble, TreeExplainer, import_model, load, save
from linear_treeshap.errors import AdditivityError, FileFormatError, InputError
from linear_treeshap.model.routing import walk_trees
from linear_treeshap.rows.rows import read_rows
from linear_treeshap.storage import fingerprint, saved_explainer
from linear_treeshap.storage.cells import Cells

#: Those whose rows are arrays that their trees read; of each library, and the odd ones.
MODELS = [
    "xgboost_binary",
    "xgboost_multiclass",
    "lightgbm_binary",
    "lightgbm_categorical",
    "catboost_regressor",
    "sklearn_random_forest_multiclass",
    "sklearn_hist_regressor",
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.lts"


def again(explainer: TreeExplainer, path: Path, **options: Any) -> TreeExplainer:
    explainer.save(path)
    return TreeExplainer.load(path, **options)


def assert_same(a: TreeExplainer, b: TreeExplainer, X: Any, **options: Any) -> None:
    """Equal to the last bit."""
    one, two = a(X, **options), b(X, **options)
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.base_values, two.base_values)
    assert one.feature_names == two.feature_names
    for name in ("model_output", "feature_perturbation", "index"):
        assert getattr(a, name) == getattr(b, name)
        assert getattr(one.about, name) == getattr(two.about, name)


# -- what is loaded is what was saved -----------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_the_background_is_kept(name: str, weighted: bool, path: Path) -> None:
    """Of every library, with categories and missing values; and pairs as well."""
    model = zoo.load(name)
    weights = np.arange(1.0, 41.0) if weighted else None
    explainer = TreeExplainer(model.model, model.rows[:40], data_weights=weights)
    loaded = again(explainer, path)
    assert_same(explainer, loaded, model.rows[40:60])
    one, two = (e.shap_interaction_values(model.rows[40:45]) for e in (explainer, loaded))
    np.testing.assert_array_equal(one, two)
    assert loaded.data.shape == (40, loaded.ensemble.n_features)
    about = loaded(model.rows[:1]).about
    assert about is not None
    assert about.model == type(model.model).__name__


@pytest.mark.parametrize(
    ("name", "model_output"),
    [
        ("xgboost_binary", "probability"),
        ("lightgbm_binary", "probability"),
        ("xgboost_binary", "log_loss"),
        ("xgboost_regressor", "log_loss"),
        ("xgboost_regressor", "predict"),
        ("sklearn_random_forest_multiclass", "predict_proba"),
    ],
)
def test_the_output_is_kept(name: str, model_output: str, path: Path) -> None:
    """A probability that came back as log-odds was the bug that made this file."""
    model = zoo.load(name)
    explainer = TreeExplainer(model.model, model.rows[:40], model_output)
    options = {"y": np.arange(20) % 2} if model_output == "log_loss" else {}
    loaded = again(explainer, path)
    assert_same(explainer, loaded, model.rows[40:60], **options)
    assert_same(explainer, again(loaded, path), model.rows[40:60], **options)  # saved once more
    assert_same(explainer, again(pickle.loads(pickle.dumps(explainer)), path), model.rows[40:60], **options)


def test_covers_of_data_are_kept(path: Path) -> None:
    """They are in the trees."""
    model = zoo.load("xgboost_regressor")
    explainer = TreeExplainer(model.model, model.rows[:40], feature_perturbation="tree_path_dependent")
    assert explainer.expected_value != TreeExplainer(model.model).expected_value
    loaded = again(explainer, path)
    assert_same(explainer, loaded, model.rows[40:60])
    assert loaded.data is None


INDICES = [
    "banzhaf",
    ("weighted_banzhaf", 0.1),
    ("beta", 16, np.float64(1.5)),
    ("measure", [0.25, 0.75], np.array([0.4, 0.6])),
    ("sizes", [Fraction(1, 5), Fraction(1, 20), Fraction(1, 30), Fraction(1, 20), Fraction(1, 5)]),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_the_index_is_kept(index: Any, path: Path) -> None:
    model = zoo.load("xgboost_regressor")
    assert model.rows.shape[1] == 5
    explainer = TreeExplainer(model.model, index=index)
    loaded = again(explainer, path)
    np.testing.assert_array_equal(loaded.shap_values(model.rows), explainer.shap_values(model.rows))
    twice = again(loaded, path)
    np.testing.assert_array_equal(twice.shap_values(model.rows), explainer.shap_values(model.rows))
    assert TreeExplainer.load(path, index="shapley").index == "shapley"


def test_groups_are_kept_beside_a_background(path: Path) -> None:
    model = zoo.load("xgboost_binary")
    explainer = TreeExplainer(model.model, model.rows[:30], "probability", groups={"both": [0, 1]})
    loaded = again(explainer, path)
    assert_same(explainer, loaded, model.rows[30:40])
    other = TreeExplainer.load(path, groups={"others": [2, 3]})
    expected = TreeExplainer(model.model, model.rows[:30], "probability", groups={"others": [2, 3]})
    assert_same(expected, other, model.rows[30:40])


def test_a_pipeline_is_saved_without_its_steps(path: Path) -> None:
    """It takes transformed rows, as before, and explains them with its background."""
    pytest.importorskip("sklearn")
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = np.random.default_rng(0).normal(size=(60, 3))
    model = make_pipeline(StandardScaler(), GradientBoostingClassifier(n_estimators=3)).fit(X, X[:, 0] > 0)
    explainer = TreeExplainer(model, X[:20], "probability")
    loaded = again(explainer, path)
    np.testing.assert_array_equal(loaded(model[:-1].transform(X)).values, explainer(X).values)
    assert loaded.expected_value == explainer.expected_value


# -- what is given takes the place of what was saved --------------------------------------------------------


def test_what_is_given_replaces_what_was_saved(path: Path) -> None:
    model, fitted = zoo.load("xgboost_binary"), zoo.load("xgboost_binary").model
    X, B = model.rows[40:60], model.rows[:40]
    TreeExplainer(fitted, B, "probability").save(path)
    made = TreeExplainer.load
    assert_same(TreeExplainer(fitted, B[:9], "probability"), made(path, B[:9]), X)
    assert_same(TreeExplainer(fitted, B, "raw"), made(path, model_output="raw"), X)
    weights = np.arange(40.0)
    expected = TreeExplainer(fitted, B, "probability", data_weights=weights)
    assert_same(expected, made(path, B, data_weights=weights), X)
    plain = made(path, model_output="raw", feature_perturbation="tree_path_dependent")
    assert_same(TreeExplainer(fitted), plain, X)
    TreeExplainer(fitted).save(path)
    assert_same(TreeExplainer(fitted, B), made(path, B), X)
    assert_same(TreeExplainer(fitted, B, "probability"), made(path, B, "probability"), X)
    assert_same(TreeExplainer(fitted, B, np.exp), made(path, B, np.exp), X)
    expected = TreeExplainer(fitted, B, feature_perturbation="tree_path_dependent")
    assert_same(expected, made(path, B, feature_perturbation="tree_path_dependent"), X)
    with pytest.raises(InputError, match="pass data="):
        made(path, model_output="probability")
    with pytest.raises(InputError, match="pass these as data="):
        made(path, data_weights=weights)


def test_a_function_of_one_s_own_is_not_saved(path: Path) -> None:
    """There is no code in the file; nor is there a file."""
    model = zoo.load("xgboost_binary")
    with pytest.raises(InputError, match=r"function of your own.*give the function to TreeExplainer.load"):
        TreeExplainer(model.model, model.rows[:9], np.exp).save(path)
    assert not path.exists()


def test_trees_alone_are_saved_as_such(path: Path) -> None:
    """And are what `load` gives of a saved explainer."""
    model = zoo.load("xgboost_binary")
    TreeExplainer(model.model, model.rows[:9], "probability").save(path)
    ensemble = load(path)
    assert isinstance(ensemble, TreeEnsemble)
    save(ensemble, path)
    loaded = TreeExplainer.load(path)
    assert (loaded.model_output, loaded.feature_perturbation) == ("raw", "tree_path_dependent")


# -- cells --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", zoo.names())
def test_rows_of_cells_go_the_same_way(name: str) -> None:
    """On thresholds and one rounding step beside them, on missing values, infinities and categories."""
    model = zoo.load(name)
    ensemble = import_model(model.model)
    try:
        read = read_rows(model.rows, ensemble.row_format)[:]
    except InputError:  # text labels: the codes themselves are rows that trees read
        read = np.asarray(model.rows, dtype=ensemble.row_format.numpy_dtype)
    rows = np.concatenate([read, np.full_like(read[:1], np.inf), np.full_like(read[:1], -np.inf)])
    rows = np.concatenate([rows, np.nextafter(rows, np.inf), np.nextafter(rows, -np.inf)]).astype(rows.dtype)
    cells = Cells(ensemble)
    found = walk_trees(ensemble, cells.rows(cells.of_rows(rows)))
    np.testing.assert_array_equal(found, walk_trees(ensemble, rows))


@given(ensemble=ensembles(), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_any_rows_of_cells_go_the_same_way(ensemble: TreeEnsemble, seed: int) -> None:
    """Of any trees, with sets of categories and thresholds in one column too."""
    rng = np.random.default_rng(seed)
    finite = ensemble.threshold[np.isfinite(ensemble.threshold)]
    pool = np.concatenate(
        [finite, np.nextafter(finite, np.inf), ensemble.category_codes, [-0.5, 0, 0.5, 1, 2.5]]
    )
    pool = np.concatenate([pool, [np.nan, np.inf, -np.inf]]).astype(ensemble.row_format.numpy_dtype)
    rows = rng.choice(pool, (20, ensemble.n_features))
    cells = Cells(ensemble)
    numbers = cells.of_rows(rows)
    np.testing.assert_array_equal(ensemble.predict(cells.rows(numbers)), ensemble.predict(rows))
    np.testing.assert_array_equal(cells.of_rows(cells.rows(numbers)), numbers)


@pytest.mark.parametrize("others", [[], [0.25], [-np.inf], [-np.inf, 0.25]])
def test_a_node_that_tells_known_from_missing_has_finite_cells(others: list[float]) -> None:
    """scikit-learn's threshold is infinite there, and its forests take no infinities."""
    thresholds = [*others, np.inf]
    n = len(thresholds)
    chain = {
        "children_left": [node for i in range(n) for node in (2 * i + 1, -1)] + [-1],
        "children_right": [node for i in range(n) for node in (2 * i + 2, -1)] + [-1],
        "features": [0, -1] * n + [-1],
        "thresholds": [x for threshold in thresholds for x in (threshold, 0.0)] + [0.0],
        "values": np.arange(2.0 * n + 1),
        "node_sample_weight": [0.0] * (2 * n + 1),
    }
    ensemble = import_model({"trees": [chain]})
    cells = Cells(ensemble)
    assert np.isfinite(cells.members[0]).any()
    rows = np.array([[-np.inf], [-1.0], [0.0], [0.25], [np.nextafter(0.25, 1)], [1e300], [np.inf], [np.nan]])
    found = ensemble.predict(cells.rows(cells.of_rows(rows)))
    np.testing.assert_array_equal(found, ensemble.predict(rows))


def test_a_background_takes_a_byte_or_two_for_each_column_that_is_asked_about(path: Path) -> None:
    """And its numbers are not in the file."""
    model = zoo.load("sklearn_random_forest_regressor")
    TreeExplainer(model.model).save(path)
    without = path.stat().st_size
    rows = np.repeat(model.rows, 50, axis=0)[:2000]
    TreeExplainer(model.model, rows).save(path)
    assert path.stat().st_size - without < 2.1 * rows.size
    unseen = rows[(rows != 0) & ~np.isin(rows, import_model(model.model).threshold)]
    assert unseen[0].astype(np.float64).tobytes() not in path.read_bytes()


# -- the fingerprint ----------------------------------------------------------------------------------------

#: Models that know their categories by hashes only.
HASHED = [*zoo.names("catboost_one_hot"), *zoo.names("catboost_statistics")]


@pytest.mark.parametrize("name", zoo.names())
def test_every_model_is_compared_with_its_library(name: str) -> None:
    """When it is saved; text labels, missing values and all."""
    model = zoo.load(name).model
    ensemble = import_model(model)
    found = fingerprint.take_fingerprint(model, ensemble)
    assert (found is None) == (name in HASHED)
    if found is not None:
        fingerprint.check_fingerprint(ensemble, found)


MISREADINGS: dict[str, Callable[[TreeEnsemble], TreeEnsemble]] = {
    "< for <=": lambda e: replace(
        e, threshold=np.nextafter(e.threshold.astype(np.float32), np.float32(-np.inf))
    ),
    "a threshold": lambda e: replace(e, threshold=e.threshold + (np.arange(e.n_nodes) == 0) * 10.0),
    "columns swapped": lambda e: replace(
        e, feature=np.where(e.feature < 2, 1 - e.feature, e.feature).clip(-1)
    ),
    "missing values": lambda e: replace(e, missing_left=~e.missing_left),
    "a base score": lambda e: replace(e, base_values=e.base_values + 0.01),
    "a leaf": lambda e: replace(e, value=e.value * 1.001),
}


@pytest.mark.parametrize("misreading", MISREADINGS)
def test_a_misread_model_is_not_saved(misreading: str, path: Path) -> None:
    """Nor loaded, if it has been saved."""
    model = zoo.load("xgboost_regressor").model
    explainer = TreeExplainer(model)
    right = explainer.ensemble
    leaf = right.is_leaf
    wrong = MISREADINGS[misreading](right)
    wrong = replace(wrong, feature=np.where(leaf, -1, np.maximum(wrong.feature, 0)))
    explainer.ensemble = wrong
    with pytest.raises(AdditivityError):
        explainer.save(path)
    assert not path.exists()
    taken = fingerprint.take_fingerprint(model, right)
    assert taken is not None
    rows = Cells(right).rows(taken.cells)
    if misreading == "< for <=":
        return  # whose cells are others: rows on thresholds are not on these
    forged = fingerprint.Fingerprint(Cells(wrong).of_rows(rows), taken.predictions)
    saved_explainer.write(path, saved_explainer.SavedExplainer(wrong, fingerprint=forged))
    with pytest.raises(FileFormatError, match="do not predict what the model's own library did"):
        load(path)


def test_labels_given_to_the_wrong_columns_are_found(path: Path) -> None:
    """What the check after loading cannot see: it reads rows as wrongly as the explainer does."""
    lightgbm, pandas = pytest.importorskip("lightgbm"), pytest.importorskip("pandas")
    label = np.arange(300) % 3
    frame = pandas.DataFrame(
        {"c": pandas.Categorical(np.array(["x", "y", "z"])[label]), "a": np.arange(300.0)}
    )
    data = lightgbm.Dataset(frame, label**2 + 0.01 * frame["a"])
    model = lightgbm.train({"verbose": -1, "min_data_in_leaf": 2, "cat_smooth": 0}, data, 5)
    explainer = TreeExplainer(model)
    explainer.save(path)
    row_format = explainer.ensemble.row_format
    shifted = {feature: (*labels[1:], labels[0]) for feature, labels in row_format.categories.items()}
    explainer.ensemble = replace(explainer.ensemble, row_format=replace(row_format, categories=shifted))
    with pytest.raises(AdditivityError):
        explainer.save(path)


# -- old and hostile files ----------------------------------------------------------------------------------

Header = dict[str, Any]


def rewritten(blob: bytes, change: Callable[[Header, dict[str, bytes]], None]) -> bytes:
    """The file after a change to its header and to the bytes of its arrays, with the right checksum."""
    (length,) = struct.unpack("<Q", blob[:8])
    header, data = json.loads(blob[8 : 8 + length]), blob[8 + length :]
    arrays = {name: data[slice(*e["data_offsets"])] for name, e in header.items() if name != "__metadata__"}
    change(header, arrays)
    end = 0
    for name, content in arrays.items():
        header[name]["data_offsets"] = [end, end := end + len(content)]
    header["__metadata__"]["crc32"] = "00000000"
    text = json.dumps(header)
    body = struct.pack("<Q", len(text)) + text.encode() + b"".join(arrays.values())
    return body.replace(b'"00000000"', f'"{zlib.crc32(body):08x}"'.encode(), 1)


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A weighted background of 30 rows, a probability, and an index that is written out."""
    model = zoo.load("xgboost_binary")
    path = tmp_path_factory.mktemp("genuine") / "model.lts"
    TreeExplainer(model.model, model.rows[:30], "probability", data_weights=np.arange(1.0, 31)).save(path)
    return path.read_bytes()


def test_a_rewritten_file_would_load_if_nothing_were_wrong(genuine: bytes, path: Path) -> None:
    """Or else the tests below would prove nothing."""
    path.write_bytes(rewritten(genuine, lambda header, arrays: None))
    assert TreeExplainer.load(path).model_output == "probability"


def test_files_of_version_1_are_read(genuine: bytes, path: Path) -> None:
    """They hold trees and players, and nothing of what was explained."""

    def to_version_1(header: Header, arrays: dict[str, bytes]) -> None:
        for name in ("background", "background_weights", "fingerprint", "fingerprint_predictions"):
            del header[name], arrays[name]
        del header["__metadata__"]["explained"]
        header["__metadata__"]["version"] = "1"
        row_format = json.loads(header["__metadata__"]["row_format"])
        del row_format["takes_more"]
        header["__metadata__"]["row_format"] = json.dumps(row_format)

    path.write_bytes(rewritten(genuine, to_version_1))
    model = zoo.load("xgboost_binary")
    assert_same(TreeExplainer(model.model), TreeExplainer.load(path), model.rows)


def explained(**changes: Any) -> Callable[[Header, dict[str, bytes]], None]:
    def change(header: Header, arrays: dict[str, bytes]) -> None:
        plain = json.loads(header["__metadata__"]["explained"])
        header["__metadata__"]["explained"] = json.dumps({**plain, **changes})

    return change


def array(name: str, dtype: str, content: Any) -> Callable[[Header, dict[str, bytes]], None]:
    def change(header: Header, arrays: dict[str, bytes]) -> None:
        header[name].update(dtype=dtype, shape=list(np.shape(content)))
        arrays[name] = np.asarray(content).tobytes()

    return change


ONES = np.ones((30, 5), dtype=np.uint8)
HOSTILE: list[tuple[str, Callable[[Header, dict[str, bytes]], None], str]] = [
    ("no object", lambda h, a: h["__metadata__"].update(explained="[]"), "explained must have"),
    ("no background", lambda h, a: h["__metadata__"].update(explained="null"), "which do not fit"),
    ("more", explained(more=1), "explained must have"),
    ("output", explained(model_output=7), "must be strings"),
    ("unknown output", explained(model_output="nonsense"), "model_output must be one of"),
    ("no such output", explained(link=None), "not known to be a function of a single raw output"),
    ("perturbation", explained(feature_perturbation="auto"), "one of the two there are"),
    ("path-dependent", explained(feature_perturbation="tree_path_dependent"), "which do not fit"),
    ("predicts_raw", explained(predicts_raw=1), "explained must have"),
    ("is_softmax", explained(is_softmax=None), "explained must have"),
    ("methods", explained(methods=[1]), "methods must be a list of strings"),
    ("link", explained(link="logistic"), "link must be a list of strings"),
    ("link's kind", explained(link=["probit"]), "link must be logistic"),
    ("no kind", explained(link=[]), "link must be logistic"),
    ("no scale", explained(link=["logistic"]), "link must be logistic"),
    ("link's scale", explained(link=["logistic", "0.0"]), "link must be logistic"),
    ("infinite scale", explained(link=["logistic", "inf"]), "link must be logistic"),
    ("scale of text", explained(link=["logistic", "x"]), "a number was expected"),
    ("index", explained(index="shapley"), "index must be a list that begins with a name"),
    ("empty index", explained(index=[]), "index must be a list that begins with a name"),
    ("unknown index", explained(index=["owen"]), "index must be 'shapley'"),
    ("index without numbers", explained(index=["beta"]), "takes 2 arguments"),
    ("index of text", explained(index=["weighted_banzhaf", "x"]), "a number was expected"),
    ("index of numbers", explained(index=["weighted_banzhaf", 1]), "a number was expected, got '1'"),
    ("index of NaN", explained(index=["weighted_banzhaf", "nan"]), "must be a number from 0 to 1"),
    ("division by zero", explained(index=["weighted_banzhaf", "1/0"]), "a number was expected, got '1/0'"),
    ("long number", explained(index=["weighted_banzhaf", "9" * 2000]), "a number was expected"),
    ("nested", explained(index=["sizes", [["1"]]]), "a number was expected"),
    ("many numbers", explained(index=["sizes", ["1"] * 5000]), "up to 4,096 numbers"),
    ("other index", explained(index=["banzhaf"]), "defined for Shapley values only"),
    ("no rows", array("background", "U8", ONES[:0]), "0 background rows and 30 weights"),
    ("fewer rows", array("background", "U8", ONES[:9]), "9 background rows and 30 weights"),
    ("fewer columns", array("background", "U8", ONES[:, :2]), "rows of cells have 2 columns"),
    ("no such cell", array("background", "U16", ONES.astype(np.uint16) * 60_000), "that there is not"),
    ("negative cell", array("background", "I32", -ONES.astype(np.int32)), "that there is not"),
    ("floats", array("background", "F64", ONES.astype(float)), "background must be of type U8 or U16 or I32"),
    ("NaN weight", array("background_weights", "F64", np.full(30, np.nan)), "finite, not negative, and not"),
    ("negative weight", array("background_weights", "F64", -np.ones(30)), "finite, not negative, and not"),
    ("no weight", array("background_weights", "F64", np.zeros(30)), "finite, not negative, and not all"),
    ("vast weights", array("background_weights", "F64", np.full(30, 1e308)), "finite, not negative, and not"),
    ("predictions", array("fingerprint_predictions", "F64", np.zeros((64, 1))), "do not predict what"),
    ("NaN", array("fingerprint_predictions", "F64", np.full((64, 1), np.nan)), "do not predict what"),
    ("infinite", array("fingerprint_predictions", "F64", np.full((64, 1), np.inf)), "do not predict what"),
    ("fewer predictions", array("fingerprint_predictions", "F64", np.zeros((9, 1))), "of shape"),
    ("no predictions", array("fingerprint_predictions", "F64", np.zeros((0, 1))), "of shape"),
]


@pytest.mark.parametrize(("change", "message"), [x[1:] for x in HOSTILE], ids=[x[0] for x in HOSTILE])
def test_hostile_files_are_refused(
    change: Callable[[Header, dict[str, bytes]], None], message: str, genuine: bytes, path: Path
) -> None:
    path.write_bytes(rewritten(genuine, change))
    with pytest.raises(FileFormatError, match=f"Cannot read .*{message}"):
        TreeExplainer.load(path)


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
def test_no_forged_cells_crash(data: st.DataObject, genuine: bytes, path: Path) -> None:
    """Any cells are a background, or an error."""
    cells = data.draw(st.lists(st.lists(st.integers(0, 255), min_size=5, max_size=5), min_size=1, max_size=4))

    def change(header: Header, arrays: dict[str, bytes]) -> None:
        array("background", "U8", np.array(cells, dtype=np.uint8))(header, arrays)
        array("background_weights", "F64", np.zeros(0))(header, arrays)

    path.write_bytes(rewritten(genuine, change))
    try:
        explainer = TreeExplainer.load(path)
    except FileFormatError:
        return
    explainer.shap_values(np.zeros((2, 5)))


def test_a_wide_background_that_cannot_be_held_is_refused(path: Path) -> None:
    """A file of some kilobytes may claim a table of terabytes."""
    wide = import_model(
        {
            "trees": [
                {
                    "children_left": [1, -1, -1],
                    "children_right": [2, -1, -1],
                    "features": [0, -1, -1],
                    "thresholds": [0.5, 0, 0],
                    "values": [[0], [1], [3]],
                    "node_sample_weight": [4, 3, 1],
                }
            ],
            "num_features": 4_000_000,
        }
    )
    save(wide, path)

    def change(header: Header, arrays: dict[str, bytes]) -> None:
        array("background", "U8", np.zeros((1_000_000, 1), dtype=np.uint8))(header, arrays)
        plain: dict[str, Any] = {
            "model": "m",
            "model_output": "raw",
            "feature_perturbation": "interventional",
        }
        plain |= {
            "index": ["shapley"],
            "link": None,
            "predicts_raw": True,
            "methods": [],
            "is_softmax": False,
        }
        header["__metadata__"]["explained"] = json.dumps(plain)

    path.write_bytes(rewritten(path.read_bytes(), change))
    with pytest.raises(FileFormatError, match=r"1,000,000 rows of 4,000,000 columns do not fit into memory"):
        TreeExplainer.load(path)
