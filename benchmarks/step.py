"""Time a training step of the wide and deep example without metrics, with fleetmetrics, and with statistics by hand.

    python benchmarks/step.py [--rounds FACTOR] [--write benchmarks/README.md]

One process builds the network of `examples/wide_and_deep` and trains it on the example's data, batch size 512. The
variants are copies of one program that differ in the metrics alone and share the parameters. They take turns: a few
steps of each, round after round; ratios and differences are those of the same round. All of it twice: with the
parameters on a server, as in the example, and with the whole tables in the process.

A last table has the same five metrics for ten tasks, in steps of 50 ms of other work, which leave the caches cold.
"""

from __future__ import annotations

import time
from typing import Any, Callable, NamedTuple

import numpy as np
from _job import place, report, run, wait_for_servers
from _report import Target, arguments, machine, quotient, seconds, table, write

BATCH_SIZE, BUCKETS = 512, 4096
STEPS = 10
"""Steps of one variant in one round, without a pause."""
WARM_UP = 3
ROUNDS = {1: 200, 0: 40}
"""By the number of servers."""
PLACES = {1: "on a server", 0: "in the process"}
"""Where the embedding tables are."""
TASKS, STEP_SECONDS, TASK_STEPS = 10, 0.05, 100
"""The tasks of the last table, the other work of its steps, and how many there are."""
TITLES = {
    "none": "no metrics",
    "metrics": "fleetmetrics",
    "unchecked": "fleetmetrics, `validate=False`",
    "by hand": "by hand",
}


class Variant(NamedTuple):
    """A training program, and the executor that runs nothing else.

    One executor keeps only the eight programs it ran last ready to run.
    """

    program: Any
    operations: int
    executor: Any


# The worker


def work(servers: int, factor: float) -> None:
    """Build the variants, check that their values agree, and time their steps."""
    import paddle

    import model
    import reader

    paddle.enable_static()
    paddle.seed(0)
    source = reader.RandHealth()
    network, pull, close = (build_with_servers if servers else build_locally)(model, source.layout)
    names = network.prediction.name, network.label.name
    program = network.loss.block.program
    feeds = list(reader.read(source, 0, 1).train.batches(BATCH_SIZE))[:-1]  # all of one size
    check(program, names, feeds)
    makers = {"none": lambda *_: None, "metrics": with_metrics, "unchecked": without_check, "by hand": by_hand}
    variants = {name: extend(program, names, maker)[0] for name, maker in makers.items()}

    def steps(name: str, number: int) -> tuple[float, float]:
        """The seconds and the processor seconds of a step."""
        executor, program = variants[name].executor, variants[name].program
        batches = [feeds[(number * STEPS + i) % len(feeds)] for i in range(STEPS)]
        start, processor = time.perf_counter(), time.process_time()
        for feed in batches:
            pull()
            executor.run(program, feed, [network.loss])
        return (time.perf_counter() - start) / STEPS, (time.process_time() - processor) / STEPS

    times: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    for number in range(-WARM_UP, max(3, round(factor * ROUNDS[servers]))):
        shift = number % len(variants)
        for name in [*variants][shift:] + [*variants][:shift]:
            taken = steps(name, number)
            if number >= 0:
                times[name].append(taken)
    report(
        {
            "versions": {"Paddle": paddle.__version__, "NumPy": np.__version__},
            "times": times,
            "operations": {name: variant.operations for name, variant in variants.items()},
        }
    )
    close()


def build_with_servers(model: Any, layout: Any) -> tuple[Any, ...]:
    """The example's way: the parameters live on a server.

    Returns:
        The network, what comes before a step, and what comes at the end.
    """
    import paddle
    from paddle.distributed import fleet

    import servers

    with servers.quiet():
        fleet.init()
    network = model.build(layout)
    with servers.quiet():
        servers.minimize(network, 0.005)
        paddle.static.Executor(paddle.CPUPlace()).run(paddle.static.default_startup_program())
        wait_for_servers()
        fleet.init_worker()
    return network, servers.Parameters().pull, fleet.stop_worker


def build_locally(model: Any, layout: Any) -> tuple[Any, ...]:
    """The same network with its tables in the process."""
    import paddle

    network = model.build(layout, on_servers=False)
    paddle.optimizer.Adam(0.005).minimize(network.loss)
    paddle.static.Executor(paddle.CPUPlace()).run(paddle.static.default_startup_program())

    def nothing() -> None:
        pass

    return network, nothing, nothing


