"""The report: complete, in two languages; any data are only shown, never run.

How it looks, and that its script sorts and filters, is for `python -m tests.report.browser`, which needs Chromium.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Iterator

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb

import fleetmetrics as fm
from fleetmetrics import report
from fleetmetrics.words import Words
from tests.plot.test_canvas import SEEN, contrast, lab, linear
from tests.report.sample import HOSTILE, collection, result

pytestmark = pytest.mark.numpy_only

ROOT = Path(__file__).resolve().parents[2]
EMPTY = ("meta", "wbr", "input", "path", "use", "img", "line", "rect")


class Element:
    def __init__(self, tag: str, attributes: dict[str, Any], parent: Element | None) -> None:
        self.tag, self.attributes, self.parent = tag, attributes, parent
        self.parts: list[Element | str] = []

    def all(self, tag: str = "", **attributes: str) -> list[Element]:
        """The elements inside, in order."""
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        kinds = set(wanted.pop("class", "").split())
        return [
            element
            for element in self._within()
            if tag in ("", element.tag)
            and wanted.items() <= element.attributes.items()
            and kinds <= set((element.attributes.get("class") or "").split())
        ]

    def _within(self) -> Iterator[Element]:
        for part in self.parts:
            if isinstance(part, Element):
                yield part
                yield from part._within()

    @property
    def text(self) -> str:
        return "".join(part if isinstance(part, str) else part.text for part in self.parts)


class Reader(HTMLParser):
    """A page as a tree; that every element is closed in its turn is a test of every page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.here = self.root = Element("", {}, None)
        self.feed(page)
        self.close()
        assert self.here is self.root

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attributes), self.here)
        self.here.parts.append(element)
        if tag not in EMPTY:
            self.here = element

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.here.parts.append(Element(tag, dict(attributes), self.here))

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY:
            assert self.here.tag == tag, (tag, self.here.tag, self.getpos())
            self.here = self.here.parent or self.root

    def handle_data(self, text: str) -> None:
        self.here.parts.append(text)


def read(*arguments: Any, **more: Any) -> Element:
    return Reader(report.html(*arguments, **more)).root


def placed(element: Element) -> dict[str, float]:
    """The numbers of its style."""
    return {name: float(at) for name, at in re.findall(r"--(\w+):([^;]+);", element.attributes["style"])}


def shown(page: Element) -> str:
    """The texts that a reader sees."""
    [body] = page.all("body")
    return " ".join(part.text for part in body.all() if part.tag not in ("script", "svg") and not any(part._within()))


@functools.lru_cache(maxsize=None)  # longer than a fixture lives: one process may run these tests among others
def page_of(lang: str) -> tuple[str, Element]:
    """The page of a language, as text and as a tree."""
    text = report.html(result(), collection(1.5), collection(1.3), lang=lang)
    return text, Reader(text).root


@pytest.fixture(params=["en", "zh"])
def lang(request: Any) -> str:
    return str(request.param)


@pytest.fixture
def text(lang: str) -> str:
    return page_of(lang)[0]


@pytest.fixture
def page(lang: str) -> Element:
    return page_of(lang)[1]


# -- what it says ----------------------------------------------------------------------------------------------


def test_it_says_what_was_read_and_what_was_asked(page: Element, lang: str) -> None:
    words = shown(page)
    wanted = ["2,000,000", "1,950,000", "16", "row 17: w is null", "log_loss", "0.1.0"]
    wanted += ["fleetmetrics evaluate 'new/*.parquet' --label y --score p", "12 rows were skipped: w is null"]
    wanted += {
        "en": ["2026-11-22 18:00 UTC", "95% interval", "two classes"],
        "zh": ["2026年11月22日 18:00 UTC", "95% 区间", "二分类"],
    }[lang]
    wanted += [*result()["data"]["files"], *result()["baseline"]["data"]["files"]]
    assert [each for each in wanted if each not in words] == []
    assert page.all("html")[0].attributes == {"lang": {"en": "en", "zh": "zh-CN"}[lang]}


def test_each_metric_has_a_row_with_its_interval_and_its_difference(page: Element, lang: str) -> None:
    table = page.all("table")[0]
    rows = {row.all("code")[0].text: [cell.text.strip() for cell in row.all("td")] for row in table.all("tr")[1:]}
    to, better, chance, undefined, seems = {
        "en": ("to", "better", "not significant", "undefined", "nearer 1, no interval"),
        "zh": ("至", "更好", "不显著", "无定义", "更接近 1，无区间"),
    }[lang]
    assert rows["auc"] == [
        f"0.771230.77010 {to} 0.77230",
        "0.76920",
        f"+0.00203+0.00101 {to} +0.00305",
        f"▲ {better}",
    ]
    assert rows["log_loss"][-1] == f"▼ {better}"  # of a loss, the lower the better
    assert rows["gauc"][-2:] == [f"+0.00040−0.00120 {to} +0.00200", chance]
    assert rows["calibration"][-2:] == [
        "−0.0100",
        f"▼ {seems}",
    ]  # neither lower nor higher is better, and it has no interval
    assert rows["f1.2"][0] == undefined and rows["expected_calibration_error"][0] == "0.00002130"
    assert rows["count"][0] == "2,000,000" and not {"rows", "auc_interval", "auc_delta", "data"} & set(rows)


