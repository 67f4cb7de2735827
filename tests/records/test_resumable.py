"""Records and the pass of a sampler: one worker of three leaves it in the middle and goes on."""

from __future__ import annotations

import copy
import json
import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.evaluator import BaseMetric, Evaluator
from fleetmetrics.samplers.sampling import dealt_indices
from fleetmetrics.serial.serializer import pack, unpack

pytestmark = pytest.mark.numpy_only


def sampler_of(epoch: int = 3, **more: Any) -> Any:
    """As `paddle.io.DistributedBatchSampler`, in the pass of this epoch."""
    held = {"dataset": range(53), "batch_size": 4, "shuffle": True, "drop_last": False, **more}
    return SimpleNamespace(nranks=3, local_rank=1, epoch=epoch + 1, **held)


class Places(fm.BaseMetric):
    def compute_metric(self, results: Any) -> Any:
        return np.asarray(results["place"]).tolist() if len(results) else []


class Seen(BaseMetric):
    default_prefix = "seen"

    def process(self, data_batch: Any, data_samples: Any) -> None:
        self.results.extend(sample["place"] for sample in data_samples)

    def compute_metrics(self, results: Any) -> Any:
        return {"places": sorted(results)}


ORDER = dealt_indices(sampler_of(), epoch=3)
#: This worker's samples of the pass, each once.
KEPT = sorted(ORDER[~fm.padding_mask(sampler_of(), epoch=3)].tolist())


def added(metric: Any, start: int, stop: int) -> Any:
    metric.add(place=ORDER[start:stop])
    return metric


def places(metric: Any) -> Any:
    """The samples that its records are of, which their ids say, too."""
    records = metric._share().records
    found = np.concatenate([batch[0] for batch in records.batches]).tolist()
    assert np.concatenate(records.ids).tolist() == found
    return sorted(found)


def test_a_checkpoint_of_the_former_layout_goes_on() -> None:
    state = added(Places(sampler=sampler_of()), 0, 10).state_dict()
    about = json.loads(state["fleetmetrics"].tobytes())
    ((name, layout), (others, data)) = [(key, state[key]) for key in state if key != "fleetmetrics"]
    given, passed, epoch, calls = unpack(json.loads(layout.tobytes()), data.copy())
    assert passed[1:] == [10, 1, 18] and epoch == 3
    packed = pack([given, passed[:2], None, calls])  # settings, and how many samples were done
    state[name] = np.frombuffer(json.dumps(packed.layout).encode(), np.uint8)
    state[others] = np.frombuffer(b"".join(packed.buffers), np.uint8)
    for key in (name, others):
        about["arrays"][key][1] = [state[key].size]
    state["fleetmetrics"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    again = Places(sampler=sampler_of())
    again.set_state_dict(state)
    assert places(added(again, 10, 18)) == KEPT


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_pass_goes_on_whether_the_sampler_is_set_before_or_after_the_load(when: str) -> None:
    records, count = Places(sampler=sampler_of()), fm.Count(sampler=sampler_of())
    added(records, 0, 10)
    count.add(np.zeros(10))
    given = sampler_of() if when == "before" else None
    again = Places(sampler=given, dist_collect_mode="auto"), fm.Count(sampler=given)
    for one, other in zip(again, (records, count)):
        one.set_state_dict(other.state_dict())
        if when == "after":
            one.sampler = sampler_of()
    assert places(added(again[0], 10, 18)) == KEPT
    again[1].add(np.zeros(8))
    assert again[1].compute_local() == len(KEPT)
    with pytest.raises(fm.InvalidInputError, match="19 samples were added, but the sampler assigns 18"):
        again[1].add([0.0])


def test_another_sampler_that_is_set_after_a_load_begins_a_pass_of_its_own() -> None:
    again = Places(dist_collect_mode="auto")
    again.set_state_dict(added(Places(sampler=sampler_of()), 0, 10).state_dict())
    again.sampler = sampler_of(epoch=5)
    added(again, 0, 10)
    with pytest.raises(fm.InvalidInputError, match=r"10 records for 18 samples .* 0 before the checkpoint"):
        places(again)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda metric: pickle.loads(pickle.dumps(metric))])
def test_copies_and_pickles_know_the_pass_that_the_records_are_of(copied: Any) -> None:
    sampler = sampler_of()
    metric = added(Places(sampler=sampler), 0, 10)
    sampler.epoch += 1  # the next pass has begun
    again = added(copied(metric), 10, 18)
    assert again._share().dealing.epoch == metric._share().dealing.epoch == 3
    resumed = Places(sampler=sampler_of())
    resumed.set_state_dict(metric.state_dict())
    assert places(added(copied(resumed), 10, 18)) == KEPT


def test_an_evaluator_begins_a_pass_with_its_first_record_also_after_a_checkpoint() -> None:
    sampler = sampler_of(epoch=3)

    def processed(evaluator: Any, start: int, stop: int) -> Any:
        evaluator.process([{"place": int(place)} for place in ORDER[start:stop]])
        return evaluator

    evaluator = Evaluator(Seen(), sampler=sampler)
    processed(evaluator, 0, 10)
    evaluator.metrics[0].results.clear()
    sampler.epoch += 1
    processed(evaluator, 0, 10)
    assert evaluator.shares(None)[0].dealing.epoch == 4  # a pass that was left does not count
    sampler.epoch -= 1
    evaluator.reset()
    again = Evaluator(Seen(), sampler=sampler_of())
    again.set_state_dict(processed(evaluator, 0, 10).state_dict())
    again.process([])  # no record yet
    (share,) = processed(again, 10, 18).shares(None)
    assert sorted(record for batch in share.records.batches for record in batch[0]) == KEPT


def test_a_value_of_one_batch_leaves_the_pass_where_it_was() -> None:
    sampler = sampler_of()
    metric = Places(sampler=sampler)
    metric(place=[1, 2])
    sampler.epoch += 1  # the pass begins only now
    assert added(metric, 0, 10)._share().dealing.epoch == 4


def test_records_by_id_and_those_before_a_pass_keep_the_epoch() -> None:
    sampler = sampler_of()
    metric = Places(sampler=sampler)
    metric.add(place=ORDER[:4], ids=ORDER[:4])
    sampler.epoch += 5
    again = Places(sampler=sampler)
    again.set_state_dict(metric.state_dict())
    assert again._share().dealing.epoch == 3
