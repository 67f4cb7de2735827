"""Records that are folded on rank 0, or spread over the workers: the same pieces, the same bits."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.base.record_metric import RecordMetric
from fleetmetrics.comm.communicator import Letter
from fleetmetrics.records import fold
from fleetmetrics.records.table import Records
from tests.contract import CASES, batches, draw, feed, first_dtypes, plain
from tests.fakes import Together, together

pytestmark = pytest.mark.numpy_only

KEEPING = [name for name, case in CASES.items() if any(case.make().record_metrics())]


class Spreading(Together):
    spreads = True


@pytest.fixture(params=[300, 3000, 2**24], autouse=True)
def round_bytes(request: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(fold, "ROUND_BYTES", request.param)
    return int(request.param)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("weight", [None, "real"])
@pytest.mark.parametrize("name", KEEPING)
def test_the_bits_do_not_depend_on_the_worker_that_folds(name: str, weight: str | None, size: int) -> None:
    data = draw(name, first_dtypes(name), weight, mask=True)
    dealt = np.random.default_rng(3).integers(0, size, len(data.prediction))

    def work(channel: Together) -> Any:
        metric = CASES[name].make(name="it")
        columns = {key: column[dealt == channel.rank] for key, column in data.columns.items()}
        own = data.map(lambda part: part[dealt == channel.rank])._replace(columns=columns)
        feed(metric, batches(own), "numpy")
        return plain(metric.compute(communicator=channel))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [repr(value) for kind in (Together, Spreading) for value in together([work] * size, kind)]
    assert len(set(found)) == 1, found
    assert "Error" not in found[0]


def largest(records: Records) -> Records:
    """The largest score of each user."""
    users, place = np.unique(records["user"], return_inverse=True)
    score = np.full(len(users), -np.inf)
    np.maximum.at(score, place.reshape(-1), records["score"])
    return Records({"user": users, "score": score})


class Prepared(RecordMetric):
    """The sum of the users' largest scores; no worker sends more than one of each user, and how many were sent."""

    columns = ("user",)

    def __init__(self, **common: Any) -> None:
        super().__init__(**common)
        self.keep_records(("user", "score"), order="user", prepare=largest)

    def batch_records(self, batch: Any) -> Any:
        return {"user": batch.column("user"), "score": batch.values}

    def start(self) -> Any:
        return {"best": 0.0, "sent": 0}

    def piece(self, before: Any, records: Any, states: Any) -> Any:
        assert set(records) == {"user", "score"} and (np.diff(records["user"]) >= 0).all()
        return {"best": float(largest(records)["score"].sum()), "sent": len(records["user"])}

    def join(self, carry: Any, later: Any) -> Any:
        return {name: carry[name] + later[name] for name in carry}

    def formula(self, best: Any, sent: Any) -> Any:
        return best, sent


class PreparedInTurn(Prepared):
    """Folds each piece after the one before."""

    def fold(self, carry: Any, records: Any, states: Any) -> Any:
        return self.join(carry, self.piece(carry, records, states))


SLICED = {
    "in pieces": fm.GAUC,
    "by query": fm.NDCG,
    "one after the other": fm.ExactAUC,
    "all at once": fm.SpearmanCorrelation,
    "prepared": Prepared,
    "prepared, one after the other": PreparedInTurn,
}


@pytest.mark.filterwarnings("ignore::fleetmetrics.UndefinedMetricWarning")
@pytest.mark.parametrize("keys", [None, [0, 1, 2]])
@pytest.mark.parametrize("name", SLICED)
def test_slices_are_folded_piece_by_piece_like_metrics_of_their_own(name: str, keys: Any) -> None:
    rng = np.random.default_rng(5)
    score, label, slot = rng.integers(0, 999, 300) / 999, rng.integers(0, 2, 300), rng.integers(0, 3, 300)
    columns = {"user": rng.integers(0, 40, 300), "query": rng.integers(0, 40, 300)}
    if name in ("by query", "prepared, one after the other"):  # some pieces have samples of one slice only
        slot = columns["query" if name == "by query" else "user"] // 14
    parts = [np.arange(0, 140), np.arange(140, 300), np.empty(0, int)]

    def feed_one(metric: Any, own: Any, more: Any) -> None:
        needed = {each: columns[each][own] for each in columns if each in metric.columns}
        metric.add(score[own], *([] if "prepared" in name else [label[own]]), **needed, **more)

    def work(channel: Together) -> Any:
        metric = fm.Sliced(SLICED[name](), keys=keys, name="it")
        feed_one(metric, np.arange(3), {"slot": slot[:3], "mask": np.zeros(3, bool)})
        for own in np.array_split(parts[channel.rank], 3):
            if len(own):
                feed_one(metric, own, {"slot": slot[own]})
        return metric.compute(communicator=channel)

    for kind in (Together, Spreading):
        found = together([work] * 3, kind)
        for key in range(3):
            alone = SLICED[name]()
            if "prepared" in name:
                best = largest(Records({"user": columns["user"][slot == key], "score": score[slot == key]}))
                sent = sum(len(np.unique(columns["user"][own][slot[own] == key])) for own in parts)
                assert found[0][key] == (pytest.approx(best["score"].sum()), sent)
            else:
                feed_one(alone, slot == key, {})
                assert found[0][key] == pytest.approx(alone.compute(), rel=1e-12)
        assert repr(found[0]) == repr(found[1]) == repr(found[2])


