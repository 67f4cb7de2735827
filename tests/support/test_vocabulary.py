"""The words of messages: articles, plurals, and verbs that agree with a number."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.support.vocabulary import agreeing, counted, entries_in_words, with_article

pytestmark = pytest.mark.numpy_only

AN = "AUC F1 FBeta MRR NDCG R2Score RPrecision XAUC ExactAUC Interval Evaluator int object ndarray Unpickler HTTPError"
A = "GAUC UAUC COPC MAP ROCCurve Sliced FallOutAtK Mean HitRate LogLoss RecallAtK UtilCommunicator uint8 str NoneType"
#: Forms of "a" or "an" before what a program puts in.
ARTICLE = re.compile(r"\ban? \{[^{}]*(__name__|__qualname__|_CLASS)")


def test_a_class_has_the_article_of_how_its_name_is_spoken() -> None:
    assert [name for name in AN.split() if with_article(name) != f"an {name}"] == []
    assert [name for name in A.split() if with_article(name) != f"a {name}"] == []


def test_one_thing_is_singular_and_so_is_its_verb() -> None:
    assert counted(1, "queries", "have") == "1 query has" and counted(0, "queries", "have") == "0 queries have"
    assert counted(1, "classes", "are") == "1 class is" and counted(1200, "classes", "were") == "1,200 classes were"
    assert agreeing(1, "hold") == "holds" and agreeing(2, "hold") == "hold"


def test_messages_leave_articles_of_classes_to_one_function() -> None:
    package = Path(fm.__file__).parent
    assert [str(path) for path in package.rglob("*.py") if ARTICLE.search(path.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    "array, words",
    [
        (np.array(["cat"]), "strings such as 'cat'"),
        (np.array([b"a"]), "bytes such as b'a'"),
        (np.array([1, None, 2]), "objects such as None"),
        (np.array([2**70]), f"objects such as {2**70}"),
        (np.array(["2020-01-01"], "datetime64[D]"), "times such as 2020-01-01"),
        (np.array([], "<U3"), "strings"),
        (np.zeros(2, np.float32), "float32"),
    ],
)
def test_what_an_array_holds_is_said_without_numpys_abbreviations(array, words):
    assert entries_in_words(array) == words
