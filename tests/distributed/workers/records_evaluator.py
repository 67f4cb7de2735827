"""One worker of the tests of the evaluator: what it processed, and the result of all workers' records."""

from __future__ import annotations

import logging
import os
import pickle
from functools import partial
from pathlib import Path
from typing import Any, Callable

import paddle
from cluster import arguments, report
from watching import Watch, attempt, timed

import fleetmetrics as fm
from fleetmetrics.evaluator import BaseMetric, DumpResults, Evaluator, Evaluators

channel: Any = None
rank = world = 0
last = False
HERE = Path(os.environ["CLUSTER_DIRECTORY"])


class Seen(BaseMetric):
    """What it is given is the value."""

    default_prefix = "seen"

    def process(self, data_batch: Any, data_samples: Any) -> None:
        assert data_batch is None or data_batch == [-sample for sample in data_samples]
        self.results.extend(data_samples)

    def compute_metrics(self, results: list[Any]) -> dict[str, Any]:
        return {"records": [record if record is None else int(record) for record in results]}


class Total(BaseMetric):
    default_prefix = "total"

    def process(self, data_batch: Any, data_samples: Any) -> None:
        self.results.extend((lambda n=n: n) for n in data_samples)  # cannot be pickled, and need not

    def summarize(self, results: list[Any]) -> Any:
        return {"sum": sum(result() for result in results), "top": ("max", max(result() for result in results))}

    def compute_from(self, states: Any) -> dict[str, Any]:
        return {name: array.item() for name, array in states.items()}


class Renaming(Seen):
    """It has an ``evaluate`` of its own, as some of MMEngine's metrics have."""

    def evaluate(self, size: Any = None, **options: Any) -> dict[str, Any]:
        return {name.upper(): value for name, value in super().evaluate(size, **options).items()}


class Failing(Seen):
    error: Any = None

    def compute_metrics(self, results: list[Any]) -> dict[str, Any]:
        if self.error is not None:
            raise self.error
        return super().compute_metrics(results)


class Strict(Seen):
    def process(self, data_batch: Any, data_samples: Any) -> None:
        super().process(data_batch, [1 / sample and sample for sample in data_samples])


def make_sampler(samples: int, batch_size: int, shuffle: bool = False) -> Any:
    return paddle.io.DistributedBatchSampler(
        range(samples), batch_size, num_replicas=world, rank=rank, shuffle=shuffle, drop_last=False
    )


def passes() -> list[Any]:
    """Passes of Paddle's sampler through an evaluator that knows it, and one that does not."""
    found = []
    for samples, batch_size, shuffle in arguments()["passes"]:
        sampler = make_sampler(samples, batch_size, shuffle)
        knowing = Evaluator([Seen(), Renaming(prefix="own"), Total()], sampler=sampler)
        plain, dumping = Evaluator([Seen()]), Evaluator([DumpResults(HERE / "dumped.pkl")], sampler=sampler)
        for batch in sampler:
            for evaluator in (knowing, plain, dumping):
                evaluator.process(batch)
        values = [attempt(partial(evaluator.evaluate, samples)) for evaluator in (knowing, plain)]
        dumping.evaluate(samples)
        channel.barrier()
        dumped = pickle.loads((HERE / "dumped.pkl").read_bytes())
        channel.barrier()
        found.append([*values, dumped])
    return found


def nones() -> Any:
    """None is a record, and no worker loses one; some have none at all."""
    found = []
    for count in (3, 2 * rank, 3 * last):
        for mode in ("unzip", "cat", "batch"):
            evaluator = Evaluator(Seen(), collect_mode=mode)
            evaluator.process([None if n % 2 else 10 * rank + n for n in range(count)])
            found.append(evaluator.evaluate()["seen/records"])
    return found


def offline() -> list[Any]:
    """Every worker has all samples, and evaluates its part."""
    found = []
    for samples in (0, 1, 2, 5, 12, 13):
        for chunk_size in (1, 2, 5):
            evaluator = Evaluator([Seen(), Renaming(prefix="own"), *[Total()] * (samples > 0)])
            data = [-n for n in range(samples)] if chunk_size > 1 else None
            found.append(evaluator.offline_evaluate(iter(range(samples)), data, chunk_size))
    return found


def files() -> dict[str, Any]:
    """All write a file together, each reads its part of it; one whose sample fits no file stops all."""

    class Fields(BaseMetric):
        default_prefix = "fields"

        def process(self, data_batch: Any, data_samples: Any) -> None:
            self.results.extend([sample["label"], *sample["more"]["scores"]] for sample in data_samples)

        def compute_metrics(self, results: list[Any]) -> dict[str, Any]:
            return {"records": [[int(each) for each in record] for record in results], "here": len(self.results)}

    found: dict[str, Any] = {}
    for ending in arguments()["endings"]:
        sampler = make_sampler(13, 2, True)
        dumping = Evaluator(DumpResults(HERE / f"dumped{ending}"), sampler=sampler)
        for batch in sampler:
            dumping.process([{"label": n, "more": {"scores": [n, -n]}} for n in batch])
        dumping.evaluate()
        channel.barrier()
        values = Evaluator(Fields()).offline_evaluate(HERE / f"dum*{ending}", chunk_size=2)  # codespell:ignore
        found[ending] = values["fields/records"], values["fields/here"]
    odd = Evaluator(DumpResults(HERE / "odd.npz"), sampler=sampler)
    for batch in sampler:
        odd.process([{"label": [n] * (1 + (n == 12))} for n in batch])
    return {**found, "odd": attempt(odd.evaluate), "missing": attempt(lambda: Evaluator(Seen()).offline_evaluate("no"))}