def serve() -> None:
    """The server of the job; it is ended with it."""
    import paddle
    from paddle.distributed import fleet

    import model
    import reader
    import servers

    paddle.enable_static()
    fleet.init()
    servers.minimize(model.build(reader.RandHealth.layout), 0.005)
    servers.serve()


# The variants


def extend(program: Any, names: tuple[str, str], maker: Callable[..., Any]) -> tuple[Variant, Any]:
    """A copy of the training program with what `maker` adds for the prediction and the label; and what that returns."""
    import paddle

    copy, startup = program.clone(), paddle.static.Program()
    block = copy.global_block()
    before = len(block.ops)
    with paddle.static.program_guard(copy, startup):
        made = maker(*(block.var(name) for name in names))
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(startup)
    return Variant(copy, len(block.ops) - before, executor), made


def templates() -> dict[str, Any]:
    """AUC, accuracy, MAE, MSE and log loss."""
    import fleetmetrics

    return {
        "auc": fleetmetrics.AUC(num_thresholds=BUCKETS - 1),
        "accuracy": fleetmetrics.Accuracy(),
        "mae": fleetmetrics.MeanAbsoluteError(),
        "mse": fleetmetrics.MeanSquaredError(),
        "log_loss": fleetmetrics.LogLoss(),
    }


def collection(validate: bool = True, name: str | None = None) -> Any:
    """The metrics, in one collection."""
    import fleetmetrics

    return fleetmetrics.MetricCollection(templates(), validate=validate, name=name)


def with_metrics(prediction: Any, label: Any, validate: bool = True, name: str = "checked") -> Any:
    """What fleetmetrics adds to a program for the collection."""
    metrics = collection(validate, name)
    metrics.add(prediction, label)
    return metrics


def without_check(prediction: Any, label: Any) -> Any:
    return with_metrics(prediction, label, validate=False, name="unchecked")


def by_hand(prediction: Any, label: Any) -> dict[str, Any]:
    """The same statistics as the examples in the docs of `paddle.distributed.fleet.metrics` write them.

    With two corrections: those add to the accuracy's counters with `minimum`, which leaves them at 0, and bring the
    operation's int32 into float32 variables.
    """
    import paddle

    def accumulated(batch: Any, dtype: str = "float32") -> Any:
        total = paddle.static.create_global_var(persistable=True, dtype=dtype, shape=batch.shape, value=0)
        paddle.assign(paddle.add(batch, total), total)
        return total

    both = paddle.concat([paddle.subtract(paddle.ceil(prediction), prediction), prediction], axis=1)
    _, _, [_, _, positive, negative] = paddle.static.auc(both, label, num_thresholds=BUCKETS - 1)

    correct = paddle.static.create_global_var(dtype="int32", shape=[1], value=0)
    total = paddle.static.create_global_var(dtype="int32", shape=[1], value=0)
    paddle.static.accuracy(both, label, k=1, correct=correct, total=total)

    target = paddle.cast(label, "float32")
    error = paddle.subtract(prediction, target)
    return {
        "positive": positive,
        "negative": negative,
        "correct": accumulated(paddle.cast(correct, "int64"), "int64"),
        "total": accumulated(paddle.cast(total, "int64"), "int64"),
        "absolute error": accumulated(paddle.sum(paddle.abs(error))),
        "squared error": accumulated(paddle.sum(paddle.square(error))),
        "log loss": accumulated(paddle.sum(paddle.nn.functional.log_loss(prediction, target, epsilon=1e-7))),
    }


def check(program: Any, names: tuple[str, str], feeds: list[dict[str, np.ndarray]]) -> None:
    """Both ways must count the same where they see the same batches, as far as float32 can say in the one by hand."""
    import paddle

    from fleetmetrics import formulas

    variant, (metrics, hand) = extend(
        program, names, lambda *inputs: (with_metrics(*inputs, name="compared"), by_hand(*inputs))
    )
    for feed in feeds:
        variant.executor.run(variant.program, feed)
    scope = paddle.static.global_scope()
    values = {name: np.array(scope.find_var(variable.name).get_tensor()) for name, variable in hand.items()}
    total = values["total"].item()
    expected = {
        "auc": formulas.auc_from_histogram(values["positive"], values["negative"]),
        "accuracy": values["correct"].item() / total,
        "mae": values["absolute error"].item() / total,
        "mse": values["squared error"].item() / total,
        "log_loss": values["log loss"].item() / total,
    }
    found = metrics.compute_local()
    np.testing.assert_allclose(list(found.values()), [expected[name] for name in found], rtol=1e-5)


