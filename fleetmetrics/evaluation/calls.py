"""What users call: `evaluate`, and `merge` and `compare` for saved states."""

from __future__ import annotations

import functools
from typing import Any, Literal, Mapping, Sequence

from fleetmetrics.comm import Communicator
from fleetmetrics.comm.choose import channel_of
from fleetmetrics.comm.deadline import began
from fleetmetrics.errors import DataError
from fleetmetrics.evaluation.arguments.option_checks import check_always_valid
from fleetmetrics.evaluation.arguments.options import Options
from fleetmetrics.evaluation.request import Request, ids_that_count
from fleetmetrics.evaluation.result import EvaluationResult, result_of
from fleetmetrics.evaluation.sides.side import Side, errors_of
from fleetmetrics.evaluation.sides.side_of_states import load, states_of
from fleetmetrics.evaluation.sides.sides_of_workers import of_all_workers
from fleetmetrics.support.checks import knows_its_arguments

__all__ = ["compare", "evaluate", "merge"]


# `make names` writes the arguments between ``*`` and ``communicator``, and their descriptions, from `Options`.
@knows_its_arguments
def evaluate(
    data: Any,
    *,
    label: str | Sequence[str],
    score: str | Sequence[str] | Mapping[str, str],
    task: Literal["binary", "multiclass", "multilabel", "regression", "ranking", "counterfactual"] = "binary",
    classes: int | Sequence[str] | None = None,
    weight: str | None = None,
    user: str | None = None,
    by: str | Sequence[str] = (),
    metrics: str | Sequence[str] | None = None,
    ci: float | None = None,
    baseline: Any = None,
    baseline_score: str | Sequence[str] | Mapping[str, str] | None = None,
    baseline_columns: Mapping[str, str] | None = None,
    join_on: str | None = None,
    join: Literal["inner"] | None = None,
    skip_bad_rows: bool = False,
    skip_bad_files: bool = False,
    processes: int | None = None,
    max_slices: int = 1000,
    min_positives: int = 0,
    rank_by: str | None = None,
    replicates: int = 1000,
    positive: str | None = None,
    from_logits: bool = False,
    scale: float = 1.0,
    where: str | None = None,
    text: str | Sequence[str] = (),
    columns: Sequence[str] | None = None,
    quote: Literal["none", '"', "'"] | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    null: str | Sequence[str] = (),
    format: Literal["parquet", "npz", "arrow", "jsonl", "libsvm", "csv"] | None = None,
    always_valid: int | None = None,
    communicator: Communicator | None = None,
    timeout: float | None = None,
) -> EvaluationResult:
    r"""Evaluate the scores in files or a data frame, as ``fleetmetrics evaluate`` does.

    Under a launcher every worker must call it: files are shared among the workers, a data frame is the worker's part of
    the data, and all workers get the result over all rows.

    Args:
        data: files, as `fleetmetrics.files.find` takes them: paths, folders, patterns. Or a data frame of pandas,
            polars or pyarrow, or a dict of arrays: one entry, or row of ``[rows, classes]``, for each row.
        label: the column of the label; several: one for each task, named by it. Each task has its own values,
            ``result["click.auc"]``, over the rows that have its label.
        score: the column of the prediction; several: one for each task, or for each class. Of a counterfactual task the
            columns by role: ``{"target": "t", "propensity": "l"}``.
        task: "binary", "multiclass", "multilabel" (several labels are one task, their elements pooled), "regression",
            "ranking", or "counterfactual" (the label is a reward, and ``score`` names the columns of `IPS` or
            `DoublyRobust`).
        classes: the number of classes, for a multiclass task whose score is one column; or their names, if labels (and
            predicted classes, if the score is one column) are names, in the order of the scores.
        weight: the column of weights.
        user: the column of the user, or query, for `GAUC`, `NDCG` and others.
        by: the columns of slices; ``"country*day"`` crosses two. Rows without a value form a slice, too.
        metrics: strings such as ``"auc"``, ``"ndcg@10"``, ``"pr=auc:curve=PR"``, or one with commas; None: the task's.
        ci: the confidence of intervals, such as 0.95; None: no intervals.
        baseline: the files or data frame to compare with; deltas are new minus old.
        baseline_score: the column of the baseline's prediction; without ``baseline``, a column of the same rows: rows
            are then paired.
        baseline_columns: the baseline's names of other columns, by their names here: ``{"y": "label"}``.
        join_on: the column of a row's id, in both: pairs rows, so that deltas get intervals.
        join: "inner": count only ids that both sides have; this reads the data once more. None: both have the same ids.
        skip_bad_rows: whether to skip and count rows with nulls or invalid values.
        skip_bad_files: whether to skip and count unreadable files and folders.
        processes: the number of processes that share the files; None: one per core, fewer for small data.
        max_slices: the number of slices of a column to keep, those with the most rows; the others form one, "(other)".
        min_positives: slices with fewer rows labeled 1 get no verdict.
        rank_by: the metric that ranks the slices: it has their intervals and verdicts. None: the first metric.
        replicates: the number of replicates for intervals by resampling.
        positive: the label that counts as 1, as a string such as "click"; every other is 0. None: labels are 0 and 1.
        from_logits: whether scores are log-odds; for several classes, logarithms up to a constant.
        scale: the factor of the scores, such as 0.01 for percent.
        where: a condition on rows, such as ``"day = '2026-11-01' and n > 3"``; other rows are skipped and counted.
        text: columns of keys that CSV keeps as strings: 007 is "007".
        columns: names for the columns of CSV files without a header.
        quote: what is around values of CSV that hold separators or ends of lines: "none", ``'"'`` or ``"'"``; None:
            ``'"'``, but one that would take whole rows into a value is an error.
        separator: the character between values of CSV, or "tab", "^A", "blanks" for any run of them; None: recognized.
        encoding: of text, such as "gb18030"; None: UTF-8, or UTF-16 with a byte order mark.
        null: what else stands for no value, such as ``["\N", "NA"]``.
        format: of all files, such as "libsvm"; None: each is recognized.
        always_valid: the number of rows at which intervals of deltas are narrowest: they hold at all looks together, as
            data grow from day to day, if this number stays the same. None: they hold at one look.
        communicator: the workers' channel; None: the one that was set or is chosen automatically.
        timeout: seconds that a worker waits for the others once it has read its part; None: ``FLEETMETRICS_TIMEOUT``,
            else 1,800, or 300 until all have met.

    Returns:
        The result; it prints as on the command line; see `EvaluationResult`.

    Raises:
        InvalidInputError: an argument is invalid.
        DataError: the data are invalid; the message names file, column and row.
        MissingLibraryError: pyarrow is not installed.

    Examples:
        >>> import fleetmetrics
        >>> frame = {"y": [0, 0, 1, 1], "p": [0.1, 0.4, 0.35, 0.8], "slot": ["a", "b", "a", "b"]}
        >>> result = fleetmetrics.evaluate(frame, label="y", score="p", metrics="auc,log_loss")
        >>> print(result)
        4 rows, 2 positives
        label: 0 and 1 (int64); score: probabilities (float64)
        <BLANKLINE>
                     value
        auc           0.75
        log_loss  0.472288
        >>> result["auc"]
        0.75
    """
    options = Options.among(locals())  # as long as nothing else has a name
    channel, trouble = channel_of(communicator)
    _, trouble = began(timeout, trouble)  # a single worker checks it, too
    request = functools.lru_cache(maxsize=1)(functools.partial(Request.of, data, options))
    common = ids_that_count(request, data, options, channel, trouble=trouble, timeout=timeout)
    sides = of_all_workers(channel, lambda: request().sides(channel, common), trouble, timeout)
    return result_of_sides(sides, always_valid=always_valid, channel=channel, timeout=timeout)


