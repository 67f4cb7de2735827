"""Look at the report in a real browser: `python -m tests.report.browser FOLDER` with Debian's chromium installed.

It writes screenshots (light, dark, phone, print; English and Chinese) into FOLDER, sorts and filters by keyboard, and
fails if a page asks the network for anything, overflows a phone, runs what the data hold, leaves a message on the
console, or if axe finds anything. `make look` runs it. Not among the tests: where they run there is no browser.

    python -m tests.report.browser FOLDER AXE    # AXE is axe.min.js
"""

from __future__ import annotations

import base64
import json
import re
import sys
from pathlib import Path

import fleetmetrics
from fleetmetrics import report
from tests.browser import Browser
from tests.report import sample

#: The keys of the slices that are shown, in their order, and how they are sorted.
SHOWN = """(() => { const table = document.querySelector("table.slices");
    const head = table.querySelector("[aria-sort]");
    return [[...table.tBodies[0].rows].filter(row => row.offsetHeight).map(row => row.cells[0].textContent),
        head.textContent, head.getAttribute("aria-sort"), table.closest("details").querySelector("output").value];
})()"""


def sorts_and_filters(browser: Browser) -> None:
    """By keyboard alone."""
    rows = sample.result()["slices"]["slot"]

    def keys(by: str, down: bool) -> list[str]:
        """The keys once the rows that are shown are sorted; what has no number comes last in both orders."""
        known = sorted((row for row in rows if row[by] is not None), key=lambda row: row[by], reverse=down)
        rows[:] = known + [row for row in rows if row[by] is None]
        return [row["key"] for row in rows]

    assert browser.value(SHOWN)[:3] == [keys("harm", True), "Harm", "descending"]
    browser.value("document.querySelector('table.slices [aria-sort] button').focus()")
    browser.press("Enter")
    assert browser.value(SHOWN)[:3] == [keys("harm", False), "Harm", "ascending"]
    browser.press("Tab")
    browser.press(" ")
    assert browser.value(SHOWN)[:3] == [keys("rows", True), "Rows", "descending"]
    browser.press(" ")
    assert browser.value(SHOWN)[:3] == [keys("rows", False), "Rows", "ascending"]
    browser.value("document.querySelector('table.slices th button').focus()")
    browser.press("Enter")
    found, head, order, _ = browser.value(SHOWN)
    numbered = [key for key in found if re.fullmatch(r"slot-\d+", key)]
    assert (head, order) == ("Slice", "ascending") and numbered == [f"slot-{each}" for each in range(43)]
    browser.value("document.querySelector('[type=search]').focus()")
    browser.send("Input.insertText", text=" SLOT-4")
    assert browser.value(SHOWN)[0] == ["slot-4", "slot-40", "slot-41", "slot-42"]
    browser.press("Tab")
    browser.press(" ")
    beyond = [row["key"] for row in rows if row["key"].startswith("slot-4") and not row["within_chance"]]
    found, *_, said = browser.value(SHOWN)
    assert sorted(found) == sorted(beyond) and said == f"{len(beyond)} of 50 shown"
    browser.value("document.querySelector('[type=search]').focus(); document.execCommand('selectAll')")
    browser.send("Input.insertText", text="<SCRIPT>alert(1)<")
    browser.press("Tab")
    browser.press(" ")
    assert browser.value(SHOWN)[0] == [sample.HOSTILE[0]]
    assert json.loads(browser.value("document.querySelector('details.json pre').textContent")) == json.loads(
        json.dumps(sample.result())
    )


#: The folded tables are opened.
OPEN = "document.querySelectorAll('details:not(.json)').forEach(each => (each.open = true))"


#: The roles of the parts of tables whose rows may be cards: not all browsers keep those of blocks.
PARTS = """[...new Set([...document.querySelectorAll(".cards, .cards :is(thead, tbody, tr, th, td)")].map(
    each => each.getAttribute("role")))].sort()"""
#: What axe finds, by all of its rules: their names, with the first place.
FOUND = """(async () => (await axe.run(document, {resultTypes: ["violations"], preload: false})).violations.map(
    each => [each.id, each.nodes[0].html.slice(0, 160)]))()"""


def accessible(browser: Browser, axe: str) -> None:
    """The rules of axe hold."""
    browser.value(OPEN)
    browser.value(axe)
    found = browser.value(FOUND)
    assert not found, found


def is_in_order(browser: Browser, width: int, axe: str) -> None:
    """Nothing overflows, runs, is asked for or complained of; what is read aloud has a name."""
    browser.value(OPEN)
    wide = "[...document.querySelectorAll('.box')].filter(each => each.scrollWidth > each.clientWidth + 1).length"
    assert browser.value("document.documentElement.scrollWidth") <= width and not browser.value(wide)
    assert browser.value("document.title") in ("Evaluation report", "评估报告")
    asked = [
        each["params"]["request"]["url"] for each in browser.events if each["method"] == "Network.requestWillBeSent"
    ]
    assert len(asked) == 1 and asked[0].startswith("file:"), asked
    kinds = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Page.javascriptDialogOpening")
    assert not [each for each in browser.events if each["method"] in kinds]
    nodes = browser.send("Accessibility.getFullAXTree")["nodes"]
    roles = ("table", "img", "image", "button", "searchbox", "checkbox", "navigation", "region", "columnheader")
    told = [node for node in nodes if node.get("role", {}).get("value") in roles and not node["ignored"]]
    assert len(told) > (40 if width > 1000 else 10)  # on a phone a row is a card, whose numbers have labels
    assert not [node for node in told if not node["name"]["value"]]
    assert browser.value(PARTS) == ["cell", "columnheader", "row", "rowgroup", "rowheader", "table"]
    accessible(browser, axe)


def main(folder: Path, axe: Path) -> None:
    """Write the pages and the screenshots, and check them."""
    program = axe.read_text("utf-8") + "; 0"
    folder.mkdir(parents=True, exist_ok=True)
    metrics, baseline = sample.collection(1.5), sample.collection(1.3)
    with Browser() as browser:
        for lang in ("en", "zh"):
            path = folder.resolve() / f"{lang}.html"
            path.write_text(report.html(sample.result(), metrics, baseline, lang=lang), encoding="utf-8")
            for width in (1280, 390):
                for scheme in ("light", "dark"):
                    browser.open(path, width, scheme)
                    browser.picture(folder / f"{lang}-{width}-{scheme}.png")
                    is_in_order(browser, width, program)
            printed = browser.send("Page.printToPDF", preferCSSPageSize=True)["data"]
            (folder / f"{lang}.pdf").write_bytes(base64.b64decode(printed))
        compared = folder.resolve() / "compared.html"
        rows = {"y": [0, 1, 0, 1] * 50, "p": [0.1, 0.8, 0.4, 0.3] * 50, "slot": ["a", "a", "b", "b"] * 50}
        fleetmetrics.evaluate(rows, label="y", score="p", by="slot", baseline=rows, ci=0.95).to_html(
            compared, conditions="auc<0.9"
        )
        for width in (1280, 390):
            browser.open(compared, width, "light")
            accessible(browser, program)
            browser.picture(folder / f"compared-{width}.png")
        browser.open(folder.resolve() / "en.html", 1280, "light")
        browser.value(OPEN)
        sorts_and_filters(browser)
        browser.picture(folder / "en-sorted.png")
    print(f"all is well; look at {folder}/*.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
