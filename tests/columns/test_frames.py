"""``add_frame``: data frames of pandas, polars and Arrow, by the names of their columns."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.errors import DataError

pytestmark = pytest.mark.numpy_only
pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

DATA = {"p": [0.9, 0.2, 0.7, 0.4], "y": [1, 0, 1, 0], "w": [1.0, 2.0, 0.5, 1.0], "uid": [7, 7, 8, 8]}
DATA["slot"] = ["b", "a", "b", "ünï"]


class Foreign:
    """A frame of an unknown library."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


FRAMES = {
    "pandas": pd.DataFrame,
    "pandas by Arrow": lambda data: pd.DataFrame(data).convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.DataFrame,
    "Arrow": pa.table,
    "Arrow in chunks": lambda data: pa.concat_tables([pa.table(data).slice(0, 3), pa.table(data).slice(3)]),
    "a batch": lambda data: pa.RecordBatch.from_pydict(data),
    "anything with a stream": lambda data: Foreign(pa.table(data)),
}


def make():
    return fm.MetricCollection({"auc": fm.AUC(), "gauc": fm.GAUC(), "slots": fm.Sliced(fm.Count(), by="slot")})


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_is_added_as_its_columns_are(kind):
    want, found = make(), make()
    want.add(DATA["p"], DATA["y"], DATA["w"], user=DATA["uid"], slot=DATA["slot"])
    found.add_frame(FRAMES[kind](DATA), prediction="p", label="y", weight="w", user="uid", slot="slot")
    assert found.compute() == want.compute()


def slices(column, frame=pa.table):
    metric = fm.Sliced(fm.Count(), by="day")
    metric.add_frame(frame({"p": np.ones(len(column)), "d": column}), prediction="p", day="d")
    return metric.compute()


MOMENT = datetime.datetime(2026, 11, 22, 18, 0, 0, 250_000)
KEYS = {
    "dates": (pa.array([datetime.date(2026, 11, 22)] * 2), {"2026-11-22": 2}),
    "dates in milliseconds": (pa.array([datetime.date(2026, 11, 22)] * 2, pa.date64()), {"2026-11-22": 2}),
    "times": (pa.array([MOMENT] * 2), {"2026-11-22T18:00:00.25": 2}),
    "whole seconds": (pa.array([MOMENT.replace(microsecond=0)] * 2, pa.timestamp("ns")), {"2026-11-22T18:00:00": 2}),
    "times with a zone": (pa.array([MOMENT] * 2, pa.timestamp("ms", "Asia/Tokyo")), {"2026-11-22T18:00:00.25Z": 2}),
    "bools": (pa.array([True, False]), {"false": 1, "true": 1}),
    "bytes": (pa.array([b"a", b"b"]), {"a": 1, "b": 1}),
    "long texts": (pa.array(["a", "b"], pa.large_string()), {"a": 1, "b": 1}),
    "views": (pa.array(["a", "b"], pa.string_view()), {"a": 1, "b": 1}),
    "categories": (pa.array(["b", "a", "b"]).dictionary_encode(), {"a": 1, "b": 2}),
    "categories of integers": (pa.array([3, 1, 3]).dictionary_encode(), {1: 1, 3: 2}),
    "small integers": (pa.array([3, 1, 3], pa.int8()), {1: 1, 3: 2}),
    "a dictionary with more": (pa.DictionaryArray.from_arrays([2, 0, 2], ["a", "c", "b"]), {"a": 1, "b": 2}),
    "a dictionary with one twice": (pa.DictionaryArray.from_arrays([2, 0, 1], ["a", "b", "b"]), {"a": 1, "b": 2}),
    "views of bytes": (pa.array([b"a", b"b"]).cast(pa.binary_view()), {"a": 1, "b": 1}),
    "runs": (pc.run_end_encode(pa.array(["a", "a", "b"])), {"a": 2, "b": 1}),
    "runs of integers": (pc.run_end_encode(pa.array([3, 3, 1], pa.int8())), {1: 1, 3: 2}),
    "chunks of runs": (pa.chunked_array([pc.run_end_encode(pa.array(["a"] * n)) for n in (2, 3)]), {"a": 5}),
    "no rows": (pa.array([], pa.string()), {}),
}


@pytest.mark.filterwarnings("ignore::fleetmetrics.errors.UndefinedMetricWarning")
@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_any_type_become_integers_or_texts(kind):
    column, want = KEYS[kind]
    found = slices(column)
    assert found == want
    assert list(map(type, found)) == list(map(type, want))


