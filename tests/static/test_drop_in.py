"""``static.auc`` and ``static.ctr_metric_bundle``: what the legacy graph's return, in the same order, everywhere."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from typing import Any

import numpy as np
import paddle
import pytest
from sklearn.metrics import roc_auc_score

import fleetmetrics as fm
from fleetmetrics import static
from tests.contract import new_programs
from tests.paddle_version import on_legacy_graph

BUCKETS = 8


def drawn(batches: int = 4, size: int = 6) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(0)
    scores = [random.random([size, 1]) for _ in range(batches)]
    return [{"score": each, "click": (random.random([size, 1]) < each).astype("int64")} for each in scores]


class Fed:
    """The inputs of a program."""

    def __init__(self, columns: int = 1, dtype: str = "float32", label: str = "int64") -> None:
        self.score = paddle.static.data("score", [-1, columns], dtype)
        self.click = paddle.static.data("click", [-1, 1], label)
        self.weight = paddle.static.data("weight", [1, 1], "float32")


class Feed(Fed):
    """A program over scores and clicks, in a scope of its own."""

    def __init__(self, build, dtype="float32", label="int64", columns=1):
        self.dtypes, self.columns = {"score": dtype, "click": label}, columns
        self.scope, self.executor = paddle.static.Scope(), paddle.static.Executor(paddle.CPUPlace())
        with new_programs() as (self.main, self.startup), paddle.static.scope_guard(self.scope):
            super().__init__(columns, dtype, label)
            self.made = build(self)
            self.executor.run(self.startup)

    def run(self, batches, fetched, weights=None):
        """What each run gives."""
        found = []
        with new_programs(), paddle.static.scope_guard(self.scope):
            for batch, weight in zip(batches, weights or [1] * len(batches)):
                both = (
                    np.concatenate([1 - batch["score"], batch["score"]], axis=1)
                    if self.columns == 2
                    else batch["score"]
                )
                feed = {"score": both, "click": batch["click"]}
                feed = {name: value.astype(self.dtypes[name]) for name, value in feed.items()}
                feed["weight"] = np.float32([[weight]])
                values = self.executor.run(self.main, feed=feed, fetch_list=list(fetched))
                found.append([np.array(value) for value in values])
        return found

    def read(self, variable):
        return np.array(self.scope.find_var(variable.name).get_tensor())


def histograms(batches):
    """What Paddle's buckets hold, by label."""
    score, click = (np.concatenate([batch[name] for batch in batches]) for name in ("score", "click"))
    place = (score.astype("float32") * (BUCKETS - 1)).astype(int)
    return [np.bincount(place[click == label], minlength=BUCKETS).tolist() for label in (1, 0)]


def area(batches):
    if not batches:
        return 0.0
    score, click = (np.concatenate([batch[name] for batch in batches]) for name in ("score", "click"))
    place = (score.astype("float32") * (BUCKETS - 1)).astype(int)
    return roc_auc_score(click.ravel(), place.ravel()) if 0 < click.mean() < 1 else 0.0


@pytest.mark.parametrize("dtype, label, columns", [("float32", "int64", 1), ("float64", "int32", 2)])
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_auc_gives_both_areas_and_the_statistics_behind_them(dtype, label, columns, steps):
    feed = Feed(
        lambda it: static.auc(it.score, it.click, num_thresholds=BUCKETS - 1, slide_steps=steps), dtype, label, columns
    )
    whole, latest, statistics = feed.made
    batches = drawn()
    for number, (auc, batch_auc, *found) in enumerate(feed.run(batches, [whole, latest, *statistics]), 1):
        window = batches[max(0, number - steps) if steps else 0 : number]
        assert auc == pytest.approx(area(batches[:number]), abs=1e-15) and auc.dtype == np.float64
        assert batch_auc == pytest.approx(area(window), abs=1e-15)
        assert all(each.dtype == np.int64 for each in found)
        assert [each.tolist() for each in found[2:]] == [[each] for each in histograms(batches[:number])]
        sums = [each.ravel()[steps * BUCKETS : (steps + 1) * BUCKETS].tolist() for each in found[:2]]
        assert sums == histograms(window)
    assert fm.auc(*statistics[2:], feed.scope) == pytest.approx(area(batches), abs=1e-15)
    assert fm.auc(*statistics[:2], feed.scope) == pytest.approx(area(batches[-steps:] if steps else batches))


@on_legacy_graph
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_auc_gives_bit_for_bit_what_the_legacy_graph_gives(steps):
    def build(it):
        both = [f(it.score, it.click, num_thresholds=15, slide_steps=steps) for f in (static.auc, paddle.static.auc)]
        assert [[list(each.shape), each.dtype] for each in both[0][2]] == [
            [list(each.shape), each.dtype] for each in both[1][2]
        ]
        return [[area, batch_area, *statistics] for area, batch_area, statistics in both]

    feed = Feed(build)
    for values in feed.run(drawn(6), [*feed.made[0], *feed.made[1]]):
        assert [each.tobytes() for each in values[:6]] == [each.tobytes() for each in values[6:]]


