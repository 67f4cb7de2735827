"""Labels of the scores' shape: rows with a single 1, which are classes, or entries that are samples of their own.

A batch decides it here, once, whatever brings the arrays. What it cannot tell apart is refused, never guessed.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.support.vocabulary import agreeing, counted

__all__ = [
    "AS_ENTRIES",
    "CLASSES",
    "ENTRIES",
    "LABELS",
    "REFUSED",
    "Alike",
    "Earlier",
    "Meaning",
    "hint_of_one_hot",
    "meaning_for_all",
    "surely_entries",
]

#: What rows with a single 1 mean to a metric: nothing special; several labels of a sample; a class; or an error,
#: because the metric takes such rows for neither.
ENTRIES, LABELS, CLASSES, REFUSED = "entries", "labels", "classes", "refused"
#: By chance, this many rows of independent labels have a single 1 each in fewer than one batch in 60,000.
_ENOUGH = 16
#: Fewer rows than these have a single 1 each by chance too often: unless the scores tell more, they are entries.
_SOME = 4
#: How far from 1 the probabilities of all classes may add up to, as float16 and bfloat16 do.
_ROUNDING = 2.0**-7


class Meaning(NamedTuple):
    """What rows with a single 1 mean to the metrics that take a batch."""

    of: str  # ENTRIES, LABELS, CLASSES or REFUSED
    logits: bool = False  # whether scores outside [0, 1] may be of single entries
    several: bool = False  # whether every metric has several classes: a row can be nothing but a class
    by: tuple[str, ...] = ()  # the metrics that refuse them


def meaning_for_all(meanings: Sequence[Meaning]) -> Meaning:
    """What they mean to several metrics of one batch: a metric of several labels tells it to all."""
    for of in (LABELS, REFUSED, CLASSES):
        same = [meaning for meaning in meanings if meaning.of == of]
        if same:
            by = tuple(sorted({name for other in same for name in other.by}))
            return Meaning(of, any(other.logits for other in same), all(other.several for other in same), by)
    return Meaning(ENTRIES)


class Earlier(NamedTuple):
    """What a metric took the rows of earlier batches as: those of one data set are all the same."""

    of: str = ""  # CLASSES or ENTRIES; "": they could be either
    unsure: int = 0  # the rows that counted as entries then


AS_ENTRIES = Earlier(ENTRIES)


class Alike(NamedTuple):
    """Prediction and label of equal shape, of at least two axes."""

    xp: Any
    prediction: Any
    label: Any
    axis: int  # that of the classes, if there is one
    named: bool  # whether a metric names it

    def taken(self, meaning: Meaning, live: np.ndarray | None, earlier: Earlier) -> Earlier:
        """What the rows of labels are, with those of earlier batches; values can be read now.

        Args:
            meaning: of one-hot rows, to the metrics.
            live: flags of the rows that count; None: all.
            earlier: of the metric that takes them.

        Raises:
            InvalidInputError: no metric takes such rows, or they may be classes or not, or are not what earlier ones
                were.
        """
        label = _rows(np.moveaxis(self.xp.host(self.label), self.axis, -1), live)
        scores = _rows(np.moveaxis(self.xp.host(self.prediction), self.axis, -1), live)
        if not len(label):
            return earlier
        flags = _single_1(label)
        one_hot, sure = self._looks_one_hot(label, scores, flags, meaning)
        if earlier.of == CLASSES:
            if not flags.all():
                self._raise_for_row(label, flags, "those of earlier batches were one-hot")
            one_hot = sure = True
        elif one_hot and earlier.of == ENTRIES and (len(label) < _SOME or not _of_classes(scores)):
            one_hot = False
        if one_hot:
            before = ""
            if earlier.unsure or earlier.of == ENTRIES:
                uncertain = f"{earlier.unsure} rows" if earlier.unsure else "Rows"
                before = f"{uncertain} of earlier batches counted as entries: reset, and add them again. "
            if meaning.of == REFUSED or before or not sure:
                self._refuse(len(label), meaning.by, sure, before)
            return Earlier(CLASSES)
        self._raise_if_along_the_last_axis(meaning.by)
        entries = scores.dtype.kind != "f" and not _single_1(scores).all()
        if entries or earlier.of == ENTRIES or not flags.all():
            return Earlier(ENTRIES)
        rows = earlier.unsure + len(label)
        if rows >= _ENOUGH and scores.dtype.kind == "f":
            before = f"So have all {earlier.unsure} rows of earlier batches, which counted as entries: reset. "
            self._refuse(len(label), meaning.by, False, before)
        return Earlier("", rows)

    def _looks_one_hot(
        self, label: np.ndarray, scores: np.ndarray, flags: np.ndarray, meaning: Meaning
    ) -> tuple[bool, bool]:
        """Whether the rows of one batch are classes, as far as it shows, and whether that is sure."""
        if scores.dtype.kind != "f":
            sure = bool(flags.all()) and len(label) >= _ENOUGH and bool(_single_1(scores).all())
            return sure, sure  # otherwise predicted classes, one for each label
        if not flags.all():
            if len(label) >= _ENOUGH and _add_up(scores) and np.isin(label, (0, 1)).all():
                self._raise_for_row(label, flags, "rows of scores add up to 1")
            self._raise_if_along_another_axis()
            return False, False
        of_classes = _of_classes(scores) or (not meaning.logits and not ((scores >= 0) & (scores <= 1)).all())
        sure = meaning.several or of_classes or len(label) >= _ENOUGH
        return sure or len(label) >= _SOME, sure

    def _raise_if_along_another_axis(self) -> None:
        """Refuse labels whose classes are on axis 1, as those of images are."""
        shape = tuple(self.xp.shape(self.label))
        if not self.named and len(shape) > 2 and shape[1] > 1 and self.xp.kind(self.prediction) == "f":
            label = np.moveaxis(self.xp.host(self.label), 1, -1)
            if _single_1(label[(0,) * (label.ndim - 1)][None]).all() and _single_1(_rows(label, None)).all():
                self._replace(axis=1)._refuse(label.size // shape[1], ())

    def _raise_if_along_the_last_axis(self, by: Sequence[str]) -> None:
        """Refuse images ``[n, height, width, classes]`` for metrics that have the classes on another axis."""
        last = len(self.xp.shape(self.label)) - 1
        if not self.named or last < 3 or self.axis == last:
            return
        both = [_rows(self.xp.host(array), None) for array in (self.label, self.prediction)]
        if len(both[0]) >= _ENOUGH and all(_single_1(some[:1]).all() and _single_1(some).all() for some in both):
            self._replace(axis=last)._refuse(len(both[0]), by)

    def argmax(self) -> Any:
        """The class of each row, int64, of the shape without the classes."""
        xp, shape = self.xp, list(self.xp.shape(self.label))
        rows = xp.reshape(xp.moveaxis(self.label, self.axis, -1), [-1, shape[self.axis]])
        del shape[self.axis]
        return xp.reshape(xp.highest_of_rows(rows), shape)

    def flags(self, live: Any) -> Any:
        """False for every entry if the rows that count are surely one-hot; where values cannot be read in time.

        Args:
            live: flags of the entries that count, flat; None: all.
        """
        xp, shape = self.xp, list(self.xp.shape(self.label))
        label, scores = (
            xp.reshape(xp.moveaxis(xp.cast(array, "float64"), self.axis, -1), [-1, shape[self.axis]])
            for array in (self.label, self.prediction)
        )
        ones, zeros = xp.equal(label, xp.ones_like(label)), xp.equal(label, xp.zeros_like(label))
        single = xp.equal(xp.sum_of_rows(xp.cast(ones, "float64")), xp.ones_like(label[:, 0]))
        single = xp.logical_and(single, xp.all_rows(xp.logical_or(ones, zeros)))
        total = xp.sum_of_rows(scores)
        whole = xp.logical_not(xp.greater(xp.absolute(xp.subtract(total, xp.ones_like(total))), _ROUNDING))
        dead = None
        if live is not None:
            rows = xp.reshape(xp.moveaxis(xp.reshape(live, self._open(shape)), self.axis, -1), [-1, shape[self.axis]])
            dead = xp.logical_not(rows[:, 0])
            single, whole = xp.logical_or(single, dead), xp.logical_or(whole, dead)
        alive = xp.ones_like(single) if dead is None else xp.logical_not(dead)
        hard = xp.all_rows(
            xp.logical_or(xp.equal(scores, xp.ones_like(scores)), xp.equal(scores, xp.zeros_like(scores)))
        )
        hard = hard if dead is None else xp.logical_or(hard, dead)
        number = xp.sum(alive)
        missing = xp.add(xp.sum(xp.logical_not(single)), xp.cast(xp.logical_not(xp.cast(number, "bool")), "int64"))
        no_sum = xp.logical_or(
            xp.cast(xp.sum(xp.logical_not(whole)), "bool"),
            xp.logical_not(xp.cast(xp.sum(xp.logical_not(hard)), "bool")),  # predicted entries
        )
        few = xp.logical_not(xp.greater(number, _ENOUGH - 1))
        sound = xp.logical_or(xp.cast(missing, "bool"), xp.logical_and(no_sum, few))
        entries = xp.reshape(xp.cast(self.label, "float64"), [-1])
        return xp.logical_or(sound, xp.zeros_like(xp.cast(entries, "bool")))

    @staticmethod
    def _open(shape: list[int]) -> list[int]:
        return [-1, *shape[1:]]

    def _raise_for_row(self, label: np.ndarray, flags: np.ndarray, why: str) -> None:
        place = int(flags.argmin())
        raise InvalidInputError(
            f"label has the shape of the scores, and {why}, but its rows are not one-hot: row {place} of those that "
            f"count has {counted(int((label[place] == 1).sum()), 'entries')} of 1. {self._ways()}"
        )

    def _refuse(self, rows: int, by: Sequence[str], sure: bool = True, before: str = "") -> None:
        shape = list(self.xp.shape(self.label))
        axis = "" if self.axis == len(shape) - 1 else f" along axis {self.axis}"
        who = f", which {', '.join(by)} {agreeing(len(by), 'do')} not take" if by else ""
        raise InvalidInputError(
            f"label {'is' if sure else 'may be'} one-hot{axis}{who}: "
            f"{'its row has' if rows == 1 else f'each of its {rows:,} rows has'} a single 1, beside scores of the same "
            f"shape {shape}. {before}{self._ways()}"
        )

    def _ways(self) -> str:
        shape = self.xp.shape(self.label)
        last = self.axis == len(shape) - 1
        axis, size = -1 if last else self.axis, shape[self.axis]
        several = f"num_classes={size}" + ("" if last or self.named else f" and class_axis={self.axis}")
        return (
            f"Give label.argmax(axis={axis}), with {several} where the metric takes it; num_labels={size} if each row "
            "has several labels; or prediction.reshape(-1) and label.reshape(-1) if each entry is a sample. None of "
            "this batch was added"
        )


def surely_entries(prediction: np.ndarray, label: np.ndarray, axis: int) -> bool:
    """Whether the first rows along the axis and the last one show that labels of the prediction's shape are entries."""
    if prediction.shape != label.shape or (prediction.dtype.kind == "f" and label.ndim != 2):
        return False
    first = tuple(slice(None) if place == axis else 0 for place in range(label.ndim))
    if any(np.count_nonzero(row) == 1 and row.max() == 1 for row in (label[first], label[(0,) * (label.ndim - 1)])):
        return False
    return prediction.dtype.kind != "f" or not abs(np.add.reduce(prediction[first]) - 1) <= _ROUNDING


