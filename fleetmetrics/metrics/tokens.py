"""Losses of language models, over all tokens that count, independent of batches, padding and workers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Sequence

import numpy as np

from fleetmetrics.base.metric import NoColumns, Settings, Undefinable
from fleetmetrics.batch import Batch, statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.metrics import task as tasks
from fleetmetrics.metrics.classification.losses import log_softmax
from fleetmetrics.metrics.task import Task, adds_up
from fleetmetrics.support.checks import choice_of
from fleetmetrics.support.typed import Unpack

__all__ = ["BitsPerByte", "Perplexity", "TokenLoss"]

_Of = Literal["logits", "token_losses", "mean_losses"]
#: The names of the first two arguments of `add`, by the input of a metric.
_ARGUMENTS = {
    "logits": ("prediction", "label", "weight", "mask"),
    "token_losses": ("loss", "label", "weight", "mask"),
    "mean_losses": ("loss", "tokens", "weight", "mask"),
}
#: How far below 0 a loss may be that was computed in low precision.
_ROUNDING = 1e-3
#: How many samples to check first for probabilities instead of logits.
_FIRST = 64


# -- what is required -------------------------------------------------------------------------------------


class _Logits(NamedTuple):
    """Whether the logits of a sample give its label a finite loss."""

    task: Task

    def __call__(self, batch: Batch) -> Any:
        return batch.xp.isfinite(_losses(batch, self.task))


class _NoProbabilities(NamedTuple):
    """False for all samples, if those that count are probabilities of all classes without an exception."""

    task: Task

    def __call__(self, batch: Batch) -> Any:
        xp, live = batch.xp, _live(batch, self.task)
        place, first = next(iter(batch.blocks()))
        alike = _all_of(xp, adds_up(xp, first[:_FIRST]), None if live is None else live[place][:_FIRST])
        if not xp.is_eager(alike):
            return xp.logical_and(xp.logical_not(alike), xp.ones_like(xp.cast(batch.labels, "bool")))
        if not alike.item():
            return None
        flags = batch.of_rows(lambda scores: adds_up(xp, scores))
        return xp.logical_not(flags) if _all_of(xp, flags, live).item() else None


def _all_of(xp: Any, flags: Any, live: Any) -> Any:
    """Whether there are samples that count, and all have the flag."""
    if live is None:
        live = xp.ones_like(flags)
    met = xp.sum(xp.logical_and(flags, live))
    return xp.logical_and(xp.equal(met, xp.sum(live)), xp.greater(met, 0))


def _is_loss(batch: Batch) -> Any:
    return _at_least_0(batch.xp, batch.values)


def _at_least_0(xp: Any, values: Any) -> Any:
    return xp.logical_and(xp.isfinite(values), xp.logical_not(xp.greater(-values, _ROUNDING)))


def _of_counted_tokens(batch: Batch) -> Any:
    """Whether a mean loss is a loss; that of no token may be anything."""
    xp = batch.xp
    return xp.logical_or(xp.logical_not(xp.cast(batch.labels, "bool")), _is_loss(batch))


def _is_number_of_tokens(batch: Batch) -> Any:
    xp, tokens = batch.xp, batch.labels
    whole = xp.equal(tokens, xp.cast(xp.cast(tokens, "int64"), str(tokens.dtype).rpartition(".")[2]))
    return xp.logical_and(xp.is_weight(tokens), whole)


def _is_size(batch: Batch) -> Any:
    sizes = batch.column("bytes")
    if isinstance(sizes, np.ndarray) and sizes.dtype.kind == "U":
        raise InvalidInputError("bytes must hold integers, not strings: give len(text.encode()) of each")
    return batch.xp.is_weight(batch.xp.asarray(sizes, "bytes"))


LOSS = Requirement("prediction", "a loss: a finite number of at least 0 (the negative of a log-likelihood)", _is_loss)
MEAN = LOSS._replace(holds=_of_counted_tokens)
TOKENS = Requirement("label", "a whole number of at least 0, the number of tokens", _is_number_of_tokens)
BYTES = Requirement("bytes", "a whole number of at least 0, the bytes of the text", _is_size)


def _logits_rules(task: Task) -> tuple[Requirement, ...]:
    are_logits: Any = _NoProbabilities(task)
    have_losses: Any = _Logits(task)
    return (
        Requirement(
            "prediction",
            "logits, but all of these are probabilities (give their logarithms, or give LogLoss the probabilities)",
            are_logits,
        ),
        Requirement(
            "prediction",
            "logits without nan and inf; -inf is allowed for classes other than the label's",
            have_losses,
        ),
    )


# -- what a batch adds -------------------------------------------------------------------------------------


def _live(batch: Batch, task: Task) -> Any:
    """Flags of the samples that count and whose label is not ignored; None: all."""
    counted = tasks.counted(batch, task)
    if counted is None or batch.counting is None:
        return batch.counting if counted is None else counted
    return batch.xp.logical_and(counted, batch.counting)


def _losses(batch: Batch, task: Task) -> Any:
    """The loss of each token, float64; 0 where it does not count. The only look at all logits."""

    def of_block(scores: Any, label: Any) -> Any:
        return -log_softmax(batch.xp, scores, label)

    def made() -> Any:
        return batch.of_flagged_rows(_live(batch, task), of_block, batch.xp.cast(batch.labels, "int64"))

    return batch.once((_losses, task), made)


@statistic
def _sum_of_losses(batch: Batch, of: _Of, task: Task) -> Any:
    if of == "logits":
        return batch.weighted_sum(_losses(batch, task), zero_at_zero=True)
    if of == "token_losses":
        return batch.weighted_sum(tasks.zero_unless(batch, tasks.counted(batch, task), batch.values))
    xp = batch.xp
    sums = xp.multiply(batch.values, batch.targets)
    return batch.weighted_sum(xp.where(xp.cast(batch.labels, "bool"), sums, xp.zeros_like(sums)))


@statistic
def _tokens(batch: Batch, of: _Of, task: Task) -> Any:
    if of == "mean_losses":
        return batch.weighted_sum(batch.xp.cast(batch.labels, "int64"))
    return tasks.counted_total(batch, task)


@statistic
def _bytes(batch: Batch, of: _Of, task: Task) -> Any:
    xp = batch.xp
    sizes = xp.cast(xp.asarray(batch.column("bytes"), "bytes"), "int64")
    counted = None if of == "mean_losses" else tasks.counted(batch, task)
    if "bytes" in batch.columns_by_row:
        counted = batch.first_of_rows(counted)
    return batch.weighted_sum(tasks.zero_unless(batch, counted, sizes))


class TokenLoss(Undefinable[float]):
    """Mean negative log-likelihood of the tokens that count, in nats: the evaluation loss of a language model.

    Formula: ``sum(w * l) / sum(w)`` over the tokens of all workers, where ``l`` is ``-ln(softmax(logits)[label])``; in
    float64 for inputs of any dtype. A mean of the means of batches would depend on the number of tokens in each.

    ``add`` takes, by ``of``:

    - ``"logits"``: ``add(logits, label)``, logits ``[n, tokens, classes]`` and the classes of the predicted tokens
      ``[n, tokens]``; or logits of any shape with an axis for the classes (see ``class_axis``). They are read once, in
      blocks, and not copied;
    - ``"token_losses"``: ``add(loss, label)``, the loss of each token ``[n, tokens]``, as from
      ``cross_entropy(reduction="none")``; labels are for ``ignore_index`` only;
    - ``"mean_losses"``: ``add(loss, tokens)``, the mean loss of a batch and the number of its tokens, numbers or arrays
      of equal shape.

    Masks and weights are per row, ``[n]``, or per token. Undefined if no token counts.

    Args:
        of: the kind of values that `add` takes.
        ignore_index: tokens with this label, or one of several in a list, do not count; often -100. Not for mean
            losses.
        class_axis: the axis of the logits that holds the classes; None: the last.

    Examples:
        >>> metric = TokenLoss(ignore_index=-100)
        >>> metric.add([[[2.0, 1.0, 0.0], [5.0, 5.0, 5.0]]], [[0, -100]])
        >>> round(metric.compute(), 6)
        0.407606
        >>> metric = TokenLoss(of="mean_losses")
        >>> metric.add(2.0, tokens=30)
        >>> metric.add(4.0, tokens=10)
        >>> metric.compute()
        2.5
    """

    arguments: tuple[str, ...]
    class_axis: int | None
    of: Any
    requirements: tuple[str | Requirement, ...]
    takes_label: bool | None
    task: Task

    better = "lower"

    def __init__(
        self,
        *,
        of: _Of = "logits",
        ignore_index: int | Sequence[int] | None = None,
        class_axis: int | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        self.of = choice_of("of", of, tuple(_ARGUMENTS))
        self.arguments = _ARGUMENTS[of]
        self.class_axis = tasks.class_axis_of(class_axis)
        self.task = tasks.task_of("multiclass", from_logits=True, ignore_index=ignore_index, by_shape=True)
        if of == "mean_losses" and self.task.ignore_index is not None:
            raise InvalidInputError(f"ignore_index needs of='logits' or of='token_losses', not of={of!r}")
        if of != "logits" and class_axis is not None:
            raise InvalidInputError(f"class_axis needs of='logits', not of={of!r}")
        if of == "token_losses" and self.task.ignore_index is None:
            self.takes_label = None
        self.settle(ignore_index=self.task.ignore_index)
        self.requirements = self._rules(tasks.unless_ignored("class_label", self.task.ignore_index))
        self._declare()

    def formula(self, loss: Any, total: Any) -> float:
        return self._ratio(loss, total, "no token counts (their total weight is 0)")

    def _declare(self) -> None:
        self._declare_loss()
        of_tokens = tasks.total_key(self.task) if self.of != "mean_losses" else None
        self.declare("total", key=of_tokens, statistic=_tokens, settings=("of", "task"))

    def _declare_loss(self) -> None:
        self.declare("loss", dtype="float64", statistic=_sum_of_losses, settings=("of", "task"))

    def _rules(self, label: str | Requirement) -> tuple[str | Requirement, ...]:
        if self.of == "mean_losses":
            return (TOKENS, MEAN)
        if self.of == "token_losses":
            return (tasks.unless_ignored(LOSS, self.task.ignore_index),)
        return (label, *_logits_rules(self.task))

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:
        self._check_shape(batch)
        return self._rules(self.task.of(batch).label_rule if self.of == "logits" else "")

    def _check_shape(self, batch: Batch) -> None:
        if self.of == "logits":
            if batch.label is None:
                raise InvalidInputError("label is missing; give add(prediction, label), or losses to of='token_losses'")
            if not batch.classes:
                raise InvalidInputError(
                    "prediction has the label's shape; it must have one axis more, of the logits of all classes. For "
                    "precomputed losses, use of='token_losses' or of='mean_losses'"
                )
        elif batch.classes:
            raise InvalidInputError(
                f"prediction has an axis of {batch.classes} more than the label; with of={self.of!r} their shapes "
                "must be equal. For logits, use of='logits'"
            )
        elif self.of == "mean_losses" and batch.label is None:
            raise InvalidInputError("tokens, the number of tokens in the mean, is missing; give add(loss, tokens)")
        elif self.of == "token_losses" and self.task.ignore_index is not None and batch.label is None:
            raise InvalidInputError("label is missing, and ignore_index leaves out tokens by their labels")
        elif self.of == "token_losses" and batch.label is batch.mask is None and batch.full is None and batch.rows == 1:
            raise InvalidInputError(
                "prediction is one number, the loss of one token or the mean of a batch. Use of='mean_losses' for a "
                "mean and its number of tokens, or give the loss of one token with its label"
            )

    def add(  # type: ignore[override]  # it takes less than `Metric`
        self,
        prediction: Any = None,
        label: Any = None,
        weight: Any = None,
        mask: Any = None,
        *,
        loss: Any = None,
        tokens: Any = None,
        **columns: Unpack[NoColumns],
    ) -> None:
        """Accumulate one batch of the kind that ``of`` names.

        Args:
            prediction: logits.
            label: the classes of the tokens.
            weight: one number of at least 0 per row, or per token; None: 1.
            mask: one flag per row, or per token; False leaves it out. None: all count.
            loss: losses, instead of logits.
            tokens: the number of tokens behind each mean loss, instead of labels.
            **columns: as for `Metric.add`.

        Raises:
            InvalidInputError: as for `Metric.add`; or an argument belongs to another ``of``.
        """
        for name, value, place in (("loss", loss, 0), ("tokens", tokens, 1)):
            if value is not None and self.arguments[place] != name:
                raise InvalidInputError(
                    f"{self.name_in_errors()}: {name} does not belong to of={self.of!r}, which takes "
                    f"add({self.arguments[0]}, {self.arguments[1]})"
                )
        super().add(
            loss if prediction is None else prediction, tokens if label is None else label, weight, mask, **columns
        )


class Perplexity(TokenLoss):
    """The exponential of the mean negative log-likelihood of the tokens.

    Formula: ``exp(sum(w * l) / sum(w))``, with ``l`` as for `TokenLoss`; infinity if the mean is above 709.78 nats, the
    limit of float64. Perplexity p means a loss like that of a choice among p equally likely tokens. Inputs and
    arguments as for `TokenLoss`. Undefined if no token counts.

    Examples:
        >>> metric = Perplexity()
        >>> metric.add([[[1.0, 1.0], [1.0, 1.0]]], [[0, 1]])
        >>> metric.compute()
        2.0
    """

    def formula(self, loss: Any, total: Any) -> float:
        mean = super().formula(loss, total)
        try:
            return math.exp(mean) if total else mean
        except OverflowError:
            return math.inf


class BitsPerByte(TokenLoss):
    """The negative log-likelihood of a text in bits per byte: comparable between models with different tokenizers.

    Formula: ``sum(w * l) / (ln(2) * sum(w * b))``, with ``l`` as for `TokenLoss` and ``b`` the number of bytes.

    ``add(..., bytes=)`` takes what `TokenLoss` takes, and the sizes of the texts in bytes: integers, one per row, which
    count once for a row with a token that counts; or one per token. Undefined without bytes.

    Examples:
        >>> metric = BitsPerByte(of="token_losses")
        >>> metric.add([[2.0, 1.0, 3.0]], bytes=[4])
        >>> round(metric.compute(), 6)
        2.164043
    """

    columns: tuple[str, ...] = ("bytes",)

    def formula(self, loss: Any, size: Any) -> float:
        value = self._ratio(loss, size, "there are no bytes")
        return value / math.log(2) if size else value

    if TYPE_CHECKING:

        def add(  # type: ignore[override]  # it takes less than `Metric`
            self,
            prediction: Any = None,
            label: Any = None,
            weight: Any = None,
            mask: Any = None,
            *,
            loss: Any = None,
            tokens: Any = None,
            bytes: Any = None,
        ) -> None: ...

    def _declare(self) -> None:
        self._declare_loss()
        self.declare("size", statistic=_bytes, settings=("of", "task"))

    def _rules(self, label: str | Requirement) -> tuple[str | Requirement, ...]:
        return (*super()._rules(label), BYTES)

    def _check_shape(self, batch: Batch) -> None:
        super()._check_shape(batch)
        if batch.by_element == "weight" and "bytes" in batch.columns_by_row:
            raise InvalidInputError("weight has one entry per token and bytes one per row; give bytes per token")
