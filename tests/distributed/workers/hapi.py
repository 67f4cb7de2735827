"""One worker, or the only process, that trains, evaluates and predicts with paddle.Model in one mode."""

from __future__ import annotations

import contextlib
import gc
import io
import re
from typing import Any

import numpy as np
import paddle
from cluster import arguments, error_text, report

import fleetmetrics as fm
from fleetmetrics.integrations.hapi import GlobalValues, ModelMetric, own_predictions
from fleetmetrics.samplers.sampling import dealt_indices

RANK = paddle.distributed.ParallelEnv().rank
WORKERS = paddle.distributed.ParallelEnv().nranks
NOT_OURS = ("loss", "step", "batch_size", "fleetmetrics")


class Samples(paddle.io.Dataset):
    """Scores, clicks and groups that no share has like the whole; `bad` is the index of a label that is invalid."""

    def __init__(self, size: int, bad: int = -1) -> None:
        self.size, self.bad = size, bad

    def __getitem__(self, index: int) -> Any:
        score = np.float32([(index * 7 % 11 + 1) / 16])
        label = 7 if index == self.bad else index * 5 % 7 < 3
        return score, np.int64([label]), np.int64([index % 4])

    def __len__(self) -> int:
        return self.size


class Same(paddle.nn.Layer):
    """Gives back what it gets, whatever training does to its parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = paddle.nn.Linear(1, 1)

    def forward(self, x: Any) -> Any:
        return x + 0 * self.linear(x)


class Pairs(fm.BaseMetric):
    """A metric over records."""

    def compute_metric(self, results: Any) -> dict[str, Any]:
        return {"n": len(results[0]), "clicked": float(np.sum(results[0] * results[1])), "groups": results[2].sum()}


def collection() -> ModelMetric:
    """Metrics of states, of slices and of all samples."""
    members = {"auc": fm.AUC(), "samples": fm.Count(), "exact": fm.ExactAUC(), "mae": fm.MeanAbsoluteError()}
    metrics = fm.MetricCollection({**members, "by group": fm.Sliced(fm.Sum(), by="group")}, name="all", postfix="!")
    return ModelMetric(metrics, feed=fed, running=True)


def scored(metric: Any, **settings: Any) -> ModelMetric:
    """Of scores and clicks."""
    return ModelMetric(metric, feed=lambda score, click, _: {"prediction": score, "label": click}, **settings)


def fed(score: Any, click: Any, group: Any) -> dict[str, Any]:
    return {"prediction": score, "label": click, "group": group[:, 0]}


class Heard(paddle.callbacks.Callback):
    """What other callbacks get to see."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[Any] = []
        self.steps: list[Any] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.ends.append(kept(logs))

    def on_eval_end(self, logs: Any = None) -> None:
        self.ends.append(kept(logs))

    def on_eval_batch_end(self, step: int, logs: Any = None) -> None:
        self.steps.append(kept(logs))


def kept(logs: Any) -> dict[str, Any]:
    """Without the loss, which is hapi's own, and what is not JSON's."""
    return {name: repr(value) for name, value in logs.items() if name not in NOT_OURS}


def model_of(*metrics: Any, labels: bool = True) -> Any:
    spec = paddle.static.InputSpec
    network = Same()
    truth = [spec([None, 1], "int64", name) for name in ("click", "group")]
    model = paddle.Model(network, [spec([None, 1], "float32", "score")], truth if labels else None)
    # Without a GPU Paddle 2.6 makes no static program that trains on several workers: let it run one that does not.
    trains = paddle.in_dynamic_mode() or WORKERS == 1 or paddle.__version__[0] != "2"
    optimizer = paddle.optimizer.SGD(0.0, network.parameters()) if trains and labels else None
    model.prepare(optimizer, (lambda score, *_: paddle.mean(score)) if labels else None, list(metrics))
    model._optimizer = optimizer or True
    return model


def local(indices: Any) -> dict[str, Any]:
    """What one process gives over these samples, without paddle.Model."""
    metric, truth = collection().metric, Samples(0)
    if len(indices):
        metric.add(**fed(*(np.stack([truth[int(index)][i] for index in indices]) for i in range(3))))
    return metric.compute_local()


def loader(size: int, batch: int, **settings: Any) -> Any:
    workers = settings.pop("num_workers", 0)
    data = settings.pop("data", None) or Samples(size)
    sampler = paddle.io.DistributedBatchSampler(data, batch, **settings)
    if workers:  # a forked loader of Paddle 2.6 that collects an old executor dies of a segmentation fault
        gc.collect()
    return paddle.io.DataLoader(data, batch_sampler=sampler, num_workers=workers)


