"""The commands and their options; `fleetmetrics.evaluation.arguments.options` declares those of ``evaluate``."""

from __future__ import annotations

import argparse
import dataclasses
import re
from typing import Any, Callable, Iterable, Mapping, NamedTuple, NoReturn, Sequence

from fleetmetrics._version import __version__
from fleetmetrics.cli.values import OF_TYPES, SEPARATED, VALUES, columns_of_streams, names, options_meant
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.support.hints import did_you_mean, near

__all__ = ["COMMANDS", "Parser", "command_line", "parsed"]

#: What begins as an option does: neither a negative number nor the standard input.
_OPTION = re.compile("--.|-[A-Za-z]")
#: The types of options that take numbers, in words.
_NUMBERS = {int: "an integer", float: "a number"}

_STATUSES = """\
exit status: 0; 1: a --fail-if holds; 2: the command is invalid; 3: the data are invalid or unreadable;
130: interrupted by Ctrl-C
"""


class _Once(argparse._StoreAction):
    """Stores an option once, and rejects a second value: argparse would keep only the last one."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *value: Any) -> None:
        stored = vars(namespace).setdefault("stored", set())
        if self.option_strings and self.dest in stored:
            more = "; put commas between several values" if self.type in SEPARATED else ""
            raise InvalidInputError(f"{'/'.join(self.option_strings)} is given twice; give it once{more}")
        stored.add(self.dest)
        super().__call__(parser, namespace, *value)


class Parser(argparse.ArgumentParser):
    """A parser whose options are given in full, and once, except for those that collect values.

    A wrong command line is an `InvalidInputError` of one line, without the usage.

    Args:
        add_options: adds the options; not before they are needed, so that a command does not wait for those of others.
    """

    def __init__(self, *args: Any, add_options: Callable[[Parser], None] | None = None, **settings: Any) -> None:
        style = argparse.RawDescriptionHelpFormatter
        super().__init__(*args, **{"formatter_class": style, **settings, "allow_abbrev": False})
        self.register("action", None, _Once)
        self._add_options = add_options

    def complete(self) -> Parser:
        """The parser with its options."""
        add_options, self._add_options = self._add_options, None
        if add_options is not None:
            add_options(self)
        return self

    def format_help(self) -> str:
        """The help, which names the formats of files."""
        _name_formats(self.complete())
        return super().format_help()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Reject unknown options first: argparse would report those that they were meant to be as missing."""
        self.complete()
        for token in args:
            if token == "--" or (self._subparsers is not None and not token.startswith("-")):
                break  # files follow, or a command with options of its own
            name = token.partition("=")[0]
            if _OPTION.match(name) and " " not in name and name not in self._option_string_actions:
                options = [option[2:] for option in self._option_string_actions if option.startswith("--")]
                meant = [f"--{option}" for option in options_meant(name.lstrip("-"), options)]
                self._refuse(f"there is no option {name}", meant)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Raise argparse's error as one of ours."""
        if message.startswith("argument "):  # it says what is wrong with one
            raise InvalidInputError(message[len("argument ") :])
        raise InvalidInputError(message + self._help)

    def _refuse(self, message: str, meant: Iterable[str]) -> NoReturn:
        """Raise for an unknown name, with the known names that it may mean."""
        raise InvalidInputError(message + (did_you_mean(meant) or self._help))

    @property
    def _help(self) -> str:
        """The end of a message that cannot say what was meant."""
        return f"; `{self.prog} --help` lists what there is"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise for a value that is not one of the choices, as for an argument of a function."""
        from fleetmetrics.support.checks import choice_of  # takes NumPy

        known = list(action.choices or [value])
        if isinstance(action, argparse._SubParsersAction) and value not in known:
            self._refuse(f"there is no command {value!r}", near(value, known))
        if value not in known:
            choice_of("/".join(action.option_strings), value, known)

    def _get_value(self, action: argparse.Action, text: str) -> Any:
        """The value of a text; the error for one that is no number says so."""
        try:
            return super()._get_value(action, text)
        except argparse.ArgumentError:
            if action.type not in _NUMBERS:
                raise
            option = "/".join(action.option_strings)
            raise InvalidInputError(f"{option} must be {_NUMBERS[action.type]}, not {text!r:.80}") from None


def _name_formats(parser: Parser) -> None:
    """Name the formats of files in the help of a parser; they are imported only for this."""
    actions = [action for action in parser._actions if action.help and "{" in action.help]
    if actions:
        from fleetmetrics.files.formats import FORMATS, known_formats

        for action in actions:
            action.help = str(action.help).format(titles=known_formats(), formats=", ".join(FORMATS))


# -- the options of each command --------------------------------------------------------------------------


def _add_evaluate(parser: Parser) -> None:
    from fleetmetrics.evaluation.arguments.options import OPTIONS

    parser.add_argument("files", nargs="*", help="{titles}; folders, patterns, URLs (s3://...); -: standard input")
    _add_declared(parser, *OPTIONS)
    parser.add_argument(
        "--by-day", metavar="COLUMN", help="evaluate each day of this column, as a history: see the command history"
    )
    parser.add_argument(
        "--config", metavar="FILE", help='a TOML file of these options (label = "y"); the command line wins'
    )
    _add_save_state(parser)
    _add_report(parser)


def _add_merge(parser: Parser) -> None:
    parser.add_argument("states", nargs="+", metavar="STATE", help="files from --save-state")
    _add_save_state(parser)
    _add_report(parser)


def _add_compare(parser: Parser) -> None:
    parser.add_argument("states", nargs=2, metavar="STATE", help="files from --save-state, the new one first")
    parser.set_defaults(save_state=None)
    _add_declared(parser, "always_valid")
    _add_report(parser)


def _add_consistency(parser: Parser) -> None:
    from fleetmetrics.evaluation.arguments.options import OF_FILES

    parser.add_argument(
        "streams", nargs="+", metavar="NAME=FILES", help="two or more streams, in the order of the data flow"
    )
    column_of_each: Any = {"metavar": "COLUMN", "type": columns_of_streams, "required": True}
    parser.add_argument("--join-on", help="the id column; one per stream, separated by commas", **column_of_each)
    parser.add_argument("--score", help="the score column; one per stream, separated by commas", **column_of_each)
    parser.add_argument(
        "--label", metavar="COLUMN", help="the label column of the first stream: adds AUC and calibration"
    )
    several: Any = {"metavar": "COLUMNS", "type": names, "default": ()}
    parser.add_argument("--by", help="columns of the first stream to slice by, separated by commas", **several)
    parser.add_argument("--features", help="more numeric columns of every stream to compare", **several)
    parser.add_argument(
        "--tolerance", type=float, default=1e-6, metavar="1e-6", help="scores that differ by at most this are equal"
    )
    parser.add_argument("--skip-bad-rows", action="store_true", help="skip and count rows with nulls")
    _add_declared(parser, *OF_FILES)
    _add_page(parser)
    _add_conditions(parser, "'steps.serving.share>0'")


def _add_history(parser: Parser) -> None:
    parser.add_argument("states", nargs="+", metavar="STATE", help="files from --save-state")
    _add_page(parser)
    _add_conditions(parser, "'auc<0.77'", " for the last state; auc_change is from the one before")


def _add_metrics(parser: Parser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="show its formula, range and settings")


# -- what several commands have ---------------------------------------------------------------------------


def _add_declared(parser: Parser, *arguments: str) -> None:
    """Add options for arguments of `evaluate`, as they are declared."""
    from fleetmetrics.evaluation.arguments.options import Options

    declared = {field.name: field for field in dataclasses.fields(Options)}
    for name in arguments:
        option = declared[name].metadata["option"]
        settings = dict(VALUES.get(option.takes) or OF_TYPES.get(str(declared[name].type).split(" | ")[0], {}))
        if option.metavar:
            settings["metavar"] = option.metavar
        if option.choices:
            settings["choices"] = option.choices
        if declared[name].default is not dataclasses.MISSING:
            settings["default"] = declared[name].default
        spellings = [f"--{spelling.replace('_', '-')}" for spelling in (name, *option.others)]
        parser.add_argument(*spellings, help=option.help, **settings)


def _add_save_state(parser: Parser) -> None:
    parser.add_argument("--save-state", metavar="FILE", help="save the state for merge and compare")


def _add_report(parser: Parser) -> None:
    _add_forms(parser)
    _add_quiet(parser)
    parser.add_argument("--html", metavar="FILE", help="write a report that opens in any browser")
    _add_language(parser, "the report's language")
    _add_conditions(parser, "'auc<0.77'")


def _add_page(parser: Parser) -> None:
    _add_language(parser, "the page's language")
    _add_forms(parser)
    _add_quiet(parser)
    parser.add_argument("--html", metavar="FILE", help="write a page that opens in any browser")


def _add_quiet(parser: Parser) -> None:
    parser.add_argument("--quiet", action="store_true", help="do not show the progress of long runs")


def _add_language(parser: Parser, what: str) -> None:
    from fleetmetrics.words.texts import LANGUAGES

    parser.add_argument("--lang", choices=LANGUAGES, default="en", help=what)


def _add_forms(parser: Parser) -> None:
    """Add the options for output in other forms than text."""
    form = parser.add_mutually_exclusive_group()
    for name in ("JSON", "Markdown"):
        text = f"print the result as {name}"
        form.add_argument(f"--{name.lower()}", dest="form", action="store_const", const=name, help=text)


def _add_conditions(parser: Parser, example: str, more: str = "") -> None:
    text = f"exit with status 1 if the condition holds{more}"
    parser.add_argument("--fail-if", metavar=example, action="append", default=[], help=text)


# -- the commands -----------------------------------------------------------------------------------------


class Command(NamedTuple):
    """A command.

    Args:
        help: what it does.
        add_options: adds its options to a parser.
        examples: command lines, each with its end.
    """

    help: str
    add_options: Callable[[Parser], None] | None = None
    examples: str = ""


COMMANDS: Mapping[str, Command] = {
    "evaluate": Command(
        "evaluate files",
        _add_evaluate,
        "fleetmetrics evaluate preds --label y --score p --user uid --by slot --ci 0.95 --html report.html\n"
        "fleetmetrics evaluate new --baseline old --join-on id --label y --score p --fail-if 'auc_delta.low<0'\n",
    ),
    "merge": Command(
        "merge saved states, and print the result for all their data",
        _add_merge,
        "fleetmetrics merge monday.fms tuesday.fms --save-state days.fms --html days.html\n",
    ),
    "compare": Command(
        "compare two saved states, new and old, with deltas",
        _add_compare,
        "fleetmetrics compare new.fms old.fms --fail-if 'auc_delta<0.02'\n",
    ),
    "consistency": Command(
        "check whether streams, such as training and serving, give equal scores",
        _add_consistency,
        "fleetmetrics consistency training=train.parquet serving=logs.parquet --join-on id --score p\n",
    ),
    "history": Command(
        "show saved states in the given order, for example one per day",
        _add_history,
        "fleetmetrics history monday.fms tuesday.fms --fail-if 'auc_change.high<0'\n",
    ),
    "metrics": Command("list the metrics, or describe one: metrics auc", _add_metrics),
    "doctor": Command("check the environment, and whether the workers reach each other"),
}


def command_line() -> tuple[Parser, Mapping[str, Parser]]:
    """The parser of the whole command line, and those of its commands."""
    whole = Parser(
        "fleetmetrics",
        description="Compute metrics of predictions in files.",
        epilog=COMMANDS["evaluate"].examples + _STATUSES,
    )
    whole.add_argument("--version", action="version", version=f"fleetmetrics {__version__}")
    commands = whole.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        epilog = command.examples + _STATUSES if command.examples else None
        commands.add_parser(name, help=command.help, add_options=command.add_options, epilog=epilog)
    return whole, commands.choices


def parsed(tokens: Sequence[str]) -> argparse.Namespace:
    """The arguments of the command line and of its file of options; argparse reports errors."""
    whole, parsers = command_line()
    if tokens[:1] != ["evaluate"]:
        return whole.parse_args(tokens)
    parser, options = parsers["evaluate"].complete(), list(tokens[1:])
    args = parser.parse_intermixed_args(options)
    if args.config is not None:
        from fleetmetrics.cli.config import tokens_of

        args = parser.parse_intermixed_args([*tokens_of(args.config, parser, args), *options])
    missing = [] if args.files else ["files"]
    missing += [f"--{name}" for name in ("label", "score") if not getattr(args, name)]
    if missing:
        parser.error(f"the following arguments are required: {', '.join(missing)}")
    args.command = "evaluate"
    return args
