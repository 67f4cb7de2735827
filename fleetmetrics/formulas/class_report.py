"""The report of classes: precision, recall, F1 and support of each class, and their averages."""

from __future__ import annotations

import math
from typing import Any, Iterable, Iterator, Mapping, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError, UndefinedMetricWarning
from fleetmetrics.formulas.arrays import matrix
from fleetmetrics.formulas.confusion import Counts, averaged, counts_of
from fleetmetrics.formulas.quotients import NO_SAMPLES, ratio
from fleetmetrics.support.checks import checked, in_order, stand_in_value, whole_number_of
from fleetmetrics.support.optional import library
from fleetmetrics.support.printed import ByName, Column, Printed, Table, clean, grouped, number
from fleetmetrics.support.warning import muted, part_now, warn

__all__ = ["ClassReport", "classification_report"]

#: The numbers of a class, and the averages, as scikit-learn calls them.
MEASURES = ("precision", "recall", "f1-score")
_OF_CLASSES = {"micro": "micro avg", "macro": "macro avg", "weighted": "weighted avg"}
OF_SAMPLES = "samples avg"
#: The metrics whose value is a `ClassReport`.
REPORTS = ("ClassificationReport", "EntityReport")
AVERAGES = ("accuracy", *_OF_CLASSES.values(), OF_SAMPLES)
#: The most classes that a warning names.
_NAMED = 5


class ClassReport(ByName[Any], Printed):
    """A dict by class and average, as scikit-learn's ``classification_report(output_dict=True)`` has it.

    Each class has a dict of ``"precision"``, ``"recall"``, ``"f1-score"`` and ``"support"``, and so have ``"macro
    avg"`` and ``"weighted avg"``. ``"accuracy"`` is a number. Several labels, and a selection of the classes, have
    ``"micro avg"`` in its place, and several labels of `ClassificationReport` also ``"samples avg"``. `str` gives a
    table, and a notebook shows one.
    """

    #: The digits after the point in the table.
    digits: int = 2

    def __init__(self) -> None:
        super().__init__("class", "it is empty", {})

    @property
    def classes(self) -> list[str]:
        """The names of the classes, in the order of the rows."""
        return [name for name in self if name not in AVERAGES]

    def frame(self) -> Any:
        """Return a data frame of pandas: a row for each class and average, a column for each number.

        Raises:
            MissingLibraryError: pandas is not installed.
        """
        rows = [{"class": row["name"], **{key: row[key] for key in (*MEASURES, "support")}} for row in rows_of(self)]
        return library("pandas").DataFrame(rows).set_index("class")

    def tables(self) -> Iterator[Table]:
        """The table that is printed."""
        yield table_of("", rows_of(self), self.digits)


