"""The exit status of each kind of error: 2 if the command is invalid, 3 if the data are, and no error is raw."""

from __future__ import annotations

import pytest

from fleetmetrics.cli import _of_the_data, _Outcome, _outcome, main
from fleetmetrics.cli.parsers import COMMANDS as COMMANDS_BY_NAME
from fleetmetrics.cli.parsers import command_line, parsed
from fleetmetrics.errors import (
    CorruptFileError,
    DataError,
    InvalidInputError,
    MissingLibraryError,
    StateNotFoundError,
)

pytestmark = pytest.mark.numpy_only


def raised(error):
    def act(*given, **settings):
        raise error

    return act


def of_the_data(error):
    def act():
        with _of_the_data():
            raise error

    return act


@pytest.mark.parametrize(
    "error, command, data",
    [
        (InvalidInputError("no"), 2, 3),
        (MissingLibraryError("no"), 2, 3),
        (DataError("no"), 3, 3),
        (CorruptFileError("no"), 3, 3),
        (OSError("no"), 3, 3),
    ],
)
def test_an_error_is_the_commands_until_the_data_are_read(error, command, data):
    assert _outcome(raised(error)) == _Outcome(command, "no")
    assert _outcome(of_the_data(error)) == _Outcome(data, "no")
    assert _outcome(lambda: _Outcome(1, "held")) == _Outcome(1, "held")


def test_an_unexpected_error_is_status_3_with_its_traceback_where_a_log_was_asked_for(monkeypatch, capsys):
    monkeypatch.delenv("FLEETMETRICS_LOG", raising=False)
    status, text = _outcome(raised(ZeroDivisionError("no")))
    assert status == 3 and text.startswith("unexpected ZeroDivisionError: no (FLEETMETRICS_LOG=info")
    assert not capsys.readouterr().err
    monkeypatch.setenv("FLEETMETRICS_LOG", "info")
    assert _outcome(raised(ZeroDivisionError("no"))) == (3, "unexpected ZeroDivisionError: no")
    assert "Traceback" in capsys.readouterr().err


COMMANDS = [
    ["evaluate", "a", "--label", "y", "--score", "p", "--config", "c.toml"],
    ["merge", "a"],
    ["compare", "a", "b"],
    ["history", "a"],
    ["consistency", "a", "b", "--join-on", "i", "--score", "p"],
    ["metrics"],
    ["doctor"],
]


@pytest.mark.parametrize("log", ["", "info"])
@pytest.mark.parametrize(
    "error, status", [(MissingLibraryError("no"), 2), (StateNotFoundError("no"), 3), (KeyError("no"), 3)], ids=str
)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_error_of_any_command_is_status_1_which_is_the_answer_of_a_gate(command, error, status, log, monkeypatch):
    monkeypatch.setenv("FLEETMETRICS_LOG", log)
    monkeypatch.setattr("fleetmetrics.cli.parsed", raised(error))
    assert main(command) == status
    monkeypatch.undo()
    for name in ("_evaluate", "_states", "_history", "_consistency", "_metrics", "_doctor"):
        monkeypatch.setattr(f"fleetmetrics.cli.{name}", raised(error))
    assert main([each for each in command if not each.startswith(("--config", "c.toml"))]) == status


