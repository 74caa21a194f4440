"""Small XGBoost, LightGBM and CatBoost models for the zoo."""

from __future__ import annotations
