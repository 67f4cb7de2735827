"""Records that are not one to one with samples, among real workers: no wrong number without a warning."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.cover import quick_on, thorough
from tests.distributed.cluster import run

pytestmark = [pytest.mark.distributed, quick_on(paddle=3)]
WORKER = Path(__file__).parent / "workers" / "fewer_records.py"
#: Samples, batch size, shuffle.
PASSES = list(product((1, 2, 5, 8, 10, 13, 16), (1, 2, 3), (False, True)))


@pytest.fixture(scope="module", params=[3, *thorough(1)])
def reports(request: Any) -> list[dict[str, Any]]:
    return run(WORKER, request.param, args={"passes": PASSES})


def the_same(reports: list[dict[str, Any]], name: str) -> Any:
    """What all workers have found alike, and were warned of alike."""
    values = [repr(report[name]) for report in reports]
    assert len(set(values)) == 1, values
    return reports[0][name]


def dealt(samples: int, batch_size: int, workers: int) -> tuple[list[list[int]], int]:
    """The unshuffled batches in the order of dealing, as positions, and the number of repeated samples."""
    each = -(-samples // workers)
    starts = range(0, each, batch_size)
    batches = []
    for start in starts:
        length = min(batch_size, each - start)
        batches += [
            list(range(start * workers + r * length, start * workers + (r + 1) * length)) for r in range(workers)
        ]
    return batches, each * workers - samples


def check(found: Any, expected: list[int], warnings: list[str], mixed: int | None, about: str) -> None:
    """The number is right; or it is not, and the warning says of how many samples, unless these are shuffled (None)."""
    own = [text for text in warnings if text.startswith(f"{about}:")]
    assert mixed is None or bool(own) == bool(mixed), (found, expected, warnings)
    if own:
        assert re.search(f"{mixed or '[0-9]+'} samples? may count twice", own[0])
        assert len(found) >= len(expected) and set(found) == set(expected)
    else:
        assert (sorted(found) if mixed is None else found) == (sorted(expected) if mixed is None else expected)


def in_mixed(samples: int, batch_size: int, workers: int, counts: Any = bool) -> int:
    """How many repeated samples are in batches that hold others, and have left records."""
    batches, _ = dealt(samples, batch_size, workers)
    odd = [batch for batch in batches if min(batch) < samples <= max(batch) and counts(batch)]
    return sum(position >= samples for batch in odd for position in batch)


def leaves_fewer(samples: int) -> Any:
    """Batches of which some samples are divisible by three, and others are not."""
    return lambda batch: 0 < sum(position % samples % 3 > 0 for position in batch) < len(batch)


def test_metrics_in_an_evaluator_give_what_one_process_gives_or_warn(reports: list[dict[str, Any]]) -> None:
    workers = len(reports)
    for (samples, batch_size, shuffle), (knowing, columns, *plain) in zip(PASSES, the_same(reports, "evaluators")):
        everything = list(range(samples))
        sifted = [n for n in everything if n % 3]
        odd, even = [n for n in everything if n % 2], [n for n in sifted if n % 2 == 0]
        mixed = in_mixed(samples, batch_size, workers)
        for values, warned in (knowing, *plain):
            if not sifted or not even or not odd:
                assert "no records" in values or "0 records were" in values, values
                continue
            expected = {
                "Filtering": (sifted, in_mixed(samples, batch_size, workers, leaves_fewer(samples))),
                "Batched": (everything, mixed),
                "Doubling": ([sign * n for n in everything for sign in (1, -1)], mixed),
                "Batched odd": (odd, None),
                "Filtering even": (even, None),
            }
            for name, (right, twice) in expected.items():
                check(values[f"{name.lower().split()[-1]}/records"], right, warned, None if shuffle else twice, name)
        if not shuffle:
            values, warned = columns
            assert values == {"columns/correct": samples + mixed, "columns/size": samples + mixed}
            assert bool(warned) == bool(mixed)


def test_a_batch_that_is_padding_as_a_whole_is_cut_exactly(reports: list[dict[str, Any]]) -> None:
    """With 10 samples, a batch size of 2 and three workers, the last worker's last batch repeats samples 0 and 1."""
    found = the_same(reports, "evaluators")[PASSES.index((10, 2, False))]
    for values, warned in (found[0], found[2]):
        assert values["batched/records"] == list(range(10))
        assert values["filtering/records"] == [1, 2, 4, 5, 7, 8]
        assert (values["odd/records"], values["even/records"]) == ([1, 3, 5, 7, 9], [2, 4, 8])
        assert not warned


