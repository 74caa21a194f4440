"""What was explained ↔ a file of numbers and names, as docs/file-format.md describes it.

The file is a safetensors file (`tensor_file.py`): other languages can open it, and nothing in it can be
executed. What is read has the right types here; what it means is checked by TreeEnsemble itself, and by the
explainer that is made of it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FileFormatError, InputError, ModelError
from ..model.ensemble import TreeEnsemble
from ..model.links import Exponential, Link, Logistic
from ..model.row_format import Label, RowFormat
from ..model.saved_model import SavedModel
from ..players.players import Players
from . import tensor_file
from .cells import Cells
from .fingerprint import Fingerprint, check_fingerprint
from .saved_lookups import ARRAYS, arrays_of, plain_lookups, read_combined, read_lookups
from .tensor_file import REMEDY, from_json, some, to_json

__all__ = ["FORMAT_VERSION", "Explained", "SavedExplainer", "load", "read", "save", "write"]

#: Raised by one whenever a reader of the version before would misread or refuse a file. A file has the lowest
#: version that can hold it, so that older releases read what they can.
FORMAT_VERSION = 4

_FORMAT = "linear-treeshap"

#: Every array of a TreeEnsemble: its safetensors type and number of dimensions. The widest types come
#: first, so that each array begins at a multiple of its width.
_LAYOUT = {
    "tree_offsets": ("I64", 1),
    "category_offsets": ("I64", 1),
    "threshold": ("F64", 1),
    "cover": ("F64", 1),
    "value": ("F64", 2),
    "base_values": ("F64", 1),
    "left": ("I32", 1),
    "right": ("I32", 1),
    "feature": ("I32", 1),
    "category_set": ("I32", 1),
    "category_codes": ("I32", 1),
    "tree_output": ("I32", 1),
    "missing_left": ("BOOL", 1),
}
_METADATA = {"format", "version", "crc32", "row_format", "output_names", "players"}
#: Since version 2: rows by their cells. Without a background, or a fingerprint, it has no rows.
_CELLS = "U8|U16|I32"
_LAYOUT_2 = {
    **_LAYOUT,
    "background": (_CELLS, 2),
    "background_weights": ("F64", 1),
    "fingerprint": (_CELLS, 2),
    "fingerprint_predictions": ("F64", 2),
}
#: Since version 3, for models that look numbers up.
_METADATA_2 = _METADATA | {"explained"}
#: There if there is anything to say.
_OPTIONAL = {"monotone"}
_LAYOUT_3 = {**_LAYOUT_2, **ARRAYS}
_VERSIONS = {
    "1": (_METADATA, _LAYOUT),
    "2": (_METADATA_2, _LAYOUT_2),
    "3": (_METADATA_2 | {"lookups"}, _LAYOUT_3),
    "4": (_METADATA_2 | {"lookups"}, _LAYOUT_3),  # for models to which an unknown category is not missing
}

#: Python refuses to read longer whole numbers (older releases do so very slowly).
_MAX_DIGITS = 4300
#: Labels are compared with floats, which reach up to here.
_TOO_LARGE = 2**1023
#: Weights per size of a coalition grow with the number of players, and are added up in exact fractions.
_MAX_NUMBERS, _MAX_NUMBER_TEXT = 4096, 1000


@dataclass(frozen=True)
class Explained:
    """What an explainer explains of its trees."""

    model: SavedModel
    model_output: str
    feature_perturbation: str
    index: Any


@dataclass(frozen=True)
class SavedExplainer:
    """All that a file holds."""

    ensemble: TreeEnsemble
    players: Players | None = None  # None if they are the columns by their names
    explained: Explained | None = None  # None if the trees alone were saved
    background_rows: Any = None  # (n_rows, n_columns) as the trees read them, or None
    background_weights: Any = None  # (n_rows,), or None if all count the same
    fingerprint: Fingerprint | None = None


def save(ensemble: TreeEnsemble, path: str | os.PathLike[str]) -> None:
    """Write an ensemble to a file that `load`, and any reader of safetensors, can read.

    A file that exists is replaced at once when the new one is complete, and keeps its permissions.

    Examples
    --------
    >>> import os, tempfile
    >>> from linear_treeshap import RowFormat, TreeEnsemble, load, save
    >>> stump = TreeEnsemble(
    ...     tree_offsets=[0, 3], left=[1, -1, -1], right=[2, -1, -1], feature=[0, -1, -1],
    ...     threshold=[0.5, 0, 0], cover=[4, 3, 1], value=[[0], [1], [3]],
    ...     base_values=[10], row_format=RowFormat(n_features=1, feature_names=("age",)),
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "stump.safetensors")
    ...     save(stump, path)
    ...     load(path)
    TreeEnsemble(1 tree, 2 leaves, depth 1, 1 feature, 1 output)
    """
    if not isinstance(ensemble, TreeEnsemble):
        raise ModelError(
            f"save writes a TreeEnsemble, got {type(ensemble).__name__}. Use import_model(model) to make one."
        )
    write(path, SavedExplainer(ensemble))


def write(path: str | os.PathLike[str], saved: SavedExplainer) -> None:
    """Write all there is."""
    ensemble, players, explained = saved.ensemble, saved.players, saved.explained
    lookups = ensemble.row_format.lookups
    version = ("3" if lookups else "2") if ensemble.row_format.unknown_is_missing else "4"
    metadata = {
        "format": _FORMAT,
        "version": version,
        "row_format": to_json(_plain_row_format(ensemble.row_format)),
        "output_names": to_json(ensemble.output_names),
        "players": to_json(None if players is None else _plain_players(players)),
        "explained": to_json(None if explained is None else _plain_explained(explained)),
    }
    arrays = {name: getattr(ensemble, name) for name in _LAYOUT}
    cells = Cells(ensemble)
    no_rows = np.zeros((0, len(cells.columns)), dtype=np.uint8)
    rows, weights, fingerprint = saved.background_rows, saved.background_weights, saved.fingerprint
    arrays["background"] = no_rows if rows is None else cells.of_rows(rows)
    arrays["background_weights"] = np.zeros(0) if weights is None else weights
    arrays["fingerprint"] = no_rows if fingerprint is None else fingerprint.cells
    no_predictions = np.zeros((0, ensemble.n_outputs))
    arrays["fingerprint_predictions"] = no_predictions if fingerprint is None else fingerprint.predictions
    if ensemble.monotone:
        metadata["monotone"] = to_json({str(column): d for column, d in sorted(ensemble.monotone.items())})
    if "lookups" in _VERSIONS[version][0]:
        metadata["lookups"] = to_json(plain_lookups(lookups))
        arrays |= arrays_of(lookups)
    tensor_file.write(Path(path), _VERSIONS[version][1], arrays, metadata)


def load(path: str | os.PathLike[str]) -> TreeEnsemble:
    """Read an ensemble that `save` wrote; what an explainer saved beside it is left in the file.

    Raises
    ------
    FileFormatError
        The file is missing, damaged, not one of ours, or written by a newer version of this library.
    """
    return read(path).ensemble


def read(path: str | os.PathLike[str]) -> SavedExplainer:
    """Read all there is."""
    try:
        arrays, metadata = tensor_file.read(Path(path), _checked_metadata)
        row_format = _row_format(from_json(metadata["row_format"], "row_format"), metadata["version"])
        if "lookups" in metadata:
            lookups = read_lookups(from_json(metadata["lookups"], "lookups"), arrays)
            row_format = replace(row_format, lookups=lookups)
        columns: dict[str, Any] = {name: arrays[name] for name in _LAYOUT}
        ensemble = TreeEnsemble(
            **columns,
            row_format=row_format,
            output_names=_names(from_json(metadata["output_names"], "output_names"), "output_names"),
            monotone=_monotone(from_json(metadata.get("monotone", "{}"), "monotone")),
        )
        players = _players(from_json(metadata["players"], "players"), ensemble)
        if metadata["version"] == "1":
            return SavedExplainer(ensemble, players)
        explained = _explained(from_json(metadata["explained"], "explained"), ensemble)
        rows, weights = _background(arrays, ensemble, explained)
        return SavedExplainer(ensemble, players, explained, rows, weights, _fingerprint(arrays, ensemble))
    except (FileFormatError, ModelError) as error:
        raise FileFormatError(f"Cannot read {str(path)!r}: {error}") from error


# -- writing ------------------------------------------------------------------------------------------------


def _plain_row_format(row_format: RowFormat) -> dict[str, Any]:
    """A RowFormat in the types of JSON."""
    kept_apart = ("lookups", "keeps_hashes")
    plain = {f.name: getattr(row_format, f.name) for f in fields(row_format) if f.name not in kept_apart}
    if row_format.unknown_is_missing:
        del plain["unknown_is_missing"]  # which is so in all files but those of version 4
    plain["n_features"] = int(row_format.n_features)
    plain["missing_value"] = repr(float(row_format.missing_value))  # JSON has no NaN
    plain["zero_is_missing"] = sorted(map(int, row_format.zero_is_missing))
    plain["truncated"] = sorted(map(int, row_format.truncated))
    plain["categories"] = {
        str(int(feature)): [_label_text(label) for label in labels]
        for feature, labels in sorted(row_format.categories.items())
    }
    plain["frame_labels"] = [[_label_text(label) for label in labels] for labels in row_format.frame_labels]
    plain["hashes"] = {
        str(int(feature)): [
            str(int(number)) for number in numbers
        ]  # as strings: not every JSON reader keeps 64 bits
        for feature, numbers in sorted(row_format.hashes.items())
    }
    return plain


def _plain_players(players: Players) -> dict[str, Any]:
    """Players in the types of JSON."""
    if not players.are_columns and len(set(players.names)) < players.n_players:
        raise ModelError(
            "Several players are called the same, and cannot be saved. Pass other feature_names."
        )
    plain = {
        "of_column": players.of_column.tolist(),
        "names": list(players.names),
        "column_names": list(players.column_names),
        "onehot": sorted(players.onehot),
        "is_guess": players.is_guess,
    }
    if players.combined:  # of a model that looks numbers up
        plain |= {"combined": list(map(list, players.combined)), "is_divided": players.is_divided}
    return plain


def _plain_explained(explained: Explained) -> dict[str, Any]:
    """What is explained in the types of JSON."""
    model = explained.model
    if not isinstance(explained.model_output, str):
        raise InputError(
            f"model_output={explained.model_output!r} is a function of your own, which a file cannot hold. "
            f"Save an explainer of model_output='raw', and give the function to TreeExplainer.load."
        )
    return {
        "model": model.name,
        "model_output": explained.model_output,
        "feature_perturbation": explained.feature_perturbation,
        "index": _plain_index(explained.index),
        "link": _plain_link(model.link),
        "predicts_raw": model.predicts_raw,
        "methods": list(model.methods),
        "is_softmax": model.is_softmax,
    }


def _plain_link(link: Link | None) -> list[str] | None:
    if link is None:
        return None
    if isinstance(link, Logistic):
        return ["logistic", repr(float(link.scale))]
    assert isinstance(link, Exponential), "importers know of no other links"
    return ["exponential"]


def _plain_index(index: Any) -> list[Any]:
    """The name of an index, and its numbers, or lists of them, as strings."""
    name, *numbers = index if isinstance(index, (tuple, list)) else (index,)
    plain = [
        _number_text(argument)
        if np.ndim(argument) == 0
        else [_number_text(x) for x in np.asarray(argument, dtype=object)]
        for argument in numbers
    ]
    if any(isinstance(argument, list) and len(argument) > _MAX_NUMBERS for argument in plain):
        raise InputError(f"An index of more than {_MAX_NUMBERS:,} numbers cannot be saved.")
    return [str(name), *plain]


def _number_text(number: Any) -> str:
    if isinstance(number, Integral):
        return str(int(number))
    text = str(number) if isinstance(number, Fraction) else repr(float(number))
    if len(text) > _MAX_NUMBER_TEXT:
        raise InputError(f"A number of the index takes {len(text):,} digits, and cannot be saved.")
    return text


def _label_text(label: Label) -> str:
    """A label as a string that tells True, 1, 1.0 and "1" apart in every language."""
    if isinstance(label, str):
        return f"str:{label}"
    if isinstance(label, (bool, np.bool_)):
        return f"bool:{'true' if label else 'false'}"
    if isinstance(label, Integral):
        return f"int:{int(label)}"
    if isinstance(label, Real):
        return f"float:{float(label)!r}"
    raise ModelError(
        f"The category label {label!r} is a {type(label).__name__} and cannot be saved. "
        f"Labels must be strings, whole numbers, floats or booleans."
    )


# -- reading ------------------------------------------------------------------------------------------------


def _checked_metadata(found: Any) -> tuple[dict[str, str], tensor_file.Layout]:
    """The format's name first, then its version, then the rest: so that the error says the most."""
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise FileFormatError(
            f"it does not hold a model of {_FORMAT}. Pass a file that linear_treeshap.save wrote."
        )
    version = found.get("version")
    if not isinstance(version, str) or version not in _VERSIONS:
        raise FileFormatError(
            f"it has format version {str(version)[:20]!r}; this release reads versions 1 to "
            f"{FORMAT_VERSION}. Install the release of {_FORMAT} that wrote it, or a newer one."
        )
    expected, layout = _VERSIONS[version]
    if set(found) - _OPTIONAL != expected or not all(isinstance(text, str) for text in found.values()):
        raise FileFormatError(
            f"__metadata__ must have the strings {some(expected)}, got {some(found)}. {REMEDY}"
        )
    return found, layout


