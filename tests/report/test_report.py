"""The report: complete, in two languages, and whatever the data hold, only shown.

How it looks, and that its script sorts and filters, is for `python -m tests.report.browser`, which needs Chromium.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb

import fleetmetrics as fm
from fleetmetrics import report
from tests.plot.test_canvas import SEEN, contrast, lab, linear
from tests.report.sample import HOSTILE, collection, result

pytestmark = pytest.mark.numpy_only

ROOT = Path(__file__).resolve().parents[2]
EMPTY = ("meta", "input", "path", "use", "img", "line", "rect")


class Element:
    def __init__(self, tag: str, attributes: dict[str, Any], parent: Element | None) -> None:
        self.tag, self.attributes, self.parent = tag, attributes, parent
        self.parts: list[Element | str] = []

    def all(self, tag: str = "", **attributes: str) -> list[Element]:
        """The elements inside, in order."""
        found = []
        for part in self.parts:
            if isinstance(part, Element):
                wanted = {name.rstrip("_"): value for name, value in attributes.items()}
                if tag in ("", part.tag) and wanted.items() <= part.attributes.items():
                    found.append(part)
                found += part.all(tag, **attributes)
        return found

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
    return " ".join(part.text for part in body.all() if part.tag not in ("script", "svg") and not part.all())


@pytest.fixture(scope="module", params=["en", "zh"])
def lang(request: Any) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def text(lang: str) -> str:
    return report.html(result(), collection(1.5), collection(1.3), lang=lang)


@pytest.fixture(scope="module")
def page(text: str) -> Element:
    return Reader(text).root


# -- what it says ----------------------------------------------------------------------------------------------


def test_it_says_what_was_read_and_what_was_asked(page: Element, lang: str) -> None:
    words = shown(page)
    wanted = ["2,000,000", "1,950,000", "16", "row 17: w is null", "binary", "log_loss", "0.1.0"]
    wanted += ["fleetmetrics evaluate 'new/*.parquet' --label y --score p", "12 rows were skipped: w is null"]
    wanted += {"en": ["2026-11-22 18:00 UTC", "95% interval"], "zh": ["2026年11月22日 18:00 UTC", "95% 区间"]}[lang]
    wanted += [*result()["data"]["files"], *result()["baseline"]["data"]["files"]]
    assert [each for each in wanted if each not in words] == []
    assert page.all("html")[0].attributes == {"lang": {"en": "en", "zh": "zh-CN"}[lang]}


def test_each_metric_has_a_row_with_its_interval_and_its_difference(page: Element, lang: str) -> None:
    table = page.all("table")[0]
    rows = {row.all("th")[0].text: [cell.text.strip() for cell in row.all("td")] for row in table.all("tr")[1:]}
    to, higher, chance, undefined = {
        "en": ("to", "higher", "within chance", "undefined"),
        "zh": ("至", "更高", "偶然范围内", "无定义"),
    }[lang]
    assert rows["auc"][:3] == ["0.77123", f"0.77010 {to} 0.77230", "0.76920"]
    assert rows["auc"][3:] == ["+0.00203", f"0.00101 {to} 0.00305", higher]
    assert rows["gauc"][-3:] == ["+0.00040", f"−0.00120 {to} 0.00200", chance]
    assert rows["calibration"][-3:] == ["−0.01000", "—", "—"]  # a difference without an interval has no verdict
    assert rows["f1.2"][:2] == [undefined, "—"] and rows["expected_calibration_error"][0] == "2.1 × 10⁻⁵"
    assert rows["count"][0] == "2,000,000" and not {"rows", "auc_interval", "auc_delta", "data"} & set(rows)


def test_slices_come_by_harm_and_chance_is_said_in_words(page: Element, lang: str) -> None:
    tables = page.all("table", class_="slices")
    for table, slices in zip(tables, result()["slices"].values()):
        rows = table.all("tbody")[0].all("tr")
        assert [row.all("th")[0].text for row in rows] == [each["key"] for each in slices]
        harms = [float(row.all("td")[0].attributes["data-sort"] or "-inf") for row in rows]
        assert harms == sorted(harms, reverse=True) and len(harms) == 50 and harms[0] > 0
        within = {"en": "within chance", "zh": "偶然范围内"}[lang]
        said = [row.all("td", class_="text")[0].text == within for row in rows]
        assert said == [each["within_chance"] for each in slices] and len({*said}) == 2
        least, width, whole = (placed(table)[name] for name in ("least", "width", "whole"))
        assert 0 <= (whole - least) / width <= 1
        for row, each in zip(rows, slices):
            assert placed(row.all("span")[0]) == {end: each[end] for end in ("value", "low", "high")}
            assert each["within_chance"] or 0 <= (each["value"] - least) / width <= 1
    assert len(tables) == 2


def test_a_slice_is_said_to_be_worse_or_better_and_what_is_too_little_how_much_would_do(lang: str) -> None:
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
    assert said == [*{"en": ("worse", "better"), "zh": ("更差", "更好")}[lang], few, "—"]
    counted = {
        "en": "1 worse, 1 better, 1 too few to tell, 1 without a verdict",
        "zh": "1 更差，1 更好，1 数据太少，1 无结论",
    }
    assert counted[lang] in table.all("caption")[0].all("span")[0].text
    assert [each.all("td")[0].text for each in table.all("tbody")[0].all("tr")] == ["0.05000", "—", "—", "—"]
    cells = [each.text for each in table.all("tbody")[0].all("tr")[0].all("td")]
    assert cells[4] == "0.004" and "1,234" in cells


def test_every_number_is_there_once_more_as_json(page: Element, text: str) -> None:
    [script] = page.all("script", id="result")
    assert json.loads(script.text) == json.loads(json.dumps(result()))
    assert not {"<", ">", "&"} & set(script.text)


def test_a_report_with_hundred_slices_and_all_pictures_is_small(page: Element, text: str) -> None:
    assert len(page.all("figure")) == 4
    assert len(text.encode()) < 0.4 * 2**20


# -- what data may contain -------------------------------------------------------------------------------------


def test_whatever_names_contain_is_shown_and_not_run(page: Element) -> None:
    scripts = page.all("script")
    assert len(scripts) == 2 and scripts[0].attributes["type"] == "application/json" and not page.all("img")
    names = [each.text for each in page.all("bdi")]
    assert [name for name in HOSTILE if name not in names] == []
    assert len(page.all("b")) == len(page.all("table")[0].all("tr")) - 1  # none from the name of the file
    asked = {**result(), "task": HOSTILE[1], "asked": {"command": HOSTILE[1], "columns": {HOSTILE[1]: [HOSTILE[0]]}}}
    asked["slices"] = {HOSTILE[2]: [{**asked["slices"]["slot"][0], "metrics": {HOSTILE[1]: 1.0}}]}
    for key in ("en", "zh"):
        other = read({HOSTILE[1]: 0.5, **asked}, lang=key)
        assert len(other.all("script")) == 2 and not other.all("img")
        assert shown(other).count(HOSTILE[1]) == 5


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
def test_names_that_are_no_text_do_not_keep_the_page_from_being_written(name: str, lang: str) -> None:
    text = report.html({"auc": 0.5, "data": {"files": [name]}}, lang=lang)
    assert "".join(text.encode("utf-8").decode("utf-8")) == text
    [script] = Reader(text).root.all("script", id="result")
    assert json.loads(script.text)["data"]["files"] == [name]
    if "\x00" not in name:  # elsewhere its bytes can be told
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
    assert found - names == {"JSON", "UTC", "fleetmetrics", "ROC", "AUC", "AP"}
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
        assert each.attributes.get("aria-labelledby", ids[0]) in ids
        assert each.attributes.get("href", "#" + ids[0])[1:] in ids
    assert all(each.parent and each.parent.tag == "label" for each in page.all("input"))


# -- what may be missing ---------------------------------------------------------------------------------------


def test_without_anything_it_is_still_a_page(lang: str) -> None:
    for given in ({}, {"auc": 0.5}, {"auc": None, "asked": {}, "slices": {"slot": []}, "baseline": None}):
        page = read(given, lang=lang)
        assert not page.all("figure") and not page.all("table", class_="slices")
        assert len(page.all("table")[0].all("tr")) == 1 + ("auc" in given)
        assert page.all("header")[0].all("p")[0].text == ""
    [head] = read({"data": {"rows": 3}}, lang=lang).all("header")
    assert head.all("p")[0].text == {"en": "3 rows", "zh": "3 行"}[lang]


def test_slices_without_intervals_have_no_verdict(lang: str) -> None:
    row = {"key": 7, "rows": 10, "share": 0.5, "metric": "auc", "value": 0.5, "difference": -0.1, "harm": 0.05}
    undefined = {**row, **dict.fromkeys(("key", "value", "difference", "harm", "low", "within_chance"))}
    page = read({"auc": 0.6, "slices": {"slot": [row, undefined]}}, lang=lang)
    first, second = page.all("table", class_="slices")[0].all("tbody")[0].all("tr")
    assert [cell.text.strip() for cell in first.all("td")][2:5] == ["—", "−0.10000", "—"]
    assert second.all("td")[0].attributes["data-sort"] == ""
    assert "--value" not in second.all("span")[0].attributes["style"]
    page = read({"matrix": [[1]], "slices": {"slot": [{**undefined, "metric": None, "metrics": {}}]}}, lang=lang)
    assert len(page.all("table", class_="slices")[0].all("tbody")[0].all("tr")) == 1


def test_what_is_no_number_is_null_and_arrays_are_lists(lang: str) -> None:
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
        0.000123: "0.00012",
        0.0000213: "2.1 × 10⁻⁵",
        -3e17: "−3.0 × 10¹⁷",
        0.0: "0",
        2000000: "2,000,000",
    }
    cells = read({f"metric {place}": value for place, value in enumerate(texts)}).all("table")[0].all("b")
    assert [cell.text for cell in cells] == list(texts.values())


def test_other_languages_and_values_are_refused() -> None:
    with pytest.raises(fm.InvalidInputError, match="lang must be 'en' or 'zh', not 'fr'"):
        report.html({}, lang="fr")
    with pytest.raises(fm.InvalidInputError, match="result must be what JSON holds"):
        report.html({"auc": fm.AUC()})


def test_without_jinja2_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(fm.MissingLibraryError, match=r"fleetmetrics\[report\]"):
        report.html({"auc": 0.5})


# -- pictures --------------------------------------------------------------------------------------------------


def test_pictures_say_what_they_show(page: Element, lang: str) -> None:
    titles = [each.all("title")[0].text for each in page.all("svg")]
    assert "AUC 0.8" in titles[0] and "AP 0." in titles[1]
    assert all({"en": "new", "zh": "新值"}[lang] in title for title in titles)


def test_on_a_dark_page_the_colours_of_pictures_stand_out_and_differ_for_the_colour_blind(page: Element) -> None:
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
    assert [len(read({"auc": 1.0}, each).all("figure")) for each in (auc, None)] == [3, 0]
    both = read({"auc": 1.0}, auc, numbers)  # a baseline without the metric
    assert len(both.all("figure")) == 3


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


def test_places_are_numbers_whatever_json_makes_of_them() -> None:
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
        assert len(read({"auc": 1.0}, collection(1.5)).all("figure")) == 4


drawn = report.plot.confusion_matrix


def test_a_confusion_matrix_stands_alone(lang: str) -> None:
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
    assert [label for *_, label in calls] == ["new"]


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
    assert [name in at_k.text for name in ("ndcg", "<i>", {"en": "baseline recall", "zh": "基线 召回率"}[lang])] == [
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
