"""What the build of the site adds to MkDocs and its plugins; `hooks:` of mkdocs.yml names it.

- A Chinese page has the anchors of its English twin, so that both have the same links.
- A Chinese page that is shorter than its twin says so; a link to a page without one leads to the English page.
- A link of a README or of another file beside the site that leads nowhere is a warning, too.
- A Chinese section that is older than its English one is a warning, which ends the strict build.
- An exported name has its public address, `#fleetmetrics.AUC`; one without an entry is a warning.
- Each language has a search index of its own.
- A short option such as `--by` stays on one line.
- A command that writes a Python program shows Python's colors.
- Every page has a title and a description of its own.
- The Python blocks that need NumPy alone run, and print what their comments say.
- Code in a table shows no backslash before a pipe.
- A warning names the file, the line and what to run.
"""

from __future__ import annotations

import inspect
import json
import logging
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import _programs
import griffe
from _site import (
    WORDS,
    below_title,
    description,
    led_elsewhere,
    line_of,
    own_index,
    pages_found,
    pipes_with_backslashes,
    placed,
    public_names,
    twice,
    with_anchors,
    with_public_ids,
    without_addresses,
    without_entry,
)
from links import complaints as broken_links
from mkdocs.plugins import event_priority
from translations import complaints

import fleetmetrics
from docs.scripts import blocks

ROOT = Path(__file__).resolve().parent.parent.parent
log = logging.getLogger("mkdocs.hooks.site")
#: The anchors of each English page, with their levels, in order; the English pages are built first.
ANCHORS: dict[str, list[tuple[int, str]]] = {}
#: By language, the titles and the descriptions of its pages, as the head of each page has them.
HEADS: dict[str, dict[str, dict[str, str]]] = {}
#: What of each page's head is kept, and where it is there.
HEAD = {"title": r"<title>(.*?)</title>", "description": r'<meta name="description" content="(.*?)"'}
#: The addresses that the Chinese build gives to pages that are there in English only; nothing is written at them.
ENGLISH_ONLY: set[str] = set()
NOTICE = re.compile(r'<div class="admonition note">.*?</div>', re.DOTALL)
#: A short option of a command, which a browser would break behind its first hyphens.
OPTION = re.compile(r"<code>(--?[a-z][^<]{0,23})</code>")
#: A block of lines of a log, by the comment before it.
LOG = re.compile(r"^<!-- (?:doctor|exchange|warning) -->\n```text$", re.MULTILINE)
SHORTER = '!!! note ""\n    本页是摘要，<a href="{url}">英文版</a>更完整。\n\n'


class Placed(logging.Filter):
    """Names the line of a link that leads nowhere."""

    docs = ROOT / "docs"

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the message of a record."""
        record.msg, record.args = placed(record.getMessage(), self.docs), ()
        return True


PLACED = Placed()
#: What griffe has read of the package: the first language reads it for both.
READ = griffe.ModulesCollection(), griffe.LinesCollection()


def on_startup(*, command: str, dirty: bool) -> None:
    """Print the warnings and errors of a build, and nothing else.

    `--quiet` would hide the warnings from `--strict` too, and every build would pass.
    """
    _programs.use()
    if command == "build":
        logging.getLogger("mkdocs").setLevel(logging.WARNING)
        logging.getLogger("jieba").setLevel(logging.WARNING)


def on_config(config: Any) -> None:
    """Prepare the build of a language."""
    PLACED.docs = Path(config.docs_dir)
    for name in ("pages", "nav"):
        logging.getLogger(f"mkdocs.structure.{name}").addFilter(PLACED)  # one that is there stays one
    plugin = config.plugins["autorefs"]  # it would take the entries of both languages for one
    for places in (plugin._primary_url_map, plugin._secondary_url_map, plugin._abs_url_map, plugin._title_map):
        places.clear()
    python = config.plugins["mkdocstrings"].get_handler("python")
    python._modules_collection, python._lines_collection = READ
    docs = Path(config.docs_dir)
    pages = [page for page in docs.rglob("*.md") if not page.name.endswith(".zh.md")]
    lone = [page for page in pages if not page.with_suffix(".zh.md").exists()]
    ENGLISH_ONLY.update(_chinese_address(page.relative_to(docs)) for page in lone)
    version = re.search(r'"(.+)"', (ROOT / "fleetmetrics" / "_version.py").read_text("utf-8").partition("=")[2])
    config.copyright = f"fleetmetrics {version[1]}" if version else None
    if not config.repo_url:
        config.edit_uri = config.edit_uri_template = None


def _chinese_address(page: Path) -> str:
    """Where a page is in the Chinese site, seen from the home page."""
    place = page.parent if page.stem == "index" else page.with_suffix("")
    return f"zh/{place.as_posix()}/" if place.parts else "zh/"


def on_pre_build(*, config: Any) -> None:
    """Check the sources, once for both languages."""
    if config.plugins["i18n"].building:
        return
    pages = sorted(Path(config.docs_dir).rglob("*.md"))
    chinese = [page for page in pages if page.name.endswith(".zh.md")]
    for page in chinese:
        for complaint in complaints(page, Path(config.docs_dir)):
            log.warning("docs/%s", complaint)
    for complaint in broken_links(Path(config.docs_dir).parent):
        log.warning("%s", complaint)
    for complaint in blocks.wrong([page for page in pages if page not in chinese]):  # which have the same programs
        log.warning("%s", complaint)


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Give a page what other files have for it, and a Chinese one its anchors and its notice."""
    file = page.file
    if file.norm_src_uri == "project/changelog.md":
        markdown = re.sub(r"\]\(docs/", "](../", (ROOT / "CHANGELOG.md").read_text("utf-8"))
    if file.norm_src_uri == "reference/index.md":
        pages = {name: Path(config.docs_dir, name).read_text("utf-8") for name in _of_reference(config.nav)}
        places = {posixpath.relpath(name, "reference"): text for name, text in pages.items()}
        markdown += public_names(fleetmetrics._modules, places, _summaries())
    markdown = LOG.sub("```{.text .wrap}", markdown)
    if file.locale_alternate_of == "en":
        return markdown
    if file.locale == "en":
        return markdown
    if file.norm_src_uri not in ANCHORS:
        log.warning("docs/%s:1: there is no English page beside it. Add it, then run `make docs`.", file.src_uri)
        return markdown
    markdown, same = with_anchors(markdown, ANCHORS[file.norm_src_uri])
    up = "../" * (file.url.rstrip("/").count("/") + 1)
    return markdown if same else below_title(markdown, SHORTER.format(url=f"{up}{file.alternates['en'].url}"))


