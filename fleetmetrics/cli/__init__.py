"""The command line: ``fleetmetrics evaluate | merge | compare | ...``; see docs/howto/evaluate_files.md."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import inspect
import os
import shlex
import sys
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, Iterator, NamedTuple, Sequence

from fleetmetrics._version import __version__
from fleetmetrics.errors import ConditionError, DataError, FleetMetricsError, InvalidInputError, MissingLibraryError
from fleetmetrics.support.optional import library
from fleetmetrics.support.vocabulary import as_options, names_in, separated
from fleetmetrics.words.texts import LANGUAGES

if TYPE_CHECKING:
    from fleetmetrics.evaluation.result import EvaluationResult

__all__ = ["main"]

_EXAMPLES = {
    "evaluate": """\
fleetmetrics evaluate preds --label y --score p --user uid --by slot --ci 0.95 --html report.html
fleetmetrics evaluate new --baseline old --join-on id --label y --score p --fail-if 'auc_delta.low<0'
""",
    "merge": "fleetmetrics merge monday.fms tuesday.fms --save-state days.fms --html days.html\n",
    "compare": "fleetmetrics compare new.fms old.fms --fail-if 'auc_delta<0.02'\n",
    "consistency": "fleetmetrics consistency training=train.parquet serving=logs.parquet --id id --score p\n",
    "history": "fleetmetrics history monday.fms tuesday.fms --fail-if 'auc_change.high<0'\n",
}
_STATUSES = """\
exit status: 0; 1: a --fail-if holds; 2: the command is invalid; 3: the data are invalid or unreadable;
130: interrupted by Ctrl-C
"""


#: Options that take several values, separated by commas.
_LISTS = ("baseline_columns", "by", "columns", "features", "id", "label", "metrics", "null", "score", "text")


class _Once(argparse._StoreAction):
    """Stores an option once, and rejects a second value: argparse would keep only the last one."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *given: Any) -> None:
        stored = vars(namespace).setdefault("stored", set())
        if self.option_strings and self.dest in stored:
            more = "; put commas between several values" if self.dest in _LISTS else ""
            parser.error(f"{'/'.join(self.option_strings)} is given twice; give it once{more}")
        stored.add(self.dest)
        super().__call__(parser, namespace, *given)


class _Parser(argparse.ArgumentParser):
    """A parser whose options are given in full, and once, except for those that collect values."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{**settings, "allow_abbrev": False})
        self.register("action", None, _Once)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Reject unknown options first: argparse would report those that they were meant to be as missing."""
        for token in args:
            if token == "--" or (self._subparsers is not None and not token.startswith("-")):
                break  # files follow, or a command with options of its own
            name = token.partition("=")[0]
            if name.startswith("--") and " " not in name and name not in self._option_string_actions:
                self.error(f"there is no option {name}{self._nearest(name)}")
        return super().parse_known_args(args, namespace)

    def _nearest(self, name: str) -> str:
        """A question that names the option that was meant, if one is near."""
        options = [each for each in self._option_string_actions if each.startswith("--")]
        longer = [each for each in options if each.startswith(name)]
        near = longer or difflib.get_close_matches(name, options, 1)
        return f"; did you mean {' or '.join(near)}?" if near else ""


