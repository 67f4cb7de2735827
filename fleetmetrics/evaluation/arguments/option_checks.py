"""The options of an evaluation, checked by theme: columns, task, slices, reading, comparison, metrics.

A check takes the options and returns them in one form, or raises an `InvalidInputError` for an option that is invalid
or contradicts another one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping, Sequence

from fleetmetrics.columns.reading import ON_FILES, Reading
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.evaluation.arguments.named import TASKS, named, separated
from fleetmetrics.evaluation.arguments.options import CONFIDENCE, Options
from fleetmetrics.files.formats import FORMATS
from fleetmetrics.support.checks import MOST_EDGES, choice_of, flag_of, number_of, whole_number_of
from fleetmetrics.support.vocabulary import argument, counted, in_shell, names_in

__all__ = [
    "baseline_score_of",
    "check_always_valid",
    "checked_options",
    "columns_of_slice",
    "reading_options",
    "renamed_columns",
    "tasks_of",
    "texts",
]


def checked_options(options: Options) -> Options:
    """The options in one form: lists of strings, names of columns, numbers of Python."""
    for check in (_task, _columns, _scores, _slices, _reading, _comparison, _intervals, _metrics, _classes):
        options = check(options)
    return options


# -- columns ----------------------------------------------------------------------------------------------


def _columns(options: Options) -> Options:
    label, score = _one_or_several(options.label), _scores_of(options.task, options.score)
    _check_columns("label", label, several=True)
    for name in ("weight", "user", "join_on"):
        _check_columns(name, getattr(options, name))
    return replace(options, label=label, score=score)


#: The columns of a counterfactual task by role, in the order of ``add``; the last two are of `DoublyRobust`.
_POLICIES = ("target", "propensity", "expected_logged", "expected_target")


def _scores_of(task: str, score: Any, name: str = "score") -> Any:
    """The column of the scores, or several; those of a counterfactual task by role, in the order of ``add``."""
    if task != "counterfactual":
        _check_columns(name, score, several=True)
        return _one_or_several(score)
    texts = score if isinstance(score, (list, tuple)) else [score]
    pairs = [*score.items()] if isinstance(score, Mapping) else [str(text).partition("=")[::2] for text in texts]
    columns = dict(pairs)
    named = all(isinstance(column, str) and column for column in columns.values())
    if not named or len(pairs) > len(columns) or columns.keys() not in (set(_POLICIES[:2]), set(_POLICIES)):
        example = "target=t,propensity=l" if in_shell() else '{"target": "t", "propensity": "l"}'
        raise InvalidInputError(
            f"{argument(name)} names each column by its role, {argument(name, example)}: target is the new policy's "
            "probability of the logged action, and propensity the logging policy's; for doubly_robust also "
            "expected_logged and expected_target, the rewards that a model expects of that action and of the new "
            f"policy; not {score!r:.120}"
        )
    return [columns[role] for role in _POLICIES if role in columns]


def _check_columns(name: str, columns: Any, *, several: bool = False) -> None:
    """Raise InvalidInputError unless this is a column's name, or several or None if allowed."""
    names = columns if several and isinstance(columns, (list, tuple)) and columns else [columns]
    if not all((isinstance(column, str) and column) or (column is None and not several) for column in names):
        allowed = "the name of a column" + (", or a list of names" if several else " or None")
        raise InvalidInputError(f"{argument(name)} must be {allowed}, not {columns!r:.80}")


def _one_or_several(columns: Any) -> Any:
    """A column's name, or a list of several; a list of one is that one."""
    if isinstance(columns, (list, tuple)):
        return columns[0] if len(columns) == 1 else list(columns)
    return columns


def renamed_columns(names: Any) -> Mapping[str, str]:
    """The baseline's names of columns; None: no other names. InvalidInputError for anything else."""
    pairs = {} if names is None else names
    if not isinstance(pairs, Mapping) or not all(isinstance(name, str) for pair in pairs.items() for name in pair):
        raise InvalidInputError(f"{argument('baseline_columns')} must be a dict of column names, not {pairs!r:.80}")
    return pairs


# -- the task, its labels and scores ----------------------------------------------------------------------


def _task(options: Options) -> Options:
    choice_of(argument("task"), options.task, tuple(TASKS))
    flag_of(argument("from_logits"), options.from_logits)
    return replace(options, min_positives=whole_number_of(argument("min_positives"), options.min_positives, 0))


#: The tasks that have one label, and what it is.
_ONE_LABEL = {"multiclass": "labels", "counterfactual": "rewards"}


def _scores(options: Options) -> Options:
    """The labels and scores fit the task and each other."""
    task, label = options.task, options.label
    _check_class_names(options)
    if task in _ONE_LABEL and isinstance(label, list):
        raise InvalidInputError(
            f"{argument('task', task)} takes one column of {_ONE_LABEL[task]}, not {', '.join(label)}; evaluate one at "
            "a time"
        )
    if task not in ("multiclass", "counterfactual"):
        _check_pairs(label, options.score)
    if options.positive is not None and task not in ("binary", "multilabel"):
        raise InvalidInputError(f"{argument('positive')} belongs to {argument('task', 'binary')}, not {task}")
    if options.from_logits and task not in ("binary", "multiclass", "multilabel"):
        raise InvalidInputError(f"{argument('from_logits')} is for probabilities, not {argument('task', task)}")
    return options


