"""What shap cannot read, with a background or without one, and why."""

from __future__ import annotations

__all__ = ["UNREADABLE"]

UNREADABLE = {
    "catboost_single_leaves": "leaves of zero cover; CatBoost's own code for values ends the process",
    "imblearn_balanced_bagging": "bagging",
    "quantile_forest_mean": "unknown class",
    "sklearn_bagging_classifier": "bagging",
    "sklearn_bagging_regressor": "bagging",
    "sklearn_gradient_boosting_multiclass": "several classes",
    "sklearn_gradient_boosting_zero_init": "init='zero'",
    "sklearn_grid_search": "a search",
    "sklearn_hist_from_dtype": "text categories",
    "sklearn_hist_text_categories": "text categories",
    "sklearn_multioutput_classifier": "multi-output wrapper",
    "sklearn_multioutput_regressor": "multi-output wrapper",
    "sksurv_survival_forest": "unknown class",
    "sksurv_survival_tree_low_memory": "unknown class",
    "xgboost_no_trees": "a model without trees",
    "xgboost_vector_leaves": "vector leaves",
}
