"""The evaluator among real workers: the values of one process, in one exchange."""

from __future__ import annotations

import re
from itertools import chain, product, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cover import quick_on, thorough
from tests.distributed.cluster import AT_ONCE, run

pytestmark = [pytest.mark.distributed, quick_on(paddle=2)]
WORKER = Path(__file__).parent / "workers" / "records_evaluator.py"
#: Samples, batch size, shuffle.
PASSES = list(product((1, 2, 5, 10, 13, 16), (1, 2, 3), (False, True)))
#: pyarrow takes no NumPy 1, which Paddle 2.6 needs.
ENDINGS = [".npz", *[".parquet"] * (not np.__version__.startswith("1."))]


@pytest.fixture(scope="module", params=[3, *thorough(1, 2)])
def reports(request: Any) -> list[dict[str, Any]]:
    return run(WORKER, request.param, args={"passes": PASSES, "endings": ENDINGS})


def the_same(values: list[Any]) -> Any:
    assert len({repr(value) for value in values}) == 1, values
    return values[0]


@pytest.mark.parametrize("metric", ["seen/records", "OWN/RECORDS", "total/sum", "total/top"])
def test_a_pass_of_paddles_sampler_evaluates_as_in_one_process(reports: list[dict[str, Any]], metric: str) -> None:
    wrong = []
    for (samples, *rest), (values, _, _) in zip(PASSES, the_same([report["passes"] for report in reports])):
        everything = list(range(samples))
        right = {"total/sum": sum(everything), "total/top": everything[-1]}.get(metric, everything)
        found = values[metric] if isinstance(values, dict) else values
        wrong += [] if found == right else [(samples, *rest, found)]
    assert wrong == []


def test_without_the_sampler_batches_make_the_order_where_nothing_is_shuffled(reports: list[dict[str, Any]]) -> None:
    for (samples, _, shuffle), (_, values, _) in zip(PASSES, the_same([report["passes"] for report in reports])):
        if not shuffle:
            assert values == {"seen/records": list(range(samples))}


def test_a_dump_is_in_the_order_of_the_data_set(reports: list[dict[str, Any]]) -> None:
    for (samples, *_), (_, _, dumped) in zip(PASSES, the_same([report["passes"] for report in reports])):
        assert dumped == list(range(samples))


def test_none_is_a_record_and_uneven_workers_lose_none(reports: list[dict[str, Any]]) -> None:
    workers, found = len(reports), iter(the_same([report["nones"] for report in reports]))
    missing = object()
    for count in (lambda rank: 3, lambda rank: 2 * rank, lambda rank: 3 * (rank == workers - 1)):
        parts = [[None if n % 2 else 10 * rank + n for n in range(count(rank))] for rank in range(workers)]
        turns = chain.from_iterable(zip_longest(*parts, fillvalue=missing))
        assert next(found) == [record for record in turns if record is not missing]
        assert next(found) == list(chain.from_iterable(parts))
        assert next(found) == list(chain.from_iterable(parts))


def test_offline_evaluation_is_that_of_one_process(reports: list[dict[str, Any]]) -> None:
    found = iter(the_same([report["offline"] for report in reports]))
    for samples, _ in product((0, 1, 2, 5, 12, 13), (1, 2, 5)):
        sums = {"total/sum": sum(range(samples)), "total/top": samples - 1} if samples else {}
        values = next(found)
        assert values.pop("OWN/RECORDS") == list(range(samples))
        assert values == {"seen/records": list(range(samples)), **sums}


@pytest.mark.parametrize("ending", ENDINGS)
def test_all_write_one_file_and_each_evaluates_its_part_of_it(reports: list[dict[str, Any]], ending: str) -> None:
    records, on_the_first = the_same([report["files"][ending] for report in reports])
    assert records == [[n, n, -n] for n in range(13)]
    assert on_the_first == sum(2 - (start == 12) for start in range(0, 13, 2 * len(reports)))


def test_a_field_that_fits_no_file_and_a_file_that_is_not_there_are_errors_on_all(
    reports: list[dict[str, Any]],
) -> None:
    found = [report["files"] for report in reports]
    assert begins(
        the_same([each["odd"] for each in found]), "InvalidInputError: ...the field 'label' is list [1] in sample"
    )
    assert begins(the_same([each["missing"] for each in found]), "DataError: ...'no' is not a file")


def test_several_metrics_and_several_sets_are_one_exchange(reports: list[dict[str, Any]]) -> None:
    found, workers = the_same([report["exchanges"] for report in reports]), len(reports)
    assert [found[name][0] for name in ("one", "many", "sets")] == [1 if workers == 1 else 2] * 3
    records = list(chain.from_iterable([rank, rank + 1] for rank in range(workers)))
    sums = {"sum": sum(records), "top": workers}
    assert found["one"][1] == {f"total/{name}": value for name, value in sums.items()}
    for prefix in ("seen", "again"):
        assert found["many"][1][f"{prefix}/records"] == records
    assert found["many"][1]["more/sum"] == sums["sum"]
    names = {"a": ["seen/records", "total/sum", "total/top"], "b": ["total/sum", "total/top"], "c": ["seen/records"]}
    assert list(found["sets"][1]) == [f"{name}/{value}" for name, values in names.items() for value in values]
    assert found["sets"][1]["c/seen/records"] == records