def test_a_fake_batch_does_not_count():
    feed = Feed(lambda it: static.auc(it.score, it.click, num_thresholds=BUCKETS - 1, ins_tag_weight=it.weight))
    _, _, statistics = feed.made
    batches = drawn()
    feed.run(batches, statistics, weights=[1, 0, 1, 0])
    counted = [feed.read(each).tolist() for each in statistics[2:]]
    assert counted == [[each] for each in histograms(batches[::2])]


@pytest.mark.parametrize("dtype, label", [("float32", "int64"), ("float64", "float32")])
def test_the_bundle_gives_six_sums_in_float64_and_int64(dtype, label):
    feed = Feed(lambda it: static.ctr_metric_bundle(it.score, it.click), dtype, label)
    batches = drawn()
    feed.run(batches, [])
    p, y = (np.concatenate([batch[name] for batch in batches]) for name in ("score", "click"))
    p = p.astype(dtype).astype("float64")
    expected = [((p - y) ** 2).sum(), abs(p - y).sum(), p.sum(), (1 / (1 + np.exp(-p))).sum(), y.sum(), p.size]
    found = [feed.read(each) for each in feed.made]
    assert [each.item() for each in found] == pytest.approx(expected, rel=1e-14)
    assert [str(each.dtype) for each in found] == ["float64"] * 4 + ["int64"] * 2
    assert all(each.shape == (1,) for each in found)
    sqrerr, abserr, _, _, _, total = feed.made
    assert fm.mae(abserr, total, feed.scope) == pytest.approx(expected[1] / p.size)
    assert fm.rmse(sqrerr, total, feed.scope) == pytest.approx((expected[0] / p.size) ** 0.5)


@on_legacy_graph
def test_the_bundle_is_that_of_the_legacy_graph_with_more_digits():
    def build(it):
        truth = paddle.cast(it.click, "float32")
        return [*static.ctr_metric_bundle(it.score, it.click), *paddle.static.ctr_metric_bundle(it.score, truth)]

    feed = Feed(build)
    feed.run(drawn(), [])
    found = [feed.read(each).item() for each in feed.made]
    assert found[:6] == pytest.approx(found[6:], rel=1e-6)


def test_counts_and_sums_do_not_stop_at_2_to_24():
    feed = Feed(lambda it: static.ctr_metric_bundle(it.score, it.click))
    with new_programs(), paddle.static.scope_guard(feed.scope):
        for state in static.states(feed.main):
            state.write(np.full([1], 2**24, state.dtype))
    feed.run(drawn(1), [])
    assert feed.read(feed.made[5]).item() == 2**24 + 6 and feed.read(feed.made[2]).item() % 1 > 0


def test_a_fake_batch_adds_nothing_to_any_sum():
    feed = Feed(lambda it: static.ctr_metric_bundle(it.score, it.click, it.weight))
    batches = drawn(2)
    feed.run(batches, [], weights=[1, 0])
    once = [feed.read(each).item() for each in feed.made]
    assert once[5] == 6 and once[2] == pytest.approx(batches[0]["score"].astype("float32").sum(), rel=1e-6)


def test_two_calls_do_not_share_and_states_resets_all():
    with pytest.warns(UserWarning, match="only the order of the calls"):
        feed = Feed(lambda it: [static.auc(it.score, it.click)[2][2] for _ in range(2)])
    feed.run(drawn(), [])
    assert feed.made[0].name != feed.made[1].name
    assert fm.sum(feed.made[0], feed.scope).sum() == fm.sum(feed.made[1], feed.scope).sum() > 0
    for state in static.states(feed.main):
        state.reset(feed.scope)
    assert fm.sum(feed.made[0], feed.scope).sum() == 0
    feed.run(drawn(), [])
    assert fm.sum(feed.made[0], feed.scope).sum() > 0


def test_a_name_replaces_the_generated_one():
    feed = Feed(
        lambda it: (
            static.auc(it.score, it.click, name="area")[2],
            static.ctr_metric_bundle(it.score, it.click, name="errors"),
        )
    )
    area, errors = ([each.name for each in made] for made in feed.made)
    assert area == ["area.batch_stat_pos", "area.batch_stat_neg", "area.stat_pos", "area.stat_neg"]
    assert errors == [f"errors.{name}" for name in ("sqrerr", "abserr", "prob", "q", "pos_num", "ins_num")]
    with pytest.raises(fm.DuplicateStateError, match=r"area\.batch_stat_pos"):
        Feed(lambda it: static.auc(it.score, it.click, name="area"))


