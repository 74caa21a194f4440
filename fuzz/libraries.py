"""Trained models on messy frames, against their own library: predictions per row, contributions per feature.

Columns are constant, unused, of categories in another order than in training, of text, or missing; models are
small. What the library itself predicts must be explained, and be what the values add up to; where the library
has contributions of its own (XGBoost, LightGBM, CatBoost), they are equal, whatever container rows come in.
With a background, values are what the library predicts for all mixtures of a row and a background row.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linear_treeshap import AdditivityError, LinearTreeShapError, TreeExplainer

from .tally import Finding, Tally
from .worker import scratch_folder

__all__ = ["Trained", "case", "examine"]

Array = npt.NDArray[Any]

#: Of the sum of absolute values of a row: sums in float64, and in float32, in which XGBoost adds.
FLOAT64, FLOAT32 = 1e-11, 2e-5
#: More columns have too many mixtures.
_MAX_MIXED = 6


@dataclass
class Trained:
    """A model, rows for it, and what its library says of them."""

    library: str
    kind: str
    model: Any
    rows: Any  # a data frame, columns as in training
    predict: Callable[[Any], Any]  # a frame → its raw predictions
    contributions: Array | None = None  # (n_rows, n_features + 1, n_outputs), the expected value last
    interactions: Array | None = None  # (n_rows, n_features + 1, n_features + 1)
    probability: Array | None = None  # (n_rows,)
    tolerance: float = FLOAT64
    containers: dict[str, Callable[[Any], Any]] = field(default_factory=dict)  # what else holds these rows
    write: Callable[[Path], Any] | None = None  # the library's own file

    @cached_property
    def raw(self) -> Array:
        """(n_rows, n_outputs)"""
        return self.raw_of(self.rows)

    def raw_of(self, rows: Any) -> Array:
        return np.asarray(self.predict(rows), dtype=np.float64).reshape(len(rows), -1)


def case(rng: np.random.Generator) -> Tally:
    """Train one random model and compare it with its library."""
    tally = Tally()
    train = list(TRAINERS.values())[int(rng.integers(len(TRAINERS)))]
    frame, rows, outcome = _frames(rng)
    try:
        trained = train(rng, frame, rows, outcome)
        trained.raw  # noqa: B018  # the first prediction
    except Exception as error:  # a library may refuse what is random
        tally.done(f"{train.__name__}: refused by the library itself, {type(error).__name__}")
        return tally
    examine(trained, rng, tally)
    about = f"{trained.kind}, columns {', '.join(frame.columns)}"
    tally.findings = [Finding(f.check, f"{f.what}; {about}") for f in tally.findings]
    return tally


def examine(trained: Trained, rng: np.random.Generator, tally: Tally) -> None:
    """Explain the rows in every way, and compare."""
    for check, ask in (
        ("values", _values),
        ("default check", _default_check),
        ("interactions", _interactions),
        ("background", _background),
        ("background, all mixtures", _mixtures),
        ("probability", _probability),
        ("saved and loaded", _saved),
        ("the library's file", _file),
        *(
            (name, lambda t, r, c, make=make: _container(t, c, make))
            for name, make in trained.containers.items()
        ),
    ):
        name = f"{trained.library}: {check}"
        try:
            for found, right, scale in ask(trained, rng, name):
                tally.close(name, found, right, scale, trained.tolerance)
        except AdditivityError as error:
            tally.complain(name, f"AdditivityError: {str(error)[:200]}")
        except LinearTreeShapError as error:
            tally.complain(
                f"{trained.library}: refused", f"{check}: {type(error).__name__}: {str(error)[:200]}"
            )
        except Exception as error:
            tally.complain(
                f"{trained.library}: foreign exception", f"{check}: {type(error).__name__}: {error}"
            )


# -- what is compared: triples of found, right, scale --------------------------------------------------


def _full(values: Any, n_rows: int, n_features: int) -> Array:
    return np.asarray(values).reshape(n_rows, n_features, -1)


def _against(trained: Trained, explainer: TreeExplainer, values: Array) -> Any:
    """Sums against predictions, and values against contributions."""
    scale = _row_scale(values)
    yield values.sum(axis=1) + np.atleast_1d(explainer.expected_value), trained.raw, scale
    if trained.contributions is not None:
        yield values, trained.contributions[:, :-1], scale[:, None]
        expected = np.broadcast_to(np.atleast_1d(explainer.expected_value), trained.raw.shape)
        yield expected, trained.contributions[:, -1], scale


def _values(trained: Trained, rng: np.random.Generator, name: str) -> Any:
    """Columns in another order than in training: values come in the order of the rows' columns."""
    explainer = TreeExplainer(trained.model)
    order = rng.permutation(len(trained.rows.columns))
    shuffled = trained.rows.iloc[:, order]
    found = _full(explainer.shap_values(shuffled, check_additivity=False), *trained.rows.shape)
    values = np.empty_like(found)
    values[:, order] = found
    yield from _against(trained, explainer, values)


