"""One worker of a Trainer's evaluation: what it prints by itself, and what it prints when it is followed."""

from __future__ import annotations

import warnings

import numpy as np
import paddle
from cluster import arguments, error_text, report

import fleetmetrics as fm
from fleetmetrics.integrations.trainer import follow
from tests.field_samplers import DistributedBatchSampler, MappingDistributedBatchSampler
from tests.trainer import IGNORED, Pipeline, Texts, Trainer

WORKERS = arguments()["workers"]
channel = fm.get_communicator()
rank = channel.rank


def metrics():
    return {
        "loss": fm.TokenLoss(ignore_index=IGNORED),
        "perplexity": fm.Perplexity(ignore_index=IGNORED),
        "accuracy": fm.Accuracy(ignore_index=IGNORED),
    }


def evaluated(trainer, *given, **named):
    follow(trainer, *given, **named)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        values = trainer.evaluate()
    return {**values, "told": sorted({str(each.message) for each in told if each.category is UserWarning})}


class Spoiled(Texts):
    """A text with a logit that is no number, which one worker alone is given."""

    def __getitem__(self, place):
        found = super().__getitem__(place)
        if place == 4:
            found["x"][0, 0] = np.nan
        return found


def windows(sampler, evaluations, **settings):
    """The losses of evaluations of one step each, which go on where the one before has stopped."""
    trainer, found = Trainer(rank, WORKERS, sampler=sampler, max_evaluate_steps=1), []
    follow(trainer, **settings)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(evaluations):
            found.append(trainer.evaluate()["eval_loss"])
    return found, sorted({str(each.message) for each in told if each.category is UserWarning})


trainer = Trainer(rank, WORKERS)
alone = trainer.evaluate()
followed = evaluated(trainer, metrics())
gathered = trainer.gathered
spoiled = error_text(lambda: trainer.evaluate(Spoiled()))
after = trainer.evaluate()  # no trace of the failed one is left
if WORKERS > 1:
    report(
        windows={
            "mapping": windows(MappingDistributedBatchSampler, 3),
            "interleaved": windows(DistributedBatchSampler, 2),
            "means": windows(MappingDistributedBatchSampler, 3, of="mean_losses"),
        }
    )
report(
    alone=alone,
    followed=followed,
    gathered=gathered,
    spoiled=spoiled,
    after=after,
    padded=evaluated(Trainer(rank, WORKERS, sampler=paddle.io.DistributedBatchSampler)),
    means=evaluated(Trainer(rank, WORKERS, sampler=paddle.io.DistributedBatchSampler), of="mean_losses"),
    # All workers are stages of one pipeline, which all see all samples.
    pipeline=evaluated(Trainer(0, 1, Pipeline(rank == WORKERS - 1)), metrics()),
    pipeline_means=evaluated(Trainer(0, 1, Pipeline(rank == WORKERS - 1)), of="mean_losses"),
)