def test_each_metric_says_in_a_line_what_it_is_and_which_values_are_better(page: Element, lang: str) -> None:
    heads = {each.all("code")[0].text: each for each in page.all("table")[0].all("tbody")[0].all("th")}
    auc, loss, calibration = (heads[name] for name in ("auc", "log_loss", "calibration"))
    assert "ROC" in auc.all("small")[0].text and "↑" in auc.text and "↓" in loss.text
    assert not calibration.all("span") and {"en": "predicts too many", "zh": "偏高"}[lang] in calibration.text
    assert not heads["f1.1"].all("small")  # once is enough


def test_slices_are_sorted_by_harm_and_chance_is_put_in_words(page: Element, lang: str) -> None:
    tables = page.all("table", class_="slices")
    for table, slices in zip(tables, result()["slices"].values()):
        rows = table.all("tbody")[0].all("tr")
        assert [row.all("th")[0].text for row in rows] == [each["key"] for each in slices]
        harms = [float(row.all("td")[3].attributes["data-sort"] or "-inf") for row in rows]
        assert harms == sorted(harms, reverse=True) and len(harms) == 50 and harms[0] > 0
        within = {"en": "not significant", "zh": "不显著"}[lang]
        said = [row.all("td", class_="text")[0].text.startswith(within) for row in rows]
        assert said == [each["within_chance"] for each in slices] and len({*said}) == 2
        least, width, whole = (placed(table)[name] for name in ("least", "width", "whole"))
        assert 0 <= (whole - least) / width <= 1
        for row, each in zip(rows, slices):
            assert placed(row.all("span")[0]) == {end: each[end] for end in ("value", "low", "high")}
            assert each["within_chance"] or 0 <= (each["value"] - least) / width <= 1
    assert len(tables) == 2


def test_the_report_says_which_slices_are_worse_or_better_and_how_many_rows_others_need(lang: str) -> None:
    row = {"key": 7, "rows": 10, "share": 0.5, "metric": "auc", "value": 0.5, "difference": -0.1, "harm": None}
    entries = [
        {
            **row,
            "verdict": said,
            "needs": needs,
            "positives": 1234,
            "q": 0.004,
            "harm": 0.05 if said == "worse" else None,
        }
        for said, needs in (("worse", {}), ("better", {}), ("too few", {"positives": 5, "negatives": 7}), (None, {}))
    ]
    table = read({"auc": 0.6, "slices": {"a": entries}}, lang=lang).all("table", class_="slices")[0]
    said = [each.all("td", class_="text")[0].text for each in table.all("tbody")[0].all("tr")]
    few = {"en": "too few to tell: needs 5 positives and 7 negatives", "zh": "数据太少，需 5 正样本、7 负样本"}[lang]
    assert said == [f"{each}q 0.004" for each in (*{"en": ("worse", "better"), "zh": ("更差", "更好")}[lang], few, "—")]
    counted = {
        "en": "1 worse, 1 better, 1 too few to tell, 1 without a verdict",
        "zh": "1 更差，1 更好，1 数据太少，1 无结论",
    }
    assert counted[lang] in table.all("caption")[0].all("span")[0].text
    assert [each.all("td")[3].text for each in table.all("tbody")[0].all("tr")] == ["0.05000", "—", "—", "—"]
    assert "1,234" in [each.text for each in table.all("tbody")[0].all("tr")[0].all("td")]


def test_every_number_is_there_once_more_as_json(page: Element, text: str) -> None:
    [script] = page.all("script", id="result")
    assert json.loads(script.text) == json.loads(json.dumps(result()))
    assert not {"<", ">", "&"} & set(script.text)


def test_a_report_with_hundred_slices_and_all_pictures_is_small(page: Element, text: str) -> None:
    assert len(page.all("div", class_="pictures")[0].all("figure")) == 7
    assert len(page.all("figure", class_="dot")) == 4  # of two columns the AUC and the calibration
    assert len(text.encode()) < 0.5 * 2**20


# -- what data may contain -------------------------------------------------------------------------------------


def test_names_are_shown_as_text_and_not_run(page: Element) -> None:
    scripts = page.all("script")
    assert len(scripts) == 2 and scripts[0].attributes["type"] == "application/json" and not page.all("img")
    names = [each.text for each in page.all("bdi")]
    assert [name for name in HOSTILE if name not in names] == []
    assert not [each for each in page.all("b") if each.text == "bold"]  # of the name of a file
    asked = {**result(), "task": HOSTILE[1], "asked": {"command": HOSTILE[1], "columns": {HOSTILE[1]: [HOSTILE[0]]}}}
    asked["slices"] = {HOSTILE[2]: [{**asked["slices"]["slot"][0], "metrics": {HOSTILE[1]: 1.0}}]}
    for key in ("en", "zh"):
        other = read({HOSTILE[1]: 0.5, **asked}, lang=key)
        assert len(other.all("script")) == 2 and not other.all("img")
        assert shown(other).count(HOSTILE[1]) >= 6