def _default_check(trained: Trained, rng: np.random.Generator, name: str) -> Any:
    explanation = TreeExplainer(trained.model)(trained.rows)
    values = _full(explanation.values, *trained.rows.shape)
    yield (
        values.sum(axis=1),
        trained.raw - explanation.base_values.reshape(trained.raw.shape),
        _row_scale(values),
    )


def _row_scale(values: Array) -> Array:
    """(n_rows, n_outputs) what rounding is a share of; outcomes are of size one, and single values cancel."""
    return np.asarray(np.abs(values).sum(axis=1) + 1)


def _interactions(trained: Trained, rng: np.random.Generator, name: str) -> Any:
    explainer = TreeExplainer(trained.model)
    n_rows, n = trained.rows.shape
    pairs = np.asarray(explainer.shap_interaction_values(trained.rows)).reshape(n_rows, n, n, -1)
    values = _full(explainer.shap_values(trained.rows, check_additivity=False), n_rows, n)
    yield pairs.sum(axis=2), values, _row_scale(values)[:, None]
    if trained.interactions is not None:
        right = trained.interactions[:, :-1, :-1]
        yield pairs, right.reshape(pairs.shape), _row_scale(values)[:, None, None]
    sets = explainer.interactions(trained.rows)
    total = sets.values.reshape(n_rows, len(sets.sets), -1).sum(axis=1) + np.atleast_1d(
        explainer.expected_value
    )
    yield total, trained.raw, _row_scale(values)


