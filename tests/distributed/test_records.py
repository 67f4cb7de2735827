"""Records among real workers: what one process would have, in its order, on every rank."""

from __future__ import annotations

import math
from itertools import chain, product, zip_longest
from pathlib import Path
from typing import Any

import pytest

from tests.cover import quick_on, thorough
from tests.distributed.cluster import run

pytestmark = pytest.mark.distributed
WORKER = Path(__file__).parent / "workers" / "records.py"
QUICK = [pytest.param(("ps", 3), marks=quick_on(paddle=2))]
OTHERS = [("bare", 1), ("collective", 2), ("bare", 4), ("ps_gloo", 2)]
#: Batch size, samples, shuffle, drop_last, epoch.
PASSES = [
    (batch_size, samples, shuffle, drop_last, (batch_size + samples) % 4)
    for batch_size, samples in product((1, 2, 3, 5), (*range(1, 12), 13, 16))
    for shuffle, drop_last in product((False, True), (False, True))
]
#: Collect mode and batch size.
MODES = [("unzip", None), ("cat", None), ("batch", None), ("batch", 2), ("auto", 3)]
ODDS = ["appended", "listed", "ragged", "boxes", "objects", "objects after boxes", "objects after numbers", "dtypes"]
ODDS += ["dtypes without a common one"]
#: The number of records by rank.
SPLITS = {
    "even": [4, 4, 4, 4],
    "uneven": [2, 5, 3, 7],
    "the first has none": [0, 5, 3, 7],
    "the last has none": [3, 5, 0, 0],
    "none": [0, 0, 0, 0],
}


@pytest.fixture(scope="module", params=[*QUICK, *thorough(*OTHERS)], ids=lambda launch: f"{launch[0]}-{launch[1]}")
def reports(request: Any) -> list[dict[str, Any]]:
    launch, workers = request.param
    passes = PASSES if launch in ("bare", "collective") else PASSES[::7]
    splits = {name: [*counts[: workers - 1], counts[-1]] for name, counts in SPLITS.items()}
    args = {"launch": launch, "passes": passes, "modes": MODES, "splits": splits, "large": request.param == ("ps", 3)}
    return [{**report, "passes": passes, "splits": splits} for report in run(WORKER, workers, launch, args=args)]


def the_same(reports: list[dict[str, Any]], name: str) -> Any:
    assert len({repr(report[name]) for report in reports}) == 1, [report[name] for report in reports]
    return reports[0][name]


def in_turn(parts: list[list[Any]]) -> list[Any]:
    missing = object()
    return [each for turn in zip_longest(*parts, fillvalue=missing) for each in turn if each is not missing]


def expected_modes(splits: dict[str, list[int]]) -> dict[str, list[int]]:
    expected = {}
    for split, counts in splits.items():
        records = [[100 * rank + i for i in range(count)] for rank, count in enumerate(counts)]
        for mode, batch_size in MODES:
            size = batch_size or (3 if mode == "batch" else 1)  # the worker adds three at a time
            blocks = [[part[i : i + size] for i in range(0, len(part), size)] for part in records]
            order = list(chain.from_iterable(records if mode == "cat" else in_turn(blocks)))
            for way in ("columns", "appended") if (mode, batch_size) != ("batch", None) else ("columns",):
                expected[f"{mode} {batch_size} {split} {way}"] = order
    return expected


def test_every_worker_takes_part(reports: list[dict[str, Any]]) -> None:
    assert [(report["rank"], report["world"]) for report in reports] == [(n, len(reports)) for n in range(len(reports))]


def test_no_record_is_lost_in_any_mode(reports: list[dict[str, Any]]) -> None:
    """MMEval drops what a worker has more than the one that has least."""
    assert the_same(reports, "modes") == expected_modes(reports[0]["splits"])


def test_a_pass_of_paddles_sampler_is_the_data_set_in_its_order(reports: list[dict[str, Any]]) -> None:
    wrong = []
    for number, settings in enumerate(reports[0]["passes"]):
        _, samples, shuffle, drop_last, _ = settings
        dealt = sorted(set(chain.from_iterable(report["sampled"][number]["dealt"] for report in reports)))
        assert drop_last or dealt == list(range(samples))
        for report in reports:
            found = dict(report["sampled"][number])
            assert found.pop("local") == found.pop("dealt")
            found.pop("unzipped", None)
            assert ("blocks" in found) == (not shuffle and not drop_last)
            wrong += [(settings, way, value, dealt) for way, value in found.items() if value != dealt]
    assert wrong == []


