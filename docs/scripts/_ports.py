"""Ports for the jobs that the scripts start."""

from __future__ import annotations

import contextlib
import socket


def free_ports(number: int) -> list[int]:
    """Ports that are free now, all different."""
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.socket()) for _ in range(number)]
        for sock in socks:
            sock.bind(("127.0.0.1", 0))
        return [int(sock.getsockname()[1]) for sock in socks]
