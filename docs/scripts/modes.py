"""Run the cases of the contract in every mode, and write the table in docs/project/evidence.md.

    python docs/scripts/modes.py          # the metrics that have not been run
    python docs/scripts/modes.py --all    # all of them again

The columns are those of the Paddle version that is installed; the others stay as they are, empty for a metric that has
not been run there. `make modes` runs both versions. The table has the metrics that do not run in every mode; the line
below it names the rest.
A metric that cannot be in a static program must say so when it is added to one.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import warnings
import zlib  # noqa: F401, SciPy may crash if this comes after Paddle 2.6

from _catalogue import DOCS, between, catalogue, table, write_between

sys.path.insert(0, str(DOCS.parent))

import fleetmetrics
from tests import contract
from tests.contract import CASES

PAGE = DOCS / "project" / "evidence.md"
COLUMNS = ("NumPy", "dynamic, Paddle 2.6", "static, Paddle 2.6", "dynamic, Paddle 3.3", "PIR, Paddle 3.3")

YES, FETCH, MEASURE = "yes", "fetch, then `add`", "measure, then `add`"
EVERYWHERE = "Correct in every mode: "


def cell(name: str, mode: str) -> str:
    """What a case does in a mode, found by running it; nothing if its data cannot be in a program at all.

    Raises:
        AssertionError: it is not what the case claims.
    """
    data = contract.draw(name, contract.first_dtypes(name), "real", mask=True)
    if mode == "static" and any(column.dtype.kind in "SU" for column in data.columns.values()):
        assert mode not in CASES[name].modes, f"{name} claims {mode}, which has no texts"
        return ""
    metric = CASES[name].make()
    try:
        scope = contract.feed(metric, contract.batches(data), mode)
    except fleetmetrics.StaticProgramError as error:
        assert mode not in CASES[name].modes, f"{name} claims {mode}, and says: {error}"
        return FETCH if "fetch" in str(error) else MEASURE
    assert mode in CASES[name].modes, f"{name} does not claim {mode}, and takes it"
    value, reference = metric.compute(scope), contract.expected(name, data)
    assert contract.same(value, reference, exact=False, tolerance=CASES[name].tolerance), (
        f"{name}: {value}, {reference}"
    )
    return YES


def throughput(mode: str) -> str:
    """The same for the one metric that has no case, since its value is not that of one process."""
    import paddle

    metric = fleetmetrics.Throughput()
    of_mode = {"numpy": float, "dynamic": paddle.to_tensor, "static": lambda number: paddle.static.data("x", [1])}[mode]
    with contract.new_programs() if mode == "static" else contextlib.nullcontext():
        try:
            metric.add(of_mode(64.0), of_mode(2.0))
        except fleetmetrics.StaticProgramError as error:
            assert mode == "static" and "measure" in str(error), error
            return MEASURE
    assert mode != "static" and metric.compute() == 32, metric.compute()
    return YES


def cells(kind: str) -> dict[str, list[str]]:
    """The cells of a class in the columns of this version, from each of its cases."""
    names = [name for name, case in CASES.items() if type(case.make()).__name__ == kind]
    assert names or kind == "Throughput", f"tests/cases has no case of {kind}"
    asked = [lambda mode, name=name: cell(name, mode) for name in names] or [throughput]
    return {column: [ask(mode) for ask in asked] for column, mode in columns_here().items()}


def merged(cells: list[str]) -> str:
    """What to write for a class with several cases."""
    return " or ".join(sorted({each for each in cells if each}, key=(YES, FETCH, MEASURE).index))


def columns_here() -> dict[str, str]:
    """The modes that this Paddle version can be asked about, by column."""
    import paddle

    version = ".".join(paddle.__version__.split(".")[:2])
    static = f"{'static' if version.startswith('2') else 'PIR'}, Paddle {version}"
    here = {"NumPy": "numpy", f"dynamic, Paddle {version}": "dynamic", static: "static"}
    assert set(here) <= set(COLUMNS), f"the table has no columns for Paddle {version}: {COLUMNS}"
    return here


def known(text: str) -> dict[str, dict[str, str]]:
    """What the page says of each metric, by column: in a row of the table, or in the line below it."""
    table, _, everywhere = between(text, "modes").partition(EVERYWHERE)
    rows = [[part.strip() for part in line.split("|")[1:-1]] for line in table.splitlines()]
    rows = [row for row in rows if len(row) > 1]
    found = {re.sub(r"\W", "", re.sub(r"\(.*\)", "", row[0])): dict(zip(rows[0][1:], row[1:])) for row in rows[2:]}
    return {**found, **{name: dict.fromkeys(COLUMNS, YES) for name in re.findall(r"`(\w+)`", everywhere)}}


def content(before: dict[str, dict[str, str]], again: bool) -> str:
    """The table and the line, after running what this version has not run, or everything again."""
    here, rows, everywhere = columns_here(), [], []
    for kinds in catalogue().values():
        for name in (kind.__name__ for kind in kinds if issubclass(kind, fleetmetrics.Metric)):
            row = {column: before.get(name, {}).get(column, "") for column in COLUMNS}
            if again or not all(row[column] for column in here):
                row.update({column: merged(found) for column, found in cells(name).items()})
                print(name, flush=True)
            if set(row.values()) == {YES}:
                everywhere.append(f"`{name}`")
            else:
                rows.append([f"`{name}`", *row.values()])
    return table(["metric", *COLUMNS], rows) + f"\n{EVERYWHERE}{', '.join(everywhere)}.\n"


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="run all metrics, not only those that have not been run")
    again = parser.parse_args().all
    warnings.simplefilter("ignore")  # Paddle's, mostly
    written = content(known(PAGE.read_text(encoding="utf-8")), again)
    write_between(PAGE, "modes", written)


if __name__ == "__main__":
    main()
