"""H2O's gradient boosting and random forests, from a MOJO → TreeEnsemble.

A MOJO is a zip that H2O writes to be scored without its server: a description in text, the labels of each
column, and each tree as bytes, with the weights of the training rows beside it. It is read without Java.

Boosted trees add up, with the initial value, to what the model's link is applied to; those of several classes
have an output for each. A forest is the mean of its trees: predictions, or the probability of two classes. A
forest of more classes divides by the sum of its classes' trees, which is no sum. Numbers are float64 and go
right if they are at least a threshold; labels that were not there in training are missing.
"""

from __future__ import annotations

import re
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FileFormatError, ModelError, UnsupportedModelError
from ..model.ensemble import TreeEnsemble
from ..model.row_format import RowFormat
from .assemble import NodeArrays
from .h2o_trees import Tree, parse_tree
from .packed import require_modest

__all__ = ["BEGINNINGS", "LIBRARY", "is_file_of_model", "read_file", "to_ensemble"]

LIBRARY = "H2O"
BEGINNINGS = (b"PK\x03\x04",)

#: Labels of all columns that are made room for, however small the file; each column has a file of its own.
_MAX_LABELS = 1 << 20
#: Categories that all nodes together may ask about: so many in any file, or so many for each byte of trees.
_MAX_ASKED, _ASKED_PER_BYTE = 1 << 25, 256

#: Columns are read as they came with these.
_PLAIN_ENCODINGS = ("AUTO", "Enum", "SortByResponse")


def to_ensemble(model: Any) -> TreeEnsemble:
    """Of a model on a server: by its MOJO, which some releases of H2O do not write without a licence."""
    with tempfile.TemporaryDirectory() as directory:
        return read_file(Path(model.download_mojo(directory)))


def is_file_of_model(path: Path) -> bool:
    """Is this zip a MOJO? Others put models into zips as well: skops does, under another name."""
    if path.suffix == ".zip":
        return True
    try:
        with zipfile.ZipFile(path) as archive:
            return "model.ini" in archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


def read_file(path: Path) -> TreeEnsemble:
    """Read a MOJO; neither H2O nor Java is needed."""
    try:
        with zipfile.ZipFile(path) as archive:
            require_modest(archive)
            return _build(_Mojo(archive))
    except UnsupportedModelError:
        raise
    except (
        FileFormatError,
        ModelError,
        zipfile.BadZipFile,
        zlib.error,
        OSError,
        EOFError,
        KeyError,
    ) as error:
        raise FileFormatError(f"Cannot read {str(path)!r} as a MOJO of H2O: {error}") from error
    except (ValueError, NotImplementedError, RuntimeError) as error:  # of zipfile, or a number that is none
        raise FileFormatError(f"Cannot read {str(path)!r} as a MOJO of H2O: {error}") from error


