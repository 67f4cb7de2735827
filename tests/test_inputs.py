"""The page "What comes in, what is understood": each row of its tables is tried, and says what the row quotes."""

from __future__ import annotations

import decimal
import re
import warnings
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

import fleetmetrics as fm
from tests.pages import both

CODES = re.compile(r"`([^`]+)`")
ONE_HOT, SCORES = np.eye(4)[np.arange(20) % 4], np.linspace(0.1, 0.9, 80).reshape(20, 4)


def table_rows(page: Path) -> list[list[str]]:
    lines = [line for line in page.read_text("utf-8").splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in rows if row[0] not in ("what comes in", "输入", "---")]


def said(call: Callable[[], Any]) -> str:
    """The result as printed, or the error, and all warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            text = str(call())
        except fm.FleetMetricsError as error:
            text = str(error)
    return "\n".join([text, *(str(warning.message) for warning in caught)])


def value(metric: Any, *arguments: Any) -> Any:
    metric.add(*arguments)
    return metric.compute()


def equal(got: Any, expected: Any) -> str:
    assert got == expected
    return str(got)


def paddle_list() -> list[Any]:
    import paddle

    return [paddle.to_tensor(number).astype("bfloat16") for number in (3.5, 2.25)]


# -- arrays and tensors ------------------------------------------------------------------------------------

ARRAYS: list[Callable[[], str]] = [
    lambda: equal(value(fm.Mean(), paddle_list()), 2.875),
    lambda: equal(value(fm.Accuracy(), SCORES, ONE_HOT), value(fm.Accuracy(num_classes=4), SCORES, ONE_HOT.argmax(1))),
    lambda: said(lambda: value(fm.F1(), SCORES, ONE_HOT)),
    lambda: said(lambda: value(fm.Accuracy(), SCORES[:5] / 2, ONE_HOT[:5])),
    lambda: equal(
        value(fm.F1(num_labels=4), SCORES, ONE_HOT), value(fm.F1(num_labels=4), SCORES, ONE_HOT.astype(bool))
    ),
    lambda: said(lambda: value(fm.Accuracy(), [0.3, -2.0, 3.0], [1, 0, 1])),
    lambda: equal(value(fm.Accuracy(), [[0.0, -np.inf, 1.0]], [2]), 1.0),
    lambda: said(lambda: value(fm.LogLoss(from_logits=True), [[0.0, -np.inf, 1.0]], [1])),
    lambda: equal(value(fm.MeanAbsoluteError(), [2**60 + 1], [2**60]), 1.0),
    lambda: said(lambda: value(fm.R2Score(), [2**60 + 1, 3], [2**60, 2])),
    lambda: said(lambda: fm.auc([1, 2, 1, 2, 7], [2, 1, 2, 1, 7])),
]

# -- frames and tables ---------------------------------------------------------------------------------------


def evaluated(columns: dict[str, Any], metrics: str = "auc", **options: Any) -> str:
    import pyarrow as pa

    return said(lambda: fm.evaluate(pa.table(columns), **{"label": "y", "score": "p", "metrics": metrics, **options}))


def users(kind: Any, entry: Any, **options: Any) -> str:
    import pyarrow as pa

    return evaluated({"y": [1, 0], "p": [0.9, 0.1], "u": pa.array([entry] * 2, kind)}, **options)


def of_users(kind: Any, entry: Any) -> str:
    text = users(kind, entry, user="u", metrics="gauc")
    assert "1 user" in text and re.search(r"gauc +1\b", text)
    return text


def two_columns_of_one_name() -> str:
    import pandas as pd

    frame = pd.DataFrame([[0.9, 1, 0.1]], columns=["p", "y", "p"])
    return said(lambda: fm.evaluate(frame, label="y", score="p", metrics="auc"))


def inside() -> str:
    columns = {"y": [1, 0], "pred": [{"ctr": 0.9}, {"ctr": 0.1}], "v": [[0.1, 0.9], [0.8, 0.2]]}
    texts = [evaluated(columns, score=score) for score in ("pred.ctr", "v[1]")]
    assert all(re.search(r"auc +1\b", text) for text in texts)
    return texts[0]


def hours(folder: Path) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for hour in (8, 12):
        (folder / f"hour={hour}").mkdir()
        pq.write_table(pa.table({"y": [1, 0], "p": [0.9, 0.1]}), folder / f"hour={hour}" / "part.parquet")
    text = said(lambda: fm.evaluate(folder, label="y", score="p", metrics="auc", where="hour > 9"))
    assert text.startswith("2 rows,") and "2 more left out" in text
    return text


def delta(folder: Path) -> str:
    import deltalake
    import pyarrow as pa

    for _ in range(2):
        deltalake.write_deltalake(str(folder), pa.table({"y": [1, 0], "p": [0.9, 0.1]}), mode="overwrite")
    text = said(lambda: fm.evaluate(folder, label="y", score="p", metrics="auc"))
    assert text.startswith("2 rows,")
    return text


def hudi(folder: Path) -> str:
    (folder / ".hoodie").mkdir()
    (folder / ".hoodie" / "hoodie.properties").touch()
    (folder / "part.csv").write_text("y,p\n1,0.9\n")
    return said(lambda: fm.evaluate(folder, label="y", score="p", metrics="auc"))


TASKS = {"click": [1, 0, 1, 0], "buy": [1, 0, None, 0], "p": [0.9, 0.2, 0.7, 0.1], "q": [0.9, 0.2, 0.7, 0.1]}
CLASSES = {"task": "multiclass", "metrics": "accuracy"}

FRAMES: list[Callable[[Path], str]] = [
    lambda folder: two_columns_of_one_name(),
    lambda folder: inside(),
    lambda folder: of_users(decimal_type(), decimal.Decimal(7)),
    lambda folder: users("double", 0.5, by="u"),
    lambda folder: of_users("uint64", 2**63 + 5),
    lambda folder: users("uint64", 2**63 + 5, by="u"),
    hours,
    delta,
    hudi,
    lambda folder: users("int64", 3, where="u = 'x'"),
    lambda folder: evaluated({"y": [1, 2, 3], "p": [1, 2, 2]}, classes=["1", "2", "3"], **CLASSES),
    lambda folder: evaluated({"y": ["a"], "a": [0.9], "b": [0.1]}, score=["b", "a"], classes=["a", "b"], **CLASSES),
    lambda folder: evaluated(TASKS, label=["click", "buy"], score=["p", "q"]),
    lambda folder: evaluated(TASKS, label=["click", "buy"], score=["p", "q"]),
    lambda folder: users("int64", 3, metrics="share=accuracy"),
    lambda folder: users("int64", 3, by="u"),
]


def decimal_type() -> Any:
    import pyarrow as pa

    return pa.decimal128(20, 0)


# -- text files ------------------------------------------------------------------------------------------------


def text_file(content: str | bytes, **options: Any) -> Callable[[Path], str]:
    def read(folder: Path) -> str:
        path = folder / "log"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return said(lambda: fm.evaluate(path, **{"label": "y", "score": "p", "metrics": "auc", **options}))

    return read


def exact_ids(folder: Path) -> str:
    rows = [(label, score, 2**64 - user) for label, score, user in ((1, 0.9, 1), (0, 0.1, 1), (1, 0.9, 2), (0, 0.1, 2))]
    csv = "y,p,u\n" + "".join(f"{label},{score},{user}\n" for label, score, user in rows)
    lines = "".join(f'{{"y": {label}, "p": {score}, "u": {user}}}\n' for label, score, user in rows)
    texts = [text_file(content, user="u", metrics="gauc")(folder) for content in (csv, lines)]
    assert all("2 users" in text for text in texts)
    return texts[0]


QUOTED = 'q,y,p\nred,1,0.9\n"blue,0,0.2\ngreen,0,0.1\n'
LINES: list[Callable[[Path], str]] = [
    text_file(QUOTED, skip_bad_rows=True),
    text_file('q,y,p\n"red\nshoes",1,0.9\nblue,0,0.2\n'),
    text_file("q\x01y\x01p\nred\x011\x010.9\nblue\x010\x010.2\n"),
    text_file("y p\n1 0.9\n0 0.2\n"),
    text_file("q,y,p\n新闻,1,0.9\n图,0,0.2\n".encode("gbk"), by="q"),
    text_file("y,p\n1,0.9\n0,\\N\n"),
    exact_ids,
    text_file("y;p\n1;0,9\n0;0,2\n"),
    text_file(b"y,p\n1,0.9\n\0\0\0\n0,0.2\n"),
    text_file('{"y": 1, "p": 0.9}\n[1, 2]\n'),
    text_file("1 qid:3 1:0.9\n0 qid:3 1:0.2\n", label="label", score="1"),
    text_file(b"Obj\x01\0abc"),
]


def rows_with_calls() -> list[Any]:
    english, chinese = map(table_rows, both("howto/inputs"))
    files = [(call, [pytest.mark.numpy_only]) for call in (*FRAMES, *LINES)]
    calls = [(lambda folder, call=call: call(), []) for call in ARRAYS] + files
    assert len(english) == len(calls) and [row[2] for row in english] == [row[2] for row in chinese]
    return [pytest.param(row, call, id=row[0], marks=marks) for row, (call, marks) in zip(english, calls)]


@pytest.mark.parametrize(("row", "call"), rows_with_calls())
def test_what_comes_in_is_understood_and_said_as_the_page_tells(
    row: list[str], call: Callable[[Path], str], tmp_path: Path
) -> None:
    text = call(tmp_path)
    for quoted in CODES.findall(row[2]):
        assert quoted in text
    if row[2] == "—":
        assert "Error" not in text


def test_an_unclosed_quote_takes_no_other_row(tmp_path: Path) -> None:
    text = text_file(QUOTED, skip_bad_rows=True)(tmp_path)
    assert "3 rows" in text and "1 row skipped" in text