def test_classes_are_listed_one_by_one_and_curves_are_left_to_the_json() -> None:
    given = {"f1": [0.5, 0.25], "matrix": [[1, 2], [3, 4]], "curve": {"x": list(range(9)), "area": 0.75}}
    rows = read(given).all("table")[0].all("tbody")[0].all("tr")
    texts = {row.all("th")[0].text: row.all("b")[0].text for row in rows}
    assert texts == {
        "f1.0": "0.50000",
        "f1.1": "0.25000",
        "matrix": "2 entries, in the JSON",
        "curve.area": "0.75000",
    }


@pytest.mark.parametrize("name", ["\udcff.parquet", "\ud800", "\x00\x08"])
def test_names_with_invalid_bytes_do_not_prevent_the_page(name: str, lang: str) -> None:
    text = report.html({"auc": 0.5, "data": {"files": [name]}}, lang=lang)
    assert "".join(text.encode("utf-8").decode("utf-8")) == text
    [script] = Reader(text).root.all("script", id="result")
    assert json.loads(script.text)["data"]["files"] == [name]
    if "\x00" not in name:  # elsewhere its bytes are visible
        assert text.count(name.encode("utf-8", "backslashreplace").decode()) == 2


def test_the_page_asks_for_nothing_and_lets_nothing_else_run(page: Element, text: str) -> None:
    policy = page.all("meta")[1].attributes["content"]
    script = page.all("script")[1].text
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "default-src 'none'" in policy and f"script-src 'sha256-{digest}'" in policy
    for element in page.all():
        for name, value in element.attributes.items():
            assert name not in ("src", "srcset", "action", "data") and not name.startswith("on"), element.tag
            assert "href" not in name or value.startswith("#")
    assert "@import" not in text and not re.findall(r"url\((?!#)", text)


def test_of_ten_thousand_files_a_hundred_are_named(lang: str) -> None:
    data = {"files": [f"part-{each:05d}" for each in range(10_000)], "rows": 1}
    page = read({"auc": 0.5, "data": data, "baseline": {"data": data}}, lang=lang)
    assert shown(page).count("part-") == 200 and shown(page).count("9,900") == 2 and "10,000" in shown(page)
    kept = json.loads(page.all("script", id="result")[0].text)["data"]
    assert len(kept["files"]) == 100 and kept["files_left_out"] == 9_900


# -- two languages ---------------------------------------------------------------------------------------------


def test_in_chinese_every_text_is_chinese() -> None:
    given = json.loads(json.dumps(result()))
    given["data"].update(files=["甲", "乙"], examples=["丙"], nulls={"丁": 3})
    given["baseline"]["data"].update(files=["甲"] * 200)
    given.update(warnings=["戊"], curve=list(range(100)), asked={"columns": {"己": "庚"}, "ci": 0.9, "by": ["己"]})
    given["slices"] = {"己": given["slices"]["channel"]}
    for row in given["slices"]["己"]:
        row.update(key="辛", metric="auc")
    page = read(given, collection(1.5), collection(1.3), lang="zh")
    names = {"auc", "log_loss", "gauc", "calibration", "expected_calibration_error", "f1", "count", "ctr", "curve"}
    words = shown(page) + " ".join(each.text for each in page.all("svg"))
    said = " ".join(value for each in page.all() for name, value in each.attributes.items() if name == "aria-label")
    found = set(re.findall(r"[A-Za-z_]\w+", words + said + page.all("output")[0].attributes["data-text"]))
    assert found - names == {"JSON", "UTC", "fleetmetrics", "ROC", "AUC", "AP", "F1"}
    assert "目录" in said and "100 项，见 JSON" in words


def test_both_languages_say_the_same() -> None:
    pages = [read(result(), lang=each) for each in ("en", "zh")]
    tags = [[element.tag for element in page.all()] for page in pages]
    assert tags[0] == tags[1]
    numbers = [re.findall(r"\d\.\d{4,}", shown(page)) for page in pages]
    assert numbers[0] == numbers[1] and len(numbers[0]) > 400


# -- for everybody ---------------------------------------------------------------------------------------------


def test_it_can_be_read_aloud_and_used_by_keyboard(page: Element) -> None:
    levels = [int(each.tag[1]) for each in page.all() if re.fullmatch("h[1-6]", each.tag)]
    assert levels[0] == 1 and levels.count(1) == 1 and all(b - a <= 1 for a, b in zip(levels, levels[1:]))
    for table in page.all("table"):
        assert table.all("caption")[0].text
        assert all(each.attributes.get("scope") in ("col", "row") for each in table.all("th"))
        width = len(table.all("thead")[0].all("th"))
        assert all(len(row.all("th") + row.all("td")) == width for row in table.all("tr"))
    for table in page.all("table", class_="slices"):
        assert [th.attributes.get("aria-sort") for th in table.all("thead")[0].all("th")].count("descending") == 1
    for svg in page.all("svg"):
        first = svg.parts[0]
        assert svg.attributes["role"] == "img" and isinstance(first, Element) and first.tag == "title" and first.text
    ids = [each.attributes["id"] for each in page.all() if "id" in each.attributes]
    assert len(ids) == len(set(ids))
    for each in page.all():
        assert {*each.attributes.get("aria-labelledby", "").split()} <= {*ids}
        assert each.attributes.get("href", "#" + ids[0])[1:] in ids
    assert all(each.parent and each.parent.tag == "label" for each in page.all("input"))


