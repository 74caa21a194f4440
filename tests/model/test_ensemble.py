"""TreeEnsemble: what always holds is checked, and what it says about a row is what it means."""

from __future__ import annotations

import dataclasses
import doctest
import pickle
from typing import Any

import numpy as np
import pytest
from drawn import ensembles
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import chain, random_ensemble, random_rows

from linear_treeshap import oracle, paper
from linear_treeshap.errors import InputError, ModelError
from linear_treeshap.model import ensemble as ensemble_module
from linear_treeshap.model.ensemble import TreeEnsemble
from linear_treeshap.model.row_format import RowFormat

#: Two trees: a stump on feature 0, then a categorical root over a numeric node.
#:
#:     tree 0:   0          tree 1:    0 (feature 1 in {0, 2})
#:              / \\                   / \\
#:             1   2                 1   2 (feature 0)
#:                                      / \\
#:                                     3   4
FIELDS: dict[str, Any] = {
    "tree_offsets": [0, 3, 8],
    "left": [1, -1, -1, 1, -1, 3, -1, -1],
    "right": [2, -1, -1, 2, -1, 4, -1, -1],
    "feature": [0, -1, -1, 1, -1, 0, -1, -1],
    "threshold": [0.5, 0, 0, 0, 0, -1.0, 0, 0],
    "cover": [4, 3, 1, 8, 2, 6, 5, 1],
    "value": [[0], [1], [3], [0], [10], [0], [20], [30]],
    "base_values": [100],
    "row_format": RowFormat(n_features=2),
    "missing_left": [True, False, False, False, False, True, False, False],
    "category_set": [-1, -1, -1, 0, -1, -1, -1, -1],
    "category_offsets": [0, 2],
    "category_codes": [0, 2],
}


def make(**changes: Any) -> TreeEnsemble:
    return TreeEnsemble(**{**FIELDS, **changes})


def with_entry(name: str, index: int, value: Any) -> dict[str, Any]:
    changed = list(FIELDS[name])
    changed[index] = value
    return {name: changed}


BROKEN = [
    # the shape of the arrays
    ({"tree_offsets": [0, 3]}, r"tree_offsets must run from 0 to the number of nodes, 8"),
    ({"tree_offsets": [1, 3, 8]}, r"tree_offsets must run from 0"),
    ({"tree_offsets": []}, r"tree_offsets must run from 0"),
    ({"tree_offsets": [0, 3, 3, 8]}, r"Tree 1 has no nodes"),
    ({"tree_offsets": [0, 9, 8]}, r"Tree 1 has no nodes"),
    ({"tree_offsets": [0, 2**63 - 1, -(2**63), -1, 8]}, r"Tree 1 has no nodes"),  # differences wrap to >= 1
    ({"cover": [1.0]}, r"cover has 1 entries for 8 nodes"),
    ({"value": [1.0] * 8}, r"value must have 2 dimension\(s\), got shape \(8,\)"),
    ({"feature": [0.5] * 8}, r"feature must be an array of int32: cannot turn float64 .* without loss"),
    ({"left": [2**32 + 1] * 8}, r"left must be an array of int32: cannot turn int64 .* without loss"),
    ({"left": [np.nan] * 8}, r"left must be an array of int32: cannot turn float64 .* without loss"),
    ({"threshold": ["a"] * 8}, r"threshold must be an array of float64"),
    # the shape of the trees
    (with_entry("right", 5, -1), r"Tree 1, node 2: a node has either two children or none"),
    (with_entry("left", 5, 5), r"Tree 1, node 2: left child is out of range \(got 5\)"),
    (with_entry("right", 0, 0), r"Tree 0, node 0: right child is out of range \(got 0\)"),
    (with_entry("left", 3, 2), r"Tree 1, node 2: a node is the child of more than one node"),
    (with_entry("left", 5, 1), r"Tree 1, node 1: a node is the child of more than one node"),
    (
        {"left": [1, -1, -1, -1, -1, 3, -1, -1], "right": [2, -1, -1, -1, -1, 4, -1, -1]},
        r"Tree 1, node 1: the node cannot be reached from the root",
    ),
    (  # nodes 2 and 3 are each other's parent
        {"left": [1, -1, -1, -1, -1, 3, 2, -1], "right": [2, -1, -1, -1, -1, 4, 1, -1]},
        r"Tree 1, node 1: the node cannot be reached from the root",
    ),
    # the numbers
    (with_entry("feature", 5, 2), r"Tree 1, node 2: feature is out of range \(got 2\)"),
    (with_entry("feature", 0, -1), r"Tree 0, node 0: feature is out of range \(got -1\)"),
    (with_entry("threshold", 5, np.nan), r"Tree 1, node 2: the threshold is NaN"),
    (with_entry("value", 7, [np.inf]), r"Tree 1, node 4: a leaf value is not finite \(got \[inf\]\)"),
    (with_entry("cover", 2, -1.0), r"Tree 0, node 2: cover must be finite and not negative \(got -1.0\)"),
    (with_entry("cover", 2, np.nan), r"Tree 0, node 2: cover must be finite and not negative \(got nan\)"),
    (with_entry("cover", 3, 9.0), r"Tree 1, node 0: the children's covers do not add up .*\(got 9.0\)"),
    (
        {"cover": [1.7e308] * 3 + FIELDS["cover"][3:]},  # the sum of the children is beyond float64
        r"Tree 0, node 0: the children's covers do not add up",
    ),
    (with_entry("cover", 3, 0.0), r"Tree 1, node 0: the children's covers do not add up .*\(got 0.0\)"),
    # categories
    (with_entry("category_set", 3, 1), r"Tree 1, node 0: no such category set \(got 1\)"),
    (with_entry("category_set", 3, -2), r"Tree 1, node 0: no such category set \(got -2\)"),
    ({"category_offsets": [0, 3]}, r"category_offsets must rise from 0 to the number of category codes, 2"),
    ({"category_offsets": [0, 2, 1, 2]}, r"category_offsets must rise from 0"),
    ({"category_offsets": [0, 2**63 - 1, -(2**63), -1, 2]}, r"category_offsets must rise from 0 to"),
    ({"category_codes": [2, 0]}, r"must be sorted and distinct"),
    ({"category_codes": [2, 2]}, r"must be sorted and distinct"),
    ({"category_codes": [-1, 2]}, r"must not be negative, got -1"),
    # outputs and names
    ({"base_values": []}, r"at least one output"),
    ({"base_values": [np.nan]}, r"base_values must be finite, got \[nan\]"),
    ({"base_values": [0, 0, 0], "value": [[0, 0]] * 8}, r"Leaves hold 2 values; expected 1 or 3"),
    ({"tree_output": [0]}, r"tree_output has 1 entries for 2 trees"),
    ({"tree_output": [0, 1]}, r"Tree 1 adds to output 1, but there are 1 outputs"),
    ({"tree_output": [0, 2**31 - 1]}, r"Tree 1 adds to output 2147483647, but"),
    ({"output_names": ["a", "b"]}, r"2 output names were given for 1 outputs"),
]


