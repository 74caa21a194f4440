"""A model file → what TreeExplainer takes, told apart by content.

Files of numbers and names are read as they are. A skops file says which types it is made of, and types that
are not known to be harmless are refused; a pickle can run any code, and is refused unless the user insists.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import FileFormatError, InputError, LinearTreeShapError, MissingDependencyError, how_to_install
from ..explainer import TreeExplainer
from ..importers import file_importers, importer_of_file, library_of

__all__ = ["Model", "add_arguments", "add_groups_argument", "read", "read_groups"]

_OUR_OWN = "linear-treeshap"

#: How a pickle begins, plain or in one of the compressions of joblib.
_PICKLES = (
    b"\x80",
    b"x\x01",
    b"x\x5e",
    b"x\x9c",
    b"x\xda",
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ",
    b"\x04\x22\x4d\x18",
)


@dataclass(frozen=True)
class Model:
    """A model file that has been opened."""

    path: Path
    library: str  # whose model it is, for people to read
    #: The path itself, or the fitted model that was in the file.
    content: Any

    @property
    def is_object(self) -> bool:
        """Is there a fitted model of some library, rather than a file of trees?"""
        return not isinstance(self.content, Path)

    def explainer(self, *, groups: Any = None, n_jobs: int | None = None) -> TreeExplainer:
        """The explainer of this model; an error names the file."""
        try:
            if self.library == _OUR_OWN:  # with whatever it was saved with, and other groups if there are any
                return TreeExplainer.load(self.path, groups=groups, n_jobs=n_jobs)
            return TreeExplainer(self.content, groups=groups, n_jobs=n_jobs)
        except LinearTreeShapError as error:
            if str(self.path) in str(error):
                raise
            raise type(error)(f"Cannot explain {str(self.path)!r}: {error}") from error


def add_arguments(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """The model, and what a file that is more than numbers may do."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        type=Path,
        nargs="?" if optional else None,
        help="model file: XGBoost (.json, .ubj), LightGBM (.txt), GPBoost (.json), CatBoost (.cbm), "
        "treelite, ONNX, H2O (a MOJO, .zip), one that linear_treeshap.save wrote, or scikit-learn's in a "
        ".skops file; of YDF and Spark, the directory",
    )
    parser.add_argument(
        "--trust",
        metavar="TYPE",
        action="append",
        default=[],
        help="a type that a .skops file may contain; may be given several times",
    )
    parser.add_argument(
        "--allow-pickle",
        action="store_true",
        help="read pickles too: they can run any code, so only those whose writer you trust",
    )


def add_groups_argument(parser: argparse.ArgumentParser) -> None:
    """Which columns are explained together."""
    parser.add_argument(
        "--groups",
        metavar="GROUPS",
        help="explain groups of columns instead of columns: 'onehot' for families such as city_Rome and "
        "city_Oslo, or a JSON file with the columns of each group",
    )


def read_groups(text: str | None) -> Any:
    """What TreeExplainer takes for the word or the file that was given."""
    if text is None or text == "onehot":
        return text
    try:
        groups = json.loads(Path(text).read_text(encoding="utf-8"), object_pairs_hook=_without_repeats)
    except FileNotFoundError as error:
        raise InputError(f"--groups must be 'onehot' or a JSON file; there is no file {text!r}.") from error
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"Cannot read {text!r} as JSON: {error}.") from error
    if not isinstance(groups, dict):
        raise FileFormatError(f'{text!r} must hold an object such as {{"city": ["city_Rome", "city_Oslo"]}}.')
    return groups


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys differ: of two that do not, JSON would keep the second and say nothing."""
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise ValueError(f"the group {key!r} is there twice")
        seen.add(key)
    return dict(pairs)


def read(path: Path, *, trust: Sequence[str] = (), allow_pickle: bool = False) -> Model:
    """Open a model file, whatever library wrote it."""
    importer = importer_of_file(path)
    if importer is not None:
        return Model(path, importer.LIBRARY, path)
    with path.open("rb") as file:
        head = file.read(8)
    if head.startswith(b"PK"):
        return _of_object(path, _read_skops(path, trust))
    if head.startswith(_PICKLES):
        return _of_object(path, _read_pickle(path, allow_pickle))
    # Our own begin with the length of a header.
    if len(head) < 8 or int.from_bytes(head, "little") > path.stat().st_size:
        libraries = ", ".join(importer.LIBRARY for importer in file_importers())
        raise FileFormatError(
            f"{str(path)!r} is no model file: it is neither of {libraries}, nor a skops file or a pickle, "
            f"nor one that linear_treeshap.save wrote."
        )
    return Model(path, _OUR_OWN, path)


def _of_object(path: Path, content: Any) -> Model:
    return Model(path, f"{library_of(content)} ({type(content).__name__})", content)


def _read_skops(path: Path, trust: Sequence[str]) -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise MissingDependencyError(
            f"{str(path)!r} looks like a skops file, and skops is not installed. {how_to_install('skops')}"
        ) from error
    try:
        unknown = [name for name in skops.io.get_untrusted_types(file=path) if name not in trust]
        if not unknown:
            return skops.io.load(path, trusted=list(trust))
    except Exception as error:  # a damaged file can fail in any way
        raise FileFormatError(f"Cannot read {str(path)!r} as a skops file: {error}") from error
    options = " ".join(f"--trust {name}" for name in unknown)
    raise FileFormatError(
        f"{str(path)!r} contains types that skops does not know to be harmless: {', '.join(unknown)}. "
        f"If you trust whoever wrote the file, add: {options}"
    )


def _read_pickle(path: Path, allow_pickle: bool) -> Any:
    if not allow_pickle:
        raise FileFormatError(
            f"{str(path)!r} is a pickle, and reading a pickle can run any code that its writer put there. "
            f"Save the model in its library's own format or with skops; if you trust the writer, add "
            f"--allow-pickle."
        )
    print(
        f"linear-treeshap: warning: unpickling {str(path)!r} runs whatever code its writer put there.",
        file=sys.stderr,
    )
    try:
        return _unpickled(path)
    except Exception as error:  # a pickle can fail in any way
        raise FileFormatError(
            f"Cannot unpickle {str(path)!r}: {type(error).__name__}: {error}. Is the library that the model "
            f"came from installed, in the same release?"
        ) from error


def _unpickled(path: Path) -> Any:
    try:
        import joblib  # reads its own files and plain pickles, compressed or not
    except ImportError:
        import pickle

        with path.open("rb") as file:
            return pickle.load(file)
    return joblib.load(path)
