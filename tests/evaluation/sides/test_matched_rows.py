"""The inner join: of two sides only the rows count whose ids both have."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.cli import main
from fleetmetrics.columns.joining import CommonIds
from fleetmetrics.evaluation import compare
from fleetmetrics.evaluation.request import Request
from fleetmetrics.evaluation.sides import matched_rows
from fleetmetrics.evaluation.sides.matched_rows import _Chosen
from tests.fakes import together

pytestmark = [
    pytest.mark.numpy_only,
    pytest.mark.usefixtures("few_groups"),
    pytest.mark.filterwarnings("ignore::fleetmetrics.errors.UndefinedMetricWarning"),
    pytest.mark.filterwarnings("ignore::fleetmetrics.errors.BucketWarning"),
]
pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")

ROWS = 3_000
ASKED = {"label": "y", "score": "p", "metrics": "auc,log_loss", "by": "slot", "replicates": 50}
JOINED = {**ASKED, "join_on": "id", "join": "inner"}
OPTIONS = "--label y --score p --metrics auc,log_loss --by slot --replicates 50 --join-on id".split()  # noqa: SIM905


def drawn(kind="integers"):
    """All rows with the scores of both sides; ids are far apart."""
    random = np.random.default_rng(5)
    y = random.integers(0, 2, ROWS)
    ids = random.permutation(ROWS) * 1_000_003 - 10**9
    return {
        "y": y,
        "p": random.random(ROWS) * 0.5 + y * 0.2,
        "old": random.random(ROWS) * 0.5 + y * 0.3,
        "slot": random.choice(["feed", "search", "video"], ROWS),
        "id": ids if kind == "integers" else np.array([f"r{each}" for each in ids]),
        "day": random.integers(0, 5, ROWS),
    }


def part(data, places, score="p"):
    return {name: data[score if name == "p" else name][places] for name in ("y", "p", "slot", "id", "day")}


#: Which rows each side has, in other orders, and which both have.
ORDER = np.random.default_rng(6).permutation(ROWS)
NEW, OLD = ORDER[:2_200], ORDER[::-1][:1_500]
BOTH = np.intersect1d(NEW, OLD)


def sides(kind="integers"):
    data = drawn(kind)
    return (part(data, NEW), part(data, OLD, "old")), (part(data, BOTH), part(data, BOTH, "old"))


def written(folder, name, data, format="parquet", number=3):
    """The rows in several files."""
    import pyarrow.csv
    import pyarrow.parquet

    for place in range(number):
        table = pa.table({column: array[place::number] for column, array in data.items()})
        path = f"{folder / name}{place}.{format}"
        if format == "csv":
            pyarrow.csv.write_csv(table, path)
        else:
            pyarrow.parquet.write_table(table, path)


def found_of(result):
    """What a result says except for what was read; rows in another order may differ in the last digit."""
    found = result.to_dict()
    for each in (found, found["baseline"]):
        each.pop("data")
    return rounded({name: each for name, each in found.items() if name != "asked"})


def rounded(value):
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def counts(result):
    new, old = result.new.data, result.baseline.data
    return new.rows, new.unmatched, old.rows, old.unmatched


WANTED = (len(BOTH), len(NEW) - len(BOTH), len(BOTH), len(OLD) - len(BOTH))


@pytest.mark.parametrize("kind", ["integers", "texts"])
def test_only_rows_whose_ids_both_sides_have_count_and_the_others_are_counted(kind):
    (new, old), (new_both, old_both) = sides(kind)
    with pytest.raises(fm.DataError, match="ids and labels differ from the baseline's"):
        fm.evaluate(new, baseline=old, **{**JOINED, "join": None})
    found = fm.evaluate(new, baseline=old, **JOINED)
    wanted = fm.evaluate(new_both, baseline=old_both, **{**JOINED, "join": None})
    assert found_of(found) == found_of(wanted)
    assert counts(found) == WANTED and 0 < WANTED[1] != WANTED[3] > 0
    assert np.isfinite(found.deltas["auc"].interval.low)


@pytest.mark.parametrize("format", ["parquet", "csv"])
@pytest.mark.parametrize("kind", ["integers", "texts"])
@pytest.mark.thorough
def test_files_are_joined_alike_by_one_process_and_by_several(tmp_path, kind, format):
    (new, old), (new_both, old_both) = sides(kind)
    written(tmp_path, "new", new, format)
    written(tmp_path, "old", old, format)
    wanted = fm.evaluate(new_both, baseline=old_both, **{**JOINED, "join": None})
    given = {**JOINED, "baseline": str(tmp_path / f"old*.{format}")}
    one, two = (fm.evaluate(str(tmp_path / f"new*.{format}"), processes=number, **given) for number in (1, 2))
    assert found_of(one) == found_of(two) == found_of(wanted)
    assert counts(one) == counts(two) == WANTED


def test_the_largest_slices_are_those_of_the_rows_that_count(tmp_path):
    """Of the rows of one side only, most are in a slice that no common row is in."""
    new, old = part(drawn(), np.arange(100)), part(drawn(), np.arange(50), "old")
    new["slot"] = np.where(np.arange(100) < 50, new["slot"], "gone")
    old["slot"] = new["slot"][:50]
    written(tmp_path, "new", new)
    written(tmp_path, "old", old)
    given = {**JOINED, "max_slices": 2}
    for result in (
        fm.evaluate(new, baseline=old, **given),
        fm.evaluate(f"{tmp_path}/new*", baseline=f"{tmp_path}/old*", **given),
    ):
        keys = {each.key for each in result.slices["slot"]}
        assert "gone" not in keys and "(other)" in keys and len(keys) == 3


def test_the_baseline_may_call_the_ids_otherwise_and_a_condition_comes_first():
    (new, old), _ = sides()
    renamed = {("key" if name == "id" else name): each for name, each in old.items()}
    kept = [{name: each[side["day"] != 3] for name, each in side.items()} for side in (new, old)]
    wanted = fm.evaluate(kept[0], baseline=kept[1], **JOINED)
    found = fm.evaluate(new, baseline=renamed, baseline_columns={"id": "key"}, where="day != 3", **JOINED)
    assert found_of(found) == found_of(wanted) and counts(found) == counts(wanted)
    assert found.new.data.left_out == (new["day"] == 3).sum()
    assert fm.evaluate(new, baseline=old, where="day != 3 and id > 0", **JOINED).new.rows < wanted.new.rows


def test_rows_that_lack_a_value_are_on_neither_side_where_they_are_skipped(tmp_path):
    (new, old), _ = sides()
    common = np.intersect1d(new["id"], old["id"])
    lacking = {**old, "p": np.where(old["id"] == common[0], np.nan, old["p"])}
    frame = pa.table({name: pa.array(each, from_pandas=True) for name, each in lacking.items()})
    with pytest.raises(fm.DataError, match="no value"):
        fm.evaluate(new, baseline=frame, **JOINED)
    found = fm.evaluate(new, baseline=frame, skip_bad_rows=True, **JOINED)
    assert found.new.rows == len(BOTH) - 1 == found.baseline.rows
    assert found.baseline.data.unmatched + found.baseline.data.skipped == WANTED[3] + 1
    only_here = {**new, "p": np.where(new["id"] == np.setdiff1d(new["id"], old["id"])[0], np.nan, new["p"])}
    found = fm.evaluate(
        pa.table({name: pa.array(each, from_pandas=True) for name, each in only_here.items()}), baseline=old, **JOINED
    )
    assert counts(found) == WANTED  # nothing is wrong with the rows that count
    without = {**new, "id": pa.array([None, *new["id"][1:].tolist()])}
    with pytest.raises(fm.DataError, match="'id': no value"):
        fm.evaluate(pa.table({name: pa.array(each) for name, each in without.items()}), baseline=old, **JOINED)


def test_a_row_is_on_its_side_unless_it_is_left_out_or_lacks_a_value_that_it_needs():
    """Whichever value it lacks; a slice may be missing, and a dictionary may hold ids of rows that are left out."""
    old = {"y": [0, 1, 0, 1, 0, 1], "p": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], "slot": ["a"] * 6, "id": list("abcdef")}
    given = {"y": [0, 1, None, 1, 0, 1], "p": [0.1, None, 0.3, 0.4, 0.5, 0.6], "slot": ["a", "b", "a", None, "a", "b"]}
    new = pa.table({**given, "id": pa.array(old["id"]).dictionary_encode(), "n": [1, 1, 1, 1, 0, 1]})
    found = fm.evaluate(new, baseline={**old, "n": [1] * 6}, where="n > 0", skip_bad_rows=True, **JOINED)
    assert (found.new.rows, found.baseline.rows) == (3, 3)
    assert (found.new.data.unmatched, found.new.data.left_out, found.baseline.data.unmatched) == (2, 1, 3)


def test_ids_that_come_twice_must_come_as_often_on_the_other_side():
    (new, old), _ = sides()
    place = int(np.flatnonzero(np.isin(new["id"], old["id"]))[0])
    twice = {name: np.append(each, each[place]) for name, each in new.items()}
    with pytest.raises(fm.DataError, match=rf"join_on=id.*{len(BOTH) + 1:,} rows against {len(BOTH):,}"):
        fm.evaluate(twice, baseline=old, **JOINED)
    there = int(np.flatnonzero(old["id"] == new["id"][place])[0])
    both = {name: np.append(each, each[there]) for name, each in old.items()}
    assert fm.evaluate(twice, baseline=both, **JOINED).new.rows == len(BOTH) + 1


def test_labels_of_the_same_id_must_be_the_same(tmp_path):
    (new, old), _ = sides()
    common = int(np.intersect1d(new["id"], old["id"])[0])
    wrong = {**old, "y": np.where(old["id"] == common, 1 - old["y"], old["y"])}
    written(tmp_path, "new", new)
    written(tmp_path, "old", wrong)
    with pytest.raises(
        fm.DataError, match=f"; {common} with label [01] occurs [01] times? here and [01] times? there$"
    ):
        fm.evaluate(f"{tmp_path}/new*", baseline=f"{tmp_path}/old*", **JOINED)


@pytest.mark.thorough
def test_the_numbers_left_out_are_in_text_json_and_html(tmp_path, capsys):
    (new, old), _ = sides()
    written(tmp_path, "new", new)
    written(tmp_path, "old", old)
    line = ["evaluate", f"{tmp_path}/new*", "--baseline", f"{tmp_path}/old*", *OPTIONS, "--join", "inner"]
    assert main(line) == 0
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert first.endswith(f"in 3 files, {WANTED[1]:,} more with ids on this side only")
    assert second.startswith("baseline: ") and f"{WANTED[3]:,} more with ids on this side only" in second
    assert main([*line, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["asked"]["join"] == "inner" and "common" not in found["asked"]
    assert (found["data"]["unmatched"], found["baseline"]["data"]["unmatched"]) == (WANTED[1], WANTED[3])
    pytest.importorskip("jinja2")
    for lang, text in (("en", "Rows whose ids are on this side only"), ("zh", "编号仅在这一侧的行")):
        assert main([*line, "--html", str(tmp_path / "report.html"), "--lang", lang]) == 0
        page = (tmp_path / "report.html").read_text()
        assert page.count(f"<dt>{text}</dt>") == 2
        assert f"<dt>{text}</dt><dd>{WANTED[1]:,}</dd>" in page and f"<dt>{text}</dt><dd>{WANTED[3]:,}</dd>" in page


def test_states_of_joined_sides_are_compared(tmp_path, capsys):
    (new, old), _ = sides()
    written(tmp_path, "new", new)
    written(tmp_path, "old", old)
    paths = {name: f"{tmp_path}/{name}*.parquet" for name in ("new", "old")}
    for here, there in (("new", "old"), ("old", "new")):
        line = ["evaluate", paths[here], "--baseline", paths[there], *OPTIONS, "--join", "inner"]
        assert main([*line, "--save-state", f"{tmp_path}/{here}.fms"]) == 0
    wanted = fm.evaluate(paths["new"], baseline=paths["old"], **JOINED)
    assert compare(tmp_path / "new.fms", tmp_path / "old.fms").deltas == wanted.deltas
    both = fm.evaluate(old, baseline=old, **{**JOINED, "join": None})
    both.save_state(tmp_path / "all.fms")
    with pytest.raises(fm.DataError, match=r"700 rows against 1,500$"):  # with no example of which it knows nothing
        compare(tmp_path / "new.fms", tmp_path / "all.fms")
    capsys.readouterr()


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"join": "outer"}, fm.InvalidInputError, "join must be .*inner.*outer"),
        ({"join_on": None}, fm.InvalidInputError, r"join=inner joins .* baseline .* join_on=COLUMN; give all three"),
        ({"baseline": None}, fm.InvalidInputError, "give both"),
        ({"baseline": None, "join_on": None}, fm.InvalidInputError, "join=inner .* give all three"),
    ],
)
def test_data_that_cannot_be_joined_are_an_error(given, error, says):
    (new, old), _ = sides()
    with pytest.raises(error, match=says):
        fm.evaluate(new, **{"baseline": old, **JOINED, **given})


def test_ids_of_which_none_is_on_both_sides_are_an_error():
    (new, old), _ = sides()
    with pytest.raises(fm.DataError, match=r"^join_on=id: no id is on both sides; are these the same ids"):
        fm.evaluate(new, baseline={**old, "id": old["id"] + 1}, **JOINED)
    with pytest.raises(fm.DataError, match=r"^there are no rows to evaluate: 2,200 rows left out by where"):
        fm.evaluate(new, baseline=old, where="day > 90", **JOINED)
    texts = np.array([str(each) for each in old["id"]])
    with pytest.raises(
        fm.DataError, match="ids are integers here, but strings in the baseline; text=id makes both strings"
    ):
        fm.evaluate(new, baseline={**old, "id": texts}, **JOINED)
    found = fm.evaluate(new, baseline={**old, "id": texts}, text="id", **JOINED)
    assert counts(found) == WANTED


def test_where_no_id_is_on_both_sides_nothing_is_read_a_second_time(monkeypatch):
    (new, old), _ = sides()
    monkeypatch.setattr(Request, "sides", lambda *_, **__: pytest.fail("the data were read again"))
    with pytest.raises(fm.DataError, match="no id is on both sides"):
        fm.evaluate(new, baseline={**old, "id": old["id"] + 1}, **JOINED)


def test_in_a_shell_a_wrong_command_is_status_2_and_wrong_data_are_3(tmp_path, capsys):
    (new, old), _ = sides()
    written(tmp_path, "new", new)
    written(tmp_path, "old", {**old, "id": old["id"] + 1})
    files_, there = [f"{tmp_path}/new*"], ["--baseline", f"{tmp_path}/old*"]
    for line, status, says in (
        ([*files_, *there, *OPTIONS, "--join", "outer"], 2, "--join must be one of inner, not 'outer'"),
        ([*files_, *there, *OPTIONS[:-2], "--join", "inner"], 2, "--join inner joins the data"),
        ([*files_, *OPTIONS[:-2], "--join", "inner"], 2, "give all three"),
        (["-", *there, *OPTIONS, "--join", "inner"], 2, "the standard input can be read only once"),
        ([*files_, *there, *OPTIONS, "--join", "inner"], 3, "--join-on id: no id is on both sides"),
        ([*files_, "--baseline", f"{tmp_path}/none*", *OPTIONS, "--join", "inner"], 3, "none*"),
    ):
        assert main(["evaluate", *line]) == status, line
        assert says in capsys.readouterr().err


def test_a_file_that_cannot_be_read_is_named_or_counted_as_without_a_join(tmp_path, capsys):
    (new, old), _ = sides()
    written(tmp_path, "new", new)
    written(tmp_path, "old", old)
    (tmp_path / "new1.parquet").write_bytes(b"PAR1 is broken PAR1")
    line = ["evaluate", f"{tmp_path}/new*", "--baseline", f"{tmp_path}/old*", *OPTIONS, "--join", "inner"]
    assert main(line) == 3
    assert "new1.parquet" in capsys.readouterr().err
    assert main([*line, "--skip-bad-files", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["data"]["skipped_files"] == 1 and found["rows"] == found["baseline"]["rows"] < len(BOTH)
    for place in range(3):
        (tmp_path / f"new{place}.parquet").write_bytes(b"PAR1 is broken PAR1")
    assert main(line) == 3
    said = capsys.readouterr().err
    assert "parquet" in said and "no id" not in said


def test_other_processes_map_the_ids_and_nothing_is_left_of_them():
    import os
    import pickle

    ids = CommonIds.of([np.arange(0, 100, 2), np.arange(0, 100, 3)])
    letter = pickle.dumps(ids)
    assert len(letter) < 300
    there = pickle.loads(letter)
    assert isinstance(there.ids, np.memmap) and there.flags(np.arange(13)).nonzero()[0].tolist() == [0, 6, 12]
    path = there.ids.filename
    assert os.path.exists(path)
    del ids
    assert not os.path.exists(path)
    empty = pickle.loads(pickle.dumps(nothing := CommonIds(np.zeros(0, np.int64))))
    assert not empty.flags(np.arange(3)).any() and nothing is not None


# -- several workers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["files", "frames"])
def test_several_workers_join_what_all_of_them_have(tmp_path, kind):
    """An id may be in the new data of one worker, and in the old ones of another."""
    new, old = sides()[0]
    parts = [[{name: each[rank::3] for name, each in side.items()} for rank in range(3)] for side in (new, old)]
    written(tmp_path, "new", new)
    written(tmp_path, "old", old)

    def work(channel):
        here = [f"{tmp_path}/new*", f"{tmp_path}/old*"] if kind == "files" else [side[channel.rank] for side in parts]
        return fm.evaluate(here[0], baseline=here[1], communicator=channel, **JOINED)

    alone = fm.evaluate(f"{tmp_path}/new*", baseline=f"{tmp_path}/old*", **JOINED)
    for each in together([work] * 3):
        assert {**found_of(each), "warnings": []} == {**found_of(alone), "warnings": []}
        assert counts(each) == counts(alone) == WANTED


def test_what_is_wrong_with_a_join_is_raised_on_all_workers():
    new, old = sides()[0]

    def with_ids(ids):
        return lambda channel: fm.evaluate(new, baseline={**old, "id": ids}, communicator=channel, **JOINED)

    for error in together([with_ids(old["id"] + 1)] * 2):
        assert isinstance(error, fm.DataError) and "no id is on both sides" in str(error)
    for error in together([with_ids(old["id"]), with_ids(np.array(["a"] * len(old["id"])))]):
        assert isinstance(error, fm.FleetMetricsError) and "text" in str(error)
    wrong = [
        lambda channel, join=join: fm.evaluate(new, baseline=old, communicator=channel, **{**JOINED, "join": join})
        for join in ("inner", "outer")
    ]
    for error in together(wrong):
        assert isinstance(error, fm.InvalidInputError) and "join must be" in str(error)


@pytest.mark.parametrize("which", ["here", "there"])
def test_the_example_of_rows_that_differ_says_how_often_each_side_has_it(tmp_path, which):
    """Also where a row at fault was skipped, and where only the baseline has more."""
    once = {"y": [1, 0, 1, 0], "p": [0.9, 0.2, 0.7, None], "slot": ["a"] * 4, "id": [11, 12, 13, 14]}
    twice = {name: [*each, each[1]] for name, each in once.items()}
    for name, data in (("here", once), ("there", once), (which, twice)):
        pa.parquet.write_table(pa.table(data), tmp_path / f"{name}.parquet")
    given = {**JOINED, "join": None, "skip_bad_rows": True}
    times = "2 times here and 1 time there" if which == "here" else "1 time here and 2 times there"
    rows = "4 rows against 3" if which == "here" else "3 rows against 4"
    with pytest.raises(fm.DataError, match=f": {rows}; 12 with label 0 occurs {times}$"):
        fm.evaluate(f"{tmp_path}/here.parquet", baseline=f"{tmp_path}/there.parquet", **given)


# -- the example of a mismatch --------------------------------------------------------------------------------


def of_many(tmp_path, change, rows=60_000, files=3):
    """Files of both sides, which differ in one row."""
    random = np.random.default_rng(2)
    new = {"y": random.integers(0, 2, rows), "p": random.random(rows), "id": random.permutation(rows)}
    old = {name: values.copy() for name, values in new.items()}
    change(old)
    for name, data in (("new", new), ("old", old)):
        for place, chosen in enumerate(np.array_split(np.arange(rows), files)):
            pa.parquet.write_table(
                pa.table({column: values[chosen] for column, values in data.items()}),
                tmp_path / f"{name}{place}.parquet",
            )
    return {"data": f"{tmp_path}/new*", "baseline": f"{tmp_path}/old*", "label": "y", "score": "p", "join_on": "id"}


def flipped(data):
    data["y"][np.flatnonzero(data["id"] == 47)] ^= 1


def replaced(data):
    data["id"][np.flatnonzero(data["id"] == 47)] = -1


@pytest.mark.parametrize(("change", "told"), [(flipped, "47 with label"), (replaced, "(-1|47) with label")])
def test_a_mismatch_is_explained_by_the_few_rows_of_one_bucket(tmp_path, change, told, monkeypatch):
    kept, add = [], _Chosen.add

    def watched(self, *given, **ids):
        add(self, *given, **ids)
        kept.append(len(self.rows))

    monkeypatch.setattr(_Chosen, "add", watched)
    with pytest.raises(fm.DataError, match=rf"; {told} [01] occurs [01] times? here and [01] times? there$"):
        fm.evaluate(**of_many(tmp_path, change), metrics="log_loss", processes=1)
    assert 0 < max(kept) < 20  # of 60,000


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_worker_gives_the_same_example_and_reads_its_share_of_the_files(tmp_path, workers, monkeypatch):
    given = of_many(tmp_path, flipped, rows=600)
    read = []
    again = matched_rows.evaluate_file
    monkeypatch.setattr(
        matched_rows,
        "evaluate_file",
        lambda path, *more, **settings: (read.append(path), again(path, *more, **settings))[1],
    )
    work = lambda channel: fm.evaluate(**given, metrics="log_loss", communicator=channel)  # noqa: E731
    errors = [str(error) for error in together([work] * workers)]
    assert len(set(errors)) == 1 and "; 47 with label" in errors[0]
    assert sorted(read) == sorted(2 * [str(path) for path in tmp_path.iterdir()])


def test_without_files_on_both_sides_or_after_they_have_gone_there_is_no_example(tmp_path, monkeypatch):
    given = of_many(tmp_path, flipped, rows=600)
    old = pa.concat_tables([pa.parquet.read_table(path) for path in sorted(tmp_path.glob("old*"))])
    ending = "600 rows against 600$"
    with pytest.raises(fm.DataError, match=ending):
        fm.evaluate(**{**given, "baseline": old})

    def gone(*given, **settings):
        raise FileNotFoundError("gone")

    monkeypatch.setattr(matched_rows, "evaluate_file", gone)
    for error in together([lambda channel: fm.evaluate(**given, communicator=channel)] * 2):
        assert isinstance(error, fm.DataError) and str(error).endswith("600 rows against 600")


def test_another_error_of_the_search_for_an_example_is_not_swallowed(tmp_path, monkeypatch):
    given = of_many(tmp_path, flipped, rows=60)

    def wrong(*given, **settings):
        raise ValueError("a fault of the program")

    monkeypatch.setattr(matched_rows, "evaluate_file", wrong)
    with pytest.raises(ValueError, match="a fault of the program"):
        fm.evaluate(**given)
