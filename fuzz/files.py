"""The file fuzzer: a damaged model file is either refused, with an error of ours, or explained consistently.

Files come from the models of the tests' zoo, in every format that is read. Whatever else happens is a
finding: an exception that is not ours, values that are not finite or do not add up, and - seen by the process
that watches - a crash, too much memory or too much time.
"""

from __future__ import annotations

import json
import shutil
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from linear_treeshap import AdditivityError, LinearTreeShapError, TreeEnsemble, TreeExplainer, import_model

from .bundles import KINDS as BUNDLES
from .bundles import unbundled
from .campaign import CORPUS
from .cases import as_dictionary
from .mutations import mutate
from .tally import Tally
from .worker import input_path, scratch_folder

__all__ = ["case", "examine", "prepare"]

#: Library → models of the zoo, whose files are damaged. Small ones, and each odd in its own way.
MODELS = {
    "xgboost": "regressor multiclass categorical_frame dart vector_leaves early_stopped single_leaves",
    "lightgbm": "regressor multiclass categorical categorical_frame zero_as_missing random_forest",
    "catboost": "regressor multiclass one_hot depthwise nan_above_all multi_output statistics "
    "statistics_multiclass",
    "treelite": "sklearn_classifier xgboost lightgbm_categories isolation_forest",
}
N_ROWS = 5
#: More columns than that make matrices of pairs of their own size, which is no fault of a file.
_MAX_PAIRED = 40
_MAX_NUMBERS = 1 << 22
#: No number of the rows is as large.
_LARGEST = 20
#: Sums of leaves beyond this overflow.
_HUGE = 1e300
_MAX_WAIT_SECONDS = 250.0


def case(rng: np.random.Generator) -> Tally:
    """Damage one file, and read it."""
    files = _corpus()
    kind = str(rng.choice(sorted(files)))
    data, other = (files[kind][int(i)] for i in rng.integers(len(files[kind]), size=2))
    damaged, what = mutate(rng, kind, data, other)
    path = input_path()
    path.write_bytes(damaged)
    return examine(path, kind, what)


def examine(path: Path, kind: str, what: str = "") -> Tally:
    """Read and explain a file."""
    tally = Tally()
    try:
        outcome = _explained(path, kind)
        tally.done(f"{kind}: {outcome}")
    except AdditivityError as error:
        tally.complain(f"{kind}: does not add up", f"{error} ({what})")
    except LinearTreeShapError as error:
        tally.done(f"{kind}: {type(error).__name__}")
    except _InconsistentError as error:
        tally.complain(f"{kind}: inconsistent", f"{error} ({what})")
    except MemoryError as error:
        tally.complain(f"{kind}: MemoryError", f"{error} ({what})")
    except Exception as error:
        tally.complain(f"{kind}: foreign exception", f"{type(error).__name__}: {error} ({what})")
    return tally


class _InconsistentError(Exception):
    """Values that cannot be right."""


def _explained(path: Path, kind: str) -> str:
    if kind == "saved":
        explainer = TreeExplainer.load(path, n_jobs=1)
    elif kind == "dictionary":
        try:
            model = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            return "no JSON any more"
        explainer = TreeExplainer(model, n_jobs=1)
    elif kind in BUNDLES:
        unpacked = unbundled(path, kind, input_path().with_suffix(f".{kind}"))
        if unpacked is None:
            return "no files any more"
        explainer = TreeExplainer(unpacked, n_jobs=1)
    else:
        ensemble = import_model(path)
        # Trees that do not say what went where, and leaves that are lines, are explained against rows.
        needs_rows = kind == "onnx" or ensemble.lines is not None
        explainer = TreeExplainer(ensemble, _rows(ensemble)[:3] if needs_rows else None, n_jobs=1)
    rows = _rows(explainer.ensemble)
    with np.errstate(all="ignore"):
        scale = np.abs(explainer.ensemble.value).sum() + np.abs(explainer.ensemble.base_values).sum()
        if explainer.ensemble.lines is not None:
            scale += _LARGEST * np.abs(explainer.ensemble.lines.slope).sum()
    if not scale < _HUGE:  # sums may overflow, and then nothing adds up
        explainer.shap_values(rows, check_additivity=False)
        return "explained, beyond what float64 adds up"
    values = explainer.shap_values(rows)
    _require_finite(values, "values")
    _require_finite(explainer.expected_value, "expected value")
    if len(explainer.players.names) <= _MAX_PAIRED and explainer.model_output == "raw":
        pairs = explainer.shap_interaction_values(rows)
        _require_finite(pairs, "pairs")
        gap = np.abs(pairs.sum(axis=2) - values).max(initial=0.0)
        if not gap <= 1e-9 * scale:
            raise _InconsistentError(f"pairs differ from values by {gap:.2g}")
    return "explained"


