"""The build of the site: what it adds to MkDocs, and what fails it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.pages import DOCS

pytestmark = pytest.mark.numpy_only
ROOT = DOCS.parent
MKDOCS = ROOT / ".venv-dev" / "bin" / "mkdocs"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(DOCS / "scripts"))
    import _site

    return _site


def test_a_chinese_page_with_the_same_headings_has_the_anchors_of_the_english_one(site: Any) -> None:
    page = "# 标题\n\n```bash\n# no heading\n```\n\n## 读取 { #old }\n"
    text, same = site.with_anchors(page, [(1, "title"), (2, "reading")])
    assert same and "# 标题 { #title }" in text and "## 读取 { #reading }" in text and "# no heading\n" in text


def test_a_shorter_chinese_page_still_has_all_anchors(site: Any) -> None:
    text, same = site.with_anchors("# 标题\n", [(1, "title"), (2, "reading")])
    assert not same and 'id="reading"' in text


def test_the_search_of_a_language_finds_its_own_pages_only(site: Any) -> None:
    def entry(location: str, text: str) -> dict[str, str]:
        return {"location": location, "title": "", "text": text}

    index = {
        "config": {"lang": ["en", "zh"], "separator": r"[\s\u200b\-]+"},
        "docs": [
            entry("a/", "the AUC of all"),
            entry("zh/a/", "全局\u200b指标\u200b的\u200b精度"),
            entry("zh/b/#c", "全局"),
        ],
    }
    english, chinese = (site.own_index(index, language) for language in ("en", "zh"))
    assert [each["location"] for each in english["docs"]] == ["a/"]
    assert [each["location"] for each in chinese["docs"]] == ["a/", "b/#c"]
    assert site.pages_found(english, "auc") == {"a/"} and not site.pages_found(english, "精度")
    assert site.pages_found(chinese, "精度") == {"a/"} and site.pages_found(chinese, "全局指标") == {"a/", "b/"}


def test_the_search_finds_options_and_variables_first_and_entries_of_the_reference_last(site: Any) -> None:
    places = ("howto/a/#b", "reference/metrics/scores/#fleetmetrics.AUC", "reference/environment/#settings", "x/")
    texts = ("AUC", "fleetmetrics.AUC", "FLEETMETRICS_SECRET", "<code>--fail-if</code>")
    docs = [{"location": place, "title": "", "text": text} for place, text in zip(places, texts)]
    separator = re.search(r"separator: '(.*)'", (ROOT / "mkdocs.yml").read_text("utf-8"))
    assert separator
    own = site.own_index({"config": {"separator": separator[1]}, "docs": docs}, "en")
    assert [each.get("boost") for each in own["docs"]] == [None, 1e-3, 10, None]
    found = {word: site.pages_found(own, word) for word in ("AUC", "--fail-if", "FLEETMETRICS_SECRET", "none")}
    assert found == {
        "AUC": {"howto/a/", "reference/metrics/scores/"},
        "--fail-if": {"x/"},
        "FLEETMETRICS_SECRET": {"reference/environment/"},
        "none": set(),
    }


def test_a_page_that_is_there_in_english_only_is_found_and_reached_from_the_chinese_ones(site: Any) -> None:
    english = {"zh/reference/metric/"}
    docs = [{"location": place, "title": "", "text": ""} for place in ("zh/reference/metric/#add", "zh/a/", "b/")]
    own = site.own_index({"config": {}, "docs": docs}, "zh", english)
    assert [each["location"] for each in own["docs"]] == ["../reference/metric/#add", "a/"]
    assert own["docs"][0]["boost"] < 1e-3

    def instead(place: str) -> str:
        return place[len("zh/") :] if place in english else ""

    page = '<a href="../../reference/metric/#add"><a href="../b/"><a href=../../reference/metric/><a href="#c">'
    moved = '<a href="../../../reference/metric/#add"><a href="../b/"><a href=../../../reference/metric/><a href="#c">'
    assert site.led_elsewhere(page, "zh/howto/a/", instead) == moved
    sitemap = "<urlset><url><loc>o/zh/reference/metric/</loc></url><url><loc>o/zh/a/</loc></url></urlset>"
    assert site.without_addresses(sitemap, "o/", english) == "<urlset><url><loc>o/zh/a/</loc></url></urlset>"


def test_the_index_of_the_reference_has_each_name_below_its_page_with_its_first_line(site: Any) -> None:
    pages = {
        "index.md": "# All\n\n::: fleetmetrics\n",
        "a.md": "# A page\n\n::: fleetmetrics.AUC\n\n::: fleetmetrics.m\n",
    }
    names = {"AUC": "fleetmetrics.metrics.auc", "late": "fleetmetrics.m.n", "_own": "fleetmetrics.m"}
    found = site.public_names(names, pages, {"AUC": "An area."})
    assert "## [A page](a.md)" in found and found.count("\n| <autoref") == 2
    assert 'identifier="fleetmetrics.AUC" optional><code>AUC</code></autoref> | An area. |' in found


@pytest.mark.parametrize(
    ("query", "cut"),
    [("超时", {"超时"}), ("全局指标", {"全局"}), ("参数服务器", {"参数", "服务"}), ("全局指标值", {"全局", "指标"})],
)
def test_a_query_in_chinese_is_cut_as_the_browser_cuts_it(site: Any, query: str, cut: set[str]) -> None:
    assert site.segments(query, {"全局", "指标", "参数", "服务", "服务器"}) == cut


def test_a_description_is_whole_sentences_and_fits(site: Any) -> None:
    long = "A first sentence that says what the page is for, in plain words. " + "And more. " * 40
    said = site.description(f"<h1>T</h1><p>{long}<code>x &lt; 1</code></p>")
    assert said.startswith("A first") and said.endswith(".") and 40 < len(said) <= 200
    assert site.description("<p>Short &amp; clear.</p><p>Then this.</p>") == "Short & clear. Then this."


def test_a_description_leads_to_no_other_page(site: Any) -> None:
    page = "<p>How sure are values; see <a>the guide</a>.</p><p>Intervals by a formula.</p>"
    assert site.description(page) == "How sure are values. Intervals by a formula."


def test_a_backslash_before_a_pipe_is_found_in_tables_alone(site: Any) -> None:
    table = "<table><tr><td>a <code>en|zh</code></td><td><code>--lang en\\|zh &lt;</code></td></tr></table>"
    assert site.pipes_with_backslashes(f"<pre><code>grep 'a\\|b'</code></pre>{table}") == [r"--lang en\|zh <"]


def test_two_pages_with_one_title_are_found(site: Any) -> None:
    assert site.twice({"a.md": "T", "b.md": "U", "c.md": "T"}) == [("T", ["a.md", "c.md"])]


def test_an_exported_name_has_its_public_address_and_keeps_that_of_its_module(site: Any) -> None:
    modules = {"__version__": "fleetmetrics._version", "Late": "fleetmetrics.errors", "doctor": "fleetmetrics.doctor"}
    ids = ["fleetmetrics.errors.Late", "fleetmetrics.errors.Late.told", "fleetmetrics.files.Late", "way-in"]
    toc = [SimpleNamespace(id=each, children=[]) for each in ids]
    content = "".join(f'<h2 id="{each}" class="doc">x<a href="#{each}">#</a></h2>' for each in ids)
    found = site.with_public_ids(content, toc, modules)
    assert [each.id for each in toc] == ["fleetmetrics.Late", "fleetmetrics.Late.told", *ids[2:]]
    assert found.startswith(
        '<a id="fleetmetrics.errors.Late"></a><h2 id="fleetmetrics.Late" class="doc">x<a href="#fleetmetrics.Late">'
    )
    assert re.findall(r'id="(.*?)"', found) == [
        *ids[:1],
        "fleetmetrics.Late",
        ids[1],
        "fleetmetrics.Late.told",
        *ids[2:],
    ]
    assert [line.partition(" in ")[0] for line in site.without_entry(modules, {each.id for each in toc})] == [
        "fleetmetrics/__init__.pyi:1: doctor has no entry"
    ]


def test_links_beside_the_site_lead_to_files_and_headings(site: Any, tmp_path: Path) -> None:
    import links

    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text('# A page: `x`\n\n## Twice\n\n## Twice\n\n<a id="own"></a>\n', "utf-8")
    good = ["docs/a.md", "docs/a.md#a-page-x", "docs/a.md#twice-1", "docs/a.md#own", "#top", "https://x.example/none"]
    code = "`[code](none.md)`\n\n```text\n[code](none.md)\n```\n"
    page = "# Top\n\n" + "".join(f"[a link]({each})\n" for each in good) + code
    (tmp_path / "README.md").write_text(page, "utf-8")
    assert links.complaints(tmp_path) == []
    bad = '[a](docs/none.md) [b](docs/a.md#none)\n<img src="none.png">\n'
    (tmp_path / "README.md").write_text(page + bad, "utf-8")
    line = page.count("\n") + 1
    assert [each.split(". Correct")[0] for each in links.complaints(tmp_path)] == [
        f"README.md:{line}: the link 'docs/none.md' leads to no file",
        f"README.md:{line}: the link 'docs/a.md#none' leads to no heading of a.md",
        f"README.md:{line + 1}: the link 'none.png' leads to no file",
    ]


def test_the_repository_has_no_broken_link_beside_the_site(site: Any) -> None:
    import links

    assert links.complaints() == []


# -- what fails a build ----------------------------------------------------------------------------------

ENGLISH = """# A page

