"""Where the pages of the documentation are: ``both("howto/files")`` is the English one and the Chinese one."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"


def both(name: str) -> list[Path]:
    """The page in English, and in Chinese."""
    return [DOCS / f"{name}.md", DOCS / f"{name}.zh.md"]
