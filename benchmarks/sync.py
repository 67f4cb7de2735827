"""Time one exchange between two workers: fleetmetrics, `paddle.distributed.fleet.metrics`, and bare Gloo.

    python benchmarks/sync.py [--rounds FACTOR] [--write benchmarks/README.md]

Two workers of a parameter-server job, with Paddle's Gloo on (PADDLE_WITH_GLOO=1), call each variant in turn, round
after round, in the same processes. Before a call they are lined up; its time runs from the moment when the last
worker enters to the moment when the last one leaves. Ratios are those of calls of the same round. One job carries
digests of heads alone, a second one digests of all.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Mapping

import numpy as np
from _job import Gate, Place, free_ports, place, report, run
from _report import HEADER, Target, arguments, machine, row, table, write

WORKERS = 2
SMALL, LARGE = 4096, 2**20
ROUNDS = {"small": 300, "large": 20, "eight": 150}
WARM_UP = 2
DIGESTS = ("heads", "all")
Variants = Mapping[str, Callable[[], Any]]
"""What is timed, by name."""


# The workers


def work(here: Place, factor: float) -> None:
    """Prepare the same numbers for everybody, check that the results agree, and time."""
    import paddle
    from paddle.distributed import fleet

    paddle.enable_static()
    fleet.init()
    gate = Gate(here.rank, here.workers)
    groups = {"small": auc_variants(here, SMALL), "large": auc_variants(here, LARGE)}
    groups["eight"], size = eight_variants(here)
    findings: dict[str, Any] = {"versions": {"Paddle": paddle.__version__, "NumPy": np.__version__}, "bytes": size}
    for name, variants in groups.items():
        rounds = max(3, round(factor * ROUNDS[name]))
        results, findings[name] = measure(variants, gate, rounds)
        check(name, results)
    report(findings)


def measure(variants: Variants, gate: Gate, rounds: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Call the variants in turn, each round beginning with another one; return their results and their times."""
    names = list(variants)
    results: dict[str, Any] = {}
    times: dict[str, Any] = {name: {"starts": [], "ends": []} for name in names}
    for number in range(-WARM_UP, rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            call = variants[name]
            gate.wait()
            start = time.perf_counter()
            result = call()
            end = time.perf_counter()
            if number >= 0:
                results[name] = result
                times[name]["starts"].append(start)
                times[name]["ends"].append(end)
    gate.wait()
    return results, times


def check(group: str, results: dict[str, Any]) -> None:
    """The values of both sides must be the same numbers, as far as float32 can say in theirs."""
    tolerance = 1e-5 if group == "eight" else 1e-12
    np.testing.assert_allclose(results["ours"], results["theirs"], rtol=tolerance)


def hold(name: str, array: Any) -> str:
    """Put an array into the scope, as a program's variable would lie there."""
    import paddle

    paddle.static.global_scope().var(name).get_tensor().set(np.asarray(array), paddle.CPUPlace())
    return name


def auc_variants(here: Place, buckets: int) -> Variants:
    """The AUC of histograms that lie in the scope in the shape of `paddle.static.auc`."""
    from paddle.distributed.fleet import metrics as theirs

    import fleetmetrics

    random = np.random.RandomState(here.rank)
    names = [
        hold(f"{stem}_{buckets}", random.randint(0, 1000, [1, buckets]).astype(np.int64))
        for stem in ("stat_pos", "stat_neg")
    ]
    return {"theirs": lambda: theirs.auc(*names), "ours": lambda: fleetmetrics.auc(*names)}


def eight_variants(here: Place) -> tuple[Variants, int]:
    """Eight values of the same samples, and a bare all-reduce of the bytes that our eight metrics exchange."""
    from paddle.distributed.fleet import metrics as theirs

    random = np.random.RandomState(here.rank)
    label = random.randint(0, 2, 100_000)
    score = np.clip(0.5 * random.rand(label.size) + 0.4 * label, 0, 1).astype(np.float32)
    collection = accumulated(score, label)
    size = 8 * sum(int(np.prod(state.shape)) for state in collection._states())

    p, bucket = score.astype(np.float64), (score * np.float32(SMALL - 1)).astype(np.int64)
    values = {
        "sum": [p.sum()],
        "max": [p.max()],
        "min": [p.min()],
        "correct": [float(np.sum((p > 0.5) == label))],
        "total": [float(label.size)],
        "stat_pos": np.bincount(bucket[label == 1], minlength=SMALL).reshape(1, -1),
        "stat_neg": np.bincount(bucket[label == 0], minlength=SMALL).reshape(1, -1),
        "abserr": [np.abs(p - label).sum()],
        "sqrerr": [np.square(p - label).sum()],
    }
    held = {name: hold(f"theirs_{name}", value) for name, value in values.items()}

    def eight_calls() -> list[float]:
        return [
            theirs.sum(held["sum"]).item(),
            theirs.max(held["max"]).item(),
            theirs.min(held["min"]).item(),
            theirs.acc(held["correct"], held["total"]),
            theirs.auc(held["stat_pos"], held["stat_neg"]),
            theirs.mae(held["abserr"], held["total"]),
            theirs.mse(held["sqrerr"], held["total"]),
            theirs.rmse(held["sqrerr"], held["total"]),
        ]

    variants = {
        "theirs": eight_calls,
        "ours": lambda: list(collection.compute().values()),
        "bare": bare_all_reduce(here, size),
    }
    return variants, size


def accumulated(score: np.ndarray, label: np.ndarray) -> Any:
    """The eight metrics, with their states filled by a static program."""
    import paddle

    import fleetmetrics

    collection = fleetmetrics.MetricCollection(
        {
            "sum": fleetmetrics.Sum(),
            "max": fleetmetrics.Max(),
            "min": fleetmetrics.Min(),
            "acc": fleetmetrics.Accuracy(),
            "auc": fleetmetrics.AUC(num_thresholds=SMALL - 1),
            "mae": fleetmetrics.MeanAbsoluteError(),
            "mse": fleetmetrics.MeanSquaredError(),
            "rmse": fleetmetrics.RootMeanSquaredError(),
        }
    )
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        collection.add(paddle.static.data("score", [None], "float32"), paddle.static.data("label", [None], "int64"))
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(startup)
    executor.run(main, {"score": score, "label": label.astype(np.int64)})
    return collection


def bare_all_reduce(here: Place, size: int) -> Callable[[], Any]:
    """Gloo itself, in a group that is made as fleetmetrics makes its own; the tensor is there already."""
    import paddle
    from paddle.base import core

    import fleetmetrics

    port = fleetmetrics.get_communicator().broadcast(np.array(free_ports(1))).item()
    store = core.TCPStore("127.0.0.1", port, here.rank == 0, here.workers, 30)
    group = core.ProcessGroupGloo.create(store, here.rank, here.workers, 4242)
    with paddle.base.dygraph.guard(paddle.CPUPlace()):
        tensor = paddle.zeros([size // 8], "int64")

    def reduce() -> Any:
        group.all_reduce(tensor, core.ReduceOp.SUM, True).wait()
        return store and None  # the store must live as long as the group

    return reduce


# The process that a person has started


def main() -> None:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    here = place()
    if here is not None:
        work(here, options.rounds)
        return
    given = ["--rounds", str(options.rounds)]
    text = show({each: run(__file__, WORKERS, gloo=True, arguments=given, digests=each) for each in DIGESTS})
    print(text)
    if options.write:
        write(options.write, "sync", text)


def show(findings: dict[str, list[dict[str, Any]]]) -> str:
    """The table of ratios, as Markdown."""
    rows = [each for digests, workers in findings.items() for each in rows_of(digests, workers)]
    return f"{machine(findings['all'][0]['versions'])}\n\n{table(HEADER, rows)}"


def rows_of(digests: str, findings: list[dict[str, Any]]) -> list[list[str]]:
    """The rows of one setting."""
    times = {
        group: {name: duration([worker[group][name] for worker in findings]) for name in findings[0][group]}
        for group in ROUNDS
    }
    size = findings[0]["bytes"]
    small, large, eight = (times[group] for group in ROUNDS)
    suffix = f"; digests of {digests}"
    small_auc, large_auc = (f"`auc`, {buckets:,} buckets{suffix}" for buckets in (SMALL, LARGE))
    calls = f"eight metrics in one exchange{suffix}"
    return [
        row(small_auc, "`fleet.metrics.auc`", small["ours"], small["theirs"], Target(">=", 10)),
        row(large_auc, "`fleet.metrics.auc`", large["ours"], large["theirs"], Target(">=", 30)),
        row(calls, "eight calls of `fleet.metrics`", eight["ours"], eight["theirs"], Target(">=", 15)),
        row(calls, f"bare Gloo all-reduce of {size:,} bytes", eight["ours"], eight["bare"], Target("<=", 2)),
    ]


def duration(workers: list[dict[str, list[float]]]) -> np.ndarray:
    """From the last worker's entry to the last worker's return; the clock is one for all processes of a machine."""
    starts, ends = (np.max([worker[what] for worker in workers], axis=0) for what in ("starts", "ends"))
    return np.asarray(ends - starts)


if __name__ == "__main__":
    main()
