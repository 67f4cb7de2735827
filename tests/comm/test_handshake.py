"""How a worker finds rank 0."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from fleetmetrics.comm import handshake
from fleetmetrics.comm.job import Job
from fleetmetrics.errors import AuthenticationError
from tests.distributed.cluster import AT_ONCE

pytestmark = pytest.mark.numpy_only


def test_a_refused_worker_does_not_wait_for_a_rank_0_that_has_ended_since() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        job = Job(1, 2, endpoint=f"127.0.0.1:{listener.getsockname()[1]}")

        def refuse() -> None:
            for _ in range(handshake._UNPROVEN):
                sock, _ = listener.accept()
                with sock:
                    guest = handshake.Guest(sock, b"of another secret")
                    while not guest.read():
                        pass
                    guest.answer(handshake.UNPROVEN)
            listener.close()

        thread = threading.Thread(target=refuse)
        thread.start()
        start = time.monotonic()
        with pytest.raises(AuthenticationError, match="rank 1 could not prove"):
            handshake.connect(job, b"of this one", start + 60)
        assert time.monotonic() - start < AT_ONCE
        thread.join()
