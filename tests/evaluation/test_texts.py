"""Texts and tags in files and frames: columns of strings, and of lists of them."""

from __future__ import annotations

import json
import math

import pytest

import fleetmetrics as fm

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.numpy_only
SAID, HEARD, ROOM = ["turn it off", "what time is it", "stop"], ["turn it of", "what time is it", ""], ["a", "b", "a"]


def rates(data, **more):
    return fm.evaluate(data, label="said", score="heard", metrics="word_error_rate,char_error_rate", **more)


@pytest.fixture(params=["csv", "jsonl", "parquet", "frame"])
def data(request, tmp_path):
    columns = {"said": SAID, "heard": HEARD, "room": ROOM}
    rows = list(zip(*columns.values()))
    path = tmp_path / f"speech.{request.param}"
    if request.param == "csv":
        path.write_text("said,heard,room\n" + "".join(f'"{said}",{heard},{room}\n' for said, heard, room in rows))
    elif request.param == "jsonl":
        path.write_text("".join(json.dumps(dict(zip(columns, row))) + "\n" for row in rows))
    elif request.param == "parquet":
        import pyarrow as pa
        import pyarrow.parquet

        pyarrow.parquet.write_table(pa.table(columns), path)
    else:
        return pytest.importorskip("pandas").DataFrame(columns)
    return path


def test_texts_of_any_file_are_compared_also_empty_ones_and_by_slice(data):
    result = rates(data, by="room")
    assert result["word_error_rate"] == 2 / 8 and result["char_error_rate"] == 5 / 30
    by_room = {of_slice.key: of_slice.metrics["word_error_rate"] for of_slice in result.slices["room"]}
    assert by_room == {"a": 2 / 4, "b": 0}


def test_texts_that_look_like_numbers_stay_texts(tmp_path):
    path = tmp_path / "codes.csv"
    path.write_text("said,heard\n007,7\n1.50,1.5\n")
    assert rates(path)["char_error_rate"] == 3 / 7


def test_an_empty_text_is_one_beside_a_bad_number_too(tmp_path):
    path = tmp_path / "speech.csv"
    path.write_text("said,heard,w\na b,,1\nc,c,x\n")
    result = rates(path, weight="w", skip_bad_rows=True)
    assert result["word_error_rate"] == 1 and result.new.data.skipped == 1


def test_a_row_with_a_blank_reference_or_none_is_named_and_may_be_skipped(tmp_path):
    path = tmp_path / "speech.jsonl"
    path.write_text('{"said": "a b", "heard": "a b"}\n{"said": " ", "heard": "x"}\n{"said": "a", "heard": null}\n')
    with pytest.raises(fm.DataError, match=r"row 2, column 'heard': no value"):
        rates(path)
    result = rates(path, skip_bad_rows=True)
    assert result["word_error_rate"] == 0 and result.new.data.skipped == 2
    path.write_text('{"said": "a b", "heard": "a b"}\n{"said": " ", "heard": "x"}\n')
    with pytest.raises(fm.DataError, match=r"row 1, column 'said': ' ' where label must be a string that is not blank"):
        rates(path)


@pytest.mark.parametrize("name", ["tags.csv", "tags.jsonl"])
def test_tags_are_lists_or_between_blanks(tmp_path, name):
    rows = [("B-X O", "B-X B-Y"), ("O", "O")]
    path = tmp_path / name
    lines = [f"{said},{heard}" for said, heard in rows]
    if name.endswith("jsonl"):
        lines = [json.dumps({"said": said.split(), "heard": heard.split()}) for said, heard in rows]
    path.write_text("\n".join(["said,heard"] * name.endswith("csv") + lines) + "\n")
    assert fm.evaluate(path, label="said", score="heard", metrics="entity_f1")["entity_f1"] == 2 / 3


@pytest.mark.parametrize("kind", ["list of views", "views", "dictionary", "list of a dictionary", "only empty lists"])
def test_texts_and_lists_of_them_are_read_however_arrow_holds_them(kind):
    import pyarrow as pa

    tags = pa.array([["B-X", "O"], ["O"]])
    columns = {
        "list of views": tags.cast(pa.list_(pa.string_view())),
        "list of a dictionary": pa.ListArray.from_arrays(tags.offsets, tags.values.dictionary_encode()),
        "only empty lists": pa.array([[], []]),
        "views": pa.array(["B-X O", "O"], pa.string_view()),
        "dictionary": pa.array(["B-X O", "O"]).dictionary_encode(),
    }
    frame = pa.table({"said": columns[kind], "heard": columns[kind]})
    value = fm.evaluate(frame, label="said", score="heard", metrics="entity_f1")["entity_f1"]
    assert math.isnan(value) if kind == "only empty lists" else value == 1


