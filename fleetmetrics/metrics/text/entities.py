"""Entities in sequences of tags, such as ``B-PER I-PER O``: found in whole batches at once."""

from __future__ import annotations

import functools
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from fleetmetrics.base.metric import TOTAL, Declared, Quotient, Settings, Undefinable, WithoutColumns
from fleetmetrics.batch import Batch, per_sample, statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.batch.text_batch import required, strings
from fleetmetrics.support.checks import choice_of
from fleetmetrics.support.typed import Unpack

__all__ = ["EntityF1"]

#: The prefixes of tags; BILOU's L and U are the E and S of IOBES.
_PREFIXES = "OBIES"


class _Scheme(NamedTuple):
    """What two neighboring tags mean: pairs of prefixes, ``=`` for the same type, ``!`` for another, ``*`` for any.

    Args:
        prefixes: the allowed ones.
        start: the second tag begins an entity.
        inside: the second tag continues the entity of the first; "": an entity continues until one ends or starts.
        end: the entity of the first tag is complete.
    """

    prefixes: str
    start: str
    inside: str
    end: str


_SCHEMES = {
    "conll": _Scheme(
        "OBIES",
        "*B* *S* EE* EI* SE* SI* OE* OI* *I! *E!",
        "",
        "E** S** BB* BS* BO* IB* IS* IO* B*! I*!",
    ),
    "IOB": _Scheme("OBI", "OI* II! BI* IB= BB=", "BI= II=", "II! IO* IB* BO* BI! BB="),
    "IOB2": _Scheme("OBI", "*B*", "BI= II=", "IO* II! IB* BO* BI! BB*"),
    "IOE": _Scheme("OIE", "OI* II! EI* EE=", "II= IE=", "II! IO* IE! EI= EE="),
    "IOE2": _Scheme("OIE", "OI* OE* EI* EE* II! IE!", "IE= II=", "E**"),
    "IOBES": _Scheme("OBIES", "*B* *S*", "BI= BE= II= IE=", "S** E**"),
    "BILOU": _Scheme("OBILU", "*B* *U*", "BI= BL= II= IL=", "U** L**"),
}
_Name = Literal["conll", "IOB", "IOB2", "IOE", "IOE2", "IOBES", "BILOU"]


@functools.lru_cache(maxsize=None)
def _tables(scheme: str) -> tuple[np.ndarray, ...]:
    """Of start, inside and end, flags by the prefixes of two tags, and by whether their types are equal."""
    tables = []
    for patterns in _SCHEMES[scheme][1:]:
        table = np.zeros((5, 5, 2), bool)
        for first, second, types in map(tuple, patterns.replace("L", "E").replace("U", "S").split()):
            rows, columns = (slice(None) if prefix == "*" else _PREFIXES.index(prefix) for prefix in (first, second))
            table[rows, columns, {"=": slice(1, 2), "!": slice(0, 1), "*": slice(None)}[types]] = True
        tables.append(table.reshape(-1))
    return tuple(tables)


@functools.lru_cache(maxsize=4096)
def _split(tag: str, scheme: str) -> tuple[int, str] | None:
    """The place of the prefix and the type of a tag; None for an unknown tag."""
    if tag == "O":
        return 0, ""
    prefix, dash, kind = tag.partition("-")
    known = len(prefix) == 1 and prefix in _SCHEMES[scheme].prefixes[1:] and (kind or not dash)
    return (_PREFIXES.index(prefix.replace("L", "E").replace("U", "S")), kind) if known else None


class _Tagged(NamedTuple):
    """Whether a list has only tags of a scheme."""

    scheme: str

    def __call__(self, tags: Any) -> bool:
        try:
            return isinstance(tags, (list, tuple)) and all(map(self._is_tag, set(tags)))
        except TypeError:  # no set holds what is in place of a tag, such as a list
            return False

    def _is_tag(self, tag: Any) -> bool:
        return isinstance(tag, str) and _split(tag, self.scheme) is not None


class _Unknown(NamedTuple):
    """What is wrong of a sample: the unknown tag, or all of it."""

    scheme: str

    def __call__(self, tags: Any) -> Any:
        is_tag = _Tagged(self.scheme)._is_tag
        return next((tag for tag in tags if not is_tag(tag)), tags) if isinstance(tags, (list, tuple)) else tags


class _Codes(dict):
    """Prefix and type of each tag as one number, five for each type."""

    def __init__(self, scheme: str) -> None:
        super().__init__()
        self.scheme, self.types = scheme, {"": 0}

    def __missing__(self, tag: str) -> int:
        prefix, kind = _split(tag, self.scheme) or (0, "")
        code = self[tag] = prefix + len(_PREFIXES) * self.types.setdefault(kind, len(self.types))
        return code


