"""The page docs/supported-models.md, made from the zoo: what is tested is what is supported.

Run ``python tests/support/support_table.py`` to write it anew; a test checks that it is current.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import zoo

from linear_treeshap.importers import REFUSED, import_model, importer_name

PAGE = Path(__file__).parents[2] / "docs" / "supported-models.md"

#: The zoo's prefixes → the libraries' names, in the order of the page.
_LIBRARIES = {
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
    "catboost": "CatBoost",
    "sklearn": "scikit-learn",
    "imblearn": "imbalanced-learn",
    "quantile_forest": "quantile-forest",
    "sksurv": "scikit-survival",
    "ngboost": "NGBoost",
    "pyod": "PyOD",
    "xgbdist": "xgboost-distribution",
    "ydf": "YDF",
    "gpboost": "GPBoost",
    "treelite": "treelite",
    "several": "Lists of models",
}

#: The module that reads a model → what is explained, of a regressor and of a classifier.
_EXPLAINED = {
    "bagging": ("prediction", "probability of each class"),
    "catboost": ("raw prediction", "log-odds"),
    "gpboost": ("fixed effect, before the link", "fixed effect, before the link"),
    "isolation_forest": ("mean path length; low is anomalous, as with `score_samples`", ""),
    "lightgbm": ("raw prediction", "log-odds"),
    "ngboost": ("each parameter of the distribution, as of `pred_param`", "log-odds"),
    "pyod": ("mean path length; low is anomalous", ""),
    "quantile_forest": ("mean of the trees", ""),
    "sklearn_boosting": ("prediction", "log-odds"),
    "sklearn_hist": ("prediction (its log for Poisson and gamma losses)", "log-odds"),
    "sklearn_trees": ("prediction", "probability of each class"),
    "stacking": ("prediction", "log-odds"),
    "sums": ("weighted sum of raw outputs, or prediction", "probability of each class"),
    "survival": ("risk score", ""),
    "survival_curves": ("survival or cumulative hazard, an output for each time", ""),
    "survival_boosting": ("risk score, or the logarithm of a time", ""),
    "target_transforms": ("prediction; in transformed units if the transform is not affine", ""),
    "treelite": ("margin", ""),
    "wrappers": ("that of the model inside", "that of the model inside"),
    "xgboost": ("raw prediction (margin)", "log-odds"),
    "ydf": ("prediction (its log for a Poisson loss)", "log-odds, or probabilities of forests"),
    "xgboost_distribution": ("each parameter of the distribution before its link", ""),
}

_TOP = """\
# Supported models

This page is made from the tests (`python tests/support/support_table.py`). Each line is a model that is
trained in the test suite; on rows full of ties, numbers one rounding step either side of a threshold and,
where the library takes them, missing values, infinities and unknown categories, our trees predict what the
library itself predicts.
Nothing after that asks where a model came from: whatever this library does, it does for all of them.

