"""The files of texts: both languages are complete, agree on what the program puts in, and hold nothing unused."""

from __future__ import annotations

import ast
import re
import string
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.report import PICTURES
from fleetmetrics.support.vocabulary import VERDICTS
from fleetmetrics.words import Words
from fleetmetrics.words.texts import LANGUAGES, texts_of

pytestmark = pytest.mark.numpy_only

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "fleetmetrics"
SOURCES = {path: path.read_text("utf-8") for kind in ("*.py", "*.html") for path in PACKAGE.rglob(kind)}
CHANGES = ("better", "worse", "higher", "lower", "nearer", "farther")
#: The sections whose keys are values of a result or names of charts: ``words(f"verdicts.{verdict}")``.
CHOSEN = {
    "sizes": {"rows", "positives", "negatives", "users", "queries"},
    "wholes": {"rows", "all rows", "weight", "denominator"},
    "verdicts": set(VERDICTS),
    "changes": {"chance", "same", "few"} | {f"{seems}{change}" for seems in ("", "seems ") for change in CHANGES},
    "kinds": {"binary", "multiclass", "multilabel", "regression", "ranking", "counterfactual"},
    "condition": {"lt", "le", "gt", "ge", "eq", "ne", "not_worse", "surely_not_worse", "not_significantly_worse"}
    | {"low", "high"},
    "found": {f"{whole}{verdict}" for whole in ("", "whole_") for verdict in ("worse", "different", "better")},
    "versus": {"mix", "within", "added"},
    "captions": set(PICTURES),
}
CHOSEN["against"] = CHOSEN["changes"] | {"undecided"}


def rooms(language: str) -> dict[str, dict[str, str]]:
    """The sections of reports and tables; the others are of metrics."""
    return {name: dict(section) for name, section in texts_of(language).items() if name.islower()}


def keys(language: str) -> dict[str, list[str]]:
    """The keys of each section, without those of a form for one."""
    return {name: [key for key in section if not key.endswith(".one")] for name, section in rooms(language).items()}


def placeholders(text: str) -> set[str]:
    """What the program replaces in a text, without its format: a date has several parts."""
    return {re.split(r"[.\[]", field)[0] for _, field, _, _ in string.Formatter().parse(text) if field is not None}


def test_both_languages_have_the_same_sections_and_keys_in_the_same_order() -> None:
    assert list(texts_of("en")) == list(texts_of("zh")), "write each section into fleetmetrics/words/en.ini and zh.ini"
    assert keys("en") == keys("zh"), "write each key into fleetmetrics/words/en.ini and zh.ini"


def test_a_metric_has_its_chinese_names_and_definition_and_nothing_else() -> None:
    wrong = [
        name for name, section in texts_of("zh").items() if name[0].isupper() and {*section} != {"names", "definition"}
    ]
    assert not wrong, f"{wrong} in fleetmetrics/words/zh.ini must have names and definition"


def test_the_placeholders_of_a_text_are_the_same_in_both_languages() -> None:
    english, chinese = rooms("en"), rooms("zh")
    differ = [
        f"{name}.{key}"
        for name, section in chinese.items()
        for key, text in section.items()
        if placeholders(text) != placeholders(english[name][key])
    ]
    assert not differ, f"the names in braces differ between en.ini and zh.ini: {differ}"
    for section in (*english.values(), *chinese.values()):
        for one in (key for key in section if key.endswith(".one")):
            assert placeholders(section[one]) <= placeholders(section[one[: -len(".one")]]), one


def test_no_text_is_empty_or_in_the_other_language() -> None:
    for language in LANGUAGES:
        for name, section in texts_of(language).items():
            assert all(section.values()), (language, name)
    letters = re.compile("[\u4e00-\u9fff]")
    assert not [name for name, section in texts_of("en").items() if letters.search("".join(section.values()))]
    exempt = {"numbers.span", "punctuation.names", "needs.size", "report.language"}
    untranslated = [
        f"{name}.{key}"
        for name, section in rooms("zh").items()
        for key, text in section.items()
        if re.search("[A-Za-z]{2}", re.sub("{.*?}", "", text)) and not letters.search(text)
    ]
    assert set(untranslated) <= exempt


