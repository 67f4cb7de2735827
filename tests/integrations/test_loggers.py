"""What VisualDL and TensorBoard are given, read back from their files."""

from __future__ import annotations

import struct
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.integrations import loggers
from fleetmetrics.integrations.loggers import LogCallback, log
from tests.distributed.cluster import free_ports
from tests.distributed.forks import member, run

RNG = np.random.default_rng(0)
SCORES = RNG.random(500).round(3)
LABELS = (RNG.random(500) < SCORES).astype(int)


def values() -> dict[str, Any]:
    metrics = fm.MetricCollection(
        {
            "auc": fm.Sliced(fm.AUC(bounds=True), by="country"),
            "roc": fm.ROCCurve(num_thresholds=1000),
            "pr": fm.PrecisionRecallCurve(num_thresholds=1000),
            "gain": fm.CumulativeGain(),
            "calibration": fm.CalibrationCurve(),
            "sweep": fm.ThresholdSweep(thresholds=[0.25, 0.5, 0.75]),
            "confusion": fm.ConfusionMatrix(),
        }
    )
    metrics.add(SCORES, LABELS, country=np.where(LABELS[::-1], "fr", "New York"))
    scores = fm.Histogram(bins=4)
    scores.add(SCORES)
    return {**metrics.compute(), "scores": scores.compute()}


CURVES = ("roc", "pr", "gain", "calibration", "sweep")
PICTURES = {"eval/confusion", *(f"eval/{each}/curve" for each in CURVES)}
AUCS = {f"eval/auc/{country}/{part}" for country in ("fr", "New_York") for part in ("value", "low", "high")}


@pytest.fixture(scope="module")
def computed() -> dict[str, Any]:
    return values()


def at(threshold: float) -> tuple[float, float, float]:
    """Recall, false positive rate and precision of the samples with at least this score."""
    chosen = threshold <= SCORES
    hits = LABELS[chosen].sum()
    precision = hits / chosen.sum() if chosen.any() else 1.0
    return hits / LABELS.sum(), (chosen.sum() - hits) / (1 - LABELS).sum(), precision


# -- VisualDL --------------------------------------------------------------------------------------------------


def visualdl_records(folder: Path) -> dict[str, dict[str, Any]]:
    """By component and tag the last record."""
    from visualdl.reader.reader import LogReader

    found: dict[str, dict[str, Any]] = {}
    for path in folder.glob("*.log"):
        reader = LogReader(file_path=str(path))
        for component, tags in reader.get_tags().items():
            for tag in tags:
                found.setdefault(component, {})[tag.replace("%", "/")] = reader.get_data(component, tag)[-1]
    return found


def test_visualdl_gets_scalars_curves_histograms_and_pictures(computed: Any, tmp_path: Path) -> None:
    from visualdl import LogWriter

    with LogWriter(str(tmp_path)) as writer:
        log(writer, computed, 7, prefix="eval")
        settings = {"rate": np.float32(0.5), "depth": 3, "opt": "adam", "fine": True}
        log(writer, {"auc": 0.75}, 8, prefix="final", hparams=settings)
    found = visualdl_records(tmp_path)
    scalars = {tag: record.value for tag, record in found["scalar"].items()}
    flat = fm.flatten({key: value for key, value in computed.items() if key != "confusion"}, "eval")
    assert scalars == pytest.approx({**flat, "final/auc": 0.75}, nan_ok=True) and set(scalars) > AUCS
    assert all(record.id == 7 for tag, record in found["scalar"].items() if tag.startswith("eval/"))
    assert set(found["image"]) == PICTURES
    assert all(record.image.encoded_image_string[1:4] == b"PNG" for record in found["image"].values())
    curve = found["pr_curve"]["eval/pr"].pr_curve
    points = loggers.THRESHOLDS
    assert len(curve.precision) == points and set(curve.TP) == {-1}
    for i in (0, 30, 90, points - 2):
        recall, rate, precision = at((i + 1) / points)
        assert (curve.precision[i], curve.recall[i]) == pytest.approx((precision, recall), abs=0.02)
        roc = found["roc_curve"]["eval/roc"].roc_curve
        assert (roc.tpr[i], roc.fpr[i]) == pytest.approx((recall, rate), abs=0.02)
    histogram = found["histogram"]["eval/scores"].histogram
    assert list(histogram.hist) == computed["scores"].counts.tolist()
    assert list(histogram.bin_edges) == [0.0, 0.25, 0.5, 0.75, 1.0]
    [hparams] = found["hyper_parameters"].values()
    assert {each.name for each in hparams.hparam.hparamInfos} == {"rate", "depth", "opt", "fine"}
    assert [each.name for each in hparams.hparam.metricInfos] == ["final/auc"]


