"""What `docs/scripts/site.py` computes, without MkDocs."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any, Container, Iterable

FENCED = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#{1,6}) +(.*?)(?: *\{ *#[-\w]+ *\})?$", re.MULTILINE)
PARAGRAPH = re.compile(r"<p>(.*?)</p>", re.DOTALL)
#: What leads a reader to another page, and says nothing where a search engine shows it.
POINTING = re.compile(r"; see [^.;]+(?=\.)")
#: The heading of an entry of the reference.
ENTRY = re.compile(r'<(h\d) id="(fleetmetrics\.[\w.]+)".*?</\1>', re.DOTALL)
#: What the search of a language must find: for words that readers look for, a page; "" is any.
WORDS = {
    "en": {
        "AUC": "reference/metrics/scores/",
        "--fail-if": "reference/command_line/",
        "FLEETMETRICS_SECRET": "reference/environment/",
        "deadline": "",
        "sampler": "",
        "report": "",
    },
    "zh": {
        "AUC": "reference/metrics/scores/",
        "超时": "explanation/faults/",
        "死锁": "explanation/faults/",
        "断点续训": "howto/checkpoints/",
        "分布式": "",
        "全局指标": "",
        "精度": "",
        "参数服务器": "",
    },
}
#: The entries of the index that come first among equals: the classes of metrics, options, variables.
FIRST = re.compile(r"reference/(?:metrics/\w+/#fleetmetrics\.\w+|(?:command_line|environment)/(?:#.*)?)")


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


def public_names(modules: dict[str, str]) -> str:
    """The list of the names that a package exports, each a link to its entry."""
    names = sorted((name for name in modules if not name.startswith("_")), key=str.lower)
    links = (f'<autoref identifier="fleetmetrics.{name}" optional><code>{name}</code></autoref>' for name in names)
    return f"\n\n<p>{', '.join(links)}</p>\n"


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


def own_index(index: dict[str, Any], language: str) -> dict[str, Any]:
    """The search index of one language, with the places of its pages below its home page."""
    folder = "zh/" if language == "zh" else ""
    docs = [each for each in index["docs"] if each["location"].startswith("zh/") == bool(folder)]
    docs = [{**each, "location": each["location"][len(folder) :]} for each in docs]
    return {
        "config": {**index["config"], "lang": sorted({"en", language})},
        "docs": [{**each, "boost": 10} if FIRST.fullmatch(each["location"]) else each for each in docs],
    }


def pages_found(index: dict[str, Any], query: str) -> set[str]:
    """The pages that the search in the browser shows for a query without blanks.

    Each part finds the words that begin with it: what is between separators, and of Chinese the longest words that the
    index has. docs/assets/site.js removes the hyphens before an option.
    """
    separator = re.compile(index["config"]["separator"])
    words: dict[str, set[str]] = {}
    for each in index["docs"]:
        for word in separator.split(re.sub(r"<[^>]+>", " ", f"{each['title']} {each['text']}").lower()):
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
