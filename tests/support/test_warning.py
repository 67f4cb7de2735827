"""How the package warns: at the line of who called it, once where many parts have the same to say."""

from __future__ import annotations

import _thread
import functools
import threading
import warnings
from types import ModuleType
from typing import Any

import pytest

from fleetmetrics.errors import BucketWarning, UndefinedMetricWarning
from fleetmetrics.support.warning import gathered, muted, muted_now, part_named, part_now, warn

pytestmark = pytest.mark.numpy_only


def inside(depth: int, name: str = "fleetmetrics.deep.inside") -> Any:
    """A function of the package that calls another one this many times, and then warns."""
    module = ModuleType(name)
    code = "def call(depth):\n    return warn(*said) if depth == 0 else call(depth - 1)\n"
    module.__dict__.update(warn=warn, said=("the value is undefined", UndefinedMetricWarning))
    exec(compile(code, f"<{name}>", "exec"), module.__dict__)
    return functools.partial(module.__dict__["call"], depth)


@pytest.mark.parametrize("depth", [0, 1, 7])
def test_a_warning_points_at_the_line_that_called_the_package(depth: int) -> None:
    with pytest.warns(UndefinedMetricWarning, match="^the value is undefined$") as told:
        inside(depth)()
    assert len(told) == 1 and told[0].filename == __file__


def test_what_only_begins_like_the_package_is_outside_of_it() -> None:
    with pytest.warns(UndefinedMetricWarning) as told:
        inside(2, "fleetmetrics_of_somebody_else")()
    assert told[0].filename == "<fleetmetrics_of_somebody_else>"


def test_a_thread_that_runs_only_the_package_still_warns() -> None:
    over = threading.Event()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        call = inside(2)
        call.func.__globals__["warn"] = lambda *said: (warn(*said), over.set())
        _thread.start_new_thread(call, ())
        assert over.wait(10)
    assert [str(each.message) for each in told] == ["the value is undefined"]


def test_a_category_that_is_muted_is_not_said_and_others_are() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with muted(BucketWarning):
            with muted(UndefinedMetricWarning):
                assert set(muted_now()) == {BucketWarning, UndefinedMetricWarning}
                warn("one", BucketWarning)  # what is muted outside is so inside
                warn("two", UndefinedMetricWarning)
                warn("three")
            warn("four", BucketWarning)
            warn("five", UndefinedMetricWarning)
        warn("six", BucketWarning)
    assert [str(each.message) for each in told] == ["three", "five", "six"] and muted_now() == ()


def test_what_derives_from_a_muted_category_is_muted() -> None:
    class Deeper(UndefinedMetricWarning):
        pass

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with muted(UndefinedMetricWarning):
            warn("one", Deeper)
        with muted(Deeper):
            warn("two", UndefinedMetricWarning)
    assert [str(each.message) for each in told] == ["two"]


def test_the_gatherer_repeats_warnings_in_their_order() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with gathered(UndefinedMetricWarning, BucketWarning) as said:
            warn("one", UndefinedMetricWarning)
            warn("two", BucketWarning)
            warn("three", UndefinedMetricWarning)
            warn("four")
            with muted(BucketWarning):
                warn("five", BucketWarning)
            with gathered(BucketWarning) as within:
                warn("six", BucketWarning)
                warn("seven", UndefinedMetricWarning)  # only what the nearest one gathers
        warn("eight", UndefinedMetricWarning)
    assert said == {UndefinedMetricWarning: ["one", "three"], BucketWarning: ["two"]}
    assert within == {BucketWarning: ["six"]}
    assert [str(each.message) for each in told] == ["four", "seven", "eight"]


def test_parts_are_named_from_the_outermost_and_only_inside() -> None:
    assert part_now() == ""
    with part_named("the last 2 batches"):
        with part_named("slot 3"):
            assert part_now() == " of the last 2 batches of slot 3"
        assert part_now() == " of the last 2 batches"
    assert part_now() == ""


def test_an_error_inside_ends_what_holds_inside() -> None:
    with pytest.raises(KeyError), muted(BucketWarning), part_named("slot 3"), gathered(UserWarning):
        raise KeyError
    assert muted_now() == () and part_now() == ""
    with pytest.warns(UserWarning, match="said"):
        warn("said")


def test_threads_do_not_mute_or_name_each_others_parts() -> None:
    found: list[Any] = []
    with muted(BucketWarning), part_named("slot 3"):
        thread = threading.Thread(target=lambda: found.append((muted_now(), part_now())))
        thread.start()
        thread.join()
    assert found == [((), "")]