class Sums(RecordMetric):
    """Which worker folded which scores."""

    columns = ("user",)
    failing = ""
    by: str | None = "user"

    def __init__(self, **common: Any) -> None:
        super().__init__(**common)
        self.keep_records(("user", "score"), order=self.by, key="users and scores")

    def batch_records(self, batch: Any) -> Any:
        return {"user": batch.column("user"), "score": batch.values}

    def start(self) -> Any:
        return {"pieces": [], "scores": [], "threads": []}

    def _fail(self, step: str, records: Any) -> None:
        if self.failing == step and 77 in records["user"]:
            raise KeyError("77")

    def ahead(self, records: Any, states: Any) -> Any:
        self._fail("ahead", records)
        return super().ahead(records, states)

    def piece(self, before: Any, records: Any, states: Any) -> Any:
        self._fail("piece", records)
        return {"pieces": [records["user"].tolist()], "scores": records["score"].tolist(), "threads": [id(self)]}

    def join(self, carry: Any, later: Any) -> Any:
        return {name: carry[name] + later[name] for name in carry}

    def formula(self, **carry: Any) -> Any:
        return carry


class OneByOne(Sums):
    """Folds each piece after the one before."""

    def fold(self, carry: Any, records: Any, states: Any) -> Any:
        return self.join(carry, self.piece(carry, records, states))


