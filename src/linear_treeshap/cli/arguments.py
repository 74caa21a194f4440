"""What commands have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from . import models, rows
from .numbers import threads

__all__ = ["add_check_and_progress", "add_inputs", "command"]


def command(
    subparsers: Any,
    name: str,
    run: Callable[[argparse.Namespace], None],
    help: str,
    about: Any,
    examples: str,
) -> argparse.ArgumentParser:
    """A parser for a command, which is described by the docstring ``about`` it and by examples."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name, help=help, description=about, epilog=examples
    )
    parser.set_defaults(run=run)
    return parser


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """A model, its rows, who the players are, and how many threads explain them."""
    models.add_arguments(parser)
    rows.add_arguments(parser)
    models.add_groups_argument(parser)
    parser.add_argument("--n-jobs", metavar="N", type=threads, help="threads (default: all CPUs)")


def add_check_and_progress(parser: argparse.ArgumentParser) -> None:
    """What is done for each batch besides explaining it."""
    rows.add_check_argument(parser)
    rows.add_progress_argument(parser)
