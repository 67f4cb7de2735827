"""The result of an evaluation: values, intervals, deltas, slices, and the data read; all outputs come from it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, NoReturn, Sequence, TypeVar

from fleetmetrics._version import __version__
from fleetmetrics.columns.understood import facts_of
from fleetmetrics.comm import Communicator
from fleetmetrics.errors import DataError, InvalidInputError, UnknownAttributeError
from fleetmetrics.evaluation.output.conditions import checked, failed
from fleetmetrics.evaluation.output.output_paths import output_of
from fleetmetrics.evaluation.output.result_tables import tables
from fleetmetrics.evaluation.question.probe import Probe
from fleetmetrics.evaluation.question.question import Question
from fleetmetrics.evaluation.question.versus import Weighing
from fleetmetrics.evaluation.sides.matched_rows import check_joined, check_kinds
from fleetmetrics.evaluation.sides.side import Side
from fleetmetrics.evaluation.sides.side_of_states import save
from fleetmetrics.evaluation.verdicts.intervals import Delta, Interval, deltas_of, intervals_of
from fleetmetrics.evaluation.verdicts.slices import ColumnDelta, Judged, SliceDelta, SliceResult, compared, judged
from fleetmetrics.support.checks import choice_of
from fleetmetrics.support.optional import library
from fleetmetrics.support.printed import ByName, Printed, Table, plain
from fleetmetrics.support.typed import Axes
from fleetmetrics.support.vocabulary import RESULT_KEYS, SIZES, argument
from fleetmetrics.words.texts import Language

__all__ = ["DataRead", "Delta", "EvaluationResult", "Interval", "SideResult", "check_keys", "result_of"]

_Column = TypeVar("_Column")
#: What the results add to the key of a metric.
_ENDINGS = ("_interval", "_delta", "_change")
#: The entries of a result of several tasks besides them; the others are in each task's own result.
_OF_TASKS = ("rows", "about", "data", "asked", "warnings")


@dataclass(frozen=True)
class DataRead:
    """A record of one side's data.

    Attributes:
        files: their names; empty for a data frame.
        rows: the number of rows, skipped ones included.
        nulls: the number of rows without a value, by column.
        skipped: the number of skipped rows.
        examples: some of these.
        bad_files: the skipped files, each with the reason.
        weight_0: the number of rows with weight 0, which count nowhere.
        sizes: the numbers of positives, users or queries, if known.
        date: the time of reading, in ISO format.
        left_out: the number of further rows that the condition on rows has excluded.
        unmatched: the number of further rows with ids that the other side lacks.
        unlabeled: of one of several tasks, the number of further rows without its label.
        understood: what labels, scores and whatever a reader inferred were taken as, such as "0 and 1 (int64)".
        multiline: the number of rows of text that span several lines, by values in quotes.
    """

    files: Sequence[str]
    rows: int
    nulls: Mapping[str, int]
    skipped: int
    examples: Sequence[str]
    bad_files: Sequence[str]
    weight_0: int
    sizes: Mapping[str, int]
    date: str
    left_out: int = 0
    unmatched: int = 0
    unlabeled: int = 0
    understood: Mapping[str, str] = field(default_factory=dict)
    multiline: int = 0

    def plain(self) -> dict[str, Any]:
        """As the result's JSON has it."""
        entries = {name: value for name, value in vars(self).items() if name != "sizes"}
        return {**entries, **self.sizes, "skipped_files": len(self.bad_files)}


@dataclass(frozen=True)
class SideResult:
    """The values of one side.

    Attributes:
        values: by metric, nan if undefined.
        rows: the number of rows that count.
        data: a record of the data.
        at_k: in a ranking task, some metrics by k.
    """

    values: dict[str, Any]
    rows: int
    data: DataRead
    at_k: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, metric: str) -> Any:
        """The value of a metric; UnknownNameError, a KeyError, without one of that name."""
        return self.values[metric]

    def plain(self) -> dict[str, Any]:
        """As JSON has a baseline."""
        entries = {"data": self.data.plain(), "rows": self.rows, **self.values}
        return {**entries, "at_k": self.at_k} if self.at_k else entries


