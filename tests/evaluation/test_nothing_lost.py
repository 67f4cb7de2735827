"""Nothing is overwritten, and nothing is silently left out."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics import files
from fleetmetrics.cli import main
from fleetmetrics.evaluation.arguments.options import Options
from fleetmetrics.evaluation.history import history
from fleetmetrics.evaluation.output.output_paths import check_outputs
from fleetmetrics.evaluation.question.question import Question
from fleetmetrics.evaluation.sides.side_of_data import of_share, shared_files

pytestmark = [pytest.mark.numpy_only, pytest.mark.filterwarnings("ignore::fleetmetrics.errors.UndefinedMetricWarning")]
pytest.importorskip("pyarrow")

ASKED = ["--label", "y", "--score", "p", "--metrics", "auc,log_loss"]


def write(path, rows=100, seed=0):
    rng = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{p:.6f},{int(rng.random() < p)}" for p in rng.random(rows)]
    path.write_text("\n".join(["p,y", *lines, ""]))
    return path


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*args, status=0):
        got = main(list(map(str, args)))
        out, err = capsys.readouterr()
        assert got == status, (got, err)
        assert "Traceback" not in err and "unexpected" not in err
        return json.loads(out) if "--json" in args and out else out + err

    return call


# -- outputs that are inputs -------------------------------------------------------------------------------------


@pytest.fixture
def day(tmp_path):
    for place in range(2):
        write(tmp_path / "day" / f"{place}.csv", seed=place)
    write(tmp_path / "old.csv", seed=7)
    os.symlink("day/0.csv", tmp_path / "soft.csv")
    os.link(tmp_path / "day" / "1.csv", tmp_path / "hard.csv")
    os.symlink("day", tmp_path / "folder")
    return tmp_path / "day"


def test_the_file_behind_the_standard_input_is_not_overwritten(day):
    before = (day / "0.csv").read_bytes()
    kept = os.dup(0)
    try:
        with open(day / "0.csv", "rb") as file:
            os.dup2(file.fileno(), 0)
        for path in ("0.csv", "../day/0.csv", "../soft.csv"):
            with pytest.raises(fm.InvalidInputError, match="would overwrite the standard input; give another path"):
                check_outputs({"--html": str(day / path)}, ["-"])
        check_outputs({"--html": str(day / "1.csv")}, ["-"])
    finally:
        os.dup2(kept, 0)
        os.close(kept)
    assert (day / "0.csv").read_bytes() == before


def test_a_state_goes_where_a_link_leads_that_leads_nowhere_yet(run, day):
    for link, target in (("state.fms", "later.fms"), ("elsewhere.fms", "nowhere/later.fms")):
        os.symlink(target, link)
    run("evaluate", day, *ASKED, "--save-state", "state.fms")
    assert os.path.islink("state.fms") and os.path.isfile("later.fms")
    assert "cannot be written" in run("evaluate", day, *ASKED, "--save-state", "elsewhere.fms", status=2)
    assert os.path.islink("elsewhere.fms")


@pytest.mark.parametrize("command", ["merge", "compare", "history"])
def test_a_pattern_that_no_state_matches_is_told(run, day, command):
    assert "there is no file s?.fms; only the shell expands patterns" in run(command, "s?.fms", "old.fms", status=3)


@pytest.mark.parametrize("option", ["--html", "--save-state"])
@pytest.mark.parametrize(
    "output", ["day/0.csv", "./day/../day/1.csv", "soft.csv", "hard.csv", "folder/0.csv", "old.csv"]
)
def test_an_output_that_is_an_input_is_status_2_and_leaves_it_as_it_is(run, day, option, output):
    before = {path: path.read_bytes() for path in day.parent.rglob("*.csv")}
    said = run("evaluate", "day", *ASKED, "--baseline", "old.csv", option, output, status=2)
    assert f"{option} {output} would overwrite " in said and "which is read" in said
    assert {path: path.read_bytes() for path in day.parent.rglob("*.csv")} == before


@pytest.mark.parametrize("option", ["--html", "--save-state"])
def test_inputs_that_are_urls_of_this_machine_are_not_overwritten(run, day, option):
    before = {path: path.read_bytes() for path in day.parent.rglob("*.csv")}
    for url in (day.as_uri(), f"local://{day}", f"file://{day}/*", "file://day"):
        said = run("evaluate", url, *ASKED, option, "day/0.csv", status=2)
        assert f"{option} day/0.csv would overwrite " in said
    said = run("evaluate", "day", *ASKED, "--baseline", (day.parent / "old.csv").as_uri(), option, "old.csv", status=2)
    assert "would overwrite " in said
    assert {path: path.read_bytes() for path in day.parent.rglob("*.csv")} == before
    result = fm.evaluate(day.as_uri(), label="y", score="p", metrics="auc")
    with pytest.raises(fm.InvalidInputError, match="would overwrite"):
        result.to_html("day/1.csv")
    for output in ("s3://bucket/x", f"{day.parent.as_uri()}/x"):
        said = run("evaluate", "day", *ASKED, option, output, status=2)
        assert f"{option} {output} is a URL; give a path of this machine" in said


@pytest.mark.parametrize("option", ["--html", "--save-state"])
def test_a_file_of_options_is_not_overwritten(run, day, option):
    pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
    (day.parent / "eval.toml").write_text('files = "day"\nlabel = "y"\nscore = "p"\nmetrics = "auc"\n')
    said = run("evaluate", "--config", "eval.toml", option, "./eval.toml", status=2)
    assert f"{option} ./eval.toml would overwrite eval.toml, which is read" in said
    with open("eval.toml", "a") as file:
        file.write(f'{option[2:]} = "eval.toml"\n')
    assert "would overwrite" in run("evaluate", "--config", "eval.toml", status=2)


def test_a_result_does_not_overwrite_its_data_from_another_folder(run, day, monkeypatch):
    result = fm.evaluate("day", label="y", score="p", metrics="auc")
    run("evaluate", "day", *ASKED, "--save-state", "0.fms")
    merged = fm.evaluation.merge([(day.parent / "0.fms").as_uri()])
    points = history(["0.fms"])
    monkeypatch.chdir(day)
    for each in (result, merged, points):
        with pytest.raises(fm.InvalidInputError, match=r"would overwrite .*0.csv, which is read"):
            each.to_html("0.csv")
    for each in (merged, points):
        with pytest.raises(fm.InvalidInputError, match="would overwrite"):
            each.to_html("../0.fms")


def test_streams_are_not_overwritten_from_python(run, day):
    for name in ("a", "b"):
        (day.parent / f"{name}.csv").write_text("id,p\n1,0.5\n2,0.25\n")
    result = fm.consistency({"a": "a.csv", "b": "b.csv"}, join_on="id", score="p")
    with pytest.raises(fm.InvalidInputError, match=r"path b.csv would overwrite .*b.csv, which is read"):
        result.to_html("b.csv")


def test_an_output_that_is_a_folder_is_status_2_and_says_so(run, day):
    said = run("evaluate", "day", *ASKED, "--html", "folder", status=2)
    assert "--html folder is a folder; give the path of a file" in said


@pytest.mark.parametrize("option", ["--html", "--save-state"])
def test_an_output_that_is_no_file_is_status_2_and_stays(run, day, option):
    os.mkfifo("pipe")
    os.symlink("pipe", "link")
    for output in ("pipe", "link"):
        said = run("evaluate", "day", *ASKED, option, output, status=2)
        assert f"{option} {output} is not a file; give the path of a file" in said
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)


def test_an_output_keeps_its_permissions_and_the_link_that_leads_to_it(run, day):
    pytest.importorskip("jinja2")
    for name in ("page", "state"):
        (day.parent / name).touch(mode=0o600)
        os.symlink(name, f"to_{name}")
    run("evaluate", "day", *ASKED, "--html", "to_page", "--save-state", "to_state")
    for name in ("page", "state"):
        assert os.path.islink(f"to_{name}") and os.stat(name).st_size > 1000
        assert stat.S_IMODE(os.stat(name).st_mode) == 0o600


@pytest.mark.parametrize("option", ["--html", "--save-state"])
def test_an_output_that_would_be_read_as_data_the_next_time_is_status_2(run, day, option):
    pytest.importorskip("jinja2")
    for given, output in (
        ("day", "day/new"),
        ("day", "folder/new"),
        ("folder", "day/new"),
        ("day/*", "./day/new"),
        ((day.parent / "day").as_uri(), "day/new"),
        (".", "day/new"),
    ):
        said = run("evaluate", given, *ASKED, option, output, status=2)
        assert f"{option} {output} is in {given}, which is read, and would be read as data" in said
        assert sorted(os.listdir("day")) == ["0.csv", "1.csv"]
    for given, output in (
        ("day", "day/_new"),
        ("day", "day/.kept"),
        ("day/*.csv", "day/new"),
        ("day/0.csv", "day/new"),
    ):
        run("evaluate", given, *ASKED, option, output)
        os.remove(output)
    said = run("evaluate", "day/0.csv", *ASKED, "--baseline", "day", option, "day/new", status=2)
    assert f"{option} day/new is in day" in said


@pytest.mark.parametrize("option", ["--html", "--save-state"])
def test_a_disk_that_is_full_is_status_3_and_names_the_file(run, day, option, monkeypatch):
    pytest.importorskip("jinja2")

    def full(number):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    said = run("evaluate", "day", *ASKED, option, "out", status=3)
    assert said.splitlines()[-1] == "fleetmetrics: out: No space left on device"


def test_one_output_on_top_of_the_other_is_status_2(run, day):
    os.symlink("x", day.parent / "y")
    for one, other in (("x", "x"), ("x", "./x"), ("x", "y")):
        said = run("evaluate", "day", *ASKED, "--html", one, "--save-state", other, status=2)
        assert "would overwrite the output of --html" in said and not (day.parent / "x").exists()


def test_states_are_not_overwritten_by_what_is_made_of_them(run, day):
    for place in range(2):
        run("evaluate", f"day/{place}.csv", *ASKED, "--save-state", f"{place}.fms")
    os.symlink("0.fms", "link.fms")
    for output in ("0.fms", "link.fms"):
        before = (day.parent / "0.fms").read_bytes()
        assert "would overwrite 0.fms" in run("merge", "0.fms", "1.fms", "--save-state", output, status=2)
        assert "would overwrite 0.fms" in run("compare", "0.fms", "1.fms", "--html", output, status=2)
        assert (day.parent / "0.fms").read_bytes() == before
    run("merge", "0.fms", "1.fms", "--save-state", "both.fms")
    run("merge", "both.fms", "--save-state", "new.fms")


def test_the_outputs_of_a_merge_are_checked_before_a_state_is_read_and_before_anything_is_written(run, day):
    (day.parent / "torn.fms").write_bytes(b"no state")
    assert "would overwrite torn.fms" in run("merge", "torn.fms", "--html", "torn.fms", status=2)
    run("evaluate", "day", *ASKED, "--save-state", "0.fms")
    said = run("merge", "0.fms", "--save-state", "new.fms", "--html", "day/0.csv", status=2)
    assert said.startswith("fleetmetrics: --html day/0.csv would overwrite") and not (day.parent / "new.fms").exists()


def test_states_of_users_who_have_rows_in_several_of_them_are_merged_as_whole_users(run, day):
    rng = np.random.default_rng(3)
    for place in range(2):
        lines = [f"{p:.6f},{int(rng.random() < p)},{rng.integers(20)}" for p in rng.random(200)]
        (day / f"{place}.csv").write_text("\n".join(["p,y,u", *lines, ""]))
        asked = (*ASKED[:4], "--metrics", "gauc,ndcg@5", "--user", "u")
        run("evaluate", f"day/{place}.csv", *asked, "--save-state", f"{place}.fms")
    whole, merged = run("evaluate", "day", *asked, "--json"), run("merge", "0.fms", "1.fms", "--json")
    assert (merged["gauc"], merged["ndcg@5"]) == (whole["gauc"], whole["ndcg@5"])


def test_the_page_of_a_merge_has_its_command(run, day):
    run("evaluate", "day", *ASKED, "--save-state", "0.fms")
    found = run("merge", "0.fms", "--json", "--html", "page.html")
    assert found["asked"]["command"] == "fleetmetrics merge 0.fms --json --html page.html"
    assert found["asked"]["command"] in (day.parent / "page.html").read_text()


def test_from_python_too_what_was_read_is_not_overwritten(run, day):
    result = fm.evaluate("day", label="y", score="p", metrics="auc", baseline="old.csv")
    before = (day / "1.csv").read_bytes()
    for write in (result.to_html, result.save_state):
        with pytest.raises(fm.InvalidInputError, match=r"^path hard.csv would overwrite day/1.csv, which is read"):
            write("hard.csv")
        with pytest.raises(fm.InvalidInputError, match=r"^path old.csv would overwrite old.csv"):
            write("old.csv")
    assert (day / "1.csv").read_bytes() == before
    result.save_state("x.fms")
    with pytest.raises(fm.InvalidInputError, match=r"would overwrite x\.fms"):
        fm.evaluation.merge(["x.fms"]).save_state("x.fms")


# -- what cannot be read -----------------------------------------------------------------------------------------


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """A folder of two days; of the second one the folder cannot be listed, which root could."""
    for name in ("day1", "day2"):
        write(tmp_path / "pv" / name / "0.csv", seed=len(name))
    (tmp_path / "pv" / "day2").chmod(0)
    scan = os.scandir

    def refused(path="."):
        if str(path).rstrip("/").endswith("day2"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refused)
    yield tmp_path
    (tmp_path / "pv" / "day2").chmod(0o755)


@pytest.mark.parametrize("given", ["pv", "pv/*/*.csv", "pv/**/*.csv", "./pv/day?/*"])
def test_a_folder_that_cannot_be_listed_is_named_or_counted(run, broken, given):
    said = run("evaluate", given, *ASKED, status=3)
    assert "day2" in said and "cannot be listed: Permission denied" in said
    found = run("evaluate", given, *ASKED, "--skip-bad-files", "--json", "--fail-if", "data.skipped_files>0", status=1)
    assert found["data"]["skipped_files"] == 1 and "day2" in found["data"]["bad_files"][0]
    text = run("evaluate", given, *ASKED, "--skip-bad-files")
    assert text.startswith("100 rows, ") and " in 1 file, 1 file skipped: " in text.splitlines()[0]
    with pytest.raises(fm.DataError, match="day2: this folder cannot be listed"):
        files.find(given)


@contextlib.contextmanager
def another_user():
    """What root may read, others may not: as root, act as another user."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def refused(monkeypatch):
    """A folder of files that the user may read, and of some, in ``listed``, ``closed`` and ``file``, that none may."""
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)  # pytest's own folders are root's alone
        monkeypatch.chdir(top)
        modes = {"good": 0o755, "listed": 0o444, "closed": 0, "file": 0o755}
        for name in modes:
            write(Path("pv", name, "0.csv"))
        os.chmod("pv/file/0.csv", 0)
        for name, mode in modes.items():
            os.chmod(f"pv/{name}", mode)
        yield
        for name in modes:
            os.chmod(f"pv/{name}", 0o755)


