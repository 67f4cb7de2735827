"""An argument that a function does not have is refused by an error that names the one that was meant."""

from __future__ import annotations

import inspect
from typing import Any, Callable

import pytest

import fleetmetrics as fm
from fleetmetrics.cli import main

pytestmark = pytest.mark.numpy_only


@pytest.mark.parametrize(
    ("function", "name", "meant"),
    [
        (fm.evaluate, "labels", "label"),
        (fm.evaluate, "y_pred", "score"),
        (fm.history, "metric", "metrics"),
        (fm.evaluate, "draws", "replicates"),
        (fm.evaluate, "logits", "from_logits"),
        (fm.evaluate, "id", "join_on"),
        (fm.consistency, "id", "join_on"),
        (fm.consistency, "seperator", "separator"),  # codespell:ignore
    ],
)
def test_the_error_names_the_argument_that_was_meant(function: Callable[..., Any], name: str, meant: str) -> None:
    with pytest.raises(
        fm.UnknownArgumentError, match=rf"has no argument '{name}'; did you mean {meant}\? It takes \w+, "
    ):
        function({}, **{name: "x"})


FUNCTIONS = {
    name: function
    for name, function in ((name, getattr(fm, name)) for name in fm.__all__)
    if inspect.isfunction(function)
    and (parameters := inspect.signature(function).parameters.values())
    and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)  # settings of something else
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_public_function_knows_its_arguments(name: str) -> None:
    with pytest.raises(fm.UnknownArgumentError, match=f"^{name} has no argument 'tilm'"):
        FUNCTIONS[name](tilm=3)


@pytest.mark.parametrize("function", [fm.functional.sum, fm.functional.max, fm.plot.roc, fm.formulas.ratio])
def test_so_does_that_of_a_module(function: Callable[..., Any]) -> None:
    """``fm.sum(1, tilm=3)`` was an error of Python's."""
    with pytest.raises(fm.UnknownArgumentError, match=f"^{function.__name__} has no argument 'tilm'"):
        function(tilm=3)


def test_so_does_a_class_that_is_called_as_a_function() -> None:
    with pytest.raises(fm.UnknownArgumentError, match=r"^patch_fleet has no argument 'utli'; did you mean util\?"):
        fm.patch_fleet(utli=True)  # type: ignore[call-arg]


def test_so_does_the_method_of_a_class() -> None:
    with pytest.raises(fm.UnknownArgumentError, match=r"^Accuracy\.calculate has no argument 'k'; did you mean topk\?"):
        fm.evaluator.Accuracy.calculate([1], [1], k=1)  # type: ignore[call-arg]


def test_an_argument_without_a_likeness_is_refused_with_the_list_of_all() -> None:
    with pytest.raises(fm.UnknownArgumentError, match=r"no argument \'xyz\'\. It takes streams, join_on, score"):
        fm.consistency({}, xyz=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        ("consistency a b --id i --score p", "there is no option --id; did you mean --join-on?"),
        ("evaluate a --label y --score p --draws 5", "there is no option --draws; did you mean --replicates?"),
        ("evaluate a --label y --score p --logits", "there is no option --logits; did you mean --from-logits?"),
    ],
)
def test_so_is_an_option_of_the_command_line(command: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command.split()) == 2
    assert meant in capsys.readouterr().err


def test_so_is_an_option_in_a_file(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.toml").write_text("draws = 5\n")
    assert main(["evaluate", "a", "--config", str(tmp_path / "a.toml")]) == 2
    assert "there is no option 'draws'; did you mean replicates?" in capsys.readouterr().err
