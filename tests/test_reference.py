"""What the reference shows beside docstrings: formulas as mathematics, in every metric's entry, and links that lead."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import fleetmetrics as fm
from docs.scripts.mathematics import NotMathematics, is_mathematics, mathml
from fleetmetrics.words.catalogue import entries

pytestmark = pytest.mark.numpy_only

ROOT = Path(__file__).resolve().parent.parent
METRICS = [
    name for name in entries() if fm._modules[name].startswith(("fleetmetrics.metrics.", "fleetmetrics.vision."))
]


def formulas(docstring: str) -> str:
    """The paragraphs of a docstring that are headed Formula, with the indented ones below."""
    found = re.findall(r"^Formula:.*?(?=\n\n(?! )|\Z)", inspect.cleandoc(docstring), re.DOTALL | re.MULTILINE)
    return "\n\n".join(found)


def spans(text: str) -> list[str]:
    indented = [re.sub(r"^(k = .|else): ", "", line.strip()) for line in text.split("\n") if line.startswith("    ")]
    return [" ".join(code.split()) for code in re.findall(r"``(.+?)``", text, re.DOTALL)] + indented


@pytest.mark.parametrize("name", METRICS)
def test_a_metrics_entry_shows_its_formula_as_mathematics(name):
    text = formulas(getattr(fm, name).__doc__)
    for other in re.findall(r"`fleetmetrics\.formulas\.(\w+)`", text):
        text += "\n\n" + formulas(getattr(fm.formulas, other).__doc__)
    drawn = [mathml(each) for each in spans(text) if is_mathematics(each)]
    said = f"{name} shows no formula: write `Formula: ``sum(w * x)``` in its docstring, then run `make docs`"
    assert any("<mo" in each for each in drawn), said


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("sum(w * p) / sum(w * y)", "∑w⋅p∑w⋅y"),
        ("1 - FPR(t)", "1−FPR⁡(t)"),
        ("sum_k n_k * |p_k - y_k|", "∑knk⋅|pk−yk|"),
        ("|relevant among the first k| / R", "|relevant among the first k|R"),
        ("2 * (y - p)**2", "2⋅(y−p)2"),
        ("max { recall(t) : precision(t) >= min_precision }", "max{recall⁡(t):precision⁡(t)≥min precision}"),
        ("beta**2", "β2"),
    ],
)
def test_a_formula_is_read_as_it_is_meant(text, seen):
    found = ElementTree.fromstring(mathml(text))
    assert "".join(found.itertext()) == seen and found.get("alttext") == text


def test_everything_before_the_slash_is_the_numerator():
    above, below = ElementTree.fromstring(mathml("2 * a * b / (c + d)")).find(".//mfrac")
    assert "".join(above.itertext()) == "2⋅a⋅b" and "".join(below.itertext()) == "c+d"
    (sign, fraction) = ElementTree.fromstring(mathml("1 - sum_j(x[j] / n)"))[0][1:]
    assert sign.text == "−" and fraction.find(".//mfrac") is not None


def test_code_is_not_mathematics_and_unreadable_formulas_are_named():
    for code in ('curve="PR"', "add(prediction, label)", "[n, 2]", "zero_division=0", "compute"):
        assert not is_mathematics(code)
    for broken in ("sum(w * p", "a / ", "w $ p", "max {a : b"):
        with pytest.raises(NotMathematics, match=re.escape(repr(broken))):
            mathml(broken)


def test_nothing_in_a_formula_is_markdown():
    assert not set("*_`[]|") & set(re.sub(r"&#\d+;", "", mathml("a_i * [b > 0] * |c|")))


@pytest.mark.parametrize("name", sorted(entries()))
def test_a_metric_is_in_the_reference_under_its_public_name(name):
    pages = "".join(path.read_text("utf-8") for path in (ROOT / "docs" / "reference").rglob("*.md"))
    assert re.search(rf"^::: fleetmetrics\.{name}$", pages, re.MULTILINE), f"{name} is on no page: run `make names`"


#: The line of an error in a docstring: its classes, a colon, and when it is raised.
ERROR = re.compile(r"[A-Z][\w.]*(?:, [A-Z][\w.]*)*:(?: |$)")


def misread(docstring: str) -> list[str]:
    """The lines of `Raises:` that the reference mistakes for an error, or that hide a second one."""
    section = re.search(r"^Raises:\n((?: +.*\n?|\n)+)", inspect.cleandoc(docstring), re.MULTILINE)
    lines = section[1].splitlines() if section else []
    first = [line[4:] for line in lines if re.match(r" {4}\S", line)]
    hidden = [line for line in lines if re.search(r"[^\s,] [A-Z]\w*(?:Error|Exception): ", line)]
    return [line for line in first if not ERROR.match(line)] + hidden


def test_the_errors_in_docstrings_have_a_line_each():
    wrong = []
    for path in sorted((ROOT / "fleetmetrics").rglob("*.py")):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "Raises:" in text else ():
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                for line in misread(ast.get_docstring(node) or ""):
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}: {line.strip()}")
    assert not wrong, "begin a line for each error, and indent what goes on:\n" + "\n".join(wrong)
    assert misread("Do it.\n\nRaises:\n    AError: it is\n    gone.") == ["gone."]
    assert misread("Do it.\n\nRaises:\n    AError: it is. BError: gone.") == ["    AError: it is. BError: gone."]
    assert not misread("Do it.\n\nRaises:\n    AError, BError: it is\n        gone.\n\nExamples:\n    no error")


def test_an_entry_describes_every_argument_also_those_that_other_metrics_describe():
    from docs.scripts import _arguments

    for name in entries():
        kind = getattr(fm, name)
        page = _arguments.in_one_place(kind, inspect.getdoc(kind))
        described = [line.split(":")[0].strip() for line in page.splitlines() if line.startswith("    ")]
        assert not [each for each in inspect.signature(kind).parameters if each not in described], name
        assert "**settings" not in page and page.count("\nArgs:\n") <= 1, name
    f = _arguments.in_one_place(fm.FBeta, inspect.getdoc(fm.FBeta))
    assert '``"macro"`` (the default)' in f and "as for `Precision`" not in f and "size: the number of samples" in f
    bias = _arguments.in_one_place(fm.MeanBias, inspect.getdoc(fm.MeanBias))
    assert "``add(prediction, label)`` takes numbers of equal shape" in bias and bias.count("Examples:") == 1


def test_a_program_that_a_command_writes_has_the_colors_of_python():
    from pygments import lexers, token

    from docs.scripts import _programs

    _programs.use()
    text = "cat > train.py <<'END'\nimport numpy as np\nEND\npython train.py > 'a log'\n"
    tokens = list(lexers.get_lexer_by_name("bash").get_tokens(text))
    assert (token.Keyword.Namespace, "import") in tokens and (token.String.Single, "'a log'") in tokens
