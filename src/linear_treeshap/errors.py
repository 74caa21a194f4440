"""The exceptions this library raises.

    LinearTreeShapError
    ├── ModelError (ValueError)          the model cannot be explained: broken, or not a sum of trees
    │   └── UnsupportedModelError        a model, or an option of one, that we do not read (yet)
    ├── InputError (ValueError)          the rows do not fit the model
    │   └── UnreadableRowsError          rows inside a library's own container that does not give them back
    ├── FileFormatError (ValueError)     a file is damaged, truncated or not ours
    ├── AdditivityError (AssertionError) values do not add up to the model's own prediction
    └── MissingDependencyError (ImportError)  an optional library is needed and not installed

Each also derives from the built-in exception that callers would expect, so that code
written for other libraries keeps catching it.
"""

from __future__ import annotations

__all__ = [
    "AdditivityError",
    "FileFormatError",
    "InputError",
    "LinearTreeShapError",
    "MissingDependencyError",
    "ModelError",
    "UnreadableRowsError",
    "UnsupportedModelError",
    "how_to_install",
]


class LinearTreeShapError(Exception):
    """Base of every exception raised on purpose by this library."""


class ModelError(LinearTreeShapError, ValueError):
    """The model is broken or is not a sum of trees."""


class UnsupportedModelError(ModelError):
    """The model, or an option it was trained with, is not supported."""


class InputError(LinearTreeShapError, ValueError):
    """The rows to explain do not fit the model."""


class UnreadableRowsError(InputError):
    """The rows are inside a library's own container, and do not come out of it as trees read them."""


class FileFormatError(LinearTreeShapError, ValueError):
    """A file is damaged, truncated, or not in the expected format."""


class AdditivityError(LinearTreeShapError, AssertionError):
    """The values of a row do not add up to the model's own prediction."""


class MissingDependencyError(LinearTreeShapError, ImportError):
    """An optional library is needed for this and is not installed."""


def how_to_install(extra: str) -> str:
    """The end of a MissingDependencyError: the command that installs what this extra brings along.

    From source, because no package index has the library yet.
    """
    return f"Run, in a checkout of linear-treeshap: pip install '.[{extra}]'"
