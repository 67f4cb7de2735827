"""``auc`` and ``ctr_metric_bundle`` of ``paddle.static``'s legacy graph, for both the legacy graph and PIR."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

import paddle

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.static.programs import kind_under_construction
from fleetmetrics.static.variables import StaticState, accumulate, create_state, current_program
from fleetmetrics.support.checks import whole_number_of
from fleetmetrics.support.warning import warn
from fleetmetrics.xp import paddle_ops

__all__ = ["auc", "ctr_metric_bundle"]

#: The numbers of calls by the names that their sources give them.
_calls: Counter[str] = Counter()


def auc(
    input: Any,
    label: Any,
    curve: str = "ROC",
    num_thresholds: int = 2**12 - 1,
    topk: int = 1,
    slide_steps: int = 1,
    ins_tag_weight: Any = None,
    *,
    name: str | None = None,
) -> tuple[Any, Any, list[Any]]:
    """Area under the ROC curve of this worker's samples so far, and of its latest batches, with their statistics.

    It returns what ``paddle.static.auc`` returns in the legacy graph, in the same order; in PIR, Paddle's function
    accumulates nothing. Pass the last two statistics to `fleetmetrics.auc` for the area over all workers; `states`
    lists all four, to reset them.

    Args:
        input: probabilities, ``[n, 1]``; or ``[n, 2]``, of which the last column counts. float64 is rounded to float32.
        label: 0 or 1, int32 or int64, ``[n, 1]``.
        curve: passed on; Paddle's operation always computes the area under the ROC curve.
        num_thresholds: one less than the number of buckets, at least 1.
        topk: without effect, as in Paddle.
        slide_steps: the number of batches of the second area, at least 1; 0: all.
        ins_tag_weight: one number, float32, ``[1, 1]``; 0 if the batch must count in the second area only. None: it
            counts.
        name: the prefix of the statistics' names, by which checkpoints and other workers find them. None: the label's
            source and a digest of the settings and of the sources of all arguments, which are the fed variables and
            the parameters that they are computed from. Calls that have these in common are numbered in their order,
            with a warning if they are in one program.

    Returns:
        ``(auc, batch_auc, [batch_stat_pos, batch_stat_neg, stat_pos, stat_neg])``: two float64 numbers, each 0 while a
        class has no samples, and int64 variables that are persistable.

    Examples:
        >>> import numpy as np, paddle, fleetmetrics
        >>> paddle.enable_static()
        >>> main, startup = paddle.static.Program(), paddle.static.Program()
        >>> with paddle.static.program_guard(main, startup):
        ...     score = paddle.static.data("score", [-1, 1], "float32")
        ...     label = paddle.static.data("label", [-1, 1], "int64")
        ...     area, _, [_, _, stat_pos, stat_neg] = auc(score, label)
        >>> executor, scope = paddle.static.Executor(paddle.CPUPlace()), paddle.static.Scope()
        >>> with paddle.static.scope_guard(scope):
        ...     _ = executor.run(startup)
        ...     batch = {"score": np.float32([[0.1], [0.4], [0.35], [0.8]]), "label": np.array([[0], [0], [1], [1]])}
        ...     float(executor.run(main, feed=batch, fetch_list=[area])[0]), fleetmetrics.auc(stat_pos, stat_neg)
        (0.75, 0.75)
        >>> paddle.disable_static()
    """
    current_program()
    width = whole_number_of("num_thresholds", num_thresholds, 1) + 1
    steps = whole_number_of("slide_steps", slide_steps, 0)
    window, whole = ((1 + steps) * width + 1,), (1, width)
    shapes = {"batch_stat_pos": window, "batch_stat_neg": window, "stat_pos": whole, "stat_neg": whole}
    input, label = paddle_ops.cast(input, "float32"), paddle_ops.cast(label, "int64")  # as Paddle's operation requires
    name = _name_of_call("auc", [width, steps], input, label, ins_tag_weight) if name is None else name
    statistics = [create_state(f"{name}.{statistic}", shape).variable for statistic, shape in shapes.items()]
    batch_positive, batch_negative, positive, negative = statistics
    kind, settings = kind_under_construction(), {"curve": curve, "num_thresholds": width - 1}
    # With a weight of 0, Paddle's operation removes the oldest step from the window without moving on.
    batch_area = kind.auc([input, label, None], batch_positive, batch_negative, {**settings, "slide_steps": steps})
    area = kind.auc([input, label, ins_tag_weight], positive, negative, {**settings, "slide_steps": 0})
    return area, batch_area, statistics


def ctr_metric_bundle(
    input: Any, label: Any, ins_tag_weight: Any = None, *, name: str | None = None
) -> tuple[Any, ...]:
    """Sums over this worker's samples so far, for the errors and rates of a click-through model.

    It returns what ``paddle.static.ctr_metric_bundle`` returns in the legacy graph, in the same order, but in float64
    and int64; in PIR, Paddle's function fails. For values over all workers, use ``fleetmetrics.mae(abserr, ins_num)``
    and similar functions.

    Args:
        input: probabilities, float32 or float64, ``[n, 1]``.
        label: 0 or 1, integers or floats, in the shape of the input.
        ins_tag_weight: 0 if the batch must not count, else 1, ``[1, 1]``. None: it counts. Paddle leaves it out of
            ``q`` and ``ins_num`` only.
        name: see `auc`.

    Returns:
        ``(sqrerr, abserr, prob, q, pos_num, ins_num)``, variables ``[1]``: the sums of squared errors, absolute errors,
        predictions and sigmoids of predictions, float64; the numbers of positive samples and of samples, int64.
    """
    current_program()
    if list(input.shape) != list(label.shape):
        raise InvalidInputError(
            f"input and label must have one shape, not {list(input.shape)} and {list(label.shape)}; reshape one of them"
        )
    prediction, truth = paddle_ops.cast(input, "float64"), paddle_ops.cast(label, "float64")
    error = paddle.subtract(prediction, truth)
    sums = {
        "sqrerr": paddle.square(error),
        "abserr": paddle.abs(error),
        "prob": prediction,
        "q": paddle_ops.sigmoid(prediction),
        "pos_num": paddle_ops.cast(label, "int64"),
        "ins_num": paddle.ones_like(paddle_ops.cast(label, "int64")),
    }
    states: list[StaticState] = []
    name = _name_of_call("ctr_metric_bundle", [], prediction, truth, ins_tag_weight) if name is None else name
    for statistic, values in sums.items():
        total = paddle_ops.sum(values)
        state = create_state(f"{name}.{statistic}", [1], paddle_ops.state_dtype(total))
        if ins_tag_weight is not None:
            weight = paddle_ops.cast(paddle.reshape(ins_tag_weight, [1]), state.dtype)
            total = paddle.multiply(paddle.reshape(total, [1]), weight)
        accumulate(state, total)
        states.append(state)
    return tuple(state.variable for state in states)


def _name_of_call(function: str, settings: list[int], *arguments: Any) -> str:
    """A prefix for the variables of a call, the same wherever among other calls it stands."""
    kind = kind_under_construction()
    sources = [[] if argument is None else kind.sources(argument) for argument in arguments]
    digest = hashlib.sha256(json.dumps([settings, sources]).encode()).hexdigest()[:8]
    name = ".".join(["static", function, *sources[1][:1], digest])
    number = _calls[name]
    _calls[name] += 1
    if any(variable.startswith(name) for variable in kind.variables(current_program())):
        warn(
            f"static.{function}: an earlier call in this program has arguments that are computed from the same "
            f"variables, and settings that are equal, so only the order of the calls tells their statistics apart "
            f"({name}). If it changes, a checkpoint or another worker swaps them; give each call a name="
        )
    return f"{name}_{number}" if number else name
