"""Rank 0 refuses the records of a worker that says one thing and sends another."""

from __future__ import annotations

import json
from typing import Any, Callable, Sequence

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.comm.communicator import Communicator, Decide, Letter
from fleetmetrics.comm.failures import fit_cause
from fleetmetrics.errors import CommunicatorError, FleetMetricsError, InvalidInputError
from fleetmetrics.records.gather import _outcome
from fleetmetrics.serial import pack_chunks
from fleetmetrics.serial.descriptions import joined
from tests.fakes import together

pytestmark = pytest.mark.numpy_only


class Columns(fm.BaseMetric):
    def compute_metric(self, results: Any) -> Any:
        return {name: column.tolist() for name, column in results.items()}


class Liar(Communicator):
    """Rank 0 of 2; rank 1 has the same records, except for what it changes of its note and of its letter."""

    rank, world_size = 0, 2

    def __init__(self, note: Any = None, letter: Any = None) -> None:
        self._changes = {"Columns": note, "Columns, records": letter}

    def _consult(self, call: str, decide: Decide, mine: Letter, *_: Any) -> Letter:
        theirs = Letter(json.loads(json.dumps(mine.note)), joined(mine.payload))
        if call.endswith("records"):
            packed = [pack_chunks([np.array(column)], narrow=True) for column in ([0.5, 0.25], [1, 0])]
            layouts = [[True, each.nbytes, each.layout] for each in packed]
            data = b"".join([part for each in packed for part in each.buffers])
            theirs = Letter({"parcels": [[0, "records", layouts, len(data)]], "more": False}, bytearray(data))
        change: Callable[[Letter], Letter] | None = self._changes[call]
        told = decide([mine, theirs if change is None else change(theirs)])
        return Letter(told.note, joined(told.payload))


def value(**changes: Any) -> Any:
    metric = Columns()
    metric.dist_comm = Liar(**changes)
    metric.add(score=np.array([0.75, 0.125]), label=np.array([1, 1]))
    return metric.compute()


def test_records_come_into_the_dtypes_that_were_announced() -> None:
    assert value() == {"score": [0.75, 0.5, 0.125, 0.25], "label": [1, 1, 1, 0]}


def _parcels(letter: Letter, change: Callable[[list[Any]], Any]) -> Letter:
    note = {**letter.note, "parcels": change(letter.note["parcels"])}
    return Letter(note, bytearray(letter.payload) * max(1, len(note["parcels"])))


def _columns(letter: Letter, columns: Sequence[Any]) -> Letter:
    packed = [pack_chunks([np.array(column)]) for column in columns]
    data = b"".join([part for each in packed for part in each.buffers])
    layouts = [[True, each.nbytes, each.layout] for each in packed]
    return Letter({"parcels": [[0, "records", layouts, len(data)]], "more": False}, bytearray(data))


LIES: dict[str, Callable[[Letter], Letter]] = {
    "twice": lambda letter: _parcels(letter, lambda parcels: parcels * 2),
    "not at all": lambda letter: _parcels(letter, lambda parcels: []),
    "fewer": lambda letter: _columns(letter, [[0.5], [1]]),
    "floats for integers": lambda letter: _columns(letter, [[0.5, 0.25], [0.5, np.nan]]),
    "texts": lambda letter: _columns(letter, [["a", "b"], [1, 0]]),
    "one column": lambda letter: _columns(letter, [[0.5, 0.25]]),
    "three columns": lambda letter: _columns(letter, [[0.5, 0.25], [1, 0], [1, 0]]),
    "uneven columns": lambda letter: _columns(letter, [[0.5, 0.25], [1]]),
    "of another shape": lambda letter: _columns(letter, [[[0.5], [0.25]], [1, 0]]),
    "of no share": lambda letter: _parcels(letter, lambda parcels: [[7, *parcels[0][1:]]]),
    "of no kind": lambda letter: _parcels(letter, lambda parcels: [[0, "recipes", *parcels[0][2:]]]),
    "from a file": lambda letter: _parcels(letter, lambda parcels: [[0, "file", *parcels[0][2:]]]),
}