@dataclass(frozen=True, repr=False)
class EvaluationResult(Printed):
    """The result of `fleetmetrics.evaluate`; it prints as on the command line.

    Attributes:
        new: the values, over all rows.
        baseline: the values of the other side, or None.
        intervals: the intervals, of the metrics that have one.
        deltas: new minus old, of the metrics that are numbers.
        judged: the slices, worst first, and the columns by explained variation.
        asked: the arguments.
        warnings: the metrics' warnings.
        versus: of a comparison, by column, the slices' deltas, and the sources of the whole delta.
        command: the shell command, if there was one.
        always_valid: the number of rows at which intervals of deltas are narrowest; they hold at all looks together.
            None: they hold at one look.
        tasks: of several labels, the result of each by its name, that of the label's column. The names of values,
            intervals and deltas here then begin with it: ``"click.auc"``.
    """

    new: SideResult
    baseline: SideResult | None
    intervals: dict[str, Interval]
    deltas: dict[str, Delta]
    judged: Judged
    asked: Question
    warnings: list[str]
    versus: dict[str, ColumnDelta] = field(default_factory=dict)
    command: str = ""
    always_valid: int | None = None
    tasks: dict[str, EvaluationResult] = field(default_factory=lambda: ByName("task", "label= names one", {}))
    _sides: Sequence[Side] = field(default=(), compare=False)

    @property
    def values(self) -> dict[str, Any]:
        """The value of each metric."""
        return self.new.values

    @property
    def slices(self) -> dict[str, list[SliceResult]]:
        """The slices of each column, worst first."""
        return self.judged.slices

    @property
    def confidence(self) -> float:
        """The confidence of intervals; 1 minus it bounds the share of false verdicts."""
        return self.asked.confidence

    def __getitem__(self, metric: str) -> Any:
        """The value of a metric; UnknownNameError, a KeyError, without one of that name."""
        return self.new.values[metric]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            new = vars(self).get("new")
            if new is not None and name in new.values:
                hint = f"the metric's value is result[{name!r}]"
                raise UnknownAttributeError(f"{type(self).__name__!r} object has no attribute {name!r}; {hint}")
            super().__getattr__(name)

    def tables(self) -> Iterator[Table]:
        """The printed tables: the data, the metrics, the slices, the warnings."""
        return tables(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """The dict that ``fleetmetrics evaluate --json`` prints; undefined values are None."""
        entries = {
            "rows": self.new.rows,
            **self._changes(),
            "about": self._about(),
            "data": self.new.data.plain(),
            "asked": self._asked(),
            **self.judged.plain(),
            "baseline": self.baseline and self.baseline.plain(),
            "versus": {by: column.plain() for by, column in self.versus.items()},
            "warnings": self.warnings,
        }
        if self.tasks:
            entries = {name: entry for name, entry in entries.items() if name in _OF_TASKS}
            old = self.baseline and {"data": self.baseline.data.plain(), "rows": self.baseline.rows}
            tasks = {task: result.to_dict() for task, result in self.tasks.items()}
            entries.update(baseline=old, tasks=tasks)
        elif self.new.at_k:
            entries["at_k"] = self.new.at_k
        result: dict[str, Any] = plain(entries if self.tasks else {**self.new.values, **entries})
        return result

    def _about(self) -> dict[str, dict[str, str]]:
        """What each metric is; and the signature that a library gave its value, the baseline's too if it differs."""
        about = self.asked.about()
        for name, what in about.items():
            new, old = (getattr(side and side.values[name], "signature", "") for side in (self.new, self.baseline))
            signatures = {"signature": new, "baseline_signature": "" if old == new else old}
            what.update({key: signature for key, signature in signatures.items() if signature})
        return about

    def _changes(self) -> dict[str, Any]:
        """The intervals and deltas, each beside its metric."""
        kinds = (("interval", self.intervals), ("delta", self.deltas))
        of = ((f"{key}_{name}", numbers[key]) for key in self.new.values for name, numbers in kinds if key in numbers)
        return {name: number.plain() for name, number in of}

    def _asked(self) -> dict[str, Any]:
        """The arguments that were given or have a default, the command, and the version."""
        asked = {**self.asked.plain(), "always_valid": self.always_valid}
        asked["rank_by"] = self.asked.ranking if self.asked.by else None
        asked = {name: value for name, value in asked.items() if value is not None}
        return {**asked, "metrics": list(self.new.values), "command": self.command, "version": __version__}

    def frame(self, by: str | None = None) -> Any:
        """Return a data frame of pandas.

        Args:
            by: the column whose slices are the rows. Their keys are in a column of that name, or in ``key`` if the name
                is that of another number of the slices; several tasks are in the column ``task``. With a baseline the
                deltas have the names of conditions, such as ``auc_delta``, ``auc_delta.low``, ``mix``. None: the
                metrics are the rows, with ``value`` and, where known, ``low``, ``high``, ``baseline``, ``delta``,
                ``delta_low`` and ``delta_high``.

        Raises:
            InvalidInputError: the result has no slices by that column.
            MissingLibraryError: pandas is not installed.
        """
        choice_of("by", by, (None, *(self.asked.by if self.tasks else self.slices)))
        if by is None:
            rows = [self._row(key) for key, value in self.values.items() if not isinstance(value, (dict, list))]
            return library("pandas").DataFrame(rows).set_index("metric").dropna(axis=1, how="all")
        if self.tasks:
            frames = {task: result.frame(by) for task, result in self.tasks.items()}
            joint = library("pandas").concat(frames, names=["task", None])
            return joint.reset_index("task").reset_index(drop=True)
        deltas = {row.key: row.columns() for row in self.versus[by].slices} if by in self.versus else {}
        rows = [{**row.plain(), **row.metrics, **deltas.get(row.key, {})} for row in self.slices[by]]
        drop = ["needs", "because", "metrics", "metric", "within_chance"]
        frame = library("pandas").DataFrame(rows).drop(columns=drop, errors="ignore")
        return frame if by in frame.columns else frame.rename(columns={"key": by})

    def _row(self, key: str) -> dict[str, Any]:
        interval, delta = self.intervals.get(key), self.deltas.get(key)
        of_delta = delta and delta.known_interval
        return {
            "metric": key,
            "value": self.values[key],
            "low": interval and interval.low,
            "high": interval and interval.high,
            "baseline": self.baseline and self.baseline.values[key],
            "delta": delta and delta.value,
            "delta_low": of_delta and of_delta.low,
            "delta_high": of_delta and of_delta.high,
        }

    def to_html(self, path: Any = None, lang: Language = "en", conditions: str | Sequence[str] = ()) -> str:
        """Return the report, one self-contained page; see `fleetmetrics.report.html`.

        Args:
            path: the file to write, whole or not at all; None: no file.
            lang: "en" or "zh".
            conditions: one or several, as for `failed`; the page shows which of them hold, and whether the model is
                ready for release.

        Returns:
            The page.

        Raises:
            InvalidInputError: the path is one of the data or not writable, or a condition is malformed.
            MissingLibraryError: jinja2 is not installed.
        """
        from fleetmetrics.report import html, written

        new, old = self._drawn()
        result = self.to_dict()
        outcomes = checked(conditions, result)
        if outcomes:
            result["conditions"] = [outcome._asdict() for outcome in outcomes]
        page = html(result, new, old, lang)
        return written(page, None if path is None else output_of(path, self.inputs()))

    def plot(self, kind: str, ax: Axes | None = None, *, by: str | None = None) -> Axes:
        """Draw a chart of the report with matplotlib, the baseline included.

        Args:
            kind: "roc", "precision_recall", "calibration", "score_histogram", "gain", "lift", "threshold_sweep",
                "confusion_matrix", "predicted_actual", "residuals", "at_k" or
                "slices".
            ax: the axes to draw on; None: new ones.
            by: of "slices", their column; None: the first.

        Returns:
            The axes.

        Raises:
            InvalidInputError: no requested metric has such a chart, or there are no slices by that column.
            MissingLibraryError: matplotlib is not installed.
        """
        from fleetmetrics.report import PICTURES, drawn

        choice_of("kind", kind, (*PICTURES, "slices"))
        if self.tasks:
            task = next(iter(self.tasks))
            raise InvalidInputError(f"there are several tasks; plot one of them: result.tasks[{task!r}].plot({kind!r})")
        if kind == "slices":
            return self._plot_of_slices(ax, by)
        if by is not None:
            raise InvalidInputError(f"by is for plot('slices'), not for {kind!r}; leave it out")
        axes = drawn(kind, self.to_dict(), *self._drawn(), ax)
        if axes is None:
            raise InvalidInputError(f"no metric here has the plot {kind!r}: {', '.join(self.values)}")
        return axes

    def _plot_of_slices(self, ax: Axes | None, by: str | None) -> Axes:
        """The intervals of the slices of a column."""
        if not self.slices:
            raise InvalidInputError("there are no slices to plot; name their column, evaluate(..., by='country')")
        by = next(iter(self.slices)) if by is None else choice_of("by", by, tuple(self.slices))
        slices, together = self.slices[by], self.judged.references.get(by)
        if slices and not slices[0].metric:
            raise InvalidInputError(f"slices have numbers to plot, and no metric here is one: {', '.join(self.values)}")
        from fleetmetrics import plot

        return plot.slices(slices, ax, whole=together)

    def _drawn(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """The metrics of each side that have charts; of several tasks by their names."""
        if self.tasks:
            drawn = {task: result._drawn() for task, result in self.tasks.items()}
            old = {task: other for task, (_, other) in drawn.items() if other is not None}
            return {task: own for task, (own, _) in drawn.items()}, old or None
        sides = [side.members for side in self._sides]
        charts = [{**side.values, "errors": side.errors, "actual": side.actual} for side in sides]
        return charts[0], charts[1] if charts[1:] else None

    def save_state(self, path: Any) -> None:
        """Write the accumulated state of the new side, for ``fleetmetrics merge`` and ``compare``.

        Args:
            path: the file, written whole or not at all.

        Raises:
            InvalidInputError: the path is one of the data, or not writable.
        """
        save(output_of(path, self.inputs()), self._sides[0])

    def inputs(self) -> Iterator[str]:
        """The paths of the files and states behind the result."""
        for side in self._sides:
            yield from side.states or side.read.files
            yield from (source.path for source in side.read.sources)

    def failed(self, *conditions: str) -> list[str]:
        """Return a text for each condition that holds; empty if none holds.

        Args:
            *conditions: such as ``"auc<0.77"`` or ``"auc_delta.low<0"``; the names are those of `to_dict`, with dots.
                For slices, ``"slices.country[de].auc<0.7"`` or ``"any slices.slot.auc_delta.high<0"``: a warning names
                slices with too few rows for a verdict.

        Raises:
            InvalidInputError: a condition is malformed, or the result has no number of that name.
        """
        return failed(conditions, self.to_dict())


def check_keys(asked: Question) -> None:
    """Raise InvalidInputError if the key of a metric is also that of another number of the result, or of its slices."""
    kinds = (EvaluationResult, SideResult, Judged, SliceResult, SliceDelta, Delta, Interval)
    properties = (name for kind in kinds for name, value in vars(kind).items() if isinstance(value, property))
    taken = {*RESULT_KEYS, *SIZES, *(entry.name for kind in kinds for entry in fields(kind)), *properties}
    taken |= {"any", "state"}
    for key, metric in asked.named.items():
        why = ""
        if key in taken or key.endswith(_ENDINGS):
            why = "is taken by another number of the result"
        elif key in asked.by:
            why = f"is also a column of {argument('by')}"
        elif "." in key and key != metric.text:
            why = "must not hold a dot, which separates the names of a condition"
        if why:
            named = metric.text.partition("=")[2] if key != metric.text else metric.text
            raise InvalidInputError(f"{argument('metrics')}: {key!r} {why}; give it another name, NAME={named}")


def result_of(
    sides: Sequence[Side],
    *,
    command: str = "",
    notes: Sequence[str] = (),
    joined: bool = True,
    always_valid: int | None = None,
    channel: Communicator | None = None,
    timeout: float | None = None,
) -> EvaluationResult:
    """The result of a side, or of the comparison of two, the new one first.

    Args:
        sides: one or two.
        command: the shell command.
        notes: warnings so far.
        joined: whether to check that joined ids are the same.
        always_valid: see `EvaluationResult`.
        channel: of the workers that all make this result; None: this process alone.
        timeout: seconds to wait for the other workers.

    Raises:
        DataError: the joined ids differ, or the intervals are missing.
        InvalidInputError: the key of a metric is that of another number.
    """
    new, texts = sides[0], list(notes)
    check_keys(new.asked)
    if always_valid is not None and new.asked.ci is None:
        raise DataError(
            f"{argument('always_valid')} needs intervals, and the states have none: save them with "
            f"{argument('ci', '0.95')}"
        )
    views = [side.of_tasks() for side in sides]
    if joined and sides[1:] and "id" in new.asked.roles:
        for one, other in zip(*views):
            check_joined(one, other, channel, timeout)
    measured = [side.measured(texts) for side in sides]
    if not new.asked.tasks:
        result = _result(sides, measured, measured, texts, always_valid)
        return replace(result, command=command, warnings=list(dict.fromkeys(texts)))
    tasks = {}
    for place, (task, *own) in enumerate(zip(new.asked.tasks, *views)):
        values = [of_side.tasks[place] for of_side in measured]
        notes_of_task: list[str] = []
        tasks[task] = _result(own, values, measured, notes_of_task, always_valid)
        texts += [f"{task}: {note}" for note in notes_of_task]
    whole = _result_of_tasks(sides, measured, tasks)
    return replace(whole, command=command, warnings=list(dict.fromkeys(texts)), always_valid=always_valid)


def _result(
    sides: Sequence[Side], values: Sequence[Probe[Any]], wholes: Sequence[Probe[Any]], notes: list[str], tightest: Any
) -> EvaluationResult:
    """The result of one task.

    Args:
        sides: one or two, or their views of the task.
        values: of each.
        wholes: the values of all tasks of each side; without several tasks the same as ``values``.
        notes: warnings, to which those of intervals are added.
        tightest: see `EvaluationResult.always_valid`.
    """
    asked, new, other = sides[0].asked, values[0], values[1] if values[1:] else None
    if other:
        check_kinds(asked.by, new, other)
    intervals = intervals_of(new, asked, notes)
    weighing = Weighing(asked.confidence, new.rows, tightest)
    both = [intervals, intervals_of(other, sides[1].asked, []) if other else {}]
    slices = judged(new, asked)
    results = [_side_result(*parts) for parts in zip(sides, values, wholes)]
    return EvaluationResult(
        results[0],
        results[1] if other else None,
        _intervals(intervals),
        _deltas(deltas_of(new, other, asked, weighing, both) if other else {}),
        replace(slices, slices=_columns(slices.slices), others=sides[0].others()),
        asked,
        notes,
        _columns(compared(new, other, asked, weighing) if other else {}),
        always_valid=tightest,
        _sides=sides,
    )


def _result_of_tasks(
    sides: Sequence[Side], measured: Sequence[Probe[Any]], tasks: dict[str, EvaluationResult]
) -> EvaluationResult:
    """The result of several tasks; the names of their metrics begin with the task's."""

    def named(which: str, of: Callable[[Any], Any] = lambda result: result) -> dict[str, Any]:
        by_task = {task: getattr(of(result), which) for task, result in tasks.items()}
        return {f"{task}.{key}": number for task, numbers in by_task.items() for key, number in numbers.items()}

    new = _side_result(sides[0], measured[0], measured[0])
    old = _side_result(sides[1], measured[1], measured[1]) if sides[1:] else None
    return EvaluationResult(
        replace(new, values=_values(named("values"))),
        old and replace(old, values=_values(named("values", lambda result: result.baseline))),
        _intervals(named("intervals")),
        _deltas(named("deltas")),
        Judged(),
        sides[0].asked,
        [],
        tasks=ByName("task", "", tasks),
        _sides=sides,
    )


def _values(values: Mapping[str, Any]) -> dict[str, Any]:
    return ByName("metric", "name some: metrics=", values)


def _intervals(intervals: Mapping[str, Interval]) -> dict[str, Interval]:
    return ByName("interval", "give ci=0.95 for intervals", intervals)


def _deltas(deltas: Mapping[str, Delta]) -> dict[str, Delta]:
    return ByName("delta", "give baseline= to compare with", deltas)


def _columns(columns: Mapping[str, _Column]) -> dict[str, _Column]:
    return ByName("column of slices", "give by= for slices, and baseline= to compare them", columns)


def _side_result(side: Side, values: Probe[Any], whole: Probe[Any]) -> SideResult:
    """The result of one side; rows of weight 0 count nowhere, and ``data`` has their number.

    Args:
        side: or its view of a task.
        values: its values.
        whole: those of all tasks.
    """
    read = side.read
    data = DataRead(
        read.files,
        values.rows + read.skipped,
        {name: read.nulls.get(name, 0) for name in side.asked.names()},
        read.skipped,
        read.examples,
        read.bad_files,
        read.rows - whole.rows - read.skipped,
        values.sizes,
        datetime.now(timezone.utc).isoformat(timespec="seconds"),
        read.left_out,
        read.unmatched,
        whole.rows - values.rows,
        facts_of(read.understood),
        read.multiline,
    )
    if side.task is not None:  # the result of all tasks names the files
        data = replace(data, files=(), examples=(), bad_files=())
    return SideResult(_values(values.values), values.rows, data, values.at_k)
