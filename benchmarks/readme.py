"""Time the README's command, which compares two models and writes a report, beside the plain run of one model.

    python benchmarks/readme.py [--rows 2000000] [--rounds FACTOR] [--write benchmarks/README.md]

Both are whole processes, `python -m fleetmetrics`, with their imports. The plain run evaluates one of the two files by
the same slices. The rows are drawn by a fixed seed; the files lie in the page cache.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from _report import HEADER, Target, arguments, in_turn, machine, quotient, row, table, write

ROWS, ROUNDS = 2_000_000, 5
README = Path(__file__).resolve().parent.parent / "README.md"
TARGET = Target("<=", 3)


def draw(folder: Path, rows: int) -> None:
    """The scores of an old and of a new model, by 50 slots."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(0)
    odds, slot = random.normal(-3.5, 1.3, rows), random.integers(0, 50, rows)
    names = np.array([f"slot_{each:02d}" for each in range(50)])
    label = (random.random(rows) < 1 / (1 + np.exp(-odds))).astype(np.int64)
    for name, spread in {"new": 0.5, "old": 0.9}.items():
        score = 1 / (1 + np.exp(-odds - random.normal(0, spread, rows)))
        (folder / name).mkdir()
        columns = {"id": np.arange(rows), "y": label, "p": score, "slot": names[slot]}
        pq.write_table(pa.table(columns), folder / name / "part.parquet")


def commands() -> dict[str, list[str]]:
    """The README's command, and the plain run, as arguments of ``python -m fleetmetrics``."""
    found = re.search(r"^fleetmetrics (evaluate .*)$", README.read_text("utf-8"), re.MULTILINE)
    assert found
    return {"readme": found[1].split(), "plain": ["evaluate", "new", "--label", "y", "--score", "p", "--by", "slot"]}


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    options = parser.parse_args()
    processor: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as place:
        draw(Path(place), options.rows)

        def run(name: str, command: list[str]) -> Any:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [sys.executable, "-m", "fleetmetrics", *command], cwd=place, check=True, stdout=subprocess.DEVNULL
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            processor.setdefault(name, []).append(spent)

        variants = {name: lambda name=name, command=command: run(name, command) for name, command in commands().items()}
        times = in_turn(variants, round(ROUNDS * options.rounds))
    what = f"the README's command, two models of {options.rows:,} rows, with a report"
    line = row(what, "one model, by the same slices", times["readme"], times["plain"], TARGET)
    spent = np.array(processor["readme"][1:]) / np.array(processor["plain"][1:])
    versions = {name: metadata.version(name) for name in ("numpy", "pyarrow", "jinja2")}
    text = f"{machine(versions)}\n\n{table(HEADER, [line])}\n\nThe processor's time: {quotient(spent)} x as long."
    print(text)
    if options.write:
        write(options.write, "readme", text)


if __name__ == "__main__":
    main()
