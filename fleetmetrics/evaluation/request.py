"""A request: the data and the question of each side, checked before anything is read."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import Any, Callable, Sequence

from fleetmetrics.columns.joining import CommonIds
from fleetmetrics.comm import Communicator
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.evaluation.arguments.option_checks import renamed_columns
from fleetmetrics.evaluation.arguments.options import Options
from fleetmetrics.evaluation.output.conditions import failed
from fleetmetrics.evaluation.question.question import Question
from fleetmetrics.evaluation.result import check_keys, result_of
from fleetmetrics.evaluation.sides.matched_rows import common_ids
from fleetmetrics.evaluation.sides.side import Side
from fleetmetrics.evaluation.sides.side_of_data import are_files, of_files, of_frame, of_share, shared_files
from fleetmetrics.files.processes import processes_kept
from fleetmetrics.support.checks import flag_of, listed, path_of, whole_number_of
from fleetmetrics.support.vocabulary import argument, in_shell

__all__ = ["Request", "ids_that_count"]


@dataclass(frozen=True)
class Request:
    """The data and the question of each side, and how they are read.

    Args:
        data: files or a data frame of one side, or of two, the new one first.
        questions: one for each side.
        options: the arguments of `fleetmetrics.evaluate`, as they were given.
    """

    data: Sequence[Any]
    questions: Sequence[Question]
    options: Options

    @classmethod
    def of(cls, data: Any, options: Options, days: str = "") -> Request:
        """The request of these arguments of `fleetmetrics.evaluate`; InvalidInputError if one is invalid.

        Args:
            data: of the new side.
            options: the other arguments.
            days: the column of slices whose moments are cut to days; "": none.
        """
        question = replace(Question.of(options), days=days)
        check_keys(question)
        sides = _data_of_sides(data, options)
        _check_way_of_reading(options)
        _check_sides(sides, options)
        questions = [question]
        if options.compares:
            questions.append(question.of_baseline(options.baseline_score, options.baseline_columns))
        # Otherwise an invalid metric would be reported only after reading; the baseline's differ by names of columns.
        question.columns_of(question.probe().collection())
        return cls(sides, questions, options)

    def unread(self) -> list[Side]:
        """The sides before anything is read."""
        return [of_files([], question, baseline=bool(place)) for place, question in enumerate(self.questions)]

    def check_conditions(self, conditions: Sequence[str]) -> None:
        """Raise InvalidInputError for a condition that no result can answer.

        Args:
            conditions: as for `EvaluationResult.failed`.
        """
        if conditions:
            empty_result = result_of(self.unread(), joined=False).to_dict()
            question = self.questions[0]
            names = [*question.named, "data", "slices", "explained", *["baseline"] * (len(self.data) - 1)]
            names_of_tasks = [f"{task}.{name}" for task in question.tasks for name in names]
            failed(conditions, empty_result, names_of_tasks or names)

    def sides(
        self, channel: Communicator, common: CommonIds | None = None, *, close: bool = False
    ) -> tuple[list[list[str]], list[Side]]:
        """Read this worker's share; return the paths of all workers by side, and the sides.

        Args:
            channel: of the workers.
            common: the ids that count; None: all.
            close: whether users of files have no samples elsewhere: their records then take less memory, and cannot be
                saved.
        """
        alone = channel.world_size == 1
        options = self.options
        paths_of_sides: list[list[str]] = []
        sides: list[Side] = []
        with processes_kept() if alone else contextlib.nullcontext():
            shares = shared_files(self.data, channel, options.skip_bad_files)
            for place, (data, question) in enumerate(zip(self.data, self.questions)):
                question = replace(question, common=common)
                settings: Any = {"baseline": bool(place), "skip_bad_rows": options.skip_bad_rows}
                if are_files(data):
                    settings.update(skip_bad_files=options.skip_bad_files, processes=options.processes, close=close)
                    paths, side = of_share(shares[place], question, channel, **settings)
                else:
                    paths, side = [], of_frame(data, question, whole=alone, **settings)
                paths_of_sides.append(paths)
                sides.append(side)
        return paths_of_sides, sides


def ids_that_count(
    request: Callable[[], Request],
    data: Any,
    options: Options,
    channel: Communicator,
    *,
    trouble: BaseException | None = None,
    timeout: float | None = None,
) -> CommonIds | None:
    """The ids that both sides have, if only these count; `common_ids` has the errors.

    Args:
        request: makes the request, or raises its error.
        data: of the new side.
        options: those of the request.
        channel: of the workers.
        trouble: an earlier error on this worker.
        timeout: seconds to wait for the others, once this worker has its ids.
    """
    if options.join is None:
        return None
    return common_ids(
        channel,
        lambda: request().questions,
        _data_of_sides(data, options),
        skip_bad_rows=options.skip_bad_rows,
        skip_bad_files=options.skip_bad_files,
        trouble=trouble,
        timeout=timeout,
    )


def _data_of_sides(data: Any, options: Options) -> list[Any]:
    """The data of each side: the baseline has its own, or the same with another score."""
    if not options.compares:
        return [data]
    return [data, data if options.baseline is None else options.baseline]


# -- checks -----------------------------------------------------------------------------------------------


def _check_way_of_reading(options: Options) -> None:
    """Raise InvalidInputError for an option about bad rows, bad files or processes that is invalid."""
    flag_of(argument("skip_bad_rows"), options.skip_bad_rows)
    flag_of(argument("skip_bad_files"), options.skip_bad_files)
    if options.processes is not None:
        whole_number_of(argument("processes"), options.processes, 1)


def _check_sides(sides: Sequence[Any], options: Options) -> None:
    """Raise InvalidInputError unless the options fit the data of each side."""
    if renamed_columns(options.baseline_columns) and not options.compares:
        raise InvalidInputError(f"{argument('baseline_columns')} needs {argument('baseline')}; give both")
    for name, data in zip(("FILES" if in_shell() else "data", argument("baseline")), sides):
        _check_data(name, data, options.columns)
    if options.pairs_scores and are_files(sides[0]) and "-" in _paths(sides[0]):
        why = "the standard input can be read only once"
        raise InvalidInputError(f"{argument('baseline_score')} reads the files once for each score; {why}")


def _check_data(name: str, data: Any, columns: Any) -> None:
    """Raise InvalidInputError unless these may be the paths of files, or a data frame."""
    if are_files(data):
        if not _paths(data):
            raise InvalidInputError(f"{name} is empty; name at least one file, folder or pattern")
        for path in _paths(data):
            path_of(name, path)
    elif columns is not None:
        raise InvalidInputError("columns names the columns of CSV files without a header; a data frame has names")


def _paths(files: Any) -> list[Any]:
    return [files] if isinstance(files, str) or hasattr(files, "__fspath__") else listed("files", files, "paths")