def test_each_text_is_used_and_each_text_that_the_program_asks_for_is_there() -> None:
    """A key is a literal in the sources, or of a section whose keys are values of a result."""
    asked = {name for text in SOURCES.values() for name in re.findall(r"""["']([a-z]+\.[a-z_0-9]+)["']""", text)}
    held = {f"{name}.{key}" for name, section in keys("en").items() for key in section}
    chosen = {f"{name}.{key}" for name, names in CHOSEN.items() for key in names}
    columns = {f"streams.{name}" for name in ("files", "rows", "left_out", "skipped", "missing", "added")}
    charts = {name for name in held if name.startswith("charts.")}
    unused = held - asked - chosen - columns - charts
    assert not unused, f"nothing uses these texts of fleetmetrics/words; remove them: {sorted(unused)}"
    assert chosen | columns <= held, f"write these into fleetmetrics/words: {sorted((chosen | columns) - held)}"
    called = {
        call[1]
        for text in SOURCES.values()
        for call in re.finditer(r"""\b(?:t|words|self|Words\("en"\))\(\s*["']([a-z]+\.\w+)["']""", text)
    }
    assert len(called) > 100 and called <= held, f"write these into fleetmetrics/words: {sorted(called - held)}"


def test_what_the_program_puts_into_a_text_is_what_the_text_has() -> None:
    """The names in the call are those in braces, so that no call of a rare text fails."""
    english, checked = rooms("en"), 0
    for path, source in SOURCES.items():
        if path.suffix != ".py":
            continue
        for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
            first = call.args[0] if call.args else None
            name = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
            section, _, key = name.partition(".")
            if key not in english.get(section, {}) or any(word.arg is None for word in call.keywords):
                continue
            given, wanted = {word.arg for word in call.keywords}, placeholders(english[section][key])
            assert wanted == given or not given, f"{path.name}:{call.lineno}: {name} has {wanted}, not {given}"
            checked += 1
    assert checked > 40


def test_the_charts_texts_are_those_that_plots_write_in_english() -> None:
    sources = "".join(SOURCES.values())
    quoted = ('"{}"', "'{}'")
    unknown = [
        text
        for text in texts_of("en")["charts"].values()
        if not any(form.replace("{}", text) in sources for form in quoted)
    ]
    assert not unknown, f"no chart has {unknown}"
    assert Words("en").of_charts is None and (Words("zh").of_charts or {})["recall"] == "召回率"


def test_a_number_of_one_has_its_own_form_where_the_language_has_one() -> None:
    english, chinese = Words("en"), Words("zh")
    assert english("report.files", number=1) == "1 file" and english("report.files", number=2000) == "2,000 files"
    assert chinese("report.files", number=1) == "1 个文件"
    assert english.needed({"rows": 1, "users": 2}) == "needs 1 row and 2 users"
    assert english.needed({"apples": 1}) == "needs 1 apples"  # a result of another version


def test_spaces_at_the_ends_of_a_text_stay_and_a_long_text_is_one_line() -> None:
    assert Words("en")("needs.and") == " and " and Words("en")("tables.intervals", interval="x").startswith(" The x")
    assert not [
        text for section in texts_of("en").values() for text in section.values() if "\n" in text or "  " in text
    ]
    assert 'operating characteristic (ROC) curve", Radiology' in texts_of("en")["ExactAUC"]["source"]


@pytest.mark.parametrize("lang", ["de", None, ["en"]])
def test_a_language_without_texts_is_named(lang: object) -> None:
    with pytest.raises(InvalidInputError, match="lang must be 'en' or 'zh', not"):
        Words(lang)  # type: ignore[arg-type]


def in_zip(tmp_path: Path, suffixes: tuple[str, ...], code: str) -> str:
    """The output of a program that has the package from a zip of these files."""
    archive = tmp_path / "fleetmetrics.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in PACKAGE.rglob("*"):
            if path.suffix in suffixes:
                file.write(path, path.relative_to(ROOT))
    code = f"import sys; sys.path.insert(0, {str(archive)!r})\n{code}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


CODE = """
import fleetmetrics as fm
from fleetmetrics.words import Words
try:
    fm.roc_auc_score
except AttributeError as error:
    print(error)
try:
    print(Words("zh")("history.title"))
except fm.FleetMetricsError as error:
    print(type(error).__name__, error)
"""


def test_a_zip_with_all_files_has_the_texts_and_one_of_python_files_alone_says_what_is_missing(tmp_path: Path) -> None:
    name, title = in_zip(tmp_path, (".py", ".ini"), CODE).splitlines()
    assert name.endswith("; did you mean AUC?") and title == "历史"
    name, error = in_zip(tmp_path, (".py",), CODE).splitlines()
    assert name.startswith("module 'fleetmetrics' has no attribute 'roc_auc_score'")
    assert error.startswith("FileAccessError fleetmetrics/words/zh.ini is missing: copy or zip the package with all")


def test_a_metric_reads_no_texts() -> None:
    code = "import sys, fleetmetrics as fm; fm.AUC().add([0.5], [1]); print([m for m in sys.modules if 'words' in m])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