# -- what may be missing ---------------------------------------------------------------------------------------


def test_without_anything_it_is_still_a_page(lang: str) -> None:
    for given in ({}, {"auc": 0.5}, {"auc": None, "asked": {}, "slices": {"slot": []}, "baseline": None}):
        page = read(given, lang=lang)
        assert not page.all("figure") and not page.all("table", class_="slices")
        assert len(page.all("table")[0].all("tr")) == 1 + ("auc" in given)
        assert len(page.all("h1", class_="verdict")) == ("auc" in given)
        assert not page.all("dl", class_="facts")
    [head] = read({"data": {"rows": 3}}, lang=lang).all("header")
    assert head.all("dd")[0].text == {"en": "3 rows", "zh": "3 行"}[lang]


def test_slices_without_intervals_have_no_verdict(lang: str) -> None:
    row = {"key": 7, "rows": 10, "share": 0.5, "metric": "auc", "value": 0.5, "difference": -0.1, "harm": 0.05}
    undefined = {**row, **dict.fromkeys(("key", "value", "difference", "harm", "low", "within_chance"))}
    page = read({"auc": 0.6, "slices": {"slot": [row, undefined]}}, lang=lang)
    first, second = page.all("table", class_="slices")[0].all("tbody")[0].all("tr")
    assert [cell.text.strip() for cell in first.all("td")][:4] == ["0.50000", "—", "−0.10000", "0.05000"]
    assert second.all("td")[0].attributes["data-sort"] == ""
    assert "--value" not in second.all("span")[0].attributes["style"]
    page = read({"matrix": [[1]], "slices": {"slot": [{**undefined, "metric": None, "metrics": {}}]}}, lang=lang)
    assert len(page.all("table", class_="slices")[0].all("tbody")[0].all("tr")) == 1


def test_nan_is_null_and_arrays_are_lists(lang: str) -> None:
    given = {"auc": np.float64("nan"), "loss": float("inf"), "f1": np.array([0.25, 0.5]), "n": np.int64(3)}
    page = read(given, lang=lang)
    kept = json.loads(page.all("script", id="result")[0].text)
    assert [kept[name] for name in given] == [None, None, [0.25, 0.5], 3]
    names = [each.text for each in page.all("table")[0].all("tbody")[0].all("th")]
    assert names == ["auc", "loss", "f1.0", "f1.1", "n"]


def test_numbers_are_written_so_that_digits_count() -> None:
    texts = {
        0.7712345: "0.77123",
        -0.5: "−0.50000",
        1.03124: "1.0312",
        12.3456: "12.346",
        99999.4: "99,999",
        123456.7: "123,457",
        0.000123: "0.0001230",
        0.000199: "0.0001990",
        0.0063593: "0.006359",
        0.0000213: "0.00002130",
        2.13e-8: "2.13 × 10⁻⁸",
        -3e17: "−3.00 × 10¹⁷",
        0.0: "0",
        2000000: "2,000,000",
    }
    cells = read({f"metric {place}": value for place, value in enumerate(texts)}).all("table")[0].all("b")
    assert [cell.text for cell in cells] == list(texts.values())


def test_other_languages_and_values_are_refused() -> None:
    with pytest.raises(fm.InvalidInputError, match="lang must be 'en' or 'zh', not 'fr'"):
        report.html({}, lang="fr")
    with pytest.raises(fm.InvalidInputError, match="result must hold what JSON holds"):
        report.html({"auc": fm.AUC()})


def test_without_jinja2_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    report._environment.cache_clear()  # its templates are compiled once
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(fm.MissingLibraryError, match=r"pip install jinja2$"):
        report.html({"auc": 0.5})


# -- pictures --------------------------------------------------------------------------------------------------


def test_pictures_say_what_they_show(page: Element, lang: str) -> None:
    titles = [each.all("title")[0].text for each in page.all("svg")]
    assert "AUC 0.8" in titles[0] and "AP 0." in titles[1]
    assert all({"en": "new", "zh": "新值"}[lang] in title for title in titles)


def test_on_a_dark_page_the_colors_of_pictures_stand_out_and_differ_for_the_color_blind(page: Element) -> None:
    [style] = page.all("style")
    [dark] = re.findall(r"prefers-color-scheme: dark\) \{(.*?)\n\}", style.text, re.DOTALL)
    paper = re.findall(r"--paper: (#\w+);", dark)[0]
    [(share, turn)] = re.findall(r"filter: invert\(([.\d]+)\) hue-rotate\((\d+)deg\)", dark)
    assert turn == "180"
    # the matrix of hue-rotate in the CSS standard, for 180 degrees
    turned = 2 * np.array([0.213, 0.715, 0.072]) - np.eye(3)
    with fm.plot.style():
        rc = matplotlib.rcParams
        light = [each["color"] for each in rc["axes.prop_cycle"]] + [rc["text.color"], rc["axes.edgecolor"]]
    seen = [np.clip(turned @ (float(share) + (1 - 2 * float(share)) * np.array(to_rgb(each))), 0, 1) for each in light]
    assert all(contrast(each, paper) >= 4.5 for each in seen)
    for kind in SEEN.values():
        first = [lab(np.array(kind) @ linear(each)) for each in seen[:3]]
        assert min(np.linalg.norm(one - other) for k, one in enumerate(first) for other in first[:k]) > 30


