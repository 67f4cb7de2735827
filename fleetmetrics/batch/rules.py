"""Requirements on samples, and the deferred check of batches whose values are not available in ``add``."""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Iterable, Mapping, NamedTuple

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.state.state import State
from fleetmetrics.support.vocabulary import agreeing, counted

__all__ = [
    "CLASS_LABEL",
    "FLAGS",
    "ONE_HOT",
    "PROBABILITIES",
    "REQUIREMENTS",
    "Check",
    "Requirement",
    "applicable",
    "asks_for_classes",
    "beyond_floats",
    "raise_unless",
]


class Requirement(NamedTuple):
    """A requirement on each sample."""

    argument: str
    allowed: str
    #: Flags, one per sample; None: known to hold for all. A plain function: copies and pickles of it are equal.
    holds: Callable[[Any], Any]
    #: What else an error says: a sentence.
    advice: str = ""

    def at_fault(self, value: Any) -> Any:
        """What an error shows of an invalid value."""
        fault = getattr(self.holds, "fault", None)
        return value if fault is None else f"{fault(value)!r:.80}"

    @property
    def text(self) -> str:
        """The rule in words."""
        advice = f" ({self.advice[0].lower()}{self.advice[1:]})" if self.advice else ""
        return f"{self.argument}: {self.allowed}{advice}"


#: Most batches are valid: NumPy sees that from the extremes, faster than by flagging each sample.
_LARGEST = sys.float_info.max
#: How far outside [0, 1] a probability may be that was computed in float32.
_ROUNDING = 2.0**-20


def _finite(batch: Any, array: Any) -> Any:
    """Flags of the samples whose numbers are finite; None if all are."""
    if batch.xp.known_finite(array):
        return None
    finite = batch.xp.isfinite(array)
    return batch.xp.all_rows(finite) if len(batch.xp.shape(array)) > 1 else finite


def _finite_prediction(batch: Any) -> Any:
    if batch.table is None:
        return _finite(batch, batch.prediction)
    if all(batch.xp.known_finite(scores) for _, scores in batch.blocks()):
        return None
    return batch.of_rows(lambda scores: batch.xp.all_rows(batch.xp.isfinite(scores)))


def _class_scores(batch: Any) -> Any:
    """Flags of the samples without nan and inf, whose label's class has a finite score; None if all are finite."""
    if not batch.classes or batch.label is None:
        return _finite_prediction(batch)
    if all(batch.xp.known_finite(scores) for _, scores in batch.blocks()):
        return None
    xp = batch.xp

    def of_block(scores: Any, label: Any) -> Any:
        usable = xp.logical_or(xp.isfinite(scores), xp.greater(-scores, 0.0))  # which -inf is, and inf and nan are not
        return xp.logical_and(xp.all_rows(usable), xp.isfinite(xp.score_of_label(scores, label)))

    return batch.of_rows(of_block, xp.cast(batch.label, "int64"))


def _finite_label(batch: Any) -> Any:
    return _finite(batch, batch.label)


def _exact_prediction(batch: Any) -> Any:
    if batch.classes or batch.xp.kind(batch.prediction) != "i":
        return _finite_prediction(batch)
    return _exact(batch.xp, batch.prediction, batch.values)


def _exact_label(batch: Any) -> Any:
    if batch.xp.kind(batch.label) != "i":
        return _finite(batch, batch.label)
    return _exact(batch.xp, batch.label, batch.targets)


def _exact(xp: Any, integers: Any, floats: Any) -> Any:
    """Flags of the integers that float64 holds exactly; None if all are known to be."""
    return None if xp.known_exact(floats) else xp.logical_not(beyond_floats(xp, integers))


def beyond_floats(xp: Any, integers: Any) -> Any:
    """Flags of the integers that are larger than 2**53, or not above -2**53: float64 skips some of them."""
    return xp.logical_or(xp.greater(integers, 2**53), xp.logical_not(xp.greater(integers, -(2**53))))


def _probability(batch: Any) -> Any:
    return None if batch.xp.within(batch.scores, 0, 1) else batch.xp.is_probability(batch.scores)


def _near_probability(batch: Any) -> Any:
    xp, scores = batch.xp, batch.scores
    if xp.within(scores, 0, 1):
        return None
    if xp.kind(scores) != "f":
        return xp.is_probability(scores)
    return xp.logical_and(xp.greater(scores, -_ROUNDING), xp.logical_not(xp.greater(scores, 1 + _ROUNDING)))