def passes(size: int, batch: int) -> dict[str, Any]:
    """fit, evaluate and predict on one model, one after the other; first and last of the callbacks hear the same."""
    model, first, last = model_of(collection()), Heard(), Heard()
    callbacks = [first, GlobalValues(), last]
    quiet = {"batch_size": batch, "verbose": 0}
    model.fit(Samples(size), Samples(size), epochs=2, shuffle=True, callbacks=callbacks, **quiet)
    found: dict[str, Any] = {"fit": first.ends[:4]}
    found["partly"] = model.evaluate(Samples(size), num_iters=1, **quiet)
    found["evaluate"] = model.evaluate(Samples(size), **quiet)
    model.fit(Samples(size), Samples(size), shuffle=False, num_iters=1, callbacks=callbacks, **quiet)
    found["fit partly"] = first.ends[4:]
    dropping = loader(size, batch, drop_last=True)
    if len(dropping):  # else there is no loss, and Paddle ends in a KeyError
        found["dropped"] = model.evaluate(dropping, verbose=0)
    found["again"] = model.evaluate(loader(size, batch, num_workers=2), verbose=0)
    shuffled = loader(size, batch, shuffle=True, num_workers=2)
    model.fit(shuffled, loader(size, batch), epochs=2, verbose=0, callbacks=callbacks)
    found["shuffled"] = first.ends[6:]
    begun = loader(size, batch, shuffle=True)
    dealt = [dealt_indices(begun, rank)[:batch] for rank in range(WORKERS)]
    model.fit(begun, verbose=0, num_iters=1, callbacks=callbacks)
    found["begun"], expected = first.ends[-1:], kept(local(np.unique(np.concatenate(dealt))))
    found["heard"] = [first.ends, last.ends]
    dealt = [dealt_indices(loader(size, batch, drop_last=True), rank) for rank in range(WORKERS)]
    found["local"] = {
        "whole": kept(local(range(size))),
        "begun": expected,
        "partly": kept(local(range(min(size, batch * WORKERS)))),
        "dropped": kept(local(np.unique(np.concatenate(dealt)))),
    }
    held_out = loader(size, batch)
    model = model_of(labels=False)  # PIR programs predict only without
    for stacked in (False, True):
        metric = collection().metric
        [scores], rows = own_predictions(model.predict(held_out, stack_outputs=stacked, verbose=0), held_out)
        truth = Samples(size)
        if len(rows):
            metric.add(**fed(scores, *(np.stack([truth[row][i] for row in rows]) for i in (1, 2))))
        found[f"predict, stacked {stacked}"] = metric.compute()
    return {name: kept(value) if "mae!" in value else value for name, value in found.items()}


def others() -> dict[str, Any]:
    """A record metric, a BaseMetric and one that leaves training out, beside each other where hapi lets them."""
    found: dict[str, Any] = {}
    metrics = {
        "exact": ModelMetric(
            fm.ExactAUC(name="exact"), feed=lambda score, click, _: {"prediction": score, "label": click}
        ),
        "pairs": ModelMetric(Pairs()),
        "evaluated": scored(fm.Count(name="evaluated"), training=False),
    }
    for name, metric in metrics.items():
        model, heard = model_of(metric), Heard()
        model.fit(loader(13, 2), loader(13, 2), epochs=1, verbose=0, callbacks=[heard, GlobalValues()])
        found[name] = heard.ends
    return found


def in_groups() -> dict[str, Any]:
    """Two workers share nine samples, and the third has five for itself; Paddle gathers over all three."""
    group = [0, 2] if WORKERS == 3 and RANK != 1 else [RANK]

    def dealt(*sizes: int, shuffle: bool = False) -> Any:
        size = sizes[len(group) == 1]
        return loader(size, 2, num_replicas=len(group), rank=group.index(RANK), shuffle=shuffle)

    def evaluated(data: Any, *metrics: ModelMetric, **settings: Any) -> Any:
        metrics = metrics or (collection(),)
        callbacks = [GlobalValues(group=group)]
        return kept(model_of(*metrics).evaluate(data, verbose=0, callbacks=callbacks, **settings))

    heard, model = Heard(), model_of(collection())
    callbacks = [heard, GlobalValues(group=group)]
    model.fit(dealt(9, 5, shuffle=True), dealt(9, 5), epochs=1, verbose=0, callbacks=callbacks)
    held_out, metric = dealt(9, 5), collection().metric
    [scores], rows = own_predictions(model_of(labels=False).predict(held_out, verbose=0), held_out, group=group)
    metric.add(**fed(scores, *(np.stack([Samples(9)[row][i] for row in rows]) for i in (1, 2))))
    n, accuracy = scored(fm.Count(name="n")), scored(fm.Accuracy(name="accuracy"))
    found = {
        "fit": heard.ends,
        "evaluate": evaluated(dealt(9, 5)),
        "shuffled": evaluated(dealt(9, 5, shuffle=True)),
        "two": evaluated(dealt(9, 5), n, accuracy),
        "partly": evaluated(dealt(9, 5), n, num_iters=2),
        "predict": kept(metric.compute(group=group)),
        "all again": kept(model_of(n).evaluate(Samples(10), batch_size=2, verbose=0, callbacks=[GlobalValues()])),
        "local": [kept(local(range(size))) for size in (9, 5)],
    }
    if WORKERS == 1:
        return found
    accuracy = paddle.metric.Accuracy()
    return {
        **found,
        "not for the group": error_text(lambda: evaluated(loader(9, 2))),
        "other sizes": error_text(lambda: evaluated(dealt(9, 7))),
        "no group": error_text(lambda: model_of(n).evaluate(dealt(9, 5), verbose=0, callbacks=[GlobalValues()])),
        "theirs": error_text(lambda: evaluated(dealt(9, 5), n, accuracy)) if gathers() else "",
        "theirs, shuffled": error_text(
            lambda: model_of(n, accuracy).evaluate(loader(10, 2, shuffle=True), verbose=0, callbacks=[GlobalValues()])
        )
        if gathers()
        else "",
    }


