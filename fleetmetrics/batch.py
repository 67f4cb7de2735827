"""A batch as the metrics see it: flat, checked, and weighted.

This is the first step of the way of the data: prediction, label, weight and mask come in; what goes on to the
batch statistics holds no invalid and no masked sample.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterable, NamedTuple

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.xp import namespace

__all__ = ["REQUIREMENTS", "Batch", "Requirement", "applicable", "statistic"]


class Batch:
    """What one call of ``add`` brings, in one array namespace.

    Args:
        prediction: ``[n]``, ``[n, 1]``, ``[]`` or any shape equal to the label's; or ``[n, classes]`` scores
            beside labels ``[n]`` or ``[n, 1]``. Bools, integers or floats.
        label: as above, or None for metrics that take values only.
        weight: None, one number, one number per sample, or one per element; at least 0.
        mask: the same shapes; False (or 0) drops the sample: it leaves no trace, whatever it holds.

    Raises:
        InvalidInputError: if the shapes do not fit together or the dtypes are not numbers.
    """

    def __init__(self, prediction: Any, label: Any = None, weight: Any = None, mask: Any = None) -> None:
        self.xp = xp = namespace(prediction, label, weight, mask)
        self.memo: dict[Any, Any] = {}
        self.keep: Any = None  # flags of the samples that count; None: all that are here
        self.valid: Any = None  # flags of the samples that broke no requirement; None: checked at once, or not asked
        self.prediction: Any = xp.asarray(prediction, "prediction")
        self.label: Any = None if label is None else xp.asarray(label, "label")
        full = self._flatten()
        self.weight: Any = None if weight is None else xp.cast(self._per_sample(weight, "weight", full), "float64")
        self.mask: Any = None if mask is None else self._per_sample(mask, "mask", full)

    def _flatten(self) -> tuple[int, ...]:
        """Bring prediction and label to one axis (scores to two); return the shape that they had."""
        xp = self.xp
        prediction = _drop_last_one(xp, self.prediction)
        full = tuple(xp.shape(prediction))
        self.classes = 0
        if self.label is not None:
            label = _drop_last_one(xp, self.label)
            shape = tuple(xp.shape(label))
            if len(full) == len(shape) + 1 == 2:
                self.classes = full[1]
                _same_size(full[:1], shape, "prediction", "label")
                full = full[:1]
            else:
                _same_size(full, shape, "prediction", "label")
            self.label = xp.reshape(label, [-1])
        self.prediction = xp.reshape(prediction, [-1, self.classes] if self.classes else [-1])
        return full

    def _per_sample(self, value: Any, argument: str, full: tuple[int, ...]) -> Any:
        xp = self.xp
        array = xp.asarray(value, argument)
        given = tuple(xp.shape(array))
        if len(given) > len(full) or (len(given) == len(full) > 1 and given[-1] == 1 != full[-1]):
            array = _drop_last_one(xp, array)  # [n, 1] is one per sample beside a matrix too
        shape = tuple(xp.shape(array))
        if shape == ():
            return xp.multiply(self._ones(), xp.cast(array, "float64"))
        if len(shape) == 1 < len(full):
            _same_size(full[:1], shape, "prediction", argument)
            column = xp.reshape(xp.cast(array, "float64"), [-1, *[1] * (len(full) - 1)])
            array = xp.multiply(xp.reshape(self._ones(), [-1, *full[1:]]), column)
        else:
            _same_size(full, shape, "prediction", argument)
        return xp.reshape(array, [-1])

    def _ones(self) -> Any:
        """A float64 1 per sample."""
        like = self.label if self.classes else self.prediction
        return self.xp.cast(self.xp.zeros_like(like), "float64") + 1.0

    # -- the check ---------------------------------------------------------------------------------------

    def check(self, owner: str, requirements: Iterable[str], validate: bool) -> None:
        """Drop masked samples; then find those that break a requirement.

        NumPy arrays and tensors on the CPU are looked at now, and an invalid sample is an error. Elsewhere
        that would wait for the device or cannot be done at all (static programs): invalid samples are left
        out of the statistics and flagged in ``self.valid``, for `fleetmetrics.check.Check`.

        Args:
            owner: name of the metric, for the message.
            requirements: keys of `REQUIREMENTS`.
            validate: False skips the check.

        Raises:
            InvalidInputError: names the argument, how many samples, the first position and its value.
        """
        xp = self.xp
        live = self._live()
        ok = None
        for requirement in applicable(requirements, self.classes) if validate else ():
            if requirement.argument == "label" and self.label is None:
                raise InvalidInputError("label is missing; give add(prediction, label)")
            holds = requirement.holds(self)
            if holds is None:
                continue
            if xp.is_eager(holds):
                _raise_unless(xp, holds, live, owner, requirement, self)
            else:
                ok = holds if ok is None else xp.logical_and(ok, holds)
        keep = live
        if ok is not None:
            keep = ok if live is None else xp.logical_and(ok, live)
            self.valid = ok if live is None else xp.equal(keep, live)  # what is masked breaks nothing
        if keep is not None:
            self._drop(keep)

    def _drop(self, keep: Any) -> None:
        """Keep these samples only: filtered where shapes are free, else zeroed and left out of every sum."""
        xp = self.xp
        parts = ("prediction", "label", "weight")
        if xp.FILTERS:
            if not keep.all():
                for part in parts:
                    array = getattr(self, part)
                    setattr(self, part, None if array is None else array[keep])
            return
        self.keep = keep
        if self.classes:
            self.prediction = xp.zero_unless(xp.reshape(keep, [-1, 1]), self.prediction)
        else:
            self.prediction = self._zero_unless(keep, self.prediction)
        if self.label is not None:
            self.label = self._zero_unless(keep, self.label)
        if self.weight is not None:
            self.weight = self._zero_unless(keep, self.weight)

    def _zero_unless(self, keep: Any, array: Any) -> Any:
        if self.xp.kind(array) == "i":
            return self.xp.multiply(self.ones_of(keep), array)  # cheaper: the ones are counted as well
        return self.xp.zero_unless(keep, array)

    def _live(self) -> Any:
        """Flags of the samples that neither the mask nor a weight of zero drops; None: all."""
        flags = [self.xp.cast(array, "bool") for array in (self.mask, self.weight) if array is not None]
        return functools.reduce(self.xp.logical_and, flags) if flags else None

    # -- views and sums ----------------------------------------------------------------------------------

    @property
    def scores(self) -> Any:
        """Predictions with one axis: ``[n]``; of ``[n, 2]`` probabilities the last column, as Paddle has it."""
        if self.classes > 2:
            raise InvalidInputError(
                f"prediction has shape [n, {self.classes}]; allowed are [n], [n, 1], the label's shape, or [n, 2] "
                "probabilities of two classes"
            )
        return self.prediction[:, 1] if self.classes else self.prediction

    @property
    def probabilities(self) -> Any:
        """`scores` as float64."""
        return (
            self.cached("probabilities", lambda: self.xp.cast(self.scores, "float64")) if self.classes else self.values
        )

    @property
    def values(self) -> Any:
        """Predictions as float64 of the label's shape: ``[n]``."""
        if self.classes:
            raise InvalidInputError(
                f"prediction has shape [n, {self.classes}] and label [n]; this metric compares them number by "
                "number: give both the same shape"
            )
        return self.cached("values", lambda: self.xp.cast(self.prediction, "float64"))

    @property
    def labels(self) -> Any:
        """Labels as they were given, flat: ``[n]``."""
        if self.label is None:
            raise InvalidInputError("label is missing; give add(prediction, label)")
        return self.label

    @property
    def targets(self) -> Any:
        """Labels as float64: ``[n]``."""
        return self.cached("targets", lambda: self.xp.cast(self.labels, "float64"))

    @property
    def positive(self) -> Any:
        """Flags of the labels that are not 0: ``[n]``."""
        return self.cached("positive", lambda: self.xp.cast(self.labels, "bool"))

    def cached(self, key: Any, make: Callable[[], Any]) -> Any:
        """The value of ``make()``, computed once per batch: what several metrics need costs once."""
        if key not in self.memo:
            self.memo[key] = make()
        return self.memo[key]

    def weighted_sum(self, values: Any, *, zero_at_zero: bool = False) -> Any:
        """``sum(w * values)`` over the samples that count.

        Args:
            values: one bool, integer or float per sample.
            zero_at_zero: the values are 0 wherever prediction and label are 0, as they are for samples that do
                not count: then those need not be left out again.

        Returns:
            Without weights an int64 for bools and integers; else a float64.
        """
        xp = self.xp
        if self.weight is not None:
            return xp.sum(xp.multiply(xp.cast(values, "float64"), self.weight))
        if self.keep is None or zero_at_zero:
            return xp.sum(values)
        return xp.sum(xp.zero_unless(self.keep, values))

    @property
    def total(self) -> Any:
        """The number (int64) or the weight (float64) of the samples that count."""
        return self.cached("total", self._total)

    @property
    def counted_weight(self) -> Any:
        """What each sample counts for, to scatter into a histogram: float64 weights, int64 flags; None: 1."""
        if self.weight is not None or self.keep is None:
            return self.weight
        return self.ones_of(self.keep)

    def ones_of(self, flags: Any) -> Any:
        """Flags as an int64 of zeros and ones."""
        return self.cached(("ones", id(flags)), lambda: self.xp.cast(flags, "int64"))

    def number_of(self, flags: Any) -> Any:
        """The number of true flags."""
        return self.cached(("number", id(flags)), lambda: self.xp.sum(flags))

    def _total(self) -> Any:
        if self.weight is not None:
            return self.xp.sum(self.weight)
        if self.keep is not None:
            return self.number_of(self.keep)
        return self.xp.count(self.label if self.classes else self.prediction)


