"""Directories of pyspark.ml that are damaged, or claim more than they hold: refused with an error of ours.

What Spark itself predicts is compared in tests/clusters; neither Spark nor Java is needed here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fuzz.bundles import joined, separated, unbundled
from fuzz.campaign import CORPUS
from linear_treeshap import FileFormatError, TreeExplainer, import_model

pytest.importorskip("pyarrow")

#: Changes what a directory says: "metadata", "data" (lines of nodes), "treesMetadata" (lines of weights).
Change = Callable[[dict[str, Any]], object]


def _directory(tmp_path: Path, change: Change, name: str = "RandomForestClassificationModel") -> Path:
    """A small forest with something changed."""
    texts = separated((CORPUS / "spark" / name).read_bytes())
    said: dict[str, Any] = {"metadata": json.loads(texts["metadata/part-00000"])}
    for table in ("data", "treesMetadata"):
        said[table] = [json.loads(line) for line in texts[table].splitlines()]
    change(said)
    files = {"metadata/part-00000": json.dumps(said["metadata"]).encode()}
    for table in ("data", "treesMetadata"):
        files[table] = "\n".join(map(json.dumps, said[table])).encode()
    (tmp_path / "bundle").write_bytes(joined(files))
    directory = unbundled(tmp_path / "bundle", "spark", tmp_path / "model")
    assert directory is not None
    return directory


def _node(said: dict[str, Any], line: int = 0) -> Any:
    return said["data"][line]["nodeData"]


def _split(said: dict[str, Any]) -> Any:
    """That of the first root, about the first column, which has categories."""
    node = _node(said)["split"]
    node.update(featureIndex=0, numCategories=5, leftCategoriesOrThreshold=[0.0, 2.0])
    return node


REFUSED: dict[str, tuple[Change, str]] = {
    "metadata of another kind": (lambda said: said.update(metadata=[]), "no JSON object"),
    "classes in words": (lambda said: said["metadata"].update(numClasses="3"), "no whole number"),
    "more classes than are counted": (
        lambda said: said["metadata"].update(numClasses=2**40),
        "count 3 classes, of 1,099,511,627,776",
    ),
    "columns beyond number": (
        lambda said: said["metadata"].update(numFeatures=2**40),
        "n_features must be",
    ),
    "no nodes": (lambda said: said["data"].clear(), "treeID|no nodes"),
    "a tree far away": (lambda said: said["data"][-1].update(treeID=10**12), "not numbered"),
    "a tree before the first": (lambda said: said["data"][0].update(treeID=-1), "not numbered"),
    "a node twice": (lambda said: _node(said, 1).update(id=0), "not numbered"),
    "a node without a child": (lambda said: _node(said).pop("leftChild"), "absent"),
    "a child beyond 32 bits": (
        lambda said: _node(said).update(leftChild=2**32 + 1),
        "as a model of Spark",
    ),
    "counts of different classes": (
        lambda said: _node(said, 1)["impurityStats"].pop(),
        "do not all count",
    ),
    "counts that are none": (
        lambda said: [line["nodeData"].update(impurityStats="many") for line in said["data"]],
        "as a model of Spark",
    ),
    "a tree without a weight": (lambda said: said["treesMetadata"].pop(), "a weight for each of 2"),
    "categories never heard of": (
        lambda said: _split(said).update(leftCategoriesOrThreshold=[7.0]),
        "none of 5",
    ),
    "halves of categories": (
        lambda said: _split(said).update(leftCategoriesOrThreshold=[0.5]),
        "none of 5",
    ),
    "too many categories": (
        lambda said: [
            line["nodeData"]["split"].update(
                featureIndex=0, numCategories=2**31 - 1, leftCategoriesOrThreshold=[0.0]
            )
            for line in said["data"]
            if line["nodeData"]["leftChild"] >= 0
        ],
        "claim too many",
    ),
    "more categories than before": (lambda said: _split(said).update(numCategories=6), "disagree"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_damaged_directory_is_refused(case: str, tmp_path: Path) -> None:
    change, message = REFUSED[case]
    with pytest.raises(FileFormatError, match=message):
        import_model(_directory(tmp_path, change))


def test_one_that_is_not_damaged_is_explained(tmp_path: Path) -> None:
    """Or the changes above would prove nothing."""
    directory = _directory(tmp_path, lambda said: None)
    assert TreeExplainer(directory).shap_values([[1.0, 2.0, 3.0]]).shape == (1, 3, 3)
    directory = _directory(tmp_path, _split)
    assert import_model(directory).row_format.categories[0] == (0.0, 1.0, 2.0, 3.0, 4.0)