def test_dates_and_categories_of_pandas_and_polars_are_slices():
    days = pd.to_datetime(["2026-11-22", "2026-11-23", "2026-11-22"])
    assert slices(days, pd.DataFrame) == {"2026-11-22T00:00:00": 2, "2026-11-23T00:00:00": 1}
    assert slices(pd.Categorical(["b", "a", "b"]), pd.DataFrame) == {"a": 1, "b": 2}
    assert slices(pl.Series(["b", "a", "b"], dtype=pl.Categorical), pl.DataFrame) == {"a": 1, "b": 2}
    assert slices(pl.Series([datetime.date(2026, 11, 22)] * 3), pl.DataFrame) == {"2026-11-22": 3}
    assert slices(pl.Series([b"b", b"a", b"b"], dtype=pl.Binary), pl.DataFrame) == {"a": 1, "b": 2}


NUMBERS = {
    "halves": (pa.array(np.array([0.75, 0.25], np.float16)), pa.array([True, False])),
    "decimals": (pa.array([decimal.Decimal("0.75"), decimal.Decimal("0.25")]), pa.array([1.0, 0.0])),
    "categories": (pa.array([0.75, 0.25]).dictionary_encode(), pa.array([1, 0], pa.uint8())),
    "runs": (pc.run_end_encode(pa.array([0.75, 0.25])), pc.run_end_encode(pa.array([1, 0]))),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_of_any_type_are_numbers(kind):
    score, label = NUMBERS[kind]
    metric = fm.MeanSquaredError()
    metric.add_frame(pa.table({"p": score, "y": label}), prediction="p", label="y")
    assert metric.compute() == 0.0625


@pytest.mark.parametrize("sized", [True, False])
def test_a_column_of_lists_is_a_matrix_and_so_are_several_columns(sized):
    scores = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.3, 0.4, 0.3]])
    label = [0, 1, 1]
    want, lists, columns = fm.Accuracy(num_classes=3), fm.Accuracy(num_classes=3), fm.Accuracy(num_classes=3)
    want.add(scores, label)
    kind = pa.list_(pa.float64(), 3) if sized else pa.list_(pa.float64())
    lists.add_frame(pa.table({"p": pa.array(scores.tolist(), kind), "y": label}), prediction="p", label="y")
    three = pa.table({"a": scores[:, 0], "b": scores[:, 1], "c": scores[:, 2], "y": label})
    columns.add_frame(three, prediction=["a", "b", "c"], label="y")
    assert lists.compute() == columns.compute() == want.compute() == 2 / 3


def test_only_the_columns_that_are_asked_for_are_converted():
    frame = pd.DataFrame({**DATA, "object": [object()] * 4})
    metric = fm.AUC()
    metric.add_frame(frame, prediction="p", label="y")
    assert metric.compute() == 1.0


def refused(frame, metric=None, **columns):
    metric = metric or fm.AUC()
    with pytest.raises(fm.InvalidInputError) as caught:
        metric.add_frame(frame, **{"prediction": "p", "label": "y", **columns})
    assert not metric.holds_samples()
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "meant"),
    [("scor", "score_ctr"), ("SCORE_CTR", "score_ctr"), ("uid", "UserId"), ("clikcs", "clicks"), ("soil", None)],
)
def test_a_missing_column_is_named_with_the_most_similar_one(given, meant):
    there = FRAMES["Arrow"]({name: [1] for name in ("slot", "scar", "score_ctr", "UserId", "clicks")})
    text = refused(there, prediction="scar", label=given)
    assert f"; did you mean {meant!r}?" in text if meant else "did you mean" not in text


@pytest.mark.parametrize("kind", ["pandas", "polars", "Arrow"])
def test_an_error_names_the_columns_that_a_frame_lacks(kind):
    frame = FRAMES[kind]
    assert refused(frame(DATA), label="truth").startswith("frame: no column 'truth' for label. There are 'p', 'y'")
    assert refused(frame(DATA), label="slott").startswith("frame: no column 'slott' for label; did you mean 'slot'?")
    text = refused(frame({**DATA, "p": [0.1, None, 0.3, None]}))
    assert text.startswith("frame: column 'p': 2 of 4 rows have no value, the first at position 1")
    assert refused(frame({**DATA, "p": ["0.1"] * 4})).startswith("frame: column 'p' must hold numbers or bools, not ")
    assert "the first at position 2: 7.0" in refused(frame({**DATA, "p": [0.1, 0.2, 7.0, 0.4]}))


def test_a_null_in_a_list_and_lists_of_different_lengths_are_refused():
    rows = [[0.5, 0.5], [0.5, None], [0.5, 0.5], [1.0, 0.0]]
    assert "column 'p': 1 of 4 rows has no value, the first at position 1" in refused(pa.table({**DATA, "p": rows}))
    short = pa.table({**DATA, "p": [rows[0], [0.5], rows[2], rows[3]]})
    assert "must hold lists of equal length, not of 2 and 1" in refused(short)


