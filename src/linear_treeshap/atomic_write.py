"""Writing a file all or nothing: whoever reads the path sees the old file or the whole new one."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

__all__ = ["replacing"]


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file beside ``path`` that takes its place when the block ends well, and vanishes otherwise."""
    path = Path(os.path.realpath(path))  # a link stays a link
    before = path.stat() if path.exists() else None
    if before is not None and not stat.S_ISREG(before.st_mode):
        raise OSError(f"Cannot save to {str(path)!r}: it exists and is not a file.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"Cannot save to {str(path)!r}: there is no folder {str(path.parent)!r}.")
    # Not tempfile's: those are readable by their owner only, whatever the umask says.
    unfinished = path.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        with unfinished.open("xb") as file:
            if before is not None:
                os.chmod(unfinished, stat.S_IMODE(before.st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with suppress(FileNotFoundError):
            unfinished.unlink()
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut, where the system has a way to ask for it."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