def _weight(batch: Any) -> Any:
    return None if batch.xp.within(batch.weight, 0, _LARGEST) else batch.xp.is_weight(batch.weight)


def _class(batch: Any) -> Any:
    """Flags of the labels that are classes; None if all are."""
    classes = max(batch.classes, 2)
    if batch.xp.kind(batch.label) == "i" and batch.xp.within(batch.label, 0, classes - 1):
        return None
    return batch.xp.is_class(batch.label, classes)


EXACT = "Float64, in which this is computed, rounds integers beyond 2**53: subtract a constant, or give floats"
FROM_LOGITS = "For logits give from_logits=True"
PROBABILITY = "a probability in [0, 1] (apply the sigmoid or softmax to logits first)"

CLASS_LABEL = Requirement(
    "label", "a class: 0 or 1, or with several scores a whole number below the number of scores", _class
)

#: By name; a metric lists those that it needs.
REQUIREMENTS: dict[str, Requirement] = {
    "finite_prediction": Requirement("prediction", "a finite number", _finite_prediction),
    "class_scores": Requirement(
        "prediction", "a finite number", _class_scores, "Scores of classes other than the label's may be -inf"
    ),
    "probability": Requirement("prediction", PROBABILITY, _probability),
    "probability_or_logits": Requirement("prediction", PROBABILITY, _probability, FROM_LOGITS),
    # of a metric that only compares: logits are refused, rounding is not
    "near_probability": Requirement("prediction", PROBABILITY, _near_probability, FROM_LOGITS),
    "exact_prediction": Requirement("prediction", "a finite number", _exact_prediction, EXACT),
    "finite_label": Requirement("label", "a finite number", _finite_label),
    "exact_label": Requirement("label", "a finite number", _exact_label, EXACT),
    "class_label": CLASS_LABEL,
    "weight": Requirement("weight", "a finite number of at least 0", _weight),
}
#: Those of probabilities.
PROBABILITIES = frozenset(["probability", "probability_or_logits", "near_probability"])


def _flags(batch: Any) -> Any:
    """Flags of the entries of a mask that are 0 or 1; None if all are."""
    xp, mask = batch.xp, batch.mask
    known = xp.kind(mask) == "b" or (xp.kind(mask) == "i" and xp.within(mask, 0, 1))
    return None if known else xp.is_class(mask, 2)


#: Required of every mask.
FLAGS = Requirement("mask", "True or False, or 1 or 0, for each sample", _flags)


def _no_one_hot(batch: Any) -> Any:
    """Flags of all samples: False if their rows of labels are surely one-hot."""
    return batch.alike.flags(batch.counting)


#: Required of labels of the scores' shape whose values cannot be read in `add`.
ONE_HOT = Requirement(
    "label", "classes, not one-hot rows beside scores of the same shape (give label.argmax(axis=-1))", _no_one_hot
)


def asks_for_classes(requirements: Iterable[str | Requirement]) -> bool:
    """Whether labels must be classes."""
    return any(
        rule == "class_label"
        or (isinstance(rule, Requirement) and rule.argument == "label" and rule.allowed.startswith("a class"))
        for rule in requirements
    )


@functools.lru_cache(maxsize=256)
def applicable(asked: tuple[str | Requirement, ...], classes: int = 0, weighted: bool = True) -> list[Requirement]:
    """The requirements (keys of `REQUIREMENTS`, or a metric's own) without implied ones, and that of weights."""
    names = {*asked, "weight"} if weighted else {*asked}
    names -= {f"finite_{argument}" for argument in ("prediction", "label") if f"exact_{argument}" in names}
    if "class_label" in names:
        names -= {"finite_label", "exact_label"}
    if "probability_or_logits" in names:
        names.discard("probability")
    if names & PROBABILITIES - {"near_probability"}:
        names.discard("near_probability")
    if names & PROBABILITIES and not classes:
        names -= {"finite_prediction", "class_scores", "exact_prediction"}
    if "finite_prediction" in names:
        names.discard("class_scores")
    own = [rule for rule in dict.fromkeys(asked) if isinstance(rule, Requirement)]
    return [rule for name, rule in REQUIREMENTS.items() if name in names] + own


