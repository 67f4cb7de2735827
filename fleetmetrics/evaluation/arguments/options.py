"""The arguments of `fleetmetrics.evaluate`, each declared once: name, type, default, and its texts.

`make names` writes the signature and the docstring of `evaluate` from this list. The command line derives its options
from it, their help, and the keys of its file of options. Results and saved states hold those of the question.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal, Mapping, Sequence

__all__ = ["CONFIDENCE", "OF_FILES", "OF_QUESTION", "OPTIONS", "Option", "Options"]

#: The confidence of intervals and verdicts where none was chosen.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Option:
    """The declaration of an argument, beside its name, type and default.

    Args:
        reference: its entry in the reference, for users of Python.
        help: its line in the help of the command line; ``{formats}`` becomes the names of the formats.
        takes: how the command line reads its text, a key of `fleetmetrics.cli.values.VALUES`; "": by its type, as a
            flag, a number or a text.
        metavar: the name of its value in the help; "": that of ``takes``.
        choices: the values that it may have.
        others: its other names on the command line.
        of_question: whether the answer depends on it, so that results and saved states hold it; otherwise it only
            selects the data, or the way of reading them.
    """

    reference: str
    help: str
    takes: str = ""
    metavar: str = ""
    choices: Sequence[str] = ()
    others: Sequence[str] = ()
    of_question: bool = True


def _option(reference: str, help: str, takes: str = "", **more: Any) -> Mapping[str, Option]:
    return {"option": Option(reference, help, takes, **more)}


@dataclass(frozen=True)
class Options:
    """The arguments of `fleetmetrics.evaluate` beside the data and the channel, as they are given."""

    label: str | Sequence[str] = field(
        metadata=_option(
            "the column of the label; several: one for each task, named by it. Each task has its own values, "
            '``result["click.auc"]``, over the rows that have its label.',
            "the label column; of several tasks, separated by commas: click,like",
            "columns",
        )
    )
    score: str | Sequence[str] | Mapping[str, str] = field(
        metadata=_option(
            "the column of the prediction; several: one for each task, or for each class. Of a counterfactual task "
            'the columns by role: ``{"target": "t", "propensity": "l"}``.',
            "the score column; one per task or class, separated by commas; target=T,propensity=L of a counterfactual "
            "task",
            "columns",
        )
    )
    task: Literal["binary", "multiclass", "multilabel", "regression", "ranking", "counterfactual"] = field(
        default="binary",
        metadata=_option(
            '"binary", "multiclass", "multilabel" (several labels are one task, their elements pooled), "regression", '
            '"ranking", or "counterfactual" (the label is a reward, and ``score`` names the columns of `IPS` or '
            "`DoublyRobust`).",
            "the kind of labels; multilabel: several labels are one task",
            choices=("binary", "multiclass", "multilabel", "regression", "ranking", "counterfactual"),
        ),
    )
    classes: int | Sequence[str] | None = field(
        default=None,
        metadata=_option(
            "the number of classes, for a multiclass task whose score is one column; or their names, if labels (and "
            "predicted classes, if the score is one column) are names, in the order of the scores.",
            "classes of --task multiclass: their number, or cat,dog,...",
            "classes",
        ),
    )
    weight: str | None = field(
        default=None, metadata=_option("the column of weights.", "the weight of a row", "column")
    )
    user: str | None = field(
        default=None,
        metadata=_option(
            "the column of the user, or query, for `GAUC`, `NDCG` and others.",
            "the user or query, for GAUC, NDCG and others",
            "column",
            others=("query",),
        ),
    )
    by: str | Sequence[str] = field(
        default=(),
        metadata=_option(
            'the columns of slices; ``"country*day"`` crosses two. Rows without a value form a slice, too.',
            "columns to slice by, separated by commas; country*day slices by both",
            "slices",
        ),
    )
    metrics: str | Sequence[str] | None = field(
        default=None,
        metadata=_option(
            'strings such as ``"auc"``, ``"ndcg@10"``, ``"pr=auc:curve=PR"``, or one with commas; None: the task\'s.',
            "separated by commas: name, name@k, name:setting=value, key=name",
            "metrics",
        ),
    )
    ci: float | None = field(
        default=None,
        metadata=_option(
            "the confidence of intervals, such as 0.95; None: no intervals.",
            "the confidence of intervals; with --user, of independent users",
            metavar="0.95",
        ),
    )
    baseline: Any = field(
        default=None,
        metadata=_option(
            "the files or data frame to compare with; deltas are new minus old.",
            "compare with these files: deltas, new minus old",
            "files",
            of_question=False,
        ),
    )
    baseline_score: str | Sequence[str] | Mapping[str, str] | None = field(
        default=None,
        metadata=_option(
            "the column of the baseline's prediction; without ``baseline``, a column of the same rows: rows are then "
            "paired.",
            "the baseline's score column; without --baseline, in the same rows",
            "columns",
            of_question=False,
        ),
    )
    baseline_columns: Mapping[str, str] | None = field(
        default=None,
        metadata=_option(
            'the baseline\'s names of other columns, by their names here: ``{"y": "label"}``.',
            "renamed columns of the baseline, separated by commas",
            "renames",
            of_question=False,
        ),
    )
    join_on: str | None = field(
        default=None,
        metadata=_option(
            "the column of a row's id, in both: pairs rows, so that deltas get intervals.",
            "the id column of both sides: pairs rows for intervals of deltas",
            "column",
        ),
    )
    join: Literal["inner"] | None = field(
        default=None,
        metadata=_option(
            '"inner": count only ids that both sides have; this reads the data once more. None: both have the same '
            "ids.",
            "count only ids that both sides have; default: all must match",
            choices=("inner",),
        ),
    )
    skip_bad_rows: bool = field(
        default=False,
        metadata=_option(
            "whether to skip and count rows with nulls or invalid values.",
            "skip and count rows with nulls or invalid values",
            of_question=False,
        ),
    )
    skip_bad_files: bool = field(
        default=False,
        metadata=_option(
            "whether to skip and count unreadable files and folders.",
            "skip and count unreadable files",
            of_question=False,
        ),
    )
    processes: int | None = field(
        default=None,
        metadata=_option(
            "the number of processes that share the files; None: one per core, fewer for small data.",
            "the number of processes that read files; default: one per core",
            of_question=False,
        ),
    )
    max_slices: int = field(
        default=1000,
        metadata=_option(
            'the number of slices of a column to keep, those with the most rows; the others form one, "(other)".',
            "keep the N largest slices of a column (%(default)s)",
        ),
    )
    min_positives: int = field(
        default=0,
        metadata=_option("slices with fewer rows labeled 1 get no verdict.", "test no slice with fewer positives"),
    )
    rank_by: str | None = field(
        default=None,
        metadata=_option(
            "the metric that ranks the slices: it has their intervals and verdicts. None: the first metric.",
            "the one of --metrics that ranks and tests slices (the first)",
            metavar="METRIC",
        ),
    )
    replicates: int = field(
        default=1000,
        metadata=_option(
            "the number of replicates for intervals by resampling.",
            "replicates for metrics whose interval has no formula (%(default)s)",
        ),
    )
    positive: str | None = field(
        default=None,
        metadata=_option(
            'the label that counts as 1, as a string such as "click"; every other is 0. None: labels are 0 and 1.',
            "the label to count as 1, such as click; all others are 0",
            metavar="LABEL",
        ),
    )
    from_logits: bool = field(
        default=False,
        metadata=_option(
            "whether scores are log-odds; for several classes, logarithms up to a constant.", "scores are log-odds"
        ),
    )
    scale: float = field(
        default=1.0,
        metadata=_option(
            "the factor of the scores, such as 0.01 for percent.", "multiply scores by this", metavar="0.01"
        ),
    )
    where: str | None = field(
        default=None,
        metadata=_option(
            "a condition on rows, such as ``\"day = '2026-11-01' and n > 3\"``; other rows are skipped and counted.",
            "count only these rows: \"day = '2026-11-01' and n > 3\"",
            metavar="CONDITION",
        ),
    )
    text: str | Sequence[str] = field(
        default=(),
        metadata=_option(
            'columns of keys that CSV keeps as strings: 007 is "007".',
            "key columns of CSV to keep as strings: 007, not 7",
            "names",
            metavar="COLUMNS",
        ),
    )
    columns: Sequence[str] | None = field(
        default=None,
        metadata=_option(
            "names for the columns of CSV files without a header.", "names for CSV files without a header", "header"
        ),
    )
    quote: Literal["none", '"', "'"] | None = field(
        default=None,
        metadata=_option(
            'what is around values of CSV that hold separators or ends of lines: "none", ``\'"\'`` or ``"\'"``; None: '
            "``'\"'``, but one that would take whole rows into a value is an error.",
            'around values of CSV: none, " or \'; default: "',
            metavar="none",
        ),
    )
    separator: str | None = field(
        default=None,
        metadata=_option(
            'the character between values of CSV, or "tab", "^A", "blanks" for any run of them; None: recognized.',
            "between values of CSV: one character, tab, ^A or blanks (any run of them); default: recognized",
            metavar="CHARACTER",
        ),
    )
    encoding: str | None = field(
        default=None,
        metadata=_option(
            'of text, such as "gb18030"; None: UTF-8, or UTF-16 with a byte order mark.',
            "of text, such as gb18030, gbk, utf-16; default: UTF-8",
            metavar="NAME",
        ),
    )
    null: str | Sequence[str] = field(
        default=(),
        metadata=_option(
            r'what else stands for no value, such as ``["\N", "NA"]``.',
            r"what else stands for no value: '\N,NA'",
            "names",
        ),
    )
    format: Literal["parquet", "npz", "arrow", "jsonl", "libsvm", "csv"] | None = field(
        default=None,
        metadata=_option(
            'of all files, such as "libsvm"; None: each is recognized.',
            "of all files: {formats}; default: recognized",
            metavar="NAME",
        ),
    )
    always_valid: int | None = field(
        default=None,
        metadata=_option(
            "the number of rows at which intervals of deltas are narrowest: they hold at all looks together, as data "
            "grow from day to day, if this number stays the same. None: they hold at one look.",
            "intervals of deltas that stay valid at every look as data grow",
            metavar="ROWS",
            of_question=False,
        ),
    )

    @classmethod
    def among(cls, arguments: Mapping[str, Any]) -> Options:
        """The options among more arguments, by name; all are there."""
        return cls(**{name: arguments[name] for name in OPTIONS})

    @property
    def compares(self) -> bool:
        """Whether there is a baseline: other data, or another score in the same rows."""
        return self.baseline is not None or self.baseline_score is not None

    @property
    def pairs_scores(self) -> bool:
        """Whether the baseline is another score in the same rows."""
        return self.baseline is None and self.baseline_score is not None

    @property
    def confidence(self) -> float:
        """The confidence of intervals; 1 minus it bounds the share of false verdicts."""
        return self.ci or CONFIDENCE


#: What is declared of each argument, by its name.
OPTIONS: Mapping[str, Option] = {option.name: option.metadata["option"] for option in dataclasses.fields(Options)}
#: The arguments that say which rows of the data count, and how files are written.
OF_FILES = ("where", "text", "columns", "quote", "separator", "encoding", "null", "format")
#: The arguments that an answer depends on.
OF_QUESTION = tuple(name for name, option in OPTIONS.items() if option.of_question)
