"""One process of a job that evaluates files under Paddle's own launcher."""

from __future__ import annotations

import json
from typing import Any

import paddle
from cluster import arguments, error_text, report

import fleetmetrics as fm
from fleetmetrics.evaluation.question import versus

versus._GROUPS = 64  # a delta keeps a histogram for each


def found(**given: Any) -> dict[str, Any]:
    """What an evaluation has found, except for when it was made."""
    result = fm.evaluate(**{**arguments()["asked"], **given}).to_dict()
    for data in (result["data"], result["baseline"]["data"]):
        del data["date"]
    return json.loads(json.dumps(result))  # type: ignore[no-any-return]


def main() -> None:
    report(
        users=found(user="uid", metrics="auc,log_loss,gauc"),
        joined=found(join="inner", join_on="id"),
        wrong=error_text(lambda: found(join="inner", join_on="key")),
        dynamic=paddle.in_dynamic_mode(),
    )
    join = "inner" if fm.get_communicator().rank == 0 else None
    report(disagree=error_text(lambda: found(join=join, join_on="id")))


main()