@pytest.mark.parametrize("lie", LIES)
def test_records_that_are_not_those_announced_are_refused_by_rank(lie: str) -> None:
    with pytest.raises(FleetMetricsError, match="rank 1.*4 records, but there are 2" if lie == "twice" else "rank 1"):
        value(letter=LIES[lie])


@pytest.mark.parametrize(
    "kinds", [None, 5, "x", [], [None], [["O", []]] * 2, [["<f8", [-1]]] * 2, [["<f8"]], [["<f8", []]], [[5, 5]] * 2]
)
def test_columns_that_no_worker_has_are_refused_by_rank(kinds: Any) -> None:
    def changed(letter: Letter) -> Letter:
        return Letter([{**letter.note[0], "kinds": kinds}])

    with pytest.raises(FleetMetricsError, match="rank 1"):
        value(note=changed)


def test_the_trace_of_rank_0_is_quoted_escaped_and_cut() -> None:
    trace = "Traceback (most recent call last):\n" + "x" * 1_000_000 + "\x1b[2J\nValueError: no"
    with pytest.raises(FleetMetricsError, match="no") as caught:
        _outcome(Letter({"error": ["ValueError", "no"], "trace": trace}), False)
    cause = str(caught.value.__cause__)
    assert cause.startswith("this was raised on rank 0:\n(cut:") and cause.endswith("x\\x1b[2J\nValueError: no")
    assert len(cause) < 11_000


#: Moves the cursor, begins a line, turns the direction of text around.
HOSTILE = "\x1b]0;owned\x07\r\nFAKE LINE\x00\u202e"


class OwnText(Exception):
    def __str__(self) -> str:
        return HOSTILE


class OwnArguments(Exception):
    def __init__(self, text: str, number: int) -> None:
        super().__init__(text, number)


class Raising(fm.BaseMetric):
    def __init__(self, error: Exception, **settings: Any) -> None:
        super().__init__(**settings)
        self.error = error

    def compute_metric(self, results: Any) -> Any:
        raise self.error


@pytest.mark.parametrize("allow_pickle", [True, False])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError(HOSTILE), ValueError),
        (ValueError(HOSTILE, 5), ValueError),
        (ValueError(HOSTILE + "x" * 3_000_000), ValueError),
        (ValueError(["x" * 3_000_000]), ValueError),
        (OSError(28, HOSTILE, HOSTILE + "/out"), OSError),
        (KeyError("x" * 3_000_000), KeyError),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, HOSTILE), UnicodeDecodeError),
        (InvalidInputError(HOSTILE), InvalidInputError),
        (OwnArguments(HOSTILE, 3), None),
        (OwnText(), CommunicatorError),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_error_of_compute_metric_reaches_the_others_escaped_and_cut(
    error: Exception, kind: Any, allow_pickle: bool
) -> None:
    """And rank 0 raises the same as the others."""

    def work(channel: Any) -> Any:
        channel.authenticated = True
        metric = Raising(error, allow_pickle=allow_pickle)
        metric.dist_comm = channel
        metric.add([1.0])
        return metric.compute()

    found = together([work] * 2)
    expected = kind or (OwnArguments if allow_pickle else CommunicatorError)
    assert [type(each) for each in found] == [expected] * 2 and len({str(each) for each in found}) == 1
    said = str(found[0])
    assert said.isprintable() and 0 < len(said) <= 10_010
    assert len(said) > 2_000 or "no" in said or "FAKE LINE" in said


def test_an_error_whose_text_needs_nothing_stays_the_same() -> None:
    error = ValueError("no labels", 3)
    assert fit_cause(error) is error and fit_cause(ValueError("a\nb")) is None


def test_the_name_of_a_state_of_a_worker_reaches_the_others_escaped() -> None:
    class Condensed(Raising):
        def summarize(self, results: Any) -> Any:
            return {"n" + HOSTILE * self.rank: np.array([1])}

        def compute_from(self, states: Any) -> Any:
            return states

    def work(channel: Any) -> Any:
        metric = Condensed(ValueError("never"))
        metric.rank, metric.dist_comm = channel.rank, channel
        metric.add([1.0])
        return metric.compute()

    found = together([work] * 2)
    assert {type(each).__name__ for each in found} == {"AgreementError"}
    assert all(str(each).isprintable() and "FAKE LINE" in str(each) for each in found)
