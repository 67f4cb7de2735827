"""What goes wrong with records: every worker raises the same, at once, and the next call works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import fleetmetrics as fm
from tests.cover import thorough
from tests.distributed.cluster import AT_ONCE, SLACK, run, run_at_once

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]
WORKER = Path(__file__).parent / "workers" / "records_errors.py"


@pytest.fixture(scope="module", params=[3, *thorough(2)])
def reports(request: Any) -> list[dict[str, Any]]:
    return run(WORKER, request.param, args={"case": "everything"})


def the_same(values: list[Any]) -> Any:
    assert len({repr(value) for value in values}) == 1, values
    return values[0]


#: The error that every worker raises: how it begins, and after "..." what is in it. OTHERS are the ranks before the
#: LAST.
DIFFERING = {
    "a negative size": "InvalidInputError: on ranks ALL: size is -1; it must be None, or the number of samples",
    "a size that is no number": "InvalidInputError: on LAST: size is '4'",
    "a size too large": "InvalidInputError: Gathered: size is MORE, but TOTAL records were gathered (4 on ranks ALL);",
    "a size too small": "InvalidInputError: Gathered: size is HALF, but TOTAL records were gathered",
    "records for boxes": "InvalidInputError: Gathered: size is ...there must be one record per sample",
    "another size": "AgreementError: Gathered: the workers differ: size TOTAL on OTHERS, size LESS on LAST",
    "a timeout of zero": "InvalidInputError: on LAST: timeout is 0; it must be a finite number of seconds",
    "another class": "AgreementError: the workers disagree: Gathered on OTHERS, Other on LAST",
    "another mode": "AgreementError: Gathered: the workers differ: mode unzip on OTHERS, mode cat on LAST",
    "no blocks": "InvalidInputError: on LAST: Gathered: collect mode 'batch' needs the blocks",
    "a block of zero": "InvalidInputError: on LAST: batch_size must be an integer of at least 1, not 0",
    "other names": "AgreementError: Gathered: the workers differ: columns ['score'] on OTHERS, columns ['label']",
    "no names": "AgreementError: Gathered: the workers differ: columns ['score'] on OTHERS, columns 1 on LAST",
    "more columns": "AgreementError: Gathered: the workers differ: columns 1 on OTHERS, columns 2 on LAST",
    "records and columns": "InvalidInputError: on LAST: Gathered: some records were appended to _results and others",
    "records, others columns": "AgreementError: Gathered: the workers differ: columns 1 on OTHERS, columns records",
    "another batch size": "AgreementError: Gathered: the workers differ: a sampler with",
    "another data set": "AgreementError: Gathered: the workers differ: a sampler with samples TOTAL",
    "no sampler": "AgreementError: Gathered: the workers differ: a sampler with",
    "another's sampler": "InvalidInputError: on AFTER: Gathered: the sampler is for rank 0 of N, but this worker",
    "a sampler for more": "InvalidInputError: on rank 0: Gathered: the sampler is for rank 0 of MANY, but",
    "a sample too many": "InvalidInputError: on LAST: Gathered: 5 records for the 4 samples that the sampler assigns",
    "no samples": "InvalidInputError: on LAST: Gathered: 0 records for the 4 samples",
    "no ids": "AgreementError: Gathered: the workers differ: integers as ids on OTHERS, no ids on LAST",
    "strings as ids": "AgreementError: Gathered: the workers differ: integers as ids on OTHERS, strings as ids on",
    "ids that conflict": "InvalidInputError: ids: 4 of 4 ids came with records that differ: 0, 1, 2, 3. A sample",
    "ids and a wrong size": "InvalidInputError: Gathered: size is 5, but the TOTAL records have 4 distinct ids",
    "cannot be pickled": "RecordError: on LAST: records[1] is ...builtins.function, which cannot be pickled",
    "cannot be pickled on rank 0": "no error",  # they need not go anywhere
    "may not be pickled": "RecordError: on LAST: records[1] is ...watching.Box, which has no array form"
    "...needs both allow_pickle=True and authenticated workers (FLEETMETRICS_SECRET, if",
    "may be pickled, but by whom": "RecordError: on LAST: records[1] is ...watching.Box, which has no array form"
    "...needs both allow_pickle=True and authenticated workers (FLEETMETRICS_SECRET, if",
    "summarize raises": "CommunicatorError: on LAST: KeyError: 'm'",
    "summarize raises on rank 0": "CommunicatorError: on rank 0: KeyError: 'm'",
    "summarize is wrong": "InvalidInputError: on LAST: summarize of Condensing returned int; it must return a dict",
    "summarize gives up": "AgreementError: Condensing: summarize returned None on some workers, and states on others",
    "other states": "AgreementError: Condensing: summarize returned different states: sum of n [], sum of sum [2] on",
    "states of other shapes": "AgreementError: Condensing: summarize returned different states: sum of n [], sum",
    "states that overflow": "IntegerOverflowError: Condensing, state 'n': ",
    "states only on some": "AgreementError: the workers disagree: Condensing on OTHERS, Other on LAST",
    "another call: sum": "AgreementError: the workers disagree",
    "another call: records": "AgreementError: the workers disagree",
    "another call: AUC": "AgreementError: the workers disagree",
    "another call: of one name": "AgreementError: the workers disagree",
    "another call: gather": "AgreementError: the workers disagree",
    "another call: evaluator": "AgreementError: the workers disagree: Gathered on OTHERS, Evaluator.evaluate on LAST",
    "objects pickled by some": "AgreementError: the workers disagree",
    "another call: metric": "AgreementError: the workers disagree",
}


def filled(text: str, workers: int) -> str:
    ranks = [str(rank) for rank in range(workers)]

    def named(some: list[str]) -> str:
        return f"rank{'s' * (len(some) > 1)} {', '.join(some)}"

    for word, value in {
        "OTHERS": named(ranks[:-1]),
        "AFTER": named(ranks[1:2]),
        "LAST": named(ranks[-1:]),
        "ranks ALL": named(ranks),
        "TOTAL": str(4 * workers),
        "MORE": str(4 * workers + 1),
        "LESS": str(4 * workers - 1),
        "HALF": str(2 * workers),
        "MANY": str(workers + 1),
        " of N,": f" of {workers},",
    }.items():
        text = text.replace(word, value)
    return text


@pytest.mark.parametrize("case", DIFFERING)
def test_a_mistake_of_one_worker_is_an_error_on_all_at_once(reports: list[dict[str, Any]], case: str) -> None:
    text = re.sub(r" at exchange \d+:", ":", the_same([report["differing"][case][0] for report in reports]))
    expected, *parts = filled(DIFFERING[case], len(reports)).split("...")
    assert text.startswith(expected) and all(part in text for part in parts), text
    if case.startswith("another call"):
        assert f"on rank{'s' * (len(reports) > 2)} 0" in text and f"on rank {len(reports) - 1}" in text
    if "disagree" not in expected and expected != "no error":
        assert "None" not in text.partition(":")[0]
        assert issubclass(getattr(fm, text.partition(":")[0]), fm.FleetMetricsError)
    assert all(report["differing"][case][1] < AT_ONCE for report in reports)


def test_no_case_is_forgotten(reports: list[dict[str, Any]]) -> None:
    assert list(reports[0]["differing"]) == list(DIFFERING)
    assert not any(report["paddle"] for report in reports)


#: What `compute_metric` raises on rank 0, as every worker gets it if it may be pickled, and if it may not.
RAISING = {
    "ValueError": ("ValueError: no labels",) * 2,
    "KeyError": ("KeyError: 'label'",) * 2,
    "OSError": ("OSError: [Errno 28] No space left on device: '/tmp/out.pkl'",) * 2,
    "UnicodeDecodeError": (
        "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
    )
    * 2,
    "AssertionError": ("AssertionError: ",) * 2,
    "StopIteration": ("StopIteration: 3",) * 2,
    "an argument without array form": ("ValueError: Box(1)",) * 2,
    "a name of Python's": ("ValueError: mine", "CommunicatorError: ValueError: mine"),
    "OwnError": ("OwnError: ('mine', 3)", "CommunicatorError: OwnError: ('mine', 3)"),
    "TwoArguments": ("CommunicatorError: TwoArguments: 3: no labels",) * 2,
    "Unpicklable": ("CommunicatorError: Unpicklable: no labels",) * 2,
    "local class": ("CommunicatorError: Local: no labels",) * 2,
    "InvalidInputError": ("InvalidInputError: no labels",) * 2,
    "of the package's family": ("RecordError: no labels",) * 2,
}


@pytest.mark.parametrize("allow_pickle", [True, False])
@pytest.mark.parametrize("case", RAISING)
def test_every_worker_raises_the_error_of_compute_metric(
    reports: list[dict[str, Any]], case: str, allow_pickle: bool
) -> None:
    found = [report["raising"][f"{case} {allow_pickle}"] for report in reports]
    assert the_same([text for text, *_ in found]) == RAISING[case][not allow_pickle]
    assert all(seconds < AT_ONCE for _, seconds, _ in found)
    assert all(after == {"n": 4 * len(reports)} for *_, after in found)


def test_the_error_says_where_it_was_raised(reports: list[dict[str, Any]]) -> None:
    for report in reports:
        assert report["raising"]["cause"].startswith("this was raised on rank 0:\nTraceback (most recent call last):")
        assert "in compute_metric\n    raise self.error" in report["raising"]["cause"]


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("a lambda", "RecordError: the result"),
        ("a box", "no error, but 'Box(0)'"),
        ("a box that may not be pickled", "RecordError: the results[0] is "),
        ("itself", "no error, but '"),
        ("a collective", "CommunicatorError: exchange NUMBER (Returning, records) is not over: code that"),
        ("another metric", "CommunicatorError: exchange NUMBER (Returning, records) is not over: code that"),
        ("an evaluator", "CommunicatorError: exchange NUMBER (Returning, records) is not over: code that"),
        ("a barrier", "CommunicatorError: exchange NUMBER (Returning, records) is not over: code that"),
    ],
)
def test_what_compute_metric_returns_or_calls(reports: list[dict[str, Any]], case: str, text: str) -> None:
    found = the_same([report["returning"][case][0] for report in reports])
    number = found.partition("exchange ")[2].partition(" ")[0]
    assert found.startswith(text.replace("NUMBER", number)), found
    assert case != "a lambda" or "['value'] is " in found
    assert case != "a box that may not be pickled" or "watching.Box, which has no array form" in found
    assert all(report["returning"][case][1] < AT_ONCE for report in reports)


def test_no_worker_has_a_value_where_another_may_not_read_it(reports: list[dict[str, Any]]) -> None:
    """``allow_pickle`` differs, and the value is a pickle."""
    text = the_same([report["returning"]["a box for some"][0] for report in reports])
    assert text.startswith(("AgreementError: ", "RecordError: ")), text


def test_a_warning_that_is_an_error_does_not_keep_the_others_waiting(reports: list[dict[str, Any]]) -> None:
    text = the_same([report["strict"][0] for report in reports])
    assert "cut off as padding" in text or text.startswith("no error"), text
    assert all(report["strict"][1] < AT_ONCE for report in reports)


def test_a_cut_that_is_a_guess_is_warned_of_on_every_worker(reports: list[dict[str, Any]]) -> None:
    for report in reports:
        assert report["guessing"] == {
            "by default": [1],
            "nothing to cut": [0],
            "chosen": [0],
            "known": [0],
            "more than Paddle's sampler pads": [1],
        }


@pytest.fixture(scope="module")
def alone() -> dict[str, list[dict[str, Any]]]:
    """Jobs of one case each, most of which is waiting."""
    late = {f"late {who}": {"case": "late", "who": who} for who in (0, 2)}
    killed = {f"killed {who}": {"case": "killed", "who": who, "missing": [who]} for who in (0, 1)}
    return run_at_once(WORKER, {**late, "slow": {"case": "slow"}, **killed})


@pytest.mark.parametrize("who", [0, 2])
def test_a_worker_that_comes_late_is_named_by_all(alone: dict[str, list[dict[str, Any]]], who: int) -> None:
    reports = alone[f"late {who}"]
    text = the_same([report["text"] for report in reports])
    assert text.startswith(f"DeadlineError: rank {who} did not arrive within 2 s at exchange 2 (Gathered)"), text
    for rank, report in enumerate(reports):
        assert report["seconds"] < (AT_ONCE if rank == who else 2 + SLACK)
        assert report["after"] == list(range(4)) * 3


def test_all_give_up_on_a_compute_metric_that_takes_too_long(alone: dict[str, list[dict[str, Any]]]) -> None:
    for report in alone["slow"]:
        assert report["text"].startswith("DeadlineError: rank 0 "), report["text"]
        assert "exchange 2 (Slow, records)" in report["text"]
        assert report["seconds"] < 2 + SLACK
        assert report["after"] == list(range(4)) * 3


@pytest.mark.parametrize("who", [0, 1])
def test_a_worker_that_is_killed_while_it_sends_is_an_error_at_once(
    alone: dict[str, list[dict[str, Any]]], who: int
) -> None:
    reports = alone[f"killed {who}"]
    others = [report for report in reports if report]
    assert len(others) == 2
    text = the_same([report["text"] for report in others])
    assert text.startswith(f"CommunicatorError: rank {who} has gone away"), text
    assert "broken since an earlier call" in the_same([report["next"] for report in others])
    assert all(report["seconds"] < AT_ONCE for report in others)
