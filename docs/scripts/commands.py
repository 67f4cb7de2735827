"""Write the reference of the command line, from its parsers, and of the environment, from the package's tables.

python docs/scripts/commands.py
"""

from __future__ import annotations

import argparse
import html
import sys

from _catalogue import DOCS, table, write_between

sys.path.insert(0, str(DOCS.parent))

from fleetmetrics.cli.parsers import COMMANDS, command_line
from fleetmetrics.support.environment import PADDLES, SETTINGS
from fleetmetrics.support.launcher import LAUNCHERS, OTHERS


def commands() -> str:
    """Each command with its usage, and each of its options with the help."""
    _, parsers = command_line()
    return "\n" + "\n".join(_command(name, parser, COMMANDS[name].help) for name, parser in parsers.items())


def _command(name: str, parser: argparse.ArgumentParser, what: str) -> str:
    parser.format_help()  # which names the formats of files
    rows = [
        [_written(action), _told(action), _default(action)]
        for action in parser._actions
        if "--help" not in action.option_strings
    ]
    found = f"## {name}\n\n`fleetmetrics {name}`: {_plain(what)}.\n"
    return found + (f"\n{table(['argument', 'what it is', 'default'], rows)}" if rows else "")


def _written(action: argparse.Action) -> str:
    value = action.metavar or ("" if action.nargs == 0 else action.dest.upper())
    if action.choices:
        value = "|".join(map(str, action.choices))
    names = action.option_strings or [""]
    return ", ".join(_code(f"{name} {value}".strip()) for name in names)


def _code(text: str) -> str:
    """Code in a cell of a table: GitHub needs a backslash before a pipe in backticks, which MkDocs shows."""
    if "|" not in text:
        return f"`{text}`"
    pipe = "&#124;<wbr>" if len(text) > 24 else "&#124;"  # on a phone a long list of choices breaks
    return f"<code>{html.escape(text, quote=False).replace('|', pipe)}</code>"


def _told(action: argparse.Action) -> str:
    """The help, without the default that has a column of its own."""
    text = str(action.help or "").replace(" (%(default)s)", "")
    return _plain(text) + (" (required)" if action.required and action.option_strings else "")


def _default(action: argparse.Action) -> str:
    return f"`{action.default}`" if action.default else ""


def _plain(text: str) -> str:
    return text.replace("%%", "%").replace("|", r"\|").replace("*", r"\*").replace("<", r"\<")


def settings() -> str:
    """The settings of this package."""
    rows = [[f"`{name}`", one.meaning] for name, one in SETTINGS.items()]
    return "\n" + table(["variable", "what it is"], rows) + "\n"


def launchers() -> str:
    """What is read of each launcher's variables."""
    rows = [
        [
            row.name,
            *(
                _listed(names)
                for names in (row.size + row.least, row.rank, row.local, row.run + row.host + row.nodes + row.lists)
            ),
        ]
        for row in LAUNCHERS
    ]
    heads = ["launcher", "how many workers", "which one", "how many here", "which run, and where"]
    others = table(["variable", "what it is"], [[f"`{name}`", what] for name, what in PADDLES.items()])
    hints = _listed(tuple(name for row in (*LAUNCHERS, OTHERS) for name in row.hints))
    several = (
        f"An error, where they name several workers and no launcher above does: {_listed(OTHERS.least + OTHERS.lists)}."
    )
    alone = f"An error without a number of workers: {hints}."
    return f"\n{table(heads, rows)}\nPaddle has further variables:\n\n{others}\n{several}\n\n{alone}\n"


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    write_between(DOCS / "reference" / "command_line.md", "commands", commands())
    write_between(DOCS / "reference" / "environment.md", "settings", settings())
    write_between(DOCS / "reference" / "environment.md", "launchers", launchers())