def exchanges() -> dict[str, Any]:
    """How many consultations there are for one metric, for several, and for several sets."""

    def count(evaluator: Any, processing: Any) -> list[Any]:
        for each in processing:
            each.process([rank, rank + 1])
        before = channel.consults
        values = evaluator.evaluate()
        return [channel.consults - before, values]

    one, many = Evaluator([Total()]), Evaluator([Seen(), Total(), Seen(prefix="again"), Total(prefix="more")])
    sets = Evaluators({"a": Evaluator([Seen(), Total()]), "b": Evaluator([Total()]), "c": Evaluator(Seen())})
    return {"one": count(one, [one]), "many": count(many, [many]), "sets": count(sets, [sets[name] for name in sets])}


def directories() -> dict[str, Any]:
    """Records on their way through a directory; what else lies in it stays."""
    shared, own = HERE / "shared" / "new", HERE / f"own {rank}"
    for folder in (HERE / "shared", own):
        folder.mkdir(exist_ok=True)
        (folder / f"mine {rank}").write_text("stays")
    (HERE / f"file {rank}").touch()
    if rank == 0:
        (HERE / "shared" / "part_0.pkl").write_text("stays")  # what MMEngine would write, and then remove all
    channel.barrier()
    cases = {
        "new": dict(collect_dir=str(shared)),
        "shared": dict(collect_dir=str(HERE / "shared")),
        "own": dict(collect_dir=str(own), collect_dir_shared=False),
        "not really shared": dict(collect_dir=str(own)),
        "some shared": dict(collect_dir=str(HERE / "shared"), collect_dir_shared=not last),
        "some none": dict(collect_dir=None if last else str(HERE / "shared")),
        "a file": dict(collect_dir=str(HERE / f"file {rank}")),
        "a file on the last": dict(collect_dir=str(HERE / f"file {rank}" if last else own), collect_dir_shared=False),
    }
    found = {}
    for case, options in cases.items():
        evaluator = Evaluator([Seen(**options), Total(**options)], collect_mode="cat")
        evaluator.process([rank] * 3 if rank or world == 1 or case == "shared" else [])  # rank 0 may have none
        found[case] = timed(lambda evaluator=evaluator: evaluator.evaluate(timeout=20))
        channel.barrier()
        found[case] += (evaluator.metrics[0].results != [],)
    left = sorted(str(path.relative_to(HERE)) for name in ("shared", "own *") for path in HERE.glob(f"{name}/**/*"))
    channel.barrier()
    return {**found, "left": left, "contents": (own / f"mine {rank}").read_text()}


def troubles() -> dict[str, Any]:
    """What goes wrong on one worker, or on all."""
    found: dict[str, Any] = {}

    def case(
        name: str, evaluator: Any, *processed: Any, after: Callable[[], Any] | None = None, size: Any = None
    ) -> None:
        for samples in processed or ([1, 2],):
            for each in [evaluator[name] for name in evaluator] if isinstance(evaluator, Evaluators) else [evaluator]:
                each.process(samples)
        found[name] = timed(lambda: evaluator.evaluate(size, timeout=20))
        if after is not None:
            found[name] += (attempt(after),)

    twice = Evaluator([Seen(), Seen()])
    case("two of one name", twice, after=lambda: [metric.results for metric in twice.metrics])
    failing = Evaluator([Seen(prefix="a"), Failing(), Total()])
    failing.metrics[1].error = OSError(28, "No space left on device")

    def fixed() -> Any:
        failing.metrics[1].error = None
        return failing.evaluate(timeout=20)

    case("compute_metrics raises", failing, after=fixed)
    case("another prefix", Evaluator(Seen(prefix="mine" if last else "yours")))
    case("another metric", Evaluator([Seen(), *[Total()] * last]))
    case("another order", Evaluator([Seen(), Total()][:: -1 if last else 1]))
    case("another mode", Evaluator(Seen(), collect_mode="cat" if last else "auto"))
    case("another size", Evaluator(Seen()), size=2 * world - last)
    case("other sets", Evaluators({"b" if last else "a": Evaluator(Seen())}), size={})
    swapped = {"a": Evaluator(Seen()), "b": Evaluator(Seen())}
    case("other order of sets", Evaluators(dict(sorted(swapped.items(), reverse=last))))
    case("sizes for an unknown set", Evaluators({"a": Evaluator(Seen())}), size={"c" if last else "a": 2 * world})
    strict = Evaluator([Seen(), Strict(prefix="strict")])
    found["offline, one worker's chunk"] = (
        *timed(lambda: strict.offline_evaluate([1, 2, 3, 0][:world] if world > 3 else [*[1] * (world - 1), 0])),
        attempt(lambda: strict.offline_evaluate([3, 4, 5])["strict/records"]),
    )
    differing = Evaluator(Seen())
    found["offline, other samples"] = (
        *timed(lambda: differing.offline_evaluate(list(range(5 + last)), timeout=20)),
        attempt(lambda: differing.offline_evaluate([3, 4, 5])["seen/records"]),
    )
    (HERE / "a file").touch()
    dump = Evaluator([DumpResults(HERE / "a file" / "out.pkl"), Seen()])
    case("dumped into a file", dump, after=lambda: [len(metric.results) for metric in dump.metrics])
    return found


def warned() -> list[str]:
    """Only a worker that got nothing gets the warning."""
    told: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("fleetmetrics").addHandler(handler)
    evaluator = Evaluator(Seen())
    evaluator.process([1] if last else [])
    evaluator.evaluate(1)
    return told


if __name__ == "__main__":
    channel = Watch(fm.get_communicator())
    rank, world = channel.rank, channel.world_size
    last = rank == world - 1
    fm.set_communicator(channel)
    report(passes=passes(), nones=nones(), offline=offline(), files=files(), exchanges=exchanges())
    report(directories=directories(), troubles=troubles(), warned=warned())
