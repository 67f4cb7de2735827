"""paddle.Model on three workers, under Paddle's launcher, gives what one process gives, in both modes."""

from __future__ import annotations

import importlib.util
import math
from importlib.metadata import version
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest

from tests.cover import quick_on
from tests.distributed.cluster import free_ports, run, run_page
from tests.pages import both

pytestmark = [
    pytest.mark.distributed,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="Paddle is not installed"),
]
WORKER = Path(__file__).parent / "workers" / "hapi.py"
PAGE, _ = both("howto/model")


def has_pir() -> bool:
    """Whether static programs are PIR's."""
    return int(version("paddlepaddle").partition(".")[0]) > 2


MODES = ("dynamic", "static")
#: Samples and batch size; of the last, the third worker has nothing.
SIZE, OTHER_SIZES = (7, 3), [(10, 2), (13, 2), (2, 4)]
Jobs = Tuple[Dict[str, Any], List[Dict[str, Any]]]


def jobs_of(mode: str, sizes: list[tuple[int, int]], what: str) -> Jobs:
    """The reports of one process, and of three workers."""
    args = {"static": mode == "static", "sizes": sizes, "what": what, "gloo": f"127.0.0.1:{free_ports(1)[0]}"}
    return run(WORKER, 1, args=args)[0], run(WORKER, 3, "collective", args=args)


@pytest.fixture(
    scope="module",
    params=[pytest.param("dynamic", marks=quick_on(paddle=3)), pytest.param("static", marks=quick_on(paddle=2))],
)
def jobs(request: pytest.FixtureRequest) -> Jobs:
    return jobs_of(request.param, [SIZE], "everything")


@pytest.fixture(scope="module", params=MODES)
def further_jobs(request: pytest.FixtureRequest) -> Jobs:
    return jobs_of(request.param, OTHER_SIZES, "passes")


def test_every_pass_gives_what_one_process_gives(jobs: Jobs) -> None:
    _check_passes(jobs, 0, SIZE)


@pytest.mark.thorough
@pytest.mark.parametrize("number", range(len(OTHER_SIZES)), ids=[f"{size} by {batch}" for size, batch in OTHER_SIZES])
def test_every_pass_over_other_sizes_does(further_jobs: Jobs, number: int) -> None:
    _check_passes(further_jobs, number, OTHER_SIZES[number])


def _check_passes(jobs: Jobs, number: int, size: tuple[int, int]) -> None:
    alone, workers = jobs
    whole = alone["passes"][number]["local"]["whole"]
    for report in [alone, *workers]:
        found = report["passes"][number]
        assert found["local"]["whole"] == whole
        for name in ("evaluate", "again", "predict, stacked False", "predict, stacked True"):
            assert found[name] == whole, name
        for name in ("fit", "shuffled"):
            assert [{key: end[key] for key in whole} for end in found[name]] == [whole] * 4, name
        assert found["partly"] == found["local"]["partly"]
        begun = [*found["fit partly"], *found["begun"]]
        expected = [found["local"]["partly"], whole, found["local"]["begun"]]
        assert [{key: end[key] for key in whole} for end in begun] == expected
        if size != (2, 4):  # of which nothing is left
            assert found["dropped"] == found["local"]["dropped"]
        first, last = found["heard"]
        assert first == last


def test_metrics_of_all_samples_and_over_records_get_each_once_and_some_leave_training_out(jobs) -> None:
    alone, workers = jobs
    for report in workers:
        assert report["others"] == alone["others"]
    trained, evaluated = alone["others"]["pairs"]
    assert trained == evaluated and trained["Pairs/n"] == "13"
    assert [end["evaluated"] for end in alone["others"]["evaluated"]] == ["nan", "13"]


def test_the_last_line_of_the_progress_bar_has_the_value_of_all_workers(jobs) -> None:
    alone, workers = jobs
    assert workers[0]["shown"][-1] == alone["shown"][-1] != workers[0]["shown"][0]


