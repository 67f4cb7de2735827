"""A request: the data and the arguments of each side, checked before reading."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import Any, Mapping, Sequence

from fleetmetrics.columns.joining import CommonIds
from fleetmetrics.comm import Communicator
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.evaluation.asked import Asked, names_by_names
from fleetmetrics.evaluation.conditions import failed
from fleetmetrics.evaluation.matched_rows import common_ids
from fleetmetrics.evaluation.result import check_keys, result_of
from fleetmetrics.evaluation.side import Side
from fleetmetrics.evaluation.side_of_data import are_files, of_files, of_frame, of_share, shared_files
from fleetmetrics.files.processes import processes_kept
from fleetmetrics.support.checks import flag_of, listed, path_of, whole_number_of
from fleetmetrics.support.vocabulary import argument, in_shell

__all__ = ["Request", "data_of"]


def data_of(data: Any, baseline: Any, baseline_score: Any) -> list[Any]:
    """The data of each side; the baseline has its own, or the same data with its score.

    Args:
        data: of the new side.
        baseline: of the other side, or None.
        baseline_score: the column of the baseline's prediction, or None.
    """
    if baseline is None and baseline_score is None:
        return [data]
    return [data, data if baseline is None else baseline]


@dataclass(frozen=True)
class Request:
    """The arguments of `fleetmetrics.evaluate`, for each side.

    Args:
        data: files or a data frame.
        asked: the question.
        skip_bad_rows: whether to skip and count rows with nulls or invalid values.
        skip_bad_files: whether to skip and count unreadable files and folders.
        processes: the number of processes that share the files, or None.
    """

    data: Sequence[Any]
    asked: Sequence[Asked]
    skip_bad_rows: bool = False
    skip_bad_files: bool = False
    processes: int | None = None

    @staticmethod
    def of(
        data: Any,
        *,
        baseline: Any = None,
        baseline_score: str | Sequence[str] | None = None,
        baseline_columns: Mapping[str, str] | None = None,
        columns: Sequence[str] | None = None,
        skip_bad_rows: bool = False,
        skip_bad_files: bool = False,
        processes: int | None = None,
        **question: Any,
    ) -> Request:
        """The request of these arguments of `fleetmetrics.evaluate`; InvalidInputError if one is invalid."""
        given = data_of(data, baseline, baseline_score)
        same = baseline is None and baseline_score is not None
        asked = Asked.of(**question, header=columns, compared=len(given) > 1, same_rows=same)
        check_keys(asked)
        for name, value in (("skip_bad_rows", skip_bad_rows), ("skip_bad_files", skip_bad_files)):
            flag_of(argument(name), value)
        if processes is not None:
            whole_number_of(argument("processes"), processes, 1)
        if names_by_names(baseline_columns) and len(given) == 1:
            what = argument("baseline_columns")
            raise InvalidInputError(f"{what} needs {argument('baseline')}; give both")
        for name, each in zip(("FILES" if in_shell() else "data", argument("baseline")), given):
            _check_data(name, each, columns)
        if same and are_files(data) and "-" in _paths(data):
            why = "the standard input can be read only once"
            raise InvalidInputError(f"{argument('baseline_score')} reads the files once for each score; {why}")
        sides = [asked]
        if len(given) > 1:
            sides.append(asked.of_baseline(baseline_score, baseline_columns))
        found = Request(given, sides, skip_bad_rows, skip_bad_files, processes)
        found.unread()  # otherwise an invalid metric would be reported only after reading
        return found

    def unread(self) -> list[Side]:
        """The sides before anything is read."""
        return [of_files([], each, baseline=bool(place)) for place, each in enumerate(self.asked)]

    def check_conditions(self, conditions: Sequence[str]) -> None:
        """Raise InvalidInputError for a condition that no result can answer.

        Args:
            conditions: as for `EvaluationResult.failed`.
        """
        if conditions:
            found = result_of(self.unread(), joined=False).to_dict()
            compared = ["baseline"] * (len(self.data) - 1)
            more = [*self.asked[0].named, "data", "slices", "explained", *compared]
            tasks = [f"{task}.{each}" for task in self.asked[0].tasks for each in more]
            failed(conditions, found, tasks or more)

    def common_ids(self, channel: Communicator) -> CommonIds | None:
        """The ids that both sides have, if only these count; `matched_rows.common_ids` has the arguments and errors."""
        if self.asked[0].join is None:
            return None
        skip: Any = {"skip_bad_rows": self.skip_bad_rows, "skip_bad_files": self.skip_bad_files}
        return common_ids(channel, lambda: self.asked, self.data, **skip)

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
        seen: list[list[str]] = []
        sides: list[Side] = []
        with processes_kept() if alone else contextlib.nullcontext():
            found = shared_files(self.data, channel, self.skip_bad_files)
            for place, (each, asked) in enumerate(zip(self.data, self.asked)):
                asked = replace(asked, common=common)
                settings: Any = {"baseline": bool(place), "skip_bad_rows": self.skip_bad_rows}
                if are_files(each):
                    settings.update(skip_bad_files=self.skip_bad_files, processes=self.processes, close=close)
                    paths, side = of_share(found[place], asked, channel, **settings)
                else:
                    paths, side = [], of_frame(each, asked, whole=alone, **settings)
                seen.append(paths)
                sides.append(side)
        return seen, sides


def _paths(files: Any) -> list[Any]:
    return [files] if isinstance(files, str) or hasattr(files, "__fspath__") else listed("files", files, "paths")


def _check_data(name: str, data: Any, columns: Any) -> None:
    """Raise InvalidInputError unless these may be the paths of files, or a data frame."""
    if are_files(data):
        if not _paths(data):
            raise InvalidInputError(f"{name} is empty; name at least one file, folder or pattern")
        for each in _paths(data):
            path_of(name, each)
    elif columns is not None:
        raise InvalidInputError("columns names the columns of CSV files without a header; a data frame has names")
