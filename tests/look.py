"""Look at every page of the site in a real browser: `make look`, with Debian's chromium installed.

No page may be wider than the window of a phone, a tablet or a screen, nor ask the network for anything. axe, the rules
of the Web Content Accessibility Guidelines as a program, must find nothing in light and in dark. The search results and
404.html are among the pages. Not among the tests: where they run there is no browser.

    python -m tests.look SITE AXE [WORD ...]    # AXE is axe.min.js; only pages with one of the words in their path

`make look ARGS="metrics/scores howto/static"` looks at these alone. All take seven minutes on two processors.
"""

from __future__ import annotations

import functools
import http.server
import json
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator
from urllib.parse import quote

from tests.browser import Browser

WIDTHS = (390, 900, 1400)
#: Findings of axe that only Material itself could fix: the rule, a part of the element, the reason.
ALLOWED: dict[tuple[str, str], str] = {}
WCAG = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa")
#: The rules whose answer depends on the scheme, those whose answer depends on the width, and all but the first.
OF_COLOUR = {"runOnly": ["color-contrast", "link-in-text-block"]}
OF_WIDTH = {"runOnly": ["scrollable-region-focusable"]}
STRUCTURE = {"runOnly": WCAG, "rules": {each: {"enabled": False} for each in OF_COLOUR["runOnly"]}}
#: Pages about which axe is asked as a whole.
WHOLE = ("index.html", "zh/index.html", "404.html", "howto/report/index.html", "reference/functional/index.html")
#: The first things that reach beyond the window, when the page as a whole can be scrolled sideways.
WIDE = """(async () => {
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    if (document.documentElement.scrollWidth <= innerWidth) return [];
    const beyond = [...document.querySelectorAll("article *")].filter(
        each => each.getBoundingClientRect().right > innerWidth + 1);
    return [document.documentElement.scrollWidth + " pixels",
        ...beyond.slice(0, 2).map(each => each.outerHTML.slice(0, 120))];
})()"""
#: Otherwise a change of the width or the scheme is seen half done.
STILL = """(() => {
    const still = document.createElement("style");
    still.textContent = "* { transition: none !important; animation: none !important }";
    document.head.append(still);
})()"""
#: The texts whose colors, size and place no page had before: `seen` are those of earlier pages. axe takes milliseconds
#: for the contrast of each text, and a page of the reference has thousands of them in the same few colors.
NEW = """(seen => {
    document.body.setAttribute("data-md-color-scheme", %s);
    document.body.setAttribute("data-md-color-media", "");
    const known = new Set(seen), found = [];
    window.texts = [];
    for (const each of document.querySelectorAll("body *")) {
        if (![...each.childNodes].some(node => node.nodeType === 3 && node.data.trim()) || !each.checkVisibility())
            continue;
        const {color, fontSize, fontWeight} = getComputedStyle(each);
        const kind = [color, fontSize, fontWeight];
        const link = each.closest("a");
        if (link) kind.push("a", getComputedStyle(link).textDecorationLine, getComputedStyle(link.parentElement).color);
        for (let box = each; box; box = box.parentElement) {
            const {backgroundColor, backgroundImage, opacity} = getComputedStyle(box);
            if (opacity !== "1" || backgroundImage !== "none") kind.push(opacity, backgroundImage);
            if (backgroundColor === "rgba(0, 0, 0, 0)") continue;
            kind.push(backgroundColor);
            if (!backgroundColor.startsWith("rgba")) break;
        }
        const key = kind.join(" ");
        if (known.has(key)) continue;
        known.add(key), found.push(key), window.texts.push(each);
    }
    return found;
})(%s)"""
#: What axe finds: its rule, how often, and the first place.
FOUND = """(async () => {
    const found = await axe.run(%s, {...%s, resultTypes: ["violations"], preload: false});
    return found.violations.map(each => [each.id, each.nodes.length, each.nodes[0].html.slice(0, 160),
        (each.nodes[0].any[0] || {message: ""}).message.slice(0, 160)]);
})()"""
#: What the first links of the search must have, by the language's home page and the query.
FIRST = {
    ("", "AUC"): "metrics/scores/",
    ("", "GAUC"): "metrics/click_through/",
    ("", "fleet.metrics"): "howto/from_fleet_metrics/",
    ("", "--fail-if"): "howto/release_gate/",
    ("", "--join-on"): "howto/release_gate/",
    ("", "multi node"): "howto/launchers/",
    ("", "custom metric"): "metrics/custom/",
    ("", "hang"): "explanation/faults/",
    ("", "FLEETMETRICS_SECRET"): "reference/environment/",
    ("zh/", "AUC"): "metrics/scores/",
    ("zh/", "padding"): "howto/padding/",
    ("zh/", "超时"): "explanation/faults/",
    ("zh/", "死锁"): "explanation/faults/",
    ("zh/", "卡死"): "explanation/faults/",
    ("zh/", "不一致"): "howto/questions/",
    ("zh/", "填充"): "howto/padding/",
    ("zh/", "断点续训"): "howto/checkpoints/",
}
#: The pages that the search shows first.
LINKS = """[...document.querySelectorAll(".md-search-result__item > a, .md-search-result__item details > a")]
    .slice(0, 5).map(each => each.href)"""
