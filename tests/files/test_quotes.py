"""Quotes of CSV: a quote that is never closed ends at its line, and no row is lost or merged without being counted."""

from __future__ import annotations

import gzip
import io
import random

import pytest

import fleetmetrics as fm
from fleetmetrics import files
from fleetmetrics.errors import DataError
from fleetmetrics.files import lines, separated
from fleetmetrics.files.quotes import Quotes, stays_open
from tests.cover import thorough

pytestmark = pytest.mark.numpy_only
csv = pytest.importorskip("pyarrow.csv")

COLUMNS = {"prediction": "p", "label": "y", "k": "k"}


def slots():
    return fm.Sliced(fm.Count(), by="k", max_keys=None)


def read(path, text, columns=COLUMNS, make=slots, skip=True, **options):
    path.write_bytes(text.encode())
    return files.evaluate(path, make, columns, skip_bad_rows=skip, reading=files.Reading(**options))


def table(separator, place, texts):
    """A table of a score, a label and a text in one of three places; and the number of the line of each row."""
    rows = [[f"0.{n % 9}", str(n % 2)] for n in range(len(texts))]
    for row, text in zip(rows, texts):
        row.insert(place, text)
    names = ["p", "y"]
    names.insert(place, "k")
    return "".join(f"{separator.join(row)}\n" for row in [names, *rows])


# -- never closed --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [50, 1 << 24])
@pytest.mark.parametrize("place, separator, used", [(0, ",", True), (1, "\t", False), (2, "\t", True)])
@pytest.mark.parametrize(
    "marks",
    [
        {10: '"red shoes'},
        {10: '"red shoes', 50: '"blue shoes'},
        {10: '"red shoes', 50: 'blue shoes"'},
        {10: '"red shoes', 11: 'shoes"', 50: '"', 70: '"'},
        {99: '"red shoes'},
        {0: '"', 98: '"', 99: '"'},
        {10: '"red shoes', 50: '"blue shoes"'},
        {10: '"red ""shoes""'},
    ],
)
def test_each_row_counts_or_is_skipped_and_counted(tmp_path, monkeypatch, separator, place, used, marks, size):
    monkeypatch.setattr(lines, "_BLOCK", size)
    texts = [marks.get(n, "x") for n in range(100)]
    bad = [n for n, text in marks.items() if text.startswith('"') and (len(text) == 1 or not text.endswith('"'))]
    bad += [n for n, text in marks.items() if text.endswith('""')]
    text = table(separator, place, texts)
    columns = COLUMNS if used else {"prediction": "p", "label": "y"}
    metrics, found = read(tmp_path / "a.csv", text, columns, slots if used else fm.Count)
    assert (found.rows, found.skipped) == (100, len(bad))
    assert [each.split(": ")[1] for each in found.examples] == [f"line {n + 2}, column 'k'" for n in sorted(bad)][:5]
    assert sum(metrics.compute().values() if used else [metrics.compute()]) == 100 - len(bad)
    with pytest.raises(DataError, match=f"line {min(bad) + 2}, column 'k': a quote opens the value.*quote=none"):
        read(tmp_path / "a.csv", text, columns, slots if used else fm.Count, skip=False)
    metrics, found = read(tmp_path / "a.csv", text, quote="none", skip=False)
    assert (found.rows, found.skipped, sum(metrics.compute().values())) == (100, 0, 100)
    assert found.understood["quotes"] == ("none",)


@pytest.mark.parametrize("how", ["gz", "-", "processes", "largest"])
def test_so_it_is_in_every_kind_of_stream_and_pass(tmp_path, monkeypatch, how):
    text = table("\t", 2, [{10: '"red', 500: '"blue'}.get(n, f"k{n % 4}") for n in range(1000)]).encode()
    path, more = tmp_path / "a.tsv", {}
    path.write_bytes(gzip.compress(text) if how == "gz" else text)
    if how == "-":
        path = "-"
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    if how == "processes":
        (tmp_path / "b.tsv").write_bytes(text)
        path, more = tmp_path, {"processes": 2}
    if how == "largest":
        more = {"max_slices": 2}
    metrics, found = files.evaluate(path, slots, COLUMNS, skip_bad_rows=True, **more)
    times = 2 if how == "processes" else 1
    assert (found.rows, found.skipped) == (1000 * times, 2 * times)
    counts = metrics.compute()
    assert sum(counts.values()) == 998 * times
    assert set(counts) == ({"k1", "k3", "other"} if how == "largest" else {"k0", "k1", "k2", "k3"})