def _row_format(plain: Any, version: str) -> RowFormat:
    """The RowFormat that `_plain_row_format` wrote; types are checked here, meaning by RowFormat."""
    expected = {f.name for f in fields(RowFormat)} - {"lookups", "keeps_hashes"}
    if version == "1" and isinstance(plain, dict) and "takes_more" not in plain:
        plain = {**plain, "takes_more": False}
    if version != "4" and isinstance(plain, dict) and "unknown_is_missing" not in plain:
        plain = {**plain, "unknown_is_missing": True}
    if not isinstance(plain, dict) or set(plain) != expected:
        raise FileFormatError(f"row_format must have {some(expected)}, got {some(plain)}. {REMEDY}")
    for flag in ("absent_is_missing", "numbers_are_codes", "unknown_is_missing", "takes_more"):
        is_unknown = flag == "absent_is_missing" and plain[flag] is None
        if not isinstance(plain[flag], bool) and not is_unknown:
            raise FileFormatError(f"{flag} must be true or false, got {str(plain[flag])[:80]}. {REMEDY}")
    for table in ("categories", "hashes"):
        if not isinstance(plain[table], dict):
            raise FileFormatError(f"{table} must be a JSON object. {REMEDY}")
    waiting = plain["frame_labels"]
    if not isinstance(waiting, list):
        raise FileFormatError(f"frame_labels must be a list of lists of labels. {REMEDY}")
    (n_features,) = _features([plain["n_features"]], "n_features")
    return RowFormat(
        n_features=n_features,
        feature_names=_names(plain["feature_names"], "feature_names"),
        dtype=plain["dtype"],
        missing_value=_number(plain["missing_value"], float),
        zero_is_missing=_features(plain["zero_is_missing"], "zero_is_missing"),
        truncated=_features(plain["truncated"], "truncated"),
        absent_is_missing=plain["absent_is_missing"],
        categories={
            _number(feature, int): tuple(map(_label, _names(labels, "categories") or ()))
            for feature, labels in plain["categories"].items()
        },
        frame_labels=tuple(tuple(map(_label, _names(labels, "frame_labels") or ())) for labels in waiting),
        hashes={
            _number(feature, int): tuple(map(_hash, _names(numbers, "hashes") or ()))
            for feature, numbers in plain["hashes"].items()
        },
        numbers_are_codes=plain["numbers_are_codes"],
        unknown_is_missing=plain["unknown_is_missing"],
        takes_more=plain["takes_more"],
    )


