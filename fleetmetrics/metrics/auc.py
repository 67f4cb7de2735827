"""Areas under curves, from a histogram of the scores."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Mapping, Sequence, overload

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.base.accumulator import Value
from fleetmetrics.errors import BucketWarning, InvalidInputError, UndefinedMetricWarning
from fleetmetrics.metrics.buckets import (
    ClassesSettings,
    ClassHistograms,
    ClassSettings,
    HistogramSettings,
    tolerance_of,
    too_wide,
    warn_of_width,
)
from fleetmetrics.state.state import State
from fleetmetrics.support.checks import choice_of, flag_of
from fleetmetrics.support.typed import Required, Unpack
from fleetmetrics.support.vocabulary import in_shell
from fleetmetrics.support.warning import muted, muted_now

__all__ = ["AUC", "AveragePrecision"]

_CURVES = ("ROC", "PR")


@functools.lru_cache(maxsize=None)
def _formulas_of(curve: str, bounds: bool | None) -> tuple[Any, Any]:
    """The area of one class, and the areas of several; ``bounds``: None: as far as ``tolerance`` asks."""
    from fleetmetrics.formulas import auc, class_areas

    if curve == "ROC":
        of_classes = class_areas.auc_of_classes.bare
        if bounds is False:
            return auc.auc_from_histogram.bare, of_classes
        return auc.auc_bounds.bare, functools.partial(of_classes, bounds=True)  # which take no longer than the value
    if bounds is None:
        return auc.average_precision_near, class_areas.average_precision_of_classes_near
    of_classes = functools.partial(class_areas.average_precision_of_classes.bare, bounds=bounds)
    return (auc.average_precision_bounds if bounds else auc.average_precision_from_histogram).bare, of_classes


#: What is the matter if most samples are in the first and the last bucket, and the way out.
_EXTREME = "Most samples have scores below 2.3e-10, or as near to 1"
_FOR_EXTREME = "give ExactAUC, which needs none, or scores that are not so near to 0 and 1"


class AreaSettings(ClassSettings, total=False):
    """Arguments of every area over buckets."""

    bounds: bool
    tolerance: float | None


class OneArea(HistogramSettings, ClassesSettings, total=False):
    """Arguments of a metric whose value is one number."""

    average: Literal["macro", "weighted", "micro"]
    bounds: Literal[False]
    tolerance: float | None


class AreaEach(HistogramSettings, ClassesSettings, total=False):
    """Arguments of a metric whose value has an area for each class or label."""

    average: Required[Literal["none"] | None]
    bounds: Literal[False]
    tolerance: float | None


class AreaBounds(ClassSettings, total=False):
    """Arguments of a metric whose value has bounds."""

    bounds: Required[Literal[True]]
    tolerance: float | None


class _Area(ClassHistograms[Value]):
    """An area over buckets: with its bounds, or with a warning if they are far apart; arguments as for `AUC`."""

    better = "higher"
    curve = "PR"
    max_fpr: float | None = None
    incidental: ClassVar[tuple[str, ...]] = (*ClassHistograms.incidental, "tolerance")
    bounds: bool
    tolerance: float

    def __init__(
        self, *, bounds: bool = False, tolerance: float | None = 0.01, **settings: Unpack[ClassSettings]
    ) -> None:
        super().__init__(**settings)
        self.bounds = flag_of("bounds", bounds)
        self.tolerance = tolerance_of(tolerance)

    @property
    def ranked(self) -> str:
        whole = self.cell_states and self.max_fpr is None and not self.bounds
        return "histogram" if whole else ""

    def area(self, histogram: np.ndarray, bounds: bool | None) -> Any:
        """The area, or a `fleetmetrics.formulas.BoundedArea`; None: with bounds as far as ``tolerance`` asks."""
        of_one, of_classes = _formulas_of(self.curve, bounds)
        limit = (self.max_fpr,) if self.curve == "ROC" else ()
        if self.task.kind != "binary":
            return of_classes(histogram, self.average, *limit, self.zero_division, of=self._entry)
        negative, positive = histogram
        return of_one(positive, negative, *limit, self.zero_division)

    def formula(self, histogram: np.ndarray) -> Any:
        if self.bounds:
            return self.area(histogram, bounds=True)
        if math.isinf(self.tolerance) or issubclass(BucketWarning, muted_now()):
            return self.area(histogram, bounds=False)
        area = self.area(histogram, bounds=None)
        apart = area.high - area.low > self.tolerance
        if apart if isinstance(apart, bool) else apart.any():
            with muted(UndefinedMetricWarning):  # which has been said
                bounds = [np.atleast_1d(bound) for bound in self.area(histogram, bounds=True)]
            worst = too_wide(bounds, self.tolerance)
            if worst is not None:
                entry = f" of {self._entry} {worst}" if len(bounds[0]) > 1 else ""
                over = f"{entry} is an area over buckets; the area"
                warn_of_width(
                    self, [bound[worst] for bound in bounds], over, self._way_out(self._is_extreme(histogram))
                )
        return area.value

    def _is_extreme(self, histogram: np.ndarray) -> bool:
        """Whether most pairs in one bucket have odds below 2**-32, or above 2**32: more buckets do not part them."""
        negative, positive = np.moveaxis(histogram, -2, 0).astype(np.float64)
        shares = [counts / (counts.max() or 1.0) for counts in (negative, positive)]  # products of weights may overflow
        pairs = (shares[0] * shares[1]).reshape(-1, self.buckets).sum(axis=0)
        return self.spacing == "log_odds" and 2 * (pairs[0] + pairs[-1]) > pairs.sum()

    def _way_out(self, extreme: bool) -> str:
        """What to do if the bounds are too wide; ``extreme``: see `_is_extreme`."""
        if not in_shell():
            if extreme:
                return f"{_EXTREME}, which no number of buckets parts: {_FOR_EXTREME}"
            more = "Give more buckets=, or tolerance=None"
            return f"{more}; bounds=True returns the bounds, and ExactAUC needs no buckets"
        exact = ""
        if self.task.kind == "binary":
            exact = f"for exact_auc{':curve=PR' if self.curve == 'PR' else ''}, which needs none"
        if extreme:
            return f"{_EXTREME}, which no number of buckets parts" + (f": ask {exact}" if exact else "")
        area = "average_precision" if isinstance(self, AveragePrecision) else "auc"
        other = f", or {exact}" if exact else ""
        return f"Ask for more buckets, {area}:buckets=65536{other}; with few distinct scores, the value is right"


class AUC(_Area[Value]):
    """Area under the ROC or the precision-recall curve, from a histogram of the scores.

    Formula: see `fleetmetrics.formulas.auc_from_histogram` and, for ``curve="PR"``,
    `fleetmetrics.formulas.average_precision_from_histogram`. Samples in one bucket count as tied; the value is exact
    for scores rounded to their buckets.

    Buckets: ``spacing="log_odds"`` splits each doubling of the odds ``p / (1 - p)`` evenly; 4,096 buckets give 64 per
    doubling, from odds of ``2**-32`` to ``2**32``, which suits any click rate. ``spacing="linear"`` has the buckets of
    ``paddle.static.auc``, ``int(p * (buckets - 1))`` in the precision of the scores (float16 in float32): at a click
    rate of 0.02 %, an area from 4,096 of them is off by 0.05. NumPy, dynamic mode and static programs place each score
    in the same bucket.

    Bounds: ``bounds=True`` adds the lowest and the highest area over all orders of the samples inside their buckets.
    The area of the raw scores lies between them, with ties and weights, up to rounding in the last digits: for the ROC
    curve that is `sklearn.metrics.roc_auc_score` (with ``max_fpr`` too), for the PR curve
    `sklearn.metrics.average_precision_score`.

    Several classes: each has the area of its scores against all other samples, and ``average`` combines them, see
    `fleetmetrics.formulas.auc_of_classes`. The bounds of an average are the averaged bounds. The histograms take 64 KiB
    per class with 4,096 buckets.

    ``add(prediction, label)`` takes the probabilities and labels of `fleetmetrics.LogLoss`, by task. Undefined if no
    sample is of the class or, for the ROC curve, if all samples are. The average leaves an undefined class out, or
    counts it as ``zero_division``.

    Args:
        task: ``"binary"``, ``"multiclass"`` or ``"multilabel"``; None: multiclass with ``num_classes``, multilabel with
            ``num_labels``, else binary.
        num_classes: the number of classes, at least 2; with ``"multiclass"`` only.
        num_labels: the number of labels of a sample; with ``"multilabel"`` only.
        average: of several classes or labels: ``"macro"``, the mean of their areas; ``"weighted"``, by how often each
            is true; ``"micro"``, the area of all their scores together; None (or ``"none"``): an array, one for each.
        curve: "ROC", or "PR" for the average precision.
        buckets: their number, at least 2; None: 4,096, or ``num_thresholds + 1``.
        spacing: "log_odds" or "linear"; None: "log_odds", or "linear" with ``num_thresholds``.
        max_fpr: standardized partial area up to this false positive rate, in (0, 1]; for ``curve="ROC"`` only. None:
            the whole area.
        bounds: whether ``compute`` returns the bounds as well.
        tolerance: the largest distance of the bounds without a `BucketWarning` from ``compute``, at least 0; None: it
            never warns, as with ``bounds=True``.
        from_logits: predictions are logits: the sigmoid is applied, for several classes (and ``[n, 2]``) the softmax.
        num_thresholds: Paddle's name: ``num_thresholds + 1`` linear buckets.
        ignore_index: samples (for ``"multilabel"``: single labels) with this label, or one of several in a list, do
            not count.
        class_axis: as for `fleetmetrics.Precision`.

    Raises:
        InvalidInputError: an argument is invalid or contradicts another one, or the histograms would exceed 8 GiB; in
            ``add``, shapes are not those of the task.

    Examples:
        >>> metric = AUC()
        >>> metric.add([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
        >>> metric.compute()
        0.75
        >>> metric = AUC(buckets=8, bounds=True)
        >>> metric.add([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
        >>> metric.compute()
        BoundedArea(value=0.875, low=0.75, high=1.0)
        >>> metric = AUC(task="multiclass", num_classes=3, average=None)
        >>> metric.add([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.3, 0.2, 0.5], [0.4, 0.6, 0.0]], [0, 1, 2, 1])
        >>> metric.compute().tolist()
        [1.0, 1.0, 0.6666666666666666]
        >>> metric = AUC(task="multilabel", num_labels=2, average=None)
        >>> metric.add([[0.1, 0.9], [0.4, 0.2], [0.35, 0.1], [0.8, 0.3]], [[0, 1], [0, 0], [1, 0], [1, 1]])
        >>> metric.compute().tolist()
        [0.75, 1.0]
    """

    pictures: tuple[str, ...] = ("roc",)

    curve: str
    max_fpr: float | None

    @overload
    def __init__(
        self: AUC[float],
        *,
        curve: Literal["ROC", "PR"] = "ROC",
        max_fpr: float | None = None,
        **settings: Unpack[OneArea],
    ) -> None: ...
    @overload
    def __init__(
        self: AUC[np.ndarray],
        *,
        curve: Literal["ROC", "PR"] = "ROC",
        max_fpr: float | None = None,
        **settings: Unpack[AreaEach],
    ) -> None: ...
    @overload
    def __init__(
        self: AUC[formulas.BoundedArea],
        *,
        curve: Literal["ROC", "PR"] = "ROC",
        max_fpr: float | None = None,
        **settings: Unpack[AreaBounds],
    ) -> None: ...
    @overload  # a bool, or a choice, that is known at run time alone
    def __init__(
        self: AUC[Any],
        *,
        curve: Literal["ROC", "PR"] = "ROC",
        max_fpr: float | None = None,
        **settings: Unpack[AreaSettings],
    ) -> None: ...
    def __init__(
        self, *, curve: Literal["ROC", "PR"] = "ROC", max_fpr: float | None = None, **settings: Unpack[AreaSettings]
    ) -> None:
        super().__init__(**settings)
        self.curve, self.max_fpr = curve_of(curve, max_fpr)
        if curve == "PR":
            self.pictures = tuple(dict.fromkeys(["precision_recall", *self.pictures]))

    def values_from_rows(self, values: Mapping[State, np.ndarray]) -> Sequence[Any] | None:
        histogram = values[self.states["histogram"]]
        if not self.ranked or self.curve != "ROC" or histogram.dtype.kind == "f":
            return None
        from fleetmetrics.formulas.auc import areas_of_many

        value, low, high = areas_of_many(histogram[:, 1], histogram[:, 0])
        with np.errstate(invalid="ignore"):
            quiet = high - low <= self.tolerance
        return [area if known else None for area, known in zip(value.tolist(), quiet.tolist())]


def curve_of(curve: Any, max_fpr: Any) -> tuple[str, float | None]:
    """The arguments; raises if they are invalid, or ``max_fpr`` is given for another curve than ROC."""
    choice_of("curve", curve, _CURVES)
    if max_fpr is None:
        return curve, None
    from fleetmetrics.formulas.auc import area_fraction

    area_fraction(max_fpr)
    if curve != "ROC":
        raise InvalidInputError(f"max_fpr is for curve='ROC', not for curve={curve!r}; leave it out")
    return curve, max_fpr


class AveragePrecision(_Area[Value]):
    """Average precision: the area under the steps of the precision-recall curve, from a histogram of the scores.

    Formula: see `fleetmetrics.formulas.average_precision_from_histogram`; ``AUC(curve="PR")`` under the name used by
    scikit-learn and torchmetrics. Samples in one bucket enter together, which makes the value slightly low: at a rate
    of 0.02 % by about 1 % with 4,096 log-odds buckets, and by a sixteenth of that with 65,536. ``bounds=True`` gives
    the largest possible error.

    Inputs, buckets, bounds and arguments (except ``curve`` and ``max_fpr``) as for `AUC`. With several classes the
    value is the mean of their average precisions (mAP), or follows ``average``. Undefined if no sample is positive.

    Examples:
        >>> metric = AveragePrecision()
        >>> metric.add([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
        >>> metric.compute()
        0.8333333333333333
    """

    pictures: tuple[str, ...] = ("precision_recall",)

    if TYPE_CHECKING:

        @overload
        def __init__(self: AveragePrecision[float], **settings: Unpack[OneArea]) -> None: ...
        @overload
        def __init__(self: AveragePrecision[np.ndarray], **settings: Unpack[AreaEach]) -> None: ...
        @overload
        def __init__(self: AveragePrecision[formulas.BoundedArea], **settings: Unpack[AreaBounds]) -> None: ...
        @overload
        def __init__(self: AveragePrecision[Any], **settings: Unpack[AreaSettings]) -> None: ...
        def __init__(self, **settings: Unpack[AreaSettings]) -> None: ...
