"""VisualDL and TensorBoard: metrics' values as scalars, curves, histograms and images.

writer = visualdl.LogWriter("runs/1") if rank == 0 else None   # or tensorboardX.SummaryWriter
log(writer, metrics.compute(), step=epoch)                     # on every worker; rank 0 writes
"""

from __future__ import annotations

import time
from typing import Any, Callable, Iterator, Mapping

import numpy as np

from fleetmetrics.comm import get_communicator
from fleetmetrics.errors import InvalidInputError, MissingLibraryError
from fleetmetrics.formulas import ROC, CalibrationPoints, HistogramCounts, PrecisionRecall, Sweep
from fleetmetrics.formulas.bootstrap import BootstrapResult
from fleetmetrics.integrations.scalars import flatten, is_matrix, parts
from fleetmetrics.metrics.curves import Shares
from fleetmetrics.plot import confusion_matrix, draw
from fleetmetrics.support.optional import library
from fleetmetrics.support.warning import warn

__all__ = ["LogCallback", "log"]

#: VisualDL and TensorBoard show a curve at evenly spaced thresholds from 0 to 1; tensorboardX takes no more.
THRESHOLDS = 127
_NO_COUNTS = np.full((4, THRESHOLDS), -1)  # for true and false positives and negatives
#: The values to draw; a dashboard has its own form for histograms.
_CURVES = (ROC, PrecisionRecall, CalibrationPoints, Shares, Sweep)


def log(writer: Any, values: Any, step: int, *, prefix: str = "", most: int = 100, hparams: Any = None) -> None:
    """Write metrics' values; every rank may call it, and rank 0 writes.

    Scalars have the names of `fleetmetrics.flatten`. ROC and precision-recall curves and histograms are written in the
    dashboard's own form, too (TensorBoard has none for ROC); curves and square matrices, such as a confusion matrix,
    as images, see `fleetmetrics.plot`. Square matrices give no scalars.

    Args:
        writer: a `visualdl.LogWriter`, a `tensorboardX.SummaryWriter`, or that of `torch.utils.tensorboard`; None
            writes nothing, which is fine on the other ranks.
        values: the result of ``compute``.
        step: number of the step or epoch.
        prefix: the beginning of the names, such as ``"eval"``.
        most: a larger array gives no scalars, and a warning.
        hparams: the hyperparameters, a dict, to write with the final values of a run; values other than numbers are
            written as strings.

    Raises:
        InvalidInputError: writer is not one of these, or a value is not a number; see `fleetmetrics.flatten`.
    """
    if writer is not None and not hasattr(writer, "add_scalar"):
        raise InvalidInputError(f"writer is {writer!r}; it must be a visualdl.LogWriter, a SummaryWriter, or None")
    if writer is None or get_communicator().rank:
        return
    visualdl = any(base.__module__.partition(".")[0] == "visualdl" for base in type(writer).__mro__)
    scalars = flatten(values, prefix, most=most, matrices=False)
    for name, scalar in scalars.items():
        writer.add_scalar(name, scalar, step)
    if hparams is not None:
        plain = {key: hparam.item() if isinstance(hparam, np.generic) else hparam for key, hparam in hparams.items()}
        plain = {key: setting if type(setting) in (int, float) else str(setting) for key, setting in plain.items()}
        writer.add_hparams(plain, list(scalars) if visualdl else scalars)
    for name, value in parts(values, prefix):
        if isinstance(value, tuple) and any(isinstance(part, BootstrapResult) for part in value):
            continue  # intervals along a curve
        if isinstance(value, (ROC, PrecisionRecall, HistogramCounts)):
            (_to_visualdl if visualdl else _to_tensorboard)(writer, name, value, step)
        for place, picture in _pictures(name, value):
            writer.add_image(place, picture, step, dataformats="HWC")


