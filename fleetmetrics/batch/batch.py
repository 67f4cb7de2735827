"""A batch as the metrics see it: flat, weighted, and without invalid or masked samples."""

from __future__ import annotations

import copy
import functools
import math
from typing import Any, Iterable, Mapping, Sequence

import numpy as np

from fleetmetrics.batch.one_hot import (
    AS_ENTRIES,
    CLASSES,
    ENTRIES,
    LABELS,
    Alike,
    Earlier,
    hint_of_one_hot,
    surely_entries,
)
from fleetmetrics.batch.rules import FLAGS, ONE_HOT, Requirement, applicable, raise_unless
from fleetmetrics.batch.scores import Table, axis_of_classes, fits, without_ones
from fleetmetrics.batch.sums import Sums, per_sample, statistic
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.xp import is_paddle, is_static, namespace, numpy_ops, to_host

__all__ = ["Batch", "per_sample", "statistic"]


class Batch(Sums):
    """The arguments of one ``add``, in one array namespace.

    Args:
        prediction: ``[n]``, ``[n, 1]``, ``[]`` or any shape equal to the label's; or scores, with one axis more than
            the label: ``[n, classes]`` beside labels ``[n]`` or ``[n, 1]``. Bools, integers or floats.
        label: as above, or None for metrics that take only values.
        weight: None, one number, one number per sample, or one per element; at least 0.
        mask: the same shapes; False (or 0) drops the sample: it leaves no trace, whatever it holds.
        columns: further columns by name: integers or strings ``[n]`` or ``[n, 1]``, such as user ids.
        class_axis: the axis of the classes among the scores; None: the last.
        reader: the metric that takes the batch, whose ``meaning`` is that of one-hot rows of labels; None: they have
            none.

    Raises:
        InvalidInputError: if the shapes do not match, the dtypes are not numbers, or one-hot labels are refused.
    """

    classes: Any
    columns: dict[str, Any]
    empty: bool
    rows: int
    weight: Any

    mask: Any = None
    dealt: Any = None  # flags of the samples that are not a sampler's padding; None: all
    table: Table | None = None  # scores, if too many to copy; None: `prediction` has them all
    alike: Alike | None = None  # prediction and label, if these may be one-hot rows, whose values cannot be read now
    earlier: Earlier | None = None  # what rows of labels of the scores' shape were taken as, with those before
    read_as: str = ""  # what labels were taken as, if not as they are
    full: tuple[int, ...] | None = None  # the shape before it was flattened; None: [n]
    checked: bool = True  # False: the samples were not validated
    rules: Sequence[Requirement] = ()  # that the samples that count keep, since they were checked
    valid: Any = None  # see `Sums`
    counting: Any = None  # flags of the samples that mask, weight and sampler keep; None: all
    by_element: str | None = None  # the first argument that differs within a row of ``[n, m]``
    width: int = 1
    _dropped: Any = None  # if samples were removed, flags of those kept
    _index: Any = None  # of a part: the `label_index` of its elements
    _rows: Any = None  # of a part: the `row_index` of its elements

    def __init__(
        self,
        prediction: Any,
        label: Any = None,
        weight: Any = None,
        mask: Any = None,
        columns: Mapping[str, Any] | None = None,
        class_axis: int | None = None,
        reader: Any = None,
    ) -> None:
        if type(columns) is not dict and columns is not None and not isinstance(columns, Mapping):
            raise InvalidInputError(f"columns must be a dict of columns by name, not {columns!r:.80}")
        self.xp: Any = namespace(prediction, label, weight, mask)
        xp = self.xp
        self.memo: dict[Any, Any] = {}
        self.of_samples: dict[Any, Any] = {}
        self.by_sample: dict[Any, Any] = {}
        self.label: Any = None if label is None else xp.asarray(label, "label")
        full = self._flatten(xp.unwidened(prediction, "prediction"), class_axis, reader, weight, mask)
        self.rows = full[0]  # how many samples
        self.empty = 0 in full  # adds nothing; Paddle 2.6 can neither repeat nor sum empty tensors
        if weight is not None and not self.empty:
            self.weight = xp.cast(self._per_sample(weight, "weight", full), "float64")
        if mask is not None and not self.empty:
            self.mask = self._per_sample(mask, "mask", full)
        self.columns_by_row: set[str] = set()  # those with one entry for all elements of a row
        self.columns = {name: self._column(value, name, full) for name, value in columns.items()} if columns else {}

    def _flatten(self, prediction: Any, class_axis: int | None, reader: Any, weight: Any, mask: Any) -> tuple[int, ...]:
        """Flatten prediction and label to one axis (scores to two); return their common shape."""
        xp = self.xp
        full = tuple(xp.shape(prediction))
        shape = full if self.label is None else tuple(xp.shape(self.label))
        if len(full) == 1 and shape == full:
            self.prediction = xp.widened(prediction, "prediction")
            return full
        axis = axis_of_classes(full, shape, class_axis)
        if axis is None and len(full) > 1 and reader is not None and self.label is not None:
            axis = self._axis_of_one_hot(prediction, full, shape, class_axis, reader, weight, mask)
        if axis is not None:
            full = self._flatten_scores(prediction, axis)
        else:
            prediction = _drop_last_one(xp, xp.widened(prediction, "prediction"))
            full = tuple(xp.shape(prediction))
            if self.label is not None:
                _same_size(full, tuple(xp.shape(_drop_last_one(xp, self.label))), "prediction", "label")
            self.prediction = xp.reshape(prediction, [-1])
        if self.label is not None:
            self.label = xp.reshape(self.label, [-1])
        self.full, self.width = full if len(full) > 1 else None, int(np.prod(full[1:]))
        return full

    def _axis_of_one_hot(
        self,
        prediction: Any,
        full: tuple[int, ...],
        shape: tuple[int, ...],
        class_axis: int | None,
        reader: Any,
        weight: Any,
        mask: Any,
    ) -> int | None:
        """The axis of the classes, if labels of the scores' shape are one-hot rows: they become classes."""
        meaning, xp = reader.meaning, self.xp
        if meaning.of in (ENTRIES, LABELS) or 0 in full or not (full == shape or fits(full, shape)):
            return None
        axis = len(without_ones(full)) - 1 if class_axis is None else class_axis % len(full)
        quick = xp.FILTERS and weight is mask is None and reader.earlier.of != CLASSES
        if quick and surely_entries(prediction, self.label, 1 if class_axis is None and len(full) == 2 else axis):
            self.earlier = AS_ENTRIES
            return None
        if full[axis] < 2:
            return None
        rows = (*full[:axis], *full[axis + 1 :])
        kept = [
            xp.cast(xp.asarray(value, name), "bool")
            for value, name in ((weight, "weight"), (mask, "mask"))
            if value is not None
        ]
        flags = [_of_rows(xp, array, rows) for array in kept]
        if any(flag is None for flag in flags):
            return None  # entries have a weight or a mask of their own: they are samples
        alike = Alike(xp, xp.widened(prediction, "prediction"), self.label, axis, class_axis is not None)
        if not all(map(xp.is_eager, (alike.prediction, alike.label, *flags))):
            if xp.kind(alike.prediction) == "f" and (axis == len(full) - 1 or -1 not in full[1:]):
                self.alike = alike
            return None
        live = None
        if flags:  # of which one may stand for all rows
            live = np.broadcast_to(functools.reduce(np.logical_and, map(xp.host, flags)), math.prod(rows))
        self.earlier = alike.taken(meaning, live, reader.earlier)
        if self.earlier.of != CLASSES:
            return None
        self.label, self.read_as = alike.argmax(), "one-hot rows, taken as their argmax"
        return axis

    def _flatten_scores(self, prediction: Any, axis: int) -> tuple[int, ...]:
        """Take scores whose classes are on this axis; return the shape of the labels."""
        xp = self.xp
        shape = list(xp.shape(prediction))
        full = without_ones([*shape[:axis], *shape[axis + 1 :]])
        if shape[axis] < 1:
            raise InvalidInputError(
                f"prediction has shape {shape}, "
                + (
                    "which has no score for any class"
                    if not shape[axis]
                    else f"and axis {axis}, the classes, must have a size that the program knows"
                )
            )
        if shape[axis] == 1:  # one number for each label
            self.prediction = xp.reshape(xp.widened(prediction, "prediction"), [-1])
            return full
        self.classes = shape[axis]
        if not is_static(prediction) and Table.pays(xp, math.prod(shape)):
            self.table = Table(xp, prediction, axis)
            return full
        prediction = xp.widened(prediction, "prediction")
        if axis < len(shape) - 1:
            prediction = xp.moveaxis(prediction, axis, -1)
        self.prediction = xp.reshape(prediction, [-1, self.classes])
        return full

    def _per_sample(self, value: Any, argument: str, full: tuple[int, ...]) -> Any:
        xp = self.xp
        array = xp.asarray(value, argument)
        sizes = tuple(xp.shape(array))
        by_row = len(sizes) > 1 and sizes != full and not any(size != 1 for size in sizes[1:])
        if by_row or len(sizes) > len(full) or (len(sizes) == len(full) > 1 and sizes[-1] == 1 != full[-1]):
            array = _drop_last_one(xp, array)  # [n, 1] is one per sample, next to a matrix too
        shape = xp.shape(array)
        if len(shape) == 0:
            return xp.multiply(xp.full_like(self.each, 1.0, "float64"), xp.cast(array, "float64"))
        self.by_element = self.by_element or (argument if len(shape) > 1 else None)
        return self._spread(xp, array, argument, full)

    def _spread(self, xp: Any, array: Any, argument: str, full: tuple[int, ...]) -> Any:
        """An array of one entry per element, or per row, of this shape, flat."""
        shape = tuple(xp.shape(array))
        if len(shape) == 1 < len(full):
            _same_size(full[:1], shape, "prediction", argument)
            if self.width < 0:
                raise InvalidInputError(
                    f"{argument} has one entry per row, and the program leaves the shape of a row open: {list(full)}; "
                    "give one entry for each label"
                )
            return xp.repeat(array, self.width)
        _same_size(full, shape, "prediction", argument)
        return xp.reshape(array, [-1])

    def _column(self, value: Any, argument: str, full: tuple[int, ...]) -> Any:
        """A further column, flat; strings are in NumPy's namespace even if the batch is not, or are `Coded`."""
        from fleetmetrics.batch.keys import Coded, coded_of, keys_of  # few metrics have further columns

        coded = coded_of(value, argument)
        if coded is not None:
            _same_size(full[:1], (len(coded),), "prediction", argument)
            self.columns_by_row.add(argument)
            return coded if self.width == 1 else Coded(np.repeat(coded.codes, self.width), coded.values)
        array = value if is_paddle(value) else keys_of(value, argument)
        xp = namespace(array)
        if xp is not numpy_ops and xp.kind(array) != "i":
            raise InvalidInputError(f"{argument} must hold integers or strings, one per sample, not {array.dtype}")
        array = xp.reshape(array, [-1]) if len(xp.shape(array)) in (0, 1) else _drop_last_one(xp, array)
        if len(xp.shape(array)) == 1 < len(full):
            self.columns_by_row.add(argument)
        return self._spread(xp, array, argument, full)

    def leave_out(self, flags: np.ndarray) -> None:
        """Leave out rows without a flag, as a mask does."""
        own = self.xp.asarray(flags, "sampler")
        self.dealt = own if self.width == 1 else self.xp.repeat(own, self.width)

    @property
    def added(self) -> Any:
        """The number of rows that the mask and the sampler keep, of any weight, before any were dropped: int64."""
        xp, masks = self.xp, [mask for mask in (self.mask, self.dealt) if mask is not None]
        if not masks and not is_static(self.each):
            return xp.number(self.rows)
        flags = [xp.cast(mask, "int64") for mask in masks or [xp.ones_like(self.each)]]
        left = functools.reduce(xp.multiply, flags)
        return xp.sum(left if self.width == 1 else xp.extreme(xp.reshape(left, [-1, self.width]), None, "max", axis=1))

    @property
    def left_some_out(self) -> bool:
        """Whether a mask, or a weight of zero, has left out samples, or may have: a device is not asked."""
        xp = self.xp
        if xp.FILTERS:
            return self._dropped is not None
        return self.mask is not None or not xp.is_eager(self.weight) or not xp.all_true(xp.cast(self.weight, "bool"))

    # -- the check ---------------------------------------------------------------------------------------

    def check(self, requirements: Iterable[str | Requirement], validate: bool) -> None:
        """Drop masked samples; with ``validate``, find those that break a requirement.

        In NumPy arrays and tensors on the CPU, an invalid sample raises now. Elsewhere raising would wait for the
        device or is impossible (static programs): invalid samples are left out of the statistics and flagged in
        ``self.valid``, for `fleetmetrics.batch.rules.Check`.
        """
        xp = self.xp
        live = self.counting = self._live()
        ok = None
        rules = applicable(tuple(requirements), self.classes, self.weight is not None) if validate else []
        if validate and self.alike is not None:
            rules = [ONE_HOT, *rules]
        self.checked, self.rules = validate, rules
        if validate and self.mask is not None:
            rules = [FLAGS, *rules]
        no_label = self.label is None
        for requirement in rules:
            try:
                if no_label and requirement.argument == "label":
                    raise InvalidInputError("label is missing; give add(prediction, label)")
                holds = requirement.holds(self)
                if holds is None:
                    continue
                if xp.is_eager(holds):
                    raise_unless(xp, holds, live, requirement, self)
                else:
                    ok = holds if ok is None else xp.logical_and(ok, holds)
            except InvalidInputError as error:
                error.about = requirement
                raise
        keep = live
        if ok is not None:
            keep = ok if live is None else xp.logical_and(ok, live)
            self.valid = ok if live is None else xp.equal(keep, live)  # masked samples are valid
        if keep is not None:
            self._drop(keep)

    def _drop(self, keep: Any) -> None:
        """Keep only these samples: filtered where shapes may change, else zeroed and left out of every sum."""
        xp = self.xp
        self.memo.clear()  # requirements may have filled them
        self.of_samples.clear()
        self.counting = None if xp.FILTERS else keep
        if not xp.FILTERS:
            self.keep = keep
        elif not keep.all():
            self._dropped = keep
            self.columns = {name: to_host(column)[keep] for name, column in self.columns.items()}
        else:
            return
        if self.table is not None:
            vars(self).pop("prediction", None)
            self.table = self.table.only(keep)
        for part in ("label", "weight") if self.table is not None else ("prediction", "label", "weight"):
            array = getattr(self, part)
            if array is not None:
                setattr(self, part, array[keep] if xp.FILTERS else self._zero_unless(keep, array))
        for key, array in self.by_sample.items():
            self.by_sample[key] = array[keep] if xp.FILTERS else xp.zero_unless(keep, array)

    def _zero_unless(self, keep: Any, array: Any) -> Any:
        if array is not self.label and array is not self.weight and self.classes:
            return self.xp.zero_unless(self.xp.reshape(keep, [-1, 1]), array)
        if self.xp.kind(array) == "i":
            return self.xp.multiply(self.ones_of(keep), array)  # cheaper: the ones are needed for the count
        return self.xp.zero_unless(keep, array)

    def _live(self) -> Any:
        """Flags of the samples that are neither masked nor of weight zero; None: all."""
        if self.mask is None and self.weight is None and self.dealt is None:  # the usual case
            return None
        arrays = [array for array in (self.mask, self.weight, self.dealt) if array is not None]
        flags = [self.xp.cast(array, "bool") for array in arrays]
        return functools.reduce(self.xp.logical_and, flags)

    def given(self, argument: str, place: int) -> Any:
        """The value of an argument for one of the samples, before any was dropped."""
        if argument in self.columns:
            return to_host(self.column(argument))[place]
        if argument == "prediction" and self.table is not None:
            return next(self.xp.host(scores)[place - at.start] for at, scores in self.blocks() if place < at.stop)
        return self.xp.host(getattr(self, argument))[place]

    # -- views and sums ----------------------------------------------------------------------------------

    @property
    def scores(self) -> Any:
        """Predictions with one axis: ``[n]``; of ``[n, 2]`` probabilities the last column, as in Paddle."""
        if self.classes > 2:
            raise InvalidInputError(
                f"prediction has shape [n, {self.classes}]; allowed are [n], [n, 1], the label's shape, or [n, 2] "
                "probabilities of two classes"
            )
        return self.of_class(1) if self.classes else self.prediction

    def of_class(self, place: int) -> Any:
        """The scores of one class: ``[n]``."""
        return self.prediction[:, place] if self.table is None else self.of_rows(lambda scores: scores[:, place])

    @property
    def probabilities(self) -> Any:
        """`scores` as float64."""
        return self._last_scores() if self.classes else self.values

    @per_sample
    def _last_scores(self) -> Any:
        return self.xp.cast(self.scores, "float64")

    @property
    @per_sample
    def values(self) -> Any:
        """Predictions as float64 of the label's shape: ``[n]``."""
        if self.classes:
            why = "; label is one-hot, and another metric takes its argmax" if self.read_as else ""
            raise InvalidInputError(
                f"prediction has shape [n, {self.classes}] and label [n]; this metric compares them entry by entry: "
                f"give both the same shape{why}"
            )
        return self.xp.cast(self.prediction, "float64")

    @property
    def labels(self) -> Any:
        """Labels as they were given, flat: ``[n]``."""
        if self.label is None:
            raise InvalidInputError("label is missing; give add(prediction, label)")
        return self.label

    @property
    @per_sample
    def targets(self) -> Any:
        """Labels as float64: ``[n]``."""
        return self.xp.cast(self.labels, "float64")

    def probability(self, from_logits: bool) -> Any:
        """`probabilities`, of logits by the logistic function; of ``[n, 2]`` logits by softmax, the last class's."""
        return self._sigmoid() if from_logits else self.probabilities

    @per_sample
    def _sigmoid(self) -> Any:
        logits = self.xp.cast(self.scores, "float64")
        if self.classes:
            logits = self.xp.subtract(logits, self.xp.cast(self.of_class(0), "float64"))
        return self.xp.sigmoid(logits)

    @property
    @per_sample
    def positive(self) -> Any:
        """Flags of the labels that are not 0: ``[n]``."""
        return self.xp.cast(self.labels, "bool")

    @property
    def label_index(self) -> Any:
        """The place of each element of ``[n, m]`` input in its row, int64 ``[n * m]``; else zeros."""
        return self.cached("label_index", self._label_index)

    def _label_index(self) -> Any:
        xp = self.xp
        if self._index is not None:
            return self._index
        if xp.FILTERS:
            length = len(self.each) if self._dropped is None else len(self._dropped)
            index = np.tile(np.arange(self.width), length // self.width)
            return index if self._dropped is None else index[self._dropped]
        zeros = xp.cast(xp.zeros_like(self.each), "int64")
        return xp.reshape(xp.add(xp.reshape(zeros, [-1, self.width]), xp.arange(self.width)), [-1])

    @property
    def row_index(self) -> Any:
        """The row of each element of ``[n, m]`` input, int64 ``[n * m]``; not in static programs."""
        if self._rows is not None:
            return self._rows
        kept = np.arange(len(self.each)) if self._dropped is None else np.flatnonzero(self._dropped)
        return kept // self.width

    def first_of_rows(self, flags: Any) -> Any:
        """Flags of the first element of each row among those with a flag (None: all) that count."""
        xp = self.xp
        if xp.FILTERS:
            flags = np.ones(len(self.each), bool) if flags is None else flags.copy()
            rows = self.row_index[flags]
            flags[flags] = np.append(True, rows[1:] != rows[:-1])[: len(rows)]
            return flags
        if self.width < 0:
            raise InvalidInputError(
                f"the program leaves the shape of a row open: {list(self.full or ())}; give one entry for each element"
            )
        flags = xp.ones_like(xp.cast(self.each, "bool")) if flags is None else flags
        flags = flags if self.keep is None else xp.logical_and(flags, self.keep)
        so_far = xp.cumsum(xp.reshape(xp.cast(flags, "int64"), [-1, self.width]), axis=1)
        return xp.logical_and(flags, xp.reshape(xp.equal(so_far, xp.ones_like(so_far)), [-1]))

    def by_row(self, flags: Any) -> Any:
        """Whether all elements of a row have the flag, at its first element; False elsewhere: for `sum_of_rows`."""
        self._check_rows()
        xp = self.xp
        flags = flags if self.keep is None else xp.logical_and(flags, self.keep)  # an invalid element spoils its row
        rows = xp.all_rows(xp.reshape(flags, [-1, self.width]))
        first = xp.equal(self.label_index, xp.zeros_like(self.label_index))
        return xp.logical_and(xp.repeat(rows, self.width), first)

    def sum_of_rows(self, values: Any) -> Any:
        """As `weighted_sum`, of a value of each row at its first element, which stands for the row."""
        self._check_rows()
        return self.weighted_sum(values)

    def _check_rows(self) -> None:
        if self.by_element:
            raise InvalidInputError(
                f"{self.by_element} has one entry per element; a metric of whole rows takes one per row, of shape [n]"
            )

    def column(self, name: str) -> Any:
        """Of ``columns``, a NumPy array, tensor or variable ``[n]``, to which ``keep`` still applies; never `Coded`."""
        column = self.columns[name]
        return self.cached(("texts", name), column.texts) if hasattr(column, "texts") else column

    # -- the same samples in lanes, in parts, by row ----------------------------------------------------------

    def in_lanes(self, lanes: Any, by: str | None = None) -> Batch:
        """The same samples in `Groups` or `Replicates`: states have an axis in front, or after that of the groups.

        Args:
            lanes: of the samples.
            by: the column that decides the lane; None: no column does.
        """
        batch = copy.copy(self)
        batch.lanes, batch.memo = lanes, {}
        if by is not None and self.width != 1 and by not in self.columns_by_row:
            batch.by_element = self.by_element or by
        if self.lanes is not None:
            from fleetmetrics.batch.lanes import Nested, Replicates

            if not self.lanes.in_groups or not isinstance(lanes, Replicates):
                raise InvalidInputError("lanes in lanes may be replicates in groups only")
            batch.lanes = Nested(self.lanes, lanes)
        return batch

    def part(self, place: Any) -> Batch:
        """Whole rows of elements by their places along `prediction`, without lanes; not in static programs."""
        batch = copy.copy(self)
        batch.memo, batch.of_samples, batch.by_sample = {}, {}, {}
        batch.lanes = batch.table = None
        for name in ("prediction", "label", "weight", "keep", "counting"):
            array = getattr(self, name)
            setattr(batch, name, None if array is None else array[place])
        batch.columns = {name: column[place] for name, column in self.columns.items()}
        if self.full is not None:
            batch.full = (self.xp.shape(batch.each)[0] // self.width, *self.full[1:])
        if self.width > 1:
            batch._index = self.label_index[place]
            batch._rows = self.row_index[place] if self.xp.FILTERS else None
        return batch


def _drop_last_one(xp: Any, array: Any) -> Any:
    """``[n, 1]``, or ``[n, 1, 1]``, as ``[n]``, and ``[]`` as ``[1]``."""
    shape = tuple(xp.shape(array))
    kept = without_ones(shape)
    if kept == shape:
        return array
    return xp.reshape(array, [-1, *kept[1:]] if shape else [1])


def _of_rows(xp: Any, flags: Any, rows: tuple[int, ...]) -> Any:
    """Flags as one for each row, flat; None if they are not one for all, for each entry of the first axis or row."""
    shape, rows = tuple(xp.shape(flags)), without_ones(rows)
    kept = without_ones(shape)
    if fits(kept, rows) and len(kept) > 1:
        return xp.reshape(flags, [-1])
    times = math.prod(rows[1:])
    if not shape:
        return xp.reshape(flags, [1]) if xp.FILTERS else flags
    if (kept == (1,) and rows[0] != 1) or len(kept) > 1 or not fits(kept, rows[:1]) or times < 0:
        return None
    flags = xp.reshape(flags, [-1])
    return flags if times == 1 else xp.repeat(flags, times)


def _same_size(expected: tuple[int, ...], shape: tuple[int, ...], one: str, other: str) -> None:
    """Raise unless two shapes agree; a static program's open sizes (-1) agree with any."""
    if not fits(expected, shape):
        raise InvalidInputError(
            f"{other} has shape {list(shape)} but {one} has {list(expected)}; they must be equal, one entry per sample"
            + (hint_of_one_hot(expected, shape) if other == "label" else "")
        )
