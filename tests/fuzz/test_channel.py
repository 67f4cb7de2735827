"""Whatever a stranger, a faulty worker or a faulty rank 0 sends, the channel refuses it by name, within its memory.

`make fuzz` tries more of it, with hypothesis and with atheris.
"""

from __future__ import annotations

import os
import tracemalloc
from typing import Callable

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.fuzz.hostile import TARGETS

TRIES = int(os.environ.get("FUZZ", "0"))
#: What a sealed head may take at once, and room beside it.
MOST = 2**26 + 2**23


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)
@settings(
    max_examples=TRIES or 40,
    derandomize=not TRIES,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.one_of(st.binary(max_size=300), st.binary(min_size=20, max_size=40)))
@example(data=b"")
@example(data=b"[" * 200_000)
@example(data=b'auc\njson ["\xed\xa0\x80"]')
@example(data=b'["__doc__", "text", 1]')
@example(data=b"\xe0\0sum%su")  # an array of a type without width
@example(data=b"\x01\x00\xd5\x00\x01\x9fD")  # zero texts of 2 GiB each
@example(data=b"\x02\xff\x00\x01\x02" + b"\xff" * 60)
def test_bytes_of_a_peer_are_read_or_refused(target: Callable[[bytes], None], data: bytes) -> None:
    target(data)  # once before it is measured: what is made once stays
    tracemalloc.start()
    try:
        target(data)
        assert tracemalloc.get_traced_memory()[1] < MOST + 100 * len(data)
    finally:
        tracemalloc.stop()
