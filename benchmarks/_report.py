"""Timings to tables: medians, spreads, ratios of paired rounds, and the place in the docs where they go."""

from __future__ import annotations

import argparse
import os
import platform
import re
import time
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np

LOAD = os.getloadavg()[0]
"""Processes that were busy on the machine before this one."""


class Target(NamedTuple):
    """What a ratio is to reach."""

    sign: str  # ">=" or "<="
    value: float

    def __str__(self) -> str:
        return f"{'at least' if self.sign == '>=' else 'at most'} {self.value:g}"

    def reached(self, ratio: float) -> bool:
        return ratio >= self.value if self.sign == ">=" else ratio <= self.value


def seconds(times: Sequence[float]) -> str:
    """The median, and in brackets the 10th and 90th percentiles: `1,234 us (1,200 - 1,300)`."""
    low, middle, high = np.percentile(times, (10, 50, 90))
    unit, scale = ("us", 1e6) if middle < 1e-2 else ("ms", 1e3)
    return f"{_short(middle * scale)} {unit} ({_short(low * scale)} - {_short(high * scale)})"


def quotient(ratios: Sequence[float], digits: int = 1) -> str:
    """The median of the rounds' ratios, and in brackets the 10th and 90th percentiles."""
    low, middle, high = np.percentile(ratios, (10, 50, 90))
    return f"{middle:,.{digits}f} ({low:,.{digits}f} - {high:,.{digits}f})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table that is aligned for the terminal as well; the first column is text, the others numbers."""
    lines = [header, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    cells = [
        [cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths))] for line in lines
    ]
    rule = ["-" * w if i == 0 else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [cells[0], rule, *cells[1:]])


HEADER = ("fleetmetrics", "time", "against", "time", "rounds", "ratio", "to reach", "reached")
"""Of a table that `row` makes the lines of."""


def row(what: str, against: str, ours: np.ndarray, theirs: np.ndarray, target: Target) -> list[str]:
    """A line of two variants' times and their ratio, round by round."""
    ratios = theirs / ours if target.sign == ">=" else ours / theirs
    side = "faster" if target.sign == ">=" else "as long"
    reached = "yes" if target.reached(float(np.median(ratios))) else "no"
    text = f"{quotient(ratios)} x {side}"
    return [what, seconds(ours), against, seconds(theirs), str(len(ours)), text, str(target), reached]


def in_turn(variants: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, np.ndarray]:
    """Seconds of each variant in each round; a round begins with another one each time, and the first is not counted.

    Args:
        variants: what is timed, by name.
        rounds: how many, at least 3.
    """
    names = list(variants)
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(-1, max(3, rounds)):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            start = time.perf_counter()
            variants[name]()
            if number >= 0:
                times[name].append(time.perf_counter() - start)
    return {name: np.array(values) for name, values in times.items()}


def machine(versions: dict[str, str]) -> str:
    """The machine, how busy it is, the system and the versions that a run used, in one line."""
    memory = int(_first(r"MemTotal:\s+(\d+)", "/proc/meminfo", "0")) / 2**20
    processor = _first(r"model name\s*:\s*(.+)", "/proc/cpuinfo", platform.processor())
    virtual = " of a virtual machine" if re.search(r"^flags.*\bhypervisor\b", _text("/proc/cpuinfo"), re.M) else ""
    system = _first(r'PRETTY_NAME="?([^"\n]+)', "/etc/os-release", platform.system())
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    date = time.strftime("%Y-%m-%d")
    return (
        f"{processor}, {os.cpu_count()} cores{virtual}, {memory:.0f} GiB, load average {LOAD:.1f} before the run; "
        f"{system}, Linux {platform.release()}; Python {platform.python_version()}, {named}; {date}"
    )


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _first(pattern: str, path: str, default: str) -> str:
    found = re.search(pattern, _text(path))
    return found.group(1).strip() if found else default


def arguments(text: str) -> argparse.ArgumentParser:
    """The command line that every benchmark has."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument(
        "--rounds", type=float, default=1.0, metavar="FACTOR", help="times the usual number of rounds (1)"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables into this Markdown file as well")
    return parser


def write(path: Path, region: str, text: str) -> None:
    """Put a text between the lines `<!-- region: begin` ... `-->` and `<!-- region: end -->` of a file.

    Raises:
        SystemExit: the file has no such lines.
    """
    page = path.read_text()
    pattern = re.compile(rf"(<!-- {region}: begin[^\n]*-->\n).*?(<!-- {region}: end -->)", re.S)
    if len(pattern.findall(page)) != 1:
        raise SystemExit(f"error: {path} has no lines '<!-- {region}: begin -->' and '<!-- {region}: end -->'")
    path.write_text(pattern.sub(lambda match: f"{match[1]}\n{text}\n\n{match[2]}", page))


def save_chart(figure: Any, path: Path) -> None:
    """Write a figure for light pages as ``path``, and for dark ones beside it, both without a background."""
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    if path.suffix == ".svg":
        in_light_and_dark(path)


def in_light_and_dark(path: Path) -> None:
    """Take the white out of a chart of matplotlib, and write ``NAME-dark.svg``, whose black is light."""
    text = re.sub(r"fill: #ffffff(?=[;\"])", "fill: none", path.read_text("utf-8"))
    path.write_text(text, encoding="utf-8")
    dark = re.sub(r"(fill|stroke): #000000", r"\1: #ececec", text)
    for light, bright in (
        ("#1f77b4", "#56b4e9"),
        ("#ff7f0e", "#ff9f4a"),
        ("#2ca02c", "#2bc79a"),
        ("#cccccc", "#5a6068"),
    ):
        dark = dark.replace(light, bright)
    dark = dark.replace("<svg ", '<svg fill="#ececec" ', 1)  # texts are shapes without a color of their own
    path.with_name(f"{path.stem}-dark.svg").write_text(dark, encoding="utf-8")