# The process that a person has started


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument(
        "--servers", type=int, choices=[*PLACES], help="only with the tables on a server (1) or in the process (0)"
    )
    options = parser.parse_args()
    here = place()
    if here is not None:
        serve() if here.role == "server" else work(options.servers, options.rounds)
        return
    parts = []
    for servers in PLACES if options.servers is None else [options.servers]:
        given = ["--rounds", str(options.rounds), "--servers", str(servers)]
        (findings,) = run(__file__, 1, servers=servers, arguments=given)
        parts.append(show(PLACES[servers], findings))
        print(parts[-1], flush=True)
    parts.append(of_tasks(options.rounds))
    print(parts[-1], flush=True)
    if options.write:
        write(options.write, "step", "\n\n".join(parts))


def show(title: str, findings: dict[str, Any]) -> str:
    """Two tables, as Markdown: the variants' times, and the ratios that are to be reached."""
    times = {name: np.array(values)[:, 0] for name, values in findings["times"].items()}
    processor = {name: np.array(values)[:, 1] for name, values in findings["times"].items()}
    rows = [
        [
            TITLES[name],
            str(findings["operations"][name]),
            seconds(taken),
            more(taken, times["none"]) if name != "none" else "",
            more(processor[name], processor["none"]) if name != "none" else "",
            quotient(taken / times["none"], 3),
        ]
        for name, taken in times.items()
    ]
    header = ["metrics", "operations added", "a step", "more than none", "more processor time", "ratio to none"]
    targets = [
        target_row(times, "metrics", "by hand", Target("<=", 1)),
        target_row(times, "metrics", "none", Target("<=", 1.05)),
    ]
    first = f"Tables {title}; {len(times['none'])} rounds of {STEPS} steps. {machine(findings['versions'])}"
    return "\n\n".join(
        [first, table(header, rows), table(["a step with", "against", "ratio", "to reach", "reached"], targets)]
    )


def of_tasks(factor: float) -> str:
    """The time of an add in all tasks at once, and of one in a collection for each task, in steps of other work."""
    import fleetmetrics

    rng = np.random.default_rng(0)
    names = {f"task {n}": {"prediction": f"score {n}", "label": f"label {n}"} for n in range(TASKS)}
    scores = {f"score {n}": rng.random(BATCH_SIZE).astype(np.float32) for n in range(TASKS)}
    batch = {**scores, **{f"label {n}": rng.integers(0, 2, BATCH_SIZE) for n in range(TASKS)}}
    together = fleetmetrics.MetricCollection.of_tasks(names, templates())
    apart = [collection() for _ in names]
    matrix = rng.random((500, 500), np.float32)

    def one_by_one() -> None:
        for metrics, its in zip(apart, names.values()):
            metrics.add(batch[its["prediction"]], batch[its["label"]])

    times: dict[str, list[float]] = {"at once": [], "one by one": []}
    for number in range(-WARM_UP, max(3, round(factor * TASK_STEPS))):
        for name, add in (("at once", lambda: together.add(batch)), ("one by one", one_by_one)):
            end = time.perf_counter() + STEP_SECONDS
            while time.perf_counter() < end:
                matrix @ matrix
            start = time.perf_counter()
            add()
            if number >= 0:
                times[name].append(time.perf_counter() - start)
    target = Target("<=", 1e-3)
    rows = []
    for name, taken in times.items():
        reached = "yes" if target.reached(float(np.median(taken))) else "no"
        judged = ["at most 1 ms", reached] if name == "at once" else ["", ""]
        rows.append([f"{TASKS} tasks, 5 metrics, {name}", seconds(taken), *judged])
    step = f"{BATCH_SIZE} rows, in steps of {STEP_SECONDS * 1e3:.0f} ms"
    first = f"Several tasks, {step}. {machine({'NumPy': np.__version__})}"
    return f"{first}\n\n{table(['an add', 'a step', 'to reach', 'reached'], rows)}"


def more(times: np.ndarray, base: np.ndarray) -> str:
    """The median of what a step takes longer than another one of the same round."""
    return f"{np.median(times - base) * 1e6:+,.0f} us"


def target_row(times: dict[str, np.ndarray], name: str, against: str, target: Target) -> list[str]:
    ratios = times[name] / times[against]
    reached = "yes" if target.reached(float(np.median(ratios))) else "no"
    return [TITLES[name], TITLES[against], quotient(ratios, 3), str(target), reached]


if __name__ == "__main__":
    main()
