"""The page docs/command-line.md, made from the parser: what is offered is what is described.

Run ``python tests/support/command_line_page.py`` to write it anew; a test checks that it is current.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from linear_treeshap.cli.main import make_parser

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"

_TOP = """\
# Command line

This page is made from the commands' own help (`python tests/support/command_line_page.py`).

```sh
pip install '.[cli]'    # in a checkout, with pyarrow, which reads and writes the tables
linear-treeshap explain model.json rows.parquet -o values.parquet --key id
```

`python -m linear_treeshap` is the same command. What it writes is what the library computes: it has no
arithmetic of its own.

**Models** are recognised by their content, and read without the library that wrote them: XGBoost's `.json`
and `.ubj`, LightGBM's text, CatBoost's `.cbm`, files of treelite and of `linear_treeshap.save`. A
scikit-learn model saved by skops needs `pip install '.[skops]'`, and types that skops does not
know to be harmless are listed and refused unless each is trusted by name. A pickle can run any code when it
is read, so it is refused unless `--allow-pickle` is given.

**Rows** may be in Parquet, Feather or CSV (also `.csv.gz`), and so may the output. Columns are matched by
name where the model knows names; columns that it does not read are left alone. Text is a category if the
model knows labels for that column, as in a data frame. A CSV file has no types: numbers are read as
float64, keys are carried as they are written, and cells that pandas takes for missing are missing, unless
the model knows them as a category.

**Memory** is that of a batch of rows, whatever the size of the file; see [ten million
rows](examples/ten-million-rows.md). **Output** appears under its name when it is complete. An interrupted
or failed run leaves none, and a file that was there before stays as it was. A run that is killed outright
leaves an unfinished `.….tmp` beside it, which the next run that writes the same file removes.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | something is wrong with a file: one line on stderr says what |
| 2 | wrong usage |
| 130, 143 | interrupted (Ctrl-C), terminated; nothing was written |
"""


def render() -> str:
    """The whole page."""
    (commands,) = (a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return _TOP + "".join(_section(name, parser) for name, parser in commands.choices.items())


def _section(name: str, parser: argparse.ArgumentParser) -> str:
    actions = [action for action in parser._actions if action.dest != "help"]
    lines = [f"\n## {name}\n", f"{parser.description}\n", "| argument | |", "|---|---|"]
    lines += [f"| {_names(action)} | {_cell(action.help or '')} |" for action in actions]
    return "\n".join(lines) + f"\n\n```text\n{parser.epilog}```\n"


def _names(action: argparse.Action) -> str:
    """``-o OUT``, ``--out OUT``: as one would type it."""
    if action.choices:
        word = f" {{{','.join(map(str, action.choices))}}}"
    else:
        word = "" if action.nargs == 0 else f" {action.metavar}"
    if not action.option_strings:
        return f"`{action.metavar}`" + (" (optional)" if action.nargs == "?" else "")
    return ", ".join(f"`{option}{word}`" for option in action.option_strings)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
