"""What `docs/scripts/site.py` computes, without MkDocs."""

from __future__ import annotations

import html
import posixpath
import re
from pathlib import Path
from typing import Any, Callable, Container, Iterable

FENCED = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#{1,6}) +(.*?)(?: *\{ *#[-\w]+ *\})?$", re.MULTILINE)
PARAGRAPH = re.compile(r"<p>(.*?)</p>", re.DOTALL)
#: What leads a reader to another page, and says nothing where a search engine shows it.
POINTING = re.compile(r"; see [^.;]+(?=\.)")
#: A link to another page of the site.
HREF = re.compile(r'(\bhref="?)((?![a-z]+:)[^"#\s>][^"\s>]*)("?)')
#: The heading of an entry of the reference.
ENTRY = re.compile(r'<(h\d) id="(fleetmetrics\.[\w.]+)".*?</\1>', re.DOTALL)
#: What a page of the reference has entries of.
ENTRIES = re.compile(r"^::: (\S+)$", re.MULTILINE)
#: What the search of a language must find: for words that readers look for, a page; "" is any.
WORDS = {
    "en": {
        "AUC": "metrics/scores/",
        "--fail-if": "howto/release_gate/",
        "--join-on": "howto/release_gate/",
        "FLEETMETRICS_SECRET": "reference/environment/",
        "fleet.metrics": "howto/from_fleet_metrics/",
        "multi node": "howto/launchers/",
        "custom metric": "metrics/custom/",
        "hang": "explanation/faults/",
        "deadline": "",
        "sampler": "",
        "report": "",
    },
    "zh": {
        "AUC": "metrics/scores/",
        "padding": "howto/padding/",
        "超时": "explanation/faults/",
        "死锁": "explanation/faults/",
        "卡死": "explanation/faults/",
        "不一致": "howto/questions/",
        "填充": "howto/padding/",
        "断点续训": "howto/checkpoints/",
        "分布式": "",
        "全局指标": "",
        "精度": "",
        "参数服务器": "",
    },
}
#: The entries of the index that come first among equals: options and variables.
FIRST = re.compile(r"reference/(?:command_line|environment)/(?:#.*)?")
#: The weight of the reference, whose entries have in their titles the words that the guides have in their text.
REFERENCE_WEIGHT = {"en": 1e-3, "zh": 1e-5}


def headings(markdown: str) -> list[re.Match[str]]:
    """The headings outside blocks of code."""
    code = [found.span() for found in FENCED.finditer(markdown)]
    found = HEADING.finditer(markdown)
    return [each for each in found if not any(start <= each.start() < end for start, end in code)]


def with_anchors(markdown: str, anchors: list[tuple[int, str]]) -> tuple[str, bool]:
    """The page with the anchors of its twin, and whether both have the same headings, level by level."""
    found = headings(markdown)
    if [len(each[1]) for each in found] != [level for level, _ in anchors]:
        places = "".join(f'<span id="{anchor}"></span>' for _, anchor in anchors)
        return f"{markdown}\n\n{places}\n", False
    for heading, (_, anchor) in reversed(list(zip(found, anchors))):
        line = f"{heading[1]} {heading[2]} {{ #{anchor} }}"
        markdown = markdown[: heading.start()] + line + markdown[heading.end() :]
    return markdown, True


def below_title(markdown: str, text: str) -> str:
    """The page with a text below its title."""
    title = headings(markdown)[0]
    return f"{markdown[: title.end()]}\n\n{text}{markdown[title.end() :]}"


def description(content: str, most: int = 200) -> str:
    """The first sentences of a page, in plain words, that fit into a search engine's two lines."""
    said = ""
    for paragraph in PARAGRAPH.findall(content):
        text = " ".join(html.unescape(re.sub(r"<[^>]+>", "", paragraph)).split())
        text = POINTING.sub("", text).strip()
        said = f"{said} {text}".strip()
        if len(said) >= 50:
            break
    if len(said) <= most:
        return said
    whole = re.match(rf"(.{{40,{most}}})(?<=[.!?。？！])(?= |$|(?<=[。？！]))", said)
    return whole[1] if whole else said[: most - 4].rsplit(" ", 1)[0] + " ..."


