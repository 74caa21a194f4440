"""Arguments in, an exit code out: 0 done, 1 something is wrong with a file, 2 wrong usage, 130 interrupted.

An error is one line on stderr. Whoever wants to know where it came from asks with ``--traceback``.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from .. import __version__
from ..errors import LinearTreeShapError
from . import bench, explain, importance, info, reasons, report

__all__ = ["main", "make_parser"]

DONE, FAILED, WRONG_USAGE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143

_EXAMPLES = """\
examples:
  linear-treeshap explain model.json rows.parquet -o values.parquet --key id
  linear-treeshap reasons model.json rows.csv -o reasons.csv --key id --toward up
  linear-treeshap importance model.txt rows.csv
  linear-treeshap report model.cbm rows.csv -o report.html
  linear-treeshap info model.ubj --json

Every command has examples of its own: linear-treeshap explain --help
"""


class _Parser(argparse.ArgumentParser):
    """Wrong usage is one line too; the whole usage is what ``--help`` is for."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USAGE, f"{self.prog}: error: {message}. See: {self.prog} --help\n")


class _Terminated(BaseException):
    """The system asked this process to end (SIGTERM)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    args = make_parser().parse_args(argv)
    try:
        with _one_line_warnings(), _ending_on_sigterm():
            args.run(args)
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _fail(f"interrupted. {_nothing_written(args)}", INTERRUPTED)
    except _Terminated:
        return _fail(f"terminated. {_nothing_written(args)}", TERMINATED)
    except BrokenPipeError:
        # Whoever read our output has had enough. Python would complain about it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except (LinearTreeShapError, OSError, MemoryError) as error:
        if args.traceback:
            raise
        return _fail(f"error: {_text(error)}", FAILED)
    except Exception as error:
        if args.traceback:
            raise
        return _fail(
            f"error: {type(error).__name__}: {_text(error)} This was not foreseen; --traceback shows where "
            f"it happened, which helps in a bug report.",
            FAILED,
        )
    return DONE


def make_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="linear-treeshap",
        description="Exact Shapley values of tree models, from files to files.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (explain, reasons, importance, report, info, bench):
        added: argparse.ArgumentParser = command.add_to(subparsers)
        added.formatter_class = argparse.RawDescriptionHelpFormatter
        added.allow_abbrev = False
        added.add_argument("--traceback", action="store_true", help="show where an error came from")
    return parser


def _text(error: BaseException) -> str:
    """What an exception says, in one line."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{str(error.filename)!r}: " if error.filename else ""
        return f"{where}{error.strerror}."
    return " ".join(str(error).split()) or type(error).__name__


def _fail(message: str, code: int) -> int:
    print(f"linear-treeshap: {message}", file=sys.stderr)
    return code


def _nothing_written(args: argparse.Namespace) -> str:
    out = getattr(args, "out", None)
    return "" if out is None else f"Nothing was written to {str(out)!r}."


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    """Warnings of libraries, in the manner of our errors."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"linear-treeshap: warning: {' '.join(str(message).split())}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """SIGTERM unwinds the stack as Ctrl-C does, so that unfinished files are removed."""

    def end(number: int, frame: FrameType | None) -> None:
        raise _Terminated

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # not the main thread: signals are somebody else's
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