# -- TensorBoard -----------------------------------------------------------------------------------------------


def tensorboard_values(folder: Path) -> dict[str, Any]:
    """By tag the last value, of all event files."""
    from tensorboardX.proto.event_pb2 import Event

    found = {}
    for path in sorted(folder.rglob("events*")):
        data = path.read_bytes()
        while data:
            (size,) = struct.unpack("<Q", data[:8])  # length, its checksum, the event, its checksum
            for value in Event.FromString(data[12 : 12 + size]).summary.value:
                found[value.tag] = value
            data = data[16 + size :]
    return found


def test_tensorboard_gets_scalars_a_pr_curve_histograms_and_pictures(computed: Any, tmp_path: Path) -> None:
    from tensorboardX import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        log(writer, computed, 7, prefix="eval")
        log(writer, {"auc": 0.75}, 8, prefix="final", hparams={"rate": 0.5, "opt": "adam", "layers": [3, 4]})
    found = tensorboard_values(tmp_path)
    flat = fm.flatten({key: value for key, value in computed.items() if key != "confusion"}, "eval")
    assert {tag: found[tag].simple_value for tag in flat} == pytest.approx(flat, nan_ok=True)
    assert found["final/auc"].simple_value == 0.75
    pictures = {tag for tag, value in found.items() if value.HasField("image")}
    assert pictures == PICTURES
    *counts, precisions, recalls = np.reshape(found["eval/pr"].tensor.float_val, (6, points := loggers.THRESHOLDS))
    assert set(np.ravel(counts)) == {-1}
    for i in (0, 30, 90, points - 1):
        recall, _, precision = at(i / (points - 1))
        assert (precisions[i], recalls[i]) == pytest.approx((precision, recall), abs=0.02)
    assert list(found["eval/scores"].histo.bucket) == computed["scores"].counts.tolist()


# -- either ----------------------------------------------------------------------------------------------------


class Writer:
    """Writes down what it is given."""

    def __init__(self) -> None:
        self.scalars: list[tuple[str, float, int]] = []
        self.images: dict[str, np.ndarray] = {}

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        self.scalars.append((tag, value, step))

    def add_image(self, tag: str, image: np.ndarray, step: int, dataformats: str) -> None:
        assert dataformats == "HWC" and image.dtype == np.uint8
        self.images[tag] = image


@pytest.mark.numpy_only
def test_only_rank_0_writes() -> None:
    port = free_ports(1)[0]

    def work(rank: int) -> Any:
        writer = Writer()
        made: list[Writer] = []
        with fm.set_communicator(member(rank, 3, port)) as channel:
            metric = fm.Mean(name="it")
            metric.add([float(rank)])
            log(writer, {"mean": metric.compute()}, 3)
            log(None, {"mean": metric.compute()}, 3)
            callback = LogCallback(lambda: made.append(Writer()) or made[-1])
            callback.set_model(None)
            callback.on_epoch_end(5, {"loss": [0.25], "batch_size": 4, "steps_auc": 0.5})
            callback.on_eval_end({"loss": [0.5], "auc": {"fr": 0.75}, "auc/fr": 0.75})
            channel.barrier()
        return writer.scalars, [each.scalars for each in made]

    first, *others = run(3, work)
    assert first[0] == [("mean", 1.0, 3)]
    train = [("train/loss", 0.25, 5), ("train/steps_auc", 0.5, 5)]
    assert first[1] == [[*train, ("eval/loss", 0.5, 5), ("eval/auc/fr", 0.75, 5)]]
    assert others == [([], [])] * 2