@pytest.mark.parametrize(("changes", "message"), BROKEN, ids=[message for _, message in BROKEN])
def test_broken_ensembles_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    """The error names tree, node and value wherever there are such."""
    with pytest.raises(ModelError, match=message):
        make(**changes)


def test_covers_may_be_off_by_rounding() -> None:
    """Libraries add up covers in float32; that is not an error."""
    assert make(**with_entry("cover", 3, 8.0 + 1e-6)).n_trees == 2


def test_shares_are_of_both_children_and_add_up() -> None:
    """Whatever rounding did to the parent's cover, and however large or small covers are."""
    rounded = make(**with_entry("cover", 3, 8.0 + 1e-6))
    np.testing.assert_array_equal(rounded.cover_ratio, make().cover_ratio)
    assert (oracle.shapley_values(rounded, [0.0, 0.0]) == oracle.shapley_values(make(), [0.0, 0.0])).all()
    for covers in ([1.7e308, 0.85e308, 0.85e308], [2e-323, 1e-323, 1e-323], [0.0, 0.0, 0.0]):
        stump = dataclasses.replace(chain([0]), cover=np.array(covers))
        assert stump.cover_ratio.tolist() == [1.0, 0.5, 0.5]


def test_sizes() -> None:
    """What the arrays say about themselves."""
    ensemble = make()
    assert repr(ensemble) == "TreeEnsemble(2 trees, 5 leaves, depth 2, 2 features, 1 output)"
    assert ensemble.tree_of_node.tolist() == [0, 0, 0, 1, 1, 1, 1, 1]
    assert (ensemble.n_nodes, ensemble.width) == (8, 1)


def test_an_ensemble_may_have_no_trees() -> None:
    """Then it predicts its base values."""
    per_node = ("left", "right", "feature", "threshold", "cover", "missing_left", "category_set")
    no_nodes: dict[str, Any] = {name: [] for name in per_node}
    ensemble = make(**no_nodes, tree_offsets=[0], value=np.zeros((0, 1)), base_values=[7])
    assert ensemble.predict([[0.0, 0.0]]).tolist() == [[7]]
    assert ensemble.expected_value.tolist() == [7]
    assert ensemble.depth == 0


@pytest.mark.parametrize(
    ("x", "first", "second"),
    [
        ([0.5, 0], 1, 10),  # on the threshold: left
        ([np.nextafter(0.5, 1), 1], 3, 30),
        ([np.nan, np.nan], 1, 20),  # missing: left, right, left
        ([-np.inf, 2], 1, 10),
        ([np.inf, np.inf], 3, 30),  # an infinite code is in no set
        ([-1, 2.9], 1, 10),  # a code is the number without its fraction
        ([-1, -0.5], 1, 20),  # a negative number is no code
        ([np.nextafter(-1, 0), 7], 1, 30),
    ],
)
def test_predict(x: list[float], first: int, second: int) -> None:
    """Ties go left, missing values where they are told to, unknown codes right."""
    assert make().predict([x]).tolist() == [[100 + first + second]]


