"""A Trainer that is followed, in one process: what it is left with, what it refuses and what it warns of."""

from __future__ import annotations

import math
from types import SimpleNamespace

import paddle
import pytest

import fleetmetrics as fm
from fleetmetrics.integrations.trainer import follow
from tests.field_samplers import DistributedBatchSampler
from tests.trainer import TEXTS, Pipeline, Trainer, criterion, loss_of


def test_the_loss_and_the_perplexity_are_there_without_a_word():
    trainer = Trainer(0, 1)
    follow(trainer)
    values = trainer.evaluate(metric_key_prefix="held_out")
    assert values["held_out_loss"] == pytest.approx(loss_of(), rel=1e-12)
    assert values["held_out_perplexity"] == math.exp(values["held_out_loss"])


def test_it_waits_for_the_others_as_long_as_it_is_told():
    trainer = Trainer(0, 1)
    follow(trainer, timeout=-3)
    with pytest.raises(fm.InvalidInputError, match="timeout is -3"):
        trainer.evaluate()


def test_a_trainer_that_is_left_is_as_it_was():
    trainer = Trainer(0, 1)
    before = trainer.evaluate()
    follow(trainer).leave()
    assert trainer.evaluate() == before
    assert not {"evaluation_loop", "prediction_step", "get_eval_dataloader", "_get_eval_sampler"} & set(vars(trainer))
    follow(trainer)
    with pytest.raises(fm.InvalidInputError, match="trainer already has EvaluationMetrics"):
        follow(trainer)


def test_a_prediction_is_left_alone():
    trainer = Trainer(0, 1)
    following = follow(trainer)
    loader = trainer.get_eval_dataloader()
    trainer.evaluation_loop(loader, "Prediction", False)
    assert not following.metrics.holds_samples() and trainer.gathered


def test_callers_that_ask_for_logits_still_get_them():
    trainer = Trainer(0, 1)
    follow(trainer)
    trainer.evaluation_loop(trainer.get_eval_dataloader(), "Evaluation", False)
    assert len(trainer.gathered) == math.ceil(TEXTS / 2)


def test_an_evaluation_of_a_few_steps_is_of_their_samples():
    trainer = Trainer(0, 3)  # as if there were others
    following = follow(trainer)
    trainer.evaluation_loop(trainer.get_eval_dataloader(), "Evaluation", True, max_eval_iters=1)
    assert following.metrics.compute()["loss"] == pytest.approx(loss_of([0, 1]), rel=1e-12)


@pytest.mark.parametrize(("rank", "own"), [(0, [0, 1, 6, 7, 12]), (1, [2, 3, 8, 9]), (2, [4, 5, 10, 11])])
def test_what_the_last_of_a_few_steps_repeats_does_not_count(rank, own):
    trainer = Trainer(rank, 3, sampler=paddle.io.DistributedBatchSampler)  # as if there were others
    following = follow(trainer)
    trainer.evaluation_loop(trainer.get_eval_dataloader(), "Evaluation", True, max_eval_iters=3)
    assert following.metrics.compute()["loss"] == pytest.approx(loss_of(own), rel=1e-12)


def test_a_sampler_of_a_part_of_the_samples_stays_without_a_warning():
    trainer = Trainer(1, 3, sampler=DistributedBatchSampler, max_evaluate_steps=1)
    trainer.evaluations = 1
    follow(trainer)
    loader = trainer.get_eval_dataloader()
    assert type(loader.batch_sampler) is DistributedBatchSampler and loader.batch_sampler.consumed_samples == 6
    assert [each["labels"].shape[0] for each in loader] == [2]


@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize("as_layer", [True, False])
def test_the_loss_function_of_a_pipeline_is_recorded_and_does_not_change(several, as_layer):
    class Criterion(paddle.nn.Layer):
        def forward(self, logits, label):
            return criterion(logits, label)

    pipeline = Pipeline(last=True, several=several)
    function = Criterion() if as_layer else criterion
    del pipeline._layers._loss_fn
    pipeline._layers._loss_fn = [function] if several else function
    trainer = Trainer(0, 1, pipeline)
    follow(trainer)
    for _ in range(2):
        assert trainer.evaluate()["eval_loss"] == pytest.approx(loss_of(), rel=1e-12)
    kept = pipeline._layers._loss_fn
    assert (kept[0] if several else kept) is function
    assert len(pipeline._layers.sublayers()) == (as_layer and not several)


def test_batches_that_a_pipeline_does_not_run_are_a_warning():
    trainer = Trainer(0, 1, Pipeline(last=True), accumulated=2)
    follow(trainer)
    with pytest.warns(UserWarning, match=r"skipped the last 1 batches .* make the number of batches a multiple"):
        assert trainer.evaluate()["eval_loss"] == pytest.approx(loss_of(range(TEXTS - 1)), rel=1e-12)


def test_samples_that_a_sampler_leaves_out_on_purpose_are_reported():
    class Strict(paddle.io.DistributedBatchSampler):
        def __init__(self, *given, **named):
            super().__init__(*given, **named, drop_last=True)

    trainer = Trainer(0, 3, sampler=Strict)
    following = follow(trainer)
    with pytest.warns(UserWarning, match="Strict leaves 1 of 13 samples out"):
        trainer.evaluation_loop(trainer.get_eval_dataloader(), "Evaluation", True)
    assert following.metrics.holds_samples()


def test_batches_without_labels_or_logits_are_an_error_that_says_so():
    trainer = Trainer(0, 1)
    trainer.label_names = ["targets"]
    follow(trainer)
    with pytest.raises(fm.InvalidInputError, match=r"a batch has no targets; evaluate with labels"):
        trainer.evaluate()

    class Mute(Trainer):
        def prediction_step(self, *given, **named):
            loss, _, labels = super().prediction_step(*given, **named)
            return loss, None, labels

    trainer = Mute(0, 1)
    follow(trainer)
    with pytest.raises(fm.InvalidInputError, match=r"the model returns no logits .*of='mean_losses' needs none"):
        trainer.evaluate()


@pytest.mark.numpy_only
def test_an_object_that_is_not_a_trainer_is_refused():
    with pytest.raises(fm.InvalidInputError, match="trainer is a SimpleNamespace without prediction_step; it must be"):
        follow(SimpleNamespace(evaluation_loop=None))


def test_what_metrics_are_given_is_one_of_two():
    with pytest.raises(fm.InvalidInputError, match=r"^of must be one of 'logits', 'mean_losses', not 'losses'"):
        follow(Trainer(0, 1), of="losses")