def _check_class_names(options: Options) -> None:
    """Raise InvalidInputError unless names of classes are those of the scores of a multiclass task."""
    names = _class_names(options)
    columns = len(options.score) if isinstance(options.score, list) else 1
    if names is not None and (options.task != "multiclass" or columns not in (1, len(names))):
        raise InvalidInputError(
            f"{argument('classes')} must name the classes of {argument('task', 'multiclass')}, one per column of "
            f"{argument('score')} if there are several columns; there are {len(names)} names, "
            f"{argument('task', options.task)} and {columns} column(s)"
        )


def _check_pairs(label: Any, score: Any, name: str = "score") -> None:
    """Raise InvalidInputError unless there is a score column for each label; ``name``: of the argument of scores."""
    labels, scores = (columns if isinstance(columns, list) else [columns] for columns in (label, score))
    if len(labels) == len(scores):
        return
    many, few = ("label", name) if len(labels) > len(scores) else (name, "label")
    columns_of = {"label": labels, name: scores}
    other = ""
    if len(labels) == 1 and name == "score":
        other = (
            f"; or, for classes, {argument('task', 'multiclass')}; to compare two models, give "
            f"{argument('score', scores[0])} and {argument('baseline_score', scores[1])}"
        )
    raise InvalidInputError(
        f"{argument(many)} names {counted(len(columns_of[many]), 'columns')}, {', '.join(columns_of[many])}, but "
        f"{argument(few)} names {len(columns_of[few])}, {', '.join(columns_of[few])}; each label is a task with its "
        f"own score: give the same number of both, in the same order{other}"
    )


def tasks_of(options: Options) -> list[str]:
    """The names of several tasks, which are those of their labels; empty: there is one task."""
    label = options.label
    together = ("multilabel", "multiclass", "counterfactual")
    return list(label) if isinstance(label, list) and options.task not in together else []


def _class_names(options: Options) -> list[str] | None:
    return list(options.classes) if isinstance(options.classes, (list, tuple)) else None


def _classes(options: Options) -> Options:
    """The classes by name, or their number."""
    classes: Any = options.classes
    names = _class_names(options)
    if names is not None:
        return replace(options, classes=names)
    if classes is not None and options.task != "multiclass":
        raise InvalidInputError(f"{argument('classes')} is for {argument('task', 'multiclass')}, not {options.task}")
    if classes is not None:
        classes = whole_number_of(argument("classes"), classes, 2)
    elif options.task == "multiclass":
        if not isinstance(options.score, list):
            text = f"give {argument('classes', 'N')}, or one column per class, {argument('score', 'p0,p1,p2')}"
            raise InvalidInputError(f"{argument('task', 'multiclass')}: {text}")
        classes = len(options.score)
    return replace(options, classes=classes)


# -- slices -----------------------------------------------------------------------------------------------


def _slices(options: Options) -> Options:
    by = texts("by", options.by)
    if not all(all(columns_of_slice(slices)) for slices in by):
        raise InvalidInputError(f"{argument('by')}: write crossed columns as {argument('by', 'country*day')}")
    if options.min_positives and options.task != "binary":
        raise InvalidInputError(f"{argument('min_positives')} needs labels of 0 and 1, {argument('task', 'binary')}")
    twice = next((slices for place, slices in enumerate(by) if slices in by[:place]), None)
    if twice is not None:
        raise InvalidInputError(f"{argument('by')} names {twice!r} twice; name it once")
    _check_rank_by(options.rank_by, by)
    return replace(options, by=by, max_slices=whole_number_of(argument("max_slices"), options.max_slices, 1))


def columns_of_slice(by: str) -> list[str]:
    """The columns that make slices together, between stars; a name in double quotes may hold a star."""
    return names_in(by, "*")


def _check_rank_by(rank_by: Any, by: Sequence[str]) -> None:
    """Raise InvalidInputError unless this can be a metric, and there are slices that it could rank."""
    if rank_by is not None and not isinstance(rank_by, str):
        raise InvalidInputError(f"{argument('rank_by')} must be the name of a metric, or None, not {rank_by!r:.80}")
    if rank_by is not None and not by:
        raise InvalidInputError(f"{argument('rank_by')} ranks slices; give {argument('by', 'COLUMN')} too")


# -- how data are read ------------------------------------------------------------------------------------


def _reading(options: Options) -> Options:
    options = replace(options, text=texts("text", options.text))
    choice_of(argument("format"), options.format, (None, *FORMATS))
    reading = Reading(**reading_options(options))
    keys = [column for slices in options.by for column in columns_of_slice(slices)]
    reading.check_texts([*filter(None, (options.user, options.join_on)), *keys])
    columns = None if options.columns is None else list(options.columns)
    return replace(options, columns=columns, null=list(reading.null), scale=float(options.scale))