def test_an_early_stop_takes_the_same_decision_on_every_worker_where_local_values_would_not(jobs) -> None:
    alone, workers = jobs
    for report in [alone, *workers]:
        found = report["decisions"]
        assert found["epochs"] == [0, 1, 2] and found["saved"] == [0]
        assert math.isclose(found["best"], 0.7 / 3, rel_tol=1e-6)
    running = [[float(value) for value in report["decisions"]["local"]][1::2] for report in workers]
    falls = [values == sorted(values, reverse=True) for values in running]
    assert falls == [True, False, False], "the workers' own values would decide differently"


def test_an_impossible_evaluation_is_the_same_error_on_every_worker(jobs) -> None:
    alone, workers = jobs
    told = workers[0]["troubles"]
    for report in workers:
        assert report["troubles"] == told
    assert "callbacks=[fleetmetrics.integrations.hapi.GlobalValues()]" in told["no callback"]
    assert "callbacks=[fleetmetrics.integrations.hapi.GlobalValues()]" in alone["troubles"]["no callback"]
    for name in ("not dealt", "not dealt, training"):
        assert "the data are not divided among 3 workers, and would count more than once" in told[name]
        assert "no error" in alone["troubles"][name]
    assert "two would be logged under the same name, among loss, n, n" in told["two of one name"]
    assert "'n': '12'" in told["shuffled, no padding"]
    assert "'n': '10'" in told["shuffled"]
    assert "'n': '10', 'accuracy': " in told["two"]
    for name in ("bad label", "bad label, training"):
        assert told[name].startswith("InvalidInputError: on rank 1: accuracy (Accuracy): label")
    assert "rows, but" in told["ragged"]
    assert told["afterwards"] == alone["troubles"]["afterwards"]
    assert "'accuracy': " in told["afterwards"]


def test_a_group_has_the_values_of_its_own_samples_although_paddle_gathers_over_all(jobs) -> None:
    alone, workers = jobs
    for report, place in zip([alone, *workers], (1, 0, 1, 0)):
        found = report["groups"]
        whole = found["local"][place]
        for name in ("evaluate", "shuffled", "predict"):
            assert found[name] == whole, name
        assert [{key: end[key] for key in whole} for end in found["fit"]] == [whole] * 2
        assert found["two"]["n"] == ("9", "5")[place] and found["partly"] == {"n": ("8", "4")[place]}
        assert found["all again"] == {"n": "10"}


def test_an_evaluation_that_a_group_cannot_do_is_the_same_error_on_every_worker(jobs, request) -> None:
    _, workers = jobs
    gathers = not has_pir() or request.node.callspec.params["jobs"] == "dynamic"
    for rank, report in enumerate(workers):
        told = report["groups"]
        assert "the data are not divided among" in told["not for the group"], told
        assert "the data are not divided among 3 workers" in told["no group"]
        if not gathers:
            assert "no error" in told["other sizes"]
            continue
        assert told == {**workers[0]["groups"], **{name: told[name] for name in told if name not in ERRORS}}, rank
        assert (
            "they have 5 samples in batches of 2 on ranks 0, 2, 7 samples in batches of 2 on rank 1"
            in told["other sizes"]
        )
        assert "cuts off those beyond the size of the data set, regardless of groups" in told["theirs"]
        assert "cuts off the last samples as padding, which are not the padding" in told["theirs, shuffled"]


#: The error that all workers raise alike.
ERRORS = ("not for the group", "other sizes", "no group", "theirs", "theirs, shuffled")


@pytest.mark.thorough
def test_the_script_of_the_page_prints_the_same_on_three_workers(tmp_path: Path) -> None:
    """What one process prints, tests/test_docs.py looks at."""
    expected, printed = run_page(PAGE, "train.py", tmp_path)
    assert len(printed) == 3 and all(expected in text.splitlines() for text in printed), printed
