"""The file of an explainer as bytes, for those who keep it inside of something else."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from ..explainer import TreeExplainer

__all__ = ["from_bytes", "to_bytes"]


def to_bytes(explainer: TreeExplainer) -> bytes:
    """What `TreeExplainer.save` writes."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "explainer.lts"
        explainer.save(path)
        return path.read_bytes()


def from_bytes(content: bytes) -> TreeExplainer:
    """What `TreeExplainer.load` reads."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "explainer.lts"
        path.write_bytes(content)
        return TreeExplainer.load(path)
