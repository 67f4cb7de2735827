"""What the example does about servers that are not there yet: `fleet.init_worker` would end the process."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "wide_and_deep"


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import servers

    return servers


def test_a_worker_says_which_server_does_not_answer(servers, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        endpoint = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr(servers.fleet, "server_endpoints", lambda: [endpoint])
        with pytest.raises(ConnectionError, match=f"the parameter server at {endpoint} does not answer"):
            servers.await_servers(patience=0.2)


def test_a_worker_waits_for_a_server_that_comes_later(servers, monkeypatch):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        monkeypatch.setattr(servers.fleet, "server_endpoints", lambda: [f"127.0.0.1:{server.getsockname()[1]}"])
        later = threading.Timer(0.3, server.listen)
        later.start()
        servers.await_servers(patience=30)
        later.join()


def test_the_worker_waits_before_init_worker():
    train = (EXAMPLE / "train.py").read_text()
    assert 0 < train.index("servers.await_servers()") < train.index("fleet.init_worker()")