def raise_unless(xp: Any, holds: Any, live: Any, requirement: Requirement, batch: Any) -> None:
    """Raise if a sample that counts (``live``; None: all) breaks a requirement: ``holds`` is False for it."""
    if xp.all_true(holds):
        return
    broken = ~xp.host(holds)
    if live is not None:
        broken &= xp.host(live)
    if not broken.any():
        return
    first = int(broken.argmax())
    value = requirement.at_fault(batch.given(requirement.argument, first))
    place = first if batch.full is None else list(map(int, np.unravel_index(first, batch.full)))
    way = "convert it to flags, such as mask > 0.5" if requirement is FLAGS else "mask such samples"
    advice = f"{requirement.advice}. " if requirement.advice else ""
    error = InvalidInputError(
        f"{requirement.argument} must be {requirement.allowed}; {broken.sum()} of "
        f"{counted(broken.size, 'samples')} {agreeing(int(broken.sum()), 'are')} not, the first at position "
        f"{place}: {value}. {advice}None of this batch was added; {way}, or pass validate=False to skip the check"
    )
    error.broken = requirement.argument, requirement.allowed, broken
    raise error


#: Above any number of samples; 2**15 workers can set it.
_FLAG = 2**48


class Check:
    """The states of the deferred check: how many samples broke a requirement, and the position of the first.

    In static programs, and in tensors on a device, ``add`` does not see the values: invalid samples are left out of all
    statistics and counted here, and ``compute`` raises.
    """

    first: State
    invalid: State
    seen: State
    states: list[State]

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.seen = State(f"{owner}.seen", (), "int64", "sum")
        self.invalid = State(f"{owner}.invalid", (), "int64", "sum")
        self.first = State(f"{owner}.first_invalid", (), "int64", "min")  # its place among this worker's samples
        self.states = [self.seen, self.invalid, self.first]

    def statistics(self, batch: Any) -> dict[State, Any]:
        """The increment of a batch; nothing if it was checked at once."""
        if batch.valid is None:
            return {}
        xp = batch.xp
        seen, first = (xp.asarray(state.current(xp), state.name) for state in (self.seen, self.first))
        length = xp.count(batch.valid)
        invalid = xp.subtract(length, batch.number_of(batch.valid))
        place = xp.add(seen, xp.first_zero(batch.ones_of(batch.valid)))
        return {self.first: xp.where(xp.cast(invalid, "bool"), place, first), self.invalid: invalid, self.seen: length}

    def flagged(self, block: Any) -> Any:
        """The block of `seen` with the flag of this worker, which travels in its high bits: see `flags_in`."""
        return type(block)(block.name, block.reduction, np.array(block.array + _FLAG))

    def flags_in(self, values: dict[State, np.ndarray]) -> int:
        """The number of workers that set the flag; it is taken out of the values."""
        flags, seen = divmod(values[self.seen].item(), _FLAG)
        values[self.seen] = np.array(seen)
        return int(flags)

    def raise_if_invalid(
        self,
        values: Mapping[State, np.ndarray],
        owner: str,
        asked: Mapping[str, Iterable[str | Requirement]],
        no_one_hot: bool = False,
    ) -> None:
        """Raise if any worker had an invalid sample.

        Args:
            values: of the states, over all workers.
            owner: the name of the metric or collection.
            asked: the requirements of each member.
            no_one_hot: whether one-hot labels of the scores' shape are invalid, too.
        """
        invalid = values[self.invalid].item()
        if invalid:
            askers: dict[Requirement, list[str]] = {}
            for key, requirements in asked.items():
                for rule in [*applicable(tuple(requirements)), FLAGS, *([ONE_HOT] if no_one_hot else [])]:
                    askers.setdefault(rule, []).append(key)
            rules = "; ".join(
                rule.text + (f" (required by {', '.join(keys)})" if len(keys) < len(asked) else "")
                for rule, keys in askers.items()
            )
            raise InvalidInputError(
                f"{owner}: {invalid} of {counted(values[self.seen].item(), 'samples')} "
                f"{agreeing(invalid, 'were')} invalid and left out, the first "
                f"at position {values[self.first].item()} of its worker's samples; required: {rules}. "
                "Mask such samples and reset, or set validate=False on the metric to compute without them"
            )