def _monotone(plain: Any) -> dict[int, int]:
    """Column → direction; TreeEnsemble checks the rest."""
    if not isinstance(plain, dict) or not all(isinstance(d, int) for d in plain.values()):
        raise FileFormatError(f"monotone must map columns to 1 or -1. {REMEDY}")
    return {_number(column, int): direction for column, direction in plain.items()}


def _players(plain: Any, ensemble: TreeEnsemble) -> Players | None:
    """The players that `_plain_players` wrote."""
    if plain is None:
        return None
    expected = {"of_column", "names", "column_names", "onehot", "is_guess"}
    if isinstance(plain, dict) and ensemble.row_format.lookups and "combined" in plain:
        expected |= {"combined", "is_divided"}
    if (
        not isinstance(plain, dict)
        or set(plain) != expected
        or not all(isinstance(plain.get(flag, False), bool) for flag in ("is_guess", "is_divided"))
    ):
        raise FileFormatError(f"players must have {some(expected)}, got {some(plain)}. {REMEDY}")
    names = _names(plain["names"], "names of players") or ()
    for key in ("of_column", "onehot"):
        if any(player >= len(names) for player in _features(plain[key], key)):
            raise FileFormatError(f"{key} must name one of the {len(names)} players. {REMEDY}")
    columns = _names(plain["column_names"], "names of columns") or ()
    if {len(plain["of_column"]), len(columns)} != {ensemble.n_columns}:
        raise FileFormatError(f"players must have an entry for each of the {ensemble.n_columns} columns.")
    combined = read_combined(plain.get("combined", []), len(names))
    if any(player >= len(names) - len(combined) for player in plain["of_column"][: ensemble.n_features]):
        raise FileFormatError(f"a column of the rows must not belong to a combination. {REMEDY}")
    is_each = plain["of_column"] == list(range(len(names)))
    if len(set(names)) < len(names) and not is_each:
        raise FileFormatError(f"two players that are not columns are called the same. {REMEDY}")
    # A player may have no column: a raw one that a pipeline drops. A family cannot.
    sizes = np.bincount(plain["of_column"], minlength=len(names))
    if any(sizes[player] < 2 for player in plain["onehot"]) or (plain["is_guess"] and not plain["onehot"]):
        raise FileFormatError(f"a one-hot player must have two columns or more. {REMEDY}")
    return Players(
        np.array(plain["of_column"], dtype=np.int32),
        names,
        columns,
        onehot=frozenset(plain["onehot"]),
        is_guess=plain["is_guess"],
        combined=combined,
        is_divided=plain.get("is_divided", False),
    )


