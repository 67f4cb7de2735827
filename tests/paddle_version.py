"""Which of Paddle's two program representations is here; a test of the other one is not collected."""

from __future__ import annotations

from typing import Any, Callable

import paddle

#: True on Paddle 3.x, where static programs are PIR; False on 2.6, where they are the legacy graph.
PIR: bool = int(paddle.__version__.partition(".")[0]) >= 3


def on_pir(test: Callable[..., Any]) -> Callable[..., Any] | None:
    """Collect a test where static programs are PIR."""
    return test if PIR else None


def on_legacy_graph(test: Callable[..., Any]) -> Callable[..., Any] | None:
    """Collect a test where static programs are the legacy graph."""
    return None if PIR else test