def test_rows_are_rounded_to_the_models_dtype_first() -> None:
    """In float32, 0.5 + 1e-9 is 0.5; and what does not fit is infinite."""
    ensemble = make(row_format=RowFormat(n_features=2, dtype="float32"))
    assert ensemble.predict([[0.5 + 1e-9, 0], [1e300, 0]]).tolist() == [[111], [113]]
    assert make().predict([[0.5 + 1e-9, 0]]).tolist() == [[113]]


def test_trees_add_to_their_outputs() -> None:
    """One output each, or all of them."""
    apart = make(base_values=[100, 200], tree_output=[1, 0])
    assert apart.predict([[0, 0]]).tolist() == [[110, 201]]
    together = make(base_values=[100, 200], value=np.arange(16).reshape(8, 2))
    assert together.predict([[0, 0]]).tolist() == [[100 + 2 + 8, 200 + 3 + 9]]


def test_rows_of_another_width_are_refused() -> None:
    """As is a single row without its second dimension."""
    with pytest.raises(InputError, match=r"shape \(n_rows, 2\), got \(1, 3\)"):
        make().predict([[0, 0, 0]])
    with pytest.raises(InputError, match=r"shape \(n_rows, 2\), got \(2,\)"):
        make().predict([0, 0])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(ensembles(), st.integers(0, 2**32 - 1))
def test_expected_value_is_the_empty_coalition(ensemble: TreeEnsemble, seed: int) -> None:
    """Up to the rounding of sums of at most 72 leaf values."""
    (x,) = random_rows(np.random.default_rng(seed), ensemble, 1)
    nobody = oracle.as_float(oracle.coalition_value(ensemble, x, ()))
    np.testing.assert_allclose(ensemble.expected_value, nobody, rtol=0, atol=1e-13)


def test_below_a_node_without_cover_both_children_count_half() -> None:
    """And the cover ratio of a root is 1."""
    assert chain([0, 1], share=[0.0, 0.5]).cover_ratio.tolist() == [1, 1, 0, 0.5, 0.5]


def test_a_chain_of_a_thousand_nodes() -> None:
    """Depth is no obstacle to checking, predicting or expecting."""
    ensemble = chain([0] * 1000)
    assert ensemble.depth == 1000
    assert ensemble.predict([[-1.0]]).tolist() == [[1.0]]
    assert np.isfinite(ensemble.expected_value).all()


def test_arrays_are_read_only_copies() -> None:
    """Nobody can change a checked ensemble: neither its arrays nor the caller's own."""
    threshold = np.array(FIELDS["threshold"], dtype=np.float64)
    ensemble = make(threshold=threshold)
    threshold[0] = np.nan
    assert ensemble.threshold[0] == 0.5
    for field in dataclasses.fields(ensemble):
        array = getattr(ensemble, field.name)
        if isinstance(array, np.ndarray):
            assert not array.flags.writeable, field.name
    for derived in (ensemble.cover_ratio, ensemble.expected_value):
        assert not derived.flags.writeable
    with pytest.raises(dataclasses.FrozenInstanceError):
        ensemble.left = ensemble.right  # type: ignore[misc]


def test_a_read_only_view_does_not_let_the_owner_change_us() -> None:
    """A view may be read-only while the array below it is not."""
    threshold = np.array(FIELDS["threshold"], dtype=np.float64)
    view = threshold[:]
    view.setflags(write=False)
    ensemble = make(threshold=view)
    threshold[0] = 9.0
    assert ensemble.threshold[0] == 0.5


def test_pickling_keeps_everything_and_checks_again() -> None:
    """Copies predict the same; cached numbers stay behind; a damaged state is refused."""
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_outputs=3, zero_cover=True, dtype="float32")
    rows = random_rows(rng, ensemble, 50)
    assert ensemble.expected_value.shape == (3,)  # now cached
    copy = pickle.loads(pickle.dumps(ensemble))
    assert (copy.predict(rows) == ensemble.predict(rows)).all()
    assert copy.row_format == ensemble.row_format
    assert not copy.threshold.flags.writeable
    state = ensemble.__getstate__()
    assert "expected_value" not in state
    with pytest.raises(ModelError, match="cover has 1 entries"):
        TreeEnsemble.__new__(TreeEnsemble).__setstate__({**state, "cover": np.ones(1)})


@pytest.mark.parametrize("module", [ensemble_module, oracle, paper], ids=lambda module: module.__name__)
def test_examples_in_docstrings(module: Any) -> None:
    """They are there, and they are true."""
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