def _rows(ensemble: TreeEnsemble) -> Any:
    """Rows that the model can read."""
    n_features = ensemble.n_features
    n_rows = max(1, min(N_ROWS, _MAX_NUMBERS // max(1, n_features * ensemble.n_outputs)))
    rng = np.random.default_rng(0)
    rows = np.round(rng.normal(size=(n_rows, n_features)) * 3, 1)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    for column in ensemble.row_format.hashes:  # categories are texts, or whole numbers that stand for texts
        rows[:, column] = np.arange(n_rows)
    if ensemble.row_format.numbers_are_codes:
        return rows
    labelled: Any = rows
    for column, labels in ensemble.row_format.categories.items():
        if any(isinstance(label, str) for label in labels):
            labelled = labelled.astype(object, copy=False)
            labelled[:, column] = [(*labels[:n_rows], None)[row % (len(labels) + 1)] for row in range(n_rows)]
    return labelled


def _require_finite(numbers: Any, what: str) -> None:
    if not np.isfinite(numbers).all():
        raise _InconsistentError(f"{what} are not finite")


# -- the files that are damaged ------------------------------------------------------------------------


def prepare() -> None:
    """Make the files, once for all cases."""
    _corpus()


@cache
def _corpus() -> dict[str, list[bytes]]:
    """Format → whole files. Training takes seconds, so that one process of a campaign does it for all."""
    folder = scratch_folder() / "corpus"
    try:
        folder.mkdir()
    except FileExistsError:
        begin = time.monotonic()
        while not (folder / "complete").exists():
            if time.monotonic() - begin > _MAX_WAIT_SECONDS:
                raise TimeoutError(f"nobody completes {folder}") from None
            time.sleep(0.1)
    else:
        _write_corpus(folder)
        (folder / "complete").touch()
    files: dict[str, list[bytes]] = {}
    for path in sorted(folder.glob("*/*")):
        files.setdefault(path.parent.name, []).append(path.read_bytes())
    return files


def _write_corpus(folder: Path) -> None:
    import zoo

    for library, names in MODELS.items():
        for name in names.split():
            model = zoo.load(f"{library}_{name}")
            _write(folder, library, name, model.model)
            TreeExplainer(model.model).save(_place(folder, "saved", f"{library}_{name}"))
    for kind in ("onnx", "gpboost", *BUNDLES):
        shutil.copytree(CORPUS / kind, folder / kind)
    for name in ("random_forest_multiclass", "gradient_boosting_regressor", "decision_tree_single_leaf"):
        arrays = as_dictionary(import_model(zoo.load(f"sklearn_{name}").model))
        _place(folder, "dictionary", name).write_text(json.dumps(arrays, default=np.ndarray.tolist))
    regressor = zoo.load("lightgbm_regressor")
    grouped = TreeExplainer(regressor.model, groups=[0, 0, 1, 1, 2], feature_names=list("abcde"))
    grouped.save(_place(folder, "saved", "grouped"))
    onehot = TreeExplainer(
        regressor.model,
        groups="onehot",
        feature_names=["city_Rome", "city_Oslo", "age", "pet_cat", "pet_dog"],
    )
    onehot.save(_place(folder, "saved", "onehot"))
    binary = zoo.load("xgboost_binary")
    weights = np.arange(1.0, 21.0)
    outputs = TreeExplainer(binary.model, binary.rows[:20], "probability", data_weights=weights)
    outputs.save(_place(folder, "saved", "probability"))
    categorical = zoo.load("lightgbm_categorical")
    TreeExplainer(categorical.model, categorical.rows[:20]).save(_place(folder, "saved", "background"))
    measured = TreeExplainer(regressor.model, index=("measure", [0.25, 0.75], [0.5, 0.5]))
    measured.save(_place(folder, "saved", "measure"))


def _write(folder: Path, library: str, name: str, model: Any) -> None:
    if library == "xgboost":
        booster = model.get_booster() if hasattr(model, "get_booster") else model
        for kind in ("json", "ubjson"):
            raw = bytes(booster.save_raw(raw_format=kind.replace("ubjson", "ubj")))
            _place(folder, f"xgboost {kind}", name).write_bytes(raw)
    elif library == "lightgbm":
        getattr(model, "booster_", model).save_model(_place(folder, "lightgbm", name))
    elif library == "catboost":
        model.save_model(str(_place(folder, "catboost", name)))
    else:
        model.serialize(str(_place(folder, "treelite", name)))


def _place(folder: Path, kind: str, name: str) -> Path:
    (folder / kind).mkdir(exist_ok=True)
    return folder / kind / name
