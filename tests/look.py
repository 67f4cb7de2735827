"""Look at every page of the site in a real browser: `make look`, with Debian's chromium installed.

No page may be wider than the window, of a phone, a tablet or a screen, nor ask the network for anything. axe, the rules
of the Web Content Accessibility Guidelines as a program, must find nothing, in light and in dark. Not among the tests:
where they run there is no browser. 404.html has absolute addresses, so only a server can show it.

    python -m tests.look SITE AXE [WORD ...]    # AXE is axe.min.js; only pages with one of the words in their path

`make look ARGS="metrics/scores howto/static"` looks at these alone.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Iterator

from tests.browser import Browser

WIDTHS = (390, 900, 1400)
#: The first things that reach beyond the window, when the page as a whole can be scrolled sideways.
WIDE = """(() => {
    if (document.documentElement.scrollWidth <= innerWidth) return [];
    const beyond = [...document.querySelectorAll("article *")].filter(
        each => each.getBoundingClientRect().right > innerWidth + 1);
    return [document.documentElement.scrollWidth + " pixels",
        ...beyond.slice(0, 2).map(each => each.outerHTML.slice(0, 120))];
})()"""
#: What axe finds: its rule, how often, and the first place. What surrounds the article is the same on all pages.
FOUND = """(async () => {
    document.body.setAttribute("data-md-color-scheme", %r);
    document.body.setAttribute("data-md-color-media", "");
    const still = document.createElement("style");
    still.textContent = "* { transition: none !important }";
    document.head.append(still);
    const rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"];
    const found = await axe.run(%s, {runOnly: rules, resultTypes: ["violations"], preload: false});
    return found.violations.map(each => `${each.id}, ${each.nodes.length} times: ` +
        each.nodes[0].html.slice(0, 160) + " " + (each.nodes[0].any[0] || {message: ""}).message.slice(0, 160));
})()"""


def wrong(browser: Browser, page: Path, axe: str) -> Iterator[str]:
    """What is wrong with a page."""
    browser.open(page, WIDTHS[-1], "light")
    asked = [
        each["params"]["request"]["url"] for each in browser.events if each["method"] == "Network.requestWillBeSent"
    ]
    yield from (f"asks for {url}" for url in asked if not url.startswith(("file:", "data:", "blob:")))
    browser.value(axe)
    for scheme in ("default", "slate"):
        found = browser.value(FOUND % (scheme, "document" if page.parent.name in ("site", "zh") else "'article'"))
        yield from (f"axe, {'light' if scheme == 'default' else 'dark'}: {each}" for each in found)
    for width in WIDTHS:
        browser.resize(width)
        what = browser.value(WIDE)
        if what:
            yield f"is wider than {width}: {', '.join(what)}"


def main(site: Path, axe: Path, words: list[str]) -> None:
    """Print what is wrong; exit with 1 if something is."""
    pages = sorted(page for page in site.resolve().rglob("*.html") if page.name == "index.html")
    pages = [page for page in pages if not words or any(word in str(page) for word in words)]
    program = axe.read_text("utf-8") + "; 0"
    count = 0
    with Browser() as browser:
        for page in pages:
            for each in wrong(browser, page, program):
                print(f"{page.relative_to(site.resolve())}: {each}", flush=True)
                count += 1
    print(f"looked at {len(pages)} pages, {len(WIDTHS)} widths, light and dark: {count} findings")
    sys.exit(bool(count or not pages))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
