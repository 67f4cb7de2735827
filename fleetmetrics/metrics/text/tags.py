"""What tags such as ``B-PER I-PER O`` mean, and the entities in sequences of them: found in whole batches at once."""

from __future__ import annotations

import contextlib
import functools
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np

from fleetmetrics.batch import per_sample
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.batch.text_batch import TextBatch

Scheme = Literal["conll", "IOB", "IOB2", "IOE", "IOE2", "IOBES", "BILOU"]
#: The prefixes of tags; BILOU's L and U are the E and S of IOBES.
_PREFIXES = "OBIES"


class _Meaning(NamedTuple):
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


SCHEMES = {
    "conll": _Meaning(
        "OBIES",
        "*B* *S* EE* EI* SE* SI* OE* OI* *I! *E!",
        "",
        "E** S** BB* BS* BO* IB* IS* IO* B*! I*!",
    ),
    "IOB": _Meaning("OBI", "OI* II! BI* IB= BB=", "BI= II=", "II! IO* IB* BO* BI! BB="),
    "IOB2": _Meaning("OBI", "*B*", "BI= II=", "IO* II! IB* BO* BI! BB*"),
    "IOE": _Meaning("OIE", "OI* II! EI* EE=", "II= IE=", "II! IO* IE! EI= EE="),
    "IOE2": _Meaning("OIE", "OI* OE* EI* EE* II! IE!", "IE= II=", "E**"),
    "IOBES": _Meaning("OBIES", "*B* *S*", "BI= BE= II= IE=", "S** E**"),
    "BILOU": _Meaning("OBILU", "*B* *U*", "BI= BL= II= IL=", "U** L**"),
}


@functools.lru_cache(maxsize=None)
def _tables(scheme: str) -> tuple[np.ndarray, ...]:
    """Of start, inside and end, flags by the prefixes of two tags, and by whether their types are equal."""
    tables = []
    for patterns in SCHEMES[scheme][1:]:
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
    known = len(prefix) == 1 and prefix in SCHEMES[scheme].prefixes[1:] and (kind or not dash) and kind == kind.strip()
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
    if not SCHEMES[scheme].inside:  # an entity is at the place after its end
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
def counts_of_entities(batch: TextBatch, scheme: str, types: tuple[str, ...] = ()) -> np.ndarray:
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


def _as_long(batch: TextBatch) -> Any:
    def lengths(side: str) -> np.ndarray:
        return np.array([len(tags) if isinstance(tags, (list, tuple)) else -1 for tags in batch.kept(side)])

    return lengths("prediction") == lengths("label")


_AS_LONG = Requirement("label", "as long as its prediction, with a tag for each token", _as_long)


@functools.lru_cache(maxsize=64)
def rules_of_tags(scheme: str, types: tuple[str, ...]) -> tuple[str | Requirement, ...]:
    """The requirements of predictions and labels."""
    prefixes = " or ".join(f"{prefix}-TYPE" for prefix in SCHEMES[scheme].prefixes[1:])
    allowed = f"a list of tags, O or {prefixes}, as of scheme={scheme!r}"
    allowed += f" and types={[*types]}" if types else ""
    checks: Any = [_AreTags(side, scheme, types) for side in ("prediction", "label")]
    return (*[Requirement(check.argument, allowed, check) for check in checks], _AS_LONG)