@knows_its_arguments
def merge(states: Sequence[Any]) -> EvaluationResult:
    """Merge saved states into the result of `evaluate` for all their data; see `EvaluationResult.save_state`.

    Args:
        states: their paths.

    Raises:
        DataError: they have different arguments.
        CorruptFileError: a file is not a saved state.
    """
    paths = states_of(states)
    side, warnings = load(paths, paths[0])
    return result_of_sides([side], warnings)


@knows_its_arguments
def compare(new: Any, old: Any, *, always_valid: int | None = None) -> EvaluationResult:
    """Compare two saved states, as `evaluate` compares with a baseline.

    Args:
        new: the path of the new state.
        old: the path of the old state.
        always_valid: as in `evaluate`, for states that grow from day to day.

    Raises:
        InvalidInputError: an argument is invalid.
        DataError: they have different arguments, or lack the intervals that ``always_valid`` needs.
        CorruptFileError: a file is not a saved state.
    """
    (first,), (second,) = states_of([new], "new"), states_of([old], "old")
    check_always_valid(always_valid)
    (new_side, warnings), (old_side, more) = load([first], first), load([second], first, baseline=True)
    return result_of_sides([new_side, old_side], [*warnings, *more], always_valid)


def result_of_sides(
    sides: Sequence[Side],
    warnings: Sequence[str] = (),
    always_valid: int | None = None,
    channel: Communicator | None = None,
    timeout: float | None = None,
) -> EvaluationResult:
    """The result of the sides; DataError if some of their data could not be used.

    Args:
        sides: one or two, the new one first.
        warnings: those so far.
        always_valid: see `evaluate`.
        channel: of the workers that all make this result; None: this process alone.
        timeout: seconds to wait for the other workers.
    """
    errors = errors_of(sides)
    if errors:
        raise DataError("\n".join(errors))
    return result_of(sides, notes=warnings, always_valid=always_valid, channel=channel, timeout=timeout)