def pipes_with_backslashes(content: str) -> list[str]:
    """The code in tables that shows a backslash before a pipe: GitHub's pages need it, and MkDocs keeps it."""
    cells = re.findall(r"<td.*?</td>", content, re.DOTALL)
    return [html.unescape(code) for cell in cells for code in re.findall(r"<code[^>]*>([^<]*\\\|[^<]*)</code>", cell)]


def public_names(modules: dict[str, str], pages: dict[str, str], summaries: dict[str, str]) -> str:
    """The names that a package exports, below the page of the reference that has them: each with its first line.

    ``pages`` are the texts of the pages by their places, in the order of the site.
    """
    found: dict[str, list[str]] = {page: [] for page in pages}
    entries = {entry: page for page, text in pages.items() for entry in ENTRIES.findall(text)}
    for name in sorted((name for name in modules if not name.startswith("_")), key=str.lower):
        path = f"{modules[name]}.{name}"
        places = [f"fleetmetrics.{name}", *(path[: end.start()] for end in reversed(list(re.finditer(r"\.", path))))]
        page = next((entries[place] for place in places if entries.get(place, "index.md") != "index.md"), "")
        if page:
            link = f'<autoref identifier="fleetmetrics.{name}" optional><code>{name}</code></autoref>'
            found[page].append(f"| {link} | {summaries.get(name, '')} |\n")
    parts = []
    for page, rows in found.items():
        title = HEADING.search(pages[page])
        if rows and title:
            parts.append(f"\n## [{title[2]}]({page})\n\n| name | what it is |\n| --- | --- |\n{''.join(rows)}")
    return "".join(parts)


def without_entry(modules: dict[str, str], entries: Container[str]) -> list[str]:
    """The names that a package exports and that no page of its reference has."""
    return [
        f"fleetmetrics/__init__.pyi:1: {name} has no entry in the reference; write `::: {module}.{name}` on a page of"
        " docs/reference, or leave it out of docs/scripts/names.py, then run `make docs`"
        for name, module in modules.items()
        if not name.startswith("_") and f"fleetmetrics.{name}" not in entries
    ]


def with_public_ids(content: str, toc: Iterable[Any], modules: dict[str, str]) -> str:
    """Put what the package exports at its public address, and what belongs to it; the module's address stays, too."""
    exported = {f"{module}.{name}": f"fleetmetrics.{name}" for name, module in modules.items()}

    def public(path: str) -> str | None:
        owner = next((each for each in (path, path.rpartition(".")[0]) if each in exported), None)
        return exported[owner] + path[len(owner) :] if owner else None

    def moved(found: re.Match[str]) -> str:
        name = public(found[2])
        if name is None or name == found[2]:
            return found[0]
        heading = found[0].replace(f'"{found[2]}"', f'"{name}"').replace(f'"#{found[2]}"', f'"#{name}"')
        return f'<a id="{found[2]}"></a>{heading}'

    def rename(items: Iterable[Any]) -> None:
        for item in items:
            item.id = public(item.id) or item.id
            rename(item.children)

    rename(toc)
    return ENTRY.sub(moved, content)


def own_index(index: dict[str, Any], language: str, english: Container[str] = frozenset()) -> dict[str, Any]:
    """The search index of one language, with the places of its pages below its home page.

    ``english`` are the Chinese addresses of pages that are there in English only.
    """
    folder = "zh/" if language == "zh" else ""
    docs = [each for each in index["docs"] if each["location"].startswith("zh/") == bool(folder)]
    return {
        "config": {**index["config"], "lang": sorted({"en", language})},
        "docs": [_of_language(each, language, english) for each in docs],
    }


