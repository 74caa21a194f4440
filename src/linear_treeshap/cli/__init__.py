"""The command ``linear-treeshap``: files in, files out, for those who would rather not write Python.

A command is a module with ``add_to(subparsers)`` and a function that runs it. What they share: `models.py`
reads model files, `data.py` reads tables batch by batch, `rows.py` brings the two together, and `output.py`
writes.
"""

from __future__ import annotations

from .main import main

__all__ = ["main"]