`GridSearchCV` and its relatives stand for their best estimator, a `FrozenEstimator` for what is in it. A
`Pipeline` whose last step is one of the models below is explained from raw rows, and in
[raw columns](groups.md#pipelines) wherever each transformed column comes from one of them. A saved
explainer does not hold the other steps and wants transformed rows.
Classes derived from those below are read too, and so are forests of other libraries if they are the
mean of scikit-learn trees in `estimators_`. XGBoost's `.json` and `.ubj` files, LightGBM's and GPBoost's text
files, CatBoost's `.cbm` files, those of treelite and ONNX, MOJOs of H2O and the directories of YDF and
pyspark.ml are read without the library. Any other model can be given as a dictionary of arrays, see
`linear_treeshap.importers.arrays`.

A list of models stands for the mean of their raw outputs, `TreeExplainer([fold_1, fold_2, fold_3])`, and a
list of pairs for a weighted sum, `TreeExplainer([(0.3, xgboost_model), (0.7, lightgbm_model)])`. Values of a
sum are sums of values, so this is exact, and takes the time of one model with all the trees. So are
`VotingRegressor`, soft `VotingClassifier` of forests, stacking with a linear final model, and targets that
were scaled. All models must have been trained on the same columns; they may be of different libraries.

`CalibratedClassifierCV` (sigmoid, isotonic, temperature) and soft `VotingClassifier` of boosters, both of
any number of classes, are means of functions of such sums. With background data their probabilities are
explained, by the [rule for functions of raw outputs](background.md#other-outputs):
`TreeExplainer(model, data=X, model_output="probability")`.

A survival forest stands for its risk score. Its curves are sums of trees as well, at each time:
`TreeExplainer(survival_curve(forest, times=[30, 365]))` has an output for each of these, the probability to
survive or, with `kind="cumulative hazard"`, the other curve. `survival_curve` takes a pipeline too.

An entry that is absent from a sparse matrix is missing to XGBoost and zero to all others, here as there. Rows
may come in an `xgboost.DMatrix`, in an `xgboost.QuantileDMatrix` whose bins are those of the training data,
and in a `catboost.Pool`. A Pool does not give categories back, but CatBoost says which leaves its rows are
in: that is enough for symmetric trees, as long as the model is at hand. Else pass the frame it was made of.

CatBoost's statistics of categories, and of [combinations](groups.md#combinations) of columns, are read from
the model, with any kind of trees and without CatBoost; models with statistics of their own, such as those of
folds, can be added up. Values equal CatBoost's own, and 10,000 rows of four data sets took a 22nd to a 54th
of its time ([the table](performance.md#catboost-with-categories), `python -m benchmarks.catboost`). Texts and
embeddings only CatBoost can read: such a model is explained while it is at hand (a pickled explainer keeps
it, a saved one cannot) if its trees are symmetric, which they are by default.

LightGBM's models with `linear_tree=True` are explained with [background data](background.md#linear-trees).

Of YDF's models, those with oblique splits, with columns of sets or sequences, for uplift and for anomalies
are refused. Boosted trees that were made for serving (`pure_serving_model`) know the number of training rows
that went each way, and not their weights.

What belongs to the data and not to the model is not explained: XGBoost's `base_margin`, LightGBM's
`init_score`, CatBoost's baseline, the random effects of GPBoost. A `base_margin` in a DMatrix fails the
additivity check. A model that stopped early is explained up to its best round where its own `predict` ends
there too.
"""

#: Spark is not in the environment of these tests; its models are trained by `make test-engines`.
_SPARK = """
## Spark

Models of pyspark.ml, fitted or as the directory that `save` writes, which is read without a JVM. They are
compared with Spark's own predictions by `make test-engines`, in the same way.

| model | class | what is explained | outputs | missing values | categories |
|---|---|---|---|---|---|
| tree classifier | `DecisionTreeClassificationModel` | probability of each class | 3 | yes | indices |
| tree regressor | `DecisionTreeRegressionModel` | prediction | 1 | yes | indices |
| forest classifier | `RandomForestClassificationModel` | probability of each class | 3 | yes | indices |
| forest regressor | `RandomForestRegressionModel` | prediction | 1 | yes | indices |
| boosted classifier | `GBTClassificationModel` | half the log-odds, `rawPrediction[1]` | 1 | yes | indices |
| boosted regressor | `GBTRegressionModel` | prediction | 1 | yes | indices |
"""

#: Most have no covers, so that they are not explained as they are; `tests/importers/test_onnx.py` has them.
_ONNX = """
## ONNX

Files (`.onnx`), their bytes, and loaded `ModelProto` objects, read without the onnx package. They are
compared with onnxruntime in the same way. The output is what the trees add up to before `post_transform`.
Converters do not write how many training rows went where, so pass `data=`: as background, or, with
`feature_perturbation="tree_path_dependent"`, to be counted in the trees.

| operator | tested as written by | what is explained | missing values | categories |
|---|---|---|---|---|
| `TreeEnsembleRegressor` | skl2onnx, onnxmltools | raw prediction | yes | whole numbers |
| `TreeEnsembleClassifier` | skl2onnx, onnxmltools | log-odds or probabilities | yes | whole numbers |
| `TreeEnsemble` | hand | raw prediction | yes | whole numbers |

A graph must have one such operator, which reads the rows as they are; a model with a scaler before its trees,
or arithmetic after them, is refused.
"""

#: `tests/importers/test_h2o.py` has them, with what H2O itself said.
_H2O = """
## H2O

MOJOs (`.zip`), read without Java, and models on a server, by their MOJO; some releases of H2O write none
without a licence. They are compared with what H2O's own Java predicts of hostile rows, and boosted trees with
its contributions.

| model | what is explained | missing values | categories |
|---|---|---|---|
| gradient boosting | prediction before its link: log-odds, of several classes one for each | yes | labels |
| random forest | prediction, or probability of two classes | yes | labels |
"""

_BOTTOM = """
## Refused, and why

A model whose prediction is not a sum of trees has no exact explanation here, and gets an error that says
what to do:

"""


def render() -> str:
    """The whole page."""
    lines = [_TOP]
    for prefix, library in _LIBRARIES.items():
        names = zoo.names(f"{prefix}_")
        if names:
            lines += [f"\n## {library}\n", _HEADER, *(_line(zoo.load(name), prefix) for name in names)]
    refused = [f"- `{name.partition('.')[2]}`: {REFUSED[name]}" for name in sorted(REFUSED)]
    return "\n".join(lines) + "\n" + _SPARK + _ONNX + _H2O + _BOTTOM + "\n".join(refused) + "\n"


_HEADER = (
    "| model | class | what is explained | outputs | missing values | categories |\n|---|---|---|---|---|---|"
)


def _line(model: zoo.ZooModel, prefix: str) -> str:
    ensemble = import_model(model.model)
    cells = [
        model.name.removeprefix(f"{prefix}_").replace("_", " "),
        f"`{type(model.model).__name__}`",
        _EXPLAINED[importer_name(model.model)][_is_classifier(model.model)],
        str(ensemble.n_outputs),
        "yes" if model.takes_missing else "–",
        _categories(model, bool(ensemble.row_format.labelled)),
    ]
    return f"| {' | '.join(cells)} |"


def _is_classifier(model: Any) -> bool:
    """Does it know classes? CatBoost's regressors know that they have none; YDF has methods to ask."""
    if hasattr(model, "task"):
        return str(model.task()).endswith("CLASSIFICATION")
    return len(getattr(model, "classes_", ())) > 0


def _categories(model: zoo.ZooModel, has_labels: bool) -> str:
    if not model.categorical:
        return "–"
    return "labels" if has_labels else "codes"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