def _rows(array: np.ndarray, live: np.ndarray | None) -> np.ndarray:
    rows = array.reshape(-1, array.shape[-1])
    return rows if live is None else rows[live]


def _single_1(rows: np.ndarray) -> np.ndarray:
    """Flags of the rows with a single 1, and 0 elsewhere."""
    ones = rows == 1
    flags = np.count_nonzero(ones, axis=1) == 1
    return flags if rows.dtype.kind == "b" else flags & (ones | (rows == 0)).all(axis=1)


def _add_up(scores: np.ndarray) -> bool:
    """Whether all rows are probabilities of all classes."""
    scores = scores.astype(np.float64, copy=False)
    if not ((scores >= 0) & (scores <= 1)).all():
        return False
    return bool((np.abs(scores.sum(axis=1) - 1) <= _ROUNDING).all())


def _of_classes(scores: np.ndarray) -> bool:
    """Whether they can only be probabilities of all classes: predicted entries are 0 or 1, and may add up to 1, too."""
    return _add_up(scores) and not bool(((scores == 0) | (scores == 1)).all())


def hint_of_one_hot(prediction: Sequence[int], label: Sequence[int]) -> str:
    """What to add to the error about a label whose shape does not fit the prediction's: one-hot rows may be why."""
    squeezed = [[size for size in shape if size != 1] for shape in (prediction, label)]
    if len(label) > 1 and label[-1] > 1 and (squeezed[0] in (squeezed[1], squeezed[1][:-1])):
        return "; of one-hot labels give label.argmax(axis=-1)"
    return ""