def test_records_may_go_through_a_directory(reports: list[dict[str, Any]]) -> None:
    workers = len(reports)
    for case in ("new", "shared", "own"):
        text = the_same([report["directories"][case][0] for report in reports])
        first = 0 if case == "shared" or workers == 1 else 1
        records = [rank for rank in range(first, workers) for _ in range(3)]
        values = {"seen/records": records, "total/sum": sum(records), "total/top": workers - 1}
        assert text == f"no error, but {values}"
        assert not any(report["directories"][case][2] for report in reports)


def test_other_files_in_the_directory_stay(reports: list[dict[str, Any]]) -> None:
    ranks = range(len(reports))
    stay = ["shared/new"] * (len(reports) > 1) + ["shared/part_0.pkl", *[f"shared/mine {rank}" for rank in ranks]]
    stay += [f"own {rank}/mine {rank}" for rank in ranks]
    for report in reports:
        assert report["directories"]["left"] == sorted(stay)
        assert report["directories"]["contents"] == "stays"


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("not really shared", "InvalidInputError: on rank 1: collect_dir '...' is not the directory that rank 0 sees"),
        ("some shared", "AgreementError: Seen...: the workers differ: collect_dir shared on OTHERS, collect_dir not"),
        ("some none", "AgreementError: Seen...: the workers differ: collect_dir shared on OTHERS, collect_dir None"),
        ("a file", "CommunicatorError: ...FileExistsError"),
        ("a file on the last", "CommunicatorError: on LAST: FileExistsError..."),
    ],
)
def test_a_directory_that_is_wrong_is_an_error_on_all(reports: list[dict[str, Any]], case: str, text: str) -> None:
    found = the_same([report["directories"][case][0] for report in reports])
    if len(reports) == 1:
        assert found.startswith("no error")  # nothing goes through it
        return
    assert begins(found, filled(text, len(reports)))
    assert all(report["directories"][case][1] < AT_ONCE for report in reports)
    assert all(report["directories"][case][2] for report in reports[1:])  # the results stay


def filled(text: str, workers: int) -> str:
    others = "rank 0" if workers == 2 else f"ranks {', '.join(map(str, range(workers - 1)))}"
    return text.replace("OTHERS", others).replace("LAST", f"rank {workers - 1}")


def begins(text: str, expected: str) -> bool:
    """Whether the text begins like this; "..." stands for anything."""
    return re.match(".*?".join(map(re.escape, expected.split("..."))), text, re.DOTALL) is not None


TROUBLES = {
    "two of one name": "InvalidInputError: There are multiple evaluation results with the same metric name seen/",
    "compute_metrics raises": "OSError: [Errno 28] No space left on device",
    "another prefix": "AgreementError: the workers compute different metrics: Seen yours on OTHERS, Seen mine on LAST",
    "another metric": "AgreementError: the workers compute different metrics: Seen... on LAST",
    "another order": "AgreementError: the workers compute different metrics: Seen...Total... on OTHERS, Total...",
    "another mode": "AgreementError: Seen...: the workers differ: mode batch on OTHERS, mode cat on LAST",
    "another size": "AgreementError: Seen...: the workers differ: size ",
    "other sets": "AgreementError: ",
    "other order of sets": "AgreementError: ",
    "sizes for an unknown set": "InvalidInputError: on LAST: sizes names c; known sets are a",
    "offline, one worker's chunk": "CommunicatorError: on LAST: ZeroDivisionError: division by zero",
    "offline, other samples": "AgreementError: Seen...: the workers differ: size 5 on OTHERS, size 6 on LAST",
    "dumped into a file": "",
}


@pytest.mark.parametrize("case", TROUBLES)
def test_every_worker_raises_an_error_at_once(reports: list[dict[str, Any]], case: str) -> None:
    found, workers = [report["troubles"][case] for report in reports], len(reports)
    text = the_same([each[0] for each in found])
    assert all(each[1] < AT_ONCE for each in found)
    if workers == 1 and case.startswith(("another", "other", "offline, other", "sizes")):
        return
    if workers > 1:
        assert begins(text, filled(TROUBLES[case], workers)), text
    assert not text.startswith("no error")
    if case == "two of one name":
        assert all(each[2] == [[1, 2], [1, 2]] for each in found)
    elif case == "compute_metrics raises":
        assert all(list(each[2]) == ["a/records", "seen/records", "total/sum", "total/top"] for each in found)
        assert found[0][2]["total/sum"] == 3 * workers
    elif case.startswith("offline"):
        assert all(each[2] == [3, 4, 5] for each in found)  # no trace of the failure is left
    elif case == "dumped into a file":
        assert text.partition(":")[0] in ("FileExistsError", "NotADirectoryError")
        assert all(each[2] == [2, 2] for each in found)


def test_only_who_got_nothing_is_warned(reports: list[dict[str, Any]]) -> None:
    for rank, report in enumerate(reports):
        told = [text for text in report["warned"] if "got empty `self.results`" in text]
        assert len(told) == (rank < len(reports) - 1)
