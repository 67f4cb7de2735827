"""The command line: ``fleetmetrics evaluate | merge | compare | ...``; see docs/howto/evaluate_files.md."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, Iterator, NamedTuple, Sequence

from fleetmetrics.cli.parsers import parsed
from fleetmetrics.errors import ConditionError, DataError, FleetMetricsError, InvalidInputError, MissingLibraryError
from fleetmetrics.support.logs import without_progress
from fleetmetrics.support.optional import library
from fleetmetrics.support.vocabulary import as_options, names_in

if TYPE_CHECKING:
    from fleetmetrics.evaluation.arguments.options import Options
    from fleetmetrics.evaluation.history import HistoryResult
    from fleetmetrics.evaluation.result import EvaluationResult

__all__ = ["main"]


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
    if argv is not None and not (isinstance(argv, (list, tuple)) and all(isinstance(token, str) for token in argv)):
        raise InvalidInputError(f"argv must be a list of strings, not {argv!r:.80}")
    tokens = list(sys.argv[1:] if argv is None else argv)
    try:
        with as_options():
            outcome = _outcome(lambda: _run(tokens))
    except SystemExit as left:  # argparse has printed the help
        code = int(left.code or 0)
        outcome = _outcome(lambda: _printed(code))
    except KeyboardInterrupt:
        outcome = _Outcome(130, "interrupted")
    if outcome.text:
        from fleetmetrics.support.printed import clean

        with contextlib.suppress(OSError):  # the standard error is closed; the status stays
            for line in outcome.text.splitlines():
                print(f"fleetmetrics: {clean(line)}", file=sys.stderr)
    return outcome.status


def _run(tokens: Sequence[str]) -> _Outcome:
    """Run the command of these arguments."""
    run = {"evaluate": _evaluate, "merge": _states, "compare": _states, "metrics": _metrics}
    run.update(consistency=_consistency, history=_history, doctor=_doctor)
    args = parsed(tokens)
    args.line = shlex.join(["fleetmetrics", *tokens])
    with without_progress() if getattr(args, "quiet", False) else contextlib.nullcontext():
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
    from fleetmetrics.evaluation.output.output_paths import check_apart, check_outputs
    from fleetmetrics.files.found import look

    save_state = getattr(args, "save_state", None)
    if args.html is None and save_state is None:
        return
    paths: list[str] = []
    for files in inputs:
        with contextlib.suppress(DataError, MissingLibraryError):  # reading reports it
            paths += look(files).paths
    outputs = {"--html": args.html, "--save-state": save_state}
    check_outputs(outputs, paths)
    check_apart(outputs, (path for files in inputs for path in ([files] if isinstance(files, str) else files)))
    if args.html is not None:
        library("jinja2")


def _evaluate(args: argparse.Namespace) -> _Outcome:
    from fleetmetrics.comm import get_communicator
    from fleetmetrics.evaluation.arguments.options import Options
    from fleetmetrics.evaluation.request import Request, ids_that_count
    from fleetmetrics.evaluation.sides.side import Side
    from fleetmetrics.evaluation.sides.sides_of_workers import of_workers

    options = Options.among(vars(args))
    if args.by_day is not None:
        return _by_day(args, options)
    request = Request.of(args.files, options)
    request.check_conditions(args.fail_if)
    _check_outputs(args, [*request.data, *filter(None, [args.config])])
    channel = get_communicator()
    common = ids_that_count(lambda: request, args.files, options, channel)

    def make() -> tuple[list[list[str]], list[Side]]:
        with _of_the_data():
            return request.sides(channel, common, close=args.save_state is None)

    return _Outcome(*of_workers(channel, make, lambda sides: [*_outcome(lambda: _finish(args, sides))]))


def _by_day(args: argparse.Namespace, options: Options) -> _Outcome:
    """Evaluate each day, on all workers; the first one prints the history."""
    from fleetmetrics.comm import get_communicator
    from fleetmetrics.evaluation.arguments.options import OPTIONS
    from fleetmetrics.evaluation.history import check_by_day, history
    from fleetmetrics.evaluation.request import Request

    if args.save_state is not None:
        raise InvalidInputError("--save-state holds one result, and --by-day gives one for each day; leave one out")
    settings = {name: getattr(options, name) for name in OPTIONS}
    check_by_day(args.files, args.by_day, settings)
    request = Request.of(args.files, options)
    _check_outputs(args, [*request.data, *filter(None, [args.config])])
    with _of_the_data():
        result = history(args.files, by_day=args.by_day, **settings)
    return _shown_history(args, result, prints=get_communicator().rank == 0)


def _finish(args: argparse.Namespace, sides: Sequence[Any]) -> _Outcome:
    """Save the usable data of the new side, and show the result."""
    from fleetmetrics.evaluation.result import result_of
    from fleetmetrics.evaluation.sides.side import errors_of
    from fleetmetrics.evaluation.sides.side_of_states import save

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
    from fleetmetrics.evaluation.arguments.option_checks import check_always_valid

    compares = args.command == "compare"
    if compares:
        check_always_valid(args.always_valid)
    _check_outputs(args, args.states)
    with _of_the_data():
        result = compare(*args.states, always_valid=args.always_valid) if compares else merge(args.states)
    _check_outputs(args, list(result.inputs()))
    with _of_the_data():
        if args.save_state is not None:
            result.save_state(args.save_state)
    return _shown(args, replace(result, command=args.line))


def _history(args: argparse.Namespace) -> _Outcome:
    from fleetmetrics.evaluation.history import history

    _check_outputs(args, args.states)
    with _of_the_data():
        result = history(args.states)
    return _shown_history(args, result)


def _shown_history(args: argparse.Namespace, result: HistoryResult, prints: bool = True) -> _Outcome:
    """Print and write a history, and check the conditions on its last state."""
    from fleetmetrics.cli.terminal import show

    conditions, error = _checked(args.fail_if, result.latest)
    with _of_the_data():
        if args.html and error is None and prints:
            result.to_html(args.html, args.lang)
        if prints:
            _print(lambda: show(result, result.to_dict(), args.form))
    return _decided(conditions, error)


def _consistency(args: argparse.Namespace) -> _Outcome:
    from fleetmetrics.cli.terminal import show
    from fleetmetrics.evaluation.arguments.options import OF_FILES
    from fleetmetrics.evaluation.consistency.consistency_result import ConsistencyResult
    from fleetmetrics.evaluation.consistency.streams import consistency
    from fleetmetrics.evaluation.output.conditions import failed

    streams = _files_by_name(args.streams)
    _check_outputs(args, list(streams.values()))
    failed(args.fail_if, *ConsistencyResult.empty(list(streams)))  # an invalid one is known before reading
    arguments = ("label", "by", "features", "tolerance", "skip_bad_rows", *OF_FILES)
    settings = {name: getattr(args, name) for name in arguments}
    result = consistency(
        streams,
        join_on=_in_each("--join-on", args.join_on, list(streams)),
        score=_in_each("--score", args.score, list(streams)),
        **settings,
    )
    failures = result.failed(*args.fail_if)
    with _of_the_data():
        if args.html:
            result.to_html(args.html, args.lang)
        _print(lambda: show(result, result.to_dict(), args.form))
    return _Outcome(1 if failures else 0, "\n".join(failures))


def _files_by_name(texts: Sequence[str]) -> dict[str, str]:
    """The files of two or more streams; a stream without a name is called as its files."""
    streams: dict[str, str] = {}
    for text in texts:
        name, files = text.split("=", 1) if "=" in text else (text, text)
        if name in streams:
            raise InvalidInputError(f"two streams are called {name!r}; write NAME=FILES with different names")
        streams[name] = files
    if len(streams) < 2:
        raise InvalidInputError("there is nothing to compare: name two or more streams, NAME=FILES")
    return streams


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

    plain = result.to_dict()
    conditions, error = _checked(args.fail_if, plain)
    with _of_the_data():
        if args.html and error is None:
            result.to_html(args.html, args.lang, args.fail_if)
        lead = _verdict(plain, conditions, args.lang) if args.form == "Markdown" else ()
        _print(lambda: show(result, plain, args.form, lead))
    return _decided(conditions, error)


def _verdict(plain: Any, conditions: Sequence[Any], lang: str) -> Sequence[str]:
    """The first lines of the report, in Markdown too; of several tasks none, for each has its own."""
    from fleetmetrics.report.headline import headline
    from fleetmetrics.support.printed import clean
    from fleetmetrics.words import Words

    if plain.get("tasks"):
        return ()
    outcomes = [condition._asdict() for condition in conditions]
    return [clean(text) for text in headline({**plain, "conditions": outcomes}, Words(lang))[:2]]


def _checked(texts: Sequence[str], plain: Any) -> tuple[list[Any], InvalidInputError | None]:
    """The outcome of the conditions, and an error in them, if any: the result is shown in any case."""
    from fleetmetrics.evaluation.output.conditions import checked

    try:
        return checked(texts, plain), None
    except InvalidInputError as error:
        return [], error


def _decided(conditions: Sequence[Any], error: InvalidInputError | None) -> _Outcome:
    """The exit status by the conditions; raise an error in them."""
    if error is not None:
        raise error
    failures = [condition.said for condition in conditions if condition.fails]
    notes = [condition.note for condition in conditions if condition.note]
    return _Outcome(1 if failures else 0, "\n".join([*failures, *notes]))


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
    from fleetmetrics.evaluation.arguments.named import described, listed

    lines = described(args.name) if args.name else listed()
    _print(lambda: print("\n".join(lines)))
    return _Outcome(0)
