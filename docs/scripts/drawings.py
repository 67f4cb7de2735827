"""Write the drawings of the documentation, docs/pictures/drawings/*.svg: light and dark, English and Chinese.

    python docs/scripts/drawings.py

A drawing is 360 units wide and its texts are 12 units and more high, so a phone shows them at their own size.
"""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Mapping
from xml.sax.saxutils import escape

FOLDER = Path(__file__).resolve().parent.parent / "pictures" / "drawings"
WIDTH = 360
#: By background: text, what is quiet, the fill of boxes, what is right, what is wrong or does not count.
INKS = {
    False: {"text": "#1a1a1a", "quiet": "#5f6368", "box": "#eef2f7", "good": "#0072B2", "bad": "#B34700"},
    True: {"text": "#ececec", "quiet": "#a9b0b8", "box": "#2b3138", "good": "#56B4E9", "bad": "#F0A33A"},
}
CHINESE = {
    "own samples": "各自的样本",
    "[right, all]": "[正确数, 总数]",
    "compares the calls, adds the states": "核对各 rank 的调用，将状态相加",
    "sends [8, 10] to every rank": "把 [8, 10] 发给每个 rank",
    "each computes 8 / 10: the same bits on every rank": "各自计算 8 / 10：每个 rank 上逐比特相同",
    "10 samples": "10 个样本",
    "the sampler assigns 12": "采样器分配 12 个",
    "repeated": "重复",
    "counts": "计入",
    "does not count": "不计入",
    "with sampler=: 10 samples count": "给出 sampler=：计入 10 个样本",
    "without: 12, samples 0 and 1 twice": "未给出：12 个，样本 0 和 1 计两次",
    "states": "状态",
    "result": "结果",
    "the link breaks": "连接断开",
    "next exchange": "下一次交换",
    "all raise: of exchange 4, ranks 0 and 1": "全部报错：第 4 次交换，rank 0 和 1",
    "have a result, rank 2 may not": "有结果，rank 2 可能没有",
    "scores": "得分",
    "bucket 0": "桶 0",
    "bucket 1": "桶 1",
    "bucket 2": "桶 2",
    "positive": "正样本",
    "negative": "负样本",
    "In bucket 1 the order of 2 × 2 = 4": "桶 1 中有 2 × 2 = 4 对样本",
    "of 25 pairs is unknown:": "（共 25 对）先后未知：",
    "low": "下界",
    "value": "值",
    "high": "上界",
    "half of each": "各计一半",
}


class Drawing:
    """Shapes in the colors of a background, and texts in a language."""

    def __init__(self, dark: bool, words: Mapping[str, str]) -> None:
        self.ink, self.words, self.shapes = INKS[dark], words, [""]

    def text(self, x: float, y: float, text: str, ink: str = "text", size: int = 13, anchor: str = "middle") -> None:
        said = escape(self.words.get(text, text))
        self.shapes.append(
            f'<text x="{x}" y="{y}" font-size="{size}" fill="{self.ink[ink]}" text-anchor="{anchor}">{said}</text>'
        )

    def box(self, x: float, y: float, width: float, height: float, *lines: str, ink: str = "quiet") -> None:
        """A box with lines of text; what is bad has a dashed line."""
        dashes = ' stroke-dasharray="4 3"' if ink == "bad" else ""
        self.shapes.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="{self.ink["box"]}" '
            f'stroke="{self.ink[ink]}"{dashes}/>'
        )
        first = y + height / 2 + 4.5 - 8.5 * (len(lines) - 1)
        for number, line in enumerate(lines):
            self.text(x + width / 2, first + 17 * number, line, "text" if ink == "quiet" else ink)

    def line(self, x: float, y: float, to_x: float, to_y: float, ink: str = "quiet", dashed: bool = False) -> None:
        dashes = ' stroke-dasharray="3 4"' if dashed else ""
        self.shapes.append(f'<path d="M{x} {y}L{to_x} {to_y}" stroke="{self.ink[ink]}" fill="none"{dashes}/>')

    def arrow(self, x: float, y: float, to_x: float, to_y: float, ink: str = "quiet") -> None:
        """Its head has the direction of the line."""
        length = ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5
        along_x, along_y = (to_x - x) / length * 8, (to_y - y) / length * 8
        back_x, back_y = to_x - along_x, to_y - along_y
        self.line(x, y, round(back_x, 1), round(back_y, 1), ink)
        corners = (
            (to_x, to_y),
            (back_x - along_y / 2, back_y + along_x / 2),
            (back_x + along_y / 2, back_y - along_x / 2),
        )
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)
        self.shapes.append(f'<polygon points="{points}" fill="{self.ink[ink]}"/>')

    def dot(self, x: float, y: float, positive: bool) -> None:
        fill = self.ink["good"] if positive else "none"
        self.shapes.append(
            f'<circle cx="{x}" cy="{y}" r="6" fill="{fill}" stroke="{self.ink["good"]}" stroke-width="2"/>'
        )

    def svg(self, height: int) -> str:
        shapes = "\n".join(self.shapes)
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH * 1.25:g}" height="{height * 1.25:g}"'
        return f'{head} viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">{shapes}\n</svg>\n'


