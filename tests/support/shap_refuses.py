"""What shap cannot read, with a background or without one, and why."""

from __future__ import annotations

import zoo

__all__ = ["UNREADABLE"]

UNREADABLE = {
    "catboost_single_leaves": "leaves of zero cover; CatBoost's own code for values ends the process",
    "imblearn_balanced_bagging": "bagging",
    "ngboost_classes": "explains one parameter at a time",
    "ngboost_normal": "explains one parameter at a time",
    "quantile_forest_mean": "unknown class",
    "several_folds": "a list",
    "several_libraries": "a list",
    "several_multiclass_boosters": "a list",
    "sklearn_bagging_classifier": "bagging",
    "sklearn_bagging_regressor": "bagging",
    "sklearn_gradient_boosting_multiclass": "several classes",
    "sklearn_gradient_boosting_zero_init": "init='zero'",
    "sklearn_grid_search": "a search",
    "sklearn_hist_from_dtype": "text categories",
    "sklearn_hist_text_categories": "text categories",
    "sklearn_logarithm_of_target": "a transformed target",
    "sklearn_multioutput_classifier": "multi-output wrapper",
    "sklearn_multioutput_regressor": "multi-output wrapper",
    "sklearn_scaled_target": "a transformed target",
    "sklearn_scaled_targets": "a transformed target",
    "sklearn_stacking_binary": "stacking",
    "sklearn_stacking_forests": "stacking",
    "sklearn_stacking_multiclass": "stacking",
    "sklearn_stacking_regressor": "stacking",
    "sklearn_voting_classifier": "voting",
    "sklearn_voting_regressor": "voting",
    "sksurv_boosting": "unknown class",
    "sksurv_boosting_dropout": "unknown class",
    "sksurv_boosting_of_times": "unknown class",
    "sksurv_cumulative_hazard": "unknown class",
    "sksurv_survival_curve": "unknown class",
    "sksurv_survival_forest": "unknown class",
    "sksurv_survival_forest_missing": "unknown class",
    "sksurv_survival_tree_low_memory": "unknown class",
    "xgbdist_normal": "leaves out the parameters that its trees start from",
    "xgboost_no_trees": "a model without trees",
    "xgboost_vector_leaves": "vector leaves",
    **dict.fromkeys([*zoo.names("gpboost_"), *zoo.names("ydf_")], "unknown class"),
}
