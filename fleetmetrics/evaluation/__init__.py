"""From data to a result: what `fleetmetrics.evaluate` returns and the command line prints.

The folders, each of which imports only those above it:

    arguments    the arguments of `evaluate`, each declared once, and their checks
    question     what is asked of each side: the metrics, and the sums that a verdict needs
    sides        what was read of files, frames, saved states or all workers; the match of both sides' rows
    verdicts     what the values say: intervals, and slices that are worse, better or different
    output       conditions, printed tables, and files
    consistency  streams of predictions, such as training and serving, compared row by row

Above them, `result` is the result itself, `request` the way from the arguments to the sides, `calls` what users call,
and `history` a model over days.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fleetmetrics

if TYPE_CHECKING:
    from fleetmetrics.evaluation.calls import compare, evaluate, merge
    from fleetmetrics.evaluation.result import EvaluationResult

__all__ = ["EvaluationResult", "compare", "evaluate", "merge"]
#: Each name is imported at its first use: the command line reads the options without NumPy.
_MODULES = {
    **dict.fromkeys(("compare", "evaluate", "merge"), "fleetmetrics.evaluation.calls"),
    "EvaluationResult": "fleetmetrics.evaluation.result",
}


def __getattr__(name: str) -> Any:
    value = globals()[name] = fleetmetrics._first_use(__name__, name, _MODULES)
    return value
