"""Writers of model files, for tests that need one which no library would write."""

from __future__ import annotations

import json
import struct
from typing import Any


def to_json(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


def to_ubjson(value: Any) -> bytes:
    """As XGBoost writes it: numbers of a list by type and count, names and texts by length."""
    if isinstance(value, dict):
        members = (_text(name) + to_ubjson(item) for name, item in value.items())
        return b"{" + b"".join(members) + b"}"
    if isinstance(value, list):
        for marker, form, kind in (("l", "i", int), ("d", "f", float)):
            if value and all(type(item) is kind for item in value):
                return f"[${marker}#L".encode() + struct.pack(f">q{len(value)}{form}", len(value), *value)
        return b"[#L" + struct.pack(">q", len(value)) + b"".join(map(to_ubjson, value))
    if isinstance(value, str):
        return b"S" + _text(value)
    if value is None or isinstance(value, bool):
        return {None: b"Z", True: b"T", False: b"F"}[value]
    return b"L" + struct.pack(">q", value) if isinstance(value, int) else b"D" + struct.pack(">d", value)


def _text(text: str) -> bytes:
    return b"L" + struct.pack(">q", len(text.encode())) + text.encode()


def repeated_json(booster: Any, n_trees: int) -> bytes:
    """XGBoost's model as JSON, with its first tree ``n_trees`` times in place of its trees."""
    document, tree = _without_trees(booster, n_trees)
    return to_json(document).replace(
        b'"trees": []', b'"trees": [' + b",".join([to_json(tree)] * n_trees) + b"]"
    )


def repeated_ubjson(booster: Any, n_trees: int) -> bytes:
    """The same as UBJSON."""
    document, tree = _without_trees(booster, n_trees)
    name = _text("trees")
    trees = b"[#L" + struct.pack(">q", n_trees) + to_ubjson(tree) * n_trees
    return to_ubjson(document).replace(name + to_ubjson([]), name + trees)


def _without_trees(booster: Any, n_trees: int) -> tuple[Any, Any]:
    document = json.loads(booster.save_raw("json"))
    model = document["learner"]["gradient_booster"]["model"]
    tree, model["trees"] = model["trees"][0], []
    model["tree_info"], model["iteration_indptr"] = [0] * n_trees, list(range(n_trees + 1))
    return document, tree


def repeated_lightgbm(booster: Any, n_trees: int) -> bytes:
    """LightGBM's text, with its first tree ``n_trees`` times in place of its trees."""
    text = booster.model_to_string(num_iteration=1).encode()
    start, end = text.index(b"\nTree="), text.index(b"\nend of trees")
    (size,) = [line for line in text[:start].split(b"\n") if line.startswith(b"tree_sizes=")]
    sizes = b"tree_sizes=" + b" ".join([size.partition(b"=")[2]] * n_trees)
    return bytes(text[:start].replace(size, sizes) + text[start:end] * n_trees + text[end:])
