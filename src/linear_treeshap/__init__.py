"""Linear TreeSHAP: exact Shapley values for decision trees, fast."""

from __future__ import annotations
