"""Texts and tags: what they are equal to, and what is an error; tests/cases/text.py has their data."""

from __future__ import annotations

import builtins
import functools
import pickle
import random
import warnings

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.support import optional
from tests.cover import thorough

pytestmark = pytest.mark.numpy_only
ALL = [fm.BLEU, fm.CHRF, fm.CharErrorRate, fm.NormalizedEditDistance, fm.ROUGE, fm.StringMatch, fm.TokenF1]
#: Scheme here, in seqeval, and its prefixes.
SCHEMES = [
    ("conll", "", "OBIES"),
    ("IOB", "IOB1", "OBI"),
    ("IOB2", "IOB2", "OBI"),
    ("IOE", "IOE1", "OIE"),
    ("IOE2", "IOE2", "OIE"),
    ("IOBES", "IOBES", "OBIES"),
    ("BILOU", "BILOU", "OBILU"),
]


def value(metric, *arguments, **more):
    metric.add(*arguments, **more)
    return metric.compute()


def error(metric, *arguments, **more):
    with pytest.raises(fm.InvalidInputError) as caught:
        metric.add(*arguments, **more)
    assert not metric.holds_samples()
    return str(caught.value)


@pytest.mark.parametrize("sequences", [60, *thorough(10_000)])
@pytest.mark.parametrize("scheme, theirs, prefixes", SCHEMES)
def test_entities_are_those_of_seqeval_in_random_sequences(scheme, theirs, prefixes, sequences):
    from seqeval import scheme as schemes
    from seqeval.metrics import f1_score

    rng = random.Random(scheme)

    def tag():
        prefix = rng.choice(prefixes)
        return prefix if prefix == "O" or rng.random() < 0.1 else f"{prefix}-{rng.choice('XY')}"

    mode = {"mode": "strict", "scheme": getattr(schemes, theirs)} if theirs else {}
    for _ in range(sequences // 2):
        true = [[tag() for _ in range(rng.randint(1, 8))] for _ in range(2)]
        predicted = [[each if rng.random() < 0.6 else tag() for each in tags] for tags in true]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = f1_score(true, predicted, zero_division=0, **mode)
        ours = value(fm.EntityF1(scheme=scheme, zero_division=0), predicted, true)
        assert ours == pytest.approx(expected, abs=1e-12), (predicted, true)


@pytest.mark.parametrize("scheme, theirs", [("conll", ""), ("IOBES", "IOBES")])
def test_a_report_of_entities_is_seqevals(scheme, theirs):
    from seqeval import scheme as schemes
    from seqeval.metrics import classification_report

    rng, mode = random.Random(scheme), {"mode": "strict", "scheme": getattr(schemes, theirs)} if theirs else {}
    tags = [f"{prefix}-{kind}" for prefix in "BIES" for kind in "XYZ"]
    for _ in range(20):
        true = [["O", "B-X", *rng.choices([*tags, "O"], k=rng.randint(1, 8))] for _ in range(3)]
        predicted = [[each if rng.random() < 0.6 else rng.choice(tags) for each in row] for row in true]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = classification_report(true, predicted, output_dict=True, zero_division=0, **mode)
        ours = value(fm.EntityReport(types=["Z", "X", "Y"], scheme=scheme, zero_division=0), predicted, true)
        for name, numbers in expected.items():
            assert ours[name] == pytest.approx(numbers, abs=1e-12), (name, predicted, true)


def test_a_report_of_entities_names_its_types_and_refuses_others():
    assert "as of scheme='conll' and types=['X']; 1 of 1 sample is not, the first at position 0: 'B-Y'" in error(
        fm.EntityReport(types=["X"]), [["B-Y"]], [["O"]]
    )
    for types, told in (
        ([], "types is empty; name"),
        ("X", "types must be a list"),
        (["X", "X"], "'X' is there twice"),
        ({"X"}, "types must be a list of types of entities, in their order, not {'X'}"),
    ):
        with pytest.raises(fm.InvalidInputError, match=told):
            fm.EntityReport(types=types)
    assert fm.EntityReport(types=iter(["X", "Y"])).types == ["X", "Y"]
    with pytest.warns(fm.UndefinedMetricWarning, match="^entity_report is undefined: there are no entities$"):
        value(fm.EntityReport(types=["X"]), [["O"]], [["O"]])


@pytest.mark.parametrize(
    "metrics, batch",
    [
        ([fm.BLEU, fm.BLEU, fm.CHRF], (["the cat sat on a mat", "x"], [["a cat sat on the mat", "a"], "x y"])),
        (
            [functools.partial(fm.EntityReport, types=["X", "Y"], digits=digits) for digits in (2, 3)] + [fm.EntityF1],
            ([["B-X", "B-Y", "B-X"]], [["B-X", "B-Y", "B-Y"]]),
        ),
    ],
)
def test_metrics_of_a_collection_share_what_they_count(metrics, batch):
    collected = value(fm.MetricCollection({str(place): make() for place, make in enumerate(metrics)}), *batch)
    assert [*collected.values()] == [value(make(), *batch) for make in metrics]


def test_an_unknown_tag_is_shown_with_its_place():
    told = error(fm.EntityF1(scheme="IOB2"), [["O"], ["B-X", "O"]], [["O"], ["B-X", "E-X"]])
    assert "label must be a list of tags, O or B-TYPE or I-TYPE, as of scheme='IOB2'" in told
    assert "1 of 2 samples is not, the first at position 1: 'E-X'" in told
    for tag in ("X-PER", "BPER", "B-", "", "o", "B-PER ", "I-PER\r", "B- PER", None, 3):
        assert repr(tag) in error(fm.EntityF1(), [[tag]], [["O"]])


def test_sequences_of_other_lengths_and_flat_tags_are_errors():
    assert "label must be as long as its prediction" in error(fm.EntityF1(), [["O", "O"]], [["O"]])
    assert "prediction must be a list of tags" in error(fm.EntityF1(), ["B-X", "O"], ["B-X", "O"])


@pytest.mark.parametrize("kind", ALL)
def test_what_is_no_text_is_an_error_unless_it_is_masked(kind):
    for odd in (None, b"a", 3, float("nan")):
        assert f"prediction must be a string; 1 of 2 samples is not, the first at position 1: {odd!r}" in error(
            kind(), ["a b", odd], ["a b", "a"]
        )
        assert "label must be a string" in error(kind(), ["a b"], [odd])
        metric = kind()
        metric.add(["a b", odd], ["a b c", None], mask=[True, False])
        assert metric.compute() == value(kind(), ["a b"], ["a b c"])


@pytest.mark.parametrize("kind", [fm.BLEU, fm.CHRF, fm.CharErrorRate, fm.WordErrorRate, fm.ROUGE])
def test_a_blank_reference_is_an_error(kind):
    for blank in ("", " \t"):
        assert "label must be a string" in error(kind(), ["a"], [blank])


@pytest.mark.parametrize("kind", [fm.CharErrorRate, fm.WordErrorRate])
def test_a_reference_of_which_nothing_counts_is_as_blank(kind):
    for text in ("the", "A!", "..."):
        assert "label must be a text with a word: normalize='squad'" in error(
            kind(normalize="squad"), ["a cat"], [text]
        )
    assert value(fm.NormalizedEditDistance(normalize="squad"), ["a", "it"], ["the", "the"]) == 0.5


@pytest.mark.parametrize("kind", [fm.BLEU, fm.CHRF, fm.ROUGE, fm.StringMatch, fm.TokenF1])
def test_a_sample_may_have_several_references_but_not_none(kind):
    assert value(kind(), ["the old man here"], [["something else", "the old man here"]]) == pytest.approx(
        value(kind(), ["the old man here"], ["the old man here"])
    )
    assert "label must be a string" in error(kind(), ["a"], [[]])


@pytest.mark.parametrize("kind", ALL)
def test_one_string_and_other_numbers_of_entries_are_errors(kind):
    for odd in ("a text", np.int64(3)):
        assert "prediction must be a list with one entry per sample" in error(kind(), odd, ["a text"])
    assert "label has 1 entries but prediction has 2" in error(kind(), ["a", "b"], [["a", "b"]])
    for validate in (True, False):
        assert "label is missing" in error(kind(validate=validate), ["a", "b"])


def test_texts_come_as_lists_arrays_and_columns():
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    for of in (tuple, np.array, lambda texts: np.array(texts, object), pandas.Series, polars.Series, pyarrow.array):
        assert value(fm.WordErrorRate(), of(["a b", "c"]), of(["a c", "c"])) == 1 / 3
    for of in (pandas.DataFrame, polars.DataFrame, pyarrow.table):
        frame = of({"name": ["a"]})  # of which a list may be ["name"]
        assert "prediction must be a list with one entry per sample" in error(fm.WordErrorRate(), frame, ["a"])


def test_tags_and_references_of_a_sample_come_as_lists_arrays_and_columns():
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    tags = [["B-X", "O"], ["B-Y"]]
    for of in (tuple, np.array, pandas.Series, polars.Series, pyarrow.array):
        assert value(fm.EntityF1(), [*map(of, tags)], tags) == 1
        assert value(fm.StringMatch(), ["b", "c"], [of(["a", "b"]), of(["c"])]) == 1
    for of in (pandas.Series, polars.Series, pyarrow.array):
        assert value(fm.EntityF1(), of(tags), tags) == 1


def test_chinese_is_read_by_characters():
    assert value(fm.WordErrorRate(), ["我喜欢paddle"], ["我很喜欢paddle"]) == 1 / 5
    assert value(fm.WordErrorRate(chinese="words"), ["我 喜欢"], ["我 很喜欢"]) == 1 / 2
    assert value(fm.TokenF1(), ["北京大学"], ["北京"]) == pytest.approx(2 / 3)
    assert value(fm.ROUGE(of="rouge1"), ["今天下雨"], ["今天有雨"]) == 0.75


def test_letters_and_digits_alone_say_nothing_of_chinese():
    told = error(fm.StringMatch(normalize="alphanumeric"), ["你"], ["我"])
    assert "label must be a text with an ASCII letter or digit" in told
    assert value(fm.StringMatch(normalize="alphanumeric"), ["P-1!", None], ["p1", None], mask=[True, False]) == 1


@pytest.mark.parametrize("kind, options", [(fm.BLEU, {"smooth": "add-k"}), (fm.CHRF, {"word_order": 2})])
def test_a_score_has_sacrebleus_signature_on_any_worker(kind, options):
    from sacrebleu import metrics

    renamed = {"smooth": "smooth_method"}
    theirs = getattr(metrics, kind.__name__)(**{renamed.get(name, name): each for name, each in options.items()})
    texts, labels = ["the cat sat on a mat", "a dog"], [["a cat sat on the mat", "x"], "the dog"]
    expected = theirs.corpus_score(texts, [["a cat sat on the mat", "the dog"], ["x", None]])
    one, other = kind(**options), kind(**options)
    one.add(texts[:1], labels[:1])
    other.add(texts[1:], labels[1:])
    one.merge(other)
    score = pickle.loads(pickle.dumps(one.compute()))
    assert score == expected.score and score.signature == str(theirs.get_signature())
    assert "nrefs:var" in score.signature


def test_numbers_and_texts_do_not_go_into_one_collection():
    with pytest.raises(
        fm.InvalidInputError, match=r"auc_\d+ takes numbers, bleu_\d+ takes texts; put them into separate"
    ):
        fm.MetricCollection({"auc": fm.AUC(), "bleu": fm.BLEU()})
    with pytest.raises(fm.InvalidInputError, match="takes texts, entity_f1"):
        fm.TokenF1() + fm.EntityF1()
    both = fm.MetricCollection({"rows": fm.Count(), "wer": fm.WordErrorRate()})
    assert value(both, ["a"], ["b"]) == {"rows": 1, "wer": 1.0}


@pytest.mark.parametrize(
    "kind, module, package",
    [
        (fm.BLEU, "sacrebleu", "sacrebleu"),
        (fm.ROUGE, "rouge_score", "rouge-score"),
        (fm.CharErrorRate, "rapidfuzz", "'rapidfuzz>=3.8'"),
    ],
)
def test_a_missing_library_is_named_with_its_command(kind, module, package, monkeypatch):
    known = builtins.__import__

    def missing(name, *rest):
        if name.partition(".")[0] == module:
            raise ImportError(f"no {name}")
        return known(name, *rest)

    from fleetmetrics.metrics.text import rouge, translation

    for cache in (translation._scorer, rouge._scorer):
        cache.cache_clear()
    monkeypatch.setattr(optional, "_FOUND", {})
    monkeypatch.setattr(optional.importlib, "import_module", lambda name: missing(name, {}, {}, ["x"]))
    with pytest.raises(fm.MissingLibraryError, match=f"pip install {package}$"):
        value(kind(), ["a"], ["a"])
