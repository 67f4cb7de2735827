"""A report of classes among real workers: what one process prints, the same on every rank, or one error on all."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from tests.distributed.cluster import free_ports
from tests.distributed.forks import member, outcome, run

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]
NAMES = np.array(["ant", "bee", "cat", "dog"])


def parts() -> list[tuple[Any, Any, Any]]:
    """The labels, predictions and weights of three workers; each class is unknown to one, and the last has none."""
    rng = np.random.default_rng(3)
    label, prediction = np.sort(rng.integers(0, 4, 60)), rng.integers(0, 4, 60)
    prediction[:40] = label[:40]
    columns = NAMES[label], NAMES[prediction], rng.integers(1, 9, 60) / 8
    return [tuple(column[rows] for column in columns) for rows in (slice(0, 35), slice(35, 60), slice(60, 60))]


def reported(given: list[dict[str, Any]]) -> list[Any]:
    """What each worker gets, as text: nan is not equal to itself."""
    port = free_ports(1)[0]

    def work(rank: int) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            channel = member(rank, len(given), port)
            return outcome(lambda: repr(fm.classification_report(**given[rank], communicator=channel, timeout=30)))

    return run(len(given), work)


@pytest.mark.parametrize("weighted", [False, True])
def test_all_workers_have_the_report_of_one_process(weighted):
    shares = [dict(zip(("label", "prediction", "weight"), part[: 2 + weighted])) for part in parts()]
    whole = {name: np.concatenate([share[name] for share in shares]) for name in shares[0]}
    assert reported(shares) == [repr(fm.classification_report(**whole))] * 3


ONE = {"label": [0, 1], "prediction": [0, 0]}


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ({"label": [0.5, 1], "prediction": [0, 0]}, "InvalidInputError: on rank 1: label must hold classes"),
        ({"label": ["a", "b"], "prediction": ["a", "a"]}, "InvalidInputError: label has strings on some workers"),
        ({**ONE, "labels": [1, 0]}, "AgreementError: "),
        ({**ONE, "zero_division": 0}, "AgreementError: "),
        ({"label": [[0, 1]], "prediction": [[0, 1]]}, "AgreementError: "),
    ],
)
def test_what_one_worker_gives_differently_is_the_same_error_on_all(second, why):
    first, other = reported([ONE, second])
    assert first == other and first.startswith(why)


def test_slices_without_a_limit_meet_among_workers():
    port = free_ports(1)[0]

    def work(rank: int) -> Any:
        metric = fm.Sliced(fm.Count(), by="slot", max_keys=None)
        metric.add(np.zeros(2), slot=["a", "bc"[rank]])
        return outcome(lambda: metric.compute(communicator=member(rank, 2, port), timeout=30))

    assert run(2, work) == [{"a": 2, "b": 1, "c": 1}] * 2