class _Mojo:
    """A MOJO's description, and the labels of its columns."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._read: dict[str, list[str]] = {}
        self.info: dict[str, str] = {}
        self.columns: list[str] = []
        self.domains: dict[int, tuple[str, ...]] = {}
        section, n_claimed = "", 0
        n_most = max(_MAX_LABELS, sum(entry.file_size for entry in archive.infolist()))
        for line in self._lines("model.ini"):
            if line.startswith("["):
                section = line
            elif section == "[info]":
                key, _, value = line.partition("=")
                self.info[key.strip()] = value.strip()
            elif section == "[columns]":
                self.columns.append(line)
            elif section == "[domains]" and line:
                column, n_labels, name = line.replace(":", " ").split()
                n_claimed += max(0, int(n_labels))
                if n_claimed > n_most:
                    raise FileFormatError(f"its columns claim to have more than {n_most:,} labels.")
                self.domains[int(column)] = self._labels(f"domains/{name}", int(n_labels))
        del self.columns[int(self.info["n_columns"]) :]  # sections end with an empty line

    def trees(self) -> dict[tuple[int, int], tuple[bytes, bytes]]:
        """(round, class) → a tree, and what training knew of it."""
        found = {}
        for name in self._archive.namelist():
            if match := re.fullmatch(r"trees/t(\d+)_(\d+)\.bin", name):
                known = self._archive.read(name.replace(".bin", "_aux.bin"))
                found[int(match[2]), int(match[1])] = (self._archive.read(name), known)
        return dict(sorted(found.items()))

    def _labels(self, name: str, n_labels: int) -> tuple[str, ...]:
        lines = self._lines(name)[:n_labels]
        if len(lines) != n_labels:
            raise FileFormatError(f"{name} does not have {n_labels} labels.")
        if self.info.get("escape_domain_values") != "true":
            return tuple(lines)
        escaped = {"n": "\n", "r": "\r"}
        return tuple(re.sub(r"\\(.)", lambda found: escaped.get(found[1], found[1]), line) for line in lines)

    def _lines(self, name: str) -> list[str]:
        if name not in self._read:
            text = self._archive.read(name).decode("utf-8", errors="replace")
            self._read[name] = [line.strip() for line in text.split("\n")]
        return self._read[name]


def _build(mojo: _Mojo) -> TreeEnsemble:
    _refuse(mojo.info)
    n_features, n_rounds = int(mojo.info["n_features"]), int(mojo.info["n_trees"])
    classes = mojo.domains.get(len(mojo.columns) - 1, ()) if mojo.info["category"] != "Regression" else ()
    is_forest = mojo.info["algo"] == "drf"
    n_outputs = len(classes) if len(classes) > 2 else 1
    found = mojo.trees()
    if any(not (0 <= number < n_rounds and 0 <= label < n_outputs) for number, label in found):
        raise FileFormatError(f"it has trees beyond {n_rounds} rounds of {n_outputs}.")
    if not 0 <= n_features <= len(mojo.columns):
        raise FileFormatError(f"it has {len(mojo.columns)} columns, of which it says to read {n_features}.")
    domains = {column: labels for column, labels in mojo.domains.items() if column < n_features}
    sizes = [len(domains.get(column, ())) for column in range(n_features)]
    order = ">" if mojo.info.get("endianness") == "BIG_ENDIAN" else "<"
    room = max(_MAX_ASKED, _ASKED_PER_BYTE * sum(len(tree) + len(known) for tree, known in found.values()))
    trees: list[Tree] = []
    for content in found.values():
        trees.append(parse_tree(*content, sizes, order, room))
        room -= trees[-1].n_asked
    arrays = _arrays(trees, width=2 if is_forest and classes else 1)
    value = arrays["value"]
    if is_forest:
        # The probability of the first class, and what is left of each tree for the second.
        leaf = arrays["left"] < 0
        value = np.where(
            leaf[:, None], np.column_stack([value[:, 0], 1 - value[:, 0]])[:, : value.shape[1]], 0
        )
        value = value / max(1, n_rounds)
    return TreeEnsemble(
        **{**arrays, "value": value},
        base_values=np.full(value.shape[1] * n_outputs, 0.0 if is_forest else float(mojo.info["init_f"])),
        tree_output=np.array([label for _, label in found], dtype=np.int32),
        row_format=RowFormat(
            n_features, tuple(mojo.columns[:n_features]), categories=dict(domains), numbers_are_codes=False
        ),
        output_names=(classes if is_forest or len(classes) > 2 else classes[1:]) or None,
    )


def _refuse(info: dict[str, str]) -> None:
    """Refuse what is not a sum of trees, or not of these columns."""
    kind = f"{info['algo']}, {info['category']}"
    if info["algo"] not in ("gbm", "drf") or info["category"] not in (
        "Regression",
        "Binomial",
        "Multinomial",
    ):
        raise UnsupportedModelError(
            f"This MOJO is of another kind ({kind}). Supported are gradient boosting and random forests."
        )
    if float(info["mojo_version"]) < 1.2:
        raise UnsupportedModelError(
            f"This MOJO is of version {info['mojo_version']}, of before 2017. Write it with a newer H2O."
        )
    if info["algo"] == "drf" and (
        info["category"] == "Multinomial" or info.get("binomial_double_trees") == "true"
    ):
        raise UnsupportedModelError(
            "A random forest of H2O with a tree for each class divides by the sum of these trees, which is "
            "no sum of trees. Train gradient boosting, or for two classes with binomial_double_trees=False."
        )
    if info.get("balance_classes") == "true":
        raise UnsupportedModelError(
            "With balance_classes=True, H2O corrects what the trees add up to. Train it without."
        )
    if info.get("distribution") == "multinomial" and info["category"] == "Binomial":
        raise UnsupportedModelError("Of two classes, train with distribution='bernoulli'.")
    encoding = info.get("_genmodel_encoding", "AUTO")
    if encoding not in _PLAIN_ENCODINGS:
        raise UnsupportedModelError(
            f"This model was trained with categorical_encoding={encoding!r}: its trees read columns that H2O "
            f"makes of yours. Train it with categorical_encoding='enum'."
        )


def _arrays(trees: Sequence[Tree], width: int) -> dict[str, Any]:
    nodes = NodeArrays.empty([len(tree.left) for tree in trees], width)
    for name in ("left", "right", "feature", "threshold", "missing_left", "cover"):
        nodes.fill(name, (np.array(getattr(tree, name)) for tree in trees))
    nodes.fill("value", (np.repeat(np.array(tree.value)[:, None], width, axis=1) for tree in trees))
    category_set = np.full(len(nodes.left), -1, dtype=np.int32)
    asking = [
        int(start) + node
        for start, tree in zip(nodes.tree_offsets[:-1], trees, strict=True)
        for node in tree.sets
    ]
    codes = [codes for tree in trees for codes in tree.sets.values()]
    category_set[asking] = np.arange(len(codes))
    return {
        **nodes.finish(),
        "category_set": category_set,
        "category_offsets": np.cumsum([0, *map(len, codes)]),
        "category_codes": np.concatenate([np.zeros(0, np.int32), *codes]),
    }