@pytest.mark.parametrize(
    "given, told",
    [
        ("pv", "pv/closed: this folder cannot be listed"),
        ("pv/*/*.csv", "pv/closed: this folder cannot be listed"),
        ("pv/closed", "pv/closed: this folder cannot be listed"),
        ("pv/closed/0.csv", "pv/closed/0.csv: it cannot be read"),
        ("pv/listed", "pv/listed/0.csv: it cannot be read"),
        ("pv/listed/0.csv", "pv/listed/0.csv: it cannot be read"),
        ("pv/file", "pv/file/0.csv: it cannot be read"),
        ("pv/file/0.csv", "pv/file/0.csv: it cannot be read"),
    ],
)
def test_what_the_user_may_not_read_is_named_with_the_reason_or_counted(capsys, refused, given, told):
    main(["evaluate", "pv/good", *ASKED])  # what it imports, the other user may not read either
    capsys.readouterr()
    with another_user():
        assert main(["evaluate", given, *ASKED]) == 3
        assert capsys.readouterr().err.startswith(f"fleetmetrics: {told}: Permission denied")
        assert main(["evaluate", "pv/good", "--baseline", given, *ASKED]) == 3
        assert f"{told}: Permission denied" in capsys.readouterr().err
        several = [given] if given in ("pv", "pv/*/*.csv") else [given, "pv/good"]
        assert main(["evaluate", *several, *ASKED, "--skip-bad-files", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["rows"] == 100 and found["data"]["skipped_files"] == (3 if len(several) == 1 else 1)
        assert all("Permission denied" in each for each in found["data"]["bad_files"])


@pytest.mark.parametrize("given", ["day", "day/*"])
@pytest.mark.parametrize("kind", ["link", "empty", "other", "cut"])
def test_a_file_without_data_is_named_or_counted(run, tmp_path, given, kind):
    write(tmp_path / "day" / "0.csv")
    bad = tmp_path / "day" / "1.csv"
    if kind == "link":
        os.symlink("nowhere", bad)
    elif kind == "empty":
        bad.touch()
    elif kind == "other":
        (bad := tmp_path / "day" / "README.md").write_text("# What this is\n\nPredictions, of a day\n")
    else:
        bad.write_bytes(b"PAR1 and no more of it")
    assert str(bad.relative_to(tmp_path)) in run("evaluate", given, *ASKED, status=3)
    found = run("evaluate", given, *ASKED, "--skip-bad-files", "--json")
    assert found["rows"] == 100 and found["data"]["files"] == ["day/0.csv"]
    assert found["data"]["skipped_files"] == 1 and bad.name in found["data"]["bad_files"][0]
    page = fm.evaluate(given, label="y", score="p", skip_bad_files=True)
    in_python = [text.replace("for --score", "for score") for text in found["data"]["bad_files"]]
    assert page.new.data.bad_files == tuple(in_python)


def test_a_bad_row_does_not_make_a_bad_file_and_only_bad_files_are_an_error(run, tmp_path):
    write(tmp_path / "day" / "0.csv")
    (tmp_path / "day" / "1.csv").write_text("p,y\n0.5,1\n1.5,0\n")
    assert "row 1, column 'p'" in run("evaluate", "day", *ASKED, "--skip-bad-files", status=3)
    found = run("evaluate", "day", *ASKED, "--skip-bad-files", "--skip-bad-rows", "--json")
    assert (found["rows"], found["data"]["skipped_files"]) == (101, 0)
    wrong = [*ASKED[:-4], "--score", "q", "--metrics", "auc"]
    assert "no column 'q'" in run("evaluate", "day", *wrong, "--skip-bad-files", status=3)
    (tmp_path / "none").mkdir()
    os.symlink("nowhere", tmp_path / "none" / "x.csv")
    assert "a broken link" in run("evaluate", "none", *ASKED, "--skip-bad-files", status=3)


def test_each_file_below_a_folder_is_read_once_through_any_links(run, tmp_path):
    write(tmp_path / "day" / "a" / "0.csv")
    write(tmp_path / "elsewhere" / "1.csv", seed=1)
    for name, to in (("latest", "a"), ("more", "../elsewhere"), ("round", "."), ("0.csv", "a/0.csv")):
        os.symlink(to, tmp_path / "day" / name)
    found = run("evaluate", "day", *ASKED, "--json")
    assert found["data"]["files"] == ["day/a/0.csv", "day/more/1.csv"] and found["rows"] == 200


# -- the manifest of a state -------------------------------------------------------------------------------------


def test_a_state_knows_each_file_by_path_size_digest_and_rows(run, tmp_path):
    from fleetmetrics.files import Read
    from fleetmetrics.serial.container import read_arrays

    paths = [write(tmp_path / "day" / f"{place}.csv", rows=10 + place, seed=place) for place in range(2)]
    run("evaluate", "day", *ASKED, "--save-state", "day.fms")
    _, note = read_arrays("day.fms")
    sources = Read(*note["read"]).sources
    assert [(path, size, rows) for path, size, _, rows in sources] == [
        (str(path), path.stat().st_size, 10 + place) for place, path in enumerate(paths)
    ]
    assert len({digest for _, _, digest, _ in sources}) == 2


@pytest.mark.parametrize("way", ["twice", "copy", "link", "again", "overlap"])
def test_merging_refuses_data_that_would_count_twice(run, tmp_path, way):
    write(tmp_path / "day" / "0.csv")
    write(tmp_path / "day" / "1.csv", seed=1)
    run("evaluate", "day/0.csv", *ASKED, "--save-state", "a.fms")
    other = {"copy": "b.fms", "link": "b.fms"}.get(way, "a.fms")
    if way == "copy":
        (tmp_path / "b.fms").write_bytes((tmp_path / "a.fms").read_bytes())
    elif way == "link":
        os.symlink("a.fms", "b.fms")
    elif way == "again":
        run("evaluate", str(tmp_path / "day" / "0.csv"), *ASKED, "--save-state", "b.fms")
        other = "b.fms"
    elif way == "overlap":
        run("evaluate", "day", *ASKED, "--save-state", "b.fms")
        other = "b.fms"
    said = run("merge", "a.fms", other, status=3)
    assert "would count" in said and (way in ("twice", "link") or "day/0.csv is in a.fms and in b.fms" in said)
    with pytest.raises(fm.DataError, match="would count"):
        fm.evaluation.merge(["a.fms", other])


def test_equal_names_in_two_folders_are_two_files_and_copies_are_warned_of(run, tmp_path, monkeypatch):
    for place, name in enumerate(("day1", "day2", "day3")):
        write(tmp_path / name / "part.csv", seed=place % 2)  # that of day3 is a copy of day1's
        monkeypatch.chdir(tmp_path / name)
        run("evaluate", "part.csv", *ASKED, "--save-state", tmp_path / f"{name}.fms")
    monkeypatch.chdir(tmp_path)
    found = run("merge", "day1.fms", "day2.fms", "--json")
    assert found["rows"] == 200 and found["warnings"] == []
    found = run("merge", "day1.fms", "day3.fms", "--json")
    assert found["rows"] == 200 and "look the same in size, beginning and end" in found["warnings"][0]
    (tmp_path / "day1" / "part.csv").write_text((tmp_path / "day1" / "part.csv").read_text() + "0.5,1\n")
    run("evaluate", "day1", *ASKED, "--save-state", "later.fms")
    found = run("merge", "day1.fms", "later.fms", "--json")
    assert "with different contents" in found["warnings"][0]
    for place in range(2):  # of parts without rows nothing counts twice
        (tmp_path / "empty.csv").write_text("p,y\n")
        run("evaluate", "empty.csv", *ASKED, "--save-state", f"{place}.fms", status=3)
    assert run("merge", "0.fms", "day1.fms", "1.fms", "--json")["rows"] == 100


def test_an_error_of_merge_names_what_a_state_lacks(run, tmp_path):
    write(tmp_path / "day" / "0.csv")
    (tmp_path / "day" / "1.csv").touch()
    run("evaluate", "day", *ASKED, "--save-state", "day.fms", status=3)
    found = run("merge", "day.fms", "--json", "--fail-if", "data.skipped_files>0", status=1)
    assert found["rows"] == 100 and "1.csv" in found["data"]["bad_files"][0]
    [said] = found["warnings"]
    assert said.startswith("day.fms lacks a file that could not be used: day/1.csv")
    run("merge", "day.fms", "--save-state", "week.fms")
    assert "week.fms lacks a file" in run("merge", "week.fms", "--json")["warnings"][0]


@pytest.mark.parametrize("number", [2, 3, 4])
def test_of_files_that_a_state_lacks_three_are_named(run, tmp_path, number):
    write(tmp_path / "day" / "0.csv")
    for place in range(1, number + 1):
        (tmp_path / "day" / f"{place}.csv").touch()
    run("evaluate", "day", *ASKED, "--save-state", "day.fms", status=3)
    [said] = run("merge", "day.fms", "--json")["warnings"]
    assert f"{number} files that could not be used" in said and said.count(".csv") == min(number, 3)
    assert said.endswith("; ...") == (number > 3)


def test_an_error_of_compare_names_what_either_state_lacks(run, tmp_path):
    write(tmp_path / "whole.csv")
    run("evaluate", "whole.csv", *ASKED, "--save-state", "whole.fms")
    write(tmp_path / "day" / "0.csv")
    (tmp_path / "day" / "1.csv").touch()
    run("evaluate", "day", *ASKED, "--save-state", "day.fms", status=3)
    for states in (("day.fms", "whole.fms"), ("whole.fms", "day.fms")):
        [said] = run("compare", *states, "--json")["warnings"]
        assert said.startswith("day.fms lacks a file that could not be used: day/1.csv")
        assert fm.evaluation.compare(*states).warnings == [said]


def test_copies_within_one_state_are_allowed(run, tmp_path):
    for name in ("0.csv", "1.csv"):
        write(tmp_path / "day" / name)
    write(tmp_path / "later" / "2.csv", seed=1)
    for name in ("day", "later"):
        run("evaluate", name, *ASKED, "--save-state", f"{name}.fms")
    found = run("merge", "day.fms", "later.fms", "--json")
    assert (found["rows"], found["warnings"]) == (300, [])


# -- shares of files ---------------------------------------------------------------------------------------------


def test_workers_share_files_and_one_of_them_names_an_unreadable_file(tmp_path):
    """The rows of a user may lie in the files of several workers: nothing is closed by user."""
    asked = Question.of(Options("y", "p", user="u", metrics="auc,gauc"))
    rng, rows = np.random.default_rng(0), []
    for place in range(5):
        p, user = rng.random(40), rng.integers(0, 6, 40)
        rows.append((p, (rng.random(40) < p).astype(int), user))
        lines = [f"{a:.17g},{b},{c}" for a, b, c in zip(*rows[-1])]
        (tmp_path / f"{place}.csv").write_text("\n".join(["p,y,u", *lines, ""]))
    os.symlink("nothing.csv", tmp_path / "link.csv")
    sides = []
    [found] = shared_files([tmp_path], fm.LocalCommunicator(), skip_bad_files=True)
    for rank in range(2):
        channel = SimpleNamespace(rank=rank, world_size=2)
        paths, side = of_share(found, asked, channel, skip_bad_files=True, close=True)
        assert [os.path.basename(each) for each in paths] == [f"{place}.csv" for place in range(5)]
        sides.append(side)
    read = files.together(side.read for side in sides)
    assert (read.rows, len(read.files), len(read.bad_files)) == (200, 5, 1)
    sides[0].metrics.merge(sides[1].metrics)
    alone = fm.GAUC()
    p, y, user = map(np.concatenate, zip(*rows))
    alone.add(p, y, user=user)
    assert sides[0].members.values["gauc"].compute() == pytest.approx(alone.compute(), rel=1e-12)


def test_states_of_columns_with_other_names_do_not_merge_and_can_be_compared(run, tmp_path):
    write(tmp_path / "day" / "0.csv")
    text = (tmp_path / "day" / "0.csv").read_text()
    (tmp_path / "day" / "1.csv").write_text(text.replace("p,y", "old,y"))
    run("evaluate", "day/0.csv", *ASKED, "--save-state", "a.fms")
    run("evaluate", "day/1.csv", "--label", "y", "--score", "old", *ASKED[4:], "--save-state", "b.fms")
    said = run("merge", "a.fms", "b.fms", status=3)
    assert "b.fms" in said and "prediction is 'p' in a.fms, here 'old'" in said
    assert run("compare", "a.fms", "b.fms", "--json")["auc_delta"]["value"] == 0


# -- the same rows everywhere ------------------------------------------------------------------------------------


def test_headline_slices_and_rows_count_the_same_rows():
    rng = np.random.default_rng(0)
    p = rng.random(2000)
    p[:30], p[30:40] = np.nan, 1.5
    frame = {"y": (rng.random(2000) < 0.3).astype(int), "p": p, "w": rng.integers(0, 3, 2000).astype(float)}
    frame.update(s=rng.integers(0, 5, 2000), t=rng.integers(0, 7, 2000), u=rng.integers(0, 90, 2000))
    found = fm.evaluate(
        frame, label="y", score="p", weight="w", user="u", by=["s", "t"], metrics="auc,count,gauc", skip_bad_rows=True
    )
    good = (frame["w"] > 0) & (p <= 1)
    assert found.new.rows == good.sum() and found["count"] == pytest.approx(frame["w"][good].sum())
    assert found.new.data.sizes["positives"] == frame["y"][good].sum()
    data = found.new.data
    assert data.rows == found.new.rows + data.skipped == 2000 - data.weight_0
    for slices in found.slices.values():
        assert sum(each.rows for each in slices) == found.new.rows
        assert sum(each.sizes["positives"] for each in slices) == data.sizes["positives"]
        assert sum(each.metrics["count"] for each in slices) == pytest.approx(found["count"])
        assert sum(each.share for each in slices) == pytest.approx(1)


# -- states that are no paths --------------------------------------------------------------------------------


def test_a_state_may_be_given_alone_and_what_is_no_state_is_named(run, day):
    run("evaluate", "day", *ASKED, "--save-state", "a.fms")
    assert fm.evaluation.merge("a.fms").new.rows == 200 == fm.evaluation.merge(day.parent / "a.fms").new.rows
    assert list(history("a.fms").points) == ["a"]
    for given, told in ((3, "states must be a list of paths, not 3"), ([], "states is empty"), ([3], "must be a path")):
        with pytest.raises(fm.InvalidInputError, match=told):
            fm.evaluation.merge(given)
    for call in (fm.evaluation.merge, history):
        for given, told in (("zz.fms", "there is no file zz.fms"), (".", r"\. is a folder; name the states in it")):
            with pytest.raises(fm.DataError, match=told):
                call([given])
    with pytest.raises(fm.DataError, match=r"there is no file zz\.fms"):
        fm.evaluation.compare("a.fms", "zz.fms")
    for command in (("merge",), ("history",), ("compare", "a.fms"), ("merge", "a.fms")):
        assert "there is no file nothere.fms" in run(*command, "nothere.fms", status=3)
        assert "fleetmetrics: . is a folder; name the states in it" in run(*command, ".", status=3)


def test_a_state_that_cannot_be_opened_is_named(run, day, monkeypatch):
    import builtins

    run("evaluate", "day", *ASKED, "--save-state", "a.fms")
    real = open

    def refused(path, *given, **more):
        if path == "a.fms":
            raise PermissionError(13, "Permission denied", path)
        return real(path, *given, **more)

    monkeypatch.setattr(builtins, "open", refused)
    with pytest.raises(fm.DataError, match=r"^a\.fms: it cannot be read: Permission denied$"):
        fm.evaluation.merge(["a.fms"])