def exchange(on: Drawing) -> int:
    """The workers' states go to rank 0, and one result comes back."""
    for rank, state in enumerate(("[3, 4]", "[1, 2]", "[4, 4]")):
        middle = 62 + 118 * rank
        on.box(middle - 52, 6, 104, 40, f"rank {rank}", "own samples")
        on.arrow(middle, 46, middle, 78)
        on.box(middle - 52, 78, 104, 26, state, ink="good")
        on.arrow(middle, 104, 180 + 60 * (rank - 1), 152, "good")
        on.arrow(180 + 60 * (rank - 1), 240, middle, 284, "good")
        on.box(middle - 52, 284, 104, 26, "0.8", ink="good")
    for middle in (121, 239):
        on.text(middle, 66, "[right, all]", "quiet", 12)
    on.box(22, 152, 316, 88)
    for number, line in enumerate(
        (
            "rank 0",
            "compares the calls, adds the states",
            "[3, 4] + [1, 2] + [4, 4] = [8, 10]",
            "sends [8, 10] to every rank",
        )
    ):
        on.text(180, 171 + 20 * number, line, "good" if number else "text")
    on.text(180, 330, "each computes 8 / 10: the same bits on every rank", "quiet", 12)
    return 342


def padding(on: Drawing) -> int:
    """A sampler assigns 10 samples to 3 workers in batches of 2."""
    on.text(8, 18, "10 samples", "quiet", 12, "start")
    for sample in range(10):
        on.box(8 + 34.6 * sample, 26, 29, 26, str(sample), ink="good")
    on.arrow(180, 58, 180, 88)
    on.text(192, 78, "the sampler assigns 12", "quiet", 12, "start")
    for rank, dealt in enumerate(((0, 1, 6, 7), (2, 3, 8, 9), (4, 5, 0, 1))):
        top = 94 + 36 * rank
        on.text(58, top + 18, f"rank {rank}", anchor="end")
        for place, sample in enumerate(dealt):
            repeated = rank == 2 and place > 1
            left = 70 + 36 * place + (14 if place > 1 else 0)
            on.box(left, top, 32, 26, str(sample), ink="bad" if repeated else "good")
    on.text(238, 184, "repeated", "bad", 13, "start")
    on.box(8, 210, 24, 20, ink="good")
    on.text(40, 225, "counts", anchor="start")
    on.box(180, 210, 24, 20, ink="bad")
    on.text(212, 225, "does not count", anchor="start")
    on.text(8, 254, "with sampler=: 10 samples count", "good", anchor="start")
    on.text(8, 276, "without: 12, samples 0 and 1 twice", "bad", anchor="start")
    return 286


def verdict(on: Drawing) -> int:
    """A connection breaks while rank 0 tells the result."""
    for rank, told in enumerate((("0.8",), ("0.8",), ("Communicator-", "Error"))):
        middle = 62 + 118 * rank
        on.line(middle, 36, middle, 236, dashed=True)
        on.box(middle - 40, 8, 80, 28, f"rank {rank}")
        on.box(middle - 52, 176, 104, 42, *told, ink="bad" if rank == 2 else "good")
    on.arrow(180, 62, 66, 74)
    on.arrow(298, 62, 66, 90)
    on.text(240, 58, "states", "quiet", 12)
    on.arrow(62, 112, 176, 124, "good")
    on.line(62, 128, 232, 150, "bad")
    for slope in (-6, 6):
        on.line(232, 150 - slope, 244, 150 + slope, "bad")
    on.text(120, 112, "result", "good", 12)
    on.text(238, 169, "the link breaks", "bad", 12)
    on.line(8, 236, 352, 236, dashed=True)
    on.text(8, 254, "next exchange", "quiet", 12, "start")
    on.box(8, 264, 344, 46, "all raise: of exchange 4, ranks 0 and 1", "have a result, rank 2 may not", ink="bad")
    return 318


def bounds(on: Drawing) -> int:
    """Five positive and five negative samples in three buckets."""
    for bucket, samples in enumerate(((False,) * 3, (False, False, True, True), (True,) * 3)):
        left = 10 + 114 * bucket
        on.box(left, 34, 108, 40)
        for place, positive in enumerate(samples):
            on.dot(left + 54 + 23 * (place - (len(samples) - 1) / 2), 54, positive)
        on.text(left + 54, 92, f"bucket {bucket}", "quiet", 12)
    on.arrow(240, 20, 352, 20)
    on.text(232, 24, "scores", "quiet", 12, "end")
    on.dot(18, 20, True)
    on.text(30, 24, "positive", "text", 12, "start")
    on.dot(102, 20, False)
    on.text(114, 24, "negative", "text", 12, "start")
    on.text(10, 122, "In bucket 1 the order of 2 × 2 = 4", anchor="start")
    on.text(10, 140, "of 25 pairs is unknown:", anchor="start")
    for number, (name, order, area) in enumerate(
        (
            ("low", (True, True, False, False), "(21 + 0) / 25 = 0.84"),
            ("value", (), "(21 + 2) / 25 = 0.92"),
            ("high", (False, False, True, True), "(21 + 4) / 25 = 1.00"),
        )
    ):
        top = 152 + 38 * number
        on.box(10, top, 340, 32)
        on.text(20, top + 21, name, "good", anchor="start")
        for place, positive in enumerate(order):
            on.dot(92 + 23 * place, top + 16, positive)
        if not order:
            on.text(126, top + 21, "half of each", "quiet", 12)
        on.text(342, top + 21, area, anchor="end")
    return 270


DRAWINGS: dict[str, Callable[[Drawing], int]] = {
    "exchange": exchange,
    "padding": padding,
    "verdict": verdict,
    "bounds": bounds,
}


def drawn() -> dict[str, str]:
    """Every file by its name."""
    found = {}
    for name, draw in DRAWINGS.items():
        for dark in (False, True):
            for language, words in (("", {}), (".zh", CHINESE)):
                on = Drawing(dark, words)
                height = draw(on)
                found[f"{name}{'-dark' if dark else ''}{language}.svg"] = on.svg(height)
    return found


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text in drawn().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