def test_several_references_are_lists(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text('{"said": ["x", "the Tower"], "heard": "tower"}\n{"said": ["b"], "heard": "c"}\n')
    assert fm.evaluate(path, label="said", score="heard", metrics="string_match")["string_match"] == 0.5


@pytest.mark.parametrize("option", [{"scale": 2.0}, {"positive": "a"}, {"from_logits": True}])
def test_options_for_numbers_are_refused(option):
    with pytest.raises(fm.InvalidInputError, match="is for numbers, and the metrics take texts"):
        rates({"said": ["a"], "heard": ["a"]}, **option)


def test_two_systems_are_compared_on_the_same_texts():
    new = {"id": [1, 2, 3], "said": ["a b", "c", "d e"], "heard": ["a b", "x", "d"]}
    old = {**new, "heard": ["a", "x", "d"]}
    joined = rates(new, baseline=old, join_on="id")
    assert joined.deltas["word_error_rate"].value == pytest.approx(-1 / 5)
    paired = rates({**new, "before": old["heard"]}, baseline_score="before")
    assert paired.deltas["word_error_rate"].value == pytest.approx(-1 / 5)
    with pytest.raises(fm.InvalidInputError, match="label"):
        rates(new, baseline={**old, "said": ["a b", "c", "d f"]}, join_on="id")


def test_numbers_in_place_of_texts_and_several_tasks_are_refused():
    with pytest.raises(
        fm.InvalidInputError, match="'said' must hold strings, or lists of strings, for word_error_rate, not int64"
    ):
        rates({"said": [1], "heard": ["a"]})
    two = {"a": ["x"], "b": ["x"]}
    with pytest.raises(fm.InvalidInputError, match="metrics of texts have one"):
        fm.evaluate(two, label=["a", "b"], score=["a", "b"], metrics="char_error_rate")
    with pytest.raises(fm.InvalidInputError, match="auc takes numbers, bleu takes texts"):
        fm.evaluate(two, label="a", score="b", metrics="auc,bleu")


def test_a_report_of_entities_is_a_table_of_its_own():
    import pyarrow as pa

    frame = pa.table({"true": [["B-A", "O"], ["B-B"]], "tags": [["B-A", "B-B"], ["B-B"]], "room": ["a", "b"]})
    metrics = "entities=entity_report:types=['A','B']"
    result = fm.evaluate(frame, label="true", score="tags", metrics=metrics, by="room", baseline=frame)
    assert result["entities"]["B"] == {"precision": 0.5, "recall": 1.0, "f1-score": 2 / 3, "support": 1}
    assert "\nB                0.5000  1.0000    0.6667        1" in str(result)
    pytest.importorskip("jinja2")
    assert "macro avg" in result.to_html()


def test_a_result_names_the_signature_of_a_score_and_that_of_a_baseline_that_differs(tmp_path):
    import pyarrow as pa

    frame = {"said": SAID, "heard": [*HEARD[:2], "stop it"]}
    several = pa.table({**frame, "said": [SAID[:2], *([text] for text in SAID[1:])]})
    options = {"label": "said", "score": "heard", "metrics": "bleu,string_match"}
    result = fm.evaluate(frame, **options, baseline=several)
    new = result["bleu"].signature
    assert new.startswith("nrefs:1|") and "baseline_signature" not in fm.evaluate(frame, **options).to_dict()["about"]
    about = result.to_dict()["about"]
    assert (about["bleu"]["signature"], about["bleu"]["baseline_signature"]) == (
        new,
        new.replace("nrefs:1", "nrefs:var"),
    )
    assert "signature" not in about["string_match"]
    assert f"\nbleu: {new}; baseline: nrefs:var|" in str(result)
    fm.evaluate(frame, **options).save_state(tmp_path / "state")
    assert fm.evaluation.merge([tmp_path / "state"]).to_dict()["about"]["bleu"]["signature"] == new
    pytest.importorskip("jinja2")
    assert f"<bdi>{new}</bdi>" in result.to_html()
