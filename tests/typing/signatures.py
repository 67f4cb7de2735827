"""Whether the reference's signatures have every argument: the part of `make types` that needs griffe.

`make docs` fails on the same mistakes, page by page. Here they are made on purpose, too.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import griffe

import fleetmetrics
from docs.scripts import reference

ROOT = Path(__file__).resolve().parents[2]
MISTAKES = """class Bare:
    def add(self, score) -> None: ...
    def __init__(self, *, name: str | None = None, **settings: Unpack[Settings]) -> None: ...
def read(path: str, **settings: Unpack[Settings]) -> None: ...
"""


def of_the_package() -> Any:
    extensions = griffe.load_extensions(reference.Reference)
    return griffe.GriffeLoader(extensions=extensions, search_paths=[str(ROOT)]).load("fleetmetrics")


def signatures_have_every_argument(package: Any) -> None:
    kinds = {name: package[f"{module.partition('.')[2]}.{name}"] for name, module in fleetmetrics._modules.items()}
    wrong = [line for each in kinds.values() for line in reference.hidden(each)]
    assert not wrong, "\n".join(wrong)
    area = {each.name: each for each in kinds["AUC"].parameters}
    assert list(area)[-1] == "size" and str(area["buckets"].annotation) == "int | None"
    assert (area["tolerance"].default, area["curve"].default) == ("0.01", "'ROC'")
    assert "<math" in kinds["AUC"].docstring.value


def mistakes_are_named_with_their_place(package: Any, folder: Path) -> None:
    (line,) = reference.unlisted({"AUC": package["metrics.auc.AUC"]}, folder)
    place = r"fleetmetrics/metrics/auc.py:\d+: "
    assert re.fullmatch(place + "AUC is on no page of docs/reference; run `make names`", line), line
    (folder / "bare.py").write_text(MISTAKES, "utf-8")
    bare = griffe.load("bare", search_paths=[str(folder)])
    (line,) = reference.untyped(bare["Bare"], folder)
    assert line == "bare.py:2: bare.Bare.add: the argument score has no type; write one, then run `make types`"
    for name, number in (("Bare", 1), ("read", 4)):
        (line,) = reference.hidden(bare[name], folder)
        assert line.startswith(f"bare.py:{number}: bare.{name}: **settings hides the arguments of Unpack[Settings]")


def main() -> None:
    package = of_the_package()
    signatures_have_every_argument(package)
    with tempfile.TemporaryDirectory() as folder:
        mistakes_are_named_with_their_place(package, Path(folder).resolve())


if __name__ == "__main__":
    main()