def _background(trained: Trained, rng: np.random.Generator, name: str) -> Any:
    half = trained.rows.iloc[: max(1, len(trained.rows) // 2)]
    explainer = TreeExplainer(trained.model, half)
    values = _full(explainer.shap_values(trained.rows, check_additivity=False), *trained.rows.shape)
    expected = np.atleast_1d(explainer.expected_value)
    scale = _row_scale(values) + np.abs(trained.raw).max()
    yield expected, trained.raw[: len(half)].mean(axis=0), scale.max(axis=0)
    yield values.sum(axis=1) + expected, trained.raw, scale


def _mixtures(trained: Trained, rng: np.random.Generator, name: str) -> Any:
    """Shapley values by their definition, the worth of a coalition being the library's own prediction."""
    n = len(trained.rows.columns)
    n_rows = min(2, len(trained.rows))
    if n > _MAX_MIXED:
        return
    coalitions = np.array(list(product([False, True], repeat=n)))
    x, b, s = (grid.ravel() for grid in np.indices((n_rows, n_rows, len(coalitions))))
    mixed = trained.rows.iloc[x].reset_index(drop=True)
    for place, column in enumerate(trained.rows.columns):
        mixed[column] = trained.rows[column].take(np.where(coalitions[s, place], x, b)).array
    worth = trained.raw_of(mixed).reshape(n_rows, n_rows, *(2,) * n, -1).mean(axis=1)
    right = np.empty((n_rows, n, worth.shape[-1]))
    sizes = np.indices((2,) * (n - 1)).sum(axis=0)
    weights = np.array([1 / (n * comb(n - 1, k)) for k in range(n)])[sizes]
    for place in range(n):
        gain = np.diff(worth, axis=1 + place).reshape(n_rows, -1, worth.shape[-1])
        right[:, place] = (gain * weights.reshape(-1, 1)).sum(axis=1)
    few = trained.rows.iloc[:n_rows]
    found = TreeExplainer(trained.model, few).shap_values(few, check_additivity=False)
    yield _full(found, n_rows, n), right, 1 + np.abs(worth).max()


def _probability(trained: Trained, rng: np.random.Generator, name: str) -> Any:
    if trained.probability is None:
        return
    explainer = TreeExplainer(trained.model, trained.rows, "probability")
    values = _full(explainer.shap_values(trained.rows, check_additivity=False), *trained.rows.shape)
    last = values[:, :, -1]  # forests have an output per class
    expected = np.atleast_1d(explainer.expected_value)[-1]
    yield last.sum(axis=1) + expected, trained.probability, 1 + np.abs(trained.raw).max()


def _saved(trained: Trained, rng: np.random.Generator, name: str) -> Any:
    explainer = TreeExplainer(trained.model)
    with tempfile.TemporaryDirectory(dir=scratch_folder()) as folder:
        path = Path(folder) / "model.lts"
        explainer.save(path)
        loaded = TreeExplainer.load(path)
    values = _full(loaded.shap_values(trained.rows, check_additivity=False), *trained.rows.shape)
    yield from _against(trained, loaded, values)


def _file(trained: Trained, rng: np.random.Generator, name: str) -> Any:
    """What the library writes, read without it. Rows the file says too little of may be refused."""
    if trained.write is None:
        return
    with tempfile.TemporaryDirectory(dir=scratch_folder()) as folder:
        path = Path(folder) / "model"
        trained.write(path)
        written = next(Path(folder).iterdir())
        try:
            explainer = TreeExplainer(written)
            found = explainer.shap_values(trained.rows, check_additivity=False)
        except LinearTreeShapError:
            return
    yield from _against(trained, explainer, _full(found, *trained.rows.shape))


def _container(trained: Trained, name: str, make: Callable[[Any], Any]) -> Any:
    explainer = TreeExplainer(trained.model)
    held = make(trained.rows)
    values = _full(explainer.shap_values(held, check_additivity=False), *trained.rows.shape)
    yield from _against(trained, explainer, values)
    n_rows, n = trained.rows.shape
    pairs = np.asarray(explainer.shap_interaction_values(held)).reshape(n_rows, n, n, -1)
    yield pairs.sum(axis=(1, 2)) + np.atleast_1d(explainer.expected_value), trained.raw, _row_scale(values)


# -- frames --------------------------------------------------------------------------------------------


def _frames(rng: np.random.Generator) -> tuple[Any, Any, Array]:
    """A frame to train on, rows to explain, and outcomes."""
    import pandas

    n = int(rng.integers(40, 160))
    makers = list(COLUMNS.values())
    chosen = [makers[i] for i in rng.integers(len(makers), size=int(rng.integers(1, 7)))]
    columns = {f"{make.__name__[1:]}_{place}": make(rng, n) for place, make in enumerate(chosen)}
    columns["normal"] = rng.normal(size=n)
    names = list(columns)
    # Plain strings: scikit-learn knows no others by name.
    frame = pandas.DataFrame({name: columns[name] for name in rng.permutation(names).tolist()})
    outcome = frame["normal"].to_numpy() * rng.normal() + rng.normal(size=n) * 0.1
    for name in frame.columns:
        codes = pandas.factorize(frame[name])[0]
        outcome = outcome + rng.normal() * np.sin(codes * rng.uniform(0.2, 3))
    rows = frame.iloc[rng.integers(n, size=int(rng.integers(2, 30)))].reset_index(drop=True)
    return frame, _recoded(rng, rows), outcome


def _recoded(rng: np.random.Generator, rows: Any) -> Any:
    """Categories in another order, or fewer of them, as they come from another query."""
    rows = rows.copy()
    for name in rows.columns:
        if hasattr(rows[name].dtype, "categories"):
            known = list(rows[name].cat.categories)
            if rng.random() < 0.3:
                rows[name] = rows[name].cat.remove_unused_categories()
            elif rng.random() < 0.6:
                order = [known[i] for i in rng.permutation(len(known))]
                rows[name] = rows[name].cat.set_categories(order, ordered=False)
    return rows


def _normal(rng: np.random.Generator, n: int) -> Any:
    return rng.normal(size=n).astype(rng.choice(["float32", "float64"]))


def _missing(rng: np.random.Generator, n: int) -> Any:
    return np.where(rng.random(n) < rng.choice([0.1, 0.9, 1.0]), np.nan, np.round(rng.normal(size=n), 1))


def _integers(rng: np.random.Generator, n: int) -> Any:
    return rng.integers(0, int(rng.integers(2, 8)), size=n)


def _constant(rng: np.random.Generator, n: int) -> Any:
    return np.full(n, rng.choice([0.0, 7.0]))


def _boolean(rng: np.random.Generator, n: int) -> Any:
    return rng.random(n) < 0.4


def _category(rng: np.random.Generator, n: int) -> Any:
    return _labels(rng, n, list("xyzuvwqp")[: int(rng.integers(2, 9))])


def _constant_category(rng: np.random.Generator, n: int) -> Any:
    return _labels(rng, n, ["only"])


def _number_category(rng: np.random.Generator, n: int) -> Any:
    return _labels(rng, n, [10, 20, 5, 7][: int(rng.integers(2, 5))])


def _ordered_category(rng: np.random.Generator, n: int) -> Any:
    return _labels(rng, n, ["low", "middle", "high"], ordered=True)


def _labels(rng: np.random.Generator, n: int, labels: list[Any], ordered: bool = False) -> Any:
    import pandas

    codes: Any = np.where(rng.random(n) < rng.choice([0.0, 0.1]), -1, rng.integers(len(labels), size=n))
    return pandas.Categorical.from_codes(codes, categories=pandas.Index(labels), ordered=ordered)


COLUMNS = {
    make.__name__: make
    for make in (
        _normal,
        _missing,
        _integers,
        _constant,
        _boolean,
        _category,
        _constant_category,
        _number_category,
        _ordered_category,
    )
}


# -- libraries -----------------------------------------------------------------------------------------


def _target(rng: np.random.Generator, outcome: Array) -> tuple[str, Array]:
    """Numbers, two classes or three."""
    kind = str(rng.choice(["regression", "binary", "multiclass"]))
    ranks = np.argsort(np.argsort(outcome))
    n_classes = {"regression": 0, "binary": 2, "multiclass": 3}[kind]
    return kind, np.asarray(ranks * n_classes // len(outcome) if n_classes else outcome)


def _by_output(contributions: Any, n_rows: int, n_features: int) -> Array:
    """Libraries give the features of the first output, then those of the second and so on."""
    found = np.asarray(contributions, dtype=np.float64)
    return np.asarray(found.reshape(n_rows, -1, n_features + 1).transpose(0, 2, 1))


def xgboost(rng: np.random.Generator, frame: Any, rows: Any, outcome: Array) -> Trained:
    import xgboost as library

    kind, y = _target(rng, outcome)
    maker = library.XGBRegressor if kind == "regression" else library.XGBClassifier
    model = maker(
        n_estimators=int(rng.integers(1, 7)),
        max_depth=int(rng.integers(1, 5)),
        enable_categorical=True,
        max_cat_to_onehot=int(rng.choice([1, 4, 100])),
        booster=str(rng.choice(["gbtree", "gbtree", "dart"])),
        n_jobs=1,
    ).fit(frame, y)
    booster = model.get_booster()
    data = library.DMatrix(rows, enable_categorical=True, nthread=1)
    n_rows, n = rows.shape
    interactions = None
    if kind != "multiclass":
        interactions = booster.predict(data, pred_interactions=True)
    return Trained(
        "xgboost",
        kind,
        model if rng.random() < 0.5 else booster,
        rows,
        lambda held: booster.predict(
            library.DMatrix(held, enable_categorical=True, nthread=1), output_margin=True
        ),
        _by_output(booster.predict(data, pred_contribs=True), n_rows, n),
        interactions,
        model.predict_proba(rows)[:, 1] if kind == "binary" else None,
        FLOAT32,
        {"DMatrix": lambda held: library.DMatrix(held, enable_categorical=True, nthread=1)},
        lambda path: booster.save_model(path.with_suffix(str(rng.choice([".json", ".ubj"])))),
    )


def lightgbm(rng: np.random.Generator, frame: Any, rows: Any, outcome: Array) -> Trained:
    import lightgbm as library

    kind, y = _target(rng, outcome)
    maker: Any = library.LGBMRegressor if kind == "regression" else library.LGBMClassifier
    model = maker(
        n_estimators=int(rng.integers(1, 7)),
        num_leaves=int(rng.integers(2, 12)),
        min_child_samples=int(rng.integers(1, 10)),
        min_data_per_group=1,
        cat_smooth=1.0,
        max_cat_to_onehot=int(rng.choice([1, 4])),
        verbose=-1,
        n_jobs=1,
        deterministic=True,
    )
    named = [name for name in frame.columns if name.startswith("integers") and rng.random() < 0.5]
    labelled = [name for name in frame.columns if hasattr(frame[name].dtype, "categories")]
    options = {"categorical_feature": named + labelled} if named else {}
    model.fit(frame, y, **options)
    n_rows, n = rows.shape
    return Trained(
        "lightgbm",
        kind,
        model if rng.random() < 0.5 else model.booster_,
        rows,
        lambda held: model.predict(held, raw_score=True),
        _by_output(model.predict(rows, pred_contrib=True), n_rows, n),
        probability=model.predict_proba(rows)[:, 1] if kind == "binary" else None,
        write=lambda path: model.booster_.save_model(path),
    )


def catboost(rng: np.random.Generator, frame: Any, rows: Any, outcome: Array) -> Trained:
    import catboost as library

    kind, y = _target(rng, outcome)
    maker = library.CatBoostRegressor if kind == "regression" else library.CatBoostClassifier
    labelled = [name for name in frame.columns if hasattr(frame[name].dtype, "categories")]
    # It takes no missing categories; text is its other way to have them.
    frame, rows = (table.astype(dict.fromkeys(labelled, object)) for table in (frame, rows))
    for table in (frame, rows):
        table[labelled] = table[labelled].fillna("none").astype(str)
    symmetric = bool(rng.random() < 0.7)
    # Categories one by one, or by the statistics of their outcomes, and of combinations.
    one_by_one = bool(rng.random() < 0.5)
    model = maker(
        iterations=int(rng.integers(1, 7)),
        depth=int(rng.integers(1, 5)),
        one_hot_max_size=255 if one_by_one else 2,
        grow_policy="SymmetricTree" if symmetric else str(rng.choice(["Depthwise", "Lossguide"])),
        cat_features=labelled,
        verbose=0,
        thread_count=1,
        allow_writing_files=False,
        random_seed=0,
    ).fit(frame, y)
    pool = library.Pool(rows, cat_features=labelled)
    n_rows, n = rows.shape
    contributions = None
    # Of other trees CatBoost's own values do not add up where a leaf saw no training row; and of combinations
    # it shares values out, where their columns are players to us.
    if symmetric and (one_by_one or not labelled):
        contributions = _by_output(model.get_feature_importance(pool, "ShapValues"), n_rows, n)
    return Trained(
        "catboost",
        kind,
        model,
        rows,
        lambda held: model.predict(held, prediction_type="RawFormulaVal"),
        contributions,
        probability=model.predict_proba(rows)[:, 1] if kind == "binary" else None,
        containers={} if labelled else {"Pool": lambda held: library.Pool(held)},
        write=lambda path: model.save_model(str(path.with_suffix(".cbm"))),
    )


def hist_gradient_boosting(rng: np.random.Generator, frame: Any, rows: Any, outcome: Array) -> Trained:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind, y = _target(rng, outcome)
    maker = HistGradientBoostingRegressor if kind == "regression" else HistGradientBoostingClassifier
    model = maker(
        max_iter=int(rng.integers(1, 7)),
        max_leaf_nodes=int(rng.integers(2, 12)),
        min_samples_leaf=int(rng.integers(1, 10)),
        categorical_features="from_dtype",
        early_stopping=False,
    ).fit(frame, y)
    return _of_sklearn("hist gradient boosting", kind, model, rows, "decision_function")


def forest(rng: np.random.Generator, frame: Any, rows: Any, outcome: Array) -> Trained:
    from sklearn import ensemble

    kind, y = _target(rng, outcome)
    numeric = [name for name in frame.columns if not hasattr(frame[name].dtype, "categories")]
    frame, rows = frame[numeric], rows[numeric]
    makers = {
        "regression": (ensemble.RandomForestRegressor, ensemble.ExtraTreesRegressor),
        "binary": (ensemble.RandomForestClassifier, ensemble.ExtraTreesClassifier),
        "multiclass": (ensemble.RandomForestClassifier, ensemble.ExtraTreesClassifier),
    }[kind]
    model = makers[int(rng.integers(2))](
        n_estimators=int(rng.integers(1, 7)),
        max_depth=int(rng.integers(1, 7)) if rng.random() < 0.8 else None,
        random_state=int(rng.integers(2**31)),
    ).fit(frame, y)
    return _of_sklearn("forest", kind, model, rows, "predict_proba")


def _of_sklearn(name: str, kind: str, model: Any, rows: Any, raw: str) -> Trained:
    """A classifier has a method for its raw outputs, and says probabilities."""
    predict = model.predict if kind == "regression" else getattr(model, raw)
    probability = model.predict_proba(rows)[:, 1] if kind == "binary" else None
    return Trained(name, kind, model, rows, predict, probability=probability)


TRAINERS = {train.__name__: train for train in (xgboost, lightgbm, catboost, hist_gradient_boosting, forest)}
