"""Partial results: metrics of parts of the data, to be merged in any order.

A part that has all samples of its users (or queries, or scores) can be closed: its records are folded
into the few numbers that another part needs.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Sequence, TypeVar

import numpy as np

import fleetmetrics
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.state.state import InPlace, State
from fleetmetrics.state.state_dicts import Checkpointed
from fleetmetrics.support.checks import knows_its_arguments, listed
from fleetmetrics.support.settings import described, difference
from fleetmetrics.support.vocabulary import with_article

if TYPE_CHECKING:
    import fleetmetrics.records.folding

__all__ = ["merge_all"]

Part = TypeVar("Part", bound="Partial")

#: The number of state dicts to merge at once.
_AT_ONCE = 64
#: The most numbers in a copy of which several may wait to be merged: a MiB each.
_SMALL = 1 << 17


class Partial(Checkpointed):
    """An object that can be merged with others of its kind."""

    name: str

    def record_folds(self) -> Sequence[fleetmetrics.records.folding.Folds]:
        """The tables of records, each with all its folds."""
        raise NotImplementedError

    def _read(self) -> Mapping[State, np.ndarray]:
        """This worker's states; raises if a sample was invalid, or a sum has overflowed."""
        raise NotImplementedError

    def _called_of(self, metric: fleetmetrics.records.folding.Folding) -> str:
        """The name in errors of this object, or of its metric."""
        raise NotImplementedError

    def _check_is_free(self) -> None:
        """Raise if changing it could change the states of others."""
        raise NotImplementedError

    def merge(self, other: Any, scope: Any = None) -> None:
        """Add the contents of another accumulator of the same kind, which stays unchanged.

        Each sum keeps its rounding rest, so that any tree of merges gives the same as `fleetmetrics.merge_all`.

        Args:
            other: the same class with the same settings; or several, whose sums are rounded once, in any order.
            scope: the scope of a static program's variables; None: the global scope.

        Raises:
            InvalidInputError: class, settings or states differ, only some are closed, or two closed ones share a user;
                the message names the difference, and nothing was added.
        """
        others = list(other) if isinstance(other, (list, tuple)) else [other]
        own, kinds = described(self), [holder.kind for holder in self.holders()]
        for part in others:
            alike = type(part) is type(self)
            differs = difference(own, described(part)) if alike else f"it is {with_article(type(part).__name__)}"
            if differs or kinds != [holder.kind for holder in part.holders()]:
                raise InvalidInputError(
                    f"other must be {with_article(type(self).__name__)} with the settings of {self.name}; it is "
                    f"{getattr(part, 'name', part)!r} ({type(part).__name__}): {differs or 'its states differ'}"
                )
        self._merge_alike(others, scope)

    def _merge_alike(self, others: Sequence[Any], scope: Any = None) -> None:
        """Like `merge`, for others with known equal settings: comparing them would take as long as merging."""
        every = [metric.holders() for metric in (self, *others)]
        mine = every[0]
        tables = {folds.table: folds.with_others(its) for folds, *its in zip(*every) if folds.dealt}
        quick: dict[Any, Any] = {state: state.taking_up(its) for state, *its in zip(*every) if isinstance(state, State)}
        large = {state for state in quick if quick[state] and isinstance(state, InPlace)}  # no copies of these
        parts = [
            {state: its.saved(scope) for state, its in zip(mine, holders) if not state.dealt and state not in large}
            for holders in every
        ]
        merged = {state: state.together(parts) for state in parts[0] if not quick.get(state)}
        for state in mine:
            take_up = quick.get(state)
            if take_up:
                take_up()
            elif state in merged:
                state.load(merged[state], scope)
        for table, content in tables.items():
            table.hold(*content)

    @property
    def _is_small(self) -> bool:
        """Whether its contents are a few numbers, which are cheap to copy."""
        states = [holder for holder in self.holders() if isinstance(holder, State)]
        plain = not self.record_folds() and not any(state.grows for state in states)
        return plain and sum(math.prod(state.full_shape) for state in states) <= _SMALL

    @property
    def _nbytes(self) -> float:
        """The bytes of its states; infinite if it keeps records."""
        if self.record_folds():
            return math.inf
        return sum(holder.nbytes for holder in self.holders() if isinstance(holder, State))

    def _taken(self) -> dict[Any, Any]:
        """Its contents by holder, for `_hold_all`; it forgets them."""
        taken = {holder: holder.saved() for holder in self.holders()}
        self.reset()
        return taken

    def _hold_all(self, parts: Sequence[Mapping[Any, Any]]) -> None:
        """Hold the merge of these contents, which were `_taken`."""
        for holder in self.holders():
            holder.load(holder.together(parts))

    def reset(self) -> None:
        """Forget the contents."""
        raise NotImplementedError

    def hold_merged(self, states: Iterable[Mapping[str, np.ndarray]]) -> None:
        """Hold the merge of several state dicts, with few of them in memory at a time."""
        plan: Any = None
        holders = self.holders()
        parts: list[Any] = []
        for state in states:
            plan = plan or self._plan(state)
            parts.append(self._parsed(state, plan))
            for holder in holders:
                holder.check(parts[-1])
            if len(parts) == _AT_ONCE:
                parts = [{holder: holder.together(parts) for holder in holders}]
        self._prepared(parts, parts, None, plan, same=False)()

    def close(self, complete_by: str, *, totals: Any = None) -> None:
        """Fold the records into a few numbers; no other part may have a sample of the same users.

        It keeps 8 bytes per user (the integer itself, or the hash of a string), so that merging finds a user in two
        parts. A closed metric takes no more samples. Metrics without records stay unchanged.

        Args:
            complete_by: the column by which this part is complete: ``"user"``, ``"query"``, or any other column in the
                metric's ``by``; for `ExactAUC`, ``"score"``: each part then has all samples of a range of scores.
            totals: for `ExactAUC` with ``curve="PR"`` or ``max_fpr``: an `ExactAUC` without these arguments that holds
                all parts, each closed by score, from a first pass over the same samples.

        Raises:
            InvalidInputError: a metric has records that this column does not complete.

        Examples:
            >>> from fleetmetrics import GAUC, merge_all
            >>> parts = [GAUC(), GAUC()]
            >>> parts[0].add([0.1, 0.4], [0, 1], user=["ann", "ann"])
            >>> parts[1].add([0.8, 0.6, 0.7], [0, 1, 0], user=["bob", "bob", "bob"])
            >>> for part in parts:
            ...     part.close(complete_by="user")
            >>> merge_all(parts).compute()
            0.4
        """
        self._check_is_free()
        if not isinstance(complete_by, str):
            raise InvalidInputError(f"complete_by must be the name of a column, not {complete_by!r:.80}")
        tables = self.record_folds()
        for folds in tables:
            order = folds.table.order
            if order != complete_by:
                how = f"only by {order!r}" if order else "by no column, because it needs all samples at once"
                raise InvalidInputError(
                    f"{self._called_of(folds.metrics[0])}: complete_by is {complete_by!r}, but it can be closed "
                    f"{how}. Use a separate collection; metrics that are not closed merge with all their samples"
                )
        if not tables:
            return
        values = self._read()
        closed_totals = None if totals is None else closed_by(totals, complete_by)
        all_closed = [folds.close(values, closed_totals) for folds in tables]
        for folds, closed in zip(tables, all_closed):
            folds.table.hold([], closed)


