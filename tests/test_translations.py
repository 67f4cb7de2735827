"""The Chinese pages say what the English ones say: a section that is older than its original is named."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.numpy_only

ENGLISH = """# Files

Read files.

```python
# a heading only for a shell
print(1 + 1)  # 2
```

## Columns

Name the columns.
"""
CHINESE = """# 文件

读取文件。

```python
# 只对 shell 来说是标题
print(1 + 1)  # 2
```

## 列

写出列名。
"""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(str(ROOT / "docs/scripts"))
    return runpy.run_path(str(ROOT / "docs/scripts/translations.py"))


@pytest.fixture
def page(tmp_path: Path, script: dict[str, Any]) -> Path:
    """A Chinese page, stamped, beside its English one."""
    folder = tmp_path / "howto"
    folder.mkdir()
    (folder / "files.md").write_text(ENGLISH, "utf-8")
    (folder / "files.zh.md").write_text(CHINESE, "utf-8")
    script["stamp"](folder / "files.zh.md")
    return folder / "files.zh.md"


def change(page: Path, old: str, new: str) -> None:
    text = page.read_text("utf-8")
    assert old in text
    page.write_text(text.replace(old, new), "utf-8")


def test_every_chinese_section_is_as_new_as_its_english_one(script: dict[str, Any]) -> None:
    pages = sorted((ROOT / "docs").rglob("*.zh.md"))
    assert len(pages) > 20
    assert [each for page in pages for each in script["complaints"](page)] == []


def test_every_page_of_the_translated_folders_has_a_chinese_one(script: dict[str, Any]) -> None:
    assert script["untranslated"](ROOT / "docs") == []


def test_a_stamped_page_has_no_complaints_and_stamping_again_changes_nothing(
    page: Path, script: dict[str, Any]
) -> None:
    before = page.read_text("utf-8")
    assert script["complaints"](page, page.parents[1]) == []
    script["stamp"](page, page.parents[1])
    assert page.read_text("utf-8") == before


def test_line_breaks_may_move_in_the_english_page(page: Path, script: dict[str, Any]) -> None:
    change(page.with_name("files.md"), "Name the columns.", "Name the\ncolumns.")
    assert script["complaints"](page, page.parents[1]) == []


def test_a_list_that_a_script_writes_in_both_languages_makes_no_section_stale(
    page: Path, script: dict[str, Any]
) -> None:
    written = "<!-- catalogue -->\n| AUC |\n<!-- /catalogue -->\n"
    page.with_name("files.md").write_text(ENGLISH + written, "utf-8")
    script["stamp"](page, page.parents[1])
    change(page.with_name("files.md"), "| AUC |", "| AUC |\n| GAUC |")
    assert script["complaints"](page, page.parents[1]) == []
    change(page.with_name("files.md"), "Name the columns.", "Name them.")
    assert len(script["complaints"](page, page.parents[1])) == 1


def test_a_section_that_is_older_than_its_original_is_named_with_file_and_line(
    page: Path, script: dict[str, Any]
) -> None:
    change(page.with_name("files.md"), "Name the columns.", "Name the columns, in quotes.")
    (told,) = script["complaints"](page, page.parents[1])
    assert told.startswith("howto/files.zh.md:11: ## 列 is older than the English section ## Columns (line 10)")
    assert told.endswith("run: python docs/scripts/translations.py docs/howto/files.zh.md")


def test_a_section_without_a_stamp_is_stale(page: Path, script: dict[str, Any]) -> None:
    page.write_text(CHINESE, "utf-8")
    assert len(script["complaints"](page, page.parents[1])) == 2


def test_a_section_that_is_missing_is_named(page: Path, script: dict[str, Any]) -> None:
    with page.with_name("files.md").open("a", encoding="utf-8") as file:
        file.write("\n## Rows\n\nLeave out rows.\n")
    (told,) = script["complaints"](page, page.parents[1])
    assert "has 2 sections, the English page has 3; see ## Rows" in told
    with pytest.raises(SystemExit, match="see ## Rows"):
        script["stamp"](page, page.parents[1])


def test_programs_and_what_they_print_are_the_same(page: Path, script: dict[str, Any]) -> None:
    change(page, "print(1 + 1)  # 2", "print(1 + 1)  # 3")
    (told,) = script["complaints"](page, page.parents[1])
    assert told.startswith("howto/files.zh.md:1: # 文件 has other code") and told.endswith("print(1 + 1)  # 3")


def test_a_page_without_a_chinese_one_is_named(page: Path, script: dict[str, Any]) -> None:
    page.unlink()
    assert script["untranslated"](page.parent.parent) == ["howto/files.md:1: has no Chinese page files.zh.md"]
