"""Train a wide and deep network with asynchronous parameter servers, and evaluate it on all workers together.

    fleetrun --server_num=2 --worker_num=2 train.py

The launcher sends what the processes print to `log/workerlog.N` and `log/serverlog.N`, and exits 0 whatever
happens to them. The last line of a worker that finished is "worker N of M: done"; `demo.py` looks for it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import traceback
import zlib  # noqa: F401, see model.py: before Paddle

# The informational messages of Paddle's servers would bury the progress bar.
os.environ.setdefault("GLOG_minloglevel", "2")

import numpy as np
import paddle
from paddle.distributed import fleet
from tqdm import tqdm

import comparison
import fleetmetrics
import model
import options
import reader
import servers


class JobError(Exception):
    """The job cannot go on, for a reason that its user can fix."""


def main() -> None:
    """Play the part that the launcher gave this process: server or worker."""
    job = options.parse(argparse.ArgumentParser(description="Train and evaluate a wide and deep network."))
    paddle.enable_static()
    with servers.quiet():
        fleet.init(log_level="WARNING")
    source = reader.Criteo(job.data) if job.data else reader.RandHealth()
    if fleet.is_server():
        build(source.layout, job.learning_rate)
        print(f"server {fleet.server_index()} of {fleet.server_num()}: ready", flush=True)
        servers.serve()
    else:
        work(source, job)
        print(f"{name()}: done", flush=True)


def name() -> str:
    """What this worker is called in logs."""
    return f"worker {fleet.worker_index()} of {fleet.worker_num()}"


def work(source: reader.Source, job: argparse.Namespace) -> None:
    """A worker's life: read, train, evaluate, compare."""
    workers = fleetmetrics.get_communicator()
    share = read_share(source, workers)
    print(f"{name()}: {len(share.train)} training rows, {len(share.held_out)} held-out rows", flush=True)
    network = build(source.layout, job.learning_rate)
    evaluation = Evaluation(network, job.batch_size)
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    executor.run(evaluation.startup)
    servers.await_servers()
    servers.watch()
    with servers.quiet():
        fleet.init_worker()
    # Worker 0 has sent the initial parameters; without Gloo, `init_worker` does not make the others wait for it.
    workers.barrier()
    parameters = servers.Parameters()

    for number in range(1, job.passes + 1):
        with progress_bar(share.train, number, job, visible=workers.rank == 0) as bar:
            train(executor, network, parameters, share.train, job.batch_size, bar)
            parameters.settle(workers)
            prediction = evaluation.run(executor, share.held_out)
            values = evaluation.metrics.compute()
            bar.set_postfix_str(f"held out: AUC {values['auc']:.4f}, log loss {values['log_loss']:.4f}")
    compare(evaluation.metrics, prediction, share.held_out.label, workers)
    fleet.stop_worker()


def read_share(source: reader.Source, workers: fleetmetrics.Communicator) -> reader.Share:
    """Read this worker's share; where one worker cannot read its own, all of them raise."""
    share, problem = None, ""
    try:
        share = reader.read(source, workers.rank, workers.world_size)
    except reader.DataError as error:
        problem = str(error)
    codes = workers.all_gather(np.frombuffer(problem.encode(errors="backslashreplace"), np.uint8).astype(np.int64))
    problems = {bytes(code.astype(np.uint8)).decode() for code in codes} - {""}
    if share is None or problems:
        raise JobError("\n".join(sorted(problems)))
    return share


def build(layout: reader.Layout, learning_rate: float) -> model.Network:
    """Build the network in the default programs and hand its parameters to the servers."""
    network = model.build(layout)
    with servers.quiet():
        servers.minimize(network, learning_rate)
    return network


class Evaluation:
    """A program that predicts and counts: its metrics never see a training sample."""

    def __init__(self, network: model.Network, batch_size: int) -> None:
        self.batch_size = batch_size
        self.startup = paddle.static.Program()
        self.program = model.forward_program(network)
        self.prediction = self.program.global_block().var(network.prediction.name)
        self.metrics = fleetmetrics.MetricCollection(
            {
                "auc": fleetmetrics.AUC(num_thresholds=comparison.BUCKETS),
                "accuracy": fleetmetrics.Accuracy(),
                "mae": fleetmetrics.MeanAbsoluteError(),
                "mse": fleetmetrics.MeanSquaredError(),
                "rmse": fleetmetrics.RootMeanSquaredError(),
                "log_loss": fleetmetrics.LogLoss(),
                "samples": fleetmetrics.Count(),
            },
            name="evaluation",
        )
        with paddle.static.program_guard(self.program, self.startup):
            self.metrics.add(self.prediction, model.label_input())

    def run(self, executor: paddle.static.Executor, samples: reader.Samples) -> np.ndarray:
        """Evaluate this worker's samples from scratch and return its predictions."""
        self.metrics.reset()
        batches = samples.batches(self.batch_size)
        return np.concatenate([executor.run(self.program, feed, [self.prediction])[0] for feed in batches])


def train(
    executor: paddle.static.Executor,
    network: model.Network,
    parameters: servers.Parameters,
    samples: reader.Samples,
    batch_size: int,
    bar: tqdm,
) -> None:
    """One pass over this worker's training rows, in a new random order."""
    program = network.loss.block.program
    order = np.random.permutation(len(samples))
    for feed in samples.batches(batch_size, order):
        parameters.pull()
        (loss,) = executor.run(program, feed, [network.loss])
        bar.set_postfix_str(f"loss {loss.item():.4f}", refresh=False)
        bar.update(len(feed["label"]))


def progress_bar(samples: reader.Samples, number: int, job: argparse.Namespace, visible: bool) -> tqdm:
    """A bar for one pass, as wide as the environment variable COLUMNS says: the launcher sends it to a file."""
    return tqdm(
        total=len(samples),
        desc=f"pass {number:{len(str(job.passes))}}/{job.passes}",
        bar_format="{desc} {percentage:3.0f}%|{bar}| {n_fmt} rows {elapsed}{postfix}",
        disable=not visible,
        file=sys.stdout,
        ncols=shutil.get_terminal_size().columns,
    )


def compare(
    metrics: fleetmetrics.MetricCollection,
    prediction: np.ndarray,
    label: np.ndarray,
    workers: fleetmetrics.Communicator,
) -> None:
    """Print the table on worker 0; raise on every worker if a global value is not the one it should be."""
    names = list(comparison.LIMITS)
    local, overall = metrics.compute_local(), metrics.compute()
    locals_ = [dict(zip(names, row)) for row in workers.all_gather(np.array([local[name] for name in names]))]
    globals_ = workers.all_gather(np.array([overall[name] for name in names]))
    predictions = np.concatenate(workers.all_gather(prediction.ravel().astype(np.float64)))
    labels = np.concatenate(workers.all_gather(label.ravel()))

    reference = comparison.references(predictions, labels)
    if workers.rank == 0:
        print("\n" + comparison.table(locals_, overall, reference))
        raw = comparison.auc(predictions, labels)
        print(f"AUC of the raw scores: {raw:.6f}, {abs(raw - reference['auc']):.1e} from that over the buckets\n")
    failures = comparison.failures(overall, reference)
    if any(row.tobytes() != globals_[0].tobytes() for row in globals_):
        failures.append("the workers have different global values")
    if failures:
        raise JobError("\n".join(failures))


if __name__ == "__main__":
    try:
        main()
    except (JobError, reader.DataError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    except SystemExit:
        raise
    except BaseException:
        # Leaving in the ordinary way would wait for servers that may be gone.
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
