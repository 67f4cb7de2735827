"""Losses of language models: one look at the logits, each token once, and what is an error."""

from __future__ import annotations

import functools
import math
import tracemalloc

import numpy as np
import paddle
import pytest
from scipy.special import log_softmax

import fleetmetrics as fm
from fleetmetrics.batch import scores as blocks
from tests import contract
from tests.contract import Data

ROWS, WIDTH, CLASSES = 6, 5, 7
KINDS = [fm.TokenLoss, fm.Perplexity, fm.BitsPerByte]
MODES = pytest.mark.parametrize("mode", ["numpy", "dynamic"])
BYTES = np.arange(3, 3 + ROWS)


def drawn(rows: int = ROWS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits, labels of which -100 are some, and the loss of each token: 0 where the label is -100."""
    rng = np.random.default_rng(7)
    logits, label = rng.normal(size=(rows, WIDTH, CLASSES)), rng.integers(0, CLASSES, (rows, WIDTH))
    label[0, 2:], label[3] = -100, -100
    own = np.take_along_axis(log_softmax(logits, axis=-1), label.clip(0)[..., None], -1)[..., 0]
    return logits, label, np.where(label == -100, 0, -own)


def given(mode, *arrays):
    return [each if mode == "numpy" or each is None else paddle.to_tensor(each) for each in arrays]


def made(kind, **settings):
    return kind(ignore_index=-100, **settings)


def columns(metric):
    return {"bytes": BYTES} if isinstance(metric, fm.BitsPerByte) else {}


@pytest.fixture(params=["one block", "small blocks"])
def block(request, monkeypatch):
    if request.param == "small blocks":
        monkeypatch.setattr(blocks, "_BLOCK", {True: 2 * CLASSES, False: 3 * CLASSES})


# -- values ----------------------------------------------------------------------------------------------


@MODES
@pytest.mark.parametrize("validate", [True, False])
def test_a_token_counts_once_with_any_masks_and_weights(mode, validate, block):
    logits, label, losses = drawn()
    rng = np.random.default_rng(0)
    logits[3], label[5, 0] = np.nan, 99  # of no class
    for weight, mask in (
        (None, np.arange(ROWS) != 5),
        (np.arange(ROWS) % 5, None),
        (None, np.append(rng.random((ROWS - 1, WIDTH)) < 0.7, [[False] * WIDTH], axis=0)),
        (np.arange(ROWS) % 5 + 0.5, np.arange(ROWS) % 5 > 0),
    ):
        each = np.ones((ROWS, WIDTH))
        for part in (weight, mask):
            each = (
                each if part is None else each * (part.T * np.ones((WIDTH, ROWS))).T if part.ndim == 1 else each * part
            )
        each[label == -100] = 0
        of_row = np.where(each.any(axis=1), each.max(axis=1), 0)
        expected = (each * np.nan_to_num(losses)).sum()
        for kind, divisor in ((fm.TokenLoss, each.sum()), (fm.BitsPerByte, np.log(2) * (of_row * BYTES).sum())):
            metric = made(kind, validate=validate)
            metric.add(*given(mode, logits, label, weight, mask), **columns(metric))
            assert metric.compute() == pytest.approx(expected / divisor, rel=1e-12)


@pytest.mark.numpy_only
def test_bytes_may_be_those_of_tokens():
    _, label, losses = drawn()
    sizes = np.arange(ROWS * WIDTH).reshape(ROWS, WIDTH)
    metric = made(fm.BitsPerByte, of="token_losses")
    metric.add(losses, label, bytes=sizes)
    assert metric.compute() == pytest.approx(losses.sum() / np.log(2) / sizes[label != -100].sum())


@MODES
def test_losses_give_the_number_of_the_logits(mode):
    logits, label, losses = drawn()
    counts = (label != -100).sum(axis=1)
    means = losses.sum(axis=1) / np.maximum(counts, 1)
    means[3] = np.nan  # of no token
    for kind in KINDS:
        exact, of_tokens = made(kind), made(kind, of="token_losses")
        of_means = kind(of="mean_losses")
        exact.add(*given(mode, logits, label), **columns(exact))
        of_tokens.add(*given(mode, losses, label), **columns(exact))
        of_means.add(*given(mode, means, counts.astype("float32")), **columns(exact))
        assert of_tokens.compute() == pytest.approx(exact.compute(), rel=1e-12)
        if kind is not fm.BitsPerByte:  # which has the bytes of all texts there
            assert of_means.compute() == pytest.approx(exact.compute(), rel=1e-12)


@pytest.mark.numpy_only
def test_losses_and_tokens_may_be_named():
    metric = fm.Perplexity(of="mean_losses")
    metric.add(loss=1.0, tokens=3)
    metric.add(loss=5.0, tokens=1)
    assert metric.compute() == math.exp(2.0)


@pytest.mark.numpy_only
def test_classes_that_cannot_be_have_a_logit_of_minus_infinity():
    logits, label, losses = drawn()
    spare = np.full((ROWS, WIDTH, 3), -np.inf)
    metric = made(fm.TokenLoss)
    metric.add(np.concatenate([logits, spare], axis=-1), label)
    assert metric.compute() == pytest.approx(losses.sum() / (label != -100).sum(), rel=1e-12)


@pytest.mark.numpy_only
@pytest.mark.parametrize("kind", KINDS)
def test_where_no_token_counts_the_value_is_undefined(kind):
    logits, label, _ = drawn()
    metric = made(kind)
    metric.add(logits[3:4], label[3:4], **{name: each[3:4] for name, each in columns(metric).items()})
    with pytest.warns(fm.UndefinedMetricWarning):
        assert math.isnan(metric.compute())


@pytest.mark.numpy_only
def test_the_metrics_of_a_collection_look_at_the_logits_once(monkeypatch):
    logits, label, _ = drawn()
    together = fm.MetricCollection([made(kind, name=kind.__name__) for kind in KINDS])
    looks = []
    from fleetmetrics.xp import numpy_ops

    whole = numpy_ops.log_sum_of_rows
    monkeypatch.setattr(numpy_ops, "log_sum_of_rows", lambda scores: looks.append(len(scores)) or whole(scores))
    together.add(logits, label, bytes=BYTES)
    assert looks == [(label != -100).sum()]  # and not at those that do not count


@pytest.mark.numpy_only
@pytest.mark.parametrize("class_axis", [2, 1])
def test_logits_are_not_copied(class_axis):
    rng = np.random.default_rng(0)
    logits = np.moveaxis(rng.normal(size=(32, 1024, 200)).astype(np.float32), -1, class_axis)
    logits, label = np.ascontiguousarray(logits), rng.integers(-1, 200, (32, 1024))
    metric = fm.MetricCollection([fm.Perplexity(ignore_index=-1, class_axis=class_axis), fm.TokenLoss(ignore_index=-1)])
    tracemalloc.start()
    metric.add(logits, label)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6e6 < logits.nbytes / 4


@MODES
@pytest.mark.parametrize("of", ["logits", "token_losses"])
def test_a_text_that_a_sampler_deals_twice_counts_once(of, mode, block):
    logits, label, losses = drawn(5)
    parts = []
    for rank in range(2):
        sampler = paddle.io.DistributedBatchSampler(range(5), 2, num_replicas=2, rank=rank, shuffle=True)
        metric = made(fm.BitsPerByte, of=of, sampler=sampler)
        for places in sampler:
            metric.add(*given(mode, (logits if of == "logits" else losses)[places], label[places]), bytes=BYTES[places])
        parts.append(metric)
    counted = (label != -100).any(axis=1)
    expected = losses.sum() / np.log(2) / BYTES[:5][counted].sum()
    assert fm.merge_all(parts).compute() == pytest.approx(expected, rel=1e-12)


@pytest.mark.numpy_only
def test_intervals_and_slices_take_texts():
    logits, label, losses = drawn()
    sliced = fm.Sliced(made(fm.BitsPerByte), by="source")
    sliced.add(logits, label, bytes=BYTES, source=["a", "b"] * 3)
    values = sliced.compute()
    for name, rows in (("a", slice(0, None, 2)), ("b", slice(1, None, 2))):
        counted = (label[rows] != -100).any(axis=1)
        expected = losses[rows].sum() / np.log(2) / BYTES[rows][counted].sum()
        assert values[name] == pytest.approx(expected, rel=1e-12)
    drawn_ = fm.Bootstrap(made(fm.BitsPerByte), replicates=20, ids="text")
    drawn_.add(logits, label, bytes=BYTES, text=np.arange(ROWS))
    found = drawn_.compute()
    assert found.low <= found.value <= found.high


@pytest.mark.parametrize("kind", KINDS)
def test_a_static_program_gives_the_number_of_the_arrays(kind):
    logits, label, _ = drawn()
    mask = np.random.default_rng(3).random((ROWS, WIDTH)) < 0.8
    metric, arrays = made(kind), made(kind)
    data = Data(logits, label, None, mask, columns(metric))
    scope = contract.feed(metric, [data.rows(0, 4), data.rows(4, ROWS)], "static")
    arrays.add(logits, label, mask=mask, **columns(metric))
    assert metric.compute(scope) == pytest.approx(arrays.compute(), rel=1e-12)


# -- settings --------------------------------------------------------------------------------------------


@pytest.mark.numpy_only
@pytest.mark.parametrize(
    "settings, told",
    [
        ({"of": "losses"}, r"^of must be one of 'logits', 'token_losses', 'mean_losses', not 'losses'"),
        ({"of": "mean_losses", "ignore_index": -100}, r"^ignore_index needs of='logits' or of='token_losses'"),
        ({"of": "token_losses", "class_axis": 1}, r"^class_axis needs of='logits'"),
    ],
)
def test_a_setting_that_does_not_fit_is_an_error(settings, told):
    with pytest.raises(fm.InvalidInputError, match=told):
        fm.TokenLoss(**settings)


# -- bad input -------------------------------------------------------------------------------------------


def refused(metric, told, *arguments, **more):
    with pytest.raises(fm.InvalidInputError, match=told):
        metric.add(*arguments, **more)
    assert not metric.holds_samples()


@MODES
def test_a_label_outside_the_classes_is_counted_and_located(mode, block):
    logits, label, _ = drawn()
    label[1, 2], label[4, 4] = 7, -1
    told = r"label must be a class: a whole number from 0 to 6, or ignore_index=-100; 2 of 30 .* position \[1, 2\]: 7"
    refused(made(fm.TokenLoss), told, *given(mode, logits, label))
    refused(
        fm.TokenLoss(),
        r"10 of 30 samples are not, the first at position \[0, 2\]: -100",
        *given(mode, logits, label),
    )


@MODES
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_logits_that_give_a_label_no_finite_loss_are_counted_and_located(value, mode, block):
    logits, label, _ = drawn()
    logits[1, 2, label[1, 2]] = logits[4, 4, label[4, 4]] = logits[3, 0, 0] = value  # the last one is ignored
    told = r"prediction must be logits without nan and inf.*2 of 30 samples are not, the first at position \[1, 2\]: \["
    refused(made(fm.TokenLoss), told, *given(mode, logits, label))


@MODES
def test_probabilities_in_the_place_of_logits_are_an_error_and_a_few_rows_of_them_are_not(mode, block):
    logits, label, _ = drawn()
    probabilities = np.exp(log_softmax(logits, axis=-1))
    told = r"prediction must be logits, but all of these are probabilities .*30 of 30 .* first at position \[0, 0\]"
    refused(made(fm.Perplexity), told, *given(mode, probabilities, label))
    probabilities[3] = np.nan  # of no token
    refused(made(fm.Perplexity), "prediction must be logits, but all", *given(mode, probabilities, label))
    probabilities[5] *= 2
    metric = made(fm.Perplexity)
    metric.add(*given(mode, probabilities, label))
    assert metric.compute() > 1


@MODES
def test_negative_losses_and_nan_are_counted_and_located(mode):
    _, label, losses = drawn()
    losses[0, 0], losses[3, 0], losses[4, 1] = np.nan, np.nan, -0.5
    told = r"loss must be a loss: a finite number of at least 0 .*2 of 30 .* first at position \[0, 0\]: nan"
    refused(made(fm.TokenLoss, of="token_losses"), told, *given(mode, losses, label))


@pytest.mark.numpy_only
@pytest.mark.parametrize("value, told", [(-3, "-3"), (2.5, "2.5"), (np.inf, "inf"), (np.nan, "nan")])
def test_a_number_of_tokens_is_whole_and_at_least_0(value, told):
    refused(
        fm.TokenLoss(of="mean_losses"), rf"tokens must be a whole number of at least 0.*: {told}\.", 2.0, tokens=value
    )


@pytest.mark.numpy_only
def test_a_mean_without_its_number_of_tokens_is_an_error_that_says_what_to_give():
    refused(fm.TokenLoss(of="mean_losses"), r"tokens, the number .*, is missing.*add\(loss, tokens\)", 2.0)
    refused(
        fm.TokenLoss(of="token_losses"),
        r"loss is one number.*Use of='mean_losses' for a mean and its number of tokens",
        np.array(2.0),
    )


@pytest.mark.numpy_only
def test_an_argument_of_another_kind_of_input_is_an_error():
    logits, label, losses = drawn()
    refused(made(fm.TokenLoss), "prediction has the label's shape.*of='token_losses'", losses, label)
    refused(made(fm.TokenLoss), "label is missing", logits)
    refused(made(fm.TokenLoss), "loss does not belong to of='logits'", loss=losses, label=label)
    refused(made(fm.TokenLoss), "tokens does not belong to of='logits'", logits, tokens=label)
    refused(made(fm.TokenLoss, of="token_losses"), "loss has an axis of 7 more than the label", logits, label)
    refused(made(fm.TokenLoss, of="token_losses"), "label is missing, and ignore_index", losses)


@pytest.mark.numpy_only
def test_bytes_are_whole_numbers_of_at_least_0_and_go_with_weights_by_row():
    logits, label, losses = drawn()
    refused(made(fm.BitsPerByte), "bytes is missing", logits, label)
    told = r"bytes must be a whole number of at least 0, .*5 of 30 samples are not, the first at position \[1, 0\]: -2"
    refused(made(fm.BitsPerByte), told, logits, label, bytes=[1, -2, 3, 4, 5, 6])
    refused(made(fm.BitsPerByte), "bytes must hold integers, not strings", logits, label, bytes=list("abcdef"))
    refused(
        made(fm.BitsPerByte), "weight has one entry per token and bytes one per row", logits, label, losses, bytes=BYTES
    )


def test_a_static_program_leaves_bad_tokens_out_and_compute_raises():
    logits, label, losses = drawn()
    bad = logits.copy()
    bad[1, 2, 0] = np.nan
    metric = made(fm.TokenLoss)
    scope = contract.feed(metric, [Data(bad, label)], "static")
    with pytest.raises(
        fm.InvalidInputError, match=r"1 of 30 samples was invalid and left out, the first at position 7"
    ):
        metric.compute(scope)
    metric.validate = False
    expected = (losses.sum() - losses[1, 2]) / ((label != -100).sum() - 1)
    assert metric.compute(scope) == pytest.approx(expected, rel=1e-12)
    probabilities = functools.partial(made, fm.TokenLoss)()
    scope = contract.feed(probabilities, [Data(np.exp(log_softmax(logits, axis=-1)), label)], "static")
    with pytest.raises(fm.InvalidInputError, match="30 of 30 samples were invalid"):
        probabilities.compute(scope)


@pytest.mark.numpy_only
def test_a_perplexity_beyond_float64_is_infinite_and_the_largest_one_is_not():
    for mean, finite in ((709.7, True), (709.8, False)):
        metric = fm.Perplexity(of="mean_losses")
        metric.add(mean, tokens=10)
        assert math.isfinite(metric.compute()) is finite


@pytest.mark.numpy_only
@pytest.mark.parametrize(
    "kind, warning",
    [
        (fm.TokenLoss, r"token_loss is undefined: no token counts \(their total weight is 0\)"),
        (fm.Perplexity, r"perplexity is undefined: no token counts \(their total weight is 0\)"),
        (fm.BitsPerByte, "bits_per_byte is undefined: there are no bytes"),
    ],
)
def test_without_tokens_or_bytes_the_value_is_undefined(kind, warning):
    with pytest.warns(fm.UndefinedMetricWarning, match=f"^{warning}"):
        assert math.isnan(kind().compute())
    assert kind(zero_division=0.5).compute() == 0.5