def test_a_file_of_options_without_a_library_for_toml_is_status_2(monkeypatch, capsys, tmp_path):
    (tmp_path / "c.toml").write_text('label = "y"\n')
    monkeypatch.setattr("fleetmetrics.cli.config.library", raised(MissingLibraryError("tomli cannot be imported")))
    assert main(["evaluate", "a", "--score", "p", "--config", str(tmp_path / "c.toml"), "--fail-if", "auc<0.1"]) == 2
    assert "c.toml: tomli cannot be imported" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line, told",
    [
        ("evaluate a --lab y --score p", "there is no option --lab; did you mean --label?"),
        ("evaluate a --label=y --scor=p", "there is no option --scor; did you mean --score?"),
        ("evaluate a --label y --score p --skip-bad", "did you mean --skip-bad-rows or --skip-bad-files?"),
        ("evaluate a --label y --score p --rank_by auc", "there is no option --rank_by; did you mean --rank-by?"),
        ("merge a --save b", "there is no option --save; did you mean --save-state?"),
        ("compare a b --fail auc<0", "there is no option --fail; did you mean --fail-if?"),
        ("consistency a b --ids i --score p", "there is no option --ids; did you mean --join-on?"),
        ("history a --markdwn", "there is no option --markdwn; did you mean --markdown?"),
        ("doctor --xyzzy", "there is no option --xyzzy; `fleetmetrics doctor --help` lists what there is\n"),
        ("metrics --jso", "there is no option --jso; `fleetmetrics metrics --help` lists what there is\n"),
        ("doctor -x", "there is no option -x; `fleetmetrics doctor --help` lists"),
        ("--versio", "there is no option --versio; did you mean --version?"),
    ],
)
def test_options_are_given_in_full_and_a_near_one_is_named(line, told, capsys):
    assert main(line.split()) == 2
    assert told in capsys.readouterr().err


#: What a command takes at least.
LEAST = {command[0]: command[1:] for command in COMMANDS}


@pytest.mark.parametrize("name", COMMANDS_BY_NAME)
def test_each_misspelt_option_and_bad_value_costs_one_line_that_names_the_option(name, capsys):
    parser = command_line()[1][name].complete()
    for action in parser._actions:
        for option in (option for option in action.option_strings if option.startswith("--")):
            assert main([name, *LEAST[name], f"{option}x"]) == 2
            (line,) = capsys.readouterr().err.splitlines()
            assert line == f"fleetmetrics: there is no option {option}x; did you mean {option}?", line
        if action.type in (int, float) or (action.choices and action.option_strings):
            option = action.option_strings[0]
            assert main([name, *LEAST[name], option, "zz"]) == 2
            (line,) = capsys.readouterr().err.splitlines()
            assert line.startswith(f"fleetmetrics: {option} must be ") and line.endswith(", not 'zz'"), line


@pytest.mark.parametrize(
    "line, told",
    [
        ("", "the following arguments are required: COMMAND; `fleetmetrics --help` lists what there is"),
        ("evalute a", "there is no command 'evalute'; did you mean evaluate?"),  # codespell:ignore
        ("zz", "there is no command 'zz'; `fleetmetrics --help` lists what there is"),
        ("evaluate a", "the following arguments are required: --label, --score; `fleetmetrics evaluate --help` lists"),
        ("evaluate a --label y --score p --label y", "--label is given twice; give it once; put commas between"),
        ("evaluate a --label y --score p --task binry", "counterfactual, not 'binry'; did you mean 'binary'?"),
        ("evaluate a --label y --score p --metrics aucc", "--metrics: there is no metric 'aucc'; did you mean auc?"),
        ("evaluate a --label y --score", "--score: expected one argument"),
        ("compare a", "the following arguments are required: STATE"),
        ("doctor a", "unrecognized arguments: a; `fleetmetrics --help` lists what there is"),
        ("metrics auk", "there is no metric 'auk'; did you mean auc?"),
    ],
)
def test_a_wrong_command_costs_one_line_without_the_usage(line, told, capsys):
    assert main(line.split()) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("fleetmetrics: ") and told in said


@pytest.mark.parametrize("name", ["", *COMMANDS_BY_NAME])
def test_help_is_no_failure(name, capsys):
    assert main([*name.split(), "--help"]) == 0
    assert f"usage: fleetmetrics {name}" in capsys.readouterr().out


def test_values_and_files_may_look_like_options():
    found = parsed(["evaluate", "--label=--y", "--score", "p", "--fail-if=auc < --1", "-"])
    assert (found.label, found.fail_if, found.files) == ("--y", ["auc < --1"], ["-"])