class Requirement(NamedTuple):
    """What a sample must be like to be counted."""

    argument: str
    allowed: str
    holds: Callable[[Batch], Any]  # flags, one per sample; None: it cannot be otherwise

    @property
    def text(self) -> str:
        """The rule in words."""
        return f"{self.argument}: {self.allowed}"


def _finite(batch: Batch, array: Any) -> Any:
    """Flags of the finite entries; None if all are, being integers."""
    if batch.xp.kind(array) != "f":
        return None
    finite = batch.xp.isfinite(array)
    return batch.xp.all_rows(finite) if len(batch.xp.shape(array)) > 1 else finite


#: By name; a metric lists those that it needs.
REQUIREMENTS: dict[str, Requirement] = {
    "finite_prediction": Requirement("prediction", "a finite number", lambda b: _finite(b, b.prediction)),
    "probability": Requirement(
        "prediction",
        "a probability in [0, 1] (apply the sigmoid or softmax to logits first)",
        lambda b: b.xp.is_probability(b.scores),
    ),
    "finite_label": Requirement("label", "a finite number", lambda b: _finite(b, b.label)),
    "class_label": Requirement(
        "label",
        "a class: 0 or 1, or with several scores a whole number below their number",
        lambda b: b.xp.is_class(b.label, max(b.classes, 2)),
    ),
    "weight": Requirement(
        "weight",
        "a finite number of at least 0",
        lambda b: None if b.weight is None else b.xp.is_weight(b.weight),
    ),
}


