"""Entities in sequences of tags, such as ``B-PER I-PER O``: found in whole batches at once."""

from __future__ import annotations

import contextlib
import functools
from itertools import chain
from typing import Any, ClassVar, Literal, NamedTuple, Sequence

import numpy as np

from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import TOTAL, Declared, Quotient, Settings, Undefinable, WithoutColumns
from fleetmetrics.batch import per_sample, statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.batch.text_batch import TextBatch
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.class_report import ClassReport, class_names, report_of
from fleetmetrics.formulas.confusion import Counts
from fleetmetrics.support.checks import choice_of, in_order, whole_number_of
from fleetmetrics.support.typed import Unpack

__all__ = ["EntityF1", "EntityReport"]

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
_NO_ENTITIES = "there are no entities"
#: The counts of `EntityReport`, in the order of `_counts`.
_COUNTS = ("correct", "predicted", "true")
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
def _split(tag: str, scheme: str, types: tuple[str, ...] = ()) -> tuple[int, str] | None:
    """The place of the prefix and the type of a tag; None for an unknown tag, or one of a type that ``types`` lack."""
    if tag == "O":
        return 0, ""
    prefix, dash, kind = tag.partition("-")
    known = len(prefix) == 1 and prefix in _SCHEMES[scheme].prefixes[1:] and (kind or not dash) and kind == kind.strip()
    known = known and (not types or kind in types)
    return (_PREFIXES.index(prefix.replace("L", "E").replace("U", "S")), kind) if known else None


