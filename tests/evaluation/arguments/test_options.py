"""The arguments of `evaluate` are declared once: Python, the command line and saved states have the same ones."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from typing import Any, get_args

import pytest

import fleetmetrics as fm
from fleetmetrics.cli.parsers import command_line, parsed
from fleetmetrics.cli.values import OF_TYPES, VALUES
from fleetmetrics.evaluation.arguments.named import TASKS
from fleetmetrics.evaluation.arguments.options import OF_QUESTION, OPTIONS, Options
from fleetmetrics.evaluation.question.question import Question
from fleetmetrics.files.formats import FORMATS
from fleetmetrics.support.vocabulary import VERDICTS, Verdict
from fleetmetrics.words.texts import LANGUAGES, Language

pytestmark = pytest.mark.numpy_only
pytest.importorskip("pyarrow")

DECLARED = {field.name: field for field in dataclasses.fields(Options)}
LINE = ["evaluate", "a.csv", "--label", "y", "--score", "p"]


def test_python_takes_each_option_with_its_type_and_default_and_says_what_it_is():
    parameters = dict(inspect.signature(fm.evaluate).parameters)
    assert [*parameters] == ["data", *DECLARED, "communicator", "timeout"]
    for name, field in DECLARED.items():
        default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
        assert (parameters[name].annotation, parameters[name].default) == (field.type, default)
        assert f"\n    {name}: {OPTIONS[name].reference.split()[0]} " in inspect.cleandoc(fm.evaluate.__doc__ or "")


def test_the_command_line_takes_each_option_with_the_same_default():
    assert Options.among(vars(parsed(LINE))) == Options("y", "p")
    actions = {action.dest: action for action in command_line()[1]["evaluate"].complete()._actions}
    for name, option in OPTIONS.items():
        assert actions[name].option_strings[0] == f"--{name.replace('_', '-')}"
        kind = str(DECLARED[name].type).split(" | ")[0]
        assert option.takes in VALUES or kind in OF_TYPES or kind == "str" or kind.startswith("Literal[")


def test_the_choices_of_a_checker_are_those_of_the_command_line_and_of_the_package():
    known = {"task": TASKS, "join": ["inner"], "quote": ["none", '"', "'"], "format": FORMATS}
    given = {name: re.findall(r"""'(\w+|")'|"(')\"""", str(DECLARED[name].type)) for name in known}
    assert {name: {one or other for one, other in texts} for name, texts in given.items()} == {
        name: set(texts) for name, texts in known.items()
    }
    assert all(set(option.choices) <= set(known[name]) for name, option in OPTIONS.items() if option.choices)
    assert set(get_args(Verdict)) == set(VERDICTS) and set(get_args(Language)) == set(LANGUAGES)


QUESTIONS: dict[str, dict[str, Any]] = {
    "one label": {"label": "y", "score": "p", "weight": "w", "by": ["slot", "slot*day"], "ci": 0.9, "user": "u"},
    "several tasks": {"label": ("click", "like"), "score": ["p", "q"]},
    "classes by number": {"label": "y", "score": ["p0", "p1", "p2"], "task": "multiclass"},
    "classes by name": {"label": "y", "score": "p", "task": "multiclass", "classes": ("cat", "dog")},
    "another score": {"label": "y", "score": "p", "baseline_score": "q", "columns": ["y", "p", "q"], "null": "NA"},
    "joined": {"label": "y", "score": "p", "baseline": "old.csv", "join_on": "id", "join": "inner", "text": "id"},
}


@pytest.mark.parametrize("case", QUESTIONS)
def test_a_question_is_the_same_after_json(case):
    question = Question.of(Options(**QUESTIONS[case]))
    plain = question.plain()
    again = Question.of_plain(json.loads(json.dumps(plain)))
    assert again.plain() == plain and dataclasses.replace(again, classes=question.classes) == question


def test_json_has_what_the_answer_depends_on_under_the_names_of_earlier_versions():
    plain = Question.of(Options(**QUESTIONS["classes by name"])).plain()
    assert plain["columns"] == {"prediction": "p", "label": "y"}
    assert (plain["classes"], plain["class_names"], plain["header"], plain["tasks"]) == (2, ["cat", "dog"], None, [])
    by_role = {"label", "score", "weight", "user", "join_on"}
    assert {*plain} == {"class_names", "header", "compared", "same_rows", "tasks"} | {*OF_QUESTION} - by_role
    earlier = {"task": "binary", "columns": {"prediction": "p", "label": "y"}, "metrics": ["auc"], "ci": 0.9}
    assert Question.of_plain(earlier) == Question("y", "p", metrics=["auc"], ci=0.9)
    for name in ("task", "columns", "metrics"):
        with pytest.raises(KeyError, match=name):
            Question.of_plain({key: value for key, value in earlier.items() if key != name})