def _explained(plain: Any, ensemble: TreeEnsemble) -> Explained | None:
    """What `_plain_explained` wrote; the explainer that is made of it checks the rest."""
    if plain is None:
        return None
    strings = ("model", "model_output", "feature_perturbation")
    flags = ("predicts_raw", "is_softmax")
    expected = {*strings, *flags, "index", "link", "methods"}
    if (
        not isinstance(plain, dict)
        or set(plain) != expected
        or not all(isinstance(plain[flag], bool) for flag in flags)
    ):
        raise FileFormatError(f"explained must have {some(expected)}, got {some(plain)}. {REMEDY}")
    if not all(isinstance(plain[name], str) for name in strings):
        raise FileFormatError(f"{', '.join(strings)} must be strings. {REMEDY}")
    if plain["feature_perturbation"] not in ("interventional", "tree_path_dependent"):
        raise FileFormatError(f"feature_perturbation must be one of the two there are. {REMEDY}")
    model = SavedModel(
        ensemble,
        plain["model"],
        _link(plain["link"]),
        plain["predicts_raw"],
        _names(plain["methods"], "methods") or (),
        plain["is_softmax"],
    )
    return Explained(model, plain["model_output"], plain["feature_perturbation"], _index(plain["index"]))


def _link(plain: Any) -> Link | None:
    if plain is None:
        return None
    kind, *numbers = _names(plain, "link") or ("",)
    if kind == "exponential" and not numbers:
        return Exponential()
    if kind == "logistic" and len(numbers) == 1:
        scale = float(_number(numbers[0], float))
        if 0 < scale < np.inf:
            return Logistic(scale)
    raise FileFormatError(f"link must be logistic, with a scale, or exponential. {REMEDY}")