def test_each_picture_is_drawn_once_and_only_of_what_has_it() -> None:
    numbers = fm.MetricCollection({"mae": fm.MeanAbsoluteError()})
    numbers.add([0.5, 0.25], [0.0, 1.0])
    assert not read({"mae": 0.5}, numbers).all("figure")
    auc = fm.AUC()
    auc.add([0.9, 0.1, 0.4], [1, 0, 1])
    assert [len(read({"auc": 1.0}, each).all("figure")) for each in (auc, None)] == [7, 0]
    both = read({"auc": 1.0}, auc, numbers)  # a baseline without the metric
    assert len(both.all("figure")) == 7


def test_of_several_metrics_the_first_is_drawn_and_without_a_baseline_none_is_called_new() -> None:
    found = fm.MetricCollection({"one": fm.AUC(), "two": fm.AUC(buckets=16)})
    found.add([0.9, 0.1, 0.4], [1, 0, 1])
    one = report._drawn("roc", {"one": found.metrics["one"]}, None, "")
    both = report._drawn("roc", dict(found.metrics), None, "")
    assert len(one.lines) == len(both.lines)
    page = read({"one": 1.0}, found)
    assert page.all("figure") and not any("new" in svg.all("title")[0].text for svg in page.all("svg"))
    assert any("new" in svg.all("title")[0].text for svg in read({"one": 1.0}, found, found).all("svg"))


def test_the_scale_of_bars_holds_what_is_beyond_chance_and_has_room_for_an_interval() -> None:
    def rows(*given: Any) -> list[dict[str, Any]]:
        names = ("value", "low", "high", "within_chance")
        return [{"key": 1, "metric": "auc", **dict(zip(names, each))} for each in given]

    sure = rows((0.5, 0.375, 0.625, False), (0.75, 0.625, 0.875, None), (0.0, -9.0, 9.0, True))
    scale = report._table("slot", sure, {"auc": 0.625})["scale"]
    assert scale == {"least": 0.25, "width": 0.75, "whole": 0.625}  # the median interval is 0.25 wide
    narrow = rows((0.0, None, None, False), (0.75, 0.75, 0.75, False))
    assert report._table("slot", narrow, {"auc": 0.625})["scale"] == {"least": -0.125, "width": 1.0, "whole": 0.625}
    [alone] = rows((0.5, None, None, False))
    assert report._table("slot", [alone], {"auc": 0.5})["scale"] == {"least": -0.5, "width": 2.0, "whole": 0.5}


@pytest.mark.parametrize("lang, words", [("en", "too small to tell is faint"), ("zh", "无法判断的切片颜色较浅")])
def test_a_slice_with_too_few_rows_has_a_mark_of_its_own(lang: str, words: str) -> None:
    slices: list[dict[str, Any]] = list(result()["slices"]["slot"])
    few = {**slices[0], "key": "few", "verdict": "too few", "within_chance": None, "needs": {"positives": 5}}
    untested = {**few, "key": "untested", "verdict": None, "needs": {}}
    page = read({**result(), "slices": {"slot": [*slices, few, untested]}}, lang=lang)
    [table] = page.all("table", class_="slices")
    kinds = {row.all("th")[0].text: row.attributes["class"].split()[0] for row in table.all("tbody")[0].all("tr")}
    assert (kinds["few"], kinds["untested"]) == ("few", "unknown")
    assert all(kinds[str(each["key"])] == each["verdict"].replace("within ", "") for each in slices)
    assert words in shown(page)
    [style] = [each.text for each in page.all("style") if ".bar" in each.text]
    assert "tr.few" in style and ":is(.chance, .unknown, .few) .bar" in style


def test_the_scale_of_bars_marks_the_value_that_the_slices_are_compared_with() -> None:
    rows = [{"metric": "gauc", "value": each, "within_chance": False} for each in (0.6, 0.7)]
    scale = {by: report._table(by, rows, {"gauc": 0.9, "references": {"day": 0.5}})["scale"] for by in ("day", "slot")}
    assert (scale["day"]["whole"], scale["slot"]["whole"]) == (0.5, 0.9)
    assert scale["day"]["least"] < 0.5 < 0.6 < scale["slot"]["least"] + 0.1


def test_values_by_k_of_the_baseline_are_its_own() -> None:
    none = SimpleNamespace(metrics={})
    given = {"at_k": {"recall": {"1": 0.25, "10": 0.5}}, "baseline": {"at_k": {"recall": {"1": 0.125, "10": 0.75}}}}
    sides = report._sides(given, none, none, Words("en"))
    assert [side["recall"] for side in sides.values()] == [{1: 0.25, 10: 0.5}, {1: 0.125, 10: 0.75}]
    assert list(report._sides({**given, "baseline": None}, none, none, Words("en")).values())[1] == {}


