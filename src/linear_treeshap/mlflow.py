"""Explainers as models of MLflow: logged, served and used like any other, without the model's library.

Rows go in, as the explainer takes them; a column of values per feature comes out, and the base value and the
prediction that they lead to. There is always one line per row.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from . import __version__
from .errors import InputError, MissingDependencyError, how_to_install
from .explainer import TreeExplainer

try:
    import mlflow.pyfunc
    from mlflow.models import infer_signature
except ImportError as error:
    raise MissingDependencyError(
        f"linear_treeshap.mlflow keeps explainers in MLflow, which is not installed. "
        f"{how_to_install('mlflow')}"
    ) from error

__all__ = ["ExplainerModel", "log_model", "save_model"]

_FILE = "explainer.lts"


class ExplainerModel(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    """What MLflow loads: the explainer's file, and which of several outputs it is asked for."""

    def __init__(self, only: str | None = None) -> None:
        self.only = only

    def load_context(self, context: Any) -> None:
        self._explainer = TreeExplainer.load(context.artifacts["explainer"])

    # MLflow makes a schema of the types that it finds here, and cannot of Any.
    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
        return _values(self._explainer, model_input, self.only)


def save_model(
    path: str | os.PathLike[str], explainer: TreeExplainer, example: Any, *, only: str | None = None
) -> None:
    """Write an explainer as a model of MLflow to a folder.

    Parameters
    ----------
    path
        The folder, which must not exist.
    explainer
        A `TreeExplainer`. What MLflow keeps of it is the file that `TreeExplainer.save` writes.
    example
        Some rows, of which the signature is made; they are not kept.
    only
        Of a model with several outputs, the one to explain.
    """
    with tempfile.TemporaryDirectory() as folder:
        mlflow.pyfunc.save_model(path=os.fspath(path), **_made(explainer, example, only, Path(folder)))


def log_model(explainer: TreeExplainer, example: Any, *, only: str | None = None, **options: Any) -> Any:
    """The same to MLflow's active run; ``options`` are those of ``mlflow.pyfunc.log_model``: ``name=`` …"""
    with tempfile.TemporaryDirectory() as folder:
        return mlflow.pyfunc.log_model(**_made(explainer, example, only, Path(folder)), **options)


def _made(explainer: TreeExplainer, example: Any, only: str | None, folder: Path) -> dict[str, Any]:
    """What MLflow is given. The model's own library is not among the requirements."""
    values = _values(explainer, example, only)
    explainer.save(folder / _FILE)
    return {
        "python_model": ExplainerModel(only),
        "artifacts": {"explainer": str(folder / _FILE)},
        "signature": infer_signature(example, values),
        "pip_requirements": [f"linear-treeshap=={__version__}", "pandas"],
    }


def _values(explainer: TreeExplainer, rows: Any, only: str | None) -> Any:
    explanation = explainer(rows)
    if "output" in explanation.axes:
        if only is None:
            names = ", ".join(map(repr, explanation.output_names[:10]))
            raise InputError(f"MLflow wants one line per row. Say what to explain: only=…, of {names}.")
        explanation = explanation[..., only]
    return explanation.to_frame(base_values=True)