def _index(plain: Any) -> Any:
    """A name, or a tuple of a name and numbers, of which `index_of` makes an index."""
    if not isinstance(plain, list) or not plain or not isinstance(plain[0], str):
        raise FileFormatError(f"index must be a list that begins with a name. {REMEDY}")
    name, *arguments = plain
    numbers = tuple(
        tuple(map(_index_number, argument[: _MAX_NUMBERS + 1]))
        if isinstance(argument, list)
        else _index_number(argument)
        for argument in arguments
    )
    if any(isinstance(argument, tuple) and len(argument) > _MAX_NUMBERS for argument in numbers):
        raise FileFormatError(f"an index has up to {_MAX_NUMBERS:,} numbers. {REMEDY}")
    return (name, *numbers) if numbers else name


def _index_number(text: Any) -> Any:
    if not isinstance(text, str) or len(text) > _MAX_NUMBER_TEXT:
        raise FileFormatError(f"a number was expected, got {str(text)[:80]!r}. {REMEDY}")
    above, slash, below = text.partition("/")
    if slash:
        if not int(_number(below, int)):
            raise FileFormatError(f"a number was expected, got {text[:80]!r}. {REMEDY}")
        return Fraction(int(_number(above, int)), int(_number(below, int)))
    is_whole = text.removeprefix("-").isdecimal()
    return int(_number(text, int)) if is_whole else float(_number(text, float))