def closed_by(totals: Any, complete_by: str) -> Any:
    """The contents of the first metric of ``totals`` that is closed by this column."""
    folds = totals.record_folds() if isinstance(totals, Partial) else ()
    tables = [fold.table for fold in folds]
    closed = [table.closed for table in tables if table.closed and table.order == complete_by]
    if not closed:
        raise InvalidInputError(f"totals must be a metric closed by {complete_by!r}, not {totals!r:.60}")
    return closed[0].carries[0]


@knows_its_arguments
def merge_all(parts: Iterable[Part]) -> Part:
    """Merge all parts into a new metric or collection; sums are rounded once, so their order does not matter.

    Args:
        parts: at least one metric or collection, all of one class with the same settings; they stay unchanged.

    Returns:
        A new metric or collection of that class, with the name of the first.

    Raises:
        InvalidInputError: there are no parts, or class, settings or states differ; the message names the difference.

    Examples:
        >>> from fleetmetrics import Mean
        >>> parts = [Mean(), Mean(), Mean()]
        >>> for part, values in zip(parts, ([1.0, 2.0], [3.0], [])):
        ...     part.add(values)
        >>> merge_all(parts).compute()
        2.0
    """
    metrics = listed("parts", parts, "metrics or collections")
    if not metrics:
        raise InvalidInputError("parts is empty; give at least one metric or collection")
    if not isinstance(metrics[0], Partial):
        raise InvalidInputError(f"parts must hold metrics or collections, not {type(metrics[0]).__name__}")
    merged: Any = copy.deepcopy(metrics[0])
    merged.merge(metrics[1:])
    return merged