def rows_of(report: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of a report or of its JSON, with their names; that of the accuracy has no precision and recall."""
    for name, value in report.items():
        if isinstance(value, Mapping):
            yield {"name": name, **value}
        else:
            support = report["macro avg"]["support"]
            yield {"name": name, "precision": math.nan, "recall": math.nan, "f1-score": value, "support": support}


def table_of(title: str, rows: Iterable[Mapping[str, Any]], digits: int, more: Sequence[Column] = ()) -> Table:
    """The table of a report.

    Args:
        title: above it, or nothing.
        rows: of `rows_of`.
        digits: after the point.
        more: further columns.
    """

    def share(name: str) -> Column:
        return Column(name, lambda row: _share(row[name], digits, row["name"] == "accuracy" and name != "f1-score"))

    support = Column("support", lambda row: _support(row["support"]))
    return Table.of(title, [Column("", lambda row: clean(row["name"])), *map(share, MEASURES), support, *more], rows)


def _share(value: Any, digits: int, empty: bool = False) -> str:
    if empty:
        return ""
    return "undefined" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def _support(value: Any) -> str:
    return grouped(value) if isinstance(value, int) else number(value)


def class_names(names: Any, size: int, argument: str = "target_names") -> list[str]:
    """The names of the classes; None: their numbers.

    Args:
        names: as they are given.
        size: the number of classes.
        argument: that gives the names.

    Raises:
        InvalidInputError: they are too many or too few, not unique, or also those of averages.
    """
    if names is None:
        return [str(place) for place in range(size)]
    texts = [str(name) for name in in_order(argument, names, "names of the classes")]
    if len(texts) != size:
        raise InvalidInputError(f"{argument} must hold a name for each of the {size} classes, not {texts!r:.80}")
    for place, name in enumerate(texts):
        if name in AVERAGES:
            raise InvalidInputError(f"{argument}: {name!r} is also the name of an average; give another name")
        if name in texts[:place]:
            raise InvalidInputError(f"{argument}: {name!r} is there twice; give each class a name of its own")
    return texts


def _names(argument: str, value: Any, _: Any = None) -> Any:
    return value if value is None else in_order(argument, value, "names of the classes")


def _digits(argument: str, value: Any, _: Any = None) -> int:
    return whole_number_of(argument, value, 0, 15)


@checked(confusion=matrix(labels=True), target_names=_names, zero_division=stand_in_value, digits=_digits)
def classification_report(
    confusion: Any, target_names: Any = None, zero_division: float = math.nan, digits: int = 2
) -> ClassReport:
    """Precision, recall, F1 and support of each class, and their averages.

    Formula: those of `precision`, `recall` and `f_beta`, with ``average=None``, ``"macro"`` and ``"weighted"``;
    accuracy, or for labels ``"micro"``.

    Args:
        confusion: ``[classes, classes]`` or ``[labels, 2, 2]``.
        target_names: the names of the classes; None: their numbers.
        zero_division: see `fleetmetrics.formulas.precision`. One warning names all undefined numbers.
        digits: the digits of the printed table.

    Examples:
        >>> print(classification_report([[3, 1], [0, 4]], ["cat", "dog"]))
                      precision  recall  f1-score  support
        cat                1.00    0.75      0.86        4
        dog                0.80    1.00      0.89        4
        accuracy                             0.88        8
        macro avg          0.90    0.88      0.87        8
        weighted avg       0.90    0.88      0.87        8
    """
    counts = counts_of(confusion)
    names = class_names(target_names, len(counts.tp))
    right = (counts.tp.sum(), confusion.sum()) if counts.entry == "class" else None
    return report_of(counts, names, right, zero_division, digits)


def report_of(
    counts: Counts,
    names: Sequence[str],
    right: tuple[Any, Any] | None,
    zero_division: float,
    digits: int,
    title: str = "classification_report",
    nothing: str = NO_SAMPLES,
) -> ClassReport:
    """The report from the counts of each class.

    Args:
        counts: of the classes in it.
        names: theirs.
        right: the number of correct samples, and that of all; None: the report has no accuracy.
        zero_division: see `classification_report`.
        digits: see there.
        title: what warnings begin with.
        nothing: why all is undefined, if it is.
    """
    quotients = {
        "precision": ("never predicted", counts.tp, counts.predicted),
        "recall": ("never true", counts.tp, counts.support),
        "f1-score": ("neither true nor predicted", 2 * counts.tp, counts.support + counts.predicted),
    }
    averages = [average for average in _OF_CLASSES if average != "micro" or right is None]
    with muted(UndefinedMetricWarning):  # one warning, with the names of the classes, says it below
        values = {
            (average, name): averaged(name, reason, counts, above, below, average, zero_division)
            for average in (None, *averages)
            for name, (reason, above, below) in quotients.items()
        }
        accuracy = right and ratio.bare(*right, "accuracy", zero_division)
    _warn_of_undefined(quotients, names, zero_division, title, nothing)
    report = ClassReport()
    report.digits = digits
    for place, (name, support) in enumerate(zip(names, counts.support.tolist())):
        report[name] = {**{key: float(values[None, key][place]) for key in MEASURES}, "support": support}
    if right is not None:
        report["accuracy"] = accuracy
    for average in averages:
        whole = counts.support.sum().item()
        report[_OF_CLASSES[average]] = {**{key: float(values[average, key]) for key in MEASURES}, "support": whole}
    return report


def _warn_of_undefined(
    quotients: Mapping[str, tuple[str, np.ndarray, np.ndarray]],
    names: Sequence[str],
    zero_division: float,
    title: str,
    nothing: str,
) -> None:
    """Warn once of all classes without a value; if none has one, only say why."""
    empty = {name: np.flatnonzero(below == 0).tolist() for name, (_, _, below) in quotients.items()}
    if not math.isnan(zero_division) or not any(empty.values()):
        return
    if len(empty["f1-score"]) == len(names):
        warn(f"{title}{part_now()} is undefined: {nothing}", UndefinedMetricWarning)
        return
    parts = [
        f"{measure} of {_first(names, places)}, {quotients[measure][0]}" for measure, places in empty.items() if places
    ]
    text = f"{title}{part_now()}: undefined are {'; '.join(parts)}. Averages leave them out"
    warn(text, UndefinedMetricWarning)


def _first(names: Sequence[str], places: Sequence[int]) -> str:
    more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
    return ", ".join(clean(names[place]) for place in places[:_NAMED]) + more
