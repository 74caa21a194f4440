"""Writing a file all or nothing: whoever reads the path sees the old file or the whole new one.

The new file grows beside the old one, as ``.<target>.<random>.tmp``, and is locked for as long as its writer
lives. A writer that is killed outright leaves it there; whoever next writes the same file finds it without a
lock, and removes it.
"""

from __future__ import annotations

import os
import secrets
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # no POSIX: what a killed writer leaves, stays
    fcntl = None  # type: ignore[assignment]

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
    # By a number of its name, which may itself be as long as a name can be.
    beginning = f".{zlib.crc32(os.fsencode(path.name)):08x}."
    _remove_leftovers(path.parent, beginning)
    unfinished = path.parent / f"{beginning}{secrets.token_hex(8)}.tmp"
    try:
        # Not tempfile's: those are readable by their owner only, whatever the umask says.
        with _opened(unfinished) as file:
            if before is not None:
                os.chmod(unfinished, stat.S_IMODE(before.st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is None:
                file.close()  # Windows renames no open file
            os.replace(unfinished, path)
    except BaseException:
        with suppress(FileNotFoundError):
            unfinished.unlink()
        raise
    _sync_folder(path.parent)


def _opened(path: Path) -> BinaryIO:
    """A new file, locked."""
    while True:
        file = path.open("xb")
        if fcntl is None or not _lock(file):  # some file systems have no locks
            return file
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                return file
        file.close()  # taken for a leftover in the moment before it was locked


def _lock(file: BinaryIO) -> bool:
    """Whether the lock was to be had; it ends with the process."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove_leftovers(folder: Path, beginning: str) -> None:
    """Remove what writers of the same file left when they were killed."""
    if fcntl is None:
        return
    for leftover in folder.glob(f"{beginning}{'[0-9a-f]' * 16}.tmp"):
        # Whatever is in the way, nobody's writing fails for it.
        with suppress(OSError), leftover.open("rb") as file:
            if _lock(file):
                leftover.unlink()


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut, where the system has a way to ask for it."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