#: The table on the home page, whose last column is what the page is about.
CUT = """(code => code.scrollWidth > code.clientWidth + 1 ? [code.scrollWidth, code.clientWidth] : [])(
    document.querySelector("article pre > code"))"""
#: Waits until the search has answered.
RESULTS = """(async () => {
    for (let i = 0; i < 300 && !document.querySelector(".md-search-result__item"); i++)
        await new Promise(done => setTimeout(done, 50));
    if (!document.querySelector(".md-search-result__item")) throw new Error("the search answers nothing");
})()"""


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve the site to this machine alone; the address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def asked(browser: Browser, where: str, rules: dict[str, Any]) -> Iterator[str]:
    """What axe finds in a part of the page."""
    for rule, count, html, message in browser.value(FOUND % (where, json.dumps(rules))):
        if not any(rule == each and part in html for each, part in ALLOWED):
            yield f"{rule}, {count} times: {html} {message}"


def wrong(browser: Browser, page: str, origin: str, axe: str, seen: dict[str, list[str]]) -> Iterator[str]:
    """What is wrong with a page. Its colors are added to those that were seen, of each scheme."""
    browser.open(origin + page.replace("index.html", ""), WIDTHS[0], "light")
    browser.value(STILL)
    if "?q=" in page:
        browser.value(RESULTS)
    browser.value(axe)
    part = "document" if page in WHOLE or "?q=" in page else "'article'"  # the rest is the same on all pages
    for width in WIDTHS:
        browser.resize(width)
        what = browser.value(WIDE)
        if what:
            yield f"is wider than {width}: {', '.join(what)}"
        cut = browser.value(CUT) if page in ("index.html", "zh/index.html") else []
        if cut:
            yield f"its table is {cut[0]} of {cut[1]} pixels wide, at {width}"
        for each in asked(browser, part, STRUCTURE if width == WIDTHS[-1] else OF_WIDTH):
            yield f"axe, {width}: {each}"
    for scheme, known in seen.items():
        new = browser.value(NEW % (json.dumps(scheme), json.dumps(known)))
        known += new
        if new:
            for each in asked(browser, "{include: window.texts}", OF_COLOUR):
                yield f"axe, {scheme}: {each}"
    for event in browser.events:
        if event["method"] == "Network.requestWillBeSent":
            url = event["params"]["request"]["url"]
            if not url.startswith((origin, "data:", "blob:")):
                yield f"asks for {url}"
        elif event["method"] == "Network.responseReceived" and event["params"]["response"]["status"] >= 400:
            url = event["params"]["response"]["url"]
            if not url.endswith("sitemap.xml"):  # Material tries some addresses of it for the menu of languages
                yield f"is refused {url}"


def unfound(browser: Browser, origin: str) -> Iterator[str]:
    """The queries whose page is not among the first links of the search."""
    for (home, query), wanted in FIRST.items():
        browser.open(f"{origin}{home}?q={quote(query)}", WIDTHS[-1], "light")
        browser.value(RESULTS)
        links = browser.value(LINKS)
        if not any(wanted in each for each in links):
            yield f"{home}?q={query}: {wanted} is not among the first links: {links}"


def main(site: Path, axe: Path, words: list[str]) -> None:
    """Print what is wrong; exit with 1 if something is."""
    found = sorted(str(page.relative_to(site)) for page in site.rglob("*.html"))
    pages = [page for page in [*found, "?q=auc", "zh/?q=指标"] if not words or any(word in page for word in words)]
    program = axe.read_text("utf-8") + "; 0"
    seen: dict[str, list[str]] = {"default": [], "slate": []}
    count, began = 0, time.monotonic()
    with Browser() as browser, served(site) as origin:
        for number, page in enumerate(pages, 1):
            if sys.stderr.isatty():
                print(f"\r\033[K{number} of {len(pages)}: {page}", end="", file=sys.stderr, flush=True)
            elif number % 20 == 0:
                print(f"{number} of {len(pages)} pages, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
            for each in wrong(browser, page, origin, program, seen):
                print(f"{page}: {each}", flush=True)
                count += 1
        for each in unfound(browser, origin) if not words or "?q=" in words else ():
            print(each, flush=True)
            count += 1
    print(f"looked at {len(pages)} pages, {len(WIDTHS)} widths, light and dark: {count} findings")
    sys.exit(bool(count or not pages))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