def test_an_argument_that_is_not_a_frame_is_refused():
    assert refused([1, 2]).startswith("frame must be a data frame of pandas, polars or pyarrow")
    assert refused(pl.DataFrame(DATA).lazy()).endswith("not LazyFrame; call collect() first")


def test_metrics_with_arguments_of_their_own_take_their_columns():
    metric = fm.Mean()
    metric.add_frame(pa.table({"v": [1.0, 3.0], "w": [3.0, 1.0]}), value="v", weight="w")
    assert metric.compute() == 1.5
    assert isinstance(DataError("x"), fm.InvalidInputError)


# -- texts that have a dictionary, in `add` itself ---------------------------------------------------------

TEXTS = np.array(["b", "a", "c", "a", "b", "d"] * 50)
DICTIONARIES = {
    "Arrow": lambda: pa.array(TEXTS.tolist()).dictionary_encode(),
    "pandas": lambda: pd.Categorical(TEXTS),
    "a Series": lambda: pd.Series(TEXTS, dtype="category"),
}
WRAPPED = {
    "slices that are found": lambda: fm.Sliced(fm.AUC(), by="key"),
    "more than are kept": lambda: fm.Sliced(fm.Count(), by="key", max_keys=2),
    "given slices": lambda: fm.Sliced(fm.AUC(), by="key", keys=["d", "a"]),
    "ids of resampling": lambda: fm.Bootstrap(fm.MeanAbsoluteError(), 9, ids="key"),
    "users": lambda: fm.GAUC(by="key"),
    "slices of users": lambda: fm.Sliced(fm.GAUC(by="key"), by="key"),
}


@pytest.mark.filterwarnings("ignore:.*has more than 2 keys")
@pytest.mark.parametrize("wrapped", WRAPPED)
@pytest.mark.parametrize("kind", DICTIONARIES)
def test_dictionaries_of_texts_are_the_texts(kind, wrapped):
    rng = np.random.default_rng(1)
    score, label, mask = rng.random(len(TEXTS)), rng.integers(0, 2, len(TEXTS)), rng.random(len(TEXTS)) < 0.9
    want, found = WRAPPED[wrapped](), WRAPPED[wrapped]()
    want.add(score, label, mask=mask, key=TEXTS)
    found.add(score, label, mask=mask, key=DICTIONARIES[kind]())
    assert repr(found.compute()) == repr(want.compute())


def test_a_dictionary_goes_with_rows_of_several_elements():
    score = np.array([[0.1, 0.9], [0.8, 0.3]])
    metric = fm.Sliced(fm.Count(), by="key")
    metric.add(score, key=pa.array(["b", "a"]).dictionary_encode())
    assert metric.compute() == {"a": 2, "b": 2}
    with pytest.raises(fm.InvalidInputError, match=r"key has shape \[3\] but prediction has \[2"):
        metric.add(score, key=pa.array(["b", "a", "a"]).dictionary_encode())


def test_a_dictionary_with_a_null_or_the_name_of_all_others_is_refused():
    metric = fm.Sliced(fm.Count(), by="key")
    with pytest.raises(fm.InvalidInputError, match="key must hold integers or strings, not both"):
        metric.add([1.0, 2.0], key=pa.array(["a", None]).dictionary_encode())
    with pytest.raises(fm.InvalidInputError, match="key holds 'other', which stands for all other keys"):
        metric.add([1.0, 2.0], key=pd.Categorical(["a", "other"]))
    metric.add([1.0], key=pd.Categorical(["a"], ["a", "other"]))  # no sample has it
    assert metric.compute() == {"a": 1}


def test_what_is_masked_in_a_dict_of_arrays_is_null():
    masked = np.ma.masked_array([0.25, 0.5, 0.75], [False, True, False])
    frame = {"p": masked, "y": [1, 0, 1], "s": np.ma.masked_array(["a", "b", "a"], [False, True, False])}
    with pytest.raises(DataError, match="column 'p': 1 of 3 rows has no value, the first at position 1"):
        fm.LogLoss().add_frame(frame, prediction="p", label="y")
    found = fm.evaluate(frame, label="y", score="p", metrics="brier_score", skip_bad_rows=True)
    assert (found.new.rows, found["brier_score"]) == (2, (0.75**2 + 0.25**2) / 2)
    metric = fm.Sliced(fm.Count(), "s")
    metric.add_frame(frame, prediction="y", s="s")
    assert metric.compute() == {"a": 2, None: 1}


