"""The columns of several tasks by argument of ``add``: checked, and taken from a batch."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from fleetmetrics.errors import InvalidInputError

__all__ = ["ARGUMENTS", "arguments_of_tasks", "checked_tasks"]

ARGUMENTS = ("prediction", "label", "weight", "mask")


def checked_tasks(
    tasks: Mapping[str, Any], takes_label: bool | None, further: Sequence[str]
) -> dict[str, dict[str, str]]:
    """The names of the columns by task and argument.

    Args:
        tasks: as for `fleetmetrics.MetricCollection.of_tasks`.
        takes_label: whether the metrics do; see `fleetmetrics.base.nesting.Nestable`.
        further: the further arguments that the metrics need.

    Raises:
        InvalidInputError: a task lacks a column, or has an argument that the metrics do not take.
    """
    if not isinstance(tasks, Mapping) or not tasks or not all(isinstance(task, str) and task for task in tasks):
        raise InvalidInputError(f"tasks must be a dict of columns by the name of a task, not {tasks!r:.80}")
    needed = ["prediction", *(["label"] if takes_label else []), *further]
    for task, columns in tasks.items():
        where, allowed = f"tasks[{task!r}]", (*ARGUMENTS, *further)
        if not isinstance(columns, Mapping) or not all(isinstance(name, str) for name in columns.values()):
            raise InvalidInputError(
                f"{where} is {columns!r:.80}; it must be the names of its columns by argument, such as "
                '{"prediction": "score", "label": "click"}'
            )
        for argument in columns:
            if argument not in allowed:
                raise InvalidInputError(f"{where} has no argument {argument!r}; allowed are {', '.join(allowed)}")
        for argument in needed:
            if argument not in columns:
                raise InvalidInputError(f"{where} lacks {argument!r}; name its column: {{{argument!r}: ...}}")
        if "label" in columns and takes_label is False:
            raise InvalidInputError(f"{where} has a label, but the metrics take only values; leave it out")
    return {task: dict(columns) for task, columns in tasks.items()}


def arguments_of_tasks(
    tasks: Mapping[str, Mapping[str, str]], columns: Mapping[Any, Any], owner: str
) -> dict[str, dict[str, Any]]:
    """The arguments of each task from the columns of a batch.

    Raises:
        InvalidInputError: a column is missing; ``owner`` is the name that the error begins with.
    """
    arguments: dict[str, dict[str, Any]] = {task: {} for task in tasks}
    for task, names in tasks.items():
        for argument, name in names.items():
            arguments[task][argument] = column = columns.get(name)
            if column is None and name in columns:
                raise InvalidInputError(f"{owner}: column {name!r} for {argument} of {task!r} is None; give its values")
            if column is None:
                from fleetmetrics.support.hints import did_you_mean, near  # few make mistakes

                hint = did_you_mean(map(repr, near(name, list(map(str, columns))))) or ";"
                raise InvalidInputError(
                    f"{owner}: no column {name!r} for {argument} of {task!r}{hint} there are "
                    f"{', '.join(map(repr, columns)) or 'none'}"
                )
    return arguments
