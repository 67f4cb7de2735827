"""The command line: ``fleetmetrics evaluate | merge | compare | metrics | doctor``; see docs/guide/from_files.md."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any, Callable, Sequence

from fleetmetrics._version import __version__
from fleetmetrics.cli.printed import clean, show
from fleetmetrics.errors import DataError, FleetMetricsError, InvalidInputError, MissingLibraryError
from fleetmetrics.optional import library

if TYPE_CHECKING:
    from fleetmetrics.cli.result import Side

__all__ = ["main"]

_MORE = """\
fleetmetrics evaluate preds --label y --score p --user uid --by slot --ci 0.95 --html report.html
fleetmetrics evaluate new --baseline old --join-on id --label y --score p --fail-if 'auc_delta.low<0'
exit status: 0; 1: a --fail-if holds; 2: the command is wrong; 3: the data are, or cannot be read
"""


def _parser() -> argparse.ArgumentParser:
    style: Any = {"formatter_class": argparse.RawDescriptionHelpFormatter, "epilog": _MORE}
    parser = argparse.ArgumentParser("fleetmetrics", description="Metrics of predictions in files.", **style)
    parser.add_argument("--version", action="version", version=f"fleetmetrics {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    one = commands.add_parser("evaluate", help="metrics of files", **style)
    column: Any = {"metavar": "COLUMN"}
    columns: Any = {"metavar": "COLUMN", "type": lambda text: text.split(",") if "," in text else text}
    one.add_argument("files", nargs="+", help="Parquet, CSV, JSON Lines, NPZ, Arrow; folders, patterns; -: stdin")
    one.add_argument("--label", required=True, help="what is true; with commas, of each label", **columns)
    one.add_argument("--score", required=True, help="the prediction; with commas, that of each class", **columns)
    one.add_argument("--task", choices=["binary", "multiclass", "regression", "ranking"], default="binary")
    one.add_argument("--classes", type=int, metavar="N", help="of --task multiclass, where --score is one column")
    one.add_argument("--weight", help="how much a row counts", **column)
    one.add_argument("--user", "--query", help="the user or query, for GAUC, NDCG and others", **column)
    one.add_argument("--by", metavar="COLUMNS", default="", help="slices by columns, those that matter most first")
    one.add_argument("--metrics", metavar="NAMES", help="with commas: name, name@k, name:setting=value, key=name")
    one.add_argument("--ci", type=float, metavar="0.95", help="intervals by bootstrap, of users where --user is given")
    one.add_argument("--baseline", metavar="FILES", action="append", help="what to compare with: deltas, new less old")
    one.add_argument("--join-on", help="the id of a row in both: deltas with intervals, row by row", **column)
    one.add_argument("--skip-bad-rows", action="store_true", help="leave out and count rows with nulls or wrong values")
    one.add_argument("--processes", type=int, metavar="N", help="that share the files; as a rule one for each core")
    some = commands.add_parser("merge", help="saved states: what evaluate would print of all data", **style)
    some.add_argument("states", nargs="+", metavar="STATE")
    two = commands.add_parser("compare", help="two saved states, the new one and the old one, with deltas", **style)
    two.add_argument("states", nargs=2, metavar="STATE")
    two.set_defaults(save_state=None)
    for each in (one, some):
        each.add_argument("--save-state", metavar="FILE", help="write what merge and compare read")
    for each in (one, some, two):
        form = each.add_mutually_exclusive_group()
        for name in ("JSON", "Markdown"):
            text = f"print the result as {name}"
            form.add_argument(f"--{name.lower()}", dest="form", action="store_const", const=name, help=text)
        each.add_argument("--html", metavar="FILE", help="write a report that opens in any browser")
        each.add_argument("--lang", choices=["en", "zh"], default="en", help="the report's language")
        each.add_argument(
            "--fail-if", metavar="'auc<0.77'", action="append", default=[], help="exit with 1 if it holds"
        )
    commands.add_parser("metrics", help="list the metrics")
    commands.add_parser("doctor", help="whether workers reach each other, and what else may be wrong")
    return parser


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
        raise InvalidInputError(f"argv must be a list of texts, not {argv!r:.80}")
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        args = _parser().parse_args(given)
        args.line, args.wrong = shlex.join(["fleetmetrics", *given]), 2
        run = {"evaluate": _evaluate, "merge": _states, "compare": _states}.get(args.command, _others)
        status, text = _outcome(args, lambda: run(args))
    except SystemExit as left:  # argparse has said what is wrong
        status, text = int(left.code or 0), ""
        _print(str)
    except KeyboardInterrupt:
        status, text = 130, "interrupted"
    for line in text.splitlines():
        print(f"fleetmetrics: {clean(line)}", file=sys.stderr)
    return status


def _outcome(args: argparse.Namespace, act: Callable[[], tuple[int, str]]) -> tuple[int, str]:
    """The status and the message of an act that returns them, or raises."""
    try:
        return act()
    except (InvalidInputError, MissingLibraryError) as error:
        return 3 if isinstance(error, DataError) else args.wrong, str(error)
    except (FleetMetricsError, OSError) as error:
        return 3, str(error)
    except Exception as error:
        if os.environ.get("FLEETMETRICS_LOG"):
            raise
        return 3, f"unexpected {type(error).__name__}: {error} (FLEETMETRICS_LOG=info shows where)"


def _check_outputs(args: argparse.Namespace) -> None:
    """Raise before anything is read if a file could not be written after."""
    for path in filter(None, (args.html, args.save_state)):
        if os.path.isdir(path) or not os.access(os.path.dirname(path) or ".", os.W_OK):
            raise InvalidInputError(f"{path} cannot be written: it lies in no folder in which you may write a file")
    if args.html:
        library("jinja2", "report")
        library("matplotlib", "report")


def _evaluate(args: argparse.Namespace) -> tuple[int, str]:
    from fleetmetrics.cli.choices import asked_of
    from fleetmetrics.cli.result import failed, of_files, of_workers, result_of
    from fleetmetrics.comm import get_communicator
    from fleetmetrics.files import find

    asked = asked_of(args)
    empty = of_files([], asked)
    if args.fail_if:  # known before anything is read, if it is wrong
        failed(args.fail_if, result_of(empty, empty if args.baseline else None), early=True)
    _check_outputs(args)
    channel = get_communicator()
    paths = [find(each) for each in (args.files, args.baseline) if each]
    alone = channel.world_size == 1
    if not alone and ["-"] in paths:
        raise InvalidInputError("several workers cannot share the standard input; give files")
    args.wrong = 3  # from here on it is the data
    share = slice(channel.rank, None, channel.world_size)
    settings = {"skip_bad_rows": args.skip_bad_rows, "processes": args.processes if alone else 1}
    sides = [of_files(each[share], asked, alone and not args.save_state, **settings) for each in paths]
    if alone:
        return _finish(args, sides)
    return of_workers(channel, sides, paths, lambda sides: _outcome(args, lambda: _finish(args, sides)))


def _states(args: argparse.Namespace) -> tuple[int, str]:
    from fleetmetrics.cli.result import load

    _check_outputs(args)
    args.wrong = 3
    groups = [args.states] if args.command == "merge" else [[path] for path in args.states]
    sides, said = zip(*(load(paths, args.states[0]) for paths in groups))
    return _finish(args, sides, said[0])


def _finish(args: argparse.Namespace, sides: Sequence[Side], said: Sequence[str] = ()) -> tuple[int, str]:
    """Save, print, and look at the conditions."""
    from fleetmetrics.cli.result import check_joined, failed, result_of, save
    from fleetmetrics.serial.container import whole_file

    new, old = sides[0], sides[1] if sides[1:] else None
    errors = [side.error for side in sides if side.error]
    if args.save_state:
        save(args.save_state, new)
        if errors:
            errors.append(f"{args.save_state} holds what could be used: {len(new.read.files):,} files")
    if errors:
        raise DataError("\n".join(errors))
    if old is not None and "id" in new.asked["columns"]:
        check_joined(new, old)
    result = result_of(new, old, args.line, said)
    args.wrong = 2
    held = failed(args.fail_if, result)
    args.wrong = 3
    if args.html:
        from fleetmetrics.report import html

        page = html(result, new.metrics, None if old is None else old.metrics, args.lang)
        with whole_file(args.html) as file:
            file.write(page.encode("utf-8"))
    _print(lambda: show(result, args.form))
    return (1 if held else 0), "\n".join(held)


def _print(act: Callable[[], Any]) -> None:
    """Print; if nobody listens any more, that is no error."""
    try:
        act()
        sys.stdout.flush()
    except BrokenPipeError:
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), sys.stdout.fileno())


def _others(args: argparse.Namespace) -> tuple[int, str]:
    if args.command == "doctor":
        from fleetmetrics.doctor import doctor

        return int(not doctor()), ""
    from fleetmetrics.cli.choices import listed

    _print(lambda: print("\n".join(listed())))
    return 0, ""