def reading_options(options: Options) -> dict[str, Any]:
    """The arguments of `Reading`."""
    names = ("text", "where", "positive", "from_logits", "scale", *ON_FILES)
    reading: dict[str, Any] = {name: getattr(options, name) for name in names}
    return {**reading, "header": options.columns, "classes": _class_names(options)}


def texts(name: str, value: Any) -> list[str]:
    """One string or several, as a list without empty ones; None: no strings."""
    if value is None:
        return []
    strings = [value] if isinstance(value, str) else value
    if not isinstance(strings, (list, tuple)) or not all(isinstance(string, str) for string in strings):
        raise InvalidInputError(f"{argument(name)} must be a string, or a list of strings, not {value!r:.80}")
    return [string for string in strings if string]


# -- a comparison, and intervals --------------------------------------------------------------------------


def _comparison(options: Options) -> Options:
    join, baseline = options.join, argument("baseline")
    if options.join_on and not options.compares:
        raise InvalidInputError(f"{argument('join_on')} joins the data with the data of {baseline}; give both")
    choice_of(argument("join"), join, (None, "inner"))
    if join and not (options.join_on and options.compares):
        raise InvalidInputError(
            f"{argument('join', join)} joins the data with the data of {baseline} by the ids in "
            f"{argument('join_on', 'COLUMN')}; give all three"
        )
    check_always_valid(options.always_valid)
    if options.always_valid is not None and not options.compares:
        raise InvalidInputError(f"{argument('always_valid')} is for deltas; give {baseline} too")
    return options


def check_always_valid(rows: Any) -> None:
    """Raise InvalidInputError unless this is a number of rows, or None."""
    if rows is not None:
        whole_number_of(argument("always_valid"), rows, 1, 2**63 - 1)


def baseline_score_of(score: Any, options: Options) -> Any:
    """The column or columns of the baseline's scores; InvalidInputError unless there is one for each task."""
    score = _scores_of(options.task, score, "baseline_score")
    if tasks_of(options):
        _check_pairs(options.label, score, "baseline_score")
    return score


def _intervals(options: Options) -> Options:
    ci = options.ci
    if ci is not None:
        ci = number_of(argument("ci"), ci, 5e-324, 1 - 2**-53, "a number between 0 and 1, such as 0.95")
    elif options.join_on or options.pairs_scores or options.always_valid:
        ci = CONFIDENCE
    return replace(
        options, ci=ci, replicates=whole_number_of(argument("replicates"), options.replicates, 10, MOST_EDGES)
    )


# -- metrics ----------------------------------------------------------------------------------------------


def _metrics(options: Options) -> Options:
    tasks = tasks_of(options)
    _check_names_of_tasks(tasks)
    metrics = _usual_metrics(options) if options.metrics is None else options.metrics
    metrics = separated(metrics) if isinstance(metrics, str) else texts("metrics", metrics)
    if tasks:
        _check_of_one_label(metrics)
    if options.task == "counterfactual":
        _check_of_policies(metrics, len(options.score))
    return replace(options, metrics=metrics)


def _usual_metrics(options: Options) -> str:
    """The metrics of a task, where none were chosen."""
    metrics = TASKS[options.task]
    if options.task == "binary" and options.user:
        metrics += ",gauc"
    if options.task == "multiclass" and isinstance(options.score, list):
        metrics += ",log_loss"
    if options.task == "counterfactual" and len(options.score) > 2:
        metrics += ",doubly_robust"
    return metrics


def _check_names_of_tasks(tasks: Sequence[str]) -> None:
    """Raise InvalidInputError if two tasks have one name."""
    for name in tasks:
        if tasks.count(name) > 1:
            raise InvalidInputError(
                f"{argument('label')} names {name!r} {tasks.count(name)} times, and a task has the name of its label; "
                f"to compare two scores of one label, give {argument('baseline_score')}"
            )


def _check_of_one_label(metrics: Sequence[str]) -> None:
    """Raise InvalidInputError if a metric takes several labels at once."""
    for metric in named(metrics).values():
        if "num_labels" in metric.settings or metric.settings.get("task") == "multilabel":
            raise InvalidInputError(
                f"{argument('metrics')}: {metric.text} is one metric of several labels, and each label is a task with "
                "its own; leave num_labels out, or evaluate all labels together, "
                f"{argument('task', 'multilabel')}"
            )


def _check_of_policies(metrics: Sequence[str], columns: int) -> None:
    """Raise InvalidInputError if a metric does not evaluate a policy, or needs more columns of scores than this."""
    usual, task = TASKS["counterfactual"].split(","), argument("task", "counterfactual")
    for metric in named(metrics).values():
        name = metric.name.lower()
        if name == "doubly_robust" and columns < len(_POLICIES):
            raise InvalidInputError(
                f"{argument('metrics')}: {metric.text} needs expected rewards; name their columns in "
                f"{argument('score')}, by the roles {' and '.join(_POLICIES[2:])}"
            )
        if name not in (*usual, "doubly_robust", "count") and metric.kind():
            raise InvalidInputError(
                f"{argument('metrics')}: {metric.text} does not evaluate a policy; {task} takes {', '.join(usual)}, "
                "doubly_robust and count"
            )