def test_sample_by_sample_is_wrong_for_paddles_sampler(reports: list[dict[str, Any]]) -> None:
    """What MMEval and MMEngine do: with two workers the samples are right, with more they are not."""
    wrong_samples, wrong_order = set(), set()
    for settings, found in zip(reports[0]["passes"], reports[0]["sampled"]):
        batch_size, samples, *_ = settings
        if "unzipped" in found:
            wrong_samples |= {batch_size} if sorted(found["unzipped"]) != list(range(samples)) else set()
            wrong_order |= {batch_size} if found["unzipped"] != list(range(samples)) else set()
    workers = len(reports)
    assert 1 not in wrong_order
    assert not wrong_samples if workers < 3 else wrong_samples
    assert not wrong_order if workers < 2 else wrong_order


def test_tensors_out_of_a_loader_come_in_the_order_of_the_data_set(reports: list[dict[str, Any]]) -> None:
    for found in the_same(reports, "loaded"):
        assert list(found) == ["score", "square", "name"]
        assert (found["score"].dtype, found["square"].dtype) == ("float32", "int64")
        assert found["score"].tolist() == [n / 4 for n in range(23)]
        assert found["square"].tolist() == [[n * n] for n in range(23)]
        assert found["name"] == [f"{n * n}" for n in range(23)]


def test_a_sampler_of_a_users_own_that_pads_nothing(reports: list[dict[str, Any]]) -> None:
    """Where there are fewer samples than workers, some are dealt none."""
    found = iter(the_same(reports, "unpadded"))
    for samples, shuffle, _ in product((1, 2, 3, 4, 7, 11), (False, True), range(3)):
        assert next(found) == list(range(samples)), (samples, shuffle)


def test_more_records_than_go_at_once_come_over_in_order(reports: list[dict[str, Any]]) -> None:
    if reports[0]["large"] is not None:
        found, through_a_directory, expected = reports[0]["large"]
        assert found == through_a_directory == expected
        assert found[0] == 40_000 * sum(range(len(reports)))
        assert all(report["large"][:2] == [found, found] for report in reports)


@pytest.mark.parametrize("kind", ODDS)
def test_records_of_all_kinds_come_over_unchanged(reports: list[dict[str, Any]], kind: str) -> None:
    found, expected = the_same(reports, "odds")[kind]
    assert found == expected


@pytest.mark.parametrize("kind", ["integers", "texts", "empty_first", "wide"])
def test_a_sample_that_several_workers_have_counts_once(reports: list[dict[str, Any]], kind: str) -> None:
    found, workers = the_same(reports, "ids")[kind], len(reports)
    samples = list(range(workers + 2))
    if kind == "integers":
        assert found["name"] == [f"{n}" for n in samples]
        assert found["score"] == pytest.approx([n / 3 for n in samples], abs=1e-5)
    else:
        others = [n for n in reversed(range(workers)) if n != 1 % workers or workers == 2]
        assert found == {"texts": samples, "empty_first": others, "wide": list(range(workers))}[kind]


def test_where_a_sum_will_do_only_states_travel(reports: list[dict[str, Any]]) -> None:
    workers = len(reports)
    values = [[0.1 * (n + 1) * (rank + 1) for n in range(1000 * rank)] for rank in range(workers)]
    if workers == 1:
        return
    everything = list(chain.from_iterable(values))
    found = [report["states"] for report in reports]
    assert all(each["value"] == found[0]["value"] for each in found)
    value = found[0]["value"]
    assert (value["n"], value["top"], value["low"]) == (len(everything), [max(everything)], min(everything))
    assert value["sum"] == pytest.approx(math.fsum(everything), rel=1e-14)
    assert [each["summarized"] for each in found] == [0, *[1] * (workers - 1)]
    assert all(each["sent"] < 300 for each in found)


def test_records_go_to_rank_0_and_nowhere_else(reports: list[dict[str, Any]]) -> None:
    workers = len(reports)
    for rank, report in enumerate(reports):
        found = report["sizes"]
        assert found["value"] == {"mean": pytest.approx((workers + 1) / 2), "n": 100_000 * workers}
        assert found["sent"] == (800_000 if rank else 0)
        assert found["heard"] < 2000
        assert found["consults"] == (1 if workers == 1 else 2)


def check_poor(found: dict[str, Any], report: dict[str, Any], last: int) -> None:
    assert found["modes"] == report["modes"]
    assert found["ids"] == report["ids"]
    assert found["error"].startswith(f"InvalidInputError: {f'on rank {last}: ' if last else ''}size is -1")
    assert found["failing"] == "LookupError: no labels"
    if last:
        assert found["differing"].startswith("AgreementError: ")
        assert "Gathered on rank" in found["differing"] and f"Mean on rank {last}" in found["differing"]
    assert found["after"]


def test_a_communicator_of_a_users_own_gives_the_same(reports: list[dict[str, Any]]) -> None:
    check_poor(the_same(reports, "own"), reports[0], len(reports) - 1)


def test_so_does_fleet_util(reports: list[dict[str, Any]]) -> None:
    if "util" in reports[0]:
        check_poor(the_same(reports, "util"), reports[0], len(reports) - 1)