def _parsers(formats: str, names: str) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """The parser of all commands, and the parser of `evaluate`.

    Args:
        formats: the titles of the known formats, for help.
        names: their names.
    """
    style: Any = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    style_of: Any = {name: {**style, "epilog": examples + _STATUSES} for name, examples in _EXAMPLES.items()}
    parser = _Parser("fleetmetrics", description="Compute metrics of predictions in files.", **style_of["evaluate"])
    parser.add_argument("--version", action="version", version=f"fleetmetrics {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    one = commands.add_parser("evaluate", help="evaluate files", **style_of["evaluate"])
    column: Any = {"metavar": "COLUMN"}
    columns: Any = {"metavar": "COLUMN", "type": _columns}
    one.add_argument("files", nargs="*", help=f"{formats}; folders, patterns, URLs (s3://...); -: standard input")
    one.add_argument("--label", help="the label column; of several tasks, separated by commas: click,like", **columns)
    one.add_argument("--score", help="the score column; one per task or class, separated by commas", **columns)
    one.add_argument(
        "--task",
        choices=["binary", "multiclass", "multilabel", "regression", "ranking"],
        default="binary",
        help="the kind of labels; multilabel: several labels are one task",
    )
    one.add_argument(
        "--classes", type=_classes, metavar="N", help="classes of --task multiclass: their number, or cat,dog,..."
    )
    one.add_argument("--positive", metavar="LABEL", help="the label to count as 1, such as click; all others are 0")
    one.add_argument("--logits", action="store_true", help="scores are log-odds")
    one.add_argument("--scale", type=float, metavar="0.01", default=1.0, help="multiply scores by this")
    one.add_argument("--weight", help="the weight of a row", **column)
    one.add_argument("--user", "--query", help="the user or query, for GAUC, NDCG and others", **column)
    one.add_argument(
        "--by",
        metavar="COLUMNS",
        type=_slices,
        default=(),
        help="columns to slice by, separated by commas; country*day slices by both",
    )
    one.add_argument(
        "--max-slices", type=int, metavar="N", default=1000, help="keep the N largest slices of a column (1000)"
    )
    one.add_argument("--min-positives", type=int, metavar="N", default=0, help="test no slice with fewer positives")
    one.add_argument("--rank-by", metavar="METRIC", help="the one of --metrics that ranks and tests slices (the first)")
    one.add_argument(
        "--metrics", metavar="NAMES", help="separated by commas: name, name@k, name:setting=value, key=name"
    )
    one.add_argument(
        "--ci", type=float, metavar="0.95", help="the confidence of intervals; with --user, of independent users"
    )
    one.add_argument(
        "--draws",
        type=int,
        metavar="N",
        default=1000,
        help="resamples for metrics whose interval has no formula (1000)",
    )
    one.add_argument(
        "--baseline", metavar="FILES", action="append", help="compare with these files: deltas, new minus old"
    )
    one.add_argument(
        "--baseline-score", help="the baseline's score column; without --baseline, in the same rows", **columns
    )
    one.add_argument(
        "--baseline-columns",
        metavar="HERE=THERE",
        type=_renamed,
        help="renamed columns of the baseline, separated by commas",
    )
    one.add_argument("--join-on", help="the id column of both sides: pairs rows for intervals of deltas", **column)
    one.add_argument("--join", choices=["inner"], help="count only ids that both sides have; default: all must match")
    one.add_argument("--skip-bad-rows", action="store_true", help="skip and count rows with nulls or invalid values")
    one.add_argument("--skip-bad-files", action="store_true", help="skip and count unreadable files")
    one.add_argument(
        "--processes", type=int, metavar="N", help="the number of processes that read files; default: one per core"
    )
    one.add_argument(
        "--config", metavar="FILE", help='a TOML file of these options (label = "y"); the command line wins'
    )
    some = commands.add_parser(
        "merge", help="merge saved states, and print the result for all their data", **style_of["merge"]
    )
    some.add_argument("states", nargs="+", metavar="STATE", help="files from --save-state")
    two = commands.add_parser(
        "compare", help="compare two saved states, new and old, with deltas", **style_of["compare"]
    )
    two.add_argument("states", nargs=2, metavar="STATE", help="files from --save-state, the new one first")
    two.set_defaults(save_state=None)
    for each in (one, some):
        each.add_argument("--save-state", metavar="FILE", help="save the state for merge and compare")
    for each in (one, two):
        each.add_argument(
            "--always-valid",
            type=int,
            metavar="ROWS",
            help="intervals of deltas that stay valid at every look as data grow",
        )
    for each in (one, some, two):
        _add_forms(each)
        each.add_argument("--html", metavar="FILE", help="write a report that opens in any browser")
        each.add_argument("--lang", choices=LANGUAGES, default="en", help="the report's language")
        each.add_argument(
            "--fail-if",
            metavar="'auc<0.77'",
            action="append",
            default=[],
            help="exit with status 1 if the condition holds",
        )
    same = commands.add_parser(
        "consistency",
        help="check whether streams, such as training and serving, give equal scores",
        **style_of["consistency"],
    )
    same.add_argument(
        "streams", nargs="+", metavar="NAME=FILES", help="two or more streams, in the order of the data flow"
    )
    one_or_each: Any = {"metavar": "COLUMN", "required": True}
    same.add_argument("--id", help="the id column; one per stream, separated by commas", **one_or_each)
    same.add_argument("--score", help="the score column; one per stream, separated by commas", **one_or_each)
    same.add_argument("--label", help="the label column of the first stream: adds AUC and calibration", **column)
    same.add_argument(
        "--by",
        metavar="COLUMNS",
        type=_names,
        default=(),
        help="columns of the first stream to slice by, separated by commas",
    )
    same.add_argument(
        "--features",
        metavar="COLUMNS",
        type=_names,
        default=(),
        help="more numeric columns of every stream to compare",
    )
    same.add_argument(
        "--tolerance", type=float, default=1e-6, metavar="1e-6", help="scores that differ by at most this are equal"
    )
    same.add_argument("--skip-bad-rows", action="store_true", help="skip and count rows with nulls")
    for each in (one, same):
        each.add_argument(
            "--where", metavar="CONDITION", help="count only these rows: \"day = '2026-11-01' and n > 3\""
        )
        each.add_argument(
            "--text",
            metavar="COLUMNS",
            type=_names,
            default=(),
            help="key columns of CSV to keep as strings: 007, not 7",
        )
        each.add_argument("--columns", type=names_in, metavar="NAMES", help="names for CSV files without a header")
        each.add_argument("--quote", metavar="none", help='around values of CSV: none, " or \'; default: "')
        each.add_argument(
            "--separator",
            metavar="CHARACTER",
            help="between values of CSV: one character, tab, ^A or blanks (any run of them); default: recognized",
        )
        each.add_argument("--encoding", metavar="NAME", help="of text, such as gb18030, gbk, utf-16; default: UTF-8")
        each.add_argument(
            "--null", metavar="NAMES", type=_names, default=(), help="what else stands for no value: '\\N,NA'"
        )
        each.add_argument("--format", metavar="NAME", help=f"of all files: {names}; default: recognized")
    over = commands.add_parser(
        "history", help="show saved states in the given order, for example one per day", **style_of["history"]
    )
    over.add_argument("states", nargs="+", metavar="STATE", help="files from --save-state")
    for each in (same, over):
        each.add_argument("--lang", choices=LANGUAGES, default="en", help="the page's language")
        _add_forms(each)
        each.add_argument("--html", metavar="FILE", help="write a page that opens in any browser")
    same.add_argument(
        "--fail-if",
        metavar="'steps.serving.share>0'",
        action="append",
        default=[],
        help="exit with status 1 if the condition holds",
    )
    over.add_argument(
        "--fail-if",
        metavar="'auc<0.77'",
        action="append",
        default=[],
        help="exit with status 1 if the condition holds for the last state; auc_change is from the one before",
    )
    about = commands.add_parser("metrics", help="list the metrics, or describe one: metrics auc")
    about.add_argument("name", nargs="?", metavar="NAME", help="show its formula, range and settings")
    commands.add_parser("doctor", help="check the environment, and whether the workers reach each other")
    return parser, one


def _add_forms(parser: argparse.ArgumentParser) -> None:
    """Add the options for output in other forms than text."""
    form = parser.add_mutually_exclusive_group()
    for name in ("JSON", "Markdown"):
        text = f"print the result as {name}"
        form.add_argument(f"--{name.lower()}", dest="form", action="store_const", const=name, help=text)


def _columns(text: str) -> Any:
    """The names of one or more columns, separated by commas; a name with a comma is in double quotes."""
    names = names_in(text)
    return names if names[1:] else names[0]


def _classes(text: str) -> Any:
    return int(text) if text.isdigit() else names_in(text)


def _names(text: str) -> list[str]:
    return list(filter(None, names_in(text)))


def _renamed(text: str) -> dict[str, str]:
    """The baseline's names of columns, by the names here."""
    pairs = [each.partition("=") for each in _names(text)]
    if not all(here and there for here, _, there in pairs) or len({here for here, *_ in pairs}) < len(pairs):
        raise argparse.ArgumentTypeError(f"{text!r} must be HERE=THERE, such as y=label, for each column once")
    return {here: there for here, _, there in pairs}


def _slices(text: str) -> list[str]:
    """The columns of slices; names in double quotes keep the quotes only if they contain a star."""
    names = [(each, names_in(each, "*")) for each in separated(text)]
    return [parts[0] if len(parts) == 1 and "*" not in parts[0] else each for each, parts in names if each]


def _parsed(given: Sequence[str]) -> argparse.Namespace:
    """The arguments of the command line and of its file of options; argparse reports errors."""
    formats = names = ""
    if given[:1] in (["evaluate"], ["consistency"]) and {"-h", "--help"} & set(given):
        from fleetmetrics.files.formats import FORMATS, known_formats

        formats, names = known_formats(), ", ".join(FORMATS)
    parser, one = _parsers(formats, names)
    if given[:1] != ["evaluate"]:
        return parser.parse_args(given)
    tokens = list(given[1:])
    args = one.parse_intermixed_args(tokens)
    if args.config is not None:
        from fleetmetrics.cli.config import tokens_of

        args = one.parse_intermixed_args([*tokens_of(args.config, one, args), *tokens])
    missing = [] if args.files else ["files"]
    missing += [f"--{name}" for name in ("label", "score") if not getattr(args, name)]
    if missing:
        one.error(f"the following arguments are required: {', '.join(missing)}")
    args.command = "evaluate"
    return args


class _Outcome(NamedTuple):
    """The end of a command: its exit status, and its text on the standard error."""

    status: int
    text: str = ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, with these arguments or the program's, and return the exit status.

    Examples:
        >>> main(["evaluate", "nothing.parquet", "--label", "y", "--score", "p"])
        3
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if argv is not None and not (isinstance(argv, (list, tuple)) and all(isinstance(each, str) for each in argv)):
        raise InvalidInputError(f"argv must be a list of strings, not {argv!r:.80}")
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        with as_options():
            outcome = _outcome(lambda: _run(given))
    except SystemExit as left:  # argparse has printed the error
        code = int(left.code or 0)
        outcome = _outcome(lambda: _printed(code))
    except KeyboardInterrupt:
        outcome = _Outcome(130, "interrupted")
    if outcome.text:
        from fleetmetrics.evaluation.printed import clean

        with contextlib.suppress(OSError):  # the standard error is closed; the status stays
            for line in outcome.text.splitlines():
                print(f"fleetmetrics: {clean(line)}", file=sys.stderr)
    return outcome.status


def _run(given: Sequence[str]) -> _Outcome:
    """Run the command of these arguments."""
    run = {"evaluate": _evaluate, "merge": _states, "compare": _states, "metrics": _metrics}
    run.update(consistency=_consistency, history=_history, doctor=_doctor)
    args = _parsed(given)
    args.line = shlex.join(["fleetmetrics", *given])
    return run[args.command](args)


def _outcome(act: Callable[[], _Outcome]) -> _Outcome:
    """The exit status of an action; after an error, 2 if the command is invalid, else 3: 1 is the answer of a gate."""
    try:
        return act()
    except (ConditionError, MissingLibraryError) as error:
        return _Outcome(2, str(error))
    except DataError as error:
        return _Outcome(3, str(error))
    except InvalidInputError as error:
        return _Outcome(2, str(error))
    except FleetMetricsError as error:
        return _Outcome(3, str(error))
    except OSError as error:
        return _Outcome(3, f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except Exception as error:
        logged = os.environ.get("FLEETMETRICS_LOG")
        if logged:
            traceback.print_exc()
        where = "" if logged else " (FLEETMETRICS_LOG=info shows where)"
        return _Outcome(3, f"unexpected {type(error).__name__}: {error}{where}")


@contextlib.contextmanager
def _of_the_data() -> Iterator[None]:
    """Attribute errors inside to the data instead of the command."""
    try:
        yield
    except DataError:
        raise
    except (InvalidInputError, MissingLibraryError) as error:
        raise DataError(str(error)) from error


def _check_outputs(args: argparse.Namespace, inputs: Sequence[Any]) -> None:
    """Raise before anything is read if an output is not writable, or is one of the inputs."""
    from fleetmetrics.evaluation.output_paths import check_apart, check_outputs
    from fleetmetrics.files.found import look

    save_state = getattr(args, "save_state", None)
    if args.html is None and save_state is None:
        return
    paths: list[str] = []
    for each in inputs:
        with contextlib.suppress(DataError, MissingLibraryError):  # reading reports it
            paths += look(each).paths
    outputs = {"--html": args.html, "--save-state": save_state}
    check_outputs(outputs, paths)
    check_apart(outputs, (each for some in inputs for each in ([some] if isinstance(some, str) else some)))
    if args.html is not None:
        library("jinja2", "report")
        library("matplotlib", "report")


def _evaluate(args: argparse.Namespace) -> _Outcome:
    from fleetmetrics.comm import get_communicator
    from fleetmetrics.evaluation import evaluate
    from fleetmetrics.evaluation.request import Request
    from fleetmetrics.evaluation.side import Side
    from fleetmetrics.evaluation.sides_of_workers import of_workers

    options = {*inspect.signature(evaluate).parameters} - {"data", "communicator", "timeout"}
    request = Request.of(args.files, **{name: getattr(args, name) for name in options})
    request.check_conditions(args.fail_if)
    _check_outputs(args, [*request.data, *filter(None, [args.config])])
    channel = get_communicator()
    common = request.common_ids(channel)

    def make() -> tuple[list[list[str]], list[Side]]:
        with _of_the_data():
            return request.sides(channel, common, close=args.save_state is None)

    return _Outcome(*of_workers(channel, make, lambda sides: [*_outcome(lambda: _finish(args, sides))]))


def _finish(args: argparse.Namespace, sides: Sequence[Any]) -> _Outcome:
    """Save the usable data of the new side, and show the result."""
    from fleetmetrics.evaluation.result import result_of
    from fleetmetrics.evaluation.side import errors_of
    from fleetmetrics.evaluation.side_of_states import save

    errors = errors_of(sides)
    with _of_the_data():
        if args.save_state is not None:
            save(args.save_state, sides[0])
            if errors:
                errors.append(f"{args.save_state} holds the usable files: {len(sides[0].read.files):,}")
        if errors:
            raise DataError("\n".join(errors))
        result = result_of(sides, command=args.line, always_valid=args.always_valid)
    return _shown(args, result)


def _states(args: argparse.Namespace) -> _Outcome:
    from fleetmetrics.evaluation import compare, merge
    from fleetmetrics.evaluation.asked import check_always_valid

    both = args.command == "compare"
    if both:
        check_always_valid(args.always_valid)
    _check_outputs(args, args.states)
    with _of_the_data():
        result = compare(*args.states, always_valid=args.always_valid) if both else merge(args.states)
    _check_outputs(args, list(result.inputs()))
    with _of_the_data():
        if args.save_state is not None:
            result.save_state(args.save_state)
    return _shown(args, replace(result, command=args.line))


def _history(args: argparse.Namespace) -> _Outcome:
    from fleetmetrics.cli.terminal import show
    from fleetmetrics.evaluation.history import history

    _check_outputs(args, args.states)
    with _of_the_data():
        result = history(args.states)
    conditions, wrong = _checked(args.fail_if, result.latest)
    with _of_the_data():
        if args.html and wrong is None:
            result.to_html(args.html, args.lang)
        _print(lambda: show(result, result.to_dict(), args.form))
    return _decided(conditions, wrong)


def _consistency(args: argparse.Namespace) -> _Outcome:
    from fleetmetrics.cli.terminal import show
    from fleetmetrics.columns.reading import ON_FILES
    from fleetmetrics.evaluation.conditions import failed
    from fleetmetrics.evaluation.consistency_result import ConsistencyResult
    from fleetmetrics.evaluation.streams import consistency

    streams: dict[str, str] = {}
    for each in args.streams:
        name, sign, files = each.partition("=")
        if (name if sign else each) in streams:
            raise InvalidInputError(f"two streams are called {name!r}; write NAME=FILES with different names")
        streams[name if sign else each] = files if sign else each
    if len(streams) < 2:
        raise InvalidInputError("there is nothing to compare: name two or more streams, NAME=FILES")
    _check_outputs(args, list(streams.values()))
    failed(args.fail_if, *ConsistencyResult.empty(list(streams)))  # an invalid one is known before reading
    given = ("label", "by", "features", "tolerance", "skip_bad_rows", "where", "text", "columns", *ON_FILES)
    settings = {name: getattr(args, name) for name in given}
    result = consistency(
        streams,
        id=_in_each("--id", args.id, list(streams)),
        score=_in_each("--score", args.score, list(streams)),
        **settings,
    )
    held = result.failed(*args.fail_if)
    with _of_the_data():
        if args.html:
            result.to_html(args.html, args.lang)
        _print(lambda: show(result, result.to_dict(), args.form))
    return _Outcome(1 if held else 0, "\n".join(held))


def _in_each(option: str, text: str, streams: Sequence[str]) -> Any:
    """A column, or one for each stream, separated by commas."""
    columns = names_in(text)
    if len(columns) not in (1, len(streams)):
        raise InvalidInputError(
            f"{option} {text} names {len(columns)} columns; name one, or {len(streams)} in the order of the streams"
        )
    return dict(zip(streams, columns)) if columns[1:] else columns[0]


def _shown(args: argparse.Namespace, result: EvaluationResult) -> _Outcome:
    """Print and write a result, and check the conditions."""
    from fleetmetrics.cli.terminal import show

    found = result.to_dict()
    conditions, wrong = _checked(args.fail_if, found)
    with _of_the_data():
        if args.html and wrong is None:
            result.to_html(args.html, args.lang, args.fail_if)
        _print(lambda: show(result, found, args.form))
    return _decided(conditions, wrong)


def _checked(texts: Sequence[str], found: Any) -> tuple[list[Any], InvalidInputError | None]:
    """The outcome of the conditions, and an error in them, if any: the result is shown in any case."""
    from fleetmetrics.evaluation.conditions import checked

    try:
        return checked(texts, found), None
    except InvalidInputError as error:
        return [], error


def _decided(conditions: Sequence[Any], wrong: InvalidInputError | None) -> _Outcome:
    """The exit status by the conditions; raise an error in them."""
    if wrong is not None:
        raise wrong
    held = [each.said for each in conditions if each.fails]
    return _Outcome(1 if held else 0, "\n".join([*held, *(each.note for each in conditions if each.note)]))


def _printed(status: int) -> _Outcome:
    """The outcome of a command that argparse has answered."""
    _print(lambda: None)
    return _Outcome(status)


def _print(act: Callable[[], Any]) -> None:
    """Print; a closed pipe is not an error."""
    try:
        act()
        sys.stdout.flush()
    except OSError as error:
        with open(os.devnull, "w") as nothing, contextlib.suppress(OSError):  # the rest would fail again at exit
            os.dup2(nothing.fileno(), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise DataError(f"the standard output cannot be written: {error.strerror or error}") from None


def _doctor(args: argparse.Namespace) -> _Outcome:
    from fleetmetrics.doctor import doctor

    return _Outcome(int(not doctor()))


def _metrics(args: argparse.Namespace) -> _Outcome:
    from fleetmetrics.evaluation.named import described, listed

    lines = described(args.name) if args.name else listed()
    _print(lambda: print("\n".join(lines)))
    return _Outcome(0)
