"""What metrics of segmented images take, as arguments and as a batch."""

from __future__ import annotations

from typing import Sequence

from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import Settings
from fleetmetrics.batch import Batch
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.metrics.classification.averaged import OfTask
from fleetmetrics.metrics.task import Task, class_axis_of, task_of
from fleetmetrics.support.typed import Required, Unpack


class PixelSettings(Settings, total=False):
    """Arguments of every metric of segmented images."""

    num_classes: Required[int]
    ignore_index: int | Sequence[int] | None
    class_axis: int | None


class OfPixels(OfTask[Value]):
    """A metric of segmented images, by class; arguments as for `fleetmetrics.MeanIoU`."""

    class_axis: int | None
    task: Task
    requirements: tuple[str | Requirement, ...]

    def __init__(
        self,
        *,
        num_classes: int,
        ignore_index: int | Sequence[int] | None = None,
        class_axis: int | None = 1,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        self.class_axis = class_axis_of(class_axis)
        self.task = task_of("multiclass", num_classes, ignore_index=ignore_index)
        self.settle(num_classes=self.task.size, ignore_index=self.task.ignore_index)
        self.requirements = self.task.rules

    @property
    def cell_states(self) -> tuple[str, ...]:
        """See `Metric.cell_states`; an image is in no cell."""
        return ("confusion",) if "confusion" in self.states else ()


def shape_of_images(batch: Batch) -> tuple[int, ...]:
    """The shape of each image of a batch; raises if it has none."""
    if batch.full is None or len(batch.full) < 3:
        shape = [batch.rows] if batch.full is None else list(batch.full)
        raise InvalidInputError(
            f"label must be images [n, height, width], or volumes, with an axis more, not of shape {shape}; of one "
            "image give label[None]"
        )
    return batch.full[1:]