def _entities(codes: np.ndarray, scheme: str) -> np.ndarray:
    """The other end and the type of the entity at each place, as one number; -1 at places without.

    Args:
        codes: of the tags of all sequences, with an O in front and after each.
        scheme: of the tags.
    """
    size, (kinds, prefixes) = len(codes), np.divmod(codes, len(_PREFIXES))
    pairs = 10 * np.append(0, prefixes[:-1]) + 2 * prefixes
    pairs += np.append(0, kinds[:-1]) == kinds
    start, inside, end = (table[pairs] for table in _tables(scheme))
    entities, places = np.full(size, -1), np.arange(size)
    last_start = np.maximum.accumulate(np.where(start, places, -1))
    if not _SCHEMES[scheme].inside:  # an entity is at the place after its end
        ends = np.flatnonzero(end)
        entities[ends] = last_start[ends - 1] + size * kinds[ends - 1]
        return entities
    in_entity = last_start >= np.maximum.accumulate(np.where(inside, 0, places))
    starts = np.flatnonzero(start & ~(inside & np.append(False, in_entity[:-1])))
    outside = np.flatnonzero(~inside)
    ends = outside[np.searchsorted(outside, starts, "right")]
    complete = end[ends]
    entities[starts[complete]] = ends[complete] + size * kinds[starts[complete]]
    return entities


@per_sample
def _counts(batch: Batch, scheme: str) -> np.ndarray:
    """Of each sample the correct, predicted and true entities: int64 ``[3, n]``."""
    codes, sides = _Codes(scheme), []
    sequences = strings(batch, "label")
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences)) + 1
    for entries in (strings(batch, "prediction"), sequences):
        tags = chain(("O",), chain.from_iterable(chain.from_iterable(zip(entries, [("O",)] * len(entries)))))
        sides.append(_entities(np.fromiter(map(codes.__getitem__, tags), np.int64, lengths.sum() + 1), scheme))
    predicted, true = sides
    of = np.repeat(np.arange(len(lengths)), lengths)
    which = (predicted == true) & (true >= 0), predicted >= 0, true >= 0
    return np.stack([np.bincount(of[flags[1:]], minlength=len(lengths)) for flags in which])


@statistic
def _correct(batch: Batch, scheme: str) -> Any:
    return batch.weighted_sum(_counts(batch, scheme)[0])


@statistic
def _predicted(batch: Batch, scheme: str) -> Any:
    return batch.weighted_sum(_counts(batch, scheme)[1])


@statistic
def _true(batch: Batch, scheme: str) -> Any:
    return batch.weighted_sum(_counts(batch, scheme)[2])


def _length(tags: Any) -> int:
    return len(tags) if isinstance(tags, (list, tuple)) else -1


def _as_long(batch: Batch) -> Any:
    lengths = (map(_length, strings(batch, argument)) for argument in ("prediction", "label"))
    return np.array([predicted == true for predicted, true in zip(*lengths)], bool)


_AS_LONG = Requirement("label", "as long as its prediction, with a tag for each token", _as_long)


@functools.lru_cache(maxsize=None)
def _rules(scheme: str) -> tuple[str | Requirement, ...]:
    """The requirements of predictions and labels."""
    prefixes = " or ".join(f"{prefix}-TYPE" for prefix in _SCHEMES[scheme].prefixes[1:])
    allowed = f"a list of tags, O or {prefixes}, as of scheme={scheme!r}"
    tagged: Any = _Tagged(scheme)
    unknown: Any = _Unknown(scheme)
    rules = [required(argument, allowed, tagged, unknown) for argument in ("prediction", "label")]
    return (*rules, _AS_LONG)


class EntityF1(WithoutColumns[float], Undefinable[float]):
    """The F1 of entities in sequences of tags: an entity is right if its first and last token and its type are.

    Formula: ``2 * sum(w * c) / (sum(w * p) + sum(w * t))`` over the sequences of all workers, with ``c`` right ones of
    ``p`` predicted and ``t`` true entities: seqeval's micro average, and that of PaddleNLP's ``ChunkEvaluator``.

    ``add(predictions, references)`` takes a list of tags for each sequence, such as ``["B-PER", "I-PER", "O"]``,
    without padding: the tags of a sequence are as many as its tokens. An unknown tag is an error. Undefined if there
    is no entity, neither predicted nor true.

    Args:
        scheme: what tags mean. "conll": as conlleval and seqeval's usual mode read IOB, IOB2, IOE and IOBES: an
            entity may begin with any tag. As seqeval's strict mode: "IOB" and "IOE", where B or E only separates
            neighbors of one type; "IOB2" and "IOE2", where each entity begins with B or ends with E; "IOBES", where
            S is an entity of one token; "BILOU", the same with L and U. Entities that break its rules do not count.

    Examples:
        >>> metric = EntityF1()
        >>> metric.add([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "I-PER", "O", "B-ORG"]])
        >>> metric.compute()
        0.5
    """

    better = "higher"
    samples: str = "tags"
    quotient: Quotient | None = Quotient({"correct": 2}, {"predicted": 1, "true": 1}, reason="there are no entities")
    declared: tuple[Declared, ...] = (
        Declared("correct", statistic=_correct, settings=("scheme",)),
        Declared("predicted", statistic=_predicted, settings=("scheme",)),
        Declared("true", statistic=_true, settings=("scheme",)),
        TOTAL,
    )
    requirements: tuple[str | Requirement, ...]
    scheme: str

    def __init__(self, *, scheme: _Name = "conll", **settings: Unpack[Settings]) -> None:
        self.scheme = choice_of("scheme", scheme, tuple(_SCHEMES))
        super().__init__(**settings)
        self.requirements = _rules(scheme)

    if TYPE_CHECKING:

        def add(  # type: ignore[override]  # it takes less than `Metric`
            self, prediction: Any = None, label: Any = None, weight: Any = None, mask: Any = None
        ) -> None: ...