def tower(name: str, feed: Fed) -> Any:
    """A prediction from the scores with parameters of its own."""
    weight, bias = (paddle.ParamAttr(f"{name}.{part}") for part in ("weight", "bias"))
    logit = paddle.static.nn.fc(feed.score, 1, weight_attr=weight, bias_attr=bias)
    return paddle.nn.functional.sigmoid(logit)


def captured(name: str, feed: Fed) -> Any:
    """A prediction that only the branches of a condition compute, of a parameter and of fed data."""
    weight = paddle.static.create_parameter([1], "float32", name=name)
    chosen = paddle.sum(feed.weight) > 0
    return paddle.static.nn.cond(chosen, lambda: feed.score * weight, lambda: feed.score + weight)


#: Calls that differ in what they are computed from, or in their settings.
CALLS = {
    "plain": lambda it: static.auc(it.score, it.click),
    "a tower": lambda it: static.auc(tower("first", it), it.click),
    "another tower": lambda it: static.auc(tower("second", it), it.click),
    "another label": lambda it: static.auc(it.score, paddle.static.data("buy", [-1, 1], "int64")),
    "thresholds": lambda it: static.auc(it.score, it.click, num_thresholds=7),
    "steps": lambda it: static.auc(it.score, it.click, slide_steps=3),
    "a weight": lambda it: static.auc(it.score, it.click, ins_tag_weight=it.weight),
    "a condition": lambda it: static.auc(captured("first.captured", it), it.click),
    "another condition": lambda it: static.auc(captured("second.captured", it), it.click),
}


def names_of_calls(calls: list[str]) -> dict[str, str]:
    """The name of each call in a program of a process that has made no other."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error")
        patch.setattr("fleetmetrics.static.drop_in._calls", Counter())
        with new_programs():
            feed = Fed()
            return {call: CALLS[call](feed)[2][0].name.rpartition(".")[0] for call in calls}


def test_without_a_name_the_variables_are_called_after_what_the_arguments_are_computed_from():
    names = names_of_calls([*CALLS])
    assert len({*names.values()}) == len(CALLS)
    assert names["plain"].startswith("static.auc.click.") and names["another label"].startswith("static.auc.buy.")
    assert names_of_calls([*CALLS][::-1]) == names
    assert names_of_calls(["another tower"])["another tower"] == names["another tower"]


@on_legacy_graph
def test_a_reader_in_the_program_changes_no_name():
    names = []
    for reads in (False, True):
        with pytest.MonkeyPatch.context() as patch, new_programs():
            patch.setattr("fleetmetrics.static.drop_in._calls", Counter())
            feed = Fed()
            if reads:
                paddle.base.io.DataLoader.from_generator([feed.score, feed.click], capacity=2, iterable=False)
            names.append(static.auc(feed.score, feed.click)[2][0].name)
    assert names[0] == names[1]


def test_calls_that_nothing_tells_apart_are_numbered_with_a_warning_that_asks_for_names():
    def two(it):
        return [static.auc(score, it.click)[2][2].name for score in (it.score, it.score / 2)]

    with pytest.warns(
        UserWarning, match=r"^static\.auc: an earlier call .*static\.auc\.click.* give each call a name="
    ):
        first, second = Feed(two).made
    assert re.fullmatch(r"static\.auc\.click\.\w{8}(_\d+)?\.stat_pos", first)
    assert re.fullmatch(r"static\.auc\.click\.\w{8}_\d+\.stat_pos", second) and first != second


def test_a_second_program_in_the_process_counts_apart_and_nothing_is_said():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        feeds = [Feed(lambda it: static.auc(it.score, it.click)[2][2].name) for _ in range(2)]
    assert feeds[0].made != feeds[1].made


def test_bad_arguments_are_named():
    with new_programs():
        score, click = paddle.static.data("s", [-1, 1], "float32"), paddle.static.data("c", [-1], "int64")
        with pytest.raises(
            fm.InvalidInputError, match=r"input and label must have one shape, not \[-1, 1\] and \[-1\]"
        ):
            static.ctr_metric_bundle(score, click)
        with pytest.raises(fm.InvalidInputError, match="num_thresholds must be an integer of at least 1, not 0"):
            static.auc(score, click, num_thresholds=0)
        with pytest.raises(fm.InvalidInputError, match="slide_steps must be an integer of at least 0, not -1"):
            static.auc(score, click, slide_steps=-1)
    for call in (static.auc, static.ctr_metric_bundle):
        with pytest.raises(fm.StaticProgramError, match="no static program is being built"):
            call(np.ones([2, 1]), np.ones([2, 1]))