def _of_reference(nav: Any) -> list[str]:
    """The pages of the reference, in the order of the site."""
    if isinstance(nav, str):
        return [nav] if nav.startswith("reference/") else []
    return [page for item in (nav.values() if isinstance(nav, dict) else nav or ()) for page in _of_reference(item)]


def _summaries() -> dict[str, str]:
    """The first line of the docstring of each public name."""
    names = [name for name in fleetmetrics._modules if not name.startswith("_")]
    lines = {name: (inspect.getdoc(getattr(fleetmetrics, name)) or "").partition("\n")[0] for name in names}
    return {name: line.replace("|", "&#124;") for name, line in lines.items()}


def on_page_content(html: str, *, page: Any, config: Any, files: Any) -> str:
    """Keep the anchors of an English page, and describe a page by its first sentences."""

    def walk(items: Any) -> Any:
        for item in items:
            yield item.level, item.id
            yield from walk(item.children)

    if page.file.src_uri.startswith("reference/"):
        html = with_public_ids(html, page.toc, fleetmetrics._modules)
        for _, anchor in walk(page.toc):
            config.plugins["autorefs"].register_anchor(page, anchor)
    if page.file.locale_alternate_of == "en":
        ANCHORS[page.file.norm_src_uri] = list(walk(page.toc))
    for code in pipes_with_backslashes(html):
        line = line_of(Path(config.docs_dir, page.file.src_uri).read_text("utf-8"), (code,))
        told = f"code in a table shows a backslash: {code}. Write <code>...&#124;...</code>, then run `make docs`."
        log.warning("docs/%s:%d: %s", page.file.src_uri, line, told)
    html = OPTION.sub(r'<code class="option">\1</code>', html)
    if page.url not in ("", "zh/"):
        page.meta.setdefault("description", description(NOTICE.sub("", html)))
    return html


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """Keep what the head says; let the search of a Chinese page begin at the Chinese home page."""
    if page.file.norm_src_uri == "reference/index.md" and page.file.locale_alternate_of == "en":
        for line in without_entry(fleetmetrics._modules, config.plugins["autorefs"]._primary_url_map):
            log.warning(line)
    kept = HEADS.setdefault(page.file.locale_alternate_of, {"title": {}, "description": {}})
    for kind, pattern in HEAD.items():
        found = re.search(pattern, output, re.DOTALL)
        kept[kind][page.file.src_uri] = found[1] if found else ""
    chinese = page.file.locale_alternate_of == "zh"
    if chinese and page.url in ENGLISH_ONLY:
        return ""
    if not chinese:
        return led_elsewhere(output, page.url, lambda place: "zh/" if place in ENGLISH_ONLY else "")
    output = led_elsewhere(output, page.url, lambda place: place[len("zh/") :] if place in ENGLISH_ONLY else "")
    base = re.search(r'"base": *"((?:\.\./)*)\.\."', output)
    assert base, page.url
    return f'{output[: base.start()]}"base": "{base[1] or "./"}"{output[base.end() :]}'


def on_post_template(output: str, *, template_name: str, config: Any) -> str:
    """Leave the English build's page for what is not found: it speaks both languages; list what is there only."""
    if template_name == "sitemap.xml":
        return without_addresses(output, config.site_url or "", ENGLISH_ONLY)
    return "" if template_name == "404.html" and config.theme["language"] == "zh" else output


@event_priority(-200)
def on_post_build(*, config: Any) -> None:
    """Divide the search index by language, once all are built, and look what readers would find."""
    if config.plugins["i18n"].building:
        return  # a language's own build; the index of all comes after it
    index = json.loads(Path(config.site_dir, "search", "search_index.json").read_text(encoding="utf-8"))
    for language in ("zh", "en"):
        own = own_index(index, language, ENGLISH_ONLY)
        place = Path(config.site_dir, "zh" if language == "zh" else "", "search", "search_index.json")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(own, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
        for word, page in WORDS[language].items():
            found = pages_found(own, word)
            if not found or (page and page not in found):
                told = "mkdocs.yml:1: the search in %r does not find %s for %s. See `search:` there."
                log.warning(told, language, page or "any page", word)
        for kind, of_pages in HEADS[language].items():
            for value, pages in twice(of_pages):
                told = "Give each page its own heading or first sentence, then run `make docs`."
                log.warning("docs/%s:1: has the %s of %s: %r. %s", pages[0], kind, ", ".join(pages[1:]), value, told)
        for name, value in HEADS[language]["description"].items():
            if value.startswith(("See ", "参见", "见")):
                log.warning("docs/%s:1: begins with %r. Say what the page has, then run `make docs`.", name, value)