AUC, deadline, sampler, report. [That](other.md#there) and ![a picture](picture.svg).

```python
print(1 + 1)  # 2
```
"""
CHINESE = """# 一页

分布式全局指标，超时，精度，参数服务器。[那](other.md#there)与![图](picture.svg)。

```python
print(1 + 1)  # 2
```
"""
OTHERS = {
    "other.md": "# Another\n\nWords of its own, `--fail-if`.\n\n## There\n\nMore words.\n",
    "entry.md": "# An entry\n\nWords of the reference.\n\n::: fleetmetrics.AUC\n",
    "picture.svg": '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>',
}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The repository with three pages instead of a hundred: `make docs` builds them as it builds the others."""
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("fleetmetrics", "docs/scripts", "docs/theme", "docs/assets", "docs/reference"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    for file in ("Makefile", "mkdocs.yml", "tests/nursery.py"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    words = 'WORDS = {"en": {"AUC": "", "--fail-if": "other/"}, "zh": {"超时": ""}}\n'
    change(tmp_path / "docs" / "scripts" / "_site.py", r"WORDS = \{.*?\n\}\n", words)
    change(tmp_path / "mkdocs.yml", "\n  /scripts/\n", "\n  /scripts/\n  /reference/\n")
    change(tmp_path / "mkdocs.yml", r"\nnav:\n.*?\n\n", "\nnav: [index.md, other.md, entry.md]\n\n")
    for name, text in {**OTHERS, "index.md": ENGLISH, "index.zh.md": CHINESE}.items():
        (tmp_path / "docs" / name).write_text(text, "utf-8")
    stamp = [sys.executable, "docs/scripts/translations.py", "docs/index.zh.md"]
    subprocess.run(stamp, cwd=tmp_path, check=True)
    return tmp_path


def change(path: Path, old: str, new: str) -> None:
    text, count = re.subn(old, new, path.read_text("utf-8"), count=1, flags=re.DOTALL)
    assert count, (path, old)
    path.write_text(text, "utf-8")


def make_docs(folder: Path) -> subprocess.CompletedProcess[str]:
    """What `make docs` does there, with the environment that is here."""
    environment = MKDOCS.parent.parent
    command = ["make", "docs", f"DEV={environment}", "-o", f"{environment}/.ready"]
    left_out = ("PYTHONPATH", "MAKEFLAGS", "MAKELEVEL", "SITE_URL", "REPO_URL")
    return subprocess.run(
        command,
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name not in left_out},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
    )


@pytest.mark.thorough
@pytest.mark.skipif(not MKDOCS.exists(), reason="`make lint` makes .venv-dev")
def test_make_docs_builds_pages_that_are_right_and_prints_nothing_else(small: Path) -> None:
    done = make_docs(small)
    assert (done.returncode, done.stdout) == (0, "built site/index.html\n")


@pytest.mark.skipif(not MKDOCS.exists(), reason="`make lint` makes .venv-dev")
def test_make_docs_fails_and_names_the_file_the_line_and_what_to_run(small: Path) -> None:
    page = small / "docs" / "index.md"
    for old, new in (
        (r"\[That\].*?\)", "[That](none.md)"),
        (r"!\[a picture\].*?\)\.", "\n![a picture](none.svg).\n[Those](other.md#none)."),
        ("# 2\n```\n", "# 3\n```\n\n| a |\n| --- |\n| `en\\\\|zh` |\n"),
    ):
        change(page, old, new)
    change(small / "docs" / "index.zh.md", "# 2", "# 3")
    (small / "README.md").write_text("# The front\n\n[A page](docs/index.md) and [none](docs/gone.md).\n", "utf-8")
    module = small / "fleetmetrics" / "base" / "merging.py"
    change(module, r"def merge_all\(parts: .*?\)", "def merge_all(parts)")
    change(small / "docs" / "other.md", "Words of its own, `--fail-if`", "See the words")
    above, decorator, _ = module.read_text("utf-8").partition("@knows_its_arguments\ndef merge_all")
    assert decorator
    line = above.count("\n") + 1
    done = make_docs(small)
    assert done.returncode != 0
    lines = done.stdout.splitlines()
    planted = [
        ("docs/index.md:3: ", "'none.md'", "run `make docs`"),
        ("docs/index.md:4: ", "'none.svg'", "run `make docs`"),
        ("docs/index.md:5: ", "'other.md#none'", "run `make docs`"),
        ("README.md:3: ", "'docs/gone.md' leads to no file", "run `make docs`"),
        ("docs/index.zh.md:1: ", "is older than the English section", "run: python docs/scripts/translations.py"),
        ("docs/index.md:8: ", "prints '2', and the page says '3'", "run `make test-cpu"),
        ("mkdocs.yml:1: ", "does not find other/ for --fail-if", "`search:`"),
        ("docs/other.md:1: ", "begins with 'See the words", "run `make docs`"),
        ("docs/index.md:13: ", r"shows a backslash: en\|zh", "&#124;"),
        (f"fleetmetrics/base/merging.py:{line}: ", "the argument parts has no type", "run `make types`"),
    ]
    for place, what, told in planted:
        assert [each for each in lines if f" {place}" in each and what in each and told in each], (place, done.stdout)
    ends = ("Aborted with ", "make: ")
    others = [
        each for each in lines if each and not each.startswith(ends) and not any(f" {at}" in each for at, *_ in planted)
    ]
    assert others == [], "what is right has no complaint, and nothing else is printed"
