"""PaddleOCR's `eval`, which PaddleX 3 starts too, by its call sequence, and with the lines of the page in its place.

The pictures are strips of one to five digits. A label that is longer than `max_text_length` cannot be encoded: the data
set gives the next picture in its place, and does not say so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
from digits import dealt, digits, network

from fleetmetrics import BaseMetric, InvalidInputError

SLOTS = 5
#: Lengths of strips. Of the seven two are short, and the network misreads the last.
SEVEN, MANY = (2, 5, 5, 5, 5, 3, 5), (1, 2, 3, 4, 5) * 8


class Strips(paddle.io.Dataset):
    """Strips of the given lengths, cut from the pictures; with `said` each comes with the index that it really has."""

    def __init__(self, lengths: Any, max_text_length: int, said: bool = False) -> None:
        self.lengths, self.max_text_length, self.said = lengths, max_text_length, said
        self.pictures, self.labels = digits()
        self.starts = 100 + np.cumsum([0, *lengths])

    def __getitem__(self, index: int) -> Any:
        start, end = self.starts[index : index + 2]
        if end - start > self.max_text_length:
            return self[(index + 1) % len(self)]
        strip, label = np.zeros((SLOTS, 64), "float32"), np.full(SLOTS, -1)
        strip[: end - start], label[: end - start] = self.pictures[start:end], self.labels[start:end]
        return (strip, label, np.int64(index)) if self.said else (strip, label)

    def __len__(self) -> int:
        return len(self.lengths)


def post_process_class(logits: Any, label: Any) -> Any:
    """The texts that were read and those that are true, each with its confidence."""
    read, true, shares = logits.argmax(-1).numpy(), label.numpy(), paddle.nn.functional.softmax(logits).max(-1).numpy()
    texts = [["".join(str(n) for n in row[real >= 0]) for row, real in zip(part, true)] for part in (read, true)]
    sure = [float(row[real >= 0].mean()) for row, real in zip(shares, true)]
    return list(zip(texts[0], sure)), [(text, 1.0) for text in texts[1]]


class TextMetric:
    """What PaddleOCR's metrics are to its loop: called with each batch, asked and emptied at the end."""

    def __init__(self) -> None:
        self.right = self.texts = 0
        self.distance = 0.0

    def __call__(self, post_result: Any) -> None:
        for (read, _), (true, _) in zip(*post_result):
            self.right += read == true
            self.distance += _edits(read, true) / max(len(read), len(true))
            self.texts += 1

    def get_metric(self) -> dict[str, float]:
        value = {"acc": self.right / (self.texts + 1e-5), "norm_edit_dis": 1 - self.distance / (self.texts + 1e-5)}
        self.__init__()  # type: ignore[misc]
        return value


def _edits(one: str, other: str) -> int:
    """Levenshtein's distance."""
    row = list(range(len(other) + 1))
    for n, a in enumerate(one, 1):
        above, row = row, [n]
        for m, b in enumerate(other, 1):
            row.append(min(above[m] + 1, row[-1] + 1, above[m - 1] + (a != b)))
    return row[-1]


def theirs(model: Any, valid_dataloader: Any, eval_class: Any) -> dict[str, float]:
    """Every worker that evaluates reads everything."""
    read = 0
    for batch in valid_dataloader:
        eval_class(post_process_class(model(batch[0]), batch[1]))
        read += len(batch[0])
    return {**eval_class.get_metric(), "read": read}


def fed(model: Any, valid_dataloader: Any, eval_class: Any) -> BaseMetric:
    class Texts(BaseMetric):
        def compute_metric(self, results):
            eval_class((results["read"], results["true"]))
            return {**eval_class.get_metric(), "pictures": len(results["read"])}

    metric = Texts()
    for batch in valid_dataloader:
        read, true = post_process_class(model(batch[0]), batch[1])
        metric.add(read=read, true=true, ids=batch[-1])
    return metric


def ours(model: Any, valid_dataloader: Any, eval_class: Any) -> dict[str, float]:
    metric = fed(model, valid_dataloader, eval_class)
    return metric.compute(size=len(valid_dataloader.dataset))


def passes() -> dict[str, Any]:
    """Seven pictures, of which two are seen; the seven, all seen; and more."""
    model, eval_class, found = network(slice(60)), TextMetric(), {}
    for name, lengths, most, batch_size in (("2 of 7", SEVEN, 4, 1), ("7 of 7", SEVEN, 5, 1), ("many", MANY, 5, 4)):
        alone = paddle.io.DataLoader(Strips(lengths, most), batch_size=batch_size)
        shared = dealt(Strips(lengths, most, said=True), batch_size)
        seen = fed(model, shared, eval_class).compute()
        try:
            value: Any = ours(model, shared, eval_class)
        except InvalidInputError as error:
            value = str(error)
        found[name] = [theirs(model, alone, eval_class), value, seen]
    return found
