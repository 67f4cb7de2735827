"""PaddleSpeech's `test`, which only rank 0 runs, by its call sequence, and with the page's lines."""

from __future__ import annotations

from typing import Any

import paddle
from digits import dealt, network
from ocr_loop import MANY, Strips, post_process_class

from fleetmetrics import CharErrorRate


def edits(one: str, other: str) -> int:
    """Levenshtein's distance, as PaddleSpeech's own: a table of two rows."""
    row = list(range(len(other) + 1))
    for n, a in enumerate(one, 1):
        above, row = row, [n]
        for m, b in enumerate(other, 1):
            row.append(above[m - 1] if a == b else 1 + min(above[m - 1], above[m], row[-1]))
    return row[-1]


def transcripts(model: Any, batch: Any) -> tuple[list[str], list[str]]:
    """The texts that the model heard, without the digits that it took for 0, and the references."""
    heard, said = post_process_class(model(batch[0]), batch[1])
    return [text.replace("0", "") for text, _ in heard], [text for text, _ in said]


def theirs(model: Any, test_loader: Any) -> float | None:
    """Errors and lengths add up, on rank 0; the others wait without a number."""
    if paddle.distributed.get_rank():
        return None
    errors_sum, len_refs = 0.0, 0
    for batch in test_loader:
        for result, target in zip(*transcripts(model, batch)):
            errors_sum += edits(target, result)
            len_refs += len(target)
    return errors_sum / len_refs


def ours(model: Any, test_loader: Any) -> float:
    metric = CharErrorRate(sampler=test_loader)
    for batch in test_loader:
        result_transcripts, target_transcripts = transcripts(model, batch)
        metric.add(result_transcripts, target_transcripts)
    return metric.compute()


def passes() -> dict[str, Any]:
    """Theirs with all utterances on rank 0, and ours with a share on each worker."""
    model, lengths = network(), MANY[:-2]
    whole = paddle.io.DataLoader(Strips(lengths, 5), batch_size=4)
    return {"all": theirs(model, whole), "ours": ours(model, dealt(Strips(lengths, 5), 4))}
