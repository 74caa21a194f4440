"""The user's rows where they are on a GPU: CuPy, PyTorch, cuDF, and whatever else speaks the CUDA array
interface or DLPack.

In comes X; out come rows on the GPU that kernels can read, or the same X in ordinary memory. CuPy is imported
only if something is on a GPU, so it is there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import InputError
from ...model.row_format import RowFormat

__all__ = ["is_on_gpu", "on_host", "plain_rows", "to_gpu"]

#: DLPack's numbers of memory that kernels of CUDA can read: on the device, and managed.
_CUDA_MEMORY = (2, 13)


def is_on_gpu(X: Any) -> bool:
    """Are these rows on a GPU of NVIDIA's?"""
    if isinstance(X, (np.ndarray, list, tuple)):
        return False
    if _is_cudf(X) or ("__cuda_array_interface__" in dir(type(X)) and not hasattr(X, "is_cuda")):
        return True
    place = getattr(X, "__dlpack_device__", None)
    try:
        return place is not None and int(place()[0]) in _CUDA_MEMORY
    except (TypeError, ValueError, BufferError):  # a table that cannot be exchanged, such as one of strings
        return False


def _is_cudf(X: Any) -> bool:
    return type(X).__module__.split(".")[0] == "cudf"


def to_gpu(X: Any) -> Any:
    """A CuPy array of the same numbers: the same memory, if they are on a GPU already."""
    import cupy

    if _is_cudf(X):
        return X.to_cupy()
    if hasattr(X, "detach"):  # PyTorch's, which may remember how they were made
        X = X.detach()
    return cupy.asarray(X)


def on_host(X: Any) -> Any:
    """The same rows in ordinary memory; X itself if they are there."""
    if not is_on_gpu(X):
        return X
    return X.to_pandas() if _is_cudf(X) else to_gpu(X).get()


def plain_rows(X: Any, row_format: RowFormat) -> Any | None:
    """(n_rows, n_features) of the model's dtype, C-contiguous, on the GPU; None if what X says has to be read
    first: names of columns, labels, marks of missing values."""
    if _is_cudf(X) or row_format.changes_numbers:
        return None
    rows = to_gpu(X)
    if rows.dtype.kind not in "biuf":
        raise InputError(f"X must hold real numbers, got an array of {rows.dtype}. Convert it first.")
    if rows.ndim != 2 or rows.shape[1] != row_format.n_features:
        raise InputError(
            f"Rows on a GPU must have the shape (n_rows, {row_format.n_features}), as the model was "
            f"trained; got {rows.shape}."
        )
    return rows.astype(row_format.numpy_dtype, order="C", copy=False)