def test_a_header_whose_quote_is_never_closed_is_refused(tmp_path):
    for rest in ("", 'x"\n', '"x\n'):
        with pytest.raises(DataError, match=r'the header has a quote that is never closed: ."k.*quote=none'):
            read(tmp_path / "a.csv", f'p,y,"k\n0.5,1,a\n0.5,1,{rest}')
    metrics, found = read(tmp_path / "a.csv", 'p,y,"k\n0.5,1,a\n', {**COLUMNS, "k": '"k'}, quote="none")
    assert (metrics.compute(), found.rows) == ({"a": 1}, 1)


# -- legal ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [10, 64, 1 << 20])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_legal_values_are_those_of_pythons_reader(tmp_path, monkeypatch, size, place, end):
    import csv as python

    monkeypatch.setattr(lines, "_BLOCK", size)
    monkeypatch.setattr(separated, "_SPAN", 400)
    kinds = ["a", "a,b", 'say "a"', "two\nlines", "\n", 'a\n\n"b"\n,c', '"', "", '5" disk', "0.5\n1\nx"]
    draw = random.Random(size)
    texts = [draw.choice(kinds) for _ in range(80)]
    rows = [[f"0.{n % 9}", str(n % 2)] for n in range(len(texts))]
    for row, text in zip(rows, texts):
        row.insert(place, text)
    names = ["p", "y"]
    names.insert(place, "k")
    written = io.StringIO(newline="")
    python.writer(written, lineterminator=end).writerows([names, *rows])
    metrics, found = read(tmp_path / "a.csv", written.getvalue(), skip=False)
    expected = {text or None: texts.count(text) for text in texts}
    assert (metrics.compute(), found.rows) == (expected, 80)
    assert found.multiline == sum("\n" in text for text in texts)


def test_a_result_says_how_many_rows_span_lines(tmp_path):
    (tmp_path / "a.csv").write_text('p,y,k\n0.5,1,"a\nb"\n0.25,0,c\n0.5,1,"d\n\ne"\n')
    found = fm.evaluate(tmp_path / "a.csv", label="y", score="p", metrics="accuracy", quote='"')
    assert str(found).startswith("3 rows, 2 positives in 1 file, 2 rows span several lines\n")
    assert 'quotes: "' in str(found).splitlines()[1]
    assert (found.to_dict()["data"]["multiline"], found.to_dict()["asked"]["quote"]) == (2, '"')


def test_a_header_in_quotes_may_span_lines(tmp_path):
    metrics, found = read(tmp_path / "a.csv", 'p,y,"k\n(text)"\n0.5,1,a\n', {**COLUMNS, "k": "k\n(text)"})
    assert (metrics.compute(), found.rows) == ({"a": 1}, 1)


def test_whole_rows_within_a_value_need_a_word_of_the_user(tmp_path):
    text = 'p,y,k\n0.5,1,"a\n0.4,0,b\n0.3,1,c"\n0.2,0,d\n'
    told = (
        r"line 2, column 'k': .* is closed on line 4, after whole rows; if quotes .* quote=none; if values .* quote=\""
    )
    with pytest.raises(DataError, match=told):
        read(tmp_path / "a.csv", text, skip=False)
    assert read(tmp_path / "a.csv", text)[0].compute() == {"b": 1, 'c"': 1, "d": 1}
    metrics, found = read(tmp_path / "a.csv", text, quote='"', skip=False)
    assert (metrics.compute(), found.rows, found.multiline) == ({"a\n0.4,0,b\n0.3,1,c": 1, "d": 1}, 2, 1)


@pytest.mark.parametrize("more", ["", "0.5,1,c,d\n"])
def test_a_quote_that_something_follows_closes_no_value_of_several_lines(tmp_path, more):
    metrics, found = read(tmp_path / "a.csv", 'p,y,k\n0.5,1,"a\nb"c\n0.2,0,"d"e\n' + more)
    assert (metrics.compute(), found.rows, found.skipped) == ({"de": 1}, 3 + bool(more), 2 + bool(more))


def test_single_quotes_are_quotes_if_they_are_asked_for(tmp_path):
    text = "p,y,k\n0.5,1,'a,\"b'\n0.5,1,it''s\n0.5,1,'it''s\n'\n0.5,0,'open\n"
    metrics, found = read(tmp_path / "a.csv", text, quote="'")
    assert metrics.compute() == {'a,"b': 1, "it''s": 1, "it's\n": 1}
    assert (found.rows, found.skipped) == (4, 1)


