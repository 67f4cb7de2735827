"""Look at the report in a real browser: `python -m tests.report.browser FOLDER` with Debian's chromium installed.

It writes screenshots (light, dark, phone, print; English and Chinese) into FOLDER, sorts and filters by keyboard, and
fails if a page asks the network for anything, overflows a phone, runs what the data hold, or leaves a message on the
console. Not among the tests: where they run there is no browser.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from pathlib import Path

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


def is_in_order(browser: Browser, width: int) -> None:
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


def main(folder: Path) -> None:
    """Write the pages and the screenshots, and check them."""
    folder.mkdir(parents=True, exist_ok=True)
    metrics, baseline = sample.collection(1.5), sample.collection(1.3)
    with Browser() as browser:
        for lang in ("en", "zh"):
            path = folder.resolve() / f"{lang}.html"
            path.write_text(report.html(sample.result(), metrics, baseline, lang=lang), encoding="utf-8")
            for width in (1200, 360):
                for scheme in ("light", "dark"):
                    browser.open(path, width, scheme)
                    browser.picture(folder / f"{lang}-{width}-{scheme}.png")
                    is_in_order(browser, width)
            printed = browser.send("Page.printToPDF", preferCSSPageSize=True)["data"]
            (folder / f"{lang}.pdf").write_bytes(base64.b64decode(printed))
        browser.open(folder.resolve() / "en.html", 1200, "light")
        browser.value(OPEN)
        sorts_and_filters(browser)
        browser.picture(folder / "en-sorted.png")
    print(f"all is well; look at {folder}/*.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