def test_the_callback_goes_with_paddles_model(tmp_path: Path) -> None:
    import paddle

    writer = Writer()
    with pytest.raises(AttributeError, match="'LogCallback' object has no attribute 'writers'"):
        _ = LogCallback(writer).writers
    model = paddle.Model(paddle.nn.Linear(2, 2))
    model.prepare(
        paddle.optimizer.SGD(0.1, parameters=model.parameters()),
        paddle.nn.CrossEntropyLoss(),
        paddle.metric.Accuracy(),
    )
    data = [(np.float32([1, 0]), np.int64([0])), (np.float32([0, 1]), np.int64([1]))]
    _fit_with_the_values_of_all_workers(paddle, data)
    model.fit(data, data, batch_size=1, epochs=2, verbose=0, callbacks=[LogCallback(writer)])
    names = [name for name, _, _ in writer.scalars]
    assert names == ["train/loss", "train/acc", "eval/loss", "eval/acc"] * 2
    assert [step for _, _, step in writer.scalars] == [0] * 4 + [1] * 4


def _fit_with_the_values_of_all_workers(paddle: Any, data: Any) -> None:
    from fleetmetrics.integrations.hapi import GlobalValues, ModelMetric

    writer = Writer()
    model = paddle.Model(paddle.nn.Linear(2, 1))
    metrics = {"auc": fm.AUC(from_logits=True, bounds=True, tolerance=None), "roc": fm.ROCCurve(from_logits=True)}
    parameters = model.parameters()
    model.prepare(
        paddle.optimizer.SGD(0.1, parameters=parameters),
        lambda output, label: output.sum() * 0,
        ModelMetric(fm.MetricCollection(metrics)),
    )
    model.fit(data, data, batch_size=2, epochs=1, verbose=0, callbacks=[GlobalValues(), LogCallback(writer)])
    names = ["loss", "auc/value", "auc/low", "auc/high", "roc/area"]
    assert [name for name, _, _ in writer.scalars] == [f"{each}/{name}" for each in ("train", "eval") for name in names]
    assert set(writer.images) == {"train/roc/curve", "eval/roc/curve"}


@pytest.mark.numpy_only
def test_a_matrix_is_drawn_with_its_numbers_and_several_are_several_pictures() -> None:
    writer = Writer()
    log(writer, {"one": np.array([[5, 1], [0, 6]]), "labels": np.ones((2, 2, 2), int), "big": np.eye(40)}, 0)
    assert set(writer.images) == {"one", "labels/0", "labels/1", "big"} and not writer.scalars
    assert len(np.unique(writer.images["one"])) > 10
    log(writer, {"table": np.array([[1, 2, 3], [4, 5, 6]]), "empty": np.zeros((0, 0))}, 0)
    assert len(writer.images) == 4 and len(writer.scalars) == 6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log(writer, np.array([[np.nan, np.nan], [0.5, 0.5]]), 0)


@pytest.mark.numpy_only
def test_without_matplotlib_a_warning_says_that_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.warns(UserWarning, match="confusion is not drawn: plots need matplotlib"):
        log(Writer(), {"confusion": np.eye(2), "auc": 0.5}, 0)


@pytest.mark.numpy_only
def test_an_invalid_writer_is_an_error_that_names_the_allowed_ones() -> None:
    with pytest.raises(fm.InvalidInputError, match=r"writer is 'runs/1'; it must be a visualdl.LogWriter"):
        log("runs/1", {}, 0)


def test_intervals_of_a_curve_are_scalars_and_no_picture() -> None:
    metric = fm.Bootstrap(fm.CumulativeGain(fractions=2), replicates=10)
    metric.add(SCORES, LABELS)
    writer = Writer()
    log(writer, {"gain": metric.compute()}, 0)
    assert not writer.images and ("gain/value/1.0", 1.0, 0) in writer.scalars


@pytest.mark.numpy_only
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # mlflow's own, of pydantic
def test_mlflow_takes_what_flatten_returns_and_its_file_store_gives_it_back(tmp_path):
    import mlflow

    store = mlflow.MlflowClient(tracking_uri=tmp_path.as_uri())
    job = store.create_run(store.create_experiment("evaluation")).info.run_id
    flat = fm.flatten(values(), "eval")
    mlflow.set_tracking_uri(tmp_path.as_uri())
    mlflow.log_metrics(flat, step=3, run_id=job)
    found = store.get_run(job).data.metrics
    assert found.keys() == flat.keys() and len(flat) > 20
    for name, value in flat.items():
        assert found[name] == value or (np.isnan(value) and np.isnan(found[name])), name
    assert store.get_metric_history(job, next(iter(flat)))[0].step == 3