def test_metrics_in_mmevals_way_do_as_well(reports: list[dict[str, Any]]) -> None:
    workers = len(reports)
    for (samples, batch_size, shuffle), found in zip(PASSES, the_same(reports, "metrics")):
        everything = list(range(samples))
        sifted = [n for n in everything if n % 3]
        for (value, warned), name, right in zip(found, ("Added", "Sifted") * 2, (everything, sifted) * 2):
            if not right:
                assert "no records" in value or "0 records were" in value, value
            else:
                counts = leaves_fewer(samples) if name == "Sifted" else bool
                check(value, right, warned, None if shuffle else in_mixed(samples, batch_size, workers, counts), name)


def counted_in(warned: list[str], words: str) -> int:
    """How many samples the warnings that say this are about."""
    found = [re.search(f": ([0-9]+) (of [0-9]+ )?(?:samples?|records?) (?:{words}", text) for text in warned]
    return sum(int(each[1]) for each in found if each)


def test_so_it_is_where_samples_are_dealt_one_by_one(reports: list[dict[str, Any]]) -> None:
    for samples, evaluated, added, by_itself in the_same(reports, "interleaved"):
        everything = list(range(samples))
        values, warned = evaluated
        if samples == 1:
            assert "0 records were" in values
        else:
            mixed = any("may count twice" in text for text in warned)
            assert set(values["batched/records"]) == set(everything)
            assert mixed or sorted(values["batched/records"]) == everything
            assert set(values["filtering/records"]) == {n for n in everything if n % 3}
            assert mixed or sorted(values["filtering/records"]) == [n for n in everything if n % 3]
        value, warned = added
        assert set(value) == set(everything)
        assert sorted(value) == everything or any("may count twice" in text for text in warned)
        value, warned = by_itself
        if samples > 1:
            padding = -samples % len(reports)
            cut, twice = (counted_in(warned, words) for words in ("are|is) cut off", "may) count twice"))
            assert cut + twice == padding and len(value["batched/records"]) == samples + twice


def test_missing_samples_are_an_error_and_unknown_ones_a_warning(
    reports: list[dict[str, Any]],
) -> None:
    workers = len(reports)
    for report in reports:
        found = report["troubles"]
        assert found["a batch is lost"][0].startswith(f"InvalidInputError: Filtering: size is {3 * workers}, but ")
        assert found["no records"][0].startswith(f"InvalidInputError: Filtering: size is {2 * workers}, but 0 records")
        assert found["no records, sampler"][0].startswith("InvalidInputError: Filtering: no records")
        assert sorted(found["not known"][0]) == sorted([1, 2] * workers)
        if workers > 1:  # records of 2, 2 and 1 samples: no sampler has dealt them so
            assert len(found["not known, and cut"][0]) == 2 * workers - 2
            assert "1 is cut off" in " ".join(found["not known, and cut"][1])
        assert found["kept back"][0] == {"filtering/records": [1, 2]}
        assert found["one image at a time"] == [[0, 1] if workers > 1 else [0], []]
        assert found["nested"][0] == {"odd/records": [1, 3] * workers, "even/records": [2] * workers}
        for case, several in (("not known", True), ("kept back", workers > 1), ("nested", False)):
            text = " ".join(found[case][1])
            assert ("The number of their samples is unknown" in text) == several, (case, text)


def test_a_script_for_mmeval_is_global_after_its_imports_were_changed(reports: list[dict[str, Any]]) -> None:
    """With MMEval's own base it would be local on each worker, silently."""
    assert [report["script"] for report in reports] == [{"right": 2 * len(reports)}] * len(reports)
