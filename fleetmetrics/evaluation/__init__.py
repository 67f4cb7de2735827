"""From data to a result: what `fleetmetrics.evaluate` returns and the command line prints.

Its modules, from the bottom up: `options` declares the arguments, `option_checks` checks them, `named` and `counted`
hold the metrics, `evidence` the statistics for the test of slices, `versus` what a comparison keeps of both sides,
`probe` the structure of the results, `question` what is asked of each side and the metrics that answer it, `side` the
result of one side, which `side_of_data`, `side_of_states` and `sides_of_workers` make, `matched_rows` the match of both
sides' rows, `slices` the tables of slices with their verdicts, `slice_frame` these by the names of conditions,
`conditions` the checks of a result, `printed` and `result_tables` its output, `result` the result itself, `request` the
way from the arguments to the sides, and `calls` what users call.
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