def test_a_row_with_another_number_of_values_keeps_its_line_beside_others(tmp_path):
    text = 'p,y,k\n0.5,1,"a\nb"\n\n0.5,1,5" disk\n0.5,1\n0.5,1,"open\n0.5,1,"x,y\n0.5,1,c,"d"\n'
    metrics, found = read(tmp_path / "a.csv", text)
    assert metrics.compute() == {"a\nb": 1, '5" disk': 1}
    assert [each.split(": ")[1].split(",")[0] for each in found.examples] == [f"line {n}" for n in (6, 7, 8, 9)]
    assert "if quotes are characters of values: quote=none" in found.examples[3]


# -- the rule itself -----------------------------------------------------------------------------------------


def open_at_the_end(line):
    """One character after the other, as RFC 4180 has it."""
    state, place = "start", 0
    while place < len(line):
        each = line[place]
        if state == "in" and each == '"':
            if line[place + 1 : place + 2] == '"':
                place += 1
            else:
                state = "value"
        elif state == "start" and each != ",":
            state = "in" if each == '"' else "value"
        elif state == "value" and each == ",":
            state = "start"
        place += 1
    return state == "in"


def test_a_line_leaves_a_quote_open_as_one_character_after_the_other_says():
    draw = random.Random(1)
    for _ in range(5000):
        line = "".join(draw.choice('"",ab') for _ in range(draw.randrange(12)))
        assert stays_open(line.encode(), '"', ",") == open_at_the_end(line), line


@pytest.mark.parametrize("blocks", [400, *thorough(2000)])
def test_rows_that_are_settled_together_are_those_settled_one_by_one(blocks):
    draw = random.Random(2)
    kinds = [
        "a",
        '"a"',
        '"a\nb"',
        '"x""y"',
        '"a\n0.2,1,c\n"',
        '"a',
        'a"',
        '"',
        '""',
        '5"',
        '"\n"',
        '"a"b',
        '"a\n""b"""',
    ]
    for _ in range(blocks):
        rows = [f"0.{draw.randrange(9)},1,{draw.choice(kinds)}\n" for _ in range(draw.randrange(1, 6))]
        block = "".join(rows).encode()
        rule = Quotes('"', ",", ["p", "y", "k"], False, b"0.5,1,a\n", 1 << 20)
        for at_end in (True, False):
            one, other = (rule.settled(block, 0, at_end, quick) for quick in (True, False))
            assert [list(each) if isinstance(each, tuple) else each for each in one] == [
                list(each) if isinstance(each, tuple) else each for each in other
            ]


def test_a_value_ends_within_a_bounded_number_of_bytes(tmp_path, monkeypatch):
    """Otherwise a quote that is never closed would hold the rest of the file in memory."""
    monkeypatch.setattr(lines, "_BLOCK", 100)
    monkeypatch.setattr(separated, "_SPAN", 300)
    seen = []
    settled = Quotes.settled

    def noted(self, block, *more):
        seen.append(len(block))
        return settled(self, block, *more)

    monkeypatch.setattr(Quotes, "settled", noted)
    _, found = read(tmp_path / "a.csv", 'p,y,k\n0.5,1,"open\n' + "0.5,0,b\n" * 1000)
    assert (found.rows, found.skipped) == (1001, 1)
    assert max(seen[2:]) <= 600


@pytest.mark.parametrize("size", [1 << 20, 200])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_rows_after_a_quote_that_is_never_closed_decide_types_too(tmp_path, monkeypatch, size, place):
    monkeypatch.setattr(lines, "HEAD", size)
    rows = [f"{number},q,{('false', 'true')[number % 2]},0.{number}" for number in range(1, 40)]
    rows.insert(place, '0,"q,true,0.5')
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["k,q,y,p", *rows]))
    columns = {"prediction": "p", "label": "y", "k": "k"}
    reading = files.Reading(where="k >= 10")
    for more, wanted in ((None, range(1, 40)), (reading, range(10, 40))):
        make = lambda: fm.Sliced(fm.ClickThroughRate(), by="k", max_keys=None)  # noqa: E731
        metrics, read = files.evaluate(path, make, columns, skip_bad_rows=True, reading=more)
        assert metrics.compute() == {number: number % 2 for number in wanted}
        assert read.skipped == 1
