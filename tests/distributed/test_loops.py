"""The evaluation loops of Paddle's projects on one and on three workers: what theirs print, and ours."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cover import quick_on
from tests.distributed.cluster import run, run_page
from tests.pages import both

pytestmark = [
    pytest.mark.distributed,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="Paddle is not installed"),
    quick_on(paddle=3),
]
WORKERS = Path(__file__).parent / "workers"
PAGE, CHINESE = both("howto/loops")
LOOPS = ("clas", "retrieval", "seg", "video", "nlp", "ocr", "det", "ppdet", "paddlex", "text", "chunk", "speech")
#: Of 103 pictures.
RIGHT, AMONG_FIVE = 58 / 103, 88 / 103


@pytest.fixture(scope="module")
def jobs() -> dict[int, list[dict[str, Any]]]:
    """What each worker reports, by the number of workers."""
    return {
        workers: run(WORKERS / "loops.py", workers, "bare" if workers == 1 else "collective", args={"loops": LOOPS})
        for workers in (1, 3)
    }


def in_the_table(loop: str) -> list[str]:
    """What the page says that a loop prints: on one worker, on three, and ours."""
    row = re.search(
        rf"^\| (?:\[[^]]*\]\([^)]*\)|\w+)?{re.escape(loop)} \|(.*)\|$", PAGE.read_text("utf-8"), re.MULTILINE
    )
    assert row is not None, loop
    return [cell.strip() for cell in row[1].split("|")]


@pytest.mark.thorough
def test_paddleclas_cuts_off_the_end_which_is_the_padding_only_in_order(jobs):
    for report in [*jobs[1], *jobs[3]]:
        for _, ours in report["clas"].values():
            assert ours["top1"] == RIGHT and ours["top5"] == AMONG_FIVE
            assert ours["loss"] == pytest.approx(jobs[1][0]["clas"]["in order"][1]["loss"], rel=1e-14)
    for theirs, ours in [*jobs[1][0]["clas"].values(), *(report["clas"]["in order"] for report in jobs[3])]:
        assert theirs == pytest.approx(ours, rel=1e-6)
    for report in jobs[3]:
        printed = [round(report["clas"][f"epoch {epoch}"][0]["top1"] * 103, 4) for epoch in range(6)]
        assert printed == [57, 57, 57, 56, 56, 56]
    assert in_the_table(", in order") == ["0.5631"] * 3
    assert in_the_table(", shuffled, epoch 3") == ["0.5631", f"{56 / 103:.4f}", f"{RIGHT:.4f}"]


def test_paddleclas_retrieval_lacks_shuffled_pictures_on_three_workers_and_ours_has_each_once(jobs):
    value = jobs[1][0]["retrieval"]["in order"][1]
    for report in [*jobs[1], *jobs[3]]:
        for _, ours in report["retrieval"].values():
            assert ours == value
        theirs, _ = report["retrieval"]["in order"]
        assert (theirs["mAP"], theirs["recall1"]) == pytest.approx((value["mAP"], value["recall@1"]), rel=1e-6)
    printed = [f"{report['retrieval']['shuffled'][0]['mAP'].item():.4f}" for report in (*jobs[1], *jobs[3])]
    assert len({*printed[1:]}) == 1
    assert in_the_table(", retrieval, mAP, shuffled") == [*printed[:2], f"{value['mAP']:.4f}"]


def test_paddlesegs_areas_are_right_on_any_number_of_workers_and_its_auc_on_one(jobs):
    for report in [*jobs[1], *jobs[3]]:
        for name in ("auc_roc", "ignored"):
            whole, ours = jobs[1][0]["seg"][name][0], report["seg"][name][1]
            for what in ("iou", "acc", "kappa", "dice"):
                np.testing.assert_allclose(ours[what], whole[what], rtol=1e-14)
            assert ours["miou"] == pytest.approx(whole["iou"].mean(), rel=1e-14)
        theirs, ours = report["seg"]["ignored"]
        np.testing.assert_array_equal(theirs["iou"], ours["iou"])
        assert (f"{theirs['iou'].mean():.4f}", theirs["iou"][3]) == ("0.6634", 1)
        assert ours["auc"] == jobs[1][0]["seg"]["ignored"][1]["auc"]
        assert report["seg"]["auc_roc"][1]["auc"] == pytest.approx(jobs[1][0]["seg"]["auc_roc"][0]["auc"], abs=5e-5)
    assert all("'NoneType' object has no attribute" in report["seg"]["auc_roc"][0] for report in jobs[3])
    assert in_the_table(", mIoU") == ["0.6634"] * 3
    area = f"{jobs[1][0]['seg']['auc_roc'][0]['auc']:.4f}"
    assert in_the_table(", `auc_roc=True`") == [area, "`AttributeError`", area]


def test_paddlevideos_validation_averages_means_and_its_loss_is_one_workers(jobs):
    for report in [*jobs[1], *jobs[3]]:
        for _, test, ours in report["video"].values():
            assert ours["top1"] == RIGHT and ours["top5"] == AMONG_FIVE
            assert ours["loss"] == pytest.approx(jobs[1][0]["video"]["1"][0]["loss"], rel=1e-6)
            assert test == pytest.approx({"top1": RIGHT, "top5": AMONG_FIVE}, rel=1e-6)
    theirs = [[report["video"][size][0] for report in (*jobs[1], *jobs[3])] for size in ("1", "4", "8", "16")]
    printed = [{f"{each['top1']:.4f}" for each in of[1:]} for of in theirs]
    assert printed == [{"0.5524"}, {"0.5463"}, {"0.5250"}, {"0.4931"}]
    assert [f"{each['loss']:.2f}" for each in theirs[-1]] == ["2.11", "1.48", "1.77", "3.90"]
    assert in_the_table(", validation, batches of 16") == [
        f"{theirs[-1][0]['top1']:.4f}",
        f"{theirs[-1][1]['top1']:.4f}, and three losses",
        f"{RIGHT:.4f}",
    ]


def test_paddlenlps_examples_print_each_workers_own_accuracy_and_a_mean_of_means_as_the_loss(jobs):
    for report in [*jobs[1], *jobs[3]]:
        for whole, _, ours in report["nlp"].values():
            assert ours["accuracy"] == RIGHT == pytest.approx(float(whole["accuracy"]), rel=1e-6)
            assert f"{ours['loss']:.2f}" == "2.07"
    assert f"{jobs[1][0]['nlp']['16'][0]['loss']:.2f}" == "2.11"
    each = [f"{report['nlp']['16'][1]['accuracy']:.4f}" for report in jobs[3]]
    assert in_the_table(", `DistributedBatchSampler`, batches of 16") == ["0.5631", ", ".join(each), f"{RIGHT:.4f}"]


def test_paddlexs_accuracy_depends_on_the_batch_and_on_several_workers_is_an_error(jobs):
    for report in [*jobs[1], *jobs[3]]:
        assert [ours for _, ours in report["paddlex"].values()] == [{"acc1": RIGHT, "acc5": AMONG_FIVE}] * 4
    alone = [f"{theirs['acc1']:.4f}" for theirs, _ in jobs[1][0]["paddlex"].values()]
    assert alone == ["0.5524", "0.5487", "0.5492", "0.5197"]
    for report in jobs[3]:
        assert all("unsupported operand" in theirs for theirs, _ in report["paddlex"].values())
    assert in_the_table(", 90 in a batch") == [alone[-1], "`TypeError`", f"{RIGHT:.4f}"]


def test_paddleocr_reads_two_of_seven_pictures_and_only_ours_says_so(jobs):
    for workers, records in ((1, 7), (3, 9)):
        for report in jobs[workers]:
            theirs, error, seen = report["ocr"]["2 of 7"]
            assert f"{theirs['acc']:.4f}" == f"{seen['acc']:.4f}" == "1.0000"
            assert theirs["read"] == 7 and seen["pictures"] == 2
            assert error.startswith(f"Texts: size is 7, but the {records} records have 2 distinct ids")
    assert in_the_table(", 2 of 7 images read") == [
        "1.0000",
        "1.0000, each reads all",
        'an error, with "2 distinct ids"',
    ]


def test_paddleocrs_metric_over_all_texts_is_that_of_one_process_to_the_bit(jobs):
    for report in [*jobs[1], *jobs[3]]:
        for name, pictures in (("7 of 7", 7), ("many", 40)):
            theirs, ours, seen = report["ocr"][name]
            assert theirs.pop("read") == pictures == ours["pictures"]
            assert ours == seen == {**theirs, "pictures": pictures}
        assert report["ocr"]["7 of 7"][1]["acc"] == 6 / (7 + 1e-5)


def test_metrics_of_texts_and_entities_are_those_of_one_process_and_theirs_of_one_worker(jobs):
    for report in [*jobs[1], *jobs[3]]:
        text, chunk, speech = report["text"], report["chunk"], report["speech"]
        assert text["ours"]["acc"] == 28 / 38 == pytest.approx(text["all"]["acc"], abs=1e-5)
        assert text["ours"]["norm_edit_dis"] == pytest.approx(text["all"]["norm_edit_dis"], abs=1e-6)
        assert chunk["ours"] == chunk["all"] and speech["ours"] == jobs[1][0]["speech"]["all"]
    alone = [report["speech"]["all"] for report in jobs[3]]
    assert alone == [jobs[1][0]["speech"]["all"], None, None]
    for loop, printed in (
        (", 38 lines of text, `acc`", [report["text"]["share"]["acc"] for report in jobs[3]]),
        (", `ChunkEvaluator`", [report["chunk"]["share"] for report in jobs[3]]),
    ):
        assert in_the_table(loop)[1] == ", ".join(f"{value:.4f}" for value in printed)
    whole = [f"{report:.4f}" for report in (28 / 38, chunk["ours"], speech["ours"])]
    for loop, value in zip((", 38 lines of text, `acc`", ", `ChunkEvaluator`", ", character error rate"), whole):
        assert in_the_table(loop)[0] == in_the_table(loop)[2] == value


def test_beside_these_loops_the_doctor_finds_every_worker_and_nothing_to_fix(jobs):
    for workers, reports in jobs.items():
        for rank, report in enumerate(reports):
            assert f"rank {rank} of {workers}: " in report["doctor"]
            assert report["doctor"].endswith("\nnothing to fix\n")


def test_the_chinese_page_has_the_same_lines_and_numbers():
    english, chinese = (page.read_text("utf-8") for page in (PAGE, CHINESE))
    for what in (r"```python\n.*?```", r"\b\d\.\d{2,}\b"):
        assert re.findall(what, english, re.DOTALL) == re.findall(what, chinese, re.DOTALL)


def test_paddleocrs_metric_over_all_boxes_is_that_of_one_process_shuffled_or_not(jobs):
    for report in [*jobs[1], *jobs[3]]:
        assert [ours for _, ours in report["det"].values()] == [jobs[1][0]["det"]["False"][0]] * 2
        assert all(0.5 < share < 1 for share in report["det"]["True"][1].values())


def test_paddledetections_boxes_count_once_also_where_every_worker_evaluates_everything(jobs):
    value = jobs[1][0]["ppdet"]["everything on every worker"]
    assert 0.3 < value["map"] < 1
    for report in [*jobs[1], *jobs[3]]:
        assert [repr(each) for each in report["ppdet"].values()] == [repr(value)] * 3
    assert in_the_table(", every worker evaluates all, mAP") == [
        f"{value['map']:.4f}",
        f"{value['map']:.4f}, three times the work",
        f"{value['map']:.4f}",
    ]


@pytest.mark.parametrize("name", LOOPS)
def test_the_lines_of_the_page_are_those_that_ran(name):
    block = re.search(
        rf"<!-- not run: {name}_loop.py has it -->\n```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL
    )
    ran = iter([line.strip() for line in (WORKERS / f"{name}_loop.py").read_text("utf-8").splitlines()])
    for line in filter(str.strip, block[1].splitlines()):
        assert line.strip() in ran, line


@quick_on(paddle=3)
def test_the_whole_loop_of_the_page_prints_the_same_on_three_workers(tmp_path: Path) -> None:
    """What one process prints, tests/test_docs.py looks at."""
    expected, printed = run_page(PAGE, "evaluate.py", tmp_path)
    assert len(printed) == 3 and all(expected in text.splitlines() for text in printed), printed
