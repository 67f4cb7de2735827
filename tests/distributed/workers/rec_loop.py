"""One worker of PaddleRec's loop: parameter servers, a QueueDataset with 16 threads, an AUC in `stat_var_names`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import paddle
from cluster import arguments, report
from paddle.distributed import fleet

import fleetmetrics as fm

FILES, LINES, THREADS = 32, 40, 16


def files(rank, world):
    """Each worker's own share, as PaddleRec splits its list."""
    Path(f"data{rank}").mkdir(exist_ok=True)
    made = []
    for number in range(rank, FILES, world):
        random = np.random.default_rng(number)
        score, click = random.random(LINES), random.integers(0, 2, LINES)
        path = Path(f"data{rank}/{number}")
        path.write_text("".join(f"1 {x:.6f} 1 {y}\n" for x, y in zip(score, click)))
        made.append(str(path))
    return made


def network(auc_of):
    score = paddle.static.data("score", [None, 1], "float32")
    click = paddle.static.data("click", [None, 1], "int64")
    predict = paddle.nn.functional.sigmoid(paddle.static.nn.fc(score, 1))
    both = paddle.concat([1 - predict, predict], axis=1)
    _, _, [_, _, stat_pos, stat_neg] = auc_of(both, click, num_thresholds=2**12, slide_steps=20)
    counts = None
    if auc_of is fm.static.auc:
        counts = fm.MetricCollection({"auc": fm.AUC(), "samples": fm.Count()}, name="train")
        counts.add(predict, click)
    cost = paddle.mean(paddle.nn.functional.log_loss(predict, paddle.cast(click, "float32")))
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    fleet.distributed_optimizer(paddle.optimizer.SGD(0.001), strategy).minimize(cost)
    return [score, click], [stat_pos, stat_neg], counts


def epoch(executor, main, dataset, histograms, counts):
    """What PaddleRec logs after an epoch: its own sum over the workers of what each has in its histograms."""
    executor.train_from_dataset(main, dataset)
    scope = paddle.static.global_scope()
    sums = []
    for each in histograms:
        tensor = scope.find_var(each.name).get_tensor()
        sums.append(int(fleet.util.all_reduce(np.array(tensor).reshape(-1)).sum()))
        tensor.set(np.zeros(tensor.shape(), "int64"), paddle.CPUPlace())
    if counts is None:
        return sum(sums)
    value = counts.compute()
    counts.reset()
    return sum(sums), value["samples"], value["auc"]


if __name__ == "__main__":
    paddle.enable_static()
    fleet.init()
    theirs = arguments()["theirs"]
    inputs, histograms, counts = network(paddle.static.auc if theirs else fm.static.auc)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
    else:
        main, executor = paddle.static.default_main_program(), paddle.static.Executor(paddle.CPUPlace())
        executor.run(paddle.static.default_startup_program())
        fleet.init_worker()
        main._fleet_opt["stat_var_names"] = [each.name for each in histograms]
        dataset = paddle.distributed.QueueDataset()
        dataset.init(batch_size=4, thread_num=THREADS, use_var=inputs)
        dataset.set_filelist(files(fleet.worker_index(), fleet.worker_num()))
        with fm.patch_fleet(util=True):
            report(epochs=[epoch(executor, main, dataset, histograms, counts) for _ in range(2)])
        fleet.stop_worker()