class _AreTags(NamedTuple):
    """Which entries of an argument are lists of tags of a scheme, of some types; (): of any."""

    argument: str
    scheme: str
    types: tuple[str, ...]

    def __call__(self, batch: Any) -> Any:
        entries = batch.kept(self.argument)
        with contextlib.suppress(TypeError):  # no set holds a list in place of a tag
            if {*map(type, entries)} <= {list, tuple} and all(map(self.knows, {*chain.from_iterable(entries)})):
                return None
        return np.fromiter(map(self.allows, entries), bool, len(entries))

    def allows(self, entry: Any) -> bool:
        return isinstance(entry, (list, tuple)) and all(map(self.knows, entry))

    def knows(self, tag: Any) -> bool:
        return isinstance(tag, str) and _split(tag, self.scheme, self.types) is not None

    def fault(self, entry: Any) -> Any:
        """What an error shows: the unknown tag, or all of an entry that is no list."""
        return next((tag for tag in entry if not self.knows(tag)), entry) if isinstance(entry, (list, tuple)) else entry


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
def _counts(batch: TextBatch, scheme: str, types: tuple[str, ...] = ()) -> np.ndarray:
    """Of each type (without types, of all) and sample the correct, predicted and true entities: int64 ``[k, 3, n]``."""
    codes, sides = _Codes(scheme), []
    lengths = np.fromiter(map(len, batch.labels), np.int64, len(batch.labels)) + 1
    for entries in (batch.predictions, batch.labels):
        tags = chain(("O",), chain.from_iterable(chain.from_iterable(zip(entries, [("O",)] * len(entries)))))
        sides.append(_entities(np.fromiter(map(codes.__getitem__, tags), np.int64, lengths.sum() + 1), scheme))
    predicted, true = (side[1:] for side in sides)
    of, kinds = np.repeat(np.arange(len(lengths)), lengths), len(types) or 1
    places = np.array([types.index(name) if name in types else 0 for name in codes.types])

    def counts(entities: np.ndarray, flags: np.ndarray) -> np.ndarray:
        cells = of[flags]
        if types:
            cells += len(lengths) * places[entities[flags] // (len(of) + 1)]
        return np.bincount(cells, minlength=kinds * len(lengths)).reshape(kinds, len(lengths))

    right = (predicted == true) & (true >= 0)
    return np.stack([counts(true, right), counts(predicted, predicted >= 0), counts(true, true >= 0)], axis=1)


@statistic
def _correct(batch: TextBatch, scheme: str) -> Any:
    return batch.weighted_sum(_counts(batch, scheme)[0, 0])


@statistic
def _predicted(batch: TextBatch, scheme: str) -> Any:
    return batch.weighted_sum(_counts(batch, scheme)[0, 1])


@statistic
def _true(batch: TextBatch, scheme: str) -> Any:
    return batch.weighted_sum(_counts(batch, scheme)[0, 2])


@statistic
def _sums(batch: TextBatch, scheme: str, types: tuple[str, ...]) -> list[Any]:
    """The correct, predicted and true entities of each type in turn."""
    return [*map(batch.weighted_sum, chain.from_iterable(_counts(batch, scheme, types)))]


def _as_long(batch: TextBatch) -> Any:
    def lengths(side: str) -> np.ndarray:
        return np.array([len(tags) if isinstance(tags, (list, tuple)) else -1 for tags in batch.kept(side)])

    return lengths("prediction") == lengths("label")


_AS_LONG = Requirement("label", "as long as its prediction, with a tag for each token", _as_long)


@functools.lru_cache(maxsize=64)
def _rules(scheme: str, types: tuple[str, ...]) -> tuple[str | Requirement, ...]:
    """The requirements of predictions and labels."""
    prefixes = " or ".join(f"{prefix}-TYPE" for prefix in _SCHEMES[scheme].prefixes[1:])
    allowed = f"a list of tags, O or {prefixes}, as of scheme={scheme!r}"
    allowed += f" and types={[*types]}" if types else ""
    checks: Any = [_AreTags(side, scheme, types) for side in ("prediction", "label")]
    return (*[Requirement(check.argument, allowed, check) for check in checks], _AS_LONG)


class EntitySettings(Settings, total=False):
    """Arguments of every metric of entities."""

    scheme: _Name


class _OfEntities(WithoutColumns[Value], Undefinable[Value]):
    samples: str = "tags"
    requirements: tuple[str | Requirement, ...]
    scheme: str
    types: Sequence[str] = ()

    def __init__(self, *, scheme: _Name = "conll", **settings: Unpack[Settings]) -> None:
        self.scheme = choice_of("scheme", scheme, tuple(_SCHEMES))
        super().__init__(**settings)
        self.requirements = _rules(scheme, (*self.types,))


class EntityF1(_OfEntities[float]):
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
    quotient: Quotient | None = Quotient({"correct": 2}, {"predicted": 1, "true": 1}, reason=_NO_ENTITIES)
    declared: tuple[Declared, ...] = (
        Declared("correct", statistic=_correct, settings=("scheme",)),
        Declared("predicted", statistic=_predicted, settings=("scheme",)),
        Declared("true", statistic=_true, settings=("scheme",)),
        TOTAL,
    )


class EntityReport(_OfEntities[ClassReport]):
    """Precision, recall, F1 and support of the entities of each type, with micro, macro and weighted averages.

    Formula: per type ``c / p``, ``c / t``, ``2 * c / (p + t)`` and ``t``, with ``c`` right ones of ``p`` predicted and
    ``t`` true entities, as `EntityF1` finds them over the sequences of all workers; averages as those of
    `ClassificationReport`. The value is a `fleetmetrics.formulas.ClassReport`, a dict like that of seqeval's
    ``classification_report``, which prints as a table. Undefined numbers are nan, and averages leave them out;
    ``zero_division=0`` gives seqeval's numbers.

    Inputs as for `EntityF1`; a tag of another type is an error.

    Args:
        scheme: as for `EntityF1`.
        types: the types of the entities, such as ``["PER", "LOC"]``, the same on every worker.
        digits: the digits after the point in the printed table, 0 to 15.

    Examples:
        >>> metric = EntityReport(types=["PER", "LOC"])
        >>> metric.add([["B-PER", "I-PER", "O", "B-LOC"], ["B-LOC"]], [["B-PER", "I-PER", "O", "B-PER"], ["B-LOC"]])
        >>> report = metric.compute()
        >>> report["PER"]
        {'precision': 1.0, 'recall': 0.5, 'f1-score': 0.6666666666666666, 'support': 2}
        >>> report["micro avg"]["f1-score"]
        0.6666666666666666
    """

    incidental: ClassVar[tuple[str, ...]] = (*_OfEntities.incidental, "digits")
    gives = "parts"
    digits: int
    types: list[str]

    def __init__(self, *, types: Sequence[str], digits: int = 2, **settings: Unpack[EntitySettings]) -> None:
        names = in_order("types", types, "types of entities")
        self.types = class_names(names, len(names), "types")
        if not self.types:
            raise InvalidInputError("types is empty; name the types of the entities, such as types=['PER', 'LOC']")
        self.digits = whole_number_of("digits", digits, 0, 15)
        super().__init__(**settings)
        for name in self.types:
            for place, count in enumerate(_COUNTS):
                self.declare(f"{count} {name}", key=("entities", self.scheme, (*self.types,), name, place))

    def batch_statistics(self, batch: Any) -> dict[str, Any]:
        return dict(zip(self.states, _sums(batch, self.scheme, (*self.types,))))

    def formula(self, **states: np.ndarray) -> ClassReport:
        correct, predicted, true = (np.array([states[f"{count} {name}"] for name in self.types]) for count in _COUNTS)
        counts = Counts(correct, predicted - correct, true - correct, np.zeros_like(correct), "class")
        return report_of(counts, self.types, None, self.zero_division, self.digits, self._title, _NO_ENTITIES)
