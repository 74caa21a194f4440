"""Describe a model file: whose it is, how large, what it reads and what it starts from."""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from ..explainer import TreeExplainer
from ..model.ensemble import TreeEnsemble
from . import models
from .arguments import command

__all__ = ["add_to"]

_EXAMPLES = """\
examples:
  linear-treeshap info model.json
  linear-treeshap info model.txt --json | jq .features
"""


def add_to(subparsers: Any) -> argparse.ArgumentParser:
    parser = command(subparsers, "info", run, "describe a model file", __doc__, _EXAMPLES)
    models.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def run(args: argparse.Namespace) -> None:
    model = models.read(args.model, trust=args.trust, allow_pickle=args.allow_pickle)
    explainer = model.explainer()
    ensemble = explainer.ensemble
    names = explainer.feature_names
    facts: dict[str, Any] = {
        "file": str(model.path),
        "library": model.library,
        "trees": ensemble.n_trees,
        "leaves": ensemble.n_leaves,
        "depth": ensemble.depth,
        "features": ensemble.n_features,
        "feature_names": None if names is None else list(names),
        "categorical_features": _n_categorical(ensemble),
        "number_type": ensemble.row_format.dtype,
        "outputs": ensemble.n_outputs,
        "output_names": None if ensemble.output_names is None else list(ensemble.output_names),
        "explained": explainer.model_output,
        "background_rows": 0 if explainer.data is None else len(explainer.data),
        "base_values": _base_values(explainer),
    }
    if args.json:
        print(json.dumps(facts))
        return
    for label, fact in facts.items():
        print(f"{label.replace('_', ' '):<22}{_shown(fact)}")


def _n_categorical(ensemble: TreeEnsemble) -> int:
    """How many features are read as categories, one by one or by what is looked up for them."""
    looked_up = (feature for lookup in ensemble.row_format.lookups for feature in lookup.categories)
    return len({*ensemble.feature[ensemble.category_set >= 0].tolist(), *looked_up})


def _base_values(explainer: TreeExplainer) -> list[float] | None:
    """What values are added to; None if that depends on the outcome of each row."""
    expected = explainer.expected_value
    return None if callable(expected) else np.atleast_1d(expected).tolist()


def _shown(fact: Any) -> str:
    """A fact in one line."""
    if fact is None:
        return "not known"
    if isinstance(fact, list):
        texts = [f"{part:.6g}" if isinstance(part, float) else str(part) for part in fact]
        return ", ".join(texts[:10]) + (f", … ({len(texts)} in all)" if len(texts) > 10 else "")
    return f"{fact:,}" if isinstance(fact, int) else str(fact)