class LogCallback:
    """For ``paddle.Model.fit`` and ``evaluate``: writes what hapi logs at the end of an epoch and of an evaluation.

    These are the values over all workers if `fleetmetrics.integrations.hapi.GlobalValues` is among the callbacks, too.

    Args:
        writer: as for `log`; or a function that makes one, called on rank 0 only.
    """

    epoch: int
    writer: Any

    def __init__(self, writer: Any) -> None:
        self.writer, self.epoch = writer, 0

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith(("on_", "set_")):
            return lambda *_: None  # hapi calls other methods, too
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Write the values of training."""
        self.epoch = epoch
        self._write(logs or {}, "train")

    def on_eval_end(self, logs: Any = None) -> None:
        """Write the values of the evaluation, which follows an epoch, if any."""
        self._write(logs or {}, "eval")

    def _write(self, logs: Mapping[str, Any], prefix: str) -> None:
        if callable(self.writer):
            self.writer = self.writer() if get_communicator().rank == 0 else None
        again = [f"{name}/" for name, value in logs.items() if isinstance(value, Mapping)]  # its items are logged, too
        logs = {**logs, **logs.get("fleetmetrics", {})}  # its curves are unchanged
        about = ("step", "batch_size", "fleetmetrics")
        kept = [name for name in logs if name not in about and not name.startswith(tuple(again))]
        values = {name: _alone(logs[name]) for name in kept}
        log(self.writer, values, self.epoch, prefix=prefix)


def _alone(value: Any) -> Any:
    """The entry of a list of one; any other object unchanged."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _at(wanted: np.ndarray, curve: Any) -> list[list[float]]:
    """Both columns of a curve where the samples with at least these scores are predicted positive."""
    roc = isinstance(curve, ROC)
    *columns, thresholds = (curve.tpr[::-1], curve.fpr[::-1], curve.thresholds[::-1]) if roc else curve
    return [column[np.searchsorted(thresholds, wanted)].tolist() for column in columns]


def _to_visualdl(writer: Any, name: str, value: Any, step: int) -> None:
    """Into the writer's records: ``add_pr_curve`` and ``add_roc_curve`` want samples, and fail on NumPy 2."""
    from visualdl.component import base_component

    now = round(1000 * time.time())
    if isinstance(value, HistogramCounts):
        record = base_component.histogram(name, value.counts.tolist(), value.edges.tolist(), step, now)
    else:  # it treats the i-th of n points as that of the threshold (i + 1) / n
        make = base_component.roc_curve_raw if isinstance(value, ROC) else base_component.pr_curve_raw
        record = make(name, *_NO_COUNTS.tolist(), *_at(np.arange(1, THRESHOLDS + 1) / THRESHOLDS, value), step, now)
    writer._get_file_writer().add_record(record)


def _to_tensorboard(writer: Any, name: str, value: Any, step: int) -> None:
    if isinstance(value, PrecisionRecall):
        columns = np.array(_at(np.linspace(0, 1, THRESHOLDS), value))
        writer.add_pr_curve_raw(name, *_NO_COUNTS, *columns, step, THRESHOLDS)
    elif isinstance(value, HistogramCounts):
        edges, middle = value.edges.tolist(), (value.edges[1:] + value.edges[:-1]) / 2
        sums = [float((value.counts * middle**power).sum()) for power in (0, 1, 2)]  # dashboards do not draw them
        writer.add_histogram_raw(name, edges[0], edges[-1], *sums, edges[1:], value.counts.tolist(), step)


def _pictures(name: str, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Pictures by name, uint8 ``[height, width, 3]``: one of a curve, one of each matrix."""
    curve = isinstance(value, _CURVES)
    if not curve and not is_matrix(value):
        return
    for index in [("curve",)] if curve else np.ndindex(value.shape[:-2]):
        try:
            axes = draw(value) if curve else confusion_matrix(value[index])
        except MissingLibraryError:
            warn(f"{name} is not drawn: plots need matplotlib")
            return
        canvas = library("matplotlib.backends.backend_agg").FigureCanvasAgg(axes.figure)
        canvas.draw()
        yield "/".join([name, *map(str, index)]), np.asarray(canvas.buffer_rgba())[..., :3].copy()
