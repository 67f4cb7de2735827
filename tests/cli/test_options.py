"""Options for data as people have them: what each gives, in the shell and from Python, and what is refused."""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.cli import main
from fleetmetrics.cli.parsers import parsed
from fleetmetrics.evaluation.arguments.named import kinds
from fleetmetrics.files import one_file
from fleetmetrics.words.catalogue import entries
from tests.fakes import together

pytestmark = [pytest.mark.numpy_only, pytest.mark.filterwarnings("ignore::fleetmetrics.errors.UndefinedMetricWarning")]
pytest.importorskip("pyarrow")

ROWS = 600
COLUMNS = ["--label", "y", "--score", "p"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    p = rng.random(ROWS).round(3)
    return {
        "y": (rng.random(ROWS) < p).astype(int),
        "p": p,
        "zip": rng.choice(["007", "7", "01"], ROWS),
        "day": rng.choice(["mon", "tue"], ROWS),
        "uid": rng.integers(0, 50, ROWS),
    }


@pytest.fixture
def there(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save("a.csv", data)
    return tmp_path


def save(path, table, header=True, sign=","):
    lines = [sign.join(f'"{name}"' for name in table)] if header else []
    lines += [sign.join(map(str, row)) for row in zip(*table.values())]
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")


@pytest.fixture
def run(there, capsys):
    def call(*args, status=0, files="a.csv"):
        got = main(["evaluate", *([files] if files else []), *map(str, args)])
        out, err = capsys.readouterr()
        assert got == status, err
        return json.loads(out) if "--json" in args and status in (0, 1) else err if status else out

    return call


def plain(found):
    return {key: value for key, value in found.items() if key not in ("asked", "data", "baseline")}


SAME = {
    "positive": (["--positive", "click"], {"positive": "click"}, lambda t: {**t, "y": np.where(t["y"], "click", "no")}),
    "minus 1": (["--positive", "1"], {"positive": "1"}, lambda t: {**t, "y": 2 * t["y"] - 1}),
    "percent": (["--scale", "0.5"], {"scale": 0.5}, lambda t: {**t, "p": 2 * t["p"]}),
}


@pytest.mark.parametrize("kind", SAME)
def test_labels_and_scores_of_another_kind_give_the_same_result_in_the_shell_and_from_python(run, data, kind):
    options, given, made = SAME[kind]
    save("b.csv", made(data))
    wanted = run(*COLUMNS, "--by", "day", "--json")
    found = run(*COLUMNS, "--by", "day", "--json", *options, files="b.csv")
    assert plain(found) == plain(wanted)
    for each in ("b.csv", made(data)):
        asked = fm.evaluate(each, label="y", score="p", by="day", **given)
        assert plain(asked.to_dict()) == plain(wanted)


def test_logits_are_those_of_the_probabilities(run, data):
    p = np.clip(data["p"], 0.001, 0.999)
    save("b.csv", {**data, "p": np.log(p / (1 - p))})
    found = run(*COLUMNS, "--from-logits", "--metrics", "log_loss", "--json", files="b.csv")
    assert found["log_loss"] == pytest.approx(
        fm.evaluate({**data, "p": p}, label="y", score="p", metrics="log_loss")["log_loss"], rel=1e-13
    )


def test_classes_by_name(run, data):
    names = np.array(["bird", "cat", "dog"])
    rng = np.random.default_rng(1)
    scores = rng.dirichlet([1, 1, 1], ROWS)
    label = rng.integers(0, 3, ROWS)
    table = {f"p{place}": scores[:, place] for place in range(3)}
    save("b.csv", {"y": names[label], **table})
    options = ["--label", "y", "--score", "p0,p1,p2", "--task", "multiclass", "--metrics", "accuracy", "--json"]
    found = run(*options, "--classes", "bird,cat,dog", files="b.csv")
    assert found["accuracy"] == np.mean(scores.argmax(1) == label)
    said = run(*options, "--classes", "bird,cat,cow", files="b.csv", status=3)
    assert "b.csv: row" in said and "'dog' where the label must be one of --classes, bird, cat, cow" in said
    said = run(*options, "--classes", "bird,cat", files="b.csv", status=2)
    assert "--classes must name the classes of --task multiclass, one per column of --score" in said


def test_texts_stay_texts_rows_are_chosen_and_names_are_given(run, data):
    plainly = run(*COLUMNS, "--by", "zip", "--json")
    assert {each["key"] for each in plainly["slices"]["zip"]} == {1, 7}
    found = run(*COLUMNS, "--by", "zip", "--text", "zip", "--json")
    assert {each["key"] for each in found["slices"]["zip"]} == {"007", "7", "01"}
    save("b.tsv", data, header=False, sign="\t")
    options = [*COLUMNS, "--where", "day = 'mon' and p < 0.9", "--by", "zip", "--text", "zip", "--json"]
    one = run(*options)
    two = run(*options, "--columns", "y,p,zip,day,uid", files="b.tsv")
    kept = (data["day"] == "mon") & (data["p"] < 0.9)
    assert plain(one) == plain(two) and one["rows"] == kept.sum()
    assert one["data"]["left_out"] == ROWS - kept.sum() == two["data"]["left_out"]
    assert f"{ROWS - kept.sum():,} more left out by the condition" in run(*options[:-1])
    frame = fm.evaluate(data, label="y", score="p", by="zip", where="day = 'mon' and p < 0.9")
    assert frame["auc"] == one["auc"] and frame.new.data.left_out == ROWS - kept.sum()


def test_the_names_of_the_baseline_hold_in_its_condition_and_among_its_texts_too(there, data):
    new = {**data, "day": np.arange(len(data["y"])) % 3}
    old = {"clicked": new["y"], "p": new["p"], "the day": new["day"], "code": new["zip"]}
    save("new.csv", new), save("old.csv", old)
    names = {"y": "clicked", "day": "the day", "zip": "code"}
    where, asked = "day < 2 and y in (0, 1)", {"label": "y", "score": "p", "by": "zip", "text": "zip", "metrics": "auc"}
    found = fm.evaluate("new.csv", baseline="old.csv", baseline_columns=names, where=where, **asked).to_dict()
    for side in (found, found["baseline"]):
        assert (side["auc"], side["data"]["left_out"]) == (found["auc"], (new["day"] == 2).sum())
    assert {each["delta"] for each in found["versus"]["zip"]["slices"]} <= {0.0, None}
    with pytest.raises(fm.InvalidInputError, match="there is no column 'd' here; there are p, y, zip, day"):
        fm.evaluate("new.csv", baseline="old.csv", baseline_columns={"d": "day"}, where="day < 2", **asked)


def test_a_state_is_of_the_rows_that_count_and_merges_with_those_of_the_same_question(run, capsys):
    for day in ("mon", "tue"):
        run(*COLUMNS, "--where", f"day = '{day}'", "--save-state", f"{day}.fms")
    assert main(["merge", "mon.fms", "tue.fms"]) == 3
    assert "where" in capsys.readouterr().err


def test_two_workers_share_files_with_names_and_a_condition(there, data):
    for place in range(3):
        save(f"{place}.tsv", {name: each[place::3] for name, each in data.items()}, header=False, sign="\t")
    given = {"label": "y", "score": "p", "where": "day = 'mon'", "columns": list(data), "text": "zip", "by": "zip"}
    paths = [f"{place}.tsv" for place in range(3)]
    alone = fm.evaluate(paths, **given)
    for each in together([lambda channel: fm.evaluate(paths, **given, communicator=channel)] * 2):
        assert plain(each.to_dict()) == plain(alone.to_dict())
        assert each.new.data.left_out == alone.new.data.left_out == (data["day"] == "tue").sum()


@pytest.mark.parametrize("name", ["a,b", "a.b", "a*b", 'a"b'])
def test_names_of_columns_are_quoted(run, data, name):
    quoted = '"{}"'.format(name.replace('"', '""'))
    save("b.csv", {**data, name.replace('"', '""'): data["p"]})
    table = {"y": data["y"], name: data["p"], f"{name}k": data["day"]}
    found = fm.evaluate(table, label="y", score=name, by=f'"{name}k"' if "*" in name else f"{name}k")
    assert found["auc"] == run("--label", "y", "--score", quoted, "--json", files="b.csv")["auc"]
    ((_, slices),) = found.slices.items()
    assert {each.key for each in slices} == {"mon", "tue"}


def test_metrics_without_a_formula_use_a_thousand_draws_or_the_given_number(run, data):
    asked = [*COLUMNS, "--ci", "0.9", "--metrics", "matthews_correlation", "--json"]
    for draws, found in ((1000, run(*asked)), (50, run(*asked, "--replicates", 50))):
        metric = fm.Bootstrap(fm.MatthewsCorrelation(), draws, confidence=0.9)
        metric.add(data["p"], data["y"])
        wanted = metric.compute()
        ends = {"low": wanted.low, "high": wanted.high}
        assert found["matthews_correlation_interval"] == pytest.approx(ends, rel=1e-12)
    assert "--replicates must be" in run(*COLUMNS, "--ci", "0.9", "--replicates", 1, status=2)


# -- bad input ---------------------------------------------------------------------------------------------------

REFUSED = {
    "where cannot be read": (["--where", "day >"], 2, "--where 'day >': at its end it should have a number"),
    "where names no column": (["--where", "dya = 'mon'"], 3, "a.csv: no column 'dya' for --where; did you mean 'day'?"),
    "where of no row": (["--where", "day = 'x'", "--by", "zip"], 3, "no rows to evaluate in 1 file: 600 rows left out"),
    "no such label": (["--positive", "clk"], 3, "--positive 'clk': no row has that label in column 'y'; there are "),
    "positive of a number": (
        ["--positive", "1", "--task", "regression"],
        2,
        "--positive belongs to --task binary",
    ),
    "logits of a number": (["--from-logits", "--task", "regression"], 2, "--from-logits is for probabilities"),
    "scale 0": (["--scale", "0"], 2, "--scale must be a finite number above 0"),
    "text of a score": (["--text", "p", "--by", "day"], 2, "--text 'p' is not one of the columns of keys, 'day'"),
    "too few names": (["--columns", "y,p"], 3, "a.csv: line 1 has 5 values; --columns names 2"),
    "header as data": (["--columns", "y,p,a,b,c"], 3, "a.csv: row 0, column 'p': 'p' is not a number"),
    "a name twice": (["--columns", "y,p,a,b,p"], 2, "--columns has 'p' 2 times"),
    "no processes": (["--processes", "0"], 2, "--processes must be an integer of at least 1, not 0"),
    "renamed to nothing": (
        ["--baseline", "a.csv", "--baseline-columns", "y"],
        2,
        "'y' must be HERE=THERE, such as y=label",
    ),
    "renamed twice": (["--baseline", "a.csv", "--baseline-columns", "y=a,y=b"], 2, "'y=a,y=b' must be HERE=THERE"),
    "no file": (["", "--by", "day"], 2, "FILES must be a path, a string or an os.PathLike, not ''"),
    "classes of two": (["--classes", "3"], 2, "--classes is for --task multiclass, not binary"),
    "no url": (["--baseline", "nothing://a/b.csv"], 3, "nothing://a/: "),
}


def test_where_no_row_is_positive_only_a_label_that_was_named_is_an_error(run, there, data):
    save("none.csv", {**data, "y": np.zeros(ROWS, int)})
    found = run(*COLUMNS, "--metrics", "auc,log_loss", "--json", files="none.csv")
    assert found["auc"] is None and found["log_loss"] > 0
    told = run(*COLUMNS, "--positive", "1", "--baseline", "none.csv", status=3)
    assert "baseline: --positive '1': no row has that label in column 'y'" in told


def test_the_thread_that_reads_ahead_names_arguments_as_in_a_shell(run, monkeypatch):
    monkeypatch.setattr(one_file, "_FEW_BYTES", 0)  # a smaller file is read without a thread
    assert "a.csv: line 1 has 5 values; --columns names 2" in run(*COLUMNS, "--columns", "y,p", status=3)


@pytest.mark.parametrize("kind", REFUSED)
def test_impossible_options_are_refused_in_the_words_of_the_command_line(run, kind):
    options, status, told = REFUSED[kind]
    assert told in run(*COLUMNS, *options, status=status)


@pytest.mark.parametrize(
    "option", ["label", "score", "weight", "user", "by", "join-on", "baseline-score", "baseline-columns", "where"]
)
def test_a_missing_column_is_one_of_the_option_that_names_it(run, option):
    value = {"baseline-columns": "zip=zz", "where": "zz > 3"}.get(option, "zz")
    columns = ["--label", value if option == "label" else "y", "--score", value if option == "score" else "p"]
    columns += ["--metrics", "gauc,auc"] if option == "user" else ["--metrics", "auc"]
    columns += ["--baseline", "a.csv"] if option in ("join-on", "baseline-columns") else []
    columns += ["--by", "zip"] if option == "baseline-columns" else []
    more = [] if option in ("label", "score") else [f"--{option}", value]
    said = run(*columns, *more, status=3)
    assert f"no column 'zz' for --{option}. There are 'y', 'p', 'zip', 'day', 'uid'" in said
    named = dict(label=columns[1], score=columns[3], metrics="gauc,auc" if option == "user" else "auc")
    named.update({"by": "zip", "baseline": "a.csv"} if option == "baseline-columns" else {})
    named.update({"baseline": "a.csv"} if option == "join-on" else {})
    argument = option.replace("-", "_")
    if more:
        named[argument] = {"zip": "zz"} if option == "baseline-columns" else value
    with pytest.raises(fm.DataError, match=rf"no column 'zz' for {argument}\. There are 'y', 'p', 'zip', 'day', 'uid'"):
        fm.evaluate("a.csv", **named)


@pytest.mark.parametrize("option", ["join-on", "score", "label", "by", "features", "where"])
def test_a_missing_column_of_a_stream_is_one_of_the_option_that_names_it(there, capsys, option):
    line = {"join-on": "uid", "score": "p", option: "zz > 3" if option == "where" else "zz"}
    tokens = [token for name, value in line.items() for token in (f"--{name}", value)]
    assert main(["consistency", "a=a.csv", "b=a.csv", *tokens]) == 3
    assert f"a.csv: no column 'zz' for --{option}. There are" in capsys.readouterr().err


def test_keys_of_two_kinds_are_refused_with_the_file(run, there, data):
    (there / "two").mkdir()
    save("two/0.csv", {"y": [1, 0], "p": [0.9, 0.2], "id": [1, 2]})
    save("two/1.csv", {"y": [1, 0], "p": [0.9, 0.2], "id": ["a", "b"]})
    said = run(*COLUMNS, "--by", "id", "--metrics", "auc", files="two", status=3)
    assert "two/1.csv" in said and "--text COLUMN makes both strings" in said and "Error" not in said
    found = run(*COLUMNS, "--by", "id", "--metrics", "auc", "--text", "id", "--json", files="two")
    assert {each["key"] for each in found["slices"]["id"]} == {"1", "2", "a", "b"}
    said = run(*COLUMNS, "--baseline", "two/1.csv", "--join-on", "id", "--metrics", "auc", files="two/0.csv", status=3)
    assert "--join-on id: ids are integers here, but strings in the baseline; --text id makes both strings" in said


def test_a_header_with_a_name_twice_is_refused_with_the_file(run, there):
    (there / "b.csv").write_text("p,y,p\n0.5,1,0.5\n")
    said = run(*COLUMNS, files="b.csv", status=3)
    assert "b.csv: 2 columns are called 'p'; rename them until only one is" in said


def test_warnings_name_no_arguments_of_python(run, data):
    save("b.csv", {**data, "p": np.round(data["p"], 1)})
    said = run(*COLUMNS, "--by", "zip", files="b.csv")
    assert "auc: 0." in said and "Ask for more buckets, auc:buckets=65536, or for exact_auc," in said
    assert "average_precision:buckets=65536, or for exact_auc:curve=PR, which needs none" in said
    for word in ("buckets=,", "tolerance=", "bounds=True", "max_keys", "sliced_", "slice_0", "(AUC)"):
        assert word not in said
    save("q.csv", {"y": [0, 0, 1], "p": [0.5, 0.25, 0.5], "q": [1, 1, 2]})
    said = run(*COLUMNS, "--task", "ranking", "--query", "q", "--metrics", "hit_rate@1,ndcg", files="q.csv")
    assert "hit_rate:zero_division=0 would" in said and "ndcg:zero_division=0 would" in said
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        metric = fm.AUC()
        metric.add(np.round(data["p"], 1), data["y"])
        metric.compute()
    assert "bounds=True" in str(caught[0].message)


# -- a file of options, and what a metric is ------------------------------------------------------------------

tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")


def test_a_file_of_options_says_what_the_command_line_does_and_that_wins(run, there):
    (there / "eval.toml").write_text(
        'files = ["a.csv"]\nlabel = "y"\nscore = "p"\nby = ["zip", "day"]\ntext = "zip"\nmetrics = "auc,log_loss"\n'
        'max_slices = 2\njson = true\nskip-bad-rows = false\nfail-if = ["auc<0"]\n'
    )
    wanted = run(*COLUMNS, "--by", "zip,day", "--text", "zip", "--metrics", "auc,log_loss", "--max-slices", 2, "--json")
    assert plain(run("--config", "eval.toml", "--json", files=None)) == plain(wanted)
    found = run("--config", "eval.toml", "--json", "--metrics", "auc", "--max-slices", 1000)
    assert "log_loss" not in found and len(found["slices"]["zip"]) == 3
    assert "'auc>0' holds" in run("--config", "eval.toml", "--fail-if", "auc>0", files=None, status=1)
    assert "required: --score;" in _left(run, there, 'files = "a.csv"\nlabel = "y"\n')


def _left(run, there, text):
    (there / "b.toml").write_text(text)
    return run("--config", "b.toml", files=None, status=2)


@pytest.mark.parametrize(
    "text, told",
    [
        ("labl = 'y'", "b.toml: there is no option 'labl'; did you mean label?\n"),
        ("ci = 'x'", "b.toml: ci must be a number, not 'x'"),
        ("replicates = 2.5", "b.toml: replicates must be an integer, not 2.5"),
        ("ci = true", "b.toml: ci must be a number, not True"),
        ("replicates = true", "b.toml: replicates must be an integer, not True"),
        ("classes = true", "b.toml: classes must be a string, or a list of strings, not True"),
        ("json = 1", "b.toml: json must be true or false, not 1"),
        ("label = 3", "b.toml: label must be a string, or a list of strings, not 3"),
        ("label = ", "--config b.toml: "),
        ("config = 'x'", "there is no option 'config'"),
    ],
)
def test_a_file_of_options_with_something_wrong_is_refused_with_the_key(run, there, text, told):
    assert told in _left(run, there, text + "\n")


def of_file(there, text, *line):
    (there / "c.toml").write_text(text)
    return parsed(["evaluate", "a.csv", *COLUMNS, "--config", "c.toml", *line])


def test_a_value_of_a_file_of_options_is_what_the_same_token_is(there):
    found = of_file(there, "skip-bad-rows = false\nskip_bad_files = true\nscale = 2\nclasses = 3\nreplicates = 7\n")
    assert (found.skip_bad_rows, found.skip_bad_files) == (False, True)
    assert (found.scale, found.classes, found.replicates) == (2.0, 3, 7)
    found = of_file(there, 'classes = ["cat, big", "dog"]\ncolumns = [\'a"b\', "c,d"]\nweight = "a,b"\n')
    assert (found.classes, found.columns, found.weight) == (["cat, big", "dog"], ['a"b', "c,d"], "a,b")
    found = of_file(there, 'by = ["country*day", "slot"]\nmetrics = ["auc", "ndcg@10"]\n')
    assert (found.by, found.metrics) == (["country*day", "slot"], "auc,ndcg@10")
    (there / "c.toml").write_text('files = ["b", "c"]\nlabel = ["y,1", "y2"]\nscore = "p,q"\n')
    found = parsed(["evaluate", "--config", "c.toml"])
    assert (found.files, found.label, found.score) == (["b", "c"], ["y,1", "y2"], ["p", "q"])


def test_what_may_be_given_several_times_on_the_line_replaces_what_a_file_of_options_has(there):
    text = 'fail-if = ["auc<0", "auc>2"]\nbaseline = ["old", "older"]\n'
    found = of_file(there, text)
    assert (found.fail_if, found.baseline) == (["auc<0", "auc>2"], ["old", "older"])
    found = of_file(there, text, "--fail-if", "auc<0.5", "--baseline", "new")
    assert (found.fail_if, found.baseline) == (["auc<0.5"], ["new"])


def test_a_form_of_the_line_replaces_that_of_a_file_of_options(there):
    assert of_file(there, "json = true\n", "--markdown").form == "Markdown"
    found = of_file(there, 'by = "zip"\ntask = "regression"\nskip-bad-rows = true\n', "--by", "day", "--task", "binary")
    assert (found.by, found.task, found.skip_bad_rows) == (["day"], "binary", True)


@pytest.mark.parametrize(
    "options, told",
    [
        (["--by", "zip", "--by", "day"], "--by is given twice; give it once; put commas between several values"),
        (["--metrics", "auc", "--metrics=log_loss"], "--metrics is given twice; give it once; put commas"),
        (["--user", "uid", "--query", "zip"], "--user/--query is given twice; give it once\n"),
        (["--html", "a", "--html", "b"], "--html is given twice; give it once\n"),
        (["--ci", "0.9", "--ci", "0.9"], "--ci is given twice; give it once\n"),
        (["--label", "y"], "--label is given twice; give it once; put commas"),
    ],
)
def test_an_option_that_is_given_twice_is_refused(run, options, told):
    assert told in run(*COLUMNS, *options, status=2)


def test_options_that_collect_and_flags_may_be_given_twice(run, there):
    found = parsed(["evaluate", "a.csv", *COLUMNS, "--baseline", "b", "--baseline=c", "--json", "--json", "d.csv"])
    assert (found.baseline, found.form, found.files) == (["b", "c"], "JSON", ["a.csv", "d.csv"])
    assert main(["merge", "a", "--lang", "zh", "--lang", "en"]) == 2


def test_a_file_of_options_that_is_not_there(run):
    assert "--config no.toml: No such file" in run("--config", "no.toml", files=None, status=2)


def test_a_metric_is_described_by_formula_range_direction_and_settings(there, capsys):
    for name in kinds():
        assert main(["metrics", name]) == 0, name
        out, _ = capsys.readouterr()
        assert out.startswith(f"{name}: ") and "\nBetter: " in out
    assert main(["metrics", "mae"]) == 0
    out, _ = capsys.readouterr()
    assert out.startswith("mean_absolute_error: ") and "Formula: " in out and "Better: lower values" in out
    for other in ("PCOC", "点击率校准", "weightedcalibration"):
        assert main(["metrics", other]) == 0
        out, _ = capsys.readouterr()
        assert out.startswith("calibration: ") and "Better: the closer to 1\nUndefined: no sample is labeled 1" in out
        assert "Source: He et al." in out and "others: PCOC" in out
    assert main(["metrics", "auk"]) == 2
    assert "fleetmetrics: there is no metric 'auk'; did you mean auc?\n" in capsys.readouterr().err


def test_values_are_in_the_stated_range():
    rng = np.random.default_rng(0)
    p, y, user = rng.random(500), rng.integers(0, 2, 500), rng.integers(0, 40, 500)
    bounds = {"0 to 1": (0, 1), "-1 to 1": (-1, 1), "up to 1": (-np.inf, 1), "from 0": (0, np.inf), "0 to 2": (0, 2)}
    bounds.update({"any": (-np.inf, np.inf), "from 1": (1, np.inf)})
    tried = 0
    for name, kind in kinds().items():
        try:
            found = fm.evaluate({"y": y, "p": p, "u": user}, label="y", score="p", user="u", metrics=name)[name]
        except fm.InvalidInputError:  # it needs a setting, or other labels
            continue
        if isinstance(found, float):
            low, high = bounds[entries()[kind].range.partition("; of several classes")[0]]
            assert low <= found <= high, (name, found)
            tried += 1
    assert tried > 40


def test_a_condition_on_a_missing_slice_is_named_below_the_output(there, capsys):
    args = ["evaluate", "a.csv", *COLUMNS, "--by", "day", "--fail-if", "slices.day[tuesday].auc<0.7"]
    assert main([*args, "--html", "page.html"]) == 2
    out, err = capsys.readouterr()
    assert "there is no slice 'tuesday'" in err and "auc" in out and not (there / "page.html").exists()
