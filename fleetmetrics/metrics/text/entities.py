"""Entities in sequences of tags: their F1, and a report by type."""

from __future__ import annotations

from itertools import chain
from typing import Any, ClassVar, Sequence

import numpy as np

from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import TOTAL, Declared, Quotient, Settings, Undefinable, WithoutColumns
from fleetmetrics.batch import statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.batch.text_batch import TextBatch
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.class_report import ClassReport, class_names, report_of
from fleetmetrics.formulas.confusion import Counts
from fleetmetrics.metrics.text.tags import SCHEMES, Scheme, counts_of_entities, rules_of_tags
from fleetmetrics.support.checks import choice_of, in_order, whole_number_of
from fleetmetrics.support.typed import Unpack

__all__ = ["EntityF1", "EntityReport"]

_NO_ENTITIES = "there are no entities"
#: The counts of `EntityReport`, in the order of `counts_of_entities`.
_COUNTS = ("correct", "predicted", "true")


@statistic
def _correct(batch: TextBatch, scheme: str) -> Any:
    return batch.weighted_sum(counts_of_entities(batch, scheme)[0, 0])


@statistic
def _predicted(batch: TextBatch, scheme: str) -> Any:
    return batch.weighted_sum(counts_of_entities(batch, scheme)[0, 1])


@statistic
def _true(batch: TextBatch, scheme: str) -> Any:
    return batch.weighted_sum(counts_of_entities(batch, scheme)[0, 2])


@statistic
def _sums(batch: TextBatch, scheme: str, types: tuple[str, ...]) -> list[Any]:
    """The correct, predicted and true entities of each type in turn."""
    return [*map(batch.weighted_sum, chain.from_iterable(counts_of_entities(batch, scheme, types)))]


class EntitySettings(Settings, total=False):
    """Arguments of every metric of entities."""

    scheme: Scheme


class _OfEntities(WithoutColumns[Value], Undefinable[Value]):
    samples: str = "tags"
    requirements: tuple[str | Requirement, ...]
    scheme: str
    types: Sequence[str] = ()

    def __init__(self, *, scheme: Scheme = "conll", **settings: Unpack[Settings]) -> None:
        self.scheme = choice_of("scheme", scheme, tuple(SCHEMES))
        super().__init__(**settings)
        self.requirements = rules_of_tags(scheme, (*self.types,))


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
