"""Who is measured: one small class for each system, all alike.

A peer is made from a trained model (that is its compile time) and called with rows, an array in and an
array out. A peer that cannot explain the model raises; the benchmark reports its words.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from linear_treeshap.model.ensemble import TreeEnsemble

from .as_xgboost import as_xgboost

__all__ = ["PEERS", "V2_MEMORY", "Peer"]

#: What Fast TreeShap v2 may take for its table, in GiB; it never takes more than a quarter of the machine's.
V2_MEMORY = 5.0

Rows = npt.NDArray[np.float32]
Values = npt.NDArray[Any]  # (n_rows, n_features)


class Peer:
    """What all peers share. ``tolerance`` is the largest error that still counts as the right answer,
    relative to the largest value of any feature in any row."""

    package: ClassVar[str]  # its name on PyPI
    module: ClassVar[str]  # its name in Python
    #: Float64 throughout: what is left is rounding, some 1e-16 for each of a few thousand trees.
    tolerance: float = 1e-9
    #: Time is not in proportion to the rows, so that a measurement with fewer of them would slander it:
    #: all of them, if need be only once.
    all_rows: ClassVar[bool] = False
    #: Values are given to columns, so that they can be compared with ours one by one.
    is_in_columns: ClassVar[bool] = True
    #: Ours that gives the same answers, and takes turns with it; None for plain values.
    beside: ClassVar[type[Ours] | None] = None

    def __init__(self, model: Any, ensemble: TreeEnsemble, background: Rows | None = None) -> None:
        raise NotImplementedError

    def __call__(self, rows: Rows) -> Values:
        raise NotImplementedError


class Ours(Peer):
    package, module = "linear-treeshap", "linear_treeshap"
    all_rows = True
    n_jobs: ClassVar[int] = 1
    kernel: ClassVar[str] = ""  # the best one
    groups: ClassVar[str | None] = None

    def __init__(self, model: Any, ensemble: TreeEnsemble, background: Rows | None = None) -> None:
        from linear_treeshap import TreeExplainer
        from linear_treeshap.engines.program import KERNEL_VARIABLE
        from linear_treeshap.engines.threads import available_cpus

        if available_cpus() < self.n_jobs:
            raise RuntimeError(f"needs {self.n_jobs} CPUs, this process may use {available_cpus()}")
        with patch.dict(os.environ, {KERNEL_VARIABLE: self.kernel} if self.kernel else {}):
            self.explainer = TreeExplainer(model, background, groups=self.groups, n_jobs=self.n_jobs)

    def __call__(self, rows: Rows) -> Values:
        return self.explainer.shap_values(rows, check_additivity=False)


class OursOnATenth(Ours):
    """The first tenth of the rows: what they cost, beside what all of them cost."""


class OursInGroups(Ours):
    """One-hot columns as one player each; there are no values of these to compare with, but their sums."""

    is_in_columns = False
    groups = "onehot"


class OursPairs(Ours):
    """Interaction values of all pairs, as matrices; beside plain values, and checked by their sums."""

    is_in_columns = False

    def __call__(self, rows: Rows) -> Values:
        return self.explainer.shap_interaction_values(rows).reshape(len(rows), -1)


class OursSparsePairs(OursPairs):
    """The same, only of pairs that meet in a tree."""

    def __call__(self, rows: Rows) -> Values:
        return self.explainer.interactions(rows).values


class OursWithTwoThreads(Ours):
    n_jobs = 2


class OursWithAvx2(Ours):
    kernel = "avx2"


class OursWithBaseline(Ours):
    kernel = "baseline"


class Paper(Peer):
    """Linear TreeShap as published, in NumPy. (The authors' own code is not on PyPI.)"""

    package, module = "linear-treeshap", "linear_treeshap.paper"
    #: It loses about a digit with every two features of a path; this is where it starts to show.
    tolerance = 1e-6

    def __init__(self, model: Any, ensemble: TreeEnsemble) -> None:
        self.ensemble = ensemble

    def __call__(self, rows: Rows) -> Values:
        from linear_treeshap.paper import linear_tree_shap

        return linear_tree_shap(self.ensemble, rows, check_additivity=False)[:, :, 0]


class Published(Peer):
    """Linear TreeShap as published, compiled."""

    package, module = "linear-treeshap", "linear_treeshap.paper"
    tolerance = Paper.tolerance

    def __init__(self, model: Any, ensemble: TreeEnsemble) -> None:
        from linear_treeshap.paper import LinearTreeShap

        self.forest = LinearTreeShap(ensemble)

    def __call__(self, rows: Rows) -> Values:
        return self.forest.values(rows, check_additivity=False)[:, :, 0]


class Shap(Peer):
    """The C code of shap; a dictionary, of one output, keeps it from calling XGBoost's and LightGBM's own."""

    package, module = "shap", "shap"

    def __init__(self, model: Any, ensemble: TreeEnsemble, background: Rows | None = None) -> None:
        import shap

        trees = as_dictionary(ensemble) if ensemble.n_outputs == 1 else model
        if background is None:
            self.explainer = shap.TreeExplainer(trees, feature_perturbation="tree_path_dependent")
            return
        self.tolerance = 1e-5  # float32 inside
        # Without a masker of its own, shap takes 100 of the rows.
        masker = shap.maskers.Independent(background, max_samples=len(background))
        self.explainer = shap.TreeExplainer(trees, masker, feature_perturbation="interventional")

    def __call__(self, rows: Rows) -> Values:
        return np.asarray(self.explainer.shap_values(rows, check_additivity=False))


class ShapPairs(Shap):
    beside = OursPairs

    def __call__(self, rows: Rows) -> Values:
        return np.asarray(self.explainer.shap_interaction_values(rows)).reshape(len(rows), -1)


class FastTreeShap(Peer):
    package, module = "fasttreeshap", "fasttreeshap"
    algorithm: ClassVar[str] = "v1"

    def __init__(self, model: Any, ensemble: TreeEnsemble) -> None:
        import fasttreeshap

        self.explainer = fasttreeshap.TreeExplainer(
            as_dictionary(ensemble),
            algorithm=self.algorithm,
            n_jobs=1,
            shortcut=False,
            memory_tolerance=V2_MEMORY,
        )

    def __call__(self, rows: Rows) -> Values:
        return np.asarray(self.explainer.shap_values(rows, check_additivity=False))


class FastTreeShapV2(FastTreeShap):
    """Falls back to v1, with a warning, where its table would exceed the memory it is given."""

    algorithm = "v2"


class XGBoost(Peer):
    """XGBoost's own values; trees of other libraries are loaded into it."""

    package, module = "xgboost", "xgboost"
    #: Sums in float32, and since 3.3 with eight points, which is exact to 16 features on a path only.
    tolerance = 1e-3

    def __init__(self, model: Any, ensemble: TreeEnsemble) -> None:
        import xgboost

        self.booster = model if isinstance(model, xgboost.Booster) else as_xgboost(ensemble)
        self.booster.set_param({"nthread": 1})

    def __call__(self, rows: Rows) -> Values:
        import xgboost

        values = self.booster.predict(xgboost.DMatrix(rows, nthread=1), pred_contribs=True)
        return np.asarray(values)[:, :-1]


class XGBoostPairs(XGBoost):
    beside = OursPairs

    def __call__(self, rows: Rows) -> Values:
        import xgboost

        matrices = self.booster.predict(xgboost.DMatrix(rows, nthread=1), pred_interactions=True)
        return np.asarray(matrices)[:, :-1, :-1].reshape(len(rows), -1)


class LightGBM(Peer):
    package, module = "lightgbm", "lightgbm"

    def __init__(self, model: Any, ensemble: TreeEnsemble) -> None:
        self.booster = model

    def __call__(self, rows: Rows) -> Values:
        return np.asarray(self.booster.predict(rows, pred_contrib=True, num_threads=1))[:, :-1]


class CatBoost(Peer):
    package, module = "catboost", "catboost"
    all_rows = True

    def __init__(self, model: Any, ensemble: TreeEnsemble) -> None:
        self.model = model

    def __call__(self, rows: Rows) -> Values:
        import catboost

        pool = catboost.Pool(rows, thread_count=1)
        return np.asarray(self.model.get_feature_importance(pool, type="ShapValues", thread_count=1))[:, :-1]


class Shapiq(Peer):
    """The quadrature kernel of shapiq, called once with all rows: its own explainer calls it per row."""

    package, module = "shapiq", "shapiq"

    def __init__(self, model: Any, ensemble: TreeEnsemble, background: Rows | None = None) -> None:
        try:
            from shapiq.tree import InterventionalTreeSHAPIQ, QuadratureTreeSHAP, TreeModel
        except ImportError as error:
            raise RuntimeError("this release has no compiled kernel for values; 1.8 has") from error
        trees = [
            TreeModel(
                children_left=tree["children_left"].astype(int),
                children_right=tree["children_right"].astype(int),
                children_missing=tree["children_default"].astype(int),
                features=tree["features"].astype(int),
                thresholds=tree["thresholds"].copy(),
                values=tree["values"][:, 0].copy(),
                node_sample_weight=tree["node_sample_weight"].copy(),
            )
            for tree in as_dictionary(ensemble)["trees"]
        ]
        self.is_interventional = background is not None
        if background is not None:
            self.explainer = InterventionalTreeSHAPIQ(trees, background, index="SV", max_order=1)
            return
        self.explainer = QuadratureTreeSHAP(trees)
        self.used = self.explainer._relevant_features
        self.explainer._explain_cpp(np.zeros(len(self.used)))  # this makes the kernel's arguments

    def __call__(self, rows: Rows) -> Values:
        if self.is_interventional:  # row by row
            return np.array([self.explainer.explain_function(row).get_n_order_values(1) for row in rows])
        from shapiq.tree.quadrature.cext import quadrature_tree_shap

        before, after = self.explainer._kernel_args[:18], self.explainer._kernel_args[18:]
        out = np.zeros((len(rows), len(self.used)))
        quadrature_tree_shap(*before, np.ascontiguousarray(rows[:, self.used], dtype=np.float64), out, *after)
        values = np.zeros(rows.shape)
        values[:, self.used] = out
        return values


class ShapiqPairs(Peer):
    """shapiq's own explainer of order 2, which is called row by row. Its Shapley interaction index is much
    quicker than its k-SII, so what is on the diagonal is computed here."""

    package, module = "shapiq", "shapiq"
    tolerance = 1e-6  # it reads XGBoost's models in float32
    beside = OursPairs

    def __init__(self, model: Any, ensemble: TreeEnsemble) -> None:
        from shapiq import TreeExplainer

        self.explainer = TreeExplainer(model, max_order=2, min_order=1, index="SII")
        self.sets: list[tuple[int, ...]] = []
        self.first = self.last = np.zeros(0, dtype=np.intp)

    def __call__(self, rows: Rows) -> Values:
        matrices = np.zeros((*rows.shape, rows.shape[1]))
        for matrix, row in zip(matrices, rows, strict=True):
            found = self.explainer.explain(row)
            sets = list(found.interaction_lookup)
            if sets != self.sets:
                self.sets = sets
                self.first = np.array([members[0] if members else -1 for members in sets])
                self.last = np.array([members[-1] if members else -1 for members in sets])
            values = np.asarray(found.values)[list(found.interaction_lookup.values())]
            single, pair = self.first == self.last, self.first < self.last
            single &= self.first >= 0
            i, j = self.first[pair], self.last[pair]
            matrix[i, j] = matrix[j, i] = values[pair] / 2
            alone = self.first[single]
            matrix[alone, alone] = values[single] - matrix[alone].sum(axis=1)
        return matrices.reshape(len(rows), -1)


class Woodelf(Peer):
    package, module = "woodelf-explainer", "woodelf"
    tolerance = 1e-4  # sums in float32
    all_rows = True

    def __init__(self, model: Any, ensemble: TreeEnsemble, background: Rows | None = None) -> None:
        import pandas as pd
        from woodelf import WoodelfExplainer

        self.columns = [f"f{feature}" for feature in range(ensemble.n_features)]
        data = None if background is None else pd.DataFrame(background, columns=self.columns)
        self.explainer = WoodelfExplainer(model, data)

    def __call__(self, rows: Rows) -> Values:
        import pandas as pd

        return np.asarray(self.explainer.shap_values(pd.DataFrame(rows, columns=self.columns), verbose=False))


def as_dictionary(ensemble: TreeEnsemble) -> dict[str, Any]:
    """The dictionary of arrays that shap and its descendants read."""
    if (ensemble.category_set >= 0).any() or ensemble.n_outputs != 1:
        raise RuntimeError("only numeric splits and one output can be written as a dictionary of arrays")
    trees = []
    for first, end in zip(ensemble.tree_offsets[:-1], ensemble.tree_offsets[1:], strict=True):
        nodes = slice(first, end)
        left, right = ensemble.left[nodes], ensemble.right[nodes]
        trees.append(
            {
                "children_left": left,
                "children_right": right,
                "children_default": np.where(ensemble.missing_left[nodes], left, right),
                "features": ensemble.feature[nodes],
                "thresholds": ensemble.threshold[nodes],
                "values": ensemble.value[nodes],
                "node_sample_weight": ensemble.cover[nodes].copy(),  # shap fills it from background rows
            }
        )
    return {
        "trees": trees,
        "base_offset": ensemble.base_values[0],
        "input_dtype": ensemble.row_format.numpy_dtype,
    }


PEERS: dict[str, type[Peer]] = {
    "ours": Ours,
    "ours-groups": OursInGroups,
    "ours-pairs": OursPairs,
    "ours-sparse-pairs": OursSparsePairs,
    "ours-tenth": OursOnATenth,
    "ours-2-threads": OursWithTwoThreads,
    "ours-avx2": OursWithAvx2,
    "ours-baseline": OursWithBaseline,
    "paper": Paper,
    "published": Published,
    "shap": Shap,
    "fasttreeshap-v1": FastTreeShap,
    "fasttreeshap-v2": FastTreeShapV2,
    "xgboost": XGBoost,
    "lightgbm": LightGBM,
    "catboost": CatBoost,
    "shapiq": Shapiq,
    "shap-pairs": ShapPairs,
    "xgboost-pairs": XGBoostPairs,
    "shapiq-pairs": ShapiqPairs,
    "woodelf": Woodelf,
}