def test_sides_of_different_classes_have_no_table_of_both() -> None:
    sides = [fm.MetricCollection({"m": fm.ConfusionMatrix(num_classes=classes)}) for classes in (2, 3)]
    for side in sides:
        side.add([0, 1, 1], [0, 1, 0])
    both = {place: report._members(side) for place, side in enumerate(sides)}
    assert report._classes(both) == [] and len(report._classes({0: both[0]})) == 2


def test_places_are_numbers_after_json_too() -> None:
    side = report._side(SimpleNamespace(metrics={}), {"at_k": {"recall": {"1": 0.25, "10": 0.5}, "x": {"a": 1.0}}})
    assert side == {"recall": {1: 0.25, 10: 0.5}}


def test_what_this_process_holds_is_drawn_without_asking_other_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ID": "0"}.items():
        monkeypatch.setenv(name, value)  # nor by the environment, which does not say where they are

    class Others(fm.LocalCommunicator):
        def __getattribute__(self, name: str) -> Any:
            assert name.startswith("__"), name
            return super().__getattribute__(name)

    with fm.set_communicator(Others()):
        with pytest.raises(AssertionError):
            collection(1.5).compute()
        assert len(read({"auc": 1.0}, collection(1.5)).all("figure")) == 7


drawn = report.plot.confusion_matrix


def test_a_confusion_matrix_is_drawn_without_the_baseline(lang: str) -> None:
    metrics = [fm.MetricCollection({"f1": fm.F1(num_classes=3)}) for _ in range(2)]
    for metric in metrics:
        metric.add([0, 1, 2, 1], [0, 1, 2, 2])
    page = read({"f1": [1.0, 0.5, 0.5]}, *metrics, lang=lang)
    [svg] = page.all("svg")
    assert svg.all("image") and {"en": "true", "zh": "真实"}[lang] in svg.text
    assert page.all("figcaption")[0].text == svg.all("title")[0].text
    calls: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report.plot, "confusion_matrix", lambda *given: calls.append(given) or drawn(*given))
        read({"f1": [1.0, 0.5, 0.5]}, *metrics, lang=lang)
    assert [label for *_, label in calls] == [{"en": "new", "zh": "新值"}[lang]]


def test_errors_and_values_by_k_have_pictures_and_other_histograms_are_not_taken_for_errors(lang: str) -> None:
    sides: list[Any] = [
        fm.MetricCollection({name: fm.Histogram(range=(-1, 1))}) for name in ("errors", "errors", "values")
    ]
    for side in sides:
        side.add([0.5, -0.25, 3.0])
    places = {"recall": {1: 0.25, 10: 0.5}, "<i>$\\b$": {"1": 0.5, "10": None}}
    given = {"ndcg": {1: 0.125, 5: 0.75}, "by slot": {7: 0.5}, "at_k": places, "baseline": {"at_k": places}}
    sides[0] = SimpleNamespace(metrics={**sides[0].metrics, "ndcg": fm.NDCG(k=[1, 5])})
    page = read(given, *sides[:2], lang=lang)
    errors, at_k = page.all("svg")
    assert {"en": "33% outside", "zh": "33% 在图外"}[lang] in errors.text and "<i>" in at_k.text
    assert [name in at_k.text for name in ("ndcg", "<i>", {"en": "baseline recall", "zh": "基线 recall"}[lang])] == [
        True
    ] * 3
    assert "slot" not in at_k.text
    assert len(page.all("table")[0].all("tbody")[0].all("tr")) == 3  # ndcg.1, ndcg.5 and by slot.7
    assert not read({}, sides[2], lang=lang).all("figure") and not read(given, lang=lang).all("figure")


def test_bars_are_wide_enough_to_be_seen_if_all_slices_are_within_chance() -> None:
    rows = [
        {"key": key, "value": 0.77 + key / 1e4, "low": 0.769, "high": 0.771, "within_chance": True} for key in range(9)
    ]
    more = {"rows": 1, "share": 0.1, "metric": "auc", "harm": 0, "difference": 0}
    page = read({"auc": 0.77, "slices": {"slot": [{**row, **more} for row in rows]}})
    [table] = page.all("table", class_="slices")
    assert 0.2 < (0.771 - 0.769) / placed(table)["width"] <= 0.5


# -- digits ----------------------------------------------------------------------------------------------------


def test_an_interval_a_baseline_and_a_difference_have_the_digits_that_tell_them_apart() -> None:
    given = {
        "brier": 0.000199,
        "brier_interval": {"low": 0.0001712, "high": 0.0002241},
        "auc": 0.7712345,
        "auc_delta": {"value": 0.0000123, "low": 0.0000101, "high": 0.0000145},
        "baseline": {"auc": 0.7712222, "brier": 0.0002},
    }
    rows = {row.all("code")[0].text: row.all("td") for row in read(given).all("table")[0].all("tr")[1:]}
    assert [each.text for each in rows["brier"][:2]] == ["0.00019900.0001712 to 0.0002241", "0.0002000"]
    assert [each.text for each in rows["auc"][:2]] == ["0.7712345", "0.7712222"]
    assert rows["auc"][2].text == "+0.0000123+0.0000101 to +0.0000145"