def applicable(names: Iterable[str], classes: int = 0) -> list[Requirement]:
    """The requirements behind their names, without those that a stricter one implies, and that of the weight."""
    asked = {*names, "weight"}
    if "class_label" in asked:
        asked.discard("finite_label")
    if "probability" in asked and not classes:
        asked.discard("finite_prediction")
    return [requirement for name, requirement in REQUIREMENTS.items() if name in asked]


def statistic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of a batch (and plain settings) compute once per batch, however many metrics ask."""

    @functools.wraps(function)
    def memoised(batch: Batch, *settings: Any) -> Any:
        return batch.cached((function.__qualname__, *settings), lambda: function(batch, *settings))

    return memoised


def _drop_last_one(xp: Any, array: Any) -> Any:
    """``[n, 1]`` as ``[n]`` and ``[]`` as ``[1]``."""
    shape = list(xp.shape(array))
    if not shape:
        return xp.reshape(array, [1])
    return xp.reshape(array, [-1, *shape[1:-1]]) if len(shape) > 1 and shape[-1] == 1 else array


def _same_size(expected: tuple[int, ...], given: tuple[int, ...], one: str, other: str) -> None:
    """Raise unless two shapes agree; sizes that a static program leaves open (-1) agree with anything."""
    if len(expected) != len(given) or any(a != b for a, b in zip(expected, given) if -1 not in (a, b)):
        raise InvalidInputError(
            f"{other} has shape {list(given)} but {one} has {list(expected)}; they must be equal, one entry per sample"
        )


def _raise_unless(xp: Any, holds: Any, live: Any, owner: str, requirement: Requirement, batch: Batch) -> None:
    if xp.all_true(holds):
        return
    broken = ~xp.host(holds)
    if live is not None:
        broken &= xp.host(live)
    if not broken.any():
        return
    first = int(broken.argmax())
    value = xp.host(getattr(batch, requirement.argument))[first]
    raise InvalidInputError(
        f"{owner}: {requirement.argument} must be {requirement.allowed}; {broken.sum()} of {broken.size} samples "
        f"are not, the first at position {first}: {value}. Nothing of this batch was added; mask such samples, or "
        "pass validate=False to skip the check"
    )