def gathers() -> bool:
    """Whether an evaluation hands the rows of all workers to metrics: except for PIR programs."""
    return paddle.in_dynamic_mode() or paddle.__version__[0] == "2"


def decisions() -> dict[str, Any]:
    """When an early stop stops, and which models it takes for the best, over an AUC that falls on some workers only."""
    epochs: list[int] = []

    class Remember(paddle.callbacks.Callback):
        def on_eval_begin(self, logs: Any = None) -> None:
            truth.turn += 1

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            epochs.append(epoch)

    class Turning(Samples):
        """Rank 0's share ends better with every epoch, the others' worse."""

        turn = -1

        def __getitem__(self, index: int) -> Any:
            _, _, group = super().__getitem__(index)
            share = index // 2 % 3
            error = 0.5 - 0.1 * self.turn if share == 0 else 0.1 + 0.1 * self.turn
            return np.float32([error]), np.int64([0]), group

    truth = Turning(12)
    model, local = model_of(scored(fm.MeanAbsoluteError(name="mae"))), Heard()
    saved: list[int] = []
    # Of which only rank 0 would write it.
    model.save = lambda path: saved.append(truth.turn) if path.endswith("best_model") else None
    stop = paddle.callbacks.EarlyStopping("mae", mode="min", patience=2, verbose=0)
    callbacks = [local, stop, Remember(), GlobalValues()]
    quiet = {"batch_size": 2, "verbose": 0, "save_dir": "unused", "save_freq": 100}
    model.fit(Samples(12), truth, epochs=5, callbacks=callbacks, **quiet)
    steps = [step["mae"] for step in local.steps]
    return {"epochs": epochs, "saved": saved, "best": float(stop.best_value), "local": steps}


def shown() -> list[str]:
    """The lines of the progress bar."""
    model = model_of(scored(fm.MeanAbsoluteError(name="mae")))
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        model.evaluate(Samples(10), batch_size=2, verbose=2, log_freq=1, callbacks=[GlobalValues()])
    return re.findall(r"mae: (\S+)", printed.getvalue())


def troubles() -> dict[str, str]:
    """The error that every worker raises."""
    n, accuracy = scored(fm.Count(name="n")), scored(fm.Accuracy(name="accuracy"))
    plain = paddle.io.DataLoader(Samples(10), batch_size=2)
    bad = Samples(10, bad=3)  # of rank 1, if there are three
    ragged = ModelMetric(fm.Count(name="ragged"), feed=lambda score, *_: {"prediction": score})
    ragged.compute = lambda score, *labels: [paddle.concat([score, score]), *labels]

    def evaluate(data: Any, *metrics: Any) -> Any:
        return kept(model_of(*metrics).evaluate(data, batch_size=2, verbose=0, callbacks=[GlobalValues()]))

    def fit(data: Any, *metrics: Any) -> Any:
        return model_of(*metrics).fit(data, batch_size=2, verbose=0, shuffle=False, callbacks=[GlobalValues()])

    cases = {
        "no callback": lambda: model_of(n).evaluate(Samples(10), verbose=0),
        "not dealt": lambda: evaluate(plain, n),
        "not dealt, training": lambda: fit(plain, n),
        "shuffled": lambda: evaluate(loader(10, 2, shuffle=True), n),
        "shuffled, no padding": lambda: evaluate(loader(12, 2, shuffle=True), n),
        "two": lambda: evaluate(Samples(10), n, accuracy),
        "two of one name": lambda: evaluate(Samples(10), n, n),
        "bad label": lambda: evaluate(bad, accuracy),
        "bad label, training": lambda: fit(bad, accuracy),
        "ragged": lambda: evaluate(Samples(10), ragged),
        "afterwards": lambda: evaluate(Samples(10), accuracy),
    }
    return {name: error_text(call) for name, call in cases.items()}


if __name__ == "__main__":
    given = arguments()
    paddle.set_device("cpu")
    if given["static"]:
        paddle.enable_static()
        if WORKERS > 1 and paddle.__version__[0] == "2":  # as NCCL is on GPUs
            paddle.distributed.gloo_init_parallel_env(RANK, WORKERS, given["gloo"])
    with contextlib.redirect_stdout(io.StringIO()):
        found: dict[str, Any] = {"passes": [passes(*size) for size in given["sizes"]]}
        if given["what"] == "everything":
            found.update(others=others(), troubles=troubles(), decisions=decisions(), shown=shown(), groups=in_groups())
    report(rank=RANK, workers=WORKERS, **found)