def test_small_values_of_slices_have_as_many_digits_as_large_ones() -> None:
    row = {"rows": 10, "share": 0.5, "metric": "log_loss", "difference": -0.0001, "harm": None}
    slices = [
        {**row, "key": key, "value": value, "metrics": {"ctr": 0.0002}} for key, value in ((1, 0.00181), (2, 0.2))
    ]
    page = read({"log_loss": 0.0019, "slices": {"slot": slices}})
    cells = [each.all("td") for each in page.all("table", class_="slices")[0].all("tbody")[0].all("tr")]
    assert [each[0].text.strip() for each in cells] == ["0.001810", "0.200000"]
    assert cells[0][-1].text == "0.0002000" and "0.001900" in page.all("table", class_="slices")[0].text


# -- the first line --------------------------------------------------------------------------------------------

UP = {"kind": "AUC", "better": "higher", "definition": ""}
DOWN = {"kind": "LogLoss", "better": "lower", "definition": ""}


def lead(lang: str = "en", **given: Any) -> str:
    """The verdict and the sentences below it."""
    about = {"auc": UP, "loss": DOWN, "ctr": {**UP, "better": "", "kind": ""}}
    page = read({"about": about, **given}, lang=lang)
    [verdict] = page.all("h1", class_="verdict")
    return " | ".join(each.text for each in [verdict, *page.all("p", class_="lead")])


def delta(value: float, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high}


def test_the_first_line_says_better_or_worse_and_by_how_much() -> None:
    old = {"baseline": {"auc": 0.7, "loss": 0.5, "ctr": 0.1}}
    assert lead(auc=0.75, auc_delta=delta(0.05, 0.04, 0.06), **old) == (
        "Better than the baseline: AUC +0.050 (95%: +0.040 to +0.060)"
    )
    said = lead(auc=0.65, auc_delta=delta(-0.05, -0.06, -0.04), **old)
    assert said.startswith("Worse than the baseline: AUC −0.050")
    assert lead(loss=0.4, loss_delta=delta(-0.1, -0.2, -0.05), **old).startswith("Better than the baseline: loss −0.10")
    assert lead(loss=0.6, loss_delta=delta(0.1, 0.05, 0.2), **old).startswith("Worse than the baseline: loss +0.10")
    assert lead(auc=0.71, auc_delta=delta(0.01, -0.01, 0.03), **old).startswith("No significant change: AUC +0.010")
    assert lead(ctr=0.2, ctr_delta=delta(0.1, 0.05, 0.2), **old).startswith("Higher than the baseline: CTR +0.10")
    assert lead(auc=0.75, auc_delta=delta(0.05), **old) == (
        "It looks better than the baseline: AUC +0.050, without an interval"
    )
    worse = lead(auc=0.75, auc_delta=delta(0.05, 0.04, 0.06), loss=0.6, loss_delta=delta(0.1, 0.05, 0.2), **old)
    assert worse.endswith(" | Worse in loss.")
    for given, chinese in (
        ({"auc": 0.75, "auc_delta": delta(0.05, 0.04, 0.06)}, "优于基线：AUC +0.050（95%：+0.040 至 +0.060）"),
        ({"ctr": 0.2, "ctr_delta": delta(-0.05)}, "似乎低于基线：CTR −0.050，没有区间"),
        ({"auc": 0.7, "auc_delta": delta(0.01, -0.01, 0.03)}, "与基线无显著差异：AUC +0.010（95%：−0.010 至 +0.030）"),
        ({"auc": 0.7, "auc_delta": delta(0.0)}, "与基线相同：AUC 不变"),
    ):
        assert lead("zh", **given, **old) == chinese


def called(key: Any, verdict: str | None, harm: float | None = None, **more: Any) -> dict[str, Any]:
    within = {"within chance": True, "too few": None, None: None}.get(verdict, False)
    row = {"key": key, "rows": 10, "share": 0.25, "metric": "auc", "value": 0.5, "difference": -0.25, "harm": harm}
    return {**row, "verdict": verdict, "within_chance": within, **more}


def test_the_first_line_names_the_slice_that_does_the_most_harm_of_all_columns_and_no_other() -> None:
    quiet = [called("b", "within chance"), called("c", "too few"), called("d", "better", 0.0)]
    slices = {"day": [called("mon", "worse", 0.01), *quiet], "slot": [called("<a>", "worse", 0.06), *quiet]}
    assert lead(auc=0.75, slices=slices).endswith(
        " | Worst in slot <a> (of 2 that are worse): AUC 0.50 against 0.75, 25% of the rows."
    )
    none = " | No slice is significantly worse than all rows (2 tested)."
    assert lead(auc=0.75, slices={"slot": quiet}).endswith(none)
    assert "检验了 2 个切片，没有一个显著差于整体" in lead("zh", auc=0.75, slices={"slot": quiet})
    assert lead(auc=0.75, slices={"slot": [called("c", "too few"), called("e", None)]}) == "The model has AUC 0.75000"
    different = {"slot": [called(None, "different"), called("f", "different", share=0.1)]}
    assert "It differs most in slot (null): AUC 0.50 against 0.75" in lead(auc=0.75, slices=different)
    assert "在 slot <a>（2 个更差切片之首） 上最差" in lead("zh", auc=0.75, slices=slices)