def _of_language(entry: dict[str, Any], language: str, english: Container[str]) -> dict[str, Any]:
    place = entry["location"][len("zh/") if language == "zh" else 0 :]
    if entry["location"].partition("#")[0] in english:
        return {**entry, "location": f"../{place}", "boost": REFERENCE_WEIGHT[language]}
    if FIRST.fullmatch(place):
        return {**entry, "location": place, "boost": 10}
    if place.startswith("reference/"):
        return {**entry, "location": place, "boost": REFERENCE_WEIGHT[language]}
    return {**entry, "location": place}


def led_elsewhere(content: str, url: str, instead: Callable[[str], str]) -> str:
    """A page at an address, whose links to some addresses lead elsewhere: ``instead`` gives the place, or nothing."""

    def moved(found: re.Match[str]) -> str:
        path, hash_, anchor = found[2].partition("#")
        place = instead(posixpath.normpath(posixpath.join(url, path)) + "/") if path else ""
        if not place:
            return found[0]
        return f"{found[1]}{posixpath.relpath(place, url or '.')}/{hash_}{anchor}{found[3]}"

    return HREF.sub(moved, content)


def without_addresses(sitemap: str, origin: str, addresses: Iterable[str]) -> str:
    """A sitemap without some addresses, as places of their own and as the other language of a page."""
    for address in addresses:
        place = re.escape(origin + address)
        sitemap = re.sub(rf"\s*<url>\s*<loc>{place}</loc>.*?</url>", "", sitemap, flags=re.DOTALL)
        sitemap = re.sub(rf'\s*<xhtml:link [^>]*href="{place}"/>', "", sitemap)
    return sitemap


def pages_found(index: dict[str, Any], query: str) -> set[str]:
    """The pages that the search in the browser shows for a query without blanks.

    Each part finds the words that begin with it: what is between separators, and of Chinese the longest words that the
    index has. docs/assets/site.js removes the hyphens before an option.
    """
    separator = re.compile(index["config"]["separator"])
    words: dict[str, set[str]] = {}
    for each in index["docs"]:
        texts = " ".join([each["title"], *each.get("tags", ()), each["text"]])
        for word in separator.split(re.sub(r"<[^>]+>", " ", texts).lower()):
            words.setdefault(word.strip("，。：；（）、？.,:;()"), set()).add(each["location"].partition("#")[0])
    found: set[str] = set()
    for part in filter(None, separator.split(query.lower())):
        for term in [part] if part.isascii() else segments(part, words):
            found.update(page for word in words if word.startswith(term) for page in words[word])
    return found


def segments(query: str, words: Container[str]) -> set[str]:
    """The parts of a query in Chinese, cut as Material's `segment` does."""
    size = len(query)
    lengths = [max([n for n in range(1, size - i) if query[i : i + n] in words], default=0) for i in range(size)]
    found, stack = set(), [0]
    while stack:
        start = stack.pop()
        length = lengths[start]
        for shorter in range(1, length):
            if lengths[start + shorter] > length - shorter:
                found.add(query[start : start + shorter])
                stack.append(start + shorter)
        end = start + length
        if lengths[end] and end < size - 1:
            stack.append(end)
        found.add(query[start:end])
    return {query} if "" in found else found


def twice(of_pages: dict[str, str]) -> list[tuple[str, list[str]]]:
    """The values that several pages share, with the pages."""
    pages: dict[str, list[str]] = {}
    for page, value in of_pages.items():
        pages.setdefault(value, []).append(page)
    return [(value, names) for value, names in pages.items() if len(names) > 1]


def line_of(text: str, wanted: Iterable[str]) -> int:
    """The first line that has one of the texts; 1 if none has."""
    for number, line in enumerate(text.splitlines(), 1):
        if any(each in line for each in wanted):
            return number
    return 1


def placed(message: str, docs: Path) -> str:
    """A warning of MkDocs on a page's link, with the line of the link, and what to do."""
    found = re.match(r"Doc file '([^']+)' contains an? .*?link '([^']+)'", message)
    if found is None:
        return message
    page = docs / found[1]
    target = found[2]
    line = line_of(page.read_text("utf-8"), (f"]({target}", f'"{target}"')) if page.is_file() else 1
    return f"{docs.name}/{found[1]}:{line}: {message} Correct the link, then run `make docs`."
