"""What a user's script starts before it computes metrics, by the launch."""

from __future__ import annotations

from typing import Any

from tests.contract import static_mode


def start(launch: str) -> Any:
    """Start what a launch has beside fleetmetrics.

    Args:
        launch: as in `cluster.run`.

    Returns:
        `fleet.util`, which Paddle itself makes local unless its Gloo is on; None without a launcher.
    """
    import paddle
    from paddle.distributed import fleet

    if launch == "collective":
        paddle.distributed.init_parallel_env()
    elif launch != "bare":
        with static_mode():
            fleet.init(is_collective=False)
    return None if launch == "bare" else fleet.util