def gate(lang: str, *fails: bool, **given: Any) -> Element:
    conditions = [
        {"condition": condition, "path": "auc", "value": 0.75, "fails": each, "said": "..."}
        for condition, each in zip(("auc<0.5", "auc<0.77"), fails)
    ]
    return read({"about": {"auc": UP}, "auc": 0.75, "conditions": conditions, **given}, lang=lang)


def test_the_first_line_and_a_table_say_whether_the_model_may_go_out(lang: str) -> None:
    no, yes = gate(lang, False, True), gate(lang, False)
    [verdict] = no.all("h1", class_="verdict bad")
    [fine] = yes.all("h1", class_="verdict good")
    said = {
        "en": "Do not release: AUC must be at least 0.77, and it is 0.7500",
        "zh": "不可上线：AUC 不得小于 0.77，实际为 0.7500",
    }
    assert verdict.text == said[lang]
    assert fine.text == {"en": "Release: the condition passed", "zh": "可以上线：1 个条件全部通过"}[lang]
    [table] = no.all("table", class_="gate")
    rows = [[cell.text for cell in row.all("th") + row.all("td")] for row in table.all("tr")[1:]]
    sentences = {
        "en": ["AUC must be at least 0.5", "AUC must be at least 0.77"],
        "zh": ["AUC 不得小于 0.5", "AUC 不得小于 0.77"],
    }
    assert [row[0] for row in rows] == [f"{each}auc<{each.split()[-1]}" for each in sentences[lang]]
    assert [row[-1] for row in rows] == {"en": ["✓ passed", "✗ blocked"], "zh": ["✓ 通过", "✗ 不通过"]}[lang]


# -- what is folded, and what is named -------------------------------------------------------------------------


def test_many_warnings_are_counted_and_folded(lang: str) -> None:
    few, many = (read({"auc": 0.5, "warnings": [f"warning {each}" for each in range(n)]}, lang=lang) for n in (5, 300))
    assert len(few.all("section", class_="note")[0].all("li")) == 5 and not few.all("section")[0].all("details")
    [note] = many.all("section", class_="note")
    [folded] = note.all("details")
    assert "open" not in folded.attributes and len(folded.all("li")) == 300
    assert folded.all("summary")[0].text == {"en": "300 warnings", "zh": "300 条警告"}[lang]


def test_the_head_says_model_data_clicks_users_and_dates() -> None:
    data = {"files": ["a"] * 3, "rows": 1000, "positives": 5, "users": 40, "date": "2026-11-22T18:00:00+00:00"}
    asked = {"columns": {"prediction": "p<1>"}, "task": "binary"}
    page = read({"auc": 0.5, "data": data, "asked": asked, "baseline": {"auc": 0.4, "data": {**data, "positives": 7}}})
    model, new, old = [each.text for each in page.all("dl", class_="facts")[0].all("dd")]
    assert model == "p<1>, two classes"
    assert new == "1,000 rows, 5 positives (0.5%), 40 users, 3 files, 2026-11-22 18:00 UTC"
    assert old.startswith("1,000 rows, 7 positives (0.7%)")


def test_an_empty_slice_has_a_name_and_empty_columns_are_gone(lang: str) -> None:
    page = read({"auc": 0.75, "slices": {"slot": [called("", None)]}}, lang=lang)
    [table] = page.all("table", class_="slices")
    assert table.all("tbody")[0].all("th")[0].text == {"en": "(empty)", "zh": "（空字符串）"}[lang]
    assert "q" not in [each.text for each in table.all("thead")[0].all("th")]
    assert not page.all("table")[0].all("tbody")[0].all("small")[0].text.strip()  # no interval: no dashes


def test_each_class_has_its_precision_recall_and_f1_beside_the_baselines() -> None:
    label, shown_, old = [0, 0, 1, 1, 1, 3], [0, 1, 1, 1, 0, 3], [0, 0, 0, 0, 0, 0]
    sides = [fm.MetricCollection({"f1": fm.F1(num_classes=4, average="macro")}) for _ in range(2)]
    for side, prediction in zip(sides, (shown_, old)):
        side.add(prediction, label)
    page = read({"f1": 0.5, "baseline": {"f1": 0.1}}, *sides)
    [table] = [each for each in page.all("table") if "Recall" in each.text]
    rows = [[cell.text for cell in row.all("th") + row.all("td")] for row in table.all("tr")]
    assert rows[0] == ["Class", "Rows", "Precision", "Recall", "F1", "F1 of the baseline"]
    assert rows[1:3] == [
        ["0", "2", "0.5000", "0.5000", "0.5000", "0.5000"],
        ["1", "3", "0.6667", "0.6667", "0.6667", "0"],
    ]
    assert rows[3] == ["2", "0", "undefined", "undefined", "undefined", "undefined"]