def test_a_float_that_is_not_a_number_is_a_missing_key():
    assert slices(pa.array([1.0, float("nan"), 1.0])) == {1: 2, None: 1}
    assert slices(pa.array([1.0, float("nan"), None])) == {1: 1, None: 2}


@pytest.mark.parametrize("ends", [pa.int16(), pa.int64()])
@pytest.mark.parametrize("kind", ["string", "string_view", "binary_view", "dictionary", "dictionary of views"])
def test_runs_of_dictionaries_and_of_views_are_their_values(kind, ends):
    values = pa.array(["a", None, "b"])
    if kind.endswith("view"):
        values = values.cast(getattr(pa, kind)())
    if kind.startswith("dictionary"):
        values = values.dictionary_encode()
    if kind.endswith("views"):
        values = pa.DictionaryArray.from_arrays(values.indices, values.dictionary.cast(pa.string_view()))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 6], ends), values)
    assert slices(runs) == {"a": 2, None: 1, "b": 3}
    assert slices(runs.slice(1, 3)) == {"a": 1, None: 1, "b": 1}
    assert slices(pa.chunked_array([runs.slice(0, 2), runs.slice(4)])) == {"a": 2, "b": 2}


def test_a_null_among_runs_is_seen():
    for column in (pc.run_end_encode(pa.array(["a", None, None])), pc.run_end_encode(pa.array([1, None, None]))):
        assert slices(column).pop(None) == 2
        with pytest.raises(DataError, match="column 'd': 2 of 3 rows have no value, the first at position 1"):
            fm.Count().add_frame(pa.table({"d": column}), prediction="d")


EMPTY = {
    "bytes": pa.array([b"", b"a", b""]),
    "large bytes": pa.array([b"", b"a", b""], pa.large_binary()),
    "views of bytes": pa.array([b"", b"a", b""]).cast(pa.binary_view()),
    "a dictionary of bytes": pa.array([b"", b"a", b""]).dictionary_encode(),
    "a dictionary with two": pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), pa.array(["", "a", ""])),
    "a dictionary with a null": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), pa.array([None, "a"])),
}


@pytest.mark.filterwarnings("ignore::fleetmetrics.errors.UndefinedMetricWarning")
@pytest.mark.parametrize("kind", EMPTY)
def test_an_empty_text_is_a_missing_key_also_as_bytes_and_twice_in_a_dictionary(kind):
    assert slices(EMPTY[kind]) == {None: 2, "a": 1}
    frame = pa.table({"p": [0.5, 0.25, 0.75], "y": [1, 0, 0], "u": EMPTY[kind]})
    with pytest.raises(DataError, match="column 'u': 2 of 3 rows have no value, the first at position 0"):
        fm.GAUC().add_frame(frame, prediction="p", label="y", user="u")


def test_an_empty_slice_among_the_chunks_of_a_column_is_no_rows():
    texts = pa.array(["a", "b", "a", "b", "a"])
    for empty in (texts[3:3], texts[:0], texts[5:]):
        assert slices(pa.chunked_array([texts[:3], empty, texts[3:], empty])) == {"a": 3, "b": 2}


NO_UTF8 = {
    "bytes": pa.array([b"\xff", b"a", b"\xc3"]),
    "large bytes": pa.array([b"a", None, b"\xff"], pa.large_binary()),
    "views of bytes": pa.array([b"a", b"\xff", b"a"]).cast(pa.binary_view()),
    "a dictionary of bytes": pa.array([b"a", b"\xff", b"a"]).dictionary_encode(),
    "texts": pa.array([b"a", None, b"\xff"]).view(pa.string()),
    "a dictionary of texts": pa.array([b"\xff", b"a", b"\xff"]).view(pa.string()).dictionary_encode(),
}


@pytest.mark.parametrize("text", [[], ["slot"]])
@pytest.mark.parametrize("kind", NO_UTF8)
def test_keys_that_are_not_utf_8_are_an_error_that_shows_the_first_of_them(kind, text):
    frame = pa.table({"p": [0.5, 0.25, 0.75], "y": [1, 0, 0], "slot": NO_UTF8[kind]})
    said = r"column 'slot' must hold integers, or strings in UTF-8, not .*; a row has b'\\xff'"
    with pytest.raises(DataError, match=said):
        fm.evaluate(frame, label="y", score="p", metrics="auc", by="slot", text=text)


def test_texts_of_a_dict_that_are_not_utf_8_are_an_error_that_names_the_column():
    with pytest.raises(fm.InvalidInputError, match="column 'slot' cannot be read"):
        fm.Sliced(fm.Count(), by="slot").add_frame(
            {"p": [0.5], "slot": NO_UTF8["texts"][2:]}, prediction="p", slot="slot"
        )
