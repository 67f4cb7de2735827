"""From data to a result: what `fleetmetrics.evaluate` returns and the command line prints.

Its rooms, from the ground up: `named` and `counted` are the metrics, `evidence` what the test of slices needs, `versus`
what compares those of two sides, `asked` what is asked, `probe` the metrics that answer it, `side` what was made of one
side's data, `joined` which rows of both sides belong together, `slices` the verdicts, `conditions` and `printed` what
is made of a result, and `result` the result itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping, Sequence

from fleetmetrics.arguments import flag_of, path_of, whole_number_of
from fleetmetrics.comm import Communicator
from fleetmetrics.comm.choose import channel_of
from fleetmetrics.errors import DataError, InvalidInputError
from fleetmetrics.evaluation.asked import Asked, check_always_valid
from fleetmetrics.evaluation.joined import common_ids
from fleetmetrics.evaluation.result import EvaluationResult, result_of
from fleetmetrics.evaluation.side import Side, are_files, errors_of, load, of_all_workers, of_files, of_frame, of_share

__all__ = ["EvaluationResult", "compare", "evaluate", "merge"]


def evaluate(
    data: Any,
    *,
    label: str | Sequence[str],
    score: str | Sequence[str],
    task: str = "binary",
    classes: int | Sequence[str] | None = None,
    weight: str | None = None,
    user: str | None = None,
    by: str | Sequence[str] = (),
    metrics: str | Sequence[str] | None = None,
    ci: float | None = None,
    baseline: Any = None,
    baseline_score: str | Sequence[str] | None = None,
    baseline_columns: Mapping[str, str] | None = None,
    join_on: str | None = None,
    join: str | None = None,
    skip_bad_rows: bool = False,
    skip_bad_files: bool = False,
    processes: int | None = None,
    max_slices: int = 1000,
    min_positives: int = 0,
    draws: int = 1000,
    positive: str | None = None,
    logits: bool = False,
    scale: float = 1.0,
    where: str | None = None,
    text: str | Sequence[str] = (),
    columns: Sequence[str] | None = None,
    always_valid: int | None = None,
    communicator: Communicator | None = None,
) -> EvaluationResult:
    """How good the scores in files or a data frame are: what ``fleetmetrics evaluate`` prints.

    Under a launcher every worker must call it: files are shared among the workers, a data frame is the worker's part of
    the data, and all workers get the result over all rows.

    Args:
        data: files, as `fleetmetrics.files.find` takes them: paths, folders, patterns. Or a data frame of pandas,
            polars or pyarrow, or a dict of arrays: one entry, or row of ``[rows, classes]``, for each row.
        label: the column of what is true; several: of each label.
        score: the column of the prediction; several: of each class.
        task: "binary", "multiclass", "regression" or "ranking".
        classes: how many, of a multiclass task whose score is one column; or their names, where labels are names, in
            the order of the scores.
        weight: the column that says how much a row counts.
        user: the column of the user, or query, for `GAUC`, `NDCG` and others.
        by: the columns of slices; ``"country*day"`` are those of both together. Rows without a value are one, too.
        metrics: texts such as ``"auc"``, ``"ndcg@10"``, ``"pr=auc:curve=PR"``, or one with commas; None: the task's.
        ci: the confidence of intervals, such as 0.95; None: there are none.
        baseline: what to compare with, files or a data frame; deltas are new less old.
        baseline_score: the column of the baseline's prediction; without ``baseline``, in the same rows: then deltas are
            made row by row.
        baseline_columns: what other columns are called in the baseline, by their names here: ``{"y": "label"}``.
        join_on: the column of a row's id, in both: deltas get intervals, row by row.
        join: "inner": only rows count whose ids both sides have; the data are read once more. None: both have the same.
        skip_bad_rows: whether to leave out rows with nulls or values that are not allowed, and count them.
        skip_bad_files: whether to leave out files and folders that cannot be read, and count them.
        processes: how many share the files; None: one for each core, fewer for few data.
        max_slices: how many slices of a column are kept, those with the most rows; the others are one, "(other)".
        min_positives: slices with fewer rows labelled 1 are too few to tell.
        draws: how many resamples intervals are made of, where they are.
        positive: the label that counts as 1, as a text such as "click"; every other is 0. None: labels are 0 and 1.
        logits: whether scores are log-odds, of several classes logarithms up to a constant.
        scale: by what scores are multiplied, such as 0.01 for percent.
        where: a condition on rows, such as ``"day = '2026-11-01' and n > 3"``; the others are left out and counted.
        text: columns of keys whose values stay texts in CSV: 007 is "007".
        columns: the names of the columns of CSV files that have no line of names.
        always_valid: at about how many rows deltas are to have the narrowest intervals: these hold at all looks
            together, at data that grow from day to day, if the number stays the same. None: they are of one look.
        communicator: of the workers; None: the one that was set or is chosen automatically.

    Returns:
        The result: printed, it is what the command line prints; see `EvaluationResult`.

    Raises:
        InvalidInputError: an argument is not what it should be.
        DataError: the data are not; the message names file, column and row.
        MissingLibraryError: pyarrow is not installed.

    Examples:
        >>> import fleetmetrics
        >>> frame = {"y": [0, 0, 1, 1], "p": [0.1, 0.4, 0.35, 0.8], "slot": ["a", "b", "a", "b"]}
        >>> result = fleetmetrics.evaluate(frame, label="y", score="p", metrics="auc,log_loss")
        >>> print(result)
        4 rows, 2 positives
        <BLANKLINE>
                     value
        auc           0.75
        log_loss  0.472288
        >>> result["auc"]
        0.75
    """
    channel, trouble = channel_of(communicator)
    alone, _share = channel.world_size == 1, slice(channel.rank, None, channel.world_size)
    same = baseline is None and baseline_score is not None
    given = [data] if baseline is None and not same else [data, data if same else baseline]

    def questions() -> list[Asked]:
        asked = Asked.of(
            label=label,
            score=score,
            task=task,
            classes=classes,
            weight=weight,
            user=user,
            by=by,
            metrics=metrics,
            ci=ci,
            join_on=join_on,
            join=join,
            max_slices=max_slices,
            min_positives=min_positives,
            draws=draws,
            positive=positive,
            logits=logits,
            scale=scale,
            where=where,
            text=text,
            header=columns,
            compared=baseline is not None or same,
            same_rows=same,
            always_valid=always_valid,
        )
        flag_of("skip_bad_rows", skip_bad_rows)
        flag_of("skip_bad_files", skip_bad_files)
        if processes is not None:
            whole_number_of("processes", processes, 1)
        if baseline_columns is not None and len(given) == 1:
            raise InvalidInputError("baseline_columns are those of baseline; give both")
        of_files([], asked)  # what is wrong with the question is known before anything is read
        return [asked, asked.of_baseline(baseline_score, baseline_columns)]

    common = None
    if join is not None:
        settings: Any = {"skip_bad_rows": skip_bad_rows, "skip_bad_files": skip_bad_files}
        common = common_ids(channel, questions, given, **settings, trouble=trouble)

    def make() -> tuple[list[list[str]], list[Side]]:
        seen, sides = [], []
        for place, (each, question) in enumerate(zip(given, questions())):
            question = replace(question, common=common)
            settings: Any = {"baseline": bool(place), "skip_bad_rows": skip_bad_rows}
            if are_files(each):
                reading: Any = {"skip_bad_files": skip_bad_files, "processes": processes}
                paths, side = of_share(each, question, channel, **reading, **settings)
            else:
                paths, side = [], of_frame(each, question, whole=alone, **settings)
            seen.append(paths)
            sides.append(side)
        return seen, sides

    if alone and trouble is None:
        return _result(make()[1], always_valid=always_valid)
    return _result(of_all_workers(channel, make, trouble), always_valid=always_valid)


def merge(states: Sequence[Any]) -> EvaluationResult:
    """What `evaluate` would return of all data of saved states; see `EvaluationResult.save_state`.

    Args:
        states: their paths.

    Raises:
        DataError: they were not asked the same.
        CorruptFileError: one is no such state.
    """
    paths = [path_of("states", each) for each in states]
    if not paths:
        raise InvalidInputError("states is empty; name at least one")
    side, said = load(paths, paths[0])
    return _result([side], said)


def compare(new: Any, old: Any, *, always_valid: int | None = None) -> EvaluationResult:
    """A saved state and one to compare it with, as `evaluate` does with a baseline.

    Args:
        new: the path of the new state.
        old: that of the old one.
        always_valid: as `evaluate` takes it, of states that grow from day to day.

    Raises:
        InvalidInputError: an argument is not what it should be.
        DataError: they were not asked the same, or intervals must hold at all looks and the states have none.
        CorruptFileError: one is no such state.
    """
    first, second = path_of("new", new), path_of("old", old)
    check_always_valid(always_valid)
    (one, said), (other, _) = load([first], first), load([second], first, baseline=True)
    return _result([one, other], said, always_valid)


def _result(sides: Sequence[Side], said: Sequence[str] = (), always_valid: int | None = None) -> EvaluationResult:
    errors = errors_of(sides)
    if errors:
        raise DataError("\n".join(errors))
    return result_of(sides, said=said, always_valid=always_valid)
