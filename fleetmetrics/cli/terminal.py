"""Output on a terminal: aligned text, tables by rich if it is installed, Markdown, JSON."""

from __future__ import annotations

import json
import sys
from typing import Any, Mapping, Sequence

from fleetmetrics.support.printed import Printed, escaped, laid_out, markdown_of

__all__ = ["show"]


def show(result: Printed, plain: Mapping[str, Any], form: str | None = None, lead: Sequence[str] = ()) -> None:
    """Print a result as "JSON" or "Markdown", or as text: with rich if it is installed and the output is a terminal.

    Args:
        result: to print.
        plain: the same as JSON.
        form: None: text.
        lead: the verdict and the sentences below it, for Markdown.
    """
    if form == "JSON":
        print(json.dumps(plain, indent=2))
    elif form == "Markdown":
        verdict, *sentences = map(escaped, filter(None, lead)) if any(lead) else ("",)
        print("\n\n".join([*([f"**{verdict}**"] if verdict else []), *sentences, markdown_of(result.tables())]))
    elif not (sys.stdout.isatty() and _shown_by_rich(result)):
        print(laid_out(result.tables()))


def _shown_by_rich(result: Printed) -> bool:
    """Show the result with rich; return False if rich is not installed."""
    try:
        from rich.console import Console
    except ImportError:
        return False
    out = Console(highlight=False, markup=False).print
    for number, (title, rows, notes) in enumerate(result.tables()):
        if number:
            out()
        if title:
            out(title)
        if rows:
            out(_boxed(rows))
        for note in notes:
            out(note)
    return True


def _boxed(rows: Sequence[Sequence[str]]) -> Any:
    from rich.table import Column, Table

    table = Table(*(Column(name, justify="right" if place else "left") for place, name in enumerate(rows[0])))
    for row in rows[1:]:
        table.add_row(*row)
    return table
