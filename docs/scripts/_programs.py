"""How the site colors a command that writes a program: the program as Python, not as one string of the shell."""

from __future__ import annotations

from pygments.lexer import bygroups, using
from pygments.lexers.python import PythonLexer
from pygments.lexers.shell import BashLexer
from pygments.token import String

#: ``cat > train.py <<'END'``, a program, ``END``.
PROGRAM = (r"(?s)(?<=\.py )(<<'END'\n)(.*?\n)(END)$", bygroups(String, using(PythonLexer), String))


def use() -> None:
    """Let Pygments know of such programs in Bash, before its first use."""
    if PROGRAM not in BashLexer.tokens["basic"]:
        BashLexer.tokens["basic"].insert(0, PROGRAM)
