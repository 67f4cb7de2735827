"""Scripts in the manner of MMEngine's and MMPretrain's documents start after ``migrate``, with neither installed."""

from __future__ import annotations

import collections
import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetmetrics.errors import DataError, InvalidInputError
from fleetmetrics.evaluator import DataSample, load
from fleetmetrics.migrate import migrated

pytestmark = pytest.mark.numpy_only

SCORES = "scores = np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5], [0.1, 0.8, 0.1], [0.4, 0.5, 0.1]])\n"
HEAD = f"""\
import numpy as np
from mmengine.evaluator import Evaluator
from mmpretrain.evaluation import *  # noqa
from mmpretrain.structures import DataSample
{SCORES}"""
SCRIPTS: dict[str, tuple[str, dict[str, Any]]] = {
    "Accuracy": (
        """
samples = [DataSample().set_gt_label(i % 3).set_pred_score(scores[i]) for i in range(4)]
evaluator = Evaluator(metrics=Accuracy(topk=(1, 2)))
evaluator.process(samples)
values = evaluator.evaluate(4)
""",
        {"accuracy/top1": 25.0, "accuracy/top2": 75.0},
    ),
    "Accuracy of predicted labels": (
        """
samples = [DataSample(num_classes=3).set_gt_label(i).set_pred_label(np.array(1)) for i in range(3)]
evaluator = Evaluator(metrics=[dict(type="Accuracy"), dict(type="SingleLabelMetric", items=["recall"])])
evaluator.process(samples)
values = evaluator.evaluate(3)
""",
        {"accuracy/top1": pytest.approx(100 / 3), "single-label/recall": pytest.approx(100 / 3)},
    ),
    "ConfusionMatrix": (
        """
samples = [DataSample().set_gt_label(i % 3).set_pred_score(scores[i]) for i in range(4)]
evaluator = Evaluator(metrics=ConfusionMatrix())
evaluator.process(samples)
values = {"matrix": evaluator.evaluate(4)["confusion_matrix/result"].tolist()}
""",
        {"matrix": [[1, 1, 0], [0, 0, 1], [0, 1, 0]]},
    ),
    "MultiLabelMetric": (
        """
truth = np.array([[1, 0, 1], [0, 0, 1], [0, 1, 0], [1, 0, 0]])
samples = [DataSample().set_pred_score(score).set_gt_score(true) for score, true in zip(scores, truth)]
evaluator = Evaluator(metrics=MultiLabelMetric(thr=0.5, items=("precision", "recall"), average="micro"))
evaluator.process(samples)
values = evaluator.evaluate(4)
""",
        {"multi-label/precision_micro": 75.0, "multi-label/recall_micro": 60.0},
    ),
    "AveragePrecision": (
        """
samples = [DataSample().set_pred_score(score).set_gt_score([1, 0, 0]) for score in scores]
samples[2].set_gt_score([0, 1, 1])
evaluator = Evaluator(metrics=AveragePrecision())
evaluator.process(samples)
values = evaluator.evaluate(4)
""",
        {"multi-label/mAP": pytest.approx(700 / 9)},
    ),
    "RetrievalRecall": (
        """
samples = [DataSample().set_gt_label([0, 1]).set_pred_score(score) for score in scores]
evaluator = Evaluator(metrics=RetrievalRecall(topk=(1, 2)))
evaluator.process(samples)
values = evaluator.evaluate(4)
""",
        {"retrieval/Recall@1": 75.0, "retrieval/Recall@2": 100.0},
    ),
    "a metric of one's own, which sees dicts": (
        """
from mmengine.evaluator import BaseMetric
from mmengine.registry import METRICS

@METRICS.register_module()
class SimpleAccuracyOfSamples(BaseMetric):
    default_prefix = "ACC"

    def process(self, data_batch, data_samples):
        for sample in data_samples:
            self.results.append({"pred": sample["pred_score"].argmax(), "gt": sample["gt_label"][0]})

    def compute_metrics(self, results):
        return {"accuracy": sum(result["pred"] == result["gt"] for result in results) / len(results)}

evaluator = Evaluator(metrics=dict(type="SimpleAccuracyOfSamples"))
evaluator.process([DataSample().set_gt_label(i % 3).set_pred_score(scores[i]) for i in range(4)])
values = evaluator.evaluate(4)
""",
        {"ACC/accuracy": 0.25},
    ),
    "predictions of a file": (
        """
from mmengine.fileio import load

evaluator = Evaluator(metrics=dict(type="Accuracy", topk=(1, 2)))
data = load("test_data.json")
data_samples = load("prediction.pkl")
values = evaluator.offline_evaluate(data_samples, data, chunk_size=3)
""",
        {"accuracy/top1": 25.0, "accuracy/top2": 75.0},
    ),
    "a tool": (
        """
import mmengine
from mmpretrain.registry import METRICS

values = Evaluator([METRICS.build(dict(type="Accuracy"))]).offline_evaluate(mmengine.load("prediction.pkl"), None)
""",
        {"accuracy/top1": 25.0},
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_documents_script_prints_its_values_after_migrate(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, expected = SCRIPTS[name]
    names = "Accuracy, AveragePrecision, ConfusionMatrix, MultiLabelMetric, RetrievalRecall"
    text, left = migrated(HEAD.replace("import *  # noqa", f"import {names}") + body)
    assert left == [] and "mmengine" not in text and "mmpretrain" not in text
    monkeypatch.chdir(tmp_path)
    scores: dict[str, Any] = {}
    exec(f"import numpy as np\n{SCORES}", scores)
    samples = [dict(pred_score=scores["scores"][i], gt_label=np.array([i % 3])) for i in range(4)]
    Path("prediction.pkl").write_bytes(pickle.dumps(samples, protocol=2))  # as MMEngine's dump writes
    Path("test_data.json").write_text(json.dumps([{"inputs": i} for i in range(4)]))
    room: dict[str, Any] = {"__name__": "script"}
    exec(compile(text, "script.py", "exec"), room)
    assert room["values"] == expected


# -- DataSample ------------------------------------------------------------------------------------------


def test_fields_are_attributes_and_facts_are_kept_apart() -> None:
    sample = DataSample(metainfo={"img_shape": (960, 720), "num_classes": 3}, caption="a cat")
    assert sample.set_gt_label(2).set_pred_score([0.25, 0.5, 0.25]).set_pred_label([1]) is sample
    sample.mask = np.eye(2)
    assert (sample.num_classes, sample.caption, sample.gt_label.tolist()) == (3, "a cat", [2])
    assert "mask" in sample and "img_shape" in sample and "gt_score" not in sample and "_metainfo_fields" not in sample
    assert sample.keys() == ["caption", "gt_label", "pred_score", "pred_label", "mask"]
    assert sample.metainfo == {"img_shape": (960, 720), "num_classes": 3}
    assert [*sample.to_dict()] == [*sample.metainfo, *sample.keys()] == [*sample.metainfo, *dict(sample.items())]
    assert sample.get("pred_label").tolist() == [1] and sample.get("gt_score", 7) == 7 and sample.get("x") is None
    del sample.mask
    assert "mask" not in sample and repr(DataSample().set_gt_label(1)) == "DataSample(gt_label=array([1]))"
    with pytest.raises(AttributeError, match="no 'gt_lable'; it has img_shape, num_classes, caption, gt_label"):
        print(sample.gt_lable)
    other = copy.deepcopy(sample).set_gt_label(0)
    assert (sample.gt_label.item(), other.gt_label.item(), other.num_classes) == (2, 0, 3)


def test_facts_are_copies_and_the_number_of_classes_is_that_of_the_scores() -> None:
    shape = [1, 2]
    sample = DataSample(metainfo={"img_shape": shape}).set_gt_score([1, 0, 0, 1])
    shape.append(3)
    assert sample.img_shape == [1, 2] and sample.metainfo["num_classes"] == 4


def test_labels_are_integers_and_scores_keep_their_precision() -> None:
    sample = DataSample().set_gt_label(np.float32([0, 2])).set_pred_label(True).set_pred_score(np.float32([0.1, 0.9]))
    assert sample.gt_label.dtype == sample.pred_label.dtype == np.int64
    assert sample.gt_label.tolist() == [0, 2] and sample.pred_score.dtype == np.float32


class Tensor:
    """As much of a tensor of torch or Paddle as is used."""

    def __init__(self, *shape: int) -> None:
        self.shape, self.ndim = shape, len(shape)

    def __len__(self) -> int:
        return self.shape[0]

    def cpu(self) -> Tensor:
        return self

    def reshape(self, shape: list[int]) -> Tensor:
        return Tensor(*shape)


def test_a_tensor_stays_a_tensor_on_its_device() -> None:
    sample = DataSample().set_gt_label(Tensor()).set_pred_score(Tensor(5))
    assert (sample.gt_label.shape, sample.pred_score.shape, sample.num_classes) == ((1,), (5,), 5)
    with pytest.raises(
        InvalidInputError, match="pred_score of one sample must have one axis, not the shape \\[2, 5\\]"
    ):
        DataSample().set_pred_score(Tensor(2, 5))


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("gt_label", 0.5, "gt_label must hold classes, as integers, not 0.5"),
        ("pred_label", "cat", "pred_label must hold classes, as integers, not 'cat'"),
        ("gt_label", [[0], [1]], "gt_label of one sample must have one axis, not the shape \\[2, 1\\]"),
        ("gt_label", float("nan"), "gt_label must hold classes, as integers, not nan"),
        ("pred_score", 0.5, "pred_score of one sample must have one axis, not the shape \\[\\]"),
        ("gt_score", ["a", "b"], "gt_score must hold a number for each class, not \\['a', 'b'\\]"),
        ("pred_score", [0.1, 0.9], "pred_score has 2 entries, and num_classes is 3"),
    ],
)
def test_what_cannot_be_a_label_or_a_score_is_named(name: str, value: Any, text: str) -> None:
    sample = DataSample(metainfo={"num_classes": 3})
    with pytest.raises(InvalidInputError, match=text):
        getattr(sample, f"set_{name}")(value)
    assert name not in sample


# -- load ------------------------------------------------------------------------------------------------

PLAIN = [
    {"a": 1, "b": [2.5, None, "c", b"d", (True, 1 + 2j)], "c": collections.OrderedDict(x={1, 2})},
    np.array([[0.25, 0.75]]),
    np.array(["a", "bc"]),
    np.array([{"x": 1}, None], dtype=object),
    np.float32(0.5),
    np.int64(2**62),
    np.zeros([0, 3], "int8"),
]


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
def test_a_pickle_of_plain_values_and_arrays_is_read(value: Any, protocol: int, tmp_path: Path) -> None:
    path = tmp_path / "values.pickle"
    path.write_bytes(pickle.dumps([value], protocol))
    (back,) = load(path)
    assert type(back) is type(value)
    if isinstance(value, (np.ndarray, np.generic)):
        assert back.dtype == value.dtype and back.tolist() == value.tolist()
    else:
        assert back == value


def test_data_samples_are_read_also_those_of_mmpretrain(tmp_path: Path) -> None:
    data = pickle.dumps(DataSample(metainfo={"num_classes": 2}).set_gt_label(1), 2)
    for module in (b"fleetmetrics.evaluator.stand_ins", b"mmpretrain.structures.data_sample"):
        assert data.count(b"fleetmetrics.evaluator.stand_ins") == 1
        (tmp_path / "a.pkl").write_bytes(data.replace(b"fleetmetrics.evaluator.stand_ins", module))
        sample = load(tmp_path / "a.pkl")
        assert type(sample) is DataSample and sample.to_dict() == {"num_classes": 2, "gt_label": np.array([1])}


class Bad:
    def __reduce__(self) -> Any:
        return print, ("code of the file has run",)


def test_a_pickle_that_could_run_code_is_refused_unless_the_script_asks_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.pkl"
    path.write_bytes(pickle.dumps([1, Bad()]))
    with pytest.raises(InvalidInputError, match=r"bad.pkl holds builtins.print, .* load\(..., allow_pickle=True\)"):
        load(path)
    assert capsys.readouterr().out == ""
    assert load(str(path), allow_pickle=True) == [1, None] and capsys.readouterr().out == "code of the file has run\n"
    for name in ("eval", "getattr", "type"):
        path.write_bytes(f"cbuiltins\n{name}\n.".encode())
        with pytest.raises(InvalidInputError, match=f"holds builtins.{name}"):
            load(path)
    path.write_bytes(b"cnumpy\nload\n.")
    with pytest.raises(InvalidInputError, match=r"holds numpy\.load"):
        load(path)


@pytest.mark.parametrize(
    ("name", "content", "error", "text"),
    [
        ("a.json", b'{"a": 1', DataError, "a.json cannot be read as json: JSONDecodeError"),
        ("a.pkl", b"\x80\x04K", DataError, "a.pkl cannot be read as pkl: "),
        ("a.pkl", b"", DataError, "a.pkl cannot be read as pkl: EOFError"),
        ("a.yml", b"a: 1", InvalidInputError, "a.yml: the format must be json, pkl or pickle, not 'yml'"),
        ("a.npz", b"", InvalidInputError, "Evaluator.offline_evaluate reads .parquet, .npz and more by itself"),
        ("a.json", None, FileNotFoundError, "a.json"),
    ],
)
def test_what_cannot_be_read_is_named(
    name: str, content: bytes | None, error: type[Exception], text: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=text):
        load(tmp_path / name)


def test_the_format_may_be_said(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("[1, 2]")
    assert load(tmp_path / "a.txt", "json") == load(tmp_path / "a.txt", file_format="json") == [1, 2]
