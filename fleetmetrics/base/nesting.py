"""What an object tells the one that holds it: the protocol of collections, expressions and wrappers.

A `MetricCollection`, an `Expression` or a wrapper such as `Sliced` adds, exchanges and evaluates the metrics inside it
through the methods below. They are public inside this package, and users need none of them: completion omits them, and
the reference has only `Nestable.requirements_of`, which authors of metrics may override.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any, ClassVar, Iterable, Mapping, Sequence

import numpy as np

import fleetmetrics
from fleetmetrics.base.merging import Partial
from fleetmetrics.batch import Batch
from fleetmetrics.batch.one_hot import CLASSES, ENTRIES, LABELS, REFUSED, Meaning, meaning_for_all
from fleetmetrics.batch.rules import Check, Requirement, asks_for_classes
from fleetmetrics.state.state import State

if TYPE_CHECKING:
    import fleetmetrics.records.folding
    from fleetmetrics.records.table import Table

__all__ = ["Nestable"]


class Nestable(Partial):
    """An object that another one can hold: a metric, or several."""

    if TYPE_CHECKING:  # otherwise completion of a user's metric would omit them
        states: dict[str, State]

    #: Whether its name was generated.
    named_by_default: bool

    _check: Check  # of the batches added here

    # -- what a batch must have ------------------------------------------------------------------------------

    #: Whether ``add`` takes a label; None: it accepts one and ignores it. False: a label is an error,
    #: because the metric's own ``add`` takes weights in its place.
    takes_label: bool | None = True
    #: What predictions and labels hold: "numbers", of any shape; "texts" or "tags", a string or a sequence of tags for
    #: each sample; "any", if it only counts samples.
    samples: str = "numbers"
    #: The positional arguments of ``add``; the first is the prediction.
    arguments: tuple[str, ...] = ("prediction", "label", "weight", "mask")
    #: Keys of `fleetmetrics.batch.rules.REQUIREMENTS` that every sample must meet, or the class's own requirements.
    requirements: tuple[str | Requirement, ...] = ()
    #: Names of the further arguments that `add` takes, one value per sample.
    columns: tuple[str, ...] = ()
    #: The arguments for which a row of a file or a data frame may lack a value.
    nullable: tuple[str, ...] = ()
    #: The axis of the classes among the scores; None: the last.
    class_axis: int | None = None
    #: Whether it takes one-hot rows of labels as their classes, as `paddle.metric.Accuracy` does.
    takes_one_hot: ClassVar[bool] = False
    #: Why no wrapper can hold it, or what must change first; "": wrappers can.
    unwrappable: str = ""

    _data_size: Any = None  # a `fleetmetrics.base.data_size.DataSize`, if the size was given

    @property
    def sampler(self) -> Any:
        """The sampler that deals its samples; only the outermost object may have one."""
        raise NotImplementedError

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:
        """The requirements for this batch; they may depend on its shapes."""
        return self.requirements

    @property
    def one_hot(self) -> Meaning:
        """What one-hot rows of labels, beside scores of the same shape, mean to this metric."""
        if self.columns or not asks_for_classes(self.requirements):
            return Meaning(ENTRIES)
        task = getattr(self, "task", None)
        kind = getattr(task, "kind", "")
        of = CLASSES if self.takes_one_hot and kind != "binary" else REFUSED
        if kind == "multilabel":
            of = LABELS
        logits = getattr(task, "from_logits", False) or getattr(self, "from_logits", False)
        return Meaning(of, logits, kind == "multiclass", (self.kind_name(),) if of == REFUSED else ())

    @functools.cached_property
    def meaning(self) -> Meaning:
        """What such rows mean to all metrics inside it."""
        return meaning_for_all([leaf.one_hot for leaf in self.leaf_metrics()])

    @property
    def expected_samples(self) -> int | None:
        """The number of samples of the data set, if it was given."""
        return None if self._data_size is None else self._data_size.size

    # -- what is inside --------------------------------------------------------------------------------------

    def leaf_metrics(self) -> Sequence[Nestable]:
        """The metrics inside it that contain no other, each once; wrappers count as one metric."""
        return (self,)

    def fed_metrics(self) -> Iterable[Nestable]:
        """The objects to which it passes its batches."""
        return ()

    def own_states(self) -> Iterable[State]:
        """The states, in the order of their declaration."""
        return self.states.values()

    def record_metrics(self) -> Iterable[fleetmetrics.records.folding.Folding]:
        """The metrics that keep records."""
        return ()

    def batch_checks(self) -> list[Check]:
        """The checks of the batches added here, or to the metrics inside."""
        return [self._check]

    def _states(self) -> list[State]:
        """All states, each once, those of the checks first."""
        checks = [state for check in self.batch_checks() for state in check.states]
        return list(dict.fromkeys([*checks, *self.own_states(), *self._counted()]))

    def _counted(self) -> Sequence[State]:
        """The state that counts samples, if the size of the data set is given."""
        return () if self._data_size is None else (self._data_size.added,)

    def record_folds(self) -> list[fleetmetrics.records.folding.Folds]:
        """The tables of records, each with all its folds."""
        tables: dict[Table, list[fleetmetrics.records.folding.Folding]] = {}
        for metric in self.record_metrics():
            tables.setdefault(metric.table, []).append(metric)
        if not tables:
            return []
        from fleetmetrics.records.folding import Folds

        return list(itertools.starmap(Folds, tables.items()))

    def become_part(self, prefix: str, shared: Any) -> None:
        """Become part of what holds it: take its names, and share its states.

        Args:
            prefix: the beginning of the states' names.
            shared: the `fleetmetrics.base.shared.Shared` states of all parts.
        """
        raise NotImplementedError

    # -- adding and evaluating -------------------------------------------------------------------------------

    def increments_of(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        """The increment of each state and table from a batch.

        Raises:
            InvalidInputError: the batch does not fit.
        """
        raise NotImplementedError

    def value_from_states(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        """The value, from the global states and the carries of all records."""
        return self.formula(**{name: values[state] for name, state in self.states.items()})

    def values_from_rows(self, values: Mapping[State, np.ndarray]) -> Sequence[Any] | None:
        """The values of states that each have an additional first axis, with an entry for each value.

        None instead of one value or all: `value_from_states` must compute it, by the same formula, with its warnings.
        """
        return None

    def formula(self, *args: Any, **states: Any) -> Any:
        """The value from the global states, given by name; pure NumPy."""
        raise NotImplementedError(f"{type(self).__name__} must define formula")

    # -- names -----------------------------------------------------------------------------------------------

    def name_in_errors(self, of: Any = None) -> str:
        """The name in errors of this object, or of a metric inside it."""
        return f"{self.name} ({self.kind_name()})"

    def kind_name(self) -> str:
        """The name of the class; a wrapper's includes the class inside: ``Sliced(AUC)``."""
        return type(self).__name__