def users(metric: Sums | fm.MetricCollection, channel: Together) -> Any:
    metric.add(np.arange(0.0, 100), user=np.arange(100) // 2 * 2 + channel.rank % 2)
    return metric.compute(communicator=channel)


def test_each_worker_folds_its_pieces_and_they_are_joined_in_order(round_bytes: int) -> None:
    values = together([lambda channel: users(Sums(name="it"), channel)] * 4, Spreading)
    assert all(value == values[0] for value in values)
    seen = [user for piece in values[0]["pieces"] for user in piece]
    assert seen == sorted(seen) and len(seen) == 400
    assert len(set(values[0]["threads"])) == (1 if round_bytes == 2**24 else 4)


def test_pieces_are_cut_by_a_sketch_as_by_all_values(round_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def pieces() -> Any:
        values = together([lambda channel: users(Sums(name="it"), channel)] * 2)
        assert values[0] == values[1]
        return values[0]["pieces"]

    every = pieces()
    monkeypatch.setattr(fold, "SKETCH", 25)  # of a worker's 100 values
    found = pieces()
    assert [user for piece in found for user in piece] == [user for piece in every for user in piece]
    assert len(found) == len(every) and max(map(len, found)) <= max(map(len, every)) + 8


def test_a_metric_that_folds_one_by_one_stays_on_rank_0() -> None:
    values = together([lambda channel: users(OneByOne(name="it"), channel)] * 4, Spreading)
    assert all(value == values[0] for value in values)
    assert len(set(values[0]["threads"])) == 1


def test_a_metric_that_folds_one_by_one_keeps_those_of_its_table_on_rank_0() -> None:
    def work(channel: Together) -> Any:
        both = fm.MetricCollection({"spread": Sums(), "one by one": OneByOne()}, name="both")
        assert len(both.record_folds()) == 1
        return users(both, channel)

    values = together([work] * 4, Spreading)
    assert all(value == values[0] for value in values)
    assert len(set(values[0]["one by one"]["threads"])) == len(set(values[0]["spread"]["threads"])) == 1


class InOnePiece(Sums):
    by = None


@pytest.mark.parametrize("kind", [Together, Spreading])
def test_without_an_order_all_samples_are_in_one_piece_in_the_order_of_the_ranks(kind: type[Together]) -> None:
    def work(channel: Together) -> Any:
        metric = InOnePiece(name="it")
        metric.add([0.5, 0.25], user=[channel.rank + 10, channel.rank])
        return metric.compute(communicator=channel)

    for value in together([work] * 3, kind):
        assert value["pieces"] == [[10, 0, 11, 1, 12, 2]]


@pytest.mark.parametrize("kind", [Together, Spreading])
def test_equal_values_of_the_order_are_in_the_order_of_the_ranks_and_of_the_adds(kind: type[Together]) -> None:
    def work(channel: Together) -> Any:
        metric = Sums(name="it")
        for add in range(2):
            metric.add([channel.rank * 10 + add, channel.rank * 10 + add], user=[7, 5])
        return metric.compute(communicator=channel)

    for value in together([work] * 3, kind):
        assert value["scores"] == [0, 1, 10, 11, 20, 21] * 2


@pytest.mark.parametrize("kind", [Together, Spreading])
def test_a_piece_of_one_sample_is_known_to_those_behind_it(
    kind: type[Together], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "ROUND_BYTES", 8)
    score, label = np.arange(11) / 11, np.arange(11) % 3 == 1

    def work(channel: Together) -> Any:
        metric = fm.ExactAUC(name="it")
        metric.add(score[channel.rank :: 3], label[channel.rank :: 3])
        return metric.compute(communicator=channel)

    alone = fm.ExactAUC(name="it")
    alone.add(score, label)
    assert together([work] * 3, kind) == [alone.compute()] * 3


@pytest.mark.parametrize("step", ["ahead", "piece"])
def test_all_workers_raise_the_error_of_the_worker_that_folds(step: str) -> None:
    def work(channel: Together) -> Any:
        metric = Sums(name="it")
        metric.failing = step
        return users(metric, channel)

    found = together([work] * 4, Spreading)
    assert all(isinstance(each, fm.CommunicatorError) and "KeyError: '77'" in str(each) for each in found), found


@pytest.mark.parametrize("kind", [Together, Spreading])
def test_workers_of_which_some_have_closed_their_parts_get_an_error_that_names_them(kind: type[Together]) -> None:
    def work(channel: Together) -> Any:
        metric = fm.GAUC(name="it")
        metric.add([0.3, 0.4], [0, 1], user=[channel.rank, channel.rank])
        if channel.rank:
            metric.close("user")
        return metric.compute(communicator=channel)

    for each in together([work] * 3, kind):
        assert isinstance(each, fm.AgreementError) and "close the metric on all of them or on none: " in str(each)
        assert "open on rank 0, closed on ranks 1, 2" in str(each)


def test_users_that_are_strings_on_some_workers_and_numbers_on_others_are_an_error_that_says_so() -> None:
    def work(channel: Together) -> Any:
        metric = Sums(name="it")
        metric.add([0.5, 0.25], user=[["1", "2"], [1, 2]][channel.rank])
        return metric.compute(communicator=channel)

    for each in together([work] * 2):
        assert isinstance(each, fm.AgreementError) and "it: the workers' records differ: " in str(each)
        assert "user: strings, score: numbers on rank 0" in str(each)


def test_a_shuffle_delivers_to_each_worker_its_rows_from_every_worker() -> None:
    def work(channel: Together) -> Any:
        letters = [Letter([channel.rank, to], bytes([to]) * 16 * channel.rank) for to in range(3)]
        return [(note, bytes(payload)) for note, payload in channel.shuffle("test", letters)]

    found = together([work] * 3, Together)
    assert found == [[([rank, to], bytes([to]) * 16 * rank) for rank in range(3)] for to in range(3)]


def test_a_shuffle_with_too_few_letters_is_an_error_on_every_worker() -> None:
    found = together([lambda channel: channel.shuffle("test", [Letter(0)] * (3 - channel.rank))] * 3)
    texts = {f"{type(each).__name__}: {each}" for each in found}
    assert len(texts) == 1
    assert "letters must hold one for each of 3 workers, not 3 on rank 0, 2 on rank 1, 1 on rank 2" in texts.pop()