def _background(
    arrays: dict[str, Any], ensemble: TreeEnsemble, explained: Explained | None
) -> tuple[Any, Any]:
    """The rows and weights of a background; None and None if there is none."""
    numbers, weights = arrays["background"], arrays["background_weights"]
    is_needed = explained is not None and explained.feature_perturbation == "interventional"
    if is_needed != (len(numbers) > 0) or len(weights) not in (0, len(numbers)):
        raise FileFormatError(
            f"it has {len(numbers):,} background rows and {len(weights):,} weights, which do not fit. "
            f"{REMEDY}"
        )
    with np.errstate(over="ignore"):
        are_weights = (weights >= 0).all() and 0 < weights.sum() < np.inf
    if len(weights) and not are_weights:
        raise FileFormatError(f"background_weights must be finite, not negative, and not all zero. {REMEDY}")
    rows = Cells(ensemble).rows(numbers)
    return (rows, weights if len(weights) else None) if is_needed else (None, None)


def _fingerprint(arrays: dict[str, Any], ensemble: TreeEnsemble) -> Fingerprint | None:
    """The fingerprint, which the trees agree with."""
    fingerprint = Fingerprint(arrays["fingerprint"], arrays["fingerprint_predictions"])
    check_fingerprint(ensemble, fingerprint)
    return fingerprint if len(fingerprint.cells) else None


def _label(text: str) -> Label:
    kind, _, rest = text.partition(":")
    if kind == "str":
        return rest
    if kind == "bool" and rest in ("true", "false"):
        return rest == "true"
    if kind == "int":
        number = int(_number(rest, int))
        if abs(number) < _TOO_LARGE:
            return number
    if kind == "float":
        return float(_number(rest, float))
    raise FileFormatError(f"the category label {text[:80]!r} is neither str, int, float nor bool. {REMEDY}")


def _hash(text: str) -> int:
    number = int(_number(text, int))
    if not -(2**63) <= number < 2**64:
        raise FileFormatError(f"the hash {text[:80]!r} takes more than 64 bits. {REMEDY}")
    return number


def _number(text: Any, kind: type[int] | type[float]) -> Any:
    if isinstance(text, str) and len(text) <= _MAX_DIGITS:
        try:
            return kind(text)
        except ValueError:
            pass
    raise FileFormatError(f"a number was expected, got {str(text)[:80]!r}. {REMEDY}")


def _names(found: Any, what: str) -> tuple[str, ...] | None:
    if found is None:
        return None
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise FileFormatError(f"{what} must be a list of strings. {REMEDY}")
    return tuple(found)


def _features(found: Any, what: str) -> frozenset[int]:
    """Numbers of features, which fit into 32 bits as they do in the arrays."""
    limit = np.iinfo(np.int32).max
    if not isinstance(found, list) or not all(type(count) is int and 0 <= count <= limit for count in found):
        raise FileFormatError(f"{what} must be whole numbers from 0 to {limit:,}. {REMEDY}")
    return frozenset(found)
